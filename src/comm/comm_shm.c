/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are processes of one machine. Each rank has a nameless memory file, which the others
 * received when the ranks met (src/comm/meet.h): its head, followed by the blocks of its domains,
 * which peers map one by one. Nothing outlives the processes. A thread polls a pidfd for each peer,
 * and sleeps until a process ends.
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
#include "comm/comm_shm.h"
#include "comm/meet.h"

static int shm_open_comm(const struct comm_request *request, struct comm **comm_out,
                         struct pto_error *error);
static void shm_close(struct comm *comm);

const struct comm_ops comm_shm_ops = {
    .name = "shm",
    .summary = "processes of one machine, which meet at a file",
    .has_addresses = true,
    .open = shm_open_comm,
    .close = shm_close,
    SHARED_OPS,
};

static const struct shared_memory shm_memory = {
    .alloc = comm_shm_alloc,
    .free = comm_shm_free,
    .map = comm_shm_map,
    .unmap = comm_shm_unmap,
    .copy = comm_shm_copy,
    .fence = os_fence_processes,
};

uint64_t comm_shm_head_bytes(void)
{
    uint64_t page = os_page_bytes();

    return (sizeof(struct shared_head) + page - 1) / page * page;
}

/* ---- open, close ---- */

void comm_shm_fini(struct shm *s)
{
    uint32_t count = s->shared.base.rank_count;

    for (uint32_t i = 0; i < count; i++) {
        if (s->memory != NULL && s->memory[i] >= 0 && s->shared.head != NULL &&
            s->shared.head[i] != NULL)
            (void)munmap(s->shared.head[i], comm_shm_head_bytes());
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
}

/* Returns an array of `count` file descriptors, all -1. */
static int *make_fds(uint32_t count)
{
    int *fds = malloc(count * sizeof(*fds));

    for (uint32_t i = 0; fds != NULL && i < count; i++)
        fds[i] = -1;
    return fds;
}

int comm_shm_init(struct shm *s, const struct comm_request *request, const struct comm_ops *ops,
                  const struct shared_memory *memory)
{
    pthread_mutex_init(&s->lock, NULL);
    s->stop = -1;
    s->shared.base.ops = ops;
    s->shared.memory = memory;
    s->file_bytes = comm_shm_head_bytes();
    s->memory = make_fds(request->rank_count);
    s->process = make_fds(request->rank_count);
    if (shared_init(&s->shared, request->rank, request->rank_count) >= 0 && s->memory != NULL &&
        s->process != NULL)
        return PTO_OK;
    return PTO_ENOMEM;
}

/*
 * Creates this rank's memory file. It is sealed against shrinking, so mapped bytes always stay
 * readable.
 */
static int make_file(void)
{
    int file = memfd_create("pto-comm", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (file >= 0 && (limit_resize(file, comm_shm_head_bytes()) != 0 ||
                      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) != 0)) {
        close(file);
        return -1;
    }
    return file;
}

int comm_shm_offer(int *memory_out, int *process_out, struct pto_error *error)
{
    char why[LIMIT_TEXT];

    *memory_out = make_file();
    *process_out = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (*memory_out >= 0 && *process_out >= 0)
        return PTO_OK;
    return error_setf(error, PTO_ESYSTEM, "no memory can be shared: %s", limit_explain(errno, why));
}

int comm_shm_map_head(struct shm *s, uint32_t rank, struct pto_error *error)
{
    int seals = fcntl(s->memory[rank], F_GET_SEALS);
    off_t bytes = lseek(s->memory[rank], 0, SEEK_END);
    void *head = MAP_FAILED;

    /*
     * The peer's file is not trusted: if it could shrink, accesses to the mapping would crash this
     * process.
     */
    if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && bytes >= (off_t)comm_shm_head_bytes())
        head = mmap(NULL, comm_shm_head_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED,
                    s->memory[rank], 0);
    if (head == MAP_FAILED)
        return comm_error_set(error, PTO_ESYSTEM, rank, "the memory of rank %u cannot be mapped",
                              rank);
    s->shared.head[rank] = head;
    return PTO_OK;
}

static void *shm_watch_main(void *context);

int comm_shm_start_watcher(struct shm *s, struct pto_error *error)
{
    if (s->shared.base.rank_count == 1)
        return PTO_OK;
    s->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->has_watcher = s->stop >= 0 && os_thread_start(&s->watcher, shm_watch_main, s) >= 0;
    return s->has_watcher
               ? PTO_OK
               : error_setf(error, PTO_ESYSTEM, "no thread can be started: %s", strerror(errno));
}

void comm_shm_stop_watcher(struct shm *s)
{
    uint64_t one = 1;

    if (!s->has_watcher)
        return;
    (void)!write(s->stop, &one, sizeof(one));
    pthread_join(s->watcher, NULL);
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
    struct shm *s = calloc(1, sizeof(*s));
    int memory = -1, process = -1, status;

    if (s == NULL)
        return PTO_ENOMEM;
    status = comm_shm_init(s, request, &comm_shm_ops, &shm_memory);
    if (status >= 0)
        status = comm_shm_offer(&memory, &process, error);
    if (status >= 0)
        status = meet_others(s, request, memory, process, error);
    meet_close_fds(&memory, 1);
    meet_close_fds(&process, 1);
    for (uint32_t i = 0; i < request->rank_count && status >= 0; i++)
        status = comm_shm_map_head(s, i, error);
    if (status >= 0)
        s->shared.own = s->shared.head[request->rank];
    if (status >= 0)
        status = comm_shm_start_watcher(s, error);
    if (status >= 0)
        status = shared_turns_join(&s->shared, request, error);
    if (status < 0) {
        comm_shm_stop_watcher(s);
        if (s->shared.own != NULL)
            shared_leave(&s->shared);
        comm_shm_fini(s);
        free(s);
        return status;
    }
    *comm_out = &s->shared.base;
    return PTO_OK;
}

static void shm_close(struct comm *comm)
{
    struct shm *s = comm_shm_of(shared_of(comm));

    comm_shm_stop_watcher(s);
    shared_leave(&s->shared);
    comm_shm_fini(s);
    free(s);
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
            continue; /* a signal interrupted poll, which is called again */
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

/*
 * Finds the first gap that is large enough between the extents. Returns the index for the new
 * extent.
 */
static uint32_t find_gap(const struct shm *s, uint64_t bytes, uint64_t *offset_out)
{
    uint64_t at = comm_shm_head_bytes();
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

int comm_shm_alloc(struct shared *shared, uint64_t bytes, uint64_t *offset_out, char **at_out)
{
    struct shm *s = comm_shm_of(shared);
    int file = s->memory[shared->base.rank];
    void *at = MAP_FAILED;
    uint64_t offset = 0;
    uint32_t index;

    pthread_mutex_lock(&s->lock);
    if (s->extent_count < SHM_EXTENTS_MAX) {
        index = find_gap(s, bytes, &offset);
        if (offset + bytes <= s->file_bytes || limit_resize(file, offset + bytes) == 0) {
            if (offset + bytes > s->file_bytes)
                s->file_bytes = offset + bytes;
            at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);
        }
        if (at != MAP_FAILED) {
            memmove(&s->extent[index + 1], &s->extent[index],
                    (s->extent_count++ - index) * sizeof(s->extent[0]));
            s->extent[index] = (struct shm_extent){ offset, bytes };
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
 * Returns the pages to the system; they read as zero when they are reused. Without is_free a peer
 * may still read the block, for example because it has not yet noticed that this rank arrived, so
 * the pages are left unchanged.
 */
void comm_shm_free(struct shared *shared, uint64_t offset, uint64_t bytes, char *at, bool is_free)
{
    struct shm *s = comm_shm_of(shared);

    if (at != NULL)
        (void)munmap(at, bytes);
    /* mutation: early-hole */
    if (is_free &&
        fallocate(s->memory[shared->base.rank], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)offset, (off_t)bytes) == 0)
        remove_extent(s, offset);
}

/*
 * Maps a range of a peer's file. NULL also if the range exceeds the file, because accesses beyond
 * its end would crash.
 */
char *comm_shm_map(struct shared *shared, uint32_t rank, uint64_t offset, uint64_t bytes)
{
    struct shm *s = comm_shm_of(shared);
    off_t end = lseek(s->memory[rank], 0, SEEK_END);
    void *at;

    /* mutation: trusted-offset */
    if (end < 0 || offset > (uint64_t)end || bytes > (uint64_t)end - offset)
        return NULL;
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->memory[rank], (off_t)offset);
    return at == MAP_FAILED ? NULL : at;
}

void comm_shm_unmap(struct shared *shared, uint32_t rank, char *at, uint64_t bytes)
{
    (void)shared;
    (void)rank;
    (void)munmap(at, bytes);
}

/* Replaces a mapping by a private copy in one step. Pages that are zero take no memory. */
bool comm_shm_copy(char *at, uint64_t bytes)
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
