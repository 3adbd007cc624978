/* SPDX-License-Identifier: Apache-2.0 */
/* variants: asan - plain: the sanitizers judge what was read */
/*
 * Invalid data from other processes: messages while ranks meet, the file at the path, and what a
 * damaged peer writes to shared memory. No rank may crash, wait beyond its deadline, or leave a
 * descriptor open.
 *
 * Takes a few seconds; PTO_TEST_LONG does more. The seed is printed after a failure.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "comm/comm_shared.h"
#include "comm/meet.h"
#include "host/handle.h"
#include "tests/fixture/counts_test.h"
#include "tests/fixture/fixture.h"
#include "tests/fixture/random_test.h"

enum { DOMAINS = 150 };

static char path[120];

static uint32_t rounds(uint32_t usual)
{
    return getenv("PTO_TEST_LONG") != NULL ? usual * 50 : usual;
}

/* Changes a valid message a little, or replaces it. */
static size_t damage(void *bytes, size_t size, size_t room)
{
    uint8_t *at = bytes;

    for (uint32_t i = random_below(4); i > 0; i--)
        at[random_below((uint32_t)size)] = (uint8_t)random_below(256);
    if (random_below(8) == 0)
        for (size_t i = 0; i < size; i++)
            at[i] = (uint8_t)random_below(256);
    if (random_below(4) == 0)
        memset(at + random_below((uint32_t)size), 0xff, 1);
    return random_below(6) == 0 ? random_below((uint32_t)room) : size;
}

/* ---- messages ---- */

static void messages_are_checked(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < rounds(300000); i++) {
        union {
            struct meet_root root;
            struct meet_hello hello;
            struct meet_answer answer;
            struct meet_part part;
            uint8_t bytes[512];
        } m = { .root = { .magic = MEET_MAGIC, .version = MEET_VERSION } }, out;
        const size_t sizes[] = { sizeof(m.root), sizeof(m.hello), sizeof(m.answer),
                                 sizeof(m.part) };
        uint32_t kind = random_below(4), ranks = 1 + random_below(300);
        uint8_t *exact;
        size_t size;

        if (kind == 3)
            m.part = (struct meet_part){ MEET_MAGIC, random_below(ranks + 2), random_below(110) };
        size = damage(&m, sizes[kind], sizeof(m));
        /* a block of the exact size, so that a read beyond it is detected */
        exact = malloc(size + 1);
        assert_non_null(exact);
        memcpy(exact, &m, size);
        if (meet_is_root(exact, size, &out.root))
            assert_true(memchr(out.root.token, 0, MEET_TOKEN_BYTES) != NULL);
        if (meet_is_hello(exact, size, &out.hello))
            assert_true(memchr(out.hello.token, 0, MEET_TOKEN_BYTES) != NULL);
        if (meet_is_answer(exact, size, &out.answer))
            assert_true(out.answer.status <= 0 &&
                        memchr(out.answer.text, 0, sizeof(out.answer.text)) != NULL);
        if (meet_is_part(exact, size, ranks, &out.part))
            assert_true(out.part.count > 0 && out.part.count <= MEET_FDS_MAX / 2 &&
                        (uint64_t)out.part.first + out.part.count <= ranks);
        free(exact);
    }
}

/* ---- meetings ---- */

/* Opens a communicator; whatever the result is, nothing may be left. */
static pid_t start_rank(uint32_t rank, uint32_t count, uint32_t timeout_ms)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        uint32_t files = count_descriptors();
        struct pto_comm_params params;
        struct pto_comm *comm;
        struct pto_error error;

        alarm(HANG_SECONDS);
        pto_error_init(&error);
        pto_comm_params_init(&params);
        params.rank = (int32_t)rank;
        params.rank_count = count;
        params.path = path;
        params.token = "t";
        params.timeout_ns = timeout_ms * MS;
        params.error = &error;
        if (pto_comm_open(&params, &comm) >= 0)
            (void)pto_comm_close(comm);
        exit(count_descriptors() == files ? 0 : 3);
    }
    return child;
}

static void expect_end(pid_t child)
{
    int code;

    assert_int_equal(waitpid(child, &code, 0), child);
    if (code != 0)
        fail_msg("a rank ended with %#x; the seed was %llu", code,
                 (unsigned long long)chance.state);
}

static void send_damaged(int socket, const void *bytes, size_t size)
{
    char message[600] = { 0 };
    int fds[4], count = (int)random_below(5) - 1;

    memcpy(message, bytes, size);
    size = damage(message, size, sizeof(message));
    if (count < 0)
        count = 2;
    for (int i = 0; i < count; i++)
        fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)meet_send(socket, 0, &(struct meet_letter){ message, size, fds, (uint32_t)count });
    meet_close_fds(fds, (uint32_t)count);
}

/* Returns false if the rank has given up before the path was found. */
static bool read_name(pid_t child, struct meet_root *root)
{
    for (;;) {
        siginfo_t ended = { .si_pid = 0 };
        int file = open(path, O_RDONLY | O_CLOEXEC);
        bool is_good = file >= 0 && read(file, root, sizeof(*root)) == (ssize_t)sizeof(*root);

        if (file >= 0)
            close(file);
        if (is_good)
            return true;
        assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
        if (ended.si_pid != 0)
            return false;
        (void)nanosleep(&(struct timespec){ 0, 200000 }, NULL);
    }
}

static void rank_0_hears_anything(void **state)
{
    (void)state;
    for (uint32_t i = 0, timeout_ms = 50; i < rounds(40); i++) {
        pid_t child = start_rank(0, 3, timeout_ms);
        struct meet_root root;
        int sockets[6];

        if (!read_name(child, &root)) { /* the machine is busy */
            expect_end(child);
            assert_true(timeout_ms < HANG_SECONDS * 500);
            timeout_ms *= 2;
            i--;
            continue;
        }
        timeout_ms = 50;
        for (uint32_t k = 0; k < 6; k++) {
            struct meet_hello hello = { .magic = MEET_MAGIC,
                                        .version = MEET_VERSION,
                                        .rank = 1 + random_below(3),
                                        .rank_count = 3,
                                        .head_bytes = (uint32_t)sizeof(struct shared_head),
                                        .token = "t" };

            sockets[k] = meet_connect(root.name);
            for (uint32_t n = 1 + random_below(3); n > 0 && sockets[k] >= 0; n--)
                send_damaged(sockets[k], &hello, sizeof(hello));
            if (random_below(3) == 0) {
                meet_close_fds(&sockets[k], 1);
                sockets[k] = -1;
            }
        }
        expect_end(child);
        meet_close_fds(sockets, 6);
    }
}

/* What a rank receives that takes this test for rank 0. */
static void answer_badly(int socket)
{
    for (uint32_t i = 0; i < 1 + random_below(5); i++) {
        struct meet_answer answer = { .magic = MEET_MAGIC,
                                      .status =
                                          random_below(3) == 0 ? -(int)random_below(300) : 0 };
        struct meet_part part = { MEET_MAGIC, random_below(3), 1 + random_below(3) };

        if (i == 0 || random_below(3) == 0)
            send_damaged(socket, &answer, sizeof(answer));
        else
            send_damaged(socket, &part, sizeof(part));
    }
}

static void followers_hear_anything(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < rounds(40); i++) {
        struct meet_root root = { .magic = MEET_MAGIC, .version = MEET_VERSION, .token = "t" };
        char bytes[sizeof(root) + 200];
        pid_t child = start_rank(1 + random_below(2), 3, 50);
        int file, listener, socket = -1;
        size_t size;

        for (uint32_t k = 0; k < MEET_NAME_BYTES; k++)
            root.name[k] = (uint8_t)random_below(256);
        listener = meet_listen(root.name);
        assert_true(listener >= 0);
        memset(bytes, 0, sizeof(bytes));
        memcpy(bytes, &root, sizeof(root));
        size = random_below(5) == 0 ? damage(bytes, sizeof(root), sizeof(bytes)) : sizeof(root);
        file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_true(file >= 0 && write(file, bytes, size) == (ssize_t)size);
        close(file);
        for (uint32_t k = 0; k < 60 && socket < 0; k++) {
            socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            (void)nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        }
        if (socket >= 0)
            answer_badly(socket);
        if (random_below(2) == 0)
            meet_close_fds(&socket, 1);
        expect_end(child);
        if (fcntl(socket, F_GETFD) >= 0)
            meet_close_fds(&socket, 1);
        close(listener);
        assert_int_equal(unlink(path), 0);
    }
}

/* ---- shared memory ---- */

static struct pto_comm *open_pair(uint32_t rank)
{
    struct pto_comm_params params;
    struct pto_comm *comm = NULL;

    pto_comm_params_init(&params);
    params.rank = (int32_t)rank;
    params.rank_count = 2;
    params.path = path;
    params.token = "t";
    params.timeout_ns = 60000 * MS;
    if (pto_comm_open(&params, &comm) < 0)
        _exit(4);
    return comm;
}

/* Opens and closes domains, one after the other, until all ranks are done. */
static uint32_t use_domains(struct pto_comm *comm, uint32_t rank, uint32_t count)
{
    uint32_t opened = 0;
    int32_t value = 1;

    for (uint32_t i = 0; i < count; i++) {
        struct pto_domain_params params;
        struct pto_domain *domain;
        struct pto_comm_info info;

        pto_domain_params_init(&params);
        params.id = i;
        params.window_bytes = 4096;
        params.timeout_ns = 5 * MS;
        pto_comm_info_init(&info);
        (void)pto_comm_info(comm, &info);
        if (pto_domain_open(comm, &params, &domain) < 0)
            continue;
        opened++;
        (void)pto_comm_put_signal(domain, 1 - rank, 8, &value, 4,
                                  (struct pto_signal_at){ 0, PTO_SIGNAL_ADD, 1 });
        (void)pto_comm_barrier(domain, MS, NULL);
        (void)pto_comm_wait(domain, (struct pto_wait_for){ 0, PTO_COMPARE_EQ, 1 }, MS, NULL);
        (void)pto_domain_close(domain, MS, NULL);
    }
    return opened;
}

/* Writes random bytes to everything that it has mapped: the heads of both ranks. */
static void *scribble(void *context)
{
    struct shared *d = shared_of(handle_get(HANDLE_COMM, context));

    for (;;) {
        struct shared_head *head = d->head[random_below(4) == 0 ? 0 : 1];
        struct shared_entry *e = &head->entry[random_below(4)];

        (void)nanosleep(&(struct timespec){ 0, 20000 }, NULL);
        if (random_below(3) == 0)
            a32_store_relaxed((struct a32 *)(void *)head + random_below(sizeof(*head) / 4),
                              random_below(~0u));
        if (random_below(8) == 0)
            a64_store_relaxed(&e->offset, random_below(2) == 0
                                              ? 4096ull * random_below(600)
                                              : (uint64_t)random_below(~0u) << random_below(32));
        if (random_below(8) == 0)
            a64_store_relaxed(&e->window_bytes, random_below(~0u));
        if (random_below(8) == 0)
            a64_store_relaxed(&e->serial, random_below(100));
        if (random_below(8) == 0)
            a32_store_release(&e->state, random_below(7));
        if (random_below(8) == 0)
            a32_store_relaxed(&head->waker.sleepers, random_below(2));
        if (random_below(50) == 0)
            (void)a32_add_acq_rel(&d->head[0]->trouble, 1);
        (void)a32_add_acq_rel(&d->own->published, 1);
        shared_wake(d, 0);
    }
    return NULL;
}

static void run_damaged_rank(void)
{
    struct pto_comm *comm = open_pair(1);
    pthread_t thread;

    if (pthread_create(&thread, NULL, scribble, comm) != 0)
        _exit(4);
    for (;;)
        (void)use_domains(comm, 1, DOMAINS);
}

static void run_intact_rank(void)
{
    struct pto_comm *comm = open_pair(0);

    (void)use_domains(comm, 0, DOMAINS);
    (void)pto_comm_close(comm);
    exit(0);
}

static void a_damaged_peer_does_no_harm(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < rounds(4); i++) {
        pid_t child[2];
        int code;

        for (uint32_t k = 0; k < 2; k++) {
            child[k] = fork();
            assert_true(child[k] >= 0);
            if (child[k] == 0) {
                alarm(HANG_SECONDS);
                chance.state += i;
                if (k == 1)
                    run_damaged_rank();
                run_intact_rank();
            }
        }
        expect_end(child[0]);
        (void)kill(child[1], SIGKILL);
        assert_int_equal(waitpid(child[1], &code, 0), child[1]);
    }
}

static int begin(void **state)
{
    const char *room = getenv("TMPDIR"), *given = getenv("PTO_TEST_SEED");

    (void)state;
    chance.state = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    print_message("PTO_TEST_SEED=%llu\n", (unsigned long long)chance.state);
    snprintf(folder, sizeof(folder), "%s/pto-fuzz-XXXXXX", room != NULL ? room : "/tmp");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/meet", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_checked),
        cmocka_unit_test(rank_0_hears_anything),
        cmocka_unit_test(followers_hear_anything),
        cmocka_unit_test(a_damaged_peer_does_no_harm),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
