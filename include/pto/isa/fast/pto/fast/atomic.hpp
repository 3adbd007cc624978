/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Additions to elements of tensors that other kernels add to at the same time. The tile library
 * excludes them with a mutex of which each loaded kernel has its own. Here the element itself is
 * atomic, so that different kernels and other processes with the same memory exclude each other.
 */
#ifndef PTO_FAST_ATOMIC_HPP
#define PTO_FAST_ATOMIC_HPP

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace pto_fast
{

/* Types whose elements a processor changes atomically. */
template <typename T> constexpr bool is_lock_free()
{
    if constexpr (std::is_trivially_copyable_v<T>)
        return std::atomic_ref<T>::is_always_lock_free;
    else
        return false;
}

/* An element that is not aligned is added to by the library instead, with its lock. */
template <typename T> inline bool is_aligned(const T *element)
{
    return (std::uintptr_t)element % std::atomic_ref<T>::required_alignment == 0;
}

/* Computes the sum as the library does, and again if another kernel was faster. */
template <typename T> inline void add(T *element, T summand)
{
    std::atomic_ref<T> shared(*element);
    T old = shared.load(std::memory_order_relaxed), sum = old;

    sum += summand;
    while (!shared.compare_exchange_weak(old, sum)) { /* mutation: lost-add */
        sum = old;
        sum += summand;
    }
}

} // namespace pto_fast

#endif
