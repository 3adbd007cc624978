/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the stand-in, and the account of runs: how many were launched after another one, and
 * how long a card was idle between two runs.
 */
#include <stdlib.h>
#include <time.h>

#include "tests/standin/standin.h"

enum {
    ERR_PARAM = 107000,
    ERR_STREAM = 107003,
    ERR_LATE = 507047,
    FLAG_SYNC = 1,     /* streams can wait for it */
    FLAG_PROGRESS = 2, /* so can the host */
};

/* ---- what a stream comes to ---- */

bool standin_do_event(const struct stream *s, const struct task *t)
{
    if (t->is_waiting)
        return t->event->reached >= t->number;
    t->event->reached = t->number;
    t->event->error = s->error;
    return true;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool is_of(const struct task *t, enum kind kind)
{
    return t->function != NULL && t->function->entry->kind == kind;
}

void standin_note_launch(struct card *c)
{
    if (c->runs_launched != c->runs_ended)
        c->runs_behind++;
    else if (c->runs_ended != 0)
        c->idle_ns += now_ns() - c->run_ns;
    c->runs_launched++;
}

/*
 * A card that goes down ends programs in any order: the first program may end before its cores
 * start.
 */
void standin_note_begin(struct card *c, const struct task *t)
{
    if (!is_of(t, KIND_CORES))
        return;
    if (c->is_running && __atomic_load_n(&c->is_aborting, __ATOMIC_ACQUIRE) == 0)
        standin_violation(
            "cores start while the program that led those before them goes on: it may "
            "not have seen yet that they ended");
    c->is_running = true;
}

void standin_note_end(struct card *c, const struct task *t)
{
    if (!is_of(t, KIND_CPU) || !c->is_running)
        return;
    c->is_running = false;
    c->runs_ended++;
    c->run_ns = now_ns();
}

/* ---- accounts ---- */

uint64_t standin_count_events(void)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < CARDS_MAX; i++)
        for (const struct event *e = standin.card[i].events; e != NULL; e = e->next)
            count++;
    return count;
}

void standin_forget_stream(const struct stream *s)
{
    for (struct event *e = standin.card[s->context->card].events; e != NULL; e = e->next)
        if (e->stream == s)
            e->stream = NULL;
}

uint32_t standin_forget_events(struct card *c)
{
    uint32_t count = 0;

    for (struct event *e = c->events, *next; e != NULL; e = next, count++) {
        next = e->next;
        free(e);
    }
    c->events = NULL;
    return count;
}

/* ---- calls ---- */

#define CHECK(check)         \
    do {                     \
        int code_ = check(); \
        if (code_ != 0)      \
            return code_;    \
    } while (0)

int aclrtCreateEventExWithFlag(void **event, uint32_t flags)
{
    struct event *e;
    struct card *c;

    ENTER(aclrtCreateEventExWithFlag);
    CHECK(standin_check_well);
    if (flags != (FLAG_SYNC | FLAG_PROGRESS))
        return ERR_PARAM;
    e = calloc(1, sizeof(*e));
    if (e == NULL)
        abort();
    e->context = standin_here;
    pthread_mutex_lock(&standin.lock);
    c = &standin.card[standin_here->card];
    e->next = c->events;
    c->events = e;
    pthread_mutex_unlock(&standin.lock);
    *event = e;
    return 0;
}

int aclrtDestroyEvent(void *event)
{
    struct event **link;

    ENTER(aclrtDestroyEvent);
    CHECK(standin_check_bound);
    pthread_mutex_lock(&standin.lock);
    link = &standin.card[standin_here->card].events;
    while (*link != NULL && *link != event)
        link = &(*link)->next;
    if (*link != NULL) {
        if ((*link)->reached != (*link)->recorded)
            standin_violation("an event is destroyed that its stream has not come to");
        *link = (*link)->next;
        free(event);
    }
    pthread_mutex_unlock(&standin.lock);
    return 0;
}

/* Makes the stream record the event, or wait for it. */
static int push(struct stream *s, struct event *e, bool is_waiting)
{
    struct task *t;

    CHECK(standin_check_well);
    if (s->context != standin_here || e->context != standin_here)
        return ERR_STREAM;
    t = calloc(1, sizeof(*t));
    if (t == NULL)
        abort();
    pthread_mutex_lock(&standin.lock);
    if (!is_waiting && e->reached != e->recorded)
        standin_violation("an event is recorded again before its stream has come to it");
    if (!is_waiting) {
        e->recorded++;
        e->stream = s;
    }
    t->event = e;
    t->number = e->recorded;
    t->is_waiting = is_waiting;
    standin_push(s, t);
    pthread_mutex_unlock(&standin.lock);
    return 0;
}

int aclrtRecordEvent(void *event, void *stream)
{
    ENTER(aclrtRecordEvent);
    return push(stream, event, false);
}

int aclrtStreamWaitEvent(void *stream, void *event)
{
    ENTER(aclrtStreamWaitEvent);
    return push(stream, event, true);
}

/* The stream has reached the event, or has failed. */
static bool is_reached(const void *what)
{
    const struct event *e = what;

    if (standin.is_mute && (e->error != 0 || e->stream->error != 0))
        return false;
    return e->reached == e->recorded || e->stream->error != 0;
}

int aclrtSynchronizeEventWithTimeout(void *event, int32_t ms)
{
    struct event *e = event;
    int code = 0;

    ENTER(aclrtSynchronizeEventWithTimeout);
    CHECK(standin_check_bound);
    pthread_mutex_lock(&standin.lock);
    if (e->stream == NULL) {
        standin_violation("a wait for an event that nobody recorded: the vendor's is over at once");
    } else if (!standin_await(is_reached, e, ms)) {
        code = ERR_LATE;
    } else {
        code = e->reached == e->recorded ? e->error : e->stream->error;
        if (code != 0 && e->stream->is_reported)
            standin_violation("a second wait for a stream that failed: the vendor's never returns");
        e->stream->is_reported = e->stream->is_reported || code != 0;
    }
    pthread_mutex_unlock(&standin.lock);
    return code;
}
