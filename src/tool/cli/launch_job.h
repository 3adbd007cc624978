/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher sends to an agent of `pto launch` (the job), and what it receives (greeting and
 * results), with their encoding.
 */
#ifndef PTO_LAUNCH_JOB_H
#define PTO_LAUNCH_JOB_H

#include "base/os.h"
#include "tool/cli/launch_channel.h"
#include "tool/cli/ranks.h"

enum {
    LAUNCH_PROTOCOL = 1,
    LAUNCH_GREETING_MAX = 1024,
    /* maximum number of words of the command, and of environment variables */
    LAUNCH_WORDS_MAX = 4096,
};

/* The agent's first line. Bytes before it are output of the login shell. */
struct launch_greeting {
    char version[32];
    /* architecture and sizes, which must be the same on all hosts */
    char platform[OS_PLATFORM_TEXT];
    char host[65];    /* name that the host has for itself */
    char address[64]; /* address at which the remote shell was reached; "": unknown */
};

/* Formats the greeting of this process, followed by a newline. */
void cli_launch_greeting_make(char line[LAUNCH_GREETING_MAX]);
/* Sets `out` to the greeting of this process. */
void cli_launch_greeting_own(struct launch_greeting *out);
/*
 * Reads the greeting from the bytes that an agent has sent. 1: done; of a greeting with another
 * protocol only the version is set. 0: it has not arrived completely. -1: no greeting can follow,
 * because the agent has sent too much other output.
 */
int cli_launch_greeting_take(struct bytes *from, struct launch_greeting *out);

/* A job. After decoding, its texts point into the frame; before encoding, the caller owns them. */
struct launch_job {
    /* first rank and number of ranks on this host, and number of ranks of the whole job */
    uint32_t first, count, total;
    uint32_t binding;
    bool has_prefix;
    bool has_input; /* rank 0 gets its standard input from the channel */
    double grace;   /* seconds between SIGTERM and SIGKILL */
    /* time in seconds without a byte from the launcher after which the agent ends the ranks */
    double silence;
    const char *token;
    const char *key;    /* text of the key of the job */
    const char *folder; /* working folder in which the ranks start */
    /*
     * numeric addresses and names of the other hosts, one per line; "": the job has only this host
     */
    const char *peers;
    bool is_root; /* this host's agent makes the rendezvous */
    uint32_t word_count;
    char **words; /* words of the command, followed by NULL */
    uint32_t variable_count;
    char **variables; /* NAME=VALUE */
};

void cli_launch_job_encode(const struct launch_job *job, struct bytes *out);
/*
 * Decodes a job. Returns false if the bytes are not a job. cli_launch_job_free frees the two
 * arrays.
 */
bool cli_launch_job_decode(struct reader *from, struct launch_job *out);
void cli_launch_job_free(struct launch_job *job);

/* Encodes the result of a host's ranks; its time is by that host's clock. */
void cli_launch_result_encode(const struct ranks_result *result, struct bytes *out);
bool cli_launch_result_decode(struct reader *from, struct ranks_result *out);

#endif
