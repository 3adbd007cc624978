/* SPDX-License-Identifier: Apache-2.0 */
/* The races of a recorded run: the search of all its chips, and its result for people and programs. */
#ifndef PTO_RACES_PRINT_H
#define PTO_RACES_PRINT_H

#include <stdio.h>

#include "tool/scene/scene_session.h"
#include "tool/see/races.h"

enum cli_races_verdict {
    CLI_RACES_NONE,    /* no race between uses that the tasks declare */
    CLI_RACES_FOUND,   /* some race */
    CLI_RACES_UNKNOWN, /* none was found, but the recording or the search is not complete */
};

struct cli_races {
    const struct see_recording *r;
    /* recording that is freed with the result; NULL: the caller owns `r` */
    struct see_recording *own;
    struct see_races *of; /* races of each group of the recording */
    uint32_t count;
    enum cli_races_verdict verdict;
    uint64_t pairs; /* number of racing pairs of uses that the tasks declare */
    /* why the search is not complete, as a sentence; NULL: the search is complete */
    const char *gap;
};

/* Searches all groups. Returns PTO_OK or PTO_ENOMEM; cli_races_free must follow in both cases. */
int cli_races_find(const struct see_recording *r, struct cli_races *out);
/*
 * Reads the recording of the last run of a session. The caller frees it with see_recording_free.
 */
int cli_session_recording(const struct session *s, struct see_recording **out,
                          struct pto_error *error);
/*
 * Searches the last run of a session, which was recorded with its arguments. Otherwise as
 * cli_races_find.
 */
int cli_races_find_in_session(const struct session *s, struct cli_races *out,
                              struct pto_error *error);
void cli_races_free(struct cli_races *races);

/*
 * Prints the verdict, which continues the line that the caller has begun, then the races and what
 * was not checked.
 */
void cli_races_print(const struct cli_races *races, FILE *to);
void cli_races_print_json(const struct cli_races *races);

#endif
