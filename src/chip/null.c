/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The null backend: the smallest one, and the one to copy for a new backend;
 * docs/internals/porting.md explains it.
 */
#include "chip/null.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/os.h"
#include "chip/local_code.h"

enum { ALIGN = 1024 };

static int null_open(const struct chip_params *params, struct chip **chip_out,
                     struct pto_error *error);
static bool null_close(struct chip *chip);
static bool null_is_builder(struct chip *chip);
static int null_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out,
                      struct pto_error *error);
static int null_free(struct chip *chip, uint64_t addr, struct pto_error *error);
static int null_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                      struct pto_error *error);
static int null_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                     struct pto_error *error);
static bool null_contains(struct chip *chip, uint64_t addr);
static int null_load(struct chip *chip, const struct chip_program *program,
                     struct chip_code **code_out, struct pto_error *error);
static void null_unload(struct chip *chip, struct chip_code *code);
static int null_start(struct chip *chip, const struct chip_request *request);
static void null_wait(struct chip *chip);
static const struct chip_result *null_report(struct chip *chip, struct pto_run_report *report);
static int null_poll(struct chip *chip);
static void null_cancel(struct chip *chip, uint64_t number);
static uint64_t null_progress(struct chip *chip);

static const struct chip_device_ops device_ops = {
    .open = null_open,
    .close = null_close,
    .is_builder = null_is_builder,
};

static const struct chip_memory_ops memory_ops = {
    .alloc = null_alloc,
    .free = null_free,
    .write = null_write,
    .read = null_read,
    .contains = null_contains,
};

static const struct chip_run_ops run_ops = {
    .load = null_load,
    .unload = null_unload,
    .start = null_start,
    .wait = null_wait,
    .report = null_report,
    .poll = null_poll,
    .cancel = null_cancel,
    .progress = null_progress,
};

const struct chip_backend chip_null_backend = {
    .name = "null",
    .device = &device_ops,
    .memory = &memory_ops,
    .runs = &run_ops,
};

/* ---- opening and closing a chip ---- */

static int null_open(const struct chip_params *params, struct chip **chip_out,
                     struct pto_error *error)
{
    struct null *n = aligned_alloc(_Alignof(struct null), sizeof(*n));

    if (n == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for a chip");
    memset(n, 0, sizeof(*n));
    n->base.backend = &chip_null_backend;
    n->base.properties = (struct chip_properties){
        .backend = chip_null_backend.name,
        .clusters = params->clusters,
        .aic_count = PTO_CLUSTER_AICS * params->clusters,
        .aiv_count = PTO_CLUSTER_AIVS * params->clusters,
        .workers = 1,
        .shares_memory = true,
        .runs_functions = true,
    };
    n->memory_max = params->memory_max;
    pthread_mutex_init(&n->lock, NULL);
    core_init(&n->core, n);
    *chip_out = &n->base;
    return PTO_OK;
}

static bool null_close(struct chip *chip)
{
    struct null *n = null_of(chip);

    while (n->allocation != NULL)
        (void)null_free(chip, n->allocation->addr, NULL);
    pthread_mutex_destroy(&n->lock);
    free(n);
    return true;
}

static bool null_is_builder(struct chip *chip)
{
    return aptr_load_relaxed(&null_of(chip)->builder) == __builtin_thread_pointer();
}

/* ---- memory ---- */

static int null_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out,
                      struct pto_error *error)
{
    struct null *n = null_of(chip);
    struct null_allocation *a = malloc(sizeof(*a));
    void *memory = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);

    (void)error;
    if (a == NULL || memory == NULL) {
        free(a);
        free(memory);
        return PTO_ENOMEM;
    }
    a->addr = (uint64_t)(uintptr_t)memory;
    a->bytes = bytes;
    pthread_mutex_lock(&n->lock);
    a->next = n->allocation;
    n->allocation = a;
    pthread_mutex_unlock(&n->lock);
    *addr_out = a->addr;
    return PTO_OK;
}

/*
 * Finds an allocation by an address inside of it. Returns the pointer in the list that points to
 * it, which is NULL if there is none.
 */
static struct null_allocation **null_find_containing(struct null *n, uint64_t addr)
{
    struct null_allocation **link = &n->allocation;

    assert_held(&n->lock);
    while (*link != NULL && (addr < (*link)->addr || addr - (*link)->addr >= (*link)->bytes))
        link = &(*link)->next;
    return link;
}

static int null_free(struct chip *chip, uint64_t addr, struct pto_error *error)
{
    struct null *n = null_of(chip);
    struct null_allocation **link, *a;

    pthread_mutex_lock(&n->lock);
    link = null_find_containing(n, addr);
    a = *link;
    if (a != NULL && a->addr == addr)
        *link = a->next;
    else
        a = NULL;
    pthread_mutex_unlock(&n->lock);
    if (a == NULL)
        return error_setf(error, PTO_EMEMORY,
                          "%#llx is not the start of an allocation on this device, or it was freed "
                          "before",
                          (unsigned long long)addr);
    free((void *)(uintptr_t)addr);
    free(a);
    return PTO_OK;
}

/* Copies `from` to device memory; or, if that is NULL, device memory to `to`. */
static int null_copy(struct null *n, uint64_t addr, const void *from, void *to, uint64_t bytes)
{
    const struct null_allocation *a;
    int status = PTO_EMEMORY;

    pthread_mutex_lock(&n->lock);
    a = *null_find_containing(n, addr);
    if (a != NULL && bytes <= a->bytes - (addr - a->addr)) { /* mutation: beyond-allocation */
        memcpy(to != NULL ? to : (void *)(uintptr_t)addr,
               from != NULL ? from : (const void *)(uintptr_t)addr, bytes);
        status = PTO_OK;
    }
    pthread_mutex_unlock(&n->lock);
    return status;
}

static int null_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                      struct pto_error *error)
{
    (void)error;
    return null_copy(null_of(chip), addr, from, NULL, bytes);
}

static int null_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                     struct pto_error *error)
{
    (void)error;
    return null_copy(null_of(chip), addr, NULL, to, bytes);
}

static bool null_contains(struct chip *chip, uint64_t addr)
{
    struct null *n = null_of(chip);
    bool is_there;

    pthread_mutex_lock(&n->lock);
    is_there = *null_find_containing(n, addr) != NULL;
    pthread_mutex_unlock(&n->lock);
    return is_there;
}

/* ---- code ---- */

static int null_load(struct chip *chip, const struct chip_program *program,
                     struct chip_code **code_out, struct pto_error *error)
{
    (void)chip;
    return local_code_load(program, code_out, error);
}

static void null_unload(struct chip *chip, struct chip_code *code)
{
    (void)chip;
    local_code_unload(code);
}

/* ---- runs ---- */

/*
 * Starts a run: discards the state of the previous run, except the number that was cancelled last.
 */
static int null_start(struct chip *chip, const struct chip_request *request)
{
    struct null *n = null_of(chip);

    n->request = request;
    n->functions = request->functions != NULL ? request->functions : &request->code->functions;
    n->result = (struct chip_result){ .failure.status = PTO_OK };
    n->tasks = 0;
    n->time = chip_time_of(request);
    memset(n->core_executions, 0, sizeof(n->core_executions));
    memset(n->timing, 0, sizeof(n->timing));
    a64_store_relaxed(&n->executions, 0); /* relaxed: the counter orders no other data */
    a32_store_relaxed(&n->has_ended, 0);  /* relaxed: this store publishes no data */
    return PTO_OK;
}

static void null_wait(struct chip *chip)
{
    struct null *n = null_of(chip);

    n->begin_ns = os_now_ns();
    null_build(n);
    n->run_ns = os_now_ns() - n->begin_ns;
    a32_store_release(&n->has_ended, 1); /* R1: publishes the results of the run */
}

static const struct chip_result *null_report(struct chip *chip, struct pto_run_report *report)
{
    const struct null *n = null_of(chip);
    const struct chip_properties *p = &n->base.properties;

    report->tasks = n->tasks;
    report->executions = a64_load_relaxed(&n->executions); /* relaxed: the run has ended */
    report->ns = n->run_ns;
    report->workers = p->workers;
    report->core_count = p->aic_count + p->aiv_count;
    /* All executions are counted for the first core of each type. */
    report->core_tasks[0] = n->core_executions[PTO_CORE_AIC];
    report->core_tasks[p->aic_count] = n->core_executions[PTO_CORE_AIV];
    memcpy(report->timing, n->timing, sizeof(report->timing));
    return &n->result;
}

static int null_poll(struct chip *chip)
{
    bool has_ended = a32_load_acquire(&null_of(chip)->has_ended) != 0; /* A1: see the results */

    return has_ended ? PTO_RUN_ENDED : PTO_RUN_PENDING;
}

/*
 * Stores the number of the run to cancel: the orchestration checks for cancellation in each of its
 * calls.
 */
static void null_cancel(struct chip *chip, uint64_t number)
{
    struct null *n = null_of(chip);

    pthread_mutex_lock(&n->lock);
    if (number > a64_load_relaxed(&n->cancelled)) /* relaxed: the lock keeps writers apart */
        a64_store_relaxed(&n->cancelled, number); /* relaxed: the run may see the number late */
    pthread_mutex_unlock(&n->lock);
}

static uint64_t null_progress(struct chip *chip)
{
    /* relaxed: the counter orders no other data */
    return a64_load_relaxed(&null_of(chip)->executions);
}
