/* MPI_Reduce_scatter: every operator and datatype, regular, irregular and degenerate counts. */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"
#include "reduction.h"
#include "sizes.h"
#include "spread.h"

/*
 * In place, the rest of the receive buffer is not defined: Open MPI overwrites it where the operator
 * is not commutative, MPICH where it is large. But programs rely on it, for small data: circulant
 * keeps it, and with the argument "keep" that is demanded.
 */
static bool demand_rest;

static void one(const struct reduction *reduction, const MPI_Count *counts, const char *spread,
                bool in_place) {
    if (!is_chosen()) {
        return;
    }
    MPI_Count total = spread_total(counts, world_size), count = counts[world_rank];
    check_case("%s, %lld items %s%s", reduction->name, (long long)total, spread,
               in_place ? ", in place" : "");
    const struct layout *layout = &reduction->layout;
    void *input = reduction_input(reduction, world_rank, world_size, 0, total);
    void *result = reduction_result(reduction, world_size, spread_total(counts, world_rank), count);
    struct buffer send = buffer_new(layout, total);
    buffer_input(&send, 0, total, input);
    if (in_place) {
        buffer_expect(&send, 0, count, result);
        reduce_scatter(MPI_IN_PLACE, send.origin, counts, layout->type, reduction->op,
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
        reduce_scatter(send.origin, count > 0 ? receive.origin : NULL, counts, layout->type,
                       reduction->op, MPI_COMM_WORLD);
        if (reduction->padding) {
            buffer_padding_undefined(&receive);
        }
        buffer_check(&receive, "receive buffer");
    }
    buffer_check(&send, in_place ? "buffer" : "send buffer");
    free(input);
    free(result);
}

static void every_spread(const struct reduction *reduction, MPI_Count unit, bool in_place) {
    MPI_Count *counts = allocate(sizeof(MPI_Count) * (size_t)world_size);
    for (int which = 0; which < SPREADS; which++) {
        one(reduction, counts, spread_counts(which, unit, counts), (which % 2 == 0) == in_place);
    }
    free(counts);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "reduce_scatter", MPI_THREAD_SINGLE);
    demand_rest = argc > 1 && strcmp(argv[1], "keep") == 0;
    int count;
    struct reduction *reductions = reductions_new(&count);
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
