/*
 * shortage [ITEMS]: memory is short: of what the library asks for during the first calls on a communicator, one
 * allocation after the other fails, on one process or on all; then all of them. No call may notice.
 *
 * shortage ends AFTER TIMES [RANK]: the same from MPI_Init to the end of the first calls, and in MPI_Finalize, which
 * a process has only once: of the library's allocations in each of them the first AFTER succeed, and the next TIMES
 * fail, on RANK or on all. Each process prints for both how many there were, and how many of them failed:
 *
 *     beginning allocations=12 failed=1
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"
#include "heap.h"
#include "medley.h"

/* A rank's ints in a call, at most. */
static int items = 3000;

/* The first calls on a communicator, with `times` failures after `after` successes on the processes
 * from `first` on that are `step` apart. How many allocations failed, on all processes. */
static long calls_with(long after, long times, int first, int step) {
    MPI_Comm comm;
    bool is_short = world_rank >= first && (world_rank - first) % step == 0;
    heap_fail(after, is_short ? times : 0);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    medley(comm, items);
    medley(comm, 20);
    MPI_Comm_free(&comm);
    long failed = heap_failures(), all;
    heap_fail(0, 0);
    allreduce(&failed, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void print_failures(const char *part) {
    printf("%s allocations=%ld failed=%ld\n", part, heap_allocations(), heap_failures());
}

/* The rank of this process, as the launcher says it before MPI_Init. */
static int rank_at_start(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    rank = rank ? rank : getenv("PMI_RANK");
    return rank ? atoi(rank) : 0;
}

static int run_with_little_at_its_ends(int argc, char **argv) {
    long after = atol(argv[2]), times = atol(argv[3]);
    times = argc < 5 || rank_at_start() == atoi(argv[4]) ? times : 0;
    heap_fail(after, times);
    check_begin(&argc, &argv, "shortage", MPI_THREAD_SINGLE);
    for (int i = 0; i < 3; i++) {
        check_case("calls %d", i);
        medley(MPI_COMM_WORLD, items);
        if (i == 0) {
            print_failures("beginning");
            heap_fail(0, 0);
        }
    }
    int status = check_summary(MPI_COMM_WORLD);
    fflush(stdout);
    heap_fail(after, times);
    MPI_Finalize();
    print_failures("end");
    return status;
}

int main(int argc, char **argv) {
    bool is_preloaded = heap_watch();
    if (argc > 3 && strcmp(argv[1], "ends") == 0) {
        return run_with_little_at_its_ends(argc, argv);
    }
    check_begin(&argc, &argv, "shortage", MPI_THREAD_SINGLE);
    items = argc > 1 ? atoi(argv[1]) : items;
    long once = 0, failed;
    for (int everywhere = 0; everywhere < 2; everywhere++) {
        long after = 0;
        do {
            check_case("allocation %ld fails %s", after, everywhere ? "everywhere" : "on one rank");
            int rank = (int)(after % world_size);
            failed = calls_with(after, 1, everywhere ? 0 : rank, everywhere ? 1 : world_size);
            once += failed;
            after++;
        } while (failed > 0);
    }
    check(!is_preloaded || once > 5, "only %ld allocations failed alone", once);
    for (int step = 1; step <= world_size; step++) {
        check_case("all allocations fail on every rank of %d", step);
        failed = calls_with(0, 1000000, step - 1, step);
        check(!is_preloaded || failed > 0, "no allocation failed");
    }
    return check_end();
}
