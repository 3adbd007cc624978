/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto selfcheck`: what the first person with a card runs, and sends. Steps on the card, from the
 * smallest to one that loses it and one that brings it back, in a child, whose end is told
 * whatever it is; and a file with what came of them and every call of the vendor's.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/probe.h"
#include "pto/build.h"
#include "scene/terminal.h"

enum {
    STEPS = 16,
    STEP_TEXT = 600,
    LINE_WORDS = 16, /* of a cache line: each block has one of its own */
    CLUSTERS_MAX = 64,
    MARKS = 3 * CLUSTERS_MAX * LINE_WORDS,
    LIMIT_S = 900, /* for all of it */
    PACK_MAX = 64 << 20,
    VERSION_LINES = 20,
};

struct request {
    const char *platform;
    const char *output;
    uint32_t card;
    uint32_t runs;
};

static int do_selfcheck(void *context, int count, char **operands);

#define AT(member) .at = offsetof(struct request, member)

static const struct cli_option options[] = {
    { "platform", 0, "P", "a2a3 or a5 (default: the one that the card is)", CLI_TEXT,
      AT(platform) },
    { "card", 0, "N", "which card", CLI_COUNT, AT(card), .high = 1023, .initial = "0" },
    { "runs", 0, "N", "runs of the loop that looks for leaks", CLI_COUNT, AT(runs), .low = 3,
      .high = 10000000, .initial = "1000" },
    { NULL, 'o', "FILE", "the file to write", CLI_TEXT, AT(output),
      .initial = "pto-selfcheck.txt" },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_selfcheck = {
    .name = "selfcheck",
    .summary = "try a card step by step, and pack what happened into a file",
    .synopsis = "[OPTION...]",
    .description =
        "Opens a card, runs a task on one core, tasks on all cores that wait for each other, and "
        "many runs, after the second of which no memory, program or stream may be taken any "
        "more. Then a kernel that never returns: its run has to end in time, and the card to "
        "be usable again. Nothing else should use the card meanwhile. The file has the result "
        "of every step and every call of the vendor's, with its code and its time. Send it "
        "to whoever helps you.",
    .notes = "The exit code is 1 if a step failed, and 2 if there is nothing to try.",
    .options = options,
    .request_bytes = sizeof(struct request),
    .run = do_selfcheck,
};

/* ---- what runs on the card ---- */

enum op { OP_HELLO, OP_ALL, OP_NEVER };
enum kernel { MARK_AIC, MARK_AIV, NEVER, KERNELS };

/* A block counts itself, waits for the others and leaves a mark. */
static const char mark_text[] =
    "#include <pto/kernel.h>\n"
    "void kernel_entry(int64_t *args)\n"
    "{\n"
    "    int32_t *mark = pto_tensor_data(pto_arg_tensor(args, 0));\n"
    "    uint32_t *arrived = pto_tensor_data(pto_arg_tensor(args, 1));\n"
    "    int64_t block = pto_block_index(args);\n"
    "    pto_notify_add(arrived, 1);\n"
    "    while (pto_notified(arrived) < (uint32_t)pto_block_count(args))\n"
    "        pto_pause();\n"
    "    mark[(args[2] + block) * 16] = (int32_t)(args[2] + block + 1);\n"
    "}\n";

static const char never_text[] =
    "#include <pto/kernel.h>\n"
    "void kernel_entry(int64_t *args)\n"
    "{\n"
    "    volatile int32_t *mark = pto_tensor_data(pto_arg_tensor(args, 0));\n"
    "    while (mark[0] == 0)\n"
    "        pto_pause();\n"
    "}\n";

static const char orchestration_text[] =
    "#include <pto/orch.h>\n"
    "void orchestrate(struct pto_orch *o, const struct pto_entry *entry)\n"
    "{\n"
    "    const struct pto_tensor *mark = &entry->tensor[0];\n"
    "    struct pto_tensor_info one = pto_tensor_info_make(PTO_DIMS(1), 1, PTO_UINT32);\n"
    "    pto_tensor_info_fill(&one, 0);\n"
    "    if (entry->scalar[0] == 0)\n"
    "        pto_aiv(o, 1, PTO_INOUT(mark), PTO_OUT(&one), PTO_INT(0));\n"
    "    if (entry->scalar[0] == 1) {\n"
    "        pto_aic(o, 0, PTO_INOUT(mark), PTO_OUT(&one), PTO_INT(0), "
    "PTO_GANG(pto_aiv_count(o) / 2));\n"
    "        pto_aiv(o, 1, PTO_INOUT(mark), PTO_OUT(&one), PTO_INT(pto_aiv_count(o) / 2),\n"
    "                PTO_GANG(pto_aiv_count(o)));\n"
    "    }\n"
    "    if (entry->scalar[0] == 2)\n"
    "        pto_aiv(o, 2, PTO_INOUT(mark));\n"
    "}\n";

/* ---- steps ---- */

struct step {
    char name[16];
    bool has_begun, has_ended, is_good;
    double ms;
    char text[STEP_TEXT];
};

/* Shared by the command and its child. */
struct story {
    struct step step[STEPS];
    uint32_t count;
};

struct check {
    const struct request *request;
    const char *platform;
    const char *log; /* of calls */
    struct story *story;
    void *artefact;
    size_t artefact_bytes;
    struct pto_device *device;
    struct pto_callable *callable;
    uint32_t cores;
};

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static bool tell(struct check *c, bool is_good, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool tell(struct check *c, bool is_good, const char *format, ...)
{
    struct step *step = &c->story->step[c->story->count - 1];
    va_list values;

    va_start(values, format);
    vsnprintf(step->text, sizeof(step->text), format, values);
    va_end(values);
    return is_good;
}

/* ---- in the child ---- */

static bool write_source(const char *folder, const char *name, const char *text, char path[512])
{
    struct pto_error error = { .size = sizeof(error) };

    snprintf(path, 512, "%s/%s", folder, name);
    return pto_file_write(path, text, strlen(text), &error) >= 0;
}

static bool build(struct check *c)
{
    static const enum pto_direction signature[] = { PTO_DIR_INOUT, PTO_DIR_SCALAR };
    char folder[] = "/tmp/pto-selfcheck-XXXXXX", path[4][512];
    struct pto_source source[4] = {
        { .path = path[0], .kind = PTO_SOURCE_ORCHESTRATION },
        { .path = path[1], .func_id = MARK_AIC, .core = PTO_CORE_AIC, .name = "mark_aic" },
        { .path = path[1], .func_id = MARK_AIV, .core = PTO_CORE_AIV, .name = "mark_aiv" },
        { .path = path[3], .func_id = NEVER, .core = PTO_CORE_AIV, .name = "never" },
    };
    struct pto_error error = { .size = sizeof(error) };
    struct pto_build_params params;
    int status = PTO_ESYSTEM;

    pto_build_params_init(&params);
    params.platform = c->platform;
    params.name = "selfcheck";
    params.sources = source;
    params.source_count = 4;
    params.signature = signature;
    params.signature_count = 2;
    if (mkdtemp(folder) != NULL && write_source(folder, "orch.c", orchestration_text, path[0]) &&
        write_source(folder, "mark.c", mark_text, path[1]) &&
        write_source(folder, "never.c", never_text, path[3]))
        status = pto_build(&params, &c->artefact, &c->artefact_bytes, &error);
    (void)unlink(path[0]);
    (void)unlink(path[1]);
    (void)unlink(path[3]);
    (void)rmdir(folder);
    return status >= 0
               ? tell(c, true, "%zu bytes", c->artefact_bytes)
               : tell(c, false, "%s", error.text[0] != '\0' ? error.text : "no folder in /tmp");
}

static bool open_card(struct check *c)
{
    struct pto_error error = { .size = sizeof(error) };
    struct pto_device_info info;
    struct pto_device_params params;

    pto_device_params_init(&params);
    params.platform = c->platform;
    params.card = c->request->card;
    params.error = &error;
    if (pto_device_open(&params, &c->device) < 0)
        return tell(c, false, "%s", error.text);
    pto_device_info_init(&info);
    (void)pto_device_info(c->device, &info);
    c->cores = info.aic_count + info.aiv_count;
    if (pto_callable_load_memory(c->artefact, c->artefact_bytes, NULL, &c->callable, &error) < 0 ||
        pto_register(c->device, c->callable, &error) < 0)
        return tell(c, false, "%s", error.text);
    return tell(c, true, "card %u, %u AIC and %u AIV", c->request->card, info.aic_count,
                info.aiv_count);
}

static void close_card(struct check *c)
{
    if (c->callable != NULL)
        (void)pto_callable_destroy(c->callable);
    if (c->device != NULL)
        (void)pto_device_close(c->device);
    c->callable = NULL;
    c->device = NULL;
}

/* Runs it, and says how many blocks have left their marks. */
static int run(struct check *c, enum op op, uint64_t timeout_ns, struct pto_error *error)
{
    static int32_t mark[MARKS];
    const uint32_t shape[1] = { MARKS };
    struct pto_tensor tensor = pto_tensor_external(mark, shape, 1, PTO_INT32);
    uint64_t scalar = op;
    struct pto_entry entry = {
        .tensor_count = 1, .scalar_count = 1, .tensor = &tensor, .scalar = &scalar
    };
    struct pto_run_options how;
    struct pto_run_report report;
    int status, marks = 0;

    memset(mark, 0, sizeof(mark));
    pto_run_options_init(&how);
    pto_run_report_init(&report);
    how.timeout_ns = timeout_ns;
    status = pto_run(c->device, c->callable, &entry, &how, &report);
    *error = report.error;
    for (int i = 0; i < MARKS / LINE_WORDS; i++)
        marks += mark[i * LINE_WORDS] == i + 1;
    return status < 0 ? status : marks;
}

static bool greet(struct check *c)
{
    struct pto_error error;
    int marks = run(c, OP_HELLO, 0, &error);

    return marks == 1  ? tell(c, true, "one core has left its mark")
           : marks < 0 ? tell(c, false, "%s", error.text)
                       : tell(c, false, "%d marks were left instead of 1", marks);
}

static bool greet_all(struct check *c)
{
    struct pto_error error;
    int marks = run(c, OP_ALL, 0, &error);

    return marks == (int)c->cores ? tell(c, true, "%d cores have met", marks)
           : marks < 0            ? tell(c, false, "%s", error.text)
                       : tell(c, false, "%d cores of %u have left their marks", marks, c->cores);
}

/* Of the log. */
static long count_calls(const char *path, const char *name)
{
    FILE *file = fopen(path, "re");
    char line[256], called[64];
    long count = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        count += sscanf(line, "%*s %*s %63s", called) == 1 && strcmp(called, name) == 0;
    if (file != NULL)
        fclose(file);
    return count;
}

/* What the card has given out and not got back, by the calls. */
static long count_held(const char *path)
{
    static const char *const taken[] = { "aclrtMalloc", "aclrtCreateStream",
                                         "aclrtBinaryLoadFromData", "aclrtBinaryLoadFromFile" };
    static const char *const given[] = { "aclrtFree", "aclrtDestroyStream", "aclrtBinaryUnLoad" };
    long held = 0;

    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        held += count_calls(path, taken[i]);
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
        held -= count_calls(path, given[i]);
    return held;
}

static bool loop(struct check *c)
{
    struct pto_error error;
    long second = 0, held;
    double begin = 0;

    for (uint32_t i = 1; i <= c->request->runs; i++) {
        int marks = run(c, OP_HELLO, 0, &error);

        if (marks != 1)
            return tell(c, false, "run %u: %s", i, marks < 0 ? error.text : "no mark was left");
        if (i == 2) {
            second = count_held(c->log);
            begin = now_ms();
        }
    }
    held = count_held(c->log);
    if (held != second)
        return tell(c, false, "%ld things are held after run 2, and %ld after run %u", second, held,
                    c->request->runs);
    return tell(c, true, "%u runs hold what run 2 held, %.0f us each", c->request->runs,
                (now_ms() - begin) * 1e3 / (c->request->runs - 2));
}

static bool time_out(struct check *c)
{
    struct pto_error error;
    struct pto_device_info info;
    int status = run(c, OP_NEVER, 500000000, &error);

    if (status >= 0)
        return tell(c, false, "a kernel that never returns has ended");
    pto_device_info_init(&info);
    (void)pto_device_info(c->device, &info);
    return tell(c, (status == PTO_ETIMEOUT || status == PTO_ESTALL) && info.is_lost, "%s",
                error.text);
}

static bool recover(struct check *c)
{
    close_card(c);
    return open_card(c) && greet(c);
}

static bool give_back(struct check *c)
{
    close_card(c);
    return tell(c, true, "the card was given back");
}

static bool take_step(struct check *c, const char *name, bool (*fn)(struct check *c))
{
    struct step *step = &c->story->step[c->story->count++];
    double begin = now_ms();

    snprintf(step->name, sizeof(step->name), "%s", name);
    step->has_begun = true;
    terminal_tell(stdout, "  %-10s ", name);
    fflush(stdout);
    step->is_good = fn(c);
    step->ms = now_ms() - begin;
    step->has_ended = true;
    terminal_tell(stdout, "%s  %s (%.0f ms)\n", step->is_good ? "ok    " : "FAILED", step->text,
                  step->ms);
    fflush(stdout);
    return step->is_good;
}

/* A step that fails ends it, but the card is given back. */
static int take_steps(struct check *c)
{
    bool is_good = take_step(c, "build", build) && take_step(c, "open", open_card) &&
                   take_step(c, "hello", greet) && take_step(c, "handshake", greet_all) &&
                   take_step(c, "loop", loop) && take_step(c, "time-out", time_out) &&
                   take_step(c, "recovery", recover);

    is_good = take_step(c, "close", give_back) && is_good;
    free(c->artefact);
    return is_good ? EXIT_OK : EXIT_FAILED;
}

/* ---- the file ---- */

static void copy_lines(FILE *to, const char *path, int most)
{
    FILE *from = fopen(path, "re");
    char line[512];

    for (int i = 0; from != NULL && i < most && fgets(line, sizeof(line), from) != NULL; i++)
        fputs(line, to);
    if (from != NULL)
        fclose(from);
}

static void write_machine(FILE *to, const struct check *c)
{
    const char *home = getenv("ASCEND_HOME_PATH");
    struct utsname about;
    char path[4096];
    time_t now = time(NULL);

    fprintf(to, "pto selfcheck, library %s, platform %s, card %u, %s", pto_version(), c->platform,
            c->request->card, asctime(gmtime(&now)));
    if (uname(&about) == 0)
        fprintf(to, "%s %s %s\n", about.sysname, about.release, about.machine);
    fprintf(to, "ASCEND_HOME_PATH=%s\n", home != NULL ? home : "");
    snprintf(path, sizeof(path), "%s/runtime/version.info", home != NULL ? home : "");
    copy_lines(to, path, VERSION_LINES);
    copy_lines(to, "/usr/local/Ascend/driver/version.info", VERSION_LINES);
}

static int pack(const struct check *c, const char *end)
{
    struct pto_error error = { .size = sizeof(error) };
    char *bytes = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&bytes, &size);
    int status;

    if (to == NULL)
        return PTO_ENOMEM;
    write_machine(to, c);
    fprintf(to, "\nsteps\n");
    for (uint32_t i = 0; i < c->story->count; i++) {
        const struct step *step = &c->story->step[i];

        fprintf(to, "%s\t%s\t%.0f ms\t%s\n", step->name,
                !step->has_ended ? "not ended"
                : step->is_good  ? "ok"
                                 : "failed",
                step->ms, step->text);
    }
    if (end[0] != '\0')
        fprintf(to, "%s\n", end);
    fprintf(to, "\ncalls: number, thread, name, code, nanoseconds\n");
    copy_lines(to, c->log, PACK_MAX / 64);
    fclose(to);
    status = pto_file_write(c->request->output, bytes, size, &error);
    free(bytes);
    if (status < 0)
        terminal_tell(stderr, "pto selfcheck: %s\n", error.text);
    return status;
}

/* ---- the command ---- */

/* The one that is asked for, or the first that is a card's here. NULL: told. */
static const char *choose_platform(const struct request *request)
{
    const struct pto_platform *platform;
    const char *why = NULL;
    static struct probe probe;

    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++) {
        if (platform->is_simulated ||
            (request->platform != NULL && strcmp(platform->name, request->platform) != 0))
            continue;
        if (platform->missing == NULL && request->platform != NULL)
            return platform->name;
        if (platform->missing != NULL) {
            terminal_tell(stderr, "pto selfcheck: a card is %s\n", platform->missing);
            return NULL;
        }
        cli_probe_open(platform->name, &probe);
        if (probe.is_open || strstr(probe.text, "that is no") == NULL)
            return platform->name; /* what is wrong with it will be told by the step */
        why = probe.text;
    }
    if (why == NULL)
        terminal_tell(stderr, "pto selfcheck: '%s' is no real chip; a2a3 and a5 are\n",
                      request->platform);
    else
        terminal_tell(stderr, "pto selfcheck: there is nothing to check: %s\n", why);
    return NULL;
}

/* What became of the child; empty: it has ended by itself. */
static int await_child(pid_t child, char *end, size_t bytes)
{
    double begin = now_ms();
    int status = 0;
    pid_t got;

    end[0] = '\0';
    while ((got = waitpid(child, &status, WNOHANG)) == 0) {
        if (now_ms() - begin > LIMIT_S * 1e3) {
            snprintf(end, bytes, "the check did not end within %d s, and was killed", LIMIT_S);
            (void)kill(child, SIGKILL);
            (void)waitpid(child, &status, 0);
            return EXIT_FAILED;
        }
        usleep(20000);
    }
    if (got == child && WIFEXITED(status))
        return WEXITSTATUS(status);
    snprintf(end, bytes, "the check was ended by signal %d (%s)", WTERMSIG(status),
             strsignal(WTERMSIG(status)));
    return EXIT_FAILED;
}

static int do_selfcheck(void *context, int count, char **operands)
{
    const struct request *request = context;
    struct check c = { .request = request, .platform = choose_platform(request) };
    char log[] = "/tmp/pto-selfcheck-XXXXXX", end[256];
    int file, code;
    pid_t child;

    (void)count;
    (void)operands;
    if (c.platform == NULL)
        return EXIT_USAGE;
    c.story =
        mmap(NULL, sizeof(*c.story), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    file = mkstemp(log);
    if (c.story == MAP_FAILED || file < 0) {
        terminal_tell(stderr, "pto selfcheck: %s: %s\n", log, strerror(errno));
        return EXIT_FAILED;
    }
    close(file);
    c.log = log;
    terminal_tell(stdout, "%s, card %u\n", c.platform, request->card);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        (void)setenv("PTO_CANN_LOG", log, 1);
        exit(take_steps(&c));
    }
    code = child < 0 ? EXIT_FAILED : await_child(child, end, sizeof(end));
    if (child < 0)
        snprintf(end, sizeof(end), "there is no process for the check: %s", strerror(errno));
    if (end[0] != '\0')
        terminal_tell(stdout, "\n  %s\n", end);
    if (pack(&c, end) < 0)
        code = EXIT_FAILED;
    else
        terminal_tell(stdout, "%s has all of it, with every call of the vendor's\n",
                      request->output);
    (void)unlink(log);
    (void)munmap(c.story, sizeof(*c.story));
    return code;
}
