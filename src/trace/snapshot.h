/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorded run as the exporters see it: what the chip recorded, what the host knows in addition,
 * and the executions derived from both. Not thread-safe. What a snapshot points to belongs to the
 * device and is valid until the device's next run.
 */
#ifndef PTO_SNAPSHOT_H
#define PTO_SNAPSHOT_H

#include <stdio.h>

#include "chip/chip.h"

struct trace_snapshot {
    struct chip_record record;
    const char *platform;
    const char *title; /* title of the recording; NULL: none */
    char *const *kernel_name;
    uint32_t kernel_count;
    enum pto_trace mode;
    int status; /* result of the run */
    /* Copies of options of the run. */
    enum pto_mode run_mode;
    enum pto_deps deps;
    struct pto_ring_limits rings;
    struct pto_diagnostics diagnostics;
    /*
     * A recording of several chips, ranks or workers has a group of tracks for each. These are the
     * names of the group of this run, and of its parent's group.
     */
    const char *group_name; /* name of this run's group; NULL: the recording has only one group */
    uint32_t chip;
    /* name of the group with the task that this run belongs to; NULL: none */
    const char *parent_name;
    uint32_t parent_task; /* number of the task that this run belongs to; 0: unknown */
    /* For a worker of level 3, whose children take the place of cores; NULL for a chip. */
    const uint8_t *lane_kind;    /* for each child, the kind of its lane: enum pto_recording_lane */
    const uint64_t *task_number; /* for each task, the number that is shown instead of its id */
};

/* One execution of a block on a core, assembled from its records. */
struct trace_slice {
    uint32_t seq; /* submission index of the task, plus 1 */
    uint32_t block;
    uint32_t core;
    uint32_t kernel;
    uint64_t begin; /* cycles */
    uint64_t end;
    uint64_t cpu_lost_ns; /* time from begin to end in which the thread had no CPU */
    bool has_end;
    bool has_cpu;    /* `cpu_lost_ns` could be determined */
    uint8_t nothing; /* enum trace_nothing; valid if no core ran the task */
    /*
     * index of the worker's ring buffer of records; the last ring buffer is for kernels that ran
     * without a worker
     */
    uint8_t ring;
};

struct trace_slices {
    const struct trace_snapshot *snapshot;
    struct trace_slice *slice; /* sorted by task, block and core */
    uint64_t count;
    uint64_t lost; /* number of records that later ones overwrote */
    double ns_per_cycle;
    /*
     * recorded submissions by index; an element, or the whole array, is NULL if it was not recorded
     */
    const struct chip_task **task;
    /* recorded accesses of the orchestration itself to elements, in the order of their `index` */
    const struct chip_task **element;
    uint64_t element_count;
    /* recorded elements that tasks used (CHIP_TASK_IS_TOUCHED), in any order */
    const struct chip_task **touched;
    uint64_t touched_count;
};

/* Makes the executions from the records of a snapshot. Returns PTO_OK or PTO_ENOMEM. */
int trace_slices_make(const struct trace_snapshot *snapshot, struct trace_slices *out);
void trace_slices_free(struct trace_slices *s);
/* slices_cpu.c: estimates the CPU time of executions, where it was recorded. */
void trace_slices_read_cpu(struct trace_slices *s);
/* Returns the first execution of the task with this submission index; NULL: none was recorded. */
const struct trace_slice *trace_slices_find(const struct trace_slices *s, uint32_t index);
/* Returns the number of the oldest record that is still in the ring buffer. */
uint64_t trace_ring_first(const struct trace_ring *ring);

/* ---- shared by the exporters ---- */
/* Converts cycles to µs since the begin of the run. */
double trace_slices_us(const struct trace_slices *s, uint64_t cycles);
/*
 * Returns the core's type, "AIC" or "AIV"; *index_out is its number among the cores of that type.
 */
const char *trace_slices_core(const struct trace_slices *s, uint32_t core, uint32_t *index_out);
/* Converts cycles to ns of the machine's monotonic clock. */
uint64_t trace_slices_ns(const struct trace_slices *s, uint64_t cycles);
/* Returns the name of the kernel, "dummy" for a dummy task, or "kernel" if the name is unknown. */
const char *trace_slices_name(const struct trace_slices *s, const struct trace_slice *slice);

/*
 * Returns the recorded submission of the slice's task, or NULL. The functions after this one return
 * the variable-length data that follows the struct.
 */
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

/* Returns the operand of the task's predicate; NULL: it has no predicate. */
static inline const struct chip_argument *trace_task_operand(const struct chip_task *task)
{
    return (task->flags & CHIP_TASK_HAS_OPERAND) != 0
               ? (const void *)(trace_task_deps(task) + task->dep_count)
               : NULL;
}

/* Rebuilds the tensor descriptor with which the argument was submitted. */
struct pto_tensor trace_argument_tensor(const struct chip_argument *a);

/* Returns the id of the task with this submission index; the index if the task was not recorded. */
uint64_t trace_slices_id(const struct trace_slices *s, uint32_t index);

/* Writes a JSON string; writes a JSON list of numbers. */
void trace_put_string(FILE *out, const char *text);
void trace_put_numbers(FILE *out, const uint32_t *number, uint32_t count, const char *between);

/* Where the timeline of one run goes in a document that has several. */
struct trace_place {
    uint32_t pid;   /* process id of the run's events */
    uint32_t track; /* added to the run's track numbers */
    uint64_t flow;  /* added to the run's flow numbers */
    /*
     * time 0 of the document, by the machine's monotonic clock; 0: the document begins with the run
     */
    uint64_t base_ns;
};

/*
 * Writes the events of one timeline into a document that has several; each event begins with a
 * comma.
 */
void trace_put_perfetto(const struct trace_slices *slices, const struct trace_place *place,
                        FILE *out);

/*
 * The exporters: a file for each row of PTO_TRACE_FORMAT_MAP (pto/trace.h). Each writes the whole
 * document. PTO_OK or PTO_ENOMEM; I/O errors are left in the stream.
 */
typedef int (*trace_exporter_fn)(const struct trace_slices *slices, FILE *out);

/*
 * The files of struct pto_diagnostics, in simpler's formats: the exporter, the path within the
 * folder, and whether the options of the snapshot `s` request the file.
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
PTO_TRACE_FORMAT_MAP(TRACE_EXPORTER)
TRACE_DIAGNOSTIC_MAP(TRACE_EXPORTER)
#undef TRACE_EXPORTER

#endif
