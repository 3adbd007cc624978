/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two processes of `pto selfcheck` that try two cards: each opens one, they share a window, and
 * each writes into the other's. Neither is forked from a process that has used a card.
 */
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "pto/comm.h"
#include "tool/cli/commands.h"
#include "tool/cli/selfcheck.h"

enum { WINDOW_BYTES = 1 << 16, PLACE = 1024, GREETING = 0x70746f, WAIT_MS = 60000 };

static const uint64_t timeout_ns = 60000000000ull;

/*
 * Waits until both processes have opened their cards. Returns false if the other process cannot
 * open its card.
 */
static bool await_other(const struct selfcheck *c, uint32_t rank)
{
    const struct selfcheck_result *other = &c->progress->rank[1 - rank];
    double begin = cli_selfcheck_now_ms();

    while (__atomic_load_n(&c->progress->ranks_open, __ATOMIC_ACQUIRE) < SELFCHECK_RANKS) {
        if (cli_selfcheck_verdict(other) != VERDICT_NOT_REACHED ||
            cli_selfcheck_now_ms() - begin > WAIT_MS)
            return false;
        usleep(5000);
    }
    return true;
}

/*
 * Writes a word into the window of the other process, and checks the word that the other process
 * writes into ours.
 */
static int greet_other(struct pto_domain *domain, uint32_t rank, struct pto_error *error)
{
    int32_t word = (int32_t)(GREETING + rank), got = 0;
    int status = pto_comm_put(domain, 1 - rank, PLACE, &word, sizeof(word));

    if (status >= 0)
        status = pto_comm_quiet(domain);
    if (status >= 0)
        status = pto_comm_barrier(domain, timeout_ns, error);
    if (status >= 0)
        status = pto_comm_get(domain, rank, PLACE, &got, sizeof(got));
    if (status >= 0 && got != (int32_t)(GREETING + 1 - rank)) {
        status = error_setf(error, PTO_EPEER,
                            "the window of rank %u has %#x where the other one wrote %#x", rank,
                            (unsigned)got, (unsigned)(GREETING + 1 - rank));
    }
    return status;
}

static int selfcheck_pair_share(const struct selfcheck *c, uint32_t rank, struct pto_device *device,
                                struct pto_error *error)
{
    struct pto_comm_params params;
    struct pto_domain_params wanted;
    struct pto_domain *domain = NULL;
    struct pto_comm *comm = NULL;
    char path[PATH_MAX];
    int status;

    cli_selfcheck_path(c, "meet", path);
    pto_comm_params_init(&params);
    params.rank = (int32_t)rank;
    params.rank_count = SELFCHECK_RANKS;
    params.path = path;
    params.token = "selfcheck";
    params.timeout_ns = timeout_ns;
    params.device = device;
    params.error = error;
    status = pto_comm_open(&params, &comm);
    if (status < 0)
        return status;
    pto_domain_params_init(&wanted);
    wanted.window_bytes = WINDOW_BYTES;
    wanted.timeout_ns = timeout_ns;
    wanted.error = error;
    status = pto_domain_open(comm, &wanted, &domain);
    if (status >= 0)
        status = greet_other(domain, rank, error);
    if (domain != NULL)
        (void)pto_domain_close(domain, timeout_ns, NULL);
    (void)pto_comm_close(comm);
    return status;
}

int cli_selfcheck_try_rank(struct selfcheck *c, uint32_t rank)
{
    struct selfcheck_result *result = &c->progress->rank[rank];
    struct pto_error error = { .size = sizeof(error) };
    struct pto_device_params params;
    struct pto_device *device = NULL;
    int status;

    pto_device_params_init(&params);
    params.platform = c->progress->platform;
    params.card = c->card + rank;
    params.error = &error;
    status = pto_device_open(&params, &device);
    if (status < 0) {
        /* 107001 is the vendor's code for a card that does not exist. */
        bool is_absent = strstr(error.text, "aclrtSetDevice answered 107001") != NULL;

        cli_selfcheck_set(result, is_absent ? VERDICT_SKIPPED : VERDICT_FAILED, "%s", error.text);
        return EXIT_FAILED;
    }
    __atomic_add_fetch(&c->progress->ranks_open, 1, __ATOMIC_RELEASE);
    if (await_other(c, rank)) {
        status = selfcheck_pair_share(c, rank, device, &error);
        if (status < 0)
            cli_selfcheck_set(result, VERDICT_FAILED, "card %u: %s", c->card + rank,
                              error.text[0] != '\0' ? error.text : pto_strerror(status));
        else
            cli_selfcheck_set(result, VERDICT_OK, "each has read what the other one wrote");
    }
    (void)pto_device_close(device);
    return status < 0 ? EXIT_FAILED : EXIT_OK;
}
