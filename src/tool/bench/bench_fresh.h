/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads whose tasks each write a separate region, most of a shape that fits no grid. Used by
 * bench/scale.c, and by the test that the cost of a submit does not grow with the number of tasks.
 * The addresses are not backed by memory.
 */
#ifndef PTO_BENCH_FRESH_H
#define PTO_BENCH_FRESH_H

#include "pto/pto.h"

enum {
    /*
     * number of rows in the cell that contains one ragged tile; FRESH_COLUMNS is the number of its
     * columns
     */
    FRESH_ROWS = 32,
    FRESH_COLUMNS = 48,
    FRESH_BANDS = 16, /* number of rows of cells in the matrix of fresh_ragged */
    /* edge length, in elements, of the five-dimensional cell that contains one box */
    FRESH_EDGE = 4,
    FRESH_STRIDES = 12000,
    FRESH_TILE = 16,
};

#define FRESH_BASE 0x7f0000000000ull
/* distance between the starts of two regions of fresh_strides, in elements */
#define FRESH_COMB (1ull << 15)

/* Returns a pseudo-random number below `limit` that depends on `i`. */
static inline uint32_t fresh_scattered(uint32_t i, uint32_t salt, uint32_t limit)
{
    return (uint32_t)(((i + 1ull) * 0x9e3779b97f4a7c15ull * (2 * salt + 1)) >> 32) % limit;
}

/* Returns element i of a permutation of 0 to count - 1, in which neighbours are far apart. */
static inline uint32_t fresh_place(uint32_t i, uint32_t count)
{
    return (uint32_t)((uint64_t)i * 7919 % count);
}

static inline void fresh_submit(struct pto_orch *o, const struct pto_tensor *t, bool is_read)
{
    struct pto_args args;

    pto_args_init(&args);
    if (is_read)
        pto_add_input(&args, t);
    else
        pto_add_inout(&args, t);
    pto_submit_aiv(o, 0, &args);
}

/* Submits tasks that write equal tiles of one matrix, row by row. */
static inline void fresh_tiles(struct pto_orch *o, uint32_t count)
{
    const uint32_t shape[2] = { FRESH_TILE, FRESH_TILE };
    const uint32_t columns = 128;
    const uint32_t whole_shape[2] = { (count / columns + 1) * FRESH_TILE, columns * FRESH_TILE };
    struct pto_tensor whole = pto_tensor_external((void *)FRESH_BASE, whole_shape, 2, PTO_FLOAT32);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at[2] = { i / columns * FRESH_TILE, i % columns * FRESH_TILE };
        struct pto_tensor t = pto_tensor_view(&whole, shape, at);

        fresh_submit(o, &t, false);
    }
}

/*
 * Submits tasks that write tiles of different sizes of one matrix, as ragged batches have them.
 * Some tiles are one row.
 */
static inline void fresh_ragged(struct pto_orch *o, uint32_t count)
{
    const uint32_t whole_shape[2] = { FRESH_BANDS * FRESH_ROWS,
                                      (count / FRESH_BANDS + 1) * FRESH_COLUMNS };
    struct pto_tensor whole = pto_tensor_external((void *)FRESH_BASE, whole_shape, 2, PTO_FLOAT32);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = fresh_place(i, count);
        uint32_t shape[2] = { 1 + fresh_scattered(place, 1, FRESH_ROWS),
                              1 + fresh_scattered(place, 2, FRESH_COLUMNS) };
        uint32_t at[2] = { place % FRESH_BANDS * FRESH_ROWS, place / FRESH_BANDS * FRESH_COLUMNS };
        struct pto_tensor t = pto_tensor_view(&whole, shape, at);

        fresh_submit(o, &t, false);
    }
}

/* Submits tasks that write boxes of different sizes of a tensor with five dimensions. */
static inline void fresh_boxes(struct pto_orch *o, uint32_t count)
{
    const uint32_t side = 4 * FRESH_EDGE;
    const uint32_t whole_shape[5] = { (count / 256 + 1) * FRESH_EDGE, side, side, side, side };
    struct pto_tensor whole = pto_tensor_external((void *)FRESH_BASE, whole_shape, 5, PTO_FLOAT32);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = fresh_place(i, count), rest = place;
        uint32_t shape[5], at[5];
        struct pto_tensor t;

        for (uint32_t d = 5; d-- > 0;) {
            at[d] = (d == 0 ? rest : rest % 4) * FRESH_EDGE;
            shape[d] = 1 + fresh_scattered(place, d, FRESH_EDGE);
            rest /= 4;
        }
        t = pto_tensor_view(&whole, shape, at);
        fresh_submit(o, &t, false);
    }
}

/*
 * Submits tasks that each write a region of two rows of one buffer. The distance between the two
 * rows takes many values.
 */
static inline void fresh_strides(struct pto_orch *o, uint32_t count)
{
    const uint32_t shape[1] = { FRESH_TILE };
    struct pto_tensor t = pto_tensor_external((void *)FRESH_BASE, shape, 1, PTO_FLOAT32);

    t.size = FRESH_COMB * count * sizeof(float);
    t.ndims = 2;
    t.shapes[0] = t.shapes[1] = 2;
    t.strides[1] = 1;
    for (uint32_t i = 0; i < count; i++) {
        t.start = FRESH_COMB * fresh_place(i, count);
        t.strides[0] = 3 + i % FRESH_STRIDES;
        pto_tensor_update(&t);
        fresh_submit(o, &t, false);
    }
}

/*
 * Submits tasks that write columns of a matrix as one-dimensional tensors, whose bytes interleave.
 */
static inline void fresh_columns(struct pto_orch *o, uint32_t count)
{
    const uint32_t shape[1] = { FRESH_TILE };
    struct pto_tensor t = pto_tensor_external((void *)FRESH_BASE, shape, 1, PTO_FLOAT32);

    t.size = (uint64_t)FRESH_TILE * count * sizeof(float);
    t.strides[0] = count;
    for (uint32_t i = 0; i < count; i++) {
        t.start = fresh_place(i, count);
        pto_tensor_update(&t);
        fresh_submit(o, &t, false);
    }
}

/*
 * Submits tasks that write small buffers of many sizes, 1 MiB apart. Each 64th task instead reads a
 * separate region of 1 GiB.
 */
static inline void fresh_wide(struct pto_orch *o, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t shape[1] = { 1u << fresh_scattered(i, 1, 8) };
        const uint32_t far[1] = { 1u << 28 };
        bool is_wide = i % 64 == 63;
        uint64_t at = is_wide ? (2ull << 40) + ((uint64_t)i << 30) : (uint64_t)i << 20;
        struct pto_tensor t =
            pto_tensor_external((void *)(FRESH_BASE + at), is_wide ? far : shape, 1, PTO_FLOAT32);

        fresh_submit(o, &t, is_wide);
    }
}

/*
 * Submits tasks that write one buffer tile by tile, and two tasks after each that read the whole
 * buffer.
 */
static inline void fresh_looks(struct pto_orch *o, uint32_t count)
{
    const uint32_t shape[1] = { count * FRESH_TILE };
    const uint32_t tile[1] = { FRESH_TILE };
    struct pto_tensor whole = pto_tensor_external((void *)FRESH_BASE, shape, 1, PTO_FLOAT32);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at[1] = { i / 3 * FRESH_TILE };
        struct pto_tensor t = pto_tensor_view(&whole, tile, at);

        fresh_submit(o, i % 3 == 0 ? &t : &whole, i % 3 != 0);
    }
}

/*
 * Submits tasks that write all tiles of a buffer, then as many tasks that read the whole buffer,
 * and all of that a second time.
 */
static inline void fresh_rounds(struct pto_orch *o, uint32_t count)
{
    uint32_t tiles = (count + 3) / 4;
    const uint32_t shape[1] = { tiles * FRESH_TILE };
    const uint32_t tile[1] = { FRESH_TILE };
    struct pto_tensor whole = pto_tensor_external((void *)FRESH_BASE, shape, 1, PTO_FLOAT32);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at[1] = { i % tiles * FRESH_TILE };
        struct pto_tensor t = pto_tensor_view(&whole, tile, at);
        bool is_read = i / tiles % 2 != 0;

        fresh_submit(o, is_read ? &whole : &t, is_read);
    }
}

#endif
