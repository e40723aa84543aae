/*
 * Operators and datatypes that are freed while a call uses them: by the operator itself, and by another thread
 * while the call waits for the last rank. The call ends as if they had not been.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

enum { MOST = 20000 };

/* MPI_OP_NULL, while there is none. */
static MPI_Op freed_by_itself;
static bool is_null = true;

static void add(void *in, void *inout, int *length, MPI_Datatype *datatype) {
    (void)datatype;
    for (int i = 0; i < *length; i++) {
        ((int *)inout)[i] += ((int *)in)[i];
    }
}

static void add_and_free(void *in, void *inout, int *length, MPI_Datatype *datatype) {
    if (freed_by_itself != MPI_OP_NULL) {
        MPI_Op_free(&freed_by_itself);
        is_null &= freed_by_itself == MPI_OP_NULL;
    }
    add(in, inout, length, datatype);
}

static int input[MOST], result[MOST];

static void set(void) {
    for (int i = 0; i < MOST; i++) {
        input[i] = world_rank * 3 + i;
        result[i] = -1;
    }
}

/* Elements `from` to `end` are sums over all ranks. */
static void check_sums(int from, int end) {
    for (int i = 0; i < end - from; i++) {
        const int expected = world_size * (from + i) + 3 * world_size * (world_size - 1) / 2;
        check(result[i] == expected, "element %d is %d, not %d", i, result[i], expected);
    }
}

/* A new one, since not every rank combines something, and frees the last. */
static void renew(void) {
    if (freed_by_itself != MPI_OP_NULL) {
        MPI_Op_free(&freed_by_itself);
    }
    MPI_Op_create(add_and_free, 1, &freed_by_itself);
    set();
}

static void operator_that_frees_itself(int count) {
    check_case("operator that frees itself, %d elements", count);
    renew();
    check_success(MPI_Allreduce(input, result, count, MPI_INT, freed_by_itself, MPI_COMM_WORLD), "MPI_Allreduce");
    check_sums(0, count);
    renew();
    check_success(MPI_Reduce(input, result, count, MPI_INT, freed_by_itself, 0, MPI_COMM_WORLD), "MPI_Reduce");
    if (world_rank == 0) {
        check_sums(0, count);
    }
    const int part = count / world_size;
    renew();
    check_success(MPI_Reduce_scatter_block(input, result, part, MPI_INT, freed_by_itself, MPI_COMM_WORLD),
                  "MPI_Reduce_scatter_block");
    check_sums(part * world_rank, part * (world_rank + 1));
    if (freed_by_itself != MPI_OP_NULL) {
        MPI_Op_free(&freed_by_itself);
    }
}

static MPI_Op op;
static MPI_Datatype type;

/* Frees both when the calls of this process wait for the last rank. */
static void *free_both(void *unused) {
    usleep(100000);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    is_null &= op == MPI_OP_NULL && type == MPI_DATATYPE_NULL;
    return unused;
}

static void freed_by_a_thread(int is_reduction) {
    check_case("freed by a thread in %s", is_reduction ? "MPI_Allreduce" : "MPI_Bcast");
    enum { LENGTH = 300 };
    set();
    MPI_Op_create(add, 1, &op);
    MPI_Type_vector(LENGTH, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    int *data = allocate(sizeof(int) * 2 * LENGTH);
    for (int i = 0; i < 2 * LENGTH; i++) {
        data[i] = world_rank == world_size - 1 ? i * 7 : -1;
    }
    pthread_t thread;
    const int is_last = world_rank == world_size - 1;
    if (is_last) {
        usleep(300000);
    } else {
        pthread_create(&thread, NULL, free_both, NULL);
    }
    if (is_reduction) {
        check_success(MPI_Allreduce(input, result, MOST, MPI_INT, op, MPI_COMM_WORLD), "MPI_Allreduce");
        check_sums(0, MOST);
    } else {
        check_success(MPI_Bcast(data, 1, type, world_size - 1, MPI_COMM_WORLD), "MPI_Bcast");
        for (int i = 0; i < 2 * LENGTH; i++) {
            const int expected = i % 2 == 0 || is_last ? i * 7 : -1;
            check(data[i] == expected, "element %d is %d, not %d", i, data[i], expected);
        }
    }
    if (is_last) {
        free_both(NULL);
    } else {
        pthread_join(thread, NULL);
    }
    free(data);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "freed", MPI_THREAD_MULTIPLE);
    freed_by_itself = MPI_OP_NULL;
    operator_that_frees_itself(world_size);
    operator_that_frees_itself(MOST);
    if (argc > 1 && world_size > 1) {
        freed_by_a_thread(1);
        freed_by_a_thread(0);
    }
    check(is_null, "a handle that was freed is not null");
    return check_end();
}
