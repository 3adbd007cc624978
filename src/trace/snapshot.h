/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorded run, as whoever exports it sees it: what the chip recorded, what the host
 * knows beside that, and the executions that follow from it. One thread at a time; what
 * a snapshot points to belongs to the device and stays until its next run.
 */
#ifndef PTO_SNAPSHOT_H
#define PTO_SNAPSHOT_H

#include <stdio.h>

#include "chip/chip.h"

struct trace_snapshot {
    struct chip_record record;
    const char *platform;
    char *const *kernel_name;
    uint32_t kernel_count;
    enum pto_trace mode;
    int status; /* of the run */
    /* As the run's options had it. */
    enum pto_mode run_mode;
    enum pto_deps deps;
    struct pto_ring_limits rings;
    struct pto_diagnostics diagnostics;
};

/* One execution, put together from its records. */
struct trace_slice {
    uint32_t seq; /* of the task, from 1 */
    uint32_t block;
    uint32_t core;
    uint32_t kernel;
    uint64_t begin; /* cycles */
    uint64_t end;
    bool has_end;
    uint8_t nothing; /* enum trace_nothing, without a core */
    uint8_t ring;    /* of the worker, or the last one: of kernels without one */
};

struct trace_slices {
    const struct trace_snapshot *snapshot;
    struct trace_slice *slice; /* by task, block and core */
    uint64_t count;
    uint64_t lost; /* records that gave way to later ones */
    double ns_per_cycle;
    const struct chip_task **task; /* by index, if they were told of; else NULL */
};

/* PTO_OK or PTO_ENOMEM. */
int trace_slices_make(const struct trace_snapshot *snapshot, struct trace_slices *out);
void trace_slices_free(struct trace_slices *s);
/* The first execution of a task by submission index; NULL: none was recorded. */
const struct trace_slice *trace_slices_find(const struct trace_slices *s, uint32_t index);
/* Number of the oldest record that the ring still has. */
uint64_t trace_ring_first(const struct trace_ring *ring);

/* What every exporter tells alike. */
/* From the begin of the run, in µs. */
double trace_slices_us(const struct trace_slices *s, uint64_t cycles);
/* Of the core's type: "AIC" or "AIV"; its number among those of that type goes to `index_out`. */
const char *trace_slices_core(const struct trace_slices *s, uint32_t core, uint32_t *index_out);
/* By the machine's monotonic clock. */
uint64_t trace_slices_ns(const struct trace_slices *s, uint64_t cycles);
/* The name of the kernel, or what stands for it. */
const char *trace_slices_name(const struct trace_slices *s, const struct trace_slice *slice);

/* What was told of the task of an execution, or NULL; then what follows it. */
const struct chip_task *trace_slices_task(const struct trace_slices *s,
                                          const struct trace_slice *slice);
static inline const char *trace_task_file(const struct chip_task *task)
{
    return (const char *)(task + 1);
}

static inline const struct chip_argument *trace_task_arguments(const struct chip_task *task)
{
    return (const void *)(trace_task_file(task) + task->file_bytes);
}

static inline const uint64_t *trace_task_scalars(const struct chip_task *task)
{
    return (const void *)(trace_task_arguments(task) + task->tensor_count);
}

static inline const struct chip_dep *trace_task_deps(const struct chip_task *task)
{
    return (const void *)(trace_task_scalars(task) + task->scalar_count);
}

/* The id of a task by submission index; its index, if it was not told of. */
uint64_t trace_slices_id(const struct trace_slices *s, uint32_t index);

/* A text as JSON has it; a list of numbers. */
void trace_put_string(FILE *out, const char *text);
void trace_put_numbers(FILE *out, const uint32_t *number, uint32_t count, const char *between);

/* Where the timeline of one run goes in one of several. */
struct trace_place {
    uint32_t pid;     /* of its events */
    uint32_t track;   /* behind this one */
    uint64_t flow;    /* its flows have numbers from here on */
    uint64_t base_ns; /* the moment 0, by the machine's monotonic clock; 0: the run's begin */
};

/* Writes the events of a timeline, each behind a comma, for a document of several. */
void trace_put_perfetto(const struct trace_slices *slices, const struct trace_place *place,
                        FILE *out);

/*
 * The exporters, a file each, by the ending of the path that asks for one. The first is for all
 * other paths. They write the whole document. PTO_OK or
 * PTO_ENOMEM; other errors are the stream's.
 */
#define TRACE_EXPORTER_MAP(X) X(perfetto, ".json")

typedef int (*trace_exporter_fn)(const struct trace_slices *slices, FILE *out);

/*
 * The files of struct pto_diagnostics, in simpler's formats: which it is of a folder, and whether
 * the snapshot `s` is asked for it.
 */
#define TRACE_DIAGNOSTIC_MAP(X)                                             \
    X(swimlane, "chip_swimlane_records.json", s->diagnostics.swimlane != 0) \
    X(deps, "deps.json", s->diagnostics.has_deps)                           \
    X(args_dump, "args_dump/args_dump.json", s->diagnostics.args != 0)      \
    X(args_bytes, "args_dump/args.bin", s->diagnostics.args != 0)           \
    X(scope_stats, "scope_stats/scope_stats.jsonl",                         \
      s->diagnostics.has_scopes && s->run_mode == PTO_MODE_STREAM)          \
    X(pmu, "pmu.csv", s->diagnostics.pmu != 0)                              \
    X(name_map, "name_map.json", s->diagnostics.has_names)

#define TRACE_EXPORTER(name, ...) int trace_write_##name(const struct trace_slices *, FILE *);
TRACE_EXPORTER_MAP(TRACE_EXPORTER)
TRACE_DIAGNOSTIC_MAP(TRACE_EXPORTER)
#undef TRACE_EXPORTER

#endif
