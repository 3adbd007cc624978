/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks that srun or mpirun has started on several hosts agree on where to meet: they exchange
 * an address and a token through the launcher's PMIx server. libpmix is loaded when it is first
 * needed.
 *
 * Each rank publishes one text; one PMIx fence collects the texts of all ranks. Servers do not
 * reliably use the fence as a barrier or obey its time-out, so the wait has a deadline of its own.
 *
 * The job's key is not published, because a PMIx server does not verify the identity of local
 * processes, and does not encrypt what it sends to other hosts. Ranks that meet in this way need a
 * key file.
 */
#ifndef PTO_COMM_PMIX_H
#define PTO_COMM_PMIX_H

#include "comm/comm.h"

/* The result of the exchange. */
struct comm_meeting {
    char place[96]; /* "tcp://ADDRESS:PORT" */
    char token[33];
    int listener; /* on rank 0: socket that listens at `place`; on other ranks: -1 */
};

/*
 * Exchanges the address with all ranks of the job. A process does that once: later calls return the
 * same result, on rank 0 with the same socket, which stays open.
 */
int comm_pmix_meet(uint32_t rank, uint32_t rank_count, uint64_t deadline_ns,
                   const struct comm_meeting **out, struct pto_error *error);

#endif
