/*
 * sharing units: broadcasts of bytes and sums of elements of another size take turns. Slots that lie elsewhere for
 * the one than for the other would be written while they are read.
 * sharing layouts: sums of elements that have the same size and another layout on every other process.
 * sharing extents: the same of elements that lie further apart on every other process, as parts of growing lengths.
 * sharing [COMMUNICATORS]: calls on one communicator after the other, that processes of one node run in memory which
 * they share. Each is freed before the next is made; some live at once. Says how many such memories this process has
 * in the end, and how many descriptors more than at the start: both should be 0.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

enum { SLOT = 256 << 10, WIDTH = 1000, BROADCAST = SLOT / sizeof(int) };

static void add_wide(void *from, void *into, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count * WIDTH; i++) {
        ((int *)into)[i] += ((int *)from)[i];
    }
}

/* Who reads a slot takes long, since the pages of its buffer are new. */
static void units(void) {
    int wide = SLOT / (WIDTH * (int)sizeof(int)), root = world_size - 1;
    int *input = allocate((size_t)wide * WIDTH * sizeof(int)), *sum = allocate(SLOT);
    MPI_Datatype type;
    MPI_Op op;
    MPI_Type_contiguous(WIDTH, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(add_wide, 1, &op);
    for (int i = 0; i < wide * WIDTH; i++) {
        input[i] = i + world_rank;
    }
    for (int turn = 0; turn < 500; turn++) {
        check_case("turn %d", turn);
        int *values = mmap(NULL, SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; world_rank == root && i < BROADCAST; i++) {
            values[i] = 3 * i + turn;
        }
        MPI_Bcast(values, BROADCAST, MPI_INT, root, MPI_COMM_WORLD);
        MPI_Allreduce(input, sum, wide, type, op, MPI_COMM_WORLD);
        if (turn % 2) {
            MPI_Bcast(values, BROADCAST, MPI_INT, root, MPI_COMM_WORLD);
        }
        int wrong = 0;
        for (int i = 0; i < BROADCAST; i++) {
            wrong += values[i] != 3 * i + turn;
        }
        for (int i = 0; i < wide * WIDTH; i++) {
            wrong += sum[i] != world_size * i + world_size * (world_size - 1) / 2;
        }
        check(wrong == 0, "%d numbers are wrong", wrong);
        munmap(values, SLOT);
    }
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    free(input);
    free(sum);
}

static int place; /* of the int in an element of two */

static void add_one_of_two(void *from, void *into, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++) {
        ((int *)into)[2 * i + place] += ((int *)from)[2 * i + place];
    }
}

static void layouts(void) {
    int one = 1, *input = allocate(2 * COUNT * sizeof(int)), *sum = allocate(2 * COUNT * sizeof(int));
    MPI_Datatype plain, type;
    MPI_Op op;
    place = world_rank % 2;
    MPI_Aint displacement = place * (MPI_Aint)sizeof(int);
    MPI_Type_create_hindexed(1, &one, &displacement, MPI_INT, &plain);
    MPI_Type_create_resized(plain, 0, 2 * sizeof(int), &type);
    MPI_Type_commit(&type);
    MPI_Op_create(add_one_of_two, 1, &op);
    for (int i = 0; i < COUNT; i++) {
        input[2 * i + place] = i + world_rank;
        input[2 * i + 1 - place] = sum[2 * i + 1 - place] = -7;
    }
    MPI_Allreduce(input, sum, COUNT, type, op, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++) {
        int expected = world_size * i + world_size * (world_size - 1) / 2;
        check(sum[2 * i + place] == expected, "sum %d is %d, not %d", i, sum[2 * i + place], expected);
        check(sum[2 * i + 1 - place] == -7, "the gap of sum %d was written", i);
    }
    MPI_Op_free(&op);
    MPI_Type_free(&plain);
    MPI_Type_free(&type);
    free(input);
    free(sum);
}

static int stride; /* in ints */

static void add_apart(void *from, void *into, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++) {
        ((int *)into)[stride * i] += ((int *)from)[stride * i];
    }
}

static void extents(void) {
    const int lengths[] = {7424, 8000, 7424, 12000, 30};
    MPI_Datatype type;
    MPI_Op op;
    stride = world_rank % 2 ? 2 : 4;
    MPI_Type_create_resized(MPI_INT, 0, stride * (MPI_Aint)sizeof(int), &type);
    MPI_Type_commit(&type);
    MPI_Op_create(add_apart, 1, &op);
    for (int call = 0; call < 5; call++) {
        const int length = lengths[call], all = length * world_size;
        int *input = calloc((size_t)(all * stride), sizeof(int)), *sum = calloc((size_t)(length * stride), sizeof(int));
        check_case("parts of %d", length);
        for (int i = 0; i < all; i++) {
            input[stride * i] = i + world_rank;
        }
        MPI_Reduce_scatter_block(input, sum, length, type, op, MPI_COMM_WORLD);
        int wrong = 0;
        for (int i = 0; i < length; i++) {
            const int expected = world_size * (world_rank * length + i) + world_size * (world_size - 1) / 2;
            wrong += sum[stride * i] != expected;
        }
        check(wrong == 0, "%d sums are wrong", wrong);
        free(input);
        free(sum);
    }
    MPI_Op_free(&op);
    MPI_Type_free(&type);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "sharing", MPI_THREAD_SINGLE);
    if (argc > 1 && strcmp(argv[1], "units") == 0) {
        units();
        return check_end();
    }
    if (argc > 1 && strcmp(argv[1], "layouts") == 0) {
        layouts();
        return check_end();
    }
    if (argc > 1 && strcmp(argv[1], "extents") == 0) {
        extents();
        return check_end();
    }
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
