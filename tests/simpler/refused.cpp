// SPDX-License-Identifier: Apache-2.0
//
// What must not compile: the lines that end with "refused". tests/system/simpler_refused.sh
// looks for an error of each of them, and for one of any other line.
#include "pto_orchestration_api.h"

static ChipTensor make();
static TensorCreateInfo make_info();

// Generated code includes nothing else for these.
std::string text(const ChipTensor &t)
{
    uint32_t shape[2] = { std::min<uint32_t>(t.shapes[0], 4), 1 };
    float number;

    static_assert(std::is_same_v<decltype(t.shapes[0]), const uint32_t &> ||
                      std::is_same_v<decltype(t.shapes[0]), uint32_t>,
                  "");
    memcpy(&number, shape, sizeof(number));
    always_assert(from_u64<float>(to_u64(number)) == number || PTO2_ERROR_NONE == 0);
#if SIMPLER_ORCH_PROFILING
#error "nothing is measured here"
#endif
    return get_dtype_name(DataType::FLOAT32);
}

void entry(const ChipTaskArgs &args)
{
    const ChipTensor &t = args.tensor(0).ref();
    TensorCreateInfo info = make_info();
    CoreTaskArgs a;

    a.add_input(t);
    a.add_input(make());           // refused
    a.add_inout(t, make());        // refused
    a.add_no_dep(make(), t);       // refused
    a.add_output(make_info());     // refused
    a.add_output(info, t);         // refused
    a.add_input(info);             // refused
    a.add_input();                 // refused
    a.add_scalar(&t);              // refused
    a.add_scalar();                // refused
    a.dump(1);                     // refused
    a.dump(t);
    CoreTaskArgs b(a);             // refused
    b = a;                         // refused
    const TaskOutputTensors out = alloc_tensors(info);
    (void)out.get_ref(0);
    (void)alloc_tensors(info).get_ref(0); // refused
    (void)alloc_tensors();         // refused
    (void)alloc_tensors(info, t);  // refused
    CoreTaskArgsWithDeps<> deps;
    deps.add_dep(out.task_id());
    deps.add_dep(1);               // refused
    deps.set_dependencies(nullptr, 0);   // refused
    deps.set_predicate(CoreTaskPredicate()); // refused
    deps.dump(t);                  // refused
    rt_submit_aiv_task(0, deps);
    rt_submit_aiv_task(0, CoreTaskArgsWithDeps<>()); // refused
    rt_submit_dummy_task(deps);    // refused
    PTO2ScopeGuard scope = PTO2ScopeMode::MANUAL; // refused
    (void)to_u64(t);               // refused
#if defined(PTO_FOR_A5) && defined(PTO_FOR_STREAM)
    a.launch_spec.set_core_num(1);
    a.launch_spec.set_block_num(1); // refused
#else
    a.launch_spec.set_block_num(1);
    a.launch_spec.set_core_num(1); // refused
#endif
#ifndef PTO_FOR_HOST
    GraphTaskArgs graph;           // refused
#endif
}
