// SPDX-License-Identifier: Apache-2.0
// Arguments that keep their own list of tasks to wait for.
#ifndef PTO_SIMPLER_ARG_WITH_DEPS_H
#define PTO_SIMPLER_ARG_WITH_DEPS_H

#include "pto_orchestration_api.h"

template <size_t MAX_DEP_COUNT = 16> class CoreTaskArgsWithDeps : private CoreTaskArgs
{
  public:
    using CoreTaskArgs::add_inout;
    using CoreTaskArgs::add_input;
    using CoreTaskArgs::add_no_dep;
    using CoreTaskArgs::add_output;
    using CoreTaskArgs::add_scalar;
    using CoreTaskArgs::add_scalars;
    using CoreTaskArgs::add_scalars_i32;
    using CoreTaskArgs::allow_early_resolve;
    using CoreTaskArgs::copy_scalars_from;
    using CoreTaskArgs::error_msg;
    using CoreTaskArgs::has_error;
    using CoreTaskArgs::launch_spec;
    using CoreTaskArgs::set_allow_early_resolve;
    using CoreTaskArgs::set_error;
    using CoreTaskArgs::set_task_timing_slot;
    using CoreTaskArgs::task_timing_slot;

    // Adds tasks to wait for, whose outputs live until this task has completed.
    template <typename... Ids> void add_dep(Ids... ids)
    {
        add_ids(DEP_WAIT | DEP_RETAIN, ids...);
    }
    // Adds tasks to wait for, without keeping their outputs.
    template <typename... Ids> void add_dep_wait(Ids... ids)
    {
        add_ids(DEP_WAIT, ids...);
    }

    void reset()
    {
        CoreTaskArgs::reset();
        count_ = 0;
    }

    // Called by the submit: returns the arguments with the list of tasks.
    CoreTaskArgs &finalize_for_submit()
    {
        set_dependencies(nullptr, 0);
        set_dependencies_with_kinds(deps_, kinds_, count_);
        return *this;
    }

  private:
    template <typename... Ids> void add_ids(DepFlags kind, Ids... ids)
    {
        static_assert(sizeof...(Ids) >= 1 && (std::is_same_v<std::decay_t<Ids>, PTO2TaskId> && ...),
                      "add_dep and add_dep_wait take one or more PTO2TaskId");
        if (count_ + sizeof...(Ids) > MAX_DEP_COUNT) {
            set_error("add_dep: more tasks than CoreTaskArgsWithDeps<N> has room for");
            return;
        }
        ((deps_[count_] = ids, kinds_[count_] = kind, count_++), ...);
    }

    PTO2TaskId deps_[MAX_DEP_COUNT];
    DepFlags kinds_[MAX_DEP_COUNT];
    uint32_t count_{ 0 };
};

template <size_t N>
inline TaskOutputTensors rt_submit_task(const MixedKernels &mixed_kernels,
                                        CoreTaskArgsWithDeps<N> &args,
                                        const char *file = __builtin_FILE(),
                                        int line = __builtin_LINE())
{
    return rt_submit_task(mixed_kernels, args.finalize_for_submit(), file, line);
}

template <size_t N>
inline TaskOutputTensors rt_submit_aic_task(int32_t kernel_id, CoreTaskArgsWithDeps<N> &args,
                                            const char *file = __builtin_FILE(),
                                            int line = __builtin_LINE())
{
    return rt_submit_aic_task(kernel_id, args.finalize_for_submit(), file, line);
}

template <size_t N>
inline TaskOutputTensors rt_submit_aiv_task(int32_t kernel_id, CoreTaskArgsWithDeps<N> &args,
                                            const char *file = __builtin_FILE(),
                                            int line = __builtin_LINE())
{
    return rt_submit_aiv_task(kernel_id, args.finalize_for_submit(), file, line);
}

#endif
