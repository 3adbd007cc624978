/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a recording file (.ptrec); its layout is in pto/recording.h. */
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "trace/recording_data.h"
#include "trace/recording_bytes.h"
#include "trace/recording_hash.h"

/* artificial addresses, which replace those of buffers, are multiples of this */
enum { PLACE_ALIGN = 1 << 12 };

/* State while one part of the file is written, with a buffer for each section. */
struct recording_part {
    const struct recording *r;
    const struct trace_snapshot *snapshot;
    const struct chip_record *record;
    struct recording_bytes section[PTO_RECORDING_SECTION_COUNT];
    uint64_t rows[PTO_RECORDING_SECTION_COUNT];
    struct hash_table file;       /* index of a file name, by hash of its path */
    struct hash_table region;     /* index of a region, by hash of the argument without its tag */
    struct hash_table allocation; /* index of an allocation, by hash of address and creator */
    struct hash_table task;       /* index of a task, by hash of its id */
    /* For each region, by its index: an argument that uses this region. */
    const struct chip_argument **argument;
    uint64_t argument_max;
    uint64_t last[16]; /* previous value of each delta-encoded column, by enum part_last */
};

/* The delta-encoded columns of tasks and regions. */
enum part_last {
    LAST_ID,
    LAST_KEY,
    LAST_SUBMIT,
    LAST_FILE,
    LAST_LINE,
    LAST_REGION,
    LAST_ADDR,
    LAST_ALLOCATION,
    LAST_ELEMENT_TASK,
    LAST_ELEMENT_REGION,
    LAST_TOUCHED_TASK,
    LAST_TOUCHED_REGION
};

static void recording_put_meta(struct recording_part *p);
static void recording_put_kernels(struct recording_part *p);
static void recording_put_lanes(struct recording_part *p);
static void recording_put_keys(struct recording_part *p);
static int recording_put_tasks(struct recording_part *p);
static int recording_put_regions(struct recording_part *p);
static void recording_put_slices(struct recording_part *p);
static void recording_put_edges(struct recording_part *p);
static int recording_put_part(struct recording_part *p, FILE *out);

int trace_write_recording(const struct trace_slices *slices, FILE *out)
{
    struct recording r;
    struct recording_part p = { .r = &r,
                                .snapshot = slices->snapshot,
                                .record = &slices->snapshot->record };
    int status = recording_make(slices, &r);

    if (status < 0)
        return status;
    recording_put_kernels(&p);
    recording_put_lanes(&p);
    recording_put_keys(&p);
    status = recording_put_tasks(&p);
    if (status >= 0)
        status = recording_put_regions(&p);
    recording_put_slices(&p);
    recording_put_edges(&p);
    /* write this section last, because it has the row counts of the other sections */
    recording_put_meta(&p);
    if (status >= 0)
        status = recording_put_part(&p, out);
    for (uint32_t i = 0; i < PTO_RECORDING_SECTION_COUNT; i++)
        bytes_free(&p.section[i]);
    hash_free(&p.file);
    hash_free(&p.region);
    hash_free(&p.allocation);
    hash_free(&p.task);
    free(p.argument);
    recording_free(&r);
    return status;
}

/* Counts a new row of a section and returns the section's buffer. */
static struct recording_bytes *part_row(struct recording_part *p,
                                        enum pto_recording_section_kind kind)
{
    p->rows[kind]++;
    return &p->section[kind];
}

/* Adds a string to the file and returns its index. */
static uint64_t part_string(struct recording_part *p, const char *text)
{
    struct recording_bytes *b = part_row(p, PTO_RECORDING_SECTION_STRINGS);
    uint64_t length = text != NULL ? strlen(text) : 0;

    bytes_put_number(b, length);
    bytes_put(b, text, length);
    return p->rows[PTO_RECORDING_SECTION_STRINGS] - 1;
}

/* Returns the time relative to the begin of the recording; an earlier time becomes 0. */
static uint64_t part_ns(const struct recording_part *p, uint64_t ns)
{
    return ns > p->record->begin_ns ? ns - p->record->begin_ns : 0;
}

static void recording_put_kernels(struct recording_part *p)
{
    const struct trace_slices *slices = p->r->slices;

    for (uint32_t k = 0; k < p->snapshot->kernel_count; k++) {
        struct recording_bytes *b = part_row(p, PTO_RECORDING_SECTION_KERNELS);
        uint32_t core = PTO_CORE_TYPES;

        for (uint32_t i = 0; i < p->r->key_count && core == PTO_CORE_TYPES; i++)
            core = p->r->key[i].kernel[0] == k                                  ? PTO_CORE_AIC
                   : p->r->key[i].kernel[1] == k || p->r->key[i].kernel[2] == k ? PTO_CORE_AIV
                                                                                : core;
        bytes_put_number(b, part_string(p, slices->snapshot->kernel_name[k]));
        bytes_put_number(b, p->snapshot->lane_kind == NULL ? core : PTO_CORE_TYPES);
        bytes_put_number(
            b, k < p->record->origin_count ? p->record->origin[k] : PTO_RECORDING_ORIGIN_MEASURED);
    }
}

/*
 * Writes the lanes: the cores or the children of a worker in their order, then one lane each for
 * dummies, skipped tasks and tasks that never ran.
 */
static void recording_put_lanes(struct recording_part *p)
{
    static const uint8_t nothing[TRACE_NOTHINGS] = { [TRACE_DUMMY] = PTO_RECORDING_LANE_DUMMY,
                                                     [TRACE_SKIPPED] = PTO_RECORDING_LANE_SKIPPED,
                                                     [TRACE_STOPPED] = PTO_RECORDING_LANE_NEVER };

    for (uint32_t i = 0; i < p->record->core_count + TRACE_NOTHINGS; i++) {
        struct recording_bytes *b = part_row(p, PTO_RECORDING_SECTION_LANES);
        bool is_aic = i < p->record->aic_count, is_core = i < p->record->core_count;

        if (is_core && p->snapshot->lane_kind != NULL) {
            bytes_put_number(b, p->snapshot->lane_kind[i]);
            bytes_put_number(b, i);
            continue;
        }
        bytes_put_number(b, is_aic    ? PTO_RECORDING_LANE_AIC
                            : is_core ? PTO_RECORDING_LANE_AIV
                                      : nothing[i - p->record->core_count]);
        bytes_put_number(b, is_aic ? i : is_core ? i - p->record->aic_count : 0);
    }
}

/* Writes index + 1, or 0 for PTO_RECORDING_NONE. */
static void recording_put_optional(struct recording_bytes *b, uint32_t index)
{
    bytes_put_number(b, index == PTO_RECORDING_NONE ? 0 : index + 1ull);
}

static void recording_put_keys(struct recording_part *p)
{
    for (uint32_t i = 0; i < p->r->key_count; i++) {
        struct recording_bytes *b = part_row(p, PTO_RECORDING_SECTION_KEYS);

        for (uint32_t lane = 0; lane < 3; lane++)
            recording_put_optional(b, p->r->key[i].kernel[lane]);
        bytes_put_number(b, p->r->key[i].blocks);
    }
}

/* ---- tasks ---- */

static uint32_t recording_put_file(struct recording_part *p, const struct chip_task *recorded)
{
    const char *file = trace_task_file(recorded);
    uint32_t next = (uint32_t)p->rows[PTO_RECORDING_SECTION_FILES];
    uint32_t index = hash_enter(&p->file, hash_bytes(HASH_BASIS, file, strlen(file)), next);

    if (index == next)
        bytes_put_number(part_row(p, PTO_RECORDING_SECTION_FILES), part_string(p, file));
    return index;
}

static void recording_put_region(struct recording_part *p, const struct chip_argument *a,
                                 uint64_t addr)
{
    struct recording_bytes *b = &p->section[PTO_RECORDING_SECTION_REGIONS];
    uint64_t owner = a->owner.raw;
    uint32_t flags =
        ((a->flags & CHIP_ARGUMENT_IS_MANUAL) != 0 ? PTO_RECORDING_MANUAL_DEP : 0u) |
        ((a->flags & CHIP_ARGUMENT_IS_CONTIGUOUS) != 0 ? PTO_RECORDING_CONTIGUOUS : 0u) |
        (pto_task_id_is_valid(a->owner) ? PTO_RECORDING_CREATED : 0u);
    uint32_t allocation = hash_enter(&p->allocation, hash_add(hash_add(HASH_BASIS, owner), a->addr),
                                     (uint32_t)p->allocation.count);

    bytes_put_next(b, addr, &p->last[LAST_ADDR]);
    bytes_put_number(b, a->size);
    bytes_put_number(b, a->start);
    bytes_put_number(b, a->extent);
    bytes_put_next(b, allocation, &p->last[LAST_ALLOCATION]);
    recording_put_optional(b, pto_task_id_is_valid(a->owner)
                                  ? hash_value(&p->task, hash_add(0, owner))
                                  : PTO_RECORDING_NONE);
    bytes_put_signed(b, a->version);
    bytes_put_number(b, a->dtype);
    bytes_put_number(b, flags);
    bytes_put_number(b, a->ndims);
    for (uint32_t k = 0; k < a->ndims; k++) {
        bytes_put_number(b, a->shapes[k]);
        bytes_put_number(b, a->strides[k]);
    }
}

/* Remembers the argument of a new region, which recording_put_regions writes later. */
static void part_add_region(struct recording_part *p, const struct chip_argument *a)
{
    uint64_t at = p->rows[PTO_RECORDING_SECTION_REGIONS]++;

    if (at == p->argument_max) {
        uint64_t max = 2 * at + 256;
        const struct chip_argument **grown =
            realloc((void *)p->argument, max * sizeof(*p->argument));

        if (grown == NULL) {
            p->section[PTO_RECORDING_SECTION_REGIONS].has_failed = true;
            p->rows[PTO_RECORDING_SECTION_REGIONS]--;
            return;
        }
        p->argument = grown;
        p->argument_max = max;
    }
    p->argument[at] = a;
}

/* Adds the region unless an equal one was added before. Returns its index. */
static uint32_t recording_enter_argument(struct recording_part *p, const struct chip_argument *a)
{
    uint32_t next = (uint32_t)p->rows[PTO_RECORDING_SECTION_REGIONS], index;
    struct chip_argument what = *a;
    uint64_t hash = HASH_BASIS;

    what.tag = 0;
    for (uint32_t k = 0; k < sizeof(what) / 8; k++)
        hash = hash_add(hash, ((const uint64_t *)(const void *)&what)[k]);
    index = hash_enter(&p->region, hash, next);
    if (index == next)
        part_add_region(p, a);
    return index;
}

/* Writes the arguments of a task. Equal regions are written once and referenced by index. */
static void recording_put_arguments(struct recording_part *p, const struct chip_task *recorded)
{
    const struct chip_argument *a = trace_task_arguments(recorded);

    for (uint32_t i = 0; i < recorded->tensor_count; i++, a++) {
        struct recording_bytes *b = part_row(p, PTO_RECORDING_SECTION_TENSORS);

        bytes_put_number(b, a->tag);
        bytes_put_next(b, recording_enter_argument(p, a), &p->last[LAST_REGION]);
    }
    for (uint32_t i = 0; i < recorded->scalar_count; i++)
        bytes_put_number(part_row(p, PTO_RECORDING_SECTION_SCALARS),
                         trace_task_scalars(recorded)[i]);
}

static uint32_t task_has(const struct recording_task *task, const struct chip_task *recorded)
{
    return (task->submit_ns != PTO_RECORDING_NO_TIME ? PTO_RECORDING_HAS_SUBMIT : 0u) |
           (task->ready_ns != PTO_RECORDING_NO_TIME ? PTO_RECORDING_HAS_READY : 0u) |
           (task->end_ns != PTO_RECORDING_NO_TIME ? PTO_RECORDING_HAS_END : 0u) |
           (task->ready_by != PTO_RECORDING_NONE ? PTO_RECORDING_HAS_READY_BY : 0u) |
           (recorded != NULL && recorded->file_bytes != 0 ? PTO_RECORDING_HAS_SITE : 0u);
}

static void recording_put_task(struct recording_part *p, uint32_t index)
{
    const struct recording_task *task = &p->r->task[index];
    const struct chip_task *recorded =
        p->r->slices->task != NULL ? p->r->slices->task[index] : NULL;
    struct recording_bytes *b = part_row(p, PTO_RECORDING_SECTION_TASKS);
    uint32_t has = task_has(task, recorded);
    uint64_t at;

    bytes_put_number(b, has);
    bytes_put_number(b, task->flags);
    bytes_put_next(b,
                   p->snapshot->task_number != NULL ? p->snapshot->task_number[index]
                                                    : trace_slices_id(p->r->slices, index),
                   &p->last[LAST_ID]);
    bytes_put_next(b, task->key, &p->last[LAST_KEY]);
    if ((has & PTO_RECORDING_HAS_SUBMIT) != 0)
        bytes_put_next(b, part_ns(p, task->submit_ns), &p->last[LAST_SUBMIT]);
    at = p->last[LAST_SUBMIT];
    if ((has & PTO_RECORDING_HAS_READY) != 0) {
        bytes_put_signed(b, (int64_t)(part_ns(p, task->ready_ns) - at));
        at = part_ns(p, task->ready_ns);
    }
    if ((has & PTO_RECORDING_HAS_END) != 0)
        bytes_put_signed(b, (int64_t)(part_ns(p, task->end_ns) - at));
    if ((has & PTO_RECORDING_HAS_READY_BY) != 0)
        bytes_put_number(b, index - task->ready_by);
    if ((has & PTO_RECORDING_HAS_SITE) != 0) {
        bytes_put_next(b, recording_put_file(p, recorded), &p->last[LAST_FILE]);
        bytes_put_next(b, recorded->line, &p->last[LAST_LINE]);
    }
    bytes_put_number(b, recorded != NULL ? recorded->tensor_count : 0);
    bytes_put_number(b, recorded != NULL ? recorded->scalar_count : 0);
    if (recorded != NULL)
        recording_put_arguments(p, recorded);
}

static void recording_put_element(struct recording_part *p, uint32_t task,
                                  enum pto_recording_element kind, const struct chip_argument *a,
                                  const struct chip_task *recorded)
{
    struct recording_bytes *b = part_row(p, PTO_RECORDING_SECTION_ELEMENTS);

    bytes_put_next(b, task, &p->last[LAST_ELEMENT_TASK]);
    bytes_put_number(b, kind);
    bytes_put_next(b, recording_enter_argument(p, a), &p->last[LAST_ELEMENT_REGION]);
    bytes_put_number(b, recorded->file_bytes != 0 ? recording_put_file(p, recorded) + 1ull : 0);
    bytes_put_number(b, recorded->line);
}

/* Writes what the orchestration itself used before each task was submitted, and predicates. */
static void recording_put_elements(struct recording_part *p)
{
    const struct trace_slices *slices = p->r->slices;
    uint64_t next = 0;

    for (uint32_t i = 0; slices->task != NULL && i <= p->record->tasks; i++) {
        const struct chip_task *recorded = i < p->record->tasks ? slices->task[i] : NULL;

        for (; next < slices->element_count && slices->element[next]->index <= i; next++)
            recording_put_element(
                p, i,
                (slices->element[next]->flags & CHIP_TASK_IS_SET) != 0 ? PTO_RECORDING_ELEMENT_SET
                                                                       : PTO_RECORDING_ELEMENT_GET,
                trace_task_arguments(slices->element[next]), slices->element[next]);
        if (recorded != NULL && trace_task_operand(recorded) != NULL)
            recording_put_element(p, i, PTO_RECORDING_ELEMENT_PREDICATE,
                                  trace_task_operand(recorded), recorded);
    }
}

static uint32_t touch_kind(const struct chip_task *touched, uint32_t part)
{
    static const uint32_t of_none[] = { PTO_RECORDING_TOUCH_KNOWN, PTO_RECORDING_TOUCH_SIGNAL,
                                        PTO_RECORDING_TOUCH_STEP, PTO_RECORDING_TOUCH_END };

    if (touched->tensor_count == 0)
        return of_none[(uint32_t)touched->kernel[1] % 4];
    return trace_task_arguments(touched)[part].tag == PTO_TAG_OUTPUT_EXISTING
               ? PTO_RECORDING_TOUCH_WRITE
               : PTO_RECORDING_TOUCH_READ;
}

/* Writes what tasks used. */
static void recording_put_touched(struct recording_part *p)
{
    const struct trace_slices *slices = p->r->slices;

    for (uint64_t i = 0; i < slices->touched_count; i++) {
        const struct chip_task *touched = slices->touched[i];
        const struct chip_argument *a = trace_task_arguments(touched);

        for (uint32_t k = 0; k < touched->tensor_count || k == 0; k++) {
            struct recording_bytes *b = part_row(p, PTO_RECORDING_SECTION_TOUCHED);
            uint32_t kind = touch_kind(touched, k);

            bytes_put_next(b, touched->index, &p->last[LAST_TOUCHED_TASK]);
            bytes_put_number(b, kind);
            if (kind == PTO_RECORDING_TOUCH_STEP)
                bytes_put_number(b, touched->begin);
            if (kind == PTO_RECORDING_TOUCH_STEP || kind == PTO_RECORDING_TOUCH_END)
                bytes_put_number(b, touched->end);
            if (touched->tensor_count == 0)
                continue;
            bytes_put_number(b, touched->block_count);
            bytes_put_number(b, touched->begin);
            bytes_put_number(b, (uint64_t)(touched->kernel[0] + 1));
            bytes_put_next(b, recording_enter_argument(p, &a[k]), &p->last[LAST_TOUCHED_REGION]);
        }
    }
}

/* Writes the rows of all tasks. Returns PTO_OK or PTO_ENOMEM. */
static int recording_put_tasks(struct recording_part *p)
{
    const struct trace_slices *slices = p->r->slices;
    bool is_whole = true;

    for (uint32_t i = 0; slices->task != NULL && i < p->record->tasks; i++)
        if (slices->task[i] != NULL)
            is_whole = hash_enter(&p->task, hash_add(0, slices->task[i]->id.raw), i) != HASH_NONE &&
                       is_whole;
    for (uint32_t i = 0; i < p->record->tasks; i++)
        recording_put_task(p, i);
    recording_put_elements(p);
    recording_put_touched(p);
    return is_whole ? PTO_OK : PTO_ENOMEM;
}

/* ---- regions ---- */

/* The buffer of a region, with the region's index; the list is sorted by address. */
struct part_place {
    uint64_t addr, end;
    uint32_t region;
    /* lowest index of all regions whose buffers overlap this one, directly or through others */
    uint32_t first;
    uint64_t low; /* lowest address of those buffers */
};

static int by_addr(const void *a, const void *b)
{
    const struct part_place *x = a, *y = b;

    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    return x->region < y->region ? -1 : x->region > y->region;
}

static int by_first(const void *a, const void *b)
{
    const struct part_place *x = a, *y = b;

    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return by_addr(a, b);
}

/* Sets `first` and `low` in the sorted list. */
static void find_overlaps(struct part_place *place, uint64_t count)
{
    for (uint64_t from = 0, to; from < count; from = to) {
        uint64_t end = place[from].end;
        uint32_t first = place[from].region;

        for (to = from + 1; to < count && place[to].addr < end; to++) {
            end = place[to].end > end ? place[to].end : end;
            first = place[to].region < first ? place[to].region : first;
        }
        for (uint64_t i = from; i < to; i++) {
            place[i].first = first;
            place[i].low = place[from].addr;
        }
    }
}

/*
 * Replaces the addresses of buffers, which differ in each process, by others that follow from the
 * order of the regions. Buffers overlap as before.
 */
static int replace_addresses(const struct recording_part *p, uint64_t *addr)
{
    uint64_t count = p->rows[PTO_RECORDING_SECTION_REGIONS], base = 0, end = 0;
    struct part_place *place = malloc((count + 1) * sizeof(*place));

    if (place == NULL)
        return PTO_ENOMEM;
    for (uint64_t i = 0; i < count; i++)
        place[i] = (struct part_place){ .addr = p->argument[i]->addr,
                                        .end = p->argument[i]->addr + p->argument[i]->size,
                                        .region = (uint32_t)i };
    qsort(place, count, sizeof(*place), by_addr);
    find_overlaps(place, count);
    qsort(place, count, sizeof(*place), by_first);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t offset = place[i].addr - place[i].low;

        if (i == 0 || place[i].first != place[i - 1].first)
            base = end = (end / PLACE_ALIGN + 1) * PLACE_ALIGN;
        addr[place[i].region] = base + offset;
        if (base + offset + p->argument[place[i].region]->size > end)
            end = base + offset + p->argument[place[i].region]->size;
    }
    free(place);
    return PTO_OK;
}

/* Writes all regions. Returns PTO_OK or PTO_ENOMEM. */
static int recording_put_regions(struct recording_part *p)
{
    uint64_t count = p->rows[PTO_RECORDING_SECTION_REGIONS];
    uint64_t *addr = malloc((count + 1) * sizeof(*addr));
    int status = addr != NULL ? PTO_OK : PTO_ENOMEM;

    for (uint64_t i = 0; status >= 0 && i < count; i++)
        addr[i] = p->argument[i]->addr;
    if (status >= 0 && p->record->is_virtual) /* mutation: virtual-addresses */
        status = replace_addresses(p, addr);
    for (uint64_t i = 0; status >= 0 && i < count; i++)
        recording_put_region(p, p->argument[i], addr[i]);
    free(addr);
    return status;
}

/* ---- slices and edges ---- */

static void recording_put_slices(struct recording_part *p)
{
    const struct trace_slices *slices = p->r->slices;
    uint64_t task = 0, block = 0, begin = 0;

    for (uint64_t i = 0; i < slices->count; i++) {
        const struct trace_slice *s = &slices->slice[i];
        struct recording_bytes *b = part_row(p, PTO_RECORDING_SECTION_SLICES);
        bool is_core = s->core < p->record->core_count;
        uint64_t begin_ns = part_ns(p, trace_slices_ns(slices, s->begin));
        uint64_t end_ns = s->has_end ? part_ns(p, trace_slices_ns(slices, s->end))
                                     : p->record->end_ns - p->record->begin_ns;

        bytes_put_next(b, s->seq - 1, &task);
        bytes_put_number(b, is_core ? s->core : p->record->core_count + s->nothing);
        bytes_put_next(b, s->block, &block);
        bytes_put_number(b,
                         s->kernel < p->snapshot->kernel_count && is_core ? s->kernel + 1ull : 0);
        bytes_put_next(b, begin_ns, &begin);
        bytes_put_number(b, end_ns > begin_ns ? end_ns - begin_ns : 0);
        bytes_put_number(b, s->has_cpu ? 1 + bytes_zigzag((int64_t)s->cpu_lost_ns) : 0);
    }
}

/*
 * Whether the engine linked the two tasks of an edge. A worker of level 3 does not record its
 * edges, but it linked the tasks if the first one had not ended when the other one was submitted.
 */
static bool recording_is_wired(const struct recording_part *p, const struct recording_edge *e)
{
    const struct trace_slice *from = trace_slices_find(p->r->slices, e->from);

    if (p->snapshot->lane_kind == NULL || from == NULL)
        return e->is_wired;
    return trace_slices_ns(p->r->slices, from->end) > p->r->task[e->to].submit_ns;
}

static void recording_put_edges(struct recording_part *p)
{
    uint64_t to = 0;

    for (uint64_t i = 0; i < p->r->edge_count; i++) {
        const struct recording_edge *e = &p->r->edge[i];
        struct recording_bytes *b = part_row(p, PTO_RECORDING_SECTION_EDGES);

        bytes_put_next(b, e->to, &to);
        bytes_put_number(b, e->to - e->from);
        bytes_put_number(b, e->reason * 2u + recording_is_wired(p, e));
        bytes_put_number(b, (uint64_t)(e->from_argument + 1));
        bytes_put_number(b, (uint64_t)(e->to_argument + 1));
    }
}

/* ---- the whole part ---- */

static void recording_put_meta(struct recording_part *p)
{
    const struct chip_record *record = p->record;
    bool is_chip = p->snapshot->lane_kind == NULL;
    uint64_t meta[PTO_RECORDING_META_COUNT] = {
        [PTO_RECORDING_META_PLATFORM] = part_string(p, p->snapshot->platform),
        [PTO_RECORDING_META_SCENE] = part_string(p, ""),
        [PTO_RECORDING_META_TITLE] = part_string(p, p->snapshot->title),
        [PTO_RECORDING_META_GROUP_NAME] = part_string(p, p->snapshot->group_name),
        [PTO_RECORDING_META_GROUP] =
            is_chip ? PTO_RECORDING_GROUP_CHIP : PTO_RECORDING_GROUP_WORKER,
        [PTO_RECORDING_META_PARENT] =
            p->snapshot->parent_name != NULL ? part_string(p, p->snapshot->parent_name) + 1 : 0,
        [PTO_RECORDING_META_CHIP] = p->snapshot->chip,
        [PTO_RECORDING_META_MODE] = p->snapshot->run_mode,
        [PTO_RECORDING_META_DEPS] = p->snapshot->deps,
        [PTO_RECORDING_META_CLOCK] =
            record->is_virtual ? PTO_RECORDING_CLOCK_VIRTUAL : PTO_RECORDING_CLOCK_WALL,
        [PTO_RECORDING_META_LEVEL] = p->snapshot->mode,
        [PTO_RECORDING_META_HAS_EDGES] = p->r->has_edges,
        [PTO_RECORDING_META_HAS_READY] = record->has_ready,
        [PTO_RECORDING_META_STATUS] = bytes_zigzag(p->snapshot->status),
        [PTO_RECORDING_META_LENGTH_NS] = record->end_ns - record->begin_ns,
        [PTO_RECORDING_META_RECORDS_LOST] = p->r->slices->lost + record->task_records_lost,
        [PTO_RECORDING_META_EDGES_LOST] = p->r->edges_lost,
        [PTO_RECORDING_META_CPUS] = os_cpu_count(),
        [PTO_RECORDING_META_WORKERS] = record->ring_count != 0 ? record->ring_count - 1 : 0,
        [PTO_RECORDING_META_AICS] = record->aic_count,
        [PTO_RECORDING_META_AIVS] = is_chip ? record->core_count - record->aic_count : 0,
        [PTO_RECORDING_META_CLUSTERS] = record->aic_count,
        [PTO_RECORDING_META_ALLOCATIONS] = p->allocation.count,
        [PTO_RECORDING_META_PARENT_TASK] = p->snapshot->parent_task,
    };

    meta[PTO_RECORDING_META_TEST_CASE] = meta[PTO_RECORDING_META_SCENE];
    for (uint32_t i = 0; i < PTO_RECORDING_META_COUNT; i++)
        bytes_put_number(part_row(p, PTO_RECORDING_SECTION_META), meta[i]);
}

static int recording_put_part(struct recording_part *p, FILE *out)
{
    struct pto_recording_section section[PTO_RECORDING_SECTION_COUNT] = { 0 };
    struct pto_recording_head head = { .magic = PTO_RECORDING_MAGIC,
                                       .version = PTO_RECORDING_VERSION,
                                       .sections = PTO_RECORDING_SECTION_COUNT,
                                       .bytes = sizeof(head) + sizeof(section),
                                       .begin_ns = p->record->begin_ns };

    for (uint32_t i = 0; i < PTO_RECORDING_SECTION_COUNT; i++) {
        const struct recording_bytes *b = &p->section[i];

        if (b->has_failed)
            return PTO_ENOMEM;
        section[i] =
            (struct pto_recording_section){ .kind = i,
                                            .bytes = b->used,
                                            .rows = p->rows[i],
                                            .checksum = hash_bytes(HASH_BASIS, b->at, b->used) };
        head.bytes += b->used;
    }
    fwrite(&head, sizeof(head), 1, out);
    fwrite(section, sizeof(section), 1, out);
    for (uint32_t i = 0; i < PTO_RECORDING_SECTION_COUNT; i++)
        if (p->section[i].used != 0)
            fwrite(p->section[i].at, 1, p->section[i].used, out);
    return PTO_OK;
}
