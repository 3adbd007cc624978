/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callables: a callable is an orchestration with its kernels, made from functions of the program, a
 * file or memory. A callable is independent of devices; registering it loads its code for one
 * device.
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
    enum pto_core_type core; /* type of core that runs the kernel; PTO_CORE_TYPES: either */
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

/* Returns the name of a direction; "unknown" for any other value. */
static inline const char *pto_direction_name(uint32_t direction)
{
    static const char *const names[PTO_DIR_COUNT] = {
#define X(name, text) text,
        PTO_DIRECTION_MAP(X)
#undef X
    };

    return direction < PTO_DIR_COUNT ? names[direction] : "unknown";
}

/* The parameters of a callable made from functions. */
struct pto_callable_params {
    size_t size;
    const char *name;
    pto_orch_fn orchestration;
    const struct pto_kernel *kernels; /* kernels, indexed by the kernel id of a submit; copied */
    uint32_t kernel_count;            /* number of kernels, at most 1024 */
    struct pto_error *error;          /* filled in on failure; initialised, or NULL */
    /*
     * Promises that none of the functions changes the signal mask of its thread. Otherwise each run
     * saves and restores the caller's mask, which takes two system calls. The runtime finds this
     * out itself for loaded code, and for functions of a program that references no function that
     * could change the mask, loads no code at run time, and links only the libraries of C, C++ and
     * pto.
     */
    bool keeps_signals;
    void *context;      /* value that pto_orch_context returns to the orchestration */
    enum pto_deps deps; /* dependency rules of runs whose options do not set `deps` */
    /*
     * Declared arguments of each kernel, by kernel id: words of PTO_TENSOR, PTO_VIEW and
     * PTO_SCALAR, then 0; copied. A submit with other arguments is refused. An element that is
     * NULL: the kernel declares none; NULL: no kernel does.
     */
    const uint32_t *const *kernel_args;
};

/* Sets the defaults of a callable's parameters. */
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
 * Makes a callable from the file at that path; no search path applies. The content of the file
 * decides its kind:
 *
 *   - an artefact (.ptoc), or a chip callable of the reference's layout: see
 *     pto_callable_load_memory. `symbol` is the function of the orchestration;
 *     NULL: the one that the file names.
 *   - a shared object that exports a `struct pto_callable_params` named `symbol`
 *     (NULL: "pto_callable"). The object stays loaded until the callable is
 *     destroyed; its symbols are local. A shared object named .ptoc is refused.
 *
 * Loading a shared object runs its constructors. For files from untrusted sources use
 * pto_callable_load_file.
 *
 * PTO_ELOAD, PTO_EFORMAT: `error`, which may be NULL, explains why.
 */
int pto_callable_load(const char *path, const char *symbol, struct pto_callable **callable_out,
                      struct pto_error *error);

/* A header of the tile library, and its SHA-256 as 64 lower-case digits. */
struct pto_header {
    const char *path; /* path of the header relative to the library's root */
    const char *digest;
};

/* How to read an artefact, and requirements that it must meet. */
struct pto_load_options {
    size_t size;
    const char *name; /* name of the artefact in messages; NULL: "the callable" */
    /* name of the orchestration's function; NULL: the one that the artefact names */
    const char *symbol;
    /*
     * The tile library that the artefact must have been made with, else PTO_ESTALE:
     * a revision, as the artefact records it, or a folder, whose headers are
     * compared with the recorded ones. NULL: any.
     */
    const char *expect_isa;
    /*
     * Expected digests of headers: a header that is in this list and in the artefact must have the
     * same digest in both.
     */
    const struct pto_header *expect_headers;
    uint32_t expect_header_count;
    /*
     * Trusted public keys, each as 64 lower-case hexadecimal digits: one of them must have signed
     * the artefact, else PTO_ESIGNATURE. See pto/sign.h. Without keys no signature is required.
     */
    const char *const *trusted_keys;
    uint32_t trusted_key_count;
    /*
     * Dependency rules of runs whose options do not set `deps`. PTO_DEPS_DEFAULT: the rules for
     * which the code was written.
     */
    enum pto_deps deps;
};

/* Sets the defaults of loading. */
static inline void pto_load_options_init(struct pto_load_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof(*options));
    options->size = sizeof(*options);
    options->deps = PTO_DEPS_DEFAULT;
}

/*
 * Makes a callable from the bytes of an artefact, or of a chip callable of the reference's layout.
 * The bytes are copied. Sizes, offsets, hashes and the ABI are checked here; the code is loaded
 * when the callable is registered. `options` and `error` may be NULL. PTO_EFORMAT: the bytes are
 * not an artefact, or are damaged. PTO_ESTALE: the artefact does not meet `options`.
 * PTO_ESIGNATURE: no trusted key signed it.
 */
int pto_callable_load_memory(const void *bytes, size_t size, const struct pto_load_options *options,
                             struct pto_callable **callable_out, struct pto_error *error);

/*
 * pto_callable_load_memory for a file. Accepts only an artefact or a chip callable: no code of the
 * file is run or loaded, and its content is validated. A file that is too large or of another
 * format is not read. PTO_ELOAD: the file cannot be read.
 */
int pto_callable_load_file(const char *path, const struct pto_load_options *options,
                           struct pto_callable **callable_out, struct pto_error *error);

/* Unregisters a callable from all devices and frees it. PTO_EBUSY: a run or a graph uses it. */
int pto_callable_destroy(struct pto_callable *callable);

/* What a callable was made from. */
enum pto_callable_kind {
    /* functions of the program, or a shared object that exports pto_callable_params */
    PTO_CALLABLE_FUNCTIONS,
    PTO_CALLABLE_ARTEFACT,
    PTO_CALLABLE_BLOB /* a chip callable of the reference's layout */
};

enum { PTO_DIGEST_BYTES = 32 };

/*
 * The properties of a callable. Texts and arrays belong to the callable; an absent one is NULL or
 * has length 0.
 */
struct pto_callable_info {
    size_t size;
    enum pto_callable_kind kind;
    const char *name;
    const char *platform; /* platform for which the callable was compiled; NULL: any */
    const char *entry;    /* name of the orchestration's function */
    const char *config;
    enum pto_mode mode; /* mode of runs whose options do not set one */
    uint32_t abi;
    /* SHA-256 of the code that runs, which identifies the callable */
    uint8_t digest[PTO_DIGEST_BYTES];
    const enum pto_direction *signature;
    uint32_t signature_count;
    uint64_t orchestration_bytes;
    uint8_t orchestration_digest[PTO_DIGEST_BYTES];
    uint32_t kernel_count; /* number of kernels: see pto_callable_kernel */
    uint32_t file_count;   /* number of files: see pto_callable_file */
    const char *isa_revision;
    const char *compiler;
    uint32_t object_count; /* number of objects that are loaded now, for all registrations */
    uint32_t device_count; /* number of devices on which the callable is registered */
    /* Public keys, 32 bytes each, whose signatures of the artefact are valid. */
    const uint8_t *signers;
    uint32_t signer_count;
    const char
        /* Text for people: a line with name, type and shape for each argument in the signature. */
        *arguments;
    enum pto_deps deps;     /* dependency rules of runs whose options do not set `deps` */
    bool is_from_reference; /* the orchestration was compiled with the reference's own headers */
};

/* One kernel of a callable. */
struct pto_kernel_info {
    size_t size;
    uint32_t func_id;
    const char *name;
    enum pto_core_type core; /* type of core that runs the kernel; PTO_CORE_TYPES: either */
    uint64_t bytes;
    uint8_t digest[PTO_DIGEST_BYTES];
};

/* One source file or header that an artefact was made from. */
struct pto_file_info {
    size_t size;
    /* path of the file; that of a tile library header is relative to the library's root */
    const char *path;
    bool is_isa;
    uint8_t digest[PTO_DIGEST_BYTES];
};

/* Initialises the struct for pto_callable_info, which fills it in. */
static inline void pto_callable_info_init(struct pto_callable_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Initialises the struct for pto_callable_kernel, which fills it in. */
static inline void pto_kernel_info_init(struct pto_kernel_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Initialises the struct for pto_callable_file, which fills it in. */
static inline void pto_file_info_init(struct pto_file_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Describes a callable. */
int pto_callable_info(const struct pto_callable *callable, struct pto_callable_info *info);

/* Describes one kernel of a callable. PTO_EINVAL: there is no kernel with this index. */
int pto_callable_kernel(const struct pto_callable *callable, uint32_t index,
                        struct pto_kernel_info *info);

/*
 * Describes one of the files that a callable was made from. PTO_EINVAL: there is no file with this
 * index.
 */
int pto_callable_file(const struct pto_callable *callable, uint32_t index,
                      struct pto_file_info *info);

/*
 * Loads the code of a callable for a device, which holds up to 64 callables. The call is optional:
 * otherwise the first run registers the callable. The code stays loaded until the callable is
 * unregistered everywhere, so runs load nothing. Objects with equal content are loaded once per
 * process; other objects share nothing. A callable made from functions needs no registration: the
 * call does nothing, unless the device cannot call functions of this program.
 *
 * PTO_ESTALE: the device has a callable that was made with other headers of the tile library.
 * PTO_ENOSUP: the callable was made for another platform, or from functions, which an isolated
 * device or a card cannot call. PTO_EAGAIN: the device has 64 callables. PTO_ELOAD: the code cannot
 * be loaded. `error` may be NULL.
 */
int pto_register(struct pto_device *device, struct pto_callable *callable, struct pto_error *error);

/*
 * Unregisters a callable from a device. PTO_EBUSY: a run or a graph of the device uses it.
 * PTO_EINVAL: the callable is not registered with the device.
 */
int pto_unregister(struct pto_device *device, struct pto_callable *callable);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
