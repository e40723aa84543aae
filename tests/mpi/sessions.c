/*
 * MPI-4 sessions: collectives in a program that never calls MPI_Init and has no MPI_COMM_WORLD; or, with
 * the argument "initialized", that calls it as well; or, with "before", that calls it after a session has made
 * a communicator, where rank 0 is late.
 *
 * Before all others calls a function of circulant's, where that is in the process; and after them another, in a
 * program without MPI_COMM_WORLD.
 * Prints how many of the calls circulant has run, by its own word, and what the first function returned.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "medley.h"
#include "operations.h"

/* Open MPI 5 has them, but calls itself MPI-3.1. */
#if MPI_VERSION < 4 && (!defined(OMPI_MAJOR_VERSION) || OMPI_MAJOR_VERSION < 5)
int main(void) {
    return 77;
}
#else
typedef unsigned long long counter(const char *operation);
typedef int owner_of(MPI_Comm comm, int step);

/* In a program without MPI_Init nothing has been called yet that circulant exports. */
static int first_owner(MPI_Comm comm) {
    owner_of *owner = (owner_of *)dlsym(RTLD_DEFAULT, "circulant_successive_owner");
    return owner == NULL ? -1 : owner(comm, 0);
}

typedef int merge_of(const void *send, int sendcount, void *receive, int capacity, int *count, MPI_Datatype type,
                     int (*compare)(const void *, const void *, void *), void *context, MPI_Comm comm);

/* Numbers that are there, and records that MPI is asked about. */
static void merges(MPI_Comm comm) {
    enum { COUNT = 5, MOST = 64 * COUNT };
    merge_of *merge = (merge_of *)dlsym(RTLD_DEFAULT, "circulant_allgather_merge");
    if (merge == NULL) {
        return;
    }
    MPI_Datatype mine;
    MPI_Type_contiguous(1, MPI_INT, &mine);
    MPI_Type_commit(&mine);
    int own[COUNT], all[MOST], got, wrong = 0;
    check_case("a merge");
    for (int i = 0; i < COUNT; i++) {
        own[i] = i * world_size + world_rank;
    }
    int code = merge(own, COUNT, all, MOST, &got, MPI_INT, NULL, NULL, comm);
    for (int i = 0; i < COUNT * world_size; i++) {
        wrong += all[i] != i;
    }
    /* There are no numbers of this datatype. */
    int other = merge(own, COUNT, all, MOST, &got, mine, NULL, NULL, comm);
    /* A native run has no such checks to count. */
    if (code != MPI_SUCCESS || wrong != 0 || other == MPI_SUCCESS) {
        check(false, "merges return %d and %d, and %d numbers are wrong", code, other, wrong);
    }
    MPI_Type_free(&mine);
}

static void print_ours(int owner) {
    unsigned long long ours = 0;
    counter *calls = (counter *)dlsym(RTLD_DEFAULT, "circulant_calls");
    if (calls != NULL) {
        for (int operation = 0; operation < OPERATIONS; operation++) {
            ours += calls(operation_name[operation]);
        }
        printf("ours %llu\nowner %d\n", ours, owner);
    }
}

int main(int argc, char **argv) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    bool is_before = argc > 1 && strcmp(argv[1], "before") == 0;
    if (argc > 1 && !is_before) {
        MPI_Init(&argc, &argv);
    }
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "circulant", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    int rank, size, owner = first_owner(comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    check_ranks("sessions", rank, size);
    if (is_before) {
        MPI_Barrier(comm);
        if (rank == 0) {
            nanosleep(&(struct timespec){0, 300000000}, NULL);
        }
        MPI_Init(&argc, &argv);
    }
    for (int call = 0; call < 20; call++) {
        check_case("call %d", call);
        medley(comm, 1000);
    }
    if (argc == 1) {
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        merges(comm);
    }
    int status = check_summary(comm);
    if (rank == 0) {
        print_ours(owner);
    }
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    if (argc > 1) {
        MPI_Finalize();
    }
    return status;
}
#endif
