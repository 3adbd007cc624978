/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a prepared session of `pto run` and prints the results. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "tool/cli/commands.h"
#include "tool/cli/races_print.h"
#include "tool/cli/recorded.h"
#include "tool/cli/repeat.h"
#include "pto/worker_trace.h"
#include "tool/scene/terminal.h"

enum { TITLE_BYTES = 256 };

/* Prints how many tasks each core of one type ran, as ` AIV 0:3 1:2`. */
static void print_cores(const char *type, const uint32_t *tasks, uint32_t count)
{
    bool is_first = true;

    for (uint32_t core = 0; core < count; core++) {
        if (tasks[core] == 0)
            continue;
        if (is_first)
            printf(" %s", type);
        printf(" %u:%u", core, tasks[core]);
        is_first = false;
    }
}

static void print_time(uint64_t best_ns, uint32_t rounds)
{
    printf("  time     %.1f us", (double)best_ns / 1000);
    if (rounds > 1)
        printf(", the shortest of %u", rounds);
    printf("\n");
}

/* Prints how many tasks each child of a worker ran. */
static void print_children(const struct session *s, uint64_t best_ns, uint32_t rounds)
{
    uint32_t count = s->level.chips + s->level.subs;

    printf("  tasks    %" PRIu64 "\n", s->level.report.tasks);
    print_time(best_ns, rounds);
    printf("  children");
    for (uint32_t i = 0; i < count; i++)
        printf("%s %s %u: %" PRIu64, i != 0 ? "," : "", i < s->level.chips ? "chip" : "sub", i,
               s->level.child_tasks[i]);
    printf("\n");
}

static void print_report(const struct pto_run_report *report, uint64_t best_ns, uint32_t rounds)
{
    uint32_t clusters = report->core_count / PTO_CLUSTER_CORES;

    printf("  tasks    %" PRIu64, report->tasks);
    if (report->dummies != 0)
        printf(", %" PRIu64 " of them dummies", report->dummies);
    if (report->skipped != 0)
        printf(", %" PRIu64 " skipped by their predicates", report->skipped);
    printf(", %u thread%s\n", report->workers, report->workers == 1 ? "" : "s");
    print_time(best_ns, rounds);
    printf("  cores   ");
    print_cores("AIC", report->core_tasks, clusters);
    print_cores("AIV", report->core_tasks + clusters, report->core_count - clusters);
    printf("\n");
    if (report->warning != NULL)
        printf("  warning  %s\n", report->warning);
}

const char *cli_run_trace_ending(const char *name)
{
    static const char *const endings[] = {
#define X(name, ending) ending,
        PTO_TRACE_FORMAT_MAP(X)
#undef X
    };
    size_t length = strlen(name);

    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
        if (length > strlen(endings[i]) &&
            strcmp(name + length - strlen(endings[i]), endings[i]) == 0)
            return endings[i];
    return endings[0];
}

/*
 * Makes the path of the timeline. The ending of NAME selects the format, which is JSON without a
 * known ending.
 */
static void name_timeline(const struct session *s, const char *name, enum pto_mode mode,
                          char path[PATH_MAX])
{
    const char *ending = cli_run_trace_ending(name);
    char stem[PATH_MAX];
    int length = (int)(strlen(name) - strlen(ending));

    if (length < 0 || strcmp(name + length, ending) != 0)
        length = (int)strlen(name);
    snprintf(stem, sizeof(stem), "%.*s", length, name);
    scene_session_name(s, stem, mode, path, PATH_MAX - sizeof(".pftrace"));
    strcat(path, ending);
}

/*
 * Warns if simulated cores outnumber the host's CPUs: the recorded times then include the wait for
 * a CPU.
 */
static void print_crowded(const struct session *s)
{
    uint32_t cpus = os_cpu_count(), cores = 0;

    if (s->rank != 0 || scene_is_level(s->scene) || s->options->costs.is_virtual ||
        !pto_platform_find(s->platform)->is_simulated)
        return;
    for (uint32_t i = 0; i < s->report.core_count; i++)
        cores += s->report.core_tasks[i] != 0;
    if (cores > cpus)
        printf("  warning  " CLI_CROWDED "\n", cores, cpus, cpus == 1 ? "" : "s");
}

static bool write_timeline(const struct session *s, const char *name, enum pto_mode mode)
{
    char path[PATH_MAX];
    struct pto_error error = { .size = sizeof(error) };

    name_timeline(s, name, mode, path);
    if ((scene_is_level(s->scene) ? pto_worker_trace_write(s->level.worker, path, &error)
                                  : pto_trace_write(s->device, path, &error)) < 0) {
        printf("  timeline FAILED: %s\n", error.text);
        return false;
    }
    if (strcmp(cli_run_trace_ending(name), ".ptrec") == 0)
        printf("  recorded %s\n", path);
    else
        printf("  timeline %s (open it at ui.perfetto.dev)\n", path);
    if (s->report.records_lost != 0)
        printf("  warning  the recorder lost the oldest %" PRIu64 " records of the run; "
               "--trace-records keeps more\n",
               s->report.records_lost);
    print_crowded(s);
    return true;
}

/* Prints the folder of the diagnostics, which the library has written. */
static void print_diagnostics(const struct session *s, enum pto_mode mode)
{
    char folder[PATH_MAX];

    scene_session_name(s, s->options->diagnostics_name, mode, folder, sizeof(folder));
    printf("  diagnostics in %s\n", folder);
}

bool cli_run_write_outputs(const struct session *s, const struct run_request *request)
{
    for (uint32_t i = 0; i < request->out.count; i++) {
        int argument = scene_find_argument(s->scene, request->out.file[i].name);
        const struct scene_tensor *tensor = &s->data.tensor[argument];
        struct pto_error error = { .size = sizeof(error) };

        if (scene_npy_write(request->out.file[i].path, tensor->argument->dtype, tensor->shapes,
                            tensor->argument->ndims, tensor->got, &error) < 0) {
            printf("  written  FAILED: %s\n", error.text);
            return false;
        }
        printf("  written  %s to %s\n", request->out.file[i].name, request->out.file[i].path);
    }
    return true;
}

static void do_nothing(void *context)
{
    (void)context;
}

static void print_mismatch(struct session *s, enum pto_mode mode)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    if (to == NULL)
        return;
    scene_session_explain(s, mode, do_nothing, NULL, to);
    fclose(to);
    terminal_print_indented(text, "           ");
    free(text);
}

static void print_failure(struct session *s, enum pto_mode mode, const char *what,
                          const struct pto_error *error)
{
    printf("  %-8s %sFAILED%s", what, terminal_code(stdout, TERMINAL_RED),
           terminal_code(stdout, TERMINAL_PLAIN));
    if (s->options->orders != 0 && s->order_seed != 0)
        printf(" with order seed %u", s->order_seed);
    printf(": %s (%d)\n", pto_strerror(error->status), error->status);
    if (error->status == PTO_EMISMATCH)
        print_mismatch(s, mode);
    else
        printf("  error    %s\n", error->text);
    if (s->report.stopped != 0)
        printf("  tasks    %" PRIu64 ", %" PRIu64 " of which never ran\n", s->report.tasks,
               s->report.stopped);
}

/* Runs the case again in the requested task orders, after a successful run. */
static bool run_orders(struct session *s, const struct run_request *request, enum pto_mode mode)
{
    struct pto_error error = { .size = sizeof(error) };
    int status = scene_session_run_orders(s, mode, do_nothing, NULL, &error);
    char *text = NULL;
    size_t size;
    FILE *to;

    if (status == PTO_OK) {
        printf("  orders   ok: %u, the last one is %u\n", request->session.orders, s->order_seed);
        return true;
    }
    if (request->trace != NULL)
        (void)write_timeline(s, request->trace, mode);
    print_failure(s, mode, "orders", &error);
    to = open_memstream(&text, &size);
    if (to != NULL) {
        cli_print_repeat(to, s, request->target != NULL ? request->target : s->scene->name, mode,
                         request);
        fclose(to);
        terminal_print_indented(text, "           ");
        free(text);
    }
    return false;
}

/*
 * After a successful run, checks whether concurrent tasks shared cache lines. Returns false if the
 * case fails because of that.
 */
static bool run_print_lines(struct session *s, enum pto_mode mode)
{
    struct pto_error error = { .size = sizeof(error) };
    bool is_looked = mode == PTO_MODE_HOST;

    if (is_looked && scene_session_check_lines(s, &error) < 0) {
        print_failure(s, mode, "lines", &error);
        return false;
    }
    if (s->rank == 0)
        printf("  lines    %s\n", is_looked ? "ok: no two concurrent tasks write to one cache line"
                                            : "not checked: only mode host has all dependencies");
    return true;
}

/* Searches the recorded run for races, also if its result is wrong. */
static bool run_print_races(const struct session *s)
{
    struct pto_error error = { .size = sizeof(error) };
    struct cli_races races;
    int status = cli_races_find_in_session(s, &races, &error);
    bool is_good = status == PTO_OK && races.verdict == CLI_RACES_NONE;
    char *text = NULL, *rest;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    if (to != NULL) {
        if (status < 0)
            fprintf(to, "%s\n", error.text);
        else
            cli_races_print(&races, to);
        fclose(to);
    }
    if (text != NULL && (!is_good || s->rank == 0)) {
        rest = strchr(text, '\n');
        printf("  races    %s%.*s\n", is_good ? "" : "FAILED: ", (int)(rest - text), text);
        terminal_print_indented(rest + 1, "           ");
    }
    free(text);
    cli_races_free(&races);
    return is_good && text != NULL;
}

static void print_head(const struct session *s, enum pto_mode mode)
{
    printf("%s%s, %s", s->data.test_case->ranks > 1 ? "" : "\n", s->platform, pto_mode_name(mode));
    if (s->scene->case_count > 1)
        printf(", %s", s->data.test_case->name);
    if (s->data.test_case->ranks > 1)
        printf(", %u ranks", s->data.test_case->ranks);
    if (scene_is_level(s->scene))
        printf(", %u chip%s, %u SUB worker%s", s->data.test_case->chips,
               s->data.test_case->chips == 1 ? "" : "s", s->data.test_case->subs,
               s->data.test_case->subs == 1 ? "" : "s");
    if (s->options->orders == 0 && s->options->order_seed != 0)
        printf(", order seed %u", s->options->order_seed);
    printf("\n");
    fflush(stdout); /* the run may end the process without flushing stdout */
}

/*
 * Runs the prepared session and prints the results. Ranks other than the first print failures only.
 */
int cli_run_and_print(struct session *s, const struct run_request *request, enum pto_mode mode)
{
    bool is_first = s->rank == 0;
    struct pto_error error = { .size = sizeof(error) };
    uint64_t best_ns = UINT64_MAX;
    bool is_good = true;
    int status = PTO_OK;
    char path[PATH_MAX], title[TITLE_BYTES];

    if (request->trace != NULL) {
        s->order_seed = session_usual_order(s->options);
        name_timeline(s, request->trace, mode, path);
        s->trace_path = path;
        snprintf(title, sizeof(title), "%s, %s", s->scene->name, s->data.test_case->name);
        s->trace_title = title;
    }
    if (is_first)
        print_head(s, mode);
    for (uint32_t round = 0; round < request->rounds && status == PTO_OK; round++) {
        status = scene_session_run(s, mode, &error);
        best_ns = s->report.ns < best_ns ? s->report.ns : best_ns;
    }
    if (!is_first && status < 0)
        print_head(s, mode);
    if (is_first && status == PTO_OK) {
        printf("  result   ok: ");
        scene_session_summarize(s, stdout);
        printf("\n");
        if (scene_is_level(s->scene))
            print_children(s, best_ns, request->rounds);
        else
            print_report(&s->report, best_ns, request->rounds);
        cli_print_notes(s, mode, stdout, "  note     ");
        if (request->session.costs.is_virtual)
            cli_run_print_virtual(s, mode);
    }
    if (status == PTO_OK || status == PTO_EMISMATCH)
        is_good = cli_run_write_outputs(s, request);
    if (s->options->diagnostics_name != NULL)
        print_diagnostics(s, mode);
    if (request->trace != NULL && !write_timeline(s, request->trace, mode))
        is_good = false; /* continues after a failure, because a failed run also has a timeline */
    if ((status == PTO_OK || status == PTO_EMISMATCH) && s->options->has_races &&
        !run_print_races(s))
        is_good = false;
    if (status < 0) /* print the failure last, because that may run the case again */
        print_failure(s, mode, "result", &error);
    if (status == PTO_OK && s->options->orders != 0 && !run_orders(s, request, mode))
        is_good = false;
    if (status == PTO_OK && s->options->has_lines && !run_print_lines(s, mode))
        is_good = false;
    s->trace_path = s->trace_title = NULL;
    return status == PTO_OK && is_good ? EXIT_OK : EXIT_FAILED;
}
