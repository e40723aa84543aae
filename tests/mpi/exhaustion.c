/*
 * More communicators at once than there are private ones: those that come too late must work all the
 * same.
 */
#include <stdlib.h>

#include "check.h"
#include "medley.h"

int main(int argc, char **argv) {
    enum { COMMUNICATORS = 100, LAST_WORD = 30 };
    static MPI_Comm comm[COMMUNICATORS];
    check_begin(&argc, &argv, "exhaustion", MPI_THREAD_SINGLE);
    for (int i = 0; i < COMMUNICATORS; i++) {
        check_case("communicator %d", i);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
        medley(comm[i], 20);
    }
    for (int i = 0; i < LAST_WORD; i++) {
        check_case("communicator %d again", COMMUNICATORS - 1 - i);
        medley(comm[COMMUNICATORS - 1 - i], 20);
    }
    for (int i = 0; i < COMMUNICATORS; i++) {
        MPI_Comm_free(&comm[i]);
    }
    return check_end();
}
