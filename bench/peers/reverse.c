/* SPDX-License-Identifier: Apache-2.0 */
/* No task system at all: the last task first. The verifying build has to notice. */
#include "peer.h"

#include <stddef.h>

static const char *const variants[] = { "run", NULL };

static const char *version(void)
{
    return "-";
}

static bool open_nothing(uint32_t workers)
{
    (void)workers;
    return true;
}

static bool prepare(const struct peer_load *load, uint32_t variant)
{
    (void)load;
    (void)variant;
    return true;
}

static uint64_t run_backwards(const struct peer_load *load, uint32_t variant)
{
    uint64_t start = peer_now_ns();

    (void)variant;
    for (uint32_t i = load->task_count; i-- > 0;)
        PEER_BODY(i);
    return peer_now_ns() - start;
}

static void nothing(void)
{
}

const struct peer_ops peer = { "reverse", variants,      version, open_nothing,
                               prepare,   run_backwards, nothing, nothing };
