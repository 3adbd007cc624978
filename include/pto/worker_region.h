/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions and queues of a worker: how the host talks with a task on a chip while it runs.
 * pto/region.h is the task's side, and says how they are laid out.
 *
 *     pto_worker_region_open      memory of a chip with counters, which the host reaches, too
 *     pto_worker_region_scalars   six of them, for the task: pto_add_region adds them
 *     write, notify, wait, read
 *
 *     pto_worker_queue_open       messages in both directions; twelve scalars: pto_add_queue
 *     pto_worker_queue_send, pto_worker_queue_receive
 *
 * Every wait has a time-out in nanoseconds; 0: a minute. It ends at once, with PTO_EPEER, when a task that
 * has the region fails, dies or was never run, and when no task has it any more, after
 * one had. `error`, which may be NULL, says why. A time-out changes nothing.
 *
 * They may be used by any thread, also by an orchestration of level 3; a queue by one
 * that sends and one that receives.
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

/* What a region is to have. */
struct pto_worker_region_params {
    size_t size;
    uint32_t chip;
    uint64_t payload_bytes;  /* zero at first */
    uint64_t counter_bytes;  /* a multiple of 4; the same. 64 apart if their writers differ */
    struct pto_error *error; /* says why it cannot be opened; initialised, or NULL */
};

/* Sets the defaults. */
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
/* Closes a region. PTO_EBUSY: tasks have it; those that wait in it are told, and end their waits. */
int pto_worker_region_close(struct pto_worker_region *region);
/* The scalars of a region, for pto_add_region: PTO_REGION_SCALARS. */
int pto_worker_region_scalars(struct pto_worker_region *region, uint64_t *scalars_out);

/* Adds the scalars of a region to a task: three of them are addresses. */
static inline void pto_add_region(struct pto_args *args, const uint64_t *scalars)
{
    for (uint32_t i = 0; i < PTO_REGION_SCALARS; i++)
        if ((PTO_REGION_ADDRESSES >> i & 1) != 0)
            pto_add_address(args, scalars[i]);
        else
            pto_add_scalar(args, scalars[i]);
}

/* Copies to the payload. PTO_EMEMORY: it does not contain all of the bytes. */
int pto_worker_region_write(struct pto_worker_region *region, uint64_t offset, const void *from,
                            uint64_t bytes);
/* Copies from the payload. PTO_EMEMORY: it does not contain all of the bytes. */
int pto_worker_region_read(struct pto_worker_region *region, uint64_t offset, void *to,
                           uint64_t bytes);
/* Sets a counter, or adds to it; nobody else writes it. The task sees what was written before. */
int pto_worker_region_notify(struct pto_worker_region *region, struct pto_signal_at counter);
/* Reads a counter. What its writer wrote before is visible from here on. */
int pto_worker_region_counter(struct pto_worker_region *region, uint64_t offset,
                              int32_t *value_out);
/* Waits for a counter. */
int pto_worker_region_wait(struct pto_worker_region *region, struct pto_wait_for counter,
                           uint64_t timeout_ns, struct pto_error *error);

/* What a queue is to have. */
struct pto_worker_queue_params {
    size_t size;
    uint32_t chip;
    uint64_t depth;          /* messages in each direction; a power of two */
    uint64_t input_bytes;    /* of messages to the task: a multiple of 64 */
    uint64_t output_bytes;   /* of messages from it: the same */
    struct pto_error *error; /* says why it cannot be opened; initialised, or NULL */
};

/* Sets the defaults: 16 messages, 64 KiB in each direction. */
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
/* Closes a queue, as a region. */
int pto_worker_queue_close(struct pto_worker_queue *queue);
/* The scalars of a queue, for pto_add_queue: PTO_QUEUE_SCALARS. */
int pto_worker_queue_scalars(struct pto_worker_queue *queue, uint64_t *scalars_out);

/* Adds the scalars of a queue to a task: those of its region come first. */
static inline void pto_add_queue(struct pto_args *args, const uint64_t *scalars)
{
    pto_add_region(args, scalars);
    for (uint32_t i = PTO_REGION_SCALARS; i < PTO_QUEUE_SCALARS; i++)
        pto_add_scalar(args, scalars[i]);
}

/*
 * Sends a message, and waits for room. A STOP has no bytes, and is the last one. PTO_EINVAL: more
 * bytes than there can be, or one was sent. PTO_EPEER: also if the task has given up.
 */
int pto_worker_queue_send(struct pto_worker_queue *queue, enum pto_message_kind kind,
                          const void *from, uint64_t bytes, uint64_t timeout_ns,
                          struct pto_error *error);

/* Room for a message, and what came. */
struct pto_worker_message {
    size_t size;
    void *to;        /* room, set by the caller */
    uint64_t room;   /* its bytes */
    uint64_t bytes;  /* of the message */
    uint64_t number; /* counts from 1 on */
    enum pto_message_kind kind;
};

/* Sets the size. */
static inline void pto_worker_message_init(struct pto_worker_message *message)
{
    if (message == NULL)
        return;
    memset(message, 0, sizeof(*message));
    message->size = sizeof(*message);
}

/*
 * Receives a message, and waits for one: copies its bytes and gives its place back. PTO_EMEMORY: there is
 * too little room; `bytes` says how much it needs, and the message is there the next time, too. Those that
 * were sent before the task ended are still received.
 */
int pto_worker_queue_receive(struct pto_worker_queue *queue, struct pto_worker_message *message,
                             uint64_t timeout_ns, struct pto_error *error);

/* Gives up: calls of both ends that wait, or will, end with PTO_EPEER. */
int pto_worker_queue_abort(struct pto_worker_queue *queue);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
