/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto drill` provokes the faults that a program can meet and checks that each is reported
 * correctly and leaves a working device. Each drill runs in a child process with a time limit;
 * parent and child share a page of memory.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "tool/cli/commands.h"
#include "tool/cli/interrupt.h"
#include "tool/cli/json.h"
#include "tool/drill/drill.h"
#include "tool/scene/terminal.h"

enum { DRILL_SECONDS = 30, WORKERS_MAX = 64 };

enum outcome { OUTCOME_OK, OUTCOME_FAILED, OUTCOME_SKIPPED, OUTCOMES };

struct request {
    const char *code;     /* operand: a status number or name, a drill or "all"; NULL: --list */
    const char *platform; /* NULL: run on all platforms */
    uint32_t modes;       /* modes to run in: a bit set, indexed by enum pto_mode */
    uint32_t workers;     /* worker threads; 0: one per CPU */
    bool is_list;
    bool is_json;
};

struct status_row {
    int status;
    const char *name;
    const char *text;
};

static const struct status_row statuses[] = {
#define X(name, value, text) { value, #name, text },
    PTO_STATUS_MAP(X)
#undef X
};

enum { STATUSES = sizeof(statuses) / sizeof(statuses[0]) };

static const struct drill *const tables[] = { drills_args,    drills_views, drills_rings,
                                              drills_kernels, drills_host,  drills_artefacts };

enum { TABLES = sizeof(tables) / sizeof(tables[0]) };

static volatile sig_atomic_t is_interrupted;
static volatile pid_t child;

/* Progress, counts and output format of the command. */
struct account {
    const struct request *request;
    struct json json;
    uint32_t count[OUTCOMES];
};

static int do_drill(void *context, int count, char **operands);
static int parse_code(struct request *request, const char *code);
static bool is_asked_for(const struct request *request, int status, const char *drill);
static void list_drills(const struct request *request);
static void stop_drills(int number);
static void run_settings(struct account *a);
static void run_drills(struct account *a, const struct drill_setting *setting);
static void print_gaps(struct account *a);

#define AT(member) .at = offsetof(struct request, member)

static const struct cli_option options[] = {
    { "platform", 0, "P|all", "simulated chip", CLI_PLATFORMS, AT(platform) },
    { "mode", 0, "stream|host|all", "run tasks while the graph is built, or after it", CLI_MODES,
      AT(modes), .initial = "stream" },
    { "threads", 0, "K", "worker threads, up to 64 (default: one per CPU)", CLI_COUNT, AT(workers),
      .low = 1, .high = WORKERS_MAX },
    { "list", 0, NULL, "list the drills of each code, and the reasons why some codes have none",
      CLI_FLAG, AT(is_list) },
    CLI_OPTION_JSON(struct request, is_json, "lines"),
    CLI_OPTIONS_END,
};

const struct cli_command cmd_drill = {
    .name = "drill",
    .summary = "provoke the faults that a program can meet",
    .synopsis = "CODE|DRILL|all [OPTION...]\n"
                "--list [--json]",
    .description = "Provokes the faults that a program can meet, and checks that each is reported "
                   "correctly and leaves a working device. CODE is a status: -215, 215 or ECRASH; "
                   "for a single status or drill the whole report is printed.",
    .notes = "Ctrl-C stops the command, which prints the results so far (exit code 130).",
    .options = options,
    .operands_max = 1,
    .request_bytes = sizeof(struct request),
    .run = do_drill,
};

static int do_drill(void *context, int count, char **operands)
{
    struct request *request = context;
    struct account a = { .request = request };

    if (request->is_list) {
        if (count != 0)
            return cli_refuse_operand(&cmd_drill, operands[0]);
        list_drills(request);
        return EXIT_OK;
    }
    if (count == 0) {
        cli_print_usage(stderr, &cmd_drill);
        return EXIT_USAGE;
    }
    if (parse_code(request, operands[0]) != EXIT_OK)
        return EXIT_USAGE;
    interrupt_watch(stop_drills, true);
    a.json = cli_json_start(stdout);
    if (request->is_json) {
        cli_json_open(&a.json, NULL, '{');
        cli_json_string(&a.json, "version", pto_version());
        cli_json_open(&a.json, "drills", '[');
    }
    run_settings(&a);
    if (request->is_json) {
        cli_json_close(&a.json, ']');
        cli_json_bool(&a.json, "ok", a.count[OUTCOME_FAILED] == 0);
        cli_json_bool(&a.json, "interrupted", is_interrupted != 0);
        cli_json_integer(&a.json, "failed", a.count[OUTCOME_FAILED]);
        cli_json_integer(&a.json, "skipped", a.count[OUTCOME_SKIPPED]);
        cli_json_close(&a.json, '}');
    } else {
        print_gaps(&a);
        printf("%u ok, %u FAILED, %u skipped\n", a.count[OUTCOME_OK], a.count[OUTCOME_FAILED],
               a.count[OUTCOME_SKIPPED]);
        if (is_interrupted)
            printf("interrupted\n");
    }
    return is_interrupted ? EXIT_INTERRUPTED : a.count[OUTCOME_FAILED] != 0 ? EXIT_FAILED : EXIT_OK;
}

/* ---- codes ---- */

static const struct status_row *find_status(int status)
{
    for (uint32_t i = 0; i < STATUSES; i++)
        if (statuses[i].status == status)
            return &statuses[i];
    return NULL;
}

static const char *status_name(int status)
{
    const struct status_row *row = find_status(status);

    return row != NULL ? row->name : "";
}

/* Whether the user asked for this drill: by its name, or by the number or name of its status. */
static bool is_asked_for(const struct request *request, int status, const char *drill)
{
    const char *code = request->code;
    const char *name = strncasecmp(code, "PTO_", 4) == 0 ? code + 4 : code;
    uint64_t number;

    return strcmp(code, "all") == 0 || (drill != NULL && strcmp(code, drill) == 0) ||
           strcasecmp(name, status_name(status)) == 0 ||
           (cli_parse_number(code, 0, INT32_MAX, &number) && (int)number == -status);
}

static const struct drill *next_drill(const struct drill *d, uint32_t *table)
{
    d = d == NULL ? tables[ *table = 0] : d + 1;
    while (d->name == NULL && ++*table < TABLES)
        d = tables[*table];
    return d->name != NULL ? d : NULL;
}

static int parse_code(struct request *request, const char *code)
{
    uint32_t table;

    request->code = code[0] == '-' ? code + 1 : code;
    for (const struct drill *d = NULL; (d = next_drill(d, &table)) != NULL;)
        if (is_asked_for(request, d->status, d->name))
            return EXIT_OK;
    for (const struct drill_gap *gap = drill_gaps; gap->status != 0; gap++)
        if (is_asked_for(request, gap->status, gap->name))
            return EXIT_OK;
    terminal_printf(stderr, "pto drill: unknown code '%s'; `pto drill --list` lists them\n", code);
    return EXIT_USAGE;
}

/* ---- the list ---- */

static void list_status(int status, const char *name, const char *text)
{
    uint32_t table;

    printf("%s%5d %s%s  %s\n", terminal_code(stdout, TERMINAL_BOLD), status, name,
           terminal_code(stdout, TERMINAL_PLAIN), text);
    for (const struct drill *d = NULL; (d = next_drill(d, &table)) != NULL;)
        if (d->status == status)
            printf("        %-26s %s\n", d->name, d->what);
    for (const struct drill_gap *gap = drill_gaps; gap->status != 0; gap++)
        if (gap->status == status)
            printf("        %-26s %s\n", "(not provoked)", gap->why);
}

static void list_status_json(struct json *j, int status, const char *name, const char *text)
{
    uint32_t table;

    cli_json_open(j, NULL, '{');
    cli_json_string(j, "name", name);
    cli_json_integer(j, "code", (uint64_t)-status);
    cli_json_string(j, "text", text);
    cli_json_open(j, "drills", '[');
    for (const struct drill *d = NULL; (d = next_drill(d, &table)) != NULL;)
        if (d->status == status)
            cli_json_string(j, NULL, d->name);
    cli_json_close(j, ']');
    cli_json_open(j, "not_provoked", '[');
    for (const struct drill_gap *gap = drill_gaps; gap->status != 0; gap++)
        if (gap->status == status)
            cli_json_string(j, NULL, gap->why);
    cli_json_close(j, ']');
    cli_json_close(j, '}');
}

static void list_code(const struct request *request, struct json *j, int status, const char *name,
                      const char *text)
{
    if (request->is_json)
        list_status_json(j, status, name, text);
    else
        list_status(status, name, text);
}

/* Lists all codes in falling order. Codes that this build does not define are among the gaps. */
static void list_drills(const struct request *request)
{
    struct json j = cli_json_start(stdout);
    int last = 0;

    if (request->is_json) {
        cli_json_open(&j, NULL, '{');
        cli_json_string(&j, "version", pto_version());
        cli_json_open(&j, "codes", '[');
    }
    for (uint32_t i = 0; i <= STATUSES; i++) {
        int next = i < STATUSES ? statuses[i].status : INT_MIN;

        for (const struct drill_gap *gap = drill_gaps; gap->status != 0; gap++)
            if (gap->name != NULL && gap->status < last && gap->status > next)
                list_code(request, &j, gap->status, gap->name, "a code that only simpler returns");
        if (i < STATUSES)
            list_code(request, &j, next, statuses[i].name, statuses[i].text);
        last = next;
    }
    if (request->is_json) {
        cli_json_close(&j, ']');
        cli_json_close(&j, '}');
    }
}

/* ---- one drill ---- */

static void stop_drills(int number)
{
    pid_t now = child;

    (void)number;
    is_interrupted = 1;
    if (now > 0)
        kill(now, SIGKILL);
}

static void run_in_child(const struct drill *d, const struct drill_setting *setting,
                         struct drill_result *result)
{
    pid_t parent = getpid();
    sigset_t interrupt, before;
    int state = 0;

    memset(result, 0, sizeof(*result));
    /* flush, because the child would print buffered output of its parent again */
    fflush(stdout);
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &before);
    child = is_interrupted ? -1 : fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        alarm(DRILL_SECONDS);
        drill_run_whole(d, setting, result);
        _exit(0);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (child < 0) {
        snprintf(result->why, sizeof(result->why), "cannot start a process: %s", strerror(errno));
        return;
    }
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    child = 0;
    if (result->is_over)
        return;
    if (WIFSIGNALED(state) && WTERMSIG(state) == SIGALRM)
        snprintf(result->why, sizeof(result->why), "it did not finish within %d seconds",
                 DRILL_SECONDS);
    else if (WIFSIGNALED(state))
        snprintf(result->why, sizeof(result->why), "the process died: %s",
                 strsignal(WTERMSIG(state)));
    else
        snprintf(result->why, sizeof(result->why), "the process ended with code %d",
                 WEXITSTATUS(state));
}

/* ---- lines ---- */

static void print_drill(struct account *a, const struct drill *d, enum outcome outcome,
                        const struct drill_result *r, uint64_t ns)
{
    static const char *const words[OUTCOMES] = { "OK", "FAILED", "skip" };
    static const char *const colours[OUTCOMES] = { TERMINAL_GREEN, TERMINAL_RED, TERMINAL_YELLOW };

    printf("%5d %-14s %-26s %s%-6s%s %8.1f ms  %s\n", d->status, status_name(d->status), d->name,
           terminal_code(stdout, colours[outcome]), words[outcome],
           terminal_code(stdout, TERMINAL_PLAIN), (double)ns / 1e6, d->what);
    if (outcome == OUTCOME_SKIPPED)
        printf("      %s\n", r->reason);
    if (outcome == OUTCOME_FAILED)
        printf("      %s\n", r->why);
    if (strcmp(a->request->code, "all") == 0 && outcome != OUTCOME_FAILED)
        return;
    /* print the error text unless the failure report contains it */
    if (strstr(r->report, r->text) == NULL)
        terminal_print_indented(r->text, "      ");
    terminal_print_indented(r->report, "      ");
}

static void print_drill_json(struct account *a, const struct drill *d,
                             const struct drill_setting *setting, enum outcome outcome,
                             const struct drill_result *r, uint64_t ns)
{
    static const char *const words[OUTCOMES] = { "ok", "failed", "skipped" };
    struct json *j = &a->json;

    cli_json_open(j, NULL, '{');
    cli_json_string(j, "drill", d->name);
    cli_json_integer(j, "code", (uint64_t)-d->status);
    cli_json_string(j, "name", status_name(d->status));
    cli_json_string(j, "what", d->what);
    cli_json_string(j, "platform", setting->platform);
    cli_json_string(j, "mode", pto_mode_name(setting->mode));
    cli_json_string(j, "outcome", words[outcome]);
    cli_json_string(j, "why",
                    outcome == OUTCOME_FAILED    ? r->why
                    : outcome == OUTCOME_SKIPPED ? r->reason
                                                 : NULL);
    cli_json_number(j, "ms", (double)ns / 1e6, 1);
    cli_json_string(j, "text", r->text);
    cli_json_string(j, "report", r->report);
    cli_json_close(j, '}');
}

static void run_drill(struct account *a, const struct drill *d, const struct drill_setting *setting,
                      struct drill_result *r)
{
    const char *obstacle = drill_obstacle(d, setting);
    uint64_t begin = os_now_ns();
    enum outcome outcome;

    if (obstacle != NULL) {
        memset(r, 0, sizeof(*r));
        snprintf(r->reason, sizeof(r->reason), "%s", obstacle);
    } else {
        run_in_child(d, setting, r);
    }
    if (is_interrupted)
        return;
    outcome = r->why[0] != '\0'      ? OUTCOME_FAILED
              : r->reason[0] != '\0' ? OUTCOME_SKIPPED
                                     : OUTCOME_OK;
    a->count[outcome]++;
    if (a->request->is_json)
        print_drill_json(a, d, setting, outcome, r, os_now_ns() - begin);
    else
        print_drill(a, d, outcome, r, os_now_ns() - begin);
    fflush(stdout);
}

static void run_drills(struct account *a, const struct drill_setting *setting)
{
    struct drill_result *result =
        mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t table;

    if (result == MAP_FAILED) {
        terminal_printf(stderr, "pto drill: out of memory\n");
        a->count[OUTCOME_FAILED]++;
        return;
    }
    if (!a->request->is_json)
        printf("%s%s %s%s\n", terminal_code(stdout, TERMINAL_BOLD), setting->platform,
               pto_mode_name(setting->mode), terminal_code(stdout, TERMINAL_PLAIN));
    for (uint32_t i = 0; i < STATUSES; i++)
        for (const struct drill *d = NULL; (d = next_drill(d, &table)) != NULL;)
            if (!is_interrupted && d->status == statuses[i].status &&
                is_asked_for(a->request, d->status, d->name))
                run_drill(a, d, setting, result);
    munmap(result, sizeof(*result));
}

static void run_settings(struct account *a)
{
    const struct pto_platform *platform;

    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++)
        for (uint32_t mode = 0; platform->missing == NULL && mode < PTO_MODE_COUNT; mode++) {
            struct drill_setting setting = { platform->name, (enum pto_mode)mode,
                                             a->request->workers };

            if ((a->request->modes & (1u << mode)) != 0 && !is_interrupted &&
                (a->request->platform == NULL || strcmp(a->request->platform, platform->name) == 0))
                run_drills(a, &setting);
        }
}

/*
 * Lists the requested codes that no drill provokes. Prints nothing for "all", because --list shows
 * them.
 */
static void print_gaps(struct account *a)
{
    if (strcmp(a->request->code, "all") == 0)
        return;
    for (const struct drill_gap *gap = drill_gaps; gap->status != 0; gap++)
        if (is_asked_for(a->request, gap->status, gap->name))
            printf("%5d %-14s not provoked: %s\n", gap->status,
                   gap->name != NULL ? gap->name : status_name(gap->status), gap->why);
}
