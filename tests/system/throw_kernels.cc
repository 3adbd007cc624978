// SPDX-License-Identifier: Apache-2.0
// Kernels and orchestrations that leave by an exception or by pthread_exit, for throw.sh: on the
// caller's thread and on others, in blocks and gangs. Each ends its run, and the device goes on.
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "pto/pto.h"

namespace {

std::atomic<int> destroyed;

struct Local {
    ~Local() { destroyed++; }
};

enum { THROWS, THROWS_INT, EXITS, WELL, KERNELS };

void kernel_throws(int64_t *args)
{
    Local local;

    if (pto_block_index(args) == pto_block_count(args) - 1)
        throw std::runtime_error("the tile is of another shape");
}

void kernel_throws_int(int64_t *)
{
    throw 7;
}

void kernel_exits(int64_t *)
{
    Local local;

    pthread_exit(nullptr);
}

void kernel_well(int64_t *args)
{
    (*static_cast<uint32_t *>(pto_tensor_data(pto_arg_tensor(args, 0))))++;
}

struct Wanted {
    uint64_t kernel, blocks, is_gang;
    int status;
    const char *says;
};

const Wanted wanted[] = {
    { THROWS, 1, 0, PTO_ECRASH, "kernel \"throws\" threw an exception in block 0 of task 1: the tile" },
    { THROWS, 4, 0, PTO_ECRASH, "kernel \"throws\" threw an exception in block 3 of task 1: the tile" },
    { THROWS, 4, 1, PTO_ECRASH, "kernel \"throws\" threw an exception in block 3 of task 1: the tile" },
    { THROWS_INT, 1, 0, PTO_ECRASH, "of task 1: not a std::exception" },
    { EXITS, 1, 0, PTO_ECRASH, "kernel \"exits\" called pthread_exit in block 0 of task 1" },
    { EXITS, 4, 1, PTO_ECRASH, "kernel \"exits\" called pthread_exit" },
    { KERNELS, 1, 0, PTO_EORCH, "the orchestration called pthread_exit" },
    { WELL, 1, 0, PTO_OK, "" },
};

void orchestrate(pto_orch *o, const pto_entry *entry)
{
    pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, entry->tensor);
    pto_submit_aiv(o, WELL, &args);
    if (entry->scalar[0] == KERNELS)
        pthread_exit(nullptr);
    pto_set_blocks(&args, static_cast<int32_t>(entry->scalar[1]));
    pto_set_sync_start(&args, entry->scalar[2] != 0);
    pto_submit_aiv(o, static_cast<int32_t>(entry->scalar[0]), &args);
}

bool is_well(pto_device *device, pto_callable *callable, const Wanted &want)
{
    uint32_t words[16] = {};
    const uint32_t shape[] = { 16 };
    pto_tensor tensor = pto_tensor_external(words, shape, 1, PTO_UINT32);
    const uint64_t scalars[] = { want.kernel, want.blocks, want.is_gang };
    pto_entry entry = { 1, 3, &tensor, scalars };
    pto_run_report report;

    pto_run_report_init(&report);
    int status = pto_run(device, callable, &entry, nullptr, &report);
    bool is_right = status == want.status && std::strstr(report.error.text, want.says) != nullptr;

    if (!is_right)
        std::printf("%d (%d wanted), \"%s\", not \"%s\"\n", status, want.status, report.error.text,
                    want.says);
    return is_right;
}

} // namespace

int main()
{
    static const pto_kernel kernels[KERNELS] = { { "throws", kernel_throws, PTO_CORE_AIV },
                                                 { "throws_int", kernel_throws_int, PTO_CORE_AIV },
                                                 { "exits", kernel_exits, PTO_CORE_AIV },
                                                 { "well", kernel_well, PTO_CORE_AIV } };
    pto_callable_params callable_params;
    pto_callable *callable;
    int failed = 0;

    pto_callable_params_init(&callable_params);
    callable_params.orchestration = orchestrate;
    callable_params.kernels = kernels;
    callable_params.kernel_count = KERNELS;
    if (pto_callable_create(&callable_params, &callable) < 0)
        return 1;
    for (uint32_t workers = 1; workers <= 3; workers += 2) {
        pto_device_params params;
        pto_device *device;

        pto_device_params_init(&params);
        params.workers = workers;
        if (pto_device_open(&params, &device) < 0)
            return 1;
        for (int round = 0; round < 20; round++)
            for (const Wanted &want : wanted)
                failed += !is_well(device, callable, want);
        failed += pto_device_close(device) != PTO_OK;
    }
    if (destroyed < 2 * 20 * 5) {
        std::printf("destructors were not run\n");
        failed++;
    }
    pto_callable_destroy(callable);
    return failed != 0;
}
