/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overlay of the tile library: folders whose headers come before the library's, for simulated
 * chips. There are two kinds. A patched copy of a header that an older compiler cannot read is made
 * when it is needed. Our own headers, in include/pto/isa/, include the library's header of the same
 * name and add overloads that compute the same bits faster.
 */
#ifndef PTO_OVERLAY_H
#define PTO_OVERLAY_H

#include "toolchain/build.h"

/* Number of the work folder for the overlay, above that of every source. */
enum { OVERLAY_WORK = 1025 };

/* Folders of our headers: faster operations, and a bfloat16_t for compilers without one. */
#define OVERLAY_FAST "pto/isa/fast"
#define OVERLAY_TYPES "pto/isa/types"

/*
 * Reads whether the faster headers are used: `given` is "on", "off" or NULL, which means
 * PTO_ISA_OVERLAY or, without it, on.
 */
int overlay_read(const char *given, bool *is_on_out, struct pto_error *error);
/* Lists the folders for this compiler in build->overlay, in their order. */
int overlay_make(struct build *build, const struct compiler *compiler, struct pto_error *error);

#endif
