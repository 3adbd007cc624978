/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the compiler: CC and CXX, PATH, and the folders of the vendor's tools. */
#include "toolchain/compilers.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

extern char **environ;

/* Wrappers that return cached objects or compile on other machines. */
static const char *const wrappers[] = { "ccache", "sccache", "distcc",     "icecc",
                                        "icerun", "gomacc",  "buildcache", "cachecc1" };

/*
 * Names of compilers for this machine, in the order in which they are tried. Compilers with
 * std::bfloat16_t come before g++, which may be older.
 */
static const char *const host_names[COMPILER_LANGUAGES][7] = {
    { "gcc", "clang", "cc", NULL },
    { "g++-17", "g++-16", "g++-15", "g++-14", "g++", "clang++", NULL },
};

static const char *const device_names[COMPILER_LANGUAGES][3] = {
    { "aarch64-target-linux-gnu-gcc", "aarch64-linux-gnu-gcc", NULL },
    { "aarch64-target-linux-gnu-g++", "aarch64-linux-gnu-g++", NULL },
};

static const char *const core_names[] = { "ccec", "bisheng", NULL };

/* Folders below ASCEND_HOME_PATH that have the vendor's compilers. */
static const char *const device_folders[] = { "tools/hcc/bin", "toolkit/toolchain/hcc/bin", NULL };
static const char *const core_folders[] = { "bin",
                                            "compiler/ccec_compiler/bin",
                                            "ccec_compiler/bin",
                                            "tools/ccec_compiler/bin",
                                            "tools/bisheng_compiler/bin",
                                            NULL };

/*
 * Variables that change the output. PATH is absent: the tools found through it are hashed instead.
 */
static const char *const variables[] = {
    "CPATH",           "C_INCLUDE_PATH",       "LIBRARY_PATH", "CPLUS_INCLUDE_PATH",
    "COMPILER_PATH",   "GCC_EXEC_PREFIX",      "LD_RUN_PATH",  "LD_LIBRARY_PATH",
    "LD_PRELOAD",      "CCC_OVERRIDE_OPTIONS", "LDEMULATION",  "SYSROOT",
    "LIBCLANG_OPTIONS"
};

/* Variables that make a compiler write additional files, or compile twice. */
static const char *const unwanted[] = { "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES",
                                        "GCC_COMPARE_DEBUG",   "CC_PRINT_OPTIONS",
                                        "CC_PRINT_HEADERS",    "CC_LOG_DIAGNOSTICS",
                                        "CCACHE_DISABLE",      "SOURCE_DATE_EPOCH" };

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static int find_named(const char *variable, const char *value, struct compiler *out,
                      struct pto_error *error);
static bool find_listed(const char *const *names, const char *const *folders, struct compiler *out);
static int compilers_set_missing(struct compiler *compiler, const struct pto_platform *platform,
                                 struct pto_error *error);

int compiler_find(enum compiler_language language, enum compiler_target target,
                  const struct pto_platform *platform, struct compiler *out,
                  struct pto_error *error)
{
    const char *variable = language == COMPILER_C ? "CC" : "CXX";
    const char *value = target == COMPILER_HOST ? getenv(variable) : NULL;
    struct compiler found = { .language = language, .target = target };
    bool is_found;
    int status = PTO_OK;

    if (value != NULL && value[strspn(value, " \t")] != '\0') {
        status = find_named(variable, value, &found, error);
    } else {
        switch (target) {
        case COMPILER_HOST:
            is_found = find_listed(host_names[language], NULL, &found);
            break;
        case COMPILER_DEVICE:
            is_found = find_listed(device_names[language], device_folders, &found);
            break;
        default:
            is_found = find_listed(core_names, core_folders, &found);
            break;
        }
        if (!is_found)
            status = compilers_set_missing(&found, platform, error);
    }
    if (status == PTO_OK && (found.command.is_short || found.why == NULL))
        status = error_setf(error, PTO_ENOMEM, "no memory to find a compiler");
    if (status < 0) {
        compiler_free(&found);
        return status;
    }
    *out = found;
    return PTO_OK;
}

void compiler_free(struct compiler *compiler)
{
    for (uint32_t i = 0; i < compiler->tool_count; i++)
        free(compiler->tools[i].path);
    free(compiler->tools);
    words_free(&compiler->command);
    free(compiler->why);
    *compiler = (struct compiler){ 0 };
}

const char *compiler_language_name(enum compiler_language language)
{
    return language == COMPILER_C ? "c" : "c++";
}

static const char *compilers_name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static bool compilers_is_listed(const char *const *list, size_t count, const char *name,
                                size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(list[i]) == length && memcmp(list[i], name, length) == 0)
            return true;
    return false;
}

/*
 * Whether the program is a wrapper, by its own name or by the name of the file that it links to:
 * /usr/lib/ccache/gcc is a link to ccache.
 */
static bool is_wrapper(const char *path)
{
    char target[PATH_MAX];
    const char *name = compilers_name_of(path);

    if (compilers_is_listed(wrappers, COUNT(wrappers), name, strlen(name)))
        return true;
    if (realpath(path, target) == NULL)
        return false;
    name = compilers_name_of(target);
    return compilers_is_listed(wrappers, COUNT(wrappers), name, strlen(name));
}

static bool is_program(const char *path)
{
    struct stat about;

    return access(path, X_OK) == 0 && stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

bool compiler_find_program(const char *name, char *path_out, size_t path_bytes,
                           struct words *wrappers_out)
{
    const char *folder = getenv("PATH");

    if (strchr(name, '/') != NULL) {
        int length = snprintf(path_out, path_bytes, "%s", name);

        return length > 0 && (size_t)length < path_bytes && is_program(path_out);
    }
    if (folder == NULL)
        folder = "/usr/local/bin:/usr/bin:/bin";
    for (;; folder++) {
        size_t length = strcspn(folder, ":");
        int written = snprintf(path_out, path_bytes, "%.*s%s%s", (int)length, folder,
                               length != 0 ? "/" : "./", name);

        folder += length;
        if (written > 0 && (size_t)written < path_bytes && is_program(path_out)) {
            if (!is_wrapper(path_out))
                return true;
            if (wrappers_out != NULL)
                words_add(wrappers_out, path_out);
        }
        if (*folder == '\0')
            return false;
    }
}

/* Adds the driver's absolute path to the command, so that the current folder does not matter. */
static void add_driver(struct compiler *compiler, const char *path)
{
    char here[PATH_MAX];

    if (path[0] != '/' && getcwd(here, sizeof(here)) != NULL)
        words_format(&compiler->command, "%s/%s", here, path);
    else
        words_add(&compiler->command, path);
}

static void explain(struct compiler *compiler, const char *why, const struct words *left_out)
{
    struct text text = { 0 };

    text_format(&text, "%s: %s", compiler->command.at[0], why);
    for (uint32_t i = 0; i < left_out->count; i++)
        text_format(&text, "%s%s",
                    i == 0 ? "; skipped because it may return cached objects: " : ", ",
                    left_out->at[i]);
    compiler->why = text.bytes;
    if (text.is_short) {
        text_free(&text);
        compiler->why = NULL;
    }
}

/* Finds the compiler itself: `ccache gcc -m64`, `/usr/lib/ccache/gcc` and `gcc` are all gcc. */
static int find_named(const char *variable, const char *value, struct compiler *out,
                      struct pto_error *error)
{
    struct words words = { 0 };
    struct words left_out = { 0 };
    char path[PATH_MAX];
    char why[64];
    uint32_t first = 0;
    bool is_found;
    int status = PTO_OK;

    words_split(&words, value);
    while (first + 1 < words.count && is_wrapper(words.at[first]) &&
           words.at[first + 1][0] != '-') {
        words_add(&left_out, words.at[first]);
        first++;
    }
    is_found = first < words.count &&
               compiler_find_program(words.at[first], path, sizeof(path), &left_out);
    /* CC or CXX is the path of a wrapper, so search for the compiler that it wraps */
    if (is_found && is_wrapper(path)) {
        words_add(&left_out, path);
        is_found = compiler_find_program(compilers_name_of(words.at[first]), path, sizeof(path),
                                         &left_out);
    }
    if (is_found) {
        add_driver(out, path);
        for (uint32_t i = first + 1; i < words.count; i++)
            words_add(&out->command, words.at[i]);
        snprintf(why, sizeof(why), "%s names it", variable);
        if (!out->command.is_short)
            explain(out, why, &left_out);
    } else {
        status = error_setf(error, PTO_ENOSUP,
                            "%s is '%.200s', and there is no such compiler%s; set it to one that "
                            "exists, or unset it",
                            variable, value,
                            left_out.count != 0 ? " but a wrapper that caches objects" : "");
    }
    words_free(&words);
    words_free(&left_out);
    return status;
}

static bool find_below(const char *const *names, const char *const *folders, struct compiler *out,
                       char *path, size_t path_bytes)
{
    const char *home = getenv("ASCEND_HOME_PATH");

    (void)out;
    if (home == NULL || home[0] == '\0' || folders == NULL)
        return false;
    for (; *names != NULL; names++)
        for (const char *const *folder = folders; *folder != NULL; folder++) {
            int length = snprintf(path, path_bytes, "%s/%s/%s", home, *folder, *names);

            if (length > 0 && (size_t)length < path_bytes && is_program(path))
                return true;
        }
    return false;
}

static bool find_listed(const char *const *names, const char *const *folders, struct compiler *out)
{
    struct words left_out = { 0 };
    struct text why = { 0 };
    char path[PATH_MAX];
    bool is_found = find_below(names, folders, out, path, sizeof(path));

    if (is_found)
        text_format(&why, "it is below ASCEND_HOME_PATH");
    for (uint32_t i = 0; !is_found && names[i] != NULL; i++) {
        is_found = compiler_find_program(names[i], path, sizeof(path), &left_out);
        if (is_found && i == 0)
            text_format(&why, "the first '%s' in PATH", names[i]);
        else if (is_found)
            text_format(&why, "the first '%s' in PATH, which has no %s", names[i], names[i - 1]);
    }
    if (is_found) {
        add_driver(out, path);
        if (!out->command.is_short && !why.is_short)
            explain(out, why.bytes, &left_out);
    }
    words_free(&left_out);
    text_free(&why);
    return is_found;
}

/* Returns the simulated platform of the same generation. */
static const char *simulated_like(const struct pto_platform *platform)
{
    const struct pto_platform *other;

    for (uint32_t i = 0; (other = pto_platform_at(i)) != NULL; i++)
        if (other->is_simulated && strcmp(other->generation, platform->generation) == 0)
            return other->name;
    return pto_platform_at(0)->name;
}

static int compilers_set_missing(struct compiler *compiler, const struct pto_platform *platform,
                                 struct pto_error *error)
{
    const char *home = getenv("ASCEND_HOME_PATH");
    struct text where = { 0 };
    int status;

    text_format(&where,
                home == NULL || home[0] == '\0' ? "ASCEND_HOME_PATH is not set"
                                                : "looked below ASCEND_HOME_PATH=%.80s",
                home);
    if (home != NULL && home[0] != '\0') {
        const char *const *folder =
            compiler->target == COMPILER_CORE ? core_folders : device_folders;

        for (uint32_t i = 0; folder[i] != NULL; i++)
            text_format(&where, "%s%s", i == 0 ? " in " : ", ", folder[i]);
    }
    if (compiler->target == COMPILER_HOST)
        status = error_setf(error, PTO_ENOSUP,
                            compiler->language == COMPILER_C
                                ? "there is no C compiler: PATH has none of gcc, clang, cc, and CC "
                                  "is not set; install gcc"
                                : "there is no C++ compiler: PATH has none of g++-17 to g++-14, "
                                  "g++, clang++, and CXX is not set; install g++");
    else if (compiler->target == COMPILER_CORE)
        status = error_setf(error, PTO_ENOSUP,
                            "kernels for %s need the vendor's compiler, ccec or bisheng: %s, and "
                            "PATH has neither; install CANN and source its set_env.sh, or build "
                            "for %s",
                            platform->name, where.bytes != NULL ? where.bytes : "",
                            simulated_like(platform));
    else
        status =
            error_setf(error, PTO_ENOSUP,
                       "orchestrations for %s need an aarch64 compiler, %s: %s, and PATH has "
                       "neither that nor %s; install CANN, or gcc-aarch64-linux-gnu%s",
                       platform->name, device_names[compiler->language][0],
                       where.bytes != NULL ? where.bytes : "", device_names[compiler->language][1],
                       compiler->language == COMPILER_C ? "" : " and g++-aarch64-linux-gnu");
    text_free(&where);
    return status;
}

void compiler_environment(struct words *env_out)
{
    for (char **at = environ; at != NULL && *at != NULL; at++)
        if (!compilers_is_listed(unwanted, COUNT(unwanted), *at, strcspn(*at, "=")))
            words_add(env_out, *at);
    words_add(env_out, "CCACHE_DISABLE=1");
    words_add(env_out, "SOURCE_DATE_EPOCH=0");
}

void compiler_variables(struct words *out)
{
    for (size_t i = 0; i < COUNT(variables); i++) {
        const char *value = getenv(variables[i]);

        if (value != NULL)
            words_format(out, "%s=%s", variables[i], value);
    }
}
