/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of an artefact's bytes, for the code that writes and reads them; artefact.h describes
 * it.
 */
#ifndef PTO_ARTEFACT_LAYOUT_H
#define PTO_ARTEFACT_LAYOUT_H

#include "artefact/artefact.h"

/*
 * Magic bytes of an artefact. A copy in text mode changes line ends and control characters, so it
 * damages the magic.
 */
#define ARTEFACT_MAGIC "PTOC\r\n\x1a\n"

enum { ARTEFACT_VERSION = 1, ARTEFACT_ALIGN = 64, ARTEFACT_MAGIC_BYTES = 8, FILE_IS_ISA = 1 };

struct artefact_header {
    char magic[ARTEFACT_MAGIC_BYTES];
    uint32_t version;
    uint32_t abi;
    uint64_t size; /* size of the artefact in bytes, without signatures */
    struct digest check;
    struct digest identity;
    uint32_t mode;
    uint32_t kernel_count;
    uint32_t file_count;
    uint32_t text_size;
    uint64_t kernel_offset;
    uint64_t file_offset;
    uint64_t text_offset;
    uint64_t callable_offset;
    uint64_t callable_size;
    uint32_t name; /* offsets of texts, counted from text_offset */
    uint32_t platform;
    uint32_t isa_revision;
    uint32_t compiler;
    uint32_t arguments; /* offset of a text; 0: none */
    uint32_t reserved[3];
};

struct kernel_record {
    uint32_t func_id;
    uint32_t core;
    uint32_t name;
};

struct file_record {
    uint32_t path;
    uint32_t flags;
    struct digest digest;
};

static_assert(sizeof(struct artefact_header) == 176, "a file format");
static_assert(offsetof(struct artefact_header, check) == 24, "a file format");
static_assert(offsetof(struct artefact_header, kernel_offset) == 104, "a file format");
static_assert(sizeof(struct kernel_record) == 12, "a file format");
static_assert(sizeof(struct file_record) == 40, "a file format");

static inline uint64_t artefact_round(uint64_t bytes)
{
    return (bytes + ARTEFACT_ALIGN - 1) / ARTEFACT_ALIGN * ARTEFACT_ALIGN;
}

/*
 * Fills in the header's offsets, which follow from its counts. The sums cannot overflow, because
 * every summand fits 33 bits.
 */
void artefact_place(struct artefact_header *header);
/* Computes the digest of all bytes of an artefact except `check` in its header. */
void artefact_check_of(const void *bytes, size_t size, struct digest *out);
/* Computes the digest of the code that an artefact runs. */
void artefact_identity_of(const struct artefact *a, struct digest *out);
/* artefact_read without the checks of the two hashes. */
int artefact_read_unsealed(const void *bytes, size_t size, struct artefact *out);

#endif
