/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A drill provokes one fault through the public interface, checks the error and the report, and
 * then checks that the device works, or that it reports being lost and a new one works.
 *
 * A drill runs in a child process, in the environment that stage.h defines, so that it cannot harm
 * another process and can be killed if it hangs.
 */
#ifndef PTO_DRILL_H
#define PTO_DRILL_H

#include <stdbool.h>
#include <stdint.h>

#include "pto/pto.h"

enum { DRILL_REPORT_MAX = 8192, DRILL_WHY_MAX = 256 };

struct stage;

enum {
    DRILL_SITE = 1 << 0,   /* the error names the source line of the submit */
    DRILL_TASK = 1 << 1,   /* the error names the task */
    DRILL_LOST = 1 << 2,   /* the fault loses the device */
    DRILL_STREAM = 1 << 3, /* the drill needs PTO_MODE_STREAM: tasks run while the graph is built */
    DRILL_HOST = 1 << 4,   /* the drill needs PTO_MODE_HOST: the graph is built before tasks run */
    DRILL_SIGNALS = 1 << 5, /* the drill needs the crash handler */
    /* the drill depends on limits of the system, such as the address space */
    DRILL_LIMITS = 1 << 6,
    DRILL_GUARDS = 1 << 7 /* the run has guards around its allocations */
};

struct drill {
    int status;                   /* status that the faulty call or run has to return */
    const char *name;             /* unique name of the drill */
    const char *what;             /* description, as a phrase without a full stop */
    void (*play)(struct stage *); /* runs the drill; NULL: the drill runs its orchestration once */
    pto_orch_fn orchestration;
    const char *text;     /* text that the error has to contain */
    const char *reports;  /* text that the device's failure report has to contain */
    int32_t kernel;       /* kernel that the error names; 0: none */
    uint32_t argument;    /* argument that the error names, from 1; 0: none */
    uint32_t scope_depth; /* scope depth that the error names; 0: none */
    uint32_t flags;
    uint32_t workers;    /* worker threads of the device; 0: as the user chose */
    uint64_t memory_max; /* memory limit of the device in bytes; 0: the default */
    uint32_t timeout_ms; /* time limit of the run; 0: none */
    uint32_t stall_ms;   /* stall time-out of the run; 0: the default */
    uint32_t data_ms;    /* time-out of data accesses; 0: the default */
    enum pto_limits limits;
    struct pto_ring_limits rings;
};

/* Result of a drill; written by the child, read by the command. */
struct drill_result {
    bool is_over; /* the drill ended by itself, and did not crash or hang */
    int status;
    char why[DRILL_WHY_MAX];    /* why the drill failed; empty: it passed */
    char reason[DRILL_WHY_MAX]; /* why the drill is skipped; empty: it is not */
    char text[PTO_ERROR_TEXT_MAX];
    char report[DRILL_REPORT_MAX];
};

/* Platform and options of a drill. */
struct drill_setting {
    const char *platform;
    enum pto_mode mode;
    uint32_t workers; /* worker threads of the device; 0: one per CPU */
};

/* A status, or one cause of it, that no drill provokes, with the reason. */
struct drill_gap {
    int status;
    /* Name of a status that this build does not define; NULL: the name of `status`. */
    const char *name;
    const char *why;
};

/* Returns why the drill cannot run here, or NULL. */
const char *drill_obstacle(const struct drill *drill, const struct drill_setting *setting);
/* Runs a drill in a child process, which writes to `result` in shared memory. */
void drill_run_whole(const struct drill *drill, const struct drill_setting *setting,
                     struct drill_result *result);

/* Returns the address space that this process uses, in bytes. */
uint64_t drill_address_bytes(void);

/* All drills, an array per kind of fault; the last element of each array has no name. */
extern const struct drill drills_kernels[];   /* faults of kernels */
extern const struct drill drills_args[];      /* invalid calls of orchestrations */
extern const struct drill drills_views[];     /* invalid tensors and views */
extern const struct drill drills_rings[];     /* fixed-size limits of the reference system */
extern const struct drill drills_host[];      /* errors of the host side */
extern const struct drill drills_artefacts[]; /* invalid artefacts */
/* reasons why no drill provokes a status; the last element has status 0 */
extern const struct drill_gap drill_gaps[];

#endif
