/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto selfcheck`, in parts:
 *
 *     cmd_selfcheck.c      the command: starts the processes below, prints steps, packs, reads
 *     selfcheck_steps.c    what the process does that tries the card
 *     selfcheck_pair.c     what the two processes do that try two cards
 *     selfcheck_pack.c     evidence into one file, and that file into parts again
 *     selfcheck_facts.c    evidence of the machine: versions, rights, environment, logs
 *     selfcheck_elf.c      tables of the programs for the card
 *     selfcheck_read.c     --read: the evidence of the step that failed, and what it means
 *     selfcheck_rules.c    the table of what evidence means
 *
 * The command itself never loads the vendor's libraries, which do not survive a fork and may crash:
 * a process that it starts does, and leaves verdicts in memory that both share. Steps that are
 * stages of opening a card are reported by the library in its log (PTO_CANN_LOG); the command
 * follows that file.
 */
#ifndef PTO_SELFCHECK_H
#define PTO_SELFCHECK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pto/pto.h"

/* In the order in which they are taken: X(symbol, name, what it proves). */
#define SELFCHECK_MAP(X)                                                                      \
    X(LIBRARIES, "libraries", "the vendor's libraries can be loaded")                         \
    X(VERSION, "version", "the installed version is one whose interfaces are known")          \
    X(FUNCTIONS, "functions", "the libraries have every function that is called")             \
    X(CARD, "card", "this user can take the card, and it has streams, events and memory")     \
    X(PROGRAMS, "programs", "the programs for the card are there")                            \
    X(DISPATCHER, "dispatcher", "the control processor runs our code, which can write there") \
    X(SCHEDULER, "scheduler", "the scheduler runs on the control processor and answers")      \
    X(REGISTERS, "registers", "the driver maps the registers of the cores")                   \
    X(CORES, "cores", "the executor starts on all cores, and they hear their bells")          \
    X(COMPILE, "compile", "the vendor's compilers take kernels and an orchestration")         \
    X(ONE_CORE, "one-core", "a kernel runs on a core, and its result comes back")             \
    X(ALL_CORES, "all-cores", "kernels on all cores run at the same time and see each other") \
    X(LOOP, "loop", "runs after the second take nothing more of the card")                    \
    X(TIME_OUT, "time-out", "a kernel that never returns is noticed in time")                 \
    X(RECOVERY, "recovery", "the card can be used again after such a kernel")                 \
    X(CLOSE, "close", "the card was given back")                                              \
    X(TWO_CARDS, "two-cards", "two cards reach each other's memory")

/* clang-format off */
enum selfcheck_step {
#define X(symbol, name, proves) STEP_##symbol,
    SELFCHECK_MAP(X)
#undef X
    SELFCHECK_STEPS,
    SELFCHECK_OPENING = STEP_COMPILE, /* steps before this one are stages of opening the card */
};
/* clang-format on */

enum selfcheck_verdict {
    VERDICT_NOT_REACHED,
    VERDICT_RUNNING, /* in a file: the check ended inside of this step */
    VERDICT_OK,
    VERDICT_FAILED,
    VERDICT_SKIPPED,
    SELFCHECK_VERDICTS
};

extern const char *const cli_selfcheck_names[SELFCHECK_STEPS];
extern const char *const cli_selfcheck_proofs[SELFCHECK_STEPS];
extern const char *const cli_selfcheck_verdicts[SELFCHECK_VERDICTS];

enum { SELFCHECK_TEXT = 800, SELFCHECK_RANKS = 2 };

struct selfcheck_result {
    uint32_t verdict; /* atomic: what follows is there before it says that the step has ended */
    double ms;
    char text[SELFCHECK_TEXT];
};

/* Shared by the command and its processes. */
struct selfcheck_progress {
    struct selfcheck_result step[SELFCHECK_STEPS];
    struct selfcheck_result opening;               /* of the card, for the first time */
    struct selfcheck_result rank[SELFCHECK_RANKS]; /* of two-cards, a card each */
    uint32_t ranks_open;                           /* atomic: of these, cards that are open */
    char platform[16];
};

struct selfcheck {
    const char *platform; /* NULL: the one that the card is */
    const char *output;
    const char *read; /* a file to read; NULL: try a card */
    uint32_t card;
    uint32_t runs;
    bool is_json;
    bool is_alone; /* no other card is touched */
    struct selfcheck_progress *progress;
    char work[PATH_MAX]; /* folder of this check: logs, programs */
};

double cli_selfcheck_now_ms(void);
/* Sets a result, the verdict last. */
void cli_selfcheck_set(struct selfcheck_result *result, enum selfcheck_verdict verdict,
                       const char *format, ...) __attribute__((format(printf, 3, 4)));
enum selfcheck_verdict cli_selfcheck_verdict(const struct selfcheck_result *result);
/* A file of the folder of this check. */
void cli_selfcheck_path(const struct selfcheck *c, const char *name, char path[PATH_MAX]);

/* ---- processes: each returns an exit code ---- */

int cli_selfcheck_try(struct selfcheck *c);
int cli_selfcheck_try_rank(struct selfcheck *c, uint32_t rank);

/* ---- the file ---- */

/* A part of a file: its name, and bytes that may be anything. */
struct selfcheck_part {
    char name[64];
    const char *bytes;
    size_t size;
};

enum { SELFCHECK_PARTS = 64 };

struct selfcheck_file {
    char *bytes; /* of all of it; free() */
    struct selfcheck_part part[SELFCHECK_PARTS];
    uint32_t count;
};

/* Adds a part. Names have no spaces. */
void cli_selfcheck_put(FILE *to, const char *name, const char *bytes, size_t size);
/* Packs everything there is; `end` says how the check ended if not by itself. A status. */
int cli_selfcheck_pack(const struct selfcheck *c, const char *end);
/* PTO_EFORMAT with a sentence: it is none, or damaged. */
int cli_selfcheck_open(const char *path, struct selfcheck_file *file, struct pto_error *error);
/* NULL: there is no such part. */
const struct selfcheck_part *cli_selfcheck_find(const struct selfcheck_file *file,
                                                const char *name);

/* ---- evidence, as text ---- */

void cli_selfcheck_write_versions(FILE *to);
void cli_selfcheck_write_rights(FILE *to);
void cli_selfcheck_write_environment(FILE *to);
void cli_selfcheck_write_smi(FILE *to);
/* Tails of the vendor's logs of the processes of this check. */
void cli_selfcheck_write_logs(const struct selfcheck *c, FILE *to);
/* Sections and symbols of a program. */
void cli_selfcheck_write_elf(FILE *to, const char *path);
/* Calls, without the beginnings of those that have returned, and of many the first and the last. */
void cli_selfcheck_write_calls(FILE *to, const char *path);

/* ---- what it means ---- */

enum { RULE_SIGNS = 3 };

/*
 * Evidence of a step that failed is lines, each with a word in front that says what it is:
 *
 *     text SENTENCE            what the step reported
 *     call NAME CODE           a call of the vendor's that failed
 *     meaning NAME CODE: TEXT  what is published of the code
 *     message NAME CODE: TEXT  the vendor's message for it
 *     hang NAME                a call that did not return
 *     inside NAME              a call during which the process ended
 *     end TEXT                 how the check ended, if not by itself
 *     cores TEXT               what the board says of the cores
 *     log TEXT                 a line of the vendor's logs that is an error
 *     compiler TEXT            a line of a compiler's output
 *     rights TEXT              a device node that this user cannot use, or that is not there
 *
 * A rule applies if each of its signs, patterns as the shell has them, matches a line. The rules
 * that apply are causes, those with more signs first, then in the order of the table.
 */
struct selfcheck_rule {
    const char *step; /* a pattern, too */
    const char *sign[RULE_SIGNS];
    const char *cause;
    const char
        *assumption; /* its id in docs/internals/onboard.md; NULL: none, the machine is at fault */
    const char *remedy;
};

extern const struct selfcheck_rule cli_selfcheck_rules[];
extern const uint32_t cli_selfcheck_rule_count;

/* Renders a file. An exit code. */
int cli_selfcheck_read(const char *path, bool is_json);

#endif
