/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto selfcheck --read` extracts the evidence of the first failed step from a file and looks up
 * its causes in the table of rules. It needs only the file.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/json.h"
#include "tool/cli/selfcheck.h"
#include "tool/scene/terminal.h"

enum {
    LINE_MAX_BYTES = 1024,
    EVIDENCE = 256, /* maximum number of lines of evidence about a step */
    LOG_LINES = 40,
    COMPILER_LINES = 60,
    CAUSES = 3,
    CORES_SHOWN = 128,
};

struct step_row {
    char name[16];
    char verdict[16];
    char ms[16];
    char text[SELFCHECK_TEXT];
};

struct reading {
    struct selfcheck_file file;
    struct step_row step[SELFCHECK_STEPS];
    uint32_t step_count;
    const struct step_row *failed; /* first failed step; NULL: none failed */
    char *evidence[EVIDENCE];
    uint32_t evidence_count;
    /* lines of the evidence file about the cores on the board; they point into the file */
    const char *board[CORES_SHOWN + 1];
    uint32_t board_count;
    const struct selfcheck_rule *cause[CAUSES];
    uint32_t cause_count;
};

/* ---- evidence ---- */

static void selfcheck_read_add(struct reading *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void selfcheck_read_add(struct reading *r, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list values;

    va_start(values, format);
    vsnprintf(line, sizeof(line), format, values);
    va_end(values);
    for (uint32_t i = 0; i < r->evidence_count; i++)
        if (strcmp(r->evidence[i], line) == 0)
            return;
    if (r->evidence_count < EVIDENCE)
        r->evidence[r->evidence_count] = strdup(line);
    if (r->evidence_count < EVIDENCE && r->evidence[r->evidence_count] != NULL)
        r->evidence_count++;
}

/* Cuts off and returns the next line of a text; NULL: there is none. */
static char *selfcheck_read_next_line(char **text)
{
    char *line = *text;

    if (line == NULL || *line == '\0')
        return NULL;
    *text = strchr(line, '\n');
    if (*text != NULL)
        *(*text)++ = '\0';
    return line;
}

static char *part_text(struct reading *r, const char *name)
{
    const struct selfcheck_part *part = cli_selfcheck_find(&r->file, name);

    return part != NULL ? (char *)(uintptr_t)part->bytes : NULL;
}

/* Returns a copy of a part, so that it can be cut into lines and the part read again. free() it. */
static char *copy_part(struct reading *r, const char *name)
{
    const char *text = part_text(r, name);

    return text != NULL ? strdup(text) : NULL;
}

static void read_steps(struct reading *r)
{
    char *text = part_text(r, "steps"), *line;

    while ((line = selfcheck_read_next_line(&text)) != NULL && r->step_count < SELFCHECK_STEPS) {
        struct step_row *row = &r->step[r->step_count];

        if (sscanf(line, "%15[^\t]\t%15[^\t]\t%15[^\t]\t%799[^\n]", row->name, row->verdict,
                   row->ms, row->text) < 3)
            continue;
        r->step_count++;
        if (r->failed == NULL &&
            (strcmp(row->verdict, "failed") == 0 || strcmp(row->verdict, "ended-inside") == 0))
            r->failed = row;
    }
}

/* Returns whether a result code is a failure. A few non-zero codes are regular results. */
static bool selfcheck_read_is_failure(long code)
{
    return code != 0 && code != 100002 && code != 507046 && code != 507047;
}

static void selfcheck_read_record_note(struct reading *r, const char *kind, char *text)
{
    if (strcmp(kind, "message") == 0)
        selfcheck_read_add(r, "message %s", text);
    else if (strcmp(kind, "meaning") == 0)
        selfcheck_read_add(r, "meaning %s", text);
    else if (strcmp(kind, "hang") == 0)
        selfcheck_read_add(r, "hang %s", text);
    else if (strcmp(kind, "begin") == 0)
        selfcheck_read_add(r, "inside %s", text);
    else if ((strcmp(kind, "board") == 0 || strcmp(kind, "core") == 0) &&
             r->board_count <= CORES_SHOWN)
        r->board[r->board_count++] = text;
}

/*
 * Collects the failed calls of the failed step from a log of calls. They follow the line with the
 * name of the step, up to the next such line; with `is_all`, all calls belong to the step.
 */
static void read_calls(struct reading *r, const char *part, bool is_all)
{
    char *text = part_text(r, part), *line, *field[5];
    bool is_here = is_all;

    while ((line = selfcheck_read_next_line(&text)) != NULL) {
        uint32_t count = 0;

        for (char *at = line; count < 5 && at != NULL; at = strchr(at, '\t')) {
            if (count != 0)
                *at++ = '\0';
            field[count++] = at;
        }
        if (count >= 4 && strcmp(field[0], "#") == 0) {
            bool is_stage = strcmp(field[2], "stage") == 0;

            if (!is_all && (is_stage || strcmp(field[2], "step") == 0) &&
                (!is_stage || strcmp(r->failed->name, "recovery") != 0))
                is_here = strcmp(field[3], r->failed->name) == 0;
            else if (is_here)
                selfcheck_read_record_note(r, field[2], field[3]);
        } else if (count == 5 && is_here && selfcheck_read_is_failure(strtol(field[3], NULL, 10))) {
            selfcheck_read_add(r, "call %s %s", field[2], field[3]);
        }
    }
}

/* ---- the board ---- */

/* Number of cores of the last launch in each state that the board shows. */
struct core_counts {
    uint32_t all, absent, unknown, deaf, inside;
};

static const uint32_t cond_gone = 0xfffffffe, cond_over = 0x80000000;

/*
 * Counts a core by its state on the board. The scheduler reads the condition registers, by which
 * cores answer, only when it has waited for cores in vain; `has_conds` is false if it did not read
 * them.
 */
static void count_core(struct core_counts *n, const char *line, uint32_t launch, bool has_conds)
{
    unsigned index, number, cond;
    unsigned long long tag, window;
    char type[8];

    if (sscanf(line, "%7s %u tag %llu number %u window %llx cond %x", type, &index, &tag, &number,
               &window, &cond) != 6)
        return;
    n->all++;
    if (tag != launch)
        n->absent++;
    else if (window == 0)
        n->unknown++;
    else if (has_conds && (cond == 0 || cond == cond_gone))
        n->deaf++;
    else if (has_conds && (cond & cond_over) == 0)
        n->inside++;
}

static void judge_cores(struct reading *r)
{
    struct core_counts n = { 0 };
    unsigned launch = 0, seen = 0;

    for (uint32_t i = 0; i < r->board_count; i++) {
        const char *at = strstr(r->board[i], "registers read at launch ");

        if (sscanf(r->board[i], "launch %u", &launch) == 1 && at != NULL)
            (void)sscanf(at, "registers read at launch %u", &seen);
        else if (strncmp(r->board[i], "cannot be read", 14) == 0)
            selfcheck_read_add(r, "cores unknown: the board cannot be read");
        else
            count_core(&n, r->board[i], launch, seen == launch);
    }
    if (n.all == 0)
        return;
    if (n.absent == n.all)
        selfcheck_read_add(r, "cores none of %u has started", n.all);
    else if (n.absent != 0)
        selfcheck_read_add(r, "cores %u of %u have not started", n.absent, n.all);
    if (n.unknown != 0)
        selfcheck_read_add(r, "cores %u of %u have numbers without a register window", n.unknown,
                           n.all);
    if (n.deaf != 0)
        selfcheck_read_add(
            r, "cores %u of %u have started and show nothing in their condition registers", n.deaf,
            n.all);
    if (n.inside != 0)
        selfcheck_read_add(r, "cores %u of %u are inside of a kernel", n.inside, n.all);
    if (n.absent + n.unknown + n.deaf + n.inside == 0)
        selfcheck_read_add(r, "cores all %u have started", n.all);
}

/* ---- logs, compilers, rights ---- */

static void selfcheck_read_lines(struct reading *r, const char *part, const char *kind,
                                 const char *sign, uint32_t most)
{
    char *copy = copy_part(r, part), *text = copy, *line;
    uint32_t count = 0;

    while ((line = selfcheck_read_next_line(&text)) != NULL && count < most)
        if (fnmatch(sign, line, FNM_CASEFOLD) == 0) {
            selfcheck_read_add(r, "%s %.900s", kind, line);
            count++;
        }
    free(copy);
}

static bool is_compiling(const char *step)
{
    return strcmp(step, "compile") == 0 || strcmp(step, "programs") == 0;
}

static void read_end(struct reading *r)
{
    char *copy = copy_part(r, "about"), *text = copy, *line;

    while ((line = selfcheck_read_next_line(&text)) != NULL)
        if (strncmp(line, "end=", 4) == 0 && line[4] != '\0')
            selfcheck_read_add(r, "end %s", line + 4);
    free(copy);
}

static void selfcheck_read_collect(struct reading *r)
{
    bool is_pair = strcmp(r->failed->name, "two-cards") == 0;

    if (r->failed->text[0] != '\0')
        selfcheck_read_add(r, "text %s", r->failed->text);
    read_calls(r, is_pair ? "calls-rank0" : "calls", is_pair);
    if (is_pair)
        read_calls(r, "calls-rank1", true);
    judge_cores(r);
    read_end(r);
    if (is_compiling(r->failed->name))
        selfcheck_read_lines(r, "compilers", "compiler", "*error*", COMPILER_LINES);
    selfcheck_read_lines(r, "logs", "log", "[[]ERROR[]]*", LOG_LINES);
    selfcheck_read_lines(r, "rights", "rights", "/dev/*: [!m]*", LOG_LINES);
    selfcheck_read_lines(r, "rights", "rights", "/dev/*not accessible", LOG_LINES);
}

/* ---- causes ---- */

/* Returns the number of signs of a rule if the evidence has all of them, else -1. */
static int weigh(const struct reading *r, const struct selfcheck_rule *rule)
{
    int weight = 0;

    if (fnmatch(rule->step, r->failed->name, 0) != 0)
        return -1;
    for (uint32_t i = 0; i < RULE_SIGNS && rule->sign[i] != NULL; i++) {
        bool is_found = false;

        for (uint32_t k = 0; k < r->evidence_count && !is_found; k++)
            is_found = fnmatch(rule->sign[i], r->evidence[k], FNM_CASEFOLD) == 0;
        if (!is_found)
            return -1;
        weight++;
    }
    return weight;
}

static void find_causes(struct reading *r)
{
    for (int weight = RULE_SIGNS; weight >= 0; weight--)
        for (uint32_t i = 0; i < cli_selfcheck_rule_count && r->cause_count < CAUSES; i++)
            if (weigh(r, &cli_selfcheck_rules[i]) == weight)
                r->cause[r->cause_count++] = &cli_selfcheck_rules[i];
}

/* ---- as text ---- */

static void print_part(struct reading *r, const char *name, const char *heading)
{
    const char *text = part_text(r, name);

    if (text == NULL || text[0] == '\0')
        return;
    printf("\n%s\n", heading);
    terminal_print_indented(text, "  ");
}

static void print_steps(const struct reading *r)
{
    printf("\nsteps\n");
    for (uint32_t i = 0; i < r->step_count; i++) {
        const struct step_row *row = &r->step[i];

        terminal_printf(stdout, "  %-10s %-12s %s\n", row->name, row->verdict,
                        row->text[0] != '\0' ? row->text : "");
    }
}

static const char *proof_of(const char *name)
{
    for (uint32_t i = 0; i < SELFCHECK_STEPS; i++)
        if (strcmp(cli_selfcheck_names[i], name) == 0)
            return cli_selfcheck_proofs[i];
    return "";
}

static void print_causes(const struct reading *r)
{
    printf("\nlikeliest causes\n");
    for (uint32_t i = 0; i < r->cause_count; i++) {
        const struct selfcheck_rule *rule = r->cause[i];

        printf("  %u. %s\n     assumption: %s\n     remedy: %s\n", i + 1, rule->cause,
               rule->assumption != NULL ? rule->assumption : "none: this machine, not the runtime",
               rule->remedy);
    }
    if (r->cause_count == 0)
        printf("  none is known for this evidence\n");
    printf(
        "\nAssumptions are rows of docs/internals/onboard.md, \"Never verified on hardware\".\n");
}

static void print_text(struct reading *r)
{
    print_part(r, "about", "check");
    print_steps(r);
    if (r->failed == NULL) {
        printf("\nno step failed\n");
        return;
    }
    terminal_printf(stdout, "\nfirst step that failed: %s\n  it would prove that %s\n",
                    r->failed->name, proof_of(r->failed->name));
    printf("\nevidence\n");
    for (uint32_t i = 0; i < r->evidence_count; i++)
        terminal_printf(stdout, "  %s\n", r->evidence[i]);
    if (r->board_count != 0)
        printf("\nboard\n");
    for (uint32_t i = 0; i < r->board_count; i++)
        terminal_printf(stdout, "  %s\n", r->board[i]);
    print_causes(r);
}

/* ---- as JSON ---- */

static void selfcheck_read_print_json(const struct reading *r)
{
    struct json j = cli_json_start(stdout);

    cli_json_open(&j, NULL, '{');
    cli_json_open(&j, "steps", '[');
    for (uint32_t i = 0; i < r->step_count; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_string(&j, "name", r->step[i].name);
        cli_json_string(&j, "verdict", r->step[i].verdict);
        cli_json_integer(&j, "ms", strtoull(r->step[i].ms, NULL, 10));
        cli_json_string(&j, "text", r->step[i].text);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_string(&j, "failed", r->failed != NULL ? r->failed->name : NULL);
    cli_json_open(&j, "evidence", '[');
    for (uint32_t i = 0; i < r->evidence_count; i++)
        cli_json_string(&j, NULL, r->evidence[i]);
    cli_json_close(&j, ']');
    cli_json_open(&j, "board", '[');
    for (uint32_t i = 0; i < r->board_count; i++)
        cli_json_string(&j, NULL, r->board[i]);
    cli_json_close(&j, ']');
    cli_json_open(&j, "causes", '[');
    for (uint32_t i = 0; i < r->cause_count; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_string(&j, "cause", r->cause[i]->cause);
        cli_json_string(&j, "assumption", r->cause[i]->assumption);
        cli_json_string(&j, "remedy", r->cause[i]->remedy);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

int cli_selfcheck_read(const char *path, bool is_json)
{
    struct pto_error error = { .size = sizeof(error) };
    struct reading *r = calloc(1, sizeof(*r));

    if (r == NULL || cli_selfcheck_open(path, &r->file, &error) < 0) {
        terminal_printf(stderr, "pto selfcheck: %s\n", error.text);
        free(r);
        return EXIT_FAILED;
    }
    read_steps(r);
    if (r->failed != NULL) {
        selfcheck_read_collect(r);
        find_causes(r);
    }
    if (is_json)
        selfcheck_read_print_json(r);
    else
        print_text(r);
    for (uint32_t i = 0; i < r->evidence_count; i++)
        free(r->evidence[i]);
    free(r->file.bytes);
    free(r);
    return EXIT_OK;
}
