/*
 * Times collectives on inter-communicators, native (PMPI_X) and as circulant runs them (MPI_X, with
 * libcirculant preloaded), alternately in one run, beside the time that a port needs for the larger
 * group's data, and prints CSV.
 *
 *   intergroup BYTES REPETITIONS SETTING...
 *
 * The settings 1 to 8 are those of Kang, Träff et al., section 5, with blocks of at most BYTES bytes.
 * The first p processes are group A: half of them in settings 1, 5 and 6, else 25 of 32. Settings 9 and
 * 10 are a broadcast of p times BYTES from a process of A to B, p = q, and of q times BYTES from B to A;
 * settings 11 and 12 are gathers of BYTES from each process of B in one of A, p = q and p = 25.
 *
 * Every variant's result is checked once per setting, and the library's own counter has to say that
 * circulant ran where it should and not where it should not.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"
#include "program.h"

/* Calls of one operation that ran as circulant, in this process. Absent without the library. */
extern unsigned long long circulant_calls(const char *operation) __attribute__((weak));

static int ranks;

/* What the settings differ in. */
static const struct setting {
    int halves;     /* p = q; else 25 : 7 */
    int largest[2]; /* the largest block of either group, in quarters of BYTES */
    int arithmetic; /* blocks from nothing to the largest, by equal steps; else all the same */
    enum { ALLGATHER, ALLGATHERV, BCAST, GATHER } operation;
    int sender; /* of a broadcast or a gather: the group that sends */
} settings[] = {
    {1, {4, 4}, 0, ALLGATHER, 0},  {0, {4, 4}, 0, ALLGATHER, 0},  {0, {4, 1}, 0, ALLGATHER, 0},
    {0, {1, 4}, 0, ALLGATHER, 0},  {1, {4, 4}, 0, ALLGATHERV, 0}, {1, {4, 4}, 1, ALLGATHERV, 0},
    {0, {4, 4}, 0, ALLGATHERV, 0}, {0, {4, 4}, 1, ALLGATHERV, 0}, {1, {4, 0}, 0, BCAST, 0},
    {0, {0, 4}, 0, BCAST, 1},      {1, {0, 4}, 0, GATHER, 1},     {0, {0, 4}, 0, GATHER, 1},
};
static const char *const operation_names[] = {"allgather", "allgatherv", "bcast", "gather"};
enum { SETTINGS = sizeof settings / sizeof *settings };

struct problem {
    const struct setting *setting;
    MPI_Comm inter;
    int own, first[2], size[2]; /* the own group; each group's first rank and its ranks */
    int *counts[2];             /* bytes of each block of either group */
    int *displacements;         /* of the other's blocks */
    long total[2];
    unsigned char *in, *out, *whole; /* the own block, the other's stream, and of a broadcast the own stream */
};

/* Tells ranks and positions apart. */
static unsigned char value(int of_rank, long position)
{
    return (unsigned char)((uint64_t)(position + 1) * (uint64_t)(2 * of_rank + 3) * 0x9e3779b97f4a7c15u >> 56);
}

static int block(const struct setting *setting, int group, int index, int size, int bytes)
{
    int largest = bytes / 4 * setting->largest[group];
    if (!setting->arithmetic)
        return largest;
    return (int)((long)largest * index / (size > 1 ? size - 1 : 1));
}

static struct problem prepare(const struct setting *setting, int bytes)
{
    struct problem p = {.setting = setting};
    MPI_Comm local;
    p.size[0] = setting->halves ? ranks / 2 : (25 * ranks + 16) / 32;
    p.size[1] = ranks - p.size[0];
    p.first[1] = p.size[0];
    p.own = rank >= p.first[1];
    MPI_Comm_split(MPI_COMM_WORLD, p.own, rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, p.first[1 - p.own], 1, &p.inter);
    MPI_Comm_free(&local);
    for (int group = 0; group < 2; group++) {
        p.counts[group] = allocate((size_t)p.size[group] * sizeof(int));
        for (int i = 0; i < p.size[group]; i++) {
            p.counts[group][i] = block(setting, group, i, p.size[group], bytes);
            p.total[group] += p.counts[group][i];
        }
    }
    int other = 1 - p.own, end = 0;
    p.displacements = allocate((size_t)p.size[other] * sizeof(int));
    for (int i = 0; i < p.size[other]; i++) {
        p.displacements[i] = end;
        end += p.counts[other][i];
    }
    int length = p.counts[p.own][rank - p.first[p.own]];
    p.in = allocate((size_t)length);
    for (int i = 0; i < length; i++)
        p.in[i] = value(rank, i);
    p.out = allocate((size_t)p.total[other]);
    p.whole = allocate((size_t)p.total[p.own]);
    for (long position = 0, r = 0, i = 0; position < p.total[p.own]; position++, i++) {
        for (; i == p.counts[p.own][r]; i = 0)
            r++;
        p.whole[position] = value(p.first[p.own] + (int)r, i);
    }
    return p;
}

static void release(struct problem *p)
{
    MPI_Comm_free(&p->inter);
    free(p->counts[0]);
    free(p->counts[1]);
    free(p->displacements);
    free(p->in);
    free(p->out);
    free(p->whole);
}

/* The root is the last process of its group, which the MPI libraries' own trees do not begin with. */
static int is_root(const struct problem *p, int group)
{
    return p->own == group && rank == p->first[group] + p->size[group] - 1;
}

static int root_argument(const struct problem *p, int group)
{
    return p->own != group ? p->size[group] - 1 : is_root(p, group) ? MPI_ROOT : MPI_PROC_NULL;
}

/* Of the other group's stream. */
static unsigned char *stream_of(const struct problem *p)
{
    return is_root(p, p->setting->sender) ? p->whole : p->out;
}

static void call(const struct problem *p, int native)
{
    int other = 1 - p->own, sent = p->counts[p->own][rank - p->first[p->own]], sender = p->setting->sender;
    if (p->setting->operation == BCAST)
        (native ? native(PMPI_Bcast) : MPI_Bcast)(stream_of(p), (int)p->total[sender], MPI_BYTE,
                                                  root_argument(p, sender), p->inter);
    else if (p->setting->operation == GATHER)
        (native ? native(PMPI_Gather) : MPI_Gather)(p->in, sent, MPI_BYTE, p->out, p->counts[other][0], MPI_BYTE,
                                                    root_argument(p, 1 - sender), p->inter);
    else if (p->setting->operation == ALLGATHERV)
        (native ? native(PMPI_Allgatherv) : MPI_Allgatherv)(p->in, sent, MPI_BYTE, p->out, p->counts[other],
                                                            p->displacements, MPI_BYTE, p->inter);
    else
        (native ? native(PMPI_Allgather) : MPI_Allgather)(p->in, sent, MPI_BYTE, p->out, p->counts[other][0],
                                                          MPI_BYTE, p->inter);
}

static void check(const struct problem *p)
{
    int other = 1 - p->own, sender = p->setting->sender;
    if (p->setting->operation == BCAST && p->own == sender)
        return;
    if (p->setting->operation == GATHER && !is_root(p, 1 - sender))
        return;
    for (int i = 0; i < p->size[other]; i++)
        for (int position = 0; position < p->counts[other][i]; position++)
            if (p->out[p->displacements[i] + position] != value(p->first[other] + i, position))
                fail("byte %d of block %d is wrong", position, i);
}

/* Seconds until the last rank is through. */
static double timed(const struct problem *p, int native)
{
    const char *operation = operation_names[p->setting->operation];
    int is_sender = p->own == p->setting->sender && !is_root(p, p->setting->sender);
    int ours = !native && !(p->setting->operation == BCAST && is_sender);
    unsigned long long before = circulant_calls ? circulant_calls(operation) : 0;
    double seconds, slowest;
    native(PMPI_Barrier)(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    call(p, native);
    seconds = MPI_Wtime() - start;
    if (circulant_calls && circulant_calls(operation) - before != (unsigned)ours)
        fail("%s: circulant ran %s", operation, native ? "a native call" : "nothing");
    native(PMPI_Allreduce)(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Bytes a second that a port sustains in one direction, from the first host to the last. */
static double port(void)
{
    enum { BYTES = 4 << 20 };
    void *buffer = allocate(BYTES);
    double rate = 0;
    for (int turn = 0; turn < 3; turn++) {
        char answer = 0;
        native(PMPI_Barrier)(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(buffer, BYTES, MPI_BYTE, ranks - 1, 2, MPI_COMM_WORLD);
            MPI_Recv(&answer, 1, MPI_BYTE, ranks - 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            double seen = BYTES / (MPI_Wtime() - start);
            rate = seen > rate ? seen : rate;
        } else if (rank == ranks - 1) {
            MPI_Recv(buffer, BYTES, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&answer, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
        }
    }
    free(buffer);
    native(PMPI_Bcast)(&rate, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return rate;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int bytes = argc > 2 ? atoi(argv[1]) : 0, repetitions = argc > 2 ? atoi(argv[2]) : 0;
    if (bytes < 4 || repetitions < 1 || ranks < 2) {
        fprintf(stderr, "usage: intergroup BYTES REPETITIONS SETTING..., with two processes or more\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    double rate = port();
    if (rank == 0)
        printf("setting,p,q,operation,bytes,variant,repetition,seconds,limit\n");
    for (int argument = 3; argument < argc; argument++) {
        int number = atoi(argv[argument]);
        if (number < 1 || number > SETTINGS)
            fail("there are settings 1 to %d, not %s", SETTINGS, argv[argument]);
        struct problem p = prepare(&settings[number - 1], bytes);
        long larger = p.total[0] > p.total[1] ? p.total[0] : p.total[1];
        for (int repetition = 0; repetition <= repetitions; repetition++) {
            for (int native = 0; native < 2; native++) {
                if (!native && (!circulant_calls || p.setting->operation == GATHER))
                    continue;
                memset(p.out, 0, (size_t)p.total[1 - p.own]);
                double seconds = timed(&p, native);
                /* The first makes connections and is not counted. */
                if (repetition == 0)
                    check(&p);
                else if (rank == 0)
                    printf("%d,%d,%d,%s,%ld,%s,%d,%.6f,%.6f\n", number, p.size[0], p.size[1],
                           operation_names[p.setting->operation], larger,
                           native ? "native" : "circulant", repetition, seconds, (double)larger / rate);
            }
        }
        fflush(stdout);
        release(&p);
    }
    MPI_Finalize();
    return 0;
}
