/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/graph_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pto/dtype.h"
#include "pto/status.h"
#include "tool/see/chip_work.h"

enum { SHAPES_BYTES = 400 };

/* The tasks around a given one, in the order in which a breadth-first search found them. */
struct around {
    uint32_t *found;
    uint32_t count;
    uint8_t *mark; /* for each task: 1 if it is in `found` */
    uint32_t left_out;
};

static void put_label(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', to);
        if ((unsigned char)*text >= 0x20)
            fputc(*text, to);
    }
}

static void begin_graph(FILE *to)
{
    fputs("digraph {\n"
          "    rankdir=LR;\n"
          "    node [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=11];\n"
          "    edge [fontname=\"sans-serif\", fontsize=9];\n",
          to);
}

/* Writes the arguments of a task into its label, one per line with its shape. */
static void put_arguments(const struct see_recording *r, uint32_t task, FILE *to)
{
    char text[SHAPES_BYTES], *at = text, *line;

    see_legend_shapes(r, task, text, sizeof(text));
    while ((line = strstr(at, "], ")) != NULL) {
        line[1] = '\0';
        put_label(to, at);
        fputs("\\l", to);
        at = line + strlen("], ");
    }
    put_label(to, at);
    fputs(*at != '\0' ? "\\l" : "", to);
}

/* ---- kernels ---- */

static void put_kernel_node(const struct see_recording *r, uint32_t kernel, FILE *to)
{
    uint32_t count = 0, first = PTO_RECORDING_NONE;

    for (uint32_t i = 0; i < r->task_count; i++) {
        uint32_t of = see_task_kernel(r, i);

        if ((of < r->kernel_count ? of : r->kernel_count) != kernel ||
            (r->task[i].flags & PTO_RECORDING_ALLOC) != 0)
            continue;
        first = count++ == 0 ? i : first;
    }
    if (count == 0)
        return;
    fprintf(to, "    k%u [label=\"", kernel);
    put_label(to, see_kernel_name(r, kernel < r->kernel_count ? kernel : PTO_RECORDING_NONE));
    fprintf(to, "\\n%u task%s\\n", count, count == 1 ? "" : "s");
    put_arguments(r, first, to);
    fputs("\"];\n", to);
}

int see_graph_kernels(const struct see_recording *r, FILE *to)
{
    struct see_links links;
    int status = see_links_make(r, &links);

    if (status < 0)
        return status;
    begin_graph(to);
    for (uint32_t kernel = 0; kernel <= r->kernel_count; kernel++)
        put_kernel_node(r, kernel, to);
    for (uint32_t i = 0; i < links.count; i++) {
        const struct see_link *link = &links.link[i];

        fprintf(to, "    k%u -> k%u [label=\"", link->from, link->to);
        for (uint8_t reason = 0; reason < PTO_RECORDING_REASON_COUNT; reason++)
            if (link->by_reason[reason] != 0)
                fprintf(to, "%" PRIu64 " %s\\n", link->by_reason[reason], see_reason_name(reason));
        fputs("\"];\n", to);
    }
    fputs("}\n", to);
    see_links_free(&links);
    return PTO_OK;
}

/* ---- around a task ---- */

static void graph_add_task(struct around *a, uint32_t task)
{
    if (a->mark[task] != 0)
        return;
    if (a->count == SEE_GRAPH_TASKS_MAX) {
        a->left_out++;
        return;
    }
    a->mark[task] = 1;
    a->found[a->count++] = task;
}

/*
 * Adds all tasks that are up to `depth` edges before (`is_back`) or after the tasks found so far.
 */
static void graph_spread(const struct see_recording *r, struct around *a, uint32_t depth,
                         bool is_back)
{
    uint32_t from = 0;

    for (uint32_t step = 0; step < depth; step++) {
        uint32_t end = a->count;

        for (; from < end; from++) {
            uint32_t task = a->found[from];
            const uint64_t *of = is_back ? r->edge_from : r->out_from;

            for (uint64_t i = of[task]; i < of[task + 1]; i++)
                graph_add_task(a, is_back ? r->edge[i].from : r->edge[r->out[i]].to);
        }
    }
}

static void put_task_node(const struct see_recording *r, uint32_t task, bool is_middle, FILE *to)
{
    const struct see_task *t = &r->task[task];
    const char *path = t->file < r->file_count ? r->file[t->file] : NULL;
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;

    fprintf(to, "    t%u [%slabel=\"", task, is_middle ? "penwidth=3, " : "");
    put_label(to, see_kernel_name(r, see_task_kernel(r, task)));
    fprintf(to, "\\ntask %u", task);
    if (path != NULL) {
        fputs(", ", to);
        put_label(to, slash != NULL ? slash + 1 : path);
        fprintf(to, ":%u", t->line);
    }
    fputs("\\n", to);
    put_arguments(r, task, to);
    fputs("\"];\n", to);
}

/* Writes an edge, with its reason and the region that the later task declares. */
static void put_edge(const struct see_recording *r, const struct see_edge *e, FILE *to)
{
    fprintf(to, "    t%u -> t%u [%slabel=\"%s", e->from, e->to,
            r->task[e->to].ready_by == e->from ? "color=red, "
            : e->is_wired                      ? ""
                                               : "style=dashed, ",
            see_reason_name(e->reason));
    if (e->to_argument >= 0 &&
        r->argument_from[e->to] + (uint64_t)e->to_argument < r->argument_from[e->to + 1]) {
        const struct see_argument *a =
            &r->argument[r->argument_from[e->to] + (uint64_t)e->to_argument];

        fprintf(to, "\\nargument %d %s[", e->to_argument, pto_dtype_name(a->dtype));
        for (uint32_t d = 0; d < a->ndims && d < PTO_MAX_DIMS; d++)
            fprintf(to, d == 0 ? "%u" : ",%u", a->shapes[d]);
        fprintf(to, "] at %" PRIu64, a->start);
    }
    fputs("\"];\n", to);
}

static int start_around(const struct see_recording *r, struct around *a)
{
    *a = (struct around){ .found = calloc(SEE_GRAPH_TASKS_MAX, sizeof(*a->found)),
                          .mark = calloc(r->task_count + (size_t)1, sizeof(*a->mark)) };
    return a->found != NULL && a->mark != NULL ? PTO_OK : PTO_ENOMEM;
}

int see_graph_around(const struct see_recording *r, uint32_t task, uint32_t depth, FILE *to,
                     uint32_t *left_out)
{
    struct around back, on;
    int status = start_around(r, &back);

    if (start_around(r, &on) < 0 || status < 0) {
        status = PTO_ENOMEM;
        goto out;
    }
    graph_add_task(&back, task);
    graph_spread(r, &back, depth, true);
    graph_add_task(&on, task);
    graph_spread(r, &on, depth, false);
    for (uint32_t i = 0; i < on.count; i++)
        graph_add_task(&back, on.found[i]);
    begin_graph(to);
    for (uint32_t i = 0; i < back.count; i++)
        put_task_node(r, back.found[i], back.found[i] == task, to);
    for (uint32_t i = 0; i < back.count; i++)
        for (uint64_t e = r->edge_from[back.found[i]]; e < r->edge_from[back.found[i] + 1]; e++)
            if (back.mark[r->edge[e].from] != 0)
                put_edge(r, &r->edge[e], to);
    fputs("}\n", to);
    *left_out = back.left_out + on.left_out;
out:
    free(back.found);
    free(back.mark);
    free(on.found);
    free(on.mark);
    return status;
}
