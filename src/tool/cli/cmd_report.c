/* SPDX-License-Identifier: Apache-2.0 */
/* `pto report` writes a recorded run as one HTML page, which needs no other files. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tool/cli/commands.h"
#include "tool/cli/recorded.h"
#include "tool/cli/report_page.h"

enum { TITLE_BYTES = 256 };

#define DEFAULT_OUTPUT "report.html"

struct request {
    struct recorded_options recorded;
    const char *output;
    const char *compare; /* recording to compare with; NULL: none */
    const char *title;   /* title of the page; NULL: the title of the recording */
    struct cli_texts what_if;
};

static int do_report(void *context, int count, char **operands);

static const struct cli_option options[] = {
    { "output", 'o', "FILE", "the file to write", CLI_TEXT, .at = offsetof(struct request, output),
      .initial = DEFAULT_OUTPUT },
    { "compare", 0, "FILE",
      "a recording from before a change; the page shows what has changed since", CLI_TEXT,
      .at = offsetof(struct request, compare) },
    { "title", 0, "TEXT", "title of the page (default: the name of the scene or file)", CLI_TEXT,
      .at = offsetof(struct request, title) },
    CLI_OPTION_WHAT_IF(struct request, what_if),
    CLI_OPTIONS_RECORDED(struct request, recorded),
    CLI_OPTIONS_END,
};

const struct cli_command cmd_report = {
    .name = "report",
    .summary = "write a page that shows a run",
    .synopsis = "SCENE|FILE [OPTION...]",
    .description =
        "Writes one HTML file that shows a recorded run: why it took as long as it did, what each "
        "core did, the critical path, what a change would gain, and each task with its neighbours. "
        "The page loads nothing from anywhere. A scene is run and recorded first; a file is a "
        "recording (.ptrec) or simpler's chip_swimlane_records.json.",
    .options = options,
    .operands_min = 1,
    .operands_max = 1,
    .request_bytes = sizeof(struct request),
    .run = do_report,
};

/* Writes the page to a temporary file and renames it, so that it is whole or absent. */
static int write_page(const struct request *request, const struct report_about *about)
{
    struct file_part part;
    int status, file;
    FILE *to;

    if (file_part_open(request->output, 0666, &part) < 0)
        goto failed;
    file = dup(part.file);
    to = file >= 0 ? fdopen(file, "w") : NULL;
    if (to == NULL) {
        (void)file_part_close(&part, false);
        goto failed;
    }
    status = cli_report_write(to, about);
    if (fclose(to) != 0)
        status = PTO_ESYSTEM;
    if (file_part_close(&part, status >= 0) >= 0 && status >= 0)
        return EXIT_OK;
    if (status == PTO_ENOMEM)
        errno = ENOMEM;
failed:
    fprintf(stderr, "pto report: %s: %s\n", request->output, strerror(errno));
    return EXIT_FAILED;
}

static int do_report(void *context, int count, char **operands)
{
    const struct request *request = context;
    struct see_recording *r = NULL, *other = NULL;
    struct see_question question[CLI_QUESTIONS_MAX];
    char title[TITLE_BYTES], other_title[TITLE_BYTES];
    int code = cli_recorded_open("report", operands[0], &request->recorded, &r);

    (void)count;
    if (code == EXIT_OK)
        code = cli_recorded_questions("report", r, &request->what_if, question);
    if (code == EXIT_OK && request->compare != NULL)
        code = cli_recorded_open("report", request->compare, &request->recorded, &other);
    if (code == EXIT_OK) {
        struct report_about about = { .r = r,
                                      .other = other,
                                      .title = request->title,
                                      .question = question,
                                      .question_count = request->what_if.count };

        cli_recorded_title(r, operands[0], title, sizeof(title));
        if (about.title == NULL)
            about.title = title;
        if (other != NULL)
            cli_recorded_title(other, request->compare, other_title, sizeof(other_title));
        about.other_title = other_title;
        code = write_page(request, &about);
    }
    if (code == EXIT_OK)
        printf("%s\n", request->output);
    see_recording_free(r);
    see_recording_free(other);
    return code;
}
