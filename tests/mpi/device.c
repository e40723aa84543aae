/*
 * Buffers in the memory of a device, by the stub of CUDA's driver (cuda_stub.c): on all ranks or on
 * one, for sending or for receiving. Circulant must not touch such memory, and must leave the call
 * to the MPI library on all ranks, also on those whose buffers are the host's.
 *
 * Messages are small enough for an MPI to copy them itself: where it gives an address to the kernel
 * instead, the stub does not come to know.
 *
 * With the argument "host" no buffer is in such memory.
 */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "operations.h"

/* Of cuda_stub.c. */
void *stub_device_alloc(size_t size);
void *stub_device_host_view(void *device);
void stub_device_free(void *device);
void stub_protect_all(void);
unsigned long long stub_asked(void);

enum { EACH = 40, PROCESSES = 12, TURNS = 2 }; /* so no message is longer than 2,000 bytes */

/* Which buffers are in device memory. */
enum placing {
    EVERYWHERE,
    ROOT,  /* those of one rank, which is the root of operations that have one */
    OTHER, /* those of one other rank */
    SENT,
    RECEIVED,
    ABSOLUTE, /* all, passed as MPI_BOTTOM with datatypes that hold the addresses */
    HOST,     /* none */
    PLACINGS
};

static const char *const placing_name[PLACINGS] = {
    "everywhere", "on the root", "on another rank", "where sent from", "where received",
    "absolute",   "nowhere"};

/* One of the two buffers of a rank. */
struct side {
    int ints;            /* 0: this rank has none */
    int *memory, *view;  /* for MPI, and for the program: the same memory */
    bool is_device;
    const void *address; /* what is passed, and how each block of EACH ints is described */
    int count;
    MPI_Datatype type;
};

/* The calls of each operation on host memory, and those with a part on a device. */
static int host_calls[OPERATIONS], device_calls[OPERATIONS];

static int value(int rank, int i) {
    return (int)(mix(check_iteration(), (uint64_t)rank, (uint64_t)i, 9) % 100000);
}

static int sum(int i) {
    int sum = 0;
    for (int rank = 0; rank < world_size; rank++) {
        sum += value(rank, i);
    }
    return sum;
}

static bool combines(enum operation operation) {
    return operation == REDUCE || operation == REDUCE_SCATTER_BLOCK ||
           operation == REDUCE_SCATTER || operation == ALLREDUCE;
}

/* Ints that this rank sends. */
static int sent(enum operation operation, bool is_root) {
    const int all = EACH * world_size;
    switch (operation) {
    case BCAST:
        return is_root ? EACH : 0;
    case SCATTER:
        return is_root ? all : 0;
    case REDUCE_SCATTER_BLOCK:
    case REDUCE_SCATTER:
    case ALLTOALL:
        return all;
    default:
        return EACH;
    }
}

/* Ints that this rank receives. The root of a broadcast has one buffer only. */
static int received(enum operation operation, bool is_root) {
    const int all = EACH * world_size;
    switch (operation) {
    case BCAST:
        return is_root ? 0 : EACH;
    case REDUCE:
        return is_root ? EACH : 0;
    case GATHER:
        return is_root ? all : 0;
    case ALLGATHER:
    case ALLGATHERV:
    case ALLTOALL:
        return all;
    default:
        return EACH;
    }
}

/* Int i of what this rank receives. */
static int wanted(enum operation operation, int root, int i) {
    const int block = i / EACH, mine = EACH * world_rank;
    switch (operation) {
    case BCAST:
        return value(root, i);
    case REDUCE:
    case ALLREDUCE:
        return sum(i);
    case REDUCE_SCATTER_BLOCK:
    case REDUCE_SCATTER:
        return sum(mine + i);
    case ALLTOALL:
        return value(block, mine + i % EACH);
    case SCATTER:
        return value(root, mine + i);
    default:
        return value(block, i % EACH);
    }
}

static bool is_placed(enum placing placing, bool sends, int root) {
    switch (placing) {
    case ROOT:
        return world_rank == root;
    case OTHER:
        return world_rank == (root + 1) % world_size;
    case SENT:
        return sends;
    case RECEIVED:
        return !sends;
    case HOST:
        return false;
    default:
        return true;
    }
}

/* EACH ints, at this address and wherever an array of such blocks goes on. */
static MPI_Datatype block_at(const int *address) {
    MPI_Datatype ints, block;
    MPI_Aint at;
    MPI_Get_address(address, &at);
    MPI_Type_create_hindexed(1, (int[]){EACH}, &at, MPI_INT, &ints);
    MPI_Type_create_resized(ints, 0, EACH * sizeof(int), &block);
    MPI_Type_commit(&block);
    MPI_Type_free(&ints);
    return block;
}

static struct side side_new(int ints, bool is_device, bool is_absolute) {
    struct side side = {.ints = ints, .count = EACH, .type = MPI_INT};
    if (ints == 0) {
        return side;
    }
    const size_t bytes = sizeof(int) * (size_t)ints;
    side.is_device = is_device;
    side.memory = is_device ? stub_device_alloc(bytes) : allocate(bytes);
    side.view = is_device ? stub_device_host_view(side.memory) : side.memory;
    side.address = side.memory;
    if (is_absolute) {
        side.address = MPI_BOTTOM;
        side.count = 1;
        side.type = block_at(side.memory);
    }
    return side;
}

static void side_free(struct side *side) {
    if (side->type != MPI_INT) {
        MPI_Type_free(&side->type);
    }
    if (side->is_device) {
        stub_device_free(side->memory);
    } else {
        free(side->memory);
    }
}

static int call(enum operation operation, const struct side *send, const struct side *receive,
                int root) {
    const MPI_Comm comm = MPI_COMM_WORLD;
    const struct side *only = send->ints > 0 ? send : receive;
    void *to = (void *)receive->address;
    int counts[PROCESSES] = {0}, displacements[PROCESSES] = {0};
    for (int rank = 0; rank < world_size; rank++) {
        counts[rank] = receive->count;
        displacements[rank] = receive->count * rank;
    }
    switch (operation) {
    case BCAST:
        return MPI_Bcast((void *)only->address, only->count, only->type, root, comm);
    case REDUCE:
        return MPI_Reduce(send->address, to, EACH, MPI_INT, MPI_SUM, root, comm);
    case ALLGATHER:
        return MPI_Allgather(send->address, send->count, send->type, to, receive->count,
                             receive->type, comm);
    case ALLGATHERV:
        return MPI_Allgatherv(send->address, send->count, send->type, to, counts, displacements,
                              receive->type, comm);
    case REDUCE_SCATTER_BLOCK:
        return MPI_Reduce_scatter_block(send->address, to, EACH, MPI_INT, MPI_SUM, comm);
    case REDUCE_SCATTER:
        return MPI_Reduce_scatter(send->address, to, counts, MPI_INT, MPI_SUM, comm);
    case ALLREDUCE:
        return MPI_Allreduce(send->address, to, EACH, MPI_INT, MPI_SUM, comm);
    case ALLTOALL:
        return MPI_Alltoall(send->address, send->count, send->type, to, receive->count,
                            receive->type, comm);
    case GATHER:
        return MPI_Gather(send->address, send->count, send->type, to, receive->count,
                          receive->type, root, comm);
    case SCATTER:
        return MPI_Scatter(send->address, send->count, send->type, to, receive->count,
                           receive->type, root, comm);
    default:
        return MPI_ERR_OTHER;
    }
}

static void one(enum operation operation, enum placing placing, int root) {
    const bool is_root = world_rank == root, is_absolute = placing == ABSOLUTE;
    struct side send = side_new(sent(operation, is_root), is_placed(placing, true, root),
                                is_absolute);
    struct side receive = side_new(received(operation, is_root), is_placed(placing, false, root),
                                   is_absolute);
    /* Once more, when circulant has served the communicator. */
    for (int turn = 0; turn < TURNS; turn++) {
        int wrong = 0;
        check_case("%s, device memory %s, turn %d", operation_name[operation],
                   placing_name[placing], turn);
        for (int i = 0; i < send.ints; i++) {
            send.view[i] = value(world_rank, i);
        }
        for (int i = 0; i < receive.ints; i++) {
            receive.view[i] = -1;
        }
        stub_protect_all();
        check_success(call(operation, &send, &receive, root), operation_name[operation]);
        for (int i = 0; i < send.ints; i++) {
            wrong += send.view[i] != value(world_rank, i);
        }
        check(wrong == 0, "%d ints that were sent have changed", wrong);
        wrong = 0;
        for (int i = 0; i < receive.ints; i++) {
            wrong += receive.view[i] != wanted(operation, root, i);
        }
        check(wrong == 0, "%d ints that were received are wrong", wrong);
        check_digest(receive.view, sizeof(int) * (size_t)receive.ints);
        (placing == HOST ? host_calls : device_calls)[operation]++;
    }
    side_free(&send);
    side_free(&receive);
}

/* In the form of calls.c, which does not know of devices. */
static void print_calls(void) {
    for (int operation = 0; operation < OPERATIONS; operation++) {
        int host = host_calls[operation], device = device_calls[operation];
        if (world_size == 1) {
            printf("calls %s one_process=%d\n", operation_name[operation], host + device);
        } else {
            printf("calls %s circulant=%d device_memory=%d\n", operation_name[operation], host,
                   device);
        }
    }
    printf("asked %llu\n", stub_asked());
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "device", MPI_THREAD_SINGLE);
    if (world_size > PROCESSES) {
        fprintf(stderr, "device: not for more than %d processes\n", PROCESSES);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int operation = 0; operation < OPERATIONS; operation++) {
        for (int placing = argc > 1 ? HOST : 0; placing < PLACINGS; placing++) {
            /* Of a reduction, two buffers cannot both be at MPI_BOTTOM. */
            if (placing != ABSOLUTE || !combines(operation)) {
                one(operation, placing, (operation + placing) % world_size);
            }
        }
    }
    if (world_rank == 0) {
        print_calls();
    }
    return check_end();
}
