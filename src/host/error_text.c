/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a failure, which a chip reports as data (struct failure), into a message with the remedy.
 */
#include "host/error_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define APPEND(...) error_text_appendf(error, __VA_ARGS__)

static bool append_refusal(const struct failure *f, const struct callable *c,
                           struct pto_error *error);
static bool append_orchestration(const struct failure *f, struct pto_error *error);
static bool append_launch(const struct failure *f, struct pto_error *error);
static void append_ring(const struct failure *f, struct pto_error *error);
static void append_thrown(const struct failure *f, const char *name, struct pto_error *error);
static void append_kernel(const struct failure *f, const char *name, struct pto_error *error);
static void append_unwritten(const struct failure *f, const char *name, struct pto_error *error);
static void append_overrun(const struct failure *f, const char *name, struct pto_error *error);
static void append_stall(const struct chip_result *result, const struct callable *c,
                         struct pto_error *error);
static void append_late(const struct chip_result *result, const struct callable *c,
                        struct pto_error *error);
static void append_peer(const struct chip_result *result, const struct callable *c,
                        struct pto_error *error);

const char *error_text_kernel_name(const struct callable *c, int32_t kernel)
{
    return kernel >= 0 && (uint32_t)kernel < c->kernel_count ? c->kernel_name[kernel] : "none";
}

/*
 * Writes FILE:LINE of the source in at most `room` bytes; a path that is too long loses its
 * beginning.
 */
static void write_place(const struct pto_site *site, char *text, size_t room)
{
    static const char gap[] = "...";
    size_t length = strlen(site->file);
    int line = snprintf(NULL, 0, ":%d: ", site->line);
    size_t most = room > (size_t)line ? room - (size_t)line : 0;

    if (length <= most)
        snprintf(text, room + 1, "%s:%d: ", site->file, site->line);
    else if (most > sizeof(gap))
        snprintf(text, room + 1, "%s%s:%d: ", gap, site->file + length - (most - strlen(gap)),
                 site->line);
}

/*
 * Writes the message after the source line. The message always fits: if there is too little room,
 * the path before it is shortened.
 */
void error_text_appendf(struct pto_error *error, const char *format, ...)
{
    size_t most = sizeof(error->text) - 1, used;
    va_list args;
    int length;

    error->text[0] = '\0';
    va_start(args, format);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (error->site.file != NULL && length >= 0 && (size_t)length < most)
        write_place(&error->site, error->text, most - (size_t)length);
    used = strlen(error->text);
    va_start(args, format);
    vsnprintf(error->text + used, sizeof(error->text) - used, format, args);
    va_end(args);
    pto_text_clean(error->text, false);
}

/* Copies the status, the argument, the task, the kernel and the source line to the error. */
static void copy_facts(const struct failure *f, struct pto_error *error)
{
    bool is_tensor = f->kind != FAILURE_GANG && f->kind != FAILURE_PASSED &&
                     (f->kind != FAILURE_DECLARED || !declared_is_scalar(f->value[0]));

    error->status = f->status;
    error->argument = is_tensor ? f->argument : -1;
    error->kernel = f->kernel;
    error->task = f->task;
    error->scope_depth = f->scope_depth;
    error->site = f->site;
}

void error_text_write(const struct chip_result *result, const struct callable *c,
                      struct pto_error *error)
{
    const struct failure *f = &result->failure;

    copy_facts(f, error);
    if (append_refusal(f, c, error) || append_orchestration(f, error) || append_launch(f, error))
        return;
    if (f->kind == FAILURE_RING || f->kind == FAILURE_RING_HELD)
        append_ring(f, error);
    else if (f->kind == FAILURE_THREW || f->kind == FAILURE_KERNEL_EXITED)
        append_thrown(f, error_text_kernel_name(c, f->kernel), error);
    else if (f->kind == FAILURE_CRASH)
        error_text_crash(result, error_text_kernel_name(c, f->kernel), error);
    else if (f->kind == FAILURE_ENDED_RUN)
        append_kernel(f, error_text_kernel_name(c, f->kernel), error);
    else if (f->kind == FAILURE_OVERRUN)
        append_overrun(f, error_text_kernel_name(c, f->kernel), error);
    else if (f->kind == FAILURE_UNWRITTEN)
        append_unwritten(f, error_text_kernel_name(c, f->kernel), error);
    else if (f->kind == FAILURE_TOUCHED)
        error_text_touched(result, error_text_kernel_name(c, f->kernel), error);
    else if (f->kind == FAILURE_INPUT)
        error_text_input(result, error_text_kernel_name(c, f->kernel), error);
    else if (f->kind == FAILURE_NAN)
        error_text_nan(result, error_text_kernel_name(c, f->kernel), error);
    else if (f->kind == FAILURE_STALL)
        append_stall(result, c, error);
    else if (f->kind == FAILURE_LATE || f->kind == FAILURE_LATE_SINCE_LAUNCH)
        append_late(result, c, error);
    else if (f->kind == FAILURE_PEER)
        append_peer(result, c, error);
    else if (f->text[0] != '\0')
        APPEND("%s", f->text);
    else
        APPEND("%s", pto_strerror(f->status));
}

void error_text_refusal(const struct failure *f, struct pto_error *error)
{
    static const struct callable no_kernels;

    copy_facts(f, error);
    if (!append_refusal(f, &no_kernels, error))
        APPEND("%s", pto_strerror(f->status));
}

static void append_unwritten(const struct failure *f, const char *name, struct pto_error *error)
{
    if (f->value[3] == UNWRITTEN_ELEMENT)
        APPEND("pto_get_data reads an element of a new tensor that no task submitted before it "
               "writes; submit the writer first, or let the tensor start with a value "
               "(pto_tensor_info_fill, pto_set_data)");
    else if (f->value[3] == UNWRITTEN_PREDICATE)
        APPEND(
            "the predicate of task %llu reads an element of a new tensor that no task "
            "submitted before it writes; submit the writer first, or let the tensor start with a "
            "value (pto_tensor_info_fill, pto_set_data)",
            (unsigned long long)f->value[2]);
    else
        APPEND(
            "argument %d of task %llu (\"%s\") reads %llu bytes of a new tensor that no "
            "task submitted before it writes; submit the writer first, let the tensor start with a "
            "value (pto_tensor_info_fill), or pass it as NO_DEP (PTO_AFTER) if the kernel does not "
            "read it",
            f->argument, (unsigned long long)f->value[2], name, (unsigned long long)f->value[1]);
}

/* ---- submits that the graph refuses ---- */

static const char *data_reason(uint64_t reason)
{
    static const char *const text[] = {
        [DATA_TENSOR] = "the tensor is NULL or not a valid tensor",
        [DATA_NDIMS] = "there are more indices than dimensions, or they are NULL",
        [DATA_INDEX] = "an index is beyond the shape, or the view beyond its buffer",
        [DATA_OPERATOR] = "the comparison does not exist; use one of enum pto_predicate_op",
        [DATA_ADDRESS] = "the tensor has no storage: its address is 0",
        [DATA_UNMAPPED] =
            "there is no memory at the element's address, or none that can be written",
        [DATA_HELD] = "the graph is built before anything runs (PTO_MODE_HOST), and a submitted "
                      "task uses it; read and write it before, or stream the graph",
        [DATA_OWNED] = "the graph is built before anything runs (PTO_MODE_HOST), so only memory "
                       "from outside has contents; stream the graph",
    };

    return reason < sizeof(text) / sizeof(text[0]) ? text[reason] : "unknown reason";
}

static const char *view_reason(uint64_t reason)
{
    static const char *const text[] = {
        [PTO_VIEW_OK] = "the tensor was never initialised",
        [PTO_VIEW_BAD_NDIMS] = "a tensor has 1 to 5 dimensions",
        [PTO_VIEW_BAD_DTYPE] = "the data type does not exist",
        [PTO_VIEW_OUT_OF_RANGE] = "offset + shape exceeds the parent tensor",
        [PTO_VIEW_STRIDED] = "only a contiguous tensor can be reshaped",
        [PTO_VIEW_NUMEL] = "the new shape has another number of elements",
        [PTO_VIEW_BAD_DIM] = "a dimension does not exist or is named twice",
        [PTO_VIEW_TOO_LARGE] = "a stride does not fit 32 bits",
        [PTO_VIEW_ZERO_STRIDE] = "a stride is 0",
        [PTO_VIEW_NO_ENTRY] = "the entry has fewer tensors; check entry->tensor_count",
        [PTO_VIEW_NO_OUTPUT] = "the submit has no such output; check its count",
        [PTO_VIEW_MISCOUNTED] = "an array of shapes, offsets or an order is for other dimensions",
        [PTO_VIEW_BAD_STEP] = "a slice needs a step above 0 and an end not before its start",
    };

    return reason < sizeof(text) / sizeof(text[0]) ? text[reason] : "unknown reason";
}

/* Describes a view or create info that is invalid. */
static void append_view(const struct failure *f, struct pto_error *error)
{
    char where[40] = "";

    if (f->value[3] != 0)
        snprintf(where, sizeof(where), ", made in line %llu", (unsigned long long)f->value[3]);
    if (f->kind == FAILURE_INFO && f->value[2] == 0)
        APPEND("argument %d is a new output without a valid shape or data type; use "
               "pto_tensor_info_make with 1 to 5 dimensions",
               f->argument);
    else if (f->kind == FAILURE_INFO || f->value[0] == PTO_VIEW_MISCOUNTED)
        APPEND("argument %d is not a valid %s%s: an array of %llu elements is used for %llu "
               "dimensions",
               f->argument, f->kind == FAILURE_INFO ? "new output" : "view", where,
               (unsigned long long)f->value[1], (unsigned long long)f->value[2]);
    else if (f->value[0] == PTO_VIEW_NO_ENTRY)
        APPEND("argument %d is entry->tensor[%llu] or a view of it, but the entry has %llu tensors",
               f->argument, (unsigned long long)f->value[1], (unsigned long long)f->value[2]);
    else
        APPEND("argument %d is not a valid view: %s", f->argument, view_reason(f->value[0]));
}

/* Describes the use of an output, or of a view of it, after its scope has ended. */
static void append_scope_ended(const struct failure *f, const struct callable *c,
                               struct pto_error *error)
{
    char what[160], creator[32] = "",
                    scope[FAILURE_TEXT + 40] = "a scope that has ended, or in another run";

    if (f->argument < 0)
        snprintf(what, sizeof(what), "the element's tensor");
    else if (f->value[4] == (uint64_t)f->argument)
        snprintf(what, sizeof(what), "the predicate's operand of task %llu",
                 (unsigned long long)f->value[3]);
    else
        snprintf(what, sizeof(what), "argument %d of task %llu (\"%.60s\")", f->argument,
                 (unsigned long long)f->value[3], error_text_kernel_name(c, f->kernel));
    if (f->value[2] != 0)
        snprintf(creator, sizeof(creator), "by task %llu ", (unsigned long long)f->value[2] - 1);
    if (f->text[0] != '\0')
        snprintf(scope, sizeof(scope), "the scope of %s:%llu, which has ended", f->text,
                 (unsigned long long)f->value[1]);
    APPEND("%s was created %sin %s; use it inside that scope, or create it in an outer one", what,
           creator, scope);
}

/* Describes failures because of a tensor argument, an output or a predicate. */
static bool append_argument(const struct failure *f, const struct callable *c,
                            struct pto_error *error)
{
    unsigned long long value = f->value[0];

    switch (f->kind) {
    case FAILURE_ARGS_ERROR:
        APPEND("invalid task arguments: %s", f->text);
        return true;
    case FAILURE_TAG:
        APPEND("argument %d has the unknown tag %llu; use a value of enum pto_tag", f->argument,
               value);
        return true;
    case FAILURE_VIEW:
    case FAILURE_INFO:
        append_view(f, error);
        return true;
    case FAILURE_BOUNDS:
        if (value == UINT64_MAX)
            APPEND("argument %d reaches beyond any buffer; check its start, shapes, strides and "
                   "extent",
                   f->argument);
        else
            APPEND("argument %d reaches to byte %llu of a buffer that is smaller; check its start, "
                   "shapes and strides",
                   f->argument, value);
        return true;
    case FAILURE_NULL_ADDRESS:
        APPEND("argument %d has no storage: its address is 0", f->argument);
        return true;
    case FAILURE_TOO_LARGE:
        APPEND("the outputs of one task take %llu bytes; the most is 2^40", value);
        return true;
    case FAILURE_PREDICATE:
        APPEND("the predicate's operand cannot be read: %s", data_reason(value));
        return true;
    case FAILURE_DATA:
        APPEND("the element cannot be reached: %s", data_reason(value));
        return true;
    case FAILURE_SCOPE_ENDED:
        append_scope_ended(f, c, error);
        return true;
    default:
        return false;
    }
}

/* Describes failures because of a task's launch parameters or dependencies. */
static bool append_task(const struct failure *f, const struct callable *c, struct pto_error *error)
{
    unsigned long long value = f->value[0];

    switch (f->kind) {
    case FAILURE_KERNEL:
        APPEND("there is no kernel %llu; callable \"%s\" has %u of them", value,
               c->kernel_name[c->kernel_count], c->kernel_count);
        return true;
    case FAILURE_CORE_TYPE:
        APPEND("kernel %llu (\"%s\") is for the other core type; submit it with pto_submit_%s",
               value, error_text_kernel_name(c, f->kernel),
               value < c->kernel_count && graph_kernel_core(&c->kernel[value]) == PTO_CORE_AIC
                   ? "aic"
                   : "aiv");
        return true;
    case FAILURE_DECLARED:
        error_text_declared(f, error_text_kernel_name(c, f->kernel), error);
        return true;
    case FAILURE_BLOCK_COUNT:
        APPEND("a task cannot have %lld blocks; at least 1, and with its lanes at most 2^30; "
               "initialise arguments with pto_args_init",
               (long long)value);
        return true;
    case FAILURE_GANG:
        APPEND("%llu blocks that start together never fit: this device has room for %d; use "
               "pto_cluster_count or pto_aiv_count, or do without sync_start",
               value, f->argument);
        return true;
    case FAILURE_TIMING_SLOT:
        APPEND("timing slot %llu is not one of 0 to %d", value, PTO_TIMING_SLOTS - 1);
        return true;
    case FAILURE_PASSED:
        APPEND("scalar %llu of the entry was requested, but the entry has %d scalars", value,
               f->argument);
        return true;
    case FAILURE_DEP_INVALID:
        APPEND("dependency %llu is the invalid task id; leave it out, or check the submit that it "
               "came from",
               value);
        return true;
    case FAILURE_DEP_UNKNOWN:
        APPEND("dependency %llu names a task that was never submitted in this run", value);
        return true;
    case FAILURE_DEP_KIND:
        APPEND("dependency %llu has an unknown kind; use PTO_DEP_WAIT and PTO_DEP_RETAIN", value);
        return true;
    case FAILURE_ALLOC_ARGS:
        APPEND("pto_alloc_tensors takes at least one new output and nothing else");
        return true;
    case FAILURE_TOO_MANY:
        APPEND("more than 2^32 tasks in one run; split it");
        return true;
    default:
        return false;
    }
}

static bool append_refusal(const struct failure *f, const struct callable *c,
                           struct pto_error *error)
{
    switch (f->kind) {
    case FAILURE_SCOPE_DEPTH:
        APPEND("scopes are nested deeper than %d", PTO_SCOPE_DEPTH_MAX);
        return true;
    case FAILURE_SCOPE_MODE:
        APPEND("a scope has the unknown mode %llu; use PTO_SCOPE_AUTO or PTO_SCOPE_MANUAL",
               (unsigned long long)f->value[0]);
        return true;
    case FAILURE_AUTO_IN_MANUAL:
        APPEND("an AUTO scope cannot be opened inside a MANUAL one; make the inner one MANUAL too");
        return true;
    case FAILURE_SCOPE_UNDERFLOW:
        APPEND("a scope was ended that was never begun; match pto_scope_begin and pto_scope_end");
        return true;
    case FAILURE_MEMORY:
        APPEND("the device's memory budget of %llu MiB is exhausted: %llu more bytes "
               "were needed at task %llu in scope %u (%llu tasks live); raise "
               "memory_max of the device, or end scopes earlier",
               (unsigned long long)f->value[0] >> 20, (unsigned long long)f->value[1],
               (unsigned long long)f->value[2], f->scope_depth, (unsigned long long)f->value[3]);
        return true;
    default:
        return append_argument(f, c, error) || append_task(f, c, error);
    }
}

/* ---- failures of an orchestration ---- */

static bool append_orchestration(const struct failure *f, struct pto_error *error)
{
    const uint64_t *value = f->value;

    switch (f->kind) {
    case FAILURE_SCOPES_OPEN:
        APPEND("the orchestration returned with %llu scopes open; end each scope that it "
               "begins",
               (unsigned long long)value[0]);
        return true;
    case FAILURE_GAVE_UP:
        APPEND("the orchestration gave up: %s", f->text);
        return true;
    case FAILURE_EXCEPTION:
        APPEND("the orchestration threw an exception: %s", f->text);
        return true;
    case FAILURE_EXITED:
        APPEND("the orchestration called pthread_exit, on a thread that is not its own; return "
               "instead");
        return true;
    case FAILURE_DATA_LATE:
        APPEND("task %llu, which uses the element, did not complete in %llu ms; if its "
               "kernel waits for the orchestration, pass the tensor as NO_DEP",
               (unsigned long long)value[0], (unsigned long long)value[1]);
        return true;
    case FAILURE_CANCELLED_EARLY:
        APPEND("the run was cancelled while its graph was built");
        return true;
    case FAILURE_CANCELLED:
        APPEND("the run was cancelled after %llu of %llu tasks", (unsigned long long)value[0],
               (unsigned long long)value[1]);
        return true;
    case FAILURE_NO_RECORDER:
        APPEND("there is no memory for the recorder; lower trace_records");
        return true;
    default:
        return false;
    }
}

/*
 * Describes a full ring. Ring sizes limit memory as in the reference, for code that relies on that.
 */
static void append_ring(const struct failure *f, struct pto_error *error)
{
    unsigned long long ring = f->value[0], needed = f->value[1], size = f->value[2];
    unsigned long long head = f->value[3];
    const char *why = f->kind == FAILURE_RING_HELD ? "an open scope holds the ring's oldest task"
                                                   : "no part of the ring was freed for 500 ms";

    switch (f->status) {
    case PTO_ESCOPE_DEADLOCK:
        APPEND("the scope has %llu tasks, and ring %llu has room for %llu; end "
               "scopes earlier, or raise ring_task_window",
               (unsigned long long)f->value[4], ring, size);
        break;
    case PTO_EWINDOW:
        APPEND("ring %llu has room for %llu tasks and no more: %s (task %llu); "
               "end scopes earlier, or raise ring_task_window",
               ring, size, why, head);
        break;
    case PTO_EHEAP:
        APPEND("ring %llu has no %llu bytes in its heap of %llu: %s (task "
               "%llu); end scopes earlier, or raise ring_heap",
               ring, needed, size, why, head);
        break;
    case PTO_EDEP_POOL:
        APPEND("the task needs %llu entries for predecessors, and ring %llu has "
               "%llu: %s; give it fewer predecessors, or raise ring_dep_pool",
               needed, ring, size, why);
        break;
    default:
        APPEND("%s: %llu are needed, and the reference has room for %llu (limits=reference)",
               pto_strerror(f->status), needed, size);
    }
}

/* ---- failures of kernels and stalls ---- */

/* Describes a write outside of a tensor, and when a guard detected it. */
static void append_overrun(const struct failure *f, const char *name, struct pto_error *error)
{
    uint64_t flags = f->value[3];
    const char *side = (flags & OVERRUN_BEFORE) != 0 ? "before the start" : "beyond the end";
    const char *most = (flags & OVERRUN_FAR) != 0 ? "at least" : "up to";

    if ((flags & OVERRUN_EARLIER) != 0)
        APPEND("%s %llu bytes %s of argument %d of task %llu (\"%s\"), an intermediate "
               "tensor of %llu bytes, were written before its kernel started, by a kernel "
               "whose task does not have this tensor; look for a pointer that was kept, or for a "
               "kernel that runs at the same time",
               most, (unsigned long long)f->value[0], side, f->argument,
               (unsigned long long)f->value[2], name, (unsigned long long)f->value[1]);
    else
        APPEND(
            "kernel \"%s\"%s wrote %s %llu bytes %s of argument %d of task %llu, an "
            "intermediate tensor of %llu bytes%s; check the size and the offset that it uses",
            name, (flags & OVERRUN_LANES) != 0 ? " or another lane" : "", most,
            (unsigned long long)f->value[0], side, f->argument, (unsigned long long)f->value[2],
            (unsigned long long)f->value[1],
            (flags & OVERRUN_UNSURE) != 0
                ? ", of which its task has another part, unless another task that ran at the same "
                  "time wrote there"
            : (flags & OVERRUN_CONCURRENT) != 0
                ? ", unless it was another task that has this tensor and ran at the same time"
                : "");
}

static void append_thrown(const struct failure *f, const char *name, struct pto_error *error)
{
    if (f->kind == FAILURE_THREW)
        APPEND("kernel \"%s\" threw an exception in block %llu of task %llu: %s; catch "
               "it inside the kernel",
               name, (unsigned long long)f->value[1], (unsigned long long)f->value[2], f->text);
    else
        APPEND("kernel \"%s\" called pthread_exit in block %llu of task %llu, on a "
               "thread that is not its own; return instead",
               name, (unsigned long long)f->value[1], (unsigned long long)f->value[2]);
}

static void append_kernel(const struct failure *f, const char *name, struct pto_error *error)
{
    switch (f->status) {
    case PTO_EARGS:
        APPEND("the predicate of task %llu, kernel \"%s\", cannot be read: there is no memory at "
               "%#llx; keep it allocated until the task is ready",
               (unsigned long long)f->value[2], name, (unsigned long long)f->value[0]);
        break;
    case PTO_ECOMPLETION:
        if (f->value[0] != 0) {
            APPEND("task %llu, kernel \"%s\", waits for a counter at %#llx, where "
                   "there is no memory; keep it allocated until the task has completed",
                   (unsigned long long)f->value[2], name, (unsigned long long)f->value[0]);
            break;
        }
        APPEND(
            "kernel \"%s\" registered an invalid condition: its address is 0 or not a multiple of "
            "4, or its type is not PTO_COMPLETION_COUNTER",
            name);
        break;
    case PTO_EWAIT_OVERFLOW:
        APPEND("kernel \"%s\" registered a condition too many: one invocation may have %d, and %d "
               "tasks may wait at a time",
               name, PTO_COMPLETIONS_MAX, PTO_DEFERRED_MAX);
        break;
    case PTO_EREGISTRATION:
        APPEND("the invocations of kernel \"%s\" registered more than %d conditions for one task",
               name, PTO_COMPLETIONS_MAX);
        break;
    case PTO_ESYSTEM:
        APPEND(
            "the system refuses to create threads for the blocks of kernel \"%s\" that must run at "
            "the "
            "same time; raise the limit of processes, or use fewer blocks",
            name);
        break;
    default:
        APPEND("kernel \"%s\" ended the run: %s", name, pto_strerror(f->status));
    }
}

/*
 * Describes a stall in one sentence, with the reference's class for this kind of stall (sub_class).
 */
static void append_stall(const struct chip_result *result, const struct callable *c,
                         struct pto_error *error)
{
    const struct failure *f = &result->failure;
    char where[180];
    unsigned long long ms = f->value[0], task = f->value[2];

    lines_describe(&result->trace.lines, where, sizeof(where));
    switch (f->value[1]) {
    case STALL_RUNS:
        APPEND(
            "no progress for %llu ms: kernel \"%s\" of task %llu does not return (sub_class=S1)%s; "
            "if it waits for another task, make sure that the other task is submitted and does not "
            "depend on it",
            ms, error_text_kernel_name(c, f->kernel), task, where);
        break;
    case STALL_DEFERRED:
        APPEND(
            "no progress for %llu ms: task %llu waits for a condition that never becomes true "
            "(sub_class=S4); make sure that a task which does not depend on it raises its counter "
            "far enough",
            ms, task);
        break;
    case STALL_QUEUED:
    case STALL_READY:
        APPEND("no progress for %llu ms: task %llu is ready, but gets no core (sub_class=S3)", ms,
               task);
        break;
    case STALL_WAITS:
        APPEND("no progress for %llu ms: task %llu waits for others, and none of them runs "
               "(sub_class=S4)",
               ms, task);
        break;
    default:
        APPEND("no progress for %llu ms: the graph is still being built (sub_class=S5)%s", ms,
               where);
    }
}

void error_text_time(uint64_t ns, char text[ERROR_TEXT_TIME])
{
    if (ns < 1000)
        snprintf(text, ERROR_TEXT_TIME, "%llu ns", (unsigned long long)ns);
    else if (ns < 1000000)
        snprintf(text, ERROR_TEXT_TIME, "%g us", (double)ns / 1e3);
    else if (ns < 1000000000)
        snprintf(text, ERROR_TEXT_TIME, "%g ms", (double)ns / 1e6);
    else
        snprintf(text, ERROR_TEXT_TIME, "%g s", (double)ns / 1e9);
}

/*
 * Describes the state of a run at its deadline. Tasks that are ready or waiting are left out,
 * because they do not explain the delay.
 */
static void append_late(const struct chip_result *result, const struct callable *c,
                        struct pto_error *error)
{
    const struct failure *f = &result->failure;
    bool is_from_launch = f->kind == FAILURE_LATE_SINCE_LAUNCH;
    unsigned long long task = f->value[2];
    char time[ERROR_TEXT_TIME], where[PTO_ERROR_TEXT_MAX / 2] = "", line[180] = "";

    error_text_time(f->value[0], time);
    lines_describe(&result->trace.lines, line, sizeof(line));
    if (f->value[1] == STALL_RUNS)
        snprintf(where, sizeof(where), "kernel \"%s\" of task %llu is still running%s",
                 error_text_kernel_name(c, f->kernel), task, line);
    else if (f->value[1] == STALL_DEFERRED)
        snprintf(where, sizeof(where), "task %llu waits for a condition", task);
    else if (f->value[1] == STALL_QUEUED)
        snprintf(where, sizeof(where), "task %llu waits for cores that are free together", task);
    else if (f->value[1] == STALL_BUILDS)
        snprintf(where, sizeof(where), "the graph is still being built%s", line);
    APPEND("the run has not ended %s%s%s%s%s (kernels run: %llu, tasks submitted: %llu); raise the "
           "time-out, or look in a timeline for where the time went",
           is_from_launch ? "" : "after ", time, is_from_launch ? " after its launch" : "",
           where[0] != '\0' ? ": " : "", where, (unsigned long long)f->value[3],
           (unsigned long long)f->value[4]);
}

/* ---- launches that differ from the build of the graph ---- */

static bool append_launch(const struct failure *f, struct pto_error *error)
{
    const uint64_t *value = f->value;

    switch (f->kind) {
    case FAILURE_LAUNCH_COUNTS:
        APPEND("the graph was built with %llu tensors and %llu scalars; the launch has "
               "%llu and %llu",
               (unsigned long long)value[0], (unsigned long long)value[1],
               (unsigned long long)value[2], (unsigned long long)value[3]);
        return true;
    case FAILURE_LAUNCH_SHAPE:
        APPEND("tensor %llu of the entry has another shape, type or size than when the graph "
               "was built, or its address is 0 in one of them only; build a graph for each",
               (unsigned long long)value[0]);
        return true;
    case FAILURE_LAUNCH_SCALAR:
        APPEND(
            "scalar %llu of the entry was %llu when the graph was built and is "
            "%llu now, but %s; or build another graph",
            (unsigned long long)value[0], (unsigned long long)value[1],
            (unsigned long long)value[2],
            value[3] != 0
                ? "no task gets it: let the orchestration pass it on with pto_pass_scalar"
                : "it was not declared to vary: if the orchestration only passes it on, with "
                  "pto_pass_scalar, declare it with pto_run_options_vary when the graph is built");
        return true;
    case FAILURE_VARYING_ABSENT:
        APPEND("scalar %llu was declared to vary with pto_run_options_vary, but the entry has "
               "%llu scalars",
               (unsigned long long)value[0], (unsigned long long)value[1]);
        return true;
    case FAILURE_VARYING_READ:
        APPEND("the orchestration reads scalar %llu of the entry with pto_scalar, but it was "
               "declared to vary; pass it on with pto_pass_scalar, or do not declare it",
               (unsigned long long)value[0]);
        return true;
    case FAILURE_LAUNCH_ALIAS:
        APPEND("tensors %llu and %llu of the entry %s; build another graph for that",
               (unsigned long long)value[0], (unsigned long long)value[1],
               value[2] != 0 ? "do not overlap as they did when the graph was built"
                             : "overlap, and did not when the graph was built");
        return true;
    case FAILURE_LAUNCH_OUTSIDE:
        APPEND(
            "tensor %llu of the entry overlaps, or did when the graph was built, memory "
            "that the orchestration names by itself; also pass this memory through the entry, or "
            "build another graph",
            (unsigned long long)value[0]);
        return true;
    case FAILURE_LAUNCH_DATA:
        error->argument = -1;
        APPEND("when the graph was built, the orchestration read %#llx at byte %llu of tensor %d "
               "of the entry, and it would read %#llx now; build another graph",
               (unsigned long long)value[0], (unsigned long long)value[1], f->argument,
               (unsigned long long)value[2]);
        return true;
    case FAILURE_LAUNCH_MEMORY:
        APPEND("the graph takes %llu bytes, more than the device's memory budget of %llu MiB has "
               "left; raise memory_max of the device",
               (unsigned long long)value[0], (unsigned long long)value[1] >> 20);
        return true;
    default:
        return false;
    }
}

/* ---- a chip whose process has ended ---- */

/* Writes a text that continues "the process of the device": how the process ended. */
static void describe_end(const struct failure *f, char *text, size_t size)
{
    int number = (int)f->value[1];

    switch (f->value[0]) {
    case PEER_EXITED:
        snprintf(text, size, "ended with exit code %d", number);
        break;
    case PEER_SIGNALLED:
        snprintf(text, size, "was ended by signal %d (%s)", number, strsignal(number));
        break;
    case PEER_SILENT:
        snprintf(text, size, "did not answer for %d s and was killed", number);
        break;
    case PEER_STOPPED:
        snprintf(text, size, "was stopped when the run's time-out expired, and was killed");
        break;
    case PEER_BROKEN:
        snprintf(text, size, "sent an invalid reply and was killed");
        break;
    default:
        snprintf(text, size, "has ended");
    }
}

static void append_peer(const struct chip_result *result, const struct callable *c,
                        struct pto_error *error)
{
    const struct failure *f = &result->failure;
    const char *name = error_text_kernel_name(c, f->kernel);
    unsigned long long task = f->value[3], block = f->value[4];
    char end[100], where[180];

    describe_end(f, end, sizeof(end));
    lines_describe(&result->trace.lines, where, sizeof(where));
    switch (f->kernel >= 0 || f->value[2] == SUSPECT_ORCHESTRATION ? f->value[2] : SUSPECT_NONE) {
    case SUSPECT_CAUGHT:
        APPEND(
            "kernel \"%s\" in block %llu of task %llu ended the process of the "
            "device, which %s%s; nothing else is affected: close the device and open another one",
            name, block, task, end, where);
        break;
    case SUSPECT_RUNNING:
        APPEND("the process of the device %s while kernel \"%s\" ran block %llu of task "
               "%llu; nothing else is affected: close the device and open another one",
               end, name, block, task);
        break;
    case SUSPECT_LAST:
        APPEND("the process of the device %s outside of kernels; a kernel that ran last may have "
               "written outside of its memory, such as kernel \"%s\" in block %llu of task "
               "%llu; close the device and open another one",
               end, name, block, task);
        break;
    case SUSPECT_ORCHESTRATION:
        APPEND("the process of the device %s, by the orchestration%s%s; nothing else is affected: "
               "close "
               "the device and open another one",
               end, f->site.file != NULL ? ", after this submit" : "", where);
        break;
    default:
        APPEND("the process of the device %s, and did not report which kernels were running; close "
               "the device "
               "and open another one",
               end);
    }
}

const char *error_text_loss(const struct chip_result *result)
{
    return result->failure.kind == FAILURE_PEER   ? "the device is lost: its process has ended"
           : result->failure.kind == FAILURE_CARD ? "the device is lost: the card failed"
           : result->is_builder_lost && result->is_kernel_lost
               ? "the device is lost: a kernel never returned, and an orchestration did not return "
                 "after its run had ended"
           : result->is_builder_lost
               ? "the device is lost: an orchestration did not return after its run had ended"
               : "the device is lost: a kernel never returned";
}
