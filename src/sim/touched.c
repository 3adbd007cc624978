/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/touched.h"

#include <string.h>

#include "graph/guards.h"
#include "pto/orch.h"
#include "wire/view_element.h"

enum {
    /*
     * maximum distance of an access from an argument at which messages name that argument as the
     * nearest
     */
    NEAR_BYTES = 64 << 10,
    BLOCK_BYTES = 1024, /* device allocations are multiples of this size */
    /*
     * assumed size of the stack around the frame that called the kernel; it belongs to the kernel
     */
    STACK_BYTES = 1024 << 10
};

static void touched_check(struct pto_access *access, uint64_t addr, uint64_t bytes, int how,
                          const void *pc);

/*
 * Whether reads of the argument are checked. They are if it is an output without an initial value:
 * the kernel may read only elements that it has written.
 */
static bool is_tracked(const struct pto_tensor *x, struct touched_mode mode)
{
    return mode.is_alone && pto_tag_use(x->tag) != 0 && (pto_tag_use(x->tag) & PTO_READS) == 0 &&
           x->extent != 0 && !guards_has_value(x);
}

/*
 * Whether a bit is kept for each element that the kernel writes to the argument. If reads of the
 * argument are checked, no bits are kept for reads, because the kernel may read only what it has
 * written.
 */
static bool keeps_writes(const struct pto_tensor *x, struct touched_mode mode)
{
    return is_tracked(x, mode) || (mode.keeps && pto_tag_use(x->tag) != PTO_READS);
}

static bool keeps_reads(const struct pto_tensor *x, struct touched_mode mode)
{
    return mode.keeps && !is_tracked(x, mode);
}

/* Whether bits are kept of what was written in earlier segments, which the kernel may read. */
static bool keeps_before(const struct pto_tensor *x, struct touched_mode mode)
{
    return mode.keeps && is_tracked(x, mode);
}

static uint64_t words_of(const struct pto_tensor *x)
{
    return (x->extent + 63) / 64;
}

uint64_t touched_bits_bytes(const struct slot *s, const struct pto_tensor *tensor,
                            struct touched_mode mode)
{
    uint64_t words = 0;

    for (uint32_t i = 0; i < s->tensor_count; i++)
        words += (keeps_writes(&tensor[i], mode) + (uint64_t)keeps_reads(&tensor[i], mode) +
                  keeps_before(&tensor[i], mode)) *
                 words_of(&tensor[i]);
    return words * sizeof(uint64_t);
}

/* Takes the memory for the bits of one argument from the front of *bits. */
static uint64_t *take_bits(uint64_t **bits, const struct pto_tensor *x, bool is_needed)
{
    uint64_t *taken = *bits;

    if (!is_needed)
        return NULL;
    *bits += words_of(x);
    return taken;
}

void touched_begin(struct touched *t, const struct slot *s, const struct pto_tensor *tensor,
                   struct touched_mode mode)
{
    uint64_t need = touched_bits_bytes(s, tensor, mode);
    uint64_t *bits = t->bits;

    memset(t->access.place, 0, sizeof(t->access.place));
    t->access.check = touched_check;
    t->stack = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    t->used = 0;
    t->count = s->tensor_count;
    if (t->has_refused)
        memset(t->refused, 0, sizeof(t->refused));
    t->has_refused = t->has_signals = t->is_incomplete = false;
    t->segment = t->steps = 0;
    memset(t->seen, 0, sizeof(t->seen));
    t->stray_count = 0;
    if (need > t->bits_bytes)
        mode = (struct touched_mode){ false, false };
    else if (need != 0)
        memset(bits, 0, need);
    t->keeps = mode.keeps;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct pto_tensor *x = &tensor[i];
        uint64_t size = pto_dtype_size(x->dtype);
        uint64_t begin = x->addr + x->start * size;

        t->argument[i] = (struct touched_argument){ .tensor = x,
                                                    .begin = begin,
                                                    .end = begin + x->extent * size,
                                                    .use = pto_tag_use(x->tag),
                                                    .element = (uint32_t)__builtin_ctzll(size),
                                                    .is_tracked = is_tracked(x, mode) };
        t->argument[i].written = take_bits(&bits, x, keeps_writes(x, mode));
        t->argument[i].read = take_bits(&bits, x, keeps_reads(x, mode));
        t->argument[i].before = take_bits(&bits, x, keeps_before(x, mode));
    }
}

void touched_next_segment(struct touched *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        struct touched_argument *a = &t->argument[i];
        uint64_t words = words_of(a->tensor);

        for (uint64_t k = 0; a->before != NULL && k < words; k++)
            a->before[k] |= a->written[k];
        if (a->written != NULL)
            memset(a->written, 0, words * sizeof(*a->written));
        if (a->read != NULL)
            memset(a->read, 0, words * sizeof(*a->read));
    }
    t->stray_count = 0;
}

uint32_t touched_used(const struct touched *t)
{
    uint32_t used = t->used;

    for (uint32_t i = 0; i < t->count; i++)
        for (uint32_t k = 0; k < t->count && (t->used >> i & 1) == 0; k++)
            if ((t->used >> k & 1) != 0 && t->argument[i].begin < t->argument[k].end &&
                t->argument[k].begin < t->argument[i].end)
                used |= 1u << i;
    return used;
}

/* ---- one argument ---- */

/*
 * Returns how many bytes from `addr` on belong to elements of one row, without a gap. `addr` is
 * inside of the argument. *begin_out is where that row begins.
 */
static uint64_t run_at(const struct touched_argument *a, uint64_t addr, uint64_t *begin_out)
{
    const struct pto_tensor *x = a->tensor;
    uint64_t place = (addr - a->begin) >> a->element;
    uint32_t index[PTO_MAX_DIMS];
    uint64_t first = place, count = 1;

    if (x->is_contiguous) {
        *begin_out = a->begin;
        return a->end - addr;
    }
    if (!view_find_element(x, place, index))
        return 0;
    for (uint32_t i = 0; i < x->ndims; i++)
        if (x->strides[i] == 1 && x->shapes[i] > count) {
            first = place - index[i];
            count = x->shapes[i];
        }
    *begin_out = a->begin + (first << a->element);
    return *begin_out + (count << a->element) - addr;
}

/* Returns how many bytes from `addr` on the kernel has written so far. */
static uint64_t written_at(const struct touched_argument *a, uint64_t addr, uint64_t bytes)
{
    uint64_t end = addr + bytes, at = addr;

    while (at < end) {
        uint64_t place = (at - a->begin) >> a->element;

        if ((a->written[place / 64] >> place % 64 & 1) == 0 &&
            (a->before == NULL || (a->before[place / 64] >> place % 64 & 1) == 0))
            break;
        at = a->begin + ((place + 1) << a->element);
    }
    return at < end ? at - addr : bytes;
}

static void mark(const struct touched_argument *a, uint64_t *bits, uint64_t addr, uint64_t bytes)
{
    uint64_t last = (addr + bytes - 1 - a->begin) >> a->element;

    for (uint64_t place = (addr - a->begin) >> a->element; place <= last; place++)
        bits[place / 64] |= 1ull << place % 64;
}

/* ---- one access ---- */

struct touch {
    uint64_t addr;
    uint64_t bytes;
    bool is_write;
    bool is_atomic;
    enum touched_kind kind; /* reason why the access is refused, as far as is known yet */
    uint32_t argument;      /* argument that `kind` refers to */
    struct pto_access_place place;
};

/*
 * Returns how many bytes at the start of the access the argument allows. If it allows none, stores
 * the reason in `touch`.
 */
static uint64_t allowed_by(const struct touched *t, uint32_t index, struct touch *touch)
{
    const struct touched_argument *a = &t->argument[index];
    uint64_t *bits = touch->is_write || a->is_tracked ? a->written : a->read;
    uint64_t bytes = 0, begin = 0, room;
    enum touched_kind kind = TOUCHED_BETWEEN;
    bool is_input, marks = bits != NULL && (touch->is_write || !a->is_tracked);

    if (touch->addr < a->begin || touch->addr >= a->end)
        return 0;
    room = run_at(a, touch->addr, &begin);
    if (room != 0) {
        bytes = touch->bytes < room ? touch->bytes : room;
        kind = touch->is_write ? TOUCHED_INPUT : TOUCHED_UNWRITTEN;
        is_input = a->use == PTO_READS; /* mutation: writes-anything */
        if (touch->is_write && is_input)
            bytes = 0;
        if (!touch->is_write && a->is_tracked) /* mutation: reads-anything */
            bytes = written_at(a, touch->addr, bytes);
    }
    if (bytes == 0) {
        if (touch->kind == TOUCHED_OUTSIDE || kind != TOUCHED_BETWEEN) {
            touch->kind = kind;
            touch->argument = index;
        }
        return 0;
    }
    /* atomic accesses are not recorded, because they conflict with no other access */
    if (marks && (a->is_tracked || !touch->is_atomic))
        mark(a, bits, touch->addr, bytes);
    touch->place = (struct pto_access_place){ .begin = begin,
                                              .bytes = touch->addr + room - begin,
                                              .bits = bits,
                                              .origin = a->begin,
                                              .element = a->element,
                                              .marks = marks };
    return bytes;
}

static uint64_t allowed(struct touched *t, struct touch *touch)
{
    uint64_t bytes = 0;

    touch->kind = TOUCHED_OUTSIDE;
    for (uint32_t i = 0; i < t->count && bytes == 0; i++)
        if ((bytes = allowed_by(t, i, touch)) != 0)
            t->used |= 1u << i;
    return bytes;
}

/* Whether any argument has a byte in the BLOCK_BYTES from `block` on. */
static bool has_argument(const struct touched *t, uint64_t block)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (t->argument[i].begin < block + BLOCK_BYTES && t->argument[i].end > block)
            return true;
    return false;
}

static bool is_on_stack(const struct touched *t, uint64_t addr)
{
    return addr - (t->stack - STACK_BYTES) < 2ull * STACK_BYTES;
}

static bool touched_is_own(struct touched *t, uint64_t addr)
{
    return is_on_stack(t, addr) || !t->is_memory(t->context, addr);
}

/* Returns the argument that is nearest to an address outside of all; -1: none is near. */
static int32_t find_nearest(const struct touched *t, uint64_t addr)
{
    uint64_t best = NEAR_BYTES;
    int32_t found = -1;

    for (uint32_t i = 0; i < t->count; i++) {
        const struct touched_argument *a = &t->argument[i];
        uint64_t away = addr < a->begin ? a->begin - addr : addr - a->end + 1;

        if (a->begin == a->end || away >= best)
            continue;
        best = away;
        found = (int32_t)i;
    }
    return found;
}

/* Records the bytes of a refused access, merged with earlier ones that they touch. */
static void keep_stray(struct touched *t, const struct touched_finding *finding)
{
    uint64_t begin = finding->addr, end = begin + finding->bytes;
    uint32_t count = t->stray_count < TOUCHED_STRAYS_MAX ? t->stray_count : TOUCHED_STRAYS_MAX;

    for (uint32_t i = count; i-- > 0;) {
        struct touched_stray *s = &t->stray[i];

        if (s->is_write != finding->is_write || s->argument != finding->argument ||
            begin > s->end || end < s->begin)
            continue;
        s->begin = begin < s->begin ? begin : s->begin;
        s->end = end > s->end ? end : s->end;
        return;
    }
    if (t->stray_count++ < TOUCHED_STRAYS_MAX)
        t->stray[t->stray_count - 1] =
            (struct touched_stray){ begin, end, finding->argument, finding->is_write };
}

static void touched_refuse(struct touched *t, const struct touch *touch, const void *pc)
{
    struct touched_finding finding = { .kind = touch->kind,
                                       .is_write = touch->is_write,
                                       .argument = (int32_t)touch->argument,
                                       .addr = touch->addr,
                                       .bytes = touch->bytes,
                                       .pc = pc };

    if (touch->kind == TOUCHED_OUTSIDE)
        finding.argument = find_nearest(t, touch->addr);
    if (finding.argument >= 0)
        finding.offset = (int64_t)(touch->addr - t->argument[finding.argument].begin);
    if (t->keeps)
        keep_stray(t, &finding);
    t->has_refused = true;
    if (touch->kind != TOUCHED_OUTSIDE)
        t->used |= 1u << finding.argument;
    if (t->refused[finding.kind][finding.is_write][finding.argument + 1]++ == 0)
        t->found(t->context, &finding);
}

static void touched_check(struct pto_access *access, uint64_t addr, uint64_t bytes, int how,
                          const void *pc)
{
    struct touched *t = (struct touched *)(void *)access;
    struct touch touch = { .addr = addr,
                           .bytes = bytes,
                           .is_write = (how & PTO_ACCESS_IS_WRITE) != 0,
                           .is_atomic = (how & PTO_ACCESS_IS_ATOMIC) != 0 };
    /*
     * the result of this check is kept for later accesses of the same place, but not for an atomic
     * access
     */
    bool is_whole = !touch.is_atomic;
    uint64_t done;

    if ((how & PTO_ACCESS_IS_DONE) != 0) {
        if (t->keeps && !is_on_stack(t, addr))
            t->signal(t->context, addr, how);
        return;
    }
    while ((done = allowed(t, &touch)) != 0 && done < touch.bytes) {
        touch.addr += done;
        touch.bytes -= done;
        is_whole = false;
    }
    if (done == 0 && touch.kind == TOUCHED_OUTSIDE && touched_is_own(t, touch.addr)) {
        uint64_t block = touch.addr / BLOCK_BYTES * BLOCK_BYTES;

        touch.place = (struct pto_access_place){ .begin = block, .bytes = BLOCK_BYTES };
        is_whole = is_whole && !has_argument(t, block);
    } else if (done == 0) {
        touched_refuse(t, &touch, pc);
        return;
    }
    if (is_whole)
        access->place[PTO_ACCESS_INDEX(pc, touch.is_write)] = touch.place;
    if (t->keeps && touch.is_atomic && touch.is_write && !is_on_stack(t, addr))
        t->signal(t->context, addr, how);
}
