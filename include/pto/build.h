/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building: compiles kernels and an orchestration, and packs them into one
 * artefact (.ptoc).
 *
 * What was compiled before comes from the store. Its key is the content of the
 * source, of every header that it can see and of the compiler, with the flags,
 * the environment, and the paths where nothing was found. Time stamps do not
 * count. See docs/user/building.md.
 *
 * Any thread may build. Builds do not disturb each other, not even in different
 * processes.
 */
#ifndef PTO_API_BUILD_H
#define PTO_API_BUILD_H

#include "pto/callable.h"
#include "pto/platform.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* What a source becomes. */
enum pto_source_kind {
    PTO_SOURCE_KERNEL,        /* exports kernel_entry(int64_t *args) */
    PTO_SOURCE_ORCHESTRATION, /* or another program for the chip's own processors */
    PTO_SOURCE_HOST,          /* a plain shared object for this machine */
    PTO_SOURCE_PART           /* an object of a program: see pto_build_program */
};

/* A source file. */
struct pto_source {
    const char *path; /* .c: C; .cc, .cpp, .cxx: C++ */
    enum pto_source_kind kind;
    uint32_t func_id;        /* kernels: the number that submits use, below 1024 */
    enum pto_core_type core; /* kernels; parts: PTO_CORE_TYPES is the chip's own processor */
    const char *name;        /* kernels, in reports; NULL: the name of the file */
    const char *const *include_dirs;
    uint32_t include_dir_count;
    const char *const *flags; /* passed to the compiler unchanged */
    uint32_t flag_count;
};

/* What an event is about. */
enum pto_build_event_kind {
    PTO_BUILD_COMPILER,  /* text: which compiler is used, and why */
    PTO_BUILD_COMPILING, /* source: is about to be compiled; text: why, with names and digests */
    PTO_BUILD_COMPILED,  /* source: done */
    PTO_BUILD_REUSED,    /* source: taken from the store; text: why that is right */
    PTO_BUILD_OUTPUT,    /* source: text is what the compiler printed, unchanged */
    PTO_BUILD_WARNING,   /* the same for a source that compiled, now or when it was stored */
    PTO_BUILD_NOTE,      /* text: something that failed and did no harm */
    PTO_BUILD_COMMAND    /* source: text is the command that runs next, if is_explained */
};

/* What happens during a build. */
struct pto_build_event {
    size_t size; /* set by the runtime */
    enum pto_build_event_kind kind;
    const char *source; /* its path as given; NULL: the event is about none */
    const char *text;   /* may be NULL */
    uint32_t done;      /* sources so far, of `total` */
    uint32_t total;
};

/* What to build, and how. */
struct pto_build_params {
    size_t size;
    const char *name;     /* of the callable; NULL: "callable" */
    const char *platform; /* pto_platform_at lists them */
    enum pto_mode mode;   /* recorded as the default of its runs; for a card: where it is built */
    const struct pto_source *sources; /* one orchestration, and kernels */
    uint32_t source_count;
    const char *entry;  /* of the orchestration; NULL: "orchestrate", or simpler's usual name */
    const char *config; /* name of its configuration; may be NULL */
    const enum pto_direction *signature; /* of the entry's tensors */
    uint32_t signature_count;
    const char *isa;     /* root of the tile library; NULL: PTO_ISA_ROOT or configured; "": none */
    const char *isa_pin; /* NULL: any; 40 digits of a git revision, or sha256:... of its headers */
    const char *store;   /* folder; NULL: the user's */
    uint32_t jobs;       /* compilers at a time; 0: one per CPU */
    bool is_forced;      /* compile everything */
    bool is_explained;   /* events of sources taken from the store have a reason as well */
    /* Called for each event, by one thread at a time. May be NULL. */
    void (*event)(void *context, const struct pto_build_event *event);
    /* Asked now and then: true ends the compilers, and PTO_ECANCELED. May be NULL. */
    bool (*stop)(void *context);
    void *context;
    /*
     * For people who inspect the artefact: for each entry of the signature a line
     * with name, type and shape, such as "x float32 [n,64]". NULL: not known.
     */
    const char *arguments;
};

/* Sets the defaults. */
static inline void pto_build_params_init(struct pto_build_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
    params->platform = pto_platform_at(0)->name;
}

/*
 * Builds a whole artefact; free() its bytes. PTO_EBUILD: the compiler refused a
 * source, and an event has what it printed. PTO_ENOSUP: a tool is missing.
 * PTO_ESTALE: the tile library is not the pinned one. `error` may be NULL.
 */
int pto_build(const struct pto_build_params *params, void **bytes_out, size_t *size_out,
              struct pto_error *error);

/*
 * Compiles one object, through the same store; free() its bytes. `sources` of
 * the params are ignored.
 */
int pto_compile(const struct pto_build_params *params, const struct pto_source *source,
                void **bytes_out, size_t *size_out, struct pto_error *error);

/*
 * Builds a program for a real chip from `sources`, which are all parts: those for its own processor
 * become a shared object, those for cores one program that begins with its code, cubes first. The
 * tile library is seen by them if `isa` names it. Parts come from the store as other objects do;
 * free() the bytes. PTO_EINVAL: a source is no part, or they are for different processors, or the
 * platform is simulated.
 */
int pto_build_program(const struct pto_build_params *params, void **bytes_out, size_t *size_out,
                      struct pto_error *error);

/*
 * Writes a file, such as an artefact, whole or not at all: under a name of its
 * own first, then renamed. A device or a pipe is written to. A link of another
 * user is not followed: PTO_ESYSTEM, and `error`, which may be NULL, explains.
 */
int pto_file_write(const char *path, const void *bytes, size_t size, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
