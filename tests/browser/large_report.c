/* SPDX-License-Identifier: Apache-2.0 */
/*
 * large_report SLICES FILE: a report of a run that is made up: tasks on 24 clusters, each of
 * which waits for three of the wave before it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pto/pto.h"
#include "tests/fixture/random_test.h"
#include "tool/cli/report_page.h"

enum { AICS = 24, AIVS = 48, CORES = AICS + AIVS, WAVE = 96, KERNELS = 5, PREDECESSORS = 3 };

static const char *const kernel_name[KERNELS] = { "matmul", "softmax", "add", "norm", "copy" };
static const uint64_t kernel_ns[KERNELS] = { 12000, 7000, 4000, 5000, 3000 };

static void *room(size_t count, size_t bytes)
{
    void *made = calloc(count, bytes);

    if (made == NULL)
        exit(1);
    return made;
}

static struct see_recording *make_chip(uint32_t tasks)
{
    struct see_recording *r = room(1, sizeof(*r));

    r->platform = strdup("a2a3sim");
    r->scene = strdup("large");
    r->test_case = strdup("");
    r->title = strdup("");
    r->clock = PTO_RECORDING_CLOCK_VIRTUAL;
    r->has_edges = r->has_ready = true;
    r->kernel = room(KERNELS, sizeof(*r->kernel));
    for (r->kernel_count = 0; r->kernel_count < KERNELS; r->kernel_count++)
        r->kernel[r->kernel_count] =
            (struct see_kernel){ .name = strdup(kernel_name[r->kernel_count]),
                                 .core = r->kernel_count == 0 ? PTO_CORE_AIC : PTO_CORE_AIV };
    r->group = room(1, sizeof(*r->group));
    r->group_count = 1;
    *r->group = (struct see_group){ .name = strdup("chip 0"),
                                    .parent = PTO_RECORDING_NONE,
                                    .rank = PTO_RECORDING_NONE,
                                    .task_end = tasks,
                                    .lane_end = CORES,
                                    .aics = AICS,
                                    .aivs = AIVS,
                                    .clusters = AICS };
    r->lane = room(CORES, sizeof(*r->lane));
    for (r->lane_count = 0; r->lane_count < CORES; r->lane_count++)
        r->lane[r->lane_count] =
            r->lane_count < AICS
                ? (struct see_lane){ .kind = PTO_RECORDING_LANE_AIC, .index = r->lane_count }
                : (struct see_lane){ .kind = PTO_RECORDING_LANE_AIV,
                                     .index = r->lane_count - AICS };
    r->file = room(1, sizeof(*r->file));
    r->file[0] = strdup("orch.c");
    r->file_count = 1;
    return r;
}

static void add_edges(struct see_recording *r, uint32_t task)
{
    for (uint32_t i = 0; i < PREDECESSORS && task > WAVE; i++) {
        uint32_t from = task - WAVE - 1 + i;

        r->edge[r->edge_count++] = (struct see_edge){ .from = from,
                                                      .to = task,
                                                      .from_argument = 1,
                                                      .to_argument = (int16_t)i,
                                                      .is_wired = true };
        if (r->task[from].end_ns > r->task[task].ready_ns) {
            r->task[task].ready_ns = r->task[from].end_ns;
            r->task[task].ready_by = from;
        }
    }
}

/* Runs the task on the core of its type that is free first. */
static void add_slice(struct see_recording *r, uint32_t task, uint32_t kernel, uint64_t *free_ns)
{
    uint32_t first = kernel == 0 ? 0 : AICS, last = kernel == 0 ? AICS : CORES, core = first;
    struct see_task *t = &r->task[task];

    for (uint32_t i = first; i < last; i++)
        core = free_ns[i] < free_ns[core] ? i : core;
    t->start_ns = t->ready_ns > free_ns[core] ? t->ready_ns : free_ns[core];
    t->start_ns += 700 + random_below(100);
    t->end_ns = t->start_ns + kernel_ns[kernel] * (90 + random_below(21)) / 100;
    free_ns[core] = t->end_ns;
    r->slice[task] = (struct see_slice){ .begin_ns = t->start_ns,
                                         .end_ns = t->end_ns,
                                         .cpu_ns = PTO_RECORDING_NO_TIME,
                                         .task = task,
                                         .lane = core,
                                         .kernel = kernel };
    r->length_ns = t->end_ns > r->length_ns ? t->end_ns : r->length_ns;
}

static struct see_recording *make_run(uint32_t tasks)
{
    struct see_recording *r = make_chip(tasks);
    uint64_t free_ns[CORES] = { 0 }, submit_ns = 0;

    r->task = room(tasks, sizeof(*r->task));
    r->slice = room(tasks, sizeof(*r->slice));
    r->edge = room((size_t)PREDECESSORS * tasks, sizeof(*r->edge));
    r->argument_from = room(tasks + 1, sizeof(*r->argument_from));
    r->scalar_from = room(tasks + 1, sizeof(*r->scalar_from));
    r->task_count = tasks;
    r->slice_count = tasks;
    r->key_count = KERNELS;
    for (uint32_t i = 0; i < tasks; i++) {
        uint32_t kernel = i / WAVE % KERNELS == 0 ? 0 : 1 + (i * 7 / WAVE + i % 3) % (KERNELS - 1);

        submit_ns += 100 + random_below(20);
        r->task[i] = (struct see_task){ .id = i,
                                        .submit_ns = submit_ns,
                                        .ready_ns = submit_ns,
                                        .ready_by = PTO_RECORDING_NONE,
                                        .parent = PTO_RECORDING_NONE,
                                        .line = 20 + kernel * 3,
                                        .key = kernel,
                                        .kernel = { PTO_RECORDING_NONE, PTO_RECORDING_NONE,
                                                    PTO_RECORDING_NONE },
                                        .blocks = 1 };
        r->task[i].kernel[kernel != 0] = kernel;
        add_edges(r, i);
        add_slice(r, i, kernel, free_ns);
    }
    return see_recording_index(r) >= 0 ? r : NULL;
}

int main(int argc, char **argv)
{
    uint32_t tasks = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    struct report_about about = { .title = "large" };
    struct see_recording *r = tasks != 0 ? make_run(tasks) : NULL;
    FILE *to = r != NULL ? fopen(argv[2], "w") : NULL;
    int status;

    if (to == NULL) {
        fprintf(stderr, "usage: large_report SLICES FILE\n");
        return 2;
    }
    about.r = r;
    status = cli_report_write(to, &about);
    see_recording_free(r);
    return fclose(to) == 0 && status >= 0 ? 0 : 1;
}
