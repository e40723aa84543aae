/* Fails where circulant does not run its broadcast. */
#include <circulant.h>
#include <mpi.h>

/* Without circulant in the link, its functions are there only if it is preloaded. */
#pragma weak circulant_calls

int main(int argc, char **argv)
{
    int rank, data[1000] = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    data[999] = rank == 0 ? 42 : 0;
    MPI_Bcast(data, 1000, MPI_INT, 0, MPI_COMM_WORLD);
    int failed = data[999] != 42 || !circulant_calls || circulant_calls("bcast") != 1;
    MPI_Finalize();
    return failed;
}
