/* MPI_Alltoall: datatypes (equal and different on the two sides), in place, sizes. */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"
#include "layout.h"
#include "sizes.h"

/* What `from` sends to `to`: a part of the stream of `from` that is only theirs. */
static unsigned char *data_for(int from, int to, size_t bytes) {
    unsigned char *all = stream(from, bytes * (size_t)world_size);
    unsigned char *part = allocate(bytes);
    memcpy(part, all + (size_t)to * bytes, bytes);
    free(all);
    return part;
}

/* Both layouts describe the same signature. */
static void one(const struct layout *from, MPI_Count send_items, const struct layout *to,
                MPI_Count receive_items, bool in_place) {
    if (!is_chosen()) {
        return;
    }
    check_case("%lld items of %s to %s%s", (long long)send_items, from->name, to->name,
               in_place ? ", in place" : "");
    struct buffer send = buffer_new(from, send_items * world_size);
    struct buffer receive = buffer_new(to, receive_items * world_size);
    size_t bytes = (size_t)send_items * from->packed;
    for (int rank = 0; rank < world_size; rank++) {
        unsigned char *sent = data_for(world_rank, rank, bytes);
        if (in_place) {
            buffer_input(&receive, rank * receive_items, receive_items, sent);
        } else {
            buffer_input(&send, rank * send_items, send_items, sent);
        }
        free(sent);
    }
    for (int rank = 0; rank < world_size; rank++) {
        unsigned char *received = data_for(rank, world_rank, bytes);
        buffer_expect(&receive, rank * receive_items, receive_items, received);
        free(received);
    }
    if (in_place) {
        /* The send count and type are not significant. */
        alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, receive.origin, receive_items, to->type,
                 MPI_COMM_WORLD);
    } else {
        alltoall(send.origin, send_items, from->type, receive.origin, receive_items, to->type,
                 MPI_COMM_WORLD);
    }
    buffer_check(&receive, "receive buffer");
    buffer_check(&send, "send buffer");
}

static void byte_counts(void) {
    struct layout bytes = layout_basic("byte", MPI_BYTE, 1);
    for (int i = 0; i < SIZES; i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            one(&bytes, sizes[i] / world_size, &bytes, sizes[i] / world_size, in_place);
        }
    }
    for (int i = 0; i < large_sizes(); i++) {
        one(&bytes, LARGE_SIZES[i] / world_size, &bytes, LARGE_SIZES[i] / world_size, i % 2);
    }
}

static void same_layouts(struct layout layout, const MPI_Count *items, int count) {
    for (int i = 0; i < count; i++) {
        if (items[i] * world_size <= layout.limit) {
            one(&layout, items[i], &layout, items[i], false);
            one(&layout, items[i], &layout, items[i], true);
        }
    }
    layout_free(&layout);
}

/* The types may differ between the sides, and from rank to rank. */
static void different_layouts(void) {
    static const MPI_Count units[] = {1, 2, 5};
    for (int turn = 0; turn < 2 * INT_LAYOUTS; turn++) {
        struct layout from = layout_of_ints((world_rank + turn) % INT_LAYOUTS);
        struct layout to = layout_of_ints((2 * world_rank + turn + 1) % INT_LAYOUTS);
        MPI_Count ints = units[turn % 3] * INTS_UNIT;
        one(&from, ints / from.atoms, &to, ints / to.atoms, false);
        one(&from, ints / from.atoms, &to, ints / to.atoms, true);
        layout_free(&from);
        layout_free(&to);
    }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "alltoall", MPI_THREAD_SINGLE);
    byte_counts();
    for (int which = 0; which < INT_LAYOUTS; which++) {
        same_layouts(layout_of_ints(which), (MPI_Count[]){1, 2, 17}, 3);
    }
    for (int which = 0; which < RECORD_LAYOUTS; which++) {
        same_layouts(layout_of_record(which), (MPI_Count[]){1, 13}, 2);
    }
    for (int which = 0; which < EMPTY_LAYOUTS; which++) {
        same_layouts(layout_of_nothing(which), (MPI_Count[]){3}, 1);
    }
    different_layouts();
    return check_end();
}
