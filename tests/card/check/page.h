/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page through which code on a card of the stand-in calls the checker, which is in the same
 * process.
 */
#ifndef PTO_TEST_CARD_CHECK_PAGE_H
#define PTO_TEST_CARD_CHECK_PAGE_H

#include <stdint.h>

#include "pto/aicore.h"

#define CHECK_PAGE ((struct check_page *)0x7e8000000000ull)

struct check_page {
    void *run; /* struct check_run; a struct check_run_task begins with its address */
    void (*kernel)(PTO_GM const int64_t *args, void *task, uint32_t lane);
    void (*orchestrate)(void *orch, const void *entry);
};

#endif
