/* MPI_Reduce_scatter_block: every operator and datatype, in place, sizes around block bounds. */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"
#include "reduction.h"
#include "sizes.h"

/*
 * In place, the rest of the receive buffer is not defined: Open MPI overwrites it where the operator
 * is not commutative, MPICH where it is large. But programs rely on it, for small data: circulant
 * keeps it, and with the argument "keep" that is demanded.
 */
static bool demand_rest;

static void one(const struct reduction *reduction, MPI_Count count, bool in_place) {
    if (!is_chosen()) {
        return;
    }
    check_case("%s, %lld items a rank%s", reduction->name, (long long)count,
               in_place ? ", in place" : "");
    const struct layout *layout = &reduction->layout;
    MPI_Count total = count * world_size;
    void *input = reduction_input(reduction, world_rank, world_size, 0, total);
    void *result = reduction_result(reduction, world_size, world_rank * count, count);
    struct buffer send = buffer_new(layout, total);
    buffer_input(&send, 0, total, input);
    if (in_place) {
        buffer_expect(&send, 0, count, result);
        reduce_scatter_block(MPI_IN_PLACE, send.origin, count, layout->type, reduction->op,
                             MPI_COMM_WORLD);
        if (demand_rest && reduction->commutative) {
            check(buffer_is_kept(&send, count, total - count), "the rest of the buffer changed");
        }
        buffer_undefined(&send, count, total - count);
        if (reduction->padding) {
            buffer_padding_undefined(&send);
        }
    } else {
        struct buffer receive = buffer_new(layout, count);
        buffer_expect(&receive, 0, count, result);
        reduce_scatter_block(send.origin, receive.origin, count, layout->type, reduction->op,
                             MPI_COMM_WORLD);
        if (reduction->padding) {
            buffer_padding_undefined(&receive);
        }
        buffer_check(&receive, "receive buffer");
    }
    buffer_check(&send, in_place ? "buffer" : "send buffer");
    free(input);
    free(result);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "reduce_scatter_block", MPI_THREAD_SINGLE);
    demand_rest = argc > 1 && strcmp(argv[1], "keep") == 0;
    int count;
    struct reduction *reductions = reductions_new(&count);
    for (int i = 0; i < count; i++) {
        one(&reductions[i], 1, false);
        one(&reductions[i], 3, true);
        one(&reductions[i], 40, i % 2);
    }
    const struct reduction *bytes = reduction_named(reductions, count, "MPI_BYTE MPI_BXOR");
    const struct reduction *sums = reduction_named(reductions, count, "MPI_DOUBLE MPI_SUM");
    for (int i = 0; i < SIZES; i++) {
        one(bytes, sizes[i], i % 2);
        one(bytes, sizes[i] / world_size, i % 2 == 0);
        one(sums, sizes[i] / 8 / world_size, false);
    }
    for (int i = 0; i < large_sizes(); i++) {
        one(sums, LARGE_SIZES[i] / 8 / world_size, i % 2);
    }
    reductions_free(reductions, count);
    return check_end();
}
