/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time of a child. A chip follows the worker's clock itself; for other tasks this file adds
 * their durations. A child reports the end of a task only when no other process can still act at an
 * earlier virtual time (link/shared_clock.h: its turn). Until the worker has taken the report, the
 * child's time does not change.
 */
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "chip/cost.h"
#include "host/host.h"
#include "pto/recording.h"
#include "tree/child_state.h"
#include "tree/tree_clock.h"

/* maximum interval at which a child that waits for its turn checks the clock */
#define TURN_LOOK_NS 100000000ull

int child_time_open(struct child *c, struct pto_error *error)
{
    struct pto_virtual_options options;

    if (!c->hello.is_virtual)
        return PTO_OK;
    c->time = (struct shared_clock_place){ .clock = &c->shared->clock,
                                           .member = TREE_CLOCK_CHILDREN + c->hello.child };
    if (c->held != NULL)
        return chip_time_join(c->held->chip, &c->time);
    if (c->device != NULL)
        return error_setf(error, PTO_ENOSUP, "the chip cannot follow the worker's clock");
    pto_virtual_options_init(&options);
    return cost_model_create(&options, &c->costs, error);
}

void child_time_close(struct child *c)
{
    cost_model_destroy(c->costs);
}

int child_time_set(struct child *c, const struct record *r, struct pto_error *error)
{
    const struct wire_costs *costs = (const void *)(uintptr_t)r->head.value;
    uint64_t offset = r->head.value - c->hello.link.addr;
    struct cost_model *model;
    int status;

    if (offset >= c->hello.link.memory_bytes ||
        c->hello.link.memory_bytes - offset < sizeof(*costs) || c->time.clock == NULL)
        return error_setf(error, PTO_EINVAL, "the costs are not in the shared memory");
    if (c->device != NULL)
        return pto_virtual_set(c->device, &costs->options, error);
    status = cost_model_create(&costs->options, &model, error);
    if (status < 0)
        return status;
    cost_model_destroy(c->costs);
    c->costs = model;
    return PTO_OK;
}

bool child_time_is_planned(const struct child *c)
{
    return c->costs != NULL && cost_model_options(c->costs)->is_planned_only;
}

int child_time_of_call(struct child *c, const struct pto_sub_call *call, uint32_t callable,
                       uint64_t cpu_ns, struct child_duration *duration_out, char *text)
{
    const struct cost_arguments args = { .tensor = call->tensor,
                                         .scalar = call->scalar,
                                         .tensor_count = call->tensor_count,
                                         .scalar_count = call->scalar_count,
                                         .block_count = 1 };
    const char *name = c->shared->name[callable];

    if (c->costs == NULL)
        return PTO_OK;
    if (cost_model_bind(c->costs, &name, 1, 1) < 0)
        return PTO_ENOMEM;
    cost_model_begin(c->costs);
    if (!cost_model_ns(c->costs, 0, &args, &duration_out->ns)) {
        snprintf(text, TREE_TEXT,
                 "its cost has no value for these arguments, or none from 0 to 10^15 ns; check "
                 "which arguments it names");
        return PTO_EINVAL;
    }
    duration_out->is_measured =
        cost_model_kind(c->costs, 0) == PTO_RECORDING_ORIGIN_DEFAULT && !child_time_is_planned(c);
    if (duration_out->is_measured)
        duration_out->ns = cpu_ns;
    return PTO_OK;
}

uint64_t child_time_begin(const struct child *c)
{
    return c->time.clock != NULL ? shared_clock_time(c->time.clock, c->time.member) : os_now_ns();
}

uint64_t child_time_end(struct child *c, uint64_t begin_ns, const struct child_duration *duration)
{
    struct shared_clock_place at = c->time;
    uint64_t end_ns;

    if (at.clock == NULL)
        return os_now_ns();
    /* the chip of a chip's child has already published the end of its run */
    if (c->device == NULL)
        shared_clock_publish(at.clock, at.member, begin_ns + duration->ns);
    end_ns = shared_clock_time(at.clock, at.member);
    while (!shared_clock_await(at.clock, at.member, os_now_ns() + TURN_LOOK_NS)) {
    }
    return end_ns;
}
