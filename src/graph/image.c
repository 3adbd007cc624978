/* SPDX-License-Identifier: Apache-2.0 */
/* From a graph that was built to one that can be launched again. */
#include "graph/image.h"

#include <string.h>

/* The slot of a task by number; NULL: none. */
static const struct slot *slot_at(const struct graph *g, uint32_t number)
{
    return g->info[number].seq != 0 ? graph_slot(g, g->info[number].line) : NULL;
}

static struct slot *image_slot(const struct image *image, uint32_t line)
{
    return (struct slot *)(void *)(image->slots + (uint64_t)line * SLOT_LINE_BYTES);
}

int32_t image_find_entry(const struct pto_entry *entry, uint64_t addr)
{
    for (uint32_t i = 0; i < entry->tensor_count; i++) {
        const struct pto_tensor *t = &entry->tensor[i];

        if (addr - t->addr < t->size || (addr == t->addr && t->size == 0))
            return (int32_t)i;
    }
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

void image_measure(struct image *image, const struct graph *g, const struct pto_entry *entry)
{
    memset(image, 0, sizeof(*image));
    image->slot_bytes = g->slot_pool.used;
    image->heap_bytes = g->heap_pool.used;
    image->passed_count = (uint32_t)(g->passed_pool.used / sizeof(struct passed_scalar));
    image->submitted = g->seq - 1;
    for (uint32_t number = 1; number < g->info_count; number++) {
        const struct slot *s = slot_at(g, number);

        if (s == NULL)
            continue;
        image->task_count++;
        for (const struct edge *e = aptr_load_relaxed(&s->successors); e != NULL; e = e->next)
            image->edge_count++; /* nothing runs */
        for (uint32_t i = 0; i < s->tensor_count; i++)
            image->patch_count += image_find_entry(entry, s->tensor[i].addr) >= 0;
        image->patch_count += operand_of(s) != 0 && image_find_entry(entry, operand_of(s)) >= 0;
    }
    image->bytes = align_heap(image->heap_bytes) + align(image->slot_bytes) +
                   align(image->edge_count * sizeof(uint32_t)) +
                   align(image->task_count * sizeof(uint32_t)) +
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

/* The slot as it is before each launch, its incoming edges not counted yet. */
static void copy_slot(struct image *image, const struct graph *g, const struct pto_entry *entry,
                      uint32_t line)
{
    struct slot *s = image_slot(image, line);
    uint64_t operand = operand_of(s);

    for (uint32_t i = 0; i < s->tensor_count; i++) {
        struct pto_tensor *x = &s->tensor[i];
        uint64_t addr = x->addr;

        x->addr = image_moved(image, g, addr);
        if (x->addr == addr)
            add_patch(image, entry, line, i, addr);
    }
    if (operand != 0) {
        slot_predicate(s)->addr = image_moved(image, g, operand);
        if (slot_predicate(s)->addr == operand)
            add_patch(image, entry, line, IMAGE_PREDICATE, operand);
    }
    s->flags &= (uint8_t) ~(SLOT_HAS_BLOCK | SLOT_HAS_RETAINED | SLOT_HAS_SPILL);
    s->image = (struct slot_image){ .lanes = s->lanes };
}

void image_fill(struct image *image, const struct graph *g, const struct pto_entry *entry,
                char *memory)
{
    uint32_t filled = 0;
    uint32_t others = image->task_count;

    image->heap = memory; /* first: it is aligned to more than the others */
    memory += align_heap(image->heap_bytes);
    image->slots = lay_out(&memory, image->slot_bytes);
    image->successor = (uint32_t *)(void *)lay_out(&memory, image->edge_count * sizeof(uint32_t));
    image->root = (uint32_t *)(void *)lay_out(&memory, image->task_count * sizeof(uint32_t));
    image->patch = (struct image_patch *)(void *)lay_out(
        &memory, image->patch_count * sizeof(struct image_patch));
    image->passed = (struct passed_scalar *)(void *)lay_out(
        &memory, image->passed_count * sizeof(struct passed_scalar));
    memcpy(image->slots, g->slot_pool.base, image->slot_bytes);
    memcpy(image->heap, g->heap_pool.base, image->heap_bytes);
    memcpy(image->passed, g->passed_pool.base, image->passed_count * sizeof(struct passed_scalar));
    image->patch_count = 0;
    for (uint32_t number = 1; number < g->info_count; number++)
        if (slot_at(g, number) != NULL)
            copy_slot(image, g, entry, g->info[number].line);
    for (uint32_t number = 1; number < g->info_count; number++) {
        const struct slot *from = slot_at(g, number);
        struct slot *s;

        if (from == NULL)
            continue;
        s = image_slot(image, g->info[number].line);
        s->image.first = filled;
        for (const struct edge *e = aptr_load_relaxed(&from->successors); e != NULL; e = e->next) {
            image->successor[filled++] = graph_slot_line(g, e->self); /* nothing runs */
            image_slot(image, image->successor[filled - 1])->image.pending++;
        }
        s->image.count = filled - s->image.first;
    }
    for (uint32_t number = 1; number < g->info_count; number++) {
        struct slot *s;

        if (slot_at(g, number) == NULL)
            continue;
        s = image_slot(image, g->info[number].line);
        a32_store_relaxed(&s->pending, s->image.pending); /* nothing runs */
        if (s->image.pending == 0)
            image->root[image->root_count++] = g->info[number].line;
        else
            image->root[--others] = g->info[number].line;
    }
}

static bool is_outside(const struct image *image, const struct pto_entry *entry, uint64_t addr)
{
    return addr - (uint64_t)(uintptr_t)image->heap >= image->heap_bytes &&
           image_find_entry(entry, addr) < 0;
}

void image_each_outside(const struct image *image, const struct pto_entry *entry,
                        void (*each)(void *context, uint64_t addr, uint64_t bytes), void *context)
{
    for (uint32_t i = 0; i < image->task_count; i++) {
        struct slot *s = image_slot(image, image->root[i]);

        for (uint32_t k = 0; k < s->tensor_count; k++)
            if (is_outside(image, entry, s->tensor[k].addr))
                each(context, s->tensor[k].addr, s->tensor[k].size);
        if (operand_of(s) != 0 && is_outside(image, entry, operand_of(s)))
            each(context, operand_of(s), slot_predicate(s)->bytes);
    }
}

void image_each_edge(const struct image *image,
                     void (*each)(void *context, uint32_t before, uint32_t after), void *context)
{
    for (uint32_t i = 0; i < image->task_count; i++) {
        const struct slot *s = image_slot(image, image->root[i]);

        for (uint32_t k = 0; k < s->image.count; k++)
            each(context, s->seq - 1,
                 image_slot(image, image->successor[s->image.first + k])->seq - 1);
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
            s->tensor[p->argument].addr = addr;
    }
    for (uint32_t i = 0; i < image->passed_count; i++) {
        const struct passed_scalar *p = &image->passed[i];
        struct slot *s = image_slot(image, p->line);

        slot_set_scalar(s, p->argument, entry->scalar[p->entry]);
    }
}

void image_start(struct graph *g, const struct image *image, const struct graph_params *params)
{
    g->kernels = params->kernels;
    g->kernel_count = params->kernel_count;
    g->is_shared = params->is_shared;
    g->clusters = params->clusters;
    g->successor = image->successor;
    g->slot_base = image->slots;
    g->live = image->task_count;
    g->seq = image->submitted + 1;
    g->edge_total = image->edge_count;
    a32_store_relaxed(&g->freed_blocks, 0); /* no other thread is in the run yet */
}
