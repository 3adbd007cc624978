/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto run --virtual`: refuses options that do not fit, sets the costs of kernels, and prints the
 * report of the run.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/run_durations.h"
#include "tool/cli/run_request.h"

enum { STEP_DIGITS_MAX = 9 };

bool cli_run_refuse_virtual(const struct run_request *r)
{
    const struct scene_costs *c = &r->session.costs;
    const struct virtual_options *given = &r->given;
    const char *option = given->is_planned_only       ? "no-compute"
                         : given->has_free_scheduling ? "no-scheduling-cost"
                         : given->cost.count != 0     ? "cost"
                         : given->durations != NULL   ? "durations"
                         : given->scheduling != NULL  ? "scheduling"
                                                      : NULL;

    if (!c->is_virtual && option != NULL)
        fprintf(stderr, "pto run: --%s is for --virtual; add that\n", option);
    else if (given->has_free_scheduling && given->scheduling != NULL)
        fprintf(stderr, "pto run: --scheduling has no effect with --no-scheduling-cost; leave one "
                        "of them out\n");
    else if (c->is_virtual && r->session.is_isolated)
        fprintf(stderr,
                "pto run: --virtual and --isolated are two kinds of chips; leave one out\n");
    else if (c->is_virtual && r->session.has_lines)
        fprintf(stderr, "pto run: --lines watches a run in real time; leave --virtual out\n");
    else if (c->is_virtual && r->session.build.has_accesses)
        fprintf(stderr,
                "pto run: accesses are not checked in virtual time; leave --accesses or --virtual "
                "out\n");
    else if (c->is_virtual && r->session.has_nan_check)
        fprintf(stderr, "pto run: NaN is not searched for in virtual time; leave --nan or "
                        "--virtual out\n");
    else if (c->is_virtual && r->session.cards.count != 0)
        fprintf(stderr, "pto run: --virtual is for simulated chips; leave --cards out\n");
    else
        return false;
    return true;
}

/* Parses KERNEL=FORMULA. The cost owns `text`, which is freed on failure. */
static int take_cost(struct pto_virtual_cost *cost, char *text, struct pto_error *error)
{
    char *equals = strchr(text, '=');

    if (equals == NULL || equals == text || equals[1] == '\0') {
        free(text);
        return error_setf(error, PTO_EINVAL,
                          "--cost must be KERNEL=FORMULA, as add=2us or add='500 + bytes(0) / 64'");
    }
    *equals = '\0';
    *cost = (struct pto_virtual_cost){ .kernel = text,
                                       .formula = equals + 1,
                                       .origin = SCENE_COSTS_GIVEN };
    return PTO_OK;
}

static bool virtual_is_given(const struct scene_costs *costs, uint32_t count, const char *kernel)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(costs->options.cost[i].kernel, kernel) == 0)
            return true;
    return false;
}

/* Adds the costs from the file of --durations, except for kernels with a --cost. */
static int take_durations(struct run_request *r, struct pto_error *error)
{
    struct scene_costs *costs = &r->session.costs;
    struct pto_virtual_options *o = &costs->options;
    uint32_t given = o->cost_count;
    struct durations d;
    int status = cli_durations_read(r->given.durations, &d, error);
    struct pto_virtual_cost *cost =
        status < 0 ? NULL : realloc((void *)(uintptr_t)o->cost, (given + d.count) * sizeof(*cost));

    if (status >= 0 && cost == NULL)
        status = error_setf(error, PTO_ENOMEM, "out of memory");
    if (cost != NULL)
        o->cost = cost;
    for (uint32_t i = 0; cost != NULL && i < d.count; i++) {
        if (virtual_is_given(costs, given, d.cost[i].kernel))
            continue;
        cost[o->cost_count++] = d.cost[i];
        d.cost[i].kernel = NULL; /* `request` owns the name of the kernel now */
    }
    cli_durations_free(&d);
    return status;
}

static int take_costs(struct run_request *r, struct pto_error *error)
{
    struct pto_virtual_options *o = &r->session.costs.options;
    struct pto_virtual_cost *cost = calloc(r->given.cost.count + 1, sizeof(*cost));
    int status = cost != NULL ? PTO_OK : error_setf(error, PTO_ENOMEM, "out of memory");

    o->cost = cost;
    for (uint32_t i = 0; status >= 0 && i < r->given.cost.count; i++) {
        char *text = strdup(r->given.cost.text[i]);

        status = text != NULL ? take_cost(&cost[i], text, error)
                              : error_setf(error, PTO_ENOMEM, "out of memory");
        if (cost[i].kernel != NULL)
            o->cost_count++;
    }
    return status;
}

/* Returns the scheduling cost with this name, of `length` characters; NULL: there is none. */
static uint64_t *find_step(struct pto_virtual_options *o, const char *name, size_t length)
{
#define X(step, field, ns)                                           \
    if (length == strlen(#step) && memcmp(name, #step, length) == 0) \
        return &o->field;
    PTO_VIRTUAL_SCHEDULING_MAP(X)
#undef X
    return NULL;
}

/* Parses a list of scheduling costs such as read=95,write=5. */
static int take_scheduling(struct pto_virtual_options *o, const char *list, struct pto_error *error)
{
    const char *part = list;

    while (part != NULL) {
        size_t name = strcspn(part, "=,"), length = strcspn(part, ",");
        uint64_t *step = part[name] == '=' ? find_step(o, part, name) : NULL;
        char number[STEP_DIGITS_MAX + 1];

        snprintf(number, sizeof(number), "%.*s", (int)(length - name - (step != NULL)),
                 step != NULL ? part + name + 1 : "");
        if (step == NULL || length - name - 1 > STEP_DIGITS_MAX ||
            !cli_parse_number(number, 0, UINT64_MAX, step))
            return error_setf(
                error, PTO_EINVAL,
                "--scheduling has '%.*s'; it must have steps and their ns, of at "
                "most %d digits, separated by commas; the defaults are" PTO_VIRTUAL_SCHEDULING_MAP(
                    VIRTUAL_DEFAULT),
                (int)length, part, STEP_DIGITS_MAX);
        part = part[length] == ',' ? part + length + 1 : NULL;
    }
    return PTO_OK;
}

int cli_run_take_costs(struct run_request *r, struct pto_error *error)
{
    struct pto_virtual_options *o = &r->session.costs.options;
    int status;

    pto_virtual_options_init(o);
    o->is_planned_only = r->given.is_planned_only;
#define X(name, field, ns) o->field = r->given.has_free_scheduling ? 0 : o->field;
    PTO_VIRTUAL_SCHEDULING_MAP(X)
#undef X
    status = take_costs(r, error);
    if (status >= 0 && r->given.scheduling != NULL)
        status = take_scheduling(o, r->given.scheduling, error);
    if (status < 0 || r->given.durations == NULL)
        return status;
    r->session.costs.has_isa = strcmp(r->given.durations, "isa") == 0;
    return r->session.costs.has_isa ? PTO_OK : take_durations(r, error);
}

void cli_run_free_costs(struct run_request *r)
{
    struct pto_virtual_options *o = &r->session.costs.options;

    for (uint32_t i = 0; i < o->cost_count; i++)
        free((void *)(uintptr_t)o->cost[i].kernel);
    free((void *)(uintptr_t)o->cost);
    o->cost = NULL;
    o->cost_count = 0;
}

/* ---- what a run took ---- */

static double us(uint64_t ns)
{
    return (double)ns / 1000;
}

static void virtual_print_kernels(struct pto_device *device, uint32_t count)
{
    struct pto_virtual_kernel kernel;

    printf("  kernels  %-20s %9s %12s %10s %10s %10s  %s\n", "", "calls", "total us", "mean us",
           "least us", "most us", "from");
    pto_virtual_kernel_init(&kernel);
    for (uint32_t i = 0; i < count; i++)
        if (pto_virtual_kernel(device, i, &kernel) >= 0 && kernel.count != 0)
            printf("           %-20s %9" PRIu64 " %12.1f %10.2f %10.2f %10.2f  %s\n", kernel.name,
                   kernel.count, us(kernel.total_ns), us(kernel.total_ns) / (double)kernel.count,
                   us(kernel.min_ns), us(kernel.max_ns), kernel.origin);
}

/*
 * Prints makespan and bounds. A task that is submitted after its predecessor has completed gets no
 * edge to it, so the longest chain may be longer than the printed one.
 */
static void print_makespan(const struct pto_virtual_report *report,
                           const struct pto_device_info *info, enum pto_mode mode)
{
    printf(
        "  virtual  %.1f us; no schedule takes less than %.1f us: the longest chain %s%.1f us, AIC "
        "%.1f us and AIV %.1f us a core\n",
        us(report->makespan_ns), us(report->bound_ns), mode == PTO_MODE_STREAM ? "at least " : "",
        us(report->path_ns), us(report->work_ns[PTO_CORE_AIC] / info->aic_count),
        us(report->work_ns[PTO_CORE_AIV] / info->aiv_count));
}

/* Prints the report of a worker: the times of its children, by what they ran. */
static void virtual_print_worker(const struct session *s)
{
    struct pto_worker_virtual_report report;

    pto_worker_virtual_report_init(&report);
    if (pto_worker_virtual_report(s->level.worker, &report) < 0)
        return;
    printf("  virtual  %.1f us on one clock; the longest chain of tasks %.1f us\n",
           us(report.makespan_ns), us(report.path_ns));
    printf("  busy    ");
    for (uint32_t i = 0; i < report.child_count && report.makespan_ns != 0; i++)
        printf("%s %s %u: %.1f %%", i != 0 ? "," : "", i < s->level.chips ? "chip" : "sub", i,
               100.0 * (double)report.busy_ns[i] / (double)report.makespan_ns);
    printf("\n");
    if (report.measured != 0)
        printf("  measured %" PRIu64 " calls of SUB functions took their CPU time, which differs "
               "from run to run; give them a cost\n",
               report.measured);
}

void cli_run_print_virtual(const struct session *s, enum pto_mode mode)
{
    struct pto_virtual_report report;
    struct pto_device_info info;

    if (scene_is_level(s->scene)) {
        virtual_print_worker(s);
        return;
    }
    pto_virtual_report_init(&report);
    pto_device_info_init(&info);
    if (pto_device_info(s->device, &info) < 0 || pto_virtual_report(s->device, &report) < 0)
        return;
    print_makespan(&report, &info, mode);
    if (report.makespan_ns != 0)
        printf("  busy     AIC %.1f %%, AIV %.1f %%\n",
               100.0 * (double)report.work_ns[PTO_CORE_AIC] /
                   ((double)report.makespan_ns * info.aic_count),
               100.0 * (double)report.work_ns[PTO_CORE_AIV] /
                   ((double)report.makespan_ns * info.aiv_count));
    if (report.late != 0)
        printf("  waited   %" PRIu64
               " kernel%s waited for another kernel longer than %s own cost, or used 0.25 s of CPU "
               "time or slept for 1 s; in these two cases the times depend on this machine\n",
               report.late, report.late == 1 ? "" : "s", report.late == 1 ? "its" : "their");
    virtual_print_kernels(s->device, report.kernel_count);
}
