/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that is the checker's: of its arguments the one that is no tensor is the task. */
#include <pto/kernel.h>

#include "page.h"

void kernel_entry(int64_t *args)
{
    const struct check_page *page = CHECK_PAGE;
    uint32_t i = 0;

    while (*(void **)(uintptr_t)args[i] != page->run)
        i++;
    page->kernel(args, (void *)(uintptr_t)args[i], LANE);
}
