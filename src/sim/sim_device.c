/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated chip as a backend: its tables, open and close, pools of the engine, code. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limit.h"
#include "sim/sim.h"

enum {
    STACK_BYTES = 8 << 20, /* stack of the graph builder; pages are allocated on use */
    SPINS = 2000,          /* polls for work before a thread sleeps */
    POOL_UNIT_LOG = 28,    /* log2 of 256 MiB, the unit in which pools get address space */
    POOL_ALIGN = 2 << 20,
    POOL_KEEP = 64 << 20, /* memory that a pool keeps mapped between runs */
};

static int sim_open(const struct chip_params *params, struct chip **chip_out,
                    struct pto_error *error);
static bool sim_close(struct chip *chip);
static bool sim_is_builder(struct chip *chip);
static int sim_load(struct chip *chip, const struct chip_program *program,
                    struct chip_code **code_out, struct pto_error *error);
static void sim_unload(struct chip *chip, struct chip_code *code);

static const struct chip_device_ops device_ops = {
    .open = sim_open,
    .close = sim_close,
    .is_builder = sim_is_builder,
};

static const struct chip_run_ops run_ops = {
    .load = sim_load,
    .unload = sim_unload,
    .start = sim_start,
    .wait = sim_wait,
    .report = sim_report,
    .poll = sim_poll,
    .cancel = sim_cancel,
    .progress = sim_progress,
    .drop = sim_drop,
    .record = sim_record,
};

const struct chip_backend sim_backend = {
    .name = "sim",
    .device = &device_ops,
    .memory = &sim_memory_ops,
    .runs = &run_ops,
};

/* ---- pools ---- */

static void reserve_pool(struct pool *pool, uint64_t share, void *context)
{
    struct sim *m = context;

    uint64_t bytes = share << POOL_UNIT_LOG;

    if (pool == &m->graph.heap_pool && m->is_heap_elsewhere)
        return;
    /* outputs of tasks may use the whole memory budget */
    if (pool == &m->graph.heap_pool || bytes > m->budget.max)
        bytes = (m->budget.max + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
    /* no check here, because the caller checks all pools after the last one */
    (void)sim_pool_reserve(pool, bytes, &m->budget);
}

static void release_pool(struct pool *pool, uint64_t share, void *context)
{
    const struct sim *m = context;

    (void)share;
    if (pool != &m->graph.heap_pool || !m->is_heap_elsewhere)
        sim_pool_release(pool);
}

static void trim_pool(struct pool *pool, uint64_t share, void *context)
{
    const struct sim *m = context;

    (void)share;
    if (pool != &m->graph.heap_pool || !m->is_heap_elsewhere)
        sim_pool_trim(pool, POOL_KEEP);
}

static void find_missing(struct pool *pool, uint64_t share, void *context)
{
    bool *is_missing = context;

    (void)share;
    if (pool->base == NULL)
        *is_missing = true;
}

/* Makes the symbols of libptosim visible in the whole process, however this library was loaded. */
static void share_hooks(void)
{
    void *hooks = dlopen("libptosim.so.0", RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);

    if (hooks != NULL)
        /* closes only this handle; libptosim stays loaded because libpto is linked to it */
        dlclose(hooks);
}

static void each_pool(struct sim *m, void (*each)(struct pool *pool, uint64_t share, void *context),
                      void *context)
{
    graph_each_pool(&m->graph, each, context);
    ledger_each_pool(&m->ledger, each, context);
    orch_each_pool(&m->orch, each, context);
}

void sim_trim_pools(struct sim *m)
{
    each_pool(m, trim_pool, m);
}

/* ---- open, close ---- */

static void set_up(struct sim *m, const struct chip_params *params)
{
    m->base = (struct chip){ .backend = &sim_backend,
                             .properties = { .backend = sim_backend.name,
                                             .clusters = params->clusters,
                                             .aic_count = PTO_CLUSTER_AICS * params->clusters,
                                             .aiv_count = PTO_CLUSTER_AIVS * params->clusters,
                                             .workers = params->workers,
                                             .shares_memory = true,
                                             .runs_functions = true,
                                             .has_observers = true,
                                             .has_graphs = true,
                                             .has_recorder = true,
                                             .records_tasks = true,
                                             .has_guards = true,
                                             .has_nan_check = true,
                                             .ends_stalls = true } };
    m->orch.graph = &m->graph;
    m->orch.rings = &m->ledger;
    m->orch.sched = &m->sched;
    m->orch.machine = m;
    m->orch.budget = &m->budget;
    m->orch.clusters = params->clusters;
    orch_open(&m->orch);
    m->budget.max = params->memory_max;
    m->is_heap_elsewhere = params->heap != 0;
    /* only the addresses of outputs are used; their memory is never accessed */
    if (m->is_heap_elsewhere)
        m->graph.heap_pool = (struct pool){ .base = (char *)(uintptr_t)params->heap,
                                            .limit = params->heap_bytes,
                                            .max = params->heap_bytes,
                                            .owner = &m->budget };
    m->thread_max = PTO_CLUSTER_CORES * params->clusters + params->workers;
    m->spins = params->workers <= os_cpu_count() ? SPINS : 0;
    m->has_fence_all = os_fence_all_init();
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->memory_lock, NULL);
    pthread_mutex_init(&m->step_lock, NULL);
    pthread_mutex_init(&m->dump.lock, NULL);
    sched_init(&m->sched, m);
    sim_init_cores(m, params->clusters);
    sim_init_thread(m, &m->caller);
    sim_add_watch(m, &m->caller);
}

int sim_open_in(const struct chip_params *params, struct arena *arena, struct chip **chip_out)
{
    struct sim *m = aligned_alloc(128, (sizeof(*m) + 127) / 128 * 128);
    bool is_missing = false;
    int status;

    if (m == NULL)
        return PTO_ENOMEM;
    memset(m, 0, sizeof(*m));
    set_up(m, params);
    m->arena = arena;
    each_pool(m, reserve_pool, m);
    each_pool(m, find_missing, &is_missing);
    status = is_missing ? PTO_ENOMEM : sim_record_open(m);
    if (status >= 0)
        status = fiber_create(STACK_BYTES, &m->fiber);
    if (status < 0)
        goto release_pools;
    m->caller.crash.fiber = m->fiber;
    share_hooks();
    m->has_handler = crash_init();
    m->base.properties.survives_crashes = m->has_handler;
    status = sim_start_threads(m, params->workers);
    if (status < 0)
        goto release_pools;
    *chip_out = &m->base;
    return PTO_OK;

release_pools:
    (void)sim_close(&m->base);
    return status;
}

static int sim_open(const struct chip_params *params, struct chip **chip_out,
                    struct pto_error *error)
{
    int status = sim_open_in(params, NULL, chip_out);
    char why[LIMIT_TEXT];

    return status < 0 ? error_setf(error, status, "%s", limit_strerror(status, why)) : PTO_OK;
}

static bool sim_close(struct chip *chip)
{
    struct sim *m = sim_of(chip);
    bool is_complete = sim_end_threads(m);

    if (m->has_handler)
        crash_fini(!is_complete);
    if (!is_complete)
        return false;
    pipes_drop(&m->pipes);
    sim_record_close(m);
    sim_dump_free(m);
    sim_free_touched(&m->caller);
    sim_free_inputs(&m->caller);
    sim_forget_uses(m);
    sim_forget_signals(m);
    sim_guard_free(m);
    sim_release_memory(m);
    for (uint32_t i = 0; i < m->sched.worker_count; i++)
        free(m->sched.worker[i]);
    fiber_destroy(m->fiber);
    each_pool(m, release_pool, m);
    pthread_mutex_destroy(&m->memory_lock);
    pthread_mutex_destroy(&m->step_lock);
    pthread_mutex_destroy(&m->dump.lock);
    pthread_mutex_destroy(&m->lock);
    free(m);
    return true;
}

static bool sim_is_builder(struct chip *chip)
{
    return orch_is_builder(&sim_of(chip)->orch);
}

/* ---- code ---- */

static int sim_load(struct chip *chip, const struct chip_program *program,
                    struct chip_code **code_out, struct pto_error *error)
{
    (void)chip;
    return local_code_load(program, code_out, error);
}

static void sim_unload(struct chip *chip, struct chip_code *code)
{
    if (!sim_of(chip)->is_lost) /* a thread of a lost chip may still execute the code */
        local_code_unload(code);
}
