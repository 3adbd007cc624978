/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distinguishes a missing dependency from a wrong kernel, after a run had a wrong result. On one
 * core, in the order of submits, every dependency is satisfied. If the result is right in that
 * order and wrong in another one, a dependency is missing. To find it, this file compares what each
 * task reads and writes in the two runs. Of the tasks whose outputs differ, the first submitted one
 * has the missing dependency: all tasks before it computed the same in both runs.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* process_vm_readv */
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/os.h"
#include "tool/scene/scene_watch.h"

enum {
    ORDER_FILE_MAX = 64,
    ORDER_SEEDS = 8, /* number of adversarial orders to try on one core */
    /* number of times to repeat the wrong run with its number of threads */
    ORDER_REPEATS = 3,
    ORDER_BLOCK_BYTES = 4096, /* number of bytes of memory that are copied and hashed in one step */
};

/* After this time, no further order is tried. SESSION_EXPLAIN_SECONDS includes this time. */
#define ORDER_NS_MAX (SESSION_EXPLAIN_SECONDS * 1000000000ull)

/* What one task read and wrote in a run: hashes of its arguments. */
struct order_task {
    uint32_t kernel;
    uint32_t tensor_count; /* number of the task's tensors; 0: the task has not ended */
    int line;              /* 0: unknown */
    char file[ORDER_FILE_MAX];
    uint64_t read[PTO_TASK_TENSORS_MAX];  /* hash of each input before the task ran */
    uint64_t wrote[PTO_TASK_TENSORS_MAX]; /* hash of each output after the task ran */
};

struct order_trace {
    struct order_task *task; /* indexed by submit */
    uint64_t max;
    bool is_incomplete; /* out of memory */
};

/* ---- hashing the arguments of tasks ---- */

static uint64_t order_hash(uint64_t hash, const unsigned char *from, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        hash = (hash ^ from[i]) * 0x100000001b3ull;
    return hash;
}

/*
 * Adds the bytes of a memory range to the hash. Reads them through a system call, which fails
 * instead of crashing if the program has passed an address without memory.
 */
static uint64_t order_hash_memory(uint64_t hash, uint64_t addr, uint64_t bytes)
{
    unsigned char copy[ORDER_BLOCK_BYTES];

    for (uint64_t at = 0; at < bytes; at += sizeof(copy)) {
        size_t count = bytes - at < sizeof(copy) ? bytes - at : sizeof(copy);
        struct iovec to = { copy, count }, from = { (void *)(uintptr_t)(addr + at), count };

        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)count)
            return hash;
        hash = order_hash(hash, copy, count);
    }
    return hash;
}

/*
 * Adds the elements of a view to the hash: those from dimension `dim` on, the first of which is at
 * `addr`.
 */
static uint64_t order_hash_view(uint64_t hash, const struct pto_tensor *x, uint32_t dim,
                                uint64_t addr)
{
    uint64_t size = pto_dtype_size(x->dtype);

    if (x->is_contiguous)
        return order_hash_memory(hash, addr, x->extent * size);
    if (dim == x->ndims)
        return order_hash_memory(hash, addr, size);
    if (dim + 1 == x->ndims && x->strides[dim] == 1)
        return order_hash_memory(hash, addr, x->shapes[dim] * size);
    for (uint32_t i = 0; i < x->shapes[dim]; i++)
        hash = order_hash_view(hash, x, dim + 1, addr + (uint64_t)i * x->strides[dim] * size);
    return hash;
}

static uint64_t order_hash_tensor(const struct pto_tensor *x)
{
    if (x->extent == 0)
        return 0;
    return order_hash_view(0xcbf29ce484222325ull, x, 0,
                           x->addr + x->start * pto_dtype_size(x->dtype));
}

/* Returns the record of a task. NULL: out of memory. */
static struct order_task *order_task_at(struct order_trace *t, uint64_t index)
{
    uint64_t max = t->max != 0 ? t->max : 64;
    struct order_task *more;

    while (max <= index)
        max *= 2;
    if (max != t->max) {
        more = realloc(t->task, max * sizeof(*more));
        if (more == NULL) {
            t->is_incomplete = true;
            return NULL;
        }
        memset(more + t->max, 0, (max - t->max) * sizeof(*more));
        t->task = more;
        t->max = max;
    }
    return &t->task[index];
}

/* Callback for `step` of run options; its context is a struct order_trace. */
static void order_watch_step(void *context, const struct pto_step *step)
{
    struct order_task *task = order_task_at(context, step->index);
    const char *file = step->site != NULL ? step->site->file : NULL;

    if (task == NULL)
        return;
    for (uint32_t i = 0; i < step->tensor_count; i++) {
        uint32_t use = pto_tag_use(step->tensor[i].tag);

        if (!step->is_end)
            task->read[i] = (use & PTO_READS) != 0 ? order_hash_tensor(&step->tensor[i]) : 0;
        else if ((use & PTO_WRITES) != 0)
            task->wrote[i] = order_hash_tensor(&step->tensor[i]);
    }
    if (!step->is_end)
        return;
    task->kernel = step->kernel;
    task->tensor_count = step->tensor_count;
    task->line = step->site != NULL ? step->site->line : 0;
    if (file != NULL)
        snprintf(task->file, sizeof(task->file), "%s",
                 strrchr(file, '/') != NULL ? strrchr(file, '/') + 1 : file);
}

/* ---- runs ---- */

struct order_search {
    struct session *s;
    enum pto_mode mode;
    void (*next)(void *context); /* called before each run */
    void *context;
    struct comparison *comparison; /* results of each run of the search */
    struct order_trace right, wrong;
};

/*
 * Runs the case in an order of tasks, and keeps what its tasks read and wrote. Returns the number
 * of wrong elements, or a negative status.
 */
static int64_t order_run(struct order_search *o, uint64_t seed, struct order_trace *trace,
                         struct pto_error *error)
{
    struct run_watch watch = { .step = order_watch_step, .context = trace };
    int status;

    if (trace->task != NULL)
        memset(trace->task, 0, trace->max * sizeof(*trace->task));
    o->next(o->context);
    o->s->order_seed = (uint32_t)seed;
    status = scene_session_open_device(o->s, o->s->data.test_case, error);
    if (status == PTO_OK)
        status = scene_session_run_watched(o->s, o->mode, &watch, error);
    return status < 0 ? status : (int64_t)scene_session_compare(o->s, o->comparison);
}

/*
 * Searches an order with a wrong result: first the order that was wrong before, then others.
 * Returns whether one was found.
 */
static bool order_find_wrong(struct order_search *o, uint32_t seed)
{
    uint64_t end_ns = os_now_ns() + ORDER_NS_MAX;
    struct pto_error error = { .size = sizeof(error) };

    for (uint32_t i = 0; i < 1 + ORDER_SEEDS + ORDER_REPEATS; i++) {
        uint32_t next = i == 0 ? seed : i <= ORDER_SEEDS ? i : 0;

        if ((i == 0 && seed == 0) || (i != 0 && os_now_ns() > end_ns))
            continue;
        if (order_run(o, next, &o->wrong, &error) > 0)
            return true;
    }
    return false;
}

/* ---- messages ---- */

/* Returns the first argument whose hash differs; -1: none. */
static int first_difference(const uint64_t *a, const uint64_t *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (a[i] != b[i])
            return (int)i;
    return -1;
}

static void print_first_task(const struct order_search *o, FILE *to)
{
    uint64_t count = o->right.max < o->wrong.max ? o->right.max : o->wrong.max;

    for (uint64_t i = 0; i < count; i++) {
        const struct order_task *a = &o->right.task[i], *b = &o->wrong.task[i];
        int wrote, read;

        if (a->tensor_count == 0 || a->tensor_count != b->tensor_count)
            continue;
        wrote = first_difference(a->wrote, b->wrote, a->tensor_count);
        if (wrote < 0) /* mutation: first-different */
            continue;
        read = first_difference(a->read, b->read, a->tensor_count);
        fprintf(to, "The first task whose output differs between both orders is task %llu (%s",
                (unsigned long long)i, scene_session_kernel_name(o->s, (int32_t)a->kernel));
        if (a->line != 0)
            fprintf(to, ", %s:%d", a->file, a->line);
        fprintf(to, "), argument %d", wrote);
        if (read >= 0)
            fprintf(to, "; it found other values in argument %d", read);
        fprintf(to, ".\n");
        return;
    }
    fprintf(to, "Each task wrote the same in both orders; a task that uses memory beyond its "
                "arguments is found by --accesses.\n");
}

static void order_print(struct order_search *o, FILE *to)
{
    struct pto_error error = { .size = sizeof(error) };
    uint32_t seed = o->s->order_seed;
    int64_t wrong = order_run(o, PTO_ORDER_SUBMITS, &o->right, &error);

    if (wrong < 0) {
        fprintf(to, "In submit order on one core the run fails: %s\n", error.text);
    } else if (wrong != 0) {
        fprintf(to,
                "In submit order on one core the result is wrong as well: the order of tasks is "
                "not the cause.\n");
    } else {
        fprintf(to, "In submit order on one core the result is right: a dependency is missing. "
                    "--races finds tasks that nothing orders.\n");
        if (o->right.is_incomplete)
            fprintf(to, "Out of memory for what tasks wrote.\n");
        else if (order_find_wrong(o, seed))
            print_first_task(o, to);
        else
            fprintf(to, "Other orders were right as well, so no task can be named; try --orders "
                        "100.\n");
    }
}

void scene_order_explain(struct session *s, enum pto_mode mode, void (*next)(void *context),
                         void *context, FILE *to)
{
    struct order_search o = { .s = s, .mode = mode, .next = next, .context = context };
    const struct session_options *options = s->options;
    struct session_options inside = *options;
    uint32_t seed = s->order_seed;

    /* a process of its own does not report what tasks read and write */
    inside.is_isolated = false;
    if (options->is_isolated)
        scene_session_rest(s);
    s->options = &inside;
    o.comparison = calloc(s->scene->argument_count + 1, sizeof(*o.comparison));
    if (o.comparison != NULL)
        order_print(&o, to);
    if (options->is_isolated)
        scene_session_rest(s);
    s->options = options;
    s->order_seed = seed;
    free(o.comparison);
    free(o.right.task);
    free(o.wrong.task);
}
