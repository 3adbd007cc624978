/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control processor's port in virtual time, for the scheduler program. Its registers, memory
 * and clock are those of virtual/virtual_clock.h.
 */
#ifndef PTO_VIRTUAL_AICPU_H
#define PTO_VIRTUAL_AICPU_H

#include "virtual/virtual_clock.h"

enum { AICPU_LINE = 64, AICPU_SLOWNESS = 1 };

/* path of the scheduler program's files; nothing is loaded from it */
#define AICPU_FOLDER "/nowhere"

/* The following is defined in port_virtual.c. */
void port_virtual_ring(struct virtual_clock *c, uint32_t core, uint32_t value);
void port_virtual_answer(struct virtual_clock *c, uint32_t core);
void port_virtual_look(struct virtual_clock *c, const void *at);

static inline uint32_t aicpu_register(uint64_t addr)
{
    struct virtual_clock *c = virtual_clock_of(addr);
    uint32_t core = (uint32_t)((addr - (uint64_t)(uintptr_t)c->window) / sizeof(c->window[0]));

    c->now_ns += c->cost.register_read_ns;
    if (__builtin_expect(c->end_ns[core] <= c->now_ns, 0))
        port_virtual_answer(c, core);
    return c->window[core].cond;
}

static inline void aicpu_set_register(uint64_t addr, uint32_t value)
{
    struct virtual_clock *c = virtual_clock_of(addr);

    c->now_ns += c->cost.register_write_ns;
    port_virtual_ring(c, (uint32_t)((addr - (uint64_t)(uintptr_t)c->window) / sizeof(c->window[0])),
                      value);
}

static inline void aicpu_seen(void)
{
}

static inline void aicpu_send(const void *at, uint64_t bytes)
{
    struct virtual_clock *c = virtual_clock_here();

    (void)at;
    c->now_ns += c->cost.line_ns * ((bytes + AICPU_LINE - 1) / AICPU_LINE);
}

static inline void aicpu_publish(const void *at, uint64_t bytes)
{
    if (bytes == sizeof(struct board_live))
        port_virtual_look(virtual_clock_here(), at);
}

static inline void aicpu_fetch(const void *at, uint64_t bytes)
{
    if (bytes == sizeof(struct board_requests))
        port_virtual_look(virtual_clock_here(), at);
}

static inline void aicpu_idle(uint32_t times)
{
    (void)times;
    virtual_pass(virtual_clock_here()->chip);
}

static inline uint64_t aicpu_now_ns(void)
{
    return virtual_clock_here()->now_ns;
}

#endif
