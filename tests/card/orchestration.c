/* SPDX-License-Identifier: Apache-2.0 */
/* Orchestrations for the scheduler program: caches.c has the kernels; at_once.c runs none. */
#include <pto/orch.h>
#include <pto/region.h>

enum { ADD, SCALE, BLOCK, LANE, DEFER, RAISE, NOTHING, OVERRUN };

#define T(i) (&e->tensor[i])
#define ORCH(name)                                                               \
    __attribute__((visibility("default"))) void name(struct pto_orch *o,         \
                                                     const struct pto_entry *e); \
    void name(struct pto_orch *o, const struct pto_entry *e)

static struct pto_tensor_info like(const struct pto_tensor *t)
{
    return pto_tensor_info_make(t->shapes, t->ndims, (enum pto_dtype)t->dtype);
}

/* Tasks without dependencies. */
ORCH(apart)
{
    uint64_t count = pto_scalar(o, 0);

    (void)e;
    for (uint64_t i = 0; i < count; i++)
        pto_aiv(o, NOTHING, PTO_INT(3));
}

/* The same with two blocks each, which any core may run. */
ORCH(blocks)
{
    uint64_t count = pto_scalar(o, 0);

    (void)e;
    for (uint64_t i = 0; i < count; i++)
        pto_aiv(o, NOTHING, PTO_INT(3), PTO_BLOCKS(2));
}

/* Pairs of tasks, the first of which has an output that the second reads. */
ORCH(pairs)
{
    uint64_t count = pto_scalar(o, 0);
    struct pto_tensor_info info = like(T(0));

    for (uint64_t i = 0; i < count; i += 2)
        PTO_SCOPE(o) {
            struct pto_outputs sum = pto_aiv(o, ADD, PTO_IN(T(0)), PTO_IN(T(1)), PTO_OUT(&info));

            pto_aiv(o, SCALE, PTO_INOUT(sum.tensor), PTO_INT(3));
        }
}

/* tensor[2] = 3 * (tensor[0] + tensor[1]) + tensor[1], `scalar` times over, each into the next. */
ORCH(vector)
{
    uint64_t count = pto_scalar(o, 0);
    struct pto_tensor_info info = like(T(0));

    for (uint64_t i = 0; i < count; i++)
        PTO_SCOPE(o) {
            struct pto_outputs sum = pto_aiv(o, ADD, PTO_IN(T(0)), PTO_IN(T(1)), PTO_OUT(&info));

            pto_aiv(o, SCALE, PTO_INOUT(sum.tensor), PTO_INT(3));
            pto_aiv(o, ADD, PTO_IN(sum.tensor), PTO_IN(T(1)), PTO_WRITE(T(2)));
            pto_aiv(o, SCALE, PTO_INOUT(T(0)), PTO_INT(1));
        }
}

/* A chain of tasks for each tensor; the last task reads all of them. */
ORCH(fan)
{
    uint64_t count = pto_scalar(o, 0);

    for (uint64_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < 4; k++)
            pto_aiv(o, SCALE, PTO_INOUT(T(k)), PTO_INT(i % 2 == 0 ? 3 : 1));
    pto_aiv(o, ADD, PTO_IN(T(0)), PTO_IN(T(1)), PTO_WRITE(T(4)));
    pto_aiv(o, ADD, PTO_IN(T(2)), PTO_IN(T(3)), PTO_WRITE(T(5)));
    pto_aic(o, ADD, PTO_IN(T(4)), PTO_IN(T(5)), PTO_WRITE(T(6)));
}

/* Outputs with initial values, which the scheduler itself writes. */
ORCH(filled)
{
    uint64_t count = pto_scalar(o, 0);
    struct pto_tensor_info info = like(T(0));

    pto_tensor_info_fill(&info, 7);
    for (uint64_t i = 0; i < count; i++)
        PTO_SCOPE(o) {
            struct pto_outputs seven = pto_alloc(o, PTO_OUT(&info));

            pto_aiv(o, ADD, PTO_IN(T(0)), PTO_IN(seven.tensor), PTO_WRITE(T(0)));
            pto_aiv(o, SCALE, PTO_INOUT(seven.tensor), PTO_INT(5));
        }
}

/* Elements that the orchestration reads and writes between tasks; predicates. */
ORCH(elements)
{
    uint64_t count = pto_scalar(o, 0);

    for (uint64_t i = 0; i < count; i++) {
        uint64_t x;

        pto_aiv(o, SCALE, PTO_INOUT(T(0)), PTO_INT(2));
        x = PTO_GET(o, T(0), 1);
        pto_set_data(o, T(0), 1, PTO_DIMS(0), x + i);
        pto_aiv(o, ADD, PTO_IN(T(0)), PTO_IN(T(1)), PTO_WRITE(T(2)), PTO_IF(T(1), GE, 0, 0));
    }
}

ORCH(teams)
{
    uint64_t count = pto_scalar(o, 0);

    for (uint64_t i = 0; i < count; i++) {
        pto_mix(o, PTO_LANES(LANE, LANE, LANE), PTO_WRITE(T(0)));
        pto_aiv(o, BLOCK, PTO_WRITE(T(1)), PTO_GANG(4));
        pto_aiv(o, ADD, PTO_IN(T(0)), PTO_IN(T(1)), PTO_WRITE(T(2)));
    }
}

/* A task completes when another one, which writes tensor[5] first, has raised a counter. */
ORCH(deferred)
{
    uint64_t count = pto_scalar(o, 0);

    for (uint64_t i = 0; i < count; i++) {
        pto_aiv(o, DEFER, PTO_AFTER(T(3)), PTO_WRITE(T(0)), PTO_INT(i + 1));
        pto_aiv(o, ADD, PTO_IN(T(0)), PTO_AFTER(T(5)), PTO_WRITE(T(2)));
        pto_aiv(o, RAISE, PTO_AFTER(T(3)), PTO_WRITE(T(5)), PTO_INT(i + 1));
    }
}

/*
 * In runs with guards: the last task writes outside of its output; another one reads memory that no
 * task has written.
 */
ORCH(overrun)
{
    uint64_t count = pto_scalar(o, 0);
    struct pto_tensor_info info = like(T(0));

    for (uint64_t i = 0; i < count; i++)
        pto_aiv(o, ADD, PTO_IN(T(0)), PTO_IN(T(1)), PTO_OUT(&info));
    pto_aiv(o, OVERRUN, PTO_IN(T(0)), PTO_IN(T(1)), PTO_OUT(&info));
}

ORCH(unwritten)
{
    struct pto_tensor_info info = like(T(0));
    struct pto_outputs made = pto_alloc(o, PTO_OUT(&info), PTO_OUT(&info));

    pto_aiv(o, SCALE, PTO_INOUT(pto_output(made, 0)), PTO_INT(3));
    pto_aiv(o, ADD, PTO_IN(pto_output(made, 0)), PTO_IN(pto_output(made, 1)), PTO_WRITE(T(0)));
}

/* Submits tasks until it is cancelled. */
ORCH(endless)
{
    while (pto_orch_status(o) >= 0)
        pto_aiv(o, SCALE, PTO_INOUT(T(0)), PTO_INT(1));
}

/*
 * Answers messages of the host: messages as long as a tensor by a kernel, others by itself. Then
 * sends numbers, each one higher, until the host ends the conversation. Scalars: a queue, a region.
 */
static int answer_all(struct pto_orch *o, const struct pto_entry *e)
{
    struct pto_queue q;
    struct pto_message m = { 0 }, out = { 0 };
    int status = pto_queue_init(&q, e->scalar + 1, true);

    while (status >= 0 && !pto_queue_is_drained(&q)) {
        status = pto_queue_receive(o, &q, UINT64_MAX, &m);
        if (status >= 0 && m.kind == PTO_MESSAGE_DATA)
            status = pto_queue_await_room(o, &q, m.bytes, UINT64_MAX, &out);
        if (status >= 0 && m.kind == PTO_MESSAGE_DATA) {
            if (m.bytes == 4 * (uint64_t)T(0)->shapes[0]) {
                struct pto_tensor from = pto_tensor_external(m.data, T(0)->shapes, 1, PTO_INT32);
                struct pto_tensor to = pto_tensor_external(out.data, T(0)->shapes, 1, PTO_INT32);

                pto_aiv(o, ADD, PTO_IN(&from), PTO_IN(T(1)), PTO_WRITE(&to));
                (void)PTO_GET(o, &to, 0);
            } else {
                memcpy(out.data, m.data, m.bytes);
            }
            status = pto_queue_publish(&q, &out, PTO_MESSAGE_DATA);
        }
        if (status >= 0)
            status = pto_queue_release(&q, &m);
    }
    return status;
}

ORCH(talk)
{
    struct pto_region r;
    int32_t number, turn = 1;
    int status = answer_all(o, e);

    if (status >= 0)
        status = pto_region_init(&r, e->scalar + 1 + PTO_QUEUE_SCALARS);
    if (status >= 0)
        pto_region_fetch(&r, 64, sizeof(number));
    for (; status >= 0; turn++) {
        status = pto_region_wait(o, &r, 0, PTO_COMPARE_GE, turn, UINT64_MAX, NULL);
        if (status < 0)
            break;
        pto_region_fetch(&r, 0, sizeof(number));
        memcpy(&number, pto_region_payload(&r, 0, sizeof(number)), sizeof(number));
        number++;
        memcpy(pto_region_payload(&r, 64, sizeof(number)), &number, sizeof(number));
        pto_region_publish(&r, 64, sizeof(number));
        (void)pto_region_notify(&r, 64, PTO_SIGNAL_ADD, 1);
    }
    if (status != PTO_EPEER || turn == 1)
        (void)pto_orch_fail(o, PTO_EFORMAT, "the host has not gone");
}
