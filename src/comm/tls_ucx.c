/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of other hosts by UCX: src/comm/tls_ucx.h. */
#include "comm/tls_ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "net/packer.h"
#include "net/ucx.h"

enum {
    UCX_LOOK_MS = 20,
    UCX_KEY_HEAD_BYTES = 16,
    UCX_ADDRESS_HEAD_BYTES = 12,
    UCX_LEAST_BYTES = 64 << 10
};
#define UCX_WINDOW_AT (SHARED_CONTROL_BYTES + SHARED_SCRATCH_BYTES)

/* The window in a block of a peer. */
struct tls_ucx_key {
    struct tls_ucx_key *next;
    uint32_t rank;
    uint64_t offset;  /* of the block */
    uint64_t address; /* of the window, in the peer's process */
    void *key;
};

/* An allocation of window memory on this rank, which peers reach by UCX. */
struct tls_ucx_block {
    struct tls_ucx_block *next;
    uint64_t offset, bytes; /* of the block */
    char *at;
    struct ucx_memory *memory;
};

struct tls_ucx {
    uint64_t least_bytes;
    pthread_mutex_t lock; /* protects the rest */
    /* NULL: no rank is on another host, or it is not open yet; not changed afterwards */
    struct ucx *ucx;
    pthread_cond_t came; /* an address has come */
    struct tls_ucx_key *keys;
    struct tls_ucx_block *blocks;
    struct ucx_memory *probe;
    char probes[COMM_RANKS_MAX]; /* a byte for each rank, which writes it when it connects */
    struct tls_ucx_rank {
        uint8_t *key;     /* of its probes, followed by its address; NULL: they have not come */
        uint8_t *address; /* of its UCX */
        uint64_t probe;   /* address of its probes */
        uint64_t record;  /* copies by UCX start after the record with this number has arrived */
        bool is_unsure;   /* a put failed, and may still happen */
    } rank[];
};

static const char devices_variable[] = "UCX_NET_DEVICES";

/* ---- open, close ---- */

int tls_ucx_check(struct pto_error *error)
{
    const char *devices = getenv(devices_variable);
    int status = ucx_init(error);

    if (status < 0)
        return status;
    if (devices != NULL && devices[0] != '\0') /* mutation: ucx-devices */
        return PTO_OK;
    return error_setf(error, PTO_EINVAL,
                      "the backend ucx needs %s: the network devices to use, which strangers must "
                      "not reach, for example mlx5_0:1",
                      devices_variable);
}

int tls_ucx_init(struct tls *t, struct pto_error *error)
{
    const uint32_t count = t->shm.shared.base.rank_count;
    const char *least = getenv("PTO_UCX_LEAST_BYTES");
    int status = tls_ucx_check(error);

    if (status < 0)
        return status;
    t->ucx = calloc(1, sizeof(*t->ucx) + count * sizeof(t->ucx->rank[0]));
    if (t->ucx == NULL)
        return PTO_ENOMEM;
    pthread_mutex_init(&t->ucx->lock, NULL);
    os_cond_init(&t->ucx->came);
    t->ucx->least_bytes = least != NULL ? strtoull(least, NULL, 10) : UCX_LEAST_BYTES;
    return PTO_OK;
}

void tls_ucx_close(struct tls *t)
{
    struct tls_ucx *x = t->ucx;

    if (x == NULL)
        return;
    for (struct tls_ucx_key *k; (k = x->keys) != NULL; free(k)) {
        x->keys = k->next;
        ucx_key_free(x->ucx, k->key);
    }
    for (uint32_t i = 0; x->ucx != NULL && i < t->shm.shared.base.rank_count; i++)
        ucx_lose(x->ucx, i);
    for (struct tls_ucx_block *b; (b = x->blocks) != NULL; free(b)) {
        x->blocks = b->next;
        ucx_unregister(x->ucx, b->memory);
        (void)munmap(b->at, b->bytes);
    }
    if (x->probe != NULL)
        ucx_unregister(x->ucx, x->probe);
    ucx_close(x->ucx);
    for (uint32_t i = 0; i < t->shm.shared.base.rank_count; i++)
        free(x->rank[i].key);
    pthread_cond_destroy(&x->came);
    pthread_mutex_destroy(&x->lock);
    free(x);
    t->ucx = NULL;
}

/* UCX, for the thread of the mesh, which may run while it is opened. */
static struct ucx *ucx_of(struct tls *t)
{
    struct ucx *ucx = NULL;

    if (t->ucx != NULL) {
        pthread_mutex_lock(&t->ucx->lock);
        ucx = t->ucx->ucx;
        pthread_mutex_unlock(&t->ucx->lock);
    }
    return ucx;
}

/* Opens UCX on the devices that are named. */
static int ucx_open_devices(struct tls *t, struct pto_error *error)
{
    struct ucx *ucx;
    int status = ucx_open(t->shm.shared.base.rank_count, getenv(devices_variable), &ucx, error);

    if (status < 0)
        return status;
    pthread_mutex_lock(&t->ucx->lock);
    t->ucx->ucx = ucx;
    pthread_mutex_unlock(&t->ucx->lock);
    return PTO_OK;
}

/* Waits for the addresses of all ranks of other hosts. */
static int ucx_await_addresses(struct tls *t, struct tls_meeting *m)
{
    struct tls_ucx *x = t->ucx;
    uint32_t next = 0;
    int status = PTO_OK;

    while (status >= 0) {
        pthread_mutex_lock(&x->lock);
        while (next < m->comm->rank_count && (!t->is_remote[next] || x->rank[next].key != NULL))
            next++;
        if (next < m->comm->rank_count)
            (void)os_cond_wait(&x->came, &x->lock, os_now_ns() + UCX_LOOK_MS * 1000000ull);
        pthread_mutex_unlock(&x->lock);
        if (next == m->comm->rank_count)
            return PTO_OK;
        status = tls_meet_check(m);
        if (status >= 0 && os_now_ns() >= m->comm->deadline_ns)
            status =
                comm_error_set(m->error, PTO_ETIMEOUT, next,
                               "rank %u on %s has not opened UCX in time", next, t->host[next]);
    }
    return status;
}

/* Sends the address of this rank's UCX, and the key of its probe, to all ranks of other hosts. */
static int ucx_send_addresses(struct tls *t)
{
    struct tls_ucx *x = t->ucx;
    size_t address_bytes, key_bytes;
    const void *address = ucx_address(x->ucx, &address_bytes);
    uint8_t head[TLS_WIRE_HEAD_MAX];
    struct packer p = { head };
    const void *key;
    int status = PTO_OK;

    x->probe = ucx_register(x->ucx, x->probes, t->shm.shared.base.rank_count);
    if (x->probe == NULL)
        return PTO_ENOMEM;
    key = ucx_memory_key(x->probe, &key_bytes);
    if (key_bytes > sizeof(head) - UCX_ADDRESS_HEAD_BYTES)
        return PTO_ENOSUP;
    pack_number(&p, (uintptr_t)x->probes, 8);
    pack_number(&p, key_bytes, 4);
    pack_bytes(&p, key, key_bytes);
    for (uint32_t i = 0; i < t->shm.shared.base.rank_count && status >= 0; i++)
        if (t->is_remote[i])
            status = lane_send(mesh_lane(&t->mesh, i),
                               &(struct lane_letter){ .kind = TLS_KIND_UCX_ADDRESS,
                                                      .head = head,
                                                      .head_bytes = (size_t)(p.at - head),
                                                      .data = address,
                                                      .data_bytes = address_bytes });
    return status;
}

/* Writes a byte to memory of a rank: UCX connects when the first data are sent. */
static int ucx_probe(struct tls *t, uint32_t rank, uint64_t deadline_ns)
{
    struct tls_ucx_rank *r = &t->ucx->rank[rank];
    struct ucx_copy copy = { .peer = rank,
                             .key = ucx_key_make(t->ucx->ucx, rank, r->key),
                             .address = r->probe + t->shm.shared.base.rank,
                             .bytes = 1,
                             .deadline_ns = deadline_ns };
    int status = copy.key != NULL ? ucx_put(t->ucx->ucx, &copy, "\1") : PTO_EPEER;

    if (copy.key != NULL)
        ucx_key_free(t->ucx->ucx, copy.key);
    return status;
}

/* Connects to a rank, and sees that the connection works. */
static int ucx_connect_rank(struct tls *t, struct tls_meeting *m, uint32_t rank)
{
    struct ucx *ucx = t->ucx->ucx;
    int status = ucx_connect(ucx, rank, t->ucx->rank[rank].address);
    const char *why;

    if (status >= 0)
        status = ucx_probe(t, rank, m->comm->deadline_ns);
    if (status >= 0)
        return status;
    why = status == PTO_ETIMEOUT ? "it does not answer in time" : ucx_failure(ucx, rank);
    return comm_error_set(m->error, status, rank, "rank %u on %s cannot be reached by UCX: %s",
                          rank, t->host[rank], why != NULL ? why : pto_strerror(status));
}

int tls_ucx_connect(struct tls *t, struct tls_meeting *m)
{
    const uint32_t count = m->comm->rank_count;
    bool has_remote = false;
    int status;

    for (uint32_t i = 0; i < count; i++)
        has_remote = has_remote || t->is_remote[i];
    if (!has_remote)
        return PTO_OK;
    status = ucx_open_devices(t, m->error);
    if (status >= 0)
        status = ucx_send_addresses(t);
    if (status >= 0)
        status = ucx_await_addresses(t, m);
    for (uint32_t i = 0; i < count && status >= 0; i++)
        if (t->is_remote[i])
            status = ucx_connect_rank(t, m, i);
    return status;
}

void tls_ucx_lose(struct tls *t, uint32_t rank)
{
    struct ucx *ucx = ucx_of(t);

    if (ucx != NULL)
        ucx_lose(ucx, rank);
}

/* ---- records ---- */

int tls_ucx_apply_address(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes)
{
    struct tls_ucx *x = t->ucx;
    struct unpacker u = { payload, bytes, false };
    uint64_t probe = unpack_number(&u, 8);
    size_t key_bytes = (size_t)unpack_number(&u, 4);
    struct tls_ucx_rank *r;
    uint8_t *copy;
    int status = PTO_OK;

    if (x == NULL || u.has_failed || key_bytes == 0 || key_bytes >= u.left)
        return PTO_EINVAL;
    copy = malloc(u.left);
    if (copy == NULL)
        return PTO_ENOMEM;
    memcpy(copy, u.at, u.left);
    r = &x->rank[peer];
    pthread_mutex_lock(&x->lock);
    if (r->key != NULL) {
        status = PTO_EINVAL;
    } else {
        r->probe = probe;
        r->key = copy;
        r->address = copy + key_bytes;
    }
    pthread_cond_broadcast(&x->came);
    pthread_mutex_unlock(&x->lock);
    if (status < 0)
        free(copy);
    return status;
}

/* Finds the key of a block; NULL: there is none. */
static struct tls_ucx_key *ucx_find_key(struct tls_ucx *x, uint32_t rank, uint64_t offset)
{
    struct tls_ucx_key *k;

    assert_held(&x->lock);
    for (k = x->keys; k != NULL && (k->rank != rank || k->offset != offset); k = k->next)
        ;
    return k;
}

/* A key replaces that of an earlier domain, which all ranks have left. */
int tls_ucx_apply_key(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes)
{
    struct tls_ucx *x = t->ucx;
    struct ucx *ucx = ucx_of(t);
    struct unpacker u = { payload, bytes, false };
    uint64_t offset = unpack_number(&u, 8), address = unpack_number(&u, 8);
    struct tls_ucx_key *k;
    void *key, *old = NULL;

    if (ucx == NULL || u.has_failed || u.left == 0)
        return PTO_EINVAL;
    key = ucx_key_make(ucx, peer, payload + UCX_KEY_HEAD_BYTES);
    if (key == NULL)
        return PTO_OK; /* data of this window go by records */
    pthread_mutex_lock(&x->lock);
    k = ucx_find_key(x, peer, offset);
    if (k != NULL) {
        old = k->key;
    } else {
        k = malloc(sizeof(*k));
        if (k != NULL) {
            *k = (struct tls_ucx_key){ x->keys, peer, offset, 0, NULL };
            x->keys = k;
        }
    }
    if (k != NULL) {
        k->address = address;
        k->key = key;
    } else {
        old = key;
    }
    pthread_mutex_unlock(&x->lock);
    if (old != NULL)
        ucx_key_free(ucx, old);
    return PTO_OK;
}

int tls_ucx_apply_close(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes)
{
    struct unpacker u = { payload, bytes, false };
    struct tls_wire_answer answer = { .call = unpack_number(&u, 8) };

    if (t->ucx == NULL || u.has_failed || u.left != 0)
        return PTO_EINVAL;
    tls_ucx_lose(t, peer);
    return tls_send_answer(t, peer, &answer, NULL, 0);
}

/* ---- windows of this rank ---- */

void tls_ucx_offer(struct tls *t, const struct shared_domain *sd)
{
    struct tls_ucx *x = t->ucx;
    char *at = (char *)sd->peer[sd->base.rank].control;
    struct tls_ucx_block *b;
    uint8_t head[UCX_KEY_HEAD_BYTES];
    struct packer p = { head };
    const void *key;
    size_t bytes;

    if (x->ucx == NULL || sd->block_bytes <= UCX_WINDOW_AT || at == NULL)
        return;
    b = malloc(sizeof(*b));
    if (b == NULL)
        return;
    *b = (struct tls_ucx_block){ .offset = sd->offset, .bytes = sd->block_bytes, .at = at };
    b->memory = ucx_register(x->ucx, at + UCX_WINDOW_AT, sd->block_bytes - UCX_WINDOW_AT);
    if (b->memory == NULL) {
        free(b);
        return;
    }
    pthread_mutex_lock(&x->lock);
    b->next = x->blocks;
    x->blocks = b;
    pthread_mutex_unlock(&x->lock);
    key = ucx_memory_key(b->memory, &bytes);
    pack_number(&p, sd->offset, 8);
    pack_number(&p, (uintptr_t)(at + UCX_WINDOW_AT), 8);
    for (uint32_t i = 0; i < sd->base.rank_count; i++)
        if (t->is_remote[sd->base.ranks[i]])
            (void)lane_send(mesh_lane(&t->mesh, sd->base.ranks[i]),
                            &(struct lane_letter){ .kind = TLS_KIND_UCX_KEY,
                                                   .head = head,
                                                   .head_bytes = sizeof(head),
                                                   .data = key,
                                                   .data_bytes = bytes });
}

bool tls_ucx_withdraw(struct tls *t, uint64_t offset, bool is_free)
{
    struct tls_ucx *x = t->ucx;
    struct tls_ucx_block **link, *b;

    pthread_mutex_lock(&x->lock);
    for (link = &x->blocks; *link != NULL && (*link)->offset != offset; link = &(*link)->next)
        ;
    b = *link;
    if (b != NULL && is_free)
        *link = b->next;
    pthread_mutex_unlock(&x->lock);
    if (b == NULL || !is_free)
        return b != NULL;
    /* one that was lost, but has not ended, may be in the middle of a put */
    for (uint32_t i = 0; i < t->shm.shared.base.rank_count; i++)
        if (t->is_remote[i] && shared_is_lost(&t->shm.shared.base, i))
            ucx_lose(x->ucx, i);
    ucx_unregister(x->ucx, b->memory);
    free(b);
    return false;
}

/* ---- copies ---- */

void tls_ucx_note_records(struct tls *t, uint32_t rank)
{
    struct lane *lane = mesh_lane(&t->mesh, rank);
    uint64_t number;

    if (t->ucx == NULL)
        return;
    pthread_mutex_lock(&lane->lock);
    number = lane->sent;
    pthread_mutex_unlock(&lane->lock);
    pthread_mutex_lock(&t->ucx->lock);
    if (number > t->ucx->rank[rank].record) /* else another thread has noted later ones */
        t->ucx->rank[rank].record = number;
    pthread_mutex_unlock(&t->ucx->lock);
}

int tls_ucx_make_sure(struct tls *t, uint32_t rank, uint64_t deadline_ns)
{
    struct tls_ucx_rank *r;
    bool is_unsure;
    int status;

    if (t->ucx == NULL)
        return PTO_OK;
    r = &t->ucx->rank[rank];
    pthread_mutex_lock(&t->ucx->lock);
    is_unsure = r->is_unsure;
    pthread_mutex_unlock(&t->ucx->lock);
    if (!is_unsure)
        return PTO_OK;
    ucx_lose(t->ucx->ucx, rank);
    status = tls_send_ucx_close(t, rank, deadline_ns);
    if (status < 0)
        return status;
    pthread_mutex_lock(&t->ucx->lock);
    r->is_unsure = false;
    pthread_mutex_unlock(&t->ucx->lock);
    return PTO_OK;
}

/* Waits until a rank has the data that were sent to it by records. */
static int ucx_settle(struct tls *t, uint32_t rank, uint64_t deadline_ns)
{
    struct lane *lane = mesh_lane(&t->mesh, rank);
    uint64_t number;
    bool is_there;

    pthread_mutex_lock(&t->ucx->lock);
    number = t->ucx->rank[rank].record;
    pthread_mutex_unlock(&t->ucx->lock);
    pthread_mutex_lock(&lane->lock);
    is_there = lane->acked >= number; /* mutation: ucx-order */
    pthread_mutex_unlock(&lane->lock);
    return is_there ? PTO_OK : lane_drain(lane, deadline_ns);
}

/* Prepares a copy. PTO_EAGAIN: it is to be done by records. */
static int ucx_prepare(struct tls *t, uint32_t rank, const struct tls_wire_place *place,
                       uint64_t bytes, struct ucx_copy *copy)
{
    struct tls_ucx *x = t->ucx;
    struct tls_ucx_key *k;
    int status = x->ucx != NULL ? tls_ucx_make_sure(t, rank, copy->deadline_ns) : PTO_EAGAIN;

    if (status < 0 || bytes < x->least_bytes)
        return status < 0 ? status : PTO_EAGAIN;
    pthread_mutex_lock(&x->lock);
    k = ucx_find_key(x, rank, place->offset);
    if (k != NULL) {
        copy->peer = rank;
        copy->key = k->key;
        copy->address = k->address + place->at;
        copy->bytes = bytes;
    }
    pthread_mutex_unlock(&x->lock);
    return k != NULL ? ucx_settle(t, rank, copy->deadline_ns) : PTO_EAGAIN;
}

/* PTO_EAGAIN: this is to be done by records. */
static int ucx_try_put(struct tls *t, uint32_t rank, const struct tls_wire_place *place,
                       const void *from, uint64_t bytes, uint64_t deadline_ns)
{
    struct ucx_copy copy = { .deadline_ns = deadline_ns };
    int status = ucx_prepare(t, rank, place, bytes, &copy);

    if (status < 0)
        return status;
    status = ucx_put(t->ucx->ucx, &copy, from);
    if (status != PTO_EPEER && status != PTO_ETIMEOUT)
        return status;
    pthread_mutex_lock(&t->ucx->lock);
    t->ucx->rank[rank].is_unsure = true;
    pthread_mutex_unlock(&t->ucx->lock);
    if (status == PTO_EPEER) /* and the whole put is done again by records */
        status = tls_ucx_make_sure(t, rank, deadline_ns);
    return status < 0 ? status : PTO_EAGAIN;
}

int tls_ucx_put(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
                uint64_t bytes, uint64_t deadline_ns)
{
    struct tls *t = comm_tls_of(shared_of(domain->comm));
    const struct tls_wire_place place = tls_send_place(domain, rank, offset);
    int status = ucx_try_put(t, domain->ranks[rank], &place, from, bytes, deadline_ns);

    if (status != PTO_EAGAIN)
        return status;
    status = tls_send_put(domain, rank, offset, from, bytes, deadline_ns);
    tls_ucx_note_records(t, domain->ranks[rank]);
    return status;
}

int tls_ucx_get(struct domain *domain, uint32_t rank, uint64_t offset, void *to, uint64_t bytes)
{
    struct tls *t = comm_tls_of(shared_of(domain->comm));
    const struct tls_wire_place place = tls_send_place(domain, rank, offset);
    struct ucx_copy copy = { .deadline_ns = comm_deadline(domain->comm->timeout_ns, 0) };
    int status = ucx_prepare(t, domain->ranks[rank], &place, bytes, &copy);

    if (status >= 0) {
        status = ucx_get(t->ucx->ucx, &copy, to);
        if (status == PTO_EPEER)
            status = PTO_EAGAIN;
    }
    return status == PTO_EAGAIN ? tls_send_get(domain, rank, offset, to, bytes) : status;
}
