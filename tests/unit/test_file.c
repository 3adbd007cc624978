/* SPDX-License-Identifier: Apache-2.0 */
/* Digests, and files that are written completely or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "tests/fixture/counts_test.h"
#include "tests/fixture/fixture.h"

static char path[80];

static int make_path(void **state)
{
    int status = make_folder(state);

    snprintf(path, sizeof(path), "%s/f", folder);
    return status;
}

static void assert_holds(const char *text)
{
    char *bytes;
    size_t size;

    assert_int_equal(file_read(path, 1 << 20, &bytes, &size), PTO_OK);
    assert_int_equal(size, strlen(text));
    assert_string_equal(bytes, text);
    free(bytes);
}

static void a_digest_is_sha256(void **state)
{
    struct digest_state steps;
    struct digest a, b;
    char hex[DIGEST_HEX];

    (void)state;
    digest_of("abc", 3, &a);
    digest_to_hex(&a, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    digest_begin(&steps);
    digest_add(&steps, "a", 1);
    digest_add(&steps, NULL, 0);
    digest_add(&steps, "bc", 2);
    digest_end(&steps, &b);
    assert_true(digest_is_equal(&a, &b));
    memset(&b, 0, sizeof(b));
    assert_true(digest_from_hex(hex, &b));
    assert_true(digest_is_equal(&a, &b));
    hex[63] = 'g';
    assert_false(digest_from_hex(hex, &b));
    hex[63] = '\0';
    assert_false(digest_from_hex(hex, &b));
}

static void digest_of_texts(const char *a, const char *b, struct digest *out)
{
    struct digest_state state;

    digest_begin(&state);
    digest_add_text(&state, a);
    digest_add_text(&state, b);
    digest_end(&state, out);
}

static void a_list_of_texts_is_read_in_one_way(void **state)
{
    struct digest a, b;

    (void)state;
    digest_of_texts("ab", "c", &a);
    digest_of_texts("a", "bc", &b);
    assert_false(digest_is_equal(&a, &b));
    digest_of_texts("ab", "", &a);
    digest_of_texts("ab", NULL, &b);
    assert_false(digest_is_equal(&a, &b));
}

static void what_is_written_is_read(void **state)
{
    struct stat about;
    char *bytes = NULL;
    size_t size;
    mode_t mask = umask(027);

    (void)state;
    assert_int_equal(file_write(path, "one", 3), PTO_OK);
    umask(mask);
    assert_holds("one");
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
    assert_int_equal(file_write(path, "", 0), PTO_OK);
    assert_holds("");
    assert_int_equal(file_write(path, "three", 5), PTO_OK);
    assert_int_equal(file_read(path, 4, &bytes, &size), PTO_ESYSTEM);
    assert_int_equal(errno, EFBIG);
    assert_int_equal(file_read(folder, 4, &bytes, &size), PTO_ESYSTEM);
    assert_int_equal(errno, EINVAL);
    assert_null(bytes);
    assert_int_equal(count_entries(folder), 1);
}

static void what_cannot_be_read_is_a_sentence(void **state)
{
    struct pto_error error = { .size = sizeof(error) };
    char *bytes, far[700], end[] = "/f cannot be read: File name too long";
    size_t size;

    (void)state;
    assert_int_equal(file_write(path, "three", 5), PTO_OK);
    assert_int_equal(file_load(path, 4, &bytes, &size, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, "/f has more than 4 bytes"));
    assert_int_equal(file_load(folder, 4, &bytes, &size, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, " is not a file"));
    /* A message that does not fit keeps its beginning and its end. */
    snprintf(far, sizeof(far), "/begin%0640d/f", 0);
    assert_int_equal(file_load(far, 4, &bytes, &size, &error), PTO_ESYSTEM);
    assert_int_equal(strlen(error.text), sizeof(error.text) - 1);
    assert_int_equal(strncmp(error.text, "/begin0", 7), 0);
    assert_string_equal(error.text + strlen(error.text) - strlen(end), end);
}

static void a_failure_leaves_what_was_there(void **state)
{
    struct rlimit old, none;
    static char much[1 << 16];

    (void)state;
    assert_int_equal(file_write(path, "old", 3), PTO_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    none = old;
    none.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_int_equal(file_write(path, much, sizeof(much)), PTO_ESYSTEM);
    assert_int_equal(errno, EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_holds("old");
    assert_int_equal(count_entries(folder), 1);
    assert_int_equal(file_write("/tmp/no/such/folder", "x", 1), PTO_ESYSTEM);
    assert_int_equal(errno, ENOENT);
}

static void devices_and_links_stay(void **state)
{
    char link[80];
    struct stat about;

    (void)state;
    assert_int_equal(file_write("/dev/null", "x", 1), PTO_OK);
    assert_int_equal(stat("/dev/null", &about), 0);
    assert_true(S_ISCHR(about.st_mode));
    snprintf(link, sizeof(link), "%s/link", folder);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(file_write(link, "linked", 6), PTO_OK);
    assert_holds("linked");
    assert_int_equal(lstat(link, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_int_equal(unlink(link), 0);
}

static void folders_are_made(void **state)
{
    char name[80];
    struct stat about;

    (void)state;
    snprintf(name, sizeof(name), "%s/a/b//c/", folder);
    assert_int_equal(file_make_folder(name), PTO_OK);
    assert_int_equal(file_make_folder(name), PTO_OK);
    assert_int_equal(stat(name, &about), 0);
    assert_true(S_ISDIR(about.st_mode));
    assert_int_equal(file_make_folder(""), PTO_ESYSTEM);
    assert_int_equal(file_make_folder("/proc/no/such"), PTO_ESYSTEM);
}

static void *write_often(void *arg)
{
    char text[4096];

    memset(text, *(const char *)arg, sizeof(text));
    for (int i = 0; i < 50; i++)
        if (file_write(path, text, sizeof(text)) != PTO_OK)
            return arg;
    return NULL;
}

/* A reader at the same time gets the complete text of one writer. */
static void writers_do_not_mix(void **state)
{
    pthread_t threads[2];
    char letters[2] = { 'a', 'b' };

    (void)state;
    assert_int_equal(write_often(&letters[0]) == NULL, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_often, &letters[i]), 0);
    for (int i = 0; i < 200; i++) {
        char *bytes;
        size_t size;

        assert_int_equal(file_read(path, 1 << 20, &bytes, &size), PTO_OK);
        assert_int_equal(size, 4096);
        for (size_t k = 1; k < size; k++)
            assert_int_equal(bytes[k], bytes[0]);
        free(bytes);
    }
    for (int i = 0; i < 2; i++) {
        void *failed;

        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_is_sha256),
        cmocka_unit_test(a_list_of_texts_is_read_in_one_way),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_cannot_be_read_is_a_sentence),
        cmocka_unit_test(a_failure_leaves_what_was_there),
        cmocka_unit_test(devices_and_links_stay),
        cmocka_unit_test(folders_are_made),
        cmocka_unit_test(writers_do_not_mix),
    };

    (void)signal(SIGXFSZ, SIG_IGN);
    return cmocka_run_group_tests(tests, make_path, remove_folder);
}
