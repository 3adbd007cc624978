/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the scenes of test files in Python, and starts the interpreter that runs them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create, memmem */
#endif

#include "tool/cli/test_python.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "tool/scene/scene_config.h"

enum { DEPTH_MAX = 32, FILES_MAX = 4096, SOURCE_MAX = 4 << 20, LIST_SECONDS = 600 };
/* time limit of a case in seconds; it is long, because golden functions in Python can be slow */
enum { CASE_SECONDS = 600 };

static const char *test_python_interpreter(void)
{
    const char *own = getenv("PTO_PYTHON");

    return own != NULL && own[0] != '\0' ? own : "python3";
}

bool cli_python_is_file(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    size_t length = strlen(name);

    return length > 3 && strcmp(name + length - 3, ".py") == 0 &&
           strcmp(name, SCENE_CONFIG_FILE) != 0;
}

/* ---- finding files ---- */

static int test_python_add(struct scene_paths *paths, const char *path, struct pto_error *error)
{
    char **grown = realloc(paths->path, (paths->count + 1) * sizeof(*grown));

    if (grown != NULL)
        paths->path = grown;
    if (grown == NULL || paths->count == FILES_MAX || (grown[paths->count] = strdup(path)) == NULL)
        return error_setf(error, PTO_ENOMEM, "too many files, or out of memory");
    paths->count++;
    return PTO_OK;
}

/*
 * Whether a file defines a scene, or a test function for platforms: its text says so, because
 * importing every file would be slow.
 */
static bool has_scene(const char *path)
{
    struct pto_error error = { .size = sizeof(error) };
    char *bytes = NULL;
    size_t size = 0;
    bool is_one =
        file_load(path, SOURCE_MAX, &bytes, &size, &error) == PTO_OK &&
        (strstr(bytes, "SceneTestCase):") != NULL || strstr(bytes, "mark.platforms(") != NULL);

    free(bytes);
    return is_one;
}

/* Links to folders are not followed, because they may form cycles. */
static int test_python_add_below(const char *path, uint32_t depth, struct scene_paths *paths,
                                 struct pto_error *error)
{
    struct dirent **entry;
    int count = depth < DEPTH_MAX ? scandir(path, &entry, NULL, alphasort) : 0;
    int status = PTO_OK;

    for (int i = 0; i < count; i++) {
        const char *name = entry[i]->d_name;
        bool is_here = strcmp(path, ".") == 0;
        char below[PATH_MAX];
        struct stat info;

        if (status == PTO_OK && name[0] != '.' &&
            snprintf(below, sizeof(below), "%s%s%s", is_here ? "" : path, is_here ? "" : "/",
                     name) < (int)sizeof(below) &&
            lstat(below, &info) == 0) {
            if (S_ISDIR(info.st_mode))
                status = test_python_add_below(below, depth + 1, paths, error);
            else if (strncmp(name, "test_", 5) == 0 && cli_python_is_file(name) && has_scene(below))
                status = test_python_add(paths, below, error);
        }
        free(entry[i]);
    }
    if (count > 0)
        free(entry);
    return status;
}

int cli_python_find(const char *path, struct scene_paths *paths, struct pto_error *error)
{
    char folder[PATH_MAX];
    size_t length = strlen(path);

    if (cli_python_is_file(path)) {
        if (access(path, R_OK) != 0)
            return error_setf(error, PTO_EINVAL, "'%.1000s' cannot be read: %s", path,
                              strerror(errno));
        return test_python_add(paths, path, error);
    }
    if (length == 0 || length >= sizeof(folder))
        return PTO_OK; /* scene_find_below reports an invalid path */
    memcpy(folder, path, length + 1);
    while (length > 1 && folder[length - 1] == '/')
        folder[--length] = '\0';
    return test_python_add_below(folder, 0, paths, error);
}

/* ---- listing cases ---- */

/* Starts the interpreter in this process. Modules come from its packages, not from this folder. */
static void test_python_exec(char *const *argv)
{
    setenv("PYTHONSAFEPATH", "1", 1);
    execvp(argv[0], argv);
}

/* Lets an interpreter list the cases of files. Returns its text, which the caller frees. */
static char *list_cases(char *const *path, uint32_t count, int *state_out)
{
    int to = memfd_create("cases", 0);
    char **argv = calloc(count + 6, sizeof(*argv)), number[16], *text = NULL;
    struct stat info;
    pid_t child;

    *state_out = -1;
    snprintf(number, sizeof(number), "%d", to);
    if (argv == NULL || to < 0)
        goto out;
    argv[0] = (char *)test_python_interpreter();
    argv[1] = "-m";
    argv[2] = "pto.testing.child";
    argv[3] = "list";
    argv[4] = number;
    memcpy(argv + 5, path, count * sizeof(*argv));
    fflush(stdout);
    child = fork();
    if (child == 0) {
        alarm(LIST_SECONDS); /* the alarm remains set after the exec */
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
        test_python_exec(argv);
        _exit(127);
    }
    while (child > 0 && waitpid(child, state_out, 0) < 0 && errno == EINTR) {
    }
    if (child > 0 && fstat(to, &info) == 0 && (text = calloc(1, (size_t)info.st_size + 1)) != NULL)
        (void)!pread(to, text, (size_t)info.st_size, 0);
out:
    free(argv);
    if (to >= 0)
        close(to);
    return text;
}

static const char *test_python_next_word(char **line)
{
    const char *word = strsep(line, "\t");

    return word != NULL ? word : "";
}

static void read_case(struct scene *scene, struct scene_case *test_case, char *line)
{
    char *platforms;

    test_case->name = test_python_next_word(&line);
    platforms = (char *)test_python_next_word(&line);
    while (platforms != NULL && platforms[0] != '\0' &&
           test_case->platform_count < SCENE_PLATFORMS_MAX)
        test_case->platform[test_case->platform_count++] = strsep(&platforms, ",");
    test_case->modes =
        1u << (strcmp(test_python_next_word(&line), "host") == 0 ? PTO_MODE_HOST : PTO_MODE_STREAM);
    scene->level = (uint32_t)strtoul(test_python_next_word(&line), NULL, 10);
    test_case->manual = test_python_next_word(&line);
    test_case->timeout = CASE_SECONDS;
}

/*
 * Makes a scene from the lines about one file, up to the next file. The scene and its cases are one
 * allocation, its texts another one, so that scene_close frees them.
 */
static struct scene *test_python_read_file(const char *path, const char *lines, size_t bytes,
                                           char **text, bool *is_skipped)
{
    size_t length = strlen(path) - 3, count = 0; /* without .py */
    struct scene *scene;
    char *at, *line;

    for (size_t i = 0; i < bytes; i++)
        count += lines[i] == '\n';
    scene = calloc(1, sizeof(*scene) + count * sizeof(struct scene_case));
    if (scene == NULL || (scene->path = calloc(1, length + bytes + 2)) == NULL) {
        free(scene);
        return NULL;
    }
    memcpy(scene->path, path, length);
    scene->name = scene->path;
    scene->folder = ".";
    scene->is_python = true;
    scene->test_case = (struct scene_case *)(scene + 1);
    at = scene->path + length + 1;
    memcpy(at, lines, bytes);
    while ((line = strsep(&at, "\n")) != NULL) {
        const char *kind = test_python_next_word(&line);

        if (strcmp(kind, "case") == 0 && line != NULL)
            read_case(scene, &scene->test_case[scene->case_count++], line);
        else if (strcmp(kind, "error") == 0 || strcmp(kind, "skip") == 0) {
            *is_skipped = kind[0] == 's';
            if (asprintf(text, "%s: %s", path, line) < 0)
                *text = NULL;
        }
    }
    if (*text != NULL) {
        free(scene->path);
        free(scene);
        return NULL;
    }
    return scene;
}

void cli_python_open(char *const *path, uint32_t count, struct scene **scene, char **text,
                     bool *is_skipped)
{
    int state = 0;
    char *all = count != 0 ? list_cases(path, count, &state) : NULL;
    size_t length = all != NULL ? strlen(all) : 0;
    const char *at = all;

    for (uint32_t i = 0; i < count; i++) {
        bool is_whole = length >= 4 && strcmp(all + length - 4, "end\n") == 0;

        if (is_whole && strncmp(at, "file\n", 5) == 0) {
            const char *lines = at + 5;

            at = strstr(lines - 1, "\nfile\n") != NULL ? strstr(lines - 1, "\nfile\n") + 1
                                                       : all + length - 4;
            scene[i] = test_python_read_file(path[i], lines, (size_t)(at - lines), &text[i],
                                             &is_skipped[i]);
        } else if (asprintf(&text[i],
                            "%s: the cases cannot be listed: `%s -m pto.testing.child` ended with "
                            "%s %d; install the Python packages pto-runtime and, for simpler's "
                            "tests, pto-simpler, or set PTO_PYTHON to an interpreter that has them",
                            path[i], test_python_interpreter(),
                            WIFSIGNALED(state) ? "signal" : "code",
                            WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state)) < 0) {
            text[i] = NULL;
        }
    }
    free(all);
}

/* ---- running cases ---- */

void cli_python_exec(const struct test_item *items, uint32_t first, uint32_t last,
                     const struct test_settings *settings, int pipe)
{
    static const char *const checks[] = { "none", "accesses", "races", "accesses,races" };
    char **argv = calloc(last - first + 11, sizeof(*argv)), number[3][16];
    uint32_t used = 0;

    if (argv == NULL || fcntl(pipe, F_SETFD, 0) != 0)
        return;
    snprintf(number[0], sizeof(number[0]), "%d", pipe);
    snprintf(number[1], sizeof(number[1]), "%u", first);
    snprintf(number[2], sizeof(number[2]), "%u", settings->rounds);
    argv[used++] = (char *)test_python_interpreter();
    argv[used++] = "-m";
    argv[used++] = "pto.testing.child";
    argv[used++] = "run";
    for (int i = 0; i < 3; i++)
        argv[used++] = number[i];
    argv[used++] =
        (char *)checks[settings->session.build.has_accesses + 2 * settings->session.has_races];
    argv[used++] = (char *)items[first].platform;
    argv[used++] = (char *)items[first].path;
    for (uint32_t i = first; i < last; i++)
        argv[used++] = (char *)items[i].test_case->name;
    test_python_exec(argv);
    free(argv);
}

void cli_python_exec_words(char **argv)
{
    argv[0] = (char *)test_python_interpreter();
    test_python_exec(argv);
}
