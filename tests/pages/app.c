/* ./app of the pages: three broadcasts of 4 MB and two allreduces of 8 bytes, checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4000000 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, processes, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    char *buffer = malloc(BYTES);
    if (buffer == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < 3; i++) {
        int root = i % processes;
        memset(buffer, rank == root ? 'a' + i : 0, BYTES);
        MPI_Bcast(buffer, BYTES, MPI_CHAR, root, MPI_COMM_WORLD);
        for (int at = 0; at < BYTES; at++) wrong += buffer[at] != 'a' + i;
    }
    for (int i = 0; i < 2; i++) {
        long sum, own = rank + i;
        MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        wrong += sum != (long)processes * (processes - 1) / 2 + (long)i * processes;
    }
    free(buffer);
    if (rank == 0) puts(wrong ? "wrong" : "right");
    MPI_Finalize();
    return wrong != 0;
}
