/* SPDX-License-Identifier: Apache-2.0 */
/* `pto build`: compiles kernels and an orchestration and packs them into one file. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scene/names.h"
#include "scene/bytes.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "scene/scene_build.h"
#include "scene/scene_find.h"
#include "scene/terminal.h"
#include "pto/build.h"

enum { SOURCES_MAX = 1025, WORDS_MAX = 256, SIGNATURE_MAX = 256 };

enum {
    KEY_PLATFORM = 256,
    KEY_MODE,
    KEY_NAME,
    KEY_ORCHESTRATION,
    KEY_CONFIG,
    KEY_KERNEL,
    KEY_SIGNATURE,
    KEY_ISA,
    KEY_ISA_PIN,
    KEY_FLAG,
    KEY_STORE,
    KEY_JOBS,
    KEY_FORCE,
    KEY_EXPLAIN,
    KEY_VERBOSE
};

static const struct option options[] = {
    { "platform", required_argument, NULL, KEY_PLATFORM },
    { "mode", required_argument, NULL, KEY_MODE },
    { "name", required_argument, NULL, KEY_NAME },
    { "orchestration", required_argument, NULL, KEY_ORCHESTRATION },
    { "config", required_argument, NULL, KEY_CONFIG },
    { "kernel", required_argument, NULL, KEY_KERNEL },
    { "signature", required_argument, NULL, KEY_SIGNATURE },
    { "isa", required_argument, NULL, KEY_ISA },
    { "isa-pin", required_argument, NULL, KEY_ISA_PIN },
    { "flag", required_argument, NULL, KEY_FLAG },
    { "store", required_argument, NULL, KEY_STORE },
    { "jobs", required_argument, NULL, KEY_JOBS },
    { "force", no_argument, NULL, KEY_FORCE },
    { "explain", no_argument, NULL, KEY_EXPLAIN },
    { "verbose", no_argument, NULL, KEY_VERBOSE },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

struct request {
    struct pto_build_params params;
    struct scene *scene; /* NULL: the options name the sources */
    struct scene_plan plan;
    struct pto_source source[SOURCES_MAX];
    const char *dir[WORDS_MAX];
    uint32_t dir_count;
    const char *flag[WORDS_MAX];
    uint32_t flag_count;
    enum pto_direction signature[SIGNATURE_MAX];
    const char *output;
    char name[256];
    char default_output[300];
    bool is_explained;
    bool is_verbose;
    uint32_t compiled;
    uint32_t reused;
    bool has_line; /* the progress line is on the terminal */
};

static volatile sig_atomic_t interrupted;

static int parse(int argc, char **argv, struct request *request);
static int parse_option(struct request *request, int key, char *value);
static int complete(struct request *request);
static int complete_scene(struct request *request, const char *name);
static void set_output(struct request *request);
static void show_event(void *context, const struct pto_build_event *event);
static bool is_interrupted(void *context);
static void catch_interrupt(int number);
static int write_artefact(const char *path, const void *bytes, size_t size);

static double now_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void print_usage(FILE *to)
{
    char names[NAMES_TEXT_MAX];

    fprintf(
        to,
        "usage: pto build SCENE [OPTION...]\n"
        "       pto build --orchestration FILE[:ENTRY] [--kernel ID:aic|aiv:FILE]... "
        "[OPTION...]\n\n"
        "Compiles kernels and an orchestration, those of a scene or those that are named, and\n"
        "packs them into one file, a callable. What was compiled before from the same files is\n"
        "taken from the store.\n\n"
        "  --platform P            %s (default: %s)\n"
        "  --mode M                stream (default) or host: how it is run if nobody says "
        "otherwise\n"
        "  --name N                of the callable (default: the orchestration's file)\n"
        "  --orchestration F[:E]   its file, and the function (default: orchestrate)\n"
        "  --config C              name of the orchestration's configuration\n"
        "  --kernel ID:CORE:FILE   a kernel: the number that submits name it by, aic or aiv, its "
        "file\n"
        "  --signature D,D,...     of the entry's tensors: in, out, inout; scalar for scalars\n"
        "  -I DIR                  a folder with headers, for all sources\n"
        "  --flag F                a flag for the compiler, for all sources\n"
        "  --isa DIR               the tile library (default: PTO_ISA_ROOT, or ~/.config/pto/isa)\n"
        "  --isa-pin PIN           what it must be: a git revision, or sha256:... of its headers\n"
        "  -o FILE                 (default: NAME.ptoc)\n"
        "  --store DIR             (default: PTO_STORE, or pto in the user's cache folder)\n"
        "  --jobs N                compilers at a time (default: one per CPU)\n"
        "  --force                 compile everything\n"
        "  --explain               say for each file why it was or was not compiled\n"
        "  --verbose               that, the compilers that are used, and all warnings\n",
        names_platforms(false, "or", names), pto_platform_at(0)->name);
}

int cmd_build(int argc, char **argv)
{
    static struct request request; /* too large for a stack to be proud of */
    struct pto_build_params *params = &request.params;
    double begin = now_seconds();
    struct pto_error error = { .size = sizeof(error) };
    void *bytes;
    size_t size;
    int code = parse(argc, argv, &request);
    int status;

    if (code >= 0)
        return code;
    params->event = show_event;
    params->stop = is_interrupted;
    params->context = &request;
    signal(SIGINT, catch_interrupt);
    signal(SIGTERM, catch_interrupt);
    signal(SIGHUP, catch_interrupt);
    status = pto_build(params, &bytes, &size, &error);
    if (request.has_line)
        fputs(TERMINAL_CLEAR, stderr);
    if (status == PTO_ECANCELED && interrupted != 0) {
        fprintf(stderr, "pto build: interrupted; nothing was written\n");
        return 128 + interrupted;
    }
    if (status < 0) {
        fprintf(stderr, "pto build: %s\n", error.text);
        return EXIT_FAILED;
    }
    code = write_artefact(request.output, bytes, size);
    free(bytes);
    scene_plan_free(&request.plan);
    scene_close(request.scene);
    if (code == EXIT_OK)
        printf("%s: %u compiled, %u from the store, %zu bytes, %.0f ms\n", request.output,
               request.compiled, request.reused, size, (now_seconds() - begin) * 1e3);
    return code;
}

/* ---- options ---- */

static int refuse(const char *text, const char *value)
{
    fprintf(stderr, "pto build: %s, not '%s'; `pto build --help` lists the options\n", text, value);
    return EXIT_USAGE;
}

/* -1: go on, else the exit code. */
static int parse(int argc, char **argv, struct request *request)
{
    int key;

    pto_build_params_init(&request->params);
    opterr = 0;
    optind = 0; /* argv is not the one the program started with */
    while ((key = getopt_long(argc, argv, ":hI:o:", options, NULL)) != -1) {
        int code;

        if (key == 'h') {
            print_usage(stdout);
            return EXIT_OK;
        }
        if (key == '?' || key == ':')
            return options_refuse(argv, key);
        code = parse_option(request, key, optarg);
        if (code >= 0)
            return code;
    }
    if (optind + 1 < argc)
        return options_too_many(argv, argv[optind + 1]);
    request->params.is_explained = request->is_explained || request->is_verbose;
    return optind < argc ? complete_scene(request, argv[optind]) : complete(request);
}

static struct pto_source *add_source(struct request *request)
{
    struct pto_build_params *params = &request->params;

    if (params->source_count == SOURCES_MAX)
        return NULL;
    return &request->source[params->source_count++];
}

/* FILE or FILE:ENTRY. */
static int parse_orchestration(struct request *request, char *value)
{
    struct pto_source *source = add_source(request);
    char *colon = strrchr(value, ':');

    if (source == NULL)
        return refuse("there are too many sources", value);
    if (colon != NULL && colon[1] != '\0' && strchr(colon, '/') == NULL) {
        *colon = '\0';
        request->params.entry = colon + 1;
    }
    *source = (struct pto_source){ .path = value, .kind = PTO_SOURCE_ORCHESTRATION };
    return -1;
}

/* ID:aic|aiv:FILE. */
static int parse_kernel(struct request *request, char *value)
{
    static const char form[] = "--kernel wants ID:aic:FILE or ID:aiv:FILE, with an ID up to 1023";
    char *core = strchr(value, ':');
    char *file = core != NULL ? strchr(core + 1, ':') : NULL;
    char whole[64];
    struct pto_source *source;
    uint64_t id;
    bool is_right;

    snprintf(whole, sizeof(whole), "%s", value);
    if (file == NULL || file[1] == '\0')
        return refuse(form, whole);
    *core++ = '\0';
    *file++ = '\0';
    is_right = options_number(value, 0, 1023, &id) &&
               (strcmp(core, "aic") == 0 || strcmp(core, "aiv") == 0);
    source = is_right ? add_source(request) : NULL;
    if (source == NULL)
        return refuse(form, whole);
    *source = (struct pto_source){ .path = file,
                                   .kind = PTO_SOURCE_KERNEL,
                                   .func_id = (uint32_t)id,
                                   .core = core[2] == 'c' ? PTO_CORE_AIC : PTO_CORE_AIV };
    return -1;
}

static int parse_signature(struct request *request, const char *value)
{
    static const char *const names[] = { "scalar", "in", "out", "inout" };
    uint32_t count = 0;

    for (const char *at = value; *at != '\0';) {
        size_t length = strcspn(at, ",");
        uint32_t k = 0;

        while (k < 4 && (strlen(names[k]) != length || memcmp(names[k], at, length) != 0))
            k++;
        if (k == 4 || count == SIGNATURE_MAX)
            return refuse("--signature wants in, out, inout or scalar, with commas, up to 256",
                          value);
        request->signature[count++] = (enum pto_direction)k;
        at += length + (at[length] == ',');
    }
    request->params.signature = request->signature;
    request->params.signature_count = count;
    return -1;
}

static int add_word(const char **list, uint32_t *count, const char *word)
{
    if (*count == WORDS_MAX)
        return refuse("there are at most 256 of -I and of --flag", word);
    list[(*count)++] = word;
    return -1;
}

static int parse_flag(struct request *request, int key)
{
    if (key == KEY_FORCE)
        request->params.is_forced = true;
    else if (key == KEY_EXPLAIN)
        request->is_explained = true;
    else
        request->is_verbose = true;
    return -1;
}

static int parse_option(struct request *request, int key, char *value)
{
    struct pto_build_params *params = &request->params;
    uint64_t jobs;

    switch (key) {
    case KEY_PLATFORM:
        params->platform = value;
        return -1;
    case KEY_MODE:
        if (strcmp(value, "stream") != 0 && strcmp(value, "host") != 0)
            return refuse("--mode is stream or host", value);
        params->mode = value[0] == 's' ? PTO_MODE_STREAM : PTO_MODE_HOST;
        return -1;
    case KEY_NAME:
        params->name = value;
        return -1;
    case KEY_ORCHESTRATION:
        return parse_orchestration(request, value);
    case KEY_CONFIG:
        params->config = value;
        return -1;
    case KEY_KERNEL:
        return parse_kernel(request, value);
    case KEY_SIGNATURE:
        return parse_signature(request, value);
    case KEY_ISA:
        params->isa = value;
        return -1;
    case KEY_ISA_PIN:
        params->isa_pin = value;
        return -1;
    case KEY_FLAG:
        return add_word(request->flag, &request->flag_count, value);
    case 'I':
        return add_word(request->dir, &request->dir_count, value);
    case KEY_STORE:
        params->store = value;
        return -1;
    case KEY_JOBS:
        if (!options_number(value, 1, 256, &jobs))
            return refuse("--jobs wants a number from 1 to 256", value);
        params->jobs = (uint32_t)jobs;
        return -1;
    case 'o':
        request->output = value;
        return -1;
    default:
        return parse_flag(request, key);
    }
}

static const char *find_orchestration(const struct request *request)
{
    for (uint32_t i = 0; i < request->params.source_count; i++)
        if (request->source[i].kind == PTO_SOURCE_ORCHESTRATION)
            return request->source[i].path;
    return NULL;
}

static int complete(struct request *request)
{
    struct pto_build_params *params = &request->params;
    const char *path = find_orchestration(request);

    if (path == NULL) {
        fprintf(stderr, "pto build: there is no --orchestration\n");
        print_usage(stderr);
        return EXIT_USAGE;
    }
    for (uint32_t i = 0; i < params->source_count; i++) {
        request->source[i].include_dirs = request->dir;
        request->source[i].include_dir_count = request->dir_count;
        request->source[i].flags = request->flag;
        request->source[i].flag_count = request->flag_count;
    }
    if (params->name == NULL) {
        const char *slash = strrchr(path, '/');
        const char *name = slash != NULL ? slash + 1 : path;

        snprintf(request->name, sizeof(request->name), "%.*s", (int)strcspn(name, "."), name);
        params->name = request->name;
    }
    params->sources = request->source;
    set_output(request);
    return -1;
}

/* What a scene says itself is not said again. */
static int complete_scene(struct request *request, const char *name)
{
    struct pto_build_params *params = &request->params;
    const char *own_name = params->name, *isa = params->isa, *isa_pin = params->isa_pin;
    char folder[PATH_MAX];
    struct fault fault = { .status = 0 };

    if (params->source_count != 0 || params->config != NULL || params->signature != NULL ||
        request->dir_count != 0) {
        fprintf(stderr, "pto build: a scene names its sources, signature, configuration and "
                        "folders itself; change its scene.yaml\n");
        return EXIT_USAGE;
    }
    if (scene_find_one(name, folder, &fault) < 0) {
        fprintf(stderr, "pto build: %s\n", fault.text);
        return EXIT_USAGE;
    }
    if (scene_open(folder, &request->scene, &fault) < 0) {
        fprintf(stderr, "pto build: %s\n", fault.text);
        return EXIT_FAILED;
    }
    if (scene_plan(request->scene, request->flag, request->flag_count, params, &request->plan) <
        0) {
        fprintf(stderr, "pto build: there is no memory\n");
        return EXIT_FAILED;
    }
    params->name = own_name != NULL ? own_name : params->name;
    params->isa = isa != NULL ? isa : params->isa;
    params->isa_pin = isa_pin != NULL ? isa_pin : params->isa_pin;
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

/* ---- what people see ---- */

/* A line that is written again and again, on a terminal only. */
static void show_progress(struct request *request, const struct pto_build_event *event,
                          const char *what)
{
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, TERMINAL_CLEAR "[%u/%u] %s %.60s", event->done, event->total, what,
            event->source);
    fflush(stderr);
    request->has_line = true;
}

static void clear_progress(struct request *request)
{
    if (request->has_line)
        fputs(TERMINAL_CLEAR, stderr);
    request->has_line = false;
}

static void explain(struct request *request, const char *what, const struct pto_build_event *event)
{
    if (!request->is_explained && !request->is_verbose)
        return;
    clear_progress(request);
    printf("%-9s %s%s%s\n", what, event->source, event->text != NULL ? ": " : "",
           event->text != NULL ? event->text : "");
    fflush(stdout);
}

/* As the compiler wrote it, with the file that it belongs to before it. */
static void show_output(struct request *request, const struct pto_build_event *event)
{
    size_t length = strlen(event->text);

    clear_progress(request);
    fprintf(stderr, "%s%s:%s\n%s%s", terminal_code(stderr, TERMINAL_BOLD), event->source,
            terminal_code(stderr, TERMINAL_PLAIN), event->text,
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
        explain(request, "compiled", event);
        show_progress(request, event, "compiling");
        break;
    case PTO_BUILD_COMPILED:
        request->compiled++;
        show_progress(request, event, "compiled");
        break;
    case PTO_BUILD_REUSED:
        request->reused++;
        explain(request, "unchanged", event);
        break;
    case PTO_BUILD_OUTPUT:
        show_output(request, event);
        break;
    case PTO_BUILD_WARNING:
        if (request->is_verbose)
            show_output(request, event);
        break;
    case PTO_BUILD_NOTE:
        clear_progress(request);
        fprintf(stderr, "pto build: %s\n", event->text);
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

static bool is_written(const char *path, const void *bytes, size_t size)
{
    struct fault ignored = { .status = 0 };
    void *old = NULL;
    size_t old_size = 0;
    bool is_same = bytes_read(path, size, &old, &old_size, &ignored) == PTO_OK &&
                   old_size == size && memcmp(old, bytes, size) == 0;

    free(old);
    return is_same;
}

/* Whole or not at all; not at all, too, if it is there. */
static int write_artefact(const char *path, const void *bytes, size_t size)
{
    struct fault fault = { .status = 0 };

    if (is_written(path, bytes, size) || bytes_write(path, bytes, size, &fault) == PTO_OK)
        return EXIT_OK;
    fprintf(stderr, "pto build: %s\n", fault.text);
    return EXIT_FAILED;
}
