/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of `pto selfcheck` that tries a card. It prints nothing: verdicts go to the shared
 * progress, calls and step names to a log, and output of compilers to a file.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/cli/commands.h"
#include "tool/cli/programs.h"
#include "tool/cli/selfcheck.h"
#include "pto/build.h"

enum {
    LINE_WORDS = 16, /* words per cache line, because each block writes a line of its own */
    CLUSTERS_MAX = 64,
    MARKS = 3 * CLUSTERS_MAX * LINE_WORDS,
    NEVER_NS = 500000000, /* time limit of a run whose kernel never returns */
};

struct trial {
    struct selfcheck *c;
    struct selfcheck_result *result; /* result of the current step, in shared memory */
    FILE *output;                    /* file that receives the output of compilers */
    char log[PATH_MAX];              /* path of the log of calls of the vendor's library */
    char store[PATH_MAX];            /* folder of the store of compiled objects for this check */
    void *artefact;
    size_t artefact_bytes;
    struct pto_device *device;
    struct pto_callable *callable;
    uint32_t cores;
};

/* ---- programs for the card ---- */

enum op { OP_HELLO, OP_ALL, OP_NEVER };
enum kernel { MARK_AIC, MARK_AIV, NEVER, KERNELS };

/*
 * Source of a kernel whose blocks count themselves, wait for each other, and leave one mark each.
 */
static const char mark_text[] =
    "#include <pto/kernel.h>\n"
    "PTO_KERNEL(args)\n"
    "{\n"
    "    PTO_GM int32_t *mark = PTO_ARG(args, 0, int32_t);\n"
    "    PTO_GM uint32_t *arrived = PTO_ARG(args, 1, uint32_t);\n"
    "    int64_t block = pto_block_index(args);\n"
    "    pto_notify_add(arrived, 1);\n"
    "    while (pto_notified(arrived) < (uint32_t)pto_block_count(args))\n"
    "        pto_pause();\n"
    "    mark[(args[2] + block) * 16] = (int32_t)(args[2] + block + 1);\n"
    "}\n";

static const char never_text[] =
    "#include <pto/kernel.h>\n"
    "PTO_KERNEL(args)\n"
    "{\n"
    "    PTO_GM volatile int32_t *mark = PTO_ARG(args, 0, volatile int32_t);\n"
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

/* ---- verdicts ---- */

static bool selfcheck_steps_report(struct trial *t, bool is_good, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets the text of the current step; the step's verdict is set when its function returns. */
static bool selfcheck_steps_report(struct trial *t, bool is_good, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    vsnprintf(t->result->text, sizeof(t->result->text), format, values);
    va_end(values);
    return is_good;
}

/* ---- compilers ---- */

static void keep_event(void *context, const struct pto_build_event *event)
{
    struct trial *t = context;
    const char *source = event->source != NULL ? event->source : "";

    if (t->output == NULL || event->text == NULL)
        return;
    if (event->kind == PTO_BUILD_COMMAND)
        fprintf(t->output, "$ %s\n", event->text);
    else if (event->kind == PTO_BUILD_OUTPUT || event->kind == PTO_BUILD_WARNING)
        fprintf(t->output, "%s printed:\n%s\n", source, event->text);
    else if (event->kind == PTO_BUILD_COMPILER || event->kind == PTO_BUILD_NOTE)
        fprintf(t->output, "%s\n", event->text);
    fflush(t->output);
}

/*
 * Selects a new store for compiled objects: everything is compiled, so that the evidence has each
 * command.
 */
static void set_build(struct trial *t, struct pto_build_params *params)
{
    pto_build_params_init(params);
    params->store = t->store;
    params->platform = t->c->progress->platform;
    params->event = keep_event;
    params->context = t;
    params->is_explained = true;
}

static bool write_source(const struct trial *t, const char *name, const char *text,
                         char path[PATH_MAX])
{
    struct pto_error error = { .size = sizeof(error) };

    cli_selfcheck_path(t->c, name, path);
    return pto_file_write(path, text, strlen(text), &error) >= 0;
}

static bool compile(struct trial *t)
{
    static const enum pto_direction signature[] = { PTO_DIR_INOUT, PTO_DIR_SCALAR };
    char path[3][PATH_MAX];
    struct pto_source source[4] = {
        { .path = path[0], .kind = PTO_SOURCE_ORCHESTRATION },
        { .path = path[1], .func_id = MARK_AIC, .core = PTO_CORE_AIC, .name = "mark_aic" },
        { .path = path[1], .func_id = MARK_AIV, .core = PTO_CORE_AIV, .name = "mark_aiv" },
        { .path = path[2], .func_id = NEVER, .core = PTO_CORE_AIV, .name = "never" },
    };
    struct pto_error error = { .size = sizeof(error) };
    struct pto_build_params params;

    set_build(t, &params);
    params.name = "selfcheck";
    params.sources = source;
    params.source_count = 4;
    params.signature = signature;
    params.signature_count = 2;
    if (!write_source(t, "orch.c", orchestration_text, path[0]) ||
        !write_source(t, "mark.c", mark_text, path[1]) ||
        !write_source(t, "never.c", never_text, path[2]))
        return selfcheck_steps_report(t, false, "sources cannot be written to %s: %s", t->c->work,
                                      strerror(errno));
    return pto_build(&params, &t->artefact, &t->artefact_bytes, &error) >= 0
               ? selfcheck_steps_report(t, true, "%zu bytes", t->artefact_bytes)
               : selfcheck_steps_report(t, false, "%s", error.text);
}

static int selfcheck_steps_write_program(void *context, const char *name, const void *bytes,
                                         size_t size)
{
    const struct trial *t = context;
    struct pto_error error = { .size = sizeof(error) };
    char inner[128], path[PATH_MAX];

    snprintf(inner, sizeof(inner), "programs/%s", name);
    cli_selfcheck_path(t->c, inner, path);
    return pto_file_write(path, bytes, size, &error);
}

/* Builds the programs for the card that are not installed, in the folder of this check. */
static bool build_programs(struct trial *t, struct pto_error *error)
{
    static const struct cli_texts none;
    struct pto_build_params params;
    char folder[PATH_MAX];

    cli_selfcheck_path(t->c, "programs", folder);
    set_build(t, &params);
    if (mkdir(folder, 0700) != 0 ||
        cli_build_programs(&params, &none, &none, selfcheck_steps_write_program, t, error) < 0)
        return false;
    (void)setenv("PTO_CANN_PROGRAMS", folder, 1);
    return true;
}

/* ---- the card ---- */

/* Returns whether `name` is the last stage in the library's log. */
static bool is_last_stage(const struct trial *t, const char *name)
{
    FILE *from = fopen(t->log, "re");
    char line[512], kind[32], stage[64];
    bool is_last = false;

    while (from != NULL && fgets(line, sizeof(line), from) != NULL)
        if (sscanf(line, "# %*u %31s %63s", kind, stage) == 2 && strcmp(kind, "stage") == 0)
            is_last = strcmp(stage, name) == 0;
    if (from != NULL)
        fclose(from);
    return is_last;
}

static int open_as(struct trial *t, const char *platform, struct pto_error *error)
{
    struct pto_device_params params;

    if (platform != t->c->progress->platform)
        snprintf(t->c->progress->platform, sizeof(t->c->progress->platform), "%s", platform);
    pto_device_params_init(&params);
    params.platform = platform;
    params.card = t->c->card;
    params.error = error;
    return pto_device_open(&params, &t->device);
}

/*
 * Opens the card as the requested platform, or, if none was requested, as the one of its
 * generation.
 */
static int open_any(struct trial *t, struct pto_error *error)
{
    const struct pto_platform *platform;
    int status = PTO_ENOSUP;

    if (t->c->platform != NULL)
        return open_as(t, t->c->platform, error);
    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++) {
        if (platform->is_simulated)
            continue;
        status = open_as(t, platform->name, error);
        if (status >= 0 || strstr(error->text, "is not a chip of generation") == NULL)
            return status;
    }
    return status;
}

/*
 * Opens the card for the first time. The stages of opening are steps of the check; in the last one
 * all cores start and stop.
 */
static bool open_first(struct trial *t)
{
    struct pto_error error = { .size = sizeof(error) }, why = { .size = sizeof(why) };
    const char *programs = getenv("PTO_CANN_PROGRAMS"), *how = "";
    struct pto_device_info info;
    int status;

    (void)setenv("PTO_CANN_MEET", "1", 1);
    status = open_any(t, &error);
    if (status < 0 && (programs == NULL || programs[0] == '\0') && is_last_stage(t, "programs")) {
        if (!build_programs(t, &why))
            return selfcheck_steps_report(
                t, false, "%s; the programs cannot be built either: %.300s", error.text, why.text);
        how = ", with programs that were built for this check";
        status = open_as(t, t->c->progress->platform, &error);
    }
    (void)unsetenv("PTO_CANN_MEET");
    if (status < 0)
        return selfcheck_steps_report(t, false, "%s", error.text);
    pto_device_info_init(&info);
    (void)pto_device_info(t->device, &info);
    t->cores = info.aic_count + info.aiv_count;
    return selfcheck_steps_report(t, true, "%u AIC and %u AIV%s", info.aic_count, info.aiv_count,
                                  how);
}

static bool selfcheck_steps_load(struct trial *t)
{
    struct pto_error error = { .size = sizeof(error) };

    return (pto_callable_load_memory(t->artefact, t->artefact_bytes, NULL, &t->callable, &error) >=
                0 &&
            pto_register(t->device, t->callable, &error) >= 0) ||
           selfcheck_steps_report(t, false, "%s", error.text);
}

static void close_card(struct trial *t)
{
    if (t->callable != NULL)
        (void)pto_callable_destroy(t->callable);
    if (t->device != NULL)
        (void)pto_device_close(t->device);
    t->callable = NULL;
    t->device = NULL;
}

/* ---- runs ---- */

/* Runs a kernel of the given kind and returns how many blocks left their marks. */
static int run(struct trial *t, enum op op, uint64_t timeout_ns, struct pto_error *error)
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
    status = pto_run(t->device, t->callable, &entry, &how, &report);
    *error = report.error;
    for (int i = 0; i < MARKS / LINE_WORDS; i++)
        marks += mark[i * LINE_WORDS] == i + 1;
    return status < 0 ? status : marks;
}

static bool selfcheck_steps_greet(struct trial *t)
{
    struct pto_error error;
    int marks = run(t, OP_HELLO, 0, &error);

    return marks == 1  ? selfcheck_steps_report(t, true, "one core wrote its mark")
           : marks < 0 ? selfcheck_steps_report(t, false, "%s", error.text)
                       : selfcheck_steps_report(t, false, "%d marks were left instead of 1", marks);
}

static bool greet_first(struct trial *t)
{
    return selfcheck_steps_load(t) && selfcheck_steps_greet(t);
}

static bool greet_all(struct trial *t)
{
    struct pto_error error;
    int marks = run(t, OP_ALL, 0, &error);

    return marks == (int)t->cores ? selfcheck_steps_report(t, true, "%d cores have met", marks)
           : marks < 0            ? selfcheck_steps_report(t, false, "%s", error.text)
                       : selfcheck_steps_report(t, false, "%d cores of %u have left their marks",
                                                marks, t->cores);
}

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

/*
 * Returns how many objects on the card are allocated and not released, according to the log of
 * calls.
 */
static long count_held(const char *path)
{
    static const char *const taken[] = { "aclrtMalloc", "aclrtCreateStream",
                                         "aclrtBinaryLoadFromData", "aclrtBinaryLoadFromFile",
                                         "rtRegisterAllKernel" };
    static const char *const given[] = { "aclrtFree", "aclrtDestroyStream", "aclrtBinaryUnLoad",
                                         "rtDevBinaryUnRegister" };
    long held = 0;

    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        held += count_calls(path, taken[i]);
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
        held -= count_calls(path, given[i]);
    return held;
}

static bool loop(struct trial *t)
{
    uint32_t runs = t->c->runs;
    struct pto_error error;
    long second = 0, held;
    double begin = 0;

    for (uint32_t i = 1; i <= runs; i++) {
        int marks = run(t, OP_HELLO, 0, &error);

        if (marks != 1)
            return selfcheck_steps_report(t, false, "run %u: %s", i,
                                          marks < 0 ? error.text : "no mark was left");
        if (i == 2) {
            second = count_held(t->log);
            begin = cli_selfcheck_now_ms();
        }
    }
    held = count_held(t->log);
    if (held != second)
        return selfcheck_steps_report(
            t, false, "%ld objects of the card are held after run 2, and %ld after run %u", second,
            held, runs);
    return selfcheck_steps_report(
        t, true, "after %u runs the card has as many objects as after run 2; %.0f us per run", runs,
        (cli_selfcheck_now_ms() - begin) * 1e3 / (runs - 2));
}

static bool time_out(struct trial *t)
{
    struct pto_error error;
    struct pto_device_info info;
    int status = run(t, OP_NEVER, NEVER_NS, &error);

    if (status >= 0)
        return selfcheck_steps_report(t, false, "a kernel that never returns has ended");
    pto_device_info_init(&info);
    (void)pto_device_info(t->device, &info);
    return selfcheck_steps_report(
        t, (status == PTO_ETIMEOUT || status == PTO_ESTALL) && info.is_lost, "%s", error.text);
}

static bool selfcheck_steps_recover(struct trial *t)
{
    struct pto_error error = { .size = sizeof(error) };

    close_card(t);
    return (open_as(t, t->c->progress->platform, &error) >= 0 ||
            selfcheck_steps_report(t, false, "%s", error.text)) &&
           selfcheck_steps_load(t) && selfcheck_steps_greet(t);
}

static bool give_back(struct trial *t)
{
    close_card(t);
    return selfcheck_steps_report(t, true, "the card was released");
}

/* ---- all steps ---- */

/* Logs the name of the step, to which the next calls in the log belong. */
static void note_step(const struct trial *t, const char *name)
{
    FILE *log = fopen(t->log, "ae");

    if (log != NULL) {
        fprintf(log, "#\t%ld\tstep\t%s\n", (long)getpid(), name);
        fclose(log);
    }
}

static bool selfcheck_run_steps(struct trial *t, struct selfcheck_result *result, const char *name,
                                bool (*fn)(struct trial *t))
{
    double begin = cli_selfcheck_now_ms();
    bool is_good;

    if (name != NULL)
        note_step(t, name);
    t->result = result;
    cli_selfcheck_set(result, VERDICT_RUNNING, "%s", "");
    is_good = fn(t);
    result->ms = cli_selfcheck_now_ms() - begin;
    __atomic_store_n(&result->verdict, is_good ? VERDICT_OK : VERDICT_FAILED, __ATOMIC_RELEASE);
    return is_good;
}

static bool selfcheck_run_step(struct trial *t, enum selfcheck_step step,
                               bool (*fn)(struct trial *t))
{
    return selfcheck_run_steps(t, &t->c->progress->step[step], cli_selfcheck_names[step], fn);
}

/* Runs the steps until one fails. The card is closed in any case. Returns an exit code. */
int cli_selfcheck_try(struct selfcheck *c)
{
    struct trial t = { .c = c };
    char output_path[PATH_MAX];
    bool is_good;

    cli_selfcheck_path(c, "calls", t.log);
    cli_selfcheck_path(c, "store", t.store);
    cli_selfcheck_path(c, "compilers", output_path);
    t.output = fopen(output_path, "ae");
    if (!selfcheck_run_steps(&t, &c->progress->opening, NULL, open_first)) {
        close_card(&t);
        return EXIT_FAILED;
    }
    is_good = selfcheck_run_step(&t, STEP_COMPILE, compile) &&
              selfcheck_run_step(&t, STEP_ONE_CORE, greet_first) &&
              selfcheck_run_step(&t, STEP_ALL_CORES, greet_all) &&
              selfcheck_run_step(&t, STEP_LOOP, loop) &&
              selfcheck_run_step(&t, STEP_TIME_OUT, time_out) &&
              selfcheck_run_step(&t, STEP_RECOVERY, selfcheck_steps_recover);
    is_good = selfcheck_run_step(&t, STEP_CLOSE, give_back) && is_good;
    free(t.artefact);
    if (t.output != NULL)
        fclose(t.output);
    return is_good ? EXIT_OK : EXIT_FAILED;
}
