/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto test`: runs the cases of many scenes, on each platform and in each mode,
 * several at a time, and says which are not as expected and why.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "tool/cli/commands.h"
#include "tool/cli/interrupt.h"
#include "tool/cli/junit.h"
#include "tool/cli/machine.h"
#include "tool/cli/test_jobs.h"
#include "tool/scene/scene_find.h"
#include "tool/scene/terminal.h"

enum { NAMES_MAX = 64, FLAGS_MAX = 64, ROUNDS_MAX = 1000000, ORDERS_MAX = 1000000000 };
enum { CHILDREN_MAX = 256, THREADS_MAX = 1024 };

struct request {
    struct cli_texts name; /* patterns, of which one has to match; none: everything */
    const char *platform;  /* NULL: all */
    uint32_t modes;        /* bit by enum pto_mode */
    const char *junit;     /* NULL: none */
    struct cli_texts flag;
    struct test_settings settings;
    bool is_list;
};

struct suite {
    struct scene_paths paths;
    struct scene **scene; /* by path; NULL: it could not be read */
    struct test_item *item;
    uint32_t count;
    uint32_t size;
    bool is_terminal;
};

static volatile sig_atomic_t is_interrupted;

static int do_test(void *context, int count, char **operands);
static int find_scenes(int count, char **paths, struct suite *suite);
static void add_scenes(struct suite *suite, const struct request *request);
static int list_items(const struct suite *suite);
static int run_items(struct suite *suite, struct request *request);
static void free_suite(struct suite *suite);

#define AT(member) .at = offsetof(struct request, member)

static const struct cli_option options[] = {
    { "name", 0, "PATTERN", "only scenes, or cases as SCENE/CASE, that match; may be repeated",
      CLI_TEXTS, AT(name), .high = NAMES_MAX },
    { "platform", 0, "P|all", "which chip; all are the simulated ones", CLI_PLATFORMS, AT(platform),
      .initial = "all" },
    CLI_OPTION_CARDS(struct request, settings.session.cards),
    { "mode", 0, "stream|host|all", "run tasks while the graph is built, or after it", CLI_MODES,
      AT(modes), .initial = "all" },
    { "rounds", 0, "N", "run each case N times, with fresh inputs", CLI_COUNT, AT(settings.rounds),
      .low = 1, .high = ROUNDS_MAX, .initial = "1" },
    { "jobs", 0, "N", "processes at a time (default: one per CPU; on cards one)", CLI_COUNT,
      AT(settings.jobs), .low = 1, .high = CHILDREN_MAX },
    { "threads", 0, "K", "threads that run tasks in each process (default: one per CPU)", CLI_COUNT,
      AT(settings.session.workers), .low = 1, .high = THREADS_MAX },
    { "isolated", 0, NULL, "each chip in a process of its own", CLI_FLAG,
      AT(settings.session.is_isolated) },
    { "orders", 0, "K",
      "after the usual run, run in K other orders that the dependencies allow; what relies on more "
      "than its dependencies fails in one of them",
      CLI_COUNT, AT(settings.session.orders), .low = 1, .high = ORDERS_MAX },
    { "order-seed", 0, "N",
      "run in the order that a failure printed, or begin with it: orders have numbers (default: "
      "with --orders, 1)",
      CLI_COUNT, AT(settings.session.order_seed), .low = 1, .high = ORDERS_MAX },
    { "lines", 0, NULL,
      "after the usual run in mode host, look for cache lines that are written by tasks which may "
      "run at the same time: on a card one undoes what the other one wrote",
      CLI_FLAG, AT(settings.session.has_lines) },
    { "no-guards", 0, NULL,
      "do not look for kernels that leave their intermediate tensors, and tasks that read what "
      "no task wrote; runs are faster",
      CLI_FLAG, AT(settings.session.is_unguarded) },
    { "timeout", 0, "S", "seconds that a case may take (default: the scene's, or 60)", CLI_SECONDS,
      AT(settings.session.timeout) },
    { "grace", 0, "S",
      "seconds that kernels and the orchestration have to come back when that time is over "
      "(default: the scene's, or 0.5)",
      CLI_SECONDS, AT(settings.session.grace) },
    { "launch-timeout", 0, "S", "seconds from the launch of a run, the time in the queue included",
      CLI_SECONDS, AT(settings.session.launch_timeout) },
    { "keep-thread", 0, NULL,
      "the orchestration stays on its thread, even if that is stuck in a kernel", CLI_FLAG,
      AT(settings.session.keeps_thread) },
    { "fail-fast", 'x', NULL, "stop at the first failure", CLI_FLAG, AT(settings.is_fail_fast) },
    { "junit", 0, "FILE", "also write the results as JUnit XML", CLI_TEXT, AT(junit) },
    { "flag", 0, "F", "another compiler flag for kernels and orchestrations; may be repeated",
      CLI_TEXTS, AT(flag), .high = FLAGS_MAX },
    { "list", 0, NULL, "list the cases and run none", CLI_FLAG, AT(is_list) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_test = {
    .name = "test",
    .summary = "run many scenes and compare their results",
    .synopsis = "[PATH...] [OPTION...]",
    .description = "Runs the cases of all scenes at or below each PATH (default: here), and of all "
                   "folders with a kernel_config.py, and compares their results with what is "
                   "expected. A PATH may also be the name of an example, as in `pto run`.",
    .notes = "Ctrl-C stops it; what was found so far is printed (exit code 130).",
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

    if (is_on_cards(request)) { /* whoever uses a card has all of it */
        if (request->settings.jobs > 1) {
            fprintf(stderr, "pto test: cases on cards run one at a time: leave --jobs out\n");
            return EXIT_USAGE;
        }
        request->settings.jobs = 1;
    }
    if (request->settings.jobs == 0) {
        cli_machine_read(&machine);
        request->settings.jobs = machine.cpus_allowed;
    }
    request->settings.session.build.flags = request->flag.text;
    request->settings.session.build.flag_count = request->flag.count;
    request->settings.is_interrupted = &is_interrupted;
    code = find_scenes(count, operands, &suite);
    if (code < 0) {
        add_scenes(&suite, request);
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

/* ---- what there is ---- */

/* Returns -1 to go on, or the exit code. */
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

        if (scene_find_all(paths[i], &suite->paths, &error) < 0) {
            fprintf(stderr, "pto test: %s\n", error.text);
            return EXIT_USAGE;
        }
    }
    return -1;
}

static bool test_is_wanted(const struct request *request, const char *scene, const char *test_case)
{
    char both[160];

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

/* Both modes of a case on one platform. */
static void add_case(struct suite *suite, const struct request *request, uint32_t scene,
                     const struct scene_case *test_case, const struct pto_platform *platform)
{
    for (uint32_t mode = 0; mode < PTO_MODE_COUNT; mode++) {
        struct pto_error lack = { .size = sizeof(lack) };
        struct test_item *item;

        if ((request->modes & test_case->modes & (1u << mode)) == 0)
            continue;
        item = test_add_item(suite, suite->paths.path[scene]);
        item->scene = suite->scene[scene];
        item->test_case = test_case;
        item->platform = platform->name;
        item->mode = (enum pto_mode)mode;
        if (scene_session_lacks_cards(&request->settings.session.cards, platform->name, item->scene,
                                      test_case, &lack)) {
            item->outcome = TEST_SKIPPED;
            item->text = strdup(lack.text);
        } else if (platform->missing != NULL) {
            item->outcome = TEST_SKIPPED;
            item->text = strdup(platform->missing);
        } else if (test_case->ranks != 0 && request->settings.session.is_isolated) {
            item->outcome = TEST_SKIPPED;
            item->text = strdup("a chip in a process of its own does not see windows of ranks");
        } else if (scene_is_level(item->scene) && ((request->settings.session.orders |
                                                    request->settings.session.order_seed) != 0 ||
                                                   request->settings.session.has_lines)) {
            item->outcome = TEST_SKIPPED;
            item->text =
                strdup("orders and lines are those of one chip's tasks, and it is of level 3");
        }
    }
}

/* A real card is used only if it is asked for; one that is not there is told if the case names it. */
static bool is_for(const struct request *request, const struct scene_case *test_case,
                   const struct pto_platform *platform)
{
    if (request->platform != NULL)
        return strcmp(request->platform, platform->name) == 0 &&
               scene_case_fits(test_case, platform->name);
    return (platform->is_simulated || platform->missing != NULL) &&
           scene_case_names(test_case, platform->name);
}

/* Platform by platform: a child builds once for each. */
static void add_scene(struct suite *suite, const struct request *request, uint32_t index)
{
    const struct scene *scene = suite->scene[index];
    const struct pto_platform *platform;

    for (uint32_t p = 0; (platform = pto_platform_at(p)) != NULL; p++) {
        for (uint32_t i = 0; i < scene->case_count; i++) {
            const struct scene_case *test_case = &scene->test_case[i];

            if (is_for(request, test_case, platform) &&
                test_is_wanted(request, scene->name, test_case->name))
                add_case(suite, request, index, test_case, platform);
        }
    }
}

/* Its name is unknown; the folder's name stands in. */
static void add_unreadable(struct suite *suite, const struct request *request, const char *path,
                           const char *text)
{
    const char *slash = strrchr(path, '/');
    struct test_item *item;

    if (!test_is_wanted(request, slash != NULL ? slash + 1 : path, ""))
        return;
    item = test_add_item(suite, path);
    item->outcome = TEST_FAILED;
    item->text = strdup(text);
}

/* Results are identified by the names of scenes. */
static bool is_only_one(const struct suite *suite, uint32_t index, struct pto_error *error)
{
    for (uint32_t i = 0; i < index; i++)
        if (suite->scene[i] != NULL &&
            strcmp(suite->scene[i]->name, suite->scene[index]->name) == 0) {
            (void)error_tell(
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
            add_scene(suite, request, i);
        } else {
            scene_close(suite->scene[i]);
            suite->scene[i] = NULL;
            add_unreadable(suite, request, suite->paths.path[i], error.text);
        }
    }
}

static void free_suite(struct suite *suite)
{
    for (uint32_t i = 0; i < suite->count; i++) {
        free(suite->item[i].text);
        free(suite->item[i].output);
    }
    for (uint32_t i = 0; suite->scene != NULL && i < suite->paths.count; i++)
        scene_close(suite->scene[i]);
    free(suite->item);
    free(suite->scene);
    scene_paths_free(&suite->paths);
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
        printf("  (run %.3f ms, all %.0f ms)", (double)item->run_ns / 1e6, item->seconds * 1e3);
    printf("\n");
    terminal_print_indented(item->text, "      ");
    if (item->outcome == TEST_FAILED && item->output != NULL) {
        printf("      it printed:\n");
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
