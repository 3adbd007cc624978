/* SPDX-License-Identifier: Apache-2.0 */
/* Sends records to ranks of other hosts: src/comm/comm_tls.h. */
#include <assert.h>
#include <stdio.h>

#include "base/lock.h"
#include "comm/comm_tls.h"

/* maximum number of bytes that a get has requested and not received */
enum { ASKED_MAX = 1 << 20 };

static bool tls_is_remote(const struct shared *s, uint32_t rank)
{
    return ((const struct tls *)(const void *)s)->is_remote[rank];
}

static struct lane *lane_to(struct shared *s, uint32_t rank)
{
    return mesh_lane(&comm_tls_of(s)->mesh, rank);
}

/*
 * Sends a record about this rank's own state. Failures are ignored: a lost peer needs no record,
 * and if memory runs out, the peer notices that its wait does not end.
 */
static void tls_tell(struct shared *s, uint32_t rank, enum tls_kind kind, const void *head,
                     size_t bytes)
{
    (void)lane_send(lane_to(s, rank),
                    &(struct lane_letter){ .kind = kind, .head = head, .head_bytes = bytes });
}

/* Whether a member on another host receives what this rank sends to the ranks of that host. */
static bool is_receiver(struct shared *s, const struct shared_domain *sd, uint32_t rank)
{
    return tls_is_remote(s, sd->base.ranks[rank]) && sd->peer[rank].receiver == rank;
}

/* ---- sending what this rank has stored in its own memory ---- */

static void tls_send_entry(struct shared *s, const struct shared_domain *sd)
{
    const struct shared_entry *e = &s->own->entry[sd->entry];
    uint8_t bytes[TLS_WIRE_HEAD_MAX];
    size_t size;
    /* relaxed: only this rank writes its entries */
    struct tls_wire_entry entry = { .index = sd->entry,
                                    .state = a32_load_relaxed(&e->state),
                                    .other = a32_load_relaxed(&e->other),
                                    .serial = a64_load_relaxed(&e->serial),
                                    .id = a64_load_relaxed(&e->id),
                                    .digest = a64_load_relaxed(&e->digest),
                                    .window_bytes = a64_load_relaxed(&e->window_bytes),
                                    .offset = a64_load_relaxed(&e->offset),
                                    .other_bytes = a64_load_relaxed(&e->other_bytes),
                                    .host_first = a32_load_relaxed(&e->host_first),
                                    .host_index = a32_load_relaxed(&e->host_index),
                                    .host_count = a32_load_relaxed(&e->host_count) };

    for (uint32_t i = 0; i < SHARED_MEMBER_WORDS; i++)
        entry.member[i] = a64_load_relaxed(&e->member[i]);
    size = tls_wire_pack_entry(&entry, bytes);
    /* to all members: the directory is mirrored in each process */
    for (uint32_t i = 0; i < sd->base.rank_count; i++)
        if (tls_is_remote(s, sd->base.ranks[i]))
            tls_tell(s, sd->base.ranks[i], TLS_KIND_ENTRY, bytes, size);
}

static void tls_send_control(struct shared *s, const struct shared_domain *sd)
{
    const struct shared_control *own = sd->peer[sd->base.rank].control;
    uint8_t bytes[TLS_WIRE_HEAD_MAX];
    /* relaxed: only this rank writes its control */
    struct tls_wire_control control = { sd->offset, a32_load_relaxed(&own->arrived),
                                        a32_load_relaxed(&own->given_up),
                                        a32_load_relaxed(&own->torn) };

    size_t size = tls_wire_pack_control(&control, bytes);

    for (uint32_t i = 0; i < sd->base.rank_count; i++)
        if (is_receiver(s, sd, i))
            tls_tell(s, sd->base.ranks[i], TLS_KIND_CONTROL, bytes, size);
}

/* Sends bytes of this rank's scratch to another rank. */
static void send_scratch(struct shared *s, const struct shared_domain *sd, uint32_t rank,
                         uint64_t at, uint64_t bytes)
{
    const char *scratch = shared_scratch(sd, sd->base.rank);
    uint8_t head[TLS_WIRE_HEAD_MAX];

    for (uint64_t done = 0; done < bytes;) {
        uint64_t n = bytes - done < LANE_DATA_MAX ? bytes - done : LANE_DATA_MAX;
        struct tls_wire_place place = { sd->offset, at + done };

        (void)lane_send(lane_to(s, rank),
                        &(struct lane_letter){ .kind = TLS_KIND_SCRATCH,
                                               .head = head,
                                               .head_bytes = tls_wire_pack_place(&place, head),
                                               .data = scratch + at + done,
                                               .data_bytes = n });
        done += n;
    }
}

static void tls_send_round(struct shared *s, const struct shared_domain *sd,
                           const struct shared_sends *sends, bool has_call)
{
    const struct shared_control *own = sd->peer[sd->base.rank].control;
    const struct shared_note *note = &own->note[sd->number % 2];
    const struct shared_call *call = &own->call[sd->number % 2];
    const uint64_t half = sd->number % 2 * (SHARED_SCRATCH_BYTES / 2);
    struct tls_wire_round round = { .offset = sd->offset,
                                    .number = sd->number,
                                    .word = note->word,
                                    .has_call = has_call,
                                    .status = call->status,
                                    .args = { call->args[0], call->args[1] } };
    uint8_t bytes[TLS_WIRE_HEAD_MAX];
    size_t size;

    memcpy(round.bytes, note->bytes, sizeof(round.bytes));
    size = tls_wire_pack_round(&round, bytes);
    for (uint32_t i = 1; i < sd->base.rank_count; i++) {
        /* each rank starts with a different peer, to spread the load */
        uint32_t rank = (sd->base.rank + i) % sd->base.rank_count, only = sends->only;

        if (!tls_is_remote(s, sd->base.ranks[rank]))
            continue;
        /* its slot, to the member of its host that holds the mirror */
        send_scratch(s, sd, sd->base.ranks[sd->peer[rank].receiver],
                     half + (uint64_t)rank * sends->each_stride, sends->each_bytes);
        if (is_receiver(s, sd, rank) &&
            (only == UINT32_MAX ||
             (tls_is_remote(s, sd->base.ranks[only]) && sd->peer[only].receiver == rank)))
            send_scratch(s, sd, sd->base.ranks[rank], half + sends->all_at, sends->all_bytes);
    }
    for (uint32_t i = 1; i < sd->base.rank_count; i++) {
        uint32_t rank = (sd->base.rank + i) % sd->base.rank_count;

        if (is_receiver(s, sd, rank))
            tls_tell(s, sd->base.ranks[rank], TLS_KIND_ROUND, bytes, size);
    }
}

static void tls_send_state(struct shared *s)
{
    uint8_t bytes[TLS_WIRE_HEAD_MAX];
    /* relaxed: only this rank writes them */
    size_t size = tls_wire_pack_state(a32_load_relaxed(&s->own->state),
                                      (int32_t)a32_load_relaxed(&s->own->status), bytes);

    for (uint32_t i = 0; i < s->base.rank_count; i++)
        if (tls_is_remote(s, i))
            tls_tell(s, i, TLS_KIND_STATE, bytes, size);
}

static void tls_send_alarm(struct shared *s, uint32_t rank)
{
    tls_tell(s, rank, TLS_KIND_ALARM, "", 0);
}

static bool tls_is_silent(const struct shared *s, uint32_t rank, uint64_t *ns_out)
{
    struct lane *lane = &((const struct tls *)(const void *)s)->mesh.lane[rank];
    bool is_silent;

    pthread_mutex_lock(&lane->lock);
    is_silent = lane->state != LANE_UP && lane->state != LANE_LOST;
    *ns_out = os_now_ns() - lane->heard_ns;
    pthread_mutex_unlock(&lane->lock);
    return is_silent;
}

static void tls_describe_loss(const struct shared *s, uint32_t rank, char *text, size_t size)
{
    const struct tls *t = (const struct tls *)(const void *)s;
    struct lane *lane = &t->mesh.lane[rank];

    pthread_mutex_lock(&lane->lock);
    if (lane->loss == LANE_SILENT)
        snprintf(text, size, "rank %u on %s was silent for %llu s", rank, t->host[rank],
                 (unsigned long long)(lane->silent_ns / 1000000000));
    else if (lane->loss == LANE_INVALID)
        snprintf(text, size, "rank %u on %s sent an invalid record", rank, t->host[rank]);
    else
        snprintf(text, size, "the process of rank %u on %s has ended", rank, t->host[rank]);
    pthread_mutex_unlock(&lane->lock);
}

const struct shared_remote tls_send_remote = {
    .is_remote = tls_is_remote,
    .make_mirrors = tls_mirrors_make,
    .map_mirrors = tls_mirrors_map,
    .free_mirrors = tls_mirrors_free,
    .send_entry = tls_send_entry,
    .send_control = tls_send_control,
    .send_round = tls_send_round,
    .send_state = tls_send_state,
    .send_alarm = tls_send_alarm,
    .is_silent = tls_is_silent,
    .describe_loss = tls_describe_loss,
};

/* ---- windows ---- */

/*
 * Returns the place of a rank's window: its block in the domain that has created the windows, and
 * the offset there.
 */
static struct tls_wire_place tls_place_of(struct domain *domain, uint32_t rank, uint64_t offset)
{
    const uint32_t number = domain->ranks[rank];
    uint32_t at = 0;

    while (domain->parent != NULL) {
        offset += domain->parent_offset;
        domain = domain->parent;
    }
    while (domain->ranks[at] != number)
        at++;
    return (struct tls_wire_place){ shared_domain_of(domain)->peer[at].offset, offset };
}

int tls_send_put(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
                 uint64_t bytes, uint64_t deadline_ns)
{
    struct lane *lane = lane_to(shared_of(domain->comm), domain->ranks[rank]);
    struct tls_wire_place place = tls_place_of(domain, rank, offset);
    uint8_t head[TLS_WIRE_HEAD_MAX];
    int status = PTO_OK;

    for (uint64_t done = 0; done < bytes && status >= 0;) {
        uint64_t n = bytes - done < LANE_DATA_MAX ? bytes - done : LANE_DATA_MAX;

        status =
            lane_send(lane, &(struct lane_letter){ .kind = TLS_KIND_PUT,
                                                   .head = head,
                                                   .head_bytes = tls_wire_pack_place(&place, head),
                                                   .data = (const char *)from + done,
                                                   .data_bytes = n,
                                                   .deadline_ns = deadline_ns });
        done += n;
        place.at += n;
    }
    return status;
}

int tls_send_drain(struct domain *domain, uint64_t deadline_ns)
{
    struct shared *s = shared_of(domain->comm);
    int first = PTO_OK;

    for (uint32_t i = 0; i < domain->rank_count; i++) {
        int status = PTO_OK;

        if (tls_is_remote(s, domain->ranks[i]))
            status = lane_drain(lane_to(s, domain->ranks[i]), deadline_ns);
        if (first >= 0)
            first = status;
    }
    return first;
}

/* ---- calls that wait for answers ---- */

void tls_send_begin_call(struct tls *t, struct tls_call *call)
{
    pthread_mutex_lock(&t->call_lock);
    call->number = ++t->calls_made;
    call->is_open = true;
    call->next = t->calls;
    t->calls = call;
    pthread_mutex_unlock(&t->call_lock);
}

void tls_send_close_call(struct tls *t, struct tls_call *call)
{
    struct tls_call **link;

    assert_held(&t->call_lock);
    for (link = &t->calls; *link != call; link = &(*link)->next)
        ;
    *link = call->next;
    call->is_open = false;
    if (call->done != NULL)
        call->done(t, call);
}

static void end_call(struct tls *t, struct tls_call *call)
{
    pthread_mutex_lock(&t->call_lock);
    tls_send_close_call(t, call);
    pthread_mutex_unlock(&t->call_lock);
}

void tls_send_lose(struct tls *t, uint32_t rank)
{
    struct tls_call *next;

    pthread_mutex_lock(&t->call_lock);
    for (struct tls_call *c = t->calls; c != NULL; c = next) {
        next = c->next;
        if (c->rank != rank || c->status < 0)
            continue;
        c->status = PTO_EPEER;
        if (c->done != NULL)
            tls_send_close_call(t, c);
    }
    pthread_cond_broadcast(&t->answered);
    pthread_mutex_unlock(&t->call_lock);
}

/* Waits until this many bytes and this many answers have arrived. */
static int await_answers(struct tls *t, struct tls_call *call, uint64_t bytes, uint32_t answers,
                         uint64_t deadline_ns)
{
    int status;

    pthread_mutex_lock(&t->call_lock);
    while (call->status >= 0 && (call->got < bytes || call->answers < answers))
        if (!os_cond_wait(&t->answered, &t->call_lock, deadline_ns) && call->status >= 0)
            call->status = PTO_ETIMEOUT;
    status = call->status;
    pthread_mutex_unlock(&t->call_lock);
    return status;
}

/* Asks for a part of a window, to be stored at `to` in the caller's buffer. */
static int send_ask(struct domain *domain, uint32_t rank, const struct tls_wire_get *get,
                    uint64_t deadline_ns)
{
    uint8_t head[TLS_WIRE_HEAD_MAX];

    return lane_send(lane_to(shared_of(domain->comm), domain->ranks[rank]),
                     &(struct lane_letter){ .kind = TLS_KIND_GET,
                                            .head = head,
                                            .head_bytes = tls_wire_pack_get(get, head),
                                            .deadline_ns = deadline_ns });
}

int tls_send_ask(struct domain *domain, uint32_t rank, uint64_t offset, uint32_t bytes,
                 uint64_t call, uint64_t deadline_ns)
{
    struct tls_wire_get get = { .place = tls_place_of(domain, rank, offset),
                                .call = call,
                                .bytes = bytes };

    return send_ask(domain, rank, &get, deadline_ns);
}

int tls_send_get(struct domain *domain, uint32_t rank, uint64_t offset, void *to, uint64_t bytes)
{
    struct tls *t = comm_tls_of(shared_of(domain->comm));
    struct tls_call call = { .rank = domain->ranks[rank], .to = to, .bytes = bytes };
    uint64_t deadline_ns = comm_deadline(domain->comm->timeout_ns, 0);
    struct tls_wire_get get = { .place = tls_place_of(domain, rank, offset) };
    int status = PTO_OK;

    tls_send_begin_call(t, &call);
    get.call = call.number;
    while (get.to < bytes && status >= 0) {
        get.bytes = (uint32_t)(bytes - get.to < LANE_DATA_MAX ? bytes - get.to : LANE_DATA_MAX);
        status = send_ask(domain, rank, &get, deadline_ns);
        get.to += get.bytes;
        get.place.at += get.bytes;
        if (status >= 0 && get.to > ASKED_MAX)
            status = await_answers(t, &call, get.to - ASKED_MAX, 0, deadline_ns);
    }
    if (status >= 0)
        status = await_answers(t, &call, bytes, 0, deadline_ns);
    end_call(t, &call);
    return status;
}

int tls_send_word(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                  uint64_t call, uint64_t deadline_ns)
{
    struct tls_wire_signal wire = { .place = tls_place_of(domain, rank, signal->offset),
                                    .how = signal->how,
                                    .value = signal->value,
                                    .call = call };
    uint8_t head[TLS_WIRE_HEAD_MAX];

    return lane_send(lane_to(shared_of(domain->comm), domain->ranks[rank]),
                     &(struct lane_letter){ .kind = TLS_KIND_SIGNAL,
                                            .head = head,
                                            .head_bytes = tls_wire_pack_signal(&wire, head),
                                            .deadline_ns = deadline_ns });
}

int tls_send_signal(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                    int32_t *before_out)
{
    struct tls *t = comm_tls_of(shared_of(domain->comm));
    uint64_t deadline_ns = comm_deadline(domain->comm->timeout_ns, 0);
    struct tls_call call = { .rank = domain->ranks[rank] };
    int status;

    if (before_out == NULL)
        return tls_send_word(domain, rank, signal, 0, deadline_ns);
    tls_send_begin_call(t, &call);
    status = tls_send_word(domain, rank, signal, call.number, deadline_ns);
    if (status >= 0)
        status = await_answers(t, &call, 0, 1, deadline_ns);
    end_call(t, &call);
    if (status >= 0)
        *before_out = (int32_t)call.before;
    return status;
}
