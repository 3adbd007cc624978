/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds an artefact: finds the tools, compiles the sources in several threads and packs the
 * objects. The artefact is stored as well, under the keys of all its objects, so that an unchanged
 * build only scans headers.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for dladdr */
#endif

#include "toolchain/build.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "artefact/artefact.h"
#include "base/atomic.h"
#include "base/error.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/os.h"
#include "base/sized.h"
#include "toolchain/link.h"
#include "toolchain/note.h"
#include "toolchain/overlay.h"
#include "toolchain/pack.h"
#include "toolchain/precompiled.h"
#include "toolchain/work.h"

enum {
    JOBS_MAX = 256,
    SOURCES_MAX = 1025,
    FUNC_IDS = 1024,
    SIGNATURE_MAX = 256,
    KERNEL_TEXT_MAX = 64 << 20
};

static int build_read_params(const struct pto_build_params *given, struct pto_build_params *params,
                             struct pto_error *error);
static bool has_lists(const struct pto_source *source);
static int build_check_sources(const struct pto_build_params *params, struct pto_error *error);
static int open_build(struct build *build, const struct pto_build_params *params,
                      const struct pto_source *sources, uint32_t count, struct pto_error *error);
static void close_build(struct build *build);
static int make_units(struct build *build, const struct pto_source *sources, uint32_t count,
                      struct unit **units_out, struct pto_error *error);
static void free_units(struct unit *units, uint32_t count);
static int scan_units(struct build *build, struct unit *units, uint32_t count,
                      struct pto_error *error);
static int compile_units(struct build *build, struct unit *units, uint32_t count,
                         struct pto_error *error);

/* Returns true if the store already has the artefact. */
static bool build_find_packed(struct build *build, const struct unit *units, uint32_t count,
                              const struct digest *key, void **bytes_out, size_t *size_out)
{
    struct store_entry entry;

    for (uint32_t i = 0; i < count; i++)
        if (units[i].obstacle != NULL)
            return false;
    if (build->params->is_explained || store_get(build->store, key, &entry) != PTO_OK)
        return false;
    *bytes_out = malloc(entry.size);
    *size_out = entry.size;
    if (*bytes_out != NULL)
        memcpy(*bytes_out, entry.bytes, entry.size);
    store_entry_free(&entry);
    for (uint32_t i = 0; *bytes_out != NULL && i < count; i++) {
        build->done++;
        build_notify(build, PTO_BUILD_REUSED, units[i].source->path, NULL);
    }
    return *bytes_out != NULL;
}

/*
 * Whether the source has a different kernel for cards than for simulated chips: it tests the macro
 * __CPU_SIM, and defines the entry twice or tests a condition inside of it.
 */
static bool has_other_body(const char *path)
{
    const char *at, *entry;
    bool is_so;
    char *text;
    size_t size;

    if (file_read(path, KERNEL_TEXT_MAX, &text, &size) < 0)
        return false;
    entry = strstr(text, "kernel_entry(");
    at = entry;
    is_so = entry != NULL && strstr(text, "__CPU_SIM") != NULL &&
            (strstr(at + 1, "kernel_entry(") != NULL || strstr(at, "\n#if") != NULL);
    free(text);
    return is_so;
}

/*
 * Refuses a kernel that is empty on simulated chips but not on cards: its runs would end with
 * status 0 and wrong results.
 */
static int refuse_empty(const struct build *build, const struct unit *unit, struct pto_error *error)
{
    size_t size;
    const void *bytes = unit_bytes(unit, &size);

    if (!build->platform->view.is_simulated || !note_is_empty(bytes, size, "kernel_entry") ||
        !has_other_body(unit->source->path))
        return PTO_OK;
    return error_setf(
        error, PTO_EBUILD,
        "%s: the body of its kernel_entry is empty in simulation (__CPU_SIM), so runs "
        "would succeed with wrong results; give it a body there, or build with "
        "another source for the kernel %u",
        unit->source->path, unit->source->func_id);
}

/*
 * Reports a source that does not define the expected function during the build; otherwise only
 * loading the artefact would fail.
 */
static int check_entries(const struct build *build, const struct unit *units, uint32_t count,
                         struct pto_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        bool is_kernel = units[i].source->kind == PTO_SOURCE_KERNEL;
        size_t size;
        const void *bytes = unit_bytes(&units[i], &size);
        const char *name = is_kernel ? "kernel_entry" : pack_entry(build->params, bytes, size);

        if (is_kernel && refuse_empty(build, &units[i], error) < 0)
            return PTO_EBUILD;
        if (!note_exports(bytes, size, name))
            return error_setf(error, PTO_EBUILD, "%s does not define the function %s%s%s",
                              units[i].source->path, name, is_kernel ? "(int64_t *args)" : "",
                              units[i].compiler->language == COMPILER_CXX
                                  ? "; in C++ it is to be extern \"C\""
                                  : ", or it is static");
    }
    return PTO_OK;
}

static int build_artefact(struct build *build, struct unit *units, uint32_t count, void **bytes_out,
                          size_t *size_out, struct pto_error *error)
{
    struct digest key;
    int status = scan_units(build, units, count, error);

    if (status < 0)
        return status;
    pack_key(build, units, count, &key);
    if (build_find_packed(build, units, count, &key, bytes_out, size_out))
        return PTO_OK;
    status = isa_check_pin(&build->isa, build->params->isa_pin, true, error);
    if (status == PTO_OK)
        status = compile_units(build, units, count, error);
    if (status == PTO_OK)
        status = check_entries(build, units, count, error);
    if (status < 0)
        return status;
    pack_key(build, units, count,
             /*
              * computes the key again, because the keys of units now include files that only the
              * compiler found
              */
             &key);
    status = pack_units(build, units, count, bytes_out, size_out, error);
    if (status == PTO_OK)
        (void)store_put(build->store, &key, *bytes_out, *size_out, "artefact\n", NULL);
    return status;
}

/* The units to build, one for each source of the parameters and each target. */
struct goal {
    const char *call;
    int (*check)(const struct pto_build_params *params, struct pto_error *error);
    int (*make)(struct build *build, struct unit *units, uint32_t count, void **bytes_out,
                size_t *size_out, struct pto_error *error);
};

static int build_reach(const struct goal *goal, const struct pto_build_params *given,
                       void **bytes_out, size_t *size_out, struct pto_error *error)
{
    struct pto_build_params params;
    struct build build;
    struct unit *units;
    int status = build_read_params(given, &params, error);

    if (status == PTO_OK && (bytes_out == NULL || size_out == NULL))
        status = error_setf(error, PTO_EINVAL, "%s: a pointer for the result is NULL", goal->call);
    if (status == PTO_OK)
        status = goal->check(&params, error);
    if (status == PTO_OK)
        status = open_build(&build, &params, params.sources, params.source_count, error);
    if (status < 0)
        return status;
    status = isa_check_pin(&build.isa, params.isa_pin, false, error);
    if (status == PTO_OK)
        status = make_units(&build, params.sources, params.source_count, &units, error);
    if (status == PTO_OK) {
        status = goal->make(&build, units, params.source_count, bytes_out, size_out, error);
        free_units(units, params.source_count);
    }
    close_build(&build);
    return status;
}

int pto_build(const struct pto_build_params *given, void **bytes_out, size_t *size_out,
              struct pto_error *error)
{
    static const struct goal artefact = { "pto_build", build_check_sources, build_artefact };

    return build_reach(&artefact, given, bytes_out, size_out, error);
}

int pto_compile(const struct pto_build_params *given, const struct pto_source *source,
                void **bytes_out, size_t *size_out, struct pto_error *error)
{
    struct pto_build_params params;
    struct build build;
    struct unit *unit;
    int status = build_read_params(given, &params, error);

    if (status == PTO_OK &&
        (source == NULL || source->path == NULL || bytes_out == NULL || size_out == NULL ||
         (uint32_t)source->kind > PTO_SOURCE_HOST ||
         (source->kind == PTO_SOURCE_KERNEL && (uint32_t)source->core >= PTO_CORE_TYPES) ||
         !has_lists(source)))
        status =
            error_setf(error, PTO_EINVAL,
                       "pto_compile: the source, its path, a flag, a folder or a pointer for the "
                       "result is NULL, or its kind or its core type is unknown");
    if (status == PTO_OK)
        status = open_build(&build, &params, source, 1, error);
    if (status < 0)
        return status;
    status = isa_check_pin(&build.isa, params.isa_pin, true, error);
    if (status == PTO_OK)
        status = make_units(&build, source, 1, &unit, error);
    if (status == PTO_OK) {
        status = scan_units(&build, unit, 1, error);
        if (status == PTO_OK)
            status = compile_units(&build, unit, 1, error);
        if (status == PTO_OK && source->kind == PTO_SOURCE_KERNEL)
            status = refuse_empty(&build, unit, error);
        if (status == PTO_OK) {
            const void *bytes = unit_bytes(unit, size_out);

            *bytes_out = malloc(*size_out);
            if (*bytes_out != NULL)
                memcpy(*bytes_out, bytes, *size_out);
            else
                status =
                    error_setf(error, PTO_ENOMEM, "no memory for the object of %s", source->path);
        }
        free_units(unit, 1);
    }
    close_build(&build);
    return status;
}

/* ---- programs ---- */

static int build_check_parts(const struct pto_build_params *params, struct pto_error *error)
{
    const struct platform *platform = platform_find(params->platform);

    if (platform->view.is_simulated)
        return error_setf(error, PTO_EINVAL,
                          "%s is a simulated platform; only a real chip needs a linked program",
                          params->platform);
    if (params->source_count == 0 || params->source_count > SOURCES_MAX || params->sources == NULL)
        return error_setf(error, PTO_EINVAL, "a program has 1 to %d parts, not %u", SOURCES_MAX,
                          params->source_count);
    for (uint32_t i = 0; i < params->source_count; i++) {
        const struct pto_source *source = &params->sources[i];

        if (source->path == NULL || !has_lists(source) || source->kind != PTO_SOURCE_PART ||
            (uint32_t)source->core > PTO_CORE_TYPES ||
            command_target(source, platform, params->mode) !=
                command_target(&params->sources[0], platform, params->mode))
            return error_setf(error, PTO_EINVAL,
                              "%s is for another processor than the first part of the program",
                              source->path != NULL ? source->path : "a source that has no path");
    }
    return PTO_OK;
}

static int build_program(struct build *build, struct unit *units, uint32_t count, void **bytes_out,
                         size_t *size_out, struct pto_error *error)
{
    int status = isa_check_pin(&build->isa, build->params->isa_pin, true, error);

    if (status == PTO_OK)
        status = scan_units(build, units, count, error);
    if (status == PTO_OK)
        status = compile_units(build, units, count, error);
    return status == PTO_OK ? link_units(build, units, count, bytes_out, size_out, error) : status;
}

int pto_build_program(const struct pto_build_params *given, void **bytes_out, size_t *size_out,
                      struct pto_error *error)
{
    static const struct goal program = { "pto_build_program", build_check_parts, build_program };

    return build_reach(&program, given, bytes_out, size_out, error);
}

/* ---- arguments ---- */

static int refuse_platform(const char *platform, struct pto_error *error)
{
    struct text known = { 0 };
    int status;

    for (uint32_t i = 0; pto_platform_at(i) != NULL; i++)
        text_format(&known, " %s", pto_platform_at(i)->name);
    status = error_setf(error, PTO_EINVAL, "there is no platform '%.100s'; there are:%s",
                        platform != NULL ? platform : "", known.bytes != NULL ? known.bytes : "");
    text_free(&known);
    return status;
}

static int build_read_params(const struct pto_build_params *given, struct pto_build_params *params,
                             struct pto_error *error)
{
    pto_build_params_init(params);
    if (!sized_is_valid(error) || sized_read(params, sizeof(*params), given) < 0)
        return error_setf(error, PTO_EINVAL,
                          "the parameters of a build are not initialised: use "
                          "pto_build_params_init");
    if (platform_find(params->platform) == NULL)
        return refuse_platform(params->platform, error);
    return PTO_OK;
}

static bool has_lists(const struct pto_source *source)
{
    if ((source->flag_count != 0 && source->flags == NULL) ||
        (source->include_dir_count != 0 && source->include_dirs == NULL))
        return false;
    for (uint32_t i = 0; i < source->flag_count; i++)
        if (source->flags[i] == NULL)
            return false;
    for (uint32_t i = 0; i < source->include_dir_count; i++)
        if (source->include_dirs[i] == NULL)
            return false;
    return true;
}

static int build_check_sources(const struct pto_build_params *params, struct pto_error *error)
{
    uint32_t orchestrations = 0;
    uint8_t is_used[FUNC_IDS] = { 0 };

    if (params->source_count == 0 || params->source_count > SOURCES_MAX || params->sources == NULL)
        return error_setf(error, PTO_EINVAL,
                          "a callable has one orchestration and up to %d kernels, not %u sources",
                          FUNC_IDS, params->source_count);
    if (params->signature_count > SIGNATURE_MAX ||
        (params->signature_count != 0 && params->signature == NULL))
        return error_setf(error, PTO_EINVAL, "a signature has at most %d entries, not %u",
                          SIGNATURE_MAX, params->signature_count);
    for (uint32_t i = 0; i < params->source_count; i++) {
        const struct pto_source *source = &params->sources[i];

        if (source->path == NULL)
            return error_setf(error, PTO_EINVAL, "source %u has no path", i);
        if (!has_lists(source))
            return error_setf(error, PTO_EINVAL, "%s: a flag or a folder of it is NULL",
                              source->path);
        if (source->kind == PTO_SOURCE_ORCHESTRATION) {
            orchestrations++;
            continue;
        }
        if (source->kind != PTO_SOURCE_KERNEL || (uint32_t)source->core >= PTO_CORE_TYPES)
            return error_setf(error, PTO_EINVAL,
                              "%s is neither an orchestration nor a kernel for aic or aiv",
                              source->path);
        if (source->func_id >= FUNC_IDS || is_used[source->func_id])
            return error_setf(
                error, PTO_EINVAL, "%s: the kernel id %u is %s", source->path, source->func_id,
                source->func_id < FUNC_IDS ? "taken by another kernel" : "above 1023");
        is_used[source->func_id] = 1;
    }
    if (orchestrations != 1)
        return error_setf(error, PTO_EINVAL, "a callable has one orchestration, not %u",
                          orchestrations);
    return PTO_OK;
}

/* ---- state that all compilations share ---- */

/*
 * Finds the folder with pto/kernel.h: next to the library if it is installed, above the library in
 * a build tree.
 */
static char *find_headers(void)
{
    static const char *const places[] = { "../include", "../../include", "../../../include" };
    char path[PATH_MAX];
    Dl_info info;
    char *slash;

    /*
     * A statically linked program has no such library, and the name under which it was started may
     * be relative.
     */
    if ((dladdr((const void *)(uintptr_t)pto_build, &info) == 0 || info.dli_fname == NULL ||
         realpath(info.dli_fname, path) == NULL) &&
        realpath("/proc/self/exe", path) == NULL)
        return NULL;
    slash = strrchr(path, '/');
    for (size_t i = 0; slash != NULL && i < sizeof(places) / sizeof(places[0]); i++) {
        char header[2 * PATH_MAX];
        char *folder;

        *slash = '\0';
        snprintf(header, sizeof(header), "%s/%s/pto/kernel.h", path, places[i]);
        if (access(header, R_OK) != 0)
            continue;
        snprintf(header, sizeof(header), "%s/%s", path, places[i]);
        folder = realpath(header, NULL);
        if (folder != NULL)
            return folder;
    }
    return NULL;
}

/*
 * Whether a source can include the tile library, which only kernels in C++ can. Only such a source
 * makes a wrong path of the library an error.
 */
static bool may_need_isa(const struct pto_build_params *params, const struct pto_source *sources,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strlen(sources[i].path);

        if (sources[i].kind == PTO_SOURCE_KERNEL &&
            (length < 2 || strcmp(sources[i].path + length - 2, ".c") != 0))
            return true;
    }
    return params->isa != NULL || params->isa_pin != NULL;
}

static int open_build(struct build *build, const struct pto_build_params *params,
                      const struct pto_source *sources, uint32_t count, struct pto_error *error)
{
    int status;

    *build = (struct build){ .params = params, .platform = platform_find(params->platform) };
    pthread_mutex_init(&build->lock, NULL);
    build->include_root = find_headers();
    compiler_environment(&build->env);
    compiler_variables(&build->variables);
    status = build->env.is_short || build->variables.is_short ? PTO_ENOMEM
                                                              : scan_memo_create(&build->memo);
    if (status < 0)
        error_setf(error, status, "no memory to build");
    if (status == PTO_OK)
        status = store_open(params->store, &build->store, error);
    if (status == PTO_OK && may_need_isa(params, sources, count))
        status = isa_find(params->isa, &build->isa, error);
    if (status == PTO_OK)
        status = overlay_read(params->isa_overlay, &build->has_isa_overlay, error);
    build->has_isa_overlay = build->has_isa_overlay && !params->has_accesses;
    if (status < 0)
        close_build(build);
    return status;
}

static void report_notes(struct build *build)
{
    char note[STORE_NOTE_MAX];

    while (build->store != NULL && store_take_note(build->store, note))
        build_notify(build, PTO_BUILD_NOTE, NULL, note);
}

static void close_build(struct build *build)
{
    report_notes(build);
    work_remove(build->work);
    free(build->work);
    for (int t = 0; t < COMPILER_TARGETS; t++)
        for (int l = 0; l < COMPILER_LANGUAGES; l++)
            compiler_free(&build->compilers[t][l]);
    isa_free(&build->isa);
    words_free(&build->overlay);
    free(build->include_root);
    words_free(&build->env);
    words_free(&build->variables);
    scan_memo_destroy(build->memo);
    precompiled_free(build);
    store_close(build->store);
    pthread_mutex_destroy(&build->lock);
}

void build_notify(struct build *build, enum pto_build_event_kind kind, const char *source,
                  const char *text)
{
    struct pto_build_event event = {
        .size = sizeof(event), .kind = kind, .source = source, .text = text
    };

    assert_not_held(&build->lock);
    if (build->params->event == NULL)
        return;
    pthread_mutex_lock(&build->lock);
    if (build->started_ns == 0 && kind == PTO_BUILD_COMPILING)
        build->started_ns = os_now_ns();
    build->compiled += kind == PTO_BUILD_COMPILED;
    event.done = build->done;
    event.total = build->total;
    if (build->compiled != 0)
        event.left_ns = (os_now_ns() - build->started_ns) / build->compiled *
                        (uint64_t)(build->total - build->done);
    build->params->event(build->params->context, &event);
    pthread_mutex_unlock(&build->lock);
}

bool build_is_stopped(void *context)
{
    struct build *build = context;
    bool is_stopped;

    if (build->params->stop == NULL)
        return false;
    pthread_mutex_lock(&build->lock);
    is_stopped = build->params->stop(build->params->context);
    pthread_mutex_unlock(&build->lock);
    return is_stopped;
}

int build_work_folder(struct build *build, uint32_t index, char **path_out, struct pto_error *error)
{
    int status = PTO_OK;

    pthread_mutex_lock(&build->lock);
    if (build->work == NULL)
        status = work_create(&build->work, error);
    pthread_mutex_unlock(&build->lock);
    if (status == PTO_OK)
        status = work_make_inner(build->work, index, path_out, error);
    return status;
}

/* ---- units ---- */

/* Returns the compiler for a source. It is searched and identified at its first use. */
static int find_compiler(struct build *build, const struct pto_source *source,
                         const struct compiler **compiler_out, struct pto_error *error)
{
    enum compiler_target target = command_target(source, build->platform, build->params->mode);
    enum compiler_language language;
    struct compiler *compiler;
    struct text text = { 0 };
    int status = command_language(source->path, &language, error);

    if (status < 0)
        return status;
    if (target == COMPILER_CORE) /* sources for cores are compiled as C++ in any case */
        language = COMPILER_CXX;
    compiler = &build->compilers[target][language];
    *compiler_out = compiler;
    if (compiler->tool_count != 0)
        return PTO_OK;
    compiler_free(compiler);
    status = compiler_find(language, target, &build->platform->view, compiler, error);
    if (status == PTO_OK)
        status = compiler_identify(compiler, build->store, error);
    if (status < 0)
        return status;
    text_format(&text, "%s by %s (%s)", language == COMPILER_C ? "C" : "C++", compiler->why,
                compiler->version);
    build_notify(build, PTO_BUILD_COMPILER, NULL, text.bytes);
    text_free(&text);
    if (target == COMPILER_HOST && language == COMPILER_CXX)
        status = overlay_make(build, compiler, error);
    return status;
}

/* Initialises the unit of a source. `others` are the units of the sources before this one. */
static int make_unit(struct build *build, const struct pto_source *source, struct unit *unit,
                     const struct unit *others, struct pto_error *error)
{
    struct command_params params = { .source = source,
                                     .platform = build->platform,
                                     .mode = build->params->mode,
                                     .isa = &build->isa,
                                     .include_root = build->include_root,
                                     .has_accesses = build->params->has_accesses,
                                     .store = build->store };
    int status = find_compiler(build, source, &unit->compiler, error);

    unit->source = source;
    if (status < 0)
        return status;
    params.compiler = unit->compiler;
    params.overlay = &build->overlay;
    for (const struct unit *other = unit; other-- != others && params.like == NULL;)
        if (other->compiler == unit->compiler && other->source->core == source->core)
            params.like = &other->command;
    return command_make(&params, &unit->command, error);
}

/*
 * If the chip needs further compilers that are missing, adds them to the error, so that the user
 * learns of all missing compilers in one message.
 */
static void report_other_missing(const struct build *build, const struct pto_source *sources,
                                 uint32_t count, struct pto_error *error)
{
    const struct platform *platform = build->platform;
    enum compiler_target target = command_target(&sources[0], platform, build->params->mode);

    for (uint32_t i = 1; i < count; i++) {
        enum compiler_target other = command_target(&sources[i], platform, build->params->mode);
        enum compiler_language language;
        struct compiler compiler;
        struct pto_error more;
        size_t length = strlen(error->text);

        if (other == target || command_language(sources[i].path, &language, NULL) < 0)
            continue;
        pto_error_init(&more);
        if (compiler_find(language, other, &platform->view, &compiler, &more) == PTO_OK) {
            compiler_free(&compiler);
        } else {
            size_t room = sizeof(error->text) - length;

            snprintf(error->text + length, room, "; and %.*s", (int)room, more.text);
            return;
        }
    }
}

static void free_units(struct unit *units, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        unit_free(&units[i]);
    free(units);
}

static int make_units(struct build *build, const struct pto_source *sources, uint32_t count,
                      struct unit **units_out, struct pto_error *error)
{
    struct unit *units = calloc(count, sizeof(*units));
    struct pto_error own;
    int status = PTO_OK;

    if (units == NULL)
        return error_setf(error, PTO_ENOMEM, "no memory for %u sources", count);
    build->total = count;
    pto_error_init(&own);
    for (uint32_t i = 0; status == PTO_OK && i < count; i++) {
        pto_error_init(&units[i].error);
        status = make_unit(build, &sources[i], &units[i], units, &own);
        if (status == PTO_ENOSUP)
            report_other_missing(build, &sources[i], count - i, &own);
    }
    if (status < 0) {
        sized_write(error, &own, sizeof(own));
        free_units(units, count);
        return status;
    }
    *units_out = units;
    return PTO_OK;
}

/* ---- threads ---- */

/* One item of the work that threads share out among themselves. */
typedef void build_step(struct build *build, struct unit *units, uint32_t index);

struct crew {
    struct build *build;
    struct unit *units;
    build_step *step;
    uint32_t count;
    struct a32 next; /* index of the first item that no thread has taken */
};

static void *run_some(void *arg)
{
    struct crew *crew = arg;

    for (;;) {
        /* the units are complete before the threads start, and the threads do not add any */
        uint32_t index = a32_add_relaxed(&crew->next, 1);

        if (index >= crew->count)
            return NULL;
        crew->step(crew->build, crew->units, index);
    }
}

/* Returns the first error in the order of the sources; sources that were not started have none. */
static int first_error(const struct unit *units, uint32_t count, struct pto_error *error)
{
    for (uint32_t i = 0; i < count; i++)
        if (units[i].status < 0) {
            sized_write(error, &units[i].error, sizeof(units[i].error));
            return units[i].status;
        }
    return PTO_OK;
}

static void run_steps(struct build *build, struct unit *units, build_step *step, uint32_t count)
{
    struct crew crew = { .build = build, .units = units, .step = step, .count = count };
    uint32_t jobs = build->params->jobs != 0 ? build->params->jobs : os_cpu_count();
    pthread_t threads[JOBS_MAX];
    uint32_t started = 0;

    jobs = jobs > JOBS_MAX ? JOBS_MAX : jobs;
    jobs = jobs > count ? count : jobs;
    while (started + 1 < jobs && os_thread_start(&threads[started], run_some, &crew) == PTO_OK)
        started++;
    run_some(&crew);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

static void step_scan(struct build *build, struct unit *units, uint32_t index)
{
    unit_scan(build, &units[index]);
}

static void step_find(struct build *build, struct unit *units, uint32_t index)
{
    unit_find(build, &units[index]);
}

/* After a failure, units that no thread has begun are left alone. */
static void step_make(struct build *build, struct unit *units, uint32_t index)
{
    bool is_failed;

    pthread_mutex_lock(&build->lock);
    is_failed = build->is_failed;
    pthread_mutex_unlock(&build->lock);
    if (!is_failed)
        unit_make(build, &units[index], index);
}

static int scan_units(struct build *build, struct unit *units, uint32_t count,
                      struct pto_error *error)
{
    run_steps(build, units, step_scan, count);
    return first_error(units, count, error);
}

static int compile_units(struct build *build, struct unit *units, uint32_t count,
                         struct pto_error *error)
{
    run_steps(build, units, step_find, count);
    precompiled_find(build, units, count);
    run_steps(build, units, precompiled_make, build->precompiled_count);
    run_steps(build, units, step_make, count);
    return first_error(units, count, error);
}
