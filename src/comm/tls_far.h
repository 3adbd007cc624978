/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of other hosts for kernels: a thread that carries out what kernels post to the queue of
 * include/pto/window_far.h. A communicator has one queue and one thread, so requests of all domains
 * keep their order. Both are made with the first domain that needs them.
 *
 * The thread hands puts and signals to the lanes, and sends what asks for data; the thread of the
 * mesh stores the answers, under call_lock. A lane that has no room holds up the queue until it has
 * room or its rank is given up.
 */
#ifndef PTO_TLS_FAR_H
#define PTO_TLS_FAR_H

#include "comm/comm_tls.h"

struct tls_far;

/*
 * Gives an open domain a context, if it has ranks on other hosts and not too many ranks. Without
 * address space there is no context. PTO_ENOMEM, PTO_ESYSTEM: no thread can be started.
 */
int tls_far_add(struct tls *t, struct shared_domain *sd);
/*
 * Takes the context away, before the domain is closed: earlier requests are carried out until the
 * deadline. Also for a domain without one.
 */
void tls_far_remove(struct tls *t, struct domain *domain, uint64_t deadline_ns);
/*
 * Waits until what kernels posted before was handed to the lanes, so that what this thread sends
 * afterwards comes later. Costs two loads if nothing was posted.
 */
void tls_far_flush(struct tls *t, uint64_t deadline_ns);
/* Ends the thread, before the mesh is closed. */
void tls_far_end(struct tls *t);
/* Frees the queue, after the mesh was closed. */
void tls_far_free(struct tls *t);

#endif
