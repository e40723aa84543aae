/*
 * circulant-tune: calls each operation on MPI_COMM_WORLD with more and more bytes, under
 * CIRCULANT_SELECT=tune, until circulant knows who runs the calls of each size fastest. `circulant
 * tune` starts it, and has the settings and the files.
 *
 *   circulant-tune SMALLEST LARGEST SHAPES OPERATION...
 *
 * Sizes are powers of two, from SMALLEST to LARGEST. Every fourth is measured. Where the next that
 * was measured is run by another candidate, the border between them is found by bisection. SHAPES
 * is 1 for operands that are as long on all ranks, and 2 for those of one rank only besides.
 *
 * Rank 0 prints a line after each measurement: the part of the work that is done, and what it was.
 */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the library that is preloaded: see include/circulant.h. */
extern int circulant_choice(const char *operation, unsigned long long bytes, unsigned long long irregularity,
                            int is_exact, int processes) __attribute__((weak));

/* Eleven candidates have six calls each at most. */
enum { STEP = 4, MOST_CALLS = 68, MOST_CLASSES = 64, UNKNOWN = -1 };

static int rank, processes;

/* What is called: its operation, and operands. */
struct subject {
    const char *operation;
    int is_exact;      /* integers; else floating-point numbers, whose sum depends on the order */
    int is_degenerate; /* all of it is one rank's */
};

static char *sent, *received;
static int *counts, *displacements;

/* Of the whole work, and what is done of it; in bytes, with as many for each call. */
static double work, done;
static const double EACH = 65536;

/* Of what is wrong on all processes, rank 0 speaks. (Some launchers lose what was written just before
 * MPI_Abort.) */
static void fail(const char *problem, const char *about)
{
    if (rank == 0)
        fprintf(stderr, "circulant tune: %s%s\n", problem, about);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    exit(1);
}

/* What is wrong on this process. */
static void fail_here(const char *problem, const char *about)
{
    fprintf(stderr, "circulant tune: rank %d: %s%s\n", rank, problem, about);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static double weight(int class)
{
    return EACH + (double)(1ULL << class);
}

/* In the middle of its class, so that it is in that class whatever p is. */
static size_t bytes_of(int class)
{
    return (size_t)3 << (class - 1);
}

static void call(const struct subject *subject, size_t bytes)
{
    const char *name = subject->operation;
    MPI_Datatype type = subject->is_exact ? MPI_INT : MPI_DOUBLE;
    size_t unit = subject->is_exact ? sizeof(int) : sizeof(double);
    int all = (int)(bytes / unit), each = (int)(bytes / unit / (size_t)processes);
    int sum = 0;
    for (int i = 0; i < processes; i++) {
        counts[i] = subject->is_degenerate ? (i == 0 ? all : 0) : each;
        displacements[i] = sum;
        sum += counts[i];
    }
    MPI_Comm world = MPI_COMM_WORLD;
    if (!strcmp(name, "bcast"))
        MPI_Bcast(sent, all, type, 0, world);
    else if (!strcmp(name, "reduce"))
        MPI_Reduce(sent, received, all, type, MPI_SUM, 0, world);
    else if (!strcmp(name, "allreduce"))
        MPI_Allreduce(sent, received, all, type, MPI_SUM, world);
    else if (!strcmp(name, "allgather"))
        MPI_Allgather(sent, each, type, received, each, type, world);
    else if (!strcmp(name, "allgatherv"))
        MPI_Allgatherv(sent, counts[rank], type, received, counts, displacements, type, world);
    else if (!strcmp(name, "reduce_scatter"))
        MPI_Reduce_scatter(sent, received, counts, type, MPI_SUM, world);
    else if (!strcmp(name, "reduce_scatter_block"))
        MPI_Reduce_scatter_block(sent, received, each, type, MPI_SUM, world);
    else if (!strcmp(name, "alltoall"))
        MPI_Alltoall(sent, each, type, received, each, type, world);
    else if (!strcmp(name, "gather"))
        MPI_Gather(sent, each, type, received, each, type, 0, world);
    else if (!strcmp(name, "scatter"))
        MPI_Scatter(sent, each, type, received, each, type, 0, world);
    else
        fail("there is no operation ", name);
}

static int choice(const struct subject *subject, size_t bytes)
{
    unsigned long long irregularity = subject->is_degenerate ? (unsigned long long)processes : 1;
    return circulant_choice(subject->operation, bytes, irregularity, subject->is_exact, processes);
}

/* The candidate that runs calls of a size; UNKNOWN, if circulant does not come to a choice. All
 * processes know it after the same call. */
static int measure(const struct subject *subject, int class)
{
    size_t bytes = bytes_of(class);
    int chosen = choice(subject, bytes);
    for (int calls = 0; chosen == UNKNOWN && calls < MOST_CALLS; calls++) {
        call(subject, bytes);
        chosen = choice(subject, bytes);
    }
    done += weight(class);
    if (rank == 0 && chosen == UNKNOWN)
        fprintf(stderr, "circulant tune: %s, %zu bytes: nothing was learned, so the profile does not have it\n",
                subject->operation, bytes);
    if (rank == 0) {
        printf("%.6f %s, %zu bytes\n", done / work, subject->operation, bytes);
        fflush(stdout);
    }
    return chosen;
}

/* Finds the borders between two sizes that were measured. */
static void bisect(const struct subject *subject, int low, int high, int *chosen)
{
    if (high - low < 2)
        return;
    if (chosen[low] == chosen[high]) {
        for (int class = low + 1; class < high; class++)
            done += weight(class);
        return;
    }
    int middle = (low + high) / 2;
    chosen[middle] = measure(subject, middle);
    bisect(subject, low, middle, chosen);
    bisect(subject, middle, high, chosen);
}

static void tune(const struct subject *subject, int smallest, int largest)
{
    int chosen[MOST_CLASSES];
    chosen[smallest] = measure(subject, smallest);
    for (int low = smallest; low < largest;) {
        int high = low + STEP < largest ? low + STEP : largest;
        chosen[high] = measure(subject, high);
        bisect(subject, low, high, chosen);
        low = high;
    }
}

static int is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

/* The operands with which an operation is called. Returns how many there are. */
static int subjects_of(const char *operation, int shapes, struct subject *subjects)
{
    static const char *const reductions[] = {"reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", NULL};
    static const char *const irregular[] = {"allgatherv", "reduce_scatter", NULL};
    int types = is_among(operation, reductions) ? 2 : 1, number = 0;
    if (!is_among(operation, irregular) || processes < 2)
        shapes = 1;
    for (int type = 0; type < types; type++)
        for (int shape = 0; shape < shapes; shape++)
            subjects[number++] = (struct subject){operation, type == 0, shape > 0};
    return number;
}

static int class_of(const char *argument)
{
    char *end;
    unsigned long long bytes = strtoull(argument, &end, 10);
    int class = 0;
    while (bytes >>= 1)
        class++;
    if (*end || class < 1 || class > 29)
        fail("sizes are from 2 to 2^29 bytes, not ", argument);
    return class;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (argc < 5)
        fail("usage: circulant-tune SMALLEST LARGEST SHAPES OPERATION...", "");
    if (!circulant_choice)
        fail("libcirculant.so is not preloaded: start `circulant tune`", "");
    if (processes < 2)
        fail("there is one process only: start `circulant tune` by the launcher of this MPI, on all nodes", "");
    int smallest = class_of(argv[1]), largest = class_of(argv[2]), shapes = atoi(argv[3]);
    if (smallest > largest)
        fail("the smallest size is larger than ", argv[2]);
    sent = calloc(bytes_of(largest), 1);
    received = calloc(bytes_of(largest), 1);
    counts = calloc((size_t)processes, sizeof *counts);
    displacements = calloc((size_t)processes, sizeof *displacements);
    if (!sent || !received || !counts || !displacements)
        fail_here("there is no memory for calls of bytes: ", argv[2]);
    struct subject subjects[4];
    for (int pass = 0; pass < 2; pass++)
        for (int at = 4; at < argc; at++) {
            int number = subjects_of(argv[at], shapes, subjects);
            for (int i = 0; i < number; i++) {
                if (pass == 1)
                    tune(&subjects[i], smallest, largest);
                for (int class = smallest; pass == 0 && class <= largest; class++)
                    work += weight(class);
            }
        }
    free(sent);
    free(received);
    free(counts);
    free(displacements);
    MPI_Finalize();
    return 0;
}
