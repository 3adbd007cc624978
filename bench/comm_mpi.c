/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI under the clock of `pto bench comm`: mpirun -n RANKS build/bench/comm_mpi [quick].
 * Rank 0 prints a line for each case. bench/comm.py calls it in turns with ours.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/bench/bench_link.h"

struct mpi_link {
    int rank;
    MPI_Win window;
    char *from;
};

static int barrier(void *context)
{
    (void)context;
    return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : -1;
}

static int put(void *context, uint64_t bytes)
{
    struct mpi_link *l = context;

    return MPI_Put(l->from, (int)bytes, MPI_BYTE, 1, 0, (int)bytes, MPI_BYTE, l->window) ==
                       MPI_SUCCESS &&
                   MPI_Win_flush(1, l->window) == MPI_SUCCESS
               ? 0
               : -1;
}

static int round_trip(void *context)
{
    struct mpi_link *l = context;
    int word = 1, other = 1 - l->rank;

    if (l->rank == 0)
        MPI_Send(&word, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
    MPI_Recv(&word, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (l->rank == 1)
        MPI_Send(&word, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
    return 0;
}

static int all_reduce(void *context, const float *in, float *out, uint64_t count)
{
    (void)context;
    return MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS
               ? 0
               : -1;
}

int main(int argc, char **argv)
{
    struct bench_link_result results[BENCH_LINK_CASES] = { { 0 } };
    struct bench_link link = {
        .barrier = barrier, .put = put, .round_trip = round_trip, .all_reduce = all_reduce
    };
    struct mpi_link own;
    const char *failed;
    void *base;
    int rank_count, status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &own.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
    if (bench_link_pin((uint32_t)own.rank) < 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_allocate(1 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &own.window);
    MPI_Win_lock_all(0, own.window);
    own.from = calloc(1, 1 << 20);
    link.rank = (uint32_t)own.rank;
    link.rank_count = (uint32_t)rank_count;
    link.context = &own;
    status = bench_link_measure(&link, argc > 1 && strcmp(argv[1], "quick") == 0, results, &failed);
    if (status < 0) {
        fprintf(stderr, "comm_mpi: rank %d: %s failed\n", own.rank, failed);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (own.rank == 0)
        bench_link_print(results);
    free(own.from);
    MPI_Win_unlock_all(own.window);
    MPI_Win_free(&own.window);
    MPI_Finalize();
    return 0;
}
