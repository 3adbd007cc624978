/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions and queues, as the host uses them. They lie in the memory that all processes share, so
 * nothing is copied twice. Cards cannot access that memory: for a card it is a mirror
 * (tree_mirror.c), from which the host sends what it has written, and into which it fetches what it
 * reads. A thread that waits for a region also drives the worker, as one that waits for a run does.
 * Kernels that write to a region increment `calls` in the shared memory and wake the worker.
 * Kernels that were compiled with other headers do not, so a wait also polls each millisecond. A
 * card cannot wake the host, which polls it more often.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/sized.h"
#include "host/handle.h"
#include "pto/run.h"
#include "pto/worker_region.h"
#include "tree/tree.h"
#include "tree/tree_domain.h"
#include "tree/tree_region.h"
#include "tree/tree_run.h"

#define LOOK_NS 1000000ull
/* first interval between two polls of a card; it doubles up to LOOK_NS */
#define CARD_LOOK_NS 50000ull
#define REGION_BYTES_MAX (1ull << 46)

struct tree_region {
    struct tree *tree;
    struct tree_region *next;
    void *handle;
    bool is_queue;
    bool was_used;  /* the region has been an argument of a task */
    uint32_t users; /* number of arguments of live tasks that name this region */
    /* status of the failed task or card, after which no more messages come; 0: none failed */
    int lost;
    bool is_on_card;
    struct mirror mirror; /* only for a region on a card */
    struct pto_region_head *head;
    struct pto_region region;
    /* copy of `region` with an id without wakers: changing a counter through it wakes no thread */
    struct pto_region quiet;
    struct pto_queue queue; /* the host's end of the queue */
    /*
     * a message that was too large for the buffer of its receiver, who may try again; number 0:
     * none
     */
    struct pto_message received;
};

/* ---- copies from and to cards ---- */

static struct mirror_range part_of(const struct tree_region *r, const void *at, uint64_t bytes,
                                   bool is_fetch)
{
    return (struct mirror_range){ (uint64_t)((const char *)at - (const char *)r->head), bytes,
                                  is_fetch };
}

/*
 * Records the result of a copy: a failed one makes the region lost, but one that timed out may be
 * tried again.
 */
static int note_copied(struct tree_region *r, int status)
{
    if (status < 0 && status != PTO_ETIMEOUT && r->lost == 0)
        r->lost = status;
    return status;
}

/* Copies ranges to the card. Like fetch, does nothing for a chip that is not a card. */
static int send(struct tree_region *r, const struct mirror_range *part, uint32_t count)
{
    const struct mirror_copy copy = { part, count, false };

    assert_held(&r->tree->lock);
    return r->is_on_card && count != 0
               ? note_copied(r, tree_mirror_send(r->tree, &r->mirror, &copy,
                                                 tree_control_deadline(r->tree), NULL))
               : PTO_OK;
}

static int fetch(struct tree_region *r, const void *at, uint64_t bytes, uint64_t deadline_ns,
                 struct pto_error *error)
{
    struct mirror_range part = part_of(r, at, bytes, true);
    const struct mirror_copy copy = { &part, 1, false };

    assert_held(&r->tree->lock);
    return r->is_on_card && bytes != 0
               ? note_copied(r, tree_mirror_fetch(r->tree, &r->mirror, &copy, deadline_ns, error))
               : PTO_OK;
}

static int send_locked(struct tree_region *r, const void *at, uint64_t bytes)
{
    struct mirror_range part = part_of(r, at, bytes, false);
    int status;

    pthread_mutex_lock(&r->tree->lock);
    status = send(r, &part, 1);
    pthread_mutex_unlock(&r->tree->lock);
    return status;
}

static int fetch_locked(struct tree_region *r, const void *at, uint64_t bytes)
{
    int status;

    pthread_mutex_lock(&r->tree->lock);
    status = fetch(r, at, bytes, tree_control_deadline(r->tree), NULL);
    pthread_mutex_unlock(&r->tree->lock);
    return status;
}

/* Copies to the card the mark by which the host ends a queue. */
static void send_end(struct tree_region *r)
{
    struct mirror_range part =
        part_of(r, pto_region_counter(&r->region, r->queue.own_end_at), sizeof(int32_t), false);

    (void)send(r, &part, 1); /* ignored: send fails only if the child has ended */
}

/* ---- opening a region ---- */

static void free_region(struct tree_region *r)
{
    struct tree_region **link = &r->tree->regions;

    while (*link != r)
        link = &(*link)->next;
    *link = r->next;
    tree_disown_memory(r->tree, r->head);
    free(r);
}

/* Makes the mirror of a region, and makes the child allocate the region on the card. */
static int make_mirror(struct tree_region *r, uint32_t chip, uint64_t bytes,
                       struct pto_error *error)
{
    int status;

    r->head->calls = r->head->waker = 0;
    r->is_on_card = true;
    r->mirror =
        (struct mirror){ .chip = chip, .addr = (uint64_t)(uintptr_t)r->head, .bytes = bytes };
    status = tree_mirror_open(r->tree, &r->mirror, error);
    /*
     * If the child has not answered in time, it may still use the mirror: then the memory is kept
     * until the worker is closed.
     */
    if (status < 0 && status != PTO_ETIMEOUT &&
        (status != PTO_EPEER || tree_mirror_close(r->tree, &r->mirror, NULL) >= 0))
        free_region(r);
    return status;
}

static int make_region(struct tree *t, uint32_t chip, uint64_t payload_bytes,
                       uint64_t counter_bytes, struct tree_region **region_out,
                       struct pto_error *error)
{
    uint64_t counter_room =
        (counter_bytes + PTO_REGION_LINE - 1) / PTO_REGION_LINE * PTO_REGION_LINE;
    uint64_t bytes = sizeof(struct pto_region_head) + counter_room + payload_bytes;
    struct tree_region *r;
    void *memory;

    if (chip >= t->chip_count)
        return error_setf(error, PTO_EINVAL, "child %u is not a chip", chip);
    if (t->clock.shared != NULL)
        return tree_clock_refuse_region(error);
    if (!child_is_ready(&t->child[chip]))
        return error_setf(error, PTO_EPEER, "chip %u is dead; restart it with pto_worker_reopen",
                          chip);
    r = calloc(1, sizeof(*r));
    if (r == NULL || tree_alloc(t, (int32_t)chip, bytes, &memory) < 0) {
        free(r);
        return error_setf(error, PTO_ENOMEM, "there is no memory for a region of %llu bytes",
                          (unsigned long long)payload_bytes);
    }
    tree_own_memory(t, memory, MEMORY_REGION, r);
    r->tree = t;
    r->head = memory;
    *r->head = (struct pto_region_head){ .calls = (uint64_t)(uintptr_t)&t->shared->calls,
                                         .waker = (uint64_t)(uintptr_t)&t->shared->waker };
    r->region = (struct pto_region){ .magic = PTO_REGION_MAGIC,
                                     .id = (uint64_t)(uintptr_t)r->head,
                                     .counters = (uint64_t)(uintptr_t)(r->head + 1),
                                     .counter_bytes = counter_bytes,
                                     .payload_bytes = payload_bytes };
    r->region.payload = r->region.counters + counter_room;
    r->quiet = r->region;
    r->quiet.id = 1; /* the address of a head is its id, so no region with wakers has id 1 */
    r->next = t->regions;
    t->regions = r;
    *region_out = r;
    return tree_has_cards(t) ? make_mirror(r, chip, bytes, error) : PTO_OK;
}

/* Adds the region to the worker's list, and makes its handle. Called with the lock. */
static int region_publish(struct tree_region *r, enum handle_kind kind, void **handle_out)
{
    r->is_queue = kind == HANDLE_QUEUE;
    r->handle = handle_create(kind, r);
    if (r->handle == NULL) {
        free_region(r);
        return PTO_ENOMEM;
    }
    *handle_out = r->handle;
    return PTO_OK;
}

int pto_worker_region_open(struct pto_worker *worker, const struct pto_worker_region_params *given,
                           struct pto_worker_region **region_out)
{
    struct pto_worker_region_params params;
    struct tree_region *r;
    void *handle = NULL;
    int status;
    struct tree *t = worker_get(worker, &status);

    pto_worker_region_params_init(&params);
    if (status < 0)
        return status;
    if (region_out == NULL || sized_read(&params, sizeof(params), given) < 0)
        return PTO_EINVAL;
    if (params.payload_bytes == 0 || params.payload_bytes > REGION_BYTES_MAX ||
        params.counter_bytes == 0 || params.counter_bytes > REGION_BYTES_MAX ||
        params.counter_bytes % 4 != 0)
        return error_setf(
            params.error, PTO_EINVAL,
            "a region needs a payload of at least one byte, and counters of 4 bytes each");
    pthread_mutex_lock(&t->lock);
    tree_drive(t);
    status =
        make_region(t, params.chip, params.payload_bytes, params.counter_bytes, &r, params.error);
    if (status >= 0)
        status = region_publish(r, HANDLE_REGION, &handle);
    pthread_mutex_unlock(&t->lock);
    if (status >= 0)
        *region_out = handle;
    return status;
}

static void put_queue_scalars(const struct tree_region *r, uint64_t depth, uint64_t input_bytes,
                              uint64_t output_bytes, uint64_t *scalars)
{
    memcpy(scalars, &r->region, sizeof(r->region));
    scalars[6] = PTO_QUEUE_MAGIC;
    scalars[7] = depth;
    scalars[8] = input_bytes;
    scalars[9] = output_bytes;
    scalars[10] = r->region.payload_bytes;
    scalars[11] = r->region.counter_bytes;
}

int pto_worker_queue_open(struct pto_worker *worker, const struct pto_worker_queue_params *given,
                          struct pto_worker_queue **queue_out)
{
    struct pto_worker_queue_params params;
    uint64_t scalars[PTO_QUEUE_SCALARS], bytes;
    struct tree_region *r;
    void *handle = NULL;
    int status;
    struct tree *t = worker_get(worker, &status);

    pto_worker_queue_params_init(&params);
    if (status < 0)
        return status;
    if (queue_out == NULL || sized_read(&params, sizeof(params), given) < 0)
        return PTO_EINVAL;
    bytes = pto_queue_payload_bytes(params.depth, params.input_bytes, params.output_bytes);
    if (params.depth == 1 && tree_has_cards(t))
        return error_setf(params.error, PTO_EINVAL,
                          "a queue on a card has 2 messages at least: with 1 the host and the card "
                          "would write to one cache line");
    if (bytes == 0)
        return error_setf(
            params.error, PTO_EINVAL,
            "a queue cannot have %llu messages, and %llu and %llu bytes for them; the number of "
            "messages is a power of two, and both sizes are multiples of 64",
            (unsigned long long)params.depth, (unsigned long long)params.input_bytes,
            (unsigned long long)params.output_bytes);
    pthread_mutex_lock(&t->lock);
    tree_drive(t);
    status = make_region(t, params.chip, bytes, PTO_QUEUE_COUNTER_BYTES, &r, params.error);
    if (status >= 0) {
        put_queue_scalars(r, params.depth, params.input_bytes, params.output_bytes, scalars);
        (void)pto_queue_init(&r->queue, scalars, false);
        r->queue.region = r->quiet;
        status = region_publish(r, HANDLE_QUEUE, &handle);
    }
    pthread_mutex_unlock(&t->lock);
    if (status >= 0)
        *queue_out = handle;
    return status;
}

/* ---- closing a region ---- */

/* Returns the region of a handle; NULL with a status: the handle is invalid. */
static struct tree_region *region_get(enum handle_kind kind, const void *handle, int *status_out)
{
    struct tree_region *r = handle_get(kind, handle);

    *status_out = r == NULL ? PTO_EINVAL : *r->tree->own_process == 0 ? PTO_EFORKED : PTO_OK;
    return r;
}

static int region_close(enum handle_kind kind, const void *handle)
{
    struct tree *t;
    int status;
    struct tree_region *r = region_get(kind, handle, &status);

    if (status < 0)
        return status;
    t = r->tree;
    pthread_mutex_lock(&t->lock);
    tree_drive(t);
    if (r->users != 0) {
        struct mirror_range part =
            part_of(r, &r->head->is_closed, sizeof(r->head->is_closed), false);

        __atomic_store_n(&r->head->is_closed, 1, __ATOMIC_RELEASE);
        (void)send(r, &part, 1); /* ignored: send fails only if the child has ended */
        status = PTO_EBUSY;
    } else if (handle_destroy(kind, handle) == NULL) {
        status = PTO_EINVAL;
    } else {
        /* from here on new tasks that name the region are refused */
        __atomic_store_n(&r->head->is_closed, 1, __ATOMIC_RELEASE);
        if (r->is_on_card)
            /* if this fails, the memory is kept until the worker is closed */
            status = tree_mirror_close(t, &r->mirror, NULL);
        if (status >= 0)
            free_region(r);
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

int pto_worker_region_close(struct pto_worker_region *region)
{
    return region_close(HANDLE_REGION, region);
}

int pto_worker_queue_close(struct pto_worker_queue *queue)
{
    return region_close(HANDLE_QUEUE, queue);
}

void tree_forget_regions(struct tree *t)
{
    while (t->regions != NULL) {
        struct tree_region *r = t->regions;

        t->regions = r->next;
        (void)handle_destroy(r->is_queue ? HANDLE_QUEUE : HANDLE_REGION, r->handle);
        free(r);
    }
}

/* ---- use by tasks ---- */

int tree_region_use(struct tree_region *r, const char *what, struct pto_error *error)
{
    if (r->head->is_closed != 0)
        return error_setf(error, PTO_EINVAL, "%s belongs to a region that is being closed", what);
    r->users++;
    r->was_used = true;
    return PTO_OK;
}

void tree_region_unuse(struct tree *t, struct tree_region *r, int status)
{
    assert_held(&t->lock);
    assert(r->users != 0);
    r->users--;
    if (status < 0 && r->lost == 0)
        r->lost = status;
    tree_signal_change(t);
}

/* Whether a task may still write to the region. Callers call this before they read the contents. */
static bool region_has_writer(const struct tree_region *r)
{
    return r->lost == 0 && (r->users != 0 || !r->was_used);
}

static int error_set_lost(const struct tree_region *r, struct pto_error *error)
{
    if (r->lost < 0 && !r->was_used)
        return error_setf(error, PTO_EPEER, "the card's memory is not accessible any more: %s",
                          pto_strerror(r->lost));
    if (r->lost < 0)
        return error_setf(error, PTO_EPEER, "a task that had the region failed or never ran: %s",
                          pto_strerror(r->lost));
    if (!region_has_writer(r))
        return error_setf(error, PTO_EPEER, "the task that had the region has ended");
    return error_setf(error, PTO_EPEER, "the task or this program has aborted the queue");
}

/* ---- waiting for a region ---- */

struct region_wait {
    struct tree_region *region;
    int (*look)(struct region_wait *w); /* checks the condition; PTO_EAGAIN: it does not hold yet */
    struct pto_wait_for counter;
    struct pto_message message;
    uint64_t bytes;
    /* ranges that `look` reads, to be fetched from a card in this order */
    struct mirror_range part[MIRROR_RANGES];
    uint32_t range_count;
    int status;
};

static void region_add_part(struct region_wait *w, const void *at, uint64_t bytes)
{
    w->part[w->range_count++] = part_of(w->region, at, bytes, true);
}

static void add_counter(struct region_wait *w, uint64_t offset)
{
    region_add_part(w, pto_region_counter(&w->region->region, offset), sizeof(int32_t));
}

static bool region_has_come(void *context)
{
    struct region_wait *w = context;
    bool may_come = region_has_writer(w->region);

    w->status = w->look(w);
    if (w->status == PTO_EAGAIN && !may_come)
        w->status = PTO_EPEER;
    return w->status != PTO_EAGAIN;
}

static bool has_lost_writer(void *context)
{
    return !region_has_writer(context);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * Waits, if the chip can access the memory, until the condition holds or was checked once after the
 * deadline.
 */
static void await_memory(struct region_wait *w, uint64_t deadline_ns)
{
    uint64_t now = os_now_ns();

    do {
        w->status =
            tree_await(w->region->tree, region_has_come, w, earlier(now + LOOK_NS, deadline_ns)) < 0
                ? PTO_EAGAIN
                : w->status;
        now = os_now_ns();
    } while (w->status == PTO_EAGAIN && now < deadline_ns);
}

/*
 * Waits for a region on a card: first checks whether a task may still write to it, then fetches the
 * ranges and checks the condition.
 */
static void await_card(struct region_wait *w, uint64_t deadline_ns, struct pto_error *error)
{
    struct tree_region *r = w->region;
    const struct mirror_copy copy = { w->part, w->range_count, true };
    uint64_t nap_ns = CARD_LOOK_NS, now;

    for (;;) {
        bool may_come = region_has_writer(r);
        int status =
            w->range_count != 0
                ? note_copied(r, tree_mirror_fetch(r->tree, &r->mirror, &copy, deadline_ns, error))
                : PTO_OK;

        w->status = status >= 0 ? w->look(w) : status == PTO_ETIMEOUT ? PTO_EAGAIN : PTO_EPEER;
        if (w->status == PTO_EAGAIN && !may_come)
            w->status = PTO_EPEER;
        now = os_now_ns();
        if (w->status != PTO_EAGAIN || now >= deadline_ns)
            return;
        (void)tree_await(r->tree, has_lost_writer, r, earlier(now + nap_ns, deadline_ns));
        nap_ns = earlier(2 * nap_ns, LOOK_NS);
    }
}

/* Waits until `look` has another result than PTO_EAGAIN. Called and returns without the lock. */
static int await_region(struct region_wait *w, uint64_t timeout_ns, struct pto_error *error)
{
    struct tree *t = w->region->tree;
    uint64_t deadline_ns = tree_time_after(timeout_ns != 0 ? timeout_ns : PTO_TIMEOUT_DEFAULT_NS);

    pthread_mutex_lock(&t->lock);
    if (w->region->is_on_card)
        await_card(w, deadline_ns, error);
    else
        await_memory(w, deadline_ns);
    if (w->status == PTO_EFORMAT)
        send_end(w->region);
    if (w->status == PTO_EAGAIN)
        w->status = error_setf(error, PTO_ETIMEOUT, "the task did not change the region in time");
    else if (w->status == PTO_EPEER)
        (void)error_set_lost(w->region, error);
    else if (w->status < 0)
        (void)error_setf(error, w->status, "the task wrote an invalid message: %s",
                         pto_strerror(w->status));
    pthread_mutex_unlock(&t->lock);
    return w->status;
}

/* ---- public functions for regions ---- */

int pto_worker_region_scalars(struct pto_worker_region *region, uint64_t *scalars_out)
{
    int status;
    struct tree_region *r = region_get(HANDLE_REGION, region, &status);

    if (status < 0 || scalars_out == NULL)
        return status < 0 ? status : PTO_EINVAL;
    memcpy(scalars_out, &r->region, sizeof(r->region));
    return PTO_OK;
}

/*
 * Returns the address of bytes of the payload, which are to be copied from or to `other`. NULL with
 * a status: the arguments are invalid.
 */
static void *region_reach(struct tree_region *r, uint64_t offset, uint64_t bytes, const void *other,
                          int *status_out)
{
    void *at;

    if (*status_out < 0)
        return NULL;
    at = pto_region_payload(&r->region, offset, bytes);
    *status_out = at == NULL ? PTO_EMEMORY : other == NULL ? PTO_EINVAL : PTO_OK;
    return *status_out < 0 ? NULL : at;
}

int pto_worker_region_write(struct pto_worker_region *region, uint64_t offset, const void *from,
                            uint64_t bytes)
{
    int status;
    struct tree_region *r = region_get(HANDLE_REGION, region, &status);
    void *at = region_reach(r, offset, bytes, from, &status);

    if (at == NULL)
        return status;
    memcpy(at, from, bytes);
    return r->is_on_card ? send_locked(r, at, bytes) : PTO_OK;
}

int pto_worker_region_read(struct pto_worker_region *region, uint64_t offset, void *to,
                           uint64_t bytes)
{
    int status;
    struct tree_region *r = region_get(HANDLE_REGION, region, &status);
    const void *at = region_reach(r, offset, bytes, to, &status);

    if (at != NULL && r->is_on_card)
        status = fetch_locked(r, at, bytes);
    if (at != NULL && status >= 0)
        memcpy(to, at, bytes);
    return status;
}

int pto_worker_region_notify(struct pto_worker_region *region, struct pto_signal_at counter)
{
    int status;
    struct tree_region *r = region_get(HANDLE_REGION, region, &status);

    if (status >= 0)
        status = pto_region_notify(&r->quiet, counter.offset, counter.how, counter.value);
    if (status >= 0 && r->is_on_card)
        status = send_locked(r, pto_region_counter(&r->region, counter.offset), sizeof(int32_t));
    return status;
}

int pto_worker_region_counter(struct pto_worker_region *region, uint64_t offset, int32_t *value_out)
{
    int status;
    struct tree_region *r = region_get(HANDLE_REGION, region, &status);

    if (status < 0)
        return status;
    if (pto_region_counter(&r->region, offset) == NULL || value_out == NULL)
        return PTO_EINVAL;
    if (r->is_on_card)
        status = fetch_locked(r, pto_region_counter(&r->region, offset), sizeof(int32_t));
    if (status < 0)
        return status;
    *value_out = __atomic_load_n(pto_region_counter(&r->region, offset), __ATOMIC_ACQUIRE);
    return PTO_OK;
}

static int look_at_counter(struct region_wait *w)
{
    const int32_t *counter = pto_region_counter(&w->region->region, w->counter.offset);

    return pto_compare_holds(w->counter.how, __atomic_load_n(counter, __ATOMIC_ACQUIRE),
                             w->counter.value)
               ? PTO_OK
               : PTO_EAGAIN;
}

int pto_worker_region_wait(struct pto_worker_region *region, struct pto_wait_for counter,
                           uint64_t timeout_ns, struct pto_error *error)
{
    struct region_wait w = { .look = look_at_counter, .counter = counter };
    int status;

    w.region = region_get(HANDLE_REGION, region, &status);
    if (status < 0)
        return status;
    if (pto_region_counter(&w.region->region, counter.offset) == NULL)
        return error_setf(error, PTO_EINVAL, "there is no counter at %llu",
                          (unsigned long long)counter.offset);
    add_counter(&w, counter.offset);
    return await_region(&w, timeout_ns, error);
}

/* ---- public functions for queues ---- */

int pto_worker_queue_scalars(struct pto_worker_queue *queue, uint64_t *scalars_out)
{
    int status;
    struct tree_region *r = region_get(HANDLE_QUEUE, queue, &status);

    if (status < 0 || scalars_out == NULL)
        return status < 0 ? status : PTO_EINVAL;
    put_queue_scalars(r, r->queue.depth, r->queue.out.arena_bytes, r->queue.in.arena_bytes,
                      scalars_out);
    return PTO_OK;
}

static int look_for_room(struct region_wait *w)
{
    struct pto_queue *q = &w->region->queue;
    bool is_aborted = pto_queue_is_aborted(q);

    return is_aborted ? PTO_EPEER : pto_queue_reserve(q, w->bytes, &w->message);
}

/*
 * Copies a published message to a card: its bytes, its slot, and then the counter that shows it to
 * the receiver.
 */
static int region_send_message(struct tree_region *r, const struct pto_message *m)
{
    struct pto_queue *q = &r->queue;
    const struct mirror_range part[] = {
        part_of(r, pto_queue_slot(q, &q->out, m->number - 1), PTO_QUEUE_SLOT_BYTES, false),
        part_of(r, pto_region_counter(&r->region, q->out.tail_at), sizeof(int32_t), false),
        part_of(r, m->data, m->bytes, false)
    };
    const struct mirror_range all[] = { part[2], part[0], part[1] };
    int status = m->bytes != 0 ? send(r, all, 3) : send(r, part, 2);

    if (status < 0)
        /* otherwise the queue's end on the card would wait for the message that was not copied */
        (void)pto_queue_abort(q, status);
    return status;
}

int pto_worker_queue_send(struct pto_worker_queue *queue, enum pto_message_kind kind,
                          const void *from, uint64_t bytes, uint64_t timeout_ns,
                          struct pto_error *error)
{
    struct region_wait w = { .look = look_for_room, .bytes = bytes };
    struct pto_queue *q;
    int status;

    w.region = region_get(HANDLE_QUEUE, queue, &status);
    if (status < 0)
        return status;
    q = &w.region->queue;
    if (kind < PTO_MESSAGE_DATA || kind > PTO_MESSAGE_ERROR || (bytes != 0 && from == NULL) ||
        (kind == PTO_MESSAGE_STOP && bytes != 0) || bytes > q->out.arena_bytes || q->out.is_stopped)
        return error_setf(error, PTO_EINVAL,
                          q->out.is_stopped ? "no message may follow a STOP"
                                            : "no message of kind %d with %llu bytes can be sent",
                          (int)kind, (unsigned long long)bytes);
    add_counter(&w, q->other_end_at);
    add_counter(&w, q->out.head_at);
    status = await_region(&w, timeout_ns, error);
    if (status < 0)
        return status;
    if (bytes != 0)
        memcpy(w.message.data, from, bytes);
    pthread_mutex_lock(&w.region->tree->lock); /* another thread may abort the queue now */
    status = pto_queue_publish(q, &w.message, kind);
    if (status >= 0)
        status = region_send_message(w.region, &w.message);
    pthread_mutex_unlock(&w.region->tree->lock);
    return status;
}

static void send_head(struct tree_region *r)
{
    struct mirror_range part =
        part_of(r, pto_region_counter(&r->region, r->queue.in.head_at), sizeof(int32_t), false);

    (void)send(r, &part, 1); /* ignored: send fails only if the child has ended */
}

static int look_for_message(struct region_wait *w)
{
    struct tree_region *r = w->region;

    if (r->received.number == 0) {
        int status = pto_queue_peek(&r->queue, &r->received);

        if (status < 0) {
            r->received.number = 0;
            return status;
        }
    }
    w->message = r->received;
    return PTO_OK;
}

int pto_worker_queue_receive(struct pto_worker_queue *queue, struct pto_worker_message *message,
                             uint64_t timeout_ns, struct pto_error *error)
{
    struct region_wait w = { .look = look_for_message };
    struct pto_worker_message known;
    int status;

    w.region = region_get(HANDLE_QUEUE, queue, &status);
    if (status < 0)
        return status;
    pto_worker_message_init(&known);
    if (message == NULL || sized_read(&known, sizeof(known), message) < 0)
        return PTO_EINVAL;
    /* number != 0: the message was received before, but was too large for the buffer */
    if (w.region->received.number == 0) {
        struct pto_queue *q = &w.region->queue;

        add_counter(&w, q->other_end_at);
        add_counter(&w, q->in.tail_at);
        region_add_part(&w, pto_queue_slot(q, &q->in, q->in.taken), PTO_QUEUE_SLOT_BYTES);
    }
    status = await_region(&w, timeout_ns, error);
    if (status < 0)
        return status;
    known.bytes = w.message.bytes;
    known.number = w.message.number;
    known.kind = (enum pto_message_kind)w.message.kind;
    if (known.bytes > known.room || (known.bytes != 0 && known.to == NULL)) {
        sized_write(message, &known, sizeof(known));
        return error_setf(error, PTO_EMEMORY,
                          "the message has %llu bytes, and there is room for %llu",
                          (unsigned long long)known.bytes, (unsigned long long)known.room);
    }
    if (w.region->is_on_card) {
        status = fetch_locked(w.region, w.message.data, known.bytes);
        if (status < 0)
            return error_setf(error, status, "the message cannot be copied from the card: %s",
                              pto_strerror(status));
    }
    if (known.bytes != 0)
        memcpy(known.to, w.message.data, known.bytes);
    sized_write(message, &known, sizeof(known));
    pthread_mutex_lock(&w.region->tree->lock);
    w.region->received.number = 0;
    /* ignored: the message was received, even if the queue was aborted */
    (void)pto_queue_release(&w.region->queue, &w.message);
    send_head(w.region);
    pthread_mutex_unlock(&w.region->tree->lock);
    return PTO_OK;
}

int pto_worker_queue_abort(struct pto_worker_queue *queue)
{
    int status;
    struct tree_region *r = region_get(HANDLE_QUEUE, queue, &status);

    if (status < 0)
        return status;
    pthread_mutex_lock(&r->tree->lock);
    (void)pto_queue_abort(&r->queue, PTO_EPEER);
    tree_signal_change(r->tree);
    send_end(r);
    pthread_mutex_unlock(&r->tree->lock);
    return PTO_OK;
}
