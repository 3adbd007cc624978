/* SPDX-License-Identifier: Apache-2.0 */
/* Drills with faults of kernels: crashes, kernels that never return, invalid conditions. */
#include "tool/drill/stage.h"

enum { STALL_MS = 200, BLOCKS = 4, GANG = 4 };

/*
 * Submits a task before the faulty one. submit_after submits one after it, so that the fault is in
 * the middle of a graph.
 */
static void submit_before(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aic(o, KERNEL_CUBE, PTO_INOUT(entry->tensor));
}

static void submit_after(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
}

static void crash_segv(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_SEGV, PTO_INOUT(entry->tensor));
    submit_after(o, entry);
}

static void crash_bus(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_BUS, PTO_INOUT(entry->tensor));
    submit_after(o, entry);
}

static void crash_fpe(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aic(o, KERNEL_FPE, PTO_INOUT(entry->tensor));
    submit_after(o, entry);
}

static void crash_ill(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aic(o, KERNEL_ILL, PTO_INOUT(entry->tensor));
    submit_after(o, entry);
}

static void crash_recurse(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_RECURSE, PTO_INOUT(entry->tensor));
    submit_after(o, entry);
}

/*
 * Submits two tasks with a kernel that crashes on every thread but the caller's. The caller's
 * thread can run only one of them, so the other one crashes.
 */
static void crash_far(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_FAR, PTO_IN(entry->tensor));
    pto_aiv(o, KERNEL_FAR, PTO_IN(entry->tensor));
    submit_after(o, entry);
}

static void crash_block(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_BLOCK, PTO_INOUT(entry->tensor), PTO_BLOCKS(BLOCKS));
    submit_after(o, entry);
}

static void crash_gang(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_BLOCK, PTO_INOUT(entry->tensor), PTO_GANG(GANG));
    submit_after(o, entry);
}

static void crash_peer(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_PEER, PTO_INOUT(entry->tensor), PTO_GANG(GANG));
    submit_after(o, entry);
}

static void crash_lane(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_mix(o, PTO_LANES(KERNEL_CUBE, KERNEL_IDLE, KERNEL_LANE), PTO_INOUT(entry->tensor));
    submit_after(o, entry);
}

static void run_forever(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_FOREVER, PTO_INOUT(entry->tensor));
    submit_after(o, entry);
}

static void run_forever_elsewhere(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_ELSEWHERE, PTO_IN(entry->tensor));
    pto_aiv(o, KERNEL_ELSEWHERE, PTO_IN(entry->tensor));
    submit_after(o, entry);
}

static void run_forever_in_a_gang(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_FOREVER, PTO_INOUT(entry->tensor), PTO_GANG(GANG));
    submit_after(o, entry);
}

static void run_forever_in_blocks(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_FOREVER, PTO_INOUT(entry->tensor), PTO_BLOCKS(BLOCKS));
    submit_after(o, entry);
}

static void run_forever_in_a_lane(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_mix(o, PTO_LANES(KERNEL_CUBE, KERNEL_FOREVER, KERNEL_IDLE), PTO_INOUT(entry->tensor));
    submit_after(o, entry);
}

static void defer(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_DEFER, PTO_INOUT(entry->tensor));
    submit_after(o, entry);
}

static void defer_at_nothing(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    pto_aiv(o, KERNEL_NOWHERE, PTO_INT(0));
}

static void defer_where_nothing_is(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_NOWHERE, PTO_INT(0x1000));
    submit_after(o, entry);
}

static void defer_at_an_odd_address(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_NOWHERE, PTO_INT(entry->tensor[0].addr + 2));
}

static void defer_strangely(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    pto_aiv(o, KERNEL_STRANGE, PTO_INT(0));
}

static void defer_65(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    pto_aiv(o, KERNEL_CROWD, PTO_INT(PTO_COMPLETIONS_MAX + 1));
}

static void defer_65_tasks(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    for (int i = 0; i <= PTO_DEFERRED_MAX; i++)
        pto_aiv(o, KERNEL_CROWD, PTO_INT(1));
}

static void defer_together(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    pto_aiv(o, KERNEL_CROWD, PTO_INT(PTO_COMPLETIONS_MAX), PTO_BLOCKS(2));
}

static void write_word(struct pto_orch *o, const struct pto_entry *entry, int32_t word)
{
    struct pto_tensor_info info = drill_words_info();

    submit_before(o, entry);
    pto_aiv(o, KERNEL_OVERRUN, PTO_OUT(&info), PTO_INT(word));
}

static void overrun(struct pto_orch *o, const struct pto_entry *entry)
{
    write_word(o, entry, STAGE_WORDS + 2);
}

static void underrun(struct pto_orch *o, const struct pto_entry *entry)
{
    write_word(o, entry, -1);
}

static void read_unwritten(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = drill_words_info();
    struct pto_outputs out = pto_alloc(o, PTO_OUT(&info));

    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_IN(pto_output(out, 0)));
}

static void report_own_failure(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    pto_aiv(o, KERNEL_REPORT, PTO_INT(-PTO_EKERNEL));
}

static void run_slowly(struct pto_orch *o, const struct pto_entry *entry)
{
    submit_before(o, entry);
    pto_aiv(o, KERNEL_SLOW, PTO_INOUT(entry->tensor));
    submit_after(o, entry);
}

/* ---- drills with further checks or several runs ---- */

static void stall(struct stage *s)
{
    uint32_t before = pto_stuck_threads();
    uint32_t want = s->drill->orchestration == run_forever_in_a_gang   ? GANG
                    : s->drill->orchestration == run_forever_in_blocks ? BLOCKS
                                                                       : 1;
    uint32_t stuck;

    drill_judge(s, drill_run(s), &s->report.error);
    stuck = pto_stuck_threads() - before;
    /*
     * If the crash handler is on, a signal makes the caller's thread leave its kernel, so that this
     * thread does not count as stuck.
     */
    drill_expect(s, stuck == want - ((s->drill->flags & DRILL_SIGNALS) != 0),
                 "the device counts %u stuck threads for %u kernels", stuck, want);
}

static void run_after_loss(struct stage *s)
{
    int status;

    s->options.stall_timeout_ns = STALL_MS * 1000000ull;
    status = drill_run(s);
    drill_expect(s, status == PTO_ESTALL, "%s (%d) at first", pto_strerror(status), status);
    pto_run_report_init(&s->report);
    status = drill_run(s);
    s->report.error.kernel = -1;
    drill_judge(s, status, &s->report.error);
}

static void lose_with_a_queue(struct stage *s)
{
    struct pto_run *first, *second;

    s->options.stall_timeout_ns = STALL_MS * 1000000ull;
    first = drill_prepare(s, run_forever);
    second = drill_prepare(s, drill_orchestrate_well);
    if (first == NULL || second == NULL)
        return;
    drill_expect(s, pto_run_launch(first) == PTO_OK && pto_run_launch(second) == PTO_OK,
                 "the runs cannot be launched");
    (void)pto_run_wait(first, 0);
    (void)pto_run_wait(second, 0);
    drill_expect(s, pto_run_finish(first, NULL) == PTO_ESTALL,
                 "the first run should stall, but did not");
    drill_finish(s, second);
}

enum {
    FROM_KERNEL = DRILL_SITE | DRILL_TASK,
    CRASHES = DRILL_SITE | DRILL_TASK | DRILL_SIGNALS,
    STALLS = DRILL_SITE | DRILL_TASK | DRILL_LOST
};

const struct drill drills_kernels[] = {
    { PTO_ESTALL, "never-returns", "a kernel that never returns, on the caller's thread",
      .play = stall, .orchestration = run_forever,
      .text = "\"forever\" of task 1 does not return (sub_class=S1)",
      .reports = "task 1, kernel \"forever\"", .kernel = KERNEL_FOREVER,
      .flags = STALLS | DRILL_SIGNALS, .workers = 1, .stall_ms = STALL_MS },
    { PTO_ESTALL, "never-returns-elsewhere",
      "a kernel that never returns, on a thread of the device", .play = stall,
      .orchestration = run_forever_elsewhere, .text = "\"elsewhere\" of task",
      .reports = ": runs block 0 on AIV", .kernel = KERNEL_ELSEWHERE, .flags = STALLS, .workers = 1,
      .stall_ms = STALL_MS },
    { PTO_ESTALL, "never-returns-gang", "four blocks of a gang that never return", .play = stall,
      .orchestration = run_forever_in_a_gang,
      .text = "\"forever\" of task 1 does not return (sub_class=S1)",
      .reports = ": runs block 3 on AIV", .kernel = KERNEL_FOREVER, .flags = STALLS,
      .stall_ms = STALL_MS },
    { PTO_ESTALL, "never-returns-blocks", "four blocks of one task that never return",
      .play = stall, .orchestration = run_forever_in_blocks,
      .text = "\"forever\" of task 1 does not return (sub_class=S1)",
      .reports = ": runs block 3 on AIV", .kernel = KERNEL_FOREVER, .flags = STALLS | DRILL_SIGNALS,
      .workers = 1, .stall_ms = STALL_MS },
    { PTO_ESTALL, "never-returns-lane", "one of three lanes of a cluster that never returns",
      .play = stall, .orchestration = run_forever_in_a_lane,
      .text = "does not return (sub_class=S1)", .reports = "task 2, kernel \"add\"",
      .kernel = KERNEL_FOREVER, .flags = STALLS, .stall_ms = STALL_MS },
    { PTO_ESTALL, "never-fulfilled", "a task that waits for a counter that is never raised",
      .orchestration = defer, .text = "condition that never becomes true (sub_class=S4)",
      .reports = "which is 0 and must reach 3", .kernel = KERNEL_DEFER, .flags = FROM_KERNEL,
      .stall_ms = STALL_MS },

    { PTO_ETIMEOUT, "deadline-kernel", "a deadline while a kernel runs",
      .orchestration = run_slowly, .text = "\"slow\" of task 1 is still running",
      .reports = "task 2, kernel \"add\"", .kernel = KERNEL_SLOW, .flags = FROM_KERNEL,
      .timeout_ms = 400 },
    { PTO_ETIMEOUT, "deadline-condition", "a deadline while a task waits for a counter",
      .orchestration = defer, .text = "task 1 waits for a condition",
      .reports = "which is 0 and must reach 3", .kernel = KERNEL_DEFER, .flags = FROM_KERNEL,
      .timeout_ms = 400 },
    { PTO_ETIMEOUT, "deadline-runaway", "a deadline while a kernel runs that never returns",
      .orchestration = run_forever_in_a_gang, .text = "\"forever\" of task 1 is still running",
      .kernel = KERNEL_FOREVER, .flags = STALLS, .timeout_ms = 400 },

    { PTO_ECRASH, "sigsegv", "a kernel that accesses unmapped memory", .orchestration = crash_segv,
      .text = "SIGSEGV",
      .reports = "\"segv\" crashed at address 0x8 in block 0 of task 1, lane AIV0",
      .kernel = KERNEL_SEGV, .flags = CRASHES, .workers = 1 },
    { PTO_ECRASH, "sigsegv-elsewhere",
      "a kernel that accesses unmapped memory, on a thread of the device",
      .orchestration = crash_far, .text = "SIGSEGV", .reports = "\"far\" crashed at address 0x8",
      .kernel = KERNEL_FAR, .flags = CRASHES, .workers = 1 },
    { PTO_ECRASH, "sigbus", "a kernel that reads a mapped file past its end",
      .orchestration = crash_bus, .text = "SIGBUS", .kernel = KERNEL_BUS, .flags = CRASHES },
    { PTO_ECRASH, "sigfpe", "a kernel that divides by zero", .orchestration = crash_fpe,
      .text = "SIGFPE", .reports = "lane AIC", .kernel = KERNEL_FPE, .flags = CRASHES },
    { PTO_ECRASH, "sigill", "a kernel that executes an invalid instruction",
      .orchestration = crash_ill, .text = "SIGILL", .reports = "lane AIC", .kernel = KERNEL_ILL,
      .flags = CRASHES },
    { PTO_ECRASH, "stack-overflow", "a kernel that recurses until its stack overflows",
      .orchestration = crash_recurse, .text = "overflowed its stack", .kernel = KERNEL_RECURSE,
      .flags = CRASHES },
    { PTO_ECRASH, "crash-block", "one block of four that crashes", .orchestration = crash_block,
      .text = "in block 2 of task 1", .kernel = KERNEL_BLOCK, .flags = CRASHES },
    { PTO_ECRASH, "crash-gang", "one block of a gang of four that crashes",
      .orchestration = crash_gang, .text = "in block 2 of task 1", .kernel = KERNEL_BLOCK,
      .flags = CRASHES },
    { PTO_ECRASH, "crash-peer", "one block of four that crashes while the others wait for it",
      .orchestration = crash_peer, .text = "in block 2 of task 1", .kernel = KERNEL_PEER,
      .flags = CRASHES | DRILL_LOST, .stall_ms = STALL_MS },
    { PTO_ECRASH, "crash-lane", "one of three lanes of a cluster that crashes",
      .orchestration = crash_lane, .text = "of task 1, lane AIV1", .kernel = KERNEL_LANE,
      .flags = CRASHES },

    { PTO_ECOMPLETION, "condition-nowhere", "a condition at address 0",
      .orchestration = defer_at_nothing, .text = "its address is 0", .kernel = KERNEL_NOWHERE,
      .flags = FROM_KERNEL },
    { PTO_ECOMPLETION, "condition-unmapped", "a condition on unmapped memory",
      .orchestration = defer_where_nothing_is,
      .text = "task 1, kernel \"nowhere\", waits for a counter at 0x1000, where there is no memory",
      .kernel = KERNEL_NOWHERE, .flags = FROM_KERNEL | DRILL_SIGNALS },
    { PTO_ECOMPLETION, "condition-unaligned", "a condition at an unaligned address",
      .orchestration = defer_at_an_odd_address, .text = "not a multiple of 4",
      .kernel = KERNEL_NOWHERE, .flags = FROM_KERNEL },
    { PTO_ECOMPLETION, "condition-type", "a condition of an unknown type",
      .orchestration = defer_strangely, .text = "PTO_COMPLETION_COUNTER", .kernel = KERNEL_STRANGE,
      .flags = FROM_KERNEL },
    { PTO_EWAIT_OVERFLOW, "conditions-65", "a kernel that registers 65 conditions",
      .orchestration = defer_65, .text = "one invocation may have 64", .kernel = KERNEL_CROWD,
      .flags = FROM_KERNEL },
    { PTO_EWAIT_OVERFLOW, "conditions-tasks", "65 tasks that wait for conditions at the same time",
      .orchestration = defer_65_tasks, .text = "64 tasks may wait", .kernel = KERNEL_CROWD,
      .flags = FROM_KERNEL },
    { PTO_EREGISTRATION, "conditions-blocks",
      "two blocks of a task that register 64 conditions each", .orchestration = defer_together,
      .text = "more than 64 conditions for one task", .kernel = KERNEL_CROWD,
      .flags = FROM_KERNEL },
    { PTO_EKERNEL, "kernel-reports", "a kernel that ends the run with a code of its own",
      .orchestration = report_own_failure, .text = "kernel \"report\" ended the run",
      .kernel = KERNEL_REPORT, .flags = FROM_KERNEL },

    { PTO_EOVERRUN, "overrun", "a kernel that writes past the end of an intermediate tensor",
      .orchestration = overrun, .text = "wrote up to 12 bytes beyond the end of argument 0",
      .kernel = KERNEL_OVERRUN, .argument = 1, .flags = FROM_KERNEL | DRILL_GUARDS },
    { PTO_EOVERRUN, "underrun", "a kernel that writes before the start of an intermediate tensor",
      .orchestration = underrun, .text = "wrote up to 4 bytes before the start of argument 0",
      .kernel = KERNEL_OVERRUN, .argument = 1, .flags = FROM_KERNEL | DRILL_GUARDS },
    { PTO_EUNWRITTEN, "unwritten", "a task that reads a tensor that no task writes",
      .orchestration = read_unwritten, .text = "of a new tensor that no task submitted",
      .kernel = KERNEL_ADD, .argument = 2, .flags = FROM_KERNEL | DRILL_GUARDS },

    { PTO_ELOST, "run-after-loss", "a run on a device with a kernel that never returned",
      .play = run_after_loss, .orchestration = run_forever_in_a_gang, .text = "the device is lost",
      .flags = DRILL_LOST },
    { PTO_ELOST, "queue-after-loss", "a run queued after one whose kernel never returns",
      .play = lose_with_a_queue, .text = "the device is lost",
      .flags = DRILL_LOST | DRILL_SIGNALS },
    { 0 },
};
