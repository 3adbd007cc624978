/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of `pto launch` on another machine. It greets on its standard output, gets the job on
 * its standard input, runs the ranks of its host, and ends them when the launcher says so, when the
 * channel ends, or when the launcher is silent for too long.
 */
#ifndef PTO_LAUNCH_AGENT_H
#define PTO_LAUNCH_AGENT_H

/* Serves one launcher and returns the exit code. */
int cli_launch_agent(void);

#endif
