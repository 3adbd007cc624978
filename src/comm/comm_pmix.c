/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange of src/comm/comm_pmix.h. The declarations below are those of the PMIx standard,
 * versions 3 to 5, so that neither building nor starting needs its headers or its library.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "comm/comm_pmix.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/job_key.h"
#include "base/os.h"
#include "base/tcp_listen.h"
#include "pto/status.h"

/* ---- PMIx ---- */

enum { PMIX_OK = 0, PMIX_BOOL = 1, PMIX_STRING = 3, PMIX_GLOBAL = 3 };
#define PMIX_ALL_RANKS (UINT32_MAX - 1)

struct pmix_process {
    char job[256];
    uint32_t rank;
};

struct pmix_value {
    uint16_t type;
    union {
        bool flag;
        char *string;
        uint64_t room[3];
    } data;
};

struct pmix_info {
    char key[512];
    uint32_t flags;
    struct pmix_value value;
};

_Static_assert(sizeof(struct pmix_process) == 260 && sizeof(struct pmix_value) == 32 &&
                   sizeof(struct pmix_info) == 552,
               "the structs must have the sizes of the PMIx standard");

struct pmix_calls {
    int (*init)(struct pmix_process *own, struct pmix_info *info, size_t count);
    int (*put)(uint8_t scope, const char *key, struct pmix_value *value);
    int (*commit)(void);
    int (*fence)(const struct pmix_process *ranks, size_t count, const struct pmix_info *info,
                 size_t info_count, void (*done)(int status, void *context), void *context);
    int (*get)(const struct pmix_process *rank, const char *key, const struct pmix_info *info,
               size_t info_count, void (*done)(int status, struct pmix_value *value, void *context),
               void *context);
    int (*finalize)(const struct pmix_info *info, size_t count);
    const char *(*describe)(int status);
};

static bool load_calls(struct pmix_calls *out, struct pto_error *error)
{
    static const char *const names[] = { "PMIx_Init",        "PMIx_Put",    "PMIx_Commit",
                                         "PMIx_Fence_nb",    "PMIx_Get_nb", "PMIx_Finalize",
                                         "PMIx_Error_string" };
    void **const slots[] = { (void **)&out->init,    (void **)&out->put, (void **)&out->commit,
                             (void **)&out->fence,   (void **)&out->get, (void **)&out->finalize,
                             (void **)&out->describe };
    void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        const char *why = dlerror();

        (void)error_setf(error, PTO_ENOSUP,
                         "the ranks are on several hosts, and the library of PMIx, by which srun "
                         "and mpirun tell them where to meet, cannot be loaded: %.300s",
                         why != NULL ? why : "");
        return false;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        *slots[i] = dlsym(library, names[i]);
        if (*slots[i] == NULL) {
            (void)error_setf(error, PTO_ENOSUP, "libpmix.so.2 lacks %s", names[i]);
            return false;
        }
    }
    return true;
}

/* ---- waiting with a deadline ---- */

enum { TEXT_BYTES = 512 };

/*
 * An asynchronous operation of the library, shared by the waiting thread and the library's
 * callback. The later of the two frees it, because the library may call back after the deadline.
 */
struct pmix_wait {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done, is_abandoned;
    int status;
    char text[TEXT_BYTES];
};

static struct pmix_wait *pmix_begin_wait(void)
{
    struct pmix_wait *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    pthread_mutex_init(&w->lock, NULL);
    os_cond_init(&w->changed);
    return w;
}

static void free_wait(struct pmix_wait *w)
{
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    free(w);
}

static void end_wait(struct pmix_wait *w, int status, const char *text)
{
    bool is_abandoned;

    pthread_mutex_lock(&w->lock);
    w->status = status;
    snprintf(w->text, sizeof(w->text), "%s", text);
    w->is_done = true;
    is_abandoned = w->is_abandoned;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (is_abandoned)
        free_wait(w);
}

static void fence_done(int status, void *context)
{
    end_wait(context, status, "");
}

static void get_done(int status, struct pmix_value *value, void *context)
{
    bool has_text = status == PMIX_OK && value != NULL && value->type == PMIX_STRING &&
                    value->data.string != NULL;

    end_wait(context, status, has_text ? value->data.string : "");
}

/*
 * Waits until the operation has ended, and frees it. False: the deadline has passed, and the
 * callback will free it.
 */
static bool await(struct pmix_wait *w, uint64_t deadline_ns, int *status_out, char text[TEXT_BYTES])
{
    bool is_done = true;

    pthread_mutex_lock(&w->lock);
    while (!w->is_done && is_done)
        is_done = os_cond_wait(&w->changed, &w->lock, deadline_ns);
    is_done = w->is_done;
    w->is_abandoned = !is_done;
    *status_out = w->status;
    memcpy(text, w->text, TEXT_BYTES);
    pthread_mutex_unlock(&w->lock);
    if (is_done)
        free_wait(w);
    return is_done;
}

/* ---- the exchange ---- */

struct exchange {
    struct pmix_calls pmix;
    struct pmix_process own;
    uint32_t rank, rank_count;
    uint64_t deadline_ns;
    struct comm_meeting meeting;
};

/* Sets the error of a failed call of the library. `what` continues "fails to". */
static int pmix_fail(const struct exchange *x, const char *what, int status,
                     struct pto_error *error)
{
    return comm_error_set(error, PTO_ESYSTEM, UINT32_MAX,
                          "PMIx, which connects the ranks of this "
                          "job, fails to %s: %s",
                          what, x->pmix.describe(status));
}

/*
 * Lists addresses by which this host can reach the job's other hosts, the preferred one first: that
 * of PTO_COMM_ADDRESS, that from which the job was started, and this host's name.
 */
static void pmix_list_ways(char text[TEXT_BYTES])
{
    const char *own = getenv("PTO_COMM_ADDRESS"), *from = getenv("SLURM_LAUNCH_NODE_IPADDR");
    const char *head = getenv("OMPI_MCA_orte_hnp_uri"); /* NUMBER;tcp://ADDRESS[,ADDRESS]:PORT */
    char host[65] = "", address[64] = "";

    head = head != NULL ? strstr(head, "tcp://") : NULL;
    if (head != NULL)
        (void)sscanf(head, "tcp://%63[0-9.]", address);
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(text, TEXT_BYTES, "%.100s\n%.100s\n%s\n%s\n", own != NULL ? own : "",
             from != NULL ? from : "", address, host);
}

/*
 * Writes the text that this rank publishes: version, platform, and on rank 0 the address at which
 * it listens and a random token.
 */
static int pmix_make_text(struct exchange *x, char text[TEXT_BYTES], struct pto_error *error)
{
    struct comm_meeting *m = &x->meeting;
    char platform[OS_PLATFORM_TEXT], ways[TEXT_BYTES], random[JOB_KEY_TEXT_BYTES];
    struct job_key drawn;
    int status;

    os_describe_platform(platform);
    if (x->rank != 0) {
        snprintf(text, TEXT_BYTES, "%s %s - -", pto_version(), platform);
        return PTO_OK;
    }
    pmix_list_ways(ways);
    m->listener = tcp_listen_towards(ways, false, m->place, error);
    if (m->listener < 0)
        return m->listener;
    status = job_key_make(&drawn, error);
    if (status < 0)
        return status;
    job_key_format(&drawn, random);
    snprintf(m->token, sizeof(m->token), "%.32s", random);
    snprintf(text, TEXT_BYTES, "%s %s %s %s", pto_version(), platform, m->place, m->token);
    return PTO_OK;
}

/* Publishes this rank's text, and waits until all ranks have published theirs. */
static int run_fence(struct exchange *x, char *text, struct pto_error *error)
{
    struct pmix_value value = { .type = PMIX_STRING, .data.string = text };
    struct pmix_info collect = { .key = "pmix.collect",
                                 .value = { .type = PMIX_BOOL, .data.flag = true } };
    struct pmix_process all = x->own;
    struct pmix_wait *w = pmix_begin_wait();
    char unused[TEXT_BYTES];
    int status;

    if (w == NULL)
        return PTO_ENOMEM;
    all.rank = PMIX_ALL_RANKS;
    status = x->pmix.put(PMIX_GLOBAL, "pto.rank", &value);
    if (status == PMIX_OK)
        status = x->pmix.commit();
    if (status == PMIX_OK)
        status = x->pmix.fence(&all, 1, &collect, 1, fence_done, w);
    if (status != PMIX_OK)
        free_wait(w);
    else if (!await(w, x->deadline_ns, &status, unused))
        return comm_error_set(error, PTO_ETIMEOUT, UINT32_MAX,
                              "not all of the %u ranks of this job opened a communicator in time",
                              x->rank_count);
    return status == PMIX_OK ? PTO_OK : pmix_fail(x, "collect the addresses", status, error);
}

/* Gets the text that a rank has published. */
static int get_text(struct exchange *x, uint32_t rank, char text[TEXT_BYTES],
                    struct pto_error *error)
{
    struct pmix_process from = x->own;
    struct pmix_wait *w = pmix_begin_wait();
    int status;

    if (w == NULL)
        return PTO_ENOMEM;
    from.rank = rank;
    status = x->pmix.get(&from, "pto.rank", NULL, 0, get_done, w);
    if (status != PMIX_OK)
        free_wait(w);
    else if (!await(w, x->deadline_ns, &status, text))
        return comm_error_set(error, PTO_ETIMEOUT, rank, "rank %u has published nothing in time",
                              rank);
    return status == PMIX_OK ? PTO_OK : pmix_fail(x, "read an address", status, error);
}

/*
 * Checks that a rank has the same version and platform as this one. From rank 0, also takes address
 * and token.
 */
static int check_text(struct exchange *x, uint32_t rank, const char *text, struct pto_error *error)
{
    char version[32], platform[OS_PLATFORM_TEXT], own[OS_PLATFORM_TEXT], place[96], token[33];

    os_describe_platform(own);
    if (sscanf(text, "%31s %63s %95s %32s", version, platform, place, token) != 4)
        return comm_error_set(error, PTO_EINVAL, rank,
                              "rank %u published an invalid text instead of its address", rank);
    if (strcmp(version, pto_version()) != 0)
        return comm_error_set(error, PTO_EINVAL, rank,
                              "rank %u has version %s of the library, and rank %u has %s", rank,
                              version, x->rank, pto_version());
    if (strcmp(platform, own) != 0)
        return comm_error_set(error, PTO_ENOSUP, rank,
                              "rank %u is on %s, and rank %u on %s; the ranks of a job need "
                              "machines of one kind",
                              rank, platform, x->rank, own);
    if (rank == 0) {
        memcpy(x->meeting.place, place, sizeof(place));
        memcpy(x->meeting.token, token, sizeof(token));
    }
    return PTO_OK;
}

static int run_exchange(struct exchange *x, struct pto_error *error)
{
    char text[TEXT_BYTES];
    int status = pmix_make_text(x, text, error);

    if (status >= 0)
        status = run_fence(x, text, error);
    for (uint32_t i = 0; i < x->rank_count && status >= 0; i++) {
        status = get_text(x, i, text, error);
        if (status >= 0)
            status = check_text(x, i, text, error);
    }
    return status;
}

/* the exchange of this process, which takes place only once */
static struct exchange once;
static bool has_met;

static int meet_once(uint32_t rank, uint32_t rank_count, uint64_t deadline_ns,
                     struct pto_error *error)
{
    int status;

    if (has_met)
        return PTO_OK;
    once = (struct exchange){
        .rank = rank, .rank_count = rank_count, .deadline_ns = deadline_ns, .meeting.listener = -1
    };
    if (!load_calls(&once.pmix, error))
        return PTO_ENOSUP;
    status = once.pmix.init(&once.own, NULL, 0);
    if (status != PMIX_OK)
        return comm_error_set(error, PTO_ENOSUP, UINT32_MAX,
                              "the ranks are on several hosts, and no PMIx server tells them where "
                              "to meet (%s); use srun --mpi=pmix, or give all ranks PTO_MEET=tcp://"
                              "HOST:PORT and PTO_KEY_FILE",
                              once.pmix.describe(status));
    status = run_exchange(&once, error);
    (void)once.pmix.finalize(NULL, 0);
    if (status < 0 && once.meeting.listener >= 0)
        close(once.meeting.listener);
    has_met = status >= 0;
    return status;
}

int comm_pmix_meet(uint32_t rank, uint32_t rank_count, uint64_t deadline_ns,
                   const struct comm_meeting **out, struct pto_error *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int status;

    pthread_mutex_lock(&lock);
    status = meet_once(rank, rank_count, deadline_ns, error);
    pthread_mutex_unlock(&lock);
    *out = &once.meeting;
    return status;
}
