/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "toolchain/command.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

/* Include folders by kind, in the order in which the compiler searches them. */
struct search {
    struct words plain;  /* -I */
    struct words system; /* -isystem */
    struct words after;  /* -idirafter */
};

static void add_flags(const struct command_params *params, struct compile_command *out);
static int find_dirs(const struct command_params *params, struct compile_command *out,
                     struct pto_error *error);

int command_language(const char *path, enum compiler_language *language_out,
                     struct pto_error *error)
{
    const char *dot = strrchr(path, '.');

    if (dot != NULL && strcmp(dot, ".c") == 0)
        *language_out = COMPILER_C;
    else if (dot != NULL && (strcmp(dot, ".cc") == 0 || strcmp(dot, ".cpp") == 0 ||
                             strcmp(dot, ".cxx") == 0 || strcmp(dot, ".C") == 0))
        *language_out = COMPILER_CXX;
    else
        return error_setf(error, PTO_EINVAL,
                          "%s: unknown language; C sources end in .c, C++ in .cc, .cpp or "
                          ".cxx",
                          path);
    return PTO_OK;
}

enum compiler_target command_target(const struct pto_source *source,
                                    const struct platform *platform, enum pto_mode mode)
{
    bool is_on_host = source->kind == PTO_SOURCE_HOST ||
                      (source->kind == PTO_SOURCE_ORCHESTRATION && mode == PTO_MODE_HOST);
    bool is_for_core = source->kind == PTO_SOURCE_KERNEL ||
                       (source->kind == PTO_SOURCE_PART && source->core != PTO_CORE_TYPES);

    if (is_on_host || platform->view.is_simulated)
        return COMPILER_HOST;
    return is_for_core ? COMPILER_CORE : COMPILER_DEVICE;
}

static char *command_make_absolute(const char *path)
{
    char here[PATH_MAX];
    char *absolute;

    if (path[0] == '/')
        return strdup(path);
    while (path[0] == '.' && path[1] == '/')
        path += 2;
    if (getcwd(here, sizeof(here)) == NULL || asprintf(&absolute, "%s/%s", here, path) < 0)
        return NULL;
    return absolute;
}

int command_make(const struct command_params *params, struct compile_command *out,
                 struct pto_error *error)
{
    struct compile_command command = { .source = command_make_absolute(params->source->path) };
    const struct words *lists[] = { &command.flags, &command.tail, &command.quote_dirs,
                                    &command.dirs, &command.forced };
    bool is_short = command.source == NULL;
    int status;

    if (command.source != NULL && access(command.source, R_OK) != 0) {
        status = error_setf(error, PTO_EINVAL, "%s cannot be read: %s", params->source->path,
                            strerror(errno));
        command_free(&command);
        return status;
    }
    command.uses_isa =
        params->isa->root != NULL &&
        (params->source->kind == PTO_SOURCE_PART ||
         (params->source->kind == PTO_SOURCE_KERNEL && params->compiler->language == COMPILER_CXX));
    add_flags(params, &command);
    status = find_dirs(params, &command, error);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        is_short = is_short || lists[i]->is_short;
    if (status == PTO_OK && is_short)
        status =
            error_setf(error, PTO_ENOMEM, "no memory for the command of %s", params->source->path);
    if (status < 0) {
        command_free(&command);
        return status;
    }
    *out = command;
    return PTO_OK;
}

void command_free(struct compile_command *command)
{
    free(command->source);
    free(command->unknown);
    words_free(&command->flags);
    words_free(&command->tail);
    words_free(&command->quote_dirs);
    words_free(&command->dirs);
    words_free(&command->forced);
    *command = (struct compile_command){ 0 };
}

/* ---- flags ---- */

/*
 * Adds the flags that make a kernel report its accesses: the compiler inserts calls of its thread
 * sanitizer's hooks, and one of our headers defines these hooks. So the sanitizer's library, and
 * other libraries that the compiler would add by default, must not be linked. -fno-builtin keeps
 * calls of functions such as memcpy, which the header also defines.
 */
static void add_access_flags(const struct command_params *params, struct compile_command *out)
{
    words_split(&out->flags, "-fsanitize=thread -fno-builtin -nodefaultlibs -DPTO_ACCESS_HOOKS");
    words_add(&out->flags, "-include");
    words_format(&out->flags, "%s/pto/access_hooks.h", params->include_root);
    if (params->compiler->language == COMPILER_CXX)
        words_add(&out->tail, "-lstdc++");
    words_split(&out->tail, "-lm -lc -lgcc_s -lgcc");
}

static void add_host_flags(const struct command_params *params, struct compile_command *out)
{
    static const char *const core_macro[PTO_CORE_TYPES] = {
        [PTO_CORE_AIC] = "-D__DAV_CUBE__", [PTO_CORE_AIV] = "-D__DAV_VEC__"
    };
    const struct compiler *compiler = params->compiler;
    bool is_kernel = params->source->kind == PTO_SOURCE_KERNEL;

    if (compiler->language == COMPILER_C) {
        words_split(&out->flags, "-std=gnu11 -O2 -g -Wall -fPIC");
    } else if (is_kernel) {
        words_add(&out->flags, compiler->major >= (compiler->is_clang ? 13u : 11u) ? "-std=c++2b"
                                                                                   : "-std=c++2a");
        words_split(&out->flags, out->uses_isa ? "-O2 -g1" : "-O2 -g");
        words_split(&out->flags, "-fPIC -fpermissive -Wno-ignored-attributes");
    } else if (params->source->kind == PTO_SOURCE_ORCHESTRATION) {
        words_split(&out->flags, "-std=c++17 -O3 -g -fPIC -pthread");
    } else {
        words_split(&out->flags, "-std=c++17 -O2 -g -fPIC");
    }
    if (compiler->language == COMPILER_CXX)
        words_add(&out->flags, compiler->is_clang ? "-Wno-macro-redefined" : "-fno-gnu-unique");
    if (is_kernel)
        words_split(&out->flags, "-D__CPU_SIM -DPTO_CPU_MAX_THREADS=1");
    if (is_kernel && compiler->language == COMPILER_CXX)
        words_add(&out->flags, "-DNDEBUG");
    if (is_kernel)
        words_add(&out->flags, core_macro[params->source->core]);
    if (is_kernel && params->has_accesses)
        add_access_flags(params, out);
    words_split(&out->flags, "-shared -Wl,--build-id=sha1");
    /* a C++ object may use symbols that the program which loads it defines */
    if (compiler->language == COMPILER_C)
        words_split(&out->flags, "-Wl,-Bsymbolic -Wl,-z,defs");
    if (!is_kernel || !params->has_accesses)
        words_add(&out->tail, "-lm");
}

static void add_device_flags(const struct command_params *params, struct compile_command *out)
{
    words_add(&out->flags, params->compiler->language == COMPILER_C ? "-std=gnu11" : "-std=c++17");
    words_split(&out->flags, "-O3 -g -fPIC -fno-common -DPTO_ON_CARD");
    words_split(&out->flags, params->source->kind == PTO_SOURCE_PART
                                 ? "-c -fvisibility=hidden"
                                 : "-shared -Wl,--build-id=sha1");
    if (params->compiler->language == COMPILER_CXX)
        words_add(&out->flags, "-fno-gnu-unique");
}

static void add_core_flags(const struct command_params *params, struct compile_command *out)
{
    words_split(&out->flags, "-c -O3 -g -x cce -std=c++17 --cce-aicore-only");
    words_format(&out->flags, "--cce-aicore-arch=%s",
                 params->platform->core_arch[params->source->core]);
    words_split(&out->flags, "-mllvm -cce-aicore-stack-size=0x8000 "
                             "-mllvm -cce-aicore-function-stack-size=0x8000 "
                             "-mllvm -cce-aicore-record-overflow=false "
                             "-mllvm -cce-aicore-addr-transform "
                             "-mllvm -cce-aicore-dcci-insert-for-scalar=false");
    words_split(&out->flags, params->platform->core_flags);
    out->is_for_core = true;
    out->is_linked = params->source->kind == PTO_SOURCE_KERNEL;
}

static void add_dir(struct compile_command *out, const char *dir)
{
    words_format(&out->flags, "-I%s", dir);
}

/* Adds a macro that include/simpler/ tests for differences between generations and modes. */
static void add_purpose(struct compile_command *out, const char *name)
{
    char upper[32];
    size_t length = 0;

    for (; name[length] != '\0' && length < sizeof(upper) - 1; length++)
        upper[length] = (char)toupper((unsigned char)name[length]);
    upper[length] = '\0';
    words_format(&out->flags, "-DPTO_FOR_%s", upper);
}

/*
 * Adds the folder include/simpler/. It precedes the tile library's folders, which contain a header
 * of the same name.
 */
static void add_simpler_dir(const struct command_params *params, struct compile_command *out)
{
    char inner[PATH_MAX];

    snprintf(inner, sizeof(inner), "%s/simpler", params->include_root);
    if (access(inner, F_OK) == 0)
        add_dir(out, inner);
}

static void add_flags(const struct command_params *params, struct compile_command *out)
{
    const struct pto_source *source = params->source;

    switch (params->compiler->target) {
    case COMPILER_HOST:
        add_host_flags(params, out);
        break;
    case COMPILER_DEVICE:
        add_device_flags(params, out);
        break;
    default:
        add_core_flags(params, out);
        break;
    }
    if (params->compiler->language == COMPILER_CXX && source->kind != PTO_SOURCE_HOST)
        add_purpose(out, params->platform->view.generation);
    if (params->compiler->language == COMPILER_CXX && source->kind == PTO_SOURCE_ORCHESTRATION)
        add_purpose(out, pto_mode_name(params->mode));
    for (uint32_t i = 0;
         out->uses_isa && params->compiler->target == COMPILER_HOST && i < params->overlay->count;
         i++)
        add_dir(out, params->overlay->at[i]);
    for (uint32_t i = 0; i < source->include_dir_count; i++) {
        char *dir = command_make_absolute(source->include_dirs[i]);

        if (dir != NULL)
            add_dir(out, dir);
        else
            out->flags.is_short = true;
        free(dir);
    }
    for (uint32_t i = 0; i < source->flag_count; i++)
        words_add(&out->flags, source->flags[i]);
    if (params->include_root != NULL && params->compiler->language == COMPILER_CXX)
        add_simpler_dir(params, out);
    if (out->uses_isa) {
        words_format(&out->flags, "-I%s/include", params->isa->root);
        words_format(&out->flags, "-I%s/include/pto", params->isa->root);
    }
    if (params->include_root != NULL)
        add_dir(out, params->include_root);
}

/* ---- input of the scan ---- */

/* Returns the operand of an option, which may be in the same word or in the next one. */
static const char *command_operand_of(const struct words *flags, uint32_t *index,
                                      const char *option)
{
    const char *word = flags->at[*index];
    size_t length = strlen(option);

    if (strncmp(word, option, length) != 0)
        return NULL;
    if (word[length] != '\0')
        return word + length;
    return *index + 1 < flags->count ? flags->at[++*index] : NULL;
}

static bool command_has_prefix(const char *word, const char *const *prefixes)
{
    for (; *prefixes != NULL; prefixes++)
        if (strncmp(word, *prefixes, strlen(*prefixes)) == 0)
            return true;
    return false;
}

static bool command_is_listed(const char *word, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

/* Whether this flag changes only the object, but not which files the compiler reads. */
static bool is_understood(const char *word)
{
    static const char *const no[] = { "-fplugin",       "-fprofile",      "-fauto-profile",
                                      "-fuse-ld",       "-fmodule",       "-fmodules",
                                      "-fsanitize-",    "-fdump",         "-foffload",
                                      "-fpch",          "-fopt-info",     "-mllvm",
                                      "-fdebug-prefix", "-fmacro-prefix", "-frandomize",
                                      "-fxray",         "-fpass-plugin",  "-fsave",
                                      "-fcallgraph",    "-fcompare",      "-fbuiltin-module",
                                      "-Wp,",           "-Wa,",           "-Wl,",
                                      "-fconfig",       "-flto-",         NULL };
    static const char *const yes[] = { "-D",
                                       "-U",
                                       "-O",
                                       "-W",
                                       "-f",
                                       "-m",
                                       "-g",
                                       "-std=",
                                       "-ansi",
                                       "-pedantic",
                                       "-pthread",
                                       "-pipe",
                                       "-w",
                                       "-shared",
                                       "-Wl,--build-id",
                                       "-Wl,-Bsymbolic",
                                       "-Wl,-z,",
                                       "-nostdinc",
                                       NULL };
    static const char *const always[] = { "-Wl,--build-id=", "-Wl,-Bsymbolic", "-Wl,-z,",
                                          "-fmacro-backtrace", NULL };
    static const char *const whole[] = { "-c", "-lm", "-ldl", "-lpthread", "-lrt", "-nodefaultlibs",
                                         NULL };

    return command_is_listed(word, whole) || command_has_prefix(word, always) ||
           (command_has_prefix(word, yes) && !command_has_prefix(word, no));
}

static void add_absolute(struct words *words, const char *path)
{
    char *absolute = command_make_absolute(path);

    if (absolute != NULL)
        words_add(words, absolute);
    else
        words->is_short = true;
    free(absolute);
}

/* Adds the elements of a list in the environment; an empty element means the current folder. */
static void add_listed(struct words *words, const char *variable)
{
    const char *list = getenv(variable);

    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ":");
        char element[PATH_MAX];

        snprintf(element, sizeof(element), "%.*s", length != 0 ? (int)length : 1,
                 length != 0 ? list : ".");
        add_absolute(words, element);
        list += length + (list[length] == ':');
    }
}

/*
 * Splits the flags into include folders and forced headers, for the scan, and other flags, which
 * are passed when the compiler is asked for its search paths.
 */
static void sort_flags(struct compile_command *command, struct search *search, struct words *rest)
{
    /*
     * Prefixes of flags that do not change the search paths of headers. Commands that differ only
     * in these flags share a query of the compiler.
     */
    static const char *const elsewhere[] = { "-D", "-U",      "-W", "-O", "-g",
                                             "-c", "-shared", "-l", "-L", NULL };
    /* Flags that are dropped together with the argument after them. */
    static const char *const dropped[] = { "-D", "-U", "-x", "-mllvm",   "-L",          "-l",
                                           "-T", "-u", "-z", "-Xlinker", "-Xassembler", NULL };
    static const char *const paired[] = { "-B",           "--sysroot", "-isysroot",      "-target",
                                          "-arch",        "-Xclang",   "-Xpreprocessor", "-iprefix",
                                          "-iwithprefix", NULL };
    const struct words *flags = &command->flags;

    for (uint32_t i = 0; i < flags->count; i++) {
        const char *word = flags->at[i];
        const char *operand;

        if ((operand = command_operand_of(flags, &i, "-I")) != NULL)
            add_absolute(&search->plain, operand);
        else if ((operand = command_operand_of(flags, &i, "-iquote")) != NULL)
            add_absolute(&command->quote_dirs, operand);
        else if ((operand = command_operand_of(flags, &i, "-isystem")) != NULL)
            add_absolute(&search->system, operand);
        else if ((operand = command_operand_of(flags, &i, "-idirafter")) != NULL)
            add_absolute(&search->after, operand);
        else if ((operand = command_operand_of(flags, &i, "-include")) != NULL ||
                 (operand = command_operand_of(flags, &i, "-imacros")) != NULL)
            words_add(&command->forced, operand);
        else if (command_is_listed(word, dropped))
            i++;
        else if (command_is_listed(word, paired) && i + 1 < flags->count) {
            words_add(rest, word);
            words_add(rest, flags->at[++i]);
        } else if (word[0] == '-' && !command_has_prefix(word, elsewhere)) {
            words_add(rest, word);
        }
        if (operand == NULL && !is_understood(word) && !command->is_for_core &&
            command->unknown == NULL)
            command->unknown = strdup(word);
    }
}

static bool is_same_folder(const char *path, const struct words *dirs)
{
    struct stat one, other;

    if (stat(path, &one) != 0)
        return false;
    for (uint32_t i = 0; i < dirs->count; i++)
        if (stat(dirs->at[i], &other) == 0 && one.st_dev == other.st_dev &&
            one.st_ino == other.st_ino)
            return true;
    return false;
}

/*
 * Adds the folders that are not system folders. A compiler searches a system folder at its own
 * position even if -I names it.
 */
static void add_unless(struct words *to, const struct words *from, const struct words *system)
{
    for (uint32_t i = 0; i < from->count; i++)
        if (!is_same_folder(from->at[i], system))
            words_add(to, from->at[i]);
    to->is_short = to->is_short || from->is_short;
}

static int find_dirs(const struct command_params *params, struct compile_command *out,
                     struct pto_error *error)
{
    struct search search = { 0 };
    struct words rest = { 0 };
    struct words system = { 0 };
    const struct compile_command *like = params->like;
    int status;

    if (like != NULL && words_are_equal(&like->flags, &out->flags)) {
        words_add_all(&out->quote_dirs, &like->quote_dirs);
        words_add_all(&out->dirs, &like->dirs);
        words_add_all(&out->forced, &like->forced);
        out->unknown = like->unknown != NULL ? strdup(like->unknown) : NULL;
        return PTO_OK;
    }
    sort_flags(out, &search, &rest);
    status = compiler_system_dirs(params->compiler, params->store, &rest, &system, error);
    add_listed(&search.plain, "CPATH");
    add_listed(&search.system,
               params->compiler->language == COMPILER_C ? "C_INCLUDE_PATH" : "CPLUS_INCLUDE_PATH");
    add_unless(&out->dirs, &search.plain, &system);
    add_unless(&out->dirs, &search.system, &system);
    words_add_all(&out->dirs, &system);
    words_add_all(&out->dirs, &search.after);
    words_free(&search.plain);
    words_free(&search.system);
    words_free(&search.after);
    words_free(&rest);
    words_free(&system);
    return status;
}

/* ---- the words ---- */

static void add_prefix_map(const struct compiler *compiler, const char *work, struct words *argv)
{
    words_format(argv, "-f%s-prefix-map=%s=pto",
                 compiler->is_clang || compiler->major >= 8 ? "file" : "debug", work);
}

static void add_dependencies(const char *work, struct words *argv)
{
    words_split(argv, "-MD -MF");
    words_format(argv, "%s/" COMMAND_DEPENDENCIES, work);
    words_add(argv, "-o");
}

void command_words(const struct compile_command *command, const struct compiler *compiler,
                   const char *work, const char *precompiled, const char *seed,
                   struct words *argv_out)
{
    words_add_all(argv_out, &compiler->command);
    /*
     * A compiler uses no precompiled header after other tokens: the only one is that of this build,
     * never one that lies next to a header and could be outdated.
     */
    if (precompiled != NULL) {
        words_add(argv_out, "-include");
        words_format(argv_out, "%s/" COMMAND_PREFIX, precompiled);
    }
    words_add(argv_out, "-include");
    words_format(argv_out, "%s/" COMMAND_KEY_HEADER, work);
    words_add_all(argv_out, &command->flags);
    add_prefix_map(compiler, work, argv_out);
    if (!compiler->is_clang)
        words_format(argv_out, "-frandom-seed=%s", seed);
    add_dependencies(work, argv_out);
    words_format(argv_out, "%s/" COMMAND_OBJECT, work);
    words_add(argv_out, command->source);
    words_add_all(argv_out, &command->tail);
}

void command_precompile_words(const struct compile_command *command,
                              const struct compiler *compiler, const char *work,
                              struct words *argv_out)
{
    words_add_all(argv_out, &compiler->command);
    words_add_all(argv_out, &command->flags);
    add_prefix_map(compiler, work, argv_out);
    words_split(argv_out, "-c -x c++-header");
    words_format(argv_out, "%s/" COMMAND_PREFIX, work);
    add_dependencies(work, argv_out);
    words_format(argv_out, "%s/" COMMAND_PRECOMPILED, work);
}
