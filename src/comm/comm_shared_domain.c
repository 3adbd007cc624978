/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains of ranks that share memory. Opening one takes two steps, so that no rank has it before
 * all have mapped each other's blocks:
 *
 *     publish an entry with the own block    wait for the entry of every member
 *     map their blocks, publish `ready`      wait until every member is ready
 *
 * A rank that finds a disagreement records it in its entry and leaves it there: the others find it,
 * whenever they read the entry, and fail as well. Each entry has a serial. A rank ignores an entry
 * that it joined before, so that ids can be used again while a slow rank still has an old one, and
 * entries of domains that it is not listed for, which may have the same id.
 *
 * A rank does not reuse an id that it failed to open: a rank that came late to that attempt would
 * mistake the next one for it.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/limit.h"
#include "base/lock.h"
#include "comm/comm_shared.h"

struct open_wait {
    struct shared *shared;
    struct shared_domain *domain;
    const struct domain_request *request;
    uint64_t digest;
    uint32_t next; /* members before this one have published their entries, or are ready */
    /* value of the next member's `published` when its directory was read last */
    uint32_t published;
    bool is_new; /* the next member's directory must be read even if `published` is equal */
    int status;  /* negative: the ranks disagree, or one gave up */
    struct pto_error *error;
};

static int shared_publish(struct open_wait *w);
static int await_members(struct open_wait *w, bool (*holds)(void *));
static bool have_all_published(void *context);
static bool are_all_ready(void *context);
static int map_members(struct open_wait *w);
static void shared_place_windows(struct shared_domain *sd, const struct domain_request *request);
static void shared_refuse(struct open_wait *w, uint32_t other, uint64_t other_bytes);
static void release_block(struct shared_domain *sd, bool is_free);

static const char NO_DOMAIN[] = "the domain cannot be opened";

static uint64_t page_up(uint64_t bytes)
{
    uint64_t page = os_page_bytes();

    return (bytes + page - 1) / page * page;
}

/*
 * Returns a hash of the parameters that must be equal on all ranks, except the window size, whose
 * difference has a separate error.
 */
static uint64_t digest_request(const struct domain_request *request)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    uint64_t words[3] = { request->rank_count,
                          request->parent != NULL ? request->parent->id : UINT64_MAX,
                          request->parent != NULL ? request->parent_offset : UINT64_MAX };

    for (uint32_t i = 0; i < 3; i++)
        hash = (hash ^ words[i]) * 0x100000001b3ull;
    for (uint32_t i = 0; i < request->rank_count; i++)
        hash = (hash ^ request->ranks[i]) * 0x100000001b3ull;
    return hash;
}

static struct shared_entry *own_entry(struct shared *s, const struct shared_domain *sd)
{
    return &s->own->entry[sd->entry];
}

/*
 * Returns the state of a member's entry that this rank has joined; ENTRY_FREE if the member has
 * closed the domain, even if the entry has another domain now. The serial is loaded after the
 * state: if the state is that of a later domain, so is the serial.
 */
static uint32_t peer_state(const struct shared_domain *sd, uint32_t rank)
{
    struct shared *s = shared_of(sd->base.comm);
    const struct shared_entry *e = &s->head[sd->base.ranks[rank]]->entry[sd->peer[rank].entry];
    uint32_t state = a32_load_acquire(&e->state); /* A31 */

    return a64_load_acquire(&e->serial) == sd->peer[rank].serial ? state : ENTRY_FREE;
}

static bool shared_is_open(uint32_t state)
{
    return state == ENTRY_PUBLISHED || state == ENTRY_READY;
}

bool shared_has_left(const struct shared_domain *sd, uint32_t rank)
{
    return !shared_is_open(peer_state(sd, rank)) ||
           shared_is_lost(sd->base.comm, sd->base.ranks[rank]);
}

bool shared_has_gone(const struct shared_domain *sd, uint32_t rank)
{
    return peer_state(sd, rank) == ENTRY_FREE ||
           shared_is_lost(sd->base.comm, sd->base.ranks[rank]);
}

/* Counts a change of this rank's directory, and wakes the members that may wait for it. */
static void notify_members(struct shared *s, const struct shared_domain *sd)
{
    (void)a32_add_acq_rel(&s->own->published, 1); /* R31 */
    if (s->remote != NULL)
        s->remote->send_entry(s, sd);
    shared_wake_members(s, &sd->base);
}

int shared_open_domain(struct comm *comm, const struct domain_request *request,
                       struct domain **domain_out, struct pto_error *error)
{
    struct domain *domain = comm_domain_make(sizeof(struct shared_domain), comm, request);
    struct open_wait w = { .shared = shared_of(comm),
                           .domain = (struct shared_domain *)(void *)domain,
                           .request = request,
                           .digest = digest_request(request),
                           .is_new = true,
                           .error = error };
    int status;

    if (domain == NULL)
        return PTO_ENOMEM;
    w.domain->peer = calloc(request->rank_count, sizeof(*w.domain->peer));
    /* if this rank does not get its turn in virtual time, the waits below fail as well */
    (void)shared_turn(w.shared);
    status = w.domain->peer != NULL ? shared_publish(&w) : PTO_ENOMEM;
    if (status < 0)
        goto free_domain;
    status = await_members(&w, have_all_published);
    if (status >= 0)
        status = map_members(&w);
    if (status >= 0) {
        a32_store_release(&own_entry(w.shared, w.domain)->state, ENTRY_READY); /* R31 */
        notify_members(w.shared, w.domain);
        w.next = 0;
        status = await_members(&w, are_all_ready);
    }
    if (status < 0)
        goto withdraw;
    shared_place_windows(w.domain, request);
    *domain_out = domain;
    return PTO_OK;

withdraw:
    shared_refuse(&w, UINT32_MAX, 0);
    release_block(w.domain, false);
free_domain:
    free(w.domain->peer);
    comm_domain_free(domain);
    return status;
}

/* ---- the entry of this rank ---- */

/*
 * Finds an entry of this rank's directory for a new domain. Refused entries are reused last,
 * because a slow rank may still read them. NULL: all are in use.
 */
static struct shared_entry *shared_find_place(struct shared *s)
{
    struct shared_entry *oldest = NULL;

    assert_held(&s->base.lock);
    for (uint32_t i = 0; i < SHARED_ENTRIES; i++) {
        struct shared_entry *e = &s->own->entry[i];
        uint32_t state = a32_load_relaxed(&e->state); /* relaxed: only this rank writes the state */

        if (state == ENTRY_FREE &&
            (oldest == NULL || a32_load_relaxed(&oldest->state) != ENTRY_FREE))
            oldest = e;
        if (state == ENTRY_REFUSED &&
            (oldest == NULL || (a32_load_relaxed(&oldest->state) == ENTRY_REFUSED &&
                                a64_load_relaxed(&e->serial) < a64_load_relaxed(&oldest->serial))))
            oldest = e;
    }
    return oldest;
}

/* Whether an earlier attempt of this rank to open a domain with this id has failed. */
static bool is_spent(struct shared *s, uint64_t id)
{
    bool is_found = false;

    pthread_mutex_lock(&s->base.lock);
    for (uint32_t i = 0; i < SHARED_ENTRIES && !is_found; i++)
        /* relaxed: only this rank writes its entries */
        is_found = a32_load_relaxed(&s->own->entry[i].state) == ENTRY_REFUSED &&
                   a64_load_relaxed(&s->own->entry[i].id) == id;
    pthread_mutex_unlock(&s->base.lock);
    return is_found;
}

/* Fills in an entry of this rank's directory and publishes it. False: all are in use. */
static bool fill_entry(struct open_wait *w, enum entry_state state)
{
    struct shared *s = w->shared;
    struct shared_domain *sd = w->domain;
    const struct domain_request *r = w->request;
    struct shared_entry *e = shared_find_place(s);

    assert_held(&s->base.lock); /* the lock protects `serial` */
    if (e == NULL)
        return false;
    sd->entry = sd->peer[r->rank].entry = (uint32_t)(e - s->own->entry);
    sd->peer[r->rank].serial = ++s->serial;
    a32_store_release(&e->state, ENTRY_FREE);
    a64_store_release(&e->serial, s->serial);
    fence_full(); /* R31: a reader of the new domain's fields below finds the new serial */
    a64_store_relaxed(&e->id, r->id);
    a64_store_relaxed(&e->digest, w->digest);
    a64_store_relaxed(&e->window_bytes, r->window_bytes);
    a64_store_relaxed(&e->offset, sd->offset);
    a64_store_relaxed(&e->mirrors, sd->peer[r->rank].mirrors_offset);
    a32_store_relaxed(&e->host_first, sd->peer[r->rank].host_first);
    a32_store_relaxed(&e->host_index, sd->peer[r->rank].host_index);
    a32_store_relaxed(&e->host_count, sd->peer[r->rank].host_count);
    a32_store_relaxed(&e->other, UINT32_MAX);
    for (uint32_t i = 0; i < SHARED_MEMBER_WORDS; i++)
        a64_store_relaxed(&e->member[i], 0);
    for (uint32_t i = 0; i < r->rank_count; i++) {
        struct a64 *word = &e->member[r->ranks[i] / 64];

        a64_store_relaxed(word, a64_load_relaxed(word) | 1ull << r->ranks[i] % 64);
    }
    a32_store_release(&e->state, state); /* R31 */
    return true;
}

static void fill_wakers(const struct shared *s, struct shared_domain *sd)
{
    sd->wakers.lost = (uint64_t)(uintptr_t)&s->own->lost;
    for (uint32_t i = 0; i < sd->base.rank_count && i < PTO_CONTEXT_RANKS; i++)
        sd->wakers.rank[i] = (uint64_t)(uintptr_t)&s->head[sd->base.ranks[i]]->waker;
    sd->context.work_space = (uint64_t)(uintptr_t)&sd->wakers;
    sd->context.work_space_bytes = sizeof(sd->wakers);
}

/*
 * Allocates this rank's block and publishes its entry. If there is no memory, publishes that the
 * domain cannot be opened.
 */
static int shared_publish(struct open_wait *w)
{
    struct shared *s = w->shared;
    struct shared_domain *sd = w->domain;
    const struct domain_request *r = w->request;
    char *block = NULL;
    char why[LIMIT_TEXT];
    bool is_filled;
    int status, number;

    if (is_spent(s, r->id))
        return error_setf(
            w->error, PTO_EBUSY,
            "an earlier attempt to open domain %llu failed; retry with another id on all ranks",
            (unsigned long long)r->id);
    sd->block_bytes = SHARED_CONTROL_BYTES + SHARED_SCRATCH_BYTES +
                      (r->parent == NULL ? page_up(r->window_bytes) : 0);
    errno = 0;
    status = s->memory->alloc(s, sd->block_bytes, &sd->offset, &block);
    if (status >= 0 && s->remote != NULL) {
        status = s->remote->make_mirrors(s, sd);
        if (status < 0)
            s->memory->free(s, sd->offset, sd->block_bytes, block, true);
    }
    number = status < 0 && errno != 0 ? errno : ENOMEM;
    sd->peer[r->rank].control = (struct shared_control *)(void *)block;
    pthread_mutex_lock(&s->base.lock);
    is_filled = fill_entry(w, status >= 0 ? ENTRY_PUBLISHED : ENTRY_REFUSED);
    pthread_mutex_unlock(&s->base.lock);
    if (is_filled)
        notify_members(s, sd);
    if (status < 0) {
        shared_alarm(s, &sd->base);
        return error_setf(w->error, status, "there is no memory for a window of %llu bytes: %s",
                          (unsigned long long)r->window_bytes, limit_explain(number, why));
    }
    if (!is_filled) {
        if (s->remote != NULL)
            s->remote->free_mirrors(s, sd, true);
        s->memory->free(s, sd->offset, sd->block_bytes, block, true);
        return error_setf(w->error, PTO_ENOMEM, "%d domains are open, which is the limit",
                          SHARED_ENTRIES);
    }
    fill_wakers(s, sd);
    return PTO_OK;
}

/* Marks the entry of this rank as refused; only the first reason is kept. */
static void shared_refuse(struct open_wait *w, uint32_t other, uint64_t other_bytes)
{
    struct shared_entry *e = own_entry(w->shared, w->domain);

    if (a32_load_relaxed(&e->state) == ENTRY_REFUSED) /* relaxed: only this rank writes the state */
        return;
    a32_store_relaxed(&e->other, other);
    a64_store_relaxed(&e->other_bytes, other_bytes);
    a32_store_release(&e->state, ENTRY_REFUSED); /* R31 */
    notify_members(w->shared, w->domain);
    shared_alarm(w->shared, &w->domain->base);
}

/* ---- the entries of others ---- */

/* A copy of another rank's entry, which its owner may change at any time. */
struct entry_copy {
    uint32_t state, other;
    uint64_t serial, id, digest, window_bytes, offset, other_bytes, mirrors;
    uint32_t host_first, host_index, host_count;
    bool is_for_us;
};

/* Copies an entry consistently. False: the entry is being changed, or empty. */
static bool shared_copy_entry(const struct shared *s, const struct shared_entry *e,
                              struct entry_copy *copy)
{
    uint32_t own = s->base.rank;

    copy->state = a32_load_acquire(&e->state); /* A31 */
    if (copy->state == ENTRY_FREE)
        return false;
    copy->serial = a64_load_acquire(&e->serial);
    copy->other = a32_load_relaxed(&e->other);
    copy->id = a64_load_relaxed(&e->id);
    copy->digest = a64_load_relaxed(&e->digest);
    copy->window_bytes = a64_load_relaxed(&e->window_bytes);
    copy->offset = a64_load_relaxed(&e->offset);
    copy->other_bytes = a64_load_relaxed(&e->other_bytes);
    copy->mirrors = a64_load_relaxed(&e->mirrors);
    copy->host_first = a32_load_relaxed(&e->host_first);
    copy->host_index = a32_load_relaxed(&e->host_index);
    copy->host_count = a32_load_relaxed(&e->host_count);
    copy->is_for_us = (a64_load_relaxed(&e->member[own / 64]) >> own % 64 & 1) != 0;
    fence_full(); /* A31 */
    return a64_load_relaxed(&e->serial) == copy->serial &&
           a32_load_relaxed(&e->state) != ENTRY_FREE;
}

static struct a64 *seen_of(struct shared *s, uint32_t rank, uint32_t entry)
{
    return &s->seen[(size_t)rank * SHARED_ENTRIES + entry];
}

/*
 * Finds the entry of a member for this domain's id that this rank has not joined before. False:
 * there is none yet.
 */
static bool shared_find_entry(struct open_wait *w, uint32_t member, struct entry_copy *copy)
{
    struct shared *s = w->shared;
    uint32_t rank = w->request->ranks[member];

    for (uint32_t i = 0; i < SHARED_ENTRIES; i++)
        if (shared_copy_entry(s, &s->head[rank]->entry[i], copy) && copy->id == w->request->id &&
            copy->is_for_us && copy->state != ENTRY_LEAVING &&
            copy->serial != a64_load_relaxed(seen_of(s, rank, i))) {
            w->domain->peer[member].entry = i;
            return true;
        }
    return false;
}

/*
 * Reports that this rank and another disagree: sets the error here, and records it in this rank's
 * entry for the others.
 */
static int shared_report_difference(struct open_wait *w, uint32_t rank, uint64_t bytes)
{
    uint32_t own = w->shared->base.rank;

    shared_refuse(w, rank, bytes);
    if (bytes == w->request->window_bytes)
        return comm_error_set(
            w->error, PTO_EINVAL, rank,
            "rank %u opens domain %llu with other ranks, or inside another domain, "
            "than rank %u",
            rank, (unsigned long long)w->request->id, own);
    return comm_error_set(
        w->error, PTO_EINVAL, rank,
        "windows of domain %llu have %llu bytes on rank %u and %llu on rank %u: they "
        "have to be equal",
        (unsigned long long)w->request->id, (unsigned long long)w->request->window_bytes, own,
        (unsigned long long)bytes, rank);
}

/* Checks the entry of a member against this rank's parameters. */
static int agree(struct open_wait *w, uint32_t member, const struct entry_copy *copy)
{
    uint32_t rank = w->request->ranks[member];

    if (copy->digest != w->digest || copy->window_bytes != w->request->window_bytes)
        return shared_report_difference(w, rank, copy->window_bytes);
    if (copy->state != ENTRY_REFUSED)
        return PTO_OK;
    if (copy->other == UINT32_MAX && shared_is_lost(&w->shared->base, rank))
        return shared_report_lost(w->shared, rank, NO_DOMAIN, w->error);
    if (copy->other == UINT32_MAX)
        return comm_error_set(w->error, PTO_EPEER, rank, "rank %u gave up opening domain %llu",
                              rank, (unsigned long long)w->request->id);
    return shared_report_difference(w, copy->other, copy->other_bytes);
}

/* Records where the member's block is, and compares its parameters with this rank's. */
static void shared_join(struct open_wait *w, uint32_t member, const struct entry_copy *copy)
{
    struct shared *s = w->shared;
    struct shared_peer *peer = &w->domain->peer[member];
    uint32_t rank = w->request->ranks[member];

    peer->serial = copy->serial;
    peer->offset = copy->offset;
    peer->mirrors_offset = copy->mirrors;
    peer->host_first = copy->host_first;
    peer->host_index = copy->host_index;
    peer->host_count = copy->host_count;
    a64_store_relaxed(seen_of(s, rank, peer->entry), copy->serial);
    w->status = agree(w, member, copy);
}

/* Whether the next member has published its entry. Its directory is read only if it has changed. */
static bool has_published(struct open_wait *w)
{
    const struct shared_head *head = w->shared->head[w->request->ranks[w->next]];
    uint32_t published = a32_load_acquire(&head->published); /* A31 */
    struct entry_copy copy;

    if (w->next == w->request->rank)
        return true;
    if (!w->is_new && published == w->published)
        return false;
    w->is_new = false;
    w->published = published;
    if (!shared_find_entry(w, w->next, &copy))
        return false;
    shared_join(w, w->next, &copy);
    return true;
}

static bool have_all_published(void *context)
{
    struct open_wait *w = context;

    while (w->status >= 0 && w->next < w->request->rank_count) {
        if (!has_published(w))
            return false;
        w->next++;
        w->is_new = true;
    }
    return true;
}

/* Returns the state of a member that was joined. If it refuses, the opening fails. */
static uint32_t look_at_member(struct open_wait *w, uint32_t member)
{
    const struct shared_peer *peer = &w->domain->peer[member];
    const struct shared_head *head = w->shared->head[w->request->ranks[member]];
    uint32_t state = peer_state(w->domain, member);
    struct entry_copy copy;

    if (state == ENTRY_REFUSED && shared_copy_entry(w->shared, &head->entry[peer->entry], &copy) &&
        copy.serial == peer->serial)
        w->status = agree(w, member, &copy);
    return state;
}

/*
 * A member that has already opened and closed the domain counts as ready, because it was ready
 * before.
 */
static bool are_all_ready(void *context)
{
    struct open_wait *w = context;

    for (; w->status >= 0 && w->next < w->request->rank_count; w->next++)
        if (look_at_member(w, w->next) == ENTRY_PUBLISHED)
            return false;
    return true;
}

/*
 * Called when a rank is lost: any member that is lost or refuses ends the opening, even if another
 * one is waited for now.
 */
static int judge_open(void *context)
{
    struct open_wait *w = context;

    /* before the wait is given up, the next member's directory is read once more */
    w->is_new = true;
    for (uint32_t i = 0; i < w->request->rank_count && w->status >= 0; i++) {
        /* state that is assumed for a member that was not joined */
        uint32_t rank = w->request->ranks[i], state = ENTRY_PUBLISHED;
        struct entry_copy copy;

        if (i == w->request->rank)
            continue;
        if (w->domain->peer[i].serial != 0)
            state = look_at_member(w, i);
        else if (shared_find_entry(w, i, &copy))
            state = copy.state;
        if (w->domain->peer[i].serial == 0 && state == ENTRY_REFUSED)
            shared_join(w, i, &copy);
        if (w->status >= 0 && state == ENTRY_PUBLISHED && shared_is_lost(&w->shared->base, rank))
            return shared_report_lost(w->shared, rank, NO_DOMAIN, w->error);
    }
    return w->status;
}

static int await_members(struct open_wait *w, bool (*holds)(void *))
{
    uint32_t rank;
    int status = shared_await(
        w->shared, &(struct shared_wait){ .holds = holds,
                                          .judge = judge_open,
                                          .context = w,
                                          .timeout_ns = comm_time_left(w->request->deadline_ns),
                                          .what = NO_DOMAIN,
                                          .error = w->error });

    if (w->status < 0)
        return w->status;
    if (status != PTO_ETIMEOUT)
        return status;
    rank = w->request->ranks[w->next];
    return comm_error_set(w->error, PTO_ETIMEOUT, rank, "rank %u did not open domain %llu in time",
                          rank, (unsigned long long)w->request->id);
}

static int map_members(struct open_wait *w)
{
    struct shared *s = w->shared;

    for (uint32_t i = 0; i < w->request->rank_count; i++) {
        struct shared_peer *peer = &w->domain->peer[i];
        uint32_t rank = w->request->ranks[i];

        if (i == w->request->rank || shared_is_remote(s, rank))
            continue;
        peer->control = (struct shared_control *)(void *)s->memory->map(s, rank, peer->offset,
                                                                        w->domain->block_bytes);
        if (peer->control == NULL)
            return comm_error_set(w->error, PTO_ENOMEM, rank,
                                  "the window of rank %u, %llu bytes, cannot be mapped", rank,
                                  (unsigned long long)w->request->window_bytes);
    }
    return s->remote != NULL ? s->remote->map_mirrors(s, w->domain, w->error) : PTO_OK;
}

/*
 * Sets the addresses of windows. A window follows the scratch memory of collectives in the rank's
 * shared memory; that of a derived domain is a part of the parent domain's window.
 */
static void shared_place_windows(struct shared_domain *sd, const struct domain_request *request)
{
    struct domain *domain = &sd->base;

    bool has_all = true;

    for (uint32_t i = 0; i < domain->rank_count && domain->parent == NULL; i++)
        if (!shared_is_remote(shared_of(domain->comm), domain->ranks[i]))
            domain->window[i] = shared_scratch(sd, i) + SHARED_SCRATCH_BYTES;
    if (domain->parent != NULL)
        comm_place_in_parent(domain, request->parent_offset);
    domain->own = domain->window[domain->rank];
    domain->rounds = domain;
    for (uint32_t i = 0; i < domain->rank_count; i++)
        has_all = has_all && domain->window[i] != NULL;
    if (domain->rank_count > PTO_CONTEXT_RANKS || !has_all)
        return;
    domain->context = (uint64_t)(uintptr_t)&sd->context;
    comm_context_fill(domain, &sd->context);
}

/* ---- closing ---- */

/*
 * Replaces the mapping of a block by a private copy if the windows are kept. False: it could not be
 * copied, so it is still shared.
 */
static bool keep_block(struct shared_domain *sd, uint32_t rank)
{
    const struct shared_memory *memory = shared_of(sd->base.comm)->memory;
    char *at = (char *)sd->peer[rank].control;
    bool is_copied;

    if (memory->copy == NULL || at == NULL || !comm_is_kept(&sd->base))
        return true;
    is_copied = memory->copy(at, sd->block_bytes);
    comm_keep_piece(sd->base.kept, at, sd->block_bytes);
    sd->peer[rank].control = NULL;
    return is_copied;
}

/* Copies the blocks of peers while they are intact: peers zero them after all have left. */
static void keep_peers(struct shared_domain *sd)
{
    for (uint32_t i = 0; i < sd->base.rank_count; i++)
        if (i != sd->base.rank)
            (void)keep_block(sd, i);
}

/* Unmaps the blocks of peers, and frees the block of this rank. */
static void release_block(struct shared_domain *sd, bool is_free)
{
    struct shared *s = shared_of(sd->base.comm);

    if (!keep_block(sd, sd->base.rank))
        is_free = false;
    if (s->remote != NULL)
        s->remote->free_mirrors(s, sd, is_free);
    for (uint32_t i = 0; i < sd->base.rank_count; i++)
        if (s->memory->unmap != NULL && i != sd->base.rank && sd->peer[i].control != NULL &&
            !shared_is_remote(s, sd->base.ranks[i]))
            s->memory->unmap(s, sd->base.ranks[i], (char *)sd->peer[i].control, sd->block_bytes);
    s->memory->free(s, sd->offset, sd->block_bytes, (char *)sd->peer[sd->base.rank].control,
                    is_free);
}

void shared_keep(struct domain *domain, struct pto_windows *windows)
{
    struct shared *s = shared_of(domain->comm);

    if (s->memory->keep != NULL)
        s->memory->keep(s, windows);
}

static bool have_all_left(void *context)
{
    const struct shared_domain *sd = context;

    for (uint32_t i = 0; i < sd->base.rank_count; i++)
        if (!shared_has_left(sd, i))
            return false;
    return true;
}

static const char NOT_ALL[] = "this rank closed the domain, but not all ranks did";

/* Sets the error unless every member left by closing the domain. */
static int report_left(struct shared_domain *sd, int status, struct pto_error *error)
{
    struct comm_names missing = { 0 };
    struct shared *s = shared_of(sd->base.comm);

    for (uint32_t i = 0; i < sd->base.rank_count; i++) {
        if (!shared_is_open(peer_state(sd, i)))
            continue;
        if (status >= 0)
            return shared_report_lost(s, sd->base.ranks[i], NOT_ALL, error);
        comm_names_add(&missing, sd->base.ranks[i]);
    }
    if (missing.count == 0)
        return PTO_OK; /* the last missing member has left since the wait timed out */
    if (status != PTO_ETIMEOUT)
        return status;
    return comm_error_set(
        error, status, missing.first, "rank%s %s did not close domain %llu in time",
        missing.count == 1 ? "" : "s", missing.text, (unsigned long long)sd->base.id);
}

int shared_close_domain(struct domain *domain, uint64_t deadline_ns, struct pto_error *error)
{
    struct shared_domain *sd = shared_domain_of(domain);
    struct shared *s = shared_of(domain->comm);
    int status = PTO_OK;

    keep_peers(sd);
    /* if this rank does not get its turn in virtual time, the wait below fails as well */
    (void)shared_turn(s);
    a32_store_release(&own_entry(s, sd)->state, ENTRY_LEAVING); /* R31 */
    if (s->remote != NULL)
        s->remote->send_entry(s, sd);
    shared_alarm(s, domain);
    if (deadline_ns != 0) {
        status = shared_await(s, &(struct shared_wait){ .holds = have_all_left,
                                                        .context = sd,
                                                        .timeout_ns = comm_time_left(deadline_ns),
                                                        .what = NOT_ALL,
                                                        .error = error });
        status = report_left(sd, status, error);
    }
    /* Memory is reused only if no peer may still write to it. */
    release_block(sd, deadline_ns != 0 && status >= 0);
    pthread_mutex_lock(&domain->comm->lock);
    a32_store_release(&own_entry(s, sd)->state, ENTRY_FREE); /* R31 */
    pthread_mutex_unlock(&domain->comm->lock);
    free(sd->peer);
    comm_domain_free(domain);
    return status;
}
