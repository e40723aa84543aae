/*
 * The functions with large counts that circulant leaves to the MPI library, which may have none: small
 * calls of all operations; with the argument "too-large", counts that no int holds.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"
#include "medley.h"

static const MPI_Count TOO_LARGE = (MPI_Count)INT_MAX + 1;

static MPI_Comm comm;
static int handled;

static void handler(MPI_Comm *where, int *code, ...) {
    (void)code;
    handled += *where == comm;
}

static void expect_error(int code, const char *call) {
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    check(class == MPI_ERR_COUNT, "%s: class %d", call, class);
    check(handled == 1, "%s: the handler ran %d times", call, handled);
    handled = 0;
}

#define TOO_LARGE_FOR(call) expect_error(call, #call)

/* On all ranks, so that none is left waiting. */
static void errors(void) {
    int data[2] = {0}, out[2];
    MPI_Count *counts = allocate(sizeof *counts * (size_t)world_size);
    MPI_Aint *displacements = allocate(sizeof *displacements * (size_t)world_size);
    for (int rank = 0; rank < world_size; rank++) {
        counts[rank] = displacements[rank] = 0;
    }
    check_case("counts that are too large");
    TOO_LARGE_FOR(CALL(MPI_Bcast)(data, TOO_LARGE, MPI_INT, 0, comm));
    TOO_LARGE_FOR(CALL(MPI_Reduce)(data, out, TOO_LARGE, MPI_INT, MPI_SUM, 0, comm));
    TOO_LARGE_FOR(CALL(MPI_Allreduce)(data, out, TOO_LARGE, MPI_INT, MPI_SUM, comm));
    TOO_LARGE_FOR(CALL(MPI_Reduce_scatter_block)(data, out, TOO_LARGE, MPI_INT, MPI_SUM, comm));
    TOO_LARGE_FOR(CALL(MPI_Allgather)(data, TOO_LARGE, MPI_INT, out, TOO_LARGE, MPI_INT, comm));
    TOO_LARGE_FOR(CALL(MPI_Alltoall)(data, TOO_LARGE, MPI_INT, out, TOO_LARGE, MPI_INT, comm));
    TOO_LARGE_FOR(CALL(MPI_Gather)(data, TOO_LARGE, MPI_INT, out, TOO_LARGE, MPI_INT, 0, comm));
    TOO_LARGE_FOR(CALL(MPI_Scatter)(data, TOO_LARGE, MPI_INT, out, TOO_LARGE, MPI_INT, 0, comm));
    counts[world_size - 1] = TOO_LARGE;
    TOO_LARGE_FOR(CALL(MPI_Reduce_scatter)(data, out, counts, MPI_INT, MPI_SUM, comm));
    TOO_LARGE_FOR(CALL(MPI_Allgatherv)(data, world_rank == world_size - 1 ? TOO_LARGE : (MPI_Count)0, MPI_INT,
                                       out, counts, displacements, MPI_INT, comm));
    counts[world_size - 1] = 0;
    displacements[0] = -(MPI_Aint)TOO_LARGE - 1;
    TOO_LARGE_FOR(CALL(MPI_Allgatherv)(data, (MPI_Count)0, MPI_INT, out, counts, displacements, MPI_INT, comm));
    free(counts);
    free(displacements);
}

/* What MPI does not look at may be anything. */
static void not_looked_at(void) {
    const bool is_root = world_rank == 0;
    const MPI_Count one = 1, at_root = is_root ? one : TOO_LARGE;
    int *all = allocate(sizeof *all * (size_t)world_size), own = 10 + world_rank, wrong = 0;
    check_case("counts that mean nothing");
    memset(all, 0, sizeof *all * (size_t)world_size);
    all[world_rank] = own;
    check_success(CALL(MPI_Allgather)(MPI_IN_PLACE, TOO_LARGE, MPI_DATATYPE_NULL, all, one, MPI_INT, comm),
                  "MPI_Allgather");
    for (int rank = 0; rank < world_size; rank++) {
        wrong += all[rank] != 10 + rank;
    }
    memset(all, 0, sizeof *all * (size_t)world_size);
    check_success(CALL(MPI_Gather)(&own, one, MPI_INT, all, at_root, MPI_INT, 0, comm), "MPI_Gather");
    for (int rank = 0; rank < world_size; rank++) {
        wrong += is_root && all[rank] != 10 + rank;
    }
    own = 0;
    check_success(CALL(MPI_Scatter)(all, at_root, MPI_INT, &own, one, MPI_INT, 0, comm), "MPI_Scatter");
    wrong += own != 10 + world_rank;
    check(wrong == 0, "%d ints are wrong", wrong);
    check(handled == 0, "the handler ran %d times", handled);
    free(all);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "large", MPI_THREAD_SINGLE);
    if (argc > 1) {
        MPI_Errhandler own;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_create_errhandler(handler, &own);
        MPI_Comm_set_errhandler(comm, own);
        errors();
        not_looked_at();
        MPI_Errhandler_free(&own);
        MPI_Comm_free(&comm);
    } else {
        for (int turn = 0; turn < 20; turn++) {
            check_case("turn %d", turn);
            medley(MPI_COMM_WORLD, 10);
        }
    }
    return check_end();
}
