/* MPI_Allgather: datatypes (equal and different on the two sides), in place, sizes. */
#include <stdlib.h>

#include "calls.h"
#include "check.h"
#include "layout.h"
#include "sizes.h"

/* Both layouts describe the same signature. */
static void one(const struct layout *from, MPI_Count send_items, const struct layout *to,
                MPI_Count receive_items, bool in_place) {
    if (!is_chosen()) {
        return;
    }
    check_case("%lld items of %s to %s%s", (long long)send_items, from->name, to->name,
               in_place ? ", in place" : "");
    struct buffer send = buffer_new(from, send_items);
    struct buffer receive = buffer_new(to, receive_items * world_size);
    for (int rank = 0; rank < world_size; rank++) {
        unsigned char *data = stream(rank, (size_t)send_items * from->packed);
        buffer_expect(&receive, rank * receive_items, receive_items, data);
        if (rank == world_rank && in_place) {
            buffer_input(&receive, rank * receive_items, receive_items, data);
        } else if (rank == world_rank) {
            buffer_input(&send, 0, send_items, data);
        }
        free(data);
    }
    if (in_place) {
        /* The send count and type are not significant. */
        allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, receive.origin, receive_items, to->type,
                  MPI_COMM_WORLD);
    } else {
        allgather(send.origin, send_items, from->type, receive.origin, receive_items, to->type,
                  MPI_COMM_WORLD);
    }
    buffer_check(&receive, "receive buffer");
    buffer_check(&send, "send buffer");
}

static void byte_counts(void) {
    struct layout bytes = layout_basic("byte", MPI_BYTE, 1);
    for (int i = 0; i < SIZES; i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            one(&bytes, sizes[i], &bytes, sizes[i], in_place);
        }
    }
    for (int i = 0; i < large_sizes(); i++) {
        one(&bytes, LARGE_SIZES[i] / world_size, &bytes, LARGE_SIZES[i] / world_size, i % 2);
    }
}

static void same_layouts(struct layout layout, const MPI_Count *items, int count) {
    layout_check(&layout);
    for (int i = 0; i < count; i++) {
        if (items[i] * world_size <= layout.limit) {
            one(&layout, items[i], &layout, items[i], false);
            one(&layout, items[i], &layout, items[i], true);
        }
    }
    layout_free(&layout);
}

/* In MPI_Allgather the types may differ between the sides, and from rank to rank. */
static void different_layouts(void) {
    static const MPI_Count units[] = {1, 2, 25};
    for (int turn = 0; turn < 2 * INT_LAYOUTS; turn++) {
        struct layout from = layout_of_ints((world_rank + turn) % INT_LAYOUTS);
        struct layout to = layout_of_ints((2 * world_rank + turn + 1) % INT_LAYOUTS);
        MPI_Count ints = units[turn % 3] * INTS_UNIT;
        one(&from, ints / from.atoms, &to, ints / to.atoms, false);
        one(&from, ints / from.atoms, &to, ints / to.atoms, true);
        layout_free(&from);
        layout_free(&to);
    }
    for (int turn = 0; turn < 2 * RECORD_LAYOUTS; turn++) {
        struct layout from = layout_of_record((world_rank + turn) % RECORD_LAYOUTS);
        struct layout to = layout_of_record((world_rank + turn + 1) % RECORD_LAYOUTS);
        one(&from, 77, &to, 77, false);
        layout_free(&from);
        layout_free(&to);
    }
}

/* One element that is larger than what is looked at to see whether it is contiguous. */
static void large_element(void) {
    enum { INTS = 30000 };
    MPI_Datatype inner, outer;
    MPI_Type_contiguous(INTS / 2, MPI_INT, &inner);
    MPI_Type_contiguous(2, inner, &outer);
    MPI_Type_commit(&outer);
    int *send = allocate(sizeof(int) * INTS);
    int *receive = allocate(sizeof(int) * INTS * (size_t)world_size);
    for (int turn = 0; turn < 2; turn++) {
        check_case("elements of %d ints, turn %d", INTS, turn);
        for (int i = 0; i < INTS; i++) {
            send[i] = world_rank * INTS + i + turn;
        }
        allgather(send, turn ? INTS : 1, turn ? MPI_INT : outer, receive, turn ? 1 : INTS,
                  turn ? outer : MPI_INT, MPI_COMM_WORLD);
        int wrong = 0;
        for (int i = 0; i < INTS * world_size; i++) {
            wrong += receive[i] != i + turn;
        }
        check(wrong == 0, "%d ints are wrong", wrong);
        check_digest(receive, sizeof(int) * INTS * (size_t)world_size);
    }
    MPI_Type_free(&inner);
    MPI_Type_free(&outer);
    free(send);
    free(receive);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "allgather", MPI_THREAD_SINGLE);
    byte_counts();
    for (int which = 0; which < INT_LAYOUTS; which++) {
        same_layouts(layout_of_ints(which), item_counts, ITEM_COUNTS);
    }
    for (int which = 0; which < RECORD_LAYOUTS; which++) {
        same_layouts(layout_of_record(which), (MPI_Count[]){1, 99}, 2);
    }
    for (int which = 0; which < EMPTY_LAYOUTS; which++) {
        same_layouts(layout_of_nothing(which), (MPI_Count[]){3}, 1);
    }
    different_layouts();
    large_element();
    return check_end();
}
