/*
 * How the operations with an array of counts spread their items over the ranks, and where
 * MPI_Allgatherv puts them.
 */
#ifndef SPREAD_H
#define SPREAD_H

#include "check.h"

enum { SPREADS = 7 };

/* Fills counts[0 .. world_size) in units, and returns what the spread is called. */
static inline const char *spread_counts(int which, MPI_Count unit, MPI_Count *counts) {
    static const char *const name[SPREADS] = {
        "evenly",           "irregularly",       "by zero or one", "on the first rank only",
        "on the last only", "on odd ranks only", "nowhere"};
    for (int rank = 0; rank < world_size; rank++) {
        uint64_t h = mix(check_iteration(), (uint64_t)rank, (uint64_t)unit, 4);
        const MPI_Count count[SPREADS] = {unit,
                                          unit * (MPI_Count)(h % 4) + (MPI_Count)(h >> 8) % 3,
                                          (MPI_Count)(h & 1),
                                          rank == 0 ? 4 * unit : 0,
                                          rank == world_size - 1 ? 4 * unit : 0,
                                          rank % 2 ? 2 * unit : 0,
                                          0};
        counts[rank] = count[which];
    }
    return name[which];
}

static inline MPI_Count spread_total(const MPI_Count *counts, int ranks) {
    MPI_Count total = 0;
    for (int rank = 0; rank < ranks; rank++) {
        total += counts[rank];
    }
    return total;
}

enum { PLACINGS = 4 };

/*
 * Fills displacements, in items, and returns how many items the buffer must hold: in rank order
 * without gaps, in rank order with gaps of two items in front of each, in reverse order, or in an
 * order of stride three (or two) with a gap of one item behind each. A lone process gets no gap in
 * front: MPICH before 4.1 ignores its displacement.
 */
static inline MPI_Count spread_place(int which, const MPI_Count *counts, MPI_Aint *displacements) {
    const int stride = world_size % 3 ? 3 : world_size % 2 ? 2 : 1;
    MPI_Count next = 0;
    for (int i = 0; i < world_size; i++) {
        const int order[PLACINGS] = {i, i, world_size - 1 - i, (i * stride + 1) % world_size};
        int rank = order[which];
        next += which == 1 && world_size > 1 ? 2 : 0;
        displacements[rank] = (MPI_Aint)next;
        next += counts[rank] + (which == 3);
    }
    return next;
}

#endif
