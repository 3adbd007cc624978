// SPDX-License-Identifier: Apache-2.0
//
// What tasks do, and each way to fail. The entry has one tensor, int32 [64], all zero.
#include "pto_orchestration_api.h"

#include "what.h"

namespace
{

// A task with (to, from; what, value).
struct Task : CoreTaskArgs {
    Task(const ChipTensor &to, const ChipTensor &from, enum what what, int32_t value,
         TensorArgType use = TensorArgType::INOUT)
    {
        if (use == TensorArgType::INPUT)
            add_input(to);
        else if (use == TensorArgType::OUTPUT_EXISTING)
            add_output(to);
        else if (use == TensorArgType::NO_DEP)
            add_no_dep(to);
        else
            add_inout(to);
        add_no_dep(from);
        add_scalar(static_cast<int32_t>(what), value);
    }
    TaskOutputTensors run()
    {
        return rt_submit_aiv_task(ON_AIV, *this);
    }
};

void set_blocks(CoreTaskArgs &args, int16_t count)
{
#if defined(SRC_A5_RUNTIME_TENSORMAP_AND_RINGBUFFER_RUNTIME_PTO_TYPES_H_)
    args.launch_spec.set_core_num(count);
#else
    args.launch_spec.set_block_num(count);
#endif
}

ChipTensor part(const ChipTensor &t, uint32_t at, uint32_t count)
{
    return t.view(&count, &at);
}

TaskOutputTensors create(uint32_t count, int32_t value)
{
    TensorCreateInfo info(&count, 1, DataType::INT32);

    info.set_initial_value(value);
    return alloc_tensors(info);
}

} // namespace

extern "C" {

// ---- tasks: what they leave in the tensor is in the test ----

// Waves of blocks, each once; the AIC runs them as well.
void blocks(const ChipTaskArgs &entry)
{
    ChipTensor low = part(entry.tensor(0).ref(), 0, 40), high = part(entry.tensor(0).ref(), 40, 24);
    Task wide(low, low, BLOCK, 0), cube(high, high, BLOCK, 0);

    set_blocks(wide, 40);
    wide.run();
    set_blocks(cube, 24);
    rt_submit_aic_task(ON_AIC, cube);
}

// Lanes of one cluster; an AIV1 alone is an AIV0; AIVs without an AIC.
void lanes(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    ChipTensor low = part(t, 0, 2), high = part(t, 2, 2);
    MixedKernels pair = { INVALID_KERNEL_ID, ON_AIV, ON_AIV };
    Task both(low, low, COUNT, 1), alone(high, high, COUNT, 1), mixed(t, t, COUNT, 10);

    rt_submit_task(pair, both);
    rt_submit_task({ INVALID_KERNEL_ID, INVALID_KERNEL_ID, ON_AIV }, alone);
    rt_submit_task({ ON_AIC, ON_AIV, ON_AIV }, mixed);
    ChipTensor which = part(t, 4, 2);
    Task left(which, which, LANE, 0), right(which, which, LANE, 1);
    rt_submit_task({ ON_AIC, ON_AIV, INVALID_KERNEL_ID }, left);
    rt_submit_task({ ON_AIC, INVALID_KERNEL_ID, ON_AIV }, right);
}

// Sixteen AIVs that wait for each other.
void gang(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    Task meet(t, t, MEET, rt_available_aiv_count());

    set_blocks(meet, static_cast<int16_t>(rt_available_aiv_count()));
    meet.launch_spec.set_require_sync_start(true);
    meet.set_allow_early_resolve();
    meet.run();
}

// Elements are sign-extended; one without storage does not count.
void predicates(const ChipTaskArgs &entry)
{
    static const struct {
        PredicateOp op;
        int64_t target;
    } when[] = { { PredicateOp::EQ, -5 }, { PredicateOp::NE, -5 }, { PredicateOp::GT, -6 },
                 { PredicateOp::LT, -6 }, { PredicateOp::GE, -5 }, { PredicateOp::LE, -5 },
                 { PredicateOp::NONE, 0 } };
    const ChipTensor &t = entry.tensor(0).ref();
    ChipTensor flag = part(t, 63, 1), nowhere = flag;
    CoreTaskPredicate p;
    PTO2TaskId last;

    last = Task(flag, flag, SET, -5).run().task_id();
    p.operand.tensor = &flag;
    p.operand.ndims = 1;
    for (uint32_t i = 0; i < 7; i++) {
        ChipTensor to = part(t, i, 1);
        Task task(to, to, SET, 1);

        p.op = when[i].op;
        p.target = when[i].target;
        task.set_predicate(p);
        task.set_dependencies(&last, 1);
        task.run();
    }
    ChipTensor to = part(t, 7, 1);
    Task task(to, to, SET, 1);
    nowhere.buffer.addr = 0;
    p.operand.tensor = &nowhere;
    p.op = PredicateOp::EQ;
    p.target = 77;
    task.set_predicate(p);
    task.run();
}

// A dummy has outputs and is waited for; initial values fill them; results flow on.
void outputs(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    const uint32_t count = 4;
    TensorCreateInfo info(&count, 1, DataType::INT32);
    TaskOutputTensors filled = create(4, 21);
    CoreTaskArgs barrier;
    ChipTensor low = part(t, 0, 4), high = part(t, 4, 4);

    Task(low, filled.get_ref(0), COPY, 1).run();
    barrier.add_inout(low);
    barrier.add_output(info);
    TaskOutputTensors made = rt_submit_dummy_task(barrier);
    Task(made.get_ref(0), low, COPY, 100, TensorArgType::OUTPUT_EXISTING).run();
    CoreTaskArgsWithDeps<> args; // orders it after the writer of the other's output
    args.add_output(high);
    args.add_input(made.get_ref(0));
    args.add_scalar(static_cast<int32_t>(COPY), 1000);
    args.add_dep(made.task_id());
    rt_submit_aiv_task(ON_AIV, args);
}

// Elements of memory from outside. What streams also waits for a task.
void elements(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    const uint32_t at[1] = { 5 };
    ChipTensor tail = part(t, 10, 4);

    set_tensor_data(t, 1, at, int32_t{ -7 });
    set_tensor_data(t, 0, nullptr, 3.5f);
    if (get_tensor_data<int32_t>(t, 1, at) != -7 || get_tensor_data<float>(t, 0, nullptr) != 3.5f)
        rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "an element");
#ifdef PTO_FOR_STREAM
    Task(tail, tail, SET, 42).run();
    if (get_tensor_data<int32_t>(tail, 0, nullptr) != 42)
        rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "an element of a task");
#else
    Task(tail, tail, SET, 42).run();
#endif
}

// Each completes when another has raised its counter.
void deferred(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    ChipTensor counter = part(t, 0, 1), result = part(t, 1, 1);
    PTO2TaskId waits;

    PTO2_SCOPE(PTO2ScopeMode::MANUAL)
    {
        waits = Task(counter, counter, DEFER, 0).run().task_id();
        Task(counter, counter, COUNT, 1).run();
        Task after(result, counter, COPY, 10);
        after.set_dependencies(&waits, 1);
        after.run();
    }
}

// ---- edges: which there are is in the test, by the positions of the submits ----

// 0 writes; 1 reads; 2 writes without reading; 3 reads; 4 reads and writes; 5 reads.
void order_of_uses(const ChipTaskArgs &entry)
{
    ChipTensor t = part(entry.tensor(0).ref(), 0, 4);

    Task(t, t, COUNT, 1).run();
    Task(t, t, COUNT, 1, TensorArgType::INPUT).run();
    Task(t, t, COUNT, 1, TensorArgType::OUTPUT_EXISTING).run();
    Task(t, t, COUNT, 1, TensorArgType::INPUT).run();
    Task(t, t, COUNT, 1).run();
    Task(t, t, COUNT, 1, TensorArgType::INPUT).run();
}

// 0 creates; whoever names it waits, as often as it is named, even NO_DEP and manual_dep.
void order_of_creators(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    const uint32_t count = 4, zero = 0;
    TensorCreateInfo info(&count, 1, DataType::INT32);
    CoreTaskArgs make;

    make.add_output(info);
    make.add_no_dep(t);
    make.add_scalar(static_cast<int32_t>(SET), 0);
    TaskOutputTensors made = rt_submit_aiv_task(ON_AIV, make);
    ChipTensor manual = made.get_ref(0).view(&count, &zero, true);
    Task(manual, manual, COUNT, 1).run();
    Task(manual, manual, COUNT, 1).run();
    Task(made.get_ref(0), t, COUNT, 1, TensorArgType::NO_DEP).run();
}

// Parts that touch but do not meet; one that meets both; another type, by elements.
void order_of_parts(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    const uint32_t rows[2] = { 8, 8 }, box[2] = { 8, 2 }, left[2] = { 0, 0 }, right[2] = { 0, 2 };
    ChipTensor matrix = t.reshape(rows, 2);
    ChipTensor one = matrix.view(box, left), other = matrix.view(box, right), row = part(t, 0, 8);

    Task(one, one, COUNT, 1).run();
    Task(other, other, COUNT, 1).run();
    Task(row, row, COUNT, 1, TensorArgType::INPUT).run();
    ChipTensor newer = row;
    newer.version = 1;
    newer.start_offset = 60;
    newer.shapes[0] = 4;
    newer.extent_elem_cache = 4;
    Task(newer, newer, COUNT, 1, TensorArgType::INPUT).run();
}

// In a MANUAL scope nothing is looked up; what is named counts; ids that are gone do, too.
void order_by_hand(const ChipTaskArgs &entry)
{
    ChipTensor t = part(entry.tensor(0).ref(), 0, 4);
    PTO2TaskId ids[2];

    PTO2_SCOPE(PTO2ScopeMode::MANUAL)
    {
        ids[0] = Task(t, t, COUNT, 1).run().task_id();
        ids[1] = Task(t, t, COUNT, 1).run().task_id();
        Task named(t, t, COUNT, 1);
        named.set_dependencies(ids, 2);
        named.run();
    }
    Task(t, t, COUNT, 1).run(); // what was written there is not known
}

// ---- failures: the status is in the test ----

void fatal(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    const uint32_t at[1] = { 1 };

    rt_report_fatal(PTO2_ERROR_NONE, "nothing");
    if (rt_is_fatal())
        return;
    rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "because of %d", 3);
    rt_report_fatal(PTO2_ERROR_INVALID_ARGS, "too late");
    TaskOutputTensors none = Task(t, t, SET, 1).run();
    rt_scope_begin();
    set_tensor_data(t, 1, at, 9);
    PTO2_SCOPE()
    {
        none = create(4, 0);
    }
    rt_scope_end();
    if (!rt_is_fatal() || !none.empty() || none.task_id().is_valid() ||
        get_tensor_data<int32_t>(t, 1, at) != 0)
        abort();
}

void thrown(const ChipTaskArgs &entry)
{
    PTO2_SCOPE()
    {
        always_assert(entry.tensor_count() == 99);
    }
}

void no_lane(const ChipTaskArgs &entry)
{
    Task task(entry.tensor(0).ref(), entry.tensor(0).ref(), SET, 1);

    rt_submit_task(MixedKernels{}, task);
}

void no_blocks(const ChipTaskArgs &entry)
{
    Task task(entry.tensor(0).ref(), entry.tensor(0).ref(), SET, 1);

    set_blocks(task, 0);
    task.run();
}

void wrong_arguments(const ChipTaskArgs &entry)
{
    Task task(entry.tensor(0).ref(), entry.tensor(0).ref(), SET, 1);

    task.set_dependencies(nullptr, 4);
    task.run();
}

void wrong_dependency(const ChipTaskArgs &entry)
{
    const PTO2TaskId invalid = PTO2TaskId::invalid();
    Task task(entry.tensor(0).ref(), entry.tensor(0).ref(), SET, 1);

    task.set_dependencies(&invalid, 1);
    task.run();
}

void auto_in_manual(const ChipTaskArgs &)
{
    PTO2_SCOPE(PTO2ScopeMode::MANUAL)
    {
        PTO2_SCOPE()
        {
        }
    }
}

void alloc_nothing(const ChipTaskArgs &)
{
    alloc_tensors(CoreTaskArgs());
}

void alloc_scalar(const ChipTaskArgs &)
{
    const uint32_t count = 4;
    TensorCreateInfo info(&count, 1);
    CoreTaskArgs args;

    args.add_output(info);
    args.add_scalar(1);
    alloc_tensors(args);
}

void alloc_input(const ChipTaskArgs &entry)
{
    CoreTaskArgs args;

    args.add_input(entry.tensor(0).ref());
    alloc_tensors(args);
}

void gang_too_wide(const ChipTaskArgs &entry)
{
    Task task(entry.tensor(0).ref(), entry.tensor(0).ref(), SET, 1);

    set_blocks(task, static_cast<int16_t>(rt_available_aiv_count() + 1));
    task.launch_spec.set_require_sync_start(true);
    task.run();
}

void read_what_is_made(const ChipTaskArgs &)
{
    TaskOutputTensors made = create(4, 1);

    (void)get_tensor_data(made.get_ref(0), 0, nullptr);
}

void never_complete(const ChipTaskArgs &entry)
{
    Task(entry.tensor(0).ref(), entry.tensor(0).ref(), DEFER, 0).run();
}

void wait_for_data(const ChipTaskArgs &entry)
{
    never_complete(entry);
    (void)get_tensor_data(entry.tensor(0).ref(), 0, nullptr);
}

void too_many_conditions(const ChipTaskArgs &entry)
{
    Task(entry.tensor(0).ref(), entry.tensor(0).ref(), DEFER, DEFER_TOO_MANY).run();
}

void unknown_condition(const ChipTaskArgs &entry)
{
    Task(entry.tensor(0).ref(), entry.tensor(0).ref(), DEFER, DEFER_UNKNOWN).run();
}

// With small rings.
void fill_scope(const ChipTaskArgs &)
{
    CoreTaskArgs args;

    PTO2_SCOPE()
    {
        for (int i = 0; i < 8; i++)
            rt_submit_dummy_task(args);
    }
}

void fill_heap(const ChipTaskArgs &)
{
    const uint32_t bytes = 32 * 1024;
    TensorCreateInfo info(&bytes, 1, DataType::INT8);

    alloc_tensors(info);
}

static void nest(int depth)
{
    CoreTaskArgs args;

    PTO2_SCOPE()
    {
        for (int i = 0; i < 2; i++)
            rt_submit_dummy_task(args);
        if (depth > 1)
            nest(depth - 1);
    }
}

void fill_window(const ChipTaskArgs &)
{
    nest(8);
}

void fill_dependencies(const ChipTaskArgs &)
{
    static PTO2TaskId ids[128];
    CoreTaskArgs args, last;

    for (PTO2TaskId &id : ids)
        id = rt_submit_dummy_task(args).task_id();
    last.set_dependencies(ids, 128);
    rt_submit_dummy_task(last);
}

int runs_of_object;

// Which device a submit reaches: each has an object of its own.
void own_variables(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();

    runs_of_object++;
    for (int i = 0; i < 100; i++)
        Task(t, t, COUNT, runs_of_object).run();
}
}
