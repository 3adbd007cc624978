/* SPDX-License-Identifier: Apache-2.0 */
/* Parts into a program for a real chip. */
#ifndef PTO_LINK_H
#define PTO_LINK_H

#include "toolchain/build.h"

/* All for the same processor. The caller frees *bytes_out. */
int link_units(struct build *build, struct unit *units, uint32_t count, void **bytes_out,
               size_t *size_out, struct pto_error *error);

#endif
