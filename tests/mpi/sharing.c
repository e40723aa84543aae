/*
 * sharing [COMMUNICATORS]: calls on one communicator after the other, that processes of one node run in memory which
 * they share. Each is freed before the next is made; some live at once. Says how many such memories this process has
 * in the end, and how many descriptors more than at the start: both should be 0.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { COUNT = 20000, AT_ONCE = 3 };

/* Mappings of this process whose name has this in it. */
static int mappings(const char *name) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    int found = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        found += strstr(line, name) != NULL;
    }
    if (maps) {
        fclose(maps);
    }
    return found;
}

static int descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int found = 0;
    while (folder && readdir(folder)) {
        found++;
    }
    if (folder) {
        closedir(folder);
    }
    return found;
}

/* Sums of numbers that no order of summation rounds, and a broadcast. */
static void calls(MPI_Comm comm, int number) {
    static double sent[COUNT], sum[COUNT];
    static int values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        sent[i] = i % 1000 + 0.5 * world_rank + number;
        sum[i] = -1;
        values[i] = world_rank == number % world_size ? 3 * i + number : -1;
    }
    MPI_Allreduce(sent, sum, COUNT, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Bcast(values, COUNT, MPI_INT, number % world_size, comm);
    double ranks = 0.25 * world_size * (world_size - 1);
    for (int i = 0; i < COUNT; i++) {
        double expected = world_size * (i % 1000 + (double)number) + ranks;
        check(sum[i] == expected, "sum %d is %g, not %g", i, sum[i], expected);
        check(values[i] == 3 * i + number, "value %d is %d", i, values[i]);
    }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "sharing", MPI_THREAD_SINGLE);
    int communicators = argc > 1 ? atoi(argv[1]) : 10, most = 0, before = 0;
    for (int number = 0; number < communicators; number += AT_ONCE) {
        MPI_Comm comms[AT_ONCE];
        check_case("communicators from %d on", number);
        for (int i = 0; i < AT_ONCE; i++) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
            calls(comms[i], number + i);
        }
        int now = mappings("memfd:circulant");
        most = now > most ? now : most;
        for (int i = 0; i < AT_ONCE; i++) {
            MPI_Comm_free(&comms[i]);
        }
        /* The first calls may open what MPI keeps. */
        before = number == 0 ? descriptors() : before;
    }
    printf("rank %d: %d memories at once, %d left, %d descriptors more\n", world_rank, most, mappings("memfd:circulant"),
           descriptors() - before);
    return check_end();
}
