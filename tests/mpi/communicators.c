/* Communicators of every kind, several at a time, and many one after the other. */
#include <stdlib.h>

#include "check.h"
#include "medley.h"

enum { KINDS = 8, ITEMS = 300 };

/* MPI_COMM_NULL on a rank that does not belong to it. *color tells groups of one split apart. */
static MPI_Comm communicator(int kind, int *color) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group world, group;
    *color = 0;
    switch (kind) {
    case 0:
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        break;
    case 1:
        *color = world_rank;
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        break;
    case 2:
        *color = world_rank % 2;
        MPI_Comm_split(MPI_COMM_WORLD, *color, 0, &comm);
        break;
    case 3: /* the ranks reversed */
        MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comm);
        break;
    case 4: /* without the last third of the ranks, by a group */
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_range_incl(world, 1, (int[][3]){{0, world_size * 2 / 3, 1}}, &group);
        MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
        MPI_Group_free(&group);
        MPI_Group_free(&world);
        break;
    case 5: /* every rank but one, which is left without */
        MPI_Comm_split(MPI_COMM_WORLD, world_rank == world_size / 2 ? MPI_UNDEFINED : 7,
                       world_rank * 13 % world_size, &comm);
        break;
    case 6:
        MPI_Cart_create(MPI_COMM_WORLD, 1, &world_size, (int[]){1}, 1, &comm);
        break;
    case 7: /* three groups, of a communicator that is freed at once */
        *color = world_rank % 3;
        MPI_Comm parent;
        MPI_Comm_dup(MPI_COMM_WORLD, &parent);
        MPI_Comm_split(parent, *color, world_rank, &comm);
        MPI_Comm_free(&parent);
        break;
    }
    return comm;
}

static void one(MPI_Comm comm, int color, int items) {
    check_color(color);
    if (comm != MPI_COMM_NULL) {
        medley(comm, items);
    }
    check_color(0);
}

static void each_kind(void) {
    check_case("MPI_COMM_WORLD");
    medley(MPI_COMM_WORLD, ITEMS);
    check_case("MPI_COMM_SELF");
    one(MPI_COMM_SELF, world_rank, ITEMS);
    for (int kind = 0; kind < KINDS; kind++) {
        int color;
        MPI_Comm comm = communicator(kind, &color);
        for (int call = 0; call < 3; call++) {
            check_case("kind %d, call %d", kind, call);
            one(comm, color, ITEMS);
        }
        if (comm != MPI_COMM_NULL) {
            MPI_Comm_free(&comm);
        }
    }
}

static void interleaved(void) {
    MPI_Comm comm[KINDS];
    int color[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        comm[kind] = communicator(kind, &color[kind]);
    }
    for (int turn = 0; turn < 8 * KINDS; turn++) {
        int kind = (int)(mix((uint64_t)turn, 0, 0, 6) % KINDS);
        check_case("turn %d, kind %d of %d at a time", turn, kind, KINDS);
        one(comm[kind], color[kind], ITEMS);
    }
    for (int kind = KINDS - 1; kind >= 0; kind--) {
        if (comm[kind] != MPI_COMM_NULL) {
            MPI_Comm_free(&comm[kind]);
        }
    }
}

/* More than MPICH has context ids, where that is quick: none may be lost with a communicator. */
static void made_and_freed(void) {
    int turns = world_size <= 2 ? 2100 : world_size <= 8 ? 200 : 60;
    for (int turn = 0; turn < turns; turn++) {
        int color;
        MPI_Comm comm = communicator(turn % 2 ? 0 : 3, &color);
        check_case("turn %d of %d", turn, turns);
        one(comm, color, 8);
        MPI_Comm_free(&comm);
    }
}

static int handled;

static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    handled++;
}

/*
 * How often the handler of MPI_COMM_WORLD runs for errors without a communicator. MPICH 5 lets it only
 * while nobody has set a handler of MPI_COMM_SELF.
 */
static int handled_of_none(void) {
    int size, before = handled;
    MPI_Datatype none = MPI_DATATYPE_NULL;
    MPI_Errhandler own;
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
    MPI_Comm_size(MPI_COMM_NULL, &size);
    MPI_Type_commit(&none);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&own);
    return handled - before;
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "communicators", MPI_THREAD_SINGLE);
    check_case("on MPI_COMM_WORLD first");
    int runs = handled_of_none();
    check(runs > 0, "the handler did not run");
    medley(MPI_COMM_WORLD, ITEMS);
    check(handled_of_none() == runs, "the handler does not run as before");
    each_kind();
    interleaved();
    made_and_freed();
    return check_end();
}
