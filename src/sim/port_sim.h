/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools on a host: address space is reserved once, memory is put behind it as
 * it is needed and counted against a budget. One thread at a time.
 */
#ifndef PTO_PORT_SIM_H
#define PTO_PORT_SIM_H

#include "port/port.h"

int sim_pool_reserve(struct pool *pool, uint64_t bytes, struct pool_budget *budget);
/* Accepts a pool that was never reserved, if it is zero. */
void sim_pool_release(struct pool *pool);
/* Gives memory beyond `keep` bytes back; the pool must not be in use. */
void sim_pool_trim(struct pool *pool, uint64_t keep);

#endif
