/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tasks of a run: the six patterns of src/tool/bench/bench_patterns.h, and seven
 * of Task Bench (width 64, one item for each task). And the predecessors of every
 * task, found by looking at one task after the other.
 */
#ifndef PTO_PEER_LOAD_H
#define PTO_PEER_LOAD_H

#include "peer.h"

enum { GRAIN_WIDTH = 64 };

/* False: there is no such pattern, or no memory. `load_out` is the caller's to free. */
bool load_make(const char *pattern, uint32_t tasks, struct peer_load *load_out);
/* For a pattern of Task Bench: that many steps. */
bool load_make_steps(const char *pattern, uint32_t steps, struct peer_load *load_out);
void load_free(struct peer_load *load);
void load_print_patterns(void);

/* ---- VERIFY ---- */

/* From now on bodies are checked against this load. */
bool load_watch(const struct peer_load *load);
void load_begin(void);
/* What was wrong since load_begin, in tasks; prints the first one. */
uint64_t load_end(void);
void load_unwatch(void);

#endif
