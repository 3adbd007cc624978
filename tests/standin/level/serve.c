/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tasks of tests/standin/level.c: the first scalar selects one, the others are its parameters.
 */
#include <pto/region.h>

#include "tests/standin/level/level_tasks.h"

#define MINUTE 60000000000ull

/* Returns each message, unchanged or doubled by a kernel. */
static int echo(struct pto_orch *o, const uint64_t *scalar)
{
    struct pto_queue q;
    struct pto_message m, out;
    int status = pto_queue_init(&q, scalar, true);

    while (status >= 0 && !pto_queue_is_drained(&q)) {
        status = pto_queue_receive(o, &q, MINUTE, &m);
        if (status >= 0 && m.kind != PTO_MESSAGE_STOP) {
            status = pto_queue_await_room(o, &q, m.bytes, MINUTE, &out);
            if (status < 0)
                return status;
            if (m.bytes != 0 && m.bytes % 4 == 0) {
                const uint32_t shape[] = { (uint32_t)(m.bytes / 4) }, first[] = { 0 };
                struct pto_tensor from = pto_tensor_external(m.data, shape, 1, PTO_INT32);
                struct pto_tensor to = pto_tensor_external(out.data, shape, 1, PTO_INT32);

                pto_aiv(o, DOUBLE, PTO_IN(&from), PTO_WRITE(&to));
                (void)pto_get_data(o, &to, 1, first);
            } else if (m.bytes != 0) {
                memcpy(out.data, m.data, m.bytes);
            }
            status = pto_orch_status(o);
            if (status >= 0)
                status = pto_queue_publish(&q, &out, (enum pto_message_kind)m.kind);
        }
        if (status >= 0)
            status = pto_queue_release(&q, &m);
    }
    return status;
}

/* Returns each received number plus one, until it receives 0. */
static int talk(struct pto_orch *o, const uint64_t *scalar)
{
    struct pto_region r;
    int32_t number = 1;
    int status = pto_region_init(&r, scalar);

    if (status >= 0)
        pto_region_fetch(&r, 64, sizeof(number));
    for (int32_t i = 1; status >= 0 && number != 0; i++) {
        status = pto_region_wait(o, &r, 0, PTO_COMPARE_GE, i, MINUTE, NULL);
        if (status < 0)
            break;
        pto_region_fetch(&r, 0, sizeof(number));
        memcpy(&number, pto_region_payload(&r, 0, sizeof(number)), sizeof(number));
        number += number != 0;
        memcpy(pto_region_payload(&r, 64, sizeof(number)), &number, sizeof(number));
        pto_region_publish(&r, 64, sizeof(number));
        status = pto_region_notify(&r, 64, PTO_SIGNAL_ADD, 1);
    }
    return status;
}

/* Waits for a message that never comes, until the host closes the region. */
static int hold(struct pto_orch *o, const uint64_t *scalar)
{
    const int32_t recorded = 77;
    struct pto_region r;
    int status = pto_region_init(&r, scalar);

    if (status >= 0)
        status = pto_region_notify(&r, 64, PTO_SIGNAL_SET, 1);
    if (status >= 0)
        status = pto_region_wait(o, &r, 0, PTO_COMPARE_EQ, 12345, MINUTE, NULL);
    if (status != PTO_EPEER)
        return status < 0 ? status : PTO_EFORMAT;
    pto_region_fetch(&r, 64, sizeof(recorded));
    memcpy(pto_region_payload(&r, 64, sizeof(recorded)), &recorded, sizeof(recorded));
    pto_region_publish(&r, 64, sizeof(recorded));
    return PTO_OK;
}

void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    int status = PTO_OK;

    switch (e->scalar[0]) {
    case ECHO:
        status = echo(o, e->scalar + 1);
        break;
    case TALK:
        status = talk(o, e->scalar + 1);
        break;
    case HOLD:
        status = hold(o, e->scalar + 1);
        break;
    case ADD:
        pto_aiv(o, ADDED, PTO_INOUT(&e->tensor[0]), PTO_INT(e->scalar[1]));
        break;
    case PASS:
        pto_aiv(o, PASSED, PTO_INOUT(&e->tensor[0]), PTO_INT(e->scalar[1]), PTO_INT(e->scalar[2]),
                PTO_INT(e->scalar[3]));
        break;
    default:
        pto_aiv(o, TOLD, PTO_INOUT(&e->tensor[0]), PTO_INT(e->scalar[1]));
    }
    if (status < 0)
        (void)pto_orch_fail(o, status, "the host has gone, or nothing came");
}
