/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StarPU: data handles without data, dependencies inferred from the access
 * modes (sequential consistency, its default), default scheduler. Its workers
 * are threads of their own: whoever submits is one more.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <starpu.h>

static const char *const variants[] = { "handles", NULL };
static starpu_data_handle_t *handle;
static uint32_t handle_count;

static void body(void *buffers[], void *arg)
{
    (void)buffers;
    (void)arg;
    PEER_BODY((uint32_t)(uintptr_t)arg);
}

static struct starpu_codelet codelet = {
    .cpu_funcs = { body },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .where = STARPU_CPU,
};

static const char *version(void)
{
    static char text[32];

    snprintf(text, sizeof(text), "%d.%d.%d", STARPU_MAJOR_VERSION, STARPU_MINOR_VERSION,
             STARPU_RELEASE_VERSION);
    return text;
}

static bool open_starpu(uint32_t workers)
{
    struct starpu_conf conf;
    int status;

    setenv("STARPU_SILENT", "1", 0);
    starpu_conf_init(&conf);
    conf.ncpus = (int)workers;
    conf.ncuda = 0;
    conf.nopencl = 0;
    conf.nmic = 0;
    conf.nmpi_ms = 0;
    status = starpu_init(&conf);
    if (status != 0)
        fprintf(stderr, "starpu: cannot start: %d\n", status);
    else if (starpu_cpu_worker_get_count() != workers)
        fprintf(stderr, "starpu: %u workers instead of %u\n", starpu_cpu_worker_get_count(),
                workers);
    return status == 0 && starpu_cpu_worker_get_count() == workers;
}

static bool prepare(const struct peer_load *load, uint32_t variant)
{
    (void)variant;
    handle = calloc(load->item_count, sizeof(*handle));
    handle_count = handle != NULL ? load->item_count : 0;
    for (uint32_t i = 0; i < handle_count; i++)
        starpu_void_data_register(&handle[i]);
    return handle != NULL;
}

static bool submit(const struct peer_task *t, uint32_t index)
{
    struct starpu_task *task = starpu_task_create();

    task->cl = &codelet;
    task->cl_arg = (void *)(uintptr_t)index;
    task->nbuffers = t->read_count + (t->write >= 0);
    for (int32_t k = 0; k < t->read_count; k++) {
        task->handles[k] = handle[t->read[k]];
        task->modes[k] = STARPU_R;
    }
    if (t->write >= 0) {
        task->handles[t->read_count] = handle[t->write];
        task->modes[t->read_count] = t->is_inout ? STARPU_RW : STARPU_W;
    }
    return starpu_task_submit(task) == 0;
}

static uint64_t run(const struct peer_load *load, uint32_t variant)
{
    uint64_t start = peer_now_ns();

    (void)variant;
    for (uint32_t i = 0; i < load->task_count; i++) {
        if (!submit(&load->task[i], i)) {
            fprintf(stderr, "starpu: a task is refused\n");
            return 0;
        }
    }
    starpu_task_wait_for_all();
    return peer_now_ns() - start;
}

static void discard(void)
{
    for (uint32_t i = 0; i < handle_count; i++)
        starpu_data_unregister_no_coherency(handle[i]);
    free(handle);
    handle = NULL;
    handle_count = 0;
}

const struct peer_ops peer = { "StarPU", variants, version, open_starpu,
                               prepare,  run,      discard, starpu_shutdown };
