/*
 * In a steady state the library allocates nothing: this program's own malloc counts what is asked
 * for by code of libcirculant, while calls like others before them are made.
 */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"
#include "heap.h"

/* Adds ints that have a gap after each. */
static void add(void *in, void *inout, int *items, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *items; i++) {
        ((int *)inout)[2 * i] += ((int *)in)[2 * i];
    }
}

enum { EACH = 3000 };

static MPI_Datatype spaced, pair;
static MPI_Op sum;
static int *from, *to;

/* All operations, on plain ints, on a derived type without gaps, and on one with gaps. */
static void all_calls(int root) {
    MPI_Count counts[64];
    MPI_Aint displacements[64];
    for (int rank = 0; rank < world_size; rank++) {
        counts[rank] = EACH;
        displacements[rank] = (MPI_Aint)EACH * (world_size - 1 - rank);
    }
    const int all = EACH * world_size;
    bcast(from, all, MPI_INT, root, MPI_COMM_WORLD);
    bcast(from, all / 2, pair, root, MPI_COMM_WORLD);
    bcast(from, all, spaced, root, MPI_COMM_WORLD);
    reduce(from, to, all, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
    reduce(from, to, all, spaced, sum, root, MPI_COMM_WORLD);
    allgather(from, EACH, MPI_INT, to, EACH / 2, pair, MPI_COMM_WORLD);
    allgather(from, EACH, spaced, to, EACH, spaced, MPI_COMM_WORLD);
    allgatherv(from, EACH / 2, pair, to, counts, displacements, MPI_INT, MPI_COMM_WORLD);
    reduce_scatter_block(from, to, EACH, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    reduce_scatter_block(MPI_IN_PLACE, to, EACH, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    reduce_scatter(from, to, counts, spaced, sum, MPI_COMM_WORLD);
    allreduce(from, to, all, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    allreduce(MPI_IN_PLACE, to, 10, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    allreduce(from, to, all, spaced, sum, MPI_COMM_WORLD);
    alltoall(from, EACH, MPI_INT, to, EACH / 2, pair, MPI_COMM_WORLD);
    gather(from, EACH, spaced, to, EACH, MPI_INT, root, MPI_COMM_WORLD);
    scatter(from, EACH, MPI_INT, to, EACH, spaced, root, MPI_COMM_WORLD);
    check_digest(from, sizeof(int) * (size_t)all);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "allocation", MPI_THREAD_SINGLE);
    bool is_preloaded = heap_watch();
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced);
    MPI_Type_commit(&spaced);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(add, 1, &sum);
    size_t bytes = 2 * sizeof(int) * EACH * (size_t)world_size;
    from = allocate(bytes);
    to = allocate(bytes);
    memset(to, 1, bytes);
    for (size_t i = 0; i < bytes / sizeof(int); i++) {
        from[i] = (int)(i % 1000) + world_rank;
    }
    check_case("first calls");
    for (int root = 0; root < world_size; root++) {
        all_calls(root);
    }
    check(!is_preloaded || heap_allocations() > 0, "no allocation was seen at all");
    check_case("steady state");
    heap_fail(0, 0);
    for (int call = 0; call < 2 * world_size; call++) {
        all_calls(call % world_size);
    }
    long seen = heap_allocations();
    check(seen == 0, "%ld allocations", seen);
    MPI_Type_free(&spaced);
    MPI_Type_free(&pair);
    MPI_Op_free(&sum);
    free(from);
    free(to);
    return check_end();
}
