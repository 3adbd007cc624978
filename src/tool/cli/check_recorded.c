/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the recording of the last run: writes it to a file, reads the file, and validates the
 * predecessor and the times of each task.
 */
#include "tool/cli/check_recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "pto/trace.h"
#include "tool/see/recording.h"

static bool has_edge(const struct see_recording *r, uint32_t before, uint32_t task)
{
    for (uint64_t i = r->edge_from[task]; i < r->edge_from[task + 1]; i++)
        if (r->edge[i].from == before)
            return true;
    return false;
}

/*
 * Checks that each task was made ready by a predecessor and that its times are in order. Returns
 * what is wrong; NULL: nothing.
 */
static const char *check_tasks(const struct see_recording *r)
{
    if (!r->has_edges || !r->has_ready || r->records_lost != 0)
        return "it is not complete";
    for (uint32_t i = 0; i < r->task_count; i++) {
        const struct see_task *t = &r->task[i];

        if ((t->flags & PTO_RECORDING_ALLOC) == 0 && r->slice_from[i] == r->slice_from[i + 1])
            return "a task has no slice";
        if (t->ready_by != PTO_RECORDING_NONE && !has_edge(r, t->ready_by, i))
            return "a task was made ready by one that it does not wait for";
        if (t->ready_ns > t->start_ns || t->start_ns > t->end_ns)
            return "the times of a task are not in their order";
    }
    return NULL;
}

const char *cli_check_recorded(struct pto_device *device,
                               void (*each)(void *context, const struct check_recorded_edge *edge),
                               void *context)
{
    /* static, because the caller uses the text after the function has returned */
    static struct pto_error error;
    struct see_recording *r = NULL;
    const char *fault;
    char path[4096];
    int status;

    pto_error_init(&error);
    snprintf(path, sizeof(path), "%s/pto-check-%ld.ptrec", file_temporary_folder(), (long)getpid());
    status = pto_trace_write(device, path, &error);
    if (status >= 0)
        status = see_recording_read(path, &r, &error);
    (void)unlink(path);
    if (status < 0)
        return error.text;
    fault = check_tasks(r);
    for (uint64_t i = 0; i < r->edge_count; i++) {
        const struct see_edge *e = &r->edge[i];

        each(context, &(struct check_recorded_edge){
                          .edge = { e->from, e->to, e->from_argument, e->to_argument, e->reason },
                          .is_wired = e->is_wired,
                          .had_ended = r->task[e->from].end_ns <= r->task[e->to].submit_ns });
    }
    see_recording_free(r);
    return fault;
}
