/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of `pto launch` on another machine. It writes a greeting to its standard output, reads
 * the job from its standard input, and runs the ranks of its host. It ends the ranks when the
 * launcher asks for it, when the channel ends, or when the launcher is silent for too long.
 */
#ifndef PTO_LAUNCH_AGENT_H
#define PTO_LAUNCH_AGENT_H

/* Runs the agent for one launcher. Returns the exit code. */
int cli_launch_agent(void);

#endif
