/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a worker shares with its children, apart from tensors: the start of the memory that
 * all of them have mapped at the same address.
 *
 * Ordering
 *   R43 drop_domain (child_domain.c) -> A43 tree_cards_has_left   a child has left a domain's memory
 *   R44 mirror_ask (tree_mirror.c) -> A44 child_region_serve   a request, and the data to copy to the card
 *   R45 child_region_serve -> A45 mirror_is_free (tree_mirror.c)   the copied data, and the answer
 */
#ifndef PTO_TREE_WIRE_H
#define PTO_TREE_WIRE_H

#include <limits.h>

#include "chip/chip.h"
#include "pto/run.h"
#include "pto/worker.h"
#include "link/hello.h"
#include "link/line.h"
#include "link/shared_clock.h"

enum {
    TREE_CHILDREN_MAX = 64,
    TREE_SYMBOL = 128, /* bytes of a function's name, with its final zero */
    TREE_NAME = 64,    /* bytes of a callable's name */
    TREE_PLATFORM = 32,
    TREE_TEXT = 512, /* bytes of an error's text */
    TREE_CALLABLES = 1024,
    /*
     * number of the built-in copy task, which every child has. Its tensors: destination, source;
     * its scalar: enum copy_ends.
     */
    TREE_COPY = TREE_CALLABLES,
    /* most nested workers on a path from the root down; a process holds a life pipe for each */
    TREE_NESTED_MAX = 16,
};

/* name of the shared memory's file, as /proc/PID/fd shows it */
#define TREE_MEMORY_NAME "pto-worker"
#define TREE_MAGIC 0x3133656572746f70ull

/*
 * Description of a nested worker, passed to its process. All workers nested in it, at any depth,
 * are described by further structs at the start of its part of the memory; its process copies them
 * before it uses that memory. The descriptions of the workers nested in one worker are adjacent,
 * starting at its `first`.
 */
struct wire_nested {
    uint64_t addr; /* address of the nested worker's part of the shared memory */
    uint64_t bytes;
    uint32_t depth; /* number of workers above the nested worker; 1: its parent is the root */
    uint32_t nested_count;
    uint32_t first;
    uint32_t below_count; /* number of descriptions at the start of the nested worker's memory */
    /*
     * number of the nested worker in timelines; TREE_TRACE_NESTED defines which process numbers it
     * means
     */
    uint32_t trace;
    /* first of the numbers that workers nested in this one have in timelines */
    uint32_t trace_below;
    uint64_t deadline_ns; /* time by which the nested worker has to be ready */
    uint64_t task_timeout_ns;
    uint64_t run_timeout_ns;
    uint64_t control_timeout_ns;
    uint32_t chip_count;
    uint32_t sub_count;
    uint32_t clusters;
    uint32_t chip_workers;
    uint32_t deps;
    bool has_guards;
    bool has_nan_check;
    bool has_program; /* the nested worker's children run the same program as its own process */
    /* the nested worker's SUB workers run the same program as its own process */
    bool has_sub_program;
    char platform[TREE_PLATFORM];
    uint32_t device[TREE_CHILDREN_MAX]; /* device number of each chip */
};

/* Parameters of a child, which its process reads first, from a separate file. */
struct tree_hello {
    struct link_hello link;
    uint32_t child;
    uint32_t kind;          /* enum pto_child_kind */
    uint32_t process_count; /* number of processes in the tree, including the worker's */
    uint32_t clusters;      /* number of clusters of a chip, as in struct pto_device_params */
    uint32_t workers;
    uint32_t device;
    uint64_t shared; /* address of the worker's struct tree_shared */
    uint64_t memory_max;
    bool has_guards; /* runs on this chip use guards: has_guards of struct pto_run_options */
    /* runs on this chip look for NaN: has_nan_check of struct pto_run_options */
    bool has_nan_check;
    bool is_virtual; /* the child follows the clock in the worker's struct tree_shared */
    char platform[TREE_PLATFORM];
    struct wire_nested nested; /* the nested worker to open, for PTO_CHILD_WORKER */
};

/* What a child is doing: values of `doing` in struct tree_status. */
enum {
    TREE_STARTING,
    TREE_IDLE,
    TREE_RUNNING /* added to the number of the callable that the child runs */
};

/*
 * State of a child for observers in other processes (tree_show.c). No other code depends on it, so
 * relaxed stores suffice.
 */
struct tree_status {
    /* the fields down to nested_at are written by the worker only */
    alignas(CHANNEL_UNIT) struct a32 pid;
    struct a32 kind;
    struct a32 device; /* device number of a chip */
    struct a32 generation;
    /* for a nested worker: offset of its struct tree_shared in the file of the memory */
    struct a64 nested_at;
    /* the fields down to `tasks` are written by the child only */
    alignas(CHANNEL_UNIT) struct a32 doing;
    struct a64 since_ns; /* time at which the running task began */
    struct a64 tasks;    /* number of tasks that the child has ended */
};

enum mirror_request_kind { MIRROR_OPEN, MIRROR_MOVE, MIRROR_CLOSE };
enum { MIRROR_RANGES = 4 };

/* Bytes of a region, at an offset from its head, and the direction of their copy. */
struct mirror_range {
    uint64_t offset;
    uint64_t bytes;
    /* true: copied from the card to the mirror; false: from the mirror to the card */
    bool is_fetch;
};

/*
 * A request of the worker to a child whose chip is a card. A region is memory of the card, and the
 * worker has a mirror of it (tree_mirror.c); the child copies between them. A thread of the child
 * serves the requests, one at a time, while another one runs tasks.
 */
struct wire_mirror_request {
    /* number of requests made: the worker increments it after it has written the other fields */
    struct a32 asked;
    /* number of requests served: the child increments it after it has written its answer */
    struct a32 done;
    enum mirror_request_kind kind;
    /* number of ranges in `part`, for MIRROR_MOVE; they are copied in this order */
    uint32_t range_count;
    uint64_t mirror; /* address of the mirror */
    uint64_t bytes;  /* bytes of the region */
    struct mirror_range part[MIRROR_RANGES];
    int status; /* status and text are the child's answer */
    char text[TREE_TEXT];
};

struct tree_line {
    struct tree_status status;
    /* descriptor in the worker's process of the file for a chip's timelines; 0: none */
    struct a32 trace_file;
    /*
     * number of complete bytes in the timeline file: written by the child, and by the worker while
     * nothing runs
     */
    struct a64 trace_bytes;
    struct waker waker; /* wakes the child's thread that reads records */
    /* wakes the child's other threads, for requests that cannot wait until a task is over */
    struct waker alarm;
    struct wire_mirror_request mirror_request;
    /*
     * where the child's code ended the child with exit or abort, or where it was when the worker
     * asked; written by the child, and cleared by the worker
     */
    struct a32 has_end; /* set after `end` is complete */
    char end[TREE_TEXT];
    struct stream to_child;
    struct stream to_worker;
};

/* Start of the shared memory. Observers, which may be built from another version, read it. */
struct tree_head {
    uint64_t magic;
    /* sizes of struct tree_shared and struct tree_line, by which observers notice another layout */
    uint32_t shared_bytes;
    uint32_t line_bytes;
    uint32_t child_count;
    uint32_t level;
    int32_t pid; /* id of the worker's process */
    char platform[TREE_PLATFORM];
};

/*
 * Process numbers in timelines. The root's orchestrations have TREE_TRACE_PID, those of the nested
 * worker at place n have n times TREE_TRACE_NESTED; the numbers of a worker's children follow its
 * own. Nested workers that are children of the root have places from 1 on, by index; workers nested
 * in them have places from TREE_TRACE_BELOW on. The tracks of a chip's cores start at
 * TREE_TRACE_CORES.
 */
enum {
    TREE_TRACE_PID = 1,
    TREE_TRACE_NESTED = 100,
    TREE_TRACE_BELOW = TREE_CHILDREN_MAX + 1,
    TREE_TRACE_CORES = 10,
    TREE_TRACE_NAME = 128
};

/*
 * Kinds of chunks that a child appends to its file: each is a struct trace_chunk, then its bytes.
 */
enum trace_chunk_kind {
    TRACE_CHUNK_EVENTS = 1, /* events of the JSON document, each after a comma */
    TRACE_CHUNK_PARTS       /* parts of a recording (pto/recording.h) */
};

struct trace_chunk {
    uint64_t kind; /* enum trace_chunk_kind */
    uint64_t bytes;
};

/*
 * The recording that is active. Only the worker writes this, while nothing runs: the records of
 * later tasks publish it to the children.
 */
struct tree_tracing {
    struct a32 is_on;
    struct a32 chips; /* recording mode of the chips' runs: enum pto_trace */
    struct a32 pid;   /* process number of the worker's orchestrations in the timeline */
    struct a64 base_ns;
    char name[TREE_TRACE_NAME]; /* prefix of a nested worker's process names: "worker 1: " */
};

struct tree_shared {
    struct tree_head head;
    struct tree_tracing tracing;
    /* wakes the threads of the worker that wait for its children */
    struct waker waker;
    /*
     * incremented by chips that wrote to a region; then threads of the worker that wait for the
     * region check it again
     */
    struct a32 calls;
    struct shared_clock clock; /* clock of a worker in virtual time */
    /* names of callables, by number: written by the worker only */
    char name[TREE_CALLABLES + 1][TREE_NAME];
    struct tree_line line[]; /* shared memory of each child, by its index */
};

/*
 * Which tensors of a copy are memory of the chip; the others are memory that all processes share.
 */
enum copy_ends { COPY_TO_CHIP = 1, COPY_FROM_CHIP = 2 };

/* The body of RECORD_DONE for a task that failed. */
struct wire_failure {
    uint32_t count;
    /* where the failure occurred in the levels below the child */
    struct pto_error_place place[PTO_PATH_MAX - 1];
    char text[TREE_TEXT];
};

enum record_kind {
    /*
     * Records from the worker to a child. Each comment lists the fields of the record's head that
     * are used, and the body. The field `key` is the number of the request.
     */
    /* runs a task. key; value: number of the callable; options; body: tensors, scalars */
    RECORD_TASK = RECORD_PAD + 1,
    RECORD_LOAD,   /* loads a callable: key; value: its number; body: struct wire_load */
    RECORD_UNLOAD, /* unloads a callable: key; value: its number */
    /* sets costs: key; value: address of a struct wire_costs, valid until the answer */
    RECORD_COSTS,
    RECORD_REOPEN, /* makes a nested worker start its dead children again: key */
    /* makes the child offer its window: key; value: address of the struct wire_domain */
    RECORD_OFFER,
    /*
     * sent when all members have offered their windows: the child joins them and makes its context.
     * key and value as for RECORD_OFFER
     */
    RECORD_JOIN,
    RECORD_END, /* the child ends when it has handled the records before this one */
    /* Records from a child to the worker. */
    RECORD_READY, /* the child is ready or has failed to open: status; body: text */
    /*
     * a task has ended. key of RECORD_TASK; status; value, begin_ns: the times of its end and
     * begin, if it is recorded or in virtual time; options: not 0 if its virtual time was measured;
     * body, if it failed: struct wire_failure
     */
    RECORD_DONE,
    RECORD_ANSWERED, /* the child answers a request: key of the request; status; body: text */
    /*
     * the child has read or skipped all records in the stream, the last of which the worker had
     * taken back: the stream has room again
     */
    RECORD_PASSED,
    RECORD_KINDS
};

/*
 * Form of the bytes that are loaded. LOAD_OBJECT: a shared object; LOAD_OTHER: a file with a chip's
 * callable, or bytes for the program's hooks.
 */
enum load_form { LOAD_OTHER, LOAD_OBJECT };

/* The body of RECORD_LOAD. */
struct wire_load {
    uint64_t addr; /* address of the bytes in the shared memory, valid until the answer */
    uint64_t bytes;
    uint32_t form; /* enum load_form */
    uint32_t kind; /* enum pto_child_kind */
    /* generation of the callable's number, which changes when the number is used again */
    uint32_t generation;
    /* number of levels below the child at which the code is loaded; 0: in the child itself */
    uint32_t is_below;
    char symbol[TREE_SYMBOL]; /* name of the function; empty: the default name */
    char name[TREE_NAME];
};

/*
 * A domain over cards, in the shared memory. Its members' windows and contexts are memory of the
 * cards; addresses in the worker's memory represent them, and each child replaces these in task
 * arguments by the card's.
 */
struct wire_domain {
    uint64_t magic;
    uint32_t way; /* index of the way of sharing windows that is tried (chip_window_ways) */
    uint32_t count;
    /* way_count and `waits`: written by all children that offer, with equal values. */
    struct a32 way_count;
    struct a32 waits; /* with this way, a child that joins waits until all members have joined */
    uint64_t window_bytes;
    /*
     * is_lost and is_over: written by the worker, which then wakes the alarms of the members'
     * children
     */
    struct a32 is_lost;
    struct a32 is_over; /* no task uses the domain any more: children release their parts */
    struct wire_member {
        uint32_t child;
        /* the child has released its part, and no longer uses this struct */
        struct a32 is_dropped;
        /*
         * address in the worker's memory that stands for the member's struct pto_comm_context,
         * which is on the card
         */
        uint64_t context;
        /* address that stands for the member's window on the card; 0: windows have no bytes */
        uint64_t window;
        /* the child's window, for other members to map: written by the child */
        struct chip_offer offer;
    } member[];
};

#endif
