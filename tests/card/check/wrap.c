/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto check` on cards of the stand-in, whose control processor and cores are threads of this
 * process: code on the card calls the checker's orchestration and kernels through a page at a fixed
 * address, and the memory of a run is in the card's memory. The linker replaces the wrapped
 * functions by the functions of this file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tool/check/check_trial.h"
#include "page.h"

struct check_graph *__real_check_graph_generate(uint64_t seed, uint32_t task_count,
                                                enum pto_deps deps, uint32_t clusters);
struct check_graph *__wrap_check_graph_generate(uint64_t seed, uint32_t task_count,
                                                enum pto_deps deps, uint32_t clusters);
int __wrap_check_make_callable(struct pto_callable **callable_out);
int __real_pto_run(struct pto_device *device, struct pto_callable *callable,
                   const struct pto_entry *entry, const struct pto_run_options *options,
                   struct pto_run_report *report);
int __wrap_pto_run(struct pto_device *device, struct pto_callable *callable,
                   const struct pto_entry *entry, const struct pto_run_options *options,
                   struct pto_run_report *report);

int __real_pto_graph_build(struct pto_device *device, struct pto_callable *callable,
                           const struct pto_entry *entry, const struct pto_run_options *options,
                           struct pto_run_report *report, struct pto_graph **graph_out);
int __wrap_pto_graph_build(struct pto_device *device, struct pto_callable *callable,
                           const struct pto_entry *entry, const struct pto_run_options *options,
                           struct pto_run_report *report, struct pto_graph **graph_out);
int __real_pto_graph_run(struct pto_graph *graph, const struct pto_entry *entry,
                         const struct pto_run_options *options, struct pto_run_report *report);
int __wrap_pto_graph_run(struct pto_graph *graph, const struct pto_entry *entry,
                         const struct pto_run_options *options, struct pto_run_report *report);
int __real_pto_graph_destroy(struct pto_graph *graph);
int __wrap_pto_graph_destroy(struct pto_graph *graph);
void __wrap_check_compare_edges(const struct check_run *run);

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* Kernels of the card cannot find their task by their code, so each task gets a scalar. */
struct check_graph *__wrap_check_graph_generate(uint64_t seed, uint32_t task_count,
                                                enum pto_deps deps, uint32_t clusters)
{
    struct check_graph *g = __real_check_graph_generate(seed, task_count, deps, clusters);

    for (uint32_t i = 0; i < g->task_count; i++)
        if (g->tasks[i].scalar_count == 0 && check_task_has_kernel(&g->tasks[i]))
            g->tasks[i].scalar_count = 1;
    return g;
}

static void run_kernel(const int64_t *args, void *task, uint32_t lane)
{
    check_kernel_body(args, task, lane);
}

static void run_orchestration(void *orch, const void *entry)
{
    check_orchestrate(orch, entry);
}

static struct pto_callable *of_mode[PTO_MODE_COUNT];

/* One for each mode: on a card they have orchestrations for different processors. */
int __wrap_check_make_callable(struct pto_callable **callable_out)
{
    struct pto_error error;

    pto_error_init(&error);
    if (mmap(CHECK_PAGE, 4096, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != CHECK_PAGE)
        fail("the page is taken");
    CHECK_PAGE->kernel = run_kernel;
    CHECK_PAGE->orchestrate = run_orchestration;
    for (uint32_t mode = 0; mode < PTO_MODE_COUNT; mode++) {
        char path[1024];

        snprintf(path, sizeof(path), "%s-%s.ptoc", getenv("CHECK_CALLABLE"), pto_mode_name(mode));
        if (pto_callable_load_file(path, NULL, &of_mode[mode], &error) < 0)
            fail(error.text);
    }
    *callable_out = of_mode[PTO_MODE_STREAM];
    return PTO_OK;
}

void __wrap_check_compare_edges(const struct check_run *run)
{
    (void)run; /* nobody checks these values; bytes and times are compared instead */
}

/* Copies memory of the host to new memory of the card. */
static void *put(struct pto_device *device, const void *from, uint64_t bytes)
{
    uint64_t addr;

    if (pto_mem_alloc(device, bytes + 1, &addr) < 0)
        fail("the card has no memory");
    return memcpy((void *)(uintptr_t)addr, from, bytes);
}

/* Copies it back afterwards. */
static void take(struct pto_device *device, void *on_card, void *to, uint64_t bytes)
{
    memcpy(to, on_card, bytes);
    if (pto_mem_free(device, (uint64_t)(uintptr_t)on_card, NULL) < 0)
        fail("the card's memory cannot be freed");
}

/* The host's memory of the run, while the run's tasks are at this address on the card. */
struct moved {
    struct check_run_task *tasks;
    uint8_t *arena;
};

/* Other memory, and counters, which are in tasks, must be memory of the card. */
static struct moved move_to_card(struct pto_device *device, struct check_run *run,
                                 struct check_run_task *on_card)
{
    const struct moved here = { run->tasks, run->arena };

    run->arena = put(device, here.arena, run->g->arena_bytes);
    run->tasks = memcpy(on_card, here.tasks, run->g->task_count * sizeof(*run->tasks));
    CHECK_PAGE->run = run;
    return here;
}

static void move_back(struct pto_device *device, struct check_run *run, struct moved here,
                      struct pto_run_report *report)
{
    check_helper_drain(&run->runner->helper);
    take(device, run->arena, here.arena, run->g->arena_bytes);
    run->arena = here.arena;
    memcpy(here.tasks, run->tasks, run->g->task_count * sizeof(*run->tasks));
    run->tasks = here.tasks;
    report->workers = 2; /* the scheduler is one thread, and its cores run at the same time */
}

static struct check_run_task *put_tasks(struct pto_device *device, const struct check_run *run)
{
    return put(device, run->tasks, run->g->task_count * sizeof(*run->tasks));
}

static void drop_tasks(struct pto_device *device, struct check_run_task *on_card)
{
    if (pto_mem_free(device, (uint64_t)(uintptr_t)on_card, NULL) < 0)
        fail("the card's memory cannot be freed");
}

int __wrap_pto_run(struct pto_device *device, struct pto_callable *callable,
                   const struct pto_entry *entry, const struct pto_run_options *options,
                   struct pto_run_report *report)
{
    struct check_run *run = (struct check_run *)(uintptr_t)entry->scalar[0];
    struct check_run_task *tasks = put_tasks(device, run);
    struct moved here = move_to_card(device, run, tasks);
    struct pto_run_options unwatched = *options;
    int status;

    (void)callable;
    unwatched.edge = NULL;
    status = __real_pto_run(device, of_mode[options->mode], entry, &unwatched, report);
    move_back(device, run, here, report);
    drop_tasks(device, tasks);
    return status;
}

/*
 * Tasks are identified by scalars of the graph, so they stay at their addresses until it is
 * destroyed.
 */
static struct check_run_task *graph_tasks;
static struct pto_device *graph_device;

int __wrap_pto_graph_build(struct pto_device *device, struct pto_callable *callable,
                           const struct pto_entry *entry, const struct pto_run_options *options,
                           struct pto_run_report *report, struct pto_graph **graph_out)
{
    struct check_run *run = (struct check_run *)(uintptr_t)entry->scalar[0];
    struct pto_tensor arena = entry->tensor[0];
    struct pto_entry moved = { 1, 1, &arena, entry->scalar };
    struct moved here;
    int status;

    graph_device = device;
    graph_tasks = put_tasks(device, run);
    here = move_to_card(device, run, graph_tasks);
    arena.addr = (uint64_t)(uintptr_t)run->arena;
    if (getenv("CHECK_HOST_GRAPHS") != NULL)
        callable = of_mode[PTO_MODE_HOST];
    status = __real_pto_graph_build(device, callable, &moved, options, report, graph_out);
    move_back(device, run, here, report);
    if (status < 0)
        drop_tasks(device, graph_tasks);
    return status;
}

int __wrap_pto_graph_run(struct pto_graph *graph, const struct pto_entry *entry,
                         const struct pto_run_options *options, struct pto_run_report *report)
{
    struct check_run *run = (struct check_run *)(uintptr_t)entry->scalar[0];
    struct moved here = move_to_card(graph_device, run, graph_tasks);
    struct pto_tensor arena = entry->tensor[0];
    struct pto_entry moved = { 1, 1, &arena, entry->scalar };
    int status;

    arena.addr = (uint64_t)(uintptr_t)run->arena;
    status = __real_pto_graph_run(graph, &moved, options, report);
    move_back(graph_device, run, here, report);
    return status;
}

int __wrap_pto_graph_destroy(struct pto_graph *graph)
{
    int status = __real_pto_graph_destroy(graph);

    drop_tasks(graph_device, graph_tasks);
    return status;
}
