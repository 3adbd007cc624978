/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of a chip that is a card: memory of the card, and a mirror of it in the worker's memory, which
 * the worker reads and writes. Nothing moves between them by itself: the worker asks for copies, and a thread of
 * the child makes them while a task runs. Where the mirror is an argument of a task, the card's memory takes
 * its place.
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
    uint64_t at; /* on the card */
};

struct child_regions {
    pthread_mutex_t lock; /* the list */
    struct child_region *first;
    struct chip *chip;
    const struct tree_hello *hello;
    struct tree_shared *shared;
    struct wire_errand *errand;
    struct waker *alarm;
    struct a32 is_closing;
    pthread_t thread; /* that does the errands, and alone changes the list */
};

/* ---- errands ---- */

/* What it is to do, as it was when it was looked at. */
struct errand {
    enum errand_kind kind;
    uint32_t part_count;
    uint64_t mirror, bytes;
    struct errand_part part[ERRAND_PARTS];
};

static bool makes_sense(const struct child_regions *rs, const struct errand *e)
{
    uint64_t offset = e->mirror - rs->hello->link.addr;

    if (e->mirror < rs->hello->link.addr || e->bytes == 0 ||
        e->bytes > rs->hello->link.memory_bytes ||
        offset > rs->hello->link.memory_bytes - e->bytes || e->part_count > ERRAND_PARTS)
        return false;
    for (uint32_t i = 0; i < e->part_count; i++)
        if (e->part[i].offset > e->bytes || e->part[i].bytes > e->bytes - e->part[i].offset)
            return false;
    return true;
}

/* The one with this mirror, or where a new one goes. */
static struct child_region **find(struct child_regions *rs, uint64_t mirror)
{
    struct child_region **link = &rs->first;

    while (*link != NULL && (*link)->mirror != mirror)
        link = &(*link)->next;
    return link;
}

static int open_region(struct child_regions *rs, const struct errand *e, struct pto_error *error)
{
    struct child_region *r = calloc(1, sizeof(*r));
    int status = r != NULL ? chip_alloc(rs->chip, e->bytes, &r->at, error) : PTO_ENOMEM;

    if (status < 0) {
        free(r);
        return error->text[0] != '\0'
                   ? status
                   : error_tell(error, status, "there is no memory on the card for a region");
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

/* One part after the other: what comes later is seen later. */
static int move_parts(struct child_regions *rs, const struct child_region *r,
                      const struct errand *e, struct pto_error *error)
{
    int status = PTO_OK;

    for (uint32_t i = 0; i < e->part_count && status >= 0; i++) {
        const struct errand_part *part = &e->part[i];
        uint64_t at = r->at + part->offset;
        void *here = (void *)(uintptr_t)(r->mirror + part->offset);

        status = part->is_fetch ? chip_read(rs->chip, at, here, part->bytes, error)
                                : chip_write(rs->chip, at, here, part->bytes, error);
    }
    return status;
}

static int do_errand(struct child_regions *rs, const struct errand *e, struct pto_error *error)
{
    struct child_region **link = find(rs, e->mirror);

    if (!makes_sense(rs, e) || (*link == NULL) != (e->kind == ERRAND_OPEN) ||
        (*link != NULL && (*link)->bytes != e->bytes))
        return error_tell(error, PTO_EINVAL, "there is no such region on the card");
    switch (e->kind) {
    case ERRAND_OPEN:
        return open_region(rs, e, error);
    case ERRAND_MOVE:
        return move_parts(rs, *link, e, error);
    case ERRAND_CLOSE:
        return child_region_close(rs, link, error);
    }
    return error_tell(error, PTO_EINVAL, "there is no errand %u", (unsigned)e->kind);
}

static bool has_errand(void *context)
{
    const struct child_regions *rs = context;

    return a32_load_relaxed(&rs->is_closing) != 0 || /* the alarm's F41 */
           a32_load_relaxed(&rs->errand->asked) !=   /* a look; A44 follows */
               a32_load_relaxed(&rs->errand->done);  /* its own */
}

static void child_region_serve(struct child_regions *rs)
{
    struct wire_errand *wire = rs->errand;
    uint32_t asked = a32_load_acquire(&wire->asked); /* A44 */
    struct errand e = { wire->kind, wire->part_count, wire->mirror, wire->bytes, { { 0 } } };
    struct pto_error error;

    memcpy(e.part, wire->part, sizeof(e.part));
    pto_error_init(&error);
    wire->status = do_errand(rs, &e, &error);
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
            &(struct waker_wait){ .holds = has_errand, .context = rs, .deadline_ns = UINT64_MAX });
        if (a32_load_relaxed(&rs->is_closing) != 0) /* the alarm's F41 */
            return NULL;
        child_region_serve(rs);
    }
}

/* ---- for the child ---- */

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
    rs->errand = &shared->line[hello->child].errand;
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
    a32_store_relaxed(&rs->is_closing, 1); /* F41 follows */
    waker_wake(rs->alarm);
    (void)pthread_join(rs->thread, NULL);
    while (rs->first != NULL) {
        struct child_region *r = rs->first;

        rs->first = r->next;
        (void)chip_free(rs->chip, r->at, NULL); /* who cannot has a card that is lost */
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
