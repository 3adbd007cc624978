/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the backend of a chip, after the checks that are common to all backends; lists the
 * backends.
 */
#include "chip/chip.h"

#include <assert.h>
#include <string.h>

#include "base/atomic.h"
#include "base/elf.h"
#include "base/error.h"
#include "base/os.h"
#include "chip/backend.h"
#include "link/hello.h"

/* maximum size of one allocation in bytes, so that sums with it never wrap */
#define BYTES_MAX (1ull << 46)

static const struct chip_backend *const backends[] = {
    &sim_backend, &sim_isolated_backend, &cann_backend, &virtual_backend, &chip_null_backend,
};

enum { BACKENDS = sizeof(backends) / sizeof(backends[0]) };

/*
 * Number of threads in kernels that were given up. Relaxed accesses are enough, because no decision
 * depends on it.
 */
static struct a32 stuck_threads;

const struct chip_backend *chip_backend_at(uint32_t index)
{
    return index < BACKENDS ? backends[index] : NULL;
}

/* ---- opening and closing a chip ---- */

int chip_open(const struct chip_params *params, struct chip **chip_out, struct pto_error *error)
{
    for (uint32_t i = 0; i < BACKENDS; i++)
        if (strcmp(backends[i]->name, params->backend) == 0)
            return backends[i]->device->open(params, chip_out, error);
    return error_setf(error, PTO_ENOSUP, "this build has no backend \"%.40s\"", params->backend);
}

int chip_serve(void)
{
    for (uint32_t i = 0; i < BACKENDS; i++)
        if (backends[i]->device->serve != NULL)
            return backends[i]->device->serve();
    return CHILD_EXIT_HELLO;
}

bool chip_close(struct chip *chip)
{
    struct status status;
    bool is_complete;

    if (chip == NULL)
        return true;
    status = chip->status;
    is_complete = chip->backend->device->close(chip);
    /* plain access: the chip is closed, so none of its threads writes to the status any more */
    status_record_close(&status);
    return is_complete;
}

struct status_host *chip_show(struct chip *chip)
{
    status_record_open(&chip->status, false);
    return chip->status.record != NULL ? &chip->status.record->host : NULL;
}

const struct chip_properties *chip_properties(const struct chip *chip)
{
    return &chip->properties;
}

bool chip_is_builder(struct chip *chip)
{
    return chip->backend->device->is_builder != NULL && chip->backend->device->is_builder(chip);
}

uint32_t chip_stuck_threads(void)
{
    return a32_load_relaxed(&stuck_threads); /* relaxed: no decision depends on the count */
}

void chip_count_stuck(int32_t change)
{
    /* relaxed: no decision depends on the count */
    a32_add_relaxed(&stuck_threads, (uint32_t)change);
}

/* ---- memory ---- */

int chip_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out, struct pto_error *error)
{
    if (bytes == 0 || bytes > BYTES_MAX)
        return PTO_ENOMEM;
    return chip->backend->memory->alloc(chip, bytes, addr_out, error);
}

int chip_free(struct chip *chip, uint64_t addr, struct pto_error *error)
{
    return chip->backend->memory->free(chip, addr, error);
}

int chip_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
               struct pto_error *error)
{
    return bytes != 0 ? chip->backend->memory->write(chip, addr, from, bytes, error) : PTO_OK;
}

int chip_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes, struct pto_error *error)
{
    return bytes != 0 ? chip->backend->memory->read(chip, addr, to, bytes, error) : PTO_OK;
}

bool chip_contains(struct chip *chip, uint64_t addr)
{
    return chip->backend->memory->contains(chip, addr);
}

int chip_check(struct chip *chip, struct pto_error *error)
{
    return chip->backend->memory->check != NULL ? chip->backend->memory->check(chip, error)
                                                : PTO_OK;
}

bool chip_can_register_memory(const struct chip *chip)
{
    return chip->backend->memory->register_memory != NULL;
}

int chip_register_memory(struct chip *chip, uint64_t addr, uint64_t bytes)
{
    if (!chip_can_register_memory(chip))
        return PTO_ENOSUP;
    return bytes != 0 && bytes <= BYTES_MAX
               ? chip->backend->memory->register_memory(chip, addr, bytes)
               : PTO_EINVAL;
}

void chip_unregister_memory(struct chip *chip, uint64_t addr)
{
    chip->backend->memory->unregister_memory(chip, addr);
}

/* ---- windows ---- */

uint32_t chip_window_ways(const struct chip *chip)
{
    uint32_t count = 0;

    while (chip->backend->windows != NULL && chip->backend->windows->ways[count] != NULL)
        count++;
    return count;
}

const char *chip_window_way(const struct chip *chip, uint32_t way)
{
    return chip->backend->windows->ways[way];
}

bool chip_window_waits(const struct chip *chip, uint32_t way)
{
    return (chip->backend->windows->waiting >> way & 1) != 0;
}

int chip_window_offer(struct chip *chip, const struct chip_window_request *request,
                      struct chip_window **window_out, struct chip_offer *offer,
                      struct pto_error *error)
{
    if (request->bytes == 0 || request->bytes > BYTES_MAX ||
        request->way >= chip_window_ways(chip) || request->rank >= request->rank_count ||
        request->rank_count > CHIP_WINDOW_RANKS)
        return error_setf(
            error, PTO_EINVAL,
            "a window of %llu bytes for rank %u of %u is not possible: the limit is %d ranks",
            (unsigned long long)request->bytes, request->rank, request->rank_count,
            CHIP_WINDOW_RANKS);
    return chip->backend->windows->offer(chip, request, window_out, offer, error);
}

int chip_window_join(struct chip *chip, struct chip_window *window, const struct chip_offer *offer,
                     const struct chip_wait_check *check, struct pto_error *error)
{
    return chip->backend->windows->join(chip, window, offer, check, error);
}

int chip_window_drop(struct chip *chip, struct chip_window *window, struct pto_error *error)
{
    return window == NULL ? PTO_OK : chip->backend->windows->drop(chip, window, error);
}

/* ---- code and runs ---- */

int chip_read_declared(const struct chip_program *program, const struct chip_kernel *kernel,
                       uint32_t *to, struct pto_error *error)
{
    const struct chip_object *object = &kernel->object;
    size_t size;
    const void *section = elf_section(object->bytes, object->size, PTO_KERNEL_SECTION, &size);
    size_t most = (KERNEL_ARGS_MAX + 1) * sizeof(*to);
    uint32_t length;

    if (section == NULL)
        return 0;
    size = size < most ? size : most;
    memcpy(to, section, size);
    length = declared_length(to, size / sizeof(*to));
    if (length == 0)
        return error_setf(
            error, PTO_ELOAD,
            "kernel %u (\"%.60s\") of \"%.100s\" declares its arguments in an unknown "
            "way; declare at most %d tensors, then at most %d scalars, and build it "
            "with this version",
            kernel->func_id, object->name, program->name, PTO_TASK_TENSORS_MAX,
            PTO_TASK_SCALARS_MAX);
    return length > 1 ? (int)length : 0;
}

int chip_load(struct chip *chip, const struct chip_program *program, struct chip_code **code_out,
              struct pto_error *error)
{
    return chip->backend->runs->load(chip, program, code_out, error);
}

void chip_unload(struct chip *chip, struct chip_code *code)
{
    if (code != NULL)
        chip->backend->runs->unload(chip, code);
}

struct chip_time chip_time_of(const struct chip_request *request)
{
    uint64_t now = os_now_ns(), ns = request->options->timeout_ns;
    struct chip_time time = { .deadline_ns = UINT64_MAX };

    if (ns != 0 && ns < UINT64_MAX - now)
        time = (struct chip_time){ .deadline_ns = now + ns, .ns = ns };
    if (request->launch_deadline_ns != 0 && request->launch_deadline_ns < time.deadline_ns)
        time = (struct chip_time){ .deadline_ns = request->launch_deadline_ns,
                                   .ns = request->options->launch_timeout_ns,
                                   .is_from_launch = true };
    return time;
}

struct run_message chip_message_of(const struct chip_request *request)
{
    struct run_message run = { .number = request->number,
                               .code = (uint64_t)(uintptr_t)request->code,
                               .graph = (uint64_t)(uintptr_t)request->graph,
                               .stall_ns = request->stall_ns,
                               .launch_deadline_ns = request->launch_deadline_ns,
                               .purpose = request->purpose,
                               .has_rings = request->has_rings,
                               .tensor_count = request->entry->tensor_count,
                               .scalar_count = request->entry->scalar_count };

    chip_options_copy(request->options, &run.options);
    return run;
}

/* Whether options of this type are valid in another process. Addresses are not. */
#define CROSSES(field) \
    _Generic((field), const char *: false, pto_edge_fn: false, pto_task_fn: false, pto_step_fn: false, default: true)

void chip_options_copy(const struct pto_run_options *from, struct pto_run_options *to)
{
    memset(to, 0, sizeof(*to));
    to->size = sizeof(*to);
#define X(field, kind, name, level)                                                     \
    static_assert(CROSSES(to->field) || RUN_OPTION_##level == RUN_OPTION_RUNS, #field); \
    if (CROSSES(to->field))                                                             \
        memcpy(&to->field, &from->field, sizeof(to->field));
    PTO_RUN_OPTION_MAP(X)
#undef X
    /* `folder` is an address as well, which means nothing in another process */
    to->diagnostics.folder = NULL;
}

/* Rejects requests that the chip does not support, so that the backend does not see them. */
int chip_start(struct chip *chip, const struct chip_request *request)
{
    const struct chip_properties *can = &chip->properties;
    const struct pto_run_options *options = request->options;

    if ((request->functions != NULL && !can->runs_functions) ||
        (request->purpose != CHIP_RUN && !can->has_graphs) ||
        ((options->edge != NULL || options->task != NULL || options->step != NULL) &&
         !can->has_observers) ||
        (options->has_nan_check && !can->has_nan_check) ||
        (options->trace != PTO_TRACE_OFF && !can->has_recorder) ||
        (options->trace == PTO_TRACE_ARGUMENTS && !can->records_tasks) ||
        (options->has_guards && !can->has_guards))
        return PTO_ENOSUP;
    return chip->backend->runs->start(chip, request);
}

void chip_wait(struct chip *chip)
{
    chip->backend->runs->wait(chip);
}

int chip_poll(struct chip *chip)
{
    return chip->backend->runs->poll(chip);
}

void chip_cancel(struct chip *chip, uint64_t number)
{
    chip->backend->runs->cancel(chip, number);
}

uint64_t chip_progress(struct chip *chip)
{
    return chip->backend->runs->progress(chip);
}

const struct chip_result *chip_report(struct chip *chip, struct pto_run_report *report)
{
    return chip->backend->runs->report(chip, report);
}

void chip_drop(struct chip *chip, struct chip_graph *graph)
{
    if (graph != NULL)
        chip->backend->runs->drop(chip, graph);
}

int chip_record(struct chip *chip, struct chip_record *record_out)
{
    return chip->backend->runs->record != NULL ? chip->backend->runs->record(chip, record_out)
                                               : PTO_ENOSUP;
}

/* ---- virtual time ---- */

int chip_time_set(struct chip *chip, const struct pto_virtual_options *options,
                  struct pto_error *error)
{
    return chip->backend->time != NULL
               ? chip->backend->time->set(chip, options, error)
               : error_setf(error, PTO_ENOSUP,
                            "the device has no virtual time; open it with is_virtual");
}

int chip_time_report(struct chip *chip, struct pto_virtual_report *report)
{
    if (chip->backend->time == NULL)
        return PTO_ENOSUP;
    chip->backend->time->report(chip, report);
    return PTO_OK;
}

int chip_time_kernel(struct chip *chip, uint32_t index, struct pto_virtual_kernel *kernel)
{
    if (chip->backend->time == NULL)
        return PTO_ENOSUP;
    return chip->backend->time->kernel(chip, index, kernel) ? PTO_OK : PTO_EINVAL;
}

int chip_time_join(struct chip *chip, const struct shared_clock_place *place)
{
    if (chip->backend->time == NULL)
        return PTO_ENOSUP;
    chip->backend->time->join(chip, place);
    return PTO_OK;
}
