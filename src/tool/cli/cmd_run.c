/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto run` builds a scene and runs one of its cases on each requested platform and in each mode,
 * with the golden's data or the user's. run_artefact.c runs artefacts.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "tool/cli/commands.h"
#include "tool/cli/run_alarm.h"
#include "tool/cli/run_request.h"
#include "tool/scene/scene_config.h"
#include "tool/scene/scene_find.h"
#include "tool/scene/terminal.h"

enum {
    ROUNDS_MAX = 1000000,
    ORDERS_MAX = 1000000000,
    /* seconds added to a process's time limit; the watchdog of the run ends a late run first */
    GRACE_SECONDS = 15,
};

#define DEFAULT_SCENE "vector"

static int list_examples(void);
static int run_scene(const struct scene *scene, struct run_request *request);

static int do_run(void *context, int count, char **operands);
static int parse_file(void *context, const struct cli_option *option, char *value,
                      struct pto_error *error);

#define AT(member) .at = offsetof(struct run_request, member)

static const struct cli_option options[] = {
    { "case", 0, "C|all", "case of the scene (default: the first one)", CLI_TEXT, AT(case_name) },
    { "platform", 0, "P|all", "chip; all means the simulated ones", CLI_PLATFORMS, AT(platform),
      .initial = "all" },
    CLI_OPTION_CARDS(struct run_request, session.cards),
    { "mode", 0, "stream|host|all", "run tasks while the graph is built, or after it", CLI_MODES,
      AT(modes), .initial = "all" },
    { "threads", 0, "K", "worker threads (default: one per CPU)", CLI_COUNT, AT(session.workers),
      .low = 1, .high = 1024 },
    { "clusters", 0, "N",
      "clusters of one AIC and two AIV (default: what `pto info` shows for the platform)",
      CLI_COUNT, AT(session.clusters), .low = 1, .high = 1024 },
    { "isolated", 0, NULL, "run the chip in a separate process, which contains crashes of kernels",
      CLI_FLAG, AT(session.is_isolated) },
    { "virtual", 0, NULL,
      "compute what the run takes on whole chips: run the scheduler of a card in virtual time, in "
      "which each kernel takes its cost",
      CLI_FLAG, AT(session.costs.is_virtual) },
    CLI_OPTIONS_VIRTUAL(struct run_request, given),
    { "races", 0, NULL,
      "look for tasks that use the same memory, one of them to write, and that no dependency "
      "orders",
      CLI_FLAG, AT(session.has_races) },
    { "accesses", 0, NULL,
      "fail at the first access of a kernel that the arguments of its task do not allow; runs are "
      "5 to 40 times slower",
      CLI_FLAG, AT(session.build.has_accesses) },
    CLI_OPTION_ISA_OVERLAY(AT(session.build.isa_overlay)),
    { "nan", 0, NULL,
      "fail at the first task that computes NaN or Inf although its inputs have none; runs are "
      "slower",
      CLI_FLAG, AT(session.has_nan_check) },
    { "no-guards", 0, NULL,
      "do not check for writes outside of intermediate tensors and reads of uninitialised data; "
      "runs are faster",
      CLI_FLAG, AT(session.is_unguarded) },
    { "rounds", 0, "N", "run N times and show the shortest time", CLI_COUNT, AT(rounds), .low = 1,
      .high = ROUNDS_MAX, .initial = "1" },
    { "orders", 0, "K",
      "repeat the case in K other orders that the dependencies allow, to expose missing "
      "dependencies",
      CLI_COUNT, AT(session.orders), .low = 1, .high = ORDERS_MAX },
    { "order-seed", 0, "N",
      "number of the task order, which a failure prints; with --orders, of the first one (default: "
      "1)",
      CLI_COUNT, AT(session.order_seed), .low = 1, .high = ORDERS_MAX },
    { "lines", 0, NULL,
      "in mode host, also look for cache lines that concurrent tasks write; on a card one write "
      "would undo the other",
      CLI_FLAG, AT(session.has_lines) },
    { "timeout", 0, "S", "time limit of a run in seconds (default: the scene's, or 60)",
      CLI_SECONDS, AT(session.timeout) },
    { "grace", 0, "S",
      "seconds that kernels and the orchestration have to return after the time limit (default: "
      "the scene's, or 0.5)",
      CLI_SECONDS, AT(session.grace) },
    { "launch-timeout", 0, "S", "time limit of a run in seconds, including its time in the queue",
      CLI_SECONDS, AT(session.launch_timeout) },
    { "keep-thread", 0, NULL,
      "keep the orchestration on its thread, even if a kernel blocks that thread", CLI_FLAG,
      AT(session.keeps_thread) },
    { "trace", 0, "NAME",
      "write timelines to NAME-PLATFORM-MODE.json, or NAME-CASE-PLATFORM-MODE.json if the scene "
      "has several cases; ui.perfetto.dev shows them; NAME.pftrace writes them in Perfetto's "
      "binary format, NAME.ptrec as recordings with arguments and dependencies",
      CLI_TEXT, AT(trace) },
    { "trace-args", 0, NULL,
      "with --trace: add the submitting line, arguments, shapes and scalars to each slice",
      CLI_FLAG, AT(has_trace_args) },
    { "trace-records", 0, "N",
      "with --trace: number of latest records that each thread keeps, two per task, rounded up to "
      "a power of two (default: 4194304)",
      CLI_COUNT, AT(session.trace_records), .low = 1, .high = 1 << 24 },
    { "diagnostics", 0, "NAME",
      "write diagnostics in simpler's formats to folders NAME-PLATFORM-MODE, or "
      "NAME-CASE-PLATFORM-MODE if the scene has several cases; its viewers show them",
      CLI_TEXT, AT(session.diagnostics_name) },
    { "diagnose", 0, "LIST",
      "with --diagnostics: which ones, such as swimlane=4,args=2,deps,scopes,pmu=2,names; swimlane "
      "has levels 1 to 4, args 1 to 3, pmu groups 1 to 8 (default: all)",
      CLI_CUSTOM, .custom = cli_run_parse_diagnoses },
    { "in", 0, "NAME=FILE.npy", "read the data and the shape of an argument from a file",
      CLI_CUSTOM, AT(in), .custom = parse_file },
    { "out", 0, "NAME=FILE.npy",
      "write an output to a file; the case then runs once unless --platform or --mode select more",
      CLI_CUSTOM, AT(out), .custom = parse_file },
    { "scalar", 0, "V",
      "value of the next scalar: for an artefact 3 is an integer and 2.5 a float32, for a "
      "kernel_config.py the scalar has its own type; may be repeated",
      CLI_TEXTS, AT(scalar), .high = PTO_ENTRY_SCALARS_MAX },
    { "blank", 0, NULL,
      "for a kernel_config.py: use zeros for inputs without a file (inputs above 1 MiB stay "
      "unwritten), and compare nothing",
      CLI_FLAG, AT(session.has_blanks) },
    { "seed", 0, "N", "seed of the random inputs (default: the scene's)", CLI_NUMBER, AT(seed) },
    { "weights", 0, "FILE.safetensors",
      "for a network: read the tensors that the file has under the names of inputs; may be "
      "repeated",
      CLI_TEXTS, AT(weights), .high = RUN_FILES_MAX },
    { "skip-golden", 0, NULL, "for a network: do not compute the expected results", CLI_FLAG,
      AT(skips_golden) },
    { "replace", 0, "ID=FILE",
      "use this source for the kernel with the number ID; in a network with several callables, "
      "NAME:ID is the kernel of one; may be repeated",
      CLI_TEXTS, AT(replace), .high = RUN_FLAGS_MAX },
    { "expect-isa", 0, "WHAT",
      "fail unless the artefact was made with this tile library: a revision, or the library's "
      "folder",
      CLI_TEXT, AT(expect_isa) },
    CLI_OPTION_SIGNATURE(struct run_request, require_signature),
    { "flag", 0, "F", "add a compiler flag for kernels and orchestration; may be repeated",
      CLI_TEXTS, AT(flag), .high = RUN_FLAGS_MAX },
    { "verbose", 0, NULL, "show the compiler, why each file is compiled, and warnings", CLI_FLAG,
      AT(session.build.is_verbose) },
    { "gdb", 0, NULL, "start gdb on the case with --debug; `run` and `break FILE:LINE` work there",
      CLI_FLAG, AT(is_gdb) },
    { "debug", 0, NULL,
      "for debuggers: run in one process without timeouts; the case then runs once unless "
      "--platform or --mode select more",
      CLI_FLAG, AT(session.is_debugged) },
    { "list", 0, NULL, "list the examples without running one", CLI_FLAG, AT(is_list) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_run = {
    .name = "run",
    .summary = "build a scene and run it on the simulated chips",
    .synopsis = "[SCENE|FILE.ptoc|test_X.py] [OPTION...]",
    .description =
        "Builds a scene, runs one of its cases and compares the result with its golden. SCENE is a "
        "folder or the name of an example; the default is the scene in the current folder, or else "
        "vector. A folder with a kernel_config.py, as pypto writes it, is also a scene. A file "
        "test_*.py, or a folder with one, is a network: it runs with a process for each chip, and "
        "hashes of all outputs are printed.",
    .notes = "The arguments of an artefact, and of a kernel_config.py without a "
             "compiled_meta.json, are named 0, 1, and so on; an output whose file does not exist "
             "yet needs a type and a shape: --out 2=f.npy:float32[64,64]",
    .options = options,
    .operands_max = 1,
    .request_bytes = sizeof(struct run_request),
    .run = do_run,
};

static bool is_artefact(const char *target)
{
    const char *dot = target != NULL ? strrchr(target, '.') : NULL;

    return dot != NULL && strcmp(dot, ".ptoc") == 0;
}

/* Returns the number of clusters of the platform, or of the largest one. */
static uint32_t find_clusters_max(const char *name)
{
    const struct pto_platform *platform;
    uint32_t max = 0;

    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++)
        if ((name == NULL || strcmp(platform->name, name) == 0) && platform->clusters_max > max)
            max = platform->clusters_max;
    return max;
}

/* Returns why an option cannot be combined with --debug, or NULL. */
static const char *undebuggable(const struct session_options *o)
{
    if (o->is_isolated)
        return "a single process, but --isolated starts a second one";
    if (o->timeout != 0)
        return "debugging, which takes time, and --timeout limits it";
    if (o->launch_timeout != 0)
        return "debugging, which takes time, and --launch-timeout limits it";
    return o->grace != 0 ? "debugging without a time limit, after which --grace would begin" : NULL;
}

/*
 * Refuses options that would have no effect. Returns false, with a sentence on stderr, if there are
 * any.
 */
static bool refuse_options(const struct run_request *r)
{
    bool is_file = is_artefact(r->target);
    bool is_debugged = r->is_gdb || r->session.is_debugged;
    const char *option = !is_file && r->expect_isa != NULL          ? "expect-isa"
                         : !is_file && r->require_signature != NULL ? "require-signature"
                         : is_file && r->session.has_blanks         ? "blank"
                         : is_file && r->case_name != NULL          ? "case"
                         : is_file && r->flag.count != 0            ? "flag"
                         : is_file && r->replace.count != 0         ? "replace"
                         : is_file && r->seed.is_given              ? "seed"
                                                                    : NULL;

    if (option != NULL)
        fprintf(stderr, "pto run: --%s is for %s\n", option,
                is_file ? "scenes; an artefact is already built and has no cases"
                        : "artefacts (FILE.ptoc); a scene sets it in its scene.yaml");
    else if (is_debugged && undebuggable(&r->session) != NULL)
        fprintf(stderr, "pto run: --%s is for %s; leave one of them out\n",
                r->is_gdb ? "gdb" : "debug", undebuggable(&r->session));
    else if (cli_run_refuse_virtual(r) || cli_run_refuse_network(r))
        return true;
    else if (r->has_diagnoses && r->session.diagnostics_name == NULL)
        fprintf(stderr, "pto run: --diagnose needs --diagnostics NAME\n");
    else if (r->out.count != 0 && r->case_name != NULL && strcmp(r->case_name, "all") == 0)
        fprintf(stderr, "pto run: --out writes the result of one case; select it with --case\n");
    else if (r->session.clusters > find_clusters_max(r->platform))
        fprintf(stderr, "pto run: --clusters %u, but %s has at most %u\n", r->session.clusters,
                r->platform != NULL ? r->platform : "the largest chip",
                find_clusters_max(r->platform));
    else
        return false;
    return true;
}

static volatile sig_atomic_t run_child;

/* Forwards a signal to the child, which stops its compilers first if it is building. */
static void pass_signal_on(int number)
{
    (void)kill(run_child, number);
}

static void pass_signals_on(pid_t child)
{
    static const int numbers[] = { SIGINT, SIGTERM };
    const struct sigaction action = { .sa_handler = pass_signal_on, .sa_flags = SA_RESTART };
    struct sigaction old;

    run_child = child;
    for (int i = 0; i < 2; i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
}

/*
 * Forks, so that the parent can report a crash of a golden function. Returns -1 in the child, else
 * the exit code of the command.
 */
static int wait_for_child(const char *place)
{
    pid_t parent = getpid();
    pid_t child = fork();
    char text[512];
    int state = 0;

    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(EXIT_FAILED);
        return -1;
    }
    if (child < 0)
        return -1; /* fork has failed, so the case runs in this process */
    pass_signals_on(child);
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(state) && place[0] == '\0' && WEXITSTATUS(state) <= EXIT_USAGE)
        return WEXITSTATUS(state);
    if (WIFEXITED(state) && place[0] == '\0') {
        fprintf(stderr,
                "pto run: the process ended with code %d after its last case; see the sanitizer's "
                "report, or check code that runs at exit\n",
                WEXITSTATUS(state));
        return EXIT_FAILED;
    }
    /* a golden or a kernel has called exit, so the child reported no result */
    if (WIFEXITED(state)) {
        fprintf(stderr, "pto run: the process ended%s, with code %d\n", place, WEXITSTATUS(state));
        return EXIT_FAILED;
    }
    if (WTERMSIG(state) == SIGINT || WTERMSIG(state) == SIGPIPE || WTERMSIG(state) == SIGTERM) {
        signal(WTERMSIG(state), SIG_DFL);
        raise(WTERMSIG(state));
    }
    if (WTERMSIG(state) == SIGKILL) {
        cli_alarm_explain(0, "it", place, text, sizeof(text));
        fprintf(stderr, "pto run: %s\n", text);
    } else {
        fprintf(stderr, "pto run: the process died%s: %s\n", place, strsignal(WTERMSIG(state)));
    }
    return EXIT_FAILED;
}

/* Parses NAME=FILE and appends it to the list of the option. */
static int parse_file(void *context, const struct cli_option *option, char *value,
                      struct pto_error *error)
{
    struct run_files *files = (void *)((char *)context + option->at);
    char *equals = strchr(value, '=');

    if (equals == NULL || equals == value || equals[1] == '\0' || files->count == RUN_FILES_MAX)
        return error_setf(error, PTO_EINVAL,
                          "--%s must be NAME=FILE.npy, at most %d times, not '%.200s'",
                          option->name, RUN_FILES_MAX, value);
    *equals = '\0';
    for (uint32_t i = 0; i < files->count; i++)
        if (strcmp(files->file[i].name, value) == 0)
            return error_setf(error, PTO_EINVAL, "--%s names '%.200s' twice", option->name, value);
    files->file[files->count++] = (struct run_file){ value, equals + 1 };
    return PTO_OK;
}

static int parse_values(struct scene *scene, const struct run_request *request,
                        struct pto_error *error)
{
    if (request->session.has_blanks && (!scene->is_config || scene->is_untyped))
        return error_setf(error, PTO_EINVAL,
                          "--blank is for folders with a kernel_config.py and a "
                          "compiled_meta.json, which describes the inputs");
    if (request->scalar.count == 0 || scene->is_untyped)
        return PTO_OK;
    if (!scene->is_config)
        return error_setf(error, PTO_EINVAL,
                          "--scalar is for artefacts (FILE.ptoc) and folders with a "
                          "kernel_config.py; a scene sets it in its scene.yaml");
    return scene_config_give_scalars(scene, request->scalar.text, request->scalar.count, error);
}

static int run_target(struct run_request *request)
{
    struct pto_error error = { .size = sizeof(error) };
    char path[PATH_MAX];
    struct scene *scene;
    int code;

    if (is_artefact(request->target))
        return cli_run_artefact(request, NULL);
    if (request->target == NULL)
        request->target = scene_is_folder(".") ? "." : DEFAULT_SCENE;
    if (scene_find_one(request->target, path, &error) < 0) {
        fprintf(stderr, "pto run: %s\n", error.text);
        return EXIT_USAGE;
    }
    if (scene_open(path, &scene, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return EXIT_FAILED;
    }
    for (uint32_t i = 0; request->seed.is_given && i < scene->case_count; i++)
        scene->test_case[i].seed = request->seed.value;
    if (parse_values(scene, request, &error) < 0 ||
        scene_replace_kernels(scene, request->replace.text, request->replace.count, &error) < 0) {
        fprintf(stderr, "pto run: %s\n", error.text);
        code = EXIT_USAGE;
    } else if (scene->is_untyped) {
        code = cli_run_artefact(request, scene);
    } else {
        code = run_scene(scene, request);
    }
    scene_close(scene);
    return code;
}

static int run_with_costs(struct run_request *request)
{
    struct pto_error error = { .size = sizeof(error) };
    int code = EXIT_USAGE;

    if (cli_run_take_costs(request, &error) < 0)
        fprintf(stderr, "pto run: %s\n", error.text);
    else
        code = run_target(request);
    cli_run_free_costs(request);
    return code;
}

/*
 * Whether gdb must follow child processes, because the scene has some. Builds the scene first, so
 * that gdb does not follow compilers; build errors are reported later.
 */
static bool build_for_gdb(const struct run_request *request)
{
    const char *target = request->target;
    struct pto_error error = { .size = sizeof(error) };
    char path[PATH_MAX];
    struct session s;
    struct scene *scene;
    bool is_level;

    if (target == NULL)
        target = scene_is_folder(".") ? "." : DEFAULT_SCENE;
    if (is_artefact(target) || scene_find_one(target, path, &error) < 0 ||
        scene_open(path, &scene, &error) < 0)
        return false;
    is_level = scene_is_level(scene);
    if (is_level &&
        scene_session_open(&s, scene,
                           request->platform != NULL ? request->platform : pto_platform_at(0)->name,
                           &request->session, &error) == PTO_OK)
        scene_session_close(&s);
    scene_close(scene);
    return is_level;
}

/*
 * Whether --trace writes a recording. The arguments of tasks are then recorded as well, because a
 * reader derives the reasons of dependencies from them.
 */
static bool is_recording(const char *name)
{
    return strcmp(cli_run_trace_ending(name), ".ptrec") == 0;
}

static int do_run(void *context, int count, char **operands)
{
    struct run_request *request = context;
    int code;

    request->target = count != 0 ? operands[0] : NULL;
    /* Kernels that include the tile library have line tables only, unless a flag asks for more. */
    if ((request->is_gdb || request->session.is_debugged) && request->flag.count < CLI_TEXTS_MAX)
        request->flag.text[request->flag.count++] = "-g";
    request->session.build.flags = request->flag.text;
    request->session.build.flag_count = request->flag.count;
    request->session.build.is_terminal = isatty(STDERR_FILENO);
    request->session.trace = request->session.has_races ? PTO_TRACE_ARGUMENTS
                             : request->trace == NULL   ? PTO_TRACE_OFF
                             : request->has_trace_args || is_recording(request->trace)
                                 ? PTO_TRACE_ARGUMENTS
                                 : PTO_TRACE_TIMES;
    cli_run_choose_diagnoses(request);
    if (request->is_list)
        return list_examples();
    if (cli_run_is_network(request))
        return cli_run_network(request);
    if (refuse_options(request))
        return EXIT_USAGE;
    if (request->is_gdb)
        return cli_run_gdb(request, build_for_gdb(request));
    if (request->session.is_debugged)
        return run_with_costs(request);
    request->session.place =
        mmap(NULL, SESSION_PLACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (request->session.place == MAP_FAILED) {
        perror("pto run");
        return EXIT_FAILED;
    }
    cli_alarm_share();
    code = wait_for_child(request->session.place);
    return code >= 0 ? code : run_with_costs(request);
}

/* ---- the list ---- */

static int list_examples(void)
{
    struct scene_paths paths = { NULL, 0 };
    struct pto_error error = { .size = sizeof(error) };
    char folder[PATH_MAX];
    int code = EXIT_OK;

    if (!scene_find_examples(folder)) {
        fprintf(
            stderr,
            "pto run: the examples are not installed next to the executable; run make install\n");
        return EXIT_FAILED;
    }
    if (scene_find_below(folder, &paths, &error) < 0) {
        fprintf(stderr, "pto run: %s\n", error.text);
        code = EXIT_FAILED;
    }
    for (uint32_t i = 0; i < paths.count; i++) {
        struct pto_error wrong = { .size = sizeof(wrong) };
        struct scene *scene;

        if (scene_open(paths.path[i], &scene, &wrong) < 0) {
            fprintf(stderr, "%s\n", wrong.text);
            code = EXIT_FAILED;
            continue;
        }
        printf("%-16s %s\n", scene->name, scene->summary);
        scene_close(scene);
    }
    scene_paths_free(&paths);
    return code;
}

/* ---- running ---- */

/* Reads the files of --in. On failure, prints a sentence to stderr and returns false. */
static bool read_given(const struct scene *scene, const struct run_request *request,
                       struct scene_given *given)
{
    for (uint32_t i = 0; i < request->in.count + request->out.count; i++) {
        bool is_in = i < request->in.count;
        const struct run_file *file =
            is_in ? &request->in.file[i] : &request->out.file[i - request->in.count];
        int argument = scene_find_argument(scene, file->name);
        struct pto_error error = { .size = sizeof(error) };

        if (argument < 0 ||
            scene->argument[argument].direction == (is_in ? PTO_DIR_OUT : PTO_DIR_IN)) {
            fprintf(stderr, "pto run: --%s %s: the scene has no %s with that name\n",
                    is_in ? "in" : "out", file->name, is_in ? "input" : "output");
            return false;
        }
        given[argument].is_wanted = given[argument].is_wanted || !is_in;
        if (!is_in)
            continue;
        if (given[argument].path != NULL)
            scene_npy_free(&given[argument].npy);
        given[argument].path = NULL;
        if (scene_npy_read(file->path, &given[argument].npy, &error) < 0) {
            fprintf(stderr, "pto run: --in %s: %s\n", file->name, error.text);
            return false;
        }
        given[argument].path = file->path;
    }
    return true;
}

/* Whether to run the case in one mode only, although several are selected: with --out or --debug. */
static bool is_once(const struct run_request *request)
{
    return request->out.count != 0 || request->session.is_debugged;
}

/* Runs the case in this process, which may be one of several ranks. */
static int run_case_here(struct session *s, const struct scene_case *test_case,
                         const struct run_request *request)
{
    uint32_t modes = request->modes & test_case->modes;
    double seconds = request->session.timeout != 0 ? request->session.timeout : test_case->timeout;
    double each = seconds + session_grace(&request->session, test_case);
    struct pto_error error = { .size = sizeof(error) };
    int code = EXIT_OK;
    int status;

    if (is_once(request) && modes == PTO_MODES_ALL)
        modes = 1u << PTO_MODE_STREAM;
    if (request->session.is_debugged)
        seconds = 0;
    /*
     * A golden function gets the time limit of a run. With several ranks the limit is doubled, so
     * that the other ranks can first report a rank that is missing.
     */
    cli_alarm_set(s->rank, test_case->ranks > 1 && seconds != 0 ? 2 * seconds + 1 : seconds);
    status = scene_session_prepare(s, test_case, &error);
    cli_alarm_set(s->rank, 0);
    if (status < 0) {
        printf("\n%s\n  result   FAILED: %s\n", s->platform, error.text);
        return EXIT_FAILED;
    }
    for (uint32_t mode = 0; mode < PTO_MODE_COUNT; mode++) {
        if ((modes & (1u << mode)) == 0)
            continue;
        /* the time limit counts the runs that explain a wrong result */
        if (seconds != 0)
            cli_alarm_set(s->rank, ((double)request->rounds + request->session.orders +
                                    request->session.has_lines + SESSION_EXPLAIN_RUNS) *
                                           each +
                                       SESSION_EXPLAIN_SECONDS + GRACE_SECONDS);
        if (cli_run_and_print(s, request, (enum pto_mode)mode) != EXIT_OK)
            code = EXIT_FAILED;
        if (s->ranks.status != 0)
            break;
    }
    cli_alarm_set(s->rank, 0);
    return code;
}

static int run_case(struct session *s, const struct scene_case *test_case,
                    const struct run_request *request)
{
    return cli_run_is_launched(test_case) ? cli_run_launched(s, test_case, request, run_case_here)
           : scene_session_forks(s->platform, test_case)
               ? cli_run_ranks(s, test_case, request, run_case_here)
               : run_case_here(s, test_case, request);
}

/* Runs the requested cases on one platform. Returns the exit code; -1: no case matches. */
static int run_platform(const struct scene *scene, const char *platform,
                        const struct run_request *request)
{
    const char *wanted = request->case_name;
    struct pto_error error = { .size = sizeof(error) };
    bool is_open = false;
    struct session s;
    int code = -1;

    for (uint32_t i = 0; i < scene->case_count; i++) {
        const struct scene_case *test_case = &scene->test_case[i];
        int got;

        if (wanted == NULL ? i != 0
                           : strcmp(wanted, "all") != 0 && strcmp(wanted, test_case->name) != 0)
            continue;
        if (!scene_case_fits(test_case, platform) || (test_case->modes & request->modes) == 0)
            continue;
        if (scene_session_lacks_cards(&request->session.cards, platform, scene, test_case,
                                      &error)) {
            fprintf(stderr, "pto run: %s; see --cards\n", error.text);
            code = EXIT_USAGE;
            break;
        }
        if (!is_open && scene_session_open(&s, scene, platform, &request->session, &error) < 0) {
            printf("\n%s\n  build    FAILED: %s\n", platform, error.text);
            return EXIT_FAILED;
        }
        is_open = true;
        got = run_case(&s, test_case, request);
        code = got > code ? got : code;
    }
    if (is_open)
        scene_session_close(&s);
    return code;
}

static int refuse_nothing(const struct scene *scene, const struct run_request *request)
{
    fprintf(stderr,
            "pto run: %s has no such case for that platform and mode; it has:", scene->name);
    for (uint32_t i = 0; i < scene->case_count; i++)
        fprintf(stderr, " %s", scene->test_case[i].name);
    fprintf(stderr, "%s\n", request->case_name == NULL ? " (default: the first one)" : "");
    return EXIT_USAGE;
}

/* Refuses options that do not apply to level 3, with a sentence on stderr. */
static bool refuse_for_level(const struct scene *scene, const struct run_request *r)
{
    const struct session_options *o = &r->session;
    const char *option = o->orders != 0                ? "orders"
                         : o->order_seed != 0          ? "order-seed"
                         : o->has_lines                ? "lines"
                         : o->diagnostics_name != NULL ? "diagnostics"
                         : o->launch_timeout != 0      ? "launch-timeout"
                         : o->keeps_thread             ? "keep-thread"
                         : o->trace_records != 0       ? "trace-records"
                                                       : NULL;

    if (!scene_is_level(scene) || option == NULL)
        return false;
    fprintf(stderr, "pto run: --%s is for scenes on one chip, and %s is of level 3\n", option,
            scene->name);
    return true;
}

static int run_scene(const struct scene *scene, struct run_request *request)
{
    struct scene_given *given = calloc(scene->argument_count + 1, sizeof(*given));
    const struct pto_platform *platform;
    int code = -1;

    if (given == NULL || refuse_for_level(scene, request) || !read_given(scene, request, given)) {
        code = EXIT_USAGE;
    } else {
        printf("%s: %s\n", scene->name, scene->summary);
        if (scene_is_level(scene) && request->session.is_isolated)
            printf("--isolated has no effect; at level 3 each chip already has its own process\n");
        request->session.given = given;
    }
    for (uint32_t i = 0; code != EXIT_USAGE && (platform = pto_platform_at(i)) != NULL; i++) {
        int got = -1;

        if (platform->missing == NULL &&
            (request->platform == NULL ? platform->is_simulated
                                       : strcmp(request->platform, platform->name) == 0))
            got = run_platform(scene, platform->name, request);
        code = got > code ? got : code;
        if (got >= 0 && is_once(request))
            break;
    }
    for (uint32_t i = 0; given != NULL && i < scene->argument_count; i++)
        if (given[i].path != NULL)
            scene_npy_free(&given[i].npy);
    free(given);
    return code < 0 ? refuse_nothing(scene, request) : code;
}
