/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callables by id. A blob that equals that of another id is not loaded again. Callables cannot
 * change while a run is prepared.
 */
#include <string.h>

#include "base/lock.h"
#include "compat/hostlib/hostlib.h"
#include "wire/chip_callable.h"

static size_t size_of_blob(const struct chip_callable *blob);
static int callables_load(struct worker_device *d, int32_t id, const void *blob,
                          struct pto_error *error);
static void callables_share(struct worker_device *d, struct hostlib_callable *own);

/* Returns why the callable with this id cannot be changed now; NULL: it can. */
static const char *callables_find_obstacle(const struct worker_device *d, int32_t id)
{
    assert_held(&d->lock);
    if (d->device == NULL)
        return "the device is not open";
    if (id < 0 || id >= WORKER_CALLABLES_MAX)
        return "callable ids are 0 to 63";
    if (d->active != NULL)
        return "a run is prepared: finalize it first";
    return NULL;
}

int simpler_register_callable(struct worker_device *d, int32_t id, const void *blob)
{
    struct pto_error error;
    const char *obstacle;
    int status = WORKER_FAILED;

    if (d == NULL || blob == NULL)
        return WORKER_FAILED;
    pto_error_init(&error);
    pthread_mutex_lock(&d->lock);
    obstacle = callables_find_obstacle(d, id);
    if (obstacle == NULL && d->callable[id].callable != NULL)
        obstacle = "the id is in use: unregister it first";
    if (obstacle == NULL) {
        status = callables_load(d, id, blob, &error);
        obstacle = error.text;
    }
    pthread_mutex_unlock(&d->lock);
    if (status < 0)
        LOG(PTO_LOG_ERROR, "callable %d cannot be registered: %s", id, obstacle);
    return status;
}

int simpler_unregister_callable(struct worker_device *d, int32_t id)
{
    struct pto_callable *callable = NULL;
    const char *obstacle;
    bool is_shared = false;

    if (d == NULL)
        return WORKER_FAILED;
    pthread_mutex_lock(&d->lock);
    obstacle = callables_find_obstacle(d, id);
    if (obstacle == NULL) {
        callable = d->callable[id].callable;
        d->callable[id] = (struct hostlib_callable){ 0 };
        for (uint32_t i = 0; i < WORKER_CALLABLES_MAX; i++)
            is_shared = is_shared || d->callable[i].callable == callable;
        if (callable != NULL && !is_shared)
            /* cannot fail: no run is prepared, so no run uses the callable */
            (void)pto_callable_destroy(callable);
    }
    pthread_mutex_unlock(&d->lock);
    if (obstacle != NULL)
        LOG(PTO_LOG_ERROR, "callable %d cannot be unregistered: %s", id, obstacle);
    return obstacle == NULL ? 0 : WORKER_FAILED;
}

size_t get_aicpu_dlopen_count(struct worker_device *d)
{
    return d != NULL && hostlib_variant.mode == PTO_MODE_STREAM ? d->loads : 0;
}

size_t get_host_dlopen_count(struct worker_device *d)
{
    return d != NULL && hostlib_variant.mode == PTO_MODE_HOST ? d->loads : 0;
}

static int callables_load(struct worker_device *d, int32_t id, const void *blob,
                          struct pto_error *error)
{
    struct hostlib_callable own = { 0 };
    struct pto_load_options options;
    struct pto_callable_info info;
    size_t bytes = size_of_blob(blob);
    int status;

    assert_held(&d->lock);
    pto_load_options_init(&options);
    status = pto_callable_load_memory(blob, bytes, &options, &own.callable, error);
    if (status < 0)
        return status;
    pto_callable_info_init(&info);
    (void)pto_callable_info(own.callable, &info); /* cannot fail: the handle is valid */
    memcpy(own.digest, info.digest, sizeof(own.digest));
    callables_share(d, &own);
    status = pto_register(d->device, own.callable, error);
    /* if another id shares the callable, it is already registered, and this call has no effect */
    if (status < 0) {
        (void)pto_callable_destroy(own.callable);
        return status;
    }
    (void)pto_callable_info(own.callable, &info);
    own.signature = info.signature;
    own.signature_count = info.signature_count;
    d->callable[id] = own;
    d->loads++;
    LOG(PTO_LOG_INFO, "callable %d: %zu bytes, %u kernels", id, bytes, info.kernel_count);
    return PTO_OK;
}

/* Uses the callable of another id if its content is equal. */
static void callables_share(struct worker_device *d, struct hostlib_callable *own)
{
    for (uint32_t i = 0; i < WORKER_CALLABLES_MAX; i++)
        if (d->callable[i].callable != NULL &&
            memcmp(d->callable[i].digest, own->digest, sizeof(own->digest)) == 0) {
            (void)pto_callable_destroy(own->callable);
            own->callable = d->callable[i].callable;
            return;
        }
}

/*
 * The caller passes no size, so the blob's own counts are the only source. They are checked before
 * use; the loader checks the rest.
 */
static size_t size_of_blob(const struct chip_callable *blob)
{
    uint64_t end = blob->binary_size;

    for (int32_t i = 0; i < blob->child_count && i < CHIP_CALLABLE_CHILDREN_MAX; i++) {
        const struct core_callable *child =
            (const void *)((const char *)(blob + 1) + blob->child_offsets[i]);
        uint64_t child_end = (uint64_t)blob->child_offsets[i] + sizeof(*child) + child->binary_size;

        if (child_end > end)
            end = child_end;
    }
    return sizeof(*blob) + end;
}
