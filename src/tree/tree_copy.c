/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies, which are tasks that every child can run. A copy that a program makes outside of an
 * orchestration is a run of one task for each piece, from or to a buffer in shared memory, because
 * children see no other memory of the program.
 */
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "pto/run.h"
#include "tree/tree.h"
#include "tree/tree_run.h"

enum {
    PIECE_BYTES = 4 << 20
}; /* bytes of a piece, and of the buffer in shared memory for copies outside of orchestrations */

void tree_copy_open(struct tree *t)
{
    struct tree_callable *k = &t->callable[TREE_COPY];

    k->users = 1;
    k->is_settled = true;
    k->children = t->child_count == 64 ? UINT64_MAX : (1ull << t->child_count) - 1;
    snprintf(k->name, sizeof(k->name), "copy");
}

/* ---- copies in an orchestration ---- */

static int check_tensors(const struct pto_tensor *to, const struct pto_tensor *from,
                         struct pto_error *error)
{
    if (to == NULL || from == NULL)
        return error_setf(error, PTO_EINVAL, "a copy needs two tensors");
    if (to->ndims == 0 || from->ndims == 0)
        /* an invalid view is no error here: the graph refuses it when the copy is submitted */
        return PTO_OK;
    if (to->dtype != from->dtype || to->ndims != from->ndims ||
        memcmp(to->shapes, from->shapes, to->ndims * sizeof(to->shapes[0])) != 0)
        return error_setf(
            error, PTO_EINVAL,
            "a copy of %llu elements of %u bytes in %u dimensions to %llu of %u in %u: "
            "types and shapes have to be the same",
            (unsigned long long)pto_tensor_numel(from), pto_dtype_size(from->dtype), from->ndims,
            (unsigned long long)pto_tensor_numel(to), pto_dtype_size(to->dtype), to->ndims);
    return PTO_OK;
}

/*
 * Returns the chip whose memory the tensor is in; -1: shared memory, or an address that is refused
 * later.
 */
static int chip_of(struct tree *t, const struct pto_tensor *x)
{
    const struct tree_allocation *a = !pto_task_id_is_valid(x->owner) && x->size != 0
                                          ? tree_find_memory(t, x->addr, 0, "", NULL)
                                          : NULL;

    return a != NULL ? a->child : -1;
}

static struct pto_outputs submit_half(struct tree_run *run, const struct pto_tensor *to,
                                      const struct pto_tensor_info *info,
                                      const struct pto_tensor *from, const struct pto_site *site)
{
    struct pto_args args;
    uint64_t ends = 0;

    if (to != NULL && chip_of(run->tree, to) >= 0)
        ends |= COPY_TO_CHIP;
    if (chip_of(run->tree, from) >= 0)
        ends |= COPY_FROM_CHIP;
    pto_args_init(&args);
    if (to != NULL)
        pto_add_output_existing(&args, to);
    else
        pto_add_output(&args, info);
    pto_add_input(&args, from);
    pto_add_scalar(&args, ends);
    return tree_submit(run, TREE_COPY_NUMBER, 0, &args, site);
}

struct pto_task_id pto_level_copy_at(struct pto_level *level, const struct pto_tensor *to,
                                     const struct pto_tensor *from, const struct pto_site *site)
{
    struct pto_task_id task = pto_task_id_invalid();
    struct tree_run *run = tree_level_enter(level);
    struct pto_outputs between;
    struct pto_tensor_info info;
    struct pto_error error;

    if (run == NULL)
        return task;
    pto_error_init(&error);
    if (run->report.error.status < 0) {
        /* The run has failed, so the copy is not submitted. */
    } else if (check_tensors(to, from, &error) < 0) {
        (void)tree_refuse(run, &error, site);
    } else if (chip_of(run->tree, to) < 0 || chip_of(run->tree, from) < 0 ||
               chip_of(run->tree, to) == chip_of(run->tree, from)) {
        task = submit_half(run, to, NULL, from, site).task;
        /*
     * The two chips cannot access each other's memory, so the copy is two tasks, through shared
     * memory.
     */
    } else {
        info = (pto_tensor_info_make)(from->shapes, from->ndims, (enum pto_dtype)from->dtype);
        between = submit_half(run, NULL, &info, from, site);
        if (between.count == 1)
            task = submit_half(run, to, NULL, between.tensor, site).task;
    }
    (void)tree_level_leave(run, 0);
    return task;
}

/* ---- copies outside of orchestrations ---- */

struct transfer {
    char *to;
    const char *from;
    uint64_t bytes;
};

static void transfer_bytes(struct pto_level *level, void *context)
{
    const struct transfer *x = context;
    const uint32_t shape[] = { (uint32_t)x->bytes };
    struct pto_tensor to = (pto_tensor_external)(x->to, shape, 1, PTO_UINT8);
    struct pto_tensor from = (pto_tensor_external)((void *)(uintptr_t)x->from, shape, 1, PTO_UINT8);

    (void)pto_level_copy_at(level, &to, &from, NULL);
}

/*
 * Copies one piece. If the run has not ended in time, it still uses the buffer: then *staging_io
 * becomes NULL, and the run frees the buffer.
 */
static int transfer_piece(struct pto_worker *worker, struct transfer *x, uint64_t deadline_ns,
                          void **staging_io, struct pto_error *error)
{
    struct pto_worker_report report;
    struct pto_worker_run *run;
    uint64_t now;
    int status = tree_launch(worker, transfer_bytes, x, deadline_ns, &run);

    if (status == PTO_ETIMEOUT)
        return error_setf(error, status,
                          "the orchestration of another thread did not return in time");
    if (status < 0)
        return error_setf(error, status,
                          status == PTO_EBUSY ? "an orchestration copies with pto_level_copy"
                                              : "the copy cannot be started: %s",
                          pto_strerror(status));
    now = os_now_ns();
    status = pto_worker_run_wait(run, now < deadline_ns ? deadline_ns - now : 1);
    if (pto_worker_run_poll(run) == PTO_RUN_PENDING) {
        (void)pto_worker_run_cancel(run);
        tree_run_abandon(run, *staging_io);
        *staging_io = NULL;
        return error_setf(
            error, PTO_ETIMEOUT,
            "the tasks that use the memory, or the copy itself, were not over in time");
    }
    pto_worker_report_init(&report);
    status = pto_worker_run_finish(run, &report);
    return status < 0 ? error_setf(error, status, "%s", report.error.text) : PTO_OK;
}

/*
 * Takes the buffer that the previous copy left, or allocates one if another thread uses it. Called
 * with the lock.
 */
static int take_staging(struct tree *t, void **staging_out)
{
    assert_held(&t->lock);
    *staging_out = t->staging;
    t->staging = NULL;
    return *staging_out != NULL ? PTO_OK : tree_alloc(t, -1, PIECE_BYTES, staging_out);
}

static void give_staging(struct tree *t, void *staging)
{
    pthread_mutex_lock(&t->lock);
    if (t->staging == NULL)
        t->staging = staging;
    else
        (void)tree_free(t, (uint64_t)(uintptr_t)staging, NULL);
    pthread_mutex_unlock(&t->lock);
}

/*
 * Copies from or to memory of the worker, in pieces. is_to: `to` is the worker's memory, and `from`
 * the caller's; otherwise the reverse.
 */
static int transfer(struct pto_worker *worker, const struct transfer *x, bool is_to,
                    uint64_t timeout_ns, struct pto_error *error)
{
    uint64_t deadline_ns = tree_time_after(timeout_ns != 0 ? timeout_ns : PTO_TIMEOUT_DEFAULT_NS);
    const void *memory = is_to ? x->to : x->from;
    void *staging = NULL;
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if (x->to == NULL || x->from == NULL)
        return error_setf(error, PTO_EINVAL, "a copy needs two addresses");
    pthread_mutex_lock(&t->lock);
    if (tree_find_memory(t, (uint64_t)(uintptr_t)memory, x->bytes, "copy", error) == NULL)
        status = PTO_EMEMORY;
    else if (x->bytes != 0 && take_staging(t, &staging) < 0)
        status = error_setf(error, PTO_ENOMEM, "there is no shared memory left for a copy");
    pthread_mutex_unlock(&t->lock);
    for (uint64_t done = 0; status >= 0 && done < x->bytes; done += PIECE_BYTES) {
        struct transfer piece = { x->to + done, x->from + done,
                                  x->bytes - done < PIECE_BYTES ? x->bytes - done : PIECE_BYTES };

        if (is_to) {
            memcpy(staging, piece.from, piece.bytes);
            piece.from = staging;
        } else {
            piece.to = staging;
        }
        status = transfer_piece(worker, &piece, deadline_ns, &staging, error);
        if (!is_to && status >= 0)
            memcpy(x->to + done, staging, piece.bytes);
    }
    if (staging != NULL)
        give_staging(t, staging);
    return status;
}

int pto_worker_copy_to(struct pto_worker *worker, void *to, const void *from, uint64_t bytes,
                       uint64_t timeout_ns, struct pto_error *error)
{
    return transfer(worker, &(struct transfer){ to, from, bytes }, true, timeout_ns, error);
}

int pto_worker_copy_from(struct pto_worker *worker, void *to, const void *from, uint64_t bytes,
                         uint64_t timeout_ns, struct pto_error *error)
{
    return transfer(worker, &(struct transfer){ to, from, bytes }, false, timeout_ns, error);
}
