/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains what runs of a session showed: elements that differ from the expected ones, with the
 * tasks that wrote them, and cache lines that concurrent tasks write.
 */
#include <stdlib.h>
#include <string.h>

#include "tool/scene/element.h"
#include "tool/scene/scene_lines.h"
#include "tool/scene/scene_watch.h"
#include "tool/scene/scene_writer.h"

const char *scene_session_kernel_name(const struct session *s, int32_t id)
{
    for (uint32_t i = 0; i < s->scene->kernel_count; i++)
        if (s->scene->kernel[i].id == (uint32_t)id)
            return s->scene->kernel[i].name;
    return "?";
}

static void print_writer(const struct session *s, const struct watched_element *watched, FILE *to)
{
    const int32_t lanes[] = { watched->kernels.aic, watched->kernels.aiv0, watched->kernels.aiv1 };
    const char *file = strrchr(watched->file, '/');
    const char *before = " (";

    if (!watched->is_found) {
        fprintf(to, "; no task has it as an output");
        return;
    }
    fprintf(to, "; last written by task %llu", (unsigned long long)watched->task);
    for (int i = 0; i < 3; i++) {
        if (lanes[i] >= 0) {
            fprintf(to, "%s%s", before, scene_session_kernel_name(s, lanes[i]));
            before = " + ";
        }
    }
    if (before[1] == '+' && watched->line != 0)
        fprintf(to, ", %s:%d", file != NULL ? file + 1 : watched->file, watched->line);
    if (watched->blocks > 1)
        fprintf(to, ", %d blocks", watched->blocks);
    if (watched->is_conditional)
        fprintf(to, ", if its predicate held");
    fprintf(to, "%s", before[1] == '+' ? ")" : "");
}

/* ---- cache lines that tasks share ---- */

static void print_lines_task(const struct session *s, const struct lines_watch *watch,
                             const struct lines_use *use, FILE *to)
{
    const struct lines_task *task = &watch->task[use->task];
    const int32_t lanes[] = { task->kernels.aic, task->kernels.aiv0, task->kernels.aiv1 };
    const char *before = " (";

    fprintf(to, "task %u", use->task);
    for (int i = 0; i < 3; i++) {
        if (lanes[i] >= 0) {
            fprintf(to, "%s%s", before, scene_session_kernel_name(s, lanes[i]));
            before = " + ";
        }
    }
    if (task->line != 0)
        fprintf(to, ", %s:%d", task->file, task->line);
    fprintf(to, ")");
}

static void print_lines_buffer(const struct session *s, const struct lines_watch *watch,
                               const struct lines_use *use, FILE *to)
{
    for (uint64_t i = 0; i < watch->task_count; i++)
        if (pto_task_id_is_valid(use->owner) && watch->task[i].id.raw == use->owner.raw) {
            fprintf(to, "an output of task %llu", (unsigned long long)i);
            return;
        }
    for (uint32_t i = 0; i < watch->entry_count && i < s->scene->argument_count; i++)
        if (watch->entry_addr[i] == use->addr) {
            fprintf(to, "argument '%s'", s->scene->argument[i].name);
            return;
        }
    fprintf(to, "%s at %#llx",
            pto_task_id_is_valid(use->owner) ? "an allocated tensor" : "the tensor",
            (unsigned long long)use->addr);
}

static void report_shared_line(const struct session *s, const struct lines_watch *watch,
                               const struct lines_use use[2], struct pto_error *error)
{
    unsigned long long at = LINES_BYTES * (unsigned long long)use[0].line;
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    if (to == NULL)
        return;
    print_lines_task(s, watch, &use[0], to);
    fprintf(to, " and ");
    print_lines_task(s, watch, &use[1], to);
    fprintf(to,
            " may run at the same time, and both write to one cache line, bytes %llu to %llu of ",
            at, at + LINES_BYTES - 1);
    print_lines_buffer(s, watch, &use[0], to);
    for (int i = 0; i < 2; i++)
        fprintf(to, "%s %llu to %llu", i == 0 ? ": the first one" : ", the second one",
                at + (unsigned)__builtin_ctzll(use[i].mask),
                at + 63 - (unsigned)__builtin_clzll(use[i].mask));
    fprintf(to,
            "; on a card one write undoes the other; align what each task writes to cache lines "
            "(%d bytes), or order the tasks",
            LINES_BYTES);
    fclose(to);
    (void)error_setf(error, PTO_EMEMORY, "%s", text);
    free(text);
}

int scene_session_check_lines(struct session *s, struct pto_error *error)
{
    struct lines_watch *watch = calloc(1, sizeof(*watch));
    const struct pto_run_report report = s->report;
    struct lines_use use[2];
    bool is_found;
    int status;

    if (watch == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    s->order_seed = 0;
    status = scene_session_open_device(s, s->data.test_case, error);
    if (status >= 0 && !scene_session_has_observers(s))
        status = error_setf(error, PTO_ENOSUP,
                            "this device does not report writes and dependencies of tasks; use "
                            "--lines on a simulated device that is not isolated");
    if (status >= 0)
        status = scene_session_build_for(s, PTO_MODE_HOST, error);
    if (status >= 0)
        status = scene_session_run_watched(s, PTO_MODE_HOST,
                                           &(struct run_watch){ .task = scene_lines_watch_task,
                                                                .edge = scene_lines_watch_edge,
                                                                .context = watch },
                                           error);
    if (status >= 0 && scene_lines_find(watch, use, &is_found) < 0)
        status = error_setf(error, PTO_ENOMEM,
                            "out of memory for the record of writes, or it has too many pieces; "
                            "shared lines were not checked");
    else if (status >= 0 && is_found) {
        report_shared_line(s, watch, use, error);
        status = PTO_EMEMORY;
    }
    s->report = report;
    scene_lines_free(watch);
    free(watch);
    return status;
}

/* ---- explaining differences ---- */

/*
 * Prints the differences of a tensor. `watched` has the last writers of the printed elements; NULL:
 * unknown.
 */
static void print_tensor(const struct session *s, uint32_t argument,
                         const struct watched_element *watched, FILE *to)
{
    const struct scene_tensor *tensor = &s->data.tensor[argument];
    const struct comparison *c = &s->comparison[argument];
    enum pto_dtype dtype = tensor->argument->dtype;
    const struct scene_tolerance *tolerance = &s->data.test_case->tolerance[dtype];
    const char *name = tensor->argument->name;
    char index[COMPARE_INDEX_MAX], got[ELEMENT_TEXT_MAX], expected[ELEMENT_TEXT_MAX];

    fprintf(to, "%s: %llu of %llu elements differ (%s, rtol %g, atol %g", name,
            (unsigned long long)c->wrong, (unsigned long long)c->count, pto_dtype_text(dtype),
            tolerance->rtol, tolerance->atol);
    fprintf(to, tolerance->ulp != 0 ? ", %g ULP)\n" : ")\n", tolerance->ulp);
    fprintf(to, "  NaN: %llu, of which %llu are not expected\n",
            (unsigned long long)(c->nan_got + c->nan_expected), (unsigned long long)c->nan_got);
    if (c->abs_max > 0) {
        scene_compare_print_index(tensor->shapes, tensor->argument->ndims, c->abs_index, index);
        fprintf(to, "  largest error: %.6g at %s%s", c->abs_max, name, index);
        scene_compare_print_index(tensor->shapes, tensor->argument->ndims, c->rel_index, index);
        fprintf(to, "; relative: %.6g at %s%s; %llu ULP at most\n", c->rel_max, name, index,
                (unsigned long long)c->ulp_max);
    }
    for (uint32_t i = 0; i < COMPARE_SHOWN && i < c->wrong; i++) {
        uint64_t g = c->shown[i].got, e = c->shown[i].expected;
        bool is_nan = scene_element_is_nan(dtype, g) || scene_element_is_nan(dtype, e);

        scene_compare_print_index(tensor->shapes, tensor->argument->ndims, c->shown[i].index,
                                  index);
        scene_element_print(dtype, g, got);
        scene_element_print(dtype, e, expected);
        fprintf(to, "  %s%s: expected %s, got %s", name, index, expected, got);
        if (!is_nan)
            fprintf(to, " (%llu ULP)", (unsigned long long)scene_element_distance(dtype, g, e));
        if (watched != NULL)
            print_writer(s, &watched[i], to);
        fprintf(to, "\n");
    }
    if (c->wrong > COMPARE_SHOWN)
        fprintf(to, "  and %llu more\n", (unsigned long long)(c->wrong - COMPARE_SHOWN));
}

/* Returns why the case cannot run again in submit order; NULL: it can. */
static const char *explain_order_gap(const struct session *s)
{
    if (scene_is_level(s->scene))
        return "the chips of a worker have no common order of submits";
    if (s->data.test_case->ranks > 1)
        return "ranks have no common order of submits";
    if (!pto_platform_find(s->platform)->is_simulated)
        return "cards do not run tasks in that order";
    return s->options->costs.is_virtual ? "virtual time has its own order" : NULL;
}

void scene_session_explain(struct session *s, enum pto_mode mode, void (*next)(void *context),
                           void *context, FILE *to)
{
    uint32_t count = s->scene->argument_count * COMPARE_SHOWN, used = 0;
    struct watched_element *watched = calloc(count + 1, sizeof(*watched));
    const struct pto_run_report report = s->report;
    struct pto_error error = { .size = sizeof(error) };
    struct writer_watch watch;
    /*
     * A second run observes the writes. That is impossible with ranks, which run together, and
     * useless at level 3, where writes on chips are not observed.
     */
    bool is_watched = !scene_is_level(s->scene) && s->data.test_case->ranks <= 1 &&
                      (s->device == NULL || scene_session_has_observers(s));

    if (watched == NULL)
        return;
    for (uint32_t i = 0; i < s->scene->argument_count; i++)
        for (uint32_t k = 0; k < COMPARE_SHOWN && k < s->comparison[i].wrong; k++) {
            watched[used].argument = i;
            watched[used++].index = s->comparison[i].shown[k].index;
        }
    watch = (struct writer_watch){ watched, used };
    next(context);
    if (s->device != NULL && is_watched)
        (void)scene_session_run_watched(
            s, mode, &(struct run_watch){ .task = scene_writer_watch_task, .context = &watch },
            &error);
    used = 0;
    for (uint32_t i = 0; i < s->scene->argument_count; i++) {
        if (s->comparison[i].wrong == 0)
            continue;
        print_tensor(s, i, is_watched ? watched + used : NULL, to);
        used += s->comparison[i].wrong < COMPARE_SHOWN ? (uint32_t)s->comparison[i].wrong
                                                       : COMPARE_SHOWN;
    }
    if (explain_order_gap(s) == NULL)
        scene_order_explain(s, mode, next, context, to);
    else
        fprintf(to, "Not run again in submit order: %s.\n", explain_order_gap(s));
    s->report = report;
    free(watched);
}
