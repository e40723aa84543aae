#include "medley.h"

#include <stdlib.h>

#include "calls.h"
#include "check.h"
#include "reduction.h"

struct medley {
    MPI_Comm comm;
    int rank, size;
    int items;
};

/* A number in [0, bound), the same on all ranks. */
static int agreed(uint64_t what, int bound) {
    return (int)(mix(check_iteration(), what, 0, 5) % (uint64_t)bound);
}

static void one_bcast(const struct medley *m, const struct layout *ints) {
    int root = agreed(1, m->size), items = 1 + agreed(2, m->items);
    unsigned char *data = stream(root, (size_t)items * sizeof(int));
    struct buffer buffer = buffer_new(ints, items);
    if (m->rank == root) {
        buffer_input(&buffer, 0, items, data);
    } else {
        buffer_expect(&buffer, 0, items, data);
    }
    bcast(buffer.origin, items, MPI_INT, root, m->comm);
    buffer_check(&buffer, "bcast");
    free(data);
}

static void one_reduce(const struct medley *m, const struct reduction *sum) {
    int root = agreed(3, m->size), items = 1 + agreed(4, m->items);
    void *input = reduction_input(sum, m->rank, m->size, 0, items);
    void *result = reduction_result(sum, m->size, 0, items);
    struct buffer send = buffer_new(&sum->layout, items), receive = buffer_new(&sum->layout, items);
    buffer_input(&send, 0, items, input);
    if (m->rank == root) {
        buffer_expect(&receive, 0, items, result);
    }
    reduce(send.origin, receive.origin, items, MPI_INT, MPI_SUM, root, m->comm);
    buffer_check(&send, "reduce: send buffer");
    buffer_check(&receive, "reduce: receive buffer");
    free(input);
    free(result);
}

/* With counts, through MPI_Allgatherv (each rank one item more than the rank before). */
static void one_allgather(const struct medley *m, const struct layout *ints, bool counts) {
    int items = 1 + agreed(5, m->items), more = counts ? 1 : 0;
    MPI_Count *count = allocate(sizeof(MPI_Count) * (size_t)m->size);
    MPI_Aint *displacement = allocate(sizeof(MPI_Aint) * (size_t)m->size);
    MPI_Count total = 0;
    for (int rank = 0; rank < m->size; rank++) {
        count[rank] = items + more * rank;
        displacement[rank] = (MPI_Aint)total;
        total += count[rank];
    }
    struct buffer send = buffer_new(ints, count[m->rank]), receive = buffer_new(ints, total);
    for (int rank = 0; rank < m->size; rank++) {
        unsigned char *data = stream(rank, (size_t)count[rank] * sizeof(int));
        buffer_expect(&receive, displacement[rank], count[rank], data);
        if (rank == m->rank) {
            buffer_input(&send, 0, count[rank], data);
        }
        free(data);
    }
    if (counts) {
        allgatherv(send.origin, count[m->rank], MPI_INT, receive.origin, count, displacement,
                   MPI_INT, m->comm);
    } else {
        allgather(send.origin, items, MPI_INT, receive.origin, items, MPI_INT, m->comm);
    }
    buffer_check(&send, "allgather: send buffer");
    buffer_check(&receive, "allgather: receive buffer");
    free(count);
    free(displacement);
}

/* With counts, through MPI_Reduce_scatter (each rank one item more than the rank before). */
static void one_reduce_scatter(const struct medley *m, const struct reduction *sum, bool counts) {
    int items = 1 + agreed(6, m->items), more = counts ? 1 : 0;
    MPI_Count *count = allocate(sizeof(MPI_Count) * (size_t)m->size);
    MPI_Count total = 0, first = 0;
    for (int rank = 0; rank < m->size; rank++) {
        count[rank] = items + more * rank;
        first += rank < m->rank ? count[rank] : 0;
        total += count[rank];
    }
    void *input = reduction_input(sum, m->rank, m->size, 0, total);
    void *result = reduction_result(sum, m->size, first, count[m->rank]);
    struct buffer send = buffer_new(&sum->layout, total);
    struct buffer receive = buffer_new(&sum->layout, count[m->rank]);
    buffer_input(&send, 0, total, input);
    buffer_expect(&receive, 0, count[m->rank], result);
    if (counts) {
        reduce_scatter(send.origin, receive.origin, count, MPI_INT, MPI_SUM, m->comm);
    } else {
        reduce_scatter_block(send.origin, receive.origin, items, MPI_INT, MPI_SUM, m->comm);
    }
    buffer_check(&send, "reduce_scatter: send buffer");
    buffer_check(&receive, "reduce_scatter: receive buffer");
    free(count);
    free(input);
    free(result);
}

static void one_allreduce(const struct medley *m, const struct reduction *sum, int items) {
    void *input = reduction_input(sum, m->rank, m->size, 0, items);
    void *result = reduction_result(sum, m->size, 0, items);
    struct buffer send = buffer_new(&sum->layout, items), receive = buffer_new(&sum->layout, items);
    buffer_input(&send, 0, items, input);
    buffer_expect(&receive, 0, items, result);
    allreduce(send.origin, receive.origin, items, MPI_INT, sum->op, m->comm);
    buffer_check(&send, "allreduce: send buffer");
    buffer_check(&receive, "allreduce: receive buffer");
    free(input);
    free(result);
}

/* Every rank sends its stream, the same to all. */
static void one_alltoall(const struct medley *m, const struct layout *ints) {
    int items = 1 + agreed(8, m->items);
    struct buffer send = buffer_new(ints, items * m->size);
    struct buffer receive = buffer_new(ints, items * m->size);
    for (int rank = 0; rank < m->size; rank++) {
        unsigned char *mine = stream(m->rank, (size_t)items * sizeof(int) + (size_t)rank * 8);
        unsigned char *theirs = stream(rank, (size_t)items * sizeof(int) + (size_t)m->rank * 8);
        buffer_input(&send, items * rank, items, mine + rank * 8);
        buffer_expect(&receive, items * rank, items, theirs + m->rank * 8);
        free(mine);
        free(theirs);
    }
    alltoall(send.origin, items, MPI_INT, receive.origin, items, MPI_INT, m->comm);
    buffer_check(&send, "alltoall: send buffer");
    buffer_check(&receive, "alltoall: receive buffer");
}

static void one_gather(const struct medley *m, const struct layout *ints, bool scatters) {
    int root = agreed(9, m->size), items = 1 + agreed(10, m->items);
    bool is_root = m->rank == root;
    struct buffer part = buffer_new(ints, items);
    struct buffer all = buffer_new(ints, is_root ? items * m->size : 0);
    for (int rank = 0; rank < m->size; rank++) {
        unsigned char *data = stream(rank, (size_t)items * sizeof(int));
        if (is_root) {
            (scatters ? buffer_input : buffer_expect)(&all, items * rank, items, data);
        }
        if (rank == m->rank) {
            (scatters ? buffer_expect : buffer_input)(&part, 0, items, data);
        }
        free(data);
    }
    if (scatters) {
        scatter(all.origin, items, MPI_INT, part.origin, items, MPI_INT, root, m->comm);
    } else {
        gather(part.origin, items, MPI_INT, all.origin, items, MPI_INT, root, m->comm);
    }
    buffer_check(&part, scatters ? "scatter: part" : "gather: part");
    buffer_check(&all, scatters ? "scatter: whole" : "gather: whole");
}

static struct medley medley_on(MPI_Comm comm, int items) {
    struct medley m = {.comm = comm, .items = items};
    MPI_Comm_rank(comm, &m.rank);
    MPI_Comm_size(comm, &m.size);
    return m;
}

void medley_allreduce(MPI_Comm comm, int items, MPI_Op op) {
    struct medley m = medley_on(comm, items);
    struct reduction sum = reduction_int_sum();
    sum.op = op;
    one_allreduce(&m, &sum, items);
}

void medley(MPI_Comm comm, int items) {
    struct medley m = medley_on(comm, items);
    struct layout ints = layout_basic("int", MPI_INT, sizeof(int));
    struct reduction sum = reduction_int_sum();
    one_bcast(&m, &ints);
    one_allgather(&m, &ints, false);
    one_reduce(&m, &sum);
    one_reduce_scatter(&m, &sum, true);
    one_allgather(&m, &ints, true);
    one_reduce_scatter(&m, &sum, false);
    one_allreduce(&m, &sum, 1 + agreed(7, items));
    one_alltoall(&m, &ints);
    one_gather(&m, &ints, false);
    one_gather(&m, &ints, true);
}
