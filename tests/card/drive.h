/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler program without a host, a vendor and a card: its one function is called with boards
 * and messages in memory, as the backend sends them. Two programs use it, with ports of their own:
 *
 *     at_once.c    cores that answer at once: how many instructions a task takes, what else it does
 *     caches.c    caches that are not coherent: what is not flushed, fetched or kept apart is noticed
 */
#ifndef PTO_DRIVE_H
#define PTO_DRIVE_H

#include "cann/device/message.h"
#include "pto/pto.h"
#include "port/trace.h"
#include "wire/kernel.h"

#ifndef DRIVE_CLUSTERS
#define DRIVE_CLUSTERS 2
#endif
#ifndef DRIVE_HEAP /* size of the memory for intermediate tensors; each built graph has as much */
#define DRIVE_HEAP (1 << 18)
#endif

enum { DRIVE_RECORDS = 256, DRIVE_EDGES = 64, DRIVE_SCOPES = 32, DRIVE_MARKS = 256 };
enum { DRIVE_TOLD = 1 << 15, DRIVE_DUMPED = 1 << 15 };
enum { DRIVE_CORES = 3 * DRIVE_CLUSTERS, DRIVE_TENSORS = 8 };

/* Memory of the card, at the same address for all programs, aligned to pages. */
struct drive_memory {
    struct board board;
    _Alignas(4096) char message[(MESSAGE_BYTES + 4095) / 4096 * 4096];
    _Alignas(4096) struct board_range range[1];
    struct {
        _Alignas(4096) struct board_record head;
        struct trace_record record[DRIVE_RECORDS];
        struct board_edge edge[DRIVE_EDGES];
        struct chip_scope scope[DRIVE_SCOPES];
        struct dump_mark mark[DRIVE_MARKS];
        char recorded[DRIVE_TOLD];
        char dumped[DRIVE_DUMPED];
    } recorded;
    _Alignas(4096) int32_t tensor[DRIVE_TENSORS][1024];
    _Alignas(4096) char load[1 << 17]; /* a callable, to be loaded */
    /* addresses of the regions through which the host exchanges messages with a run */
    _Alignas(4096) char talk[8192];
    _Alignas(4096) char kept[DRIVE_HEAP]; /* a graph */
    _Alignas(4096) char heap[DRIVE_HEAP];
    _Alignas(4096) char engine[]; /* the rest */
};

/* Registers and arguments that the cores of a run get. */
static inline struct board_launch *drive_launch(struct drive_memory *memory)
{
    return (struct board_launch *)(void *)(memory->message + MESSAGE_LAUNCH);
}

uint32_t pto_scheduler(void *args); /* the program */

/* Functions for the host's side. They access `memory` as the host does, by copies. */
struct drive {
    struct drive_memory *at;     /* the addresses on the card */
    struct drive_memory *memory; /* the same memory, as the host has it */
    uint64_t engine_bytes;
    uint32_t sequence;
    uint64_t code;
    uint64_t runs;             /* so far */
    enum chip_purpose purpose; /* of the next one */
    uint64_t graph;            /* that it launches */
    /* copy of the graph that is written to the card before each launch; NULL: the card keeps it */
    char *sent;
    uint64_t sent_bytes;
    uint32_t *last_task; /* in it: the end of the list of its tasks */
    bool is_recorded;
    bool has_guards;
    int expected; /* a status that a request may be refused with; 0: none */
    /* Launches the scheduler and, for a run, the cores. */
    void (*launch)(struct board_call *call, bool is_run);
};

/* Sets register addresses of cores, by number; 0: none. Ends the process on a failure. */
void drive_open(struct drive *d, const uint64_t window[BOARD_WINDOWS], uint32_t bell_offset,
                uint32_t cond_offset);
void drive_close(struct drive *d);
/* Loads a file with orchestrations, and kernels by func_id. */
void drive_load(struct drive *d, const char *path, const char *entry, const pto_kernel_fn *kernels,
                const uint32_t *core_types, uint32_t kernel_count);
void drive_unload(struct drive *d);
/* Keeps the graph that was built last, until it is dropped. */
void drive_keep(struct drive *d);
void drive_drop(struct drive *d);
/* From here on the host sends this graph before each launch. */
void drive_send(struct drive *d);
/*
 * Runs an orchestration. All tensors are int32, and tensor[i] is argument i with this many
 * elements. Returns the status.
 */
const struct run_ended *drive_run(struct drive *d, uint32_t tensor_count, uint32_t elements,
                                  const uint64_t *scalar, uint32_t scalar_count);

_Noreturn void drive_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
