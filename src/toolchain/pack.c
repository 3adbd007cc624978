/* SPDX-License-Identifier: Apache-2.0 */
#include "toolchain/pack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/sized.h"
#include "artefact/artefact.h"
#include "toolchain/note.h"

/* Names the artefact's compilers for display: "gcc-12.2.0, gcc-12.2.0". */
static void name_compilers(const struct build *build, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (int t = 0; t < COMPILER_TARGETS; t++)
        for (int l = 0; l < COMPILER_LANGUAGES; l++) {
            const struct compiler *compiler = &build->compilers[t][l];

            if (compiler->tool_count != 0 && used < bytes)
                used +=
                    (size_t)snprintf(text + used, bytes - used, "%s%s %s", used != 0 ? ", " : "",
                                     l == COMPILER_C ? "C" : "C++", compiler->version);
        }
}

/* Returns the revision of the tile library if a source can include it, else "". */
static const char *find_revision(const struct build *build, const struct unit *units,
                                 uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (units[i].command.uses_isa)
            return build->isa.revision;
    return "";
}

/* Returns the name of the file without folder and suffix. */
static char *name_kernel(const struct pto_source *source)
{
    const char *slash = strrchr(source->path, '/');
    const char *name = slash != NULL ? slash + 1 : source->path;

    if (source->name != NULL)
        return strdup(source->name);
    return strndup(name, strcspn(name, "."));
}

void pack_key(const struct build *build, const struct unit *units, uint32_t count,
              struct digest *key)
{
    const struct pto_build_params *params = build->params;
    uint32_t numbers[] = { ARTEFACT_ABI, (uint32_t)params->mode, count, params->signature_count };
    struct digest_state state;
    char compilers[256];

    name_compilers(build, compilers, sizeof(compilers));
    digest_begin(&state);
    digest_add_text(&state, "artefact 1");
    digest_add(&state, numbers, sizeof(numbers));
    digest_add_text(&state, params->name);
    digest_add_text(&state, params->platform);
    digest_add_text(&state, params->entry);
    digest_add_text(&state, params->config);
    digest_add_text(&state, params->arguments);
    digest_add_text(&state, find_revision(build, units, count));
    digest_add_text(&state, compilers);
    for (uint32_t i = 0; i < params->signature_count; i++) {
        uint32_t direction = (uint32_t)params->signature[i];

        digest_add(&state, &direction, sizeof(direction));
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct pto_source *source = units[i].source;
        uint32_t kind[] = { (uint32_t)source->kind, source->func_id, (uint32_t)source->core };

        digest_add(&state, kind, sizeof(kind));
        digest_add_text(&state, source->name);
        digest_add(&state, &units[i].key, sizeof(units[i].key));
    }
    digest_end(&state, key);
}

static int pack_compare_files(const void *a, const void *b)
{
    const struct artefact_file *one = a;
    const struct artefact_file *other = b;

    return strcmp(one->path, other->path);
}

/* Lists the existing files of all units, each once; files of the library by their path in it. */
static int list_files(const struct build *build, struct unit *units, uint32_t count,
                      struct artefact_file **files_out, uint32_t *count_out)
{
    size_t root = build->isa.root != NULL ? strlen(build->isa.root) : 0;
    struct artefact_file *files;
    size_t total = 0, used = 0, kept = 0;

    for (uint32_t u = 0; u < count; u++)
        total += scan_entry_count(units[u].scan);
    files = malloc((total + 1) * sizeof(*files));
    if (files == NULL)
        return PTO_ENOMEM;
    for (uint32_t u = 0; u < count; u++)
        for (uint32_t i = 0, n = scan_entry_count(units[u].scan); i < n; i++) {
            const struct scan_entry *entry = scan_entry_at(units[u].scan, i);
            bool is_isa = root != 0 && strncmp(entry->path, build->isa.root, root) == 0 &&
                          entry->path[root] == '/';

            if (entry->is_present)
                files[used++] =
                    (struct artefact_file){ .path = entry->path + (is_isa ? root + 1 : 0),
                                            .is_isa = is_isa,
                                            .digest = entry->digest };
        }
    qsort(files, used, sizeof(*files), pack_compare_files);
    for (size_t i = 0; i < used; i++)
        if (kept == 0 || strcmp(files[kept - 1].path, files[i].path) != 0 ||
            files[kept - 1].is_isa != files[i].is_isa)
            files[kept++] = files[i];
    *files_out = files;
    *count_out = (uint32_t)kept;
    return PTO_OK;
}

const char *pack_entry(const struct pto_build_params *params, const void *object, size_t size)
{
    if (params->entry != NULL)
        return params->entry;
    /*
     * only orchestrations that use include/simpler/ export pto_simpler_bind, so this selects the
     * default name of the function
     */
    return note_exports(object, size, "pto_simpler_bind") ? "aicpu_orchestration_entry"
                                                          : "orchestrate";
}

int pack_units(const struct build *build, struct unit *units, uint32_t count, void **bytes_out,
               size_t *size_out, struct pto_error *error)
{
    const struct pto_build_params *params = build->params;
    struct artefact_kernel *kernels = calloc(count, sizeof(*kernels));
    struct artefact_file *files = NULL;
    char compilers[256];
    struct artefact_parts parts = { .name = params->name != NULL ? params->name : "callable",
                                    .platform = params->platform,
                                    .config = params->config,
                                    .arguments = params->arguments,
                                    .mode = params->mode,
                                    .signature = params->signature,
                                    .signature_count = params->signature_count,
                                    .kernels = kernels,
                                    .isa_revision = find_revision(build, units, count),
                                    .compiler = compilers };
    int status =
        kernels == NULL ? PTO_ENOMEM : list_files(build, units, count, &files, &parts.file_count);

    name_compilers(build, compilers, sizeof(compilers));
    parts.files = files;
    for (uint32_t i = 0; status == PTO_OK && i < count; i++) {
        const struct pto_source *source = units[i].source;
        size_t size;
        const void *bytes = unit_bytes(&units[i], &size);

        if (source->kind == PTO_SOURCE_ORCHESTRATION) {
            parts.orchestration = bytes;
            parts.orchestration_size = size;
            parts.entry = pack_entry(params, bytes, size);
        } else {
            char *name = name_kernel(source);

            kernels[parts.kernel_count++] = (struct artefact_kernel){ .func_id = source->func_id,
                                                                      .core = source->core,
                                                                      .name = name,
                                                                      .bytes = bytes,
                                                                      .size = size };
            status = name == NULL ? PTO_ENOMEM : PTO_OK;
        }
    }
    if (status < 0)
        error_setf(error, status, "no memory to pack the artefact");
    else
        status = artefact_make(&parts, bytes_out, size_out, error);
    for (uint32_t i = 0; i < parts.kernel_count; i++)
        free((char *)(uintptr_t)kernels[i].name);
    free(kernels);
    free(files);
    return status;
}

int pto_file_write(const char *path, const void *bytes, size_t size, struct pto_error *error)
{
    int status;

    if (path == NULL || (bytes == NULL && size != 0) || !sized_is_valid(error))
        return error_setf(error, PTO_EINVAL, "pto_file_write: there is no path, or no bytes");
    status = file_write(path, bytes, size);
    if (status < 0 && errno == EPERM)
        return error_setf(error, status,
                          "%.300s cannot be written: the existing file belongs to another user, or "
                          "is a link to such a file; remove it, or choose a folder of your own",
                          path);
    return status < 0
               ? error_setf(error, status, "%.300s cannot be written: %s", path, strerror(errno))
               : PTO_OK;
}
