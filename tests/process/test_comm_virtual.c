/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan */
/*
 * Ranks in virtual time, each a process with a device: kernels that wait for other ranks, barriers,
 * signals and collectives transfer time; lost ranks do not delay the others; ranks in real time are
 * refused.
 */
#include "pto/pto.h"
#include "pto/virtual.h"
#include "pto/window.h"
#include "tests/fixture/ranks_test.h"

#define US 1000ull

/* the domain, for kernels of this process */
static const struct pto_domain_info *about_here;

static void work(int64_t *args)
{
    (void)args;
}

/* Signals all ranks, and waits for the signal of each; the scalar is the number of the round. */
static void meet(int64_t *args)
{
    const struct pto_comm_context *c = (const void *)(uintptr_t)about_here->context;
    int32_t *word = (int32_t *)(uintptr_t)about_here->window;

    for (uint32_t i = 0; i < c->rank_count; i++)
        pto_window_signal(c, i, word + c->rank, PTO_SIGNAL_SET, (int32_t)args[0]);
    for (uint32_t i = 0; i < c->rank_count; i++)
        if (pto_window_wait(c, word + i, PTO_COMPARE_GE, (int32_t)args[0]) < 0)
            return;
}

static const struct pto_kernel kernels[] = { { "work", work, PTO_CORE_AIV },
                                             { "meet", meet, PTO_CORE_AIV } };

/* Scalars: duration of the work; the round of the meeting, or 0. */
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_outputs before = pto_aiv(o, 0, PTO_INT(entry->scalar[0]));

    if (entry->scalar[1] != 0)
        pto_aiv(o, 1, PTO_DEPS(before.task), PTO_INT(entry->scalar[1]));
}

struct place {
    struct pto_device *device;
    struct pto_callable *callable;
    struct pto_domain_info about;
};

static void open_place(struct rank *r, struct place *p, bool is_virtual)
{
    static const struct pto_virtual_cost costs[] = {
        { .kernel = "work", .formula = "scalar(0)" },
        { .kernel = "meet", .formula = "2us" },
    };
    struct pto_virtual_options options;
    struct pto_device_params params;
    struct pto_callable_params code;

    pto_device_params_init(&params);
    params.clusters = 1;
    params.is_virtual = is_virtual;
    params.error = &r->error;
    CHECK(r, pto_device_open(&params, &p->device) == PTO_OK);
    pto_virtual_options_init(&options);
    options.register_read_ns = options.register_write_ns = options.line_ns = options.pickup_ns =
        options.submit_ns = 0;
    options.cost = costs;
    options.cost_count = 2;
    if (is_virtual)
        CHECK(r, pto_virtual_set(p->device, &options, &r->error) == PTO_OK);
    pto_callable_params_init(&code);
    code.orchestration = orchestrate;
    code.kernels = kernels;
    code.kernel_count = 2;
    CHECK(r, pto_callable_create(&code, &p->callable) == PTO_OK);
}

static int open_comm(struct rank *r, const struct place *p, const char *path)
{
    struct pto_comm_params params;

    pto_comm_params_init(&params);
    params.rank = (int32_t)r->rank;
    params.rank_count = r->count;
    params.path = path;
    params.device = p->device;
    params.error = &r->error;
    return pto_comm_open(&params, &r->comm);
}

static void open_domain(struct rank *r, struct place *p)
{
    struct pto_domain_params params;

    pto_domain_params_init(&params);
    params.id = 1;
    params.window_bytes = 4096;
    params.error = &r->error;
    CHECK(r, pto_domain_open(r->comm, &params, &r->domain) == PTO_OK);
    pto_domain_info_init(&p->about);
    CHECK(r, pto_domain_info(r->domain, &p->about) == PTO_OK);
    about_here = &p->about;
}

/*
 * Runs a kernel of a duration, then a meeting unless `round` is 0. Returns the duration of the run
 * in us.
 */
static uint64_t run(struct rank *r, struct place *p, uint64_t us, uint64_t round)
{
    const uint64_t scalars[] = { us * US, round };
    const struct pto_entry entry = { .scalar_count = 2, .scalar = scalars };
    struct pto_run_report report;

    pto_run_report_init(&report);
    if (pto_run(p->device, p->callable, &entry, NULL, &report) < 0) {
        r->error = report.error;
        CHECK(r, false);
    }
    return report.ns / US;
}

static void close_place(struct rank *r, struct place *p)
{
    if (r->comm != NULL)
        CHECK(r, pto_comm_close(r->comm) == PTO_OK);
    CHECK(r, pto_callable_destroy(p->callable) == PTO_OK);
    CHECK(r, pto_device_close(p->device) == PTO_OK);
}

/* ---- what ranks do ---- */

static void meet_and_wait(struct rank *r, struct place *p)
{
    bool is_first = r->rank == 0;
    struct pto_collective how;
    float one = 1;

    CHECK(r, run(r, p, is_first ? 10 : 100, 1) == (is_first ? 100 : 102));
    CHECK(r, pto_comm_barrier(r->domain, 0, &r->error) == PTO_OK); /* all ranks are at 102 now */
    CHECK(r, run(r, p, is_first ? 5 : 1, 2) == (is_first ? 7 : 5));

    /* Rank 0 is two microseconds later; the others get that time by a collective. */
    pto_collective_init(&how);
    how.error = &r->error;
    CHECK(r, pto_comm_all_reduce(r->domain, &one, &one, 1, &how) == PTO_OK);
    CHECK(r, one == (float)r->count);
    CHECK(r, run(r, p, is_first ? 1 : 3, 3) == (is_first ? 3 : 5));
}

/*
 * Rank 0 signals from its host at 30, and is at 40 before it meets rank 1, which has waited until
 * 30.
 */
static void signal_and_wait(struct rank *r, struct place *p)
{
    const struct pto_signal_at signal = { 1024, PTO_SIGNAL_SET, 1 };
    const struct pto_wait_for word = { 1024, PTO_COMPARE_EQ, 1 };

    if (r->rank == 0) {
        CHECK(r, run(r, p, 30, 0) == 30);
        CHECK(r, pto_comm_signal(r->domain, 1, signal) == PTO_OK);
        CHECK(r, run(r, p, 10, 1) == 12);
    } else {
        CHECK(r, pto_comm_wait(r->domain, word, 0, &r->error) == PTO_OK);
        CHECK(r, run(r, p, 0, 1) == 10);
    }
}

/*
 * The last rank dies while the others wait for it in kernels; their runs end, and a barrier fails.
 */
static void lose_a_rank(struct rank *r, struct place *p)
{
    if (r->rank == r->count - 1)
        raise(SIGKILL);
    (void)run(r, p, 5, 1);
    CHECK(r, pto_comm_barrier(r->domain, 0, &r->error) == PTO_EPEER);
    CHECK(r, run(r, p, 7, 0) == 7);
}

/* ---- processes ---- */

struct trial {
    void (*body)(struct rank *r, struct place *p);
    int killed; /* rank that kills itself; -1: none */
    int real;   /* rank whose device runs in real time; -1: none */
};

static void rank_process(struct rank r, const char *path)
{
    const struct trial *t = r.arg;
    struct place p;
    int status;

    signal(SIGABRT, SIG_DFL);
    pto_error_init(&r.error);
    open_place(&r, &p, (int)r.rank != t->real);
    status = open_comm(&r, &p, path);
    if (t->real >= 0 && (int)r.rank != t->real) {
        CHECK(&r, status == PTO_EINVAL && strstr(r.error.text, "has no virtual time") != NULL);
        r.comm = NULL;
    } else {
        CHECK(&r, status == PTO_OK);
    }
    if (t->body != NULL) {
        open_domain(&r, &p);
        t->body(&r, &p);
    }
    close_place(&r, &p);
    _exit(0);
}

static void on_ranks(uint32_t count, const struct trial *t)
{
    fork_ranks(count, (struct rank){ .arg = t }, t->killed, rank_process);
}

static void kernels_barriers_and_collectives_carry_time(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= 4; count++)
        on_ranks(count, &(struct trial){ meet_and_wait, -1, -1 });
}

static void a_signal_carries_time(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        on_ranks(2, &(struct trial){ signal_and_wait, -1, -1 });
}

static void a_lost_rank_holds_no_other(void **state)
{
    (void)state;
    on_ranks(3, &(struct trial){ lose_a_rank, 2, -1 });
}

static void ranks_in_real_time_are_refused(void **state)
{
    (void)state;
    on_ranks(2, &(struct trial){ NULL, -1, 1 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_barriers_and_collectives_carry_time),
        cmocka_unit_test(a_signal_carries_time),
        cmocka_unit_test(a_lost_rank_holds_no_other),
        cmocka_unit_test(ranks_in_real_time_are_refused),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
