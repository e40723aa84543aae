/* MPI_Reduce: every operator and datatype, every root, in place, sizes around block bounds. */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"
#include "reduction.h"
#include "sizes.h"

static void one(const struct reduction *reduction, MPI_Count count, int root, bool in_place) {
    check_case("%s, root %d, %lld items%s", reduction->name, root, (long long)count,
               in_place ? ", in place" : "");
    const struct layout *layout = &reduction->layout;
    void *input = reduction_input(reduction, world_rank, world_size, 0, count);
    if (world_rank != root) {
        struct buffer send = buffer_new(layout, count);
        buffer_input(&send, 0, count, input);
        reduce(send.origin, NULL, count, layout->type, reduction->op, root, MPI_COMM_WORLD);
        buffer_check(&send, "send buffer");
        free(input);
        return;
    }
    void *result = reduction_result(reduction, world_size, 0, count);
    struct buffer send = buffer_new(layout, count), receive = buffer_new(layout, count);
    buffer_input(in_place ? &receive : &send, 0, count, input);
    buffer_expect(&receive, 0, count, result);
    reduce(in_place ? MPI_IN_PLACE : send.origin, receive.origin, count, layout->type,
           reduction->op, root, MPI_COMM_WORLD);
    if (reduction->padding) {
        buffer_padding_undefined(&receive);
    }
    buffer_check(&receive, "receive buffer");
    buffer_check(&send, "send buffer");
    free(input);
    free(result);
}

static void every_reduction(const struct reduction *reductions, int count) {
    static const MPI_Count items[] = {1, 5, 300};
    for (int i = 0; i < count; i++) {
        for (int turn = 0; turn < 6; turn++) {
            if (!is_chosen()) {
                continue;
            }
            one(&reductions[i], items[turn % 3], root_of(i + turn), turn >= 3);
        }
    }
}

static void every_root(const struct reduction *reduction) {
    for (int root = 0; root < world_size; root++) {
        one(reduction, 0, root, false);
        one(reduction, 2, root, true);
        one(reduction, 100, root, false);
        one(reduction, 1000, root, true);
    }
}

static void every_size(const struct reduction *reduction) {
    for (int i = 0; i < SIZES; i++) {
        for (int turn = 0; turn < 2; turn++) {
            one(reduction, sizes[i] / (MPI_Count)reduction->layout.packed, root_of(i + turn),
                turn == 1);
        }
    }
}

static void large(const struct reduction *reduction) {
    for (int i = 0; i < large_sizes(); i++) {
        one(reduction, LARGE_SIZES[i] / (MPI_Count)reduction->layout.packed, root_of(i), i % 2);
    }
}

/* Operators of size 0 do nothing, whatever they are. */
static void nothing(const struct reduction *reductions, int count) {
    struct reduction nothing = *reduction_named(reductions, count, "matrix");
    for (int which = 0; which < EMPTY_LAYOUTS; which++) {
        nothing.name = "nothing";
        nothing.layout = layout_of_nothing(which);
        one(&nothing, 0, root_of(which), false);
        layout_free(&nothing.layout);
    }
}

/* What one root receives must not be disturbed by the calls that others are already in. */
static void successive(void) {
    enum { CALLS = 200, INTS = 50 };
    static int sent[CALLS][INTS], received[CALLS][INTS];
    check_case("%d calls in succession", CALLS);
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < INTS; i++) {
            sent[call][i] = (world_rank + 1) * (call + 1) + i;
        }
        reduce(sent[call], received[call], INTS, MPI_INT, MPI_SUM, call % world_size,
               MPI_COMM_WORLD);
    }
    for (int call = 0; call < CALLS; call++) {
        int wrong = 0;
        for (int i = 0; i < INTS; i++) {
            int sum = world_size * (world_size + 1) / 2 * (call + 1) + world_size * i;
            wrong += received[call][i] != (world_rank == call % world_size ? sum : 0);
        }
        check(wrong == 0, "call %d: %d ints are wrong", call, wrong);
    }
    check_digest(received, sizeof received);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "reduce", MPI_THREAD_SINGLE);
    int count;
    struct reduction *reductions = reductions_new(&count);
    every_reduction(reductions, count);
    every_root(reduction_named(reductions, count, "MPI_INT MPI_SUM"));
    every_root(reduction_named(reductions, count, "vector"));
    every_size(reduction_named(reductions, count, "MPI_BYTE MPI_BXOR"));
    every_size(reduction_named(reductions, count, "MPI_DOUBLE MPI_SUM"));
    large(reduction_named(reductions, count, "MPI_INT MPI_MAX"));
    nothing(reductions, count);
    successive();
    reductions_free(reductions, count);
    return check_end();
}
