/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains over the chips of a worker (tree_domain.c), and over those that are cards (tree_cards.c).
 */
#ifndef PTO_TREE_DOMAIN_H
#define PTO_TREE_DOMAIN_H

#include "pto/worker_domain.h"
#include "tree/tree_wire.h"

struct tree;
struct tree_domain;
struct tree_run;

/* tree_domain.c */
/* A task has `what`, "argument 3", of the domain. */
int tree_domain_use(struct tree_domain *d, const char *what, struct pto_error *error);
/* It is over; the domain may be gone then. */
void tree_domain_unuse(struct tree *t, struct tree_domain *d);
/* It has failed: others may wait in vain. */
void tree_domain_lose(struct tree *t, struct tree_domain *d);
/* The run has ended. */
void tree_domains_of_run(struct tree *t, const struct tree_run *run);
/* A child has died. */
void tree_domains_bury(struct tree *t, uint32_t child);
void tree_forget_domains(struct tree *t);

/* tree_cards.c */
/* Whether chips are cards: they do not reach the worker's memory. */
bool tree_has_cards(const struct tree *t);
/* Members are to be filled in; NULL: there is no memory. It is the arena's. */
struct wire_domain *tree_cards_make(struct tree *t, uint32_t count, uint64_t window_bytes);
/* Has the children make their windows and contexts; the lock is left meanwhile. */
int tree_cards_open(struct tree *t, struct wire_domain *w, struct pto_error *error);
/* Kernels that wait for others stop doing so. */
void tree_cards_lose(struct tree *t, struct wire_domain *w);
/* Nobody uses it any more. */
void tree_cards_end(struct tree *t, struct wire_domain *w);
/* Whether the child of this member has left it then. */
bool tree_cards_has_left(const struct wire_domain *w, uint32_t rank);

#endif
