/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are threads of one process: for tests under ThreadSanitizer, and for trying out
 * programs that are written for several processes. All memory belongs to the process, so "mapping"
 * a peer's block only means knowing its address.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "comm/comm_shared.h"

static void thread_close(struct comm *comm);
static int thread_alloc(struct shared *s, uint64_t bytes, uint64_t *offset_out, char **at_out);
static void thread_free(struct shared *s, uint64_t offset, uint64_t bytes, char *at, bool is_free);
static char *thread_map(struct shared *s, uint32_t rank, uint64_t offset, uint64_t bytes);
static void thread_keep(struct shared *s, struct pto_windows *windows);

static const struct comm_ops comm_thread_ops = {
    .name = "thread",
    .has_addresses = true,
    .close = thread_close,
    SHARED_OPS,
};

static const struct shared_memory thread_memory = {
    .alloc = thread_alloc,
    .free = thread_free,
    .map = thread_map,
    .keep = thread_keep,
    .fence = os_fence_all,
};

/* A block that a peer may still use; it is freed when the last rank has closed. */
struct kept_block {
    struct kept_block *next;
    char *at;
    uint64_t bytes;
};

/* State shared by the ranks of a communicator. The last rank that closes frees it. */
struct team {
    pthread_mutex_t lock;
    uint32_t open_count;   /* number of open ranks, plus domains whose windows are kept */
    uint32_t keeper_count; /* number of domains whose windows are kept */
    struct kept_block *kept;
    struct shared_head *head; /* heads of all ranks, by rank */
};

struct thread_rank {
    struct shared shared;
    struct team *team;
};

static struct thread_rank *thread_rank_of(struct shared *s)
{
    return (struct thread_rank *)(void *)s;
}

static void free_team(struct team *team)
{
    while (team->kept != NULL) {
        struct kept_block *k = team->kept;

        team->kept = k->next;
        (void)munmap(k->at, k->bytes);
        free(k);
    }
    pthread_mutex_destroy(&team->lock);
    free(team->head);
    free(team);
}

static int open_rank(struct team *team, uint32_t rank, uint32_t rank_count, struct comm **comm_out)
{
    struct thread_rank *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return PTO_ENOMEM;
    if (shared_init(&t->shared, rank, rank_count) < 0) {
        shared_fini(&t->shared);
        free(t);
        return PTO_ENOMEM;
    }
    t->shared.base.ops = &comm_thread_ops;
    t->shared.memory = &thread_memory;
    t->shared.has_fence = os_fence_all_init();
    t->team = team;
    for (uint32_t i = 0; i < rank_count; i++)
        t->shared.head[i] = &team->head[i];
    t->shared.own = &team->head[rank];
    team->open_count++;
    *comm_out = &t->shared.base;
    return PTO_OK;
}

int comm_team_open(uint32_t rank_count, struct comm **comms_out, struct pto_error *error)
{
    struct team *team = calloc(1, sizeof(*team));
    uint32_t count = 0;
    int status = PTO_OK;

    if (team == NULL)
        return error_setf(error, PTO_ENOMEM, "%s", pto_strerror(PTO_ENOMEM));
    pthread_mutex_init(&team->lock, NULL);
    team->head = aligned_alloc(SHARED_LINE, rank_count * sizeof(*team->head));
    if (team->head == NULL)
        status = PTO_ENOMEM;
    else
        memset(team->head, 0, rank_count * sizeof(*team->head));
    for (; count < rank_count && status >= 0; count++) {
        status = open_rank(team, count, rank_count, &comms_out[count]);
        if (status < 0)
            break;
    }
    if (status >= 0)
        return PTO_OK;
    /* an additional count, so that closing the last rank does not free the team: free_team does */
    team->open_count++;
    while (count-- > 0)
        thread_close(comms_out[count]);
    free_team(team);
    return error_setf(error, status, "%s", pto_strerror(status));
}

static void leave_team(struct team *team)
{
    bool is_last;

    pthread_mutex_lock(&team->lock);
    is_last = --team->open_count == 0;
    pthread_mutex_unlock(&team->lock);
    if (is_last)
        free_team(team);
}

static void thread_close(struct comm *comm)
{
    struct shared *s = shared_of(comm);

    shared_leave(s);
    leave_team(thread_rank_of(s)->team);
    shared_fini(s);
    free(s);
}

/* The offset of a block is its address. */
static int thread_alloc(struct shared *s, uint64_t bytes, uint64_t *offset_out, char **at_out)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    (void)s;
    if (at == MAP_FAILED)
        return PTO_ENOMEM;
    *offset_out = (uint64_t)(uintptr_t)at;
    *at_out = at;
    return PTO_OK;
}

static void thread_free(struct shared *s, uint64_t offset, uint64_t bytes, char *at, bool is_free)
{
    struct team *team = thread_rank_of(s)->team;
    struct kept_block *k;

    (void)offset;
    pthread_mutex_lock(&team->lock);
    if (is_free && team->keeper_count == 0) {
        (void)munmap(at, bytes);
    } else if ((k = malloc(sizeof(*k))) != NULL) {
        /* a peer may still use the block; without memory for this element it is leaked */
        *k = (struct kept_block){ team->kept, at, bytes };
        team->kept = k;
    }
    pthread_mutex_unlock(&team->lock);
}

static char *thread_map(struct shared *s, uint32_t rank, uint64_t offset, uint64_t bytes)
{
    (void)s;
    (void)rank;
    (void)bytes;
    return (char *)(uintptr_t)offset;
}

static void thread_end_keep(void *context)
{
    struct team *team = context;

    pthread_mutex_lock(&team->lock);
    team->keeper_count--;
    pthread_mutex_unlock(&team->lock);
    leave_team(team);
}

/*
 * Keeps windows: they are the peers' own memory, so from now on all blocks stay until the team is
 * freed.
 */
static void thread_keep(struct shared *s, struct pto_windows *windows)
{
    struct team *team = thread_rank_of(s)->team;

    windows->end = thread_end_keep;
    windows->context = team;
    pthread_mutex_lock(&team->lock);
    team->keeper_count++;
    team->open_count++;
    pthread_mutex_unlock(&team->lock);
}
