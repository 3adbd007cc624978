/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests: the inputs of an object, as lines, and the differences between two of them. They are
 * stored with objects for people to read; the key alone decides whether an object is valid.
 */
#ifndef PTO_MANIFEST_H
#define PTO_MANIFEST_H

#include "toolchain/command.h"
#include "toolchain/scan.h"

/*
 * The inputs of an object. Their lines are `source PATH HASH`, `platform X`, `kind X`, `abi N`,
 * `flag X`, `env NAME=VALUE`, `compiler PATH HASH`, `file PATH HASH`, `absent PATH` and `more
 * PATH`.
 */
struct manifest_params {
    const struct pto_source *source;
    const char *platform;
    const struct compile_command *command;
    const struct compiler *compiler;
    const struct words *variables;
    const struct words *more;
    struct scan *scan;
};

void manifest_write(const struct manifest_params *params, struct text *out);
/* Appends the compiler's output, as lines `output X`. */
void manifest_add_output(struct text *manifest, const char *output);
/* Extracts the lines `output X`. */
void manifest_output(const char *manifest, struct text *out);

/* Describes the first few differences: names, old and new digests. False: there are none. */
bool manifest_compare(const char *old, const char *new, struct text *out);

#endif
