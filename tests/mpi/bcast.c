/* MPI_Bcast: every root, datatypes (equal and different on the ranks), sizes around block bounds.
 */
#include <stdlib.h>

#include "calls.h"
#include "check.h"
#include "layout.h"
#include "sizes.h"

/* One broadcast of packed data; `layout` and `items` are this rank's description of it. */
static void one(const struct layout *layout, MPI_Count items, const void *data, int root,
                MPI_Comm comm) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    struct buffer buffer = buffer_new(layout, items);
    if (rank == root) {
        buffer_input(&buffer, 0, items, data);
    } else {
        buffer_expect(&buffer, 0, items, data);
    }
    bcast(buffer.origin, items, layout->type, root, comm);
    buffer_check(&buffer, "buffer");
}

static void same_layout(const struct layout *layout, MPI_Count items) {
    for (int turn = 0; turn < roots(); turn++) {
        if (!is_chosen()) {
            continue;
        }
        int root = root_of(turn);
        check_case("root %d, %lld items of %s", root, (long long)items, layout->name);
        unsigned char *data = stream(root, (size_t)items * layout->packed);
        one(layout, items, data, root, MPI_COMM_WORLD);
        free(data);
    }
}

static void byte_counts(void) {
    struct layout bytes = layout_basic("byte", MPI_BYTE, 1);
    for (int i = 0; i < SIZES; i++) {
        same_layout(&bytes, sizes[i]);
    }
    for (int i = 0; i < large_sizes(); i++) {
        check_case("root %d, %lld bytes", root_of(i), (long long)LARGE_SIZES[i]);
        unsigned char *data = stream(root_of(i), (size_t)LARGE_SIZES[i]);
        one(&bytes, LARGE_SIZES[i], data, root_of(i), MPI_COMM_WORLD);
        free(data);
    }
}

static void derived_types(void) {
    for (int which = 0; which < INT_LAYOUTS; which++) {
        struct layout layout = layout_of_ints(which);
        layout_check(&layout);
        for (int i = 0; i < ITEM_COUNTS; i++) {
            same_layout(&layout, item_counts[i]);
        }
        layout_free(&layout);
    }
    for (int which = 0; which < RECORD_LAYOUTS; which++) {
        struct layout layout = layout_of_record(which);
        layout_check(&layout);
        same_layout(&layout, 1);
        same_layout(&layout, 333);
        layout_free(&layout);
    }
    for (int which = 0; which < EMPTY_LAYOUTS; which++) {
        struct layout layout = layout_of_nothing(which);
        layout_check(&layout);
        same_layout(&layout, 3);
        layout_free(&layout);
    }
}

/* Every rank describes the same ints by a type of its own. */
static void different_layouts(void) {
    static const MPI_Count units[] = {1, 2, 17, 300};
    for (int turn = 0; turn < 2 * INT_LAYOUTS; turn++) {
        struct layout layout = layout_of_ints((world_rank + turn) % INT_LAYOUTS);
        MPI_Count ints = units[turn % 4] * INTS_UNIT;
        check_case("root %d, %lld ints, a layout for each rank", root_of(turn), (long long)ints);
        unsigned char *data = stream(root_of(turn), (size_t)ints * sizeof(int));
        one(&layout, ints / layout.atoms, data, root_of(turn), MPI_COMM_WORLD);
        free(data);
        layout_free(&layout);
    }
    for (int turn = 0; turn < 2 * RECORD_LAYOUTS; turn++) {
        struct layout layout = layout_of_record((world_rank + turn) % RECORD_LAYOUTS);
        check_case("root %d, 500 records, an arrangement for each rank", root_of(turn));
        unsigned char *data = stream(root_of(turn), 500 * layout.packed);
        one(&layout, 500, data, root_of(turn), MPI_COMM_WORLD);
        free(data);
        layout_free(&layout);
    }
}

/* The root sends one int many times over, by a type of extent 0. */
static void repeated_int(void) {
    enum { INTS = 1000 };
    struct layout plain = layout_of_ints(0), repeated = layout_repeated_int();
    for (int turn = 0; turn < roots(); turn++) {
        int root = root_of(turn), data[INTS];
        check_case("root %d, %d times the same int", root, INTS);
        for (int i = 0; i < INTS; i++) {
            data[i] = 1000 * root + 7;
        }
        one(world_rank == root ? &repeated : &plain, INTS, data, root, MPI_COMM_WORLD);
    }
    layout_free(&repeated);
}

/* The same data, but by absolute addresses: two pieces of the buffer in reverse order. */
static void absolute_addresses(void) {
    enum { INTS = 3000, FIRST = 1000 };
    struct layout ints = layout_of_ints(0);
    for (int turn = 0; turn < roots(); turn++) {
        int root = root_of(turn);
        check_case("root %d, MPI_BOTTOM", root);
        int *data = (int *)stream(root, INTS * sizeof(int));
        struct buffer buffer = buffer_new(&ints, INTS);
        int *origin = buffer.origin;
        MPI_Aint address[2];
        MPI_Get_address(origin + FIRST, &address[0]);
        MPI_Get_address(origin, &address[1]);
        MPI_Datatype absolute;
        MPI_Type_create_hindexed(2, (int[]){INTS - FIRST, FIRST}, address, MPI_INT, &absolute);
        MPI_Type_commit(&absolute);
        if (world_rank == root) {
            buffer_input(&buffer, 0, INTS, data);
        } else {
            buffer_expect(&buffer, 0, INTS, data);
        }
        bcast(MPI_BOTTOM, 1, absolute, root, MPI_COMM_WORLD);
        buffer_check(&buffer, "buffer");
        MPI_Type_free(&absolute);
        free(data);
    }
}

/* Nothing between the calls, so that a fast rank is in a later call than a slow one. */
static void successive(void) {
    enum { CALLS = 200, INTS = 100 };
    static int received[CALLS][INTS];
    check_case("%d calls in succession", CALLS);
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < INTS && world_rank == call % world_size; i++) {
            received[call][i] = (int)mix((uint64_t)call, (uint64_t)i, 0, 3);
        }
        bcast(received[call], INTS, MPI_INT, call % world_size, MPI_COMM_WORLD);
    }
    for (int call = 0; call < CALLS; call++) {
        int wrong = 0;
        for (int i = 0; i < INTS; i++) {
            wrong += received[call][i] != (int)mix((uint64_t)call, (uint64_t)i, 0, 3);
        }
        check(wrong == 0, "call %d: %d ints are wrong", call, wrong);
    }
    check_digest(received, sizeof received);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "bcast", MPI_THREAD_SINGLE);
    byte_counts();
    derived_types();
    different_layouts();
    repeated_int();
    absolute_addresses();
    successive();
    return check_end();
}
