/*
 * Times circulant_allgather_merge beside what a program does without it: the MPI library's MPI_Allgatherv
 * and then a merge of p blocks; in turn, in one run. Prints CSV.
 *
 *   merge REPETITIONS BYTES...
 *
 * Each process has BYTES of sorted integers of 32 bits, other ones in each repetition. The variants are
 *
 *   heap       MPI_Allgatherv, then one merge of all blocks by a binary heap
 *   pairs      MPI_Allgatherv, then merges of two, in pairs, one branch an element (the paper's Algorithm 0)
 *   gather     MPI_Allgatherv alone
 *   circulant  circulant_allgather_merge, as CIRCULANT_MERGE says, without a comparison function
 *   compared   the same with a comparison function
 *
 * The first three know how long the blocks are, circulant does not. Every result is checked, outside of the
 * time, against what a sort of all elements makes of them.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"
#include "program.h"

#include "../include/circulant.h"

#pragma weak circulant_allgather_merge
#pragma weak circulant_calls

static int ranks;

struct problem {
    int each, total; /* elements of a block, and of all */
    int *counts, *starts, *heap, *next;
    int32_t *own, *gathered, *spare, *result, *expected;
};

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int compare(const void *a, const void *b, void *context)
{
    (void)context;
    return ascending(a, b);
}

static struct problem prepare(int bytes)
{
    struct problem p = {.each = bytes / (int)sizeof(int32_t)};
    size_t size = (size_t)ranks;
    p.total = p.each * ranks;
    p.counts = allocate(size * sizeof(int));
    p.starts = allocate(size * sizeof(int));
    p.heap = allocate(size * sizeof(int));
    p.next = allocate(size * sizeof(int));
    for (int i = 0; i < ranks; i++) {
        p.counts[i] = p.each;
        p.starts[i] = i * p.each;
    }
    p.own = allocate((size_t)p.each * sizeof(int32_t));
    int32_t **all[] = {&p.gathered, &p.spare, &p.result, &p.expected};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = allocate((size_t)p.total * sizeof(int32_t));
    return p;
}

static void release(struct problem *p)
{
    void *all[] = {p->counts, p->starts, p->heap, p->next, p->own, p->gathered, p->spare, p->result, p->expected};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Sorted numbers of process `of` in repetition `repetition`. */
static void fill(int32_t *to, int count, int of, int repetition)
{
    uint64_t state = (uint64_t)of << 32 ^ (uint64_t)repetition << 16 ^ 0x9e3779b97f4a7c15u;
    for (int i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        to[i] = (int32_t)(state >> 32);
    }
    qsort(to, (size_t)count, sizeof *to, ascending);
}

static void gather(struct problem *p, int32_t *to)
{
    native(PMPI_Allgatherv)(p->own, p->each, MPI_INT32_T, to, p->counts, p->starts, MPI_INT32_T, MPI_COMM_WORLD);
}

/* The block at the top of the heap is the one whose next element is the smallest. */
static void sift(struct problem *p, int size, int hole)
{
    int moved = p->heap[hole];
    int32_t key = p->gathered[p->next[moved]];
    for (int child = 2 * hole + 1; child < size; child = 2 * hole + 1) {
        if (child + 1 < size && p->gathered[p->next[p->heap[child + 1]]] < p->gathered[p->next[p->heap[child]]])
            child++;
        if (key <= p->gathered[p->next[p->heap[child]]])
            break;
        p->heap[hole] = p->heap[child];
        hole = child;
    }
    p->heap[hole] = moved;
}

static void by_heap(struct problem *p)
{
    int size = p->each > 0 ? ranks : 0;
    gather(p, p->gathered);
    for (int i = 0; i < size; i++) {
        p->heap[i] = i;
        p->next[i] = p->starts[i];
    }
    for (int i = size / 2 - 1; i >= 0; i--)
        sift(p, size, i);
    for (int k = 0; size > 0; k++) {
        int block = p->heap[0];
        p->result[k] = p->gathered[p->next[block]++];
        if (p->next[block] == p->starts[block] + p->counts[block])
            p->heap[0] = p->heap[--size];
        if (size > 0)
            sift(p, size, 0);
    }
}

static void merge_two(const int32_t *left, int count, const int32_t *right, int other, int32_t *to)
{
    int i = 0, j = 0;
    while (i < count && j < other) {
        if (right[j] < left[i])
            *to++ = right[j++];
        else
            *to++ = left[i++];
    }
    memcpy(to, left + i, (size_t)(count - i) * sizeof *to);
    memcpy(to + (count - i), right + j, (size_t)(other - j) * sizeof *to);
}

static void by_pairs(struct problem *p)
{
    int levels = 0;
    while (1 << levels < ranks)
        levels++;
    /* Such that the last level ends in the result. */
    int32_t *from = levels % 2 ? p->spare : p->result, *to = levels % 2 ? p->result : p->spare;
    gather(p, from);
    for (long width = p->each; width < p->total; width *= 2) {
        for (long start = 0; start < p->total; start += 2 * width) {
            long middle = start + width < p->total ? start + width : p->total;
            long end = middle + width < p->total ? middle + width : p->total;
            merge_two(from + start, (int)(middle - start), from + middle, (int)(end - middle), to + start);
        }
        int32_t *swapped = from;
        from = to;
        to = swapped;
    }
}

static void only_gather(struct problem *p) { gather(p, p->gathered); }

static void with_circulant(struct problem *p, circulant_compare by)
{
    int count;
    circulant_allgather_merge(p->own, p->each, p->result, p->total, &count, MPI_INT32_T, by, NULL, MPI_COMM_WORLD);
    if (count != p->total)
        fail("%d elements, not %d", count, p->total);
}

static void by_circulant(struct problem *p) { with_circulant(p, NULL); }
static void by_comparison(struct problem *p) { with_circulant(p, compare); }

static const struct variant {
    const char *name;
    void (*run)(struct problem *);
    int merges, circulant;
} variants[] = {
    {"heap", by_heap, 1, 0},           {"circulant", by_circulant, 1, 1},  {"pairs", by_pairs, 1, 0},
    {"compared", by_comparison, 1, 1}, {"gather", only_gather, 0, 0},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* Seconds until the last rank is through. */
static double timed(struct problem *p, const struct variant *variant)
{
    double seconds, slowest;
    memset(p->result, 0, (size_t)p->total * sizeof *p->result);
    native(PMPI_Barrier)(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    variant->run(p);
    seconds = MPI_Wtime() - start;
    native(PMPI_Allreduce)(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Calls of ours that ran as circulant says; none where CIRCULANT_MERGE or the number of processes leaves
 * them to the MPI library. */
static void say_who_ran(void)
{
    unsigned long long calls = circulant_calls ? circulant_calls("allgather_merge") : 0;
    if (rank == 0)
        fprintf(stderr, "merge: %llu calls were circulant's\n", calls);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int repetitions = argc > 2 ? atoi(argv[1]) : 0;
    if (repetitions < 1) {
        fprintf(stderr, "usage: merge REPETITIONS BYTES...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (rank == 0)
        printf("processes,bytes,variant,repetition,seconds\n");
    for (int argument = 2; argument < argc; argument++) {
        struct problem p = prepare(atoi(argv[argument]));
        for (int repetition = 0; repetition <= repetitions; repetition++) {
            for (int of = 0; of < ranks; of++)
                fill(p.expected + (size_t)p.starts[of], p.each, of, repetition);
            qsort(p.expected, (size_t)p.total, sizeof *p.expected, ascending);
            fill(p.own, p.each, rank, repetition);
            for (int i = 0; i < VARIANTS; i++) {
                const struct variant *variant = &variants[i];
                if (variant->circulant && !circulant_allgather_merge)
                    continue;
                double seconds = timed(&p, variant);
                if (variant->merges && memcmp(p.result, p.expected, (size_t)p.total * sizeof *p.result) != 0)
                    fail("%s: the result is wrong", variant->name);
                /* The first makes connections and is not counted. */
                if (repetition > 0 && rank == 0)
                    printf("%d,%d,%s,%d,%.7f\n", ranks, p.each * (int)sizeof(int32_t), variant->name, repetition,
                           seconds);
            }
        }
        fflush(stdout);
        release(&p);
    }
    say_who_ran();
    MPI_Finalize();
    return 0;
}
