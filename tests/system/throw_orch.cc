// SPDX-License-Identifier: Apache-2.0
//
// An orchestration that throws what its first scalar says, for throw.sh.
#include <stdexcept>

#include "pto/pto.h"

static void add(int64_t *args)
{
    ++*static_cast<uint32_t *>(pto_tensor_data(pto_arg_tensor(args, 0)));
}

struct witness {
    uint32_t *word;
    ~witness()
    {
        ++*word;
    } // frames that an exception leaves are cleaned up
};

static void orchestrate(pto_orch *o, const pto_entry *entry)
{
    witness w{ static_cast<uint32_t *>(pto_tensor_data(&entry->tensor[0])) + 1 };
    pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, &entry->tensor[0]);
    pto_submit_aiv(o, 0, &args);
    if (entry->scalar[0] == 1)
        throw std::runtime_error("the weights are of another model");
    if (entry->scalar[0] == 2)
        throw 42;
    try {
        throw std::logic_error("caught where it was thrown");
    } catch (const std::exception &) {
    }
}

static const pto_kernel kernels[] = { { "add", add, PTO_CORE_AIV } };

extern "C" __attribute__((visibility("default"))) const pto_callable_params pto_callable;
const pto_callable_params pto_callable = { sizeof(pto_callable_params),
                                           "throws",
                                           orchestrate,
                                           kernels,
                                           1,
                                           nullptr,
                                           false,
                                           nullptr,
                                           PTO_DEPS_SAFE,
                                           nullptr };
