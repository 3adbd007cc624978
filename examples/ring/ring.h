/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window of the ring: the data, a row for each rank; then as many rows again, twice,
 * for what arrives; then a word for each of these that is 1 once it has arrived. Each
 * step has its own row, so no rank has to ask whether one is free. Rows that the neighbour
 * writes have their own cache lines.
 */
#ifndef RING_H
#define RING_H

#include <pto/window.h>

/* The parameters of a step, from the arguments of its task: data, context, step. */
struct ring {
    PTO_GM const struct pto_comm_context *context;
    uint32_t m, ranks, rank, step;
    PTO_GM float *row;   /* row of the data for this step */
    PTO_GM float *inbox; /* row that arrives in this step */
    PTO_GM int32_t *arrived;
};

static inline PTO_AICORE struct ring ring_at(PTO_GM const int64_t *args, uint32_t step)
{
    PTO_GM const struct pto_tensor *data = pto_arg_tensor(args, 0);
    PTO_GM float *base = PTO_DATA(data, float);
    PTO_GM char *inboxes;
    uint64_t row_bytes;
    struct ring r;

    r.context = pto_arg_context(args, 1);
    r.ranks = data->shapes[0];
    r.m = data->shapes[1];
    r.step = step;
    r.rank = r.context->rank;
    r.row = base + (r.rank + 2 * r.ranks - step) % r.ranks * r.m;
    row_bytes = PTO_WHOLE_LINES(r.m * sizeof(float));
    inboxes = (PTO_GM char *)base + PTO_WHOLE_LINES(r.ranks * r.m * sizeof(float));
    r.inbox = (PTO_GM float *)(inboxes + step * row_bytes);
    r.arrived = (PTO_GM int32_t *)(inboxes + 2 * r.ranks * row_bytes + step * PTO_LINE);
    return r;
}

/* Puts the row of a step into the neighbour's inbox of the step after it. */
static inline PTO_AICORE void ring_send(PTO_GM const int64_t *args, uint32_t step)
{
    struct ring r = ring_at(args, step), next = ring_at(args, step + 1);

    pto_window_put_signal(r.context, (r.rank + 1) % r.ranks, next.inbox, r.row, r.m * sizeof(float),
                          next.arrived, PTO_SIGNAL_SET, 1);
}

#endif
