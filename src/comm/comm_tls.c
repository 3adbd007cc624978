/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing of the backend for ranks on several hosts, and its blocks:
 * src/comm/comm_tls.h.
 */
#include "comm/comm_tls.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "comm/meet.h"
#include "comm/tls_far.h"
#include "host/host.h"

static int tls_open(const struct comm_request *request, struct comm **comm_out,
                    struct pto_error *error);
static void tls_close(struct comm *comm);
static bool tls_is_elsewhere(const struct comm *comm, uint32_t rank);
static int tls_open_domain(struct comm *comm, const struct domain_request *request,
                           struct domain **domain_out, struct pto_error *error);
static int tls_close_domain(struct domain *domain, uint64_t deadline_ns, struct pto_error *error);
static bool tls_is_suspect(struct comm *comm, uint32_t rank);
static int tls_put(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
                   uint64_t bytes);
static int tls_get(struct domain *domain, uint32_t rank, uint64_t offset, void *to, uint64_t bytes);
static int tls_quiet(struct domain *domain);
static int tls_signal(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                      int32_t *before_out);
static int tls_barrier(struct domain *domain, uint64_t timeout_ns, struct pto_error *error);
static int tls_alloc(struct shared *s, uint64_t bytes, uint64_t *offset_out, char **at_out);
static void tls_free(struct shared *s, uint64_t offset, uint64_t bytes, char *at, bool is_free);

const struct comm_ops comm_tls_ops = {
    .name = "tls",
    .has_addresses = true,
    .is_elsewhere = tls_is_elsewhere,
    .open = tls_open,
    .close = tls_close,
    .abort = shared_abort,
    .is_lost = shared_is_lost,
    .is_suspect = tls_is_suspect,
    .open_domain = tls_open_domain,
    .close_domain = tls_close_domain,
    .keep = shared_keep,
    .put = tls_put,
    .get = tls_get,
    .quiet = tls_quiet,
    .signal = tls_signal,
    .wait = shared_wait,
    .barrier = tls_barrier,
};

static const struct shared_memory tls_memory = {
    .alloc = tls_alloc,
    .free = tls_free,
    .map = comm_shm_map,
    .unmap = comm_shm_unmap,
    .copy = comm_shm_copy,
    .fence = os_fence_processes,
};

/* ---- open, close ---- */

static void tls_lose(void *context, uint32_t rank)
{
    struct tls *t = context;

    tls_send_lose(t, rank);
    if (t->shm.shared.own != NULL)
        shared_rank_died(&t->shm.shared, rank);
}

static void tls_destroy(struct tls *t)
{
    uint32_t count = t->shm.shared.base.rank_count;

    for (uint32_t i = 0; i < count && t->is_remote != NULL; i++)
        if (t->is_remote[i] && t->shm.shared.head[i] != NULL)
            (void)munmap(t->shm.shared.head[i], comm_shm_head_bytes());
    while (t->blocks != NULL) {
        struct tls_block *b = t->blocks;

        t->blocks = b->next;
        free(b);
    }
    tls_far_free(t);
    free(t->host);
    free(t->is_remote);
    free(t->local);
    pthread_mutex_destroy(&t->far_lock);
    pthread_mutex_destroy(&t->block_lock);
    pthread_mutex_destroy(&t->call_lock);
    pthread_cond_destroy(&t->answered);
    comm_shm_fini(&t->shm);
    free(t);
}

static int tls_create(const struct comm_request *request, struct tls **tls_out)
{
    struct tls *t = calloc(1, sizeof(*t));
    int status;

    if (t == NULL)
        return PTO_ENOMEM;
    pthread_mutex_init(&t->block_lock, NULL);
    pthread_mutex_init(&t->call_lock, NULL);
    pthread_mutex_init(&t->far_lock, NULL);
    os_cond_init(&t->answered);
    t->mesh.poller = t->mesh.stop = t->mesh.gate.listener = -1;
    status = comm_shm_init(&t->shm, request, &comm_tls_ops, &tls_memory);
    t->shm.shared.remote = &tls_send_remote;
    t->host = calloc(request->rank_count, sizeof(*t->host));
    t->is_remote = calloc(request->rank_count, sizeof(*t->is_remote));
    t->local = calloc(request->rank_count, sizeof(*t->local));
    if (status < 0 || t->host == NULL || t->is_remote == NULL || t->local == NULL) {
        tls_destroy(t);
        return PTO_ENOMEM;
    }
    *tls_out = t;
    return PTO_OK;
}

static char *map_nothing(uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return at != MAP_FAILED ? at : NULL;
}

/* Maps the heads of ranks of this host, and allocates mirrors for heads of the others. */
static int tls_make_heads(struct tls *t, struct pto_error *error)
{
    struct shared *s = &t->shm.shared;
    uint32_t remote_count = 0;
    int status = PTO_OK;

    for (uint32_t i = 0; i < s->base.rank_count && status >= 0; i++) {
        t->is_remote[i] = t->shm.memory[i] < 0;
        remote_count += t->is_remote[i];
        if (!t->is_remote[i]) {
            t->local[t->local_count++] = i;
            status = comm_shm_map_head(&t->shm, i, error);
            continue;
        }
        s->head[i] = (struct shared_head *)(void *)map_nothing(comm_shm_head_bytes());
        if (s->head[i] == NULL)
            return PTO_ENOMEM;
    }
    if (status >= 0)
        s->own = s->head[s->base.rank];
    if (remote_count == s->base.rank_count - 1) {
        /*
         * records of other hosts take longer than waking a sleeping thread, so polling gains
         * nothing
         */
        s->looks = 1;
        s->spin_ns = s->yield_ns = 0;
    }
    return status;
}

/* Connects to all other ranks, maps their heads, and starts the watcher and the mesh's thread. */
static int tls_reach_all(struct tls *t, struct tls_meeting *m, const struct tls_neighbours *n,
                         const struct comm_request *request, struct pto_error *error)
{
    const struct lane_link link = { .job = m->job,
                                    .rank = request->rank,
                                    .key = &m->key,
                                    .lease_ns = request->lease_ns,
                                    .grace_ns = request->grace_ns,
                                    .context = t,
                                    .deliver = tls_apply_record,
                                    .lose = tls_lose };
    int gate = m->gate, status;

    m->gate = -1;
    status = mesh_init(&t->mesh, &link, request->rank_count, gate, error);
    if (status >= 0)
        status = tls_local_find(m, n);
    for (uint32_t i = 0; i < request->rank_count; i++)
        memcpy(t->host[i], m->entry[i].host, TLS_HOST_BYTES);
    if (status >= 0)
        status = tls_make_heads(t, error);
    t->shm.shared.has_fence = m->has_fence;
    if (status >= 0)
        status = comm_shm_start_watcher(&t->shm, error);
    if (status >= 0 && mesh_start(&t->mesh) < 0)
        status = error_setf(error, PTO_ESYSTEM, "no thread can be started");
    return status;
}

static int tls_meet_all(struct tls *t, const struct comm_request *request, struct pto_error *error)
{
    struct tls_neighbours n = { -1, -1, t->shm.memory, t->shm.process, &t->mesh };
    struct tls_meeting m;
    struct pto_error why;
    int status;

    pto_error_init(&why);
    status = tls_meet_open(&m, request, sizeof(struct shared_head), &why);
    if (status >= 0)
        status = comm_shm_offer(&n.memory, &n.process, &why);
    if (status >= 0)
        t->shm.memory[request->rank] = fcntl(n.memory, F_DUPFD_CLOEXEC, 3);
    if (status >= 0)
        status = tls_meet_gather(&m);
    if (status >= 0)
        status = tls_reach_all(t, &m, &n, request, &why);
    if (status >= 0)
        status = tls_meet_conclude(&m);
    if (status < 0)
        tls_meet_fail(&m, status, &why);
    tls_meet_close(&m);
    meet_close_fds(&n.memory, 1);
    meet_close_fds(&n.process, 1);
    return status < 0 ? comm_error_set(error, status, (uint32_t)why.rank, "%s",
                                       why.text[0] != '\0' ? why.text : pto_strerror(status))
                      : status;
}

static int tls_check_request(const struct comm_request *request, struct pto_error *error)
{
    if (strlen(request->token) >= MEET_TOKEN_BYTES)
        return error_setf(error, PTO_EINVAL, "the token has more than %d characters",
                          MEET_TOKEN_BYTES - 1);
    if (!net_address_is_text(request->path))
        return error_setf(error, PTO_EINVAL,
                          "the backend tls meets at an address, tcp://HOST:PORT, not at '%.200s'",
                          request->path);
    if (request->device != NULL && chip_properties(request->device->chip)->has_virtual_time)
        return error_setf(error, PTO_ENOSUP,
                          "ranks of several hosts have no common virtual time; let the ranks meet "
                          "at a path");
    return secure_init(error);
}

static int tls_open(const struct comm_request *request, struct comm **comm_out,
                    struct pto_error *error)
{
    struct tls *t;
    int status = tls_check_request(request, error);

    if (status >= 0)
        status = tls_create(request, &t);
    if (status < 0)
        return status;
    status = tls_meet_all(t, request, error);
    if (status >= 0) {
        *comm_out = &t->shm.shared.base;
        return PTO_OK;
    }
    comm_shm_stop_watcher(&t->shm);
    mesh_close(&t->mesh);
    if (t->shm.shared.own != NULL) {
        /* the lanes are closed, so nothing can be sent to ranks of other hosts */
        t->shm.shared.remote = NULL;
        shared_leave(&t->shm.shared);
    }
    tls_destroy(t);
    return status;
}

static void tls_close(struct comm *comm)
{
    struct tls *t = comm_tls_of(shared_of(comm));

    tls_far_end(t);
    comm_shm_stop_watcher(&t->shm);
    shared_leave(&t->shm.shared);
    mesh_close(&t->mesh);
    tls_destroy(t);
}

static bool tls_is_elsewhere(const struct comm *comm, uint32_t rank)
{
    return ((const struct tls *)(const void *)comm)->is_remote[rank];
}

static bool tls_is_suspect(struct comm *comm, uint32_t rank)
{
    struct shared *s = shared_of(comm);
    uint64_t ns;

    return shared_is_remote(s, rank) && !shared_is_lost(comm, rank) &&
           s->remote->is_silent(s, rank, &ns);
}

/* ---- domains ---- */

static int tls_open_domain(struct comm *comm, const struct domain_request *request,
                           struct domain **domain_out, struct pto_error *error)
{
    struct domain *domain;
    int status = shared_open_domain(comm, request, &domain, error);

    if (status < 0)
        return status;
    status = tls_far_add(comm_tls_of(shared_of(comm)), shared_domain_of(domain));
    if (status < 0) {
        (void)shared_close_domain(domain, 0, NULL);
        return error_setf(error, status, "kernels cannot use windows of other hosts: %s",
                          pto_strerror(status));
    }
    *domain_out = domain;
    return PTO_OK;
}

static int tls_close_domain(struct domain *domain, uint64_t deadline_ns, struct pto_error *error)
{
    tls_far_remove(comm_tls_of(shared_of(domain->comm)), domain, deadline_ns);
    tls_mirrors_settle(shared_domain_of(domain), deadline_ns);
    return shared_close_domain(domain, deadline_ns, error);
}

/* ---- memory ---- */

struct tls_block *comm_tls_block(struct tls *t, uint32_t rank, uint64_t offset)
{
    struct tls_block *b;

    assert_held(&t->block_lock);
    for (b = t->blocks; b != NULL && (b->rank != rank || b->offset != offset); b = b->next)
        ;
    return b;
}

bool comm_tls_enlist(struct tls *t, uint32_t rank, uint64_t offset, uint64_t bytes, char *at)
{
    struct tls_block *b = malloc(sizeof(*b));

    if (b == NULL)
        return false;
    pthread_mutex_lock(&t->block_lock);
    *b = (struct tls_block){ t->blocks, rank, offset, bytes, at };
    t->blocks = b;
    pthread_mutex_unlock(&t->block_lock);
    return true;
}

void comm_tls_delist(struct tls *t, const char *at)
{
    struct tls_block **link, *b;

    pthread_mutex_lock(&t->block_lock);
    for (link = &t->blocks; *link != NULL && (*link)->at != at; link = &(*link)->next)
        ;
    b = *link;
    if (b != NULL)
        *link = b->next;
    pthread_mutex_unlock(&t->block_lock);
    free(b);
}

static int tls_alloc(struct shared *s, uint64_t bytes, uint64_t *offset_out, char **at_out)
{
    int status = comm_shm_alloc(s, bytes, offset_out, at_out);

    if (status < 0 || comm_tls_enlist(comm_tls_of(s), s->base.rank, *offset_out, bytes, *at_out))
        return status;
    comm_shm_free(s, *offset_out, bytes, *at_out, true);
    return PTO_ENOMEM;
}

static void tls_free(struct shared *s, uint64_t offset, uint64_t bytes, char *at, bool is_free)
{
    if (at != NULL)
        comm_tls_delist(comm_tls_of(s), at);
    comm_shm_free(s, offset, bytes, at, is_free);
}

/* ---- operations ---- */

/* What this thread sends comes after what kernels have sent before. Returns the deadline. */
static uint64_t tls_follow_kernels(struct domain *domain, uint64_t timeout_ns)
{
    uint64_t deadline_ns = comm_deadline(timeout_ns, 0);

    tls_far_flush(comm_tls_of(shared_of(domain->comm)), deadline_ns); /* mutation: no-far-flush */
    return deadline_ns;
}

static int tls_put(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
                   uint64_t bytes)
{
    if (domain->window[rank] == NULL)
        return tls_send_put(domain, rank, offset, from, bytes,
                            tls_follow_kernels(domain, domain->comm->timeout_ns));
    memcpy(domain->window[rank] + offset, from, bytes);
    return PTO_OK;
}

static int tls_get(struct domain *domain, uint32_t rank, uint64_t offset, void *to, uint64_t bytes)
{
    if (domain->window[rank] == NULL) {
        (void)tls_follow_kernels(domain, domain->comm->timeout_ns);
        return tls_send_get(domain, rank, offset, to, bytes);
    }
    memcpy(to, domain->window[rank] + offset, bytes);
    return PTO_OK;
}

static int tls_quiet(struct domain *domain)
{
    fence_full();
    return tls_send_drain(domain, tls_follow_kernels(domain, domain->comm->timeout_ns));
}

static int tls_signal(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                      int32_t *before_out)
{
    if (domain->window[rank] == NULL) {
        (void)tls_follow_kernels(domain, domain->comm->timeout_ns);
        return tls_send_signal(domain, rank, signal, before_out);
    }
    return shared_signal(domain, rank, signal, before_out);
}

/*
 * First waits until all ranks of other hosts have this rank's puts: a rank that leaves the barrier
 * may read what this one has put to a third rank. Two ranks need not wait, because records between
 * them stay in order.
 */
static int tls_barrier(struct domain *domain, uint64_t timeout_ns, struct pto_error *error)
{
    uint64_t deadline_ns = tls_follow_kernels(domain, timeout_ns);

    if (domain->rank_count > 2)
        /* a rank that is lost or late is reported by the barrier */
        (void)tls_send_drain(domain, deadline_ns); /* mutation: no-drain */
    return shared_barrier(domain, timeout_ns, error);
}
