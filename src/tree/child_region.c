/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of a child whose chip is a card. A region is memory of the card; the worker reads and
 * writes a mirror of it in its own memory. The worker requests each copy between region and mirror.
 * A thread of the child makes the copy while another thread of the child runs a task. In task
 * arguments, addresses in the mirror are replaced by addresses on the card.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "chip/chip.h"
#include "tree/child.h"
#include "tree/tree_wire.h"

struct child_region {
    struct child_region *next;
    uint64_t mirror;
    uint64_t bytes;
    uint64_t at; /* address of the region on the card */
};

struct child_regions {
    /*
     * protects the list of regions; the serving thread, its only writer, reads it without the lock
     */
    pthread_mutex_t lock;
    struct child_region *first;
    struct chip *chip;
    const struct tree_hello *hello;
    struct tree_shared *shared;
    struct wire_mirror_request *request;
    struct waker *alarm;
    struct a32 is_closing;
    pthread_t thread; /* serves the worker's requests; only this thread changes the list */
};

/* ---- requests ---- */

/* Copy of a request: the worker may change its memory while the request is served. */
struct mirror_request {
    enum mirror_request_kind kind;
    uint32_t range_count;
    uint64_t mirror, bytes;
    struct mirror_range part[MIRROR_RANGES];
};

static bool makes_sense(const struct child_regions *rs, const struct mirror_request *e)
{
    uint64_t offset = e->mirror - rs->hello->link.addr;

    if (e->mirror < rs->hello->link.addr || e->bytes == 0 ||
        e->bytes > rs->hello->link.memory_bytes ||
        offset > rs->hello->link.memory_bytes - e->bytes || e->range_count > MIRROR_RANGES)
        return false;
    for (uint32_t i = 0; i < e->range_count; i++)
        if (e->part[i].offset > e->bytes || e->part[i].bytes > e->bytes - e->part[i].offset)
            return false;
    return true;
}

/* Returns the link to the region with this mirror, or the end of the list if there is none. */
static struct child_region **find(struct child_regions *rs, uint64_t mirror)
{
    struct child_region **link = &rs->first;

    while (*link != NULL && (*link)->mirror != mirror)
        link = &(*link)->next;
    return link;
}

static int open_region(struct child_regions *rs, const struct mirror_request *e,
                       struct pto_error *error)
{
    struct child_region *r = calloc(1, sizeof(*r));
    int status = r != NULL ? chip_alloc(rs->chip, e->bytes, &r->at, error) : PTO_ENOMEM;

    if (status < 0) {
        free(r);
        return error->text[0] != '\0'
                   ? status
                   : error_setf(error, status, "there is no memory on the card for a region");
    }
    r->mirror = e->mirror;
    r->bytes = e->bytes;
    status = chip_write(rs->chip, r->at, (const void *)(uintptr_t)r->mirror, r->bytes, error);
    if (status < 0) {
        (void)chip_free(rs->chip, r->at, NULL);
        free(r);
        return status;
    }
    pthread_mutex_lock(&rs->lock);
    *find(rs, r->mirror) = r;
    pthread_mutex_unlock(&rs->lock);
    return PTO_OK;
}

static int child_region_close(struct child_regions *rs, struct child_region **link,
                              struct pto_error *error)
{
    struct child_region *r = *link;
    int status;

    pthread_mutex_lock(&rs->lock);
    *link = r->next;
    pthread_mutex_unlock(&rs->lock);
    status = chip_free(rs->chip, r->at, error);
    free(r);
    return status;
}

/*
 * Copies the ranges in the order of the request: a reader that sees a later range also sees the
 * earlier ones.
 */
static int move_parts(struct child_regions *rs, const struct child_region *r,
                      const struct mirror_request *e, struct pto_error *error)
{
    int status = PTO_OK;

    for (uint32_t i = 0; i < e->range_count && status >= 0; i++) {
        const struct mirror_range *part = &e->part[i];
        uint64_t at = r->at + part->offset;
        void *here = (void *)(uintptr_t)(r->mirror + part->offset);

        status = part->is_fetch ? chip_read(rs->chip, at, here, part->bytes, error)
                                : chip_write(rs->chip, at, here, part->bytes, error);
    }
    return status;
}

static int do_mirror_request(struct child_regions *rs, const struct mirror_request *e,
                             struct pto_error *error)
{
    struct child_region **link = find(rs, e->mirror);

    if (!makes_sense(rs, e) || (*link == NULL) != (e->kind == MIRROR_OPEN) ||
        (*link != NULL && (*link)->bytes != e->bytes))
        return error_setf(error, PTO_EINVAL, "there is no such region on the card");
    switch (e->kind) {
    case MIRROR_OPEN:
        return open_region(rs, e, error);
    case MIRROR_MOVE:
        return move_parts(rs, *link, e, error);
    case MIRROR_CLOSE:
        return child_region_close(rs, link, error);
    }
    return error_setf(error, PTO_EINVAL, "there is no request %u", (unsigned)e->kind);
}

static bool has_request(void *context)
{
    const struct child_regions *rs = context;

    /* relaxed: fence F31 of the alarm orders this load */
    return a32_load_relaxed(&rs->is_closing) != 0 ||
           /* relaxed: only a hint; acquire A44 follows before the request is read */
           a32_load_relaxed(&rs->request->asked) !=
               a32_load_relaxed(&rs->request->done); /* relaxed: only this thread writes `done` */
}

static void child_region_serve(struct child_regions *rs)
{
    struct wire_mirror_request *wire = rs->request;
    uint32_t asked = a32_load_acquire(&wire->asked); /* A44 */
    struct mirror_request e = {
        wire->kind, wire->range_count, wire->mirror, wire->bytes, { { 0 } }
    };
    struct pto_error error;

    memcpy(e.part, wire->part, sizeof(e.part));
    pto_error_init(&error);
    wire->status = do_mirror_request(rs, &e, &error);
    snprintf(wire->text, sizeof(wire->text), "%s",
             error.text[0] != '\0' ? error.text : pto_strerror(wire->status));
    a32_store_release(&wire->done, asked); /* R45 */
    (void)a32_add_acq_rel(&rs->shared->calls, 1);
    waker_wake(&rs->shared->waker);
}

static void *serve_main(void *context)
{
    struct child_regions *rs = context;

    for (;;) {
        (void)waker_await(
            rs->alarm,
            &(struct waker_wait){ .holds = has_request, .context = rs, .deadline_ns = UINT64_MAX });
        /* relaxed: fence F31 of the alarm orders this load */
        if (a32_load_relaxed(&rs->is_closing) != 0)
            return NULL;
        child_region_serve(rs);
    }
}

/* ---- functions for the rest of the child ---- */

int child_regions_open(struct chip *chip, const struct tree_hello *hello,
                       struct tree_shared *shared, struct child_regions **regions_out)
{
    struct child_regions *rs = calloc(1, sizeof(*rs));

    if (rs == NULL)
        return PTO_ENOMEM;
    pthread_mutex_init(&rs->lock, NULL);
    rs->chip = chip;
    rs->hello = hello;
    rs->shared = shared;
    rs->request = &shared->line[hello->child].mirror_request;
    rs->alarm = &shared->line[hello->child].alarm;
    if (os_thread_start(&rs->thread, serve_main, rs) < 0) {
        pthread_mutex_destroy(&rs->lock);
        free(rs);
        return PTO_ESYSTEM;
    }
    *regions_out = rs;
    return PTO_OK;
}

void child_regions_close(struct child_regions *rs)
{
    if (rs == NULL)
        return;
    a32_store_relaxed(&rs->is_closing, 1); /* fence F31 follows */
    waker_wake(rs->alarm);
    (void)pthread_join(rs->thread, NULL);
    while (rs->first != NULL) {
        struct child_region *r = rs->first;

        rs->first = r->next;
        /* ignored: chip_free fails only if the card is lost */
        (void)chip_free(rs->chip, r->at, NULL);
        free(r);
    }
    pthread_mutex_destroy(&rs->lock);
    free(rs);
}

uint64_t child_regions_find(struct child_regions *rs, uint64_t addr)
{
    uint64_t found = 0;

    pthread_mutex_lock(&rs->lock);
    for (const struct child_region *r = rs->first; r != NULL && found == 0; r = r->next)
        if (addr - r->mirror < r->bytes)
            found = r->at + (addr - r->mirror);
    pthread_mutex_unlock(&rs->lock);
    return found;
}
