/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes args_dump.json and args.bin in the format of simpler: the arguments of tasks before and
 * after they ran. args.bin has the bytes of the dumped tensors back to back, in the order of the
 * list in args_dump.json.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/snapshot.h"

/* One entry of the list in args_dump.json: one argument of one task. */
struct item {
    const struct chip_task *task;
    const struct chip_dump *dump;
    uint32_t argument; /* index of the argument; scalars follow the tensors */
    uint64_t offset;   /* position of its bytes in args.bin */
};

struct items {
    const struct trace_slices *slices;
    struct item *item;
    uint64_t count;
    uint64_t max;
    uint64_t bytes; /* size of args.bin */
};

static int find_items(const struct trace_slices *slices, struct items *out);
static void write_item(const struct item *item, FILE *out);

static bool is_scalar(const struct item *item)
{
    return item->argument >= item->task->tensor_count;
}

static const char *role_of(const struct item *item)
{
    uint32_t use = is_scalar(item)
                       ? PTO_READS
                       : pto_tag_use(trace_task_arguments(item->task)[item->argument].tag);

    return (use & PTO_WRITES) == 0 ? "input" : (use & PTO_READS) == 0 ? "output" : "inout";
}

static void args_write_counts(const struct items *all, FILE *out)
{
    uint64_t after = 0, role[3] = { 0 }, truncated = 0;

    for (uint64_t i = 0; i < all->count; i++) {
        const struct item *item = &all->item[i];
        const char *text = role_of(item);

        after += !is_scalar(item) && item->dump->is_after;
        truncated += !is_scalar(item) && item->dump->is_truncated;
        role[strcmp(text, "input") == 0 ? 0 : strcmp(text, "output") == 0 ? 1 : 2]++;
    }
    fprintf(out,
            "  \"total_args\": %" PRIu64 ",\n  \"before_dispatch\": %" PRIu64
            ",\n  \"after_completion\": %" PRIu64 ",\n  \"input_args\": %" PRIu64
            ",\n  \"output_args\": %" PRIu64 ",\n  \"inout_args\": %" PRIu64
            ",\n  \"truncated_args\": %" PRIu64 ",\n  \"dropped_records\": %" PRIu64
            ",\n  \"dropped_overwrite\": 0,\n",
            all->count, all->count - after, after, role[0], role[1], role[2], truncated,
            all->slices->snapshot->record.dumped_lost);
}

int trace_write_args_dump(const struct trace_slices *slices, FILE *out)
{
    struct items all = { .slices = slices };
    int status = find_items(slices, &all);

    fputs("{\n  \"run_dir\": \"args_dump\",\n  \"bin_format\": {\n"
          "    \"type\": \"logical_contiguous\",\n    \"byte_order\": \"little_endian\"\n  },\n",
          out);
    fprintf(out, "  \"dump_args_level\": %u,\n", slices->snapshot->diagnostics.args);
    args_write_counts(&all, out);
    fprintf(out, "  \"bin_file\": %s,\n  \"args\": [", all.bytes != 0 ? "\"args.bin\"" : "null");
    for (uint64_t i = 0; i < all.count; i++) {
        fputs(i != 0 ? ",\n" : "\n", out);
        write_item(&all.item[i], out);
    }
    fputs("\n  ]\n}\n", out);
    free(all.item);
    return status;
}

int trace_write_args_bytes(const struct trace_slices *slices, FILE *out)
{
    struct items all = { .slices = slices };
    int status = find_items(slices, &all);

    for (uint64_t i = 0; i < all.count; i++)
        if (!is_scalar(&all.item[i]))
            fwrite(all.item[i].dump + 1, 1, all.item[i].dump->bytes, out);
    free(all.item);
    return status;
}

/* ---- collecting the dumped arguments ---- */

static int args_add_item(struct items *all, const struct chip_task *task,
                         const struct chip_dump *dump, uint32_t argument)
{
    if (all->count == all->max) {
        uint64_t max = 2 * all->max + 256;
        struct item *item = realloc(all->item, max * sizeof(*item));

        if (item == NULL)
            return PTO_ENOMEM;
        all->item = item;
        all->max = max;
    }
    all->item[all->count++] = (struct item){ task, dump, argument, 0 };
    return PTO_OK;
}

/*
 * Adds the scalars of a task that has begun: all, or only those marked for the dump, depending on
 * the level of the diagnostic.
 */
static int add_scalars(struct items *all, const struct chip_task *task,
                       const struct chip_dump *dump)
{
    bool is_all = all->slices->snapshot->diagnostics.args > 1;
    int status = PTO_OK;

    for (uint32_t i = 0; i < task->scalar_count && status >= 0; i++)
        if (is_all || (task->marked_scalars >> i & 1) != 0)
            status = args_add_item(all, task, dump, task->tensor_count + i);
    return status;
}

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->task->id.raw != y->task->id.raw)
        return x->task->id.raw < y->task->id.raw ? -1 : 1;
    if (x->dump->is_after != y->dump->is_after)
        return x->dump->is_after < y->dump->is_after ? -1 : 1;
    return x->argument < y->argument ? -1 : x->argument > y->argument;
}

/*
 * Collects the dumped arguments. Stops at the first dump that is inconsistent, because the data may
 * come from another process.
 */
static int find_items(const struct trace_slices *slices, struct items *out)
{
    const struct chip_record *record = &slices->snapshot->record;
    const char *dumped = record->dumped;
    int status = PTO_OK;

    for (uint64_t at = 0; record->dumped_bytes - at >= sizeof(struct chip_dump) && status >= 0;) {
        const struct chip_dump *dump = (const void *)(dumped + at);
        uint64_t room = record->dumped_bytes - at - sizeof(*dump);
        const struct chip_task *task = NULL;

        if (dump->bytes > room || (dump->bytes + 7) / 8 * 8 > room)
            break;
        if (slices->task != NULL && dump->index < record->tasks)
            task = slices->task[dump->index];
        if (task != NULL && dump->argument < task->tensor_count)
            status = args_add_item(out, task, dump, dump->argument);
        else if (task != NULL && dump->argument == CHIP_DUMP_SCALARS)
            status = add_scalars(out, task, dump);
        at += sizeof(*dump) + (dump->bytes + 7) / 8 * 8;
    }
    if (out->count != 0)
        qsort(out->item, out->count, sizeof(out->item[0]), compare_items);
    for (uint64_t i = 0; i < out->count; i++) {
        struct item *item = &out->item[i];

        item->offset = out->bytes;
        out->bytes += is_scalar(item) ? 0 : item->dump->bytes;
    }
    return status;
}

/* ---- writing one argument ---- */

static void put_float(FILE *out, uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    char text[32];

    memcpy(&value, &low, sizeof(value));
    if (isnan(value)) {
        fputs("null", out);
    } else if (isinf(value)) {
        fputs(value < 0 ? "\"-$Inf\"" : "\"$Inf\"", out);
    } else {
        snprintf(text, sizeof(text), "%g", (double)value);
        fprintf(out, "%s%s", text, strpbrk(text, ".e") == NULL ? ".0" : "");
    }
}

static void put_value(FILE *out, uint32_t dtype, uint64_t bits)
{
    fputs(", \"value\": ", out);
    switch (dtype) {
    case PTO_FLOAT32:
        put_float(out, bits);
        break;
    case PTO_INT32:
        fprintf(out, "%d", (int32_t)bits);
        break;
    case PTO_UINT32:
        fprintf(out, "%u", (uint32_t)bits);
        break;
    case PTO_INT64:
        fprintf(out, "%" PRId64, (int64_t)bits);
        break;
    case PTO_BOOL:
        fputs(bits != 0 ? "true" : "false", out);
        break;
    default:
        fprintf(out, "%" PRIu64, bits);
    }
}

static void write_head(const struct item *item, uint32_t dtype, FILE *out)
{
    const struct chip_task *task = item->task;
    uint32_t count = 0;

    fprintf(out, "    {\"task_id\": \"0x%016" PRIx64 "\", \"func_id\": [", task->id.raw);
    for (uint32_t lane = 0; lane < 3; lane++)
        if (task->kernel[lane] >= 0)
            fprintf(out, "%s%d", count++ != 0 ? ", " : "", task->kernel[lane]);
    fprintf(out,
            "], \"arg_index\": %u, \"role\": \"%s\", \"stage\": \"%s\", \"kind\": \"%s\", "
            "\"dtype\": \"%s\"",
            item->argument, role_of(item),
            !is_scalar(item) && item->dump->is_after ? "after_completion" : "before_dispatch",
            is_scalar(item) ? "scalar" : "tensor", pto_dtype_name(dtype));
}

static void write_scalar(const struct item *item, FILE *out)
{
    const struct chip_task *task = item->task;
    uint32_t index = item->argument - task->tensor_count;
    bool has_type = (task->flags & CHIP_TASK_HAS_TYPES) != 0 && index < PTO_TASK_SCALARS_MAX;
    uint32_t dtype = has_type ? task->scalar_type[index] : PTO_UINT64;

    write_head(item, dtype, out);
    put_value(out, dtype, trace_task_scalars(task)[index]);
    fprintf(out,
            ", \"is_contiguous\": true, \"shape\": [], \"strides\": [], \"start_offset\": 0, "
            "\"numel\": 1%s, \"bin_offset\": %" PRIu64 ", \"bin_size\": 0, \"truncated\": false, "
            "\"overwritten\": false}",
            (task->ambiguous_scalars >> index & 1) != 0 ? ", \"arg_index_ambiguous\": true" : "",
            item->offset);
}

static void write_item(const struct item *item, FILE *out)
{
    const struct chip_argument *a = &trace_task_arguments(item->task)[item->argument];
    uint64_t numel = 1;

    if (is_scalar(item)) {
        write_scalar(item, out);
        return;
    }
    for (uint32_t i = 0; i < a->ndims; i++)
        numel *= a->shapes[i];
    write_head(item, a->dtype, out);
    fprintf(out, ", \"is_contiguous\": %s, \"shape\": ",
            (a->flags & CHIP_ARGUMENT_IS_CONTIGUOUS) != 0 ? "true" : "false");
    trace_put_numbers(out, a->shapes, a->ndims, ", ");
    fputs(", \"strides\": ", out);
    trace_put_numbers(out, a->strides, a->ndims, ", ");
    fprintf(out,
            ", \"start_offset\": %" PRIu64 ", \"numel\": %" PRIu64 ", \"bin_offset\": %" PRIu64
            ", \"bin_size\": %" PRIu64 ", \"truncated\": %s, \"overwritten\": false}",
            a->start, numel, item->offset, item->dump->bytes,
            item->dump->is_truncated ? "true" : "false");
}
