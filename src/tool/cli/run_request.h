/* SPDX-License-Identifier: Apache-2.0 */
/* The request of `pto run`, and functions shared by its parts. */
#ifndef PTO_RUN_REQUEST_H
#define PTO_RUN_REQUEST_H

#include "tool/cli/virtual_options.h"
#include "tool/scene/scene_session.h"

enum { RUN_FILES_MAX = 64, RUN_FLAGS_MAX = 64 };

/* The NAME=FILE of --in or --out; both point into argv. */
struct run_file {
    char *name;
    const char *path;
};

struct run_files {
    uint32_t count;
    struct run_file file[RUN_FILES_MAX];
};

struct run_request {
    const char *target;    /* operand: a scene or an artefact; NULL: the default example */
    const char *case_name; /* case to run; NULL: the first case; "all": all cases */
    const char *platform;  /* platform to run on; NULL: all platforms */
    uint32_t modes;        /* modes to run in: a bit set, indexed by enum pto_mode */
    const char *trace;     /* NAME of --trace; NULL: no timeline */
    bool has_trace_args;   /* the timeline includes arguments */
    bool has_diagnoses;    /* the user chose the diagnostics with --diagnose */
    uint32_t rounds;
    struct run_files in;
    struct run_files out;
    /* values of --scalar, for an artefact or a kernel_config.py, in order */
    struct cli_texts scalar;
    const char *expect_isa; /* tile library required of an artefact; NULL: any */
    /* public key that must have signed an artefact: hexadecimal digits, or a file */
    const char *require_signature;
    struct cli_texts flag;
    struct cli_texts replace; /* ID=FILE: the sources of these kernels */
    struct cli_texts weights; /* values of --weights: files for a test of a network */
    struct cli_number seed;
    bool skips_golden;
    struct virtual_options given; /* options for virtual time */
    struct session_options session;
    bool is_list;
    bool is_gdb;
};

/* Runs the prepared session as often as requested and prints the results. Returns the exit code. */
int cli_run_and_print(struct session *s, const struct run_request *request, enum pto_mode mode);
/* Returns the file name ending of --trace NAME if it names a format, else ".json". */
const char *cli_run_trace_ending(const char *name);
/* Writes the requested outputs; on failure, prints a sentence to stdout and returns false. */
bool cli_run_write_outputs(const struct session *s, const struct run_request *request);

/*
 * run_ranks.c: runs a case in one process per rank; each process calls `run`. Returns the exit
 * code.
 */
int cli_run_ranks(struct session *s, const struct scene_case *test_case,
                  const struct run_request *request,
                  int (*run)(struct session *s, const struct scene_case *test_case,
                             const struct run_request *request));
/*
 * run_ranks.c: whether pto launch has started this process as one of the case's ranks, perhaps on
 * several hosts; and runs the case as that rank.
 */
bool cli_run_is_launched(const struct scene_case *test_case);
int cli_run_launched(struct session *s, const struct scene_case *test_case,
                     const struct run_request *request,
                     int (*run)(struct session *s, const struct scene_case *test_case,
                                const struct run_request *request));

/* run_virtual.c: whether options do not fit --virtual; if so, prints a sentence to stderr. */
bool cli_run_refuse_virtual(const struct run_request *request);
/*
 * run_virtual.c: sets the costs of kernels and of scheduling in the session. The caller calls
 * cli_run_free_costs afterwards, even after a failure.
 */
int cli_run_take_costs(struct run_request *request, struct pto_error *error);
void cli_run_free_costs(struct run_request *request);
/* run_virtual.c: prints the report of a run in virtual time. */
void cli_run_print_virtual(const struct session *s, enum pto_mode mode);
/*
 * run_notes.c: prints the notes of --accesses on the last run, a line each, which begins with the
 * prefix. If an argument was never used, runs the case once more to predict what it costs.
 */
void cli_print_notes(struct session *s, enum pto_mode mode, FILE *to, const char *prefix);

/*
 * run_gdb.c: replaces this process by gdb, which runs the same command with --debug instead of
 * --gdb. Returns an exit code if that fails.
 */
int cli_run_gdb(const struct run_request *request, bool follows_children);
/*
 * run_gdb.c: reads the original command line of this process from /proc, because the parser of
 * options reorders argv. Returns the number of words, which stay allocated. Afterwards the names of
 * --in and --out in the request are not usable: this process is about to be replaced.
 */
int cli_run_read_words(const struct run_request *request, char ***words_out);

/*
 * run_network.c: whether the target is a test in Python, a folder with some and no scene, or one of
 * the folders of pypto that C does not run: for several chips, or with inputs from --seed and
 * --weights.
 */
bool cli_run_is_network(const struct run_request *request);
/*
 * run_network.c: replaces this process by the interpreter, which runs the test with the same
 * options (python/pto/testing/network.py). Returns an exit code if that fails.
 */
int cli_run_network(const struct run_request *request);
/*
 * run_network.c: whether an option is only for tests in Python; if so, prints a sentence to stderr.
 */
bool cli_run_refuse_network(const struct run_request *request);

/*
 * run_artefact.c: runs an artefact and returns the exit code. `folder` is a scene whose arguments
 * have no types; NULL: the target is an artefact.
 */
int cli_run_artefact(const struct run_request *request, const struct scene *folder);

/* run_diagnose.c: parses the list of --diagnose into the request. */
int cli_run_parse_diagnoses(void *context, const struct cli_option *option, char *value,
                            struct pto_error *error);
void cli_run_choose_diagnoses(struct run_request *request);

#endif
