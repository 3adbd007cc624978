/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scene on one platform: built, with a device and the data of a case, ready to
 * run. One thread. What goes wrong is told in a error, results in a text.
 */
#ifndef PTO_SCENE_SESSION_H
#define PTO_SCENE_SESSION_H

#include "tool/scene/compare.h"
#include "tool/scene/scene_build.h"
#include "tool/scene/scene_data.h"
#include "tool/scene/scene_level.h"
#include "tool/scene/scene_ranks.h"

enum { SESSION_PLACE_BYTES = 128 };

/* Which cards are used, the first one by rank 0 or chip 0; none: 0, 1 and so on. */
struct session_cards {
    uint32_t count;
    uint32_t number[SCENE_RANKS_MAX];
};

struct session_options {
    struct scene_build_options build;
    uint32_t workers;      /* 0: the default */
    uint32_t clusters;     /* 0: the case's */
    double timeout;        /* seconds; 0: the case's */
    double grace;          /* the same */
    double launch_timeout; /* seconds from the launch; 0: none */
    bool keeps_thread;     /* or the scene's orchestration does */
    bool is_isolated;      /* the device is in a process of its own */
    struct session_cards cards;
    uint32_t
        order_seed;    /* of the order to run in, or of the first of `orders`; 0: the usual, or 1 */
    uint32_t orders;   /* how many are tried after a run in the usual one */
    bool is_debugged;  /* nothing is ended for taking too long */
    bool has_blanks;   /* inputs that nothing fills are no failure, and nothing is compared */
    bool is_unguarded; /* nobody looks after intermediate tensors */
    bool has_lines;    /* those that tasks share are looked for: scene_session_check_lines */
    enum pto_trace trace;
    uint32_t trace_records;             /* at least so many; 0: the default */
    const char *diagnostics_name;       /* how their folders are called: scene_session_name */
    struct pto_diagnostics diagnostics; /* without a folder */
    const struct scene_given *given;    /* as many as the scene has arguments; may be NULL */
    char *
        place; /* what goes on, for whoever finds the process dead: " in the golden"; may be NULL */
};

/*
 * Whether the ranks of a case are processes: this one must not use a card itself if others are
 * forked from it later.
 */
bool scene_session_forks(const char *platform, const struct scene_case *test_case);
/* What is wrong with the cards that were named, for this case; false: nothing. */
bool scene_session_lacks_cards(const struct session_cards *cards, const char *platform,
                               const struct scene *scene, const struct scene_case *test_case,
                               struct pto_error *error);

static inline uint32_t session_card(const struct session_options *options, uint32_t index)
{
    return options->cards.count != 0 ? options->cards.number[index] : index;
}

/* Seconds that kernels have to come back when the time of a run is over. */
static inline double session_grace(const struct session_options *options,
                                   const struct scene_case *test_case)
{
    double grace = options->grace != 0 ? options->grace : test_case->grace;

    return grace != 0 ? grace : PTO_GRACE_DEFAULT_NS / 1e9;
}

/* The seed of a run that is none of `orders`. */
static inline uint32_t session_usual_order(const struct session_options *options)
{
    return options->orders == 0 ? options->order_seed : 0;
}

struct session {
    const struct scene *scene;
    const char *platform;
    const struct session_options *options;
    struct pto_callable *callable[PTO_MODE_COUNT]; /* the first is for all modes, or for its own */
    struct scene_code *golden;
    struct pto_device *device;
    uint32_t clusters; /* of the device that is open */
    uint32_t workers;  /* the same, as it was asked for */
    uint32_t rank;     /* which one this process is; 0 where there are no others */
    struct scene_ranks ranks;
    struct scene_level level; /* of a scene of level 3, instead of a device */
    uint32_t order_seed;      /* of the last run; 0: the usual order */
    const char *trace_path;   /* of runs that end the process; NULL: none */
    struct scene_data data;
    bool has_data;
    struct pto_run_report report;  /* of the last run */
    struct comparison *comparison; /* of the last run, by argument */
};

/* Builds. On failure nothing is left to be closed. */
int scene_session_open(struct session *s, const struct scene *scene, const char *platform,
                       const struct session_options *options, struct pto_error *error);
/* For an existing callable, with arguments that `scene` describes; the session owns it. */
int scene_session_adopt(struct session *s, const struct scene *scene, struct pto_callable *callable,
                        const char *platform, const struct session_options *options,
                        struct pto_error *error);
void scene_session_close(struct session *s);
/* Closes the device, so that no thread is left: before a fork. It is opened again when needed. */
void scene_session_rest(struct session *s);

/* Whether there is something to run on. */
static inline bool scene_session_is_open(const struct session *s)
{
    return s->device != NULL || s->level.worker != NULL;
}

/* Makes the data of a case and opens a device for it, or reuses the last one if it fits. */
int scene_session_prepare(struct session *s, const struct scene_case *test_case,
                          struct pto_error *error);
/* Runs the case once and compares. PTO_EMISMATCH: scene_session_explain knows more. */
int scene_session_run(struct session *s, enum pto_mode mode, struct pto_error *error);

/*
 * After a run that was right: runs the case in each of the orders that were asked
 * for, until one is wrong, and calls `next` before each. With one thread, unless
 * the options say how many. Where nothing says what is expected, all orders have
 * to give what the run before gave.
 */
int scene_session_run_orders(struct session *s, enum pto_mode mode, void (*next)(void *context),
                             void *context, struct pto_error *error);
/*
 * After a run that was right: runs the case once more, with the whole graph before anything runs, and
 * looks for cache lines that are written by tasks that may run at the same time (scene_lines.h).
 * PTO_EMEMORY with a sentence: two of them.
 */
int scene_session_check_lines(struct session *s, struct pto_error *error);
/*
 * What a file about a run is called: NAME-PLATFORM-MODE, with the case before the platform if the
 * scene has several, the order behind the mode if it is not the usual one, and the rank if there
 * are several.
 */
void scene_session_name(const struct session *s, const char *name, enum pto_mode mode, char *out,
                        size_t bytes);
/* What the last run gave, tensor by tensor, on one line: `f exact (16384 float32)`. */
void scene_session_summarize(const struct session *s, FILE *to);
/*
 * After PTO_EMISMATCH: which elements differ, how far, and who wrote them. Runs
 * the case again, with somebody who watches.
 */
void scene_session_explain(struct session *s, enum pto_mode mode, FILE *to);

#endif
