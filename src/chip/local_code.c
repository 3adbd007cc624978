/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the objects of a program and finds the functions in them. */
#include "chip/local_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/object.h"
#include "pto/access_hooks.h"
#include "compat/orch/compat_source.h"
#include "compat/orch/compat.h"

static int load_one(struct chip_code *code, const struct chip_object *from, const char *label,
                    const char *symbol, void **function_out, struct pto_error *error);

static int set_orchestration(struct chip_code *code, const struct chip_program *program,
                             void *function, struct pto_error *error);

static uint32_t count_ids(const struct chip_program *program)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < program->kernel_count; i++)
        if (program->kernels[i].func_id >= count)
            count = program->kernels[i].func_id + 1;
    return count;
}

/*
 * Finds the struct pto_access_link of a kernel, which the object that was loaded last exports if
 * the kernel reports its accesses.
 */
static void find_link(struct chip_code *code, uint32_t func_id)
{
    const struct pto_access_link *link =
        object_symbol(code->object[code->object_count - 1], "pto_access_link");

    if (link == NULL || link->version != PTO_ACCESS_VERSION)
        return;
    code->link[func_id] = link;
    code->functions.links = code->link;
}

static struct chip_code *make_code(const struct chip_program *program)
{
    uint32_t ids = count_ids(program);
    struct chip_code *code = calloc(1, sizeof(*code));

    if (code == NULL)
        return NULL;
    code->kernel = calloc(ids + 1, sizeof(code->kernel[0]));
    code->link = calloc(ids + 1, sizeof(code->link[0]));
    code->declared = calloc(program->kernel_count + 1, sizeof(code->declared[0]));
    code->kernel_name = calloc(ids + 1, sizeof(code->kernel_name[0]));
    code->object = calloc(program->kernel_count + 1, sizeof(code->object[0]));
    if (code->kernel == NULL || code->link == NULL || code->declared == NULL ||
        code->kernel_name == NULL || code->object == NULL) {
        local_code_unload(code);
        return NULL;
    }
    code->functions = (struct chip_functions){ .kernels = code->kernel,
                                               .kernel_count = ids,
                                               .keeps_signals = true };
    return code;
}

int local_code_load(const struct chip_program *program, struct chip_code **code_out,
                    struct pto_error *error)
{
    struct chip_code *code = make_code(program);
    void *function = NULL;
    char label[200];
    int status;

    if (code == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for the code of \"%.100s\"",
                          program->name);
    snprintf(label, sizeof(label), "the orchestration of \"%.100s\"", program->name);
    status = load_one(code, &program->orchestration, label, program->entry, &function, error);
    if (status >= 0)
        status = set_orchestration(code, program, function, error);
    for (uint32_t i = 0; i < program->kernel_count && status >= 0; i++) {
        const struct chip_kernel *kernel = &program->kernels[i];

        snprintf(label, sizeof(label), "kernel %u (\"%.60s\") of \"%.100s\"", kernel->func_id,
                 kernel->object.name, program->name);
        status = load_one(code, &kernel->object, label, "kernel_entry", &function, error);
        if (status < 0)
            break;
        status = chip_read_declared(program, kernel, code->declared[i], error);
        code->kernel[kernel->func_id] =
            graph_kernel_make((pto_kernel_fn)(uintptr_t)function, kernel->core_type,
                              status > 0 ? code->declared[i] : NULL);
        find_link(code, kernel->func_id);
        /* free the earlier name of this func_id, because an artefact may list a func_id twice */
        free(code->kernel_name[kernel->func_id]);
        code->kernel_name[kernel->func_id] = strdup(kernel->object.name);
    }
    if (status < 0) {
        local_code_unload(code);
        return status;
    }
    *code_out = code;
    return PTO_OK;
}

/*
 * Finds the function of the orchestration. An orchestration that was compiled for the reference is
 * called through compat/orch.
 */
static int set_orchestration(struct chip_code *code, const struct chip_program *program,
                             void *function, struct pto_error *error)
{
    pto_orch_fn bound;

    code->functions.orchestration = (pto_orch_fn)(uintptr_t)function;
    code->functions.guard = guard_orchestration;
    bound = compat_source_bind(code->object[0], function, program->config);
    if (bound != NULL)
        code->functions.orchestration = bound;
    code->functions.is_whole_only = bound != NULL || compat_fits(code->object[0]);
    if (bound != NULL || !code->functions.is_whole_only)
        return PTO_OK;
    if (compat_open(code->object[0], function, program->config, &code->compat) < 0)
        return error_setf(error, PTO_ENOMEM, "there is no memory for the code of \"%.100s\"",
                          program->name);
    code->functions.orchestration = compat_enter;
    code->functions.context = code->compat;
    code->functions.code = function;
    code->functions.guard = compat_guard;
    return PTO_OK;
}

void local_code_unload(struct chip_code *code)
{
    compat_close(code->compat);
    while (code->object_count != 0)
        object_release(code->object[--code->object_count]);
    for (uint32_t i = 0; code->kernel_name != NULL && i < code->functions.kernel_count; i++)
        free(code->kernel_name[i]);
    free(code->kernel_name);
    free(code->object);
    free(code->kernel);
    free(code->link);
    free(code->declared);
    free(code);
}

static int load_one(struct chip_code *code, const struct chip_object *from, const char *label,
                    const char *symbol, void **function_out, struct pto_error *error)
{
    struct object **object = &code->object[code->object_count];
    int status = object_acquire(from->bytes, from->size, label, object, error);

    if (status < 0)
        return status;
    code->object_count++;
    code->functions.keeps_signals = code->functions.keeps_signals && object_keeps_signals(*object);
    *function_out = object_symbol(*object, symbol);
    if (*function_out == NULL)
        return error_setf(error, PTO_ELOAD,
                          "%s has no function %s; export it (extern \"C\" in C++)", label, symbol);
    return PTO_OK;
}
