// SPDX-License-Identifier: Apache-2.0
/*
 * TensorCreateInfo: struct pto_tensor_info, the shape and type of a new output. It must
 * live until the submit.
 */
#ifndef PTO_SIMPLER_TENSOR_CREATE_INFO_H
#define PTO_SIMPLER_TENSOR_CREATE_INFO_H

#include "tensor.h"

class alignas(64) TensorCreateInfo
{
  public:
    TensorCreateInfo() = default;
    TensorCreateInfo(const uint32_t shapes_in[], uint32_t ndims_in,
                     DataType dtype_in = DataType::FLOAT32, bool manual_dep_in = false)
        : initial_value(0), has_initial_value(false), reserved{}, start_offset(0), version(0),
          ndims(ndims_in), dtype(dtype_in), manual_dep(manual_dep_in), is_contiguous(true),
          address_space(AddressSpace::HOST), shapes{}
    {
        always_assert(ndims_in > 0 && ndims_in <= MAX_TENSOR_DIMS);
        for (uint32_t d = 0; d < ndims_in; d++)
            shapes[d] = shapes_in[d];
    }

    void copy(const TensorCreateInfo &other)
    {
        *this = other;
    }

    // Makes the runtime fill the whole buffer, padding included, with copies of this element.
    template <typename T = uint64_t> void set_initial_value(T value)
    {
        initial_value = to_u64(value);
        has_initial_value = true;
    }

    uint64_t buffer_size_bytes() const
    {
        uint64_t bytes = get_element_size(dtype);

        for (uint32_t d = 0; d < ndims; d++)
            bytes *= shapes[d];
        return bytes;
    }

    uint64_t initial_value;
    bool has_initial_value;
    uint8_t reserved[15];
    uint64_t start_offset; // this and the next fields are laid out as in ChipTensor
    int32_t version;
    uint32_t ndims;
    DataType dtype;
    bool manual_dep;
    bool is_contiguous;
    AddressSpace address_space;
    uint32_t shapes[MAX_TENSOR_DIMS];
};

static_assert(sizeof(TensorCreateInfo) == sizeof(struct pto_tensor_info) &&
                  offsetof(TensorCreateInfo, start_offset) == offsetof(ChipTensor, start_offset) &&
                  offsetof(TensorCreateInfo, dtype) == offsetof(ChipTensor, dtype) &&
                  offsetof(TensorCreateInfo, shapes) == offsetof(ChipTensor, shapes),
              "a create info has the layout of the first cache line of a tensor");

// Makes `t` the tensor that `ci` describes, in the caller's memory, filled if `ci` has a value.
inline void init_tensor_from_create_info(ChipTensor &t, const TensorCreateInfo &ci, void *addr,
                                         uint64_t buffer_size)
{
    t.init_external(addr, buffer_size, ci.shapes, ci.ndims, ci.dtype, ci.version, ci.manual_dep,
                    ci.address_space);
    if (ci.has_initial_value) {
        const uint64_t step = get_element_size(ci.dtype);

        always_assert(addr != nullptr && step != 0);
        for (uint64_t at = 0; at + step <= buffer_size; at += step)
            std::memcpy(static_cast<char *>(addr) + at, &ci.initial_value, step);
    }
}

#endif
