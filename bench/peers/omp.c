/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenMP `task depend`: libgomp when compiled by gcc, libomp when compiled by
 * clang. One thread submits; all threads of the team run tasks. The team is
 * there before the clock starts.
 */
#include "peer.h"

#include <omp.h>
#include <stddef.h>
#include <stdio.h>

static const char *const variants[] = { "depend", NULL };
static uint32_t worker_count;

static void submit_all(const struct peer_load *load);

static const char *version(void)
{
    static char text[64];

#ifdef __clang__
    snprintf(text, sizeof(text), "clang %d.%d, OpenMP %d", __clang_major__, __clang_minor__,
             _OPENMP);
#else
    snprintf(text, sizeof(text), "gcc %s, OpenMP %d", __VERSION__, _OPENMP);
#endif
    return text;
}

static bool open_team(uint32_t workers)
{
    worker_count = workers;
    omp_set_dynamic(0);
    omp_set_num_threads((int)workers);
    return true;
}

static bool prepare(const struct peer_load *load, uint32_t variant)
{
    (void)load;
    (void)variant;
    return true;
}

static uint64_t run(const struct peer_load *load, uint32_t variant)
{
    uint64_t ns = 0;

    (void)variant;
#pragma omp parallel num_threads(worker_count)
#pragma omp master
    {
        uint64_t start = peer_now_ns();

        submit_all(load);
#pragma omp taskwait
        ns = peer_now_ns() - start;
    }
    return ns;
}

static void nothing(void)
{
}

/* A clause for each number of reads: the list of a depend clause has a fixed length. */
#define READ(k) (*(char *)load->item[t->read[k]])
#define WRITTEN (*(char *)load->item[t->write])
#define READS_1 READ(0)
#define READS_2 READS_1, READ(1)
#define READS_3 READS_2, READ(2)
#define READS_4 READS_3, READ(3)
#define READS_5 READS_4, READ(4)
#define PRAGMA(...) _Pragma(#__VA_ARGS__)
#define SUBMIT(...)              \
    PRAGMA(omp task __VA_ARGS__) \
    PEER_BODY(i)

static void submit_writer(const struct peer_load *load, const struct peer_task *t, uint32_t i)
{
    (void)i;
    switch (t->read_count) {
    case 0:
        SUBMIT(depend(out : WRITTEN));
        break;
    case 1:
        SUBMIT(depend(in : READS_1) depend(out : WRITTEN));
        break;
    case 2:
        SUBMIT(depend(in : READS_2) depend(out : WRITTEN));
        break;
    case 3:
        SUBMIT(depend(in : READS_3) depend(out : WRITTEN));
        break;
    case 4:
        SUBMIT(depend(in : READS_4) depend(out : WRITTEN));
        break;
    default:
        SUBMIT(depend(in : READS_5) depend(out : WRITTEN));
        break;
    }
}

static void submit_all(const struct peer_load *load)
{
    for (uint32_t i = 0; i < load->task_count; i++) {
        const struct peer_task *t = &load->task[i];

        if (t->write >= 0 && t->is_inout) {
            SUBMIT(depend(inout : WRITTEN));
        } else if (t->write >= 0) {
            submit_writer(load, t, i);
        } else if (t->read_count == 1) {
            SUBMIT(depend(in : READS_1));
        } else {
            SUBMIT();
        }
    }
}

#ifdef __clang__
#define PEER_NAME "libomp"
#else
#define PEER_NAME "libgomp"
#endif

const struct peer_ops peer = { PEER_NAME, variants, version, open_team,
                               prepare,   run,      nothing, nothing };
