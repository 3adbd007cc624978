/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs are host memory, which the run stages. Outputs and inouts are device
 * memory with a guard behind it that is looked at afterwards; outputs are
 * poisoned before each run, so that what no task has written shows. What lies in a
 * window stays there. Ranks begin each run together, when all windows are filled, and
 * none looks at its results before all have ended.
 */
#include "tool/scene/scene_session.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tool/scene/element.h"
#include "tool/scene/scene_lines.h"
#include "tool/scene/scene_writer.h"

/* Who is told of the tasks of a run. */
struct run_watch {
    pto_task_fn task;
    pto_edge_fn edge; /* may be NULL */
    void *context;
};

/* The entry of one run. */
struct session_entry {
    struct pto_entry entry;
    struct pto_tensor tensor[PTO_ENTRY_TENSORS_MAX];
    uint64_t device_addr[PTO_ENTRY_TENSORS_MAX]; /* 0: host memory */
    bool is_in_window[PTO_ENTRY_TENSORS_MAX];
};

static int session_run_and_compare(struct session *s, enum pto_mode mode, struct pto_error *error);
static int session_open_device(struct session *s, const struct scene_case *test_case,
                               struct pto_error *error);
static int run_once(struct session *s, enum pto_mode mode, const struct run_watch *watch,
                    struct pto_error *error);

/* Where modes have callables of their own, that of a mode is built for its first run. */
static int build_for(struct session *s, enum pto_mode mode, struct pto_error *error)
{
    struct pto_callable **callable =
        &s->callable[scene_differs_by_mode(s->scene, s->platform) ? mode : 0];

    if (scene_is_level(s->scene))
        return scene_level_build(s, mode, error);
    return *callable != NULL
               ? PTO_OK
               : scene_build(s->scene, s->platform, mode, &s->options->build, callable, error);
}

/* The first one that a case has. */
static enum pto_mode first_mode(const struct scene *scene)
{
    uint32_t modes = 0;

    for (uint32_t i = 0; i < scene->case_count; i++)
        modes |= scene->test_case[i].modes;
    return modes != 0 ? (enum pto_mode)__builtin_ctz(modes) : PTO_MODE_STREAM;
}

int scene_session_open(struct session *s, const struct scene *scene, const char *platform,
                       const struct session_options *options, struct pto_error *error)
{
    int status = scene_session_adopt(s, scene, NULL, platform, options, error);

    if (status < 0)
        return status;
    status = build_for(s, first_mode(scene), error);
    if (status == PTO_OK && scene->golden.path != NULL)
        status = scene_golden_open(scene, &options->build, &s->golden, error);
    if (status < 0)
        scene_session_close(s);
    return status;
}

int scene_session_adopt(struct session *s, const struct scene *scene, struct pto_callable *callable,
                        const char *platform, const struct session_options *options,
                        struct pto_error *error)
{
    memset(s, 0, sizeof(*s));
    s->scene = scene;
    s->platform = platform;
    s->options = options;
    s->comparison = calloc(scene->argument_count + 1, sizeof(*s->comparison));
    if (s->comparison == NULL)
        return error_tell(error, PTO_ENOMEM, "out of memory");
    s->callable[0] = callable;
    return PTO_OK;
}

void scene_session_close(struct session *s)
{
    if (s->has_data)
        scene_data_free(&s->data);
    scene_session_rest(s);
    scene_level_close(s);
    for (uint32_t mode = 0; mode < PTO_MODE_COUNT; mode++)
        if (s->callable[mode] != NULL)
            (void)pto_callable_destroy(s->callable[mode]);
    scene_code_close(s->golden);
    free(s->comparison);
    memset(s, 0, sizeof(*s));
}

void scene_session_rest(struct session *s)
{
    scene_ranks_close(&s->ranks);
    scene_level_rest(s);
    if (s->device != NULL)
        (void)pto_device_close(s->device);
    s->device = NULL;
}

static void session_set_place(const struct session *s, const char *text)
{
    if (s->options->place != NULL)
        snprintf(s->options->place, SESSION_PLACE_BYTES, "%s", text);
}

int scene_session_prepare(struct session *s, const struct scene_case *test_case,
                          struct pto_error *error)
{
    const struct scene_data_params params = { .scene = s->scene,
                                              .test_case = test_case,
                                              .platform = s->platform,
                                              .given = s->options->given,
                                              .golden = scene_golden_function(s->golden),
                                              .has_blanks = s->options->has_blanks,
                                              .rank = s->rank };
    int status;

    scene_ranks_close(&s->ranks); /* another case has other ones */
    if (s->has_data)
        scene_data_free(&s->data);
    session_set_place(s, s->golden != NULL ? " in the golden" : "");
    status = scene_data_make(&params, &s->data, error);
    session_set_place(s, "");
    s->has_data = status == PTO_OK;
    return status == PTO_OK ? session_open_device(s, test_case, error) : status;
}

int scene_session_run(struct session *s, enum pto_mode mode, struct pto_error *error)
{
    s->order_seed = session_usual_order(s->options);
    return session_run_and_compare(s, mode, error);
}

int scene_session_run_orders(struct session *s, enum pto_mode mode, void (*next)(void *context),
                             void *context, struct pto_error *error)
{
    uint32_t first = s->options->order_seed != 0 ? s->options->order_seed : 1;
    bool was_compared = s->data.is_compared;
    int status = PTO_OK;

    for (uint32_t i = 0; !was_compared && i < s->scene->argument_count; i++)
        if (s->data.tensor[i].got != NULL) {
            memcpy(s->data.tensor[i].expected, s->data.tensor[i].got, s->data.tensor[i].bytes);
            s->data.tensor[i].has_expected = true;
        }
    s->data.is_compared = true;
    for (uint32_t i = 0; i < s->options->orders && status == PTO_OK; i++) {
        next(context);
        s->order_seed = first + i;
        status = session_run_and_compare(s, mode, error);
    }
    s->data.is_compared = was_compared;
    return status;
}

static int run_level(struct session *s, enum pto_mode mode, struct pto_error *error)
{
    int status;

    session_set_place(s, " in the run");
    status = scene_level_run(s, mode, error);
    session_set_place(s, "");
    return status;
}

static int session_run_and_compare(struct session *s, enum pto_mode mode, struct pto_error *error)
{
    uint64_t wrong = 0;
    int status = session_open_device(s, s->data.test_case,
                                     error); /* it may have been lost by the run before */

    if (status >= 0)
        status = build_for(s, mode, error);
    if (status >= 0)
        status =
            scene_is_level(s->scene) ? run_level(s, mode, error) : run_once(s, mode, NULL, error);
    if (status < 0)
        return status;
    for (uint32_t i = 0; i < s->scene->argument_count; i++) {
        const struct scene_tensor *tensor = &s->data.tensor[i];
        enum pto_dtype dtype = tensor->argument->dtype;

        if (!tensor->has_expected || !s->data.is_compared)
            continue;
        scene_compare_arrays(dtype, tensor->count, tensor->got, tensor->expected,
                             &s->data.test_case->tolerance[dtype], &s->comparison[i]);
        wrong += s->comparison[i].wrong;
    }
    return wrong == 0 ? PTO_OK
                      : error_tell(error, PTO_EMISMATCH, "%llu elements are not as expected",
                                   (unsigned long long)wrong);
}

/* ---- the device ---- */

static struct pto_device_info device_info(const struct session *s)
{
    struct pto_device_info info;
    int status;

    pto_device_info_init(&info);
    status = pto_device_info(s->device, &info);
    assert(status == PTO_OK && "the device is open");
    (void)status;
    return info;
}

/* Joins the other ranks, if there are any to be and it has not. */
static int open_ranks(struct session *s, const struct scene_case *test_case,
                      struct pto_error *error)
{
    const struct scene_ranks_params params = { .scene = s->scene,
                                               .test_case = test_case,
                                               .param = s->data.param,
                                               .rank = s->rank,
                                               .timeout = s->options->timeout != 0
                                                              ? s->options->timeout
                                                              : test_case->timeout,
                                               .device = s->device };
    int status;

    if (test_case->ranks == 0 || s->ranks.comm != NULL)
        return PTO_OK;
    status = scene_ranks_open(&s->ranks, &params, error);
    for (uint32_t i = 0; i < s->scene->scalar_count && status == PTO_OK; i++)
        if (s->scene->scalar[i].domain != 0) /* 0 where this rank is not of the domain */
            s->data.scalar[i] = s->ranks.about[s->scene->scalar[i].domain - 1].context;
    return status;
}

/* One that is lost, or of another size, makes room. */
static int open_fitting_device(struct session *s, const struct scene_case *test_case,
                               struct pto_error *error)
{
    uint32_t clusters = s->options->clusters != 0 ? s->options->clusters : test_case->clusters;
    /* With one worker an order is the one that was chosen; and ranks are many already. */
    bool is_one = s->order_seed != 0 || (s->options->workers == 0 && test_case->ranks > 1);
    uint32_t workers = is_one ? 1 : s->options->workers;
    struct pto_device_params params;
    int status;

    if (clusters == 0 && s->scene->is_config) /* compiled for the whole chip */
        clusters = pto_platform_find(s->platform)->clusters_max;
    if (s->device != NULL && s->clusters == clusters && s->workers == workers &&
        !device_info(s).is_lost)
        return PTO_OK;
    if (clusters > pto_platform_find(s->platform)->clusters_max)
        return error_tell(error, PTO_EINVAL, "%u clusters, but %s has at most %u", clusters,
                          s->platform, pto_platform_find(s->platform)->clusters_max);
    scene_session_rest(s);
    pto_device_params_init(&params);
    params.platform = s->platform;
    params.clusters = clusters;
    params.workers = workers;
    params.card = session_card(s->options, s->rank); /* each rank has one of its own */
    params.is_isolated = s->options->is_isolated;
    params.error = error;
    status = pto_device_open(&params, &s->device);
    if (status < 0) {
        s->device = NULL;
        return error_tell(error, status, "a device of %s cannot be opened: %s", s->platform,
                          error->text);
    }
    s->clusters = clusters;
    s->workers = workers;
    return PTO_OK;
}

bool scene_session_forks(const char *platform, const struct scene_case *test_case)
{
    return test_case->ranks > 1 ||
           (test_case->ranks != 0 && !pto_platform_find(platform)->is_simulated);
}

bool scene_session_lacks_cards(const struct session_cards *cards, const char *platform,
                               const struct scene *scene, const struct scene_case *test_case,
                               struct pto_error *error)
{
    uint32_t needed = scene_is_level(scene)   ? test_case->chips
                      : test_case->ranks != 0 ? test_case->ranks
                                              : 1;

    if (cards->count == 0)
        return false;
    if (pto_platform_find(platform)->is_simulated)
        (void)error_tell(error, PTO_EINVAL, "cards are named, and %s is simulated", platform);
    else if (cards->count < needed)
        (void)error_tell(error, PTO_EINVAL, "case '%s' needs %u cards, and %u are named",
                         test_case->name, needed, cards->count);
    return error->status < 0;
}

static int session_open_device(struct session *s, const struct scene_case *test_case,
                               struct pto_error *error)
{
    int status;

    if (scene_is_level(s->scene))
        return scene_level_open(s, test_case, error);
    status = open_fitting_device(s, test_case, error);
    return status == PTO_OK ? open_ranks(s, test_case, error) : status;
}

/* ---- one run ---- */

/* Where the argument is to be on the device; 0 in `addr_out`: in host memory. */
static int session_place_tensor(struct session *s, struct session_entry *e, uint32_t index,
                                uint64_t *addr_out)
{
    const struct scene_tensor *tensor = &s->data.tensor[index];
    const struct scene_argument *argument = tensor->argument;
    const char *missing;
    int64_t offset = 0;

    *addr_out = 0;
    if (argument->domain != 0 && s->ranks.domain[argument->domain - 1] != NULL) {
        const struct pto_domain_info *about = &s->ranks.about[argument->domain - 1];

        if (argument->offset.count != 0)
            (void)scene_evaluate(&argument->offset, s->data.param, s->data.param_count, &offset,
                                 &missing);
        if ((uint64_t)offset > about->window_bytes ||
            tensor->bytes > about->window_bytes - (uint64_t)offset)
            return PTO_EINVAL; /* only where a size depends on the rank: the scene was checked */
        e->is_in_window[index] = true;
        *addr_out = about->window + (uint64_t)offset;
        return PTO_OK;
    }
    if ((argument->direction == PTO_DIR_IN && !tensor->is_blank) || tensor->bytes == 0)
        return PTO_OK;
    return pto_mem_alloc(s->device, tensor->bytes, addr_out);
}

/* What is known of memory that cannot be had, or copied. */
static int tell_memory(struct session *s, struct pto_error *error, int status, const char *argument,
                       const char *what)
{
    struct pto_error why = { .size = sizeof(why) };

    (void)pto_mem_explain(s->device, &why);
    return error_tell(error, status, "argument '%s' cannot be %s: %s", argument, what,
                      why.status == status ? why.text : pto_strerror(status));
}

static int session_make_entry(struct session *s, struct session_entry *e, struct pto_error *error)
{
    int cleared = scene_ranks_clear(&s->ranks, s->device, error);

    if (cleared < 0)
        return cleared;
    for (uint32_t i = 0; i < s->scene->argument_count; i++) {
        const struct scene_tensor *tensor = &s->data.tensor[i];
        enum pto_direction direction = tensor->argument->direction;
        void *addr = direction == PTO_DIR_IN ? tensor->data : tensor->got;
        int status;

        if (direction == PTO_DIR_INOUT && !tensor->is_blank)
            memcpy(tensor->got, tensor->data, tensor->bytes);
        if (direction == PTO_DIR_OUT) /* mutation: no-poison */
            scene_element_poison(tensor->argument->dtype, tensor->got, tensor->bytes);
        status = session_place_tensor(s, e, i, &e->device_addr[i]);
        if (status == PTO_OK && e->device_addr[i] != 0) {
            if (!tensor->is_blank)
                status = pto_mem_write(s->device, e->device_addr[i], addr, tensor->bytes);
            addr = (void *)(uintptr_t)e->device_addr[i];
        }
        if (status < 0)
            return tell_memory(s, error, status, tensor->argument->name, "put into device memory");
        e->tensor[i] = pto_tensor_external(addr, tensor->shapes, tensor->argument->ndims,
                                           tensor->argument->dtype);
        if (e->device_addr[i] != 0)
            e->tensor[i].space = PTO_SPACE_DEVICE;
    }
    e->entry = (struct pto_entry){ .tensor_count = s->scene->argument_count,
                                   .tensor = e->tensor,
                                   .scalar_count = s->scene->scalar_count,
                                   .scalar = s->data.scalar };
    return PTO_OK;
}

static int session_read_output(struct session *s, const struct scene_tensor *tensor, uint64_t addr,
                               struct pto_error *error)
{
    int status = pto_mem_read(s->device, addr, tensor->got, tensor->bytes);

    return status < 0 ? tell_memory(s, error, status, tensor->argument->name, "copied back")
                      : PTO_OK;
}

/* Fetches the outputs if the run went well, looks at the guards, frees. */
static int session_end_entry(struct session *s, struct session_entry *e, int status,
                             struct pto_error *error)
{
    for (uint32_t i = 0; i < s->scene->argument_count; i++) {
        const struct scene_tensor *tensor = &s->data.tensor[i];
        struct pto_error why = { .size = sizeof(why) };
        int freed;

        if (e->device_addr[i] == 0)
            continue;
        if (status == PTO_OK && tensor->got != NULL && !tensor->is_blank)
            status = session_read_output(s, tensor, e->device_addr[i], error);
        if (e->is_in_window[i])
            continue;
        freed = pto_mem_free(s->device, e->device_addr[i], &why);
        if (freed < 0 && status == PTO_OK)
            status =
                error_tell(error, freed, "argument '%s': %s", tensor->argument->name, why.text);
    }
    return status;
}

static int run_once(struct session *s, enum pto_mode mode, const struct run_watch *watch,
                    struct pto_error *error)
{
    double timeout = s->options->timeout != 0 ? s->options->timeout : s->data.test_case->timeout;
    struct session_entry *e = calloc(1, sizeof(*e));
    struct pto_run_options options;
    char place[64], folder[PATH_MAX];
    int status;

    if (e == NULL)
        return error_tell(error, PTO_ENOMEM, "out of memory");
    pto_run_options_init(&options);
    options.mode = mode;
    options.deps = s->scene->deps;
    options.order_seed = s->order_seed;
    options.has_guards = !s->options->is_unguarded;
    options.trace = watch == NULL ? s->options->trace : PTO_TRACE_OFF;
    options.trace_path = s->trace_path;
    for (uint32_t n = s->options->trace_records; n > options.trace_records;)
        options.trace_records = options.trace_records != 0 ? 2 * options.trace_records : 1;
    if (s->options->diagnostics_name != NULL && watch == NULL) {
        options.diagnostics = s->options->diagnostics;
        scene_session_name(s, s->options->diagnostics_name, mode, folder, sizeof(folder));
        options.diagnostics.folder = folder;
    }
    options.timeout_ns = (uint64_t)(timeout * 1e9);
    options.launch_timeout_ns = (uint64_t)(s->options->launch_timeout * 1e9);
    options.grace_ns = (uint64_t)(session_grace(s->options, s->data.test_case) * 1e9);
    options.keeps_thread = s->options->keeps_thread || s->scene->keeps_thread;
    if (s->options->is_debugged) {
        options.timeout_ns = options.launch_timeout_ns = 0;
        options.stall_timeout_ns = options.data_timeout_ns = 1ull << 62;
    }
    if (watch != NULL) {
        options.task = watch->task;
        options.edge = watch->edge;
        options.task_context = options.edge_context = watch->context;
    }
    snprintf(place, sizeof(place), " in the run with --order-seed %u", s->order_seed);
    status = session_make_entry(s, e, error);
    if (status == PTO_OK)
        status = scene_ranks_meet(&s->ranks, error);
    if (status == PTO_OK) {
        pto_run_report_init(&s->report);
        session_set_place(s, s->order_seed != 0 ? place : " in the run");
        status =
            pto_run(s->device, s->callable[scene_differs_by_mode(s->scene, s->platform) ? mode : 0],
                    &e->entry, &options, &s->report);
        session_set_place(s, "");
        if (status < 0)
            (void)error_tell(
                error, status, "%s",
                s->report.error.text[0] != '\0' ? s->report.error.text : pto_strerror(status));
    }
    if (status == PTO_OK)
        status = scene_ranks_meet(&s->ranks, error);
    if (status < 0 && s->data.test_case->ranks > 1)
        scene_ranks_abort(&s->ranks, status);
    if (status != PTO_ELOST && !device_info(s).is_lost) /* else it stays for its timeline */
        status = session_end_entry(s, e, status, error);
    else if (status == PTO_OK) /* outputs that were not read are not compared */
        status = error_tell(error, PTO_ELOST, "the device is lost, and its outputs are not read");
    free(e);
    return status;
}

/* ---- words about it ---- */

void scene_session_name(const struct session *s, const char *name, enum pto_mode mode, char *out,
                        size_t bytes)
{
    bool has_cases = s->scene->case_count > 1;
    char order[32] = "", rank[32] = "";

    if (s->order_seed != 0)
        snprintf(order, sizeof(order), "-order%u", s->order_seed);
    if (s->data.test_case->ranks > 1)
        snprintf(rank, sizeof(rank), "-rank%u", s->rank);
    snprintf(out, bytes, "%s-%s%s%s-%s%s%s", name, has_cases ? s->data.test_case->name : "",
             has_cases ? "-" : "", s->platform, pto_mode_name(mode), order, rank);
}

void scene_session_summarize(const struct session *s, FILE *to)
{
    bool is_first = true;

    if (!s->data.is_compared)
        fprintf(to, s->golden != NULL ? "not compared: the inputs are not the golden's"
                                      : "not compared: nothing says what is expected");
    for (uint32_t i = 0; s->data.is_compared && i < s->scene->argument_count; i++) {
        const struct scene_tensor *tensor = &s->data.tensor[i];
        const struct comparison *c = &s->comparison[i];

        if (tensor->got == NULL)
            continue;
        if (!tensor->has_expected) {
            fprintf(to, "%s%s not compared", is_first ? "" : ", ", tensor->argument->name);
            is_first = false;
            continue;
        }
        fprintf(to, "%s%s %s", is_first ? "" : ", ", tensor->argument->name,
                c->inexact == 0 ? "exact" : "within tolerance");
        if (c->inexact != 0)
            fprintf(to, ", largest error %.2g, %llu ULP", c->abs_max,
                    (unsigned long long)c->ulp_max);
        fprintf(to, " (%llu %s)", (unsigned long long)tensor->count,
                pto_dtype_text(tensor->argument->dtype));
        is_first = false;
    }
}

static const char *session_kernel_name(const struct session *s, int32_t id)
{
    for (uint32_t i = 0; i < s->scene->kernel_count; i++)
        if (s->scene->kernel[i].id == (uint32_t)id)
            return s->scene->kernel[i].name;
    return "?";
}

static void print_writer(const struct session *s, const struct writer_wish *wish, FILE *to)
{
    const int32_t lanes[] = { wish->kernels.aic, wish->kernels.aiv0, wish->kernels.aiv1 };
    const char *file = strrchr(wish->file, '/');
    const char *before = " (";

    if (!wish->is_found) {
        fprintf(to, "; no task has it as an output");
        return;
    }
    fprintf(to, "; last written by task %llu", (unsigned long long)wish->task);
    for (int i = 0; i < 3; i++) {
        if (lanes[i] >= 0) {
            fprintf(to, "%s%s", before, session_kernel_name(s, lanes[i]));
            before = " + ";
        }
    }
    if (before[1] == '+' && wish->line != 0)
        fprintf(to, ", %s:%d", file != NULL ? file + 1 : wish->file, wish->line);
    if (wish->blocks > 1)
        fprintf(to, ", %d blocks", wish->blocks);
    if (wish->is_conditional)
        fprintf(to, ", if its predicate held");
    fprintf(to, "%s", before[1] == '+' ? ")" : "");
}

/* ---- lines that tasks share ---- */

static void print_lines_task(const struct session *s, const struct lines_watch *watch,
                             const struct lines_use *use, FILE *to)
{
    const struct lines_task *task = &watch->task[use->task];
    const int32_t lanes[] = { task->kernels.aic, task->kernels.aiv0, task->kernels.aiv1 };
    const char *before = " (";

    fprintf(to, "task %u", use->task);
    for (int i = 0; i < 3; i++) {
        if (lanes[i] >= 0) {
            fprintf(to, "%s%s", before, session_kernel_name(s, lanes[i]));
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

static void tell_lines(const struct session *s, const struct lines_watch *watch,
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
            "; on a card one of them undoes what the other one wrote. Let what a task writes end "
            "with a line (%d bytes), or order the tasks",
            LINES_BYTES);
    fclose(to);
    (void)error_tell(error, PTO_EMEMORY, "%s", text);
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
        return error_tell(error, PTO_ENOMEM, "out of memory");
    s->order_seed = 0;
    status = session_open_device(s, s->data.test_case, error);
    if (status >= 0 && !device_info(s).has_observers)
        status = error_tell(error, PTO_ENOSUP,
                            "this device does not say what tasks write and wait for; look for "
                            "shared lines on a simulated one that is not isolated");
    if (status >= 0)
        status = build_for(s, PTO_MODE_HOST, error);
    if (status >= 0)
        status = run_once(
            s, PTO_MODE_HOST,
            &(struct run_watch){ scene_lines_watch_task, scene_lines_watch_edge, watch }, error);
    if (status >= 0 && scene_lines_find(watch, use, &is_found) < 0)
        status = error_tell(error, PTO_ENOMEM,
                            "there is no memory for all that tasks write, or it is in too many "
                            "pieces: nothing is known of shared lines");
    else if (status >= 0 && is_found) {
        tell_lines(s, watch, use, error);
        status = PTO_EMEMORY;
    }
    s->report = report;
    scene_lines_free(watch);
    free(watch);
    return status;
}

/* ---- what is wrong ---- */

/* `wish` is NULL if nobody could watch who writes. */
static void print_tensor(const struct session *s, uint32_t argument, const struct writer_wish *wish,
                         FILE *to)
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
        if (wish != NULL)
            print_writer(s, &wish[i], to);
        fprintf(to, "\n");
    }
    if (c->wrong > COMPARE_SHOWN)
        fprintf(to, "  and %llu more\n", (unsigned long long)(c->wrong - COMPARE_SHOWN));
}

void scene_session_explain(struct session *s, enum pto_mode mode, FILE *to)
{
    uint32_t count = s->scene->argument_count * COMPARE_SHOWN, used = 0;
    struct writer_wish *wish = calloc(count + 1, sizeof(*wish));
    const struct pto_run_report report = s->report;
    struct pto_error error = { .size = sizeof(error) };
    struct writer_watch watch;
    /* Ranks run together or not at all; of level 3 nobody sees what tasks on chips write. */
    bool is_watched = !scene_is_level(s->scene) && s->data.test_case->ranks <= 1 &&
                      (s->device == NULL || device_info(s).has_observers);

    if (wish == NULL)
        return;
    for (uint32_t i = 0; i < s->scene->argument_count; i++)
        for (uint32_t k = 0; k < COMPARE_SHOWN && k < s->comparison[i].wrong; k++) {
            wish[used].argument = i;
            wish[used++].index = s->comparison[i].shown[k].index;
        }
    watch = (struct writer_watch){ wish, used };
    if (s->device != NULL && is_watched)
        (void)run_once(s, mode,
                       &(struct run_watch){ .task = scene_writer_watch_task, .context = &watch },
                       &error);
    used = 0;
    for (uint32_t i = 0; i < s->scene->argument_count; i++) {
        if (s->comparison[i].wrong == 0)
            continue;
        print_tensor(s, i, is_watched ? wish + used : NULL, to);
        used += s->comparison[i].wrong < COMPARE_SHOWN ? (uint32_t)s->comparison[i].wrong
                                                       : COMPARE_SHOWN;
    }
    s->report = report;
    free(wish);
}
