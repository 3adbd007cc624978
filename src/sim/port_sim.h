/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools on a host: address space is reserved once; memory is mapped into it as needed and counted
 * against a budget. Used by one thread at a time.
 */
#ifndef PTO_PORT_SIM_H
#define PTO_PORT_SIM_H

#include "port/port.h"

int sim_pool_reserve(struct pool *pool, uint64_t bytes, struct pool_budget *budget);
/*
 * Unmaps the pool and frees its address space. Accepts a pool that is all 0 and was never reserved.
 */
void sim_pool_release(struct pool *pool);
/* Unmaps memory beyond the first `keep` bytes; the pool must not be in use. */
void sim_pool_trim(struct pool *pool, uint64_t keep);

#endif
