/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time: a device that was opened with `is_virtual` runs the scheduler of a card under a
 * clock that jumps from event to event. Kernels are called at their virtual start, so that results
 * are right. How long they take is not measured: the program sets a formula for each kernel, or a
 * default. The times of the report, of the recorder and of time-outs are virtual.
 */
#ifndef PTO_API_VIRTUAL_H
#define PTO_API_VIRTUAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pto/platform.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct pto_device;
struct pto_error;  /* defined in pto/error.h */
struct pto_tensor; /* defined in pto/tensor.h */

/* The duration of a kernel. */
struct pto_virtual_cost {
    const char *kernel; /* name of the kernel */
    /*
     * The cost applies only to invocations whose arguments have these shapes and scalars, computed
     * with pto_virtual_shapes; 0: to all.
     */
    uint64_t shapes;
    /*
     * Formula for the duration in ns. It may have numbers, with the suffixes ns, us and ms; + - * /
     * and parentheses; min(a, b) and max(a, b); elements(i), bytes(i), dim(i, d) and scalar(i) of
     * argument i, counted from 0; blocks, the number of blocks.
     */
    const char *formula;
    /*
     * Text that says where the formula comes from, such as a file name, and is shown with the
     * results; NULL: "given".
     */
    const char *origin;
};

/*
 * Steps of the scheduler: X(name in commands and Python, field of struct pto_virtual_options,
 * default in ns). The defaults are figures that are published for a2a3.
 */
#define PTO_VIRTUAL_SCHEDULING_MAP(X) \
    X(read, register_read_ns, 95)     \
    X(write, register_write_ns, 5)    \
    X(line, line_ns, 10)              \
    X(pickup, pickup_ns, 800)         \
    X(submit, submit_ns, 500)

/* How long kernels and the scheduler's steps take in virtual time, in ns. */
struct pto_virtual_options {
    size_t size;
    bool is_planned_only;       /* no kernel is called, and outputs are undefined */
    uint64_t register_read_ns;  /* the scheduler reads the register of a core */
    uint64_t register_write_ns; /* the scheduler writes a register of a core */
    uint64_t line_ns;           /* the scheduler sends 64 bytes to a core */
    uint64_t pickup_ns;         /* a core starts a kernel after the scheduler has sent it */
    uint64_t submit_ns;         /* the orchestration submits a task */
    uint64_t kernel_ns;         /* duration of a kernel to which no element of `cost` applies */
    /*
     * Durations of kernels. The first one that applies is used; those with shapes come before those
     * without.
     */
    const struct pto_virtual_cost *cost;
    uint32_t cost_count;
    /*
     * Returns a duration, in place of the elements of `cost` without shapes: 1: *ns_out is set; 0:
     * the kernel has none, so that `cost` applies; or a negative status, which fails the run. It is
     * called once for all invocations of a kernel with equal shapes and scalars, with the arguments
     * that the first one gets, before that runs. NULL: none. Not for workers, whose kernels run in
     * other processes.
     */
    int (*measure)(void *context, const char *kernel, int64_t *args, uint64_t *ns_out);
    void *measure_context;
    const char *measure_origin; /* as `origin` of a cost; a literal, which is not copied */
};

/* Sets the defaults: figures that are published for a2a3, and 10 us for a kernel. */
static inline void pto_virtual_options_init(struct pto_virtual_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof(*options));
    options->size = sizeof(*options);
#define X(name, field, ns) options->field = (ns);
    PTO_VIRTUAL_SCHEDULING_MAP(X)
#undef X
    options->kernel_ns = 10000;
}

/*
 * Sets the durations for the runs that follow. Everything is copied. PTO_ENOSUP: the device has no
 * virtual time. PTO_EINVAL: a formula is invalid. PTO_EBUSY: a run is executing. `error` may be
 * NULL.
 */
int pto_virtual_set(struct pto_device *device, const struct pto_virtual_options *options,
                    struct pto_error *error);

/* Returns a hash of the data types, shapes and scalars of arguments; never 0. */
uint64_t pto_virtual_shapes(const struct pto_tensor *tensor, uint32_t tensor_count,
                            const uint64_t *scalar, uint32_t scalar_count);

/* Times of the last run in virtual time. No schedule of its tasks can take less than bound_ns. */
struct pto_virtual_report {
    size_t size;
    uint64_t makespan_ns;
    /*
     * Duration of the longest chain of kernels that depend on each other. In mode stream, a task
     * whose predecessor has completed before its submit begins a new chain, so a longer chain may
     * exist.
     */
    uint64_t path_ns;
    uint64_t work_ns[PTO_CORE_TYPES]; /* sum of the durations of kernels, by type of their core */
    /*
     * Lower bound of the duration: the largest of path_ns and, for each core type, the work divided
     * by the number of cores.
     */
    uint64_t bound_ns;
    /*
     * Number of kernels that ended later than their duration says, because they waited for another
     * kernel, or because they computed for 0.25 s of CPU time or slept for 1 s while others could
     * run. Only in the latter cases do times depend on the machine.
     */
    uint64_t late;
    uint32_t kernel_count;
};

/* Initialises the struct for a call that fills it in. */
static inline void pto_virtual_report_init(struct pto_virtual_report *report)
{
    if (report == NULL)
        return;
    memset(report, 0, sizeof(*report));
    report->size = sizeof(*report);
}

/*
 * Fills in the report on the last run in virtual time. PTO_ENOSUP: the device has no virtual time.
 * PTO_EBUSY: a run is executing.
 */
int pto_virtual_report(struct pto_device *device, struct pto_virtual_report *report);

/* The durations of one kernel in the last run. */
struct pto_virtual_kernel {
    size_t size;
    uint64_t count; /* number of invocations of the kernel */
    uint64_t total_ns, min_ns, max_ns;
    char name[64];
    /* where the kernel's durations come from: "default", or the `origin` texts of its costs */
    char origin[192];
};

/* Initialises the struct for a call that fills it in. */
static inline void pto_virtual_kernel_init(struct pto_virtual_kernel *kernel)
{
    if (kernel == NULL)
        return;
    memset(kernel, 0, sizeof(*kernel));
    kernel->size = sizeof(*kernel);
}

/*
 * Describes the durations of the kernel with this func_id, which is below kernel_count of the
 * report. Returns the statuses of pto_virtual_report, or PTO_EINVAL: there is no such kernel.
 */
int pto_virtual_kernel(struct pto_device *device, uint32_t index,
                       struct pto_virtual_kernel *kernel);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
