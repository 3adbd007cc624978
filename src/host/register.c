/* SPDX-License-Identifier: Apache-2.0 */
/* Registration of callables on devices. */
#include "host/register.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/object.h"
#include "base/sized.h"

static struct {
    pthread_mutex_t lock;
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int register_callable(struct device *device, struct callable *c, struct pto_error *error);
static int check_headers(const struct device *device, const struct callable *c,
                         struct pto_error *error);
static struct chip_code *register_take_out(struct registration *r);
static void register_forget(struct registration *r);
static int register_load_code(struct registration *r, struct callable *c, struct pto_error *error);

static const char *register_name_of(const struct callable *c)
{
    return c->kernel_name[c->kernel_count];
}

/* ---- locks and forks ---- */

static void lock_registry(void)
{
    pthread_mutex_lock(&registry.lock);
}

static void unlock_registry(void)
{
    pthread_mutex_unlock(&registry.lock);
}

/*
 * Installs the fork handlers of the registry, after those of the table of objects, so that a fork
 * takes both locks in the right order.
 */
static void register_guard_forks(void)
{
    object_guard_forks();
    /* ignored: pthread_atfork fails only if memory is exhausted */
    (void)pthread_atfork(lock_registry, unlock_registry, unlock_registry);
}

/*
 * Locks a device. Does nothing in a forked child, where the lock may be held forever by a thread of
 * the parent, and no other thread exists.
 */
static void lock_device(struct device *device)
{
    if (*device->own_process != 0)
        pthread_mutex_lock(&device->lock);
}

static void unlock_device(struct device *device)
{
    if (*device->own_process != 0)
        pthread_mutex_unlock(&device->lock);
}

/* ---- registering and unregistering ---- */

int pto_register(struct pto_device *device_handle, struct pto_callable *callable_handle,
                 struct pto_error *error)
{
    int status;
    struct device *device = device_get(device_handle, &status);
    struct callable *c = handle_get(HANDLE_CALLABLE, callable_handle);

    if (status >= 0 && (c == NULL || !sized_is_valid(error)))
        status = PTO_EINVAL;
    if (status < 0)
        return error_setf(error, status, "%s", pto_strerror(status));
    if (c->packed != NULL)
        return register_callable(device, c, error);
    if (register_unsupported(device, c) != NULL)
        return error_setf(error, PTO_ENOSUP, "callable \"%.100s\" cannot run here: %s",
                          register_name_of(c), register_unsupported(device, c));
    return PTO_OK;
}

const char *register_unsupported(const struct device *device, const struct callable *c)
{
    const struct chip_properties *can = chip_properties(device->chip);

    if (c->packed != NULL || can->runs_functions)
        return NULL;
    return can->shares_memory ? "its code is functions of this program, which the device cannot "
                                "call; load an artefact"
                              : "its code is functions of this program, which the device, isolated "
                                "or on a card, cannot call; load an "
                                "artefact, or open the device without is_isolated";
}

static struct registration *find_registration(struct device *device, const struct callable *c)
{
    assert_either_held(&device->lock, &registry.lock);
    for (uint32_t i = 0; i < REGISTRATIONS_MAX; i++)
        if (device->registration[i].callable == c)
            return &device->registration[i];
    return NULL;
}

int pto_unregister(struct pto_device *device_handle, struct pto_callable *callable_handle)
{
    int status;
    struct device *device = device_get(device_handle, &status);
    struct callable *c = handle_get(HANDLE_CALLABLE, callable_handle);
    struct chip_code *code = NULL;
    struct registration *r;

    if (status < 0)
        return status;
    if (c == NULL)
        return PTO_EINVAL;
    if (c->packed == NULL)
        return PTO_OK;
    pthread_mutex_lock(&registry.lock);
    pthread_mutex_lock(&device->lock);
    r = find_registration(device, c);
    status = r == NULL ? PTO_EINVAL : r->users != 0 ? PTO_EBUSY : PTO_OK;
    if (status == PTO_OK)
        code = register_take_out(r);
    pthread_mutex_unlock(&device->lock);
    chip_unload(device->chip, code);
    pthread_mutex_unlock(&registry.lock);
    return status;
}

int registration_acquire(struct device *device, struct callable *callable,
                         struct registration **out, struct pto_error *error)
{
    struct registration *r = NULL;
    int status = PTO_OK;

    while (callable->packed != NULL && r == NULL && status >= 0) {
        pthread_mutex_lock(&device->lock);
        r = find_registration(device, callable);
        if (r != NULL)
            r->users++;
        pthread_mutex_unlock(&device->lock);
        /*
         * The callable is not registered. The loop repeats, because another thread may unregister
         * it again.
         */
        if (r == NULL)
            status = register_callable(device, callable, error);
    }
    *out = r;
    return status;
}

void registration_release(struct registration *registration)
{
    if (registration == NULL)
        return;
    assert_held(&registration->device->lock);
    assert(registration->users > 0);
    registration->users--;
}

void register_forget_device(struct device *device)
{
    pthread_mutex_lock(&registry.lock);
    for (uint32_t i = 0; i < REGISTRATIONS_MAX; i++)
        if (device->registration[i].callable != NULL)
            register_forget(&device->registration[i]);
    pthread_mutex_unlock(&registry.lock);
}

void register_forget_callable(struct callable *c)
{
    if (c->packed == NULL)
        return;
    pthread_mutex_lock(&registry.lock);
    while (c->packed->registered != NULL)
        register_forget(c->packed->registered);
    pthread_mutex_unlock(&registry.lock);
}

void register_count(const struct callable *c, uint32_t *objects_out, uint32_t *devices_out)
{
    pthread_mutex_lock(&registry.lock);
    *devices_out = c->packed->device_count;
    *objects_out = *devices_out != 0 ? c->packed->artefact->kernel_count + 1 : 0;
    pthread_mutex_unlock(&registry.lock);
}

/*
 * Removes a registration and returns its code, which the caller must unload. Called with the
 * registry's lock and, except in a forked child, the device's lock.
 */
static struct chip_code *register_take_out(struct registration *r)
{
    struct chip_code *code = r->code;
    struct packed *packed = r->callable->packed;
    struct registration **link = &packed->registered;

    assert_held(&registry.lock);
    while (*link != r)
        link = &(*link)->next;
    *link = r->next;
    packed->device_count--;
    *r = (struct registration){ NULL };
    return code;
}

static void register_forget(struct registration *r)
{
    struct device *device = r->device;
    struct chip_code *code;

    lock_device(device);
    code = register_take_out(r);
    unlock_device(device);
    chip_unload(device->chip, code);
}

static int check_platform(const struct device *device, const struct callable *c,
                          struct pto_error *error)
{
    const char *platform = c->packed->artefact->platform;

    if (platform == NULL || strcmp(platform, device->platform->name) == 0)
        return PTO_OK;
    return error_setf(error, PTO_ENOSUP,
                      "callable \"%.100s\" was made for %.60s, and the device is an %s; build it "
                      "for that one",
                      register_name_of(c), platform, device->platform->name);
}

static int register_callable(struct device *device, struct callable *c, struct pto_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct registration loaded = { .device = device, .callable = c };
    struct registration *r;
    int status = PTO_OK;

    pthread_once(&once, register_guard_forks);
    pthread_mutex_lock(&registry.lock);
    r = find_registration(device, c);
    if (r != NULL) /* the callable was registered already, possibly by another thread */
        goto unlock;
    r = find_registration(device, NULL);
    status = check_platform(device, c, error);
    if (status >= 0 && r == NULL)
        status = error_setf(error, PTO_EAGAIN,
                            "%d callables are registered on the device, which is the limit; "
                            "unregister one before \"%.100s\"",
                            REGISTRATIONS_MAX, register_name_of(c));
    if (status >= 0)
        status = check_headers(device, c, error);
    if (status >= 0)
        status = register_load_code(&loaded, c, error);
    if (status < 0)
        goto unlock;
    loaded.next = c->packed->registered;
    lock_device(device);
    *r = loaded;
    unlock_device(device);
    c->packed->registered = r;
    c->packed->device_count++;

unlock:
    pthread_mutex_unlock(&registry.lock);
    return status;
}

/*
 * Compares the tile library's headers of two callables. Both lists of sources are sorted.
 * PTO_ESTALE: a header differs.
 */
static int compare_headers(const struct callable *c, const struct callable *other,
                           struct pto_error *error)
{
    const struct artefact *a = c->packed->artefact, *b = other->packed->artefact;
    uint32_t i = 0, k = 0;

    while (i < a->file_count && k < b->file_count) {
        struct artefact_file mine = artefact_file_at(a, i), theirs = artefact_file_at(b, k);
        int order = artefact_order(&mine, &theirs);

        if (order == 0 && mine.is_isa && !digest_is_equal(&mine.digest, &theirs.digest)) {
            char name[100], other_name[140];

            snprintf(name, sizeof(name), "\"%.90s\"", register_name_of(c));
            snprintf(other_name, sizeof(other_name), "\"%.90s\", which is registered",
                     register_name_of(other));
            return register_refuse_header(name, &mine, other_name, &theirs.digest, error);
        }
        i += order <= 0;
        k += order >= 0;
    }
    return PTO_OK;
}

static int check_headers(const struct device *device, const struct callable *c,
                         struct pto_error *error)
{
    int status = PTO_OK;

    for (uint32_t i = 0; i < REGISTRATIONS_MAX && status >= 0; i++)
        if (device->registration[i].callable != NULL)
            status = compare_headers(c, device->registration[i].callable, error);
    return status;
}

static int register_load_code(struct registration *r, struct callable *c, struct pto_error *error)
{
    const struct packed *packed = c->packed;
    const struct artefact *a = packed->artefact;
    struct chip_kernel *kernels = calloc(a->kernel_count + 1, sizeof(*kernels));
    struct chip_program program = {
        .name = register_name_of(c),
        .mode = c->mode,
        .orchestration = { a->name, a->orchestration, a->orchestration_size },
        .entry = packed->entry != NULL ? packed->entry : a->entry,
        .config = a->config,
        .kernels = kernels,
        .kernel_count = a->kernel_count,
    };
    int status;

    assert_held(&registry.lock);
    if (kernels == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory to load \"%.100s\"",
                          register_name_of(c));
    for (uint32_t i = 0; i < a->kernel_count; i++) {
        struct artefact_kernel kernel = artefact_kernel_at(a, i);

        kernels[i] = (struct chip_kernel){ .object = { kernel.name, kernel.bytes, kernel.size },
                                           .func_id = kernel.func_id,
                                           .core_type = kernel.core };
    }
    status = chip_load(r->device->chip, &program, &r->code, error);
    free(kernels);
    return status;
}
