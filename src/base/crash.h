/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of code that may crash. Signal handlers are process-wide, so there is one handler for
 * SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, and one for SIGURG, which makes a thread leave such
 * code (recalls it). They act only on a thread that has registered and is inside such code; any
 * other signal goes to the previous handler. SIGABRT always goes to the previous handler, but the
 * thread's place is reported before. There are no handlers in programs built with AddressSanitizer,
 * which has its own.
 *
 * A thread that calls exit or quick_exit inside such code reports its place, too. A thread that
 * calls _exit does not: no handler runs.
 *
 * A crash in a forked child ends the child, because the run that would survive it belongs to the
 * parent.
 */
#ifndef PTO_CRASH_H
#define PTO_CRASH_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/lines.h"
#include "base/os.h"

struct fiber;

enum { CRASH_FRAMES_MAX = 16, CRASH_RECALL_NS = 1000000000 };

enum crash_recall {
    CRASH_RECALL_NONE,
    /*
     * SIGURG makes the thread leave if it interrupts code of `own_code`, which holds no lock of
     * libc
     */
    CRASH_RECALL_OWN_CODE,
    CRASH_RECALL_NOW
};

/*
 * The state of a registered thread, which survives crashes. It must live as long as the thread uses
 * it.
 */
struct crash {
    sigjmp_buf back;         /* set with sigsetjmp(back, 0); the handler jumps here */
    const struct a32 *depth; /* odd while the thread is inside code that may crash or be recalled */
    /* enum crash_recall: whether the next SIGURG makes the thread leave its code, and from where */
    struct a32 recall;
    /* Code in which CRASH_RECALL_OWN_CODE lets the thread leave; stored before `recall`. */
    struct os_range own_code;
    /* id of the thread, stored by a SIGURG that found it in code that it must not leave; 0: none */
    struct a32 recalled_thread;
    /* Fiber that the thread may leave even outside of code that may crash; NULL: none. */
    struct fiber *fiber;
    /*
     * Called for a signal that the program does not handle, after the walk of the stack. Returns
     * whether the thread shall leave its code.
     */
    bool (*leave)(struct crash *c, int number, uintptr_t pc);
    /*
     * Called when a signal, or exit (number 0), ends the process, to report where it happened with
     * crash_report_end; NULL: nothing to report.
     */
    void (*last_words)(struct crash *c, int number);
    /*
     * Called when SIGURG interrupts the thread outside of code that may crash; `answer` has its
     * frames. NULL: such signals go to the previous handler.
     */
    void (*interrupted)(struct crash *c);
    /*
     * Called in a forked child whose only thread is the forking one; NULL: the child may continue.
     */
    void (*forked)(struct crash *c);
    /*
     * signal that ended the code, valid after the jump to `back`; SIGURG: the thread was recalled
     */
    int signal;
    uint64_t addr; /* address whose access faulted */
    /*
     * Program counter of the crash, then the return addresses of the callers, innermost first, as
     * far as the stack is intact.
     */
    uintptr_t frame[CRASH_FRAMES_MAX];
    uint32_t frame_count;
    /* Size of the stack that overflowed; 0: no overflow. */
    size_t overflow_bytes;
    /* the handler is walking the stack, and a crash during the walk must not start another one */
    bool is_walking;
    /* enum crash_question: whether crash_ask has asked this thread for its frames, and got them */
    struct a32 question;
    uint32_t asked_depth; /* value of *depth when crash_ask was called */
    uint32_t answer_count;
    uintptr_t answer[CRASH_FRAMES_MAX];
    /* where the signal handler continues if the walk that fills `answer` crashes */
    sigjmp_buf answer_back;
    struct crash *outer;
};

/*
 * Makes the thread leave the code that it is in: interrupts it until it is found in the object of
 * `entry`, or waits in the kernel of the operating system, because in a library it may hold a lock
 * of the allocator or the loader. After CRASH_RECALL_NS it leaves wherever it is. Called by another
 * thread.
 */
void crash_recall(struct crash *c, pthread_t thread, const void *entry);

/* Installs the signal handlers; calls are counted. False: AddressSanitizer has its own. */
bool crash_init(void);
/*
 * Removes the handlers if no user is left. `is_kept`: a thread never returned from code that may
 * crash, so the handlers stay installed.
 */
void crash_fini(bool is_kept);

/*
 * Sets a handler for signals that end the process; it is called last, in place of the default
 * action. It is also called by exit, with number 0, and then replaces `last_words`.
 */
void crash_set_last(void (*handler)(int number));

/*
 * Registers the calling thread; calls may be nested. The first one gives the thread a stack for the
 * handler, unless it has one, and unblocks the signals, both until the thread ends.
 */
void crash_begin(struct crash *c, const struct a32 *depth);
void crash_end(struct crash *c);

/*
 * Reports that the calling thread ends the process: writes "pto: exit in PLACE, in f (a.c:3)" to
 * stderr, and passes the sentence to the reporter. The listed callers end with the function
 * `entry`. Called by `last_words`.
 */
void crash_report_end(int number, const char *place, const void *entry);
/*
 * Sets a function that gets the sentence of crash_report_end; the call may come from a forked
 * child, so the function must write to shared memory. Set it before other threads exist.
 */
void crash_set_reporter(void (*report)(const char *sentence));
/*
 * Finds the source lines of the code that called exit or abort. Called in an exit handler, or in a
 * forked child of the handler of SIGABRT.
 */
void crash_find_lines(const void *entry, struct source_lines *lines);
/*
 * Calls `fn` in a forked child, which has only this thread and a copy of all memory. The child may
 * allocate, unlike a signal handler; if the heap is damaged or its lock is taken, a second crash or
 * an alarm ends the child. False: `fn` did not return.
 */
bool crash_call_in_child(void (*fn)(void *context), void *context);

/* Returns the beginning of the function that contains the address; 0: none is known. */
uintptr_t crash_function(uintptr_t pc);

/*
 * crash_ask asks another thread, which is inside of code that may crash, where it is: it interrupts
 * the thread with SIGURG. The handler takes no lock and allocates nothing, and the code continues.
 * crash_answer waits for the answer, return addresses as in `frame` of the struct. It returns their
 * number; 0: the thread ran and did not answer, got no CPU time for some seconds, or had left the
 * code.
 */
void crash_ask(struct crash *c, pthread_t thread);
uint32_t crash_answer(struct crash *c, pthread_t thread, uintptr_t frame[CRASH_FRAMES_MAX]);
/*
 * Removes the innermost frames that are in other objects than the function `entry`: libraries that
 * its object has called. Returns the new count.
 */
uint32_t crash_skip_libraries(uintptr_t frame[CRASH_FRAMES_MAX], uint32_t count, const void *entry);

/* Unblocks the signals of the handlers, for a thread that uses only peek.h. */
void crash_unblock(void);

#endif
