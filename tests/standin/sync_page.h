/* SPDX-License-Identifier: Apache-2.0 */
/* The page through which kernels call functions of the stand-in that are intrinsics on a core. */
#ifndef PTO_SYNC_PAGE_H
#define PTO_SYNC_PAGE_H

#define SYNC_PAGE 0x70000000ul /* below all addresses that sanitizers reserve */

/* Functions in the order in which they are on the page. */
enum sync_function {
    SYNC_SET_BASE,
    SYNC_SIGNAL,
    SYNC_WAIT,
    SYNC_BLOCKS,
    SYNC_GET_CTRL,
    SYNC_SET_CTRL,
    SYNC_MAIN_BASE,
    SYNC_FUNCTIONS
};

#endif
