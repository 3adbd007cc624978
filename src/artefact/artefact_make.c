/* SPDX-License-Identifier: Apache-2.0 */
/* Writes artefacts. */
#include <stdlib.h>
#include <string.h>

#include "artefact/artefact.h"
#include "artefact/artefact_layout.h"
#include "base/error.h"

/* The parts of an artefact, in the order in which they are written. */
struct plan {
    const struct artefact_parts *parts;
    const struct artefact_kernel **kernel; /* kernels, sorted by func_id */
    const struct artefact_file **file;     /* sources, sorted, each once */
    uint32_t file_count;
    struct artefact_header header;
    uint64_t callable_size;
    uint32_t text_used; /* number of bytes of texts written so far */
};

static int artefact_check_parts(const struct artefact_parts *parts, struct pto_error *error);
static int plan_order(struct plan *plan, struct pto_error *error);
static int plan_sizes(struct plan *plan, struct pto_error *error);
static void write_tables(struct plan *plan, uint8_t *bytes);
static void write_callable(const struct plan *plan, uint8_t *bytes);

int artefact_make(const struct artefact_parts *parts, void **bytes_out, size_t *size_out,
                  struct pto_error *error)
{
    struct plan plan = { .parts = parts };
    uint8_t *bytes = NULL;
    int status = artefact_check_parts(parts, error);

    if (status < 0)
        return status;
    plan.kernel = malloc((parts->kernel_count + 1) * sizeof(*plan.kernel));
    plan.file = malloc(((size_t)parts->file_count + 1) * sizeof(*plan.file));
    if (plan.kernel == NULL || plan.file == NULL) {
        status = error_setf(error, PTO_ENOMEM, "there is no memory for the artefact");
        goto free_plan;
    }
    status = plan_order(&plan, error);
    if (status >= 0)
        status = plan_sizes(&plan, error);
    if (status < 0)
        goto free_plan;
    bytes = calloc(1, plan.header.size);
    if (bytes == NULL) {
        status = error_setf(error, PTO_ENOMEM, "there is no memory for an artefact of %llu bytes",
                            (unsigned long long)plan.header.size);
        goto free_plan;
    }
    write_tables(&plan, bytes);
    write_callable(&plan, bytes + plan.header.callable_offset);
    artefact_seal(bytes, plan.header.size);
    *bytes_out = bytes;
    *size_out = plan.header.size;

free_plan:
    free(plan.kernel);
    free(plan.file);
    return status;
}

void artefact_seal(void *bytes, size_t size)
{
    struct artefact a = { .entry = NULL };
    struct artefact_header h;

    if (size < sizeof(h))
        return;
    memcpy(&h, bytes, sizeof(h));
    /* A defective artefact keeps its wrong identity, because readers refuse it anyway. */
    if (artefact_read_unsealed(bytes, size, &a) >= 0)
        h.identity = a.identity;
    memcpy(bytes, &h, sizeof(h));
    artefact_check_of(bytes, size, &h.check);
    memcpy(bytes, &h, sizeof(h));
}

/* ---- checks and sizes of the parts ---- */

static const char *text_or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static const char *entry_of(const struct artefact_parts *parts)
{
    return parts->entry != NULL ? parts->entry : "orchestrate";
}

static int artefact_check_parts(const struct artefact_parts *parts, struct pto_error *error)
{
    const char *config = text_or_empty(parts->config);

    if (parts->platform == NULL || parts->platform[0] == '\0')
        return error_setf(error, PTO_EINVAL, "an artefact needs the name of its platform");
    if (entry_of(parts)[0] == '\0' || strlen(entry_of(parts)) >= CHIP_CALLABLE_NAME_MAX ||
        strlen(config) >= CHIP_CALLABLE_NAME_MAX)
        return error_setf(error, PTO_EINVAL,
                          "the names of the entry (\"%s\") and the config (\"%s\") have at most %d "
                          "characters, the entry's at least one",
                          entry_of(parts), config, CHIP_CALLABLE_NAME_MAX - 1);
    if ((uint32_t)parts->mode >= PTO_MODE_COUNT)
        return error_setf(error, PTO_EINVAL, "mode %d does not exist", (int)parts->mode);
    if (parts->signature_count > CHIP_CALLABLE_SIGNATURE_MAX)
        return error_setf(error, PTO_EINVAL, "the signature has %u entries; the most is %d",
                          parts->signature_count, CHIP_CALLABLE_SIGNATURE_MAX);
    for (uint32_t i = 0; i < parts->signature_count; i++)
        if ((uint32_t)parts->signature[i] >= PTO_DIR_COUNT)
            return error_setf(error, PTO_EINVAL, "entry %u of the signature is not a direction", i);
    if (parts->orchestration == NULL || parts->orchestration_size == 0)
        return error_setf(error, PTO_EINVAL, "an artefact needs an orchestration");
    if (parts->kernel_count > CHIP_CALLABLE_CHILDREN_MAX)
        return error_setf(error, PTO_EINVAL, "a callable has at most %d kernels, not %u",
                          CHIP_CALLABLE_CHILDREN_MAX, parts->kernel_count);
    if (parts->file_count > ARTEFACT_FILES_MAX)
        return error_setf(error, PTO_EINVAL, "an artefact is made of at most %d files, not %u",
                          ARTEFACT_FILES_MAX, parts->file_count);
    for (uint32_t i = 0; i < parts->kernel_count; i++) {
        const struct artefact_kernel *k = &parts->kernels[i];

        if (k->func_id >= CHIP_CALLABLE_CHILDREN_MAX || (uint32_t)k->core >= PTO_CORE_TYPES ||
            k->bytes == NULL || k->size == 0)
            return error_setf(error, PTO_EINVAL,
                              "kernel %u (\"%s\") has no code, no core type, or a func_id above "
                              "%d",
                              k->func_id, text_or_empty(k->name), CHIP_CALLABLE_CHILDREN_MAX - 1);
    }
    return PTO_OK;
}

static int compare_kernels(const void *a, const void *b)
{
    uint32_t x = (*(const struct artefact_kernel *const *)a)->func_id;
    uint32_t y = (*(const struct artefact_kernel *const *)b)->func_id;

    return x < y ? -1 : x > y;
}

static int artefact_compare_files(const void *a, const void *b)
{
    return artefact_order(*(const struct artefact_file *const *)a,
                          *(const struct artefact_file *const *)b);
}

static int plan_order(struct plan *plan, struct pto_error *error)
{
    const struct artefact_parts *parts = plan->parts;

    for (uint32_t i = 0; i < parts->kernel_count; i++)
        plan->kernel[i] = &parts->kernels[i];
    qsort(plan->kernel, parts->kernel_count, sizeof(*plan->kernel), compare_kernels);
    for (uint32_t i = 1; i < parts->kernel_count; i++)
        if (plan->kernel[i]->func_id == plan->kernel[i - 1]->func_id)
            return error_setf(error, PTO_EINVAL, "two kernels have the func_id %u",
                              plan->kernel[i]->func_id);
    for (uint32_t i = 0; i < parts->file_count; i++)
        plan->file[i] = &parts->files[i];
    qsort(plan->file, parts->file_count, sizeof(*plan->file), artefact_compare_files);
    for (uint32_t i = 0; i < parts->file_count; i++) {
        const struct artefact_file *file = plan->file[i];
        const struct artefact_file *last =
            plan->file_count != 0 ? plan->file[plan->file_count - 1] : NULL;

        if (last == NULL || artefact_order(last, file) != 0)
            plan->file[plan->file_count++] = file;
        else if (!digest_is_equal(&last->digest, &file->digest))
            return error_setf(error, PTO_ESTALE,
                              "%s changed while the callable was built: parts of it were made with "
                              "one content and parts with another; build it again",
                              file->path);
    }
    return PTO_OK;
}

/* Computes the places of the texts, in the order in which write_tables writes them. */
static int plan_sizes(struct plan *plan, struct pto_error *error)
{
    const struct artefact_parts *parts = plan->parts;
    struct artefact_header *h = &plan->header;
    uint64_t text = strlen(text_or_empty(parts->name)) + strlen(parts->platform) +
                    strlen(text_or_empty(parts->isa_revision)) +
                    strlen(text_or_empty(parts->compiler)) + 4 +
                    (parts->arguments != NULL ? strlen(parts->arguments) + 1 : 0);
    uint64_t storage = parts->orchestration_size;

    for (uint32_t i = 0; i < parts->kernel_count; i++) {
        text += strlen(text_or_empty(plan->kernel[i]->name)) + 1;
        storage = artefact_round(storage) + sizeof(struct core_callable);
        if (storage > UINT32_MAX || plan->kernel[i]->size > UINT32_MAX)
            break;
        storage += plan->kernel[i]->size;
    }
    for (uint32_t i = 0; i < plan->file_count; i++)
        text += strlen(plan->file[i]->path) + 1;
    /* 64 MiB of the maximum size are left for the tables */
    if (storage + text > ARTEFACT_BYTES_MAX - (1 << 26))
        return error_setf(error, PTO_EINVAL,
                          "the orchestration and the kernels together take more than 1 GiB");
    memcpy(h->magic, ARTEFACT_MAGIC, ARTEFACT_MAGIC_BYTES);
    h->version = ARTEFACT_VERSION;
    h->abi = parts->abi != 0 ? parts->abi : ARTEFACT_ABI;
    h->mode = (uint32_t)parts->mode;
    h->kernel_count = parts->kernel_count;
    h->file_count = plan->file_count;
    h->text_size = (uint32_t)text;
    artefact_place(h);
    h->callable_size = sizeof(struct chip_callable) + storage;
    h->size = h->callable_offset + h->callable_size;
    return PTO_OK;
}

/* ---- writing the bytes ---- */

static uint32_t write_text(struct plan *plan, uint8_t *bytes, const char *text)
{
    size_t size = strlen(text_or_empty(text)) + 1;
    uint32_t at = plan->text_used;

    memcpy(bytes + plan->header.text_offset + at, text_or_empty(text), size);
    plan->text_used += (uint32_t)size;
    return at;
}

static void write_tables(struct plan *plan, uint8_t *bytes)
{
    const struct artefact_parts *parts = plan->parts;
    struct artefact_header *h = &plan->header;

    h->name = write_text(plan, bytes, parts->name);
    h->platform = write_text(plan, bytes, parts->platform);
    h->isa_revision = write_text(plan, bytes, parts->isa_revision);
    h->compiler = write_text(plan, bytes, parts->compiler);
    if (parts->arguments != NULL)
        h->arguments = write_text(plan, bytes, parts->arguments);
    memcpy(bytes, h, sizeof(*h));
    for (uint32_t i = 0; i < parts->kernel_count; i++) {
        const struct artefact_kernel *k = plan->kernel[i];
        struct kernel_record record = { k->func_id, (uint32_t)k->core,
                                        write_text(plan, bytes, k->name) };

        memcpy(bytes + h->kernel_offset + i * sizeof(record), &record, sizeof(record));
    }
    for (uint32_t i = 0; i < plan->file_count; i++) {
        const struct artefact_file *file = plan->file[i];
        struct file_record record = { write_text(plan, bytes, file->path),
                                      file->is_isa ? FILE_IS_ISA : 0, file->digest };

        memcpy(bytes + h->file_offset + i * sizeof(record), &record, sizeof(record));
    }
}

/*
 * Writes the chip callable. Accesses are aligned: calloc returns aligned memory, and the offsets
 * are multiples of 64.
 */
static void write_callable(const struct plan *plan, uint8_t *bytes)
{
    const struct artefact_parts *parts = plan->parts;
    struct chip_callable *chip = (struct chip_callable *)(void *)bytes;
    uint8_t *storage = bytes + sizeof(*chip);
    uint64_t end = parts->orchestration_size;

    for (uint32_t i = 0; i < parts->signature_count; i++)
        chip->signature[i] = (int32_t)parts->signature[i];
    chip->signature_count = (int32_t)parts->signature_count;
    chip->binary_size = (uint32_t)parts->orchestration_size;
    chip->func_name_length = (uint32_t)strlen(entry_of(parts));
    memcpy(chip->func_name, entry_of(parts), chip->func_name_length);
    chip->config_name_length = (uint32_t)strlen(text_or_empty(parts->config));
    memcpy(chip->config_name, text_or_empty(parts->config), chip->config_name_length);
    chip->child_count = (int32_t)parts->kernel_count;
    memcpy(storage, parts->orchestration, parts->orchestration_size);
    for (uint32_t i = 0; i < parts->kernel_count; i++) {
        const struct artefact_kernel *k = plan->kernel[i];
        struct core_callable *core;

        end = artefact_round(end);
        core = (struct core_callable *)(void *)(storage + end);
        chip->child_func_ids[i] = (int32_t)k->func_id;
        chip->child_offsets[i] = (uint32_t)end;
        core->binary_size = (uint32_t)k->size;
        memcpy(core + 1, k->bytes, k->size);
        end += sizeof(*core) + k->size;
    }
}
