// SPDX-License-Identifier: Apache-2.0
/*
 * The orchestration API of simpler, in C++17, over pto/orch.h. Sources written for it
 * compile with these headers; `pto build`, `pto run` and `pto test` have them in their
 * path. docs/compat/code.md lists the differences.
 *
 * The functions take no handle: the handle is a variable of the object, so the object is loaded
 * once for each device. The loader recognises such an object by its symbol pto_simpler_bind.
 */
#ifndef PTO_SIMPLER_ORCHESTRATION_API_H
#define PTO_SIMPLER_ORCHESTRATION_API_H

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <type_traits>

#include "pto_runtime_status.h"
#include "pto_types.h"
#include "spin_hint.h"

struct PTO2OrchestrationConfig {
    int expected_arg_count;
};

namespace simpler
{

using EntryFunction = void (*)(const ChipTaskArgs &);
using ConfigFunction = PTO2OrchestrationConfig (*)(const ChipTaskArgs &);
using LogFunction = void (*)(int level, const char *function, const char *format, va_list values);

__attribute__((visibility("hidden"))) inline struct pto_orch *runtime;
__attribute__((visibility("hidden"))) inline EntryFunction entry_function;
__attribute__((visibility(
    "hidden"))) inline ConfigFunction config_function; // returns the configuration; may be NULL
__attribute__((visibility("hidden"))) inline LogFunction log_function;

/*
 * The runtime keeps the address of a source location for later errors, so each location has an
 * entry that stays, found by its line. One object runs on one device, so one thread at a time uses
 * these entries.
 */
enum { SITES = 4096, SITE_PROBES = 64 };
__attribute__((visibility("hidden"))) inline struct pto_site sites[SITES];

// Returns the entry of a source location; NULL: there are too many, and messages omit the location.
__attribute__((noinline)) inline const struct pto_site *find_site(const char *file, int line)
{
    for (uint32_t i = 0; i < SITE_PROBES; i++) {
        struct pto_site *site = &sites[(static_cast<uint32_t>(line) + i * i) % SITES];

        if (site->file == nullptr)
            *site = { file, line };
        if (site->file == file && site->line == line)
            return site;
    }
    return nullptr;
}

inline const struct pto_site *site_of(const char *file, int line)
{
    const struct pto_site *site = &sites[static_cast<uint32_t>(line) % SITES];

    return __builtin_expect(site->line == line && site->file == file, 1) ? site
                                                                         : find_site(file, line);
}

__attribute__((cold, noinline, format(printf, 3, 4))) inline void report_fatal(int32_t code,
                                                                               const char *function,
                                                                               const char *format,
                                                                               ...)
{
    char text[512];
    int length = std::snprintf(text, sizeof(text), "%s: ", function);
    va_list args;

    va_start(args, format);
    if (length >= 0 && static_cast<size_t>(length) < sizeof(text))
        std::vsnprintf(text + length, sizeof(text) - static_cast<size_t>(length), format, args);
    va_end(args);
    if (code != PTO2_ERROR_NONE)
        (void)runtime->ops->report(runtime, code > 0 ? -code : code, text);
}

/*
 * Writes a log line. Levels are those of simpler's log: 10 debug, 20 info, 25 timing, 30 warning,
 * 40 error.
 */
__attribute__((cold, noinline, format(printf, 3, 4))) inline void log(int level,
                                                                      const char *function,
                                                                      const char *format, ...)
{
    va_list values;

    va_start(values, format);
    log_function(level, function, format, values);
    va_end(values);
}

inline TaskOutputTensors submit(struct pto_kernels kernels, const CoreTaskArgs &args,
                                const struct pto_site *site)
{
    return TaskOutputTensors(pto_submit_at(runtime, kernels, args.launched(), site));
}

// Ends the run, because a call was invalid.
__attribute__((cold, noinline)) inline TaskOutputTensors refuse(const char *why, const char *file,
                                                                int line)
{
    report_fatal(PTO2_ERROR_INVALID_ARGS, "rt_submit_task", "%s, %s:%d", why, file, line);
    return TaskOutputTensors();
}

#ifdef PTO_FOR_HOST
// Whether a task of a host-built graph has more invocations, and so more blocks, than are allowed.
inline bool has_too_many(const struct pto_kernels &kernels, const CoreTaskArgs &args)
{
    const int32_t lanes = (kernels.aic >= 0) + (kernels.aiv0 >= 0) + (kernels.aiv1 >= 0);

    return lanes * args.launch_spec.block_num() > INT16_MAX;
}
#endif

inline TaskOutputTensors alloc(const CoreTaskArgs &args, const struct pto_site *site)
{
    return TaskOutputTensors(pto_alloc_at(runtime, args.launched(), site));
}

} // namespace simpler

// ---- tasks ----

/*
 * Submits a task with kernels for the lanes of one cluster; the run fails if no lane has a kernel.
 * A single AIV kernel runs on the first AIV lane.
 */
inline TaskOutputTensors rt_submit_task(const MixedKernels &mixed_kernels, const CoreTaskArgs &args,
                                        const char *file = __builtin_FILE(),
                                        int line = __builtin_LINE())
{
    struct pto_kernels kernels = { mixed_kernels.aic_kernel_id, mixed_kernels.aiv0_kernel_id,
                                   mixed_kernels.aiv1_kernel_id };

    if (kernels.aic < 0 && kernels.aiv0 < 0) {
        kernels.aiv0 = kernels.aiv1;
        kernels.aiv1 = INVALID_KERNEL_ID;
        if (kernels.aiv0 < 0)
            return simpler::refuse("no lane has a kernel", file, line);
    }
#ifdef PTO_FOR_HOST
    if (simpler::has_too_many(kernels, args))
        return simpler::refuse("a task has at most 32767 executions, its blocks times its lanes",
                               file, line);
#endif
    return simpler::submit(kernels, args, simpler::site_of(file, line));
}

inline TaskOutputTensors rt_submit_aic_task(int32_t kernel_id, const CoreTaskArgs &args,
                                            const char *file = __builtin_FILE(),
                                            int line = __builtin_LINE())
{
    return simpler::submit({ kernel_id, -1, -1 }, args, simpler::site_of(file, line));
}

inline TaskOutputTensors rt_submit_aiv_task(int32_t kernel_id, const CoreTaskArgs &args,
                                            const char *file = __builtin_FILE(),
                                            int line = __builtin_LINE())
{
    return simpler::submit({ -1, kernel_id, -1 }, args, simpler::site_of(file, line));
}

// Submits a task without kernels, which orders other tasks and allocates outputs.
inline TaskOutputTensors rt_submit_dummy_task(const CoreTaskArgs &args,
                                              const char *file = __builtin_FILE(),
                                              int line = __builtin_LINE())
{
    return simpler::submit({ -1, -1, -1 }, args, simpler::site_of(file, line));
}

// Allocates outputs, which exist when the call returns.
inline TaskOutputTensors alloc_tensors(const CoreTaskArgs &args,
                                       const char *file = __builtin_FILE(),
                                       int line = __builtin_LINE())
{
    return simpler::alloc(args, simpler::site_of(file, line));
}

inline TaskOutputTensors alloc_tensors(const TensorCreateInfo create_infos[], uint32_t count,
                                       const char *file = __builtin_FILE(),
                                       int line = __builtin_LINE())
{
    CoreTaskArgs args;

    for (uint32_t i = 0; i < count; i++)
        args.add_output(create_infos[i]);
    return simpler::alloc(args, simpler::site_of(file, line));
}

template <typename... Infos, typename = std::enable_if_t<
                                 (sizeof...(Infos) > 0) &&
                                 (std::is_same_v<std::decay_t<Infos>, TensorCreateInfo> && ...)>>
inline TaskOutputTensors alloc_tensors(const Infos &...infos)
{
    CoreTaskArgs args;

    args.add_output(infos...);
    return simpler::alloc(args, nullptr);
}

// ---- scopes ----

inline void rt_scope_begin(PTO2ScopeMode mode = PTO2ScopeMode::AUTO,
                           const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    (void)simpler::runtime->ops->scope_begin(
        simpler::runtime, static_cast<enum pto_scope_mode>(mode), simpler::site_of(file, line));
}

inline void rt_scope_end()
{
    (void)pto_scope_end(simpler::runtime);
}

class PTO2ScopeGuard
{
  public:
    explicit PTO2ScopeGuard(PTO2ScopeMode mode = PTO2ScopeMode::AUTO,
                            const char *file = __builtin_FILE(), int line = __builtin_LINE())
    {
        rt_scope_begin(mode, file, line);
    }
    ~PTO2ScopeGuard()
    {
        rt_scope_end();
    }
};

#define PTO_SIMPLER_JOIN_(a, b) a##b
#define PTO_SIMPLER_JOIN(a, b) PTO_SIMPLER_JOIN_(a, b)
#define PTO2_SCOPE_GUARD(...)                                                         \
    [[maybe_unused]] PTO2ScopeGuard PTO_SIMPLER_JOIN(pto_simpler_scope_, __COUNTER__) \
    {                                                                                 \
        __VA_ARGS__                                                                   \
    }
// PTO2_SCOPE() { ... }: the scope ends however the block is left.
#define PTO2_SCOPE(...) \
    if (PTO2ScopeGuard PTO_SIMPLER_JOIN(pto_simpler_scope_, __COUNTER__){ __VA_ARGS__ }; true)

// ---- single elements ----

template <typename T = uint64_t>
inline T get_tensor_data(const ChipTensor &tensor, uint32_t ndims, const uint32_t indices[],
                         const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return from_u64<T>(pto_get_data_at(simpler::runtime,
                                       reinterpret_cast<const struct pto_tensor *>(&tensor), ndims,
                                       indices, simpler::site_of(file, line)));
}

template <typename T = uint64_t>
inline void set_tensor_data(const ChipTensor &tensor, uint32_t ndims, const uint32_t indices[],
                            T value, const char *file = __builtin_FILE(),
                            int line = __builtin_LINE())
{
    (void)simpler::runtime->ops->set_data(
        simpler::runtime, reinterpret_cast<const struct pto_tensor *>(&tensor), ndims, indices,
        simpler::site_of(file, line), to_u64(value));
}

// ---- reports and queries ----

inline int32_t rt_available_cluster_count()
{
    return static_cast<int32_t>(pto_cluster_count(simpler::runtime));
}

inline int32_t rt_available_aiv_count()
{
    return static_cast<int32_t>(pto_aiv_count(simpler::runtime));
}

inline bool rt_is_fatal()
{
    return pto_orch_status(simpler::runtime) < 0;
}

// Does nothing, because a run is complete when its orchestration returns.
inline void rt_orchestration_done()
{
}

// Ends the run. Its status is the negative of the first code other than 0.
#define rt_report_fatal(code, ...) simpler::report_fatal((code), __FUNCTION__, __VA_ARGS__)

#define LOG_ERROR(...) simpler::log(40, __FUNCTION__, __VA_ARGS__)
#define LOG_WARN(...) simpler::log(30, __FUNCTION__, __VA_ARGS__)
#define LOG_TIMING(...) simpler::log(25, __FUNCTION__, __VA_ARGS__)
#define LOG_INFO(...) simpler::log(20, __FUNCTION__, __VA_ARGS__)
#define LOG_DEBUG(...) simpler::log(10, __FUNCTION__, __VA_ARGS__)

#ifdef PTO_FOR_HOST
#include "pto_graph_api.h"
#endif
#include "pto_arg_with_deps.h"

// ---- how the runtime enters an object ----

namespace simpler
{

/*
 * The function that the runtime calls. It catches exceptions that derive from std::exception only;
 * the runtime catches all others.
 */
inline void orchestrate(struct pto_orch *handle, const struct pto_entry *entry)
{
    ChipTaskArgs args;
    int expected = 0;

    runtime = handle;
    args.create_from_entry(*entry);
    const int given = args.tensor_count() + args.scalar_count();

    try {
        if (config_function != nullptr && pto_is_streamed(handle))
            expected = config_function(args).expected_arg_count;
        if (expected > given)
            report_fatal(1, "config", "%d arguments were expected, %d were given", expected, given);
        else
            entry_function(args);
    } catch (const std::exception &e) {
        report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "the orchestration threw", "%s", e.what());
    }
}

} // namespace simpler

/*
 * Called by the loader with the callable's entry, its configuration, which may be NULL, and
 * the log function. Returns the function that the runtime calls.
 */
extern "C" __attribute__((weak, visibility("default"))) pto_orch_fn pto_simpler_bind(
    simpler::EntryFunction entry, simpler::ConfigFunction config, simpler::LogFunction log)
{
    simpler::entry_function = entry;
    simpler::config_function = config;
    simpler::log_function = log;
    return simpler::orchestrate;
}

#endif
