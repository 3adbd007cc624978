/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler program. It has one function, which the host launches with a struct board_call. The
 * function returns 0, or 1 if the call itself is invalid, but no other numbers, which the vendor's
 * scheduler would interpret. The result of the call is in the answer on the board.
 */
#include "cann/device/scheduler.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aicpu.h"
#include "base/object.h"
#include "cann/device/card_files.h"
#include "cann/device/card_kernels.h"
#include "cann/device/message.h"
#include "orch/record.h"

__attribute__((visibility("default"))) uint32_t pto_scheduler(void *args);

/* ---- answers to the host ---- */

static int scheduler_error_set(struct board *board, int status, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    vsnprintf(board->answer.text, sizeof(board->answer.text), format, values);
    va_end(values);
    return status;
}

/* ---- opening and closing ---- */

static void set_sizes(uint32_t size[BOARD_SIZES])
{
    const uint32_t all[BOARD_SIZES] = { sizeof(struct board),      sizeof(struct run_message),
                                        sizeof(struct run_ended),  sizeof(struct pto_tensor),
                                        sizeof(struct board_load), sizeof(struct board_run),
                                        sizeof(struct card_graph) };

    memcpy(size, all, sizeof(all));
}

static int open_machine(const struct board_call *call, struct board *board)
{
    const struct board_open *open = (const struct board_open *)(uintptr_t)call->message;
    uint32_t size[BOARD_SIZES];
    struct machine *m;
    int status;

    set_sizes(size);
    if (call->message_bytes < sizeof(*open) || memcmp(size, open->size, sizeof(size)) != 0)
        return scheduler_error_set(board, PTO_ENOSUP,
                                   "the scheduler on the device is not of the same build as the "
                                   "library; build both together");
    if (open->clusters == 0 || open->clusters > BOARD_CORES / 3)
        return scheduler_error_set(board, PTO_EINVAL,
                                   "the cluster count %u is out of range (1 to %u)", open->clusters,
                                   (uint32_t)BOARD_CORES / 3);
    m = aligned_alloc(128, (sizeof(*m) + 127) / 128 * 128);
    if (m == NULL)
        return scheduler_error_set(board, PTO_ENOMEM, "the control processor has no memory");
    memset(m, 0, sizeof(*m));
    m->worker = aligned_alloc(128, (sizeof(*m->worker) + 127) / 128 * 128);
    if (m->worker == NULL) {
        free(m);
        return scheduler_error_set(board, PTO_ENOMEM, "the control processor has no memory");
    }
    m->board = board;
    m->clusters = open->clusters;
    m->core_count = PTO_CLUSTER_CORES * open->clusters;
    m->orch.graph = &m->graph;
    m->orch.rings = &m->ledger;
    m->orch.sched = &m->sched;
    m->orch.machine = m;
    m->orch.budget = &m->budget;
    m->orch.clusters = open->clusters;
    orch_open(&m->orch);
    sched_init(&m->sched, m);
    m->sched.aic_count = open->clusters;
    seats_init(&m->seats, open->clusters);
    sched_add_worker(&m->sched, m->worker, &m->graph);
    core_init(&m->builder_core, m);
    m->worker->core = &m->builder_core;
    status = port_set_memory(m, open);
    if (status < 0) {
        free(m->worker);
        free(m);
        return scheduler_error_set(board, status, "%llu bytes for the engine are too few",
                                   (unsigned long long)open->engine_bytes);
    }
    board->answer.value = (uint64_t)(uintptr_t)m;
    return PTO_OK;
}

static int close_machine(struct machine *m)
{
    free(m->worker);
    free(m);
    return PTO_OK;
}

/* ---- loading callables ---- */

/* Prints a log line of an orchestration that uses the reference's interface. */
static void log_line(int level, const char *function, const char *format, va_list values)
{
    (void)level;
    fprintf(stderr, "pto: %s: ", function);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
}

/*
 * Loads the object of an orchestration. It is written to a file with a unique name, because the
 * loader takes files with equal names for one object.
 */
static void *scheduler_load_object(struct board *board, const char *object, uint64_t bytes,
                                   uint64_t number, const char *name)
{
    const char *own = card_file_own_name();
    char path[CARD_FILE_PATH], file[256];
    void *handle = NULL;
    int error = ENOENT;

    snprintf(file, sizeof(file), ".%.100s.%ld.%llu", own != NULL ? own : "", (long)getpid(),
             (unsigned long long)number);
    for (int i = 0; i < CARD_FOLDERS && error != 0; i++)
        if (card_file_path(path, (enum card_folder)i, file) == 0)
            error = card_file_write(path, object, bytes, 0700);
    if (error != 0)
        (void)scheduler_error_set(board, PTO_ELOAD,
                                  "the orchestration of \"%.80s\" cannot be written: %s", name,
                                  strerror(error));
    else
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (error == 0 && handle == NULL)
        (void)scheduler_error_set(board, PTO_ELOAD,
                                  "the orchestration of \"%.60s\" cannot be loaded: %.120s", name,
                                  dlerror());
    (void)unlink(path); /* removes the name only: the loaded object stays mapped */
    return handle;
}

typedef pto_orch_fn (*bind_fn)(void *entry, void *config,
                               void (*log)(int level, const char *function, const char *format,
                                           va_list values));

static int scheduler_find_entry(struct board *board, struct scheduler_code *code, const char *entry,
                                const char *name)
{
    void *function = dlsym(code->object, entry);
    void *symbol = dlsym(code->object, OBJECT_SOURCE_SYMBOL);
    bind_fn bind;

    if (function == NULL)
        return scheduler_error_set(
            board, PTO_ELOAD, "the orchestration of \"%.80s\" has no function %.64s; export it",
            name, entry);
    if (dlsym(code->object, OBJECT_OWN_SYMBOL) != NULL)
        return scheduler_error_set(
            board, PTO_ENOSUP,
            "the orchestration of \"%.80s\" is a binary for the reference's runtime, which "
            "real chips do not run yet; compile it with include/simpler",
            name);
    *(void **)&code->orchestration = function;
    if (symbol != NULL) {
        *(void **)&bind = symbol;
        code->orchestration =
            bind(function, dlsym(code->object, "aicpu_orchestration_config"), log_line);
        code->is_simpler = true;
    }
    return PTO_OK;
}

static int unload_code(struct scheduler_code *code)
{
    if (code->object != NULL)
        dlclose(code->object);
    free(code);
    return PTO_OK;
}

static int scheduler_load_code(const struct board_call *call, struct board *board)
{
    const struct board_load *load = (const struct board_load *)(uintptr_t)call->message;
    uint64_t kernel_bytes =
        load->kernel_count * sizeof(struct board_kernel) + load->declared_count * sizeof(uint32_t);
    const char *entry = (const char *)(load + 1) + kernel_bytes;
    const char *name = entry + load->entry_bytes;
    struct scheduler_code *code = calloc(1, sizeof(*code) + board_kernel_room(load));
    int status = PTO_OK;

    if (code == NULL)
        return scheduler_error_set(board, PTO_ENOMEM, "the control processor has no memory");
    code->kernel_count = load->kernel_count;
    board_copy_kernels(load, code->kernel);
    if (load->object_bytes != 0) {
        code->object = scheduler_load_object(board, name + load->name_bytes, load->object_bytes,
                                             (uint64_t)(uintptr_t)code, name);
        status = code->object != NULL ? scheduler_find_entry(board, code, entry, name) : PTO_ELOAD;
    }
    if (status < 0) {
        (void)unload_code(code);
        return status;
    }
    board->answer.value = (uint64_t)(uintptr_t)code;
    return PTO_OK;
}

/* ---- building and launching graphs ---- */

static void scheduler_build(struct machine *m)
{
    m->is_building = true;
    /* the thread's address is only compared, never dereferenced */
    aptr_store_relaxed(&m->orch.builder, __builtin_thread_pointer());
    if (setjmp(m->back) == 0)
        orch_build(&m->orch);
    else
        m->is_builder_gone = true;
    aptr_store_relaxed(&m->orch.builder, NULL);
    m->is_building = false;
}

/* Returns how many bytes the outputs of a kept graph take; the graph follows them in memory. */
static uint64_t outputs_bytes(const struct built_graph *b)
{
    return (b->image.heap_bytes + GRAPH_OUTPUT_ALIGN - 1) / GRAPH_OUTPUT_ALIGN * GRAPH_OUTPUT_ALIGN;
}

/*
 * Ends a run that has built a graph to be kept: none of its tasks run, and the host gets the size
 * of the graph.
 */
static void end_building(struct machine *m, struct board *board)
{
    sched_discard(m->worker);
    if (m->orch.status < 0 || m->is_builder_gone)
        return;
    m->building_bytes = CARD_GRAPH_HEAD + built_graph_measure(&m->building, &m->orch);
    board->answer.value = outputs_bytes(&m->building) + m->building_bytes;
}

/*
 * Copies the built graph to memory that the host has allocated. The engine's state is still that of
 * the build, because no other run was executed since.
 */
static int keep_graph(struct machine *m, uint64_t memory, struct board *board)
{
    struct built_graph *b = &m->building;
    struct card_graph *graph = (struct card_graph *)(uintptr_t)(memory + outputs_bytes(b));
    uint64_t bytes = m->building_bytes;

    if (bytes == 0)
        return scheduler_error_set(board, PTO_EINVAL, "there is no graph to be kept");
    m->building_bytes = 0;
    if (b->has_lost_fact)
        return scheduler_error_set(board, PTO_ENOMEM,
                                   "the control processor has no memory for what the graph uses");
    built_graph_fill(b, &m->orch, (char *)graph + CARD_GRAPH_HEAD, memory);
    *graph = (struct card_graph){ .built = *b, .bytes = bytes };
    board->answer.value = (uint64_t)(uintptr_t)graph;
    return PTO_OK;
}

/*
 * Drops the graph's lines from this cache: they would later overwrite data of the memory's next
 * owner.
 */
static int drop_graph(const struct card_graph *graph)
{
    aicpu_publish(graph, graph->bytes);
    return PTO_OK;
}

/* Takes over a graph that the host has built. Everything in it is validated before it is used. */
static int take_graph(struct machine *m, struct card_graph *graph, uint64_t bytes,
                      const struct scheduler_code *code)
{
    const struct image_limits limits = { .kernels = code->kernel,
                                         .kernel_count = code->kernel_count,
                                         .clusters = m->clusters };
    const char *wrong = "its length differs from its header";

    aicpu_fetch(graph, bytes);
    if (bytes > CARD_GRAPH_HEAD && graph->bytes == bytes)
        wrong = built_graph_take(&graph->built, (char *)graph + CARD_GRAPH_HEAD,
                                 bytes - CARD_GRAPH_HEAD, limits);
    if (wrong == NULL)
        return PTO_OK;
    aicpu_publish(graph, bytes);
    return scheduler_error_set(m->board, PTO_EFORMAT,
                               "the graph that the host has built is invalid: %s", wrong);
}

static void scheduler_run_to_end(struct machine *m)
{
    if (m->launched != NULL)
        sched_launch(m->worker, &m->launched->built.image, false);
    sharing_builder_is_done(&m->orch.sharing, m->worker);
    while (m->graph.live != 0) {
        (void)port_turn(m);
        if (port_is_given_up(m)) {
            m->is_lost = true;
            orch_describe_running(&m->orch);
            return;
        }
    }
}

/* ---- recording a run ---- */

static void scheduler_add_edge(void *context, uint32_t before, uint32_t after)
{
    struct machine *m = context;

    if (m->record->edge_count == m->room.edge_max)
        m->record->edges_lost++;
    else
        m->edge[m->record->edge_count++] = (struct board_edge){ before, after };
}

static void scheduler_add_scope(void *context, const struct orch_scope *scope)
{
    struct machine *m = context;

    if (m->record->scope_count == m->room.scope_max)
        m->record->scopes_lost++;
    else
        m->scope[m->record->scope_count++] = record_scope(scope);
}

static char *scheduler_take_record(void *context, uint64_t bytes)
{
    struct machine *m = context;

    if (bytes > m->room.task_bytes_max - m->record->task_bytes) {
        m->record->task_records_lost++;
        return NULL;
    }
    m->record->task_bytes += bytes;
    return m->task_records + (m->record->task_bytes - bytes);
}

static void scheduler_add_task(void *context, const struct orch_submitted *submit)
{
    record_task(&(struct record_sink){ scheduler_take_record, context }, submit);
}

static void scheduler_add_element(void *context, const struct orch_element *element)
{
    record_element(&(struct record_sink){ scheduler_take_record, context }, element);
}

static void scheduler_add_launched(void *context, const struct built_graph *graph)
{
    record_launched(&(struct record_sink){ scheduler_take_record, context }, graph);
}

static struct dump_mark *scheduler_mark_of(void *context, uint64_t index)
{
    struct machine *m = context;

    if (index < m->room.mark_max)
        return &m->mark[index];
    m->record->dumped_lost++;
    return NULL;
}

static char *take_dump(void *context, uint64_t bytes)
{
    struct machine *m = context;

    if (bytes > m->room.dump_max - m->record->dumped_bytes) {
        m->record->dumped_lost++;
        return NULL;
    }
    m->record->dumped_bytes += bytes;
    return m->dumped + (m->record->dumped_bytes - bytes);
}

static void give_dump(void *context, uint64_t bytes)
{
    struct machine *m = context;

    m->record->dumped_bytes -= bytes;
}

static void scheduler_mark_task(void *context, uint32_t index, const struct pto_args *args)
{
    const struct machine *m = context;

    dumps_submit(&m->dumps, index, args);
}

static void begin_dumps(struct machine *m)
{
    m->dumps = (struct dumps){ m->run.options->diagnostics.args, scheduler_mark_of, take_dump,
                               give_dump, m };
    if (m->dumps.level == 0)
        return;
    memset(m->mark, 0, m->room.mark_max * sizeof(*m->mark));
    m->run.recorder.mark = scheduler_mark_task;
}

static void begin_record(struct machine *m, const struct board_run *more)
{
    const struct message_record at = message_record(more);

    m->record = (struct board_record *)(uintptr_t)more->record;
    m->room = *more;
    m->ring = (struct trace_ring){ .record = &m->unrecorded };
    m->dumps.level = 0;
    m->worker->trace = m->run.has_guards ? &m->ring : NULL;
    if (m->record == NULL)
        return;
    m->edge = (struct board_edge *)(uintptr_t)at.edge;
    m->scope = (struct chip_scope *)(uintptr_t)at.scope;
    m->mark = (struct dump_mark *)(uintptr_t)at.mark;
    m->task_records = (char *)(uintptr_t)at.task_records;
    m->dumped = (char *)(uintptr_t)at.dumped;
    m->ring = (struct trace_ring){ .record = (struct trace_record *)(uintptr_t)at.record,
                                   .mask = (uint32_t)more->record_max - 1,
                                   .has_each_time = true,
                                   /*
                                    * no count of live tasks has this value, so the first count is
                                    * recorded
                                    */
                                   .live = UINT32_MAX,
                                   .ready = UINT32_MAX };
    *m->record = (struct board_record){ .begin_cycles = m->begin_cycles };
    m->worker->trace = &m->ring;
    m->run.wired_fn = scheduler_add_edge;
    m->run.wired_context = m->run.recorder.context = m;
    if (m->run.options->trace == PTO_TRACE_ARGUMENTS) {
        m->run.recorder.submitted = scheduler_add_task;
        m->run.recorder.element = scheduler_add_element;
        m->run.recorder.launched = scheduler_add_launched;
    }
    if (m->run.options->diagnostics.has_scopes)
        m->run.recorder.scope = scheduler_add_scope;
    begin_dumps(m);
}

static uint64_t ring_lost(const struct machine *m)
{
    return m->ring.count > m->ring.mask + 1ull ? m->ring.count - m->ring.mask - 1 : 0;
}

static void end_record(struct machine *m)
{
    const struct board_record *head = m->record;

    if (m->record == NULL)
        return;
    m->record->count = m->ring.count;
    m->record->end_cycles = port_cycles();
    aicpu_publish(m->edge, head->edge_count * sizeof(*m->edge));
    aicpu_publish(m->scope, head->scope_count * sizeof(*m->scope));
    aicpu_publish(m->task_records, head->task_bytes);
    aicpu_publish(m->dumped, head->dumped_bytes);
    aicpu_publish(m->ring.record, (m->ring.count - ring_lost(m)) * sizeof(*m->ring.record));
    aicpu_publish(m->record, sizeof(*m->record));
}

static void scheduler_begin_run(struct machine *m, const struct run_message *run,
                                const struct board_run *more, struct pto_entry *entry)
{
    const struct scheduler_code *code = (const struct scheduler_code *)(uintptr_t)run->code;
    uint64_t now_ns = aicpu_now_ns();

    m->run = (struct orch_run){
        .function = m->launched == NULL ? code->orchestration : NULL,
        .context = code->context,
        .is_built_only = run->purpose == CHIP_BUILD,
        .graph = m->launched != NULL          ? &m->launched->built
                 : run->purpose == CHIP_BUILD ? &m->building
                                              : NULL,
        .code = code->own != NULL ? code->own : (const void *)(uintptr_t)code->orchestration,
        .guard = code->guard,
        .kernels = code->kernel,
        .kernel_count = code->kernel_count,
        .entry = entry,
        .options = &run->options,
        .has_rings = run->has_rings != 0,
        .has_guards = m->launched != NULL ? m->launched->built.has_guards : run->options.has_guards,
        .is_whole_only = code->is_simpler,
        .stall_ns = run->stall_ns,
        .time_ns = run->options.timeout_ns
    };
    m->ranges = (const struct board_range *)(uintptr_t)more->ranges;
    m->range_count = more->range_count;
    aicpu_fetch(m->ranges, m->range_count * sizeof(*m->ranges));
    m->number = run->number;
    m->begin_ns = m->stall_since_ns = m->looked_ns = now_ns;
    m->begin_cycles = port_cycles();
    begin_record(m, more);
    if (m->run.has_guards || m->dumps.level != 0)
        port_set_watch(m);
    m->deadline_ns = more->left_ns < UINT64_MAX - now_ns ? now_ns + more->left_ns : UINT64_MAX;
    m->give_up_ns = m->failed_until_ns = m->team_since_ns = 0;
    m->progress = m->progress_seen = m->lane_executions = 0;
    m->turns = m->idle = 0;
    m->is_lapsed = m->is_lost = m->is_builder_gone = false;
    m->busy[0] = m->busy[1] = 0;
    m->gangs = m->mixes = (struct team_line){ 0 };
    m->worker->core_mask = m->worker->core_none = 0;
    seats_init(&m->seats, m->clusters);
    a32_store_relaxed(&m->sched.attention,
                      m->board->requests.cancelled[run->number % BOARD_RUNS] == run->number
                          ? ATTEND_CANCELLED
                          : 0);
    sched_start(&m->sched, m->run.kernels, m->run.options->order_seed);
    orch_reset(&m->orch);
}

static void lead_run(struct machine *m, struct board *board)
{
    uint32_t live_max = m->run.options->live_max;
    const struct image *image = m->launched != NULL ? &m->launched->built.image : NULL;

    if (orch_start(&m->orch, &m->run) < 0)
        return;
    m->worker->is_shared = true; /* cores return tasks to the worker outside of the worker's loop */
    sharing_begin(
        &m->orch.sharing, m->worker,
        &(struct sharing_run){ .live_max = live_max != 0 ? live_max : 8 * m->core_count,
                               .is_held = m->orch.is_held,
                               .image = image,
                               .launches = image != NULL ? &m->launched->built.launches : NULL });
    m->worker->is_offering = false;
    if (image == NULL)
        scheduler_build(m);
    if (m->run.is_built_only)
        end_building(m, board);
    else
        scheduler_run_to_end(m);
}

static void report_run(struct machine *m, struct pto_run_report *report)
{
    uint64_t ns = aicpu_now_ns() - m->begin_ns;
    uint64_t cycles = port_cycles() - m->begin_cycles;
    double rate = cycles != 0 ? (double)ns / (double)cycles : 0.0;
    const struct worker *w = m->worker;

    *report = (struct pto_run_report){ .size = sizeof(*report),
                                       .tasks = m->graph.seq - 1,
                                       .executions = m->lane_executions + sched_executed(w),
                                       .edges = m->graph.edge_total,
                                       .ns = ns,
                                       .workers = 1,
                                       .core_count = m->core_count,
                                       .dummies = a64_load_relaxed(&w->nothing[TRACE_DUMMY]),
                                       .skipped = a64_load_relaxed(&w->nothing[TRACE_SKIPPED]) };
    report->stopped =
        a32_load_relaxed(&m->sched.stopped) + a64_load_relaxed(&w->nothing[TRACE_STOPPED]);
    for (uint32_t i = 0; i < m->core_count; i++)
        report->core_tasks[i] = m->unit[i].number;
    if (m->record != NULL)
        report->records_lost = m->record->edges_lost + m->record->scopes_lost +
                               m->record->task_records_lost + m->record->dumped_lost + ring_lost(m);
    for (uint32_t i = 0; i < PTO_TIMING_SLOTS; i++) {
        uint64_t begin = a64_load_relaxed(&m->sched.timing[i].begin);
        uint64_t end = a64_load_relaxed(&m->sched.timing[i].end);

        if (begin != 0 && end > begin)
            report->timing[i] =
                (struct pto_timing){ (uint64_t)((double)(begin - m->begin_cycles) * rate),
                                     (uint64_t)((double)(end - m->begin_cycles) * rate) };
    }
}

/*
 * Puts the name of a file into a field of fixed size. A name that is too long loses its beginning.
 */
static void scheduler_put_name(char *to, const char *file)
{
    size_t length = file != NULL ? strlen(file) : 0;

    if (length > MESSAGE_NAME - 1) {
        file += length - (MESSAGE_NAME - 1);
        length = MESSAGE_NAME - 1;
    }
    memset(to, 0, MESSAGE_NAME);
    if (length != 0)
        memcpy(to, file, length);
}

static void scheduler_put_ended(struct machine *m, struct run_ended *ended)
{
    const struct orch *o = &m->orch;
    char *names = (char *)(ended + 1);

    memset(ended, 0, sizeof(*ended));
    ended->failure.status = o->status;
    if (o->status < 0)
        ended->failure = o->failure;
    ended->stall = o->stall;
    ended->is_lost = m->is_lost || m->is_builder_gone;
    ended->is_builder_lost = m->is_builder_gone;
    ended->is_kernel_lost = m->is_lost;
    report_run(m, &ended->report);
    scheduler_put_name(names, o->status < 0 ? o->failure.site.file : NULL);
    ended->failure.site.file = NULL;
    for (uint32_t i = 0; i < STALL_TASKS; i++) {
        scheduler_put_name(names + (i + 1) * MESSAGE_NAME,
                           i < o->stall.count ? o->stall.task[i].site.file : NULL);
        ended->stall.task[i].site.file = NULL;
    }
}

static int check_run(struct machine *m, const struct run_message *run, const struct board_run *more,
                     struct board *board)
{
    const struct scheduler_code *code = (const struct scheduler_code *)(uintptr_t)run->code;

    m->building_bytes = 0; /* forgets a built graph that the host has not taken */
    m->launched = run->purpose == CHIP_LAUNCH ? (struct card_graph *)(uintptr_t)run->graph : NULL;
    if (run->tensor_count > PTO_ENTRY_TENSORS_MAX || run->scalar_count > PTO_ENTRY_SCALARS_MAX)
        return scheduler_error_set(board, PTO_EFORMAT, "a run has too many arguments");
    if (m->launched == NULL && code->orchestration == NULL)
        return scheduler_error_set(board, PTO_EFORMAT,
                                   "a run has neither an orchestration nor a graph");
    return more->graph_bytes != 0 && m->launched != NULL
               ? take_graph(m, m->launched, more->graph_bytes, code)
               : PTO_OK;
}

static int run_code(struct machine *m, const struct board_call *call, struct board *board)
{
    char *message = (char *)(uintptr_t)call->message;
    struct run_message *run = (struct run_message *)(void *)message;
    struct pto_tensor *tensor = (struct pto_tensor *)(void *)(message + MESSAGE_TENSORS);
    uint64_t *scalar = (uint64_t *)(void *)(message + MESSAGE_SCALARS);
    struct board_run *more = (struct board_run *)(void *)(message + MESSAGE_RUN);
    uint32_t missing, seconds, left;
    int status = check_run(m, run, more, board);

    m->entry = (struct pto_entry){ run->tensor_count, run->scalar_count, tensor, scalar };
    for (uint32_t i = run->tensor_count; i < PTO_ENTRY_TENSORS_MAX; i++)
        /* absent tensors are marked here in the same way as on the host */
        tensor[i] = pto_tensor_absent(i);
    /*
     * The host writes its next message to this memory: lines that this cache has changed must not
     * be written over it later.
     */
    aicpu_publish(tensor, PTO_ENTRY_TENSORS_MAX * sizeof(*tensor));
    if (port_meet_cores(m, (uint32_t)more->tag, &missing, &seconds) < 0) {
        port_note_cores(m);
        (void)port_dismiss_cores(m, true);
        return scheduler_error_set(board, PTO_ELOST, "%u of %u cores did not start within %u s",
                                   missing, m->core_count, seconds);
    }
    if (m->is_dead)
        status = scheduler_error_set(board, PTO_ELOST, "an earlier run on this card did not end");
    if (status < 0) { /* dismisses the cores, which have started and wait for jobs */
        (void)port_dismiss_cores(m, m->is_dead);
        return status;
    }
    memset(&m->building, 0, sizeof(m->building));
    scheduler_begin_run(m, run, more, &m->entry);
    lead_run(m, board);
    (void)orch_end(&m->orch, m->lane_executions + sched_executed(m->worker));
    if (m->is_lost)
        port_note_cores(m);
    left = port_dismiss_cores(m, m->is_lost);
    if (left != 0) {
        if (!m->is_lost)
            port_note_cores(m);
        m->is_lost = true;
    }
    m->is_dead = m->is_lost || m->is_builder_gone;
    end_record(m);
    /* from here on the host may write another graph to this memory */
    if (more->graph_bytes != 0 && m->launched != NULL)
        (void)drop_graph(m->launched);
    scheduler_put_ended(m, (struct run_ended *)(void *)(message + MESSAGE_ENDED));
    board->answer.bytes = MESSAGE_BYTES - MESSAGE_ENDED;
    aicpu_publish(message + MESSAGE_ENDED, board->answer.bytes);
    /*
     * A run that has failed keeps its error. One whose tasks are all done fails because the cores
     * did not end.
     */
    if (left != 0 && m->orch.status >= 0) /* mutation: core-stays-unseen */
        return scheduler_error_set(board, PTO_ELOST,
                                   "%u of %u cores did not end within %d s of the last task", left,
                                   m->core_count, PORT_DISMISS_S * AICPU_SLOWNESS);
    return PTO_OK;
}

/* Lets the cores start and end without a job. */
static int meet_only(struct machine *m, uint32_t tag, struct board *board)
{
    uint32_t missing, seconds;

    if (m->is_dead)
        return scheduler_error_set(board, PTO_ELOST, "an earlier run on this card did not end");
    if (port_meet_cores(m, tag, &missing, &seconds) < 0) {
        port_note_cores(m);
        (void)port_dismiss_cores(m, true);
        m->is_dead = true;
        return scheduler_error_set(board, PTO_ELOST, "%u of %u cores did not start within %u s",
                                   missing, m->core_count, seconds);
    }
    if (port_dismiss_cores(m, false) == 0)
        return PTO_OK;
    port_note_cores(m);
    m->is_dead = true;
    return scheduler_error_set(board, PTO_ELOST, "the cores have started, but do not end");
}

/* ---- calls of the host ---- */

static int take_call(const struct board_call *call, struct board *board)
{
    struct machine *m = (struct machine *)(uintptr_t)board->scheduler;
    int status;

    if (m != NULL)
        port_begin(m);
    switch (call->op) {
    case BOARD_OPEN:
        status = open_machine(call, board);
        if (status >= 0)
            board->scheduler = board->answer.value;
        return status;
    case BOARD_LOAD:
        return scheduler_load_code(call, board);
    case BOARD_UNLOAD:
        return unload_code((struct scheduler_code *)(uintptr_t)call->value);
    case BOARD_RUN:
        return run_code(m, call, board);
    case BOARD_KEEP:
        return keep_graph(m, call->value, board);
    case BOARD_DROP:
        return drop_graph((const struct card_graph *)(uintptr_t)call->value);
    case BOARD_CLOSE:
        board->scheduler = 0;
        return close_machine(m);
    case BOARD_MEET:
        return meet_only(m, (uint32_t)call->value, board);
    default:
        return scheduler_error_set(board, PTO_ENOSUP, "the scheduler does not know request %u",
                                   call->op);
    }
}

/*
 * Copies the answer to the run's message: the host may read it there when the next run has already
 * begun.
 */
static void keep_answer(const struct board_call *call, const struct board *board)
{
    char *answer = (char *)(uintptr_t)call->message + MESSAGE_ANSWER;

    memcpy(answer, &board->answer, sizeof(board->answer));
    aicpu_publish(answer, sizeof(board->answer));
}

uint32_t pto_scheduler(void *args)
{
    const struct board_call *call = args;
    struct board *board;

    if (call == NULL || call->magic != BOARD_MAGIC || call->board == 0)
        return 1;
    board = (struct board *)(uintptr_t)call->board;
    /* fetches the board except the jobs, which only the scheduler writes */
    aicpu_fetch(board, offsetof(struct board, job));
    if (call->message != 0)
        aicpu_fetch((const void *)(uintptr_t)call->message, call->message_bytes);
    memset(&board->answer, 0, sizeof(board->answer));
    if (call->version != BOARD_VERSION || board->version != BOARD_VERSION)
        board->answer.status = scheduler_error_set(
            board, PTO_ENOSUP, "the scheduler on the device speaks version %d, the library %u",
            BOARD_VERSION, call->version);
    else
        board->answer.status = take_call(call, board);
    board->answer.magic = BOARD_MAGIC;
    board->answer.sequence = call->sequence;
    aicpu_publish(board, offsetof(struct board, live));
    if (call->op == BOARD_RUN)
        keep_answer(call, board);
    return 0;
}
