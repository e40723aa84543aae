/* MPI-4 sessions: collectives in a program that never calls MPI_Init and has no MPI_COMM_WORLD. */
#include "check.h"
#include "medley.h"

/* Open MPI 5 has them, but calls itself MPI-3.1. */
#if MPI_VERSION < 4 && (!defined(OMPI_MAJOR_VERSION) || OMPI_MAJOR_VERSION < 5)
int main(void) {
    return 77;
}
#else
int main(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
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
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    return status;
}
#endif
