/*
 * MPI_Allreduce: every operator and datatype, in place, sizes around block bounds, and the same result
 * to the last bit on all ranks where the order of operands makes a difference.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"
#include "reduction.h"
#include "sizes.h"

static void one(const struct reduction *reduction, MPI_Count count, bool in_place) {
    if (!is_chosen()) {
        return;
    }
    check_case("%s, %lld items%s", reduction->name, (long long)count, in_place ? ", in place" : "");
    const struct layout *layout = &reduction->layout;
    void *input = reduction_input(reduction, world_rank, world_size, 0, count);
    void *result = reduction_result(reduction, world_size, 0, count);
    struct buffer send = buffer_new(layout, count), receive = buffer_new(layout, count);
    buffer_input(in_place ? &receive : &send, 0, count, input);
    buffer_expect(&receive, 0, count, result);
    allreduce(in_place ? MPI_IN_PLACE : send.origin, receive.origin, count, layout->type,
              reduction->op, MPI_COMM_WORLD);
    if (reduction->padding) {
        buffer_padding_undefined(&receive);
    }
    buffer_check(&receive, "receive buffer");
    buffer_check(&send, "send buffer");
    free(input);
    free(result);
}

/* Sums that are rounded: whichever they are, they are the same everywhere, and near the right one. */
static void rounded(int count, bool in_place) {
    check_case("%d rounded sums%s", count, in_place ? ", in place" : "");
    double *send = allocate(sizeof(double) * (size_t)count);
    double *receive = allocate(sizeof(double) * (size_t)count);
    double *theirs = allocate(sizeof(double) * (size_t)count);
    for (int i = 0; i < count; i++) {
        send[i] = 1.0 / (1 + world_rank * 7 + i % 13);
        receive[i] = send[i];
    }
    allreduce(in_place ? MPI_IN_PLACE : send, receive, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    int next = (world_rank + 1) % world_size, before = (world_rank + world_size - 1) % world_size;
    MPI_Sendrecv(receive, count, MPI_DOUBLE, next, 0, theirs, count, MPI_DOUBLE, before, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(memcmp(receive, theirs, sizeof(double) * (size_t)count) == 0, "ranks differ");
    for (int i = 0; i < count; i++) {
        double sum = 0;
        for (int rank = 0; rank < world_size; rank++) {
            sum += 1.0 / (1 + rank * 7 + i % 13);
        }
        check(fabs(receive[i] - sum) < 1e-12 * sum, "sum %d is %.17g, not %.17g", i, receive[i], sum);
    }
    free(send);
    free(receive);
    free(theirs);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "allreduce", MPI_THREAD_SINGLE);
    int count;
    struct reduction *reductions = reductions_new(&count);
    for (int i = 0; i < count; i++) {
        one(&reductions[i], 1, false);
        one(&reductions[i], 3, true);
        one(&reductions[i], 40, i % 2);
        one(&reductions[i], 301, i % 2 == 0);
    }
    const struct reduction *bytes = reduction_named(reductions, count, "MPI_BYTE MPI_BXOR");
    const struct reduction *sums = reduction_named(reductions, count, "MPI_DOUBLE MPI_SUM");
    const struct reduction *ints = reduction_named(reductions, count, "MPI_INT MPI_SUM");
    for (int i = 0; i < SIZES; i++) {
        one(bytes, sizes[i], i % 2);
        one(ints, sizes[i] / 4, i % 2 == 0);
        one(sums, sizes[i] / 8, false);
        one(sums, sizes[i] / 8, true);
    }
    for (int i = 0; i < large_sizes(); i++) {
        one(sums, LARGE_SIZES[i] / 8, i % 2);
        one(ints, LARGE_SIZES[i] / 4, i % 2 == 0);
    }
    static const int roundings[] = {1, 2, 7, 100, 5000};
    for (int i = 0; i < 5; i++) {
        rounded(roundings[i], i % 2);
    }
    reductions_free(reductions, count);
    return check_end();
}
