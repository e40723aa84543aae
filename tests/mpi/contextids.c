/*
 * MPI_THREAD_MULTIPLE: two threads make communicators, of which each process makes one at a time. Nothing that one
 * thread does depends on the other.
 *
 * All but rank 1 make a large call on a communicator of their own, and then all duplicate one. Meanwhile another
 * thread duplicates a younger one, at which rank 1 is late. Open MPI makes what has the older parent first.
 */
#include <pthread.h>
#include <time.h>

#include "check.h"
#include "medley.h"

enum { ITEMS = 100000 };

static MPI_Comm older, younger;

static void wait_for(int milliseconds) {
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

static void duplicate(MPI_Comm comm) {
    MPI_Comm twin;
    MPI_Comm_dup(comm, &twin);
    MPI_Comm_free(&twin);
}

static void *run(void *nothing) {
    wait_for(world_rank == 1 ? 600 : 100);
    duplicate(younger);
    return nothing;
}

int main(int argc, char **argv) {
    pthread_t thread;
    MPI_Comm others;
    check_begin(&argc, &argv, "contextids", MPI_THREAD_MULTIPLE);
    /* What is made once only is made here. */
    check_case("at first");
    medley(MPI_COMM_WORLD, ITEMS);
    MPI_Comm_dup(MPI_COMM_WORLD, &older);
    MPI_Comm_dup(MPI_COMM_WORLD, &younger);
    MPI_Comm_split(older, world_rank == 1, world_rank, &others);
    MPI_Barrier(MPI_COMM_WORLD);
    pthread_create(&thread, NULL, run, NULL);
    if (world_rank != 1) {
        wait_for(900);
        check_case("while another thread duplicates");
        medley(others, ITEMS);
    }
    duplicate(older);
    pthread_join(thread, NULL);
    MPI_Comm_free(&others);
    MPI_Comm_free(&older);
    MPI_Comm_free(&younger);
    return check_end();
}
