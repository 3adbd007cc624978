// SPDX-License-Identifier: Apache-2.0
/*
 * ChipTensor: struct pto_tensor under the names, and with the methods, that sources
 * written for simpler use. Orchestrations and kernels share this file.
 *
 * Unlike with pto/tensor.h, an impossible view throws if debug_assert is enabled. Dimensions of
 * size 1 are not special: a tensor is contiguous if every stride is the product of the later
 * shapes.
 */
#ifndef PTO_SIMPLER_TENSOR_H
#define PTO_SIMPLER_TENSOR_H

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "assert_compat.h"
#include "data_type.h"
#include "pto_task_id.h"

#include "pto/tensor.h"

struct PTOBufferHandle {
    uint64_t addr;
    uint64_t size;
};

// How a task uses a tensor: enum pto_tag.
enum class TensorArgType : uint8_t { INPUT, OUTPUT, INOUT, OUTPUT_EXISTING, NO_DEP };

struct alignas(64) ChipTensor {
    PTOBufferHandle buffer;
    PTO2TaskId owner_task_id; // task that created the storage; invalid for external memory
    uint64_t start_offset;    // distance of the first element from the storage's start, in elements
    int32_t version;
    uint32_t ndims;
    DataType dtype;
    bool manual_dep;
    bool is_contiguous;
    AddressSpace address_space;
    uint32_t shapes[MAX_TENSOR_DIMS];
    uint64_t extent_elem_cache;
    uint32_t
        strides[MAX_TENSOR_DIMS]; // distance of neighbours in each dimension, in elements, above 0
    uint8_t reserved[36];         // used by the runtime

    uint64_t numel() const
    {
        uint64_t count = 1;

        for (uint32_t d = 0; d < ndims; d++)
            count *= shapes[d];
        return count;
    }

    // Returns the number of elements from the first to the last, gaps included.
    uint64_t extent_elem() const
    {
        return is_contiguous ? numel() : extent_elem_cache;
    }
    [[nodiscard]] bool is_device_memory() const
    {
        return address_space == AddressSpace::DEVICE;
    }
    [[nodiscard]] uint64_t nbytes() const
    {
        return numel() * get_element_size(dtype);
    }

    // Returns the start of the storage, which may be before the first element of the view.
    template <typename T> T *data_as() const
    {
        return reinterpret_cast<T *>(static_cast<uintptr_t>(buffer.addr));
    }

    /*
     * Returns the distance from the start of the storage to the element with these indices, in
     * elements.
     */
    uint64_t compute_flat_offset(const uint32_t indices[], uint32_t in_ndims) const
    {
        uint64_t at = start_offset;

        for (uint32_t d = 0; d < in_ndims; d++)
            at += uint64_t{ indices[d] } * strides[d];
        return at;
    }

    void init_external(void *addr, uint64_t buffer_size_bytes, const uint32_t in_shapes[],
                       uint32_t in_ndims, DataType in_dtype, int32_t in_version,
                       bool in_manual_dep = false,
                       AddressSpace in_address_space = AddressSpace::HOST)
    {
        always_assert(in_ndims > 0 && in_ndims <= MAX_TENSOR_DIMS);
        buffer = { reinterpret_cast<uint64_t>(addr), buffer_size_bytes };
        owner_task_id = PTO2TaskId::invalid();
        start_offset = 0;
        version = in_version;
        ndims = in_ndims;
        dtype = in_dtype;
        manual_dep = in_manual_dep;
        address_space = in_address_space;
        for (uint32_t d = 0; d < in_ndims; d++)
            shapes[d] = in_shapes[d];
        make_row_major();
    }

    void init_from(const ChipTensor &other)
    {
        *this = other;
    }
    void init_from_line1(const ChipTensor &other)
    {
        std::memcpy(static_cast<void *>(this), &other, 64);
    }
    void copy(const ChipTensor &other)
    {
        *this = other;
    }

    /*
     * Returns a view of a box of this tensor. If a shape is zero, the view is empty, and its
     * position is unspecified.
     */
    ChipTensor view(const uint32_t view_shapes[], const uint32_t view_offsets[],
                    bool in_manual_dep = false) const
    {
        ChipTensor v = *this;
        bool is_empty = false;

        for (uint32_t d = 0; d < ndims; d++) {
            v.shapes[d] = view_shapes[d];
            is_empty = is_empty || view_shapes[d] == 0;
        }
        v.manual_dep = in_manual_dep;
        if (is_empty) {
            v.is_contiguous = true;
            v.extent_elem_cache = 0;
            return v;
        }
        for (uint32_t d = 0; d < ndims; d++) {
            debug_assert(uint64_t{ view_offsets[d] } + view_shapes[d] <= shapes[d]);
            v.start_offset += uint64_t{ view_offsets[d] } * strides[d];
        }
        v.refresh();
        v.check_bounds();
        return v;
    }

    bool can_reshape(const uint32_t new_shapes[], uint32_t new_ndims) const
    {
        uint64_t count = 1;

        for (uint32_t d = 0; d < new_ndims; d++)
            count *= new_shapes[d];
        return count == numel();
    }

    ChipTensor reshape(const uint32_t new_shapes[], uint32_t new_ndims,
                       bool in_manual_dep = false) const
    {
        ChipTensor v = *this;

        always_assert(is_contiguous);
        always_assert(new_ndims > 0 && new_ndims <= MAX_TENSOR_DIMS);
        debug_assert(can_reshape(new_shapes, new_ndims));
        v.ndims = new_ndims;
        v.manual_dep = in_manual_dep;
        for (uint32_t d = 0; d < new_ndims; d++)
            v.shapes[d] = new_shapes[d];
        v.make_row_major();
        return v;
    }

    bool can_transpose(uint32_t x, uint32_t y) const
    {
        return x < ndims && y < ndims;
    }

    ChipTensor transpose(uint32_t x, uint32_t y, bool in_manual_dep = false) const
    {
        ChipTensor v = *this;

        debug_assert(can_transpose(x, y));
        std::swap(v.shapes[x], v.shapes[y]);
        std::swap(v.strides[x], v.strides[y]);
        v.manual_dep = in_manual_dep;
        v.refresh();
        return v;
    }

    // Returns a view in which dimension d is dimension order[d] of this tensor.
    ChipTensor permute(const uint32_t order[], bool in_manual_dep = false) const
    {
        ChipTensor v = *this;

        for (uint32_t d = 0; d < ndims; d++) {
            debug_assert(order[d] < ndims);
            v.shapes[d] = shapes[order[d]];
            v.strides[d] = strides[order[d]];
        }
        v.manual_dep = in_manual_dep;
        v.refresh();
        return v;
    }

    /*
     * Returns a view of every step-th element of one dimension, from start up to but not including
     * end.
     */
    ChipTensor slice(uint32_t dim, uint32_t start, uint32_t end, uint32_t step = 1,
                     bool in_manual_dep = false) const
    {
        ChipTensor v = *this;

        debug_assert(dim < ndims);
        debug_assert(step >= 1);
        debug_assert(start < end && end <= shapes[dim]);
        v.start_offset += uint64_t{ start } * strides[dim];
        v.shapes[dim] = (end - start + step - 1) / step;
        v.strides[dim] = strides[dim] * step;
        v.manual_dep = in_manual_dep;
        v.refresh();
        v.check_bounds();
        return v;
    }

    std::string dump() const
    {
        return "{ addr " + std::to_string(buffer.addr) + ", " + std::to_string(buffer.size) +
               " bytes, " + get_dtype_name(dtype) + ", version " + std::to_string(version) +
               ", start " + std::to_string(start_offset) + ", shapes " + listed(shapes) +
               ", strides " + listed(strides) + (is_contiguous ? ", contiguous" : "") + " }";
    }

  private:
    friend ChipTensor make_tensor_strided(void *, const uint32_t[], const uint32_t[], uint32_t,
                                          DataType, bool, int32_t, AddressSpace);

    void make_row_major()
    {
        uint32_t stride = 1;

        for (uint32_t d = ndims; d-- > 0;) {
            strides[d] = stride;
            stride *= shapes[d];
        }
        is_contiguous = true;
        extent_elem_cache = stride;
        reserved[0] = 0;
    }

    // Recomputes derived fields, after shapes or strides have changed.
    void refresh()
    {
        uint64_t row_major = 1, extent = 1;
        bool is_row_major = true;

        for (uint32_t d = ndims; d-- > 0;) {
            is_row_major = is_row_major && strides[d] == row_major;
            row_major *= shapes[d];
            extent += shapes[d] != 0 ? uint64_t{ shapes[d] - 1 } * strides[d] : 0;
        }
        is_contiguous = is_row_major;
        extent_elem_cache = extent;
    }

    void check_bounds() const
    {
        debug_assert((start_offset + extent_elem_cache) * get_element_size(dtype) <= buffer.size);
    }

    std::string listed(const uint32_t values[]) const
    {
        std::string text = "[";

        for (uint32_t d = 0; d < ndims; d++)
            text += (d > 0 ? "," : "") + std::to_string(values[d]);
        return text + "]";
    }
};

static_assert(sizeof(ChipTensor) == sizeof(struct pto_tensor) &&
                  std::is_trivially_copyable_v<ChipTensor>,
              "the layout of a tensor is an ABI");
#define PTO_SIMPLER_SAME(field, ours)                                                 \
    static_assert(offsetof(ChipTensor, field) == offsetof(struct pto_tensor, ours) && \
                      sizeof(ChipTensor::field) == sizeof(pto_tensor::ours),          \
                  "the layout of a tensor is an ABI")
PTO_SIMPLER_SAME(owner_task_id, owner);
PTO_SIMPLER_SAME(start_offset, start);
PTO_SIMPLER_SAME(version, version);
PTO_SIMPLER_SAME(ndims, ndims);
PTO_SIMPLER_SAME(dtype, dtype);
PTO_SIMPLER_SAME(manual_dep, manual_dep);
PTO_SIMPLER_SAME(is_contiguous, is_contiguous);
PTO_SIMPLER_SAME(address_space, space);
PTO_SIMPLER_SAME(shapes, shapes);
PTO_SIMPLER_SAME(extent_elem_cache, extent);
PTO_SIMPLER_SAME(strides, strides);
#undef PTO_SIMPLER_SAME

// Describes row-major memory that the caller owns.
inline ChipTensor make_tensor_external(void *addr, const uint32_t shapes[], uint32_t ndims,
                                       DataType dtype = DataType::FLOAT32, bool manual_dep = false,
                                       int32_t version = 0,
                                       AddressSpace address_space = AddressSpace::HOST)
{
    ChipTensor t;

    t.init_external(addr, 0, shapes, ndims, dtype, version, manual_dep, address_space);
    t.buffer.size = t.nbytes();
    return t;
}

// make_tensor_external with explicit strides, in elements.
inline ChipTensor make_tensor_strided(void *addr, const uint32_t shapes[], const uint32_t strides[],
                                      uint32_t ndims, DataType dtype = DataType::FLOAT32,
                                      bool manual_dep = false, int32_t version = 0,
                                      AddressSpace address_space = AddressSpace::HOST)
{
    ChipTensor t =
        make_tensor_external(addr, shapes, ndims, dtype, manual_dep, version, address_space);

    for (uint32_t d = 0; d < ndims; d++)
        t.strides[d] = strides[d];
    t.refresh();
    t.buffer.size = t.extent_elem_cache * get_element_size(dtype);
    return t;
}

// Name that the reference used until August 2026.
using Tensor = ChipTensor;

#endif
