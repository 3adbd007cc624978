/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent of `pto launch` needs to know to start its ranks, and what the launcher needs to
 * know of an agent, as they cross the channel.
 */
#ifndef PTO_LAUNCH_JOB_H
#define PTO_LAUNCH_JOB_H

#include "base/os.h"
#include "tool/cli/launch_channel.h"
#include "tool/cli/ranks.h"

enum {
    LAUNCH_PROTOCOL = 1,
    LAUNCH_GREETING_MAX = 1024,
    LAUNCH_WORDS_MAX = 4096, /* maximum number of words of a command, and of variables */
};

/* The agent's first line, which says who it is. Anything before it is output of the login. */
struct launch_greeting {
    char version[32];
    char platform[OS_PLATFORM_TEXT]; /* machine and sizes that must be the same on all hosts */
    char host[65];                   /* the host's own name */
    char address[64]; /* address at which the remote shell was reached; "": unknown */
};

/* Formats the greeting of this process, with a final newline. */
void cli_launch_greeting_make(char line[LAUNCH_GREETING_MAX]);
/* Fills in what the greeting of this process would say. */
void cli_launch_greeting_own(struct launch_greeting *out);
/*
 * Takes the greeting from the bytes that an agent has sent. 0: it has not arrived yet; -1: it never
 * will, because what arrived is too much or another protocol.
 */
int cli_launch_greeting_take(struct bytes *from, struct launch_greeting *out);

/* Texts of a decoded job belong to the frame, those of a job to encode to the caller. */
struct launch_job {
    uint32_t first, count, total; /* ranks of this host, and of the job */
    uint32_t binding;
    bool has_prefix;
    bool has_input; /* rank 0 gets input from the channel */
    double grace;   /* seconds between SIGTERM and SIGKILL */
    double silence; /* seconds without a byte of the launcher after which the ranks are ended */
    const char *token;
    const char *key;    /* text of the job key */
    const char *folder; /* working folder of the ranks */
    /* numeric addresses and names of the other hosts, one per line; "": this host only */
    const char *peers;
    bool is_root; /* the agent makes the rendezvous */
    uint32_t word_count;
    char **words; /* the command; a NULL follows */
    uint32_t variable_count;
    char **variables; /* NAME=VALUE */
};

void cli_launch_job_encode(const struct launch_job *job, struct bytes *out);
/* Returns false if the bytes are no job. cli_launch_job_free frees the two arrays. */
bool cli_launch_job_decode(struct reader *from, struct launch_job *out);
void cli_launch_job_free(struct launch_job *job);

/* The result of the ranks of a host, with a time of its own clock. */
void cli_launch_result_encode(const struct ranks_result *result, struct bytes *out);
bool cli_launch_result_decode(struct reader *from, struct ranks_result *out);

#endif
