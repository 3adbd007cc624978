/* SPDX-License-Identifier: Apache-2.0 */
/* From kernels of 32 us down by halves, then bisection between the last two. */
#include "peer_grain.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "peer_load.h"

enum {
    PEAK_ITERATIONS = 1 << 20,
    PEAK_BATCHES = 9,
    KERNEL_NS_FIRST = 32000,
    KERNEL_NS_MAX = 1 << 17, /* a system that needs more has no METG here */
    KERNEL_NS_LONG = 4000,   /* what is longer is hardly disturbed, and takes long */
    REPEAT_LONG = 2,
    POINTS_MAX = 64,
    BISECTIONS = 6,
    STEPS_MAX = 512,
    STEPS_MIN = 128,    /* dom and tree have their full width for a part of the steps only */
    STEPS_SLOW = 16,    /* of a system or a machine that takes too long with more */
    POINT_NS = 5000000, /* what a run takes at least, with kernels of a useful size */
    RUN_NS_MAX = 300000000,
    WORKERS_MAX = 64
};

#define NEARLY 1.25 /* a point that misses one half by less is taken again */

struct point {
    uint64_t iterations;
    uint32_t tasks;
    double ns;
    double efficiency;
};

struct curve {
    const char *pattern;
    uint64_t end_ns; /* after that the best so far counts */
    double task_ns;  /* what a task of the last run took; 0: there was none */
    uint32_t workers;
    uint32_t repeat;
    double iteration_ns; /* of one thread, while as many as there are workers do the same */
    uint32_t count;
    struct point point[POINTS_MAX];
};

static double measure_peak(uint32_t workers);
static bool is_late(const struct curve *c);
static bool measure_point(struct curve *c, uint64_t iterations);
static struct point *last_of(struct curve *c);
static bool find_metg(struct curve *c, struct point *metg_out);

int grain_peak(uint32_t workers)
{
    double iteration_ns = measure_peak(workers);

    printf("\"iteration_ns\": %.4f}\n", iteration_ns);
    return iteration_ns > 0 ? 0 : 1;
}

int grain_measure(const struct grain_params *params)
{
    static struct curve c;
    struct point metg = { 0 };

    c.pattern = params->pattern;
    c.workers = params->workers;
    c.repeat = params->repeat;
    c.iteration_ns = measure_peak(params->workers);
    if (params->peak_ns > 0 && params->peak_ns < c.iteration_ns)
        c.iteration_ns = params->peak_ns;
    c.end_ns = peer_now_ns() + 1000000000ull * params->seconds;
    if (c.iteration_ns <= 0 || !find_metg(&c, &metg))
        return 1;
    printf("\"iteration_ns\": %.4f, \"points\": [", c.iteration_ns);
    for (uint32_t i = 0; i < c.count; i++)
        printf("%s{\"iterations\": %" PRIu64 ", \"tasks\": %" PRIu32
               ", \"ns\": %.0f, \"efficiency\": %.4f}",
               i == 0 ? "" : ", ", c.point[i].iterations, c.point[i].tasks, c.point[i].ns,
               c.point[i].efficiency);
    printf("], \"is_complete\": %s, ", is_late(&c) ? "false" : "true");
    if (metg.tasks == 0)
        printf("\"metg_ns\": null, \"kernel_ns\": null}\n");
    else
        printf("\"metg_ns\": %.1f, \"kernel_ns\": %.1f}\n", c.workers * metg.ns / metg.tasks,
               (double)metg.iterations * c.iteration_ns);
    return 0;
}

/* ---- what the machine does without a task system ---- */

static void *work_alone(void *arg)
{
    pthread_barrier_t *barrier = arg;

    pthread_barrier_wait(barrier);
    peer_work(PEAK_ITERATIONS);
    pthread_barrier_wait(barrier);
    return NULL;
}

/* ns from the common start to the last end; 0: no threads. */
static uint64_t work_together(uint32_t workers)
{
    pthread_t thread[WORKERS_MAX];
    pthread_barrier_t barrier;
    uint64_t start;

    if (workers > WORKERS_MAX || pthread_barrier_init(&barrier, NULL, workers) != 0)
        return 0;
    for (uint32_t i = 1; i < workers; i++)
        if (pthread_create(&thread[i], NULL, work_alone, &barrier) != 0)
            exit(1); /* the others wait for ever */
    pthread_barrier_wait(&barrier);
    start = peer_now_ns();
    peer_work(PEAK_ITERATIONS);
    pthread_barrier_wait(&barrier);
    start = peer_now_ns() - start;
    for (uint32_t i = 1; i < workers; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&barrier);
    return start;
}

static double measure_peak(uint32_t workers)
{
    double best = 0;

    for (int i = 0; i < PEAK_BATCHES; i++) {
        double ns = (double)work_together(workers) / PEAK_ITERATIONS;

        if (i == 0 || ns < best)
            best = ns;
    }
    return best;
}

/* ---- points ---- */

/* The fastest of `repeat` runs, at least of one. */
static bool run_best(struct curve *c, const struct peer_load *load, uint32_t repeat, double *ns_out)
{
    *ns_out = INFINITY;
    for (uint32_t i = 0; i < repeat && (i == 0 || !is_late(c)); i++) {
        uint64_t ns;

        if (!peer.prepare(load, 0))
            return false;
        ns = peer.run(load, 0);
        peer.discard();
        if (ns == 0)
            return false;
        if ((double)ns < *ns_out)
            *ns_out = (double)ns;
    }
    c->task_ns = *ns_out / load->task_count;
    return true;
}

/* Before the first point: how long a task takes, so that a slow system gets few of them. */
static bool run_trial(struct curve *c, uint64_t iterations)
{
    struct peer_load load;
    double ns;
    bool is_fine;

    if (!load_make_steps(c->pattern, STEPS_SLOW, &load))
        return false;
    peer_iterations = iterations;
    is_fine = run_best(c, &load, 1, &ns);
    load_free(&load);
    return is_fine;
}

/* Enough for the clock, but what the last point has shown to take too long is made shorter. */
static uint32_t choose_steps(const struct curve *c, double kernel_ns)
{
    double steps = POINT_NS * (double)c->workers / (GRAIN_WIDTH * kernel_ns);
    double most = RUN_NS_MAX / (GRAIN_WIDTH * c->task_ns);

    steps = steps < STEPS_MIN ? STEPS_MIN : steps > STEPS_MAX ? STEPS_MAX : steps;
    if (steps > most)
        steps = most < STEPS_SLOW ? STEPS_SLOW : most;
    return (uint32_t)steps;
}

static bool measure_point(struct curve *c, uint64_t iterations)
{
    double kernel_ns = (double)iterations * c->iteration_ns;
    bool is_long = kernel_ns > KERNEL_NS_LONG && c->repeat > REPEAT_LONG;
    uint32_t repeat = is_long ? REPEAT_LONG : c->repeat;
    struct point *p = &c->point[c->count];
    struct peer_load load;
    double half_ns, again_ns;
    bool is_fine;

    if (c->count == POINTS_MAX || (c->task_ns <= 0 && !run_trial(c, iterations)) ||
        !load_make_steps(c->pattern, choose_steps(c, kernel_ns), &load))
        return false;
    peer_iterations = iterations;
    p->iterations = iterations;
    p->tasks = load.task_count;
    half_ns = 2 * kernel_ns * p->tasks / c->workers;
    is_fine = run_best(c, &load, repeat, &p->ns);
    if (is_fine && p->ns > half_ns && p->ns < NEARLY * half_ns) { /* it may have been disturbed */
        is_fine = run_best(c, &load, repeat, &again_ns);
        p->ns = again_ns < p->ns ? again_ns : p->ns;
    }
    load_free(&load);
    p->efficiency = kernel_ns * p->tasks / (c->workers * p->ns);
    c->count++;
    return is_fine;
}

static bool is_late(const struct curve *c)
{
    return peer_now_ns() > c->end_ns;
}

static struct point *last_of(struct curve *c)
{
    return &c->point[c->count - 1];
}

/* Upwards until half of the peak is reached, if it is. */
static bool find_enough(struct curve *c, uint64_t iterations, struct point *enough_out)
{
    for (;; iterations *= 2) {
        if ((double)iterations * c->iteration_ns > KERNEL_NS_MAX || is_late(c))
            return true;
        if (!measure_point(c, iterations))
            return false;
        if (last_of(c)->efficiency >= 0.5) {
            *enough_out = *last_of(c);
            return true;
        }
    }
}

/* Without a task in `metg_out` there is none. */
static bool find_metg(struct curve *c, struct point *metg_out)
{
    uint64_t low;

    if (!find_enough(c, (uint64_t)(KERNEL_NS_FIRST / c->iteration_ns), metg_out))
        return false;
    if (metg_out->tasks == 0)
        return true;
    for (low = metg_out->iterations / 2; low > 0 && !is_late(c); low /= 2) {
        if (!measure_point(c, low))
            return false;
        if (last_of(c)->efficiency < 0.5)
            break;
        *metg_out = *last_of(c);
    }
    for (int i = 0; i < BISECTIONS && low + 1 < metg_out->iterations && !is_late(c); i++) {
        uint64_t middle = (uint64_t)sqrt((double)(low + (low == 0)) * (double)metg_out->iterations);

        middle = middle <= low ? low + 1 : middle;
        if (!measure_point(c, middle))
            return false;
        if (last_of(c)->efficiency >= 0.5)
            *metg_out = *last_of(c);
        else
            low = middle;
    }
    /* The rest of the curve, for the picture. */
    for (int i = 0; i < 2 && low / 2 > 0 && !is_late(c); i++) {
        low /= 2;
        if (!measure_point(c, low))
            return false;
    }
    return true;
}
