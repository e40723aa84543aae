/* MPI_Reduce_scatter_block: every operator and datatype, in place, sizes around block bounds. */
#include "scattered.h"

static void scatter_reduced(const void *send, void *receive, const MPI_Count *counts,
                            const struct reduction *reduction) {
    reduce_scatter_block(send, receive, *counts, reduction->layout.type, reduction->op,
                         MPI_COMM_WORLD);
}

static void one(const struct reduction *reduction, MPI_Count count, bool in_place) {
    if (!is_chosen()) {
        return;
    }
    check_case("%s, %lld items a rank%s", reduction->name, (long long)count,
               in_place ? ", in place" : "");
    one_scattered(reduction, &count, count * world_size, count * world_rank, count, in_place);
}

int main(int argc, char **argv) {
    int count;
    struct reduction *reductions = begin_scattered(&argc, &argv, "reduce_scatter_block", &count);
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
