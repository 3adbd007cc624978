/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions and queues of a worker: how the host communicates with a task on a chip while it runs.
 * pto/region.h is the task's side, and describes their layout.
 *
 *     pto_worker_region_open      memory of a chip with counters, which the host can access
 *     pto_worker_region_scalars   six scalars, for the task: pto_add_region adds them
 *     write, notify, wait, read
 *
 *     pto_worker_queue_open       messages in both directions; twelve scalars: pto_add_queue
 *     pto_worker_queue_send, pto_worker_queue_receive
 *
 * Every wait has a time-out in nanoseconds; 0: one minute. A wait ends at once, with PTO_EPEER,
 * when a task that has the region fails, dies or never runs, and when all tasks that had the region
 * are over. `error`, which may be NULL, explains why. A wait that times out has no side effects.
 *
 * Any thread may use regions and queues, including an orchestration of level 3; a queue has at most
 * one sending and one receiving thread.
 */
#ifndef PTO_API_WORKER_REGION_H
#define PTO_API_WORKER_REGION_H

#include "pto/comm.h"
#include "pto/region.h"
#include "pto/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct pto_worker_region;
struct pto_worker_queue;

/* The parameters of a region. */
struct pto_worker_region_params {
    size_t size;
    uint32_t chip;
    uint64_t payload_bytes; /* size of the payload in bytes; the payload is zero at first */
    /*
     * Size of all counters in bytes, a multiple of 4; counters are zero at first. Counters with
     * different writers must be 64 bytes apart.
     */
    uint64_t counter_bytes;
    struct pto_error *error; /* filled in on failure; initialised, or NULL */
};

/* Sets the defaults of a region. */
static inline void pto_worker_region_params_init(struct pto_worker_region_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
}

/* Opens a region on a chip. */
int pto_worker_region_open(struct pto_worker *worker, const struct pto_worker_region_params *params,
                           struct pto_worker_region **region_out);
/*
 * Closes a region. PTO_EBUSY: tasks use it; their waits in the region end now, and a later call
 * closes it.
 */
int pto_worker_region_close(struct pto_worker_region *region);
/* Returns the scalars of a region, PTO_REGION_SCALARS of them, for pto_add_region. */
int pto_worker_region_scalars(struct pto_worker_region *region, uint64_t *scalars_out);

/* Adds the scalars of a region to a task; three of them are addresses. */
static inline void pto_add_region(struct pto_args *args, const uint64_t *scalars)
{
    for (uint32_t i = 0; i < PTO_REGION_SCALARS; i++)
        if ((PTO_REGION_ADDRESSES >> i & 1) != 0)
            pto_add_address(args, scalars[i]);
        else
            pto_add_scalar(args, scalars[i]);
}

/* Copies to the payload of a region. PTO_EMEMORY: the payload does not contain all of the bytes. */
int pto_worker_region_write(struct pto_worker_region *region, uint64_t offset, const void *from,
                            uint64_t bytes);
/*
 * Copies from the payload of a region. PTO_EMEMORY: the payload does not contain all of the bytes.
 */
int pto_worker_region_read(struct pto_worker_region *region, uint64_t offset, void *to,
                           uint64_t bytes);
/*
 * Sets a counter of a region, or adds to it, as its only writer. The task sees data that was
 * written before.
 */
int pto_worker_region_notify(struct pto_worker_region *region, struct pto_signal_at counter);
/* Reads a counter of a region. Data that the counter's writer wrote before is then visible. */
int pto_worker_region_counter(struct pto_worker_region *region, uint64_t offset,
                              int32_t *value_out);
/* Waits until a counter of a region meets a condition. */
int pto_worker_region_wait(struct pto_worker_region *region, struct pto_wait_for counter,
                           uint64_t timeout_ns, struct pto_error *error);

/* The parameters of a queue. */
struct pto_worker_queue_params {
    size_t size;
    uint32_t chip;
    uint64_t depth;          /* maximum number of messages in each direction, a power of two */
    uint64_t input_bytes;    /* bytes for messages to the task, a multiple of 64 */
    uint64_t output_bytes;   /* bytes for messages from the task, a multiple of 64 */
    struct pto_error *error; /* filled in on failure; initialised, or NULL */
};

/* Sets the defaults of a queue: 16 messages, 64 KiB in each direction. */
static inline void pto_worker_queue_params_init(struct pto_worker_queue_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
    params->depth = 16;
    params->input_bytes = params->output_bytes = 64 << 10;
}

/* Opens a queue to one task on a chip. */
int pto_worker_queue_open(struct pto_worker *worker, const struct pto_worker_queue_params *params,
                          struct pto_worker_queue **queue_out);
/* Closes a queue, as pto_worker_region_close does a region. */
int pto_worker_queue_close(struct pto_worker_queue *queue);
/* Returns the scalars of a queue, PTO_QUEUE_SCALARS of them, for pto_add_queue. */
int pto_worker_queue_scalars(struct pto_worker_queue *queue, uint64_t *scalars_out);

/* Adds the scalars of a queue to a task, those of its region first. */
static inline void pto_add_queue(struct pto_args *args, const uint64_t *scalars)
{
    pto_add_region(args, scalars);
    for (uint32_t i = PTO_REGION_SCALARS; i < PTO_QUEUE_SCALARS; i++)
        pto_add_scalar(args, scalars[i]);
}

/*
 * Sends a message; waits for room if there is none. A STOP message has no bytes and is the last
 * one. PTO_EINVAL: more bytes than the queue can hold, or a STOP was sent. PTO_EPEER: also if the
 * task has aborted the queue.
 */
int pto_worker_queue_send(struct pto_worker_queue *queue, enum pto_message_kind kind,
                          const void *from, uint64_t bytes, uint64_t timeout_ns,
                          struct pto_error *error);

/* A received message, and the buffer to which its bytes are copied. */
struct pto_worker_message {
    size_t size;
    void *to;        /* buffer for the bytes of the message, set by the caller */
    uint64_t room;   /* size of the buffer in bytes, set by the caller */
    uint64_t bytes;  /* size of the message in bytes */
    uint64_t number; /* number of the message, from 1 on */
    enum pto_message_kind kind;
};

/* Initialises the struct for a call that fills it in. */
static inline void pto_worker_message_init(struct pto_worker_message *message)
{
    if (message == NULL)
        return;
    memset(message, 0, sizeof(*message));
    message->size = sizeof(*message);
}

/*
 * Receives a message; waits for it if there is none. Copies its bytes and releases its room in the
 * queue. PTO_EMEMORY: the buffer is too small; `bytes` is the size that it needs, and the message
 * stays in the queue. Messages that were sent before the task ended are still received.
 */
int pto_worker_queue_receive(struct pto_worker_queue *queue, struct pto_worker_message *message,
                             uint64_t timeout_ns, struct pto_error *error);

/* Aborts the queue: current and future waits of both ends end with PTO_EPEER. */
int pto_worker_queue_abort(struct pto_worker_queue *queue);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
