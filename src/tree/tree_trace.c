/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline of a worker. Children report when each task began and ended (RECORD_DONE), by the
 * clock that all processes of a machine share; the worker knows who submitted it, when and where.
 * Kernels that chips recorded come in separate files (child_trace.c).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "base/spawn.h"
#include "host/timeline.h"
#include "pto/recording.h"
#include "pto/worker_trace.h"
#include "tree/tree.h"
#include "tree/tree_run.h"
#include "tree/tree_trace.h"
#include "tree/tree_traced.h"

enum { TASKS_MAX = 1 << 22, TRACK_TASKS = 1, TRACK_NEVER = 2 };

/* ---- recording ---- */

/* Makes room for one more item; false: out of memory, and the item is lost. */
static bool trace_make_room(struct tree_trace *trace, void **items, uint64_t count, uint64_t *room,
                            size_t bytes)
{
    uint64_t more = *room != 0 ? 2 * *room : 256;
    void *grown = NULL;

    if (count < *room)
        return true;
    if (more <= TASKS_MAX)
        grown = realloc(*items, more * bytes);
    if (grown == NULL) {
        trace->lost++;
        return false;
    }
    *items = grown;
    *room = more;
    return true;
}

/* Returns the index of the name among those of this recording. PTO_RECORDING_NONE: it is lost. */
static uint32_t trace_enter_name(struct tree_trace *trace, const char name[TREE_NAME])
{
    uint64_t i = trace->callable_count;

    while (i > 0 && memcmp(trace->callable[i - 1].name, name, TREE_NAME) != 0)
        i--;
    if (i > 0)
        return (uint32_t)i - 1;
    if (!trace_make_room(trace, (void **)&trace->callable, trace->callable_count,
                         &trace->callable_room, sizeof(*trace->callable)))
        return PTO_RECORDING_NONE;
    memcpy(trace->callable[trace->callable_count].name, name, TREE_NAME);
    return (uint32_t)trace->callable_count++;
}

void tree_trace_submit(struct tree *t, const struct slot *s, struct tree_task *k,
                       const struct pto_args *args, const struct pto_outputs *out)
{
    struct tree_trace *trace = t->trace;
    struct traced_task *task;
    const char *slash;
    uint32_t name;

    assert_held(&t->lock);
    name = trace_enter_name(trace, t->callable[k->callable].name);
    if (name == PTO_RECORDING_NONE ||
        !trace_make_room(trace, (void **)&trace->task, trace->task_count, &trace->task_room,
                         sizeof(*task)))
        return;
    task = &trace->task[trace->task_count++];
    *task = (struct traced_task){
        .run = k->run->number, .submit_ns = k->submit_ns, .seq = s->seq, .name = name, .child = -1
    };
    k->traced = (uint32_t)trace->task_count;
    if (s->site != NULL) {
        /*
         * copies the file name, because its text is unloaded together with the orchestration's code
         */
        slash = strrchr(s->site->file, '/');
        snprintf(task->file, sizeof(task->file), "%s", slash != NULL ? slash + 1 : s->site->file);
        task->line = s->site->line;
    }
    if (trace->chips == PTO_TRACE_ARGUMENTS)
        tree_recording_submit(t, s, task, args, out);
}

void tree_trace_ready(struct tree *t, const struct tree_task *k)
{
    assert_held(&t->lock);
    if (k->traced == 0 || (t->settling == 0 && k->group == NULL))
        return;
    t->trace->task[k->traced - 1].ready_ns = tree_clock_now(t);
    t->trace->task[k->traced - 1].ready_by = t->settling;
}

void tree_trace_task(struct tree *t, const struct tree_task *k)
{
    struct traced_task *task;

    assert_held(&t->lock);
    if (k->traced == 0)
        return;
    task = &t->trace->task[k->traced - 1];
    task->begin_ns = k->begin_ns;
    task->end_ns = k->end_ns;
    task->child = k->child;
    task->status = k->status;
}

void tree_trace_run(struct tree *t, const struct tree_run *run)
{
    struct tree_trace *trace = t->trace;

    assert_held(&t->lock);
    if (!trace_make_room(trace, (void **)&trace->run, trace->run_count, &trace->run_room,
                         sizeof(*trace->run)))
        return;
    trace->run[trace->run_count++] = (struct traced_run){ .number = run->number,
                                                          .begin_ns = run->clock_begin_ns,
                                                          .built_ns = run->built_ns,
                                                          .end_ns = tree_clock_now(t),
                                                          .tasks = run->report.tasks,
                                                          .status = run->report.error.status };
}

/* Returns an empty trace, with a file for each chip. NULL: out of memory. */
static struct tree_trace *make_trace(struct tree *t)
{
    struct tree_trace *trace = t->trace != NULL ? t->trace : calloc(1, sizeof(*trace));

    if (trace == NULL)
        return NULL;
    for (uint32_t i = 0; i < TREE_CHILDREN_MAX && t->trace == NULL; i++)
        trace->file[i] = -1;
    t->trace = trace;
    trace->flow += trace->task_count;
    trace->task_count = trace->run_count = trace->callable_count = trace->lost = 0;
    trace->record_bytes = trace->records_lost = 0;
    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_line *line = &t->shared->line[i];

        if (t->child[i].kind == PTO_CHILD_SUB)
            continue;
        if (trace->file[i] < 0)
            trace->file[i] = spawn_lift(memfd_create("pto-timeline", MFD_CLOEXEC));
        if (trace->file[i] >= 0 && ftruncate(trace->file[i], 0) != 0)
            return NULL;
        a64_store_relaxed(&line->trace_bytes, 0); /* relaxed, here and below: no task runs */
        a32_store_relaxed(&line->trace_file, trace->file[i] > 0 ? (uint32_t)trace->file[i] : 0);
    }
    return trace;
}

static void set_tracing(struct tree *t, bool is_on)
{
    t->is_traced = is_on;
    a32_store_relaxed(&t->shared->tracing.is_on, is_on); /* relaxed: see struct tree_tracing */
}

/*
 * Sets the process numbers of a nested worker in the root's timeline, and the names of its
 * processes.
 */
static void name_trace(struct tree *t, const struct tree_above *above)
{
    struct tree_trace *trace = t->trace;
    int length = 0;

    trace->pid = TREE_TRACE_PID;
    trace->name[0] = '\0';
    trace->is_nested = above != NULL;
    trace->above_task = above != NULL ? above->task : 0;
    trace->above_name[0] = '\0';
    if (above != NULL) {
        trace->pid = TREE_TRACE_NESTED * t->outer.nested->trace;
        /* the length is limited, because children can write to this memory as well */
        snprintf(trace->above_name, sizeof(trace->above_name), "%.*s", TREE_TRACE_NAME - 1,
                 above->tracing->name);
        length = snprintf(trace->name, sizeof(trace->name), "%s", trace->above_name);
        (void)snprintf(trace->name + length, sizeof(trace->name) - (size_t)length,
                       "worker %u: ", above->child);
    }
    memcpy(t->shared->tracing.name, trace->name, sizeof(trace->name));
}

int tree_trace_begin(struct tree *t, enum pto_trace chips, const struct tree_above *above)
{
    uint64_t base_ns = above != NULL ? a64_load_relaxed(&above->tracing->base_ns)
                                     : tree_clock_now(t); /* relaxed: see struct tree_tracing */
    int status = PTO_OK;

    pthread_mutex_lock(&t->lock);
    tree_drive(t);
    if (t->runs != NULL || t->building != NULL || (t->trace != NULL && t->trace->is_writing)) {
        status = PTO_EBUSY;
    } else if (make_trace(t) == NULL) {
        status = PTO_ENOMEM;
    } else {
        t->trace->base_ns = base_ns;
        t->trace->chips = chips;
        name_trace(t, above);
        /* relaxed: see struct tree_tracing */
        a32_store_relaxed(&t->shared->tracing.chips, (uint32_t)chips);
        a32_store_relaxed(&t->shared->tracing.pid, t->trace->pid);
        a64_store_relaxed(&t->shared->tracing.base_ns, base_ns);
        set_tracing(t, true);
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

void tree_trace_restore(struct tree *t, uint32_t child, uint64_t bytes)
{
    struct tree_tracing *shared = &t->shared->tracing;
    struct tree_line *line = &t->shared->line[child];
    const struct tree_trace *trace = t->trace;
    int file = trace != NULL ? trace->file[child] : -1;
    struct stat found;

    /* relaxed, here and below: see struct tree_tracing */
    a32_store_relaxed(&shared->is_on, t->is_traced);
    a32_store_relaxed(&shared->chips, trace != NULL ? (uint32_t)trace->chips : 0);
    a32_store_relaxed(&shared->pid, trace != NULL ? trace->pid : 0);
    a64_store_relaxed(&shared->base_ns, trace != NULL ? trace->base_ns : 0);
    memcpy(shared->name, trace != NULL ? trace->name : (char[TREE_TRACE_NAME]){ 0 },
           sizeof(shared->name));
    a32_store_relaxed(&line->trace_file, file > 0 ? (uint32_t)file : 0);
    if (file < 0 || fstat(file, &found) != 0 || bytes > (uint64_t)found.st_size)
        bytes = 0; /* there is no file, or the reported number of bytes is impossible */
    a64_store_relaxed(&line->trace_bytes, bytes);
}

void tree_trace_end(struct tree *t)
{
    pthread_mutex_lock(&t->lock);
    set_tracing(t, false);
    pthread_mutex_unlock(&t->lock);
}

int pto_worker_trace_begin(struct pto_worker *worker, enum pto_trace chips)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if ((uint32_t)chips > PTO_TRACE_ARGUMENTS)
        return PTO_EINVAL;
    return tree_trace_begin(t, chips, NULL);
}

void tree_trace_close(struct tree *t)
{
    struct tree_trace *trace = t->trace;

    if (trace == NULL)
        return;
    for (uint32_t i = 0; i < TREE_CHILDREN_MAX; i++)
        if (trace->file[i] >= 0)
            close(trace->file[i]);
    free(trace->task);
    free(trace->run);
    free(trace->callable);
    free(trace->records);
    free(trace);
    t->trace = NULL;
}

/* ---- writing ---- */

static double trace_micros(const struct tree_trace *trace, uint64_t ns)
{
    return (double)(int64_t)(ns - trace->base_ns) / 1000;
}

/* Writes the name of a process or of a track, without a comma before the very first one. */
static void trace_put_name(FILE *out, const char *before, const char *what, uint32_t pid,
                           uint32_t tid, const char *name)
{
    fprintf(out,
            "%s\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"args\":{\"name\":", before,
            pid, tid, what);
    trace_put_string(out, name);
    fputs("}}", out);
}

static void put_names(const struct tree *t, const char *before, FILE *out)
{
    static const char *const kind[] = {
        [PTO_CHILD_CHIP] = "chip", [PTO_CHILD_SUB] = "SUB worker", [PTO_CHILD_WORKER] = "worker"
    };
    const char *whose = t->trace->name;
    uint32_t own = t->trace->pid;
    char name[TREE_TRACE_NAME + 64];

    snprintf(name, sizeof(name), "%sorchestrations of level %u", whose, t->level);
    trace_put_name(out, before, "process_name", own, 0, name);
    trace_put_name(out, ",", "thread_name", own, TRACK_TASKS, "orchestrations");
    trace_put_name(out, ",", "thread_name", own, TRACK_NEVER, "tasks that have no times");
    for (uint32_t i = 0; i < t->child_count; i++) {
        uint32_t pid = own + 1 + i;

        snprintf(name, sizeof(name), "%s%s %u%s%s", whose, kind[t->child[i].kind], i,
                 i < t->chip_count ? ", " : "", i < t->chip_count ? t->platform : "");
        trace_put_name(out, ",", "process_name", pid, 0, name);
        trace_put_name(out, ",", "thread_name", pid, TRACK_TASKS, "tasks");
        fprintf(out,
                ",\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{"
                "\"sort_index\":%u}}",
                pid, pid);
    }
}

/* Returns the first flow identifier, distinct from those of all other workers of the timeline. */
static uint64_t flow_base(const struct tree_trace *trace)
{
    return (uint64_t)trace->pid << 32;
}

static void put_run(const struct tree_trace *trace, const struct traced_run *run, FILE *out)
{
    const char *phase[] = { "b", "e" };
    const uint64_t when[] = { run->begin_ns, run->end_ns };

    fprintf(out,
            ",\n{\"ph\":\"X\",\"cat\":\"orchestration\",\"name\":\"orchestration\",\"pid\":%u,"
            "\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"run\":%" PRIu64 ",\"tasks\":%" PRIu64
            ",\"status\":%d}}",
            trace->pid, TRACK_TASKS, trace_micros(trace, run->begin_ns),
            (double)(run->built_ns - run->begin_ns) / 1000, run->number, run->tasks, run->status);
    for (int i = 0; i < 2; i++)
        fprintf(out,
                ",\n{\"ph\":\"%s\",\"cat\":\"run\",\"name\":\"run %" PRIu64 "\",\"id\":%" PRIu64
                ",\"pid\":%u,\"tid\":%d,\"ts\":%.3f}",
                phase[i], run->number, flow_base(trace) + run->number, trace->pid, TRACK_TASKS,
                trace_micros(trace, when[i]));
}

static void put_task(const struct tree_trace *trace, const struct traced_task *k, uint64_t id,
                     FILE *out)
{
    bool has_run = k->begin_ns != 0 && k->child >= 0;
    uint32_t pid = has_run ? trace->pid + 1 + (uint32_t)k->child : trace->pid;
    double begin = trace_micros(trace, has_run ? k->begin_ns : k->submit_ns);

    fputs(",\n{\"ph\":\"X\",\"cat\":\"task\",\"name\":", out);
    trace_put_string(out, trace->callable[k->name].name);
    fprintf(out,
            ",\"pid\":%u,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"task\":%u,\"run\":%" PRIu64
            ",\"child\":%d,\"status\":%d,\"result\":",
            pid, has_run ? TRACK_TASKS : TRACK_NEVER, begin,
            has_run ? (double)(k->end_ns - k->begin_ns) / 1000 : 0.0, k->seq, k->run, k->child,
            k->status);
    trace_put_string(out, k->status < 0 ? pto_strerror(k->status) : "ok");
    if (k->file[0] != '\0') {
        fputs(",\"file\":", out);
        trace_put_string(out, k->file);
        fprintf(out, ",\"line\":%d", k->line);
    }
    fputs("}}", out);
    if (!has_run)
        return;
    fprintf(out,
            ",\n{\"ph\":\"s\",\"cat\":\"submit\",\"name\":\"submit\",\"id\":%" PRIu64
            ",\"pid\":%u,\"tid\":%d,\"ts\":%.3f}",
            id, trace->pid, TRACK_TASKS, trace_micros(trace, k->submit_ns));
    fprintf(out,
            ",\n{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"submit\",\"name\":\"submit\",\"id\":%" PRIu64
            ",\"pid\":%u,\"tid\":%d,\"ts\":%.3f}",
            id, pid, TRACK_TASKS, begin);
}

/* Copies bytes of a child's file; false: the file is shorter than reported. */
static bool trace_copy(int file, uint64_t at, uint64_t left, FILE *out)
{
    char bytes[8192];

    while (left > 0) {
        ssize_t got = pread(file, bytes, left < sizeof(bytes) ? left : sizeof(bytes), (off_t)at);

        if (got <= 0)
            return false;
        fwrite(bytes, 1, (size_t)got, out);
        at += (uint64_t)got;
        left -= (uint64_t)got;
    }
    return true;
}

/*
 * Writes what chips and nested workers recorded: the chunks of a kind, as far as children report
 * them as complete. Returns how many bytes these have; `out` NULL: only counts.
 */
static uint64_t trace_put_chunks(const struct tree *t, enum trace_chunk_kind kind, FILE *out)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < t->child_count; i++) {
        /* relaxed: no task runs */
        uint64_t bytes = a64_load_relaxed(&t->shared->line[i].trace_bytes);
        int file = t->trace->file[i];
        struct trace_chunk chunk;

        for (uint64_t at = sizeof(chunk); file >= 0 && at <= bytes;
             at += chunk.bytes + sizeof(chunk)) {
            if (pread(file, &chunk, sizeof(chunk), (off_t)(at - sizeof(chunk))) != sizeof(chunk) ||
                chunk.bytes > bytes - at)
                /* the rest of the file is ignored: the child may have written anything there */
                break;
            if (chunk.kind != kind)
                continue;
            if (out != NULL && !trace_copy(file, at, chunk.bytes, out))
                break;
            sum += chunk.bytes;
        }
    }
    return sum;
}

void tree_trace_put(const struct tree *t, const char *before, FILE *out)
{
    const struct tree_trace *trace = t->trace;

    put_names(t, before, out);
    for (uint64_t i = 0; i < trace->run_count; i++)
        put_run(trace, &trace->run[i], out);
    for (uint64_t i = 0; i < trace->task_count; i++)
        put_task(trace, &trace->task[i], flow_base(trace) + trace->flow + i, out);
    (void)trace_put_chunks(t, TRACE_CHUNK_EVENTS, out);
}

int tree_trace_put_parts(const struct tree *t, FILE *out)
{
    int status = tree_recording_put(t, out);

    (void)trace_put_chunks(t, TRACE_CHUNK_PARTS, out);
    return status;
}

static int put_document(const void *context, FILE *out)
{
    const struct tree *t = context;
    const struct tree_trace *trace = t->trace;

    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", out);
    tree_trace_put(t, "", out);
    fprintf(out,
            "\n],\"otherData\":{\"runs\":%" PRIu64 ",\"tasks\":%" PRIu64 ",\"lost\":%" PRIu64
            ",\"children\":%u}}\n",
            trace->run_count, trace->task_count, trace->lost, t->child_count);
    return PTO_OK;
}

static int put_recording(const void *context, FILE *out)
{
    return tree_trace_put_parts(context, out);
}

static bool trace_ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path), end = strlen(ending);

    return length >= end && strcmp(path + length - end, ending) == 0;
}

static int trace_write_file(struct tree *t, const char *path, struct pto_error *error)
{
    if (!trace_ends_with(path, ".ptrec"))
        return timeline_put(path, put_document, t, error);
    if (t->trace->task_count == 0)
        return error_setf(error, PTO_EINVAL,
                          "%.300s: a recording has tasks, and none was submitted; choose a path "
                          "that ends in .json",
                          path);
    return timeline_put(path, put_recording, t, error);
}

int pto_worker_trace_write(struct pto_worker *worker, const char *path, struct pto_error *error)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if (path == NULL)
        return error_setf(error, PTO_EINVAL, "there is no path");
    if (trace_ends_with(path, ".pftrace"))
        return error_setf(error, PTO_ENOSUP,
                          "%.300s: .pftrace is a format of one chip; choose a path that ends in "
                          ".json or .ptrec",
                          path);
    pthread_mutex_lock(&t->lock);
    tree_drive(t);
    if (t->trace == NULL)
        status = error_setf(error, PTO_EINVAL,
                            "nothing was recorded; call pto_worker_trace_begin before the runs");
    else if (t->runs != NULL || t->building != NULL || t->trace->is_writing)
        status = error_setf(error, PTO_EBUSY,
                            "runs are active; write the timeline after they have ended");
    if (status >= 0) {
        set_tracing(t, false);
        t->trace->is_writing = true;
    }
    pthread_mutex_unlock(&t->lock);
    if (status < 0)
        return status;
    status = trace_write_file(t, path, error);
    pthread_mutex_lock(&t->lock);
    t->trace->is_writing = false;
    pthread_mutex_unlock(&t->lock);
    return status;
}
