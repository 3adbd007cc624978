/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of a drill: an open device, a callable of the drill's orchestration with the
 * kernels below, and the result. Used by one thread, in a separate process.
 */
#ifndef PTO_STAGE_H
#define PTO_STAGE_H

#include "tool/drill/drill.h"

enum { STAGE_WORDS = 16 };

struct stage {
    const struct drill *drill;
    const struct drill_setting *setting;
    struct drill_result *result;
    struct pto_device *device;
    struct pto_callable *callable;
    struct pto_run_options options; /* options of the drill's runs, set from fields of the drill */
    struct pto_run_report report;
    struct pto_entry entry;
    /* tensors of the entry: the arrays `words` and `others`, STAGE_WORDS each */
    struct pto_tensor tensor[2];
    uint64_t scalar[2];
};

/* Ids of the kernels that drills use. In a drill, 0 means "no kernel", so ids start at 1. */
enum stage_kernel {
    KERNEL_NONE,
    KERNEL_ADD,     /* AIV: adds 1 to each word of its tensor */
    KERNEL_CUBE,    /* AIC: adds 1 to each word of its tensor */
    KERNEL_IDLE,    /* AIV: does nothing */
    KERNEL_SEGV,    /* reads unmapped memory */
    KERNEL_BUS,     /* reads a mapped file past its end */
    KERNEL_FPE,     /* divides by zero */
    KERNEL_ILL,     /* executes an invalid instruction */
    KERNEL_RECURSE, /* calls itself until its stack is full */
    /* AIV: crashes on a thread of the device, but not on the thread that called pto_run */
    KERNEL_FAR,
    KERNEL_BLOCK,   /* AIV: crashes in block 2 */
    KERNEL_PEER,    /* AIV: crashes in block 2; the other blocks wait for the end of the drill */
    KERNEL_LANE,    /* AIV: crashes if it runs on the second AIV of its cluster */
    KERNEL_FOREVER, /* AIV: returns when the drill is over */
    /*
     * AIV: does not return on a thread of the device, as KERNEL_FOREVER; on the caller's thread,
     * waits until a thread of the device runs it as well
     */
    KERNEL_ELSEWHERE,
    KERNEL_SLOW,     /* AIV: runs longer than the time limit of its run */
    KERNEL_GATE,     /* AIV: waits until drill_open_gate */
    KERNEL_DEFER,    /* AIV: registers a condition that is never fulfilled */
    KERNEL_CROWD,    /* AIV: registers as many conditions as its scalar says */
    KERNEL_NOWHERE,  /* AIV: registers a condition at the address in its scalar */
    KERNEL_STRANGE,  /* AIV: registers a condition of an unknown type */
    KERNEL_REPORT,   /* AIV: ends the run with the code in its scalar */
    KERNEL_OVERRUN,  /* AIV: writes the word of its tensor whose index is its scalar */
    KERNEL_DECLARED, /* AIV: does nothing; declares a tensor of float32 */
    KERNEL_HOLE,     /* an id without a function */
    STAGE_KERNELS
};

/* Records a failure of the drill unless `is_so` is true. Only the first failure is reported. */
bool drill_expect(struct stage *s, bool is_so, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Compares the status, and the error unless it is NULL, with those that the drill expects. */
void drill_judge(struct stage *s, int status, const struct pto_error *error);
/* Skips the drill, for a reason that was found only by trying. */
void drill_skip(struct stage *s, const char *reason);

/* Runs the drill's callable with the drill's options. */
int drill_run(struct stage *s);
/*
 * Makes a callable from the orchestration and prepares a run of it. Returns NULL if the drill has
 * failed because of that.
 */
struct pto_run *drill_prepare(struct stage *s, pto_orch_fn orchestration);
/* Finishes the run, and compares its status and error with those that the drill expects. */
void drill_finish(struct stage *s, struct pto_run *run);
/* Returns a new callable with the kernels of all drills. It lives until the process ends. */
struct pto_callable *drill_callable(struct stage *s, pto_orch_fn orchestration);
/* Closes the device and opens one with other parameters. */
void drill_reopen(struct stage *s, const struct pto_device_params *params);

/*
 * Waits until `count` kernels are blocked, either at the gate (a flag that the drill opens) or in a
 * loop without end. Returns false after a time-out.
 */
bool drill_await_kernels(uint32_t count);
void drill_open_gate(void);
void drill_rest(void);
/* Makes the calling orchestration wait at the gate, as the gated kernel does. */
void drill_stand_at_gate(void);
/* Returns the description of an output with shape and type of the entry's tensors. */
static inline struct pto_tensor_info drill_words_info(void)
{
    return pto_tensor_info_make(PTO_DIMS(STAGE_WORDS), 1, PTO_UINT32);
}
/* Submits two tasks without faults. */
void drill_orchestrate_well(struct pto_orch *o, const struct pto_entry *entry);

/*
 * A row for the tables of drills. In such a drill the submit rejects an argument with PTO_EARGS,
 * and the error names the line of the submit.
 */
#define ARGS(name, fn, what, text, ...)                                               \
    {                                                                                 \
        PTO_EARGS, name, what, NULL, fn, text, NULL, .flags = DRILL_SITE, __VA_ARGS__ \
    }

#endif
