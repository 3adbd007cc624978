/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a compiler: a digest of the parts that its driver names and of the libraries that
 * they load. The result is cached in the store, under a name, with its dependencies: files
 * whose device, inode, size and time of change must be unchanged, and paths that must stay absent
 * because a part there would be found first.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for memmem */
#endif

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/error.h"
#include "toolchain/compilers.h"
#include "toolchain/process.h"

enum { TOOL_BYTES_MAX = 1 << 30, TOOLS_MAX = 256, RACE_MS = 50 };

static const char record_title[] = "compiler 2\n";
static const char dirs_title[] = "dirs 1\n";

struct inspection {
    struct compiler *compiler;
    struct store *store;
    struct words env;
    struct words folders; /* folders in which the driver searches for its parts */
    struct text record;
    struct pto_error *error;
};

static int identity_read_record(struct compiler *compiler, const char *record);
static int inspect(struct inspection *in);

static void name_record(const struct compiler *compiler, struct digest *name)
{
    struct digest_state state;
    struct words variables = { 0 };
    const char *path = getenv("PATH");

    digest_begin(&state);
    digest_add_text(&state, record_title);
    digest_add_text(&state, compiler_language_name(compiler->language));
    for (uint32_t i = 0; i < compiler->command.count; i++)
        digest_add_text(&state, compiler->command.at[i]);
    digest_add_text(&state, NULL);
    compiler_variables(&variables);
    for (uint32_t i = 0; i < variables.count; i++)
        digest_add_text(&state, variables.at[i]);
    digest_add_text(&state, path);
    digest_end(&state, name);
    words_free(&variables);
}

static void make_identity(struct compiler *compiler)
{
    struct digest_state state;

    digest_begin(&state);
    for (uint32_t i = 0; i < compiler->command.count; i++)
        digest_add_text(&state, compiler->command.at[i]);
    digest_add_text(&state, NULL);
    for (uint32_t i = 0; i < compiler->tool_count; i++)
        digest_add(&state, &compiler->tools[i].digest, sizeof(struct digest));
    digest_end(&state, &compiler->identity);
}

static void forget_tools(struct compiler *compiler)
{
    for (uint32_t i = 0; i < compiler->tool_count; i++)
        free(compiler->tools[i].path);
    free(compiler->tools);
    compiler->tools = NULL;
    compiler->tool_count = 0;
}

int compiler_identify(struct compiler *compiler, struct store *store, struct pto_error *error)
{
    struct inspection in = { .compiler = compiler, .store = store, .error = error };
    struct digest name;
    char *record;
    int status;

    name_record(compiler, &name);
    if (store_name_get(store, &name, &record) == PTO_OK) {
        status = identity_read_record(compiler, record);
        free(record);
        if (status != STORE_ABSENT)
            goto identified;
        forget_tools(compiler);
    }
    compiler_environment(&in.env);
    words_add(&in.env, "LC_ALL=C");
    status = inspect(&in);
    if (status == PTO_OK && (in.record.is_short || in.env.is_short || in.folders.is_short))
        status = PTO_ENOMEM;
    if (status == PTO_OK)
        (void)store_name_put(store, &name, in.record.bytes,
                             /* a failed write is harmless: the next build runs the driver again */
                             NULL);
    words_free(&in.env);
    words_free(&in.folders);
    text_free(&in.record);
identified:
    if (status == PTO_ENOMEM)
        return error_setf(error, status, "no memory to look at %s", compiler->command.at[0]);
    if (status == PTO_OK)
        make_identity(compiler);
    return status;
}

/* ---- files of the compiler ---- */

static int add_tool(struct compiler *compiler, const char *path, const struct digest *digest)
{
    struct compiler_tool *tools =
        realloc(compiler->tools, (compiler->tool_count + 1) * sizeof(*tools));
    char *copy = strdup(path);

    if (tools != NULL)
        compiler->tools = tools;
    if (tools == NULL || copy == NULL) {
        free(copy);
        return PTO_ENOMEM;
    }
    tools[compiler->tool_count++] = (struct compiler_tool){ .path = copy, .digest = *digest };
    return PTO_OK;
}

static void format_stamp(const struct stat *about, char *stamp, size_t bytes)
{
    snprintf(stamp, bytes, "%llx.%llx.%llx.%llx.%lx", (unsigned long long)about->st_dev,
             (unsigned long long)about->st_ino, (unsigned long long)about->st_size,
             (unsigned long long)about->st_ctim.tv_sec, (unsigned long)about->st_ctim.tv_nsec);
}

/*
 * Waits until the clock that stamps files has advanced since the last change of the file. Otherwise
 * the file could change once more without a new time stamp.
 */
static void let_settle(const struct stat *about)
{
    struct timespec now;
    int64_t ms;

    clock_gettime(CLOCK_REALTIME, &now);
    ms = (int64_t)(now.tv_sec - about->st_ctim.tv_sec) * 1000 +
         (now.tv_nsec - about->st_ctim.tv_nsec) / 1000000;
    if (ms >= 0 && ms < RACE_MS)
        nanosleep(&(struct timespec){ .tv_nsec = (RACE_MS - ms) * 1000000 }, NULL);
}

/*
 * Returns the digest of a tool. Takes it from the store if the file's stamp is unchanged; otherwise
 * reads the file.
 */
static int digest_tool(struct store *store, const char *path, const char *stamp,
                       struct digest *digest)
{
    struct digest_state state;
    struct digest name;
    char hex[DIGEST_HEX];
    char *text;
    size_t size;
    int status;

    digest_begin(&state);
    digest_add_text(&state, "tool 1");
    digest_add_text(&state, stamp);
    digest_end(&state, &name);
    if (store_name_get(store, &name, &text) == PTO_OK) {
        bool is_known = digest_from_hex(text, digest);

        free(text);
        if (is_known)
            return PTO_OK;
    }
    status = file_read(path, TOOL_BYTES_MAX, &text, &size);
    if (status < 0)
        return status;
    digest_of(text, size, digest);
    free(text);
    digest_to_hex(digest, hex);
    (void)store_name_put(store, &name, hex, NULL);
    return PTO_OK;
}

static bool has_tool(const struct compiler *compiler, const char *path)
{
    for (uint32_t i = 0; i < compiler->tool_count; i++)
        if (strcmp(compiler->tools[i].path, path) == 0)
            return true;
    return false;
}

/* Adds the file that `path` resolves to, to the tools and to the record. */
static int inspect_tool(struct inspection *in, const char *path)
{
    char before[128], after[128], hex[DIGEST_HEX];
    struct digest digest;
    struct stat about;

    if (has_tool(in->compiler, path))
        return PTO_OK;
    for (int attempt = 0; attempt < 3; attempt++) {
        if (stat(path, &about) != 0)
            break;
        let_settle(&about);
        if (stat(path, &about) != 0)
            break;
        format_stamp(&about, before, sizeof(before));
        if (digest_tool(in->store, path, before, &digest) < 0 || stat(path, &about) != 0)
            break;
        format_stamp(&about, after, sizeof(after));
        if (strcmp(before, after) != 0)
            continue;
        digest_to_hex(&digest, hex);
        text_format(&in->record, "tool %s %s %s\n", before, hex, path);
        return add_tool(in->compiler, path, &digest);
    }
    return error_setf(in->error, PTO_ESYSTEM, "%s, a part of the compiler, cannot be read: %s",
                      path, errno != 0 ? strerror(errno) : "it keeps changing");
}

/*
 * Restores the tools of a compiler from a cached record. Returns STORE_ABSENT if the record is
 * invalid or outdated.
 */
static int identity_read_record(struct compiler *compiler, const char *record)
{
    char stamp[128], now[128], hex[DIGEST_HEX];
    struct digest digest;
    struct stat about;
    unsigned bfloat16, clang;
    int at;

    if (strncmp(record, record_title, strlen(record_title)) != 0)
        return STORE_ABSENT;
    for (record += strlen(record_title); *record != '\0'; record += strcspn(record, "\n") + 1) {
        char path[PATH_MAX];
        size_t length = strcspn(record, "\n");

        if (record[length] != '\n' || length >= sizeof(path))
            return STORE_ABSENT;
        at = 0;
        if (sscanf(record, "tool %127s %64s %n", stamp, hex, &at) == 2 && at > 0) {
            snprintf(path, sizeof(path), "%.*s", (int)length - at, record + at);
            if (!digest_from_hex(hex, &digest) || stat(path, &about) != 0)
                return STORE_ABSENT;
            format_stamp(&about, now, sizeof(now));
            if (strcmp(stamp, now) != 0)
                return STORE_ABSENT;
            if (add_tool(compiler, path, &digest) < 0)
                return PTO_ENOMEM;
        } else if (strncmp(record, "absent ", 7) == 0) {
            snprintf(path, sizeof(path), "%.*s", (int)length - 7, record + 7);
            if (access(path, F_OK) == 0)
                return STORE_ABSENT;
        } else if (sscanf(record, "version %63s %u %u %u", compiler->version, &compiler->major,
                          &clang, &bfloat16) == 4) {
            compiler->is_clang = clang != 0;
            compiler->has_bfloat16 = bfloat16 != 0;
        }
    }
    return compiler->tool_count != 0 && compiler->version[0] != '\0' ? PTO_OK : STORE_ABSENT;
}

/* ---- running the compiler ---- */

/* Runs the driver with additional words; the caller frees the output. */
static int identity_ask(const struct compiler *compiler, const struct words *env,
                        const struct words *flags, const char *const *words, char **output_out,
                        struct pto_error *error)
{
    struct process_params params = { .env = env->at, .timeout_ns = 60000000000ull };
    struct process_result result;
    struct words argv = { 0 };
    int status;

    words_add_all(&argv, &compiler->command);
    if (flags != NULL)
        words_add_all(&argv, flags);
    for (; *words != NULL; words++)
        words_add(&argv, *words);
    params.argv = argv.at;
    status = argv.is_short ? PTO_ENOMEM : process_run(&params, &result, error);
    words_free(&argv);
    if (status < 0)
        return status;
    if (result.code != 0) {
        status = error_setf(error, PTO_ENOSUP,
                            "%s does not work as a compiler for %s: asked for %s it prints: %.200s",
                            compiler->command.at[0], compiler->language == COMPILER_C ? "C" : "C++",
                            words[-1], result.output[0] != '\0' ? result.output : "nothing");
        process_free(&result);
        return status;
    }
    *output_out = result.output;
    return PTO_OK;
}

static int ask_folders(struct inspection *in)
{
    static const char *const words[] = { "-print-search-dirs", NULL };
    char *output;
    int status = identity_ask(in->compiler, &in->env, NULL, words, &output, in->error);

    if (status < 0)
        return status;

    const char *at = strstr(output, "programs: =");

    if (at != NULL) {
        for (at += strlen("programs: ="); *at != '\0' && *at != '\n';) {
            size_t length = strcspn(at, ":\n");

            if (length != 0)
                words_add_part(&in->folders, at, length);
            at += length + (at[length] == ':');
        }
    }
    free(output);
    return PTO_OK;
}

static unsigned long find_macro(const char *output, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = output; (at = strstr(at, "#define ")) != NULL; at++)
        if (strncmp(at + 8, name, length) == 0 && at[8 + length] == ' ')
            return strtoul(at + 8 + length, NULL, 10);
    return 0;
}

/* Asks for the macros of the newest C++ standard, because only that has bfloat16_t. */
static int ask_macros(struct inspection *in)
{
    static const char *const plain[] = { "-E", "-dM", "/dev/null", NULL };
    struct compiler *compiler = in->compiler;
    struct words flags = { 0 };
    unsigned long minor, patch;
    char *output;
    int status;

    words_add(&flags, "-x");
    words_add(&flags, compiler_language_name(compiler->language));
    status = identity_ask(compiler, &in->env, &flags, plain, &output, in->error);
    if (status == PTO_OK && compiler->language == COMPILER_CXX) {
        char *newest;

        words_add(&flags, "-std=c++2b");
        if (identity_ask(compiler, &in->env, &flags, plain, &newest, NULL) == PTO_OK) {
            free(output);
            output = newest;
        }
    }
    words_free(&flags);
    if (status < 0)
        return status;
    compiler->is_clang = strstr(output, "#define __clang__ ") != NULL;
    compiler->major =
        (uint32_t)find_macro(output, compiler->is_clang ? "__clang_major__" : "__GNUC__");
    minor = find_macro(output, compiler->is_clang ? "__clang_minor__" : "__GNUC_MINOR__");
    patch = find_macro(output, compiler->is_clang ? "__clang_patchlevel__" : "__GNUC_PATCHLEVEL__");
    compiler->has_bfloat16 = find_macro(output, "__STDCPP_BFLOAT16_T__") != 0 &&
                             find_macro(output, "__cplusplus") >= 202302;
    free(output);
    if (compiler->major == 0)
        return error_setf(
            in->error, PTO_ENOSUP,
            "%s is neither a GCC nor a clang: its macros define the version of neither",
            compiler->command.at[0]);
    snprintf(compiler->version, sizeof(compiler->version), "%s-%u.%lu.%lu",
             compiler->is_clang ? "clang" : "gcc", compiler->major, minor, patch);
    text_format(&in->record, "version %s %u %d %d\n", compiler->version, compiler->major,
                compiler->is_clang, compiler->has_bfloat16);
    return PTO_OK;
}

/*
 * Finds the compiler proper, the first word of the line with which the driver starts it, and the
 * driver that a wrapper script runs. Both are lines of the output of `-v`:
 *     COLLECT_GCC=gcc
 *      /usr/lib/gcc/x86_64-linux-gnu/12/cc1 -E -quiet ...
 *      "/usr/lib/llvm-14/bin/clang" -cc1 ...
 */
static int inspect_line(struct inspection *in, const char *line, size_t length)
{
    static const char collect[] = "COLLECT_GCC=";
    char word[PATH_MAX], path[PATH_MAX];
    const char *name;
    size_t end;

    if (length > strlen(collect) && strncmp(line, collect, strlen(collect)) == 0) {
        snprintf(word, sizeof(word), "%.*s", (int)(length - strlen(collect)),
                 line + strlen(collect));
        if (compiler_find_program(word, path, sizeof(path), NULL))
            return inspect_tool(in, path);
        return PTO_OK;
    }
    if (line[0] != ' ' || length >= sizeof(word))
        return PTO_OK;
    line++;
    length--;
    if (line[0] == '"') {
        line++;
        end = strcspn(line, "\"\n");
    } else {
        end = strcspn(line, " \n");
    }
    snprintf(word, sizeof(word), "%.*s", (int)end, line);
    name = strrchr(word, '/') != NULL ? strrchr(word, '/') + 1 : word;
    if (word[0] == '/' &&
        (strcmp(name, "cc1") == 0 || strcmp(name, "cc1plus") == 0 ||
         strncmp(line + end, "\" \"-cc1\"", 8) == 0 || strncmp(line + end, "\" -cc1 ", 7) == 0))
        return inspect_tool(in, word);
    return PTO_OK;
}

static int inspect_proper(struct inspection *in)
{
    const char *words[] = { "-x",        compiler_language_name(in->compiler->language),
                            "-E",        "-v",
                            "/dev/null", NULL };
    char *output;
    int status = identity_ask(in->compiler, &in->env, NULL, words, &output, in->error);

    if (status < 0)
        return status;
    for (const char *line = output; status == PTO_OK && *line != '\0';) {
        size_t length = strcspn(line, "\n");

        status = inspect_line(in, line, length);
        line += length + (line[length] == '\n');
    }
    free(output);
    return status;
}

/*
 * Searches as the driver does: its own folders, then PATH. Paths where nothing was found must stay
 * absent.
 */
static int inspect_part(struct inspection *in, const char *name)
{
    char path[PATH_MAX];

    for (uint32_t i = 0; i < in->folders.count; i++) {
        const char *folder = in->folders.at[i];
        size_t length = strlen(folder);

        snprintf(path, sizeof(path), "%s%s%s", folder, folder[length - 1] == '/' ? "" : "/", name);
        if (access(path, X_OK) == 0)
            return inspect_tool(in, path);
        text_format(&in->record, "absent %s\n", path);
    }
    for (const char *folder = getenv("PATH"); folder != NULL && *folder != '\0';) {
        size_t length = strcspn(folder, ":");

        snprintf(path, sizeof(path), "%.*s/%s", (int)length, folder, name);
        if (access(path, X_OK) == 0)
            return inspect_tool(in, path);
        text_format(&in->record, "absent %s\n", path);
        folder += length + (folder[length] == ':');
    }
    return PTO_OK; /* not an error here: the compiler itself reports a missing part */
}

/*
 * Adds the files named specs in the driver's folders, because such a file overrides the driver's
 * rules.
 */
static int inspect_specs(struct inspection *in)
{
    int status = PTO_OK;

    for (uint32_t i = 0; status == PTO_OK && i < in->folders.count; i++) {
        const char *folder = in->folders.at[i];
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s%s", folder,
                 folder[strlen(folder) - 1] == '/' ? "specs" : "/specs");
        if (access(path, R_OK) == 0)
            status = inspect_tool(in, path);
        else
            text_format(&in->record, "absent %s\n", path);
    }
    return status;
}

static bool is_dynamic(const char *path)
{
    static const char interpreter[] = "/ld-linux";
    char head[4096] = { 0 };
    FILE *file = fopen(path, "re");
    size_t size = file != NULL ? fread(head, 1, sizeof(head) - 1, file) : 0;

    if (file != NULL)
        fclose(file);
    return size > 64 && memcmp(head, "\177ELF", 4) == 0 &&
           memmem(head, size, interpreter, strlen(interpreter)) != NULL;
}

/*
 * Adds the libraries that a tool loads. The dynamic loader lists them when it is called with the
 * tool.
 */
static int inspect_libraries(struct inspection *in, const char *tool)
{
    struct process_params params = { .timeout_ns = 60000000000ull };
    struct process_result result;
    struct words argv = { 0 };
    struct words env = { 0 };
    char path[PATH_MAX];
    int status = PTO_OK;

    words_add(&argv, tool);
    words_add_all(&env, &in->env);
    words_add(&env, "LD_TRACE_LOADED_OBJECTS=1");
    params.argv = argv.at;
    params.env = env.at;
    if (argv.is_short || env.is_short)
        status = PTO_ENOMEM;
    else
        status = process_run(&params, &result, in->error);
    if (status == PTO_OK) {
        for (const char *line = result.output; status == PTO_OK && *line != '\0';) {
            const char *slash = strchr(line, '/');
            size_t length = strcspn(line, "\n");

            if (slash != NULL && slash < line + length && sscanf(slash, "%4095s (0x", path) == 1 &&
                access(path, R_OK) == 0)
                status = inspect_tool(in, path);
            line += length + (line[length] == '\n');
        }
        process_free(&result);
    }
    words_free(&argv);
    words_free(&env);
    return status;
}

static int inspect(struct inspection *in)
{
    struct compiler *compiler = in->compiler;
    int status;

    text_format(&in->record, "%s", record_title);
    if ((status = inspect_tool(in, compiler->command.at[0])) < 0 ||
        (status = ask_folders(in)) < 0 || (status = ask_macros(in)) < 0 ||
        (status = inspect_proper(in)) < 0)
        return status;
    if (!compiler->is_clang &&
        ((status = inspect_part(in, "as")) < 0 || (status = inspect_part(in, "collect2")) < 0 ||
         (status = inspect_specs(in)) < 0))
        return status;
    status = inspect_part(in, compiler->target == COMPILER_CORE ? "ld.lld" : "ld");
    /*
     * Asks only for the libraries of the tools that are in the list already. The loop adds
     * libraries to the list, but they need no query, because the loader's answer for a tool
     * includes libraries of libraries.
     */
    for (uint32_t i = 0, count = compiler->tool_count; status == PTO_OK && i < count; i++)
        if (is_dynamic(compiler->tools[i].path))
            status = inspect_libraries(in, compiler->tools[i].path);
    return status;
}

/* ---- include folders ---- */

static int read_dirs(const char *record, struct words *dirs)
{
    if (strncmp(record, dirs_title, strlen(dirs_title)) != 0)
        return STORE_ABSENT;
    for (record += strlen(dirs_title); *record != '\0'; record += strcspn(record, "\n") + 1) {
        size_t length = strcspn(record, "\n");
        char path[PATH_MAX];
        struct stat about;
        bool is_folder;

        if (record[length] != '\n' || length < 3 || length >= sizeof(path))
            return STORE_ABSENT;
        snprintf(path, sizeof(path), "%.*s", (int)length - 2, record + 2);
        is_folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
        if (is_folder != (record[0] == 'd'))
            return STORE_ABSENT;
        if (is_folder)
            words_add(dirs, path);
    }
    return dirs->is_short ? PTO_ENOMEM : PTO_OK;
}

/*
 * Writes the list of include folders. Folders that do not exist are written as absent: the compiler
 * would use them if they existed.
 */
static void write_dirs(const char *output, struct text *record)
{
    static const char missing[] = "ignoring nonexistent directory \"";
    bool is_list = false;

    text_format(record, "%s", dirs_title);
    while (*output != '\0') {
        size_t length = strcspn(output, "\n");

        if (strncmp(output, missing, strlen(missing)) == 0)
            text_format(record, "a %.*s\n", (int)(length - strlen(missing) - 1),
                        output + strlen(missing));
        else if (strncmp(output, "#include <...>", 14) == 0)
            is_list = true;
        else if (is_list && output[0] == ' ')
            text_format(record, "d %.*s\n", (int)length - 1, output + 1);
        else
            is_list = false;
        output += length + (output[length] == '\n');
    }
}

int compiler_system_dirs(const struct compiler *compiler, struct store *store,
                         const struct words *flags, struct words *dirs_out, struct pto_error *error)
{
    const char *words[] = { "-x",        compiler_language_name(compiler->language),
                            "-E",        "-v",
                            "/dev/null", NULL };
    struct digest_state state;
    struct words env = { 0 };
    struct words asked = { 0 };
    struct text record = { 0 };
    struct digest name;
    char *text;
    int status;

    digest_begin(&state);
    digest_add_text(&state, dirs_title);
    digest_add(&state, &compiler->identity, sizeof(compiler->identity));
    digest_add_text(&state, words[1]);
    for (uint32_t i = 0; i < flags->count; i++)
        digest_add_text(&state, flags->at[i]);
    digest_end(&state, &name);
    if (store_name_get(store, &name, &text) == PTO_OK) {
        status = read_dirs(text, dirs_out);
        free(text);
        if (status != STORE_ABSENT)
            return status;
        words_free(dirs_out);
    }
    compiler_environment(&asked);
    words_add(&asked, "LC_ALL=C");
    for (uint32_t i = 0; i < asked.count;
         /* leaves out include folders that the environment sets; the caller adds them itself */
         i++)
        if (strncmp(asked.at[i], "CPATH=", 6) != 0 &&
            strncmp(asked.at[i], "C_INCLUDE_PATH=", 15) != 0 &&
            strncmp(asked.at[i], "CPLUS_INCLUDE_PATH=", 19) != 0)
            words_add(&env, asked.at[i]);
    status = identity_ask(compiler, &env, flags, words, &text, error);
    if (status == PTO_OK) {
        write_dirs(text, &record);
        free(text);
        status = record.is_short ? PTO_ENOMEM : read_dirs(record.bytes, dirs_out);
        if (status == PTO_OK)
            (void)store_name_put(store, &name, record.bytes, NULL);
        /* the driver has listed a file that does not exist, which is ignored */
        else if (status == STORE_ABSENT)
            status = error_setf(error, PTO_ESYSTEM, "the folders of %s change during the query",
                                compiler->command.at[0]);
    }
    words_free(&env);
    words_free(&asked);
    text_free(&record);
    return status;
}
