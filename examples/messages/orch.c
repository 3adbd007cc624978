/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One task for all rows: it is submitted once and then exchanges messages with the host. A few rows
 * are always in flight, so that neither side waits longer than it must. Every wait has a timeout,
 * and ends at once if the task fails.
 */
#include <pto/level.h>
#include <pto/worker_region.h>

enum { SERVE }; /* as in scene.yaml */
enum { AHEAD = 4 };
#define SECOND 1000000000ull

static int check(struct pto_level *level, int status, const struct pto_error *error)
{
    return status < 0 ? pto_level_fail(level, status, error->text) : status;
}

static int talk(struct pto_level *level, const struct pto_level_entry *entry,
                struct pto_worker_queue *queue)
{
    const struct pto_tensor *x = &entry->tensor[0], *y = &entry->tensor[1];
    uint32_t rows = x->shapes[0], bytes = x->shapes[1] * (uint32_t)sizeof(int32_t);
    struct pto_worker_message message;
    struct pto_error error;
    int status = PTO_OK;

    pto_error_init(&error);
    for (uint32_t i = 0; i < rows + AHEAD && status >= 0; i++) {
        if (i < rows)
            status = pto_worker_queue_send(queue, PTO_MESSAGE_DATA,
                                           (const char *)pto_tensor_data(x) + i * bytes, bytes,
                                           60 * SECOND, &error);
        if (i < AHEAD || status < 0)
            continue;
        pto_worker_message_init(&message);
        message.to = (char *)pto_tensor_data(y) + (i - AHEAD) * bytes;
        message.room = bytes;
        status = pto_worker_queue_receive(queue, &message, 60 * SECOND, &error);
    }
    if (status >= 0)
        status = pto_worker_queue_send(queue, PTO_MESSAGE_STOP, NULL, 0, 60 * SECOND, &error);
    return check(level, status, &error);
}

void orchestrate(struct pto_level *level, const struct pto_level_entry *entry)
{
    struct pto_worker_queue_params params;
    struct pto_worker_queue *queue;
    uint64_t scalars[PTO_QUEUE_SCALARS];
    struct pto_error error;
    struct pto_args args;

    pto_error_init(&error);
    pto_worker_queue_params_init(&params);
    params.depth = 8;
    params.error = &error;
    if (check(level, pto_worker_queue_open(entry->worker, &params, &queue), &error) < 0)
        return;
    (void)pto_worker_queue_scalars(queue, scalars);
    pto_args_init(&args);
    pto_add_queue(&args, scalars);
    (void)pto_level_submit(level, entry->callable[SERVE], PTO_ON(0), &args);
    if (talk(level, entry, queue) >= 0) { /* nothing more comes: the task is over then */
        struct pto_worker_message message;

        pto_worker_message_init(&message);
        (void)pto_worker_queue_receive(queue, &message, 60 * SECOND, &error);
    }
    (void)pto_worker_queue_close(
        queue); /* a task that still uses it gets an error; closing the worker frees it */
}
