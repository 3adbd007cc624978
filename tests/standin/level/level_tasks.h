/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks and kernels of tests/standin/level.c. */
#ifndef PTO_LEVEL_TASKS_H
#define PTO_LEVEL_TASKS_H

enum task { ECHO, TALK, HOLD, ADD, PASS, TELL };
enum kernel { DOUBLE, ADDED, PASSED, TOLD };
enum { SCALARS = 13 }; /* of each task: which it is, and up to those of a queue */

#endif
