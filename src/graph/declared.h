/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the arguments of a submit with those that its kernel declares. */
#ifndef PTO_GRAPH_DECLARED_H
#define PTO_GRAPH_DECLARED_H

#include "wire/failure.h"
#include "wire/kernel.h"

struct misfit {
    enum declared_misfit kind;
    int32_t argument; /* index of the tensor or scalar; -1: their number is wrong */
    /* declaration of that argument; if the number is wrong: the declared number */
    uint32_t word;
};

/*
 * Whether the arguments differ from the declaration, a list of words that ends with 0. If so, *out
 * describes the first difference. Invalid tensors are not reported here, because every submit
 * checks them.
 */
bool declared_find_misfit(const uint32_t *declared, const struct pto_args *args,
                          struct misfit *out);

#endif
