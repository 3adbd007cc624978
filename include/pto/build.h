/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources become a callable: compiles kernels and an orchestration and packs them
 * into one artefact (.ptoc).
 *
 * What was compiled before is taken from the store, which is keyed by content:
 * of the source, of every header it can see, of the compiler; by the paths that
 * were looked at and absent, the flags and the environment. Time stamps do not
 * count. See docs/building.md.
 *
 * Any thread may call; builds do not disturb each other, in other processes
 * neither.
 */
#ifndef PTO_API_BUILD_H
#define PTO_API_BUILD_H

#include "pto/callable.h"
#include "pto/platform.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum pto_source_kind {
    PTO_SOURCE_KERNEL,        /* exports kernel_entry(int64_t *args) */
    PTO_SOURCE_ORCHESTRATION, /* or another program for the chip's own processors */
    PTO_SOURCE_HOST           /* a plain shared object for this machine */
};

struct pto_source {
    const char *path; /* .c: C; .cc, .cpp, .cxx: C++ */
    enum pto_source_kind kind;
    uint32_t func_id;        /* kernels: what submits name them by, below 1024 */
    enum pto_core_type core; /* kernels */
    const char *name;        /* kernels, in reports; NULL: the file's */
    const char *const *include_dirs;
    uint32_t include_dir_count;
    const char *const *flags; /* given to the compiler as they are */
    uint32_t flag_count;
};

enum pto_build_event_kind {
    PTO_BUILD_COMPILER,  /* text: which compiler is used, and why this one */
    PTO_BUILD_COMPILING, /* source: is about to be compiled; text: why, with names and digests */
    PTO_BUILD_COMPILED,  /* source: done */
    PTO_BUILD_REUSED,    /* source: taken from the store; text: why that is right */
    PTO_BUILD_OUTPUT,    /* source: text is what the compiler said, unchanged */
    PTO_BUILD_WARNING,   /* the same for a source that compiled, now or when it was stored */
    PTO_BUILD_NOTE       /* text: something that did not work and did no harm */
};

struct pto_build_event {
    size_t size; /* set by the runtime */
    enum pto_build_event_kind kind;
    const char *source; /* path as given; NULL: of no source */
    const char *text;   /* may be NULL */
    uint32_t done;      /* sources so far, of `total` */
    uint32_t total;
};

struct pto_build_params {
    size_t size;
    const char *name;                 /* of the callable; NULL: "callable" */
    const char *platform;             /* pto_platform_at lists them */
    enum pto_mode mode;               /* recorded: the default of its runs */
    const struct pto_source *sources; /* one orchestration, and kernels */
    uint32_t source_count;
    const char *entry;                   /* function of the orchestration; NULL: "orchestrate" */
    const char *config;                  /* name of its configuration; may be NULL */
    const enum pto_direction *signature; /* of the entry's tensors */
    uint32_t signature_count;
    const char *isa;     /* root of the tile library; NULL: PTO_ISA_ROOT or configured; "": none */
    const char *isa_pin; /* NULL: any; 40 digits of a git revision, or sha256:... of its headers */
    const char *store;   /* folder; NULL: the user's */
    uint32_t jobs;       /* compilers at a time; 0: one per CPU */
    bool is_forced;      /* compile everything */
    bool is_explained;   /* events of what is taken from the store have a reason, too */
    /* Called for each event, by one thread at a time. May be NULL. */
    void (*event)(void *context, const struct pto_build_event *event);
    /* Asked every now and then: true ends the compilers and gives PTO_ECANCELED. May be NULL. */
    bool (*stop)(void *context);
    void *context;
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
 * Makes a whole artefact; free() its bytes. PTO_EBUILD: a compiler refused a
 * source, what it said was an event; PTO_ENOSUP: a tool is missing;
 * PTO_ESTALE: the tile library is not the pinned one. `error` may be NULL.
 */
int pto_build(const struct pto_build_params *params, void **bytes_out, size_t *size_out,
              struct pto_error *error);

/*
 * Makes one object, through the same store; free() its bytes. `sources` of the
 * params are not looked at.
 */
int pto_compile(const struct pto_build_params *params, const struct pto_source *source,
                void **bytes_out, size_t *size_out, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
