/*
 * A program whose first call is the one that its argument names; then every operation on
 * MPI_COMM_WORLD and on communicators that are made of it. Everything is checked: also where some of the
 * processes are without the library that the others have.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "medley.h"

static MPI_Comm world;

/* Bytes of rank 0's, by one of both broadcasts. */
static void broadcast(size_t length, bool blocks) {
    unsigned char *expected = stream(0, length), *buffer = allocate(length);
    memset(buffer, 0x5a, length);
    if (world_rank == 0)
        memcpy(buffer, expected, length);
    if (blocks) {
        check_success(MPI_Bcast(buffer, (int)length, MPI_BYTE, 0, world), "MPI_Bcast");
    } else {
        MPI_Request request;
        check_success(MPI_Ibcast(buffer, (int)length, MPI_BYTE, 0, world, &request), "MPI_Ibcast");
        check_success(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    check(memcmp(buffer, expected, length) == 0, "a broadcast of %zu bytes has other data", length);
    check_digest(buffer, length);
    free(buffer);
    free(expected);
}

/* An int of every rank's, summed. */
static void sum(MPI_Comm comm) {
    int rank, size, one, total = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    one = 3 * rank + 1;
    check_success(MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, comm), "MPI_Allreduce");
    check(total == 3 * size * (size - 1) / 2 + size, "a sum over %d ranks is %d", size, total);
}

/* Part of every rank's, at all of them. */
static void gather(int count) {
    int *own = allocate((size_t)count * sizeof(int));
    int *all = allocate((size_t)count * (size_t)world_size * sizeof(int));
    for (int i = 0; i < count; i++)
        own[i] = 1000 * world_rank + i;
    check_success(MPI_Allgather(own, count, MPI_INT, all, count, MPI_INT, world), "MPI_Allgather");
    for (int i = 0; i < count * world_size; i++)
        check(all[i] == 1000 * (i / count) + i % count, "part %d of an allgather is %d", i, all[i]);
    free(own);
    free(all);
}

static void duplicate(bool blocks) {
    MPI_Comm copy;
    if (blocks) {
        check_success(MPI_Comm_dup(world, &copy), "MPI_Comm_dup");
    } else {
        MPI_Request request;
        check_success(MPI_Comm_idup(world, &copy, &request), "MPI_Comm_idup");
        check_success(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    sum(copy);
    medley(copy, 3000);
    MPI_Comm_free(&copy);
}

static void first(const char *call) {
    size_t length;
    char *end;
    check_case("first %s", call);
    if ((length = strtoul(call, &end, 10)) > 0)
        broadcast(length, *end == '\0');
    else if (strcmp(call, "dup") == 0)
        duplicate(true);
    else if (strcmp(call, "idup") == 0)
        duplicate(false);
    else if (strcmp(call, "barrier") == 0)
        check_success(MPI_Barrier(world), "MPI_Barrier");
    else if (strcmp(call, "allreduce") == 0)
        sum(world);
    else if (strcmp(call, "allgather") == 0)
        gather(400);
    else if (strcmp(call, "medley") == 0)
        medley(world, 5000);
    else
        check(false, "there is no such call");
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "first", MPI_THREAD_SINGLE);
    world = MPI_COMM_WORLD;
    first(argc > 1 ? argv[1] : "");

    check_case("after it");
    broadcast(100000, true);
    broadcast(300, true);
    medley(world, 4000);
    duplicate(true);

    MPI_Comm part;
    MPI_Comm_split(world, world_rank % 2, -world_rank, &part);
    check_case("a part");
    check_color(world_rank % 2);
    sum(part);
    medley(part, 4000);
    check_color(0);
    MPI_Comm_free(&part);
    return check_end();
}
