/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements: the operand of a predicate, and what an orchestration reads or writes itself. */
#include "graph/graph.h"

bool graph_find_element(const struct pto_tensor *t, uint32_t ndims, const uint32_t indices[],
                        struct pto_tensor *out, enum data_fault *why_out)
{
    uint64_t start;

    *why_out = DATA_TENSOR;
    if (t == NULL || t->ndims - 1 >= PTO_MAX_DIMS || t->dtype >= PTO_DTYPE_COUNT)
        return false;
    *why_out = DATA_NDIMS;
    if (ndims > t->ndims || (ndims != 0 && indices == NULL))
        return false;
    *why_out = DATA_INDEX;
    start = t->start;
    for (uint32_t d = 0; d < t->ndims; d++) {
        uint32_t index = d < ndims ? indices[d] : 0;

        if (index >= t->shapes[d])
            return false;
        start += (uint64_t)index * t->strides[d];
    }
    if (start >= t->size / pto_dtype_size(t->dtype))
        return false;
    *out = *t;
    out->start = start;
    out->ndims = 1;
    out->shapes[0] = 1;
    out->strides[0] = 1;
    pto_tensor_update(out);
    return true;
}

int graph_element(struct graph *g, const struct pto_tensor *t, uint32_t ndims,
                  const uint32_t indices[], enum fault fault, struct pto_tensor *out)
{
    enum data_fault why;

    return graph_find_element(t, ndims, indices, out, &why) ? PTO_OK
                                                            : graph_refuse(g, fault, -1, why);
}

/* A live slot's descriptors do not change, so the submitter may read them while the task runs. */
static bool is_user(struct slot *s, const struct geom *element, bool with_readers)
{
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        const struct pto_tensor *x = &s->tensor[i];
        uint32_t use = pto_tag_use(x->tag);
        struct geom geom;

        if (use == 0 || (x->manual_dep && (use & PTO_CREATES) == 0) ||
            ((use & PTO_WRITES) == 0 && !with_readers))
            continue;
        geom_init_safe(&geom, x);
        if (overlap_safe(element, &geom) != OVERLAP_NONE)
            return true;
    }
    if (with_readers && (s->flags & SLOT_HAS_PREDICATE) != 0) {
        const struct slot_predicate *p = slot_predicate(s);

        return p->addr < element->hi && p->addr + p->bytes > element->lo;
    }
    return false;
}

uint32_t graph_find_user(struct graph *g, const struct pto_tensor *element, bool with_readers,
                         uint32_t from, uint32_t *seq_out)
{
    struct geom geom;

    if (g->deps == PTO_DEPS_SAFE && !g->has_unlisted) {
        struct ref user = region_find_user(g, element, with_readers);

        *seq_out = user.seq;
        if (!g->regions.is_short)
            return user.slot;
    }
    geom_init_safe(&geom, element);
    for (uint32_t number = from; number < g->info_count; number++) {
        const struct slot_info *info = &g->info[number];

        if (info->seq != 0 && is_user(graph_slot(g, info->line), &geom, with_readers)) {
            *seq_out = info->seq;
            return number;
        }
    }
    return 0;
}
