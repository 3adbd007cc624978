/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles records from ranks of other hosts. Each is validated before it is used; a rank that sends
 * an invalid one is given up. The thread of the mesh stores the contents in mirrors, with the
 * memory orders that the rank itself used for its own memory; src/comm/comm_shared.h lists them.
 */
#include "comm/comm_tls.h"

#include "base/lock.h"

static int apply_entry(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes)
{
    struct tls_wire_entry w;
    struct shared_head *head = t->shm.shared.head[peer];
    struct shared_entry *e;

    if (!tls_wire_unpack_entry(payload, bytes, &w))
        return PTO_EINVAL;
    e = &head->entry[w.index];
    /* relaxed: only this thread writes the mirror */
    if (a64_load_relaxed(&e->serial) != w.serial) {
        a32_store_release(&e->state, ENTRY_FREE);
        a64_store_release(&e->serial, w.serial);
        fence_full(); /* R31: a reader of the new domain's fields below finds the new serial */
        a64_store_relaxed(&e->id, w.id);
        a64_store_relaxed(&e->digest, w.digest);
        a64_store_relaxed(&e->window_bytes, w.window_bytes);
        a64_store_relaxed(&e->offset, w.offset);
        a32_store_relaxed(&e->host_first, w.host_first);
        a32_store_relaxed(&e->host_index, w.host_index);
        a32_store_relaxed(&e->host_count, w.host_count);
        for (uint32_t i = 0; i < SHARED_MEMBER_WORDS; i++)
            a64_store_relaxed(&e->member[i], w.member[i]);
    }
    a32_store_relaxed(&e->other, w.other);
    a64_store_relaxed(&e->other_bytes, w.other_bytes);
    a32_store_release(&e->state, w.state);      /* R31 */
    (void)a32_add_acq_rel(&head->published, 1); /* R31 */
    shared_wake(&t->shm.shared, t->shm.shared.base.rank);
    return PTO_OK;
}

/* Wakes the ranks of this host, which share the mirrors. */
static void wake_host(struct tls *t)
{
    for (uint32_t i = 0; i < t->local_count; i++)
        shared_wake(&t->shm.shared, t->local[i]);
}

/* Returns the control of a mirror; NULL: this rank does not have the domain, or not any more. */
static struct shared_control *find_control(struct tls *t, uint32_t peer, uint64_t offset)
{
    struct tls_block *b = comm_tls_block(t, peer, offset);

    return b != NULL ? (struct shared_control *)(void *)b->at : NULL;
}

static int apply_control(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes)
{
    struct tls_wire_control w;
    struct shared_control *control;

    if (!tls_wire_unpack_control(payload, bytes, &w))
        return PTO_EINVAL;
    pthread_mutex_lock(&t->block_lock);
    control = find_control(t, peer, w.offset);
    if (control != NULL) {
        a32_store_relaxed(&control->given_up, w.given_up);
        a32_store_release(&control->torn, w.torn);       /* R32 */
        a32_store_release(&control->arrived, w.arrived); /* R32 */
    }
    pthread_mutex_unlock(&t->block_lock);
    wake_host(t);
    /* the sender's alarm may have come to the others before they could see this */
    for (uint32_t i = 0; i < t->local_count && w.torn != 0; i++)
        shared_raise_trouble(&t->shm.shared, t->local[i]);
    return PTO_OK;
}

static int apply_round(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes)
{
    struct tls_wire_round w;
    struct shared_control *control;

    if (!tls_wire_unpack_round(payload, bytes, &w))
        return PTO_EINVAL;
    pthread_mutex_lock(&t->block_lock);
    control = find_control(t, peer, w.offset);
    if (control != NULL) {
        struct shared_note *note = &control->note[w.number % 2];

        if (w.has_call)
            control->call[w.number % 2] =
                (struct shared_call){ .status = w.status, .args = { w.args[0], w.args[1] } };
        memcpy(note->bytes, w.bytes, sizeof(note->bytes));
        a64_store_release((struct a64 *)(void *)note, (uint64_t)w.word << 32 | w.number); /* R35 */
    }
    pthread_mutex_unlock(&t->block_lock);
    wake_host(t);
    return PTO_OK;
}

static int apply_scratch(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes)
{
    struct tls_wire_place w;
    struct tls_block *b;
    int status = PTO_OK;

    if (!tls_wire_unpack_place(payload, bytes, &w))
        return PTO_EINVAL;
    bytes -= TLS_PLACE_BYTES;
    /* mutation: far-scratch */
    if (w.at > SHARED_SCRATCH_BYTES || bytes > SHARED_SCRATCH_BYTES - w.at)
        return PTO_EINVAL;
    pthread_mutex_lock(&t->block_lock);
    b = comm_tls_block(t, peer, w.offset);
    if (b != NULL)
        memcpy(b->at + SHARED_CONTROL_BYTES + w.at, payload + TLS_PLACE_BYTES, bytes);
    pthread_mutex_unlock(&t->block_lock);
    return status;
}

static int apply_state(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes)
{
    struct shared *s = &t->shm.shared;
    uint32_t state;
    int32_t status;

    if (!tls_wire_unpack_state(payload, bytes, &state, &status))
        return PTO_EINVAL;
    a32_store_relaxed(&s->head[peer]->status, (uint32_t)status);
    a32_store_release(&s->head[peer]->state, state); /* R34 */
    if (state == RANK_ABORTED)
        a32_store_relaxed(&s->own->lost, 1);
    shared_check_again(s);
    return PTO_OK;
}

/* ---- windows ---- */

/*
 * Finds the address of bytes in a window of this rank; *at_out is NULL if the window no longer
 * exists. False: the bytes are outside the window.
 */
static bool tls_find_place(struct tls *t, const struct tls_wire_place *place, uint64_t bytes,
                           char **at_out)
{
    const uint64_t begin = SHARED_CONTROL_BYTES + SHARED_SCRATCH_BYTES;
    struct tls_block *b = comm_tls_block(t, t->shm.shared.base.rank, place->offset);

    *at_out = NULL;
    if (b == NULL)
        return true;
    /* mutation: far-put */
    if (place->at > b->bytes - begin || bytes > b->bytes - begin - place->at)
        return false;
    *at_out = b->at + begin + place->at;
    return true;
}

static int apply_put(struct tls *t, const uint8_t *payload, size_t bytes)
{
    struct tls_wire_place w;
    bool is_inside;
    char *at;

    if (!tls_wire_unpack_place(payload, bytes, &w))
        return PTO_EINVAL;
    bytes -= TLS_PLACE_BYTES;
    pthread_mutex_lock(&t->block_lock);
    is_inside = tls_find_place(t, &w, bytes, &at);
    if (is_inside && at != NULL)
        memcpy(at, payload + TLS_PLACE_BYTES, bytes);
    pthread_mutex_unlock(&t->block_lock);
    return is_inside ? PTO_OK : PTO_EINVAL;
}

static int send_answer(struct tls *t, uint32_t peer, const struct tls_wire_answer *answer,
                       const void *data, size_t bytes)
{
    uint8_t head[TLS_WIRE_HEAD_MAX];
    int status = lane_send(mesh_lane(&t->mesh, peer),
                           &(struct lane_letter){ .kind = TLS_KIND_ANSWER,
                                                  .head = head,
                                                  .head_bytes = tls_wire_pack_answer(answer, head),
                                                  .data = data,
                                                  .data_bytes = bytes });

    return status == PTO_EPEER ? PTO_OK : status;
}

static int apply_signal(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes)
{
    struct tls_wire_answer answer = { .status = PTO_EPEER };
    struct tls_wire_signal w;
    bool is_inside;
    char *at;

    if (!tls_wire_unpack_signal(payload, bytes, &w))
        return PTO_EINVAL;
    pthread_mutex_lock(&t->block_lock);
    is_inside = tls_find_place(t, &w.place, sizeof(int32_t), &at);
    if (is_inside && at != NULL) {
        struct a32 *word = (struct a32 *)(void *)at;

        answer.status = PTO_OK;
        if (w.how == PTO_SIGNAL_ADD)
            answer.before = a32_add_acq_rel(word, (uint32_t)w.value); /* R33 */
        else
            a32_store_release(word, (uint32_t)w.value); /* R33 */
    }
    pthread_mutex_unlock(&t->block_lock);
    shared_wake(&t->shm.shared, t->shm.shared.base.rank);
    if (!is_inside)
        return PTO_EINVAL;
    answer.call = w.call;
    return w.call != 0 ? send_answer(t, peer, &answer, NULL, 0) : PTO_OK;
}

static int apply_get(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes)
{
    struct tls_wire_answer answer = { .status = PTO_EPEER };
    struct tls_wire_get w;
    int status = PTO_OK;
    bool is_inside;
    char *at;

    if (!tls_wire_unpack_get(payload, bytes, &w))
        return PTO_EINVAL;
    answer.call = w.call;
    answer.to = w.to;
    pthread_mutex_lock(&t->block_lock);
    is_inside = tls_find_place(t, &w.place, w.bytes, &at);
    if (is_inside && at != NULL)
        answer.status = PTO_OK;
    if (is_inside) /* under the lock, so that the window is not freed while its bytes are copied */
        status = send_answer(t, peer, &answer, at, at != NULL ? w.bytes : 0);
    pthread_mutex_unlock(&t->block_lock);
    return is_inside ? status : PTO_EINVAL;
}

static int apply_answer(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes)
{
    struct tls_wire_answer w;
    struct tls_call *c;
    int status = PTO_OK;

    if (!tls_wire_unpack_answer(payload, bytes, &w))
        return PTO_EINVAL;
    bytes -= TLS_ANSWER_HEAD_BYTES;
    pthread_mutex_lock(&t->call_lock);
    for (c = t->calls; c != NULL && (c->number != w.call || c->rank != peer); c = c->next)
        ;
    /* mutation: far-answer */
    if (c != NULL && bytes > 0 && (c->to == NULL || w.to > c->bytes || bytes > c->bytes - w.to))
        status = PTO_EINVAL;
    else if (c != NULL && c->status >= 0) {
        if (bytes > 0)
            memcpy(c->to + w.to, payload + TLS_ANSWER_HEAD_BYTES, bytes);
        c->got += bytes;
        c->before = w.before;
        c->status = w.status;
        c->answers++;
        if (c->done != NULL)
            tls_send_close_call(t, c);
        else
            pthread_cond_broadcast(&t->answered);
    }
    pthread_mutex_unlock(&t->call_lock);
    return status;
}

int tls_apply_record(void *context, uint32_t peer, uint8_t kind, const uint8_t *payload,
                     size_t bytes)
{
    struct tls *t = context;

    if (t->shm.shared.own == NULL)
        /* the peer has sent a record before the ranks have met, which is invalid */
        return PTO_EINVAL;
    switch (kind) {
    case TLS_KIND_ENTRY:
        return apply_entry(t, peer, payload, bytes);
    case TLS_KIND_CONTROL:
        return apply_control(t, peer, payload, bytes);
    case TLS_KIND_SCRATCH:
        return apply_scratch(t, peer, payload, bytes);
    case TLS_KIND_ROUND:
        return apply_round(t, peer, payload, bytes);
    case TLS_KIND_STATE:
        return apply_state(t, peer, payload, bytes);
    case TLS_KIND_ALARM:
        shared_check_again(&t->shm.shared);
        return bytes == 0 ? PTO_OK : PTO_EINVAL;
    case TLS_KIND_PUT:
        return apply_put(t, payload, bytes);
    case TLS_KIND_SIGNAL:
        return apply_signal(t, peer, payload, bytes);
    case TLS_KIND_GET:
        return apply_get(t, peer, payload, bytes);
    case TLS_KIND_ANSWER:
        return apply_answer(t, peer, payload, bytes);
    default:
        return PTO_EINVAL;
    }
}
