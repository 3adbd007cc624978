/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C while the main thread is inside a call that waits: a run, or something that ranks do together.
 * Python's handler only notes the signal; the thread that would act on it is busy. So during such a
 * call the handler of SIGINT is one that also wakes a thread of this file, which ends the
 * call, if that is what Ctrl-C means: where a program has a handler of its own, it goes on.
 */
#include "py_ext.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Signals are a process's, and so is this. */
static struct {
    pthread_mutex_t lock;
    ext_cancel_fn cancel; /* what Ctrl-C would do; NULL: nothing. Under the lock */
    void *context;
    sem_t pressed;
    struct sigaction before;
    pid_t owner; /* the process that has the thread; 0: none */
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void note_signal(int number, siginfo_t *info, void *context)
{
    (void)sem_post(&watch.pressed);
    if ((watch.before.sa_flags & SA_SIGINFO) != 0)
        watch.before.sa_sigaction(number, info, context);
    else
        watch.before.sa_handler(number);
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

static void *watch_main(void *ignored)
{
    (void)ignored;
    for (;;) {
        bool is_running;

        while (sem_wait(&watch.pressed) != 0 && errno == EINTR) {
        }
        pthread_mutex_lock(&watch.lock);
        is_running = watch.cancel != NULL;
        pthread_mutex_unlock(&watch.lock);
        if (!is_running || !is_interrupting())
            continue;
        pthread_mutex_lock(&watch.lock);
        if (watch.cancel != NULL)
            watch.cancel(watch.context);
        pthread_mutex_unlock(&watch.lock);
    }
    return NULL;
}

/* A child of fork() has no such thread. */
static bool has_thread(pid_t process)
{
    sigset_t all, before;
    pthread_t thread;

    if (watch.owner == process)
        return true;
    if (sem_init(&watch.pressed, 0, 0) != 0)
        return false;
    (void)pthread_mutex_init(&watch.lock, NULL);
    (void)sigfillset(&all); /* signals are for others */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, watch_main, NULL) == 0) {
        (void)pthread_detach(thread);
        watch.owner = process;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return watch.owner == process;
}

bool ext_interrupt_begin(ext_cancel_fn cancel, void *context)
{
    struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK };
    pid_t process = getpid();

    if (syscall(SYS_gettid) != process || !has_thread(process))
        return false;
    (void)sigemptyset(&action.sa_mask);
    action.sa_sigaction = note_signal;
    if (sigaction(SIGINT, NULL, &watch.before) != 0 || watch.before.sa_handler == SIG_DFL ||
        watch.before.sa_handler == SIG_IGN)
        return false;
    pthread_mutex_lock(&watch.lock);
    watch.cancel = cancel;
    watch.context = context;
    pthread_mutex_unlock(&watch.lock);
    (void)sigaction(SIGINT, &action, NULL);
    return true;
}

void ext_interrupt_end(void)
{
    (void)sigaction(SIGINT, &watch.before, NULL);
    pthread_mutex_lock(&watch.lock);
    watch.cancel = NULL;
    pthread_mutex_unlock(&watch.lock);
}
