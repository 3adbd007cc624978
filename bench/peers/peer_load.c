/* SPDX-License-Identifier: Apache-2.0 */
/* Predecessors come from the accesses alone, in the order of the tasks; no task system is asked. */
#include "peer_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/bench/bench_patterns.h"

enum { VERIFY_SPINS = 256 }; /* bodies last differently long, so that a lost edge shows */

static const char *const grain_name[] = { "trivial", "no_comm", "stencil_1d", "dom",
                                          "tree",    "fft",     "nearest",    NULL };

enum grain { TRIVIAL, NO_COMM, STENCIL_1D, DOM, TREE, FFT, NEAREST };

/* What is known about one item while the tasks are looked at. */
struct item_story {
    int32_t writer; /* the last one; -1: none */
    uint32_t reader_count, reader_room;
    uint32_t *reader; /* since then */
};

struct edges {
    uint32_t *begin; /* task_count + 1 */
    uint32_t *pred;
    uint32_t count, room;
};

static bool make_items(struct peer_load *load);
static bool make_edges(struct peer_load *load, bool is_minimal, struct edges *edges_out);

/* ---- tasks ---- */

static bool finish_load(struct peer_load *load)
{
    struct edges edges;

    if (load->task == NULL || !make_items(load) || !make_edges(load, true, &edges)) {
        fprintf(stderr, "there is no memory for %" PRIu32 " tasks\n", load->task_count);
        load_free(load);
        return false;
    }
    load->pred_begin = edges.begin;
    load->pred = edges.pred;
    return true;
}

static bool make_pattern(enum pattern pattern, uint32_t tasks, struct peer_load *load)
{
    struct bench_load from = { .task_count = tasks };
    struct peer_task *to = calloc(tasks, sizeof(*to));

    bench_make_tasks(&from, pattern);
    for (uint32_t i = 0; i < tasks && from.task != NULL && to != NULL; i++) {
        memcpy(to[i].read, from.task[i].read, sizeof(from.task[i].read));
        to[i].read_count = from.task[i].read_count;
        to[i].write = from.task[i].write;
        to[i].is_inout = from.task[i].is_inout;
    }
    *load = (struct peer_load){ .task_count = tasks, .item_count = from.item_count, .task = to };
    bench_free(&from);
    return finish_load(load);
}

/* Points of a step, from `first` on. Task Bench's dom and tree do not start with all of them. */
static uint32_t step_width(enum grain grain, uint32_t step, uint32_t steps, uint32_t *first_out)
{
    uint32_t left = steps - step, width = GRAIN_WIDTH;

    *first_out = 0;
    if (grain == TREE && step < 6)
        width = 1u << step;
    if (grain == DOM) {
        *first_out = left < GRAIN_WIDTH ? GRAIN_WIDTH - left : 0;
        width = step + 1 < left ? step + 1 : left;
        width = width < GRAIN_WIDTH ? width : GRAIN_WIDTH;
    }
    return width;
}

/* The points of the step before that a point depends on; those outside of that step are left out. */
static void step_reads(enum grain grain, uint32_t step, int32_t point, int32_t wanted[5])
{
    int32_t reach = 1 << ((step + 5) % 6); /* of an fft of width 64 */

    for (int k = 0; k < 5; k++)
        wanted[k] = -1;
    if (grain == TREE)
        wanted[0] = point / 2;
    else if (grain != TRIVIAL)
        wanted[0] = point;
    if (grain == STENCIL_1D || grain == DOM || grain == NEAREST)
        wanted[1] = point - 1;
    if (grain == STENCIL_1D || grain == NEAREST)
        wanted[2] = point + 1;
    if (grain == NEAREST) {
        wanted[3] = point - 2;
        wanted[4] = point + 2;
    }
    if (grain == FFT) {
        wanted[1] = point - reach;
        wanted[2] = point + reach;
    }
}

static uint32_t add_step(enum grain grain, uint32_t step, uint32_t steps, struct peer_task *task,
                         uint32_t count)
{
    uint32_t first, first_before = 0, width_before = 0;
    uint32_t width = step_width(grain, step, steps, &first);
    uint32_t row_before;

    if (step > 0)
        width_before = step_width(grain, step - 1, steps, &first_before);
    row_before = count - width_before; /* the task of the first point of the step before */
    for (uint32_t x = 0; x < width; x++) {
        struct peer_task *t = &task[count + x];
        int32_t wanted[5];

        step_reads(grain, step, (int32_t)(first + x), wanted);
        for (int k = 0; k < 5; k++) {
            int32_t at = wanted[k] - (int32_t)first_before;

            if (wanted[k] >= 0 && at >= 0 && at < (int32_t)width_before)
                t->read[t->read_count++] = (int32_t)row_before + at;
        }
        t->write = (int32_t)(count + x);
    }
    return count + width;
}

static bool make_grain(enum grain grain, uint32_t steps, struct peer_load *load)
{
    struct peer_task *task = calloc((size_t)steps * GRAIN_WIDTH, sizeof(*task));
    uint32_t count = 0;

    for (uint32_t step = 0; step < steps && task != NULL; step++)
        count = add_step(grain, step, steps, task, count);
    *load = (struct peer_load){ .task_count = count, .item_count = count, .task = task };
    return finish_load(load);
}

bool load_make_steps(const char *pattern, uint32_t steps, struct peer_load *load_out)
{
    for (int i = 0; grain_name[i] != NULL; i++)
        if (strcmp(pattern, grain_name[i]) == 0)
            return make_grain((enum grain)i, steps, load_out);
    fprintf(stderr, "Task Bench has no pattern '%s' that is known here\n", pattern);
    return false;
}

bool load_make(const char *pattern, uint32_t tasks, struct peer_load *load_out)
{
    for (int i = 0; i < PATTERN_COUNT; i++)
        if (strcmp(pattern, pattern_name[i]) == 0)
            return make_pattern((enum pattern)i, tasks, load_out);
    return load_make_steps(pattern, (tasks + GRAIN_WIDTH - 1) / GRAIN_WIDTH, load_out);
}

void load_print_patterns(void)
{
    for (int i = 0; i < PATTERN_COUNT; i++)
        printf(" %s", pattern_name[i]);
    for (int i = 0; grain_name[i] != NULL; i++)
        printf(" %s", grain_name[i]);
    printf("\n");
}

void load_free(struct peer_load *load)
{
    free((void *)load->task);
    free((void *)load->item);
    free((void *)load->pred_begin);
    free((void *)load->pred);
    memset(load, 0, sizeof(*load));
}

static bool make_items(struct peer_load *load)
{
    struct bench_load items = { .item_count = load->item_count };
    void **item = calloc(load->item_count, sizeof(*item));

    bench_make_items(&items, LAYOUT_BUFFERS);
    for (uint32_t i = 0; i < load->item_count && items.item != NULL && item != NULL; i++)
        item[i] = (void *)(uintptr_t)items.item[i].addr;
    load->item = item;
    if (items.item == NULL) {
        free(item);
        load->item = NULL;
    }
    bench_free(&items);
    return load->item != NULL;
}

/* ---- predecessors ---- */

static bool grow(uint32_t **array, uint32_t count, uint32_t *room)
{
    if (count < *room)
        return true;

    uint32_t wanted = *room == 0 ? 16 : 2 * *room;
    uint32_t *grown = realloc(*array, wanted * sizeof(**array));

    if (grown == NULL)
        return false;
    *array = grown;
    *room = wanted;
    return true;
}

static bool add_edge(struct edges *edges, uint32_t from, int32_t pred)
{
    for (uint32_t i = edges->begin[from]; i < edges->count; i++)
        if (edges->pred[i] == (uint32_t)pred)
            return true;
    if (pred < 0)
        return true;
    if (!grow(&edges->pred, edges->count, &edges->room))
        return false;
    edges->pred[edges->count++] = (uint32_t)pred;
    return true;
}

static bool add_edges(const struct peer_task *t, uint32_t index, struct item_story *story,
                      bool is_minimal, struct edges *edges)
{
    bool is_fine = true;

    for (int32_t k = 0; k < t->read_count; k++)
        is_fine = is_fine && add_edge(edges, index, story[t->read[k]].writer);
    if (t->write >= 0) {
        struct item_story *s = &story[t->write];

        /* Those who read what the last writer wrote came after it. */
        if (!is_minimal || s->reader_count == 0)
            is_fine = is_fine && add_edge(edges, index, s->writer);
        for (uint32_t i = 0; i < s->reader_count; i++)
            is_fine = is_fine && add_edge(edges, index, (int32_t)s->reader[i]);
    }
    for (int32_t k = 0; k < t->read_count; k++) {
        struct item_story *s = &story[t->read[k]];

        is_fine = is_fine && grow(&s->reader, s->reader_count, &s->reader_room);
        if (is_fine)
            s->reader[s->reader_count++] = index;
    }
    if (t->write >= 0) {
        story[t->write].writer = (int32_t)index;
        story[t->write].reader_count = 0;
    }
    return is_fine;
}

static bool make_edges(struct peer_load *load, bool is_minimal, struct edges *edges_out)
{
    struct item_story *story = calloc(load->item_count, sizeof(*story));
    struct edges edges = { .begin = calloc((size_t)load->task_count + 1, sizeof(uint32_t)) };
    bool is_fine = story != NULL && edges.begin != NULL && grow(&edges.pred, 0, &edges.room);

    for (uint32_t i = 0; i < load->item_count && is_fine; i++)
        story[i].writer = -1;
    for (uint32_t i = 0; i < load->task_count && is_fine; i++) {
        edges.begin[i] = edges.count;
        is_fine = add_edges(&load->task[i], i, story, is_minimal, &edges);
        edges.begin[i + 1] = edges.count;
    }
    for (uint32_t i = 0; i < load->item_count && story != NULL; i++)
        free(story[i].reader);
    free(story);
    if (!is_fine) {
        free(edges.begin);
        free(edges.pred);
        return false;
    }
    *edges_out = edges;
    return true;
}

/* ---- what bodies check ---- */

static struct {
    uint32_t task_count;
    struct edges edges; /* all of them, implied ones, too */
    uint32_t *ran;      /* the run in which a task ran last; written by its body only */
    uint32_t run;
    uint64_t too_early, twice; /* tasks; atomic */
    int64_t first_wrong;       /* atomic; -1: none */
} watch;

bool load_watch(const struct peer_load *load)
{
    watch.task_count = load->task_count;
    watch.run = 0;
    watch.ran = calloc(load->task_count, sizeof(*watch.ran));
    return watch.ran != NULL && make_edges((struct peer_load *)load, false, &watch.edges);
}

void load_begin(void)
{
    watch.run++;
    watch.too_early = watch.twice = 0;
    watch.first_wrong = -1;
}

void peer_check(uint32_t index)
{
    bool is_early = false;

    for (uint32_t i = watch.edges.begin[index]; i < watch.edges.begin[index + 1]; i++)
        is_early = is_early ||
                   __atomic_load_n(&watch.ran[watch.edges.pred[i]], __ATOMIC_ACQUIRE) != watch.run;
    if (is_early) {
        __atomic_add_fetch(&watch.too_early, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&watch.first_wrong, (int64_t)index, __ATOMIC_RELAXED);
    }
    peer_work(index * 2654435761u % VERIFY_SPINS);
    if (__atomic_exchange_n(&watch.ran[index], watch.run, __ATOMIC_ACQ_REL) == watch.run)
        __atomic_add_fetch(&watch.twice, 1, __ATOMIC_RELAXED);
}

uint64_t load_end(void)
{
    uint64_t never = 0;

    for (uint32_t i = 0; i < watch.task_count; i++)
        never += watch.ran[i] != watch.run;
    if (watch.too_early + watch.twice + never != 0)
        fprintf(stderr,
                "%" PRIu64 " tasks ran before a predecessor (one of them: %" PRId64 "), %" PRIu64
                " ran twice, %" PRIu64 " never\n",
                watch.too_early, watch.first_wrong, watch.twice, never);
    return watch.too_early + watch.twice + never;
}

void load_unwatch(void)
{
    free(watch.ran);
    free(watch.edges.begin);
    free(watch.edges.pred);
    memset(&watch, 0, sizeof(watch));
}
