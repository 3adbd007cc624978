// SPDX-License-Identifier: Apache-2.0
//
// Every name of the interface. What does not hold ends the run with the line.
#include "pto_orchestration_api.h"

#include "aicpu/cache_maintenance.h"
#include "common/platform_config.h"
#include "platform_comm/comm_context.h"
#include "runtime.h"
#include "what.h"

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition))                                                                         \
            rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "line %d: %s", __LINE__, #condition); \
    } while (0)

// Each of these makes the called code throw an exception; the run continues.
#define CHECK_THROWS(statement)                                                           \
    do {                                                                                  \
        bool has_thrown = false;                                                          \
        try {                                                                             \
            statement;                                                                    \
        } catch (const AssertionError &e) {                                               \
            has_thrown = e.line() > 0 && e.file() != nullptr && e.condition() != nullptr; \
        }                                                                                 \
        CHECK(has_thrown);                                                                \
    } while (0)

static_assert(CORE_MAX_TENSOR_ARGS == 32 && MAX_TENSOR_ARGS == 32, "");
static_assert(CORE_MAX_SCALAR_ARGS == 16 && MAX_SCALAR_ARGS == 16, "");
static_assert(CHIP_MAX_TENSOR_ARGS == 256 && CHIP_MAX_SCALAR_ARGS == 128, "");
static_assert(MAX_TENSOR_DIMS == 5 && INVALID_KERNEL_ID == -1, "");
static_assert(NUM_TASK_TIMING_SLOTS == 16 && TASK_TIMING_SLOT_NONE == -1, "");
static_assert(COMM_MAX_RANK_NUM == 64, "");
static_assert(AddressSpace::HOST == AddressSpace(0) && AddressSpace::DEVICE == AddressSpace(1), "");
static_assert(sizeof(DataType) == 1 && sizeof(AddressSpace) == 1, "");
static_assert(SIMPLER_ORCH_PROFILING == 0, "");
#ifdef PTO_FOR_A5
static_assert(PLATFORM_PROF_SYS_CNT_FREQ == 1000000000 && PLATFORM_MAX_CORES == 108, "");
#else
static_assert(PLATFORM_PROF_SYS_CNT_FREQ == 50000000 && PLATFORM_MAX_CORES == 72, "");
#endif

static_assert(PTO2_ERROR_NONE == 0 && PTO2_ERROR_SCOPE_DEADLOCK == 1, "");
static_assert(PTO2_ERROR_HEAP_RING_DEADLOCK == 2 && PTO2_ERROR_FLOW_CONTROL_DEADLOCK == 3, "");
static_assert(PTO2_ERROR_DEP_POOL_OVERFLOW == 4 && PTO2_ERROR_INVALID_ARGS == 5, "");
static_assert(PTO2_ERROR_REQUIRE_SYNC_START_INVALID == 7, "");
static_assert(PTO2_ERROR_TENSOR_WAIT_TIMEOUT == 8 && PTO2_ERROR_EXPLICIT_ORCH_FATAL == 9, "");
static_assert(PTO2_ERROR_SCOPE_TASKS_OVERFLOW == 10 && PTO2_ERROR_TENSORMAP_OVERFLOW == 11, "");
static_assert(PTO2_ERROR_SCHEDULER_TIMEOUT == 100 && PTO2_ERROR_ASYNC_COMPLETION_INVALID == 101, "");
static_assert(PTO2_ERROR_ASYNC_WAIT_OVERFLOW == 102, "");
static_assert(PTO2_ERROR_ASYNC_REGISTRATION_FAILED == 103, "");

// Offsets at which kernels and other programs read the fields.
static_assert(sizeof(ChipTensor) == 128 && alignof(ChipTensor) == 64, "");
static_assert(std::is_trivially_copyable_v<ChipTensor>, "");
static_assert(offsetof(ChipTensor, buffer.addr) == 0 && offsetof(ChipTensor, buffer.size) == 8, "");
static_assert(offsetof(ChipTensor, owner_task_id) == 16, "");
static_assert(offsetof(ChipTensor, start_offset) == 24 && offsetof(ChipTensor, version) == 32, "");
static_assert(offsetof(ChipTensor, ndims) == 36 && offsetof(ChipTensor, dtype) == 40, "");
static_assert(offsetof(ChipTensor, manual_dep) == 41, "");
static_assert(offsetof(ChipTensor, is_contiguous) == 42, "");
static_assert(offsetof(ChipTensor, address_space) == 43 && offsetof(ChipTensor, shapes) == 44, "");
static_assert(offsetof(ChipTensor, extent_elem_cache) == 64, "");
static_assert(offsetof(ChipTensor, strides) == 72, "");
static_assert(alignof(TensorCreateInfo) == 64, "");
static_assert(offsetof(TensorCreateInfo, initial_value) == 0, "");
static_assert(offsetof(TensorCreateInfo, has_initial_value) == 8, "");
static_assert(offsetof(TensorCreateInfo, version) == 32 && offsetof(TensorCreateInfo, ndims) == 36, "");
static_assert(offsetof(TensorCreateInfo, dtype) == 40 && offsetof(TensorCreateInfo, shapes) == 44, "");
static_assert(sizeof(PTO2LaunchSpec) == 4 && sizeof(MixedKernels) == 12, "");
static_assert(sizeof(PTO2OrchestrationConfig) == 4 && sizeof(PTO2TaskId) == 8, "");

// Differences that are visible by which names exist.
template <typename Spec> static auto count_of(const Spec &s) -> decltype(s.block_num())
{
    return s.block_num();
}
template <typename Spec> static auto count_of(const Spec &s) -> decltype(s.core_num())
{
    return s.core_num();
}
template <typename Spec> static auto set_count(Spec &s, int n) -> decltype(s.set_block_num(n), 0)
{
    s.set_block_num(static_cast<int16_t>(n));
    return s.block_num();
}
template <typename Spec> static auto set_count(Spec &s, int n) -> decltype(s.set_core_num(n), 0)
{
    s.set_core_num(static_cast<int16_t>(n));
    return s.core_num();
}
#if defined(SRC_A5_RUNTIME_TENSORMAP_AND_RINGBUFFER_RUNTIME_PTO_TYPES_H_) != \
    (defined(PTO_FOR_A5) && defined(PTO_FOR_STREAM))
#error "the guard by which code knows an A5 that streams"
#endif

extern "C" {

PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs &)
{
    return PTO2OrchestrationConfig{ .expected_arg_count = 2 };
}

void scalars_and_types(const ChipTaskArgs &entry)
{
    enum class Color : int16_t { RED = -2 };
    const uint64_t sizes[] = { 4, 2, 4, 2, 1, 1, 2, 8, 8, 2, 4, 1, 1, 1, 1 };
    const DataType types[] = { DataType::FLOAT32,   DataType::FLOAT16, DataType::INT32,
                               DataType::INT16,     DataType::INT8,    DataType::UINT8,
                               DataType::BFLOAT16,  DataType::INT64,   DataType::UINT64,
                               DataType::UINT16,    DataType::UINT32,  DataType::BOOL,
                               DataType::FP8E4M3FN, DataType::FP8E8M0, DataType::FP4E2M1 };
    const char *const names[] = { "FLOAT32",   "FLOAT16", "INT32",    "INT16", "INT8",
                                  "UINT8",     "BFLOAT16", "INT64",   "UINT64", "UINT16",
                                  "UINT32",    "BOOL",    "FP8E4M3FN", "FP8E8M0", "FP4E2M1" };

    CHECK(entry.tensor_count() == 1 && entry.scalar_count() == 1);
    CHECK(from_u64<int32_t>(entry.scalar(0)) == 7);
    for (int i = 0; i < 15; i++)
        CHECK(static_cast<int>(types[i]) == i && get_element_size(types[i]) == sizes[i]);
    CHECK(static_cast<int>(DataType::DATA_TYPE_NUM) == 15);
    CHECK(get_element_size(DataType::DATA_TYPE_NUM) == 0);
    for (int i = 0; i < 15; i++)
        CHECK(get_dtype_name(types[i]) == std::string(names[i]));
    CHECK(to_u64(int32_t{ -1 }) == 0xffffffffu && to_u64(Color::RED) == 0xfffe);
    CHECK(to_u64(1.5f) == 0x3fc00000u && from_u64<float>(0x3fc00000u) == 1.5f);
    CHECK(from_u64<int8_t>(0x80) == -128 && from_u64<double>(to_u64(-2.5)) == -2.5);
    CHECK(dtype_of<double>() == static_cast<uint8_t>(DataType::FLOAT32));
    CHECK(dtype_of<int16_t>() == static_cast<uint8_t>(DataType::INT16));
    CHECK(dtype_of<Color>() == static_cast<uint8_t>(DataType::UINT64));
    CHECK(is_supported_scalar_arg_v<Color> && !is_supported_scalar_arg_v<void *>);
    cache_invalidate_range(&entry, sizeof(entry));
    cache_flush_range(&entry, sizeof(entry));
}

void task_ids(const ChipTaskArgs &)
{
    PTO2TaskId ids[2];

    ids[0] = PTO2TaskId::make(3, 70000);
    ids[1] = ids[0];
    CHECK(ids[0].raw == (uint64_t{ 3 } << 32 | 70000) && ids[1] == ids[0]);
    CHECK(ids[0].ring() == 3 && ids[0].local() == 70000 && ids[0].is_valid());
    CHECK(PTO2TaskId::invalid().is_invalid() && PTO2TaskId::invalid() != ids[0]);
    CHECK(PTO2TaskId::invalid().raw == UINT64_MAX);
}

void tensors(const ChipTaskArgs &)
{
    static int32_t memory[64];
    const uint32_t shape[2] = { 4, 8 }, box[2] = { 2, 3 }, at[2] = { 1, 2 }, none[2] = { 0, 3 };
    const uint32_t far[2] = { 3, 0 }, turned[2] = { 1, 0 }, strides[2] = { 16, 2 };
    ChipTensor t =
        make_tensor_external(memory, shape, 2, DataType::INT32, true, 3, AddressSpace::DEVICE);

    CHECK(t.numel() == 32 && t.nbytes() == 128 && t.buffer.size == 128 && t.extent_elem() == 32);
    CHECK(t.is_contiguous && t.manual_dep && t.version == 3 && t.is_device_memory());
    CHECK(t.owner_task_id.is_invalid() && t.start_offset == 0 && t.strides[0] == 8);
    ChipTensor v = t.view(box, at);
    CHECK(v.start_offset == 10 && v.shapes[0] == 2 && v.strides[0] == 8 && !v.is_contiguous);
    CHECK(v.extent_elem() == 11 && !v.manual_dep && v.version == 3 && v.is_device_memory());
    CHECK(v.data_as<int32_t>() == memory && v.compute_flat_offset(at, 2) == 10 + 8 + 2);
    CHECK(t.view(box, at, true).manual_dep);
    v = t.view(none, far);
    CHECK(v.start_offset == 0 && v.is_contiguous && v.extent_elem() == 0 && v.numel() == 0);
    v = t.transpose(0, 1);
    CHECK(v.shapes[0] == 8 && v.strides[0] == 1 && !v.is_contiguous && !v.manual_dep);
    v = t.permute(turned);
    CHECK(v.shapes[1] == 4 && v.strides[1] == 8 && v.extent_elem() == 32);
    v = t.slice(1, 1, 8, 3);
    CHECK(v.shapes[1] == 3 && v.strides[1] == 3 && v.start_offset == 1);
    const uint32_t flat[3] = { 1, 2, 16 }, row[2] = { 1, 8 }, behind[2] = { 2, 0 };
    v = t.view(row, behind).reshape(row + 1, 1);
    CHECK(v.ndims == 1 && v.start_offset == 16 && v.shapes[0] == 8);
    CHECK_THROWS((void)t.reshape(row, 2));
    CHECK_THROWS((void)t.transpose(0, 1).reshape(flat, 3));
    v = t.reshape(flat, 3);
    CHECK(v.ndims == 3 && v.strides[0] == 32 && v.strides[1] == 16 && v.is_contiguous);
    v = t.view(row, behind); // a dimension of size 1 is checked like any other
    CHECK(v.is_contiguous && v.start_offset == 16);
    const uint32_t part[2] = { 1, 3 };
    CHECK(!t.view(part, behind).is_contiguous && t.view(part, behind).extent_elem() == 3);
    v = make_tensor_strided(memory, box, strides, 2, DataType::INT32);
    CHECK(v.buffer.size == 4 * (16 + 2 * 2 + 1) && !v.is_contiguous);
    CHECK(!v.dump().empty() && v.dump().find("INT32") != std::string::npos);
    CHECK_THROWS((void)t.view(shape, at));
    CHECK_THROWS((void)t.slice(0, 2, 2));
    CHECK_THROWS((void)make_tensor_external(memory, shape, 0));
    CHECK_THROWS((void)make_tensor_external(memory, shape, 6));
    const PTO2TaskId owner = PTO2TaskId::make(1, 2);
    t.owner_task_id = owner; // views have the owner, version and space of the tensor that they show
    for (const ChipTensor &shown : { t.view(box, at, true), t.reshape(flat, 3, true),
                                     t.transpose(0, 1, true), t.permute(turned, true),
                                     t.slice(1, 2, 4, 1, true) })
        CHECK(shown.manual_dep && shown.owner_task_id == owner && shown.version == 3 &&
              shown.is_device_memory() && shown.buffer.size == 128);
    CHECK(!t.reshape(flat, 3).manual_dep && !t.permute(turned).manual_dep);
    CHECK(!t.slice(1, 2, 4).manual_dep && t.slice(1, 2, 4).strides[1] == 1);
    v.init_external(memory, 200, shape, 2, DataType::INT16, 4);
    CHECK(v.buffer.size == 200 && v.nbytes() == 64 && v.version == 4 && v.owner_task_id.is_invalid());
    CHECK(!v.manual_dep && !v.is_device_memory() && v.is_contiguous && v.strides[0] == 8);
    v.copy(t);
    CHECK(v.owner_task_id == owner && v.dtype == DataType::INT32);
    v.init_from(make_tensor_external(memory, row + 1, 1));
    CHECK(v.ndims == 1 && v.shapes[0] == 8 && v.dtype == DataType::FLOAT32);
    Tensor old = t; // the previous name
    old.ndims = 1;
    CHECK(old.numel() == 4);
}

void create_infos(const ChipTaskArgs &)
{
    const uint32_t shape[2] = { 3, 5 };
    TensorCreateInfo info(shape, 2, DataType::FLOAT16, true), other;

    CHECK(sizeof(info) == 64 && info.buffer_size_bytes() == 30 && info.manual_dep);
    CHECK(!info.has_initial_value && info.is_contiguous && info.shapes[1] == 5 && info.ndims == 2);
    info.set_initial_value(int16_t{ -1 });
    CHECK(info.has_initial_value && info.initial_value == 0xffff);
    other.copy(info);
    CHECK(other.initial_value == 0xffff && other.dtype == DataType::FLOAT16);
    CHECK_THROWS(TensorCreateInfo(shape, 0));
    CHECK_THROWS(TensorCreateInfo(shape, 6));

    int16_t memory[16];
    ChipTensor t;
    init_tensor_from_create_info(t, info, memory, sizeof(memory));
    CHECK(memory[0] == -1 && memory[15] == -1 && t.buffer.size == 32 && t.strides[0] == 5);
}

void arguments(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    const uint32_t shape[1] = { 2 };
    TensorCreateInfo info(shape, 1);
    const PTO2TaskId ids[2] = { PTO2TaskId::make(0, 1), PTO2TaskId::make(0, 2) };
    const DepFlags kinds[2] = { DEP_WAIT, DEP_WAIT | DEP_RETAIN };
    const uint64_t words[2] = { 5, 6 };
    const int32_t ints[2] = { -1, 8 };
    int32_t twice = 9;
    CoreTaskArgs a;

    CHECK(count_of(a.launch_spec) == 1 && !a.launch_spec.require_sync_start());
    CHECK(!a.allow_early_resolve() && a.task_timing_slot() == TASK_TIMING_SLOT_NONE);
    a.add_input(t, t);
    a.add_output(info);
    a.add_inout(t);
    a.add_output(t);
    a.add_no_dep(t);
    CHECK(a.tensor_count() == 6 && a.tag(0) == TensorArgType::INPUT);
    CHECK(a.tag(2) == TensorArgType::OUTPUT && a.tag(3) == TensorArgType::INOUT);
    CHECK(a.tag(4) == TensorArgType::OUTPUT_EXISTING && a.tag_data()[5] == TensorArgType::NO_DEP);
    CHECK(&a.tensor(0).ref() == &t && &a.tensor_data()[2].create_info() == &info);
    a.add_scalar(1.5f, int32_t{ -1 }, true);
    a.add_scalars(words, 2);
    a.add_scalars_i32(ints, 2);
    CHECK(a.scalar_count() == 7 && a.scalar(0) == 0x3fc00000u && a.scalar(1) == 0xffffffffu);
    CHECK(a.scalars()[4] == 6 && a.scalar_data()[5] == 0xffffffffu);
    a.dump(t, info);
    CHECK(a.dump_arg_mask() == 5);
    CHECK(!a.has_error && a.error_msg == nullptr);
    a.add_scalar(twice, twice);
    a.dump(twice);
    CHECK(a.dump_arg_mask() == (5 | 1 << 13) && !a.has_error);
    CoreTaskArgs b;
    b.copy_scalars_from(a, 3, 2);
    CHECK(b.scalar_count() == 2 && b.scalar(1) == 6);
    b.add_input(t);
    CHECK(b.has_error && std::string(b.error_msg).find("after add_scalar") != std::string::npos);
    const std::string said = b.error_msg;
    b.set_task_timing_slot(16);
    CHECK(b.error_msg == said && b.task_timing_slot() == TASK_TIMING_SLOT_NONE);
    b.clear();
    CHECK(b.has_error && b.scalar_count() == 0);
    CHECK(set_count(b.launch_spec, 12) == 12);
    b.launch_spec.set_require_sync_start(true);
    b.set_allow_early_resolve();
    b.set_task_timing_slot(15);
    b.reset();
    CHECK(!b.has_error && b.launch_spec.require_sync_start() && !b.allow_early_resolve());
    CHECK(count_of(b.launch_spec) == 12); // what was set of blocks stays
    b.set_task_timing_slot(-1);
    CHECK(b.has_error);
    b.reset();
    CHECK(set_count(b.launch_spec, 3) == 3 && b.task_timing_slot() == -1);

    b.set_dependencies(ids, 2);
    CHECK(b.explicit_dep_count() == 2 && b.explicit_dep(1) == ids[1]);
    CHECK(b.explicit_dep_kind(0) == (DEP_WAIT | DEP_RETAIN) && b.explicit_deps_data() == ids);
    b.set_dependencies(nullptr, 0);
    CHECK(b.explicit_dep_count() == 0 && !b.has_error);
    b.set_dependencies_with_kinds(ids, kinds, 2);
    CHECK(dep_has_wait(b.explicit_dep_kind(0)) && !dep_has_retain(b.explicit_dep_kind(0)));
    CHECK_THROWS((void)b.explicit_dep(2));
    b.set_dependencies(ids, 1);
    CHECK(b.has_error); // twice
    b.reset();
    b.set_dependencies(nullptr, 4);
    CHECK(b.has_error);
    b.reset();
    CoreTaskPredicate p;
    CHECK(b.predicate().op == PredicateOp::NONE);
    p.operand.tensor = &t;
    p.operand.ndims = 1;
    p.op = PredicateOp::GE;
    p.target = -3;
    b.set_predicate(p);
    CHECK(b.predicate().op == PredicateOp::GE && b.predicate().target == -3);
    b.dump(t);
    CHECK(b.has_error); // it was not added
    b.reset();
    b.dump();
    CHECK(b.has_error); // nothing was
    L0TaskArgs many;
    for (int i = 0; i < 32; i++)
        many.add_input(t);
    CHECK(!many.has_error);
    many.add_input(t);
    CHECK(many.has_error && many.tensor_count() == 32);
    many.reset();
    for (int i = 0; i < 17; i++)
        many.add_scalar(i);
    CHECK(many.has_error && many.scalar_count() == 16);
}

void with_dependencies(const ChipTaskArgs &entry)
{
    CoreTaskArgsWithDeps<2> a;
    const PTO2TaskId id = PTO2TaskId::make(0, 0);

    a.add_inout(entry.tensor(0).ref());
    a.add_scalar(1);
    a.add_dep(id);
    a.add_dep_wait(id);
    a.set_allow_early_resolve();
    a.set_task_timing_slot(3);
    CHECK(a.allow_early_resolve() && a.task_timing_slot() == 3);
    CHECK(set_count(a.launch_spec, 2) == 2 && !a.launch_spec.require_sync_start());
    CHECK(!a.has_error && a.finalize_for_submit().explicit_dep_count() == 2);
    CHECK(a.finalize_for_submit().explicit_dep_kind(1) == DEP_WAIT);
    a.add_dep(id);
    CHECK(a.has_error);
    a.reset();
    CHECK(!a.has_error && a.finalize_for_submit().explicit_dep_count() == 0);
    CHECK(!a.allow_early_resolve() && a.task_timing_slot() == TASK_TIMING_SLOT_NONE);
    a.set_error("first");
    a.set_error("second");
    CHECK(a.has_error && std::string(a.error_msg) == "first");
}

void results(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    const uint32_t shape[1] = { 100 };
    TensorCreateInfo first(shape, 1, DataType::INT32), second(shape, 1, DataType::INT8);
    const TensorCreateInfo both[2] = { first, second };
    CoreTaskArgs a;

    CHECK(TaskOutputTensors().empty() && TaskOutputTensors().task_id().is_invalid());
    a.add_output(t);
    a.add_output(first);
    a.add_inout(t);
    a.add_output(second);
    TaskOutputTensors out = rt_submit_dummy_task(a);
    CHECK(out.size() == 2 && !out.empty() && out.task_id().is_valid());
    CHECK(out.get_ref(0).dtype == DataType::INT32 && out.get_ref(1).dtype == DataType::INT8);
    CHECK(out.get_ref(0).owner_task_id == out.task_id() && out.get_ref(1).buffer.size == 1024);
    // They follow each other, in the order of the arguments.
    CHECK(out.get_ref(1).buffer.addr == out.get_ref(0).buffer.addr + 1024);
    CHECK(out.get_ref(0).start_offset == 0 && out.get_ref(0).nbytes() == 400);
    const MixedKernels nothing;
    CHECK(nothing.aic_kernel_id == -1 && nothing.aiv0_kernel_id == -1);
    CHECK(nothing.aiv1_kernel_id == INVALID_KERNEL_ID);
    CHECK_THROWS((void)out.get_ref(2));
    CHECK(alloc_tensors(first, second).size() == 2);
    TaskOutputTensors list = alloc_tensors(both, 2);
    CHECK(list.size() == 2 && list.get_ref(1).nbytes() == 100);
    CoreTaskArgs only;
    only.add_output(first);
    CHECK(alloc_tensors(only).task_id().is_valid());
    CHECK(rt_available_cluster_count() == 8 && rt_available_aiv_count() == 16);
    CHECK(!rt_is_fatal());
    rt_orchestration_done();
}

void scopes(const ChipTaskArgs &)
{
    CoreTaskArgs a;

    PTO2_SCOPE()
    {
        CHECK(rt_submit_dummy_task(a).task_id().ring() == 1);
    }
    for (int i = 0; i < 3; i++)
        PTO2_SCOPE(PTO2ScopeMode::MANUAL)
        {
            PTO2_SCOPE(PTO2ScopeMode::MANUAL)
            {
                CHECK(rt_submit_dummy_task(a).task_id().is_valid());
            }
            if (i == 1)
                break;
        }
    {
        PTO2_SCOPE_GUARD();
        PTO2ScopeGuard inner(PTO2ScopeMode::AUTO); // the mode of the loop above does not apply here
        rt_scope_begin();
        CHECK(rt_submit_dummy_task(a).task_id().ring() == 3);
        rt_scope_end();
    }
    CHECK(rt_submit_dummy_task(a).task_id().ring() == 0);
#ifdef PTO_FOR_STREAM
    {
        PTO2_SCOPE_GUARD(PTO2ScopeMode::MANUAL);
        rt_scope_begin(PTO2ScopeMode::MANUAL);
        rt_scope_end();
    }
#endif
    for (int i = 0; i < 63; i++)
        rt_scope_begin();
    for (int i = 0; i < 63; i++)
        rt_scope_end();
}

void lines_of_log(const ChipTaskArgs &)
{
    LOG_DEBUG("debug %d", 1);
    LOG_INFO("info");
    LOG_TIMING("timing %s", "here");
    LOG_WARN("warning");
    LOG_ERROR("error %d", 2);
}

#ifdef PTO_FOR_HOST
static int graph_calls;

static void graph_body(const GraphTaskArgs &args, int value, bool is_last)
{
    const ChipTensor &t = args.tensor(0).ref();
    CoreTaskArgs a;

    graph_calls += is_last ? value : 0;
    a.add_inout(t);
    a.add_input(t);
    a.add_scalar(static_cast<int32_t>(COUNT), args.scalar(0));
    rt_submit_aiv_task(ON_AIV, a);
}

static void graph_plain(const GraphTaskArgs &args)
{
    graph_body(args, 0, false);
}

void graphs(const ChipTaskArgs &entry)
{
    GraphTaskArgs args;
    static_assert(GRAPH_KEY("a") == 0xaf63dc4c8601ec8cull ||
                      GRAPH_KEY("a") != GRAPH_KEY("b"), // by name, when it is compiled
                  "");

    static_assert(GRAPH_MAX_TENSOR_ARGS == 128 && GRAPH_MAX_SCALAR_ARGS == 64, "");
    static_assert(GRAPH_MAX_DEFINITIONS == 16, "");
    args.add_inout(entry.tensor(0).ref());
    args.add_scalar(1);
    CHECK(rt_graph_args_cacheable(args));
    rt_submit_graph(graph_body, args, 5, true);
    rt_submit_graph(GRAPH_KEY("body"), graph_body, args, 6, false);
    rt_submit_graph(graph_plain, args);
    CHECK(rt_submit_graph(uint64_t{ 9 }, graph_plain, args).execute_block);
    CHECK(graph_calls == 5);
    CHECK(!rt_graph_begin(rt_graph_make_key(1, 2), args).recording && rt_graph_end());
    rt_graph_abort(nullptr);
    rt_graph_commit();
    TaskSubmitResult none;
    CHECK(none.empty());
}
#endif
}
