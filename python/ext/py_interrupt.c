/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C while the main thread is inside a call that waits: a run, or something that ranks do together.
 * Python's handler only notes the signal; the thread that would act on it is busy. So during such a
 * call the handler of SIGINT is one that also wakes a thread of this file, which ends the
 * call, if that is what Ctrl-C means: where a program has a handler of its own, the call continues.
 *
 * An interrupt belongs to the call that it interrupted. The watching thread may get to it late, when
 * that call has returned and another one has begun, which must not be cancelled in its place. So calls
 * have numbers, the handler notes the number of the call that it finds, and the watching thread cancels
 * a call only if its number was noted.
 *
 * The handler reads the number before it calls Python's: afterwards the main thread may raise
 * KeyboardInterrupt, which the program handles, and begin another call. It wakes the watching thread after
 * Python's: a call that is cancelled finds the signal that Python noted, and raises KeyboardInterrupt
 * instead of pto.Canceled. The kernel prefers the main thread for a signal to the process. There the
 * handler runs inside the call, between begin and end. On another thread it may be overtaken by
 * the end of the call and by the begin of the next one. If that is before it reads the number, it finds
 * the next call or none, and Python notes the signal during that one, too: they agree. If it is after, the
 * number is that of a call that has returned, and nothing is cancelled.
 *
 * Ordering
 *   R1 ext_interrupt_begin -> A1 note_signal    the handler of before is known when its call's number is
 *   R2 note_signal -> A2 watch_main             Python has noted the signal before the call is cancelled
 */
#include "py_ext.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Time after a cancel when a call that has not returned is explained to the user. */
enum { EXPLAIN_NS = 100000000 };

/* State of the process, because signals are per process. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended; /* signalled when a call has returned */
    /* call that Ctrl-C cancels; without `cancel`: none. Protected by the lock */
    struct ext_waiting call;
    uint64_t calls;   /* number of calls so far; main thread only */
    uint64_t current; /* number of the current call; 0: none. Atomic */
    uint64_t pressed; /* highest number that the handler found. Atomic */
    sem_t woken;
    struct sigaction before;
    pid_t owner; /* process that owns the thread; 0: none */
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void note_signal(int number, siginfo_t *info, void *context)
{
    uint64_t call = __atomic_load_n(&watch.current, __ATOMIC_ACQUIRE); /* A1 */
    uint64_t pressed = __atomic_load_n(&watch.pressed, __ATOMIC_RELAXED);

    if ((watch.before.sa_flags & SA_SIGINFO) != 0)
        watch.before.sa_sigaction(number, info, context);
    else
        watch.before.sa_handler(number);
    /* A late handler on another thread must not hide the number of a later call. */
    while (pressed < call && !__atomic_compare_exchange_n(&watch.pressed, &pressed, call, false,
                                                          __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    } /* R2; a second press during the same call needs the post only */
    (void)sem_post(&watch.woken);
}

/* Whether Ctrl-C raises KeyboardInterrupt. */
static bool is_interrupting(void)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *module = PyImport_ImportModule("signal");
    PyObject *usual = module == NULL ? NULL : PyObject_GetAttrString(module, "default_int_handler");
    PyObject *present =
        module == NULL ? NULL : PyObject_CallMethod(module, "getsignal", "i", SIGINT);
    bool is_usual = usual != NULL && usual == present;

    PyErr_Clear();
    Py_XDECREF(present);
    Py_XDECREF(usual);
    Py_XDECREF(module);
    PyGILState_Release(lock);
    return is_usual;
}

/* Whether the call that the handler found is still current. Called under the lock. */
static bool is_pressed(void)
{
    return watch.call.cancel != NULL &&
           __atomic_load_n(&watch.pressed, __ATOMIC_ACQUIRE) == watch.calls; /* A2 */
}

/* Cancels the call, releasing the lock in between, and returns whether it ends at once. */
static bool end_call(void)
{
    uint64_t call = watch.calls;
    struct timespec until;

    watch.call.cancel(watch.call.context);
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += EXPLAIN_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (watch.call.cancel != NULL && watch.calls == call)
        if (pthread_cond_timedwait(&watch.ended, &watch.lock, &until) == ETIMEDOUT)
            return watch.call.cancel == NULL || watch.calls != call;
    return true;
}

void ext_interrupt_print(const char *text)
{
    PyGILState_STATE lock = PyGILState_Ensure();

    PySys_WriteStderr("pto: %.900s\n", text);
    PyGILState_Release(lock);
}

static void *watch_main(void *ignored)
{
    (void)ignored;
    for (;;) {
        char text[EXT_WAITING_TEXT] = "";
        bool is_running;

        while (sem_wait(&watch.woken) != 0 && errno == EINTR) {
        }
        pthread_mutex_lock(&watch.lock);
        is_running = is_pressed();
        pthread_mutex_unlock(&watch.lock);
        if (!is_running || !is_interrupting())
            continue;
        pthread_mutex_lock(&watch.lock);
        if (is_pressed() && !end_call() && watch.call.describe != NULL)
            watch.call.describe(watch.call.context, text);
        pthread_mutex_unlock(&watch.lock);
        if (text[0] != '\0')
            ext_interrupt_print(text);
    }
    return NULL;
}

/* A child of fork() has no such thread. */
static bool has_thread(pid_t process)
{
    sigset_t all, before;
    pthread_condattr_t clock;
    pthread_t thread;

    if (watch.owner == process)
        return true;
    if (sem_init(&watch.woken, 0, 0) != 0)
        return false;
    (void)pthread_mutex_init(&watch.lock, NULL);
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&watch.ended, &clock);
    (void)pthread_condattr_destroy(&clock);
    watch.call.cancel = NULL; /* the parent's call */
    (void)sigfillset(&all);   /* leave signals to other threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, watch_main, NULL) == 0) {
        (void)pthread_detach(thread);
        watch.owner = process;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return watch.owner == process;
}

bool ext_interrupt_begin(const struct ext_waiting *call)
{
    struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK };
    pid_t process = getpid();

    if (syscall(SYS_gettid) != process || !has_thread(process))
        return false;
    if (watch.call.cancel != NULL) /* a nested call of this thread ends first */
        return false;
    (void)sigemptyset(&action.sa_mask);
    action.sa_sigaction = note_signal;
    if (sigaction(SIGINT, NULL, &watch.before) != 0 || watch.before.sa_handler == SIG_DFL ||
        watch.before.sa_handler == SIG_IGN)
        return false;
    pthread_mutex_lock(&watch.lock);
    watch.call = *call;
    watch.calls++;
    pthread_mutex_unlock(&watch.lock);
    __atomic_store_n(&watch.current, watch.calls, __ATOMIC_RELEASE); /* R1 */
    (void)sigaction(SIGINT, &action, NULL);
    return true;
}

void ext_interrupt_end(void)
{
    (void)sigaction(SIGINT, &watch.before, NULL);
    __atomic_store_n(&watch.current, 0, __ATOMIC_RELAXED); /* orders nothing */
    pthread_mutex_lock(&watch.lock);
    watch.call.cancel = NULL;
    pthread_cond_signal(&watch.ended);
    pthread_mutex_unlock(&watch.lock);
}
