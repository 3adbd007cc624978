/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes cards. Close undoes each step of open without disturbing other users of the
 * vendor's libraries in the process: open takes one reference to ACL and one to the device. Driver
 * threads are bound to the device's context, which takes no reference; threads of the user never
 * are.
 */
#include "cann/cann.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"

enum {
    ALIGN = 1024,
    ENGINE_MIN = 16 << 20, /* minimum memory for slots, edges and regions of the graph */
    ENGINE_MAX = 256 << 20,
    RESETS = 3,
    DRAIN_MS = 1000,
};

enum { MESSAGE_SHOWN = 200 }; /* maximum number of bytes of the vendor's message in an error */

static int cann_open(const struct chip_params *params, struct chip **chip_out,
                     struct pto_error *error);
static bool cann_close(struct chip *chip);
static bool cann_is_builder(struct chip *chip);

static const struct chip_device_ops device_ops = {
    .open = cann_open,
    .close = cann_close,
    .is_builder = cann_is_builder,
};

const struct chip_backend cann_backend = {
    .name = "cann",
    .device = &device_ops,
    .memory = &cann_memory_ops,
    .runs = &cann_run_ops,
    .windows = &cann_window_ops,
};

/* ---- vendor's codes, and lost devices ---- */

/*
 * The only function that marks a device lost. It stores the reason under the lock before it sets
 * the flag. So a thread that sees the flag and then takes the lock finds the reason.
 */
static void set_lost(struct cann *c, const char *text)
{
    pthread_mutex_lock(&c->driver_thread_lock);
    if (c->trouble[0] == '\0')
        snprintf(c->trouble, sizeof(c->trouble), "%s", text);
    a32_store_relaxed(&c->is_lost, 1);
    pthread_mutex_unlock(&c->driver_thread_lock);
}

int cann_lose(struct cann *c, struct pto_error *error, const char *format, ...)
{
    char text[PTO_ERROR_TEXT_MAX];
    va_list values;

    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    set_lost(c, text);
    return error_setf(error, PTO_ELOST, "%s", text);
}

int cann_refuse(struct cann *c, struct pto_error *error)
{
    char text[PTO_ERROR_TEXT_MAX];

    pthread_mutex_lock(&c->driver_thread_lock);
    snprintf(text, sizeof(text), "%s", c->trouble);
    pthread_mutex_unlock(&c->driver_thread_lock);
    return error_setf(error, PTO_ELOST, "the device is lost: %.400s", text);
}

/*
 * Appends the beginning of the vendor's message to an error, on one line; its stack traces are only
 * in the log.
 */
static void add_message(char text[PTO_ERROR_TEXT_MAX], const char *message)
{
    static const char text_prefix[] = "; the vendor says: ";
    size_t length = strlen(text), last;

    while (*message != '\0' && (unsigned char)*message <= ' ')
        message++;
    if (*message == '\0' || length + sizeof(text_prefix) + 1 >= PTO_ERROR_TEXT_MAX)
        return;
    memcpy(text + length, text_prefix, sizeof(text_prefix));
    length += sizeof(text_prefix) - 1;
    last = length + MESSAGE_SHOWN < PTO_ERROR_TEXT_MAX - 1 ? length + MESSAGE_SHOWN
                                                           : PTO_ERROR_TEXT_MAX - 1;
    for (; *message != '\0' && length < last && strncmp(message, "TraceBack", 9) != 0; message++)
        if ((unsigned char)*message > ' ')
            text[length++] = *message;
        else if (text[length - 1] != ' ')
            text[length++] = ' ';
    text[text[length - 1] == ' ' ? length - 1 : length] = '\0';
}

static int error_set_from_code(struct cann *c, struct pto_error *error, const char *call, int code,
                               const char *doing, bool is_lost)
{
    int status = vendor_status(code);
    char text[PTO_ERROR_TEXT_MAX];

    snprintf(text, sizeof(text), "card %u: %s answered %d (%s) %s", c->card, call, code,
             vendor_meaning(code), doing);
    add_message(text, vendor_message(call, code));
    if (is_lost || status == PTO_ELOST)
        set_lost(c, text);
    return error_setf(error, status, "%s", text);
}

int cann_error_set(struct cann *c, struct pto_error *error, const char *call, int code,
                   const char *doing)
{
    return error_set_from_code(c, error, call, code, doing, false);
}

int cann_lose_by(struct cann *c, struct pto_error *error, const char *call, int code,
                 const char *doing)
{
    return error_set_from_code(c, error, call, code, doing, true);
}

void cann_keep(struct cann *c)
{
    a32_add_relaxed(&c->users, 1); /* relaxed: the calling thread already holds a reference */
}

/* ---- device memory for the backend itself ---- */

int cann_take(struct cann *c, uint64_t bytes, uint64_t *addr_out)
{
    void *at = NULL;
    int code = VENDOR_CALL(&c->vendor, aclrtMalloc, &at, bytes, VENDOR_MALLOC_HUGE_FIRST);

    if (code == ACL_SUCCESS)
        *addr_out = (uint64_t)(uintptr_t)at;
    return code;
}

int cann_give_back(struct cann *c, uint64_t addr)
{
    int code =
        addr != 0 ? VENDOR_CALL(&c->vendor, aclrtFree, (void *)(uintptr_t)addr) : ACL_SUCCESS;

    if (code != ACL_SUCCESS)
        /* relaxed: cann_close reads the flag when no driver thread works */
        a32_store_relaxed(&c->is_untidy, 1);
    return code;
}

int cann_upload(struct cann *c, uint64_t addr, const void *from, uint64_t bytes)
{
    return VENDOR_CALL(&c->vendor, aclrtMemcpy, (void *)(uintptr_t)addr, bytes, from, bytes,
                       VENDOR_HOST_TO_DEVICE);
}

int cann_download(struct cann *c, uint64_t addr, void *to, uint64_t bytes)
{
    return VENDOR_CALL(&c->vendor, aclrtMemcpy, to, bytes, (const void *)(uintptr_t)addr, bytes,
                       VENDOR_DEVICE_TO_HOST);
}

/* ---- opening a card ---- */

/*
 * Sets the level of the vendor's log, which applies from the card's first context on. It is
 * PTO_CANN_LOG_LEVEL; otherwise ASCEND_GLOBAL_LOG_LEVEL, which the vendor reads itself; otherwise
 * warnings.
 */
static int set_log_level(struct cann *c, struct pto_error *error)
{
    const char *text = getenv("PTO_CANN_LOG_LEVEL");
    int32_t level = VENDOR_LOG_WARNING;

    if (text != NULL && text[0] != '\0') {
        level = text[1] == '\0' ? text[0] - '0' : -1;
        if (level < 0 || level > VENDOR_LOG_NONE)
            return error_setf(error, PTO_EINVAL,
                              "PTO_CANN_LOG_LEVEL is %.40s; set it to 0 (debug), 1 (information), "
                              "2 (warnings), 3 (errors) or 4 (nothing)",
                              text);
    } else if (getenv("ASCEND_GLOBAL_LOG_LEVEL") != NULL) {
        return PTO_OK;
    }
    if (c->vendor.dlog_setlevel != NULL) /* the result is ignored: a card works with any level */
        (void)VENDOR_CALL(&c->vendor, dlog_setlevel, VENDOR_LOG_ALL, level, 0);
    return PTO_OK;
}

/*
 * Initialises ACL. If the call returns 100002, ACL was initialised before; this call has
 * nevertheless taken a reference, which close releases.
 */
static int ready_acl(struct cann *c, struct pto_error *error)
{
    int code = VENDOR_CALL(&c->vendor, aclInit, NULL);

    if (code != ACL_SUCCESS && code != ACL_REPEAT_INIT)
        return cann_error_set(c, error, "aclInit", code, "while opening the device");
    c->has_acl = true;
    return PTO_OK;
}

static int ready_device(struct cann *c, struct pto_error *error)
{
    struct vendor *v = &c->vendor;
    int code = VENDOR_CALL(v, aclrtSetDevice, (int32_t)c->card);

    if (code != ACL_SUCCESS)
        return cann_error_set(c, error, "aclrtSetDevice", code, "while opening the device");
    c->has_device = true;
    code = VENDOR_CALL(v, aclrtGetCurrentContext, &c->context);
    return code == ACL_SUCCESS ? PTO_OK
                               : cann_error_set(c, error, "aclrtGetCurrentContext", code,
                                                "while opening the device");
}

static int check_soc(struct cann *c, struct pto_error *error)
{
    uint64_t begin_ns = vendor_begin(&c->vendor, "aclrtGetSocName", 0);
    const char *name = c->vendor.aclrtGetSocName();

    (void)vendor_end(&c->vendor, "aclrtGetSocName", begin_ns, ACL_SUCCESS, NULL, 0);
    vendor_note(&c->vendor, "soc", "%s", name != NULL ? name : "unknown");
    for (const char *const *soc = c->generation->soc; name != NULL && *soc != NULL; soc++)
        if (strncmp(name, *soc, strlen(*soc)) == 0)
            return PTO_OK;
    return error_setf(error, PTO_ENOSUP, "card %u is %s, which is not a chip of generation %s",
                      c->card, name != NULL ? name : "unknown", c->generation->name);
}

static int make_streams(struct cann *c, struct pto_error *error)
{
    struct vendor *v = &c->vendor;
    uint32_t cubes = 0, vectors = 0, most;
    int code = VENDOR_CALL(v, aclrtCreateStream, &c->stream);

    if (code == ACL_SUCCESS)
        code = VENDOR_CALL(v, aclrtCreateStream, &c->core_stream);
    if (code != ACL_SUCCESS)
        return cann_error_set(c, error, "aclrtCreateStream", code, "while opening the device");
    code = VENDOR_CALL(v, aclrtGetStreamResLimit, c->core_stream, VENDOR_RES_CUBE, &cubes);
    if (code == ACL_SUCCESS)
        code = VENDOR_CALL(v, aclrtGetStreamResLimit, c->core_stream, VENDOR_RES_VECTOR, &vectors);
    if (code != ACL_SUCCESS)
        return cann_error_set(c, error, "aclrtGetStreamResLimit", code, "while opening the device");
    vendor_note(v, "cores", "%u cubes, %u vectors", cubes, vectors);
    most = cubes < vectors / 2 ? cubes : vectors / 2;
    if (c->base.properties.clusters > most)
        return error_setf(error, PTO_EINVAL, "%u clusters are too many: card %u has %u",
                          c->base.properties.clusters, c->card, most);
    return PTO_OK;
}

/*
 * Finds the address by which cores of a cluster signal each other. The newer generation has none,
 * and the vendor's call returns an error. Without the address, only kernels that signal in this way
 * fail.
 */
static int find_sync(struct cann *c, struct pto_error *error)
{
    struct vendor *v = &c->vendor;
    int code = ACL_SUCCESS, status;
    void *at = NULL;

    if (v->aclrtGetHardwareSyncAddr != NULL)
        code = VENDOR_CALL(v, aclrtGetHardwareSyncAddr, &at);
    status = vendor_status(code);
    c->sync = code == ACL_SUCCESS ? (uint64_t)(uintptr_t)at : 0;
    vendor_note(v, "route", "sync %#llx", (unsigned long long)c->sync);
    return code == ACL_SUCCESS || status == PTO_ENOSUP || status == PTO_EINVAL
               ? PTO_OK
               : cann_error_set(c, error, "aclrtGetHardwareSyncAddr", code,
                                "while opening the device");
}

/* Reserves memory for the graph and for intermediate tensors, once: runs allocate nothing. */
static int reserve_memory(struct cann *c, struct pto_error *error)
{
    size_t left = 0, total = 0;
    int code = VENDOR_CALL(&c->vendor, aclrtGetMemInfo, VENDOR_HBM, &left, &total);

    if (code != ACL_SUCCESS)
        return cann_error_set(c, error, "aclrtGetMemInfo", code, "while opening the device");
    c->heap_bytes = c->memory_max < left / 2 ? c->memory_max : left / 2;
    c->heap_bytes = c->heap_bytes / ALIGN * ALIGN;
    c->engine_bytes =
        c->heap_bytes / 4 > ENGINE_MAX ? ENGINE_MAX : c->heap_bytes / 4 / ALIGN * ALIGN;
    if (c->engine_bytes < ENGINE_MIN)
        c->engine_bytes = ENGINE_MIN;
    code = cann_take(c, c->engine_bytes, &c->engine);
    if (code == ACL_SUCCESS)
        code = cann_take(c, c->heap_bytes, &c->heap);
    if (code == ACL_SUCCESS)
        code = cann_take(c, sizeof(struct board), &c->board);
    if (code == ACL_SUCCESS)
        code = cann_take(c, MESSAGE_BYTES, &c->message);
    for (uint32_t i = 0; i < BOARD_RUNS && code == ACL_SUCCESS; i++)
        code = cann_take(c, MESSAGE_BYTES, &c->run[i].message);
    if (code != ACL_SUCCESS)
        return cann_error_set(c, error, "aclrtMalloc", code,
                              "while allocating the engine's memory");
    return PTO_OK;
}

/*
 * Makes the events of each run, by which the host waits for one run while the next run is queued on
 * the same streams.
 */
static int make_events(struct cann *c, struct pto_error *error)
{
    int code = ACL_SUCCESS;

    for (uint32_t i = 0; i < 2 * BOARD_RUNS && code == ACL_SUCCESS; i++) {
        struct cann_run *r = &c->run[i / 2];

        code = VENDOR_CALL(&c->vendor, aclrtCreateEventExWithFlag,
                           i % 2 == 0 ? &r->ended : &r->dismissed,
                           VENDOR_EVENT_SYNC | VENDOR_EVENT_PROGRESS);
    }
    return code == ACL_SUCCESS ? PTO_OK
                               : cann_error_set(c, error, "aclrtCreateEventExWithFlag", code,
                                                "while opening the device");
}

static void cann_set_up(struct cann *c, const struct chip_params *params)
{
    c->base = (struct chip){ .backend = &cann_backend,
                             .properties = { .backend = cann_backend.name,
                                             .clusters = params->clusters,
                                             .aic_count = PTO_CLUSTER_AICS * params->clusters,
                                             .aiv_count = PTO_CLUSTER_AIVS * params->clusters,
                                             .workers = 1,
                                             .takes_next = true,
                                             .has_graphs = true,
                                             .has_recorder = true,
                                             .records_tasks = true,
                                             .has_guards = true,
                                             .ends_stalls = true } };
    c->generation = cann_generation_find(params->generation);
    c->card = params->card;
    c->memory_max = params->memory_max;
    a32_store_relaxed(&c->users, 1); /* no other thread has the struct yet */
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->driver_thread_lock, NULL);
    pthread_mutex_init(&c->memory_lock, NULL);
    pthread_mutex_init(&c->guard_lock, NULL);
    pthread_mutex_init(&c->request_lock, NULL);
}

struct opening {
    int status;
    struct pto_error error;
};

static void open_on_driver_thread(struct cann *c, void *arg)
{
    struct opening *o = arg;

    vendor_note(&c->vendor, "stage", "card");
    o->status = set_log_level(c, &o->error);
    if (o->status >= 0)
        o->status = ready_acl(c, &o->error);
    if (o->status >= 0)
        o->status = ready_device(c, &o->error);
    if (o->status >= 0)
        o->status = check_soc(c, &o->error);
    if (o->status >= 0)
        o->status = make_streams(c, &o->error);
    if (o->status >= 0)
        o->status = find_sync(c, &o->error);
    if (o->status >= 0)
        o->status = make_events(c, &o->error);
    if (o->status >= 0)
        o->status = reserve_memory(c, &o->error);
    if (o->status >= 0)
        vendor_note(&c->vendor, "stage", "programs");
    if (o->status >= 0)
        o->status = cann_bring_up(c, &o->error);
    if (o->status >= 0 && getenv("PTO_CANN_MEET") != NULL) {
        vendor_note(&c->vendor, "stage", "cores");
        o->status = cann_meet(c, &o->error);
    }
}

static bool make_images(struct cann *c)
{
    bool is_made = true;

    for (uint32_t i = 0; i < BOARD_RUNS; i++) {
        c->run[i].image = calloc(1, MESSAGE_BYTES);
        is_made = is_made && c->run[i].image != NULL;
    }
    return is_made;
}

static int cann_open(const struct chip_params *params, struct chip **chip_out,
                     struct pto_error *error)
{
    struct cann *c = calloc(1, sizeof(*c));
    struct opening opening;
    int status;

    pto_error_init(&opening.error);
    if (c == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for a chip");
    cann_set_up(c, params);
    status = !make_images(c) ? error_setf(error, PTO_ENOMEM, "there is no memory for a chip")
             : c->generation == NULL
                 ? error_setf(error, PTO_ENOSUP, "there is no generation %s", params->generation)
                 : vendor_load(&c->vendor, error);
    if (status >= 0)
        status = vendor_claim(error);
    if (status >= 0) {
        status = driver_thread_call(c, open_on_driver_thread, &opening, error);
        if (status >= 0 && opening.status < 0)
            status = error_setf(error, opening.status, "%s", opening.error.text);
    }
    if (status < 0) {
        (void)cann_close(&c->base);
        return status;
    }
    *chip_out = &c->base;
    return PTO_OK;
}

/* ---- closing a card ---- */

/* Releases the memory and the events of a run. Not 0: something was not released. */
static int cann_release_run(struct cann *c, const struct cann_run *r)
{
    int failed = cann_give_back(c, r->ranges) | cann_give_back(c, r->message);

    if (r->ended != NULL)
        failed |= VENDOR_CALL(&c->vendor, aclrtDestroyEvent, r->ended);
    if (r->dismissed != NULL)
        failed |= VENDOR_CALL(&c->vendor, aclrtDestroyEvent, r->dismissed);
    return failed;
}

/* Undoes the steps of open, the last one first. False: something was not released. */
static bool close_healthy(struct cann *c)
{
    struct vendor *v = &c->vendor;
    int failed = 0;

    cann_drop_graphs(c);
    if (c->function != NULL)
        failed |= cann_call(c, BOARD_CLOSE, 0, NULL, 0, NULL, NULL);
    if (c->core_stream != NULL)
        failed |= VENDOR_CALL(v, aclrtDestroyStream, c->core_stream);
    if (c->stream != NULL)
        failed |= VENDOR_CALL(v, aclrtDestroyStream, c->stream);
    if (c->core_binary != NULL)
        failed |= VENDOR_CALL(v, aclrtBinaryUnLoad, c->core_binary);
    if (c->core_program != NULL && v->rtDevBinaryUnRegister != NULL)
        failed |= VENDOR_CALL(v, rtDevBinaryUnRegister, c->core_program);
    if (c->binary != NULL)
        failed |= VENDOR_CALL(v, aclrtBinaryUnLoad, c->binary);
    failed |= cann_release_memory(c);
    for (uint32_t i = 0; i < BOARD_RUNS; i++)
        failed |= cann_release_run(c, &c->run[i]);
    failed |= cann_give_back(c, c->record);
    failed |= cann_give_back(c, c->message);
    failed |= cann_give_back(c, c->board);
    failed |= cann_give_back(c, c->heap);
    failed |= cann_give_back(c, c->engine);
    return failed == 0 &&
           a32_load_relaxed(&c->is_untidy) == 0 && /* relaxed: no driver thread works any more */
           VENDOR_CALL(v, aclrtResetDevice, (int32_t)c->card) == ACL_SUCCESS;
}

/*
 * Whether the card works again after a reset: tries the smallest operations that fail on a broken
 * card.
 */
static bool probe(struct cann *c)
{
    struct vendor *v = &c->vendor;
    void *stream = NULL, *memory = NULL;
    bool is_well = VENDOR_CALL(v, aclrtSetDevice, (int32_t)c->card) == ACL_SUCCESS;

    if (!is_well)
        return false;
    is_well = VENDOR_CALL(v, aclrtCreateStream, &stream) == ACL_SUCCESS;
    if (is_well)
        is_well = VENDOR_CALL(v, aclrtDestroyStream, stream) == ACL_SUCCESS;
    if (is_well)
        is_well = VENDOR_CALL(v, aclrtMalloc, &memory, 64, VENDOR_MALLOC_HUGE_FIRST) == ACL_SUCCESS;
    if (is_well)
        is_well = VENDOR_CALL(v, aclrtFree, memory) == ACL_SUCCESS;
    (void)VENDOR_CALL(v, aclrtResetDevice, (int32_t)c->card);
    return is_well;
}

/*
 * Closes a card that has failed. Nothing is released piece by piece, because such calls may hang. A
 * forced reset ends all that was on the card; a plain reset after it would release one reference
 * too many. Returns whether the card works again.
 */
static bool close_lost(struct cann *c)
{
    struct vendor *v = &c->vendor;

    for (uint32_t i = 0; i < RESETS; i++) {
        if (i != 0)
            (void)VENDOR_CALL(v, aclrtSetDevice, (int32_t)c->card);
        /* The result is ignored, because a card that has failed may return success. */
        (void)VENDOR_WAIT(v, DRAIN_MS, aclrtSynchronizeDeviceWithTimeout, DRAIN_MS);
        if (VENDOR_CALL(v, aclrtResetDeviceForce, (int32_t)c->card) == ACL_SUCCESS && probe(c))
            return true;
    }
    return false;
}

static void close_on_driver_thread(struct cann *c, void *arg)
{
    bool is_well = true;
    uint64_t left = 0;

    (void)arg;
    if (c->has_device) {
        if (cann_is_lost(c) || !close_healthy(c)) /* mutation: rule-destroys-busy */
            is_well = close_lost(c);
        c->has_device = false;
    }
    if (c->has_acl && is_well) /* mutation: keeps-reference */
        (void)VENDOR_CALL(&c->vendor, aclFinalizeReference, &left);
    c->has_acl = false;
}

/*
 * Closes the card. A release that hangs is given up like other calls, and then the card is reset.
 */
static bool cann_close(struct chip *chip)
{
    struct cann *c = cann_of(chip);

    cann_build_close(c);
    for (uint32_t i = 0; i < 2 && (c->has_device || c->has_acl); i++)
        if (driver_thread_call(c, close_on_driver_thread, NULL, NULL) >= 0)
            break;
    driver_thread_end_all(c);
    cann_drop_description(c);
    cann_release(c);
    return true;
}

/*
 * Whether the calling thread runs an orchestration for this card. Orchestrations run on the
 * builder, a simulated chip, and only the builder knows that; the lock keeps another thread from
 * closing the builder.
 */
static bool cann_is_builder(struct chip *chip)
{
    struct cann *c = cann_of(chip);
    bool is_builder;

    pthread_mutex_lock(&c->request_lock);
    is_builder = c->build.builder != NULL && chip_is_builder(c->build.builder);
    pthread_mutex_unlock(&c->request_lock);
    return is_builder;
}

void cann_release(struct cann *c)
{
    if (a32_sub_acq_rel(&c->users, 1) != 1)
        return;
    vendor_unload(&c->vendor);
    free(c->allocation);
    free(c->executor.bytes);
    free(c->recorded);
    /* lists the graphs of a lost card, whose memory the reset has freed */
    while (c->dropped != NULL) {
        struct chip_graph *next = c->dropped->next;

        free(c->dropped);
        c->dropped = next;
    }
    for (uint32_t i = 0; i < BOARD_RUNS; i++)
        free(c->run[i].image);
    pthread_mutex_destroy(&c->request_lock);
    free(c->build.stage);
    pthread_mutex_destroy(&c->driver_thread_lock);
    pthread_mutex_destroy(&c->memory_lock);
    pthread_mutex_destroy(&c->guard_lock);
    pthread_mutex_destroy(&c->lock);
    free(c);
}
