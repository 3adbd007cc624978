/* SPDX-License-Identifier: Apache-2.0 */
/* Job keys: their text, their files and descriptors, and what is refused. */
#include "base/job_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fixture/fixture.h"

static const char good[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

static struct pto_error error;
static char path[256];

static int make_path(void **state)
{
    const char *folder = getenv("TMPDIR");

    (void)state;
    snprintf(path, sizeof(path), "%s/pto-key-%d", folder != NULL ? folder : "/tmp", (int)getpid());
    pto_error_init(&error);
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    (void)unlink(path);
    return 0;
}

static void write_key(const char *text, size_t size, mode_t mode)
{
    int file;

    (void)unlink(path);
    file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, size), size);
    assert_int_equal(fchmod(file, mode), 0);
    close(file);
}

static void expect_refused(const char *text, size_t size, mode_t mode, const char *says)
{
    struct job_key key;

    write_key(text, size, mode);
    assert_int_equal(job_key_read_file(path, &key, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, says));
    /* no error contains a part of a key */
    assert_null(strstr(error.text, "0011"));
}

static void a_key_is_its_text(void **state)
{
    struct job_key key, other;
    char text[JOB_KEY_TEXT_BYTES];

    (void)state;
    assert_true(job_key_parse(good, JOB_KEY_TEXT_BYTES, &key));
    assert_int_equal(key.byte[0], 0x00);
    assert_int_equal(key.byte[10], 0xaa);
    job_key_format(&key, text);
    assert_memory_equal(text, good, JOB_KEY_TEXT_BYTES);
    assert_int_equal(job_key_make(&key, &error), PTO_OK);
    assert_int_equal(job_key_make(&other, &error), PTO_OK);
    assert_memory_not_equal(&key, &other, sizeof(key));
    job_key_format(&key, text);
    assert_true(job_key_parse(text, sizeof(text), &other));
    assert_memory_equal(&key, &other, sizeof(key));
}

static void a_file_is_read_if_only_its_user_can(void **state)
{
    struct job_key key, expected;

    (void)state;
    assert_true(job_key_parse(good, JOB_KEY_TEXT_BYTES, &expected));
    for (int i = 0; i < 2; i++) {
        write_key(good, JOB_KEY_TEXT_BYTES, i == 0 ? 0600 : 0400);
        assert_int_equal(job_key_read_file(path, &key, &error), PTO_OK);
        assert_memory_equal(&key, &expected, sizeof(key));
    }
    expect_refused(good, JOB_KEY_TEXT_BYTES, 0640, "has the permissions 640, not 600 or 400");
    expect_refused(good, JOB_KEY_TEXT_BYTES, 0604, "has the permissions 604");
    expect_refused(good, JOB_KEY_TEXT_BYTES, 0700, "has the permissions 700");
}

static void anything_but_a_key_is_refused(void **state)
{
    char text[80];
    struct job_key key;

    (void)state;
    expect_refused(good, JOB_KEY_TEXT_BYTES - 1, 0600, "is not a job key");
    expect_refused(good, 0, 0600, "is not a job key");
    memcpy(text, good, sizeof(good));
    text[JOB_KEY_TEXT_BYTES] = '\n';
    expect_refused(text, JOB_KEY_TEXT_BYTES + 1, 0600, "is not a job key");
    for (size_t i = 0; i < JOB_KEY_TEXT_BYTES; i++) {
        memcpy(text, good, sizeof(good));
        text[i] = i % 2 == 0 ? 'A' : '\0';
        assert_false(job_key_parse(text, JOB_KEY_TEXT_BYTES, &key));
    }
    (void)unlink(path);
    assert_int_equal(job_key_read_file(path, &key, &error), PTO_ESYSTEM);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(job_key_read_file(path, &key, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, "is not a regular file"));
}

static void a_descriptor_can_be_read_again(void **state)
{
    struct job_key key, expected;
    int ends[2], file;

    (void)state;
    assert_true(job_key_parse(good, JOB_KEY_TEXT_BYTES, &expected));
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], good, JOB_KEY_TEXT_BYTES), JOB_KEY_TEXT_BYTES);
    close(ends[1]);
    write_key(good, JOB_KEY_TEXT_BYTES, 0600);
    file = open(path, O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(job_key_read_descriptor(i < 2 ? ends[0] : file, &key, &error), PTO_OK);
        assert_memory_equal(&key, &expected, sizeof(key));
    }
    close(ends[0]);
    close(file);
    assert_int_equal(job_key_read_descriptor(ends[0], &key, &error), PTO_ESYSTEM);
}

static void the_environment_names_one_key(void **state)
{
    struct job_key key;
    bool has_key = true;

    (void)state;
    unsetenv("PTO_KEY_FILE");
    unsetenv("PTO_KEY_FD");
    assert_int_equal(job_key_find(&key, &has_key, &error), PTO_OK);
    assert_false(has_key);
    write_key(good, JOB_KEY_TEXT_BYTES, 0600);
    setenv("PTO_KEY_FILE", path, 1);
    assert_int_equal(job_key_find(&key, &has_key, &error), PTO_OK);
    assert_true(has_key);
    setenv("PTO_KEY_FD", "7", 1);
    assert_int_equal(job_key_find(&key, &has_key, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, "both set"));
    unsetenv("PTO_KEY_FILE");
    setenv("PTO_KEY_FD", "7x", 1);
    assert_int_equal(job_key_find(&key, &has_key, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, "not a descriptor"));
    assert_false(has_key);
    unsetenv("PTO_KEY_FD");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_its_text),
        cmocka_unit_test(a_file_is_read_if_only_its_user_can),
        cmocka_unit_test(anything_but_a_key_is_refused),
        cmocka_unit_test(a_descriptor_can_be_read_again),
        cmocka_unit_test(the_environment_names_one_key),
    };

    return cmocka_run_group_tests(tests, make_path, remove_path);
}
