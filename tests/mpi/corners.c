/*
 * What the standard allows and not every MPI survives. Each argument is a case:
 *
 *     elements   operators that assign whole structs, of which the datatype names a part
 *     wide       an operator on elements with gaps that are large
 *     aside      MPI_Reduce_scatter in place, where most of the result is one process's
 *     empty      MPI_Reduce_scatter with one buffer for both, where nothing is received
 *     aligned    operators that rely on the alignment of elements that begin before their address
 *     duplicate  collectives while MPI_Comm_idup of the communicator is under way
 *     elsewhere  collectives while MPI_Comm_idup of another communicator waits for a process, and
 *                afterwards
 *     large      datatypes made with large counts, where the MPI has them
 *     short      what the standard forbids: input that is shorter than its count says
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"
#include "medley.h"

enum { ITEMS = 4000 };

/* The member is all that the datatype names; what is around it is the operator's to copy. */
struct item {
    char before[40];
    double value;
    char behind[200];
};

static void larger(void *in, void *inout, int *items, MPI_Datatype *type) {
    (void)type;
    const struct item *from = in;
    struct item *into = inout;
    for (int i = 0; i < *items; i++) {
        if (from[i].value > into[i].value) {
            into[i] = from[i];
        }
    }
}

static double value(int rank, int i) { return (double)((i * 7 + rank * 13) % 101); }

static double largest(int i) {
    double largest = 0;
    for (int rank = 0; rank < world_size; rank++) {
        largest = value(rank, i) > largest ? value(rank, i) : largest;
    }
    return largest;
}

static void expect_largest(const struct item *items, int first, int count, const char *what) {
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        wrong += items[i].value != largest(first + i);
    }
    check(wrong == 0, "%s: %d items are wrong", what, wrong);
}

static void elements(int each) {
    MPI_Datatype member, type;
    MPI_Op op;
    MPI_Type_create_struct(1, (int[]){1}, (MPI_Aint[]){offsetof(struct item, value)},
                           (MPI_Datatype[]){MPI_DOUBLE}, &member);
    MPI_Type_create_resized(member, 0, sizeof(struct item), &type);
    MPI_Type_commit(&type);
    MPI_Op_create(larger, 1, &op);
    const int all = each * world_size;
    struct item *input = calloc((size_t)all, sizeof *input);
    struct item *result = calloc((size_t)all, sizeof *result);
    for (int i = 0; i < all; i++) {
        input[i].value = value(world_rank, i);
    }
    check_case("whole structs, %d on each rank", each);
    reduce(input, result, all, type, op, world_size - 1, MPI_COMM_WORLD);
    expect_largest(result, 0, world_rank == world_size - 1 ? all : 0, "reduce");
    reduce_scatter_block(input, result, each, type, op, MPI_COMM_WORLD);
    expect_largest(result, world_rank * each, each, "reduce_scatter_block");
    reduce_scatter_block(MPI_IN_PLACE, input, each, type, op, MPI_COMM_WORLD);
    expect_largest(input, world_rank * each, each, "reduce_scatter_block in place");
    free(input);
    free(result);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    MPI_Type_free(&member);
}

/* Elements with gaps, of which one has more data than is packed at once. */
enum { COLUMN = 16384, COLUMNS = 3 };

static void add_columns(void *in, void *inout, int *columns, MPI_Datatype *type) {
    (void)type;
    const double *from = in;
    double *into = inout;
    for (int i = 0; i < *columns * COLUMN; i++) {
        into[2 * i] += from[2 * i];
    }
}

static void wide(void) {
    MPI_Datatype column, type;
    MPI_Op op;
    MPI_Type_vector(COLUMN, 1, 2, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, 2 * COLUMN * (MPI_Aint)sizeof(double), &type);
    MPI_Type_commit(&type);
    MPI_Op_create(add_columns, 1, &op);
    static double input[2 * COLUMN * COLUMNS], result[2 * COLUMN * COLUMNS];
    for (int i = 0; i < 2 * COLUMN * COLUMNS; i++) {
        input[i] = i + world_rank;
        result[i] = -1;
    }
    check_case("wide elements");
    allreduce(input, result, COLUMNS, type, op, MPI_COMM_WORLD);
    int wrong = 0;
    for (int i = 0; i < 2 * COLUMN * COLUMNS; i++) {
        const double sum = (double)world_size * i + world_size * (world_size - 1) / 2.0;
        wrong += result[i] != (i % 2 == 0 ? sum : -1);
    }
    check(wrong == 0, "%d numbers are wrong", wrong);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    MPI_Type_free(&column);
}

enum { BEFORE = 8, WIDE = 32, NUMBERS = 4 };

static int misaligned;

static void add_aligned(void *in, void *inout, int *length, MPI_Datatype *type) {
    (void)type;
    misaligned += (uintptr_t)in % 16 != 0 || (uintptr_t)inout % 16 != 0;
    for (int i = 0; i < *length; i++) {
        const float *from = (const float *)((char *)in + (size_t)i * WIDE);
        float *into = (float *)((char *)inout + (size_t)i * WIDE);
        for (int k = 0; k < NUMBERS; k++) {
            into[k] += from[k];
        }
    }
}

static void aligned(void) {
    MPI_Datatype numbers, type;
    MPI_Op op;
    MPI_Type_contiguous(NUMBERS, MPI_FLOAT, &numbers);
    MPI_Type_create_resized(numbers, -BEFORE, WIDE, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(add_aligned, 1, &op);
    /* 16 bytes before the first, which may be touched from its lower bound on. */
    char *input = calloc(ITEMS + 1, WIDE), *result = calloc(ITEMS + 1, WIDE);
    for (int i = 0; i < ITEMS; i++) {
        for (int k = 0; k < NUMBERS; k++) {
            ((float *)(input + 16 + (size_t)i * WIDE))[k] = (float)(i % 100 + k + world_rank);
        }
    }
    check_case("elements that begin before their address");
    allreduce(input + 16, result + 16, ITEMS, type, op, MPI_COMM_WORLD);
    int wrong = 0;
    for (int i = 0; i < ITEMS; i++) {
        for (int k = 0; k < NUMBERS; k++) {
            const int expected = world_size * (i % 100 + k) + world_size * (world_size - 1) / 2;
            wrong += ((float *)(result + 16 + (size_t)i * WIDE))[k] != (float)expected;
        }
    }
    check(wrong == 0, "%d numbers are wrong", wrong);
    check(misaligned == 0, "%d calls of the operator had elements that are not aligned", misaligned);
    free(input);
    free(result);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    MPI_Type_free(&numbers);
}

static void aside(void) {
    enum { EACH = 1000, MOST = 45000 };
    static double data[MOST + 64 * EACH];
    MPI_Count counts[64];
    const int all = MOST + (world_size - 1) * EACH, mine = world_rank == 0 ? 0 : MOST + (world_rank - 1) * EACH;
    for (int rank = 0; rank < world_size; rank++) {
        counts[rank] = rank == 0 ? MOST : EACH;
    }
    for (int i = 0; i < all; i++) {
        data[i] = i + world_rank;
    }
    check_case("most of it aside");
    reduce_scatter(MPI_IN_PLACE, data, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    int wrong = 0;
    for (int i = 0; i < counts[world_rank]; i++) {
        wrong += data[i] != (double)world_size * (mine + i) + world_size * (world_size - 1) / 2.0;
    }
    check(wrong == 0, "%d numbers are wrong", wrong);
}

static void empty(void) {
    static int input[ITEMS], result[ITEMS];
    MPI_Count counts[64] = {ITEMS};
    check_case("one buffer for both");
    for (int i = 0; i < ITEMS; i++) {
        input[i] = i + world_rank;
    }
    int *receive = world_rank == 0 ? result : input, wrong = 0;
    reduce_scatter(input, receive, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < ITEMS; i++) {
        int sum = world_size * i + world_size * (world_size - 1) / 2;
        wrong += world_rank == 0 ? result[i] != sum : input[i] != i + world_rank;
    }
    check(wrong == 0, "%d ints are wrong", wrong);
}

static void duplicate(void) {
    for (int turn = 0; turn < 20; turn++) {
        MPI_Comm original, twin;
        MPI_Request request;
        check_case("duplication under way, turn %d", turn);
        MPI_Comm_dup(MPI_COMM_WORLD, &original);
        MPI_Comm_idup(original, &twin, &request);
        int data[ITEMS], wrong = 0, root = turn % world_size;
        for (int i = 0; i < ITEMS; i++) {
            data[i] = world_rank == root ? i + turn : -1;
        }
        /* Not counted as circulant's, so not by the wrappers. */
        MPI_Bcast(data, ITEMS, MPI_INT, root, original);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < ITEMS; i++) {
            wrong += data[i] != i + turn;
        }
        check(wrong == 0, "%d ints are wrong", wrong);
        bcast(data, ITEMS, MPI_INT, root, twin);
        bcast(data, ITEMS, MPI_INT, root, original);
        MPI_Comm_free(&original);
        MPI_Comm_free(&twin);
    }
}

/* The last process comes to the duplication when the others have ended their first call. */
static void elsewhere(void) {
    const int is_last = world_rank == world_size - 1;
    MPI_Comm others, twin;
    MPI_Request request;
    check_case("duplication of another communicator under way");
    MPI_Comm_split(MPI_COMM_WORLD, is_last, world_rank, &others);
    int token = 0;
    if (is_last) {
        MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Comm_idup(MPI_COMM_WORLD, &twin, &request);
    } else {
        MPI_Comm_idup(MPI_COMM_WORLD, &twin, &request);
        /* Some of what the MPI does for the duplication, it does in another call. */
        MPI_Barrier(others);
        medley_allreduce(others, ITEMS, MPI_SUM);
        if (world_rank == 0) {
            MPI_Send(&token, 1, MPI_INT, world_size - 1, 0, MPI_COMM_WORLD);
        }
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (!is_last) {
        medley_allreduce(others, ITEMS, MPI_SUM);
    }
    MPI_Comm_free(&others);
    MPI_Comm_free(&twin);
}

static void large(void) {
#if MPI_VERSION >= 4 && !defined(OPEN_MPI)
    MPI_Datatype types[3];
    MPI_Type_contiguous_c(4, MPI_INT, &types[0]);
    MPI_Type_vector_c(2, 1, 2, MPI_INT, &types[1]);
    MPI_Type_contiguous_c(20000, MPI_INT, &types[2]);
    for (int i = 0; i < 3; i++) {
        static int data[80000];
        int size, wrong = 0;
        check_case("datatype %d made with large counts", i);
        MPI_Type_commit(&types[i]);
        MPI_Type_size(types[i], &size);
        for (int k = 0; k < 80000; k++) {
            data[k] = world_rank == 0 ? k : -1;
        }
        bcast(data, 4, types[i], 0, MPI_COMM_WORLD);
        for (int k = 0; k < 4 * size / (int)sizeof(int); k++) {
            int place = i == 1 ? k / 2 * 3 + k % 2 * 2 : k;
            wrong += data[place] != place;
        }
        check(wrong == 0, "%d ints are wrong", wrong);
        MPI_Type_free(&types[i]);
    }
#endif
}

/* A tool that finds errors in memory has to find this one. */
static void too_short(void) {
    const size_t bytes = ITEMS * sizeof(int), missing = world_rank == 1 ? 64 : 0;
    int *input = calloc(1, bytes - missing), *result = allocate(bytes * (size_t)world_size);
    MPI_Allgather(input, ITEMS, MPI_INT, result, ITEMS, MPI_INT, MPI_COMM_WORLD);
    free(input);
    free(result);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "corners", MPI_THREAD_SINGLE);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "elements") == 0) {
            /* What is written outside of scratch shows only where that has just grown. */
            for (int each = 1; each < 3000; each = 3 * each + 1) {
                elements(each);
            }
        } else if (strcmp(argv[i], "wide") == 0) {
            wide();
        } else if (strcmp(argv[i], "aside") == 0) {
            aside();
        } else if (strcmp(argv[i], "empty") == 0) {
            empty();
        } else if (strcmp(argv[i], "aligned") == 0) {
            aligned();
        } else if (strcmp(argv[i], "duplicate") == 0) {
            duplicate();
        } else if (strcmp(argv[i], "elsewhere") == 0) {
            elsewhere();
        } else if (strcmp(argv[i], "short") == 0) {
            too_short();
        } else {
            large();
        }
    }
    return check_end();
}
