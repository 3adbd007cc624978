/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor, the program on the cores: registers it once, launches it for each run, and finds
 * out how it ended.
 */
#include "cann/cann_runs.h"

#include <stdlib.h>

/*
 * Whether a vendor's code only says that a request is not supported. Then the card still works, and
 * another call may succeed.
 */
static bool is_refusal(int code)
{
    int status = vendor_status(code);

    return code != ACL_SUCCESS && (status == PTO_EINVAL || status == PTO_ENOSUP);
}

/*
 * Registers the executor's whole program in one call. This way is proven on cards of both
 * generations, but uses functions that version 9.2 calls deprecated and that may be absent. Returns
 * a vendor's code; 107000 if they are absent.
 */
static int register_executor(struct cann *c)
{
    struct vendor *v = &c->vendor;
    struct vendor_program program = { .magic = VENDOR_MAGIC_MIX,
                                      .data = c->executor.bytes,
                                      .bytes = c->executor.size };
    int code;

    if (v->rtRegisterAllKernel == NULL || v->rtKernelLaunchWithHandleV2 == NULL)
        return ACL_REFUSED;
    /* registered once, because the card keeps a copy for each registration */
    if (c->core_binary != NULL) {
        code = VENDOR_CALL(v, aclrtBinaryUnLoad, c->core_binary);
        if (code != ACL_SUCCESS)
            return code;
        c->core_binary = NULL;
    }
    return VENDOR_CALL(v, rtRegisterAllKernel, &program, &c->core_program);
}

/*
 * Finds the executor's function by its number, then by its name. If the vendor supports neither,
 * registers the whole program in one call. Returns the code of the first way, unless a later one
 * succeeds or the card fails.
 */
static int find_executor(struct cann *c, int code, const char **call_out)
{
    /* name of the entry in device/executor.c, without the suffix for a type of core */
    static const char name[] = "pto_executor_0";
    struct vendor *v = &c->vendor;
    const char *route = "aclrtBinaryGetFunctionByEntry";
    int other;

    if (c->core_binary != NULL) {
        *call_out = route;
        code = VENDOR_CALL(v, aclrtBinaryGetFunctionByEntry, c->core_binary, 0, &c->core_function);
    }
    other = code;
    if (c->core_binary != NULL && is_refusal(other)) {
        route = "aclrtBinaryGetFunction";
        other = VENDOR_CALL(v, aclrtBinaryGetFunction, c->core_binary, name, &c->core_function);
    }
    if (is_refusal(other)) {
        route = "rtRegisterAllKernel";
        other = register_executor(c);
    }
    if (other == ACL_SUCCESS)
        vendor_note(v, "route", "executor %s", route);
    /* a failure of the card takes precedence over an earlier refusal */
    else if (!is_refusal(other))
        *call_out = route;
    return other == ACL_SUCCESS || !is_refusal(other) ? other : code;
}

int cann_cores_ready(struct cann *c, const char **call_out)
{
    struct vendor *v = &c->vendor;
    struct vendor_option magic = { .id = VENDOR_OPTION_MAGIC, .value = { VENDOR_MAGIC_MIX } };
    struct vendor_options options = { &magic, 1 };
    int code = ACL_SUCCESS;

    if (c->core_function != NULL || c->core_program != NULL)
        return ACL_SUCCESS;
    *call_out = "aclrtBinaryLoadFromData";
    if (c->core_binary == NULL)
        code = VENDOR_CALL(v, aclrtBinaryLoadFromData, c->executor.bytes, c->executor.size,
                           &options, &c->core_binary);
    return code == ACL_SUCCESS || is_refusal(code) ? find_executor(c, code, call_out) : code;
}

int cann_cores_renew_stream(struct cann *c, const char **call_out)
{
    int code = ACL_SUCCESS;

    if (!c->is_code_new)
        return ACL_SUCCESS;
    *call_out = "aclrtDestroyStream";
    /* core_stream is NULL if an earlier run has destroyed it and could not make a new one */
    if (c->core_stream != NULL)
        code = VENDOR_CALL(&c->vendor, aclrtDestroyStream, c->core_stream);
    if (code != ACL_SUCCESS)
        return code;
    c->core_stream = NULL;
    *call_out = "aclrtCreateStream";
    code = VENDOR_CALL(&c->vendor, aclrtCreateStream, &c->core_stream);
    c->is_code_new = code != ACL_SUCCESS; /* mutation: renews-every-run */
    return code;
}

struct board_launch cann_cores_next(struct cann *c)
{
    struct board_launch launch = { .board = c->board, .tag = ++c->launches };

    launch.sync = c->sync; /* mutation: no-sync-address */
    return launch;
}

const char *cann_cores_call(const struct cann *c)
{
    return c->core_program != NULL ? "rtKernelLaunchWithHandleV2" : "aclrtLaunchKernelWithHostArgs";
}

/*
 * Launches the executor if its whole program was registered in one call. The number 0 (the vendor's
 * "tiling key") selects the entry point.
 */
static int launch_registered(struct cann *c, uint64_t launch)
{
    struct vendor_args args = { .args = &launch, .bytes = sizeof(launch) };
    struct vendor_task task = { .schem = VENDOR_SCHEM_BATCH };

    return VENDOR_CALL(&c->vendor, rtKernelLaunchWithHandleV2, c->core_program, 0,
                       c->base.properties.clusters, &args, NULL, c->core_stream, &task);
}

int cann_cores_launch(struct cann *c, const struct cann_run *r)
{
    struct vendor_attribute together = { .id = VENDOR_ATTRIBUTE_SCHEM,
                                         .value = { VENDOR_SCHEM_BATCH } };
    struct vendor_config config = { &together, 1 };
    uint64_t launch = r->message + MESSAGE_LAUNCH;

    if (c->core_program != NULL)
        return launch_registered(c, launch);
    return VENDOR_CALL(&c->vendor, aclrtLaunchKernelWithHostArgs, c->core_function,
                       c->base.properties.clusters, c->core_stream, &config, &launch,
                       sizeof(launch), NULL, 0);
}

/*
 * Waits for the end of the cores' stream, and returns its code. Called once: a second wait for a
 * failed stream may hang.
 */
static int await_core_stream(struct cann *c)
{
    return VENDOR_WAIT(&c->vendor, CANN_CORES_MS, aclrtSynchronizeStreamWithTimeout, c->core_stream,
                       CANN_CORES_MS);
}

static int start_cores(struct cann *c, const struct cann_run *r, uint64_t *tag_out,
                       const char **call_out)
{
    struct board_launch launch = cann_cores_next(c);
    int code = cann_cores_ready(c, call_out);

    *tag_out = launch.tag;
    if (code != ACL_SUCCESS)
        return code;
    *call_out = "aclrtMemcpy";
    code = cann_upload(c, r->message + MESSAGE_LAUNCH, &launch, sizeof(launch));
    if (code != ACL_SUCCESS)
        return code;
    *call_out = cann_cores_call(c);
    return cann_cores_launch(c, r);
}

int cann_meet(struct cann *c, struct pto_error *error)
{
    const char *call = "";
    uint64_t tag;
    int code = start_cores(c, &c->run[0], &tag, &call), status;

    if (code != ACL_SUCCESS)
        return cann_lose_by(c, error, call, code, "for the cores");
    status = cann_call(c, BOARD_MEET, tag, NULL, 0, NULL, error);
    /* relaxed: is_lost can only have been set by this thread */
    if (status < 0 && a32_load_relaxed(&c->is_lost) == 0)
        (void)cann_lose(c, NULL, "%s", error->text);
    if (status < 0)
        cann_note_board(c);
    code = await_core_stream(c);
    if (code != ACL_SUCCESS && (status >= 0 || code != ACL_STREAM_NOT_DONE))
        status = cann_lose_by(c, error, "aclrtSynchronizeStreamWithTimeout", code, "for the cores");
    return status;
}

void cann_note_board(struct cann *c)
{
    struct board *board;
    const struct board_seen *seen;
    int code;

    if (c->vendor.log == NULL || c->board == 0)
        return;
    board = malloc(sizeof(*board));
    code = board != NULL ? cann_download(c, c->board, board, sizeof(*board)) : ACL_SUCCESS;
    if (code != ACL_SUCCESS)
        vendor_note(&c->vendor, "board", "cannot be read: aclrtMemcpy answered %d (%s)", code,
                    vendor_meaning(code));
    if (board == NULL || code != ACL_SUCCESS) {
        free(board);
        return;
    }
    seen = &board->seen;
    vendor_note(&c->vendor, "board",
                "launch %u, scheduler %#llx, answer %u of call %u, beats %llu, kernels started or "
                "returned %llu, registers read at launch %u",
                c->launches, (unsigned long long)board->scheduler, board->answer.sequence,
                c->sequence, (unsigned long long)board->live.beats,
                (unsigned long long)board->live.progress, seen->tag);
    for (uint32_t i = 0; i < PTO_CLUSTER_CORES * c->base.properties.clusters; i++) {
        uint32_t clusters = c->base.properties.clusters, number;
        uint64_t there = board->hello[i].there;

        number = (uint32_t)there & BOARD_NUMBER_MASK;
        vendor_note(&c->vendor, "core", "%s %u tag %llu number %u window %#llx cond %#x",
                    i < clusters ? "AIC" : "AIV", i < clusters ? i : i - clusters,
                    (unsigned long long)(there >> BOARD_TAG_SHIFT), number,
                    (unsigned long long)(number < BOARD_WINDOWS ? board->windows.base[number] : 0),
                    i < seen->count ? seen->cond[i] : 0);
    }
    free(board);
}
