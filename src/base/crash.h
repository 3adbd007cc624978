/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls into code that may crash. Signals are the process's by nature, so there
 * is one handler for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, and one for SIGURG,
 * with which a thread is called back. They act only on a thread that has said
 * so and is inside such code; anything else goes to whoever handled the signal
 * before. SIGABRT always does, but what the thread was in can be said before. Not
 * in programs built with AddressSanitizer, which has handlers of its own.
 *
 * A child of fork dies of its crashes: what it would survive for is the parent's.
 */
#ifndef PTO_CRASH_H
#define PTO_CRASH_H

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

struct fiber;

enum { CRASH_FRAMES_MAX = 16 };

/* What a thread wants to survive. Lives as long as the thread uses it. */
struct crash {
    sigjmp_buf back;         /* where to go on: set with sigsetjmp(back, 0) */
    const struct a32 *depth; /* odd: inside code that may crash, or be left */
    struct a32 is_recalled;  /* a SIGURG means: leave it */
    struct fiber *fiber;     /* may be left from outside of such code, too; NULL: none */
    /* A signal there that the program does not handle: whether to leave it. The frames are known. */
    bool (*leave)(struct crash *c, int number, uintptr_t pc);
    /* It ends the process: the last chance to say where; NULL: nothing is known. */
    void (*last_words)(struct crash *c, int number);
    /* The thread is now that of a child of fork, which has no other; NULL: it may go on. */
    void (*forked)(struct crash *c);
    int signal;    /* after the jump: which one; SIGURG: called back */
    uint64_t addr; /* and where */
    /* Where it was, then where its callers go on, innermost first; as far as the stack is intact. */
    uintptr_t frame[CRASH_FRAMES_MAX];
    uint32_t frame_count;
    size_t overflow_bytes; /* of a stack that was not large enough; 0: it was */
    bool is_walking;       /* the handler goes through the frames, which may crash, too */
    struct crash *outer;
};

/* Counted: the handlers are there between the first and the last. False: never in this program. */
bool crash_init(void);
/* `is_kept`: some thread never came back from such code, so the handlers stay for good. */
void crash_fini(bool is_kept);

/* A handler of the program's own for what nobody survives: it is asked last, as if there were none. */
void crash_set_last(void (*handler)(int number));

/*
 * For the calling thread, from now on; calls may be nested. The first one gives
 * the thread a stack for the handler, unless it has one, and unblocks the
 * signals; that stays until the thread ends.
 */
void crash_begin(struct crash *c, const struct a32 *depth);
void crash_end(struct crash *c);

/* Where the function begins that the address lies in; 0: in none that is known. */
uintptr_t crash_function(uintptr_t pc);

/* For a thread that only uses peek.h: lets the signals through. */
void crash_unblock(void);

#endif
