/* SPDX-License-Identifier: Apache-2.0 */
/* The main program of scenarios: runs a list of them, with the options that tools/weaken uses. */
#ifndef PTO_SCENARIO_LIST_H
#define PTO_SCENARIO_LIST_H

#include <stdio.h>
#include <string.h>

#include "explore.h"

/*
 * One scenario, with the memory-order labels that it checks; tools/weaken runs those with a given
 * label first.
 */
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
        limits.random_count /= 8;
    return explore_run(&s->explore, &limits) == 0;
}

/*
 * `--label L` runs scenarios that check L first, with `--only` no others; `--first` stops at the
 * first failure. `--random` skips the depth-first search, because random schedules find what is
 * broken much sooner. `--long` raises limits of searches that are too long to end.
 */
static inline int scenario_main(int argc, char **argv, const struct scenario *list, uint32_t count)
{
    const char *label = "";
    bool is_first = false, is_only = false;
    uint64_t walk = 1; /* factor for the limits of the scenario */
    uint32_t passed = 0, failed = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--first") == 0)
            is_first = true;
        else if (strcmp(argv[i], "--only") == 0)
            is_only = true;
        else if (strcmp(argv[i], "--random") == 0)
            walk = 0;
        else if (strcmp(argv[i], "--long") == 0)
            walk = 12;
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
