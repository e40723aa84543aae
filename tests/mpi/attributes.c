/*
 * What a program hangs on its communicators is its own business: copy and delete callbacks of its
 * attributes run exactly when it duplicates or frees, names stay, and its communicators compare as
 * they did.
 */
#include <string.h>

#include "calls.h"
#include "check.h"
#include "medley.h"

static int copies, deletions;

static int copy(MPI_Comm comm, int key, void *extra, void *value, void *copied, int *flag) {
    (void)comm, (void)key, (void)extra;
    copies++;
    *(void **)copied = (char *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    deletions++;
    return MPI_SUCCESS;
}

static void expect(int expected_copies, int expected_deletions, const char *after) {
    check(copies == expected_copies, "%d copies after %s, expected %d", copies, after,
          expected_copies);
    check(deletions == expected_deletions, "%d deletions after %s, expected %d", deletions, after,
          expected_deletions);
}

static void expect_value(MPI_Comm comm, int key, char *expected) {
    char *value = NULL;
    int found = 0;
    MPI_Comm_get_attr(comm, key, &value, &found);
    check(found && value == expected, "the attribute is %p, expected %p", (void *)value,
          (void *)expected);
}

static void expect_name(MPI_Comm comm, const char *expected) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length;
    MPI_Comm_get_name(comm, name, &length);
    check(strcmp(name, expected) == 0, "the communicator's name is %s", name);
}

static void duplicated_and_freed(MPI_Comm comm, int key, char *value) {
    copies = deletions = 0;
    MPI_Comm_set_attr(comm, key, value);
    check_case("medley on a communicator with an attribute");
    medley(comm, 500);
    expect(0, 0, "a medley");

    MPI_Comm twin;
    check_case("duplicate");
    MPI_Comm_dup(comm, &twin);
    expect(1, 0, "MPI_Comm_dup");
    medley(twin, 500);
    expect(1, 0, "a medley on the duplicate");
    expect_value(twin, key, value + 1);

    MPI_Comm third;
    MPI_Request request;
    check_case("duplicate without blocking");
    MPI_Comm_idup(twin, &third, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(2, 0, "MPI_Comm_idup");
    medley(third, 500);
    expect_value(third, key, value + 2);

    int same;
    MPI_Comm_compare(comm, third, &same);
    check(same == MPI_CONGRUENT, "the duplicate compares as %d", same);

    check_case("free");
    MPI_Comm_free(&third);
    expect(2, 1, "the first MPI_Comm_free");
    medley(twin, 500);
    MPI_Comm_free(&twin);
    expect(2, 2, "the second MPI_Comm_free");
    medley(comm, 500);
    expect_value(comm, key, value);
    MPI_Comm_delete_attr(comm, key);
    expect(2, 3, "MPI_Comm_delete_attr");
    medley(comm, 500);
}

/* A delete callback that still uses the communicator, set before anything that circulant sets. */
static int last_broadcast(MPI_Comm comm, int key, void *value, void *extra) {
    (void)key, (void)extra;
    int rank, data = 0;
    MPI_Comm_rank(comm, &rank);
    if (rank == 0) {
        data = 4711 + *(int *)value;
    }
    MPI_Bcast(&data, 1, MPI_INT, 0, comm);
    check(data == 4711 + *(int *)value, "the last broadcast brought %d", data);
    deletions++;
    return MPI_SUCCESS;
}

/* More often than there may be private communicators, so that none must be left behind. */
static void used_while_freed(void) {
    enum { TIMES = 600 };
    int key, turn;
    check_case("used while freed");
    deletions = 0;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, last_broadcast, &key, NULL);
    for (turn = 0; turn < TIMES; turn++) {
        MPI_Comm comm;
        int data[10] = {turn, world_rank == 0 ? turn : -1};
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_attr(comm, key, &turn);
        bcast(data, 10, MPI_INT, 0, comm);
        check(data[1] == turn, "broadcast %d brought %d", turn, data[1]);
        MPI_Comm_free(&comm);
    }
    check(deletions == TIMES, "%d deletions of %d", deletions, TIMES);
    MPI_Comm_free_keyval(&key);
}

int main(int argc, char **argv) {
    static char value[16];
    int key;
    check_begin(&argc, &argv, "attributes", MPI_THREAD_SINGLE);
    MPI_Comm_create_keyval(copy, delete, &key, NULL);
    check_case("name");
    medley(MPI_COMM_WORLD, 500);
    expect_name(MPI_COMM_WORLD, "MPI_COMM_WORLD");
    duplicated_and_freed(MPI_COMM_WORLD, key, value);

    MPI_Comm named;
    MPI_Comm_dup(MPI_COMM_WORLD, &named);
    MPI_Comm_set_name(named, "the program's own");
    duplicated_and_freed(named, key, value);
    expect_name(named, "the program's own");
    MPI_Comm_free(&named);
    MPI_Comm_free_keyval(&key);
    check(key == MPI_KEYVAL_INVALID, "the key is still %d", key);
    used_while_freed();
    return check_end();
}
