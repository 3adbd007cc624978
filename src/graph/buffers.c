/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outputs: one allocation for each task, freed when its scope has ended, its task has completed,
 * and every task that it was passed to has completed. A free buffer keeps its memory and is the
 * next one taken of its size.
 *
 * Under the reference's rules freed memory is reused only after a while: the reference's rings
 * reuse memory late, and existing code passes an output on after its scope has ended and its users
 * have completed.
 */
#include <string.h>

#include "graph/guards.h"

static uint32_t heap_class(uint64_t bytes, uint64_t *rounded_out);
static uint64_t class_bytes(uint32_t heap_class);
static uint32_t take_buffer(struct graph *g, uint64_t bytes);
static void put_buffer(struct graph *g, uint32_t index);
static struct pto_tensor *take_descriptors(struct graph *g, uint32_t count);

/*
 * Size of an output with its padding. Saturates instead of wrapping: a size above the limit stays
 * above it.
 */
uint64_t buffers_output_bytes(const struct pto_tensor_info *info)
{
    uint64_t bytes = pto_dtype_size(info->dtype);

    for (uint32_t d = 0; d < info->ndims; d++)
        if (info->shapes[d] == 0)
            return 0;
    for (uint32_t d = 0; d < info->ndims; d++) {
        if (__builtin_mul_overflow(bytes, info->shapes[d], &bytes) || /* mutation: plain-product */
            bytes > GRAPH_OUTPUT_BYTES_MAX)
            return GRAPH_OUTPUT_BYTES_MAX + GRAPH_OUTPUT_ALIGN;
    }
    return (bytes + GRAPH_OUTPUT_ALIGN - 1) / GRAPH_OUTPUT_ALIGN * GRAPH_OUTPUT_ALIGN;
}

/*
 * Allocates the outputs of `args` in one buffer and fills their descriptors, which live as long as
 * the current scope. *buffer_out is 0 if there are no outputs. At first the buffer has two users:
 * the scope and the task.
 */
int buffers_create(struct graph *g, const struct pto_args *args, struct pto_outputs *out,
                   uint32_t *buffer_out)
{
    struct scope *scope = &g->scope[g->scope_count - 1];
    struct pto_tensor *t;
    struct buffer *buffer;
    uint64_t bytes = 0, addr;
    uint32_t index, count = 0;

    for (uint32_t i = 0; i < args->tensor_count; i++) {
        const struct pto_tensor_info *info = args->tensor[i];

        if (args->tag[i] != PTO_TAG_OUTPUT)
            continue;
        if (info->ndims - 1 >= PTO_MAX_DIMS || info->dtype >= PTO_DTYPE_COUNT)
            return graph_refuse(g, FAILURE_INFO, (int32_t)i, info->ndims);
        bytes += buffers_output_bytes(info);
        if (bytes > GRAPH_OUTPUT_BYTES_MAX)
            return graph_refuse(g, FAILURE_TOO_LARGE, (int32_t)i, bytes);
        count++;
    }
    if (g->guard_bytes != 0)
        bytes += 2ull * count * g->guard_bytes;
    index = take_buffer(g, bytes);
    t = take_descriptors(g, count);
    if (index == 0 || t == NULL) {
        return graph_refuse(g, FAILURE_MEMORY, -1, bytes);
    }
    buffer = graph_buffer(g, index);
    buffer->seq = g->seq;
    /* what publishes the task's edges to other threads also publishes `users` */
    a32_store_relaxed(&buffer->users, 2);
    buffer->next = scope->first_buffer;
    scope->first_buffer = index;
    addr = buffer->addr;
    out->count = count;
    out->tensor = t;
    for (uint32_t i = 0; i < args->tensor_count; i++) {
        const struct pto_tensor_info *info = args->tensor[i];
        uint64_t size;

        if (args->tag[i] != PTO_TAG_OUTPUT)
            continue;
        size = buffers_output_bytes(info);
        *t = pto_tensor_external((void *)(uintptr_t)addr, info->shapes, info->ndims,
                                 (enum pto_dtype)info->dtype);
        t->size = size;
        t->manual_dep = info->manual_dep;
        g->has_unlisted = g->has_unlisted || info->manual_dep;
        t->version = info->version;
        t->space = PTO_SPACE_DEVICE;
        if (info->has_initial_value && size != 0 && g->guard_bytes == 0)
            buffers_fill(g, addr, size, info->initial_value, info->dtype);
        addr += size;
        t++;
    }
    if (g->guard_bytes != 0)
        /* adds guards, and moves the outputs apart to make room for them */
        guards_lay(g, index, args, t - count);
    *buffer_out = index;
    return PTO_OK;
}

/*
 * Adds a user, unless there is none left: then another thread has released the buffer as its last
 * user, and it is free.
 */
bool buffer_retain(struct graph *g, uint32_t index)
{
    struct buffer *buffer = graph_buffer(g, index);
    /* relaxed: the compare-and-swap detects that the value has changed */
    uint32_t users = a32_load_relaxed(&buffer->users);

    while (users != 0)
        /* relaxed: a user keeps the buffer alive, but reads no data of other threads here */
        if (a32_cas_relaxed(&buffer->users, &users, users + 1))
            return true;
    return false;
}

/* Puts a buffer that has no user any more on a free list. Called by its last user. */
static inline void free_buffer(struct graph *g, uint32_t index, bool is_submitter)
{
    struct buffer *buffer = graph_buffer(g, index);
    uint32_t head;

    atomic_note_write(buffer);
    if (is_submitter) {
        put_buffer(g, index);
        return;
    }
    /* relaxed: the compare-and-swap detects that the value has changed */
    head = a32_load_relaxed(&g->freed_buffers);
    do {
        a32_store_relaxed(&buffer->link, head);                  /* R4 publishes it */
    } while (!a32_cas_acq_rel(&g->freed_buffers, &head, index)); /* R4 */
}

__attribute__((cold, noinline)) static void free_guarded(struct graph *g, uint32_t index,
                                                         bool is_submitter)
{
    const struct buffer *buffer = graph_buffer(g, index);

    /*
     * Whether freed memory is poisoned. It is not under simpler's rules, where a task may still
     * read it, nor if it is memory of another chip.
     */
    if (g->deps == PTO_DEPS_SAFE && g->fill_fn == NULL)
        guards_poison_freed(buffer->addr, class_bytes(buffer->heap_class));
    free_buffer(g, index, is_submitter);
}

void buffer_release(struct graph *g, uint32_t index, bool is_submitter)
{
    port_check(index != 0 &&
               /* the caller is still one of the counted users */
               a32_load_relaxed(&graph_buffer(g, index)->users) != 0);
    if (a32_sub_acq_rel(&graph_buffer(g, index)->users, 1) != 1) /* R3 A3 */
        return;
    if (g->guard_bytes != 0)
        free_guarded(g, index, is_submitter);
    else
        free_buffer(g, index, is_submitter);
}

/*
 * Moves buffers that other threads freed from their list to the free lists. Called by the
 * submitter.
 */
void buffers_collect(struct graph *g)
{
    uint32_t index;

    /* relaxed: only to avoid the exchange below when the list is empty */
    if (a32_load_relaxed(&g->freed_buffers) == 0)
        return;
    index = a32_swap_acq_rel(&g->freed_buffers, 0); /* A4 */
    while (index != 0) {
        uint32_t next = a32_load_relaxed(&graph_buffer(g, index)->link);

        atomic_note_write(graph_buffer(g, index));
        put_buffer(g, index);
        index = next;
    }
}

void graph_release_task(struct graph *g, struct slot *s, bool is_submitter)
{
    if ((s->flags & SLOT_HAS_RETAINED) != 0) {
        for (uint32_t i = 0; i < s->retained_count; i++)
            buffer_release(g, slot_retained(s)[i], is_submitter);
        for (uint32_t index = s->retained_chunk; index != 0;) {
            struct retained_chunk *chunk =
                (struct retained_chunk *)(void *)g->retained_pool.base + index;

            for (uint32_t i = 0; i < GRAPH_RETAINED_PER_CHUNK && chunk->buffer[i] != 0; i++)
                buffer_release(g, chunk->buffer[i], is_submitter);
            index = chunk->next;
        }
    }
    if ((s->flags & SLOT_HAS_BUFFER) != 0)
        buffer_release(g, s->buffer, is_submitter);
}

/* Size class of a buffer. There are four for each power of two: at most a quarter is wasted. */
static uint32_t heap_class(uint64_t bytes, uint64_t *rounded_out)
{
    uint64_t units = (bytes + GRAPH_OUTPUT_ALIGN - 1) / GRAPH_OUTPUT_ALIGN;
    uint32_t shift, quarter;

    if (units <= 4) {
        *rounded_out = units * GRAPH_OUTPUT_ALIGN;
        return (uint32_t)units;
    }
    shift = 63 - (uint32_t)__builtin_clzll(units - 1) - 2;
    quarter = (uint32_t)((units - 1) >> shift) - 4 + 1;
    *rounded_out = ((uint64_t)(4 + quarter) << shift) * GRAPH_OUTPUT_ALIGN;
    return 4 + shift * 4 + quarter;
}

/* Size of the buffers of a class: the inverse of heap_class. */
static uint64_t class_bytes(uint32_t heap_class)
{
    uint64_t units =
        heap_class <= 4 ? heap_class : (uint64_t)(5 + (heap_class - 5) % 4) << (heap_class - 5) / 4;

    return units * GRAPH_OUTPUT_ALIGN;
}

/* Returns a free buffer of the class that may be reused now; 0: none. */
static uint32_t find_free(struct graph *g, uint32_t class)
{
    uint32_t index = g->free_buffer[class];
    const struct buffer *buffer = graph_buffer(g, index);

    if (index == 0 || g->deps == PTO_DEPS_SAFE)
        return index;
    return g->heap_given[buffer->ring] - buffer->born >= GRAPH_REST_BYTES / GRAPH_OUTPUT_ALIGN
               ? index
               : 0;
}

static uint32_t make_buffer(struct graph *g, uint32_t class, uint64_t bytes)
{
    struct buffer *buffer;
    uint32_t index;
    char *memory;

    memory = pool_take(&g->heap_pool, bytes);
    if (memory == NULL || pool_take(&g->buffer_pool, sizeof(struct buffer)) == NULL ||
        (g->guard_bytes != 0 && pool_take(&g->guard_pool, sizeof(struct guard_record)) == NULL))
        return 0;
    index = g->buffer_total++;
    buffer = graph_buffer(g, index);
    buffer->addr = (uint64_t)(uintptr_t)memory;
    buffer->heap_class = (uint8_t) class;
    return index;
}

static uint32_t take_buffer(struct graph *g, uint64_t bytes)
{
    uint64_t rounded;
    uint32_t class = heap_class(bytes, &rounded);
    uint32_t index = find_free(g, class);
    struct buffer *buffer;

    if (index == 0) {
        buffers_collect(g);
        index = find_free(g, class);
    }
    if (index != 0)
        g->free_buffer[class] = graph_buffer(g, index)->next;
    else
        index = make_buffer(g, class, rounded);
    if (index == 0)
        return 0;
    buffer = graph_buffer(g, index);
    buffer->ring = (uint8_t)g->ring;
    buffer->born = g->heap_given[g->ring];
    g->heap_given[g->ring] += (uint32_t)(rounded / GRAPH_OUTPUT_ALIGN);
    return index;
}

/*
 * Adds a buffer to the free list of its class: in front, or, under simpler's rules, at the end, so
 * that the buffer that has been free for longest is reused first.
 */
static void put_buffer(struct graph *g, uint32_t index)
{
    struct buffer *buffer = graph_buffer(g, index);
    uint32_t *first = &g->free_buffer[buffer->heap_class];
    uint32_t *last = &g->last_free[buffer->heap_class];

    buffer->seq = 0;
    if (g->deps == PTO_DEPS_SAFE || *first == 0) {
        buffer->next = *first;
        *last = *first == 0 ? index : *last;
        *first = index; /* mutation: hoard-buffers */
    } else {
        buffer->next = 0;
        graph_buffer(g, *last)->next = index;
        *last = index;
    }
}

/*
 * Allocates `count` adjacent descriptors that live until the current scope ends. Later scopes reuse
 * their memory only after a while: a pointer that was kept too long then still finds the old
 * tensor, whose scope has ended, and not another one.
 */
static struct pto_tensor *take_descriptors(struct graph *g, uint32_t count)
{
    struct scope *scope = &g->scope[g->scope_count - 1];
    struct descriptor_chunk *chunk = (struct descriptor_chunk *)(void *)g->descriptor_pool.base;
    uint32_t index;

    if (scope->first_chunk == 0 || scope->chunk_used + count > GRAPH_DESCRIPTORS_PER_CHUNK) {
        index = g->free_descriptor_chunk;
        if (index != 0 && g->ended_count - graph_chunk(g, index)->ended >= g->chunk_delay) {
            g->free_descriptor_chunk = graph_chunk(g, index)->next;
        } else {
            if (pool_take(&g->descriptor_pool, sizeof(*chunk)) == NULL ||
                pool_take(&g->chunk_link_pool, sizeof(struct chunk_link)) == NULL)
                return NULL;
            index = g->descriptor_chunk_count++;
        }
        graph_chunk(g, index)->next = scope->first_chunk;
        scope->first_chunk = index;
        scope->chunk_used = 0;
    }
    scope->chunk_used += count;
    return &chunk[scope->first_chunk].tensor[scope->chunk_used - count];
}

void buffer_fill(uint64_t addr, uint64_t bytes, uint64_t value, uint32_t dtype)
{
    char *to = (char *)(uintptr_t)addr;
    uint64_t done = pto_dtype_size(dtype);

    memcpy(to, &value, done); /* little-endian: the low bytes come first */
    while (done < bytes) {    /* doubles the filled part; both sizes are multiples of the element */
        uint64_t n = done < bytes - done ? done : bytes - done;

        memcpy(to + done, to, n);
        done += n;
    }
    port_filled(addr, bytes);
}

void buffers_fill(struct graph *g, uint64_t addr, uint64_t bytes, uint64_t value, uint32_t dtype)
{
    if (bytes == 0)
        return;
    /* memory of another chip: the chip that runs the graph fills the output */
    if (g->fill_fn != NULL)
        g->fill_fn(g->fill_context, addr, bytes, value, dtype);
    else
        buffer_fill(addr, bytes, value, dtype);
}
