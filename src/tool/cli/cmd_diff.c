/* SPDX-License-Identifier: Apache-2.0 */
/* `pto diff` reports what changed between two recorded runs. */
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/diff_print.h"
#include "tool/cli/recorded.h"
#include "tool/scene/terminal.h"

enum { TITLE_BYTES = 256 };

struct request {
    struct recorded_options recorded;
    bool is_check;
    bool is_json;
};

/* One of the two runs to compare. */
struct diff_run {
    struct see_recording *r;
    struct see_analysis *analysis;
    char title[TITLE_BYTES];
};

static int do_diff(void *context, int count, char **operands);

static const struct cli_option options[] = {
    CLI_OPTIONS_RECORDED(struct request, recorded),
    { "check", 0, NULL, "exit with 1 if a kernel, submission or scheduling got slower", CLI_FLAG,
      .at = offsetof(struct request, is_check) },
    CLI_OPTION_JSON(struct request, is_json, "tables"),
    CLI_OPTIONS_END,
};

const struct cli_command cmd_diff = {
    .name = "diff",
    .summary = "show what changed between two runs",
    .synopsis = "BEFORE AFTER [OPTION...]",
    .description =
        "Shows what got slower or faster from one run to another, by kernel and by cause, and "
        "whether it is more than noise. Each run is a recording (.ptrec), simpler's "
        "chip_swimlane_records.json, or a scene, which is run and recorded first.",
    .options = options,
    .operands_min = 2,
    .operands_max = 2,
    .request_bytes = sizeof(struct request),
    .run = do_diff,
};

/*
 * Opens a recording and analyses one chip or rank of it: the one with the same name as the chip or
 * rank that `like` describes, or, if `like` is NULL, the one whose cores executed most.
 */
static int open_run(const struct request *request, const char *target,
                    const struct see_analysis *like, struct diff_run *run)
{
    struct pto_error error = { .size = sizeof(error) };
    int status, code = cli_recorded_open("diff", target, &request->recorded, &run->r);

    if (code != EXIT_OK)
        return code;
    cli_recorded_title(run->r, target, run->title, sizeof(run->title));
    status = like != NULL
                 ? see_analysis_like(like, run->r, &run->analysis, &error)
                 : see_analysis_make(run->r, PTO_RECORDING_NONE, false, &run->analysis, &error);
    if (status >= 0 && run->r->group_count > 1) {
        size_t length = strlen(run->title);

        snprintf(run->title + length, sizeof(run->title) - length, ", %s",
                 run->r->group[run->analysis->work.group].name);
    }
    if (status >= 0)
        return EXIT_OK;
    terminal_printf(stderr, "pto diff: %s: %s\n", target, error.text);
    return EXIT_FAILED;
}

static bool is_slower(const struct see_difference *d)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (d->row[i].changed == SEE_CHANGED_SLOWER)
            return true;
    return false;
}

static int do_diff(void *context, int count, char **operands)
{
    const struct request *request = context;
    struct diff_run run[SEE_RUNS];
    struct see_difference d;
    int code = EXIT_OK;

    (void)count;
    memset(run, 0, sizeof(run));
    for (int i = 0; i < SEE_RUNS && code == EXIT_OK; i++)
        code = open_run(request, operands[i], run[SEE_BEFORE].analysis, &run[i]);
    if (code == EXIT_OK &&
        see_difference_make(run[SEE_BEFORE].analysis, run[SEE_AFTER].analysis, &d) < 0) {
        fprintf(stderr, "pto diff: not enough memory to compare the runs\n");
        code = EXIT_FAILED;
    } else if (code == EXIT_OK) {
        if (request->is_json)
            cli_diff_print_json(&d);
        else
            cli_diff_print(&d, run[SEE_BEFORE].title, run[SEE_AFTER].title);
        if (request->is_check && is_slower(&d))
            code = EXIT_FAILED;
        see_difference_free(&d);
    }
    for (int i = 0; i < SEE_RUNS; i++) {
        see_analysis_free(run[i].analysis);
        see_recording_free(run[i].r);
    }
    return code;
}
