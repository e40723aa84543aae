/*
 * Collectives at the last moment: in a callback that MPI_Finalize runs, which may come after the
 * library has written its report.
 */
#include <stdlib.h>

#include "check.h"
#include "medley.h"

static int deletions;

static int last_moment(MPI_Comm self, int key, void *value, void *extra) {
    (void)self, (void)key, (void)value, (void)extra;
    deletions++;
    medley(MPI_COMM_WORLD, 100);
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "finalize", MPI_THREAD_SINGLE);
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, last_moment, &key, NULL);
    check_case("in time");
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    medley(MPI_COMM_WORLD, 100);
    int status = check_summary(MPI_COMM_WORLD);
    check_case("at the last moment");
    MPI_Finalize();
    check(deletions == 1, "the callback ran %d times", deletions);
    return check_failures() == 0 ? status : EXIT_FAILURE;
}
