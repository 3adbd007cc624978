/* SPDX-License-Identifier: Apache-2.0 */
/* Packs objects into an artefact. */
#ifndef PTO_PACK_H
#define PTO_PACK_H

#include "toolchain/build.h"

/* Computes the key of the artefact from all its inputs; objects enter by their keys. */
void pack_key(const struct build *build, const struct unit *units, uint32_t count,
              struct digest *key);
/*
 * Returns the name of an orchestration's function: the requested one, or the default for its kind
 * of source.
 */
const char *pack_entry(const struct pto_build_params *params, const void *object, size_t size);
/* Packs the objects of the units. The caller frees *bytes_out. */
int pack_units(const struct build *build, struct unit *units, uint32_t count, void **bytes_out,
               size_t *size_out, struct pto_error *error);

#endif
