/* circulant: collective communication on circulant graphs, under existing MPI programs.
 *
 * The library takes over MPI's own collective operations by their names; these are the functions
 * that it adds. Link with -lcirculant before the MPI library, or declare them weak and find them
 * only where the library is preloaded. */

#ifndef CIRCULANT_H
#define CIRCULANT_H

/* Generated from src/api/ by `make header`; do not edit. */

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The version of circulant, such as "0.1.0". A static string.
 */
const char *circulant_version(void);

/*
 How many calls of an operation this process has run as circulant so far. The operation is named
 as in reports: "bcast", "reduce", "allgather", "allgatherv", "reduce_scatter_block",
 "reduce_scatter", "allreduce", "alltoall", "gather", "scatter", "successive_bcast", "allgather_merge"
 or "allreduce_v"; any other name, or a null pointer, gives 0.

 # Safety
 `operation` is null or points to a string that ends in NUL.
 */
unsigned long long circulant_calls(const char *operation);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CIRCULANT_H */
