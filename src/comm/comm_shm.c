/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of one machine. Each rank has a memory file without a name, which the
 * others got when the ranks met (src/comm/meet.h): its head, followed by the blocks
 * of its domains, which peers map one by one. Nothing of it outlives the processes.
 * A thread polls a pidfd for each peer, and sleeps until a process ends.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/limit.h"
#include "base/lock.h"
#include "comm/comm_shared.h"
#include "comm/meet.h"

static int shm_open_comm(const struct comm_request *request, struct comm **comm_out,
                         struct pto_error *error);
static void shm_close(struct comm *comm);
static int shm_alloc(struct shared *shared, uint64_t bytes, uint64_t *offset_out, char **at_out);
static void shm_free(struct shared *shared, uint64_t offset, uint64_t bytes, char *at,
                     bool is_free);
static char *shm_map(struct shared *shared, uint32_t rank, uint64_t offset, uint64_t bytes);
static void shm_unmap(char *at, uint64_t bytes);
static bool shm_copy(char *at, uint64_t bytes);

const struct comm_ops comm_shm_ops = {
    .name = "shm",
    .has_addresses = true,
    .open = shm_open_comm,
    .close = shm_close,
    SHARED_OPS,
};

static const struct shared_memory shm_memory = {
    .alloc = shm_alloc,
    .free = shm_free,
    .map = shm_map,
    .unmap = shm_unmap,
    .copy = shm_copy,
    .fence = os_fence_processes,
};

/* A stretch of the own file that is in use. */
struct extent {
    uint64_t offset, bytes;
};

/* More than domains: blocks that a peer may still write to stay. */
enum { EXTENTS_MAX = 4 * SHARED_ENTRIES };

struct shm {
    struct shared shared;
    int *memory;  /* by rank */
    int *process; /* by rank; -1 for the own one, and for those that have ended */
    uint64_t file_bytes;
    struct extent extent[EXTENTS_MAX]; /* by offset; this and the size: under the lock */
    uint32_t extent_count;
    pthread_mutex_t lock;
    bool has_watcher;
    pthread_t watcher;
    int stop; /* eventfd: the watcher is to end */
};

static struct shm *shm_of(struct shared *shared)
{
    return (struct shm *)(void *)shared;
}

static uint64_t head_bytes(void)
{
    uint64_t page = os_page_bytes();

    return (sizeof(struct shared_head) + page - 1) / page * page;
}

/* ---- open, close ---- */

static void shm_destroy(struct shm *s)
{
    uint32_t count = s->shared.base.rank_count;

    for (uint32_t i = 0; i < count; i++) {
        if (s->shared.head != NULL && s->shared.head[i] != NULL)
            (void)munmap(s->shared.head[i], head_bytes());
        if (s->memory != NULL)
            meet_close_fds(&s->memory[i], 1);
        if (s->process != NULL)
            meet_close_fds(&s->process[i], 1);
    }
    meet_close_fds(&s->stop, 1);
    free(s->memory);
    free(s->process);
    shared_fini(&s->shared);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* As many descriptors, none of them open. */
static int *make_fds(uint32_t count)
{
    int *fds = malloc(count * sizeof(*fds));

    for (uint32_t i = 0; fds != NULL && i < count; i++)
        fds[i] = -1;
    return fds;
}

static struct shm *shm_create(const struct comm_request *request)
{
    struct shm *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->stop = -1;
    s->shared.base.ops = &comm_shm_ops;
    s->shared.memory = &shm_memory;
    s->file_bytes = head_bytes();
    s->memory = make_fds(request->rank_count);
    s->process = make_fds(request->rank_count);
    if (shared_init(&s->shared, request->rank, request->rank_count) >= 0 && s->memory != NULL &&
        s->process != NULL)
        return s;
    shm_destroy(s);
    return NULL;
}

/* The own file, which no process can make shorter: what is mapped stays readable. */
static int make_file(void)
{
    int file = memfd_create("pto-comm", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (file >= 0 &&
        (limit_resize(file, head_bytes()) != 0 || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) != 0)) {
        close(file);
        return -1;
    }
    return file;
}

static int map_heads(struct shm *s, struct pto_error *error)
{
    for (uint32_t i = 0; i < s->shared.base.rank_count; i++) {
        int seals = fcntl(s->memory[i], F_GET_SEALS);
        off_t bytes = lseek(s->memory[i], 0, SEEK_END);
        void *head = MAP_FAILED;

        /* What came from outside may be anything: a shorter file would end this process. */
        if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && bytes >= (off_t)head_bytes())
            head = mmap(NULL, head_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, s->memory[i], 0);
        if (head == MAP_FAILED)
            return comm_tell(error, PTO_ESYSTEM, i, "the memory of rank %u cannot be mapped", i);
        s->shared.head[i] = head;
    }
    s->shared.own = s->shared.head[s->shared.base.rank];
    return PTO_OK;
}

static void *shm_watch_main(void *context);

static int start_watcher(struct shm *s, struct pto_error *error)
{
    if (s->shared.base.rank_count == 1)
        return PTO_OK;
    s->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->has_watcher = s->stop >= 0 && os_thread_start(&s->watcher, shm_watch_main, s) >= 0;
    return s->has_watcher
               ? PTO_OK
               : error_tell(error, PTO_ESYSTEM, "no thread can be started: %s", strerror(errno));
}

static int meet_others(struct shm *s, const struct comm_request *request, int memory, int process,
                       struct pto_error *error)
{
    struct meet_request meeting = { .comm = request,
                                    .head_bytes = sizeof(struct shared_head),
                                    .has_fence = os_fence_processes_init(),
                                    .memory = memory,
                                    .process = process };
    struct meet_result result = { .memory = s->memory, .process = s->process };
    int status;

    if (request->rank_count == 1) {
        s->memory[0] = fcntl(memory, F_DUPFD_CLOEXEC, 3);
        s->shared.has_fence = meeting.has_fence;
        return s->memory[0] >= 0 ? PTO_OK : PTO_ESYSTEM;
    }
    status = meet_ranks(&meeting, &result, error);
    s->shared.has_fence = result.has_fence;
    return status;
}

static int shm_open_comm(const struct comm_request *request, struct comm **comm_out,
                         struct pto_error *error)
{
    struct shm *s = shm_create(request);
    char why[LIMIT_TEXT];
    int memory, process, status;

    if (s == NULL)
        return PTO_ENOMEM;
    memory = make_file();
    process = (int)syscall(SYS_pidfd_open, getpid(), 0);
    status = memory >= 0 && process >= 0
                 ? meet_others(s, request, memory, process, error)
                 : error_tell(error, PTO_ESYSTEM, "no memory can be shared: %s",
                              limit_explain(errno, why));
    meet_close_fds(&memory, 1);
    meet_close_fds(&process, 1);
    if (status >= 0)
        status = map_heads(s, error);
    if (status >= 0)
        status = start_watcher(s, error);
    if (status < 0) {
        if (s->shared.own != NULL)
            shared_leave(&s->shared);
        shm_destroy(s);
        return status;
    }
    *comm_out = &s->shared.base;
    return PTO_OK;
}

static void shm_close(struct comm *comm)
{
    struct shm *s = shm_of(shared_of(comm));
    uint64_t one = 1;

    if (s->has_watcher) {
        (void)!write(s->stop, &one, sizeof(one));
        pthread_join(s->watcher, NULL);
    }
    shared_leave(&s->shared);
    shm_destroy(s);
}

/* ---- the watcher ---- */

/* Reports ranks whose process has ended, until `stop` is written. */
static void *shm_watch_main(void *context)
{
    struct shm *s = context;
    uint32_t count = s->shared.base.rank_count;
    struct pollfd look[COMM_RANKS_MAX + 1];

    for (uint32_t i = 0; i < count; i++)
        look[i] = (struct pollfd){ .fd = i == s->shared.base.rank ? -1 : s->process[i],
                                   .events = POLLIN };
    look[count] = (struct pollfd){ .fd = s->stop, .events = POLLIN };
    for (;;) {
        if (poll(look, count + 1, -1) < 0)
            continue; /* a signal; they are blocked here */
        if (look[count].revents != 0)
            return NULL;
        for (uint32_t i = 0; i < count; i++)
            if (look[i].revents != 0) {
                look[i].fd = -1;
                shared_rank_died(&s->shared, i);
            }
    }
}

/* ---- memory ---- */

/* The first gap that is large enough; extents are in order. */
static uint32_t find_gap(const struct shm *s, uint64_t bytes, uint64_t *offset_out)
{
    uint64_t at = head_bytes();
    uint32_t i;

    assert_held(&s->lock);
    for (i = 0; i < s->extent_count && s->extent[i].offset - at < bytes; i++)
        at = s->extent[i].offset + s->extent[i].bytes;
    *offset_out = at;
    return i;
}

static void remove_extent(struct shm *s, uint64_t offset)
{
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->extent_count; i++)
        if (s->extent[i].offset == offset) {
            memmove(&s->extent[i], &s->extent[i + 1],
                    (--s->extent_count - i) * sizeof(s->extent[0]));
            break;
        }
    pthread_mutex_unlock(&s->lock);
}

static int shm_alloc(struct shared *shared, uint64_t bytes, uint64_t *offset_out, char **at_out)
{
    struct shm *s = shm_of(shared);
    int file = s->memory[shared->base.rank];
    void *at = MAP_FAILED;
    uint64_t offset = 0;
    uint32_t index;

    pthread_mutex_lock(&s->lock);
    if (s->extent_count < EXTENTS_MAX) {
        index = find_gap(s, bytes, &offset);
        if (offset + bytes <= s->file_bytes || limit_resize(file, offset + bytes) == 0) {
            if (offset + bytes > s->file_bytes)
                s->file_bytes = offset + bytes;
            at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);
        }
        if (at != MAP_FAILED) {
            memmove(&s->extent[index + 1], &s->extent[index],
                    (s->extent_count++ - index) * sizeof(s->extent[0]));
            s->extent[index] = (struct extent){ offset, bytes };
            assert(index + 1 == s->extent_count || s->extent[index + 1].offset >= offset + bytes);
        }
    }
    pthread_mutex_unlock(&s->lock);
    if (at == MAP_FAILED)
        return PTO_ENOMEM;
    *offset_out = offset;
    *at_out = at;
    return PTO_OK;
}

/*
 * Pages go back to the system, and are zero when they are used again. Those of a block that a peer may still
 * look at stay as they are: it may not have noticed yet that this rank came.
 */
static void shm_free(struct shared *shared, uint64_t offset, uint64_t bytes, char *at, bool is_free)
{
    struct shm *s = shm_of(shared);

    if (at != NULL)
        (void)munmap(at, bytes);
    /* mutation: early-hole */
    if (is_free &&
        fallocate(s->memory[shared->base.rank], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)offset, (off_t)bytes) == 0)
        remove_extent(s, offset);
}

/* What a peer says of its file may be wrong: beyond its end there is nothing to map. */
static char *shm_map(struct shared *shared, uint32_t rank, uint64_t offset, uint64_t bytes)
{
    struct shm *s = shm_of(shared);
    off_t end = lseek(s->memory[rank], 0, SEEK_END);
    void *at;

    /* mutation: trusted-offset */
    if (end < 0 || offset > (uint64_t)end || bytes > (uint64_t)end - offset)
        return NULL;
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->memory[rank], (off_t)offset);
    return at == MAP_FAILED ? NULL : at;
}

static void shm_unmap(char *at, uint64_t bytes)
{
    (void)munmap(at, bytes);
}

/* Pages that are zero take no memory. The copy takes the place of what is mapped in one step. */
static bool shm_copy(char *at, uint64_t bytes)
{
    enum { PIECE = 4096 };
    static const char zero[PIECE];
    char *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (made == MAP_FAILED)
        return false;
    for (uint64_t i = 0; i < bytes; i += PIECE)
        if (memcmp(at + i, zero, PIECE) != 0)
            memcpy(made + i, at + i, PIECE);
    if (mremap(made, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED)
        return true;
    (void)munmap(made, bytes);
    return false;
}
