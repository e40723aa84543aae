/* MPI_Gather: datatypes (equal and different on the two sides), every root, in place, sizes. */
#include <stdlib.h>

#include "calls.h"
#include "check.h"
#include "layout.h"
#include "sizes.h"

/* Both layouts describe the same signature: that of the root, and that of the others. */
static void one(const struct layout *at_root, MPI_Count root_items, const struct layout *others,
                MPI_Count items, int root, bool in_place) {
    if (!is_chosen()) {
        return;
    }
    check_case("%lld items of %s, %s at root %d%s", (long long)items, others->name, at_root->name,
               root, in_place ? ", in place" : "");
    bool is_root = world_rank == root;
    struct buffer part = buffer_new(others, items);
    struct buffer all = buffer_new(at_root, is_root ? root_items * world_size : 0);
    for (int rank = 0; rank < world_size; rank++) {
        unsigned char *data = stream(rank, (size_t)items * others->packed);
        if (is_root) {
            buffer_expect(&all, rank * root_items, root_items, data);
        }
        if (rank == world_rank && is_root && in_place) {
            buffer_input(&all, rank * root_items, root_items, data);
        } else if (rank == world_rank) {
            buffer_input(&part, 0, items, data);
        }
        free(data);
    }
    /* What is not significant is nothing that could be used. */
    if (!is_root) {
        gather(part.origin, items, others->type, NULL, -1, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD);
    } else if (in_place) {
        gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.origin, root_items, at_root->type, root,
               MPI_COMM_WORLD);
    } else {
        gather(part.origin, items, others->type, all.origin, root_items, at_root->type, root,
               MPI_COMM_WORLD);
    }
    buffer_check(&part, "part");
    buffer_check(&all, "whole");
}

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

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "gather", MPI_THREAD_SINGLE);
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
    return check_end();
}
