/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks and kernels of tests/standin/level.c. */
#ifndef PTO_LEVEL_TASKS_H
#define PTO_LEVEL_TASKS_H

enum task { ECHO, TALK, HOLD, ADD, PASS, TELL };
enum kernel { DOUBLE, ADDED, PASSED, TOLD };
/* scalars of each task: which one it is, followed by up to those of a queue */
enum { SCALARS = 13 };

#endif
