/*
 * Ranks that differ, for the report over all of them: in when they come to a call, in which calls they
 * make, and in how many. Rank 0 prints for each rank, operation and size how many calls it made, of how
 * many of these it is the one process that counts them (the root between groups, else rank 0), and the
 * seconds in them as the program sees them:
 *
 *     made RANK OPERATION BYTES CALLS FIRST SECONDS
 *
 * Then all end as the argument says: "finalize"; or the last rank, a second after the others, by "kill"
 * or by "exit" without MPI_Finalize.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { BCASTS = 6, LATE_MS = 50, ON_SELF = 2, BETWEEN = 3, KINDS = 5, MOST = 10000 };

static struct kind {
    const char *operation;
    long bytes;
    double calls, first, seconds;
} kinds[KINDS] = {
    {"bcast", 40000, 0, 0, 0}, {"allreduce", 8000, 0, 0, 0}, {"reduce", 100, 0, 0, 0},
    {"bcast", 10000, 0, 0, 0}, {"bcast", 0, 0, 0, 0},
};

static int buffer[MOST], result[MOST];

static void sleep_for(long milliseconds) {
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

static void count(int kind, int is_first, double start) {
    kinds[kind].seconds += MPI_Wtime() - start;
    kinds[kind].calls += 1;
    kinds[kind].first += is_first;
}

/* The last rank is the root, and comes late. */
static void late_root(void) {
    for (int call = 0; call < BCASTS; call++) {
        if (world_rank == world_size - 1) {
            sleep_for(LATE_MS);
        }
        double start = MPI_Wtime();
        MPI_Bcast(buffer, 10000, MPI_INT, world_size - 1, MPI_COMM_WORLD);
        count(0, world_rank == 0, start);
    }
}

/* Even ranks make three calls among themselves, and odd ones five. */
static void halves(void) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, 0, &half);
    int rank;
    MPI_Comm_rank(half, &rank);
    for (int call = 0; call < (world_rank % 2 ? 5 : 3); call++) {
        double start = MPI_Wtime();
        MPI_Allreduce(buffer, result, 2000, MPI_INT, MPI_SUM, half);
        count(1, rank == 0, start);
    }
    MPI_Comm_free(&half);
}

static void alone(void) {
    for (int call = 0; world_rank == 0 && call < ON_SELF; call++) {
        double start = MPI_Wtime();
        MPI_Reduce(buffer, result, 25, MPI_INT, MPI_SUM, 0, MPI_COMM_SELF);
        count(2, 1, start);
    }
}

/* Between rank 0 and the others, or with more than three ranks between the first two and the others.
 * The root's neighbours do not know the size. */
static void between_groups(void) {
    if (world_size == 1) {
        return;
    }
    const int leaders = world_size > 3 ? 2 : 1, leads = world_rank < leaders;
    MPI_Comm own, inter;
    MPI_Comm_split(MPI_COMM_WORLD, leads, 0, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, leads ? leaders : 0, 1, &inter);
    for (int call = 0; call < BETWEEN; call++) {
        const int root = leads ? (world_rank == leaders - 1 ? MPI_ROOT : MPI_PROC_NULL) : leaders - 1;
        double start = MPI_Wtime();
        MPI_Bcast(buffer, 2500, MPI_INT, root, inter);
        count(root == MPI_PROC_NULL ? 4 : 3, root == MPI_ROOT, start);
    }
    MPI_Comm_free(&inter);
    MPI_Comm_free(&own);
}

static void tell(void) {
    double own[KINDS][3];
    for (int kind = 0; kind < KINDS; kind++) {
        memcpy(own[kind], &kinds[kind].calls, sizeof(own[kind]));
    }
    if (world_rank != 0) {
        MPI_Send(own, KINDS * 3, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
        return;
    }
    for (int rank = 0; rank < world_size; rank++) {
        if (rank != 0) {
            MPI_Recv(own, KINDS * 3, MPI_DOUBLE, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        for (int kind = 0; kind < KINDS; kind++) {
            if (own[kind][0] > 0) {
                printf("made %d %s %ld %.0f %.0f %.9f\n", rank, kinds[kind].operation,
                       kinds[kind].bytes, own[kind][0], own[kind][1], own[kind][2]);
            }
        }
    }
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *end = argc > 1 ? argv[1] : "finalize";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    double start = MPI_Wtime();
    late_root();
    halves();
    alone();
    between_groups();
    tell();
    if (world_rank == world_size - 1 && strcmp(end, "finalize") != 0) {
        sleep_for(1000);
        if (strcmp(end, "kill") == 0) {
            raise(SIGKILL);
        }
        _exit(EXIT_SUCCESS);
    }
    if (world_rank == 0) {
        printf("ran %.9f\n", MPI_Wtime() - start);
        fflush(stdout);
    }
    MPI_Finalize();
    return EXIT_SUCCESS;
}
