/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging of arguments by the signature. A kernel stores what it finds in its three tensors, and
 * their addresses, and then fills the tensors, so that each copy that is made and each that is not
 * can be detected.
 */
#include "tests/fixture/artefact_test.h"

enum { N = 8, TENSORS = 3 };

/* Scalar 0: the address of a struct seen. Scalar 1: the value to write; 0: writes nothing. */
static const char probe_text[] = "#include <pto/kernel.h>\n"
                                 "struct seen { uint64_t addr[3]; int value[3]; int *beside; };\n"
                                 "void kernel_entry(int64_t *args)\n"
                                 "{\n"
                                 "    struct seen *seen = (struct seen *)args[3];\n"
                                 "    if (seen->beside != 0)\n"
                                 "        *seen->beside = 5555;\n"
                                 "    for (int i = 0; i < 3; i++) {\n"
                                 "        struct pto_tensor *t = pto_arg_tensor(args, i);\n"
                                 "        int *at = (int *)pto_tensor_data(t);\n"
                                 "        seen->addr[i] = t->addr;\n"
                                 "        seen->value[i] = t->addr != 0 ? at[0] : -1;\n"
                                 "        if (t->addr != 0 && args[4] != 0)\n"
                                 "            for (uint32_t k = 0; k < t->shapes[0]; k++)\n"
                                 "                at[k * t->strides[0]] = (int)args[4] + i;\n"
                                 "    }\n"
                                 "}\n";
static const char probe_orchestration_text[] =
    "#include <pto/orch.h>\n"
    "void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{\n"
    "    pto_aiv(o, 0, PTO_AFTER(&e->tensor[0]), PTO_AFTER(&e->tensor[1]),\n"
    "            PTO_AFTER(&e->tensor[2]), PTO_PASS(0), PTO_PASS(1));\n"
    "    if (e->scalar_count == 3)\n"
    "        o->ops->report(o, -9, \"on purpose\");\n"
    "}\n";

struct seen {
    uint64_t addr[TENSORS];
    int value[TENSORS];
    int *beside; /* word on the host that another device might write during the run */
};

static struct recipe probe;
static struct pto_device *device;
static struct seen seen;
static int data[TENSORS][N];
static struct pto_tensor tensor[TENSORS];

static int begin(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    probe.orchestration_bytes = compile(probe_orchestration_text, "");
    probe.kernel_bytes = compile(probe_text, "");
    probe.kernel = (struct artefact_kernel){ 0, PTO_CORE_AIV, "probe", probe.kernel_bytes.at,
                                             probe.kernel_bytes.size };
    probe.parts = (struct artefact_parts){ .name = "probe",
                                           .platform = "a2a3sim",
                                           .orchestration = probe.orchestration_bytes.at,
                                           .orchestration_size = probe.orchestration_bytes.size,
                                           .kernel_count = 1 };
    device = open_device("a2a3sim", 0, 1);
    return 0;
}

static int end(void **state)
{
    assert_int_equal(pto_device_close(device), PTO_OK);
    free_recipe(&probe);
    return remove_folder(state);
}

static struct pto_callable *load_signature(const enum pto_direction *signature, uint32_t count)
{
    struct recipe recipe = probe;

    recipe.parts.signature = signature;
    recipe.parts.signature_count = count;
    return load_recipe(&recipe);
}

/* Three tensors that hold the values 10, 20 and 30. */
static void fill_data(void)
{
    const uint32_t shape[] = { N };

    memset(&seen, 0, sizeof(seen));
    for (int i = 0; i < TENSORS; i++) {
        for (int k = 0; k < N; k++)
            data[i][k] = 10 * (i + 1);
        tensor[i] = pto_tensor_external(data[i], shape, 1, PTO_INT32);
    }
}

static int run_probe(struct pto_callable *callable, int value, bool has_failed)
{
    const uint64_t scalar[] = { (uint64_t)(uintptr_t)&seen, (uint64_t)value, 0 };
    const struct pto_entry entry = { TENSORS, has_failed ? 3 : 2, tensor, scalar };

    pto_run_report_init(&report);
    return pto_run(device, callable, &entry, NULL, &report);
}

static void probe_once(const enum pto_direction *signature, uint32_t count, int value)
{
    struct pto_callable *callable = load_signature(signature, count);

    if (run_probe(callable, value, false) < 0)
        fail_msg("%s", report.error.text);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

static bool is_on_host(uint64_t addr)
{
    uint64_t begin = (uint64_t)(uintptr_t)data;

    return addr >= begin && addr < begin + sizeof(data);
}

static const enum pto_direction all_in[] = { PTO_DIR_IN, PTO_DIR_IN, PTO_DIR_IN };
static const enum pto_direction all_out[] = { PTO_DIR_OUT, PTO_DIR_OUT, PTO_DIR_OUT };
static const enum pto_direction all_inout[] = { PTO_DIR_INOUT, PTO_DIR_INOUT, PTO_DIR_INOUT };

static void without_a_signature_the_callers_memory_is_used(void **state)
{
    (void)state;
    fill_data();
    probe_once(NULL, 0, 100);
    for (int i = 0; i < TENSORS; i++) {
        assert_true(seen.addr[i] == (uint64_t)(uintptr_t)data[i]);
        assert_int_equal(data[i][N - 1], 100 + i);
    }
}

static void slices_are_aligned_and_apart(void **state)
{
    (void)state;
    fill_data();
    probe_once(all_in, 3, 0);
    for (int i = 0; i < TENSORS; i++) {
        assert_false(is_on_host(seen.addr[i]));
        assert_int_equal(seen.addr[i] % 1024, 0);
        for (int k = 0; k < i; k++)
            assert_true(seen.addr[i] != seen.addr[k]);
    }
}

static void inputs_are_copied_there_and_not_back(void **state)
{
    (void)state;
    fill_data();
    probe_once(all_in, 3, 500);
    for (int i = 0; i < TENSORS; i++) {
        assert_int_equal(seen.value[i], 10 * (i + 1));
        assert_int_equal(data[i][0], 10 * (i + 1)); /* though the kernel wrote there */
    }
}

/* The device keeps this memory from run to run, so an output finds the content of the first run. */
static void outputs_are_copied_back_and_not_there(void **state)
{
    struct pto_callable *callable = load_signature(all_out, 3);

    (void)state;
    fill_data();
    assert_int_equal(run_probe(callable, 700, false), PTO_OK);
    for (int i = 0; i < TENSORS; i++)
        assert_int_equal(data[i][N - 1], 700 + i);
    fill_data();
    assert_int_equal(run_probe(callable, 0, false), PTO_OK);
    for (int i = 0; i < TENSORS; i++) {
        assert_int_equal(seen.value[i], 700 + i);
        assert_int_equal(data[i][0], 700 + i);
    }
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

static void what_is_both_is_copied_both_ways(void **state)
{
    (void)state;
    fill_data();
    probe_once(all_inout, 3, 300);
    for (int i = 0; i < TENSORS; i++) {
        assert_int_equal(seen.value[i], 10 * (i + 1));
        assert_int_equal(data[i][N - 1], 300 + i);
    }
}

/* Arguments that the signature does not name are treated as read and written. */
static void what_is_not_named_is_copied_both_ways(void **state)
{
    static const enum pto_direction one[] = { PTO_DIR_IN, PTO_DIR_SCALAR };

    (void)state;
    fill_data();
    probe_once(one, 2, 400);
    assert_int_equal(data[0][0], 10);
    for (int i = 1; i < TENSORS; i++) {
        assert_int_equal(seen.value[i], 10 * (i + 1));
        assert_int_equal(data[i][N - 1], 400 + i);
    }
}

/*
 * Scalars may be anywhere in a signature: tensors have the directions of the other entries, in
 * order.
 */
static void scalars_shift_no_direction(void **state)
{
    static const enum pto_direction mixed[] = { PTO_DIR_SCALAR, PTO_DIR_IN, PTO_DIR_INOUT,
                                                PTO_DIR_SCALAR, PTO_DIR_OUT };

    (void)state;
    fill_data();
    probe_once(mixed, 5, 400);
    assert_int_equal(data[0][0], 10);
    for (int i = 1; i < TENSORS; i++)
        assert_int_equal(data[i][N - 1], 400 + i);
    for (int i = 0; i < 2; i++)
        assert_int_equal(seen.value[i], 10 * (i + 1));
    assert_int_not_equal(seen.value[2], 30);
}

static void nothing_comes_back_from_a_failed_run(void **state)
{
    struct pto_callable *callable = load_signature(all_inout, 3);

    (void)state;
    fill_data();
    assert_refused(run_probe(callable, 600, true), PTO_EORCH, "on purpose");
    for (int i = 0; i < TENSORS; i++)
        assert_int_equal(data[i][0], 10 * (i + 1));
    assert_int_equal(run_probe(callable, 600, false), PTO_OK);
    assert_int_equal(data[0][0], 600);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

static void a_tensor_without_bytes_has_the_address_0(void **state)
{
    struct pto_callable *callable = load_signature(all_inout, 3);

    (void)state;
    fill_data();
    tensor[1] = pto_tensor_external(data[1], (const uint32_t[]){ 0 }, 1, PTO_INT32);
    assert_int_equal(tensor[1].size, 0);
    assert_int_equal(run_probe(callable, 0, false), PTO_OK);
    assert_int_equal(seen.addr[1], 0);
    assert_int_not_equal(seen.addr[0], 0);
    tensor[2].addr = 0; /* nor is an address made up for a tensor that has none */
    assert_refused(run_probe(callable, 0, false), PTO_EARGS, "argument 2 has no storage");
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

static void device_memory_stays_where_it_is(void **state)
{
    uint64_t addr;
    int value[N] = { 77 };

    (void)state;
    fill_data();
    assert_int_equal(pto_mem_alloc(device, sizeof(data[0]) + 64, &addr), PTO_OK);
    assert_int_equal(pto_mem_write(device, addr + 64, value, sizeof(value)), PTO_OK);
    tensor[0].addr = addr + 64;         /* recognised by its address */
    tensor[1].space = PTO_SPACE_DEVICE; /* or marked as such by the caller */
    probe_once(all_in, 3, 800);
    assert_true(seen.addr[0] == addr + 64);
    assert_int_equal(seen.value[0], 77);
    assert_true(seen.addr[1] == (uint64_t)(uintptr_t)data[1]);
    assert_int_equal(data[1][0], 801);
    assert_int_equal(data[2][0], 30);
    assert_int_equal(pto_mem_read(device, addr + 64, value, sizeof(value)), PTO_OK);
    assert_int_equal(value[N - 1], 800);
    assert_int_equal(pto_mem_free(device, addr, NULL), PTO_OK);
}

/* The view has every other element: elements in between keep their values. */
static void a_part_of_a_buffer_leaves_the_rest_alone(void **state)
{
    (void)state;
    fill_data();
    for (int k = 0; k < N; k++)
        data[0][k] = 1000 + k;
    tensor[0] = pto_tensor_slice(&tensor[0], 0, 1, N, 2);
    assert_int_equal(tensor[0].strides[0], 2);
    probe_once(all_out, 3, 900);
    for (int k = 0; k < N; k++)
        assert_int_equal(data[0][k], k % 2 == 1 ? 900 : 1000 + k);
}

/* Another device may write to the rest of the buffer during the run. */
static void a_part_of_a_buffer_comes_back_alone(void **state)
{
    (void)state;
    for (int other = 0; other < N; other += N - 1) { /* before the view, and after it */
        fill_data();
        tensor[0] = pto_tensor_slice(&tensor[0], 0, 1, N - 1, 1);
        seen.beside = &data[0][other];
        probe_once(all_inout, 3, 200);
        for (int k = 1; k < N - 1; k++)
            assert_int_equal(data[0][k], 200);
        assert_int_equal(data[0][other], 5555);
        assert_int_equal(data[0][N - 1 - other], 10);
    }
}

/* The same for memory between elements: rows in one dimension, then single elements in two. */
static void what_is_between_elements_does_not_come_back(void **state)
{
    const uint32_t shape[] = { 2, 4 };

    (void)state;
    fill_data();
    tensor[0] = pto_tensor_external(data[0], shape, 2, PTO_INT32);
    tensor[0] = pto_tensor_slice(&tensor[0], 1, 1, 3, 1); /* elements 1, 2 and 5, 6 */
    tensor[1] = pto_tensor_slice(&tensor[1], 0, 1, N, 3); /* elements 1, 4, 7 */
    seen.beside = &data[0][3];
    probe_once(all_inout, 3, 200);
    assert_int_equal(data[0][1], 200); /* the kernel writes two elements, four apart */
    assert_int_equal(data[0][5], 200);
    assert_int_equal(data[0][2], 10);
    assert_int_equal(data[0][3], 5555);
    fill_data();
    tensor[1] = pto_tensor_slice(&tensor[1], 0, 1, N, 3);
    seen.beside = &data[1][5];
    probe_once(all_inout, 3, 200);
    for (int k = 0; k < N; k++)
        assert_int_equal(data[1][k], k == 5 ? 5555 : k % 3 == 1 ? 201 : 20);
}

/* Tensors of one buffer have the same distance on the device as on the host. */
static void tensors_that_share_bytes_share_them(void **state)
{
    static const enum pto_direction mixed[] = { PTO_DIR_IN, PTO_DIR_INOUT, PTO_DIR_OUT };
    const uint32_t shape[] = { N / 2 };

    (void)state;
    fill_data();
    tensor[0] = pto_tensor_external(data[1], (const uint32_t[]){ N }, 1, PTO_INT32);
    tensor[1] = pto_tensor_external(&data[1][2], shape, 1, PTO_INT32);
    tensor[2] = pto_tensor_external(data[1], (const uint32_t[]){ N }, 1, PTO_INT32);
    probe_once(mixed, 3, 0);
    assert_true(seen.addr[0] == seen.addr[2]);
    assert_int_equal(seen.addr[1] - seen.addr[0], 2 * sizeof(int));
    assert_int_equal(seen.value[2], 20); /* the input has the same memory */
    tensor[2] = tensor[0] = pto_tensor_external(data[0], (const uint32_t[]){ 4 }, 1, PTO_INT32);
    probe_once(mixed, 3, 50);
    assert_int_equal(data[0][0], 52); /* the value that the kernel wrote last */
    assert_int_equal(data[0][4], 10);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    struct pto_callable *callable = load_signature(all_inout, 3);

    (void)state;
    fill_data();
    tensor[1].size = UINT64_MAX - 5;
    assert_refused(run_probe(callable, 1, false), PTO_EINVAL, "tensor 1 of the entry cannot have");
    fill_data();
    tensor[1].size = 1ull << 45;
    if (!IS_SANITIZED) /* skipped: allocators of sanitizers end the program */
        assert_refused(run_probe(callable, 1, false), PTO_ENOMEM,
                       "no memory for the entry's tensors");
    fill_data();
    assert_int_equal(run_probe(callable, 1, false), PTO_OK);
    assert_int_equal(data[1][0], 2);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

/* Launches of a graph have their tensors staged, each launch its own. */
static void a_graph_is_launched_with_staged_tensors(void **state)
{
    static int other[4][64 * 1024];
    const uint64_t scalar[] = { (uint64_t)(uintptr_t)&seen, 40 };
    const struct pto_entry entry = { TENSORS, 2, tensor, scalar };
    struct pto_callable *callable = load_signature(all_inout, 3);
    struct pto_graph *graph;
    struct pto_run *run;

    (void)state;
    fill_data();
    assert_int_equal(pto_graph_build(device, callable, &entry, NULL, NULL, &graph), PTO_OK);
    assert_int_equal(data[0][0], 10); /* nothing has run */
    for (int round = 0; round < 4; round++) {
        struct pto_callable *large = load_signature(all_inout, 3);

        fill_data();
        for (int k = 0; k < N; k++)
            other[round][k] = 90 + round;
        tensor[1].addr = (uint64_t)(uintptr_t)other[round];
        assert_int_equal(pto_graph_run(graph, &entry, NULL, NULL), PTO_OK);
        assert_int_equal(seen.value[0], 10);
        assert_int_equal(seen.value[1], 90 + round);
        assert_int_equal(other[round][N - 1], 41);
        assert_int_equal(data[2][0], 42);
        tensor[0] = pto_tensor_external(other[3], (const uint32_t[]){ 16384u << round }, 1,
                                        PTO_INT8); /* the memory is replaced by a larger one */
        assert_int_equal(run_probe(large, 0, false), PTO_OK);
        assert_int_equal(pto_callable_destroy(large), PTO_OK);
    }
    fill_data();
    assert_int_equal(pto_graph_prepare(graph, &entry, NULL, &run), PTO_OK);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    assert_int_equal(data[1][0], 41);
    tensor[2] = tensor[1]; /* they did not overlap when the graph was built */
    pto_run_report_init(&report);
    assert_refused(pto_graph_run(graph, &entry, NULL, &report), PTO_EGRAPH, "overlap");
    assert_int_equal(data[1][0], 41);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_signature_the_callers_memory_is_used),
        TEST(slices_are_aligned_and_apart),
        TEST(inputs_are_copied_there_and_not_back),
        TEST(outputs_are_copied_back_and_not_there),
        TEST(what_is_both_is_copied_both_ways),
        TEST(what_is_not_named_is_copied_both_ways),
        TEST(scalars_shift_no_direction),
        TEST(nothing_comes_back_from_a_failed_run),
        TEST(a_tensor_without_bytes_has_the_address_0),
        TEST(device_memory_stays_where_it_is),
        TEST(a_part_of_a_buffer_leaves_the_rest_alone),
        TEST(a_part_of_a_buffer_comes_back_alone),
        TEST(what_is_between_elements_does_not_come_back),
        TEST(tensors_that_share_bytes_share_them),
        TEST(sizes_that_cannot_be_are_refused),
        TEST(a_graph_is_launched_with_staged_tensors),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
