/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are processes of one machine, as a part of a communicator: each has a memory file,
 * whose head the others have mapped, and a thread that notices when a process ends. The backend shm
 * (comm_shm.c) has no other ranks. The backend tls (comm_tls.c) also has ranks on other hosts,
 * without these files and threads.
 */
#ifndef PTO_COMM_SHM_H
#define PTO_COMM_SHM_H

#include "comm/comm_shared.h"

/* A range of this rank's memory file that the block of a domain occupies. */
struct shm_extent {
    uint64_t offset, bytes;
};

/* More than the number of domains, because blocks that a peer may still write to are not reused. */
enum { SHM_EXTENTS_MAX = 4 * SHARED_ENTRIES };

struct shm {
    struct shared shared;
    int *memory;  /* memory files by rank; -1: the rank is on another host */
    int *process; /* pidfds by rank; -1 for this rank and for those that have ended */
    uint64_t file_bytes;
    /* sorted by offset; this array and its size are protected by the lock */
    struct shm_extent extent[SHM_EXTENTS_MAX];
    uint32_t extent_count;
    pthread_mutex_t lock;
    bool has_watcher;
    pthread_t watcher;
    int stop; /* eventfd that ends the watcher */
};

static inline struct shm *comm_shm_of(struct shared *shared)
{
    return (struct shm *)(void *)shared;
}

/* Initialises the struct, which is zero. PTO_ENOMEM; even then comm_shm_fini must be called. */
int comm_shm_init(struct shm *s, const struct comm_request *request, const struct comm_ops *ops,
                  const struct shared_memory *memory);
/* Releases everything that the struct owns, but not the struct. */
void comm_shm_fini(struct shm *s);

/* Returns descriptors of this rank's memory file and of its process, for the other ranks. */
int comm_shm_offer(int *memory_out, int *process_out, struct pto_error *error);
/* Maps the head of a rank whose memory file is known. */
int comm_shm_map_head(struct shm *s, uint32_t rank, struct pto_error *error);
/* Returns the size of a head in a memory file. */
uint64_t comm_shm_head_bytes(void);

/* Starts the thread that notices when a process with a pidfd ends. */
int comm_shm_start_watcher(struct shm *s, struct pto_error *error);
void comm_shm_stop_watcher(struct shm *s);

/* The functions of struct shared_memory, for memory files. */
int comm_shm_alloc(struct shared *shared, uint64_t bytes, uint64_t *offset_out, char **at_out);
void comm_shm_free(struct shared *shared, uint64_t offset, uint64_t bytes, char *at, bool is_free);
char *comm_shm_map(struct shared *shared, uint32_t rank, uint64_t offset, uint64_t bytes);
void comm_shm_unmap(struct shared *shared, uint32_t rank, char *at, uint64_t bytes);
bool comm_shm_copy(char *at, uint64_t bytes);

#endif
