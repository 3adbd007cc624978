/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations of kernels from the cost model of the tile library (pto-isa), which the user has
 * installed. The kernels are compiled once more, with that model, and measured in a child process
 * for each combination of shapes and scalars.
 */
#ifndef PTO_SCENE_ISA_H
#define PTO_SCENE_ISA_H

#include "pto/virtual.h"
#include "tool/scene/scene_build.h"

struct scene_isa;

/*
 * Compiles and loads the kernels of the scene with the cost model, except those in C and those with
 * a cost in `given`. The scene must outlive the result. PTO_ENOSUP: no kernel can be measured, or
 * the library has no cost model of the platform. PTO_EBUILD: the library or a kernel does not
 * compile with the model.
 */
int scene_isa_open(const struct scene *scene, const char *platform,
                   const struct scene_build_options *options,
                   const struct pto_virtual_options *given, struct scene_isa **isa_out,
                   struct pto_error *error);
void scene_isa_close(struct scene_isa *isa); /* accepts NULL */
/* The function `measure` of struct pto_virtual_options; its context is a struct scene_isa. */
int scene_isa_measure(void *context, const char *kernel, int64_t *args, uint64_t *ns_out);

#endif
