/* SPDX-License-Identifier: Apache-2.0 */
/* Describes a crash: the signal, the place, and the arguments of the kernel. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/absent.h"
#include "host/error_text.h"

static const char *signal_name(uint64_t number)
{
    return number == SIGSEGV ? "SIGSEGV: it accessed memory that is not mapped"
           : number == SIGBUS
               ? "SIGBUS: it accessed memory that is not aligned, or that the system cannot provide"
           : number == SIGFPE
               ? "SIGFPE: it divided by zero, or a division overflowed"
               : "SIGILL: it executed an instruction that this processor does not have";
}

static int describe_tensor(const struct pto_tensor *t, char *text, size_t size)
{
    int used = snprintf(text, size, "%s[", pto_dtype_text(t->dtype));

    for (uint32_t i = 0; i < t->ndims && i < PTO_MAX_DIMS && (size_t)used < size; i++)
        used += snprintf(text + used, size - (size_t)used, i == 0 ? "%u" : ",%u", t->shapes[i]);
    if ((size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, "] at %#" PRIx64,
                         (uint64_t)(uintptr_t)pto_tensor_data(t));
    return used;
}

/*
 * Writes a text such as "; arguments: int32[8] at 0x1000, 3". Arguments that do not fit are only in
 * the failure report.
 */
static void describe_arguments(const struct backtrace *t, char *text, size_t size)
{
    uint32_t count = t->tensor_count + t->scalar_count;
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        uint32_t scalar = i - t->tensor_count;
        bool is_tensor = i < t->tensor_count;
        char one[100];

        if (is_tensor && i < BACKTRACE_ARGS)
            (void)describe_tensor(&t->tensor[i], one, sizeof(one));
        else if (!is_tensor && scalar < BACKTRACE_ARGS)
            snprintf(one, sizeof(one), "%#" PRIx64, t->scalar[scalar]);
        else
            snprintf(one, sizeof(one), "...");
        if (used + strlen(one) + 16 > size)
            return;
        used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "; arguments: " : ", ",
                                 one);
        if (strcmp(one, "...") == 0)
            return;
    }
}

void error_text_crash(const struct chip_result *result, const char *name, struct pto_error *error)
{
    static const char *const lanes[] = { "AIC", "AIV0", "AIV1" };
    const struct failure *f = &result->failure;
    const char *signal = signal_name(f->value[4]);
    char what[240], where[180], with[160], absent[120];

    if (result->trace.overflow_bytes != 0) {
        snprintf(what, sizeof(what), "overflowed its stack of %" PRIu64 " KiB",
                 result->trace.overflow_bytes >> 10);
        signal = "SIGSEGV: its calls are nested too deep, or its variables too large";
    } else if (f->kernel < 0 && f->value[1] != 0)
        snprintf(what, sizeof(what),
                 "used entry->scalar[%" PRIu64 "], but the entry has %" PRIu64 " scalars",
                 f->value[0] + f->value[1] - 1, f->value[0]);
    else if (absent_find(f->value[0], absent, sizeof(absent))) {
        snprintf(what, sizeof(what), "accessed address %#" PRIx64 " in %s", f->value[0], absent);
        signal = "kernels reach a window on another host by pto_window_put, _get and _signal only";
    } else
        snprintf(what, sizeof(what), "crashed at address %#" PRIx64, f->value[0]);
    lines_describe(&result->trace.lines, where, sizeof(where));
    if (f->kernel < 0) {
        char last[100] = "before its first submit";

        if (f->value[3] != 0)
            snprintf(last, sizeof(last),
                     "in an operation of the runtime, to which it passed a bad address");
        else if (f->value[2] != 0)
            snprintf(last, sizeof(last), "after its submit of task %" PRIu64, f->value[2] - 1);
        error_text_appendf(error, "the orchestration %s, %s (%s)%s", what, last, signal, where);
        return;
    }
    describe_arguments(&result->trace, with, sizeof(with));
    error_text_appendf(
        error, "kernel \"%s\" %s in block %" PRIu64 " of task %" PRIu64 ", lane %s (%s)%s%s", name,
        what, f->value[1], f->value[2], lanes[f->value[3] % 3], signal, where, with);
}

/*
 * Appends the backtrace of a crashed kernel, one line for each function, and the kernel's
 * arguments.
 */
void failure_report_add_crash(struct failure_report *report, const struct backtrace *trace)
{
    for (uint32_t i = 0; i < trace->lines.count; i++) {
        const struct source_line *line = &trace->lines.line[i];

        failure_report_addf(report, "#%u %s (%s", i,
                            line->function[0] != '\0' ? line->function : "?", line->file);
        failure_report_addf(report, line->line != 0 ? ":%d)\n" : ")\n", line->line);
    }
    for (uint32_t i = 0; i < trace->tensor_count && i < BACKTRACE_ARGS; i++) {
        char text[100];

        (void)describe_tensor(&trace->tensor[i], text, sizeof(text));
        failure_report_addf(report, "argument %u: %s\n", i, text);
    }
    for (uint32_t i = 0; i < trace->scalar_count && i < BACKTRACE_ARGS; i++)
        failure_report_addf(report, "argument %u: scalar %" PRIu64 " (%#" PRIx64 ")\n",
                            trace->tensor_count + i, trace->scalar[i], trace->scalar[i]);
}
