// SPDX-License-Identifier: Apache-2.0
/*
 * Graphs of host-built orchestrations. The body of a graph is called directly each time:
 * its tasks are submitted like any others, so nothing has to be recorded, and no key is
 * looked up.
 */
#ifndef PTO_SIMPLER_GRAPH_API_H
#define PTO_SIMPLER_GRAPH_API_H

#include <utility>

#include "pto_orchestration_api.h"

inline constexpr uint32_t GRAPH_MAX_TENSOR_ARGS = 128;
inline constexpr uint32_t GRAPH_MAX_SCALAR_ARGS = 64;
inline constexpr uint32_t GRAPH_MAX_DEFINITIONS = 16;

using GraphTaskArgs = Arg<GRAPH_MAX_TENSOR_ARGS, GRAPH_MAX_SCALAR_ARGS>;
using TaskSubmitResult = TaskOutputTensors;

struct GraphScopeResult {
    bool execute_block{ true };
    bool recording{ false };
    PTO2TaskId task_id{ PTO2TaskId::invalid() };
    void *recording_handle{ nullptr };
};
using GraphSubmitResult = GraphScopeResult;

// Returns the FNV-1a hash of a name.
constexpr uint64_t GRAPH_KEY(const char *name)
{
    uint64_t hash = 1469598103934665603u;

    for (; *name != '\0'; name++)
        hash = (hash ^ static_cast<uint8_t>(*name)) * 1099511628211u;
    return hash;
}

// Returns a key for a graph's body and the values with which it was built.
template <typename... Config> inline uint64_t rt_graph_make_key(uint64_t graph_id, Config... config)
{
    uint64_t hash = graph_id;

    ((hash = (hash ^ to_u64(config)) * 1099511628211u), ...);
    return hash;
}

// Whether the graph's arguments have no outputs that the runtime would have to allocate.
inline bool rt_graph_args_cacheable(const GraphTaskArgs &args)
{
    for (int32_t i = 0; i < args.tensor_count(); i++)
        if (args.tag(i) == TensorArgType::OUTPUT)
            return false;
    return !args.has_error && args.tensor_count() > 0;
}

inline GraphScopeResult rt_graph_begin(uint64_t, const GraphTaskArgs &)
{
    return GraphScopeResult{};
}
inline bool rt_graph_prepare(void *, const GraphTaskArgs &)
{
    return false;
}
inline void rt_graph_abort(void *)
{
}
inline bool rt_graph_end()
{
    return true;
}
inline void rt_graph_commit()
{
}

using GraphFunction = void (*)(const GraphTaskArgs &);
template <typename... Config>
using GraphFunctionWithConfig = void (*)(const GraphTaskArgs &, Config...);

// Calls the body of a graph. Invalid arguments of the graph end the run, as those of a task do.
template <typename... Config>
inline GraphSubmitResult rt_submit_graph(uint64_t graph_id,
                                         GraphFunctionWithConfig<Config...> function,
                                         const GraphTaskArgs &args,
                                         std::common_type_t<Config>... config)
{
    (void)graph_id;
    debug_assert(function != nullptr);
    if (args.has_error)
        simpler::report_fatal(PTO2_ERROR_INVALID_ARGS, "rt_submit_graph", "%s", args.error_msg);
    else if (function != nullptr && !rt_is_fatal())
        function(args, config...);
    return GraphSubmitResult{};
}

template <typename... Config>
inline GraphSubmitResult rt_submit_graph(GraphFunctionWithConfig<Config...> function,
                                         const GraphTaskArgs &args,
                                         std::common_type_t<Config>... config)
{
    return rt_submit_graph(0, function, args, config...);
}

#endif
