/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dialect of the vendor's compiler, for clang as a CUDA device compiler: the macros that the
 * vendor's compiler predefines, and the intrinsics that code for cores uses here. clang then
 * enforces what the vendor's compiler enforces: C++17, address spaces, and that a function on a
 * core calls only functions that are marked. Not defined, because the vendor's compiler does not
 * define it: __aicore__.
 */
#define __gm__ __attribute__((address_space(1)))
/*
 * clang allows no second attribute of its own kind, and the entry is marked as a core's function
 * anyway
 */
#define __global__
#define CCE_INTRINSIC __attribute__((device))

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

CCE_INTRINSIC void dcci(__gm__ void *at, cache_line_t what);
CCE_INTRINSIC void dcci(__gm__ void *at, cache_line_t what, dcci_dst_t to);
CCE_INTRINSIC void dsb(mem_dsb_t what);
CCE_INTRINSIC void set_st_atomic_cfg(atomic_type_t type, atomic_op_t op);
template <typename T> CCE_INTRINSIC void st_atomic(T value, __gm__ T *at);
CCE_INTRINSIC long get_block_idx();
CCE_INTRINSIC long get_block_num();
CCE_INTRINSIC long get_subblockid();
CCE_INTRINSIC long get_subblockdim();
CCE_INTRINSIC long get_coreid();
CCE_INTRINSIC long get_sys_cnt();
CCE_INTRINSIC void set_cond(unsigned value);
CCE_INTRINSIC long get_ctrl();
CCE_INTRINSIC void set_ctrl(unsigned long value);
CCE_INTRINSIC void pipe_barrier(pipe_t pipe);
CCE_INTRINSIC void set_flag(pipe_t from, pipe_t to, event_t event);
CCE_INTRINSIC void wait_flag(pipe_t from, pipe_t to, event_t event);
/* cores of the newer generation signal each other by other instructions */
#if __CCE_AICORE__ == 220
CCE_INTRINSIC void set_ffts_base_addr(unsigned long at);
CCE_INTRINSIC void ffts_cross_core_sync(pipe_t pipe, unsigned long message);
CCE_INTRINSIC void wait_flag_dev(long flag);
#endif
#if __CCE_AICORE__ == 310 /* functions that use registers, threads, or vectors of local memory */
template <typename T> CCE_INTRINSIC T ld_dev(T *at, short offset);
template <typename T> CCE_INTRINSIC T ld_dev(__gm__ T *at, short offset);
#define __ubuf__ __attribute__((address_space(6)))
#define __simt_vf__ __attribute__((noinline))
#define __simd_vf__
#define LAUNCH_BOUND(threads)
struct cce_thread {
    unsigned x, y, z;
};
extern CCE_INTRINSIC const cce_thread threadIdx;
namespace cce
{
struct dim3 {
    unsigned x, y, z;
};
template <auto function, typename... Args>
CCE_INTRINSIC inline void async_invoke(dim3, Args... args)
{
    function(args...); /* the arguments are those that it takes */
}
} // namespace cce
#endif
#undef CCE_INTRINSIC
