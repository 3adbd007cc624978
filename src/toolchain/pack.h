/* SPDX-License-Identifier: Apache-2.0 */
/* Objects into an artefact. */
#ifndef PTO_PACK_H
#define PTO_PACK_H

#include "toolchain/build.h"

/* Of the artefact: of all that goes into it, the objects by their keys. */
void pack_key(const struct build *build, const struct unit *units, uint32_t count,
              struct digest *key);
/* The name of an orchestration's function: what was asked for, or what its kind of source has. */
const char *pack_entry(const struct pto_build_params *params, const void *object, size_t size);
/* The caller frees *bytes_out. */
int pack_units(const struct build *build, struct unit *units, uint32_t count, void **bytes_out,
               size_t *size_out, struct pto_error *error);

#endif
