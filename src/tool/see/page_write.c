/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/see/page_write.h"

#include <stdlib.h>
#include <string.h>

#include "pto/status.h"
#include "tool/scene/embed.h"

extern const unsigned char see_page_html[], see_page_html_end[];
extern const unsigned char see_page_css[], see_page_css_end[];
extern const unsigned char see_page_script[], see_page_script_end[];

EMBED(see_page_html, PAGE_PATH "/page.html");
EMBED(see_page_css, PAGE_PATH "/page.css");
EMBED(see_page_script, PAGE_SCRIPT_PATH);

/*
 * Flag in the column of edge reasons, in a bit that no reason uses: task `from` had ended before
 * task `to` was submitted. page/selection.js reads this flag.
 */
enum { REASON_HAD_ENDED = 128 };

/* Inputs of the columns, and `number`, a buffer for the values of one column. */
struct making {
    const struct see_recording *r;
    const struct see_layout *layout;
    const struct see_legend *legend;
    struct see_columns *columns;
    uint64_t *number;
    int status;
};

static void add_column(struct making *m, const char *name, uint64_t length)
{
    if (m->status >= 0)
        m->status = see_columns_add(m->columns, name, m->number, length);
}

/* ---- slices ---- */

static void add_times(struct making *m)
{
    uint64_t at = 0;

    for (uint32_t l = 0; l < m->layout->lane_count; l++) {
        uint64_t now = 0;

        for (uint64_t end = at + m->layout->lane[l].count; at < end; at++) {
            const struct see_slice *s = &m->r->slice[m->layout->order[at]];

            m->number[at] = see_zigzag((int64_t)(s->begin_ns - now));
            now = s->end_ns;
        }
    }
    add_column(m, "gap", at);
    for (uint64_t i = 0; i < at; i++) {
        const struct see_slice *s = &m->r->slice[m->layout->order[i]];

        m->number[i] = s->end_ns - s->begin_ns;
    }
    add_column(m, "duration", at);
}

static void add_steps(struct making *m)
{
    uint64_t at = 0;

    for (uint32_t l = 0; l < m->layout->lane_count; l++) {
        uint32_t task = 0;

        for (uint64_t end = at + m->layout->lane[l].count; at < end; at++) {
            uint32_t next = m->r->slice[m->layout->order[at]].task;

            m->number[at] = see_zigzag((int64_t)next - task);
            task = next;
        }
    }
    add_column(m, "step", at);
}

/*
 * Adds the columns of kernels and blocks. For a slice without a kernel, the column has the number
 * of kernels.
 */
static void page_add_kernels(struct making *m)
{
    for (uint64_t i = 0; i < m->r->slice_count; i++) {
        uint32_t kernel = m->r->slice[m->layout->order[i]].kernel;

        m->number[i] = kernel < m->r->kernel_count ? kernel : m->r->kernel_count;
    }
    add_column(m, "kernel", m->r->slice_count);
    for (uint64_t i = 0; i < m->r->slice_count; i++)
        m->number[i] = m->r->slice[m->layout->order[i]].block;
    add_column(m, "block", m->r->slice_count);
}

/* ---- tasks ---- */

static void add_submits(struct making *m)
{
    uint64_t now = 0;

    for (uint32_t i = 0; i < m->r->task_count; i++) {
        uint64_t next = m->r->task[i].submit_ns;

        if (next == PTO_RECORDING_NO_TIME)
            next = now;
        m->number[i] = see_zigzag((int64_t)(next - now));
        now = next;
    }
    add_column(m, "submitStep", m->r->task_count);
    for (uint32_t i = 0; i < m->r->task_count; i++)
        m->number[i] = m->r->task[i].ready_by < i ? i - m->r->task[i].ready_by : 0;
    add_column(m, "by", m->r->task_count);
}

/*
 * Adds a column with the delay of each task: the time from the later one of its submit and the end
 * of the task that made it ready, until it was ready.
 */
static void add_lateness(struct making *m)
{
    uint64_t submit = 0;

    for (uint32_t i = 0; i < m->r->task_count; i++) {
        const struct see_task *t = &m->r->task[i];
        uint64_t due;

        if (t->submit_ns != PTO_RECORDING_NO_TIME)
            submit = t->submit_ns;
        due = submit;
        if (t->ready_by < i)
            for (uint64_t s = m->r->slice_from[t->ready_by]; s < m->r->slice_from[t->ready_by + 1];
                 s++)
                due = m->r->slice[s].end_ns > due ? m->r->slice[s].end_ns : due;
        m->number[i] =
            t->ready_ns == PTO_RECORDING_NO_TIME ? 0 : see_zigzag((int64_t)(t->ready_ns - due));
    }
    add_column(m, "late", m->r->task_count);
}

static void add_facts(struct making *m, const uint8_t *on_path)
{
    uint32_t tasks = m->r->task_count;

    for (uint32_t i = 0; i < tasks; i++)
        m->number[i] = m->legend->site_of[i];
    add_column(m, "site", tasks);
    for (uint32_t i = 0; i < tasks; i++)
        m->number[i] = m->legend->shape_of[i];
    add_column(m, "shapes", tasks);
    for (uint32_t i = 0; i < tasks; i++)
        m->number[i] = m->r->task[i].flags;
    add_column(m, "flags", tasks);
    for (uint32_t i = 0; i < tasks; i++)
        m->number[i] = on_path[i];
    add_column(m, "onPath", tasks);
}

/* ---- edges ---- */

static bool page_has_edge(const struct see_recording *r, const struct see_edge *e)
{
    return e->from < e->to && (see_page_has_edges(r) || e->from == r->task[e->to].ready_by);
}

static void page_count_edges(struct making *m)
{
    for (uint32_t i = 0; i < m->r->task_count; i++) {
        m->number[i] = 0;
        for (uint64_t e = m->r->edge_from[i]; e < m->r->edge_from[i + 1]; e++)
            m->number[i] += page_has_edge(m->r, &m->r->edge[e]);
    }
    add_column(m, "edgeCount", m->r->task_count);
}

static uint64_t edge_step(const struct see_edge *e)
{
    return e->to - e->from;
}

static uint64_t edge_reason(const struct see_edge *e)
{
    return e->reason | (e->is_wired ? 0 : REASON_HAD_ENDED);
}

static uint64_t edge_from_argument(const struct see_edge *e)
{
    return e->from_argument < 0 ? 0 : (uint64_t)e->from_argument + 1;
}

static uint64_t edge_to_argument(const struct see_edge *e)
{
    return e->to_argument < 0 ? 0 : (uint64_t)e->to_argument + 1;
}

static void page_add_edges(struct making *m, const char *name,
                           uint64_t (*value)(const struct see_edge *e))
{
    uint64_t count = 0;

    for (uint64_t i = 0; i < m->r->edge_count; i++)
        if (page_has_edge(m->r, &m->r->edge[i]))
            m->number[count++] = value(&m->r->edge[i]);
    add_column(m, name, count);
}

int see_page_columns(const struct see_recording *r, const struct see_layout *layout,
                     const struct see_legend *legend, const uint8_t *on_path,
                     struct see_columns *out)
{
    uint64_t longest = r->slice_count > r->edge_count ? r->slice_count : r->edge_count;
    struct making m = { .r = r, .layout = layout, .legend = legend, .columns = out };

    *out = (struct see_columns){ .count = 0 };
    longest = r->task_count > longest ? r->task_count : longest;
    m.number = calloc(longest + 1, sizeof(*m.number));
    if (m.number == NULL)
        return PTO_ENOMEM;
    add_times(&m);
    add_steps(&m);
    page_add_kernels(&m);
    add_submits(&m);
    add_lateness(&m);
    add_facts(&m, on_path);
    page_count_edges(&m);
    page_add_edges(&m, "edgeStep", edge_step);
    page_add_edges(&m, "edgeReason", edge_reason);
    page_add_edges(&m, "edgeFromArgument", edge_from_argument);
    page_add_edges(&m, "edgeToArgument", edge_to_argument);
    free(m.number);
    if (m.status < 0)
        see_columns_free(out);
    return m.status;
}

/* ---- the page ---- */

/*
 * Writes JSON into a script element. A "<" could end the element, so it is replaced by an escape;
 * JSON has "<" in strings only.
 */
static void write_meta(FILE *to, const char *meta)
{
    for (; *meta != '\0'; meta++)
        if (*meta == '<') /* mutation: page-escape */
            fputs("\\u003c", to);
        else
            fputc(*meta, to);
}

static void write_part(FILE *to, const unsigned char *from, const unsigned char *end)
{
    fwrite(from, 1, (size_t)(end - from), to);
}

void see_page_write(FILE *to, const char *meta, const char *data)
{
    static const char *const mark[] = { "@STYLE@", "@META@", "@DATA@", "@SCRIPT@" };
    const unsigned char *at = see_page_html;

    for (uint32_t i = 0; i < sizeof(mark) / sizeof(mark[0]); i++) {
        const unsigned char *found =
            memmem(at, (size_t)(see_page_html_end - at), mark[i], strlen(mark[i]));

        write_part(to, at, found);
        at = found + strlen(mark[i]);
        if (i == 0)
            write_part(to, see_page_css, see_page_css_end);
        else if (i == 1)
            write_meta(to, meta);
        else if (i == 2)
            fputs(data, to);
        else
            write_part(to, see_page_script, see_page_script_end);
    }
    write_part(to, at, see_page_html_end);
}
