/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual time of a worker: tree_clock.h describes it. */
#include "tree/tree_clock.h"

#include <string.h>

#include "base/os.h"
#include "base/sized.h"
#include "chip/cost.h"
#include "tree/tree.h"
#include "tree/tree_run.h"

void tree_clock_open(struct tree *t)
{
    struct tree_clock *c = &t->clock;

    if (!t->params.is_virtual)
        return;
    c->shared = &t->shared->clock;
    c->now_ns = SHARED_CLOCK_BEGIN_NS;
    shared_clock_init(c->shared);
    shared_clock_publish(c->shared, TREE_CLOCK_WORKER, c->now_ns);
    pto_worker_virtual_report_init(&c->report);
    c->report.child_count = t->child_count;
}

uint64_t tree_clock_now(const struct tree *t)
{
    return t->clock.shared != NULL ? t->clock.now_ns : os_now_ns();
}

/*
 * Advances the worker's time to that of the earliest child. No child has acted at a later time, and
 * whatever a child does next follows what the worker does now.
 */
static void catch_up(struct tree_clock *c)
{
    uint64_t least = shared_clock_least(c->shared, TREE_CLOCK_WORKER);

    if (least != SHARED_CLOCK_NEVER && least > c->now_ns)
        c->now_ns = least;
}

void tree_clock_give(struct tree *t, uint32_t child)
{
    struct tree_clock *c = &t->clock;

    if (c->shared == NULL)
        return;
    c->ended &= ~(1ull << child);
    shared_clock_publish(c->shared, TREE_CLOCK_CHILDREN + child, c->now_ns);
}

void tree_clock_ended(struct tree *t, uint32_t child)
{
    struct tree_clock *c = &t->clock;

    if (c->shared == NULL)
        return;
    catch_up(c);
    c->ended |= 1ull << child;
}

void tree_clock_count(struct tree *t, uint32_t child, struct tree_task *k, bool is_measured)
{
    struct tree_clock *c = &t->clock;

    if (c->shared == NULL)
        return;
    k->path_ns += k->end_ns - k->begin_ns;
    if (k->path_ns > c->report.path_ns)
        c->report.path_ns = k->path_ns;
    c->report.busy_ns[child] += k->end_ns - k->begin_ns;
    c->report.measured += is_measured;
}

void tree_clock_update(struct tree *t)
{
    struct tree_clock *c = &t->clock;
    bool is_open =
        (c->waiting != 0 || c->is_polled) && (t->building == NULL || t->building->is_waiting);

    if (c->shared == NULL)
        return;
    assert_held(&t->lock);
    if (!is_open && c->is_open) {
        /*
         * Publish the worker's old time first: from here on no child's time can pass it, so the
         * times that catch_up reads are final.
         */
        shared_clock_publish(c->shared, TREE_CLOCK_WORKER, c->now_ns);
        catch_up(c);
        shared_clock_publish(c->shared, TREE_CLOCK_WORKER, c->now_ns);
    }
    for (uint64_t rest = c->ended; rest != 0; rest &= rest - 1) {
        uint32_t child = (uint32_t)__builtin_ctzll(rest);

        /* also clears the mark by which a child that has died said that it waits for others */
        shared_clock_drop(c->shared, TREE_CLOCK_CHILDREN + child);
    }
    c->ended = 0;
    if (is_open && !c->is_open)
        shared_clock_publish(c->shared, TREE_CLOCK_WORKER, SHARED_CLOCK_NEVER);
    c->is_open = is_open;
}

bool tree_clock_has_moved(struct tree *t)
{
    struct tree_clock *c = &t->clock;
    uint32_t before = c->version;

    if (c->shared == NULL)
        return false;
    /* relaxed: a later call notices a change that this one misses */
    c->version = a32_load_relaxed(&c->shared->version);
    return c->version != before || !c->is_open;
}

int tree_clock_refuse_region(struct pto_error *error)
{
    return error_setf(error, PTO_ENOSUP,
                      "regions and queues are for programs that talk with a task while it runs, in "
                      "real time; open the worker without is_virtual");
}

bool tree_clock_is_first(const struct tree *t, uint32_t child)
{
    const struct shared_clock *c = t->clock.shared;

    for (uint32_t i = 0; c != NULL && i < t->child_count; i++) {
        uint64_t ns = shared_clock_time(c, TREE_CLOCK_CHILDREN + i);
        uint64_t own_ns = shared_clock_time(c, TREE_CLOCK_CHILDREN + child);

        if (ns < own_ns || (ns == own_ns && i < child && ns != SHARED_CLOCK_NEVER))
            return false;
    }
    return true;
}

void tree_clock_begin_run(struct tree *t)
{
    struct pto_worker_virtual_report *report = &t->clock.report;

    if (t->clock.shared == NULL)
        return;
    t->clock.is_polled = false;
    if (t->runs != NULL)
        return;
    t->clock.begin_ns = t->clock.now_ns;
    pto_worker_virtual_report_init(report);
    report->child_count = t->child_count;
}

/* ---- costs ---- */

static uint64_t text_bytes(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

static const char *put_text(char **at, const char *text)
{
    const char *copy = *at;

    if (text == NULL)
        return NULL;
    memcpy(*at, text, strlen(text) + 1);
    *at += strlen(text) + 1;
    return copy;
}

/* Copies the options to the shared memory. NULL: the shared memory is full. */
static struct wire_costs *copy_costs(struct tree *t, const struct pto_virtual_options *options)
{
    uint64_t bytes = sizeof(struct wire_costs) + options->cost_count * sizeof(options->cost[0]);
    struct wire_costs *costs;
    char *text;

    for (uint32_t i = 0; i < options->cost_count; i++)
        bytes += text_bytes(options->cost[i].kernel) + text_bytes(options->cost[i].formula) +
                 text_bytes(options->cost[i].origin);
    costs = (void *)arena_take(t->arena, bytes);
    if (costs == NULL)
        return NULL;
    costs->options = *options;
    costs->options.cost = costs->cost;
    text = (char *)&costs->cost[options->cost_count];
    for (uint32_t i = 0; i < options->cost_count; i++)
        costs->cost[i] = (struct pto_virtual_cost){
            .kernel = put_text(&text, options->cost[i].kernel),
            .shapes = options->cost[i].shapes,
            .formula = put_text(&text, options->cost[i].formula),
            .origin = put_text(&text, options->cost[i].origin),
        };
    return costs;
}

int tree_clock_send_costs(struct tree *t, uint64_t children, struct pto_error *error)
{
    const struct record_head head = { .kind = RECORD_COSTS,
                                      .value = (uint64_t)(uintptr_t)t->clock.costs };

    return t->clock.costs != NULL ? tree_ask(t, &head, children, error) : PTO_OK;
}

static int set_costs(struct tree *t, const struct pto_virtual_options *options,
                     struct pto_error *error)
{
    struct wire_costs *before = t->clock.costs;
    uint64_t ready = 0;
    int status;

    if (t->clock.shared == NULL)
        return error_setf(error, PTO_ENOSUP,
                          "the worker has no virtual time; open it with is_virtual");
    tree_drive(t);
    if (t->runs != NULL || t->building != NULL)
        return error_setf(error, PTO_EBUSY, "runs are active; set costs between runs");
    t->clock.costs = copy_costs(t, options);
    if (t->clock.costs == NULL) {
        t->clock.costs = before;
        return error_setf(error, PTO_ENOMEM, "there is no shared memory left for the costs");
    }
    for (uint32_t i = 0; i < t->child_count; i++)
        ready |= (uint64_t)child_is_ready(&t->child[i]) << i;
    status = tree_clock_send_costs(t, ready, error);
    if (status >= 0 && before != NULL)
        arena_give(t->arena, (char *)before);
    /*
     * If sending has failed, a child may still read either copy of the costs, so both are kept
     * until the worker closes.
     */
    return status;
}

int pto_worker_virtual_set(struct pto_worker *worker, const struct pto_virtual_options *given,
                           struct pto_error *error)
{
    struct pto_virtual_options options;
    struct cost_model *model;
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0 || !sized_is_valid(error))
        return status < 0 ? status : PTO_EINVAL;
    pto_virtual_options_init(&options);
    if (sized_read(&options, sizeof(options), given) < 0 ||
        (options.cost_count != 0 && options.cost == NULL))
        return error_setf(error, PTO_EINVAL,
                          "the options are not initialised with pto_virtual_options_init, or have "
                          "no costs");
    if (options.measure != NULL)
        return error_setf(error, PTO_ENOSUP,
                          "the kernels of a worker run in other processes, which cannot call "
                          "`measure`; give their durations as costs");
    /* this model is made only to check the formulas */
    status = cost_model_create(&options, &model, error);
    if (status < 0)
        return status;
    cost_model_destroy(model);
    pthread_mutex_lock(&t->lock);
    status = set_costs(t, &options, error);
    pthread_mutex_unlock(&t->lock);
    return status;
}

int pto_worker_virtual_report(struct pto_worker *worker, struct pto_worker_virtual_report *given)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if (given == NULL || !sized_is_valid(given))
        return PTO_EINVAL;
    pthread_mutex_lock(&t->lock);
    if (t->clock.shared == NULL)
        status = PTO_ENOSUP;
    else if (t->runs != NULL || t->building != NULL)
        status = PTO_EBUSY;
    else
        sized_write(given, &t->clock.report, sizeof(t->clock.report));
    pthread_mutex_unlock(&t->lock);
    return status;
}
