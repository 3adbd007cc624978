/* SPDX-License-Identifier: Apache-2.0 */
/* Domains: ranks, windows, agreement of all ranks, and reuse of ids. */
#include <stdio.h>

#include "tests/conformance/comm/rank_suite.h"

/* ---- what is refused ---- */

static void expect_refused(struct rank *r, const struct pto_domain_params *params, int status,
                           const char *text, int32_t about)
{
    struct pto_domain *none = NULL;

    check_equal(r, pto_domain_open(r->comm, params, &none), status);
    check(r, none == NULL);
    check_equal(r, r->error.status, status);
    check_says(r, text, about);
}

static void wrong_domains_are_refused(struct rank *r)
{
    struct pto_domain_params params = rank_domain_params(r, 5, 64);
    struct pto_domain *domain = rank_open_domain(r, 5, 4096), *none = NULL;
    const uint32_t beyond[] = { 0, r->count }, twice[] = { r->rank, r->rank };
    const uint32_t others[] = { (r->rank + 1) % r->count };
    char text[100];

    check_equal(r, pto_domain_open(r->comm, NULL, &none), PTO_EINVAL);
    params.size = 5;
    check_equal(r, pto_domain_open(r->comm, &params, &none), PTO_EINVAL);
    params = rank_domain_params(r, 6, 64);
    check_equal(r, pto_domain_open(r->comm, &params, NULL), PTO_EINVAL);
    check_says(r, "domain_out is NULL", -1);
    params = rank_domain_params(r, 5, 64);
    expect_refused(r, &params, PTO_EBUSY, "domain 5 is open already; close it first", -1);
    params = rank_domain_params(r, 6, (1ull << 46) + 1);
    expect_refused(r, &params, PTO_EINVAL, "is too large", -1);
    params = rank_domain_params(r, 6, 64);
    params.ranks = beyond;
    expect_refused(r, &params, PTO_EINVAL, "the domain has 0 ranks", -1);
    params.rank_count = r->count + 1;
    expect_refused(r, &params, PTO_EINVAL, "ranks, but the communicator has only", -1);
    if (r->count > 1) {
        params.rank_count = 2;
        snprintf(text, sizeof(text), "rank %u is listed, but there are only %u ranks", r->count,
                 r->count);
        expect_refused(r, &params, PTO_EINVAL, text, (int32_t)r->count);
        params.ranks = twice;
        expect_refused(r, &params, PTO_EINVAL, "is listed twice", (int32_t)r->rank);
        params.ranks = others;
        params.rank_count = 1;
        expect_refused(r, &params, PTO_EINVAL, "opens a domain that it is not listed for",
                       (int32_t)r->rank);
    }
    rank_meet(r);
    rank_close_domain(r, domain);
}

static void wrong_parts_are_refused(struct rank *r)
{
    struct pto_domain_params params = rank_domain_params(r, 6, 64);
    struct pto_domain *domain = rank_open_domain(r, 5, 4096), *alone = NULL, *part = NULL;
    const uint32_t own[] = { r->rank };

    params.ranks = own;
    params.rank_count = 1;
    check_ok(r, pto_domain_open(r->comm, &params, &alone)); /* without the others */
    params = rank_domain_params(r, 7, 64);
    params.parent = (struct pto_domain *)(void *)r->comm;
    expect_refused(r, &params, PTO_EINVAL, "the parent is not an open domain", -1);
    params.parent = domain;
    params.parent_offset = 4033;
    expect_refused(r, &params, PTO_EINVAL,
                   "64 bytes at 4033 are not inside the parent's windows of 4096", -1);
    params.parent_offset = UINT64_MAX;
    expect_refused(r, &params, PTO_EINVAL, "are not inside", -1);
    params.parent_offset = 0;
    if (r->count > 1) {
        params.parent = alone;
        expect_refused(r, &params, PTO_EINVAL, "is not in the parent domain", r->rank == 0 ? 1 : 0);
    }
    params.parent = domain;
    params.parent_offset = 4032;
    check_ok(r, pto_domain_open(r->comm, &params, &part));
    check_equal(r, pto_domain_close(domain, 0, rank_error(r)), PTO_EBUSY);
    check_says(r, "its windows inside those of domain 5; close it first", -1);
    rank_close_domain(r, part);
    rank_close_domain(r, domain);
    rank_close_domain(r, alone);
}

/* ---- who agrees ---- */

static void sizes_that_differ_are_refused_on_all_ranks(struct rank *r)
{
    for (uint32_t odd = 0; odd < r->count; odd++) {
        struct pto_domain_params params =
            rank_domain_params(r, 2 * odd, r->rank == odd ? 4096 : 8192);
        struct pto_domain *domain = NULL;

        check_equal(r, pto_domain_open(r->comm, &params, &domain), PTO_EINVAL);
        check(r, strstr(r->error.text, "windows of domain ") != NULL);
        check(r, strstr(r->error.text, "8192 ") != NULL);
        check(r, strstr(r->error.text, "4096 ") != NULL);
        check(r, r->error.rank >= 0 && r->error.rank != (int32_t)r->rank);
        params = rank_domain_params(r, 2 * odd, 8192);
        expect_refused(r, &params, PTO_EBUSY, "retry with another id on all ranks", -1);
        params = rank_domain_params(r, 2 * odd + 1, 4096);
        check_ok(r, pto_domain_open(r->comm, &params, &domain));
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
        rank_close_domain(r, domain);
    }
}

static void ranks_that_differ_are_refused_on_all_ranks(struct rank *r)
{
    const uint32_t up[] = { 0, 1, 2 }, down[] = { 2, 1, 0 }, two[] = { 0, 1 };

    for (uint32_t i = 0; i < 2; i++) {
        struct pto_domain_params params = rank_domain_params(r, 2 * i, 64);
        struct pto_domain *domain = NULL;

        params.ranks = r->rank == 1 ? (i == 0 ? down : two) : up;
        params.rank_count = r->rank == 1 && i == 1 ? 2 : 3;
        check_equal(r, pto_domain_open(r->comm, &params, &domain), PTO_EINVAL);
        check(r, strstr(r->error.text, "with other ranks, or inside another domain") != NULL);
        domain = rank_open_domain(r, 2 * i + 1, 64);
        rank_close_domain(r, domain);
    }
}

static void parents_that_differ_are_refused_on_all_ranks(struct rank *r)
{
    struct pto_domain *a = rank_open_domain(r, 1, 4096), *b = rank_open_domain(r, 2, 4096);

    for (uint32_t i = 0; i < 3; i++) {
        struct pto_domain_params params = rank_domain_params(r, 3 + i, 64);
        struct pto_domain *none = NULL;

        params.parent = r->rank == 1 ? (i == 0 ? b : i == 1 ? a : NULL) : a;
        params.parent_offset = r->rank == 1 && i == 1 ? 128 : 0;
        check_equal(r, pto_domain_open(r->comm, &params, &none), PTO_EINVAL);
        check(r, strstr(r->error.text, "with other ranks, or inside another domain") != NULL);
    }
    rank_close_domain(r, b);
    rank_close_domain(r, a);
}

/*
 * A rank that comes late gets the error that another rank has given up; the next attempt uses
 * another id.
 */
static void who_comes_too_late_is_told(struct rank *r)
{
    struct pto_domain_params params = rank_domain_params(r, 3, 64);
    struct pto_domain *domain = NULL;

    params.timeout_ns = 20 * MS;
    if (r->rank == 0) {
        check_equal(r, pto_domain_open(r->comm, &params, &domain), PTO_ETIMEOUT);
        check_says(r, "rank 1 did not open domain 3 in time", 1);
    }
    rank_meet(r);
    if (r->rank != 0) {
        params.timeout_ns = 0;
        check_equal(r, pto_domain_open(r->comm, &params, &domain), PTO_EPEER);
        check(r, strstr(r->error.text, "gave up opening domain 3") != NULL);
    }
    for (uint32_t i = 0; i < 20; i++) {
        domain = rank_open_domain(r, 4, 64);
        rank_close_domain(r, domain);
    }
}

/* ---- several ---- */

/* Two domains overlap, a third one is a part of one of them; all are open at the same time. */
static void domains_overlap(struct rank *r)
{
    const uint32_t left[] = { 1, 0 }, right[] = { 2, 1 };
    struct pto_domain *all = rank_open_domain(r, 1, 4096), *part = NULL, *pair[2] = { NULL, NULL };
    struct pto_domain_params params = rank_domain_params(r, 2, 256);
    struct pto_domain_info info;
    uint64_t addr;
    int32_t word;

    params.parent = all;
    params.parent_offset = 1024;
    check_ok(r, pto_domain_open(r->comm, &params, &part));
    for (uint32_t i = 0; i < 2; i++) {
        params = rank_domain_params(r, 10 + i, 512);
        params.ranks = i == 0 ? left : right;
        params.rank_count = 2;
        if (r->rank == left[0] || r->rank == params.ranks[i == 0 ? 1 : 0])
            check_ok(r, pto_domain_open(r->comm, &params, &pair[i]));
    }
    /* The rank in a domain is the position in its list of ranks. */
    for (uint32_t i = 0; i < 2; i++)
        if (pair[i] != NULL) {
            pto_domain_info_init(&info);
            check_ok(r, pto_domain_info(pair[i], &info));
            check_equal(r, info.id, 10 + i);
            check_equal(r, info.rank_count, 2);
            check_equal(r, info.window_bytes, 512);
            check_equal(r, info.rank, (i == 0 ? left : right)[0] == r->rank ? 0 : 1);
            check_ok(r, pto_domain_window(pair[i], info.rank, &addr)); /* the own one */
            check_equal(r, addr, info.window);
            check_ok(r, pto_comm_put(pair[i], 1 - info.rank, 8, &(int32_t){ (int32_t)info.id }, 4));
            check_ok(r, pto_comm_barrier(pair[i], 0, rank_error(r)));
            check_ok(r, pto_comm_get(pair[i], info.rank, 8, &word, sizeof(word)));
            check_equal(r, word, 10 + i);
        }
    /* Data written to the part of a domain is in the parent's window. */
    check_ok(r, pto_comm_put(part, (r->rank + 1) % 3, 16, &(int32_t){ 70 + (int32_t)r->rank }, 4));
    check_ok(r, pto_comm_barrier(all, 0, rank_error(r)));
    check_ok(r, pto_comm_get(all, r->rank, 1024 + 16, &word, sizeof(word)));
    check_equal(r, word, 70 + (r->rank + 2) % 3);
    rank_close_domain(r, part);
    for (uint32_t i = 0; i < 2; i++)
        if (pair[i] != NULL)
            rank_close_domain(r, pair[i]);
    rank_close_domain(r, all);
}

/*
 * Rank 2 is ahead: rank 1 still has the domain of ranks 0 and 1 open when rank 2 opens a domain of
 * ranks 1 and 2 with the same id.
 */
static void an_id_passes_from_group_to_group(struct rank *r)
{
    const uint32_t first[] = { 0, 1 }, second[] = { 1, 2 };

    for (uint32_t i = 0; i < times(100); i++) {
        struct pto_domain_params params = rank_domain_params(r, 5, 64);
        struct pto_domain *domain = NULL;

        params.rank_count = 2;
        params.ranks = first;
        if (r->rank != 2) {
            check_ok(r, pto_domain_open(r->comm, &params, &domain));
            rank_close_domain(r, domain);
        }
        params.ranks = second;
        if (r->rank != 0) {
            check_ok(r, pto_domain_open(r->comm, &params, &domain));
            rank_close_domain(r, domain);
        }
    }
}

static void so_many_can_be_open_at_a_time(struct rank *r)
{
    enum { MANY = 256 };
    static __thread struct pto_domain *domains[MANY];
    struct pto_domain_params params;
    uint32_t count = 0;
    int status = PTO_OK;

    while (count < MANY && status >= 0) {
        params = rank_domain_params(r, count, 64);
        status = pto_domain_open(r->comm, &params, &domains[count]);
        count += status >= 0;
    }
    check_equal(r, count, MANY); /* or smaller, if the backend states the limit in its message */
    params = rank_domain_params(r, MANY, 64);
    if (strcmp(r->backend, "null") != 0)
        expect_refused(r, &params, PTO_ENOMEM, "256 domains are open, which is the limit", -1);
    /* The calls are in a different order on each rank. */
    for (uint32_t i = 0; i < count; i++) {
        check_ok(r, pto_comm_fetch_add(domains[i], (r->rank + 1) % r->count, 0, 1, NULL));
        check_ok(r, pto_comm_barrier(domains[i], 0, rank_error(r)));
    }
    for (uint32_t i = 0; i < count; i++)
        rank_close_domain(r, domains[i]);
}

struct footprint {
    uint32_t files, mappings, resident; /* the last in pages */
};

/* The other ranks do nothing in the meantime, if they are threads of the same process. */
static void look_at_process(struct rank *r, struct footprint *out)
{
    FILE *file;

    for (uint32_t i = 0; i < r->count; i++) {
        rank_meet(r);
        if (i != r->rank)
            continue;
        out->files = count_entries("/proc/self/fd");
        out->mappings = count_mappings("");
        file = fopen("/proc/self/statm", "re");
        check(r, file != NULL && fscanf(file, "%*u %u", &out->resident) == 1);
        fclose(file);
    }
    rank_meet(r);
}

/* Ids, entries, memory, descriptors and mappings are used again. */
static void domains_come_and_go(struct rank *r)
{
    struct footprint first = { 0 }, last = { 0 };
    uint32_t rounds = times(1000);

    for (uint32_t i = 0; i < rounds; i++) {
        struct pto_domain *a = rank_open_domain(r, i % 7, 10000), *b, *part = NULL;
        struct pto_domain_params params = rank_domain_params(r, 100 + i % 3, 100);
        int32_t got = -1;

        params.parent = a;
        params.parent_offset = 64;
        check_ok(r, pto_domain_open(r->comm, &params, &part));
        b = rank_open_domain(r, 50, i % 5 * 3000);
        check_ok(r, pto_comm_get(a, (r->rank + 1) % r->count, 9996, &got, 4));
        check_equal(r, got, 0); /* windows are new */
        check_ok(r, pto_comm_barrier(b, 0, rank_error(r)));
        check_ok(r, pto_comm_put(a, (r->rank + 1) % r->count, 9996, &(int32_t){ 5 }, 4));
        rank_close_domain(r, part);
        rank_close_domain(r, a);
        rank_close_domain(r, b);
        if (i == 20)
            look_at_process(r, &first);
    }
    look_at_process(r, &last);
    check_equal(r, last.files, first.files);
    /* A sanitizer keeps memory for each thread that has ended. */
    check(r, is_sanitized() || last.mappings <= first.mappings + 8);
    check(r, is_sanitized() || last.resident <= first.resident + 1000);
}

/* More than a context has room for. */
static void seventy_ranks_have_a_domain(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 4096);
    struct pto_domain_info info;
    uint64_t addr = 0;
    int32_t got = 0;

    pto_domain_info_init(&info);
    check_ok(r, pto_domain_info(domain, &info));
    check_equal(r, info.rank_count, r->count);
    check_equal(r, info.context, 0);
    check_ok(r, pto_domain_window(domain, r->rank, &addr));
    check_equal(r, addr, info.window);
    for (uint32_t i = 0; i < r->count; i++)
        check_ok(r, pto_comm_put(domain, i, 8 * r->rank, &(int32_t){ (int32_t)(i + r->rank) }, 4));
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    for (uint32_t i = 0; i < r->count; i++) {
        check_ok(r, pto_comm_get(domain, (r->rank + i) % r->count, 8 * i, &got, 4));
        check_equal(r, got, (r->rank + i) % r->count + i);
    }
    rank_close_domain(r, domain);
}

const struct rank_test ranks_domains[] = {
    { "wrong_domains_are_refused", wrong_domains_are_refused, 0, 0 },
    { "wrong_parts_are_refused", wrong_parts_are_refused, 0, 0 },
    { "sizes_that_differ_are_refused_on_all_ranks", sizes_that_differ_are_refused_on_all_ranks,
      NEEDS_PEERS, 0 },
    { "sizes_that_differ_between_two", sizes_that_differ_are_refused_on_all_ranks, NEEDS_PEERS, 2 },
    { "ranks_that_differ_are_refused_on_all_ranks", ranks_that_differ_are_refused_on_all_ranks,
      NEEDS_PEERS, 0 },
    { "parents_that_differ_are_refused_on_all_ranks", parents_that_differ_are_refused_on_all_ranks,
      NEEDS_PEERS, 0 },
    { "who_comes_too_late_is_told", who_comes_too_late_is_told, NEEDS_PEERS, 0 },
    { "domains_overlap", domains_overlap, NEEDS_PEERS, 0 },
    { "an_id_passes_from_group_to_group", an_id_passes_from_group_to_group, NEEDS_PEERS, 0 },
    { "so_many_can_be_open_at_a_time", so_many_can_be_open_at_a_time, 0, 2 },
    { "domains_come_and_go", domains_come_and_go, 0, 2 },
    { "seventy_ranks_have_a_domain", seventy_ranks_have_a_domain, IS_LARGE, 0 },
};
RANK_COUNT(ranks_domains);
