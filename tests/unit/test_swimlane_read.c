/* SPDX-License-Identifier: Apache-2.0 */
/* simpler's files read as recordings, joined recordings of ranks, and graphs of recordings. */
#include "tool/see/graph_text.h"
#include "tool/see/recording_join.h"
#include "tool/see/swimlane_read.h"

#include "tests/fixture/fixture.h"

enum { PATH_BYTES = 128 };

static void put_file(const char *name, const char *text, size_t bytes)
{
    char path[PATH_BYTES];
    FILE *to;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    to = fopen(path, "w");
    assert_non_null(to);
    assert_int_equal(fwrite(text, 1, bytes, to), bytes);
    fclose(to);
}

static const char records[] =
    "{\"chip_swimlane_level\": 4, \"metadata\": {\"clock_freq_hz\": 50000000, \"num_cores\": 3,"
    " \"core_types\": [\"aic\", \"aiv\", \"aiv\"], \"other\": {\"a\": [1, 2.5e3, null]}},\n"
    "\"aicore_tasks\": [[0, 4294967297, 0, 1100, 1200, 7],\n[2, 4294967298, 0, 1250, 1300, 7]],\n"
    "\"aicpu_orchestrator_phases\": [[{\"submit_idx\": 0, \"task_id\": 4294967297, "
    "\"start_cycles\": 1000, \"end_cycles\": 1010},\n{\"submit_idx\": 1, \"task_id\": 4294967298, "
    "\"start_cycles\": 1020, \"end_cycles\": 1030}], []]}\n";
static const char deps[] =
    "{\"tasks\":[{\"task_id\":\"4294967297\",\"kernel_ids\":[0,-1,-1],\"block_num\":1,\"args\":[{}]"
    "},"
    "{\"task_id\":\"4294967298\",\"kernel_ids\":[-1,1,-1]}],\"tensors\":[],\"edges\":["
    "{\"pred\":\"4294967297\",\"succ\":\"4294967298\",\"arg\":2,\"source\":\"tensormap\"},"
    "{\"pred\":\"99\",\"succ\":\"4294967298\",\"arg\":0,\"source\":\"creator\"}]}";
static const char names[] =
    "{\"level\":2,\"callable_id_to_name\":{\"0\":\"mat\\u006dul\",\"1\":\"add\",\"7\":\"other\"}}";

static int read_records(struct see_recording **r, struct pto_error *error)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/chip_swimlane_records.json", folder);
    return see_swimlane_read(path, r, error);
}

static void files_of_simpler_are_recordings(void **state)
{
    struct pto_error error = { .size = sizeof(error) };
    struct see_recording *r;

    (void)state;
    put_file("chip_swimlane_records.json", records, strlen(records));
    assert_int_equal(read_records(&r, &error), PTO_OK);
    assert_int_equal(r->task_count, 2);
    assert_string_equal(r->kernel[0].name, "task"); /* which one is in deps.json */
    see_recording_free(r);

    put_file("deps.json", deps, strlen(deps));
    put_file("name_map_case.json", names, strlen(names));
    assert_int_equal(read_records(&r, &error), PTO_OK);
    assert_int_equal(r->task_count, 2);
    assert_int_equal(r->slice_count, 2);
    assert_string_equal(r->kernel[0].name, "matmul");
    assert_int_equal(r->kernel[0].core, PTO_CORE_AIC);
    assert_int_equal(r->kernel[r->slice[1].kernel].core, PTO_CORE_AIV);
    assert_string_equal(r->kernel[r->slice[1].kernel].name, "add");
    assert_int_equal(r->slice[0].begin_ns, 2000); /* 100 cycles after the first submit */
    assert_int_equal(r->slice[1].end_ns, 6000);
    assert_int_equal(r->length_ns, 6000);
    assert_int_equal(r->task[1].submit_ns, 600);
    assert_int_equal(r->task[1].ready_by, 0);
    assert_int_equal(r->task[1].ready_ns, 4000);
    assert_int_equal(r->lane[2].kind, PTO_RECORDING_LANE_AIV);
    assert_int_equal(r->lane[2].index, 1);
    assert_int_equal(r->edge_count, 1);
    assert_int_equal(r->edge[0].reason, PTO_RECORDING_REASON_RAW);
    assert_int_equal(r->edge[0].to_argument, 2);
    see_recording_free(r);
}

/*
 * Rows of older versions lack a column; a graph that the host built has submits by another clock;
 * tasks of graphs that a task expands are not in deps.json.
 */
static void files_of_other_versions_are_recordings(void **state)
{
    static const char old[] =
        "{\"chip_swimlane_level\": 1, \"metadata\": {\"clock_freq_hz\": 1000000000, \"num_cores\": "
        "2, \"core_types\": [\"aic\", \"aiv\"], \"orchestrator_source\": \"host\", "
        "\"host_capture\": {\"status\": \"complete\", \"error\": null}},\n"
        "\"aicore_tasks\": [[0, 7, 0, 500, 900], [1, 7, 1, 510, 700], [1, 4294974464, 2, 950, "
        "990]],"
        "\n\"aicpu_tasks\": [],\n\"host_orchestrator_phases\": [[{\"submit_idx\": 0, \"task_id\": "
        "7, "
        "\"start_host_ns\": 99, \"end_host_ns\": 100}]]}\n";
    static const char mixed[] = "{\"tasks\":[{\"task_id\":\"7\",\"kernel_ids\":[3,-1,1]}],"
                                "\"edges\":[]}";
    struct pto_error error = { .size = sizeof(error) };
    struct see_recording *r;
    char path[PATH_BYTES];

    (void)state;
    assert_false(see_swimlane_find(folder, path, sizeof(path)));
    put_file("l2_swimlane_records.json", old, strlen(old));
    put_file("deps.json", mixed, strlen(mixed));
    assert_true(see_swimlane_find(folder, path, sizeof(path)));
    assert_int_equal(see_swimlane_read(path, &r, &error), PTO_OK);
    assert_int_equal(r->task_count, 2);
    assert_int_equal(r->length_ns, 490);
    assert_string_equal(r->kernel[r->slice[0].kernel].name, "kernel 3");
    assert_string_equal(r->kernel[r->slice[1].kernel].name, "kernel 1");
    assert_string_equal(r->kernel[r->slice[2].kernel].name, "unknown kernel");
    see_recording_free(r);
}

/* Files from before June 2026, and traces that simpler's tools make of the files, have other lists. */
static void files_without_executions_are_refused(void **state)
{
    static const char early[] = "{\"version\": 2, \"tasks\": [{\"task_id\": 1, \"func_id\": 0}]}";
    struct pto_error error = { .size = sizeof(error) };
    struct see_recording *r;
    char path[PATH_BYTES];

    (void)state;
    assert_false(see_swimlane_find(folder, path, sizeof(path)));
    put_file("l2_perf_records.json", early, strlen(early));
    assert_true(see_swimlane_find(folder, path, sizeof(path)));
    assert_int_equal(see_swimlane_read(path, &r, &error), PTO_EINVAL);
    assert_in(error.text, "l2_perf_records.json: there is no list 'aicore_tasks'");
}

/*
 * A file that is truncated anywhere, or has a wrong character, is refused or read, without a crash.
 */
static void damaged_files_are_refused(void **state)
{
    struct pto_error error = { .size = sizeof(error) };
    struct see_recording *r;
    char copy[sizeof(records)];

    (void)state;
    for (size_t bytes = 0; bytes < strlen(records) - 2; bytes++) {
        put_file("chip_swimlane_records.json", records, bytes);
        assert_int_equal(read_records(&r, &error), PTO_EINVAL);
        assert_in(error.text, "chip_swimlane_records.json: line ");
    }
    for (size_t at = 0; at < strlen(records); at++) {
        memcpy(copy, records, sizeof(copy));
        copy[at] = "]}{[,:\"-9"[at % 9];
        put_file("chip_swimlane_records.json", copy, strlen(copy));
        if (read_records(&r, &error) == PTO_OK)
            see_recording_free(r);
    }
    put_file("chip_swimlane_records.json", records, strlen(records));
    put_file("deps.json", deps, strlen(deps) / 2);
    assert_int_equal(read_records(&r, &error), PTO_EINVAL);
    assert_in(error.text, "deps.json: line 1 ");
}

/* ---- graphs ---- */

static uint32_t count_in(const char *text, const char *part)
{
    uint32_t count = 0;

    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* Tasks of two kernels in a chain, as simpler's files have them. */
static void put_chain(uint32_t count)
{
    char text[8192];
    FILE *to = fmemopen(text, sizeof(text), "w");

    fputs("{\"metadata\": {\"core_types\": [\"aic\"]}, \"aicore_tasks\": [", to);
    for (uint32_t i = 0; i < count; i++)
        fprintf(to, "%s[0, %u, 0, %u, %u, 0]", i != 0 ? "," : "", i, 100 * i, 100 * i + 80);
    fputs("]}", to);
    fclose(to);
    put_file("chip_swimlane_records.json", text, strlen(text));
    to = fmemopen(text, sizeof(text), "w");
    fputs("{\"tasks\": [", to);
    for (uint32_t i = 0; i < count; i++)
        fprintf(to, "%s{\"task_id\": \"%u\", \"kernel_ids\": [%u, -1, -1]}", i != 0 ? "," : "", i,
                i % 2);
    fputs("], \"edges\": [", to);
    for (uint32_t i = 1; i < count; i++)
        fprintf(to, "%s{\"pred\": \"%u\", \"succ\": \"%u\", \"arg\": 1, \"source\": \"tensormap\"}",
                i != 1 ? "," : "", i - 1, i);
    fputs("]}", to);
    fclose(to);
    put_file("deps.json", text, strlen(text));
}

static void graphs_are_text_for_graphviz(void **state)
{
    static const char quoted[] =
        "{\"callable_id_to_name\": {\"0\": \"a \\\"b\\\" \\\\n\", \"1\": \"second\"}}";
    struct pto_error error = { .size = sizeof(error) };
    struct see_recording *r;
    uint32_t left_out = 0;
    char *text = NULL;
    size_t bytes;
    FILE *to;

    (void)state;
    put_chain(40);
    put_file("name_map.json", quoted, strlen(quoted));
    assert_int_equal(read_records(&r, &error), PTO_OK);
    to = open_memstream(&text, &bytes);
    assert_int_equal(see_graph_kernels(r, to), PTO_OK);
    fclose(to);
    assert_in(text, "k0 [label=\"a \\\"b\\\" \\\\n\\n20 tasks\\n\"]");
    assert_in(text, "k0 -> k1 [label=\"20 RAW\\n\"]");
    assert_in(text, "k1 -> k0 [label=\"19 RAW\\n\"]");
    free(text);

    to = open_memstream(&text, &bytes);
    assert_int_equal(see_graph_around(r, 10, 2, to, &left_out), PTO_OK);
    fclose(to);
    assert_int_equal(left_out, 0);
    assert_int_equal(count_in(text, " -> "), 4); /* of tasks 8 to 12 */
    assert_in(text, "t10 [penwidth=3, ");
    assert_in(text, "t9 -> t10 [color=red, label=\"RAW\"]");
    assert_null(strstr(text, "t7 ["));
    free(text);
    see_recording_free(r);
}

/* ---- ranks ---- */

static void ranks_are_one_recording(void **state)
{
    static const uint32_t rank[] = { 0, 3 };
    struct pto_error error = { .size = sizeof(error) };
    struct see_recording *part[2], *r;

    (void)state;
    put_chain(5);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(read_records(&part[i], &error), PTO_OK);
        part[i]->begin_ns = 1000 + 50 * i;
    }
    assert_int_equal(see_recording_join(part, rank, 2, &r), PTO_OK);
    assert_int_equal(r->group_count, 2);
    assert_string_equal(r->group[1].name, "rank 3");
    assert_int_equal(r->group[1].task_begin, 5);
    assert_int_equal(r->group[1].lane_begin, part[0]->lane_count);
    assert_int_equal(r->task_count, 10);
    assert_int_equal(r->kernel_count, part[0]->kernel_count);
    assert_int_equal(r->length_ns, part[0]->length_ns + 50);
    assert_int_equal(r->slice[r->slice_from[7]].begin_ns, 250);
    assert_int_equal(r->slice[r->slice_from[7]].lane, part[0]->lane_count);
    assert_int_equal(r->task[7].ready_by, 6);
    assert_int_equal(r->edge_from[7] + 1, r->edge_from[8]);
    assert_int_equal(r->edge[r->edge_from[7]].from, 6);
    assert_int_equal(r->task[5].ready_by, PTO_RECORDING_NONE);
    for (uint32_t i = 0; i < 2; i++)
        see_recording_free(part[i]);
    see_recording_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_of_simpler_are_recordings, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(files_of_other_versions_are_recordings, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(files_without_executions_are_refused, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(damaged_files_are_refused, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(graphs_are_text_for_graphviz, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(ranks_are_one_recording, make_folder, remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
