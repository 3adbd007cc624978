/* SPDX-License-Identifier: Apache-2.0 */
/* Remote memory access by UCX: src/net/ucx.h. */
#include "net/ucx.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/os.h"
#include "net/ucx_abi.h"

/* looks at a copy before its thread sleeps, and the steps of progress between two of them */
enum { UCX_LOOKS = 50, UCX_STEPS = 64 };

static const char library_name[] = "libucp.so.0";

static struct {
#define X(result, name, arguments) result(*name) arguments;
    UCX_FUNCTIONS(X)
#undef X
    bool is_loaded;
    unsigned major, minor;
} ucp;

/* An operation in flight. UCX uses it until it is done. */
struct ucx_op {
    struct ucx *ucx;
    bool is_done;
    ucx_status status;
};

struct ucx_memory {
    void *handle, *key;
    size_t key_bytes;
};

struct ucx {
    pthread_mutex_t lock; /* protects the worker and all that belongs to it */
    pthread_cond_t done;  /* an operation is done */
    void *context, *worker, *address;
    size_t address_bytes;
    int events, stop; /* descriptor of the worker; eventfd that ends the thread */
    bool has_thread;
    pthread_t thread;
    uint32_t peer_count;
    struct ucx_peer {
        struct ucx *ucx;
        void *ep;          /* NULL: none */
        ucx_status status; /* why it failed; 0: it has not */
        bool is_lost;
    } peer[];
};

static void *ucx_main(void *context);

/* ---- loading ---- */

static bool ucx_find_function(void *library, const char *name, void *pointer_out)
{
    void *found = dlsym(library, name);

    memcpy(pointer_out, &found, sizeof(found));
    return found != NULL;
}

/*
 * Loads the library, which stays loaded. While it is loaded it patches functions of libc, to learn
 * of memory that is unmapped, and takes the signals of crashes. The first breaks mremap with
 * MREMAP_FIXED for the whole process (UCX 1.13), so it is turned off unless the user has decided;
 * the signals are given back.
 */
static void *ucx_load_quietly(void)
{
    static const int crashes[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
    static const char hooks[] = "UCX_MEM_MMAP_HOOK_MODE";
    enum { CRASHES = sizeof(crashes) / sizeof(crashes[0]) };
    bool is_decided = getenv(hooks) != NULL || getenv("UCX_MEM_EVENTS") != NULL;
    struct sigaction before[CRASHES];
    void *library;

    for (uint32_t i = 0; i < CRASHES; i++)
        (void)sigaction(crashes[i], NULL, &before[i]);
    if (!is_decided)
        (void)setenv(hooks, "none", 1); /* mutation: ucx-hooks */
    library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!is_decided)
        (void)unsetenv(hooks);
    for (uint32_t i = 0; i < CRASHES; i++)
        (void)sigaction(crashes[i], &before[i], NULL); /* mutation: ucx-signals */
    return library;
}

static void ucx_load(void)
{
    void *library = ucx_load_quietly();
    bool has_all = library != NULL;
    unsigned release;

#define X(result, name, arguments) \
    has_all = has_all && ucx_find_function(library, #name, &ucp.name);
    UCX_FUNCTIONS(X)
#undef X
    if (has_all)
        ucp.ucp_get_version(&ucp.major, &ucp.minor, &release);
    ucp.is_loaded = has_all && ucp.major == UCX_API_MAJOR && ucp.minor >= UCX_API_MINOR;
}

int ucx_init(struct pto_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, ucx_load);
    return ucp.is_loaded
               ? PTO_OK
               : error_setf(error, PTO_ENOSUP,
                            "the backend ucx needs %s of UCX %d.%d or later, which cannot "
                            "be loaded; install the Debian package libucx0, or use the "
                            "backend tls",
                            library_name, UCX_API_MAJOR, UCX_API_MINOR);
}

void ucx_version(unsigned *major_out, unsigned *minor_out)
{
    *major_out = ucp.major;
    *minor_out = ucp.minor;
}

/* ---- open, close ---- */

static int ucx_report(struct pto_error *error, int status, const char *what, ucx_status why)
{
    return error_setf(error, status, "UCX cannot %s: %s", what, ucp.ucs_status_string(why));
}

static int ucx_make_context(struct ucx *u, const char *devices, struct pto_error *error)
{
    const struct ucx_params params = { .field_mask = UCX_PARAM_FEATURES,
                                       .features = UCX_FEATURE_RMA | UCX_FEATURE_WAKEUP };
    const char *transports = getenv("UCX_TLS");
    void *config;
    ucx_status status = ucp.ucp_config_read(NULL, NULL, &config);

    if (status != UCX_OK)
        return ucx_report(error, PTO_ESYSTEM, "read its configuration", status);
    /* Ranks that share memory do without UCX, which takes network namespaces for one host. */
    if (transports == NULL || transports[0] == '\0')
        status = ucp.ucp_config_modify(config, "TLS", "^sm");
    if (status == UCX_OK)
        status = ucp.ucp_config_modify(config, "NET_DEVICES", devices);
    if (status == UCX_OK)
        status = ucp.ucp_init_version(UCX_API_MAJOR, UCX_API_MINOR, &params, config, &u->context);
    ucp.ucp_config_release(config);
    return status == UCX_OK ? PTO_OK : ucx_report(error, PTO_ESYSTEM, "be initialised", status);
}

static int ucx_make_worker(struct ucx *u, const char *devices, struct pto_error *error)
{
    const struct ucx_worker_params params = { .field_mask = UCX_WORKER_THREAD_MODE,
                                              .thread_mode = UCX_THREAD_SERIALIZED };
    ucx_status status = ucp.ucp_worker_create(u->context, &params, &u->worker);

    if (status == UCX_OK)
        status = ucp.ucp_worker_get_efd(u->worker, &u->events);
    if (status == UCX_OK)
        status = ucp.ucp_worker_get_address(u->worker, &u->address, &u->address_bytes);
    if (status == UCX_OK)
        return PTO_OK;
    return error_setf(error, PTO_ESYSTEM, "UCX cannot use the network devices '%s': %s", devices,
                      ucp.ucs_status_string(status));
}

int ucx_open(uint32_t peer_count, const char *devices, struct ucx **ucx_out,
             struct pto_error *error)
{
    struct ucx *u = calloc(1, sizeof(*u) + peer_count * sizeof(u->peer[0]));
    int status;

    if (u == NULL)
        return PTO_ENOMEM;
    pthread_mutex_init(&u->lock, NULL);
    os_cond_init(&u->done);
    u->peer_count = peer_count;
    for (uint32_t i = 0; i < peer_count; i++)
        u->peer[i].ucx = u;
    u->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = u->stop < 0 ? error_setf(error, PTO_ESYSTEM, "no descriptor: %s", strerror(errno))
                         : ucx_make_context(u, devices, error);
    if (status >= 0)
        status = ucx_make_worker(u, devices, error);
    if (status >= 0) {
        status = os_thread_start(&u->thread, ucx_main, u);
        u->has_thread = status >= 0;
        if (status < 0)
            status = error_setf(error, PTO_ESYSTEM, "no thread can be started");
    }
    if (status < 0)
        ucx_close(u);
    else
        *ucx_out = u;
    return status;
}

void ucx_close(struct ucx *u)
{
    uint64_t one = 1;

    if (u == NULL)
        return;
    if (u->has_thread) {
        (void)!write(u->stop, &one, sizeof(one));
        (void)pthread_join(u->thread, NULL);
    }
    for (uint32_t i = 0; i < u->peer_count; i++)
        ucx_lose(u, i);
    if (u->address != NULL)
        ucp.ucp_worker_release_address(u->worker, u->address);
    if (u->worker != NULL)
        ucp.ucp_worker_destroy(u->worker);
    if (u->context != NULL)
        ucp.ucp_cleanup(u->context);
    if (u->stop >= 0)
        close(u->stop);
    pthread_cond_destroy(&u->done);
    pthread_mutex_destroy(&u->lock);
    free(u);
}

const void *ucx_address(const struct ucx *u, size_t *bytes_out)
{
    *bytes_out = u->address_bytes;
    return u->address;
}

/* ---- progress ---- */

/* Makes some progress. False: there was none to make. */
static bool ucx_progress(struct ucx *u)
{
    uint32_t steps = 0;

    assert_held(&u->lock);
    while (steps < UCX_STEPS && ucp.ucp_worker_progress(u->worker) != 0)
        steps++;
    return steps != 0;
}

static void *ucx_main(void *context)
{
    struct ucx *u = context;
    struct pollfd look[2] = { { .fd = u->events, .events = POLLIN },
                              { .fd = u->stop, .events = POLLIN } };

    for (;;) {
        bool is_idle;

        pthread_mutex_lock(&u->lock);
        is_idle = !ucx_progress(u) && ucp.ucp_worker_arm(u->worker) != UCX_BUSY;
        pthread_mutex_unlock(&u->lock);
        if (poll(look, 2, is_idle ? -1 : 0) > 0 && look[1].revents != 0)
            return NULL;
    }
}

/* Called by UCX during progress. */
static void ucx_on_done(void *request, ucx_status status, void *user_data)
{
    struct ucx_op *op = user_data;

    op->status = status;
    op->is_done = true;
    ucp.ucp_request_free(request);
    pthread_cond_broadcast(&op->ucx->done);
}

/* Notes what a call that begins an operation has returned. */
static void ucx_begin(struct ucx_op *op, void *request)
{
    if (request != NULL && (uintptr_t)request < (uintptr_t)(intptr_t)UCX_STATUS_LAST)
        return; /* in flight: ucx_on_done is called later */
    op->is_done = true;
    op->status = (ucx_status)(intptr_t)request;
}

static struct ucx_op_params ucx_params_of(struct ucx_op *op)
{
    return (struct ucx_op_params){ .field_mask = UCX_OP_CALLBACK | UCX_OP_USER_DATA,
                                   .on_done = ucx_on_done,
                                   .user_data = op };
}

/* Waits until an operation is done. False: it is not at the deadline. */
static bool ucx_await_op(struct ucx *u, struct ucx_op *op, uint64_t deadline_ns)
{
    assert_held(&u->lock);
    for (uint32_t looks = 0; !op->is_done; looks++) {
        if (ucx_progress(u) && os_now_ns() < deadline_ns)
            looks = 0;
        if (op->is_done)
            break;
        if (looks < UCX_LOOKS) { /* others may use the worker meanwhile */
            pthread_mutex_unlock(&u->lock);
            sched_yield();
            pthread_mutex_lock(&u->lock);
            continue;
        }
        (void)ucp.ucp_worker_signal(u->worker); /* the thread arms it anew */
        if (!os_cond_wait(&u->done, &u->lock, deadline_ns))
            return op->is_done;
    }
    return true;
}

/* ---- peers ---- */

/* Called by UCX during progress, when the connection to a peer has failed. */
static void ucx_on_error(void *context, void *ep, ucx_status status)
{
    struct ucx_peer *peer = context;

    (void)ep;
    peer->status = status;
}

int ucx_connect(struct ucx *u, uint32_t peer, const void *address)
{
    const struct ucx_ep_params params = {
        .field_mask = UCX_EP_ADDRESS | UCX_EP_ERROR_MODE | UCX_EP_ERROR_HANDLER,
        .address = address,
        .error_mode = UCX_ERROR_MODE_PEER,
        .on_error = ucx_on_error,
        .context = &u->peer[peer],
    };
    ucx_status status;

    pthread_mutex_lock(&u->lock);
    status = ucp.ucp_ep_create(u->worker, &params, &u->peer[peer].ep);
    if (status != UCX_OK) {
        u->peer[peer].ep = NULL;
        u->peer[peer].status = status;
    }
    pthread_mutex_unlock(&u->lock);
    return status == UCX_OK ? PTO_OK : PTO_EPEER;
}

/* Whether operations on the connection can begin. */
static bool ucx_is_up(const struct ucx_peer *peer)
{
    return peer->ep != NULL && !peer->is_lost && peer->status == UCX_OK;
}

/* Closes a connection. UCX then ends what is in flight, and uses no memory of it any more. */
static void ucx_close_ep(struct ucx *u, struct ucx_peer *peer)
{
    struct ucx_op op = { .ucx = u };
    struct ucx_op_params params = ucx_params_of(&op);
    void *ep = peer->ep;

    assert_held(&u->lock);
    peer->is_lost = true;
    peer->ep = NULL;
    if (ep == NULL)
        return;
    params.field_mask |= UCX_OP_FLAGS;
    params.flags = UCX_CLOSE_FORCE;
    ucx_begin(&op, ucp.ucp_ep_close_nbx(ep, &params));
    while (!op.is_done) /* this waits for no peer */
        (void)ucx_progress(u);
    pthread_cond_broadcast(&u->done);
}

void ucx_lose(struct ucx *u, uint32_t peer)
{
    pthread_mutex_lock(&u->lock);
    ucx_close_ep(u, &u->peer[peer]);
    pthread_mutex_unlock(&u->lock);
}

const char *ucx_failure(struct ucx *u, uint32_t peer)
{
    ucx_status status;

    pthread_mutex_lock(&u->lock);
    status = u->peer[peer].status;
    pthread_mutex_unlock(&u->lock);
    return status != UCX_OK ? ucp.ucs_status_string(status) : NULL;
}

/* Waits for an operation on a peer, and for a second one unless NULL. */
static int ucx_finish(struct ucx *u, struct ucx_peer *peer, struct ucx_op *first,
                      struct ucx_op *second, uint64_t deadline_ns)
{
    bool is_late = !ucx_await_op(u, first, deadline_ns) || !ucx_await_op(u, second, deadline_ns);

    if (is_late) /* UCX must not use the caller's memory after the return */
        ucx_close_ep(u, peer);
    while (!first->is_done || !second->is_done)
        (void)ucx_progress(u);
    if (is_late)
        return PTO_ETIMEOUT;
    if (first->status == UCX_OK && second->status == UCX_OK)
        return PTO_OK;
    if (peer->status == UCX_OK)
        peer->status = first->status != UCX_OK ? first->status : second->status;
    return PTO_EPEER;
}

/* ---- memory ---- */

struct ucx_memory *ucx_register(struct ucx *u, void *at, uint64_t bytes)
{
    const struct ucx_map_params params = { .field_mask = UCX_MAP_ADDRESS | UCX_MAP_LENGTH,
                                           .address = at,
                                           .length = bytes };
    struct ucx_memory *memory = calloc(1, sizeof(*memory));
    ucx_status status;

    if (memory == NULL)
        return NULL;
    pthread_mutex_lock(&u->lock);
    status = ucp.ucp_mem_map(u->context, &params, &memory->handle);
    if (status == UCX_OK) {
        status = ucp.ucp_rkey_pack(u->context, memory->handle, &memory->key, &memory->key_bytes);
        if (status != UCX_OK)
            (void)ucp.ucp_mem_unmap(u->context, memory->handle);
    }
    pthread_mutex_unlock(&u->lock);
    if (status == UCX_OK)
        return memory;
    free(memory);
    return NULL;
}

void ucx_unregister(struct ucx *u, struct ucx_memory *memory)
{
    pthread_mutex_lock(&u->lock);
    ucp.ucp_rkey_buffer_release(memory->key);
    (void)ucp.ucp_mem_unmap(u->context, memory->handle);
    pthread_mutex_unlock(&u->lock);
    free(memory);
}

const void *ucx_memory_key(const struct ucx_memory *memory, size_t *bytes_out)
{
    *bytes_out = memory->key_bytes;
    return memory->key;
}

void *ucx_key_make(struct ucx *u, uint32_t peer, const void *bytes)
{
    void *key = NULL;

    pthread_mutex_lock(&u->lock);
    if (ucx_is_up(&u->peer[peer]) &&
        ucp.ucp_ep_rkey_unpack(u->peer[peer].ep, bytes, &key) != UCX_OK)
        key = NULL;
    pthread_mutex_unlock(&u->lock);
    return key;
}

void ucx_key_free(struct ucx *u, void *key)
{
    pthread_mutex_lock(&u->lock);
    ucp.ucp_rkey_destroy(key);
    pthread_mutex_unlock(&u->lock);
}

/* ---- copies ---- */

int ucx_put(struct ucx *u, const struct ucx_copy *copy, const void *from)
{
    struct ucx_peer *peer = &u->peer[copy->peer];
    struct ucx_op put = { .ucx = u }, flush = { .ucx = u };
    struct ucx_op_params put_params = ucx_params_of(&put), flush_params = ucx_params_of(&flush);
    int status = PTO_EAGAIN;

    pthread_mutex_lock(&u->lock);
    if (ucx_is_up(peer)) {
        ucx_begin(&put, ucp.ucp_put_nbx(peer->ep, from, copy->bytes, copy->address, copy->key,
                                        &put_params));
        ucx_begin(&flush, ucp.ucp_ep_flush_nbx(peer->ep, &flush_params));
        status = ucx_finish(u, peer, &put, &flush, copy->deadline_ns);
    }
    pthread_mutex_unlock(&u->lock);
    return status;
}

int ucx_get(struct ucx *u, const struct ucx_copy *copy, void *to)
{
    struct ucx_peer *peer = &u->peer[copy->peer];
    struct ucx_op get = { .ucx = u };
    struct ucx_op_params params = ucx_params_of(&get);
    int status = PTO_EAGAIN;

    pthread_mutex_lock(&u->lock);
    if (ucx_is_up(peer)) {
        ucx_begin(&get,
                  ucp.ucp_get_nbx(peer->ep, to, copy->bytes, copy->address, copy->key, &params));
        status = ucx_finish(u, peer, &get, &get, copy->deadline_ns);
    }
    pthread_mutex_unlock(&u->lock);
    return status;
}
