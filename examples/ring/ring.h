/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window of the ring: the data, a row for each rank; then as many rows again, twice,
 * for what arrives; then a word for each of these that is 1 once it has arrived. Each
 * step has a row of its own, so nobody has to ask whether one is free.
 */
#ifndef RING_H
#define RING_H

#include <pto/window.h>

/* What a step works with, from the arguments of its task: data, context, step. */
struct ring {
    const struct pto_comm_context *context;
    uint32_t m, ranks, rank, step;
    float *row;   /* of the data, the one of this step */
    float *inbox; /* what arrives in this step */
    int32_t *arrived;
};

static inline struct ring ring_at(const int64_t *args, uint32_t step)
{
    const struct pto_tensor *data = pto_arg_tensor(args, 0);
    struct ring r = { .context = (const struct pto_comm_context *)(uintptr_t)args[1],
                      .ranks = data->shapes[0],
                      .m = data->shapes[1],
                      .step = step };
    float *base = (float *)pto_tensor_data(data);

    r.rank = r.context->rank;
    r.row = base + (r.rank + 2 * r.ranks - step) % r.ranks * r.m;
    r.inbox = base + (r.ranks + step) * r.m;
    r.arrived = (int32_t *)(base + 3 * r.ranks * r.m) + step;
    return r;
}

/* Puts the row of a step into the neighbour's inbox of the step after it. */
static inline void ring_send(const int64_t *args, uint32_t step)
{
    struct ring r = ring_at(args, step), next = ring_at(args, step + 1);

    pto_window_put_signal(r.context, (r.rank + 1) % r.ranks, next.inbox, r.row, r.m * sizeof(float),
                          next.arrived, PTO_SIGNAL_SET, 1);
}

#endif
