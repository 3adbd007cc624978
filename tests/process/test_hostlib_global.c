/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains across workers, by the functions of libhost_runtime.so: a process can map the window that
 * another one describes, and nothing else. Descriptions come from other processes, so this test
 * changes every byte of them.
 */
#include <sys/resource.h>

#include "tests/fixture/rank_test.h"

enum { BYTES = 5000, ID = 3, MUTATIONS = 20000 };

static uint64_t prepare(int rank, uint32_t count)
{
    uint64_t base = 0;

    MUST(lib.comm_global_domain_prepare(ID, (uint32_t)rank, count, BYTES, WORKER_DOMAIN_SIM,
                                        &board->domain[rank], &base) == 0);
    MUST(base != 0);
    return base;
}

static bool imports(const struct worker_domain *domains, size_t count, uint64_t *context_out)
{
    return lib.comm_global_domain_import(ID, domains, count, context_out) == 0;
}

/* ---- three workers ---- */

static void must_be_shared(const struct pto_comm_context *c, int rank)
{
    MUST(c->rank == (uint32_t)rank && c->rank_count == 3 && c->window_bytes == BYTES);
    MUST(c->work_space == 0 && c->work_space_bytes == 0);
    MUST(memcmp(c->window_in, c->window_out, sizeof(c->window_in)) == 0);
    for (int i = 0; i < 3; i++) {
        MUST(bytes_at(c->window_in[i])[rank] == 0);
        bytes_at(c->window_in[i])[rank] = (uint8_t)(16 * rank + i + 1);
    }
    post(1);
    await(1, 3);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            MUST(bytes_at(c->window_in[k])[i] == 16 * i + k + 1);
}

static void play_workers(int rank)
{
    uint32_t files = count_descriptors();
    struct worker_domain table[3];
    uint64_t base = prepare(rank, 3), context;

    post(0);
    await(0, 3);
    for (int i = 0; i < 3; i++)
        table[i] = board->domain[(i + rank) % 3]; /* in any order */
    MUST(imports(table, 3, &context));
    MUST(at(context)->window_in[rank] == base);
    must_be_shared(at(context), rank);
    MUST(!imports(table, 3, &context)); /* once is enough */
    post(2);
    await(2, 3);
    MUST(lib.comm_global_domain_release(ID) == 0);
    MUST(lib.comm_global_domain_release(ID) == 0); /* it was released nevertheless */
    MUST(count_descriptors() == files);
}

static void workers_share_what_they_describe(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < VARIANTS; i++) {
        load_library(&variants[i]);
        play_ranks(3, play_workers, -1);
    }
    load_library(&variants[0]);
}

/*
 * A window outlives its worker for processes that have mapped it; no other process can map it
 * afterwards.
 */
static void play_survivor(int rank)
{
    uint64_t context;

    (void)prepare(rank, 2);
    post(0);
    await(0, 2);
    if (rank == 1) {
        await(1, 1);
        raise(SIGKILL);
    }
    MUST(imports(board->domain, 2, &context));
    post(1);
    do {
        memset(bytes_at(at(context)->window_in[1]), 1, BYTES);
        MUST(lib.comm_global_domain_release(ID) == 0);
        (void)prepare(rank, 2);
    } while (imports(board->domain, 2, &context));
    MUST(lib.comm_global_domain_release(ID) == 0);
}

static void a_dead_worker_leaves_nothing(void **state)
{
    (void)state;
    play_ranks(2, play_survivor, 1);
}

static void play_copies(int rank)
{
    struct worker_device *d = lib.create_device_context();
    uint64_t base = prepare(rank, 1);
    uint32_t word = 7;

    MUST(lib.simpler_init(d, 0, NULL, 0, NULL, 0, NULL, 0, NULL) == 0);
    MUST(lib.copy_to_device_ctx(d, bytes_at(base) + BYTES - 4, &word, 4) == 0);
    MUST(lib.copy_to_device_ctx(d, bytes_at(base) + BYTES - 3, &word, 4) != 0);
    word = 0;
    MUST(lib.copy_from_device_ctx(d, &word, bytes_at(base) + BYTES - 4, 4) == 0 && word == 7);
    MUST(lib.comm_global_domain_release(ID) == 0);
    MUST(lib.copy_from_device_ctx(d, &word, bytes_at(base), 4) != 0);
    MUST(lib.finalize_device(d) == 0);
    lib.destroy_device_context(d);
}

static void copies_may_name_a_window(void **state)
{
    (void)state;
    play_ranks(1, play_copies, -1);
}

/* ---- what is wrong ---- */

static void what_is_wrong_is_refused(void **state)
{
    struct worker_domain domain;
    uint64_t base;

    (void)state;
#define REFUSED(id, rank, count, bytes, profile, out, base_out) \
    assert_int_not_equal(                                       \
        lib.comm_global_domain_prepare(id, rank, count, bytes, profile, out, base_out), 0)
    REFUSED(0, 0, 1, 1, 1, &domain, &base);
    REFUSED(ID, 1, 1, 1, 1, &domain, &base);
    REFUSED(ID, 0, 0, 1, 1, &domain, &base);
    REFUSED(ID, 0, PTO_CONTEXT_RANKS + 1, 1, 1, &domain, &base);
    REFUSED(ID, 0, 1, 0, 1, &domain, &base);
    REFUSED(ID, 0, 1, SIZE_MAX, 1, &domain, &base);
    REFUSED(ID, 0, 1, 1, 2, &domain, &base);
    REFUSED(ID, 0, 1, 1, 1, NULL, &base);
    REFUSED(ID, 0, 1, 1, 1, &domain, NULL);
    assert_false(imports(&domain, 1, &base)); /* there is none */
    assert_int_equal(lib.comm_global_domain_prepare(ID, 0, 1, 1, 1, &domain, &base), 0);
    REFUSED(ID, 0, 1, 1, 1, &domain, &base); /* it exists */
#undef REFUSED
    assert_false(imports(NULL, 1, &base));
    assert_false(imports(&domain, 1, NULL));
    assert_false(imports(&domain, 0, &base));
    assert_false(imports(&domain, 2, &base));
    assert_true(imports(&domain, 1, &base));
    assert_int_equal(lib.comm_global_domain_release(ID), 0);
    assert_int_equal(lib.comm_global_domain_release(0), 0);
}

/*
 * A limit of file sizes (`ulimit -f`) gives an error that names it, and does not end the process.
 */
static void play_limit(int rank)
{
    const struct rlimit limit = { .rlim_cur = BYTES - 1, .rlim_max = BYTES - 1 };
    struct worker_domain domain;
    uint64_t base;

    catch_rank(PTO_LOG_ERROR);
    MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    MUST(lib.comm_global_domain_prepare(ID, (uint32_t)rank, 1, BYTES, WORKER_DOMAIN_SIM, &domain,
                                        &base) == PTO_ESYSTEM);
    MUST(has_printed("the limit of file sizes is too low"));
}

static void a_limit_of_file_sizes_is_named(void **state)
{
    (void)state;
    play_ranks(1, play_limit, -1);
}

/* Rank 0 gets descriptions with changes; rank 1's description is right. */
static void play_changes(int rank)
{
    struct worker_domain table[2];
    uint32_t files = 0, random = 1;
    uint64_t context;

    (void)prepare(rank, 2);
    post(0);
    await(0, 2);
    if (rank == 1) {
        await(1, 1);
        return;
    }
    files = count_descriptors();
    for (size_t i = 0; i < 2 * sizeof(*table); i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(table, board->domain, sizeof(table));
            ((uint8_t *)table)[i] ^= (uint8_t)(1 << bit);
            MUST(!imports(table, 2, &context));
        }
    for (int i = 0; i < MUTATIONS; i++) {
        memcpy(table, board->domain, sizeof(table));
        for (uint32_t k = 0; k < 1 + random % 4; k++) {
            random = random * 1664525 + 1013904223;
            ((uint8_t *)table)[(random >> 8) % sizeof(table)] = (uint8_t)(random >> 20);
        }
        MUST(memcmp(table, board->domain, sizeof(table)) == 0 || !imports(table, 2, &context));
    }
    MUST(count_descriptors() == files);
    MUST(imports(board->domain, 2, &context));
    post(1);
}

static void a_changed_description_leads_nowhere(void **state)
{
    (void)state;
    play_ranks(2, play_changes, -1);
}

/* A file of this process with the name that a description has. */
static int make_file(const char *name, off_t bytes, int seals)
{
    int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    MUST(file >= 0 && ftruncate(file, bytes) == 0 && fcntl(file, F_ADD_SEALS, seals) == 0);
    return file;
}

/* A forged description can name a file, but cannot make other processes map it in another way. */
static void play_forger(int rank)
{
    struct worker_domain table[2];
    char path[64], link[128], name[64];
    uint64_t context;
    int32_t numbers[2];
    ssize_t length;
    int file;

    (void)prepare(rank, 2);
    memcpy(numbers, board->domain[0].handle + 8, sizeof(numbers)); /* process and file */
    MUST(numbers[0] == getpid());
    snprintf(path, sizeof(path), "/proc/self/fd/%d", numbers[1]);
    length = readlink(path, link, sizeof(link) - 1);
    MUST(length > 0);
    link[length] = '\0';
    MUST(sscanf(link, "/memfd:%63s (deleted)", name) == 1);
    for (int i = 0; i < 4; i++) {
        static const off_t bytes[] = { BYTES, BYTES - 1, BYTES + 1, BYTES };
        static const int seals[] = { 0, F_SEAL_SHRINK, F_SEAL_SHRINK, F_SEAL_SHRINK };

        file = make_file(name, bytes[i], seals[i]);
        table[0] = table[1] = board->domain[0];
        table[1].rank = 1;
        memcpy(table[1].handle + 12, &file, sizeof(file));
        MUST(imports(table, 2, &context) == (i == 3));
        close(file);
    }
}

static void a_window_that_could_shrink_is_not_mapped(void **state)
{
    (void)state;
    play_ranks(1, play_forger, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_share_what_they_describe),
        cmocka_unit_test(a_dead_worker_leaves_nothing),
        cmocka_unit_test(copies_may_name_a_window),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(a_limit_of_file_sizes_is_named),
        cmocka_unit_test(a_changed_description_leads_nowhere),
        cmocka_unit_test(a_window_that_could_shrink_is_not_mapped),
    };

    return cmocka_run_group_tests(tests, make_board, NULL);
}
