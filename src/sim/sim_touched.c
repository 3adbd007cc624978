/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that report their accesses: the state that each thread keeps for them, and how a refused
 * access fails the run.
 */
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "sim/sim.h"
#include "sim/touched.h"

enum {
    /* maximum number of parts of an argument in a record; with more, all of it counts as used */
    PARTS_MAX = 128,
    /*
     * maximum memory of a task for one bit per element of its arguments; if it needs more, all
     * elements count as used
     */
    KEPT_BITS_BYTES_MAX = 32 << 20,
    REPORT_NS = 2000000000 /* longest time that collecting stack frames takes on a busy machine */
};

static void wait_for_report(struct sim *m);
static bool keep_touches(struct thread *th);

/* The state of a thread, with room to describe the elements that an invocation used. */
struct touched_state {
    struct touched touched; /* first member: what th->touched points to */
    struct touched_part part[PARTS_MAX];
    struct pto_tensor tensor[PARTS_MAX];
};

struct frames {
    uintptr_t *frame;
    uint32_t count;
    uintptr_t from; /* return address of the reporting call: the first frame to keep */
};

static _Unwind_Reason_Code touched_take_frame(struct _Unwind_Context *at, void *arg)
{
    struct frames *f = arg;
    uintptr_t pc = (uintptr_t)_Unwind_GetIP(at);

    if (f->count == 0 && pc != f->from)
        return _URC_NO_REASON;
    /* moves the first return address back into the call instruction */
    f->frame[f->count] = f->count == 0 ? pc - 1 : pc;
    f->count++;
    return f->count < CRASH_FRAMES_MAX ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/*
 * Fails the run for an access that is not allowed. Only the first one of all threads is reported.
 */
static void touched_found(void *context, const struct touched_finding *finding)
{
    struct thread *th = context;
    struct sim *m = th->sim;
    struct slot *s = th->core.slot;
    uint32_t none = 0, kernel = sim_kernel_of(th);
    struct frames frames = { .frame = th->crash.frame, .from = (uintptr_t)finding->pc };
    struct failure why = { .status = PTO_EACCESS,
                           .kind = FAILURE_TOUCHED,
                           .argument = finding->argument,
                           .kernel = (int32_t)kernel };

    if (!a32_cas_relaxed(&m->finding, &none, FINDING_TRACED)) {
        wait_for_report(m);
        return;
    }
    (void)_Unwind_Backtrace(touched_take_frame, &frames);
    if (frames.count == 0)
        frames.frame[frames.count++] = frames.from - 1;
    th->crash.frame_count = frames.count;
    th->crash.overflow_bytes = 0;
    sim_keep_crash(m, th, s, kernel);
    why.value[0] = finding->addr;
    why.value[1] = finding->bytes;
    why.value[3] = touched_pack(finding->kind, finding->is_write, finding->offset);
    sched_fail_argument(&m->sched, s, &why);
    /* relaxed: the value only delays other threads, and publishes no data */
    a32_store_relaxed(&m->finding, FINDING_REPORTED);
}

/*
 * Delays a second thread that is about to make an invalid access until the first finding is
 * reported. Its access could damage a guard, which would fail the run earlier and without a source
 * line. The wait ends if the first thread crashes while it collects frames.
 */
static void wait_for_report(struct sim *m)
{
    uint64_t deadline_ns = os_now_ns() + REPORT_NS;

    while (a32_load_relaxed(&m->finding) == FINDING_TRACED && os_now_ns() < deadline_ns)
        os_yield();
}

static bool touched_is_memory(void *context, uint64_t addr)
{
    struct thread *th = context;

    return sim_is_memory(th->sim, addr);
}

/*
 * How the accesses of an invocation are checked. Which elements it uses is kept only in runs that
 * are recorded with arguments.
 */
static struct touched_mode touched_mode_of(const struct sim *m, const struct slot *s,
                                           const struct pto_tensor *tensor)
{
    struct touched_mode mode = {
        .is_alone = (s->flags & SLOT_IS_TEAM) == 0 && s->block_count <= 1,
        .keeps = m->trace != NULL && m->run.options->trace == PTO_TRACE_ARGUMENTS,
    };

    mode.keeps = mode.keeps && touched_bits_bytes(s, tensor, mode) <= KEPT_BITS_BYTES_MAX;
    return mode;
}

/*
 * Returns the thread's state, with room for the bits of this task. NULL: out of memory; then
 * nothing is checked.
 */
static struct touched *touched_of(struct thread *th, const struct slot *s,
                                  const struct pto_tensor *tensor, struct touched_mode mode)
{
    struct touched *t = th->touched;
    uint64_t bytes = touched_bits_bytes(s, tensor, mode);
    uint64_t *bits;

    if (t == NULL && (t = th->touched = calloc(1, sizeof(struct touched_state))) == NULL)
        return NULL;
    t->is_memory = touched_is_memory;
    t->found = touched_found;
    t->signal = sim_note_signal;
    t->context = th;
    if (bytes > t->bits_bytes && (bits = realloc(t->bits, bytes)) != NULL) {
        t->bits = bits;
        t->bits_bytes = bytes;
    }
    return t;
}

/* How the kernels of one task used its arguments. */
struct task_use {
    uint32_t idle;  /* bit k: no kernel of the task used argument k, which it declares */
    uint32_t after; /* bit k: a kernel of the task used argument k, whose tag is PTO_AFTER */
    uint32_t kernel;
    int32_t line;
    /* number of a kernel of the task that does not report its accesses, if is_known is false */
    uint32_t unchecked;
    bool is_known; /* each kernel of the task reports its accesses */
    bool is_kept;  /* the elements that its kernels used are in the run's record */
};

/*
 * Returns the struct task_use of a task, and makes room for it. Called under the lock. NULL: out of
 * memory; then nothing is known of the task.
 */
static struct task_use *touched_use_of(struct sim *m, uint32_t seq)
{
    uint32_t max = m->use_max != 0 ? m->use_max : 256;
    struct task_use *more;

    while (max <= seq)
        max *= 2;
    if (max != m->use_max) {
        more = realloc(m->use, max * sizeof(*more));
        if (more == NULL)
            return NULL;
        memset(more + m->use_max, 0, (max - m->use_max) * sizeof(*more));
        m->use = more;
        m->use_max = max;
    }
    return &m->use[seq];
}

void sim_note_use(struct thread *th, const struct pto_tensor *tensor, bool is_known)
{
    const struct slot *s = th->core.slot;
    struct sim *m = th->sim;
    uint32_t used = is_known ? touched_used(th->touched) : 0, after = 0, declared = 0;
    struct task_use *use;

    for (uint32_t i = 0; i < s->tensor_count; i++)
        if (pto_tag_use(tensor[i].tag) == 0)
            after |= 1u << i;
        else if (tensor[i].extent != 0)
            declared |= 1u << i;
    pthread_mutex_lock(&m->memory_lock);
    use = touched_use_of(m, s->seq);
    if (use != NULL && use->line == 0) { /* this is the first invocation of the task */
        use->kernel = s->kernel[s->kernel[0] == SLOT_NO_KERNEL];
        use->line = s->site != NULL ? s->site->line : -1;
        use->idle = declared;
        use->is_known = use->is_kept = true;
    }
    if (use != NULL) {
        use->idle &= ~used;
        use->after |= after & used;
        if (!is_known && use->is_known)
            use->unchecked = sim_kernel_of(th);
        use->is_known = use->is_known && is_known;
        use->is_kept = use->is_known && use->is_kept && keep_touches(th);
    }
    if (is_known && th->touched->keeps)
        sim_signals_defer(th);
    pthread_mutex_unlock(&m->memory_lock);
}

/* ---- the elements that an invocation used ---- */

/* Reserves bytes after the records of elements so far; memory_lock is held. */
static char *touched_take_record(void *context, uint64_t bytes)
{
    struct touched_records *records = context;

    if (records->max - records->bytes < bytes) {
        uint64_t max = 2 * records->max + bytes + 65536;
        char *more = realloc(records->at, max);

        if (more == NULL)
            return NULL;
        records->at = more;
        records->max = max;
    }
    records->bytes += bytes;
    return records->at + (records->bytes - bytes);
}

void sim_record_touch(struct sim *m, const struct record_touch *touch)
{
    record_touched(&(struct record_sink){ touched_take_record, &m->touches }, touch, NULL, 0);
}

static void keep_parts(struct thread *th, int32_t argument, bool is_write,
                       const struct pto_tensor *part, uint32_t parts)
{
    const struct record_touch touch = {
        .index = th->core.slot->seq - 1,
        .invocation = (uint32_t)th->core.local.block_index * SLOT_LANES + sim_lane_of(th),
        .argument = argument,
        .is_write = is_write,
        .what = th->touched->has_signals ? CHIP_TOUCH_SIGNALS : CHIP_TOUCH_KNOWN,
        .segment = th->touched->segment,
    };

    record_touched(&(struct record_sink){ touched_take_record, &th->sim->touches }, &touch, part,
                   parts);
}

/* Removes those elements from the list of read ones that were also written. */
static void leave_written_out(const struct touched_argument *a)
{
    uint64_t words = (a->tensor->extent + 63) / 64;

    for (uint64_t i = 0; a->read != NULL && a->written != NULL && i < words; i++)
        a->read[i] &= ~a->written[i];
}

/*
 * Records the elements of an argument whose bit is set. False: they are too scattered for a record.
 */
static bool keep_argument(struct thread *th, const struct touched_argument *a, uint32_t index,
                          bool is_write)
{
    const uint64_t *bits = is_write ? a->written : a->read;
    struct touched_state *state = (struct touched_state *)(void *)th->touched;
    uint32_t count =
        bits != NULL ? touched_parts(bits, a->tensor->extent, state->part, PARTS_MAX) : 0;

    for (uint32_t i = 0; i < count && count <= PARTS_MAX; i++) {
        const struct touched_part *part = &state->part[i];
        struct pto_tensor *x = &state->tensor[i];

        *x = *a->tensor;
        x->start += part->start;
        x->ndims = part->ndims;
        x->is_contiguous = x->ndims == 1;
        x->extent = 1;
        for (uint32_t d = 0; d < x->ndims; d++) {
            uint32_t from = x->ndims - 1 - d;

            x->shapes[d] = part->count[from];
            x->strides[d] = part->stride[from];
            x->extent += (x->shapes[d] - 1ull) * x->strides[d];
        }
    }
    if (count != 0 && count <= PARTS_MAX)
        keep_parts(th, (int32_t)index, is_write, state->tensor, count);
    return count <= PARTS_MAX;
}

/*
 * Records bytes that the kernel used without permission. Bytes inside of an argument's buffer count
 * as part of that argument.
 */
static void keep_stray_bytes(struct thread *th, const struct touched_stray *stray)
{
    const struct touched *t = th->touched;
    const struct pto_tensor *x = stray->argument >= 0 ? t->argument[stray->argument].tensor : NULL;
    uint32_t bytes = (uint32_t)(stray->end - stray->begin);
    bool is_inside = x != NULL && stray->begin >= x->addr && stray->end <= x->addr + x->size;
    struct pto_tensor part =
        pto_tensor_external((void *)(uintptr_t)stray->begin, PTO_DIMS(bytes), 1, PTO_UINT8);

    if (is_inside) {
        part.addr = x->addr;
        part.size = x->size;
        part.owner = x->owner;
        part.version = x->version;
        part.start = stray->begin - x->addr;
    }
    keep_parts(th, is_inside ? stray->argument : -1, stray->is_write, &part, 1);
}

bool sim_keep_segment(struct thread *th)
{
    const struct touched *t = th->touched;
    bool is_whole = t->keeps && t->stray_count <= TOUCHED_STRAYS_MAX;

    for (uint32_t i = 0; i < t->count && is_whole; i++) {
        leave_written_out(&t->argument[i]);
        is_whole = keep_argument(th, &t->argument[i], i, false) &&
                   keep_argument(th, &t->argument[i], i, true);
    }
    for (uint32_t i = 0; i < t->stray_count && is_whole; i++)
        keep_stray_bytes(th, &t->stray[i]);
    return is_whole;
}

/*
 * Records the elements that the invocation used, under memory_lock. False: they are not known
 * completely.
 */
static bool keep_touches(struct thread *th)
{
    struct touched *t = th->touched;

    if (!t->keeps || t->is_incomplete)
        return false;
    /* an invocation that does not signal needs a number only if its task has others */
    if (t->segment == 0 &&
        ((th->core.slot->flags & SLOT_IS_TEAM) != 0 || th->core.local.block_count > 1))
        t->segment = ++th->sim->signals.segments;
    for (uint32_t i = 0; i < TOUCHED_SIGNALS; i++) /* nobody was seen to signal there */
        t->has_signals = t->has_signals || (t->seen[i].addr != 0 && t->seen[i].latest == 0);
    keep_parts(th, -1, false, NULL, 0);
    return sim_keep_segment(th);
}

void sim_record_touches(struct sim *m)
{
    const struct record_sink sink = sim_record_sink(m);
    struct touched_records *records = &m->touches;

    /* threads of a lost run may still add records, so the memory is not freed */
    pthread_mutex_lock(&m->memory_lock);
    for (uint64_t at = 0, bytes; at < records->bytes; at += bytes) {
        const struct chip_task *task = (const void *)(records->at + at);
        char *to;

        bytes = sizeof(*task) + task->tensor_count * sizeof(struct chip_argument);
        /* the order of signals counts also if it is not known what the task used */
        if (task->kernel[1] < CHIP_TOUCH_STEP &&
            (task->index + 1 >= m->use_max || !m->use[task->index + 1].is_kept))
            continue;
        to = sink.take(sink.context, bytes);
        if (to != NULL)
            memcpy(to, task, bytes);
    }
    records->bytes = 0;
    sim_forget_signals(m); /* the counters that tasks wait for may be freed from now on */
    pthread_mutex_unlock(&m->memory_lock);
}

/* ---- notes on arguments ---- */

static void touched_add_note(struct pto_run_report *report, const struct pto_argument_note *note)
{
    uint64_t i = 0;

    for (; i < report->note_count && i < PTO_ARGUMENT_NOTES_MAX; i++)
        if (report->note[i].kind == note->kind && report->note[i].kernel == note->kernel &&
            report->note[i].argument == note->argument && report->note[i].line == note->line) {
            report->note[i].tasks++;
            return;
        }
    if (i < PTO_ARGUMENT_NOTES_MAX)
        report->note[i] = *note;
    report->note_count++;
}

void sim_report_uses(struct sim *m, struct pto_run_report *report)
{
    report->note_count = 0;
    for (uint32_t seq = 0; seq < m->use_max && m->orch.status >= 0; seq++) {
        const struct task_use *use = &m->use[seq];

        /* notes on unchecked kernels have no line, so that there is one note per kernel */
        if (use->line != 0 && !use->is_known)
            touched_add_note(report, &(struct pto_argument_note){ .kind = PTO_ARGUMENT_UNCHECKED,
                                                                  .kernel = use->unchecked,
                                                                  .tasks = 1,
                                                                  .first = seq - 1 });
        for (uint32_t i = 0; i < PTO_TASK_TENSORS_MAX && use->is_known; i++)
            if (((use->idle | use->after) >> i & 1) != 0)
                touched_add_note(report, &(struct pto_argument_note){
                                             .kind = (use->idle >> i & 1) != 0 ? PTO_ARGUMENT_IDLE
                                                                               : PTO_ARGUMENT_AFTER,
                                             .kernel = use->kernel,
                                             .argument = i,
                                             .line = use->line > 0 ? use->line : 0,
                                             .tasks = 1,
                                             .first = seq - 1 });
    }
    sim_forget_uses(m);
}

void sim_forget_uses(struct sim *m)
{
    /* free the memory only if some was allocated, which is rare */
    if (m->use == NULL && m->touches.at == NULL)
        return;
    free(m->use);
    m->use = NULL;
    m->use_max = 0;
    free(m->touches.at);
    m->touches = (struct touched_records){ 0 };
}

void sim_call_touching(struct thread *th, const struct pto_access_link *link, pto_kernel_fn fn,
                       int64_t *args, const struct pto_tensor *tensor)
{
    const struct slot *s = th->core.slot;
    struct touched_mode mode = touched_mode_of(th->sim, s, tensor);
    struct touched *t = touched_of(th, s, tensor, mode);

    if (t == NULL) {
        fn(args);
        return;
    }
    touched_begin(t, s, tensor, mode);
    if (mode.keeps)
        sim_signals_begin(th->sim);
    link->set(&t->access);
    fn(args);
    link->set(NULL);
    sim_note_use(th, tensor, true);
}

void sim_free_touched(struct thread *th)
{
    if (th->touched != NULL)
        free(th->touched->bits);
    free(th->touched);
}
