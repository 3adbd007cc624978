/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the notes of a run with --accesses, with what unused arguments cost. */
#include <inttypes.h>
#include <string.h>

#include "tool/cli/races_print.h"
#include "tool/cli/run_request.h"
#include "tool/scene/scene_watch.h"
#include "tool/see/unused_arguments.h"

static const char *kernel_name_of(const struct scene *scene, uint32_t id)
{
    for (uint32_t i = 0; i < scene->kernel_count; i++)
        if (scene->kernel[i].id == id)
            return scene->kernel[i].name;
    return "?";
}

/* What the unused arguments of a run cost. */
struct notes_costs {
    struct see_recording *r;
    struct see_analysis *analysis;
    struct see_unused_arguments unused;
};

/* Runs the case once more and records which elements its kernels use. */
static int notes_record(struct session *s, enum pto_mode mode, struct pto_error *error)
{
    const struct session_options *options = s->options;
    const struct pto_run_report report = s->report;
    struct session_options recorded = *options;
    int status;

    recorded.trace = PTO_TRACE_ARGUMENTS;
    recorded.diagnostics_name = NULL;
    s->options = &recorded;
    status = scene_session_open_device(s, s->data.test_case, error);
    if (status == PTO_OK)
        status = scene_session_run_watched(s, mode, NULL, error);
    s->options = options;
    s->report = report;
    return status;
}

/*
 * Predicts what unused arguments cost, if the last run had some. Leaves *out empty if that is not
 * possible: with ranks, which run together, and with workers.
 */
static void notes_predict(struct session *s, enum pto_mode mode, struct notes_costs *out)
{
    struct pto_error error = { .size = sizeof(error) };
    bool has_unused = false;
    int status = PTO_OK;

    for (uint32_t i = 0; i < s->report.note_count && i < PTO_ARGUMENT_NOTES_MAX; i++)
        has_unused = has_unused || s->report.note[i].kind == PTO_ARGUMENT_IDLE;
    if (!has_unused || scene_is_level(s->scene) || s->data.test_case->ranks > 1)
        return;
    if (s->options->trace != PTO_TRACE_ARGUMENTS)
        status = notes_record(s, mode, &error);
    if (status == PTO_OK)
        status = cli_session_recording(s, &out->r, &error);
    if (status == PTO_OK)
        status = see_analysis_make(out->r, PTO_RECORDING_NONE, false, &out->analysis, &error);
    if (status == PTO_OK)
        (void)see_unused_arguments_make(out->analysis, &out->unused);
}

static void print_cost(const struct notes_costs *costs, const struct pto_argument_note *note,
                       const char *kernel, FILE *to)
{
    for (uint32_t i = 0; i < costs->unused.count; i++) {
        const struct see_unused_argument *of = &costs->unused.of[i];

        if (of->argument != note->argument || (int32_t)of->line != note->line ||
            strcmp(see_kernel_name(costs->r, of->kernel), kernel) != 0)
            continue;
        fprintf(to, "; without it %" PRIu64 " dependenc%s less", of->pairs,
                of->pairs == 1 ? "y" : "ies");
        if (of->is_finding)
            fprintf(to, ", and the run takes %.0f %% less", -100 * of->change);
        else
            fprintf(to, ", and the run takes as long");
        return;
    }
}

void cli_print_notes(struct session *s, enum pto_mode mode, FILE *to, const char *prefix)
{
    const struct pto_run_report *report = &s->report;
    struct notes_costs costs = { .r = NULL };

    notes_predict(s, mode, &costs);
    for (uint32_t i = 0; i < report->note_count && i < PTO_ARGUMENT_NOTES_MAX; i++) {
        const struct pto_argument_note *note = &report->note[i];
        const char *kernel = kernel_name_of(s->scene, note->kernel);

        fprintf(to, "%s", prefix);
        if (note->kind == PTO_ARGUMENT_UNCHECKED)
            fprintf(to, "kernel \"%s\" does not report its accesses, which are not checked,",
                    kernel);
        else
            fprintf(to, "line %d: kernel \"%s\" %s argument %u", note->line, kernel,
                    note->kind == PTO_ARGUMENT_AFTER ? "uses the PTO_AFTER" : "never uses",
                    note->argument);
        fprintf(to, " in %" PRIu64 " task%s, first task %" PRIu64, note->tasks,
                note->tasks == 1 ? "" : "s", note->first);
        if (note->kind == PTO_ARGUMENT_IDLE)
            print_cost(&costs, note, kernel, to);
        fprintf(to, "\n");
    }
    if (report->note_count > PTO_ARGUMENT_NOTES_MAX)
        fprintf(to, "%sand %" PRIu64 " more notes\n", prefix,
                report->note_count - PTO_ARGUMENT_NOTES_MAX);
    see_unused_arguments_free(&costs.unused);
    see_analysis_free(costs.analysis);
    see_recording_free(costs.r);
}
