/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building: compiles kernels and an orchestration, and packs them into one artefact (.ptoc).
 *
 * An object that was compiled before is taken from the store, if its key is the same. The key of an
 * object covers the content of the source, of every header that the compiler can see and of the
 * compiler, the flags, the environment, and the paths at which no file was found. Time stamps do
 * not count. See docs/user/building.md.
 *
 * Any thread may build. Concurrent builds are independent, even in different processes.
 */
#ifndef PTO_API_BUILD_H
#define PTO_API_BUILD_H

#include "pto/callable.h"
#include "pto/platform.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* What a source file is compiled to. */
enum pto_source_kind {
    PTO_SOURCE_KERNEL, /* a kernel: exports kernel_entry(int64_t *args) */
    /* The orchestration, or another program for the chip's own processors. */
    PTO_SOURCE_ORCHESTRATION,
    PTO_SOURCE_HOST, /* a plain shared object for this machine */
    PTO_SOURCE_PART  /* an object of a program: see pto_build_program */
};

/* A source file. */
struct pto_source {
    const char *path; /* path of the file; .c is compiled as C, .cc, .cpp and .cxx as C++ */
    enum pto_source_kind kind;
    uint32_t func_id; /* number of the kernel, which submits use; below 1024 */
    /* Core type of a kernel or part; PTO_CORE_TYPES: a part for the chip's own processor. */
    enum pto_core_type core;
    const char *name; /* name of the kernel in reports; NULL: the name of the file */
    const char *const *include_dirs;
    uint32_t include_dir_count;
    const char *const *flags; /* flags that are passed to the compiler unchanged */
    uint32_t flag_count;
};

/* The kind of an event. */
enum pto_build_event_kind {
    PTO_BUILD_COMPILER,  /* text: which compiler is used, and why */
    PTO_BUILD_COMPILING, /* the source is about to be compiled; text: why, with names and digests */
    PTO_BUILD_COMPILED,  /* the source was compiled */
    /* the source's object was taken from the store; text: why the stored object is valid */
    PTO_BUILD_REUSED,
    /* the compiler has printed something about the source; text: its output, unchanged */
    PTO_BUILD_OUTPUT,
    /*
     * The compiler has warned about the source, now or when the stored object was compiled; text:
     * the warnings.
     */
    PTO_BUILD_WARNING,
    PTO_BUILD_NOTE, /* there was a problem that did not affect the result; text: the problem */
    /* a command runs next for the source; text: the command; only if is_explained */
    PTO_BUILD_COMMAND
};

/* An event of a build. */
struct pto_build_event {
    size_t size; /* size of this struct, set by the runtime */
    enum pto_build_event_kind kind;
    /* path of the source as in the parameters; NULL: the event concerns no source */
    const char *source;
    const char *text; /* depends on `kind`; may be NULL */
    uint32_t done;    /* number of sources that are finished, of `total` */
    uint32_t total;
    uint64_t left_ns; /* estimated time until the last source is compiled; 0: not known */
};

/* The parameters of a build. */
struct pto_build_params {
    size_t size;
    const char *name;     /* name of the callable; NULL: "callable" */
    const char *platform; /* name of a platform; pto_platform_at lists them */
    /*
     * Default mode of the callable's runs; for a card: whether its orchestration runs on the host
     * or on the card.
     */
    enum pto_mode mode;
    const struct pto_source *sources; /* source files: one orchestration, and kernels */
    uint32_t source_count;
    /* Name of the orchestration's function; NULL: "orchestrate", or simpler's usual name. */
    const char *entry;
    /*
     * Name of the function that returns how many arguments the orchestration expects; may be NULL.
     */
    const char *config;
    const enum pto_direction *signature; /* directions of the entry's tensors */
    uint32_t signature_count;
    /* root of the tile library; NULL: PTO_ISA_ROOT, or as configured; "": none */
    const char *isa;
    /*
     * required version of the tile library: 40 digits of a git revision, or sha256:... of its
     * headers; NULL: any
     */
    const char *isa_pin;
    const char *store; /* folder of the store; NULL: the store of the user */
    uint32_t jobs;     /* maximum number of compilers that run at the same time; 0: one per CPU */
    bool is_forced;    /* compile every source, even if the store has its object */
    bool is_explained; /* the texts of events also say why a stored object is valid */
    /* Called for each event, by one thread at a time. May be NULL. */
    void (*event)(void *context, const struct pto_build_event *event);
    /*
     * Polled during the build; returns true to kill the compilers and end with PTO_ECANCELED. May
     * be NULL.
     */
    bool (*stop)(void *context);
    void *context;
    /*
     * Text that `pto inspect` prints: for each argument in the signature a line with name, type and
     * shape, such as "x float32 [n,64]". NULL: not known.
     */
    const char *arguments;
    /*
     * Makes kernels report every access to memory, so that they run 5 to 40 times slower. A run of
     * such kernels on a simulated chip fails with PTO_EACCESS at the first access that the
     * arguments of its task do not allow. Not for cards: PTO_ENOSUP. See docs/user/accesses.md.
     */
    bool has_accesses;
    /*
     * "on": this library's headers replace some of the tile library's on simulated chips, and
     * compute the same bits faster; "off": the tile library alone; NULL: PTO_ISA_OVERLAY, or on.
     * Ignored if `has_accesses`. See docs/user/building.md.
     */
    const char *isa_overlay;
};

/* Sets the defaults of a build. */
static inline void pto_build_params_init(struct pto_build_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
    params->platform = pto_platform_at(0)->name;
}

/*
 * Builds a whole artefact; the caller frees the bytes with free(). PTO_EBUILD: the compiler
 * rejected a source; an event has the compiler's output. PTO_ENOSUP: a tool is missing. PTO_ESTALE:
 * the tile library does not have the version `isa_pin`. `error` may be NULL.
 */
int pto_build(const struct pto_build_params *params, void **bytes_out, size_t *size_out,
              struct pto_error *error);

/*
 * Compiles one object with the same store as pto_build; the caller frees the bytes with free().
 * `sources` of the parameters are ignored.
 */
int pto_compile(const struct pto_build_params *params, const struct pto_source *source,
                void **bytes_out, size_t *size_out, struct pto_error *error);

/*
 * Builds a program for a real chip from `sources`, all of kind PTO_SOURCE_PART. Parts for the
 * chip's own processor become a shared object; parts for the cores become one program, in which the
 * code for the cubes (AICs) comes first. Parts see the tile library if `isa` names it, and come
 * from the store like other objects. The caller frees the bytes with free(). PTO_EINVAL: a source
 * is not a part, the parts are for different processors, or the platform is simulated.
 */
int pto_build_program(const struct pto_build_params *params, void **bytes_out, size_t *size_out,
                      struct pto_error *error);

/*
 * Writes a file, such as an artefact, atomically: to a temporary name, which is then renamed. If
 * the path is a device or a pipe, it is written directly. A symbolic link of another user is not
 * followed: PTO_ESYSTEM. `error`, which may be NULL, explains the failure.
 */
int pto_file_write(const char *path, const void *bytes, size_t size, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
