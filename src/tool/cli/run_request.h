/* SPDX-License-Identifier: Apache-2.0 */
/* What `pto run` was asked for, and the parts of the command that share it. */
#ifndef PTO_RUN_REQUEST_H
#define PTO_RUN_REQUEST_H

#include "tool/cli/options.h"
#include "tool/scene/scene_session.h"

enum { RUN_FILES_MAX = 64, RUN_FLAGS_MAX = 64 };

/* NAME=FILE of --in and --out; the texts are those of the command line. */
struct run_file {
    char *name;
    const char *path;
};

struct run_files {
    uint32_t count;
    struct run_file file[RUN_FILES_MAX];
};

struct run_request {
    const char *target;    /* a scene or an artefact; NULL: the default example */
    const char *case_name; /* NULL: the first one; "all" */
    const char *platform;  /* NULL: all */
    uint32_t modes;        /* bit by enum pto_mode */
    const char *trace;     /* NULL: no timeline */
    bool has_trace_args;   /* in it */
    bool has_diagnoses;    /* session.diagnostics is the command line's */
    uint32_t rounds;
    struct run_files in;
    struct run_files out;
    struct cli_texts scalar;       /* of an artefact or a kernel_config.py, in order */
    const char *expect_isa;        /* of an artefact; NULL: any */
    const char *require_signature; /* the same; KEY or a file with keys */
    struct cli_texts flag;
    struct session_options session;
    bool is_list;
    bool is_gdb;
};

/* Runs the prepared session as often as asked for and prints the results. Returns the exit code. */
int cli_run_and_print(struct session *s, const struct run_request *request, enum pto_mode mode);
/* Writes the outputs that were asked for; false: a sentence is on stdout. */
bool cli_run_write_outputs(const struct session *s, const struct run_request *request);

/* run_ranks.c: the case in as many processes as it has ranks, each of which calls `run`. The exit code. */
int cli_run_ranks(struct session *s, const struct scene_case *test_case,
                  const struct run_request *request,
                  int (*run)(struct session *s, const struct scene_case *test_case,
                             const struct run_request *request));

/* run_gdb.c: becomes gdb on this command with --debug for --gdb. Returns the exit code if it cannot. */
int cli_run_gdb(bool follows_children);

/* run_artefact.c: the exit code. `folder` is a scene whose arguments have no types; NULL: an artefact. */
int cli_run_artefact(const struct run_request *request, const struct scene *folder);

/* run_diagnose.c: the list of --diagnose; and what it is without one. */
int cli_run_take_diagnoses(void *context, const struct cli_option *option, char *value,
                           struct pto_error *error);
void cli_run_choose_diagnoses(struct run_request *request);

#endif
