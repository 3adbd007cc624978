/* SPDX-License-Identifier: Apache-2.0 */
/* `pto profile` explains, from a recording, why a run took as long as it did. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/json.h"
#include "tool/cli/profile_print.h"
#include "tool/cli/recorded.h"
#include "tool/cli/run_durations.h"
#include "tool/scene/terminal.h"

enum { TITLE_BYTES = 256 };

struct request {
    struct recorded_options recorded;
    const char *group;
    uint32_t kernels;
    struct cli_texts what_if;
    bool is_json;
    bool has_medians; /* print only the medians of kernel durations, without an analysis */
};

static int do_profile(void *context, int count, char **operands);

static const struct cli_option options[] = {
    CLI_OPTIONS_RECORDED(struct request, recorded),
    { "group", 0, "NAME",
      "the chip or worker to analyse (default: the worker, and the chip that executed most)",
      CLI_TEXT, .at = offsetof(struct request, group) },
    { "kernels", 0, "N", "rows of the table of kernels", CLI_COUNT,
      .at = offsetof(struct request, kernels), .low = 1, .high = 10000, .initial = "12" },
    CLI_OPTION_WHAT_IF(struct request, what_if),
    CLI_OPTION_JSON(struct request, is_json, "tables"),
    { "medians", 0, NULL,
      "print only the median duration of each kernel, and of each for the same shapes and scalars, "
      "as one JSON object: the durations that --durations takes from the file",
      CLI_FLAG, .at = offsetof(struct request, has_medians) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_profile = {
    .name = "profile",
    .summary = "show why a run took as long as it did",
    .synopsis = "SCENE|FILE [OPTION...]",
    .description =
        "Shows the cause of the makespan in one line, then kernels, the critical path, why cores "
        "were idle, and what changes would bring. A scene is run and "
        "recorded first; a file is a recording (.ptrec), which `pto run --trace NAME.ptrec` "
        "writes, "
        "or simpler's chip_swimlane_records.json.",
    .notes = "A change is only shown as a finding if it leaves the band of 16 predictions in "
             "which nothing but the durations varies, and changes the makespan by 3 %. A row of "
             "--what-if also shows the range of its own predictions. docs/user/profiling.md "
             "explains each "
             "figure.",
    .options = options,
    .operands_min = 1,
    .operands_max = 1,
    .request_bytes = sizeof(struct request),
    .run = do_profile,
};

/*
 * Finds the group with this name. A NULL name gives PTO_RECORDING_NONE. Returns false, with a
 * sentence on stderr, if there is no such group.
 */
static bool find_named_group(const struct see_recording *r, const char *name, uint32_t *group_out)
{
    *group_out = PTO_RECORDING_NONE;
    if (name == NULL)
        return true;
    for (uint32_t g = 0; g < r->group_count; g++)
        if (strcmp(r->group[g].name, name) == 0) {
            *group_out = g;
            return true;
        }
    terminal_printf(stderr, "pto profile: the recording has no group '%s'; its groups:", name);
    for (uint32_t g = 0; g < r->group_count; g++)
        terminal_printf(stderr, "%s '%s'", g == 0 ? "" : ",", r->group[g].name);
    fputc('\n', stderr);
    return false;
}

/* Prints the medians of the durations of kernels. Returns the exit code. */
static int print_medians(const struct see_recording *r, const char *target)
{
    struct pto_error error = { .size = sizeof(error) };
    struct json j = cli_json_start(stdout);
    struct durations d;

    if (cli_durations_make(r, target, &d, &error) < 0) {
        terminal_printf(stderr, "pto profile: %s\n", error.text);
        return EXIT_FAILED;
    }
    cli_json_open(&j, NULL, '{');
    cli_json_open(&j, "medians", '[');
    for (uint32_t i = 0; i < d.count; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_string(&j, "kernel", d.cost[i].kernel);
        if (d.cost[i].shapes != 0)
            cli_json_integer(&j, "shapes", d.cost[i].shapes);
        cli_json_integer(&j, "ns", strtoull(d.cost[i].formula, NULL, 10));
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
    cli_durations_free(&d);
    return EXIT_OK;
}

/*
 * Analyses the group with this index; for PTO_RECORDING_NONE, the worker and the chip with most
 * executions. Returns the exit code, after a sentence on stderr if nothing could be analysed.
 */
static int analyse(const struct request *request, const struct see_recording *r, uint32_t group,
                   const char *target, struct profile *p)
{
    struct see_question question[CLI_QUESTIONS_MAX];
    struct pto_error error = { .size = sizeof(error) };
    bool is_worker =
        group != PTO_RECORDING_NONE && r->group[group].kind == PTO_RECORDING_GROUP_WORKER;
    uint32_t above = group == PTO_RECORDING_NONE ? see_worker_group(r) : group;
    int status = PTO_EINVAL,
        code = cli_recorded_questions("profile", r, &request->what_if, question);

    if (code != EXIT_OK)
        return code;
    if (above != PTO_RECORDING_NONE && (is_worker || group == PTO_RECORDING_NONE))
        status = see_worker_make(r, above, &p->worker, &error);
    if (!is_worker && status != PTO_ENOMEM &&
        see_analysis_make(r, group, true, &p->chip, &error) >= 0)
        status = PTO_OK;
    if (p->chip != NULL &&
        see_what_if_ask(&p->chip->what_if, &p->chip->model, question, request->what_if.count) < 0)
        status = error_setf(&error, PTO_ENOMEM, "out of memory");
    if (status >= 0)
        return EXIT_OK;
    terminal_printf(stderr, "pto profile: %s: %s\n", target, error.text);
    return EXIT_FAILED;
}

/* Analyses the recording and prints it. Returns the exit code. */
static int profile_print(const struct request *request, const struct see_recording *r,
                         const char *target)
{
    struct profile p = { .r = r, .kernels = request->kernels };
    char title[TITLE_BYTES];
    uint32_t group;
    int code;

    if (!find_named_group(r, request->group, &group))
        return EXIT_USAGE;
    cli_recorded_title(r, target, title, sizeof(title));
    p.title = title;
    code = analyse(request, r, group, target, &p);
    if (code == EXIT_OK && request->is_json)
        cli_profile_print_json(&p);
    else if (code == EXIT_OK)
        cli_profile_print(&p);
    see_analysis_free(p.chip);
    see_worker_free(p.worker);
    return code;
}

static int do_profile(void *context, int count, char **operands)
{
    const struct request *request = context;
    struct see_recording *r = NULL;
    int code;

    (void)count;
    code = cli_recorded_open("profile", operands[0], &request->recorded, &r);
    if (code != EXIT_OK)
        return code;
    code = request->has_medians ? print_medians(r, operands[0])
                                : profile_print(request, r, operands[0]);
    see_recording_free(r);
    return code;
}
