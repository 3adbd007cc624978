/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of a kernel that reports its accesses. If `has_accesses` is set (pto/build.h),
 * pto_build includes this header before the kernel's source and makes the compiler call a function
 * before every access to memory. The functions have the names that the compiler's sanitizer
 * expects, but are part of the kernel's object, so no sanitizer library is needed or disturbed.
 *
 * A hook costs a few instructions if the access lies in the range that was allowed for the latest
 * access by the same instruction. Otherwise the hook calls the runtime, which knows the arguments
 * of the task.
 */
#ifndef PTO_ACCESS_HOOKS_H
#define PTO_ACCESS_HOOKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PTO_ACCESS_VERSION = 3, PTO_ACCESS_PLACES = 128 };

/*
 * Bits of how memory is used. Atomic operations are reported before, with the other bits, and again
 * after, with IS_DONE: an operation that reads without IS_WRITE, a store with it.
 */
enum { PTO_ACCESS_IS_WRITE = 1, PTO_ACCESS_IS_ATOMIC = 2, PTO_ACCESS_IS_DONE = 4 };

/*
 * The range of addresses that one instruction may access; instructions with the same
 * PTO_ACCESS_INDEX share it.
 */
struct pto_access_place {
    uint64_t begin;
    uint64_t bytes; /* size of the range; 0: no access is allowed yet */
    /*
     * one bit for each element that the kernel has written, or has read (see `marks`); NULL: not
     * recorded
     */
    uint64_t *bits;
    uint64_t origin;  /* address of the element to which the first bit belongs */
    uint64_t element; /* log2 of the size of an element in bytes */
    uint64_t marks;   /* 1: an access sets the bits; 0: it is allowed if they are set */
};

/* An invocation of a kernel, as the hooks see it; filled in by the runtime. */
struct pto_access {
    struct pto_access_place place[PTO_ACCESS_PLACES];
    void (*check)(struct pto_access *access, uint64_t addr, uint64_t bytes, int how,
                  const void *pc);
};

/* Exported by a kernel's object as `pto_access_link`, for the runtime. */
struct pto_access_link {
    uint32_t version;
    /*
     * Sets the invocation of the calling thread, whose accesses are checked from then on; NULL:
     * none.
     */
    void (*set)(struct pto_access *access);
};

/*
 * Index in `place` of struct pto_access for an instruction at this address. Reads and writes use
 * separate halves of the array.
 */
#define PTO_ACCESS_INDEX(pc, is_write)                                                             \
    ((uint32_t)((uint64_t)(uintptr_t)(pc)*0x9e3779b97f4a7c15ull >> 32) % (PTO_ACCESS_PLACES / 2) + \
     ((is_write) ? PTO_ACCESS_PLACES / 2 : 0))

#ifdef PTO_ACCESS_HOOKS

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__clang__)
#define PTO_ACCESS_PLAIN __attribute__((disable_sanitizer_instrumentation))
#else
#define PTO_ACCESS_PLAIN __attribute__((no_sanitize("thread")))
#endif
#define PTO_ACCESS_INLINE static inline PTO_ACCESS_PLAIN __attribute__((always_inline))
/*
 * Not inlined: with the code of each access in every hook, kernels would take twice as long to
 * compile.
 */
#define PTO_ACCESS_APART static PTO_ACCESS_PLAIN __attribute__((noinline, unused))
#define PTO_ACCESS_HOOK static PTO_ACCESS_PLAIN __attribute__((used, noinline))
#define PTO_ACCESS_PC __builtin_return_address(0)

static __thread struct pto_access *pto_access_current;

PTO_ACCESS_HOOK void pto_access_set(struct pto_access *access)
{
    pto_access_current = access;
}

extern __attribute__((visibility("default"))) const struct pto_access_link pto_access_link;
const struct pto_access_link pto_access_link = { PTO_ACCESS_VERSION, pto_access_set };

/*
 * Called for an access to these elements. If place->marks is set, sets their bits. Returns whether
 * all of these bits are set afterwards.
 */
PTO_ACCESS_INLINE int pto_access_mark(const struct pto_access_place *place, uint64_t addr,
                                      uint64_t bytes)
{
    uint64_t first = (addr - place->origin) >> place->element;
    uint64_t count = ((addr + bytes - 1 - place->origin) >> place->element) - first + 1;
    uint64_t mask;

    if (count + first % 64 > 64)
        return 0;
    mask = (~0ull >> (64 - count)) << first % 64;
    if (place->marks)
        place->bits[first / 64] |= mask;
    return (place->bits[first / 64] & mask) == mask;
}

PTO_ACCESS_INLINE void pto_access_note(const volatile void *at, uint64_t bytes, int is_write,
                                       const void *pc)
{
    struct pto_access *access = pto_access_current;
    uint64_t addr = (uint64_t)(uintptr_t)at, offset;
    struct pto_access_place *place;

    if (access == NULL || bytes == 0)
        return;
    place = &access->place[PTO_ACCESS_INDEX(pc, is_write)];
    offset = addr - place->begin;
    if (__builtin_expect(offset < place->bytes && bytes <= place->bytes - offset, 1) &&
        (place->bits == NULL || pto_access_mark(place, addr, bytes)))
        return;
    access->check(access, addr, bytes, is_write, pc);
}

/* Atomic operations are rare, and signal to other tasks: each is reported. */
PTO_ACCESS_APART void pto_access_note_atomic(const volatile void *at, uint64_t bytes, int how,
                                             const void *pc)
{
    struct pto_access *access = pto_access_current;

    if (access != NULL)
        access->check(access, (uint64_t)(uintptr_t)at, bytes, how | PTO_ACCESS_IS_ATOMIC, pc);
}

/* pto_access_note for hooks that are called rarely. */
PTO_ACCESS_APART void pto_access_note_rare(const volatile void *at, uint64_t bytes, int is_write,
                                           const void *pc)
{
    pto_access_note(at, bytes, is_write, pc);
}

/* ---- hooks that the compiler calls ---- */

#define PTO_ACCESS_ONE(name, bytes, is_write, note)                            \
    PTO_ACCESS_HOOK void pto_access_##name(void *at) __asm__("__tsan_" #name); \
    PTO_ACCESS_HOOK void pto_access_##name(void *at)                           \
    {                                                                          \
        note(at, bytes, is_write, PTO_ACCESS_PC);                              \
    }
#define PTO_ACCESS_SIZE(n)                                                 \
    PTO_ACCESS_ONE(read##n, n, 0, pto_access_note)                         \
    PTO_ACCESS_ONE(write##n, n, 1, pto_access_note)                        \
    PTO_ACCESS_ONE(unaligned_read##n, n, 0, pto_access_note)               \
    PTO_ACCESS_ONE(unaligned_write##n, n, 1, pto_access_note)              \
    PTO_ACCESS_ONE(volatile_read##n, n, 0, pto_access_note_rare)           \
    PTO_ACCESS_ONE(volatile_write##n, n, 1, pto_access_note_rare)          \
    PTO_ACCESS_ONE(unaligned_volatile_read##n, n, 0, pto_access_note_rare) \
    PTO_ACCESS_ONE(unaligned_volatile_write##n, n, 1, pto_access_note_rare)
PTO_ACCESS_SIZE(1)
PTO_ACCESS_SIZE(2)
PTO_ACCESS_SIZE(4)
PTO_ACCESS_SIZE(8)
PTO_ACCESS_SIZE(16)
#undef PTO_ACCESS_SIZE
#undef PTO_ACCESS_ONE

#define PTO_ACCESS_RANGE(name, is_write)                                                        \
    PTO_ACCESS_HOOK void pto_access_##name(void *at, unsigned long n) __asm__("__tsan_" #name); \
    PTO_ACCESS_HOOK void pto_access_##name(void *at, unsigned long n)                           \
    {                                                                                           \
        pto_access_note_rare(at, n, is_write, PTO_ACCESS_PC);                                   \
    }
PTO_ACCESS_RANGE(read_range, 0)
PTO_ACCESS_RANGE(write_range, 1)
#undef PTO_ACCESS_RANGE

#define PTO_ACCESS_NOTHING(name, parameters)                                    \
    PTO_ACCESS_HOOK void pto_access_##name parameters __asm__("__tsan_" #name); \
    PTO_ACCESS_HOOK void pto_access_##name parameters                           \
    {                                                                           \
    }
PTO_ACCESS_NOTHING(init, (void))
PTO_ACCESS_NOTHING(func_exit, (void))
PTO_ACCESS_NOTHING(func_entry, (void *caller __attribute__((unused))))
PTO_ACCESS_NOTHING(vptr_read, (void **at __attribute__((unused))))
PTO_ACCESS_NOTHING(vptr_update,
                   (void **at __attribute__((unused)), void *value __attribute__((unused))))
#undef PTO_ACCESS_NOTHING

/*
 * Atomic operations have sequentially consistent order, whichever order the kernel requested. One
 * that it requested to release only is reported as a store, because it waits for nothing.
 */
#define PTO_ACCESS_AFTER(order) \
    (PTO_ACCESS_IS_DONE | ((order) == __ATOMIC_RELEASE ? PTO_ACCESS_IS_WRITE : 0))
#define PTO_ACCESS_UPDATE(bits, op, builtin)                                              \
    PTO_ACCESS_HOOK uint##bits##_t pto_access_##op##bits(                                 \
        volatile uint##bits##_t *at, uint##bits##_t value,                                \
        int order) __asm__("__tsan_atomic" #bits "_" #op);                                \
    PTO_ACCESS_HOOK uint##bits##_t pto_access_##op##bits(volatile uint##bits##_t *at,     \
                                                         uint##bits##_t value, int order) \
    {                                                                                     \
        uint##bits##_t old;                                                               \
                                                                                          \
        pto_access_note_atomic(at, bits / 8, 0, PTO_ACCESS_PC);                           \
        pto_access_note_atomic(at, bits / 8, 1, PTO_ACCESS_PC);                           \
        old = builtin(at, value, __ATOMIC_SEQ_CST);                                       \
        pto_access_note_atomic(at, bits / 8, PTO_ACCESS_AFTER(order), PTO_ACCESS_PC);     \
        return old;                                                                       \
    }
#define PTO_ACCESS_EXCHANGE(bits, how)                                                           \
    PTO_ACCESS_HOOK int pto_access_##how##bits(                                                  \
        volatile uint##bits##_t *at, uint##bits##_t *old, uint##bits##_t value, int order,       \
        int otherwise) __asm__("__tsan_atomic" #bits "_compare_exchange_" #how);                 \
    PTO_ACCESS_HOOK int pto_access_##how##bits(volatile uint##bits##_t *at, uint##bits##_t *old, \
                                               uint##bits##_t value, int order, int otherwise)   \
    {                                                                                            \
        int has_changed;                                                                         \
                                                                                                 \
        (void)order;                                                                             \
        (void)otherwise;                                                                         \
        pto_access_note_atomic(at, bits / 8, 0, PTO_ACCESS_PC);                                  \
        pto_access_note_atomic(at, bits / 8, 1, PTO_ACCESS_PC);                                  \
        has_changed =                                                                            \
            __atomic_compare_exchange_n(at, old, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
        pto_access_note_atomic(at, bits / 8, PTO_ACCESS_IS_DONE, PTO_ACCESS_PC);                 \
        return has_changed;                                                                      \
    }
#define PTO_ACCESS_ATOMIC(bits)                                                                    \
    PTO_ACCESS_HOOK uint##bits##_t pto_access_load##bits(                                          \
        const volatile uint##bits##_t *at, int order) __asm__("__tsan_atomic" #bits "_load");      \
    PTO_ACCESS_HOOK uint##bits##_t pto_access_load##bits(const volatile uint##bits##_t *at,        \
                                                         int order)                                \
    {                                                                                              \
        uint##bits##_t value;                                                                      \
                                                                                                   \
        (void)order;                                                                               \
        pto_access_note_atomic(at, bits / 8, 0, PTO_ACCESS_PC);                                    \
        value = __atomic_load_n(at, __ATOMIC_SEQ_CST);                                             \
        pto_access_note_atomic(at, bits / 8, PTO_ACCESS_IS_DONE, PTO_ACCESS_PC);                   \
        return value;                                                                              \
    }                                                                                              \
    PTO_ACCESS_HOOK void pto_access_store##bits(                                                   \
        volatile uint##bits##_t *at, uint##bits##_t value,                                         \
        int order) __asm__("__tsan_atomic" #bits "_store");                                        \
    PTO_ACCESS_HOOK void pto_access_store##bits(volatile uint##bits##_t *at, uint##bits##_t value, \
                                                int order)                                         \
    {                                                                                              \
        (void)order;                                                                               \
        pto_access_note_atomic(at, bits / 8, 1, PTO_ACCESS_PC);                                    \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                             \
        pto_access_note_atomic(at, bits / 8, PTO_ACCESS_IS_WRITE | PTO_ACCESS_IS_DONE,             \
                               PTO_ACCESS_PC);                                                     \
    }                                                                                              \
    PTO_ACCESS_UPDATE(bits, exchange, __atomic_exchange_n)                                         \
    PTO_ACCESS_UPDATE(bits, fetch_add, __atomic_fetch_add)                                         \
    PTO_ACCESS_UPDATE(bits, fetch_sub, __atomic_fetch_sub)                                         \
    PTO_ACCESS_UPDATE(bits, fetch_and, __atomic_fetch_and)                                         \
    PTO_ACCESS_UPDATE(bits, fetch_or, __atomic_fetch_or)                                           \
    PTO_ACCESS_UPDATE(bits, fetch_xor, __atomic_fetch_xor)                                         \
    PTO_ACCESS_UPDATE(bits, fetch_nand, __atomic_fetch_nand)                                       \
    PTO_ACCESS_EXCHANGE(bits, strong)                                                              \
    PTO_ACCESS_EXCHANGE(bits, weak)
PTO_ACCESS_ATOMIC(8)
PTO_ACCESS_ATOMIC(16)
PTO_ACCESS_ATOMIC(32)
PTO_ACCESS_ATOMIC(64)
#undef PTO_ACCESS_ATOMIC
#undef PTO_ACCESS_EXCHANGE
#undef PTO_ACCESS_UPDATE

#define PTO_ACCESS_FENCE(name)                                                         \
    PTO_ACCESS_HOOK void pto_access_##name(int order) __asm__("__tsan_atomic_" #name); \
    PTO_ACCESS_HOOK void pto_access_##name(int order)                                  \
    {                                                                                  \
        (void)order;                                                                   \
        __atomic_##name(__ATOMIC_SEQ_CST);                                             \
    }
PTO_ACCESS_FENCE(thread_fence)
PTO_ACCESS_FENCE(signal_fence)
#undef PTO_ACCESS_FENCE

/* ---- library functions that copy or fill memory: reported, then called ---- */

/*
 * Declares the library functions under other names, so that a compiler does not call the hooks of
 * this file instead.
 */
#define PTO_ACCESS_REAL(name, second, symbol)                           \
    extern void *pto_access_real_##name(void *to, second, size_t bytes, \
                                        size_t room) __asm__(symbol);
PTO_ACCESS_REAL(move, const void *from, "__memmove_chk")
PTO_ACCESS_REAL(fill, int value, "__memset_chk")
#undef PTO_ACCESS_REAL

#define PTO_ACCESS_MOVE(name, symbol)                                                 \
    PTO_ACCESS_HOOK void *pto_access_##name(void *to, const void *from,               \
                                            size_t bytes) __asm__(symbol);            \
    PTO_ACCESS_HOOK void *pto_access_##name(void *to, const void *from, size_t bytes) \
    {                                                                                 \
        pto_access_note_rare(from, bytes, 0, PTO_ACCESS_PC);                          \
        pto_access_note_rare(to, bytes, 1, PTO_ACCESS_PC);                            \
        return pto_access_real_move(to, from, bytes, bytes);                          \
    }
PTO_ACCESS_MOVE(memcpy, "memcpy")
PTO_ACCESS_MOVE(memmove, "memmove")
PTO_ACCESS_MOVE(tsan_memcpy, "__tsan_memcpy")
PTO_ACCESS_MOVE(tsan_memmove, "__tsan_memmove")
#undef PTO_ACCESS_MOVE

#define PTO_ACCESS_FILL(name, symbol)                                                           \
    PTO_ACCESS_HOOK void *pto_access_##name(void *to, int value, size_t bytes) __asm__(symbol); \
    PTO_ACCESS_HOOK void *pto_access_##name(void *to, int value, size_t bytes)                  \
    {                                                                                           \
        pto_access_note_rare(to, bytes, 1, PTO_ACCESS_PC);                                      \
        return pto_access_real_fill(to, value, bytes, bytes);                                   \
    }
PTO_ACCESS_FILL(memset, "memset")
PTO_ACCESS_FILL(tsan_memset, "__tsan_memset")
#undef PTO_ACCESS_FILL

PTO_ACCESS_HOOK int pto_access_memcmp(const void *a, const void *b, size_t bytes) __asm__("memcmp");
PTO_ACCESS_HOOK int pto_access_memcmp(const void *a, const void *b, size_t bytes)
{
    const unsigned char *one = (const unsigned char *)a, *other = (const unsigned char *)b;
    size_t same = 0;

    pto_access_note_rare(a, bytes, 0, PTO_ACCESS_PC);
    pto_access_note_rare(b, bytes, 0, PTO_ACCESS_PC);
    while (same < bytes && one[same] == other[same])
        same++;
    return same == bytes ? 0 : one[same] - other[same];
}

/*
 * A compiler expands these builtins in place, without a report, even if it keeps the functions as
 * calls. std::copy and std::fill use them.
 */
#define __builtin_memcpy(to, from, bytes) memcpy(to, from, bytes)
#define __builtin_memmove(to, from, bytes) memmove(to, from, bytes)
#define __builtin_memset(to, value, bytes) memset(to, value, bytes)

#ifdef __cplusplus
}
#endif

#endif
#endif
