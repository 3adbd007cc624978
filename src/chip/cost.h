/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes how long kernels take on a chip in virtual time, from formulas over the arguments of an
 * invocation. A formula applies to a kernel, by name, and if stated to certain shapes of its
 * arguments.
 */
#ifndef PTO_COST_H
#define PTO_COST_H

#include "pto/tensor.h"
#include "pto/virtual.h"

struct cost_model;

/* The arguments of an invocation, on which its duration may depend. */
struct cost_arguments {
    const struct pto_tensor *tensor;
    const uint64_t *scalar;
    int64_t *vector; /* what the kernel gets; NULL: nothing that can be measured */
    uint32_t tensor_count, scalar_count;
    uint32_t block_count;
};

/*
 * Makes a model from options, which may have no costs. PTO_EINVAL: a formula is wrong, and `error`
 * explains it. PTO_ENOMEM.
 */
int cost_model_create(const struct pto_virtual_options *options, struct cost_model **model_out,
                      struct pto_error *error);
void cost_model_destroy(struct cost_model *model); /* accepts NULL */
const struct pto_virtual_options *cost_model_options(const struct cost_model *model);

/*
 * Finds the model's rows for `count` kernels, given by func_id. The first name_count of them have
 * names, which may be NULL. PTO_ENOMEM.
 */
int cost_model_bind(struct cost_model *model, const char *const *name, uint32_t name_count,
                    uint32_t count);
/* Begins a run: clears which rows were used. */
void cost_model_begin(struct cost_model *model);
/*
 * Computes the duration of an invocation of a kernel. False: the formula has no value for these
 * arguments.
 */
bool cost_model_ns(struct cost_model *model, uint32_t kernel, const struct cost_arguments *args,
                   uint64_t *ns_out);
/* Writes a text that says where the durations of a kernel came from since cost_model_begin. */
void cost_model_origin(const struct cost_model *model, uint32_t kernel, char *text, size_t size);
/* Returns where a kernel's durations came from, as enum pto_recording_origin. */
uint8_t cost_model_kind(const struct cost_model *model, uint32_t kernel);
/* Returns the name that cost_model_bind gave to a kernel. */
const char *cost_model_name(const struct cost_model *model, uint32_t kernel);

#endif
