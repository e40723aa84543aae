/*
 * The root gathering algorithm for an allgather between two groups of processes, as the papers' authors
 * found it in MPICH, inside SimGrid's simulator (SMPI), which has no inter-communicators of its own.
 * Prints CSV of simulated times.
 *
 *   root_gathering OPERATION INPUT P Q (BYTES_A BYTES_B)...
 *
 *     OPERATION  allgather, with MPI_Gather, or allgatherv, with MPI_Gatherv
 *     INPUT      equal: each process of A has BYTES_A bytes, each of B has BYTES_B; arithmetic: process i
 *                of n has i/(n-1) of them
 *     P, Q       processes of A, the first of MPI_COMM_WORLD, and of B, the others
 *
 * Kang, Traeff et al., Scalable Algorithms for MPI Intergroup Allgather and Allgatherv, section 3.1 and
 * equation (2):
 *
 *     gather in A at a root, and in B at a root
 *     the root of A sends what it has to the root of B, which broadcasts it in B
 *     the root of B sends what it has to the root of A, which broadcasts it in A
 *
 * The processes share two buffers, whose contents SMPI does not move.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { A, B };

/* One process' view. `group` is its own; roots are the first of each group. */
struct problem {
    MPI_Comm own;
    int rank, rank_in_group, group, sizes[2], roots[2];
    int *counts[2], *displacements[2], total[2], irregular;
    char *in, *out;
};

static void fail(const char *message)
{
    fprintf(stderr, "root_gathering: %s\n", message);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* --- The algorithm --------------------------------------------------------------------------- */

static void gather(const struct problem *p)
{
    const int *counts = p->counts[p->group], own = counts[p->rank_in_group];
    if (p->irregular)
        MPI_Gatherv(p->in, own, MPI_BYTE, p->out, counts, p->displacements[p->group], MPI_BYTE, 0, p->own);
    else
        MPI_Gather(p->in, own, MPI_BYTE, p->out, own, MPI_BYTE, 0, p->own);
}

/* What the root of group `from` has, to all of the other group. */
static void pass_on(const struct problem *p, int from)
{
    int to = 1 - from, bytes = p->total[from];
    if (p->rank == p->roots[from])
        MPI_Send(p->out, bytes, MPI_BYTE, p->roots[to], 0, MPI_COMM_WORLD);
    if (p->rank == p->roots[to])
        MPI_Recv(p->out, bytes, MPI_BYTE, p->roots[from], 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (p->group == to)
        MPI_Bcast(p->out, bytes, MPI_BYTE, 0, p->own);
}

static void exchange(const struct problem *p)
{
    gather(p);
    pass_on(p, A);
    pass_on(p, B);
}

/* --- The problem ----------------------------------------------------------------------------- */

static long bytes_of(int rank, int ranks, long largest, int arithmetic)
{
    return !arithmetic ? largest : ranks == 1 ? 0 : largest * rank / (ranks - 1);
}

static void divide(struct problem *p, int group, long largest, int arithmetic)
{
    long total = 0;
    for (int i = 0; i < p->sizes[group]; i++) {
        p->counts[group][i] = (int)bytes_of(i, p->sizes[group], largest, arithmetic);
        p->displacements[group][i] = (int)total;
        total += p->counts[group][i];
        if (total > 0x7fffffff)
            fail("a group has more bytes than an int counts");
    }
    p->total[group] = (int)total;
}

static void *own(size_t size)
{
    void *memory = malloc(size ? size : 1);
    if (!memory)
        fail("there is no memory");
    return memory;
}

/* Rank 0's memory for all. SMPI knows it, and moves nothing from or to it. MPI_Bcast is for the algorithm
 * alone: what is selected for long messages takes the simulator long. */
static char *common(const struct problem *p, size_t size)
{
    unsigned long mine = p->rank == 0 ? (unsigned long)SMPI_SHARED_MALLOC(size) : 0, address;
    MPI_Allreduce(&mine, &address, 1, MPI_UNSIGNED_LONG, MPI_MAX, MPI_COMM_WORLD);
    return (char *)address;
}

/* --- Time ------------------------------------------------------------------------------------ */

static double largest(double value)
{
    double result;
    MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return result;
}

/* Simulated seconds from a start that is the same instant on all ranks to the last rank's end. */
static double timed(const struct problem *p)
{
    double start = largest(MPI_Wtime()) + 1e-3;
    struct timespec pause = {.tv_nsec = (long)(1e9 * (start - MPI_Wtime()))};
    nanosleep(&pause, NULL);
    exchange(p);
    return largest(MPI_Wtime()) - start;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct problem p = {0};
    int ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 7 || argc % 2 == 0)
        fail("usage: root_gathering OPERATION INPUT P Q (BYTES_A BYTES_B)...");
    p.irregular = strcmp(argv[1], "allgatherv") == 0;
    int arithmetic = strcmp(argv[2], "arithmetic") == 0;
    if (arithmetic && !p.irregular)
        fail("an allgather's blocks are equal");
    p.sizes[A] = atoi(argv[3]);
    p.sizes[B] = atoi(argv[4]);
    if (p.sizes[A] < 1 || p.sizes[B] < 1 || p.sizes[A] + p.sizes[B] != ranks)
        fail("there are not P + Q processes");
    p.roots[B] = p.sizes[A];
    p.group = p.rank < p.sizes[A] ? A : B;
    p.rank_in_group = p.rank - p.roots[p.group];
    MPI_Comm_split(MPI_COMM_WORLD, p.group, p.rank, &p.own);

    long most[2] = {0, 0};
    for (int i = 5; i < argc; i++)
        most[(i - 5) % 2] = atol(argv[i]) > most[(i - 5) % 2] ? atol(argv[i]) : most[(i - 5) % 2];
    size_t totals[2];
    for (int group = A; group <= B; group++) {
        p.counts[group] = own((size_t)p.sizes[group] * sizeof(int));
        p.displacements[group] = own((size_t)p.sizes[group] * sizeof(int));
        totals[group] = (size_t)p.sizes[group] * (size_t)most[group];
    }
    p.in = common(&p, (size_t)(most[A] > most[B] ? most[A] : most[B]) + 1);
    p.out = common(&p, (totals[A] > totals[B] ? totals[A] : totals[B]) + 1);

    for (int i = 5; i < argc; i += 2) {
        divide(&p, A, atol(argv[i]), arithmetic);
        divide(&p, B, atol(argv[i + 1]), arithmetic);
        double seconds = timed(&p);
        if (p.rank == 0)
            printf("%s,%s,%d,%d,%s,%s,%.9f\n", argv[1], argv[2], p.sizes[A], p.sizes[B], argv[i], argv[i + 1], seconds);
    }
    MPI_Comm_free(&p.own);
    MPI_Finalize();
    return 0;
}
