/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "base/crash.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "base/fiber.h"
#include "base/os.h"
#include "base/peek.h"

enum { STACK_BYTES = 64 << 10, SIGNALS = 6 };
enum { CHILD_SECONDS = 10 }; /* time limit for reporting where the process ended */
/* distance after the end of a stack up to which an access counts as an overflow of the stack */
#define OVERFLOW_BYTES ((uintptr_t)1 << 20)

static const int signals[SIGNALS] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGURG };

/* Guards the count of users of the handlers, which are process-wide, as signals are. */
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t users;
static bool is_for_good;
static struct sigaction before[SIGNALS];
static _Thread_local struct crash *here;
static _Thread_local bool is_prepared;
static _Thread_local uintptr_t stack_low, stack_high; /* the thread's stack; 0: unknown */
/* Called for signals that end the process, and by exit; set before other threads exist. */
static void (*last_handler)(int number);
static struct a32 is_exit_reported; /* 1: crash_on_exit has returned, or its report took too long */
static pthread_key_t stack_key;
static bool has_stack_key;

#if defined(__SANITIZE_ADDRESS__)
enum { IS_USED = 0 };
#else
enum { IS_USED = 1 };
#endif

/*
 * The thread sanitizer does not know jump buffers that were set inside a signal handler, so a walk
 * that crashes cannot continue there.
 */
#if defined(__SANITIZE_THREAD__)
enum { CAN_RETURN_TO_HANDLER = 0 };
#else
enum { CAN_RETURN_TO_HANDLER = 1 };
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

/*
 * Fork handler: detaches a forked child from the crash states of its only thread, after calling
 * their `forked`.
 */
static void leave_to_parent(void)
{
    for (struct crash *c = here; c != NULL; c = c->outer)
        if (c->forked != NULL)
            c->forked(c);
    here = NULL;
}

/* Fork handlers: no other thread holds `users_lock` at a fork, so the child can take it. */
static void crash_lock_users(void)
{
    pthread_mutex_lock(&users_lock);
}

static void crash_unlock_users(void)
{
    pthread_mutex_unlock(&users_lock);
}

/* Exit handler: reports where the thread was that called exit. */
static void crash_on_exit(void)
{
    struct crash *c = here;

    /* report only once: an exit handler that is called after this one may call abort */
    here = NULL;
    if (last_handler != NULL)
        last_handler(0);
    else if (c != NULL && c->last_words != NULL)
        c->last_words(c, 0); /* mutation: silent-exit */
    a32_store_release(&is_exit_reported, 1);
    os_wake(&is_exit_reported, UINT32_MAX);
}

/*
 * Exit handler that waits for the report of crash_on_exit. It matters if one thread calls exit
 * while another one executes crash_on_exit: each thread calls handlers that no other thread has
 * called, and the first thread that finds none ends the process. So this handler registers itself
 * again, for the next thread.
 */
static void await_report(int (*again)(void (*handler)(void)), void (*handler)(void))
{
    uint64_t until_ns = os_now_ns() + CHILD_SECONDS * 1000000000ull;

    if (a32_load_acquire(&is_exit_reported) == 0)
        (void)again(handler);
    while (a32_load_acquire(&is_exit_reported) == 0 && os_now_ns() < until_ns)
        os_wait(&is_exit_reported, 0, until_ns);
    /* after the time limit, later threads do not wait for the report */
    a32_store_release(&is_exit_reported, 1);
}

static void crash_await_exit(void)
{
    await_report(atexit, crash_await_exit);
}

static void crash_await_quick_exit(void)
{
    await_report(at_quick_exit, crash_await_quick_exit);
}

/* If there is no memory to register these handlers, the place of an exit is not reported. */
static void crash_register(void)
{
    (void)pthread_atfork(crash_lock_users, crash_unlock_users, crash_unlock_users);
    (void)pthread_atfork(NULL, NULL, leave_to_parent);
    (void)atexit(crash_await_exit);
    (void)atexit(crash_on_exit);
    (void)at_quick_exit(crash_await_quick_exit);
    (void)at_quick_exit(crash_on_exit);
}

bool crash_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sigaction action;

    pthread_once(&once, crash_register);
    if (!IS_USED)
        return false;
    memset(&action, 0, sizeof(action));
    sigemptyset(&action.sa_mask);
    /* A recall (SIGURG) must not interrupt the handler. */
    sigaddset(&action.sa_mask, SIGURG);
    action.sa_sigaction = crash_on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
    pthread_mutex_lock(&users_lock);
    if (users++ == 0)
        for (uint32_t i = 0; i < SIGNALS; i++)
            if (!is_there(signals[i]))
                sigaction(signals[i], &action, &before[i]);
    pthread_mutex_unlock(&users_lock);
    /* find the stack of this thread now, so that this does not delay the thread's first run */
    find_stack();
    return true;
}

/* If the program has replaced our signal handler, the program's handler stays installed. */
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

/*
 * Finds the calling thread's stack. Not for signal handlers: it allocates, and for the main thread
 * it reads all mappings.
 */
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

/* Gives the thread a stack for the handler, so that a kernel's stack overflow can be handled. */
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

/* Called when the thread ends. */
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
    /* relaxed: no thread makes this thread leave its code before it is registered */
    a32_store_relaxed(&c->recall, CRASH_RECALL_NONE);
    a32_store_relaxed(&c->recalled_thread, 0);
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

/* Whether the program has no handler for the signal. */
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
    } else if (number != SIGURG) { /* SIGURG is ignored by default, so it is not raised again */
        if (here != NULL && here->last_words != NULL)
            here->last_words(here, number);
        signal(number, SIG_DFL);
        /*
         * raise the signal here: if the handler returned, the faulting instruction would be
         * executed again
         */
        raise(number);
    }
}

/* ---- reporting the end of the process ---- */

/* Arguments of the report about the end of the process. */
struct ending {
    int number;
    const char *place;
    const void *entry;
};

static void (*reporter)(const char *sentence);

void crash_set_reporter(void (*report)(const char *sentence))
{
    reporter = report;
}

bool crash_call_in_child(void (*fn)(void *context), void *context)
{
    static const int numbers[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM };
    int child = os_fork_quietly(), end = 0;
    sigset_t none;

    if (child != 0) {
        while (child > 0 && waitpid(child, &end, 0) < 0)
            if (errno != EINTR)
                return false;
        return child > 0 && end == 0;
    }
    for (uint32_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        (void)signal(numbers[i], SIG_DFL);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    alarm(CHILD_SECONDS);
    fn(context);
    _exit(EXIT_SUCCESS);
}

/*
 * Return addresses of the thread that ends the process. The innermost frames, down to the libc
 * functions that end the process, are left out.
 */
struct end_frames {
    struct os_range libc;
    /* the walk has found frames of libc; it has found another frame after them */
    bool has_entered, has_left;
    uint32_t count;
    uintptr_t frame[CRASH_FRAMES_MAX];
};

static _Unwind_Reason_Code take_end_frame(struct _Unwind_Context *at, void *arg)
{
    struct end_frames *f = arg;
    uintptr_t pc = _Unwind_GetIP(at);
    bool is_libc = os_is_in(f->libc, pc - 1);

    f->has_left = f->has_left || (f->has_entered && !is_libc);
    f->has_entered = f->has_entered || is_libc;
    if (!f->has_left)
        return _URC_NO_REASON;
    /* a return address, moved back into its call instruction */
    f->frame[f->count] = f->count == 0 ? pc - 1 : pc;
    f->count++;
    return f->count < CRASH_FRAMES_MAX ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void crash_find_lines(const void *entry, struct source_lines *lines)
{
    struct end_frames f = { .libc = os_find_code((uintptr_t)abort) };

    (void)_Unwind_Backtrace(take_end_frame, &f);
    lines_find(f.frame, f.count, entry, lines);
}

static void write_ending(const struct ending *e, const struct source_lines *lines)
{
    char text[640], where[240];
    int length;

    lines_describe(lines, where, sizeof(where));
    length = snprintf(text, sizeof(text), "pto: %s in %s%s\n",
                      e->number == 0         ? "exit"
                      : e->number == SIGABRT ? "abort, or a failed assertion,"
                                             : "a crash",
                      e->place, where);
    if (length <= 0)
        return;
    length = length < (int)sizeof(text) ? length : (int)sizeof(text) - 1;
    if (write(STDERR_FILENO, text, (size_t)length) < 0)
        errno = 0; /* if stderr is closed, the report is not written */
    text[length - 1] = '\0';
    if (reporter != NULL)
        reporter(text + sizeof("pto: ") - 1);
}

static void write_ending_with_lines(void *context)
{
    const struct ending *e = context;
    struct source_lines lines = { 0 };

    crash_find_lines(e->entry, &lines);
    write_ending(e, &lines);
}

/*
 * Reports the end with source lines, in a forked child if a signal ends the process. If the child
 * fails, the report has no lines, and needs neither the allocator nor a lock.
 */
void crash_report_end(int number, const char *place, const void *entry)
{
    static const struct source_lines none;
    struct ending e = { number, place, entry };

    if (number == 0)
        write_ending_with_lines(&e);
    else if (!crash_call_in_child(write_ending_with_lines, &e))
        write_ending(&e, &none);
}

/* ---- backtraces ---- */

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

/* Returns the return address of a function that has not set up its frame. */
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

struct frames {
    uintptr_t *frame; /* array of CRASH_FRAMES_MAX return addresses */
    uint32_t *count;
};

/*
 * Collects a return address. The handler's own frames come first and are skipped, up to the
 * interrupted instruction, which the caller has stored in `frame[0]`.
 */
static _Unwind_Reason_Code take_frame(struct _Unwind_Context *at, void *arg)
{
    const struct frames *f = arg;
    uintptr_t pc = _Unwind_GetIP(at);

    if (*f->count == 0) {
        *f->count = pc == f->frame[0];
        return _URC_NO_REASON;
    }
    f->frame[(*f->count)++] = pc;
    return *f->count < CRASH_FRAMES_MAX ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* Walks the stack of a crash. After a jump to an address without code only the caller is found. */
static void walk_stack(struct crash *c, const ucontext_t *u)
{
    struct frames f = { c->frame, &c->frame_count };

    c->frame[0] = pc_of(u);
    c->frame_count = 0;
    (void)_Unwind_Backtrace(take_frame, &f);
    if (c->frame_count <= 1) {
        c->frame_count = 1;
        /* compiler fence: frame_count is stored before the next read, which may crash */
        fence_light();
        c->frame[1] = caller_of(u);
        c->frame_count = 2;
    }
}

/*
 * Returns the size of the stack if the access overflows it, or 0. The stack is the fiber's if the
 * code is outside of kernels, otherwise the thread's.
 */
static size_t overflow_of(const struct crash *c, uintptr_t addr, const ucontext_t *u)
{
    uintptr_t low = stack_low, high = stack_high, below, page = os_page_bytes();

    if (a32_load_relaxed(c->depth) % 2 == 0) /* relaxed: only this thread writes `depth` */
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
    /* relaxed: only this thread writes `depth` */
    if (number == SIGURG && a32_load_relaxed(c->depth) % 2 != 0)
        /*
         * do not walk the stack again: a thread is recalled with SIGURG only after crash_ask has
         * collected its frames
         */
        return;
    c->is_walking = true;
    walk_stack(c, u);
}

uintptr_t crash_function(uintptr_t pc)
{
    return (uintptr_t)_Unwind_FindEnclosingFunction((void *)pc);
}

/*
 * Whether the handler may make the thread leave its code; decided before the stack is walked, as
 * far as possible then.
 */
static bool may_leave(const struct crash *c, int number)
{
    if (c == NULL || number == SIGABRT)
        return false;
    if (a32_load_relaxed(c->depth) % 2 != 0) /* relaxed: only this thread writes `depth` */
        return number != SIGURG || a32_load_acquire(&c->recall) != CRASH_RECALL_NONE;
    return c->fiber != NULL && (number == SIGURG || is_unhandled(number));
}

/* ---- recalling a thread: making it leave its code ---- */

void crash_recall(struct crash *c, pthread_t thread, const void *entry)
{
    enum { TRY_NS = 50000, TRIES_PER_LOOK = 16 };
    uint32_t depth = a32_load_relaxed(c->depth); /* relaxed: readers only compare the value */
    uint64_t until_ns = os_now_ns() + CRASH_RECALL_NS;
    struct a32 never = { 0 };
    bool is_last = false;

    c->own_code = os_find_code((uintptr_t)entry);
    for (uint32_t i = 1; depth % 2 != 0 && !is_last && a32_load_acquire(c->depth) == depth; i++) {
        /* relaxed: the id publishes no other data */
        uint32_t id = a32_load_relaxed(&c->recalled_thread);

        is_last =
            os_now_ns() >= until_ns || (id != 0 && i % TRIES_PER_LOOK == 0 && os_is_waiting(id));
        /* release: publishes own_code to the signal handler */
        a32_store_release(&c->recall, is_last ? CRASH_RECALL_NOW : CRASH_RECALL_OWN_CODE);
        (void)pthread_kill(thread, SIGURG);
        if (!is_last) /* give the thread some time before the next signal */
            os_wait(&never, 0, os_now_ns() + TRY_NS);
    }
}

/*
 * Whether a thread that shall leave its code must stay in it for now, because that code may hold a
 * lock. Called in the signal handler.
 */
static bool crash_stays(struct crash *c, uintptr_t pc)
{
    if (a32_load_acquire(&c->recall) != CRASH_RECALL_OWN_CODE || os_is_in(c->own_code, pc))
        return false;
    /* relaxed: the id publishes no other data */
    a32_store_relaxed(&c->recalled_thread, os_thread_id());
    return true;
}

/* ---- crash_ask: where is a thread that does not return? ---- */

enum crash_question {
    QUESTION_NONE,
    QUESTION_ASKED,
    QUESTION_WALKING, /* the thread is collecting its frames */
    QUESTION_ANSWERED
};

void crash_ask(struct crash *c, pthread_t thread)
{
    if (a32_load_acquire(&c->question) == QUESTION_WALKING)
        return;
    /* relaxed: the handler only compares this value */
    c->asked_depth = a32_load_relaxed(c->depth);
    /* release: publishes asked_depth to the handler */
    a32_store_release(&c->question, QUESTION_ASKED);
    (void)pthread_kill(thread, SIGURG);
}

/*
 * Collects the frames that crash_ask wants, in the signal handler of the asked thread. A crash
 * during the walk, because the stack is damaged, ends the walk. False: no thread has called
 * crash_ask.
 */
static bool crash_walk_for_answer(struct crash *c, const ucontext_t *u)
{
    struct frames f = { c->answer, &c->answer_count };
    uint32_t asked = QUESTION_ASKED;

    if (!a32_cas_acq_rel(&c->question, &asked, QUESTION_WALKING))
        return false;
    c->answer_count = 0;
    c->answer[0] = pc_of(u);
    /* relaxed: only this thread writes `depth` */
    if (a32_load_relaxed(c->depth) == c->asked_depth) {
        if (!CAN_RETURN_TO_HANDLER || sigsetjmp(c->answer_back, 0) == 0)
            (void)_Unwind_Backtrace(take_frame, &f);
        if (c->answer_count == 0)
            c->answer_count = 1;
    }
    a32_store_release(&c->question, QUESTION_ANSWERED);
    os_wake(&c->question, UINT32_MAX);
    return true;
}

/* Returns the CPU time of a thread; 0 if it cannot be read. */
static uint64_t crash_cpu_ns(pthread_t thread)
{
    struct timespec used = { 0 };
    clockid_t clock;

    if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

uint32_t crash_answer(struct crash *c, pthread_t thread, uintptr_t frame[CRASH_FRAMES_MAX])
{
    /*
     * A thread that is scheduled handles the signal at once, unless its code blocks the signal. On
     * a busy machine that can take long, so a thread that gets no CPU time has longer to answer.
     */
    enum { TRY_NS = 50000000, ANSWER_NS = 200000000, ANSWER_CPU_NS = 10000000 };
    const uint64_t starved_ns = 5000000000;
    uint64_t cpu_ns = crash_cpu_ns(thread), begin_ns = os_now_ns(), now = begin_ns;
    uint32_t question;

    while ((question = a32_load_acquire(&c->question)) != QUESTION_ANSWERED &&
           (now - begin_ns < ANSWER_NS ||
            (now - begin_ns < starved_ns && crash_cpu_ns(thread) - cpu_ns < ANSWER_CPU_NS))) {
        os_wait(&c->question, question, now + TRY_NS);
        now = os_now_ns();
    }
    if (question != QUESTION_ANSWERED)
        return 0;
    memcpy(frame, c->answer, sizeof(c->answer));
    return c->answer_count;
}

uint32_t crash_skip_libraries(uintptr_t frame[CRASH_FRAMES_MAX], uint32_t count, const void *entry)
{
    struct os_range own = os_find_code((uintptr_t)entry);
    uint32_t skip = 0;

    while (skip < count && !os_is_in(own, frame[skip] - (skip != 0)))
        skip++;
    if (skip == 0 || skip == count)
        return count;
    memmove(frame, frame + skip, (count - skip) * sizeof(*frame));
    frame[0]--; /* move the return address back into its call instruction */
    return count - skip;
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
    if (c != NULL && number == SIGURG && c->interrupted != NULL) {
        /* relaxed: only this thread writes `depth` */
        c->asked_depth = a32_load_relaxed(c->depth);
        /*
         * relaxed: the thread that called crash_ask waits, so only this thread reads the field now
         */
        a32_store_relaxed(&c->question, QUESTION_ASKED);
        (void)crash_walk_for_answer(c, context);
        c->interrupted(c);
        return;
    }
    if (c != NULL && number == SIGURG && crash_walk_for_answer(c, context) &&
        a32_load_acquire(&c->recall) == CRASH_RECALL_NONE)
        return;
    if (CAN_RETURN_TO_HANDLER && c != NULL &&
        /* relaxed: the value was stored by this thread, during its own walk of the stack */
        a32_load_relaxed(&c->question) == QUESTION_WALKING)
        siglongjmp(c->answer_back, 1);
    if (!may_leave(c, number)) {
        crash_pass_on(number, info, context);
        return;
    }
    /* relaxed: only this thread writes `depth` */
    if (number == SIGURG && a32_load_relaxed(c->depth) % 2 != 0 && crash_stays(c, pc_of(context)))
        return;
    if (!c->is_walking)
        note_crash(c, number,
                   /* Address of the fault; a signal sent by a thread or process has none. */
                   info->si_code > 0 ? (uintptr_t)info->si_addr : 0, context);
    c->is_walking = false;
    if (a32_load_relaxed(c->depth) % 2 == 0 &&
        !c->leave(c, number, pc_of(context))) { /* relaxed: only this thread writes `depth` */
        crash_pass_on(number, info, context);
        return;
    }
    /*
     * Restore the signal mask of the interrupted code, because siglongjmp would keep the signals of
     * the handler blocked, and with a race detector all signals.
     */
    mask = ((const ucontext_t *)context)->uc_sigmask;
    sigdelset(&mask, SIGURG); /* SIGURG is in the mask if the crash happened inside a handler */
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (a32_load_relaxed(c->depth) % 2 == 0) /* relaxed: only this thread writes `depth` */
        fiber_leave(c->fiber);
    siglongjmp(c->back, 1);
}
