/* SPDX-License-Identifier: Apache-2.0 */
/* From a graph that was built to one that can be launched again. */
#include "graph/image.h"

#include <string.h>

#include "graph/submit.h"

/* Where the next task goes while an image is filled. */
struct filling {
    struct image *image;
    const struct graph *g;
    const struct pto_entry *entry;
    uint32_t header; /* line */
    uint32_t payload;
    uint32_t edges;
    uint32_t ready; /* tasks on the stack of those whose predecessors are placed */
};

/* The slot of a task by number; NULL: none. */
static const struct slot *slot_at(const struct graph *g, uint32_t number)
{
    return g->info[number].seq != 0 ? graph_slot(g, g->info[number].line) : NULL;
}

static const struct edge *edges_of(const struct slot *s)
{
    return aptr_load_relaxed(&s->successors); /* nothing runs */
}

static struct slot *image_slot(const struct image *image, uint32_t line)
{
    return (struct slot *)(void *)(image->slots + (uint64_t)line * SLOT_LINE_BYTES);
}

static struct pto_tensor *image_tensors(const struct image *image, const struct slot *s)
{
    return (struct pto_tensor *)(void *)(image->slots + (uint64_t)s->payload * SLOT_LINE_BYTES);
}

static bool lies_in(const struct pto_tensor *t, uint64_t addr)
{
    return addr - t->addr < t->size || (addr == t->addr && t->size == 0);
}

int32_t image_find_entry(const struct pto_entry *entry, uint64_t addr)
{
    for (uint32_t i = 0; i < entry->tensor_count; i++)
        if (lies_in(&entry->tensor[i], addr))
            return (int32_t)i;
    return -1;
}

/* Where the operand of the slot's predicate lies; 0: it has none. */
static uint64_t operand_of(const struct slot *s)
{
    return (s->flags & SLOT_HAS_PREDICATE) != 0 ? slot_predicate((struct slot *)(uintptr_t)s)->addr
                                                : 0;
}

static uint64_t align(uint64_t bytes)
{
    return (bytes + 127) / 128 * 128;
}

/* Outputs are aligned as in a run. */
static uint64_t align_heap(uint64_t bytes)
{
    return (bytes + GRAPH_OUTPUT_ALIGN - 1) / GRAPH_OUTPUT_ALIGN * GRAPH_OUTPUT_ALIGN;
}

/* Bytes of what follows the header, as a launch needs it. */
static uint64_t payload_bytes(const struct slot *from)
{
    struct slot *s = (struct slot *)(uintptr_t)from;
    const char *end = (s->flags & SLOT_HAS_PREDICATE) != 0 ? (char *)(slot_predicate(s) + 1)
                                                           : (char *)slot_retained(s);

    return (uint64_t)(end - (const char *)s->tensor);
}

static uint32_t payload_lines(const struct slot *s)
{
    return (uint32_t)((payload_bytes(s) + SLOT_LINE_BYTES - 1) / SLOT_LINE_BYTES);
}

/* A task that is whole is as in the slot pool; of others the payload lies apart. */
static uint32_t header_lines(const struct slot *s)
{
    return (s->flags & SLOT_IS_WHOLE) != 0 ? 2 + payload_lines(s) : 1;
}

/* Incoming edges of a task that was not run. */
static uint32_t count_predecessors(const struct graph *g, const struct slot *s)
{
    return s->edge_count + ((s->flags & SLOT_HAS_SPILL) != 0 ? submit_count_spilled(g, s) : 0);
}

void image_measure(struct image *image, const struct graph *g, const struct pto_entry *entry)
{
    uint64_t payload = 0;

    memset(image, 0, sizeof(*image));
    image->heap_bytes = g->heap_pool.used;
    image->passed_count = (uint32_t)(g->passed_pool.used / sizeof(struct passed_scalar));
    image->number_count = g->info_count;
    image->header_lines = 1; /* line 0 is nobody's */
    image->submitted = g->seq - 1;
    for (uint32_t number = 1; number < g->info_count; number++) {
        const struct slot *s = slot_at(g, number);

        if (s == NULL)
            continue;
        image->task_count++;
        image->header_lines += header_lines(s);
        image->has_teams = image->has_teams || (s->flags & SLOT_IS_TEAM) != 0;
        payload += (s->flags & SLOT_IS_WHOLE) != 0 ? 0 : payload_lines(s);
        image->edge_count += count_predecessors(g, s);
        for (uint32_t i = 0; i < s->tensor_count; i++)
            image->patch_count += image_find_entry(entry, s->tensor[i].addr) >= 0;
        image->patch_count += operand_of(s) != 0 && image_find_entry(entry, operand_of(s)) >= 0;
    }
    image->is_plain = image->header_lines == image->task_count + 1;
    image->slot_bytes = (image->header_lines + payload) * SLOT_LINE_BYTES;
    image->bytes = align_heap(image->heap_bytes) + align(image->slot_bytes) +
                   align(image->edge_count * sizeof(uint32_t)) +
                   align(image->header_lines * sizeof(struct a32)) +
                   align(image->task_count * sizeof(uint32_t)) +
                   align(image->number_count * sizeof(uint32_t)) +
                   align(image->patch_count * sizeof(struct image_patch)) +
                   align(image->passed_count * sizeof(struct passed_scalar));
    image->bytes = align_heap(image->bytes);
}

static char *lay_out(char **at, uint64_t bytes)
{
    char *here = *at;

    *at += align(bytes);
    return here;
}

uint64_t image_moved(const struct image *image, const struct graph *g, uint64_t addr)
{
    uint64_t offset = addr - (uint64_t)(uintptr_t)g->heap_pool.base;

    return offset < image->heap_bytes ? (uint64_t)(uintptr_t)image->heap + offset : addr;
}

static void add_patch(struct image *image, const struct pto_entry *entry, uint32_t line,
                      uint32_t argument, uint64_t addr)
{
    int32_t index = image_find_entry(entry, addr);

    if (index >= 0)
        image->patch[image->patch_count++] =
            (struct image_patch){ line, (uint16_t)argument, (uint16_t)index,
                                  addr - entry->tensor[index].addr };
}

/*
 * The tasks that wait for nothing become a stack, the first one on top. Borrows what
 * is filled afterwards: until a task is placed, `line` has the predecessors that are
 * not, and `task` is the stack.
 */
static void stack_roots(struct filling *f)
{
    struct image *image = f->image;

    for (uint32_t number = f->g->info_count; number-- > 1;) {
        const struct slot *s = slot_at(f->g, number);

        if (s == NULL)
            continue;
        image->line[number] = count_predecessors(f->g, s);
        if (image->line[number] != 0)
            continue;
        image->task[f->ready++] = number;
        if ((s->flags & SLOT_IS_SETTLED_FIRST) != 0)
            image->early_count++;
    }
    image->root_count = f->ready - image->early_count;
}

/* The slot as it is before each launch. */
static void adapt_slot(struct filling *f, struct slot *s, uint32_t line)
{
    struct image *image = f->image;
    struct pto_tensor *tensor = image_tensors(image, s);
    uint64_t operand = operand_of(s);

    for (uint32_t i = 0; i < s->tensor_count; i++) {
        uint64_t addr = tensor[i].addr;

        tensor[i].addr = image_moved(image, f->g, addr);
        if (tensor[i].addr == addr)
            add_patch(image, f->entry, line, i, addr);
    }
    if (operand != 0) {
        slot_predicate(s)->addr = image_moved(image, f->g, operand);
        if (slot_predicate(s)->addr == operand)
            add_patch(image, f->entry, line, IMAGE_PREDICATE, operand);
    }
    s->flags &= (uint8_t) ~(SLOT_HAS_BUFFER | SLOT_HAS_RETAINED | SLOT_HAS_SPILL);
    if (s->lanes == 0)
        s->flags |= SLOT_IS_DUMMY;
    s->built_lanes = s->lanes;
    a32_store_relaxed(&s->pending, 0); /* a link only */
}

/* Copies the slot; its successors are not there yet, so their numbers stand for them. */
static void place_slot(struct filling *f, uint32_t number)
{
    struct image *image = f->image;
    const struct slot *from = slot_at(f->g, number);
    bool is_whole = (from->flags & SLOT_IS_WHOLE) != 0;
    struct slot *s = image_slot(image, f->header);

    image->line[number] = f->header;
    memcpy(s, from, is_whole ? sizeof(*s) : SLOT_LINE_BYTES);
    s->payload = is_whole ? f->header + 2 : f->payload;
    memcpy(image_tensors(image, s), from->tensor, payload_bytes(from));
    s->built_pending = count_predecessors(f->g, from);
    a32_store_relaxed(&image->counter[f->header], s->built_pending); /* nothing runs */
    adapt_slot(f, s, f->header);
    s->span.first = f->edges;
    for (const struct edge *e = edges_of(from); e != NULL; e = e->next)
        image->successor[f->edges++] = e->self->number;
    s->span.count = f->edges - s->span.first;
    f->header += header_lines(from);
    f->payload += is_whole ? 0 : payload_lines(from);
}

/*
 * The tasks in the order in which one worker would run them: it goes on with the
 * first that it makes ready, later with the others, newest first.
 */
static void place_slots(struct filling *f)
{
    struct image *image = f->image;
    uint32_t *pending = image->line, *ready = image->task;

    while (f->ready != 0) {
        uint32_t next = 0, first = f->edges;

        place_slot(f, ready[--f->ready]);
        for (uint32_t i = first; i < f->edges; i++) {
            uint32_t number = image->successor[i];

            if (--pending[number] != 0)
                continue;
            if (next == 0)
                next = number;
            else
                ready[f->ready++] = number;
        }
        if (next != 0)
            ready[f->ready++] = next;
    }
}

/* Lines instead of numbers; marks those that wait for this task only: a launch does not count. */
static void wire_slot(struct image *image, struct slot *s)
{
    uint32_t *successor = &image->successor[s->span.first];

    for (uint32_t i = 0; i < s->span.count; i++) {
        successor[i] = image->line[successor[i]];
        if (a32_load_relaxed(&image->counter[successor[i]]) == 1) /* nothing runs */
            successor[i] |= SPAN_FOLLOWS;
    }
    if (s->span.count == 1 && (successor[0] & SPAN_FOLLOWS) != 0)
        s->span = (struct slot_span){ successor[0], SPAN_IS_ONE };
}

/* Wires each task and fills the list of them. */
static void wire_slots(struct image *image)
{
    uint32_t root = image->root_count, early = root + image->early_count, other = early;

    for (uint32_t line = 1; line < image->header_lines;) {
        struct slot *s = image_slot(image, line);

        wire_slot(image, s);
        if (s->built_pending != 0)
            image->task[other++] = line;
        else if ((s->flags & SLOT_IS_SETTLED_FIRST) == 0)
            image->task[--root] = line;
        else
            image->task[--early] = line;
        line += header_lines(s);
    }
}

void image_fill(struct image *image, const struct graph *g, const struct pto_entry *entry,
                char *memory)
{
    struct filling f = { image, g, entry, 1, image->header_lines, 0, 0 };

    image->heap = memory; /* first: it is aligned to more than the others */
    memory += align_heap(image->heap_bytes);
    image->slots = lay_out(&memory, image->slot_bytes);
    image->successor = (uint32_t *)(void *)lay_out(&memory, image->edge_count * sizeof(uint32_t));
    image->counter =
        (struct a32 *)(void *)lay_out(&memory, image->header_lines * sizeof(struct a32));
    image->task = (uint32_t *)(void *)lay_out(&memory, image->task_count * sizeof(uint32_t));
    image->line = (uint32_t *)(void *)lay_out(&memory, image->number_count * sizeof(uint32_t));
    image->patch = (struct image_patch *)(void *)lay_out(
        &memory, image->patch_count * sizeof(struct image_patch));
    image->passed = (struct passed_scalar *)(void *)lay_out(
        &memory, image->passed_count * sizeof(struct passed_scalar));
    memcpy(image->heap, g->heap_pool.base, image->heap_bytes);
    memcpy(image->passed, g->passed_pool.base, image->passed_count * sizeof(struct passed_scalar));
    image->patch_count = 0;
    stack_roots(&f);
    place_slots(&f);
    port_assert(f.header == image->header_lines && f.edges == image->edge_count);
    for (uint32_t i = 0; i < image->passed_count; i++)
        image->passed[i].line = image->line[graph_slot(g, image->passed[i].line)->number];
    wire_slots(image);
}

static bool is_outside(const struct image *image, const struct pto_entry *entry, uint64_t addr)
{
    return addr - (uint64_t)(uintptr_t)image->heap >= image->heap_bytes &&
           image_find_entry(entry, addr) < 0;
}

void image_each_outside(const struct image *image, const struct pto_entry *entry,
                        void (*each)(void *context, uint64_t addr, uint64_t bytes), void *context)
{
    for (uint32_t line = 1; line < image->header_lines;) {
        struct slot *s = image_slot(image, line);
        const struct pto_tensor *tensor = image_tensors(image, s);

        for (uint32_t k = 0; k < s->tensor_count; k++)
            if (is_outside(image, entry, tensor[k].addr))
                each(context, tensor[k].addr, tensor[k].size);
        if (operand_of(s) != 0 && is_outside(image, entry, operand_of(s)))
            each(context, operand_of(s), slot_predicate(s)->bytes);
        line += header_lines(s);
    }
}

/* The tasks that wait for s, or for a join that does; no join waits for a join. */
static void each_successor(const struct image *image, const struct slot *s, uint32_t before,
                           void (*each)(void *context, uint32_t before, uint32_t after),
                           void *context)
{
    bool is_one = s->span.count == SPAN_IS_ONE;
    const uint32_t *line = is_one ? &s->span.first : &image->successor[s->span.first];

    for (uint32_t k = 0; k < (is_one ? 1 : s->span.count); k++) {
        const struct slot *next = image_slot(image, line[k] & ~SPAN_FOLLOWS);

        if (slot_is_join(next))
            each_successor(image, next, before, each, context);
        else
            each(context, before, next->seq - 1);
    }
}

void image_each_edge(const struct image *image,
                     void (*each)(void *context, uint32_t before, uint32_t after), void *context)
{
    for (uint32_t i = 0; i < image->task_count; i++) {
        const struct slot *s = image_slot(image, image->task[i]);

        if (!slot_is_join(s))
            each_successor(image, s, s->seq - 1, each, context);
    }
}

void image_bind(struct image *image, const struct pto_entry *entry)
{
    for (uint32_t i = 0; i < image->patch_count; i++) {
        const struct image_patch *p = &image->patch[i];
        uint64_t addr = entry->tensor[p->entry].addr + p->offset;
        struct slot *s = image_slot(image, p->line);

        if (p->argument == IMAGE_PREDICATE)
            slot_predicate(s)->addr = addr;
        else
            image_tensors(image, s)[p->argument].addr = addr;
    }
    for (uint32_t i = 0; i < image->passed_count; i++) {
        const struct passed_scalar *p = &image->passed[i];
        struct slot *s = image_slot(image, p->line);

        if (s->scalar_count == 1)
            s->scalar = entry->scalar[p->entry];
        else
            ((uint64_t *)(void *)(image_tensors(image, s) + s->tensor_count))[p->argument] =
                entry->scalar[p->entry];
    }
}

void image_start(struct graph *g, const struct image *image, const struct graph_params *params)
{
    g->kernels = params->kernels;
    g->kernel_count = params->kernel_count;
    g->is_shared = params->is_shared;
    g->clusters = params->clusters;
    g->successor = image->successor;
    g->counter = image->counter;
    g->slot_base = image->slots;
    g->live = image->task_count;
    g->seq = image->submitted + 1;
    g->edge_total = image->edge_count;
    a32_store_relaxed(&g->freed_buffers, 0); /* no other thread is in the run yet */
}
