/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of ranks on other hosts, for pto/window.h: programs use the functions there.
 *
 * A kernel posts requests to a queue in memory of its process, and a thread of the communicator
 * carries them out. The queue has no lock, so a kernel that crashes or that the runtime makes leave
 * in the middle of an operation blocks no other. Data are copied to and from the request, so a
 * kernel that has left does not have its memory changed later.
 *
 * Ordering
 *   - A thread takes a request by its id in `thread`, fills it in, and pushes it to the list
 *     `posted` with release; the thread of the communicator takes the whole list with acquire. The
 *     list grows at its head, so its reverse is an order in which a request that a kernel posted
 *     after it had seen the effects of another one comes later.
 *   - `state` becomes PTO_FAR_DONE with release after the answer was stored in the request.
 *   - `thread` becomes 0 with release after the last access to the request.
 */
#ifndef PTO_API_WINDOW_FAR_H
#define PTO_API_WINDOW_FAR_H

#include <stdbool.h>
#include <string.h>

#include "pto/status.h"
#include "pto/wake.h"

enum {
    PTO_FAR_REQUESTS = 64,
    PTO_FAR_DATA = 8192, /* bytes of data of a request */
    PTO_FAR_OWN = 65536, /* bytes of a request that writes to the own window */
    PTO_FAR_AT_ONCE = 8, /* requests of one get */
};

enum pto_far_kind {
    PTO_FAR_PUT,     /* `data` to the rank's window */
    PTO_FAR_SIGNAL,  /* changes a word of the rank's window */
    PTO_FAR_GET,     /* from the rank's window to `data` */
    PTO_FAR_GET_OWN, /* from the rank's window to the own window; then a counter there is raised */
    PTO_FAR_FETCH_ADD, /* adds to a word of the rank's window; its old value becomes `value` */
};

enum pto_far_state { PTO_FAR_FILLED, PTO_FAR_POSTED, PTO_FAR_DONE };

struct pto_far_request {
    uint64_t thread; /* thread that uses the request; 0: it is free */
    uint64_t call;   /* number of the operation that it belongs to */
    uint32_t state;  /* enum pto_far_state */
    uint32_t next;   /* next request of the list `posted`, plus 1; 0: none */
    uint64_t domain; /* `domain` of struct pto_comm_far */
    uint32_t kind;   /* enum pto_far_kind */
    uint32_t rank;
    uint64_t offset; /* in the window of the rank */
    uint64_t bytes;
    uint64_t to; /* PTO_FAR_GET_OWN: offset in the own window */
    uint64_t
        counter;  /* PTO_FAR_GET_OWN: offset of the counter in the own window, plus 1; 0: none */
    uint32_t how; /* enum pto_signal */
    int32_t value;
    int32_t status; /* result, in state PTO_FAR_DONE */
    uint8_t data[PTO_FAR_DATA];
};

struct pto_far_queue {
    uint64_t waker;  /* waker of the thread that carries out the requests, for pto_wake */
    uint64_t calls;  /* number of operations so far */
    uint32_t posted; /* last posted request, plus 1; 0: none */
    struct pto_far_request request[PTO_FAR_REQUESTS];
};

/* What a context of a domain has for ranks on other hosts. */
struct pto_comm_far {
    uint64_t queue;  /* address of a struct pto_far_queue */
    uint64_t domain; /* identifies the domain in requests */
    uint64_t ranks;  /* one bit for each rank that is on another host */
};

/* Lets others run while a kernel waits. */
static inline void pto_far_pause(void)
{
    if (pto_sim_waits != NULL)
        pto_sim_waits();
    pto_pause();
}

/* Returns a number of the calling thread that no other living thread has. */
static inline uint64_t pto_far_thread(void)
{
#if defined(__x86_64__)
    uint64_t self;

    __asm__("mov %%fs:0, %0" : "=r"(self));
    return self;
#else
    return (uint64_t)(uintptr_t)__builtin_thread_pointer();
#endif
}

/* Returns the bytes of the next request of a copy. */
static inline uint64_t pto_far_least(uint64_t bytes, uint64_t limit)
{
    return bytes < limit ? bytes : limit;
}

/* Begins an operation. Returns its number. */
static inline uint64_t pto_far_begin(struct pto_far_queue *q)
{
    return __atomic_add_fetch(&q->calls, 1, __ATOMIC_RELAXED);
}

/*
 * Takes a request for an operation. NULL: none is free. A request that this thread took for an
 * earlier operation, whose kernel was made to leave, is used again once it is not posted.
 */
static inline struct pto_far_request *pto_far_take(struct pto_far_queue *q, uint64_t call)
{
    const uint64_t self = pto_far_thread();

    for (uint32_t i = 0; i < PTO_FAR_REQUESTS; i++) {
        struct pto_far_request *r = &q->request[i];
        /*
         * First the state: a request that is this thread's now was so before, and one that is not
         * posted stays this thread's.
         */
        uint32_t state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
        uint64_t thread = __atomic_load_n(&r->thread, __ATOMIC_RELAXED);

        if (thread == 0 ? !__atomic_compare_exchange_n(&r->thread, &thread, self, false,
                                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
                        : thread != self || state == PTO_FAR_POSTED || r->call == call)
            continue;
        r->call = call;
        __atomic_store_n(&r->state, (uint32_t)PTO_FAR_FILLED, __ATOMIC_RELAXED);
        return r;
    }
    return NULL;
}

/* The state stays, so that the thread that used the request does not take it for an unposted one. */
static inline void pto_far_free(struct pto_far_request *r)
{
    __atomic_store_n(&r->thread, 0, __ATOMIC_RELEASE);
}

/* Posts a request; the thread of the communicator frees it, unless it has an answer. */
static inline void pto_far_post(struct pto_far_queue *q, struct pto_far_request *r)
{
    uint32_t head = __atomic_load_n(&q->posted, __ATOMIC_RELAXED);
    const uint32_t number = (uint32_t)(r - q->request) + 1;

    __atomic_store_n(&r->state, (uint32_t)PTO_FAR_POSTED, __ATOMIC_RELAXED);
    do
        r->next = head;
    while (!__atomic_compare_exchange_n(&q->posted, &head, number, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
    pto_wake(q->waker);
}

/* Waits until a posted request was answered. */
static inline int pto_far_await(struct pto_far_request *r)
{
    while (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) != PTO_FAR_DONE)
        pto_far_pause();
    return r->status;
}

/* Takes a request and fills in what all kinds have. `waits`: until one is free; else NULL. */
static inline struct pto_far_request *pto_far_make(const struct pto_comm_far *far, uint64_t call,
                                                   uint32_t rank, uint64_t offset, bool waits)
{
    struct pto_far_queue *q = (struct pto_far_queue *)(uintptr_t)far->queue;
    struct pto_far_request *r = pto_far_take(q, call);

    while (r == NULL && waits) {
        pto_far_pause();
        r = pto_far_take(q, call);
    }
    if (r == NULL)
        return NULL;
    r->domain = far->domain;
    r->rank = rank;
    r->offset = offset;
    r->bytes = 0;
    return r;
}

/* Copies to the window of a rank. The bytes have left `from` on return. */
static inline void pto_far_put(const struct pto_comm_far *far, uint32_t rank, uint64_t offset,
                               const void *from, uint64_t bytes)
{
    struct pto_far_queue *q = (struct pto_far_queue *)(uintptr_t)far->queue;
    const uint64_t call = pto_far_begin(q);

    for (uint64_t at = 0; at < bytes; at += PTO_FAR_DATA) {
        struct pto_far_request *r = pto_far_make(far, call, rank, offset + at, true);

        r->kind = PTO_FAR_PUT;
        r->bytes = pto_far_least(bytes - at, PTO_FAR_DATA);
        memcpy(r->data, (const char *)from + at, r->bytes);
        pto_far_post(q, r);
    }
}

/* Changes a word of the window of a rank. */
static inline void pto_far_signal(const struct pto_comm_far *far, uint32_t rank, uint64_t offset,
                                  uint32_t how, int32_t value)
{
    struct pto_far_queue *q = (struct pto_far_queue *)(uintptr_t)far->queue;
    struct pto_far_request *r = pto_far_make(far, pto_far_begin(q), rank, offset, true);

    r->kind = PTO_FAR_SIGNAL;
    r->how = how;
    r->value = value;
    pto_far_post(q, r);
}

/* Returns the old value; 0 if the rank is lost. */
static inline int32_t pto_far_fetch_add(const struct pto_comm_far *far, uint32_t rank,
                                        uint64_t offset, int32_t value)
{
    struct pto_far_queue *q = (struct pto_far_queue *)(uintptr_t)far->queue;
    struct pto_far_request *r = pto_far_make(far, pto_far_begin(q), rank, offset, true);
    int32_t before;

    r->kind = PTO_FAR_FETCH_ADD;
    r->value = value;
    pto_far_post(q, r);
    before = pto_far_await(r) < 0 ? 0 : r->value;
    pto_far_free(r);
    return before;
}

/*
 * Returns PTO_OK or PTO_EPEER. Several requests are on their way at a time; if none is free, the
 * oldest is awaited, so that kernels that have some each do not wait for each other.
 */
static inline int pto_far_get(const struct pto_comm_far *far, uint32_t rank, uint64_t offset,
                              void *to, uint64_t bytes)
{
    struct pto_far_queue *q = (struct pto_far_queue *)(uintptr_t)far->queue;
    const uint64_t call = pto_far_begin(q);
    struct pto_far_request *sent[PTO_FAR_AT_ONCE], *r;
    uint64_t asked = 0, done = 0;
    uint32_t first = 0, last = 0;
    int status = PTO_OK;

    while (done < bytes) {
        r = NULL;
        if (asked < bytes && last - first < PTO_FAR_AT_ONCE)
            r = pto_far_make(far, call, rank, offset + asked, first == last);
        if (r != NULL) {
            r->kind = PTO_FAR_GET;
            r->bytes = pto_far_least(bytes - asked, PTO_FAR_DATA);
            asked += r->bytes;
            sent[last++ % PTO_FAR_AT_ONCE] = r;
            pto_far_post(q, r);
            continue;
        }
        r = sent[first++ % PTO_FAR_AT_ONCE];
        if (pto_far_await(r) < 0)
            status = r->status;
        else
            memcpy((char *)to + done, r->data, r->bytes);
        done += r->bytes;
        pto_far_free(r);
    }
    return status;
}

/* Copies to the own window, and adds 1 to a counter there when all is copied. Does not wait. */
static inline void pto_far_get_own(const struct pto_comm_far *far, uint32_t rank, uint64_t offset,
                                   uint64_t to, uint64_t bytes, uint64_t counter)
{
    struct pto_far_queue *q = (struct pto_far_queue *)(uintptr_t)far->queue;
    const uint64_t call = pto_far_begin(q);
    uint64_t at = 0;

    do {
        struct pto_far_request *r = pto_far_make(far, call, rank, offset + at, true);

        r->kind = PTO_FAR_GET_OWN;
        r->bytes = pto_far_least(bytes - at, PTO_FAR_OWN);
        r->to = to + at;
        at += r->bytes;
        /* a rank answers in the order of requests, so the last answer means all */
        r->counter = at == bytes ? counter + 1 : 0;
        pto_far_post(q, r);
    } while (at < bytes);
}

#endif
