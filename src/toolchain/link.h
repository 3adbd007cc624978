/* SPDX-License-Identifier: Apache-2.0 */
/* Links parts into a program for a real chip. */
#ifndef PTO_LINK_H
#define PTO_LINK_H

#include "toolchain/build.h"

/* Links units for one processor. The caller frees *bytes_out. */
int link_units(struct build *build, struct unit *units, uint32_t count, void **bytes_out,
               size_t *size_out, struct pto_error *error);

#endif
