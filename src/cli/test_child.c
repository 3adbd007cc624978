/* SPDX-License-Identifier: Apache-2.0 */
/* The child of a job: builds its scene, runs its cases one after the other, and tells its parent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/repeat.h"
#include "cli/test_jobs.h"
#include "scene/now.h"
#include "scene/scene_config.h"

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

static void send_message(struct child *c, enum test_message_kind kind, uint32_t item,
                         enum test_outcome outcome, uint64_t run_ns, const char *text)
{
    const struct test_message message = { .kind = kind,
                                          .item = item,
                                          .outcome = (int32_t)outcome,
                                          .bytes = (uint32_t)strlen(text),
                                          .run_ns = run_ns,
                                          .all_ns = now_ns() - c->begin_ns };

    if (kind == TEST_BEGIN)
        c->begin_ns = now_ns();
    fflush(stdout); /* what was printed belongs to what was before */
    fflush(stderr);
    send_bytes(c->pipe, &message, sizeof(message));
    send_bytes(c->pipe, text, message.bytes);
}

/* What is wrong, in lines. The caller frees; NULL: out of memory. */
static char *tell_failure(struct child *c, const struct test_item *item, const struct fault *fault,
                          uint32_t round)
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
    fprintf(to, "%s (%d)\n", pto_strerror(fault->status), fault->status);
    if (fault->status == PTO_EMISMATCH)
        scene_session_explain(&c->session, item->mode, to);
    else
        fprintf(to, "%s\n", fault->text);
    if (is_order)
        cli_print_repeat(to, &c->session, item->path, item->mode, NULL);
    fclose(to);
    return text;
}

/* Before each run: the time of the item begins again. */
static void tick(void *context)
{
    struct child *c = context;

    if (now_ns() - c->ticked_ns <= TICK_NS)
        return;
    c->ticked_ns = now_ns();
    send_message(c, TEST_TICK, c->now, TEST_WAITING, 0, "");
}

static void run_item(struct child *c, uint32_t index)
{
    const struct test_item *item = &c->items[index];
    struct session *s = &c->session;
    struct fault fault = { .status = 0 };
    uint64_t best_ns = UINT64_MAX;
    uint32_t round = 0;
    char *text = NULL;
    int status = PTO_OK;

    c->now = index;
    c->ticked_ns = now_ns();
    if (!s->has_data || s->data.kase != item->kase || s->device == NULL)
        status = scene_session_prepare(s, item->kase, &fault);
    if (status == PTO_OK && item->scene->is_config && !s->data.is_compared)
        status = fault_tell(&fault, PTO_EINVAL,
                            "nothing says what is expected: put .npy files by the names of the "
                            "outputs into data/out of %.900s",
                            item->scene->folder);
    while (status == PTO_OK && round < c->settings->rounds) {
        round++;
        tick(c);
        status = scene_session_run(s, item->mode, &fault);
        best_ns = s->report.ns < best_ns ? s->report.ns : best_ns;
        if (status == PTO_OK)
            status = scene_session_run_orders(s, item->mode, tick, c, &fault);
    }
    if (status < 0)
        text = tell_failure(c, item, &fault, round);
    send_message(c, TEST_END, index, status == PTO_OK ? TEST_PASSED : TEST_FAILED, best_ns,
                 status == PTO_OK ? ""
                 : text != NULL   ? text
                                  : fault.text);
    free(text);
}

/* What cannot be built fails with all its cases. */
static void fail_all(struct child *c, uint32_t first, uint32_t last, const char *text)
{
    for (uint32_t i = first; i < last; i++) {
        send_message(c, TEST_BEGIN, i, TEST_WAITING, 0, "");
        send_message(c, TEST_END, i, TEST_FAILED, 0, text);
    }
}

_Noreturn void cli_test_child_run(struct test_item *items, uint32_t first, uint32_t last,
                                  const struct test_settings *settings, int pipe)
{
    struct child child = { .items = items, .settings = settings, .pipe = pipe };
    struct fault fault = { .status = 0 };

    if (items[first].scene->is_untyped) {
        fail_all(&child, first, last,
                 "nothing says what the arguments are: there is no " SCENE_META_FILE
                 " beside the " SCENE_CONFIG_FILE "; `pto run` takes them by number");
    } else if (scene_session_open(&child.session, items[first].scene, items[first].platform,
                                  &settings->session, &fault) < 0) {
        fail_all(&child, first, last, fault.text);
    } else {
        for (uint32_t i = first; i < last; i++) {
            send_message(&child, TEST_BEGIN, i, TEST_WAITING, 0, "");
            run_item(&child, i);
        }
        scene_session_close(&child.session);
    }
    close(pipe);
    if (pto_stuck_threads() != 0)
        _exit(EXIT_OK); /* threads may still run code that an orderly exit would unmap */
    exit(EXIT_OK);
}
