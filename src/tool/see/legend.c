/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/legend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "pto/dtype.h"
#include "pto/status.h"

enum { SOURCE_BYTES_MAX = 4 << 20, LINE_BYTES_MAX = 160, SHAPES_MAX = 4096, TABLE_SLOTS = 16384 };
enum { SHAPE_BYTES = 400 };

/* ---- lines ---- */

static int by_file_and_line(const void *a, const void *b)
{
    const struct see_site *p = a, *q = b;

    if (p->file != q->file)
        return p->file < q->file ? -1 : 1;
    return p->line < q->line ? -1 : p->line > q->line;
}

/* Returns a copy of a line of the text without leading spaces, or NULL. */
static char *copy_line(const char *text, uint32_t number)
{
    size_t length;

    while (text != NULL && --number > 0) {
        text = strchr(text, '\n');
        text += text != NULL;
    }
    if (text == NULL)
        return NULL;
    text += strspn(text, " \t");
    length = strcspn(text, "\r\n");
    return strndup(text, length < LINE_BYTES_MAX ? length : LINE_BYTES_MAX);
}

/*
 * Reads the source lines of all sites, which are sorted by file. A site whose file cannot be read
 * keeps NULL.
 */
static void read_lines(const struct see_recording *r, struct see_legend *l)
{
    uint32_t file = PTO_RECORDING_NONE;
    char *text = NULL;

    for (uint32_t i = 1; i < l->site_count; i++) {
        struct see_site *site = &l->site[i];
        size_t bytes;

        if (site->file != file) {
            free(text);
            text = NULL;
            file = site->file;
            if (file_read(r->file[file], SOURCE_BYTES_MAX, &text, &bytes) < 0)
                text = NULL;
        }
        site->text = text != NULL && site->line != 0 ? copy_line(text, site->line) : NULL;
    }
    free(text);
}

static int make_sites(const struct see_recording *r, struct see_legend *l)
{
    uint32_t kept = 1;

    l->site = calloc(r->task_count + 1, sizeof(*l->site));
    if (l->site == NULL)
        return PTO_ENOMEM;
    l->site[0].file = PTO_RECORDING_NONE;
    l->site_count = 1;
    for (uint32_t i = 0; i < r->task_count; i++)
        if (r->task[i].file < r->file_count)
            l->site[l->site_count++] =
                (struct see_site){ .file = r->task[i].file, .line = r->task[i].line };
    qsort(l->site + 1, l->site_count - 1, sizeof(*l->site), by_file_and_line);
    for (uint32_t i = 1; i < l->site_count; i++)
        if (kept == 1 || by_file_and_line(&l->site[i], &l->site[kept - 1]) != 0)
            l->site[kept++] = l->site[i];
    l->site_count = kept;
    for (uint32_t i = 0; i < r->task_count; i++) {
        struct see_site of = { .file = r->task[i].file, .line = r->task[i].line };
        struct see_site *found = bsearch(&of, l->site + 1, kept - 1, sizeof(of), by_file_and_line);

        l->site_of[i] = found != NULL ? (uint32_t)(found - l->site) : 0;
    }
    read_lines(r, l);
    return PTO_OK;
}

/* ---- shapes ---- */

static void print_argument(FILE *to, const struct see_argument *a)
{
    fprintf(to, "%s %s[", pto_tag_name(a->tag), pto_dtype_name(a->dtype));
    for (uint32_t d = 0; d < a->ndims && d < PTO_MAX_DIMS; d++)
        fprintf(to, d == 0 ? "%u" : ",%u", a->shapes[d]);
    fputc(']', to);
}

void see_legend_shapes(const struct see_recording *r, uint32_t task, char *text, size_t bytes)
{
    uint64_t scalars = r->scalar_from[task + 1] - r->scalar_from[task];
    FILE *to = fmemopen(text, bytes, "w");

    text[0] = '\0';
    if (to == NULL)
        return;
    for (uint64_t i = r->argument_from[task]; i < r->argument_from[task + 1]; i++) {
        if (i != r->argument_from[task])
            fputs(", ", to);
        print_argument(to, &r->argument[i]);
    }
    if (scalars != 0)
        fprintf(to, "; %u scalar%s", (uint32_t)scalars, scalars == 1 ? "" : "s");
    fclose(to);
    text[bytes - 1] = '\0';
}

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
    return (hash ^ number) * 0x9e3779b97f4a7c15u ^ (hash >> 29);
}

static uint64_t hash_shapes(const struct see_recording *r, uint32_t task)
{
    uint64_t hash = r->scalar_from[task + 1] - r->scalar_from[task] + 1;

    for (uint64_t i = r->argument_from[task]; i < r->argument_from[task + 1]; i++) {
        const struct see_argument *a = &r->argument[i];

        hash = hash_number(hash, (uint64_t)a->tag << 16 | (uint64_t)a->dtype << 8 | a->ndims);
        for (uint32_t d = 0; d < a->ndims && d < PTO_MAX_DIMS; d++)
            hash = hash_number(hash, a->shapes[d]);
    }
    return hash;
}

/* Returns the number of the text for a task's shapes; 0 if there are too many different texts. */
static uint32_t intern_shapes(const struct see_recording *r, struct see_legend *l, uint32_t task,
                              uint64_t *seen, uint32_t *number)
{
    uint64_t hash = hash_shapes(r, task);
    uint32_t slot = (uint32_t)(hash >> 40) % TABLE_SLOTS;
    char text[SHAPE_BYTES];

    while (number[slot] != 0 && seen[slot] != hash)
        slot = (slot + 1) % TABLE_SLOTS;
    if (number[slot] != 0 || l->shape_count == SHAPES_MAX)
        return number[slot];
    see_legend_shapes(r, task, text, sizeof(text));
    l->shape[l->shape_count] = strdup(text);
    if (l->shape[l->shape_count] == NULL)
        return 0;
    seen[slot] = hash;
    return number[slot] = l->shape_count++;
}

static int make_shapes(const struct see_recording *r, struct see_legend *l)
{
    uint64_t *seen = calloc(TABLE_SLOTS, sizeof(*seen));
    uint32_t *number = calloc(TABLE_SLOTS, sizeof(*number));
    int status = PTO_ENOMEM;

    l->shape = calloc(SHAPES_MAX, sizeof(*l->shape));
    if (seen == NULL || number == NULL || l->shape == NULL)
        goto out;
    l->shape[0] = strdup("");
    l->shape_count = 1;
    for (uint32_t i = 0; i < r->task_count && r->argument_count + r->scalar_count != 0; i++)
        l->shape_of[i] = intern_shapes(r, l, i, seen, number);
    status = l->shape[0] != NULL ? PTO_OK : PTO_ENOMEM;
out:
    free(seen);
    free(number);
    return status;
}

int see_legend_make(const struct see_recording *r, struct see_legend *out)
{
    struct see_legend l = { .site_of = calloc(r->task_count + 1, sizeof(*l.site_of)),
                            .shape_of = calloc(r->task_count + 1, sizeof(*l.shape_of)) };
    int status = PTO_ENOMEM;

    if (l.site_of != NULL && l.shape_of != NULL)
        status = make_sites(r, &l);
    if (status >= 0)
        status = make_shapes(r, &l);
    if (status < 0)
        see_legend_free(&l);
    else
        *out = l;
    return status;
}

void see_legend_free(struct see_legend *l)
{
    for (uint32_t i = 0; i < l->site_count; i++)
        free(l->site[i].text);
    for (uint32_t i = 0; i < l->shape_count; i++)
        free(l->shape[i]);
    free(l->site);
    free(l->shape);
    free(l->site_of);
    free(l->shape_of);
    *l = (struct see_legend){ .site_count = 0 };
}
