/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board: the part of a real chip's memory over which the host, the scheduler on the
 * control processor and the executors on the cores talk. Nothing of it is a vendor's: what
 * the vendor fixes is in cann/vendor.h.
 *
 *     host       --- struct board_call, as arguments of a launch -->  scheduler
 *     host       <-- struct board_answer, read when the launch has ended; of a run, in its message --
 *     host       --- struct board_wish: cancellation, beside a run -->
 *     host       <-- struct board_live: progress, beside a run --
 *     scheduler  <-- struct board_hello: a core is there --------  core
 *     scheduler  --- struct board_job, then the doorbell ------->  core
 *
 * Who writes a line writes all of it: each has lines of its own, since a core's cache is not
 * coherent with anybody's and writes whole lines back. The first line of a job changes hands: it is
 * the core's from the doorbell to the answer. Valid C and C++.
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
    BOARD_CORES = 108,    /* of the largest generation */
    BOARD_WINDOWS = 128,  /* numbers that cores have by nature, with gaps */
    BOARD_SIZES = 7,      /* of what travels, compared at the first call */
    BOARD_TEXT = 256,     /* of an answer */
    BOARD_RUNS = 2,       /* that can be in flight; numbers of such runs follow each other */
    BOARD_BLOCK_DIES = 2, /* unused bits of a core's number are masked with */
    BOARD_NUMBER_MASK = 0xfff,
    BOARD_TAG_SHIFT = 16
};

/* Values of a doorbell that are no job: as the vendor's own programs have them. */
#define BOARD_BELL_EXIT 0x7ffffff0u
#define BOARD_BELL_OPEN 0x7ffffffdu /* the scheduler is there, and has no job yet */
#define BOARD_JOB_MAX 0x3fffff00u   /* numbers of jobs, from 1 on */

/*
 * What a core answers: the number of the job, and this when it is over; the second bit if its
 * kernel has registered conditions, or failed at it: else nobody looks for them.
 */
#define BOARD_COND_FIN 0x80000000u
#define BOARD_COND_MORE 0x40000000u
#define BOARD_COND_IDLE 0x7fffffffu
#define BOARD_COND_EXIT 0x7ffffffeu

enum board_op {
    BOARD_OPEN,   /* message: struct board_open; answer: value: the scheduler's own */
    BOARD_LOAD,   /* message: struct board_load, names, objects; answer: value: code */
    BOARD_UNLOAD, /* value: code */
    BOARD_RUN,    /* message: struct run_message, tensors, scalars; the message becomes run_ended */
    BOARD_KEEP, /* value: memory for the graph that was built last, as much as its run asked for */
    BOARD_DROP, /* value: a graph, whose memory is somebody else's from now on */
    BOARD_CLOSE,
    BOARD_MEET, /* value: tag of a launch of the cores, which come and go without a job */
    BOARD_OPS
};

/* Arguments of a launch. They are copied: nothing is written back. */
struct board_call {
    uint64_t board;
    uint32_t magic;
    uint32_t version;
    uint32_t op;       /* enum board_op */
    uint32_t sequence; /* of the answer */
    uint64_t value;
    uint64_t message;
    uint64_t message_bytes;
};

struct board_answer {
    uint32_t magic;
    uint32_t sequence;
    int32_t status; /* enum pto_status */
    uint32_t pad;
    uint64_t value; /* of a run that built a graph to be kept: the bytes that it needs */
    uint64_t bytes; /* of the message, as it was left */
    char text[BOARD_TEXT];
    uint8_t rest[BOARD_LINE - 32];
};

/* Written by the scheduler while it runs. */
struct board_live {
    uint64_t beats;    /* changes as long as it is alive */
    uint64_t progress; /* kernels that started or returned */
    uint64_t pad[6];
};

/* Written by the host. */
struct board_wish {
    uint64_t cancelled[BOARD_RUNS]; /* number of a run, by what is left of it when divided */
    uint64_t pad[6];
};

/* What a launch of the cores gets, by its address: in the message of its run. */
struct board_launch {
    uint64_t board;
    uint64_t tag;    /* of this launch alone; below 2^32 */
    uint64_t sync;   /* where cores signal each other; 0: unknown, or the generation needs none */
    uint64_t anchor; /* 0, which the compiler of the cores cannot know: core_anchor */
    uint64_t pad[4];
};

/*
 * Written by a core, once a launch: one word, which is there as a whole or not at all. Its number by
 * nature, which says which register window is its own, and above that the tag of the launch.
 */
struct board_hello {
    uint64_t there; /* BOARD_HELLO; that of another launch: it has not come yet */
    uint64_t pad[7];
};

#define BOARD_HELLO(tag, number) ((tag) << BOARD_TAG_SHIFT | ((number)&BOARD_NUMBER_MASK))

/* Written by the scheduler before a doorbell: its first line, and of the vector what is used. */
struct board_job {
    uint64_t function;
    uint32_t condition_count; /* 0 at the doorbell; written by the kernel */
    int32_t condition_error;  /* the same */
    uint64_t local[6];        /* struct pto_local_context */
    int64_t args[50];         /* the vector */
    uint64_t global[3]; /* struct pto_global_context; as the end of the vector, never changed */
    uint64_t pad[3];
};

/*
 * What the scheduler saw when cores did not come, go or answer; written by it alone. A condition
 * register that it could not read, because the core has not said which window is its own, is 0.
 */
struct board_seen {
    uint32_t count; /* of cores; 0: nothing went wrong */
    uint32_t tag;   /* of the launch */
    uint32_t pad[14];
    uint32_t cond[(BOARD_CORES + 15) / 16 * 16];
};

/* Memory that tasks may name, in order: what the host has allocated. */
struct board_range {
    uint64_t begin;
    uint64_t end;
};

/* Register windows, by generation: data, so that the programs are the same for all. */
struct board_windows {
    uint64_t base[BOARD_WINDOWS]; /* by a core's number; 0: there is no such core */
    uint32_t bell_offset;
    uint32_t cond_offset;
    uint32_t fast_offset; /* 0: there is none */
    uint32_t fast_open;
    uint32_t fast_close;
    uint32_t pad[11];
};

struct board {
    uint32_t magic;
    uint32_t version;
    uint32_t blocks; /* clusters that are used: AIC i and AIV 2i, 2i + 1 are cluster i */
    uint32_t pad;
    uint64_t scheduler; /* its own; written by it at BOARD_OPEN */
    uint64_t pad_line[5];
    struct board_windows windows;
    struct board_answer answer;
    struct board_live live;
    struct board_wish wish;
    struct board_hello hello[BOARD_CORES]; /* AICs, then AIVs */
    struct board_job job[BOARD_CORES];
    struct board_seen seen;
};

struct board_open {
    uint32_t size[BOARD_SIZES];
    uint32_t clusters;
    uint64_t memory_max; /* for intermediate tensors and the engine, as the user has it */
    uint64_t engine;     /* device memory for the engine */
    uint64_t engine_bytes;
    uint64_t heap; /* the same for intermediate tensors */
    uint64_t heap_bytes;
};

/* Kernels lie on the device already; the orchestration's object, if it runs there, follows them. */
struct board_kernel {
    uint64_t function; /* 0: there is none with this number */
    uint64_t core_type;
};

struct board_load {
    uint64_t object_bytes;
    uint32_t kernel_count;
    uint32_t
        entry_bytes; /* names, with their ends, padded to 8; in this order behind the kernels */
    uint32_t name_bytes;
    uint32_t pad;
};

/* Behind the tensors and scalars of a BOARD_RUN: ranges of memory. */
struct board_run {
    uint64_t range_count;
    uint64_t ranges;       /* address of struct board_range[] */
    uint64_t left_ns;      /* until the run's deadline; UINT64_MAX: none */
    uint64_t message_room; /* of the buffer, for the answer */
    uint64_t record;       /* address of a struct board_record; 0: nothing is recorded */
    uint64_t record_max;   /* of records, a power of two */
    uint64_t edge_max;
    uint64_t scope_max;
    uint64_t mark_max; /* tasks whose arguments may be dumped */
    uint64_t told_max; /* bytes that tasks and their arguments are told in */
    uint64_t dump_max; /* bytes of dumps */
    uint64_t
        graph_bytes; /* of a graph that the host has written since it ran last; 0: it has not */
    uint64_t tag;    /* of the launch of its cores */
};

/* What was recorded of a run. What is behind it: struct message_record. */
struct board_record {
    uint64_t count; /* of records, also those that gave way to later ones */
    uint64_t edge_count;
    uint64_t edges_lost; /* for lack of room */
    uint64_t begin_cycles;
    uint64_t end_cycles;
    uint64_t scope_count;
    uint64_t scopes_lost;
    uint64_t told_bytes;
    uint64_t told_lost;
    uint64_t dumped_bytes;
    uint64_t dumped_lost;
    uint64_t pad[5];
};

/* By the submission indices of its tasks. */
struct board_edge {
    uint32_t before;
    uint32_t after;
};

static_assert(sizeof(struct board_answer) % BOARD_LINE == 0, "lines of its own");
static_assert(sizeof(struct board_live) == BOARD_LINE, "a line of its own");
static_assert(sizeof(struct board_wish) == BOARD_LINE, "a line of its own");
static_assert(sizeof(struct board_launch) == BOARD_LINE, "a line of its own");
static_assert(sizeof(struct board_hello) == BOARD_LINE, "a line of its own");
static_assert(offsetof(struct board_job, args) == BOARD_LINE, "one line without the vector");
static_assert(sizeof(struct board_job) % BOARD_LINE == 0, "lines of its own");
static_assert(sizeof(struct board_seen) % BOARD_LINE == 0, "lines of its own");
static_assert(sizeof(struct board_record) == 2 * BOARD_LINE, "lines of its own");
static_assert(sizeof(struct board_windows) % BOARD_LINE == 0, "lines of its own");
static_assert(offsetof(struct board, answer) % BOARD_LINE == 0, "lines of its own");
static_assert(offsetof(struct board, hello) % BOARD_LINE == 0, "lines of its own");

#endif
