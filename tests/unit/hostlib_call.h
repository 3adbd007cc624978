/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callables for libhost_runtime.so, ours in blobs of the reference's layout, and runs of
 * them with three tensors.
 *
 * Include it last: cmocka comes with it.
 */
#ifndef PTO_HOSTLIB_CALL_H
#define PTO_HOSTLIB_CALL_H

#include "tests/unit/artefact_test.h"
#include "tests/unit/hostlib_test.h"

enum { ELEMENTS = 1000 };

static inline struct bytes make_blob_of(struct bytes orchestration, const char *kernel,
                                        const char *entry, const enum pto_direction signature[3])
{
    struct recipe r = { .orchestration_bytes = orchestration, .kernel_bytes = compile(kernel, "") };
    struct bytes blob;

    r.kernel = (struct artefact_kernel){ 0, PTO_CORE_AIV, "kernel", r.kernel_bytes.at,
                                         r.kernel_bytes.size };
    r.parts = (struct artefact_parts){ .name = "act",
                                       .platform = "a2a3sim",
                                       .entry = entry,
                                       .signature = signature,
                                       .signature_count = 3,
                                       .orchestration = r.orchestration_bytes.at,
                                       .orchestration_size = r.orchestration_bytes.size,
                                       .kernel_count = 1 };
    blob = make_blob(&r);
    free_recipe(&r);
    return blob;
}

/* ---- the arguments of a run ---- */

struct call {
    struct worker_args args;
    struct worker_config config;
    struct worker_ticket ticket;
    struct worker_run *storage;
    int a[ELEMENTS], b[ELEMENTS], out[ELEMENTS];
    int flag;
    int32_t accepted;
};

static inline void set_tensor(struct pto_tensor *t, const void *at, size_t bytes)
{
    uint32_t shape = (uint32_t)(bytes / sizeof(int));

    *t = pto_tensor_external((void *)(uintptr_t)at, &shape, 1, PTO_INT32);
    t->space = PTO_SPACE_HOST;
    memset(t->reserved, 0xa5, sizeof(t->reserved)); /* others leave them as they were */
    t->fault = t->tag = 0xa5;
}

static inline struct call *make_call(uint64_t what)
{
    struct call *c = aligned_alloc(64, (sizeof(*c) + 63) / 64 * 64);
    size_t bytes = lib.get_runtime_size();

    memset(c, 0, sizeof(*c));
    for (int i = 0; i < ELEMENTS; i++) {
        c->a[i] = i;
        c->b[i] = 10 * i;
        c->out[i] = -1;
    }
    set_tensor(&c->args.tensor[0], c->a, sizeof(c->a));
    set_tensor(&c->args.tensor[1], c->b, sizeof(c->b));
    set_tensor(&c->args.tensor[2], c->out, sizeof(c->out));
    c->args.tensor_count = 3;
    c->args.scalar[0] = what;
    c->args.scalar_count = 2;
    c->ticket.accepted = &c->accepted;
    c->ticket.accepted_value = 7;
    c->ticket.generation = 1;
    assert_true(bytes >= 8);
    assert_true(lib.get_runtime_alignment() >= sizeof(void *));
    c->storage = aligned_alloc(lib.get_runtime_alignment(), bytes);
    memset((void *)c->storage, 0, bytes);
    return c;
}

static inline void free_call(struct call *c)
{
    free(c->storage);
    free(c);
}

static inline int run(struct worker_device *d, struct call *c, int32_t id)
{
    return lib.simpler_run(d, c->storage, id, &c->args, &c->config, &c->ticket);
}

#endif
