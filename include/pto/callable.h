/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callables: a callable is an orchestration with its kernels, made from functions
 * of the program, a file or memory. It belongs to no device; registering makes
 * its code known to one.
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

/* A kernel that is a function of the program. */
struct pto_kernel {
    const char *name;
    pto_kernel_fn fn;
    enum pto_core_type core; /* PTO_CORE_TYPES: either */
};

struct pto_callable;

/* How an orchestration uses one of its arguments. */
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

/* Returns the name of a direction; "unknown" for what is none. */
static inline const char *pto_direction_name(uint32_t direction)
{
    static const char *const names[PTO_DIR_COUNT] = {
#define X(name, text) text,
        PTO_DIRECTION_MAP(X)
#undef X
    };

    return direction < PTO_DIR_COUNT ? names[direction] : "unknown";
}

/* What a callable is made of. */
struct pto_callable_params {
    size_t size;
    const char *name;
    pto_orch_fn orchestration;
    const struct pto_kernel *kernels; /* indexed by the kernel id of a submit; copied */
    uint32_t kernel_count;            /* at most 1024 */
    struct pto_error *error;          /* says why it cannot be made; initialised, or NULL */
    /*
     * None of the functions changes which signals its thread blocks. Otherwise each run
     * saves and restores that for its caller, which takes two system calls. Of loaded
     * code it is known, and of functions of a program that names nothing that could do it,
     * loads nothing by itself, and needs no library but those of C, C++ and this one.
     */
    bool keeps_signals;
    void *context;      /* for the orchestration: pto_orch_context */
    enum pto_deps deps; /* of runs that do not say */
};

/* Sets the defaults. */
static inline void pto_callable_params_init(struct pto_callable_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
}

/* Makes a callable from functions of the program. */
int pto_callable_create(const struct pto_callable_params *params,
                        struct pto_callable **callable_out);

/*
 * Makes a callable from the file of that path; it is not searched for. Its content
 * decides what it is:
 *
 *   - an artefact (.ptoc), or a chip callable of the reference's layout: see
 *     pto_callable_load_memory. `symbol` is the function of the orchestration;
 *     NULL: the one that the file names.
 *   - a shared object that exports a `struct pto_callable_params` named `symbol`
 *     (NULL: "pto_callable"). The object stays loaded until the callable is
 *     destroyed; nothing else sees its symbols. One that is called .ptoc is refused.
 *
 * Loading a shared object runs its constructors: see pto_callable_load_file for
 * files from elsewhere.
 *
 * PTO_ELOAD, PTO_EFORMAT: `error`, which may be NULL, explains why.
 */
int pto_callable_load(const char *path, const char *symbol, struct pto_callable **callable_out,
                      struct pto_error *error);

/* A header of the tile library, and its SHA-256 in 64 lower-case digits. */
struct pto_header {
    const char *path; /* relative to the library's root */
    const char *digest;
};

/* How to read an artefact, and what is expected of it. */
struct pto_load_options {
    size_t size;
    const char *name;   /* what messages call the bytes; NULL: "the callable" */
    const char *symbol; /* function of the orchestration; NULL: the one that the artefact names */
    /*
     * The tile library that the artefact must have been made with, else PTO_ESTALE:
     * a revision, as the artefact records it, or a folder, whose headers are
     * compared with the recorded ones. NULL: any.
     */
    const char *expect_isa;
    /* The same as a list: headers that are in it and in the artefact must be equal. */
    const struct pto_header *expect_headers;
    uint32_t expect_header_count;
    /*
     * Public keys, 64 lower-case hexadecimal digits each: the artefact must be
     * signed by one of them, else PTO_ESIGNATURE. See pto/sign.h. None: anybody.
     */
    const char *const *trusted_keys;
    uint32_t trusted_key_count;
    enum pto_deps deps; /* of runs that do not say; PTO_DEPS_DEFAULT: by who it was written for */
};

/* Sets the defaults. */
static inline void pto_load_options_init(struct pto_load_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof(*options));
    options->size = sizeof(*options);
    options->deps = PTO_DEPS_DEFAULT;
}

/*
 * Makes a callable from the bytes of an artefact, or of a chip callable of the
 * reference's layout. The bytes are copied. Sizes, offsets, hashes and the ABI
 * are checked here; the code is loaded when the callable is registered.
 * `options` and `error` may be NULL. PTO_EFORMAT: they are something else, or
 * damaged. PTO_ESTALE: not made with what the options expect. PTO_ESIGNATURE: not
 * signed by a key that they trust.
 */
int pto_callable_load_memory(const void *bytes, size_t size, const struct pto_load_options *options,
                             struct pto_callable **callable_out, struct pto_error *error);

/*
 * The same from a file, and never anything but an artefact or a chip callable:
 * nothing in the file is run, loaded or believed. What is too large, or begins
 * like something else, is not read. PTO_ELOAD: it cannot be read.
 */
int pto_callable_load_file(const char *path, const struct pto_load_options *options,
                           struct pto_callable **callable_out, struct pto_error *error);

/* Unregisters a callable from all devices and frees it. PTO_EBUSY: a run or a graph uses it. */
int pto_callable_destroy(struct pto_callable *callable);

/* What a callable was made from. */
enum pto_callable_kind {
    PTO_CALLABLE_FUNCTIONS, /* made with pto_callable_create, or from a shared object */
    PTO_CALLABLE_ARTEFACT,
    PTO_CALLABLE_BLOB /* a chip callable of the reference's layout */
};

enum { PTO_DIGEST_BYTES = 32 };

/* What a callable is. Texts and arrays belong to it; what it does not have is NULL or 0. */
struct pto_callable_info {
    size_t size;
    enum pto_callable_kind kind;
    const char *name;
    const char *platform; /* NULL: any */
    const char *entry;    /* function of the orchestration */
    const char *config;
    enum pto_mode mode; /* of runs without options */
    uint32_t abi;
    uint8_t digest[PTO_DIGEST_BYTES]; /* of everything that runs: its identity */
    const enum pto_direction *signature;
    uint32_t signature_count;
    uint64_t orchestration_bytes;
    uint8_t orchestration_digest[PTO_DIGEST_BYTES];
    uint32_t kernel_count; /* see pto_callable_kernel */
    uint32_t file_count;   /* see pto_callable_file */
    const char *isa_revision;
    const char *compiler;
    uint32_t object_count;  /* loaded at this moment, because it is registered */
    uint32_t device_count;  /* that it is registered on */
    const uint8_t *signers; /* public keys of 32 bytes each, whose signatures are right */
    uint32_t signer_count;
    const char
        *arguments; /* for people: name, type and shape, a line for each entry of the signature */
    enum pto_deps deps;     /* of runs that do not say */
    bool is_from_reference; /* its orchestration was compiled with the reference's own headers */
};

/* One of its kernels. */
struct pto_kernel_info {
    size_t size;
    uint32_t func_id;
    const char *name;
    enum pto_core_type core; /* PTO_CORE_TYPES: either */
    uint64_t bytes;
    uint8_t digest[PTO_DIGEST_BYTES];
};

/* One of the files that it was made of. */
struct pto_file_info {
    size_t size;
    const char *path; /* of the tile library's headers: relative to its root */
    bool is_isa;
    uint8_t digest[PTO_DIGEST_BYTES];
};

/* Prepares the struct for pto_callable_info. */
static inline void pto_callable_info_init(struct pto_callable_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Prepares the struct for pto_callable_kernel. */
static inline void pto_kernel_info_init(struct pto_kernel_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Prepares the struct for pto_callable_file. */
static inline void pto_file_info_init(struct pto_file_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Says what a callable is. */
int pto_callable_info(const struct pto_callable *callable, struct pto_callable_info *info);

/* Says what one of its kernels is. PTO_EINVAL: past the last one. */
int pto_callable_kernel(const struct pto_callable *callable, uint32_t index,
                        struct pto_kernel_info *info);

/* Names one of the files that it was made of. PTO_EINVAL: past the last one. */
int pto_callable_file(const struct pto_callable *callable, uint32_t index,
                      struct pto_file_info *info);

/*
 * Loads a callable's code and makes it known to a device, which can hold 64.
 * Calling it is optional: otherwise the first run does it. The code stays loaded
 * until the callable is unregistered everywhere, so runs load nothing. Objects
 * with the same content are loaded once for the whole process; others share
 * nothing. A callable made from functions needs no registration, and nothing
 * happens, unless the device cannot call functions of this program.
 *
 * PTO_ESTALE: the device has a callable that was made with other headers of the
 * tile library. PTO_ENOSUP: it was made for another platform, or from functions,
 * which an isolated device or a card cannot call. PTO_EAGAIN: the device has 64. PTO_ELOAD: its code cannot be loaded. `error` may be NULL.
 */
int pto_register(struct pto_device *device, struct pto_callable *callable, struct pto_error *error);

/*
 * Takes a callable off a device. PTO_EBUSY: a run or a graph of the device uses
 * it. PTO_EINVAL: it is not registered there.
 */
int pto_unregister(struct pto_device *device, struct pto_callable *callable);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
