/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins the recordings of ranks that ran at the same time into one, in which each rank has its own
 * lanes.
 */
#ifndef PTO_SEE_RECORDING_JOIN_H
#define PTO_SEE_RECORDING_JOIN_H

#include "tool/see/recording.h"

/*
 * Joins `count` recordings; part[i] is that of rank[i]. Their times are aligned by the machine's
 * clock. The caller frees the parts and the result. Returns PTO_OK or PTO_ENOMEM.
 */
int see_recording_join(struct see_recording *const *part, const uint32_t *rank, uint32_t count,
                       struct see_recording **out);

#endif
