/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a communicator over cards, as one of several ranks: lifecycle PLATFORM RANK COUNT
 * PATH [die-STAGE]. The exit code is the number of the stage that failed; 0: none. With die-STAGE
 * the rank kills itself in that stage: init, alloc, barrier, destroy.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pto/comm.h"
#include "pto/pto.h"

enum stage {
    STAGE_LOAD = 10,
    STAGE_DEVICE = 15,
    STAGE_ACL = 18,
    STAGE_STREAM = 19,
    STAGE_INIT = 20,
    STAGE_ALLOC = 30,
    STAGE_BASE = 40,
    STAGE_SIZE = 50,
    STAGE_READ = 55,
    STAGE_FIELDS = 56,
    STAGE_BARRIER = 60,
    STAGE_DESTROY = 70,
};

enum { WINDOW = 4096, CELL = 64 };

static uint32_t rank, count;
static const char *dies_at = "";
static struct pto_error error;

static int failed(enum stage stage, const char *what)
{
    fprintf(stderr, "rank %u: stage %d: %s: %s\n", rank, (int)stage, what, error.text);
    return (int)stage;
}

static void *die_later(void *unused)
{
    (void)unused;
    nanosleep(&(struct timespec){ 0, 200000000 }, NULL);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* During the next stage, or before it. */
static void come_to(const char *stage)
{
    pthread_t thread;

    if (strcmp(dies_at, stage) != 0)
        return;
    if (strcmp(stage, "alloc") != 0)
        kill(getpid(), SIGKILL);
    (void)pthread_create(&thread, NULL, die_later, NULL);
}

/* The message says which call of which rank failed. */
static enum stage stage_of_open(void)
{
    if (strstr(error.text, "aclInit") != NULL || strstr(error.text, "aclrtSetDevice") != NULL)
        return STAGE_ACL;
    return strstr(error.text, "aclrtCreateStream") != NULL ? STAGE_STREAM : STAGE_DEVICE;
}

/*
 * Each rank writes to each window, its own and those of peers, through both arrays, and reads its
 * own.
 */
static int check_fields(struct pto_device *device, struct pto_domain *domain,
                        const struct pto_domain_info *info, const struct pto_comm_context *c)
{
    uint64_t base[64] = { 0 };

    if (c->rank != rank || c->rank_count != count || c->window_bytes != info->window_bytes ||
        c->window_in[rank] != info->window)
        return failed(STAGE_FIELDS, "the context is another one's");
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = c->window_in[i] + CELL * (uint64_t)(rank + 1);

        if (c->window_in[i] == 0 || c->window_out[i] == 0)
            return failed(STAGE_FIELDS, "a window is missing");
        if (pto_mem_write(device, at, &info->window, sizeof(info->window)) < 0 ||
            pto_mem_write(device, c->window_out[i] + WINDOW - CELL, &rank, sizeof(rank)) < 0)
            return failed(STAGE_FIELDS, "a window cannot be written");
    }
    if (pto_comm_barrier(domain, 0, &error) < 0)
        return failed(STAGE_BARRIER, "barrier");
    for (uint32_t i = 0; i < count; i++) {
        if (pto_mem_read(device, c->window_in[rank] + CELL * (uint64_t)(i + 1), &base[i],
                         sizeof(base[i])) < 0 ||
            base[i] == 0)
            return failed(STAGE_FIELDS, "what a peer wrote is not there");
        /* Buffers of the communication library have the same address on all ranks. */
        if (c->window_in[rank] != c->window_out[rank] && base[i] != c->window_in[i])
            return failed(STAGE_FIELDS, "a peer's window is elsewhere for the peer");
    }
    return 0;
}

static int use_domain(struct pto_device *device, struct pto_comm *comm)
{
    struct pto_domain_params params;
    struct pto_comm_context context;
    struct pto_domain_info info;
    struct pto_domain *domain = NULL;
    int code;

    pto_domain_params_init(&params);
    params.id = 1;
    params.window_bytes = WINDOW;
    params.error = &error;
    come_to("alloc");
    if (pto_domain_open(comm, &params, &domain) < 0)
        return failed(STAGE_ALLOC, "windows");
    if (error.text[0] != '\0')
        return failed(STAGE_ALLOC, "an error is told of windows that are there");
    pto_domain_info_init(&info);
    if (pto_domain_info(domain, &info) < 0 || info.window == 0)
        return failed(STAGE_BASE, "no base");
    if (info.window_bytes < WINDOW)
        return failed(STAGE_SIZE, "windows are too small");
    if (pto_mem_read(device, info.context, &context, sizeof(context)) < 0)
        return failed(STAGE_READ, "the context cannot be read");
    code = check_fields(device, domain, &info, &context);
    if (code != 0)
        return code;
    come_to("barrier");
    if (pto_comm_barrier(domain, 0, &error) < 0)
        return failed(STAGE_BARRIER, "barrier");
    come_to("destroy");
    return pto_domain_close(domain, 0, &error) < 0 ? failed(STAGE_DESTROY, "close") : 0;
}

static int live(const char *platform, const char *path)
{
    struct pto_device_params device_params;
    struct pto_comm_params params;
    struct pto_device *device = NULL;
    struct pto_comm *comm = NULL;
    const char *timeout = getenv("LIFECYCLE_MS"), *card = getenv("LIFECYCLE_CARD");
    int code;

    pto_error_init(&error);
    if (pto_platform_find(platform) == NULL || pto_platform_find(platform)->missing != NULL)
        return failed(STAGE_LOAD, "the platform is missing");
    pto_device_params_init(&device_params);
    device_params.platform = platform;
    device_params.card = card != NULL ? (uint32_t)atoi(card) : rank;
    device_params.memory_max = 16 << 20;
    device_params.error = &error;
    if (pto_device_open(&device_params, &device) < 0)
        return failed(stage_of_open(), "device");
    pto_comm_params_init(&params);
    params.rank = (int32_t)rank;
    params.rank_count = count;
    params.path = path;
    params.timeout_ns = timeout != NULL ? strtoull(timeout, NULL, 10) * 1000000 : 0;
    params.device = device;
    params.error = &error;
    come_to("init");
    if (pto_comm_open(&params, &comm) < 0) {
        (void)pto_device_close(device);
        return failed(STAGE_INIT, "communicator");
    }
    code = use_domain(device, comm);
    if (pto_comm_close(comm) < 0 && code == 0)
        code = failed(STAGE_DESTROY, "communicator");
    if (pto_device_close(device) < 0 && code == 0)
        code = failed(STAGE_DESTROY, "device");
    return code;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    rank = (uint32_t)atoi(argv[2]);
    count = (uint32_t)atoi(argv[3]);
    if (argc > 5 && strncmp(argv[5], "die-", 4) == 0)
        dies_at = argv[5] + 4;
    return live(argv[1], argv[4]);
}
