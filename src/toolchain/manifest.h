/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an object was made of, in lines, and what is different between two of them.
 * Manifests are kept with objects for people; that an object is the right one
 * is decided by its key alone.
 */
#ifndef PTO_MANIFEST_H
#define PTO_MANIFEST_H

#include "toolchain/command.h"
#include "toolchain/scan.h"

/*
 * `source PATH HASH`, `platform X`, `kind X`, `abi N`, `flag X`, `env NAME=VALUE`,
 * `compiler PATH HASH`, `file PATH HASH`, `absent PATH`, `more PATH`.
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
/* Appends what the compiler said, as lines `output X`. */
void manifest_add_output(struct text *manifest, const char *output);
/* The lines `output X`, together. */
void manifest_output(const char *manifest, struct text *out);

/*
 * A sentence for the first few differences: names, old and new digests.
 * False: there is none.
 */
bool manifest_compare(const char *old, const char *new, struct text *out);

#endif
