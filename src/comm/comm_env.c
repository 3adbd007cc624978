/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers leave in the environment: which rank this process is, of how many. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "comm/comm.h"

/* A launcher: variables for rank and number of ranks, and one that tells jobs apart. */
struct launcher {
    const char *rank;
    const char *rank_count;
    const char *job;  /* NULL: the path is given below */
    const char *step; /* of a job; NULL: none */
};

/* In this order: a program that pto launch starts below mpirun is pto launch's. */
static const struct launcher launchers[] = {
    { "PTO_RANK", "PTO_RANKS", NULL, NULL },
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", NULL },
    { "PMI_RANK", "PMI_SIZE", "PMI_JOBID", NULL },
    { "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID" },
};

/* A whole number of at most nine digits; -1: none. */
static int32_t env_read_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    long value;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return -1;
    value = strtol(text, &end, 10);
    return *end == '\0' && end - text <= 9 ? (int32_t)value : -1;
}

static const char *text_of(const char *name)
{
    const char *text = name != NULL ? getenv(name) : NULL;

    return text != NULL ? text : "";
}

/* Where ranks of such a job meet: a name that they, and no others, have. */
static void env_make_path(const struct launcher *l, struct comm_place *place)
{
    const char *folder = file_temporary_folder();
    int length = snprintf(place->path, sizeof(place->path), "%s/pto-%u-%s.%s", folder,
                          (unsigned)geteuid(), text_of(l->job), text_of(l->step));

    if (length >= (int)sizeof(place->path) || text_of(l->job)[0] == '\0') {
        place->path[0] = '\0'; /* the program has to say */
        return;
    }
    for (char *at = place->path + strlen(folder) + 1; *at != '\0'; at++)
        if (*at == '/' || *at == '@' || *at == ':')
            *at = '-';
}

void comm_find_place(struct comm_place *place)
{
    memset(place, 0, sizeof(*place));
    place->rank = -1;
    snprintf(place->path, sizeof(place->path), "%s", text_of("PTO_MEET"));
    snprintf(place->token, sizeof(place->token), "%s", text_of("PTO_TOKEN"));
    for (uint32_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const struct launcher *l = &launchers[i];
        int32_t rank = env_read_number(l->rank), count = env_read_number(l->rank_count);

        if (rank < 0 || count <= rank)
            continue;
        place->rank = rank;
        place->rank_count = (uint32_t)count;
        if (place->path[0] == '\0' && l->job != NULL)
            env_make_path(l, place);
        return;
    }
}
