/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chip in virtual time as a backend: its tables, open and close, and code. Its memory is that
 * of a simulated chip.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "chip/chip.h"
#include "virtual/virtual.h"

enum {
    /* stack of the scheduler and the orchestration; pages are allocated on use */
    STACK_BYTES = 8 << 20,
    MESSAGE_ALIGN = 128,
};

/* The clock of the chip that this thread belongs to. */
static __thread struct virtual_clock *clock_here;

static int virtual_open(const struct chip_params *params, struct chip **chip_out,
                        struct pto_error *error);
static bool virtual_close(struct chip *chip);
static bool virtual_is_builder(struct chip *chip);
static int virtual_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out,
                         struct pto_error *error);
static int virtual_free(struct chip *chip, uint64_t addr, struct pto_error *error);
static int virtual_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                         struct pto_error *error);
static int virtual_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                        struct pto_error *error);
static bool virtual_contains(struct chip *chip, uint64_t addr);
static int virtual_check(struct chip *chip, struct pto_error *error);
static int virtual_register_memory(struct chip *chip, uint64_t addr, uint64_t bytes);
static void virtual_unregister_memory(struct chip *chip, uint64_t addr);

static const struct chip_device_ops device_ops = {
    .open = virtual_open,
    .close = virtual_close,
    .is_builder = virtual_is_builder,
};

static const struct chip_memory_ops memory_ops = {
    .alloc = virtual_alloc,
    .free = virtual_free,
    .write = virtual_write,
    .read = virtual_read,
    .contains = virtual_contains,
    .check = virtual_check,
    .register_memory = virtual_register_memory,
    .unregister_memory = virtual_unregister_memory,
};

const struct chip_backend virtual_backend = {
    .name = "virtual",
    .device = &device_ops,
    .memory = &memory_ops,
    .runs = &virtual_run_ops,
    .time = &virtual_time_ops,
};

__attribute__((noinline)) struct virtual_clock *virtual_clock_here(void)
{
    return clock_here;
}

void virtual_clock_enter(struct virtual_clock *c)
{
    clock_here = c;
}

/* ---- open, close ---- */

int virtual_ask(struct virtual_chip *v, enum board_op op, uint64_t value, const void *message,
                uint64_t bytes, struct pto_error *error)
{
    struct board_call call = { .board = (uint64_t)(uintptr_t)v->board,
                               .magic = BOARD_MAGIC,
                               .version = BOARD_VERSION,
                               .op = op,
                               .sequence = ++v->sequence,
                               .value = value,
                               .message = (uint64_t)(uintptr_t)message,
                               .message_bytes = bytes };
    const struct board_answer *answer = &v->board->answer;

    if (virtual_scheduler(&call) != 0 || answer->sequence != v->sequence)
        return error_setf(error, PTO_ESYSTEM, "the scheduler did not answer");
    return answer->status < 0 ? error_setf(error, answer->status, "%s", answer->text) : PTO_OK;
}

/* Allocates the scheduler's memory, and sets up the registers of the cores. */
static int open_scheduler(struct virtual_chip *v, struct pto_error *error)
{
    struct board *board = v->board;
    struct virtual_clock *outer = clock_here;
    struct board_open open = { .size = { sizeof(struct board), sizeof(struct run_message),
                                         sizeof(struct run_ended), sizeof(struct pto_tensor),
                                         sizeof(struct board_load), sizeof(struct board_run),
                                         sizeof(struct card_graph) },
                               .clusters = v->base.properties.clusters,
                               .memory_max = v->memory_max,
                               .engine = (uint64_t)(uintptr_t)v->engine,
                               .engine_bytes = v->memory_max,
                               .heap = (uint64_t)(uintptr_t)v->heap,
                               .heap_bytes = v->memory_max };
    int status;

    board->magic = BOARD_MAGIC;
    board->version = BOARD_VERSION;
    board->blocks = v->base.properties.clusters;
    board->windows.bell_offset = VIRTUAL_BELL;
    board->windows.cond_offset = VIRTUAL_COND;
    for (uint32_t i = 0; i < v->clock->core_count; i++) {
        board->windows.base[i] = (uint64_t)(uintptr_t)&v->clock->window[i];
        v->clock->end_ns[i] = VIRTUAL_NEVER;
    }
    clock_here = v->clock;
    status = virtual_ask(v, BOARD_OPEN, 0, &open, sizeof(open), error);
    clock_here = outer;
    v->clock->machine = (void *)(uintptr_t)board->scheduler;
    return status;
}

static void *take_zeroed(size_t align, size_t bytes)
{
    void *memory = aligned_alloc(align, (bytes + align - 1) / align * align);

    if (memory != NULL)
        memset(memory, 0, bytes);
    return memory;
}

static void *virtual_reserve(uint64_t bytes)
{
    void *memory = os_reserve(bytes);

    if (memory != NULL && os_commit(memory, bytes) < 0) {
        os_release(memory, bytes);
        return NULL;
    }
    return memory;
}

static void set_properties(struct virtual_chip *v, const struct chip_params *params)
{
    v->base.backend = &virtual_backend;
    v->base.properties = (struct chip_properties){
        .backend = virtual_backend.name,
        .clusters = params->clusters,
        .aic_count = PTO_CLUSTER_AICS * params->clusters,
        .aiv_count = PTO_CLUSTER_AIVS * params->clusters,
        .workers = 1,
        .shares_memory = true,
        .runs_functions = true,
        .has_graphs = true,
        .has_recorder = true,
        .records_tasks = true,
        .has_guards = true,
        .ends_stalls = true,
        .has_virtual_time = true,
    };
    v->memory_max = params->memory_max;
    pthread_mutex_init(&v->lock, NULL);
}

static int open_parts(struct virtual_chip *v, const struct chip_params *params,
                      struct pto_error *error)
{
    struct chip_params memory = *params;
    struct pto_virtual_options options;
    int status;

    memory.backend = "sim";
    memory.workers = 1;
    status = chip_open(&memory, &v->memory, error);
    pto_virtual_options_init(&options);
    if (status >= 0)
        status = virtual_time_ops.set(&v->base, &options, error);
    if (status < 0)
        return status;
    v->board = take_zeroed(BOARD_LINE, sizeof(*v->board));
    v->message = take_zeroed(MESSAGE_ALIGN, MESSAGE_BYTES);
    v->engine = virtual_reserve(v->memory_max);
    v->heap = virtual_reserve(v->memory_max);
    if (v->board == NULL || v->message == NULL || v->engine == NULL || v->heap == NULL ||
        fiber_create(STACK_BYTES, &v->fiber) < 0)
        return error_setf(error, PTO_ENOMEM, "there is no memory for a chip in virtual time");
    v->has_handler = v->base.properties.survives_crashes = crash_init();
    return open_scheduler(v, error);
}

static int virtual_open(const struct chip_params *params, struct chip **chip_out,
                        struct pto_error *error)
{
    struct virtual_chip *v;
    int status;

    if (params->clusters > BOARD_CORES / PTO_CLUSTER_CORES)
        return error_setf(error, PTO_EINVAL,
                          "%u clusters are too many: a chip in virtual time has at most %d",
                          params->clusters, BOARD_CORES / PTO_CLUSTER_CORES);
    v = calloc(1, sizeof(*v));
    if (v == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for a chip");
    set_properties(v, params);
    v->clock = take_zeroed(VIRTUAL_CLOCK_ALIGN, sizeof(*v->clock));
    if (v->clock == NULL) {
        (void)virtual_close(&v->base);
        return error_setf(error, PTO_ENOMEM, "there is no memory for a chip");
    }
    v->clock->chip = v;
    v->clock->core_count = PTO_CLUSTER_CORES * params->clusters;
    status = open_parts(v, params, error);
    if (status < 0)
        (void)virtual_close(&v->base);
    else
        *chip_out = &v->base;
    return status;
}

static bool virtual_close(struct chip *chip)
{
    struct virtual_chip *v = virtual_of(chip);
    bool is_complete = virtual_threads_close(v);

    if (v->has_handler)
        crash_fini(!is_complete);
    if (!is_complete)
        return false;
    if (v->clock != NULL && v->clock->machine != NULL)
        (void)virtual_ask(v, BOARD_CLOSE, 0, NULL, 0, NULL);
    virtual_record_close(v);
    pipes_drop(&v->pipes);
    for (uint32_t i = 0; i < BOARD_CORES; i++)
        free(v->job[i].times);
    fiber_destroy(v->fiber);
    (void)chip_close(v->memory);
    os_release(v->engine, v->memory_max);
    os_release(v->heap, v->memory_max);
    free(v->board);
    free(v->message);
    free(v->code);
    free(v->count);
    free(v->origin);
    free(v->task_ns);
    free(v->written.buffer);
    cost_model_destroy(v->costs);
    cost_model_destroy(v->next_costs);
    free(v->clock);
    pthread_mutex_destroy(&v->lock);
    free(v);
    return true;
}

/* Whether the calling thread is one of the chip's; the orchestration runs only on those. */
static bool virtual_is_builder(struct chip *chip)
{
    return clock_here == virtual_of(chip)->clock;
}

/* ---- memory ---- */

static int virtual_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out,
                         struct pto_error *error)
{
    return chip_alloc(virtual_of(chip)->memory, bytes, addr_out, error);
}

static int virtual_free(struct chip *chip, uint64_t addr, struct pto_error *error)
{
    return chip_free(virtual_of(chip)->memory, addr, error);
}

static int virtual_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                         struct pto_error *error)
{
    return chip_write(virtual_of(chip)->memory, addr, from, bytes, error);
}

static int virtual_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                        struct pto_error *error)
{
    return chip_read(virtual_of(chip)->memory, addr, to, bytes, error);
}

static bool virtual_contains(struct chip *chip, uint64_t addr)
{
    return chip_contains(virtual_of(chip)->memory, addr);
}

static int virtual_check(struct chip *chip, struct pto_error *error)
{
    return chip_check(virtual_of(chip)->memory, error);
}

static int virtual_register_memory(struct chip *chip, uint64_t addr, uint64_t bytes)
{
    return chip_register_memory(virtual_of(chip)->memory, addr, bytes);
}

static void virtual_unregister_memory(struct chip *chip, uint64_t addr)
{
    chip_unregister_memory(virtual_of(chip)->memory, addr);
}
