/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session is a scene on one platform, built, with a device and the data of a case, ready to run.
 * One thread. Failures go to a struct pto_error, results to a text.
 */
#ifndef PTO_SCENE_SESSION_H
#define PTO_SCENE_SESSION_H

#include "tool/scene/compare.h"
#include "tool/scene/scene_build.h"
#include "tool/scene/scene_costs.h"
#include "tool/scene/scene_data.h"
#include "tool/scene/scene_level.h"
#include "tool/scene/scene_ranks.h"

enum { SESSION_PLACE_BYTES = 128 };

/* Numbers of the real cards to use, in the order of ranks or chips; empty: 0, 1 and so on. */
struct session_cards {
    uint32_t count;
    uint32_t number[SCENE_RANKS_MAX];
};

struct session_options {
    struct scene_build_options build;
    uint32_t workers;  /* worker threads of the device; 0: the default */
    uint32_t clusters; /* clusters of the device; 0: as the case says */
    double timeout;    /* time limit of a run in seconds; 0: as the case says */
    /* seconds that kernels have to return after the time limit; 0: as the case says */
    double grace;
    double launch_timeout; /* time limit in seconds from the launch; 0: none */
    /* do not migrate the orchestration to another thread; also true if the scene sets it */
    bool keeps_thread;
    bool is_isolated;         /* the device runs in a separate process */
    struct scene_costs costs; /* durations for runs in virtual time */
    struct session_cards cards;
    /* seed of the task order, or of the first one of `orders`; 0: the usual order, or seed 1 */
    uint32_t order_seed;
    uint32_t orders;    /* number of task orders to try after the usual run */
    bool is_debugged;   /* runs have no time limits */
    bool has_blanks;    /* inputs without data are allowed, and results are not compared */
    bool is_unguarded;  /* intermediate tensors have no guards */
    bool has_nan_check; /* fail at the first task that computes NaN or Inf */
    /* look for cache lines that concurrent tasks write: scene_session_check_lines */
    bool has_lines;
    bool has_races; /* the caller searches for races: runs are recorded with their arguments */
    enum pto_trace trace;
    uint32_t trace_records; /* minimum number of records per thread; 0: the default */
    /* Base name of the folders of diagnostics, for scene_session_name. */
    const char *diagnostics_name;
    struct pto_diagnostics diagnostics; /* which diagnostics to write; `folder` in it is not used */
    const struct scene_given *given;    /* files for each argument of the scene; may be NULL */
    /*
     * text in shared memory that says where the process is, such as " in the golden", to explain a
     * crash; may be NULL
     */
    char *place;
};

/*
 * Whether the ranks of a case are forked processes. The calling process must then not use a card
 * before it forks.
 */
bool scene_session_forks(const char *platform, const struct scene_case *test_case);
/* Whether the given cards do not fit the case; if so, sets `error` to the reason. */
bool scene_session_lacks_cards(const struct session_cards *cards, const char *platform,
                               const struct scene *scene, const struct scene_case *test_case,
                               struct pto_error *error);

static inline uint32_t session_card(const struct session_options *options, uint32_t index)
{
    return options->cards.count != 0 ? options->cards.number[index] : index;
}

/* Returns how many seconds kernels have to return after the time limit of a run. */
static inline double session_grace(const struct session_options *options,
                                   const struct scene_case *test_case)
{
    double grace = options->grace != 0 ? options->grace : test_case->grace;

    return grace != 0 ? grace : PTO_GRACE_DEFAULT_NS / 1e9;
}

/* Returns the seed of the order for a run that does not try one of `orders`. */
static inline uint32_t session_usual_order(const struct session_options *options)
{
    return options->orders == 0 ? options->order_seed : 0;
}

struct session {
    const struct scene *scene;
    const char *platform;
    const struct session_options *options;
    /* Callables by mode; if one callable serves all modes, it is the first element. */
    struct pto_callable *callable[PTO_MODE_COUNT];
    struct scene_code *golden;
    struct scene_isa *isa; /* kernels in the cost model of the tile library; NULL: not used */
    struct pto_device *device;
    uint32_t clusters; /* clusters of the open device */
    uint32_t workers;  /* requested worker threads of the open device */
    uint32_t rank;     /* rank of this process; 0 without ranks */
    struct scene_ranks ranks;
    struct scene_level level; /* used instead of a device at level 3 */
    uint32_t order_seed;      /* seed of the last run; 0: the usual order */
    /* File to which a run that ends the process writes its timeline; NULL: none. */
    const char *trace_path;
    const char *trace_title; /* title of the recordings of runs; NULL: none */
    struct scene_data data;
    bool has_data;
    struct pto_run_report report;  /* report of the last run */
    struct comparison *comparison; /* results of the last run, by argument */
};

/* Opens a session and builds the scene. On failure there is nothing to close. */
int scene_session_open(struct session *s, const struct scene *scene, const char *platform,
                       const struct session_options *options, struct pto_error *error);
/*
 * Opens a session for an existing callable, which it owns, with arguments that `scene` describes.
 */
int scene_session_adopt(struct session *s, const struct scene *scene, struct pto_callable *callable,
                        const char *platform, const struct session_options *options,
                        struct pto_error *error);
void scene_session_close(struct session *s);
/*
 * Closes the device, so that no other thread exists during a fork. The next call of
 * scene_session_prepare or scene_session_run opens it again.
 */
void scene_session_rest(struct session *s);

/* Whether a device or a worker is open. */
static inline bool scene_session_is_open(const struct session *s)
{
    return s->device != NULL || s->level.worker != NULL;
}

/* Makes the data of a case and opens a device for it, or reuses the last one if it fits. */
int scene_session_prepare(struct session *s, const struct scene_case *test_case,
                          struct pto_error *error);
/* Runs the case once and compares. After PTO_EMISMATCH, scene_session_explain has the details. */
int scene_session_run(struct session *s, enum pto_mode mode, struct pto_error *error);

/*
 * Runs the case in each requested order, after a successful run, until a result is wrong; calls
 * `next` before each. Uses one thread unless the options set a number. Without expected results,
 * all orders have to repeat the result of the first run.
 */
int scene_session_run_orders(struct session *s, enum pto_mode mode, void (*next)(void *context),
                             void *context, struct pto_error *error);
/*
 * Runs the case once more after a successful run, with the whole graph built first, and searches
 * for cache lines that concurrent tasks write (scene_lines.h). Returns PTO_EMEMORY, with two such
 * tasks in `error`, if there is one.
 */
int scene_session_check_lines(struct session *s, struct pto_error *error);
/*
 * Makes the name of a file about a run: NAME-PLATFORM-MODE, with the case before the platform if
 * the scene has several, the order after the mode if it is not the usual one, and the rank if there
 * are several.
 */
void scene_session_name(const struct session *s, const char *name, enum pto_mode mode, char *out,
                        size_t bytes);
/* Prints the results of the last run on one line: `f exact (16384 float32)`. */
void scene_session_summarize(const struct session *s, FILE *to);
/*
 * Upper bound of the time that scene_session_explain takes: the time of this many runs, plus this
 * many seconds.
 */
enum { SESSION_EXPLAIN_RUNS = 4, SESSION_EXPLAIN_SECONDS = 5 };
/*
 * Explains PTO_EMISMATCH: prints which elements differ, by how much, and which task wrote them, and
 * whether a dependency is missing. Runs the case again several times; calls `next` before each run.
 */
void scene_session_explain(struct session *s, enum pto_mode mode, void (*next)(void *context),
                           void *context, FILE *to);

#endif
