/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange of ranks that srun or mpirun has started on several hosts: where they meet, and the
 * key of the job. libpmix is loaded when it is needed.
 *
 * Each rank publishes one text, and all wait for the texts of all with one fence. A fence of PMIx
 * is not used as a barrier, and its time-out is not relied on, because servers ignore both: the
 * wait has a deadline here.
 *
 * The key of the job is not published: a PMIx server believes a local process that says whose it is,
 * and between hosts nothing is encrypted. Ranks that meet in this way need a key file.
 */
#ifndef PTO_COMM_PMIX_H
#define PTO_COMM_PMIX_H

#include "comm/comm.h"

/* What a rank knows after the exchange. */
struct comm_meeting {
    char place[96]; /* "tcp://ADDRESS:PORT" */
    char token[33];
    int listener; /* on rank 0: socket that listens at the place; -1 on other ranks */
};

/*
 * Exchanges the place with all ranks of the job. A process does so once: later calls return the
 * same, and on rank 0 the same socket, which stays open.
 */
int comm_pmix_meet(uint32_t rank, uint32_t rank_count, uint64_t deadline_ns,
                   const struct comm_meeting **out, struct pto_error *error);

#endif
