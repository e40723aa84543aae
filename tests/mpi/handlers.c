/*
 * A communicator's error handler is the program's, also while a collective on the communicator is under way:
 *
 *     handlers threads    while one thread waits in the first collective, another has it set, called, handed down and
 *                         asked for
 *     handlers operator   an operator sets that of MPI_COMM_WORLD
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "medley.h"

enum { ITEMS = 20000, LATE = 300000, MIDDLE = 100000 };

static MPI_Errhandler own, other;
static int heard;

static void hear(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    heard++;
}

static void hear_other(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
}

static MPI_Errhandler handler_of(MPI_Comm comm) {
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(comm, &handler);
    return handler;
}

/* What the other thread does. */
enum deed { SET, CALL, HAND_DOWN, ASK, DEEDS };

struct meanwhile {
    MPI_Comm comm, made;
    enum deed deed;
    MPI_Errhandler seen;
};

/* Makes a communicator of rank 0 alone, which calls this. */
static MPI_Comm made_from(MPI_Comm comm) {
    MPI_Group all, first;
    MPI_Comm made;
    const int rank = 0;
    MPI_Comm_group(comm, &all);
    MPI_Group_incl(all, 1, &rank, &first);
    MPI_Comm_create_group(comm, first, 9, &made);
    MPI_Group_free(&all);
    MPI_Group_free(&first);
    return made;
}

static void *act(void *argument) {
    struct meanwhile *meanwhile = argument;
    const int item = 1;
    usleep(MIDDLE);
    switch (meanwhile->deed) {
    case SET:
        MPI_Comm_set_errhandler(meanwhile->comm, other);
        break;
    case CALL:
        MPI_Send(&item, 1, MPI_INT, world_size, 0, meanwhile->comm);
        break;
    case HAND_DOWN:
        meanwhile->made = made_from(meanwhile->comm);
        break;
    default:
        meanwhile->seen = handler_of(meanwhile->comm);
    }
    return NULL;
}

/* Returns the handler that a communicator made from one with `own` has. Not all MPIs hand it down. */
static MPI_Errhandler handed_down(void) {
    MPI_Comm comm;
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, own);
    if (world_rank == 0) {
        MPI_Comm made = made_from(comm);
        handler = handler_of(made);
        MPI_Comm_free(&made);
    }
    MPI_Comm_free(&comm);
    return handler;
}

static void threads(void) {
    const MPI_Errhandler inherited = handed_down();
    for (enum deed deed = SET; deed < DEEDS; deed++) {
        struct meanwhile meanwhile = {.deed = deed, .made = MPI_COMM_NULL};
        pthread_t thread;
        check_case("deed %d", (int)deed);
        MPI_Comm_dup(MPI_COMM_WORLD, &meanwhile.comm);
        MPI_Comm_set_errhandler(meanwhile.comm, own);
        heard = 0;
        if (world_rank == 0) {
            pthread_create(&thread, NULL, act, &meanwhile);
        } else {
            usleep(LATE);
        }
        medley_allreduce(meanwhile.comm, ITEMS, MPI_SUM);
        if (world_rank == 0) {
            pthread_join(thread, NULL);
            const MPI_Errhandler now = handler_of(meanwhile.comm);
            check(now == (deed == SET ? other : own), "the handler is another one");
            check(heard == (deed == CALL), "the handler was called %d times", heard);
            if (deed == HAND_DOWN) {
                check(handler_of(meanwhile.made) == inherited, "another handler was handed down");
                MPI_Comm_free(&meanwhile.made);
            }
            check(deed != ASK || meanwhile.seen == own, "another handler is seen");
        }
        MPI_Comm_free(&meanwhile.comm);
    }
}

static void set_and_add(void *in, void *inout, int *items, MPI_Datatype *type) {
    (void)type;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, other);
    for (int i = 0; i < *items; i++) {
        ((int *)inout)[i] += ((const int *)in)[i];
    }
}

static void operator(void) {
    MPI_Op op;
    MPI_Comm comm;
    MPI_Op_create(set_and_add, 1, &op);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
    medley_allreduce(comm, ITEMS, op);
    check(handler_of(MPI_COMM_WORLD) == other, "the handler is not the one that the operator has set");
    MPI_Comm_free(&comm);
    MPI_Op_free(&op);
}

int main(int argc, char **argv) {
    const int by_threads = strcmp(argv[1], "threads") == 0;
    check_begin(&argc, &argv, "handlers", by_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    MPI_Comm_create_errhandler(hear, &own);
    MPI_Comm_create_errhandler(hear_other, &other);
    if (by_threads) {
        threads();
    } else {
        operator();
    }
    MPI_Errhandler_free(&own);
    MPI_Errhandler_free(&other);
    return check_end();
}
