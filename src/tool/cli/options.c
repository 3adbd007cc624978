/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a command line as GNU's getopt_long does: options and operands in any
 * order, `--name=value`, `--name value`, names abbreviated, letters together,
 * `--` before operands. A word such as -215 is an operand.
 */
#include "tool/cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/scene/scene_session.h"
#include "tool/scene/terminal.h"

enum { CARD_MAX = 1023 };

struct parser {
    const struct cli_command *command;
    void *request;
    char **argv;
    int argc;
    int at; /* index of the argument being parsed */
    struct pto_error error;
    bool wants_help;
};

static const struct cli_option help_option = { .name = "help", .letter = 'h', .help = "" };

static void set_initial(struct parser *p);
static int parse_words(struct parser *p);
static void parse_long(struct parser *p, char *word);
static void parse_letters(struct parser *p, char *letters);
static int set_option(struct parser *p, const struct cli_option *option, char *value);

int cli_run(const struct cli_command *command, int argc, char **argv)
{
    struct parser p = {
        .command = command, .argv = argv, .argc = argc, .error.size = sizeof(p.error)
    };
    int code = EXIT_USAGE;
    int count;

    p.request = calloc(1, command->request_bytes + 1);
    if (p.request == NULL) {
        terminal_printf(stderr, "pto %s: out of memory\n", command->name);
        return EXIT_FAILED;
    }
    set_initial(&p);
    count = parse_words(&p);
    if (p.wants_help) {
        cli_print_usage(stdout, command);
        code = EXIT_OK;
    } else if (p.error.status != 0) {
        terminal_printf(stderr, "pto %s: %s\n", command->name, p.error.text);
    } else if ((uint32_t)count < command->operands_min) {
        cli_print_usage(stderr, command);
    } else if ((uint32_t)count > command->operands_max) {
        code = cli_refuse_operand(command, argv[command->operands_max]);
    } else {
        code = command->run(p.request, count, argv);
    }
    free(p.request);
    return code;
}

int cli_refuse_operand(const struct cli_command *command, const char *operand)
{
    terminal_printf(stderr, "pto %s: unexpected argument '%s'; see `pto %s --help`\n",
                    command->name, operand, command->name);
    return EXIT_USAGE;
}

bool cli_parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *value_out)
{
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text))
        return false;
    errno = 0;

    uint64_t value = strtoull(text, NULL, 10);

    if (errno != 0 || value < low || value > high)
        return false;
    *value_out = value;
    return true;
}

/* ---- words ---- */

static void set_initial(struct parser *p)
{
    const struct cli_option *option = p->command->options;

    for (; option != NULL && option->help != NULL; option++)
        if (cli_initial(option) != NULL)
            (void)set_option(p, option, (char *)(uintptr_t)cli_initial(option));
}

/* Parses the options, moves the operands to the front of argv and returns their number. */
static int parse_words(struct parser *p)
{
    bool is_rest = false;
    int count = 0;

    for (p->at = 1; p->at < p->argc && p->error.status == 0 && !p->wants_help; p->at++) {
        char *word = p->argv[p->at];

        if (is_rest || word[0] != '-' || word[1] == '\0' || isdigit((unsigned char)word[1])) {
            p->argv[count++] = word;
            is_rest = is_rest || p->command->is_prefix;
        } else if (strcmp(word, "--") == 0) {
            is_rest = true;
        } else if (word[1] == '-') {
            parse_long(p, word + 2);
        } else {
            parse_letters(p, word + 1);
        }
    }
    return count;
}

static void refuse_option(struct parser *p, const char *before, const char *option,
                          const char *after)
{
    (void)error_setf(&p->error, PTO_EINVAL, "%s '%.200s'%s; see `pto %s --help`", before, option,
                     after, p->command->name);
}

/* Finds the option with that name, or the only one whose name begins with it. */
static const struct cli_option *find_long(struct parser *p, const char *word, size_t length)
{
    const struct cli_option *option = p->command->options;
    const struct cli_option *found = NULL;
    bool is_ambiguous = false;

    for (bool is_last = false; !is_last; option++) {
        is_last = option == NULL || option->help == NULL;
        if (is_last)
            option = &help_option;
        if (option->name == NULL || strncmp(option->name, word, length) != 0)
            continue;
        if (option->name[length] == '\0')
            return option;
        is_ambiguous = found != NULL;
        found = option;
    }
    if (found == NULL || is_ambiguous) {
        char name[200];

        snprintf(name, sizeof(name), "--%.*s", (int)length, word);
        refuse_option(p, is_ambiguous ? "ambiguous option" : "unknown option", name, "");
        return NULL;
    }
    return found;
}

/* Returns the argument that follows the option; NULL: there is none. */
static char *next_word(struct parser *p)
{
    return p->at + 1 < p->argc ? p->argv[++p->at] : NULL;
}

static void parse_option(struct parser *p, const struct cli_option *option, const char *shown,
                         char *value)
{
    if (option == &help_option)
        p->wants_help = true;
    else if (option->value != NULL && value == NULL)
        refuse_option(p, "option", shown, " needs a value");
    else
        (void)set_option(p, option, value);
}

static void parse_long(struct parser *p, char *word)
{
    size_t length = strcspn(word, "=");
    const struct cli_option *option = find_long(p, word, length);
    char *value = word[length] == '=' ? word + length + 1 : NULL;
    char shown[200];

    if (option == NULL)
        return;
    snprintf(shown, sizeof(shown), "--%s", option->name);
    if (option->value == NULL && value != NULL)
        refuse_option(p, "option", shown, " takes no value");
    else
        parse_option(p, option, shown,
                     option->value != NULL && value == NULL ? next_word(p) : value);
}

static const struct cli_option *find_letter(const struct cli_command *command, char letter)
{
    const struct cli_option *option = command->options;

    for (; option != NULL && option->help != NULL; option++)
        if (option->letter == letter)
            return option;
    return letter == help_option.letter ? &help_option : NULL;
}

static void parse_letters(struct parser *p, char *letters)
{
    for (; *letters != '\0' && p->error.status == 0; letters++) {
        const struct cli_option *option = find_letter(p->command, *letters);
        char shown[] = { '-', *letters, '\0' };

        if (option == NULL) {
            refuse_option(p, "unknown option", shown, "");
        } else if (option->value == NULL) {
            parse_option(p, option, shown, NULL);
        } else { /* the rest of the word, or the next word, is the option's value */
            parse_option(p, option, shown, letters[1] != '\0' ? letters + 1 : next_word(p));
            return;
        }
    }
}

/* ---- values ---- */

/* Formats the choices as "a, b or c". */
static const char *list_choices(const struct cli_option *option, char text[static 512])
{
    bool has_all = option->kind == CLI_CHOICES;
    int count = option->choice_count + has_all;
    size_t length = 0;

    for (int i = 0; i < count; i++) {
        const char *choice = i < option->choice_count ? option->choices((uint32_t)i) : "all";
        const char *before = i == 0 ? "" : i + 1 == count ? " or " : ", ";

        length += (size_t)snprintf(text + length, 512 - length, "%.20s%.100s", before, choice);
        if (length > 380)
            break;
    }
    return text;
}

static int set_choice(struct parser *p, const struct cli_option *option, const char *value,
                      int *index_out)
{
    char text[512];

    *index_out = -1;
    if (option->kind == CLI_CHOICES && strcmp(value, "all") == 0)
        return PTO_OK;
    for (int i = 0; i < option->choice_count; i++)
        if (strcmp(value, option->choices((uint32_t)i)) == 0) {
            *index_out = i;
            return PTO_OK;
        }
    return error_setf(&p->error, PTO_EINVAL, "--%s must be %s, not '%.200s'", option->name,
                      list_choices(option, text), value);
}

/* Parses a choice among the names of modes. */
static int set_mode(struct parser *p, const struct cli_option *option, const char *value,
                    int *index_out)
{
    struct cli_option choice = *option;

    choice.kind = option->kind == CLI_MODES ? CLI_CHOICES : CLI_CHOICE;
    choice.choices = pto_mode_name;
    choice.choice_count = PTO_MODE_COUNT;
    return set_choice(p, &choice, value, index_out);
}

static bool is_platform(const struct cli_option *option)
{
    return option->kind == CLI_PLATFORM || option->kind == CLI_PLATFORMS ||
           option->kind == CLI_TARGET;
}

const char *cli_initial(const struct cli_option *option)
{
    return option->initial == NULL && is_platform(option) ? pto_platform_at(0)->name
                                                          : option->initial;
}

const char *cli_list_platforms(const struct cli_option *option, char text[NAMES_TEXT_MAX])
{
    if (!is_platform(option))
        return NULL;
    scene_list_platforms(option->kind != CLI_TARGET, "or",
                         option->kind == CLI_PLATFORMS ? "all" : NULL, text);
    return text;
}

static int set_platform(struct parser *p, const struct cli_option *option, const char *value,
                        const char **platform_out)
{
    const struct pto_platform *platform = pto_platform_find(value);
    bool is_all = option->kind == CLI_PLATFORMS && strcmp(value, "all") == 0;
    char names[NAMES_TEXT_MAX];

    if (is_all || (platform != NULL && (platform->missing == NULL || option->kind == CLI_TARGET))) {
        *platform_out = is_all ? NULL : platform->name;
        return PTO_OK;
    }
    if (platform != NULL)
        return error_setf(&p->error, PTO_EINVAL, "%s is %s; --%s must be %s", platform->name,
                          platform->missing, option->name, cli_list_platforms(option, names));
    return error_setf(&p->error, PTO_EINVAL, "unknown platform '%.200s'; --%s must be %s", value,
                      option->name, cli_list_platforms(option, names));
}

static int set_count(struct parser *p, const struct cli_option *option, const char *value,
                     uint32_t *count_out)
{
    uint64_t number;

    if (!cli_parse_number(value, option->low, option->high, &number))
        return error_setf(&p->error, PTO_EINVAL,
                          "--%s must be a number from %llu to %llu, not '%.200s'", option->name,
                          (unsigned long long)option->low, (unsigned long long)option->high, value);
    *count_out = (uint32_t)number;
    return PTO_OK;
}

static int options_set_number(struct parser *p, const struct cli_option *option, const char *value,
                              struct cli_number *number_out)
{
    char *end;

    errno = 0;
    number_out->value = strtoull(value, &end, 0);
    number_out->is_given = true;
    if (isdigit((unsigned char)value[0]) && *end == '\0' && errno == 0)
        return PTO_OK;
    return error_setf(&p->error, PTO_EINVAL, "--%s must be a 64-bit number, not '%.200s'",
                      option->name, value);
}

/* Parses "4" or "6-7" and adds the cards; false if a card appears twice. */
static bool add_cards(struct session_cards *cards, char *text)
{
    char *dash = strchr(text, '-');
    uint64_t first, last;

    if (dash != NULL)
        *dash = '\0';
    if (!cli_parse_number(text, 0, CARD_MAX, &first) ||
        !cli_parse_number(dash != NULL ? dash + 1 : text, first, CARD_MAX, &last))
        return false;
    for (uint64_t number = first; number <= last; number++) {
        for (uint32_t i = 0; i < cards->count; i++)
            if (cards->number[i] == number)
                return false;
        if (cards->count == SCENE_RANKS_MAX)
            return false;
        cards->number[cards->count++] = (uint32_t)number;
    }
    return true;
}

int cli_parse_cards(void *request, const struct cli_option *option, char *value,
                    struct pto_error *error)
{
    struct session_cards *cards = (void *)((char *)request + option->at);
    char *rest = value, *part;

    cards->count = 0;
    while ((part = strsep(&rest, ",")) != NULL)
        if (!add_cards(cards, part))
            return error_setf(error, PTO_EINVAL,
                              "--%s must be at most %d different numbers, or ranges of numbers, "
                              "such as 4,6-7",
                              option->name, SCENE_RANKS_MAX);
    return PTO_OK;
}

static int set_seconds(struct parser *p, const struct cli_option *option, const char *value,
                       double *seconds_out)
{
    char *end;

    *seconds_out = strtod(value, &end);
    if (end != value && *end == '\0' && *seconds_out >= 0.001 && *seconds_out <= 86400)
        return PTO_OK;
    return error_setf(&p->error, PTO_EINVAL,
                      "--%s must be from 0.001 to 86400 seconds, not '%.200s'", option->name,
                      value);
}

static int add_text(struct parser *p, const struct cli_option *option, const char *value,
                    struct cli_texts *texts)
{
    if (texts->count < option->high && texts->count < CLI_TEXTS_MAX) {
        texts->text[texts->count++] = value;
        return PTO_OK;
    }
    return error_setf(&p->error, PTO_EINVAL, "%s%s may be given at most %llu times",
                      option->name != NULL ? "--" : "-",
                      option->name != NULL ? option->name : (char[]){ option->letter, '\0' },
                      (unsigned long long)option->high);
}

static int set_option(struct parser *p, const struct cli_option *option, char *value)
{
    void *at = (char *)p->request + option->at;
    int index, status;

    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)at = true;
        return PTO_OK;
    case CLI_COUNT:
        return set_count(p, option, value, at);
    case CLI_NUMBER:
        return options_set_number(p, option, value, at);
    case CLI_SECONDS:
        return set_seconds(p, option, value, at);
    case CLI_TEXT:
        *(const char **)at = value;
        return PTO_OK;
    case CLI_TEXTS:
        return add_text(p, option, value, at);
    case CLI_CHOICE:
    case CLI_CHOICES:
        return set_choice(p, option, value, at);
    case CLI_MODE:
        return set_mode(p, option, value, at);
    case CLI_MODES:
        status = set_mode(p, option, value, &index);
        *(uint32_t *)at = index < 0 ? PTO_MODES_ALL : 1u << index;
        return status;
    case CLI_PLATFORM:
    case CLI_PLATFORMS:
    case CLI_TARGET:
        return set_platform(p, option, value, at);
    case CLI_CUSTOM:
        return option->custom(p->request, option, value, &p->error);
    }
    return PTO_EINVAL;
}
