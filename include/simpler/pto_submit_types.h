// SPDX-License-Identifier: Apache-2.0
/*
 * How a task is launched: kernels by lane, blocks, a predicate.
 *
 * The tool chain defines PTO_FOR_A5 for that chip, and PTO_FOR_HOST if the graph is complete
 * before the first task runs.
 */
#ifndef PTO_SIMPLER_SUBMIT_TYPES_H
#define PTO_SIMPLER_SUBMIT_TYPES_H

#include <cstdint>

#include "tensor.h"

#include "pto/orch.h"

inline constexpr int32_t INVALID_KERNEL_ID = -1;

struct MixedKernels {
    int32_t aic_kernel_id{ INVALID_KERNEL_ID };
    int32_t aiv0_kernel_id{ INVALID_KERNEL_ID };
    int32_t aiv1_kernel_id{ INVALID_KERNEL_ID };
};

static_assert(sizeof(MixedKernels) == sizeof(struct pto_kernels),
              "lanes are passed on unchanged, so both layouts must be equal");

enum class PredicateOp : uint8_t { NONE, EQ, NE, GT, LT, GE, LE };

struct CorePredicateOperand {
    const ChipTensor *tensor{ nullptr };
    uint32_t ndims{ 0 };
    uint32_t indices[MAX_TENSOR_DIMS]{};
};

// struct pto_predicate
struct CoreTaskPredicate {
    CorePredicateOperand operand;
    PredicateOp op{ PredicateOp::NONE };
    int64_t target{ 0 };
};

static_assert(sizeof(CoreTaskPredicate) == sizeof(struct pto_predicate) &&
                  offsetof(CoreTaskPredicate, op) == offsetof(struct pto_predicate, op) &&
                  offsetof(CoreTaskPredicate, target) == offsetof(struct pto_predicate, target) &&
                  offsetof(CorePredicateOperand, indices) ==
                      offsetof(struct pto_predicate, indices),
              "a predicate is passed on unchanged, so both layouts must be equal");

/*
 * The API of one generation says "cores" for blocks. Code tests which of the two names exists, so
 * only one of them is defined.
 */
class PTO2LaunchSpec
{
  public:
    constexpr PTO2LaunchSpec() = default;

#if defined(PTO_FOR_A5) && !defined(PTO_FOR_HOST)
    int16_t core_num() const
    {
        return count_;
    }
    void set_core_num(int16_t n)
    {
        count_ = n;
    }
#else
    int16_t block_num() const
    {
        return count_;
    }
    void set_block_num(int16_t n)
    {
        count_ = n;
    }
#endif
    bool require_sync_start() const
    {
        return is_sync_start_;
    }
    void set_require_sync_start(bool v)
    {
        is_sync_start_ = v;
    }

    // Copies this launch spec into the arguments of the runtime's submit.
    template <typename Args> void put(Args &args) const
    {
        args.block_count = count_;
        args.is_sync_start = is_sync_start_;
    }

  private:
    int16_t count_{ 1 };
    bool is_sync_start_{ false };
};

#endif
