/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one unit: scans the source, looks it up by its key, and compiles it if the store has no
 * object for it.
 *
 * An object is stored only if three conditions hold after the compiler has ended: it contains the
 * key, so this compilation made it; the compiler has read no file that the scan lacks; and a second
 * scan gives the same key, so no file changed during the compilation. Otherwise the source is
 * compiled again, with the newly found files.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "artefact/artefact.h"
#include "base/error.h"
#include "toolchain/build.h"
#include "toolchain/manifest.h"
#include "toolchain/note.h"
#include "toolchain/overlay.h"
#include "toolchain/precompiled.h"
#include "toolchain/process.h"

enum { ATTEMPTS = 4, OBJECT_MAX = 512 << 20, DEPENDENCIES_MAX = 64 << 20 };

/* Result in addition to statuses: inputs have changed, so the unit must be compiled again. */
enum { UNIT_AGAIN = 1 };

static int scan_unit(struct build *build, struct unit *unit, struct pto_error *error);
static void unit_find_obstacle(const struct build *build, struct unit *unit);
static int refuse_early(struct build *build, struct unit *unit, struct pto_error *error);
static int compile_unit(struct build *build, struct unit *unit, uint32_t index, struct text *output,
                        struct pto_error *error);
static int keep_object(struct build *build, struct unit *unit, const char *output,
                       struct pto_error *error);
static void recall(struct build *build, struct unit *unit, struct digest *key, bool *has_key);
static void report_reason(struct build *build, struct unit *unit);
static void report_reused(struct build *build, struct unit *unit);

void unit_scan(struct build *build, struct unit *unit)
{
    struct digest last;
    bool has_last;

    recall(build, unit, &last, &has_last);
    unit->status = scan_unit(build, unit, &unit->error);
    if (unit->status == PTO_OK)
        unit_find_obstacle(build, unit);
}

void unit_find(struct build *build, struct unit *unit)
{
    if (unit->obstacle == NULL)
        (void)store_get(build->store, &unit->key, &unit->entry);
}

/* Loads the object from the store, or compiles it. UNIT_AGAIN: newly found files change the key. */
static int make_once(struct build *build, struct unit *unit, uint32_t index)
{
    struct pto_error *error = &unit->error;
    struct text output = { 0 };
    int status;

    if (unit->entry.bytes == NULL)
        unit_find(build, unit);
    if (unit->entry.bytes != NULL) {
        report_reused(build, unit);
        return PTO_OK;
    }
    status = refuse_early(build, unit, error);
    if (status == PTO_OK) {
        report_reason(build, unit);
        status = compile_unit(build, unit, index, &output, error);
    }
    if (status == PTO_OK)
        status = keep_object(build, unit, output.bytes != NULL ? output.bytes : "", error);
    if (status == PTO_OK) {
        unit->is_compiled = true;
        if (output.size != 0)
            build_notify(build, PTO_BUILD_WARNING, unit->source->path, output.bytes);
    }
    text_free(&output);
    return status;
}

void unit_make(struct build *build, struct unit *unit, uint32_t index)
{
    int status = make_once(build, unit, index);

    for (int attempt = 1; attempt < ATTEMPTS && status == UNIT_AGAIN; attempt++) {
        unit->precompiled = NULL; /* its files may have changed as well */
        status = scan_unit(build, unit, &unit->error);
        if (status == PTO_OK)
            status = make_once(build, unit, index);
    }
    if (status == UNIT_AGAIN)
        status = error_setf(&unit->error, PTO_EBUILD,
                            "%s: its files change while it is compiled, %d times in a row; build "
                            "again when nothing writes to them",
                            unit->source->path, ATTEMPTS);
    unit->status = status;
    pthread_mutex_lock(&build->lock);
    build->done++;
    build->is_failed = build->is_failed || status < 0;
    pthread_mutex_unlock(&build->lock);
    if (status == PTO_OK && unit->is_compiled)
        build_notify(build, PTO_BUILD_COMPILED, unit->source->path, NULL);
}

void unit_free(struct unit *unit)
{
    scan_destroy(unit->scan);
    scan_memo_destroy(unit->memo);
    store_entry_free(&unit->entry);
    free(unit->object);
    free(unit->obstacle);
    words_free(&unit->more);
    command_free(&unit->command);
    *unit = (struct unit){ 0 };
}

const void *unit_bytes(const struct unit *unit, size_t *size_out)
{
    *size_out = unit->is_compiled ? unit->object_size : unit->entry.size;
    return unit->is_compiled ? unit->object : unit->entry.bytes;
}

/* ---- scan and key ---- */

static void add_words(struct digest_state *state, const struct words *words)
{
    for (uint32_t i = 0; i < words->count; i++)
        digest_add_text(state, words->at[i]);
    digest_add_text(state, NULL);
}

/* Adds the CPU of this machine, because -march=native depends on it. */
static void add_machine(struct digest_state *state, const struct words *flags)
{
    bool is_native = false;
    char line[4096];
    FILE *file;

    for (uint32_t i = 0; i < flags->count; i++)
        is_native = is_native || strstr(flags->at[i], "=native") != NULL;
    if (!is_native)
        return;
    file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, "model", 5) == 0 || strncmp(line, "flags", 5) == 0 ||
            strncmp(line, "Features", 8) == 0 || strncmp(line, "CPU part", 8) == 0) {
            digest_add_text(state, line);
            if (strncmp(line, "flags", 5) == 0)
                break; /* only the first CPU is read, because all CPUs are of the same kind */
        }
    if (file != NULL)
        fclose(file);
}

/* Adds the current folder, because debug information contains it. */
static void unit_add_folder(struct digest_state *state, const struct words *flags)
{
    char here[PATH_MAX];

    for (uint32_t i = 0; i < flags->count; i++)
        if (strncmp(flags->at[i], "-g", 2) == 0) {
            digest_add_text(state, getcwd(here, sizeof(here)));
            return;
        }
}

void unit_add_command(const struct build *build, const struct unit *unit,
                      struct digest_state *state)
{
    add_words(state, &unit->command.flags);
    add_words(state, &unit->command.tail);
    add_words(state, &build->variables);
    digest_add(state, &unit->compiler->identity, sizeof(struct digest));
    add_machine(state, &unit->command.flags);
    unit_add_folder(state, &unit->command.flags);
}

static void unit_make_key(const struct build *build, const struct unit *unit, struct digest *key)
{
    struct digest_state state;
    struct digest files;
    uint32_t numbers[] = { ARTEFACT_ABI, (uint32_t)unit->source->kind,
                           unit->source->kind == PTO_SOURCE_KERNEL ? (uint32_t)unit->source->core
                                                                   : 0 };

    scan_digest(unit->scan, &files);
    digest_begin(&state);
    digest_add_text(&state, "object 1");
    digest_add(&state, numbers, sizeof(numbers));
    digest_add_text(&state, build->params->platform);
    digest_add_text(&state, unit->command.source);
    unit_add_command(build, unit, &state);
    digest_add(&state, &files, sizeof(files)); /* mutation: forgotten-files */
    digest_end(&state, key);
}

static int scan_with(const struct unit *unit, struct scan_memo *memo, const char *path,
                     const struct words *more, struct scan **scan_out, struct pto_error *error)
{
    const struct compile_command *command = &unit->command;
    struct scan_params params = {
        .source = path,
        .quote_dirs = (const char *const *)command->quote_dirs.at,
        .quote_dir_count = command->quote_dirs.count,
        .dirs = (const char *const *)command->dirs.at,
        .dir_count = command->dirs.count,
        .forced = (const char *const *)command->forced.at,
        .forced_count = command->forced.count,
        .roots = (const char *const *)more->at,
        .root_count = more->count,
    };

    return scan_files(memo, &params, scan_out, error);
}

int unit_scan_file(const struct unit *unit, struct scan_memo *memo, const char *path,
                   struct scan **scan_out)
{
    return scan_with(unit, memo, path, &(struct words){ 0 }, scan_out, NULL);
}

/* Scans with the memo of the whole build the first time; later scans read every file again. */
static int scan_unit(struct build *build, struct unit *unit, struct pto_error *error)
{
    struct scan_memo *memo = build->memo;
    int status = PTO_OK;

    if (unit->scan != NULL) {
        scan_destroy(unit->scan);
        unit->scan = NULL;
        scan_memo_destroy(unit->memo);
        unit->memo = NULL;
        status = scan_memo_create(&unit->memo);
        memo = unit->memo;
    }
    if (status == PTO_OK)
        status = scan_with(unit, memo, unit->command.source, &unit->more, &unit->scan, error);
    else
        error_setf(error, status, "no memory to read %s", unit->source->path);
    if (status == PTO_OK)
        unit_make_key(build, unit, &unit->key);
    return status;
}

/* ---- reasons why the store cannot be used ---- */

static void unit_find_obstacle(const struct build *build, struct unit *unit)
{
    struct text text = { 0 };

    if (build->params->is_forced)
        text_format(&text, "every source is compiled, as requested");
    else if (unit->command.unknown != NULL)
        text_format(&text,
                    "with the flag %s the compiler may read files that the build does not know: it "
                    "is compiled every time",
                    unit->command.unknown);
    for (uint32_t i = 0; text.size == 0 && i < scan_open_count(unit->scan); i++) {
        const struct scan_open *open = scan_open_at(unit->scan, i);

        /*
         * A computed #include does not prevent the use of the store, because the compiler lists the
         * files that it has read.
         */
        if (open->kind != SCAN_OPEN_INCLUDE)
            text_format(
                &text,
                "%s:%u has a %s (%s), which only a compiler can resolve: it is compiled every time",
                open->path, open->line, scan_open_name(open->kind), open->text);
    }
    unit->obstacle = text.bytes;
}

static bool is_below(const char *path, const char *folder)
{
    size_t length = folder != NULL ? strlen(folder) : 0;

    return length != 0 && strncmp(path, folder, length) == 0 && path[length] == '/';
}

bool unit_is_library(const struct build *build, const struct unit *unit, const char *path)
{
    if (is_below(path, build->isa.root) || is_below(path, build->include_root) ||
        is_below(path, "/usr"))
        return true;
    for (uint32_t i = 0; i < build->overlay.count; i++)
        if (is_below(path, build->overlay.at[i]))
            return true;
    for (uint32_t i = 0; i < unit->compiler->tool_count && i < 1; i++) {
        char folder[PATH_MAX]; /* for a compiler PREFIX/bin/g++, this is PREFIX */
        char *slash;

        snprintf(folder, sizeof(folder), "%s", unit->compiler->tools[i].path);
        for (int up = 0; up < 2; up++)
            if ((slash = strrchr(folder, '/')) != NULL)
                *slash = '\0';
        if (is_below(path, folder))
            return true;
    }
    return false;
}

static bool has_bfloat16(const char *path)
{
    char *text;
    size_t size;
    bool is_used;

    if (file_read(path, OBJECT_MAX, &text, &size) < 0)
        return false;
    is_used = isa_uses_bfloat16(text, size);
    free(text);
    return is_used;
}

static int refuse_early(struct build *build, struct unit *unit, struct pto_error *error)
{
    uint32_t count = scan_entry_count(unit->scan);
    bool has_isa = false, wants_isa = false, has_type = unit->compiler->has_bfloat16;
    const char *user = NULL;

    if (unit->source->kind != PTO_SOURCE_KERNEL || unit->compiler->language != COMPILER_CXX)
        return PTO_OK;
    for (uint32_t i = 0; i < count; i++) {
        const struct scan_entry *entry = scan_entry_at(unit->scan, i);
        size_t length = strlen(entry->path);
        bool is_first = length > 17 && strcmp(entry->path + length - 17, "/pto/pto-inst.hpp") == 0;

        /* our own types with a bfloat16_t are found before the library's */
        has_type = has_type ||
                   (entry->is_present && strstr(entry->path, OVERLAY_TYPES "/pto/common/") != NULL);
        has_isa = has_isa || (is_first && entry->is_present &&
                              /*
                               * a header of the same name in our own include folder does not count,
                               * because it only includes the tile library's
                               */
                              !is_below(entry->path, build->include_root));
        wants_isa = wants_isa || is_first;
    }
    if (wants_isa && !has_isa)
        return error_setf(error, PTO_ENOSUP,
                          "%s includes the tile library (pto/pto-inst.hpp), which is not there: "
                          "give --isa DIR, set PTO_ISA_ROOT, or name it in ~/.config/pto/isa; "
                          "nothing is ever downloaded",
                          unit->source->path);
    if (!unit->command.uses_isa || !has_isa || has_type || unit->compiler->target != COMPILER_HOST)
        return PTO_OK;
    for (uint32_t i = 0; i < count && user == NULL; i++) {
        const struct scan_entry *entry = scan_entry_at(unit->scan, i);

        if (entry->is_present && !unit_is_library(build, unit, entry->path) &&
            has_bfloat16(entry->path))
            user = entry->path;
    }
    if (user == NULL)
        return PTO_OK;
    return error_setf(error, PTO_ENOSUP,
                      "%s uses bfloat16_t, and %s has no such type: the tile library would "
                      "silently compute in fp16, because it takes its types from another header "
                      "than pto/common/type.hpp. It needs GCC 14 or later: install g++-14, which "
                      "Debian has from 13 on, or set CXX to one",
                      user, unit->compiler->version);
}

/* ---- compiling ---- */

static void report_command(struct build *build, const struct unit *unit, const struct words *argv)
{
    struct text command = { 0 };

    if (!build->params->is_explained)
        return;
    for (uint32_t i = 0; i < argv->count && argv->at[i] != NULL; i++)
        text_format(&command, "%s%s", i != 0 ? " " : "", argv->at[i]);
    if (!command.is_short)
        build_notify(build, PTO_BUILD_COMMAND, unit->source->path, command.bytes);
    text_free(&command);
}

int unit_run(struct build *build, struct unit *unit, const struct words *argv, struct text *output,
             struct pto_error *error)
{
    struct process_params params = {
        .argv = argv->at, .env = build->env.at, .stop = build_is_stopped, .context = build
    };
    struct process_result result;
    int status;

    report_command(build, unit, argv);
    status = process_run(&params, &result, error);
    if (status < 0)
        return status;
    text_add(output, result.output, result.output_size);
    if (result.is_cut)
        text_format(output, "\n(output truncated)\n");
    free(result.output);
    if (result.code == 0)
        return PTO_OK;
    if (precompiled_folder(unit) != NULL)
        return PTO_EBUILD; /* compile_unit tries again without it */
    build_notify(build, PTO_BUILD_OUTPUT, unit->source->path, output->bytes);
    if (result.code < 0)
        return error_setf(error, PTO_EBUILD, "%s: %s was ended by signal %d (%s)",
                          unit->source->path, argv->at[0], result.signal, strsignal(result.signal));
    return error_setf(error, PTO_EBUILD, "%s does not compile: %s exits with code %d",
                      unit->source->path, argv->at[0], result.code);
}

static int write_header(struct unit *unit, const char *work, struct pto_error *error)
{
    char path[PATH_MAX];
    struct text header = { 0 };
    int status;

    precompiled_add_check(unit, &header);
    note_header(&unit->key, unit->compiler->target == COMPILER_CORE, &header);
    snprintf(path, sizeof(path), "%s/" COMMAND_KEY_HEADER, work);
    status = header.is_short ? PTO_ENOMEM : file_write(path, header.bytes, header.size);
    text_free(&header);
    if (status < 0)
        return error_setf(error, status, "%s cannot be written: %s", path, strerror(errno));
    return PTO_OK;
}

int unit_find_linker(const struct build *build, const struct unit *unit, char linker[PATH_MAX],
                     struct pto_error *error)
{
    char *slash;

    snprintf(linker, PATH_MAX, "%s", unit->compiler->command.at[0]);
    slash = strrchr(linker, '/');
    snprintf(slash + 1, PATH_MAX - (size_t)(slash + 1 - linker), "ld.lld");
    if (access(linker, X_OK) == 0 || compiler_find_program("ld.lld", linker, PATH_MAX, NULL))
        return PTO_OK;
    return error_setf(
        error, PTO_ENOSUP,
        "kernels for %s are linked with ld.lld, which is neither next to %s nor in PATH",
        build->params->platform, unit->compiler->command.at[0]);
}

/* Links with the vendor's linker, which puts the kernel's entry first. */
static int link_object(struct build *build, struct unit *unit, const char *work,
                       struct text *output, struct pto_error *error)
{
    struct words argv = { 0 };
    char linker[PATH_MAX];
    int status = unit_find_linker(build, unit, linker, error);

    if (status < 0)
        return status;
    words_add(&argv, linker);
    words_split(&argv, "-e kernel_entry -o");
    words_format(&argv, "%s/" COMMAND_LINKED, work);
    words_format(&argv, "%s/" COMMAND_OBJECT, work);
    status = argv.is_short ? error_setf(error, PTO_ENOMEM, "no memory to start a linker")
                           : unit_run(build, unit, &argv, output, error);
    words_free(&argv);
    return status;
}

static int unit_take_object(struct unit *unit, const char *work, struct pto_error *error)
{
    char path[PATH_MAX];
    char *bytes;
    size_t size;
    int status;

    snprintf(path, sizeof(path), "%s/%s", work,
             unit->command.is_linked ? COMMAND_LINKED : COMMAND_OBJECT);
    status = file_read(path, OBJECT_MAX, &bytes, &size);
    if (status < 0)
        return error_setf(error, status == PTO_ENOMEM ? status : PTO_EBUILD,
                          "%s: %s succeeded, but made no object: %s", unit->source->path,
                          unit->compiler->command.at[0], strerror(errno));
    if (!note_check(bytes, size, &unit->key)) { /* mutation: trust-object */
        free(bytes);
        return error_setf(error, PTO_EBUILD,
                          "%s: the object that %s made lacks the key of this compilation, so it "
                          "was not made from these files; a wrapper that caches objects does that: "
                          "set %s to the compiler itself",
                          unit->source->path, unit->compiler->command.at[0],
                          unit->compiler->language == COMPILER_C ? "CC" : "CXX");
    }
    free(unit->object);
    unit->object = bytes;
    unit->object_size = size;
    return PTO_OK;
}

/* Reads the next path of a make rule written by a compiler; false: there is none. */
static bool next_dependency(const char **at, char *path, size_t bytes)
{
    const char *from = *at;
    size_t length = 0;

    for (;;) {
        from += strspn(from, " \t\r\n");
        if (from[0] == '\\' && (from[1] == '\n' || from[1] == '\r'))
            from += 2;
        else
            break;
    }
    while (*from != '\0' && strchr(" \t\r\n", *from) == NULL && length + 1 < bytes) {
        if (from[0] == '\\' && (from[1] == '\n' || from[1] == '\r'))
            break;
        if ((from[0] == '\\' && strchr(" #\\", from[1]) != NULL && from[1] != '\0') ||
            (from[0] == '$' && from[1] == '$'))
            from++;
        path[length++] = *from++;
    }
    path[length] = '\0';
    *at = from;
    return length != 0;
}

int unit_list_unknown(const struct build *build, struct scan *scan, const char *rules,
                      struct words *unknown)
{
    char path[PATH_MAX];
    const char *at;
    char *text;
    size_t size;

    if (file_read(rules, DEPENDENCIES_MAX, &text, &size) < 0)
        return PTO_EBUILD;
    at = strchr(text, ':');
    for (at = at != NULL ? at + 1 : ""; next_dependency(&at, path, sizeof(path));)
        if (!is_below(path, build->work) && scan_find(scan, path) == NULL &&
            !words_has(unknown, path) && path[strlen(path) - 1] != ':')
            words_add(unknown, path);
    free(text);
    return PTO_OK;
}

/* Adds the files that the compiler has read but the scan lacks to the roots of the next scan. */
static int learn_files(struct build *build, struct unit *unit, const char *work,
                       struct pto_error *error)
{
    char path[PATH_MAX];
    uint32_t known = unit->more.count;

    snprintf(path, sizeof(path), "%s/" COMMAND_DEPENDENCIES, work);
    if (unit_list_unknown(build, unit->scan, path, &unit->more) < 0)
        return error_setf(error, PTO_EBUILD, "%s: %s did not list the files that it read (-MD): %s",
                          unit->source->path, unit->compiler->command.at[0], strerror(errno));
    if (unit->more.is_short)
        return error_setf(error, PTO_ENOMEM, "no memory for the files of %s", unit->source->path);
    return unit->more.count != known ? UNIT_AGAIN : PTO_OK;
}

static int unit_compile(struct build *build, struct unit *unit, const char *work,
                        struct text *output, struct pto_error *error)
{
    struct words argv = { 0 };
    char seed[DIGEST_HEX];
    int status = write_header(unit, work, error);

    digest_to_hex(&unit->key, seed);
    command_words(&unit->command, unit->compiler, work, precompiled_folder(unit), seed, &argv);
    if (status == PTO_OK)
        status = argv.is_short ? error_setf(error, PTO_ENOMEM, "no memory to start a compiler")
                               : unit_run(build, unit, &argv, output, error);
    words_free(&argv);
    return status;
}

static int compile_unit(struct build *build, struct unit *unit, uint32_t index, struct text *output,
                        struct pto_error *error)
{
    char *work = NULL;
    int status = build_work_folder(build, index, &work, error);

    if (status == PTO_OK)
        status = unit_compile(build, unit, work, output, error);
    if (status == PTO_EBUILD && precompiled_folder(unit) != NULL) {
        unit->precompiled = NULL;
        text_free(output);
        status = unit_compile(build, unit, work, output, error);
    }
    if (status == PTO_OK && unit->command.is_linked)
        status = link_object(build, unit, work, output, error);
    if (status == PTO_OK)
        status = unit_take_object(unit, work, error);
    if (status == PTO_OK)
        status = learn_files(build, unit, work, error);
    free(work);
    return status;
}

/* ---- storing the object ---- */

/* Makes the name of a unit from the path of its source, its purpose and its target. */
static void name_last(const struct build *build, const struct unit *unit, struct digest *name)
{
    struct digest_state state;
    uint32_t numbers[] = { (uint32_t)unit->source->kind, (uint32_t)unit->source->core };

    digest_begin(&state);
    digest_add_text(&state, "last 1");
    digest_add(&state, numbers, sizeof(numbers));
    digest_add_text(&state, build->params->platform);
    digest_add_text(&state, unit->command.source);
    digest_end(&state, name);
}

/*
 * Looks up the last key of this source, and the files that the compiler found in addition to the
 * scan.
 */
static void recall(struct build *build, struct unit *unit, struct digest *key, bool *has_key)
{
    struct digest name;
    char *text;

    *has_key = false;
    name_last(build, unit, &name);
    if (store_name_get(build->store, &name, &text) != PTO_OK)
        return;
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");

        if (strncmp(line, "key ", 4) == 0)
            *has_key = digest_from_hex(line + 4, key);
        else if (strncmp(line, "more ", 5) == 0) {
            char path[PATH_MAX];

            snprintf(path, sizeof(path), "%.*s", (int)length - 5, line + 5);
            if (access(path, R_OK) == 0 && !words_has(&unit->more, path))
                words_add(&unit->more, path);
        }
        line += length + (line[length] == '\n');
    }
    free(text);
}

static void remember(struct build *build, const struct unit *unit)
{
    char hex[DIGEST_HEX];
    struct text text = { 0 };
    struct digest name;

    name_last(build, unit, &name);
    digest_to_hex(&unit->key, hex);
    text_format(&text, "key %s\n", hex);
    for (uint32_t i = 0; i < unit->more.count; i++)
        text_format(&text, "more %s\n", unit->more.at[i]);
    if (!text.is_short)
        (void)store_name_put(build->store, &name, text.bytes, NULL);
    text_free(&text);
}

static void write_manifest(struct build *build, struct unit *unit, struct text *out)
{
    struct manifest_params params = { .source = unit->source,
                                      .platform = build->params->platform,
                                      .command = &unit->command,
                                      .compiler = unit->compiler,
                                      .variables = &build->variables,
                                      .more = &unit->more,
                                      .scan = unit->scan };

    manifest_write(&params, out);
}

/* Stores the object. UNIT_AGAIN: an input changed during the compilation. */
static int keep_object(struct build *build, struct unit *unit, const char *output,
                       struct pto_error *error)
{
    struct digest before = unit->key;
    struct text manifest = { 0 };
    int status = scan_unit(build, unit, error);

    if (status < 0)
        return status;
    if (!digest_is_equal(&before, &unit->key))
        return UNIT_AGAIN;
    write_manifest(build, unit, &manifest);
    manifest_add_output(&manifest, output);
    /* a failure is ignored, because it is no error of the build; the store keeps a note about it */
    if (!manifest.is_short)
        (void)store_put(build->store, &unit->key, unit->object, unit->object_size, manifest.bytes,
                        NULL);
    text_free(&manifest);
    remember(build, unit);
    return PTO_OK;
}

/* ---- why a unit was compiled ---- */

static void report_reason(struct build *build, struct unit *unit)
{
    struct store_entry old = { 0 };
    struct text now = { 0 };
    struct text reason = { 0 };
    struct digest last;
    bool has_last;

    if (unit->obstacle != NULL) {
        build_notify(build, PTO_BUILD_COMPILING, unit->source->path, unit->obstacle);
        return;
    }
    recall(build, unit, &last, &has_last);
    if (!has_last) {
        text_format(&reason, "it is new: there is no record of an earlier object");
    } else if (digest_is_equal(&last, &unit->key) ||
               store_get(build->store, &last, &old) != PTO_OK) {
        text_format(&reason, "its earlier object is no longer in the store");
    } else {
        write_manifest(build, unit, &now);
        if (now.is_short || old.manifest == NULL ||
            !manifest_compare(old.manifest, now.bytes, &reason))
            text_format(&reason, "its folder or the order of its folders changed");
        store_entry_free(&old);
    }
    build_notify(build, PTO_BUILD_COMPILING, unit->source->path, reason.bytes);
    text_free(&now);
    text_free(&reason);
}

static void report_reused(struct build *build, struct unit *unit)
{
    struct text text = { 0 };
    uint32_t present = 0, count = 0;

    if (build->params->is_explained) {
        count = scan_entry_count(unit->scan);
        for (uint32_t i = 0; i < count; i++)
            present += scan_entry_at(unit->scan, i)->is_present;
        text_format(&text, "%u files, %u absent paths, the flags and the compiler are unchanged",
                    present, count - present);
    }
    build_notify(build, PTO_BUILD_REUSED, unit->source->path, text.bytes);
    text_free(&text);
    if (unit->entry.manifest != NULL && strstr(unit->entry.manifest, "\noutput ") != NULL) {
        manifest_output(unit->entry.manifest, &text);
        build_notify(build, PTO_BUILD_WARNING, unit->source->path, text.bytes);
        text_free(&text);
    }
}
