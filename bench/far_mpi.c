/* SPDX-License-Identifier: Apache-2.0 */
/* What bench/far.c measures between two ranks, with MPI: bench/far.sh runs both in turns. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MIB = 1 << 20, TRIPS = 2000, BLOCKS = 256, FLOATS_MAX = 16 << 20 };

static int rank;

static void print_us(const char *name, double begin, int times)
{
    if (rank == 0)
        printf("%s %.2f\n", name, (MPI_Wtime() - begin) * 1e6 / times);
}

static void measure_trips(void)
{
    char word[8] = { 0 };
    double begin = 0;

    for (int i = 0; i < TRIPS; i++) {
        begin = i == TRIPS / 10 ? MPI_Wtime() : begin;
        if (rank == 0)
            MPI_Send(word, sizeof(word), MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(word, sizeof(word), MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(word, sizeof(word), MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    print_us("round-trip", begin, TRIPS - TRIPS / 10);
}

static void measure_stream(char *block)
{
    double begin = MPI_Wtime();

    for (int i = 0; i < BLOCKS; i++)
        if (rank == 0)
            MPI_Send(block, MIB, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(block, MIB, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("stream-1MiB %.0f\n", (double)BLOCKS * MIB / 1e6 / (MPI_Wtime() - begin));
}

static void measure_reduce(float *data, int count, int times, const char *name)
{
    double begin;

    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (int i = 0; i < times; i++)
        MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    print_us(name, begin, times);
}

int main(int argc, char **argv)
{
    float *data = calloc(FLOATS_MAX, sizeof(float));
    double begin;

    if (MPI_Init(&argc, &argv) != MPI_SUCCESS || data == NULL)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    measure_trips();
    measure_stream((char *)data);
    begin = MPI_Wtime();
    for (int i = 0; i < TRIPS; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    print_us("barrier", begin, TRIPS);
    measure_reduce(data, 1, TRIPS, "all-reduce-4B");
    measure_reduce(data, MIB / sizeof(float), 50, "all-reduce-1MiB");
    measure_reduce(data, FLOATS_MAX, 3, "all-reduce-64MiB");
    free(data);
    return MPI_Finalize();
}
