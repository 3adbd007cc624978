/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif

#include "toolchain/isa.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/error.h"
#include "toolchain/process.h"
#include "toolchain/store_files.h"
#include "toolchain/work.h"

enum { HEADER_MAX = 16 << 20, REVISION_DIGITS = 40, PLACE_ATTEMPTS = 4 };

static void read_revision(struct isa *isa);
static int check_tree(const struct isa *isa, const char *pin, struct pto_error *error);

/* The first line of $XDG_CONFIG_HOME/pto/isa, or of ~/.config/pto/isa. */
static char *read_configured(char *file, size_t file_bytes)
{
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    char *text;
    size_t size;

    if (config != NULL && config[0] == '/')
        snprintf(file, file_bytes, "%s/pto/isa", config);
    else if (home != NULL && home[0] == '/')
        snprintf(file, file_bytes, "%s/.config/pto/isa", home);
    else
        return NULL;
    if (file_read(file, PATH_MAX, &text, &size) < 0)
        return NULL;
    text[strcspn(text, "\r\n")] = '\0';
    if (text[0] != '\0')
        return text;
    free(text);
    return NULL;
}

int isa_find(const char *given, struct isa *out, struct pto_error *error)
{
    const char *variable = getenv("PTO_ISA_ROOT");
    char file[PATH_MAX], header[PATH_MAX + 32];
    struct isa isa = { 0 };
    char *configured = NULL;
    const char *root = given;
    const char *where = "--isa";
    int status = PTO_OK;

    *out = isa;
    if (given != NULL && given[0] == '\0')
        return PTO_OK;
    if (root == NULL && variable != NULL && variable[0] != '\0') {
        root = variable;
        where = "PTO_ISA_ROOT";
    }
    if (root == NULL) {
        root = configured = read_configured(file, sizeof(file));
        where = file;
    }
    if (root == NULL)
        return PTO_OK;
    isa.root = realpath(root, NULL);
    isa.where = strdup(where);
    snprintf(header, sizeof(header), "%s/include/pto/pto-inst.hpp",
             isa.root != NULL ? isa.root : root);
    if (access(header, R_OK) != 0)
        status = error_tell(error, PTO_EINVAL,
                            "%s names '%.200s' as the tile library, but %s cannot be read: %s",
                            where, root, header, strerror(errno));
    else if (isa.root == NULL || isa.where == NULL)
        status = error_tell(error, PTO_ENOMEM, "no memory to find the tile library");
    free(configured);
    if (status < 0) {
        isa_free(&isa);
        return status;
    }
    read_revision(&isa);
    *out = isa;
    return PTO_OK;
}

void isa_free(struct isa *isa)
{
    free(isa->root);
    free(isa->where);
    *isa = (struct isa){ 0 };
}

/* ---- revision ---- */

static bool read_line(const char *folder, const char *name, char *line, size_t bytes)
{
    char path[3 * PATH_MAX];
    char *text;
    size_t size;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (file_read(path, 1 << 20, &text, &size) < 0)
        return false;
    snprintf(line, bytes, "%.*s", (int)strcspn(text, "\r\n"), text);
    free(text);
    return true;
}

static bool is_revision(const char *text)
{
    return strspn(text, "0123456789abcdef") >= REVISION_DIGITS;
}

/* A line "REVISION REF" of packed-refs. */
static bool isa_find_packed(const char *folder, const char *ref, char *revision, size_t bytes)
{
    char path[3 * PATH_MAX];
    size_t length = strlen(ref);
    bool is_found = false;
    char *text;
    size_t size;

    snprintf(path, sizeof(path), "%s/packed-refs", folder);
    if (file_read(path, 64 << 20, &text, &size) < 0)
        return false;
    for (char *line = text; *line != '\0' && !is_found;) {
        size_t end = strcspn(line, "\n");

        is_found = is_revision(line) && end == REVISION_DIGITS + 1 + length &&
                   strncmp(line + REVISION_DIGITS + 1, ref, length) == 0;
        if (is_found)
            snprintf(revision, bytes, "%.*s", REVISION_DIGITS, line);
        line += end + (line[end] == '\n');
    }
    free(text);
    return is_found;
}

/* What HEAD stands for, read from the files of git. Nothing is known: "". */
static void read_revision(struct isa *isa)
{
    char folder[PATH_MAX + 16], common[2 * PATH_MAX], line[PATH_MAX], link[PATH_MAX];
    struct stat about;

    snprintf(folder, sizeof(folder), "%s/.git", isa->root);
    if (stat(folder, &about) == 0 && S_ISREG(about.st_mode) && /* a work tree, or a submodule */
        read_line(isa->root, ".git", line, sizeof(line)) && strncmp(line, "gitdir: ", 8) == 0) {
        if (line[8] == '/')
            snprintf(folder, sizeof(folder), "%s", line + 8);
        else
            snprintf(folder, sizeof(folder), "%.2000s/%.2000s", isa->root, line + 8);
    }
    if (!read_line(folder, "HEAD", line, sizeof(line)))
        return;
    snprintf(common, sizeof(common), "%s", folder);
    if (read_line(folder, "commondir", link, sizeof(link)))
        snprintf(common, sizeof(common), link[0] == '/' ? "%.0s%s" : "%s/%s", folder, link);
    if (strncmp(line, "ref: ", 5) == 0) {
        char ref[PATH_MAX];

        snprintf(ref, sizeof(ref), "%s", line + 5);
        if (!read_line(common, ref, line, sizeof(line)) &&
            !isa_find_packed(common, ref, line, sizeof(line)))
            return;
    }
    if (is_revision(line))
        snprintf(isa->revision, sizeof(isa->revision), "%.*s", REVISION_DIGITS, line);
}

/* Whether git sees changes in the headers. Without git there is no telling. */
static int check_changes(const struct isa *isa, struct pto_error *error)
{
    char git[PATH_MAX];
    struct process_params params = { .timeout_ns = 60000000000ull };
    struct process_result result;
    struct words argv = { 0 };
    int status = PTO_OK;

    if (!compiler_find_program("git", git, sizeof(git), NULL))
        return PTO_OK;
    words_add(&argv, git);
    words_add(&argv, "-C");
    words_add(&argv, isa->root);
    words_split(&argv, "--no-optional-locks status --porcelain -- include");
    params.argv = argv.at;
    if (argv.is_short)
        status = PTO_ENOMEM;
    else if (process_run(&params, &result, NULL) == PTO_OK) {
        if (result.code == 0 && result.output_size > 3) /* two letters, a blank, a path */
            status =
                error_tell(error, PTO_ESTALE,
                           "the tile library in %s is at the pinned revision, but its headers "
                           "have been changed: %.*s; undo that, or pin its content "
                           "(sha256:...)",
                           isa->root, (int)strcspn(result.output + 3, "\n"), result.output + 3);
        process_free(&result);
    }
    words_free(&argv);
    return status;
}

int isa_check_pin(const struct isa *isa, const char *pin, bool is_full, struct pto_error *error)
{
    if (pin == NULL)
        return PTO_OK;
    if (isa->root == NULL)
        return error_tell(error, PTO_ENOSUP,
                          "the tile library is pinned to %.100s, but there is none: give --isa DIR "
                          "or set PTO_ISA_ROOT",
                          pin);
    if (strncmp(pin, "sha256:", 7) == 0)
        return check_tree(isa, pin, error);
    if (strlen(pin) != REVISION_DIGITS || !is_revision(pin))
        return error_tell(error, PTO_EINVAL,
                          "'%.100s' is no pin: a git revision has 40 digits, a digest of the "
                          "headers is sha256: and 64 digits",
                          pin);
    if (isa->revision[0] == '\0')
        return error_tell(error, PTO_ESTALE,
                          "the tile library in %s is no git checkout, so the pin %s cannot be "
                          "checked; pin its content (sha256:...)",
                          isa->root, pin);
    if (strcmp(pin, isa->revision) != 0)
        return error_tell(error, PTO_ESTALE,
                          "the tile library in %s is at %s, but the build is pinned to %s; check "
                          "that revision out, or change the pin",
                          isa->root, isa->revision, pin);
    return is_full ? check_changes(isa, error) : PTO_OK;
}

/* ---- the content of all headers ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_folder(const char *path, struct words *names)
{
    DIR *folder = opendir(path);
    struct dirent *entry;

    if (folder == NULL)
        return PTO_ESYSTEM;
    while ((entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            words_add(names, entry->d_name);
    closedir(folder);
    if (names->count != 0)
        qsort(names->at, names->count, sizeof(*names->at), compare_names);
    return names->is_short ? PTO_ENOMEM : PTO_OK;
}

static int digest_folder(struct digest_state *state, const char *path, uint32_t depth)
{
    struct words names = { 0 };
    int status = depth > 32 ? PTO_ESYSTEM : list_folder(path, &names);

    for (uint32_t i = 0; status == PTO_OK && i < names.count; i++) {
        char inner[PATH_MAX];
        struct stat about;
        char *bytes;
        size_t size;

        snprintf(inner, sizeof(inner), "%.*s/%s", PATH_MAX - 300, path, names.at[i]);
        digest_add_text(state, names.at[i]);
        if (stat(inner, &about) == 0 && S_ISDIR(about.st_mode)) {
            status = digest_folder(state, inner, depth + 1);
            digest_add_text(state, NULL); /* its end */
        } else {
            struct digest content;

            status = file_read(inner, HEADER_MAX, &bytes, &size);
            if (status == PTO_OK) {
                digest_of(bytes, size, &content);
                digest_add(state, &content, sizeof(content));
                free(bytes);
            }
        }
    }
    words_free(&names);
    return status;
}

static int check_tree(const struct isa *isa, const char *pin, struct pto_error *error)
{
    char folder[PATH_MAX + 16], hex[DIGEST_HEX];
    struct digest_state state;
    struct digest digest;
    int status;

    snprintf(folder, sizeof(folder), "%s/include", isa->root);
    digest_begin(&state);
    status = digest_folder(&state, folder, 0);
    digest_end(&state, &digest);
    if (status < 0)
        return error_tell(error, status, "%s cannot be read: %s", folder, strerror(errno));
    digest_to_hex(&digest, hex);
    if (strcmp(pin + 7, hex) == 0)
        return PTO_OK;
    return error_tell(error, PTO_ESTALE,
                      "the headers of the tile library in %.200s are sha256:%s, but the build is "
                      "pinned to %.80s",
                      isa->root, hex, pin);
}

/* ---- what older compilers do not read ---- */

/*
 * A static_assert(false) in a template that is never used is an error up to GCC 12
 * and clang 16. The copy makes it depend on the template's parameter.
 */
static char *patch_assertion(const char *text, size_t size)
{
    static const char what[] = "static_assert(false,";
    static const char instead[] = "static_assert(sizeof(DType) == 0,";
    const char *at = memmem(text, size, what, strlen(what));
    struct text copy = { 0 };

    if (at == NULL || memmem(text, size, "typename DType", 14) == NULL)
        return NULL;
    while (at != NULL) {
        text_add(&copy, text, (size_t)(at - text));
        text_format(&copy, "%s", instead);
        size -= (size_t)(at - text) + strlen(what);
        text = at + strlen(what);
        at = memmem(text, size, what, strlen(what));
    }
    text_add(&copy, text, size);
    return copy.is_short ? NULL : copy.bytes;
}

int isa_patch(const struct isa *isa, const struct compiler *compiler, char **text_out)
{
    uint32_t first = compiler->is_clang ? 17 : 13; /* that reads it */
    char path[PATH_MAX + 64];
    char *text;
    size_t size;

    *text_out = NULL;
    if (isa->root == NULL || compiler->major >= first)
        return PTO_OK;
    snprintf(path, sizeof(path), "%s/include/pto/cpu/TReduceIdx.hpp", isa->root);
    if (file_read(path, HEADER_MAX, &text, &size) < 0)
        return PTO_OK; /* another revision, without this file */
    *text_out = patch_assertion(text, size);
    free(text);
    return PTO_OK;
}

/* Nobody else can write to it, and there is nothing in it but `name`. */
static bool is_sole(const char *folder, const char *name)
{
    struct words names = { 0 };
    struct stat about;
    bool is_so = lstat(folder, &about) == 0 && S_ISDIR(about.st_mode) && store_is_own(&about) &&
                 list_folder(folder, &names) == PTO_OK && names.count == 1 &&
                 strcmp(names.at[0], name) == 0;

    words_free(&names);
    return is_so;
}

/* DIR/pto/cpu/TReduceIdx.hpp has this text, and there is no other file that a compiler could find. */
static bool isa_is_intact(const char *dir, const char *text)
{
    char path[PATH_MAX + 64];
    struct stat about;
    char *bytes;
    size_t size;
    bool is_same;

    if (!is_sole(dir, "pto"))
        return false;
    snprintf(path, sizeof(path), "%s/pto", dir);
    if (!is_sole(path, "cpu"))
        return false;
    snprintf(path, sizeof(path), "%s/pto/cpu", dir);
    if (!is_sole(path, "TReduceIdx.hpp"))
        return false;
    snprintf(path, sizeof(path), "%s/pto/cpu/TReduceIdx.hpp", dir);
    if (lstat(path, &about) != 0 || !store_is_own(&about) ||
        file_read(path, HEADER_MAX, &bytes, &size) < 0)
        return false;
    is_same = size == strlen(text) && memcmp(bytes, text, size) == 0;
    free(bytes);
    return is_same;
}

/* Whole, under a name of its own. */
static bool write_beside(const char *name, const char *text)
{
    char path[2 * PATH_MAX];

    snprintf(path, sizeof(path), "%s/pto/cpu", name);
    if (file_make_folder(path) < 0)
        return false;
    snprintf(path, sizeof(path), "%s/pto/cpu/TReduceIdx.hpp", name);
    return file_write_private(path, text, strlen(text)) == PTO_OK;
}

bool isa_place(const char *folder, const char *text, char **dir_out)
{
    char dir[PATH_MAX], name[PATH_MAX], hex[DIGEST_HEX];
    struct digest digest;
    struct stat about;

    digest_of(text, strlen(text), &digest);
    digest_to_hex(&digest, hex);
    if (file_make_folder(folder) < 0 || stat(folder, &about) != 0 || !store_is_own(&about) ||
        snprintf(dir, sizeof(dir), "%s/%.32s", folder, hex) >= (int)sizeof(dir))
        return false;
    for (int attempt = 0; attempt < PLACE_ATTEMPTS; attempt++) {
        if (isa_is_intact(dir, text)) {
            *dir_out = strdup(dir);
            return *dir_out != NULL;
        }
        work_remove(dir); /* whatever it is */
        snprintf(name, sizeof(name), "%.4000s/new-XXXXXX", folder);
        if (mkdtemp(name) == NULL)
            return false;
        if (!write_beside(name, text) || rename(name, dir) != 0) {
            int number = errno;

            work_remove(name);
            errno = number;
            if (number != EEXIST && number != ENOTEMPTY) /* another build was faster */
                return false;
        }
    }
    return false;
}

/* ---- bfloat16 ---- */

/* Behind a comment or a literal that begins at `at`; `at` itself if none does. */
static const char *skip_quiet(const char *at, const char *end)
{
    if (at + 1 < end && at[0] == '/' && at[1] == '/') {
        while (at < end && *at != '\n')
            at += at + 1 < end && at[0] == '\\' ? 2 : 1;
        return at < end ? at : end;
    }
    if (at + 1 < end && at[0] == '/' && at[1] == '*') {
        const char *close = memmem(at + 2, (size_t)(end - at - 2), "*/", 2);

        return close != NULL ? close + 2 : end;
    }
    if (at[0] == '"') {
        for (at++; at < end && *at != '"' && *at != '\n'; at++)
            at += *at == '\\' && at + 1 < end;
        return at < end ? at + 1 : end;
    }
    return at;
}

bool isa_uses_bfloat16(const char *text, size_t size)
{
    static const char name[] = "bfloat16_t";
    const char *end = text + size;

    for (const char *at = text; at < end;) {
        const char *behind = skip_quiet(at, end);

        if (behind != at) {
            at = behind;
        } else if (isalpha((unsigned char)*at) || *at == '_') {
            const char *word = at;

            while (at < end && (isalnum((unsigned char)*at) || *at == '_'))
                at++;
            if ((size_t)(at - word) == strlen(name) && memcmp(word, name, strlen(name)) == 0)
                return true;
        } else {
            at++;
        }
    }
    return false;
}
