/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains over the chips of a worker (tree_domain.c), and over chips that are cards (tree_cards.c).
 */
#ifndef PTO_TREE_DOMAIN_H
#define PTO_TREE_DOMAIN_H

#include "pto/worker_domain.h"
#include "tree/tree_wire.h"

struct tree;
struct tree_domain;
struct tree_run;

/* The following is defined in tree_domain.c. */
/* Counts a task whose argument `what`, such as "argument 3", is an address in the domain. */
int tree_domain_use(struct tree_domain *d, const char *what, struct pto_error *error);
/*
 * Called when a task that uses the domain is over. Frees the domain if it was closed and this was
 * the last such task.
 */
void tree_domain_unuse(struct tree *t, struct tree_domain *d);
/*
 * Called when a task that used the domain has failed: stops kernels of other members, which may
 * wait for that task in vain.
 */
void tree_domain_lose(struct tree *t, struct tree_domain *d);
/* Closes the domains that a run has opened, when the run has ended. */
void tree_domains_of_run(struct tree *t, const struct tree_run *run);
/* Marks the domains of a dead child as lost. */
void tree_domains_child_died(struct tree *t, uint32_t child);
void tree_forget_domains(struct tree *t);

/* The following is defined in tree_cards.c. */
/* Whether the worker's chips are cards, which cannot access the worker's memory. */
bool tree_has_cards(const struct tree *t);
/* Makes a domain in the worker's arena, whose members the caller fills in; NULL: out of memory. */
struct wire_domain *tree_cards_make(struct tree *t, uint32_t count, uint64_t window_bytes);
/* Makes the member children create their windows and contexts. Releases the lock while it waits. */
int tree_cards_open(struct tree *t, struct wire_domain *w, struct pto_error *error);
/* Stops kernels that wait for other members of the domain. */
void tree_cards_lose(struct tree *t, struct wire_domain *w);
/* Called when no task uses the domain any more: makes the member children release their parts. */
void tree_cards_end(struct tree *t, struct wire_domain *w);
/* Whether the child of this member has released its part of the domain. */
bool tree_cards_has_left(const struct wire_domain *w, uint32_t rank);

#endif
