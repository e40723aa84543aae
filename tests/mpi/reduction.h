/*
 * Reductions: an operator on a datatype, the input of every rank, and the combination of two items
 * done serially.
 *
 * Integers are compared exactly. Floating point inputs are small integers (for products: powers of
 * -1, 2 and 3, or of i), so that the result is exact in whatever order it is computed, and is
 * compared exactly too.
 */
#ifndef REDUCTION_H
#define REDUCTION_H

#include "layout.h"

struct functions {
    /* Input item (packed) `index` of `rank`, one of `size`. */
    void (*value)(void *item, int rank, int size, MPI_Count index);
    /* right = left op right, both packed. */
    void (*combine)(const void *left, void *right);
};

struct reduction {
    const char *name;
    struct layout layout;
    MPI_Op op;
    bool commutative;
    bool padding; /* the type has padding between its atoms, which may be copied */
    struct functions does;
};

/* Makes all reductions; `count` of them. Freed by reductions_free. */
struct reduction *reductions_new(int *count);
void reductions_free(struct reduction *reductions, int count);

/* Sums of ints, without making the others; nothing to free. */
struct reduction reduction_int_sum(void);

/* One of them by its name ("int sum", ...). */
const struct reduction *reduction_named(const struct reduction *reductions, int count,
                                        const char *name);

/* Packed input of a rank: items first .. first + count - 1. The caller frees it. */
void *reduction_input(const struct reduction *reduction, int rank, int size, MPI_Count first,
                      MPI_Count count);

/* The same items of the result over ranks 0 .. size - 1, combined in the order of ranks. */
void *reduction_result(const struct reduction *reduction, int size, MPI_Count first,
                       MPI_Count count);

#endif
