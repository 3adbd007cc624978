/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs in the queue: the cost of one run does not depend on how many are queued, and the run whose
 * deadline comes first is found first.
 *
 * The cost is the CPU time of the whole process, for a few hundred runs and for many; the least of
 * several measurements counts, because other processes disturb each.
 */
#include <malloc.h>
#include <stdalign.h>

#include "tests/fixture/gate_test.h"
#include "host/host.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FEW = 50, MANY = 200, TRIES = 1, IS_MEASURED = 0 };
#else
enum { FEW = 500, MANY = 6000, TRIES = 10, IS_MEASURED = 1 };
#endif

enum { DUES = 300, STEPS = 20000 };

static float values[16];
static uint32_t executed, misaligned;

static void count_one(int64_t *args)
{
    (void)args;
    __atomic_fetch_add(&executed, 1, __ATOMIC_ACQ_REL);
}

static const struct pto_kernel kernels[] = {
    { "gate", stand_at_gate, PTO_CORE_AIV },
    { "count", count_one, PTO_CORE_AIV },
};

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    /* compiled orchestrations rely on the alignment of the type */
    misaligned += (uintptr_t)entry->tensor % alignof(struct pto_tensor) != 0;
    pto_aiv(o, (int32_t)entry->scalar[0], PTO_INOUT(entry->tensor));
}

struct stage {
    struct pto_device *device;
    struct pto_callable *callable;
    struct pto_run *run[MANY + 1];
    uint32_t count;
};

static void launch(struct stage *s, uint64_t kernel, uint64_t timeout_ns)
{
    struct pto_tensor tensor = pto_tensor_external(values, PTO_DIMS(16), 1, PTO_FLOAT32);
    const struct pto_entry entry = { 1, 1, &tensor, &kernel };
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.launch_timeout_ns = timeout_ns;
    options.stall_timeout_ns = 600000 * MS; /* long, because the first run stays at the gate */
    assert_int_equal(pto_run_prepare(s->device, s->callable, &entry, &options, &s->run[s->count]),
                     PTO_OK);
    assert_int_equal(pto_run_launch(s->run[s->count++]), PTO_OK);
}

/* Opens a device whose first run waits at the gate. */
static void begin(struct stage *s)
{
    struct pto_callable_params callable;
    struct pto_device_params params;
    uint64_t end = now_ns() + 60000 * MS;

    store(&is_gate_open, 0);
    store(&standing, 0);
    store(&executed, 0);
    s->count = 0;
    pto_device_params_init(&params);
    params.workers = 1;
    assert_int_equal(pto_device_open(&params, &s->device), PTO_OK);
    pto_callable_params_init(&callable);
    callable.orchestration = orchestrate;
    callable.kernels = kernels;
    callable.kernel_count = 2;
    assert_int_equal(pto_callable_create(&callable, &s->callable), PTO_OK);
    launch(s, 0, 0);
    while (load(&standing) == 0 && now_ns() < end)
        rest();
    assert_int_equal(load(&standing), 1);
}

static void finish(struct stage *s, int status)
{
    misaligned = 0;
    store(&is_gate_open, 1);
    for (uint32_t i = 0; i < s->count; i++) {
        (void)pto_run_wait(s->run[i], 0);
        assert_int_equal(pto_run_finish(s->run[i], NULL), i == 0 ? PTO_OK : status);
    }
    assert_int_equal(misaligned, 0);
    assert_int_equal(pto_device_close(s->device), PTO_OK);
    assert_int_equal(pto_callable_destroy(s->callable), PTO_OK);
}

/* Deadlines that follow from the index: all different, and not in the order of the launches. */
static uint64_t some_timeout(uint32_t i)
{
    return (600000 + (uint64_t)i * 7919 % MANY) * MS;
}

/*
 * Measures a run that is launched while `count` runs are queued, and that runs when its turn has
 * come.
 */
static double cost_of_running(struct stage *s, uint32_t count)
{
    double begin_ns;

    begin(s);
    begin_ns = cpu_ns();
    for (uint32_t i = 0; i < count; i++)
        launch(s, 1, i % 2 != 0 ? some_timeout(i) : 0);
    finish(s, PTO_OK);
    assert_int_equal(load(&executed), count);
    return (cpu_ns() - begin_ns) / count;
}

/* The same for a run that is cancelled, the last one first. */
static double cost_of_cancelling(struct stage *s, uint32_t count)
{
    double begin_ns;

    begin(s);
    begin_ns = cpu_ns();
    for (uint32_t i = 0; i < count; i++)
        launch(s, 1, i % 2 != 0 ? some_timeout(i) : 0);
    for (uint32_t i = s->count; i-- > 1;)
        assert_int_equal(pto_run_cancel(s->run[i]), PTO_OK);
    finish(s, PTO_ECANCELED);
    assert_int_equal(load(&executed), 0);
    return (cpu_ns() - begin_ns) / count;
}

static void assert_same(double (*cost)(struct stage *s, uint32_t count), const char *what)
{
    static struct stage stage;
    double few = 1e30, many = 1e30;

    (void)cost(&stage, MANY); /* from here on the heap needs no more memory */
    for (int i = 0; i < TRIES && (i == 0 || many > 2.5 * few); i++) {
        double now = cost(&stage, FEW);

        few = now < few ? now : few;
        now = cost(&stage, MANY);
        many = now < many ? now : many;
    }
    print_message("a run that is %s: %.1f us with %d of them, %.1f us with %d\n", what, few / 1e3,
                  FEW, many / 1e3, MANY);
    /*
     * fewer runs fit into a cache, which explains a factor of two; a search of all runs would be
     * six times slower
     */
    if (IS_MEASURED)
        assert_true(many <= 3 * few);
}

static void a_run_costs_the_same_however_many_wait(void **state)
{
    (void)state;
    assert_same(cost_of_running, "executed");
    assert_same(cost_of_cancelling, "cancelled");
}

/* Some runs are late, between others that are not. */
static void those_that_are_late_end_and_no_others(void **state)
{
    static struct stage s;
    uint32_t late = 0;

    (void)state;
    begin(&s);
    for (uint32_t i = 0; i < 100; i++)
        launch(&s, 1, i % 3 == 0 ? (1 + i * 37 % 100) * MS : i % 3 == 1 ? 600000 * MS : 0);
    for (uint32_t i = 1; i < s.count; i++)
        if (i % 3 == 1) {
            assert_int_equal(pto_run_wait(s.run[i], 0), PTO_ETIMEOUT);
            late++;
        } else {
            assert_int_equal(pto_run_poll(s.run[i]), PTO_RUN_PENDING);
        }
    store(&is_gate_open, 1);
    for (uint32_t i = 0; i < s.count; i++) {
        (void)pto_run_wait(s.run[i], 0);
        assert_int_equal(pto_run_finish(s.run[i], NULL), i % 3 == 1 ? PTO_ETIMEOUT : PTO_OK);
    }
    assert_int_equal(load(&executed), s.count - 1 - late);
    assert_int_equal(pto_device_close(s.device), PTO_OK);
    assert_int_equal(pto_callable_destroy(s.callable), PTO_OK);
}

/* Compares the heap with a search of all runs. */
static void the_earliest_is_first(void **state)
{
    struct run *run = calloc(DUES, sizeof(*run)), *first = NULL;
    uint64_t seed = 1;

    (void)state;
    assert_non_null(run);
    for (uint32_t step = 0; step < STEPS; step++) {
        struct run *r, *best = NULL;

        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        r = &run[(seed >> 33) % DUES];
        if (seed >> 62 == 0 && first != NULL)
            r = first;
        r->is_due = !r->is_due;
        if (r->is_due) {
            r->launch_deadline_ns = seed >> 40 & 0xff;
            due_add(&first, r);
        } else {
            due_remove(&first, r);
        }
        for (uint32_t i = 0; i < DUES; i++)
            if (run[i].is_due &&
                (best == NULL || run[i].launch_deadline_ns < best->launch_deadline_ns))
                best = &run[i];
        assert_int_equal(first == NULL, best == NULL);
        if (first != NULL)
            assert_int_equal(first->launch_deadline_ns, best->launch_deadline_ns);
    }
    free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_is_first),
        cmocka_unit_test(those_that_are_late_end_and_no_others),
        cmocka_unit_test(a_run_costs_the_same_however_many_wait),
    };

    (void)mallopt(M_MMAP_THRESHOLD, 1 << 30); /* the system's part of a run is the same, too */
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    return cmocka_run_group_tests_name("queued", tests, NULL, NULL);
}
