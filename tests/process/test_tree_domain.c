/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains over the chips of a worker: kernels access each other's windows, several domains are open
 * at a time, how domains end, and which waits end when a member is lost.
 */
#include <signal.h>

#include "pto/worker_domain.h"
#include "tests/fixture/tree_test.h"

static struct bytes chip_object;

static const char chip_text[] =
    "#include <pto/pto.h>\n"
    "#include <pto/window.h>\n"
    "enum { COUNT = 16 };\n"
    /* Layout of a window: a block for each rank, then a word for each rank. */
    "static const struct pto_comm_context *context_of(int64_t value)\n"
    "{ return (const struct pto_comm_context *)(uintptr_t)value; }\n"
    /* Sets x to the sum of the values of all ranks; the scalar is the number of the round. */
    "static void sum(int64_t *args)\n"
    "{\n"
    "    int *x = pto_tensor_data(pto_arg_tensor(args, 0));\n"
    "    const struct pto_comm_context *c = context_of(args[1]);\n"
    "    int *own = (int *)(uintptr_t)c->window_in[c->rank];\n"
    "    int32_t *word = own + c->rank_count * COUNT;\n"
    "    for (uint32_t r = 0; r < c->rank_count; r++)\n"
    "        pto_window_put_signal(c, r, own + c->rank * COUNT, x, COUNT * sizeof(int), word +\n"
    "                              c->rank, PTO_SIGNAL_SET, (int)args[2]);\n"
    "    for (uint32_t r = 0; r < c->rank_count; r++)\n"
    "        if (pto_window_wait(c, word + r, PTO_COMPARE_GE, (int)args[2]) < 0) return;\n"
    "    for (int i = 0; i < COUNT; i++) {\n"
    "        int s = 0;\n"
    "        for (uint32_t r = 0; r < c->rank_count; r++) s += own[r * COUNT + i];\n"
    "        x[i] = s;\n"
    "    }\n"
    "}\n"
    /* Reports that it waits, and then how its wait for a signal that never comes has ended. */
    "static void wait(int64_t *args)\n"
    "{\n"
    "    int *x = pto_tensor_data(pto_arg_tensor(args, 0));\n"
    "    const struct pto_comm_context *c = context_of(args[1]);\n"
    "    __atomic_store_n(x, 1, __ATOMIC_RELEASE);\n"
    "    x[1] = pto_window_wait(c, (int *)(uintptr_t)c->window_in[c->rank], PTO_COMPARE_EQ, "
    "12345);\n"
    "}\n"
    "static void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{ pto_aiv(o, (int)e->scalar[2], PTO_INOUT(&e->tensor[0]), PTO_INT(e->scalar[0]),\n"
    "          PTO_INT(e->scalar[1])); }\n"
    "static void give_up(struct pto_orch *o, const struct pto_entry *e)\n"
    "{ (void)e; (void)pto_orch_fail(o, PTO_EFORMAT, \"it gave up\"); }\n"
    "static const struct pto_kernel kernels[] = { { \"sum\", sum, PTO_CORE_AIV },\n"
    "                                             { \"wait\", wait, PTO_CORE_AIV } };\n"
    "struct pto_callable_params talks = { .size = sizeof(talks), .name = \"talks\",\n"
    "    .orchestration = orchestrate, .kernels = kernels, .kernel_count = 2 };\n"
    "struct pto_callable_params gives_up = { .size = sizeof(gives_up), .name = \"gives up\",\n"
    "    .orchestration = give_up };\n";

enum { SUM, WAIT };

static struct pto_error domain_error;

static int try_open(const char *name, const uint32_t *chips, uint32_t count, uint64_t *domain)
{
    struct pto_worker_domain_params params;

    pto_error_init(&domain_error);
    pto_worker_domain_params_init(&params);
    params.name = name;
    params.chips = chips;
    params.chip_count = count;
    params.window_bytes = 4096;
    params.error = &domain_error;
    return pto_worker_domain_open(worker, &params, domain);
}

static uint64_t open_domain(const char *name, const uint32_t *chips, uint32_t count)
{
    uint64_t domain = 0;

    if (try_open(name, chips, count, &domain) < 0)
        fail_msg("%s", domain_error.text);
    return domain;
}

static struct pto_worker_member member_of(uint64_t domain, uint32_t rank)
{
    struct pto_worker_member m;

    pto_worker_member_init(&m);
    assert_int_equal(pto_worker_domain_member(worker, domain, rank, &m), PTO_OK);
    return m;
}

/* ---- windows ---- */

static void a_context_is_as_kernels_expect_it(void **state)
{
    const uint32_t turned[] = { 1, 0 };
    const struct pto_comm_context *c;
    struct pto_worker_member m[2];
    uint64_t domain;

    (void)state;
    open_worker(2, 0);
    domain = open_domain("turned", turned, 2);
    for (uint32_t i = 0; i < 2; i++) {
        m[i] = member_of(domain, i);
        assert_int_equal(m[i].chip, turned[i]);
        assert_int_equal(m[i].window_bytes, 4096);
    }
    for (uint32_t i = 0; i < 2; i++) {
        c = (const struct pto_comm_context *)(uintptr_t)m[i].context;
        assert_int_equal(c->rank, i);
        assert_int_equal(c->rank_count, 2);
        assert_int_equal(c->window_bytes, 4096);
        assert_true(c->work_space_bytes >= sizeof(struct pto_comm_wakers));
        for (uint32_t k = 0; k < 2; k++) {
            assert_true(c->window_in[k] == m[k].window);
            assert_true(c->window_out[k] == m[k].window);
        }
    }
    close_worker();
}

struct talk {
    uint64_t talks;
    uint64_t domain[2];
    uint32_t chips[2][2];
    int *x[4]; /* of each chip */
    int rounds;
};

/* A group in which each member of a domain signals and waits. */
static void submit_sum(struct pto_level *level, struct talk *x, int which, int round)
{
    struct pto_args args[2];
    struct pto_tensor t[2];

    for (uint32_t i = 0; i < 2; i++) {
        struct pto_worker_member m;

        pto_worker_member_init(&m);
        assert_int_equal(pto_level_domain_member(level, x->domain[which], i, &m), PTO_OK);
        t[i] = numbers(x->x[x->chips[which][i]]);
        pto_args_init(&args[i]);
        pto_add_inout(&args[i], &t[i]);
        pto_add_address(&args[i], m.context);
        pto_add_scalar(&args[i], (uint64_t)round);
        pto_add_scalar(&args[i], SUM);
    }
    (void)pto_level_submit_group(level, x->talks, x->chips[which], args, 2, NULL);
}

static void talk_in_turns(struct pto_level *level, void *context)
{
    struct talk *x = context;

    for (int i = 1; i <= x->rounds; i++)
        for (int k = 0; k < 2; k++)
            submit_sum(level, x, k, i);
}

/* The same tasks, one chip after the other. */
static void replay(const struct talk *x, unsigned values[4])
{
    for (int i = 1; i <= x->rounds; i++)
        for (int k = 0; k < 2; k++)
            values[x->chips[k][0]] = values[x->chips[k][1]] =
                values[x->chips[k][0]] + values[x->chips[k][1]];
}

static void talk_over(uint32_t chips, struct talk x)
{
    unsigned values[4] = { 1, 10, 100, 1000 };

    open_worker(chips, 0);
    x.talks = register_bytes(chip_object, PTO_CHILD_CHIP, "talks");
    for (uint32_t i = 0; i < chips; i++) {
        x.x[i] = make_numbers();
        for (int k = 0; k < COUNT; k++)
            x.x[i][k] = (int)values[i];
    }
    x.domain[0] = open_domain("left", x.chips[0], 2);
    x.domain[1] = open_domain("right", x.chips[1], 2);
    run_well(talk_in_turns, &x);
    replay(&x, values);
    for (uint32_t i = 0; i < chips; i++)
        for (int k = 0; k < COUNT; k++)
            assert_int_equal(x.x[i][k], (int)values[i]);
    assert_int_equal(pto_worker_domain_release(worker, x.domain[0]), PTO_OK);
    assert_int_equal(pto_worker_domain_release(worker, x.domain[0]), PTO_EINVAL);
    close_worker(); /* with the other one */
}

static void domains_that_overlap_take_turns(void **state)
{
    (void)state;
    talk_over(3, (struct talk){ .chips = { { 0, 1 }, { 2, 1 } }, .rounds = 20 });
}

static void domains_with_nothing_in_common_go_on_at_once(void **state)
{
    (void)state;
    talk_over(4, (struct talk){ .chips = { { 0, 1 }, { 3, 2 } }, .rounds = 20 });
}

/* ---- how they end ---- */

struct life {
    uint64_t hold;
    uint64_t domain, retained;
    int *word;
    struct pto_worker_member member;
};

/* Opens two domains and releases neither. */
static void leave_open(struct pto_level *level, void *context)
{
    struct pto_worker_domain_params params;
    struct life *x = context;

    pto_worker_domain_params_init(&params);
    params.name = "of the run";
    params.window_bytes = 64;
    assert_int_equal(pto_level_domain_open(level, &params, &x->domain), PTO_OK);
    params.name = "retained";
    params.is_retained = true;
    (void)pto_level_domain_open(level, &params, &x->retained);
}

/* Opens a domain of the same name repeatedly in one run. */
static void reopen_often(struct pto_level *level, void *context)
{
    struct pto_worker_domain_params params;
    struct life *x = context;

    pto_worker_domain_params_init(&params);
    params.name = "again";
    params.window_bytes = 64;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(pto_level_domain_open(level, &params, &x->domain), PTO_OK);
        assert_int_equal(pto_level_domain_release(level, x->domain), PTO_OK);
    }
}

static void domains_end_with_their_run(void **state)
{
    struct pto_worker_domain_info info;
    struct life x = { 0 };
    uint64_t found;

    (void)state;
    open_worker(2, 0);
    pto_worker_domain_info_init(&info);
    run_well(leave_open, &x);
    assert_int_equal(pto_worker_domain_info(worker, x.domain, &info), PTO_EINVAL);
    assert_int_equal(pto_worker_domain_find(worker, "of the run", &found), PTO_EINVAL);
    assert_int_equal(pto_worker_domain_find(worker, "retained", &found), PTO_OK);
    assert_true(found == x.retained);
    assert_int_equal(pto_worker_domain_info(worker, x.retained, &info), PTO_OK);
    assert_int_equal(info.rank_count, 2);
    assert_int_equal(info.users, 0);
    assert_int_equal(run(leave_open, &x), PTO_EBUSY); /* the name is taken */
    assert_non_null(strstr(run_report.error.text, "'retained' already"));
    run_well(reopen_often, &x);
    close_worker();
}

static void submit_held(struct pto_level *level, void *context)
{
    struct life *x = context;
    struct pto_tensor t = numbers(x->word);
    struct pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, &t);
    pto_add_address(&args, x->member.context);
    pto_add_scalar(&args, 0);
    pto_add_scalar(&args, WAIT);
    (void)pto_level_submit(level, x->hold, 0, &args);
}

static void what_was_released_is_used_no_more(void **state)
{
    struct pto_worker_run *handle;
    struct life x = { 0 };
    uint64_t before;
    int32_t *window;

    (void)state;
    open_worker(1, 1);
    x.hold = register_bytes(chip_object, PTO_CHILD_CHIP, "talks");
    x.word = make_numbers();
    before = open_domain("one", NULL, 0);
    x.member = member_of(before, 0);
    window = (int32_t *)(uintptr_t)x.member.window;
    assert_int_equal(pto_worker_launch(worker, submit_held, &x, &handle), PTO_OK);
    wait_word(x.word, 1);
    assert_int_equal(pto_worker_free(worker, window, &domain_error), PTO_EMEMORY);
    assert_non_null(strstr(domain_error.text, "belongs to a domain"));
    assert_int_equal(pto_worker_domain_release(worker, before), PTO_OK);
    assert_int_equal(run(submit_held, &x), PTO_EINVAL);
    assert_non_null(strstr(run_report.error.text, "domain 'one', which was released"));
    /* the name can be used again, but the memory is not free yet */
    assert_true(open_domain("one", NULL, 0) != before);
    __atomic_store_n(window, 12345, __ATOMIC_RELEASE); /* as a peer would */
    assert_int_equal(pto_worker_run_wait(handle, 0), PTO_OK);
    assert_int_equal(pto_worker_run_finish(handle, NULL), PTO_OK);
    assert_int_equal(x.word[1], PTO_OK);
    assert_int_equal(run(submit_held, &x), PTO_EINVAL); /* and the child is dead by now */
    assert_non_null(strstr(run_report.error.text, "domain that was released"));
    close_worker();
}

static void what_is_not_its_own_is_refused(void **state)
{
    const uint32_t twice[] = { 0, 0 }, none[] = { 2 };
    struct life x = { 0 };
    uint64_t domain;

    (void)state;
    open_worker(2, 1);
    x.hold = register_bytes(chip_object, PTO_CHILD_CHIP, "talks");
    x.word = make_numbers();
    assert_int_equal(try_open("twice", twice, 2, &domain), PTO_EINVAL);
    assert_non_null(strstr(domain_error.text, "listed twice"));
    assert_int_equal(try_open("none", none, 1, &domain), PTO_EINVAL);
    assert_non_null(strstr(domain_error.text, "not a chip"));
    assert_int_equal(try_open("", NULL, 0, &domain), PTO_EINVAL);
    domain = open_domain("both", NULL, 0);
    assert_int_equal(try_open("both", NULL, 0, &domain), PTO_EBUSY);
    x.member = member_of(domain, 1);
    /* address in another chip's window than the context */
    x.word = (int *)(uintptr_t)member_of(domain, 0).window;
    assert_int_equal(run(submit_held, &x), PTO_EMEMORY);
    assert_non_null(strstr(run_report.error.text, "scalar 0 is memory of chip 1"));
    close_worker();
}

/* ---- members that are lost ---- */

struct loss {
    struct life life;
    uint64_t gives_up;
    struct pto_worker_member other;
    int *place;
};

static void submit_giving_up(struct pto_level *level, void *context)
{
    struct loss *x = context;
    struct pto_tensor t = numbers(x->place);
    struct pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, &t);
    pto_add_address(&args, x->other.context);
    (void)pto_level_submit(level, x->gives_up, 0, &args);
}

static void a_lost_member_ends_all_waits(void **state)
{
    struct pto_worker_domain_info info;
    struct pto_child_info child;
    struct pto_worker_run *handle;
    struct loss x = { 0 };
    uint64_t domain;

    (void)state;
    open_worker(2, 0);
    x.life.hold = register_bytes(chip_object, PTO_CHILD_CHIP, "talks");
    x.gives_up = register_bytes(chip_object, PTO_CHILD_CHIP, "gives_up");
    x.life.word = make_numbers();
    x.place = make_numbers();
    for (int is_killed = 0; is_killed < 2; is_killed++) {
        domain = open_domain("both", NULL, 0);
        x.life.word[0] = x.life.word[1] = 0;
        x.life.member = member_of(domain, 0);
        x.other = member_of(domain, 1);
        assert_int_equal(pto_worker_launch(worker, submit_held, &x.life, &handle), PTO_OK);
        wait_word(x.life.word, 1);
        pto_child_info_init(&child);
        assert_int_equal(pto_worker_child(worker, 1, &child), PTO_OK);
        if (is_killed)
            assert_int_equal(kill(child.pid, SIGKILL), 0);
        else
            assert_int_equal(run(submit_giving_up, &x), PTO_EFORMAT);
        assert_int_equal(pto_worker_run_wait(handle, 0), PTO_OK);
        assert_int_equal(pto_worker_run_finish(handle, NULL), PTO_OK);
        assert_int_equal(x.life.word[1], PTO_EPEER);
        pto_worker_domain_info_init(&info);
        assert_int_equal(pto_worker_domain_info(worker, domain, &info), PTO_OK);
        assert_true(info.is_lost);
        assert_int_equal(run(submit_held, &x.life), PTO_EPEER);
        assert_non_null(strstr(run_report.error.text, "lost a member"));
        assert_int_equal(pto_worker_domain_release(worker, domain), PTO_OK);
    }
    assert_int_equal(try_open("both", NULL, 0, &domain), PTO_EPEER);
    assert_int_equal(pto_worker_reopen(worker, 1, NULL), PTO_OK);
    (void)open_domain("both", NULL, 0);
    close_worker();
}

static int set_up_all(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    chip_object = keep(compile(chip_text, ""));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_context_is_as_kernels_expect_it),
        TEST(domains_that_overlap_take_turns),
        TEST(domains_with_nothing_in_common_go_on_at_once),
        TEST(domains_end_with_their_run),
        TEST(what_was_released_is_used_no_more),
        TEST(what_is_not_its_own_is_refused),
        TEST(a_lost_member_ends_all_waits),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up_all, tear_down);
}
