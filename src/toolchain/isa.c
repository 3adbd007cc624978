/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for memmem */
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

enum { HEADER_MAX = 16 << 20, REVISION_DIGITS = 40 };

static void read_revision(struct isa *isa);
static int check_tree(const struct isa *isa, const char *pin, struct pto_error *error);

/* Returns the first line of $XDG_CONFIG_HOME/pto/isa, or of ~/.config/pto/isa. */
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
        status = error_setf(error, PTO_EINVAL,
                            "%s names '%.200s' as the tile library, but %s cannot be read: %s",
                            where, root, header, strerror(errno));
    else if (isa.root == NULL || isa.where == NULL)
        status = error_setf(error, PTO_ENOMEM, "no memory to find the tile library");
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

/* Finds the revision of a reference in git's file packed-refs, whose lines are "REVISION REF". */
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

/* Reads the commit of HEAD from the files of git; "" if it is unknown. */
static void read_revision(struct isa *isa)
{
    char folder[PATH_MAX + 16], common[2 * PATH_MAX], line[PATH_MAX], link[PATH_MAX];
    struct stat about;

    snprintf(folder, sizeof(folder), "%s/.git", isa->root);
    /* In a work tree or a submodule, HEAD is in another folder, which a file names. */
    if (stat(folder, &about) == 0 && S_ISREG(about.st_mode) &&
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

/* Sets whether git finds changes in the headers; without git that is unknown. */
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
        /* A line of git status: two letters, a space, a path. */
        if (result.code == 0 && result.output_size > 3)
            status =
                error_setf(error, PTO_ESTALE,
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
        return error_setf(
            error, PTO_ENOSUP,
            "the tile library is pinned to %.100s, but none was found: give --isa DIR "
            "or set PTO_ISA_ROOT",
            pin);
    if (strncmp(pin, "sha256:", 7) == 0)
        return check_tree(isa, pin, error);
    if (strlen(pin) != REVISION_DIGITS || !is_revision(pin))
        return error_setf(error, PTO_EINVAL,
                          "'%.100s' is not a pin: a git revision has 40 digits, a digest of the "
                          "headers is sha256: and 64 digits",
                          pin);
    if (isa->revision[0] == '\0')
        return error_setf(error, PTO_ESTALE,
                          "the tile library in %s is not a git checkout, so the pin %s cannot be "
                          "checked; pin its content (sha256:...)",
                          isa->root, pin);
    if (strcmp(pin, isa->revision) != 0)
        return error_setf(error, PTO_ESTALE,
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

int isa_list_folder(const char *path, struct words *names)
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
    int status = depth > 32 ? PTO_ESYSTEM : isa_list_folder(path, &names);

    for (uint32_t i = 0; status == PTO_OK && i < names.count; i++) {
        char inner[PATH_MAX];
        struct stat about;
        char *bytes;
        size_t size;

        snprintf(inner, sizeof(inner), "%.*s/%s", PATH_MAX - 300, path, names.at[i]);
        digest_add_text(state, names.at[i]);
        if (stat(inner, &about) == 0 && S_ISDIR(about.st_mode)) {
            status = digest_folder(state, inner, depth + 1);
            /*
             * mark the end of the folder, so that folders with different structures have different
             * digests
             */
            digest_add_text(state, NULL);
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
        return error_setf(error, status, "%s cannot be read: %s", folder, strerror(errno));
    digest_to_hex(&digest, hex);
    if (strcmp(pin + 7, hex) == 0)
        return PTO_OK;
    return error_setf(error, PTO_ESTALE,
                      "the headers of the tile library in %.200s are sha256:%s, but the build is "
                      "pinned to %.80s",
                      isa->root, hex, pin);
}

/* ---- bfloat16 ---- */

/* Returns the end of a comment or literal that begins at `at`; `at` itself if none does. */
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
        const char *next = skip_quiet(at, end);

        if (next != at) {
            at = next;
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
