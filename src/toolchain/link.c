/* SPDX-License-Identifier: Apache-2.0 */
#include "toolchain/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "toolchain/core_program.h"

/* Number of the work folder for linking, larger than those for compilations. */
enum { WORK_INDEX = 2000, PROGRAM_MAX = 64 << 20 };

static int write_objects(struct unit *units, uint32_t count, const char *work, struct words *argv,
                         struct pto_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        char path[PATH_MAX];
        size_t size;
        const void *bytes = unit_bytes(&units[i], &size);

        snprintf(path, sizeof(path), "%.4000s/%u.o", work, i);
        if (file_write(path, bytes, size) < 0)
            return error_setf(error, PTO_ESYSTEM, "%.200s cannot be written: %s", path,
                              strerror(errno));
        words_add(argv, path);
    }
    return PTO_OK;
}

/*
 * Writes the object of a core to a file. The note with its key is changed so that it is not loaded,
 * because a program for cores must contain nothing before its code.
 */
static int write_core_object(struct unit *unit, const char *path, struct pto_error *error)
{
    size_t size;
    const void *bytes = unit_bytes(unit, &size);
    void *object = malloc(size);
    int status = PTO_OK;

    if (object == NULL)
        return error_setf(error, PTO_ENOMEM, "no memory to link");
    memcpy(object, bytes, size);
    if (!core_program_unload_note(object, size))
        status = error_setf(error, PTO_EBUILD, "%s: the object of a core is not a 64-bit ELF file",
                            unit->source->path);
    else if (file_write(path, object, size) < 0)
        status =
            error_setf(error, PTO_ESYSTEM, "%.200s cannot be written: %s", path, strerror(errno));
    free(object);
    return status;
}

/*
 * Links the halves of a program for cores as the vendor does: cube first
 * (toolchain/core_program.h).
 */
static int link_core(struct build *build, struct unit *units, uint32_t count, const char *work,
                     const char *output, struct text *output_text, struct pto_error *error)
{
    struct words argv = { 0 };
    char linker[PATH_MAX], path[PATH_MAX];
    int status = unit_find_linker(build, &units[0], linker, error);

    if (status < 0)
        return status;
    words_add(&argv, linker);
    words_split(&argv, "-m aicorelinux -Ttext=0 -static -n -o");
    words_add(&argv, output);
    for (uint32_t core = 0; core < PTO_CORE_TYPES; core++) {
        for (uint32_t i = 0; i < count && status == PTO_OK; i++) {
            if ((uint32_t)units[i].source->core != core)
                continue;
            snprintf(path, sizeof(path), "%.4000s/%u.o", work, i);
            status = write_core_object(&units[i], path, error);
            words_add(&argv, path);
        }
    }
    if (status == PTO_OK && argv.is_short)
        status = error_setf(error, PTO_ENOMEM, "no memory to link");
    if (status == PTO_OK)
        status = unit_run(build, &units[0], &argv, output_text, error);
    words_free(&argv);
    return status;
}

static int link_device(struct build *build, struct unit *units, uint32_t count, const char *work,
                       const char *output, struct text *output_text, struct pto_error *error)
{
    struct words argv = { 0 };
    int status;

    for (uint32_t i = 0; i < units[0].compiler->command.count; i++)
        words_add(&argv, units[0].compiler->command.at[i]);
    words_split(&argv, "-shared -Wl,--build-id=sha1 -Wl,-z,noexecstack -o");
    words_add(&argv, output);
    status = write_objects(units, count, work, &argv, error);
    words_add(&argv, "-ldl");
    if (status == PTO_OK && argv.is_short)
        status = error_setf(error, PTO_ENOMEM, "no memory to link");
    if (status == PTO_OK)
        status = unit_run(build, &units[0], &argv, output_text, error);
    words_free(&argv);
    return status;
}

int link_units(struct build *build, struct unit *units, uint32_t count, void **bytes_out,
               size_t *size_out, struct pto_error *error)
{
    char output[PATH_MAX], *work = NULL, *bytes = NULL;
    bool is_for_cores = units[0].compiler->target == COMPILER_CORE;
    struct text output_text = { 0 };
    int status = build_work_folder(build, WORK_INDEX, &work, error);

    if (status < 0)
        return status;
    snprintf(output, sizeof(output), "%.4000s/program", work);
    status = is_for_cores ? link_core(build, units, count, work, output, &output_text, error)
                          : link_device(build, units, count, work, output, &output_text, error);
    if (status == PTO_OK && file_read(output, PROGRAM_MAX, &bytes, size_out) < 0)
        status = error_setf(error, PTO_EBUILD, "the linker succeeded, but made no program: %s",
                            strerror(errno));
    else if (status == PTO_OK && is_for_cores)
        status = core_program_check(bytes, *size_out, error);
    if (status == PTO_OK)
        *bytes_out = bytes;
    else
        free(bytes);
    text_free(&output_text);
    free(work);
    return status;
}
