/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions from the records of a run, and files from executions: rings that this test fills,
 * submissions as a chip records them, and damaged records.
 */
#include "orch/record.h"
#include "trace/snapshot.h"

#include "tests/fixture/fixture.h"

enum { RINGS = 2, RECORDS = 8, TASKS = 4, AICS = 2, TAPE_BYTES = 4096 };

static struct trace_record record[RINGS][RECORDS];
static struct trace_ring ring[RINGS];
static const struct trace_ring *const rings[RINGS] = { &ring[0], &ring[1] };
static char *names[] = { "add", "", "quo\"te\n" };
static _Alignas(16) char tape[TAPE_BYTES];
static uint64_t tape_used;

/* A run of 1000 cycles from 10000 on, with two nanoseconds each. */
static struct trace_snapshot begin(void)
{
    for (uint32_t i = 0; i < RINGS; i++)
        ring[i] = (struct trace_ring){ .record = record[i], .mask = RECORDS - 1 };
    tape_used = 0;
    return (struct trace_snapshot){ .record = { .ring = rings,
                                                .ring_count = RINGS,
                                                .core_count = 6,
                                                .aic_count = AICS,
                                                .begin_cycles = 10000,
                                                .end_cycles = 11000,
                                                .begin_ns = 500000,
                                                .end_ns = 502000,
                                                .tasks = TASKS },
                                    .platform = "a5sim",
                                    .kernel_name = names,
                                    .kernel_count = 3 };
}

static struct trace_slices make(const struct trace_snapshot *snapshot)
{
    struct trace_slices s;

    assert_int_equal(trace_slices_make(snapshot, &s), PTO_OK);
    return s;
}

static void begin_and_end_may_be_in_different_rings(void **state)
{
    struct trace_snapshot snapshot = begin();
    struct trace_slices s;

    (void)state;
    trace_put(&ring[0], 10100, TRACE_BEGIN, 2, 3, 0, 0);
    trace_put(&ring[1], 10050, TRACE_BEGIN, 1, 0, 2, 0);
    trace_put(&ring[1], 10400, TRACE_END, 2, 3, 0, 0);
    s = make(&snapshot);
    assert_int_equal(s.count, 2);
    assert_int_equal(s.slice[0].seq, 1); /* in the order of the tasks */
    assert_false(s.slice[0].has_end);
    assert_int_equal(s.slice[1].begin, 10100);
    assert_int_equal(s.slice[1].end, 10400);
    assert_int_equal(s.slice[1].ring, 0);
    assert_ptr_equal(trace_slices_find(&s, 1), &s.slice[1]);
    assert_null(trace_slices_find(&s, 2));
    trace_slices_free(&s);
}

static void records_of_one_stamp_share_its_time(void **state)
{
    struct trace_snapshot snapshot = begin();
    struct trace_slices s;

    (void)state;
    for (uint32_t i = 1; i <= 3; i++)
        trace_put(&ring[0], 10000, TRACE_RUN, i, 2, 0, 0);
    trace_put(&ring[0], 10300, TRACE_RUN, 4, TRACE_CORE_NONE, 0, 0); /* ran nothing */
    s = make(&snapshot);
    assert_int_equal(s.count, 4);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(s.slice[i].begin, 10000 + i * 100);
        assert_int_equal(s.slice[i].end, 10100 + i * 100);
    }
    assert_int_equal(s.slice[3].end, s.slice[3].begin);
    assert_string_equal(trace_slices_name(&s, &s.slice[3]), "dummy");
    trace_slices_free(&s);
}

static void records_that_gave_way_are_counted(void **state)
{
    struct trace_snapshot snapshot = begin();
    struct trace_slices s;

    (void)state;
    snapshot.record.tasks = 100;
    for (uint32_t i = 1; i <= RECORDS + 5; i++)
        trace_put(&ring[0], 10000 + i, TRACE_RUN, i, 2, 0, 0);
    s = make(&snapshot);
    assert_int_equal(s.lost, 5);
    assert_int_equal(s.count, RECORDS);
    assert_int_equal(s.slice[0].seq, 6);
    trace_slices_free(&s);
}

/* These records may come from another process. */
static void records_of_no_task_are_left_out(void **state)
{
    struct trace_snapshot snapshot = begin();
    struct trace_slices s;

    (void)state;
    trace_put(&ring[0], 10100, TRACE_RUN, 0, 2, 0, 0);
    trace_put(&ring[0], 10200, TRACE_RUN, TASKS + 1, 2, 0, 0);
    trace_put(&ring[0], 10300, 77, 1, 2, 0, 0);
    trace_put(&ring[0], 10400, TRACE_END, 1, 2, 0, 0);
    s = make(&snapshot);
    assert_int_equal(s.count, 0);
    trace_slices_free(&s);
}

static void cycles_become_times_within_the_run(void **state)
{
    struct trace_snapshot snapshot = begin();
    struct trace_slices s = make(&snapshot);
    uint32_t index;

    (void)state;
    assert_true(trace_slices_us(&s, 10500) == 1.0);
    assert_true(trace_slices_us(&s, 9000) == 0.0);
    assert_int_equal(trace_slices_ns(&s, 10500), 501000);
    assert_int_equal(trace_slices_ns(&s, 9000), 500000);
    assert_int_equal(trace_slices_ns(&s, 99999), 502000);
    assert_string_equal(trace_slices_core(&s, 1, &index), "AIC");
    assert_int_equal(index, 1);
    assert_string_equal(trace_slices_core(&s, 5, &index), "AIV");
    assert_int_equal(index, 3);
    trace_slices_free(&s);
}

/* ---- tasks, as an orchestration tells of them ---- */

static char *take(void *context, uint64_t bytes)
{
    char *at = tape + tape_used;

    (void)context;
    if (TAPE_BYTES - tape_used < bytes)
        return NULL;
    tape_used += bytes;
    return at;
}

static const struct record_sink own_tape = { take, NULL };

/* Task `index`: a tensor, an output, a scalar of its own and one of the entry, one predecessor. */
static void tell(uint32_t index, const char *file)
{
    static uint32_t words[16];
    static const uint64_t scalars[] = { 7, 8, 9 };
    const struct pto_tensor tensor = pto_tensor_external(words, PTO_DIMS(16), 1, PTO_UINT32);
    const struct pto_task_id before = { .raw = 41 };
    const struct pto_entry entry = { .scalar_count = 3, .scalar = scalars };
    const struct pto_site site = { file, 12 };
    struct pto_tensor made = tensor;
    struct pto_outputs out = { .count = 1, .tensor = &made };
    struct pto_task_view view = { .index = index,
                                  .task = { .raw = 100 + index },
                                  .kernels = { -1, 2, -1 },
                                  .site = file != NULL ? &site : NULL,
                                  .entry = &entry };
    struct pto_args args;

    made.addr = 0x1234;
    pto_args_init(&args);
    pto_add_input(&args, &tensor);
    args.tag[args.tensor_count++] = PTO_TAG_OUTPUT;
    pto_add_scalar(&args, 5);
    pto_add_scalar(&args, 0);
    args.passed = 1u << 1;
    args.passed_from[1] = 2;
    pto_set_deps(&args, &before, NULL, 1);
    view.args = &args;
    record_task(&own_tape,
                &(struct orch_submitted){ .view = &view, .out = &out, .begin = 1, .end = 2 });
}

static void what_is_told_of_a_task_is_found_again(void **state)
{
    struct trace_snapshot snapshot = begin();
    struct trace_slices s;
    const struct chip_task *task;

    (void)state;
    tell(0, "kernels/first.c");
    tell(3, NULL);
    snapshot.record.task_records = tape;
    snapshot.record.task_bytes = tape_used;
    s = make(&snapshot);
    task = s.task[0];
    assert_non_null(task);
    assert_string_equal(trace_task_file(task), "kernels/first.c");
    assert_int_equal(task->line, 12);
    assert_int_equal(task->kernel[1], 2);
    assert_int_equal(trace_task_arguments(task)[1].tag, PTO_TAG_OUTPUT);
    assert_int_equal(trace_task_arguments(task)[1].addr, 0x1234);
    assert_int_equal(trace_task_arguments(task)[0].shapes[0], 16);
    assert_int_equal(trace_task_scalars(task)[0], 5);
    assert_int_equal(trace_task_scalars(task)[1], 9); /* of the entry */
    assert_int_equal(trace_task_deps(task)[0].task.raw, 41);
    assert_int_equal(trace_task_deps(task)[0].kind, PTO_DEP_WAIT | PTO_DEP_RETAIN);
    assert_null(s.task[1]);
    assert_int_equal(s.task[3]->file_bytes, 0);
    assert_int_equal(trace_slices_id(&s, 3), 103);
    assert_int_equal(trace_slices_id(&s, 2), 2); /* nothing was told of it */
    trace_slices_free(&s);
}

/* Whatever was changed in the record: what is found is inside of it, and can be used. */
static void damaged_tasks_end_what_is_told(void **state)
{
    struct trace_snapshot snapshot = begin();
    uint64_t first_bytes, changes = 0;
    struct trace_slices s;

    (void)state;
    tell(0, "a.c");
    first_bytes = tape_used;
    tell(1, "b.c");
    snapshot.record.task_records = tape;
    for (uint64_t bytes = 0; bytes <= tape_used; bytes += 8) { /* cut off */
        snapshot.record.task_bytes = bytes;
        s = make(&snapshot);
        assert_int_equal(s.task != NULL && s.task[0] != NULL, bytes >= first_bytes);
        assert_int_equal(s.task != NULL && s.task[1] != NULL, bytes >= tape_used);
        trace_slices_free(&s);
    }
    snapshot.record.task_bytes = tape_used;
    for (uint64_t at = 0; at < first_bytes; at++) {
        tape[at] ^= 0xff;
        s = make(&snapshot);
        for (uint32_t i = 0; i < TASKS; i++)
            if (s.task[i] != NULL)
                assert_true((const char *)trace_task_deps(s.task[i]) +
                                s.task[i]->dep_count * sizeof(struct chip_dep) <=
                            tape + tape_used);
        changes += s.task[0] == NULL;
        trace_slices_free(&s);
        tape[at] ^= 0xff;
    }
    assert_true(changes > 0);
}

/* What follows such a name would not be aligned. */
static void a_name_that_is_no_multiple_of_8_bytes_is_refused(void **state)
{
    struct trace_snapshot snapshot = begin();
    const struct chip_task task = { .index = 0, .file_bytes = 4 };
    struct trace_slices s;

    (void)state;
    memcpy(tape, &task, sizeof(task));
    memcpy(tape + sizeof(task), "a.c", 4);
    snapshot.record.task_records = tape;
    snapshot.record.task_bytes = sizeof(task) + 4;
    s = make(&snapshot);
    assert_null(s.task[0]);
    trace_slices_free(&s);
}

static void a_tape_that_is_full_loses_the_task(void **state)
{
    (void)state;
    (void)begin();
    tape_used = TAPE_BYTES - 8;
    tell(0, "a.c");
    assert_int_equal(tape_used, TAPE_BYTES - 8);
}

static void scopes_have_the_name_of_the_file_without_folders(void **state)
{
    const struct pto_site site = { "/a/long/way/to/orch.c", 33 };
    struct orch_scope scope = { .site = &site, .depth = 2, .ring = 1, .is_end = true };
    struct chip_scope recorded = record_scope(&scope);

    (void)state;
    assert_string_equal(recorded.site, "orch.c");
    assert_int_equal(recorded.line, 33);
    assert_int_equal(recorded.is_end, 1);
    scope.site = NULL;
    assert_string_equal(record_scope(&scope).site, "(unknown)");
}

/* ---- files ---- */

static char written[8192];

static void write_with(int (*fn)(const struct trace_slices *, FILE *), const struct trace_slices *s)
{
    FILE *out;

    memset(written, 0, sizeof(written));
    out = fmemopen(written, sizeof(written), "w");
    assert_non_null(out);
    assert_int_equal(fn(s, out), PTO_OK);
    assert_int_equal(fclose(out), 0);
}

static void names_are_texts_of_json(void **state)
{
    struct trace_snapshot snapshot = begin();
    struct trace_slices s = make(&snapshot);

    (void)state;
    write_with(trace_write_name_map, &s);
    assert_in(written, "\"0\": \"add\"");
    assert_in(written, "\"2\": \"quo\\\"te\\u000a\"");
    assert_null(strstr(written, "\"1\":")); /* there is no such kernel */
    trace_slices_free(&s);
}

static void each_execution_is_a_line_of_counters(void **state)
{
    struct trace_snapshot snapshot = begin();
    struct trace_slices s;

    (void)state;
    trace_put(&ring[0], 10100, TRACE_BEGIN, 1, 4, 2, 0);
    trace_put(&ring[0], 10200, TRACE_END, 1, 4, 0, 0);
    trace_put(&ring[0], 10300, TRACE_BEGIN, 2, 4, 0, 0); /* has not ended */
    s = make(&snapshot);
    write_with(trace_write_pmu, &s);
    assert_in(written, "pmu_total_cycles,pmu_idc_aic_vec_busy_o,"); /* group 2 of the a5 */
    assert_in(written, "\n0,4,0x0000000000000000,2,1,200,0,");
    assert_null(strstr(written, "0x0000000000000001"));
    snapshot.platform = "a2a3sim";
    snapshot.diagnostics.pmu = 4;
    write_with(trace_write_pmu, &s);
    assert_in(written, "pmu_total_cycles,ub_read_req,");
    trace_slices_free(&s);
}

static void scopes_are_lines_with_the_sizes_of_rings(void **state)
{
    struct trace_snapshot snapshot = begin();
    const struct chip_scope scope = { .site = "orch.c", .line = 5, .depth = 1, .task_end = 9 };
    struct trace_slices s;

    (void)state;
    snapshot.status = PTO_ESTALL;
    snapshot.rings.task_window[1] = 64;
    snapshot.record.scope = &scope;
    snapshot.record.scope_count = 1;
    snapshot.record.scopes_lost = 2;
    s = make(&snapshot);
    write_with(trace_write_scope_stats, &s);
    assert_in(written, "\"fatal\": true, \"dropped\": 2, \"total\": 3");
    assert_in(written, ", 64, ");
    assert_in(written,
              "{\"site\": \"orch.c:5\", \"phase\": \"begin\", \"depth\": 1, \"ring\": 0, ");
    assert_in(written, "\"task_window_end\": 9, ");
    trace_slices_free(&s);
}

/* Two executions, one without an end, a skipped task, and an edge to a task without a slice. */
static void a_timeline_has_slices_and_the_edges_between_them(void **state)
{
    static const struct chip_edge edge[] = { { .before = 0, .after = 1 },
                                             { .before = 0, .after = 3 } };
    struct trace_snapshot snapshot = begin();
    struct trace_slices s;

    (void)state;
    tell(0, "a.c");
    snapshot.record.task_records = tape;
    snapshot.record.task_bytes = tape_used;
    snapshot.record.edge = edge;
    snapshot.record.edge_count = 2;
    trace_put(&ring[0], 10100, TRACE_BEGIN, 1, 2, 0, 0);
    trace_put(&ring[0], 10200, TRACE_END, 1, 2, 0, 0);
    trace_put(&ring[0], 10300, TRACE_BEGIN, 2, 1, 2, 0);
    trace_put(&ring[0], 10400, TRACE_RUN, 3, TRACE_CORE_NONE, 0, 0);
    record[0][3].nothing = TRACE_SKIPPED;
    s = make(&snapshot);
    write_with(trace_write_perfetto, &s);
    assert_in(written, "\"name\":\"add\",\"pid\":1,\"tid\":6,\"ts\":0.200,\"dur\":0.200,");
    assert_in(written, "\"task\":0,\"block\":0,\"file\":\"a.c\",\"line\":12,");
    assert_in(written, "uint32[16]\"");
    assert_in(written, "\"scalars\":[\"0x5\",\"0x9\"]");
    assert_in(written, "\"ts\":0.600,\"dur\":1.400,\"args\":{\"task\":1,\"block\":0,\"note\":");
    assert_in(written, "{\"name\":\"AIV 0\"}");
    assert_in(written, "{\"name\":\"AIC 1\"}");
    assert_in(written, "{\"name\":\"skipped\"}");
    assert_in(written,
              "{\"ph\":\"s\",\"cat\":\"edge\",\"name\":\"edge\",\"id\":0,\"pid\":1,\"tid\":6,"
              "\"ts\":0.200}");
    assert_in(written, "\"id\":0,\"pid\":1,\"tid\":5,\"ts\":0.600}");
    assert_null(strstr(written, "\"id\":1,"));
    assert_in(written, "\"edges_without_slices\":1");
    assert_in(written, "\"skipped\":1,");
    assert_in(written, "\"tasks_without_slices\":1}");
    trace_slices_free(&s);
}

/* One timeline in a document of several: only its events, at its place, by the machine's clock. */
static void a_timeline_has_a_place_among_others(void **state)
{
    const struct trace_place place = { .pid = 7, .track = 100, .base_ns = 400000 };
    struct trace_snapshot snapshot = begin();
    struct trace_slices s;
    FILE *out = fmemopen(written, sizeof(written), "w");

    (void)state;
    assert_non_null(out);
    trace_put(&ring[0], 10100, TRACE_BEGIN, 1, 2, 0, 0);
    trace_put(&ring[0], 10200, TRACE_END, 1, 2, 0, 0);
    s = make(&snapshot);
    trace_put_perfetto(&s, &place, out);
    assert_int_equal(fclose(out), 0);
    assert_memory_equal(written, ",\n{", 3);
    assert_in(written, "\"pid\":7,\"tid\":106,\"ts\":100.200,\"dur\":0.200,");
    assert_null(strstr(written, "process_name"));
    trace_slices_free(&s);
}

/* One tensor, always the same, with the tag; and a dependency on no task. */
static void tell_access(uint32_t index, enum pto_tag tag)
{
    static uint32_t words[16];
    static const struct pto_entry entry;
    const struct pto_tensor tensor = pto_tensor_external(words, PTO_DIMS(16), 1, PTO_UINT32);
    struct pto_outputs out = { 0 };
    struct pto_task_view view = {
        .index = index, .task = { .raw = 100 + index }, .kernels = { -1, 0, -1 }, .entry = &entry
    };
    struct pto_args args;

    pto_args_init(&args);
    pto_add_input(&args, &tensor);
    args.tag[0] = (uint8_t)tag;
    view.args = &args;
    record_task(&own_tape,
                &(struct orch_submitted){ .view = &view, .out = &out, .begin = 1, .end = 2 });
}

/* A task that reads and writes a whole region replaces the earlier writers of the region. */
static void the_last_writer_of_a_region_is_its_predecessor(void **state)
{
    struct trace_snapshot snapshot = begin();
    struct trace_slices s;

    (void)state;
    tell_access(0, PTO_TAG_INOUT);
    tell_access(1, PTO_TAG_INPUT);
    tell_access(2, PTO_TAG_INOUT);
    tell_access(3, PTO_TAG_INPUT);
    snapshot.record.task_records = tape;
    snapshot.record.task_bytes = tape_used;
    s = make(&snapshot);
    write_with(trace_write_deps, &s);
    assert_in(written, "{\"task_id\":\"102\",\"scope\":\"auto\",");
    assert_in(written, "{\"pred\":\"100\",\"succ\":\"101\",\"arg\":0,\"source\":\"tensormap\"");
    assert_in(written, "\"overlap\":\"covered\"");
    assert_in(written, "{\"pred\":\"100\",\"succ\":\"102\",");
    assert_in(written, "{\"pred\":\"102\",\"succ\":\"103\",");
    assert_null(strstr(written, "{\"pred\":\"100\",\"succ\":\"103\","));
    assert_null(strstr(written, "{\"pred\":\"101\",")); /* it only reads */
    trace_slices_free(&s);
}

static void explicit_dependencies_are_edges_with_their_kind(void **state)
{
    struct trace_snapshot snapshot = begin();
    struct trace_slices s;

    (void)state;
    tell(0, "a.c");
    snapshot.record.task_records = tape;
    snapshot.record.task_bytes = tape_used;
    s = make(&snapshot);
    write_with(trace_write_deps, &s);
    assert_in(written,
              "{\"pred\":\"41\",\"succ\":\"100\",\"arg\":-1,\"source\":\"explicit\",\"flags\":"
              "[\"wait\",\"retain\"]}");
    assert_in(written, "{\"idx\":1,\"type\":\"OUTPUT\"}"); /* has no address before its submit */
    trace_slices_free(&s);
}

/* ---- arguments before and after tasks ---- */

static _Alignas(16) char dumps[1024];
static uint64_t dumps_used;

static void dump(struct chip_dump head, const char *content)
{
    head.bytes = content != NULL ? strlen(content) : 0;
    memcpy(dumps + dumps_used, &head, sizeof(head));
    memcpy(dumps + dumps_used + sizeof(head), content != NULL ? content : "", head.bytes);
    dumps_used += sizeof(head) + (head.bytes + 7) / 8 * 8;
}

static struct trace_snapshot begin_dumps(void)
{
    struct trace_snapshot snapshot = begin();

    dumps_used = 0;
    tell(0, "a.c");
    snapshot.record.task_records = tape;
    snapshot.record.task_bytes = tape_used;
    snapshot.record.dumped = dumps;
    snapshot.diagnostics.args = 2;
    return snapshot;
}

/* In the order of tasks, stages and arguments, whatever the order of the records is. */
static void dumped_arguments_are_listed_with_their_bytes(void **state)
{
    struct trace_snapshot snapshot = begin_dumps();
    struct trace_slices s;

    (void)state;
    dump((struct chip_dump){ .argument = 1, .is_after = 1, .is_truncated = 1 }, "after");
    dump((struct chip_dump){ .argument = CHIP_DUMP_SCALARS }, NULL);
    dump((struct chip_dump){ .argument = 0 }, "before--");
    dump((struct chip_dump){ .index = TASKS + 1 }, "of no task");
    dump((struct chip_dump){ .argument = 2 }, "of no argument");
    snapshot.record.dumped_bytes = dumps_used;
    snapshot.record.dumped_lost = 3;
    s = make(&snapshot);
    write_with(trace_write_args_bytes, &s);
    assert_string_equal(written, "before--after");
    write_with(trace_write_args_dump, &s);
    assert_in(written, "\"total_args\": 4,");
    assert_in(written, "\"after_completion\": 1,");
    assert_in(written, "\"input_args\": 3,");
    assert_in(written, "\"output_args\": 1,");
    assert_in(written, "\"truncated_args\": 1,");
    assert_in(written, "\"dropped_records\": 3,");
    assert_in(written, "\"arg_index\": 1, \"role\": \"output\", \"stage\": \"after_completion\"");
    assert_in(written, "\"bin_offset\": 8, \"bin_size\": 5, \"truncated\": true");
    assert_in(written,
              "\"arg_index\": 3, \"role\": \"input\", \"stage\": \"before_dispatch\", \"kind\": "
              "\"scalar\"");
    assert_in(written, "\"value\": 9,");
    trace_slices_free(&s);
}

/* The lower level writes marked scalars only, and none is marked. */
static void scalars_are_dumped_if_marked_or_if_all_are(void **state)
{
    struct trace_snapshot snapshot = begin_dumps();
    struct trace_slices s;

    (void)state;
    dump((struct chip_dump){ .argument = CHIP_DUMP_SCALARS }, NULL);
    snapshot.record.dumped_bytes = dumps_used;
    snapshot.diagnostics.args = 1;
    s = make(&snapshot);
    write_with(trace_write_args_dump, &s);
    assert_in(written, "\"total_args\": 0,");
    assert_in(written, "\"bin_file\": null");
    trace_slices_free(&s);
}

/* They may come from another process. */
static void a_dump_beyond_its_end_ends_the_list(void **state)
{
    struct trace_snapshot snapshot = begin_dumps();
    struct trace_slices s;
    uint64_t whole;

    (void)state;
    dump((struct chip_dump){ .argument = 0 }, "first---");
    whole = dumps_used;
    dump((struct chip_dump){ .argument = 0, .is_after = 1 }, "second--");
    for (uint64_t bytes = 0; bytes <= dumps_used; bytes++) {
        snapshot.record.dumped_bytes = bytes;
        s = make(&snapshot);
        write_with(trace_write_args_bytes, &s);
        assert_int_equal(strlen(written), bytes < whole ? 0 : bytes < dumps_used ? 8 : 16);
        trace_slices_free(&s);
    }
    ((struct chip_dump *)(void *)(dumps + whole))->bytes = UINT64_MAX - 3;
    snapshot.record.dumped_bytes = dumps_used;
    s = make(&snapshot);
    write_with(trace_write_args_bytes, &s);
    assert_string_equal(written, "first---");
    trace_slices_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begin_and_end_may_be_in_different_rings),
        cmocka_unit_test(records_of_one_stamp_share_its_time),
        cmocka_unit_test(records_that_gave_way_are_counted),
        cmocka_unit_test(records_of_no_task_are_left_out),
        cmocka_unit_test(cycles_become_times_within_the_run),
        cmocka_unit_test(what_is_told_of_a_task_is_found_again),
        cmocka_unit_test(damaged_tasks_end_what_is_told),
        cmocka_unit_test(a_name_that_is_no_multiple_of_8_bytes_is_refused),
        cmocka_unit_test(a_tape_that_is_full_loses_the_task),
        cmocka_unit_test(scopes_have_the_name_of_the_file_without_folders),
        cmocka_unit_test(names_are_texts_of_json),
        cmocka_unit_test(each_execution_is_a_line_of_counters),
        cmocka_unit_test(scopes_are_lines_with_the_sizes_of_rings),
        cmocka_unit_test(a_timeline_has_slices_and_the_edges_between_them),
        cmocka_unit_test(a_timeline_has_a_place_among_others),
        cmocka_unit_test(the_last_writer_of_a_region_is_its_predecessor),
        cmocka_unit_test(explicit_dependencies_are_edges_with_their_kind),
        cmocka_unit_test(dumped_arguments_are_listed_with_their_bytes),
        cmocka_unit_test(scalars_are_dumped_if_marked_or_if_all_are),
        cmocka_unit_test(a_dump_beyond_its_end_ends_the_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
