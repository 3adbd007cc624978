/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that is called in this process: shared objects for this machine, loaded separately for each
 * chip. For backends whose load and unload do nothing else.
 */
#ifndef PTO_LOCAL_CODE_H
#define PTO_LOCAL_CODE_H

#include "chip/backend.h"

struct chip_code {
    struct chip_functions functions;
    struct graph_kernel *kernel; /* kernels, indexed by func_id */
    /* Links to kernels that report their accesses, by func_id; NULL: the kernel does not. */
    const struct pto_access_link **link;
    /* The declared arguments of the program's kernels, in the order of the program. */
    uint32_t (*declared)[KERNEL_ARGS_MAX + 1];
    char **kernel_name; /* names of the kernels, by func_id; NULL: no kernel has this id */
    /* The object of the orchestration, then those of the kernels. */
    struct object **object;
    uint32_t object_count;
    /*
     * adapter for an orchestration compiled for the reference; NULL: the orchestration uses
     * pto/orch.h
     */
    struct compat_orch *compat;
};

/* The load and unload functions of a backend, without the parameter for the chip. */
int local_code_load(const struct chip_program *program, struct chip_code **code_out,
                    struct pto_error *error);
void local_code_unload(struct chip_code *code);

#endif
