/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/orch.h>
#include <unistd.h>

#include "built_tasks.h"

enum { ADD };

static void sum(struct pto_orch *o, const struct pto_tensor *from, const struct pto_tensor *to)
{
    struct pto_tensor_info info = pto_tensor_info_make(to->shapes, to->ndims, PTO_INT32);
    struct pto_outputs half = pto_aiv(o, ADD, PTO_IN(from), PTO_OUT(&info), PTO_PASS(1));

    pto_aiv(o, ADD, PTO_IN(half.tensor), PTO_WRITE(to), PTO_PASS(1));
}

static void use_elements(struct pto_orch *o, const struct pto_tensor *from,
                         const struct pto_tensor *to)
{
    struct pto_tensor_info info = pto_tensor_info_make(to->shapes, to->ndims, PTO_INT32);
    struct pto_outputs seven;

    pto_set_data(o, from, 1, PTO_DIMS(1), PTO_GET(o, from, 1) + pto_scalar(o, 1));
    /* the value that it has just written */
    pto_set_data(o, from, 1, PTO_DIMS(2), PTO_GET(o, from, 1) + 1);
    pto_tensor_info_fill(&info, 7);
    seven = pto_alloc(o, PTO_OUT(&info));
    pto_aiv(o, ADD, PTO_IN(seven.tensor), PTO_WRITE(to), PTO_INT(1));
    pto_aiv(o, ADD, PTO_IN(from), PTO_WRITE(to), PTO_INT(0), PTO_IF(from, GT, 1000, 0));
}

static void overrun(struct pto_orch *o, const struct pto_tensor *from, const struct pto_tensor *to)
{
    struct pto_tensor_info info = pto_tensor_info_make(to->shapes, to->ndims, PTO_INT32);

#line 2000
    pto_aiv(o, ADD, PTO_IN(from), PTO_OUT(&info), PTO_INT(-1));
}

void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    const struct pto_tensor *from = &e->tensor[0], *to = &e->tensor[1];
    struct pto_tensor_info large =
        pto_tensor_info_make(PTO_DIMS(1u << 20, 1u << 12, 1u << 6), 3, PTO_INT32);
    struct pto_tensor beyond;

    switch ((enum task)pto_scalar(o, 0)) {
    case SUM:
        sum(o, from, to);
        return;
    case TELL:
#ifdef __x86_64__
        pto_set_data(o, to, 1, PTO_DIMS(0), 1);
#else
        pto_set_data(o, to, 1, PTO_DIMS(0), 2);
#endif
        pto_set_data(o, to, 1, PTO_DIMS(1), (uint64_t)getpid());
        return;
    case ELEMENTS:
        use_elements(o, from, to);
        return;
    case CRASH:
        sum(o, from, to);
        *(volatile int *)8 =
            *(volatile int *)pto_tensor_data(from); /* at the end, an address without memory */
        return;
    case LOOP:
        for (volatile int i = 0;; i++) {
        }
    case WAIT:
        while (pto_orch_status(o) >= 0) {
        }
        return;
    case BAD_VIEW:
        beyond = pto_tensor_view(from, PTO_DIMS(4), PTO_DIMS(1000));
#line 3000
        pto_aiv(o, ADD, PTO_IN(&beyond), PTO_WRITE(to), PTO_INT(1));
        return;
    case OVERRUN:
        overrun(o, from, to);
        return;
    case LARGE:
        pto_alloc(o, PTO_OUT(&large));
        return;
    case MANY:
        for (uint64_t i = pto_scalar(o, 1); i != 0; i--)
            pto_aiv(o, ADD, PTO_IN(from), PTO_WRITE(to), PTO_INT(i));
        return;
    }
}
