// SPDX-License-Identifier: Apache-2.0
//
// Which task waits for which. What edges there are is in the test, by the positions of the submits.
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

// 0 creates; whoever names it waits, even NO_DEP and manual_dep, but for 6, in a MANUAL scope.
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

// The operand of a predicate orders nothing.
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

// In a MANUAL scope nothing is looked up; what is named counts, if it is to be waited for.
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
}
