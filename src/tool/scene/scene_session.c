/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares, runs and compares the cases of a scene.
 *
 * Inputs are in host memory, which the run stages. Outputs and inouts are in device memory,
 * followed by a guard that is checked after the run; outputs are poisoned before each run, to
 * expose elements that no task wrote. Arguments that lie in a window are used there. Ranks start
 * each run together, after all windows are filled, and read results only after all ranks have
 * finished.
 */
#include "tool/scene/scene_session.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tool/scene/element.h"
#include "tool/scene/scene_isa.h"
#include "tool/scene/scene_watch.h"

/* The entry of one run. */
struct session_entry {
    struct pto_entry entry;
    struct pto_tensor tensor[PTO_ENTRY_TENSORS_MAX];
    uint64_t device_addr[PTO_ENTRY_TENSORS_MAX]; /* 0: in host memory */
    bool is_in_window[PTO_ENTRY_TENSORS_MAX];
};

static int session_run_and_compare(struct session *s, enum pto_mode mode, struct pto_error *error);

/*
 * Builds the callable of a mode before its first run, unless one callable serves all modes and is
 * already built.
 */
int scene_session_build_for(struct session *s, enum pto_mode mode, struct pto_error *error)
{
    struct pto_callable **callable =
        &s->callable[scene_differs_by_mode(s->scene, s->platform) ? mode : 0];

    if (scene_is_level(s->scene))
        return scene_level_build(s, mode, error);
    return *callable != NULL
               ? PTO_OK
               : scene_build(s->scene, s->platform, mode, &s->options->build, callable, error);
}

/* Returns the first mode that any case uses. */
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
    status = scene_session_build_for(s, first_mode(scene), error);
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
        return error_setf(error, PTO_ENOMEM, "out of memory");
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
    scene_isa_close(s->isa);
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

    /* closes the ranks' connections, because the next case may have another number of ranks */
    scene_ranks_close(&s->ranks);
    if (s->has_data)
        scene_data_free(&s->data);
    session_set_place(s, s->golden != NULL ? " in the golden" : "");
    status = scene_data_make(&params, &s->data, error);
    session_set_place(s, "");
    s->has_data = status == PTO_OK;
    if (s->options->costs.options.is_planned_only)
        s->data.is_compared = false;
    return status == PTO_OK ? scene_session_open_device(s, test_case, error) : status;
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
    uint64_t wrong;
    /* opens the device again if the previous run has lost it */
    int status = scene_session_open_device(s, s->data.test_case, error);

    if (status >= 0)
        status = scene_session_build_for(s, mode, error);
    if (status >= 0)
        status = scene_is_level(s->scene) ? run_level(s, mode, error)
                                          : scene_session_run_watched(s, mode, NULL, error);
    if (status < 0)
        return status;
    wrong = scene_session_compare(s, s->comparison);
    return wrong == 0 ? PTO_OK
                      : error_setf(error, PTO_EMISMATCH, "%llu elements are not as expected",
                                   (unsigned long long)wrong);
}

uint64_t scene_session_compare(const struct session *s, struct comparison *out)
{
    uint64_t wrong = 0;

    for (uint32_t i = 0; i < s->scene->argument_count; i++) {
        const struct scene_tensor *tensor = &s->data.tensor[i];
        enum pto_dtype dtype = tensor->argument->dtype;

        if (!tensor->has_expected || !s->data.is_compared)
            continue;
        scene_compare_arrays(dtype, tensor->count, tensor->got, tensor->expected,
                             &s->data.test_case->tolerance[dtype], &out[i]);
        wrong += out[i].wrong;
    }
    return wrong;
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

bool scene_session_has_observers(const struct session *s)
{
    return device_info(s).has_observers;
}

/* Sets a scalar to the context of its domain, which is 0 outside of the domain. */
static int give_context(struct session *s, uint32_t scalar, struct pto_error *error)
{
    uint32_t domain = s->scene->scalar[scalar].domain - 1;
    const struct pto_domain_info *about = &s->ranks.about[domain];

    if (s->ranks.domain[domain] != NULL && about->context == 0 && about->elsewhere >= 0)
        return error_setf(error, PTO_ENOSUP,
                          "domain '%s': rank %d is on another host, so kernels have no address of "
                          "its window; run the scene's ranks on one host",
                          s->scene->domain[domain].name, about->elsewhere);
    s->data.scalar[scalar] = about->context;
    return PTO_OK;
}

/* Connects to the other ranks, if the case has ranks and they are not connected. */
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
        if (s->scene->scalar[i].domain != 0)
            status = give_context(s, i, error);
    return status;
}

/* Opens a device; closes an open one that is lost or has other clusters or threads. */
static int open_fitting_device(struct session *s, const struct scene_case *test_case,
                               struct pto_error *error)
{
    uint32_t clusters = s->options->clusters != 0 ? s->options->clusters : test_case->clusters;
    /*
     * a seeded order of tasks needs a single worker thread; with ranks, one thread per rank is the
     * default
     */
    bool is_one = s->order_seed != 0 || (s->options->workers == 0 && test_case->ranks > 1);
    uint32_t workers = is_one ? 1 : s->options->workers;
    struct pto_device_params params;
    int status;

    /* a scene from kernel_config.py was compiled for all clusters of the chip */
    if (clusters == 0 && s->scene->is_config)
        clusters = pto_platform_find(s->platform)->clusters_max;
    if (s->device != NULL && s->clusters == clusters && s->workers == workers &&
        !device_info(s).is_lost)
        return PTO_OK;
    if (clusters > pto_platform_find(s->platform)->clusters_max)
        return error_setf(error, PTO_EINVAL, "%u clusters, but %s has at most %u", clusters,
                          s->platform, pto_platform_find(s->platform)->clusters_max);
    scene_session_rest(s);
    pto_device_params_init(&params);
    params.platform = s->platform;
    params.clusters = clusters;
    params.workers = workers;
    params.card = session_card(s->options, s->rank); /* each rank uses its own card */
    params.is_isolated = s->options->is_isolated;
    params.is_virtual = s->options->costs.is_virtual;
    params.error = error;
    status = pto_device_open(&params, &s->device);
    if (status < 0) {
        s->device = NULL;
        return error_setf(error, status, "cannot open a device of %s: %s", s->platform,
                          error->text);
    }
    s->clusters = clusters;
    s->workers = workers;
    if (s->options->costs.has_isa && s->isa == NULL) {
        status = scene_isa_open(s->scene, s->platform, &s->options->build,
                                &s->options->costs.options, &s->isa, error);
        if (status < 0)
            return status;
    }
    return s->options->costs.is_virtual
               ? scene_costs_set(&s->options->costs, s->scene, s->isa, s->device, error)
               : PTO_OK;
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
        (void)error_setf(error, PTO_EINVAL, "--cards needs a real platform, and %s is simulated",
                         platform);
    else if (cards->count < needed)
        (void)error_setf(error, PTO_EINVAL, "case '%s' needs %u cards, and --cards names %u",
                         test_case->name, needed, cards->count);
    return error->status < 0;
}

int scene_session_open_device(struct session *s, const struct scene_case *test_case,
                              struct pto_error *error)
{
    int status;

    if (scene_is_level(s->scene))
        return scene_level_open(s, test_case, error);
    status = open_fitting_device(s, test_case, error);
    return status == PTO_OK ? open_ranks(s, test_case, error) : status;
}

/* ---- one run ---- */

/*
 * Finds the address of the argument in its window, or allocates device memory. *addr_out is 0 if
 * the argument stays in host memory.
 */
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
            /*
             * Only a size that depends on the rank can be invalid here: others were checked with
             * the scene.
             */
            return PTO_EINVAL;
        e->is_in_window[index] = true;
        *addr_out = about->window + (uint64_t)offset;
        return PTO_OK;
    }
    if ((argument->direction == PTO_DIR_IN && !tensor->is_blank) || tensor->bytes == 0)
        return PTO_OK;
    return pto_mem_alloc(s->device, tensor->bytes, addr_out);
}

/* Reports why memory could not be allocated or copied. */
static int report_memory_error(struct session *s, struct pto_error *error, int status,
                               const char *argument, const char *what)
{
    struct pto_error why = { .size = sizeof(why) };

    (void)pto_mem_explain(s->device, &why);
    return error_setf(error, status, "argument '%s' cannot be %s: %s", argument, what,
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
            return report_memory_error(s, error, status, tensor->argument->name,
                                       "put into device memory");
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

    return status < 0 ? report_memory_error(s, error, status, tensor->argument->name, "copied back")
                      : PTO_OK;
}

/*
 * Copies the outputs if the run succeeded, checks the guards, and frees the memory of the
 * arguments.
 */
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
                error_setf(error, freed, "argument '%s': %s", tensor->argument->name, why.text);
    }
    return status;
}

int scene_session_run_watched(struct session *s, enum pto_mode mode, const struct run_watch *watch,
                              struct pto_error *error)
{
    double timeout = s->options->timeout != 0 ? s->options->timeout : s->data.test_case->timeout;
    struct session_entry *e = calloc(1, sizeof(*e));
    struct pto_run_options options;
    char place[64], folder[PATH_MAX];
    int status;

    if (e == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    pto_run_options_init(&options);
    options.mode = mode;
    options.deps = s->scene->deps;
    options.order_seed = s->order_seed;
    options.has_guards = !s->options->is_unguarded && !s->options->costs.options.is_planned_only;
    options.has_nan_check = s->options->has_nan_check;
    options.trace = watch == NULL ? s->options->trace : PTO_TRACE_OFF;
    options.trace_path = s->trace_path;
    options.trace_title = s->trace_title;
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
        options.step = watch->step;
        options.task_context = options.edge_context = options.step_context = watch->context;
    }
    snprintf(place, sizeof(place), " in the run with --order-seed %u", s->order_seed);
    status = session_make_entry(s, e, error);
    if (status == PTO_OK)
        status = scene_ranks_barrier(&s->ranks, error);
    if (status == PTO_OK) {
        pto_run_report_init(&s->report);
        session_set_place(s, s->order_seed != 0 ? place : " in the run");
        status =
            pto_run(s->device, s->callable[scene_differs_by_mode(s->scene, s->platform) ? mode : 0],
                    &e->entry, &options, &s->report);
        session_set_place(s, "");
        if (status < 0)
            (void)error_setf(
                error, status, "%s",
                s->report.error.text[0] != '\0' ? s->report.error.text : pto_strerror(status));
    }
    if (status == PTO_OK)
        status = scene_ranks_barrier(&s->ranks, error);
    if (status < 0 && s->data.test_case->ranks > 1)
        scene_ranks_abort(&s->ranks, status);
    /* A lost device stays open for its timeline, but its memory is neither read nor freed. */
    if (status != PTO_ELOST && !device_info(s).is_lost)
        status = session_end_entry(s, e, status, error);
    else if (status == PTO_OK) /* the run succeeded, but its outputs cannot be read or compared */
        status = error_setf(error, PTO_ELOST, "the device is lost, and its outputs are not read");
    free(e);
    return status;
}

/* ---- names and summaries ---- */

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
        fprintf(to, s->options->costs.options.is_planned_only ? "not compared: no kernel is called"
                    : s->golden != NULL ? "not compared: the golden is for other inputs"
                                        : "not compared: no expected results");
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
