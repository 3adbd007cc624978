/* SPDX-License-Identifier: Apache-2.0 */
/* Drills with errors of the host side: handles, memory, runs in steps, graphs, system limits. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "tool/drill/stage.h"

enum { STALL_MS = 200, BYTES = 256 };

static void stand_and_submit(struct pto_orch *o, const struct pto_entry *entry)
{
    drill_stand_at_gate();
    for (int i = 0; i < 10; i++)
        pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
}

static void run_to_gate(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_GATE, PTO_INOUT(entry->tensor));
    for (int i = 0; i < 10; i++)
        pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
}

static void orchestrate_forever(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_FOREVER, PTO_INOUT(entry->tensor), PTO_GANG(2));
}

/* Launches a run and waits until its kernel is blocked: at the gate, or in a loop without end. */
static struct pto_run *drills_host_launch(struct stage *s, pto_orch_fn orchestration)
{
    struct pto_run *run = drill_prepare(s, orchestration);

    if (run != NULL && drill_expect(s, pto_run_launch(run) == PTO_OK, "no run can be launched"))
        drill_expect(s, drill_await_kernels(1), "no kernel reaches the gate");
    return run;
}

static void let_end(struct stage *s, struct pto_run *run)
{
    drill_open_gate();
    drill_expect(s, pto_run_wait(run, 0) != PTO_ETIMEOUT, "the run does not end");
}

/* ---- cancelling, one for each state of a run ---- */

static void cancel_prepared(struct stage *s)
{
    struct pto_run *run = drill_prepare(s, drill_orchestrate_well);

    drill_expect(s, pto_run_cancel(run) == PTO_OK, "the run cannot be cancelled");
    drill_finish(s, run);
}

static void cancel_queued(struct stage *s)
{
    struct pto_run *first = drills_host_launch(s, run_to_gate);
    struct pto_run *run = drill_prepare(s, drill_orchestrate_well);

    drill_expect(s, pto_run_launch(run) == PTO_OK && pto_run_cancel(run) == PTO_OK,
                 "the run cannot be launched and cancelled");
    drill_expect(s, pto_run_poll(run) == PTO_RUN_ENDED, "the run waits for the one before it");
    let_end(s, first);
    drill_expect(s, pto_run_finish(first, NULL) == PTO_OK, "the run before it also fails");
    drill_finish(s, run);
}

static void cancel_at_gate(struct stage *s)
{
    struct pto_run *run = drills_host_launch(s, s->drill->orchestration);

    drill_expect(s, pto_run_cancel(run) == PTO_OK, "the run cannot be cancelled");
    let_end(s, run);
    drill_finish(s, run);
}

static void cancel_runaway(struct stage *s)
{
    struct pto_run *run;

    s->options.stall_timeout_ns = STALL_MS * 1000000ull;
    run = drills_host_launch(s, orchestrate_forever);
    drill_expect(s, pto_run_cancel(run) == PTO_OK, "the run cannot be cancelled");
    (void)pto_run_wait(run, 0);
    drill_finish(s, run);
}

static void never_launch(struct stage *s)
{
    drill_finish(s, drill_prepare(s, drill_orchestrate_well));
}

/* ---- waiting ---- */

static void wait_in_vain(struct stage *s)
{
    struct pto_run *run = drills_host_launch(s, run_to_gate);

    drill_judge(s, pto_run_wait(run, 10 * 1000000), NULL);
    let_end(s, run);
    drill_expect(s, pto_run_finish(run, NULL) == PTO_OK, "the run does not continue");
}

static void wait_in_queue(struct stage *s)
{
    struct pto_run *first = drills_host_launch(s, run_to_gate);
    struct pto_run *run;

    s->options.launch_timeout_ns = 10 * 1000000;
    run = drill_prepare(s, drill_orchestrate_well);
    drill_expect(s, pto_run_launch(run) == PTO_OK, "no run can be launched");
    (void)pto_run_wait(run, 0);
    drill_expect(s, pto_run_poll(first) == PTO_RUN_PENDING, "the run waits for the one before it");
    let_end(s, first);
    drill_expect(s, pto_run_finish(first, NULL) == PTO_OK, "the run before it also fails");
    drill_finish(s, run);
}

/* ---- calls before the run has ended ---- */

static void close_with_runs(struct stage *s)
{
    struct pto_run *run = drills_host_launch(s, run_to_gate);

    drill_judge(s, pto_device_close(s->device), NULL);
    let_end(s, run);
    drill_expect(s, pto_run_finish(run, NULL) == PTO_OK, "the run fails");
}

static void finish_early(struct stage *s)
{
    struct pto_run *run = drills_host_launch(s, run_to_gate);

    drill_judge(s, pto_run_finish(run, NULL), NULL);
    let_end(s, run);
    drill_expect(s, pto_run_finish(run, NULL) == PTO_OK, "the run fails");
}

static void destroy_early(struct stage *s)
{
    struct pto_run *run = NULL;

    (void)pto_run_prepare(s->device, s->callable, &s->entry, &s->options, &run);
    drill_judge(s, pto_callable_destroy(s->callable), NULL);
    drill_expect(s, pto_run_finish(run, NULL) == PTO_ECANCELED, "the run cannot be finished");
}

/* stage of the running drill, for an orchestration that starts another run */
static struct stage *outer;
static int inner_status;

static void run_inside(struct pto_orch *o, const struct pto_entry *entry)
{
    inner_status = pto_run(outer->device, outer->callable, entry, NULL, NULL);
    drill_orchestrate_well(o, entry);
}

static void run_within_a_run(struct stage *s)
{
    outer = s;
    drill_expect(s, drill_run(s) == PTO_OK, "the outer run fails as well");
    drill_judge(s, inner_status, NULL);
}

static struct pto_graph *build_graph(struct stage *s, pto_orch_fn orchestration)
{
    struct pto_graph *graph = NULL;
    int status = pto_graph_build(s->device, drill_callable(s, orchestration), &s->entry,
                                 &s->options, NULL, &graph);

    drill_expect(s, status == PTO_OK, "the graph cannot be built: %s (%d)", pto_strerror(status),
                 status);
    return graph;
}

static void launch_graph_twice(struct stage *s)
{
    struct pto_graph *graph = build_graph(s, drill_orchestrate_well);
    struct pto_run *run = NULL;

    drill_expect(s, pto_graph_prepare(graph, &s->entry, NULL, &run) == PTO_OK,
                 "the graph cannot be launched");
    drill_judge(s, pto_graph_run(graph, &s->entry, NULL, NULL), NULL);
    (void)pto_run_finish(run, NULL);
    drill_expect(s, pto_graph_run(graph, &s->entry, NULL, NULL) == PTO_OK,
                 "the graph cannot be launched afterwards");
    drill_expect(s, pto_graph_destroy(graph) == PTO_OK, "the graph cannot be destroyed");
}

/* ---- graphs launched with other arguments ---- */

static void read_scalar(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_INT(pto_scalar(o, 0)), PTO_PASS(1));
}

static void drills_host_read_element(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_INT(PTO_GET(o, &entry->tensor[1], 2)));
}

static void use_both(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(&entry->tensor[1]));
}

/*
 * Builds a graph, launches it with an entry that `change` has modified, and launches it again with
 * the original entry.
 */
static void launch_changed(struct stage *s, void (*change)(struct stage *s))
{
    struct pto_graph *graph = build_graph(s, s->drill->orchestration);
    const struct pto_tensor tensor[2] = { s->tensor[0], s->tensor[1] };
    const struct pto_entry entry = s->entry;
    uint32_t *word = pto_tensor_data(&s->tensor[1]);
    int status;

    change(s);
    status = pto_graph_run(graph, &s->entry, NULL, &s->report);
    drill_judge(s, status, &s->report.error);
    memcpy(s->tensor, tensor, sizeof(tensor));
    s->entry = entry;
    s->scalar[0] = 7;
    word[2] = 0;
    status = pto_graph_run(graph, &s->entry, NULL, NULL);
    drill_expect(s, status == PTO_OK, "the graph does not run as it was built: %s (%d)",
                 pto_strerror(status), status);
    drill_expect(s, pto_graph_destroy(graph) == PTO_OK, "the graph cannot be destroyed");
}

static void drop_a_tensor(struct stage *s)
{
    s->entry.tensor_count = 1;
}

static void change_shape(struct stage *s)
{
    s->tensor[0] = pto_tensor_view(&s->tensor[0], PTO_DIMS(4), PTO_DIMS(0));
}

static void change_scalar(struct stage *s)
{
    s->scalar[0]++;
}

static void let_overlap(struct stage *s)
{
    s->tensor[1].addr = s->tensor[0].addr;
}

static void change_element(struct stage *s)
{
    uint32_t *word = pto_tensor_data(&s->tensor[1]);

    word[2] = 5;
}

static void graph_count(struct stage *s)
{
    launch_changed(s, drop_a_tensor);
}

static void graph_shape(struct stage *s)
{
    launch_changed(s, change_shape);
}

static void graph_scalar(struct stage *s)
{
    launch_changed(s, change_scalar);
}

static void graph_unused(struct stage *s)
{
    (void)pto_run_options_vary(&s->options, 0);
    launch_changed(s, change_scalar);
}

/* Builds a graph with a scalar that is declared to vary. */
static void build_varying(struct stage *s, uint32_t index)
{
    struct pto_graph *graph = NULL;

    (void)pto_run_options_vary(&s->options, index);
    drill_judge(s,
                pto_graph_build(s->device, drill_callable(s, s->drill->orchestration), &s->entry,
                                &s->options, &s->report, &graph),
                &s->report.error);
}

static void varying_read(struct stage *s)
{
    build_varying(s, 0);
}

static void varying_absent(struct stage *s)
{
    build_varying(s, 2);
}

static void graph_overlap(struct stage *s)
{
    launch_changed(s, let_overlap);
}

static void relaunch_with_element(struct stage *s)
{
    launch_changed(s, change_element);
}

/* ---- handles and parameters ---- */

static void no_device(struct stage *s)
{
    drill_judge(s, pto_run(NULL, s->callable, &s->entry, NULL, NULL), NULL);
}

static void closed_device(struct stage *s)
{
    struct pto_device *device = s->device;

    drill_expect(s, pto_device_close(device) == PTO_OK, "the device cannot be closed");
    s->device = NULL;
    drill_judge(s, pto_run(device, s->callable, &s->entry, NULL, NULL), NULL);
    drill_reopen(s, &(struct pto_device_params){ .size = sizeof(struct pto_device_params) });
}

static void other_handle(struct stage *s)
{
    drill_judge(s, pto_run((struct pto_device *)s->callable, s->callable, &s->entry, NULL, NULL),
                NULL);
}

static void made_up_handle(struct stage *s)
{
    drill_judge(s, pto_device_close((struct pto_device *)(uintptr_t)0x1234), NULL);
}

static void options_of_another_version(struct stage *s)
{
    s->options.size--;
    drill_judge(s, drill_run(s), NULL);
}

static void finish_twice(struct stage *s)
{
    struct pto_run *run = drill_prepare(s, drill_orchestrate_well);

    (void)pto_run_finish(run, NULL);
    drill_judge(s, pto_run_finish(run, NULL), NULL);
}

static struct pto_orch *kept_orch;
static int late_status;

static void keep_orch(struct pto_orch *o, const struct pto_entry *entry)
{
    kept_orch = o;
    drill_orchestrate_well(o, entry);
}

static void submit_late(struct stage *s)
{
    drill_expect(s, drill_run(s) == PTO_OK, "the run also fails");
    late_status = pto_orch_status(kept_orch);
    drill_judge(s, late_status, NULL);
}

static void unknown_platform(struct stage *s)
{
    struct pto_device_params params;
    struct pto_device *device = NULL;

    pto_device_params_init(&params);
    params.platform = "nochip";
    drill_judge(s, pto_device_open(&params, &device), NULL);
}

static void use_after_fork(struct stage *s)
{
    int state = 0;
    pid_t child = fork();

    if (child == 0)
        _exit(-pto_run(s->device, s->callable, &s->entry, NULL, NULL) & 0xff);
    waitpid(child, &state, 0);
    drill_expect(s, WIFEXITED(state), "the child did not end by itself");
    /* An exit code has eight bits, so only the lowest eight bits of the status can be compared. */
    drill_judge(s, WEXITSTATUS(state) == (-PTO_EFORKED & 0xff) ? PTO_EFORKED : PTO_EINVAL, NULL);
}

/* ---- shared objects ---- */

static void try_to_load(struct stage *s, const char *path, const char *symbol)
{
    struct pto_callable *callable = NULL;
    int status;

    status = pto_callable_load(path, symbol, &callable, &s->report.error);
    drill_judge(s, status, &s->report.error);
}

static void load_nothing(struct stage *s)
{
    try_to_load(s, "/nowhere/kernels.so", NULL);
}

/* Returns the path of a shared object of this process, so that the file exists. */
static const char *library_path(void)
{
    Dl_info info = { 0 };

    return dladdr((void *)(uintptr_t)pto_version, &info) != 0 ? info.dli_fname : "";
}

static void load_without_symbol(struct stage *s)
{
    try_to_load(s, library_path(), "pto_callable");
}

/*
 * Loads a symbol that is the name of a function, where the library expects the name of callable
 * parameters.
 */
static void load_other_symbol(struct stage *s)
{
    try_to_load(s, library_path(), "pto_version");
}

/* ---- memory ---- */

static uint64_t allocate(struct stage *s)
{
    uint64_t addr = 0;

    drill_expect(s, pto_mem_alloc(s->device, BYTES, &addr) == PTO_OK,
                 "device memory cannot be allocated");
    return addr;
}

static void judge_free(struct stage *s, uint64_t addr)
{
    int status = pto_mem_free(s->device, addr, &s->report.error);

    drill_judge(s, status, &s->report.error);
}

static void free_twice(struct stage *s)
{
    uint64_t addr = allocate(s);

    (void)pto_mem_free(s->device, addr, NULL);
    judge_free(s, addr);
}

static void free_inside(struct stage *s)
{
    uint64_t addr = allocate(s);

    judge_free(s, addr + 64);
    drill_expect(s, pto_mem_free(s->device, addr, NULL) == PTO_OK,
                 "the memory is not allocated after the refused free");
}

static void free_foreign(struct stage *s)
{
    judge_free(s, (uint64_t)(uintptr_t)s);
}

static void free_overrun(struct stage *s)
{
    uint64_t addr = allocate(s);

    ((volatile char *)(uintptr_t)addr)[BYTES] = 1;
    judge_free(s, addr);
}

static void check_overrun(struct stage *s)
{
    uint64_t addr = allocate(s);
    volatile char *byte = (volatile char *)(uintptr_t)addr + BYTES;
    char before = *byte;
    int status;

    *byte = 1;
    status = pto_mem_check(s->device, &s->report.error);
    drill_judge(s, status, &s->report.error);
    *byte = before;
    drill_expect(s, pto_mem_check(s->device, NULL) == PTO_OK,
                 "the memory is damaged after the drill");
}

static void write_beyond(struct stage *s)
{
    char bytes[BYTES + 1] = { 0 };

    drill_judge(s, pto_mem_write(s->device, allocate(s), bytes, sizeof(bytes)), NULL);
}

static void read_foreign(struct stage *s)
{
    char bytes[BYTES];

    drill_judge(s, pto_mem_read(s->device, (uint64_t)(uintptr_t)s, bytes, sizeof(bytes)), NULL);
}

static void allocate_everything(struct stage *s)
{
    uint64_t addr = 0;

    drill_judge(s, pto_mem_alloc(s->device, 1ull << 46, &addr), NULL);
}

/* ---- system limits ---- */

static bool limit(int resource, uint64_t value, struct rlimit *before)
{
    struct rlimit now;

    if (getrlimit(resource, before) != 0)
        return false;
    now = *before;
    now.rlim_cur = value < before->rlim_max ? value : before->rlim_max;
    return setrlimit(resource, &now) == 0;
}

static void no_descriptors(struct stage *s)
{
    struct pto_run *run = drill_prepare(s, drill_orchestrate_well);
    struct rlimit before;

    if (!limit(RLIMIT_NOFILE, 0, &before)) {
        drill_skip(s, "the limit of descriptors cannot be set here");
        return;
    }
    drill_judge(s, pto_run_fd(run), NULL);
    (void)setrlimit(RLIMIT_NOFILE, &before);
    drill_expect(s, pto_run_fd(run) >= 0, "there is no descriptor when the limit is raised again");
    (void)pto_run_finish(run, NULL);
}

static void write_nowhere(struct stage *s)
{
    int status;

    s->options.trace = PTO_TRACE_ORDER;
    drill_expect(s, drill_run(s) == PTO_OK, "the run also fails");
    status = pto_trace_write(s->device, "/nowhere/timeline.json", &s->report.error);
    drill_judge(s, status, &s->report.error);
}

uint64_t drill_address_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * os_page_bytes();
}

static void gang_of_four(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_IDLE, PTO_IN(entry->tensor), PTO_GANG(4));
}

static void no_threads(struct stage *s)
{
    struct rlimit before;
    int status;

    if (!limit(RLIMIT_AS, drill_address_bytes() + (1 << 20), &before)) {
        drill_skip(s, "the limit of address space cannot be set here");
        return;
    }
    status = drill_run(s);
    (void)setrlimit(RLIMIT_AS, &before);
    drill_judge(s, status, &s->report.error);
}

static void no_address_space(struct stage *s)
{
    struct pto_device_params params;
    struct pto_device *device = NULL;
    struct rlimit before;
    int status;

    if (!limit(RLIMIT_AS, drill_address_bytes() + (1 << 30), &before)) {
        drill_skip(s, "the limit of address space cannot be set here");
        return;
    }
    pto_device_params_init(&params);
    params.platform = s->setting->platform;
    status = pto_device_open(&params, &device);
    (void)setrlimit(RLIMIT_AS, &before);
    drill_judge(s, status, NULL);
}

const struct drill drills_host[] = {
    { PTO_ETIMEOUT, "wait",
      "pto_run_wait with a time-out that is shorter than the run, which continues",
      .play = wait_in_vain },
    { PTO_ETIMEOUT, "deadline-queue", "a deadline while the run is queued", .play = wait_in_queue,
      .text = "had not started 10 ms after its launch" },

    { PTO_EINVAL, "no-device", "a run on the device NULL", .play = no_device },
    { PTO_EINVAL, "closed-device", "a run on a device that was closed", .play = closed_device },
    { PTO_EINVAL, "other-handle", "a callable in place of a device", .play = other_handle },
    { PTO_EINVAL, "made-up-handle", "a handle that was never created", .play = made_up_handle },
    { PTO_EINVAL, "other-version", "run options with an unknown struct size",
      .play = options_of_another_version },
    { PTO_EINVAL, "finish-twice", "a run that is finished twice", .play = finish_twice },
    { PTO_EINVAL, "late-call", "a call with the handle of an orchestration that has returned",
      .play = submit_late, .orchestration = keep_orch },

    { PTO_ENOMEM, "device-memory", "an allocation of 64 TiB of device memory",
      .play = allocate_everything, .flags = DRILL_LIMITS },
    { PTO_ENOMEM, "address-space", "a device that is opened with 1 GiB of address space left",
      .play = no_address_space, .flags = DRILL_LIMITS },
    { PTO_ENOSUP, "unknown-platform", "a device opened for a platform that does not exist",
      .play = unknown_platform },

    { PTO_ESYSTEM, "no-descriptors", "pto_run_fd with no free descriptor", .play = no_descriptors },
    { PTO_ESYSTEM, "no-file", "a timeline written to a folder that does not exist",
      .play = write_nowhere, .orchestration = drill_orchestrate_well,
      .text = "/nowhere/timeline.json" },
    { PTO_ESYSTEM, "no-threads", "a gang of four blocks while no thread can be started",
      .play = no_threads, .orchestration = gang_of_four,
      .text = "the system refuses to create threads", .kernel = KERNEL_IDLE,
      .flags = DRILL_SITE | DRILL_TASK | DRILL_LIMITS, .workers = 1 },

    { PTO_ECANCELED, "cancel-prepared", "a run cancelled before it is launched",
      .play = cancel_prepared, .text = "before it started" },
    { PTO_ECANCELED, "cancel-queued", "a run cancelled while it waits for another one",
      .play = cancel_queued, .text = "before it started" },
    { PTO_ECANCELED, "cancel-building", "a run cancelled while its graph is built",
      .play = cancel_at_gate, .orchestration = stand_and_submit,
      .text = "while its graph was built" },
    { PTO_ECANCELED, "cancel-running", "a run cancelled while a kernel runs",
      .play = cancel_at_gate, .orchestration = run_to_gate, .text = "after 1 of 11 tasks" },
    { PTO_ECANCELED, "cancel-runaway", "a cancelled run whose kernels never return",
      .play = cancel_runaway, .text = "was cancelled", .flags = DRILL_LOST },
    { PTO_ECANCELED, "never-launched", "a run finished without a launch", .play = never_launch,
      .text = "never launched" },

    { PTO_EBUSY, "close-early", "a device closed during a run", .play = close_with_runs },
    { PTO_EBUSY, "finish-early", "pto_run_finish during the run", .play = finish_early },
    { PTO_EBUSY, "destroy-early", "a callable destroyed while a run uses it",
      .play = destroy_early },
    { PTO_EBUSY, "run-within-run", "a run started by an orchestration on its own device",
      .play = run_within_a_run, .orchestration = run_inside },
    { PTO_EBUSY, "graph-twice", "a graph launched a second time during its run",
      .play = launch_graph_twice },

    { PTO_EMEMORY, "free-twice", "device memory freed twice", .play = free_twice,
      .text = "was freed before" },
    { PTO_EMEMORY, "free-inside", "device memory freed at an address inside of it",
      .play = free_inside, .text = "is inside an allocation" },
    { PTO_EMEMORY, "free-foreign", "pto_mem_free of memory that is not the device's",
      .play = free_foreign, .text = "was not allocated on this device" },
    { PTO_EMEMORY, "free-overrun",
      "a byte written past the end of device memory, found by pto_mem_free", .play = free_overrun,
      .text = "written beyond its end: it has 256 bytes" },
    { PTO_EMEMORY, "check-overrun",
      "a byte written past the end of device memory, found by pto_mem_check", .play = check_overrun,
      .text = "written beyond its end: it has 256 bytes" },
    { PTO_EMEMORY, "write-beyond", "pto_mem_write beyond the end of device memory",
      .play = write_beyond },
    { PTO_EMEMORY, "read-foreign", "pto_mem_read of memory that is not the device's",
      .play = read_foreign },

    { PTO_EFORKED, "fork", "a run on the parent's device in a child process",
      .play = use_after_fork },
    { PTO_ELOAD, "no-object", "a load of a shared object that does not exist", .play = load_nothing,
      .text = "/nowhere/kernels.so" },
    { PTO_ELOAD, "no-symbol", "a load of a shared object without the symbol pto_callable",
      .play = load_without_symbol, .text = "export a struct pto_callable_params under that name" },
    { PTO_ELOAD, "other-symbol",
      "a load of a shared object whose symbol is no struct pto_callable_params",
      .play = load_other_symbol, .text = "is not valid" },

    { PTO_EGRAPH, "graph-count", "a graph launched with one tensor missing", .play = graph_count,
      .orchestration = use_both,
      .text = "built with 2 tensors and 2 scalars; the launch has 1 and 2" },
    { PTO_EGRAPH, "graph-shape", "a graph launched with a tensor of another shape",
      .play = graph_shape, .orchestration = use_both,
      .text = "tensor 0 of the entry has another shape" },
    { PTO_EGRAPH, "graph-scalar",
      "a graph launched with another value of a scalar that was not declared to vary",
      .play = graph_scalar, .orchestration = read_scalar,
      .text = "scalar 0 of the entry was 7 when the graph was built and is 8" },
    { PTO_EGRAPH, "graph-unused",
      "a graph launched with another value of a scalar that no task gets", .play = graph_unused,
      .orchestration = use_both, .text = "no task gets it" },
    { PTO_EARGS, "varying-read", "a graph that reads a scalar that was declared to vary",
      .play = varying_read, .orchestration = read_scalar,
      .text = "reads scalar 0 of the entry with pto_scalar, but it was declared to vary" },
    { PTO_EARGS, "varying-absent", "a varying scalar that the entry does not have",
      .play = varying_absent, .orchestration = read_scalar,
      .text = "scalar 2 was declared to vary" },
    { PTO_EGRAPH, "graph-overlap", "a graph launched with tensors that overlap",
      .play = graph_overlap, .orchestration = use_both,
      .text = "tensors 0 and 1 of the entry overlap" },
    { PTO_EGRAPH, "graph-element",
      "a graph launched with another value of an element that was read",
      .play = relaunch_with_element, .orchestration = drills_host_read_element,
      .text = "at byte 8 of tensor 1 of the entry" },
    { 0 },
};

const struct drill_gap drill_gaps[] = {
    { -10, "SCOPE_TASKS_OVERFLOW",
      "a ring is full (EWINDOW) before the reference's table of tasks in scopes can be" },
    { PTO_EARGS, NULL, "more than 2^32 tasks in one run take hours" },
    { PTO_ESTALL, NULL, "sub_class=S3, a ready task that gets no core, needs a bug of the engine" },
    { PTO_ESTALL, NULL,
      "sub_class=S5, a graph that is never complete, ends at the deadline (ETIMEOUT), because "
      "submits are progress" },
    { PTO_EAGAIN, NULL, "65 callables on one device need a compiler" },
    { PTO_EPEER, NULL,
      "only isolated devices and workers return it, and drills use a device in their own process" },
    { PTO_EACCESS, NULL, "a kernel that reports its accesses needs a compiler" },
    { PTO_ENAN, NULL, "`pto run --nan` returns it for a scene whose kernel computes NaN" },
    { PTO_EBUILD, NULL, "a source that is rejected needs a compiler" },
    { PTO_EMISMATCH, NULL, "`pto test` and `pto run` return it for a scene with a wrong result" },
    { 0 },
};
