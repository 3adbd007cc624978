/* SPDX-License-Identifier: Apache-2.0 */
/* Small parts of the tool chain: word lists, processes, notes, manifests, flags, bfloat16. */
#include <elf.h>
#include <fcntl.h>
#include <signal.h>

#include "base/os.h"
#include "toolchain/compilers.h"
#include "toolchain/isa.h"
#include "toolchain/manifest.h"
#include "toolchain/note.h"
#include "toolchain/process.h"
#include "toolchain/words.h"
#include "tests/fixture/fixture.h"

static void words_are_split_as_a_shell_does(void **state)
{
    struct words words = { 0 };

    (void)state;
    words_split(&words, "  ccache gcc\t-DA='x y' \"-DB=\\\"q\\\"\" a\\ b '' ");
    assert_int_equal(words.count, 6);
    assert_string_equal(words.at[0], "ccache");
    assert_string_equal(words.at[1], "gcc");
    assert_string_equal(words.at[2], "-DA=x y");
    assert_string_equal(words.at[3], "-DB=\"q\"");
    assert_string_equal(words.at[4], "a b");
    assert_string_equal(words.at[5], "");
    assert_null(words.at[6]);
    assert_true(words_has(&words, "gcc"));
    assert_false(words_has(&words, "gc"));
    words_free(&words);
    words_split(&words, " \n ");
    assert_int_equal(words.count, 0);
}

static int run_shell(const char *script, bool (*stop)(void *), uint64_t timeout_ns,
                     struct process_result *result, struct pto_error *error)
{
    static char shell[] = "/bin/sh", option[] = "-c";
    char *argv[] = { shell, option, (char *)(uintptr_t)script, NULL };
    struct process_params params = { .argv = argv, .stop = stop, .timeout_ns = timeout_ns };

    return process_run(&params, result, error);
}

static void a_process_gives_its_code_and_all_it_says(void **state)
{
    struct process_result result;
    struct pto_error error = { .size = sizeof(error) };

    (void)state;
    assert_int_equal(run_shell("echo out; echo err >&2; exit 7", NULL, 0, &result, &error), PTO_OK);
    assert_int_equal(result.code, 7);
    assert_string_equal(result.output, "out\nerr\n");
    process_free(&result);
    assert_int_equal(run_shell("kill -9 $$", NULL, 0, &result, &error), PTO_OK);
    assert_int_equal(result.code, -1);
    assert_int_equal(result.signal, SIGKILL);
    process_free(&result);
    assert_int_equal(run_shell("head -c 9000000 /dev/zero | tr '\\0' x", NULL, 0, &result, &error),
                     PTO_OK);
    assert_true(result.is_cut);
    assert_true(result.output_size <= 4 << 20);
    process_free(&result);
    assert_int_equal(run_shell("sleep 5 & echo left", NULL, 0, &result, &error), PTO_OK);
    /* a descendant keeps the output open, but the function does not wait for it */
    assert_string_equal(result.output, "left\n");
    process_free(&result);
}

static void a_program_that_is_not_there_is_named(void **state)
{
    static char path[] = "/no/such/program";
    char *argv[] = { path, NULL };
    struct process_params params = { .argv = argv };
    struct process_result result;
    struct pto_error error = { .size = sizeof(error) };

    (void)state;
    assert_int_equal(process_run(&params, &result, &error), PTO_ESYSTEM);
    assert_non_null(strstr(error.text, "/no/such/program cannot be started: No such file"));
}

static bool stop_at_once(void *context)
{
    (void)context;
    return true;
}

static void a_process_ends_with_all_it_started(void **state)
{
    char path[] = "/tmp/test_toolchain.XXXXXX";
    int file = mkstemp(path);
    struct process_result result;
    struct pto_error error = { .size = sizeof(error) };
    char script[256];
    uint64_t begin = os_now_ns();

    (void)state;
    assert_true(file >= 0);
    close(file);
    snprintf(script, sizeof(script), "(sleep 1; echo alive >%s) & sleep 60", path);
    assert_int_equal(run_shell(script, NULL, 200000000, &result, &error), PTO_ETIMEOUT);
    assert_int_equal(run_shell(script, stop_at_once, 0, &result, &error), PTO_ECANCELED);
    assert_true(os_now_ns() - begin < 30000000000ull);
    sleep(2);
    file = open(path, 0);
    assert_int_equal(lseek(file, 0, SEEK_END), 0); /* no process lived long enough to write to it */
    close(file);
    unlink(path);
}

static void a_note_is_found_only_where_it_is(void **state)
{
    struct digest key = { { 1, 2, 3 } };
    struct text header = { 0 };
    char noise[4096];

    (void)state;
    note_header(&key, false, &header);
    assert_non_null(strstr(header.bytes, ".pushsection .note.pto"));
    assert_non_null(strstr(header.bytes, "1, 2, 3, 0"));
    text_free(&header);
    assert_false(note_check("", 0, &key));
    assert_false(note_check("\177ELF", 4, &key));
    for (uint32_t round = 0; round < 2000; round++) {
        for (size_t i = 0; i < sizeof(noise); i++)
            noise[i] = (char)rand();
        memcpy(noise, ELFMAG, SELFMAG);
        noise[EI_CLASS] = ELFCLASS64;
        noise[EI_DATA] = ELFDATA2LSB;
        noise[EI_VERSION] = EV_CURRENT;
        assert_false(note_check(noise, round * 2, &key));
        assert_false(note_exports(noise, round * 2, "kernel_entry"));
    }
}

static void differences_are_told_with_names_and_digests(void **state)
{
    static const char a[] = "1111111111111111111111111111111111111111111111111111111111111111";
    static const char b[] = "2222222222222222222222222222222222222222222222222222222222222222";
    char old[512], new[1024];
    struct text text = { 0 };

    (void)state;
    snprintf(old, sizeof(old), "source /k.c %s\nfile /a b.h %s\nabsent /x.h\nflag -O2\n", a, a);
    snprintf(new, sizeof(new), "source /k.c %s\nfile /a b.h %s\nfile /x.h %s\nflag -O3\n", a, b, b);
    assert_true(manifest_compare(old, new, &text));
    assert_string_equal(text.bytes, "/a b.h changed (111111111111 -> 222222222222); "
                                    "/x.h has appeared (222222222222); flag -O2 is gone; "
                                    "flag -O3 is new");
    text_free(&text);
    assert_false(manifest_compare(old, old, &text));
    snprintf(new, sizeof(new), "%soutput a: warning\noutput   b\n", old);
    /* the compiler's output is not listed as a difference */
    assert_false(manifest_compare(old, new, &text));
    manifest_output(new, &text);
    assert_string_equal(text.bytes, "a: warning\n  b\n");
    text_free(&text);
    assert_false(manifest_compare("", "", &text));
    (void)manifest_compare("file", "\n\nsource \nfile x", &text);
    text_free(&text);
}

static void bfloat16_is_seen_outside_of_comments_and_texts(void **state)
{
    static const struct {
        const char *text;
        bool is_used;
    } cases[] = {
        { "Tile<bfloat16_t> t;", true },
        { "x bfloat16_t", true },
        { "// bfloat16_t\n", false },
        { "// one \\\n bfloat16_t\nint x;", false },
        { "/* bfloat16_t */ int x;", false },
        { "/* x */ bfloat16_t y;", true },
        { "\"bfloat16_t\"", false },
        { "\"a\\\"\" bfloat16_t", true },
        { "my_bfloat16_t", false },
        { "bfloat16_t2", false },
        { "/* bfloat16_t", false },
        { "\"bfloat16_t", false },
        { "//", false },
        { "", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(isa_uses_bfloat16(cases[i].text, strlen(cases[i].text)), cases[i].is_used);
}

static void the_environment_of_a_compiler_has_no_cache_and_no_clock(void **state)
{
    struct words env = { 0 };

    (void)state;
    setenv("CCACHE_DISABLE", "0", 1);
    setenv("SOURCE_DATE_EPOCH", "1234", 1);
    setenv("DEPENDENCIES_OUTPUT", "/tmp/no", 1);
    setenv("CPATH", "/some", 1);
    compiler_environment(&env);
    assert_true(words_has(&env, "CCACHE_DISABLE=1"));
    assert_true(words_has(&env, "SOURCE_DATE_EPOCH=0"));
    assert_false(words_has(&env, "CCACHE_DISABLE=0"));
    assert_false(words_has(&env, "SOURCE_DATE_EPOCH=1234"));
    assert_false(words_has(&env, "DEPENDENCIES_OUTPUT=/tmp/no"));
    words_free(&env);
    compiler_variables(&env);
    assert_true(words_has(&env, "CPATH=/some"));
    words_free(&env);
    unsetenv("CCACHE_DISABLE");
    unsetenv("SOURCE_DATE_EPOCH");
    unsetenv("DEPENDENCIES_OUTPUT");
    unsetenv("CPATH");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_split_as_a_shell_does),
        cmocka_unit_test(a_process_gives_its_code_and_all_it_says),
        cmocka_unit_test(a_program_that_is_not_there_is_named),
        cmocka_unit_test(a_process_ends_with_all_it_started),
        cmocka_unit_test(a_note_is_found_only_where_it_is),
        cmocka_unit_test(differences_are_told_with_names_and_digests),
        cmocka_unit_test(bfloat16_is_seen_outside_of_comments_and_texts),
        cmocka_unit_test(the_environment_of_a_compiler_has_no_cache_and_no_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
