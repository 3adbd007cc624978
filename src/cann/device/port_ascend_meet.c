/* SPDX-License-Identifier: Apache-2.0 */
/* The port of the engine to a real chip: start and end of the cores. */
#include "cann/device/scheduler.h"

#include <string.h>

#include "aicpu.h"

enum {
    MEET_S = 2, /* seconds that all cores together may take to start */
    SECOND_NS = 1000000000,
};

/* Finds a core's register window by the physical number that the core has written. */
static bool find_window(struct machine *m, uint32_t index)
{
    const struct board_windows *windows = &m->board->windows;
    const struct board_hello *hello = &m->board->hello[index];
    struct unit *u = &m->unit[index];
    uint64_t there, window;
    uint32_t number;

    aicpu_fetch(hello, sizeof(*hello));
    /* `there` is read once, because the core may be writing it */
    there = *(const volatile uint64_t *)&hello->there;
    if (there >> BOARD_TAG_SHIFT != m->tag)
        return false;
    number = (uint32_t)there & BOARD_NUMBER_MASK;
    window = number < BOARD_WINDOWS ? windows->base[number] : 0;
    if (window == 0)
        return false;
    u->bell = window + windows->bell_offset;
    u->cond = window + windows->cond_offset;
    if (windows->fast_offset != 0)
        aicpu_set_register(window + windows->fast_offset, windows->fast_open);
    aicpu_set_register(u->bell, BOARD_BELL_OPEN);
    return true;
}

int port_meet_cores(struct machine *m, uint32_t tag, uint32_t *missing_out, uint32_t *seconds_out)
{
    uint64_t until_ns = aicpu_now_ns() + (uint64_t)MEET_S * AICPU_SLOWNESS * SECOND_NS;
    uint32_t idle = 0;

    m->tag = tag;
    *seconds_out = MEET_S * AICPU_SLOWNESS;
    for (uint32_t i = 0; i < m->core_count; i++) {
        m->unit[i].bell = 0;
        m->unit[i].slot = NULL;
        m->unit[i].number = 0;
    }
    for (;;) {
        uint32_t missing = 0;

        for (uint32_t i = 0; i < m->core_count; i++)
            if (m->unit[i].bell == 0
                    ? !find_window(m, i)
                    : aicpu_register(m->unit[i].cond) != (BOARD_COND_FIN | BOARD_COND_IDLE))
                missing++;
        *missing_out = missing;
        if (missing == 0) {
            aicpu_seen();
            return PTO_OK;
        }
        if (aicpu_now_ns() >= until_ns)
            return PTO_ETIMEOUT;
        /*
         * the host watches the heartbeat, perhaps with a shorter limit than that of the cores'
         * start
         */
        port_beat(m);
        aicpu_idle(idle++);
    }
}

uint32_t port_dismiss_cores(struct machine *m, bool is_lost)
{
    const struct board_windows *windows = &m->board->windows;
    uint32_t seconds = PORT_DISMISS_S * (is_lost ? 1 : AICPU_SLOWNESS);
    uint64_t until_ns = aicpu_now_ns() + (uint64_t)seconds * SECOND_NS;
    uint32_t idle = 0, left;

    for (uint32_t i = 0; i < m->core_count; i++)
        if (m->unit[i].bell != 0)
            aicpu_set_register(m->unit[i].bell, BOARD_BELL_EXIT);
    for (;;) {
        left = 0;
        for (uint32_t i = 0; i < m->core_count; i++) {
            struct unit *u = &m->unit[i];

            if (u->bell == 0)
                continue;
            if (aicpu_register(u->cond) != (BOARD_COND_FIN | BOARD_COND_EXIT)) {
                left++;
                continue;
            }
            aicpu_set_register(u->bell, BOARD_BELL_OPEN);
            if (windows->fast_offset != 0)
                aicpu_set_register(u->bell - windows->bell_offset + windows->fast_offset,
                                   windows->fast_close);
            u->bell = 0;
        }
        if (left == 0 || aicpu_now_ns() >= until_ns)
            break;
        aicpu_idle(idle++);
    }
    aicpu_seen();
    return left;
}

void port_note_cores(struct machine *m)
{
    struct board_seen *seen = &m->board->seen;

    aicpu_fetch(seen, sizeof(*seen));
    memset(seen, 0, sizeof(*seen));
    seen->count = m->core_count;
    seen->tag = m->tag;
    for (uint32_t i = 0; i < m->core_count; i++)
        seen->cond[i] = m->unit[i].bell != 0 ? aicpu_register(m->unit[i].cond) : 0;
    aicpu_seen();
    aicpu_publish(seen, sizeof(*seen));
}
