/* SPDX-License-Identifier: Apache-2.0 */
/* The child of a job: builds its scene, runs its cases one after the other, and tells its parent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os.h"
#include "tool/cli/commands.h"
#include "tool/cli/ranks.h"
#include "tool/cli/repeat.h"
#include "tool/cli/test_jobs.h"
#include "tool/scene/scene_config.h"

#define TICK_NS 100000000ull

struct child {
    struct test_item *items;
    const struct test_settings *settings;
    int pipe;
    uint32_t now;       /* the item that goes on, */
    uint64_t begin_ns;  /* since when, */
    uint64_t ticked_ns; /* and when the parent heard of it last */
    struct session session;
};

/* How an item, or a rank of it, went. */
struct verdict {
    int status;
    uint64_t run_ns;  /* the shortest */
    char text[16384]; /* what is wrong */
};

/* Dies with its parent. */
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
    fflush(stdout); /* what was printed belongs to what was before */
    fflush(stderr);
    send_bytes(c->pipe, &message, sizeof(message));
    send_bytes(c->pipe, text, message.bytes);
}

/* What is wrong, in lines. The caller frees; NULL: out of memory. */
static char *test_child_tell_failure(struct child *c, const struct test_item *item,
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
        scene_session_explain(&c->session, item->mode, to);
    else
        fprintf(to, "%s\n", error->text);
    if (is_order)
        cli_print_repeat(to, &c->session, item->path, item->mode, NULL);
    fclose(to);
    return text;
}

/* Before each run: the time of the item begins again. */
static void tick(void *context)
{
    struct child *c = context;

    if (c->session.rank != 0 || os_now_ns() - c->ticked_ns <= TICK_NS)
        return;
    c->ticked_ns = os_now_ns();
    test_child_send_message(c, TEST_TICK, c->now, TEST_WAITING, 0, "");
}

/* Makes the data, and runs the item as often as asked for. */
static void play(struct child *c, const struct test_item *item, struct verdict *verdict)
{
    struct session *s = &c->session;
    struct pto_error error = { .size = sizeof(error) };
    uint32_t round = 0;
    char *text = NULL;
    int status = PTO_OK;

    verdict->run_ns = UINT64_MAX;
    if (!s->has_data || s->data.test_case != item->test_case || !scene_session_is_open(s))
        status = scene_session_prepare(s, item->test_case, &error);
    if (status == PTO_OK && item->scene->is_config && !s->data.is_compared)
        status = error_tell(&error, PTO_EINVAL,
                            "nothing says what is expected: put .npy files by the names of the "
                            "outputs into data/out of %.900s",
                            item->scene->folder);
    while (status == PTO_OK && round < c->settings->rounds) {
        round++;
        tick(c);
        status = scene_session_run(s, item->mode, &error);
        verdict->run_ns = s->report.ns < verdict->run_ns ? s->report.ns : verdict->run_ns;
        if (status == PTO_OK)
            status = scene_session_run_orders(s, item->mode, tick, c, &error);
        if (status == PTO_OK && s->options->has_lines && item->mode == PTO_MODE_HOST)
            status = scene_session_check_lines(s, &error);
    }
    if (status < 0)
        text = test_child_tell_failure(c, item, &error, round);
    snprintf(verdict->text, sizeof(verdict->text), "%s",
             status == PTO_OK ? ""
             : text != NULL   ? text
                              : error.text);
    verdict->status = status;
    free(text);
}

/* ---- several ranks ---- */

struct ranks_work {
    struct child *child;
    const struct test_item *item;
    struct verdict *verdict; /* by rank, shared with them */
};

/* In the rank. */
static int play_rank(void *context, uint32_t rank)
{
    struct ranks_work *w = context;
    struct verdict *verdict = &w->verdict[rank];

    w->child->session.rank = rank;
    play(w->child, w->item, verdict);
    scene_session_close(&w->child->session);
    return verdict->status == PTO_OK      ? EXIT_OK
           : verdict->status == PTO_EPEER ? EXIT_PEER
                                          : EXIT_FAILED;
}

/* What ranks say that failed; those that noticed that another one was gone only if no other did. */
static void test_child_gather(const struct ranks_work *w, const struct ranks_result *result,
                              struct verdict *verdict)
{
    char ended[RANKS_TEXT_MAX];
    size_t used = 0;

    verdict->status = PTO_EPEER;
    if (result->end != RANKS_FAILED || w->verdict[result->rank].status == 0) /* it could not say */
        used = (size_t)snprintf(verdict->text, sizeof(verdict->text), "%s\n",
                                cli_ranks_tell(result, ended));
    for (int is_about_peers = 0; is_about_peers < 2 && used == 0; is_about_peers++)
        for (uint32_t i = 0; i < w->item->test_case->ranks && used < sizeof(verdict->text) / 2; i++)
            if (w->verdict[i].status < 0 &&
                (w->verdict[i].status == PTO_EPEER) == (is_about_peers != 0)) {
                verdict->status = w->verdict[i].status;
                used += (size_t)snprintf(verdict->text + used, sizeof(verdict->text) - used,
                                         "rank %u: %s", i, w->verdict[i].text);
            }
    if (used == 0)
        snprintf(verdict->text, sizeof(verdict->text), "%s\n", cli_ranks_tell(result, ended));
}

static void play_ranks(struct child *c, const struct test_item *item, struct verdict *verdict)
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
                                         .enter = play_rank,
                                         .context = &work };
    struct ranks_result result;

    if (work.verdict == MAP_FAILED) {
        *verdict = (struct verdict){ .status = PTO_ENOMEM, .text = "out of memory" };
        return;
    }
    scene_session_rest(&c->session);
    cli_ranks_run(&params, &result);
    if (c->session.options->place != NULL)
        c->session.options->place[0] = '\0'; /* what a rank was doing when it ended */
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
        play_ranks(c, item, &verdict);
    else
        play(c, item, &verdict);
    test_child_send_message(c, TEST_END, index,
                            verdict.status == PTO_OK ? TEST_PASSED : TEST_FAILED, verdict.run_ns,
                            verdict.text);
}

/* What cannot be built fails with all its cases. */
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

    if (items[first].scene->is_untyped) {
        fail_all(&child, first, last,
                 "nothing says what the arguments are: there is no " SCENE_META_FILE
                 " beside the " SCENE_CONFIG_FILE "; `pto run` takes them by number");
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
        _exit(EXIT_OK); /* threads may still run code that an orderly exit would unmap */
    exit(EXIT_OK);
}
