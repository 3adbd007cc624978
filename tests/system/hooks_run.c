/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the library for itself only, as a plug-in would, and lets kernels look
 * the hooks of a simulated core up in the whole process:
 *
 *     hooks_run LIBRARY
 *
 * Returns 0, or says what is wrong and returns 1.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <pto/pto.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 2, LANES = 3, RUNS = 2, KEY = 7 };

/* What a kernel has found out about its core. */
struct seen {
    uint32_t sub_block;
    uint32_t before; /* how many lanes of its cluster have arrived before it */
    const void *state;
    const void *larger; /* the same key with a larger size */
};

static struct seen seen[BLOCKS][LANES];

static void expect(bool is_true, const char *text)
{
    if (!is_true) {
        fprintf(stderr, "%s\n", text);
        exit(1);
    }
}

static void *find(void *handle, const char *name)
{
    void *found = dlsym(handle, name);

    if (found == NULL)
        fprintf(stderr, "%s: ", name);
    expect(found != NULL, "not to be found");
    return found;
}

static void look(struct seen *here)
{
    uint32_t (*sub_block)(void) = find(RTLD_DEFAULT, "pto_sim_get_subblock_id");
    void *(*pipe_state)(uint64_t, size_t) = find(RTLD_DEFAULT, "pto_sim_get_pipe_shared_state");
    uint32_t *state = pipe_state(KEY, sizeof(*state));

    expect(state != NULL, "a kernel gets no shared state");
    here->sub_block = sub_block();
    here->before = __atomic_fetch_add(state, 1, __ATOMIC_RELAXED);
    here->state = state;
    here->larger = pipe_state(KEY, 2 * sizeof(*state));
}

static void kernel_aic(int64_t *args)
{
    look(&seen[pto_block_index(args)][0]);
}

static void kernel_aiv(int64_t *args)
{
    look(&seen[pto_block_index(args)][1 + pto_sub_block(args)]);
}

/* A gang, so that the blocks are on two clusters. */
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    pto_mix(o, PTO_LANES(0, 1, 1), PTO_GANG(BLOCKS));
}

static void check(void)
{
    for (int b = 0; b < BLOCKS; b++) {
        uint32_t order = 0;

        for (int i = 0; i < LANES; i++) {
            expect(seen[b][i].sub_block == (i == 2), "not the lane that the context tells");
            expect(seen[b][i].state == seen[b][0].state, "the lanes of a block share nothing");
            expect(seen[b][i].larger == NULL, "shared state grows");
            order |= 1u << seen[b][i].before;
        }
        expect(order == 7, "shared state does not begin with zero in each run");
    }
    expect(seen[0][0].state != seen[1][0].state, "two clusters share their state");
}

int main(int argc, char **argv)
{
    static const struct pto_kernel kernels[] = { { "aic", kernel_aic, PTO_CORE_AIC },
                                                 { "aiv", kernel_aiv, PTO_CORE_AIV } };
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    struct pto_device_params device_params = { .size = sizeof(device_params),
                                               .platform = "a2a3sim" };
    struct pto_callable_params params;
    struct pto_callable *callable;
    struct pto_device *device;

    expect(library != NULL, argc == 2 ? dlerror() : "usage: hooks_run LIBRARY");
    expect(dlsym(RTLD_DEFAULT, "pto_device_open") == NULL, "the library is not loaded locally");

    __typeof__(&pto_device_open) open = find(library, "pto_device_open");
    __typeof__(&pto_device_close) close = find(library, "pto_device_close");
    __typeof__(&pto_callable_create) create = find(library, "pto_callable_create");
    __typeof__(&pto_callable_destroy) destroy = find(library, "pto_callable_destroy");
    __typeof__(&pto_run) run = find(library, "pto_run");

    expect(open(&device_params, &device) == PTO_OK, "no device");
    expect(dlsym(RTLD_DEFAULT, "pto_device_open") == NULL, "a device makes everything visible");
    pto_callable_params_init(&params);
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = 2;
    expect(create(&params, &callable) == PTO_OK, "no callable");
    for (int i = 0; i < RUNS; i++) {
        expect(run(device, callable, NULL, NULL, NULL) == PTO_OK, "the run failed");
        check();
    }

    uint32_t (*sub_block)(void) = find(RTLD_DEFAULT, "pto_sim_get_subblock_id");
    void *(*pipe_state)(uint64_t, size_t) = find(RTLD_DEFAULT, "pto_sim_get_pipe_shared_state");

    expect(sub_block() == 0 && pipe_state(KEY, 4) == NULL, "a thread that is no core has state");
    expect(destroy(callable) == PTO_OK && close(device) == PTO_OK, "the device does not close");
    return 0;
}
