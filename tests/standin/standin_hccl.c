/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communication library of the stand-in. Ranks meet in a table, which is an unnamed file of the
 * process that made the root info. Windows are at the same address in every process, determined by
 * the number of their card. A wait for other ranks ends only by its own time limit.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/standin/standin.h"

enum {
    E_PARA = 1,
    E_MEMORY = 3,
    E_UNSUPPORTED = 5,
    E_NOT_FOUND = 6,
    E_TIMEOUT = 9,
    E_RUNTIME = 15,
    RANKS = 64,
    ROOT_BYTES = 4108,
    MAGIC = 0x4c434348,
    MIB = 1 << 20,
    CARD_STRIDE_BITS = 36,
};

/* Above all addresses that a process uses itself. */
#define WINDOWS 0x140000000000ull

struct slot {
    uint32_t is_taken;
    uint32_t has_come;
    uint32_t card; /* the driver's number */
    uint32_t pid;
    uint32_t file;
    uint64_t at;       /* address of both windows, which are adjacent */
    uint32_t barriers; /* number of barriers that its stream has reached */
};

struct table {
    uint32_t magic;
    uint32_t key;
    uint32_t count; /* number of ranks as given by the first rank */
    struct slot slot[RANKS];
};

struct root {
    uint32_t magic;
    uint32_t key;
    uint32_t pid;
    uint32_t file;
};

struct comm {
    struct comm *next;
    uint32_t rank, count;
    struct table *table;
    int file; /* file with this rank's windows */
    uint64_t bytes;
    uint32_t card; /* this process's number */
    void *at;      /* address of the struct on the card; NULL: none */
    char *mapped[RANKS];
    char name[128];
    uint32_t queued; /* number of barriers on streams; atomic */
};

static struct comm *comms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t window_bytes(void)
{
    const char *text = getenv("HCCL_BUFFSIZE");

    return (text != NULL ? strtoull(text, NULL, 10) : 200) * MIB;
}

static int open_file(uint32_t pid, uint32_t file)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, file);
    return open(path, O_RDWR | O_CLOEXEC);
}

int HcclGetRootInfo(void *root)
{
    static uint32_t keys;
    struct root mine = { .magic = MAGIC, .pid = (uint32_t)getpid() };
    struct table *table;
    int file;

    ENTER(HcclGetRootInfo);
    if (standin_check_well() != 0)
        return E_RUNTIME;
    file = memfd_create("standin-root", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, sizeof(*table)) != 0)
        abort();
    table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (table == MAP_FAILED)
        abort();
    mine.key = table->key = (uint32_t)getpid() * 2654435761u + ++keys;
    mine.file = (uint32_t)file; /* until all ranks have come, or this rank has waited in vain */
    table->magic = MAGIC;
    munmap(table, sizeof(*table));
    memset(root, 0xee, ROOT_BYTES);
    memcpy((char *)root + 100, &mine, sizeof(mine));
    return 0;
}

/* Waits for all ranks, or as long as the environment says. */
static bool await_all(struct table *table, uint32_t count)
{
    const char *text = getenv("HCCL_CONNECT_TIMEOUT");
    time_t end = time(NULL) + (text != NULL ? atol(text) : 120);
    uint32_t come = 0;

    while (come < count && time(NULL) <= end) {
        for (come = 0; come < count; come++)
            if (__atomic_load_n(&table->slot[come].has_come, __ATOMIC_ACQUIRE) == 0)
                break;
        if (come < count)
            nanosleep(&(struct timespec){ 0, 500000 }, NULL);
    }
    return come == count;
}

static bool has_card_twice(const struct table *table, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (table->slot[i].card == table->slot[k].card)
                return true;
    return false;
}

static int join(struct comm *c, const struct root *root)
{
    static uint64_t used;
    struct slot *own;
    uint32_t zero = 0;
    int file = open_file(root->pid, root->file);

    if (file < 0)
        return E_NOT_FOUND;
    c->table = mmap(NULL, sizeof(*c->table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (c->table == MAP_FAILED || c->table->magic != MAGIC || c->table->key != root->key)
        return E_NOT_FOUND;
    own = &c->table->slot[c->rank];
    if (!__atomic_compare_exchange_n(&c->table->count, &zero, c->count, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE) &&
        zero != c->count)
        return E_PARA; /* ranks disagree about their number */
    if (__atomic_exchange_n(&own->is_taken, 1, __ATOMIC_ACQ_REL) != 0)
        return E_PARA; /* a rank twice */
    own->card = standin_driver_card(c->card);
    own->pid = (uint32_t)getpid();
    own->file = (uint32_t)c->file;
    own->at = WINDOWS + ((uint64_t)own->card << CARD_STRIDE_BITS) + used;
    used += 2 * c->bytes;
    __atomic_store_n(&own->has_come, 1, __ATOMIC_RELEASE);
    if (!await_all(c->table, c->count))
        return E_TIMEOUT;
    return has_card_twice(c->table, c->count) ? E_PARA : 0;
}

static void destroy(struct comm *c)
{
    while (__atomic_load_n(&c->queued, __ATOMIC_ACQUIRE) != 0)
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    for (uint32_t i = 0; i < RANKS; i++)
        if (c->mapped[i] != NULL) {
            standin_unregister_window(c->mapped[i]);
            munmap(c->mapped[i], 2 * c->bytes);
        }
    if (c->at != NULL)
        standin_take_back(c->at);
    if (c->table != NULL && c->table != MAP_FAILED)
        munmap(c->table, sizeof(*c->table));
    standin_charge(c->card, -(int64_t)(2 * c->bytes));
    close(c->file);
    free(c);
}

int HcclCommInitRootInfo(uint32_t count, const void *root, uint32_t rank, void **comm)
{
    struct root found;
    struct comm *c;
    int code;

    ENTER(HcclCommInitRootInfo);
    if (standin_check_well() != 0)
        return E_RUNTIME;
    memcpy(&found, (const char *)root + 100, sizeof(found));
    if (found.magic != MAGIC || count == 0 || count > RANKS || rank >= count)
        return E_PARA;
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        abort();
    c->rank = rank;
    c->count = count;
    c->card = standin_bound()->card;
    c->bytes = window_bytes();
    if (!standin_charge(c->card, (int64_t)(2 * c->bytes))) {
        free(c);
        return E_MEMORY;
    }
    c->file = memfd_create("standin-window", MFD_CLOEXEC);
    if (c->file < 0 || ftruncate(c->file, (off_t)(2 * c->bytes)) != 0)
        abort();
    (void)!pwrite(c->file, "dirt", 4, 0);
    snprintf(c->name, sizeof(c->name), "standin_%08x", found.key);
    code = join(c, &found);
    if (found.pid == (uint32_t)getpid() && c->table != NULL)
        close((int)found.file);
    if (code != 0) {
        destroy(c);
        return code;
    }
    pthread_mutex_lock(&lock);
    c->next = comms;
    comms = c;
    pthread_mutex_unlock(&lock);
    *comm = c;
    return 0;
}

static struct comm **find(const void *comm, const char *name)
{
    struct comm **link = &comms;

    while (*link != NULL && *link != comm && (name == NULL || strcmp((*link)->name, name) != 0))
        link = &(*link)->next;
    return link;
}

int HcclCommDestroy(void *comm)
{
    struct comm **link, *c;

    ENTER(HcclCommDestroy);
    pthread_mutex_lock(&lock);
    link = find(comm, NULL);
    c = *link;
    if (c != NULL)
        *link = c->next;
    pthread_mutex_unlock(&lock);
    if (c == NULL)
        return E_PARA;
    destroy(c);
    return 0;
}

/* Waits until the others' streams have reached the barrier too, or for the time limit. */
static int await_streams(struct comm *c, uint32_t number)
{
    const char *text = getenv("STANDIN_BARRIER_MS");
    long left_ms = text != NULL ? atol(text) : 20000;

    for (uint32_t i = 0; i < c->count; i++)
        while (__atomic_load_n(&c->table->slot[i].barriers, __ATOMIC_ACQUIRE) < number) {
            if (left_ms-- <= 0 || standin.card[c->card].is_aborting != 0)
                return 507018;
            nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        }
    return 0;
}

static int run_barrier(void *arg)
{
    struct comm *c = arg;
    uint32_t number = __atomic_add_fetch(&c->table->slot[c->rank].barriers, 1, __ATOMIC_ACQ_REL);
    int code = await_streams(c, number);

    (void)__atomic_fetch_sub(&c->queued, 1, __ATOMIC_ACQ_REL);
    return code;
}

/* The call does not wait; the work that it enqueues does. */
int HcclBarrier(void *comm, void *stream)
{
    struct comm *c = comm;

    ENTER(HcclBarrier);
    if (standin_check_well() != 0 || *find(comm, NULL) == NULL)
        return E_PARA;
    (void)__atomic_fetch_add(&c->queued, 1, __ATOMIC_ACQ_REL);
    if (standin_enqueue(stream, run_barrier, c) == 0)
        return 0;
    (void)__atomic_fetch_sub(&c->queued, 1, __ATOMIC_ACQ_REL);
    return E_PARA;
}

int HcclGetCommName(void *comm, char *name)
{
    ENTER(HcclGetCommName);
    memset(name, 0, 128);
    memcpy(name, ((struct comm *)comm)->name, sizeof(((struct comm *)comm)->name));
    return 0;
}

int HcomGetCommHandleByGroup(const char *name, void **comm)
{
    ENTER(HcomGetCommHandleByGroup);
    pthread_mutex_lock(&lock);
    *comm = *find(NULL, name);
    pthread_mutex_unlock(&lock);
    return *comm != NULL ? 0 : E_NOT_FOUND;
}

static bool is_ring(void)
{
    const char *topology = getenv("STANDIN_TOPOLOGY");

    return topology != NULL && strcmp(topology, "ring") == 0;
}

int HcomGetL0TopoTypeEx(const char *name, uint32_t *topology, uint32_t is_set)
{
    ENTER(HcomGetL0TopoTypeEx);
    if (is_set != 0 || *find(NULL, name) == NULL)
        return E_PARA;
    *topology = is_ring() ? 2 : 1;
    return 0;
}

/* ---- what it answers with ---- */

static void store64(char *at, uint64_t value)
{
    memcpy(at, &value, sizeof(value));
}

static void store32(char *at, uint32_t value)
{
    memcpy(at, &value, sizeof(value));
}

/* STANDIN_LIES: one answer of the library is wrong. */
static bool is_lie(const char *what)
{
    const char *lie = getenv("STANDIN_LIES");

    return lie != NULL && strcmp(lie, what) == 0;
}

static uint64_t in_of(const struct comm *c, uint32_t rank)
{
    return is_lie("base") && rank == c->count - 1 ? 0 : c->table->slot[rank].at;
}

static uint32_t rank_of(const struct comm *c)
{
    return is_lie("rank") ? c->rank + 1 : c->rank;
}

static uint32_t count_of(const struct comm *c)
{
    return is_lie("count") ? 1000 : c->count;
}

static uint64_t bytes_of(const struct comm *c)
{
    return is_lie("size") ? 16 : c->bytes;
}

static void fill_mesh(const struct comm *c, char *at)
{
    memset(at, 0, 1056);
    store32(at + 16, rank_of(c));
    store32(at + 20, count_of(c));
    store64(at + 24, bytes_of(c));
    for (uint32_t i = 0; i < c->count; i++) {
        store64(at + 32 + 8 * (size_t)i, in_of(c, i));
        store64(at + 544 + 8 * (size_t)i, in_of(c, i) + c->bytes);
    }
}

static void fill_ring(const struct comm *c, char *at)
{
    char *ranks = at + 2984 + 16 * (size_t)RANKS; /* records, one for each rank */

    store64(at, 0);
    store64(at + 8, 0);
    store32(at + 16, rank_of(c));
    store32(at + 20, count_of(c));
    store64(at + 24, bytes_of(c));
    store64(at + 32, c->table->slot[c->rank].at);
    store64(at + 40, c->table->slot[c->rank].at + c->bytes);
    for (uint32_t i = 0; i < c->count; i++) {
        char *record = ranks + 64 * (size_t)i;

        store64(at + 2984 + 16 * (size_t)i, 0xdead); /* of the host's side */
        store64(at + 2984 + 16 * (size_t)i + 8,
                i == c->rank ? 0 : (uint64_t)(uintptr_t)record); /* there is none of its own */
        store32(record, i);
        store32(record + 4, i);
        store64(record + 8, in_of(c, i));
        store64(record + 16, in_of(c, i) + c->bytes);
    }
}

/*
 * A batch of writes by SDMA over a full mesh, for this communicator; other operations are unknown.
 */
static bool is_known(const struct comm *c, const char *tiling)
{
    uint32_t word[3];
    uint16_t blocks;

    memcpy(word, tiling, sizeof(word));
    memcpy(&blocks, tiling + 44, sizeof(blocks));
    if (word[0] != 100 || word[1] != 1 || word[2] != 64 || blocks != 48 || tiling[46] != 4)
        return false;
    tiling += 64;
    memcpy(word, tiling + 272, sizeof(word[0]));
    return tiling[3] == 1 && tiling[13] == 3 && word[0] == 18 &&
           strcmp(tiling + 16, c->name) == 0 &&
           strcmp(tiling + 144, "BatchWrite=level0:fullmesh") == 0;
}

int HcclAllocComResourceByTiling(void *comm, void *stream, void *tiling, void **context)
{
    struct comm *c = comm;

    ENTER(HcclAllocComResourceByTiling);
    if (standin_check_well() != 0 || *find(comm, NULL) == NULL || stream == NULL ||
        ((struct stream *)stream)->context != standin_bound())
        return E_PARA;
    if (standin.is_a5)
        return E_UNSUPPORTED;
    if (!is_known(c, tiling))
        return E_PARA;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct slot *s = &c->table->slot[i];
        int file = open_file(s->pid, s->file);

        if (file >= 0)
            c->mapped[i] = mmap((void *)(uintptr_t)s->at, 2 * c->bytes, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
        if (file < 0 || c->mapped[i] == MAP_FAILED) {
            c->mapped[i] = NULL;
            return E_RUNTIME;
        }
        close(file);
        standin_register_window(c->mapped[i], 2 * c->bytes);
    }
    c->at = standin_give(c->card, 2984 + (16 + 64) * RANKS);
    if (c->at == NULL)
        return E_MEMORY;
    if (is_ring())
        fill_ring(c, c->at);
    else
        fill_mesh(c, c->at);
    *context = c->at;
    return 0;
}
