/* SPDX-License-Identifier: Apache-2.0 */
/* The backends, and what is checked once for all of them. */
#include "chip/chip.h"

#include <assert.h>
#include <string.h>

#include "base/atomic.h"
#include "base/error.h"
#include "base/os.h"
#include "chip/backend.h"
#include "link/hello.h"

#define BYTES_MAX (1ull << 46) /* of one allocation: sums with it never wrap */

static const struct chip_backend *const backends[] = {
    &sim_backend,
    &sim_isolated_backend,
    &cann_backend,
    &chip_null_backend,
};

enum { BACKENDS = sizeof(backends) / sizeof(backends[0]) };

/* A count; it decides nothing. */
static struct a32 stuck_threads;

const struct chip_backend *chip_backend_at(uint32_t index)
{
    return index < BACKENDS ? backends[index] : NULL;
}

/* ---- open, close ---- */

int chip_open(const struct chip_params *params, struct chip **chip_out, struct pto_error *error)
{
    for (uint32_t i = 0; i < BACKENDS; i++)
        if (strcmp(backends[i]->name, params->backend) == 0)
            return backends[i]->device->open(params, chip_out, error);
    return error_tell(error, PTO_ENOSUP, "this build has no backend \"%.40s\"", params->backend);
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
    return chip == NULL || chip->backend->device->close(chip);
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
    return a32_load_relaxed(&stuck_threads); /* a count */
}

void chip_count_stuck(int32_t change)
{
    a32_add_relaxed(&stuck_threads, (uint32_t)change); /* a count */
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

bool chip_can_adopt(const struct chip *chip)
{
    return chip->backend->memory->adopt != NULL;
}

int chip_adopt(struct chip *chip, uint64_t addr, uint64_t bytes)
{
    if (!chip_can_adopt(chip))
        return PTO_ENOSUP;
    return bytes != 0 && bytes <= BYTES_MAX ? chip->backend->memory->adopt(chip, addr, bytes)
                                            : PTO_EINVAL;
}

void chip_disown(struct chip *chip, uint64_t addr)
{
    chip->backend->memory->disown(chip, addr);
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
        return error_tell(error, PTO_EINVAL,
                          "a window of %llu bytes for rank %u of %u cannot be had: there can be %d "
                          "ranks",
                          (unsigned long long)request->bytes, request->rank, request->rank_count,
                          CHIP_WINDOW_RANKS);
    return chip->backend->windows->offer(chip, request, window_out, offer, error);
}

int chip_window_join(struct chip *chip, struct chip_window *window, const struct chip_offer *offer,
                     const struct chip_patience *patience, struct pto_error *error)
{
    return chip->backend->windows->join(chip, window, offer, patience, error);
}

int chip_window_drop(struct chip *chip, struct chip_window *window, struct pto_error *error)
{
    return window == NULL ? PTO_OK : chip->backend->windows->drop(chip, window, error);
}

/* ---- code and runs ---- */

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

/* What the chip cannot do is refused before it hears of it. */
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

/* Whether the value of a field means the same in another process. */
#define CROSSES(field) \
    _Generic((field), const char *: false, pto_edge_fn: false, pto_task_fn: false, default: true)

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
    to->diagnostics.folder = NULL; /* an address, too */
}

int chip_start(struct chip *chip, const struct chip_request *request)
{
    const struct chip_properties *can = &chip->properties;
    const struct pto_run_options *options = request->options;

    if ((request->functions != NULL && !can->runs_functions) ||
        (request->purpose != CHIP_RUN && !can->has_graphs) ||
        ((options->edge != NULL || options->task != NULL) && !can->has_observers) ||
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
