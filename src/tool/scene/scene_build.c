/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the sources of a scene through the store of artefacts, and loads host functions from
 * memory.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/scene/scene_build.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "pto/build.h"
#include "tool/scene/scene_config.h"
#include "tool/scene/terminal.h"

struct scene_code {
    int file;
    void *object;
    void *function;
};

/* A request to load a function of a source into this process. */
struct code_request {
    const struct scene *scene;
    const struct scene_source *source;
    const char *symbol;
    const char *hint; /* message that is printed if the source does not define the function */
    const char *what;
    const char *flag; /* linker flag; NULL: none */
};

static void show_text(const char *before, const char *text)
{
    fputs(before, stderr);
    terminal_print(stderr, text, false);
}

/*
 * Returns whether this note was not printed before. Every build opens the store and may report the
 * same problem, which is printed once. The printed texts are kept until the process ends.
 */
static bool is_new_note(const char *text)
{
    enum { NOTES_MAX = 16 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char *known[NOTES_MAX];
    static uint32_t count;
    bool is_new = true;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++)
        is_new &= strcmp(known[i], text) != 0;
    if (is_new && count < NOTES_MAX && (known[count] = strdup(text)) != NULL)
        count++;
    pthread_mutex_unlock(&lock);
    return is_new;
}

const char *scene_build_left(const struct pto_build_event *event, char text[SCENE_LEFT_MAX])
{
    uint64_t seconds = (event->left_ns + 999999999) / 1000000000;

    text[0] = '\0';
    if (seconds >= 120)
        snprintf(text, SCENE_LEFT_MAX, ", about %u min left", (unsigned)((seconds + 59) / 60));
    else if (seconds != 0)
        snprintf(text, SCENE_LEFT_MAX, ", about %u s left", (unsigned)seconds);
    return text;
}

static void show_build_event(void *context, const struct pto_build_event *event)
{
    char left[SCENE_LEFT_MAX];
    const struct scene_build_options *options = context;
    bool is_line = options->is_terminal && !options->is_verbose;

    if (event->kind == PTO_BUILD_NOTE && !is_new_note(event->text))
        return;
    if (is_line && (event->kind == PTO_BUILD_COMPILING || event->kind == PTO_BUILD_COMPILED))
        fprintf(stderr, TERMINAL_CLEAR "compiling %u/%u%s  %s", event->done, event->total,
                scene_build_left(event, left), event->source != NULL ? event->source : "");
    else if (event->kind == PTO_BUILD_OUTPUT)
        show_text(is_line ? TERMINAL_CLEAR : "", event->text);
    else if ((options->is_verbose || event->kind == PTO_BUILD_NOTE) && event->text != NULL) {
        size_t length = strlen(event->text);

        terminal_print(stderr, event->source, true);
        show_text(event->source != NULL ? ": " : "", event->text);
        fputs(length != 0 && event->text[length - 1] == '\n' ? "" : "\n", stderr);
    }
    fflush(stderr);
}

/*
 * Number of the signal that interrupted a build, or 0. Compilers run in their own process groups
 * and use a temporary folder, so the build first ends them and removes the folder; then this
 * process raises the signal again.
 */
static volatile sig_atomic_t interrupted;

struct watch {
    struct sigaction old[2];
};

static const int watched[] = { SIGINT, SIGTERM };

static void scene_build_note_signal(int number)
{
    interrupted = number;
}

static void begin_watch(struct watch *watch)
{
    struct sigaction action = { .sa_handler = scene_build_note_signal, .sa_flags = SA_RESTART };

    for (int i = 0; i < 2; i++) {
        (void)sigaction(watched[i], NULL, &watch->old[i]);
        if (watch->old[i].sa_handler != SIG_IGN)
            (void)sigaction(watched[i], &action, NULL);
    }
}

static void end_watch(const struct watch *watch)
{
    for (int i = 0; i < 2; i++)
        (void)sigaction(watched[i], &watch->old[i], NULL);
    if (interrupted != 0)
        (void)raise(interrupted);
}

static bool stop_build(void *context)
{
    const struct scene_build_options *options = context;

    return interrupted != 0 || (options->stop != NULL && options->stop(NULL));
}

static void start_params(struct pto_build_params *params, const char *platform,
                         const struct scene_build_options *options)
{
    pto_build_params_init(params);
    params->platform = platform;
    params->event = show_build_event;
    params->stop = stop_build;
    params->has_accesses = options->has_accesses;
    params->isa_overlay = options->isa_overlay;
    params->context = (void *)(uintptr_t)options;
}

static void end_progress(const struct scene_build_options *options)
{
    if (options->is_terminal && !options->is_verbose)
        fprintf(stderr, TERMINAL_CLEAR);
}

/* Makes a source with the scene's flags, followed by those of the command line. */
static struct pto_source make_source(const struct scene_source *source, enum pto_source_kind kind,
                                     const struct scene_build_options *options, const char **flags)
{
    struct pto_source made = {
        .path = source->path,
        .kind = kind,
        .include_dirs = source->include.text,
        .include_dir_count = source->include.count,
        .flags = flags,
    };

    for (uint32_t i = 0; i < source->flags.count; i++)
        flags[made.flag_count++] = source->flags.text[i];
    for (uint32_t i = 0; i < options->flag_count; i++)
        flags[made.flag_count++] = options->flags[i];
    return made;
}

static int load_built(const struct scene *scene, const void *bytes, size_t size,
                      struct pto_callable **callable_out, struct pto_error *error)
{
    struct pto_load_options options;

    pto_load_options_init(&options);
    options.name = scene->name;
    return pto_callable_load_memory(bytes, size, &options, callable_out, error);
}

/* Returns the arguments, one per line, as pto_build_params expects them; NULL: out of memory. */
static char *list_arguments(const struct scene *scene)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    if (to == NULL)
        return NULL;
    for (uint32_t i = 0; i < scene->argument_count; i++) {
        const struct scene_argument *argument = &scene->argument[i];

        fprintf(to, "%s %s [", argument->name, pto_dtype_text(argument->dtype));
        for (uint32_t d = 0; d < argument->ndims; d++) {
            const struct scene_product *size_of = &argument->shape[d];

            for (uint32_t f = 0; f < size_of->count; f++) {
                fputs(f != 0 ? "*" : d != 0 ? "," : "", to);
                if (size_of->factor[f].param != NULL)
                    fputs(size_of->factor[f].param, to);
                else
                    fprintf(to, "%lld", (long long)size_of->factor[f].value);
            }
        }
        fputs("]\n", to);
    }
    for (uint32_t i = 0; i < scene->scalar_count; i++) {
        const struct scene_scalar *scalar = &scene->scalar[i];

        fprintf(to, "%s %s%s%u\n", scalar->name,
                scalar->type != SCENE_INTEGER || scalar->is_signed ? "" : "u",
                scalar->type == SCENE_INTEGER ? "int" : "float",
                scalar->type == SCENE_FLOAT32   ? 32
                : scalar->type == SCENE_FLOAT64 ? 64
                                                : 8 * scalar->bytes);
    }
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}

int scene_plan(const struct scene *scene, const char *const *flags, uint32_t flag_count,
               struct pto_build_params *params, struct scene_plan *plan)
{
    const struct scene_build_options options = { .flags = flags, .flag_count = flag_count };
    uint32_t kernels = scene->kernel_count, flags_max = SCENE_FLAGS_MAX + flag_count;

    params->signature_count = 0;
    for (uint32_t i = 0; i < scene->argument_count; i++)
        plan->signature[params->signature_count++] = scene->argument[i].direction;
    for (uint32_t i = 0; i < scene->scalar_count; i++)
        plan->signature[params->signature_count++] = PTO_DIR_SCALAR;
    params->signature = plan->signature;
    params->name = scene->name;
    params->entry = scene->entry;
    params->config = scene->config;
    params->isa = scene->isa;
    params->isa_pin = scene->isa_pin;
    plan->sources = calloc(kernels + 1, sizeof(*plan->sources));
    plan->flags = calloc((size_t)(kernels + 1) * flags_max, sizeof(*plan->flags));
    plan->arguments = list_arguments(scene);
    params->arguments = scene->is_untyped ? NULL : plan->arguments;
    if (scene->is_config)
        params->mode = scene_config_mode(scene);
    if (plan->sources == NULL || plan->flags == NULL || plan->arguments == NULL) {
        scene_plan_free(plan);
        return PTO_ENOMEM;
    }
    for (uint32_t i = 0; i < kernels; i++) {
        plan->sources[i] = make_source(&scene->kernel[i].source, PTO_SOURCE_KERNEL, &options,
                                       plan->flags + (size_t)i * flags_max);
        plan->sources[i].func_id = scene->kernel[i].id;
        plan->sources[i].core = scene->kernel[i].core;
        plan->sources[i].name = scene->kernel[i].name;
    }
    plan->sources[kernels] = make_source(&scene->orchestration, PTO_SOURCE_ORCHESTRATION, &options,
                                         plan->flags + (size_t)kernels * flags_max);
    params->sources = plan->sources;
    params->source_count = kernels + 1;
    return PTO_OK;
}

void scene_plan_free(struct scene_plan *plan)
{
    free(plan->sources);
    free(plan->flags);
    free(plan->arguments);
    plan->arguments = NULL;
    plan->sources = NULL;
    plan->flags = NULL;
}

bool scene_differs_by_mode(const struct scene *scene, const char *platform)
{
    const struct pto_platform *on = pto_platform_find(platform);
    const char *dot =
        scene->orchestration.path != NULL ? strrchr(scene->orchestration.path, '.') : NULL;

    return dot != NULL && (strcmp(dot, ".c") != 0 || (on != NULL && !on->is_simulated));
}

int scene_build_bytes(const struct scene *scene, const char *platform, enum pto_mode mode,
                      const struct scene_build_options *options, void **bytes_out, size_t *size_out,
                      struct pto_error *error)
{
    struct pto_build_params params;
    struct scene_plan plan;
    struct watch watch;
    int status;

    start_params(&params, platform, options);
    params.mode = mode;
    if (scene_plan(scene, options->flags, options->flag_count, &params, &plan) < 0)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    begin_watch(&watch);
    status = pto_build(&params, bytes_out, size_out, error);
    end_progress(options);
    end_watch(&watch);
    scene_plan_free(&plan);
    return status;
}

int scene_build(const struct scene *scene, const char *platform, enum pto_mode mode,
                const struct scene_build_options *options, struct pto_callable **callable_out,
                struct pto_error *error)
{
    void *bytes = NULL;
    size_t size = 0;
    int status = scene_build_bytes(scene, platform, mode, options, &bytes, &size, error);

    if (status == PTO_OK)
        status = load_built(scene, bytes, size, callable_out, error);
    free(bytes);
    return status;
}

/* Compiles one source for this machine, with one more flag unless it is NULL. */
static int compile_one(const struct scene_source *from, const struct scene_build_options *options,
                       const char *flag, void **bytes_out, size_t *size_out,
                       struct pto_error *error)
{
    const char **flags = calloc(SCENE_FLAGS_MAX + options->flag_count + 1, sizeof(*flags));
    struct pto_build_params params;
    struct pto_source source;
    struct watch watch;
    int status;

    if (flags == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    source = make_source(from, PTO_SOURCE_HOST, options, flags);
    if (flag != NULL)
        flags[source.flag_count++] = flag;
    start_params(&params, pto_platform_at(0)->name,
                 options); /* every simulated platform compiles for this machine */
    begin_watch(&watch);
    status = pto_compile(&params, &source, bytes_out, size_out, error);
    end_progress(options);
    end_watch(&watch);
    free(flags);
    return status;
}

int scene_build_object(const struct scene_source *source, const struct scene_build_options *options,
                       void **bytes_out, size_t *size_out, struct pto_error *error)
{
    return compile_one(source, options, NULL, bytes_out, size_out, error);
}

int scene_build_costs(const struct scene *scene, const struct scene_kernel *kernel,
                      const char *platform, const struct scene_build_options *options,
                      void **bytes_out, size_t *size_out, struct pto_error *error)
{
    static const char *const more[] = { "-w", "-DPTO_COST_BUILD", "-include", "pto/cost_entry.h" };
    const char **flags = calloc(
        SCENE_FLAGS_MAX + options->flag_count + sizeof(more) / sizeof(more[0]), sizeof(*flags));
    struct pto_build_params params;
    struct pto_source source;
    struct watch watch;
    int status;

    if (flags == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    source = make_source(&kernel->source, PTO_SOURCE_KERNEL, options, flags);
    source.func_id = kernel->id;
    source.core = kernel->core;
    source.name = kernel->name;
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
        flags[source.flag_count++] = more[i];
    start_params(&params, platform, options);
    params.has_accesses = false;
    params.isa = scene->isa;
    params.isa_pin = scene->isa_pin;
    begin_watch(&watch);
    status = pto_compile(&params, &source, bytes_out, size_out, error);
    end_progress(options);
    end_watch(&watch);
    free(flags);
    return status;
}

/* ---- functions loaded into this process ---- */

/*
 * Loads an object from memory. Its file descriptor stays open as long as the object is loaded, so
 * that no other file gets the same path in /proc.
 */
static int scene_build_load_code(struct scene_code *code, const void *bytes, size_t size,
                                 const struct code_request *r, struct pto_error *error)
{
    /* path in /proc with the process id instead of `self`, so that debuggers can open it */
    char path[64];

    code->file = memfd_create(r->scene->name, MFD_CLOEXEC);
    if (code->file < 0 || !file_put(code->file, bytes, size))
        return error_setf(error, PTO_ESYSTEM, "%s cannot be loaded: %s", r->what, strerror(errno));
    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)getpid(), code->file);
    code->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (code->object == NULL)
        return error_setf(error, PTO_ELOAD, "%.1000s: %s", r->source->path, dlerror());
    code->function = dlsym(code->object, r->symbol);
    if (code->function == NULL)
        return error_setf(error, PTO_ELOAD,
                          "%.1000s has no function %s; include <%s> and write one", r->source->path,
                          r->symbol, r->hint);
    return PTO_OK;
}

static int open_code(const struct code_request *r, const struct scene_build_options *options,
                     struct scene_code **code_out, struct pto_error *error)
{
    struct scene_code *code = calloc(1, sizeof(*code));
    void *bytes = NULL;
    size_t size;
    int status;

    if (code == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    code->file = -1;
    status = compile_one(r->source, options, r->flag, &bytes, &size, error);
    if (status == PTO_OK)
        status = scene_build_load_code(code, bytes, size, r, error);
    free(bytes);
    if (status < 0) {
        scene_code_close(code);
        return status;
    }
    *code_out = code;
    return PTO_OK;
}

int scene_golden_open(const struct scene *scene, const struct scene_build_options *options,
                      struct scene_code **golden_out, struct pto_error *error)
{
    const struct scene_build_options plain = { .is_verbose = options->is_verbose,
                                               .is_terminal = options->is_terminal,
                                               .stop = options->stop };
    const struct code_request request = { scene,         &scene->golden, "pto_scene_golden",
                                          "pto/scene.h", "the golden",   "-lm" };

    return open_code(&request, &plain, golden_out, error);
}

/* Opens an orchestration of level 3, which calls the library that this process has loaded. */
int scene_orchestration_open(const struct scene *scene, const struct scene_build_options *options,
                             struct scene_code **orchestration_out, struct pto_error *error)
{
    const struct code_request request = {
        scene,         &scene->orchestration, scene->entry != NULL ? scene->entry : "orchestrate",
        "pto/level.h", "the orchestration",   "-Wl,-z,undefs"
    };

    return open_code(&request, options, orchestration_out, error);
}

void scene_code_close(struct scene_code *code)
{
    if (code == NULL)
        return;
    if (code->object != NULL)
        dlclose(code->object);
    if (code->file >= 0)
        close(code->file);
    free(code);
}

scene_golden_fn scene_golden_function(const struct scene_code *golden)
{
    return golden != NULL ? (scene_golden_fn)(uintptr_t)golden->function : NULL;
}

pto_level_entry_fn scene_orchestration_function(const struct scene_code *orchestration)
{
    return orchestration != NULL ? (pto_level_entry_fn)(uintptr_t)orchestration->function : NULL;
}
