/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of libhost_runtime.so share: each loads the libraries from where they
 * were built, as the reference's worker does, and calls them through their functions'
 * names alone.
 *
 * Include it last: cmocka comes with it.
 */
#ifndef PTO_HOSTLIB_TEST_H
#define PTO_HOSTLIB_TEST_H

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hostlib/worker_abi.h"
#include "pto/door.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* X(name): every function that the worker looks up. */
#define FUNCTIONS(X)                          \
    X(simpler_host_log_bind_state)            \
    X(create_device_context)                  \
    X(destroy_device_context)                 \
    X(simpler_init)                           \
    X(finalize_device)                        \
    X(get_runtime_size)                       \
    X(get_runtime_alignment)                  \
    X(device_malloc_ctx)                      \
    X(device_free_ctx)                        \
    X(committed_device_memory_ctx)            \
    X(copy_to_device_ctx)                     \
    X(copy_from_device_ctx)                   \
    X(simpler_register_callable)              \
    X(simpler_unregister_callable)            \
    X(simpler_prepare_run)                    \
    X(simpler_launch_run)                     \
    X(simpler_poll_run)                       \
    X(simpler_wait_run)                       \
    X(simpler_finalize_run)                   \
    X(simpler_run)                            \
    X(simpler_provision_dma_workspace)        \
    X(get_aicpu_dlopen_count)                 \
    X(get_host_dlopen_count)                  \
    X(get_run_stream_set_create_count)        \
    X(get_pipeline_contract)                  \
    X(supports_concurrent_native_prepare_ctx) \
    X(get_arena_bank_gm_heap_base_ctx)        \
    X(get_retained_temp_addr_ctx)             \
    X(ensure_acl_ready_ctx)                   \
    X(create_comm_stream_ctx)                 \
    X(destroy_comm_stream_ctx)                \
    X(comm_init)                              \
    X(comm_alloc_windows)                     \
    X(comm_get_local_window_base)             \
    X(comm_get_window_size)                   \
    X(comm_derive_context)                    \
    X(comm_alloc_domain_windows)              \
    X(comm_release_domain_windows)            \
    X(comm_global_domain_prepare)             \
    X(comm_global_domain_import)              \
    X(comm_global_domain_release)             \
    X(comm_barrier)                           \
    X(comm_destroy)

struct library {
    void *handle;
#define X(name) __typeof__(&(name)) name;
    FUNCTIONS(X)
#undef X
};

static const struct variant {
    const char *path;
    bool is_host;
    int threads_max;
} variants[] = {
    { "a2a3/sim/tensormap_and_ringbuffer", false, 4 },
    { "a2a3/sim/host_build_graph", true, 4 },
    { "a5/sim/tensormap_and_ringbuffer", false, 5 },
    { "a5/sim/host_build_graph", true, 5 },
};

enum { VARIANTS = sizeof(variants) / sizeof(variants[0]) };

/* What is tested now. */
static struct library lib;
static const struct variant *variant;
static struct log_state threshold = { LOG_STATE_ABI, sizeof(threshold), PTO_LOG_OFF, 0 };

/* Beside this program's folder, whatever the variant of the build. */
static inline void load_library(const struct variant *which)
{
    char program[PATH_MAX] = "", path[2 * PATH_MAX];

    assert_true(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
    *strrchr(program, '/') = '\0';
    snprintf(path, sizeof(path), "%s/../lib/pto/door/%s/libhost_runtime.so", program, which->path);
    variant = which;
    lib.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (lib.handle == NULL)
        fail_msg("%s", dlerror());
#define X(name)                                     \
    *(void **)&lib.name = dlsym(lib.handle, #name); \
    if (lib.name == NULL)                           \
        fail_msg("%s has no function %s", which->path, #name);
    FUNCTIONS(X)
#undef X
    assert_int_equal(lib.simpler_host_log_bind_state(&threshold), 0);
}

static inline struct worker_device *open_worker_device(void)
{
    struct worker_device *d = lib.create_device_context();

    assert_non_null(d);
    assert_int_equal(lib.simpler_init(d, 0, NULL, 0, NULL, 0, NULL, 0, NULL), 0);
    return d;
}

static inline void close_worker_device(struct worker_device *d)
{
    assert_int_equal(lib.finalize_device(d), 0);
    lib.destroy_device_context(d);
}

static inline uint32_t count_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint32_t count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

#endif
