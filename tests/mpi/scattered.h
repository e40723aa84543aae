/* What tests of MPI_Reduce_scatter and MPI_Reduce_scatter_block have in common: one case. */
#ifndef SCATTERED_H
#define SCATTERED_H

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

/* Calls the operation of the test; `counts` are those of all ranks, where it takes them. */
static void scatter_reduced(const void *send, void *receive, const MPI_Count *counts,
                            const struct reduction *reduction);

/* This rank has `count` items of the result of `total`, from item `first` on. */
static void one_scattered(const struct reduction *reduction, const MPI_Count *counts,
                          MPI_Count total, MPI_Count first, MPI_Count count, bool in_place) {
    const struct layout *layout = &reduction->layout;
    void *input = reduction_input(reduction, world_rank, world_size, 0, total);
    void *result = reduction_result(reduction, world_size, first, count);
    struct buffer send = buffer_new(layout, total);
    buffer_input(&send, 0, total, input);
    if (in_place) {
        buffer_expect(&send, 0, count, result);
        scatter_reduced(MPI_IN_PLACE, send.origin, counts, reduction);
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
        scatter_reduced(send.origin, count > 0 ? receive.origin : NULL, counts, reduction);
        if (reduction->padding) {
            buffer_padding_undefined(&receive);
        }
        buffer_check(&receive, "receive buffer");
    }
    buffer_check(&send, in_place ? "buffer" : "send buffer");
    free(input);
    free(result);
}

/* What both programs begin with; the reductions and their number. */
static struct reduction *begin_scattered(int *argc, char ***argv, const char *name, int *count) {
    check_begin(argc, argv, name, MPI_THREAD_SINGLE);
    demand_rest = *argc > 1 && strcmp((*argv)[1], "keep") == 0;
    return reductions_new(count);
}

#endif
