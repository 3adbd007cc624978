/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles Ctrl-C while the main thread is inside of a call that waits: for a run, or for other
 * ranks. Python's signal handler only records the signal, and the main thread would act on it after
 * the call. So during such a call this file installs a handler for SIGINT that calls Python's
 * handler and also wakes a thread, the watching thread, which cancels the call. If the program has
 * replaced the action of Ctrl-C, the call is not cancelled.
 *
 * An interrupt cancels only the call that it interrupted. The watching thread may run late, when
 * that call has returned and the next one has begun. So calls are numbered: the handler records the
 * number of the current call, and the watching thread cancels a call only if its number was
 * recorded.
 *
 * The handler reads the number before it calls Python's handler. After that handler, the main
 * thread may raise KeyboardInterrupt, the program may catch it, and another call may begin. The
 * handler wakes the watching thread after it has called Python's handler. So a call that is
 * cancelled finds the signal recorded, and raises KeyboardInterrupt instead of pto.Canceled.
 *
 * The kernel prefers the main thread for a signal to the process; the handler then runs inside of
 * the call. On another thread, the handler may run while the main thread leaves the call and begins
 * the next one. If the handler reads the number after that, it finds the next call or none, and
 * Python's handler records the signal during the same call. If it reads the number before that, the
 * call with this number has returned, and nothing is cancelled.
 *
 * Ordering
 *   R1 ext_interrupt_begin -> A1 note_signal  `before` is set if the number of a call is visible
 *   R2 note_signal -> A2 watch_main           Python's handler has returned before the cancellation
 */
#include "py_ext.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Time after a cancellation when the user is told why the call has not returned. */
enum { EXPLAIN_NS = 100000000 };

/* State of the process, because signals are per process. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended; /* signalled when a call has returned */
    /* the call that Ctrl-C cancels; `cancel` is NULL if there is none. Protected by the lock */
    struct ext_waiting call;
    uint64_t calls;   /* number of calls so far; main thread only */
    uint64_t current; /* number of the current call; 0: none. Atomic */
    uint64_t pressed; /* highest number of a call that the handler has found; atomic */
    sem_t woken;
    struct sigaction before;
    pid_t owner; /* process in which the watching thread runs; 0: none */
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void note_signal(int number, siginfo_t *info, void *context)
{
    uint64_t call = __atomic_load_n(&watch.current, __ATOMIC_ACQUIRE); /* A1 */
    uint64_t pressed = __atomic_load_n(&watch.pressed, __ATOMIC_RELAXED);

    if ((watch.before.sa_flags & SA_SIGINFO) != 0)
        watch.before.sa_sigaction(number, info, context);
    else
        watch.before.sa_handler(number);
    /* A handler that runs late on another thread must not replace the number of a later call. */
    while (pressed < call && !__atomic_compare_exchange_n(&watch.pressed, &pressed, call, false,
                                                          __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    } /* R2. If this call was noted before, only the semaphore is posted again. */
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

/* Whether Ctrl-C was pressed during the call that is still current. The lock is held. */
static bool is_pressed(void)
{
    return watch.call.cancel != NULL &&
           __atomic_load_n(&watch.pressed, __ATOMIC_ACQUIRE) == watch.calls; /* A2 */
}

/* Cancels the call without holding the lock. Returns whether the call ends at once. */
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

/* Starts the watching thread unless it runs in this process; a child of fork() has none. */
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
    watch.call.cancel = NULL; /* in a forked child, forget the call of the parent */
    /* the watching thread takes no signals, which are left to other threads */
    (void)sigfillset(&all);
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
    /* this call is inside of another one of the same thread, which Ctrl-C already cancels */
    if (watch.call.cancel != NULL)
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
