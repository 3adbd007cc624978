/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of a failed run: a line of codes that programs parse, then the name of the code, the
 * error, and the remedy.
 */
#include "compat/hostlib/hostlib.h"

/*
 * Names of the reference's codes, with remedies for this runtime. Codes from 100 on are those of
 * the reference's scheduler.
 */
static const struct {
    int code;
    const char *name;
    const char *hint;
} codes[] = {
    { 1, "SCOPE_DEADLOCK",
      "end the scope earlier, or set ring_task_window (PTO2_RING_TASK_WINDOW) larger or not at "
      "all" },
    { 2, "HEAP_RING_DEADLOCK",
      "make the outputs smaller or end scopes earlier, or set ring_heap (PTO2_RING_HEAP) larger "
      "or not at all" },
    { 3, "FLOW_CONTROL_DEADLOCK",
      "nest fewer scopes with tasks of their own, or set ring_task_window "
      "(PTO2_RING_TASK_WINDOW) larger or not at all" },
    { 4, "DEP_POOL_OVERFLOW",
      "let the task depend on fewer others, or set ring_dep_pool (PTO2_RING_DEP_POOL) larger or "
      "not at all" },
    { 5, "INVALID_ARGS", "correct the call in the orchestration; no ring size changes this" },
    { 6, "DEPENDENCY_OVERFLOW", "let the task depend on fewer others" },
    { 7, "REQUIRE_SYNC_START_INVALID",
      "use at most as many blocks as there are cores for them at the same time, or do without "
      "the synchronous start" },
    { 8, "TENSOR_WAIT_TIMEOUT",
      "find the task that should have written the tensor, and why it has not ended" },
    { 9, "EXPLICIT_ORCH_FATAL", "the orchestration itself ended the run; see its message" },
    { 10, "SCOPE_TASKS_OVERFLOW", "submit fewer tasks in one scope" },
    { 11, "TENSORMAP_OVERFLOW", "use fewer regions at a time, or end scopes earlier" },
    { 100, "SCHEDULER_TIMEOUT",
      "sub_class names what the tasks were waiting for; SIMPLER_SCHEDULER_TIMEOUT_MS sets the "
      "time, for kernels that are just slow" },
    { 101, "ASYNC_COMPLETION_INVALID",
      "check the address and the type of the condition that the kernel registers" },
    { 102, "ASYNC_WAIT_OVERFLOW", "register fewer conditions in one kernel" },
    { 103, "ASYNC_REGISTRATION_FAILED", "register fewer conditions for one task" },
    { 104, "READY_QUEUE_OVERFLOW", "let fewer tasks become ready at a time" },
};

enum { SCHEDULER_CODES = 100, OWN_CODES = 200 };

void hostlib_log_failure(int status, const struct pto_error *error)
{
    int code = -status;
    bool is_own = code > OWN_CODES;
    bool is_scheduler = !is_own && code >= SCHEDULER_CODES;
    const char *name = pto_strerror(status);
    const char *hint = "see the line above; `pto run` with the same callable prints more";

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].code == code) {
            name = codes[i].name;
            hint = codes[i].hint;
        }
    LOG(PTO_LOG_ERROR,
        "PTO2 runtime failed: orch_error_code=%d sched_error_code=%d runtime_status=%d",
        is_own || is_scheduler ? 0 : code, is_scheduler ? code : 0, status);
    LOG(PTO_LOG_ERROR, "error detail: %s=%d %s - %s",
        is_own         ? "runtime_status"
        : is_scheduler ? "sched_error_code"
                       : "orch_error_code",
        is_own ? status : code, name, error->text[0] != '\0' ? error->text : pto_strerror(status));
    LOG(PTO_LOG_ERROR, "error hint: %s", hint);
}
