/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto graph` writes the graph of kernels of a recording, or the tasks around one task, for
 * Graphviz.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "tool/cli/commands.h"
#include "tool/cli/machine.h"
#include "tool/cli/recorded.h"
#include "tool/see/graph_text.h"

enum { DEPTH_MAX = 100, DOT_SECONDS = 120 };

static const char *format_name(uint32_t format)
{
    static const char *const names[] = { "dot", "svg" };

    return names[format];
}

enum format { FORMAT_DOT, FORMAT_SVG };

struct request {
    struct recorded_options recorded;
    struct cli_number task;
    uint32_t depth;
    enum format format;
    const char *output; /* path of the output file; NULL: stdout */
};

static int do_graph(void *context, int count, char **operands);

static const struct cli_option options[] = {
    { "task", 0, "N", "the tasks around this one, by its number in the report, instead of kernels",
      CLI_NUMBER, .at = offsetof(struct request, task), .high = UINT32_MAX },
    { "depth", 0, "N", "with --task: include tasks up to N edges before and after that task",
      CLI_COUNT, .at = offsetof(struct request, depth), .low = 1, .high = DEPTH_MAX,
      .initial = "2" },
    { "format", 0, "dot|svg",
      "text for Graphviz, or the drawing that its program `dot` makes of it", CLI_CHOICE,
      .at = offsetof(struct request, format), .choices = format_name, .choice_count = 2,
      .initial = "dot" },
    { "output", 'o', "FILE", "write to a file instead of the terminal", CLI_TEXT,
      .at = offsetof(struct request, output) },
    CLI_OPTIONS_RECORDED(struct request, recorded),
    CLI_OPTIONS_END,
};

const struct cli_command cmd_graph = {
    .name = "graph",
    .summary = "draw the graph of a run",
    .synopsis = "SCENE|FILE [OPTION...]",
    .description =
        "Writes the graph of kernels of a run, with the number of dependencies by "
        "reason, or the tasks around one task, with shapes, lines and the reason of each "
        "dependency. A scene is run and recorded first; a file is a recording (.ptrec) or "
        "simpler's chip_swimlane_records.json.",
    .options = options,
    .operands_min = 1,
    .operands_max = 1,
    .request_bytes = sizeof(struct request),
    .run = do_graph,
};

/* Returns the graph as Graphviz text; NULL: it failed, and a sentence is on stderr. */
static char *make_text(const struct see_recording *r, const struct request *request, size_t *bytes)
{
    uint32_t left_out = 0;
    char *text = NULL;
    FILE *to = open_memstream(&text, bytes);
    int status;

    if (to == NULL)
        return NULL;
    if (request->task.is_given)
        status = see_graph_around(r, (uint32_t)request->task.value, request->depth, to, &left_out);
    else
        status = see_graph_kernels(r, to);
    if (fclose(to) != 0 || status < 0) {
        fprintf(stderr, "pto graph: not enough memory for the graph\n");
        free(text);
        return NULL;
    }
    if (left_out != 0)
        fprintf(stderr,
                "pto graph: more than %d tasks are around task %llu, and the others are left out; "
                "a smaller --depth has fewer\n",
                SEE_GRAPH_TASKS_MAX, (unsigned long long)request->task.value);
    return text;
}

/* ---- the drawing ---- */

/*
 * Runs `dot` with these descriptors as input and output, for a limited time. Returns its exit code.
 */
static int run_dot(const char *program, int in, int out)
{
    const struct rlimit limit = { .rlim_cur = DOT_SECONDS, .rlim_max = DOT_SECONDS };
    pid_t child = fork();
    int state = 0;

    if (child == 0) {
        (void)setrlimit(RLIMIT_CPU, &limit);
        if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
            execl(program, "dot", "-Tsvg", (char *)NULL);
        _exit(EXIT_FAILED);
    }
    if (child < 0)
        return EXIT_FAILED;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(state) ? WEXITSTATUS(state) : EXIT_FAILED;
}

/* Returns the drawing that `dot` makes of the Graphviz text; NULL: it failed. */
static char *draw_text(const char *program, const char *text, size_t *bytes)
{
    int in = memfd_create("graph", MFD_CLOEXEC), out = memfd_create("drawing", MFD_CLOEXEC);
    off_t end = 0;
    char *drawing = NULL;

    if (in >= 0 && out >= 0 && file_put(in, text, *bytes) && lseek(in, 0, SEEK_SET) == 0 &&
        run_dot(program, in, out) == EXIT_OK && (end = lseek(out, 0, SEEK_END)) > 0)
        drawing = malloc((size_t)end + 1);
    if (drawing != NULL && pread(out, drawing, (size_t)end, 0) != end) {
        free(drawing);
        drawing = NULL;
    }
    *bytes = (size_t)end;
    close(in);
    close(out);
    return drawing;
}

/* Frees Graphviz text and returns its drawing; NULL: it failed, and a sentence is on stderr. */
static char *graph_draw(char *text, size_t *bytes)
{
    char program[PATH_MAX];
    char *drawing = NULL;

    if (!cli_machine_find_program("dot", program)) {
        fprintf(stderr, "pto graph: a drawing needs Graphviz, whose program dot was not found; "
                        "install it, or use --format dot\n");
    } else {
        drawing = draw_text(program, text, bytes);
        if (drawing == NULL)
            fprintf(
                stderr,
                "pto graph: dot did not draw the graph; it may use %d s of CPU time; --format dot "
                "writes the text for other programs\n",
                DOT_SECONDS);
    }
    free(text);
    return drawing;
}

static int graph_write_text(const struct request *request, const char *text, size_t bytes)
{
    const char *path = request->output != NULL ? request->output : "the terminal";
    bool is_written = request->output != NULL ? file_write(request->output, text, bytes) >= 0
                                              : file_put(STDOUT_FILENO, text, bytes);

    if (!is_written)
        fprintf(stderr, "pto graph: %s: %s\n", path, strerror(errno));
    return is_written ? EXIT_OK : EXIT_FAILED;
}

static int do_graph(void *context, int count, char **operands)
{
    const struct request *request = context;
    struct see_recording *r = NULL;
    size_t bytes = 0;
    char *text = NULL;
    int code = cli_recorded_open("graph", operands[0], &request->recorded, &r);

    (void)count;
    if (code != EXIT_OK)
        return code;
    if (request->task.is_given && request->task.value >= r->task_count) {
        fprintf(stderr, "pto graph: there is no task %llu; the recording has tasks 0 to %u\n",
                (unsigned long long)request->task.value, r->task_count - 1);
        code = EXIT_USAGE;
    } else {
        text = make_text(r, request, &bytes);
        if (text != NULL && request->format == FORMAT_SVG)
            text = graph_draw(text, &bytes);
        code = text != NULL ? graph_write_text(request, text, bytes) : EXIT_FAILED;
    }
    free(text);
    see_recording_free(r);
    return code;
}
