/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcpu_sim_context.so, which the reference's worker loads for the whole process
 * before anything else, is our library of hooks under another name, and this: it
 * prints nothing, so that it needs no threshold.
 */
#include "compat/hostlib/worker_abi.h"

int simpler_host_log_bind_state(struct log_state *state)
{
    return state != NULL && state->abi == LOG_STATE_ABI ? 0 : WORKER_FAILED;
}
