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

#ifndef STANDIN_CLIENT /* who calls them has prototypes of his own */
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
    bool is_module;   /* a copy of a program, which its owner gives back */
    uint64_t written; /* when the host wrote to it last: a number of a call */
};

struct context {
    struct context *next; /* of all that there ever were: who still has one is told */
    uint32_t card;
    bool is_dead;
};

/* An event: how often it was recorded, and which of these its stream has come to. */
struct event {
    struct event *next;
    struct context *context;
    struct stream *stream; /* that it was recorded on last; NULL: none */
    uint64_t recorded;
    uint64_t reached;
    int error; /* of the stream, when it came there */
};

/* What a stream does next: it runs a function, or records an event, or waits for one. */
struct task {
    struct task *next;
    struct function *function; /* NULL: it is about an event, or another library has work */
    int (*work)(void *arg);
    void *arg;
    struct event *event;
    uint64_t number; /* which time that the event was recorded */
    bool is_waiting; /* for the event; else it has come to it */
    uint32_t blocks;
    uint32_t cores_due; /* that were launched before it */
    uint64_t limit_ms;  /* that the control processor has; 0: any time */
    size_t bytes;
    _Alignas(16) char args[CPU_ARGS];
};

struct stream {
    struct stream *next; /* of the card */
    struct context *context;
    pthread_t thread;
    struct task *first, **last;
    int error;        /* that a task ended with; it stays */
    bool is_reported; /* the error, once */
    bool is_busy;
    bool is_ending;
    bool has_ended;
    bool is_stopping; /* nothing of it is begun after a failure */
    int kind;         /* of its functions: they must not mix; -1: none yet */
    uint64_t made;    /* when: a number of a call */
};

/* KIND_OTHER: the control processor would run it, and the stand-in does not: programs of users. */
enum kind { KIND_CORES, KIND_CPU, KIND_EXTEND, KIND_OTHER };

/* A function of a program: an op of a description, or an entry for cores. */
struct entry {
    struct entry *next;
    enum kind kind;
    char name[ENTRY_NAME]; /* without the suffix of a half */
    uint64_t key;          /* of an entry for cores */
    bool has_half[2];      /* the same: _mix_aic and _mix_aiv */
    bool is_mixed;         /* it has the name of one of the two */
    bool is_custom;        /* an op: userDefined is True */
    bool is_dropped;       /* an op: a member that is read is no string */
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
    bool is_lazy;              /* its copy is made by the first launch */
    void *handle;              /* of the executor, once it is on the card */
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
    size_t used, peak;            /* by this process */
    size_t launched;              /* used when cores were launched last */
    struct cpu_programs programs; /* of the control processor, for the life of the process */
    pid_t cpu;                    /* the control processor, if it is a process; 0: none yet */
    int cpu_socket;
    pthread_mutex_t cpu_lock; /* one request at a time */
    char *sync;               /* where cores signal each other; NULL: not asked for yet */
    char *registers;
    size_t register_bytes;
    uint64_t stream_made;   /* of the cores' stream that was launched on last */
    bool is_haunted;        /* a core did not end: what it runs stays where it is */
    uint32_t core_error;    /* of the launch that goes on, which ends all its cores; atomic */
    uint64_t core_begin_ms; /* of the launch */
    uint32_t is_aborting;   /* cores and streams are to end; atomic */
    uint32_t event;         /* changes when a core answers; atomic */
    uint32_t in_kernels;    /* cores that are inside of one; atomic */
    uint32_t cores_due;     /* that were launched, all in all */
    uint32_t cores_come;    /* to their bells; atomic */
    struct event *events;
    /* Runs: cores that were launched, and the program of the control processor that leads them. */
    bool is_running;
    uint64_t runs_launched, runs_ended;
    uint64_t runs_behind; /* that were launched before the one before them had ended */
    uint64_t run_ns;      /* when the last one ended */
    uint64_t idle_ns;     /* from the end of one to the launch of the next */
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
    char known_folder[272];   /* of programs, as versions so far have had it */
    char program_folder[272]; /* where programs are looked for */
    char server_folder[272];  /* of the dispatcher */
    pid_t process;            /* the one that uses it */
    uint32_t heals;
    uint32_t grace;
    uint32_t op_ms;
    uint64_t cpu_ms; /* of a launch of the control processor that says nothing of it */
    uint64_t acl_references;
    bool is_over; /* the last reference to ACL is gone */
    struct card card[CARDS_MAX];
    struct context *contexts;
    struct allocation *allocations;
    struct binary *binaries;
    struct function *functions;
    uint64_t calls;
    uint64_t moment;     /* as calls, but never set back */
    uint64_t epoch;      /* of hangs: those of an earlier one return */
    uint32_t busy;       /* calls that are left to find the driver busy */
    bool is_part;        /* of a card */
    uint32_t log_level;  /* that was set, and 1; 0: none was */
    uint32_t card_level; /* the same, when the last card was taken */
    bool is_mute;        /* events say nothing of failures */
    uint64_t violations;
    uint64_t address;        /* of the next allocation: none is given out twice */
    const char *cpu_command; /* NULL: threads are the control processors */
    int memory;              /* file that cards have their memory in, then */
};

EXPORT extern struct standin standin;
extern __thread struct context *standin_here;
/* Where a program of the control processor ends that is forced to; NULL: the thread runs none. */
extern __thread jmp_buf *standin_escape;

/* The control processor's launch on this thread ends then; 0: never. */
extern __thread uint64_t standin_cpu_until_ms;
EXPORT uint64_t standin_now_ms(void);
/* Whether it has taken too long: its program is ended. */
EXPORT bool standin_is_cpu_late(void);
/* Whether the calling thread is a block of a program of the control processor. */
EXPORT bool standin_is_cpu(void);

/* Counts the call. Not 0: it is planned to fail with this code. */
EXPORT int standin_enter(enum standin_call call);
#define ENTER(name)                                \
    do {                                           \
        int planned_ = standin_enter(CALL_##name); \
        if (planned_ != 0)                         \
            return planned_;                       \
    } while (0)

/* A rule was broken that no code of the vendor's tells of. */
EXPORT void standin_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
/*
 * For tests in the same process: another plan, in place of the one of the environment; calls are
 * counted anew, and those that hang return. The name of the call that it has met; NULL: none.
 */
EXPORT void standin_plan(const char *text);
EXPORT const char *standin_met(void);
/* The name of the Nth call since then, from 1; NULL: there was none. */
EXPORT const char *standin_call(uint64_t number);
/* A core is about to call a kernel there. */
EXPORT void standin_check_code(uint64_t addr);
/* For tests in the same process: how often a function was called, or how many of a thing there are. */
EXPORT uint64_t standin_count(const char *what);

/* Of the next core that starts. */
enum core_plan { CORE_RUNS, CORE_IS_SILENT, CORE_FAILS };
enum core_plan standin_core_plan(void);
/* Milliseconds by which the next write of a condition register is late; UINT32_MAX: it never comes. */
uint32_t standin_cond_delay(void);

/* Addresses of cards that nobody had before. Under the lock, or by the only thread. */
char *standin_map(size_t bytes, int protection);
/* What nearly every call begins with: the thread has a card; and the card is well. Codes. */
EXPORT int standin_check_bound(void);
EXPORT int standin_check_well(void);
/* Addresses that nothing else gets, inaccessible. */
EXPORT char *standin_reserve(size_t bytes);
/* Memory of a card, charged to it, until the end of the card or standin_take_back. NULL: none is left. */
EXPORT void *standin_give(uint32_t card, size_t bytes);
EXPORT void standin_take_back(void *at);
/* So much more or less of a card is in use. False: it has not so much left. */
EXPORT bool standin_charge(uint32_t card, int64_t bytes);
/* The same for the accounts of this process alone. Under the lock. */
void standin_count_bytes(uint32_t card, int64_t bytes);
/* Work that a stream does in its turn. A code. */
EXPORT int standin_enqueue(void *stream, int (*work)(void *arg), void *arg);
/* What the thread is bound to. */
EXPORT struct context *standin_bound(void);
/* Programs for cores, for libruntime: one is added, launched on all its blocks, taken away. Codes. */
EXPORT int standin_add_executor(const void *data, size_t bytes, bool is_lazy, void **binary);
EXPORT int standin_launch_executor(void *binary, uint64_t key, uint32_t blocks, void *stream,
                                   void *args, size_t bytes, bool is_together);
EXPORT int standin_remove_binary(void *binary);
/* Memory of another library's that copies may use, and is that no more. */
EXPORT void standin_register_window(char *at, size_t bytes);
EXPORT void standin_unregister_window(const char *at);
/* The driver's number of a card: ASCEND_RT_VISIBLE_DEVICES. */
EXPORT uint32_t standin_driver_card(uint32_t card);

/* standin_card.c: what processes share, by the number of a card that this one has */
void standin_open_cards(void);
EXPORT enum health standin_health(uint32_t card);
/* It is well, or acts as if it were. */
EXPORT bool standin_is_answering(uint32_t card);
void standin_worsen(uint32_t card, enum health health);
/* A call goes by. */
void standin_age(uint32_t card);
/* By a forced reset. False: not yet. */
bool standin_heal(uint32_t card);
/* What all processes have of it. */
uint64_t standin_used(uint32_t card);
/* More or less of it for this process. False: there is not so much left. */
bool standin_take(uint32_t card, int64_t bytes);
/* Memory that others may get: it is charged while anybody holds it. By the driver's number. */
bool standin_lend(uint32_t card, uint32_t key, uint64_t bytes);
void standin_hold(uint32_t driver_card, uint32_t key);
void standin_let_go(uint32_t driver_card, uint32_t key);

/* standin_vmm.c; under the lock */
bool standin_is_mapped(const void *at, size_t bytes);
/* What was not given back of a card. */
uint32_t standin_forget_shared(uint32_t card);
uint64_t standin_count_shared(void);
/* Not under it: zeroes whole pages without touching them. False: they are not shared ones. */
bool standin_clear_shared(void *at, size_t bytes);

/* standin_programs.c */
/* The ops of a description. False: it is no JSON. */
bool standin_read_description(const char *text, struct entry **ops);
/* The entries of a program for cores. False: there is none, or two of them collide. */
bool standin_read_entries(const void *bytes, size_t size, struct entry **entries);
struct entry *standin_find_entry(struct entry *list, const char *name);
void standin_free_entries(struct entry *list);

/* standin_events.c; all under the lock */
/* Does what a stream has come to. False: the event that it waits for has not come. */
bool standin_do_event(const struct stream *s, const struct task *t);
/* A stream ends: nothing is asked of it any more. */
void standin_forget_stream(const struct stream *s);
/* What was not given back of a card. */
uint32_t standin_forget_events(struct card *c);
uint64_t standin_count_events(void);
/* A run is launched, by its cores. */
void standin_note_launch(struct card *c);
/* A stream of the card begins with something, or is done with it. */
void standin_note_begin(struct card *c, const struct task *t);
void standin_note_end(struct card *c, const struct task *t);
/* standin.c: the stream gets one more thing to do; under the lock. */
void standin_push(struct stream *s, struct task *t);
/* Until it is so, or the time is over; under the lock. */
bool standin_await(bool (*is_so)(const void *what), const void *what, int32_t ms);

/* standin_cores.c */
/* Register windows, made once. */
EXPORT int standin_map_registers(uint32_t card);
char *standin_window(uint32_t card, uint32_t number);
EXPORT uint32_t standin_core_numbers(void);
EXPORT bool standin_has_core(uint32_t index);
/* Runs an entry of the executor on so many clusters, to its end. */
int standin_run_cores(const struct function *function, uint32_t card, uint32_t blocks, void *args);
void standin_wake(uint32_t card);
/* The calling core enters a kernel; it has left it when it says anything else. */
void standin_core_enter_kernel(void);
/* What kernels and the executor reach there: SYNC_PAGE of cce_core.h. */
void standin_map_sync(void);
/* The register windows of a card's cores, as far as there are any; how many. */
uint32_t standin_list_windows(uint32_t card, struct cpu_range *range);

/* standin_heap.c: of programs, where threads run them */
/* It is in the account from now on; NULL stays NULL. */
EXPORT void *standin_heap_keep(void *at);
EXPORT void standin_heap_free(void *at);
/* What the programs of a card did not free. Under the lock. */
uint32_t standin_forget_heap(uint32_t card);

/* standin_messages.c */
/* A call of this thread fails with this code: its message, and a line of the host's log. */
EXPORT void standin_fail(const char *name, int code);
/* Lines of the host's and of a card's log. */
EXPORT void standin_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
EXPORT void standin_device_log(uint32_t card, bool is_error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* standin_process.c */
int standin_memory_file(void);
/* Runs a program of the control processor's to its end, once so many cores have come. Not 0: it failed, or was ended. */
uint32_t standin_process_run(uint32_t card, const struct cpu_request *wanted, uint32_t cores_due);
void standin_process_end(struct card *c);

#endif
