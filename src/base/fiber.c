/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers: each has its own mapping for a stack; a switch saves the registers that a called function
 * must preserve.
 */
#include "base/fiber.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/os.h"
#include "pto/status.h"

/*
 * Size of the inaccessible range below a stack. Larger frames can skip it. It costs address space,
 * not memory.
 */
enum { GUARD_BYTES = 64 * 1024 };

/* What the sanitizers store about the stacks of a fiber and its caller; unused in other builds. */
struct note {
    void *fiber_fake; /* ASan's fake stack of the suspended fiber */
    void *caller_fake;
    const void *caller_stack;
    size_t caller_bytes;
    void *fiber_context; /* TSan's context of the fiber */
    void *caller_context;
};

/*
 * The struct is at the top of the fiber's mapping, so a fiber is one allocation and
 * its first frames share a page with it.
 *
 *   mapping                                                    mapping_bytes
 *   | guard, no access | stack, grows down     <- first frame | struct fiber |
 */
struct fiber {
    alignas(64) void *sp; /* stack pointer of the suspended fiber, at a struct frame */
    /* Stack pointer of the thread that is inside the fiber; NULL: no thread is. */
    void *caller_sp;
    void (*fn)(void *);
    void *arg;
    bool is_done;
    void *mapping;
    size_t mapping_bytes;
    struct note note;
};

struct frame;

/*
 * Pushes a struct frame on the current stack, stores its address in *sp_out, and continues from the
 * frame at `sp`. Returns when another switch continues this frame.
 */
void fiber_switch(void **sp_out, void *sp) __attribute__((visibility("hidden")));
/* The return address of a new fiber's first frame: calls run_fiber, and ends every backtrace. */
void fiber_entry(void) __attribute__((visibility("hidden")));

static void run_fiber(struct fiber *fiber);
static struct frame *push_first_frame(struct fiber *fiber);
static int note_create(struct fiber *fiber);
static void note_destroy(struct fiber *fiber);
static void note_forget(struct fiber *fiber);
static void note_enter(struct fiber *fiber);
static void note_entered(struct fiber *fiber);
static void note_leave(struct fiber *fiber);
static void note_left(struct fiber *fiber);

int fiber_create(size_t stack_bytes, struct fiber **fiber_out)
{
    size_t page = os_page_bytes();

    if (stack_bytes > SIZE_MAX - GUARD_BYTES - sizeof(struct fiber) - page)
        return PTO_ENOMEM;

    size_t bytes = GUARD_BYTES + (stack_bytes + sizeof(struct fiber) + page - 1) / page * page;
    char *mapping = os_reserve(bytes);

    assert(GUARD_BYTES % page == 0);
    if (mapping == NULL)
        return PTO_ENOMEM;

    int status = os_commit(mapping + GUARD_BYTES, bytes - GUARD_BYTES);

    if (status < 0)
        goto release_mapping;

    struct fiber *fiber = (struct fiber *)(mapping + bytes - sizeof(*fiber));

    fiber->is_done = true;
    fiber->mapping = mapping;
    fiber->mapping_bytes = bytes;
    status = note_create(fiber);
    if (status < 0)
        goto release_mapping;

    *fiber_out = fiber;
    return PTO_OK;

release_mapping:
    os_release(mapping, bytes);
    return status;
}

void fiber_destroy(struct fiber *fiber)
{
    if (fiber == NULL)
        return;

    assert(fiber->caller_sp == NULL);
    if (!fiber->is_done)
        note_forget(fiber);
    note_destroy(fiber);
    os_release(fiber->mapping, fiber->mapping_bytes);
}

void fiber_start(struct fiber *fiber, void (*fn)(void *), void *arg)
{
    assert(fiber->caller_sp == NULL);
    assert(fn != NULL);
    if (!fiber->is_done)
        note_forget(fiber);
    fiber->fn = fn;
    fiber->arg = arg;
    fiber->is_done = false;
    fiber->sp = push_first_frame(fiber);
}

void fiber_resume(struct fiber *fiber)
{
    assert(!fiber->is_done);
    assert(fiber->caller_sp == NULL);
    note_enter(fiber);
    fiber_switch(&fiber->caller_sp, fiber->sp);
    note_left(fiber);
    fiber->caller_sp = NULL;
}

void fiber_yield(struct fiber *fiber)
{
    assert(fiber->caller_sp != NULL);
    note_leave(fiber);
    fiber_switch(&fiber->sp, fiber->caller_sp);
    note_entered(fiber);
}

void fiber_stack(const struct fiber *fiber, uintptr_t *low_out, uintptr_t *high_out)
{
    *low_out = (uintptr_t)fiber->mapping + GUARD_BYTES;
    *high_out = (uintptr_t)fiber;
}

bool fiber_is_done(const struct fiber *fiber)
{
    return fiber->is_done;
}

/*
 * Marks functions that switch stacks or never return. Sanitizers must not instrument them, because
 * they count calls and returns on each stack.
 */
#if defined(__clang__)
#define NOT_SANITIZED __attribute__((disable_sanitizer_instrumentation))
#else
#define NOT_SANITIZED __attribute__((no_sanitize("address", "thread")))
#endif

/*
 * Prepares a jump out of the fiber to the stack that resumed it; the frames of the fiber are
 * abandoned.
 */
NOT_SANITIZED void fiber_leave(struct fiber *fiber)
{
    fiber->caller_sp = NULL;
    note_leave(fiber);
}

NOT_SANITIZED static void run_fiber(struct fiber *fiber)
{
    note_entered(fiber);
    fiber->fn(fiber->arg);
    fiber->is_done = true;
    note_leave(fiber);
    fiber_switch(&fiber->sp, fiber->caller_sp);
    abort(); /* unreachable: fiber_resume refuses a fiber that is done */
}

/*
 * The switch between stacks, one per architecture: struct frame is the layout of the saved
 * registers, for the assembly and for the first frame of a fiber. The unwind directives hold on
 * both sides of the change of sp, because both stacks have a struct frame at sp then.
 *
 * The shadow stacks of x86 and Arm (SHSTK, GCS) are not switched. If a C library enables them,
 * build this file with -fcf-protection=branch.
 */
#if defined(__aarch64__)

struct frame {
    uint64_t x19, x20, x21, x22, x23, x24, x25, x26, x27, x28, x29, x30;
    uint64_t d8_to_d15[8];
    uint64_t fpcr;
    uint64_t unused; /* padding: sp has to be a multiple of 16 */
};

static_assert(sizeof(struct frame) == 176, "the assembly code depends on this layout");

static struct frame *push_first_frame(struct fiber *fiber)
{
    struct frame *frame = (struct frame *)fiber - 1;
    uint64_t fpcr;

    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    *frame = (struct frame){
        .x19 = (uintptr_t)run_fiber,
        .x20 = (uintptr_t)fiber,
        .x29 = 0, /* ends the chain of frame pointers */
        .x30 = (uintptr_t)fiber_entry,
        .fpcr = fpcr,
    };
    return frame;
}

/* Writing fpcr can drain the pipeline, so it is written only if it differs. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl fiber_switch\n"
        ".hidden fiber_switch\n"
        ".type fiber_switch, %function\n"
        "fiber_switch:\n"
        "    .cfi_startproc\n"
        "    hint #34\n" /* bti c, a landing pad for indirect calls */
        "    sub sp, sp, #176\n"
        "    .cfi_def_cfa_offset 176\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    .cfi_offset 19, -176; .cfi_offset 20, -168\n"
        "    .cfi_offset 21, -160; .cfi_offset 22, -152\n"
        "    .cfi_offset 23, -144; .cfi_offset 24, -136\n"
        "    .cfi_offset 25, -128; .cfi_offset 26, -120\n"
        "    .cfi_offset 27, -112; .cfi_offset 28, -104\n"
        "    .cfi_offset 29, -96; .cfi_offset 30, -88\n"
        /* registers d8 and d9 have the DWARF numbers 72 and 73 */
        "    .cfi_offset 72, -80; .cfi_offset 73, -72\n"
        "    .cfi_offset 74, -64; .cfi_offset 75, -56\n"
        "    .cfi_offset 76, -48; .cfi_offset 77, -40\n"
        "    .cfi_offset 78, -32; .cfi_offset 79, -24\n"
        "    mrs x9, fpcr\n"
        "    str x9, [sp, #160]\n"
        "    mov x10, sp\n"
        "    str x10, [x0]\n"
        "    mov sp, x1\n"
        "    ldr x10, [sp, #160]\n"
        "    cmp x9, x10\n"
        "    b.eq 1f\n"
        "    msr fpcr, x10\n"
        "1:  ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    .cfi_restore 19; .cfi_restore 20; .cfi_restore 21; .cfi_restore 22\n"
        "    .cfi_restore 23; .cfi_restore 24; .cfi_restore 25; .cfi_restore 26\n"
        "    .cfi_restore 27; .cfi_restore 28; .cfi_restore 29; .cfi_restore 30\n"
        "    .cfi_restore 72; .cfi_restore 73; .cfi_restore 74; .cfi_restore 75\n"
        "    .cfi_restore 76; .cfi_restore 77; .cfi_restore 78; .cfi_restore 79\n"
        "    add sp, sp, #176\n"
        "    .cfi_def_cfa_offset 0\n"
        "    ret\n" /* fiber_entry is reached by a return, which needs no landing pad (bti) */
        "    .cfi_endproc\n"
        ".size fiber_switch, . - fiber_switch\n"
        "\n"
        ".p2align 4\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined 30\n"
        "    nop\n" /* padding: unwinders look up a return address minus one */
        ".globl fiber_entry\n"
        ".hidden fiber_entry\n"
        ".type fiber_entry, %function\n"
        "fiber_entry:\n"
        "    mov x0, x20\n"
        "    blr x19\n"
        "    brk #1\n"
        "    .cfi_endproc\n"
        ".size fiber_entry, . - fiber_entry\n");

#elif defined(__x86_64__)

struct frame {
    uint32_t mxcsr;
    uint16_t x87_control;
    uint16_t unused;
    uint64_t r15, r14, r13, r12, rbx, rbp, rip;
};

static_assert(sizeof(struct frame) == 64, "the assembly code depends on this layout");
static_assert(alignof(struct fiber) % 16 == 0, "fiber_entry calls with an aligned stack");

static struct frame *push_first_frame(struct fiber *fiber)
{
    struct frame *frame = (struct frame *)fiber - 1;
    uint32_t mxcsr;
    uint16_t x87_control;

    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
    __asm__ volatile("fnstcw %0" : "=m"(x87_control));
    *frame = (struct frame){
        .mxcsr = mxcsr,
        .x87_control = x87_control,
        .r12 = (uintptr_t)fiber,
        .rbx = (uintptr_t)run_fiber,
        .rbp = 0, /* ends the chain of frame pointers */
        .rip = (uintptr_t)fiber_entry,
    };
    return frame;
}

/*
 * fiber_switch ends with a jump, not a return: the CPU's return predictor would predict the caller
 * of fiber_switch, which is not the target, and lose one more entry. `notrack`, because no endbr64
 * follows a call.
 */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl fiber_switch\n"
        ".hidden fiber_switch\n"
        ".type fiber_switch, %function\n"
        "fiber_switch:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rbp\n"
        "    .cfi_adjust_cfa_offset 8; .cfi_rel_offset %rbp, 0\n"
        "    pushq %rbx\n"
        "    .cfi_adjust_cfa_offset 8; .cfi_rel_offset %rbx, 0\n"
        "    pushq %r12\n"
        "    .cfi_adjust_cfa_offset 8; .cfi_rel_offset %r12, 0\n"
        "    pushq %r13\n"
        "    .cfi_adjust_cfa_offset 8; .cfi_rel_offset %r13, 0\n"
        "    pushq %r14\n"
        "    .cfi_adjust_cfa_offset 8; .cfi_rel_offset %r14, 0\n"
        "    pushq %r15\n"
        "    .cfi_adjust_cfa_offset 8; .cfi_rel_offset %r15, 0\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    stmxcsr (%rsp)\n"
        "    fnstcw 4(%rsp)\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    ldmxcsr (%rsp)\n"
        "    fldcw 4(%rsp)\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %r15\n"
        "    .cfi_adjust_cfa_offset -8; .cfi_restore %r15\n"
        "    popq %r14\n"
        "    .cfi_adjust_cfa_offset -8; .cfi_restore %r14\n"
        "    popq %r13\n"
        "    .cfi_adjust_cfa_offset -8; .cfi_restore %r13\n"
        "    popq %r12\n"
        "    .cfi_adjust_cfa_offset -8; .cfi_restore %r12\n"
        "    popq %rbx\n"
        "    .cfi_adjust_cfa_offset -8; .cfi_restore %rbx\n"
        "    popq %rbp\n"
        "    .cfi_adjust_cfa_offset -8; .cfi_restore %rbp\n"
        "    popq %rcx\n"
        "    .cfi_adjust_cfa_offset -8; .cfi_register %rip, %rcx\n"
        "    notrack jmp *%rcx\n"
        "    .cfi_endproc\n"
        ".size fiber_switch, . - fiber_switch\n"
        "\n"
        ".p2align 4\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined %rip\n"
        "    nop\n" /* padding: unwinders look up a return address minus one */
        ".globl fiber_entry\n"
        ".hidden fiber_entry\n"
        ".type fiber_entry, %function\n"
        "fiber_entry:\n"
        "    movq %r12, %rdi\n"
        "    call *%rbx\n"
        "    ud2\n"
        "    .cfi_endproc\n"
        ".size fiber_entry, . - fiber_entry\n");

#else
#error "fiber_switch is not written for this architecture"
#endif

/*
 * Sanitizers are notified of each switch between stacks, before it on the stack that is left
 * (note_enter, note_leave), and after it on the stack that is reached (note_entered, note_left).
 */
#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

static void *stack_low(const struct fiber *fiber)
{
    return (char *)fiber->mapping + GUARD_BYTES;
}

static size_t stack_bytes_of(const struct fiber *fiber)
{
    return (size_t)((const char *)fiber - (const char *)stack_low(fiber));
}

static int note_create(struct fiber *fiber)
{
    (void)fiber;
    return PTO_OK;
}

static void note_destroy(struct fiber *fiber)
{
    (void)fiber;
}

/*
 * Frees what abandoned frames of a fiber leave in ASan: poisoned stack memory, and a fake stack,
 * which only a final switch out of the fiber frees. So this thread announces a switch into the
 * fiber and back, without switching.
 */
NOT_SANITIZED static void note_forget(struct fiber *fiber)
{
    void *own_fake;
    const void *own_stack;
    size_t own_bytes;

    __asan_unpoison_memory_region(stack_low(fiber), stack_bytes_of(fiber));
    if (fiber->note.fiber_fake == NULL)
        return;

    __sanitizer_start_switch_fiber(&own_fake, stack_low(fiber), stack_bytes_of(fiber));
    __sanitizer_finish_switch_fiber(fiber->note.fiber_fake, &own_stack, &own_bytes);
    __sanitizer_start_switch_fiber(NULL, own_stack, own_bytes);
    __sanitizer_finish_switch_fiber(own_fake, NULL, NULL);
    fiber->note.fiber_fake = NULL;
}

NOT_SANITIZED static void note_enter(struct fiber *fiber)
{
    __sanitizer_start_switch_fiber(&fiber->note.caller_fake, stack_low(fiber),
                                   stack_bytes_of(fiber));
}

NOT_SANITIZED static void note_entered(struct fiber *fiber)
{
    __sanitizer_finish_switch_fiber(fiber->note.fiber_fake, &fiber->note.caller_stack,
                                    &fiber->note.caller_bytes);
    fiber->note.fiber_fake = NULL;
}

/* A fiber that is done passes NULL, which frees its fake stack. */
NOT_SANITIZED static void note_leave(struct fiber *fiber)
{
    __sanitizer_start_switch_fiber(fiber->is_done ? NULL : &fiber->note.fiber_fake,
                                   fiber->note.caller_stack, fiber->note.caller_bytes);
}

NOT_SANITIZED static void note_left(struct fiber *fiber)
{
    __sanitizer_finish_switch_fiber(fiber->note.caller_fake, NULL, NULL);
}

#elif defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)

#include <sanitizer/tsan_interface.h>

static int note_create(struct fiber *fiber)
{
    fiber->note.fiber_context = __tsan_create_fiber(0);
    return fiber->note.fiber_context == NULL ? PTO_ENOMEM : PTO_OK;
}

static void note_destroy(struct fiber *fiber)
{
    __tsan_destroy_fiber(fiber->note.fiber_context);
}

/* Replaces the TSan context, because the old one keeps the call stack of the abandoned frames. */
static void note_forget(struct fiber *fiber)
{
    __tsan_destroy_fiber(fiber->note.fiber_context);
    fiber->note.fiber_context = __tsan_create_fiber(0);
}

NOT_SANITIZED static void note_enter(struct fiber *fiber)
{
    fiber->note.caller_context = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->note.fiber_context, 0);
}

NOT_SANITIZED static void note_entered(struct fiber *fiber)
{
    (void)fiber;
}

NOT_SANITIZED static void note_leave(struct fiber *fiber)
{
    __tsan_switch_to_fiber(fiber->note.caller_context, 0);
}

NOT_SANITIZED static void note_left(struct fiber *fiber)
{
    (void)fiber;
}

#else

static int note_create(struct fiber *fiber)
{
    (void)fiber;
    return PTO_OK;
}

static void note_destroy(struct fiber *fiber)
{
    (void)fiber;
}

static void note_forget(struct fiber *fiber)
{
    (void)fiber;
}

static void note_enter(struct fiber *fiber)
{
    (void)fiber;
}

static void note_entered(struct fiber *fiber)
{
    (void)fiber;
}

static void note_leave(struct fiber *fiber)
{
    (void)fiber;
}

static void note_left(struct fiber *fiber)
{
    (void)fiber;
}

#endif
