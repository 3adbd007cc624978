/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/links.h"

#include <stdlib.h>

#include "pto/status.h"
#include "tool/see/chip_work.h"

/* The time during which a buffer that a task created was in use. */
struct lifetime {
    uint64_t bytes;
    uint64_t begin_ns, end_ns;
};

/* Returns the node of a task: the index of its kernel, or the number of kernels if it has none. */
static uint32_t node_of(const struct see_recording *r, uint32_t task)
{
    uint32_t kernel = see_task_kernel(r, task);

    return kernel < r->kernel_count ? kernel : r->kernel_count;
}

const char *see_reason_name(uint8_t reason)
{
    static const char *const text[] = {
#define X(name, text) text,
        PTO_RECORDING_REASON_MAP(X)
#undef X
    };

    return reason < PTO_RECORDING_REASON_COUNT ? text[reason] : "unknown";
}

static struct see_link *append_link(struct see_links *l, uint32_t from, uint32_t to)
{
    struct see_link *more = l->link;

    /* the array of links grows when it has 0, 1, 3, 7, ... links */
    if ((l->count & (l->count + 1)) == 0)
        more = realloc(l->link, (2 * (size_t)l->count + 2) * sizeof(*more));
    if (more == NULL)
        return NULL;
    l->link = more;
    more[l->count] = (struct see_link){ .from = from, .to = to };
    return &more[l->count++];
}

int see_links_make(const struct see_recording *r, struct see_links *out)
{
    size_t kernels = r->kernel_count + (size_t)1;
    /* for each pair of kernels: index of its link + 1; 0: none */
    uint32_t *number = calloc(kernels * kernels, sizeof(*number));
    struct see_links l = { .count = 0 };

    if (number == NULL)
        return PTO_ENOMEM;
    for (uint64_t i = 0; i < r->edge_count; i++) {
        const struct see_edge *e = &r->edge[i];
        uint32_t from = node_of(r, e->from), to = node_of(r, e->to);
        uint32_t *at = &number[from * kernels + to];

        if (*at == 0) {
            if (append_link(&l, from, to) == NULL) {
                free(number);
                see_links_free(&l);
                return PTO_ENOMEM;
            }
            *at = l.count;
        }
        l.link[*at - 1].count++;
        l.link[*at - 1]
            .by_reason[e->reason < PTO_RECORDING_REASON_COUNT ? e->reason
                                                              : PTO_RECORDING_REASON_UNKNOWN]++;
    }
    free(number);
    *out = l;
    return PTO_OK;
}

void see_links_free(struct see_links *l)
{
    free(l->link);
    *l = (struct see_links){ .count = 0 };
}

/* ---- memory ---- */

static uint64_t known_ns(uint64_t ns, uint64_t otherwise)
{
    return ns != PTO_RECORDING_NO_TIME ? ns : otherwise;
}

static void find_lifetimes(const struct see_recording *r, struct lifetime *of)
{
    for (uint32_t task = 0; task < r->task_count; task++)
        for (uint64_t i = r->argument_from[task]; i < r->argument_from[task + 1]; i++) {
            const struct see_argument *a = &r->argument[i];
            struct lifetime *life = &of[a->allocation];
            uint64_t end = known_ns(r->task[task].end_ns, r->length_ns);

            if (a->owner >= r->task_count || a->allocation >= r->allocation_count)
                continue;
            life->bytes = a->size > life->bytes ? a->size : life->bytes;
            life->begin_ns = known_ns(r->task[a->owner].submit_ns, 0);
            life->end_ns = end > life->end_ns ? end : life->end_ns;
        }
}

int see_live_bytes(const struct see_recording *r, uint64_t *bytes, uint32_t count)
{
    struct lifetime *life = calloc(r->allocation_count + (size_t)1, sizeof(*life));
    int64_t *change = calloc(count + (size_t)2, sizeof(*change));
    double scale = r->length_ns != 0 ? count / (double)r->length_ns : 0;
    int64_t live = 0;

    if (life == NULL || change == NULL) {
        free(life);
        free(change);
        return PTO_ENOMEM;
    }
    find_lifetimes(r, life);
    for (uint32_t i = 0; i < r->allocation_count; i++) {
        double begin = (double)life[i].begin_ns * scale, end = (double)life[i].end_ns * scale;

        change[begin < count ? (uint32_t)begin : count] += (int64_t)life[i].bytes;
        change[(end < count ? (uint32_t)end : count) + 1] -= (int64_t)life[i].bytes;
    }
    for (uint32_t i = 0; i < count; i++)
        bytes[i] = (uint64_t)(live += change[i]);
    free(life);
    free(change);
    return PTO_OK;
}
