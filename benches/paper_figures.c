/*
 * Runs collectives at the papers' scale inside SimGrid's simulator (SMPI), natively (PMPI_X) or as
 * circulant runs them (MPI_X, with libcirculant.a linked in), and prints CSV of simulated times.
 *
 *   paper_figures time   OPERATION INPUT TYPE VARIANT REPETITIONS BYTES...
 *   paper_figures verify OPERATION INPUT int  VARIANT REPETITIONS BYTES...
 *
 * TYPE is int or double. VARIANT is native, circulant, or default: as the library decides. What ran is
 * printed then.
 *
 * All ranks are in one address space. For `time` they share two buffers, whose contents SMPI does
 * not move: p = 1152 with 40 MB each would need 92 GB. For `verify` each rank has buffers of its
 * own, every element names its rank and position, and every result is checked.
 *
 * The library's own counter has to say of every call that circulant ran if that is the variant, and
 * that it did not if that is native; the program fails (exit status 1) if it says anything else.
 *
 * With SMPI's default privatization each rank has a copy of the program, so of the library's
 * statics. That takes mappings that the system has not got for p = 25,600. Without it the ranks
 * share the statics, the counter too, so the program has none that change, and works on a
 * communicator that is an object of each rank's own, which MPI_COMM_WORLD is not.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"

/* Calls of one operation that ran as circulant, by this rank. */
extern unsigned long long circulant_calls(const char *operation);

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "paper_figures: ");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    PMPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* --- The operations -------------------------------------------------------------------------- */

/* One rank's view. Counts and displacements are in elements, one a rank; `total` is their sum. */
struct problem {
    MPI_Comm comm;
    MPI_Datatype type;
    int rank, ranks, total, *counts, *displacements, *in, *out;
};

static void bcast(const struct problem *p, int native)
{
    (native ? native(PMPI_Bcast) : MPI_Bcast)(p->out, p->total, p->type, 0, p->comm);
}

static void reduce(const struct problem *p, int native)
{
    (native ? native(PMPI_Reduce) : MPI_Reduce)(p->in, p->out, p->total, p->type, MPI_SUM, 0, p->comm);
}

static void allgather(const struct problem *p, int native)
{
    (native ? native(PMPI_Allgather) : MPI_Allgather)(p->in, p->counts[p->rank], p->type, p->out, p->counts[p->rank], p->type,
                                              p->comm);
}

static void allgatherv(const struct problem *p, int native)
{
    (native ? native(PMPI_Allgatherv) : MPI_Allgatherv)(p->in, p->counts[p->rank], p->type, p->out, p->counts, p->displacements,
                                                p->type, p->comm);
}

static void reduce_scatter_block(const struct problem *p, int native)
{
    (native ? native(PMPI_Reduce_scatter_block) : MPI_Reduce_scatter_block)(p->in, p->out, p->counts[p->rank], p->type, MPI_SUM,
                                                                    p->comm);
}

static void reduce_scatter(const struct problem *p, int native)
{
    (native ? native(PMPI_Reduce_scatter) : MPI_Reduce_scatter)(p->in, p->out, p->counts, p->type, MPI_SUM, p->comm);
}

static void allreduce(const struct problem *p, int native)
{
    (native ? native(PMPI_Allreduce) : MPI_Allreduce)(p->in, p->out, p->total, p->type, MPI_SUM, p->comm);
}

static void alltoall(const struct problem *p, int native)
{
    (native ? native(PMPI_Alltoall) : MPI_Alltoall)(p->in, p->counts[p->rank], p->type, p->out, p->counts[p->rank], p->type,
                                            p->comm);
}

static void gather(const struct problem *p, int native)
{
    (native ? native(PMPI_Gather) : MPI_Gather)(p->in, p->counts[p->rank], p->type, p->out, p->counts[p->rank], p->type, 0,
                                        p->comm);
}

static void scatter(const struct problem *p, int native)
{
    (native ? native(PMPI_Scatter) : MPI_Scatter)(p->in, p->counts[p->rank], p->type, p->out, p->counts[p->rank], p->type, 0,
                                          p->comm);
}

enum kind { BROADCAST, REDUCTION, REDUCTION_TO_ALL, GATHERING, SCATTERING, EXCHANGE, COLLECTION, DEALING };

static const struct operation {
    const char *name;
    void (*run)(const struct problem *, int native);
    enum kind kind;
} operations[] = {
    {"bcast", bcast, BROADCAST},
    {"reduce", reduce, REDUCTION},
    {"allgather", allgather, GATHERING},
    {"allgatherv", allgatherv, GATHERING},
    {"reduce_scatter_block", reduce_scatter_block, SCATTERING},
    {"reduce_scatter", reduce_scatter, SCATTERING},
    {"allreduce", allreduce, REDUCTION_TO_ALL},
    {"alltoall", alltoall, EXCHANGE},
    {"gather", gather, COLLECTION},
    {"scatter", scatter, DEALING},
};

static const struct operation *operation_named(const char *name)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    fail("unknown operation %s", name);
    return NULL;
}

/* The paper's inputs: m/p elements a rank; (r mod 3) m/p; one rank has all. */
static int share(const char *input, int r, int elements, int ranks)
{
    if (strcmp(input, "regular") == 0)
        return elements / ranks;
    if (strcmp(input, "irregular") == 0)
        return r % 3 * (elements / ranks);
    if (strcmp(input, "degenerate") == 0)
        return r == 0 ? elements : 0;
    fail("unknown input %s", input);
    return 0;
}

/* The shares of the ranks; rooted operations work on all elements. */
static void divide(struct problem *p, enum kind kind, const char *input, int elements)
{
    p->total = 0;
    for (int r = 0; r < p->ranks; r++) {
        p->displacements[r] = p->total;
        p->counts[r] = share(input, r, elements, p->ranks);
        p->total += p->counts[r];
    }
    if (kind == BROADCAST || kind == REDUCTION || kind == REDUCTION_TO_ALL)
        p->total = elements;
}

/* --- Contents -------------------------------------------------------------------------------- */

/* Small enough that a sum over 2,000 ranks fits an int. */
static int value(int of_rank, int position)
{
    uint32_t x = (uint32_t)of_rank * 0x9e3779b1u + (uint32_t)position * 0x85ebca6bu;
    x = (x ^ (x >> 15)) * 0x2c1b3c6du;
    return (int)((x ^ (x >> 12)) & 0xfffff);
}

static int sum_of_values(int position, int ranks)
{
    int sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += value(r, position);
    return sum;
}

static void fill(const struct problem *p, enum kind kind)
{
    int inputs = kind == GATHERING || kind == COLLECTION ? p->counts[p->rank] : p->total;
    for (int i = 0; i < p->total; i++)
        p->out[i] = kind == BROADCAST && p->rank == 0 ? value(0, i) : -1;
    for (int i = 0; i < inputs; i++)
        p->in[i] = value(p->rank, i);
}

static void expect(int found, int expected, int position)
{
    if (found != expected)
        fail("element %d is %d instead of %d", position, found, expected);
}

static void check(const struct problem *p, enum kind kind)
{
    switch (kind) {
    case BROADCAST:
        for (int i = 0; i < p->total; i++)
            expect(p->out[i], value(0, i), i);
        break;
    case REDUCTION:
        for (int i = 0; p->rank == 0 && i < p->total; i++)
            expect(p->out[i], sum_of_values(i, p->ranks), i);
        break;
    case REDUCTION_TO_ALL:
        for (int i = 0; i < p->total; i++)
            expect(p->out[i], sum_of_values(i, p->ranks), i);
        break;
    case EXCHANGE:
        for (int i = 0; i < p->total; i++) {
            int each = p->counts[p->rank];
            expect(p->out[i], value(i / each, p->rank * each + i % each), i);
        }
        break;
    case DEALING:
        for (int i = 0; i < p->counts[p->rank]; i++)
            expect(p->out[i], value(0, p->displacements[p->rank] + i), i);
        break;
    case COLLECTION:
        if (p->rank != 0)
            break;
        /* fall through */
    case GATHERING:
        for (int r = 0; r < p->ranks; r++)
            for (int i = 0; i < p->counts[r]; i++)
                expect(p->out[p->displacements[r] + i], value(r, i), p->displacements[r] + i);
        break;
    case SCATTERING:
        for (int i = 0; i < p->counts[p->rank]; i++)
            expect(p->out[i], sum_of_values(p->displacements[p->rank] + i, p->ranks), i);
        break;
    }
}

/* --- Memory ---------------------------------------------------------------------------------- */

static void *own(size_t size)
{
    void *memory = malloc(size);
    if (!memory)
        fail("no memory for %zu bytes", size);
    return memory;
}

/* Rank 0's memory for all, who write the same to it. */
static void *common(const struct problem *p, void *memory)
{
    native(PMPI_Bcast)(&memory, sizeof memory, MPI_BYTE, 0, p->comm);
    return memory;
}

/* For problems of up to `bytes` bytes; an irregular one may have an element a rank more. What is
 * shared, SMPI knows, and moves nothing from or to it. */
static void reserve(struct problem *p, size_t bytes, int shared)
{
    int first = p->rank == 0;
    size_t list = (size_t)p->ranks * sizeof(int), size = bytes + list;
    p->counts = common(p, first ? own(list) : NULL);
    p->displacements = common(p, first ? own(list) : NULL);
    p->in = shared ? common(p, first ? SMPI_SHARED_MALLOC(size) : NULL) : own(size);
    p->out = shared ? common(p, first ? SMPI_SHARED_MALLOC(size) : NULL) : own(size);
}

/* --- Time ------------------------------------------------------------------------------------ */

static double largest(const struct problem *p, double value)
{
    double result;
    native(PMPI_Allreduce)(&value, &result, 1, MPI_DOUBLE, MPI_MAX, p->comm);
    return result;
}

/* Simulated seconds from a start that is the same instant on all ranks to the last rank's end. */
static double timed(const struct operation *operation, const struct problem *p, int native)
{
    double start = largest(p, PMPI_Wtime()) + 1e-3;
    struct timespec pause = {.tv_nsec = (long)(1e9 * (start - PMPI_Wtime()))};
    nanosleep(&pause, NULL);
    operation->run(p, native);
    return largest(p, PMPI_Wtime()) - start;
}

static MPI_Datatype type_named(const char *name)
{
    if (strcmp(name, "double") != 0 && strcmp(name, "int") != 0)
        fail("unknown type %s", name);
    return strcmp(name, "double") == 0 ? MPI_DOUBLE : MPI_INT;
}

/* The size of an element. */
static size_t element(const struct problem *p)
{
    return p->type == MPI_DOUBLE ? sizeof(double) : sizeof(int);
}

/* Who runs the calls, as the command line says. */
static int is_variant(char **argv, const char *variant)
{
    return strcmp(argv[5], variant) == 0;
}

/* One call, which the counter has to have noticed or not, unless the library decides: once for each
 * rank that shares it. No rank is in the call before all have read the counter, nor still in it when they
 * read it again. Returns the time, and sets who ran it. */
static double proved(const struct operation *operation, char **argv, const struct problem *p, int counters,
                     const char **ran_by)
{
    PMPI_Barrier(p->comm);
    unsigned long long before = circulant_calls(operation->name);
    double seconds = timed(operation, p, is_variant(argv, "native"));
    unsigned long long ran = circulant_calls(operation->name) - before;
    int is_native = is_variant(argv, "native") || (is_variant(argv, "default") && ran == 0);
    unsigned long long expected = is_native ? 0 : (unsigned long long)(p->ranks / counters);
    if (ran != expected)
        fail("rank %d: %s ran %llu times as circulant instead of %llu", p->rank, operation->name, ran, expected);
    *ran_by = is_native ? "native" : "circulant";
    return seconds;
}

static void measure(const struct operation *operation, char **argv, const struct problem *p, int counters)
{
    int verifies = strcmp(argv[1], "verify") == 0;
    for (int k = 0; k < atoi(argv[6]); k++) {
        if (verifies)
            fill(p, operation->kind);
        const char *ran_by;
        double seconds = proved(operation, argv, p, counters, &ran_by);
        if (verifies)
            check(p, operation->kind);
        if (p->rank == 0)
            printf("%d,%s,%s,%s,%zu,%d,%.9f\n", p->ranks, operation->name, argv[3], ran_by,
                   (size_t)p->total * element(p), k + 1, seconds);
    }
    /* The counts, which are shared, may change now. */
    PMPI_Barrier(p->comm);
}

/* A communicator that is an object of this rank's own. */
static struct problem join(void)
{
    struct problem p;
    MPI_Group group;
    PMPI_Comm_group(MPI_COMM_WORLD, &group);
    PMPI_Comm_create(MPI_COMM_WORLD, group, &p.comm);
    PMPI_Group_free(&group);
    PMPI_Comm_rank(p.comm, &p.rank);
    PMPI_Comm_size(p.comm, &p.ranks);
    return p;
}

/* How many counters there are: one for each copy of the program's statics. */
static int count_copies(const struct problem *p)
{
    static int copy;
    void *address = &copy, *first = common(p, address);
    return largest(p, address != first) > 0 ? p->ranks : 1;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 8)
        fail("usage: paper_figures time|verify OPERATION INPUT int|double native|circulant|default REPETITIONS BYTES...");
    const struct operation *operation = operation_named(argv[2]);
    struct problem problem = join();
    problem.type = type_named(argv[4]);
    int counters = count_copies(&problem);
    long most = 0;
    for (int i = 7; i < argc; i++)
        most = atol(argv[i]) > most ? atol(argv[i]) : most;
    reserve(&problem, (size_t)most, strcmp(argv[1], "verify") != 0);
    for (int i = 7; i < argc; i++) {
        divide(&problem, operation->kind, argv[3], (int)(atol(argv[i]) / (long)element(&problem)));
        /* The first call on a communicator makes what the others use, and one that needs more scratch than
         * those before it agrees on that, which shows where calls are short. */
        if (i == 7 || atol(argv[i]) <= 65536)
            operation->run(&problem, is_variant(argv, "native"));
        measure(operation, argv, &problem, counters);
    }
    PMPI_Barrier(problem.comm);
    MPI_Finalize();
    return 0;
}
