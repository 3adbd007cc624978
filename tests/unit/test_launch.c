/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto launch` on several hosts: lists of hosts, placement of ranks, and messages of the channel.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/launch_job.h"
#include "tool/cli/launch_places.h"

#include <fcntl.h>

#include "base/file.h"

#include "tests/fixture/fixture.h"
#include "tests/fixture/random_test.h"

static struct launch_places places;
static struct pto_error error;

static int begin(void **state)
{
    (void)state;
    memset(&places, 0, sizeof(places));
    pto_error_init(&error);
    return 0;
}

/* Assigns ranks to the hosts of a list and expects "NAME first+count" of each. */
static void expect_places(const char *list, uint32_t ranks, const char *want)
{
    char got[512] = "";

    (void)begin(NULL);
    assert_int_equal(cli_launch_places_add(&places, list, &error), PTO_OK);
    assert_int_equal(cli_launch_places_assign(&places, &ranks, &error), PTO_OK);
    for (uint32_t i = 0; i < places.count; i++) {
        const struct launch_place *p = &places.place[i];
        size_t used = strlen(got);

        snprintf(got + used, sizeof(got) - used, "%s%s %u+%u", i > 0 ? ", " : "", p->name, p->first,
                 p->count);
    }
    assert_string_equal(got, want);
}

static void ranks_fill_hosts_in_order(void **state)
{
    (void)state;
    expect_places("a,b,c", 0, "a 0+1, b 1+1, c 2+1");
    expect_places("a:2,b:3", 0, "a 0+2, b 2+3");
    expect_places("a:2,b:3", 3, "a 0+2, b 2+1");
    expect_places("a,b,c", 2, "a 0+1, b 1+1"); /* host c has no rank, so it is left out */
    expect_places("a,b,c", 8, "a 0+3, b 3+3, c 6+2");
    expect_places("a,b,a", 0, "a 0+2, b 2+1");
    expect_places("me@a:2,10.0.0.7,fe80::1,[::1]:2", 0,
                  "me@a 0+2, 10.0.0.7 2+1, fe80::1 3+1, ::1 4+2");
}

static void expect_refused(const char *list, uint32_t ranks, const char *says)
{
    int status;

    (void)begin(NULL);
    status = cli_launch_places_add(&places, list, &error);
    if (status == PTO_OK)
        status = cli_launch_places_assign(&places, &ranks, &error);
    assert_int_equal(status, PTO_EINVAL);
    assert_non_null(strstr(error.text, says));
}

static void lists_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    expect_refused("a,,b", 2, "'' is not the name of a host");
    expect_refused("-oProxyCommand=x", 1, "is not the name of a host");
    expect_refused("a;reboot", 1, "is not the name of a host");
    expect_refused("a:0", 1, "a number of ranks, 1 to ");
    expect_refused("a:many", 1, "a number of ranks, 1 to ");
    expect_refused("a:2,b:2", 5, "5 ranks do not fit: the hosts have 4 slots");
    expect_refused("a:1024,b:1", 0, "1025 ranks are more than 1024");
}

static void a_file_of_hosts_names_its_wrong_line(void **state)
{
    static const char text[] = "# hosts\na slots=2\n\n  b:3 # here\nc\n";
    char path[256];
    int file;

    (void)state;
    snprintf(path, sizeof(path), "%s/pto-hosts-%d", file_temporary_folder(), (int)getpid());
    assert_int_equal(file_write(path, text, strlen(text)), PTO_OK);
    assert_int_equal(cli_launch_places_read(&places, path, &error), PTO_OK);
    assert_int_equal(places.count, 3);
    assert_string_equal(places.place[1].name, "b");
    assert_int_equal(places.place[1].slots, 3);
    file = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(file, "d cpus=3\n", 9), 9);
    close(file);
    assert_int_equal(cli_launch_places_read(&places, path, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, ":6: slots=COUNT must follow a name, not 'cpus=3'"));
    (void)unlink(path);
}

/* ---- what crosses the channel ---- */

static char *words[] = { "echo", "two words", "", NULL };
static char *variables[] = { "PTO_A=1", NULL };

static struct launch_job make_job(void)
{
    return (struct launch_job){ .first = 2,
                                .count = 3,
                                .total = 8,
                                .binding = RANKS_ANY,
                                .has_prefix = true,
                                .has_input = true,
                                .grace = 2.5,
                                .silence = 30,
                                .token = "t",
                                .key = "k",
                                .folder = "/",
                                .peers = "a\nb\n",
                                .is_root = true,
                                .word_count = 3,
                                .words = words,
                                .variable_count = 1,
                                .variables = variables };
}

static void a_job_crosses_the_channel(void **state)
{
    struct launch_job job = make_job(), got;
    struct bytes b = { .at = NULL };
    struct reader from;

    (void)state;
    cli_launch_job_encode(&job, &b);
    from = (struct reader){ .at = b.at, .end = b.at + b.end };
    assert_true(cli_launch_job_decode(&from, &got));
    assert_int_equal(got.first, 2);
    assert_int_equal(got.count, 3);
    assert_true(got.is_root && got.has_input && got.has_prefix);
    assert_true(got.grace == 2.5 && got.silence == 30);
    assert_string_equal(got.peers, "a\nb\n");
    assert_int_equal(got.word_count, 3);
    assert_string_equal(got.words[1], "two words");
    assert_string_equal(got.words[2], "");
    assert_null(got.words[3]);
    assert_string_equal(got.variables[0], "PTO_A=1");
    cli_launch_job_free(&got);
    cli_bytes_free(&b);
}

/* Each prefix in a separate block, so that a sanitizer detects a read beyond it. */
static void a_job_that_is_cut_off_is_refused(void **state)
{
    struct launch_job job = make_job(), got;
    struct bytes b = { .at = NULL };

    (void)state;
    cli_launch_job_encode(&job, &b);
    for (size_t size = 0; size < b.end; size++) {
        char *part = malloc(size + 1);
        struct reader from = { .at = part, .end = part + size };

        memcpy(part, b.at, size);
        assert_false(cli_launch_job_decode(&from, &got));
        free(part);
    }
    cli_bytes_free(&b);
}

static void damaged_jobs_and_frames_do_no_harm(void **state)
{
    struct launch_job job = make_job(), got;
    struct bytes b = { .at = NULL };
    uint32_t accepted = 0;

    (void)state;
    cli_launch_job_encode(&job, &b);
    for (uint32_t i = 0; i < often(20000, 4000); i++) {
        char *copy = malloc(b.end);
        struct reader from = { .at = copy, .end = copy + b.end };

        memcpy(copy, b.at, b.end);
        for (uint32_t k = 0; k < 1 + i % 3; k++)
            copy[random_below(b.end)] = (char)random_below(256);
        if (cli_launch_job_decode(&from, &got)) {
            accepted++;
            assert_true(got.count > 0 && got.first < got.total && got.word_count > 0);
            cli_launch_job_free(&got);
        }
        free(copy);
    }
    assert_true(accepted > 0);
    cli_bytes_free(&b);
}

static void a_greeting_is_found_behind_what_a_login_prints(void **state)
{
    char line[LAUNCH_GREETING_MAX];
    struct launch_greeting got, own;
    struct bytes b = { .at = NULL };

    (void)state;
    cli_launch_greeting_own(&own);
    cli_launch_greeting_make(line);
    cli_bytes_add(&b, "Welcome!\nhave a nice day ", 25);
    assert_int_equal(cli_launch_greeting_take(&b, &got), 0);
    cli_bytes_add(&b, line, strlen(line) - 1);
    assert_int_equal(cli_launch_greeting_take(&b, &got), 0);
    cli_bytes_add(&b, "\nrest", 5);
    assert_int_equal(cli_launch_greeting_take(&b, &got), 1);
    assert_string_equal(got.version, own.version);
    assert_string_equal(got.platform, own.platform);
    assert_string_equal(got.host, own.host);
    assert_int_equal(cli_bytes_size(&b), 4); /* frames may follow the greeting immediately */
    cli_bytes_free(&b);
}

static void output_without_a_greeting_ends_the_search(void **state)
{
    struct launch_greeting got;
    struct bytes b = { .at = NULL };
    char noise[1024];

    (void)state;
    memset(noise, 'x', sizeof(noise));
    for (int i = 0; i < 63; i++)
        cli_bytes_add(&b, noise, sizeof(noise));
    assert_int_equal(cli_launch_greeting_take(&b, &got), 0);
    cli_bytes_add(&b, noise, sizeof(noise));
    assert_int_equal(cli_launch_greeting_take(&b, &got), -1);
    cli_bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ranks_fill_hosts_in_order, begin),
        cmocka_unit_test_setup(lists_that_make_no_sense_are_refused, begin),
        cmocka_unit_test_setup(a_file_of_hosts_names_its_wrong_line, begin),
        cmocka_unit_test(a_job_crosses_the_channel),
        cmocka_unit_test(a_job_that_is_cut_off_is_refused),
        cmocka_unit_test(damaged_jobs_and_frames_do_no_harm),
        cmocka_unit_test(a_greeting_is_found_behind_what_a_login_prints),
        cmocka_unit_test(output_without_a_greeting_ends_the_search),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
