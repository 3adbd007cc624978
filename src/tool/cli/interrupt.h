/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C handling for commands that stop when they are interrupted, and print the results so far.
 */
#ifndef PTO_INTERRUPT_H
#define PTO_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>
#include <string.h>

/* Calls the handler at the first Ctrl-C; a second one ends the program. */
static inline void interrupt_watch(void (*handler)(int), bool restarts_calls)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = handler;
    action.sa_flags = (int)SA_RESETHAND | (restarts_calls ? SA_RESTART : 0);
    sigaction(SIGINT, &action, NULL);
}

#endif
