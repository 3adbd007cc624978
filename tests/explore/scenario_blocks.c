/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of outputs is dropped by scopes and by tasks on other threads, collected, and reused. */
#include "scenario_places.h"

static const uint32_t shape[] = { 64 };

static void setup_two(void)
{
    start_places(2);
}

static void setup_three(void)
{
    start_places(3);
}

/* A buffer to which the submitter itself writes, as it does for an initial value. */
static struct pto_tensor alloc_filled(void)
{
    struct pto_tensor_info info = pto_tensor_info_make(shape, 1, PTO_FLOAT32);
    struct pto_outputs out;
    struct pto_args args;

    pto_args_init(&args);
    pto_add_output(&args, &info);
    explore_assert(graph_alloc(graph, &args, &out) == PTO_OK);
    atomic_note_write(pto_tensor_data(&out.tensor[0]));
    return out.tensor[0];
}

/*
 * One output, `readers` tasks that read it, the end of its scope, and a second output of the same
 * size.
 */
static void read_and_refill(uint32_t readers)
{
    struct pto_tensor x;

    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    x = alloc_filled();
    for (uint32_t i = 0; i < readers; i++)
        submit_tensor(KERNEL_READ, &x, PTO_TAG_INPUT, 0, 0);
    graph_scope_end(graph);
    alloc_filled();
    lead_to_end();
}

/* The last user is the submitter, by the end of the scope, or the other thread, by a reader. */
static void last_thread(int id)
{
    if (id != 0)
        serve_place(&place[id]);
    else
        read_and_refill(1);
}

/* Two readers at two places: the last one frees what the other one has read. */
static void readers_thread(int id)
{
    if (id != 0)
        serve_place(&place[id]);
    else
        read_and_refill(2);
}

/*
 * The creator is a task; another task reads its output, and the memory is reused for the next
 * output.
 */
static void output_thread(int id)
{
    struct pto_tensor_info info = pto_tensor_info_make(shape, 1, PTO_FLOAT32);

    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct pto_outputs out;
        struct pto_tensor x;

        graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
        out = submit_tensor(KERNEL_WRITE, &info, PTO_TAG_OUTPUT, 0, 0);
        x = out.tensor[0];
        submit_tensor(KERNEL_READ, &x, PTO_TAG_INPUT, 0, 0);
        graph_scope_end(graph);
        sched_collect(sched, graph);
    }
    lead_to_end();
}

/*
 * The memory is kept only by an explicit dependency, and the dependent task is just releasing it.
 */
static void retain_thread(int id)
{
    struct pto_tensor_info info = pto_tensor_info_make(shape, 1, PTO_FLOAT32);
    struct pto_task_id dep;

    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    dep = submit_tensor(KERNEL_WRITE, &info, PTO_TAG_OUTPUT, 0, 0).task;
    graph_scope_end(graph);
    submit(0, 0, &dep, 1);
    alloc_filled();
    lead_to_end();
}

int main(int argc, char **argv)
{
    static const struct scenario list[] = {
        { { "last user", 2, setup_two, last_thread, check_all_ran },
          "R3 A3 R4 A4",
          { .preemption_max = 2, .delay_max = 0, .execution_max = 200000, .random_count = 5000 } },
        { { "readers", 3, setup_three, readers_thread, check_all_ran },
          "R3 A3",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 200000, .random_count = 40000 } },
        { { "outputs", 2, setup_two, output_thread, check_all_ran },
          "R4 A4",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 100000, .random_count = 10000 } },
        { { "retained", 2, setup_two, retain_thread, check_all_ran },
          "R4 A4",
          { .preemption_max = 2, .delay_max = 0, .execution_max = 55000, .random_count = 5000 } },
    };

    return scenario_main(argc, argv, list, sizeof(list) / sizeof(list[0]));
}
