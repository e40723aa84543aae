/* One call of each of the operations, with results checked, on any intra-communicator. */
#ifndef MEDLEY_H
#define MEDLEY_H

#include <mpi.h>

/* Data and sizes (up to `items` ints a rank) are those of the current case and color. */
void medley(MPI_Comm comm, int items);

/* Its allreduce alone, of so many ints, by an operator that adds them. */
void medley_allreduce(MPI_Comm comm, int items, MPI_Op op);

#endif
