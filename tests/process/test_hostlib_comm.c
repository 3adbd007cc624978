/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks, windows and domains by the functions of libhost_runtime.so: each rank is a process that
 * calls them as the reference's worker does. These functions have no time-out, so this program
 * replaces a function of the library to set a shorter one.
 */
#include "tests/fixture/rank_test.h"
#include "tests/fixture/hostlib_call.h"

static uint64_t shorter_ns; /* time-out to set; 0: unchanged */

/* The library's own function is found by RTLD_NEXT. */
int pto_comm_open(const struct pto_comm_params *params, struct pto_comm **comm_out)
{
    __typeof__(&pto_comm_open) open;
    struct pto_comm_params given = *params;

    *(void **)&open = dlsym(lib.handle, "pto_comm_open");
    MUST(params->timeout_ns == 0 && PTO_COMM_TIMEOUT_DEFAULT_NS == 120000000000ull);
    given.timeout_ns = shorter_ns;
    return open(&given, comm_out);
}

static void *join(int rank, int count)
{
    void *comm = lib.comm_init(rank, count, NULL, meeting);

    MUST(comm != NULL);
    return comm;
}

static bool are_zero(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != 0)
            return false;
    return true;
}

/* Checks the fields of a context, except the addresses of windows. */
static void must_be_context(const struct pto_comm_context *c, uint32_t rank, uint32_t count,
                            uint64_t bytes)
{
    MUST(c->work_space == 0 && c->work_space_bytes == 0);
    MUST(c->rank == rank && c->rank_count == count && c->window_bytes == bytes);
    MUST(memcmp(c->window_in, c->window_out, sizeof(c->window_in)) == 0);
    for (uint32_t i = 0; i < PTO_CONTEXT_RANKS; i++)
        MUST((c->window_in[i] != 0) == (i < count));
}

/* ---- windows of all ranks ---- */

enum { COUNT = 3, BYTES = 8192 };

static void play_windows(int rank)
{
    uint32_t files = count_descriptors();
    void *comm = join(rank, COUNT);
    uint64_t context, base;
    size_t bytes;

    MUST(lib.comm_alloc_windows(comm, BYTES, &context) == 0);
    must_be_context(at(context), (uint32_t)rank, COUNT, BYTES);
    MUST(lib.comm_get_local_window_base(comm, &base) == 0 && base == at(context)->window_in[rank]);
    MUST(lib.comm_get_window_size(comm, &bytes) == 0 && bytes == BYTES);
    MUST(are_zero(bytes_at(base), BYTES));
    MUST(lib.comm_barrier(comm) == 0);
    for (int i = 0; i < COUNT; i++)
        bytes_at(at(context)->window_in[i])[BYTES - 1 - rank] = (uint8_t)(16 * rank + i + 1);
    MUST(lib.comm_barrier(comm) == 0);
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < COUNT; k++)
            MUST(bytes_at(at(context)->window_out[k])[BYTES - 1 - i] == 16 * i + k + 1);
    MUST(lib.comm_barrier(comm) == 0);
    MUST(lib.comm_destroy(comm) == 0);
    MUST(lib.comm_destroy(comm) != 0 && lib.comm_barrier(comm) != 0);
    MUST(count_descriptors() == files);
}

static void every_rank_reaches_every_window(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < VARIANTS; i++) {
        load_library(&variants[i]);
        play_ranks(COUNT, play_windows, -1);
    }
    load_library(&variants[0]);
}

static void play_copies(int rank)
{
    struct worker_device *d = lib.create_device_context();
    struct pto_comm_context seen;
    uint32_t word = 7 + (uint32_t)rank;
    uint64_t context, next;
    void *comm;

    MUST(lib.simpler_init(d, 0, NULL, 0, NULL, 0, NULL, 0, NULL) == 0);
    comm = lib.comm_init(rank, 2, lib.create_comm_stream_ctx(d), meeting);
    MUST(comm != NULL && lib.comm_alloc_windows(comm, 4096, &context) == 0);
    MUST(lib.copy_from_device_ctx(d, &seen, at(context), sizeof(seen)) == 0);
    MUST(memcmp(&seen, at(context), sizeof(seen)) == 0);
    MUST(lib.copy_to_device_ctx(d, (void *)(uintptr_t)context, &seen, sizeof(seen)) != 0);
    next = seen.window_in[1 - rank];
    MUST(lib.copy_to_device_ctx(d, bytes_at(next) + 4092, &word, 4) == 0);
    MUST(lib.copy_to_device_ctx(d, bytes_at(next) + 4093, &word, 4) != 0);
    MUST(lib.copy_to_device_ctx(d, bytes_at(next) - 1, &word, 4) != 0);
    MUST(lib.comm_barrier(comm) == 0);
    MUST(lib.copy_from_device_ctx(d, &word, bytes_at(seen.window_in[rank]) + 4092, 4) == 0);
    MUST(word == 7 + 1 - (uint32_t)rank);
    MUST(lib.comm_destroy(comm) == 0);
    MUST(lib.copy_from_device_ctx(d, &word, bytes_at(next), 4) != 0);
    MUST(lib.finalize_device(d) == 0);
    lib.destroy_device_context(d);
}

static void copies_may_name_windows(void **state)
{
    (void)state;
    play_ranks(2, play_copies, -1);
}

/* ---- kernels ---- */

static struct bytes share_blob;

/*
 * If scalar 1 is 0, copies tensor 0 to tensor 2. Otherwise scalar 1 is a context, and tensor 2
 * becomes the sum of the elements that all ranks have at tensor 0's offset in their windows.
 */
static const char share_text[] =
    "#include <pto/orch.h>\n"
    "void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{\n"
    "    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_WRITE(&e->tensor[2]), PTO_INT(e->scalar[1]));\n"
    "}\n";

static const char share_kernel_text[] =
    "#include <pto/window.h>\n"
    "void kernel_entry(int64_t *args)\n"
    "{\n"
    "    const struct pto_comm_context *c = (const struct pto_comm_context *)args[2];\n"
    "    const int *in = (const int *)pto_tensor_data(pto_arg_tensor(args, 0));\n"
    "    int *out = (int *)pto_tensor_data(pto_arg_tensor(args, 1));\n"
    "    for (uint32_t i = 0; i < pto_arg_tensor(args, 0)->shapes[0]; i++) {\n"
    "        out[i] = c == NULL ? in[i] : 0;\n"
    "        for (uint32_t r = 0; c != NULL && r < c->rank_count; r++)\n"
    "            out[i] += ((const int *)pto_window_peer(c, r, in))[i];\n"
    "    }\n"
    "}\n";

/* Runs a callable whose tensor `window` is in a window. */
static void must_run(struct worker_device *d, struct call *c, int tensor, uint64_t window)
{
    set_tensor(&c->args.tensor[tensor], bytes_at(window), sizeof(c->a));
    c->args.tensor[tensor].space = PTO_SPACE_DEVICE;
    MUST(run(d, c, 0) == 0);
}

static void play_sum(int rank)
{
    struct worker_device *d = lib.create_device_context();
    struct call *first = make_call(0), *second = make_call(0);
    uint64_t context, base;
    void *comm = join(rank, COUNT);

    MUST(lib.simpler_init(d, 0, NULL, 0, NULL, 0, NULL, 0, NULL) == 0);
    MUST(lib.simpler_register_callable(d, 0, share_blob.at) == 0);
    MUST(lib.comm_alloc_windows(comm, BYTES, &context) == 0);
    MUST(lib.comm_get_local_window_base(comm, &base) == 0);
    for (int i = 0; i < ELEMENTS; i++)
        first->a[i] = i + 10000 * rank;
    must_run(d, first, 2, base + 1024);
    MUST(lib.comm_barrier(comm) == 0);
    second->args.scalar[1] = context;
    must_run(d, second, 0, base + 1024);
    for (int i = 0; i < ELEMENTS; i++)
        MUST(second->out[i] == COUNT * i + 10000 * (COUNT * (COUNT - 1) / 2));
    MUST(lib.comm_destroy(comm) == 0);
    MUST(lib.finalize_device(d) == 0);
    lib.destroy_device_context(d);
    free_call(first);
    free_call(second);
}

static void kernels_read_the_windows_of_others(void **state)
{
    if (make_folder(state) != 0)
        fail_msg("no folder can be made");
    share_blob = make_blob_of(compile(share_text, ""), share_kernel_text, NULL, in_in_out);
    play_ranks(COUNT, play_sum, -1);
    free(share_blob.at);
    assert_int_equal(remove_folder(state), 0);
}

/* ---- derived contexts ---- */

static void play_derived(int rank)
{
    static const uint32_t members[] = { 2, 0 }, wrong[] = { 2, COUNT };
    uint32_t own = rank == 2 ? 0 : 1;
    uint64_t base, context = 0;
    void *comm = join(rank, COUNT);

    MUST(lib.comm_derive_context(comm, members, 2, own, 0, 1, &context) != 0); /* no windows yet */
    MUST(lib.comm_barrier(comm) != 0 && lib.comm_get_local_window_base(comm, &base) != 0);
    MUST(lib.comm_alloc_windows(comm, BYTES, &base) == 0);
    MUST(lib.comm_alloc_windows(comm, BYTES, &context) != 0);
    MUST(lib.comm_derive_context(comm, members, 2, rank == 1 ? 0 : 1 - own, 0, 1, &context) != 0);
    MUST(lib.comm_derive_context(comm, members, 2, 2, 0, 1, &context) != 0);
    MUST(lib.comm_derive_context(comm, members, 0, 0, 0, 1, &context) != 0);
    MUST(lib.comm_derive_context(comm, NULL, 2, own, 0, 1, &context) != 0);
    MUST(lib.comm_derive_context(comm, wrong, 2, own, 0, 1, &context) != 0);
    MUST(lib.comm_derive_context(comm, members, PTO_CONTEXT_RANKS + 1, own, 0, 1, &context) != 0);
    MUST(lib.comm_derive_context(comm, members, 2, own, BYTES, 1, &context) != 0);
    MUST(lib.comm_derive_context(comm, members, 2, own, 4096, SIZE_MAX, &context) != 0);
    MUST(lib.comm_derive_context(comm, members, 2, own, SIZE_MAX, 4096, &context) != 0);
    MUST(context == 0);
    if (rank != 1) { /* no rank waits for it */
        MUST(lib.comm_derive_context(comm, members, 2, own, 4096, 1024, &context) == 0);
        must_be_context(at(context), own, 2, 1024);
        for (int i = 0; i < 2; i++)
            MUST(at(context)->window_in[i] == at(base)->window_in[members[i]] + 4096);
        MUST(lib.comm_derive_context(comm, members, 2, own, BYTES, 0, &context) == 0);
    }
    MUST(lib.comm_barrier(comm) == 0);
    MUST(lib.comm_destroy(comm) == 0);
}

static void a_context_is_derived_without_the_others(void **state)
{
    (void)state;
    play_ranks(COUNT, play_derived, -1);
}

/* ---- domains ---- */

/* Returns the number of a rank in a list; -1: it is not in the list. */
static int place(const uint32_t *ranks, int rank)
{
    return ranks[0] == (uint32_t)rank ? 0 : ranks[1] == (uint32_t)rank ? 1 : -1;
}

/* Opens a domain of two ranks; 0: this rank is not a member. */
static uint64_t open_pair(void *comm, uint64_t id, const uint32_t ranks[2], int rank, size_t bytes)
{
    int own = place(ranks, rank);
    uint64_t context = 0, base;

    if (own < 0)
        return 0;
    MUST(lib.comm_alloc_domain_windows(comm, id, ranks, 2, (uint32_t)own, bytes, &context, &base) ==
         0);
    must_be_context(at(context), (uint32_t)own, 2, bytes);
    MUST(base == at(context)->window_in[own]);
    MUST(are_zero(bytes_at(base), bytes));
    return context;
}

static void close_pair(void *comm, uint64_t id, const uint32_t ranks[2], int rank)
{
    int own = place(ranks, rank);

    if (own < 0)
        return;
    MUST(lib.comm_release_domain_windows(comm, id, 3, (uint32_t)own) != 0);
    MUST(lib.comm_release_domain_windows(comm, id, 2, (uint32_t)(1 - own)) != 0);
    MUST(lib.comm_release_domain_windows(comm, id, 2, (uint32_t)own) == 0);
    MUST(lib.comm_release_domain_windows(comm, id, 2, (uint32_t)own) != 0);
}

static void play_domains(int rank)
{
    static const uint32_t low[] = { 0, 1 }, high[] = { 2, 1 }, round[] = { 2, 0 };
    uint32_t files = count_descriptors();
    uint64_t first, second, context, base;
    void *comm = join(rank, COUNT);

    MUST(lib.comm_alloc_windows(comm, 0, &context) == 0);
    first = open_pair(comm, 7, low, rank, 100);
    second = open_pair(comm, 8, high, rank, BYTES);
    MUST(lib.comm_barrier(comm) == 0); /* all ranks have seen that their windows are zero */
    if (rank != 1)
        bytes_at(at(rank == 0 ? first : second)->window_in[1])[99] = (uint8_t)(rank + 1);
    else {
        MUST(lib.comm_alloc_domain_windows(comm, 7, low, 2, 1, 1, &context, &base) != 0);
        while (__atomic_load_n(bytes_at(at(first)->window_in[1]) + 99, __ATOMIC_ACQUIRE) != 1)
            sched_yield();
        while (__atomic_load_n(bytes_at(at(second)->window_in[1]) + 99, __ATOMIC_ACQUIRE) != 3)
            sched_yield();
    }
    close_pair(comm, 7, low, rank);
    /* the same id for other ranks, while the domain with id 8 is open */
    for (int i = 0; i < 20; i++) {
        context = open_pair(comm, 7, round, rank, 5000);
        if (context != 0)
            memset(bytes_at(at(context)->window_in[at(context)->rank]), 0xff, 5000);
        close_pair(comm, 7, round, rank);
    }
    close_pair(comm, 8, high, rank);
    MUST(lib.comm_alloc_domain_windows(comm, 1, low, 2, 0, 0, &context, &base) != 0);
    MUST(lib.comm_alloc_domain_windows(comm, 1, low, 2, 2, 1, &context, &base) != 0);
    MUST(lib.comm_alloc_domain_windows(comm, 1, NULL, 2, 0, 1, &context, &base) != 0);
    MUST(lib.comm_alloc_domain_windows(comm, 1, low, 65, 0, 1, &context, &base) != 0);
    (void)open_pair(comm, 9, low, rank, 10); /* is closed together with the communicator */
    MUST(lib.comm_destroy(comm) == 0);
    MUST(count_descriptors() == files);
}

static void domains_overlap_and_ids_are_used_again(void **state)
{
    (void)state;
    play_ranks(COUNT, play_domains, -1);
}

/* ---- what goes wrong ---- */

static void what_is_wrong_is_refused_at_once(void **state)
{
    (void)state;
    assert_null(lib.comm_init(0, 1, NULL, NULL));
    assert_null(lib.comm_init(0, 1, NULL, ""));
    assert_null(lib.comm_init(-1, 2, NULL, meeting));
    assert_null(lib.comm_init(2, 2, NULL, meeting));
    assert_null(lib.comm_init(0, 0, NULL, meeting));
    assert_null(lib.comm_init(0, -1, NULL, meeting));
    assert_null(lib.comm_init(0, PTO_CONTEXT_RANKS + 1, NULL, meeting));
    assert_int_equal(access(meeting, F_OK), -1);
    assert_int_not_equal(lib.comm_alloc_windows(NULL, 1, NULL), 0);
    assert_int_not_equal(lib.comm_get_local_window_base(NULL, NULL), 0);
    assert_int_not_equal(lib.comm_get_window_size(NULL, NULL), 0);
    assert_int_not_equal(lib.comm_barrier(NULL), 0);
    assert_int_not_equal(lib.comm_destroy(NULL), 0);
}

static void play_sizes(int rank)
{
    void *comm = join(rank, 2);
    uint64_t context = 0;

    catch_rank(PTO_LOG_ERROR);
    MUST(lib.comm_alloc_windows(comm, rank == 0 ? 8192 : 4096, &context) != 0);
    MUST(context == 0);
    MUST(has_printed("][ERROR] comm_alloc_windows: "));
    MUST(has_printed("8192") && has_printed("4096"));
    MUST(lib.comm_barrier(comm) != 0); /* there are no windows */
    MUST(lib.comm_alloc_windows(comm, 4096, &context) == 0);
    MUST(lib.comm_barrier(comm) == 0);
    MUST(lib.comm_destroy(comm) == 0);
}

static void windows_of_different_sizes_fail_on_all(void **state)
{
    (void)state;
    play_ranks(2, play_sizes, -1);
}

static void play_death(int rank)
{
    static const uint32_t all[] = { 0, 1 };
    void *comm = join(rank, 2);
    uint64_t context, base;

    MUST(lib.comm_alloc_windows(comm, 4096, &context) == 0);
    MUST(lib.comm_alloc_domain_windows(comm, 1, all, 2, (uint32_t)rank, 64, &context, &base) == 0);
    if (rank == 1)
        raise(SIGKILL);
    catch_rank(PTO_LOG_ERROR);
    /* long before the 120 s of the library: the alarm comes earlier */
    MUST(lib.comm_barrier(comm) == PTO_EPEER);
    MUST(has_printed("rank 1"));
    bytes_at(at(context)->window_in[1])[0] = 1; /* its memory is there */
    MUST(lib.comm_release_domain_windows(comm, 1, 2, 0) != 0);
    MUST(lib.comm_alloc_domain_windows(comm, 2, all, 2, 0, 64, &context, &base) != 0);
    MUST(lib.comm_destroy(comm) != 0);
    comm = join(0, 1);
    MUST(lib.comm_destroy(comm) == 0);
}

static void a_dead_rank_is_told_and_left(void **state)
{
    (void)state;
    play_ranks(2, play_death, 1);
}

static void play_early(int rank)
{
    (void)lib.comm_init(rank, 2, NULL, meeting);
    _exit(1); /* no other rank comes, and this one is killed */
}

static void play_alone(int rank)
{
    shorter_ns = 300000000;
    catch_rank(PTO_LOG_ERROR);
    MUST(lib.comm_init(rank, 2, NULL, meeting) == NULL);
    MUST(has_printed("][ERROR] comm_init: ") && has_printed("rank 1 of 2 "));
}

/* The files that it has left let no other rank join, and do not affect the next job. */
static void nobody_meets_a_dead_job(void **state)
{
    pid_t child = start_rank(play_early, 0);

    (void)state;
    while (access(meeting, F_OK) != 0)
        (void)poll(NULL, 0, 1);
    kill(child, SIGKILL);
    end_rank(child, 0, true);
    assert_int_equal(access(meeting, F_OK), 0);
    play_ranks(1, play_alone, -1);
    child = start_rank(play_early, 0);
    while (access(meeting, F_OK) != 0)
        (void)poll(NULL, 0, 1);
    kill(child, SIGKILL);
    end_rank(child, 0, true);
    play_ranks(COUNT, play_windows, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_reaches_every_window),
        cmocka_unit_test(copies_may_name_windows),
        cmocka_unit_test(kernels_read_the_windows_of_others),
        cmocka_unit_test(a_context_is_derived_without_the_others),
        cmocka_unit_test(domains_overlap_and_ids_are_used_again),
        cmocka_unit_test(what_is_wrong_is_refused_at_once),
        cmocka_unit_test(windows_of_different_sizes_fail_on_all),
        cmocka_unit_test(a_dead_rank_is_told_and_left),
        cmocka_unit_test(nobody_meets_a_dead_job),
    };

    return cmocka_run_group_tests(tests, make_board, NULL);
}
