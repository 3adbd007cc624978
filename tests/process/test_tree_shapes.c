/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases in which one callable could be mistaken for another: two callables on one chip, on two
 * chips, alternating, with equal names and build ids, registered again, prepared at the same time,
 * from two threads; and graphs over chips and SUB workers whose results show which child ran what,
 * when, and in which memory.
 *
 * tests/README.md lists what is expected of a worker, and where each item is tested.
 */
#include <signal.h>

#include "tests/fixture/tree_test.h"

enum { SHAPES = 4, ROUNDS = IS_SANITIZED ? 200 : 10000, FUNCTIONS = 1024 };

#define BUILD_ID " -Wl,--build-id=0x0123456789abcdef"

static struct bytes add_artefact, subtract_artefact, multiply_artefact;

static void fill(int *to, int factor, int plus)
{
    for (int i = 0; i < COUNT; i++)
        to[i] = factor * i + plus;
}

static uint64_t register_named(struct bytes bytes, enum pto_child_kind kind, const char *symbol,
                               const char *name, uint64_t children)
{
    struct pto_worker_callable params = callable_of(bytes, kind, symbol);

    params.name = name;
    params.children = children;
    return register_callable(params);
}

static uint64_t register_chip(struct bytes bytes)
{
    return register_named(bytes, PTO_CHILD_CHIP, NULL, "same", 0);
}

/* ---- two callables, wherever they are ---- */

/*
 * f becomes 3 f + first(a, b) + second(a, b) + scalar, so that a wrong result of any round is
 * visible in the last.
 */
struct shape {
    uint64_t callable[2], mix;
    uint64_t chip[2], sub; /* where each runs */
    struct pto_tensor a, b, f;
    int rounds;
};

static void submit_shape(struct pto_level *level, void *context)
{
    const struct shape *x = context;
    const uint32_t shape[] = { COUNT };
    struct pto_tensor_info info = pto_tensor_info_make(shape, 1, PTO_INT32);
    struct pto_outputs half[2];
    struct pto_args args;

    for (int round = 0; round < x->rounds; round++) {
        for (int i = 0; i < 2; i++) {
            pto_args_init(&args);
            pto_add_input(&args, &x->a);
            pto_add_input(&args, &x->b);
            pto_add_output(&args, &info);
            half[i] = pto_level_submit(level, x->callable[i], x->chip[i], &args);
            if (half[i].count != 1)
                return;
        }
        pto_args_init(&args);
        pto_add_input(&args, half[0].tensor);
        pto_add_input(&args, half[1].tensor);
        pto_add_inout(&args, &x->f);
        pto_add_scalar(&args, (uint64_t)round);
        (void)pto_level_submit(level, x->mix, x->sub, &args);
    }
}

static struct shape make_shape(int rounds)
{
    struct shape x = { .rounds = rounds };
    int *a = make_numbers(), *b = make_numbers();

    fill(a, 7, 1);
    fill(b, 3, 2);
    x.a = numbers(a), x.b = numbers(b), x.f = numbers(make_numbers());
    return x;
}

static int *data(const struct pto_tensor *t)
{
    return pto_tensor_data(t);
}

/* `sum` is the sum of both results: a + b and a - b give 2a. */
static void assert_shape(const struct shape *x, int (*sum)(int a, int b))
{
    for (int i = 0; i < COUNT; i++) {
        unsigned expected = 0;

        for (int round = 0; round < x->rounds; round++)
            expected =
                3 * expected + (unsigned)sum(data(&x->a)[i], data(&x->b)[i]) + (unsigned)round;
        assert_int_equal((unsigned)data(&x->f)[i], expected);
    }
}

static void run_shape(struct shape *x, int (*sum)(int a, int b))
{
    memset(data(&x->f), 0, COUNT * sizeof(int));
    run_well(submit_shape, x);
    assert_shape(x, sum);
}

static int twice_a(int a, int b)
{
    (void)b;
    return 2 * a;
}

static int minus_and_times(int a, int b)
{
    return a - b + a * b;
}

/* Runs add on one chip and subtract on another, and vice versa. */
static void two_callables_on_two_chips(void **state)
{
    struct shape x;

    (void)state;
    open_worker(2, 1);
    x = make_shape(20);
    x.callable[0] = register_named(add_artefact, PTO_CHILD_CHIP, NULL, "same", PTO_ON(0));
    x.callable[1] = register_named(subtract_artefact, PTO_CHILD_CHIP, NULL, "same", PTO_ON(1));
    x.mix = register_sub("mix");
    run_shape(&x, twice_a);
    x.callable[0] = register_named(add_artefact, PTO_CHILD_CHIP, NULL, "same", PTO_ON(1));
    x.callable[1] = register_named(subtract_artefact, PTO_CHILD_CHIP, NULL, "same", PTO_ON(0));
    run_shape(&x, twice_a);
    close_worker();
}

/* Each thread has its own SUB worker; what it runs is launched, or run. */
static void *run_thread(void *context)
{
    EXPECT(pto_worker_run(worker, submit_shape, context, NULL) == PTO_OK);
    return NULL;
}

static void alternate_from_two_threads(uint32_t chips)
{
    struct shape x[2];
    pthread_t thread[2];

    open_worker(chips, 2);
    for (int i = 0; i < 2; i++) {
        x[i] = make_shape(ROUNDS / 2);
        x[i].callable[0] = register_chip(add_artefact);
        x[i].callable[1] = register_chip(subtract_artefact);
        x[i].mix = register_sub("mix");
        x[i].chip[0] = x[i].chip[1] = PTO_ON((uint32_t)i % chips);
        x[i].sub = PTO_ON(chips + (uint32_t)i);
        assert_int_equal(pthread_create(&thread[i], NULL, run_thread, &x[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_nothing_unexpected();
    for (int i = 0; i < 2; i++)
        assert_shape(&x[i], twice_a);
    close_worker();
}

static void they_alternate_on_two_chips_from_two_threads(void **state)
{
    (void)state;
    alternate_from_two_threads(2);
}

static void they_alternate_on_one_chip_from_two_threads(void **state)
{
    (void)state;
    alternate_from_two_threads(1);
}

/* Runs A B A B; then replaces A by C: an unregistered callable is not found again. */
static void another_one_takes_the_place_of_one_that_has_gone(void **state)
{
    struct shape x;
    uint64_t gone;

    (void)state;
    open_worker(2, 1);
    x = make_shape(10);
    x.mix = register_sub("mix");
    x.callable[0] = register_chip(add_artefact);
    x.callable[1] = register_chip(subtract_artefact); /* both, before either has run */
    for (int i = 0; i < 5; i++) {
        gone = x.callable[0];
        run_shape(&x, twice_a);
        assert_int_equal(pto_worker_unregister(worker, gone), PTO_OK);
        x.callable[0] = register_chip(multiply_artefact);
        assert_true(x.callable[0] != gone);
        run_shape(&x, minus_and_times);
        assert_int_equal(pto_worker_unregister(worker, x.callable[0]), PTO_OK);
        x.callable[0] = gone;
        assert_int_equal(run(submit_shape, &x), PTO_EINVAL);
        x.callable[0] = register_chip(add_artefact);
    }
    close_worker();
}

/*
 * Functions for SUB workers as well are identified by the bytes of their objects, not by symbol,
 * name or build id.
 */
static void equal_symbols_of_two_objects_are_two_functions(void **state)
{
    static const char text[] = "#include <pto/worker.h>\n"
                               "int same(const struct pto_sub_call *c)\n"
                               "{ *(int *)pto_tensor_data(&c->tensor[0]) = VALUE; return 0; }\n";
    struct bytes object[2] = { compile(text, "-DVALUE=10" BUILD_ID),
                               compile(text, "-DVALUE=11" BUILD_ID) };
    struct one one = { .count = 1 };
    uint64_t callable[2];
    int *word;

    (void)state;
    assert_int_equal(object[0].size, object[1].size);
    open_worker(0, 2);
    word = make_numbers();
    one.tensor[0] = numbers(word);
    for (int i = 0; i < 2; i++)
        callable[i] = register_named(object[i], PTO_CHILD_SUB, "same", "same", 0);
    for (int i = 0; i < 8; i++) {
        one.callable = callable[i % 2];
        one.children = PTO_ON(i / 2 % 2);
        run_well(submit_one, &one);
        assert_int_equal(word[0], 10 + i % 2);
    }
    close_worker();
    free(object[0].at);
    free(object[1].at);
}

/* The maximum number of callables; one more is refused, and removing one makes room. */
static void there_is_room_for_so_many(void **state)
{
    static char text[FUNCTIONS * 128];
    static uint64_t callable[FUNCTIONS];
    struct pto_worker_callable params;
    struct pto_error error;
    struct bytes object;
    struct one one = { .count = 1 };
    uint64_t extra;
    size_t length = 0;
    char symbol[16];

    (void)state;
    length += (size_t)snprintf(text, sizeof(text), "#include <pto/worker.h>\n");
    for (int i = 0; i <= FUNCTIONS; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length,
                                   "int f%d(const struct pto_sub_call *c)\n"
                                   "{ *(int *)pto_tensor_data(&c->tensor[0]) = %d; return 0; }\n",
                                   i, i);
    object = compile(text, "-O0");
    open_worker(0, 1);
    one.tensor[0] = numbers(make_numbers());
    pto_error_init(&error);
    pto_worker_callable_init(&params);
    params.kind = PTO_CHILD_SUB;
    params.bytes = object.at;
    params.byte_count = object.size;
    params.symbol = symbol;
    params.error = &error;
    for (int i = 0; i < FUNCTIONS; i++) {
        snprintf(symbol, sizeof(symbol), "f%d", i);
        if (pto_worker_register(worker, &params, &callable[i]) < 0)
            fail_msg("%d: %s", i, error.text);
    }
    snprintf(symbol, sizeof(symbol), "f%d", FUNCTIONS);
    assert_int_equal(pto_worker_register(worker, &params, &extra), PTO_EAGAIN);
    assert_non_null(strstr(error.text, "1024"));
    for (int i = 0; i < FUNCTIONS; i += 341) {
        one.callable = callable[i];
        run_well(submit_one, &one);
        assert_int_equal(data(&one.tensor[0])[0], i);
    }
    assert_int_equal(pto_worker_unregister(worker, callable[500]), PTO_OK);
    assert_int_equal(pto_worker_register(worker, &params, &extra), PTO_OK);
    one.callable = extra;
    run_well(submit_one, &one);
    assert_int_equal(data(&one.tensor[0])[0], FUNCTIONS);
    one.callable = callable[500]; /* the same slot with another number */
    assert_int_equal(run(submit_one, &one), PTO_EINVAL);
    close_worker();
    free(object.at);
}

/* ---- graphs over chips and SUB workers ---- */

struct graph_shapes {
    uint64_t add, sum, meet;
    struct pto_tensor x[SHAPES], word;
};

static void add_to(struct pto_level *level, const struct graph_shapes *g, int child, int a, int b,
                   int to)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_add_input(&args, &g->x[a]);
    pto_add_input(&args, &g->x[b]);
    pto_add_output_existing(&args, &g->x[to]);
    (void)pto_level_submit(level, child < 2 ? g->add : g->sum, PTO_ON(child), &args);
}

/* A chain over all children, a diamond, a group, and a task that depends on the group. */
static void submit_graph(struct pto_level *level, void *context)
{
    const struct graph_shapes *g = context;
    const uint32_t subs[] = { 2, 3 };
    struct pto_args args[2];

    for (int i = 0; i < 4; i++)
        add_to(level, g, i, i % 2, 0, (i + 1) % 2); /* x1, x0, x1, x0 */
    add_to(level, g, 0, 0, 1, 2);                   /* both sides of a diamond */
    add_to(level, g, 1, 0, 1, 3);
    add_to(level, g, 2, 2, 3, 0);
    for (int i = 0; i < 2; i++) {
        pto_args_init(&args[i]);
        pto_args_add(&args[i], &g->word, PTO_TAG_NO_DEP);
        pto_add_input(&args[i], &g->x[0]);
        pto_add_inout(&args[i], &g->x[2 + i]);
        pto_add_scalar(&args[i], 2);
    }
    (void)pto_level_submit_group(level, g->meet, subs, args, 2, NULL);
    add_to(level, g, 3, 2, 3, 1); /* after both members */
}

static void graphs_over_chips_and_subs_give_their_golden(void **state)
{
    struct graph_shapes g;
    int *x[SHAPES];

    (void)state;
    open_worker(2, 2);
    g.add = register_chip(add_artefact);
    g.sum = register_sub("sum");
    g.meet = register_sub("meet");
    for (int i = 0; i < SHAPES; i++) {
        x[i] = make_numbers();
        g.x[i] = numbers(x[i]);
    }
    g.word = numbers(make_numbers());
    for (int round = 0; round < 20; round++) {
        data(&g.word)[0] = 0;
        fill(x[0], 1, round);
        fill(x[1], 2, 1);
        run_well(submit_graph, &g);
        for (int i = 0; i < COUNT; i++) {
            int a = i + round, b; /* x0, x1 */

            b = a + a;                              /* chip 0: x1 = x0 + x0 */
            a = b + a;                              /* chip 1: x0 = x1 + x0 */
            b = a + a;                              /* SUB 2 */
            a = b + a;                              /* SUB 3 */
            assert_int_equal(x[0][i], 2 * (a + b)); /* of both sides */
            assert_int_equal(x[1][i], 2 * (a + b));
        }
        assert_int_equal(run_report.done, 10);
    }
    close_worker();
}

/* ---- memory ---- */

/*
 * Returns the part, from the offset on, of the line in a process's memory map that has the address.
 */
static void find_mapping(pid_t pid, const void *addr, char out[256])
{
    char path[64], line[512];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    out[0] = '\0';
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned long begin, end;

        if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && (uintptr_t)addr >= begin &&
            (uintptr_t)addr < end)
            snprintf(out, 256, "%lx %.200s", begin, strchr(line, ' ') + 6);
    }
    fclose(file);
}

/*
 * Memory that is created later is the same file at the same address in all processes, so nothing is
 * copied.
 */
static void all_processes_have_the_same_pages(void **state)
{
    char own[256], other[256];
    struct one one = { .count = 1, .scalar = 7 };
    int *later;

    (void)state;
    open_worker(1, 1);
    one.callable = register_sub("mix");
    run_well(submit_one, &(struct one){ .callable = register_sub("empty") });
    later = make_numbers();
    one.tensor[0] = numbers(later);
    run_well(submit_one, &one);
    assert_int_equal(later[0], 7);
    find_mapping(getpid(), later, own);
    assert_non_null(strstr(own, "pto-worker"));
    for (uint32_t i = 0; i < 2; i++) {
        struct pto_child_info info;

        pto_child_info_init(&info);
        assert_int_equal(pto_worker_child(worker, i, &info), PTO_OK);
        find_mapping(info.pid, later, other);
        assert_string_equal(other, own); /* address, offset, device and inode */
    }
    close_worker();
}

/* ---- what is ordered ---- */

static uint32_t edges;

static bool count_edge(void *context, uint64_t before, uint64_t after)
{
    (void)context;
    (void)before;
    (void)after;
    edges++;
    return true;
}

struct conflict {
    uint64_t empty;
    struct pto_tensor t[4];
    enum pto_tag tag[4]; /* two edges of the first task, two of the second */
};

static void submit_conflict(struct pto_level *level, void *context)
{
    struct conflict *x = context;
    struct pto_args args;

    for (int i = 0; i < 2; i++) {
        pto_args_init(&args);
        pto_args_add(&args, &x->t[2 * i], x->tag[2 * i]);
        pto_args_add(&args, &x->t[2 * i + 1], x->tag[2 * i + 1]);
        (void)pto_level_submit(level, x->empty, 0, &args);
    }
}

static uint32_t count_edges(struct conflict *x)
{
    edges = 0;
    run_well(submit_conflict, x);
    return edges;
}

/*
 * A writer waits for an earlier reader. A task may read and write the same memory, in any order of
 * its arguments. Accesses to different memory are not ordered, however similar they are.
 */
static void conflicts_are_found_and_no_others(void **state)
{
    enum pto_tag in = PTO_TAG_INPUT, out = PTO_TAG_OUTPUT_EXISTING;
    const uint32_t half[] = { COUNT / 2 };
    struct pto_worker_params params;
    struct pto_tensor p, q, r;
    struct conflict x;
    int *numbers_of_p;

    (void)state;
    pto_worker_params_init(&params);
    params.chip_count = 0;
    params.sub_count = 1;
    params.memory_max = 1ull << 30;
    params.edge = count_edge;
    assert_int_equal(pto_worker_open(&params, &worker), PTO_OK);
    x.empty = register_sub("empty");
    numbers_of_p = make_numbers();
    p = numbers(numbers_of_p), q = numbers(make_numbers()), r = numbers(make_numbers());
    /* Write after read, read after write, write after write, read after read. */
    x = (struct conflict){ x.empty, { p, q, p, r }, { in, out, out, in } };
    assert_int_equal(count_edges(&x), 1);
    x = (struct conflict){ x.empty, { p, q, q, r }, { in, out, in, in } };
    assert_int_equal(count_edges(&x), 1);
    x = (struct conflict){ x.empty, { p, q, r, q }, { in, out, in, out } };
    assert_int_equal(count_edges(&x), 1);
    x = (struct conflict){ x.empty, { p, q, p, r }, { in, out, in, out } };
    assert_int_equal(count_edges(&x), 0);
    /*
     * An input and an output of one task overlap, in either order; the second task comes after it.
     */
    x = (struct conflict){ x.empty, { p, p, p, q }, { in, out, in, in } };
    assert_int_equal(count_edges(&x), 1);
    x = (struct conflict){ x.empty, { p, p, p, q }, { out, in, in, in } };
    assert_int_equal(count_edges(&x), 1);
    /* Halves of one array. */
    p = pto_tensor_external(numbers_of_p, half, 1, PTO_INT32);
    r = pto_tensor_external(numbers_of_p + COUNT / 2, half, 1, PTO_INT32);
    x = (struct conflict){ x.empty, { p, p, r, r }, { in, out, in, out } };
    assert_int_equal(count_edges(&x), 0);
    close_worker();
}

/* ---- many runs ahead ---- */

static void runs_can_be_launched_far_ahead(void **state)
{
    enum { RUNS = 64 };
    struct one held = { .count = 1 }, next = { .count = 1, .scalar = 1 };
    struct pto_worker_run *handle[RUNS + 1];
    int *word;

    (void)state;
    open_worker(0, 2);
    word = make_numbers();
    held.callable = register_sub("hold");
    held.tensor[0] = numbers(word);
    next.callable = register_sub("mix");
    next.tensor[0] = numbers(make_numbers());
    assert_int_equal(pto_worker_launch(worker, submit_one, &held, &handle[RUNS]), PTO_OK);
    next.count = 2; /* all wait for the first, and for each other */
    next.tensor[1] = next.tensor[0];
    next.tensor[0] = held.tensor[0];
    for (int i = 0; i < RUNS; i++)
        assert_int_equal(pto_worker_launch(worker, submit_one, &next, &handle[i]), PTO_OK);
    assert_int_equal(pto_worker_run_wait(handle[RUNS - 1], 1), PTO_ETIMEOUT);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    for (int i = 0; i <= RUNS; i++) {
        assert_int_equal(pto_worker_run_wait(handle[i], 0), PTO_OK);
        assert_int_equal(pto_worker_run_finish(handle[i], NULL), PTO_OK);
    }
    close_worker();
}

/* ---- all of it ---- */

static int set_up_all(void **state)
{
    if (set_up(state) != 0)
        return -1;
    /* All names in them are equal, and so are the build ids. */
    add_artefact = keep(artefact_of(ADD BUILD_ID));
    subtract_artefact = keep(artefact_of(SUBTRACT BUILD_ID));
    multiply_artefact = keep(artefact_of("'-DOP=*' -DTAG=3" BUILD_ID));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_callables_on_two_chips),
        TEST(they_alternate_on_two_chips_from_two_threads),
        TEST(they_alternate_on_one_chip_from_two_threads),
        TEST(another_one_takes_the_place_of_one_that_has_gone),
        TEST(equal_symbols_of_two_objects_are_two_functions),
        TEST(there_is_room_for_so_many),
        TEST(graphs_over_chips_and_subs_give_their_golden),
        TEST(all_processes_have_the_same_pages),
        TEST(conflicts_are_found_and_no_others),
        TEST(runs_can_be_launched_far_ahead),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up_all, tear_down);
}
