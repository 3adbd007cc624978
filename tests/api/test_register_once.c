/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the second run of a callable, nothing is allocated, mapped or loaded any more. This file
 * replaces functions of libc and counts their calls: 100 000 runs with staged tensors, alternating
 * between two callables, must not change any counter, nor the number of mappings and descriptors.
 *
 * A thread that the system suspends in a kernel loses its place to another thread, which costs
 * calls. The report counts that, and then the runs are repeated.
 *
 * Sanitizers have their own allocator: with them the runs are made, and nothing is counted.
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include "tests/fixture/artefact_test.h"

enum { N = 32, RUNS = IS_SANITIZED ? 500 : 100000, ATTEMPTS = 10 };

enum what { MALLOC, FREE, MMAP, MUNMAP, MEMFD, DLOPEN, DLSYM, DLCLOSE, KINDS };

static const char *const what_name[KINDS] = { "malloc", "free",   "mmap",  "munmap",
                                              "memfd",  "dlopen", "dlsym", "dlclose" };
static uint64_t count[KINDS];

static inline void note(enum what what)
{
    __atomic_fetch_add(&count[what], 1, __ATOMIC_RELAXED);
}

static inline void note_alloc(void *memory)
{
    (void)memory;
    note(MALLOC);
}

static inline void note_free(void *memory)
{
    (void)memory;
    note(FREE);
}

#include "tests/fixture/allocator_test.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* The real functions are looked up when this program starts, while it has one thread. */
static struct {
    void *(*mmap)(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
    int (*munmap)(void *addr, size_t bytes);
    int (*memfd_create)(const char *name, unsigned flags);
    void *(*dlopen)(const char *path, int flags);
    void *(*dlsym)(void *handle, const char *name);
    int (*dlclose)(void *handle);
} libc;

__attribute__((constructor)) static void find_libc(void)
{
    *(void **)&libc.dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (libc.dlsym == NULL)
#if defined(__aarch64__)
        *(void **)&libc.dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
#else
        *(void **)&libc.dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
#endif
    *(void **)&libc.mmap = libc.dlsym(RTLD_NEXT, "mmap");
    *(void **)&libc.munmap = libc.dlsym(RTLD_NEXT, "munmap");
    *(void **)&libc.memfd_create = libc.dlsym(RTLD_NEXT, "memfd_create");
    *(void **)&libc.dlopen = libc.dlsym(RTLD_NEXT, "dlopen");
    *(void **)&libc.dlclose = libc.dlsym(RTLD_NEXT, "dlclose");
}

void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    note(MMAP);
    return libc.mmap(addr, bytes, prot, flags, fd, offset);
}

int munmap(void *addr, size_t bytes)
{
    note(MUNMAP);
    return libc.munmap(addr, bytes);
}

int memfd_create(const char *name, unsigned flags)
{
    note(MEMFD);
    return libc.memfd_create(name, flags);
}

void *dlopen(const char *path, int flags)
{
    note(DLOPEN);
    return libc.dlopen(path, flags);
}

void *dlsym(void *handle, const char *name)
{
    note(DLSYM);
    return libc.dlsym(handle, name);
}

int dlclose(void *handle)
{
    note(DLCLOSE);
    return libc.dlclose(handle);
}
#endif

static uint32_t count_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    uint32_t lines = 0;
    int c;

    assert_non_null(file);
    while ((c = getc(file)) != EOF)
        lines += c == '\n';
    fclose(file);
    return lines;
}

struct call {
    int data[3][N];
    struct pto_tensor tensor[3];
    struct pto_entry entry;
};

static void init_call(struct call *call)
{
    for (int i = 0; i < 3; i++) {
        call->tensor[i] = pto_tensor_external(call->data[i], (const uint32_t[]){ N }, 1, PTO_INT32);
        for (int k = 0; k < N; k++)
            call->data[i][k] = 5 * i + k + 3;
    }
    call->entry = (struct pto_entry){ 3, 0, call->tensor, NULL };
}

/* How a run is made: by the blocking call, in steps, or from a graph. */
enum way { WAY_BLOCKING, WAY_STEPS, WAY_GRAPH, WAYS };

static int run_once(enum way way, struct pto_device *device, struct pto_callable *callable,
                    struct pto_graph *graph, struct call *call)
{
    struct pto_run *run;
    int status;

    if (way == WAY_BLOCKING)
        return pto_run(device, callable, &call->entry, NULL, &report);
    if (way == WAY_GRAPH)
        return pto_graph_run(graph, &call->entry, NULL, &report);
    status = pto_run_prepare(device, callable, &call->entry, NULL, &run);
    if (status >= 0)
        status = pto_run_launch(run);
    if (status >= 0)
        status = pto_run_wait(run, 0);
    return status >= 0 ? pto_run_finish(run, &report) : status;
}

/* Returns false if the runs were disturbed, so that the counters prove nothing. */
static bool count_runs_once(enum way way, uint32_t runs)
{
    struct pto_callable *callable[] = { load_flags(ADD), load_flags(SUBTRACT) };
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    struct pto_graph *graph[2] = { NULL, NULL };
    uint64_t before[KINDS];
    uint32_t descriptors, mappings;
    uint64_t takeovers = 0;
    struct call call;

    init_call(&call);
    pto_run_report_init(&report);
    for (int i = 0; i < 2 && way == WAY_GRAPH; i++)
        assert_int_equal(pto_graph_build(device, callable[i], &call.entry, NULL, NULL, &graph[i]),
                         PTO_OK);
    for (uint32_t i = 0; i < 4; i++) /* two of each */
        assert_int_equal(run_once(way, device, callable[i % 2], graph[i % 2], &call), PTO_OK);
    descriptors = count_descriptors();
    mappings = count_mappings();
    memcpy(before, count, sizeof(before));
    for (uint32_t i = 0; i < runs; i++) {
        int sign = i % 2 == 0 ? 1 : -1;

        if (run_once(way, device, callable[i % 2], graph[i % 2], &call) < 0 ||
            call.data[2][N - 1] != call.data[0][N - 1] + sign * call.data[1][N - 1])
            fail_msg("run %u is wrong", i);
        takeovers += report.takeovers;
    }
    for (int i = 0; i < KINDS; i++)
        if (count[i] != before[i] && takeovers == 0)
            fail_msg("%llu calls of %s in %u runs", (unsigned long long)(count[i] - before[i]),
                     what_name[i], runs);
    if (takeovers == 0) {
        assert_int_equal(count_descriptors(), descriptors);
        if (!IS_SANITIZED)
            assert_int_equal(count_mappings(), mappings);
    }
    for (int i = 0; i < 2; i++) {
        if (graph[i] != NULL)
            assert_int_equal(pto_graph_destroy(graph[i]), PTO_OK);
        assert_int_equal(pto_callable_destroy(callable[i]), PTO_OK);
    }
    assert_int_equal(pto_device_close(device), PTO_OK);
    return takeovers == 0;
}

/* The state selects a way of running; slow ways get fewer runs. */
static void nothing_is_loaded(void **state)
{
    enum way way = *(enum way *)*state;

    for (int i = 0; i < ATTEMPTS; i++)
        if (count_runs_once(way, way == WAY_BLOCKING ? RUNS : RUNS / 10))
            return;
    fail_msg("each of %d attempts was disturbed", ATTEMPTS);
}

static void the_counters_count(void **state)
{
    struct pto_callable *callable = load_flags(ADD);
    struct pto_device *device = open_device("a2a3sim", 0, 1);
    const char *temporary = getenv("TMPDIR");
    char *kept = temporary != NULL ? strdup(temporary) : NULL;
    uint64_t before[KINDS];
    struct call call;

    (void)state;
    /* so that memory is used instead of files */
    assert_int_equal(setenv("TMPDIR", "/proc/none", 1), 0);
    memcpy(before, count, sizeof(before));
    init_call(&call);
    pto_run_report_init(&report);
    assert_int_equal(run_once(WAY_BLOCKING, device, callable, NULL, &call), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    for (int i = 0; i < KINDS && !IS_SANITIZED; i++)
        if (count[i] == before[i] && i != MMAP && i != MUNMAP)
            fail_msg("%s is not counted", what_name[i]);
    assert_int_equal(kept != NULL ? setenv("TMPDIR", kept, 1) : unsetenv("TMPDIR"), 0);
    free(kept);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_counters_count),
        CASE(runs_load_nothing, nothing_is_loaded, &(enum way){ WAY_BLOCKING }),
        CASE(runs_in_steps_load_nothing, nothing_is_loaded, &(enum way){ WAY_STEPS }),
        CASE(launches_load_nothing, nothing_is_loaded, &(enum way){ WAY_GRAPH }),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
