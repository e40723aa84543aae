/*
 * A small PMPI tool, to stand before or behind circulant: it counts the calls that come by, and
 * prints the counts when MPI ends.
 */
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "operations.h"

enum { PCONTROL = OPERATIONS, COUNTED };

static atomic_ulong calls[COUNTED];

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    calls[BCAST]++;
    return PMPI_Bcast(buffer, count, type, root, comm);
}

int MPI_Reduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
    calls[REDUCE]++;
    return PMPI_Reduce(send, receive, count, type, op, root, comm);
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                  int receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
    calls[ALLGATHER]++;
    return PMPI_Allgather(send, send_count, send_type, receive, receive_count, receive_type, comm);
}

int MPI_Allgatherv(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                   const int counts[], const int displacements[], MPI_Datatype receive_type,
                   MPI_Comm comm) {
    calls[ALLGATHERV]++;
    return PMPI_Allgatherv(send, send_count, send_type, receive, counts, displacements,
                           receive_type, comm);
}

int MPI_Reduce_scatter_block(const void *send, void *receive, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm) {
    calls[REDUCE_SCATTER_BLOCK]++;
    return PMPI_Reduce_scatter_block(send, receive, count, type, op, comm);
}

int MPI_Reduce_scatter(const void *send, void *receive, const int counts[], MPI_Datatype type,
                       MPI_Op op, MPI_Comm comm) {
    calls[REDUCE_SCATTER]++;
    return PMPI_Reduce_scatter(send, receive, counts, type, op, comm);
}

int MPI_Allreduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
    calls[ALLREDUCE]++;
    return PMPI_Allreduce(send, receive, count, type, op, comm);
}

int MPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                 int receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
    calls[ALLTOALL]++;
    return PMPI_Alltoall(send, send_count, send_type, receive, receive_count, receive_type, comm);
}

int MPI_Gather(const void *send, int send_count, MPI_Datatype send_type, void *receive,
               int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm) {
    calls[GATHER]++;
    return PMPI_Gather(send, send_count, send_type, receive, receive_count, receive_type, root,
                       comm);
}

int MPI_Scatter(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm) {
    calls[SCATTER]++;
    return PMPI_Scatter(send, send_count, send_type, receive, receive_count, receive_type, root,
                        comm);
}

/* What follows the level is not passed on: nobody could know what it is. Many tools pass on nothing. */
int MPI_Pcontrol(const int level, ...) {
    calls[PCONTROL]++;
    return getenv("TOOL_KEEPS_PCONTROL") ? MPI_SUCCESS : PMPI_Pcontrol(level);
}

int MPI_Finalize(void) {
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        for (int operation = 0; operation < COUNTED; operation++) {
            const char *name = operation == PCONTROL ? "pcontrol" : operation_name[operation];
            printf("tool %s %lu\n", name, calls[operation]);
        }
        fflush(stdout);
    }
    return PMPI_Finalize();
}
