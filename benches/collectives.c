/*
 * Times MPI collectives, native (PMPI_X) and as circulant runs them (MPI_X, with libcirculant
 * preloaded or linked), alternately in one run of one program, and prints CSV.
 *
 *   collectives time      time of a call, beside the time that the port needs for the same bytes
 *   collectives overhead  time of a call that the library leaves native, in long batches
 *   collectives cpu       processor time of a call, summed over the ranks
 *
 * Every variant's result is checked against what it should be, once per configuration, and the
 * library's own counter has to say that circulant ran where it should and not where it should
 * not; otherwise the program fails (exit status 1).
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "native.h"
#include "program.h"

/* Calls of one operation that ran as circulant, in this process. Absent without the library. */
extern unsigned long long circulant_calls(const char *operation) __attribute__((weak));

enum { MAX_LIST = 16 };

static int ranks, hosts;
static int *host_of;  /* each rank's host, by its number */
static int far_rank; /* the first rank that is not on rank 0's host */

/* --- The run as a whole ---------------------------------------------------------------------- */

/* Open MPI says "Open MPI v4.1.4, package: ...", MPICH "MPICH Version:\t4.0.2\n...". */
static const char *mpi_name(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING], name[64];
    int length, major, minor, release = 0;
    MPI_Get_library_version(text, &length);
    const char *product = strstr(text, "Open MPI") ? "openmpi"
                          : strstr(text, "Intel")  ? "intelmpi"
                          : strstr(text, "MPICH")  ? "mpich"
                                                   : "mpi";
    const char *version = text + strcspn(text, "0123456789");
    if (sscanf(version, "%d.%d.%d", &major, &minor, &release) < 2)
        return product;
    snprintf(name, sizeof name, "%s-%d.%d.%d", product, major, minor, release);
    return name;
}

static void find_hosts(void)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length;
    MPI_Get_processor_name(name, &length);
    char(*names)[MPI_MAX_PROCESSOR_NAME] = allocate((size_t)ranks * sizeof *names);
    native(PMPI_Allgather)(name, sizeof name, MPI_CHAR, names, sizeof name, MPI_CHAR, MPI_COMM_WORLD);
    far_rank = ranks > 1 ? 1 : 0;
    host_of = allocate((size_t)ranks * sizeof(int));
    for (int r = 0; r < ranks; r++) {
        int first = 0;
        while (strcmp(names[first], names[r]) != 0)
            first++;
        host_of[r] = first == r ? hosts++ : host_of[first];
        if (first == r && hosts == 2)
            far_rank = r;
    }
    free(names);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort(double *values, int n) { qsort(values, (size_t)n, sizeof *values, compare_doubles); }

static double median(const double *sorted, int n)
{
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double combined(double value, MPI_Op op)
{
    double result;
    native(PMPI_Allreduce)(&value, &result, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
    return result;
}

/* --- Data whose every element names its rank and position ------------------------------------- */

/* Small enough that a sum over 2,000 ranks fits an int. */
static int value(int of_rank, size_t position)
{
    uint64_t x = ((uint64_t)of_rank << 40) + position + 1;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (int)((x ^ (x >> 31)) & 0xfffff);
}

static int sum_of_values(size_t position)
{
    int sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += value(r, position);
    return sum;
}

static MPI_Datatype datatype = MPI_DATATYPE_NULL;

static size_t element_size(void) { return datatype == MPI_DOUBLE ? sizeof(double) : sizeof(int); }

static void store(void *buffer, size_t index, int v)
{
    if (datatype == MPI_DOUBLE)
        ((double *)buffer)[index] = v;
    else
        ((int *)buffer)[index] = v;
}

static double load(const void *buffer, size_t index)
{
    return datatype == MPI_DOUBLE ? ((const double *)buffer)[index] : ((const int *)buffer)[index];
}

/* --- The operations -------------------------------------------------------------------------- */

/* One call's arguments. All counts are in elements; `counts` and `displacements` have one entry
 * per rank and sum to `total`. */
struct call {
    int root, total, *counts, *displacements;
    void *in, *out;
};

enum variant { NATIVE, CIRCULANT, VARIANTS };
static const char *const variant_names[VARIANTS] = {"native", "circulant"};

static void bcast(const struct call *c, enum variant v)
{
    (v == NATIVE ? native(PMPI_Bcast) : MPI_Bcast)(c->out, c->total, datatype, c->root, MPI_COMM_WORLD);
}

static void reduce(const struct call *c, enum variant v)
{
    (v == NATIVE ? native(PMPI_Reduce) : MPI_Reduce)(c->in, c->out, c->total, datatype, MPI_SUM, c->root,
                                             MPI_COMM_WORLD);
}

static void allgather(const struct call *c, enum variant v)
{
    (v == NATIVE ? native(PMPI_Allgather) : MPI_Allgather)(c->in, c->counts[rank], datatype, c->out,
                                                   c->counts[rank], datatype, MPI_COMM_WORLD);
}

static void allgatherv(const struct call *c, enum variant v)
{
    (v == NATIVE ? native(PMPI_Allgatherv) : MPI_Allgatherv)(c->in, c->counts[rank], datatype, c->out, c->counts,
                                                     c->displacements, datatype, MPI_COMM_WORLD);
}

static void reduce_scatter_block(const struct call *c, enum variant v)
{
    (v == NATIVE ? native(PMPI_Reduce_scatter_block) : MPI_Reduce_scatter_block)(
        c->in, c->out, c->counts[rank], datatype, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter(const struct call *c, enum variant v)
{
    (v == NATIVE ? native(PMPI_Reduce_scatter) : MPI_Reduce_scatter)(c->in, c->out, c->counts, datatype, MPI_SUM,
                                                             MPI_COMM_WORLD);
}

static void alltoall(const struct call *c, enum variant v)
{
    (v == NATIVE ? native(PMPI_Alltoall) : MPI_Alltoall)(c->in, c->counts[rank], datatype, c->out, c->counts[rank],
                                                 datatype, MPI_COMM_WORLD);
}

static void gather(const struct call *c, enum variant v)
{
    (v == NATIVE ? native(PMPI_Gather) : MPI_Gather)(c->in, c->counts[rank], datatype, c->out, c->counts[rank], datatype,
                                             c->root, MPI_COMM_WORLD);
}

static void scatter(const struct call *c, enum variant v)
{
    (v == NATIVE ? native(PMPI_Scatter) : MPI_Scatter)(c->in, c->counts[rank], datatype, c->out, c->counts[rank], datatype,
                                               c->root, MPI_COMM_WORLD);
}

static void allreduce(const struct call *c, enum variant v)
{
    (v == NATIVE ? native(PMPI_Allreduce) : MPI_Allreduce)(c->in, c->out, c->total, datatype, MPI_SUM, MPI_COMM_WORLD);
}

/* What the operation does with the data, which decides what is filled in and expected. */
static const struct operation {
    const char *name;
    void (*run)(const struct call *, enum variant);
    enum { BROADCAST, REDUCTION, GATHERING, SCATTERING, REDUCTION_TO_ALL, EXCHANGE, COLLECTION, DEALING } kind;
    int takes_counts; /* whether the ranks' shares may differ */
} operations[] = {
    {"bcast", bcast, BROADCAST, 0},
    {"reduce", reduce, REDUCTION, 0},
    {"allgather", allgather, GATHERING, 0},
    {"allgatherv", allgatherv, GATHERING, 1},
    {"reduce_scatter_block", reduce_scatter_block, SCATTERING, 0},
    {"reduce_scatter", reduce_scatter, SCATTERING, 1},
    {"allreduce", allreduce, REDUCTION_TO_ALL, 0},
    {"alltoall", alltoall, EXCHANGE, 0},
    {"gather", gather, COLLECTION, 0},
    {"scatter", scatter, DEALING, 0},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* The papers' inputs: all shares equal; shares of 0, 1 and 2 parts in turn; one rank has all. A part
 * is an element at least, so that the whole is larger than asked for where that is very small. */
static int share(const char *input, int r, int elements)
{
    int part = elements < ranks ? 1 : elements / ranks;
    if (strcmp(input, "regular") == 0)
        return part;
    if (strcmp(input, "irregular") == 0)
        return r % 3 * part;
    if (strcmp(input, "degenerate") == 0)
        return r == 0 ? elements : 0;
    fail("unknown input %s (regular, irregular, degenerate)", input);
    return 0;
}

/* Whether each rank has a share of the operand; otherwise it is one whole. */
static int in_shares(const struct operation *operation)
{
    return operation->kind != BROADCAST && operation->kind != REDUCTION && operation->kind != REDUCTION_TO_ALL;
}

static struct call prepare(const struct operation *operation, const char *input, long bytes, int root)
{
    struct call c = {.root = root};
    int elements = (int)(bytes / (long)element_size());
    c.counts = allocate((size_t)ranks * sizeof(int));
    c.displacements = allocate((size_t)ranks * sizeof(int));
    for (int r = 0; r < ranks; r++) {
        c.displacements[r] = c.total;
        c.counts[r] = share(input, r, elements);
        c.total += c.counts[r];
    }
    if (!in_shares(operation))
        c.total = elements;
    c.in = allocate((size_t)c.total * element_size());
    c.out = allocate((size_t)c.total * element_size());
    return c;
}

static void release(struct call *c)
{
    free(c->counts);
    free(c->displacements);
    free(c->in);
    free(c->out);
}

static void fill(const struct operation *operation, const struct call *c)
{
    int gathers = operation->kind == GATHERING || operation->kind == COLLECTION;
    int input_size = gathers ? c->counts[rank] : c->total;
    for (int i = 0; i < c->total; i++) {
        store(c->out, (size_t)i, -1);
        if (i < input_size)
            store(c->in, (size_t)i, value(rank, (size_t)i));
    }
    if (operation->kind == BROADCAST && rank == c->root)
        memcpy(c->out, c->in, (size_t)c->total * element_size());
}

static void expect(const struct operation *operation, enum variant v, const struct call *c, int i, int expected)
{
    if (load(c->out, (size_t)i) != expected)
        fail("%s %s: element %d is %.0f instead of %d", variant_names[v], operation->name, i,
             load(c->out, (size_t)i), expected);
}

static void check(const struct operation *operation, enum variant v, const struct call *c)
{
    switch (operation->kind) {
    case BROADCAST:
        for (int i = 0; i < c->total; i++)
            expect(operation, v, c, i, value(c->root, (size_t)i));
        break;
    case REDUCTION:
        for (int i = 0; rank == c->root && i < c->total; i++)
            expect(operation, v, c, i, sum_of_values((size_t)i));
        break;
    case REDUCTION_TO_ALL:
        for (int i = 0; i < c->total; i++)
            expect(operation, v, c, i, sum_of_values((size_t)i));
        break;
    case EXCHANGE:
        for (int i = 0; i < c->total; i++) {
            int from = i / c->counts[rank], position = rank * c->counts[rank] + i % c->counts[rank];
            expect(operation, v, c, i, value(from, (size_t)position));
        }
        break;
    case DEALING:
        for (int i = 0; i < c->counts[rank]; i++)
            expect(operation, v, c, i, value(c->root, (size_t)(c->displacements[rank] + i)));
        break;
    case COLLECTION:
        if (rank != c->root)
            break;
        /* fall through */
    case GATHERING:
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i < c->counts[r]; i++)
                expect(operation, v, c, c->displacements[r] + i, value(r, (size_t)i));
        break;
    case SCATTERING:
        for (int i = 0; i < c->counts[rank]; i++)
            expect(operation, v, c, i, sum_of_values((size_t)(c->displacements[rank] + i)));
        break;
    }
}

/* The least elements that the ranks of one host have together; of one rank, where there is one host. */
static long least_share(const struct call *c)
{
    long least = c->total;
    for (int place = 0; place < (hosts > 1 ? hosts : ranks); place++) {
        long sum = 0;
        for (int r = 0; r < ranks; r++)
            if ((hosts > 1 ? host_of[r] : r) == place)
                sum += c->counts[r];
        least = sum < least ? sum : least;
    }
    return least;
}

/* The least bytes that must pass the busiest port, a host's, in one direction. The whole must pass it
 * in a broadcast and in a reduction. In a gathering a host needs all shares but its own ranks', in a
 * scattering it gives away partial results for all but those; likewise in an exchange, and at the root of
 * a collection and of a dealing. A reduction to all must scatter and
 * gather equal shares of the whole. */
static long port_bytes(const struct operation *operation, const struct call *c)
{
    long whole = (long)c->total * (long)element_size();
    if (hosts == 1 && ranks == 1)
        return 0;
    if (operation->kind == REDUCTION_TO_ALL)
        return 2 * (whole - whole / (hosts > 1 ? hosts : ranks));
    return in_shares(operation) ? whole - least_share(c) * (long)element_size() : whole;
}

/* --- Options ---------------------------------------------------------------------------------- */

struct list {
    int length;
    const char *items[MAX_LIST];
};

static struct options {
    struct list operations, inputs, sizes;
    int repetitions, least[VARIANTS], skip, calls, root, allow_native, header;
    int measured[VARIANTS];
    double budget;
} options = {
    .repetitions = 7, .least = {3, 3}, .measured = {1, 1}, .header = 1, .budget = INFINITY};

static struct list split(char *text)
{
    struct list list = {0};
    for (char *item = strtok(text, ","); item; item = strtok(NULL, ",")) {
        if (list.length == MAX_LIST)
            fail("more than %d items in a list", MAX_LIST);
        list.items[list.length++] = item;
    }
    return list;
}

static const struct operation *operation_named(const char *name)
{
    for (int i = 0; i < OPERATIONS; i++)
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    fail("unknown operation %s", name);
    return NULL;
}

static const char usage[] =
    "usage: collectives time|overhead|cpu [OPTION...]\n"
    "  --operations LIST    of bcast reduce allgather allgatherv reduce_scatter_block reduce_scatter\n"
    "  --inputs LIST        of regular irregular degenerate, for allgatherv and reduce_scatter\n"
    "  --sizes LIST         bytes of the whole operand; less is used where it does not divide evenly\n"
    "  --datatype int|double\n"
    "  --root RANK          of bcast and reduce\n"
    "  --repetitions N      timed calls (time), batches (overhead, cpu) of each variant, at most\n"
    "  --calls N            calls in a batch (overhead, cpu)\n"
    "  --budget SECONDS     no further timed calls of a variant in a configuration after so long (time)\n"
    "  --least N            timed calls all the same (3)\n"
    "  --native-least N     the same, of the native variant; after --least\n"
    "  --skip N             configurations that were measured already (time)\n"
    "  --only native|circulant one variant; native can be measured without the library\n"
    "  --allow-native       do not fail where the library chose the native collective\n"
    "  --no-header          no line with the names of the columns\n";

static void measure_only(const char *name)
{
    for (int v = 0; v < VARIANTS; v++)
        options.measured[v] = strcmp(name, variant_names[v]) == 0;
    if (!options.measured[NATIVE] && !options.measured[CIRCULANT])
        fail("%s", usage);
}

static void read_options(int argc, char **argv)
{
    static char all_operations[] = "bcast,reduce,allgather,allgatherv,reduce_scatter_block,reduce_scatter";
    static char regular[] = "regular", megabyte[] = "1000000";
    enum { OPERATION_LIST, INPUTS, SIZES, DATATYPE, ROOT, REPETITIONS, CALLS, BUDGET, LEAST, NATIVE_LEAST, SKIP, ONLY, ALLOW_NATIVE, NO_HEADER };
    static const struct option known[] = {
        {"operations", 1, NULL, OPERATION_LIST}, {"inputs", 1, NULL, INPUTS},
        {"sizes", 1, NULL, SIZES},               {"datatype", 1, NULL, DATATYPE},
        {"root", 1, NULL, ROOT},                 {"repetitions", 1, NULL, REPETITIONS},
        {"calls", 1, NULL, CALLS},
        {"budget", 1, NULL, BUDGET},
        {"least", 1, NULL, LEAST},
        {"native-least", 1, NULL, NATIVE_LEAST},
        {"skip", 1, NULL, SKIP},
        {"only", 1, NULL, ONLY},
        {"allow-native", 0, NULL, ALLOW_NATIVE}, {"no-header", 0, NULL, NO_HEADER},
        {0},
    };
    options.operations = split(all_operations);
    options.inputs = split(regular);
    options.sizes = split(megabyte);
    datatype = MPI_INT;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case OPERATION_LIST: options.operations = split(optarg); break;
        case INPUTS: options.inputs = split(optarg); break;
        case SIZES: options.sizes = split(optarg); break;
        case DATATYPE: datatype = strcmp(optarg, "double") == 0 ? MPI_DOUBLE : MPI_INT; break;
        case ROOT: options.root = atoi(optarg); break;
        case REPETITIONS: options.repetitions = atoi(optarg); break;
        case CALLS: options.calls = atoi(optarg); break;
        case BUDGET: options.budget = atof(optarg); break;
        case LEAST: options.least[NATIVE] = options.least[CIRCULANT] = atoi(optarg); break;
        case NATIVE_LEAST: options.least[NATIVE] = atoi(optarg); break;
        case SKIP: options.skip = atoi(optarg); break;
        case ONLY: measure_only(optarg); break;
        case ALLOW_NATIVE: options.allow_native = 1; break;
        case NO_HEADER: options.header = 0; break;
        default: fail("%s", usage);
        }
    }
    if (options.repetitions < 1 || options.least[NATIVE] < 1 || options.least[CIRCULANT] < 1 || options.root < 0 || options.root >= ranks)
        fail("%s", usage);
    if (options.measured[CIRCULANT] && !circulant_calls)
        fail("libcirculant is not loaded; preload or link it, or use --only native");
}

/* --- Proof of what ran ------------------------------------------------------------------------ */

static unsigned long long calls_seen(const struct operation *operation)
{
    return circulant_calls ? circulant_calls(operation->name) : 0;
}

/* The calls of each variant, and those of them that the library counted as its own. */
struct proof {
    unsigned long long made[VARIANTS], ran[VARIANTS];
};

/* So many calls of a variant were made since the counter stood at `before`. */
static void prove(struct proof *proof, const struct operation *operation, enum variant v, int times,
                  unsigned long long before)
{
    proof->made[v] += (unsigned long long)times;
    proof->ran[v] += calls_seen(operation) - before;
}

static void run(const struct operation *operation, const struct call *c, enum variant v, int times,
                struct proof *proof)
{
    unsigned long long before = calls_seen(operation);
    for (int k = 0; k < times; k++)
        operation->run(c, v);
    prove(proof, operation, v, times, before);
}

/* Fails unless what was measured of the native variant was native and of the other as `expected`. */
static void require(enum variant expected, const struct operation *operation, const struct proof *proof)
{
    if (proof->ran[NATIVE])
        fail("%s: %llu of %llu native calls ran as circulant", operation->name, proof->ran[NATIVE],
             proof->made[NATIVE]);
    if (options.allow_native)
        return;
    if (proof->ran[CIRCULANT] != (expected == CIRCULANT ? proof->made[CIRCULANT] : 0))
        fail("%s: %llu of %llu calls ran as circulant; expected %s", operation->name, proof->ran[CIRCULANT],
             proof->made[CIRCULANT], expected == CIRCULANT ? "all" : "none");
}

static void verify(const struct operation *operation, const struct call *c, enum variant v, struct proof *proof)
{
    fill(operation, c);
    run(operation, c, v, 1, proof);
    check(operation, v, c);
}

/* --- time ------------------------------------------------------------------------------------- */

/* One call's time at the slowest rank, from a barrier on. To ask the library's counter is no part of it. */
static double timed(const struct operation *operation, const struct call *c, enum variant v, struct proof *proof)
{
    unsigned long long before = calls_seen(operation);
    PMPI_Barrier(MPI_COMM_WORLD);
    double start = PMPI_Wtime();
    operation->run(c, v);
    double seconds = PMPI_Wtime() - start;
    prove(proof, operation, v, 1, before);
    return combined(seconds, MPI_MAX);
}

/* What a port lets through, measured throughout the run: seconds of one message from rank 0 to a rank
 * on another host (of one host: to rank 1), otherwise timed as the collectives are. The message is
 * long, so that neither a latency nor what a port lets pass at once after a pause counts. */
enum { STREAM_BYTES = 4000000, MAX_STREAMS = 128 };
static struct {
    int length;
    double seconds[MAX_STREAMS];
} streams;

static void stream(void)
{
    char *buffer = allocate(STREAM_BYTES);
    memset(buffer, 1, STREAM_BYTES);
    PMPI_Barrier(MPI_COMM_WORLD);
    double start = PMPI_Wtime();
    if (rank == 0 && ranks > 1)
        PMPI_Send(buffer, STREAM_BYTES, MPI_BYTE, far_rank, 0, MPI_COMM_WORLD);
    else if (rank == far_rank && ranks > 1)
        PMPI_Recv(buffer, STREAM_BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double seconds = combined(PMPI_Wtime() - start, MPI_MAX);
    if (streams.length < MAX_STREAMS)
        streams.seconds[streams.length++] = seconds;
    free(buffer);
}

/* The time that a port needs for these bytes, by all that was streamed so far. */
static double limit_of(long bytes)
{
    double sorted[MAX_STREAMS];
    memcpy(sorted, streams.seconds, sizeof sorted);
    sort(sorted, streams.length);
    return median(sorted, streams.length) * (double)bytes / STREAM_BYTES;
}

/* The timed calls of one variant in one configuration. */
struct times {
    int wanted, n;
    double spent, *seconds;
};

static int wants_more(const struct times times[VARIANTS], enum variant v)
{
    int enough = times[v].n >= options.least[v] && times[v].spent >= options.budget;
    return times[v].wanted && times[v].n < options.repetitions && !enough;
}

static void add_time(struct times *times, double seconds)
{
    times->seconds[times->n++] = seconds;
    times->spent += seconds;
}

/* Times the call by which a variant's result is verified. A short one does not count: first calls set up
 * connections and schedules. */
static void verify_timed(const struct operation *operation, const struct call *c, enum variant v,
                         struct proof *proof, struct times *times)
{
    fill(operation, c);
    double seconds = timed(operation, c, v, proof);
    check(operation, v, c);
    if (seconds > options.budget)
        add_time(times, seconds);
}

/* One row a timed call; native last, so that a configuration is complete when that is. */
static void print_rows(const struct operation *operation, const char *input, long size, const struct call *c,
                       const struct times *times, const struct proof *proof)
{
    for (int v = VARIANTS - 1; v >= 0; v--)
        for (int k = 0; k < times[v].n; k++)
            printf("%s,%d,%d,%s,%s,%ld,%ld,%ld,%s,%d,%d,%.9f,%.9f,%llu/%llu\n", mpi_name(), ranks, hosts,
                   operation->name, input, size, (long)c->total * (long)element_size(), port_bytes(operation, c),
                   variant_names[v], k + 1, times[v].n, times[v].seconds[k], limit_of(port_bytes(operation, c)),
                   proof->ran[v], proof->made[v]);
    fflush(stdout);
}

/* The variants alternate, and take turns in going first. All ranks know all times, so that they agree
 * on how many there are. */
static void time_configuration(const struct operation *operation, const char *input, long size)
{
    struct call c = prepare(operation, input, size, options.root);
    struct proof proof = {0};
    struct times times[VARIANTS] = {0};
    for (int v = 0; v < VARIANTS; v++) {
        times[v].wanted = options.measured[v];
        times[v].seconds = allocate((size_t)options.repetitions * sizeof(double));
        if (times[v].wanted)
            verify_timed(operation, &c, (enum variant)v, &proof, &times[v]);
    }
    for (int round = 0; wants_more(times, NATIVE) || wants_more(times, CIRCULANT); round++)
        for (int turn = 0; turn < VARIANTS; turn++) {
            enum variant v = (enum variant)((turn + round) % VARIANTS);
            if (wants_more(times, v))
                add_time(&times[v], timed(operation, &c, v, &proof));
        }
    require(CIRCULANT, operation, &proof);
    if (rank == 0)
        print_rows(operation, input, size, &c, times, &proof);
    for (int v = 0; v < VARIANTS; v++)
        free(times[v].seconds);
    release(&c);
}

static void measure_time(void)
{
    if (rank == 0 && options.header)
        puts("mpi,p,hosts,operation,input,size,bytes,port_bytes,variant,repetition,repetitions,seconds,limit_s,"
             "ran_as_circulant");
    stream();
    streams.length = 0; /* the first one sets up its connection */
    stream();
    int configuration = 0;
    for (int o = 0; o < options.operations.length; o++) {
        const struct operation *operation = operation_named(options.operations.items[o]);
        int inputs = operation->takes_counts ? options.inputs.length : 1;
        for (int i = 0; i < inputs; i++) {
            if (configuration + options.sizes.length > options.skip)
                stream();
            for (int s = 0; s < options.sizes.length; s++)
                if (configuration++ >= options.skip)
                    time_configuration(operation, operation->takes_counts ? options.inputs.items[i] : "regular",
                                       atol(options.sizes.items[s]));
        }
    }
}

/* --- overhead and cpu --------------------------------------------------------------------------- */

/* Microseconds of one call: of the slowest rank, and of the processor, summed over the ranks. */
enum quantity { WALL, PROCESSOR, QUANTITIES };

static double processor_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void batch(const struct operation *operation, const struct call *c, enum variant v, int calls,
                  struct proof *proof, double cost[QUANTITIES])
{
    PMPI_Barrier(MPI_COMM_WORLD);
    double processor = processor_seconds(), wall = PMPI_Wtime();
    run(operation, c, v, calls, proof);
    wall = PMPI_Wtime() - wall;
    processor = processor_seconds() - processor;
    cost[WALL] = 1e6 * combined(wall, MPI_MAX) / calls;
    cost[PROCESSOR] = 1e6 * combined(processor, MPI_SUM) / calls;
}

/* Medians over the batches, and that of the differences between neighbouring batches, which a
 * drift of the machine's speed does not touch. */
static void print_medians(double (*costs)[VARIANTS][QUANTITIES], int n, enum quantity quantity)
{
    double *column = allocate((size_t)n * sizeof(double));
    for (int v = 0; v <= VARIANTS; v++) {
        if (v < VARIANTS ? !options.measured[v] : !options.measured[NATIVE] || !options.measured[CIRCULANT]) {
            printf(",");
            continue;
        }
        for (int k = 0; k < n; k++)
            column[k] = v < VARIANTS ? costs[k][v][quantity]
                                     : costs[k][CIRCULANT][quantity] - costs[k][NATIVE][quantity];
        sort(column, n);
        printf(",%.4f", median(column, n));
    }
    free(column);
}

static void time_batches(const struct operation *operation, long bytes, int calls, enum variant expected)
{
    struct call c = prepare(operation, "regular", bytes, options.root);
    struct proof proof = {0};
    int n = options.repetitions;
    double(*costs)[VARIANTS][QUANTITIES] = allocate((size_t)n * sizeof *costs);
    for (int v = 0; v < VARIANTS; v++)
        if (options.measured[v])
            verify(operation, &c, (enum variant)v, &proof);
    for (int k = 0; k < n; k++)
        for (int turn = 0; turn < VARIANTS; turn++) {
            enum variant v = (enum variant)((turn + k) % VARIANTS);
            if (options.measured[v])
                batch(operation, &c, v, calls, &proof, costs[k][v]);
        }
    require(expected, operation, &proof);
    if (rank == 0) {
        printf("%s,%d,%d,%s,%ld,%d,%d", mpi_name(), ranks, hosts, operation->name, bytes, calls, n);
        print_medians(costs, n, WALL);
        print_medians(costs, n, PROCESSOR);
        printf(",%llu/%llu\n", proof.ran[CIRCULANT], proof.made[CIRCULANT]);
        fflush(stdout);
    }
    free(costs);
    release(&c);
}

static void measure_batches(int calls, enum variant expected)
{
    if (rank == 0 && options.header)
        puts("mpi,p,hosts,operation,bytes,calls,batches,native_us,circulant_us,difference_us,native_cpu_us,"
             "circulant_cpu_us,difference_cpu_us,ran_as_circulant");
    for (int o = 0; o < options.operations.length; o++)
        for (int s = 0; s < options.sizes.length; s++)
            time_batches(operation_named(options.operations.items[o]), atol(options.sizes.items[s]), calls,
                         expected);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    find_hosts();
    read_options(argc, argv);
    const char *mode = optind == argc - 1 ? argv[optind] : "";
    if (strcmp(mode, "time") == 0)
        measure_time();
    else if (strcmp(mode, "overhead") == 0)
        measure_batches(options.calls ? options.calls : 10000, NATIVE);
    else if (strcmp(mode, "cpu") == 0)
        measure_batches(options.calls ? options.calls : 5, CIRCULANT);
    else
        fail("%s", usage);
    MPI_Finalize();
    return 0;
}
