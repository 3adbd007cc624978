/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a drill takes place: a device, a callable of the drill's orchestration
 * with the kernels below, and words about what was found. The device is there
 * when the drill begins. A stage is used by one thread, in a process of its own.
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
    struct pto_run_options options; /* as the drill wants them */
    struct pto_run_report report;
    struct pto_entry entry;
    struct pto_tensor tensor[2]; /* of the entry: words and others, STAGE_WORDS each */
    uint64_t scalar[2];
};

/* Kernels. An id of 0 means none in a drill, so nothing is there. */
enum stage_kernel {
    KERNEL_NONE,
    KERNEL_ADD,       /* AIV: adds 1 to each word of its tensor */
    KERNEL_CUBE,      /* AIC: the same */
    KERNEL_IDLE,      /* AIV: nothing */
    KERNEL_SEGV,      /* reads an address that is not there */
    KERNEL_BUS,       /* reads a file behind its end */
    KERNEL_FPE,       /* divides by zero */
    KERNEL_ILL,       /* runs what is no code */
    KERNEL_RECURSE,   /* calls itself until its stack is full */
    KERNEL_FAR,       /* AIV: crashes on a thread of the device, not on the caller's */
    KERNEL_BLOCK,     /* AIV: crashes in block 2 */
    KERNEL_PEER,      /* AIV: block 2 crashes, the others wait for it */
    KERNEL_LANE,      /* AIV: crashes on the second AIV of its cluster */
    KERNEL_FOREVER,   /* AIV: returns when the drill is over */
    KERNEL_ELSEWHERE, /* AIV: the same on a thread of the device; at once on the caller's */
    KERNEL_SLOW,      /* AIV: 250 ms */
    KERNEL_GATE,      /* AIV: until drill_open_gate */
    KERNEL_DEFER,     /* AIV: its condition is never fulfilled */
    KERNEL_CROWD,     /* AIV: as many conditions as its scalar says */
    KERNEL_NOWHERE,   /* AIV: a condition at the address in its scalar */
    KERNEL_STRANGE,   /* AIV: a condition of a type that does not exist */
    KERNEL_REPORT,    /* AIV: ends the run with the code in its scalar */
    KERNEL_OVERRUN,   /* AIV: writes the word of its tensor that its scalar says */
    KERNEL_HOLE,      /* nothing is there */
    STAGE_KERNELS
};

/* Only the first failed expectation is reported. */
bool drill_expect(struct stage *s, bool is_so, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The status of the drill, and what is said about it: `error` may be NULL. */
void drill_judge(struct stage *s, int status, const struct pto_error *error);
/* Skips the drill, for a reason that only the attempt could show. */
void drill_skip(struct stage *s, const char *reason);

/* Runs the drill's callable as its options say. */
int drill_run(struct stage *s);
/* A run of the orchestration in steps; NULL: the drill has failed. */
struct pto_run *drill_prepare(struct stage *s, pto_orch_fn orchestration);
/* Finishes the run, judges it and checks the words in device memory. */
void drill_finish(struct stage *s, struct pto_run *run);
/* Another callable with the same kernels. It lives until the process ends. */
struct pto_callable *drill_callable(struct stage *s, pto_orch_fn orchestration);
/* Replaces the device by one with other parameters. */
void drill_reopen(struct stage *s, const struct pto_device_params *params);

/* Kernels that stand at the gate or never return. */
bool drill_await_kernels(uint32_t count);
void drill_open_gate(void);
void drill_rest(void);
/* An orchestration waits at the gate as a kernel does. */
void drill_stand_at_gate(void);
/* An output like the words of the entry. */
static inline struct pto_tensor_info drill_words_info(void)
{
    return pto_tensor_info_make(PTO_DIMS(STAGE_WORDS), 1, PTO_UINT32);
}
/* Two tasks that do what they should. */
void drill_orchestrate_well(struct pto_orch *o, const struct pto_entry *entry);

/* Arguments of a task that its submit refuses, with the line of that submit. */
#define ARGS(name, fn, what, says, ...)                                               \
    {                                                                                 \
        PTO_EARGS, name, what, NULL, fn, says, NULL, .flags = DRILL_SITE, __VA_ARGS__ \
    }

#endif
