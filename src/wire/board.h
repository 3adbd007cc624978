/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board: memory of a real chip through which the host, the scheduler on the control processor
 * and the executors on the cores communicate. This project defines its layout; cann/vendor.h has
 * the layouts that the vendor defines.
 *
 *     host       --- struct board_call, as arguments of a launch -->  scheduler
 *     host       <-- struct board_answer, read when the launch has ended --
 *     host       --- struct board_requests: cancellation, during a run -->
 *     host       <-- struct board_live: progress, during a run --
 *     scheduler  <-- struct board_hello: a core has started ---  core
 *     scheduler  --- struct board_job, then the doorbell ------->  core
 *
 * A cache line has a single writer, because a core's cache is not coherent with others and writes
 * whole lines back. The first line of a job changes its writer: the core may write it between the
 * doorbell and the core's answer, otherwise the scheduler. Valid C and C++.
 */
#ifndef PTO_BOARD_H
#define PTO_BOARD_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BOARD_MAGIC = 0x70746f42,
    BOARD_VERSION = 8,
    BOARD_LINE = 64,
    BOARD_CORES = 108,   /* number of cores of the largest generation */
    BOARD_WINDOWS = 128, /* range of the hardware numbers of cores, which have gaps */
    /* number of structs whose sizes host and scheduler compare at BOARD_OPEN */
    BOARD_SIZES = 7,
    BOARD_TEXT = 256, /* bytes of the text in a struct board_answer */
    /* number of runs that can be in flight; their run numbers are consecutive */
    BOARD_RUNS = 2,
    BOARD_BLOCK_DIES = 2,      /* number of dies, each of which numbers its register windows */
    BOARD_NUMBER_MASK = 0xfff, /* bits of a core's hardware number in a struct board_hello */
    BOARD_TAG_SHIFT = 16
};

/* Values of a doorbell register that are not job numbers, as in the vendor's own programs. */
#define BOARD_BELL_EXIT 0x7ffffff0u
#define BOARD_BELL_OPEN 0x7ffffffdu /* the scheduler is running and has no job yet */
#define BOARD_JOB_MAX 0x3fffff00u   /* the highest job number; jobs are numbered from 1 */

/*
 * A core answers with the number of its job, plus BOARD_COND_FIN when the job is over, plus
 * BOARD_COND_MORE if the kernel has registered conditions or failed to. Without BOARD_COND_MORE the
 * scheduler does not look for conditions.
 */
#define BOARD_COND_FIN 0x80000000u
#define BOARD_COND_MORE 0x40000000u
#define BOARD_COND_IDLE 0x7fffffffu
#define BOARD_COND_EXIT 0x7ffffffeu

enum board_op {
    /* message: struct board_open; value of the answer: address of the scheduler's state */
    BOARD_OPEN,
    /* message: struct board_load, names, objects; value of the answer: handle of the loaded code */
    BOARD_LOAD,
    BOARD_UNLOAD, /* value: handle of the loaded code */
    /* message: struct run_message, tensors, scalars; the scheduler replaces it by a run_ended */
    BOARD_RUN,
    /*
     * value: address of memory of the requested size, to which the scheduler moves the graph built
     * last
     */
    BOARD_KEEP,
    BOARD_DROP, /* value: handle of a graph whose memory the host reuses from now on */
    BOARD_CLOSE,
    BOARD_MEET, /* value: tag of a launch in which cores only start and end, without a job */
    BOARD_OPS
};

/*
 * Arguments of a launch of the scheduler. They are copied, so the scheduler cannot answer in them.
 */
struct board_call {
    uint64_t board;
    uint32_t magic;
    uint32_t version;
    uint32_t op;       /* enum board_op */
    uint32_t sequence; /* number of the call, which the scheduler's answer repeats */
    uint64_t value;
    uint64_t message;
    uint64_t message_bytes;
};

struct board_answer {
    uint32_t magic;
    uint32_t sequence;
    int32_t status; /* enum pto_status */
    uint32_t pad;
    /*
     * Depends on the operation. After a run that built a graph to be kept, the bytes that the graph
     * needs.
     */
    uint64_t value;
    uint64_t bytes; /* number of bytes that the scheduler has written to the message of the call */
    char text[BOARD_TEXT];
    uint8_t rest[BOARD_LINE - 32];
};

/* Heartbeat and progress, which the scheduler writes while it runs. */
struct board_live {
    uint64_t beats;    /* a counter that changes as long as the scheduler is alive */
    uint64_t progress; /* number of starts and returns of kernels so far */
    uint64_t pad[6];
};

/* What the host requests of the runs in flight; the host writes it. */
struct board_requests {
    /* Run numbers that the host has cancelled: number N is stored at index N % BOARD_RUNS. */
    uint64_t cancelled[BOARD_RUNS];
    uint64_t pad[6];
};

/*
 * Argument of a launch of the cores. The host passes its address to the scheduler in the message of
 * the run.
 */
struct board_launch {
    uint64_t board;
    uint64_t tag; /* tag of the launch, unique and below 2^32 */
    /*
     * Address of memory in which cores signal each other; 0: unknown, or not needed by the
     * generation.
     */
    uint64_t sync;
    /*
     * always 0; the compiler of the core's program must not know that (core_anchor has the reason)
     */
    uint64_t anchor;
    uint64_t pad[4];
};

/*
 * A core writes this once in a launch, as one word, so that it is complete or absent: the core's
 * hardware number, which selects its register window, and above it the tag of the launch.
 */
struct board_hello {
    /*
     * tag and hardware number; if the tag is that of another launch, the core has not started yet
     */
    uint64_t there;
    uint64_t pad[7];
};

#define BOARD_HELLO(tag, number) ((tag) << BOARD_TAG_SHIFT | ((number)&BOARD_NUMBER_MASK))

/*
 * A kernel call for one core. Before a doorbell the scheduler writes the first line and the used
 * part of the argument vector.
 */
struct board_job {
    uint64_t function;
    /* conditions that the kernel has registered; the scheduler sets it to 0 before the doorbell */
    uint32_t condition_count;
    /* error of registering a condition; the scheduler sets it to 0 before the doorbell */
    int32_t condition_error;
    uint64_t local[6]; /* a struct pto_local_context */
    int64_t args[50];  /* the argument vector of the kernel */
    /* a struct pto_global_context; never changes, like the last entries of `args` */
    uint64_t global[3];
    uint64_t pad[3];
};

/*
 * What the scheduler saw when cores did not start, end or answer; only the scheduler writes it.
 * `cond` has the cores' condition registers; 0 for a core whose register it could not read, because
 * the core has not reported its window.
 */
struct board_seen {
    uint32_t count; /* number of entries in `cond`; 0: nothing went wrong */
    uint32_t tag;   /* tag of the launch of the cores */
    uint32_t pad[14];
    uint32_t cond[(BOARD_CORES + 15) / 16 * 16];
};

/*
 * A range of memory that tasks may name, an allocation of the host. Ranges are sorted by address.
 */
struct board_range {
    uint64_t begin;
    uint64_t end;
};

/*
 * Addresses of the cores' registers, as data, so that the device programs are the same for all
 * generations.
 */
struct board_windows {
    /* indexed by the hardware number of a core; 0: there is no such core */
    uint64_t base[BOARD_WINDOWS];
    uint32_t bell_offset;
    uint32_t cond_offset;
    uint32_t fast_offset; /* offset of the register; 0: the generation has no such register */
    uint32_t fast_open;
    uint32_t fast_close;
    uint32_t pad[11];
};

struct board {
    uint32_t magic;
    uint32_t version;
    uint32_t blocks; /* number of clusters in use; cluster i has AIC i and the AIVs 2i and 2i + 1 */
    uint32_t pad;
    /* address of the scheduler's state, written by the scheduler at BOARD_OPEN */
    uint64_t scheduler;
    uint64_t pad_line[5];
    struct board_windows windows;
    struct board_answer answer;
    struct board_live live;
    struct board_requests requests;
    struct board_hello hello[BOARD_CORES]; /* one for each core: AICs first, then AIVs */
    struct board_job job[BOARD_CORES];
    struct board_seen seen;
};

struct board_open {
    uint32_t size[BOARD_SIZES];
    uint32_t clusters;
    /* memory limit in bytes, for intermediate tensors and the engine, as the user set it */
    uint64_t memory_max;
    uint64_t engine; /* address of device memory for tasks and edges */
    uint64_t engine_bytes;
    uint64_t heap; /* address of device memory for intermediate tensors */
    uint64_t heap_bytes;
};

/*
 * A kernel of struct board_load. Its code is already on the device. The object of an orchestration
 * that runs on the device follows the kernels in the message.
 */
struct board_kernel {
    uint64_t function; /* address of the kernel's code on the device; 0: no kernel has this id */
    uint32_t core_type;
    /* index of the kernel's first declared argument, from 1; 0: it declares none */
    uint32_t declared;
};

struct board_load {
    uint64_t object_bytes;
    uint32_t kernel_count;
    uint32_t
        /* bytes of the entry's name, with its zero, padded to 8; the names follow the kernels */
        entry_bytes;
    uint32_t name_bytes;
    /* number of words between kernels and names, as kernels declare them; even */
    uint32_t declared_count;
};

/*
 * The parameters of BOARD_RUN. In the message, struct board_range entries follow the tensors and
 * scalars.
 */
struct board_run {
    uint64_t range_count;
    uint64_t ranges;       /* address of an array of struct board_range */
    uint64_t left_ns;      /* ns until the run's deadline; UINT64_MAX: none */
    uint64_t message_room; /* size of the message's buffer, in which the scheduler answers */
    uint64_t record;       /* address of a struct board_record; 0: nothing is recorded */
    uint64_t record_max;   /* capacity in records, a power of two */
    uint64_t edge_max;
    uint64_t scope_max;
    uint64_t mark_max;       /* number of tasks whose arguments may be dumped */
    uint64_t task_bytes_max; /* capacity in bytes, for the records of tasks and their arguments */
    uint64_t dump_max;       /* capacity in bytes, for the dumped contents of tensors */
    uint64_t graph_bytes;    /* size of a graph that the host wrote since the last run; 0: none */
    uint64_t tag;            /* tag of the launch that started the run's cores */
};

/* Header of a run's records (struct message_record), which follow it in memory. */
struct board_record {
    uint64_t count; /* number of records of the run, including those that were overwritten */
    uint64_t edge_count;
    uint64_t edges_lost; /* number of edges that were not recorded for lack of room */
    uint64_t begin_cycles;
    uint64_t end_cycles;
    uint64_t scope_count;
    uint64_t scopes_lost;
    uint64_t task_bytes;
    uint64_t task_records_lost;
    uint64_t dumped_bytes;
    uint64_t dumped_lost;
    uint64_t pad[5];
};

/* An edge between two tasks, which are given by their submit indices. */
struct board_edge {
    uint32_t before;
    uint32_t after;
};

static_assert(sizeof(struct board_answer) % BOARD_LINE == 0, "whole lines");
static_assert(sizeof(struct board_live) == BOARD_LINE, "one line");
static_assert(sizeof(struct board_requests) == BOARD_LINE, "one line");
static_assert(sizeof(struct board_launch) == BOARD_LINE, "one line");
static_assert(sizeof(struct board_hello) == BOARD_LINE, "one line");
static_assert(offsetof(struct board_job, args) == BOARD_LINE,
              "a job takes one cache line, besides its argument vector");
static_assert(sizeof(struct board_job) % BOARD_LINE == 0, "whole lines");
static_assert(sizeof(struct board_seen) % BOARD_LINE == 0, "whole lines");
static_assert(sizeof(struct board_record) == 2 * BOARD_LINE, "whole lines");
static_assert(sizeof(struct board_windows) % BOARD_LINE == 0, "whole lines");
static_assert(offsetof(struct board, answer) % BOARD_LINE == 0, "whole lines");
static_assert(offsetof(struct board, hello) % BOARD_LINE == 0, "whole lines");

#endif
