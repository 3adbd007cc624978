/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that look at the arguments of each task, before its first kernel starts and after its last
 * one has returned: with an observer of steps (pto_step_fn), or with a search for NaN (finite.h).
 *
 * A task whose kernels run has one struct sim_step, which all of its invocations find in a list,
 * under step_lock. The lock is also held while arguments are read, so an invocation starts only
 * when the inputs of its task were read, and observers are called one at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "base/peek.h"
#include "sim/finite.h"
#include "sim/sim.h"

/* State of a task some of whose kernels have started and not yet returned. */
struct sim_step {
    struct sim_step *next;
    uint32_t seq;
    uint32_t left; /* number of its invocations that have not returned */
    bool is_deferred;
    /* the outputs of the task are checked for NaN and Inf when its last invocation returns */
    bool is_checked;
    struct finite_inputs inputs;
    unsigned char *before[PTO_TASK_TENSORS_MAX]; /* copies of outputs; NULL: not checked */
    unsigned char copy[];
};

/* Whether all pages of the argument are mapped, from its first element to its last one. */
static bool is_mapped(const struct pto_tensor *x)
{
    uint64_t begin = x->addr + x->start * pto_dtype_size(x->dtype), page = os_page_bytes(), bits;
    uint64_t end = begin + x->extent * pto_dtype_size(x->dtype);

    for (uint64_t at = begin; at < end; at = (at / page + 1) * page)
        if (!peek_load(at, 1, &bits))
            return false;
    return true;
}

/*
 * Number of bytes of the argument to check, if the task uses it in the given way (reads or writes).
 */
static uint64_t bytes_to_check(const struct pto_tensor *x, uint32_t use)
{
    return (pto_tag_use(x->tag) & use) != 0 && is_mapped(x) ? finite_bytes(x) : 0;
}

/* Makes the struct sim_step of a task whose first kernel is about to start. NULL: out of memory. */
static struct sim_step *make_step(struct sim *m, const struct slot *s,
                                  const struct pto_tensor *tensor)
{
    bool is_checked = m->run.options->has_nan_check;
    uint64_t bytes[PTO_TASK_TENSORS_MAX], total = 0;
    struct sim_step *step;

    for (uint32_t i = 0; i < s->tensor_count; i++) {
        bytes[i] = is_checked ? bytes_to_check(&tensor[i], PTO_WRITES) : 0;
        total += bytes[i];
    }
    step = calloc(1, sizeof(*step) + total);
    if (step == NULL)
        return NULL;
    step->seq = s->seq;
    step->left = slot_lane_count(s->lanes) * s->block_count;
    step->is_checked = is_checked;
    step->inputs = (struct finite_inputs){ { -1, 0 }, { -1, 0 }, { -1, 0 } };
    total = 0;
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        if (is_checked && bytes_to_check(&tensor[i], PTO_READS) != 0)
            finite_add_input(&step->inputs, &tensor[i], (int32_t)i);
        if (bytes[i] == 0)
            continue;
        step->before[i] = step->copy + total;
        memcpy(step->before[i],
               (const void *)(uintptr_t)(tensor[i].addr +
                                         tensor[i].start * pto_dtype_size(tensor[i].dtype)),
               bytes[i]);
        total += bytes[i];
    }
    return step;
}

static struct sim_step **sim_find_step(struct sim *m, const struct slot *s)
{
    struct sim_step **link = &m->steps;

    while (*link != NULL && (*link)->seq != s->seq)
        link = &(*link)->next;
    return link;
}

static void call_observer(struct sim *m, const struct slot *s, const struct pto_tensor *tensor,
                          const struct sim_step *step, bool is_end)
{
    const struct pto_run_options *options = m->run.options;

    if (options->step != NULL)
        options->step(options->step_context,
                      &(struct pto_step){ .index = s->seq - 1,
                                          .is_end = is_end,
                                          .is_deferred = step->is_deferred,
                                          .kernel = slot_kernel(s, slot_first_lane(s->lanes)),
                                          .tensor_count = s->tensor_count,
                                          .tensor = tensor,
                                          .site = s->site });
}

/* Fails the run for the first NaN or Inf that the task computed. */
static void check_outputs(struct thread *th, const struct pto_tensor *tensor,
                          const struct sim_step *step)
{
    struct sim *m = th->sim;
    struct slot *s = th->core.slot;
    struct finite_found found = { .at.argument = -1 };
    const struct finite_place *other;
    struct failure why = { .status = PTO_ENAN,
                           .kind = FAILURE_NAN,
                           .kernel = (int32_t)sim_kernel_of(th) };
    uint32_t none = 0;

    for (uint32_t i = 0; i < s->tensor_count && found.at.argument < 0; i++)
        if (step->before[i] != NULL &&
            !finite_find(&step->inputs, &tensor[i], (int32_t)i, step->before[i], &found))
            found.at.argument = -1;
    if (found.at.argument < 0 || !a32_cas_relaxed(&m->finding, &none, FINDING_REPORTED))
        return;
    other = step->inputs.inf.argument >= 0 ? &step->inputs.inf : &step->inputs.unwritten;
    why.argument = found.at.argument;
    why.value[0] = found.at.place;
    why.value[1] = nan_pack(found.is_nan, slot_lane_count(s->lanes) > 1,
                            other->argument < 0                ? NAN_FROM_FINITE
                            : other == &step->inputs.unwritten ? NAN_FROM_UNWRITTEN
                                                               : NAN_FROM_INF,
                            other->argument);
    why.value[3] = other->place;
    sim_keep_arguments(m, s);
    sched_fail_argument(&m->sched, s, &why);
}

void sim_enter_step(struct thread *th, const struct pto_tensor *tensor)
{
    struct sim *m = th->sim;
    const struct slot *s = th->core.slot;
    struct sim_step **link, *step;

    pthread_mutex_lock(&m->step_lock);
    link = sim_find_step(m, s);
    if (*link == NULL && (step = make_step(m, s, tensor)) != NULL) {
        *link = step;
        call_observer(m, s, tensor, step, false);
    }
    pthread_mutex_unlock(&m->step_lock);
}

void sim_leave_step(struct thread *th, const struct pto_tensor *tensor)
{
    struct sim *m = th->sim;
    const struct slot *s = th->core.slot;
    struct sim_step **link, *step;

    pthread_mutex_lock(&m->step_lock);
    link = sim_find_step(m, s);
    step = *link;
    if (step != NULL) { /* NULL: memory ran out when the task began, so it is not checked */
        step->is_deferred = step->is_deferred || core_has_deferred(&th->core);
        step->left--;
    }
    if (step != NULL && step->left == 0) {
        if (step->is_checked)
            check_outputs(th, tensor, step);
        call_observer(m, s, tensor, step, true);
        *link = step->next;
        free(step);
    }
    pthread_mutex_unlock(&m->step_lock);
}

void sim_free_steps(struct sim *m)
{
    while (m->steps != NULL) {
        struct sim_step *step = m->steps;

        m->steps = step->next;
        free(step);
    }
}
