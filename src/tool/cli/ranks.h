/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that are the ranks of one job: `pto launch`, and scenes with ranks. They
 * find in their environment who they are (PTO_RANK, PTO_RANKS) and where they meet
 * (PTO_MEET, PTO_TOKEN), as pto/comm.h says. What they print is passed on line by
 * line; when one fails the others are ended.
 *
 * Each has a process group of its own, which ends with it. A keeper, one more process, is
 * the parent of the ranks. When they have ended, or the caller has, however that comes, the
 * keeper kills all that they started, groups and sessions apart, and removes the folder in
 * which the ranks meet.
 *
 * One call at a time; the process has no other thread.
 */
#ifndef PTO_RANKS_H
#define PTO_RANKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RANKS_MAX = 1024 };

/* Which CPUs a rank may use. */
enum ranks_binding {
    RANKS_AUTO, /* an equal share each, if there are enough; else any */
    RANKS_CPU,  /* one each, some the same one if there are not enough */
    RANKS_ANY,
    RANKS_BINDINGS
};
const char *cli_ranks_binding_name(uint32_t binding);

struct ranks_params {
    uint32_t count;
    enum ranks_binding binding;
    bool has_prefix; /* "[1] " before each line */
    bool has_input;  /* rank 0 has the standard input, unless that is a terminal */
    double timeout;  /* seconds; 0: none */
    double grace;    /* seconds that a rank has to end once it was asked to */
    int peer_code;   /* with which a rank ends because another one has; 0: none */
    int apart_code; /* with which it ends when it alone has failed, and all were through; 0: none */
    int (*enter)(void *context, uint32_t rank); /* in the rank: its exit code */
    void *context;
};

enum ranks_end {
    RANKS_DONE,        /* all have ended with code 0 */
    RANKS_FAILED,      /* one has not: `rank` and `state` */
    RANKS_LATE,        /* the time was over */
    RANKS_INTERRUPTED, /* by `state`, a signal */
    RANKS_NOT_STARTED, /* `state` is an errno */
    RANKS_UNKEPT,      /* the keeper was killed: `state` */
};

struct ranks_result {
    enum ranks_end end;
    uint32_t rank;        /* the first that failed */
    int state;            /* of waitpid */
    uint32_t ended_count; /* others that were ended for it, or because time was over */
    uint32_t apart_count; /* ranks that ended with the code for that */
    int lost_output;      /* an errno: what they printed could not be passed on; 0: it was */
};

/* Returns when none is left. */
void cli_ranks_run(const struct ranks_params *params, struct ranks_result *result);

/* How a rank failed, and how many were ended for it: "rank 2 ended with code 3; ...". */
enum { RANKS_TEXT_MAX = 160 };
const char *cli_ranks_tell(const struct ranks_result *result, char text[RANKS_TEXT_MAX]);

#endif
