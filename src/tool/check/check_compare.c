/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a run on a device with what is expected: its dependencies with those of a simple
 * model of the rules, its outputs with those of a sequential execution, and the counts that
 * the run reports with those of its graph. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tool/check/check_trial.h"

void check_compare_edges(const struct check_run *run)
{
    const struct check_graph *g = run->g;

    for (uint32_t b = 0; b < g->task_count; b++) {
        const uint64_t *found = run->found + (size_t)b * g->words;

        for (uint32_t a = 0; a < g->task_count; a++) {
            bool is_expected = bit_get(graph_before(g, b), a);

            if (bit_get(found, a) != is_expected)
                check_find(run->findings, a, b, "%s edge %u -> %u",
                           is_expected ? "missing" : "spurious", a, b);
        }
    }
}

void check_compare_calls(const struct check_run *run, const struct check_run_task *t)
{
    const struct check_graph *g = run->g;
    uint32_t runs = run->oracle->runs[t->index] ? 1 : 0;

    if (t->strays != 0)
        check_find(run->findings, t->index, -1,
                   "%u invocations of task %u got a block or a lane that the task does not have",
                   t->strays, t->index);
    for (uint32_t k = 0; k < t->call_count; k++) {
        const struct check_run_call *call = &t->calls[k];

        if (call->runs != runs)
            check_find(run->findings, t->index, -1, "invocation %u of task %u ran %u times, not %u",
                       k, t->index, call->runs, runs);
        else if (call->fault != NULL)
            check_find(run->findings, t->index, -1, "%s", call->fault);
        /*
         * A single worker thread claims the blocks of a task in order, so they must also start in
         * order.
         */
        else if (run->is_alone && k > 0 && check_lane_count(&g->tasks[t->index]) == 1 &&
                 !g->tasks[t->index].is_gang && call->start < t->calls[k - 1].start)
            check_find(run->findings, t->index, -1,
                       "block %u of task %u started before the previous block", k, t->index);
    }
}

void check_compare_tasks(const struct check_run *run)
{
    const struct check_graph *g = run->g;

    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct check_run_task *t = &run->tasks[i];

        check_compare_calls(run, t);
        if (t->call_count == 0 || t->calls[0].runs != 1 || t->calls[0].fault != NULL)
            continue;
        if (t->id_seen != t->id)
            check_find(run->findings, i, -1,
                       "the kernel got task id %#" PRIx64 ", the submit returned %#" PRIx64,
                       t->id_seen, t->id);
        for (uint32_t k = 0; k < g->tasks[i].arg_count; k++) {
            const struct pto_tensor *given = &run->given[t->first_arg + k];
            const struct pto_tensor *seen = &run->seen[t->first_arg + k];

            if (seen->addr != given->addr || seen->owner.raw != given->owner.raw)
                check_find(
                    run->findings, i, -1,
                    "argument %u of task %u names another storage or owner than was submitted", k,
                    i);
        }
    }
}

/*
 * Returns an error text if two invocations of a team ran on one thread or on wrong clusters: the
 * lanes of a block share a cluster, the blocks of a gang do not. Returns NULL if threads and
 * clusters are right.
 */
static const char *check_compare_judge_pair(const struct check_task *task,
                                            const struct check_run_task *t, uint32_t a, uint32_t b)
{
    uint32_t lanes = check_lane_count(task);
    bool is_block = a / lanes == b / lanes;

    if (pthread_equal(t->calls[a].thread, t->calls[b].thread))
        return "two invocations that run at the same time share a thread";
    if (is_block && t->calls[a].pipe != t->calls[b].pipe)
        return "the lanes of a block are on different clusters";
    if (!is_block && task->is_gang && task->kind != CHECK_AIV && check_has_pipes() &&
        t->calls[a].pipe == t->calls[b].pipe)
        return "two blocks of a gang are on one cluster";
    return NULL;
}

void check_compare_teams(const struct check_run *run)
{
    for (uint32_t i = 0; i < run->g->task_count; i++) {
        const struct check_task *task = &run->g->tasks[i];
        const struct check_run_task *t = &run->tasks[i];

        for (uint32_t b = 0; b < t->call_count && run->oracle->runs[i]; b++) {
            uint32_t first;

            (void)check_team_of(task, b, &first);
            for (uint32_t a = first; a < b; a++) {
                const char *fault = check_compare_judge_pair(task, t, a, b);

                if (fault != NULL)
                    check_find(run->findings, i, -1, "invocations %u and %u of %u: %s", a, b, i,
                               fault);
            }
        }
    }
}

/*
 * Returns the time when a task ended: the time of its last invocation or of its last notification,
 * whichever is later.
 */
static uint64_t last_end(const struct check_task *task, const struct check_run_task *t)
{
    uint64_t end = 0;

    for (uint32_t k = 0; k < t->call_count; k++)
        end = t->calls[k].end > end ? t->calls[k].end : end;
    for (uint32_t k = 0; k < task->defer.notifier_count && task->defer.is_on; k++)
        end = t->notified[k] > end ? t->notified[k] : end;
    return end;
}

static uint64_t first_start(const struct check_run_task *t)
{
    uint64_t start = t->calls[0].start;

    for (uint32_t k = 1; k < t->call_count; k++)
        start = t->calls[k].start < start ? t->calls[k].start : start;
    return start;
}

/*
 * Checks that no task started before its predecessors had ended. A task without invocations counts
 * as ended when its predecessors have ended.
 */
void check_compare_order(const struct check_run *run)
{
    const struct check_graph *g = run->g;
    uint64_t *done = check_alloc(NULL, g->task_count, sizeof(*done));

    for (uint32_t b = 0; b < g->task_count; b++) {
        const struct check_run_task *t = &run->tasks[b];
        bool has_run = run->oracle->runs[b];
        uint64_t start = has_run ? first_start(t) : 0;

        done[b] = has_run ? last_end(&g->tasks[b], t) : 0;
        for (uint32_t a = 0; a < b; a++) {
            if (!bit_get(graph_before(g, b), a))
                continue;
            if (has_run && done[a] >= start)
                check_find(run->findings, a, b, "task %u started before task %u had ended", b, a);
            if (!has_run && done[a] > done[b])
                done[b] = done[a];
        }
    }
    free(done);
}

void check_compare_bytes(const struct check_run *run, const struct check_oracle *oracle)
{
    const struct check_graph *g = run->g;

    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct check_run_task *t = &run->tasks[i];

        for (uint32_t k = 0; k < t->call_count && oracle->runs[i]; k++) {
            if (t->calls[k].hash != oracle->hash[t->calls - run->calls + k])
                check_find(
                    run->findings, i, -1,
                    "invocation %u of task %u read other bytes than in the sequential execution", k,
                    i);
        }
    }
    for (uint32_t i = 0; i < g->arena_bytes; i++) {
        if (run->arena[i] != oracle->arena[i]) {
            check_find(run->findings, -1, -1, "external byte %u is %#x, not %#x", i, run->arena[i],
                       oracle->arena[i]);
            return;
        }
    }
}

void check_find(struct check_findings *findings, int64_t a, int64_t b, const char *format, ...)
{
    struct check_finding *item = &findings->item[findings->count];
    va_list list;

    if (findings->count++ >= FINDINGS_MAX)
        return;
    item->task[0] = (int32_t)a;
    item->task[1] = (int32_t)b;
    va_start(list, format);
    vsnprintf(item->text, sizeof(item->text), format, list);
    va_end(list);
}

void check_findings_print(const struct check_findings *findings, const struct check_graph *g)
{
    for (uint32_t i = 0; i < findings->count && i < FINDINGS_MAX; i++) {
        printf("%s\n", findings->item[i].text);
        for (int k = 0; k < 2; k++) {
            if (findings->item[i].task[k] >= 0)
                check_graph_print_task(g, (uint32_t)findings->item[i].task[k]);
        }
    }
    if (findings->count > FINDINGS_MAX)
        printf("and %u more\n", findings->count - FINDINGS_MAX);
}

static void compare_timing(const struct check_run *run, const struct pto_run_report *report)
{
    const struct check_graph *g = run->g;
    /* For each timing slot of the run's report: the longest sleep of its tasks, in nanoseconds. */
    uint64_t least[PTO_TIMING_SLOTS] = { 0 };
    bool is_used[PTO_TIMING_SLOTS] = { false };

    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct check_task *task = &g->tasks[i];
        uint64_t ns = (uint64_t)task->sleep_us * 1000;

        if (task->timing == 0 || !run->oracle->runs[i])
            continue;
        is_used[task->timing - 1] = true;
        if (ns > least[task->timing - 1])
            least[task->timing - 1] = ns;
    }
    for (uint32_t i = 0; i < PTO_TIMING_SLOTS; i++) {
        const struct pto_timing *timing = &report->timing[i];
        uint64_t ns = timing->end_ns - timing->begin_ns;

        /* a factor of two is tolerated, because the sleeps and the report use different clocks */
        if ((timing->end_ns != 0) != is_used[i] || ns < least[i] / 2 || ns > report->ns * 2)
            check_find(run->findings, -1, -1,
                       "timing slot %u is from %" PRIu64 " to %" PRIu64 " ns", i, timing->begin_ns,
                       timing->end_ns);
    }
}

/* Checks the numbers of tasks, executions and cores in the report. */
void check_compare_report(const struct check_run *run, const struct pto_run_report *report)
{
    const struct check_graph *g = run->g;
    uint64_t expected[PTO_CORE_TYPES] = { 0, 0 }, got[PTO_CORE_TYPES] = { 0, 0 };

    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct check_task *task = &g->tasks[i];

        if (!run->oracle->runs[i])
            continue;
        expected[PTO_CORE_AIC] += (task->lanes & CHECK_LANE_AIC) != 0 ? task->blocks : 0;
        expected[PTO_CORE_AIV] +=
            (uint64_t)task->blocks *
            (uint32_t)__builtin_popcount(task->lanes & (CHECK_LANE_AIV0 | CHECK_LANE_AIV1));
    }
    for (uint32_t i = 0; i < report->core_count; i++)
        got[i < g->clusters ? PTO_CORE_AIC : PTO_CORE_AIV] += report->core_tasks[i];
    if (report->tasks != g->task_count)
        check_find(run->findings, -1, -1, "the report counts %" PRIu64 " tasks, not %u",
                   report->tasks, g->task_count);
    if (report->executions != expected[PTO_CORE_AIC] + expected[PTO_CORE_AIV])
        check_find(run->findings, -1, -1, "the report counts %" PRIu64 " executions, not %" PRIu64,
                   report->executions, expected[PTO_CORE_AIC] + expected[PTO_CORE_AIV]);
    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++) {
        if (got[type] != expected[type])
            check_find(run->findings, -1, -1,
                       "the cores of type %u ran %" PRIu64 " invocations, not %" PRIu64, type,
                       got[type], expected[type]);
    }
    compare_timing(run, report);
}
