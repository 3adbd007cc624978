/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a graph that was built into an image, which can be launched many times. */
#include "graph/image.h"

#include <string.h>

/* State while an image is filled: where the next task's slot, payload and edges go. */
struct filling {
    struct image *image;
    const struct graph *g;
    const struct pto_entry *entry;
    uint32_t header; /* line of the next slot */
    uint32_t payload;
    uint32_t edges;
    /*
     * height of the stack of ready tasks: those whose predecessors all have their line in the image
     */
    uint32_t ready;
};

/* Returns the slot with this number; NULL: no task has it. */
static const struct slot *slot_at(const struct graph *g, uint32_t number)
{
    return g->info[number].seq != 0 ? graph_slot(g, g->info[number].line) : NULL;
}

static const struct edge *edges_of(const struct slot *s)
{
    /* relaxed: only one thread has access, because no task runs */
    return aptr_load_relaxed(&s->successors);
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

static bool is_output(const struct graph *g, uint64_t addr)
{
    return addr - (uint64_t)(uintptr_t)g->heap_pool.base < g->heap_pool.used;
}

static bool is_outside(const struct graph *g, const struct pto_entry *entry, uint64_t addr)
{
    return !is_output(g, addr) && image_find_entry(entry, addr) < 0;
}

static bool is_patched(const struct graph *g, const struct pto_entry *entry, uint64_t addr)
{
    return !is_output(g, addr) && image_find_entry(entry, addr) >= 0;
}

/* Address of the operand of a slot's predicate; 0: it has no predicate. */
static uint64_t operand_of(const struct slot *s)
{
    return (s->flags & SLOT_HAS_PREDICATE) != 0 ? slot_predicate((struct slot *)(uintptr_t)s)->addr
                                                : 0;
}

static uint64_t align(uint64_t bytes)
{
    return (bytes + 127) / 128 * 128;
}

/* Size of the part after the slot's header that a launch needs. */
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

/*
 * Lines that a slot takes in the first part of the image. A whole task (SLOT_IS_WHOLE) has the
 * layout of the slot pool there; of other tasks the payload is in the second part.
 */
static uint32_t header_lines(const struct slot *s)
{
    return (s->flags & SLOT_IS_WHOLE) != 0 ? 2 + payload_lines(s) : 1;
}

void image_measure(struct image *image, const struct graph *g, const struct pto_entry *entry)
{
    uint64_t payload = 0;

    memset(image, 0, sizeof(*image));
    image->heap_bytes = g->heap_pool.used;
    image->passed_count = (uint32_t)(g->passed_pool.used / sizeof(struct passed_scalar));
    image->number_count = g->info_count;
    image->header_lines = 1; /* line 0 is unused */
    image->submitted = g->seq - 1;
    for (uint32_t number = 1; number < g->info_count; number++) {
        const struct slot *s = slot_at(g, number);

        if (s == NULL)
            continue;
        image->task_count++;
        image->header_lines += header_lines(s);
        image->has_teams = image->has_teams || (s->flags & SLOT_IS_TEAM) != 0;
        payload += (s->flags & SLOT_IS_WHOLE) != 0 ? 0 : payload_lines(s);
        image->edge_count += graph_count_edges(g, s);
        for (uint32_t i = 0; i < s->tensor_count; i++)
            image->patch_count += is_patched(g, entry, s->tensor[i].addr);
        image->patch_count += operand_of(s) != 0 && is_patched(g, entry, operand_of(s));
    }
    image->is_plain = image->header_lines == image->task_count + 1;
    image->slot_bytes = (image->header_lines + payload) * SLOT_LINE_BYTES;
    image->bytes = (uint64_t)(uintptr_t)image_lay_out(image, NULL, 0);
}

static char *image_take(char **at, uint64_t bytes)
{
    char *here = *at;

    *at = (char *)((uintptr_t)here + align(bytes));
    return here;
}

char *image_lay_out(struct image *image, char *memory, uint64_t heap)
{
    image->heap = heap;
    image->slots = image_take(&memory, image->slot_bytes);
    image->successor =
        (uint32_t *)(void *)image_take(&memory, image->edge_count * sizeof(uint32_t));
    image->counter =
        (struct a32 *)(void *)image_take(&memory, image->header_lines * sizeof(struct a32));
    image->task = (uint32_t *)(void *)image_take(&memory, image->task_count * sizeof(uint32_t));
    image->line = (uint32_t *)(void *)image_take(&memory, image->number_count * sizeof(uint32_t));
    image->patch = (struct image_patch *)(void *)image_take(
        &memory, image->patch_count * sizeof(struct image_patch));
    image->passed = (struct passed_scalar *)(void *)image_take(
        &memory, image->passed_count * sizeof(struct passed_scalar));
    return memory;
}

uint64_t image_moved(const struct image *image, const struct graph *g, uint64_t addr)
{
    return is_output(g, addr) ? addr - (uint64_t)(uintptr_t)g->heap_pool.base + image->heap : addr;
}

/*
 * Converts an address for launches: an address in an output becomes the one in the image's heap; an
 * address in the entry is recorded, so that each launch patches it.
 */
static uint64_t adapt_addr(struct filling *f, uint32_t line, uint32_t argument, uint64_t addr)
{
    struct image *image = f->image;
    int32_t index = image_find_entry(f->entry, addr);

    if (!is_output(f->g, addr) && index >= 0)
        image->patch[image->patch_count++] =
            (struct image_patch){ line, (uint16_t)argument, (uint16_t)index,
                                  addr - f->entry->tensor[index].addr };
    return image_moved(image, f->g, addr);
}

/*
 * Puts the tasks without predecessors on the stack, the first one on top. Uses two arrays that get
 * their final contents later: `line` counts a task's predecessors that are not in the image yet,
 * and `task` is the stack.
 */
static void stack_roots(struct filling *f)
{
    struct image *image = f->image;

    for (uint32_t number = f->g->info_count; number-- > 1;) {
        const struct slot *s = slot_at(f->g, number);

        if (s == NULL)
            continue;
        image->line[number] = graph_count_edges(f->g, s);
        if (image->line[number] != 0)
            continue;
        image->task[f->ready++] = number;
        if ((s->flags & SLOT_IS_SETTLED_FIRST) != 0)
            image->early_count++;
    }
    image->root_count = f->ready - image->early_count;
}

/* Resets a slot to the state that it has before each launch. */
static void adapt_slot(struct filling *f, struct slot *s, uint32_t line)
{
    struct pto_tensor *tensor = image_tensors(f->image, s);
    uint64_t operand = operand_of(s);

    for (uint32_t i = 0; i < s->tensor_count; i++)
        tensor[i].addr = adapt_addr(f, line, i, tensor[i].addr);
    if (operand != 0)
        slot_predicate(s)->addr = adapt_addr(f, line, IMAGE_PREDICATE, operand);
    s->flags &= (uint8_t) ~(SLOT_HAS_BUFFER | SLOT_HAS_RETAINED | SLOT_HAS_SPILL);
    if (s->lanes == 0)
        s->flags |= SLOT_IS_DUMMY;
    s->built_lanes = s->lanes;
    a32_store_relaxed(&s->pending, 0); /* relaxed: in an image `pending` only links lists */
}

/*
 * Copies a slot into the image. Its successors have no line yet, so their slot numbers are stored.
 */
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
    s->built_pending = graph_count_edges(f->g, from);
    /* relaxed: only one thread has access, because no task runs */
    a32_store_relaxed(&image->counter[f->header], s->built_pending);
    adapt_slot(f, s, f->header);
    s->span.first = f->edges;
    for (const struct edge *e = edges_of(from); e != NULL; e = e->next)
        image->successor[f->edges++] = e->self->number;
    s->span.count = f->edges - s->span.first;
    f->header += header_lines(from);
    f->payload += is_whole ? 0 : payload_lines(from);
}

/*
 * Determines the order of tasks in the image, which is that in which one worker would run them:
 * after each task the first successor that became ready, or if none did the newest other ready
 * task.
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

/*
 * Replaces the slot numbers of successors by their lines, and marks tasks with only one
 * predecessor, whose counters a launch does not use.
 */
static void wire_slot(struct image *image, struct slot *s)
{
    uint32_t *successor = &image->successor[s->span.first];

    for (uint32_t i = 0; i < s->span.count; i++) {
        successor[i] = image->line[successor[i]];
        /* relaxed: only one thread has access, because no task runs */
        if (a32_load_relaxed(&image->counter[successor[i]]) == 1)
            successor[i] |= SPAN_FOLLOWS;
    }
    if (s->span.count == 1 && (successor[0] & SPAN_FOLLOWS) != 0)
        s->span = (struct slot_span){ successor[0], SPAN_IS_ONE };
}

/* Sets the successors of each slot, and fills the lists of roots and of other tasks. */
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
                char *memory, uint64_t heap)
{
    struct filling f = { image, g, entry, 1, image->header_lines, 0, 0 };

    (void)image_lay_out(image, memory, heap);
    memcpy(image->passed, g->passed_pool.base, image->passed_count * sizeof(struct passed_scalar));
    image->patch_count = 0;
    stack_roots(&f);
    place_slots(&f);
    port_assert(f.header == image->header_lines && f.edges == image->edge_count);
    for (uint32_t i = 0; i < image->passed_count; i++)
        image->passed[i].line = image->line[graph_slot(g, image->passed[i].line)->number];
    wire_slots(image);
}

void image_each_outside(const struct graph *g, const struct pto_entry *entry,
                        void (*each)(void *context, uint64_t addr, uint64_t bytes), void *context)
{
    for (uint32_t number = 1; number < g->info_count; number++) {
        const struct slot *s = slot_at(g, number);
        uint64_t operand = s != NULL ? operand_of(s) : 0;

        for (uint32_t k = 0; s != NULL && k < s->tensor_count; k++)
            if (is_outside(g, entry, s->tensor[k].addr))
                each(context, s->tensor[k].addr, s->tensor[k].size);
        if (operand != 0 && is_outside(g, entry, operand))
            each(context, operand, slot_predicate((struct slot *)(uintptr_t)s)->bytes);
    }
}

/* Visits the tasks that wait for s, directly or through a join. No join waits for another join. */
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

struct slot *image_next(const struct image *image, uint32_t *line)
{
    struct slot *s = *line < image->header_lines ? image_slot(image, *line) : NULL;

    if (s != NULL)
        *line += header_lines(s);
    return s;
}

/* ---- checking an image that was built elsewhere ---- */

/*
 * Set in the counter of each line where a slot starts, while the image is checked: edges must lead
 * to such lines.
 */
#define CHECK_IS_TASK 0x80000000u

struct checking {
    struct image *image;
    const struct image_limits *limits;
};

/* Returns the slot that starts in this line; NULL: no slot does. */
static const struct slot *image_find_task(const struct image *image, uint32_t line)
{
    return line < image->header_lines && line != 0 &&
                   (a32_load_relaxed(&image->counter[line]) & CHECK_IS_TASK) != 0 /* no task runs */
               ? image_slot(image, line)
               : NULL;
}

static bool image_has_kernels(const struct checking *c, const struct slot *s)
{
    bool is_team = (s->lanes & (s->lanes - 1)) != 0;

    for (uint32_t lane = 0; lane < SLOT_LANES; lane++) {
        uint32_t kernel = s->kernel[is_team ? lane : 0];

        if ((s->lanes & 1u << lane) != 0 &&
            (kernel >= c->limits->kernel_count || c->limits->kernels[kernel].fn == NULL))
            return false;
    }
    return s->lanes < 1u << SLOT_LANES && s->built_lanes == s->lanes &&
           (s->lanes == 0) == ((s->flags & SLOT_IS_DUMMY) != 0) && s->core_type < PTO_CORE_TYPES;
}

/* Checks a slot's numbers of blocks and lanes, its timing slot and its predicate. */
static bool has_blocks(const struct checking *c, struct slot *s)
{
    uint32_t lanes = slot_lane_count(s->lanes);
    uint64_t blocks = (uint64_t)s->block_count * lanes;
    const struct slot_predicate *p =
        (s->flags & SLOT_HAS_PREDICATE) != 0 ? slot_predicate(s) : NULL;

    if ((blocks > 1) != ((s->flags & SLOT_IS_COUNTED) != 0) || blocks > UINT32_MAX ||
        (lanes > 1 || (s->flags & SLOT_IS_GANG) != 0) != ((s->flags & SLOT_IS_TEAM) != 0) ||
        ((s->flags & SLOT_IS_GANG) != 0 &&
         blocks > c->limits->clusters * (s->lanes == SLOT_LANE_AIV0 ? PTO_CLUSTER_AIVS : lanes)) ||
        ((s->flags & SLOT_IS_TIMED) != 0 && s->timing_slot >= PTO_TIMING_SLOTS))
        return false;
    if ((s->flags & SLOT_IS_SPECIAL) != 0 &&
        (s->block_next != 0 || a32_load_relaxed(&s->block_left) != blocks)) /* no task runs */
        return false;
    return p == NULL || (p->bytes != 0 && p->bytes <= sizeof(uint64_t) &&
                         (p->bytes & (p->bytes - 1)) == 0 && p->dtype < PTO_DTYPE_COUNT);
}

/*
 * Checks that the slot's source location lies in the data after the image, and that its file name
 * ends there.
 */
static bool has_site(const struct checking *c, const struct slot *s)
{
    const char *begin = c->limits->sites, *end = c->limits->end;
    const char *at = (const char *)s->site;

    if (at == NULL)
        return true;
    return at >= begin && (uintptr_t)at % _Alignof(struct pto_site) == 0 && at <= end &&
           end - at >= (ptrdiff_t)sizeof(*s->site) && s->site->file >= begin &&
           s->site->file < end && end[-1] == '\0';
}

static bool image_is_sound(const struct checking *c, struct slot *s, uint32_t line)
{
    const struct image *image = c->image;
    uint64_t lines = image->slot_bytes / SLOT_LINE_BYTES;

    if (s->tensor_count > PTO_TASK_TENSORS_MAX || s->scalar_count > PTO_TASK_SCALARS_MAX ||
        (s->flags & SLOT_HAS_SPILL) != 0 || header_lines(s) > image->header_lines - line)
        return false;
    if ((s->flags & SLOT_IS_WHOLE) != 0 ? s->payload != line + 2
                                        : s->payload < image->header_lines || s->payload > lines ||
                                              payload_lines(s) > lines - s->payload)
        return false;
    return a32_load_relaxed(&image->counter[line]) == s->built_pending && /* no task runs */
           s->built_pending < CHECK_IS_TASK && has_site(c, s) &&
           (slot_is_join(s) ? s->flags == SLOT_IS_DUMMY && s->lanes == 0
                            : image_has_kernels(c, s) && has_blocks(c, s));
}

/*
 * Checks each slot, and that slots follow each other without gaps. Marks the lines where slots
 * start.
 */
static bool mark_tasks(const struct checking *c)
{
    struct image *image = c->image;
    uint32_t tasks = 0;

    for (uint32_t line = 1; line < image->header_lines; tasks++) {
        struct slot *s = image_slot(image, line);
        uint32_t end;

        if (!image_is_sound(c, s, line))
            return false;
        a32_store_relaxed(&image->counter[line], s->built_pending | CHECK_IS_TASK);
        end = line + header_lines(s);
        while (++line < end)
            a32_store_relaxed(&image->counter[line], 0);
    }
    return tasks == image->task_count;
}

/*
 * Counts each slot's predecessors, and checks that edges lead only to later slots, so that the
 * slots can be run in their order.
 */
static bool count_edges(struct image *image, const struct slot *s, uint32_t line)
{
    bool is_one = s->span.count == SPAN_IS_ONE;
    uint64_t count = is_one ? 1 : s->span.count, first = s->span.first;
    const uint32_t *successor = is_one ? &s->span.first : image->successor + first;

    if (!is_one && (first > image->edge_count || count > image->edge_count - first))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t to = successor[i] & ~SPAN_FOLLOWS;
        const struct slot *next = to > line ? image_find_task(image, to) : NULL;

        if (next == NULL || a32_load_relaxed(&image->counter[to]) == CHECK_IS_TASK ||
            (next->built_pending == 1) != ((successor[i] & SPAN_FOLLOWS) != 0) ||
            (is_one && next->built_pending != 1))
            return false;
        a32_sub_relaxed(&image->counter[to], 1);
    }
    return true;
}

static bool has_all_edges(struct image *image)
{
    for (uint32_t line = 1; line < image->header_lines; line++) {
        const struct slot *s = image_find_task(image, line);

        if (s != NULL && !count_edges(image, s, line))
            return false;
    }
    for (uint32_t line = 1; line < image->header_lines; line++) {
        const struct slot *s = image_find_task(image, line);

        if (s != NULL && a32_load_relaxed(&image->counter[line]) != CHECK_IS_TASK)
            return false;
        if (s != NULL)
            a32_store_relaxed(&image->counter[line], s->built_pending | CHECK_IS_TASK);
    }
    return true;
}

static bool has_right_patches(const struct checking *c)
{
    const struct image *image = c->image;

    for (uint32_t i = 0; i < image->patch_count; i++) {
        const struct image_patch *p = &image->patch[i];
        const struct slot *s = image_find_task(image, p->line);

        if (s == NULL || p->entry >= c->limits->tensor_count ||
            (p->argument == IMAGE_PREDICATE ? (s->flags & SLOT_HAS_PREDICATE) == 0
                                            : p->argument >= s->tensor_count))
            return false;
    }
    for (uint32_t i = 0; i < image->passed_count; i++) {
        const struct passed_scalar *p = &image->passed[i];
        const struct slot *s = image_find_task(image, p->line);

        if (s == NULL || p->entry >= c->limits->scalar_count || p->argument >= s->scalar_count)
            return false;
    }
    return true;
}

/* Checks that the lists name each slot once, and that roots are in their part. Clears the marks. */
static bool lists_all_tasks(struct image *image)
{
    for (uint32_t i = 0; i < image->task_count; i++) {
        uint32_t line = image->task[i];
        const struct slot *s = image_find_task(image, line);
        bool is_root = i < image->root_count, is_early = i - image->root_count < image->early_count;

        if (s == NULL || (s->built_pending == 0) != (is_root || is_early))
            return false;
        if ((is_root || is_early) && ((s->flags & SLOT_IS_SETTLED_FIRST) != 0) != is_early)
            return false;
        a32_store_relaxed(&image->counter[line], s->built_pending);
    }
    return true;
}

bool image_check(struct image *image, const struct image_limits *limits)
{
    struct checking c = { image, limits };

    if (image->header_lines == 0 || image->slot_bytes / SLOT_LINE_BYTES >= SPAN_FOLLOWS ||
        image->header_lines > image->slot_bytes / SLOT_LINE_BYTES ||
        image->root_count > image->task_count ||
        image->early_count > image->task_count - image->root_count ||
        image->is_plain != (image->header_lines == image->task_count + 1))
        return false;
    return mark_tasks(&c) && has_all_edges(image) && has_right_patches(&c) &&
           lists_all_tasks(image);
}

/* ---- launching ---- */

void image_bind(struct image *image, const struct pto_entry *entry)
{
    for (uint32_t i = 0; i < image->patch_count; i++) {
        const struct image_patch *p = &image->patch[i];
        uint64_t addr = entry->tensor[p->entry].addr + p->offset;
        struct slot *s = image_slot(image, p->line);

        if (p->argument == IMAGE_PREDICATE)
            slot_predicate(s)->addr = addr;
        else
            image_tensors(image, s)[p->argument].addr = addr; /* mutation: stale-patch */
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
    a32_store_relaxed(&g->freed_buffers, 0); /* relaxed: no other thread is in the run yet */
}
