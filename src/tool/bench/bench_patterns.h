/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The six patterns of empty tasks by which task systems are compared. Each is a list of accesses to
 * data items, which are laid out as separate buffers, contiguous tiles of one tensor, or 2-D tiles
 * of one matrix. `pto bench` and bench/ use them. Their figures are comparable only as long as the
 * seed of the random pattern does not change. The caller that makes a load owns it.
 */
#ifndef PTO_BENCH_PATTERNS_H
#define PTO_BENCH_PATTERNS_H

#include <stdlib.h>
#include <string.h>

#include "pto/pto.h"

enum pattern {
    PATTERN_NODEP,   /* tasks without tensors */
    PATTERN_INDEP,   /* each task: inout on an item of its own */
    PATTERN_CHAIN,   /* each task: inout on the same item */
    PATTERN_FAN,     /* one task writes an item, 64 read it, the next one writes it, and so on */
    PATTERN_STENCIL, /* width 64, periodic, double-buffered: each task reads 3 items and writes 1 */
    PATTERN_RANDOM,  /* each task reads 3 items written by the last 1024 tasks and writes 1 */
    PATTERN_COUNT
};

/*
 * Layouts of the data items. LAYOUT_AGAIN is the relaunch of a graph whose items are in
 * LAYOUT_BUFFERS.
 */
enum layout { LAYOUT_BUFFERS, LAYOUT_TILES, LAYOUT_TILES2D, LAYOUT_AGAIN, LAYOUT_COUNT };

static const char *const pattern_name[PATTERN_COUNT] = { "nodep", "indep",     "chain",
                                                         "fan64", "stencil64", "random3" };
static const char *const layout_name[LAYOUT_COUNT] = { "buffers", "tiles", "tiles2d", "again" };

struct bench_task {
    int32_t read[3];
    int32_t read_count;
    int32_t write; /* index of the item that the task writes; -1: none */
    bool is_inout;
};

struct bench_load {
    uint32_t task_count;
    uint32_t item_count;
    struct bench_task *task;
    struct pto_tensor *item;
};

enum { TILE = 16 }; /* number of rows of an item, and of columns */

static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static inline void bench_random_reads(struct bench_task *t, uint32_t index, uint64_t *state)
{
    uint32_t span = index < 1024 ? index + 3 : 1024;

    t->read_count = 3;
    for (int k = 0; k < 3;) {
        int32_t item = (int32_t)(index + 2 - bench_random(state) % span);
        bool is_new = true;

        for (int j = 0; j < k; j++)
            is_new = is_new && t->read[j] != item;
        if (is_new)
            t->read[k++] = item;
    }
}

static inline void bench_make_tasks(struct bench_load *load, enum pattern pattern)
{
    uint64_t state = 42;

    load->item_count = pattern == PATTERN_STENCIL  ? 128
                       : pattern == PATTERN_INDEP  ? load->task_count
                       : pattern == PATTERN_RANDOM ? load->task_count + 3
                                                   : 1;
    load->task = calloc(load->task_count, sizeof(*load->task));
    for (uint32_t i = 0; load->task != NULL && i < load->task_count; i++) {
        struct bench_task *t = &load->task[i];
        uint32_t x = i % 64, now = i / 64 % 2 * 64, before = 64 - now;

        t->write = -1;
        if (pattern == PATTERN_INDEP || pattern == PATTERN_CHAIN ||
            (pattern == PATTERN_FAN && i % 65 == 0)) {
            t->write = pattern == PATTERN_INDEP ? (int32_t)i : 0;
            t->is_inout = true;
        } else if (pattern == PATTERN_FAN) {
            t->read_count = 1;
        } else if (pattern == PATTERN_STENCIL) {
            t->read_count = 3;
            t->read[0] = (int32_t)(before + (x + 63) % 64);
            t->read[1] = (int32_t)(before + x);
            t->read[2] = (int32_t)(before + (x + 1) % 64);
            t->write = (int32_t)(now + x);
        } else if (pattern == PATTERN_RANDOM) {
            bench_random_reads(t, i, &state);
            t->write = (int32_t)i + 3;
        }
    }
}

/*
 * Makes the descriptors of the items. Their addresses are not backed by memory, because the kernels
 * are empty.
 */
static inline void bench_make_items(struct bench_load *load, enum layout layout)
{
    const uint32_t tile[2] = { TILE, TILE };
    uint32_t across = 1;
    uint64_t state = 7;
    struct pto_tensor whole;

    while ((uint64_t)across * across < load->item_count)
        across *= 2;
    whole = pto_tensor_external(
        (void *)0x7f0000000000,
        (uint32_t[]){ (layout == LAYOUT_TILES ? load->item_count : across) * TILE,
                      (layout == LAYOUT_TILES ? 1 : across) * TILE },
        2, PTO_FLOAT32);
    load->item = aligned_alloc(128, load->item_count * sizeof(*load->item));
    for (uint32_t i = 0; load->item != NULL && i < load->item_count; i++) {
        uint32_t at[2] = { i / across * TILE, i % across * TILE };

        if (layout == LAYOUT_BUFFERS)
            load->item[i] = pto_tensor_external(
                (void *)(0x7f0000000000 + 4096ull * i + 64 * (bench_random(&state) % 32)), tile, 2,
                PTO_FLOAT32);
        else if (layout == LAYOUT_TILES)
            load->item[i] = pto_tensor_view(&whole, tile, (uint32_t[]){ i * TILE, 0 });
        else
            load->item[i] = pto_tensor_view(&whole, tile, at);
    }
}

static inline void bench_free(struct bench_load *load)
{
    free(load->task);
    free(load->item);
    memset(load, 0, sizeof(*load));
}

/* Makes a load. Returns false if memory runs out; the load is then empty. */
static inline bool bench_make(enum pattern pattern, enum layout layout, uint32_t tasks,
                              struct bench_load *load_out)
{
    *load_out = (struct bench_load){ .task_count = tasks };
    bench_make_tasks(load_out, pattern);
    bench_make_items(load_out, layout);
    if (load_out->task != NULL && load_out->item != NULL)
        return true;
    bench_free(load_out);
    return false;
}

/*
 * Submits the tasks with indices from `from` to `to` - 1. With has_scalar, each task also gets its
 * index as a scalar; otherwise tasks of the pattern nodep have no arguments.
 */
static inline void bench_submit(struct pto_orch *o, const struct bench_load *load, uint32_t from,
                                uint32_t to, bool has_scalar)
{
    struct pto_args args;

    for (uint32_t i = from; i < to; i++) {
        const struct bench_task *t = &load->task[i];

        pto_args_init(&args);
        for (int32_t k = 0; k < t->read_count; k++)
            pto_add_input(&args, &load->item[t->read[k]]);
        if (t->write >= 0 && t->is_inout)
            pto_add_inout(&args, &load->item[t->write]);
        else if (t->write >= 0)
            pto_add_output_existing(&args, &load->item[t->write]);
        if (has_scalar)
            pto_add_scalar(&args, i);
        pto_submit_aiv(o, 0, &args);
    }
}

#endif
