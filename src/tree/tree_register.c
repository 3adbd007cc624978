/* SPDX-License-Identifier: Apache-2.0 */
/* Callables: registers them with the worker, and records which children have loaded them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/os.h"
#include "base/sized.h"
#include "tree/tree.h"
#include "tree/tree_run.h"
#include "tree/tree_trace.h"

enum { FILE_MAX = 1 << 30 };

struct tree_callable *tree_find_callable(struct tree *t, uint64_t number)
{
    uint64_t index = (number & UINT32_MAX) - 1;
    struct tree_callable *k = index < TREE_CALLABLES ? &t->callable[index] : NULL;

    assert_held(&t->lock);
    return k != NULL && k->users != 0 && k->is_settled && k->generation == number >> 32 ? k : NULL;
}

uint64_t tree_control_deadline(const struct tree *t)
{
    return tree_time_after(t->params.control_timeout_ns);
}

uint64_t tree_callable_number(const struct tree *t, const struct tree_callable *k)
{
    return (uint64_t)k->generation << 32 | (uint64_t)(k - t->callable + 1);
}

/* ---- requests to children ---- */

static bool is_answered(void *context)
{
    return ((const struct tree_request *)context)->is_answered;
}

struct room {
    struct tree *tree;
    uint64_t children;
    uint32_t bytes;
};

static bool register_has_room(void *context)
{
    const struct room *room = context;

    for (uint64_t rest = room->children; rest != 0; rest &= rest - 1) {
        struct tree_child *c = &room->tree->child[__builtin_ctzll(rest)];

        if (c->state == CHILD_READY && !channel_has_room(&c->link.line->out, room->bytes))
            return false;
    }
    return true;
}

/*
 * Sends a request to each child of the set, and waits for all answers. *agreed_out is the set of
 * children that succeeded. Returns the first child's error; a time-out takes precedence. The lock
 * is held while the requests are sent, so all children receive the requests of different threads in
 * one order.
 */
static int register_ask(struct tree *t, const struct record_head *head,
                        const struct wire_load *load, uint64_t children, uint64_t *agreed_out,
                        struct pto_error *error)
{
    struct tree_request request[TREE_CHILDREN_MAX] = { { .next = NULL } };
    uint64_t deadline_ns = tree_control_deadline(t);
    struct record_part part = { load, load != NULL ? sizeof(*load) : 0 };
    struct room room = { t, children, part.size };
    int status = PTO_OK;

    assert_held(&t->lock);
    *agreed_out = 0;
    (void)tree_await(t, register_has_room, &room, deadline_ns);
    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_child *c = &t->child[i];
        struct record_head whole = *head;

        if ((children >> i & 1) == 0)
            continue;
        whole.key = request[i].key = ++t->key;
        request[i].child = i;
        request[i].next = t->requests;
        t->requests = &request[i];
        if (c->state != CHILD_READY || !line_send(c->link.line, &whole, &part, load != NULL)) {
            request[i].is_answered = true;
            request[i].status = PTO_EPEER;
            snprintf(request[i].text, sizeof(request[i].text), "it is dead, or does not read");
        }
    }
    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_request **link = &t->requests;

        if ((children >> i & 1) == 0)
            continue;
        if (tree_await(t, is_answered, &request[i], deadline_ns) < 0) {
            request[i].status = PTO_ETIMEOUT;
            snprintf(request[i].text, sizeof(request[i].text), "no answer within %.3f s",
                     (double)t->params.control_timeout_ns / 1e9);
        }
        while (*link != &request[i])
            link = &(*link)->next;
        *link = request[i].next;
        if (request[i].status >= 0)
            *agreed_out |= 1ull << i;
        /* the error of a time-out replaces the error of another child */
        else if (status >= 0 || request[i].status == PTO_ETIMEOUT)
            status = error_setf(error, request[i].status, "child %u: %s", i, request[i].text);
    }
    return status;
}

int tree_ask(struct tree *t, const struct record_head *head, uint64_t children,
             struct pto_error *error)
{
    uint64_t agreed;

    return register_ask(t, head, NULL, children, &agreed, error);
}

static enum load_form load_form(const struct tree_callable *k)
{
    return k->byte_count > 4 && memcmp(k->bytes, "\177ELF", 4) == 0 ? LOAD_OBJECT : LOAD_OTHER;
}

int tree_load(struct tree *t, struct tree_callable *k, uint64_t children, uint64_t *loaded_out,
              struct pto_error *error)
{
    const struct record_head head = { .kind = RECORD_LOAD, .value = (uint64_t)(k - t->callable) };
    struct wire_load load = { .bytes = k->byte_count };
    char *memory = arena_take(t->arena, k->byte_count);
    int status;

    *loaded_out = 0;
    if (memory == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no shared memory left for '%s'", k->name);
    memcpy(memory, k->bytes, k->byte_count);
    load.addr = (uint64_t)(uintptr_t)memory;
    load.kind = (uint32_t)k->kind;
    load.is_below = k->is_below;
    load.generation = k->generation;
    load.form = (uint32_t)load_form(k);
    memcpy(load.symbol, k->symbol, sizeof(load.symbol));
    memcpy(load.name, k->name, sizeof(load.name));
    status = register_ask(t, &head, &load, children, loaded_out, error);
    /* after a time-out a child may still read the bytes: they are kept until the worker closes */
    if (status != PTO_ETIMEOUT)
        arena_give(t->arena, memory);
    return status;
}

static void register_unload(struct tree *t, const struct tree_callable *k, uint64_t children)
{
    const struct record_head head = { .kind = RECORD_UNLOAD, .value = (uint64_t)(k - t->callable) };
    uint64_t agreed;

    /* ignored: a child that does not answer is dead, or will be killed */
    (void)register_ask(t, &head, NULL, children, &agreed, NULL);
}

/* ---- registering callables ---- */

static void free_callable(struct tree_callable *k)
{
    uint32_t generation = k->generation;

    free(k->bytes);
    *k = (struct tree_callable){ .generation = generation };
}

void tree_forget_callables(struct tree *t)
{
    for (uint32_t i = 0; i < TREE_CALLABLES; i++)
        free_callable(&t->callable[i]);
}

/*
 * Returns the set of children that the parameters select; 0: they are invalid, and the error has
 * the reason.
 */
static uint64_t register_choose(const struct tree *t, const struct pto_worker_callable *params,
                                struct pto_error *error)
{
    enum pto_child_kind kind = params->is_below ? PTO_CHILD_WORKER : params->kind;
    uint64_t fit = 0;

    for (uint32_t i = 0; i < t->child_count; i++)
        if (t->child[i].kind == kind)
            fit |= 1ull << i;
    if (fit == 0)
        (void)error_setf(error, PTO_EINVAL, "the worker has no %ss", tree_kind_name(kind));
    else if ((params->children & ~fit) != 0)
        (void)error_setf(error, PTO_EINVAL, "children %#llx are not all %ss of the worker",
                         (unsigned long long)params->children, tree_kind_name(kind));
    else
        return params->children != 0 ? params->children : fit;
    return 0;
}

/* Fills a new callable from the parameters, with a copy of its bytes. */
static int register_prepare(const struct tree *t, const struct pto_worker_callable *params,
                            struct tree_callable *k, struct pto_error *error)
{
    const char *symbol = params->symbol != NULL ? params->symbol : "";
    const char *name = params->name != NULL ? params->name
                       : symbol[0] != '\0'  ? symbol
                                            : "callable";
    struct digest_state state;
    char *bytes = NULL;
    size_t size = params->byte_count;

    *k = (struct tree_callable){ .kind = params->kind,
                                 .is_below = (uint32_t)params->is_below,
                                 .children = register_choose(t, params, error) };
    if (k->children == 0)
        return PTO_EINVAL;
    if (strlen(symbol) >= TREE_SYMBOL)
        return error_setf(error, PTO_EINVAL, "the symbol has more than %d bytes", TREE_SYMBOL - 1);
    if ((params->bytes == NULL) == (params->path == NULL) || (params->bytes != NULL && size == 0))
        return error_setf(error, PTO_EINVAL, "a callable has either bytes or a path");
    if (params->path != NULL && file_read(params->path, FILE_MAX, &bytes, &size) < 0)
        return error_setf(error, PTO_ELOAD, "%.300s cannot be read: %s", params->path,
                          strerror(errno));
    if (params->bytes != NULL && (bytes = malloc(size)) != NULL)
        memcpy(bytes, params->bytes, size);
    if (bytes == NULL || size == 0) {
        free(bytes);
        return error_setf(error, bytes == NULL ? PTO_ENOMEM : PTO_EFORMAT, "the callable is empty");
    }
    k->bytes = bytes;
    k->byte_count = size;
    if (params->kind != PTO_CHILD_CHIP && symbol[0] == '\0' && load_form(k) == LOAD_OBJECT) {
        free(bytes);
        return error_setf(error, PTO_EINVAL, "a function for %ss needs its name: symbol",
                          tree_kind_name(params->kind));
    }
    snprintf(k->symbol, sizeof(k->symbol), "%s", symbol);
    snprintf(k->name, sizeof(k->name), "%s", name);
    (void)pto_text_clean(k->name, true);
    digest_begin(&state);
    digest_add(&state, &k->kind, sizeof(k->kind));
    digest_add(&state, &k->is_below, sizeof(k->is_below));
    digest_add(&state, &k->children, sizeof(k->children));
    digest_add_text(&state, k->symbol);
    digest_add(&state, bytes, size);
    digest_end(&state, &k->digest);
    return PTO_OK;
}

static bool is_settled(void *context)
{
    const struct tree_callable *k = context;

    return k->users == 0 || k->is_settled;
}

/*
 * Returns a callable with the same digest, which another thread may be registering just now. NULL:
 * there is none.
 */
static struct tree_callable *find_equal(struct tree *t, const struct digest *digest)
{
    for (uint32_t i = 0; i < TREE_CALLABLES; i++) {
        struct tree_callable *k = &t->callable[i];

        if (k->users != 0 && digest_is_equal(&k->digest, digest)) {
            (void)tree_await(t, is_settled, k, tree_control_deadline(t));
            if (k->users != 0 && k->is_settled && digest_is_equal(&k->digest, digest))
                return k;
        }
    }
    return NULL;
}

static int add_callable(struct tree *t, struct tree_callable *made, uint64_t *callable_out,
                        struct pto_error *error)
{
    struct tree_callable *k = find_equal(t, &made->digest);
    uint64_t loaded;
    int status;

    if (k != NULL) {
        k->users++;
        *callable_out = tree_callable_number(t, k);
        free(made->bytes);
        return PTO_OK;
    }
    for (k = t->callable;
         k < t->callable + TREE_CALLABLES && (k->users != 0 || k->is_number_retired); k++) {
    }
    if (k == t->callable + TREE_CALLABLES) {
        free(made->bytes);
        return error_setf(error, PTO_EAGAIN, "there are %d callables already", TREE_CALLABLES);
    }
    made->generation = k->generation + 1;
    *k = *made;
    k->users = 1;
    tree_show_name(t, k);
    status = tree_load(t, k, k->children, &loaded, error);
    if (status < 0) {
        register_unload(t, k, loaded);
        free_callable(k);
        /* a child that has not answered may still load it later */
        k->is_number_retired = status == PTO_ETIMEOUT;
    } else {
        k->is_settled = true;
        *callable_out = tree_callable_number(t, k);
    }
    tree_signal_change(t);
    return status;
}

/* ---- callables that the worker above registers ---- */

int tree_register_below(struct tree *t, uint32_t index, const struct wire_load *load,
                        struct pto_error *error)
{
    struct pto_worker_callable params;
    struct tree_callable *k = &t->callable[index];
    struct tree_callable made;
    uint64_t loaded;
    int status;

    pto_worker_callable_init(&params);
    params.kind = (enum pto_child_kind)load->kind;
    params.is_below = load->is_below - 1;
    params.name = load->name;
    params.bytes = (const void *)(uintptr_t)load->addr;
    params.byte_count = load->bytes;
    params.symbol = load->symbol[0] != '\0' ? load->symbol : NULL;
    status = register_prepare(t, &params, &made, error);
    if (status < 0)
        return status;
    made.generation = load->generation;
    made.users = 1;
    pthread_mutex_lock(&t->lock);
    *k = made;
    tree_show_name(t, k);
    status = tree_load(t, k, k->children, &loaded, error);
    if (status < 0) {
        register_unload(t, k, loaded);
        free_callable(k);
    } else {
        k->is_settled = true;
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

void tree_unregister_below(struct tree *t, uint32_t index)
{
    struct tree_callable *k = &t->callable[index];

    pthread_mutex_lock(&t->lock);
    if (k->users != 0) {
        k->is_settled = false;
        register_unload(t, k, k->children);
        free_callable(k);
    }
    pthread_mutex_unlock(&t->lock);
}

/* ---- public functions ---- */

int pto_worker_register(struct pto_worker *worker, const struct pto_worker_callable *given,
                        uint64_t *callable_out)
{
    struct pto_worker_callable params;
    struct tree_callable made;
    int status;
    struct tree *t = worker_get(worker, &status);

    pto_worker_callable_init(&params);
    if (status < 0)
        return status;
    if (callable_out == NULL || sized_read(&params, sizeof(params), given) < 0)
        return PTO_EINVAL;
    if (params.error != NULL)
        params.error->level = t->level;
    status = register_prepare(t, &params, &made, params.error);
    if (status < 0)
        return status;
    pthread_mutex_lock(&t->lock);
    status = add_callable(t, &made, callable_out, params.error);
    pthread_mutex_unlock(&t->lock);
    return status;
}

int pto_worker_unregister(struct pto_worker *worker, uint64_t callable)
{
    struct tree_callable *k;
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    pthread_mutex_lock(&t->lock);
    tree_drive(t);
    k = tree_find_callable(t, callable);
    if (k == NULL) {
        status = PTO_EINVAL;
    } else if (k->users > 1) {
        k->users--;
    } else if (k->tasks != 0) {
        status = PTO_EBUSY;
    } else {
        k->is_settled = false; /* from here on other threads do not find the callable */
        register_unload(t, k, k->children);
        free_callable(k);
        tree_signal_change(t);
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}
