/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/cli/repeat.h"

#include <string.h>

/* Prints a word of a command line, quoted for the shell. */
static void print_word(FILE *to, const char *word)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./=,:+@%-";

    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fprintf(to, "%s", word);
        return;
    }
    fputc('\'', to);
    for (; *word != '\0'; word++)
        if (*word == '\'')
            fprintf(to, "'\\''");
        else
            fputc(*word, to);
    fputc('\'', to);
}

static void repeat_print_files(FILE *to, const char *option, const struct run_files *files)
{
    for (uint32_t i = 0; i < files->count; i++) {
        fprintf(to, " --%s %s=", option, files->file[i].name);
        print_word(to, files->file[i].path);
    }
}

void cli_print_repeat(FILE *to, const struct session *s, const char *target, enum pto_mode mode,
                      const struct run_request *request)
{
    const struct session_options *options = s->options;

    fprintf(to, "The usual order gives the right result: a task relies on another one without "
                "depending on it.\nTo reproduce: pto run ");
    print_word(to, target);
    if (s->scene->case_count > 1)
        fprintf(to, " --case %s", s->data.test_case->name);
    fprintf(to, " --platform %s --mode %s", s->platform, pto_mode_name(mode));
    if (options->workers != 0)
        fprintf(to, " --threads %u", options->workers);
    if (options->clusters != 0)
        fprintf(to, " --clusters %u", options->clusters);
    for (uint32_t i = 0; i < options->cards.count; i++)
        fprintf(to, "%s%u", i == 0 ? " --cards " : ",", options->cards.number[i]);
    if (options->is_isolated)
        fprintf(to, " --isolated");
    if (options->build.has_accesses)
        fprintf(to, " --accesses");
    if (options->has_nan_check)
        fprintf(to, " --nan");
    if (options->has_races)
        fprintf(to, " --races");
    for (uint32_t i = 0; i < options->build.flag_count; i++) {
        fprintf(to, " --flag=");
        print_word(to, options->build.flags[i]);
    }
    if (request != NULL) {
        repeat_print_files(to, "in", &request->in);
        repeat_print_files(to, "out", &request->out);
        for (uint32_t i = 0; i < request->scalar.count; i++)
            fprintf(to, " --scalar %s", request->scalar.text[i]);
    }
    fprintf(to, " --order-seed %u\n", s->order_seed);
}
