/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a random graph on a device and compares the results with the model. */
#include "tool/check/check_run.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tool/check/check_trial.h"

enum { LAUNCHES = 3 /* number of launches of each graph that is built once */ };

static bool check_run_go(struct check_run *run, struct check_runner *r,
                         struct pto_run_options *options);

int check_runner_open(const struct check_runner_params *params, struct check_runner **runner_out,
                      struct pto_error *error)
{
    struct check_runner *r = check_alloc(NULL, 1, sizeof(*r));
    struct pto_device_params device;
    int status;

    memset(r, 0, sizeof(*r));
    r->params = *params;
    if (params->chips + params->subs != 0) {
        status = check_tree_open(params, &r->tree, error);
        if (status < 0)
            goto free_runner;
        *runner_out = r;
        return PTO_OK;
    }
    pto_device_params_init(&device);
    device.error = error;
    device.platform = params->platform;
    device.workers = params->threads;
    status = pto_device_open(&device, &r->device);
    if (status < 0)
        goto free_runner;
    status = check_make_callable(&r->callable);
    if (status < 0)
        goto close_device;
    status = check_helper_start(&r->helper);
    if (status < 0)
        goto destroy_callable;
    *runner_out = r;
    return PTO_OK;

destroy_callable:
    pto_callable_destroy(r->callable);
close_device:
    pto_device_close(r->device);
free_runner:
    free(r);
    return status;
}

void check_runner_close(struct check_runner *r)
{
    if (r == NULL)
        return;
    if (r->tree != NULL) {
        check_tree_close(r->tree);
        free(r);
        return;
    }
    check_helper_end(&r->helper);
    pto_callable_destroy(r->callable);
    pto_device_close(r->device);
    free(r);
}

void check_runner_set_meet_timeout(struct check_runner *r, uint64_t ns)
{
    r->meet_ns = ns;
}

/* Compares the edges that were recorded, and their reasons, with those of the model. */
static void check_read_recorded(struct check_run *run, struct check_runner *r)
{
    const char *fault = r->params.recorded(r->device, check_note_reason, run);

    if (fault != NULL)
        check_find(run->findings, -1, -1, "the recording: %s", fault);
    else
        check_compare_reasons(run);
}

/* Makes room for the edges that the runtime reports. */
static void check_find_edges(struct check_run *run)
{
    size_t words = (size_t)run->g->words * (run->g->task_count + 1);

    if (run->found == NULL)
        run->found = check_alloc(NULL, words, sizeof(uint64_t));
    memset(run->found, 0, sizeof(uint64_t) * words);
    run->reasons.count = 0;
}

static void check_run_and_compare(struct check_runner *r, const struct check_graph *g,
                                  const struct check_oracle *oracle,
                                  struct pto_run_options *options, struct check_findings *findings)
{
    struct check_run run;

    check_run_init(&run, g, oracle, findings);
    options->deps = g->deps;
    options->edge_context = &run;
    if (options->edge != NULL || options->trace != PTO_TRACE_OFF)
        check_find_edges(&run);
    if (check_run_go(&run, r, options)) {
        if (options->trace != PTO_TRACE_OFF)
            check_read_recorded(&run, r);
        if (run.found != NULL)
            check_compare_edges(&run);
        check_compare_tasks(&run);
        check_compare_teams(&run);
        check_compare_order(&run);
        if (g->is_compared && findings->count == 0)
            check_compare_bytes(&run, oracle);
    }
    check_run_fini(&run);
}

/*
 * Resets a run to its state before the first invocation, and allocates its external memory again.
 */
static void run_rewind(struct check_run *run)
{
    struct check_counts n = check_count(run->g);

    memset(run->calls, 0, n.calls * sizeof(*run->calls));
    for (uint32_t i = 0; i < run->g->task_count; i++) {
        struct check_run_task *t = &run->tasks[i];

        t->id_seen = 0;
        t->started = t->strays = t->counter = 0;
        memset(t->notified, 0, sizeof(t->notified));
    }
    run->clock = 0;
    run->arena = check_alloc_aligned(run->g->arena_bytes);
    check_fill_arena(run->arena, run->g);
}

/* Builds the graph once and launches it several times, each time with new external memory. */
static void check_relaunch(struct check_runner *r, const struct check_graph *g,
                           const struct check_oracle *oracle, struct check_findings *findings)
{
    uint8_t *old[LAUNCHES];
    uint32_t old_count = 0;
    struct check_run run;
    uint64_t scalar = (uint64_t)(uintptr_t)&run;
    struct pto_tensor arena;
    struct pto_entry entry = { 1, 1, &arena, &scalar };
    struct pto_run_report *report = check_alloc(NULL, 1, sizeof(*report));
    struct pto_run_options options;
    struct pto_graph *graph;
    int status;

    check_run_init(&run, g, oracle, findings);
    run.runner = r;
    run.is_held = run.has_guards = true;
    arena = pto_tensor_external(run.arena, &g->arena_bytes, 1, PTO_UINT8);
    pto_run_report_init(report);
    pto_run_options_init(&options);
    options.deps = g->deps;
    options.has_guards = true;
    options.trace = r->params.recorded != NULL ? PTO_TRACE_ARGUMENTS : PTO_TRACE_OFF;
    status = pto_graph_build(r->device, r->callable, &entry, &options, report, &graph);
    for (; status >= 0 && old_count < LAUNCHES && findings->count == 0; old_count++) {
        old[old_count] = run.arena;
        run_rewind(&run);
        arena.addr = (uint64_t)(uintptr_t)run.arena;
        pto_run_report_init(report);
        status = pto_graph_run(graph, &entry, &options, report);
        run.is_alone = report->workers == 1 && report->takeovers == 0;
        check_helper_drain(&r->helper);
        if (status < 0)
            break;
        if (options.trace != PTO_TRACE_OFF) {
            check_find_edges(&run);
            check_read_recorded(&run, r);
            check_compare_edges(&run);
        }
        for (uint32_t i = 0; i < g->task_count; i++)
            check_compare_calls(&run, &run.tasks[i]);
        check_compare_teams(&run);
        check_compare_order(&run);
        if (g->is_compared && findings->count == 0)
            check_compare_bytes(&run, oracle);
    }
    if (status < 0)
        check_find(findings, -1, -1, "launch %u of the built graph failed with %d (%s): %s",
                   old_count, status, pto_strerror(status), report->error.text);
    else
        (void)pto_graph_destroy(graph);
    for (uint32_t i = 0; i < old_count; i++)
        free(old[i]);
    free(report);
    check_run_fini(&run);
}

void check_runner_check(struct check_runner *r, const struct check_graph *g,
                        struct check_findings *findings)
{
    static const uint32_t windows[] = { 0, 2, 8, 64 };
    struct rng rng = { g->seed ^ 0x6f72646572 };
    bool has_accesses = false;
    struct pto_run_options options;
    struct check_oracle oracle;

    memset(findings, 0, sizeof(*findings));
    if (g->unsound[0] >= 0)
        check_find(findings, g->unsound[0], g->unsound[1], "the rules leave a conflict unordered");
    if (r->tree != NULL) {
        if (findings->count == 0)
            check_tree_check(r->tree, g, findings);
        return;
    }
    for (uint32_t i = 0; i < g->task_count; i++)
        has_accesses = has_accesses || g->tasks[i].access_count != 0;
    check_oracle_init(&oracle, g, true);
    if (findings->count == 0) {
        pto_run_options_init(&options);
        options.mode = PTO_MODE_HOST;
        options.edge = check_note_edge;
        check_run_and_compare(r, g, &oracle, &options, findings);
    }
    if (findings->count == 0 && r->params.is_relaunched)
        check_relaunch(r, g, &oracle, findings);
    if (has_accesses && r->params.mode == PTO_MODE_STREAM) {
        check_oracle_fini(&oracle);
        check_oracle_init(&oracle, g, false);
    }
    if (findings->count == 0) {
        pto_run_options_init(&options);
        options.mode = r->params.mode;
        options.live_max = windows[rng_below(&rng, 4)];
        options.order_seed = rng_chance(&rng, 70) ? rng_next(&rng) : 0;
        options.has_guards = rng_chance(&rng, 50);
        options.trace = r->params.recorded != NULL ? PTO_TRACE_ARGUMENTS : PTO_TRACE_OFF;
        check_run_and_compare(r, g, &oracle, &options, findings);
    }
    check_oracle_fini(&oracle);
}

bool check_runner_check_without(struct check_runner *r, const struct check_graph *g,
                                struct rng *rng, uint32_t edge_out[2],
                                struct check_findings *findings)
{
    struct pto_run_options options;
    struct check_oracle oracle;
    struct check_run run;
    bool is_there;

    memset(findings, 0, sizeof(*findings));
    if (r->tree != NULL)
        return check_tree_check_without(r->tree, g, rng, edge_out, findings);
    check_oracle_init(&oracle, g, r->params.mode == PTO_MODE_HOST);
    is_there = check_graph_pick_edge(g, oracle.runs, rng, &edge_out[0], &edge_out[1]);
    if (is_there) {
        check_run_init(&run, g, &oracle, findings);
        run.is_dropping = true;
        run.drop_before = edge_out[0];
        run.drop_after = edge_out[1];
        run.tasks[edge_out[0]].gate = &run.tasks[edge_out[1]];
        /*
         * The limit of live tasks is the default, because the submitter must reach the task `after`
         * while the task `before` waits for it.
         */
        pto_run_options_init(&options);
        options.deps = g->deps;
        options.mode = r->params.mode;
        options.edge = check_note_edge;
        options.edge_context = &run;
        if (check_run_go(&run, r, &options) && run.is_dropped)
            check_compare_order(&run);
        check_run_fini(&run);
    }
    check_oracle_fini(&oracle);
    return is_there;
}

struct check_counts check_count(const struct check_graph *g)
{
    struct check_counts n = { 0, 0, 0 };

    for (uint32_t i = 0; i < g->task_count; i++) {
        n.args += g->tasks[i].arg_count;
        n.calls += check_call_count(&g->tasks[i]);
        n.accesses += g->tasks[i].access_count;
    }
    return n;
}

void check_fill_arena(uint8_t *arena, const struct check_graph *g)
{
    struct rng rng = { g->seed ^ 0x6172656e61 };

    for (uint32_t i = 0; i < g->arena_bytes; i++)
        arena[i] = (uint8_t)rng_next(&rng);
}

void check_run_init(struct check_run *run, const struct check_graph *g,
                    const struct check_oracle *oracle, struct check_findings *findings)
{
    struct check_counts n = check_count(g), at = { 0, 0, 0 };
    uint32_t bare = 0;

    memset(run, 0, sizeof(*run));
    run->g = g;
    run->oracle = oracle;
    run->findings = findings;
    run->tasks = check_alloc(NULL, g->task_count, sizeof(*run->tasks));
    run->calls = check_alloc_aligned(n.calls * sizeof(*run->calls));
    run->deferred = check_alloc(NULL, g->task_count, sizeof(*run->deferred));
    run->given = check_alloc_aligned(n.args * sizeof(struct pto_tensor));
    run->seen = check_alloc_aligned(n.args * sizeof(struct pto_tensor));
    run->arena = check_alloc_aligned(g->arena_bytes);
    check_fill_arena(run->arena, g);
    for (uint32_t i = 0; i < g->task_count; i++) {
        struct check_run_task *t = &run->tasks[i];

        memset(t, 0, sizeof(*t));
        t->run = run;
        t->index = i;
        t->first_arg = at.args;
        t->first_access = at.accesses;
        t->calls = run->calls + at.calls;
        t->call_count = check_call_count(&g->tasks[i]);
        at.args += g->tasks[i].arg_count;
        at.accesses += g->tasks[i].access_count;
        at.calls += t->call_count;
        if (t->call_count != 0 && g->tasks[i].scalar_count == 0) {
            t->bare = bare++;
            check_set_bare_task(t->bare, t);
        }
        if (g->tasks[i].defer.is_on)
            run->deferred[run->deferred_count++] = i;
    }
}

void check_run_fini(struct check_run *run)
{
    free(run->tasks);
    free(run->calls);
    free(run->deferred);
    free(run->given);
    free(run->seen);
    free(run->arena);
    free(run->found);
    free(run->reasons.at);
}

/*
 * Runs the graph and waits for its end. Returns false if the run failed, so that it cannot be
 * compared.
 */
static bool check_run_go(struct check_run *run, struct check_runner *r,
                         struct pto_run_options *options)
{
    uint64_t scalar = (uint64_t)(uintptr_t)run;
    struct pto_entry entry = { 0, 1, NULL, &scalar };
    struct pto_run_report *report = check_alloc(NULL, 1, sizeof(*report));
    int status;

    pto_run_report_init(report);
    run->runner = r;
    run->is_held = options->mode == PTO_MODE_HOST;
    run->has_guards = options->has_guards;
    status = pto_run(r->device, r->callable, &entry, options, report);
    run->is_alone = report->workers == 1 && report->takeovers == 0;
    for (uint32_t i = 0; i < run->deferred_count && status >= 0; i++) {
        const struct check_run_task *t = &run->tasks[run->deferred[i]];

        if (run->oracle->runs[t->index] && pto_notified(&t->counter) < check_count_notifications(t))
            check_find(run->findings, t->index, -1,
                       "the run ended before the conditions of task %u held", t->index);
    }
    /* needed here, because a failed run does not wait for the helper */
    check_helper_drain(&r->helper);
    if (status < 0)
        check_find(run->findings, -1, -1, "the run failed with %d (%s): %s", status,
                   pto_strerror(status), report->error.text);
    else
        check_compare_report(run, report);
    free(report);
    return status >= 0;
}

bool check_note_edge(void *context, uint64_t before, uint64_t after)
{
    struct check_run *run = context;

    if (before >= run->g->task_count || after >= run->g->task_count) {
        check_find(run->findings, -1, -1,
                   "an edge names a task that does not exist: %" PRIu64 " -> %" PRIu64, before,
                   after);
        return true;
    }
    if (run->found != NULL)
        bit_set(run->found + (size_t)after * run->g->words, (uint32_t)before);
    if (run->is_dropping && before == run->drop_before && after == run->drop_after) {
        run->is_dropped = true;
        return false;
    }
    return true;
}
