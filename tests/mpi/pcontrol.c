/*
 * MPI_Pcontrol: level 0 sends all calls that follow to the MPI library, any other takes that back,
 * whatever arguments follow it.
 *
 * The harness counts what becomes of the calls while circulant is on. Of those, rank 0 prints how
 * many of each operation are made while it is off: "instead circulant switched_off 20".
 */
#include <stdio.h>

#include "check.h"
#include "medley.h"

enum { ITEMS = 300, MOST = 8 };

struct group {
    MPI_Comm comm;
    int color;
};

static struct group groups[MOST];
static int known;

static bool on = true;
static int switches;

/* Calls of each operation while off, on communicators of several processes and of one. */
static int off_together, off_alone;

static void add(MPI_Comm comm, int color) {
    groups[known].comm = comm;
    groups[known++].color = color;
}

static void everywhere(const char *when) {
    for (int i = 0; i < known; i++) {
        int size;
        MPI_Comm_size(groups[i].comm, &size);
        check_case("%s, communicator %d", when, i);
        check_color(groups[i].color);
        medley(groups[i].comm, ITEMS);
        check_color(0);
        if (!on) {
            *(size == 1 ? &off_alone : &off_together) += 1;
        }
    }
}

static void switched(int code, bool is_on) {
    check_success(code, "MPI_Pcontrol");
    on = is_on;
    switches++;
}

int main(int argc, char **argv) {
    MPI_Comm comm;
    check_begin(&argc, &argv, "pcontrol", MPI_THREAD_SINGLE);
    add(MPI_COMM_WORLD, 0);
    add(MPI_COMM_SELF, world_rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    add(comm, 0);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, 0, &comm);
    add(comm, world_rank % 2);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comm);
    add(comm, 0);
    everywhere("at first");

    switched(MPI_Pcontrol(0), false);
    everywhere("off");
    /* Circulant meets this one while it is off. */
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    add(comm, 0);
    everywhere("off, and one more");
    switched(MPI_Pcontrol(1), true);
    everywhere("on");

    switched(MPI_Pcontrol(0, "name", 3), false);
    everywhere("off with arguments");
    switched(MPI_Pcontrol(1, "name", 3), true);
    everywhere("on with arguments");

    switched(MPI_Pcontrol(0), false);
    switched(MPI_Pcontrol(0), false);
    everywhere("off twice");
    switched(MPI_Pcontrol(2), true);
    everywhere("at level 2");
    switched(MPI_Pcontrol(2, 3.5, "name", 4L), true);
    everywhere("at level 2 with arguments");

    /* The last of the communicators go while it is off. */
    switched(MPI_Pcontrol(0), false);
    for (int i = 2; i < known; i++) {
        MPI_Comm_free(&groups[i].comm);
    }
    known = 2;
    everywhere("off, with communicators freed");
    switched(MPI_Pcontrol(1), true);
    everywhere("on at last");
    if (world_rank == 0) {
        printf("instead circulant switched_off %d\n", off_together);
        printf("instead one_process switched_off %d\n", off_alone);
        printf("switches=%d\n", switches);
    }
    return check_end();
}
