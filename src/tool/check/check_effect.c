/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes the bytes of an invocation, and decides which bytes of its task it owns. */
#include "tool/check/check_trial.h"

enum { SHARE_BYTES = 4 /* bytes of memory that are assigned to one invocation as a unit */ };

/* Copies byte by byte, because TSan does not see a memcpy that the compiler expands inline. */
uint64_t check_load_element(uint64_t addr, uint32_t size)
{
    const uint8_t *from = (const uint8_t *)(uintptr_t)addr;
    uint64_t bits = 0;

    for (uint32_t i = 0; i < size; i++)
        bits |= (uint64_t)from[i] << 8 * i;
    return bits;
}

void check_store_element(uint64_t addr, uint32_t size, uint64_t bits)
{
    uint8_t *to = (uint8_t *)(uintptr_t)addr;

    for (uint32_t i = 0; i < size; i++)
        to[i] = (uint8_t)(bits >> 8 * i);
}

/*
 * The part of an argument's bytes that one invocation owns. A hash of the position of each piece of
 * SHARE_BYTES bytes decides which invocation owns the piece.
 */
struct share {
    uint64_t base; /* start of the storage that all views of the argument share */
    uint32_t call;
    uint32_t count;
};

static struct share share_of(const struct check_run_task *t, uint32_t arg,
                             const struct check_region *region, uint32_t call)
{
    bool is_output = t->run->g->tasks[t->index].args[arg].creator >= 0;

    return (struct share){ is_output ? region->addr : (uint64_t)(uintptr_t)t->run->arena, call,
                           t->call_count };
}

/*
 * Returns how many bytes from `addr` on have the same owner, at most `most`. *is_mine_out: the
 * invocation of this share owns them.
 */
static uint32_t share_next(const struct share *s, uint64_t addr, uint32_t most, bool *is_mine_out)
{
    uint64_t at = addr - s->base;
    uint32_t hash = (uint32_t)(at / SHARE_BYTES) * 0x9e3779b1u;
    uint32_t left = SHARE_BYTES - (uint32_t)(at % SHARE_BYTES);

    *is_mine_out = (uint64_t)hash * s->count >> 32 == s->call;
    return left < most ? left : most;
}

/*
 * Loads the bytes of an element that the invocation owns; its other bytes are loaded as zeros.
 * Returns false if the invocation owns no byte of the element.
 */
static bool load_shared(const struct share *s, uint64_t addr, uint32_t size, uint64_t *bits_out)
{
    bool has_any = false, is_mine;

    *bits_out = 0;
    for (uint32_t i = 0, n; i < size; i += n) {
        n = share_next(s, addr + i, size - i, &is_mine);
        if (is_mine)
            *bits_out |= check_load_element(addr + i, n) << 8 * i;
        has_any = has_any || is_mine;
    }
    return has_any;
}

static void store_shared(const struct share *s, uint64_t addr, uint32_t size, uint64_t bits)
{
    bool is_mine;

    for (uint32_t i = 0, n; i < size; i += n) {
        n = share_next(s, addr + i, size - i, &is_mine);
        if (is_mine)
            check_store_element(addr + i, n, bits >> 8 * i);
    }
}

/* Returns a hash of all bytes that the invocation reads. */
uint64_t check_effect_read(const struct check_run_task *t, uint32_t call,
                           const struct check_region *regions)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    uint64_t hash = rng_mix(t->index + 1 + ((uint64_t)call << 32));
    struct check_walk w;

    for (uint32_t k = 0; k < task->arg_count; k++) {
        const struct check_region *r = &regions[k];
        struct share share = share_of(t, k, r, call);
        uint32_t e = pto_dtype_size(r->dtype);

        for (check_walk_init(&w, r); task->args[k].reads && check_walk_next(&w);) {
            uint64_t bits;

            if (share.count == 1)
                bits = check_load_element(w.addr, e);
            else if (!load_shared(&share, w.addr, e, &bits))
                continue;
            hash = rng_mix(hash ^ (bits + w.number * 0x9e3779b97f4a7c15u));
        }
    }
    return hash;
}

/* Writes bytes derived from `hash` to all bytes that the invocation writes. */
void check_effect_write(const struct check_run_task *t, uint32_t call,
                        const struct check_region *regions, uint64_t hash)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    struct check_walk w;

    for (uint32_t k = 0; k < task->arg_count; k++) {
        const struct check_region *r = &regions[k];
        struct share share = share_of(t, k, r, call);
        uint32_t e = pto_dtype_size(r->dtype);

        for (check_walk_init(&w, r); task->args[k].writes && check_walk_next(&w);) {
            uint64_t bits = rng_mix(hash + ((uint64_t)k << 32) + w.number);

            if (share.count == 1)
                check_store_element(w.addr, e, bits);
            else
                store_shared(&share, w.addr, e, bits);
        }
    }
}
