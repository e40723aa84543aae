/*
 * Inter-communicators, where the operations mean something else: all but the broadcast and the
 * allgathers stay with the MPI.
 * Ranks 0, 3, 6, ... are one group, the others the other; each group has data of its own.
 */
#include <stdlib.h>

#include "calls.h"
#include "check.h"
#include "reduction.h"

enum { UNIT = 60 };

struct groups {
    MPI_Comm inter;
    int group;               /* 0 or 1 */
    int rank, local, remote; /* rank in the group, and the sizes */
};

static struct layout ints;
static struct reduction sum;

/* Data of a rank of either group. */
static void *data_of(int group, int rank, int items) {
    check_color(group + 1);
    void *data = stream(rank, (size_t)items * sizeof(int));
    check_color(0);
    return data;
}

static void *input_of(int group, int rank, int size, int items) {
    check_color(group + 1);
    void *input = reduction_input(&sum, rank, size, 0, items);
    check_color(0);
    return input;
}

static void *result_of(int group, int size, int first, int items) {
    check_color(group + 1);
    void *result = reduction_result(&sum, size, first, items);
    check_color(0);
    return result;
}

/* The root argument of a rooted operation whose root is in group `group`. */
static int root_argument(const struct groups *g, int group, int root) {
    return g->group != group ? root : g->rank == root ? MPI_ROOT : MPI_PROC_NULL;
}

static void one_bcast(const struct groups *g, int group, int root) {
    check_case("bcast from rank %d of group %d", root, group);
    void *data = data_of(group, root, UNIT);
    struct buffer buffer = buffer_new(&ints, UNIT);
    if (g->group != group) {
        buffer_expect(&buffer, 0, UNIT, data);
    } else if (g->rank == root) {
        buffer_input(&buffer, 0, UNIT, data);
    }
    bcast(buffer.origin, UNIT, MPI_INT, root_argument(g, group, root), g->inter);
    buffer_check(&buffer, "buffer");
    free(data);
}

static void one_reduce(const struct groups *g, int group, int root) {
    check_case("reduce to rank %d of group %d", root, group);
    struct buffer send = buffer_new(&ints, UNIT), receive = buffer_new(&ints, UNIT);
    void *data = g->group != group ? input_of(g->group, g->rank, g->local, UNIT)
                                   : result_of(1 - group, g->remote, 0, UNIT);
    if (g->group != group) {
        buffer_input(&send, 0, UNIT, data);
    } else if (g->rank == root) {
        buffer_expect(&receive, 0, UNIT, data);
    }
    reduce(send.origin, receive.origin, UNIT, MPI_INT, MPI_SUM, root_argument(g, group, root),
           g->inter);
    buffer_check(&send, "send buffer");
    buffer_check(&receive, "receive buffer");
    free(data);
}

/* Ranks of group 1 send twice as much as those of group 0. */
static void one_allgather(const struct groups *g, bool counts) {
    check_case("allgather%s", counts ? "v" : "");
    int mine = UNIT * (g->group + 1), theirs = UNIT * (2 - g->group);
    MPI_Count *count = allocate(sizeof(MPI_Count) * (size_t)g->remote);
    MPI_Aint *displacement = allocate(sizeof(MPI_Aint) * (size_t)g->remote);
    struct buffer send = buffer_new(&ints, mine);
    struct buffer receive = buffer_new(&ints, (MPI_Count)theirs * g->remote);
    void *data = data_of(g->group, g->rank, mine);
    buffer_input(&send, 0, mine, data);
    free(data);
    for (int rank = 0; rank < g->remote; rank++) {
        count[rank] = theirs;
        displacement[rank] = (MPI_Aint)theirs * (g->remote - 1 - rank);
        data = data_of(1 - g->group, rank, theirs);
        buffer_expect(&receive, counts ? displacement[rank] : (MPI_Count)theirs * rank, theirs,
                      data);
        free(data);
    }
    calls_between(mine);
    if (counts) {
        allgatherv(send.origin, mine, MPI_INT, receive.origin, count, displacement, MPI_INT,
                   g->inter);
    } else {
        allgather(send.origin, mine, MPI_INT, receive.origin, theirs, MPI_INT, g->inter);
    }
    buffer_check(&send, "send buffer");
    buffer_check(&receive, "receive buffer");
    free(count);
    free(displacement);
}

/* Both groups must spread the same total. */
static void one_reduce_scatter(const struct groups *g, bool counts) {
    check_case("reduce_scatter%s", counts ? "" : "_block");
    int total = UNIT * g->local * g->remote, block = UNIT * g->remote;
    MPI_Count *count = allocate(sizeof(MPI_Count) * (size_t)g->local);
    for (int rank = 0; rank < g->local; rank++) {
        count[rank] = block;
    }
    void *input = input_of(g->group, g->rank, g->local, total);
    void *result = result_of(1 - g->group, g->remote, block * g->rank, block);
    struct buffer send = buffer_new(&ints, total), receive = buffer_new(&ints, block);
    buffer_input(&send, 0, total, input);
    buffer_expect(&receive, 0, block, result);
    if (counts) {
        reduce_scatter(send.origin, receive.origin, count, MPI_INT, MPI_SUM, g->inter);
    } else {
        reduce_scatter_block(send.origin, receive.origin, block, MPI_INT, MPI_SUM, g->inter);
    }
    buffer_check(&send, "send buffer");
    buffer_check(&receive, "receive buffer");
    free(count);
    free(input);
    free(result);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "intercommunicators", MPI_THREAD_SINGLE);
    struct groups g = {.group = world_rank % 3 != 0};
    MPI_Comm local;
    ints = layout_basic("int", MPI_INT, sizeof(int));
    sum = reduction_int_sum();
    if (world_size > 1) {
        MPI_Comm_split(MPI_COMM_WORLD, g.group, world_rank, &local);
        MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - g.group, 5, &g.inter);
        MPI_Comm_rank(g.inter, &g.rank);
        MPI_Comm_size(g.inter, &g.local);
        MPI_Comm_remote_size(g.inter, &g.remote);
        int sizes[2] = {g.group ? g.remote : g.local, g.group ? g.local : g.remote};
        for (int group = 0; group < 2; group++) {
            for (int root = 0; root < sizes[group]; root++) {
                one_bcast(&g, group, root);
                one_reduce(&g, group, root);
            }
        }
        one_allgather(&g, false);
        one_allgather(&g, true);
        one_reduce_scatter(&g, true);
        one_reduce_scatter(&g, false);
        MPI_Comm_free(&g.inter);
        MPI_Comm_free(&local);
    }
    return check_end();
}
