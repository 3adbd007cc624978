/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that is called in this process: shared objects of this machine, each loaded
 * for itself. For the backends that do so, which need nothing else to load and unload.
 */
#ifndef PTO_LOCAL_CODE_H
#define PTO_LOCAL_CODE_H

#include "chip/backend.h"

struct chip_code {
    struct chip_functions functions;
    struct graph_kernel *kernel; /* by func_id */
    struct object **object;      /* the orchestration's, then the kernels' */
    uint32_t object_count;
    struct door *door; /* of the orchestration; NULL: it is one of ours */
};

/* As the load and the unload of a backend, without the chip. */
int local_code_load(const struct chip_program *program, struct chip_code **code_out,
                    struct pto_error *error);
void local_code_unload(struct chip_code *code);

#endif
