/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes deps.json in the format of simpler: the tasks, the tensors, and all edges with their
 * reasons.
 *
 * The edges are derived again from the recorded submissions, by the rules that
 * docs/user/ordering.md has for simpler, because the engine creates no edge to a task that has
 * already ended and keeps no reasons. If the run used other rules, edges that only the engine
 * created follow, with the reason "order".
 *
 * explicit: the task was named as a dependency. creator: the task made the tensor. tensormap: the
 * task is recorded as a writer of an overlapping region.
 *
 * An edge is written once, with the first of these reasons and the flags of all. It repeats the
 * regions of its two arguments, as simpler's file does, unless the task has many predecessors: then
 * these are nearly the whole file, and an edge names the two arguments, whose regions are in the
 * list of tasks.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "overlap/geom.h"
#include "trace/snapshot.h"

enum {
    BUCKETS = 4096,
    /*
     * an edge repeats the regions of its arguments if the task has at most this many predecessors
     */
    REGIONS_MAX = 8
};

enum deps_source { SOURCE_EXPLICIT, SOURCE_CREATOR, SOURCE_TENSORMAP, SOURCE_ORDER };

static const char *const source_name[] = { "explicit", "creator", "tensormap", "order" };

/* An edge that leads to the task whose predecessors are being derived. */
struct deps_edge {
    struct pto_task_id before;
    uint32_t found; /* position of this edge in the order in which edges were found */
    uint32_t kind;  /* bits of enum pto_dep_kind */
    enum deps_source source;
    int32_t argument; /* index of the later task's argument; -1: none */
    /* index of the writer's argument, if the edge comes from overlapping regions */
    int32_t producer_argument;
    const struct chip_argument *producer; /* that argument */
    bool is_covered; /* the region of the later task's argument covers that of the writer's */
};

/* A recorded region, and the task that writes the region. */
struct writer {
    struct writer *next;
    struct geom geom;
    const struct chip_task *task;
    uint32_t argument; /* index of this argument in the task */
};

/* A tensor that is in the file already, identified by address and version. */
struct known {
    struct known *next;
    uint64_t id;
};

struct deps {
    const struct trace_slices *slices;
    FILE *out;
    int status;
    bool has_item; /* a comma must precede the next item of the JSON list */
    struct writer *bucket[BUCKETS];
    struct known *known[BUCKETS];
    const struct chip_task *task; /* the task whose predecessors are being derived */
    /* edges from the predecessors of that task; some predecessors may occur several times */
    struct deps_edge *edge;
    uint32_t edge_count;
    uint32_t edge_max;
};

static void deps_write_tasks(struct deps *d);
static void write_tensors(struct deps *d);
static void write_edges(struct deps *d);
static void deps_free_all(struct deps *d);

int trace_write_deps(const struct trace_slices *slices, FILE *out)
{
    struct deps *d = calloc(1, sizeof(*d));
    int status;

    if (d == NULL)
        return PTO_ENOMEM;
    d->slices = slices;
    d->out = out;
    fputs("{\"tasks\":[", out);
    deps_write_tasks(d);
    fputs("],\"tensors\":[", out);
    write_tensors(d);
    fputs("],\"edges\":[", out);
    write_edges(d);
    fputs("]}\n", out);
    status = d->status;
    deps_free_all(d);
    return status;
}

static void deps_begin_item(struct deps *d)
{
    fputs(d->has_item ? ",\n" : "\n", d->out);
    d->has_item = true;
}

/*
 * Returns the next recorded task at or after *index and advances *index past it; NULL: there is
 * none.
 */
static const struct chip_task *next_task(const struct deps *d, uint64_t *index)
{
    while (d->slices->task != NULL && *index < d->slices->snapshot->record.tasks) {
        const struct chip_task *task = d->slices->task[(*index)++];

        if (task != NULL)
            return task;
    }
    return NULL;
}

/* FNV-1a hash of the address and the version, lowest byte first. */
static uint64_t tensor_id(const struct chip_argument *a)
{
    const uint64_t word[2] = { a->addr, (uint32_t)a->version };
    static const uint32_t bytes[2] = { 8, 4 };
    uint64_t hash = 0xcbf29ce484222325ull;

    for (uint32_t w = 0; w < 2; w++)
        for (uint32_t i = 0; i < bytes[w]; i++)
            hash = (hash ^ (word[w] >> 8 * i & 0xff)) * 0x100000001b3ull;
    return hash;
}

/* ---- tasks and tensors ---- */

static const char *tag_name(uint32_t tag)
{
    static const char *const names[] = {
#define X(name, text, use) #name,
        PTO_TAG_MAP(X)
#undef X
    };

    return tag < PTO_TAG_COUNT ? names[tag] : "UNKNOWN";
}

/* Writes the region of the argument within its buffer; `who` is the prefix of the JSON keys. */
static void put_region(struct deps *d, const struct chip_argument *a, const char *who)
{
    fprintf(d->out, ",\"%sshape\":", who);
    trace_put_numbers(d->out, a->shapes, a->ndims, ",");
    fprintf(d->out, ",\"%sstart_offset\":\"%" PRIu64 "\",\"%sstrides\":", who, a->start, who);
    trace_put_numbers(d->out, a->strides, a->ndims, ",");
}

static void deps_write_task(struct deps *d, const struct chip_task *task)
{
    const struct chip_argument *a = trace_task_arguments(task);

    deps_begin_item(d);
    fprintf(d->out,
            "{\"task_id\":\"%" PRIu64 "\",\"scope\":\"%s\",\"early_dispatch\":%s,\"kernel_ids\":"
            "[%d,%d,%d],\"block_num\":%u,\"args\":[",
            task->id.raw, (task->flags & CHIP_TASK_IS_MANUAL) != 0 ? "manual" : "auto",
            (task->flags & CHIP_TASK_IS_EARLY) != 0 ? "true" : "false", task->kernel[0],
            task->kernel[1], task->kernel[2], task->block_count);
    for (uint32_t i = 0; i < task->tensor_count; i++, a++) {
        fprintf(d->out, "%s{\"idx\":%u,\"type\":\"%s\"", i != 0 ? "," : "", i, tag_name(a->tag));
        /* an OUTPUT argument has no address before its submit, so it has no region */
        if (a->tag != PTO_TAG_OUTPUT) {
            fprintf(d->out, ",\"tensor_id\":\"%" PRIu64 "\",\"dtype\":\"%s\"", tensor_id(a),
                    pto_dtype_name(a->dtype));
            put_region(d, a, "");
        }
        fputc('}', d->out);
    }
    fputs("]}", d->out);
}

static void deps_write_tasks(struct deps *d)
{
    const struct chip_task *task;
    uint64_t index = 0;

    d->has_item = false;
    while ((task = next_task(d, &index)) != NULL)
        deps_write_task(d, task);
}

/* Writes the tensor unless it was written before. */
static void write_tensor(struct deps *d, const struct chip_argument *a)
{
    uint64_t id = tensor_id(a);
    struct known **bucket = &d->known[id % BUCKETS], *k = *bucket;
    uint32_t size = pto_dtype_size(a->dtype);

    while (k != NULL && k->id != id)
        k = k->next;
    if (k != NULL)
        return;
    k = malloc(sizeof(*k));
    if (k == NULL) {
        d->status = PTO_ENOMEM;
        return;
    }
    *k = (struct known){ *bucket, id };
    *bucket = k;
    deps_begin_item(d);
    fprintf(d->out,
            "{\"tensor_id\":\"%" PRIu64 "\",\"buffer_addr\":\"%" PRIu64 "\",\"version\":%d,"
            "\"dtype\":\"%s\",\"buffer_numel\":\"%" PRIu64 "\"}",
            id, a->addr, a->version, pto_dtype_name(a->dtype), size != 0 ? a->size / size : 0);
}

static void write_tensors(struct deps *d)
{
    const struct chip_task *task;
    uint64_t index = 0;

    d->has_item = false;
    while ((task = next_task(d, &index)) != NULL) {
        const struct chip_argument *a = trace_task_arguments(task);

        for (uint32_t i = 0; i < task->tensor_count; i++)
            if (a[i].tag != PTO_TAG_OUTPUT)
                write_tensor(d, &a[i]);
    }
}

/* ---- edges ---- */

static void deps_add_edge(struct deps *d, struct deps_edge edge)
{
    if (d->edge_count == d->edge_max) {
        uint32_t max = 2 * d->edge_max + 64;
        struct deps_edge *grown = realloc(d->edge, max * sizeof(*grown));

        if (grown == NULL) {
            d->status = PTO_ENOMEM;
            return;
        }
        d->edge = grown;
        d->edge_max = max;
    }
    edge.found = d->edge_count;
    d->edge[d->edge_count++] = edge;
}

static struct geom geom_of(const struct chip_argument *a)
{
    struct pto_tensor t = trace_argument_tensor(a);
    struct geom geom;

    geom_init_simpler(&geom, &t);
    return geom;
}

static struct writer **deps_bucket_of(struct deps *d, const struct chip_argument *a)
{
    return &d->bucket[(a->addr * 0x9e3779b97f4a7c15ull) >> 52];
}

/*
 * Adds an edge from each recorded writer whose region overlaps the one that the argument reads.
 * An INOUT argument that covers a writer's region removes that writer's record.
 */
static void deps_look_up(struct deps *d, uint32_t index, const struct chip_argument *a)
{
    struct geom geom = geom_of(a);
    struct writer **link = deps_bucket_of(d, a);

    while (*link != NULL) {
        struct writer *w = *link;
        enum overlap overlap = overlap_simpler(&geom, &w->geom);

        if (overlap != OVERLAP_NONE) {
            deps_add_edge(
                d, (struct deps_edge){ .before = w->task->id,
                                       .kind = PTO_DEP_WAIT,
                                       .source = SOURCE_TENSORMAP,
                                       .argument = (int32_t)index,
                                       .producer_argument = (int32_t)w->argument,
                                       .producer = &trace_task_arguments(w->task)[w->argument],
                                       .is_covered = overlap == OVERLAP_COVERS });
        }
        if (overlap == OVERLAP_COVERS && a->tag == PTO_TAG_INOUT) {
            *link = w->next;
            free(w);
        } else {
            link = &w->next;
        }
    }
}

static void add_writer(struct deps *d, uint32_t index, const struct chip_argument *a)
{
    struct writer **bucket = deps_bucket_of(d, a);
    struct writer *w = malloc(sizeof(*w));

    if (w == NULL) {
        d->status = PTO_ENOMEM;
        return;
    }
    *w = (struct writer){ *bucket, geom_of(a), d->task, index };
    *bucket = w;
}

static void deps_add_explicit(struct deps *d)
{
    const struct chip_dep *dep = trace_task_deps(d->task);

    for (uint32_t i = 0; i < d->task->dep_count; i++)
        deps_add_edge(d, (struct deps_edge){ .before = dep[i].task,
                                             .kind = (uint32_t)dep[i].kind,
                                             .source = SOURCE_EXPLICIT,
                                             .argument = -1 });
}

/* Adds the inferred dependencies, on creators and writers; none in a MANUAL scope. */
static void add_inferred(struct deps *d)
{
    const struct chip_argument *a = trace_task_arguments(d->task);

    for (uint32_t i = 0; i < d->task->tensor_count; i++, a++) {
        if (a->tag == PTO_TAG_OUTPUT)
            continue;
        if (pto_task_id_is_valid(a->owner))
            deps_add_edge(d, (struct deps_edge){ .before = a->owner,
                                                 .kind = PTO_DEP_WAIT | PTO_DEP_RETAIN,
                                                 .source = SOURCE_CREATOR,
                                                 .argument = (int32_t)i });
        if ((pto_tag_use(a->tag) & PTO_READS) != 0 && (a->flags & CHIP_ARGUMENT_IS_MANUAL) == 0)
            deps_look_up(d, i, a);
    }
    a = trace_task_arguments(d->task);
    for (uint32_t i = 0; i < d->task->tensor_count; i++, a++)
        if ((a->tag == PTO_TAG_INOUT || a->tag == PTO_TAG_OUTPUT_EXISTING) &&
            (a->flags & CHIP_ARGUMENT_IS_MANUAL) == 0)
            add_writer(d, i, a);
}

static int by_successor(const void *a, const void *b)
{
    const struct chip_edge *x = a, *y = b;

    if (x->after != y->after)
        return x->after < y->after ? -1 : 1;
    return x->before < y->before ? -1 : x->before > y->before;
}

/*
 * Adds the current task's edges that the engine created. `wired` is sorted by successor. Returns
 * the first edge of a later task.
 */
static const struct chip_edge *add_wired(struct deps *d, const struct chip_edge *wired,
                                         const struct chip_edge *end)
{
    while (wired < end && wired->after < d->task->index)
        wired++;
    for (; wired < end && wired->after == d->task->index; wired++)
        deps_add_edge(d,
                      (struct deps_edge){ .before = { trace_slices_id(d->slices, wired->before) },
                                          .kind = PTO_DEP_WAIT,
                                          .source = SOURCE_ORDER,
                                          .argument = -1 });
    return wired;
}

static int by_predecessor(const void *a, const void *b)
{
    const struct deps_edge *x = a, *y = b;

    if (x->before.raw != y->before.raw)
        return x->before.raw < y->before.raw ? -1 : 1;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return x->found < y->found ? -1 : x->found > y->found;
}

/*
 * Merges the edges from each predecessor: the first by source, and then by argument, gets the flags
 * of the others.
 */
static void merge_edges(struct deps *d)
{
    uint32_t kept = 0;

    if (d->edge_count > 1)
        qsort(d->edge, d->edge_count, sizeof(*d->edge), by_predecessor);
    for (uint32_t i = 0; i < d->edge_count; i++)
        if (kept != 0 && d->edge[kept - 1].before.raw == d->edge[i].before.raw)
            d->edge[kept - 1].kind |= d->edge[i].kind;
        else
            d->edge[kept++] = d->edge[i];
    d->edge_count = kept;
}

static void put_edge_regions(struct deps *d, const struct deps_edge *e)
{
    const struct chip_argument *a = &trace_task_arguments(d->task)[e->argument];

    fprintf(d->out, ",\"tensor_id\":\"%" PRIu64 "\",\"consumer_dtype\":\"%s\"",
            tensor_id(e->producer != NULL ? e->producer : a), pto_dtype_name(a->dtype));
    put_region(d, a, "consumer_");
    if (e->producer != NULL)
        put_region(d, e->producer, "producer_");
}

static void write_edge(struct deps *d, const struct deps_edge *e, bool has_regions)
{
    bool is_wait = (e->kind & PTO_DEP_WAIT) != 0, is_retain = (e->kind & PTO_DEP_RETAIN) != 0;

    deps_begin_item(d);
    fprintf(d->out,
            "{\"pred\":\"%" PRIu64 "\",\"succ\":\"%" PRIu64 "\",\"arg\":%d,\"source\":\"%s\"",
            e->before.raw, d->task->id.raw, e->argument, source_name[e->source]);
    if (has_regions || !is_wait || is_retain)
        fprintf(d->out, ",\"flags\":[%s%s%s]", is_wait ? "\"wait\"" : "",
                is_wait && is_retain ? "," : "", is_retain ? "\"retain\"" : "");
    if (e->source == SOURCE_TENSORMAP)
        fprintf(d->out, ",\"overlap\":\"%s\"", e->is_covered ? "covered" : "other");
    if (e->argument >= 0 && (has_regions || e->source == SOURCE_CREATOR))
        put_edge_regions(d, e);
    else if (e->producer != NULL)
        fprintf(d->out, ",\"producer_arg\":%d", e->producer_argument);
    fputc('}', d->out);
}

static void write_edges(struct deps *d)
{
    const struct chip_record *record = &d->slices->snapshot->record;
    struct chip_edge *wired = calloc(record->edge_count + 1, sizeof(*wired));
    const struct chip_edge *next = wired;
    uint64_t index = 0;

    if (wired == NULL) {
        d->status = PTO_ENOMEM;
        return;
    }
    if (record->edge_count != 0)
        memcpy(wired, record->edge, record->edge_count * sizeof(*wired));
    qsort(wired, record->edge_count, sizeof(*wired), by_successor);
    d->has_item = false;
    while ((d->task = next_task(d, &index)) != NULL) {
        d->edge_count = 0;
        deps_add_explicit(d);
        if ((d->task->flags & CHIP_TASK_IS_MANUAL) == 0)
            add_inferred(d);
        next = add_wired(d, next, wired + record->edge_count);
        merge_edges(d);
        for (uint32_t i = 0; i < d->edge_count; i++)
            write_edge(d, &d->edge[i], d->edge_count <= REGIONS_MAX);
    }
    free(wired);
}

static void deps_free_all(struct deps *d)
{
    for (uint32_t i = 0; i < BUCKETS; i++) {
        while (d->bucket[i] != NULL) {
            struct writer *w = d->bucket[i];

            d->bucket[i] = w->next;
            free(w);
        }
        while (d->known[i] != NULL) {
            struct known *k = d->known[i];

            d->known[i] = k->next;
            free(k);
        }
    }
    free(d->edge);
    free(d);
}
