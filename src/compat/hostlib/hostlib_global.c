/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains across workers that have no communicator: each makes a window, describes it,
 * and receives the descriptions of all through its caller.
 *
 * A window is a memory file. Its description has the pid of the process that has it open and the
 * descriptor; other processes open it through /proc, which admits processes of the same user only.
 * The file has a random name, so a reused pid or descriptor is noticed. It is sealed, so it cannot
 * shrink while it is mapped. It is freed with the last process that uses it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limit.h"
#include "base/lock.h"
#include "compat/hostlib/hostlib.h"

enum { KEY_BYTES = 16, NAME_BYTES = 64, SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* Layout of the first bytes of `handle` in struct worker_domain; its other bytes are 0. */
struct window_handle {
    char magic[8];
    int32_t process;
    int32_t file; /* number of the descriptor in that process */
    uint8_t key[KEY_BYTES];
};

static const char MAGIC[8] = "ptowin1";

struct global_domain {
    struct global_domain *next;
    uint64_t id;
    struct worker_domain own; /* description of this process's window */
    int file;
    /* Context with the addresses at which this process has mapped the windows. */
    struct hostlib_context *context;
    bool is_imported;
};

static struct {
    /* Guards the list of domains; also held while windows are mapped, which takes little time. */
    pthread_mutex_t lock;
    struct global_domain *first;
} domains = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int make_window(struct global_domain *g);
static int import_all(struct global_domain *g, const struct worker_domain *theirs);
static void global_destroy(struct global_domain *g);

/*
 * Returns the pointer in the list that leads to the domain with this id, or the one at the end of
 * the list.
 */
static struct global_domain **global_find(uint64_t id)
{
    struct global_domain **link = &domains.first;

    assert_held(&domains.lock);
    while (*link != NULL && (*link)->id != id)
        link = &(*link)->next;
    return link;
}

int comm_global_domain_prepare(uint64_t id, uint32_t rank, uint32_t ranks, size_t bytes,
                               uint32_t profile, struct worker_domain *domain_out,
                               uint64_t *base_out)
{
    struct global_domain *g, **link;
    int status = WORKER_FAILED;

    if (id == 0 || ranks == 0 || ranks > PTO_CONTEXT_RANKS || rank >= ranks || bytes == 0 ||
        bytes > WORKER_WINDOW_MAX || profile != WORKER_DOMAIN_SIM || domain_out == NULL ||
        base_out == NULL) {
        LOG(PTO_LOG_ERROR,
            "domain %llu, rank %u of %u, %zu bytes, profile %u: ids begin with "
            "1, there are 1 to %d ranks, and the profile must be %d",
            (unsigned long long)id, rank, ranks, bytes, profile, PTO_CONTEXT_RANKS,
            WORKER_DOMAIN_SIM);
        return WORKER_FAILED;
    }
    g = calloc(1, sizeof(*g));
    if (g == NULL)
        return PTO_ENOMEM;
    g->id = id;
    g->file = -1;
    g->own = (struct worker_domain){ .version = WORKER_DOMAIN_VERSION,
                                     .profile = profile,
                                     .rank = rank,
                                     .rank_count = ranks,
                                     .bytes = bytes,
                                     .handle_bytes = sizeof(struct window_handle) };
    pthread_mutex_lock(&domains.lock);
    link = global_find(id);
    if (*link != NULL)
        LOG(PTO_LOG_ERROR, "domain %llu exists already: release it first", (unsigned long long)id);
    else
        status = make_window(g);
    if (status >= 0) {
        *link = g;
        *domain_out = g->own;
        *base_out = g->context->context.window_in[rank];
    }
    pthread_mutex_unlock(&domains.lock);
    if (status < 0)
        global_destroy(g);
    return status;
}

int comm_global_domain_import(uint64_t id, const struct worker_domain *theirs, size_t count,
                              uint64_t *context_out)
{
    struct global_domain *g;
    int status = WORKER_FAILED;

    if (theirs == NULL || context_out == NULL)
        return WORKER_FAILED;
    pthread_mutex_lock(&domains.lock);
    g = *global_find(id);
    if (g == NULL || g->is_imported || count != g->own.rank_count)
        LOG(PTO_LOG_ERROR, "domain %llu: %s", (unsigned long long)id,
            g == NULL        ? "the domain was not prepared"
            : g->is_imported ? "the domain is complete already"
                             : "there must be one description for each rank");
    else
        status = import_all(g, theirs);
    if (status >= 0) {
        g->is_imported = true;
        *context_out = (uint64_t)(uintptr_t)&g->context->context;
    }
    pthread_mutex_unlock(&domains.lock);
    return status;
}

/* Releases a domain. Succeeds as well if no domain has this id, because it was already released. */
int comm_global_domain_release(uint64_t id)
{
    struct global_domain *g, **link;

    pthread_mutex_lock(&domains.lock);
    link = global_find(id);
    g = *link;
    if (g != NULL)
        *link = g->next;
    pthread_mutex_unlock(&domains.lock);
    if (g != NULL)
        global_destroy(g);
    return 0;
}

/* ---- windows ---- */

static void make_name(const uint8_t key[KEY_BYTES], char name[NAME_BYTES])
{
    int length = snprintf(name, NAME_BYTES, "pto-window-");

    for (uint32_t i = 0; i < KEY_BYTES; i++)
        length += snprintf(name + length, NAME_BYTES - (size_t)length, "%02x", key[i]);
}

/* Whether a path in /proc leads to the memory file with this name. */
static bool leads_to(const char *path, const char *name)
{
    char found[2 * NAME_BYTES], wanted[2 * NAME_BYTES];
    ssize_t length = readlink(path, found, sizeof(found) - 1);

    snprintf(wanted, sizeof(wanted), "/memfd:%s (deleted)", name);
    return length == (ssize_t)strlen(wanted) && memcmp(found, wanted, (size_t)length) == 0;
}

static uint64_t map_file(int file, uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    return at == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)at;
}

static int make_window(struct global_domain *g)
{
    struct window_handle handle = { .process = (int32_t)getpid() };
    char name[NAME_BYTES], why[LIMIT_TEXT];
    uint64_t window = 0;

    if (getrandom(handle.key, sizeof(handle.key), 0) == (ssize_t)sizeof(handle.key)) {
        make_name(handle.key, name);
        g->file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    if (g->file >= 0 && limit_resize(g->file, g->own.bytes) == 0 &&
        fcntl(g->file, F_ADD_SEALS, SEALS) == 0)
        window = map_file(g->file, g->own.bytes);
    if (window == 0) {
        LOG(PTO_LOG_ERROR, "a window of %llu bytes cannot be made: %s",
            (unsigned long long)g->own.bytes, limit_explain(errno, why));
        return PTO_ESYSTEM;
    }
    memcpy(handle.magic, MAGIC, sizeof(MAGIC));
    handle.file = g->file;
    memcpy(g->own.handle, &handle, sizeof(handle));
    g->context = hostlib_context_create(g->own.rank, g->own.rank_count, g->own.bytes);
    if (g->context == NULL) {
        (void)munmap((void *)(uintptr_t)window, g->own.bytes);
        return PTO_ENOMEM;
    }
    hostlib_context_set(g->context, g->own.rank, window);
    return PTO_OK;
}

/* Whether a file is safe to map: owned by this user or root, of that size, and sealed. */
static bool is_safe(int file, uint64_t bytes)
{
    struct stat info;
    int seals = fcntl(file, F_GET_SEALS);

    /* mutation: any-file */
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(file, &info) == 0 &&
           S_ISREG(info.st_mode) && (info.st_uid == geteuid() || info.st_uid == 0) &&
           (uint64_t)info.st_size == bytes;
}

/*
 * Maps the window that a handle describes and returns its address. 0: the window is gone, or
 * belongs to another user.
 */
static uint64_t map_window(const struct window_handle *handle, uint64_t bytes)
{
    char name[NAME_BYTES], path[NAME_BYTES];
    uint64_t window = 0;
    int file = -1;

    make_name(handle->key, name);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->process, handle->file);
    /* Checked before opening: opening another file could have side effects. */
    if (leads_to(path, name))
        file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    if (leads_to(path, name) && is_safe(file, bytes))
        window = map_file(file, bytes);
    close(file);
    return window;
}

/* ---- descriptions of windows, which come from other processes ---- */

/* Whether a description is one of this domain; its handle is checked when it is mapped. */
static bool is_description(const struct global_domain *g, const struct worker_domain *d)
{
    struct worker_domain as_ours = g->own;

    as_ours.rank = d->rank;
    /* The rest of the handle must be 0. */
    memcpy(as_ours.handle, d->handle, sizeof(struct window_handle));
    return memcmp(&as_ours, d, sizeof(*d)) == 0 && d->rank < d->rank_count &&
           memcmp(d->handle, MAGIC, sizeof(MAGIC)) == 0;
}

static void unmap_others(struct global_domain *g)
{
    const struct pto_comm_context *c = &g->context->context;

    for (uint32_t i = 0; i < c->rank_count; i++)
        if (i != c->rank && c->window_in[i] != 0) {
            void *window = (void *)(uintptr_t)c->window_in[i];

            hostlib_context_set(g->context, i, 0);
            (void)munmap(window, c->window_bytes);
        }
}

/* Maps the window of a rank. False: it cannot be mapped, or is already mapped. */
static bool import_one(struct global_domain *g, const struct worker_domain *d)
{
    struct window_handle handle;

    memcpy(&handle, d->handle, sizeof(handle));
    if (d->rank == g->own.rank)
        return memcmp(d, &g->own, sizeof(*d)) == 0;
    if (g->context->context.window_in[d->rank] != 0)
        return false;
    hostlib_context_set(g->context, d->rank, map_window(&handle, d->bytes));
    return g->context->context.window_in[d->rank] != 0;
}

/* Copies each description before checking it: the caller may change it at any time. */
static int import_all(struct global_domain *g, const struct worker_domain *theirs)
{
    uint32_t own_count = 0;

    for (uint32_t i = 0; i < g->own.rank_count; i++) {
        struct worker_domain d = theirs[i];

        own_count += d.rank == g->own.rank;
        if (!is_description(g, &d) || own_count > 1 || !import_one(g, &d)) {
            LOG(PTO_LOG_ERROR,
                "domain %llu: description %u, of rank %u and %llu bytes, is "
                "not that of a window of %llu bytes that this process can map",
                (unsigned long long)g->id, i, d.rank, (unsigned long long)d.bytes,
                (unsigned long long)g->own.bytes);
            unmap_others(g);
            return WORKER_FAILED;
        }
    }
    return PTO_OK;
}

static void global_destroy(struct global_domain *g)
{
    if (g->context != NULL) {
        void *own = (void *)(uintptr_t)g->context->context.window_in[g->own.rank];

        unmap_others(g);
        hostlib_context_destroy(g->context);
        (void)munmap(own, g->own.bytes);
    }
    if (g->file >= 0)
        close(g->file);
    free(g);
}
