/* SPDX-License-Identifier: Apache-2.0 */
/* `pto races` searches a recorded run for conflicting tasks that nothing orders. */
#include "tool/cli/commands.h"
#include "tool/cli/races_print.h"
#include "tool/cli/recorded.h"

struct request {
    struct recorded_options recorded;
    bool is_json;
};

static int do_races(void *context, int count, char **operands);

static const struct cli_option options[] = {
    CLI_OPTIONS_RECORDED(struct request, recorded),
    CLI_OPTION_JSON(struct request, is_json, "tables"),
    CLI_OPTIONS_END,
};

const struct cli_command cmd_races = {
    .name = "races",
    .summary = "find tasks that use the same memory in no order",
    .synopsis = "SCENE|FILE [OPTION...]",
    .description =
        "Searches a run for pairs of tasks that use the same memory, one of them to write, and "
        "that "
        "no dependency orders: their result depends on which one runs first. A scene is run and "
        "recorded first; a file is a recording (.ptrec), which `pto run --trace NAME.ptrec` "
        "writes.",
    .notes = "Exit code 0: no races. 1: races, or the recording is not complete. "
             "docs/user/races.md explains the result.",
    .options = options,
    .operands_min = 1,
    .operands_max = 1,
    .request_bytes = sizeof(struct request),
    .run = do_races,
};

static int do_races(void *context, int count, char **operands)
{
    struct request *request = context;
    struct see_recording *r = NULL;
    struct cli_races races;
    int code;

    (void)count;
    code = cli_recorded_open("races", operands[0], &request->recorded, &r);
    if (code != EXIT_OK)
        return code;
    if (cli_races_find(r, &races) < 0) {
        fprintf(stderr, "pto races: not enough memory to search %s\n", operands[0]);
        code = EXIT_FAILED;
    } else if (request->is_json) {
        cli_races_print_json(&races);
    } else {
        printf("races: ");
        cli_races_print(&races, stdout);
    }
    if (code == EXIT_OK && races.verdict != CLI_RACES_NONE)
        code = EXIT_FAILED;
    cli_races_free(&races);
    see_recording_free(r);
    return code;
}
