/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto selfcheck`, in parts:
 *
 *     cmd_selfcheck.c      the command: starts the processes below, prints steps, packs, reads
 *     selfcheck_steps.c    the process that tries the card
 *     selfcheck_pair.c     the two processes that try two cards
 *     selfcheck_pack.c     packs evidence into one file, and unpacks it
 *     selfcheck_facts.c    evidence of the machine: versions, rights, environment, logs
 *     selfcheck_elf.c      tables of the programs for the card
 *     selfcheck_read.c     --read: the evidence of the step that failed, and what it means
 *     selfcheck_rules.c    the table of the causes that evidence suggests
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

/* The steps in order: X(symbol, name, proven fact). */
#define SELFCHECK_MAP(X)                                                                        \
    X(LIBRARIES, "libraries", "the vendor's libraries can be loaded")                           \
    X(VERSION, "version", "the installed version is one whose interfaces are known")            \
    X(FUNCTIONS, "functions", "the libraries have every function that is called")               \
    X(CARD, "card", "this user can open the card, and it has streams, events and memory")       \
    X(PROGRAMS, "programs", "the programs for the card exist, or can be built")                 \
    X(DISPATCHER, "dispatcher",                                                                 \
      "the control processor runs our code, and that code can write files there")               \
    X(SCHEDULER, "scheduler", "the scheduler runs on the control processor and answers")        \
    X(REGISTERS, "registers", "the driver maps the registers of the cores")                     \
    X(CORES, "cores", "the executor starts on all cores, and they receive their doorbells")     \
    X(COMPILE, "compile", "the vendor's compilers accept kernels and an orchestration")         \
    X(ONE_CORE, "one-core", "a kernel runs on a core and returns its result")                   \
    X(ALL_CORES, "all-cores", "kernels on all cores run at the same time and see each other")   \
    X(LOOP, "loop", "from the third run on, a run takes no more memory or streams of the card") \
    X(TIME_OUT, "time-out", "a kernel that never returns is detected in time")                  \
    X(RECOVERY, "recovery", "the card can be used again after such a kernel")                   \
    X(CLOSE, "close", "the card was released")                                                  \
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
    VERDICT_RUNNING, /* in a file: the check was interrupted during this step */
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
    uint32_t verdict; /* an enum selfcheck_verdict; atomic, stored after the other members */
    double ms;
    char text[SELFCHECK_TEXT];
};

/* Progress in memory shared by the command and its processes. */
struct selfcheck_progress {
    struct selfcheck_result step[SELFCHECK_STEPS];
    struct selfcheck_result opening; /* first opening of the card */
    /* results of the step two-cards, one for each card */
    struct selfcheck_result rank[SELFCHECK_RANKS];
    uint32_t ranks_open; /* number of cards of the step two-cards that are open; atomic */
    char platform[16];
};

struct selfcheck {
    const char *platform; /* platform to try; NULL: the one that fits the card */
    const char *output;
    const char *read; /* file to explain, for --read; NULL: try a card */
    uint32_t card;
    uint32_t runs;
    bool is_json;
    bool is_alone; /* skip the step two-cards */
    struct selfcheck_progress *progress;
    char work[PATH_MAX]; /* folder for logs and programs of this check */
};

double cli_selfcheck_now_ms(void);
/*
 * Sets text and verdict of a step. The verdict is stored last, with release order, so that a reader
 * of the verdict sees the text.
 */
void cli_selfcheck_set(struct selfcheck_result *result, enum selfcheck_verdict verdict,
                       const char *format, ...) __attribute__((format(printf, 3, 4)));
enum selfcheck_verdict cli_selfcheck_verdict(const struct selfcheck_result *result);
/* Formats the path of a file in the folder of this check. */
void cli_selfcheck_path(const struct selfcheck *c, const char *name, char path[PATH_MAX]);

/* ---- processes: each returns an exit code ---- */

int cli_selfcheck_try(struct selfcheck *c);
int cli_selfcheck_try_rank(struct selfcheck *c, uint32_t rank);

/* ---- the file ---- */

/* A part of an evidence file: its name, and bytes that may be anything. */
struct selfcheck_part {
    char name[64];
    const char *bytes;
    size_t size;
};

enum { SELFCHECK_PARTS = 64 };

struct selfcheck_file {
    char *bytes; /* contents of the evidence file; free() it */
    struct selfcheck_part part[SELFCHECK_PARTS];
    uint32_t count;
};

/* Writes a part to an evidence file. Names have no spaces. */
void cli_selfcheck_put(FILE *to, const char *name, const char *bytes, size_t size);
/*
 * Packs all evidence into one file. `end` describes how the check ended if it was interrupted.
 * Returns a status.
 */
int cli_selfcheck_pack(const struct selfcheck *c, const char *end);
/*
 * Opens an evidence file. Returns PTO_EFORMAT, with a sentence in `error`, if the file is something
 * else or is damaged.
 */
int cli_selfcheck_open(const char *path, struct selfcheck_file *file, struct pto_error *error);
/* Returns a part of an evidence file, or NULL. */
const struct selfcheck_part *cli_selfcheck_find(const struct selfcheck_file *file,
                                                const char *name);

/* ---- evidence, as text ---- */

void cli_selfcheck_write_versions(FILE *to);
void cli_selfcheck_write_rights(FILE *to);
void cli_selfcheck_write_environment(FILE *to);
void cli_selfcheck_write_smi(FILE *to);
/* Writes the last part of each of the vendor's logs that processes of this check wrote. */
void cli_selfcheck_write_logs(const struct selfcheck *c, FILE *to);
/* Writes the sections and symbols of a program for the card. */
void cli_selfcheck_write_elf(FILE *to, const char *path);
/*
 * Writes the log of calls without the begin lines of calls that returned. From a long log, writes
 * the first and the last lines.
 */
void cli_selfcheck_write_calls(FILE *to, const char *path);

/* ---- rules ---- */

enum { RULE_SIGNS = 3 };

/*
 * Evidence about a failed step is text, one item per line. The first word is its kind:
 *
 *     text SENTENCE            what the step reported
 *     call NAME CODE           a call of the vendor's library that failed, and its code
 *     meaning NAME CODE: TEXT  the published meaning of the code
 *     message NAME CODE: TEXT  the vendor's error message for the call
 *     hang NAME                a call that did not return
 *     inside NAME              a call during which the process ended
 *     end TEXT                 how the check ended, if it was interrupted
 *     cores TEXT               states of the cores, as the board shows them
 *     log TEXT                 a line of the vendor's logs that is an error
 *     compiler TEXT            a line of a compiler's output
 *     rights TEXT              a device node that is missing, or that this user cannot use
 *
 * A rule has signs, which are shell patterns; it applies if each of them matches a line. The rules
 * that apply give the causes: those with more signs first, then in the order of the table.
 */
struct selfcheck_rule {
    const char *step; /* shell pattern that the name of the failed step must match */
    const char *sign[RULE_SIGNS];
    const char *cause;
    /*
     * identifier of an assumption in docs/internals/onboard.md that may be wrong; NULL: the machine
     * is at fault
     */
    const char *assumption;
    const char *remedy;
};

extern const struct selfcheck_rule cli_selfcheck_rules[];
extern const uint32_t cli_selfcheck_rule_count;

/* Explains an evidence file on stdout. Returns an exit code. */
int cli_selfcheck_read(const char *path, bool is_json);

#endif
