/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task that is over long after its kernel: RECEIVE starts a transfer and
 * returns, so its core is free, but the task completes only when all parts
 * have arrived. Readers of the inbox wait for RECEIVE, as for any writer.
 *
 *     RECEIVE --- returns ......... completes --> SUM
 *                                   ^  ^  ^
 *     SEND  SEND  SEND  SEND -------+--+--+   arrived += 1 each
 *
 * Here kernels play the part of the transfer. They write without notice to
 * the graph: they get inbox and counter with PTO_AFTER, which orders them
 * after the allocation only.
 */
#include <pto/orch.h>

enum { PARTS = 4, PART = 512, COUNT = PARTS * PART };
enum { RECEIVE, SEND, SUM }; /* as in scene.yaml */

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *outbox = &entry->tensor[0], *sums = &entry->tensor[1];
    const struct pto_tensor_info buffer = pto_tensor_info_make(PTO_DIMS(COUNT), 1, PTO_FLOAT32);
    struct pto_tensor_info counter = pto_tensor_info_make(PTO_DIMS(1), 1, PTO_UINT32);

    pto_tensor_info_fill(&counter, 0);
    for (uint32_t m = 0; m < sums->shapes[0]; m++) {
        const struct pto_tensor sum = pto_tensor_view(sums, PTO_DIMS(1), PTO_DIMS(m));

        PTO_SCOPE(o) {
            struct pto_outputs memory = pto_alloc(o, PTO_OUT(&buffer), PTO_OUT(&counter));
            const struct pto_tensor *inbox = pto_output(memory, 0);
            const struct pto_tensor *arrived = pto_output(memory, 1);

            for (uint32_t p = 0; p < PARTS; p++) { /* before or after RECEIVE, as it comes */
                const uint32_t *box = PTO_DIMS(1, PART), *at = PTO_DIMS(m, p * PART);
                const struct pto_tensor part = pto_tensor_view(outbox, box, at);

                pto_aiv(o, SEND, PTO_IN(&part), PTO_AFTER(inbox), PTO_AFTER(arrived), PTO_INT(p));
            }
            pto_aiv(o, RECEIVE, PTO_WRITE(inbox), PTO_AFTER(arrived), PTO_INT(PARTS));
            pto_aiv(o, SUM, PTO_IN(inbox), PTO_WRITE(&sum));
        }
    }
}
