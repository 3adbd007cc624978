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
/* The name of the kernel, or what stands for it. */
const char *trace_slices_name(const struct trace_slices *s, const struct trace_slice *slice);

/* What was told of the task of an execution, or NULL; the texts that follow it. */
const struct chip_task *trace_slices_task(const struct trace_slices *s,
                                          const struct trace_slice *slice);

/*
 * The exporters, a file each, by the ending of the path that asks for one. The first is for all
 * other paths. They write the whole document; errors are the stream's.
 */
#define TRACE_EXPORTER_MAP(X) X(perfetto, ".json")

typedef void (*trace_exporter_fn)(const struct trace_slices *slices, FILE *out);

#define TRACE_EXPORTER(name, ending) void trace_write_##name(const struct trace_slices *, FILE *);
TRACE_EXPORTER_MAP(TRACE_EXPORTER)
#undef TRACE_EXPORTER

#endif
