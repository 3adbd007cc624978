/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread_state.h"

#include <pthread.h>

#if defined(__aarch64__)
uint64_t thread_state_floats(void)
{
    uint64_t fpcr;

    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
}

static void set_floats(uint64_t floats)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(floats));
}
#elif defined(__x86_64__)
enum { MXCSR_FLAGS = 0x3f };

/* Returns MXCSR without its exception flags, and in the upper bits the control word of the x87. */
uint64_t thread_state_floats(void)
{
    uint32_t mxcsr;
    uint16_t control;

    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
    __asm__ volatile("fnstcw %0" : "=m"(control));
    return (mxcsr & ~(uint32_t)MXCSR_FLAGS) | (uint64_t)control << 32;
}

/*
 * Sets the floating-point control bits: rounding, flushing, traps. Clears the exception flags,
 * because a set flag would trap at the next x87 operation.
 */
static void set_floats(uint64_t floats)
{
    uint32_t mxcsr = (uint32_t)floats;
    uint16_t control = (uint16_t)(floats >> 32);

    __asm__ volatile("fnclex");
    __asm__ volatile("fldcw %0" : : "m"(control));
    __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
}
#endif

void thread_state_restore_floats(uint64_t floats)
{
    if (__builtin_expect(thread_state_floats() != floats, 0)) /* mutation: kept-rounding */
        set_floats(floats);
}

void thread_state_save(struct thread_state *state, bool has_mask)
{
    state->floats = thread_state_floats();
    state->has_mask = has_mask;
    if (has_mask)
        pthread_sigmask(SIG_SETMASK, NULL, &state->mask);
}

void thread_state_restore(const struct thread_state *state)
{
    thread_state_restore_floats(state->floats);
    if (state->has_mask)
        pthread_sigmask(SIG_SETMASK, &state->mask, NULL);
}
