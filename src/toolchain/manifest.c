/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for memmem */
#endif

#include "toolchain/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "artefact/artefact.h"

enum { DIFFERENCES_MAX = 4, SHORT_DIGITS = 12 };

void manifest_write(const struct manifest_params *params, struct text *out)
{
    static const char *const kinds[] = { "kernel", "orchestration", "host" };
    const struct pto_source *source = params->source;
    uint32_t count = scan_entry_count(params->scan);
    char hex[DIGEST_HEX];

    for (uint32_t i = 0; i < count; i++) {
        const struct scan_entry *entry = scan_entry_at(params->scan, i);

        if (entry->is_present) {
            digest_to_hex(&entry->digest, hex);
            text_format(out, "%s %s %s\n", i == 0 ? "source" : "file", entry->path, hex);
        } else {
            text_format(out, "absent %s\n", entry->path);
        }
    }
    text_format(out, "platform %s\nkind %s%s%s\nabi %d\n", params->platform, kinds[source->kind],
                source->kind == PTO_SOURCE_KERNEL ? " " : "",
                source->kind == PTO_SOURCE_KERNEL ? pto_core_name(source->core) : "", ARTEFACT_ABI);
    for (uint32_t i = 0; i < params->command->flags.count; i++)
        text_format(out, "flag %s\n", params->command->flags.at[i]);
    for (uint32_t i = 0; i < params->variables->count; i++)
        text_format(out, "env %s\n", params->variables->at[i]);
    for (uint32_t i = 0; i < params->compiler->tool_count; i++) {
        digest_to_hex(&params->compiler->tools[i].digest, hex);
        text_format(out, "compiler %s %s\n", params->compiler->tools[i].path, hex);
    }
    for (uint32_t i = 0; i < params->more->count; i++)
        text_format(out, "more %s\n", params->more->at[i]);
}

void manifest_add_output(struct text *manifest, const char *output)
{
    while (*output != '\0') {
        size_t length = strcspn(output, "\n");

        text_format(manifest, "output %.*s\n", (int)length, output);
        output += length + (output[length] == '\n');
    }
}

void manifest_output(const char *manifest, struct text *out)
{
    while (*manifest != '\0') {
        size_t length = strcspn(manifest, "\n");

        if (strncmp(manifest, "output ", 7) == 0)
            text_format(out, "%.*s\n", (int)length - 7, manifest + 7);
        manifest += length + (manifest[length] == '\n');
    }
}

/* ---- differences ---- */

/* A parsed line: `word PATH HASH`, `word PATH`, or `word ANYTHING`. */
struct line {
    const char *at;
    size_t word;      /* length of `word` */
    size_t name;      /* length of the text after the word, without the hash at its end */
    const char *hash; /* NULL: the line has no hash */
};

struct lines {
    struct line *at;
    size_t count;
};

static bool has_hash(const char *at, size_t word)
{
    return (word == 4 && memcmp(at, "file", 4) == 0) ||
           (word == 6 && memcmp(at, "source", 6) == 0) ||
           (word == 8 && memcmp(at, "compiler", 8) == 0);
}

static struct line split_line(const char *at, size_t length)
{
    struct line line = { .at = at, .word = strcspn(at, " \n") };

    line.name = length > line.word ? length - line.word - 1 : 0;
    if (has_hash(at, line.word) && line.name > DIGEST_HEX) {
        line.name -= DIGEST_HEX;
        line.hash = at + line.word + 1 + line.name + 1;
    }
    return line;
}

/*
 * Compares files and probes by path first, so that a file that has appeared is paired with the
 * record of its earlier absence.
 */
static int manifest_compare_lines(const void *a, const void *b)
{
    const struct line *one = a;
    const struct line *other = b;
    size_t least = one->name < other->name ? one->name : other->name;
    int order = memcmp(one->at + one->word + 1, other->at + other->word + 1, least);

    if (order != 0)
        return order;
    if (one->name != other->name)
        return one->name < other->name ? -1 : 1;
    return 0;
}

static struct lines split_lines(const char *text)
{
    struct lines lines = { 0 };
    size_t count = 1;

    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        count++;
    lines.at = malloc(count * sizeof(*lines.at));
    while (lines.at != NULL && *text != '\0') {
        size_t length = strcspn(text, "\n");

        if (length != 0 && strncmp(text, "output ", 7) != 0 && strchr(text, ' ') != NULL)
            lines.at[lines.count++] = split_line(text, length);
        text += length + (text[length] == '\n');
    }
    if (lines.count != 0)
        qsort(lines.at, lines.count, sizeof(*lines.at), manifest_compare_lines);
    return lines;
}

static bool is_word(const struct line *line, const char *word)
{
    return line->word == strlen(word) && memcmp(line->at, word, line->word) == 0;
}

static bool is_file(const struct line *line)
{
    return is_word(line, "file") || is_word(line, "source");
}

#define NAME(line) (int)(line)->name, (line)->at + (line)->word + 1

/* Describes a line that only one manifest has. */
static void describe_line(const struct line *line, bool is_new, struct text *out)
{
    if (is_file(line))
        text_format(out, is_new ? "%.*s is now included (%.*s)" : "%.*s is no longer included",
                    NAME(line), SHORT_DIGITS, line->hash != NULL ? line->hash : "");
    else if (is_word(line, "compiler"))
        text_format(out,
                    is_new ? "%.*s is now part of the compiler (%.*s)"
                           : "%.*s is no longer part of the compiler",
                    NAME(line), SHORT_DIGITS, line->hash != NULL ? line->hash : "");
    else if (is_word(line, "absent"))
        text_format(out, is_new ? "%.*s is now searched for" : "%.*s is no longer searched for",
                    NAME(line));
    else
        text_format(out, is_new ? "%.*s %.*s is new" : "%.*s %.*s is gone", (int)line->word,
                    line->at, NAME(line));
}

static bool describe_pair(const struct line *old, const struct line *new, struct text *out)
{
    if (old->hash != NULL && new->hash != NULL) {
        if (memcmp(old->hash, new->hash, DIGEST_HEX - 1) == 0)
            return false;
        text_format(out, "%.*s changed (%.*s -> %.*s)", NAME(new), SHORT_DIGITS, old->hash,
                    SHORT_DIGITS, new->hash);
        return true;
    }
    if (is_word(old, "absent") && is_file(new)) {
        text_format(out, "%.*s has appeared (%.*s)", NAME(new), SHORT_DIGITS, new->hash);
        return true;
    }
    if (is_file(old) && is_word(new, "absent")) {
        text_format(out, "%.*s is gone (%.*s)", NAME(new), SHORT_DIGITS, old->hash);
        return true;
    }
    return false;
}

/*
 * Whether to list this line if only one manifest has it. Lines that only follow from another listed
 * difference are left out.
 */
static bool is_worth_listing(const struct line *line)
{
    const char *name = line->at + line->word + 1;

    if (is_word(line, "compiler") && memmem(name, line->name, ".so", 3) != NULL)
        return false; /* a library of the compiler: the program that loads it is already listed */
    return !is_word(line, "absent") && !is_word(line, "more");
}

static uint32_t walk(const struct lines *old, const struct lines *new, bool is_pairs,
                     uint32_t count, struct text *out)
{
    size_t i = 0, k = 0;

    while (i < old->count || k < new->count) {
        int order = i == old->count   ? 1
                    : k == new->count ? -1
                                      : manifest_compare_lines(&old->at[i], &new->at[k]);
        const struct line *line = order < 0 ? &old->at[i] : &new->at[k];
        struct text one = { 0 };
        bool is_listed;

        if (order == 0) {
            is_listed = is_pairs && describe_pair(&old->at[i], &new->at[k], &one);
        } else {
            is_listed = !is_pairs && is_worth_listing(line);
            if (is_listed)
                describe_line(line, order > 0, &one);
        }
        i += order <= 0;
        k += order >= 0;
        if (is_listed && count < DIFFERENCES_MAX)
            text_format(out, "%s%s", count != 0 ? "; " : "", one.bytes != NULL ? one.bytes : "");
        count += is_listed;
        text_free(&one);
    }
    return count;
}

bool manifest_compare(const char *old, const char *new, struct text *out)
{
    struct lines before = split_lines(old);
    struct lines after = split_lines(new);
    uint32_t count = 0;

    if (before.at != NULL && after.at != NULL) {
        count = walk(&before, &after, true, 0, out);
        count = walk(&before, &after, false, count, out);
    }
    if (count > DIFFERENCES_MAX)
        text_format(out, "; and %u more", count - DIFFERENCES_MAX);
    free(before.at);
    free(after.at);
    return count != 0;
}
