/*
 * Calls on which processes do not agree: input on top of its result on one process only, which some MPIs
 * reject there, and sizes that differ. Nobody may be left waiting, and later calls work.
 */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "medley.h"

enum { COUNT = 5 };

static MPI_Comm comm;

/* An error handler that jumps out of the call, which then ends with the error all the same. */
static jmp_buf before;
static volatile int raised;

static void jump(MPI_Comm *from, int *code, ...) {
    (void)from;
    raised = *code;
    longjmp(before, 1);
}

#define ENDED(call) (setjmp(before) == 0 ? (call) : raised)

static int class_of(int code) {
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class;
}

/* What rank `rank` has for rank `other`, at `index`. */
static int value(int rank, int other, int index) {
    return (int)(mix((uint64_t)rank, (uint64_t)other, (uint64_t)index, check_iteration()) % 100000);
}

/*
 * An operation with its input apart from its result, or on top of it; and its result on this rank.
 * Room is for one block of each rank in both.
 */
typedef struct {
    const char *name;
    int (*run)(const int *input, int *result, int root);
    /* Whether the input can be where this rank's block of the result goes, not only at its start. */
    bool own_block;
    /* Input and result, in blocks; 0: one of each rank. */
    int input_blocks, result_blocks;
    /* Which process has input, and which a result that can overlay: of a rooted operation, the root. */
    bool rooted;
    int (*expected)(int root, int index);
} Case;

static int input_of(int rank, int index) {
    return value(rank, index / COUNT, index % COUNT);
}

static int counts[64], displs[64];

static int run_gather(const int *input, int *result, int root) {
    return MPI_Gather(input, COUNT, MPI_INT, result, COUNT, MPI_INT, root, comm);
}
static int run_allgather(const int *input, int *result, int root) {
    (void)root;
    return MPI_Allgather(input, COUNT, MPI_INT, result, COUNT, MPI_INT, comm);
}
static int run_allgatherv(const int *input, int *result, int root) {
    (void)root;
    return MPI_Allgatherv(input, COUNT, MPI_INT, result, counts, displs, MPI_INT, comm);
}
static int run_alltoall(const int *input, int *result, int root) {
    (void)root;
    return MPI_Alltoall(input, COUNT, MPI_INT, result, COUNT, MPI_INT, comm);
}
static int run_reduce(const int *input, int *result, int root) {
    return MPI_Reduce(input, result, COUNT, MPI_INT, MPI_SUM, root, comm);
}
static int run_allreduce(const int *input, int *result, int root) {
    (void)root;
    return MPI_Allreduce(input, result, COUNT, MPI_INT, MPI_SUM, comm);
}
static int run_reduce_scatter(const int *input, int *result, int root) {
    (void)root;
    return MPI_Reduce_scatter(input, result, counts, MPI_INT, MPI_SUM, comm);
}
static int run_reduce_scatter_block(const int *input, int *result, int root) {
    (void)root;
    return MPI_Reduce_scatter_block(input, result, COUNT, MPI_INT, MPI_SUM, comm);
}

static int gathered(int root, int index) {
    (void)root;
    return value(index / COUNT, 0, index % COUNT);
}
static int exchanged(int root, int index) {
    (void)root;
    return value(index / COUNT, world_rank, index % COUNT);
}
static int sum_of(int block, int index) {
    int sum = 0;
    for (int rank = 0; rank < world_size; rank++) {
        sum += value(rank, block, index);
    }
    return sum;
}
static int combined(int root, int index) {
    (void)root;
    return sum_of(0, index);
}
static int scattered(int root, int index) {
    (void)root;
    return sum_of(world_rank, index);
}

static const Case cases[] = {
    {"gather", run_gather, true, 1, 0, true, gathered},
    {"allgather", run_allgather, true, 1, 0, false, gathered},
    {"allgatherv", run_allgatherv, true, 1, 0, false, gathered},
    {"alltoall", run_alltoall, false, 0, 0, false, exchanged},
    {"reduce", run_reduce, false, 1, 1, true, combined},
    {"allreduce", run_allreduce, false, 1, 1, false, combined},
    {"reduce_scatter", run_reduce_scatter, false, 0, 1, false, scattered},
    {"reduce_scatter_block", run_reduce_scatter_block, false, 0, 1, false, scattered},
};

/* Input on top of its result on rank `alone`. Where that is an error, the call is made again. */
static void overlaid(const Case *of, int alone) {
    check_case("%s overlaid on rank %d", of->name, alone);
    const int all = COUNT * world_size;
    int *input = allocate(sizeof(int) * (size_t)all), *result = allocate(sizeof(int) * (size_t)all);
    const int length = of->input_blocks ? COUNT : all;
    int *on_top = result + (of->own_block ? COUNT * world_rank : 0);
    for (int i = 0; i < all; i++) {
        result[i] = -1;
    }
    for (int i = 0; i < length; i++) {
        input[i] = input_of(world_rank, i);
        if (world_rank == alone) {
            on_top[i] = input[i];
        }
    }
    int code = ENDED(of->run(world_rank == alone ? on_top : input, result, alone));
    if (code != MPI_SUCCESS) {
        check(world_rank == alone, "an error of class %d", class_of(code));
        code = of->run(input, result, alone);
    }
    check_success(code, of->name);
    if (!of->rooted || world_rank == alone) {
        for (int i = 0; i < (of->result_blocks ? COUNT : all); i++) {
            const int expected = of->expected(alone, i);
            check(result[i] == expected, "element %d is %d, not %d", i, result[i], expected);
        }
    }
    free(input);
    free(result);
}

/* The same of a scatter, whose root has the parts of all. */
static void overlaid_scatter(int root) {
    check_case("scatter overlaid on rank %d", root);
    const int all = COUNT * world_size;
    int *input = allocate(sizeof(int) * (size_t)all), part[COUNT];
    for (int i = 0; i < all; i++) {
        input[i] = value(root, i / COUNT, i % COUNT);
    }
    int *result = world_rank == root ? input + COUNT * root : part;
    int code = ENDED(MPI_Scatter(input, COUNT, MPI_INT, result, COUNT, MPI_INT, root, comm));
    if (code != MPI_SUCCESS) {
        check(world_rank == root, "an error of class %d", class_of(code));
        result = part;
        code = MPI_Scatter(input, COUNT, MPI_INT, result, COUNT, MPI_INT, root, comm);
    }
    check_success(code, "MPI_Scatter");
    for (int i = 0; i < COUNT; i++) {
        const int expected = value(root, world_rank, i);
        check(result[i] == expected, "element %d is %d, not %d", i, result[i], expected);
    }
    free(input);
}

/* A broadcast with a datatype that was not committed on rank `alone`, and then with a root that is none, where
 * the call is made again. The roots follow each other. */
static void uncommitted_broadcast(int alone) {
    static int calls;
    const int root = calls++ % world_size;
    check_case("broadcast from rank %d, uncommitted on rank %d", root, alone);
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    int data[2 * COUNT] = {0};
    for (int i = 0; i < 2 * COUNT && world_rank == root; i++) {
        data[i] = value(root, calls, i);
    }
    if (world_rank != alone) {
        MPI_Type_commit(&pair);
    } else {
        const int error = ENDED(MPI_Bcast(data, COUNT, pair, root, comm));
        check(error != MPI_SUCCESS, "no error");
        const int of_root = ENDED(MPI_Bcast(data, 2 * COUNT, MPI_INT, world_size, comm));
        check(of_root != MPI_SUCCESS, "no error of the root");
        MPI_Type_commit(&pair);
    }
    check_success(MPI_Bcast(data, COUNT, pair, root, comm), "MPI_Bcast");
    for (int i = 0; i < 2 * COUNT; i++) {
        check(data[i] == value(root, calls, i), "element %d is %d", i, data[i]);
    }
    MPI_Type_free(&pair);
}

/* Reductions by an operator that is not defined on the datatype, on rank `alone`, which then makes the calls of
 * the others. */
static void undefined_operator(int alone) {
    check_case("an operator that is not defined on the datatype on rank %d", alone);
    const int all = COUNT * world_size;
    int *input = allocate(sizeof(int) * (size_t)all), *result = allocate(sizeof(int) * (size_t)all);
    for (int i = 0; i < all; i++) {
        input[i] = input_of(world_rank, i);
    }
    if (world_rank == alone) {
        const int error = ENDED(MPI_Allreduce(input, result, all, MPI_FLOAT, MPI_BAND, comm));
        check(class_of(error) == MPI_ERR_OP, "an error of class %d", class_of(error));
    }
    check_success(MPI_Allreduce(input, result, all, MPI_INT, MPI_SUM, comm), "MPI_Allreduce");
    for (int i = 0; i < all; i++) {
        const int expected = sum_of(i / COUNT, i % COUNT);
        check(result[i] == expected, "element %d is %d, not %d", i, result[i], expected);
    }
    if (world_rank == alone) {
        const int error = ENDED(MPI_Reduce_scatter_block(input, result, COUNT, MPI_FLOAT, MPI_BAND, comm));
        check(class_of(error) == MPI_ERR_OP, "an error of class %d", class_of(error));
    }
    check_success(MPI_Reduce_scatter_block(input, result, COUNT, MPI_INT, MPI_SUM, comm), "MPI_Reduce_scatter_block");
    for (int i = 0; i < COUNT; i++) {
        check(result[i] == scattered(0, i), "element %d is %d, not %d", i, result[i], scattered(0, i));
    }
    free(input);
    free(result);
}

/* Broadcasts from rank 0 to the ranks that are odd, with wrong arguments on one rank, which then makes the call of
 * the others. */
static void broadcasts_between_groups(void) {
    MPI_Comm group, groups;
    const int is_odd = world_rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, is_odd, world_rank, &group);
    MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, !is_odd, 1, &groups);
    MPI_Comm_set_errhandler(groups, MPI_ERRORS_RETURN);
    const int root = is_odd ? 0 : world_rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    for (int alone = 0; alone < world_size; alone++) {
        /* A neighbour of the root has no arguments that matter. */
        if (alone > 0 && alone % 2 == 0) {
            continue;
        }
        check_case("broadcast between groups, wrong on rank %d", alone);
        int data[COUNT];
        for (int i = 0; i < COUNT; i++) {
            data[i] = world_rank == 0 ? value(0, alone, i) : -1;
        }
        if (world_rank == alone) {
            int error = MPI_Bcast(data, COUNT, MPI_DATATYPE_NULL, root, groups);
            check(class_of(error) == MPI_ERR_TYPE, "an error of class %d", class_of(error));
            error = MPI_Bcast(data, -1, MPI_INT, root, groups);
            check(class_of(error) == MPI_ERR_COUNT, "an error of class %d", class_of(error));
        }
        check_success(MPI_Bcast(data, COUNT, MPI_INT, root, groups), "MPI_Bcast");
        for (int i = 0; i < COUNT && (is_odd || world_rank == 0); i++) {
            check(data[i] == value(0, alone, i), "element %d is %d", i, data[i]);
        }
    }
    MPI_Comm_free(&groups);
    MPI_Comm_free(&group);
}

/* A broadcast of which the root and the others expect another length: all of these hear of it. */
static void broadcast_of(int count, int others) {
    check_case("broadcast of %d elements, received as %d", count, others);
    int data[COUNT * 2] = {0};
    const int code = MPI_Bcast(data, world_rank == 0 ? count : others, MPI_INT, 0, comm);
    const int class = class_of(code), expected = world_rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE;
    check(class == expected, "the error class is %d, not %d", class, expected);
}

static int handled_on_world;

static void count_on_world(MPI_Comm *on, int *code, ...) {
    (void)on;
    (void)code;
    handled_on_world++;
}

/* The same where MPI_COMM_WORLD has an error handler of the program: it does not run, and stays. */
static void broadcast_with_a_handler_on_world(void) {
    MPI_Errhandler before, own, after;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    MPI_Comm_create_errhandler(count_on_world, &own);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
    broadcast_of(10, 5);
    check_case("error handler of MPI_COMM_WORLD");
    check(handled_on_world == 0, "it ran %d times", handled_on_world);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
    check(after == own, "it is another");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
    MPI_Errhandler_free(&before);
    MPI_Errhandler_free(&own);
    MPI_Errhandler_free(&after);
}

/* A large broadcast, of as many blocks, of which the last process expects a little less: somebody
 * hears of it. */
static void broadcast_with_less_on_the_last(void) {
    enum { LARGE = 200000, LESS = 7 };
    check_case("broadcast of %d bytes with %d less on the last rank", LARGE, LESS);
    char *data = allocate(LARGE);
    memset(data, world_rank, LARGE);
    const int count = world_rank == world_size - 1 ? LARGE - LESS : LARGE;
    int heard = MPI_Bcast(data, count, MPI_BYTE, 0, comm) != MPI_SUCCESS, anybody = 0;
    PMPI_Allreduce(&heard, &anybody, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    check(anybody, "nobody heard of it");
    free(data);
}

/* After a broadcast of blocks that nobody takes, the next one's are not mistaken for them. */
static void broadcast_after_another_length(void) {
    enum { MORE = 1500, LESS = 1400 };
    check_case("broadcast after one of %d bytes, received as %d", MORE, LESS);
    char data[MORE];
    memset(data, 1, MORE);
    MPI_Bcast(data, world_rank == 0 ? MORE : LESS, MPI_CHAR, 0, comm);
    for (int i = 0; i < MORE; i++) {
        data[i] = world_rank == 0 ? (char)value(0, 1, i) : 0;
    }
    check_success(MPI_Bcast(data, MORE, MPI_CHAR, 0, comm), "MPI_Bcast");
    for (int i = 0; i < MORE; i++) {
        check(data[i] == (char)value(0, 1, i), "byte %d is %d", i, data[i]);
    }
}

/* One process has twice as many elements as the others: somebody hears of it. */
static void with_more_on(int one) {
    const int count = world_rank == one ? 2 : 1, most = 2 * world_size;
    int *input = allocate(sizeof(int) * (size_t)most), *result = allocate(sizeof(int) * (size_t)most);
    memset(input, 1, sizeof(int) * (size_t)most);
    const char *names[] = {"allgather", "allreduce", "gather", "alltoall", "reduce"};
    for (int operation = 0; operation < 5; operation++) {
        check_case("%s with more on rank %d", names[operation], one);
        int code = MPI_SUCCESS;
        switch (operation) {
        case 0: code = MPI_Allgather(input, count, MPI_INT, result, count, MPI_INT, comm); break;
        case 1: code = MPI_Allreduce(input, result, count, MPI_INT, MPI_SUM, comm); break;
        case 2: code = MPI_Gather(input, count, MPI_INT, result, count, MPI_INT, 0, comm); break;
        case 3: code = MPI_Alltoall(input, count, MPI_INT, result, count, MPI_INT, comm); break;
        case 4: code = MPI_Reduce(input, result, count, MPI_INT, MPI_SUM, 0, comm); break;
        }
        int heard = code != MPI_SUCCESS, anybody = 0;
        PMPI_Allreduce(&heard, &anybody, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        check(anybody, "nobody heard of it");
    }
    free(input);
    free(result);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "disagreements", MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
#ifdef OPEN_MPI
    /* Where it raises that of MPI_Allreduce. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#endif
    for (int rank = 0; rank < world_size; rank++) {
        counts[rank] = COUNT;
        displs[rank] = COUNT * rank;
    }
    const bool jumping = argc > 1 && strcmp(argv[1], "jumping") == 0;
    const bool often = jumping || (argc > 1 && strcmp(argv[1], "often") == 0);
    if (jumping) {
        MPI_Errhandler own;
        MPI_Comm_create_errhandler(jump, &own);
        MPI_Comm_set_errhandler(comm, own);
        MPI_Errhandler_free(&own);
    }
    for (int alone = 0; alone < (often ? 4000 : world_size); alone++) {
        for (size_t of = 0; of < sizeof cases / sizeof *cases; of++) {
            overlaid(&cases[of], alone % world_size);
        }
        overlaid_scatter(alone % world_size);
        uncommitted_broadcast(alone % world_size);
        undefined_operator(alone % world_size);
    }
    if (world_size > 1 && !often) {
        broadcasts_between_groups();
    }
    if (argc > 1 && strcmp(argv[1], "blocks") == 0) {
        broadcast_after_another_length();
    } else if (argc > 1 && !often) {
        broadcast_of(5, 10);
        medley(comm, 100);
        broadcast_of(10, 5);
        medley(comm, 100);
        broadcast_with_a_handler_on_world();
        medley(comm, 100);
        broadcast_with_less_on_the_last();
        medley(comm, 100);
        for (int one = 0; one < world_size; one++) {
            with_more_on(one);
        }
    }
    medley(comm, 100);
    MPI_Comm_free(&comm);
    return check_end();
}
