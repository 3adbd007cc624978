/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that call the driver: see driver_thread.h. */
#include "cann/driver_thread.h"

#include <setjmp.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/os.h"
#include "cann/cann.h"

enum { MS = 1000000, CHECK_MS = 2 };

struct driver_thread {
    struct driver_thread *next; /* next in the device's list of idle threads */
    struct cann *c;
    pthread_t thread;
    pthread_mutex_t lock; /* protects the fields down to is_given_up */
    pthread_cond_t changed;
    driver_work_fn work; /* function that the thread has to call; NULL: none */
    void *arg;
    const char *call; /* name of the vendor's call in progress; NULL: none */
    uint64_t until_ns;
    bool is_bound;
    bool is_ending;
    bool is_given_up;
    /* where the thread continues when an overdue call has returned, in order to end */
    jmp_buf left;
};

static __thread struct driver_thread *here;

/* ---- functions on the driver thread ---- */

void driver_thread_enter_call(const char *name, uint64_t ms)
{
    if (here == NULL)
        return;
    pthread_mutex_lock(&here->lock);
    here->call = name;
    here->until_ns = os_now_ns() + ms * MS;
    pthread_mutex_unlock(&here->lock);
}

void driver_thread_leave_call(void)
{
    bool is_given_up;

    if (here == NULL)
        return;
    pthread_mutex_lock(&here->lock);
    here->call = NULL;
    is_given_up = here->is_given_up;
    pthread_mutex_unlock(&here->lock);
    if (is_given_up)
        longjmp(here->left, 1);
}

/*
 * Binds the thread to the device's context, if that exists already. It does not exist yet when the
 * device is being opened.
 */
static int driver_thread_bind(struct driver_thread *a)
{
    int code;

    if (a->is_bound || a->c->context == NULL) /* mutation: unbound-thread */
        return ACL_SUCCESS;
    code = VENDOR_CALL(&a->c->vendor, aclrtSetCurrentContext, a->c->context);
    a->is_bound = code == ACL_SUCCESS;
    return code;
}

static void driver_thread_serve(struct driver_thread *a)
{
    pthread_mutex_lock(&a->lock);
    for (;;) {
        driver_work_fn work = a->work;
        int code;

        if (work == NULL && a->is_ending)
            break;
        if (work == NULL) {
            (void)os_cond_wait(&a->changed, &a->lock, UINT64_MAX);
            continue;
        }
        pthread_mutex_unlock(&a->lock);
        code = driver_thread_bind(a);
        /* ignored: the calls of the work fail with the same code, and report it */
        if (code != ACL_SUCCESS)
            (void)cann_error_set(a->c, NULL, "aclrtSetCurrentContext", code, "for a thread");
        work(a->c, a->arg);
        pthread_mutex_lock(&a->lock);
        a->work = NULL;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
}

static void driver_thread_destroy(struct driver_thread *a)
{
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static void *driver_thread_main(void *arg)
{
    struct driver_thread *a = arg;

    here = a;
    if (setjmp(a->left) == 0) {
        driver_thread_serve(a);
        /* frees its own struct: the caller has given this thread up, so no other thread frees it */
    } else {
        struct cann *c = a->c;

        driver_thread_destroy(a);
        cann_release(c);
    }
    return NULL;
}

/* ---- functions on the calling thread ---- */

static struct driver_thread *take_idle(struct cann *c)
{
    struct driver_thread *a;

    pthread_mutex_lock(&c->driver_thread_lock);
    a = c->idle;
    if (a != NULL)
        c->idle = a->next;
    pthread_mutex_unlock(&c->driver_thread_lock);
    return a;
}

static void put_idle(struct cann *c, struct driver_thread *a)
{
    pthread_mutex_lock(&c->driver_thread_lock);
    a->next = c->idle;
    c->idle = a;
    pthread_mutex_unlock(&c->driver_thread_lock);
}

static struct driver_thread *make(struct cann *c)
{
    struct driver_thread *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return NULL;
    a->c = c;
    pthread_mutex_init(&a->lock, NULL);
    os_cond_init(&a->changed);
    if (os_thread_start(&a->thread, driver_thread_main, a) < 0) {
        driver_thread_destroy(a);
        return NULL;
    }
    return a;
}

/*
 * Waits until the work is done, and returns NULL; or returns the name of the call that is overdue,
 * or during which the check has ended the wait.
 */
static const char *driver_thread_await(struct driver_thread *a, const struct chip_wait_check *check)
{
    assert_held(&a->lock);
    while (a->work != NULL) {
        uint64_t now_ns = os_now_ns();
        uint64_t until_ns =
            a->call != NULL ? a->until_ns : now_ns + (uint64_t)a->c->vendor.call_ms * MS;

        if (a->call != NULL && /* mutation: patient-agent */
            (now_ns >= a->until_ns || (check != NULL && !check->should_wait(check->context))))
            return a->call;
        if (check != NULL && until_ns > now_ns + CHECK_MS * MS)
            until_ns = now_ns + CHECK_MS * MS;
        (void)os_cond_wait(&a->changed, &a->lock, until_ns);
    }
    return NULL;
}

int driver_thread_call(struct cann *c, driver_work_fn work, void *arg, struct pto_error *error)
{
    return driver_thread_call_while(c, work, arg, NULL, error);
}

int driver_thread_call_while(struct cann *c, driver_work_fn work, void *arg,
                             const struct chip_wait_check *check, struct pto_error *error)
{
    struct driver_thread *a = take_idle(c);
    const char *overdue;

    if (a == NULL)
        a = make(c);
    if (a == NULL)
        return error_setf(error, PTO_ENOMEM, "card %u: there is no thread to call the driver",
                          c->card);
    pthread_mutex_lock(&a->lock);
    a->work = work;
    a->arg = arg;
    pthread_cond_broadcast(&a->changed);
    overdue = driver_thread_await(a, check);
    a->is_given_up = overdue != NULL;
    if (overdue != NULL) {
        cann_keep(c);
        pthread_detach(a->thread);
    }
    pthread_mutex_unlock(&a->lock);
    if (overdue == NULL) {
        put_idle(c, a);
        return PTO_OK;
    }
    vendor_note(&c->vendor, "hang", "%s", overdue);
    (void)cann_lose(c, error, "card %u: %s has not returned, and is given up", c->card, overdue);
    /*
     * cann_lose has stored the reason of the loss before: a thread that sees is_silent makes no
     * more calls, and reports that reason. A thread inside a vendor's call does not read the flag,
     * and waits for the end of that call.
     */
    a32_store_relaxed(&c->is_silent, 1);
    return PTO_ELOST;
}

void driver_thread_end_all(struct cann *c)
{
    struct driver_thread *a;

    while ((a = take_idle(c)) != NULL) {
        pthread_mutex_lock(&a->lock);
        a->is_ending = true;
        pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
        driver_thread_destroy(a);
    }
}
