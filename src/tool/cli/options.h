/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command and its options are a table. The parser fills the command's request
 * from it, `pto COMMAND --help` prints it, and the manual page has it.
 *
 *     static const struct cli_option options[] = {
 *         { "tasks", 0, "N", "tasks per graph", CLI_COUNT,
 *           .at = offsetof(struct request, tasks), .low = 1, .high = 4096, .initial = "100" },
 *         CLI_OPTIONS_END,
 *     };
 *
 * Nothing here keeps state; texts that a request points to are those of argv.
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

/* What an option sets in the request. */
enum cli_kind {
    CLI_FLAG,      /* bool: true if the option is given */
    CLI_COUNT,     /* uint32_t: decimal, from `low` to `high` */
    CLI_NUMBER,    /* struct cli_number: decimal, or hexadecimal with 0x */
    CLI_SECONDS,   /* double: from a millisecond to a day */
    CLI_TEXT,      /* const char * */
    CLI_TEXTS,     /* struct cli_texts: one more of at most `high` */
    CLI_CHOICE,    /* int or an enum: the index of one of the `choices` */
    CLI_CHOICES,   /* int: the same, or -1 for "all" */
    CLI_MODE,      /* enum pto_mode */
    CLI_MODES,     /* uint32_t: a bit by enum pto_mode; "all" is all of them */
    CLI_PLATFORM,  /* const char *: a platform that can be opened; the default one if not given */
    CLI_PLATFORMS, /* const char *: the same, or NULL for "all" */
    CLI_TARGET,    /* const char *: any platform; the default one if not given */
    CLI_CUSTOM     /* whatever `custom` makes of it */
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
    const char *name;  /* NULL: it has a letter only */
    char letter;       /* 0: it has a name only */
    const char *value; /* in capitals what the user chooses; NULL: it takes none */
    const char *help;  /* a phrase: no capital, no full stop */
    enum cli_kind kind;
    size_t at; /* offset in the request */
    uint64_t low;
    uint64_t high;
    const char *initial;   /* the value if the option is not given; NULL: zero bytes */
    scene_name_fn choices; /* their names */
    int choice_count;
    /* `value` may be written to. Returns 0, or a status after telling what is wrong. */
    int (*custom)(void *request, const struct cli_option *option, char *value,
                  struct pto_error *error);
};

#define CLI_OPTIONS_END \
    {                   \
        .help = NULL    \
    }

/* The option that most commands have. */
#define CLI_OPTION_JSON(request, member, instead_of)                               \
    {                                                                              \
        "json", 0, NULL, "print one JSON object instead of " instead_of, CLI_FLAG, \
            .at = offsetof(request, member)                                        \
    }

/* Of those that load artefacts. */
#define CLI_OPTION_SIGNATURE(request, member)                                              \
    {                                                                                      \
        "require-signature", 0, "KEY",                                                     \
            "fail unless the artefact is signed by a key of this file (made by `pto sign " \
            "--new-key`), or by this one in digits",                                       \
            CLI_TEXT, .at = offsetof(request, member)                                      \
    }

struct cli_command {
    const char *name;
    const char *summary;     /* for `pto --help` */
    const char *synopsis;    /* what follows the name: a line for each form */
    const char *description; /* paragraphs; a line that begins with a space stays as it is */
    const char *notes;       /* the same, after the options; may be NULL */
    const struct cli_option *options; /* may be NULL */
    uint32_t operands_min;            /* with fewer, the usage is printed */
    uint32_t operands_max;
    bool is_prefix; /* what follows the first operand belongs to it: another program's words */
    size_t request_bytes;
    /* The request is freed afterwards. Returns the exit code. */
    int (*run)(void *request, int count, char **operands);
};

/*
 * Parses the arguments, of which the first is the command's own name, and runs
 * the command. Returns the exit code.
 */
int cli_run(const struct cli_command *command, int argc, char **argv);

/* For CLI_CUSTOM: cards as "4,6-7", into a struct session_cards. */
int cli_take_cards(void *request, const struct cli_option *option, char *value,
                   struct pto_error *error);
/* Of commands that run scenes. */
#define CLI_OPTION_CARDS(request, member)                                                     \
    {                                                                                         \
        "cards", 0, "LIST",                                                                   \
            "which cards of a real platform, such as 4,6-7: ranks and chips use them in the " \
            "order of the list (default: 0, 1 and so on)",                                    \
            CLI_CUSTOM, .at = offsetof(request, member), .custom = cli_take_cards             \
    }

/* Decimal digits only, from `low` to `high`. */
bool cli_parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *value_out);
/* The value if the option is not given; NULL: none. */
const char *cli_initial(const struct cli_option *option);
/* What an option with a platform takes: "a2a3sim, a5sim or all". */
const char *cli_list_platforms(const struct cli_option *option, char text[NAMES_TEXT_MAX]);
/* Refuses an argument: a sentence on stderr, and EXIT_USAGE. */
int cli_refuse_operand(const struct cli_command *command, const char *operand);

void cli_print_usage(FILE *to, const struct cli_command *command);
/* For the manual page, in mdoc: the forms of a command, and the list of its options. */
void cli_print_manual_synopsis(FILE *to, const struct cli_command *command);
void cli_print_manual_options(FILE *to, const struct cli_command *command);

#endif
