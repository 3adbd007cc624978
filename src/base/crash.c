/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "base/crash.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <ucontext.h>
#include <unwind.h>

#include "base/fiber.h"
#include "base/os.h"
#include "base/peek.h"

enum { STACK_BYTES = 64 << 10, SIGNALS = 6 };
/* How far beyond the end of its stack a function may reach, with what it puts there. */
#define OVERFLOW_BYTES ((uintptr_t)1 << 20)

static const int signals[SIGNALS] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGURG };

/* Process-wide, as signals are. */
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t users;
static bool is_for_good;
static struct sigaction before[SIGNALS];
static _Thread_local struct crash *here;
static _Thread_local bool is_prepared;
static _Thread_local uintptr_t stack_low, stack_high; /* the thread's own; 0: not known */
static void (*last_handler)(int number);              /* written before there are threads */
static pthread_key_t stack_key;
static bool has_stack_key;

#if defined(__SANITIZE_ADDRESS__)
enum { IS_USED = 0 };
#else
enum { IS_USED = 1 };
#endif

static void find_stack(void);
static void crash_on_signal(int number, siginfo_t *info, void *context);

static bool is_there(int number)
{
    struct sigaction now;

    return sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
           now.sa_sigaction == crash_on_signal;
}

void crash_set_last(void (*handler)(int number))
{
    last_handler = handler;
}

/* In the child, by the thread that forked. */
static void leave_to_parent(void)
{
    for (struct crash *c = here; c != NULL; c = c->outer)
        if (c->forked != NULL)
            c->forked(c);
    here = NULL;
}

static void crash_guard_forks(void)
{
    (void)pthread_atfork(NULL, NULL, leave_to_parent);
}

bool crash_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sigaction action;

    pthread_once(&once, crash_guard_forks);
    if (!IS_USED)
        return false;
    memset(&action, 0, sizeof(action));
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGURG); /* where the handler was interrupted says nothing */
    action.sa_sigaction = crash_on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
    pthread_mutex_lock(&users_lock);
    if (users++ == 0)
        for (uint32_t i = 0; i < SIGNALS; i++)
            if (!is_there(signals[i]))
                sigaction(signals[i], &action, &before[i]);
    pthread_mutex_unlock(&users_lock);
    find_stack(); /* the caller's first run finds it done */
    return true;
}

/* Somebody may have put a handler of theirs over ours meanwhile: then theirs stays. */
void crash_fini(bool is_kept)
{
    if (!IS_USED)
        return;
    pthread_mutex_lock(&users_lock);
    assert(users > 0);
    is_for_good = is_for_good || is_kept;
    if (--users == 0 && !is_for_good)
        for (uint32_t i = 0; i < SIGNALS; i++)
            if (is_there(signals[i]))
                sigaction(signals[i], &before[i], NULL);
    pthread_mutex_unlock(&users_lock);
}

/* Not in the handler: it allocates, and of a program's first thread it reads all mappings. */
static void find_stack(void)
{
    pthread_attr_t attributes;
    size_t bytes;
    void *low;

    if (stack_high != 0 || pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
        stack_low = (uintptr_t)low;
        stack_high = stack_low + bytes;
    }
    pthread_attr_destroy(&attributes);
}

/* The handler's stack, so that a kernel that overflows its own one is noticed, too. */
static void prepare_thread(void)
{
    stack_t stack = { .ss_size = STACK_BYTES };
    stack_t before;

    is_prepared = true;
    find_stack();
    if (has_stack_key && sigaltstack(NULL, &before) == 0 && (before.ss_flags & SS_DISABLE) != 0) {
        stack.ss_sp = os_reserve(STACK_BYTES);
        if (stack.ss_sp != NULL && os_commit(stack.ss_sp, STACK_BYTES) >= 0 &&
            pthread_setspecific(stack_key, stack.ss_sp) == 0)
            sigaltstack(&stack, NULL);
        else
            os_release(stack.ss_sp, STACK_BYTES);
    }
    crash_unblock();
}

void crash_unblock(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (uint32_t i = 0; i < SIGNALS; i++)
        sigaddset(&set, signals[i]);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* When the thread ends. */
static void release_stack(void *stack)
{
    stack_t none = { .ss_flags = SS_DISABLE };
    stack_t now;

    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == stack)
        sigaltstack(&none, NULL);
    os_release(stack, STACK_BYTES);
}

static void crash_make_key(void)
{
    has_stack_key = pthread_key_create(&stack_key, release_stack) == 0;
}

void crash_begin(struct crash *c, const struct a32 *depth)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    c->depth = depth;
    c->signal = 0;
    a32_store_relaxed(&c->is_recalled, 0); /* nobody recalls a thread that is not there */
    c->outer = here;
    here = c;
    if (IS_USED && !is_prepared) {
        pthread_once(&once, crash_make_key);
        prepare_thread();
    }
}

void crash_end(struct crash *c)
{
    here = c->outer;
}

static const struct sigaction *before_us(int number)
{
    uint32_t i = 0;

    while (signals[i] != number)
        i++;
    return &before[i];
}

/* Whether the program has nobody who deals with it. */
static bool is_unhandled(int number)
{
    const struct sigaction *old = before_us(number);

    return (old->sa_flags & SA_SIGINFO) == 0 &&
           (old->sa_handler == SIG_DFL || old->sa_handler == last_handler);
}

static void crash_pass_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction *old = before_us(number);

    if ((old->sa_flags & SA_SIGINFO) != 0) {
        old->sa_sigaction(number, info, context);
    } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(number);
    } else if (number != SIGURG) { /* which is ignored by default */
        if (here != NULL && here->last_words != NULL)
            here->last_words(here, number);
        signal(number, SIG_DFL);
        raise(number); /* or, for a fault, the instruction that runs again */
    }
}

/* ---- where it was ---- */

#if defined(__aarch64__)
static uintptr_t pc_of(const ucontext_t *u)
{
    return u->uc_mcontext.pc;
}

static void set_pc(ucontext_t *u, uintptr_t pc)
{
    u->uc_mcontext.pc = pc;
}

static uintptr_t sp_of(const ucontext_t *u)
{
    return u->uc_mcontext.sp;
}

/* Where a function that has not begun returns to. */
static uintptr_t caller_of(const ucontext_t *u)
{
    return u->uc_mcontext.regs[30];
}
#elif defined(__x86_64__)
static uintptr_t pc_of(const ucontext_t *u)
{
    return (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
}

static void set_pc(ucontext_t *u, uintptr_t pc)
{
    u->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
}

static uintptr_t sp_of(const ucontext_t *u)
{
    return (uintptr_t)u->uc_mcontext.gregs[REG_RSP];
}

static uintptr_t caller_of(const ucontext_t *u)
{
    return *(const uintptr_t *)sp_of(u);
}
#endif

/* The handler's own frames come first; `frame[0]` says where they end. */
static _Unwind_Reason_Code take_frame(struct _Unwind_Context *at, void *arg)
{
    struct crash *c = arg;
    uintptr_t pc = _Unwind_GetIP(at);

    if (c->frame_count == 0) {
        c->frame_count = pc == c->frame[0];
        return _URC_NO_REASON;
    }
    c->frame[c->frame_count++] = pc;
    return c->frame_count < CRASH_FRAMES_MAX ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* A jump to where there is no code has no frame, but a caller. */
static void walk_stack(struct crash *c, const ucontext_t *u)
{
    c->frame[0] = pc_of(u);
    c->frame_count = 0;
    (void)_Unwind_Backtrace(take_frame, c);
    if (c->frame_count <= 1) {
        c->frame_count = 1;
        fence_light(); /* reading it may crash */
        c->frame[1] = caller_of(u);
        c->frame_count = 2;
    }
}

/* Of the fiber, outside of kernels, or of the thread. */
static size_t overflow_of(const struct crash *c, uintptr_t addr, const ucontext_t *u)
{
    uintptr_t low = stack_low, high = stack_high, below, page = os_page_bytes();

    if (a32_load_relaxed(c->depth) % 2 == 0) /* own word */
        fiber_stack(c->fiber, &low, &high);
    below = low - OVERFLOW_BYTES;
    return addr >= below && addr < low + page && sp_of(u) >= below &&
                   sp_of(u) < low + OVERFLOW_BYTES
               ? high - low
               : 0;
}

static void note_crash(struct crash *c, int number, uintptr_t addr, const ucontext_t *u)
{
    c->signal = number;
    c->addr = addr;
    c->frame_count = 0;
    c->overflow_bytes = number == SIGSEGV ? overflow_of(c, addr, u) : 0;
    if (number == SIGURG)
        return;
    c->is_walking = true;
    walk_stack(c, u);
}

uintptr_t crash_function(uintptr_t pc)
{
    return (uintptr_t)_Unwind_FindEnclosingFunction((void *)pc);
}

/* Whether it may leave what it is in, as far as is known before the frames are. */
static bool may_leave(const struct crash *c, int number)
{
    if (c == NULL || number == SIGABRT)
        return false;
    if (a32_load_relaxed(c->depth) % 2 != 0) /* own word */
        return number != SIGURG || a32_load_acquire(&c->is_recalled) != 0;
    return c->fiber != NULL && (number == SIGURG || is_unhandled(number));
}

static void crash_on_signal(int number, siginfo_t *info, void *context)
{
    struct crash *c = here;
    uintptr_t landing = number == SIGSEGV || number == SIGBUS ? peek_landing(pc_of(context)) : 0;
    sigset_t mask;

    if (landing != 0) {
        set_pc(context, landing);
        return;
    }
    if (!may_leave(c, number)) {
        crash_pass_on(number, info, context);
        return;
    }
    if (!c->is_walking)
        note_crash(c, number,
                   info->si_code > 0 ? (uintptr_t)info->si_addr : 0, /* else it was sent */
                   context);
    c->is_walking = false;
    if (a32_load_relaxed(c->depth) % 2 == 0 &&
        !c->leave(c, number, pc_of(context))) { /* own word */
        crash_pass_on(number, info, context);
        return;
    }
    /* What is blocked here, SIGURG, or more by a race detector, would stay so. */
    mask = ((const ucontext_t *)context)->uc_sigmask;
    sigdelset(&mask, SIGURG); /* of a handler that crashed itself */
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (a32_load_relaxed(c->depth) % 2 == 0) /* own word */
        fiber_leave(c->fiber);
    siglongjmp(c->back, 1);
}
