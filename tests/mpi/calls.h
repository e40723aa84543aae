/*
 * The operations, counted by what should become of each call when every call that can be
 * circulant's is circulant's (CIRCULANT_FORCE=1). check_end prints the counts, to be compared with
 * the library's own report: a run in which the library did nothing cannot pass.
 *
 * Counts are MPI_Count and displacements MPI_Aint. Compiled with LARGE_COUNT, the calls go to the
 * functions with large counts (MPI_Bcast_c, ...), otherwise to the classic ones. Where the MPI has no
 * such functions, they are looked for when they are called: circulant has them.
 */
#ifndef CALLS_H
#define CALLS_H

#include <mpi.h>

#ifndef LARGE_COUNT
#define CALL(name) name
#elif defined(LOOKED_FOR)
#define CALL(name) ((int (*)())looked_for(#name "_c"))
#else
#define CALL(name) name##_c
#endif

/* A function that is in the process; ends it if there is none. */
void *looked_for(const char *name);

/* Each returns what the MPI function returned, after checking that it is MPI_SUCCESS. */
int bcast(void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm);
int reduce(const void *send, void *receive, MPI_Count count, MPI_Datatype type, MPI_Op op, int root,
           MPI_Comm comm);
int allgather(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
              MPI_Count receive_count, MPI_Datatype receive_type, MPI_Comm comm);
int allgatherv(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
               const MPI_Count *receive_counts, const MPI_Aint *displacements,
               MPI_Datatype receive_type, MPI_Comm comm);
int reduce_scatter_block(const void *send, void *receive, MPI_Count count, MPI_Datatype type,
                         MPI_Op op, MPI_Comm comm);
int reduce_scatter(const void *send, void *receive, const MPI_Count *counts, MPI_Datatype type,
                   MPI_Op op, MPI_Comm comm);
int allreduce(const void *send, void *receive, MPI_Count count, MPI_Datatype type, MPI_Op op,
              MPI_Comm comm);
int alltoall(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
             MPI_Count receive_count, MPI_Datatype receive_type, MPI_Comm comm);
int gather(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
           MPI_Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm);
int scatter(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
            MPI_Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm);

/*
 * Declares what the next calls of allgather and allgatherv move between the groups of an
 * inter-communicator, which a rank cannot tell from its arguments.
 */
void calls_between(MPI_Count items);

/* One line an operation: "calls bcast circulant=10 empty=2". */
void calls_print(void);

#endif
