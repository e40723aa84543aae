/* The cases of MPI_Gather and MPI_Scatter: sizes, datatypes on the two sides, roots, in place. */
#ifndef ROOTED_H
#define ROOTED_H

#include "layout.h"
#include "sizes.h"

/*
 * One case: every rank has `items` of `others`, and the root `root_items` of `at_root` for each rank;
 * both describe the same signature. In place is the root's own part only.
 */
static void one(const struct layout *at_root, MPI_Count root_items, const struct layout *others,
                MPI_Count items, int root, bool in_place);

static void byte_counts(void) {
    struct layout bytes = layout_basic("byte", MPI_BYTE, 1);
    for (int i = 0; i < SIZES; i++) {
        MPI_Count each = sizes[i] / world_size;
        for (int turn = 0; turn < roots(); turn++) {
            one(&bytes, each, &bytes, each, root_of(i + turn), turn % 2);
            one(&bytes, each, &bytes, each, root_of(i + turn), turn % 2 == 0);
        }
    }
    for (int i = 0; i < large_sizes(); i++) {
        MPI_Count each = LARGE_SIZES[i] / world_size;
        one(&bytes, each, &bytes, each, root_of(i), i % 2);
    }
}

static void same_layouts(struct layout layout, const MPI_Count *items, int count, int turn) {
    for (int i = 0; i < count; i++) {
        if (items[i] * world_size <= layout.limit) {
            one(&layout, items[i], &layout, items[i], root_of(turn + i), false);
            one(&layout, items[i], &layout, items[i], root_of(turn + i + 1), true);
        }
    }
    layout_free(&layout);
}

/* The types may differ between the sides, and from rank to rank. */
static void different_layouts(void) {
    static const MPI_Count units[] = {1, 2, 5};
    for (int turn = 0; turn < 2 * INT_LAYOUTS; turn++) {
        struct layout at_root = layout_of_ints(turn % INT_LAYOUTS);
        struct layout others = layout_of_ints((world_rank + turn + 1) % INT_LAYOUTS);
        MPI_Count ints = units[turn % 3] * INTS_UNIT;
        one(&at_root, ints / at_root.atoms, &others, ints / others.atoms, root_of(turn), turn % 2);
        layout_free(&at_root);
        layout_free(&others);
    }
}

static void every_case(void) {
    byte_counts();
    for (int which = 0; which < INT_LAYOUTS; which++) {
        same_layouts(layout_of_ints(which), (MPI_Count[]){1, 2, 17}, 3, which);
    }
    for (int which = 0; which < RECORD_LAYOUTS; which++) {
        same_layouts(layout_of_record(which), (MPI_Count[]){1, 13}, 2, which);
    }
    for (int which = 0; which < EMPTY_LAYOUTS; which++) {
        same_layouts(layout_of_nothing(which), (MPI_Count[]){3}, 1, which);
    }
    different_layouts();
}

#endif
