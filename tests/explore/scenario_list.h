/* SPDX-License-Identifier: Apache-2.0 */
/* What a program of scenarios is: a list of them, and how tools/weaken runs it. */
#ifndef PTO_SCENARIO_LIST_H
#define PTO_SCENARIO_LIST_H

#include <stdio.h>
#include <string.h>

#include "explore.h"

/* One scenario: the labels that it shows come first when tools/weaken asks. */
struct scenario {
    struct explore_scenario explore;
    const char *labels;
    struct explore_limits limits;
};

static inline bool has_label(const char *labels, const char *label)
{
    size_t length = strlen(label);

    for (const char *at = labels; length != 0 && (at = strstr(at, label)) != NULL; at += length)
        if ((at == labels || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static inline bool run_scenario(const struct scenario *s, bool is_quiet, uint64_t walk)
{
    struct explore_limits limits = s->limits;

    limits.skips_notes = true;
    limits.is_quiet = is_quiet;
    limits.execution_max *= walk;
    if (walk == 1) /* the walk has been there as well */
        limits.random_count /= 2;
    return explore_run(&s->explore, &limits) == 0;
}

/*
 * `--label L` runs what shows L first, with `--only` nothing else; `--first`
 * stops at the first failure. `--random` leaves the walk through all schedules
 * out: what is broken shows up at random much sooner. `--long` goes further where
 * the walk is too long to end.
 */
static inline int scenario_main(int argc, char **argv, const struct scenario *list, uint32_t count)
{
    const char *label = "";
    bool is_first = false, is_only = false;
    uint64_t walk = 1; /* how far to go, in limits of the scenario */
    uint32_t passed = 0, failed = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--first") == 0)
            is_first = true;
        else if (strcmp(argv[i], "--only") == 0)
            is_only = true;
        else if (strcmp(argv[i], "--random") == 0)
            walk = 0;
        else if (strcmp(argv[i], "--long") == 0)
            walk = 4;
        else if (strcmp(argv[i], "--label") == 0 && i + 1 < argc)
            label = argv[++i];
    }
    for (uint32_t pass = 0; pass < (is_only ? 1 : 2); pass++)
        for (uint32_t i = 0; i < count && !(is_first && failed != 0); i++) {
            if (has_label(list[i].labels, label) != (pass == 0))
                continue;
            if (run_scenario(&list[i], is_first, walk)) {
                passed++;
                continue;
            }
            failed++;
            if (is_first)
                printf("%s: %s\n", list[i].explore.name, explore_last()->message);
        }
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}

#endif
