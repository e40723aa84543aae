/*
 * What a communicator costs that is made for one small call: MPI_Comm_dup, MPI_Allreduce of an int,
 * MPI_Comm_free. Rank 0 prints the median of BATCHES batches of CALLS, in microseconds each.
 *
 *     communicators BATCHES CALLS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double batch(int calls) {
    double start = MPI_Wtime();
    for (int i = 0; i < calls; i++) {
        MPI_Comm communicator;
        int own = i, sum;
        MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
        MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, communicator);
        MPI_Comm_free(&communicator);
    }
    return (MPI_Wtime() - start) / calls;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int batches = argc > 1 ? atoi(argv[1]) : 0, calls = argc > 2 ? atoi(argv[2]) : 0;
    if (batches < 1 || calls < 1) {
        fprintf(stderr, "usage: communicators BATCHES CALLS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    double *seconds = malloc((size_t)batches * sizeof *seconds);
    batch(calls);
    for (int i = 0; seconds && i < batches; i++)
        seconds[i] = batch(calls);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (seconds)
        qsort(seconds, (size_t)batches, sizeof *seconds, ascending);
    if (seconds && rank == 0)
        printf("microseconds\n%.3f\n", 1e6 * seconds[batches / 2]);
    free(seconds);
    MPI_Finalize();
    return 0;
}
