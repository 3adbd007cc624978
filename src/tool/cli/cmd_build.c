/* SPDX-License-Identifier: Apache-2.0 */
/* `pto build`: compiles kernels and an orchestration and packs them into one file. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/os.h"
#include "pto/build.h"
#include "tool/cli/commands.h"
#include "tool/cli/programs.h"
#include "tool/scene/scene_build.h"
#include "tool/scene/scene_find.h"
#include "tool/scene/terminal.h"

enum { SOURCES_MAX = 1025, SIGNATURE_MAX = 256 };

/* The options of the command, and the results of the build. */
struct request {
    const char *platform;
    enum pto_mode mode;
    const char *name;
    const char *config;
    const char *entry;
    struct cli_texts dir;
    struct cli_texts flag;
    const char *isa;
    const char *isa_pin;
    const char *isa_overlay;
    const char *output;
    const char *store;
    uint32_t jobs;
    bool is_forced;
    bool has_accesses;
    bool is_explained;
    bool is_verbose;
    bool is_programs;
    uint32_t source_count;
    struct pto_source source[SOURCES_MAX];
    uint32_t signature_count;
    enum pto_direction signature[SIGNATURE_MAX];
    struct pto_build_params params;
    struct scene *scene; /* scene to build; NULL: the sources come from the options */
    struct scene_plan plan;
    char default_name[256];
    char default_output[300];
    uint32_t compiled;
    uint32_t reused;
    bool has_line; /* the terminal shows the progress line */
};

static volatile sig_atomic_t interrupted;

static int do_build(void *context, int count, char **operands);
static int build_parse_orchestration(void *context, const struct cli_option *option, char *value,
                                     struct pto_error *error);
static int parse_kernel_option(void *context, const struct cli_option *option, char *value,
                               struct pto_error *error);
static int parse_signature(void *context, const struct cli_option *option, char *value,
                           struct pto_error *error);
static void set_params(struct request *request);
static int complete_sources(struct request *request);
static int complete_scene(struct request *request, const char *name);
static void set_output(struct request *request);
static void clear_progress(struct request *request);
static void show_event(void *context, const struct pto_build_event *event);
static bool is_interrupted(void *context);
static void catch_interrupt(int number);
static int write_artefact(const char *path, const void *bytes, size_t size);

#define AT(member) .at = offsetof(struct request, member)

static const struct cli_option options[] = {
    { "orchestration", 0, "FILE[:ENTRY]",
      "file and function of the orchestration (default function: orchestrate)", CLI_CUSTOM,
      .custom = build_parse_orchestration },
    { "kernel", 0, "ID:aic|aiv:FILE", "id (up to 1023), core and file of a kernel; may be repeated",
      CLI_CUSTOM, .custom = parse_kernel_option },
    { "platform", 0, "P", "a simulated or a real chip", CLI_TARGET, AT(platform) },
    { "mode", 0, "stream|host", "default mode of the callable", CLI_MODE, AT(mode),
      .initial = "stream" },
    { "name", 0, "N", "name of the callable (default: name of the orchestration's file)", CLI_TEXT,
      AT(name) },
    { "config", 0, "C", "name of the orchestration's configuration", CLI_TEXT, AT(config) },
    { "signature", 0, "D,D,...",
      "arguments of the entry: in, out or inout per tensor, scalar per scalar", CLI_CUSTOM,
      .custom = parse_signature },
    { NULL, 'I', "DIR", "add a folder with headers for all sources; may be repeated", CLI_TEXTS,
      AT(dir), .high = CLI_TEXTS_MAX },
    { "flag", 0, "F", "add a compiler flag for all sources; may be repeated", CLI_TEXTS, AT(flag),
      .high = CLI_TEXTS_MAX },
    { "isa", 0, "DIR", "folder of the tile library (default: PTO_ISA_ROOT, or ~/.config/pto/isa)",
      CLI_TEXT, AT(isa) },
    { "isa-pin", 0, "PIN",
      "required tile library: a git revision, or sha256: and the digest of its headers", CLI_TEXT,
      AT(isa_pin) },
    CLI_OPTION_ISA_OVERLAY(AT(isa_overlay)),
    { NULL, 'o', "FILE", "output file (default: NAME.ptoc)", CLI_TEXT, AT(output) },
    { "store", 0, "DIR",
      "store of compiled objects (default: PTO_STORE, or pto in the user's cache folder)", CLI_TEXT,
      AT(store) },
    { "jobs", 0, "N", "number of parallel compilers (default: one per CPU)", CLI_COUNT, AT(jobs),
      .low = 1, .high = 256 },
    { "programs", 0, NULL,
      "build the runtime's own programs for a real chip, into the folder -o (default: "
      "cann-PLATFORM)",
      CLI_FLAG, AT(is_programs) },
    { "accesses", 0, NULL,
      "make kernels report each access to memory; runs on a simulated chip compare it with the "
      "arguments of the task",
      CLI_FLAG, AT(has_accesses) },
    { "force", 0, NULL, "compile everything", CLI_FLAG, AT(is_forced) },
    { "explain", 0, NULL, "explain for each file why it was or was not compiled", CLI_FLAG,
      AT(is_explained) },
    { "verbose", 0, NULL, "as --explain, and show the compilers and all warnings", CLI_FLAG,
      AT(is_verbose) },
    CLI_OPTIONS_END,
};

const struct cli_command cmd_build = {
    .name = "build",
    .summary = "compile kernels and an orchestration into one file",
    .synopsis = "SCENE [OPTION...]\n"
                "--orchestration FILE[:ENTRY] [--kernel ID:aic|aiv:FILE]... [OPTION...]\n"
                "--programs [OPTION...]",
    .description = "Compiles the kernels and the orchestration of a scene, of a folder with a "
                   "kernel_config.py, or of the command line, and packs them into one file, a "
                   "callable. Objects of unchanged sources come from the store.",
    .options = options,
    .operands_max = 1,
    .request_bytes = sizeof(struct request),
    .run = do_build,
};

static void begin_build(struct request *request)
{
    struct pto_build_params *params = &request->params;

    params->event = show_event;
    params->stop = is_interrupted;
    params->context = request;
    signal(SIGINT, catch_interrupt);
    signal(SIGTERM, catch_interrupt);
    signal(SIGHUP, catch_interrupt);
}

/* Prints why a build failed and returns the exit code of the command. */
static int build_report_failure(struct request *request, int status, const struct pto_error *error)
{
    clear_progress(request);
    if (status == PTO_ECANCELED && interrupted != 0) {
        terminal_printf(stderr, "pto build: interrupted; no file was written\n");
        return 128 + interrupted;
    }
    terminal_printf(stderr, "pto build: %s\n", error->text);
    return EXIT_FAILED;
}

/* Writes one program into the output folder. */
static int build_write_program(void *context, const char *name, const void *bytes, size_t size)
{
    struct request *request = context;
    char path[PATH_MAX];

    clear_progress(request);
    if (mkdir(request->output, 0777) != 0 && errno != EEXIST) {
        terminal_printf(stderr, "pto build: cannot make %s: %s\n", request->output,
                        strerror(errno));
        return EXIT_FAILED;
    }
    snprintf(path, sizeof(path), "%.4000s/%s", request->output, name);
    return write_artefact(path, bytes, size);
}

static int do_programs(struct request *request)
{
    uint64_t begin = os_now_ns();
    struct pto_error error = { .size = sizeof(error) };
    int status;

    if (request->source_count != 0 || request->config != NULL || request->signature_count != 0) {
        terminal_printf(stderr, "pto build: --programs takes no scene and no sources\n");
        return EXIT_USAGE;
    }
    if (request->output == NULL) {
        snprintf(request->default_output, sizeof(request->default_output), "cann-%.100s",
                 request->params.platform);
        request->output = request->default_output;
    }
    begin_build(request);
    status = cli_build_programs(&request->params, &request->dir, &request->flag,
                                build_write_program, request, &error);
    if (status < 0)
        return build_report_failure(request, status, &error);
    clear_progress(request);
    if (status == EXIT_OK)
        terminal_printf(stdout, "%s: 3 programs, %u compiled, %u from the store, %.0f ms\n",
                        request->output, request->compiled, request->reused,
                        (double)(os_now_ns() - begin) / 1e6);
    return status;
}

static int build_and_write(struct request *request)
{
    struct pto_build_params *params = &request->params;
    uint64_t begin = os_now_ns();
    struct pto_error error = { .size = sizeof(error) };
    void *bytes;
    size_t size;
    int code;
    int status;

    begin_build(request);
    status = pto_build(params, &bytes, &size, &error);
    if (status < 0)
        return build_report_failure(request, status, &error);
    clear_progress(request);
    code = write_artefact(request->output, bytes, size);
    free(bytes);
    if (code == EXIT_OK)
        terminal_printf(stdout, "%s: %u compiled, %u from the store, %zu bytes, %.0f ms\n",
                        request->output, request->compiled, request->reused, size,
                        (double)(os_now_ns() - begin) / 1e6);
    return code;
}

static int do_build(void *context, int count, char **operands)
{
    struct request *request = context;
    int code;

    set_params(request);
    if (request->is_programs && count == 0)
        return do_programs(request);
    code = count != 0 ? complete_scene(request, operands[0]) : complete_sources(request);
    if (code < 0)
        code = build_and_write(request);
    scene_plan_free(&request->plan);
    scene_close(request->scene);
    return code;
}

/* ---- options ---- */

static struct pto_source *add_source(struct request *request)
{
    return request->source_count < SOURCES_MAX ? &request->source[request->source_count++] : NULL;
}

/* Parses FILE or FILE:ENTRY. */
static int build_parse_orchestration(void *context, const struct cli_option *option, char *value,
                                     struct pto_error *error)
{
    struct request *request = context;
    struct pto_source *source = add_source(request);
    char *colon = strrchr(value, ':');

    if (source == NULL)
        return error_setf(error, PTO_EINVAL, "--%s '%.200s': too many sources", option->name,
                          value);
    if (colon != NULL && colon[1] != '\0' && strchr(colon, '/') == NULL) {
        *colon = '\0';
        request->entry = colon + 1;
    }
    *source = (struct pto_source){ .path = value, .kind = PTO_SOURCE_ORCHESTRATION };
    return PTO_OK;
}

/* Parses ID:aic|aiv:FILE. */
static int parse_kernel_option(void *context, const struct cli_option *option, char *value,
                               struct pto_error *error)
{
    char *core = strchr(value, ':');
    char *file = core != NULL ? strchr(core + 1, ':') : NULL;
    int type = -1;
    struct pto_source *source = NULL;
    char id_text[16], core_text[16];
    uint64_t id;

    snprintf(id_text, sizeof(id_text), "%.*s", (int)strcspn(value, ":"), value);
    if (file != NULL) {
        snprintf(core_text, sizeof(core_text), "%.*s", (int)(file - core - 1), core + 1);
        type = scene_find_name(pto_core_name, PTO_CORE_TYPES, core_text);
    }
    if (type >= 0 && file[1] != '\0' && cli_parse_number(id_text, 0, 1023, &id))
        source = add_source(context);
    if (source == NULL)
        return error_setf(error, PTO_EINVAL,
                          "--%s must be ID:aic:FILE or ID:aiv:FILE, with an ID up to 1023, not "
                          "'%.200s'",
                          option->name, value);
    *source = (struct pto_source){ .path = file + 1,
                                   .kind = PTO_SOURCE_KERNEL,
                                   .func_id = (uint32_t)id,
                                   .core = (enum pto_core_type)type };
    return PTO_OK;
}

static int parse_signature(void *context, const struct cli_option *option, char *value,
                           struct pto_error *error)
{
    struct request *request = context;
    uint32_t count = 0;

    for (const char *at = value; *at != '\0';) {
        size_t length = strcspn(at, ",");
        uint32_t k = 0;

        while (k < PTO_DIR_COUNT && (strlen(pto_direction_name(k)) != length ||
                                     memcmp(pto_direction_name(k), at, length) != 0))
            k++;
        if (k == PTO_DIR_COUNT || count == SIGNATURE_MAX)
            return error_setf(error, PTO_EINVAL,
                              "--%s must be a list of in, out, inout and scalar, with commas, "
                              "at most %d, not '%.200s'",
                              option->name, SIGNATURE_MAX, value);
        request->signature[count++] = (enum pto_direction)k;
        at += length + (at[length] == ',');
    }
    request->signature_count = count;
    return PTO_OK;
}

static void set_params(struct request *request)
{
    struct pto_build_params *params = &request->params;

    pto_build_params_init(params);
    params->platform = request->platform;
    params->mode = request->mode;
    params->name = request->name;
    params->config = request->config;
    params->entry = request->entry;
    params->isa = request->isa;
    params->isa_pin = request->isa_pin;
    params->isa_overlay = request->isa_overlay;
    params->store = request->store;
    params->jobs = request->jobs;
    params->is_forced = request->is_forced;
    params->has_accesses = request->has_accesses;
    params->is_explained = request->is_explained || request->is_verbose;
    params->signature = request->signature_count != 0 ? request->signature : NULL;
    params->signature_count = request->signature_count;
    params->sources = request->source;
    params->source_count = request->source_count;
}

static const char *find_orchestration(const struct request *request)
{
    for (uint32_t i = 0; i < request->source_count; i++)
        if (request->source[i].kind == PTO_SOURCE_ORCHESTRATION)
            return request->source[i].path;
    return NULL;
}

static int complete_sources(struct request *request)
{
    struct pto_build_params *params = &request->params;
    const char *path = find_orchestration(request);

    if (path == NULL) {
        terminal_printf(stderr, "pto build: name a scene or give an --orchestration\n");
        cli_print_usage(stderr, &cmd_build);
        return EXIT_USAGE;
    }
    for (uint32_t i = 0; i < request->source_count; i++) {
        request->source[i].include_dirs = request->dir.text;
        request->source[i].include_dir_count = request->dir.count;
        request->source[i].flags = request->flag.text;
        request->source[i].flag_count = request->flag.count;
    }
    if (params->name == NULL) {
        const char *slash = strrchr(path, '/');
        const char *name = slash != NULL ? slash + 1 : path;

        snprintf(request->default_name, sizeof(request->default_name), "%.*s",
                 (int)strcspn(name, "."), name);
        params->name = request->default_name;
    }
    set_output(request);
    return -1;
}

/* Loads the scene and rejects options that a scene defines itself. */
static int complete_scene(struct request *request, const char *name)
{
    struct pto_build_params *params = &request->params;
    char folder[PATH_MAX];
    struct pto_error error = { .size = sizeof(error) };

    if (request->source_count != 0 || request->config != NULL || request->signature_count != 0 ||
        request->dir.count != 0 || request->is_programs) {
        terminal_printf(stderr,
                        "pto build: a scene names its sources, signature, configuration and "
                        "folders itself; change its scene.yaml, or kernel_config.py\n");
        return EXIT_USAGE;
    }
    if (scene_find_one(name, folder, &error) < 0) {
        terminal_printf(stderr, "pto build: %s\n", error.text);
        return EXIT_USAGE;
    }
    if (scene_open(folder, &request->scene, &error) < 0) {
        terminal_printf(stderr, "pto build: %s\n", error.text);
        return EXIT_FAILED;
    }
    if (scene_is_level(request->scene)) {
        terminal_printf(stderr,
                        "pto build: %s is a level-3 scene with several callables; build one of "
                        "them with --orchestration and --kernel\n",
                        request->scene->name);
        return EXIT_FAILED;
    }
    if (scene_plan(request->scene, request->flag.text, request->flag.count, params,
                   &request->plan) < 0) {
        terminal_printf(stderr, "pto build: out of memory\n");
        return EXIT_FAILED;
    }
    params->name = request->name != NULL ? request->name : params->name;
    params->isa = request->isa != NULL ? request->isa : params->isa;
    params->isa_pin = request->isa_pin != NULL ? request->isa_pin : params->isa_pin;
    set_output(request);
    return -1;
}

static void set_output(struct request *request)
{
    if (request->output != NULL)
        return;
    snprintf(request->default_output, sizeof(request->default_output), "%.250s.ptoc",
             request->params.name);
    request->output = request->default_output;
}

/* ---- output ---- */

/* Prints the progress line, on a terminal only. */
static void show_progress(struct request *request, const struct pto_build_event *event,
                          const char *what)
{
    char left[SCENE_LEFT_MAX];

    if (!isatty(STDERR_FILENO))
        return;
    fputs(TERMINAL_CLEAR, stderr);
    terminal_printf(stderr, "[%u/%u%s] %s %.60s", event->done, event->total,
                    scene_build_left(event, left), what, event->source);
    fflush(stderr);
    request->has_line = true;
}

static void clear_progress(struct request *request)
{
    if (request->has_line)
        fputs(TERMINAL_CLEAR, stderr);
    request->has_line = false;
}

static void explain_source(struct request *request, const char *what,
                           const struct pto_build_event *event)
{
    if (!request->is_explained && !request->is_verbose)
        return;
    clear_progress(request);
    terminal_printf(stdout, "%-9s %s%s%s\n", what, event->source, event->text != NULL ? ": " : "",
                    event->text != NULL ? event->text : "");
    fflush(stdout);
}

/* Prints the compiler's output unchanged, under the name of the source file. */
static void build_show_output(struct request *request, const struct pto_build_event *event)
{
    size_t length = strlen(event->text);

    clear_progress(request);
    fputs(terminal_code(stderr, TERMINAL_BOLD), stderr);
    terminal_print(stderr, event->source, true);
    fprintf(stderr, ":%s\n", terminal_code(stderr, TERMINAL_PLAIN));
    terminal_printf(stderr, "%s%s", event->text,
                    length != 0 && event->text[length - 1] == '\n' ? "" : "\n");
}

static void show_event(void *context, const struct pto_build_event *event)
{
    struct request *request = context;

    switch (event->kind) {
    case PTO_BUILD_COMPILER:
        if (request->is_verbose)
            printf("%s\n", event->text);
        break;
    case PTO_BUILD_COMPILING:
        explain_source(request, "compiled", event);
        show_progress(request, event, "compiling");
        break;
    case PTO_BUILD_COMPILED:
        request->compiled++;
        show_progress(request, event, "compiled");
        break;
    case PTO_BUILD_REUSED:
        request->reused++;
        explain_source(request, "unchanged", event);
        break;
    case PTO_BUILD_OUTPUT:
        build_show_output(request, event);
        break;
    case PTO_BUILD_WARNING:
        if (request->is_verbose)
            build_show_output(request, event);
        break;
    case PTO_BUILD_NOTE:
        clear_progress(request);
        terminal_printf(stderr, "pto build: %s\n", event->text);
        break;
    case PTO_BUILD_COMMAND:
        if (request->is_verbose)
            build_show_output(request, event);
        break;
    }
}

static bool is_interrupted(void *context)
{
    (void)context;
    return interrupted != 0;
}

static void catch_interrupt(int number)
{
    interrupted = number;
}

/* Returns whether `path` is a regular file of this user that no other user can write. */
static bool is_own(const char *path)
{
    struct stat about;

    return lstat(path, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
           (about.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static bool build_is_written(const char *path, const void *bytes, size_t size)
{
    char *old = NULL;
    size_t old_size = 0;
    bool is_same = is_own(path) && file_read(path, size, &old, &old_size) == PTO_OK &&
                   old_size == size && memcmp(old, bytes, size) == 0;

    free(old);
    return is_same;
}

/* Replaces the artefact atomically, unless the file already has the same bytes. */
static int write_artefact(const char *path, const void *bytes, size_t size)
{
    struct pto_error error = { .size = sizeof(error) };

    if (build_is_written(path, bytes, size) || pto_file_write(path, bytes, size, &error) == PTO_OK)
        return EXIT_OK;
    terminal_printf(stderr, "pto build: %s\n", error.text);
    return EXIT_FAILED;
}
