/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: a stored entry is found or is absent, but never wrong, even if processes are killed,
 * files are damaged, or the disk is full.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/os.h"
#include "pto/store.h"
#include "toolchain/store.h"
#include "toolchain/store_files.h"
#include "tests/fixture/fixture.h"

static char top[] = "/tmp/test_store.XXXXXX";
static char folder[64];

static int make_top(void **state)
{
    (void)state;
    if (mkdtemp(top) == NULL)
        return -1;
    snprintf(folder, sizeof(folder), "%s/s", top);
    unsetenv("PTO_STORE");
    unsetenv("PTO_STORE_MAX");
    return 0;
}

static int remove_top(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", top);
    return system(command);
}

/* Runs for a second, or for PTO_TEST_SECONDS. */
static uint64_t fuzz_deadline(void)
{
    const char *seconds = getenv("PTO_TEST_SECONDS");

    return os_now_ns() + (seconds != NULL ? strtoull(seconds, NULL, 10) : 1) * 1000000000;
}

static void run_shell(const char *format, ...)
{
    char command[512];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

static struct store *open_empty(void)
{
    struct store *store;

    run_shell("rm -rf %s", folder);
    assert_int_equal(store_open(folder, &store, NULL), PTO_OK);
    return store;
}

static struct store *open_again(void)
{
    struct store *store;

    assert_int_equal(store_open(folder, &store, NULL), PTO_OK);
    return store;
}

static struct digest key_of(uint32_t number)
{
    struct digest key;

    digest_of(&number, sizeof(number), &key);
    return key;
}

/* The content of an entry follows from the number of its key. */
static size_t fill(uint32_t number, size_t size, uint8_t *bytes)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
    return size;
}

static int put_number(struct store *store, uint32_t number, size_t size, struct pto_error *error)
{
    struct digest key = key_of(number);
    uint8_t *bytes = malloc(size + 1);
    char manifest[64];
    int status;

    if (bytes == NULL)
        return PTO_ENOMEM;
    fill(number, size, bytes);
    snprintf(manifest, sizeof(manifest), "number %u\nsize %zu\n", number, size);
    status = store_put(store, &key, bytes, size, manifest, error);
    free(bytes);
    return status;
}

/* 1: found and right; 0: absent; -1: found and wrong. */
static int check_number(struct store *store, uint32_t number)
{
    struct digest key = key_of(number);
    struct store_entry entry;
    unsigned named;
    size_t size;
    int result = 1;
    int status = store_get(store, &key, &entry);

    if (status != PTO_OK)
        return status == STORE_ABSENT ? 0 : -1;
    if (sscanf(entry.manifest, "number %u\nsize %zu\n", &named, &size) != 2 || named != number ||
        size != entry.size)
        result = -1;
    for (size_t i = 0; result == 1 && i < entry.size; i++)
        if (((const uint8_t *)entry.bytes)[i] != (uint8_t)(number * 31 + i * 7 + (i >> 8)))
            result = -1;
    store_entry_free(&entry);
    return result;
}

static void path_of(uint32_t number, char path[256])
{
    struct digest key = key_of(number);
    char hex[DIGEST_HEX];

    digest_to_hex(&key, hex);
    snprintf(path, 256, "%s/entries/%.2s/%s", folder, hex, hex + 2);
}

static bool has_note(struct store *store, const char *phrase)
{
    char text[STORE_NOTE_MAX];

    while (store_take_note(store, text))
        if (strstr(text, phrase) != NULL)
            return true;
    return false;
}

static struct pto_store_info info_now(void)
{
    struct pto_store_info info = { .size = sizeof(info) };
    struct pto_error error = { .size = sizeof(error) };

    if (pto_store_show(folder, &info, &error) != PTO_OK)
        print_message("%s\n", error.text);
    assert_string_equal(error.text, "");
    return info;
}

/* ---- what it is for ---- */

static void what_is_put_is_found_again(void **state)
{
    struct store *store = open_empty();
    struct digest key = key_of(0);
    struct store_entry entry;
    char text[STORE_NOTE_MAX];
    char path[256];

    (void)state;
    assert_string_equal(store_folder(store), folder);
    assert_int_equal(access(folder, F_OK), -1); /* a look-up creates nothing */
    assert_int_equal(store_get(store, &key, &entry), STORE_ABSENT);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(put_number(store, i, i * i * 3, NULL), PTO_OK);
    assert_int_equal(put_number(store, 7, 147, NULL), PTO_OK); /* again */
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 40; i++)
            assert_int_equal(check_number(store, i), 1);
        assert_int_equal(check_number(store, 40), 0);
        assert_false(store_take_note(store, text));
        store_close(store);
        store = open_again();
    }
    assert_int_equal(store_get(store, &key, &entry), PTO_OK);
    assert_int_equal(entry.size, 0);
    assert_int_equal((uintptr_t)entry.bytes % 16, 0);
    store_entry_free(&entry);
    store_entry_free(&entry);
    store_close(store);
    store_close(NULL);
    snprintf(path, sizeof(path), "%s/CACHEDIR.TAG", folder);
    assert_int_equal(access(path, R_OK), 0);
}

static void names_may_change(void **state)
{
    struct store *store = open_empty();
    struct digest name = key_of(1);
    struct pto_store_info info = { .size = sizeof(info) };
    char *text;

    (void)state;
    assert_int_equal(store_name_get(store, &name, &text), STORE_ABSENT);
    assert_int_equal(store_name_put(store, &name, "one", NULL), PTO_OK);
    assert_int_equal(store_name_put(store, &name, "one", NULL), PTO_OK);
    assert_int_equal(store_name_get(store, &name, &text), PTO_OK);
    assert_string_equal(text, "one");
    free(text);
    assert_int_equal(store_name_put(store, &name, "", NULL), PTO_OK);
    assert_int_equal(store_name_get(store, &name, &text), PTO_OK);
    assert_string_equal(text, "");
    free(text);
    assert_int_equal(check_number(store, 1), 0); /* an entry of that key is something else */
    info = info_now();
    assert_int_equal(info.names, 1);
    assert_int_equal(info.entries, 0);
    store_close(store);
}

static void the_environment_names_the_folder(void **state)
{
    char *home = strdup(getenv("HOME") != NULL ? getenv("HOME") : "/");
    struct pto_error error = { .size = sizeof(error) };
    struct store *store;
    char expected[128];

    (void)state;
    setenv("HOME", top, 1);
    unsetenv("XDG_CACHE_HOME");
    assert_int_equal(store_open(NULL, &store, NULL), PTO_OK);
    snprintf(expected, sizeof(expected), "%s/.cache/pto", top);
    assert_string_equal(store_folder(store), expected);
    store_close(store);
    setenv("XDG_CACHE_HOME", "relative", 1); /* the standard ignores relative paths */
    assert_int_equal(store_open(NULL, &store, NULL), PTO_OK);
    assert_string_equal(store_folder(store), expected);
    store_close(store);
    setenv("XDG_CACHE_HOME", folder, 1);
    assert_int_equal(store_open(NULL, &store, NULL), PTO_OK);
    snprintf(expected, sizeof(expected), "%s/pto", folder);
    assert_string_equal(store_folder(store), expected);
    store_close(store);
    setenv("PTO_STORE", "/x/y//", 1);
    assert_int_equal(store_open(NULL, &store, NULL), PTO_OK);
    assert_string_equal(store_folder(store), "/x/y");
    store_close(store);
    assert_int_equal(store_open(folder, &store, NULL), PTO_OK); /* before all of them */
    assert_string_equal(store_folder(store), folder);
    store_close(store);
    unsetenv("PTO_STORE");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_int_equal(store_open(NULL, &store, NULL), PTO_OK);
    assert_true(has_note(store, "nothing is stored: there is no folder"));
    assert_int_equal(put_number(store, 1, 10, &error), PTO_ESYSTEM);
    assert_int_equal(check_number(store, 1), 0);
    store_close(store);
    setenv("HOME", home, 1);
    free(home);
    assert_int_equal(store_open("", &store, &error), PTO_EINVAL);
    for (const char *const *p =
             (const char *const[]){ "0", "-1", "1T", "x", "1KK", "99999999999G", " 1", NULL };
         *p != NULL; p++) {
        setenv("PTO_STORE_MAX", *p, 1);
        assert_int_equal(store_open(folder, &store, &error), PTO_EINVAL);
        assert_non_null(strstr(error.text, "PTO_STORE_MAX is '"));
    }
    unsetenv("PTO_STORE_MAX");
}

/* ---- damage ---- */

static void write_raw(const char *path, const char *bytes, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), size);
    close(file);
}

static void assert_damaged(struct store *store, const char *path)
{
    assert_int_equal(check_number(store, 5), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_true(has_note(store, "was damaged: it is removed"));
}

static void a_damaged_entry_is_never_used(void **state)
{
    struct store *store = open_empty();
    char path[256], other[256];
    char *bytes;
    size_t size;

    (void)state;
    assert_int_equal(put_number(store, 5, 300, NULL), PTO_OK);
    path_of(5, path);
    path_of(6, other);
    assert_int_equal(file_read(path, 1 << 20, &bytes, &size), PTO_OK);
    /* one bit of each byte, a different one from byte to byte */
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)(bytes[i] ^ 1 << i % 8);
        write_raw(path, bytes, size);
        assert_damaged(store, path);
        bytes[i] = (char)(bytes[i] ^ 1 << i % 8);
    }
    for (size_t i = 0; i < size; i++) {
        write_raw(path, bytes, i);
        assert_damaged(store, path);
    }
    bytes[size] = 'x'; /* instead of the zero */
    write_raw(path, bytes, size + 1);
    assert_damaged(store, path);
    bytes[size] = '\0';
    write_raw(path, bytes, size + 1); /* even a zero */
    assert_damaged(store, path);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(check_number(store, 5), 0);
    assert_true(has_note(store, "it cannot be removed"));
    assert_int_equal(rmdir(path), 0);
    write_raw(path, bytes, size);
    assert_int_equal(check_number(store, 5), 1);
    assert_int_equal(put_number(store, 6, 10, NULL), PTO_OK);
    assert_int_equal(rename(path, other), 0); /* a valid file of another entry */
    assert_int_equal(check_number(store, 6), 0);
    assert_true(has_note(store, "was damaged"));
    assert_int_equal(put_number(store, 5, 300, NULL), PTO_OK);
    assert_int_equal(check_number(store, 5), 1);
    free(bytes);
    store_close(store);
}

static void random_files_are_not_taken_for_entries(void **state)
{
    struct store *store = open_empty();
    struct digest key = key_of(5);
    uint64_t deadline = fuzz_deadline();
    uint64_t count = 0, sound = 0;
    char path[256];
    char *bytes;
    size_t size;
    uint32_t random = 99;

    (void)state;
    assert_int_equal(put_number(store, 5, 100, NULL), PTO_OK);
    path_of(5, path);
    assert_int_equal(file_read(path, 1 << 20, &bytes, &size), PTO_OK);
    for (; os_now_ns() < deadline; count++) {
        struct store_entry entry;
        size_t cut = count % 3 != 0 ? size : count / 3 % (size + 1);
        char *copy = malloc(size + 1), *exact;
        bool is_same;
        int status;

        assert_non_null(copy);
        memcpy(copy, bytes, size);
        for (uint32_t i = count % 5; i > 0; i--) {
            random = random * 1664525 + 1013904223;
            /* The sizes in the head are the most interesting part. */
            copy[(random >> 16) % (count % 2 != 0 ? 32 : size)] = (char)(random >> 8);
        }
        is_same = cut == size && memcmp(copy, bytes, size) == 0;
        /* a block of the exact size, so that a sanitizer detects every access beyond it */
        exact = malloc(cut + 1);
        assert_non_null(exact);
        memcpy(exact, copy, cut);
        exact[cut] = '\0';
        free(copy);
        status = store_parse(store, exact, cut, &key, &entry);
        assert_int_equal(status, is_same ? PTO_OK : PTO_EINVAL);
        free(exact);
        sound += is_same;
    }
    print_message("%lu files, %lu of them sound\n", (unsigned long)count, (unsigned long)sound);
    assert_true(sound > 0);
    free(bytes);
    store_close(store);
}

/* ---- others ---- */

/* A forger who knows the format can compute the digest of an entry, except for the secret. */
static void an_entry_of_another_store_is_not_used(void **state)
{
    struct store *store = open_empty();
    char path[256], kept[256];

    (void)state;
    assert_int_equal(put_number(store, 5, 300, NULL), PTO_OK);
    path_of(5, path);
    snprintf(kept, sizeof(kept), "%s/kept", top);
    assert_int_equal(rename(path, kept), 0);
    store_close(store);
    store = open_empty(); /* has another secret */
    assert_int_equal(put_number(store, 6, 300, NULL), PTO_OK);
    run_shell("mkdir -p $(dirname %s) && cp %s %s", path, kept, path);
    assert_damaged(store, path);
    assert_int_equal(check_number(store, 6), 1);
    store_close(store);
}

/* A refused store is neither read nor written, and reports that once. */
static void assert_refused(const char *phrase)
{
    struct pto_store_info info = { .size = sizeof(info) };
    struct pto_error error = { .size = sizeof(error) };
    struct store *store = open_again();

    assert_int_equal(check_number(store, 1), 0);
    assert_int_equal(put_number(store, 2, 10, &error), PTO_ESYSTEM);
    assert_true(has_note(store, phrase));
    assert_false(has_note(store, ""));
    store_close(store);
    assert_int_equal(pto_store_show(folder, &info, NULL), PTO_OK);
    assert_non_null(strstr(info.refusal, phrase));
    assert_int_equal(pto_store_verify(folder, &info, NULL, NULL, &error), PTO_ESYSTEM);
    assert_non_null(strstr(error.text, phrase));
    assert_int_equal(pto_store_clear(folder, &info, &error), PTO_ESYSTEM);
}

static void a_store_that_others_can_write_to_is_not_used(void **state)
{
    static const char *const inner[] = { "", "/entries", "/names" };
    struct store *store = open_empty();
    struct digest name = key_of(1);
    char path[256];
    struct stat about;
    mode_t mask = umask(0);

    (void)state;
    assert_int_equal(put_number(store, 1, 10, NULL), PTO_OK);
    assert_int_equal(store_name_put(store, &name, "x", NULL), PTO_OK);
    umask(mask);
    store_close(store);
    assert_int_equal(stat(folder, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    for (int i = 0; i < 3; i++) {
        run_shell("chmod g+w %s%s", folder, inner[i]);
        assert_refused("closes it");
        run_shell("chmod -R go-w %s", folder); /* follows the advice in the message */
        assert_string_equal(info_now().refusal, "");
    }
    run_shell("chmod o+r %s/key", folder);
    assert_refused("not a key that only you can read");
    run_shell("chmod o-r %s/key", folder);
    path_of(1, path);
    assert_int_equal(chmod(path, 0622), 0);
    store = open_again();
    assert_int_equal(check_number(store, 1), 0);
    assert_true(has_note(store, "is another user's, or open to others"));
    assert_int_equal(put_number(store, 1, 10, NULL), PTO_OK);
    assert_int_equal(check_number(store, 1), 1);
    store_close(store);
    if (geteuid() != 0) {
        print_message("only root can give files away: a store of another user is not tested\n");
        return;
    }
    assert_int_equal(chown(folder, 65534, 65534), 0);
    assert_refused("belongs to another user");
}

/* ---- kill -9, and others at the same time ---- */

enum { KEYS = 12, KILLS = 60, KILLS_MAX = 6000, OPERATIONS_MIN = 40 * KEYS };

static size_t size_of(uint32_t number)
{
    return number % 3 == 0 ? 100 : number % 3 == 1 ? 60000 : 700000;
}

/* Writes a byte to a pipe when it is about to store something. */
static void put_until_killed(int ready)
{
    struct store *store;

    if (store_open(folder, &store, NULL) != PTO_OK || write(ready, "", 1) != 1)
        _exit(1);
    for (uint32_t i = 0;; i++) {
        char path[256];

        path_of(i % KEYS, path);
        if (i % 5 == 0)
            unlink(path);
        put_number(store, i % KEYS, size_of(i % KEYS), NULL);
    }
}

static void a_writer_killed_at_any_moment_does_no_harm(void **state)
{
    struct store *store = open_empty();
    struct pto_store_info info = { .size = sizeof(info) };
    uint32_t found = 0, absent = 0, leftovers;
    uint32_t random = 4711;
    int rounds, ready[2];
    char command[256];

    (void)state;
    assert_int_equal(pipe(ready), 0);
    /*
     * On a busy machine a writer makes little progress, so wait until it has stored one entry and
     * is storing the next.
     */
    for (rounds = 0; rounds < (int)often(KILLS, 8) ||
                     (rounds < KILLS_MAX && (found == 0 || info_now().leftovers == 0));
         rounds++) {
        pid_t child = fork();
        char byte;

        assert_true(child >= 0);
        if (child == 0)
            put_until_killed(ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        random = random * 1664525 + 1013904223;
        usleep(200 + (random >> 8) % 20000);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        for (uint32_t i = 0; i < KEYS; i++) {
            int result = check_number(store, i);

            assert_true(result >= 0);
            *(result == 1 ? &found : &absent) += 1;
        }
    }
    assert_false(has_note(store, "damaged")); /* not even that: nothing is half written */
    info = info_now();
    leftovers = (uint32_t)info.leftovers;
    print_message("%d writers killed: %u times found, %u absent, %u leftovers\n", rounds, found,
                  absent, leftovers);
    close(ready[0]);
    close(ready[1]);
    assert_true(found > 0 && leftovers > 0);
    /* Temporary files that are less than an hour old may belong to a running process. */
    assert_int_equal(put_number(store, 1, 10, NULL), PTO_OK);
    store_close(store);
    assert_int_equal(info_now().leftovers, leftovers);
    snprintf(command, sizeof(command), "find %s -name '*.part' -exec touch -d '2 hours ago' {} +",
             folder);
    assert_int_equal(system(command), 0);
    store = open_again();
    assert_int_equal(put_number(store, 1, 10, NULL), PTO_OK);
    store_close(store);
    assert_int_equal(info_now().leftovers, 0);
}

/* A writer that stops before its first system call, and is killed at the n-th system call. */
static pid_t start_traced_put(void)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct store *store;

        if (store_open(folder, &store, NULL) != PTO_OK ||
            ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(9);
        raise(SIGSTOP);
        put_number(store, 1, 3000, NULL);
        put_number(store, 2, 3000, NULL);
        store_close(store);
        _exit(0);
    }
    return child;
}

static void a_writer_killed_at_any_system_call_does_no_harm(void **state)
{
    uint32_t found[3] = { 0 };
    uint32_t steps;
    int status;

    (void)state;
    if (IS_SANITIZED)
        skip(); /* the calls are those of the last writer, and nothing is left to check */
    for (steps = 0;; steps++) {
        struct store *store = open_empty();
        pid_t child;
        bool is_over = false;

        assert_int_equal(put_number(store, 2, 10, NULL), PTO_OK); /* is replaced */
        child = start_traced_put();
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSTOPPED(status)) {
            print_message("tracing is not permitted here: writers are killed by the clock only\n");
            store_close(store);
            skip();
        }
        for (uint32_t i = 0; i < steps && !is_over; i++) {
            assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
            assert_int_equal(waitpid(child, &status, 0), child);
            is_over = WIFEXITED(status);
        }
        if (!is_over) {
            kill(child, SIGKILL);
            assert_int_equal(waitpid(child, &status, 0), child);
        }
        for (uint32_t i = 1; i <= 2; i++) {
            int result = check_number(store, i);

            assert_true(result >= 0);
            found[i] += (uint32_t)result;
        }
        assert_int_equal(check_number(store, 2), 1); /* the old or the new content */
        assert_false(has_note(store, ""));
        store_close(store);
        if (is_over)
            break;
    }
    print_message("killed at %u borders of system calls: the new one was there %u times\n", steps,
                  found[1]);
    assert_true(found[1] > 0 && found[1] < steps);
}

/*
 * Runs in the child: stores and reads all keys for a while, measured in real time, because it may
 * get little CPU time. The exit code is 0 if all entries were right.
 */
static void put_and_get(uint32_t seed, bool is_always_put)
{
    uint64_t deadline = os_now_ns() + 700000000;
    struct store *store;
    uint32_t random = seed, count = 0;
    char text[STORE_NOTE_MAX];
    int code = 0;

    if (store_open(folder, &store, NULL) != PTO_OK)
        _exit(1);
    while (code == 0 && (os_now_ns() < deadline || count++ < OPERATIONS_MIN)) {
        random = random * 1664525 + 1013904223;

        uint32_t number = (random >> 16) % KEYS;

        if ((random >> 9) % 3 == 0 && put_number(store, number, number * 5000, NULL) != PTO_OK &&
            is_always_put)
            code = 2;
        if (check_number(store, number) < 0)
            code = 3;
    }
    while (code == 0 && store_take_note(store, text)) {
        fprintf(stderr, "%s\n", text);
        code = 4;
    }
    store_close(store);
    _exit(code);
}

static void clear_again_and_again(void)
{
    uint64_t deadline = os_now_ns() + 700000000;
    struct pto_store_info info = { .size = sizeof(info) };

    while (os_now_ns() < deadline) {
        if (pto_store_clear(folder, &info, NULL) != PTO_OK)
            _exit(5);
        usleep(1000);
    }
    _exit(0);
}

static void expect_child(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void processes_share_the_store(void **state)
{
    pid_t child[3];

    (void)state;
    store_close(open_empty());
    for (uint32_t i = 0; i < 3; i++) {
        child[i] = fork();
        if (child[i] == 0)
            put_and_get(i + 1, true);
    }
    for (uint32_t i = 0; i < 3; i++)
        expect_child(child[i]);
    assert_int_equal(info_now().entries, KEYS);
    assert_int_equal(info_now().leftovers, 0);
}

static void clearing_disturbs_nobody(void **state)
{
    pid_t child[3];

    (void)state;
    store_close(open_empty());
    for (uint32_t i = 0; i < 3; i++) {
        child[i] = fork();
        if (child[i] == 0 && i < 2)
            put_and_get(i + 1, true);
        else if (child[i] == 0)
            clear_again_and_again();
    }
    for (uint32_t i = 0; i < 3; i++)
        expect_child(child[i]);
}

/* ---- no room, no right ---- */

static void a_store_that_cannot_be_written_is_noted_once(struct store *store, const char *why)
{
    struct pto_error error = { .size = sizeof(error) };

    assert_int_equal(put_number(store, 100, 1000, &error), PTO_ESYSTEM);
    assert_non_null(strstr(error.text, "cannot be written"));
    assert_true(has_note(store, why));
    assert_int_equal(put_number(store, 101, 1000, NULL), PTO_ESYSTEM);
    assert_int_equal(store_name_put(store, &(struct digest){ 0 }, "x", NULL), PTO_ESYSTEM);
    assert_false(has_note(store, ""));
    assert_int_equal(check_number(store, 100), 0);
}

static void a_file_in_the_place_of_the_folder_is_noted(void **state)
{
    struct pto_store_info info = { .size = sizeof(info) };
    struct pto_error error = { .size = sizeof(error) };
    struct store *store;

    (void)state;
    run_shell("rm -rf %s; echo > %s", folder, folder);
    store = open_again();
    a_store_that_cannot_be_written_is_noted_once(store, "nothing is stored");
    store_close(store);
    assert_int_equal(pto_store_show(folder, &info, &error), PTO_ESYSTEM);
    assert_non_null(strstr(error.text, "cannot be read: Not a directory"));
    assert_int_equal(unlink(folder), 0);
}

/* Mounts a file system on the folder, visible to this process only. False: not permitted. */
static bool mount_small(const char *options)
{
    static bool has_own_mounts;

    if (!has_own_mounts && (syscall(SYS_unshare, 0x20000 /* CLONE_NEWNS */) != 0 ||
                            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0))
        return false;
    has_own_mounts = true;
    return mount("none", folder, "tmpfs", 0, options) == 0;
}

static void a_read_only_store_is_read(void **state)
{
    struct pto_store_info info = { .size = sizeof(info) };
    struct store *store;

    (void)state;
    run_shell("rm -rf %s; mkdir %s", folder, folder);
    if (!mount_small("size=1m,mode=700")) {
        print_message("mounts are not permitted: the read-only store is not tested\n");
        skip();
    }
    store = open_again();
    assert_int_equal(put_number(store, 1, 1000, NULL), PTO_OK);
    assert_int_equal(put_number(store, 5, 1000, NULL), PTO_OK);
    store_close(store);
    run_shell("echo x >> $(find %s/entries -type f | head -n 1)", folder); /* one is damaged */
    assert_int_equal(mount("none", folder, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    store = open_again();
    assert_int_equal(check_number(store, 1) + check_number(store, 5), 1);
    assert_true(has_note(store, "is damaged and is not used; it cannot be removed"));
    a_store_that_cannot_be_written_is_noted_once(store, "Read-only file system");
    store_close(store);
    info = info_now();
    assert_false(info.is_writable);
    assert_int_equal(info.entries, 2);
    assert_int_equal(pto_store_clear(folder, &info, NULL), PTO_ESYSTEM);
    assert_int_equal(umount(folder), 0);
}

static void fill_up(struct store *store)
{
    struct pto_error error = { .size = sizeof(error) };
    uint32_t kept = 0;
    bool is_full = false;

    for (uint32_t i = 0; i < 60; i++) {
        if (put_number(store, i, 20000, &error) == PTO_OK)
            kept++;
        else
            is_full = true;
    }
    assert_true(is_full);
    assert_non_null(strstr(error.text, "not everything is stored"));
    for (uint32_t i = 0; i < 60; i++) {
        int result = check_number(store, i);

        assert_true(result >= 0);
        kept -= result == 1;
    }
    assert_int_equal(kept, 0);
}

static void a_full_disk_is_noted_and_leaves_nothing_behind(void **state)
{
    struct pto_store_info info = { .size = sizeof(info) };
    struct rlimit limit, old;
    struct store *store;

    (void)state;
    run_shell("rm -rf %s; mkdir %s", folder, folder);
    if (mount_small("size=512k,mode=700")) {
        store = open_again();
        fill_up(store);
        assert_true(has_note(store, "no room in"));
        assert_false(has_note(store, ""));
        assert_int_equal(info_now().leftovers, 0);
        assert_true(info_now().entries > 5);
        assert_int_equal(pto_store_clear(folder, &info, NULL), PTO_OK);
        assert_int_equal(put_number(store, 1, 20000, NULL), PTO_OK); /* there is room again */
        store_close(store);
        assert_int_equal(umount(folder), 0);
    } else {
        print_message(
            "mounts are not permitted: a limit on the size of files stands for a full disk\n");
    }
    store = open_again();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    limit = (struct rlimit){ .rlim_cur = 10000, .rlim_max = old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(put_number(store, 200, 5000, NULL), PTO_OK);
    fill_up(store);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(has_note(store, "not everything is stored"));
    assert_int_equal(info_now().leftovers, 0);
    store_close(store);
}

/* ---- too much ---- */

static void make_old(uint32_t number, time_t seconds)
{
    struct timespec used[2] = { { .tv_sec = time(NULL) - seconds } };
    char path[256];

    used[1] = used[0];
    path_of(number, path);
    assert_int_equal(utimensat(AT_FDCWD, path, used, 0), 0);
}

static void the_least_recently_used_go(void **state)
{
    struct store *store;
    uint32_t kept = 0;

    (void)state;
    setenv("PTO_STORE_MAX", "200K", 1);
    store = open_empty();
    for (uint32_t i = 0; i < 18; i++) {
        assert_int_equal(put_number(store, i, 10000, NULL), PTO_OK);
        make_old(i, 10000 - i * 100);
    }
    assert_int_equal(info_now().entries, 18); /* 180 kB: all fit */
    assert_int_equal(check_number(store, 0), 1);
    assert_int_equal(check_number(store, 3), 1); /* recent uses, which are recorded */
    for (uint32_t i = 18; i < 24; i++)
        assert_int_equal(put_number(store, i, 10000, NULL), PTO_OK);
    store_close(store);
    assert_true(info_now().entry_bytes <= 200 << 10);
    assert_true(info_now().entry_bytes > 150 << 10); /* and no more than necessary */
    store = open_again();
    assert_int_equal(check_number(store, 0), 1);
    assert_int_equal(check_number(store, 3), 1);
    assert_int_equal(check_number(store, 1), 0);
    assert_int_equal(check_number(store, 2), 0);
    for (uint32_t i = 18; i < 24; i++)
        assert_int_equal(check_number(store, i), 1);
    for (uint32_t i = 0; i < 24; i++)
        kept += check_number(store, i) == 1;
    assert_int_equal(kept, info_now().entries);
    assert_int_equal(put_number(store, 50, 300000, NULL), PTO_ESYSTEM); /* more than all of it */
    store_close(store);
    store = open_again();
    for (uint32_t i = 100; i < 300; i++) { /* also while a build runs */
        assert_int_equal(put_number(store, i, 10000, NULL), PTO_OK);
        assert_true(info_now().entry_bytes <= (200 << 10) * 5 / 4);
    }
    store_close(store);
    unsetenv("PTO_STORE_MAX");
}

/* ---- tools ---- */

static void count_damaged(void *context, const char *path)
{
    assert_int_equal(access(path, F_OK), 0);
    ++*(int *)context;
}

static void the_tools_count_verify_and_clear(void **state)
{
    struct store *store = open_empty();
    struct pto_store_info info = { .size = sizeof(info) };
    char path[256], foreign[256];
    int damaged = 0;

    (void)state;
    info = info_now();
    assert_false(info.is_present);
    assert_true(info.is_writable);
    assert_int_equal(info.max_bytes, 2ull << 30);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(put_number(store, i, 1000, NULL), PTO_OK);
    assert_int_equal(store_name_put(store, &(struct digest){ 0 }, "x", NULL), PTO_OK);
    store_close(store);
    info = info_now();
    assert_true(info.is_present);
    assert_int_equal(info.entries, 10);
    assert_int_equal(info.names, 1);
    assert_true(info.entry_bytes > 10000 && info.entry_bytes < 12000);
    assert_string_equal(info.folder, folder);

    assert_int_equal(pto_store_verify(folder, &info, count_damaged, &damaged, NULL), PTO_OK);
    assert_int_equal(info.damaged + info.removed + (uint64_t)damaged, 0);
    path_of(3, path);
    write_raw(path, "x", 1);
    assert_int_equal(truncate((path_of(4, path), path), 500), 0);
    assert_int_equal(pto_store_verify(folder, &info, count_damaged, &damaged, NULL), PTO_OK);
    assert_int_equal(info.damaged, 2);
    assert_int_equal(info.removed, 2);
    assert_int_equal(damaged, 2);
    assert_int_equal(pto_store_verify(folder, &info, NULL, NULL, NULL), PTO_OK);
    assert_int_equal(info.damaged, 0);
    assert_int_equal(info.entries, 8);

    path_of(5, path); /* files that do not belong to the store stay */
    snprintf(foreign, sizeof(foreign), "%.200s.txt", path);
    write_raw(foreign, "mine", 4);
    snprintf(foreign, sizeof(foreign), "%.200s.999999999-2.part", path); /* of no process */
    write_raw(foreign, "left", 4);
    assert_int_equal(info_now().leftovers, 1);
    assert_int_equal(pto_store_clear(folder, &info, NULL), PTO_OK);
    assert_int_equal(info.entries, 8);
    assert_int_equal(info.removed, 10);
    info = info_now();
    assert_int_equal(info.entries + info.names + info.leftovers, 0);
    snprintf(foreign, sizeof(foreign), "%.200s.%d-2.part", path, (int)getpid());
    write_raw(foreign, "half", 4); /* another process is using it */
    assert_int_equal(pto_store_clear(folder, &info, NULL), PTO_OK);
    assert_int_equal(info_now().leftovers, 1);
    snprintf(foreign, sizeof(foreign), "%.200s.txt", path);
    assert_int_equal(access(foreign, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_found_again),
        cmocka_unit_test(names_may_change),
        cmocka_unit_test(the_environment_names_the_folder),
        cmocka_unit_test(a_damaged_entry_is_never_used),
        cmocka_unit_test(random_files_are_not_taken_for_entries),
        cmocka_unit_test(an_entry_of_another_store_is_not_used),
        cmocka_unit_test(a_store_that_others_can_write_to_is_not_used),
        cmocka_unit_test(a_writer_killed_at_any_moment_does_no_harm),
        cmocka_unit_test(a_writer_killed_at_any_system_call_does_no_harm),
        cmocka_unit_test(processes_share_the_store),
        cmocka_unit_test(clearing_disturbs_nobody),
        cmocka_unit_test(a_file_in_the_place_of_the_folder_is_noted),
        cmocka_unit_test(a_read_only_store_is_read),
        cmocka_unit_test(a_full_disk_is_noted_and_leaves_nothing_behind),
        cmocka_unit_test(the_least_recently_used_go),
        cmocka_unit_test(the_tools_count_verify_and_clear),
    };

    return cmocka_run_group_tests(tests, make_top, remove_top);
}
