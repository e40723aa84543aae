/* circulant: collective communication on circulant graphs, under existing MPI programs.
 *
 * The library takes over MPI's own collective operations by their names; these are the functions
 * that it adds. Link with -lcirculant before the MPI library, or declare them weak and find them
 * only where the library is preloaded. */

#ifndef CIRCULANT_H
#define CIRCULANT_H

/* Generated from src/api/ by `make header`; do not edit. */

#include <mpi.h>

/*
 Compares two elements: below 0 if the one at `a` comes first, above 0 if that at `b` does, 0 if they
 are equal. Must be the same total preorder on all processes. May call MPI, but nothing collective.
 */
typedef int (*circulant_compare)(const void *a, const void *b, void *context);

/*
 Combines two operands, neither of them empty, of which the left is of lower ranks: writes the
 combination to `out`, where there is room for `leftcount` + `rightcount` elements, and how many they
 are to `*outcount`. Must be associative, with an empty operand as its identity. Returns 0; any other
 value ends the operation, with that value as its error code, on all processes. May call MPI, but
 nothing collective.
 */
typedef int (*circulant_combine)(const void *left,
                                 int leftcount,
                                 const void *right,
                                 int rightcount,
                                 void *out,
                                 int *outcount,
                                 void *context);

/*
 A callback of circulant_successive_bcast: gets a step, a buffer of count elements, and the context that was passed
 with it. Returns 0 (MPI_SUCCESS), or else an error code, which ends the operation.
 */
typedef int (*circulant_step)(int i, void *buffer, void *context);

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

/*
 Gathers the sorted blocks of all processes on all processes, as one sorted sequence. Collective.

 Each process has `sendcount` elements at `sendbuf`, sorted; or, with MPI_IN_PLACE, at `recvbuf`. All get
 all of them at `recvbuf`, sorted, and how many they are in `*recvcount`. Elements that are equal keep
 the order of the ranks that they came from, and of their places there.

 The order is that of `compare`, which is called with `context`; or, where it is null and `datatype` one
 of MPI's integers or floating-point numbers, MPI_BYTE or MPI_C_BOOL, ascending. (Then -0 and 0 are
 equal, and what is not a number comes last.) `compare` sees elements in the datatype's layout. As with
 MPI, processes may describe the same elements by different datatypes; all have a comparison, or none.

 Buffers are in the host's memory, and do not overlap.

 Returns MPI_SUCCESS, or raises an error on `comm`: MPI_ERR_COMM (null, or an inter-communicator),
 MPI_ERR_COUNT (negative; `sendcount` elements in place, where `capacity` is less; or of a result more than
 INT_MAX: then on all processes), MPI_ERR_TYPE (null;
 of no size or more than 1 GiB; its elements interleave; or no numbers, without a comparison),
 MPI_ERR_BUFFER (null with elements, `sendbuf` is `recvbuf`, or in a device's memory), MPI_ERR_ARG
 (`recvcount` is null), MPI_ERR_TRUNCATE (`capacity`, the elements that fit at `recvbuf`, is less than
 `*recvcount`: on the processes where it is, and nothing is at their `recvbuf` that can be used), or what
 MPI returns.

 # Safety
 As for MPI's functions: the buffers hold what the counts say, and `compare` can be called with them.
 */
int circulant_allgather_merge(const void *sendbuf,
                              int sendcount,
                              void *recvbuf,
                              int capacity,
                              int *recvcount,
                              MPI_Datatype datatype,
                              circulant_compare compare,
                              void *context,
                              MPI_Comm comm);

/*
 Combines the operands of all processes, of any lengths, on all processes: concatenates, merges, unites
 them. Collective.

 Each process has an operand of `sendcount` elements at `sendbuf`; or, with MPI_IN_PLACE, at `recvbuf`. All
 get the combination of all of them, in the order of ranks, at `recvbuf`, and how many elements it has in
 `*recvcount`. `combine` is called with operands in the datatype's layout and with `context`; never
 with an empty one.

 Otherwise as `circulant_allgather_merge`; besides, it raises MPI_ERR_OP (`combine` is null); on all
 processes what `combine` returns on one of them, other than 0, of the lowest of several; and there
 MPI_ERR_COUNT, where it writes a count that is negative or more than there is room for, or where two
 operands together have more than INT_MAX elements.

 # Safety
 As for MPI's functions: the buffers hold what the counts say, and `combine` can be called with them, and
 writes no more elements than it says, and not more than there is room for.
 */
int circulant_allreduce_v(const void *sendbuf,
                          int sendcount,
                          void *recvbuf,
                          int capacity,
                          int *recvcount,
                          MPI_Datatype datatype,
                          circulant_combine combine,
                          void *context,
                          MPI_Comm comm);

/*
 n broadcasts in order, i = 0, 1, ..., n - 1, each of count elements of datatype from the process that
 circulant_successive_owner says.

 On the owner of step i, produce(i, buffer, context) is called to fill the buffer, once the values 0, ..., i - 1 have
 been stored there. On every process, the owner too, store(i, buffer, context) is called in the order of
 the steps. The buffer is circulant's, laid out as datatype says, aligned to 16 bytes, and good until the callback
 returns; what store writes there goes nowhere. Callbacks run in the calling thread, while later values are on their
 way. They may call MPI: messages on any communicator, collectives on others than comm; but they must not wait for
 callbacks of other processes on comm, which may be p steps behind or ahead. (With CIRCULANT_SUCCESSION=trees they may
 wait for those of the same step.)

 Collective. n, count and the type signature must be the same on all processes.

 Returns MPI_SUCCESS, or on all processes the code that a callback returned: if several did, that of the
 least step, and there of the least rank. The process that it happened on calls no more callbacks, the others none
 once they know of it, at most p steps later. Such a code is the program's own and is not raised on the
 communicator. Errors of MPI's are, and those of the arguments: MPI_ERR_COMM (null, or an inter-communicator),
 MPI_ERR_ARG (n is negative, or a callback null), MPI_ERR_COUNT, MPI_ERR_TYPE. MPI_ERR_NO_MEM, where a process has
 no memory for a value, is returned on all.

 # Safety
 The callbacks may be called as above until the function returns, and the handles are valid.
 */
int circulant_successive_bcast(int n,
                               int count,
                               MPI_Datatype datatype,
                               circulant_step produce,
                               circulant_step store,
                               void *context,
                               MPI_Comm comm);

/*
 The rank in comm of the process that owns step i of circulant_successive_bcast there, for i >= 0: cyclic with p, the
 processes of comm. For p = 2^d the i-th of the binary reflected Gray code, i xor i/2; else i mod p. Local.

 MPI_UNDEFINED after an error was raised: MPI_ERR_COMM (null, or an inter-communicator) or MPI_ERR_ARG (i is
 negative).

 # Safety
 `comm` is a valid handle.
 */
int circulant_successive_owner(MPI_Comm comm,
                               int i);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CIRCULANT_H */
