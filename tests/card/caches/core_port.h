/* SPDX-License-Identifier: Apache-2.0 */
/* The executor's port for caches that are not coherent: tests/card/caches.c. */
#ifndef PTO_CORE_PORT_H
#define PTO_CORE_PORT_H

#include <stdint.h>

#define CORE_SHARED
#define CORE_FUNCTION
#define CORE_ENTRY

uint32_t core_block(void);
uint32_t core_sub_block(void);
uint32_t core_number(void);
uint32_t core_bell(void);
void core_set_cond(uint32_t value);
void core_fetch_line(const void *at);
void core_publish_line(const void *at);
void core_fetch_all(void);
void core_publish_all(void);
void core_idle(uint32_t times);

#define core_before_call(at) ((void)(at))
#define core_set_sync(at) ((void)(at))
#define core_anchor(at) ((void)(at))

#endif
