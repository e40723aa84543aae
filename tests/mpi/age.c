/*
 * age MEDLEYS: a long life. So many medleys of all operations, with results checked, on communicators
 * that come and go, TOGETHER at once. Rank 0 prints what the processes hold meanwhile, at most:
 *
 *     age medley=1000 calls=10000 kilobytes=20480 files=31
 *
 * At the end, what context ids there are: of Open MPI, the id of a new communicator, which is the lowest that is free;
 * of others, how many more communicators can be made.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "calls.h"
#include "check.h"
#include "medley.h"

enum { TOGETHER = 200, LINES = 100, OF_A_MEDLEY = 10 };

static long kilobytes(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) {
        pages = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static long files(void) {
    long entries = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder != NULL && readdir(folder) != NULL) {
        entries++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return entries;
}

static void print(long medleys) {
    long mine[2] = {kilobytes(), files()}, most[2];
    reduce(mine, most, 2, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (world_rank == 0) {
        printf("age medley=%ld calls=%ld kilobytes=%ld files=%ld\n", medleys,
               medleys * OF_A_MEDLEY, most[0], most[1]);
    }
}

#ifdef OPEN_MPI
static void print_contexts(void) {
    MPI_Comm made;
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    if (world_rank == 0) {
        printf("age id=%d\n", (int)MPI_Comm_c2f(made));
    }
    MPI_Comm_free(&made);
}
#else
static void print_contexts(void) {
    static MPI_Comm made[1 << 16];
    MPI_Comm parent;
    int count = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &parent);
    MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    while (count < 1 << 16 && MPI_Comm_dup(parent, &made[count]) == MPI_SUCCESS) {
        count++;
    }
    if (world_rank == 0) {
        printf("age free=%d\n", count);
    }
    for (int i = 0; i < count; i++) {
        MPI_Comm_free(&made[i]);
    }
    MPI_Comm_free(&parent);
}
#endif

int main(int argc, char **argv) {
    static MPI_Comm comm[TOGETHER];
    check_begin(&argc, &argv, "age", MPI_THREAD_SINGLE);
    long medleys = argc > 1 ? atol(argv[1]) : 1000;
    for (int i = 0; i < TOGETHER; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
    }
    for (long i = 0; i < medleys; i++) {
        check_case("medley %ld", i);
        uint64_t drawn = mix(check_iteration(), 1, 2, 3);
        int which = (int)(drawn % TOGETHER);
        medley(comm[which], 2000);
        if (drawn / TOGETHER % 5 == 0) {
            MPI_Comm_free(&comm[which]);
            MPI_Comm_dup(MPI_COMM_WORLD, &comm[which]);
        }
        if (medleys < LINES || i % (medleys / LINES) == 0) {
            print(i);
        }
    }
    print(medleys);
    print_contexts();
    for (int i = 0; i < TOGETHER; i++) {
        MPI_Comm_free(&comm[i]);
    }
    return check_end();
}
