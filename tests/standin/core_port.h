/* SPDX-License-Identifier: Apache-2.0 */
/* The executor's port for the stand-in: a thread is a core, its registers are memory. */
#ifndef PTO_CORE_PORT_H
#define PTO_CORE_PORT_H

#include <stdint.h>

#define CORE_SHARED
#define CORE_FUNCTION
#define CORE_ENTRY __attribute__((visibility("default")))

uint32_t standin_core_block(void);
uint32_t standin_core_sub_block(void);
uint32_t standin_core_number(void);
uint32_t standin_core_bell(void);
void standin_core_set_cond(uint32_t value);
void standin_core_idle(uint32_t times);
void standin_check_code(uint64_t addr);

#define core_block() standin_core_block()
#define core_sub_block() standin_core_sub_block()
#define core_number() standin_core_number()
#define core_bell() standin_core_bell()
#define core_set_cond(value) standin_core_set_cond(value)
#define core_fetch_line(at) __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define core_publish_line(at) __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define core_fetch_all() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define core_publish_all() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define core_before_call(at) standin_check_code(at)
#define core_idle(times) standin_core_idle(times)

#endif
