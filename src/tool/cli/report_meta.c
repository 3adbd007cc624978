/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/cli/report_meta.h"

#include <stdlib.h>
#include <string.h>

enum { MEMORY_POINTS = 500, NAME_BYTES = 128, FLAG_COUNT = 10 };

static void report_write_groups(struct json *j, const struct see_recording *r)
{
    cli_json_open(j, "groups", '[');
    for (uint32_t i = 0; i < r->group_count; i++)
        cli_json_string(j, NULL, r->group[i].name);
    cli_json_close(j, ']');
}

static void write_lanes(struct json *j, const struct report *report)
{
    char name[NAME_BYTES];

    cli_json_open(j, "lanes", '[');
    for (uint32_t i = 0; i < report->layout.lane_count; i++) {
        const struct see_page_lane *lane = &report->layout.lane[i];
        const struct see_lane *of = &report->r->lane[lane->lane];

        see_layout_name(report->r, lane, name, sizeof(name));
        cli_json_open(j, NULL, '{');
        cli_json_string(j, "name", name);
        cli_json_string(j, "kind", see_lane_kind(of->kind));
        cli_json_integer(j, "group", of->group);
        cli_json_integer(j, "count", lane->count);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

/*
 * Writes the source lines that the column `site` refers to by index; paths are reduced to file
 * names.
 */
static void write_sites(struct json *j, const struct report *report)
{
    cli_json_open(j, "sites", '[');
    for (uint32_t i = 0; i < report->legend.site_count; i++) {
        const struct see_site *site = &report->legend.site[i];
        const char *path = site->file < report->r->file_count ? report->r->file[site->file] : "";
        const char *slash = strrchr(path, '/');

        cli_json_open(j, NULL, '{');
        cli_json_string(j, "file", slash != NULL ? slash + 1 : path);
        cli_json_integer(j, "line", site->line);
        if (site->text != NULL)
            cli_json_string(j, "text", site->text);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void write_names(struct json *j, const char *key, const char *const *name, uint32_t count)
{
    cli_json_open(j, key, '[');
    for (uint32_t i = 0; i < count; i++)
        cli_json_string(j, NULL, name[i]);
    cli_json_close(j, ']');
}

/* Writes the texts for the bits of `flags`, for the numbers of `edgeReason`, and for shapes. */
static void write_words(struct json *j, const struct report *report)
{
    static const char *const flag[FLAG_COUNT] = { "no kernel",
                                                  "skipped by its predicate",
                                                  "never ran",
                                                  "only creates buffers",
                                                  "blocks start together",
                                                  "several lanes",
                                                  "completed after its kernels",
                                                  "in a MANUAL scope",
                                                  "launched graph",
                                                  "had not returned" };
    static const char *const reason[] = {
#define X(name, text) text,
        PTO_RECORDING_REASON_MAP(X)
#undef X
    };

    write_names(j, "flagNames", flag, FLAG_COUNT);
    write_names(j, "edgeReasons", reason, PTO_RECORDING_REASON_COUNT);
    write_names(j, "shapes", (const char *const *)report->legend.shape, report->legend.shape_count);
    cli_json_string(j, "edgesNote",
                    !see_page_has_edges(report->r)
                        ? "There are too many edges: tasks keep only the one that made them ready."
                    : !report->r->has_edges
                        ? "Only edges that the engine had to wire were recorded."
                        : NULL);
}

/*
 * Writes why tasks of one kernel depend on tasks of another: "(RAW 12, WAR 3)", or "RAW" if that is
 * the only reason.
 */
static void write_kinds(struct json *j, const struct see_link *link)
{
    char text[NAME_BYTES] = "";
    size_t length = 0;

    for (uint32_t i = 0; i < PTO_RECORDING_REASON_COUNT && length < sizeof(text); i++)
        if (link->by_reason[i] == link->count)
            snprintf(text, sizeof(text), "%s", see_reason_name((uint8_t)i));
        else if (link->by_reason[i] != 0)
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s %llu",
                                       length != 0 ? ", " : "(", see_reason_name((uint8_t)i),
                                       (unsigned long long)link->by_reason[i]);
    if (length != 0 && length < sizeof(text))
        snprintf(text + length, sizeof(text) - length, ")");
    cli_json_string(j, "kinds", text);
}

static void write_links(struct json *j, const struct report *report)
{
    cli_json_open(j, "links", '[');
    for (uint32_t i = 0; i < report->links.count; i++) {
        const struct see_link *link = &report->links.link[i];

        cli_json_open(j, NULL, '{');
        cli_json_integer(j, "from", link->from);
        cli_json_integer(j, "to", link->to);
        cli_json_integer(j, "count", link->count);
        write_kinds(j, link);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

/*
 * Writes the bytes of live buffers over time. Writes an empty array if no task created a buffer,
 * and nothing if memory runs out.
 */
static void write_memory(struct json *j, const struct see_recording *r)
{
    uint64_t bytes[MEMORY_POINTS] = { 0 }, most = 0;

    if (see_live_bytes(r, bytes, MEMORY_POINTS) < 0)
        return;
    for (uint32_t i = 0; i < MEMORY_POINTS; i++)
        most = bytes[i] > most ? bytes[i] : most;
    cli_json_open(j, "memory", '[');
    for (uint32_t i = 0; i < MEMORY_POINTS && most != 0; i++) {
        cli_json_open(j, NULL, '[');
        cli_json_number(j, NULL, (double)r->length_ns * i / MEMORY_POINTS, 0);
        cli_json_integer(j, NULL, bytes[i]);
        cli_json_close(j, ']');
    }
    cli_json_close(j, ']');
}

static void write_columns(struct json *j, const struct see_columns *c)
{
    cli_json_open(j, "columns", '[');
    for (uint32_t i = 0; i < c->count; i++) {
        cli_json_open(j, NULL, '{');
        cli_json_string(j, "name", c->column[i].name);
        cli_json_integer(j, "length", c->column[i].length);
        cli_json_integer(j, "planes", c->column[i].planes);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

void cli_report_write_meta(struct json *j, const struct report *report)
{
    const struct see_recording *r = report->r;

    cli_json_string(j, "title", report->title);
    cli_json_integer(j, "span", r->length_ns != 0 ? r->length_ns : 1);
    cli_json_integer(j, "tasks", r->task_count);
    cli_json_integer(j, "slices", r->slice_count);
    report_write_groups(j, r);
    write_lanes(j, report);
    write_sites(j, report);
    write_words(j, report);
    write_links(j, report);
    write_memory(j, r);
    write_columns(j, &report->columns);
}
