/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a crash: the signal, where it was, and the arguments of the kernel. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "host/sentences.h"

static const char *signal_name(uint64_t number)
{
    return number == SIGSEGV  ? "SIGSEGV: it used memory that is not there"
           : number == SIGBUS ? "SIGBUS: it used memory that cannot be had, or is not aligned"
           : number == SIGFPE ? "SIGFPE: a division by zero, or an overflow"
                              : "SIGILL: what it ran is no code of this processor";
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static bool is_same_line(const struct source_line *a, const struct source_line *b)
{
    return a->line == b->line && strcmp(a->function, b->function) == 0 &&
           strcmp(a->file, b->file) == 0;
}

/* ", in f (a.c:3), called from g (a.c:9)", as far as there is room. A recursion is told once. */
static void describe_lines(const struct source_lines *lines, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < lines->count && used < size; i++) {
        const struct source_line *line = &lines->line[i];
        const char *function = line->function[0] != '\0' ? line->function : "?";

        if (i != 0 && is_same_line(line, line - 1))
            continue;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s (%s",
                             i == 0 ? ", in " : ", called from ", function, last_part(line->file));
        if (used < size && line->line != 0)
            used += (size_t)snprintf(text + used, size - used, ":%d)", line->line);
        else if (used < size)
            used += (size_t)snprintf(text + used, size - used, ")");
    }
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

/* "; arguments: int32[8] at 0x1000, 3". What does not fit is left to the story. */
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

void sentence_crash(const struct chip_result *result, const char *name, struct pto_error *error)
{
    static const char *const lanes[] = { "AIC", "AIV0", "AIV1" };
    const struct failure *f = &result->failure;
    const char *signal = signal_name(f->value[4]);
    char what[160], where[180], with[160];

    if (result->trace.overflow_bytes != 0) {
        snprintf(what, sizeof(what), "overflowed its stack of %" PRIu64 " KiB",
                 result->trace.overflow_bytes >> 10);
        signal = "SIGSEGV: its calls are nested too deep, or its variables too large";
    } else if (f->kernel < 0 && f->value[1] != 0)
        snprintf(what, sizeof(what),
                 "used entry->scalar[%" PRIu64 "], but the entry has %" PRIu64 " scalars",
                 f->value[0] + f->value[1] - 1, f->value[0]);
    else
        snprintf(what, sizeof(what), "crashed at address %#" PRIx64, f->value[0]);
    describe_lines(&result->trace.lines, where, sizeof(where));
    if (f->kernel < 0) {
        char last[100] = "before its first submit";

        if (f->value[3] != 0)
            snprintf(last, sizeof(last),
                     "in an operation of the runtime that it gave a bad address");
        else if (f->value[2] != 0)
            snprintf(last, sizeof(last), "after its submit of task %" PRIu64, f->value[2] - 1);
        sentence_say(error, "the orchestration %s, %s (%s)%s", what, last, signal, where);
        return;
    }
    describe_arguments(&result->trace, with, sizeof(with));
    sentence_say(error,
                 "kernel \"%s\" %s in block %" PRIu64 " of task %" PRIu64 ", lane %s (%s)%s%s",
                 name, what, f->value[1], f->value[2], lanes[f->value[3] % 3], signal, where, with);
}

/* Where a kernel was, a line for each function, and its arguments. */
void story_crash(struct story *story, const struct backtrace *trace)
{
    for (uint32_t i = 0; i < trace->lines.count; i++) {
        const struct source_line *line = &trace->lines.line[i];

        story_tell(story, "#%u %s (%s", i, line->function[0] != '\0' ? line->function : "?",
                   line->file);
        story_tell(story, line->line != 0 ? ":%d)\n" : ")\n", line->line);
    }
    for (uint32_t i = 0; i < trace->tensor_count && i < BACKTRACE_ARGS; i++) {
        char text[100];

        (void)describe_tensor(&trace->tensor[i], text, sizeof(text));
        story_tell(story, "argument %u: %s\n", i, text);
    }
    for (uint32_t i = 0; i < trace->scalar_count && i < BACKTRACE_ARGS; i++)
        story_tell(story, "argument %u: scalar %" PRIu64 " (%#" PRIx64 ")\n",
                   trace->tensor_count + i, trace->scalar[i], trace->scalar[i]);
}
