/* SPDX-License-Identifier: Apache-2.0 */
/* Built graphs: what is noted while one is built, how it is kept, what a launch has to be like. */
#include "orch/launch.h"

#include <string.h>

static bool is_same_entry(struct launch *l, struct orch *o);
static void sort_notes(struct launch_note *note, uint64_t count);

/* ---- building ---- */

static void add_note(struct launch *l, struct orch *o, enum orch_list which,
                     struct launch_note note)
{
    struct launch_list *list = &l->list[which];
    struct launch_note *room = pool_take(&o->list_pool[which], sizeof(*room));

    if (room == NULL) {
        l->has_lost_note = true;
        return;
    }
    *room = note;
    list->count++;
}

static uint64_t note_addr(const struct launch_note *n, const struct pto_entry *entry)
{
    return n->entry >= 0 ? entry->tensor[n->entry].addr + n->at : n->at;
}

/* An address as it will be found in another launch. */
static struct launch_note make_note(const struct orch *o, uint64_t addr, uint32_t bytes,
                                    uint64_t bits)
{
    const struct pto_entry *built_with = o->run->entry;
    int32_t entry = image_find_entry(built_with, addr);

    return (struct launch_note){ .entry = entry,
                                 .at = entry >= 0 ? addr - built_with->tensor[entry].addr : addr,
                                 .bytes = bytes,
                                 .bits = bits };
}

/* What it wrote itself will be there again: only the other bytes have to be the same. */
void launch_note_read(struct launch *l, struct orch *o, uint64_t addr, uint32_t bytes,
                      uint64_t bits)
{
    const struct launch_list *writes = &l->list[ORCH_WRITES];
    struct launch_note n = make_note(o, addr, bytes, bits);

    for (uint32_t b = 0; b < bytes; b++)
        n.mask |= 0xffull << 8 * b;
    for (uint64_t i = 0; i < writes->count; i++) {
        uint64_t at = note_addr(&writes->note[i], o->run->entry);

        for (uint32_t b = 0; b < bytes; b++)
            if (addr + b - at < writes->note[i].bytes)
                n.mask &= ~(0xffull << 8 * b);
    }
    if (n.mask != 0)
        add_note(l, o, ORCH_READS, n);
}

void launch_note_write(struct launch *l, struct orch *o, uint64_t addr, uint32_t bytes,
                       uint64_t bits)
{
    add_note(l, o, ORCH_WRITES, make_note(o, addr, bytes, bits));
}

void launch_note_scalar(struct launch *l, uint32_t index)
{
    l->scalar_use[index] |= SCALAR_READ;
}

void launch_note_scalars(struct launch *l, const struct orch *o)
{
    for (uint32_t i = 0; i < o->run->entry->scalar_count; i++)
        l->scalar_use[i] |= SCALAR_READ;
}

static void note_fill(void *context, uint64_t addr, uint64_t bytes, uint64_t value, uint32_t dtype)
{
    struct orch *o = context;

    add_note(o->run->launch, o, ORCH_FILLS,
             (struct launch_note){
                 .entry = -1, .dtype = dtype, .at = addr, .bytes = bytes, .bits = value });
}

void launch_record(struct launch *l, struct orch *o, struct graph_params *params)
{
    params->is_recorded = true;
    params->fill_fn = note_fill;
    params->fill_context = o;
    for (uint32_t i = 0; i < ORCH_LISTS; i++) {
        o->list_pool[i].used = 0;
        l->list[i] = (struct launch_list){ (struct launch_note *)(void *)o->list_pool[i].base, 0 };
    }
}

/* ---- keeping ---- */

/* What lies behind the image: the entry, what is bound now, and the notes but for ORCH_OUTSIDE. */
static uint64_t extra_bytes(const struct launch *l, const struct pto_entry *entry)
{
    uint64_t notes = 0;

    for (uint32_t i = 0; i < ORCH_OUTSIDE; i++)
        notes += l->list[i].count;
    return entry->tensor_count * (sizeof(struct pto_tensor) + sizeof(uint64_t)) +
           2 * entry->scalar_count * sizeof(uint64_t) + notes * sizeof(struct launch_note);
}

static uint64_t image_end(const struct launch *l)
{
    return (l->image.bytes + sizeof(struct pto_tensor) - 1) / sizeof(struct pto_tensor) *
           sizeof(struct pto_tensor);
}

uint64_t launch_measure(struct launch *l, struct orch *o)
{
    image_measure(&l->image, o->graph, o->run->entry);
    return image_end(l) + extra_bytes(l, o->run->entry);
}

static void note_outside(void *context, uint64_t addr, uint64_t bytes)
{
    struct orch *o = context;
    struct launch *l = o->run->launch;
    const struct launch_list *list = &l->list[ORCH_OUTSIDE];

    if (list->count != 0 && list->note[list->count - 1].at == addr &&
        list->note[list->count - 1].bytes == bytes)
        return; /* neighbours often use the same */
    add_note(l, o, ORCH_OUTSIDE, (struct launch_note){ .entry = -1, .at = addr, .bytes = bytes });
}

/* Puts them in order and joins those that touch. */
static void sort_outside(struct launch_list *list)
{
    uint64_t kept = 0;

    if (list->count == 0)
        return;
    sort_notes(list->note, list->count);
    for (uint64_t i = 1; i < list->count; i++) {
        struct launch_note *last = &list->note[kept];
        const struct launch_note *n = &list->note[i];

        if (n->at > last->at + last->bytes)
            list->note[++kept] = *n;
        else if (n->at + n->bytes > last->at + last->bytes)
            last->bytes = n->at + n->bytes - last->at;
    }
    list->count = kept + 1;
}

/* Copies the entry and the notes behind the image. */
static void keep_entry(struct launch *l, const struct pto_entry *entry, char *memory)
{
    size_t tensors = entry->tensor_count, scalars = entry->scalar_count;
    struct pto_tensor *tensor = (struct pto_tensor *)(void *)memory;
    uint64_t *scalar = (uint64_t *)(void *)(tensor + tensors);
    struct launch_note *note;

    l->bound_scalar = scalar + scalars;
    l->bound_addr = scalar + 2 * scalars;
    note = (struct launch_note *)(void *)(l->bound_addr + tensors);
    if (tensors != 0)
        memcpy(tensor, entry->tensor, tensors * sizeof(*tensor));
    if (scalars != 0) {
        memcpy(scalar, entry->scalar, scalars * sizeof(*scalar));
        memcpy(l->bound_scalar, entry->scalar, scalars * sizeof(*scalar));
    }
    for (size_t i = 0; i < tensors; i++)
        l->bound_addr[i] = tensor[i].addr;
    l->built = (struct pto_entry){ (uint32_t)tensors, (uint32_t)scalars, tensor, scalar };
    for (uint32_t i = 0; i < ORCH_OUTSIDE; i++) {
        struct launch_list *list = &l->list[i];

        memcpy(note, list->note, list->count * sizeof(*note));
        list->note = note;
        note += list->count;
    }
}

void launch_fill(struct launch *l, struct orch *o, char *memory)
{
    const struct pto_entry *entry = o->run->entry;
    struct launch_list *fills = &l->list[ORCH_FILLS];

    image_fill(&l->image, o->graph, entry, memory);
    keep_entry(l, entry, memory + image_end(l));
    image_each_outside(&l->image, entry, note_outside, o);
    sort_outside(&l->list[ORCH_OUTSIDE]);
    for (uint64_t i = 0; i < fills->count; i++)
        fills->note[i].at = image_moved(&l->image, o->graph, fills->note[i].at);
    for (uint32_t i = 0; i < l->image.passed_count; i++)
        l->scalar_use[l->image.passed[i].entry] |= SCALAR_PASSED;
    sharing_choice_start(&l->launches, WAY_SHARED);
}

uint64_t launch_outside_bytes(const struct launch *l)
{
    return l->list[ORCH_OUTSIDE].count * sizeof(struct launch_note);
}

void launch_keep_outside(struct launch *l, void *memory)
{
    struct launch_list *list = &l->list[ORCH_OUTSIDE];

    if (list->count != 0)
        memcpy(memory, list->note, list->count * sizeof(*list->note));
    list->note = memory;
}

/* By address: a heap, because there is nothing but memcpy. */
static void sift(struct launch_note *note, uint64_t at, uint64_t count)
{
    for (uint64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        struct launch_note larger;

        if (child + 1 < count && note[child + 1].at > note[child].at)
            child++;
        if (note[child].at <= note[at].at)
            return;
        larger = note[child];
        note[child] = note[at];
        note[at] = larger;
        at = child;
    }
}

static void sort_notes(struct launch_note *note, uint64_t count)
{
    for (uint64_t i = count / 2; i-- > 0;)
        sift(note, i, count);
    for (uint64_t end = count; end-- > 1;) {
        struct launch_note largest = note[0];

        note[0] = note[end];
        note[end] = largest;
        sift(note, 0, end);
    }
}

/* ---- launching ---- */

/* Lets the image name what the entry has now. */
static void bind(struct launch *l, const struct pto_entry *entry)
{
    size_t scalar_bytes = entry->scalar_count * sizeof(uint64_t);
    bool is_bound = true;

    for (uint32_t i = 0; i < entry->tensor_count; i++) {
        is_bound = is_bound && l->bound_addr[i] == entry->tensor[i].addr;
        l->bound_addr[i] = entry->tensor[i].addr;
    }
    if (scalar_bytes != 0) {
        is_bound = is_bound && memcmp(l->bound_scalar, entry->scalar, scalar_bytes) == 0;
        memcpy(l->bound_scalar, entry->scalar, scalar_bytes);
    }
    if (!is_bound)
        image_bind(&l->image, entry);
}

int launch_start(struct launch *l, struct orch *o, const struct graph_params *params)
{
    const struct pto_entry *entry = o->run->entry;

    if (!is_same_entry(l, o))
        return o->status;
    bind(l, entry);
    for (uint64_t i = 0; i < l->list[ORCH_FILLS].count; i++) {
        const struct launch_note *n = &l->list[ORCH_FILLS].note[i];

        block_fill(n->at, n->bytes, n->bits, n->dtype);
    }
    for (uint64_t i = 0; i < l->list[ORCH_WRITES].count; i++) {
        const struct launch_note *n = &l->list[ORCH_WRITES].note[i];

        memcpy((void *)(uintptr_t)note_addr(n, entry), &n->bits, n->bytes);
    }
    if (params->wired_fn != NULL)
        image_each_edge(&l->image, params->wired_fn, params->wired_context);
    image_start(o->graph, &l->image, params);
    return PTO_OK;
}

/* ---- what may not change ---- */

/* Refuses the launch: up to four values that the sentence needs. */
static bool refuse(struct orch *o, enum fault fault, const uint64_t value[4])
{
    struct failure why = orch_failure(PTO_EGRAPH, fault, NULL);

    memcpy(why.value, value, 4 * sizeof(value[0]));
    (void)orch_fail(o, &why);
    return false;
}

static bool overlaps(const struct pto_tensor *a, const struct pto_tensor *b)
{
    return a->addr < b->addr + b->size && b->addr < a->addr + a->size;
}

static bool is_same_shape(const struct pto_tensor *a, const struct pto_tensor *b)
{
    return a->size == b->size && a->start == b->start && a->ndims == b->ndims &&
           (a->addr == 0) == (b->addr == 0) && a->dtype == b->dtype && a->version == b->version &&
           a->manual_dep == b->manual_dep &&
           memcmp(a->shapes, b->shapes, a->ndims * sizeof(a->shapes[0])) == 0 &&
           memcmp(a->strides, b->strides, a->ndims * sizeof(a->strides[0])) == 0;
}

/* The same tensors overlap each other, and by as much. */
static bool is_same_aliasing(struct launch *l, struct orch *o)
{
    const struct pto_tensor *now = o->run->entry->tensor, *then = l->built.tensor;

    for (uint32_t i = 0; i < l->built.tensor_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            bool did = overlaps(&then[i], &then[k]);

            if (did != overlaps(&now[i], &now[k]) ||
                (did && now[i].addr - now[k].addr != then[i].addr - then[k].addr))
                return refuse(o, FAULT_LAUNCH_ALIAS, (const uint64_t[4]){ k, i, did });
        }
    return true;
}

/* The first stretch of the graph's own memory that ends behind the address. */
static uint64_t find_outside(const struct launch_list *list, uint64_t addr)
{
    uint64_t low = 0, high = list->count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (list->note[middle].at + list->note[middle].bytes > addr)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool meets_outside(const struct launch_list *list, const struct pto_tensor *t)
{
    uint64_t i = find_outside(list, t->addr);

    return i < list->count && list->note[i].at < t->addr + t->size;
}

/* What was apart from memory that the graph names by itself still is; what was not has not moved. */
static bool is_away_from_outside(struct launch *l, struct orch *o)
{
    const struct pto_tensor *now = o->run->entry->tensor, *then = l->built.tensor;
    const struct launch_list *outside = &l->list[ORCH_OUTSIDE];

    for (uint32_t i = 0; i < l->built.tensor_count; i++)
        if (now[i].addr != then[i].addr &&
            (meets_outside(outside, &now[i]) || meets_outside(outside, &then[i])))
            return refuse(o, FAULT_LAUNCH_OUTSIDE, (const uint64_t[4]){ i });
    return true;
}

/* Scalars that are not passed on to tasks are part of the graph. */
static bool has_same_scalars(struct launch *l, struct orch *o)
{
    const uint64_t *now = o->run->entry->scalar, *then = l->built.scalar;

    for (uint32_t i = 0; i < l->built.scalar_count; i++)
        if (now[i] != then[i] && l->scalar_use[i] != SCALAR_PASSED)
            return refuse(
                o, FAULT_LAUNCH_SCALAR,
                (const uint64_t[4]){ i, then[i], now[i], l->scalar_use[i] & SCALAR_READ });
    return true;
}

/* What the orchestration read has the value that it had. */
static bool has_same_data(struct launch *l, struct orch *o)
{
    for (uint64_t i = 0; i < l->list[ORCH_READS].count; i++) {
        const struct launch_note *n = &l->list[ORCH_READS].note[i];
        struct failure why = orch_failure(PTO_EGRAPH, FAULT_LAUNCH_DATA, NULL);
        uint64_t bits = 0;

        memcpy(&bits, (const void *)(uintptr_t)note_addr(n, o->run->entry), n->bytes);
        if (((bits ^ n->bits) & n->mask) == 0)
            continue;
        why.value[0] = n->bits;
        why.value[1] = n->at;
        why.value[2] = bits;
        why.argument = n->entry;
        (void)orch_fail(o, &why);
        return false;
    }
    return true;
}

static bool is_same_entry(struct launch *l, struct orch *o)
{
    const struct pto_entry *now = o->run->entry, *then = &l->built;

    if (now->tensor_count != then->tensor_count || now->scalar_count != then->scalar_count)
        return refuse(o, FAULT_LAUNCH_COUNTS,
                      (const uint64_t[4]){ then->tensor_count, then->scalar_count,
                                           now->tensor_count, now->scalar_count });
    for (uint32_t i = 0; i < now->tensor_count; i++)
        if (!is_same_shape(&now->tensor[i], &then->tensor[i]))
            return refuse(o, FAULT_LAUNCH_SHAPE, (const uint64_t[4]){ i });
    return has_same_scalars(l, o) && is_same_aliasing(l, o) && is_away_from_outside(l, o) &&
           has_same_data(l, o);
}
