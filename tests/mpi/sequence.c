/*
 * The calls that the arguments name, in their order, with results checked: for tests of settings.
 *
 *     sequence OPERATION:BYTES[xTIMES] ...      e.g.  sequence bcast:100000x3 reduce:8
 *
 * BYTES is the size of the whole vector: what is broadcast or reduced, or gathered from all ranks, or
 * sent to all by one.
 * OPERATION is one of those of ours in lower case, or reduce-vector: MPI_Reduce on a strided type with a
 * user-defined operator; so is allreduce-vector, and allreduce-double sums doubles. Ranks describe the data of
 * a broadcast by ints; bcast-vector by a vector.
 * late:MILLISECONDS is no call: all ranks but 0 sleep so long; for first-late, rank 0 alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calls.h"
#include "check.h"
#include "reduction.h"

static void do_bcast(const struct layout *layout, MPI_Count items, int root) {
    unsigned char *data = stream(root, (size_t)items * layout->packed);
    struct buffer buffer = buffer_new(layout, items);
    if (world_rank == root) {
        buffer_input(&buffer, 0, items, data);
    } else {
        buffer_expect(&buffer, 0, items, data);
    }
    bcast(buffer.origin, items, layout->type, root, MPI_COMM_WORLD);
    buffer_check(&buffer, "bcast");
    free(data);
}

static void do_reduce(const struct reduction *reduction, MPI_Count items, int root) {
    void *input = reduction_input(reduction, world_rank, world_size, 0, items);
    void *result = reduction_result(reduction, world_size, 0, items);
    struct buffer send = buffer_new(&reduction->layout, items);
    struct buffer receive = buffer_new(&reduction->layout, items);
    buffer_input(&send, 0, items, input);
    if (world_rank == root) {
        buffer_expect(&receive, 0, items, result);
    }
    reduce(send.origin, receive.origin, items, reduction->layout.type, reduction->op, root,
           MPI_COMM_WORLD);
    buffer_check(&send, "reduce: send buffer");
    buffer_check(&receive, "reduce: receive buffer");
    free(input);
    free(result);
}

static void do_allgather(const struct layout *ints, MPI_Count items, bool counts) {
    MPI_Count *count = allocate(sizeof(MPI_Count) * (size_t)world_size);
    MPI_Aint *displacement = allocate(sizeof(MPI_Aint) * (size_t)world_size);
    struct buffer send = buffer_new(ints, items), receive = buffer_new(ints, items * world_size);
    for (int rank = 0; rank < world_size; rank++) {
        unsigned char *data = stream(rank, (size_t)items * sizeof(int));
        count[rank] = items;
        displacement[rank] = (MPI_Aint)(items * rank);
        buffer_expect(&receive, items * rank, items, data);
        if (rank == world_rank) {
            buffer_input(&send, 0, items, data);
        }
        free(data);
    }
    if (counts) {
        allgatherv(send.origin, items, MPI_INT, receive.origin, count, displacement, MPI_INT,
                   MPI_COMM_WORLD);
    } else {
        allgather(send.origin, items, MPI_INT, receive.origin, items, MPI_INT, MPI_COMM_WORLD);
    }
    buffer_check(&send, "allgather: send buffer");
    buffer_check(&receive, "allgather: receive buffer");
    free(count);
    free(displacement);
}

static void do_reduce_scatter(const struct reduction *reduction, MPI_Count items, bool counts) {
    MPI_Count total = items * world_size;
    MPI_Count *count = allocate(sizeof(MPI_Count) * (size_t)world_size);
    for (int rank = 0; rank < world_size; rank++) {
        count[rank] = items;
    }
    void *input = reduction_input(reduction, world_rank, world_size, 0, total);
    void *result = reduction_result(reduction, world_size, items * world_rank, items);
    struct buffer send = buffer_new(&reduction->layout, total);
    struct buffer receive = buffer_new(&reduction->layout, items);
    buffer_input(&send, 0, total, input);
    buffer_expect(&receive, 0, items, result);
    if (counts) {
        reduce_scatter(send.origin, receive.origin, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    } else {
        reduce_scatter_block(send.origin, receive.origin, items, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    buffer_check(&send, "reduce_scatter: send buffer");
    buffer_check(&receive, "reduce_scatter: receive buffer");
    free(count);
    free(input);
    free(result);
}

static void do_allreduce(const struct reduction *reduction, MPI_Count items) {
    void *input = reduction_input(reduction, world_rank, world_size, 0, items);
    void *result = reduction_result(reduction, world_size, 0, items);
    struct buffer send = buffer_new(&reduction->layout, items);
    struct buffer receive = buffer_new(&reduction->layout, items);
    buffer_input(&send, 0, items, input);
    buffer_expect(&receive, 0, items, result);
    allreduce(send.origin, receive.origin, items, reduction->layout.type, reduction->op,
              MPI_COMM_WORLD);
    buffer_check(&send, "allreduce: send buffer");
    buffer_check(&receive, "allreduce: receive buffer");
    free(input);
    free(result);
}

/* Every rank sends its stream, the same to all. */
static void do_alltoall(const struct layout *ints, MPI_Count items) {
    struct buffer send = buffer_new(ints, items * world_size);
    struct buffer receive = buffer_new(ints, items * world_size);
    unsigned char *mine = stream(world_rank, (size_t)items * sizeof(int));
    for (int rank = 0; rank < world_size; rank++) {
        unsigned char *theirs = stream(rank, (size_t)items * sizeof(int));
        buffer_input(&send, items * rank, items, mine);
        buffer_expect(&receive, items * rank, items, theirs);
        free(theirs);
    }
    free(mine);
    alltoall(send.origin, items, MPI_INT, receive.origin, items, MPI_INT, MPI_COMM_WORLD);
    buffer_check(&send, "alltoall: send buffer");
    buffer_check(&receive, "alltoall: receive buffer");
}

static void do_gather(const struct layout *ints, MPI_Count items, int root, bool scatters) {
    bool is_root = world_rank == root;
    struct buffer part = buffer_new(ints, items);
    struct buffer all = buffer_new(ints, is_root ? items * world_size : 0);
    for (int rank = 0; rank < world_size; rank++) {
        unsigned char *data = stream(rank, (size_t)items * sizeof(int));
        if (is_root) {
            (scatters ? buffer_input : buffer_expect)(&all, items * rank, items, data);
        }
        if (rank == world_rank) {
            (scatters ? buffer_expect : buffer_input)(&part, 0, items, data);
        }
        free(data);
    }
    if (scatters) {
        scatter(all.origin, items, MPI_INT, part.origin, items, MPI_INT, root, MPI_COMM_WORLD);
    } else {
        gather(part.origin, items, MPI_INT, all.origin, items, MPI_INT, root, MPI_COMM_WORLD);
    }
    buffer_check(&part, "part");
    buffer_check(&all, "whole");
}

/* A process that comes late to the next call. */
static void be_late(bool is_late, long milliseconds) {
    if (is_late) {
        nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
    }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "sequence", MPI_THREAD_SINGLE);
    int count;
    struct reduction *reductions = reductions_new(&count);
    struct layout ints = layout_of_ints(0), vector = layout_of_ints(2);
    const struct reduction sum = reduction_int_sum();
    for (int i = 1; i < argc; i++) {
        char operation[64];
        long long bytes = 0;
        int times = 1;
        if (sscanf(argv[i], "%63[a-z_-]:%lldx%d", operation, &bytes, &times) < 2) {
            fprintf(stderr, "sequence: cannot read %s\n", argv[i]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        const MPI_Count all = bytes / (MPI_Count)sizeof(int), each = all / world_size;
        for (int call = 0; call < times; call++) {
            int root = call % world_size;
            check_case("%s, call %d", argv[i], call);
            if (strcmp(operation, "late") == 0) {
                be_late(world_rank != 0, (long)bytes);
            } else if (strcmp(operation, "first-late") == 0) {
                be_late(world_rank == 0, (long)bytes);
            } else if (strcmp(operation, "bcast") == 0) {
                do_bcast(&ints, all, root);
            } else if (strcmp(operation, "bcast-vector") == 0) {
                do_bcast(&vector, all / vector.atoms, root);
            } else if (strcmp(operation, "reduce") == 0) {
                do_reduce(&sum, all, root);
            } else if (strcmp(operation, "reduce-vector") == 0) {
                do_reduce(reduction_named(reductions, count, "vector"), all / vector.atoms, root);
            } else if (strcmp(operation, "allgather") == 0) {
                do_allgather(&ints, each, false);
            } else if (strcmp(operation, "allgatherv") == 0) {
                do_allgather(&ints, each, true);
            } else if (strcmp(operation, "reduce_scatter") == 0) {
                do_reduce_scatter(&sum, each, true);
            } else if (strcmp(operation, "reduce_scatter_block") == 0) {
                do_reduce_scatter(&sum, each, false);
            } else if (strcmp(operation, "allreduce") == 0) {
                do_allreduce(&sum, all);
            } else if (strcmp(operation, "allreduce-double") == 0) {
                do_allreduce(reduction_named(reductions, count, "MPI_DOUBLE MPI_SUM"), bytes / (MPI_Count)sizeof(double));
            } else if (strcmp(operation, "allreduce-vector") == 0) {
                do_allreduce(reduction_named(reductions, count, "vector"), all / vector.atoms);
            } else if (strcmp(operation, "alltoall") == 0) {
                do_alltoall(&ints, each);
            } else if (strcmp(operation, "gather") == 0) {
                do_gather(&ints, each, root, false);
            } else if (strcmp(operation, "scatter") == 0) {
                do_gather(&ints, each, root, true);
            } else {
                check(false, "there is no operation %s", operation);
            }
        }
    }
    layout_free(&vector);
    reductions_free(reductions, count);
    return check_end();
}
