/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report of a failed run: its error message, then one line for each stuck task. */
#include "host/error_text.h"

#include <stdarg.h>
#include <stdio.h>

enum { TAIL_BYTES = 40 }; /* bytes reserved for the line "... and 12 more" */

static void failure_report_add_tasks(struct failure_report *report, const struct stall *stall,
                                     const struct callable *c);

void failure_report_write(struct failure_report *report, const struct chip_result *result,
                          const struct callable *c, const struct pto_error *error)
{
    report->length = 0;
    report->text[0] = '\0';
    if (error->status >= 0)
        return;
    failure_report_addf(report, "%s (%d)\n%s\n", pto_strerror(error->status), error->status,
                        error->text);
    if (result == NULL)
        return;
    if (result->is_lost)
        failure_report_addf(report, "%s; close it and open another one\n", error_text_loss(result));
    if (result->failure.kind == FAILURE_CRASH || result->failure.kind == FAILURE_TOUCHED ||
        result->trace.lines.count != 0)
        failure_report_add_crash(report, &result->trace);
    failure_report_add_tasks(report, &result->stall, c);
}

void failure_report_addf(struct failure_report *report, const char *format, ...)
{
    size_t left = sizeof(report->text) - report->length;
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(report->text + report->length, left, format, args);
    va_end(args);
    pto_text_clean(report->text + report->length, false);
    if (length > 0)
        report->length += (size_t)length < left ? (uint32_t)length : (uint32_t)left - 1;
}

static void failure_report_add_task(struct failure_report *report, const struct stall_task *task,
                                    const struct callable *c)
{
    failure_report_addf(report, "task %u, kernel \"%s\"", task->index,
                        error_text_kernel_name(c, task->kernel));
    if (task->site.file != NULL)
        failure_report_addf(report, " (%s:%d)", task->site.file, task->site.line);
    switch (task->cause) {
    case STALL_RUNS:
        failure_report_addf(report, ": runs block %u on %s %u\n", task->block,
                            task->is_aiv ? "AIV" : "AIC", task->core);
        return;
    case STALL_DEFERRED:
        failure_report_addf(report,
                            ": waits for the counter at %#llx, which is %u and must reach %u\n",
                            (unsigned long long)task->addr, task->counter, task->expected);
        return;
    case STALL_QUEUED:
        failure_report_addf(report, ": waits for cores that are free together\n");
        return;
    case STALL_WAITS:
        for (uint32_t i = 0; i < task->wait_count && i < STALL_WAITS_MAX; i++)
            failure_report_addf(report, "%s %u", i == 0 ? ": waits for task" : ",", task->wait[i]);
        if (task->wait_count > STALL_WAITS_MAX)
            failure_report_addf(report, " and %u more", task->wait_count - STALL_WAITS_MAX);
        failure_report_addf(report, "\n");
        return;
    case STALL_RAN:
        failure_report_addf(report, ": ran block %u, after which its thread ran nothing\n",
                            task->block);
        return;
    default:
        failure_report_addf(report, ": is ready\n");
    }
}

/* Appends lines for stuck tasks, as many as fit whole. */
static void failure_report_add_tasks(struct failure_report *report, const struct stall *stall,
                                     const struct callable *c)
{
    uint32_t reported = 0;

    for (; reported < stall->count; reported++) {
        uint32_t before = report->length;

        failure_report_add_task(report, &stall->task[reported], c);
        if (report->length + TAIL_BYTES < sizeof(report->text))
            continue;
        report->length = before;
        report->text[before] = '\0';
        break;
    }
    if (stall->count != 0 && (stall->live > reported || stall->count > reported))
        failure_report_addf(report, "... and %u more\n",
                            (stall->live > stall->count ? stall->live : stall->count) - reported);
}
