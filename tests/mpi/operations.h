/* The operations that are taken over, and their names in reports. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

enum operation {
    BCAST,
    REDUCE,
    ALLGATHER,
    ALLGATHERV,
    REDUCE_SCATTER_BLOCK,
    REDUCE_SCATTER,
    ALLREDUCE,
    ALLTOALL,
    GATHER,
    SCATTER,
    OPERATIONS
};

static const char *const operation_name[OPERATIONS] = {
    "bcast",          "reduce",    "allgather", "allgatherv", "reduce_scatter_block",
    "reduce_scatter", "allreduce", "alltoall",  "gather",     "scatter"};

#endif
