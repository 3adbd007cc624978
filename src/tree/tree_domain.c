/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains over chips. If the chips can access the shared memory, windows and contexts lie in it, at
 * one address in all processes, so the worker opens a domain without its children. If the chips are
 * cards, windows and contexts are memory of the cards, and the memory here only represents them
 * (tree_cards.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "comm/comm.h"
#include "pto/worker_domain.h"
#include "tree/tree.h"
#include "tree/tree_domain.h"
#include "tree/tree_run.h"

/* The context that one member's kernels use, in an allocation that only its child may use. */
struct tree_context {
    struct pto_comm_context context;
    /* unused: kernels poll, and no host thread waits with this context */
    struct pto_comm_wakers wakers;
    struct a32 lost;
};

struct tree_domain {
    uint32_t number; /* index of the domain in tree->domain */
    char name[TREE_NAME];
    struct tree_run *run;     /* run that closes the domain when it ends; NULL: none */
    struct tree_domain *next; /* next in the list tree->leaving */
    /* the domain's part that lies on the cards; NULL: its chips can access the worker's memory */
    struct wire_domain *wire;
    bool is_opening; /* another thread is opening the domain, and has released the lock */
    bool is_released;
    bool is_lost;
    uint32_t users; /* number of arguments of live tasks that use the domain */
    uint32_t count;
    uint64_t window_bytes;
    struct {
        uint32_t chip;
        uint32_t generation; /* generation of the chip's child when the domain was opened */
        struct tree_context *context;
        /* address of the member's window; NULL: windows of this domain have no bytes */
        void *window;
    } member[];
};

/* ---- finding a domain ---- */

static uint64_t id_of(const struct tree *t, const struct tree_domain *d)
{
    return (uint64_t)t->domain_generation[d->number] << 32 | (d->number + 1);
}

static struct tree_domain *domain_find(struct tree *t, uint64_t id)
{
    uint64_t number = (id & UINT32_MAX) - 1;
    struct tree_domain *d = number < TREE_DOMAINS ? t->domain[number] : NULL;

    return d != NULL && !d->is_released && !d->is_opening &&
                   t->domain_generation[number] == id >> 32
               ? d
               : NULL;
}

static struct tree_domain *domain_find_name(struct tree *t, const char *name)
{
    for (uint32_t i = 0; i < TREE_DOMAINS; i++)
        if (t->domain[i] != NULL && !t->domain[i]->is_released &&
            strcmp(t->domain[i]->name, name) == 0)
            return t->domain[i];
    return NULL;
}

/* ---- opening a domain ---- */

static int check_chips(const struct tree *t, const struct pto_worker_domain_params *params,
                       struct pto_error *error)
{
    uint64_t taken = 0;

    for (uint32_t i = 0; i < params->chip_count; i++) {
        uint32_t chip = params->chips != NULL ? params->chips[i] : i;

        if (chip >= t->chip_count)
            return error_setf(error, PTO_EINVAL, "child %u is listed, but is not a chip", chip);
        if ((taken >> chip & 1) != 0)
            return error_setf(error, PTO_EINVAL, "chip %u is listed twice", chip);
        if (!child_is_ready(&t->child[chip]))
            return error_setf(error, PTO_EPEER,
                              "chip %u is dead; restart it with pto_worker_reopen", chip);
        taken |= 1ull << chip;
    }
    return PTO_OK;
}

static int domain_check_params(struct tree *t, const struct pto_worker_domain_params *params,
                               struct pto_error *error)
{
    if (params->name == NULL || params->name[0] == '\0' || strlen(params->name) >= TREE_NAME)
        return error_setf(error, PTO_EINVAL, "a domain has a name of 1 to %d bytes", TREE_NAME - 1);
    if (domain_find_name(t, params->name) != NULL)
        return error_setf(error, PTO_EBUSY, "there is a domain '%s' already; release it first",
                          params->name);
    if (params->chip_count == 0 || params->chip_count > t->chip_count)
        return error_setf(error, PTO_EINVAL, "the domain has %u chips, but the worker has only %u",
                          params->chip_count, t->chip_count);
    return check_chips(t, params, error);
}

static int make_member(struct tree *t, struct tree_domain *d, uint32_t rank, uint32_t chip)
{
    void *memory;
    int status = tree_alloc(t, (int32_t)chip, sizeof(struct tree_context), &memory);

    d->member[rank].chip = chip;
    d->member[rank].generation = t->child[chip].generation;
    if (status < 0)
        return status;
    tree_own_memory(t, memory, MEMORY_CONTEXT, d);
    d->member[rank].context = memory;
    if (d->window_bytes == 0)
        return PTO_OK;
    status = tree_alloc(t, (int32_t)chip, d->window_bytes, &memory);
    if (status < 0)
        return status;
    tree_own_memory(t, memory, MEMORY_WINDOW, d);
    d->member[rank].window = memory;
    return PTO_OK;
}

static void fill_contexts(struct tree_domain *d)
{
    char *window[PTO_CONTEXT_RANKS];
    struct domain room = { .rank_count = d->count,
                           .window_bytes = d->window_bytes,
                           .window = window };

    for (uint32_t i = 0; i < d->count; i++)
        window[i] = d->member[i].window;
    for (room.rank = 0; room.rank < d->count; room.rank++) {
        struct tree_context *c = d->member[room.rank].context;

        comm_context_fill(&room, &c->context);
        c->context.work_space = (uint64_t)(uintptr_t)&c->wakers;
        c->context.work_space_bytes = sizeof(c->wakers);
        c->wakers = (struct pto_comm_wakers){ .lost = (uint64_t)(uintptr_t)&c->lost.v };
    }
}

static void free_memory(struct tree *t, struct tree_domain *d)
{
    for (uint32_t i = 0; i < d->count; i++) {
        tree_disown_memory(t, d->member[i].context);
        tree_disown_memory(t, d->member[i].window);
    }
    if (d->wire != NULL)
        arena_give(t->arena, (char *)d->wire);
    free(d);
}

/* Whether no child uses a domain over cards any more. */
static bool domain_has_gone(const struct tree *t, const struct tree_domain *d)
{
    for (uint32_t i = 0; i < d->count; i++) {
        const struct tree_child *c = &t->child[d->member[i].chip];

        if (!tree_cards_has_left(d->wire, i) && c->state != CHILD_DEAD &&
            c->generation == d->member[i].generation)
            return false;
    }
    return true;
}

static void collect_leaving(struct tree *t)
{
    struct tree_domain **link = &t->leaving;

    while (*link != NULL) {
        struct tree_domain *d = *link;

        if (domain_has_gone(t, d)) {
            *link = d->next;
            free_memory(t, d);
        } else {
            link = &d->next;
        }
    }
}

static void domain_free(struct tree *t, struct tree_domain *d)
{
    t->domain[d->number] = NULL;
    t->domain_count--;
    if (d->wire == NULL) {
        free_memory(t, d);
        return;
    }
    d->is_released = true;
    tree_cards_end(t, d->wire);
    d->next = t->leaving;
    t->leaving = d;
}

/*
 * Opens the domain on its cards. Releases the lock while it waits; other threads cannot find the
 * domain yet.
 */
static int open_on_cards(struct tree *t, struct tree_domain *d, struct pto_error *error)
{
    int status;

    d->wire = tree_cards_make(t, d->count, d->window_bytes);
    if (d->wire == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for a domain");
    for (uint32_t i = 0; i < d->count; i++) {
        struct wire_member *m = &d->wire->member[i];

        m->child = d->member[i].chip;
        m->context = (uint64_t)(uintptr_t)&d->member[i].context->context;
        m->window = (uint64_t)(uintptr_t)d->member[i].window;
    }
    d->is_opening = true;
    status = tree_cards_open(t, d->wire, error);
    d->is_opening = false;
    return status;
}

static int domain_open(struct tree *t, const struct pto_worker_domain_params *params,
                       struct tree_run *run, uint64_t *domain_out, struct pto_error *error)
{
    struct tree_domain *d;
    uint32_t number = 0;
    int status = domain_check_params(t, params, error);

    assert_held(&t->lock);
    if (status < 0)
        return status;
    collect_leaving(t);
    while (number < TREE_DOMAINS && t->domain[number] != NULL)
        number++;
    if (number == TREE_DOMAINS)
        return error_setf(error, PTO_EAGAIN, "there are %d domains already", TREE_DOMAINS);
    d = calloc(1, sizeof(*d) + params->chip_count * sizeof(d->member[0]));
    if (d == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for a domain");
    d->number = number;
    d->run = params->is_retained ? NULL : run;
    d->count = params->chip_count;
    d->window_bytes = params->window_bytes;
    snprintf(d->name, sizeof(d->name), "%s", params->name);
    (void)pto_text_clean(d->name, true);
    t->domain[number] = d;
    t->domain_count++;
    t->domain_generation[number]++;
    for (uint32_t i = 0; i < d->count && status >= 0; i++)
        status = make_member(t, d, i, params->chips != NULL ? params->chips[i] : i);
    if (status < 0) {
        domain_free(t, d);
        return error_setf(error, status, "there is no memory for %u windows of %llu bytes",
                          params->chip_count, (unsigned long long)params->window_bytes);
    }
    if (!tree_has_cards(t)) {
        fill_contexts(d);
    } else {
        status = open_on_cards(t, d, error);
        if (status < 0) {
            domain_free(t, d);
            return status;
        }
    }
    *domain_out = id_of(t, d);
    return PTO_OK;
}

/* Reads the parameters of a caller; if it lists no chips, the domain has all. */
static int domain_read_params(const struct tree *t, const struct pto_worker_domain_params *given,
                              struct pto_worker_domain_params *params)
{
    pto_worker_domain_params_init(params);
    if (sized_read(params, sizeof(*params), given) < 0)
        return PTO_EINVAL;
    if (params->chips == NULL && params->chip_count == 0)
        params->chip_count = t->chip_count;
    return PTO_OK;
}

int pto_level_domain_open(struct pto_level *level, const struct pto_worker_domain_params *given,
                          uint64_t *domain_out)
{
    struct pto_worker_domain_params params;
    struct tree_run *run = tree_level_enter(level);
    struct pto_error error;
    int status;

    if (run == NULL)
        return PTO_EINVAL;
    pto_error_init(&error);
    if (run->report.error.status < 0)
        return tree_level_leave(run, run->report.error.status);
    if (domain_out == NULL || domain_read_params(run->tree, given, &params) < 0) {
        params.error = NULL;
        status = error_setf(&error, PTO_EINVAL,
                            "the parameters are not initialised: call "
                            "pto_worker_domain_params_init");
    } else {
        status = domain_open(run->tree, &params, run, domain_out, &error);
    }
    if (status >= 0)
        return tree_level_leave(run, PTO_OK);
    if (params.error != NULL)
        (void)error_setf(params.error, status, "%s", error.text);
    return tree_level_leave(run, tree_refuse(run, &error, NULL));
}

int pto_worker_domain_open(struct pto_worker *worker, const struct pto_worker_domain_params *given,
                           uint64_t *domain_out)
{
    struct pto_worker_domain_params params;
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if (domain_out == NULL || domain_read_params(t, given, &params) < 0)
        return PTO_EINVAL;
    pthread_mutex_lock(&t->lock);
    tree_drive(t);
    status = domain_open(t, &params, NULL, domain_out, params.error);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* ---- closing a domain ---- */

static void release(struct tree *t, struct tree_domain *d)
{
    d->is_released = true;
    d->run = NULL;
    if (d->users == 0)
        domain_free(t, d);
}

static int release_id(struct tree *t, uint64_t id)
{
    struct tree_domain *d = domain_find(t, id);

    if (d == NULL)
        return PTO_EINVAL;
    release(t, d);
    return PTO_OK;
}

int pto_level_domain_release(struct pto_level *level, uint64_t domain)
{
    struct tree_run *run = tree_level_enter(level);

    return run == NULL ? PTO_EINVAL : tree_level_leave(run, release_id(run->tree, domain));
}

int pto_worker_domain_release(struct pto_worker *worker, uint64_t domain)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    pthread_mutex_lock(&t->lock);
    tree_drive(t);
    status = release_id(t, domain);
    pthread_mutex_unlock(&t->lock);
    return status;
}

void tree_domains_of_run(struct tree *t, const struct tree_run *run)
{
    assert_held(&t->lock);
    for (uint32_t i = 0; i < TREE_DOMAINS && t->domain_count != 0; i++)
        if (t->domain[i] != NULL && t->domain[i]->run == run)
            release(t, t->domain[i]);
}

void tree_forget_domains(struct tree *t)
{
    for (uint32_t i = 0; i < TREE_DOMAINS; i++)
        free(t->domain[i]);
    while (t->leaving != NULL) {
        struct tree_domain *d = t->leaving;

        t->leaving = d->next;
        free(d);
    }
}

/* ---- use by tasks ---- */

int tree_domain_use(struct tree_domain *d, const char *what, struct pto_error *error)
{
    if (d->is_released)
        return error_setf(error, PTO_EINVAL, "%s belongs to domain '%s', which was released", what,
                          d->name);
    if (d->is_lost)
        return error_setf(
            error, PTO_EPEER,
            "%s belongs to domain '%s', which has lost a member; release it and open another one",
            what, d->name);
    d->users++;
    return PTO_OK;
}

static void domain_lose(struct tree *t, struct tree_domain *d)
{
    if (d->wire != NULL && !d->is_lost)
        tree_cards_lose(t, d->wire);
    d->is_lost = true;
    for (uint32_t i = 0; i < d->count; i++)
        /* mutation: tree-domain-silent */
        /* kernels that wait for other members poll this flag */
        a32_store_release(&d->member[i].context->lost, 1);
}

void tree_domain_lose(struct tree *t, struct tree_domain *d)
{
    assert_held(&t->lock);
    domain_lose(t, d);
}

void tree_domain_unuse(struct tree *t, struct tree_domain *d)
{
    assert_held(&t->lock);
    if (--d->users == 0 && d->is_released)
        domain_free(t, d);
}

void tree_domains_child_died(struct tree *t, uint32_t child)
{
    assert_held(&t->lock);
    for (uint32_t i = 0; i < TREE_DOMAINS; i++)
        for (uint32_t k = 0; t->domain[i] != NULL && k < t->domain[i]->count; k++)
            if (t->domain[i]->member[k].chip == child)
                domain_lose(t, t->domain[i]);
}

/* ---- describing a domain ---- */

static int describe_member(struct tree *t, uint64_t id, uint32_t rank,
                           struct pto_worker_member *member)
{
    struct tree_domain *d = domain_find(t, id);
    struct pto_worker_member known;

    if (d == NULL || rank >= d->count || member == NULL || !sized_is_valid(member))
        return PTO_EINVAL;
    pto_worker_member_init(&known);
    known.chip = d->member[rank].chip;
    known.context = (uint64_t)(uintptr_t)&d->member[rank].context->context;
    known.window = (uint64_t)(uintptr_t)d->member[rank].window;
    known.window_bytes = d->window_bytes;
    sized_write(member, &known, sizeof(known));
    return PTO_OK;
}

int pto_level_domain_member(struct pto_level *level, uint64_t domain, uint32_t rank,
                            struct pto_worker_member *member)
{
    struct tree_run *run = tree_level_enter(level);

    return run == NULL ? PTO_EINVAL
                       : tree_level_leave(run, describe_member(run->tree, domain, rank, member));
}

int pto_worker_domain_member(struct pto_worker *worker, uint64_t domain, uint32_t rank,
                             struct pto_worker_member *member)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    pthread_mutex_lock(&t->lock);
    status = describe_member(t, domain, rank, member);
    pthread_mutex_unlock(&t->lock);
    return status;
}

int pto_worker_domain_info(struct pto_worker *worker, uint64_t domain,
                           struct pto_worker_domain_info *info)
{
    struct pto_worker_domain_info known;
    const struct tree_domain *d;
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if (info == NULL || !sized_is_valid(info))
        return PTO_EINVAL;
    pto_worker_domain_info_init(&known);
    pthread_mutex_lock(&t->lock);
    tree_drive(t);
    d = domain_find(t, domain);
    if (d != NULL) {
        known.rank_count = d->count;
        known.window_bytes = d->window_bytes;
        known.users = d->users;
        known.is_lost = d->is_lost;
    }
    pthread_mutex_unlock(&t->lock);
    if (d == NULL)
        return PTO_EINVAL;
    sized_write(info, &known, sizeof(known));
    return PTO_OK;
}

int pto_worker_domain_find(struct pto_worker *worker, const char *name, uint64_t *domain_out)
{
    const struct tree_domain *d;
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if (name == NULL || domain_out == NULL)
        return PTO_EINVAL;
    pthread_mutex_lock(&t->lock);
    d = domain_find_name(t, name);
    if (d != NULL && d->is_opening)
        d = NULL;
    if (d != NULL)
        *domain_out = id_of(t, d);
    pthread_mutex_unlock(&t->lock);
    return d != NULL ? PTO_OK : PTO_EINVAL;
}
