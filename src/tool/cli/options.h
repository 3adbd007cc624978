/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines as tables: the parser fills a command's request from the table of its options,
 * and `pto COMMAND --help` and the manual page print it.
 *
 *     static const struct cli_option options[] = {
 *         { "tasks", 0, "N", "tasks per graph", CLI_COUNT,
 *           .at = offsetof(struct request, tasks), .low = 1, .high = 4096, .initial = "100" },
 *         CLI_OPTIONS_END,
 *     };
 *
 * This module keeps no state; a request points into argv.
 */
#ifndef PTO_OPTIONS_H
#define PTO_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pto/pto.h"
#include "base/error.h"
#include "tool/scene/names.h"

enum { CLI_TEXTS_MAX = 256, CLI_OPERANDS_ANY = UINT16_MAX };

/* Type of the member of the request that the option sets. */
enum cli_kind {
    CLI_FLAG,    /* bool: true if the option is given */
    CLI_COUNT,   /* uint32_t: decimal, from `low` to `high` */
    CLI_NUMBER,  /* struct cli_number: decimal, or hexadecimal with 0x */
    CLI_SECONDS, /* double: from a millisecond to a day */
    CLI_TEXT,    /* const char *: any text */
    CLI_TEXTS,   /* struct cli_texts: appends the value; at most `high` values */
    CLI_CHOICE,  /* int or an enum: the index of one of the `choices` */
    CLI_CHOICES, /* int: the index of one of the `choices`, or -1 for "all" */
    CLI_MODE,    /* enum pto_mode */
    CLI_MODES,   /* uint32_t: a bit per enum pto_mode; "all" sets all bits */
    /*
     * const char *: a platform that can be opened; default: the platform that commands use without
     * an option
     */
    CLI_PLATFORM,
    CLI_PLATFORMS, /* const char *: a platform that can be opened, or NULL for "all" */
    /* const char *: any platform; default: the platform that commands use without an option */
    CLI_TARGET,
    CLI_CUSTOM /* `custom` parses the value */
};

struct cli_number {
    bool is_given;
    uint64_t value;
};

struct cli_texts {
    uint32_t count;
    const char *text[CLI_TEXTS_MAX];
};

struct cli_option {
    const char *name;  /* word after `--`; NULL: the option has a letter only */
    char letter;       /* letter after `-`; 0: the option has a name only */
    const char *value; /* placeholder of the value, in capitals; NULL: the option takes none */
    const char *help;  /* description: a phrase without a capital and a full stop */
    enum cli_kind kind;
    size_t at; /* offset of the request's member that the option sets */
    uint64_t low;
    uint64_t high;
    const char *initial;   /* default value; NULL: zero bytes */
    scene_name_fn choices; /* returns the name of a choice */
    int choice_count;
    /* Parses `value`, which it may modify. Returns 0, or a status after printing the error. */
    int (*custom)(void *request, const struct cli_option *option, char *value,
                  struct pto_error *error);
};

#define CLI_OPTIONS_END \
    {                   \
        .help = NULL    \
    }

/* The option --json, which most commands have. */
#define CLI_OPTION_JSON(request, member, instead_of)                               \
    {                                                                              \
        "json", 0, NULL, "print one JSON object instead of " instead_of, CLI_FLAG, \
            .at = offsetof(request, member)                                        \
    }

/* The option --require-signature of commands that load artefacts. */
#define CLI_OPTION_SIGNATURE(request, member)                                      \
    {                                                                              \
        "require-signature", 0, "KEY",                                             \
            "fail unless the artefact is signed by this key: a file of `pto sign " \
            "--new-key`, or hexadecimal digits",                                   \
            CLI_TEXT, .at = offsetof(request, member)                              \
    }

/*
 * The option --isa-overlay: whether kernels include our faster headers before the tile library's.
 */
#define CLI_OPTION_ISA_OVERLAY(place)                                                            \
    {                                                                                            \
        "isa-overlay", 0, "on|off",                                                              \
            "with off: compile kernels with the tile library alone, without the headers of the " \
            "runtime that compute the same bits faster (default: PTO_ISA_OVERLAY, or on)",       \
            CLI_TEXT, place                                                                      \
    }

struct cli_command {
    const char *name;
    const char *summary;              /* summary in one line, for `pto --help` */
    const char *synopsis;             /* arguments after the command's name: one line per form */
    const char *description;          /* paragraphs; lines that begin with a space are not filled */
    const char *notes;                /* paragraphs after the options; may be NULL */
    const struct cli_option *options; /* may be NULL */
    /* with fewer operands than this, the command prints its usage */
    uint32_t operands_min;
    uint32_t operands_max;
    bool is_prefix; /* arguments after the first operand belong to another program */
    size_t request_bytes;
    /* Runs the command and returns the exit code. The caller frees the request. */
    int (*run)(void *request, int count, char **operands);
};

/*
 * Parses the arguments, the first of which is the name of the command, and runs the command.
 * Returns the exit code.
 */
int cli_run(const struct cli_command *command, int argc, char **argv);

/* Parses cards such as "4,6-7" into a struct session_cards, for CLI_CUSTOM. */
int cli_parse_cards(void *request, const struct cli_option *option, char *value,
                    struct pto_error *error);
/* The option --cards of commands that run scenes. */
#define CLI_OPTION_CARDS(request, member)                                                \
    {                                                                                    \
        "cards", 0, "LIST",                                                              \
            "cards of a real platform, such as 4,6-7; ranks and chips use them in this " \
            "order (default: 0, 1 and so on)",                                           \
            CLI_CUSTOM, .at = offsetof(request, member), .custom = cli_parse_cards       \
    }

/* Parses decimal digits; false if the value is not from `low` to `high`. */
bool cli_parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *value_out);
/* Returns the default value of the option; NULL: none. */
const char *cli_initial(const struct cli_option *option);
/* Lists the values of a platform option: "a2a3sim, a5sim or all". */
const char *cli_list_platforms(const struct cli_option *option, char text[NAMES_TEXT_MAX]);
/* Prints that an argument is unexpected and returns EXIT_USAGE. */
int cli_refuse_operand(const struct cli_command *command, const char *operand);

void cli_print_usage(FILE *to, const struct cli_command *command);
/* Print the forms of a command and its list of options in mdoc, for the manual page. */
void cli_print_manual_synopsis(FILE *to, const struct cli_command *command);
void cli_print_manual_options(FILE *to, const struct cli_command *command);

#endif
