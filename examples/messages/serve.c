/* SPDX-License-Identifier: Apache-2.0 */
/* The callable `serve`, on a chip: an answer for each message, computed by a kernel, until a STOP comes. */
#include <pto/region.h>

enum { SQUARE };
#define MINUTE 60000000000ull

/* The kernel reads the message and writes the answer where they are, in the arenas of the queue. */
static int answer(struct pto_orch *o, struct pto_queue *q, const struct pto_message *m)
{
    const uint32_t shape[] = { (uint32_t)(m->bytes / sizeof(int32_t)) };
    struct pto_tensor from, to;
    struct pto_message out;
    int status = pto_queue_await_room(o, q, m->bytes, MINUTE, &out);

    if (status < 0)
        return status;
    from = pto_tensor_external(m->data, shape, 1, PTO_INT32);
    to = pto_tensor_external(out.data, shape, 1, PTO_INT32);
    pto_aiv(o, SQUARE, PTO_IN(&from), PTO_WRITE(&to));
    (void)pto_get_data(o, &to, 1, (const uint32_t[]){ 0 }); /* waits for the kernel */
    status = pto_orch_status(o);
    return status < 0 ? status : pto_queue_publish(q, &out, PTO_MESSAGE_DATA);
}

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_queue q;
    struct pto_message m;
    int status = pto_queue_init(&q, entry->scalar, true);

    while (status >= 0 && !pto_queue_is_drained(&q)) {
        status = pto_queue_receive(o, &q, MINUTE, &m);
        if (status >= 0 && m.kind == PTO_MESSAGE_DATA)
            status = answer(o, &q, &m);
        if (status >= 0)
            status = pto_queue_release(&q, &m);
    }
    if (status < 0)
        (void)pto_orch_fail(o, status, "the conversation with the host has ended early");
}
