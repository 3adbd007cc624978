/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph builder, step by step: submits, allocations, scopes, and tasks that the test completes
 * one by one. Each state in between is checked; each refusal occurs once.
 */
#include "tests/fixture/port_test.h"

enum { MANY_PREDECESSORS = 10000, GRAPH_KIB = 1024 };

#define EXTENTS(...) ((const uint32_t[]){ __VA_ARGS__ })

static struct pto_tensor outside(uint32_t index)
{
    uintptr_t addr = 0x200000000ull + 4096ull * index;

    return pto_tensor_external((void *)addr, EXTENTS(16), 1, PTO_FLOAT32);
}

static struct pto_tensor_info floats(uint32_t count)
{
    return pto_tensor_info_make(EXTENTS(count), 1, PTO_FLOAT32);
}

/* A task without arguments. */
static struct pto_task_id submit_empty(struct rig *rig)
{
    struct pto_args args;
    struct pto_outputs out;

    pto_args_init(&args);
    rig_submit(rig, &args, &out);
    return out.task;
}

static struct pto_task_id submit_one(struct rig *rig, const struct pto_tensor *t, enum pto_tag tag)
{
    struct pto_args args;
    struct pto_outputs out;

    pto_args_init(&args);
    pto_args_add(&args, t, tag);
    rig_submit(rig, &args, &out);
    return out.task;
}

static struct pto_task_id submit_after(struct rig *rig, const struct pto_task_id *deps,
                                       const uint8_t *kinds, uint32_t count)
{
    struct pto_args args;
    struct pto_outputs out;

    pto_args_init(&args);
    pto_set_deps(&args, deps, kinds, count);
    rig_submit(rig, &args, &out);
    return out.task;
}

/* A task with one output of this many KiB. */
static struct pto_outputs submit_output(struct rig *rig, uint32_t kib)
{
    struct pto_tensor_info info = floats(kib * (GRAPH_KIB / 4));
    struct pto_args args;
    struct pto_outputs out;

    pto_args_init(&args);
    pto_add_output(&args, &info);
    rig_submit(rig, &args, &out);
    return out;
}

static struct pto_outputs alloc_output(struct rig *rig, uint32_t kib)
{
    struct pto_tensor_info info = floats(kib * (GRAPH_KIB / 4));
    struct pto_args args;
    struct pto_outputs out;

    pto_args_init(&args);
    pto_add_output(&args, &info);
    assert_int_equal(graph_alloc(&rig->g, &args, &out), PTO_OK);
    return out;
}

static void begin(struct rig *rig, enum pto_scope_mode mode)
{
    assert_int_equal(graph_scope_begin(&rig->g, mode, NULL), PTO_OK);
}

static void end(struct rig *rig)
{
    assert_int_equal(graph_scope_end(&rig->g), PTO_OK);
}

/* Whether a new output gets this memory; the output is released at once. */
static bool is_free(struct rig *rig, uint64_t addr, uint32_t kib)
{
    bool is_same;

    begin(rig, PTO_SCOPE_MANUAL);
    is_same = alloc_output(rig, kib).tensor[0].addr == addr;
    end(rig);
    return is_same;
}

static bool has_edge(const struct rig *rig, uint64_t before, uint64_t after)
{
    for (uint64_t i = 0; i < rig->edge_count; i++)
        if (rig->edge[i].before == before && rig->edge[i].after == after)
            return true;
    return false;
}

/* ---- ids and slots ---- */

static void ids_count_in_the_ring_of_their_scope(void **state)
{
    static const uint32_t ring_of_depth[6] = { 0, 1, 2, 3, 3, 3 };
    static const uint32_t local_of_depth[6] = { 0, 0, 0, 0, 2, 4 };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);

    (void)state;
    for (uint32_t depth = 0; depth < 6; depth++) {
        struct pto_task_id a = submit_empty(rig);
        struct pto_task_id b = alloc_output(rig, 1).task; /* has an id, too */

        assert_int_equal(pto_task_id_ring(a), ring_of_depth[depth]);
        assert_int_equal(pto_task_id_local(a), local_of_depth[depth]);
        assert_true(b.raw == a.raw + 1);
        begin(rig, PTO_SCOPE_AUTO);
    }
    for (uint32_t depth = 0; depth < 6; depth++)
        end(rig);
    assert_true(submit_empty(rig).raw == pto_task_id_make(0, 2).raw); /* goes on */
    begin(rig, PTO_SCOPE_AUTO);
    assert_true(submit_empty(rig).raw == pto_task_id_make(1, 2).raw);
    rig_close(rig);
}

static void an_id_that_lives_long_is_found_among_many(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_task_id first = submit_empty(rig), kept, last;
    uint32_t slot = rig_slot(rig, first)->number;

    (void)state;
    /* not in the memory of a slot: its block lives as long as the scope */
    kept = alloc_output(rig, 1).task;
    for (uint32_t i = 0; i < 5000; i++)
        rig_complete(rig, submit_empty(rig));
    assert_int_equal(rig_slot(rig, first)->number, slot);
    assert_true(ids_find(&rig->g, kept) != NULL);
    last = submit_after(rig, &first, NULL, 1);
    assert_int_equal(rig->edge_count, 1);
    assert_int_equal(rig_complete(rig, first), 1);
    rig_complete(rig, last);
    rig_close(rig);
}

static void the_slot_that_came_back_last_is_taken_first(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_task_id id[3];
    struct pto_tensor t[20];
    struct pto_args args;
    struct pto_outputs out;
    uint32_t slot[3];

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        id[i] = submit_empty(rig);
    for (uint32_t i = 0; i < 3; i++)
        slot[i] = rig_slot(rig, id[i])->number;
    rig_complete(rig, id[1]);
    rig_complete(rig, id[0]);
    pto_args_init(&args);
    for (uint32_t i = 0; i < 20; i++) {
        t[i] = outside(i);
        pto_add_input(&args, &t[i]);
    }
    rig_submit(rig, &args, &out); /* too large for these blocks */
    assert_true(rig_slot(rig, out.task)->number != slot[0]);
    assert_true(rig_slot(rig, out.task)->number != slot[1]);
    assert_int_equal(rig_slot(rig, submit_empty(rig))->number, slot[0]);
    assert_int_equal(rig_slot(rig, submit_empty(rig))->number, slot[1]);
    rig_close(rig);
}

static void retiring_the_last_task_forgets_all(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_task_id a = submit_empty(rig), b = submit_empty(rig);
    struct ref gone = { rig_slot(rig, a)->number, 1 };

    (void)state;
    assert_int_equal(rig->g.live, 2);
    assert_true(graph_is_alive(&rig->g, gone));
    rig_complete(rig, a);
    assert_false(graph_is_alive(&rig->g, gone));
    assert_int_equal(rig->g.live, 1);
    assert_int_equal(rig->g.regions.dead_before, 1);
    rig_complete(rig, b);
    assert_int_equal(rig->g.live, 0);
    assert_int_equal(rig->g.regions.dead_before, rig->g.seq);
    rig_close(rig);
}

static void a_slot_holds_thirty_two_tensors_and_sixteen_scalars(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t[PTO_TASK_TENSORS_MAX];
    static const struct pto_site site = { "here", 5 };
    struct pto_args args;
    struct pto_outputs out;
    struct slot *s;

    (void)state;
    pto_args_init(&args);
    for (uint32_t i = 0; i < PTO_TASK_TENSORS_MAX; i++) {
        t[i] = outside(i);
        pto_add_inout(&args, &t[i]);
    }
    for (uint32_t i = 0; i < PTO_TASK_SCALARS_MAX; i++)
        pto_add_scalar(&args, 1000 + i);
    assert_int_equal(graph_submit(&rig->g, &rig_aiv, &args, &site, &out, &s), PTO_OK);
    assert_ptr_equal(s, rig_slot(rig, out.task));
    assert_int_equal(out.task.raw, 0);
    assert_int_equal(s->tensor_count, 32);
    assert_int_equal(s->scalar_count, 16);
    assert_int_equal(s->lanes, SLOT_LANE_AIV0);
    assert_int_equal(s->kernel[0], RIG_KERNEL_AIV);
    assert_int_equal(s->core_type, PTO_CORE_AIV);
    assert_int_equal(s->block_count, 1);
    assert_ptr_equal(s->site, &site);
    for (uint32_t i = 0; i < PTO_TASK_TENSORS_MAX; i++)
        assert_same_view(&s->tensor[i], &t[i], PTO_TAG_INOUT);
    for (uint32_t i = 0; i < PTO_TASK_SCALARS_MAX; i++)
        assert_int_equal(slot_scalars(s)[i], 1000 + i);
    pto_args_init(&args);
    pto_add_scalar(&args, 77);
    rig_submit(rig, &args, &out);
    assert_int_equal(rig_slot(rig, out.task)->scalar, 77);
    rig_close(rig);
}

static void lanes_choose_kernel_and_core_type(void **state)
{
    static const struct {
        struct pto_kernels kernels;
        uint32_t lanes, kernel, core_type;
    } want[] = { { { RIG_KERNEL_AIC, -1, -1 }, SLOT_LANE_AIC, RIG_KERNEL_AIC, PTO_CORE_AIC },
                 { { -1, RIG_KERNEL_AIV, -1 }, SLOT_LANE_AIV0, RIG_KERNEL_AIV, PTO_CORE_AIV },
                 { { -1, -1, RIG_KERNEL_AIV }, SLOT_LANE_AIV0, RIG_KERNEL_AIV, PTO_CORE_AIV } };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    const struct pto_kernels dummy = { -1, -1, -1 };
    struct pto_args args;
    struct pto_outputs out;
    struct slot *s;

    (void)state;
    pto_args_init(&args);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(graph_submit(&rig->g, &want[i].kernels, &args, NULL, &out, &s), PTO_OK);
        assert_int_equal(s->lanes, want[i].lanes);
        assert_int_equal(s->kernel[0], want[i].kernel);
        assert_int_equal(s->core_type, want[i].core_type);
    }
    assert_int_equal(graph_submit(&rig->g, &dummy, &args, NULL, &out, &s), PTO_OK);
    assert_int_equal(s->lanes, 0);
    rig_close(rig);
}

/* ---- outputs ---- */

static void outputs_are_rounded_up_and_packed_in_order(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor_info info[3] = { floats(1), floats(256), floats(257) };
    struct pto_tensor in = outside(0), io = outside(1);
    struct pto_args args;
    struct pto_outputs out;
    struct slot *s;

    (void)state;
    info[1].manual_dep = true;
    info[2].version = 3;
    pto_args_init(&args);
    pto_add_output(&args, &info[0]);
    pto_add_input(&args, &in);
    pto_add_output(&args, &info[1]);
    pto_add_inout(&args, &io);
    pto_add_output(&args, &info[2]);
    rig_submit(rig, &args, &out);
    assert_int_equal(out.count, 3);
    assert_int_equal(out.tensor[0].addr % 1024, 0);
    assert_int_equal(out.tensor[0].size, 1024);
    assert_true(out.tensor[1].addr == out.tensor[0].addr + 1024);
    assert_int_equal(out.tensor[1].size, 1024);
    assert_true(out.tensor[2].addr == out.tensor[1].addr + 1024);
    assert_int_equal(out.tensor[2].size, 2048);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(out.tensor[i].owner.raw == out.task.raw);
        assert_int_equal(out.tensor[i].space, PTO_SPACE_DEVICE);
        assert_true(out.tensor[i].is_contiguous);
        assert_int_equal(out.tensor[i].start, 0);
        assert_int_equal(out.tensor[i].manual_dep, i == 1);
        assert_int_equal(out.tensor[i].version, i == 2 ? 3 : 0);
    }
    assert_int_equal(out.tensor[2].extent, 257);
    s = rig_slot(rig, out.task);
    assert_same_view(&s->tensor[0], &out.tensor[0], PTO_TAG_OUTPUT);
    assert_same_view(&s->tensor[1], &in, PTO_TAG_INPUT);
    assert_same_view(&s->tensor[2], &out.tensor[1], PTO_TAG_OUTPUT);
    assert_same_view(&s->tensor[3], &io, PTO_TAG_INOUT);
    assert_same_view(&s->tensor[4], &out.tensor[2], PTO_TAG_OUTPUT);
    rig_close(rig);
}

static void descriptors_stay_until_their_scope_ends(void **state)
{
    enum { TASKS = 300 };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    static const struct pto_tensor *kept[TASKS];
    static struct pto_tensor copy[TASKS][3];
    struct pto_tensor_info info = floats(4);
    struct pto_outputs out;
    struct pto_args args;

    (void)state;
    for (uint32_t i = 0; i < TASKS; i++) {
        pto_args_init(&args);
        for (uint32_t k = 0; k <= i % 3; k++)
            pto_add_output(&args, &info);
        rig_submit(rig, &args, &out);
        kept[i] = out.tensor;
        memcpy(copy[i], out.tensor, out.count * sizeof(copy[0][0]));
        if (i % 7 == 0) { /* inner scopes do not affect them */
            begin(rig, PTO_SCOPE_AUTO);
            for (uint32_t k = 0; k < 70; k++)
                alloc_output(rig, 1);
            end(rig);
        }
        rig_complete(rig, out.task);
    }
    for (uint32_t i = 0; i < TASKS; i++)
        assert_memory_equal(kept[i], copy[i], (i % 3 + 1) * sizeof(copy[0][0]));
    rig_close(rig);
}

static void an_initial_value_fills_the_padded_buffer(void **state)
{
    static const uint8_t types[4] = { PTO_INT8, PTO_FLOAT16, PTO_INT32, PTO_INT64 };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    uint64_t value = 0x8877665544332211ull;

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t e = pto_dtype_size(types[i]);
        struct pto_tensor_info info = pto_tensor_info_make(EXTENTS(3, 100), 2, types[i]);
        struct pto_tensor_info plain = floats(1);
        struct pto_args args;
        struct pto_outputs out;
        const char *bytes;

        pto_tensor_info_fill(&info, value);
        pto_args_init(&args);
        pto_add_output(&args, &plain);
        pto_add_output(&args, &info);
        pto_add_output(&args, &plain);
        assert_int_equal(graph_alloc(&rig->g, &args, &out), PTO_OK);
        assert_int_equal(out.tensor[1].size, (300 * e + 1023) / 1024 * 1024);
        bytes = pto_tensor_data(&out.tensor[1]);
        for (uint64_t at = 0; at < out.tensor[1].size; at += e)
            assert_memory_equal(bytes + at, &value, e);
        assert_int_equal(*(const char *)pto_tensor_data(&out.tensor[0]), 0); /* nothing else */
        assert_int_equal(*(const char *)pto_tensor_data(&out.tensor[2]), 0);
    }
    rig_close(rig);
}

static void an_empty_output_has_no_byte_to_fill(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor_info one = floats(256), none = floats(0);
    struct pto_tensor kept;
    struct pto_args args;
    struct pto_outputs out;
    uint64_t addr;

    (void)state;
    begin(rig, PTO_SCOPE_AUTO);
    addr = alloc_output(rig, 1).tensor[0].addr;
    kept = alloc_output(rig, 1).tensor[0]; /* right behind */
    assert_true(kept.addr == addr + 1024);
    submit_one(rig, &kept, PTO_TAG_INPUT);
    end(rig);
    *(uint32_t *)pto_tensor_data(&kept) = 5;
    pto_tensor_info_fill(&one, 1);
    pto_tensor_info_fill(&none, 7);
    pto_args_init(&args);
    pto_add_output(&args, &one);
    pto_add_output(&args, &none);
    assert_int_equal(graph_alloc(&rig->g, &args, &out), PTO_OK);
    assert_true(out.tensor[0].addr == addr);
    assert_int_equal(out.tensor[1].size, 0);
    assert_int_equal(*(uint32_t *)pto_tensor_data(&kept), 5);
    rig_close(rig);
}

static void an_output_is_recorded_as_a_write(void **state)
{
    (void)state;
    for (int deps = PTO_DEPS_SAFE; deps <= PTO_DEPS_SIMPLER; deps++) {
        struct rig *rig = rig_open((enum pto_deps)deps);
        struct pto_outputs out = submit_output(rig, 1);
        struct pto_tensor t = out.tensor[0];

        submit_one(rig, &t, PTO_TAG_NO_DEP); /* it nevertheless waits for the creator */
        assert_true(has_edge(rig, 0, 1));
        t.manual_dep = true;
        submit_one(rig, &t, PTO_TAG_INPUT);
        assert_true(has_edge(rig, 0, 2));
        t.manual_dep = false;
        t.owner = pto_task_id_invalid();
        submit_one(rig, &t, PTO_TAG_INPUT); /* only the record is left */
        assert_int_equal(has_edge(rig, 0, 3), deps == PTO_DEPS_SAFE);
        rig_close(rig);
    }
}

/* ---- lifetimes ---- */

static void memory_is_reused_when_scope_task_and_users_are_done(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_outputs out;
    struct pto_tensor t, half;
    struct pto_task_id creator, user[3];

    (void)state;
    begin(rig, PTO_SCOPE_AUTO);
    out = submit_output(rig, 3);
    creator = out.task;
    t = out.tensor[0];
    half = pto_tensor_view(&t, EXTENTS(10), EXTENTS(5));
    user[0] = submit_one(rig, &t, PTO_TAG_INPUT);
    user[1] = submit_one(rig, &half, PTO_TAG_NO_DEP);
    begin(rig, PTO_SCOPE_MANUAL);
    user[2] = submit_one(rig, &t, PTO_TAG_INOUT);
    end(rig);
    assert_int_equal(rig_complete(rig, creator), 2);
    assert_false(is_free(rig, t.addr, 3));
    end(rig);
    assert_false(is_free(rig, t.addr, 3));
    for (uint32_t i = 0; i < 3; i++) {
        rig_complete(rig, user[i]);
        assert_int_equal(is_free(rig, t.addr, 3), i == 2);
    }
    rig_close(rig);
}

static void memory_stays_while_the_scope_is_open(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t;
    struct pto_outputs out;

    (void)state;
    begin(rig, PTO_SCOPE_AUTO);
    out = submit_output(rig, 2);
    t = out.tensor[0];
    rig_complete(rig, out.task);
    rig_complete(rig, submit_one(rig, &t, PTO_TAG_INPUT));
    assert_false(is_free(rig, t.addr, 2));
    rig_complete(rig, submit_one(rig, &t, PTO_TAG_INPUT)); /* the memory can still be used */
    end(rig);
    assert_true(is_free(rig, t.addr, 2));
    rig_close(rig);
}

static void memory_stays_while_the_creator_runs(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_outputs out;
    uint64_t addr;

    (void)state;
    begin(rig, PTO_SCOPE_AUTO);
    out = submit_output(rig, 2);
    addr = out.tensor[0].addr;
    end(rig);
    assert_false(is_free(rig, addr, 2));
    rig_complete(rig, out.task);
    assert_true(is_free(rig, addr, 2));
    rig_close(rig);
}

static void kinds_of_dependencies_wait_retain_or_both(void **state)
{
    static const uint8_t kinds[] = { PTO_DEP_NONE, PTO_DEP_WAIT, PTO_DEP_RETAIN,
                                     PTO_DEP_WAIT | PTO_DEP_RETAIN, 0 };

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        const uint8_t *kind = i < 4 ? &kinds[i] : NULL; /* NULL: both */
        bool waits = i == 4 || (kinds[i] & PTO_DEP_WAIT) != 0;
        bool retains = i == 4 || (kinds[i] & PTO_DEP_RETAIN) != 0;
        struct rig *rig = rig_open(PTO_DEPS_SAFE);
        struct pto_outputs out;
        struct pto_task_id user;
        uint64_t addr;

        begin(rig, PTO_SCOPE_AUTO);
        out = submit_output(rig, 2);
        addr = out.tensor[0].addr;
        user = submit_after(rig, &out.task, kind, 1);
        assert_int_equal(has_edge(rig, 0, 1), waits);
        end(rig);
        assert_int_equal(rig_complete(rig, out.task), waits);
        assert_int_equal(is_free(rig, addr, 2), !retains);
        rig_complete(rig, user);
        assert_true(is_free(rig, addr, 2));
        rig_close(rig);
    }
}

static void one_task_retains_any_number_of_blocks(void **state)
{
    enum { BLOCKS = 100 };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    static const uint8_t kinds[BLOCKS] = { [0 ... BLOCKS - 1] = PTO_DEP_RETAIN };

    (void)state;
    for (uint32_t round = 0; round < 3; round++) { /* chunks are released with the slot */
        struct pto_task_id id[BLOCKS], user;
        uint32_t blocks;

        begin(rig, PTO_SCOPE_AUTO);
        for (uint32_t i = 0; i < BLOCKS; i++)
            id[i] = alloc_output(rig, 1).task;
        user = submit_after(rig, id, kinds, BLOCKS);
        end(rig);
        blocks = rig->g.buffer_total;
        begin(rig, PTO_SCOPE_AUTO);
        alloc_output(rig, 1);
        end(rig);
        assert_true(round > 0 || rig->g.buffer_total == blocks + 1); /* none was free */
        rig_complete(rig, user);
    }
    assert_int_equal(rig->g.buffer_total, 1 + BLOCKS + 1);
    assert_int_equal(rig->g.retained_chunk_count, 1 + (BLOCKS + 30) / 31);
    rig_close(rig);
}

static void other_threads_give_blocks_back_through_the_stack(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_outputs out;
    struct slot *s;
    uint64_t addr;

    (void)state;
    assert_int_equal(rig_start(rig, PTO_DEPS_SAFE, true), PTO_OK);
    begin(rig, PTO_SCOPE_AUTO);
    out = submit_output(rig, 2);
    addr = out.tensor[0].addr;
    end(rig);
    s = rig_slot(rig, out.task);
    graph_release_task(&rig->g, s, false);
    assert_true(a32_load_relaxed(&rig->g.freed_buffers) != 0);
    assert_true(is_free(rig, addr, 2)); /* the allocation searches there */
    assert_int_equal(a32_load_relaxed(&rig->g.freed_buffers), 0);
    rig_close(rig);
}

static void a_block_without_users_cannot_be_retained(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_task_id id;
    uint32_t block;

    (void)state;
    begin(rig, PTO_SCOPE_AUTO);
    id = alloc_output(rig, 1).task;
    block = ids_find(&rig->g, id)->buffer;
    assert_true(buffer_retain(&rig->g, block));
    end(rig);
    assert_true(buffer_retain(&rig->g, block));
    buffer_release(&rig->g, block, false);
    buffer_release(&rig->g, block, false);
    assert_false(buffer_retain(&rig->g, block)); /* its slot is being returned */
    buffers_collect(&rig->g);
    assert_false(buffer_retain(&rig->g, block));
    rig_close(rig);
}

static void every_size_of_output_fits_its_block(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    uint64_t last = 0;
    uint32_t last_class = 0;

    (void)state;
    for (uint32_t kib = 1; kib < 3000; kib += 1 + kib / 13) {
        struct pto_outputs out = alloc_output(rig, kib);
        uint32_t block = ids_find(&rig->g, out.task)->buffer;
        uint32_t class = graph_buffer(&rig->g, block)->heap_class;
        uint64_t bytes = rig->g.heap_pool.used - last;

        assert_int_equal(out.tensor[0].size, kib * 1024);
        assert_true(bytes >= kib * 1024 && bytes <= kib * 1024 + kib * 1024 / 4);
        assert_true(class >= last_class && class < GRAPH_HEAP_CLASSES);
        memset(pto_tensor_data(&out.tensor[0]), 1, kib * 1024);
        last = rig->g.heap_pool.used;
        last_class = class;
    }
    rig_close(rig);
}

/* ---- dependencies ---- */

static void a_completed_dependency_is_satisfied(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_task_id a = submit_empty(rig), b = submit_empty(rig), allocated, c;
    struct pto_args args;

    (void)state;
    allocated = alloc_output(rig, 1).task;
    rig_complete(rig, a);
    c = submit_empty(rig); /* in the slot of a */
    pto_args_init(&args);
    pto_set_deps(&args, (const struct pto_task_id[]){ a, allocated }, NULL, 2);
    assert_true(rig_submit(rig, &args, NULL));
    assert_int_equal(rig->edge_count, 0);
    pto_args_init(&args);
    pto_set_deps(&args, (const struct pto_task_id[]){ a, b, b, c, b }, NULL, 5);
    assert_false(rig_submit(rig, &args, NULL));
    assert_int_equal(rig->edge_count, 2); /* one each */
    assert_int_equal(rig_complete(rig, c), 0);
    assert_int_equal(rig_complete(rig, b), 1);
    rig_close(rig);
}

static void a_task_with_many_predecessors(bool is_shared, bool is_inferred)
{
    enum { COUNT = MANY_PREDECESSORS };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    static struct pto_task_id id[COUNT];
    struct pto_tensor all =
        pto_tensor_external((void *)(uintptr_t)0x300000000ull, EXTENTS(COUNT, 16), 2, PTO_FLOAT32);

    assert_int_equal(rig_start(rig, PTO_DEPS_SAFE, is_shared), PTO_OK);
    for (uint32_t round = 0; round < 2; round++) { /* the second time with reused chunks */
        uint64_t edges = rig->edge_count;
        struct pto_task_id last;

        for (uint32_t i = 0; i < COUNT; i++) {
            struct pto_tensor row = pto_tensor_view(&all, EXTENTS(1, 16), EXTENTS(i, 0));

            id[i] = is_inferred ? submit_one(rig, &row, PTO_TAG_INOUT) : submit_empty(rig);
        }
        assert_int_equal(rig->edge_count, edges);
        last =
            is_inferred ? submit_one(rig, &all, PTO_TAG_INPUT) : submit_after(rig, id, NULL, COUNT);
        assert_int_equal(rig->edge_count - edges, COUNT);
        assert_int_equal(rig->g.edge_total, (round + 1) * COUNT);
        for (uint32_t i = 0; i < COUNT; i++)
            assert_int_equal(rig_complete(rig, id[(i * 7919u) % COUNT]), i == COUNT - 1);
        rig_complete(rig, last);
    }
    assert_true(rig->g.edge_chunk_count <= 2 + COUNT / GRAPH_EDGES_PER_CHUNK);
    rig_close(rig);
}

static void ten_thousand_explicit_predecessors_are_waited_for(void **state)
{
    (void)state;
    a_task_with_many_predecessors(false, false);
    a_task_with_many_predecessors(true, false);
}

static void ten_thousand_inferred_predecessors_are_waited_for(void **state)
{
    (void)state;
    a_task_with_many_predecessors(false, true);
    a_task_with_many_predecessors(true, true);
}

static void ten_thousand_successors_become_ready_at_once(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t = outside(0);
    struct pto_task_id first = submit_one(rig, &t, PTO_TAG_INOUT), last;

    (void)state;
    for (uint32_t i = 0; i < MANY_PREDECESSORS; i++)
        submit_one(rig, &t, PTO_TAG_INPUT);
    last = submit_one(rig, &t, PTO_TAG_INOUT);
    assert_int_equal(rig->g.edge_total, 2 * MANY_PREDECESSORS);
    assert_int_equal(rig_complete(rig, first), MANY_PREDECESSORS);
    for (uint32_t i = 1; i <= MANY_PREDECESSORS; i++)
        assert_int_equal(rig_complete(rig, pto_task_id_make(0, i)), i == MANY_PREDECESSORS);
    rig_complete(rig, last);
    rig_close(rig);
}

static void an_edge_that_is_left_out_is_not_wired(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t = outside(0);
    struct pto_task_id a = submit_one(rig, &t, PTO_TAG_INOUT);
    struct pto_args args;

    (void)state;
    rig->is_denied = true;
    pto_args_init(&args);
    pto_add_inout(&args, &t);
    assert_true(rig_submit(rig, &args, NULL));
    assert_true(has_edge(rig, 0, 1));
    assert_int_equal(rig->g.edge_total, 0);
    assert_int_equal(rig_complete(rig, a), 0);
    rig_close(rig);
}

static void a_task_never_waits_for_itself(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t = outside(0);
    struct pto_args args;

    (void)state;
    pto_args_init(&args);
    pto_add_inout(&args, &t);
    pto_add_input(&args, &t);
    pto_add_output_existing(&args, &t);
    assert_true(rig_submit(rig, &args, NULL));
    assert_false(rig_submit(rig, &args, NULL));
    assert_int_equal(rig->edge_count, 1);
    rig_close(rig);
}

/* ---- scopes ---- */

static void a_manual_scope_infers_nothing(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t = outside(0);
    struct pto_outputs out = submit_output(rig, 1);
    struct pto_tensor made = out.tensor[0];
    struct pto_task_id a = submit_one(rig, &t, PTO_TAG_INOUT), b;
    struct pto_args args;

    (void)state;
    begin(rig, PTO_SCOPE_MANUAL);
    b = submit_one(rig, &t, PTO_TAG_INOUT);
    submit_one(rig, &made, PTO_TAG_INPUT); /* not even after its creator */
    assert_int_equal(rig->edge_count, 0);
    submit_after(rig, &a, NULL, 1);
    assert_int_equal(rig->edge_count, 1);
    begin(rig, PTO_SCOPE_MANUAL);
    submit_one(rig, &t, PTO_TAG_INPUT);
    assert_int_equal(rig->edge_count, 1);
    end(rig);
    end(rig);
    rig->edge_count = 0;
    /* but it is recorded: a writer outside of the scope waits for all of them */
    pto_args_init(&args);
    pto_add_inout(&args, &t);
    assert_false(rig_submit(rig, &args, NULL));
    assert_int_equal(rig->edge_count, 3);
    assert_true(has_edge(rig, 1, 6) && has_edge(rig, 2, 6) && has_edge(rig, 5, 6));
    rig_complete(rig, b);
    rig_close(rig);
}

static void sixty_four_scopes_nest_and_no_more(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);

    (void)state;
    for (uint32_t depth = 0; depth < PTO_SCOPE_DEPTH_MAX; depth++) {
        begin(rig, PTO_SCOPE_AUTO);
        alloc_output(rig, 1);
    }
    assert_int_equal(graph_scope_begin(&rig->g, PTO_SCOPE_AUTO, NULL), PTO_EARGS);
    assert_int_equal(rig->g.refusal.kind, FAILURE_SCOPE_DEPTH);
    submit_empty(rig);
    for (uint32_t depth = 0; depth < PTO_SCOPE_DEPTH_MAX; depth++)
        end(rig);
    assert_int_equal(rig->g.scope_count, 1);
    assert_true(submit_empty(rig).raw == 0);
    rig_close(rig);
}

static void an_auto_scope_in_a_manual_one_is_refused(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);

    (void)state;
    begin(rig, PTO_SCOPE_MANUAL);
    begin(rig, PTO_SCOPE_MANUAL);
    assert_int_equal(graph_scope_begin(&rig->g, PTO_SCOPE_AUTO, NULL), PTO_EARGS);
    assert_int_equal(rig->g.refusal.kind, FAILURE_AUTO_IN_MANUAL);
    assert_int_equal(rig->g.scope_count, 3);
    end(rig);
    end(rig);
    begin(rig, PTO_SCOPE_AUTO);
    rig_close(rig);
}

static void a_scope_of_an_unknown_mode_is_refused(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);

    (void)state;
    assert_int_equal(graph_scope_begin(&rig->g, (enum pto_scope_mode)2, NULL), PTO_EARGS);
    assert_int_equal(rig->g.refusal.kind, FAILURE_SCOPE_MODE);
    assert_int_equal(rig->g.refusal.value, 2);
    assert_int_equal(rig->g.scope_count, 1);
    rig_close(rig);
}

static void a_scope_that_was_not_begun_cannot_end(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);

    (void)state;
    end(rig);
    assert_int_equal(graph_scope_end(&rig->g), PTO_EARGS);
    assert_int_equal(rig->g.refusal.kind, FAILURE_SCOPE_UNDERFLOW);
    assert_int_equal(rig->g.scope_count, 0);
    rig_close(rig);
}

/* ---- refusals ---- */

/*
 * Makes a submit that must be refused: the task may have got its number, but no task waits for it.
 */
static void check_refused_as(struct rig *rig, const struct pto_kernels *kernels,
                             const struct pto_args *args, enum failure_kind fault)
{
    struct graph *g = &rig->g;
    uint32_t seq = g->seq, live = g->live, local = g->ids[g->ring].next_local;
    struct pto_outputs out = { { PTO_TASK_ID_INVALID }, 0, NULL };
    struct slot *ready;

    g->refusal.kind = FAILURE_NONE;
    assert_int_equal(graph_submit(g, kernels, args, NULL, &out, &ready), PTO_EARGS);
    assert_int_equal(g->refusal.kind, fault);
    assert_true(g->live == live && g->seq - seq <= 1);
    assert_int_equal(g->ids[g->ring].next_local - local, g->seq - seq);
    assert_false(pto_task_id_is_valid(out.task));
}

static void check_refused(struct rig *rig, const struct pto_args *args, enum failure_kind fault)
{
    check_refused_as(rig, &rig_aiv, args, fault);
}

/* Uses one argument as the second of two. */
static void check_refused_tensor(struct rig *rig, const void *t, uint32_t tag,
                                 enum failure_kind fault)
{
    struct pto_tensor good = outside(0);
    struct pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, &good);
    pto_args_add(&args, t, (enum pto_tag)tag);
    check_refused(rig, &args, fault);
    assert_int_equal(rig->g.refusal.argument, 1);
}

static void mistakes_in_the_arguments_are_refused(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t = outside(0);
    struct pto_predicate predicate = { .tensor = NULL };
    struct pto_args args;

    (void)state;
    rig_complete(rig, submit_empty(rig)); /* a slot that could be lost */
    pto_args_init(&args);
    pto_add_scalar(&args, 1);
    pto_add_input(&args, &t);
    check_refused(rig, &args, FAILURE_ARGS_ERROR);
    pto_args_init(&args);
    for (uint32_t i = 0; i <= PTO_TASK_TENSORS_MAX; i++)
        pto_add_input(&args, &t);
    check_refused(rig, &args, FAILURE_ARGS_ERROR);
    pto_args_init(&args);
    for (uint32_t i = 0; i <= PTO_TASK_SCALARS_MAX; i++)
        pto_add_scalar(&args, i);
    check_refused(rig, &args, FAILURE_ARGS_ERROR);
    pto_args_init(&args);
    pto_add_input(&args, NULL);
    check_refused(rig, &args, FAILURE_ARGS_ERROR);
    pto_args_init(&args);
    args.tensor_count = PTO_TASK_TENSORS_MAX + 1;
    check_refused(rig, &args, FAILURE_ARGS_ERROR);
    pto_args_init(&args);
    args.block_count = 0;
    check_refused(rig, &args, FAILURE_BLOCK_COUNT);
    assert_int_equal(rig->g.refusal.value, 0);
    args.block_count = INT32_MAX;
    check_refused(rig, &args, FAILURE_BLOCK_COUNT);
    pto_args_init(&args);
    args.timing_slot = PTO_TIMING_SLOTS;
    check_refused(rig, &args, FAILURE_TIMING_SLOT);
    pto_args_init(&args);
    args.predicate = &predicate;
    predicate.op = PTO_PREDICATE_EQ;
    check_refused(rig, &args, FAILURE_PREDICATE);
    assert_int_equal(rig->g.refusal.value, DATA_TENSOR);
    predicate.op = PTO_PREDICATE_LE + 1;
    check_refused(rig, &args, FAILURE_PREDICATE);
    assert_int_equal(rig->g.refusal.value, DATA_OPERATOR);
    rig_close(rig);
}

static void mistakes_in_the_kernels_are_refused(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_args args;

    (void)state;
    pto_args_init(&args);
    check_refused_as(rig, &(struct pto_kernels){ -1, RIG_KERNELS, -1 }, &args, FAILURE_KERNEL);
    assert_int_equal(rig->g.refusal.value, RIG_KERNELS);
    check_refused_as(rig, &(struct pto_kernels){ -1, -1, RIG_KERNEL_NONE }, &args, FAILURE_KERNEL);
    check_refused_as(rig, &(struct pto_kernels){ RIG_KERNEL_AIC, RIG_KERNEL_AIC, -1 }, &args,
                     FAILURE_CORE_TYPE);
    check_refused_as(rig, &(struct pto_kernels){ -1, RIG_KERNEL_AIV, RIG_KERNELS }, &args,
                     FAILURE_KERNEL);
    check_refused_as(rig, &(struct pto_kernels){ RIG_KERNEL_AIV, -1, -1 }, &args,
                     FAILURE_CORE_TYPE);
    check_refused_as(rig, &(struct pto_kernels){ -1, RIG_KERNEL_AIC, -1 }, &args,
                     FAILURE_CORE_TYPE);
    rig_close(rig);
}

static void tensors_that_cannot_be_are_refused(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor good = outside(0), t;
    struct pto_tensor_info info = floats(4);

    (void)state;
    rig_complete(rig, submit_one(rig, &good, PTO_TAG_INPUT));
    check_refused_tensor(rig, &good, PTO_TAG_NO_DEP + 1, FAILURE_TAG);
    t = pto_tensor_view(&good, EXTENTS(17), EXTENTS(0));
    check_refused_tensor(rig, &t, PTO_TAG_INPUT, FAILURE_VIEW);
    assert_int_equal(rig->g.refusal.value, PTO_VIEW_OUT_OF_RANGE);
    t = good;
    t.ndims = PTO_MAX_DIMS + 1;
    check_refused_tensor(rig, &t, PTO_TAG_INPUT, FAILURE_VIEW);
    t = good;
    t.dtype = PTO_DTYPE_COUNT;
    check_refused_tensor(rig, &t, PTO_TAG_INPUT, FAILURE_VIEW);
    t = good;
    t.is_contiguous = false;
    t.strides[0] = 0;
    check_refused_tensor(rig, &t, PTO_TAG_INPUT, FAILURE_VIEW);
    assert_int_equal(rig->g.refusal.value, PTO_VIEW_ZERO_STRIDE);
    t = good;
    t.start = 1;
    check_refused_tensor(rig, &t, PTO_TAG_NO_DEP, FAILURE_BOUNDS);
    assert_int_equal(rig->g.refusal.value, 17 * 4);
    t = good;
    t.extent = (1ull << 62) + 1; /* the number of bytes is 4 modulo 2^64 */
    check_refused_tensor(rig, &t, PTO_TAG_INPUT, FAILURE_BOUNDS);
    t = good;
    t.start = 1ull << 62;
    check_refused_tensor(rig, &t, PTO_TAG_INOUT, FAILURE_BOUNDS);
    t.is_contiguous = false;
    check_refused_tensor(rig, &t, PTO_TAG_INOUT, FAILURE_BOUNDS);
    t = good;
    t.owner = pto_task_id_make(0, 0);
    t.ndims = 4;
    for (uint32_t d = 0; d < t.ndims; d++) {
        t.shapes[d] = 1u << 16; /* 2^64 elements */
        t.strides[d] = d == 0 ? UINT32_MAX : 1;
    }
    check_refused_tensor(rig, &t, PTO_TAG_INPUT, FAILURE_BOUNDS);
    t = good;
    t.addr = 0;
    check_refused_tensor(rig, &t, PTO_TAG_OUTPUT_EXISTING, FAILURE_NULL_ADDRESS);
    info.ndims = 0;
    check_refused_tensor(rig, &info, PTO_TAG_OUTPUT, FAILURE_INFO);
    info.ndims = PTO_MAX_DIMS + 1;
    check_refused_tensor(rig, &info, PTO_TAG_OUTPUT, FAILURE_INFO);
    info.ndims = 1;
    info.dtype = PTO_DTYPE_COUNT;
    check_refused_tensor(rig, &info, PTO_TAG_OUTPUT, FAILURE_INFO);
    rig_close(rig);
}

static void outputs_of_more_than_a_tebibyte_are_refused(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor_info info = pto_tensor_info_make(EXTENTS(1 << 20, 1 << 20, 2), 3, PTO_INT8);
    struct pto_tensor good = outside(0);

    (void)state;
    rig_complete(rig, submit_one(rig, &good, PTO_TAG_INPUT));
    check_refused_tensor(rig, &info, PTO_TAG_OUTPUT, FAILURE_TOO_LARGE);
    rig_close(rig);
}

static void outputs_that_exceed_sixty_four_bits_are_refused(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor_info info =
        pto_tensor_info_make(EXTENTS(1 << 16, 1 << 16, 1 << 16, 1 << 16), 4, PTO_FLOAT32);
    struct pto_outputs out;
    struct pto_args args;

    (void)state;
    pto_args_init(&args);
    pto_add_output(&args, &info);
    assert_int_equal(graph_alloc(&rig->g, &args, &out), PTO_EARGS);
    assert_int_equal(rig->g.refusal.kind, FAILURE_TOO_LARGE);
    rig_close(rig);
}

static void dependencies_that_cannot_be_are_refused(void **state)
{
    static const uint8_t kinds[2] = { PTO_DEP_WAIT, 4 };
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_task_id id[2] = { submit_empty(rig), pto_task_id_invalid() };
    struct pto_args args;

    (void)state;
    pto_args_init(&args);
    pto_set_deps(&args, id, NULL, 2);
    check_refused(rig, &args, FAILURE_DEP_INVALID);
    assert_int_equal(rig->g.refusal.value, 1);
    /* an id that was never assigned, not even that of this submit */
    id[1] = pto_task_id_make(0, 1);
    check_refused(rig, &args, FAILURE_DEP_UNKNOWN);
    assert_int_equal(rig->g.refusal.value, 1);
    id[1] = pto_task_id_make(1, 0);
    check_refused(rig, &args, FAILURE_DEP_UNKNOWN);
    id[1] = pto_task_id_make(GRAPH_RINGS, 0);
    check_refused(rig, &args, FAILURE_DEP_UNKNOWN);
    id[1] = id[0];
    args.dep_kinds = kinds;
    check_refused(rig, &args, FAILURE_DEP_KIND);
    assert_int_equal(rig->g.refusal.value, 1);
    pto_args_init(&args);
    pto_set_deps(&args, NULL, NULL, 1);
    check_refused(rig, &args, FAILURE_ARGS_ERROR);
    pto_args_init(&args);
    pto_set_deps(&args, id, NULL, 1);
    pto_set_deps(&args, id, NULL, 1);
    check_refused(rig, &args, FAILURE_ARGS_ERROR);
    rig_close(rig);
}

static void a_tensor_of_an_ended_scope_is_refused(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor t, kept;
    struct pto_task_id user;

    (void)state;
    begin(rig, PTO_SCOPE_AUTO);
    t = alloc_output(rig, 1).tensor[0];
    kept = alloc_output(rig, 1).tensor[0];
    user = submit_one(rig, &kept, PTO_TAG_INPUT);
    end(rig);
    check_refused_tensor(rig, &t, PTO_TAG_INPUT, FAILURE_SCOPE_ENDED);
    assert_true(rig->g.refusal.value == t.owner.raw);
    check_refused_tensor(rig, &kept, PTO_TAG_INPUT, FAILURE_SCOPE_ENDED); /* somebody keeps it */
    assert_true(rig->g.refusal.scope == NULL); /* its scope has no place in a source */
    rig_complete(rig, user);
    check_refused_tensor(rig, &kept, PTO_TAG_INPUT, FAILURE_SCOPE_ENDED);
    t.owner = pto_task_id_make(3, 12345);
    check_refused_tensor(rig, &t, PTO_TAG_INPUT, FAILURE_SCOPE_ENDED);
    rig_close(rig);
}

static void simpler_lets_such_tensors_pass(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SIMPLER);
    struct pto_tensor t;

    (void)state;
    begin(rig, PTO_SCOPE_AUTO);
    t = alloc_output(rig, 1).tensor[0];
    end(rig);
    rig_complete(rig, submit_one(rig, &t, PTO_TAG_INPUT));
    t.owner = pto_task_id_make(3, 12345);
    rig_complete(rig, submit_one(rig, &t, PTO_TAG_INPUT));
    rig_close(rig);
}

static void an_allocation_takes_outputs_only(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor_info info = floats(4), bad = floats(4);
    struct pto_tensor t = outside(0);
    struct pto_outputs out;
    struct pto_args args;

    (void)state;
    pto_args_init(&args);
    assert_int_equal(graph_alloc(&rig->g, &args, &out), PTO_EARGS);
    assert_int_equal(rig->g.refusal.kind, FAILURE_ALLOC_ARGS);
    pto_add_output(&args, &info);
    pto_add_input(&args, &t);
    assert_int_equal(graph_alloc(&rig->g, &args, &out), PTO_EARGS);
    assert_int_equal(rig->g.refusal.kind, FAILURE_ALLOC_ARGS);
    assert_int_equal(rig->g.refusal.argument, 1);
    pto_args_init(&args);
    pto_add_output(&args, &info);
    pto_add_scalar(&args, 1);
    assert_int_equal(graph_alloc(&rig->g, &args, &out), PTO_EARGS);
    assert_int_equal(rig->g.refusal.kind, FAILURE_ALLOC_ARGS);
    pto_add_output(&args, &info);
    assert_int_equal(graph_alloc(&rig->g, &args, &out), PTO_EARGS);
    assert_int_equal(rig->g.refusal.kind, FAILURE_ARGS_ERROR);
    pto_args_init(&args);
    bad.ndims = 0;
    pto_add_output(&args, &bad);
    assert_int_equal(graph_alloc(&rig->g, &args, &out), PTO_EARGS);
    assert_int_equal(rig->g.refusal.kind, FAILURE_INFO);
    assert_int_equal(rig->g.seq, 1);
    rig_close(rig);
}

static void a_run_has_less_than_two_to_the_32_tasks(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_args args;

    (void)state;
    rig->g.seq = UINT32_MAX - 1;
    submit_empty(rig);
    pto_args_init(&args);
    check_refused(rig, &args, FAILURE_TOO_MANY);
    rig_close(rig);
}

static void allocations_count_towards_two_to_the_32_tasks(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);
    struct pto_tensor_info info = floats(4);
    struct pto_outputs out;
    struct pto_args args;

    (void)state;
    rig->g.seq = UINT32_MAX;
    pto_args_init(&args);
    pto_add_output(&args, &info);
    assert_int_equal(graph_alloc(&rig->g, &args, &out), PTO_EARGS);
    assert_int_equal(rig->g.refusal.kind, FAILURE_TOO_MANY);
    rig_close(rig);
}

static void a_run_without_memory_ends_and_the_next_one_works(void **state)
{
    struct rig *rig = rig_open(PTO_DEPS_SAFE);

    (void)state;
    for (uint32_t kind = 0; kind < 4; kind++) {
        struct pto_tensor_info info = floats(256);
        struct pto_tensor t = outside(0);
        struct pto_args args;
        struct pto_outputs out;
        struct slot *ready;
        uint32_t count = 0;
        int status = PTO_OK;

        rig->memory.max = rig->memory.used;
        for (; status == PTO_OK && count < 10000000; count++) {
            pto_args_init(&args);
            if (kind == 0) { /* slots */
                status = graph_submit(&rig->g, &rig_aiv, &args, NULL, &out, &ready);
            } else if (kind == 1) { /* outputs */
                pto_add_output(&args, &info);
                status = graph_alloc(&rig->g, &args, &out);
            } else if (kind == 2) { /* records */
                t.addr += 64;
                pto_add_inout(&args, &t);
                status = graph_submit(&rig->g, &rig_aiv, &args, NULL, &out, &ready);
            } else { /* readers and edges */
                pto_args_add(&args, &t, count % 1000 == 999 ? PTO_TAG_INOUT : PTO_TAG_INPUT);
                status = graph_submit(&rig->g, &rig_aiv, &args, NULL, &out, &ready);
            }
        }
        assert_int_equal(status, PTO_ENOMEM);
        assert_int_equal(rig->g.refusal.kind, FAILURE_MEMORY);
        assert_true(rig->memory.refused > 0);
        rig->memory.max = 4ull << 30;
        assert_int_equal(rig_start(rig, PTO_DEPS_SAFE, false), PTO_OK);
        rig_complete(rig, submit_empty(rig));
        submit_output(rig, 1);
        assert_int_equal(rig_start(rig, PTO_DEPS_SAFE, false), PTO_OK);
    }
    rig_close(rig);
}

static const struct CMUnitTest graph_tests[] = {
    cmocka_unit_test(ids_count_in_the_ring_of_their_scope),
    cmocka_unit_test(an_id_that_lives_long_is_found_among_many),
    cmocka_unit_test(the_slot_that_came_back_last_is_taken_first),
    cmocka_unit_test(retiring_the_last_task_forgets_all),
    cmocka_unit_test(a_slot_holds_thirty_two_tensors_and_sixteen_scalars),
    cmocka_unit_test(lanes_choose_kernel_and_core_type),
    cmocka_unit_test(outputs_are_rounded_up_and_packed_in_order),
    cmocka_unit_test(descriptors_stay_until_their_scope_ends),
    cmocka_unit_test(an_initial_value_fills_the_padded_buffer),
    cmocka_unit_test(an_empty_output_has_no_byte_to_fill),
    cmocka_unit_test(an_output_is_recorded_as_a_write),
    cmocka_unit_test(memory_is_reused_when_scope_task_and_users_are_done),
    cmocka_unit_test(memory_stays_while_the_scope_is_open),
    cmocka_unit_test(memory_stays_while_the_creator_runs),
    cmocka_unit_test(kinds_of_dependencies_wait_retain_or_both),
    cmocka_unit_test(one_task_retains_any_number_of_blocks),
    cmocka_unit_test(other_threads_give_blocks_back_through_the_stack),
    cmocka_unit_test(a_block_without_users_cannot_be_retained),
    cmocka_unit_test(every_size_of_output_fits_its_block),
    cmocka_unit_test(a_completed_dependency_is_satisfied),
    cmocka_unit_test(ten_thousand_explicit_predecessors_are_waited_for),
    cmocka_unit_test(ten_thousand_inferred_predecessors_are_waited_for),
    cmocka_unit_test(ten_thousand_successors_become_ready_at_once),
    cmocka_unit_test(an_edge_that_is_left_out_is_not_wired),
    cmocka_unit_test(a_task_never_waits_for_itself),
    cmocka_unit_test(a_manual_scope_infers_nothing),
    cmocka_unit_test(sixty_four_scopes_nest_and_no_more),
    cmocka_unit_test(an_auto_scope_in_a_manual_one_is_refused),
    cmocka_unit_test(a_scope_of_an_unknown_mode_is_refused),
    cmocka_unit_test(a_scope_that_was_not_begun_cannot_end),
    cmocka_unit_test(mistakes_in_the_arguments_are_refused),
    cmocka_unit_test(mistakes_in_the_kernels_are_refused),
    cmocka_unit_test(tensors_that_cannot_be_are_refused),
    cmocka_unit_test(outputs_of_more_than_a_tebibyte_are_refused),
    cmocka_unit_test(outputs_that_exceed_sixty_four_bits_are_refused),
    cmocka_unit_test(dependencies_that_cannot_be_are_refused),
    cmocka_unit_test(a_tensor_of_an_ended_scope_is_refused),
    cmocka_unit_test(simpler_lets_such_tensors_pass),
    cmocka_unit_test(an_allocation_takes_outputs_only),
    cmocka_unit_test(a_run_has_less_than_two_to_the_32_tasks),
    cmocka_unit_test(allocations_count_towards_two_to_the_32_tasks),
    cmocka_unit_test(a_run_without_memory_ends_and_the_next_one_works),
};

TEST_MAIN(graph_tests)
