/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcpu_sim_context.so, which the reference's worker loads into the process before anything else.
 * It consists of our library of hooks under another name, and of this file. It prints nothing, so
 * it ignores the log threshold.
 */
#include "compat/hostlib/worker_abi.h"

int simpler_host_log_bind_state(struct log_state *state)
{
    return state != NULL && state->abi == LOG_STATE_ABI ? 0 : WORKER_FAILED;
}
