/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/cli/races_print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "pto/dtype.h"
#include "pto/trace.h"
#include "pto/worker_trace.h"
#include "tool/cli/json.h"
#include "tool/scene/terminal.h"
#include "tool/see/byte_view.h"
#include "tool/see/chip_work.h"

enum { RACES_SHOWN_MAX = 20, ARGUMENT_BYTES = 192, INDEX_BYTES = 80 };

/* ---- the search ---- */

/* Whether the recording has arguments and all dependencies. */
static bool can_search(const struct see_recording *r)
{
    return r->has_edges && r->level >= PTO_TRACE_ARGUMENTS;
}

/*
 * Returns, as a sentence, why the recording is not sufficient for a search; NULL: it is sufficient.
 */
static const char *races_find_gap(const struct see_recording *r)
{
    if (r->records_lost != 0 || r->edges_lost != 0)
        return "records were lost, and dependencies with them; --trace-records keeps more";
    if (!can_search(r))
        return "the recording has no arguments; record the run with --trace NAME.ptrec";
    if (r->status < 0)
        return "the run failed; tasks that it did not submit are not in the recording";
    return NULL;
}

int cli_races_find(const struct see_recording *r, struct cli_races *out)
{
    int status = PTO_OK;

    *out = (struct cli_races){ .r = r, .gap = races_find_gap(r) };
    out->of = calloc(r->group_count + (size_t)1, sizeof(*out->of));
    if (out->of == NULL)
        return PTO_ENOMEM;
    for (; status >= 0 && can_search(r) && out->count < r->group_count; out->count++) {
        struct see_races *of = &out->of[out->count];

        status = see_races_find(r, out->count, NULL, NULL, of);
        if (status < 0)
            break;
        out->pairs += of->pairs[SEE_RACE_WRITE_WRITE] + of->pairs[SEE_RACE_READ_WRITE];
        if (of->is_cut_short && out->gap == NULL)
            out->gap = "the search ended early, because it found too much to compare";
    }
    out->verdict = out->pairs != 0    ? CLI_RACES_FOUND
                   : out->gap != NULL ? CLI_RACES_UNKNOWN
                                      : CLI_RACES_NONE;
    return status;
}

int cli_session_recording(const struct session *s, struct see_recording **out,
                          struct pto_error *error)
{
    char path[4096];
    int status;

    snprintf(path, sizeof(path), "%s/pto-run-%ld.ptrec", file_temporary_folder(), (long)getpid());
    status = s->level.worker != NULL ? pto_worker_trace_write(s->level.worker, path, error)
                                     : pto_trace_write(s->device, path, error);
    if (status >= 0)
        status = see_recording_read(path, out, error);
    (void)unlink(path);
    return status;
}

int cli_races_find_in_session(const struct session *s, struct cli_races *out,
                              struct pto_error *error)
{
    struct see_recording *r = NULL;
    int status = cli_session_recording(s, &r, error);

    *out = (struct cli_races){ .r = NULL };
    if (status < 0)
        return status;
    status = cli_races_find(r, out);
    out->own = r;
    if (status < 0)
        (void)error_setf(error, status, "not enough memory to search for races");
    return status;
}

void cli_races_free(struct cli_races *races)
{
    for (uint32_t i = 0; races->of != NULL && i < races->count; i++)
        see_races_free(&races->of[i]);
    free(races->of);
    see_recording_free(races->own);
    *races = (struct cli_races){ .r = NULL };
}

/* ---- for people ---- */

static const char *name_use(const struct see_race_side *side)
{
    return side->use == SEE_USE_WRITE ? "writes" : side->use == SEE_USE_READ ? "reads" : "may use";
}

/* Formats numbers as [1, 2]. */
static void format_numbers(char *text, size_t bytes, const uint32_t *number, uint32_t count)
{
    size_t used = (size_t)snprintf(text, bytes, "[");

    for (uint32_t i = 0; i < count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%u", i != 0 ? ", " : "", number[i]);
    if (used < bytes)
        snprintf(text + used, bytes - used, "]");
}

static void format_argument(char *text, size_t bytes, const struct see_race_side *side)
{
    if (side->argument >= 0)
        snprintf(text, bytes, "argument %d", side->argument);
    else
        snprintf(text, bytes, "%s",
                 side->argument == SEE_RACE_PREDICATE ? "the operand of its predicate"
                 : side->argument == SEE_RACE_STRAY   ? "memory outside of its arguments"
                                                      : "an element");
}

static void print_site(const struct see_recording *r, uint32_t file, uint32_t line, FILE *to)
{
    if (file == PTO_RECORDING_NONE)
        return;
    fprintf(to, ", ");
    terminal_print(
        to, strrchr(r->file[file], '/') != NULL ? strrchr(r->file[file], '/') + 1 : r->file[file],
        true);
    fprintf(to, ":%u", line);
}

/*
 * Formats where in the argument `a` the byte lies that both accesses of a race use: the index of
 * its element, or its distance from the first element.
 */
static void format_place(char *text, size_t bytes, const struct see_argument *a, uint64_t at)
{
    uint64_t begin = a->addr + a->start * pto_dtype_size(a->dtype);
    uint32_t index[PTO_MAX_DIMS];

    if (see_argument_element(a, at, index))
        format_numbers(text, bytes, index, a->ndims);
    else
        snprintf(text, bytes, "none of its elements, %" PRIu64 " bytes %s",
                 at < begin ? begin - at : at - begin,
                 at < begin ? "before its first one" : "after the begin of its first one");
}

/* Whether a task has kernels on several lanes. */
static bool has_lanes(const struct see_recording *r, uint32_t task)
{
    uint32_t lanes = 0;

    for (int i = 0; i < 3; i++)
        lanes += r->task[task].kernel[i] != PTO_RECORDING_NONE;
    return lanes > 1;
}

/* Prints by which block and lane of its task an access was made. */
static void print_invocation(const struct see_recording *r, const struct see_touch *t, FILE *to)
{
    static const char *const lane[] = { "AIC of ", "the first AIV of ", "the second AIV of " };

    fprintf(to, "%sblock %" PRIu32 " of ", has_lanes(r, t->task) ? lane[t->invocation % 3] : "",
            t->invocation / 3);
}

static void print_side(const struct see_recording *r, const struct see_race *race, int which,
                       FILE *to)
{
    const struct see_race_side *side = &race->side[which];
    const struct see_argument *a = see_race_argument(r, side);
    char argument[ARGUMENT_BYTES], shape[INDEX_BYTES], element[INDEX_BYTES];

    if (side->argument == SEE_RACE_ELEMENT) {
        const struct see_element *e = &r->element[side->element];

        fprintf(to, "  the orchestration");
        print_site(r, e->file, e->line, to);
    } else {
        const struct see_task *t = &r->task[side->task];

        fprintf(to, "  ");
        if (race->side[0].task == race->side[1].task)
            print_invocation(r, &r->touch[side->touch - 1], to);
        fprintf(to, "task %u (", side->task - r->group[t->group].task_begin);
        terminal_print(to, see_kernel_name(r, see_task_kernel(r, side->task)), true);
        print_site(r, t->file, t->line, to);
        fprintf(to, ")");
    }
    format_argument(argument, sizeof(argument), side);
    if (side->argument == SEE_RACE_STRAY) {
        fprintf(to, " %s %s, at %#" PRIx64 "\n", name_use(side), argument, race->at);
        return;
    }
    format_numbers(shape, sizeof(shape), a->shapes, a->ndims);
    format_place(element, sizeof(element), a, race->at);
    fprintf(to, " %s %s, %s%s, at %s\n", name_use(side), argument, pto_dtype_text(a->dtype), shape,
            element);
}

static void print_race(const struct see_recording *r, const struct see_race *race, FILE *to)
{
    fprintf(to, "%s: %" PRIu64 " pair%s", see_race_kind_name(race->kind), race->count,
            race->count == 1 ? "" : "s");
    if (race->count != 1)
        fprintf(to, ", such as");
    fprintf(to, "\n");
    for (int i = 0; i < 2; i++)
        print_side(r, race, i, to);
}

static void print_all_races(const struct cli_races *races, FILE *to)
{
    uint64_t shown = 0, total = 0;

    for (uint32_t g = 0; g < races->count; g++) {
        total += races->of[g].count;
        for (uint32_t i = 0; i < races->of[g].count && shown < RACES_SHOWN_MAX; i++, shown++) {
            if (i == 0 && races->r->group_count > 1) {
                terminal_print(to, races->r->group[g].name, true);
                fprintf(to, "\n");
            }
            print_race(races->r, &races->of[g].race[i], to);
        }
    }
    if (shown < total)
        fprintf(to, "and %" PRIu64 " more combinations of kernels and arguments; --json has all\n",
                total - shown);
}

static uint64_t count_undeclared(const struct cli_races *races, uint64_t *pairs_out)
{
    uint64_t undeclared = 0;

    *pairs_out = 0;
    for (uint32_t g = 0; g < races->count; g++) {
        undeclared += races->of[g].undeclared;
        *pairs_out += races->of[g].pairs[SEE_RACE_UNDECLARED];
    }
    return undeclared;
}

/*
 * Returns the number of tasks for which the recording has what their kernels used. *tasks_out gets
 * the number of all tasks with a kernel that ran.
 */
static uint64_t count_known_tasks(const struct cli_races *races, uint64_t *tasks_out)
{
    uint64_t known = 0;

    *tasks_out = 0;
    for (uint32_t g = 0; g < races->count; g++) {
        *tasks_out += races->of[g].kernel_tasks;
        known += races->of[g].known_tasks;
    }
    return known;
}

/*
 * If the recording has what kernels used for some tasks only, prints how many tasks were checked by
 * their arguments instead. Returns whether it has this for all tasks.
 */
static bool print_known(const struct cli_races *races, FILE *to)
{
    uint64_t tasks, known = count_known_tasks(races, &tasks);

    if (known != 0 && known < tasks)
        fprintf(to,
                "by their arguments: %" PRIu64 " of %" PRIu64 " tasks, whose kernels do not report "
                "accesses or use too scattered elements\n",
                tasks - known, tasks);
    return known != 0 && known >= tasks;
}

static void print_limits(const struct cli_races *races, FILE *to)
{
    uint64_t pairs, undeclared = count_undeclared(races, &pairs);

    if (races->gap != NULL)
        fprintf(to, "incomplete: %s\n", races->gap);
    if (!print_known(races, to))
        fprintf(to, "not checked: what kernels use beyond their arguments (--accesses finds it), "
                    "and blocks and lanes of one task against each other\n");
    if (undeclared != 0)
        fprintf(to,
                "not checked: %" PRIu64 " PTO_AFTER argument%s, which declare%s no use, against "
                "reads and against each other\n",
                undeclared, undeclared == 1 ? "" : "s", undeclared == 1 ? "s" : "");
    if (races->r->group_count > 1)
        fprintf(to, "not checked: runs of different chips, workers or ranks against each other\n");
}

void cli_races_print(const struct cli_races *races, FILE *to)
{
    uint64_t tasks = 0, accesses = 0, possible, with_kernel;
    bool has_known = count_known_tasks(races, &with_kernel) != 0;

    (void)count_undeclared(races, &possible);
    for (uint32_t g = 0; g < races->count; g++) {
        tasks += races->of[g].tasks;
        accesses += races->of[g].accesses;
    }
    if (races->verdict == CLI_RACES_FOUND)
        fprintf(to, "%" PRIu64 " pair%s of accesses to the same memory %s in no order\n",
                races->pairs, races->pairs == 1 ? "" : "s", races->pairs == 1 ? "is" : "are");
    else if (races->verdict == CLI_RACES_UNKNOWN)
        fprintf(to, "unknown: %s\n", races->gap);
    else
        fprintf(to, "none: %" PRIu64 " tasks with %" PRIu64 " %s; all that conflict are in order\n",
                tasks, accesses, has_known ? "uses of memory" : "accesses");
    if (possible != 0)
        fprintf(to,
                "possible: %" PRIu64 " pair%s with a PTO_AFTER argument, which declares no use, or "
                "of which signals from outside may order the two\n",
                possible, possible == 1 ? "" : "s");
    print_all_races(races, to);
    if (races->verdict != CLI_RACES_UNKNOWN)
        print_limits(races, to);
}

/* ---- for programs ---- */

static void json_side(struct json *j, const struct see_recording *r, const struct see_race *race,
                      int which)
{
    const struct see_race_side *side = &race->side[which];
    const struct see_argument *a = see_race_argument(r, side);
    bool is_element = side->argument == SEE_RACE_ELEMENT;
    uint32_t file = is_element ? r->element[side->element].file : r->task[side->task].file;
    uint32_t line = is_element ? r->element[side->element].line : r->task[side->task].line;
    char text[INDEX_BYTES];
    uint32_t index[PTO_MAX_DIMS];

    cli_json_open(j, NULL, '{');
    if (!is_element) {
        cli_json_integer(j, "task", side->task - r->group[r->task[side->task].group].task_begin);
        cli_json_string(j, "kernel", see_kernel_name(r, see_task_kernel(r, side->task)));
    }
    format_argument(text, sizeof(text), side);
    cli_json_string(j, "by", is_element ? "orchestration" : text);
    if (side->argument >= 0)
        cli_json_integer(j, "argument", (uint64_t)side->argument);
    cli_json_string(j, "use",
                    side->use == SEE_USE_WRITE  ? "write"
                    : side->use == SEE_USE_READ ? "read"
                                                : "undeclared");
    cli_json_string(j, "file", file != PTO_RECORDING_NONE ? r->file[file] : NULL);
    cli_json_integer(j, "line", file != PTO_RECORDING_NONE ? line : 0);
    cli_json_string(j, "type", pto_dtype_text(a->dtype));
    format_numbers(text, sizeof(text), a->shapes, a->ndims);
    cli_json_string(j, "shape", text);
    if (see_argument_element(a, race->at, index))
        format_numbers(text, sizeof(text), index, a->ndims);
    else
        /* the byte is in no element: the kernel used memory that its argument does not cover */
        text[0] = '\0';
    cli_json_string(j, "element", text[0] != '\0' ? text : NULL);
    snprintf(text, sizeof(text), "%#" PRIx64, race->at);
    cli_json_string(j, "address", text);
    if (side->touch != 0)
        cli_json_integer(j, "block", r->touch[side->touch - 1].invocation / 3);
    if (side->touch != 0 && has_lanes(r, side->task))
        cli_json_integer(j, "lane", r->touch[side->touch - 1].invocation % 3);
    cli_json_close(j, '}');
}

void cli_races_print_json(const struct cli_races *races)
{
    static const char *const verdicts[] = { "none", "races", "unknown" };
    struct json j = cli_json_start(stdout);
    uint64_t possible, undeclared = count_undeclared(races, &possible);
    uint64_t tasks, known = count_known_tasks(races, &tasks);

    cli_json_open(&j, NULL, '{');
    cli_json_string(&j, "verdict", verdicts[races->verdict]);
    cli_json_string(&j, "incomplete", races->gap);
    cli_json_integer(&j, "pairs", races->pairs);
    cli_json_integer(&j, "possible_pairs", possible);
    cli_json_integer(&j, "undeclared_arguments", undeclared);
    cli_json_integer(&j, "tasks", tasks);
    cli_json_integer(&j, "tasks_by_used_bytes", known);
    cli_json_open(&j, "races", '[');
    for (uint32_t g = 0; g < races->count; g++)
        for (uint32_t i = 0; i < races->of[g].count; i++) {
            const struct see_race *race = &races->of[g].race[i];

            cli_json_open(&j, NULL, '{');
            cli_json_string(&j, "group", races->r->group[g].name);
            cli_json_string(&j, "kind", see_race_kind_name(race->kind));
            cli_json_integer(&j, "pairs", race->count);
            cli_json_open(&j, "witness", '[');
            json_side(&j, races->r, race, 0);
            json_side(&j, races->r, race, 1);
            cli_json_close(&j, ']');
            cli_json_close(&j, '}');
        }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}
