/* MPI_Allgatherv: regular, irregular and degenerate counts, displacements with gaps and permuted,
 * datatypes, in place. */
#include <stdlib.h>

#include "calls.h"
#include "check.h"
#include "layout.h"
#include "sizes.h"
#include "spread.h"

/* counts and displacements are in items of `to`; ratio items of `from` make one of `to`. */
static void one(const struct layout *from, const struct layout *to, const MPI_Count *counts,
                const MPI_Aint *displacements, MPI_Count items, bool in_place) {
    MPI_Count send_items =
        from->packed ? counts[world_rank] * (MPI_Count)to->packed / (MPI_Count)from->packed
                     : counts[world_rank];
    struct buffer send = buffer_new(from, send_items), receive = buffer_new(to, items);
    for (int rank = 0; rank < world_size; rank++) {
        unsigned char *data = stream(rank, (size_t)counts[rank] * to->packed);
        buffer_expect(&receive, displacements[rank], counts[rank], data);
        if (rank == world_rank && in_place) {
            buffer_input(&receive, displacements[rank], counts[rank], data);
        } else if (rank == world_rank) {
            buffer_input(&send, 0, send_items, data);
        }
        free(data);
    }
    if (in_place) {
        /* The send count and type are not significant. */
        allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, receive.origin, counts, displacements,
                   to->type, MPI_COMM_WORLD);
    } else {
        /* As an empty std::vector's data(). */
        allgatherv(send_items > 0 ? send.origin : NULL, send_items, from->type, receive.origin,
                   counts, displacements, to->type, MPI_COMM_WORLD);
    }
    buffer_check(&receive, "receive buffer");
    buffer_check(&send, "send buffer");
}

/* Counts are multiples of `unit` but for the spreads with fixed remainders: those need unit 1. */
static void every_spread(const struct layout *from, const struct layout *to, MPI_Count unit,
                         MPI_Count multiple, bool in_place) {
    MPI_Count *counts = allocate(sizeof(MPI_Count) * (size_t)world_size);
    MPI_Aint *displacements = allocate(sizeof(MPI_Aint) * (size_t)world_size);
    for (int which = 0; which < SPREADS; which++) {
        const char *spread = spread_counts(which, unit, counts);
        if (!is_chosen()) {
            continue;
        }
        for (int rank = 0; rank < world_size; rank++) {
            counts[rank] *= multiple;
        }
        int placing = (int)((which + check_iteration()) % PLACINGS);
        MPI_Count items = spread_place(placing, counts, displacements);
        check_case("%lld items %s, placing %d, %s to %s%s",
                   (long long)spread_total(counts, world_size), spread, placing, from->name,
                   to->name, in_place ? ", in place" : "");
        if (items <= to->limit) {
            one(from, to, counts, displacements, items, in_place);
        }
    }
    free(counts);
    free(displacements);
}

static void byte_counts(void) {
    struct layout bytes = layout_basic("byte", MPI_BYTE, 1);
    for (int i = 0; i < SIZES; i++) {
        every_spread(&bytes, &bytes, sizes[i] / world_size, 1, i % 2);
    }
    for (int i = 0; i < large_sizes(); i++) {
        every_spread(&bytes, &bytes, LARGE_SIZES[i] / 4 / world_size, 1, i % 2);
    }
}

static void same_layouts(struct layout layout) {
    for (int i = 0; i < ITEM_COUNTS; i++) {
        every_spread(&layout, &layout, item_counts[i] / 3, 1, i % 2);
    }
    layout_free(&layout);
}

/* The receive type must be the same on all ranks only in its signature. */
static void different_layouts(void) {
    for (int turn = 0; turn < 2 * INT_LAYOUTS; turn++) {
        struct layout from = layout_of_ints((world_rank + turn) % INT_LAYOUTS);
        struct layout to = layout_of_ints(turn % INT_LAYOUTS);
        every_spread(&from, &to, 1 + turn % 5, INTS_UNIT, turn % 2);
        layout_free(&from);
        layout_free(&to);
    }
    for (int turn = 0; turn < RECORD_LAYOUTS; turn++) {
        struct layout from = layout_of_record((world_rank + turn) % RECORD_LAYOUTS);
        struct layout to = layout_of_record((world_rank + turn + 1) % RECORD_LAYOUTS);
        every_spread(&from, &to, 20, 1, false);
        layout_free(&from);
        layout_free(&to);
    }
}

/* Receive types of different sizes, with counts and displacements of each rank's own. */
static void different_counts(void) {
    for (int turn = 0; turn < INT_LAYOUTS; turn++) {
        struct layout from = layout_of_ints(0);
        struct layout to = layout_of_ints((world_rank + turn) % INT_LAYOUTS);
        MPI_Count *counts = allocate(sizeof(MPI_Count) * (size_t)world_size);
        MPI_Aint *displacements = allocate(sizeof(MPI_Aint) * (size_t)world_size);
        for (int rank = 0; rank < world_size; rank++) {
            counts[rank] = (rank + turn) % 4 * INTS_UNIT / to.atoms;
        }
        int placing = (world_rank + turn) % PLACINGS;
        MPI_Count items = spread_place(placing, counts, displacements);
        check_case("turn %d, a receive type and displacements for each rank", turn);
        one(&from, &to, counts, displacements, items, turn % 2);
        layout_free(&to);
        free(counts);
        free(displacements);
    }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "allgatherv", MPI_THREAD_SINGLE);
    byte_counts();
    for (int which = 0; which < INT_LAYOUTS; which++) {
        same_layouts(layout_of_ints(which));
    }
    for (int which = 0; which < RECORD_LAYOUTS; which++) {
        same_layouts(layout_of_record(which));
    }
    for (int which = 0; which < EMPTY_LAYOUTS; which++) {
        same_layouts(layout_of_nothing(which));
    }
    different_layouts();
    different_counts();
    return check_end();
}
