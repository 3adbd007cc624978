/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drills: each provokes one fault through the public interface, looks at what
 * is said about it, and sees that the device works afterwards, or that it says
 * it is lost and a new one works.
 *
 * A drill takes place in a child process, on the stage that it is given: what
 * it does to that process harms nobody, and a drill that never ends is ended.
 */
#ifndef PTO_DRILL_H
#define PTO_DRILL_H

#include <stdbool.h>
#include <stdint.h>

#include "pto/pto.h"

enum { DRILL_STORY_MAX = 8192, DRILL_WHY_MAX = 256 };

struct stage;

enum {
    DRILL_SITE = 1 << 0,    /* the error names the line that submitted the task */
    DRILL_TASK = 1 << 1,    /* and the task */
    DRILL_LOST = 1 << 2,    /* the device is lost by it */
    DRILL_STREAM = 1 << 3,  /* only while tasks run during the building of the graph */
    DRILL_HOST = 1 << 4,    /* only when the graph is built before anything runs */
    DRILL_SIGNALS = 1 << 5, /* needs the handler of crashes */
    DRILL_LIMITS = 1 << 6,  /* depends on limits of the system, of address space for instance */
    DRILL_GUARDS = 1 << 7   /* the run has guards */
};

struct drill {
    int status;                   /* to be provoked */
    const char *name;             /* unique */
    const char *what;             /* is done, as a sentence without its end */
    void (*play)(struct stage *); /* NULL: the orchestration is run */
    pto_orch_fn orchestration;
    const char *says;     /* in the text of the error */
    const char *tells;    /* in the device's story */
    int32_t kernel;       /* that the error names; 0: none */
    uint32_t argument;    /* the same, counted from 1 */
    uint32_t scope_depth; /* the same */
    uint32_t flags;
    uint32_t workers;    /* 0: as many as the user wants */
    uint64_t memory_max; /* 0: the default */
    uint32_t timeout_ms; /* of the run; 0: none */
    uint32_t stall_ms;   /* 0: the default */
    uint32_t data_ms;    /* 0: the default */
    enum pto_limits limits;
    struct pto_ring_limits rings;
};

/* What a drill found; written by the child, read by the command. */
struct drill_result {
    bool is_over; /* the child got to its end */
    int status;
    char why[DRILL_WHY_MAX];    /* it failed; empty: it went well */
    char reason[DRILL_WHY_MAX]; /* it could not take place here; empty: it did */
    char text[PTO_ERROR_TEXT_MAX];
    char story[DRILL_STORY_MAX];
};

/* Where and how. */
struct drill_setting {
    const char *platform;
    enum pto_mode mode;
    uint32_t workers; /* 0: one per CPU */
};

/* A status, or a part of one, that no drill provokes. */
struct drill_gap {
    int status;
    const char *name; /* of a code that this build does not have; NULL: the usual one */
    const char *why;
};

/* Why the drill cannot take place here, or NULL. */
const char *drill_obstacle(const struct drill *drill, const struct drill_setting *setting);
/* In a child process, for `result` in memory that both share. */
void drill_play(const struct drill *drill, const struct drill_setting *setting,
                struct drill_result *result);

/* Of this process, in bytes of address space. */
uint64_t drill_address_bytes(void);

/* The drills by status, from several files; the last one has no name. */
extern const struct drill drills_kernels[];   /* what kernels do */
extern const struct drill drills_args[];      /* what an orchestration may not say */
extern const struct drill drills_views[];     /* the same about tensors and views */
extern const struct drill drills_rings[];     /* what the reference has no room for */
extern const struct drill drills_host[];      /* what the host's side refuses */
extern const struct drill drills_artefacts[]; /* what is no artefact, or not the right one */
extern const struct drill_gap drill_gaps[];   /* the last one has status 0 */

#endif
