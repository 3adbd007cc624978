/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of the vendor's communication library. They are the buffers of a communicator, which the
 * library provides to kernels that compute and communicate at once (MC2). Their addresses are in a
 * struct on the card that no public header declares, with one layout for each topology; values
 * read from it are checked. The library waits for all ranks, with its own time-outs, and cannot be
 * woken. So the thread that waits for the driver thread has a separate time limit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "cann/cann.h"
#include "pto/window.h"

/*
 * Values of a request for a communicator: batched writes by the SDMA engine, over links from each
 * rank to each other rank.
 */
enum {
    MC2_VERSION = 100,
    MC2_BLOCKS = 48,
    MC2_PART_VERSION = 1,
    MC2_ENGINE_SDMA = 3,
    MC2_OP_BATCH_WRITE = 18,
};
static const char mc2_algorithm[] = "BatchWrite=level0:fullmesh";

struct mc2_init {
    uint32_t version;
    uint32_t part_count;
    uint32_t part_offset[8];
    uint8_t debug;
    uint8_t position;
    uint16_t queues;
    uint16_t blocks;
    uint8_t device;
    uint8_t reserved[17];
};

struct mc2_part {
    uint8_t skips_local;
    uint8_t skips_buffer;
    uint8_t step;
    uint8_t version;
    uint8_t reserved[9];
    uint8_t engine;
    uint8_t type_from;
    uint8_t type_to;
    char name[VENDOR_NAME_BYTES];
    char algorithm[128];
    uint32_t op;
    uint32_t reduce;
};

struct mc2_tiling {
    struct mc2_init init;
    struct mc2_part part;
};

static_assert(sizeof(struct mc2_init) == 64, "the vendor's layout");
static_assert(sizeof(struct mc2_part) == 280, "the vendor's layout");
static_assert(offsetof(struct mc2_part, op) == 272, "the vendor's layout");

/*
 * Layouts of the struct on the card. For a mesh it is struct pto_comm_context, for a ring struct
 * ring.
 */
enum { RING_LOCAL_BYTES = 2472 };

struct ring_remote {
    uint64_t host;
    uint64_t device; /* address on the card of a struct ring_rank */
};

struct ring {
    uint64_t work_space;
    uint64_t work_space_bytes;
    uint32_t rank;
    uint32_t rank_count;
    uint64_t window_bytes;
    uint64_t own_in;
    uint64_t own_out;
    char name[VENDOR_NAME_BYTES];
    uint64_t extra[4];
    uint8_t local[RING_LOCAL_BYTES]; /* signals and streams of this rank */
    uint8_t rest[304];
    struct ring_remote remote[1]; /* one entry for each rank */
};

struct ring_rank {
    uint32_t rank;
    uint32_t world_rank;
    uint64_t in;
    uint64_t out;
    uint64_t extra[5];
};

static_assert(sizeof(struct ring) == 3000, "the vendor's layout");
static_assert(offsetof(struct ring, rank) == 16, "the vendor's layout");
static_assert(offsetof(struct ring, window_bytes) == 24, "the vendor's layout");
static_assert(offsetof(struct ring, own_in) == 32, "the vendor's layout");
static_assert(offsetof(struct ring, local) == 208, "the vendor's layout");
static_assert(offsetof(struct ring, remote) == 2984, "the vendor's layout");
static_assert(sizeof(struct ring_rank) == 64, "the vendor's layout");
static_assert(offsetof(struct ring_rank, in) == 8, "the vendor's layout");

/* time limit of a collective call: a day, because chip_wait_check ends the wait for it earlier */
enum { RANKS_MS = 24 * 3600 * 1000 };

static int cann_mc2_error_set(struct cann *c, struct pto_error *error, const char *call, int code,
                              const char *doing)
{
    int status = vendor_hccl_status(code);

    if (status == PTO_ELOST)
        return cann_lose(c, error, "card %u: %s answered %d (%s) %s", c->card, call, code,
                         vendor_hccl_meaning(code), doing);
    return error_setf(error, status, "card %u: %s answered %d (%s) %s", c->card, call, code,
                      vendor_hccl_meaning(code), doing);
}

/*
 * Results of the vendor's calls. The struct is on the driver thread's stack, because a call may
 * return after the driver thread was given up.
 */
struct answer {
    const char *call; /* the call that was made last */
    int code;
    uint32_t topology;
    void *at; /* address on the card of the struct with the windows */
};

#define ASK(a, v, name, ...) \
    ((a)->call = #name, (a)->code = VENDOR_WAIT(v, RANKS_MS, name, __VA_ARGS__))

static int cann_mc2_ask(struct cann *c, struct cann_mc2 *m, const struct chip_window *window,
                        const struct chip_offer *offer, struct answer *a)
{
    struct vendor *v = &c->vendor;
    struct mc2_tiling tiling = {
        .init = { .version = MC2_VERSION,
                  .part_count = 1,
                  .part_offset = { offsetof(struct mc2_tiling, part) },
                  .blocks = MC2_BLOCKS,
                  .device = c->generation->mc2_device },
        .part = { .version = MC2_PART_VERSION, .engine = MC2_ENGINE_SDMA, .op = MC2_OP_BATCH_WRITE }
    };
    uint8_t root[VENDOR_ROOT_BYTES];
    char name[VENDOR_NAME_BYTES] = "";
    void *comm = NULL;

    memcpy(root, offer->data, sizeof(root));
    if (ASK(a, v, HcclCommInitRootInfo, window->rank_count, root, window->rank, &comm) != 0)
        return a->code;
    m->comm = comm;
    if (ASK(a, v, HcclGetCommName, comm, name) != 0 ||
        ASK(a, v, HcomGetL0TopoTypeEx, name, &a->topology, 0) != 0 ||
        ASK(a, v, HcomGetCommHandleByGroup, name, &comm) != 0)
        return a->code;
    memcpy(tiling.part.name, name, sizeof(name) - 1);
    memcpy(tiling.part.algorithm, mc2_algorithm, sizeof(mc2_algorithm));
    return ASK(a, v, HcclAllocComResourceByTiling, comm, m->stream, &tiling, &a->at);
}

/* ---- reading the struct on the card ---- */

static int read_card(struct cann *c, uint64_t addr, void *to, uint64_t bytes,
                     struct pto_error *error)
{
    int code = cann_download(c, addr, to, bytes);

    return code == ACL_SUCCESS ? PTO_OK
                               : cann_error_set(c, error, "aclrtMemcpy", code,
                                                "while reading the addresses of windows");
}

static int cann_mc2_read_ring(struct cann *c, uint64_t addr, struct pto_comm_context *out,
                              struct pto_error *error)
{
    struct ring_remote remote[PTO_CONTEXT_RANKS];
    struct ring head;
    int status = read_card(c, addr, &head, offsetof(struct ring, local), error);

    if (status < 0)
        return status;
    *out = (struct pto_comm_context){ .work_space = head.work_space,
                                      .work_space_bytes = head.work_space_bytes,
                                      .rank = head.rank,
                                      .rank_count = head.rank_count,
                                      .window_bytes = head.window_bytes };
    if (head.rank_count == 0 || head.rank_count > PTO_CONTEXT_RANKS)
        return PTO_OK; /* no error here: check_windows refuses this number of ranks */
    status = read_card(c, addr + offsetof(struct ring, remote), remote,
                       head.rank_count * sizeof(remote[0]), error);
    for (uint32_t i = 0; i < head.rank_count && status >= 0; i++) {
        struct ring_rank rank = { .in = head.own_in, .out = head.own_out };

        if (i != head.rank && remote[i].device != 0)
            status = read_card(c, remote[i].device, &rank, sizeof(rank), error);
        else if (i != head.rank)
            rank.in = rank.out = 0;
        out->window_in[i] = rank.in;
        out->window_out[i] = rank.out;
    }
    return status;
}

/*
 * Checks that the windows that the library reports match the request, and takes their addresses
 * over.
 */
static int check_windows(struct cann *c, const struct pto_comm_context *found,
                         struct chip_window *window, struct pto_error *error)
{
    if (found->rank_count == 0 || found->rank_count > PTO_CONTEXT_RANKS ||
        found->rank_count != window->rank_count || found->rank != window->rank)
        return error_setf(error, PTO_ENOSUP,
                          "card %u: the communication library reports rank %u of %u, but this is "
                          "rank %u of %u: its structs have an unknown layout",
                          c->card, found->rank, found->rank_count, window->rank,
                          window->rank_count);
    if (found->window_bytes < window->bytes)
        return error_setf(error, PTO_ENOMEM,
                          "card %u: windows of the communication library have %llu bytes, and %llu "
                          "are asked for: raise HCCL_BUFFSIZE, which is in MiB",
                          c->card, (unsigned long long)found->window_bytes,
                          (unsigned long long)window->bytes);
    for (uint32_t i = 0; i < window->rank_count; i++) {
        if (found->window_in[i] == 0 || found->window_out[i] == 0)
            return error_setf(error, PTO_ENOSUP,
                              "card %u: the communication library has no window of rank %u",
                              c->card, i);
        window->in[i] = found->window_in[i];
        window->out[i] = found->window_out[i];
    }
    return PTO_OK;
}

/* ---- offer, join, drop ---- */

int cann_mc2_offer(struct cann *c, uint32_t rank, struct chip_offer *offer, struct pto_error *error)
{
    uint8_t root[VENDOR_ROOT_BYTES] = { 0 };
    int code, status;

    if (c->generation->mc2_device == 0)
        return error_setf(error, PTO_ENOSUP, "there are no windows of MC2 on %s",
                          c->generation->name);
    status = vendor_load_hccl(&c->vendor, error);
    if (status < 0 || rank != 0)
        return status;
    code = VENDOR_CALL(&c->vendor, HcclGetRootInfo, root);
    offer->bytes = sizeof(root);
    memcpy(offer->data, root, sizeof(root));
    return code == 0 ? PTO_OK
                     : cann_mc2_error_set(c, error, "HcclGetRootInfo", code, "for windows");
}

int cann_mc2_join(struct cann *c, struct cann_mc2 *m, struct chip_window *window,
                  const struct chip_offer *root, struct pto_error *error)
{
    struct pto_comm_context found = { 0 };
    struct answer a = { NULL, 0, 0, NULL };
    void *stream = NULL;
    int code = VENDOR_CALL(&c->vendor, aclrtCreateStream, &stream), status;

    if (code != ACL_SUCCESS)
        return cann_error_set(c, error, "aclrtCreateStream", code, "for windows");
    m->stream = stream;
    if (cann_mc2_ask(c, m, window, root, &a) != 0)
        return cann_mc2_error_set(c, error, a.call, a.code, "for windows");
    status = a.topology == VENDOR_TOPOLOGY_MESH
                 ? read_card(c, (uint64_t)(uintptr_t)a.at, &found, sizeof(found), error)
                 : cann_mc2_read_ring(c, (uint64_t)(uintptr_t)a.at, &found, error);
    return status >= 0 ? check_windows(c, &found, window, error) : status;
}

int cann_mc2_drop(struct cann *c, struct cann_mc2 *m, struct pto_error *error)
{
    int status = PTO_OK, code = ACL_SUCCESS;

    if (m->comm != NULL)
        code = VENDOR_CALL(&c->vendor, HcclCommDestroy, m->comm);
    if (code != 0)
        status = cann_mc2_error_set(c, error, "HcclCommDestroy", code, "while closing windows");
    if (m->stream != NULL)
        code = VENDOR_CALL(&c->vendor, aclrtDestroyStream, m->stream);
    else
        code = ACL_SUCCESS;
    if (code != ACL_SUCCESS && status >= 0)
        status = cann_error_set(c, error, "aclrtDestroyStream", code, "while closing windows");
    return status;
}
