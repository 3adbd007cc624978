/* SPDX-License-Identifier: Apache-2.0 */
/* Guards around outputs, poison in them, and what is written of those that no kernel makes. */
#include "graph/guards.h"

#include <string.h>

/* In the reserved bytes of a descriptor. */
struct guard_note {
    uint64_t bytes; /* of the data */
    uint64_t size;  /* the same with its padding */
    uint64_t word;  /* what both start with */
    uint8_t is_there;
    uint8_t has_value;  /* the word is what was asked for */
    uint8_t is_suspect; /* no task was given to write it */
};

enum { NOTE_AT = 2 }; /* aligned to 8 bytes */

static_assert((offsetof(struct pto_tensor, reserved) + NOTE_AT) % 8 == 0 &&
                  NOTE_AT + sizeof(struct guard_note) <=
                      sizeof(((struct pto_tensor *)NULL)->reserved),
              "a note fits the reserved bytes");

static void add_span(struct guard_record *r, uint64_t lo, uint64_t hi);

static struct guard_note get_note(const struct pto_tensor *x)
{
    struct guard_note note;

    memcpy(&note, x->reserved + NOTE_AT, sizeof(note));
    return note;
}

static void set_note(struct pto_tensor *x, struct guard_note note)
{
    memcpy(x->reserved + NOTE_AT, &note, sizeof(note));
}

static struct guard_record *record_of(const struct graph *g, uint32_t buffer)
{
    return (struct guard_record *)(void *)g->guard_pool.base + buffer;
}

/* ---- creation ---- */

/* An element eight bytes wide, or as many as fit into them. */
static uint64_t repeat(uint64_t bits, uint32_t elem_bytes)
{
    for (uint32_t width = elem_bytes; width < 8; width *= 2)
        bits = (bits & (~0ull >> (64 - 8 * width))) | bits << 8 * width;
    return bits;
}

/* NaN, of the types that have one; a number that is easily recognised. */
static uint64_t poison_of(uint32_t dtype)
{
    const struct pto_dtype_info *info = pto_dtype_info(dtype);
    uint32_t bits = 8u * info->bytes - (info->layout.sign_bits != 0);

    if (info->kind == PTO_KIND_FLOAT)
        return repeat(~0ull >> (64 - bits), info->bytes);
    return 0xa5a5a5a5a5a5a5a5ull;
}

void guards_lay(struct graph *g, uint32_t buffer, const struct pto_args *args,
                struct pto_tensor *tensor)
{
    struct guard_record *r = record_of(g, buffer);

    *r = (struct guard_record){ .tensor = tensor };
    for (uint32_t i = 0; i < args->tensor_count; i++) {
        const struct pto_tensor_info *info = args->tensor[i];
        struct pto_tensor *t = &tensor[r->count];
        struct guard_note note = { .is_there = 1 };

        if (args->tag[i] != PTO_TAG_OUTPUT)
            continue;
        note.has_value = info->has_initial_value;
        note.bytes = pto_tensor_bytes(t);
        note.size = t->size;
        note.word = info->has_initial_value ? repeat(info->initial_value, pto_dtype_size(t->dtype))
                                            : poison_of(t->dtype);
        t->addr += (2ull * r->count + 1) * g->guard_bytes;
        buffers_fill(g, t->addr - g->guard_bytes, g->guard_bytes, GUARDS_WORD, PTO_UINT64);
        buffers_fill(g, t->addr, t->size, note.word, PTO_UINT64);
        buffers_fill(g, t->addr + t->size, g->guard_bytes, GUARDS_WORD, PTO_UINT64);
        set_note(t, note);
        r->count++;
    }
}

void guards_poison_freed(uint64_t addr, uint64_t bytes)
{
    buffer_fill(addr, bytes, GUARDS_FREED_WORD, PTO_UINT64);
}

/* ---- what tasks are given to write ---- */

void guards_track(struct graph *g, uint32_t buffer)
{
    struct guard_record *r = record_of(g, buffer);

    r->is_tracked = true;
    for (uint32_t i = 0; i < r->count; i++)
        if (get_note(&r->tensor[i]).has_value)
            add_span(r, r->tensor[i].addr, r->tensor[i].addr + r->tensor[i].size);
}

static uint64_t region_end(const struct pto_tensor *x)
{
    return x->addr + (x->start + x->extent) * pto_dtype_size(x->dtype);
}

static uint64_t region_start(const struct pto_tensor *x)
{
    return x->addr + x->start * pto_dtype_size(x->dtype);
}

static struct guard_record *guards_find_record(struct graph *g, const struct pto_tensor *x)
{
    const struct id_entry *e = ids_find(g, x->owner);

    return graph_has_memory(g, e) ? record_of(g, e->buffer) : NULL;
}

/*
 * Joined with the spans that it meets. When there is no room, the last one becomes as
 * large as it must: what is not known to be unwritten is not suspected.
 */
static void add_span(struct guard_record *r, uint64_t lo, uint64_t hi)
{
    for (uint32_t i = 0; i < r->span_count;) {
        bool is_met = lo <= r->span[i].hi && hi >= r->span[i].lo;

        if (!is_met && (i + 1 < GUARDS_SPANS || r->span_count < GUARDS_SPANS)) {
            i++;
            continue;
        }
        lo = lo < r->span[i].lo ? lo : r->span[i].lo;
        hi = hi > r->span[i].hi ? hi : r->span[i].hi;
        r->span[i] = r->span[--r->span_count];
        i = 0;
    }
    r->span[r->span_count].lo = lo;
    r->span[r->span_count++].hi = hi;
}

static bool is_written(const struct guard_record *r, uint64_t lo, uint64_t hi)
{
    for (uint32_t i = 0; i < r->span_count; i++)
        if (lo < r->span[i].hi && hi > r->span[i].lo)
            return true;
    return lo >= hi;
}

void guards_note_write(struct graph *g, const struct pto_tensor *x)
{
    struct guard_record *r = guards_find_record(g, x);

    if (r != NULL && r->is_tracked && x->extent != 0)
        add_span(r, region_start(x), region_end(x));
}

/*
 * Whatever is not declared as read only may be written: by INOUT in parts, by NO_DEP anyhow. Code
 * that was made for the reference's rules has kernels that write what is declared as read only.
 */
void guards_note(struct graph *g, struct pto_tensor *x)
{
    struct guard_record *r = pto_task_id_is_valid(x->owner) ? guards_find_record(g, x) : NULL;
    bool may_write = x->tag != PTO_TAG_INPUT && x->tag != PTO_TAG_OUTPUT; /* that is a dummy's */
    struct guard_note note = { .is_there = 0 };

    for (uint32_t i = 0; r != NULL && i < r->count; i++)
        if (r->tensor[i].addr == x->addr)
            note = get_note(&r->tensor[i]);
    note.is_suspect = r != NULL && r->is_tracked && x->tag == PTO_TAG_INPUT &&
                      g->deps != PTO_DEPS_SIMPLER && !is_written(r, region_start(x), region_end(x));
    set_note(x, note);
    if (r != NULL && r->is_tracked && may_write && x->extent != 0)
        add_span(r, region_start(x), region_end(x));
}

/* As if it were the input of a task. */
static struct pto_tensor note_input(struct graph *g, const struct pto_tensor *x)
{
    struct pto_tensor input = *x;

    input.tag = PTO_TAG_INPUT;
    guards_note(g, &input);
    return input;
}

void guards_note_operand(struct graph *g, const struct pto_tensor *x, struct slot_predicate *p)
{
    struct pto_tensor input = note_input(g, x);

    p->is_suspect = get_note(&input).is_suspect;
}

bool guards_is_element_unwritten(struct graph *g, const struct pto_tensor *element)
{
    struct pto_tensor input = note_input(g, element);

    return guards_is_unwritten(&input);
}

/* ---- looking ---- */

static bool has_note(const struct pto_tensor *x, struct guard_note *out)
{
    if (!pto_task_id_is_valid(x->owner))
        return false; /* others are copied without it */
    *out = get_note(x);
    return out->is_there != 0;
}

/*
 * Nearly always it is. Then the first eight bytes are the word, from its byte `phase` on,
 * and all others are those eight bytes before them.
 */
static bool is_intact(const unsigned char *from, uint64_t bytes, uint64_t word, uint64_t phase)
{
    uint64_t first =
        phase % 8 == 0 ? word : word >> 8 * (phase % 8) | word << (64 - 8 * (phase % 8));
    uint64_t few = bytes < 8 ? bytes : 8;

    return memcmp(from, &first, few) == 0 && memcmp(from + few, from, bytes - few) == 0;
}

/* How many bytes from the first one on reach to the last one that is not the word's. */
static uint64_t changed_to(const unsigned char *from, uint64_t bytes, uint64_t word, uint64_t phase)
{
    if (is_intact(from, bytes, word, phase))
        return 0;
    while (bytes != 0 && from[bytes - 1] == (unsigned char)(word >> 8 * ((phase + bytes - 1) % 8)))
        bytes--;
    return bytes;
}

static uint64_t unchanged_from(const unsigned char *from, uint64_t bytes, uint64_t word)
{
    uint64_t same = 0;

    if (is_intact(from, bytes, word, 0))
        return bytes;
    while (same < bytes && from[same] == (unsigned char)(word >> 8 * (same % 8)))
        same++;
    return same;
}

bool guards_find_breach(const struct pto_tensor *x, struct guard_breach *out)
{
    const unsigned char *data = (const unsigned char *)(uintptr_t)x->addr;
    struct guard_note note;
    uint64_t behind, padding;

    if (!has_note(x, &note))
        return false;
    port_fetch(x->addr - GRAPH_GUARD_BYTES, GRAPH_GUARD_BYTES);
    port_fetch(x->addr + note.bytes, note.size - note.bytes + GRAPH_GUARD_BYTES);
    *out = (struct guard_breach){ .size = note.bytes };
    out->bytes = GRAPH_GUARD_BYTES -
                 unchanged_from(data - GRAPH_GUARD_BYTES, GRAPH_GUARD_BYTES, GUARDS_WORD);
    if (out->bytes != 0) {
        out->is_before = true;
        out->is_far = out->bytes == GRAPH_GUARD_BYTES;
        out->is_at_edge = x->start == 0;
        return true;
    }
    padding = note.size - note.bytes;
    behind = changed_to(data + note.size, GRAPH_GUARD_BYTES, GUARDS_WORD, 0);
    out->is_far = behind == GRAPH_GUARD_BYTES;
    out->bytes = behind != 0 ? padding + behind /* mutation: no-breach */
                             : changed_to(data + note.bytes, padding, note.word, note.bytes);
    out->is_at_edge = region_end(x) >= x->addr + note.bytes;
    return out->bytes != 0;
}

bool guards_is_unwritten(const struct pto_tensor *x)
{
    struct guard_note note;
    uint64_t lo, hi;

    if (!has_note(x, &note) || note.is_suspect == 0)
        return false;
    lo = region_start(x) - x->addr;
    hi = region_end(x) - x->addr;
    port_fetch(x->addr + lo, hi - lo);
    return changed_to((const unsigned char *)(uintptr_t)(x->addr + lo), hi - lo, note.word, lo) ==
           0;
}

/* One that starts with a value is no suspect, so it is poison. */
bool guards_is_operand_unwritten(const struct slot_predicate *p)
{
    uint64_t poison = poison_of(p->dtype);

    return p->is_suspect != 0 && memcmp((const void *)(uintptr_t)p->addr, &poison, p->bytes) == 0;
}
