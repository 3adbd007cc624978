/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: row inject-asan, with every place */
/*
 * When the system refuses a call, the library reports an error, gives everything back, and works
 * again when the system does.
 *
 * Every call of the library that can fail goes through this file, by the linker's --wrap
 * (rules.mk). A scenario uses the whole interface on a small device. For each place in the library
 * that makes such a call, and each k, a child process runs the scenario, and the k-th call from
 * that place is refused. A stage that fails must return a proper status, and succeed when it is
 * tried again. Then everything is closed, the scenario runs once more without refusals, and memory,
 * mappings, descriptors and threads must be as after two runs without refusals. The children are
 * separate processes, so calls that are made once per process are refused as well.
 *
 * Each case is run twice: only that call is refused, or also all later calls, from any place, until
 * the current public function has returned.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/file.h"
#include "artefact/artefact.h"
#include "pto/sim.h"
#include "tests/fixture/counts_test.h"
#include "tests/fixture/fixture.h"
#include "tests/fixture/kinds_test.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

enum {
    /* maximum number of calls from one place, because the scenario must be small */
    CALLS_MAX = 1000,
    LOOKS = 5,     /* maximum number of calls in a scenario without refusals */
    UNHIT_MAX = 2, /* after this many children in a row without a k-th call, there are no more */
    SITES_MAX = 256,
    HANG_S = 60,
    OUT_WORDS = 32,
    BLOCKS = 4,
    /* maximum number of refused calls of a timeline, because all others are alike */
    WRITES_DUE = 4,
};

enum what {
    CALL_MALLOC,
    CALL_CALLOC,
    CALL_REALLOC,
    CALL_ALIGNED_ALLOC,
    CALL_MMAP,
    CALL_MPROTECT,
    CALL_MADVISE,
    CALL_THREAD,
    CALL_KEY,
    CALL_SPECIFIC,
    CALL_ATFORK,
    CALL_SIGALTSTACK,
    CALL_AFFINITY,
    CALL_MEMBARRIER,
    CALL_EVENTFD,
    CALL_WRITE,
    CALL_MEMFD,
    CALL_FCNTL,
    CALL_DLOPEN,
    CALL_DLSYM,
    CALL_FOPEN,
    CALL_FILE_WRITE,
    CALL_FILE_CLOSE,
    CALL_RENAME,
    CALL_KINDS
};

static const char *const what_name[CALL_KINDS] = {
    "malloc",
    "calloc",
    "realloc",
    "aligned_alloc",
    "mmap",
    "mprotect",
    "madvise",
    "pthread_create",
    "pthread_key_create",
    "pthread_setspecific",
    "pthread_atfork",
    "sigaltstack",
    "sched_getaffinity",
    "membarrier",
    "eventfd",
    "write",
    "memfd_create",
    "fcntl",
    "dlopen",
    "dlsym",
    "fopen",
    "write to the file",
    "close of the file",
    "rename",
};

/* Resources that a process has. */
struct footprint {
    int64_t blocks; /* of the allocator */
    int64_t mappings;
    int64_t mapped_bytes;
    uint32_t descriptors;
    uint32_t threads;
};

/* A place in the library that makes such calls. */
struct site {
    uintptr_t caller; /* its address, as an offset in this program; 0: none */
    uint32_t what;
    uint32_t count;   /* calls from this place, counted by the child */
    uint32_t refused; /* by all children */
    bool is_usual;    /* scenarios without refusals make this call */
};

/* Memory shared by a child and its parent. */
struct shared {
    struct site site[SITES_MAX]; /* of all children, in no order */

    /* Of one child: */
    struct site *target; /* place whose call is refused; NULL: none */
    uint32_t number;     /* number of the refused call among the calls from that place */
    bool is_burst;       /* also refuse all calls after it, until the public function returns */
    uint32_t refused;
    const char *stage; /* going on */
    int status;        /* of the stage that failed */
    const char *fault; /* what the test found wrong; NULL: nothing */
    int detail;
    struct footprint left;
};

static struct shared *shared;
static bool is_armed;
static uint32_t is_bursting;
static int64_t blocks, mappings, mapped_bytes;

extern char __executable_start;

/* ---- between the library and the system ---- */

static struct site *site_of(enum what what, uintptr_t caller)
{
    for (uint32_t i = 0; i < SITES_MAX; i++) {
        struct site *s = &shared->site[(caller + i) % SITES_MAX];
        uintptr_t none = 0;

        if (__atomic_compare_exchange_n(&s->caller, &none, caller, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            s->what = what;
        if (s->caller == caller)
            return s;
    }
    abort();
}

static bool is_refused_at(enum what what, const void *caller)
{
    struct site *site;
    uint32_t number;
    bool is_hit;

    if (!__atomic_load_n(&is_armed, __ATOMIC_RELAXED))
        return false;
    site = site_of(what, (uintptr_t)caller - (uintptr_t)&__executable_start);
    number = __atomic_add_fetch(&site->count, 1, __ATOMIC_RELAXED);
    is_hit = site == shared->target && number == shared->number;
    if (is_hit && shared->is_burst)
        __atomic_store_n(&is_bursting, 1, __ATOMIC_RELAXED);
    if (!is_hit && (__atomic_load_n(&is_bursting, __ATOMIC_RELAXED) == 0 || what == CALL_WRITE))
        return false; /* a pipe with a reader is not refused forever */
    __atomic_add_fetch(&shared->refused, 1, __ATOMIC_RELAXED);
    return true;
}

#define IS_REFUSED(what) is_refused_at((what), __builtin_return_address(0))

static void *note_block(void *memory)
{
    if (memory != NULL)
        __atomic_add_fetch(&blocks, 1, __ATOMIC_RELAXED);
    return memory;
}

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return IS_REFUSED(CALL_MALLOC) ? no_memory() : note_block(__real_malloc(bytes));
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return IS_REFUSED(CALL_CALLOC) ? no_memory() : note_block(__real_calloc(count, bytes));
}

void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes)
{
    void *memory = IS_REFUSED(CALL_REALLOC) ? no_memory() : __real_realloc(old, bytes);

    return old == NULL ? note_block(memory) : memory;
}

void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return IS_REFUSED(CALL_ALIGNED_ALLOC) ? no_memory()
                                          : note_block(__real_aligned_alloc(align, bytes));
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    if (memory != NULL)
        __atomic_sub_fetch(&blocks, 1, __ATOMIC_RELAXED);
    __real_free(memory);
}

void *__real_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    void *memory = MAP_FAILED;

    if (IS_REFUSED(CALL_MMAP))
        errno = ENOMEM;
    else
        memory = __real_mmap(addr, bytes, prot, flags, fd, offset);
    if (memory != MAP_FAILED) {
        __atomic_add_fetch(&mappings, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&mapped_bytes, (int64_t)bytes, __ATOMIC_RELAXED);
    }
    return memory;
}

int __real_munmap(void *addr, size_t bytes);
int __wrap_munmap(void *addr, size_t bytes);
int __wrap_munmap(void *addr, size_t bytes)
{
    __atomic_sub_fetch(&mappings, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&mapped_bytes, (int64_t)bytes, __ATOMIC_RELAXED);
    return __real_munmap(addr, bytes);
}

static int minus_one(int error)
{
    errno = error;
    return -1;
}

int __real_mprotect(void *addr, size_t bytes, int prot);
int __wrap_mprotect(void *addr, size_t bytes, int prot);
int __wrap_mprotect(void *addr, size_t bytes, int prot)
{
    return IS_REFUSED(CALL_MPROTECT) ? minus_one(ENOMEM) : __real_mprotect(addr, bytes, prot);
}

int __real_madvise(void *addr, size_t bytes, int advice);
int __wrap_madvise(void *addr, size_t bytes, int advice);
int __wrap_madvise(void *addr, size_t bytes, int advice)
{
    return IS_REFUSED(CALL_MADVISE) ? minus_one(EAGAIN) : __real_madvise(addr, bytes, advice);
}

/* After a failure the handle is undefined; glibc stores an address in it. */
int __real_pthread_create(pthread_t *handle, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *handle, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *handle, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg)
{
    if (!IS_REFUSED(CALL_THREAD))
        return __real_pthread_create(handle, attr, fn, arg);
    *handle = (pthread_t)0x10;
    return EAGAIN;
}

int __real_pthread_key_create(pthread_key_t *key, void (*destroy)(void *));
int __wrap_pthread_key_create(pthread_key_t *key, void (*destroy)(void *));
int __wrap_pthread_key_create(pthread_key_t *key, void (*destroy)(void *))
{
    return IS_REFUSED(CALL_KEY) ? EAGAIN : __real_pthread_key_create(key, destroy);
}

int __real_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
    return IS_REFUSED(CALL_SPECIFIC) ? ENOMEM : __real_pthread_setspecific(key, value);
}

int __real_pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void));
int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void));
int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    return IS_REFUSED(CALL_ATFORK) ? ENOMEM : __real_pthread_atfork(before, parent, child);
}

int __real_sigaltstack(const stack_t *stack, stack_t *old);
int __wrap_sigaltstack(const stack_t *stack, stack_t *old);
int __wrap_sigaltstack(const stack_t *stack, stack_t *old)
{
    return IS_REFUSED(CALL_SIGALTSTACK) ? minus_one(ENOMEM) : __real_sigaltstack(stack, old);
}

int __real_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    return IS_REFUSED(CALL_AFFINITY) ? minus_one(EINVAL)
                                     : __real_sched_getaffinity(pid, bytes, set);
}

/* Futexes always work; the kernel may lack membarrier, but not after it was registered. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long arg[6];
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_membarrier && arg[0] == MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED &&
        IS_REFUSED(CALL_MEMBARRIER))
        return minus_one(ENOSYS);
    return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

int __real_eventfd(unsigned int value, int flags);
int __wrap_eventfd(unsigned int value, int flags);
int __wrap_eventfd(unsigned int value, int flags)
{
    return IS_REFUSED(CALL_EVENTFD) ? minus_one(EMFILE) : __real_eventfd(value, flags);
}

ssize_t __real_write(int fd, const void *from, size_t bytes);
ssize_t __wrap_write(int fd, const void *from, size_t bytes);
ssize_t __wrap_write(int fd, const void *from, size_t bytes)
{
    return IS_REFUSED(CALL_WRITE) ? minus_one(EINTR) : __real_write(fd, from, bytes);
}

int __real_memfd_create(const char *name, unsigned int flags);
int __wrap_memfd_create(const char *name, unsigned int flags);
int __wrap_memfd_create(const char *name, unsigned int flags)
{
    return IS_REFUSED(CALL_MEMFD) ? minus_one(ENOMEM) : __real_memfd_create(name, flags);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    va_list args;
    long arg;

    va_start(args, command);
    arg = va_arg(args, long);
    va_end(args);
    return IS_REFUSED(CALL_FCNTL) ? minus_one(ENOMEM) : __real_fcntl(fd, command, arg);
}

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags)
{
    return IS_REFUSED(CALL_DLOPEN) ? no_memory() : __real_dlopen(path, flags);
}

void *__real_dlsym(void *object, const char *name);
void *__wrap_dlsym(void *object, const char *name);
void *__wrap_dlsym(void *object, const char *name)
{
    return IS_REFUSED(CALL_DLSYM) ? no_memory() : __real_dlsym(object, name);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    return IS_REFUSED(CALL_RENAME) ? minus_one(EXDEV) : __real_rename(from, to);
}

/* A separate stream whose writes can be refused where libc makes them. */
static uint32_t file_writes;

static ssize_t write_file(void *cookie, const char *from, size_t bytes)
{
    if (file_writes < WRITES_DUE) {
        file_writes++;
        if (IS_REFUSED(CALL_FILE_WRITE)) {
            errno = ENOSPC;
            return 0;
        }
    }
    return __real_write((int)(intptr_t)cookie, from, bytes);
}

static int close_file(void *cookie)
{
    int status = close((int)(intptr_t)cookie);

    return IS_REFUSED(CALL_FILE_CLOSE) ? minus_one(EIO) : status;
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    cookie_io_functions_t functions = { .write = write_file, .close = close_file };
    FILE *file;
    int fd;

    if (IS_REFUSED(CALL_FOPEN)) {
        errno = EMFILE;
        return NULL;
    }
    if (mode[0] == 'r')
        return __real_fopen(path, mode);
    file_writes = 0;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return NULL;
    file = fopencookie((void *)(intptr_t)fd, mode, functions);
    if (file == NULL)
        close(fd);
    return file;
}

/* ---- the scenario's kernels and orchestration ---- */

enum { KERNEL_PIPE = KINDS_KERNELS, KERNELS };

/* Continues without the shared state if there is no memory for it. */
static void kernel_pipe(int64_t *args)
{
    int32_t *state = pto_sim_get_pipe_shared_state(7, 64);

    if (state != NULL)
        state[0] = 1;
    words_of(args, 0)[0] = 400;
}

static const struct pto_kernel kernels[KERNELS] = {
    KINDS_TABLE,
    [KERNEL_PIPE] = { "pipe", kernel_pipe, PTO_CORE_AIV },
};

/* Positions of the results in the entry's second tensor. */
enum {
    OUT_BLOCKS = 0,
    OUT_GANG = OUT_BLOCKS + BLOCKS,
    OUT_LANES = OUT_GANG + GANG,
    OUT_PIPE = OUT_LANES + 3,
    OUT_DEFERRED,
    OUT_SUM,
    OUT_SET,
    OUT_SCALAR,
    OUT_END
};

_Static_assert((int)OUT_END <= (int)OUT_WORDS, "results fit");

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *in = &entry->tensor[0], *out = &entry->tensor[1];
    struct pto_tensor_info plain = pto_tensor_info_make(PTO_DIMS(WORDS), 1, PTO_INT32);
    struct pto_tensor_info zeroed = plain;
    struct pto_tensor blocks_at = part_of(out, OUT_BLOCKS, BLOCKS);
    struct pto_tensor gang_at = part_of(out, OUT_GANG, GANG);
    struct pto_tensor lanes_at = part_of(out, OUT_LANES, 3);
    struct pto_tensor pipe_at = part_of(out, OUT_PIPE, 1);
    struct pto_tensor deferred_at = part_of(out, OUT_DEFERRED, 1);
    struct pto_tensor sum_at = part_of(out, OUT_SUM, 1);
    const struct pto_tensor *copy[4];
    struct pto_outputs made;
    uint64_t first = pto_get_data(o, in, 1, PTO_DIMS(0));

    pto_tensor_info_fill(&zeroed, 0);
    pto_set_data(o, out, 1, PTO_DIMS(OUT_SET), 600 + first);
    pto_set_data(o, out, 1, PTO_DIMS(OUT_SCALAR), 700 + pto_scalar(o, 1));
    for (int i = 0; i < 4; i++) {
        made = pto_aiv(o, KERNEL_COPY, PTO_IN(in), PTO_OUT(&plain));
        if (made.count == 0)
            return;
        copy[i] = made.tensor;
    }
    PTO_SCOPE(o) {
        made = pto_alloc(o, PTO_OUT(&zeroed));
        if (made.count != 0) {
            pto_aiv(o, KERNEL_ADD, PTO_IN(copy[0]), PTO_INOUT(made.tensor), PTO_PASS(0));
            pto_aiv(o, KERNEL_SUM, PTO_IN(copy[0]), PTO_IN(copy[1]), PTO_IN(copy[2]),
                    PTO_IN(copy[3]), PTO_IN(made.tensor), PTO_WRITE(&sum_at), PTO_TIMED(3));
        }
    }
    pto_aiv(o, KERNEL_BLOCK, PTO_INOUT(&blocks_at), PTO_BLOCKS(BLOCKS));
    made = pto_alloc(o, PTO_OUT(&zeroed), PTO_OUT(&zeroed));
    if (made.count == 0)
        return;
    pto_aiv(o, KERNEL_MEET, PTO_INOUT(&made.tensor[0]), PTO_INOUT(&gang_at), PTO_GANG(GANG));
    pto_mix(o, PTO_LANES(KERNEL_LANE_AIC, KERNEL_LANE_AIV, KERNEL_LANE_AIV), PTO_INOUT(&lanes_at));
    pto_aiv(o, KERNEL_PIPE, PTO_INOUT(&pipe_at), PTO_IF(in, EQ, 1, 0));
    pto_aiv(o, KERNEL_PIPE, PTO_INOUT(&sum_at), PTO_IF(in, EQ, 2, 0)); /* never */
    pto_aiv(o, KERNEL_DEFER, PTO_AFTER(&made.tensor[1]), PTO_INOUT(&deferred_at));
    pto_aiv(o, KERNEL_RAISE, PTO_AFTER(&made.tensor[1]));
    pto_dummy(o, PTO_IN(&deferred_at));
}

/* ---- the scenario ---- */

struct world {
    struct pto_device *device;
    struct pto_callable *callable;
    struct pto_callable *packed; /* from an artefact */
    struct pto_graph *graph;
    uint64_t addr;
    int32_t in[2][WORDS];
    int32_t out[2][OUT_WORDS];
    int which; /* of the buffers */
    uint64_t addend;
    struct pto_tensor tensor[2];
    uint64_t scalar[2];
    struct pto_entry entry;
    char path[64];
};

static bool has_file(const char *path)
{
    return access(path, F_OK) == 0;
}

static int fault_found(const char *text, int detail)
{
    if (shared->fault == NULL) {
        shared->fault = text;
        shared->detail = detail;
    }
    return PTO_OK;
}

static const struct pto_entry *prepare_entry(struct world *w, int which, uint64_t addend)
{
    w->which = which;
    w->addend = addend;
    for (int i = 0; i < WORDS; i++)
        w->in[which][i] = i + 1;
    memset(w->out[which], 0xff, sizeof(w->out[which]));
    w->tensor[0] = pto_tensor_external(w->in[which], PTO_DIMS(WORDS), 1, PTO_INT32);
    w->tensor[1] = pto_tensor_external(w->out[which], PTO_DIMS(OUT_WORDS), 1, PTO_INT32);
    w->scalar[0] = addend;
    w->scalar[1] = 9;
    w->entry = (struct pto_entry){ 2, 2, w->tensor, w->scalar };
    return &w->entry;
}

/* Result of the last run; only checked if the run succeeded. */
static int check_results(struct world *w, int status)
{
    const int32_t *out = w->out[w->which];
    bool is_right = true;

    if (status < 0)
        return status;
    for (int i = 0; i < BLOCKS; i++)
        is_right = is_right && out[OUT_BLOCKS + i] == 100 + i;
    for (int i = 0; i < GANG; i++)
        is_right = is_right && out[OUT_GANG + i] == 200 + i;
    for (int i = 0; i < 3; i++)
        is_right = is_right && out[OUT_LANES + i] == 300 + i;
    is_right = is_right && out[OUT_PIPE] == 400 && out[OUT_DEFERRED] == 500;
    is_right = is_right && out[OUT_SET] == 601 && out[OUT_SCALAR] == 709;
    is_right = is_right && out[OUT_SUM] == 5 * 36 + WORDS * (int32_t)w->addend;
    return is_right ? status : fault_found("a run that succeeded computed something else", status);
}

static int stage_open(struct world *w)
{
    struct pto_device_params params;
    int status;

    pto_device_params_init(&params);
    params.workers = 2;
    params.clusters = 2;
    params.memory_max = 64 << 20;
    status = pto_device_open(&params, &w->device);
    if (status < 0 && w->device != NULL)
        fault_found("a device that was not opened has a handle", status);
    return status;
}

static int stage_callable(struct world *w)
{
    struct pto_callable_params params;
    int status;

    pto_callable_params_init(&params);
    params.name = "inject";
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    status = pto_callable_create(&params, &w->callable);
    if (status < 0 && w->callable != NULL)
        fault_found("a callable that was not made has a handle", status);
    return status;
}

static int stage_memory(struct world *w)
{
    uint64_t value = 42, read = 0, addr = 0;
    int status = pto_mem_alloc(w->device, 100, &addr);

    if (status < 0)
        return status;
    if (pto_mem_write(w->device, addr, &value, 8) < 0 ||
        pto_mem_read(w->device, addr, &read, 8) < 0 || read != 42 ||
        pto_mem_check(w->device, NULL) < 0)
        fault_found("memory that was allocated does not work", status);
    if (w->addr == 0)
        w->addr = addr; /* memory that the device must free */
    else
        status = pto_mem_free(w->device, addr, NULL);
    return status;
}

static int run_once(struct world *w, enum pto_mode mode, enum pto_trace trace)
{
    struct pto_run_options options;
    struct pto_run_report report;
    int status;

    pto_run_options_init(&options);
    pto_run_report_init(&report);
    options.mode = mode;
    options.trace = trace;
    options.trace_records = 1024;
    options.stall_timeout_ns = 5000000000ull;
    status = pto_run(w->device, w->callable, prepare_entry(w, 0, 3), &options, &report);
    if (status < 0 && report.error.status != 0 && report.error.status != status)
        fault_found("the report tells of another error", report.error.status);
    return check_results(w, status);
}

static int stage_stream(struct world *w)
{
    return run_once(w, PTO_MODE_STREAM, PTO_TRACE_OFF);
}

static int stage_host(struct world *w)
{
    return run_once(w, PTO_MODE_HOST, PTO_TRACE_TIMES);
}

static int stage_timeline(struct world *w)
{
    struct pto_error error = { .size = sizeof(error) };
    char part[80];
    int status;

    unlink(w->path);
    status = pto_trace_write(w->device, w->path, &error);
    snprintf(part, sizeof(part), "%s.part", w->path);
    if (has_file(part) || has_file(w->path) != (status == PTO_OK))
        fault_found("the timeline is there in part", status);
    if (status < 0 && (error.status != status || error.text[0] == '\0'))
        fault_found("a timeline that was not written has no reason", status);
    return status;
}

static int stage_build(struct world *w)
{
    struct pto_run_options options;
    struct pto_run_report report;
    int status;

    pto_run_options_init(&options);
    (void)pto_run_options_vary(&options, 0);
    pto_run_report_init(&report);
    status = pto_graph_build(w->device, w->callable, prepare_entry(w, 0, 3), &options, &report,
                             &w->graph);
    if (status < 0 && w->graph != NULL)
        fault_found("a graph that was not built has a handle", status);
    return status;
}

static int stage_launch(struct world *w)
{
    return check_results(w, pto_graph_run(w->graph, prepare_entry(w, 0, 3), NULL, NULL));
}

static int stage_launch_other(struct world *w)
{
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.trace = PTO_TRACE_ORDER;
    options.trace_records = 512;
    return check_results(w, pto_graph_run(w->graph, prepare_entry(w, 1, 8), &options, NULL));
}

/* The caller prepares the run, launches it, waits through the descriptor, and finishes it. */
static int go_through(struct world *w, struct pto_run *run)
{
    struct pollfd ready = { .events = POLLIN };
    int status, finished;

    ready.fd = pto_run_fd(run);
    status = ready.fd < 0 ? ready.fd : pto_run_launch(run);
    if (status == PTO_OK) {
        status = pto_run_wait(run, 0);
        if (poll(&ready, 1, 1000) != 1)
            fault_found("a run has ended and its descriptor is not readable", status);
    }
    finished = pto_run_finish(run, NULL);
    return check_results(w, status < 0 ? status : finished);
}

static int stage_steps(struct world *w)
{
    struct pto_run *run = NULL;
    int status = pto_run_prepare(w->device, w->callable, prepare_entry(w, 0, 4), NULL, &run);

    if (status < 0 && run != NULL)
        fault_found("a run that was not prepared has a handle", status);
    return status < 0 ? status : go_through(w, run);
}

static int stage_launch_steps(struct world *w)
{
    struct pto_run *run = NULL;
    int status = pto_graph_prepare(w->graph, prepare_entry(w, 1, 5), NULL, &run);

    if (status < 0 && run != NULL)
        fault_found("a run that was not prepared has a handle", status);
    return status < 0 ? status : go_through(w, run);
}

/* ---- an artefact ---- */

static void *artefact;
static size_t artefact_size;

static int stage_artefact(struct world *w)
{
    struct pto_error error = { .size = sizeof(error) };
    int status = pto_callable_load_memory(artefact, artefact_size, NULL, &w->packed, &error);

    if (status < 0 && (w->packed != NULL || error.status != status || error.text[0] == '\0'))
        fault_found("an artefact that was not loaded has a handle, or no reason", status);
    return status;
}

static int stage_register(struct world *w)
{
    struct pto_error error = { .size = sizeof(error) };
    int status = pto_register(w->device, w->packed, &error);

    if (status < 0 && (error.status != status || error.text[0] == '\0'))
        fault_found("a callable that was not registered has no reason", status);
    return status;
}

/* The kernel doubles the entry's first tensor, which is staged. */
static int stage_packed(struct world *w)
{
    int status;

    (void)prepare_entry(w, 0, 0);
    w->entry.tensor_count = 1;
    status = pto_run(w->device, w->packed, &w->entry, NULL, NULL);
    if (status == PTO_OK && w->in[0][WORDS - 1] != 2 * WORDS)
        fault_found("the artefact computed something else", w->in[0][WORDS - 1]);
    return status;
}

static int stage_unregister(struct world *w)
{
    return pto_unregister(w->device, w->packed);
}

static int stage_close(struct world *w)
{
    int status = w->graph != NULL ? pto_graph_destroy(w->graph) : PTO_OK;

    w->graph = NULL;
    if (status == PTO_OK && w->callable != NULL)
        status = pto_callable_destroy(w->callable);
    w->callable = NULL;
    if (status == PTO_OK && w->packed != NULL)
        status = pto_callable_destroy(w->packed);
    w->packed = NULL;
    if (status == PTO_OK && w->device != NULL)
        status = pto_device_close(w->device);
    w->device = NULL;
    return status;
}

static const struct stage {
    const char *name;
    int (*run)(struct world *w);
} stages[] = {
    { "open", stage_open },
    { "callable", stage_callable },
    { "memory", stage_memory },
    { "memory again", stage_memory },
    { "run", stage_stream },
    { "recorded run in host mode", stage_host },
    { "timeline", stage_timeline },
    { "build", stage_build },
    { "launch", stage_launch },
    { "launch with other buffers", stage_launch_other },
    { "timeline of a launch", stage_timeline },
    { "run in steps", stage_steps },
    { "launch in steps", stage_launch_steps },
    { "artefact", stage_artefact },
    { "register", stage_register },
    { "run of the artefact", stage_packed },
    { "unregister", stage_unregister },
    { "run that registers", stage_packed },
    { "close", stage_close },
};

enum { STAGES = sizeof(stages) / sizeof(stages[0]) };

static bool is_proper(int status)
{
    return status == PTO_ENOMEM || status == PTO_ESYSTEM || status == PTO_ELOAD;
}

/* Repeats each stage until it succeeds, which it must do if nothing is refused. */
static void run_scenario(void)
{
    static struct world world;

    memset(&world, 0, sizeof(world));
    snprintf(world.path, sizeof(world.path), "/tmp/test_inject.%d.json", (int)getpid());
    for (int i = 0; i < STAGES; i++) {
        uint32_t refused = shared->refused;
        int status;

        shared->stage = stages[i].name;
        status = stages[i].run(&world);
        __atomic_store_n(&is_bursting, 0, __ATOMIC_RELAXED);
        if (status == PTO_OK)
            continue;
        shared->status = status;
        if (!is_proper(status))
            fault_found("the status is not that of something refused", status);
        if (shared->refused == refused)
            fault_found("it failed and nothing was refused", status);
        status = stages[i].run(&world);
        if (status != PTO_OK)
            fault_found("it failed when it was tried again", status);
    }
    unlink(world.path);
}

/* ---- what is left ---- */

static struct footprint footprint_now(void)
{
    struct footprint f = { .descriptors = count_entries("/proc/self/fd"),
                           .threads = count_threads() };

    f.blocks = __atomic_load_n(&blocks, __ATOMIC_RELAXED);
    f.mappings = __atomic_load_n(&mappings, __ATOMIC_RELAXED);
    f.mapped_bytes = __atomic_load_n(&mapped_bytes, __ATOMIC_RELAXED);
    return f;
}

static void run_child(void)
{
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL); /* do not return, because cmocka would continue with the next test */
    alarm(HANG_S);
    blocks = mappings = mapped_bytes = 0;
    __atomic_store_n(&is_armed, true, __ATOMIC_RELAXED);
    run_scenario();
    __atomic_store_n(&is_armed, false, __ATOMIC_RELAXED);
    __atomic_store_n(&is_bursting, 0, __ATOMIC_RELAXED);
    shared->stage = "undisturbed";
    run_scenario();
    shared->left = footprint_now();
#if defined(__SANITIZE_ADDRESS__)
    if (__lsan_do_recoverable_leak_check() != 0)
        fault_found("the sanitizer found leaks", 0);
#endif
    _exit(0);
}

/* Returns the status of the child as waitpid does. */
static int run_with(struct site *target, uint32_t number, bool is_burst)
{
    pid_t child;
    int status;

    memset(&shared->target, 0, sizeof(*shared) - offsetof(struct shared, target));
    for (int i = 0; i < SITES_MAX; i++)
        shared->site[i].count = 0;
    shared->target = target;
    shared->number = number;
    shared->is_burst = is_burst;
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        run_child();
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool is_more(const struct footprint *a, const struct footprint *b)
{
    return a->blocks > b->blocks || a->mappings > b->mappings ||
           a->mapped_bytes > b->mapped_bytes || a->descriptors > b->descriptors ||
           a->threads > b->threads;
}

static void print_left(const char *what, const struct footprint *f)
{
    print_message("  %s: %lld blocks, %lld mappings of %lld bytes, %u descriptors, %u threads\n",
                  what, (long long)f->blocks, (long long)f->mappings, (long long)f->mapped_bytes,
                  f->descriptors, f->threads);
}

/* Checks the result of a child; prints what is wrong. */
static bool is_good(int status, const struct footprint *reference)
{
    bool is_ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;

    if (is_ended && shared->fault == NULL && !is_more(&shared->left, reference))
        return true;
    print_message("%s from %#lx, call %u%s, in \"%s\": ", what_name[shared->target->what],
                  (unsigned long)shared->target->caller, shared->number,
                  shared->is_burst ? " and what follows" : "",
                  shared->stage != NULL ? shared->stage : "?");
    if (WIFSIGNALED(status))
        print_message("%s\n",
                      WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
    else if (!is_ended)
        print_message("exit code %d\n", WEXITSTATUS(status));
    else if (shared->fault != NULL)
        print_message("%s (%d, status %d)\n", shared->fault, shared->detail, shared->status);
    else
        print_message("something is left behind\n");
    if (is_ended) {
        print_left("left", &shared->left);
        print_left("undisturbed", reference);
    }
    return false;
}

struct tally {
    uint32_t refused; /* children */
    uint32_t failed;  /* number of those in which a public function failed */
    uint32_t bad;
    uint32_t by_kind[CALL_KINDS];
};

static void refuse_calls_of(struct site *site, bool is_burst, const struct footprint *reference,
                            struct tally *tally)
{
    uint32_t unhit = 0;

    for (uint32_t k = 1; k <= CALLS_MAX && unhit < UNHIT_MAX; k++) {
        int status = run_with(site, k, is_burst);

        tally->bad += !is_good(status, reference);
        if (shared->refused == 0) {
            unhit++;
            continue;
        }
        unhit = 0;
        site->refused++;
        tally->refused++;
        tally->failed += shared->status < 0;
        tally->by_kind[site->what]++;
    }
    assert_true(unhit == UNHIT_MAX);
}

/* Finds out which calls the scenario makes, and which resources a process has after it. */
static struct footprint look_undisturbed(void)
{
    struct footprint most = { 0 };

    for (int i = 0; i < LOOKS; i++) {
        assert_int_equal(run_with(NULL, 0, false), 0);
        if (shared->fault != NULL)
            fail_msg("undisturbed, in \"%s\": %s (%d)", shared->stage, shared->fault,
                     shared->detail);
        assert_true(i == 0 || (!is_more(&shared->left, &most) && !is_more(&most, &shared->left)));
        most = shared->left;
    }
    for (int i = 0; i < SITES_MAX; i++)
        shared->site[i].is_usual = shared->site[i].caller != 0;
    print_left("undisturbed", &most);
    return most;
}

static void refuse_all(bool is_burst)
{
    struct tally tally = { 0 };
    uint32_t sites = 0, missed = 0;
    struct footprint reference;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    reference = look_undisturbed();
    for (int i = 0; i < SITES_MAX; i++) {
        struct site *site = &shared->site[i];

        if (site->caller == 0)
            continue;
        refuse_calls_of(site, is_burst, &reference, &tally);
        sites++;
        missed += site->is_usual && site->refused == 0;
    }
    print_message("%u calls refused%s, from %u places; a public function failed after %u of them\n",
                  tally.refused, is_burst ? ", each with what follows" : "", sites, tally.failed);
    for (int i = 0; i < CALL_KINDS; i++)
        if (tally.by_kind[i] != 0)
            print_message("  %-20s %u\n", what_name[i], tally.by_kind[i]);
    assert_int_equal(tally.bad, 0);
    assert_int_equal(missed, 0);
    munmap(shared, sizeof(*shared));
    shared = NULL;
}

static void each_call_may_be_refused(void **state)
{
    (void)state;
    refuse_all(false);
}

static void each_call_may_be_refused_with_what_follows(void **state)
{
    (void)state;
    refuse_all(true);
}

/* ---- compiled once, by the parent ---- */

static const char source[] =
    "#include <pto/orch.h>\n"
    "void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{ pto_aiv(o, 0, PTO_INOUT(&e->tensor[0])); }\n"
    "void kernel_entry(int64_t *args)\n"
    "{\n"
    "    int *at = (int *)pto_tensor_data(pto_arg_tensor(args, 0));\n"
    "    for (uint32_t i = 0; i < pto_arg_tensor(args, 0)->shapes[0]; i++)\n"
    "        at[i] *= 2;\n"
    "}\n";

/* The two callables are one object, which is loaded once. */
static int make_artefact(void **state)
{
    static const enum pto_direction signature[] = { PTO_DIR_INOUT };
    char folder[] = "/tmp/pto_inject_XXXXXX";
    struct artefact_kernel kernel = { .core = PTO_CORE_AIV, .name = "double" };
    struct artefact_parts parts = { .name = "double",
                                    .platform = "a2a3sim",
                                    .signature = signature,
                                    .signature_count = 1,
                                    .kernels = &kernel,
                                    .kernel_count = 1 };
    char command[512], path[64];
    char *object = NULL;
    int status;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/o.c", folder);
    assert_int_equal(file_write(path, source, strlen(source)), PTO_OK);
    snprintf(command, sizeof(command), "${CC:-gcc} -shared -fPIC -Iinclude -o %s/o.so %s", folder,
             path);
    status = system(command);
    snprintf(path, sizeof(path), "%s/o.so", folder);
    if (status == 0)
        status = file_read(path, 1 << 24, &object, &kernel.size);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(status, 0);
    kernel.bytes = parts.orchestration = object;
    parts.orchestration_size = kernel.size;
    status = artefact_make(&parts, &artefact, &artefact_size, NULL);
    free(object);
    return status;
}

static int free_artefact(void **state)
{
    (void)state;
    free(artefact);
    return 0;
}

int main(void)
{
    const struct CMUnitTest one_call[] = {
        cmocka_unit_test(each_call_may_be_refused),
    };
    const struct CMUnitTest one_and_more[] = {
        cmocka_unit_test(each_call_may_be_refused_with_what_follows),
    };
    int failed, status = -1;
    pid_t other;

    if (getenv("PTO_TEST_LONG") == NULL) /* a soak does the rest */
        return cmocka_run_group_tests(one_call, make_artefact, free_artefact);
    other = fork(); /* at the same time: scenarios wait half of their time */
    if (other == 0)
        return cmocka_run_group_tests(one_and_more, make_artefact, free_artefact);
    failed = cmocka_run_group_tests(one_call, make_artefact, free_artefact);
    if (other < 0 || waitpid(other, &status, 0) != other || !WIFEXITED(status))
        return failed + 1;
    return failed + WEXITSTATUS(status);
}
