/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards around outputs, poison in outputs, and a record of which bytes of an output tasks are
 * given to write, for outputs that no kernel creates.
 */
#include "graph/guards.h"

#include <string.h>

#include "base/poison.h"

/*
 * The note: what the checks need to know of an output. It lies in the reserved bytes of a
 * descriptor.
 */
struct guard_note {
    uint64_t bytes; /* size of the data */
    uint64_t size;  /* size of the data with its padding */
    uint64_t word;  /* eight bytes of the value that the data starts with, or of poison */
    uint32_t salt; /* number that differs for each live tensor; the guards' contents depend on it */
    uint8_t dtype; /* type of the output; a view of it may have another type */
    uint8_t is_there;
    uint8_t has_value; /* `word` is the value that the submit requested, not poison */
    /* no earlier task was given any of these bytes to write, so the input may be unwritten */
    uint8_t is_suspect;
};

enum { NOTE_AT = 2 }; /* offset of the note in the reserved bytes; aligns it to 8 */

static_assert((offsetof(struct pto_tensor, reserved) + NOTE_AT) % 8 == 0 &&
                  NOTE_AT + sizeof(struct guard_note) <=
                      sizeof(((struct pto_tensor *)NULL)->reserved),
              "a note must fit into the reserved bytes of a tensor");

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

/*
 * Contents of a guard, repeated. No two guards have the same, so a kernel that copies one guard
 * into another changes it. As a floating-point element of the tensor's size it is a signalling NaN,
 * which arithmetic turns into a quiet one, so a kernel that computes on a guard in place also
 * changes it.
 */
static uint64_t guard_word(const struct guard_note *note, bool is_before)
{
    const struct pto_dtype_info *info = pto_dtype_info(note->dtype);
    uint32_t fraction = info->layout.fraction_bits;
    uint64_t random = (2ull * note->salt + is_before + 1) * 0x9e3779b97f4a7c15ull;
    uint64_t nan;

    random = (random ^ random >> 29) * 0xbf58476d1ce4e5b9ull;
    random ^= random >> 32;
    if (info->kind != PTO_KIND_FLOAT || info->layout.special != PTO_SPECIAL_IEEE)
        return random | 0xffc0ffc0ffc0ffc0ull; /* a NaN as element of 2, 4 or 8 bytes */
    nan = (1ull << info->layout.exponent_bits) - 1;
    random |= poison_repeat(nan << fraction | 1, info->bytes);
    nan = poison_repeat(1ull << (fraction - 1), info->bytes); /* the bit that makes a NaN quiet */
    return random & ~nan;                                     /* mutation: guards-alike */
}

/*
 * Number of bytes that hold `word` when the tensor is created: the data, and its padding if the
 * submit requested a value, because kernels made for the reference read the padding then. Other
 * padding belongs to the guard after it.
 */
static uint64_t filled_bytes(const struct guard_note *note)
{
    return note->has_value ? note->size : note->bytes;
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
        uint64_t filled;

        if (args->tag[i] != PTO_TAG_OUTPUT)
            continue;
        note.has_value = info->has_initial_value;
        note.bytes = pto_tensor_bytes(t);
        note.size = t->size;
        note.word = info->has_initial_value
                        ? poison_repeat(info->initial_value, pto_dtype_size(t->dtype))
                        : poison_of(t->dtype);
        t->addr += (2ull * r->count + 1) * g->guard_bytes;
        note.salt = (uint32_t)(t->addr / GRAPH_GUARD_BYTES);
        note.dtype = t->dtype;
        buffers_fill(g, t->addr - g->guard_bytes, g->guard_bytes, guard_word(&note, true),
                     PTO_UINT64);
        filled = filled_bytes(&note);
        buffers_fill(g, t->addr, filled, note.word, PTO_UINT64);
        buffers_fill(g, t->addr + filled, note.size - filled + g->guard_bytes,
                     guard_word(&note, false), PTO_UINT64);
        set_note(t, note);
        r->count++;
    }
}

void guards_poison_freed(uint64_t addr, uint64_t bytes)
{
    buffer_fill(addr, bytes, GUARDS_FREED_WORD, PTO_UINT64);
}

/* ---- spans: the bytes of an output that tasks were given to write ---- */

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
 * Adds a span to the record and merges it with those that it touches. If there is no room, enlarges
 * the last span instead: that may hide an unwritten byte, but never reports a written one.
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
 * Writes the note into an argument, and records the bytes that its task may write: all of a tensor
 * that is not declared as read only. INOUT may write only a part, and NO_DEP may do anything; both
 * count as writes. Under the reference's rules, kernels also write tensors declared as read only,
 * so no argument is suspect there.
 */
void guards_note(struct graph *g, struct pto_tensor *x)
{
    struct guard_record *r = pto_task_id_is_valid(x->owner) ? guards_find_record(g, x) : NULL;
    /* an OUTPUT with a list of spans belongs to a dummy, which writes nothing */
    bool may_write = x->tag != PTO_TAG_INPUT && x->tag != PTO_TAG_OUTPUT;
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

/* Returns a copy of the tensor with the note that it would get as input of a task. */
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

/* ---- checks ---- */

static bool has_note(const struct pto_tensor *x, struct guard_note *out)
{
    if (!pto_task_id_is_valid(x->owner))
        return false; /* a tensor that is not an output has no note */
    *out = get_note(x);
    return out->is_there != 0;
}

bool guards_has_value(const struct pto_tensor *x)
{
    struct guard_note note;

    return !pto_task_id_is_valid(x->owner) ? false : !has_note(x, &note) || note.has_value != 0;
}

/*
 * Whether the word, repeated, fills all bytes, as it usually does: the first eight bytes are the
 * word, rotated by `phase` bytes, and every other byte equals the one eight positions before it.
 */
static bool is_intact(const unsigned char *from, uint64_t bytes, uint64_t word, uint64_t phase)
{
    uint64_t first =
        phase % 8 == 0 ? word : word >> 8 * (phase % 8) | word << (64 - 8 * (phase % 8));
    uint64_t few = bytes < 8 ? bytes : 8;

    return memcmp(from, &first, few) == 0 && memcmp(from + few, from, bytes - few) == 0;
}

/* Number of bytes up to the last one that differs from the repeated word; 0: all are equal. */
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

/*
 * Rounds a number of overwritten bytes up to whole elements: the last bytes of an element that a
 * kernel wrote may equal the guard's by chance.
 */
static uint64_t whole_elements(const struct guard_note *note, uint64_t bytes)
{
    uint64_t size = pto_dtype_size(note->dtype);

    return (bytes + size - 1) / size * size;
}

bool guards_find_breach(const struct pto_tensor *x, struct guard_breach *out)
{
    const unsigned char *data = (const unsigned char *)(uintptr_t)x->addr;
    struct guard_note note;
    uint64_t filled, tail;

    if (!has_note(x, &note))
        return false;
    filled = filled_bytes(&note) - note.bytes; /* padding that does not belong to the guard */
    tail = note.size - note.bytes + GRAPH_GUARD_BYTES;
    port_fetch(x->addr - GRAPH_GUARD_BYTES, GRAPH_GUARD_BYTES);
    port_fetch(x->addr + note.bytes, tail);
    *out = (struct guard_breach){ .size = note.bytes };
    out->bytes = GRAPH_GUARD_BYTES - unchanged_from(data - GRAPH_GUARD_BYTES, GRAPH_GUARD_BYTES,
                                                    guard_word(&note, true));
    if (out->bytes != 0) {
        out->bytes = whole_elements(&note, out->bytes);
        out->is_before = true;
        out->is_far = out->bytes == GRAPH_GUARD_BYTES;
        out->is_at_edge = x->start == 0;
        return true;
    }
    out->bytes = changed_to(data + note.bytes + filled, tail - filled, guard_word(&note, false), 0);
    out->bytes = out->bytes != 0 ? filled + out->bytes
                                 : changed_to(data + note.bytes, filled, note.word, note.bytes);
    out->bytes = whole_elements(&note, out->bytes); /* mutation: no-breach */
    out->is_far = out->bytes >= tail;
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

/*
 * Whether a predicate's operand was never written: no earlier task was given it to write, and it
 * still holds poison.
 */
bool guards_is_operand_unwritten(const struct slot_predicate *p)
{
    uint64_t poison = poison_of(p->dtype);

    return p->is_suspect != 0 && memcmp((const void *)(uintptr_t)p->addr, &poison, p->bytes) == 0;
}
