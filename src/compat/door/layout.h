/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What crosses the border to an orchestration that was compiled with the reference's
 * own headers: simpler at 6ebaf77, both generations. Each struct is an ABI, and has no
 * version: the assertions below are all that keeps both sides together. Tensors, what
 * creates them, ids of tasks, kernels and predicates are laid out as ours.
 *
 * The two modes have headers of their own there, which differ in how they end. An
 * object is of the one or of the other kind, whatever the mode of its runs.
 */
#ifndef PTO_LAYOUT_H
#define PTO_LAYOUT_H

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>

#include "pto/orch.h"

enum { DOOR_GRAPH_OPS = 5 };

/* How many blocks a task has, and whether they start together. */
struct door_launch {
    int16_t block_count;
    bool is_sync_start;
    uint8_t reserved;
};

/* What is marked for a dump of arguments: bit i is argument i, tensors first. */
struct door_marks {
    uint64_t marked;
    uint64_t ambiguous; /* marked by a variable that several scalars came from */
    uint64_t scalar_source[PTO_TASK_SCALARS_MAX];
    uint8_t scalar_dtype[PTO_TASK_SCALARS_MAX];
};

/* The arguments of a task, as far as both kinds have them in the same place. */
struct door_args {
    int32_t tag[PTO_TASK_TENSORS_MAX];
    const void *tensor[PTO_TASK_TENSORS_MAX];
    uint64_t scalar[PTO_TASK_SCALARS_MAX];
    int32_t tensor_count;
    int32_t scalar_count;
    bool has_error;
    const char *error;
    struct door_launch launch;
    bool allow_early_resolve;
    struct pto_predicate predicate;
    int32_t timing_slot; /* -1: none */
};

/* Of the streamed kind. */
struct door_stream_args {
    struct door_args args;
    struct door_marks marks;
    const struct pto_task_id *deps;
    const uint8_t *dep_kinds; /* NULL: every dependency waits and retains */
    uint32_t dep_count;
};

/* Of the host-built kind. */
struct door_host_args {
    struct door_args args;
    const void *scalar_origin[PTO_TASK_SCALARS_MAX];
    uint8_t scalar_flags[PTO_TASK_SCALARS_MAX];
    struct door_marks marks;
    const struct pto_task_id *deps;
    uint32_t dep_count;
};

/* The arguments of the orchestration itself. What follows differs, and is left empty. */
struct door_entry {
    int32_t tag[PTO_ENTRY_TENSORS_MAX];
    const struct pto_tensor *tensor[PTO_ENTRY_TENSORS_MAX];
    uint64_t scalar[PTO_ENTRY_SCALARS_MAX];
    int32_t tensor_count;
    int32_t scalar_count;
    bool has_error;
    const char *error;
    struct door_launch launch;
    bool allow_early_resolve;
    struct pto_predicate predicate;
    int32_t timing_slot;
    uint8_t rest[1328]; /* of the longer kind */
};

/* What a submit returns, by a hidden pointer. */
struct door_outputs {
    struct pto_task_id task;
    uint32_t count;
    const struct pto_tensor *tensor[PTO_TASK_TENSORS_MAX];
};

/* What the function of the config returns. */
struct door_config {
    int expected_arg_count;
};

/* The reference's lines of log: levels and thresholds share these numbers. */
struct door_log_state {
    uint32_t abi; /* 1 */
    uint32_t size;
    int32_t threshold;
    int32_t clock_anchor_pid; /* the object's own */
};

struct door_runtime;

/* The operations. Both kinds begin alike. */
struct door_ops {
    struct door_outputs (*submit)(struct door_runtime *rt, const struct pto_kernels *kernels,
                                  const struct door_args *args);
    void (*scope_begin)(struct door_runtime *rt);
    void (*scope_end)(struct door_runtime *rt);
    void (*done)(struct door_runtime *rt);
    bool (*is_fatal)(struct door_runtime *rt);
    void (*report_fatal)(struct door_runtime *rt, int32_t code, const char *function,
                         const char *format, ...);
    void (*log_error)(const char *function, const char *format, ...);
    void (*log_warn)(const char *function, const char *format, ...);
    void (*log_timing)(const char *function, const char *format, ...);
    void (*log_info)(const char *function, const char *format, ...);
    void (*log_debug)(const char *function, const char *format, ...);
    uint64_t (*get_data)(struct door_runtime *rt, const struct pto_tensor *tensor, uint32_t ndims,
                         const uint32_t indices[]);
    void (*set_data)(struct door_runtime *rt, const struct pto_tensor *tensor, uint32_t ndims,
                     const uint32_t indices[], uint64_t bits);
    struct door_outputs (*alloc)(struct door_runtime *rt, const struct door_args *args);
    struct door_outputs (*submit_dummy)(struct door_runtime *rt, const struct door_args *args);
    int32_t (*cluster_count)(struct door_runtime *rt);
    int32_t (*aiv_count)(struct door_runtime *rt);
};

typedef void (*door_site_fn)(const char *file, int line);

struct door_stream_ops {
    struct door_ops ops;
    door_site_fn scope_site;
};

struct door_host_ops {
    struct door_ops ops;
    void (*graph[DOOR_GRAPH_OPS])(void); /* NULL: the body of a graph is called in place */
    door_site_fn scope_site;
};

static_assert(sizeof(struct pto_tensor) == 128 && sizeof(struct pto_tensor_info) == 64, "an ABI");
static_assert(sizeof(struct pto_kernels) == 12, "an ABI");
static_assert(offsetof(struct pto_predicate, indices) == 12, "an ABI");
static_assert(offsetof(struct pto_predicate, op) == 32, "an ABI");
static_assert(offsetof(struct pto_predicate, target) == 40, "an ABI");
static_assert(sizeof(struct pto_predicate) == 48, "an ABI");
static_assert(sizeof(struct door_launch) == 4, "an ABI");
static_assert(sizeof(struct door_marks) == 160, "an ABI");

static_assert(offsetof(struct door_args, tensor) == 128, "an ABI");
static_assert(offsetof(struct door_args, scalar) == 384, "an ABI");
static_assert(offsetof(struct door_args, tensor_count) == 512, "an ABI");
static_assert(offsetof(struct door_args, scalar_count) == 516, "an ABI");
static_assert(offsetof(struct door_args, has_error) == 520, "an ABI");
static_assert(offsetof(struct door_args, error) == 528, "an ABI");
static_assert(offsetof(struct door_args, launch) == 536, "an ABI");
static_assert(offsetof(struct door_args, allow_early_resolve) == 540, "an ABI");
static_assert(offsetof(struct door_args, predicate) == 544, "an ABI");
static_assert(offsetof(struct door_args, timing_slot) == 592, "an ABI");
static_assert(sizeof(struct door_args) == 600, "an ABI");

static_assert(offsetof(struct door_stream_args, marks) == 600, "an ABI");
static_assert(offsetof(struct door_stream_args, deps) == 760, "an ABI");
static_assert(offsetof(struct door_stream_args, dep_kinds) == 768, "an ABI");
static_assert(offsetof(struct door_stream_args, dep_count) == 776, "an ABI");
static_assert(sizeof(struct door_stream_args) == 784, "an ABI");

static_assert(offsetof(struct door_host_args, scalar_origin) == 600, "an ABI");
static_assert(offsetof(struct door_host_args, scalar_flags) == 728, "an ABI");
static_assert(offsetof(struct door_host_args, marks) == 744, "an ABI");
static_assert(offsetof(struct door_host_args, deps) == 904, "an ABI");
static_assert(offsetof(struct door_host_args, dep_count) == 912, "an ABI");
static_assert(sizeof(struct door_host_args) == 920, "an ABI");

static_assert(offsetof(struct door_entry, tensor) == 1024, "an ABI");
static_assert(offsetof(struct door_entry, scalar) == 3072, "an ABI");
static_assert(offsetof(struct door_entry, tensor_count) == 4096, "an ABI");
static_assert(offsetof(struct door_entry, scalar_count) == 4100, "an ABI");
static_assert(offsetof(struct door_entry, has_error) == 4104, "an ABI");
static_assert(offsetof(struct door_entry, timing_slot) == 4176, "an ABI");
static_assert(sizeof(struct door_entry) == 5512, "an ABI");

static_assert(offsetof(struct door_outputs, count) == 8, "an ABI");
static_assert(offsetof(struct door_outputs, tensor) == 16, "an ABI");
static_assert(sizeof(struct door_outputs) == 272, "an ABI");
static_assert(sizeof(struct door_config) == 4, "an ABI");
static_assert(sizeof(struct door_log_state) == 16, "an ABI");

static_assert(offsetof(struct door_ops, report_fatal) == 5 * 8, "an ABI");
static_assert(offsetof(struct door_ops, get_data) == 11 * 8, "an ABI");
static_assert(offsetof(struct door_ops, alloc) == 13 * 8, "an ABI");
static_assert(offsetof(struct door_ops, cluster_count) == 15 * 8, "an ABI");
static_assert(offsetof(struct door_stream_ops, scope_site) == 17 * 8, "an ABI");
static_assert(sizeof(struct door_stream_ops) == 144, "an ABI");
static_assert(offsetof(struct door_host_ops, graph) == 17 * 8, "an ABI");
static_assert(offsetof(struct door_host_ops, scope_site) == 22 * 8, "an ABI");
static_assert(sizeof(struct door_host_ops) == 184, "an ABI");

#endif
