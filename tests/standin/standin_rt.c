/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in's libruntime: programs for cores that are registered as a whole and launched by a
 * key. This library is below the public one, and version 9.2 deprecates it; the vendor's library
 * copies a program to the card at its first launch.
 */
#include <string.h>

#include "tests/standin/standin.h"

enum { ERR_PARAM = 107000, MAGIC_MIX = 0x43554245, TOGETHER = 1 };

struct program {
    uint32_t magic, version;
    const void *data;
    uint64_t bytes;
};

struct rt_args {
    void *args, *host_inputs;
    uint32_t bytes, tiling[2];
    uint16_t host_input_count;
    uint8_t has_tiling, is_on_device, reserved[8];
};

struct rt_task {
    uint8_t qos, part, schem, is_cross;
    uint32_t block_offset;
    uint8_t flags[4];
    uint32_t local_bytes;
};

int rtRegisterAllKernel(const struct program *program, void **binary)
{
    ENTER(rtRegisterAllKernel);
    if (standin_check_bound() != 0)
        return standin_check_bound();
    if (program == NULL || program->magic != MAGIC_MIX)
        return ERR_PARAM;
    return standin_add_executor(program->data, program->bytes, true, binary);
}

int rtDevBinaryUnRegister(void *binary)
{
    ENTER(rtDevBinaryUnRegister);
    return standin_check_bound() != 0 ? standin_check_bound() : standin_remove_binary(binary);
}

int rtKernelLaunchWithHandleV2(void *binary, uint64_t key, uint32_t blocks, struct rt_args *args,
                               void *shared_memory, void *stream, const struct rt_task *task)
{
    ENTER(rtKernelLaunchWithHandleV2);
    if (standin_check_bound() != 0)
        return standin_check_bound();
    if (shared_memory != NULL || args == NULL || args->has_tiling != 0 ||
        args->host_input_count != 0 || args->is_on_device != 0)
        return ERR_PARAM;
    return standin_launch_executor(binary, key, blocks, stream, args->args, args->bytes,
                                   task != NULL && task->schem == TOGETHER);
}
