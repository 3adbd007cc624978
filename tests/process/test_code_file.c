/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the files of loaded code are: the folder of a user, and what other users can do in the
 * temporary folder.
 */
#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/code_file.h"
#include "pto/status.h"
#include "tests/fixture/counts_test.h"
#include "tests/fixture/fixture.h"

enum { OTHERS = 200, PROCESSES = 4, TURNS = 100 };

static char own[] = "/tmp/test_code_file.XXXXXX"; /* the temporary folder */
static char root[64];
static uint32_t entries_read;

static int make_own(void **state)
{
    (void)state;
    if (mkdtemp(own) == NULL || setenv("TMPDIR", own, 1) != 0)
        return -1;
    snprintf(root, sizeof(root), "%s/pto-%ld", own, (long)geteuid());
    return 0;
}

static int remove_own(void **state)
{
    (void)state;
    return rmdir(own); /* nothing is left in it */
}

static void make_code(char path[PATH_MAX])
{
    assert_int_equal(code_file_create("code", 4, "kernel", path), PTO_OK);
}

/* ---- the root ---- */

static void the_root_goes_with_its_last_folder(void **state)
{
    char path[PATH_MAX], other[128];
    struct stat about;

    (void)state;
    make_code(path);
    assert_int_equal(strncmp(path, root, strlen(root)), 0);
    assert_int_equal(stat(root, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    code_file_remove(path);
    assert_int_equal(count_entries(own), 0);
    assert_int_equal(mkdir(root, 0700), 0);
    snprintf(other, sizeof(other), "%s/of-another-process", root);
    assert_int_equal(mkdir(other, 0700), 0);
    make_code(path);
    code_file_remove(path);
    assert_int_equal(rmdir(other), 0);
    assert_int_equal(rmdir(root), 0);
}

/*
 * If other users can write to the root, or it is a link, files are in the temporary folder itself.
 */
static void a_root_of_others_is_not_used(void **state)
{
    char path[PATH_MAX], elsewhere[64];

    (void)state;
    snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", own);
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    for (int is_link = 0; is_link < 2; is_link++) {
        assert_int_equal(is_link ? symlink(elsewhere, root) : mkdir(root, 0700), 0);
        assert_true(is_link || chmod(root, 0770) == 0);
        make_code(path);
        assert_int_equal(count_entries(own), 3);
        assert_int_equal(count_entries(root), 0);
        code_file_remove(path);
        assert_int_equal(count_entries(own), 2);
        assert_int_equal(is_link ? unlink(root) : rmdir(root), 0);
    }
    assert_int_equal(rmdir(elsewhere), 0);
}

/* The process that leaves last removes the root while other processes enter it. */
static void processes_come_and_go(void **state)
{
    pid_t child[PROCESSES];
    char path[PATH_MAX];
    int code;

    (void)state;
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        for (int turn = 0; child[i] == 0 && turn < TURNS; turn++) {
            if (code_file_create("code", 4, "kernel", path) < 0 ||
                strncmp(path, root, strlen(root)) != 0)
                _exit(1);
            code_file_remove(path);
        }
        if (child[i] == 0)
            _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(waitpid(child[i], &code, 0), child[i]);
        assert_int_equal(code, 0);
    }
    assert_int_equal(count_entries(own), 0);
}

/* ---- what is left ---- */

static void code_of_a_killed_process_is_removed(void **state)
{
    char path[PATH_MAX];
    pid_t child = fork();
    int code;

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        make_code(path);
        (void)raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(count_entries(root), 1);
    code_file_sweep(child + 1);
    assert_int_equal(count_entries(root), 1);
    code_file_sweep(child);
    assert_int_equal(count_entries(own), 0);
}

/* Counts the folder entries that code_file.c reads. */
struct dirent *readdir(DIR *list)
{
    struct dirent *(*next)(DIR *) = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");

    entries_read++;
    return next(list);
}

/*
 * Making a folder, and removing that of a killed process, read no entries that other users can
 * create.
 */
static void a_full_temporary_folder_is_not_read(void **state)
{
    char name[64], path[PATH_MAX];

    (void)state;
    for (int i = 0; i < OTHERS; i++) {
        snprintf(name, sizeof(name), "%s/pto-code-%d", own, i);
        assert_int_equal(mknod(name, S_IFREG | 0600, 0), 0);
    }
    entries_read = 0;
    make_code(path);
    code_file_sweep(getpid() + 1);
    code_file_remove(path);
    assert_in_range(entries_read, 1, OTHERS / 2);
    for (int i = 0; i < OTHERS; i++) {
        snprintf(name, sizeof(name), "%s/pto-code-%d", own, i);
        assert_int_equal(unlink(name), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_root_goes_with_its_last_folder),
        cmocka_unit_test(a_root_of_others_is_not_used),
        cmocka_unit_test(processes_come_and_go),
        cmocka_unit_test(code_of_a_killed_process_is_removed),
        cmocka_unit_test(a_full_temporary_folder_is_not_read),
    };

    return cmocka_run_group_tests(tests, make_own, remove_own);
}
