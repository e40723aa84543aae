#include "calls.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "operations.h"

/* The names of the report; of several reasons to go native, the first counts. */
enum outcome {
    CIRCULANT,
    INTER_COMMUNICATOR,
    NOT_COMMUTATIVE,
    ONE_PROCESS,
    EMPTY,
    ARGUMENTS,
    OUTCOMES
};

static const char *const outcome_name[OUTCOMES] = {
    "circulant", "inter_communicator", "not_commutative", "one_process", "empty", "arguments"};

static MPI_Count between;

void calls_between(MPI_Count items) {
    between = items;
}

static atomic_ulong counted[OPERATIONS][OUTCOMES];

#ifdef LARGE_COUNT
#define COUNT(n) (n)
typedef MPI_Count count_t;
typedef MPI_Aint displacement_t;
#else
#define COUNT(n) ((int)(n))
typedef int count_t;
typedef int displacement_t;
#endif

void *looked_for(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    if (function == NULL) {
        fprintf(stderr, "there is no %s\n", name);
        exit(77);
    }
    return function;
}

static int size_of(MPI_Comm comm) {
    int size;
    MPI_Comm_size(comm, &size);
    return size;
}

/* Items that lie in each other's gaps are not for reductions of ours. */
static bool interleaves(MPI_Datatype type) {
    MPI_Aint lower, extent, true_extent;
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_get_true_extent(type, &lower, &true_extent);
    return extent < true_extent;
}

/* These keep the order of ranks for operators that do not commute. */
static bool keeps_order(enum operation operation) {
    return operation == REDUCE_SCATTER || operation == REDUCE_SCATTER_BLOCK ||
           operation == ALLREDUCE;
}

static enum outcome outcome_of(enum operation operation, MPI_Count items, MPI_Datatype type,
                               MPI_Op op, MPI_Comm comm) {
    int inter, commutative = 1, bytes;
    MPI_Comm_test_inter(comm, &inter);
    if (inter && operation != ALLGATHER && operation != ALLGATHERV && operation != BCAST) {
        return INTER_COMMUNICATOR;
    }
    if (inter) {
        return (operation == BCAST ? items : between) == 0 ? EMPTY : CIRCULANT;
    }
    if (op != MPI_OP_NULL) {
        MPI_Op_commutative(op, &commutative);
    }
    if (!commutative && !keeps_order(operation)) {
        return NOT_COMMUTATIVE;
    }
    if (size_of(comm) == 1) {
        return ONE_PROCESS;
    }
    MPI_Type_size(type, &bytes);
    if (items == 0 || bytes == 0) {
        return EMPTY;
    }
    return op != MPI_OP_NULL && interleaves(type) ? ARGUMENTS : CIRCULANT;
}

static void count(enum operation operation, MPI_Count items, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
    atomic_fetch_add(&counted[operation][outcome_of(operation, items, type, op, comm)], 1);
}

/* How many counts an array argument holds: one for each process of the (remote) group. */
static int blocks_of(MPI_Comm comm) {
    int inter, blocks;
    MPI_Comm_test_inter(comm, &inter);
    if (inter) {
        MPI_Comm_remote_size(comm, &blocks);
        return blocks;
    }
    return size_of(comm);
}

static MPI_Count sum(const MPI_Count *counts, int blocks) {
    MPI_Count total = 0;
    for (int i = 0; i < blocks; i++) {
        total += counts[i];
    }
    return total;
}

static count_t *narrow_counts(const MPI_Count *wide, int n) {
    count_t *narrow = allocate(sizeof(count_t) * (size_t)n);
    for (int i = 0; i < n; i++) {
        narrow[i] = COUNT(wide[i]);
    }
    return narrow;
}

static displacement_t *narrow_displacements(const MPI_Aint *wide, int n) {
    displacement_t *narrow = allocate(sizeof(displacement_t) * (size_t)n);
    for (int i = 0; i < n; i++) {
        narrow[i] = (displacement_t)wide[i];
    }
    return narrow;
}

int bcast(void *buffer, MPI_Count items, MPI_Datatype type, int root, MPI_Comm comm) {
    /* A neighbour of the root between two groups has nothing to do, whatever it passes. */
    count(BCAST, root == MPI_PROC_NULL ? 0 : items, type, MPI_OP_NULL, comm);
    int code = CALL(MPI_Bcast)(buffer, COUNT(items), type, root, comm);
    check_success(code, "MPI_Bcast");
    return code;
}

int reduce(const void *send, void *receive, MPI_Count items, MPI_Datatype type, MPI_Op op, int root,
           MPI_Comm comm) {
    count(REDUCE, items, type, op, comm);
    int code = CALL(MPI_Reduce)(send, receive, COUNT(items), type, op, root, comm);
    check_success(code, "MPI_Reduce");
    return code;
}

int allgather(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
              MPI_Count receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
    count(ALLGATHER, receive_count, receive_type, MPI_OP_NULL, comm);
    int code = CALL(MPI_Allgather)(send, COUNT(send_count), send_type, receive,
                                   COUNT(receive_count), receive_type, comm);
    check_success(code, "MPI_Allgather");
    return code;
}

int allgatherv(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
               const MPI_Count *receive_counts, const MPI_Aint *displacements,
               MPI_Datatype receive_type, MPI_Comm comm) {
    int blocks = blocks_of(comm);
    count_t *counts = narrow_counts(receive_counts, blocks);
    displacement_t *at = narrow_displacements(displacements, blocks);
    count(ALLGATHERV, sum(receive_counts, blocks), receive_type, MPI_OP_NULL, comm);
    int code = CALL(MPI_Allgatherv)(send, COUNT(send_count), send_type, receive, counts, at,
                                    receive_type, comm);
    check_success(code, "MPI_Allgatherv");
    free(counts);
    free(at);
    return code;
}

int reduce_scatter_block(const void *send, void *receive, MPI_Count items, MPI_Datatype type,
                         MPI_Op op, MPI_Comm comm) {
    count(REDUCE_SCATTER_BLOCK, items, type, op, comm);
    int code = CALL(MPI_Reduce_scatter_block)(send, receive, COUNT(items), type, op, comm);
    check_success(code, "MPI_Reduce_scatter_block");
    return code;
}

int reduce_scatter(const void *send, void *receive, const MPI_Count *counts, MPI_Datatype type,
                   MPI_Op op, MPI_Comm comm) {
    int blocks = size_of(comm);
    count_t *narrow = narrow_counts(counts, blocks);
    count(REDUCE_SCATTER, sum(counts, blocks), type, op, comm);
    int code = CALL(MPI_Reduce_scatter)(send, receive, narrow, type, op, comm);
    check_success(code, "MPI_Reduce_scatter");
    free(narrow);
    return code;
}

int allreduce(const void *send, void *receive, MPI_Count items, MPI_Datatype type, MPI_Op op,
              MPI_Comm comm) {
    count(ALLREDUCE, items, type, op, comm);
    int code = CALL(MPI_Allreduce)(send, receive, COUNT(items), type, op, comm);
    check_success(code, "MPI_Allreduce");
    return code;
}

int alltoall(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
             MPI_Count receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
    count(ALLTOALL, receive_count, receive_type, MPI_OP_NULL, comm);
    int code = CALL(MPI_Alltoall)(send, COUNT(send_count), send_type, receive,
                                  COUNT(receive_count), receive_type, comm);
    check_success(code, "MPI_Alltoall");
    return code;
}

int gather(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
           MPI_Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm) {
    if (send == MPI_IN_PLACE) {
        count(GATHER, receive_count, receive_type, MPI_OP_NULL, comm);
    } else {
        count(GATHER, send_count, send_type, MPI_OP_NULL, comm);
    }
    int code = CALL(MPI_Gather)(send, COUNT(send_count), send_type, receive, COUNT(receive_count),
                                receive_type, root, comm);
    check_success(code, "MPI_Gather");
    return code;
}

int scatter(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,
            MPI_Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm) {
    if (receive == MPI_IN_PLACE) {
        count(SCATTER, send_count, send_type, MPI_OP_NULL, comm);
    } else {
        count(SCATTER, receive_count, receive_type, MPI_OP_NULL, comm);
    }
    int code = CALL(MPI_Scatter)(send, COUNT(send_count), send_type, receive, COUNT(receive_count),
                                 receive_type, root, comm);
    check_success(code, "MPI_Scatter");
    return code;
}

void calls_print(void) {
    for (int operation = 0; operation < OPERATIONS; operation++) {
        unsigned long total = 0;
        for (int outcome = 0; outcome < OUTCOMES; outcome++) {
            total += counted[operation][outcome];
        }
        if (total == 0) {
            continue;
        }
        printf("calls %s", operation_name[operation]);
        for (int outcome = 0; outcome < OUTCOMES; outcome++) {
            if (counted[operation][outcome] > 0) {
                printf(" %s=%lu", outcome_name[outcome], counted[operation][outcome]);
            }
        }
        printf("\n");
    }
}
