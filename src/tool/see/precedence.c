/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/precedence.h"

#include <stdlib.h>
#include <string.h>

#include "pto/status.h"

enum {
    SETTLE_WORDS = 8,
    /* number of different start nodes for which one pass over the graph can answer questions */
    SETTLE_SOURCES = 64 * SETTLE_WORDS,
    NO_NODE = UINT32_MAX,
};

/*
 * Makes the spanning tree, in which the parent of a node is its latest predecessor. A node comes
 * after its parent, so sizes are added up from the last node to the first, and preorder positions
 * are assigned from the first to the last.
 */
static void precedence_make_tree(struct see_precedence *p, uint32_t *parent, uint32_t *next)
{
    uint32_t roots = 0;

    for (uint32_t n = 0; n < p->count; n++) {
        parent[n] = NO_NODE;
        p->size[n] = 1;
        p->depth[n] = 0;
        for (uint64_t k = p->from[n]; k < p->from[n + 1]; k++) {
            uint32_t b = p->before[k];

            if (parent[n] == NO_NODE || b > parent[n])
                parent[n] = b;
            if (p->depth[b] + 1 > p->depth[n])
                p->depth[n] = p->depth[b] + 1;
        }
    }
    for (uint32_t n = p->count; n-- > 0;)
        if (parent[n] != NO_NODE)
            p->size[parent[n]] += p->size[n];
    for (uint32_t n = 0; n < p->count; n++) {
        uint32_t *at = parent[n] != NO_NODE ? &next[parent[n]] : &roots;

        p->enter[n] = *at;
        *at += p->size[n];
        next[n] = p->enter[n] + 1;
    }
}

int see_precedence_make(struct see_precedence *p)
{
    size_t bytes = ((size_t)p->count + 1) * sizeof(uint32_t);

    p->depth = malloc(bytes);
    p->enter = malloc(bytes);
    p->size = malloc(bytes);
    p->mark = malloc(bytes);
    p->stack = malloc(bytes);
    p->search = 0;
    if (p->depth == NULL || p->enter == NULL || p->size == NULL || p->mark == NULL ||
        p->stack == NULL)
        return PTO_ENOMEM;
    precedence_make_tree(p, p->mark, p->stack);
    memset(p->mark, 0, bytes);
    return PTO_OK;
}

void see_precedence_free(struct see_precedence *p)
{
    free(p->from);
    free(p->before);
    free(p->depth);
    free(p->enter);
    free(p->size);
    free(p->mark);
    free(p->stack);
    *p = (struct see_precedence){ 0 };
}

static bool is_ancestor(const struct see_precedence *p, uint32_t from, uint32_t to)
{
    return p->enter[to] - p->enter[from] < p->size[from];
}

enum see_answer see_precedence_ask(struct see_precedence *p, uint32_t from, uint32_t to,
                                   uint32_t steps)
{
    uint32_t top = 0;

    if (from == to || is_ancestor(p, from, to))
        return SEE_ANSWER_BEFORE;
    if (from > to || p->depth[from] >= p->depth[to])
        return SEE_ANSWER_UNORDERED;
    /* the number of searches has wrapped around, so the marks of earlier searches are cleared */
    if (++p->search == 0) {
        memset(p->mark, 0, p->count * sizeof(*p->mark));
        p->search = 1;
    }
    p->stack[top++] = to;
    while (top != 0) {
        uint32_t n = p->stack[--top];

        for (uint64_t k = p->from[n]; k < p->from[n + 1]; k++) {
            uint32_t b = p->before[k];

            if (b < from || p->mark[b] == p->search)
                continue;
            if (is_ancestor(p, from, b))
                return SEE_ANSWER_BEFORE;
            if (p->depth[b] <= p->depth[from])
                continue;
            if (steps-- == 0)
                return SEE_ANSWER_OPEN;
            p->mark[b] = p->search;
            p->stack[top++] = b;
        }
    }
    return SEE_ANSWER_UNORDERED;
}

/* ---- answering many questions together ---- */

static int questions_by_source(const void *a, const void *b)
{
    const struct see_question *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/*
 * Propagates along the edges, from the first to the last node, which of the sources come before
 * each node. There is a bit for each source.
 */
static void settle_spread(const struct see_precedence *p, const uint32_t *source, uint32_t sources,
                          uint32_t last, uint64_t (*bits)[SETTLE_WORDS])
{
    uint32_t first = source[0], next = 0;

    for (uint32_t n = first; n <= last; n++) {
        uint64_t *own = bits[n - first];

        memset(own, 0, sizeof(bits[0]));
        for (uint64_t k = p->from[n]; k < p->from[n + 1]; k++)
            if (p->before[k] >= first)
                for (uint32_t w = 0; w < SETTLE_WORDS; w++)
                    own[w] |= bits[p->before[k] - first][w];
        if (next < sources && source[next] == n) {
            own[next / 64] |= 1ull << next % 64;
            next++;
        }
    }
}

int see_precedence_settle(const struct see_precedence *p, struct see_question *question,
                          uint64_t count)
{
    uint64_t(*bits)[SETTLE_WORDS] = count != 0 ? malloc(p->count * sizeof(*bits)) : NULL;
    uint32_t source[SETTLE_SOURCES];

    if (count != 0 && bits == NULL)
        return PTO_ENOMEM;
    if (count > 1)
        qsort(question, count, sizeof(*question), questions_by_source);
    for (uint64_t i = 0, end = 0; i < count; i = end) {
        uint32_t sources = 0, last = 0, at = 0;

        for (; end < count; end++) {
            if (sources == 0 || source[sources - 1] != question[end].from) {
                if (sources == SETTLE_SOURCES)
                    break;
                source[sources++] = question[end].from;
            }
            last = question[end].to > last ? question[end].to : last;
        }
        settle_spread(p, source, sources, last, bits);
        for (uint64_t k = i; k < end; k++) {
            while (source[at] != question[k].from)
                at++;
            question[k].answer = (bits[question[k].to - source[0]][at / 64] >> at % 64 & 1) != 0
                                     ? SEE_ANSWER_BEFORE
                                     : SEE_ANSWER_UNORDERED;
        }
    }
    free(bits);
    return PTO_OK;
}
