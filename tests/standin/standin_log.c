/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in's libascendalog: the level of the vendor's log. A card keeps the level that was set
 * when its first context was made.
 */
#include "tests/standin/standin.h"

enum { LEVEL_MAX = 4, ALL_MODULES = -1 };

int dlog_setlevel(int32_t module, int32_t level, int32_t has_events)
{
    ENTER(dlog_setlevel);
    if (module != ALL_MODULES || level < 0 || level > LEVEL_MAX || (has_events & ~1) != 0)
        return -1;
    standin.log_level = (uint32_t)level + 1;
    return 0;
}
