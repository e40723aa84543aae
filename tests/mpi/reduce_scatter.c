/* MPI_Reduce_scatter: every operator and datatype, regular, irregular and degenerate counts. */
#include "scattered.h"
#include "spread.h"

static void scatter_reduced(const void *send, void *receive, const MPI_Count *counts,
                            const struct reduction *reduction) {
    reduce_scatter(send, receive, counts, reduction->layout.type, reduction->op, MPI_COMM_WORLD);
}

static void one(const struct reduction *reduction, const MPI_Count *counts, const char *spread,
                bool in_place) {
    if (!is_chosen()) {
        return;
    }
    MPI_Count total = spread_total(counts, world_size), first = spread_total(counts, world_rank);
    check_case("%s, %lld items %s%s", reduction->name, (long long)total, spread,
               in_place ? ", in place" : "");
    one_scattered(reduction, counts, total, first, counts[world_rank], in_place);
}

static void every_spread(const struct reduction *reduction, MPI_Count unit, bool in_place) {
    MPI_Count *counts = allocate(sizeof(MPI_Count) * (size_t)world_size);
    for (int which = 0; which < SPREADS; which++) {
        one(reduction, counts, spread_counts(which, unit, counts), (which % 2 == 0) == in_place);
    }
    free(counts);
}

int main(int argc, char **argv) {
    int count;
    struct reduction *reductions = begin_scattered(&argc, &argv, "reduce_scatter", &count);
    for (int i = 0; i < count; i++) {
        every_spread(&reductions[i], 1 + i % 7, i % 2);
    }
    const struct reduction *bytes = reduction_named(reductions, count, "MPI_BYTE MPI_BXOR");
    const struct reduction *sums = reduction_named(reductions, count, "MPI_DOUBLE MPI_SUM");
    for (int i = 0; i < SIZES; i++) {
        every_spread(bytes, sizes[i] / world_size, i % 2);
    }
    for (int i = 0; i < large_sizes(); i++) {
        every_spread(sums, LARGE_SIZES[i] / 8 / 4 / world_size, i % 2);
    }
    reductions_free(reductions, count);
    return check_end();
}
