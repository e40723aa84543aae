/*
 * Invalid arguments: every call must return the error class that it returns natively, and call the
 * communicator's own error handler as often. Prints the classes, to be compared between runs; by
 * itself it checks only that there is an error, and that valid calls work afterwards. Left out is
 * what Open MPI 4.1 or MPICH 4.0 itself does not notice, but crashes of.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"
#include "medley.h"

static int handled;
static MPI_Comm no_communicator;

static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    handled++;
}

/* Errors that every rank makes, so that none is left waiting. */
static void expect_error(int code, const char *call) {
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    check(class != MPI_SUCCESS, "%s succeeded", call);
    check_digest(&class, sizeof class);
    if (world_rank == 0) {
        printf("class %d: %s\n", class, call);
    }
}

#define EXPECT_ERROR(call) expect_error(call, #call)

static void all_errors(MPI_Comm comm) {
    const int p = world_size;
    int *data = allocate(sizeof(int) * 1000 * (size_t)p), *out = allocate(4000 * (size_t)p);
    int *counts = allocate(sizeof(int) * (size_t)p), *displs = allocate(sizeof(int) * (size_t)p);
    for (int rank = 0; rank < p; rank++) {
        counts[rank] = 1000;
        displs[rank] = 1000 * rank;
    }
    MPI_Datatype uncommitted;
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);

    EXPECT_ERROR(MPI_Bcast(data, 1000, MPI_INT, p, comm));
    EXPECT_ERROR(MPI_Bcast(data, 1000, MPI_INT, -77, comm));
    EXPECT_ERROR(MPI_Bcast(data, -1, MPI_INT, 0, comm));
    EXPECT_ERROR(MPI_Bcast(data, 1000, MPI_DATATYPE_NULL, 0, comm));
    EXPECT_ERROR(MPI_Bcast(data, 500, uncommitted, 0, comm));

    EXPECT_ERROR(MPI_Reduce(data, out, 1000, MPI_INT, MPI_SUM, p, comm));
    EXPECT_ERROR(MPI_Reduce(data, out, 1000, MPI_INT, MPI_SUM, -77, comm));
#ifdef OPEN_MPI
    EXPECT_ERROR(MPI_Reduce(data, out, -1, MPI_INT, MPI_SUM, 0, comm));
    EXPECT_ERROR(MPI_Reduce_scatter_block(data, out, -1, MPI_INT, MPI_SUM, comm));
    EXPECT_ERROR(MPI_Allreduce(data, out, -1, MPI_INT, MPI_SUM, comm));
#endif
    EXPECT_ERROR(MPI_Reduce(data, out, 1000, MPI_DATATYPE_NULL, MPI_SUM, 0, comm));
    EXPECT_ERROR(MPI_Reduce(data, out, 1000, MPI_INT, MPI_OP_NULL, 0, comm));
    EXPECT_ERROR(MPI_Reduce(data, out, 1000, MPI_INT, MPI_NO_OP, 0, comm));
    EXPECT_ERROR(MPI_Reduce(data, out, 1000, MPI_FLOAT, MPI_BXOR, 0, comm));
    EXPECT_ERROR(MPI_Reduce(data, out, 500, uncommitted, MPI_SUM, 0, comm));

    EXPECT_ERROR(MPI_Allgather(data, -1, MPI_INT, out, 1000, MPI_INT, comm));
    EXPECT_ERROR(MPI_Allgather(data, 1000, MPI_INT, out, -1, MPI_INT, comm));
    EXPECT_ERROR(MPI_Allgather(data, 1000, MPI_DATATYPE_NULL, out, 1000, MPI_INT, comm));
    EXPECT_ERROR(MPI_Allgather(data, 1000, MPI_INT, out, 1000, MPI_DATATYPE_NULL, comm));
    EXPECT_ERROR(MPI_Allgather(data, 1000, MPI_INT, MPI_IN_PLACE, 1000, MPI_INT, comm));

    EXPECT_ERROR(MPI_Allgatherv(data, -1, MPI_INT, out, counts, displs, MPI_INT, comm));
    EXPECT_ERROR(MPI_Allgatherv(data, 1000, MPI_DATATYPE_NULL, out, counts, displs, MPI_INT, comm));
    EXPECT_ERROR(MPI_Allgatherv(data, 1000, MPI_INT, out, counts, displs, MPI_DATATYPE_NULL, comm));
    counts[p - 1] = -1;
#ifndef OPEN_MPI
    EXPECT_ERROR(MPI_Allgatherv(data, 1000, MPI_INT, out, counts, displs, MPI_INT, comm));
#endif
    EXPECT_ERROR(MPI_Reduce_scatter(data, out, counts, MPI_INT, MPI_SUM, comm));
    counts[p - 1] = 1000;

    EXPECT_ERROR(MPI_Reduce_scatter(data, out, counts, MPI_DATATYPE_NULL, MPI_SUM, comm));
    EXPECT_ERROR(MPI_Reduce_scatter(data, out, counts, MPI_INT, MPI_OP_NULL, comm));
    EXPECT_ERROR(MPI_Reduce_scatter(data, out, counts, MPI_DOUBLE, MPI_BAND, comm));
    EXPECT_ERROR(MPI_Reduce_scatter_block(data, out, 1000, MPI_DATATYPE_NULL, MPI_SUM, comm));
    EXPECT_ERROR(MPI_Reduce_scatter_block(data, out, 1000, MPI_INT, MPI_OP_NULL, comm));
    EXPECT_ERROR(MPI_Reduce_scatter_block(data, out, 1000, MPI_DOUBLE, MPI_BAND, comm));

    EXPECT_ERROR(MPI_Allreduce(data, out, 1000, MPI_DATATYPE_NULL, MPI_SUM, comm));
    EXPECT_ERROR(MPI_Allreduce(data, out, 1000, MPI_INT, MPI_OP_NULL, comm));
    EXPECT_ERROR(MPI_Allreduce(data, out, 1000, MPI_DOUBLE, MPI_BAND, comm));

#if defined OPEN_MPI && OMPI_MAJOR_VERSION >= 5
    /* Others crash. */
    EXPECT_ERROR(MPI_Allgatherv(data, 1000, MPI_INT, out, counts, NULL, MPI_INT, comm));
#endif
#ifndef OPEN_MPI
    /* Input and result in the same place. (Open MPI does not look, and some of its algorithms work.) */
    EXPECT_ERROR(MPI_Allreduce(data, data, 1000, MPI_INT, MPI_SUM, comm));
    EXPECT_ERROR(MPI_Reduce_scatter_block(data, data, 1000, MPI_INT, MPI_SUM, comm));
    EXPECT_ERROR(MPI_Reduce_scatter(data, data, counts, MPI_INT, MPI_SUM, comm));
    EXPECT_ERROR(MPI_Allgather(out + 1000 * world_rank, 1000, MPI_INT, out, 1000, MPI_INT, comm));
    EXPECT_ERROR(MPI_Allgatherv(out + 1000 * world_rank, 1000, MPI_INT, out, counts, displs, MPI_INT, comm));
    EXPECT_ERROR(MPI_Alltoall(data, 1000, MPI_INT, data, 1000, MPI_INT, comm));
#endif
    EXPECT_ERROR(MPI_Alltoall(data, 1000, MPI_INT, out, -1, MPI_INT, comm));
    EXPECT_ERROR(MPI_Alltoall(data, 1000, MPI_DATATYPE_NULL, out, 1000, MPI_INT, comm));
    EXPECT_ERROR(MPI_Alltoall(data, 1000, MPI_INT, out, 1000, MPI_DATATYPE_NULL, comm));

    EXPECT_ERROR(MPI_Gather(data, 1000, MPI_INT, out, 1000, MPI_INT, p, comm));
    EXPECT_ERROR(MPI_Gather(data, 1000, MPI_INT, out, 1000, MPI_INT, -77, comm));
    EXPECT_ERROR(MPI_Gather(data, -1, MPI_INT, out, 1000, MPI_INT, 0, comm));
    EXPECT_ERROR(MPI_Gather(data, 1000, MPI_DATATYPE_NULL, out, 1000, MPI_INT, 0, comm));

    EXPECT_ERROR(MPI_Scatter(data, 1000, MPI_INT, out, 1000, MPI_INT, p, comm));
    EXPECT_ERROR(MPI_Scatter(data, 1000, MPI_INT, out, 1000, MPI_INT, -77, comm));
    EXPECT_ERROR(MPI_Scatter(data, 1000, MPI_INT, out, -1, MPI_INT, 0, comm));
    EXPECT_ERROR(MPI_Scatter(data, 1000, MPI_INT, out, 1000, MPI_DATATYPE_NULL, 0, comm));

    MPI_Type_free(&uncommitted);
    free(data);
    free(out);
    free(counts);
    free(displs);
}

/* Raised on MPI_COMM_WORLD, for want of a communicator. */
static void null_communicator(void) {
    int data[10] = {0}, out[10];
    EXPECT_ERROR(MPI_Bcast(data, 10, MPI_INT, 0, MPI_COMM_NULL));
    EXPECT_ERROR(MPI_Reduce(data, out, 10, MPI_INT, MPI_SUM, 0, MPI_COMM_NULL));
#ifndef OPEN_MPI
    EXPECT_ERROR(MPI_Allgather(data, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_NULL));
#endif
    EXPECT_ERROR(MPI_Allgatherv(data, 1, MPI_INT, out, data, data, MPI_INT, MPI_COMM_NULL));
    EXPECT_ERROR(MPI_Reduce_scatter(data, out, data, MPI_INT, MPI_SUM, MPI_COMM_NULL));
    EXPECT_ERROR(MPI_Reduce_scatter_block(data, out, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL));
}

/*
 * Handles that were never set, and others that are none, on a communicator whose errors are returned.
 * Those of MPI_COMM_WORLD may be fatal meanwhile, so nothing may be raised there.
 */
static void no_handles(MPI_Comm comm) {
    static MPI_Datatype no_type;
    static MPI_Op no_op;
    const int before = handled;
    int *data = allocate(4000), *out = allocate(4000 * (size_t)world_size);
    EXPECT_ERROR(MPI_Bcast(data, 1000, no_type, 0, comm));
    EXPECT_ERROR(MPI_Allgather(data, 1000, no_type, out, 1000, MPI_INT, comm));
    EXPECT_ERROR(MPI_Allgather(data, 1000, MPI_INT, out, 1000, no_type, comm));
    EXPECT_ERROR(MPI_Gather(data, 1000, no_type, out, 1000, MPI_INT, 0, comm));
    EXPECT_ERROR(MPI_Scatter(out, 1000, MPI_INT, data, 1000, no_type, 0, comm));
    EXPECT_ERROR(MPI_Reduce(data, out, 1000, MPI_INT, no_op, 0, comm));
#ifndef OPEN_MPI
    EXPECT_ERROR(MPI_Allreduce(data, out, 1000, MPI_INT, no_op, comm));
    EXPECT_ERROR(MPI_Allreduce(data, out, 1000, no_type, MPI_SUM, comm));
    EXPECT_ERROR(MPI_Bcast(data, 1000, (MPI_Datatype)12345, 0, comm));
    EXPECT_ERROR(MPI_Allreduce(data, out, 1000, MPI_INT, (MPI_Op)12345, comm));
#endif
    check(handled == before, "%d errors were raised on MPI_COMM_WORLD", handled - before);
    free(data);
    free(out);
}

#ifndef OPEN_MPI
/*
 * A handle that leads to no communicator. (Open MPI's are addresses, which it follows.) Raised once on
 * MPI_COMM_WORLD.
 */
static void invalid_communicator(void) {
    MPI_Comm comm = (MPI_Comm)12345;
    int data[1000] = {0}, out[1000], counts[1] = {1};
    EXPECT_ERROR(MPI_Bcast(data, 1000, MPI_INT, 0, comm));
    EXPECT_ERROR(MPI_Bcast(data, 1, MPI_INT, 0, comm));
    EXPECT_ERROR(MPI_Reduce(data, out, 1000, MPI_INT, MPI_SUM, 0, comm));
    EXPECT_ERROR(MPI_Allreduce(data, out, 1000, MPI_INT, MPI_SUM, comm));
    EXPECT_ERROR(MPI_Allgather(data, 1, MPI_INT, out, 1, MPI_INT, comm));
    EXPECT_ERROR(MPI_Allgatherv(data, 1, MPI_INT, out, counts, data, MPI_INT, comm));
    EXPECT_ERROR(MPI_Reduce_scatter(data, out, counts, MPI_INT, MPI_SUM, comm));
    EXPECT_ERROR(MPI_Reduce_scatter_block(data, out, 1, MPI_INT, MPI_SUM, comm));
    EXPECT_ERROR(MPI_Alltoall(data, 1, MPI_INT, out, 1, MPI_INT, comm));
    EXPECT_ERROR(MPI_Gather(data, 1, MPI_INT, out, 1, MPI_INT, 0, comm));
    EXPECT_ERROR(MPI_Scatter(data, 1, MPI_INT, out, 1, MPI_INT, 0, comm));
    EXPECT_ERROR(MPI_Comm_free(&comm));
    MPI_Comm copy;
    MPI_Request request;
    EXPECT_ERROR(MPI_Comm_idup(comm, &copy, &request));
}
#endif

/* How often the handler of MPI_COMM_WORLD runs for an error on a communicator that was made from it. */
static int handled_of(MPI_Comm comm) {
    int data = 0, before = handled;
    EXPECT_ERROR(MPI_Bcast(&data, 1, MPI_INT, 99, comm));
    int runs = handled - before;
    handled = before;
    return runs;
}

static void exchange(MPI_Comm inter) {
    enum { INTS = 500 };
    int remote, *data = allocate(sizeof(int) * INTS);
    MPI_Comm_remote_size(inter, &remote);
    int *received = allocate(sizeof(int) * INTS * (size_t)remote);
    memset(data, 1 + world_rank, sizeof(int) * INTS);
    calls_between(INTS * world_size);
    allgather(data, INTS, MPI_INT, received, INTS, MPI_INT, inter);
    for (int i = 0; i < remote; i++) {
        int rank = 2 * i + 1 - world_rank % 2;
        check(received[INTS * i] == 0x01010101 * (1 + rank), "data of rank %d", rank);
    }
    free(data);
    free(received);
}

/* Communicators have the handler of the one that they were made from, before and after their first calls. */
static void inherited(MPI_Errhandler own) {
    MPI_Group group;
    MPI_Comm made[3] = {MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL}, half;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &made[0]);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, &made[1]);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &half);
    if (world_size > 1) {
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - world_rank % 2, 5, &made[2]);
    }
    for (int i = 0; i < 3 && made[i] != MPI_COMM_NULL; i++) {
        check_case("on communicator %d that was made from MPI_COMM_WORLD", i);
        int runs = handled_of(made[i]);
        check(runs > 0, "the handler did not run");
        if (i < 2) {
            medley(made[i], 1000);
        } else {
            exchange(made[i]);
        }
        check(handled_of(made[i]) == runs, "the handler does not run as before");
        MPI_Comm_free(&made[i]);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_free(&half);
    MPI_Group_free(&group);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "errors", MPI_THREAD_SINGLE);
    MPI_Errhandler own;
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check_case("on a communicator not used before");
    all_errors(MPI_COMM_WORLD);
    null_communicator();
    medley(MPI_COMM_WORLD, 1000);
    check_case("on a communicator already used");
    all_errors(MPI_COMM_WORLD);
    medley(MPI_COMM_WORLD, 1000);
    inherited(own);

    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_set_errhandler(dup, own);
    check_case("with the program's own handler");
    medley(dup, 1000);
    check(handled == 0, "the handler ran %d times without an error", handled);
    all_errors(dup);
    check(handled > 0, "the handler did not run");
    check_digest(&handled, sizeof handled);

    check_case("with handles that are none");
    MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
    no_handles(dup);
    EXPECT_ERROR(MPI_Bcast(&handled, 1, MPI_INT, 0, no_communicator));
    EXPECT_ERROR(MPI_Bcast(&handled, 1, MPI_INT, 0, MPI_COMM_NULL));
    check_digest(&handled, sizeof handled);
#ifndef OPEN_MPI
    check_case("with a communicator that is none");
    handled = 0;
    invalid_communicator();
    check_digest(&handled, sizeof handled);
    if (world_rank == 0) {
        printf("raised %d times for a communicator that is none\n", handled);
    }
#endif
    MPI_Errhandler_free(&own);
    MPI_Comm_free(&dup);
    return check_end();
}
