/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the contents of tasks' tensors for diagnostics. */
#include "orch/dumps.h"

#include <string.h>

#include "port/port.h"

enum { LEVEL_MARKED = 1, LEVEL_ALL, LEVEL_ALL_BYTES_OF_MARKED };

void dumps_submit(const struct dumps *d, uint32_t index, const struct pto_args *args)
{
    struct dump_mark *mark = d->mark(d->context, index);

    if (mark != NULL && args->is_marked) {
        mark->is_wanted = true;
        mark->tensors = args->marked_tensors;
    }
}

/*
 * Copies bytes from an address in a task's argument, which may be unmapped. Returns how many bytes
 * could be read.
 */
static uint64_t copy_bytes(char *to, uint64_t from, uint64_t bytes)
{
    uint64_t done = 0;

    while (done < bytes) {
        uint32_t step = bytes - done >= 8 ? 8 : 1;

        if (!port_can_read(from + done, step))
            break;
        memcpy(to + done, (const void *)(uintptr_t)(from + done), step);
        done += step;
    }
    return done;
}

/*
 * Copies a tensor's elements in order, rows without gaps at once. Returns how many bytes could be
 * read.
 */
static uint64_t gather(char *to, const struct pto_tensor *t, uint32_t elem_bytes)
{
    uint32_t index[PTO_MAX_DIMS] = { 0 };
    uint32_t last = t->ndims - 1;
    bool is_dense = t->strides[last] == 1;
    uint64_t run = is_dense ? t->shapes[last] : 1; /* number of elements that are copied at once */
    uint64_t bytes = pto_tensor_numel(t) * elem_bytes, done = 0;

    while (done < bytes) {
        uint64_t at = t->start, got;
        uint32_t d = is_dense ? last : last + 1;

        for (uint32_t k = 0; k <= last; k++)
            at += (uint64_t)index[k] * t->strides[k];
        got = copy_bytes(to + done, t->addr + at * elem_bytes, run * elem_bytes);
        done += got;
        if (got < run * elem_bytes)
            break;
        while (d > 0 && ++index[d - 1] == t->shapes[d - 1])
            index[--d] = 0;
    }
    return done;
}

static void dump_tensor(const struct dumps *d, uint32_t index, uint32_t argument, bool is_after,
                        const struct pto_tensor *t)
{
    uint32_t elem_bytes = t != NULL ? (uint32_t)pto_dtype_size(t->dtype) : 0;
    uint64_t bytes = elem_bytes != 0 ? pto_tensor_numel(t) * elem_bytes : 0;
    struct chip_dump head = {
        .index = index, .argument = (uint16_t)argument, .is_after = is_after, .bytes = bytes
    };
    char *at = d->take(d->context, sizeof(head) + (bytes + 7) / 8 * 8);

    /* no room for the data: record that the argument exists */
    if (at == NULL) {
        if (bytes != 0)
            dump_tensor(d, index, argument, is_after, NULL);
        return;
    }
    if (bytes != 0) {
        head.bytes = gather(at + sizeof(head), t, elem_bytes);
        head.is_truncated = head.bytes < bytes;
        d->give(d->context, (bytes + 7) / 8 * 8 - (head.bytes + 7) / 8 * 8);
    }
    memcpy(at, &head, sizeof(head));
}

/* ---- the arguments of a task ---- */

static bool is_at_stage(uint32_t tag, bool is_after)
{
    uint32_t use = pto_tag_use(tag);

    return is_after ? (use & PTO_WRITES) != 0 : (use & PTO_READS) != 0 || use == 0;
}

static void dump_task(const struct dumps *d, const struct slot *s, const struct pto_tensor *tensor,
                      uint32_t marked, bool is_after)
{
    if (!is_after)
        dump_tensor(d, s->seq - 1, CHIP_DUMP_SCALARS, false, NULL);
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        bool is_marked = (marked >> i & 1) != 0;

        if (!is_at_stage(tensor[i].tag, is_after) || (d->level == LEVEL_MARKED && !is_marked))
            continue;
        dump_tensor(d, s->seq - 1, i, is_after,
                    d->level == LEVEL_ALL || is_marked ? &tensor[i] : NULL);
    }
}

void dumps_watch(const struct dumps *d, const struct slot *s, const struct pto_tensor *tensor,
                 enum trace_kind kind)
{
    struct dump_mark *mark = d->mark(d->context, s->seq - 1);

    if (mark == NULL || (d->level == LEVEL_MARKED && !mark->is_wanted))
        return;
    if (kind == TRACE_BEGIN && !mark->is_begun) {
        mark->is_begun = true;
        dump_task(d, s, tensor, mark->tensors, false);
    }
    if (kind == TRACE_END && ++mark->ended == s->block_count * slot_lane_count(s->lanes))
        dump_task(d, s, tensor, mark->tensors, true);
}
