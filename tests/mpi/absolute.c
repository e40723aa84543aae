/*
 * Buffers at MPI_BOTTOM, whose datatypes hold the addresses: in gathering, where each block is two
 * pieces in reverse order, or whose displacements do; and, with the argument "reduce", in
 * reductions, where each item is a number with a gap after it. (Open MPI 4.1 natively adds up
 * something else there.)
 */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"

enum { FIRST = 500, INTS = 1200, STRIDE = INTS + 100 };

static int value(int rank, int i) { return (int)mix(check_iteration(), (uint64_t)rank, (uint64_t)i, 9); }

/* One block of a gathering at an absolute address: ints FIRST and up, then those before. */
static MPI_Datatype block_at(int *address) {
    MPI_Datatype pieces, block;
    MPI_Aint at[2];
    MPI_Get_address(address + FIRST, &at[0]);
    MPI_Get_address(address, &at[1]);
    MPI_Type_create_hindexed(2, (int[]){INTS - FIRST, FIRST}, at, MPI_INT, &pieces);
    MPI_Type_create_resized(pieces, 0, STRIDE * sizeof(int), &block);
    MPI_Type_commit(&block);
    MPI_Type_free(&pieces);
    return block;
}

/* Place i of a block in the order of its signature. */
static int place(int i) { return i < INTS - FIRST ? FIRST + i : i - (INTS - FIRST); }

enum gathering { ALLGATHER, ALLGATHERV, ALLGATHER_IN_PLACE };

static void gather_absolutely(enum gathering how) {
    check_case("gathering %d", how);
    int *send = allocate(sizeof(int) * STRIDE);
    int *receive = allocate(sizeof(int) * STRIDE * (size_t)world_size);
    for (int i = 0; i < STRIDE * world_size; i++) {
        receive[i] = -1;
    }
    for (int i = 0; i < INTS; i++) {
        send[place(i)] = receive[world_rank * STRIDE + place(i)] = value(world_rank, i);
    }
    MPI_Datatype from = block_at(send), to = block_at(receive);
    if (how == ALLGATHER) {
        allgather(MPI_BOTTOM, 1, from, MPI_BOTTOM, 1, to, MPI_COMM_WORLD);
    } else if (how == ALLGATHER_IN_PLACE) {
        allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, MPI_BOTTOM, 1, to, MPI_COMM_WORLD);
    } else {
        MPI_Count counts[64];
        MPI_Aint displacements[64];
        for (int rank = 0; rank < world_size; rank++) {
            counts[rank] = 1;
            displacements[rank] = rank;
        }
        allgatherv(MPI_BOTTOM, 1, from, MPI_BOTTOM, counts, displacements, to, MPI_COMM_WORLD);
    }
    int wrong = 0;
    for (int rank = 0; rank < world_size; rank++) {
        for (int i = 0; i < INTS; i++) {
            wrong += receive[rank * STRIDE + place(i)] != value(rank, i);
        }
        for (int i = INTS; i < STRIDE; i++) {
            wrong += receive[rank * STRIDE + i] != -1;
        }
    }
    check(wrong == 0, "%d ints are wrong", wrong);
    check_digest(receive, sizeof(int) * STRIDE * (size_t)world_size);
    MPI_Type_free(&from);
    MPI_Type_free(&to);
    free(send);
    free(receive);
}

/*
 * The displacements of rank 0 alone are addresses, in extents of the datatype, from MPI_BOTTOM; those
 * of the others are of their buffers. Between two groups, if `comm` is an inter-communicator.
 */
static void gather_by_displacements(MPI_Comm comm, int blocks, const int *rank_of) {
    enum { EXTENT = 1 << 20 };
    MPI_Datatype pieces, block;
    MPI_Type_contiguous(INTS, MPI_INT, &pieces);
    MPI_Type_create_resized(pieces, 0, EXTENT, &block);
    MPI_Type_commit(&block);
    int *send = allocate(sizeof(int) * INTS);
    char *receive = aligned_alloc(EXTENT, (size_t)EXTENT * (size_t)blocks);
    MPI_Count counts[64];
    MPI_Aint displacements[64];
    for (int i = 0; i < INTS; i++) {
        send[i] = value(world_rank, i);
    }
    for (int k = 0; k < blocks; k++) {
        counts[k] = 1;
        displacements[k] = k + (world_rank == 0 ? (MPI_Aint)receive / EXTENT : 0);
    }
    calls_between((MPI_Count)INTS * world_size);
    allgatherv(send, 1, block, world_rank == 0 ? MPI_BOTTOM : receive, counts, displacements, block, comm);
    int wrong = 0;
    for (int k = 0; k < blocks; k++) {
        const int *got = (const int *)(receive + (size_t)k * EXTENT);
        for (int i = 0; i < INTS; i++) {
            wrong += got[i] != value(rank_of[k], i);
        }
        check_digest(got, sizeof(int) * INTS);
    }
    check(wrong == 0, "%d ints are wrong", wrong);
    MPI_Type_free(&pieces);
    MPI_Type_free(&block);
    free(send);
    free(receive);
}

/* Not on one process, where MPICH 4.0 natively copies to address 0. */
static void gather_by_addresses(void) {
    int all[64], others[64], blocks = 0, group = world_rank % 2;
    for (int rank = 0; rank < world_size; rank++) {
        all[rank] = rank;
        if (rank % 2 != group) {
            others[blocks++] = rank;
        }
    }
    check_case("displacements that are addresses");
    gather_by_displacements(MPI_COMM_WORLD, world_size, all);
    check_case("displacements that are addresses, between groups");
    MPI_Comm local, inter;
    MPI_Comm_split(MPI_COMM_WORLD, group, world_rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - group, 7, &inter);
    gather_by_displacements(inter, blocks, others);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&local);
}

/* Items of two ints, of which the first is added, wherever the datatype says that it is. */
static void add(void *in, void *inout, int *items, MPI_Datatype *type) {
    MPI_Aint lower, extent;
    MPI_Type_get_true_extent(*type, &lower, &extent);
    char *from = (char *)in + lower, *into = (char *)inout + lower;
    for (int i = 0; i < *items; i++) {
        ((int *)into)[2 * i] += ((int *)from)[2 * i];
    }
}

static MPI_Datatype item_at(int *address) {
    MPI_Datatype number, item;
    MPI_Aint at;
    MPI_Get_address(address, &at);
    MPI_Type_create_hindexed(1, (int[]){1}, &at, MPI_INT, &number);
    MPI_Type_create_resized(number, 0, 2 * sizeof(int), &item);
    MPI_Type_commit(&item);
    MPI_Type_free(&number);
    return item;
}

enum reduction { REDUCE, REDUCE_SCATTER_BLOCK, REDUCE_SCATTER };

/* In place, since two buffers cannot both be at MPI_BOTTOM. */
static void combine(enum reduction how, MPI_Op op) {
    check_case("reduction %d", how);
    int root = world_size - 1, each = INTS, items = each * world_size;
    int *data = allocate(sizeof(int) * 2 * (size_t)items);
    for (int i = 0; i < items; i++) {
        data[2 * i] = value(world_rank, i) % 100000;
        data[2 * i + 1] = -1;
    }
    MPI_Datatype item = item_at(data);
    int first = 0, results = items;
    if (how == REDUCE) {
        if (world_rank == root) {
            reduce(MPI_IN_PLACE, MPI_BOTTOM, items, item, op, root, MPI_COMM_WORLD);
        } else {
            reduce(MPI_BOTTOM, NULL, items, item, op, root, MPI_COMM_WORLD);
            results = 0;
        }
    } else {
        first = each * world_rank;
        results = each;
        MPI_Count counts[64];
        for (int rank = 0; rank < world_size; rank++) {
            counts[rank] = each;
        }
        if (how == REDUCE_SCATTER) {
            reduce_scatter(MPI_IN_PLACE, MPI_BOTTOM, counts, item, op, MPI_COMM_WORLD);
        } else {
            reduce_scatter_block(MPI_IN_PLACE, MPI_BOTTOM, each, item, op, MPI_COMM_WORLD);
        }
    }
    int wrong = 0;
    for (int i = 0; i < results; i++) {
        int sum = 0;
        for (int rank = 0; rank < world_size; rank++) {
            sum += value(rank, first + i) % 100000;
        }
        wrong += data[2 * i] != sum;
    }
    for (int i = 0; i < items; i++) {
        wrong += data[2 * i + 1] != -1;
    }
    check(wrong == 0, "%d ints are wrong", wrong);
    MPI_Type_free(&item);
    free(data);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "absolute", MPI_THREAD_SINGLE);
    gather_absolutely(ALLGATHER);
    gather_absolutely(ALLGATHERV);
    gather_absolutely(ALLGATHER_IN_PLACE);
    if (world_size > 1) {
        gather_by_addresses();
    }
    if (argc > 1 && strcmp(argv[1], "reduce") == 0) {
        MPI_Op sum;
        MPI_Op_create(add, 1, &sum);
        combine(REDUCE, sum);
        combine(REDUCE_SCATTER_BLOCK, sum);
        combine(REDUCE_SCATTER, sum);
        MPI_Op_free(&sum);
    }
    return check_end();
}
