// SPDX-License-Identifier: Apache-2.0
//
// What tasks do, and each way to fail. The entry has one tensor, int32 [64], filled with zeros.
#include "task.h"

extern "C" {

// ---- tasks: what they leave in the tensor is in the test ----

// Several rounds of blocks, each of which runs once; the AIC runs them as well.
void blocks(const ChipTaskArgs &entry)
{
    ChipTensor low = part(entry.tensor(0).ref(), 0, 40), high = part(entry.tensor(0).ref(), 40, 24);
    Task wide(low, low, BLOCK, 0), cube(high, high, BLOCK, 0);

    set_blocks(wide, 40);
    wide.run();
    set_blocks(cube, 24);
    rt_submit_aic_task(ON_AIC, cube);
}

// Blocks start in the order of their numbers if one thread runs all of them.
void order_of_blocks(const ChipTaskArgs &entry)
{
    ChipTensor to = part(entry.tensor(0).ref(), 0, 40), turn = part(entry.tensor(0).ref(), 63, 1);
    Task task(to, turn, ORDER, 0);

    set_blocks(task, 40);
    task.run();
}

// A task completes when all lanes of all blocks have returned.
void completion(const ChipTaskArgs &entry)
{
    ChipTensor count = part(entry.tensor(0).ref(), 0, 1), seen = part(entry.tensor(0).ref(), 1, 1);
    Task wide(count, count, COUNT, 1);
    Task after(seen, count, COPY, 0);

    set_blocks(wide, 40);
    const PTO2TaskId id = rt_submit_task({ ON_AIC, ON_AIV, ON_AIV }, wide).task_id();
    after.set_dependencies(&id, 1);
    after.run();
}

// Lanes of one cluster; a task with AIV1 alone uses AIV0; AIVs without an AIC.
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

// Blocks of an ordinary task, and lanes of a block, may wait for each other as well.
void meeting(const ChipTaskArgs &entry)
{
    ChipTensor blocks = part(entry.tensor(0).ref(), 0, 1), lanes = part(entry.tensor(0).ref(), 1, 1);
    Task meet(blocks, blocks, MEET, 8), mixed(lanes, lanes, MEET, 3);

    set_blocks(meet, 8);
    meet.run();
    rt_submit_task({ ON_AIC, ON_AIV, ON_AIV }, mixed);
}

// All blocks are running before any may return, which the orchestration sees and says. Its own
// thread may well be in one of them.
void polling(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    const int32_t count = rt_available_aiv_count();
    int32_t *counter = t.data_as<int32_t>() + t.start_offset;
    Task hold(t, t, HOLD, 0);

    set_blocks(hold, static_cast<int16_t>(count));
    hold.run();
#ifdef PTO_FOR_STREAM
    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < count && !rt_is_fatal())
        SPIN_WAIT_HINT();
#endif
    __atomic_store_n(counter + 1, 1, __ATOMIC_RELEASE);
}

// A gang on every cluster, so that each of its cores runs one block: the test knows their numbers.
static void use_cores(const ChipTaskArgs &entry, const MixedKernels &kernels, int32_t count)
{
    Task task(entry.tensor(0).ref(), entry.tensor(0).ref(), COUNT, 1);

    set_blocks(task, static_cast<int16_t>(count));
    task.launch_spec.set_require_sync_start(true);
    rt_submit_task(kernels, task);
}

void cores_of_lanes(const ChipTaskArgs &entry)
{
    use_cores(entry, { ON_AIC, ON_AIV, ON_AIV }, rt_available_cluster_count());
}

void cores_of_first_lanes(const ChipTaskArgs &entry)
{
    use_cores(entry, { ON_AIC, ON_AIV, INVALID_KERNEL_ID }, rt_available_cluster_count());
}

void cores_of_second_lanes(const ChipTaskArgs &entry)
{
    use_cores(entry, { ON_AIC, INVALID_KERNEL_ID, ON_AIV }, rt_available_cluster_count());
}

void cores_of_vectors(const ChipTaskArgs &entry)
{
    use_cores(entry, { INVALID_KERNEL_ID, ON_AIV, INVALID_KERNEL_ID }, rt_available_aiv_count());
}

void cores_of_cubes(const ChipTaskArgs &entry)
{
    use_cores(entry, { ON_AIC, INVALID_KERNEL_ID, INVALID_KERNEL_ID }, rt_available_cluster_count());
}

// All cores are held while ordinary tasks, one with lanes and a gang become ready, in this order.
// They leave their turns in [8], [9] and [10].
void priorities(const ChipTaskArgs &entry)
{
    const MixedKernels lanes = { ON_AIC, ON_AIV, ON_AIV };
    const ChipTensor &t = entry.tensor(0).ref();
    const auto clusters = static_cast<int16_t>(rt_available_cluster_count());
    int32_t *word = t.data_as<int32_t>() + t.start_offset;
    ChipTensor turns = part(t, 2, 1), to[3] = { part(t, 8, 1), part(t, 9, 1), part(t, 10, 1) };
    Task hold(t, t, HOLD, 0, TensorArgType::NO_DEP);
    Task ordinary(to[0], turns, TURN, 0, TensorArgType::NO_DEP);
    Task mixed(to[1], turns, TURN, 0, TensorArgType::NO_DEP);
    Task gang(to[2], turns, TURN, 0, TensorArgType::NO_DEP);

    set_blocks(hold, clusters);
    hold.launch_spec.set_require_sync_start(true);
    rt_submit_task(lanes, hold);
    for (int i = 0; i < 8; i++)
        ordinary.run();
    set_blocks(mixed, clusters);
    rt_submit_task(lanes, mixed);
    set_blocks(gang, static_cast<int16_t>(2 * clusters));
    gang.launch_spec.set_require_sync_start(true);
    gang.run();
    __atomic_store_n(word + 1, 1, __ATOMIC_RELEASE);
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
    const uint32_t bytes = 256;
    ChipTensor flag = part(t, 63, 1), nowhere = flag;
    CoreTaskPredicate p;
    PTO2TaskId last, ids[7];

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
        ids[i] = task.run().task_id();
    }
    ChipTensor behind = part(t, 8, 1);
    Task after(behind, behind, SET, 1); // a task that its predicate skips has completed as well
    after.set_dependencies(&ids[1], 1);
    after.run();
    ChipTensor to = part(t, 7, 1);
    Task task(to, to, SET, 1);
    nowhere.buffer.addr = 0;
    p.operand.tensor = &nowhere;
    p.op = PredicateOp::EQ;
    p.target = 77;
    task.set_predicate(p);
    task.run();
    ChipTensor byte = make_tensor_external(t.data_as<void>(), &bytes, 1, DataType::UINT8);
    ChipTensor small = part(t, 9, 1);
    Task narrow(small, small, SET, 1); // its sign counts, whatever the type says
    p.operand.tensor = &byte;
    p.operand.indices[0] = 63 * 4;
    p.target = -5;
    narrow.set_predicate(p);
    narrow.set_dependencies(&last, 1);
    narrow.run();
}

// A dummy has outputs and other tasks wait for it; initial values fill the outputs; later tasks
// read them.
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
    CoreTaskArgsWithDeps<> args; // orders the task after the writer of the other output
    args.add_output(high);
    args.add_input(made.get_ref(0));
    args.add_scalar(static_cast<int32_t>(COPY), 1000);
    args.add_dep(made.task_id());
    rt_submit_aiv_task(ON_AIV, args);
    ChipTensor padding = filled.get_ref(0), behind = part(t, 8, 4);
    padding.start_offset = 252; // all of its 1024 bytes are filled
    Task(behind, padding, COPY, 0).run();
}

// Compilers generate kernels that write to a new output which is declared as an input.
void seed(const ChipTaskArgs &entry)
{
    const uint32_t count = 1;
    TensorCreateInfo info(&count, 1, DataType::INT32);
    TaskOutputTensors fresh = alloc_tensors(info);
    PTO2TaskId writer =
        Task(fresh.get_ref(0), fresh.get_ref(0), SET, 3, TensorArgType::INPUT).run().task_id();
    Task reader(entry.tensor(0).ref(), fresh.get_ref(0), COPY, 1);

    reader.set_dependencies(&writer, 1);
    reader.run();
}

// Compilers pass an output on to the next round of a loop: its scope has ended then, and everyone
// that it was passed to may have completed. It is still what it was, although others were made.
void passed_on(const ChipTaskArgs &entry)
{
    ChipTensor kept;
    PTO2TaskId counted;

    PTO2_SCOPE()
    {
        TaskOutputTensors made = create(4, 7);

        kept = made.get_ref(0);
        counted = Task(kept, kept, COUNT, 1).run().task_id();
#ifdef PTO_FOR_STREAM
        (void)get_tensor_data(kept, 0, nullptr);
#endif
    }
    for (int i = 0; i < 8; i++)
        PTO2_SCOPE()
        {
            (void)create(4, 100);
        }
    PTO2_SCOPE(PTO2ScopeMode::MANUAL)
    {
        Task reader(entry.tensor(0).ref(), kept, COPY, 0);

        reader.set_dependencies(&counted, 1);
        reader.run();
    }
}

// The scope of a task has ended and, if tasks are streamed, the task itself; its id may still be
// named.
void gone(const ChipTaskArgs &entry)
{
    ChipTensor low = part(entry.tensor(0).ref(), 0, 1), high = part(entry.tensor(0).ref(), 1, 1);
    PTO2TaskId id;

    PTO2_SCOPE()
    {
        id = Task(low, low, SET, 1).run().task_id();
    }
#ifdef PTO_FOR_STREAM
    (void)get_tensor_data(low, 0, nullptr);
#endif
    PTO2_SCOPE(PTO2ScopeMode::MANUAL)
    {
        Task after(high, low, COPY, 1);

        after.set_dependencies(&id, 1);
        after.run();
    }
}

// Elements of external memory. A streamed run also waits for a task.
void elements(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    const uint32_t at[1] = { 5 };
    ChipTensor tail = part(t, 10, 4);

    ChipTensor nowhere = t;
    nowhere.buffer.addr = 0;
    set_tensor_data(nowhere, 1, at, int32_t{ 1 });
    if (get_tensor_data(nowhere, 1, at) != 0)
        rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "an element without memory");
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

// Each task completes when another one has raised its counter.
void deferred(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    ChipTensor counter = part(t, 0, 1), result = part(t, 1, 1);
    PTO2TaskId waits;

    PTO2_SCOPE(PTO2ScopeMode::MANUAL)
    {
        Task before(counter, counter, DEFER, 0), after(result, counter, COPY, 10);
        before.set_allow_early_resolve(); // has no effect on what the task does
        after.set_allow_early_resolve();
        waits = before.run().task_id();
        Task(counter, counter, COUNT, 1).run();
        after.set_dependencies(&waits, 1);
        after.run();
    }
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

// Runs after a deferred task, which would never complete unless the other one has run.
static void submit_two(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();

    Task(t, t, DEFER, 0, TensorArgType::NO_DEP).run();
    Task(t, t, COUNT, 1).run();
}

void fatal_after_tasks(const ChipTaskArgs &entry)
{
    submit_two(entry);
    rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "after two tasks");
}

void thrown_after_tasks(const ChipTaskArgs &entry)
{
    submit_two(entry);
    always_assert(entry.tensor_count() == 99);
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

// On three lanes. The predicate does not hold, because the test is about the submit.
static void run_on_all_lanes(const ChipTaskArgs &entry, int16_t blocks)
{
    const ChipTensor &t = entry.tensor(0).ref();
    Task task(t, t, COUNT, 1);
    CoreTaskPredicate p;

    p.operand.tensor = &t;
    p.operand.ndims = 1;
    p.op = PredicateOp::EQ;
    p.target = 99;
    task.set_predicate(p);
    set_blocks(task, blocks);
    rt_submit_task({ ON_AIC, ON_AIV, ON_AIV }, task);
}

void most_executions(const ChipTaskArgs &entry)
{
    run_on_all_lanes(entry, 32767 / 3);
}

void too_many_executions(const ChipTaskArgs &entry)
{
    run_on_all_lanes(entry, 32767 / 3 + 1);
}

void wrong_arguments(const ChipTaskArgs &entry)
{
    Task task(entry.tensor(0).ref(), entry.tensor(0).ref(), SET, 1);

    task.set_dependencies(nullptr, 4);
    task.run();
}

void too_many_tensors(const ChipTaskArgs &entry)
{
    CoreTaskArgs args;

    for (int i = 0; i <= CORE_MAX_TENSOR_ARGS; i++)
        args.add_input(entry.tensor(0).ref());
    rt_submit_dummy_task(args);
}

void own_error(const ChipTaskArgs &)
{
    CoreTaskArgs args;

    args.set_error("an error of the orchestration's own");
    rt_submit_dummy_task(args);
}

void no_scope(const ChipTaskArgs &)
{
    CoreTaskArgs args;

    rt_scope_end();
    rt_submit_dummy_task(args);
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

static void run_wide(const ChipTaskArgs &entry, const MixedKernels &kernels, int32_t cores)
{
    Task task(entry.tensor(0).ref(), entry.tensor(0).ref(), SET, 1);

    set_blocks(task, static_cast<int16_t>(cores + 1));
    task.launch_spec.set_require_sync_start(true);
    rt_submit_task(kernels, task);
}

void gang_too_wide(const ChipTaskArgs &entry)
{
    run_wide(entry, { INVALID_KERNEL_ID, ON_AIV, INVALID_KERNEL_ID }, rt_available_aiv_count());
}

void gang_too_wide_for_cubes(const ChipTaskArgs &entry)
{
    run_wide(entry, { ON_AIC, INVALID_KERNEL_ID, INVALID_KERNEL_ID }, rt_available_cluster_count());
}

void gang_too_wide_for_clusters(const ChipTaskArgs &entry)
{
    run_wide(entry, { INVALID_KERNEL_ID, ON_AIV, ON_AIV }, rt_available_cluster_count());
}

void scope_too_deep(const ChipTaskArgs &)
{
    for (int i = 0; i < 65; i++)
        rt_scope_begin();
}

void read_what_is_made(const ChipTaskArgs &)
{
    TaskOutputTensors made = create(4, 1);

    (void)get_tensor_data(made.get_ref(0), 0, nullptr);
}

// Elements of a tensor that was not made by a task of the graph.
static ChipTensor made_by_nobody(const ChipTaskArgs &entry)
{
    ChipTensor t = entry.tensor(0).ref();

    t.owner_task_id = PTO2TaskId::make(0, 12345);
    return t;
}

void read_of_nobody(const ChipTaskArgs &entry)
{
    (void)get_tensor_data(made_by_nobody(entry), 0, nullptr);
}

void write_of_nobody(const ChipTaskArgs &entry)
{
    set_tensor_data(made_by_nobody(entry), 0, nullptr, 1);
}

// A single block is not a gang, even if it is submitted as one.
void gang_of_one(const ChipTaskArgs &entry)
{
    Task task(entry.tensor(0).ref(), entry.tensor(0).ref(), SET, 1);

    task.launch_spec.set_require_sync_start(true);
    task.run();
}

void never_complete(const ChipTaskArgs &entry)
{
    Task(entry.tensor(0).ref(), entry.tensor(0).ref(), DEFER, 0).run();
}

void wait_for_data(const ChipTaskArgs &entry)
{
    never_complete(entry);
    (void)get_tensor_data(entry.tensor(0).ref(), 0, nullptr);
    *entry.tensor(0).ref().data_as<int32_t>() = 1; // too late, but it ends the task
}

// An element that one task has written and another one, which waits for the counter, reads.
static ChipTensor submit_reader(const ChipTensor &t)
{
    ChipTensor counter = part(t, 0, 1), read = part(t, 8, 1);
    CoreTaskArgs reader;

    Task(read, read, SET, 1).run();
    reader.add_no_dep(counter);
    reader.add_input(read);
    reader.add_scalar(static_cast<int32_t>(DEFER), 0);
    rt_submit_aiv_task(ON_AIV, reader);
    return read;
}

void read_beside_reader(const ChipTaskArgs &entry)
{
    if (get_tensor_data<int32_t>(submit_reader(entry.tensor(0).ref()), 0, nullptr) != 1)
        rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "an element that is also read");
    *entry.tensor(0).ref().data_as<int32_t>() = 1;
}

void write_beside_reader(const ChipTaskArgs &entry)
{
    set_tensor_data(submit_reader(entry.tensor(0).ref()), 0, nullptr, int32_t{ 2 });
    *entry.tensor(0).ref().data_as<int32_t>() = 1; // too late, but it ends the task
}

void too_many_conditions(const ChipTaskArgs &entry)
{
    Task(entry.tensor(0).ref(), entry.tensor(0).ref(), DEFER, DEFER_TOO_MANY).run();
}

// Two blocks of one task have 64 conditions each; or 65 tasks have one each.
void too_many_together(const ChipTaskArgs &entry)
{
    Task task(entry.tensor(0).ref(), entry.tensor(0).ref(), DEFER, DEFER_MANY);

    set_blocks(task, 2);
    task.run();
}

void too_many_waiting(const ChipTaskArgs &entry)
{
    PTO2_SCOPE(PTO2ScopeMode::MANUAL)
    {
        for (int i = 0; i < 65; i++)
            Task(entry.tensor(0).ref(), entry.tensor(0).ref(), DEFER, 0).run();
    }
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

// The memory of a scope's allocations is free after the scope has ended.
void use_heap_again(const ChipTaskArgs &)
{
    const uint32_t bytes = 2048;
    TensorCreateInfo info(&bytes, 1, DataType::INT8);

    for (int i = 0; i < 16; i++)
        PTO2_SCOPE()
        {
            alloc_tensors(info);
        }
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

// Every ring is full: the rings notice before the table of the scopes' tasks would, so nothing but
// an orchestration reports what follows.
static void fill_ring(int depth)
{
    CoreTaskArgs args;

    PTO2_SCOPE()
    {
        for (int i = 0; i < 3 && !rt_is_fatal(); i++)
            rt_submit_dummy_task(args);
        if (depth < 4)
            fill_ring(depth + 1);
    }
}

void fill_every_ring(const ChipTaskArgs &)
{
    CoreTaskArgs args;

    for (int i = 0; i < 3; i++)
        rt_submit_dummy_task(args);
    fill_ring(1);
}

void report_scope_tasks(const ChipTaskArgs &)
{
    rt_report_fatal(PTO2_ERROR_SCOPE_TASKS_OVERFLOW, "%d tasks in scopes", 12);
}

// A task is kept while its scope is open or another task retains it; here until the counter
// is raised, after eight tasks that need its place. To be waited for keeps nothing.
static void keep(const ChipTensor &t, DepFlags kind)
{
    ChipTensor counter = part(t, 0, 1);
    CoreTaskArgs none;
    PTO2TaskId kept;

    PTO2_SCOPE(PTO2ScopeMode::MANUAL)
    {
        kept = rt_submit_dummy_task(none).task_id();
        PTO2_SCOPE(PTO2ScopeMode::MANUAL)
        {
            Task user(counter, counter, DEFER, 0);

            user.set_dependencies_with_kinds(&kept, &kind, 1);
            user.run();
        }
    }
    for (int i = 0; i < 8; i++)
        PTO2_SCOPE()
        {
            rt_submit_dummy_task(none);
        }
    *counter.data_as<int32_t>() = 1;
}

void keep_by_waiting(const ChipTaskArgs &entry)
{
    keep(entry.tensor(0).ref(), DEP_WAIT);
}

void keep_by_retaining(const ChipTaskArgs &entry)
{
    keep(entry.tensor(0).ref(), DEP_WAIT | DEP_RETAIN);
}

// With all limits of the reference set.
void fill_regions(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    CoreTaskArgs args;

    for (int i = 0; i < CORE_MAX_TENSOR_ARGS; i++)
        args.add_output(t);
    for (int i = 0; i < 2100 && !rt_is_fatal(); i++)
        rt_submit_dummy_task(args);
}

void fill_ready(const ChipTaskArgs &)
{
    CoreTaskArgs args;

    for (int i = 0; i < 8193 && !rt_is_fatal(); i++)
        rt_submit_dummy_task(args);
}

void fill_dependencies(const ChipTaskArgs &)
{
    static PTO2TaskId ids[129];
    CoreTaskArgs args, last;

    for (PTO2TaskId &id : ids)
        id = rt_submit_dummy_task(args).task_id();
    last.set_dependencies(ids, 129);
    rt_submit_dummy_task(last);
}

int runs_of_object;

// Which device a submit reaches: each device has a separate object.
void own_variables(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();

    runs_of_object++;
    for (int i = 0; i < 100; i++)
        Task(t, t, COUNT, runs_of_object).run();
}
}
