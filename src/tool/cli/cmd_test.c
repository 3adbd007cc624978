/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto test` runs the cases of many scenes on each platform and in each mode, several at a time,
 * and reports which fail and why.
 */
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "tool/cli/commands.h"
#include "tool/cli/interrupt.h"
#include "tool/cli/junit.h"
#include "tool/cli/machine.h"
#include "tool/cli/test_jobs.h"
#include "tool/cli/test_python.h"
#include "tool/scene/scene_find.h"
#include "tool/scene/terminal.h"

enum { NAMES_MAX = 64, FLAGS_MAX = 64, ROUNDS_MAX = 1000000, ORDERS_MAX = 1000000000 };
enum { CHILDREN_MAX = 256, THREADS_MAX = 1024 };

struct request {
    /* patterns for case names; a case runs if one matches, or if there are none */
    struct cli_texts name;
    const char *platform; /* NULL: all platforms */
    uint32_t modes;       /* modes to run in: a bit set, indexed by enum pto_mode */
    const char *junit;    /* path of the JUnit file; NULL: none */
    struct cli_texts flag;
    struct test_settings settings;
    bool is_list;
    bool has_manual; /* also run Python cases that are marked as running only on request */
};

struct suite {
    struct scene_paths paths;
    struct scene_paths python; /* files in Python */
    struct scene **scene;      /* in the order of `paths`; NULL: the scene could not be read */
    struct scene **python_scene;
    struct test_item *item;
    uint32_t count;
    uint32_t size;
    bool is_terminal;
};

static volatile sig_atomic_t is_interrupted;

static int do_test(void *context, int count, char **operands);
static int find_scenes(int count, char **paths, struct suite *suite);
static void add_scenes(struct suite *suite, const struct request *request);
static void add_python(struct suite *suite, const struct request *request);
static int list_items(const struct suite *suite);
static int run_items(struct suite *suite, struct request *request);
static void free_suite(struct suite *suite);

#define AT(member) .at = offsetof(struct request, member)

static const struct cli_option options[] = {
    { "name", 0, "PATTERN", "run only scenes, or cases as SCENE/CASE, that match; may be repeated",
      CLI_TEXTS, AT(name), .high = NAMES_MAX },
    { "platform", 0, "P|all", "chip; all means the simulated ones", CLI_PLATFORMS, AT(platform),
      .initial = "all" },
    CLI_OPTION_CARDS(struct request, settings.session.cards),
    { "mode", 0, "stream|host|all", "run tasks while the graph is built, or after it", CLI_MODES,
      AT(modes), .initial = "all" },
    { "rounds", 0, "N", "run each case N times, with fresh inputs", CLI_COUNT, AT(settings.rounds),
      .low = 1, .high = ROUNDS_MAX, .initial = "1" },
    { "jobs", 0, "N", "parallel processes (default: one per CPU; on cards one)", CLI_COUNT,
      AT(settings.jobs), .low = 1, .high = CHILDREN_MAX },
    { "threads", 0, "K", "worker threads of each process (default: one per CPU)", CLI_COUNT,
      AT(settings.session.workers), .low = 1, .high = THREADS_MAX },
    { "isolated", 0, NULL, "run each chip in a separate process", CLI_FLAG,
      AT(settings.session.is_isolated) },
    { "orders", 0, "K",
      "repeat the case in K other orders that the dependencies allow, to expose missing "
      "dependencies",
      CLI_COUNT, AT(settings.session.orders), .low = 1, .high = ORDERS_MAX },
    { "order-seed", 0, "N",
      "number of the task order, which a failure prints; with --orders, of the first one (default: "
      "1)",
      CLI_COUNT, AT(settings.session.order_seed), .low = 1, .high = ORDERS_MAX },
    { "lines", 0, NULL,
      "in mode host, also look for cache lines that concurrent tasks write; on a card one write "
      "would undo the other",
      CLI_FLAG, AT(settings.session.has_lines) },
    { "races", 0, NULL,
      "look for tasks that use the same memory, one of them to write, and that no dependency "
      "orders",
      CLI_FLAG, AT(settings.session.has_races) },
    { "accesses", 0, NULL,
      "fail at the first access of a kernel that the arguments of its task do not allow; runs are "
      "5 to 40 times slower",
      CLI_FLAG, AT(settings.session.build.has_accesses) },
    CLI_OPTION_ISA_OVERLAY(AT(settings.session.build.isa_overlay)),
    { "nan", 0, NULL,
      "fail at the first task that computes NaN or Inf although its inputs have none; runs are "
      "slower",
      CLI_FLAG, AT(settings.session.has_nan_check) },
    { "no-guards", 0, NULL,
      "do not check for writes outside of intermediate tensors and reads of uninitialised data; "
      "runs are faster",
      CLI_FLAG, AT(settings.session.is_unguarded) },
    { "timeout", 0, "S", "time limit of a case in seconds (default: the scene's, or 60)",
      CLI_SECONDS, AT(settings.session.timeout) },
    { "grace", 0, "S",
      "seconds that kernels and the orchestration have to return after the time limit (default: "
      "the scene's, or 0.5)",
      CLI_SECONDS, AT(settings.session.grace) },
    { "launch-timeout", 0, "S", "time limit of a run in seconds, including its time in the queue",
      CLI_SECONDS, AT(settings.session.launch_timeout) },
    { "keep-thread", 0, NULL,
      "keep the orchestration on its thread, even if a kernel blocks that thread", CLI_FLAG,
      AT(settings.session.keeps_thread) },
    { "fail-fast", 'x', NULL, "stop at the first failure", CLI_FLAG, AT(settings.is_fail_fast) },
    { "junit", 0, "FILE", "also write the results as JUnit XML", CLI_TEXT, AT(junit) },
    { "flag", 0, "F", "add a compiler flag for kernels and orchestrations; may be repeated",
      CLI_TEXTS, AT(flag), .high = FLAGS_MAX },
    { "manual", 0, NULL, "also run cases in Python that are marked manual", CLI_FLAG,
      AT(has_manual) },
    { "list", 0, NULL, "list the cases without running them", CLI_FLAG, AT(is_list) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_test = {
    .name = "test",
    .summary = "run many scenes and compare their results",
    .synopsis = "[PATH...] [OPTION...]",
    .description =
        "Runs the cases of all scenes, and of all folders with a kernel_config.py, at or below "
        "each PATH (default: the current folder), and compares the results with the expected ones. "
        "A PATH may also be the name of an example, as in `pto run`.\n\nFiles test_*.py with "
        "classes of SceneTestCase are scenes as well, of pto.testing or of simpler; test functions "
        "with the marker `platforms` are run by pytest. The interpreter is the one that PTO_PYTHON "
        "names (default: python3).",
    .notes = "Ctrl-C stops the command, which prints the results so far (exit code 130).",
    .options = options,
    .operands_max = CLI_OPERANDS_ANY,
    .request_bytes = sizeof(struct request),
    .run = do_test,
};

static bool is_on_cards(const struct request *request)
{
    return request->platform != NULL && !pto_platform_find(request->platform)->is_simulated;
}

static int do_test(void *context, int count, char **operands)
{
    struct request *request = context;
    struct suite suite = { .is_terminal = isatty(STDERR_FILENO) };
    struct machine machine;
    int code;

    /* one case at a time, because a process that uses a card needs the whole card */
    if (is_on_cards(request)) {
        if (request->settings.jobs > 1) {
            fprintf(stderr, "pto test: cases on cards run one at a time; leave out --jobs\n");
            return EXIT_USAGE;
        }
        request->settings.jobs = 1;
    }
    if (request->settings.jobs == 0) {
        cli_machine_read(&machine);
        request->settings.jobs = machine.cpus_allowed;
    }
    if (request->settings.session.has_races)
        request->settings.session.trace = PTO_TRACE_ARGUMENTS;
    request->settings.session.build.flags = request->flag.text;
    request->settings.session.build.flag_count = request->flag.count;
    request->settings.is_interrupted = &is_interrupted;
    /* scenes in Python read this option from the environment */
    if (request->settings.session.build.isa_overlay != NULL)
        (void)setenv("PTO_ISA_OVERLAY", request->settings.session.build.isa_overlay, 1);
    code = find_scenes(count, operands, &suite);
    if (code < 0) {
        add_scenes(&suite, request);
        add_python(&suite, request);
        if (suite.count == 0) {
            fprintf(stderr, "pto test: no case matches; `pto test --list` lists them\n");
            code = EXIT_USAGE;
        } else {
            code = request->is_list ? list_items(&suite) : run_items(&suite, request);
        }
    }
    free_suite(&suite);
    return code;
}

/* ---- finding cases ---- */

/* Finds the scenes at or below the paths. Returns -1 on success, else the exit code. */
static int find_scenes(int count, char **paths, struct suite *suite)
{
    static char here[] = ".";
    char *defaults[] = { here };

    if (count == 0) {
        count = 1;
        paths = defaults;
    }
    for (int i = 0; i < count; i++) {
        struct pto_error error = { .size = sizeof(error) };

        uint32_t before = suite->python.count;
        int status = cli_python_find(paths[i], &suite->python, &error);

        if (status == PTO_OK && !cli_python_is_file(paths[i]))
            status = scene_find_all(paths[i], &suite->paths, &error);
        if (status < 0 && suite->python.count == before) {
            fprintf(stderr, "pto test: %s\n", error.text);
            return EXIT_USAGE;
        }
    }
    return -1;
}

static bool test_is_wanted(const struct request *request, const char *scene, const char *test_case)
{
    char both[PATH_MAX + 160];

    snprintf(both, sizeof(both), "%s/%s", scene, test_case);
    for (uint32_t i = 0; i < request->name.count; i++)
        if (fnmatch(request->name.text[i], scene, 0) == 0 ||
            fnmatch(request->name.text[i], both, 0) == 0)
            return true;
    return request->name.count == 0;
}

static struct test_item *test_add_item(struct suite *suite, const char *path)
{
    if (suite->count == suite->size) {
        uint32_t size = suite->size != 0 ? 2 * suite->size : 64;
        struct test_item *grown = realloc(suite->item, size * sizeof(*grown));

        if (grown == NULL) {
            fprintf(stderr, "pto test: out of memory\n");
            exit(EXIT_FAILED);
        }
        suite->item = grown;
        suite->size = size;
    }
    suite->item[suite->count] = (struct test_item){ .path = path };
    return &suite->item[suite->count++];
}

/* Whether an option is set that has no effect on scenes in Python. */
static bool has_scene_options(const struct request *request)
{
    const struct session_options *s = &request->settings.session;

    return (s->orders | s->order_seed | s->workers) != 0 || s->has_lines || s->is_isolated ||
           s->is_unguarded || s->has_nan_check || request->flag.count != 0;
}

/* Whether a case in Python runs on the platform only if the user requests it. */
static bool test_is_manual(const struct scene_case *test_case, const char *platform)
{
    size_t length = strlen(platform);

    for (const char *at = test_case->manual; at != NULL && *at != '\0';) {
        size_t name = strcspn(at, ",");

        if (name == length && strncmp(at, platform, length) == 0)
            return true;
        at += name + (at[name] == ',');
    }
    return false;
}

/* Adds a case on one platform, in each requested mode. */
static void add_case(struct suite *suite, const struct request *request, const char *path,
                     const struct scene *scene, const struct scene_case *test_case,
                     const struct pto_platform *platform)
{
    for (uint32_t mode = 0; mode < PTO_MODE_COUNT; mode++) {
        struct pto_error lack = { .size = sizeof(lack) };
        struct test_item *item;

        if ((request->modes & test_case->modes & (1u << mode)) == 0)
            continue;
        item = test_add_item(suite, path);
        item->scene = scene;
        item->test_case = test_case;
        item->platform = platform->name;
        item->mode = (enum pto_mode)mode;
        if (item->scene->is_python && has_scene_options(request)) {
            item->outcome = TEST_SKIPPED;
            item->text = strdup("tests in Python take --name, --platform, --mode, --rounds, "
                                "--jobs, --timeout, --fail-fast, --accesses and --races only");
        } else if (test_is_manual(test_case, platform->name) && !request->has_manual) {
            item->outcome = TEST_SKIPPED;
            item->text = strdup("the case is marked manual; --manual runs it");
        } else if (scene_session_lacks_cards(&request->settings.session.cards, platform->name,
                                             item->scene, test_case, &lack)) {
            item->outcome = TEST_SKIPPED;
            item->text = strdup(lack.text);
        } else if (platform->missing != NULL) {
            item->outcome = TEST_SKIPPED;
            item->text = strdup(platform->missing);
        } else if (test_case->ranks != 0 && request->settings.session.is_isolated) {
            item->outcome = TEST_SKIPPED;
            item->text = strdup("a chip in a separate process cannot access windows of ranks");
        } else if (scene_is_level(item->scene) && ((request->settings.session.orders |
                                                    request->settings.session.order_seed) != 0 ||
                                                   request->settings.session.has_lines)) {
            item->outcome = TEST_SKIPPED;
            item->text = strdup(
                "--orders and --lines apply to the tasks of one chip, and the scene is of level 3");
        }
    }
}

/*
 * Whether to run the case on the platform. Real cards are used only on request. A case that names a
 * missing card is included, so that the results report the card as missing.
 */
static bool is_for(const struct request *request, const struct scene_case *test_case,
                   const struct pto_platform *platform)
{
    if (request->platform != NULL)
        return strcmp(request->platform, platform->name) == 0 &&
               scene_case_fits(test_case, platform->name);
    return (platform->is_simulated || platform->missing != NULL) &&
           scene_case_names(test_case, platform->name);
}

/* Adds the cases of a scene grouped by platform, so that each child builds once. */
static void add_scene(struct suite *suite, const struct request *request, const char *path,
                      const struct scene *scene)
{
    const struct pto_platform *platform;

    for (uint32_t p = 0; (platform = pto_platform_at(p)) != NULL; p++) {
        for (uint32_t i = 0; i < scene->case_count; i++) {
            const struct scene_case *test_case = &scene->test_case[i];

            if (is_for(request, test_case, platform) &&
                test_is_wanted(request, scene->name, test_case->name))
                add_case(suite, request, path, scene, test_case, platform);
        }
    }
}

/* Adds a failure or a skip for a scene that cannot be read, under the name of its folder. */
static void add_unreadable(struct suite *suite, const struct request *request, const char *path,
                           const char *text, enum test_outcome outcome)
{
    const char *slash = strrchr(path, '/');
    struct test_item *item;

    if (!test_is_wanted(request, slash != NULL ? slash + 1 : path, ""))
        return;
    item = test_add_item(suite, path);
    item->outcome = outcome;
    item->text = strdup(text);
}

/* Whether no earlier scene has the same name: results are identified by the name of their scene. */
static bool is_only_one(const struct suite *suite, uint32_t index, struct pto_error *error)
{
    for (uint32_t i = 0; i < index; i++)
        if (suite->scene[i] != NULL &&
            strcmp(suite->scene[i]->name, suite->scene[index]->name) == 0) {
            (void)error_setf(
                error, PTO_EINVAL,
                "%.500s has the same name as the scene in %.500s: %.200s; rename one of them",
                suite->paths.path[index], suite->paths.path[i], suite->scene[index]->name);
            return false;
        }
    return true;
}

static void add_scenes(struct suite *suite, const struct request *request)
{
    suite->scene = calloc(suite->paths.count + 1, sizeof(struct scene *));
    for (uint32_t i = 0; suite->scene != NULL && i < suite->paths.count; i++) {
        struct pto_error error = { .size = sizeof(error) };

        if (scene_open(suite->paths.path[i], &suite->scene[i], &error) == PTO_OK &&
            is_only_one(suite, i, &error)) {
            add_scene(suite, request, suite->paths.path[i], suite->scene[i]);
        } else {
            scene_close(suite->scene[i]);
            suite->scene[i] = NULL;
            add_unreadable(suite, request, suite->paths.path[i], error.text, TEST_FAILED);
        }
    }
}

static void add_python(struct suite *suite, const struct request *request)
{
    uint32_t count = suite->python.count;
    char **text = calloc(count + 1, sizeof(*text));
    bool *is_skipped = calloc(count + 1, sizeof(*is_skipped));

    suite->python_scene = calloc(count + 1, sizeof(struct scene *));
    if (suite->python_scene == NULL || text == NULL || is_skipped == NULL)
        count = 0;
    else
        cli_python_open(suite->python.path, count, suite->python_scene, text, is_skipped);
    for (uint32_t i = 0; i < count; i++) {
        if (suite->python_scene[i] != NULL)
            add_scene(suite, request, suite->python.path[i], suite->python_scene[i]);
        else
            add_unreadable(suite, request, suite->python.path[i],
                           text[i] != NULL ? text[i] : "out of memory",
                           is_skipped[i] ? TEST_SKIPPED : TEST_FAILED);
        free(text[i]);
    }
    free(is_skipped);
    free(text);
}

static void free_suite(struct suite *suite)
{
    for (uint32_t i = 0; i < suite->count; i++) {
        free(suite->item[i].text);
        free(suite->item[i].output);
    }
    for (uint32_t i = 0; suite->scene != NULL && i < suite->paths.count; i++)
        scene_close(suite->scene[i]);
    for (uint32_t i = 0; suite->python_scene != NULL && i < suite->python.count; i++)
        scene_close(suite->python_scene[i]);
    free(suite->item);
    free(suite->scene);
    free(suite->python_scene);
    scene_paths_free(&suite->paths);
    scene_paths_free(&suite->python);
}

static int list_items(const struct suite *suite)
{
    int code = EXIT_OK;

    for (uint32_t i = 0; i < suite->count; i++) {
        const struct test_item *item = &suite->item[i];

        if (item->scene == NULL) {
            fprintf(stderr, "%s\n", item->text);
            code = EXIT_FAILED;
        } else {
            printf("%s/%s %s %s\n", item->scene->name, item->test_case->name, item->platform,
                   pto_mode_name(item->mode));
        }
    }
    return code;
}

/* ---- running ---- */

/* Prints how long one case took. The run of a case in Python is not timed separately. */
static void print_times(const struct test_item *item)
{
    printf("  (");
    if (item->run_ns != 0)
        printf("run %.3f ms, ", (double)item->run_ns / 1e6);
    printf("all %.0f ms)", item->seconds * 1e3);
}

static void print_item(const struct test_item *item)
{
    static const char *const words[TEST_OUTCOMES] = { "-", "ok", "FAIL", "skip" };
    static const char *const colours[TEST_OUTCOMES] = { "", TERMINAL_GREEN, TERMINAL_RED,
                                                        TERMINAL_YELLOW };

    printf("%s%-5s%s ", terminal_code(stdout, colours[item->outcome]), words[item->outcome],
           terminal_code(stdout, TERMINAL_PLAIN));
    if (item->scene == NULL)
        terminal_print(stdout, item->path, true);
    else
        printf("%s/%s %s %s", item->scene->name, item->test_case->name, item->platform,
               pto_mode_name(item->mode));
    if (item->scene != NULL && item->outcome == TEST_PASSED)
        print_times(item);
    printf("\n");
    terminal_print_indented(item->text, "      ");
    if (item->outcome == TEST_FAILED && item->output != NULL) {
        printf("      output:\n");
        terminal_print_indented(item->output, "      | ");
    }
    fflush(stdout);
}

static void report_item(void *context, const struct test_item *item, uint32_t done)
{
    const struct suite *suite = context;

    if (suite->is_terminal)
        fprintf(stderr, TERMINAL_CLEAR);
    if (item != NULL)
        print_item(item);
    if (suite->is_terminal && done < suite->count)
        fprintf(stderr, "%u of %u", done, suite->count);
}

static void stop_tests(int number)
{
    (void)number;
    is_interrupted = 1;
}

static int run_items(struct suite *suite, struct request *request)
{
    uint32_t of[TEST_OUTCOMES] = { 0 };
    uint64_t begin = os_now_ns();
    int code;

    for (uint32_t i = 0; i < suite->count; i++)
        if (suite->item[i].outcome != TEST_WAITING)
            print_item(&suite->item[i]);
    request->settings.report = report_item;
    request->settings.context = suite;
    interrupt_watch(stop_tests, false);
    cli_test_jobs_run(suite->item, suite->count, &request->settings);
    if (suite->is_terminal)
        fprintf(stderr, TERMINAL_CLEAR);
    for (uint32_t i = 0; i < suite->count; i++)
        of[suite->item[i].outcome]++;
    printf("%u passed, %u failed, %u skipped", of[TEST_PASSED], of[TEST_FAILED], of[TEST_SKIPPED]);
    if (of[TEST_WAITING] != 0)
        printf(", %u not reached", of[TEST_WAITING]);
    printf("  (%.1f s)\n", (double)(os_now_ns() - begin) / 1e9);
    code = is_interrupted                                  ? EXIT_INTERRUPTED
           : of[TEST_FAILED] != 0 || of[TEST_WAITING] != 0 ? EXIT_FAILED
                                                           : EXIT_OK;
    if (is_interrupted)
        printf("interrupted\n");
    if (request->junit != NULL) {
        struct pto_error error = { .size = sizeof(error) };

        if (cli_junit_write(request->junit, suite->item, suite->count,
                            (double)(os_now_ns() - begin) / 1e9, &error) < 0) {
            fprintf(stderr, "pto test: %s\n", error.text);
            code = code != EXIT_OK ? code : EXIT_FAILED;
        }
    }
    return code;
}
