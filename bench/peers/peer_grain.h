/* SPDX-License-Identifier: Apache-2.0 */
/*
 * METG(50 %): the smallest granularity at which a system reaches half of the
 * throughput that the kernel has without any system around it. Granularity is
 * workers x time / tasks, as in Task Bench; efficiency is the time that
 * the kernels take alone, divided by workers x time.
 */
#ifndef PTO_PEER_GRAIN_H
#define PTO_PEER_GRAIN_H

#include "peer.h"

#ifdef GRAIN
enum { GRAIN_BUILD = 1 };
#else
enum { GRAIN_BUILD = 0 };
#endif

struct grain_params {
    const char *pattern;
    uint32_t workers;
    uint32_t repeat;  /* runs of a point; the fastest counts */
    uint32_t seconds; /* for all points; the curve ends where it is then */
    double peak_ns;   /* the shortest time of an iteration that is known from elsewhere; 0: none */
};

/*
 * Prints the rest of a JSON object: peak, points of the curve, METG. 0, or an
 * exit code.
 */
int grain_measure(const struct grain_params *params);
/* The peak alone: all systems are to be compared with the same. */
int grain_peak(uint32_t workers);

#endif
