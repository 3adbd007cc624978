/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a random graph in which some tasks fail on a level-3 worker, and checks the rule of
 * docs/user/workers.md: a task that depends on a failed or skipped task does not run if it was
 * submitted before the program learned how that task's run ended. All other tasks run, and get the
 * results of a sequential execution without the failed ones.
 *
 * The graph determines which tasks fail and when the program learns of it, but not when they fail.
 * How much of a run is submitted before its first failure is known depends on timing, so the calls
 * record what was submitted, and the model judges that.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

#include "tool/check/check_tree.h"

enum { FAILS_ONE_IN = 30, FINISH_PERCENT = 50, ENDED_PERCENT = 40 };
/* time limit of all runs, shorter than the time limit of the command */
#define RUN_NS 50000000000ull

struct failing {
    struct check_tree *tree;
    struct check_run *run;
    const struct check_graph *g;
    /* Copy of the graph, without the edges of tasks that were not submitted. */
    struct check_graph *submitted;
    uint32_t run_count;
    /*
     * For each run: the first run that was launched after the program learned how this run had
     * ended.
     */
    uint32_t *known_from;
    struct pto_worker_run **handle;
    struct pto_worker_report *report;
    bool *is_dead;    /* for each task: whether it failed or was skipped */
    bool *is_skipped; /* for each task: whether it was skipped */
    /*
     * For each run and task: the task failed or was skipped, and the tasks of that run which depend
     * on it have to be skipped.
     */
    bool *is_open;
};

static void init(struct failing *f, struct check_tree *tree, struct check_run *run)
{
    const struct check_graph *g = run->g;

    memset(f, 0, sizeof(*f));
    f->tree = tree;
    f->run = run;
    f->g = g;
    for (uint32_t i = 0; i < g->task_count; i++)
        if (g->tasks[i].place.run >= f->run_count)
            f->run_count = g->tasks[i].place.run + 1;
    f->known_from = check_alloc(NULL, f->run_count, sizeof(*f->known_from));
    f->handle = check_alloc(NULL, f->run_count, sizeof(*f->handle));
    f->report = check_alloc(NULL, f->run_count, sizeof(*f->report));
    memset(f->handle, 0, f->run_count * sizeof(*f->handle));
    f->is_dead = check_alloc(NULL, g->task_count, sizeof(bool));
    f->is_skipped = check_alloc(NULL, g->task_count, sizeof(bool));
    f->is_open = check_alloc(NULL, (size_t)f->run_count * g->task_count, sizeof(bool));
    memset(f->is_dead, 0, g->task_count);
    memset(f->is_skipped, 0, g->task_count);
    memset(f->is_open, 0, (size_t)f->run_count * g->task_count);
    for (uint32_t i = 0; i < f->run_count; i++) {
        f->known_from[i] = UINT32_MAX;
        pto_worker_report_init(&f->report[i]);
    }
}

static void fini(struct failing *f)
{
    if (f->submitted != NULL)
        check_graph_destroy(f->submitted);
    free(f->known_from);
    free(f->handle);
    free(f->report);
    free(f->is_dead);
    free(f->is_skipped);
    free(f->is_open);
}

/* ---- the program that launches the runs ---- */

/*
 * Selects the tasks that fail, by their salt, so that the same tasks fail in a smaller copy of the
 * graph.
 */
static bool choose_failing(struct check_run *run)
{
    bool is_one = false;

    for (uint32_t i = 0; i < run->g->task_count; i++) {
        const struct check_task *task = &run->g->tasks[i];

        run->tasks[i].fails =
            task->kind != CHECK_ALLOC && rng_mix(task->salt ^ 0x6661696c) % FAILS_ONE_IN == 0;
        is_one = is_one || run->tasks[i].fails;
    }
    return is_one;
}

/*
 * Waits for run `index` with one of two functions, chosen at random, and finishes the run. `next`
 * is the run that will be launched next.
 */
static void check_failed_finish(struct failing *f, uint32_t index, uint32_t next, struct rng *rng)
{
    int status = PTO_OK;

    if (rng_chance(rng, 50)) {
        status = pto_worker_run_wait(f->handle[index], RUN_NS);
    } else {
        struct pollfd on = { .fd = pto_worker_run_fd(f->handle[index]), .events = POLLIN };

        status = poll(&on, 1, (int)(RUN_NS / 1000000)) == 1 ? PTO_OK : PTO_ETIMEOUT;
    }
    if (status == PTO_ETIMEOUT && pto_worker_run_poll(f->handle[index]) == PTO_RUN_PENDING) {
        check_find(f->run->findings, -1, -1, "run %u does not end", index);
        (void)pto_worker_run_cancel(f->handle[index]);
    }
    (void)pto_worker_run_finish(f->handle[index], &f->report[index]);
    f->handle[index] = NULL;
    f->known_from[index] = next;
}

/*
 * Before run `next` is launched, finishes some of the earlier runs, and waits for the end of
 * others.
 */
static void check_failed_poll_runs(struct failing *f, uint32_t next, struct rng *rng)
{
    for (uint32_t i = 0; i < next; i++) {
        if (f->handle[i] == NULL)
            continue;
        if (rng_chance(rng, FINISH_PERCENT)) {
            check_failed_finish(f, i, next, rng);
        } else if (rng_chance(rng, ENDED_PERCENT)) { /* wait only for the end of the run */
            struct pollfd on = { .fd = pto_worker_run_fd(f->handle[i]), .events = POLLIN };

            (void)poll(&on, 1, (int)(RUN_NS / 1000000));
        }
    }
}

static bool run_all(struct failing *f)
{
    const struct check_graph *g = f->g;
    struct rng rng = { g->seed ^ 0x746f6c64 };
    struct check_part part = { f->tree, f->run, 0, 0 };

    for (uint32_t i = 0; i < g->task_count; i = part.first + part.count) {
        uint32_t index = g->tasks[i].place.run;
        int status;

        part.first = i;
        for (part.count = 0;
             i + part.count < g->task_count && g->tasks[i + part.count].place.run == index;)
            part.count++;
        check_failed_poll_runs(f, index, &rng);
        status =
            pto_worker_launch(f->tree->worker, check_tree_orchestrate, &part, &f->handle[index]);
        if (status < 0)
            check_find(f->run->findings, -1, -1, "a run cannot be launched: %s",
                       pto_strerror(status));
    }
    for (uint32_t i = 0; i < f->run_count; i++)
        if (f->handle[i] != NULL)
            check_failed_finish(f, i, UINT32_MAX, &rng);
    for (uint32_t i = 0; i < g->task_count; i++)
        f->tree->submits += f->run->tasks[i].is_submitted;
    return f->run->findings->count == 0;
}

/* ---- the expected outcome ---- */

/*
 * Copies the graph, without arguments and dependencies of tasks that were not submitted, and finds
 * the edges of the copy.
 */
static void find_submitted(struct failing *f)
{
    struct check_graph *s = f->submitted = check_graph_copy(f->g);
    struct check_model *model = check_model_create(s->deps);

    for (uint32_t i = 0; i < s->task_count; i++)
        if (!f->run->tasks[i].is_submitted) {
            s->tasks[i].kind = CHECK_ALLOC;
            s->tasks[i].arg_count = s->tasks[i].dep_count = 0;
        }
    free(s->before);
    s->before = check_alloc(NULL, (size_t)s->words * (s->task_count + 1), sizeof(uint64_t));
    memset(s->before, 0, sizeof(uint64_t) * s->words * (s->task_count + 1));
    for (uint32_t i = 0; i < s->task_count; i++)
        check_model_submit(model, &s->tasks[i], s->before + (size_t)i * s->words);
    check_model_destroy(model);
}

static bool *open_for(const struct failing *f, uint32_t run)
{
    return f->is_open + (size_t)run * f->g->task_count;
}

/*
 * Whether the task depends on a task for which is_open is set twice: for the run of the dependent
 * task, and for `run`.
 */
static bool follows(const struct failing *f, uint32_t task, uint32_t run)
{
    uint32_t own = f->g->tasks[task].place.run;

    for (uint32_t i = 0; i < task; i++)
        if (bit_get(graph_before(f->submitted, task), i) && open_for(f, own)[i] &&
            open_for(f, run)[i])
            return true;
    return false;
}

static void check_failed_judge(struct failing *f, uint32_t task)
{
    const struct check_place *p = &f->g->tasks[task].place;

    if (f->submitted->tasks[task].kind == CHECK_ALLOC)
        return;
    for (uint32_t i = 0; i < p->group_count; i++) /* if one task of a group is skipped, all are */
        if (follows(f, p->group_first + i, p->run))
            f->is_skipped[task] = true;
    f->is_dead[task] = f->is_skipped[task] || f->run->tasks[task].fails;
    for (uint32_t run = p->run; run < f->run_count && f->is_dead[task]; run++)
        open_for(f, run)[task] = f->known_from[p->run] > run || follows(f, task, run);
}

/* ---- comparing ---- */

static void compare_runs(const struct failing *f)
{
    for (uint32_t run = 0; run < f->run_count; run++) {
        uint64_t tasks = 0, failed = 0, skipped = 0;
        const struct pto_worker_report *report = &f->report[run];

        for (uint32_t i = 0; i < f->g->task_count; i++) {
            bool counts = f->g->tasks[i].place.run == run && f->run->tasks[i].is_submitted &&
                          f->g->tasks[i].kind != CHECK_ALLOC;

            tasks += counts;
            skipped += counts && f->is_skipped[i];
            failed += counts && f->is_dead[i] && !f->is_skipped[i];
        }
        if (report->tasks != tasks || report->failed != failed || report->skipped != skipped ||
            report->done != tasks - failed - skipped ||
            (report->error.status < 0) != (failed + skipped != 0))
            check_find(f->run->findings, -1, -1,
                       "run %u of %" PRIu64 " tasks: %" PRIu64 " failed and %" PRIu64
                       " were skipped; its report counts %" PRIu64 ", %" PRIu64 " and %" PRIu64
                       ", its status is %d (%s)",
                       run, tasks, failed, skipped, report->tasks, report->failed, report->skipped,
                       report->error.status, report->error.text);
    }
}

static void check_failed_compare_tasks(const struct failing *f)
{
    for (uint32_t i = 0; i < f->g->task_count; i++) {
        const struct check_run_task *t = &f->run->tasks[i];
        bool has_to = t->is_submitted && f->g->tasks[i].kind != CHECK_ALLOC && !f->is_skipped[i];

        if (t->started != (has_to ? 1 : 0))
            check_find(f->run->findings, i, -1, "task %u %s, but it ran %u times", i,
                       !t->is_submitted ? "was not submitted"
                       : has_to         ? "depends on no failed task and has to run"
                                        : "depends on a failed task and must not run",
                       t->started);
    }
}

/*
 * Whether conflicting tasks are ordered even without the tasks that were not submitted, so that the
 * resulting bytes are known.
 */
static bool is_determined(const struct failing *f)
{
    struct check_graph *ordered = check_graph_copy(f->submitted);
    uint32_t words = f->submitted->words;
    uint64_t *closure = check_alloc(NULL, (size_t)words * (ordered->task_count + 1), 8);
    bool is_so = true;

    memset(closure, 0, (size_t)words * (ordered->task_count + 1) * 8);
    for (uint32_t i = 0; i < ordered->task_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (bit_get(graph_before(f->submitted, i), k)) {
                bit_set(closure + (size_t)i * words, k);
                for (uint32_t w = 0; w < words; w++)
                    closure[(size_t)i * words + w] |= closure[(size_t)k * words + w];
            }
    check_model_prepare(ordered);
    for (uint32_t i = 0; i < ordered->task_count; i++)
        for (uint32_t k = 0; k < ordered->tasks[i].dep_count; k++) {
            const struct check_dep *dep = &ordered->tasks[i].deps[k];

            is_so = is_so && (!dep->is_added || bit_get(closure + (size_t)i * words, dep->task));
        }
    free(closure);
    check_graph_destroy(ordered);
    return is_so;
}

/*
 * Compares the order of tasks and the resulting bytes with a sequential execution of the tasks that
 * ran.
 */
static void compare_bytes(const struct failing *f)
{
    struct check_graph *alive = check_graph_copy(f->submitted);
    struct check_run *run = f->run;
    const struct check_oracle *old = run->oracle;
    struct check_oracle oracle;
    uint32_t call = 0;

    for (uint32_t i = 0; i < alive->task_count; i++)
        if (f->is_dead[i])
            alive->tasks[i].kind = CHECK_DUMMY;
    check_oracle_init(&oracle, alive, false);
    run->oracle = &oracle;
    run->g = f->submitted;
    check_compare_order(run);
    run->g = f->g;
    run->oracle = old;
    for (uint32_t i = 0; i < alive->task_count && run->g->is_compared; i++)
        if (oracle.runs[i] && run->tasks[i].calls[0].hash != oracle.hash[call++])
            check_find(run->findings, i, -1,
                       "task %u read other bytes than in an execution without the failed tasks", i);
    if (run->g->is_compared && memcmp(run->arena, oracle.arena, run->g->arena_bytes) != 0)
        check_find(run->findings, -1, -1,
                   "memory differs from an execution without the failed tasks");
    check_oracle_fini(&oracle);
    check_graph_destroy(alive);
}

void check_tree_fail(struct check_tree *tree, const struct check_graph *g,
                     struct check_findings *findings)
{
    struct check_run run;
    struct failing f;

    check_run_init(&run, g, NULL, findings);
    if (!choose_failing(&run)) {
        check_run_fini(&run);
        return;
    }
    if (check_tree_share(tree, &run) == NULL) {
        check_find(findings, -1, -1, "the worker has no memory for the graph");
        check_run_fini(&run);
        return;
    }
    init(&f, tree, &run);
    if (run_all(&f)) {
        find_submitted(&f);
        for (uint32_t i = 0; i < g->task_count; i++)
            check_failed_judge(&f, i);
        compare_runs(&f);
        check_failed_compare_tasks(&f);
        if (findings->count == 0 && is_determined(&f))
            compare_bytes(&f);
    }
    fini(&f);
    check_tree_unshare(tree, &run);
}
