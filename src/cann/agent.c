/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that call the vendor: agent.h says why. */
#include "cann/agent.h"

#include <setjmp.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/os.h"
#include "cann/cann.h"

enum { MS = 1000000, PATIENCE_MS = 2 };

struct agent {
    struct agent *next; /* of the idle ones, or of those that are to be waited for */
    struct cann *c;
    pthread_t thread;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    agent_fn work; /* NULL: none */
    void *arg;
    const char *call; /* of the vendor's, that is going on */
    uint64_t until_ns;
    bool is_bound;
    bool is_ending;
    bool is_given_up;
    jmp_buf left; /* where it ends then */
};

static __thread struct agent *here;

/* ---- on the agent ---- */

void agent_enter_call(const char *name, uint64_t ms)
{
    if (here == NULL)
        return;
    pthread_mutex_lock(&here->lock);
    here->call = name;
    here->until_ns = os_now_ns() + ms * MS;
    pthread_mutex_unlock(&here->lock);
}

void agent_leave_call(void)
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

/* The device's context, once there is one; the agent that opens the device gets it by that. */
static int agent_bind(struct agent *a)
{
    int code;

    if (a->is_bound || a->c->context == NULL) /* mutation: unbound-thread */
        return ACL_SUCCESS;
    code = VENDOR_CALL(&a->c->vendor, aclrtSetCurrentContext, a->c->context);
    a->is_bound = code == ACL_SUCCESS;
    return code;
}

static void agent_serve(struct agent *a)
{
    pthread_mutex_lock(&a->lock);
    for (;;) {
        agent_fn work = a->work;
        int code;

        if (work == NULL && a->is_ending)
            break;
        if (work == NULL) {
            (void)os_cond_wait(&a->changed, &a->lock, UINT64_MAX);
            continue;
        }
        pthread_mutex_unlock(&a->lock);
        code = agent_bind(a);
        if (code != ACL_SUCCESS) /* the work's calls will say so, too */
            (void)cann_tell(a->c, NULL, "aclrtSetCurrentContext", code, "for a thread");
        work(a->c, a->arg);
        pthread_mutex_lock(&a->lock);
        a->work = NULL;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
}

static void agent_destroy(struct agent *a)
{
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static void *agent_main(void *arg)
{
    struct agent *a = arg;

    here = a;
    if (setjmp(a->left) == 0) {
        agent_serve(a);
    } else { /* nobody knows of it any more */
        struct cann *c = a->c;

        agent_destroy(a);
        cann_release(c);
    }
    return NULL;
}

/* ---- for whoever has work ---- */

static struct agent *take_idle(struct cann *c)
{
    struct agent *a;

    pthread_mutex_lock(&c->agent_lock);
    a = c->idle;
    if (a != NULL)
        c->idle = a->next;
    pthread_mutex_unlock(&c->agent_lock);
    return a;
}

static void put_idle(struct cann *c, struct agent *a)
{
    pthread_mutex_lock(&c->agent_lock);
    a->next = c->idle;
    c->idle = a;
    pthread_mutex_unlock(&c->agent_lock);
}

static struct agent *make(struct cann *c)
{
    struct agent *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return NULL;
    a->c = c;
    pthread_mutex_init(&a->lock, NULL);
    os_cond_init(&a->changed);
    if (os_thread_start(&a->thread, agent_main, a) < 0) {
        agent_destroy(a);
        return NULL;
    }
    return a;
}

/*
 * NULL: the work is done; else the call that is overdue, or that nobody wants to wait
 * for any more.
 */
static const char *agent_await(struct agent *a, const struct chip_patience *patience)
{
    assert_held(&a->lock);
    while (a->work != NULL) {
        uint64_t now_ns = os_now_ns();
        uint64_t until_ns =
            a->call != NULL ? a->until_ns : now_ns + (uint64_t)a->c->vendor.call_ms * MS;

        if (a->call != NULL && /* mutation: patient-agent */
            (now_ns >= a->until_ns || (patience != NULL && !patience->goes_on(patience->context))))
            return a->call;
        if (patience != NULL && until_ns > now_ns + PATIENCE_MS * MS)
            until_ns = now_ns + PATIENCE_MS * MS;
        (void)os_cond_wait(&a->changed, &a->lock, until_ns);
    }
    return NULL;
}

int agent_do(struct cann *c, agent_fn work, void *arg, struct pto_error *error)
{
    return agent_do_while(c, work, arg, NULL, error);
}

int agent_do_while(struct cann *c, agent_fn work, void *arg, const struct chip_patience *patience,
                   struct pto_error *error)
{
    struct agent *a = take_idle(c);
    const char *overdue;

    if (a == NULL)
        a = make(c);
    if (a == NULL)
        return error_tell(error, PTO_ENOMEM, "card %u: there is no thread to call the driver",
                          c->card);
    pthread_mutex_lock(&a->lock);
    a->work = work;
    a->arg = arg;
    pthread_cond_broadcast(&a->changed);
    overdue = agent_await(a, patience);
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
    /* After the reason, which a thread gives that sees this. A thread in a call waits for its own. */
    a32_store_relaxed(&c->is_silent, 1);
    return PTO_ELOST;
}

void agent_end_all(struct cann *c)
{
    struct agent *a;

    while ((a = take_idle(c)) != NULL) {
        pthread_mutex_lock(&a->lock);
        a->is_ending = true;
        pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
        agent_destroy(a);
    }
}
