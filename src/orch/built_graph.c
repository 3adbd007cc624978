/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built graphs: records what a graph depends on while it is built, keeps the graph, and checks each
 * launch against the record.
 */
#include "orch/built_graph.h"

#include <string.h>

#include "orch/record.h"

static bool is_same_entry(struct built_graph *b, struct orch *o);
static void sort_facts(struct graph_fact *fact, uint64_t count);

/* ---- building ---- */

static void add_fact(struct built_graph *b, struct orch *o, enum orch_list which,
                     struct graph_fact fact)
{
    struct graph_facts *list = &b->list[which];
    struct graph_fact *room = pool_take(&o->list_pool[which], sizeof(*room));

    if (room == NULL) {
        b->has_lost_fact = true;
        return;
    }
    *room = fact;
    list->count++;
}

static uint64_t fact_addr(const struct graph_fact *n, const struct pto_entry *entry)
{
    return n->entry >= 0 ? entry->tensor[n->entry].addr + n->at : n->at;
}

/*
 * Makes a fact (struct graph_fact) about an address; an address in a tensor of the entry is stored
 * relative to that tensor, so that it is valid in other launches.
 */
static struct graph_fact make_fact(const struct orch *o, uint64_t addr, uint32_t bytes,
                                   uint64_t bits)
{
    const struct pto_entry *built_with = o->run->entry;
    int32_t entry = image_find_entry(built_with, addr);

    return (struct graph_fact){ .entry = entry,
                                .at = entry >= 0 ? addr - built_with->tensor[entry].addr : addr,
                                .bytes = bytes,
                                .bits = bits };
}

/*
 * Records bytes that the orchestration read, so that a launch is refused if they differ then. Bytes
 * that the orchestration has written itself are left out, because each launch writes them again.
 */
void built_graph_note_read(struct built_graph *b, struct orch *o, uint64_t addr, uint32_t bytes,
                           uint64_t bits)
{
    struct graph_fact n = make_fact(o, addr, bytes, bits);

    n.mask = UINT64_MAX >> (64 - 8 * bytes) & ~write_set_mask(&o->write_set, addr, bytes);
    if (n.mask != 0)
        add_fact(b, o, ORCH_READS, n);
}

void built_graph_note_write(struct built_graph *b, struct orch *o, uint64_t addr, uint32_t bytes,
                            uint64_t bits)
{
    add_fact(b, o, ORCH_WRITES, make_fact(o, addr, bytes, bits));
    if (!write_set_add(&o->write_set, addr, bytes))
        b->has_lost_fact = true;
}

void built_graph_note_orders(struct built_graph *b, struct orch *o, const struct pto_args *args)
{
    /* index of the latest task: graph->seq is the number of the next one, and numbers start at 1 */
    struct graph_fact n = { .entry = -1, .at = o->graph->seq - 2 };
    struct pto_tensor operand;

    n.dtype = BUILT_FLAGS;
    n.bits = (o->graph->is_manual ? CHIP_TASK_IS_MANUAL : 0u) |
             (args->allow_early_resolve ? CHIP_TASK_IS_EARLY : 0u);
    if (n.bits != 0)
        add_fact(b, o, ORCH_ORDERS, n);
    n.dtype = BUILT_EXPLICIT;
    for (uint32_t i = 0; i < args->dep_count; i++) {
        n.bits = args->deps[i].raw;
        n.bytes = record_dep_kind(args, i);
        add_fact(b, o, ORCH_ORDERS, n);
    }
    n.dtype = BUILT_PREDICATE;
    if (!record_find_operand(args->predicate, &operand))
        return;
    n.bits = operand.owner.raw;
    n.bytes = operand.manual_dep;
    add_fact(b, o, ORCH_ORDERS, n);
}

struct graph_facts built_graph_orders_of(const struct built_graph *b, uint32_t index)
{
    const struct graph_facts *list = &b->list[ORCH_ORDERS];
    uint64_t low = 0, high = list->count, end;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (list->fact[middle].at >= index)
            high = middle;
        else
            low = middle + 1;
    }
    for (end = low; end < list->count && list->fact[end].at == index;)
        end++;
    return (struct graph_facts){ list->fact + low, end - low };
}

static bool has_bit(const uint64_t bits[PTO_SCALAR_WORDS], uint32_t index)
{
    return (bits[index / 64] >> index % 64 & 1) != 0;
}

int built_graph_note_scalar(struct built_graph *b, struct orch *o, uint32_t index,
                            const struct pto_site *site)
{
    struct failure why = orch_failure(PTO_EARGS, FAILURE_VARYING_READ, site);

    why.value[0] = index;
    return has_bit(b->varying, index) ? orch_fail(o, &why) : PTO_OK;
}

static void note_fill(void *context, uint64_t addr, uint64_t bytes, uint64_t value, uint32_t dtype)
{
    struct orch *o = context;

    add_fact(o->run->graph, o, ORCH_FILLS,
             (struct graph_fact){
                 .entry = -1, .dtype = dtype, .at = addr, .bytes = bytes, .bits = value });
}

/*
 * Records which scalars the caller declared to vary between launches. Refuses one that the entry
 * does not have.
 */
static int take_varying(struct built_graph *b, struct orch *o)
{
    uint32_t count = o->run->entry->scalar_count;

    memcpy(b->varying, o->run->options->varying_scalars, sizeof(b->varying));
    for (uint32_t i = count; i < PTO_ENTRY_SCALARS_MAX; i++) {
        struct failure why = orch_failure(PTO_EARGS, FAILURE_VARYING_ABSENT, NULL);

        why.value[0] = i;
        why.value[1] = count;
        if (has_bit(b->varying, i))
            return orch_fail(o, &why);
    }
    return PTO_OK;
}

int built_graph_record(struct built_graph *b, struct orch *o, struct graph_params *params)
{
    params->is_recorded = true;
    b->has_guards = params->has_guards;
    params->fill_fn = note_fill;
    params->fill_context = o;
    write_set_start(&o->write_set);
    for (uint32_t i = 0; i < ORCH_LISTS; i++) {
        o->list_pool[i].used = 0;
        b->list[i] = (struct graph_facts){ (struct graph_fact *)(void *)o->list_pool[i].base, 0 };
    }
    return take_varying(b, o);
}

/* ---- keeping ---- */

static void note_outside(void *context, uint64_t addr, uint64_t bytes)
{
    struct orch *o = context;
    struct built_graph *b = o->run->graph;
    const struct graph_facts *list = &b->list[ORCH_OUTSIDE];

    if (list->count != 0 && list->fact[list->count - 1].at == addr &&
        list->fact[list->count - 1].bytes == bytes)
        return; /* consecutive accesses are often to the same memory */
    add_fact(b, o, ORCH_OUTSIDE, (struct graph_fact){ .entry = -1, .at = addr, .bytes = bytes });
}

/* Whether the list is in address order, which is usual. */
static bool is_sorted(const struct graph_facts *list)
{
    for (uint64_t i = 1; i < list->count; i++)
        if (list->fact[i].at < list->fact[i - 1].at)
            return false;
    return true;
}

/* Sorts the ranges by address and joins those that touch. */
static void sort_outside(struct graph_facts *list)
{
    uint64_t kept = 0;

    if (list->count == 0)
        return;
    if (!is_sorted(list))
        sort_facts(list->fact, list->count);
    for (uint64_t i = 1; i < list->count; i++) {
        struct graph_fact *last = &list->fact[kept];
        const struct graph_fact *n = &list->fact[i];

        if (n->at > last->at + last->bytes)
            list->fact[++kept] = *n;
        else if (n->at + n->bytes > last->at + last->bytes)
            last->bytes = n->at + n->bytes - last->at;
    }
    list->count = kept + 1;
}

/*
 * Sets the pointers of the built graph, which follow from its counts. Returns the end of its last
 * array.
 */
static char *lay_out(struct built_graph *b, char *memory, uint64_t heap)
{
    uintptr_t at = (uintptr_t)image_lay_out(&b->image, memory, heap);
    size_t tensors = b->built.tensor_count, scalars = b->built.scalar_count;

    b->built.tensor = (struct pto_tensor *)at;
    at += tensors * sizeof(struct pto_tensor);
    b->built.scalar = (uint64_t *)at;
    b->bound_scalar = (uint64_t *)at + scalars;
    b->bound_addr = (uint64_t *)at + 2 * scalars;
    at += (2 * scalars + tensors) * sizeof(uint64_t);
    for (uint32_t i = 0; i < ORCH_LISTS; i++) {
        b->list[i].fact = (struct graph_fact *)at;
        at += b->list[i].count * sizeof(struct graph_fact);
    }
    return (char *)at;
}

uint64_t built_graph_measure(struct built_graph *b, struct orch *o)
{
    const struct pto_entry *entry = o->run->entry;
    struct built_graph empty;

    image_measure(&b->image, o->graph, entry);
    image_each_outside(o->graph, entry, note_outside, o);
    sort_outside(&b->list[ORCH_OUTSIDE]);
    b->built = (struct pto_entry){ entry->tensor_count, entry->scalar_count, NULL, NULL };
    empty = *b;
    return (uint64_t)(uintptr_t)lay_out(&empty, NULL, 0);
}

void built_graph_move(struct built_graph *b, char *memory)
{
    (void)lay_out(b, memory, b->image.heap);
}

/* Copies the tensors and scalars of the entry with which the graph was built. */
static void keep_entry(struct built_graph *b, const struct pto_entry *entry)
{
    size_t tensor_bytes = entry->tensor_count * sizeof(struct pto_tensor);
    size_t scalar_bytes = entry->scalar_count * sizeof(uint64_t);

    if (tensor_bytes != 0)
        memcpy((void *)(uintptr_t)b->built.tensor, entry->tensor, tensor_bytes);
    if (scalar_bytes != 0) {
        memcpy((void *)(uintptr_t)b->built.scalar, entry->scalar, scalar_bytes);
        memcpy(b->bound_scalar, entry->scalar, scalar_bytes);
    }
    for (uint32_t i = 0; i < entry->tensor_count; i++)
        b->bound_addr[i] = entry->tensor[i].addr;
}

void built_graph_fill(struct built_graph *b, struct orch *o, char *memory, uint64_t heap)
{
    struct graph_facts noted[ORCH_LISTS];
    struct graph_facts *fills = &b->list[ORCH_FILLS];

    memcpy(noted, b->list, sizeof(noted));
    (void)lay_out(b, memory, heap);
    image_fill(&b->image, o->graph, o->run->entry, memory, heap);
    keep_entry(b, o->run->entry);
    for (uint32_t i = 0; i < ORCH_LISTS; i++)
        if (noted[i].count != 0)
            memcpy(b->list[i].fact, noted[i].fact, noted[i].count * sizeof(struct graph_fact));
    for (uint64_t i = 0; i < fills->count; i++)
        fills->fact[i].at = image_moved(&b->image, o->graph, fills->fact[i].at);
    for (uint32_t i = 0; i < b->image.passed_count; i++)
        b->passed[b->image.passed[i].entry / 64] |= 1ull << b->image.passed[i].entry % 64;
    sharing_choice_start(&b->launches, WAY_SHARED);
}

/* ---- a graph that was built elsewhere ---- */

enum { COUNT_MAX = 1 << 30 };

static bool has_sane_counts(const struct built_graph *b)
{
    const struct image *image = &b->image;

    for (uint32_t i = 0; i < ORCH_LISTS; i++)
        if (b->list[i].count > COUNT_MAX)
            return false;
    return b->built.tensor_count <= PTO_ENTRY_TENSORS_MAX &&
           b->built.scalar_count <= PTO_ENTRY_SCALARS_MAX && image->slot_bytes < 1ull << 40 &&
           image->edge_count < COUNT_MAX && image->heap_bytes < 1ull << 48;
}

static bool has_sane_facts(const struct built_graph *b)
{
    for (uint32_t i = 0; i < ORCH_OUTSIDE; i++)
        for (uint64_t k = 0; k < b->list[i].count; k++) {
            const struct graph_fact *n = &b->list[i].fact[k];
            uint64_t offset = n->at - b->image.heap;

            if (i == ORCH_FILLS
                    ? offset > b->image.heap_bytes || n->bytes == 0 ||
                          n->bytes > b->image.heap_bytes - offset || pto_dtype_size(n->dtype) == 0
                    : n->entry >= (int32_t)b->built.tensor_count || n->bytes == 0 ||
                          n->bytes > sizeof(uint64_t))
                return false;
        }
    return true;
}

const char *built_graph_take(struct built_graph *b, char *memory, uint64_t bytes,
                             struct image_limits limits)
{
    char *end;

    limits.tensor_count = b->built.tensor_count;
    limits.scalar_count = b->built.scalar_count;

    if (!has_sane_counts(b))
        return "a count of the graph is too large";
    end = lay_out(b, memory, b->image.heap);
    if ((uint64_t)(end - memory) > bytes)
        return "the graph is larger than its header states";
    limits.sites = end;
    limits.end = memory + bytes;
    if (!image_check(&b->image, &limits))
        return "an edge of a task leads outside of the graph";
    return has_sane_facts(b) ? NULL
                             : "bytes that the orchestration wrote are outside of its memory";
}

/* Heap sort by address. Pure code may call nothing but memcpy, so qsort is not available. */
static void sift(struct graph_fact *fact, uint64_t at, uint64_t count)
{
    for (uint64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        struct graph_fact larger;

        if (child + 1 < count && fact[child + 1].at > fact[child].at)
            child++;
        if (fact[child].at <= fact[at].at)
            return;
        larger = fact[child];
        fact[child] = fact[at];
        fact[at] = larger;
        at = child;
    }
}

static void sort_facts(struct graph_fact *fact, uint64_t count)
{
    for (uint64_t i = count / 2; i-- > 0;)
        sift(fact, i, count);
    for (uint64_t end = count; end-- > 1;) {
        struct graph_fact largest = fact[0];

        fact[0] = fact[end];
        fact[end] = largest;
        sift(fact, 0, end);
    }
}

/* ---- launching ---- */

/* Makes the image use the addresses and scalars of this launch's entry. */
static void bind(struct built_graph *b, const struct pto_entry *entry)
{
    size_t scalar_bytes = entry->scalar_count * sizeof(uint64_t);
    bool is_bound = true;

    for (uint32_t i = 0; i < entry->tensor_count; i++) {
        is_bound = is_bound && b->bound_addr[i] == entry->tensor[i].addr;
        b->bound_addr[i] = entry->tensor[i].addr;
    }
    if (scalar_bytes != 0) {
        is_bound = is_bound && memcmp(b->bound_scalar, entry->scalar, scalar_bytes) == 0;
        memcpy(b->bound_scalar, entry->scalar, scalar_bytes);
    }
    if (!is_bound)
        image_bind(&b->image, entry);
}

/*
 * Fails the launch because memory that the orchestration read or wrote while the graph was built is
 * not mapped.
 */
static int built_graph_refuse_unmapped(struct orch *o)
{
    return orch_refuse(o, graph_refuse(o->graph, FAILURE_DATA, -1, DATA_UNMAPPED), NULL, NULL,
                       NULL);
}

int built_graph_start(struct built_graph *b, struct orch *o, const struct graph_params *params)
{
    const struct pto_entry *entry = o->run->entry;

    if (!is_same_entry(b, o))
        return o->status;
    bind(b, entry);
    for (uint64_t i = 0; i < b->list[ORCH_FILLS].count; i++) {
        const struct graph_fact *n = &b->list[ORCH_FILLS].fact[i];

        buffer_fill(n->at, n->bytes, n->bits, n->dtype);
    }
    for (uint64_t i = 0; i < b->list[ORCH_WRITES].count; i++) {
        const struct graph_fact *n = &b->list[ORCH_WRITES].fact[i];

        if (!port_write(fact_addr(n, entry), n->bytes, n->bits))
            return built_graph_refuse_unmapped(o);
    }
    if (params->wired_fn != NULL)
        image_each_edge(&b->image, params->wired_fn, params->wired_context);
    image_start(o->graph, &b->image, params);
    return PTO_OK;
}

/* ---- what must not have changed since the build ---- */

/* Refuses the launch; up to four values go into the error message. */
static bool built_graph_refuse(struct orch *o, enum failure_kind fault, const uint64_t value[4])
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

/* Whether the same pairs of tensors overlap as at the build, at the same distance. */
static bool is_same_aliasing(struct built_graph *b, struct orch *o)
{
    const struct pto_tensor *now = o->run->entry->tensor, *then = b->built.tensor;

    for (uint32_t i = 0; i < b->built.tensor_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            bool did = overlaps(&then[i], &then[k]);

            if (did != overlaps(&now[i], &now[k]) ||
                (did && now[i].addr - now[k].addr != then[i].addr - then[k].addr))
                return built_graph_refuse(o, FAILURE_LAUNCH_ALIAS,
                                          (const uint64_t[4]){ k, i, did });
        }
    return true;
}

/* Index of the first range in the list that ends after the address; the list's count: none does. */
static uint64_t find_outside(const struct graph_facts *list, uint64_t addr)
{
    uint64_t low = 0, high = list->count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (list->fact[middle].at + list->fact[middle].bytes > addr)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool meets_outside(const struct graph_facts *list, const struct pto_tensor *t)
{
    uint64_t i = find_outside(list, t->addr);

    return i < list->count && list->fact[i].at < t->addr + t->size;
}

/*
 * Whether no tensor of the entry that has moved since the build overlaps memory of ORCH_OUTSIDE,
 * which tasks use and which is not in the entry; neither where it was nor where it is now.
 */
static bool is_away_from_outside(struct built_graph *b, struct orch *o)
{
    const struct pto_tensor *now = o->run->entry->tensor, *then = b->built.tensor;
    const struct graph_facts *outside = &b->list[ORCH_OUTSIDE];

    for (uint32_t i = 0; i < b->built.tensor_count; i++)
        if (now[i].addr != then[i].addr &&
            (meets_outside(outside, &now[i]) || meets_outside(outside, &then[i])))
            return built_graph_refuse(o, FAILURE_LAUNCH_OUTSIDE, (const uint64_t[4]){ i });
    return true;
}

/*
 * Whether each scalar has the value that it had at the build. Exempt are scalars that were declared
 * to vary and that tasks get unchanged.
 */
static bool has_same_scalars(struct built_graph *b, struct orch *o)
{
    const uint64_t *now = o->run->entry->scalar, *then = b->built.scalar;

    for (uint32_t i = 0; i < b->built.scalar_count; i++)
        if (now[i] != then[i] && !(has_bit(b->varying, i) && has_bit(b->passed, i)))
            return built_graph_refuse(
                o, FAILURE_LAUNCH_SCALAR,
                (const uint64_t[4]){ i, then[i], now[i], has_bit(b->varying, i) });
    return true;
}

/* Whether the data that the orchestration read at the build still has the same values. */
static bool has_same_data(struct built_graph *b, struct orch *o)
{
    for (uint64_t i = 0; i < b->list[ORCH_READS].count; i++) {
        const struct graph_fact *n = &b->list[ORCH_READS].fact[i];
        struct failure why = orch_failure(PTO_EGRAPH, FAILURE_LAUNCH_DATA, NULL);
        uint64_t bits = 0;

        if (!port_can_read(fact_addr(n, o->run->entry), n->bytes))
            return built_graph_refuse_unmapped(o) >= 0;
        memcpy(&bits, (const void *)(uintptr_t)fact_addr(n, o->run->entry), n->bytes);
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

static bool is_same_entry(struct built_graph *b, struct orch *o)
{
    const struct pto_entry *now = o->run->entry, *then = &b->built;

    if (now->tensor_count != then->tensor_count || now->scalar_count != then->scalar_count)
        return built_graph_refuse(o, FAILURE_LAUNCH_COUNTS,
                                  (const uint64_t[4]){ then->tensor_count, then->scalar_count,
                                                       now->tensor_count, now->scalar_count });
    for (uint32_t i = 0; i < now->tensor_count; i++)
        if (!is_same_shape(&now->tensor[i], &then->tensor[i]))
            return built_graph_refuse(o, FAILURE_LAUNCH_SHAPE, (const uint64_t[4]){ i });
    return has_same_scalars(b, o) && is_same_aliasing(b, o) && is_away_from_outside(b, o) &&
           has_same_data(b, o);
}
