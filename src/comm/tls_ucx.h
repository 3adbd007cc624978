/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend ucx: that of src/comm/comm_tls.h, whose larger puts and gets go by UCX
 * (src/net/ucx.h). All else stays with the records: the meeting, who is alive, signals, barriers,
 * collectives, and what is too small to be worth it. When the lanes are up, the ranks exchange
 * their addresses of UCX by records, and connect; when a domain opens, the keys of the windows.
 *
 * A put by UCX is complete when it returns, so what is sent afterwards comes later. Data that were
 * sent by records before, and all that kernels asked for, have to be there when it begins. If UCX fails, both sides close the connection
 * and all goes by records: the answer to TLS_KIND_UCX_CLOSE shows that nothing of UCX comes later.
 *
 * Peers write to a window while it is registered. A block that a peer may still use stays mapped
 * until the communicator is closed.
 */
#ifndef PTO_TLS_UCX_H
#define PTO_TLS_UCX_H

#include "comm/comm_tls.h"

/* PTO_ENOSUP: there is no UCX. PTO_EINVAL: no network devices are named. */
int tls_ucx_check(struct pto_error *error);
/* Prepares for the records of peers. The same statuses. */
int tls_ucx_init(struct tls *t, struct pto_error *error);
/* Closes and frees all; accepts what was not prepared. The lanes are closed. */
void tls_ucx_close(struct tls *t);

/* Connects to all ranks of other hosts, whose lanes are up, during the meeting. */
int tls_ucx_connect(struct tls *t, struct tls_meeting *m);

/* Registers the window of a new domain, and sends its key to the members on other hosts. */
void tls_ucx_offer(struct tls *t, const struct shared_domain *sd);
/*
 * Withdraws a block. Returns true if it has to stay mapped, until tls_ucx_close. `is_free`: no peer
 * uses it any more.
 */
bool tls_ucx_withdraw(struct tls *t, uint64_t offset, bool is_free);

/* Copy to or from the window of a rank of another host, by UCX or by records. */
int tls_ucx_put(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
                uint64_t bytes, uint64_t deadline_ns);
int tls_ucx_get(struct domain *domain, uint32_t rank, uint64_t offset, void *to, uint64_t bytes);
/*
 * Around records of kernels, also without UCX: sees that nothing of a put that failed comes later
 * than they; notes that they were sent, for copies by UCX to come later.
 */
int tls_ucx_make_sure(struct tls *t, uint32_t rank, uint64_t deadline_ns);
void tls_ucx_note_records(struct tls *t, uint32_t rank);

/* Ends what waits for a rank that was given up. */
void tls_ucx_lose(struct tls *t, uint32_t rank);

/* Records of a rank: called by the thread of the mesh. Negative: they are invalid. */
int tls_ucx_apply_address(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes);
int tls_ucx_apply_key(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes);
int tls_ucx_apply_close(struct tls *t, uint32_t peer, const uint8_t *payload, size_t bytes);

#endif
