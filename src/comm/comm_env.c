/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the variables that launchers set: the rank of this process, and the number of ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "comm/comm.h"

/*
 * The variables by which a launcher (mpirun, srun) passes the rank, the number of ranks and the
 * job.
 */
struct launcher {
    const char *rank;
    const char *rank_count;
    const char *job; /* variable with the job's id; NULL: this launcher passes the path itself */
    /* variable with the number of the job's step; NULL: the launcher has no steps */
    const char *step;
    /*
     * variables with the number of ranks on this host, and of hosts; NULL: this launcher has none
     */
    const char *local_count;
    const char *host_count;
};

/* Checked in this order: a program that pto launch starts under mpirun belongs to pto launch. */
static const struct launcher launchers[] = {
    { "PTO_RANK", "PTO_RANKS", NULL, NULL, NULL, NULL },
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", NULL,
      "OMPI_COMM_WORLD_LOCAL_SIZE", NULL },
    { "PMI_RANK", "PMI_SIZE", "PMI_JOBID", NULL, "MPI_LOCALNRANKS", NULL },
    { "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID", NULL,
      "SLURM_STEP_NUM_NODES" },
};

/* Reads a whole number of at most nine digits from a variable; -1: it has none. */
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

/* Makes the path at which the ranks of the job meet. No other job uses it. */
static void env_make_path(const struct launcher *l, struct comm_place *place)
{
    const char *folder = file_temporary_folder();
    int length = snprintf(place->path, sizeof(place->path), "%s/pto-%u-%s.%s", folder,
                          (unsigned)geteuid(), text_of(l->job), text_of(l->step));

    if (length >= (int)sizeof(place->path) || text_of(l->job)[0] == '\0') {
        place->path[0] = '\0'; /* no path: the program has to set one itself */
        return;
    }
    for (char *at = place->path + strlen(folder) + 1; *at != '\0'; at++)
        if (*at == '/' || *at == '@' || *at == ':')
            *at = '-';
}

/* Whether the launcher has started ranks on other hosts as well. */
static bool is_spread(const struct launcher *l, int32_t rank_count)
{
    int32_t local = l->local_count != NULL ? env_read_number(l->local_count) : -1;
    int32_t hosts = l->host_count != NULL ? env_read_number(l->host_count) : -1;

    return (local > 0 && local < rank_count) || hosts > 1;
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
        place->is_spread = place->path[0] == '\0' && is_spread(l, count);
        if (place->path[0] == '\0' && l->job != NULL)
            env_make_path(l, place);
        return;
    }
}

const char *comm_find_backend(void)
{
    return text_of("PTO_COMM")[0] != '\0' ? getenv("PTO_COMM") : NULL;
}
