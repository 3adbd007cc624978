/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callables: an orchestration with its kernels, from functions, from a file or
 * from memory. They belong to no device; registering makes one known to a device.
 */
#ifndef PTO_API_CALLABLE_H
#define PTO_API_CALLABLE_H

#include <stddef.h>
#include <string.h>

#include "pto/device.h"
#include "pto/error.h"
#include "pto/orch.h"
#include "pto/platform.h"
#include "pto/rules.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct pto_kernel {
    const char *name;
    pto_kernel_fn fn;
    enum pto_core_type core;
};

struct pto_callable;

/* How a callable uses an argument of its entry. */
#define PTO_DIRECTION_MAP(X) \
    X(SCALAR, "scalar")      \
    X(IN, "in")              \
    X(OUT, "out")            \
    X(INOUT, "inout")

enum pto_direction {
#define X(name, text) PTO_DIR_##name,
    PTO_DIRECTION_MAP(X)
#undef X
        PTO_DIR_COUNT
};

static inline const char *pto_direction_name(uint32_t direction)
{
    static const char *const names[PTO_DIR_COUNT] = {
#define X(name, text) text,
        PTO_DIRECTION_MAP(X)
#undef X
    };

    return direction < PTO_DIR_COUNT ? names[direction] : "unknown";
}

struct pto_callable_params {
    size_t size;
    const char *name;
    pto_orch_fn orchestration;
    const struct pto_kernel *kernels; /* indexed by the kernel id of a submit; copied */
    uint32_t kernel_count;            /* at most 1024 */
};

/* Sets the defaults. */
static inline void pto_callable_params_init(struct pto_callable_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
}

int pto_callable_create(const struct pto_callable_params *params,
                        struct pto_callable **callable_out);
/*
 * From a file, whose kind is told by its content:
 *
 *   - an artefact (.ptoc) or a chip callable of the reference's layout, as with
 *     pto_callable_load_memory. `symbol` is the function of its orchestration;
 *     NULL: the one that it names.
 *   - a shared object that exports a `struct pto_callable_params` under the name
 *     `symbol` (NULL: "pto_callable"). The object stays loaded until the
 *     callable is destroyed, and its symbols are visible to nothing else.
 *
 * PTO_ELOAD, PTO_EFORMAT: `error`, which may be NULL, tells why.
 */
int pto_callable_load(const char *path, const char *symbol, struct pto_callable **callable_out,
                      struct pto_error *error);

/* A header of the tile library, and its SHA-256 in 64 lower-case digits. */
struct pto_header {
    const char *path; /* relative to the library's root */
    const char *digest;
};

struct pto_load_options {
    size_t size;
    const char *name;   /* what messages call the bytes; NULL: "the callable" */
    const char *symbol; /* function of the orchestration; NULL: the one that the artefact names */
    /*
     * What the artefact has to be made with, or it is refused with PTO_ESTALE: a
     * revision of the tile library as the artefact records it, or a folder, whose
     * headers are compared with those that it records. NULL: anything.
     */
    const char *expect_isa;
    /* The same as a list: headers that both name have to be equal. */
    const struct pto_header *expect_headers;
    uint32_t expect_header_count;
};

/* Sets the defaults. */
static inline void pto_load_options_init(struct pto_load_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof(*options));
    options->size = sizeof(*options);
}

/*
 * From the bytes of an artefact, or of a chip callable of the reference's layout;
 * they are copied. Everything is checked: sizes, offsets, hashes, the ABI. Its
 * code is loaded when it is registered. `options` and `error` may be NULL.
 * PTO_EFORMAT, PTO_ESTALE.
 */
int pto_callable_load_memory(const void *bytes, size_t size, const struct pto_load_options *options,
                             struct pto_callable **callable_out, struct pto_error *error);
/* PTO_EBUSY while a run or a graph uses it. It is unregistered from all devices. */
int pto_callable_destroy(struct pto_callable *callable);

/* Texts and arrays are the callable's. What it does not have is NULL or 0. */
enum pto_callable_kind {
    PTO_CALLABLE_FUNCTIONS, /* made with pto_callable_create, or from a shared object */
    PTO_CALLABLE_ARTEFACT,
    PTO_CALLABLE_BLOB /* a chip callable of the reference's layout */
};

enum { PTO_DIGEST_BYTES = 32 };

struct pto_callable_info {
    size_t size;
    enum pto_callable_kind kind;
    const char *name;
    const char *platform; /* NULL: any */
    const char *entry;    /* function of the orchestration */
    const char *config;
    enum pto_mode mode; /* of runs without options */
    uint32_t abi;
    uint8_t digest[PTO_DIGEST_BYTES]; /* its identity: of all that runs */
    const enum pto_direction *signature;
    uint32_t signature_count;
    uint64_t orchestration_bytes;
    uint8_t orchestration_digest[PTO_DIGEST_BYTES];
    uint32_t kernel_count; /* pto_callable_kernel knows them */
    uint32_t file_count;   /* pto_callable_file knows them */
    const char *isa_revision;
    const char *compiler;
    uint32_t object_count; /* loaded at this moment, by registration */
    uint32_t device_count; /* on which it is registered */
};

struct pto_kernel_info {
    size_t size;
    uint32_t func_id;
    const char *name;
    enum pto_core_type core; /* PTO_CORE_TYPES: either */
    uint64_t bytes;
    uint8_t digest[PTO_DIGEST_BYTES];
};

/* A file that it was made of. */
struct pto_file_info {
    size_t size;
    const char *path; /* of the tile library's headers: relative to its root */
    bool is_isa;
    uint8_t digest[PTO_DIGEST_BYTES];
};

/* Each of the three comes before the call that fills the struct. */
static inline void pto_callable_info_init(struct pto_callable_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

static inline void pto_kernel_info_init(struct pto_kernel_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

static inline void pto_file_info_init(struct pto_file_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* PTO_EINVAL past the last kernel or file. */
int pto_callable_info(const struct pto_callable *callable, struct pto_callable_info *info);
int pto_callable_kernel(const struct pto_callable *callable, uint32_t index,
                        struct pto_kernel_info *info);
int pto_callable_file(const struct pto_callable *callable, uint32_t index,
                      struct pto_file_info *info);

/*
 * Loads a callable's code and makes it known to the device: 64 of them at most.
 * Optional: the first run does it. What is registered stays loaded until it is
 * unregistered everywhere, so that a run loads nothing. Objects with the same
 * content are loaded once for the whole process; others never share anything.
 *
 * PTO_ESTALE: a callable that was made with other headers of the tile library is
 * registered on the device. PTO_ENOSUP: it was made for another platform.
 * PTO_EAGAIN: there are 64. PTO_ELOAD: its code cannot be loaded. `error` may be
 * NULL. Callables without an artefact need no registration: nothing happens.
 */
int pto_register(struct pto_device *device, struct pto_callable *callable, struct pto_error *error);
/* PTO_EBUSY while a run or a graph of the device uses it; PTO_EINVAL: it is not registered. */
int pto_unregister(struct pto_device *device, struct pto_callable *callable);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
