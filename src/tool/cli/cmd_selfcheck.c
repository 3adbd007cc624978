/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto selfcheck` tests a real card and collects evidence for those who help when it fails. It
 * tries the card in steps, from loading libraries to losing and recovering the card, in child
 * processes, which may hang or crash. It writes a file with the evidence, which `--read` explains
 * on any machine.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/os.h"
#include "tool/cli/commands.h"
#include "tool/cli/selfcheck.h"
#include "tool/scene/terminal.h"

enum {
    LIMIT_S = 900,      /* time limit of the process that tries one card */
    PAIR_LIMIT_S = 180, /* time limit of each of the two processes that try two cards */
    POLL_US = 10000,
    END_TEXT = 256,
};

static int do_selfcheck(void *context, int count, char **operands);

#define AT(member) .at = offsetof(struct selfcheck, member)

static const struct cli_option options[] = {
    { "platform", 0, "P", "a2a3 or a5 (default: that of the card)", CLI_TEXT, AT(platform) },
    { "card", 0, "N", "which card", CLI_COUNT, AT(card), .high = 1023, .initial = "0" },
    { "runs", 0, "N", "number of runs in the search for leaks", CLI_COUNT, AT(runs), .low = 3,
      .high = 10000000, .initial = "1000" },
    { "alone", 0, NULL, "use one card only: skip the step that needs two", CLI_FLAG, AT(is_alone) },
    { NULL, 'o', "FILE", "output file", CLI_TEXT, AT(output), .initial = "pto-selfcheck.txt" },
    { "read", 0, "FILE", "explain a file instead of trying a card", CLI_TEXT, AT(read) },
    CLI_OPTION_JSON(struct selfcheck, is_json, "text (with --read)"),
    CLI_OPTIONS_END,
};

const struct cli_command cmd_selfcheck = {
    .name = "selfcheck",
    .summary = "try a card step by step, and write the evidence to a file",
    .synopsis = "[OPTION...]\n--read FILE [--json]",
    .description =
        "Tries a card in steps, each of which proves one fact: the vendor's libraries and their "
        "version, the card, the programs on its control processor, the registers of its cores, and "
        "the idle cores. It then compiles, runs a task on one core, runs tasks on all cores that "
        "wait for each other, and repeats runs in search of leaks. Last comes a kernel that never "
        "returns: its run must end in time, and the card must be usable again. The next card, if "
        "there is one, is tried together with the first. No other process should use the cards "
        "during the check.\n\nThe file has the evidence even if a step fails or the check is "
        "interrupted: all steps, the vendor's calls, messages and logs, the output of compilers, "
        "versions and rights. Send it to the people who help you. --read explains such a file: the "
        "first step that failed, its evidence, and the likeliest causes.",
    .notes = "The exit code is 1 if a step failed or the file cannot be written, 2 if the command "
             "line is invalid, and 130 after an interrupt. With --read it is 1 only if the file "
             "cannot be read.",
    .options = options,
    .request_bytes = sizeof(struct selfcheck),
    .run = do_selfcheck,
};

/* clang-format off */
const char *const cli_selfcheck_names[SELFCHECK_STEPS] = {
#define X(symbol, name, proves) name,
    SELFCHECK_MAP(X)
#undef X
};

const char *const cli_selfcheck_proofs[SELFCHECK_STEPS] = {
#define X(symbol, name, proves) proves,
    SELFCHECK_MAP(X)
#undef X
};

const char *const cli_selfcheck_verdicts[SELFCHECK_VERDICTS] = {
    [VERDICT_NOT_REACHED] = "not-reached", [VERDICT_RUNNING] = "ended-inside", [VERDICT_OK] = "ok",
    [VERDICT_FAILED] = "failed",           [VERDICT_SKIPPED] = "skipped",
};
/* clang-format on */

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    interrupted = number;
}

/* ---- results ---- */

double cli_selfcheck_now_ms(void)
{
    return (double)os_now_ns() / 1e6;
}

void cli_selfcheck_set(struct selfcheck_result *result, enum selfcheck_verdict verdict,
                       const char *format, ...)
{
    va_list values;

    va_start(values, format);
    vsnprintf(result->text, sizeof(result->text), format, values);
    va_end(values);
    __atomic_store_n(&result->verdict, verdict, __ATOMIC_RELEASE);
}

enum selfcheck_verdict cli_selfcheck_verdict(const struct selfcheck_result *result)
{
    return (enum selfcheck_verdict)__atomic_load_n(&result->verdict, __ATOMIC_ACQUIRE);
}

void cli_selfcheck_path(const struct selfcheck *c, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.3000s/%.900s", c->work, name);
}

/* ---- the log of the library, as it grows ---- */

struct watch {
    struct selfcheck *c;
    FILE *log;
    char line[8192];
    size_t used;     /* bytes of an incomplete line */
    double since_ms; /* time at which the current stage began */
    uint32_t shown;  /* steps that were printed */
    bool is_judged;  /* all stages of opening the card have a verdict */
};

/* Resets the stages from `first` on that an earlier, failed attempt to open the card had begun. */
static void forget_stages(struct selfcheck_progress *progress, uint32_t first)
{
    for (uint32_t i = first; i < SELFCHECK_OPENING; i++)
        if (progress->step[i].verdict == VERDICT_RUNNING)
            cli_selfcheck_set(&progress->step[i], VERDICT_NOT_REACHED, "%s", "");
}

/* Records that a stage of opening the card has begun, so that all stages before it are complete. */
static void selfcheck_begin_stage(struct watch *w, const char *name)
{
    struct selfcheck_progress *progress = w->c->progress;
    double now = cli_selfcheck_now_ms();

    for (uint32_t i = 0; i < SELFCHECK_OPENING; i++) {
        struct selfcheck_result *step = &progress->step[i];

        if (strcmp(cli_selfcheck_names[i], name) == 0) {
            cli_selfcheck_set(step, VERDICT_RUNNING, "%s", "");
            w->since_ms = now;
            forget_stages(progress, i + 1);
            return;
        }
        if (step->verdict != VERDICT_OK) {
            step->ms = step->verdict == VERDICT_RUNNING ? now - w->since_ms : 0;
            /* sets only the verdict: cli_selfcheck_set would also replace the text of the step */
            __atomic_store_n(&step->verdict, VERDICT_OK, __ATOMIC_RELEASE);
        }
    }
}

/* Copies a note about a stage, which the library has logged, into the text of the stage's step. */
static void selfcheck_record_note(struct watch *w, const char *kind, const char *text)
{
    static const struct {
        const char *kind;
        enum selfcheck_step step;
    } texts[] = { { "library", STEP_LIBRARIES }, { "version", STEP_VERSION },
                  { "soc", STEP_CARD },          { "cores", STEP_CARD },
                  { "program", STEP_PROGRAMS },  { "windows", STEP_REGISTERS } };

    if (strcmp(kind, "stage") == 0)
        selfcheck_begin_stage(w, text);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (strcmp(kind, texts[i].kind) == 0) {
            char *to = w->c->progress->step[texts[i].step].text;
            size_t used = strlen(to);

            snprintf(to + used, SELFCHECK_TEXT - used, "%s%s", used != 0 ? ", " : "", text);
        }
}

static void follow_log(struct watch *w)
{
    char path[PATH_MAX], *kind, *text;
    int letter;

    if (w->log == NULL) {
        cli_selfcheck_path(w->c, "calls", path);
        w->log = fopen(path, "re");
    }
    if (w->log == NULL)
        return;
    clearerr(w->log);
    while ((letter = fgetc(w->log)) != EOF) {
        if (letter != '\n') {
            if (w->used + 1 < sizeof(w->line))
                w->line[w->used++] = (char)letter;
            continue;
        }
        w->line[w->used] = '\0';
        w->used = 0;
        kind = w->line[0] == '#' ? strchr(w->line + 2, '\t') : NULL;
        text = kind != NULL ? strchr(kind + 1, '\t') : NULL;
        if (text == NULL)
            continue;
        *text = '\0';
        selfcheck_record_note(w, kind + 1, text + 1);
    }
}

/*
 * Sets the verdicts of the stages of the first opening of the card. Later openings belong to other
 * steps.
 */
static void follow_opening(struct watch *w)
{
    struct selfcheck_progress *progress = w->c->progress;
    enum selfcheck_verdict verdict = cli_selfcheck_verdict(&progress->opening);
    uint32_t last = 0;

    if (w->is_judged)
        return;
    follow_log(w); /* reads the log after the verdict, so that the log has every stage */
    if (verdict != VERDICT_OK && verdict != VERDICT_FAILED)
        return;
    w->is_judged = true;
    for (uint32_t i = 0; i < SELFCHECK_OPENING; i++)
        if (cli_selfcheck_verdict(&progress->step[i]) == VERDICT_RUNNING)
            last = i;
    progress->step[last].ms = cli_selfcheck_now_ms() - w->since_ms;
    cli_selfcheck_set(&progress->step[last], verdict, "%s", progress->opening.text);
    if (w->shown > last)
        /*
         * the stage had passed in an earlier attempt, so its step is printed again with the new
         * verdict
         */
        w->shown = last;
}

/* ---- on the terminal ---- */

static void print_step(const struct selfcheck_progress *progress, uint32_t i)
{
    static const char *const words[SELFCHECK_VERDICTS] = {
        [VERDICT_NOT_REACHED] = "not reached", [VERDICT_RUNNING] = "ENDED",   [VERDICT_OK] = "ok",
        [VERDICT_FAILED] = "FAILED",           [VERDICT_SKIPPED] = "skipped",
    };
    const struct selfcheck_result *step = &progress->step[i];
    enum selfcheck_verdict verdict = cli_selfcheck_verdict(step);

    if (verdict == VERDICT_NOT_REACHED)
        terminal_printf(stdout, "  %-10s %s\n", cli_selfcheck_names[i], words[verdict]);
    else
        terminal_printf(stdout, "  %-10s %-7s %s (%.0f ms)\n", cli_selfcheck_names[i],
                        words[verdict],
                        step->text[0] != '\0' ? step->text : cli_selfcheck_proofs[i], step->ms);
    fflush(stdout);
}

/* Prints the completed steps in order. */
static void print_ended(struct watch *w)
{
    while (w->shown < SELFCHECK_STEPS &&
           cli_selfcheck_verdict(&w->c->progress->step[w->shown]) >= VERDICT_OK)
        print_step(w->c->progress, w->shown++);
}

/*
 * Prints the remaining steps up to `last`, when no process runs; later steps are printed
 * separately.
 */
static void print_rest(struct watch *w, uint32_t last)
{
    while (w->shown < last)
        print_step(w->c->progress, w->shown++);
}

/* ---- processes ---- */

/* Sets level and folder of the vendor's logs, by environment variables. */
static void selfcheck_set_environment(const struct selfcheck *c, const char *log)
{
    char path[PATH_MAX];

    cli_selfcheck_path(c, log, path);
    (void)setenv("PTO_CANN_LOG", path, 1);
    (void)setenv("PTO_CANN_LOG_BEGINS", "1", 1);
    cli_selfcheck_path(c, "vendor", path);
    (void)setenv("ASCEND_PROCESS_LOG_PATH", path, 1);
    (void)setenv("ASCEND_GLOBAL_LOG_LEVEL", "1", 1); /* level INFO */
    (void)setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "0", 1);
    /* temporary files of a killed process are removed with the folder */
    (void)setenv("TMPDIR", c->work, 1);
    cli_selfcheck_path(c, "programs", path);
    if (access(path, F_OK) == 0) /* an earlier process of this check has built the programs */
        (void)setenv("PTO_CANN_PROGRAMS", path, 1);
}

/* Forks a process in its own group, so that a signal of the terminal reaches the command only. */
static pid_t selfcheck_start(struct selfcheck *c, const char *log, int rank)
{
    pid_t command = getpid(), child;

    fflush(stdout);
    child = fork();
    if (child != 0)
        return child;
    (void)setpgid(0, 0);
    /* kills the child if the command dies, so that the child does not keep the card */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != command)
        _exit(EXIT_FAILED);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGHUP, SIG_DFL);
    selfcheck_set_environment(c, log);
    exit(rank < 0 ? cli_selfcheck_try(c) : cli_selfcheck_try_rank(c, (uint32_t)rank));
}

static void stop(pid_t child)
{
    (void)kill(-child, SIGKILL);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

/* Returns the step that the process is executing; STEP_TWO_CARDS: none. */
static uint32_t step_inside(const struct selfcheck_progress *progress)
{
    uint32_t i = 0;

    while (i < STEP_TWO_CARDS && cli_selfcheck_verdict(&progress->step[i]) != VERDICT_RUNNING)
        i++;
    return i;
}

/*
 * Waits until the process has ended. Returns false if it was killed or ended inside a step, and
 * describes its end in `end`.
 */
static bool await_child(struct watch *w, pid_t child, uint32_t limit_s, char end[END_TEXT])
{
    double begin = cli_selfcheck_now_ms();
    int status = 0;
    pid_t got;

    while ((got = waitpid(child, &status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
        if (interrupted != 0 || cli_selfcheck_now_ms() - begin > limit_s * 1e3) {
            stop(child);
            if (interrupted != 0)
                snprintf(end, END_TEXT, "interrupted by the user");
            else
                snprintf(end, END_TEXT, "killed: it did not end within %u s", limit_s);
            return false;
        }
        follow_opening(w);
        print_ended(w);
        usleep(POLL_US);
    }
    follow_opening(w);
    print_ended(w);
    if (got == child && WIFEXITED(status)) {
        /* the process ended by exit(): a library may call that */
        if (step_inside(w->c->progress) != STEP_TWO_CARDS)
            snprintf(end, END_TEXT, "exit code %d", WEXITSTATUS(status));
        return end[0] == '\0';
    }
    snprintf(end, END_TEXT, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return false;
}

static bool has_failed(const struct selfcheck_progress *progress)
{
    for (uint32_t i = 0; i < SELFCHECK_STEPS; i++)
        if (cli_selfcheck_verdict(&progress->step[i]) == VERDICT_FAILED)
            return true;
    return false;
}

/*
 * Marks the step in which the process died as failed. If it died between two steps, marks the next
 * one; after the last step, the last one, because the libraries were being unloaded.
 */
static void blame_step(struct watch *w, const char *end)
{
    struct selfcheck_progress *progress = w->c->progress;
    uint32_t i = step_inside(progress);

    if (i == STEP_TWO_CARDS && (interrupted != 0 || has_failed(progress)))
        return;
    if (i == STEP_TWO_CARDS)
        for (i = 0; i < STEP_CLOSE && cli_selfcheck_verdict(&progress->step[i]) >= VERDICT_OK;)
            i++;
    cli_selfcheck_set(&progress->step[i], interrupted != 0 ? VERDICT_RUNNING : VERDICT_FAILED,
                      "the process was ended: %s", end);
    if (w->shown > i)
        /* the step was already printed, so it is printed again with its new verdict */
        w->shown = i;
}

static void try_card(struct selfcheck *c, struct watch *w, char end[END_TEXT])
{
    pid_t child = selfcheck_start(c, "calls", -1);

    selfcheck_begin_stage(w, cli_selfcheck_names[STEP_LIBRARIES]);
    if (child < 0) {
        snprintf(end, END_TEXT, "cannot start a process for the check: %s", strerror(errno));
        blame_step(w, end);
    } else if (!await_child(w, child, LIMIT_S, end)) {
        blame_step(w, end);
    }
    print_rest(w, STEP_TWO_CARDS);
}

/* Whether the test of two cards can run: opening one card passed, and it was closed cleanly. */
static bool can_pair(const struct selfcheck_progress *progress)
{
    return cli_selfcheck_verdict(&progress->step[STEP_CORES]) == VERDICT_OK &&
           cli_selfcheck_verdict(&progress->step[STEP_CLOSE]) == VERDICT_OK &&
           cli_selfcheck_verdict(&progress->step[STEP_TIME_OUT]) != VERDICT_FAILED &&
           cli_selfcheck_verdict(&progress->step[STEP_RECOVERY]) != VERDICT_FAILED;
}

static void selfcheck_judge_pair(struct selfcheck *c, const char *end)
{
    struct selfcheck_result *step = &c->progress->step[STEP_TWO_CARDS];
    const struct selfcheck_result *rank = c->progress->rank;

    for (uint32_t i = 0; i < SELFCHECK_RANKS; i++)
        if (cli_selfcheck_verdict(&rank[i]) == VERDICT_FAILED) {
            cli_selfcheck_set(step, VERDICT_FAILED, "%s", rank[i].text);
            return;
        }
    if (cli_selfcheck_verdict(&rank[1]) == VERDICT_SKIPPED)
        cli_selfcheck_set(step, VERDICT_SKIPPED, "card %u does not exist", c->card + 1);
    else if (end[0] != '\0')
        cli_selfcheck_set(step, interrupted != 0 ? VERDICT_RUNNING : VERDICT_FAILED,
                          "the process was ended: %s", end);
    else if (cli_selfcheck_verdict(&rank[0]) == VERDICT_OK &&
             cli_selfcheck_verdict(&rank[1]) == VERDICT_OK)
        cli_selfcheck_set(step, VERDICT_OK, "%s", rank[0].text);
    else
        cli_selfcheck_set(step, VERDICT_FAILED, "the two processes did not reach each other");
}

static void try_pair(struct selfcheck *c, struct watch *w, char end[END_TEXT])
{
    struct selfcheck_result *step = &c->progress->step[STEP_TWO_CARDS];
    double begin = cli_selfcheck_now_ms();
    pid_t child[SELFCHECK_RANKS];

    cli_selfcheck_set(step, VERDICT_RUNNING, "%s", "");
    child[0] = selfcheck_start(c, "calls-rank0", 0);
    child[1] = selfcheck_start(c, "calls-rank1", 1);
    for (uint32_t i = 0; i < SELFCHECK_RANKS; i++) {
        char how[END_TEXT] = "";

        if (child[i] < 0)
            snprintf(end, END_TEXT, "cannot start a process: %s", strerror(errno));
        else if (!await_child(w, child[i], PAIR_LIMIT_S, how))
            memcpy(end, how, END_TEXT);
    }
    step->ms = cli_selfcheck_now_ms() - begin;
    selfcheck_judge_pair(c, end);
    print_rest(w, SELFCHECK_STEPS);
}

/* ---- the command ---- */

static bool is_real(const char *name)
{
    const struct pto_platform *platform = pto_platform_find(name);

    return platform != NULL && !platform->is_simulated;
}

static bool selfcheck_set_up(struct selfcheck *c)
{
    snprintf(c->work, sizeof(c->work), "%.3000s/pto-selfcheck-XXXXXX", file_temporary_folder());
    c->progress =
        mmap(NULL, sizeof(*c->progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c->progress != MAP_FAILED && mkdtemp(c->work) != NULL)
        return true;
    terminal_printf(stderr, "pto selfcheck: %s: %s\n", c->work, strerror(errno));
    return false;
}

static int selfcheck_check_card(struct selfcheck *c)
{
    struct watch *w = calloc(1, sizeof(*w));
    struct sigaction catch = { .sa_handler = interrupt };
    char end[END_TEXT] = "";
    int code = EXIT_FAILED;

    if (w == NULL || !selfcheck_set_up(c)) {
        free(w);
        return EXIT_FAILED;
    }
    w->c = c;
    (void)sigaction(SIGINT, &catch, NULL);
    (void)sigaction(SIGTERM, &catch, NULL);
    (void)sigaction(SIGHUP, &catch, NULL);
    terminal_printf(stdout, "card %u\n", c->card);
    try_card(c, w, end);
    if (c->is_alone)
        cli_selfcheck_set(&c->progress->step[STEP_TWO_CARDS], VERDICT_SKIPPED, "--alone was given");
    else if (interrupted == 0 && can_pair(c->progress))
        try_pair(c, w, end);
    print_rest(w, SELFCHECK_STEPS);
    if (interrupted != 0)
        terminal_printf(stdout, "\ninterrupted\n");
    if (cli_selfcheck_pack(c, end) >= 0) {
        code = interrupted != 0          ? EXIT_INTERRUPTED
               : has_failed(c->progress) ? EXIT_FAILED
                                         : EXIT_OK;
        terminal_printf(stdout, "%s contains the evidence; `pto selfcheck --read` explains it\n",
                        c->output);
    }
    if (w->log != NULL)
        fclose(w->log);
    free(w);
    file_remove_tree(c->work);
    (void)munmap(c->progress, sizeof(*c->progress));
    return code;
}

static int do_selfcheck(void *context, int count, char **operands)
{
    struct selfcheck *c = context;

    (void)count;
    (void)operands;
    if (c->read != NULL)
        return cli_selfcheck_read(c->read, c->is_json);
    if (c->is_json) {
        terminal_printf(stderr, "pto selfcheck: --json needs --read\n");
        return EXIT_USAGE;
    }
    if (c->platform != NULL && !is_real(c->platform)) {
        terminal_printf(stderr, "pto selfcheck: '%s' is not a real chip; choose a2a3 or a5\n",
                        c->platform);
        return EXIT_USAGE;
    }
    return selfcheck_check_card(c);
}
