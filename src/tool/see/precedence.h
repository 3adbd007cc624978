/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers whether one node of a graph comes before another, that is, whether a path of edges leads
 * from the one to the other. Every edge leads from a lower to a higher node.
 *
 * Most questions are answered at once: by a direct edge, by the depth of the nodes (a path makes it
 * larger), or by a spanning tree (an ancestor comes before its descendants). The rest need a search
 * backwards, which gives up after a number of steps. see_precedence_settle answers many such
 * questions together.
 */
#ifndef PTO_SEE_PRECEDENCE_H
#define PTO_SEE_PRECEDENCE_H

#include <stdbool.h>
#include <stdint.h>

enum see_answer { SEE_ANSWER_BEFORE, SEE_ANSWER_UNORDERED, SEE_ANSWER_OPEN };

struct see_precedence {
    uint32_t count;
    uint64_t *from; /* predecessors of node n begin at before[from[n]]; count + 1 entries */
    uint32_t *before;
    uint32_t *depth; /* for each node: number of edges on the longest path to it */
    /*
     * for each node: position in a preorder of the spanning tree; descendants follow without a gap
     */
    uint32_t *enter;
    uint32_t *size; /* for each node: number of nodes of its subtree, itself included */
    uint32_t *mark; /* for each node: number of the latest search that visited it */
    uint32_t *stack;
    uint32_t search; /* number of the latest search */
};

/* A question, whether `from` comes before `to`, and its answer. */
struct see_question {
    uint32_t from, to;
    uint32_t tag[2]; /* not used here; the caller may store anything */
    uint8_t answer;
};

/*
 * Computes the remaining arrays from `count`, `from` and `before`, which the caller has filled in.
 * see_precedence_free frees all of them. Returns PTO_OK or PTO_ENOMEM.
 */
int see_precedence_make(struct see_precedence *p);
void see_precedence_free(struct see_precedence *p);

/* Answers whether `from` comes before `to`, with a search of at most `steps` steps. */
enum see_answer see_precedence_ask(struct see_precedence *p, uint32_t from, uint32_t to,
                                   uint32_t steps);
/* Sorts the questions by `from` and answers all of them. Returns PTO_OK or PTO_ENOMEM. */
int see_precedence_settle(const struct see_precedence *p, struct see_question *question,
                          uint64_t count);

#endif
