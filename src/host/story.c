/* SPDX-License-Identifier: Apache-2.0 */
/* The story of a run that failed: its sentence, then tasks that did not move, a line each. */
#include "host/sentences.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { STORY_TAIL = 40 }; /* bytes that are kept for the number of tasks left out */

static void story_tell_tasks(struct story *story, const struct stall *stall,
                             const struct callable *c);

void story_write(struct story *story, const struct chip_result *result, const struct callable *c,
                 const struct pto_error *error)
{
    story->length = 0;
    story->text[0] = '\0';
    if (error->status >= 0)
        return;
    story_tell(story, "%s (%d)\n%s\n", pto_strerror(error->status), error->status, error->text);
    if (result == NULL)
        return;
    if (result->is_lost)
        story_tell(story, "%s; close it and open another one\n", sentence_of_loss(result));
    if (result->failure.fault == FAULT_CRASH)
        story_crash(story, &result->trace);
    story_tell_tasks(story, &result->stall, c);
}

void story_tell(struct story *story, const char *format, ...)
{
    size_t left = sizeof(story->text) - story->length;
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(story->text + story->length, left, format, args);
    va_end(args);
    pto_text_clean(story->text + story->length, false);
    if (length > 0)
        story->length += (size_t)length < left ? (uint32_t)length : (uint32_t)left - 1;
}

static void story_tell_task(struct story *story, const struct stall_task *task,
                            const struct callable *c)
{
    story_tell(story, "task %u, kernel \"%s\"", task->index, sentence_kernel_name(c, task->kernel));
    if (task->site.file != NULL)
        story_tell(story, " (%s:%d)", task->site.file, task->site.line);
    switch (task->cause) {
    case STALL_RUNS:
        story_tell(story, ": runs block %u on %s %u\n", task->block, task->is_aiv ? "AIV" : "AIC",
                   task->core);
        return;
    case STALL_DEFERRED:
        story_tell(story,
                   ": waits for the counter at %#" PRIx64 ", which is %u and has to reach %u\n",
                   task->addr, task->counter, task->expected);
        return;
    case STALL_QUEUED:
        story_tell(story, ": waits for cores that are free together\n");
        return;
    case STALL_WAITS:
        for (uint32_t i = 0; i < task->wait_count && i < STALL_WAITS_TOLD; i++)
            story_tell(story, "%s %u", i == 0 ? ": waits for task" : ",", task->wait[i]);
        if (task->wait_count > STALL_WAITS_TOLD)
            story_tell(story, " and %u more", task->wait_count - STALL_WAITS_TOLD);
        story_tell(story, "\n");
        return;
    case STALL_RAN:
        story_tell(story, ": ran block %u, and nothing after it on its thread\n", task->block);
        return;
    default:
        story_tell(story, ": is ready\n");
    }
}

/* As many tasks as fit, each with a whole line. */
static void story_tell_tasks(struct story *story, const struct stall *stall,
                             const struct callable *c)
{
    uint32_t told = 0;

    for (; told < stall->count; told++) {
        uint32_t before = story->length;

        story_tell_task(story, &stall->task[told], c);
        if (story->length + STORY_TAIL < sizeof(story->text))
            continue;
        story->length = before;
        story->text[before] = '\0';
        break;
    }
    if (stall->count != 0 && (stall->live > told || stall->count > told))
        story_tell(story, "... and %u more\n",
                   (stall->live > stall->count ? stall->live : stall->count) - told);
}
