/* SPDX-License-Identifier: Apache-2.0 */
/* What the scheduler program is driven with: kernels are those of caches.c; at_once.c runs none. */
#include <pto/orch.h>

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

/* In pairs, each with an output that the next one reads. */
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

/* Each tensor its own chain, then all of them into the last. */
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

/* Outputs that start with a value, which the scheduler itself writes. */
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

/* With guards: the last of some tasks leaves its output; and one reads what nobody has written. */
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

/* Until it is cancelled. */
ORCH(endless)
{
    while (pto_orch_status(o) >= 0)
        pto_aiv(o, SCALE, PTO_INOUT(T(0)), PTO_INT(1));
}
