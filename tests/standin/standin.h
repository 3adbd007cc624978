/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the vendor's libraries: the same names, strict about the order of calls, with
 * accounts of everything that was given out, and calls that fail on demand. Its rules come from
 * published sources, not from the backend that it tests; docs/internals/onboard.md lists them.
 *
 * The environment, read at the first call:
 *     STANDIN_SOC     name of the chip; Ascend910B3
 *     STANDIN_CARDS   how many; 2
 *     STANDIN_HBM     bytes of each; 1 GiB
 *     STANDIN_DISK    folder that stands for the cards and their disks: processes that have the same
 *                     have the same cards; else a temporary one
 *     STANDIN_FOLDERS where programs of the control processor lie on that disk, if threads are the
 *                     control processors: one (the folder that versions so far have had, which is
 *                     also where the extend library puts the dispatcher), server (the dispatcher has
 *                     another folder), moved (there is no such folder any more; programs lie
 *                     alongside the dispatcher); one
 *     STANDIN_PLAN    calls that fail: NAME@N=CODE, *@N=CODE for the Nth of all, @N..M for all of
 *                     these, separated by ; in place of CODE:
 *                         hang       it returns when the card is forced to start anew
 *                         down       with this call all cards go down
 *                         fall       the same, and this call does not notice
 *                         await      it goes on when a launch on its card has failed
 *                         kill       control processors that are processes are killed; it goes on
 *                         die        this process is killed
 *                         exit       this process ends with code 3
 *                         delay(MS)  it goes on, later
 *                         flip(BYTE) a copy has a wrong bit there
 *                     The name aicpu: the Nth program of the control processor; core: the Nth start
 *                     of a core, which with hang never comes, and has an exception otherwise;
 *                     cond: the Nth write of a condition register, delay or hang
 *     STANDIN_BUSY    so many calls for the register windows find the driver busy; 0
 *     STANDIN_PART    not empty: the card is a part of one (vNPU), whose cores cannot be reached
 *     STANDIN_HEALS   forced resets that a card which has failed needs; 1
 *     STANDIN_GRACE   so many calls find a card that has failed as if nothing were, but for its
 *                     streams and the driver; then it is down. 0: every call finds it at once
 *     STANDIN_OP_MS   time that a launch of cores has, if they do nothing; 0: any
 *     STANDIN_CPU_MS  time that a launch of the control processor has unless it says otherwise; by
 *                     default 28 s on A2 and a5, 60 s on A3
 *     STANDIN_EVENTS  mute: the host's wait for an event of a stream that has failed says nothing of
 *                     that, and is over when its time is
 *     STANDIN_REPORT  file that gets the accounts when the process ends; %p in it is the process
 *     STANDIN_AICPU   command of a process that is the control processor; else a thread is
 *     STANDIN_SHARE   what memory can be exported by: fabric, vmm, none; by default what the chip has
 *     STANDIN_TOPOLOGY   of the communication library: mesh, ring; mesh
 *     STANDIN_LIES    one thing that the communication library says is not so: rank, count, size,
 *                     base (of the last rank's window)
 *     STANDIN_BARRIER_MS   that its barrier waits on a stream; 20000
 *     STANDIN_MESSAGE   reason that messages of failed calls have (aclGetRecentErrMsg, logs)
 * ASCEND_PROCESS_LOG_PATH and ASCEND_GLOBAL_LOG_LEVEL are the vendor's own: standin_messages.c.
 */
#ifndef PTO_STANDIN_H
#define PTO_STANDIN_H

#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/standin/cpu_process.h"
#include "tests/standin/table.h"

#define EXPORT __attribute__((visibility("default")))

/* clang-format off */
enum standin_call {
#define X(library, returns, name, parameters) CALL_##name,
    STANDIN_MAP(X)
#undef X
    STANDIN_CALLS
};

#ifndef STANDIN_CLIENT /* programs that use these functions have their own prototypes */
#define X(library, returns, name, parameters) EXPORT returns name parameters;
STANDIN_MAP(X)
#undef X
#endif
/* clang-format on */

enum { CARDS_MAX = 8, NAME_MAX_BYTES = 64, ENTRY_NAME = 256 };

enum health { WELL, POISONED, DOWN };

struct allocation {
    struct allocation *next;
    char *map;
    size_t map_bytes;
    char *at;
    size_t bytes;
    uint32_t card;
    bool is_module;   /* holds the copy of a program, which the program's owner frees */
    uint64_t written; /* number of the call by which the host last wrote to it */
};

struct context {
    /* list of all contexts that ever existed, so that uses of dead ones are noticed */
    struct context *next;
    uint32_t card;
    bool is_dead;
};

/* An event: how often it was recorded, and which recording its stream has reached. */
struct event {
    struct event *next;
    struct context *context;
    struct stream *stream; /* stream on which it was last recorded; NULL: none */
    uint64_t recorded;
    uint64_t reached;
    int error; /* error of the stream when it reached the event */
};

/* Work of a stream: it calls a function, records an event, or waits for one. */
struct task {
    struct task *next;
    /* function; NULL: the work concerns an event, or belongs to another library */
    struct function *function;
    int (*work)(void *arg);
    void *arg;
    struct event *event;
    uint64_t number; /* number of the recording of the event */
    bool is_waiting; /* waits for the event; else records it */
    uint32_t blocks;
    uint32_t cores_due; /* number of cores that were launched before it */
    uint64_t limit_ms;  /* time limit on the control processor; 0: none */
    size_t bytes;
    _Alignas(16) char args[CPU_ARGS];
};

struct stream {
    struct stream *next; /* of the card */
    struct context *context;
    pthread_t thread;
    struct task *first, **last;
    int error;        /* code with which a task ended; it stays set */
    bool is_reported; /* the error, once */
    bool is_busy;
    bool is_ending;
    bool has_ended;
    bool is_stopping; /* after a failure no work of the stream begins */
    int kind;         /* kind of its functions, which must not be mixed; -1: none yet */
    uint64_t made;    /* time of its creation, as a number of a call */
};

/* KIND_OTHER: a program of users, which a control processor would run and the stand-in does not. */
enum kind { KIND_CORES, KIND_CPU, KIND_EXTEND, KIND_OTHER };

/* A function of a program: an op of a description, or an entry for cores. */
struct entry {
    struct entry *next;
    enum kind kind;
    char name[ENTRY_NAME]; /* name without the suffix of a half */
    uint64_t key;          /* key of an entry for cores */
    bool has_half[2];      /* for cores: it has the half _mix_aic, the half _mix_aiv */
    bool is_mixed;         /* its name ends like that of one of the halves */
    bool is_custom;        /* for an op: userDefined is True */
    bool is_dropped;       /* for an op: a member that must be a string is none */
    char so[CPU_NAME];
    char function[CPU_NAME];
    char library[CPU_NAME];
};

struct binary {
    struct binary *next;
    enum kind kind; /* KIND_CORES or KIND_CPU */
    struct entry *entries;
    void *bytes;
    size_t size;
    bool is_lazy;              /* the first launch makes its copy */
    void *handle;              /* handle of the executor, once it is on the card */
    struct allocation *module; /* its copy on the card */
    uint32_t card;
};

struct function {
    struct function *next;
    struct binary *binary;
    const struct entry *entry;
};

struct card {
    uint32_t references;
    struct context *context;
    struct stream *streams;
    size_t used, peak; /* by this process */
    size_t launched;   /* bytes in use when cores were launched last */
    /* programs that the control processor has loaded, as long as this process lives */
    struct cpu_programs programs;
    /* process of the control processor, if it is a process; 0: not started yet */
    pid_t cpu;
    int cpu_socket;
    pthread_mutex_t cpu_lock; /* held during a request, so that there is one at a time */
    char *sync;               /* memory by which cores signal each other; NULL: not requested yet */
    char *registers;
    size_t register_bytes;
    uint64_t stream_made;   /* `made` of the cores' stream that was launched on last */
    bool is_haunted;        /* a core did not end, so the program that it runs stays loaded */
    uint32_t core_error;    /* failure of the current launch, which ends all its cores; atomic */
    uint64_t core_begin_ms; /* of the launch */
    uint32_t is_aborting;   /* request to cores and streams to end; atomic */
    uint32_t event;         /* incremented when a core answers; atomic */
    uint32_t in_kernels;    /* number of cores that are in a kernel; atomic */
    uint32_t cores_due;     /* number of cores that were launched so far */
    uint32_t cores_come;    /* number of cores that have reached their doorbells; atomic */
    struct event *events;
    /* Runs: launches of cores, and of the program of the control processor that leads them. */
    bool is_running;
    uint64_t runs_launched, runs_ended;
    /* number of runs that were launched before the run before them had ended */
    uint64_t runs_behind;
    uint64_t run_ns;  /* time at which the last run ended */
    uint64_t idle_ns; /* time from the end of a run to the launch of the next */
};

struct standin {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_ready;
    uint32_t card_count;
    size_t hbm;
    bool is_a5;
    char soc[32];
    char disk[256];
    bool is_own_disk;
    char known_folder[272];   /* folder of programs in the versions so far */
    char program_folder[272]; /* folder in which programs are searched */
    char server_folder[272];  /* of the dispatcher */
    pid_t process;            /* process that uses this state */
    uint32_t heals;
    uint32_t grace;
    uint32_t op_ms;
    uint64_t cpu_ms; /* time limit of a launch of the control processor that sets none */
    uint64_t acl_references;
    bool is_over; /* the last reference to ACL was released */
    struct card card[CARDS_MAX];
    struct context *contexts;
    struct allocation *allocations;
    struct binary *binaries;
    struct function *functions;
    uint64_t calls;
    uint64_t moment;     /* like `calls`, but never reset */
    uint64_t epoch;      /* generation of hanging calls: those of an earlier one return */
    uint32_t busy;       /* number of further calls that will find the driver busy */
    bool is_part;        /* of a card */
    uint32_t log_level;  /* log level that was set, plus 1; 0: none was set */
    uint32_t card_level; /* its value when a card was last bound */
    bool is_mute;        /* events do not report failures */
    uint64_t violations;
    uint64_t address; /* address of the next allocation, because none is reused */
    /* command of the control processor's process; NULL: threads are used */
    const char *cpu_command;
    int memory; /* file with the memory of the cards, if processes are used */
};

EXPORT extern struct standin standin;
extern __thread struct context *standin_here;
/*
 * Where a program of the control processor continues when it is ended by force; NULL: the thread
 * runs none.
 */
extern __thread jmp_buf *standin_escape;

/* Time limit of the control processor's launch on this thread; 0: none. */
extern __thread uint64_t standin_cpu_until_ms;
EXPORT uint64_t standin_now_ms(void);
/* Whether the launch has taken too long, so that its program is ended. */
EXPORT bool standin_is_cpu_late(void);
/* Whether the calling thread is a block of a program of the control processor. */
EXPORT bool standin_is_cpu(void);

/* Counts the call. Not 0: the call is planned to fail with this code. */
EXPORT int standin_enter(enum standin_call call);
#define ENTER(name)                                \
    do {                                           \
        int planned_ = standin_enter(CALL_##name); \
        if (planned_ != 0)                         \
            return planned_;                       \
    } while (0)

/* Reports the breach of a rule for which the vendor has no code. */
EXPORT void standin_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
/*
 * For tests in the same process: replaces the plan of the environment; calls are counted from 0
 * again, and hanging calls return. Returns the name of the call that has met the plan; NULL: none.
 */
EXPORT void standin_plan(const char *text);
EXPORT const char *standin_met(void);
/* Returns the name of the Nth call since then, from 1; NULL: there was none. */
EXPORT const char *standin_call(uint64_t number);
/* Called when a core is about to call a kernel. */
EXPORT void standin_check_code(uint64_t addr);
/*
 * For tests in the same process: how often a function was called, or how many objects of a kind
 * exist.
 */
EXPORT uint64_t standin_count(const char *what);

/* Returns the planned effect for the next core that starts. */
enum core_plan { CORE_RUNS, CORE_IS_SILENT, CORE_FAILS };
enum core_plan standin_core_plan(void);
/*
 * Returns by how many milliseconds the next write of a condition register is late; UINT32_MAX: it
 * never happens.
 */
uint32_t standin_cond_delay(void);

/*
 * Maps memory at addresses of cards that were never used. The lock is held, or there is only one
 * thread.
 */
char *standin_map(size_t bytes, int protection);
/*
 * Called at the beginning of nearly every function: checks that the thread is bound to a card, and
 * that the card works. Return codes.
 */
EXPORT int standin_check_bound(void);
EXPORT int standin_check_well(void);
/* Reserves addresses that no other allocation gets; they are not accessible. */
EXPORT char *standin_reserve(size_t bytes);
/*
 * Allocates memory of a card, charged to it, until the card is closed or standin_take_back is
 * called. NULL: no memory is left.
 */
EXPORT void *standin_give(uint32_t card, size_t bytes);
EXPORT void standin_take_back(void *at);
/* Changes the amount of used memory of a card. False: there is not so much free memory. */
EXPORT bool standin_charge(uint32_t card, int64_t bytes);
/* The same for the account of this process only. The lock is held. */
void standin_count_bytes(uint32_t card, int64_t bytes);
/* Appends work to a stream. Returns a code. */
EXPORT int standin_enqueue(void *stream, int (*work)(void *arg), void *arg);
/* Returns the card to which the thread is bound. */
EXPORT struct context *standin_bound(void);
/*
 * Programs for cores, for libruntime: adds one, launches it on all its blocks, removes it. Return
 * codes.
 */
EXPORT int standin_add_executor(const void *data, size_t bytes, bool is_lazy, void **binary);
EXPORT int standin_launch_executor(void *binary, uint64_t key, uint32_t blocks, void *stream,
                                   void *args, size_t bytes, bool is_together);
EXPORT int standin_remove_binary(void *binary);
/* Registers memory of another library for copies, and unregisters it. */
EXPORT void standin_register_window(char *at, size_t bytes);
EXPORT void standin_unregister_window(const char *at);
/* Returns the driver's number of a card: ASCEND_RT_VISIBLE_DEVICES. */
EXPORT uint32_t standin_driver_card(uint32_t card);

/* standin_card.c: state that processes share, by the number that a card has in this process */
void standin_open_cards(void);
EXPORT enum health standin_health(uint32_t card);
/* Whether the card works, or acts as if it did. */
EXPORT bool standin_is_answering(uint32_t card);
void standin_worsen(uint32_t card, enum health health);
/* Called for each call, to count it. */
void standin_age(uint32_t card);
/* Repairs a card by a forced reset. False: further resets are needed. */
bool standin_heal(uint32_t card);
/* Returns how much of its memory all processes use. */
uint64_t standin_used(uint32_t card);
/* Changes the memory that this process uses. False: there is not so much free memory. */
bool standin_take(uint32_t card, int64_t bytes);
/*
 * Memory that other processes may import: it is charged as long as any process holds it. Uses the
 * driver's numbers.
 */
bool standin_lend(uint32_t card, uint32_t key, uint64_t bytes);
void standin_hold(uint32_t driver_card, uint32_t key);
void standin_let_go(uint32_t driver_card, uint32_t key);

/* standin_vmm.c; the lock is held */
bool standin_is_mapped(const void *at, size_t bytes);
/* Reports what was not released of a card. */
uint32_t standin_forget_shared(uint32_t card);
uint64_t standin_count_shared(void);
/*
 * Zeroes whole pages without touching them; the lock is not held. False: the pages are not shared
 * memory.
 */
bool standin_clear_shared(void *at, size_t bytes);

/* standin_programs.c */
/* Reads the ops of a description. False: it is not JSON. */
bool standin_read_description(const char *text, struct entry **ops);
/* Reads the entries of a program for cores. False: there is none, or two entries collide. */
bool standin_read_entries(const void *bytes, size_t size, struct entry **entries);
struct entry *standin_find_entry(struct entry *list, const char *name);
void standin_free_entries(struct entry *list);

/* standin_events.c; the lock is held in all of these */
/*
 * Does the event work that a stream has reached. False: the event for which it waits has not been
 * recorded.
 */
bool standin_do_event(const struct stream *s, const struct task *t);
/* A stream ends, and is not used any more. */
void standin_forget_stream(const struct stream *s);
/* Reports what was not released of a card. */
uint32_t standin_forget_events(struct card *c);
uint64_t standin_count_events(void);
/* A run is launched; called for its cores. */
void standin_note_launch(struct card *c);
/* A stream of the card begins some work, or has completed it. */
void standin_note_begin(struct card *c, const struct task *t);
void standin_note_end(struct card *c, const struct task *t);
/* standin.c: appends work to the stream; the lock is held. */
void standin_push(struct stream *s, struct task *t);
/* Waits until the condition holds, or the time is over; the lock is held. */
bool standin_await(bool (*is_so)(const void *what), const void *what, int32_t ms);

/* standin_cores.c */
/* Makes the register windows, once. */
EXPORT int standin_map_registers(uint32_t card);
char *standin_window(uint32_t card, uint32_t number);
EXPORT uint32_t standin_core_numbers(void);
EXPORT bool standin_has_core(uint32_t index);
/* Runs an entry of the executor on this many clusters, until it ends. */
int standin_run_cores(const struct function *function, uint32_t card, uint32_t blocks, void *args);
void standin_wake(uint32_t card);
/* The calling core enters a kernel; it has left it when it calls any other function. */
void standin_core_enter_kernel(void);
/* Functions that kernels and the executor call through the page SYNC_PAGE of cce_core.h. */
void standin_map_sync(void);
/* Returns the register windows of a card's cores that have one, and their number. */
uint32_t standin_list_windows(uint32_t card, struct cpu_range *range);

/* standin_heap.c: heaps of programs, if threads run them */
/* Adds an allocation to the account and returns it; NULL stays NULL. */
EXPORT void *standin_heap_keep(void *at);
EXPORT void standin_heap_free(void *at);
/* Reports what the programs of a card did not free. The lock is held. */
uint32_t standin_forget_heap(uint32_t card);

/* standin_messages.c */
/*
 * A call of this thread fails with this code: sets its message, and writes a line to the host's
 * log.
 */
EXPORT void standin_fail(const char *name, int code);
/* Write a line to the host's log, or to that of a card. */
EXPORT void standin_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
EXPORT void standin_device_log(uint32_t card, bool is_error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* standin_process.c */
int standin_memory_file(void);
/*
 * Runs a program of the control processor until it ends, when this many cores have started. Not 0:
 * it failed, or was ended.
 */
uint32_t standin_process_run(uint32_t card, const struct cpu_request *wanted, uint32_t cores_due);
void standin_process_end(struct card *c);

#endif
