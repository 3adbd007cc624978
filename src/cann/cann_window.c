/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: memory of the card that other cards can access, whose processes map it. There are three
 * ways, the best one first:
 *
 *     fabric   physical memory that is exported by a handle of 128 bytes; newer cards
 *     vmm      exported by a number, and the link between both cards is opened; any card
 *     mc2      buffers of the vendor's communication library (cann_mc2.c)
 *
 * There is no query for the ways that a card supports: the export fails. Memory is exported once,
 * and imported in other processes. It is freed with its last importer, in any order of ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/os.h"
#include "cann/cann.h"

enum way { WAY_FABRIC, WAY_VMM, WAY_MC2 };

enum { LINK_POLL_NS = 1000000 };
/* how long to wait for the link between two cards; then the import is tried anyway */
#define LINK_NS 3000000000ull

static int window_offer(struct chip *chip, const struct chip_window_request *request,
                        struct chip_window **window_out, struct chip_offer *offer,
                        struct pto_error *error);
static int window_join(struct chip *chip, struct chip_window *window,
                       const struct chip_offer *offer, const struct chip_wait_check *check,
                       struct pto_error *error);
static int window_drop(struct chip *chip, struct chip_window *window, struct pto_error *error);

static const char
    *const ways[] = { [WAY_FABRIC] = "fabric", [WAY_VMM] = "vmm", [WAY_MC2] = "mc2", NULL };

const struct chip_window_ops cann_window_ops = {
    .ways = ways,
    .waiting = 1u << WAY_MC2,
    .offer = window_offer,
    .join = window_join,
    .drop = window_drop,
};

/* A piece of physical memory of a card, and the address at which this process has mapped it. */
struct piece {
    void *physical;
    void *at; /* address of the mapping; NULL: no addresses are reserved */
    bool is_mapped;
};

struct cann_window {
    struct chip_window base;
    enum way way;
    uint64_t bytes; /* bytes of physical memory for each rank's window: whole pages */
    /* number of ranks whose windows are registered as memory of the chip */
    uint32_t registered;
    /* physical memory of each rank's window; for WAY_FABRIC and WAY_VMM */
    struct piece piece[CHIP_WINDOW_RANKS];
    struct cann_mc2 mc2;
};

static struct cann_window *window_of(struct chip_window *window)
{
    return (struct cann_window *)(void *)window;
}

/* The last call for a window, which is named in an error, and its code. */
struct step {
    const char *call;
    int code;
};

#define STEP(step, v, name, ...) \
    ((step)->call = #name, (step)->code = VENDOR_CALL(v, name, __VA_ARGS__))

/* ---- pieces of physical memory ---- */

static bool is_huge(const struct cann_window *w)
{
    return w->way == WAY_FABRIC;
}

/* Reserves addresses for a piece, maps it there, and lets this card access it. */
static int map_piece(struct cann *c, const struct cann_window *w, struct piece *p, struct step *s)
{
    struct vendor *v = &c->vendor;
    struct vendor_access access = { .flags = VENDOR_READ_WRITE,
                                    .device = vendor_driver_card(c->card),
                                    .location = VENDOR_ON_DEVICE };
    void *at = NULL;

    if (STEP(s, v, aclrtReserveMemAddress, &at, w->bytes, 0, NULL,
             is_huge(w) ? VENDOR_RESERVE_HUGE : VENDOR_RESERVE_NORMAL) != ACL_SUCCESS)
        return s->code;
    p->at = at;
    if (STEP(s, v, aclrtMapMem, p->at, w->bytes, 0, p->physical, 0) != ACL_SUCCESS)
        return s->code;
    p->is_mapped = true;
    return STEP(s, v, aclrtMemSetAccess, p->at, w->bytes, &access, 1);
}

/* Releases a piece. A failed step does not end the release; *s keeps the first failure. */
static void drop_piece(struct cann *c, struct piece *p, struct step *s)
{
    struct vendor *v = &c->vendor;
    struct step each = { NULL, ACL_SUCCESS };

    if (p->is_mapped && STEP(&each, v, aclrtUnmapMem, p->at) != ACL_SUCCESS &&
        s->code == ACL_SUCCESS)
        *s = each;
    if (p->at != NULL && STEP(&each, v, aclrtReleaseMemAddress, p->at) != ACL_SUCCESS &&
        s->code == ACL_SUCCESS)
        *s = each;
    if (p->physical != NULL && STEP(&each, v, aclrtFreePhysical, p->physical) != ACL_SUCCESS &&
        s->code == ACL_SUCCESS)
        *s = each;
    memset(p, 0, sizeof(*p));
}

static int make_piece(struct cann *c, struct cann_window *w, struct piece *p, struct step *s)
{
    struct vendor *v = &c->vendor;
    struct vendor_memory kind = { .attribute = is_huge(w) ? VENDOR_HBM_HUGE : VENDOR_HBM_NORMAL,
                                  .device = c->card,
                                  .location = VENDOR_ON_DEVICE };
    void *physical = NULL;
    size_t page = 0;

    if (STEP(s, v, aclrtMemGetAllocationGranularity, &kind, VENDOR_GRANULARITY_LEAST, &page) !=
        ACL_SUCCESS)
        return s->code;
    page = page != 0 ? page : 1;
    w->bytes = (w->base.bytes + page - 1) / page * page;
    if (STEP(s, v, aclrtMallocPhysical, &physical, w->bytes, &kind, 0) != ACL_SUCCESS)
        return s->code;
    p->physical = physical;
    return map_piece(c, w, p, s);
}

static int export_piece(struct cann *c, const struct cann_window *w, struct chip_offer *offer,
                        struct step *s)
{
    void *physical = w->piece[w->base.rank].physical;
    uint8_t handle[VENDOR_FABRIC_BYTES] = { 0 };
    uint64_t number = 0;

    if (w->way == WAY_FABRIC)
        STEP(s, &c->vendor, aclrtMemExportToShareableHandleV2, physical, VENDOR_ANY_PROCESS,
             VENDOR_SHARE_FABRIC, handle);
    else
        STEP(s, &c->vendor, aclrtMemExportToShareableHandle, physical, VENDOR_HANDLE_NONE,
             VENDOR_ANY_PROCESS, &number);
    offer->bytes = w->way == WAY_FABRIC ? sizeof(handle) : sizeof(number);
    memcpy(offer->data, w->way == WAY_FABRIC ? (void *)handle : (void *)&number, offer->bytes);
    return s->code;
}

static int import_piece(struct cann *c, const struct cann_window *w, const struct chip_offer *offer,
                        struct piece *p, struct step *s)
{
    uint8_t handle[VENDOR_FABRIC_BYTES];
    void *physical = NULL;
    uint64_t number;

    memcpy(handle, offer->data, sizeof(handle));
    memcpy(&number, offer->data, sizeof(number));
    if (w->way == WAY_FABRIC)
        STEP(s, &c->vendor, aclrtMemImportFromShareableHandleV2, handle, VENDOR_SHARE_FABRIC, 0,
             &physical);
    else
        STEP(s, &c->vendor, aclrtMemImportFromShareableHandle, number, (int32_t)c->card, &physical);
    if (s->code != ACL_SUCCESS)
        return s->code;
    p->physical = physical;
    return map_piece(c, w, p, s);
}

/* ---- links between cards ---- */

/*
 * Opens the link to another card, and waits for it. Its state is only a hint: if the link is not
 * usable, the import fails.
 */
static int open_link(struct cann *c, uint32_t driver_card, const struct chip_wait_check *check,
                     struct step *s, struct pto_error *error)
{
    int32_t peer = vendor_own_card(driver_card), is_open = 0;
    uint64_t deadline_ns = os_now_ns() + LINK_NS;

    if (peer < 0)
        return error_setf(error, PTO_EINVAL,
                          "card %u of another rank is hidden from this process: name the cards of "
                          "all ranks in ASCEND_RT_VISIBLE_DEVICES",
                          driver_card);
    if (STEP(s, &c->vendor, aclrtDeviceEnablePeerAccess, peer, 0) != ACL_SUCCESS)
        return cann_error_set(c, error, s->call, s->code, "while opening the link to another card");
    while (STEP(s, &c->vendor, aclrtDevicePeerAccessStatus, (int32_t)c->card, peer, &is_open) ==
               ACL_SUCCESS &&
           is_open == 0 && os_now_ns() < deadline_ns && check->should_wait(check->context))
        (void)nanosleep(&(struct timespec){ 0, LINK_POLL_NS }, NULL);
    return PTO_OK;
}

/* ---- offering a window ---- */

static int offer_piece(struct cann *c, struct cann_window *w, struct chip_offer *offer,
                       struct pto_error *error)
{
    struct piece *own = &w->piece[w->base.rank];
    struct step s = { NULL, ACL_SUCCESS };

    /* Other ranks may write signals as soon as they have the memory, so it is zeroed first. */
    if (make_piece(c, w, own, &s) == ACL_SUCCESS &&
        STEP(&s, &c->vendor, aclrtMemset, own->at, w->bytes, 0, w->bytes) == ACL_SUCCESS)
        (void)export_piece(c, w, offer, &s);
    return s.code == ACL_SUCCESS ? PTO_OK
                                 : cann_error_set(c, error, s.call, s.code, "for a window");
}

/* Work for a driver thread that concerns a window, and its result. */
struct window_job {
    struct cann_window *window;
    struct chip_offer *own;
    const struct chip_offer *offer; /* an offer from each rank */
    const struct chip_wait_check *check;
    int status;
    struct pto_error error;
};

static int cann_window_run_job(struct cann *c, driver_work_fn work, struct window_job *job,
                               const struct chip_wait_check *check, struct pto_error *error)
{
    int status;

    pto_error_init(&job->error);
    /* makes no further call: one call already hangs, and another one would hang as long */
    if (a32_load_relaxed(&c->is_silent) != 0)
        return cann_refuse(c, error);
    status = driver_thread_call_while(c, work, job, check, error);
    if (status >= 0 && job->status < 0)
        status = error_setf(error, job->status, "%s", job->error.text);
    return status;
}

static void offer_window(struct cann *c, void *arg)
{
    struct window_job *job = arg;

    job->status = job->window->way == WAY_MC2
                      ? cann_mc2_offer(c, job->window->base.rank, job->own, &job->error)
                      : offer_piece(c, job->window, job->own, &job->error);
}

static int window_offer(struct chip *chip, const struct chip_window_request *request,
                        struct chip_window **window_out, struct chip_offer *offer,
                        struct pto_error *error)
{
    struct cann *c = cann_of(chip);
    struct cann_window *w = calloc(1, sizeof(*w));
    struct window_job job = { .window = w, .own = offer };
    int status;

    if (w == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for a window");
    memset(offer, 0, sizeof(*offer));
    offer->card = vendor_driver_card(c->card);
    w->way = (enum way)request->way;
    w->base.bytes = request->bytes;
    w->base.rank = request->rank;
    w->base.rank_count = request->rank_count;
    status = cann_window_run_job(c, offer_window, &job, NULL, error);
    if (status < 0) {
        (void)window_drop(chip, &w->base, NULL);
        return status;
    }
    *window_out = &w->base;
    return PTO_OK;
}

/* ---- joining the windows of other ranks ---- */

static int join_pieces(struct cann *c, struct cann_window *w, const struct chip_offer *offer,
                       const struct chip_wait_check *check, struct pto_error *error)
{
    struct step s = { NULL, ACL_SUCCESS };

    for (uint32_t i = 0; i < w->base.rank_count; i++) {
        struct piece *p = &w->piece[i];
        int status = PTO_OK;

        if (i != w->base.rank && w->way == WAY_VMM) /* mutation: rule-no-link */
            status = open_link(c, offer[i].card, check, &s, error);
        if (status < 0)
            return status;
        if (i != w->base.rank && import_piece(c, w, &offer[i], p, &s) != ACL_SUCCESS)
            return cann_error_set(c, error, s.call, s.code, "while mapping another rank's window");
        w->base.in[i] = w->base.out[i] = (uint64_t)(uintptr_t)p->at;
    }
    return PTO_OK;
}

static int join_mc2(struct cann *c, struct cann_window *w, const struct chip_offer *offer,
                    struct pto_error *error)
{
    struct step s = { NULL, ACL_SUCCESS };
    int status = cann_mc2_join(c, &w->mc2, &w->base, offer, error);

    if (status >= 0 &&
        STEP(&s, &c->vendor, aclrtMemset, (void *)(uintptr_t)w->base.in[w->base.rank],
             w->base.bytes, 0, w->base.bytes) == ACL_SUCCESS)
        STEP(&s, &c->vendor, aclrtMemset, (void *)(uintptr_t)w->base.out[w->base.rank],
             w->base.bytes, 0, w->base.bytes);
    return s.code == ACL_SUCCESS ? status
                                 : cann_error_set(c, error, s.call, s.code, "for a window");
}

/* Registers the windows of all ranks as memory of the chip. */
static int register_windows(struct cann *c, struct cann_window *w, struct pto_error *error)
{
    for (; w->registered < w->base.rank_count; w->registered++) {
        uint64_t in = w->base.in[w->registered], out = w->base.out[w->registered];
        int status = cann_register_memory(c, in, w->base.bytes);

        if (status >= 0 && out != in) {
            status = cann_register_memory(c, out, w->base.bytes);
            if (status < 0)
                cann_unregister_memory(c, in);
        }
        if (status < 0)
            return error_setf(error, status, "there is no memory for a window");
    }
    return PTO_OK;
}

static void join_windows(struct cann *c, void *arg)
{
    struct window_job *job = arg;

    job->status = job->window->way == WAY_MC2
                      ? join_mc2(c, job->window, job->offer, &job->error)
                      : join_pieces(c, job->window, job->offer, job->check, &job->error);
}

static int window_join(struct chip *chip, struct chip_window *window,
                       const struct chip_offer *offer, const struct chip_wait_check *check,
                       struct pto_error *error)
{
    struct cann *c = cann_of(chip);
    struct window_job job = { .window = window_of(window), .offer = offer, .check = check };
    int status = cann_window_run_job(c, join_windows, &job, check, error);

    return status >= 0 ? register_windows(c, job.window, error) : status;
}

/* ---- dropping a window ---- */

static void drop_window(struct cann *c, void *arg)
{
    struct window_job *job = arg;
    struct cann_window *w = job->window;
    struct step s = { NULL, ACL_SUCCESS };

    job->status = PTO_OK;
    for (uint32_t i = 0; i < w->base.rank_count; i++)
        if (i != w->base.rank)
            drop_piece(c, &w->piece[i], &s);
    drop_piece(c, &w->piece[w->base.rank], &s);
    if (w->way == WAY_MC2)
        job->status = cann_mc2_drop(c, &w->mc2, &job->error);
    if (s.code != ACL_SUCCESS)
        job->status = cann_error_set(c, &job->error, s.call, s.code, "while releasing a window");
}

static int window_drop(struct chip *chip, struct chip_window *window, struct pto_error *error)
{
    struct cann *c = cann_of(chip);
    struct cann_window *w = window_of(window);
    struct window_job job = { .window = w };
    int status = PTO_OK;

    while (w->registered > 0) {
        w->registered--;
        cann_unregister_memory(c, w->base.in[w->registered]);
        cann_unregister_memory(c, w->base.out[w->registered]);
    }
    /* on a card that has failed nothing is released: cann_close resets the card */
    if (!cann_is_lost(c))
        status = cann_window_run_job(c, drop_window, &job, NULL, error);
    free(w);
    return status;
}
