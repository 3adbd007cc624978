/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds NaN and Inf in the arguments of a task. The inputs are read before its first kernel starts,
 * the outputs after its last one has returned. Pure.
 */
#ifndef PTO_FINITE_H
#define PTO_FINITE_H

#include "wire/failure.h"
#include "wire/slot.h"

/* An element of an argument. */
struct finite_place {
    int32_t argument; /* index of the argument; -1: no such element was found */
    uint64_t place;   /* distance from the argument's first element, in elements */
};

/* NaN and Inf in the inputs of a task: the first element of each kind. */
struct finite_inputs {
    struct finite_place nan;
    struct finite_place inf;
    struct finite_place unwritten; /* the element holds poison, which means that no task wrote it */
};

/* A NaN or Inf that a task computed: found in an output and not explained by its inputs. */
struct finite_found {
    struct finite_place at;
    bool is_nan; /* otherwise Inf */
};

/* Returns the bytes from the first to the last element; 0: the type has no NaN. */
uint64_t finite_bytes(const struct pto_tensor *x);
/* Adds the first NaN, Inf and unwritten element of one input to `inputs`. */
void finite_add_input(struct finite_inputs *inputs, const struct pto_tensor *x, int32_t argument);
/*
 * Finds the first element of an output that is NaN or Inf, was written by the task, and is not
 * explained by NaN or Inf in its inputs. `before` is a copy of the output's bytes before the task.
 */
bool finite_find(const struct finite_inputs *inputs, const struct pto_tensor *x, int32_t argument,
                 const unsigned char *before, struct finite_found *out);

#endif
