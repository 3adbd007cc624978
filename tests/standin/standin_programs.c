/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of programs that the vendor's runtime reads: the description of a program for the control
 * processor, which is JSON with any number of ops (json_parse.cc of the published runtime), and the
 * symbols of a program for cores (elf.cc, program.cc). The rules are those of versions 8.5.0 to
 * 9.2.0.
 */
#include <ctype.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/standin.h"

enum { DEPTH_MAX = 64, STRING_MAX = ENTRY_NAME };

static void copy_text(char *to, size_t room, const char *from)
{
    snprintf(to, room, "%.*s", (int)room - 1, from);
}

static struct entry *add_entry(struct entry **list, const char *name)
{
    struct entry *e = calloc(1, sizeof(*e));

    if (e == NULL)
        abort();
    copy_text(e->name, sizeof(e->name), name);
    e->next = *list;
    *list = e;
    return e;
}

void standin_free_entries(struct entry *list)
{
    while (list != NULL) {
        struct entry *next = list->next;

        free(list);
        list = next;
    }
}

struct entry *standin_find_entry(struct entry *list, const char *name)
{
    while (list != NULL && strcmp(list->name, name) != 0)
        list = list->next;
    return list;
}

/* ---- JSON ---- */

/* A document that is read from its beginning, with the path of the member that is being read. */
struct json {
    const char *at;
    uint32_t depth;
    char path[3][STRING_MAX]; /* op, "opInfo", member */
    struct entry *ops;
    struct entry *op; /* op that is being read; NULL: it was dropped, or has not begun */
};

static bool read_value(struct json *j);

static void skip_space(struct json *j)
{
    j->at += strspn(j->at, " \t\r\n");
}

static bool take(struct json *j, char wanted)
{
    skip_space(j);
    if (*j->at != wanted)
        return false;
    j->at++;
    return true;
}

/*
 * Reads a string up to its closing quote. It is truncated to the maximum length of a name; a
 * character that is not ASCII becomes one that no name can have.
 */
static bool read_string(struct json *j, char text[STRING_MAX])
{
    static const char escape[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    size_t length = 0;

    if (!take(j, '"'))
        return false;
    while (*j->at != '"') {
        char c = *j->at++;

        if ((unsigned char)c < ' ')
            return false;
        if (c == '\\' && *j->at == 'u') {
            char digits[5] = "";

            snprintf(digits, sizeof(digits), "%.4s", j->at + 1);
            if (strspn(digits, "0123456789abcdefABCDEF") != 4)
                return false;
            j->at += 5;
            c = strtoul(digits, NULL, 16) < 128 ? (char)strtoul(digits, NULL, 16) : '?';
        } else if (c == '\\') {
            const char *found = *j->at != '\0' ? strchr(escape, *j->at++) : NULL;

            if (found == NULL)
                return false;
            c = meaning[found - escape];
        }
        if (length < STRING_MAX - 1)
            text[length++] = c;
    }
    text[length] = '\0';
    j->at++;
    return true;
}

/*
 * Stores the value of the member that was read; NULL: it is not a string. If the member must be a
 * string, that drops the op.
 */
static void note_member(struct json *j, const char *value)
{
    const char *member = j->path[2];

    if (j->depth != 3 || strcmp(j->path[1], "opInfo") != 0 || j->op == NULL)
        return;
    if (strcmp(member, "functionName") != 0 && strcmp(member, "kernelSo") != 0 &&
        strcmp(member, "opKernelLib") != 0 && strcmp(member, "userDefined") != 0)
        return; /* member that the runtime does not read */
    if (value == NULL)
        j->op->is_dropped = true;
    else if (member[0] == 'f')
        copy_text(j->op->function, sizeof(j->op->function), value);
    else if (member[0] == 'k')
        copy_text(j->op->so, sizeof(j->op->so), value);
    else if (member[0] == 'o')
        copy_text(j->op->library, sizeof(j->op->library), value);
    else
        j->op->is_custom = strcmp(value, "True") == 0;
}

/* An op exists as soon as it has an opInfo. If two ops have the same name, the last one counts. */
static void note_object(struct json *j)
{
    if (j->depth != 2 || strcmp(j->path[1], "opInfo") != 0)
        return;
    j->op = standin_find_entry(j->ops, j->path[0]);
    if (j->op == NULL)
        j->op = add_entry(&j->ops, j->path[0]);
}

static bool read_object(struct json *j)
{
    char key[STRING_MAX];

    note_object(j);
    if (!take(j, '{'))
        return false;
    if (take(j, '}'))
        return true;
    do {
        if (!read_string(j, key) || !take(j, ':') || j->depth >= DEPTH_MAX)
            return false;
        if (j->depth < 3)
            copy_text(j->path[j->depth], STRING_MAX, key);
        j->depth++;
        if (!read_value(j))
            return false;
        j->depth--;
    } while (take(j, ','));
    return take(j, '}');
}

static bool read_array(struct json *j)
{
    bool is_right;

    if (!take(j, '['))
        return false;
    if (take(j, ']'))
        return true;
    j->depth += 3; /* deeper than all members that are read */
    do {
        is_right = j->depth < DEPTH_MAX && read_value(j);
    } while (is_right && take(j, ','));
    j->depth -= 3;
    return is_right && take(j, ']');
}

/* A number, true, false or null. */
static bool read_word(struct json *j)
{
    static const char *const words[] = { "true", "false", "null" };
    char *end;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strncmp(j->at, words[i], strlen(words[i])) == 0) {
            j->at += strlen(words[i]);
            return true;
        }
    if (*j->at != '-' && !isdigit((unsigned char)*j->at))
        return false;
    (void)strtod(j->at, &end);
    j->at = end;
    return true;
}

static bool read_value(struct json *j)
{
    char text[STRING_MAX];

    skip_space(j);
    if (*j->at == '"') {
        if (!read_string(j, text))
            return false;
        note_member(j, text);
        return true;
    }
    note_member(j, NULL);
    return *j->at == '{' ? read_object(j) : *j->at == '[' ? read_array(j) : read_word(j);
}

/* The library of an op determines what runs it (program_common.cc). */
static enum kind kind_of(const struct entry *op)
{
    if (strcmp(op->library, "KFCKernel") == 0)
        return KIND_EXTEND;
    return strcmp(op->library, "AICPUKernel") == 0 && !op->is_custom ? KIND_CPU : KIND_OTHER;
}

static void drop_unread(struct entry **link)
{
    while (*link != NULL) {
        struct entry *e = *link;

        e->kind = kind_of(e);
        if (e->is_dropped) {
            *link = e->next;
            free(e);
        } else {
            link = &e->next;
        }
    }
}

bool standin_read_description(const char *text, struct entry **ops)
{
    struct json *j = calloc(1, sizeof(*j));
    bool is_right;

    if (j == NULL)
        abort();
    j->at = text;
    is_right = read_value(j);
    skip_space(j);
    is_right = is_right && *j->at == '\0';
    drop_unread(&j->ops);
    if (is_right)
        *ops = j->ops;
    else
        standin_free_entries(j->ops);
    free(j);
    return is_right;
}

/* ---- symbols ---- */

/* Returns the number after the last underscore; 0 without one. */
static uint64_t key_of(const char *name)
{
    const char *last = strrchr(name, '_');
    const char *digits = last != NULL ? last + 1 : name;

    return digits[0] != '\0' && strspn(digits, "0123456789") == strlen(digits)
               ? strtoull(digits, NULL, 10)
               : 0;
}

/*
 * Adds a global function: one half of a pair NAME_mix_aic and NAME_mix_aiv, or a whole entry.
 * False: that half exists already, or another entry has its key. Version 8.5 refuses a second entry
 * with the same key, later versions find one of the two, and 9.1 gives key 0 to a name without one.
 */
static bool add_function(struct entry **list, const char *symbol)
{
    size_t length = strlen(symbol);
    bool is_aiv = length > 8 && strcmp(symbol + length - 8, "_mix_aiv") == 0;
    bool is_aic = length > 8 && strcmp(symbol + length - 8, "_mix_aic") == 0;
    char name[ENTRY_NAME];
    struct entry *e;

    if (length >= sizeof(name))
        return true; /* a name of this length is ignored */
    snprintf(name, sizeof(name), "%.*s", (int)(is_aic || is_aiv ? length - 8 : length), symbol);
    e = standin_find_entry(*list, name);
    if (e == NULL) {
        for (const struct entry *other = *list; other != NULL; other = other->next)
            if (other->key == key_of(name))
                return false;
        e = add_entry(list, name);
        e->kind = KIND_CORES;
        e->key = key_of(name);
    } else if (e->has_half[is_aiv] || !(is_aic || is_aiv)) {
        return false;
    }
    e->has_half[is_aiv] = true;
    e->is_mixed = is_aic || is_aiv;
    return true;
}

/*
 * Whether a symbol is an entry: a function that is global and not hidden. A program for cores
 * imports nothing; functions that a program for this machine imports are not entries.
 */
static bool is_entry(const Elf64_Sym *s)
{
    return ELF64_ST_TYPE(s->st_info) == STT_FUNC && ELF64_ST_BIND(s->st_info) == STB_GLOBAL &&
           ELF64_ST_VISIBILITY(s->st_other) != STV_HIDDEN && s->st_name != 0 &&
           s->st_shndx != SHN_UNDEF;
}

/* Reads a symbol table. False: it is damaged, or two functions collide. */
static bool read_table(const char *bytes, size_t size, const Elf64_Shdr *table,
                       const Elf64_Shdr *strings, struct entry **entries)
{
    if (table->sh_offset > size || table->sh_size > size - table->sh_offset ||
        strings->sh_offset > size || strings->sh_size > size - strings->sh_offset ||
        strings->sh_size == 0 || bytes[strings->sh_offset + strings->sh_size - 1] != '\0')
        return false;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;

        memcpy(&symbol, bytes + table->sh_offset + at, sizeof(symbol));
        if (!is_entry(&symbol))
            continue;
        if (symbol.st_name >= strings->sh_size ||
            !add_function(entries, bytes + strings->sh_offset + symbol.st_name))
            return false;
    }
    return true;
}

bool standin_read_entries(const void *bytes, size_t size, struct entry **entries)
{
    struct entry *found = NULL;
    Elf64_Ehdr header;
    Elf64_Shdr table, strings;
    bool is_right = false;

    if (size < sizeof(header))
        return false;
    memcpy(&header, bytes, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_shentsize != sizeof(table) ||
        header.e_shoff > size || header.e_shnum > (size - header.e_shoff) / sizeof(table))
        return false;
    for (uint32_t i = 0; i < header.e_shnum; i++) {
        memcpy(&table, (const char *)bytes + header.e_shoff + i * sizeof(table), sizeof(table));
        if (table.sh_type != SHT_SYMTAB || table.sh_link >= header.e_shnum)
            continue;
        memcpy(&strings, (const char *)bytes + header.e_shoff + table.sh_link * sizeof(strings),
               sizeof(strings));
        is_right = read_table(bytes, size, &table, &strings, &found);
        break; /* the first one counts */
    }
    if (is_right && found != NULL)
        *entries = found;
    else
        standin_free_entries(found);
    return is_right && found != NULL;
}
