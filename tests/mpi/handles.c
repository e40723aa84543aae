/*
 * Handles that are freed and used again: what was known of a communicator or a datatype must not be
 * taken for what has its handle now.
 */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"

enum { LIVE = 300, TURNS = 200, INTS = 3, ELEMENTS = 4, ROOM = 2 * INTS * ELEMENTS };

/* Which int of an element is at `place`, in ints from its address; -1 in a gap. */
struct shape {
    int places[INTS];
    int extent;
};

static const struct shape SHAPES[] = {
    {{0, 1, 2}, 3}, /* dense */
    {{0, 2, 4}, 6}, /* with gaps */
    {{2, 1, 0}, 3}, /* dense, but in another order */
    {{1, 2, 4}, 5}, /* with a gap, and a margin before it */
};

static MPI_Datatype type_of(const struct shape *shape) {
    MPI_Datatype part, type;
    MPI_Type_create_indexed_block(INTS, 1, shape->places, MPI_INT, &part);
    MPI_Type_create_resized(part, 0, shape->extent * (MPI_Aint)sizeof(int), &type);
    MPI_Type_free(&part);
    MPI_Type_commit(&type);
    return type;
}

static int value(int turn, int index) {
    return turn * 1000 + index * 7 + 1;
}

/* Every rank describes the ints in its own way, another one in every turn. */
static void datatypes(void) {
    for (int turn = 0; turn < TURNS; turn++) {
        const struct shape *shape = &SHAPES[(turn + world_rank) % 4];
        int data[ROOM], expected[ROOM];
        memset(data, 0x55, sizeof data);
        memset(expected, 0x55, sizeof expected);
        for (int element = 0; element < ELEMENTS; element++) {
            for (int i = 0; i < INTS; i++) {
                int place = element * shape->extent + shape->places[i];
                expected[place] = value(turn, element * INTS + i);
            }
        }
        if (world_rank == turn % world_size) {
            memcpy(data, expected, sizeof data);
        }
        check_case("datatype %d", turn);
        MPI_Datatype type = type_of(shape);
        bcast(data, ELEMENTS, type, turn % world_size, MPI_COMM_WORLD);
        bcast(data, ELEMENTS, type, turn % world_size, MPI_COMM_WORLD);
        check(memcmp(data, expected, sizeof data) == 0, "other data");
        check_digest(data, sizeof data);
        MPI_Type_free(&type);
        MPI_Type_contiguous(0, MPI_INT, &type);
        MPI_Type_commit(&type);
        bcast(data, 1, type, 0, MPI_COMM_WORLD);
        MPI_Type_free(&type);
    }
}

static void use(MPI_Comm comm, int number) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int data = rank == number % size ? value(number, size) : -1;
    check_case("communicator %d", number);
    bcast(&data, 1, MPI_INT, number % size, comm);
    check(data == value(number, size), "%d arrived", data);
    check_digest(&data, sizeof data);
}

/* More than have room in any small table; and others of other processes in the place of some. */
static void communicators(void) {
    static MPI_Comm comms[LIVE];
    for (int i = 0; i < LIVE; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        use(comms[i], i);
    }
    for (int i = 0; i < LIVE; i++) {
        use(comms[i], i);
        if (i % 2 == 0) {
            MPI_Comm_free(&comms[i]);
            MPI_Comm_split(MPI_COMM_WORLD, (world_rank + i) % 2, -world_rank, &comms[i]);
        }
    }
    for (int i = 0; i < LIVE; i++) {
        use(comms[i], LIVE + i);
        MPI_Comm_free(&comms[i]);
    }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "handles", MPI_THREAD_SINGLE);
    datatypes();
    communicators();
    return check_end();
}
