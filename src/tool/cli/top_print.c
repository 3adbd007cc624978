/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/cli/top_print.h"

#include <inttypes.h>

#include "pto/rules.h"
#include "tool/scene/terminal.h"

enum { KERNELS_SHOWN = 24, TIME_TEXT = 40 };

static const char *const causes[] = { [PTO_WATCH_READY] = "ready",
                                      [PTO_WATCH_WAITS] = "waits",
                                      [PTO_WATCH_CONDITION] = "condition",
                                      [PTO_WATCH_TOGETHER] = "together" };
static const char *const builders[] = { [PTO_WATCH_NO_BUILDER] = NULL,
                                        [PTO_WATCH_BUILDS] = "builds",
                                        [PTO_WATCH_FOR_ROOM] = "room",
                                        [PTO_WATCH_FOR_TASK] = "task",
                                        [PTO_WATCH_POLLS] = "polls" };

static const char *time_text(uint64_t ns, char text[TIME_TEXT])
{
    uint64_t ms = ns / 1000000, seconds = ms / 1000;

    if (seconds < 1)
        snprintf(text, TIME_TEXT, "%" PRIu64 " ms", ms);
    else if (seconds < 120)
        snprintf(text, TIME_TEXT, "%" PRIu64 ".%" PRIu64 " s", seconds, ms % 1000 / 100);
    else
        snprintf(text, TIME_TEXT, "%" PRIu64 " min %" PRIu64 " s", seconds / 60, seconds % 60);
    return text;
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* ---- for people ---- */

static void print_submit(FILE *to, const char *file, uint32_t line)
{
    if (file[0] == '\0')
        return;
    fprintf(to, ", submitted at ");
    terminal_print(to, file, true);
    fprintf(to, ":%u", line);
}

static void top_print_name(FILE *to, const char *name, int64_t func_id)
{
    fprintf(to, " ");
    if (name[0] != '\0')
        terminal_print(to, name, true);
    else if (func_id >= 0)
        fprintf(to, "kernel %" PRId64, func_id);
    else
        fprintf(to, "without a kernel");
}

static void print_kernel(FILE *to, const struct pto_watch_kernel *kernel)
{
    char time[TIME_TEXT], core[32];

    snprintf(core, sizeof(core), "%s %u", kernel->is_aiv != 0 ? "AIV" : "AIC", kernel->core);
    fprintf(to, "      %-8s task %u", core, kernel->task);
    top_print_name(to, kernel->name, kernel->func_id);
    if (kernel->block != 0)
        fprintf(to, ", block %u", kernel->block);
    fprintf(to, ": runs for %s", time_text(kernel->running_ns, time));
    print_submit(to, kernel->file, kernel->line);
    fprintf(to, "\n");
}

static void print_awaited(FILE *to, const struct pto_watch_task *task)
{
    uint32_t count =
        task->awaited_count < PTO_WATCH_AWAITED ? task->awaited_count : PTO_WATCH_AWAITED;

    fprintf(to, "waits for task%s", plural(task->awaited_count));
    for (uint32_t i = 0; i < count; i++)
        fprintf(to, "%s %u", i != 0 ? "," : "", task->awaited[i]);
    if (task->awaited_count > count)
        fprintf(to, " and %u more", task->awaited_count - count);
}

static void print_task(FILE *to, const struct pto_watch_task *task)
{
    fprintf(to, "      %-8s task %u", "", task->task);
    top_print_name(to, task->name, task->func_id);
    fprintf(to, ": ");
    switch ((enum pto_watch_cause)task->cause) {
    case PTO_WATCH_WAITS:
        print_awaited(to, task);
        break;
    case PTO_WATCH_CONDITION:
        fprintf(to, "waits until the counter at 0x%" PRIx64 " is %u; it is %u", task->addr,
                task->expected, task->counter);
        break;
    case PTO_WATCH_TOGETHER:
        fprintf(to, "waits for cores that are free together");
        break;
    case PTO_WATCH_READY:
        fprintf(to, "is ready, and waits for a core");
        break;
    }
    print_submit(to, task->file, task->line);
    fprintf(to, "\n");
}

static void print_builder(FILE *to, const struct pto_watch_device *device)
{
    switch (device->builder) {
    case PTO_WATCH_NO_BUILDER:
        return;
    case PTO_WATCH_BUILDS:
        fprintf(to, "      the orchestration executes\n");
        return;
    case PTO_WATCH_FOR_ROOM:
        fprintf(to, "      the orchestration waits for room for more tasks\n");
        return;
    case PTO_WATCH_FOR_TASK:
        fprintf(to, "      the orchestration waits for task %u\n", device->builder_task);
        return;
    case PTO_WATCH_POLLS:
        fprintf(to, "      the orchestration polls for something outside of the run\n");
        return;
    }
}

static void print_tasks(FILE *to, const struct pto_watch_device *device)
{
    uint32_t shown = device->kernel_count < KERNELS_SHOWN ? device->kernel_count : KERNELS_SHOWN;
    char time[TIME_TEXT];

    fprintf(to, "      %u task%s submitted, %u completed, %u live, %u kernel%s running",
            device->submitted, plural(device->submitted), device->submitted - device->live,
            device->live, device->running, plural(device->running));
    if (device->still_ns >= 1000000000)
        fprintf(to, "; no kernel has started or returned for %s",
                time_text(device->still_ns, time));
    fprintf(to, "\n");
    print_builder(to, device);
    for (uint32_t i = 0; i < shown; i++)
        print_kernel(to, &device->kernel[i]);
    if (device->running > shown)
        fprintf(to, "      and %u more\n", device->running - shown);
    for (uint32_t i = 0; i < device->task_count; i++)
        print_task(to, &device->task[i]);
}

static void print_run(FILE *to, const struct pto_watch_run *run)
{
    char time[TIME_TEXT];

    fprintf(to, "    run %" PRIu64 " of \"", run->number);
    terminal_print(to, run->callable, true);
    fprintf(to, "\", %s%s, for %s\n", pto_mode_name(run->mode),
            run->builds != 0     ? ", builds a graph to keep"
            : run->launches != 0 ? ", launches a graph"
                                 : "",
            time_text(run->running_ns, time));
}

void cli_top_print(FILE *to, const struct pto_watch_device *device, bool is_brief)
{
    char time[TIME_TEXT];

    if (device->is_other_build) {
        fprintf(to, "  a device of another version of the library; use its `pto top`\n");
        return;
    }
    fprintf(to, "  device %s, %s", device->platform, device->mode);
    if (device->chip_pid != 0)
        fprintf(to, " in process %d", device->chip_pid);
    fprintf(to, ", %u AIC and %u AIV, open for %s: ", device->aic_count, device->aiv_count,
            time_text(device->open_ns, time));
    if (device->loss != NULL) {
        fprintf(to, "lost; ");
        terminal_print(to, device->loss, true);
    } else {
        fprintf(to, "%s", device->run_count != 0 ? "running" : "idle");
    }
    fprintf(to, ", %u queued, %" PRIu64 " run%s ended%s\n", device->queued, device->ended,
            plural(device->ended), device->is_torn ? ", being changed" : "");
    for (uint32_t i = 0; i < device->run_count; i++) {
        print_run(to, &device->run[i]);
        if (i == 0 && !is_brief && device->has_tasks)
            print_tasks(to, device);
        else if (i == 0 && !is_brief)
            fprintf(
                to, "      its tasks are not known%s\n",
                device->shows_tasks ? " yet" : ": only a simulated chip in real time shows them");
    }
}

/* ---- for programs ---- */

static void json_submit(struct json *j, const char *name, const char *file, uint32_t line)
{
    cli_json_string(j, "kernel", name[0] != '\0' ? name : NULL);
    cli_json_string(j, "file", file[0] != '\0' ? file : NULL);
    cli_json_integer(j, "line", line);
}

static void json_kernels(struct json *j, const struct pto_watch_device *device)
{
    cli_json_open(j, "kernels", '[');
    for (uint32_t i = 0; i < device->kernel_count; i++) {
        const struct pto_watch_kernel *kernel = &device->kernel[i];

        cli_json_open(j, NULL, '{');
        cli_json_string(j, "core_type", kernel->is_aiv != 0 ? "AIV" : "AIC");
        cli_json_integer(j, "core", kernel->core);
        cli_json_integer(j, "task", kernel->task);
        cli_json_integer(j, "block", kernel->block);
        cli_json_integer(j, "func_id", kernel->func_id);
        json_submit(j, kernel->name, kernel->file, kernel->line);
        cli_json_integer(j, "running_ns", kernel->running_ns);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void json_waiting(struct json *j, const struct pto_watch_device *device)
{
    cli_json_open(j, "waiting", '[');
    for (uint32_t i = 0; i < device->task_count; i++) {
        const struct pto_watch_task *task = &device->task[i];

        cli_json_open(j, NULL, '{');
        cli_json_integer(j, "task", task->task);
        cli_json_string(j, "cause", causes[task->cause]);
        json_submit(j, task->name, task->file, task->line);
        if (task->cause == PTO_WATCH_CONDITION) {
            cli_json_integer(j, "address", task->addr);
            cli_json_integer(j, "counter", task->counter);
            cli_json_integer(j, "expected", task->expected);
        }
        cli_json_integer(j, "awaited_count", task->awaited_count);
        cli_json_open(j, "awaited", '[');
        for (uint32_t k = 0; k < task->awaited_count && k < PTO_WATCH_AWAITED; k++)
            cli_json_integer(j, NULL, task->awaited[k]);
        cli_json_close(j, ']');
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void json_tasks(struct json *j, const struct pto_watch_device *device)
{
    cli_json_open(j, "tasks", '{');
    cli_json_integer(j, "submitted", device->submitted);
    cli_json_integer(j, "completed", device->submitted - device->live);
    cli_json_integer(j, "live", device->live);
    cli_json_integer(j, "running_kernels", device->running);
    cli_json_integer(j, "still_ns", device->still_ns);
    cli_json_string(j, "orchestration", builders[device->builder]);
    if (device->builder == PTO_WATCH_FOR_TASK)
        cli_json_integer(j, "orchestration_task", device->builder_task);
    json_kernels(j, device);
    json_waiting(j, device);
    cli_json_close(j, '}');
}

static void json_runs(struct json *j, const struct pto_watch_device *device)
{
    cli_json_open(j, "runs", '[');
    for (uint32_t i = 0; i < device->run_count; i++) {
        const struct pto_watch_run *run = &device->run[i];

        cli_json_open(j, NULL, '{');
        cli_json_integer(j, "number", run->number);
        cli_json_string(j, "callable", run->callable);
        cli_json_string(j, "mode", pto_mode_name(run->mode));
        cli_json_string(j, "purpose",
                        run->builds != 0     ? "build"
                        : run->launches != 0 ? "launch"
                                             : "run");
        cli_json_integer(j, "running_ns", run->running_ns);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

void cli_top_print_json(struct json *j, const struct pto_watch_device *device)
{
    cli_json_open(j, NULL, '{');
    cli_json_integer(j, "pid", (uint64_t)device->pid);
    cli_json_integer(j, "parent", device->parent > 0 ? (uint64_t)device->parent : 0);
    cli_json_string(j, "program", device->program);
    cli_json_bool(j, "is_other_build", device->is_other_build);
    if (!device->is_other_build) {
        cli_json_string(j, "platform", device->platform);
        cli_json_string(j, "mode", device->mode);
        if (device->chip_pid != 0)
            cli_json_integer(j, "chip_pid", (uint64_t)device->chip_pid);
        cli_json_integer(j, "workers", device->workers);
        cli_json_integer(j, "aic_count", device->aic_count);
        cli_json_integer(j, "aiv_count", device->aiv_count);
        cli_json_integer(j, "open_ns", device->open_ns);
        cli_json_string(j, "loss", device->loss);
        cli_json_bool(j, "is_torn", device->is_torn);
        cli_json_integer(j, "ended", device->ended);
        cli_json_integer(j, "queued", device->queued);
        json_runs(j, device);
        if (device->has_tasks)
            json_tasks(j, device);
    }
    cli_json_close(j, '}');
}
