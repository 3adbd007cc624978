/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the tables of options for a terminal and for the manual page. */
#include <ctype.h>
#include <string.h>

#include "tool/cli/options.h"

enum {
    LINE_MAX_COLUMNS = 80,
    LABEL_MAX_COLUMNS = 24, /* a label longer than this has its help text on the next line */
    LABEL_INDENT = 2
};

static void print_filled(FILE *to, const char *text, int indent);
static int print_label(FILE *to, const struct cli_option *option);
static int label_columns(const struct cli_option *options);
static void help_text(const struct cli_option *option, const char *choices, char text[static 1024]);

void cli_print_usage(FILE *to, const struct cli_command *command)
{
    const struct cli_option *option = command->options;
    const char *form = command->synopsis;

    for (const char *before = "usage:"; *form != '\0'; before = "      ") {
        size_t length = strcspn(form, "\n");

        fprintf(to, "%s pto %s %.*s\n", before, command->name, (int)length, form);
        form += length + (form[length] == '\n');
    }
    fputc('\n', to);
    print_filled(to, command->description, 0);
    if (option != NULL) {
        int column = LABEL_INDENT + label_columns(option) + 2;

        fputc('\n', to);
        for (; option->help != NULL; option++) {
            char text[1024], names[NAMES_TEXT_MAX];
            int written;

            fprintf(to, "%*s", LABEL_INDENT, "");
            written = LABEL_INDENT + print_label(to, option);
            if (written + 2 > column) {
                fputc('\n', to);
                written = 0;
            }
            fprintf(to, "%*s", column - written, "");
            help_text(option, cli_list_platforms(option, names), text);
            print_filled(to, text, column);
        }
    }
    if (command->notes != NULL) {
        fputc('\n', to);
        print_filled(to, command->notes, 0);
    }
}

/* Formats the help text of an option, its choices and its default value. */
static void help_text(const struct cli_option *option, const char *choices, char text[static 1024])
{
    const char *initial = cli_initial(option);
    int length = snprintf(text, 1024, "%s%s%s", option->help, choices != NULL ? ": " : "",
                          choices != NULL ? choices : "");

    if (initial != NULL && length < 900)
        snprintf(text + length, 1024 - (size_t)length, " (default: %s)", initial);
}

/* Prints text in filled lines that begin at column `indent`, where the cursor already is. */
static void print_filled(FILE *to, const char *text, int indent)
{
    int column = indent;

    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        const char *end = line + length;

        if (line != text)
            fprintf(to, "%*s", length != 0 ? indent : 0, "");
        column = indent;
        if (*line == ' ') {
            fprintf(to, "%.*s", (int)length, line);
            line = end;
        }
        while (line < end) {
            int word = (int)strcspn(line, " \n");

            if (column > indent && column + 1 + word > LINE_MAX_COLUMNS) {
                fprintf(to, "\n%*s", indent, "");
                column = indent;
            }
            column += fprintf(to, "%s%.*s", column > indent ? " " : "", word, line);
            line += word;
            line += strspn(line, " ");
        }
        fputc('\n', to);
        line = *end == '\n' ? end + 1 : end;
    }
}

/* Prints the label of an option and returns its width in columns. */
static int print_label(FILE *to, const struct cli_option *option)
{
    int columns = 0;

    if (option->name != NULL)
        columns += fprintf(to, "--%s", option->name);
    if (option->letter != 0)
        columns += fprintf(to, "%s-%c", option->name != NULL ? ", " : "", option->letter);
    if (option->value != NULL)
        columns += fprintf(to, " %s", option->value);
    return columns;
}

static int label_columns(const struct cli_option *option)
{
    int widest = 0;

    for (; option->help != NULL; option++) {
        size_t columns = option->name != NULL ? 2 + strlen(option->name) : 0;

        columns += option->letter != 0 ? (option->name != NULL ? 4 : 2) : 0;
        columns += option->value != NULL ? 1 + strlen(option->value) : 0;
        if (columns <= LABEL_MAX_COLUMNS && (int)columns > widest)
            widest = (int)columns;
    }
    return widest;
}

/* ---- mdoc ---- */

/*
 * Prints one form of a command in mdoc: placeholders, which are in capitals, in italics, and
 * literal words in bold.
 */
static void print_form(FILE *to, const char *form, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t begin = i;

        while (i < length && isupper((unsigned char)form[i]))
            i++;
        if (i > begin) {
            fprintf(to, "\\fI%.*s\\fR", (int)(i - begin), form + begin);
            continue;
        }
        while (i < length && (islower((unsigned char)form[i]) || form[i] == '-'))
            i++;
        if (i > begin) {
            fprintf(to, "\\fB");
            for (; begin < i; begin++)
                fprintf(to, form[begin] == '-' ? "\\-" : "%c", form[begin]);
            fprintf(to, "\\fR");
            continue;
        }
        fputc(form[i++], to);
    }
}

/*
 * Prints each sentence on a separate line, as mdoc requires. A hyphen at the begin of a word
 * becomes a minus.
 */
static void print_sentence(FILE *to, const char *text)
{
    fputc(toupper((unsigned char)text[0]), to);
    for (const char *at = text + 1; *at != '\0'; at++) {
        if (*at == '\\')
            fprintf(to, "\\e");
        else if (*at == '-' && strchr(" (-", at[-1]) != NULL)
            fprintf(to, "\\-");
        else
            fputc(*at, to);
    }
    fprintf(to, ".\n");
}

void cli_print_manual_synopsis(FILE *to, const struct cli_command *command)
{
    const char *form = command->synopsis;

    while (*form != '\0') {
        size_t length = strcspn(form, "\n");

        fprintf(to, ".Nm\n.Cm %s\n", command->name);
        print_form(to, form, length);
        fputc('\n', to);
        form += length + (form[length] == '\n');
    }
}

void cli_print_manual_options(FILE *to, const struct cli_command *command)
{
    const struct cli_option *option = command->options;

    if (option == NULL)
        return;
    fprintf(to, ".Bl -tag -width Ds\n");
    for (; option->help != NULL; option++) {
        char text[1024];

        fprintf(to, ".It");
        if (option->name != NULL)
            fprintf(to, " Fl Fl %s", option->name);
        if (option->letter != 0)
            fprintf(to, "%s Fl %c", option->name != NULL ? " ," : "", option->letter);
        if (option->value != NULL) {
            fprintf(to, " No ");
            print_form(to, option->value, strlen(option->value));
        }
        fputc('\n', to);
        /*
         * no list of platforms is printed, because the list differs between versions; `pto info`
         * prints it
         */
        help_text(option, NULL, text);
        print_sentence(to, text);
    }
    fprintf(to, ".El\n");
}
