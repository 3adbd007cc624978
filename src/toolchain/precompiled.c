/* SPDX-License-Identifier: Apache-2.0 */
#include "toolchain/precompiled.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "toolchain/process.h"

enum {
    HEADERS_MAX = 4,
    LINE_MAX_BYTES = 256,
    SOURCE_MAX = 64 << 20,
    /* number of the first work folder, above those of sources and of the overlay */
    PRECOMPILED_WORK = 1026,
    USERS_TO_LOAD = 2, /* below, reading it from the store takes as long as it saves */
    USERS_TO_MAKE = 4  /* below, compiling it takes longer than it saves in a few builds */
};

#define ISA_INCLUDE "#include <pto/pto-inst.hpp>"
#define KEY_MACRO "pto_precompiled_%s"

/* ---- the lines that sources begin with ---- */

/* Skips white space and comments, but no comment that may continue in the next line. */
static const char *skip_blank(const char *at)
{
    for (;;) {
        const char *end;

        at += strspn(at, " \t\r\n");
        if (at[0] == '/' && at[1] == '/' && at[strcspn(at, "\\\n")] != '\\')
            at += strcspn(at, "\n");
        else if (at[0] == '/' && at[1] == '*' && (end = strstr(at + 2, "*/")) != NULL)
            at = end + 2;
        else
            return at;
    }
}

struct line_reader {
    const char *at;
    char line[LINE_MAX_BYTES]; /* the last directive */
    struct text text;          /* all of them */
};

/*
 * Reads the next directive, without comments. False: there is something else, or the line does not
 * end where it seems to.
 */
static bool next_line(struct line_reader *reader)
{
    const char *from = skip_blank(reader->at);
    size_t length = strcspn(from, "\n");
    char *line = reader->line;

    if (from[0] != '#' || length >= LINE_MAX_BYTES)
        return false;
    reader->at = from + length;
    memcpy(line, from, length);
    line[length] = '\0';
    if (strchr(line, '\\') != NULL || strstr(line, "/*") != NULL || strstr(line, "?\?/") != NULL)
        return false;
    if (strstr(line, "//") != NULL)
        *strstr(line, "//") = '\0';
    for (length = strlen(line); length != 0 && isspace((unsigned char)line[length - 1]);)
        line[--length] = '\0';
    text_format(&reader->text, "%s\n", line);
    return true;
}

static bool next_is(struct line_reader *reader, const char *line)
{
    return next_line(reader) && strcmp(reader->line, line) == 0;
}

/* Whether the line defines `name` as a macro without parameters. */
static bool is_define(const char *line, const char *name)
{
    size_t length = strlen(name);

    return strncmp(line, "#define ", 8) == 0 && strncmp(line + 8, name, length) == 0 &&
           (line[8 + length] == '\0' || line[8 + length] == ' ');
}

/*
 * Reads the rest of `#ifndef NAME`: a definition, or two of which a condition takes one. Whatever
 * the condition, the name is defined then.
 */
static bool take_definition(struct line_reader *reader, const char *name)
{
    if (!next_line(reader))
        return false;
    if (strncmp(reader->line, "#if", 3) == 0)
        return next_line(reader) && is_define(reader->line, name) && next_is(reader, "#else") &&
               next_line(reader) && is_define(reader->line, name) && next_is(reader, "#endif") &&
               next_is(reader, "#endif");
    return is_define(reader->line, name) && next_is(reader, "#endif");
}

/* Whether the line includes a header of the standard library, which may be read twice. */
static bool is_standard(const char *line)
{
    static const char include[] = "#include <";
    size_t length = sizeof(include) - 1;

    if (strncmp(line, include, length) != 0)
        return false;
    length += strspn(line + length, "abcdefghijklmnopqrstuvwxyz_0123456789");
    return strcmp(line + length, ">") == 0;
}

/*
 * Reads the lines up to the include of the tile library. False: there are others than includes of
 * the standard library and names that are defined unless they are already. The source is compiled
 * unchanged, so these lines are read a second time, and must do nothing then. Therefore the names
 * are checked after the includes: a header could have removed one.
 */
static bool take_lines(struct line_reader *reader)
{
    char name[LINE_MAX_BYTES];
    struct text checks = { 0 };
    bool is_taken = false;

    while (!is_taken && next_line(reader)) {
        is_taken = strcmp(reader->line, "#include <pto/pto-inst.hpp>") == 0;
        if (is_taken || is_standard(reader->line))
            continue;
        if (strncmp(reader->line, "#ifndef ", 8) != 0)
            break;
        snprintf(name, sizeof(name), "%s", reader->line + 8);
        text_format(&checks, "#ifndef %s\n#error\n#endif\n", name);
        if (!take_definition(reader, name))
            break;
    }
    text_add(&reader->text, checks.bytes, checks.size);
    is_taken = is_taken && !reader->text.is_short && !checks.is_short;
    text_free(&checks);
    return is_taken;
}

/* ---- which units share them ---- */

/* Only GCC's compiled headers are known not to change an object. */
static bool is_eligible(const struct unit *unit)
{
    const struct words *flags = &unit->command.flags;

    if (unit->obstacle != NULL || unit->entry.bytes != NULL || unit->compiler->is_clang ||
        unit->compiler->target != COMPILER_HOST || unit->compiler->language != COMPILER_CXX ||
        !unit->command.uses_isa || unit->command.forced.count != 0)
        return false;
    for (uint32_t i = 0; i < flags->count; i++)
        if (strncmp(flags->at[i], "-g", 2) == 0 && strcmp(flags->at[i], "-g1") != 0)
            return false;
    return true;
}

static struct precompiled *find_header(struct build *build, const struct unit *unit,
                                       struct text *text)
{
    struct precompiled *header;

    for (uint32_t i = 0; i < build->precompiled_count; i++) {
        header = &build->precompiled[i];
        if (header->like->compiler == unit->compiler && header->text.size == text->size &&
            memcmp(header->text.bytes, text->bytes, text->size) == 0 &&
            words_are_equal(&header->like->command.flags, &unit->command.flags))
            return header;
    }
    if (build->precompiled_count == HEADERS_MAX)
        return NULL;
    header = &build->precompiled[build->precompiled_count++];
    *header = (struct precompiled){ .like = unit, .text = *text };
    *text = (struct text){ 0 };
    return header;
}

void precompiled_find(struct build *build, struct unit *units, uint32_t count)
{
    build->precompiled = calloc(HEADERS_MAX, sizeof(*build->precompiled));
    for (uint32_t i = 0; build->precompiled != NULL && i < count; i++) {
        struct line_reader reader = { 0 };
        struct precompiled *header;
        char *source;
        size_t size;

        if (!is_eligible(&units[i]) ||
            file_read(units[i].command.source, SOURCE_MAX, &source, &size) < 0)
            continue;
        reader.at = source;
        if (take_lines(&reader) && (header = find_header(build, &units[i], &reader.text)) != NULL) {
            header->count++;
            units[i].precompiled = header;
        }
        text_free(&reader.text);
        free(source);
    }
}

/* ---- the compiled form ---- */

/* A header on its way to its compiled form. */
struct making {
    struct build *build;
    struct precompiled *header;
    struct scan *scan;
    char path[PATH_MAX]; /* of the lines */
    char made[PATH_MAX]; /* of their compiled form */
};

/*
 * Computes the key from what the lines can see now. Their own file is not part of it: its path
 * differs in each build. False: the lines see more than libraries, or what only a compiler can
 * resolve.
 */
static bool make_key(struct making *making, struct scan_memo *memo, struct digest *key)
{
    const struct unit *like = making->header->like;
    struct digest_state state;

    scan_destroy(making->scan);
    making->scan = NULL;
    if (unit_scan_file(like, memo, making->path, &making->scan) < 0)
        return false;
    for (uint32_t i = 0; i < scan_open_count(making->scan); i++)
        if (scan_open_at(making->scan, i)->kind != SCAN_OPEN_INCLUDE)
            return false;
    digest_begin(&state);
    digest_add_text(&state, "precompiled 1");
    digest_add_text(&state, making->header->text.bytes);
    unit_add_command(making->build, like, &state);
    for (uint32_t i = 1; i < scan_entry_count(making->scan); i++) {
        const struct scan_entry *entry = scan_entry_at(making->scan, i);

        if (entry->is_present && !unit_is_library(making->build, like, entry->path))
            return false;
        digest_add_text(&state, entry->path);
        digest_add_text(&state, entry->is_present ? "present" : NULL);
        if (entry->is_present)
            digest_add(&state, &entry->digest, sizeof(entry->digest));
    }
    digest_end(&state, key);
    return scan_entry_count(making->scan) > 1;
}

/*
 * Writes the lines. They begin with a declaration, because GCC takes no other precompiled header
 * after one, such as an old one that lies next to a header.
 */
static bool write_lines(const struct making *making, const struct digest *key)
{
    struct text text = { 0 };
    char hex[DIGEST_HEX];
    bool is_written;

    text_format(&text, "struct pto_precompiled;\n%s", making->header->text.bytes);
    if (key != NULL) {
        digest_to_hex(key, hex);
        text_format(&text, "#define " KEY_MACRO "\n", hex);
    }
    is_written = !text.is_short && file_write(making->path, text.bytes, text.size) == PTO_OK;
    text_free(&text);
    return is_written;
}

static bool precompiled_run_compiler(const struct making *making, const char *work)
{
    const struct unit *like = making->header->like;
    struct words argv = { 0 };
    struct process_params params = { .env = making->build->env.at,
                                     .stop = build_is_stopped,
                                     .context = making->build };
    struct process_result result = { 0 };
    bool is_quiet;

    command_precompile_words(&like->command, like->compiler, work, &argv);
    params.argv = argv.at;
    /* what the compiler says of these lines would be lost in the other compilations */
    is_quiet = !argv.is_short && process_run(&params, &result, NULL) == PTO_OK &&
               result.code == 0 && result.output_size == 0;
    process_free(&result);
    words_free(&argv);
    return is_quiet;
}

/* Compiles the lines. False: failed, or the result need not belong to the key. */
static bool compile_lines(struct making *making, const char *work)
{
    struct scan_memo *memo = NULL;
    struct words unknown = { 0 };
    struct digest now;
    char rules[PATH_MAX];
    bool is_valid;

    snprintf(rules, sizeof(rules), "%.4000s/" COMMAND_DEPENDENCIES, work);
    is_valid = precompiled_run_compiler(making, work) &&
               unit_list_unknown(making->build, making->scan, rules, &unknown) == PTO_OK &&
               unknown.count == 0 && !unknown.is_short && scan_memo_create(&memo) == PTO_OK &&
               make_key(making, memo, &now) && digest_is_equal(&now, &making->header->key);
    words_free(&unknown);
    scan_destroy(making->scan); /* before its memo */
    making->scan = NULL;
    scan_memo_destroy(memo);
    return is_valid;
}

/* Puts the compiled form into the work folder, from the store or by compiling it. */
static bool get_compiled(struct making *making, const char *work)
{
    struct precompiled *header = making->header;
    struct store *store = making->build->store;
    struct store_entry entry;
    char *bytes;
    size_t size;
    bool is_there;

    if (store_get(store, &header->key, &entry) == PTO_OK) {
        is_there = file_write(making->made, entry.bytes, entry.size) == PTO_OK;
        store_entry_free(&entry);
        return is_there;
    }
    if (header->count < USERS_TO_MAKE || !compile_lines(making, work) ||
        file_read(making->made, SIZE_MAX / 2, &bytes, &size) < 0)
        return false;
    (void)store_put(store, &header->key, bytes, size, "precompiled header\n", NULL);
    free(bytes);
    return true;
}

void precompiled_make(struct build *build, struct unit *units, uint32_t index)
{
    struct precompiled *header = &build->precompiled[index];
    struct making making = { .build = build, .header = header };
    char *work = NULL;
    struct text note = { 0 };

    (void)units;
    if (header->count < USERS_TO_LOAD ||
        build_work_folder(build, PRECOMPILED_WORK + index, &work, NULL) < 0)
        return;
    snprintf(making.path, sizeof(making.path), "%.4000s/" COMMAND_PREFIX, work);
    snprintf(making.made, sizeof(making.made), "%.4000s/" COMMAND_PRECOMPILED, work);
    if (write_lines(&making, NULL) && make_key(&making, build->memo, &header->key) &&
        write_lines(&making, &header->key) && get_compiled(&making, work)) {
        header->folder = work;
        work = NULL;
        text_format(&note, "%u sources begin with one precompiled header", header->count);
    }
    if (build->params->is_explained && note.bytes != NULL)
        build_notify(build, PTO_BUILD_NOTE, NULL, note.bytes);
    text_free(&note);
    scan_destroy(making.scan);
    free(work);
}

void precompiled_free(struct build *build)
{
    for (uint32_t i = 0; i < build->precompiled_count; i++) {
        text_free(&build->precompiled[i].text);
        free(build->precompiled[i].folder);
    }
    free(build->precompiled);
}

const char *precompiled_folder(const struct unit *unit)
{
    return unit->precompiled != NULL ? unit->precompiled->folder : NULL;
}

void precompiled_add_check(const struct unit *unit, struct text *out)
{
    char hex[DIGEST_HEX];

    if (precompiled_folder(unit) == NULL) /* mutation: trust-header */
        return;
    digest_to_hex(&unit->precompiled->key, hex);
    text_format(out, "#ifndef " KEY_MACRO "\n#error\n#endif\n#undef " KEY_MACRO "\n", hex, hex);
}
