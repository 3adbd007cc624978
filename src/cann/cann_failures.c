/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of runs on a card, and queries for their cause. */
#include "cann/cann_runs.h"

#include <stdio.h>

#include "base/error.h"

/*
 * time limit in ms for asking a stream whether it has failed, after a wait has ended without the
 * stream's event
 */
enum { ASK_MS = 1 };

void cann_run_set_lost(struct cann *c, struct cann_run *r)
{
    r->result.is_lost = true;
    /* relaxed: the flag is a hint, and the run's result has the reason */
    a32_store_relaxed(&c->is_trouble_reported, 1);
}

void cann_run_fail(struct cann *c, struct cann_run *r, int status, int code, const char *text)
{
    r->result = (struct chip_result){ .failure = { .status = status,
                                                   .kind = FAILURE_CARD,
                                                   .argument = -1,
                                                   .kernel = -1,
                                                   .task = pto_task_id_invalid() } };
    r->result.failure.value[0] = (uint64_t)(int64_t)code;
    snprintf(r->result.failure.text, FAILURE_TEXT, "%.255s", text);
    if (status == PTO_ELOST && cann_is_lost(c))
        cann_run_set_lost(c, r);
}

void cann_run_fail_call(struct cann *c, struct cann_run *r, const char *call, int code,
                        const char *doing)
{
    struct pto_error error;

    pto_error_init(&error);
    (void)cann_error_set(c, &error, call, code, doing);
    cann_run_fail(c, r, error.status, code, error.text);
}

void cann_run_lose(struct cann *c, struct cann_run *r, const char *why)
{
    struct pto_error error;

    pto_error_init(&error);
    (void)cann_lose(c, &error, "card %u: %s", c->card, why);
    cann_run_fail(c, r, PTO_ELOST, 0, error.text);
}

void cann_run_lose_call(struct cann *c, struct cann_run *r, const char *call, int code,
                        const char *doing)
{
    struct pto_error error;

    pto_error_init(&error);
    (void)cann_lose_by(c, &error, call, code, doing);
    cann_run_fail(c, r, error.status, code, error.text);
    cann_run_set_lost(c, r);
}

void cann_run_fail_lost(struct cann *c, struct cann_run *r)
{
    struct pto_error error;

    pto_error_init(&error);
    (void)cann_refuse(c, &error);
    cann_run_fail(c, r, PTO_ELOST, 0, error.text);
}

int cann_run_ask_stream(struct cann *c, void *stream, const char **call_out)
{
    int code = VENDOR_WAIT(&c->vendor, ASK_MS, aclrtSynchronizeStreamWithTimeout, stream, ASK_MS);

    if (code == ACL_SUCCESS || code == ACL_STREAM_NOT_DONE)
        return ACL_EVENT_NOT_DONE;
    *call_out = "aclrtSynchronizeStreamWithTimeout";
    return code;
}

void cann_run_lose_launched(struct cann *c, struct cann_run *r, enum asked asked, const char *call,
                            int code, const char *doing)
{
    const char *asking = call, *whose = "for the cores";
    int cause = ACL_EVENT_NOT_DONE;

    if (asked >= ASK_CORES)
        cause = cann_run_ask_stream(c, c->core_stream, &asking);
    if (asked == ASK_BOTH && cause == ACL_EVENT_NOT_DONE) {
        cause = cann_run_ask_stream(c, c->stream, &asking);
        whose = "for the scheduler";
    }
    if (cause == ACL_EVENT_NOT_DONE || cause == code)
        cann_run_lose_call(c, r, call, code, doing);
    else
        cann_run_lose_call(c, r, asking, cause, whose);
}
