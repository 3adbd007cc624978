/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An AIC and two AIVs alternate: the AIC sends a signal to both, and waits for a signal that
 * arrives when both have answered. At the end the AIVs meet, and each reads what the other one
 * wrote. Each core writes separate cache lines.
 */
#ifndef LANES_H
#define LANES_H

enum { ROUNDS = 5, WORDS = 16, LINES = 5, ASKED = 3, ANSWERED = 4, MET = 15 };

/* Modes and messages of ffts_cross_core_sync. */
enum { VECTORS = 1, CLUSTER = 2 };

#define LANES_MESSAGE(mode, flag) (1 | (mode) << 4 | (flag) << 8)

#endif
