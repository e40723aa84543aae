/*
 * Times n broadcasts in order, each of a value that its owner computes from the values before: by a loop of
 * the MPI library's own MPI_Bcast (PMPI_X), with roots in the order of ranks and in that of
 * circulant_successive_owner; by circulant_successive_bcast; and by a loop of MPI_Bcast under circulant with
 * CIRCULANT_BCAST_ORDER=gray. All alternately in one run. Prints CSV.
 *
 *   successive STEPS REPETITIONS BYTES...
 *
 * Every value is checked on every process, and the library's own counters have to say who ran what.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../include/circulant.h"
#include "native.h"
#include "program.h"

/* There when the library is preloaded. */
#pragma weak circulant_calls
#pragma weak circulant_successive_bcast
#pragma weak circulant_successive_owner

static int ranks, words;

enum variant { RANKS, ORDER, CIRCULANT, GRAY, VARIANTS };
static const char *const names[] = {"native, ranks in order", "native, owners in order", "circulant_successive_bcast",
                                    "MPI_Bcast, gray"};

/* The first word of a value depends on all values before, the others on the first. */
static uint64_t past;
static int stored;

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}

static int produce(int step, void *buffer, void *context)
{
    uint64_t *value = buffer;
    (void)context;
    for (int i = 0; i < words; i++)
        value[i] = mixed(past + (uint64_t)(step + i));
    return MPI_SUCCESS;
}

static int store(int step, void *buffer, void *context)
{
    const uint64_t *value = buffer;
    (void)context;
    if (step != stored)
        fail("step %d is stored after %d", step, stored);
    for (int i = 0; i < words; i++)
        if (value[i] != mixed(past + (uint64_t)(step + i)))
            fail("word %d of step %d is wrong", i, step);
    past = mixed(past ^ value[words - 1]);
    stored++;
    return MPI_SUCCESS;
}

static void loop(int steps, const int *owners, enum variant variant, void *buffer)
{
    for (int step = 0; step < steps; step++) {
        int owner = variant == RANKS ? step % ranks : owners[step % ranks];
        if (owner == rank)
            produce(step, buffer, NULL);
        (variant == GRAY ? MPI_Bcast : native(PMPI_Bcast))(buffer, words, MPI_UINT64_T, owner, MPI_COMM_WORLD);
        store(step, buffer, NULL);
    }
}

/* Seconds until the last process is through. */
static double timed(int steps, const int *owners, enum variant variant, void *buffer)
{
    const char *operation = variant == GRAY ? "bcast" : "successive_bcast";
    unsigned long long before = circulant_calls(operation);
    unsigned ours = variant == CIRCULANT ? 1 : variant == GRAY ? (unsigned)steps : 0;
    double seconds, slowest;
    past = (uint64_t)steps;
    stored = 0;
    native(PMPI_Barrier)(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (variant == CIRCULANT)
        circulant_successive_bcast(steps, words, MPI_UINT64_T, produce, store, NULL, MPI_COMM_WORLD);
    else
        loop(steps, owners, variant, buffer);
    seconds = MPI_Wtime() - start;
    if (stored != steps)
        fail("%d steps of %d", stored, steps);
    /* The first of a loop may not follow the last of the one before. */
    unsigned long long counted = circulant_calls(operation) - before;
    if (counted != ours && !(variant == GRAY && counted == ours - 1))
        fail("%s: circulant ran %llu calls", names[variant], counted);
    native(PMPI_Allreduce)(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int steps = argc > 3 ? atoi(argv[1]) : 0, repetitions = argc > 3 ? atoi(argv[2]) : 0;
    if (steps < 1 || repetitions < 1 || ranks < 2) {
        fprintf(stderr, "usage: successive STEPS REPETITIONS BYTES..., with two processes or more\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (!circulant_successive_bcast)
        fail("circulant is not loaded");
    int *owners = allocate((size_t)ranks * sizeof(int));
    for (int step = 0; step < ranks; step++)
        owners[step] = circulant_successive_owner(MPI_COMM_WORLD, step);
    if (rank == 0)
        printf("processes,steps,bytes,variant,repetition,seconds\n");
    for (int argument = 3; argument < argc; argument++) {
        int bytes = atoi(argv[argument]);
        words = bytes / 8 > 0 ? bytes / 8 : 1;
        void *buffer = allocate((size_t)words * 8);
        /* The first makes connections and is not counted. */
        for (int repetition = 0; repetition <= repetitions; repetition++)
            for (int variant = 0; variant < VARIANTS; variant++) {
                double seconds = timed(repetition ? steps : 12 * ranks, owners, (enum variant)variant, buffer);
                if (rank == 0 && repetition > 0)
                    printf("%d,%d,%d,\"%s\",%d,%.6f\n", ranks, steps, words * 8, names[variant], repetition, seconds);
            }
        fflush(stdout);
        free(buffer);
    }
    free(owners);
    MPI_Finalize();
    return 0;
}
