/* A job that starts another one; both use the library. */
#include <string.h>

#include "check.h"
#include "medley.h"

enum { CHILDREN = 3 };

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "spawn", MPI_THREAD_SINGLE);
    MPI_Comm other, all;
    int codes[CHILDREN], is_child;
    MPI_Comm_get_parent(&other);
    is_child = other != MPI_COMM_NULL;
    check_case("%s alone", is_child ? "children" : "parents");
    medley(MPI_COMM_WORLD, 500);
    if (!is_child) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                       codes);
    }
    /* Of the parents, those who wait spin; so no more than this is done together. */
    MPI_Intercomm_merge(other, is_child, &all);
    check_color(1);
    check_case("all together");
    medley(all, 500);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&other);
    return check_end();
}
