/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the ranks of one job as processes, for `pto launch` and scenes with ranks. Environment
 * variables give each rank its number (PTO_RANK, PTO_RANKS) and the rendezvous (PTO_MEET,
 * PTO_TOKEN), as in pto/comm.h. Output is forwarded line by line; when a rank fails, the others are
 * ended.
 *
 * Each rank has its own process group, which ends with it. A supervisor, one more process, is the
 * parent of the ranks. When the ranks or the caller have ended for any reason, the supervisor kills
 * all processes that the ranks started, in any group and session, and removes the rendezvous
 * folder.
 *
 * One call at a time; the process has no other thread.
 */
#ifndef PTO_RANKS_H
#define PTO_RANKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RANKS_MAX = 1024 };

/* How ranks are bound to CPUs. */
enum ranks_binding {
    /* an equal share of the CPUs for each rank if there are enough CPUs, else no binding */
    RANKS_AUTO,
    RANKS_CPU, /* one CPU for each rank; ranks share CPUs if there are not enough */
    RANKS_ANY,
    RANKS_BINDINGS
};
const char *cli_ranks_binding_name(uint32_t binding);

struct ranks_result;

/* Where the ranks of this machine belong in a job of several machines. */
struct ranks_part {
    uint32_t first;   /* number of the first rank of this machine */
    uint32_t total;   /* number of ranks of the job */
    const char *meet; /* address of the rendezvous; NULL: a file on this machine, with a token */
    const char *token;
    const char *key; /* text of the job key, which each rank finds at PTO_KEY_FD; "": none */
    /* listening socket that rank 0 inherits as PTO_COMM_LISTEN_FD, closed at exec; -1: none */
    int listener;
    /* called in the supervisor whenever the recorded failure changes, before other ranks are ended */
    void (*failed)(const struct ranks_part *part, const struct ranks_result *result);
    int report; /* for `failed` */
};

struct ranks_params {
    uint32_t count; /* number of ranks of this machine */
    enum ranks_binding binding;
    bool has_prefix; /* prefix each line with "[1] " */
    bool has_input;  /* rank 0 gets the standard input, unless that is a terminal */
    double timeout;  /* time limit of the job in seconds; 0: none */
    double grace;    /* seconds between asking a rank to end and killing it */
    int peer_code;   /* exit code of a rank that lost its peer; 0: none */
    int apart_code;  /* exit code of a rank whose failure affects no other rank; 0: none */
    /* entry function of a rank, called in the rank's process; returns its exit code */
    int (*enter)(void *context, uint32_t rank);
    void *context;
    const struct ranks_part *part; /* NULL: all ranks of the job are on this machine */
};

enum ranks_end {
    RANKS_DONE,        /* all ranks ended with code 0 */
    RANKS_FAILED,      /* a rank failed: see `rank` and `state` */
    RANKS_LATE,        /* the time limit of the job was reached */
    RANKS_INTERRUPTED, /* the signal `state` arrived */
    RANKS_NOT_STARTED, /* ranks could not be started: `state` is an errno */
    RANKS_UNKEPT,      /* the supervisor was killed: `state` is its wait status */
};

struct ranks_result {
    enum ranks_end end;
    uint32_t rank; /* rank that failed first */
    int state;     /* wait status, errno or signal, depending on `end` */
    /* number of ranks that were ended because of that failure, or at the time limit */
    uint32_t ended_count;
    uint32_t apart_count; /* number of ranks that ended with apart_code */
    int lost_output;      /* errno of a failure to forward output; 0: none */
    uint64_t failed_ns;   /* time of os_now_ns at which the rank failed */
    const char *host;     /* host of the rank; NULL: this machine */
};

/* Runs the ranks and returns when no process is left. */
void cli_ranks_run(const struct ranks_params *params, struct ranks_result *result);

/*
 * Describes how a rank failed, and how many were ended because of that: "rank 2 ended with code 3;
 * ...".
 */
enum { RANKS_TEXT_MAX = 480 };
const char *cli_ranks_describe(const struct ranks_result *result, char text[RANKS_TEXT_MAX]);

#endif
