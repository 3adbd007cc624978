/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deps.json of simpler: the tasks, the tensors, and all edges with their reasons. The edges are
 * found anew from what was submitted, by the rules of docs/user/ordering.md for simpler: the engine wires
 * none to a task that has ended, and keeps no reasons. With other rules those that it wired beyond
 * these follow, with the reason "order".
 *
 *     explicit    the task was named as a dependency
 *     creator     it made the tensor
 *     tensormap   it is registered as a writer of an overlapping region
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "overlap/geom.h"
#include "trace/snapshot.h"

enum { BUCKETS = 4096 };

/* A region with its writer. */
struct writer {
    struct writer *next;
    struct geom geom;
    const struct chip_task *task;
    const struct chip_argument *argument;
};

/* A tensor that was told of: by address and version. */
struct known {
    struct known *next;
    uint64_t id;
};

struct deps {
    const struct trace_slices *slices;
    FILE *out;
    int status;
    bool has_item; /* a comma is needed */
    struct writer *bucket[BUCKETS];
    struct known *known[BUCKETS];
    const struct chip_task *task; /* whose predecessors are looked for */
    struct pto_task_id *met;      /* its predecessors so far */
    uint32_t met_count;
    uint32_t met_max;
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

/* The next one that was told of, from an index on; NULL: there is none. */
static const struct chip_task *next_task(const struct deps *d, uint64_t *index)
{
    while (d->slices->task != NULL && *index < d->slices->snapshot->record.tasks) {
        const struct chip_task *task = d->slices->task[(*index)++];

        if (task != NULL)
            return task;
    }
    return NULL;
}

/* FNV-1a of address and version, in bytes from the lowest on. */
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

/* Where in its buffer it lies; `who` is a prefix of the names. */
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
        if (a->tag != PTO_TAG_OUTPUT) { /* of which nothing is known before it is submitted */
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

/* Each once. */
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

/* Notes a predecessor. Returns whether it is the first time. */
static bool deps_meet(struct deps *d, struct pto_task_id id)
{
    for (uint32_t i = 0; i < d->met_count; i++)
        if (d->met[i].raw == id.raw)
            return false;
    if (d->met_count == d->met_max) {
        uint32_t max = 2 * d->met_max + 64;
        struct pto_task_id *met = realloc(d->met, max * sizeof(*met));

        if (met == NULL) {
            d->status = PTO_ENOMEM;
            return false;
        }
        d->met = met;
        d->met_max = max;
    }
    d->met[d->met_count++] = id;
    return true;
}

/* Without what follows, and the brace at its end. */
static void begin_edge(struct deps *d, struct pto_task_id before, int32_t argument,
                       const char *source, uint32_t kind)
{
    bool is_wait = (kind & PTO_DEP_WAIT) != 0, is_retain = (kind & PTO_DEP_RETAIN) != 0;

    deps_begin_item(d);
    fprintf(d->out,
            "{\"pred\":\"%" PRIu64 "\",\"succ\":\"%" PRIu64 "\",\"arg\":%d,\"source\":\"%s\","
            "\"flags\":[%s%s%s]",
            before.raw, d->task->id.raw, argument, source, is_wait ? "\"wait\"" : "",
            is_wait && is_retain ? "," : "", is_retain ? "\"retain\"" : "");
}

static void put_consumer(struct deps *d, const struct chip_argument *owner_of_id,
                         const struct chip_argument *a)
{
    fprintf(d->out, ",\"tensor_id\":\"%" PRIu64 "\",\"consumer_dtype\":\"%s\"",
            tensor_id(owner_of_id), pto_dtype_name(a->dtype));
    put_region(d, a, "consumer_");
}

static struct geom geom_of(const struct chip_argument *a)
{
    struct pto_tensor t = { .addr = a->addr,
                            .size = a->size,
                            .start = a->start,
                            .extent = a->extent,
                            .version = a->version,
                            .ndims = a->ndims,
                            .dtype = a->dtype,
                            .is_contiguous = (a->flags & CHIP_ARGUMENT_IS_CONTIGUOUS) != 0 };
    struct geom geom;

    memcpy(t.shapes, a->shapes, sizeof(t.shapes));
    memcpy(t.strides, a->strides, sizeof(t.strides));
    geom_init_simpler(&geom, &t);
    return geom;
}

static struct writer **deps_bucket_of(struct deps *d, const struct chip_argument *a)
{
    return &d->bucket[(a->addr * 0x9e3779b97f4a7c15ull) >> 52];
}

/* Writers of what the argument reads. One that covers what was written replaces it. */
static void deps_look_up(struct deps *d, uint32_t index, const struct chip_argument *a)
{
    struct geom geom = geom_of(a);
    struct writer **link = deps_bucket_of(d, a);

    while (*link != NULL) {
        struct writer *w = *link;
        enum overlap overlap = overlap_simpler(&geom, &w->geom);

        if (overlap != OVERLAP_NONE) {
            (void)deps_meet(d, w->task->id);
            begin_edge(d, w->task->id, (int32_t)index, "tensormap", PTO_DEP_WAIT);
            fprintf(d->out, ",\"overlap\":\"%s\"", overlap == OVERLAP_COVERS ? "covered" : "other");
            put_consumer(d, w->argument, a);
            put_region(d, w->argument, "producer_");
            fputc('}', d->out);
        }
        if (overlap == OVERLAP_COVERS && a->tag == PTO_TAG_INOUT) {
            *link = w->next;
            free(w);
        } else {
            link = &w->next;
        }
    }
}

static void add_writer(struct deps *d, const struct chip_argument *a)
{
    struct writer **bucket = deps_bucket_of(d, a);
    struct writer *w = malloc(sizeof(*w));

    if (w == NULL) {
        d->status = PTO_ENOMEM;
        return;
    }
    *w = (struct writer){ *bucket, geom_of(a), d->task, a };
    *bucket = w;
}

static void write_explicit(struct deps *d)
{
    const struct chip_dep *dep = trace_task_deps(d->task);

    for (uint32_t i = 0; i < d->task->dep_count; i++)
        if (deps_meet(d, dep[i].task)) {
            begin_edge(d, dep[i].task, -1, "explicit", (uint32_t)dep[i].kind);
            fputc('}', d->out);
        }
}

/* Creators and writers, unless the scope says that only explicit ones count. */
static void write_inferred(struct deps *d)
{
    const struct chip_argument *a = trace_task_arguments(d->task);

    for (uint32_t i = 0; i < d->task->tensor_count; i++, a++) {
        if (a->tag == PTO_TAG_OUTPUT)
            continue;
        if (pto_task_id_is_valid(a->owner) && deps_meet(d, a->owner)) {
            begin_edge(d, a->owner, (int32_t)i, "creator", PTO_DEP_WAIT | PTO_DEP_RETAIN);
            put_consumer(d, a, a);
            fputc('}', d->out);
        }
        if ((pto_tag_use(a->tag) & PTO_READS) != 0 && (a->flags & CHIP_ARGUMENT_IS_MANUAL) == 0)
            deps_look_up(d, i, a);
    }
    a = trace_task_arguments(d->task);
    for (uint32_t i = 0; i < d->task->tensor_count; i++, a++)
        if ((a->tag == PTO_TAG_INOUT || a->tag == PTO_TAG_OUTPUT_EXISTING) &&
            (a->flags & CHIP_ARGUMENT_IS_MANUAL) == 0)
            add_writer(d, a);
}

static int by_successor(const void *a, const void *b)
{
    const struct chip_edge *x = a, *y = b;

    if (x->after != y->after)
        return x->after < y->after ? -1 : 1;
    return x->before < y->before ? -1 : x->before > y->before;
}

/* Edges that were wired although the rules do not say so: `wired` of the task, in order. */
static const struct chip_edge *write_wired(struct deps *d, const struct chip_edge *wired,
                                           const struct chip_edge *end)
{
    while (wired < end && wired->after < d->task->index)
        wired++;
    for (; wired < end && wired->after == d->task->index; wired++) {
        struct pto_task_id before = { trace_slices_id(d->slices, wired->before) };

        if (deps_meet(d, before)) {
            begin_edge(d, before, -1, "order", PTO_DEP_WAIT);
            fputc('}', d->out);
        }
    }
    return wired;
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
        d->met_count = 0;
        write_explicit(d);
        if ((d->task->flags & (CHIP_TASK_IS_MANUAL | CHIP_TASK_IS_LAUNCHED)) == 0)
            write_inferred(d);
        next = write_wired(d, next, wired + record->edge_count);
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
    free(d->met);
    free(d);
}
