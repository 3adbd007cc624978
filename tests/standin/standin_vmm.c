/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the stand-in that processes share: physical memory is an unnamed file, whose last page
 * describes it. A process that imports it opens the file of the exporting process through /proc.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/standin/standin.h"

enum {
    ERR_PARAM = 107000,
    ERR_DEVICE = 107001,
    ERR_UNSUPPORTED = 207000,
    ERR_MEMORY = 207001,
    ERR_DRIVER = 507899,
    HUGE = 4,
    NORMAL = 5,
    FABRIC = 2,
    ANY_PROCESS = 1,
    LABEL_BYTES = 4096,
    LABEL_MAGIC = 0x4d4d5653,
    PAGE_NORMAL = 64 << 10,
    PAGE_HUGE = 2 << 20,
    POLLS = 2, /* number of calls before a link is open */
};

/* The last page of the file, which describes the memory. */
struct label {
    uint32_t magic;
    uint32_t key; /* key that a handle must have */
    uint32_t card;
    uint32_t pid;
    uint32_t is_fabric;
    uint32_t is_exported;
    uint32_t is_for_all;
    uint64_t bytes;
};

struct physical {
    struct physical *next;
    int file;
    uint32_t card; /* card that owns the memory */
    uint32_t here; /* card on which this process has allocated or imported it */
    uint64_t bytes;
    uint32_t maps;
    bool is_imported;
    int attribute;
    struct label *label;
};

struct reservation {
    struct reservation *next;
    char *at;
    uint64_t bytes;
    uint32_t card;
    struct physical *physical; /* physical memory that is mapped; NULL: none */
    bool is_huge;
    bool is_open; /* the card has access */
    bool is_lent; /* mapped by another library, which unmaps it */
};

static struct physical *physicals;
static struct reservation *reservations;
static uint32_t links[CARDS_MAX]; /* bit mask of the cards that a card has a link to */
static uint32_t polls[CARDS_MAX];

/* Layout of the vendor's structs. */
struct memory {
    int32_t handle, allocation, attribute;
    uint32_t device;
    int32_t location;
    uint64_t reserved;
};

struct access {
    int32_t flags;
    uint32_t device;
    int32_t location;
    uint32_t reserved[3];
};

static bool has_fabric(void)
{
    const char *share = getenv("STANDIN_SHARE");

    return share != NULL ? strcmp(share, "fabric") == 0
                         : strncmp(standin.soc, "Ascend910_93", 12) == 0;
}

static bool has_vmm(void)
{
    const char *share = getenv("STANDIN_SHARE");

    return share == NULL || strcmp(share, "none") != 0;
}

/* ---- physical memory ---- */

static uint64_t page_of(int attribute)
{
    return attribute == HUGE ? PAGE_HUGE : PAGE_NORMAL;
}

int aclrtMemGetAllocationGranularity(const struct memory *kind, int option, size_t *bytes)
{
    ENTER(aclrtMemGetAllocationGranularity);
    if (option != 0 || (kind->attribute != HUGE && kind->attribute != NORMAL))
        return ERR_PARAM;
    *bytes = page_of(kind->attribute);
    return 0;
}

/* Under the lock. */
static struct physical *add_physical(int file, uint64_t bytes)
{
    struct physical *p = calloc(1, sizeof(*p));

    if (p == NULL)
        abort();
    p->file = file;
    p->bytes = bytes;
    p->label = mmap(NULL, LABEL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)bytes);
    if (p->label == MAP_FAILED)
        abort();
    p->here = standin_here->card;
    p->next = physicals;
    physicals = p;
    return p;
}

int aclrtMallocPhysical(void **physical, size_t bytes, const struct memory *kind, uint64_t flags)
{
    static uint32_t keys;
    char dirt[PAGE_NORMAL];
    struct physical *p;
    uint32_t key;
    bool has_room;
    int file, code;

    ENTER(aclrtMallocPhysical);
    code = standin_check_well();
    if (code != 0)
        return code;
    if (flags != 0 || kind->handle != 0 || kind->allocation != 0 || kind->location != 1 ||
        (kind->attribute != HUGE && kind->attribute != NORMAL) || bytes == 0 ||
        bytes % page_of(kind->attribute) != 0)
        return ERR_PARAM;
    if (kind->device != standin_here->card) /* number that this process has for the card */
        return ERR_DEVICE;
    pthread_mutex_lock(&standin.lock);
    key = (uint32_t)getpid() * 2654435761u + ++keys;
    has_room = standin_lend(kind->device, key, bytes);
    if (has_room)
        standin_count_bytes(kind->device, (int64_t)bytes);
    pthread_mutex_unlock(&standin.lock);
    if (!has_room)
        return ERR_MEMORY;
    pthread_mutex_lock(&standin.lock);
    file = memfd_create("standin-card", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)(bytes + LABEL_BYTES)) != 0)
        abort();
    memset(dirt, 0xa5, sizeof(dirt)); /* nobody gets zeros */
    if (pwrite(file, dirt, sizeof(dirt), 0) != (ssize_t)sizeof(dirt))
        abort();
    p = add_physical(file, bytes);
    p->card = kind->device;
    p->attribute = kind->attribute;
    *p->label = (struct label){ .magic = LABEL_MAGIC,
                                .key = key,
                                .card = standin_driver_card(kind->device),
                                .pid = (uint32_t)getpid(),
                                .bytes = bytes };
    pthread_mutex_unlock(&standin.lock);
    *physical = p;
    return 0;
}

/* Under the lock. */
static struct physical **find_physical(const void *physical)
{
    struct physical **link = &physicals;

    while (*link != NULL && *link != physical)
        link = &(*link)->next;
    return link;
}

/* Under the lock. */
static void drop_physical(struct physical **link)
{
    struct physical *p = *link;

    *link = p->next;
    if (!p->is_imported)
        standin_count_bytes(p->card, -(int64_t)p->bytes);
    standin_let_go(p->label->card, p->label->key);
    munmap(p->label, LABEL_BYTES);
    close(p->file);
    free(p);
}

int aclrtFreePhysical(void *physical)
{
    struct physical **link;
    int code = 0;

    ENTER(aclrtFreePhysical);
    code = standin_check_bound();
    if (code != 0)
        return code;
    pthread_mutex_lock(&standin.lock);
    link = find_physical(physical);
    if (*link == NULL || (*link)->maps != 0)
        code = ERR_PARAM;
    else
        drop_physical(link);
    pthread_mutex_unlock(&standin.lock);
    if (code != 0)
        standin_violation("aclrtFreePhysical of memory that is still mapped, or is none");
    return code;
}

/* ---- addresses ---- */

int aclrtReserveMemAddress(void **at, size_t bytes, size_t align, void *hint, uint64_t flags)
{
    struct reservation *r;
    int code;

    ENTER(aclrtReserveMemAddress);
    code = standin_check_well();
    if (code != 0)
        return code;
    if (bytes == 0 || bytes % PAGE_NORMAL != 0 || align != 0 || hint != NULL || flags > 1)
        return ERR_PARAM;
    r = calloc(1, sizeof(*r));
    if (r == NULL)
        abort();
    r->bytes = bytes;
    r->card = standin_here->card;
    r->is_huge = flags == 1;
    r->at = standin_reserve(bytes);
    pthread_mutex_lock(&standin.lock);
    r->next = reservations;
    reservations = r;
    pthread_mutex_unlock(&standin.lock);
    *at = r->at;
    return 0;
}

/* Under the lock. */
static struct reservation **find_reservation(const void *at)
{
    struct reservation **link = &reservations;

    while (*link != NULL && (*link)->at != at)
        link = &(*link)->next;
    return link;
}

/* Under the lock. */
static void drop_reservation(struct reservation **link)
{
    struct reservation *r = *link;

    *link = r->next;
    if (r->physical != NULL)
        r->physical->maps--;
    if (!r->is_lent)
        munmap(r->at, r->bytes);
    free(r);
}

int aclrtReleaseMemAddress(void *at)
{
    struct reservation **link;
    int code;

    ENTER(aclrtReleaseMemAddress);
    code = standin_check_bound();
    if (code != 0)
        return code;
    pthread_mutex_lock(&standin.lock);
    link = find_reservation(at);
    if (*link == NULL || (*link)->physical != NULL)
        code = ERR_PARAM;
    else
        drop_reservation(link);
    pthread_mutex_unlock(&standin.lock);
    if (code != 0)
        standin_violation("aclrtReleaseMemAddress of %p, which is mapped, or not reserved", at);
    return code;
}

int aclrtMapMem(void *at, size_t bytes, size_t offset, void *physical, uint64_t flags)
{
    struct reservation *r;
    struct physical *p;
    int code;

    ENTER(aclrtMapMem);
    code = standin_check_well();
    if (code != 0)
        return code;
    pthread_mutex_lock(&standin.lock);
    r = *find_reservation(at);
    p = *find_physical(physical);
    if (r == NULL || p == NULL || r->physical != NULL || bytes != r->bytes || bytes != p->bytes ||
        offset != 0 || flags != 0 || r->is_huge != (p->attribute == HUGE))
        code = ERR_PARAM;
    else if (mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, p->file, 0) != at)
        code = ERR_DRIVER;
    if (code == 0) {
        r->physical = p;
        p->maps++;
    }
    pthread_mutex_unlock(&standin.lock);
    return code;
}

int aclrtUnmapMem(void *at)
{
    struct reservation *r;
    int code;

    ENTER(aclrtUnmapMem);
    code = standin_check_bound();
    if (code != 0)
        return code;
    pthread_mutex_lock(&standin.lock);
    r = *find_reservation(at);
    if (r == NULL || r->physical == NULL) {
        code = ERR_PARAM;
    } else {
        r->physical->maps--;
        r->physical = NULL;
        r->is_open = false;
        if (mmap(at, r->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                 -1, 0) != at)
            abort();
    }
    pthread_mutex_unlock(&standin.lock);
    return code;
}

int aclrtMemSetAccess(void *at, size_t bytes, const struct access *access, size_t count)
{
    struct reservation *r;
    int code;

    ENTER(aclrtMemSetAccess);
    code = standin_check_well();
    if (code != 0)
        return code;
    pthread_mutex_lock(&standin.lock);
    r = *find_reservation(at);
    if (r == NULL || r->physical == NULL || bytes != r->bytes || count != 1 || access->flags != 3 ||
        access->location != 1)
        code = ERR_PARAM;
    else if (access->device != standin_driver_card(standin_here->card)) /* the driver's number */
        code = ERR_DRIVER;
    else if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0)
        code = ERR_DRIVER;
    if (code == 0)
        r->is_open = true;
    pthread_mutex_unlock(&standin.lock);
    return code;
}

void standin_register_window(char *at, size_t bytes)
{
    struct reservation *r = calloc(1, sizeof(*r));

    if (r == NULL)
        abort();
    *r = (struct reservation){
        .at = at, .bytes = bytes, .card = standin_here->card, .is_open = true, .is_lent = true
    };
    pthread_mutex_lock(&standin.lock);
    r->next = reservations;
    reservations = r;
    pthread_mutex_unlock(&standin.lock);
}

void standin_unregister_window(const char *at)
{
    struct reservation **link;

    pthread_mutex_lock(&standin.lock);
    link = find_reservation(at);
    if (*link != NULL)
        drop_reservation(link);
    pthread_mutex_unlock(&standin.lock);
}

bool standin_is_mapped(const void *at, size_t bytes)
{
    const struct reservation *r = reservations;

    while (r != NULL && !(r->is_open && (const char *)at >= r->at &&
                          (const char *)at + bytes <= r->at + r->bytes))
        r = r->next;
    return r != NULL;
}

bool standin_clear_shared(void *at, size_t bytes)
{
    bool is_ours;

    pthread_mutex_lock(&standin.lock);
    is_ours = standin_is_mapped(at, bytes);
    pthread_mutex_unlock(&standin.lock);
    return is_ours && bytes % PAGE_NORMAL == 0 && madvise(at, bytes, MADV_REMOVE) == 0;
}

uint32_t standin_forget_shared(uint32_t card)
{
    uint32_t count = 0;

    for (struct reservation **r = &reservations; *r != NULL;)
        if ((*r)->card == card) {
            drop_reservation(r);
            count++;
        } else {
            r = &(*r)->next;
        }
    for (struct physical **p = &physicals; *p != NULL;)
        if ((*p)->here == card) {
            drop_physical(p);
            count++;
        } else {
            p = &(*p)->next;
        }
    links[card] = 0;
    polls[card] = 0;
    return count;
}

uint64_t standin_count_shared(void)
{
    uint64_t count = 0;

    for (const struct reservation *r = reservations; r != NULL; r = r->next)
        count++;
    for (const struct physical *p = physicals; p != NULL; p = p->next)
        count++;
    return count;
}

/* ---- handles ---- */

/* A handle has the number of the process, of the file, and a key. */
static uint64_t number_of(const struct physical *p)
{
    return (uint64_t)getpid() << 40 | (uint64_t)(uint32_t)p->file << 24 |
           (p->label->key & 0xffffff);
}

static int export(void *physical, uint64_t flags, bool is_fabric, uint64_t *number)
{
    struct physical *p;
    int code = standin_check_well();

    if (code != 0)
        return code;
    if (flags > 1)
        return ERR_PARAM;
    pthread_mutex_lock(&standin.lock);
    p = *find_physical(physical);
    /* mutation: lenient-standin */
    if (p == NULL || p->is_imported || p->label->is_exported != 0) { /* once, by its owner */
        code = ERR_PARAM;
    } else {
        p->label->is_fabric = is_fabric;
        p->label->is_for_all = flags == ANY_PROCESS;
        p->label->is_exported = 1;
        *number = number_of(p);
    }
    pthread_mutex_unlock(&standin.lock);
    return code;
}

static int import(uint64_t number, bool is_fabric, void **physical)
{
    char path[64];
    struct stat about;
    struct label label;
    struct physical *p;
    int file, code = standin_check_well();

    if (code != 0)
        return code;
    if (number >> 40 == (uint64_t)getpid()) {
        standin_violation("memory is imported by the process that has exported it");
        return ERR_PARAM;
    }
    snprintf(path, sizeof(path), "/proc/%llu/fd/%llu", (unsigned long long)(number >> 40),
             (unsigned long long)(number >> 24 & 0xffff));
    file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return ERR_PARAM; /* it is gone, or was freed */
    if (fstat(file, &about) != 0 || about.st_size <= LABEL_BYTES ||
        pread(file, &label, sizeof(label), about.st_size - LABEL_BYTES) != (ssize_t)sizeof(label) ||
        label.magic != LABEL_MAGIC || (label.key & 0xffffff) != (number & 0xffffff) ||
        label.is_fabric != is_fabric || label.is_for_all == 0) {
        close(file);
        return ERR_PARAM;
    }
    if (!is_fabric && (links[standin_here->card] >> label.card & 1) == 0) {
        standin_violation("memory of card %u is imported without a link to it", label.card);
        close(file);
        return ERR_DRIVER;
    }
    pthread_mutex_lock(&standin.lock);
    p = add_physical(file, (uint64_t)about.st_size - LABEL_BYTES);
    p->is_imported = true;
    standin_hold(label.card, label.key);
    p->attribute = is_fabric ? HUGE : NORMAL;
    pthread_mutex_unlock(&standin.lock);
    *physical = p;
    return 0;
}

int aclrtMemExportToShareableHandle(void *physical, int kind, uint64_t flags, uint64_t *handle)
{
    ENTER(aclrtMemExportToShareableHandle);
    if (!has_vmm())
        return ERR_UNSUPPORTED;
    return kind == 0 ? export(physical, flags, false, handle) : ERR_PARAM;
}

int aclrtMemImportFromShareableHandle(uint64_t handle, int32_t device, void **physical)
{
    ENTER(aclrtMemImportFromShareableHandle);
    if (standin_here == NULL || device != (int32_t)standin_here->card)
        return ERR_DEVICE;
    return import(handle, false, physical);
}

int aclrtMemExportToShareableHandleV2(void *physical, uint64_t flags, int kind, void *handle)
{
    uint64_t number = 0;
    int code;

    ENTER(aclrtMemExportToShareableHandleV2);
    if (!has_fabric())
        return ERR_UNSUPPORTED;
    code = kind == FABRIC ? export(physical, flags, true, &number) : ERR_PARAM;
    memset(handle, 0xfa, 128);
    memcpy((char *)handle + 60, &number, sizeof(number));
    return code;
}

int aclrtMemImportFromShareableHandleV2(void *handle, int kind, uint64_t flags, void **physical)
{
    uint64_t number;

    ENTER(aclrtMemImportFromShareableHandleV2);
    memcpy(&number, (const char *)handle + 60, sizeof(number));
    return kind == FABRIC && flags == 0 ? import(number, true, physical) : ERR_PARAM;
}

/* ---- links ---- */

int aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags)
{
    int code;

    ENTER(aclrtDeviceEnablePeerAccess);
    code = standin_check_well();
    if (code != 0)
        return code;
    if (peer < 0 || (uint32_t)peer >= standin.card_count || (uint32_t)peer == standin_here->card ||
        flags != 0)
        return ERR_DEVICE;
    links[standin_here->card] |= 1u << standin_driver_card((uint32_t)peer);
    return 0;
}

int aclrtDevicePeerAccessStatus(int32_t device, int32_t peer, int32_t *status)
{
    ENTER(aclrtDevicePeerAccessStatus);
    if (device < 0 || (uint32_t)device >= standin.card_count || peer < 0 ||
        (uint32_t)peer >= standin.card_count)
        return ERR_DEVICE;
    *status = (links[device] >> standin_driver_card((uint32_t)peer) & 1) != 0 && /* not at once */
              ++polls[device] > POLLS;
    return 0;
}
