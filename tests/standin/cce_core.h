/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cores of the stand-in, for the second pass of its ccec: each is a thread of this machine.
 * There is one address space, caches are coherent, and the registers of a core are functions of the
 * stand-in.
 */
#include <stdint.h>

#include "sync_page.h"

#define __gm__
#define __global__ __attribute__((visibility("default")))

enum cache_line_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum dcci_dst_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT };
enum mem_dsb_t { DSB_ALL, DSB_DDR };
enum atomic_type_t { ATOMIC_NONE, ATOMIC_F32, ATOMIC_F16, ATOMIC_S16, ATOMIC_S32 };
enum atomic_op_t { ATOMIC_SUM };

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_FIX };
enum event_t {
    EVENT_ID0,
    EVENT_ID1,
    EVENT_ID2,
    EVENT_ID3,
    EVENT_ID4,
    EVENT_ID5,
    EVENT_ID6,
    EVENT_ID7
};

static inline void dcci(void *, cache_line_t)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void dcci(void *, cache_line_t, dcci_dst_t)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void dsb(mem_dsb_t)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void set_st_atomic_cfg(atomic_type_t, atomic_op_t)
{
}

template <typename T> static inline void st_atomic(T value, T *at)
{
    (void)__atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}

/* A waiting core yields the CPU, by a system call without a library. */
#define PTO_CORE_PAUSE()                                                      \
    do {                                                                      \
        long call_ = 24;                                                      \
        __asm__ volatile("syscall" : "+a"(call_) : : "rcx", "r11", "memory"); \
    } while (0)

/* Intrinsics that are more than an instruction, which kernels may use as well. */
#define SYNC_FUNCTION(which) ((unsigned long (**)(unsigned long))SYNC_PAGE)[which]

/* Functions for the executor only, in the library of the stand-in. */
extern "C" {
uint32_t standin_core_block(void);
uint32_t standin_core_sub_block(void);
uint32_t standin_core_number(void);
uint32_t standin_core_bell(void);
void standin_core_set_cond(uint32_t value);
void standin_core_idle(uint32_t times);
void standin_check_code(uint64_t addr);
}

static inline long get_block_idx()
{
    return standin_core_block();
}

static inline long get_block_num()
{
    return (long)SYNC_FUNCTION(SYNC_BLOCKS)(0);
}

static inline long get_subblockid()
{
    return standin_core_sub_block();
}

/* As published, a cube core cannot read how many vector cores it has. */
static inline long get_subblockdim()
{
#ifdef __DAV_VEC__
    return 2;
#else
    return 1;
#endif
}

static inline long get_coreid()
{
    return standin_core_number();
}

/* About 50 cycles per microsecond, like the counter of a core. */
static inline long get_sys_cnt()
{
    return (long)(__builtin_ia32_rdtsc() >> 6);
}

static inline void set_cond(unsigned value)
{
    standin_core_set_cond(value);
}

/* The control register keeps its value, and has no other effect here. */
static inline long get_ctrl()
{
    return (long)SYNC_FUNCTION(SYNC_GET_CTRL)(0);
}

static inline void set_ctrl(unsigned long value)
{
    (void)SYNC_FUNCTION(SYNC_SET_CTRL)(value);
}

/* What the instruction MOV reads from DATA_MAIN_BASE: all 64 bits (ccec). */
static inline uint64_t cce_main_base()
{
    return SYNC_FUNCTION(SYNC_MAIN_BASE)(0);
}

/* A core of the stand-in has one pipe. */
static inline void pipe_barrier(pipe_t)
{
}

static inline void set_flag(pipe_t, pipe_t, event_t)
{
}

static inline void wait_flag(pipe_t, pipe_t, event_t)
{
}

#if __CCE_AICORE__ == 220
static inline void set_ffts_base_addr(unsigned long at)
{
    (void)SYNC_FUNCTION(SYNC_SET_BASE)(at);
}

static inline void ffts_cross_core_sync(pipe_t, unsigned long message)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    (void)SYNC_FUNCTION(SYNC_SIGNAL)(message);
}

static inline void wait_flag_dev(long flag)
{
    (void)SYNC_FUNCTION(SYNC_WAIT)((unsigned long)flag);
}
#endif

#if __CCE_AICORE__ == 310
template <typename T> static inline T ld_dev(T *at, short offset)
{
    return *(volatile T *)((char *)at + offset);
}

#define __ubuf__
#define __simt_vf__ __attribute__((noinline))
#define __simd_vf__ static /* no entry of its own */
#define LAUNCH_BOUND(threads)
static const struct {
    unsigned x, y, z;
} threadIdx = { 0, 0, 0 };
namespace cce
{
struct dim3 {
    unsigned x, y, z;
};
template <auto function, typename... Args> static inline void async_invoke(dim3, Args... args)
{
    function(args...);
}
} // namespace cce
#endif

/* Names for the port of the executor: the bell is a register that only an instruction can read. */
#define core_bell() standin_core_bell()
#define core_before_call(at) standin_check_code(at)
#define core_idle(times) standin_core_idle(times)
