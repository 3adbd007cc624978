/* SPDX-License-Identifier: Apache-2.0 */
/* The control processor's port for caches that are not coherent: tests/card/caches.c. */
#ifndef PTO_AICPU_H
#define PTO_AICPU_H

#include <stdint.h>

enum { AICPU_SLOWNESS = 1 };

#define AICPU_FOLDER "/nowhere" /* files of programs are in a separate folder */

uint32_t aicpu_register(uint64_t addr);
#define aicpu_seen() ((void)0) /* only one of the simulated processors runs at a time */
void aicpu_set_register(uint64_t addr, uint32_t value);
void aicpu_fetch(const void *at, uint64_t bytes);
void aicpu_send(const void *at, uint64_t bytes);
void aicpu_publish(const void *at, uint64_t bytes);
void aicpu_idle(uint32_t times);
uint64_t aicpu_now_ns(void);

#endif
