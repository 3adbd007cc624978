/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child process of a job: builds its scene, runs its cases one after the other, and reports to
 * its parent.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os.h"
#include "tool/cli/commands.h"
#include "tool/cli/races_print.h"
#include "tool/cli/ranks.h"
#include "tool/cli/repeat.h"
#include "tool/cli/run_request.h"
#include "tool/cli/test_jobs.h"
#include "tool/cli/test_python.h"
#include "tool/scene/scene_config.h"

#define TICK_NS 100000000ull

struct child {
    struct test_item *items;
    const struct test_settings *settings;
    int pipe;
    uint32_t now;       /* index of the case that the child is running, among all cases */
    uint64_t begin_ns;  /* time at which the case that the child is running began */
    uint64_t ticked_ns; /* time at which the child last wrote to the parent */
    struct session session;
};

/* Outcome of one case (an item), or of one rank of a case. */
struct verdict {
    int status;
    uint64_t run_ns;  /* duration of the shortest run */
    char text[16384]; /* why it failed */
};

/* Writes to the parent; exits if the parent has ended. */
static void send_bytes(int pipe, const void *bytes, size_t size)
{
    while (size > 0) {
        ssize_t put = write(pipe, bytes, size);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            _exit(EXIT_FAILED);
        bytes = (const char *)bytes + put;
        size -= (size_t)put;
    }
}

static void test_child_send_message(struct child *c, enum test_message_kind kind, uint32_t item,
                                    enum test_outcome outcome, uint64_t run_ns, const char *text)
{
    const struct test_message message = { .kind = kind,
                                          .item = item,
                                          .outcome = (int32_t)outcome,
                                          .bytes = (uint32_t)strlen(text),
                                          .run_ns = run_ns,
                                          .all_ns = os_now_ns() - c->begin_ns };

    if (kind == TEST_BEGIN)
        c->begin_ns = os_now_ns();
    /* the output so far belongs to the previous case, so it is written before the message */
    fflush(stdout);
    fflush(stderr);
    send_bytes(c->pipe, &message, sizeof(message));
    send_bytes(c->pipe, text, message.bytes);
}

/* Called before each run of a case: restarts the time limit of the case. */
static void tick(void *context)
{
    struct child *c = context;

    if (c->session.rank != 0 || os_now_ns() - c->ticked_ns <= TICK_NS)
        return;
    c->ticked_ns = os_now_ns();
    test_child_send_message(c, TEST_TICK, c->now, TEST_WAITING, 0, "");
}

/* Describes, in lines, why a case failed. The caller frees the text; NULL: out of memory. */
static char *test_child_describe_failure(struct child *c, const struct test_item *item,
                                         const struct pto_error *error, uint32_t round)
{
    bool is_order = c->settings->session.orders != 0 && c->session.order_seed != 0;
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    if (to == NULL)
        return NULL;
    if (c->settings->rounds > 1)
        fprintf(to, "in round %u of %u: ", round, c->settings->rounds);
    if (is_order)
        fprintf(to, "with order seed %u: ", c->session.order_seed);
    fprintf(to, "%s (%d)\n", pto_strerror(error->status), error->status);
    if (error->status == PTO_EMISMATCH)
        scene_session_explain(&c->session, item->mode, tick, c, to);
    else
        fprintf(to, "%s\n", error->text);
    if (is_order)
        cli_print_repeat(to, &c->session, item->path, item->mode, NULL);
    fclose(to);
    return text;
}

/* Searches the last run for races. Returns them as text, which the caller frees; NULL: none. */
static char *test_child_find_races(const struct session *s)
{
    struct pto_error error = { .size = sizeof(error) };
    struct cli_races races;
    int status = cli_races_find_in_session(s, &races, &error);
    char *text = NULL;
    size_t size;
    FILE *to =
        status == PTO_OK && races.verdict == CLI_RACES_NONE ? NULL : open_memstream(&text, &size);

    if (to != NULL) {
        fprintf(to, "races: ");
        if (status < 0)
            fprintf(to, "%s\n", error.text);
        else
            cli_races_print(&races, to);
        fclose(to);
    }
    cli_races_free(&races);
    return text;
}

/* Returns the notes of --accesses on the last run, which the caller frees; NULL: out of memory. */
static char *test_child_list_notes(struct session *s, enum pto_mode mode)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    if (to != NULL) {
        cli_print_notes(s, mode, to, "note: ");
        fclose(to);
    }
    return text;
}

/* Prepares the data of a case and runs it as often as requested. */
static void run_rounds(struct child *c, const struct test_item *item, struct verdict *verdict)
{
    struct session *s = &c->session;
    struct pto_error error = { .size = sizeof(error) };
    uint32_t round = 0;
    char *text = NULL, *races = NULL;
    int status = PTO_OK;

    verdict->run_ns = UINT64_MAX;
    if (!s->has_data || s->data.test_case != item->test_case || !scene_session_is_open(s))
        status = scene_session_prepare(s, item->test_case, &error);
    if (status == PTO_OK && item->scene->is_config && !s->data.is_compared)
        status = error_setf(&error, PTO_EINVAL,
                            "the case has no expected results; put .npy files with the names of "
                            "the outputs into data/out of %.900s",
                            item->scene->folder);
    while (status == PTO_OK && round < c->settings->rounds) {
        round++;
        tick(c);
        status = scene_session_run(s, item->mode, &error);
        if ((status == PTO_OK || status == PTO_EMISMATCH) && s->options->has_races)
            races = test_child_find_races(s);
        if (status == PTO_OK && races != NULL)
            status = PTO_EINVAL;
        verdict->run_ns = s->report.ns < verdict->run_ns ? s->report.ns : verdict->run_ns;
        if (status == PTO_OK)
            status = scene_session_run_orders(s, item->mode, tick, c, &error);
        if (status == PTO_OK && s->options->has_lines && item->mode == PTO_MODE_HOST)
            status = scene_session_check_lines(s, &error);
    }
    if (status == PTO_EMISMATCH || (status < 0 && races == NULL))
        text = test_child_describe_failure(c, item, &error, round);
    else if (status == PTO_OK)
        text = test_child_list_notes(s, item->mode);
    snprintf(verdict->text, sizeof(verdict->text), "%s%s", races != NULL ? races : "",
             text != NULL                        ? text
             : status == PTO_OK || races != NULL ? ""
                                                 : error.text);
    verdict->status = status;
    free(races);
    free(text);
}

/* ---- several ranks ---- */

struct ranks_work {
    struct child *child;
    const struct test_item *item;
    struct verdict *verdict; /* outcome of each rank, in shared memory */
};

/* Runs a case in a rank's process. */
static int run_item_rank(void *context, uint32_t rank)
{
    struct ranks_work *w = context;
    struct verdict *verdict = &w->verdict[rank];

    w->child->session.rank = rank;
    run_rounds(w->child, w->item, verdict);
    scene_session_close(&w->child->session);
    return verdict->status == PTO_OK      ? EXIT_OK
           : verdict->status == PTO_EPEER ? EXIT_PEER
                                          : EXIT_FAILED;
}

/*
 * Collects the errors of failed ranks. Ranks that only lost a peer count if no other rank failed.
 */
static void test_child_gather(const struct ranks_work *w, const struct ranks_result *result,
                              struct verdict *verdict)
{
    char ended[RANKS_TEXT_MAX];
    size_t used = 0;

    verdict->status = PTO_EPEER;
    /* this rank has stored no error text */
    if (result->end != RANKS_FAILED || w->verdict[result->rank].status == 0)
        used = (size_t)snprintf(verdict->text, sizeof(verdict->text), "%s\n",
                                cli_ranks_describe(result, ended));
    for (int is_about_peers = 0; is_about_peers < 2 && used == 0; is_about_peers++)
        for (uint32_t i = 0; i < w->item->test_case->ranks && used < sizeof(verdict->text) / 2; i++)
            if (w->verdict[i].status < 0 &&
                (w->verdict[i].status == PTO_EPEER) == (is_about_peers != 0)) {
                verdict->status = w->verdict[i].status;
                used += (size_t)snprintf(verdict->text + used, sizeof(verdict->text) - used,
                                         "rank %u: %s", i, w->verdict[i].text);
            }
    if (used == 0)
        snprintf(verdict->text, sizeof(verdict->text), "%s\n", cli_ranks_describe(result, ended));
}

static void run_item_ranks(struct child *c, const struct test_item *item, struct verdict *verdict)
{
    size_t bytes = item->test_case->ranks * sizeof(*verdict);
    struct ranks_work work = {
        c, item, mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
    };
    const struct ranks_params params = { .count = item->test_case->ranks,
                                         .binding = RANKS_ANY,
                                         .has_prefix = true,
                                         .grace = 0.1,
                                         .peer_code = EXIT_PEER,
                                         .enter = run_item_rank,
                                         .context = &work };
    struct ranks_result result;

    if (work.verdict == MAP_FAILED) {
        *verdict = (struct verdict){ .status = PTO_ENOMEM, .text = "out of memory" };
        return;
    }
    scene_session_rest(&c->session);
    cli_ranks_run(&params, &result);
    if (c->session.options->place != NULL)
        /* clears the name of the step in which the last rank ended */
        c->session.options->place[0] = '\0';
    *verdict = work.verdict[0];
    if (result.end != RANKS_DONE)
        test_child_gather(&work, &result, verdict);
    munmap(work.verdict, bytes);
}

static void run_item(struct child *c, uint32_t index)
{
    const struct test_item *item = &c->items[index];
    static struct verdict verdict;

    c->now = index;
    c->ticked_ns = os_now_ns();
    if (scene_session_forks(item->platform, item->test_case))
        run_item_ranks(c, item, &verdict);
    else
        run_rounds(c, item, &verdict);
    test_child_send_message(c, TEST_END, index,
                            verdict.status == PTO_OK ? TEST_PASSED : TEST_FAILED, verdict.run_ns,
                            verdict.text);
}

/* Fails all cases of a scene that cannot be built. */
static void fail_all(struct child *c, uint32_t first, uint32_t last, const char *text)
{
    for (uint32_t i = first; i < last; i++) {
        test_child_send_message(c, TEST_BEGIN, i, TEST_WAITING, 0, "");
        test_child_send_message(c, TEST_END, i, TEST_FAILED, 0, text);
    }
}

_Noreturn void cli_test_child_run(struct test_item *items, uint32_t first, uint32_t last,
                                  const struct test_settings *settings, int pipe)
{
    struct child child = { .items = items, .settings = settings, .pipe = pipe };
    struct pto_error error = { .size = sizeof(error) };

    if (items[first].scene->is_python) {
        cli_python_exec(items, first, last, settings, pipe);
        fail_all(&child, first, last,
                 "the interpreter cannot be started; set PTO_PYTHON to one that has pto-runtime");
    } else if (items[first].scene->is_untyped) {
        fail_all(&child, first, last,
                 "the arguments are unknown: there is no " SCENE_META_FILE
                 " in the folder of " SCENE_CONFIG_FILE "; `pto run` takes them by number");
    } else if (scene_session_open(&child.session, items[first].scene, items[first].platform,
                                  &settings->session, &error) < 0) {
        fail_all(&child, first, last, error.text);
    } else {
        for (uint32_t i = first; i < last; i++) {
            test_child_send_message(&child, TEST_BEGIN, i, TEST_WAITING, 0, "");
            run_item(&child, i);
        }
        scene_session_close(&child.session);
    }
    close(pipe);
    if (pto_stuck_threads() != 0)
        /* skips the handlers of exit(): threads may still run code that exit() would unmap */
        _exit(EXIT_OK);
    exit(EXIT_OK);
}
