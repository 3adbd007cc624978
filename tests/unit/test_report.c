/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of reports, and their columns. */
#include <zlib.h>

#include "tool/cli/report_page.h"
#include "tool/see/columns.h"
#include "tool/see/page_lanes.h"

#include "tests/fixture/recording_test.h"

enum { PAGE_SLICES = 60000, SLICE_BYTES_MAX = 10 };

/* ---- columns ---- */

static uint8_t *decode_base64(const char *text, size_t *bytes)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = strlen(text), at = 0;
    uint8_t *raw = calloc(length + 3, 1);

    assert_int_equal(length % 4, 0);
    for (size_t i = 0; i < length; i += 4) {
        uint32_t bits = 0;

        for (size_t k = 0; k < 4; k++)
            bits = bits << 6 |
                   (text[i + k] == '=' ? 0 : (uint32_t)(strchr(digit, text[i + k]) - digit));
        raw[at++] = (uint8_t)(bits >> 16);
        raw[at++] = (uint8_t)(bits >> 8);
        raw[at++] = (uint8_t)bits;
    }
    *bytes = at;
    return raw;
}

static void columns_can_be_read_again(void **state)
{
    const uint64_t small[] = { 0, 1, 255 }, large[] = { 256, 0xffffffffff, 7 },
                   zig[] = { see_zigzag(0), see_zigzag(-1), see_zigzag(1), see_zigzag(-300) };
    struct see_columns c = { .count = 0 };
    uint8_t raw[64], *packed;
    uLongf bytes = sizeof(raw);
    size_t packed_bytes;
    char *text;

    (void)state;
    assert_int_equal(zig[1], 1);
    assert_int_equal(zig[2], 2);
    assert_int_equal(zig[3], 599);
    assert_int_equal(see_columns_add(&c, "small", small, 3), PTO_OK);
    assert_int_equal(see_columns_add(&c, "large", large, 3), PTO_OK);
    assert_int_equal(see_columns_add(&c, "none", NULL, 0), PTO_OK);
    assert_int_equal(c.count, 3);
    assert_int_equal(c.column[0].planes, 1);
    assert_int_equal(c.column[1].planes, 5);
    assert_int_equal(see_columns_pack(&c, &text), PTO_OK);
    packed = decode_base64(text, &packed_bytes);
    assert_int_equal(uncompress(raw, &bytes, packed, packed_bytes), Z_OK);
    assert_int_equal(bytes, 3 + 5 * 3);
    assert_memory_equal(raw, "\x00\x01\xff", 3);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t number = 0;

        for (uint32_t plane = 0; plane < 5; plane++)
            number |= (uint64_t)raw[3 + plane * 3 + i] << 8 * plane;
        assert_int_equal(number, large[i]);
    }
    free(packed);
    free(text);
    see_columns_free(&c);
}

/* ---- lanes ---- */

/* A chip with a core that has overlapping slices, which otherwise only SUB workers have. */
static void lanes_do_not_overlap(void **state)
{
    const uint64_t begin[] = { 0, 10, 20, 30, 35 }, end[] = { 25, 15, 40, 31, 50 };
    const uint32_t split[] = { 0, 1, 1, 0, 0 };
    struct see_layout layout;
    struct plan p;

    (void)state;
    plan_begin(&p, 1);
    for (uint32_t i = 0; i < 5; i++)
        (void)plan_task(&p, i == 0 ? plan_kernel(&p, "k", PTO_CORE_AIC) : 0, 1);
    (void)plan_play(&p);
    for (uint32_t i = 0; i < 5; i++) {
        p.r->slice[i].begin_ns = begin[i];
        p.r->slice[i].end_ns = end[i];
    }
    assert_int_equal(see_layout_make(p.r, &layout), PTO_OK);
    assert_int_equal(layout.lane_count, p.r->lane_count + 1);
    assert_int_equal(layout.lane[0].count + layout.lane[1].count, 5);
    for (uint64_t at = 0; at < 5; at++)
        assert_int_equal(split[layout.order[at]], at < layout.lane[0].count ? 0 : 1);
    for (uint64_t at = 1; at < 5; at++)
        if (at != layout.lane[0].count)
            assert_true(begin[layout.order[at]] >= end[layout.order[at - 1]]);
    see_layout_free(&layout);
    plan_end(&p);
}

/* ---- pages ---- */

static char *write_page(const struct report_about *about, size_t *bytes)
{
    char *page = NULL;
    FILE *to = open_memstream(&page, bytes);

    assert_int_equal(cli_report_write(to, about), PTO_OK);
    fclose(to);
    return page;
}

static uint32_t count_in(const char *text, const char *part)
{
    uint32_t count = 0;

    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* A chain of tasks of two kernels, the second of which needs the result of the first. */
static void make_chain(struct plan *p, const char *name, uint32_t count)
{
    plan_begin(p, 1);
    (void)plan_kernel(p, name, PTO_CORE_AIC);
    (void)plan_kernel(p, "second", PTO_CORE_AIV);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t task = plan_task(p, i % 2, 1000 + 10 * i);

        plan_line(p, task, "/somewhere/orch.c", 20 + i % 2);
        if (i > 0)
            plan_edge(p, i - 1, task, PTO_RECORDING_REASON_RAW, 0, 1);
    }
    (void)plan_play(p);
}

static void a_page_is_one_file(void **state)
{
    static const char *const outside[] = { "http:",          "https:",    "src=",
                                           "href=",          "@import",   "fetch(",
                                           "XMLHttpRequest", "WebSocket", "import(" };
    struct report_about about = { .title = "a \"title\" </script><b>&" };
    struct plan p;
    size_t bytes;
    char *page;

    (void)state;
    make_chain(&p, "</script>k", 40);
    about.r = p.r;
    page = write_page(&about, &bytes);
    assert_int_equal(strlen(page), bytes);
    for (uint32_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
        if (strstr(page, outside[i]) != NULL)
            fail_msg("the page has %s", outside[i]);
    assert_int_equal(count_in(page, "<script"), 3);
    assert_int_equal(count_in(page, "</script"), 3);
    assert_int_equal(count_in(page, "@META@") + count_in(page, "@DATA@") +
                         count_in(page, "@SCRIPT@") + count_in(page, "@STYLE@"),
                     0);
    assert_in(page, "default-src 'none'");
    assert_in(page, "\\u003c/script>k");
    assert_in(page, "\"orch.c\", \"line\": 21");
    assert_in(page, "</html>");
    free(page);
    plan_end(&p);
}

static void a_page_compares_two_runs(void **state)
{
    struct report_about about = { .title = "now", .other_title = "before" };
    struct plan p, other;
    size_t bytes;
    char *page;

    (void)state;
    make_chain(&p, "first", 40);
    make_chain(&other, "gone", 60);
    about.r = p.r;
    about.other = other.r;
    page = write_page(&about, &bytes);
    assert_in(page, "\"other\": {");
    assert_in(page, "\"title\": \"before\"");
    assert_in(page, "\"verdict\": \"This run took ");
    assert_in(page, "kernel 'gone', all cores");
    assert_in(page, "does not run any more");
    assert_in(page, "20 executions were 30");
    free(page);
    plan_end(&p);
    plan_end(&other);
}

/* Executions as a scheduler leaves them: durations vary, and each task waits for one before it. */
static void make_large(struct plan *p, uint32_t count)
{
    uint64_t seed = 1;

    plan_begin(p, 24);
    (void)plan_kernel(p, "matmul", PTO_CORE_AIC);
    (void)plan_kernel(p, "add", PTO_CORE_AIV);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t task = plan_task(p, i % 3 != 0, 1);

        if (i >= 72)
            plan_edge(p, i - 72, task, PTO_RECORDING_REASON_RAW, 0, 1);
    }
    p->r->slice = calloc(count, sizeof(*p->r->slice));
    p->r->slice_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct see_task *t = &p->r->task[i];
        uint64_t from = i >= 72 ? p->r->task[i - 72].end_ns : 0;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        t->submit_ns = 500 * (uint64_t)i / 72 + (seed >> 40) % 50;
        t->ready_by = i >= 72 ? i - 72 : PTO_RECORDING_NONE;
        t->ready_ns = from > t->submit_ns ? from : t->submit_ns;
        t->start_ns = t->ready_ns + 800 + (seed >> 33) % 100;
        t->end_ns = t->start_ns + 8000 + (seed >> 50) % 2000;
        p->r->slice[i] =
            (struct see_slice){ .begin_ns = t->start_ns,
                                .end_ns = t->end_ns,
                                .cpu_ns = PTO_RECORDING_NO_TIME,
                                .task = i,
                                .lane =
                                    i % 72 % 3 == 0 ? i % 72 / 3 : 24 + i % 72 / 3 * 2 + i % 3 - 1,
                                .kernel = i % 3 != 0 };
        p->r->length_ns = t->end_ns;
    }
    p->r->argument_from = calloc(count + 1, sizeof(*p->r->argument_from));
    p->r->scalar_from = calloc(count + 1, sizeof(*p->r->scalar_from));
    assert_int_equal(see_recording_index(p->r), PTO_OK);
}

static void a_slice_takes_few_bytes(void **state)
{
    uint32_t count = often(PAGE_SLICES, PAGE_SLICES / 4);
    struct report_about about = { .title = "large" };
    struct plan p;
    size_t bytes;
    char *page;

    (void)state;
    make_large(&p, count);
    about.r = p.r;
    page = write_page(&about, &bytes);
    if (bytes > (size_t)count * SLICE_BYTES_MAX + 100000)
        fail_msg("%zu bytes for %u slices", bytes, count);
    free(page);
    plan_end(&p);
}

static void a_run_without_executions_has_a_page(void **state)
{
    struct report_about about = { .title = "empty" };
    struct plan p;
    size_t bytes;
    char *page;

    (void)state;
    plan_begin(&p, 1);
    p.r->argument_from = calloc(1, sizeof(*p.r->argument_from));
    p.r->scalar_from = calloc(1, sizeof(*p.r->scalar_from));
    assert_int_equal(see_recording_index(p.r), PTO_OK);
    about.r = p.r;
    page = write_page(&about, &bytes);
    assert_in(page, "No core executed anything.");
    free(page);
    plan_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_can_be_read_again),
        cmocka_unit_test(lanes_do_not_overlap),
        cmocka_unit_test(a_page_is_one_file),
        cmocka_unit_test(a_page_compares_two_runs),
        cmocka_unit_test(a_slice_takes_few_bytes),
        cmocka_unit_test(a_run_without_executions_has_a_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
