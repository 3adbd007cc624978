/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An artefact is a file (.ptoc) with one compiled callable, little-endian.
 *
 *     header           magic, version, ABI, size, check, identity, offsets of the parts
 *     kernel[]         of each kernel: func_id, core type, name
 *     file[]           of each source: path, SHA-256, whether in the tile library; sorted
 *     text             the names, each with a final zero
 *     chip callable    wire/chip_callable.h; begins at a multiple of 64
 *
 * The parts are contiguous, so their offsets follow from their counts; the offsets in the header
 * must agree. `check` is the SHA-256 of everything else. `identity` is the SHA-256 of the code that
 * runs; it excludes the files, the compiler and the library's revision.
 *
 * A bare chip callable can be read as well: it has no name, platform, core types, files or check.
 */
#ifndef PTO_ARTEFACT_H
#define PTO_ARTEFACT_H

#include "base/digest.h"
#include "pto/pto.h"
#include "artefact/signature.h"
#include "wire/chip_callable.h"

/*
 * Version of the interface between the runtime and compiled code; artefacts with another one are
 * refused.
 */
enum { ARTEFACT_ABI = 3 };

enum { ARTEFACT_FILES_MAX = 1 << 20, ARTEFACT_BYTES_MAX = 1 << 30 };

struct artefact_file {
    /*
     * path of the source; a header of the tile library (is_isa) is relative to the library's root
     */
    const char *path;
    bool is_isa;
    struct digest digest;
};

struct artefact_kernel {
    uint32_t func_id;
    /* core type of the kernel; PTO_CORE_TYPES: either (only in artefacts that were read) */
    enum pto_core_type core;
    const char *name; /* name of the kernel; NULL means "" (only for artefact_make) */
    const void *bytes;
    size_t size;
};

struct artefact_parts {
    /* name of the callable; may be NULL, like all texts here except the platform */
    const char *name;
    const char *platform;
    const char *entry; /* name of the orchestration's function; NULL: "orchestrate" */
    const char *config;
    /* text that `pto inspect` shows: a line for each argument of the entry */
    const char *arguments;
    enum pto_mode mode;
    uint32_t abi; /* version of the interface of the code; 0: ARTEFACT_ABI */
    const enum pto_direction *signature;
    uint32_t signature_count;
    const void *orchestration;
    size_t orchestration_size;
    const struct artefact_kernel *kernels; /* kernels of the callable, in any order */
    uint32_t kernel_count;
    /* sources of the callable, in any order; a file that occurs twice is stored once */
    const struct artefact_file *files;
    uint32_t file_count;
    const char *isa_revision;
    const char *compiler;
};

/*
 * Makes an artefact. The caller frees *bytes_out. Equal parts give equal bytes. PTO_EINVAL,
 * PTO_ENOMEM.
 */
int artefact_make(const struct artefact_parts *parts, void **bytes_out, size_t *size_out,
                  struct pto_error *error);

/* An artefact in memory, as artefact_read found it. Texts and byte pointers point into the file. */
struct artefact {
    bool is_blob; /* the file is a chip callable without the header of an artefact */
    const char *name;
    const char *platform; /* platform for which the callable was compiled; NULL: any */
    const char *entry;
    const char *config;
    const char *arguments; /* description of the entry's arguments; NULL: unknown */
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
    /* signatures that follow the artefact, all of which were verified */
    const struct signature *signers;
    uint32_t signer_count;
    /*
     * Tables in the file, possibly unaligned; artefact_kernel_at and similar functions read them.
     */
    const uint8_t *kernels;
    const uint8_t *files;
    const char *text;
    const uint8_t *callable;
};

/*
 * Validates an artefact, except the shared objects in it, so that other code needs no further
 * checks. `bytes`, at any alignment, must outlive *out. PTO_EFORMAT sets `error`. Allocates
 * nothing.
 */
int artefact_read(const void *bytes, size_t size, struct artefact *out, struct pto_error *error);
/*
 * Validates the first `have` bytes of an artefact of `size` bytes, before the file is read as a
 * whole. Returns the statuses of artefact_read.
 */
int artefact_glance(const void *bytes, size_t have, size_t size, struct pto_error *error);
enum pto_direction artefact_direction(const struct artefact *a, uint32_t index);
struct artefact_kernel artefact_kernel_at(const struct artefact *a, uint32_t index);
struct artefact_file artefact_file_at(const struct artefact *a, uint32_t index);
/*
 * Compares two sources of an artefact, by kind and path without regard to the digest. Returns a
 * number below, equal to or above 0.
 */
int artefact_order(const struct artefact_file *a, const struct artefact_file *b);

/* ARTEFACT_OBJECT is an ELF object, ARTEFACT_BLOB a chip callable without artefact. */
enum artefact_kind { ARTEFACT_NONE, ARTEFACT_OBJECT, ARTEFACT_FILE, ARTEFACT_BLOB };

/* Returns the kind of file that the first bytes indicate; nothing else is checked. */
enum artefact_kind artefact_recognise(const void *bytes, size_t size);

/* For tests: corrects the hashes of an altered artefact, as far as its header is valid. */
void artefact_seal(void *bytes, size_t size);

#endif
