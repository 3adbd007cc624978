// SPDX-License-Identifier: Apache-2.0
/*
 * Data types and scalars, as sources written for simpler name them, with the rows of
 * pto/dtype.h. Orchestrations and kernels share this file.
 */
#ifndef PTO_SIMPLER_DATA_TYPE_H
#define PTO_SIMPLER_DATA_TYPE_H

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "pto/dtype.h"

// Kernels mark their functions; only the compiler for the chip uses the mark.
#ifndef __aicore__
#if defined(__CCE_AICORE__)
#define __aicore__ [aicore]
#else
#define __aicore__
#endif
#endif
#if defined(__DAV_VEC__) || defined(__DAV_CUBE__)
#define PTO_DEVICE_FUNC __aicore__
#else
#define PTO_DEVICE_FUNC
#endif

constexpr int MAX_TENSOR_DIMS = 5;

enum class AddressSpace : uint8_t { HOST = 0, DEVICE = 1 };

enum class DataType : uint8_t {
#define PTO_SIMPLER_ROW(name, ...) name = PTO_##name,
    PTO_DTYPE_MAP(PTO_SIMPLER_ROW)
#undef PTO_SIMPLER_ROW
        DATA_TYPE_NUM
};

// Returns the size of an element in bytes; 0 for an invalid type.
inline uint64_t get_element_size(DataType dtype)
{
    return pto_dtype_size(static_cast<uint32_t>(dtype));
}

inline const char *get_dtype_name(DataType dtype)
{
    return pto_dtype_name(static_cast<uint32_t>(dtype));
}

template <typename T>
inline constexpr bool is_supported_scalar_arg_v =
    std::is_arithmetic_v<std::remove_cv_t<std::remove_reference_t<T>>> ||
    std::is_enum_v<std::remove_cv_t<std::remove_reference_t<T>>>;

/*
 * Returns the type with which a scalar is displayed, by its kind and width; a double is shown as a
 * float.
 */
template <typename T> inline constexpr uint8_t dtype_of()
{
    static_assert(is_supported_scalar_arg_v<T>, "dtype_of: arithmetic types and enums only");
    constexpr DataType with_sign[] = { DataType::INT8, DataType::INT16, DataType::INT32,
                                       DataType::INT64 };
    constexpr DataType without[] = { DataType::UINT8, DataType::UINT16, DataType::UINT32,
                                     DataType::UINT64 };
    constexpr int width = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;

    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
        return static_cast<uint8_t>(DataType::FLOAT32);
    else if constexpr (std::is_same_v<T, bool>)
        return static_cast<uint8_t>(DataType::BOOL);
    else if constexpr (!std::is_integral_v<T>)
        return static_cast<uint8_t>(DataType::UINT64);
    else
        return static_cast<uint8_t>(std::is_signed_v<T> ? with_sign[width] : without[width]);
}

// Returns a scalar with the bits of a value in its low bytes; the other bytes are zero.
template <typename T> PTO_DEVICE_FUNC inline uint64_t to_u64(T value)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "to_u64: a scalar has 8 bytes");
    static_assert(std::is_trivially_copyable_v<T>, "to_u64: the type must be trivially copyable");
    uint64_t bits = 0;

    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <typename T> PTO_DEVICE_FUNC inline T from_u64(uint64_t bits)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "from_u64: a scalar has 8 bytes");
    static_assert(std::is_trivially_copyable_v<T>, "from_u64: the type must be trivially copyable");
    T value;

    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

#endif
