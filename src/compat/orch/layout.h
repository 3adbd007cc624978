/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary interface of orchestrations that were compiled with the reference's own headers:
 * simpler at 6ebaf77, both generations. Each struct is an ABI without a version; only the
 * assertions below keep both sides consistent. Tensors, create infos, task ids, kernels and
 * predicates have our layout.
 *
 * The reference's two modes have separate headers, which differ at the ends of structs. An object
 * is of one kind or the other, whatever the mode of its runs.
 */
#ifndef PTO_LAYOUT_H
#define PTO_LAYOUT_H

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>

#include "pto/orch.h"

enum { COMPAT_GRAPH_OPS = 5 };

/* How many blocks a task has, and whether they start together. */
struct compat_launch {
    int16_t block_count;
    bool is_sync_start;
    uint8_t reserved;
};

/* Arguments marked for a dump: bit i is argument i, tensors first. */
struct compat_marks {
    uint64_t marked;
    /*
     * Scalars that may have been marked by mistake: the marked variable is the source of several.
     */
    uint64_t ambiguous;
    uint64_t scalar_source[PTO_TASK_SCALARS_MAX];
    uint8_t scalar_dtype[PTO_TASK_SCALARS_MAX];
};

/* The arguments of a task, up to the field after which the two kinds of headers differ. */
struct compat_args {
    int32_t tag[PTO_TASK_TENSORS_MAX];
    const void *tensor[PTO_TASK_TENSORS_MAX];
    uint64_t scalar[PTO_TASK_SCALARS_MAX];
    int32_t tensor_count;
    int32_t scalar_count;
    bool has_error;
    const char *error;
    struct compat_launch launch;
    bool allow_early_resolve;
    struct pto_predicate predicate;
    int32_t timing_slot; /* -1: none */
};

/* Arguments of a task, streamed kind. */
struct compat_stream_args {
    struct compat_args args;
    struct compat_marks marks;
    const struct pto_task_id *deps;
    /* NULL: every dependency is of both kinds, PTO_DEP_WAIT and PTO_DEP_RETAIN */
    const uint8_t *dep_kinds;
    uint32_t dep_count;
};

/* Arguments of a task, host-built kind. */
struct compat_host_args {
    struct compat_args args;
    const void *scalar_origin[PTO_TASK_SCALARS_MAX];
    uint8_t scalar_flags[PTO_TASK_SCALARS_MAX];
    struct compat_marks marks;
    const struct pto_task_id *deps;
    uint32_t dep_count;
};

/*
 * The arguments of the orchestration itself. `rest` differs between the two kinds and is not used.
 */
struct compat_entry {
    int32_t tag[PTO_ENTRY_TENSORS_MAX];
    const struct pto_tensor *tensor[PTO_ENTRY_TENSORS_MAX];
    uint64_t scalar[PTO_ENTRY_SCALARS_MAX];
    int32_t tensor_count;
    int32_t scalar_count;
    bool has_error;
    const char *error;
    struct compat_launch launch;
    bool allow_early_resolve;
    struct pto_predicate predicate;
    int32_t timing_slot;
    uint8_t rest[1328]; /* only the longer kind has all of these bytes */
};

/* The result of a submit. The caller passes a hidden pointer to it. */
struct compat_outputs {
    struct pto_task_id task;
    uint32_t count;
    const struct pto_tensor *tensor[PTO_TASK_TENSORS_MAX];
};

/* The result of the config function. */
struct compat_config {
    int expected_arg_count;
};

/* The state of the reference's logger: levels and thresholds use the same numbers. */
struct compat_log_state {
    uint32_t abi; /* always 1 */
    uint32_t size;
    int32_t threshold;
    int32_t clock_anchor_pid; /* used by the object's logger only */
};

struct compat_runtime;

/* The operations with which the tables of both kinds begin. */
struct compat_ops {
    struct compat_outputs (*submit)(struct compat_runtime *rt, const struct pto_kernels *kernels,
                                    const struct compat_args *args);
    void (*scope_begin)(struct compat_runtime *rt);
    void (*scope_end)(struct compat_runtime *rt);
    void (*done)(struct compat_runtime *rt);
    bool (*is_fatal)(struct compat_runtime *rt);
    void (*report_fatal)(struct compat_runtime *rt, int32_t code, const char *function,
                         const char *format, ...);
    void (*log_error)(const char *function, const char *format, ...);
    void (*log_warn)(const char *function, const char *format, ...);
    void (*log_timing)(const char *function, const char *format, ...);
    void (*log_info)(const char *function, const char *format, ...);
    void (*log_debug)(const char *function, const char *format, ...);
    uint64_t (*get_data)(struct compat_runtime *rt, const struct pto_tensor *tensor, uint32_t ndims,
                         const uint32_t indices[]);
    void (*set_data)(struct compat_runtime *rt, const struct pto_tensor *tensor, uint32_t ndims,
                     const uint32_t indices[], uint64_t bits);
    struct compat_outputs (*alloc)(struct compat_runtime *rt, const struct compat_args *args);
    struct compat_outputs (*submit_dummy)(struct compat_runtime *rt,
                                          const struct compat_args *args);
    int32_t (*cluster_count)(struct compat_runtime *rt);
    int32_t (*aiv_count)(struct compat_runtime *rt);
};

typedef void (*compat_site_fn)(const char *file, int line);

struct compat_stream_ops {
    struct compat_ops ops;
    compat_site_fn scope_site;
};

struct compat_host_ops {
    struct compat_ops ops;
    /* NULL: the object then calls the body of a graph directly */
    void (*graph[COMPAT_GRAPH_OPS])(void);
    compat_site_fn scope_site;
};

static_assert(sizeof(struct pto_tensor) == 128 && sizeof(struct pto_tensor_info) == 64, "an ABI");
static_assert(sizeof(struct pto_kernels) == 12, "an ABI");
static_assert(offsetof(struct pto_predicate, indices) == 12, "an ABI");
static_assert(offsetof(struct pto_predicate, op) == 32, "an ABI");
static_assert(offsetof(struct pto_predicate, target) == 40, "an ABI");
static_assert(sizeof(struct pto_predicate) == 48, "an ABI");
static_assert(sizeof(struct compat_launch) == 4, "an ABI");
static_assert(sizeof(struct compat_marks) == 160, "an ABI");

static_assert(offsetof(struct compat_args, tensor) == 128, "an ABI");
static_assert(offsetof(struct compat_args, scalar) == 384, "an ABI");
static_assert(offsetof(struct compat_args, tensor_count) == 512, "an ABI");
static_assert(offsetof(struct compat_args, scalar_count) == 516, "an ABI");
static_assert(offsetof(struct compat_args, has_error) == 520, "an ABI");
static_assert(offsetof(struct compat_args, error) == 528, "an ABI");
static_assert(offsetof(struct compat_args, launch) == 536, "an ABI");
static_assert(offsetof(struct compat_args, allow_early_resolve) == 540, "an ABI");
static_assert(offsetof(struct compat_args, predicate) == 544, "an ABI");
static_assert(offsetof(struct compat_args, timing_slot) == 592, "an ABI");
static_assert(sizeof(struct compat_args) == 600, "an ABI");

static_assert(offsetof(struct compat_stream_args, marks) == 600, "an ABI");
static_assert(offsetof(struct compat_stream_args, deps) == 760, "an ABI");
static_assert(offsetof(struct compat_stream_args, dep_kinds) == 768, "an ABI");
static_assert(offsetof(struct compat_stream_args, dep_count) == 776, "an ABI");
static_assert(sizeof(struct compat_stream_args) == 784, "an ABI");

static_assert(offsetof(struct compat_host_args, scalar_origin) == 600, "an ABI");
static_assert(offsetof(struct compat_host_args, scalar_flags) == 728, "an ABI");
static_assert(offsetof(struct compat_host_args, marks) == 744, "an ABI");
static_assert(offsetof(struct compat_host_args, deps) == 904, "an ABI");
static_assert(offsetof(struct compat_host_args, dep_count) == 912, "an ABI");
static_assert(sizeof(struct compat_host_args) == 920, "an ABI");

static_assert(offsetof(struct compat_entry, tensor) == 1024, "an ABI");
static_assert(offsetof(struct compat_entry, scalar) == 3072, "an ABI");
static_assert(offsetof(struct compat_entry, tensor_count) == 4096, "an ABI");
static_assert(offsetof(struct compat_entry, scalar_count) == 4100, "an ABI");
static_assert(offsetof(struct compat_entry, has_error) == 4104, "an ABI");
static_assert(offsetof(struct compat_entry, timing_slot) == 4176, "an ABI");
static_assert(sizeof(struct compat_entry) == 5512, "an ABI");

static_assert(offsetof(struct compat_outputs, count) == 8, "an ABI");
static_assert(offsetof(struct compat_outputs, tensor) == 16, "an ABI");
static_assert(sizeof(struct compat_outputs) == 272, "an ABI");
static_assert(sizeof(struct compat_config) == 4, "an ABI");
static_assert(sizeof(struct compat_log_state) == 16, "an ABI");

static_assert(offsetof(struct compat_ops, report_fatal) == 5 * 8, "an ABI");
static_assert(offsetof(struct compat_ops, get_data) == 11 * 8, "an ABI");
static_assert(offsetof(struct compat_ops, alloc) == 13 * 8, "an ABI");
static_assert(offsetof(struct compat_ops, cluster_count) == 15 * 8, "an ABI");
static_assert(offsetof(struct compat_stream_ops, scope_site) == 17 * 8, "an ABI");
static_assert(sizeof(struct compat_stream_ops) == 144, "an ABI");
static_assert(offsetof(struct compat_host_ops, graph) == 17 * 8, "an ABI");
static_assert(offsetof(struct compat_host_ops, scope_site) == 22 * 8, "an ABI");
static_assert(sizeof(struct compat_host_ops) == 184, "an ABI");

#endif
