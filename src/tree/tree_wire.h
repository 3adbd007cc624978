/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker shares with its children, apart from tensors: the memory that all of them
 * have mapped at the same address begins with it.
 *
 * Ordering
 *   R43 drop_domain (child_domain.c) -> A43 tree_cards_has_left   a child has left a domain's memory
 *   R44 mirror_ask (tree_mirror.c) -> A44 child_region_serve   an errand, and what it is to bring
 *   R45 child_region_serve -> A45 mirror_is_free (tree_mirror.c)   what it has brought, and its answer
 */
#ifndef PTO_TREE_WIRE_H
#define PTO_TREE_WIRE_H

#include <limits.h>

#include "chip/chip.h"
#include "pto/run.h"
#include "pto/worker.h"
#include "link/hello.h"
#include "link/line.h"

enum {
    TREE_CHILDREN_MAX = 64,
    TREE_SYMBOL = 128, /* bytes of a function's name, its zero included */
    TREE_NAME = 64,    /* of a callable's */
    TREE_PLATFORM = 32,
    TREE_TEXT = 512, /* of a sentence */
    TREE_CALLABLES = 1024,
    TREE_COPY =
        TREE_CALLABLES,   /* of a task: every child has it; tensors: to, from; scalar: bits below */
    TREE_NESTED_MAX = 16, /* nested workers above a child, and itself: each has a life pipe */
};

#define TREE_MEMORY_NAME "pto-worker" /* of the file, for people who list descriptors */
#define TREE_MAGIC 0x3133656572746f70ull

/*
 * What a nested worker is, for its process. Those that are nested in it, at any depth, are described by
 * as many of these at the beginning of its memory, which it copies before it uses that memory:
 * those that belong to one worker lie together, from `first` on.
 */
struct wire_nested {
    uint64_t addr; /* of its part of the memory */
    uint64_t bytes;
    uint32_t depth; /* 1: the root is its parent */
    uint32_t nested_count;
    uint32_t first;
    uint32_t below_count; /* of all that are described there */
    uint32_t trace;       /* its place in timelines: TREE_TRACE_NESTED */
    uint32_t trace_below; /* the first place for those that are nested in it */
    uint64_t deadline_ns; /* for its start-up */
    uint64_t task_timeout_ns;
    uint64_t run_timeout_ns;
    uint64_t control_timeout_ns;
    uint32_t chip_count;
    uint32_t sub_count;
    uint32_t clusters;
    uint32_t chip_workers;
    uint32_t deps;
    bool has_guards;
    bool has_program;     /* its children are the program that it is itself */
    bool has_sub_program; /* its SUB workers are */
    char platform[TREE_PLATFORM];
    uint32_t device[TREE_CHILDREN_MAX]; /* of each chip */
};

/* What a child is told first, in a file of its own. */
struct tree_hello {
    struct link_hello link;
    uint32_t child;
    uint32_t kind;          /* enum pto_child_kind */
    uint32_t process_count; /* of the tree, the parent's included */
    uint32_t clusters;      /* of a chip, as pto_device_params has them */
    uint32_t workers;
    uint32_t device;
    uint64_t shared; /* address of the struct tree_shared */
    uint64_t memory_max;
    bool has_guards; /* runs on a chip */
    char platform[TREE_PLATFORM];
    struct wire_nested nested; /* PTO_CHILD_WORKER */
};

/* What a child does, of struct tree_status. */
enum { TREE_STARTING, TREE_IDLE, TREE_RUNNING /* and the number of the callable */ };

/*
 * For whoever looks from outside (tree_show.c). Nothing else depends on it: relaxed stores
 * are enough.
 */
struct tree_status {
    alignas(CHANNEL_UNIT) struct a32 pid; /* this and the next: written by the worker only */
    struct a32 kind;
    struct a32 device; /* that a chip is */
    struct a32 generation;
    struct a64 nested_at; /* of a nested worker: where its struct tree_shared is in the file */
    alignas(CHANNEL_UNIT) struct a32 doing; /* this and the next: by the child only */
    struct a64 since_ns;                    /* of a task that runs */
    struct a64 tasks;                       /* that it has ended */
};

enum errand_kind { ERRAND_OPEN, ERRAND_MOVE, ERRAND_CLOSE };
enum { ERRAND_PARTS = 4 };

/* Bytes of a region, by where they begin behind its head. */
struct errand_part {
    uint64_t offset;
    uint64_t bytes;
    bool is_fetch; /* from the card */
};

/*
 * What a child whose chip is a card does beside its tasks, one at a time: a region is memory of the card,
 * and what lies in the worker's memory is its mirror (tree_mirror.c).
 */
struct wire_errand {
    struct a32 asked; /* counts them: written by the worker, when the rest is there */
    struct a32 done;  /* how many are done: by the child */
    enum errand_kind kind;
    uint32_t part_count; /* of ERRAND_MOVE; in this order */
    uint64_t mirror;     /* address */
    uint64_t bytes;      /* all of it */
    struct errand_part part[ERRAND_PARTS];
    int status; /* this and the next: the child's answer */
    char text[TREE_TEXT];
};

struct tree_line {
    struct tree_status status;
    struct a32 trace_file;  /* descriptor of the worker, for timelines of a chip; 0: none */
    struct a64 trace_bytes; /* whole ones there: written by the child, and while nothing runs */
    struct waker waker;     /* the child's */
    struct waker alarm;     /* the same, for what does not wait until a task is over */
    struct wire_errand errand;
    struct stream to_child;
    struct stream to_worker;
};

/* Also for whoever looks from outside, which may be of another build. */
struct tree_head {
    uint64_t magic;
    uint32_t shared_bytes; /* of struct tree_shared and struct tree_line */
    uint32_t line_bytes;
    uint32_t child_count;
    uint32_t level;
    int32_t pid; /* of the worker */
    char platform[TREE_PLATFORM];
};

/*
 * Processes of timelines: the orchestrations of the root, and of the nested worker at place n at n times
 * TREE_TRACE_NESTED; the children of each follow. Children of the root that are workers have the
 * places from 1 on, by their index, those that are nested in them the places from TREE_TRACE_BELOW
 * on. And the track that a chip's cores follow.
 */
enum {
    TREE_TRACE_PID = 1,
    TREE_TRACE_NESTED = 100,
    TREE_TRACE_BELOW = TREE_CHILDREN_MAX + 1,
    TREE_TRACE_CORES = 10,
    TREE_TRACE_NAME = 128
};

/* Written by the worker only, while nothing runs: tasks that are sent later bring it with them. */
struct tree_tracing {
    struct a32 is_on;
    struct a32 chips; /* enum pto_trace of runs on chips */
    struct a32 pid;   /* of the worker's orchestrations, in the timeline */
    struct a64 base_ns;
    char name
        [TREE_TRACE_NAME]; /* of a nested worker, before the names of its processes: "worker 1: " */
};

struct tree_shared {
    struct tree_head head;
    struct tree_tracing tracing;
    struct waker waker; /* the worker's */
    struct a32 calls;   /* counted up by chips that have told something through a region */
    char name[TREE_CALLABLES + 1][TREE_NAME]; /* of callables: written by the worker only */
    struct tree_line line[];                  /* by child */
};

/* Which ends of a copy are memory of the chip; others are the processes' own. */
enum copy_ends { COPY_TO_CHIP = 1, COPY_FROM_CHIP = 2 };

/* The body of RECORD_DONE if the task failed. */
struct wire_failure {
    uint32_t count;
    struct pto_error_place place[PTO_PATH_MAX - 1]; /* below the child */
    char text[TREE_TEXT];
};

enum record_kind {
    /* To a child. */
    RECORD_TASK = RECORD_PAD + 1, /* key; value: callable; options; body: tensors, scalars */
    RECORD_LOAD,                  /* key; value: callable; body: struct wire_load */
    RECORD_UNLOAD,                /* key; value: callable */
    RECORD_REOPEN,                /* key: a nested worker is to start its dead children */
    RECORD_OFFER, /* key; value: address of a struct wire_domain, in which the child says how others
                      come to its window */
    RECORD_JOIN,  /* the same once all have offered: it makes its context */
    RECORD_END,   /* it is to end when it has done what came before */
    /* To the worker. */
    RECORD_READY,    /* status; body: text */
    RECORD_DONE,     /* key of a task; status; value, begin_ns: when it ended and began; body, if it
                        failed: struct wire_failure */
    RECORD_ANSWERED, /* key of a request; status; body: text */
    RECORD_PASSED,   /* all was read, and what was read last had been taken back: there is room */
    RECORD_KINDS
};

/* What bytes are: OTHER is an artefact or a chip callable, or what the hooks of a program load. */
enum load_form { LOAD_OTHER, LOAD_OBJECT };

/* The body of RECORD_LOAD. */
struct wire_load {
    uint64_t addr; /* of the bytes, in the shared memory, until it is answered */
    uint64_t bytes;
    uint32_t form;            /* enum load_form */
    uint32_t kind;            /* enum pto_child_kind */
    uint32_t generation;      /* of its number */
    uint32_t is_below;        /* levels further down; 0: for the child itself */
    char symbol[TREE_SYMBOL]; /* empty: the default */
    char name[TREE_NAME];
};

/*
 * A domain over cards. Addresses in the worker's memory stand for what lies on the cards: each child
 * puts its own in their place, in arguments of tasks.
 */
struct wire_domain {
    uint64_t magic;
    uint32_t way; /* of chip_window_ways */
    uint32_t count;
    /* This and the next: the same for all members, written by those that offer. */
    struct a32 way_count;
    struct a32 waits; /* whoever joins in this way waits until all do */
    uint64_t window_bytes;
    struct a32
        is_lost; /* this and the next: written by the worker, which then wakes their alarms */
    struct a32 is_over; /* no task uses it any more: children give back what they have of it */
    struct wire_member {
        uint32_t child;
        struct a32 is_dropped;   /* the child has left all of this struct */
        uint64_t context;        /* address of sizeof(struct pto_comm_context) bytes */
        uint64_t window;         /* 0: it has no bytes */
        struct chip_offer offer; /* written by the child */
    } member[];
};

#endif
