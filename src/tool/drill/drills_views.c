/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drills with invalid tensors: not a view of memory, a view beyond its buffer, or a view of memory
 * whose scope has ended.
 */
#include "tool/drill/stage.h"

static void use_view(struct pto_orch *o, const struct pto_entry *entry, const struct pto_tensor *t)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_IN(t));
}

static void view_never_made(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t;

    memset(&t, 0, sizeof(t));
    use_view(o, entry, &t);
}

static void view_of_6_dimensions(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = pto_tensor_external((void *)(uintptr_t)entry->tensor[1].addr,
                                              PTO_DIMS(1, 1, 1, 1, 1, 1), 6, PTO_UINT32);

    use_view(o, entry, &t);
}

static void view_of_no_type(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = entry->tensor[1];

    t.dtype = PTO_DTYPE_COUNT;
    use_view(o, entry, &t);
}

static void view_out_of_range(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t =
        pto_tensor_view(&entry->tensor[1], PTO_DIMS(4), PTO_DIMS(STAGE_WORDS - 3));

    use_view(o, entry, &t);
}

static void reshape_strided(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor odd = pto_tensor_slice(&entry->tensor[1], 0, 1, STAGE_WORDS, 2);
    struct pto_tensor t = pto_tensor_reshape(&odd, PTO_DIMS(2, STAGE_WORDS / 4), 2);

    use_view(o, entry, &t);
}

static void reshape_larger(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = pto_tensor_reshape(&entry->tensor[1], PTO_DIMS(2, STAGE_WORDS), 2);

    use_view(o, entry, &t);
}

static void transpose_no_dimension(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = pto_tensor_transpose(&entry->tensor[1], 0, 1);

    use_view(o, entry, &t);
}

static void slice_without_step(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = pto_tensor_slice(&entry->tensor[1], 0, 0, 4, 0);

    use_view(o, entry, &t);
}

static void view_too_large(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = pto_tensor_external((void *)(uintptr_t)entry->tensor[1].addr,
                                              PTO_DIMS(2, 1u << 20, 1u << 20), 3, PTO_UINT32);

    use_view(o, entry, &t);
}

static void view_without_stride(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = pto_tensor_slice(&entry->tensor[1], 0, 1, STAGE_WORDS, 2);

    t.strides[0] = 0;
    use_view(o, entry, &t);
}

static void view_beyond_its_buffer(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = entry->tensor[1];

    t.start = 1;
    use_view(o, entry, &t);
}

static void view_that_wraps(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = entry->tensor[1];

    t.extent = (1ull << 62) + 1;
    use_view(o, entry, &t);
}

/* Changes the shape of a tensor by assignment. Only a run with guards checks that. */
static void shape_by_hand(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = entry->tensor[1];

    t.shapes[0] = STAGE_WORDS + 1;
    use_view(o, entry, &t);
}

static void view_without_storage(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = pto_tensor_external(NULL, PTO_DIMS(STAGE_WORDS), 1, PTO_UINT32);

    use_view(o, entry, &t);
}

static void tensor_of_an_ended_scope(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = drill_words_info();
    struct pto_tensor t = entry->tensor[1];

    PTO_SCOPE(o) {
        struct pto_outputs out = pto_alloc(o, PTO_OUT(&info));

        if (out.count == 1) {
            t = out.tensor[0];
            /*
             * The task that reads the tensor keeps its memory alive, unless the task ends before
             * the next submit.
             */
            use_view(o, entry, &t);
        }
    }
    use_view(o, entry, &t);
}

/* Uses the pointer to the descriptor of an output after the scope of the output has ended. */
static void pointer_of_an_ended_scope(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = drill_words_info();
    const struct pto_tensor *before = NULL;

    for (uint32_t i = 0; i < 2; i++)
        PTO_SCOPE(o) {
            struct pto_outputs out =
                pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor),
                        PTO_IN(before != NULL ? before : &entry->tensor[1]), PTO_OUT(&info));

            before = out.tensor;
        }
}

static void element_of_an_ended_scope(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = drill_words_info();
    struct pto_tensor t = entry->tensor[1];

    PTO_SCOPE(o) {
        struct pto_outputs out = pto_alloc(o, PTO_OUT(&info));

        if (out.count == 1)
            t = out.tensor[0];
    }
    (void)pto_get_data(o, &t, 1, PTO_DIMS(0));
}

static void no_such_entry_tensor(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_IN(&entry->tensor[2]));
}

static void view_of_no_entry_tensor(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t =
        pto_tensor_view(&entry->tensor[PTO_ENTRY_TENSORS_MAX - 1], PTO_DIMS(1), PTO_DIMS(0));

    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_IN(&t));
}

static void miscounted_view(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = pto_tensor_view(entry->tensor, PTO_DIMS(1, 1), PTO_DIMS(0, 0));

    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_IN(&t));
}

static void miscounted_pointer(struct pto_orch *o, const struct pto_entry *entry)
{
    const uint32_t *shape = PTO_DIMS(2);
    struct pto_tensor all = pto_tensor_reshape(entry->tensor, PTO_DIMS(1, 16), 2);
    struct pto_tensor t = pto_tensor_view(&all, shape, PTO_DIMS(0, 0));

    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_IN(&t));
}

static void miscounted_output(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info =
        pto_tensor_info_make(PTO_DIMS(1, 16), entry->tensor->ndims, PTO_UINT32);

    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_OUT(&info));
}

static void no_such_output(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_outputs out = pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor));
    struct pto_tensor t = pto_tensor_view(pto_output(out, 0), PTO_DIMS(1), PTO_DIMS(0));

    pto_aiv(o, KERNEL_ADD, PTO_INOUT(entry->tensor), PTO_IN(&t));
}

const struct drill drills_views[] = {
    ARGS("view-never-made", view_never_made, "a tensor descriptor of zeros",
         "argument 1 is not a valid view: the tensor was never initialised", .kernel = KERNEL_ADD,
         .argument = 2),
    ARGS("view-of-6-dimensions", view_of_6_dimensions, "a tensor of six dimensions",
         "1 to 5 dimensions", .kernel = KERNEL_ADD, .argument = 2),
    ARGS("view-of-no-type", view_of_no_type, "a tensor of an unknown type",
         "data type does not exist", .kernel = KERNEL_ADD, .argument = 2),
    ARGS("view-out-of-range", view_out_of_range, "a view that ends outside of its tensor",
         "exceeds the parent", .kernel = KERNEL_ADD, .argument = 2),
    ARGS("reshape-strided", reshape_strided, "a reshape of a strided view",
         "only a contiguous tensor", .kernel = KERNEL_ADD, .argument = 2),
    ARGS("reshape-larger", reshape_larger, "a reshape to twice as many elements",
         "another number of elements", .kernel = KERNEL_ADD, .argument = 2),
    ARGS("transpose-no-dimension", transpose_no_dimension,
         "a transpose of a dimension that does not exist", "does not exist or is named twice",
         .kernel = KERNEL_ADD, .argument = 2),
    ARGS("slice-without-step", slice_without_step, "a slice with step 0", "a step above 0",
         .kernel = KERNEL_ADD, .argument = 2),
    ARGS("view-too-large", view_too_large, "a tensor with a stride of 2^40", "does not fit 32 bits",
         .kernel = KERNEL_ADD, .argument = 2),
    ARGS("view-without-stride", view_without_stride, "a view with stride 0", "a stride is 0",
         .kernel = KERNEL_ADD, .argument = 2),
    ARGS("view-beyond-its-buffer", view_beyond_its_buffer,
         "a view moved until it ends beyond its buffer", "reaches to byte 68", .kernel = KERNEL_ADD,
         .argument = 2),
    ARGS("no-such-entry-tensor", no_such_entry_tensor, "a tensor beyond the last one of the entry",
         "is entry->tensor[2] or a view of it, but the entry has 2 tensors", .kernel = KERNEL_ADD,
         .argument = 2),
    ARGS("view-of-no-entry-tensor", view_of_no_entry_tensor,
         "a view of a tensor beyond the last one of the entry",
         "is entry->tensor[255] or a view of it, but the entry has 2 tensors", .kernel = KERNEL_ADD,
         .argument = 2),
    ARGS("miscounted-view", miscounted_view, "a view with two dimensions of a tensor with one",
         "an array of 2 elements is used for 1 dimensions", .kernel = KERNEL_ADD, .argument = 2),
    ARGS("miscounted-pointer", miscounted_pointer,
         "a view with fewer shapes than the tensor has dimensions",
         "an array of 1 elements is used for 2 dimensions", .kernel = KERNEL_ADD, .argument = 2),
    ARGS("miscounted-output", miscounted_output,
         "an output with more shapes than it has dimensions",
         "an array of 2 elements is used for 1 dimensions", .kernel = KERNEL_ADD, .argument = 2),
    ARGS("no-such-output", no_such_output, "a view of an output that the submit does not have",
         "the submit has no such output", .kernel = KERNEL_ADD, .argument = 2),
    ARGS("view-that-wraps", view_that_wraps, "a view whose extent in bytes exceeds 64 bits",
         "beyond any buffer", .kernel = KERNEL_ADD, .argument = 2),
    { PTO_EARGS, "shape-by-hand", "a shape enlarged by assignment, in a run with guards", NULL,
      shape_by_hand, "reaches to byte 68", .kernel = KERNEL_ADD, .argument = 2,
      .flags = DRILL_SITE | DRILL_GUARDS },
    ARGS("view-without-storage", view_without_storage, "a tensor at address 0", "its address is 0",
         .kernel = KERNEL_ADD, .argument = 2),
    ARGS("tensor-of-an-ended-scope", tensor_of_an_ended_scope,
         "a tensor used after its scope has ended", "which has ended", .kernel = KERNEL_ADD,
         .argument = 2),
    ARGS("pointer-of-an-ended-scope", pointer_of_an_ended_scope,
         "a descriptor used in the scope that follows its own", "which has ended",
         .kernel = KERNEL_ADD, .argument = 2, .scope_depth = 1),
    ARGS("element-of-an-ended-scope", element_of_an_ended_scope,
         "pto_get_data of a tensor whose scope has ended", "which has ended"),
    { 0 },
};
