/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that calls the checker. The first argument after its tensors identifies the task. */
#include <pto/kernel.h>

#include "page.h"

PTO_KERNEL(args)
{
    const struct check_page *page = CHECK_PAGE;
    uint32_t i = 0;

    while (*PTO_ARG_POINTER(args, i, const uint64_t) != (uint64_t)(uintptr_t)page->run)
        i++;
    page->kernel(args, (void *)(uintptr_t)args[i], LANE);
}
