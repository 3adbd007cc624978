/* SPDX-License-Identifier: Apache-2.0 */
/* Executes a graph sequentially, so that runs can be compared with the results. */
#include <stdlib.h>

#include "tool/check/check_trial.h"

static void oracle_fill(uint8_t *memory, const struct check_arg *arg)
{
    uint32_t e = pto_dtype_size(arg->region.dtype);

    for (uint64_t at = 0; at < arg->region.size && arg->has_initial; at += e)
        memcpy(memory + at, &arg->initial, e);
}

static uint64_t element_addr(const struct check_run *memory, const struct check_element *e)
{
    struct pto_tensor t = check_element_tensor(memory, e);
    struct check_region view = check_region_from_tensor(&t);
    struct check_element there = *e;
    struct check_region element;

    there.region = view;
    element = check_element_region(&there);
    return element.addr + element.start * pto_dtype_size(element.dtype);
}

static void oracle_access(struct check_oracle *oracle, struct check_run *memory, uint32_t index)
{
    const struct check_task *task = &memory->g->tasks[index];

    for (uint32_t k = 0; k < task->access_count; k++) {
        const struct check_access *access = &task->accesses[k];
        uint32_t size = pto_dtype_size(access->element.region.dtype);

        if (!check_does_access(access, memory->is_held))
            continue;
        if (access->is_set)
            check_store_element(element_addr(memory, &access->element), size, access->bits);
        else
            oracle->got[memory->tasks[index].first_access + k] =
                check_load_element(element_addr(memory, &access->element), size);
    }
}

static int64_t sign_extend(uint64_t bits, uint32_t size)
{
    uint64_t sign = (uint64_t)1 << (8 * size - 1);

    return (int64_t)((bits ^ sign) - sign);
}

/* Finds the value with which a task's predicate compares, and whether the task runs. */
static void oracle_predicate(struct check_oracle *oracle, const struct check_run *memory,
                             uint32_t index)
{
    const struct check_task *task = &memory->g->tasks[index];
    const struct check_predicate *p = &task->predicate;
    int64_t value = 0, target = p->target;

    oracle->runs[index] = check_task_has_kernel(task);
    oracle->target[index] = target;
    if (!check_task_has_predicate(task))
        return;
    value = (int64_t)check_load_element(element_addr(memory, &p->element),
                                        pto_dtype_size(p->element.region.dtype));
    value = sign_extend((uint64_t)value, pto_dtype_size(p->element.region.dtype));
    if (!p->is_fixed)
        target = (int64_t)((uint64_t)value + (uint64_t)target);
    oracle->target[index] = target;
    oracle->runs[index] = oracle->runs[index] && (p->op == PTO_PREDICATE_EQ   ? value == target
                                                  : p->op == PTO_PREDICATE_NE ? value != target
                                                  : p->op == PTO_PREDICATE_GT ? value > target
                                                  : p->op == PTO_PREDICATE_LT ? value < target
                                                  : p->op == PTO_PREDICATE_GE ? value >= target
                                                                              : value <= target);
}

static void oracle_task(struct check_oracle *oracle, const struct check_run *memory, uint32_t index)
{
    const struct check_run_task *t = &memory->tasks[index];
    uint32_t arg_count = memory->g->tasks[index].arg_count;
    struct check_region regions[PTO_TASK_TENSORS_MAX];

    for (uint32_t k = 0; k < arg_count; k++)
        regions[k] = check_region_from_tensor(&memory->given[t->first_arg + k]);
    for (uint32_t k = 0; k < t->call_count; k++) {
        uint64_t hash = check_effect_read(t, k, regions);

        check_effect_write(t, k, regions, hash);
        oracle->hash[t->calls - memory->calls + k] = hash;
    }
}

void check_oracle_init(struct check_oracle *oracle, const struct check_graph *g, bool is_held)
{
    /* this run only provides descriptors and an arena; the runtime does not run it */
    struct check_run memory;
    struct check_counts n = check_count(g);
    uint8_t **outputs = check_alloc(NULL, n.args, sizeof(*outputs));
    uint32_t output_count = 0;

    check_run_init(&memory, g, NULL, NULL);
    memory.is_held = is_held;
    oracle->hash = check_alloc(NULL, n.calls, sizeof(*oracle->hash));
    oracle->runs = check_alloc(NULL, g->task_count, sizeof(*oracle->runs));
    oracle->target = check_alloc(NULL, g->task_count, sizeof(*oracle->target));
    oracle->got = check_alloc(NULL, n.accesses, sizeof(*oracle->got));
    memset(oracle->got, 0, n.accesses * sizeof(*oracle->got));
    for (uint32_t i = 0; i < g->task_count && is_held; i++)
        oracle_access(oracle, &memory, i);
    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct check_task *task = &g->tasks[i];
        struct pto_tensor *given = memory.given + memory.tasks[i].first_arg;

        if (!is_held)
            oracle_access(oracle, &memory, i);
        for (uint32_t k = 0; k < task->arg_count; k++) {
            const struct check_arg *arg = &task->args[k];

            if (arg->tag == PTO_TAG_OUTPUT) {
                outputs[output_count] = check_alloc_aligned(arg->region.size);
                oracle_fill(outputs[output_count], arg);
                given[k].addr = (uint64_t)(uintptr_t)outputs[output_count++];
                given[k].size = arg->region.size;
            }
            given[k] = check_make_tensor(&memory, arg);
        }
        oracle_predicate(oracle, &memory, i);
        if (oracle->runs[i] && g->is_compared)
            oracle_task(oracle, &memory, i);
    }
    for (uint32_t i = 0; i < output_count; i++)
        free(outputs[i]);
    free(outputs);
    oracle->arena = memory.arena;
    memory.arena = NULL;
    check_run_fini(&memory);
}

void check_oracle_fini(struct check_oracle *oracle)
{
    free(oracle->arena);
    free(oracle->hash);
    free(oracle->runs);
    free(oracle->target);
    free(oracle->got);
}
