// SPDX-License-Identifier: Apache-2.0
//
// Which task waits for which. The test has the expected edges, by the positions of the submits.
#include "task.h"

extern "C" {

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

// Task 0 creates; every task that names the output waits, even with NO_DEP and manual_dep, except
// 6, in a MANUAL scope.
// 5 writes without reading; 7 reads that.
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
    Task(made.get_ref(0), t, COUNT, 1, TensorArgType::INPUT).run();
    Task(made.get_ref(0), t, COUNT, 1, TensorArgType::OUTPUT_EXISTING).run();
    PTO2_SCOPE(PTO2ScopeMode::MANUAL)
    {
        Task(made.get_ref(0), t, COUNT, 1).run();
    }
    Task(made.get_ref(0), t, COUNT, 1, TensorArgType::INPUT).run();
}

// Parts that touch but do not meet; one that meets both; a newer version, which meets everything.
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

// 0 writes elements 0 to 7. Bytes do not count: 1 has others in its own type, 2 some of these, 3 the
// same bytes by another address.
void order_of_elements(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    const uint32_t size = 64, count = 8;
    ChipTensor first = part(t, 0, count);
    ChipTensor bytes = make_tensor_external(t.data_as<void>(), &size, 1, DataType::INT8);
    ChipTensor behind = part(bytes, 8, count), inside = part(bytes, 4, count);
    ChipTensor other = make_tensor_external(t.data_as<int32_t>() + 2, &count, 1, DataType::INT32);

    Task(first, first, COUNT, 1).run();
    Task(behind, behind, COUNT, 1, TensorArgType::INPUT).run();
    Task(inside, inside, COUNT, 1, TensorArgType::INPUT).run();
    Task(other, other, COUNT, 1, TensorArgType::INPUT).run();
}

// 0 writes two columns; 1 reads two others, but turned, which is not looked at closely; 2 writes half
// of those of 0, so that 3 waits for both; 4 writes all, so that 5 waits for nobody else.
void order_of_boxes(const ChipTaskArgs &entry)
{
    const uint32_t rows[2] = { 8, 8 }, box[2] = { 8, 2 }, half[2] = { 4, 2 };
    const uint32_t left[2] = { 0, 0 }, right[2] = { 0, 2 };
    ChipTensor matrix = entry.tensor(0).ref().reshape(rows, 2);
    ChipTensor one = matrix.view(box, left), turned = matrix.view(box, right).transpose(0, 1);
    ChipTensor upper = matrix.view(half, left);

    Task(one, one, COUNT, 1).run();
    Task(turned, turned, COUNT, 1, TensorArgType::INPUT).run();
    Task(upper, upper, COUNT, 1).run();
    Task(one, one, COUNT, 1, TensorArgType::INPUT).run();
    Task(matrix, matrix, COUNT, 1).run();
    Task(one, one, COUNT, 1, TensorArgType::INPUT).run();
}

// Regions with another number of dimensions are not looked at closely: 0 writes two columns, 1 reads
// elements between them, 2 far behind them. Those of an older version are: 3 writes a newer one, which
// 4 has nothing in common with; 5 has.
void order_of_ranks(const ChipTaskArgs &entry)
{
    const TensorArgType in = TensorArgType::INPUT;
    const ChipTensor &t = entry.tensor(0).ref();
    const uint32_t rows[2] = { 8, 8 }, box[2] = { 4, 2 }, left[2] = { 0, 0 };
    ChipTensor newer = part(t, 40, 4);

    newer.version = 1;
    Task(t.reshape(rows, 2).view(box, left), t, COUNT, 1).run();
    Task(part(t, 4, 2), t, COUNT, 1, in).run();
    Task(part(t, 32, 2), t, COUNT, 1, in).run();
    Task(newer, t, COUNT, 1, TensorArgType::OUTPUT_EXISTING).run();
    Task(part(t, 44, 4), t, COUNT, 1, in).run();
    Task(part(t, 42, 4), t, COUNT, 1, in).run();
}

// The operand of a predicate causes no dependency.
void order_of_predicates(const ChipTaskArgs &entry)
{
    ChipTensor flag = part(entry.tensor(0).ref(), 0, 1), to = part(entry.tensor(0).ref(), 1, 1);
    CoreTaskPredicate p;
    Task task(to, to, COUNT, 1);

    p.operand.tensor = &flag;
    p.op = PredicateOp::GE;
    task.set_predicate(p);
    Task(flag, flag, COUNT, 1).run();
    task.run();
}

// In a MANUAL scope no dependency is inferred; explicit ones count, unless they only retain.
void order_by_hand(const ChipTaskArgs &entry)
{
    ChipTensor t = part(entry.tensor(0).ref(), 0, 4);
    const DepFlags kinds[2] = { DEP_WAIT, DEP_RETAIN };
    PTO2TaskId ids[2];

    PTO2_SCOPE(PTO2ScopeMode::MANUAL)
    {
        ids[0] = Task(t, t, COUNT, 1).run().task_id();
        ids[1] = Task(t, t, COUNT, 1).run().task_id();
        Task named(t, t, COUNT, 1);
        named.set_dependencies(ids, 2);
        named.run();
        Task half(t, t, COUNT, 1);
        half.set_dependencies_with_kinds(ids, kinds, 2);
        half.run();
    }
    Task(t, t, COUNT, 1).run(); // what was written there is not known
}

// Arguments whose list of dependencies is kept: task 1 waits for 0, task 2 for both.
void order_of_lists(const ChipTaskArgs &entry)
{
    const ChipTensor &t = entry.tensor(0).ref();
    CoreTaskArgsWithDeps<2> cube, mixed;

    for (CoreTaskArgsWithDeps<2> *args : { &cube, &mixed }) {
        args->add_inout(t);
        args->add_no_dep(t);
        args->add_scalar(static_cast<int32_t>(COUNT), 1);
    }
    PTO2_SCOPE(PTO2ScopeMode::MANUAL)
    {
        PTO2TaskId first = Task(t, t, COUNT, 1).run().task_id();
        cube.add_dep(first);
        mixed.add_dep(rt_submit_aic_task(ON_AIC, cube).task_id());
        mixed.add_dep_wait(first);
        rt_submit_task({ ON_AIC, ON_AIV, INVALID_KERNEL_ID }, mixed);
    }
}

// A task is waited for once, for several reasons: it is named twice, created the tensor and wrote
// it.
void order_of_duplicates(const ChipTaskArgs &)
{
    const uint32_t count = 4;
    TensorCreateInfo info(&count, 1, DataType::INT32);
    TaskOutputTensors made = alloc_tensors(info);
    ChipTensor t = made.get_ref(0);

    t.owner_task_id = Task(t, t, COUNT, 1).run().task_id();
    const PTO2TaskId ids[2] = { t.owner_task_id, t.owner_task_id };
    Task last(t, t, COUNT, 1);
    last.set_dependencies(ids, 2);
    last.run();
}

// Four elements of the tensor, in pairs.
static ChipTensor pairs(const ChipTensor &t, uint64_t start, uint32_t row)
{
    ChipTensor v = t;

    v.start_offset = start;
    v.ndims = 3;
    v.shapes[0] = v.shapes[1] = 2;
    v.shapes[2] = v.strides[2] = 1;
    v.strides[0] = 16;
    v.strides[1] = row;
    v.is_contiguous = false;
    v.extent_elem_cache = 16 + row + 1;
    return v;
}

// Two regions without a common element are told apart if they are alike. 0 writes the two left
// columns, others read beside them: 1 does not wait. Another type (2), other strides (3), rows that
// do not fill the buffer (4) or a box beyond the end of a row (5) are not looked at closely, nor are
// 6 and 7 with a stride inside, and 8 and 9, where one stride is no multiple of the next; 10 and 11
// are.
void order_of_shapes(const ChipTaskArgs &entry)
{
    const TensorArgType in = TensorArgType::INPUT, out = TensorArgType::OUTPUT_EXISTING;
    const ChipTensor &t = entry.tensor(0).ref();
    const uint32_t rows[2] = { 8, 8 }, box[2] = { 8, 2 }, half[2] = { 4, 2 };
    const uint32_t left[2] = { 0, 0 }, right[2] = { 0, 2 };
    ChipTensor matrix = t.reshape(rows, 2), beside = matrix.view(box, right);
    ChipTensor type = beside, size = beside;
    ChipTensor wide = matrix.view(half, right), beyond = matrix.view(half, right);

    type.dtype = DataType::FLOAT32;
    wide.strides[0] = 16;
    wide.extent_elem_cache = 3 * 16 + 2;
    size.buffer.size -= 4;
    beyond.start_offset = 7;
    Task(matrix.view(box, left), t, COUNT, 1).run();
    for (const ChipTensor &read : { beside, type, wide, size, beyond })
        Task(read, t, COUNT, 1, in).run();
    Task(matrix.slice(1, 0, 8, 2), t, COUNT, 1, out).run();
    Task(matrix.slice(1, 1, 8, 2), t, COUNT, 1, in).run();
    Task(pairs(t, 0, 5), t, COUNT, 1, out).run();
    Task(pairs(t, 1, 5), t, COUNT, 1, in).run();
    Task(pairs(t, 0, 4), t, COUNT, 1, out).run();
    Task(pairs(t, 1, 4), t, COUNT, 1, in).run();
}
}
