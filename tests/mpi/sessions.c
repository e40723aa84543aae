/*
 * MPI-4 sessions: collectives in a program that never calls MPI_Init and has no MPI_COMM_WORLD; or, with
 * the argument "initialized", that calls it as well.
 *
 * Prints how many of the calls circulant has run, by its own word, where it is in the process.
 */
#include <dlfcn.h>
#include <stdio.h>

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

static void print_ours(void) {
    unsigned long long ours = 0;
    counter *calls = (counter *)dlsym(RTLD_DEFAULT, "circulant_calls");
    if (calls != NULL) {
        for (int operation = 0; operation < OPERATIONS; operation++) {
            ours += calls(operation_name[operation]);
        }
        printf("ours %llu\n", ours);
    }
}

int main(int argc, char **argv) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    if (argc > 1) {
        MPI_Init(&argc, &argv);
    }
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "circulant", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    check_ranks("sessions", rank, size);
    for (int call = 0; call < 20; call++) {
        check_case("call %d", call);
        medley(comm, 1000);
    }
    int status = check_summary(comm);
    if (rank == 0) {
        print_ours();
    }
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    if (argc > 1) {
        MPI_Finalize();
    }
    return status;
}
#endif
