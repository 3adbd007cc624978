/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/recorded.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "tool/cli/commands.h"
#include "tool/scene/terminal.h"
#include "tool/see/recording_join.h"
#include "tool/see/swimlane_read.h"

enum { ARGUMENTS_MAX = 32 + 4 * CLI_TEXTS_MAX, NUMBER_BYTES = 12 };

static bool has_ending(const char *path, const char *ending)
{
    size_t length = strlen(path), end = strlen(ending);

    return length > end && strcmp(path + length - end, ending) == 0;
}

/* ---- a scene ---- */

/* Appends the options for virtual time to a command line; returns the number of words. */
static uint32_t add_virtual(const struct virtual_options *given, const char **argument)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < given->cost.count; i++) {
        argument[count++] = "--cost";
        argument[count++] = given->cost.text[i];
    }
    if (given->durations != NULL) {
        argument[count++] = "--durations";
        argument[count++] = given->durations;
    }
    if (given->scheduling != NULL) {
        argument[count++] = "--scheduling";
        argument[count++] = given->scheduling;
    }
    if (given->has_free_scheduling)
        argument[count++] = "--no-scheduling-cost";
    if (given->is_planned_only)
        argument[count++] = "--no-compute";
    return count;
}

/* Replaces this process by `pto run`, with its stdout redirected to stderr. */
static void become_run(const char *scene, const char *trace, const struct recorded_options *o)
{
    char clusters[NUMBER_BYTES], threads[NUMBER_BYTES], rounds[NUMBER_BYTES];
    const char *argument[ARGUMENTS_MAX] = {
        "pto", "run", scene, "--mode", pto_mode_name(o->mode), "--trace", trace
    };
    uint32_t count = 7;

    if (o->case_name != NULL) {
        argument[count++] = "--case";
        argument[count++] = o->case_name;
    }
    argument[count++] = "--platform";
    argument[count++] = o->platform;
    if (o->clusters != 0) {
        snprintf(clusters, sizeof(clusters), "%u", o->clusters);
        argument[count++] = "--clusters";
        argument[count++] = clusters;
    }
    if (o->threads != 0) {
        snprintf(threads, sizeof(threads), "%u", o->threads);
        argument[count++] = "--threads";
        argument[count++] = threads;
    }
    if (o->is_virtual)
        argument[count++] = "--virtual";
    else if (o->rounds > 1) { /* in virtual time, runs only once, because all runs would be equal */
        snprintf(rounds, sizeof(rounds), "%u", o->rounds);
        argument[count++] = "--rounds";
        argument[count++] = rounds;
    }
    for (uint32_t i = 0; i < o->flag.count; i++) {
        argument[count++] = "--flag";
        argument[count++] = o->flag.text[i];
    }
    count += add_virtual(&o->given, argument + count);
    if (dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
        execv("/proc/self/exe", (char *const *)argument);
    _exit(EXIT_FAILED);
}

/*
 * Runs `pto run` as a child process. Returns its exit code; EXIT_INTERRUPTED after Ctrl-C, which
 * this process survives, to clean up.
 */
static int recorded_run_scene(const char *scene, const char *trace,
                              const struct recorded_options *o)
{
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    struct sigaction before;
    pid_t parent = getpid(), child;
    int state = 0;

    fflush(NULL);
    (void)sigaction(SIGINT, &ignore, &before);
    child = fork();
    if (child == 0) {
        (void)sigaction(SIGINT, &before, NULL);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            become_run(scene, trace, o);
        _exit(EXIT_FAILED);
    }
    while (child > 0 && waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    (void)sigaction(SIGINT, &before, NULL);
    if (child < 0)
        return EXIT_FAILED;
    if (WIFSIGNALED(state) && WTERMSIG(state) == SIGINT)
        return EXIT_INTERRUPTED;
    return WIFEXITED(state) ? WEXITSTATUS(state) : EXIT_FAILED;
}

/* Returns N for a path NAME-rankN.ptrec, and PTO_RECORDING_NONE for any other path. */
static uint32_t rank_of(const char *path)
{
    const char *mark = strstr(path, "-rank"), *last = NULL;

    for (; mark != NULL; mark = strstr(mark + 1, "-rank"))
        last = mark;
    return last != NULL && isdigit((unsigned char)last[5]) ? (uint32_t)strtoul(last + 5, NULL, 10)
                                                           : PTO_RECORDING_NONE;
}

/*
 * Reads the recordings of ranks into `part` and the numbers of the ranks into `rank`, both ordered
 * by rank and with room for all. The caller frees the parts, even after a failure.
 */
static int read_ranks(const glob_t *found, struct see_recording **part, uint32_t *rank,
                      struct pto_error *error)
{
    uint32_t count = (uint32_t)found->gl_pathc;
    int status = PTO_OK;

    for (uint32_t i = 0; status >= 0 && i < count; i++) {
        uint32_t place = 0;

        /*
         * files are ordered by rank: the index of a file is the number of files with a lower rank
         */
        for (uint32_t k = 0; k < count; k++)
            place += rank_of(found->gl_pathv[k]) < rank_of(found->gl_pathv[i]);
        rank[place] = rank_of(found->gl_pathv[i]);
        status = see_recording_read(found->gl_pathv[i], &part[place], error);
    }
    return status;
}

/* Reads the recordings of several ranks and joins them. */
static int join_ranks(const glob_t *found, struct see_recording **out, struct pto_error *error)
{
    uint32_t count = (uint32_t)found->gl_pathc;
    struct see_recording **part = calloc(count, sizeof(*part));
    uint32_t *rank = calloc(count, sizeof(*rank));
    int status = part != NULL && rank != NULL ? PTO_OK : PTO_ENOMEM;

    if (status >= 0)
        status = read_ranks(found, part, rank, error);
    if (status >= 0) {
        status = see_recording_join(part, rank, count, out);
        if (status < 0)
            error_setf(error, status, "not enough memory for the recordings of %u ranks", count);
    }
    for (uint32_t i = 0; part != NULL && i < count; i++)
        see_recording_free(part[i]);
    free(part);
    free(rank);
    return status;
}

/* Reads the recordings that a pattern finds: one, or one per rank. If there is none, *out is NULL. */
static int read_found(const char *pattern, struct see_recording **out, struct pto_error *error)
{
    glob_t found;
    int status;

    *out = NULL;
    if (glob(pattern, 0, NULL, &found) != 0)
        return PTO_OK;
    status = found.gl_pathc == 1 ? see_recording_read(found.gl_pathv[0], out, error)
                                 : join_ranks(&found, out, error);
    globfree(&found);
    return status;
}

/* Reads the recordings that the run wrote to its folder. */
static int read_recorded(const char *command, const char *pattern, struct see_recording **out)
{
    struct pto_error error = { .size = sizeof(error) };
    int status = read_found(pattern, out, &error);

    if (status >= 0 && *out != NULL)
        return EXIT_OK;
    fprintf(stderr, "pto %s: %s\n", command, status < 0 ? error.text : "the run left no recording");
    return EXIT_FAILED;
}

/* Reads NAME.ptrec, or, if there is none, NAME-rank*.ptrec as one recording. */
static int read_recording(const char *path, struct see_recording **out, struct pto_error *error)
{
    char pattern[2 * PATH_MAX];
    size_t end = strlen(path) - strlen(".ptrec"), length = 0;
    int status = PTO_OK;

    for (size_t i = 0; i < end && length < sizeof(pattern) - 32; i++) {
        if (strchr("*?[\\", path[i]) != NULL)
            pattern[length++] = '\\';
        pattern[length++] = path[i];
    }
    snprintf(pattern + length, sizeof(pattern) - length, "-rank[0-9]*.ptrec");
    *out = NULL;
    if (access(path, F_OK) != 0)
        status = read_found(pattern, out, error);
    return status >= 0 && *out == NULL ? see_recording_read(path, out, error) : status;
}

/* Runs a scene and reads its recording, even if the run failed. */
static int open_scene(const char *command, const char *scene, const struct recorded_options *o,
                      struct see_recording **out)
{
    char folder[PATH_MAX], trace[PATH_MAX + 16], pattern[PATH_MAX + 16];
    int code, read;

    snprintf(folder, sizeof(folder), "%s/pto-recorded-XXXXXX", file_temporary_folder());
    if (mkdtemp(folder) == NULL) {
        fprintf(stderr, "pto %s: %s: %s\n", command, folder, strerror(errno));
        return EXIT_FAILED;
    }
    snprintf(trace, sizeof(trace), "%s/run.ptrec", folder);
    code = recorded_run_scene(scene, trace, o);
    snprintf(pattern, sizeof(pattern), "%s/*.ptrec", folder);
    read = code == EXIT_USAGE || code == EXIT_INTERRUPTED ? code
                                                          : read_recorded(command, pattern, out);
    file_remove_tree(folder);
    if (code == EXIT_INTERRUPTED)
        (void)raise(SIGINT);
    return read;
}

/* ---- files ---- */

/*
 * Returns how many cores of simulated chips executed tasks in wall-clock time; 0: the cores are
 * real, or the time is virtual.
 */
static uint32_t count_simulated_cores(const struct see_recording *r)
{
    const struct pto_platform *platform = pto_platform_find(r->platform);
    bool *is_used = calloc(r->lane_count + 1ull, sizeof(*is_used));
    uint32_t count = 0;

    if (is_used != NULL && platform != NULL && platform->is_simulated &&
        r->clock == PTO_RECORDING_CLOCK_WALL) {
        for (uint64_t i = 0; i < r->slice_count; i++) {
            uint32_t lane = r->slice[i].lane;

            count += !is_used[lane] && r->lane[lane].kind <= PTO_RECORDING_LANE_AIV;
            is_used[lane] = true;
        }
    }
    free(is_used);
    return count;
}

/*
 * Warns if simulated cores outnumber the CPUs. Not for scenes: their run prints this warning
 * itself.
 */
static void warn_of_crowded(const char *command, const char *file, const struct see_recording *r)
{
    uint32_t cores = count_simulated_cores(r);

    if (r->cpus != 0 && cores > r->cpus)
        terminal_printf(stderr, "pto %s: warning: %s: " CLI_CROWDED "\n", command, file, cores,
                        r->cpus, r->cpus == 1 ? "" : "s");
}

int cli_recorded_open(const char *command, const char *target,
                      const struct recorded_options *options, struct see_recording **out)
{
    struct pto_error error = { .size = sizeof(error) };
    char path[PATH_MAX];
    int status;

    if (has_ending(target, ".ptrec"))
        status = read_recording(target, out, &error);
    else if (see_swimlane_find(target, path, sizeof(path)))
        status = see_swimlane_read(path, out, &error);
    else
        return open_scene(command, target, options, out);
    if (status < 0) {
        fprintf(stderr, "pto %s: %s\n", command, error.text);
        return EXIT_FAILED;
    }
    warn_of_crowded(command, target, *out);
    return EXIT_OK;
}

int cli_recorded_questions(const char *command, const struct see_recording *r,
                           const struct cli_texts *texts, struct see_question *out)
{
    struct pto_error error = { .size = sizeof(error) };

    for (uint32_t i = 0; i < texts->count; i++)
        if (see_question_parse(r, texts->text[i], &out[i], &error) < 0) {
            terminal_printf(stderr, "pto %s: --what-if: %s\n", command, error.text);
            return EXIT_USAGE;
        }
    return EXIT_OK;
}

void cli_recorded_title(const struct see_recording *r, const char *target, char *title,
                        size_t bytes)
{
    const char *slash = strrchr(target, '/');

    if (r->title[0] != '\0')
        snprintf(title, bytes, "%s", r->title);
    else if (r->scene[0] != '\0')
        snprintf(title, bytes, "%s%s%s", r->scene, r->test_case[0] != '\0' ? ", " : "",
                 r->test_case);
    else
        snprintf(title, bytes, "%s", slash != NULL && slash[1] != '\0' ? slash + 1 : target);
}
