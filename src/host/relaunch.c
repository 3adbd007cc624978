/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that are built once and launched many times. What the orchestration
 * read while it ran is part of the graph, so it is noted, and a launch for
 * which it would be different is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/sized.h"
#include "host/host.h"

/* Bytes that the orchestration read or wrote itself, or an output that starts with a value. */
struct note {
    int32_t entry; /* tensor of the entry in which it lies; -1: `at` is an address */
    uint32_t dtype;
    uint64_t at;
    uint64_t bytes;
    uint64_t bits;
    uint64_t mask; /* of the bits that were not the orchestration's own */
};

struct notes {
    struct note *note;
    uint64_t count;
    uint64_t max;
};

enum { SCALAR_PASSED = 1, SCALAR_READ = 2 };

struct relaunch {
    struct device *device;
    struct callable *callable;
    struct registration *registration; /* NULL: the callable needs none */
    struct image image;
    struct pace pace; /* of its launches */
    char *memory;     /* the image's */
    struct pto_tensor *tensor;
    uint64_t *scalar;
    struct pto_entry built; /* the entry with which it was built */
    uint64_t *bound_addr;   /* of the tensors that the image names now */
    uint64_t *bound_scalar;
    uint8_t scalar_use[PTO_ENTRY_SCALARS_MAX];
    bool has_failed_note; /* no memory for one */
    struct notes reads;
    struct notes writes;
    struct notes fills;
    struct notes outside; /* memory that the graph names by itself, in order, without overlaps */
    uint64_t kept_bytes;  /* counted in the device's graph_bytes */
    char *guard;          /* the scalars as the orchestration sees them, while it runs */
    bool is_guard_hit;
    bool is_pinned; /* a kernel of it never returned, and may use it */
    struct a32 is_busy;
    struct run run; /* for launches that block: nothing is allocated */
};

static void free_relaunch(struct relaunch *r);
static int copy_entry(struct relaunch *r, const struct pto_entry *entry);
static bool is_same_entry(struct relaunch *r, struct run *run);

/* ---- building ---- */

int pto_graph_build(struct pto_device *device_handle, const struct pto_callable *callable_handle,
                    const struct pto_entry *entry, const struct pto_run_options *options,
                    struct pto_run_report *report, struct pto_graph **graph_out)
{
    int status;
    struct device *device = device_get(device_handle, &status);
    struct callable *callable = handle_get(HANDLE_CALLABLE, callable_handle);
    struct pto_error error;
    struct relaunch *r;

    if (device == NULL)
        return status;
    if (callable == NULL || graph_out == NULL || !sized_is_valid(report))
        return PTO_EINVAL;
    r = aligned_alloc(128, (sizeof(*r) + 127) / 128 * 128);
    if (r == NULL)
        return PTO_ENOMEM;
    memset(r, 0, sizeof(*r));
    r->device = device;
    r->callable = callable;
    a32_store_relaxed(&r->is_busy, 1); /* nobody else knows of it */
    pto_error_init(&error);
    status = registration_acquire(device, callable, &r->registration, &error);
    if (status < 0) {
        report_error(report, &error);
        free(r);
        return status;
    }
    status = run_prepare(&r->run, device, callable, entry, options, &error);
    if (status < 0) {
        report_error(report, &error);
        free_relaunch(r);
        return status;
    }
    r->run.is_part = true;
    r->run.relaunch = r;
    r->run.is_built_only = true;
    status = run_now(&r->run, report);
    if (status >= 0) {
        void *handle = handle_create(HANDLE_GRAPH, r);

        if (handle != NULL) {
            a32_add_relaxed(&callable->users, 1); /* read by its destroyer, after this graph's */
            pthread_mutex_lock(&device->lock);
            device->run_count++; /* a device with graphs is not closed */
            pthread_mutex_unlock(&device->lock);
            *graph_out = handle;
            return PTO_OK;
        }
        status = PTO_ENOMEM;
    }
    free_relaunch(r);
    return status;
}

static void add_note(struct relaunch *r, struct notes *notes, struct note note)
{
    if (notes->count == notes->max) {
        uint64_t max = notes->max != 0 ? 2 * notes->max : 16;
        struct note *more = realloc(notes->note, max * sizeof(*more));

        if (more == NULL) {
            r->has_failed_note = true;
            return;
        }
        notes->note = more;
        notes->max = max;
    }
    notes->note[notes->count++] = note;
}

static uint64_t note_addr(const struct note *n, const struct pto_entry *entry)
{
    return n->entry >= 0 ? entry->tensor[n->entry].addr + n->at : n->at;
}

/* An address as it will be found in another launch. */
static struct note place_note(const struct relaunch *r, uint64_t addr, uint32_t bytes,
                              uint64_t bits)
{
    int32_t entry = image_find_entry(&r->run.entry, addr);

    return (struct note){ .entry = entry,
                          .at = entry >= 0 ? addr - r->run.entry.tensor[entry].addr : addr,
                          .bytes = bytes,
                          .bits = bits };
}

/* What it wrote itself will be there again: only the other bytes have to be the same. */
void relaunch_note_read(struct relaunch *r, uint64_t addr, uint32_t bytes, uint64_t bits)
{
    struct note n = place_note(r, addr, bytes, bits);

    for (uint32_t b = 0; b < bytes; b++)
        n.mask |= 0xffull << 8 * b;
    for (uint64_t i = 0; i < r->writes.count; i++) {
        uint64_t at = note_addr(&r->writes.note[i], &r->run.entry);

        for (uint32_t b = 0; b < bytes; b++)
            if (addr + b - at < r->writes.note[i].bytes)
                n.mask &= ~(0xffull << 8 * b);
    }
    if (n.mask != 0)
        add_note(r, &r->reads, n);
}

void relaunch_note_write(struct relaunch *r, uint64_t addr, uint32_t bytes, uint64_t bits)
{
    add_note(r, &r->writes, place_note(r, addr, bytes, bits));
}

void relaunch_note_scalar(struct relaunch *r, uint32_t index)
{
    r->scalar_use[index] |= SCALAR_READ;
}

static void note_fill(void *context, uint64_t addr, uint64_t bytes, uint64_t value, uint32_t dtype)
{
    struct relaunch *r = context;

    add_note(
        r, &r->fills,
        (struct note){ .entry = -1, .dtype = dtype, .at = addr, .bytes = bytes, .bits = value });
}

void relaunch_record(struct relaunch *r, struct run *run, struct graph_params *params,
                     struct chip_job *job)
{
    size_t page = os_page_bytes();

    params->is_recorded = true;
    params->fill_fn = note_fill;
    params->fill_context = r;
    if (copy_entry(r, &run->entry) < 0) {
        run_fail(run, PTO_ENOMEM, NULL, "there is no memory for a graph that is kept");
        return;
    }
    if (!run->chip->has_handler || run->entry.scalar_count == 0)
        return;
    static_assert(PTO_ENTRY_SCALARS_MAX * sizeof(uint64_t) <= 4096, "they fit a page");
    r->guard = os_reserve(page);
    if (r->guard == NULL || os_commit(r->guard, page) < 0) {
        run_fail(run, PTO_ENOMEM, NULL, "there is no memory for a graph that is kept");
        return;
    }
    memcpy(r->guard, run->entry.scalar, run->entry.scalar_count * sizeof(uint64_t));
    if (os_protect(r->guard, page, false) < 0) {
        run_fail(run, PTO_ENOMEM, NULL, "there is no memory for a graph that is kept");
        return;
    }
    run->entry_seen.scalar = (const uint64_t *)(void *)r->guard;
    job->guard = r->guard;
    job->guard_bytes = page;
    job->is_guard_hit = &r->is_guard_hit;
}

/* Within the device's budget, which graphs share with what runs. */
static bool reserve_bytes(struct relaunch *r, const struct memory *memory)
{
    struct device *device = r->device;
    bool has_room;

    pthread_mutex_lock(&device->lock);
    has_room = r->image.bytes <= memory->max &&
               r->image.slot_bytes / SLOT_LINE_BYTES < SPAN_FOLLOWS && /* 128 GiB */
               memory->used + device->graph_bytes <= memory->max - r->image.bytes;
    if (has_room) {
        r->kept_bytes = r->image.bytes;
        device->graph_bytes += r->kept_bytes;
    }
    pthread_mutex_unlock(&device->lock);
    return has_room;
}

static void note_outside(void *context, uint64_t addr, uint64_t bytes)
{
    struct relaunch *r = context;
    const struct notes *n = &r->outside;

    if (n->count != 0 && n->note[n->count - 1].at == addr && n->note[n->count - 1].bytes == bytes)
        return; /* neighbours often use the same */
    add_note(r, &r->outside, (struct note){ .entry = -1, .at = addr, .bytes = bytes });
}

static int compare_notes(const void *a, const void *b)
{
    uint64_t x = ((const struct note *)a)->at, y = ((const struct note *)b)->at;

    return x < y ? -1 : x > y;
}

/* Puts them in order and joins those that touch. */
static void sort_outside(struct notes *notes)
{
    uint64_t kept = 0;

    if (notes->count == 0)
        return;
    qsort(notes->note, notes->count, sizeof(notes->note[0]), compare_notes);
    for (uint64_t i = 1; i < notes->count; i++) {
        struct note *last = &notes->note[kept];
        const struct note *n = &notes->note[i];

        if (n->at > last->at + last->bytes)
            notes->note[++kept] = *n;
        else if (n->at + n->bytes > last->at + last->bytes)
            last->bytes = n->at + n->bytes - last->at;
    }
    notes->count = kept + 1;
}

static char *allocate_image(uint64_t bytes)
{
    bool is_large = bytes >= OS_LARGE_PAGE;
    uint64_t unit = is_large ? OS_LARGE_PAGE : GRAPH_OUTPUT_ALIGN;
    uint64_t rounded = bytes != 0 ? (bytes + unit - 1) / unit * unit : unit;
    char *memory = aligned_alloc(unit, rounded);

    if (is_large && memory != NULL)
        os_use_large_pages(memory, rounded); /* a launch goes to and fro in it */
    return memory;
}

void relaunch_keep(struct relaunch *r, struct run *run)
{
    os_release(r->guard, os_page_bytes());
    r->guard = NULL;
    if (run->status < 0)
        return;
    image_measure(&r->image, run->graph, &run->entry);
    if (reserve_bytes(r, run->chip->memory))
        r->memory = allocate_image(r->image.bytes);
    if (r->memory != NULL) {
        image_fill(&r->image, run->graph, &run->entry, r->memory);
        pace_start(&r->pace, PACE_SHARED);
        image_each_outside(&r->image, &run->entry, note_outside, r);
        sort_outside(&r->outside);
    }
    if (r->memory == NULL || r->has_failed_note) {
        run_fail(run, PTO_ENOMEM, NULL,
                 "the graph takes %llu bytes, more than the device's memory budget of %llu MiB has "
                 "left; raise memory_max of the device",
                 (unsigned long long)r->image.bytes,
                 (unsigned long long)(run->chip->memory->max >> 20));
        return;
    }
    for (uint64_t i = 0; i < r->fills.count; i++)
        r->fills.note[i].at = image_moved(&r->image, run->graph, r->fills.note[i].at);
    for (uint32_t i = 0; i < r->image.passed_count; i++)
        r->scalar_use[r->image.passed[i].entry] |= SCALAR_PASSED;
    if (r->is_guard_hit)
        for (uint32_t i = 0; i < run->entry.scalar_count; i++)
            r->scalar_use[i] |= SCALAR_READ;
}

static int copy_entry(struct relaunch *r, const struct pto_entry *entry)
{
    size_t tensors = entry->tensor_count, scalars = entry->scalar_count;

    r->tensor = aligned_alloc(64, (tensors + 1) * sizeof(*r->tensor));
    r->scalar = malloc((2 * scalars + tensors + 1) * sizeof(*r->scalar));
    if (r->tensor == NULL || r->scalar == NULL)
        return PTO_ENOMEM;
    memcpy(r->tensor, entry->tensor, tensors * sizeof(*r->tensor));
    memcpy(r->scalar, entry->scalar, scalars * sizeof(*r->scalar));
    r->bound_scalar = r->scalar + scalars;
    r->bound_addr = r->scalar + 2 * scalars;
    memcpy(r->bound_scalar, entry->scalar, scalars * sizeof(*r->scalar));
    for (size_t i = 0; i < tensors; i++)
        r->bound_addr[i] = entry->tensor[i].addr;
    r->built = (struct pto_entry){ (uint32_t)tensors, (uint32_t)scalars, r->tensor, r->scalar };
    return PTO_OK;
}

static void free_relaunch(struct relaunch *r)
{
    pthread_mutex_lock(&r->device->lock);
    r->device->graph_bytes -= r->kept_bytes;
    registration_release(r->registration);
    pthread_mutex_unlock(&r->device->lock);
    os_release(r->guard, os_page_bytes()); /* the orchestration may not have run at all */
    free(r->memory);
    free(r->tensor);
    free(r->scalar);
    free(r->reads.note);
    free(r->writes.note);
    free(r->fills.note);
    free(r->outside.note);
    free(r);
}

int pto_graph_destroy(struct pto_graph *handle)
{
    struct relaunch *r = handle_get(HANDLE_GRAPH, handle);
    struct callable *callable;
    struct device *device;
    uint32_t idle = 0;

    if (r == NULL)
        return PTO_EINVAL;
    device = r->device;
    if (*device->own_process == 0)
        return PTO_EFORKED;
    if (!a32_cas_acq_rel(&r->is_busy, &idle, 1))
        return PTO_EBUSY;
    if (handle_destroy(HANDLE_GRAPH, handle) == NULL)
        return PTO_EINVAL;
    callable = r->callable;
    if (!r->is_pinned)
        free_relaunch(r);
    a32_sub_acq_rel(&callable->users, 1); /* it may be destroyed from here on */
    pthread_mutex_lock(&device->lock);
    device->run_count--; /* last: the device may be closed from here on */
    pthread_mutex_unlock(&device->lock);
    return PTO_OK;
}

/* ---- launching ---- */

static int begin_launch(struct pto_graph *handle, struct relaunch **r_out)
{
    struct relaunch *r = handle_get(HANDLE_GRAPH, handle);
    uint32_t idle = 0;

    if (r == NULL)
        return PTO_EINVAL;
    if (*r->device->own_process == 0)
        return PTO_EFORKED;
    if (!a32_cas_acq_rel(&r->is_busy, &idle, 1))
        return PTO_EBUSY;
    *r_out = r;
    return PTO_OK;
}

void relaunch_pin(struct relaunch *r)
{
    r->is_pinned = true;
}

void relaunch_release(struct relaunch *r)
{
    a32_store_release(&r->is_busy, 0);
}

int pto_graph_run(struct pto_graph *graph, const struct pto_entry *entry,
                  const struct pto_run_options *options, struct pto_run_report *report)
{
    struct pto_error error;
    struct relaunch *r;
    int status = sized_is_valid(report) ? begin_launch(graph, &r) : PTO_EINVAL;

    if (status < 0)
        return status;
    pto_error_init(&error);
    status = run_prepare(&r->run, r->device, r->callable, entry, options, &error);
    if (status < 0) {
        report_error(report, &error);
        relaunch_release(r);
        return status;
    }
    r->run.is_part = true;
    r->run.relaunch = r;
    return run_now(&r->run, report);
}

int pto_graph_prepare(struct pto_graph *graph, const struct pto_entry *entry,
                      const struct pto_run_options *options, struct pto_run **run_out)
{
    struct relaunch *r;
    struct run *run;
    int status = run_out == NULL ? PTO_EINVAL : begin_launch(graph, &r);

    if (status < 0)
        return status;
    run = run_take(r->device);
    status =
        run == NULL ? PTO_ENOMEM : run_prepare(run, r->device, r->callable, entry, options, NULL);
    if (status < 0) {
        free(run);
        relaunch_release(r);
        return status;
    }
    run->relaunch = r;
    return run_publish(run, run_out);
}

void relaunch_start(struct relaunch *r, struct run *run, const struct graph_params *params,
                    struct chip_job *job)
{
    const struct pto_entry *entry = &run->entry;
    bool is_bound = true;

    if (!is_same_entry(r, run))
        return;
    for (uint32_t i = 0; i < entry->tensor_count; i++) {
        is_bound = is_bound && r->bound_addr[i] == entry->tensor[i].addr;
        r->bound_addr[i] = entry->tensor[i].addr;
    }
    is_bound = is_bound &&
               memcmp(r->bound_scalar, entry->scalar, entry->scalar_count * sizeof(uint64_t)) == 0;
    if (!is_bound)
        image_bind(&r->image, entry);
    memcpy(r->bound_scalar, entry->scalar, entry->scalar_count * sizeof(uint64_t));
    for (uint64_t i = 0; i < r->fills.count; i++) {
        const struct note *n = &r->fills.note[i];

        block_fill(n->at, n->bytes, n->bits, n->dtype);
    }
    for (uint64_t i = 0; i < r->writes.count; i++) {
        const struct note *n = &r->writes.note[i];

        memcpy((void *)(uintptr_t)note_addr(n, entry), &n->bits, n->bytes);
    }
    if (params->wired_fn != NULL)
        image_each_edge(&r->image, params->wired_fn, params->wired_context);
    image_start(run->graph, &r->image, params);
    job->image = &r->image;
    job->pace = &r->pace;
}

/* ---- what may not change ---- */

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
static bool is_same_aliasing(struct relaunch *r, struct run *run)
{
    const struct pto_tensor *now = run->entry.tensor, *then = r->built.tensor;

    for (uint32_t i = 0; i < r->built.tensor_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            bool did = overlaps(&then[i], &then[k]);

            if (did != overlaps(&now[i], &now[k]) ||
                (did && now[i].addr - now[k].addr != then[i].addr - then[k].addr)) {
                run_fail(run, PTO_EGRAPH, NULL,
                         "tensors %u and %u of the entry %s; build another graph for that", k, i,
                         did ? "do not overlap as they did when the graph was built"
                             : "overlap, and did not when the graph was built");
                return false;
            }
        }
    return true;
}

/* The first stretch of the graph's own memory that ends behind the address. */
static uint64_t find_outside(const struct notes *notes, uint64_t addr)
{
    uint64_t low = 0, high = notes->count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (notes->note[middle].at + notes->note[middle].bytes > addr)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool meets_outside(const struct notes *notes, const struct pto_tensor *t)
{
    uint64_t i = find_outside(notes, t->addr);

    return i < notes->count && notes->note[i].at < t->addr + t->size;
}

/* What was apart from memory that the graph names by itself still is; what was not has not moved. */
static bool is_away_from_outside(struct relaunch *r, struct run *run)
{
    const struct pto_tensor *now = run->entry.tensor, *then = r->built.tensor;

    for (uint32_t i = 0; i < r->built.tensor_count; i++)
        if (now[i].addr != then[i].addr &&
            (meets_outside(&r->outside, &now[i]) || meets_outside(&r->outside, &then[i]))) {
            run_fail(
                run, PTO_EGRAPH, NULL,
                "tensor %u of the entry overlaps, or did when the graph was built, memory that "
                "the orchestration names by itself; pass this through the entry, too, or "
                "build another graph",
                i);
            return false;
        }
    return true;
}

static bool is_same_entry(struct relaunch *r, struct run *run)
{
    const struct pto_entry *now = &run->entry;

    if (now->tensor_count != r->built.tensor_count || now->scalar_count != r->built.scalar_count) {
        run_fail(run, PTO_EGRAPH, NULL,
                 "the graph was built with %u tensors and %u scalars; the launch has %u and %u",
                 r->built.tensor_count, r->built.scalar_count, now->tensor_count,
                 now->scalar_count);
        return false;
    }
    for (uint32_t i = 0; i < now->tensor_count; i++)
        if (!is_same_shape(&now->tensor[i], &r->built.tensor[i])) {
            run_fail(run, PTO_EGRAPH, NULL,
                     "tensor %u of the entry has another shape, type or size than when the graph "
                     "was built, or its address is 0 in one of them only; build a graph for each",
                     i);
            return false;
        }
    for (uint32_t i = 0; i < now->scalar_count; i++)
        if (now->scalar[i] != r->built.scalar[i] && r->scalar_use[i] != SCALAR_PASSED) {
            run_fail(
                run, PTO_EGRAPH, NULL,
                "scalar %u of the entry was %llu when the graph was built and is %llu now, but "
                "%s; pass it on with pto_pass_scalar, read others with pto_scalar, or build "
                "another graph",
                i, (unsigned long long)r->built.scalar[i], (unsigned long long)now->scalar[i],
                (r->scalar_use[i] & SCALAR_READ) != 0 ? "the orchestration read its value"
                                                      : "no task gets it");
            return false;
        }
    if (!is_same_aliasing(r, run) || !is_away_from_outside(r, run))
        return false;
    for (uint64_t i = 0; i < r->reads.count; i++) {
        const struct note *n = &r->reads.note[i];
        uint64_t bits = 0;

        memcpy(&bits, (const void *)(uintptr_t)note_addr(n, now), n->bytes);
        if (((bits ^ n->bits) & n->mask) != 0) {
            run_fail(run, PTO_EGRAPH, NULL,
                     "the orchestration read %#llx %llu bytes into tensor %d of the entry when the "
                     "graph was built, and there is %#llx now; build another graph",
                     (unsigned long long)n->bits, (unsigned long long)n->at, n->entry,
                     (unsigned long long)bits);
            return false;
        }
    }
    return true;
}
