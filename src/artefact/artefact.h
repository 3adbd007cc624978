/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The artefact: one file (.ptoc) for one callable, little-endian.
 *
 *     header           magic, version, ABI, size, check, identity, where the parts are
 *     kernel[]         func_id, core type, name
 *     file[]           what it was made of: path, SHA-256, whether of the tile library; sorted
 *     text             the names, each with its zero
 *     chip callable    wire/chip_callable.h, from a multiple of 64 to the end
 *
 * The parts lie one behind the other, so that their places follow from their
 * counts; the places in the header have to agree. `check` is the SHA-256 of
 * everything else. `identity` is that of what runs: not of the files, the
 * compiler and the library's revision that it was made of.
 *
 * A chip callable without any of that is read, too: it has no name, platform,
 * core types, files or check.
 */
#ifndef PTO_ARTEFACT_H
#define PTO_ARTEFACT_H

#include "base/digest.h"
#include "pto/pto.h"
#include "artefact/signature.h"
#include "wire/chip_callable.h"

/* Of what crosses between the runtime and compiled code. Old artefacts are refused after a change. */
enum { ARTEFACT_ABI = 3 };

enum { ARTEFACT_FILES_MAX = 1 << 20, ARTEFACT_BYTES_MAX = 1 << 30 };

struct artefact_file {
    const char *path; /* of the tile library's headers: relative to its root */
    bool is_isa;
    struct digest digest;
};

struct artefact_kernel {
    uint32_t func_id;
    enum pto_core_type core; /* PTO_CORE_TYPES, when read only: either */
    const char *name;        /* NULL, when made only: "" */
    const void *bytes;
    size_t size;
};

struct artefact_parts {
    const char *name; /* of texts, all but the platform may be NULL */
    const char *platform;
    const char *entry; /* NULL: "orchestrate" */
    const char *config;
    const char *arguments; /* for people, a line each */
    enum pto_mode mode;
    uint32_t abi; /* 0: ARTEFACT_ABI */
    const enum pto_direction *signature;
    uint32_t signature_count;
    const void *orchestration;
    size_t orchestration_size;
    const struct artefact_kernel *kernels; /* in any order */
    uint32_t kernel_count;
    const struct artefact_file *files; /* in any order; the same one twice is one */
    uint32_t file_count;
    const char *isa_revision;
    const char *compiler;
};

/* The caller frees *bytes_out. Equal parts give equal bytes. PTO_EINVAL, PTO_ENOMEM. */
int artefact_make(const struct artefact_parts *parts, void **bytes_out, size_t *size_out,
                  struct pto_error *error);

/* What was read. Texts and bytes are those of the file. */
struct artefact {
    bool is_blob; /* a chip callable alone */
    const char *name;
    const char *platform; /* NULL: any */
    const char *entry;
    const char *config;
    const char *arguments; /* NULL: not told */
    enum pto_mode mode;
    uint32_t abi;
    uint32_t signature_count;
    uint32_t kernel_count;
    uint32_t file_count;
    const char *isa_revision;
    const char *compiler;
    const void *orchestration;
    size_t orchestration_size;
    struct digest identity;
    const struct signature *signers; /* behind it, all of them right */
    uint32_t signer_count;
    const uint8_t *kernels; /* the file's tables, aligned or not: the functions below read them */
    const uint8_t *files;
    const char *text;
    const uint8_t *callable;
};

/*
 * Checks everything: what it accepts can be used without further looks, but for
 * the objects inside. `bytes`, at any address, have to outlive *out. PTO_EFORMAT
 * with a sentence; nothing is allocated.
 */
int artefact_read(const void *bytes, size_t size, struct artefact *out, struct pto_error *error);
/* Of the first `have` bytes: whether a file of `size` bytes is worth reading. As artefact_read. */
int artefact_glance(const void *bytes, size_t have, size_t size, struct pto_error *error);
enum pto_direction artefact_direction(const struct artefact *a, uint32_t index);
struct artefact_kernel artefact_kernel_at(const struct artefact *a, uint32_t index);
struct artefact_file artefact_file_at(const struct artefact *a, uint32_t index);
/* The order of the files, by kind and path without regard to the digest: below, 0 or above 0. */
int artefact_order(const struct artefact_file *a, const struct artefact_file *b);

enum artefact_kind { ARTEFACT_NONE, ARTEFACT_OBJECT /* ELF */, ARTEFACT_FILE, ARTEFACT_BLOB };

/* What the bytes look like; nothing is promised of the rest. */
enum artefact_kind artefact_recognise(const void *bytes, size_t size);

/* For tests: makes the hashes of an altered artefact right, as far as its header can be followed. */
void artefact_seal(void *bytes, size_t size);

#endif
