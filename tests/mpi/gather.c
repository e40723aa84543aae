/* MPI_Gather: datatypes (equal and different on the two sides), every root, in place, sizes. */
#include <stdlib.h>

#include "calls.h"
#include "check.h"
#include "rooted.h"

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

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "gather", MPI_THREAD_SINGLE);
    every_case();
    return check_end();
}
