/* SPDX-License-Identifier: Apache-2.0 */
/* Callables: an orchestration and its kernels. A callable does not change after it was made. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/object.h"
#include "base/sized.h"
#include "artefact/artefact.h"
#include "host/host.h"

static int callable_load_object(const char *path, const char *whole, const char *symbol,
                                struct pto_callable **callable_out, struct pto_error *error);
static int load_artefact(const char *path, const char *symbol, struct pto_callable **callable_out,
                         struct pto_error *error);

/*
 * Returns the number of words that declare a kernel's arguments, with the final 0. 1: the kernel
 * declares none; 0: the words are invalid.
 */
static uint32_t args_length(const struct pto_callable_params *params, uint32_t kernel)
{
    if (params->kernel_args == NULL || params->kernel_args[kernel] == NULL)
        return 1;
    return declared_length(params->kernel_args[kernel], SIZE_MAX);
}

static int callable_check_kernels(const struct pto_callable_params *params, struct pto_error *error)
{
    if (params->kernel_count > KERNELS_MAX)
        return error_setf(error, PTO_EINVAL, "the callable has %u kernels; there may be %d",
                          params->kernel_count, KERNELS_MAX);
    if (params->kernels == NULL && params->kernel_count != 0)
        return error_setf(error, PTO_EINVAL, "the callable has %u kernels, but their array is NULL",
                          params->kernel_count);
    /* entries without a function are allowed: ids may have gaps */
    for (uint32_t i = 0; i < params->kernel_count; i++) {
        const struct pto_kernel *kernel = &params->kernels[i];

        if (kernel->fn != NULL && (uint32_t)kernel->core >= PTO_CORE_TYPES)
            return error_setf(error, PTO_EINVAL,
                              "kernel %u (\"%.60s\") is for core type %u; it must be "
                              "PTO_CORE_AIC or PTO_CORE_AIV",
                              i, kernel->name != NULL ? kernel->name : "", (uint32_t)kernel->core);
        if (args_length(params, i) == 0)
            return error_setf(error, PTO_EINVAL,
                              "kernel %u (\"%.60s\") declares its arguments in an unknown way; "
                              "declare at most %d tensors, then at most %d scalars, then 0",
                              i, kernel->name != NULL ? kernel->name : "", PTO_TASK_TENSORS_MAX,
                              PTO_TASK_SCALARS_MAX);
    }
    return PTO_OK;
}

/* Copies the caller's parameters to `params` and checks them. */
static int callable_check_params(const struct pto_callable_params *given,
                                 struct pto_callable_params *params, struct pto_error *error)
{
    pto_callable_params_init(params);
    if (given == NULL)
        return error_setf(error, PTO_EINVAL, "there are no parameters: params is NULL");
    if (sized_read(params, sizeof(*params), given) < 0)
        return error_setf(error, PTO_EINVAL,
                          "struct pto_callable_params was not set by pto_callable_params_init, or "
                          "has fields that this version of the library does not know");
    if (params->orchestration == NULL)
        return error_setf(error, PTO_EINVAL, "the callable has no orchestration: it is NULL");
    return callable_check_kernels(params, error);
}

void callable_free(struct callable *c)
{
    /* relaxed: destroyers have loaded `users` with acquire */
    if (a32_load_relaxed(&c->is_pinned) != 0)
        return;
    if (c->object != NULL)
        dlclose(c->object);
    packed_free(c->packed);
    free(c->kernel_name);
    free(c);
}

/*
 * Whether no function of the callable can change the signal mask of its thread, because the caller
 * promised it or the code shows it.
 */
static bool callable_keeps_signals(const struct pto_callable_params *params)
{
    if (params->keeps_signals)
        return true;
    if (!object_program_keeps_signals((const void *)(uintptr_t)params->orchestration))
        return false;
    for (uint32_t i = 0; i < params->kernel_count; i++)
        if (params->kernels[i].fn != NULL &&
            !object_program_keeps_signals((const void *)(uintptr_t)params->kernels[i].fn))
            return false;
    return true;
}

/* Allocates a callable and copies its names: those of the kernels by id, then its own. */
struct callable *callable_make(const struct pto_callable_params *params)
{
    size_t bytes = strlen(params->name != NULL ? params->name : "") + 1;
    size_t words = 0;
    struct callable *c;
    uint32_t *args;
    char *text;

    for (uint32_t i = 0; i < params->kernel_count; i++) {
        bytes += strlen(params->kernels[i].name != NULL ? params->kernels[i].name : "") + 1;
        words += args_length(params, i);
    }
    c = calloc(1, sizeof(*c) + params->kernel_count * sizeof(c->kernel[0]) + words * sizeof(*args));
    if (c == NULL)
        return NULL;
    args = (uint32_t *)(void *)(c->kernel + params->kernel_count);
    c->kernel_name = malloc((params->kernel_count + 1) * sizeof(char *) + bytes);
    if (c->kernel_name == NULL) {
        free(c);
        return NULL;
    }
    text = (char *)(c->kernel_name + params->kernel_count + 1);
    c->kernel_count = params->kernel_count;
    c->deps = params->deps;
    c->functions = (struct chip_functions){ .orchestration = params->orchestration,
                                            .context = params->context,
                                            .kernels = c->kernel,
                                            .kernel_count = params->kernel_count,
                                            .keeps_signals = callable_keeps_signals(params) };
    for (uint32_t i = 0; i <= params->kernel_count; i++) {
        const char *name = i < params->kernel_count ? params->kernels[i].name : params->name;
        size_t length = strlen(name != NULL ? name : "") + 1;

        memcpy(text, name != NULL ? name : "", length);
        /* messages and failure reports print the names, so control characters are removed */
        c->kernel_name[i] = pto_text_clean(text, true);
        text += length;
        if (i == params->kernel_count)
            break;
        words = args_length(params, i);
        if (words > 1)
            memcpy(args, params->kernel_args[i], words * sizeof(*args));
        c->kernel[i] = graph_kernel_make(params->kernels[i].fn, (uint32_t)params->kernels[i].core,
                                         words > 1 ? args : NULL);
        args += words;
    }
    return c;
}

static int callable_create(const struct pto_callable_params *params,
                           struct pto_callable **callable_out, struct pto_error *error)
{
    struct callable *c = callable_make(params);
    void *handle = NULL;

    if (c != NULL) {
        c->functions.guard = guard_orchestration;
        handle = handle_create(HANDLE_CALLABLE, c);
    }
    if (handle != NULL) {
        *callable_out = handle;
        return PTO_OK;
    }
    if (c != NULL)
        callable_free(c);
    return error_setf(error, PTO_ENOMEM, "there is no memory for the callable");
}

/*
 * Returns the error that the parameters point to; NULL: programs with older headers have no such
 * field.
 */
static struct pto_error *error_of(const struct pto_callable_params *params)
{
    return params != NULL && sized_is_valid(params) &&
                   params->size >=
                       offsetof(struct pto_callable_params, error) + sizeof(params->error) &&
                   sized_is_valid(params->error)
               ? params->error
               : NULL;
}

int pto_callable_create(const struct pto_callable_params *given, struct pto_callable **callable_out)
{
    struct pto_error *error = error_of(given);
    struct pto_callable_params params;
    int status = callable_check_params(given, &params, error);

    if (status >= 0 && callable_out == NULL)
        status = error_setf(error, PTO_EINVAL,
                            "there is no place for the callable: callable_out is NULL");
    return status < 0 ? status : callable_create(&params, callable_out, error);
}

/*
 * Whether the file starts like a shared object. True also for a file that cannot be read: dlopen
 * reports the error.
 */
static bool callable_is_object(const char *path)
{
    char bytes[4] = { 0 };
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t got;

    if (file < 0)
        return true;
    got = read(file, bytes, sizeof(bytes));
    close(file);
    return got < 0 || artefact_recognise(bytes, (size_t)got) == ARTEFACT_OBJECT;
}

static bool is_named_artefact(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot != NULL && strcmp(dot, ".ptoc") == 0;
}

/*
 * Loads a callable from a shared object or an artefact. dlopen gets the full path, because it
 * searches for a bare file name in other folders.
 */
int pto_callable_load(const char *path, const char *symbol, struct pto_callable **callable_out,
                      struct pto_error *error)
{
    char whole[PATH_MAX];

    if (path == NULL || callable_out == NULL || !sized_is_valid(error))
        return PTO_EINVAL;
    if (realpath(path, whole) == NULL)
        return error_setf(error, PTO_ELOAD, "%s cannot be read: %s", path, strerror(errno));
    if (!callable_is_object(whole))
        return load_artefact(path, symbol, callable_out, error);
    if (is_named_artefact(path)) /* mutation: any-object */
        return error_setf(
            error, PTO_EFORMAT,
            "%s is a shared object, not an artefact as its name promises, and nothing of "
            "it was run; build it again, or rename it",
            path);
    return callable_load_object(path, whole, symbol, callable_out, error);
}

static int load_artefact(const char *path, const char *symbol, struct pto_callable **callable_out,
                         struct pto_error *error)
{
    struct pto_load_options options;

    pto_load_options_init(&options);
    options.symbol = symbol;
    return pto_callable_load_file(path, &options, callable_out, error);
}

/*
 * Loads a callable from a shared object. `whole` is the full path of the object; `path`, as the
 * caller wrote it, is for messages.
 */
static int callable_load_object(const char *path, const char *whole, const char *symbol,
                                struct pto_callable **callable_out, struct pto_error *error)
{
    const struct pto_callable_params *given;
    struct pto_callable_params params;
    struct callable *c;
    void *object;
    int status;

    object = dlopen(whole, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL)
        return error_setf(error, PTO_ELOAD, "%s", dlerror());
    given = dlsym(object, symbol != NULL ? symbol : "pto_callable");
    if (given == NULL) {
        status =
            error_setf(error, PTO_ELOAD,
                       "%s has no symbol %s; export a struct pto_callable_params under that name",
                       path, symbol != NULL ? symbol : "pto_callable");
        dlclose(object);
        return status;
    }
    if (callable_check_params(given, &params, NULL) < 0) {
        status = error_setf(
            error, PTO_ELOAD,
            "%s: its struct pto_callable_params is not valid; was it built for another version?",
            path);
        dlclose(object);
        return status;
    }
    status = callable_create(&params, callable_out, error);
    if (status < 0) {
        dlclose(object);
        return status;
    }
    c = handle_get(HANDLE_CALLABLE, *callable_out);
    c->object = object;
    return PTO_OK;
}

int pto_callable_destroy(struct pto_callable *callable)
{
    struct callable *c = handle_get(HANDLE_CALLABLE, callable);

    if (c == NULL)
        return PTO_EINVAL;
    if (a32_load_acquire(&c->users) != 0)
        return PTO_EBUSY;
    if (handle_destroy(HANDLE_CALLABLE, callable) != NULL) {
        register_forget_callable(c);
        callable_free(c);
    }
    return PTO_OK;
}
