/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings: records made by this test are written to a file, which is read again; then files are
 * read that are truncated at every byte, or that have random changes.
 */
#include "pto/recording.h"
#include "orch/record.h"
#include "tool/see/races.h"
#include "trace/snapshot.h"

#include "tests/fixture/fixture.h"
#include "tests/fixture/random_test.h"

enum { RECORDS = 32, TASKS = 4, AICS = 2, CORES = 6, TAPE_BYTES = 8192 };

static struct trace_record record[RECORDS];
static struct trace_ring ring;
static const struct trace_ring *const rings[] = { &ring };
static char *names[] = { "make", "use" };
static _Alignas(16) char tape[TAPE_BYTES];
static uint64_t tape_used;
static char *file, *worker; /* the recordings of a chip and of a worker */
static size_t file_bytes, worker_bytes;

static char *take_tape(void *context, uint64_t bytes)
{
    (void)context;
    assert_true(bytes <= TAPE_BYTES - tape_used);
    tape_used += bytes;
    return tape + tape_used - bytes;
}

/* A task of kernel `kernel` on AIV0 with one tensor and two scalars. */
static void submit(uint32_t index, int32_t kernel, enum pto_tag tag, uint64_t scalar)
{
    static float memory[64];
    static const struct pto_site site = { "orch.c", 7 };
    struct pto_tensor x = pto_tensor_external(memory, PTO_DIMS(8, 8), 2, PTO_FLOAT32);
    struct pto_args args;
    struct pto_task_view view = { .index = index,
                                  .task = { index },
                                  .kernels = { -1, kernel, -1 },
                                  .args = &args,
                                  .site = &site };
    struct pto_outputs out = { 0 };

    pto_args_init(&args);
    args.tensor[0] = &x;
    args.tag[0] = (uint8_t)tag;
    args.tensor_count = 1;
    args.scalar[0] = scalar;
    args.scalar[1] = 1ull << 63;
    args.scalar_count = 2;
    record_task(&(struct record_sink){ take_tape, NULL },
                &(struct orch_submitted){ .view = &view, .out = &out, .end = 10000 + 10 * index });
}

/* The orchestration reads or writes an element before it submits task `index`. */
static void use_element(uint32_t index, bool is_set)
{
    static float memory[1];
    static const struct pto_site site = { "orch.c", 9 };
    struct pto_tensor x = pto_tensor_external(memory, PTO_DIMS(1), 1, PTO_FLOAT32);

    record_element(&(struct record_sink){ take_tape, NULL },
                   &(struct orch_element){ &x, &site, index, is_set });
}

static void slice(uint32_t index, uint32_t core, uint32_t kernel, uint64_t begin, uint64_t end)
{
    trace_put(&ring, begin, TRACE_BEGIN, index + 1, core, kernel, 0);
    trace_put(&ring, end, TRACE_END, index + 1, core, 0, 0);
}

static const struct chip_edge edges[] = { { 1, 2 }, { 0, 1 } };
static struct trace_snapshot snapshot;

static void write_part(FILE *out)
{
    struct trace_slices slices;

    assert_int_equal(trace_slices_make(&snapshot, &slices), PTO_OK);
    assert_int_equal(trace_write_recording(&slices, out), PTO_OK);
    trace_slices_free(&slices);
}

/*
 * Writes a worker's part, and three parts of its chips: one of chip 1, then two of chip 0, the
 * later one first.
 */
static void write_worker(void)
{
    static const uint8_t kinds[CORES] = { PTO_RECORDING_LANE_CHIP, PTO_RECORDING_LANE_CHIP,
                                          PTO_RECORDING_LANE_SUB,  PTO_RECORDING_LANE_SUB,
                                          PTO_RECORDING_LANE_SUB,  PTO_RECORDING_LANE_WORKER };
    static const uint64_t numbers[TASKS] = { 11, 12, 13, 14 };
    static const struct {
        uint32_t chip, task;
        uint64_t begin_ns;
    } parts[] = { { 1, 12, 501000 }, { 0, 13, 501500 }, { 0, 11, 500500 } };
    struct trace_snapshot before = snapshot;
    char name[16];
    FILE *out = open_memstream(&worker, &worker_bytes);

    snapshot.group_name = "worker";
    snapshot.lane_kind = kinds;
    snapshot.task_number = numbers;
    snapshot.record.aic_count = 0;
    write_part(out);
    snapshot = before;
    snapshot.group_name = name;
    snapshot.parent_name = "worker";
    snapshot.run_mode = PTO_MODE_HOST;
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "chip %u", parts[i].chip);
        snapshot.chip = parts[i].chip;
        snapshot.parent_task = parts[i].task;
        snapshot.record.begin_ns = parts[i].begin_ns;
        snapshot.record.end_ns = parts[i].begin_ns + 2000;
        write_part(out);
    }
    snapshot = before;
    fclose(out);
}

/* Two writers, a reader of both, and one that never ran; 1 cycle is 2 ns. */
static int make_file(void **state)
{
    FILE *out = open_memstream(&file, &file_bytes);

    snapshot = (struct trace_snapshot){ .record = { .ring = rings,
                                                    .ring_count = 1,
                                                    .core_count = CORES,
                                                    .aic_count = AICS,
                                                    .begin_cycles = 10000,
                                                    .end_cycles = 11000,
                                                    .begin_ns = 500000,
                                                    .end_ns = 502000,
                                                    .tasks = TASKS,
                                                    .edge = edges,
                                                    .edge_count = 2,
                                                    .has_ready = true },
                                        .platform = "a5sim",
                                        .kernel_name = names,
                                        .kernel_count = 2,
                                        .mode = PTO_TRACE_ARGUMENTS,
                                        .deps = PTO_DEPS_SAFE };

    (void)state;
    ring = (struct trace_ring){ .record = record, .mask = RECORDS - 1 };
    submit(0, 0, PTO_TAG_OUTPUT_EXISTING, 5);
    submit(1, 0, PTO_TAG_OUTPUT_EXISTING, 5);
    use_element(2, false);
    submit(2, 1, PTO_TAG_INPUT, 6);
    use_element(TASKS, true);
    snapshot.record.task_records = tape;
    snapshot.record.task_bytes = tape_used;
    slice(0, AICS + 1, 0, 10100, 10200);
    trace_put_cpu(&ring, 10205, 1000, 1);
    trace_put(&ring, 10205, TRACE_READY, 2, 0, 1, 0);
    slice(1, AICS, 0, 10210, 10300);
    trace_put(&ring, 10310, TRACE_READY, 3, 0, 2, 0);
    slice(2, AICS, 1, 10400, 10600);
    trace_put(&ring, 10610, TRACE_DEFER, 3, 0, 0, 0);
    trace_put(&ring, 10700, TRACE_DONE, 3, 0, 0, 0);
    trace_no_run(&ring, 4, 0, TRACE_STOPPED);
    write_part(out);
    write_worker();
    return fclose(out);
}

static int free_file(void **state)
{
    (void)state;
    free(file);
    free(worker);
    return 0;
}

static struct see_recording *parse(const char *bytes, size_t size, int expected)
{
    struct see_recording *r = NULL;
    struct pto_error error;

    pto_error_init(&error);
    assert_int_equal(see_recording_parse(bytes, size, "it", &r, &error), expected);
    if (expected < 0)
        assert_in(error.text, "it: ");
    return r;
}

static void tasks_come_back_as_they_were(void **state)
{
    struct see_recording *r = parse(file, file_bytes, PTO_OK);

    (void)state;
    assert_string_equal(r->platform, "a5sim");
    assert_int_equal(r->length_ns, 2000);
    assert_int_equal(r->task_count, TASKS);
    assert_int_equal(r->kernel_count, 2);
    assert_string_equal(r->kernel[1].name, "use");
    assert_int_equal(r->kernel[1].core, PTO_CORE_AIV);
    assert_int_equal(r->group[0].aivs, CORES - AICS);
    assert_int_equal(r->task[0].submit_ns, 0);
    assert_int_equal(r->task[0].ready_ns, 0); /* at its submit */
    assert_int_equal(r->task[0].ready_by, PTO_RECORDING_NONE);
    assert_int_equal(r->task[0].start_ns, 200);
    assert_int_equal(r->task[0].end_ns, 400);
    assert_int_equal(r->task[2].submit_ns, 40);
    assert_int_equal(r->task[2].ready_ns, 620);
    assert_int_equal(r->task[2].ready_by, 1);
    assert_int_equal(r->task[2].end_ns, 1400); /* later than its kernel */
    assert_true((r->task[2].flags & PTO_RECORDING_DEFERRED) != 0);
    assert_true((r->task[3].flags & PTO_RECORDING_NEVER) != 0);
    assert_int_equal(r->task[2].kernel[1], 1);
    assert_int_equal(r->task[2].kernel[0], PTO_RECORDING_NONE);
    assert_string_equal(r->file[r->task[1].file], "orch.c");
    assert_int_equal(r->task[1].line, 7);
    see_recording_free(r);
}

static void equal_tasks_have_one_key(void **state)
{
    struct see_recording *r = parse(file, file_bytes, PTO_OK);

    (void)state;
    assert_int_equal(r->task[0].key, r->task[1].key);
    assert_int_not_equal(r->task[0].key, r->task[2].key);
    assert_true(r->task[3].key < r->key_count);
    see_recording_free(r);
}

static void slices_and_arguments_come_back(void **state)
{
    struct see_recording *r = parse(file, file_bytes, PTO_OK);
    const struct see_argument *a = &r->argument[r->argument_from[2]];
    const struct see_slice *s = &r->slice[r->slice_from[1]];

    (void)state;
    assert_int_equal(r->slice_count, 4);
    assert_int_equal(s->begin_ns, 420);
    assert_int_equal(s->end_ns, 600);
    assert_int_equal(r->lane[s->lane].kind, PTO_RECORDING_LANE_AIV);
    assert_int_equal(r->lane[s->lane].index, 0);
    assert_int_equal(s->cpu_ns, PTO_RECORDING_NO_TIME);
    assert_int_equal(r->lane[r->slice[3].lane].kind, PTO_RECORDING_LANE_NEVER);
    assert_int_equal(r->argument_count, 3);
    assert_int_equal(a->tag, PTO_TAG_INPUT);
    assert_int_equal(a->ndims, 2);
    assert_int_equal(a->shapes[1], 8);
    assert_int_equal(a->strides[0], 8);
    assert_int_equal(a->owner, PTO_RECORDING_NONE);
    assert_int_equal(r->scalar[r->scalar_from[2]], 6);
    assert_int_equal(r->scalar[r->scalar_from[2] + 1], 1ull << 63);
    see_recording_free(r);
}

static void elements_come_back(void **state)
{
    struct see_recording *r = parse(file, file_bytes, PTO_OK);

    (void)state;
    assert_int_equal(r->element_count, 2);
    assert_int_equal(r->element[0].task, 2);
    assert_int_equal(r->element[0].kind, PTO_RECORDING_ELEMENT_GET);
    assert_int_equal(r->element[0].line, 9);
    assert_string_equal(r->file[r->element[0].file], "orch.c");
    assert_int_equal(r->element[1].task, TASKS);
    assert_int_equal(r->element[1].kind, PTO_RECORDING_ELEMENT_SET);
    assert_int_equal(r->element[1].argument.addr, r->element[0].argument.addr);
    assert_int_equal(r->element[1].argument.shapes[0], 1);
    see_recording_free(r);
}

/*
 * Two kernels of 20 and 400 us between two records of CPU time; the thread had a CPU for 120 us of
 * 430.
 */
static void the_longest_kernel_lost_the_cpu(void **state)
{
    struct trace_snapshot snapshot = { .record = { .ring = rings,
                                                   .ring_count = 1,
                                                   .core_count = CORES,
                                                   .aic_count = AICS,
                                                   .begin_cycles = 1,
                                                   .end_cycles = 1000001,
                                                   .end_ns = 1000000,
                                                   .tasks = 3 } };
    struct trace_slices slices;

    (void)state;
    ring = (struct trace_ring){ .record = record, .mask = RECORDS - 1, .has_each_time = true };
    trace_put_cpu(&ring, 1001, 5000, 7);
    for (uint32_t i = 0; i < 3; i++) {
        static const uint32_t begin[] = { 1001, 25001, 440001 }, end[] = { 21001, 425001, 450001 };

        trace_put(&ring, begin[i], TRACE_BEGIN, i + 1, AICS, 0, 0);
        record[ring.count - 1].end = end[i];
        if (i > 0)
            trace_put_cpu(&ring, end[i] + 6000, i == 1 ? 125000 : 1000, i == 1 ? 7 : 8);
    }
    assert_int_equal(trace_slices_make(&snapshot, &slices), PTO_OK);
    assert_int_equal(slices.count, 3);
    assert_true(slices.slice[0].has_cpu && slices.slice[1].has_cpu);
    assert_int_equal(slices.slice[0].cpu_lost_ns, 0);
    /* 420 us of kernels in 120 us of CPU time */
    assert_int_equal(slices.slice[1].cpu_lost_ns, 300000);
    assert_false(slices.slice[2].has_cpu); /* another thread */
    trace_slices_free(&slices);
}

/* Whatever a file contains, all indices and times that are read are in range. */
static void check_indices(const struct see_recording *r)
{
    for (uint32_t i = 0; i < r->task_count; i++) {
        const struct see_task *t = &r->task[i];

        assert_true(t->ready_by == PTO_RECORDING_NONE || t->ready_by < i);
        assert_true(t->file == PTO_RECORDING_NONE || t->file < r->file_count);
        assert_true(t->parent == PTO_RECORDING_NONE || t->parent < r->task_count);
        assert_true(t->key < r->key_count && t->group < r->group_count);
        for (uint32_t lane = 0; lane < 3; lane++)
            assert_true(t->kernel[lane] == PTO_RECORDING_NONE || t->kernel[lane] < r->kernel_count);
        assert_true(r->argument_from[i] <= r->argument_from[i + 1]);
        assert_true(r->scalar_from[i] <= r->scalar_from[i + 1]);
        assert_true(t->submit_ns == PTO_RECORDING_NO_TIME || t->submit_ns <= t->start_ns);
        assert_true(t->start_ns == PTO_RECORDING_NO_TIME || t->start_ns <= t->end_ns);
    }
    assert_int_equal(r->argument_from[r->task_count], r->argument_count);
    for (uint64_t i = 0; i < r->slice_count; i++) {
        assert_true(r->slice[i].task < r->task_count && r->slice[i].lane < r->lane_count);
        assert_true(r->slice[i].kernel == PTO_RECORDING_NONE ||
                    r->slice[i].kernel < r->kernel_count);
        assert_true(r->slice[i].begin_ns <= r->slice[i].end_ns);
    }
    for (uint64_t i = 0; i < r->edge_count; i++)
        assert_true(r->edge[i].from < r->edge[i].to && r->edge[i].to < r->task_count);
    for (uint64_t i = 0; i < r->argument_count; i++)
        assert_true(r->argument[i].allocation < r->allocation_count &&
                    r->argument[i].ndims <= PTO_MAX_DIMS && r->argument[i].dtype < PTO_DTYPE_COUNT);
    for (uint32_t i = 0; i < r->element_count; i++) {
        const struct see_element *e = &r->element[i];

        assert_true(e->task <= r->task_count && e->group < r->group_count);
        assert_true(e->file == PTO_RECORDING_NONE || e->file < r->file_count);
    }
}

/* Searches the recording for races; the search must end and access only its own memory. */
static void check_search(const struct see_recording *r)
{
    struct see_races races;

    for (uint32_t i = 0; i < r->group_count; i++) {
        assert_int_equal(see_races_find(r, i, NULL, NULL, &races), PTO_OK);
        see_races_free(&races);
    }
}

static void a_truncated_file_is_refused(void **state)
{
    (void)state;
    for (size_t size = 0; size < file_bytes; size++) {
        /* a block of the exact size, so that a read beyond its end is detected */
        char *bytes = malloc(size + 1);

        memcpy(bytes, file, size);
        (void)parse(bytes, size, PTO_EINVAL);
        free(bytes);
    }
}

/* Corrects the checksum, so that the damaged number itself must be detected. */
static void mend_sums(char *bytes, size_t size)
{
    struct pto_recording_section section[PTO_RECORDING_SECTION_COUNT];
    struct pto_recording_head head;

    for (uint64_t from = 0; size - from >= sizeof(head) + sizeof(section); from += head.bytes) {
        uint64_t at = from + sizeof(head) + sizeof(section);

        memcpy(&head, bytes + from, sizeof(head));
        memcpy(section, bytes + from + sizeof(head), sizeof(section));
        for (uint32_t i = 0; i < PTO_RECORDING_SECTION_COUNT; i++) {
            uint64_t sum = 0xcbf29ce484222325ull;

            if (at > size || section[i].bytes > size - at)
                break;
            for (uint64_t k = 0; k < section[i].bytes; k++)
                sum = (sum ^ (uint8_t)bytes[at + k]) * 0x100000001b3ull;
            section[i].checksum = sum;
            at += section[i].bytes;
        }
        memcpy(bytes + from + sizeof(head), section, sizeof(section));
        if (head.bytes == 0 || head.bytes > size - from)
            return;
    }
}

static void a_damaged_file_is_refused_or_sound(void **state)
{
    static const uint8_t odd[] = { 0, 1, 0x7f, 0x80, 0xff };
    uint32_t read = 0, rounds = often(40000, 10000);

    (void)state;
    for (uint32_t i = 0; i < rounds; i++) {
        char *bytes = malloc(file_bytes);
        struct see_recording *r = NULL;
        uint32_t changes = 1 + random_below(3);
        bool is_mended = random_below(8) != 0;
        int status;

        memcpy(bytes, file, file_bytes);
        chance.state ^= i;
        for (uint32_t k = 0; k < changes; k++) {
            uint32_t at = random_below(file_bytes);

            bytes[at] =
                (char)(random_below(2) != 0 ? odd[random_below(sizeof(odd))]
                                            : (uint8_t)bytes[at] + (random_below(2) != 0 ? 1 : -1));
        }
        if (is_mended)
            mend_sums(bytes, file_bytes);
        status = see_recording_parse(bytes, file_bytes, "it", &r, NULL);
        assert_true(status == PTO_OK || status == PTO_EINVAL);
        if (status == PTO_OK) {
            check_indices(r);
            check_search(r);
        }
        read += status == PTO_OK;
        see_recording_free(r);
        free(bytes);
    }
    /* the checksums were corrected, and most numbers may have any value */
    assert_true(read > rounds / 100);
    assert_true(read < rounds);
}

static void a_changed_byte_is_noticed_by_its_sum(void **state)
{
    size_t first = sizeof(struct pto_recording_head) +
                   PTO_RECORDING_SECTION_COUNT * sizeof(struct pto_recording_section);

    (void)state;
    for (size_t at = first; at < file_bytes; at++) {
        file[at] ^= 1;
        (void)parse(file, file_bytes, PTO_EINVAL);
        file[at] ^= 1;
    }
}

static void other_versions_and_files_are_refused(void **state)
{
    struct pto_recording_head *head = (void *)file;
    struct pto_error error;
    struct see_recording *r;

    (void)state;
    pto_error_init(&error);
    head->version++;
    assert_int_equal(see_recording_parse(file, file_bytes, "it", &r, &error), PTO_EINVAL);
    assert_in(error.text, "it: the recording is of another version of pto");
    head->version--;
    head->magic++;
    assert_int_equal(see_recording_parse(file, file_bytes, "it", &r, &error), PTO_EINVAL);
    assert_in(error.text, "it: this is no recording");
    head->magic--;
    assert_int_equal(see_recording_read("/nowhere/at/all", &r, &error), PTO_ESYSTEM);
}

static void parts_of_a_group_are_joined_in_the_order_of_time(void **state)
{
    struct see_recording *r = parse(worker, worker_bytes, PTO_OK);
    const struct see_group *g = r->group;

    (void)state;
    check_indices(r);
    assert_int_equal(r->group_count, 3);
    assert_string_equal(g[0].name, "worker");
    assert_int_equal(g[0].kind, PTO_RECORDING_GROUP_WORKER);
    assert_int_equal(g[0].parent, PTO_RECORDING_NONE);
    assert_int_equal(g[0].aics + g[0].aivs, 0);
    assert_string_equal(g[1].name, "chip 1");
    assert_string_equal(g[2].name, "chip 0");
    assert_int_equal(g[2].parent, 0);
    assert_int_equal(g[2].task_end - g[2].task_begin, 2 * TASKS);
    assert_int_equal(g[2].lane_end - g[2].lane_begin, CORES + TRACE_NOTHINGS);
    assert_int_equal(g[2].begin_ns, 500);
    assert_int_equal(r->mode, PTO_MODE_HOST);
    for (uint32_t i = 0; i < 2 * TASKS; i++) {
        assert_int_equal(r->task[g[2].task_begin + i].parent, i < TASKS ? 0 : 2);
        assert_int_equal(r->task[g[2].task_begin + i].group, 2);
    }
    assert_int_equal(r->task[g[2].task_begin].start_ns, 500 + 200);
    assert_int_equal(r->task[g[2].task_begin + TASKS].start_ns, 1500 + 200);
    assert_int_equal(r->task[g[2].task_begin + TASKS + 2].ready_by, g[2].task_begin + TASKS + 1);
    assert_int_equal(r->kernel_count, 4); /* chips share kernels; callables are no kernels */
    assert_int_equal(r->length_ns, 3500);
    see_recording_free(r);
}

static void a_worker_has_lanes_for_its_children(void **state)
{
    struct see_recording *r = parse(worker, worker_bytes, PTO_OK);
    const struct see_lane *lane;

    (void)state;
    assert_int_equal(r->task[0].id, 11);
    lane = &r->lane[r->slice[r->slice_from[0]].lane]; /* ran on child 3 */
    assert_int_equal(lane->kind, PTO_RECORDING_LANE_SUB);
    assert_int_equal(lane->index, 3);
    assert_int_equal(r->lane[0].kind, PTO_RECORDING_LANE_CHIP);
    assert_int_equal(r->lane[5].kind, PTO_RECORDING_LANE_WORKER);
    assert_int_equal(r->kernel[r->task[0].kernel[1]].core, PTO_CORE_TYPES);
    assert_true(r->edge_count > 0);
    for (uint64_t i = r->edge_from[2]; i < r->edge_from[3]; i++) /* they ended after its submit */
        assert_true(r->edge[i].is_wired);
    see_recording_free(r);
}

static void damaged_parts_are_refused_or_sound(void **state)
{
    char *copy = malloc(worker_bytes);

    (void)state;
    for (size_t size = 0; size < worker_bytes; size += 7) {
        struct see_recording *r = NULL;

        if (see_recording_parse(worker, size, "it", &r, NULL) == PTO_OK)
            check_indices(r); /* it ended after a part */
        see_recording_free(r);
    }
    for (int i = 0; i < 500; i++) {
        struct see_recording *r = NULL;

        memcpy(copy, worker, worker_bytes);
        copy[random_below(worker_bytes)] ^= (char)(1 << random_below(8));
        mend_sums(copy, worker_bytes);
        if (see_recording_parse(copy, worker_bytes, "it", &r, NULL) == PTO_OK)
            check_indices(r);
        see_recording_free(r);
    }
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_come_back_as_they_were),
        cmocka_unit_test(equal_tasks_have_one_key),
        cmocka_unit_test(slices_and_arguments_come_back),
        cmocka_unit_test(elements_come_back),
        cmocka_unit_test(the_longest_kernel_lost_the_cpu),
        cmocka_unit_test(a_truncated_file_is_refused),
        cmocka_unit_test(a_damaged_file_is_refused_or_sound),
        cmocka_unit_test(a_changed_byte_is_noticed_by_its_sum),
        cmocka_unit_test(other_versions_and_files_are_refused),
        cmocka_unit_test(parts_of_a_group_are_joined_in_the_order_of_time),
        cmocka_unit_test(a_worker_has_lanes_for_its_children),
        cmocka_unit_test(damaged_parts_are_refused_or_sound),
    };

    return cmocka_run_group_tests(tests, make_file, free_file);
}
