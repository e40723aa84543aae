/*
 * revocations N: N times, calls on a new communicator that rank 1 revokes in their middle.
 *
 * Each process leaves with an error, shrinks and frees the communicator, and goes on. At the end it says how much memory
 * it has after a tenth of the times and at the end, in KiB, and how often it left with an error.
 */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern unsigned long long circulant_calls(const char *operation) __attribute__((weak));

enum { ELEMENTS = 15000, CALLS = 30 };

static int rank, size, input[ELEMENTS], output[ELEMENTS];

static long kibibytes(void)
{
    long all, resident = -1;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2)
        exit(1);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE) / 1024;
}

static int value(int of, int call, int index)
{
    return 7 * of + 1000 * call + index % 977;
}

static void expect(int call, int index, int found, int expected)
{
    if (found == expected)
        return;
    fprintf(stderr, "revocations: rank %d, call %d: element %d is %d, not %d\n", rank, call, index, found, expected);
    exit(1);
}

/* A broadcast or an allreduce. */
static int make(int call, MPI_Comm comm)
{
    for (int i = 0; i < ELEMENTS; i++)
        input[i] = value(rank, call, i);
    int root = call % size, is_bcast = call % 2;
    int code = is_bcast ? MPI_Bcast(input, ELEMENTS, MPI_INT, root, comm)
                        : MPI_Allreduce(input, output, ELEMENTS, MPI_INT, MPI_MAX, comm);
    for (int i = 0; code == MPI_SUCCESS && i < ELEMENTS; i++)
        expect(call, i, is_bcast ? input[i] : output[i], value(is_bcast ? root : size - 1, call, i));
    return code;
}

/* Whether a call had an error. */
static int one_time(int time)
{
    MPI_Comm comm, shrunk;
    int code = MPI_SUCCESS, flag = 1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int call = 0; call < CALLS && code == MPI_SUCCESS; call++) {
        if (rank == 1 && call == 6 + time % 3) {
            MPIX_Comm_revoke(comm);
            break;
        }
        code = make(call, comm);
    }
    MPIX_Comm_shrink(comm, &shrunk);
    MPI_Comm_free(&comm);
    MPIX_Comm_agree(shrunk, &flag);
    MPI_Comm_free(&shrunk);
    MPI_Barrier(MPI_COMM_WORLD);
    return code != MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int times = argc > 1 ? atoi(argv[1]) : 0, errors = 0;
    long first = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int time = 0; time < times; time++) {
        errors += one_time(time);
        if (time == times / 10)
            first = kibibytes();
    }
    unsigned long long ours = circulant_calls ? circulant_calls("bcast") : 0;
    printf("memory of rank %d: %ld then %ld KiB, errors %d, circulant %llu\n", rank, first, kibibytes(), errors, ours);
    MPI_Finalize();
    return 0;
}
