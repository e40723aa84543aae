/*
 * What an MPI library does inside itself, between collectives of the program: files, windows,
 * topologies and communicators of several sorts. Its inner calls may come to circulant, on
 * communicators that the program never sees. The argument names a file to write.
 */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "medley.h"

enum { ITEMS = 500, BLOCK = 25, BLOCKS = 120, INTS = BLOCK * BLOCKS };

static int value(int rank, int i) {
    return (int)mix(check_iteration(), (uint64_t)rank, (uint64_t)i, 9);
}

static int *values(int rank, int count) {
    int *data = allocate(sizeof(int) * (size_t)count);
    for (int i = 0; i < count; i++) {
        data[i] = value(rank, i);
    }
    return data;
}

static void expect(const int *data, int rank, int count, const char *what) {
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        wrong += data[i] != value(rank, i);
    }
    check(wrong == 0, "%s: %d ints of rank %d are wrong", what, wrong, rank);
    check_digest(data, sizeof(int) * (size_t)count);
}

/* Ranks take turns in the file, a block each. */
static MPI_Datatype turns(void) {
    MPI_Datatype block, strided;
    MPI_Type_contiguous(BLOCK, MPI_INT, &block);
    MPI_Type_create_resized(block, 0, (MPI_Aint)sizeof(int) * BLOCK * world_size, &strided);
    MPI_Type_commit(&strided);
    MPI_Type_free(&block);
    return strided;
}

/* Small buffers, so that writing and reading together takes several rounds. */
static MPI_Info hints(void) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    MPI_Info_set(info, "cb_buffer_size", "4096");
    return info;
}

static void in_file_order(const int *data) {
    int wrong = 0;
    for (int i = 0; i < INTS * world_size; i++) {
        int block = i / BLOCK;
        wrong += data[i] != value(block % world_size, block / world_size * BLOCK + i % BLOCK);
    }
    check(wrong == 0, "%d ints of the file are wrong", wrong);
}

static void write_and_read(const char *name) {
    const int first = 41 * BLOCK + 7; /* ints written at first, which end within a block */
    const MPI_Offset mine = (MPI_Offset)sizeof(int) * BLOCK * world_rank;
    MPI_File file;
    check_case("a file");
    int *data = values(world_rank, INTS), *back = allocate(sizeof(int) * INTS);
    int *whole = allocate(sizeof(int) * INTS * (size_t)world_size);
    MPI_Datatype strided = turns();
    MPI_Info info = hints();
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    check_success(MPI_File_open(MPI_COMM_WORLD, name, mode, info, &file), "MPI_File_open");
    medley(MPI_COMM_WORLD, ITEMS);
    check_success(MPI_File_set_view(file, mine, MPI_INT, strided, "native", info),
                  "MPI_File_set_view");
    check_success(MPI_File_write_at_all(file, 0, data, first, MPI_INT, MPI_STATUS_IGNORE),
                  "MPI_File_write_at_all");
    medley(MPI_COMM_WORLD, ITEMS);
    check_success(MPI_File_seek(file, first, MPI_SEEK_SET), "MPI_File_seek");
    check_success(MPI_File_write_all(file, data + first, INTS - first, MPI_INT, MPI_STATUS_IGNORE),
                  "MPI_File_write_all");
    medley(MPI_COMM_WORLD, ITEMS);
    /* What one rank wrote, others may read after this only. */
    check_success(MPI_File_sync(file), "MPI_File_sync");
    MPI_Barrier(MPI_COMM_WORLD);
    check_success(MPI_File_sync(file), "MPI_File_sync");
    check_success(MPI_File_read_at_all(file, 0, back, INTS, MPI_INT, MPI_STATUS_IGNORE),
                  "MPI_File_read_at_all");
    expect(back, world_rank, INTS, "what was read back");
    medley(MPI_COMM_WORLD, ITEMS);
    check_success(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", info),
                  "MPI_File_set_view");
    check_success(
        MPI_File_read_at_all(file, 0, whole, INTS * world_size, MPI_INT, MPI_STATUS_IGNORE),
        "MPI_File_read_at_all");
    in_file_order(whole);
    check_success(MPI_File_close(&file), "MPI_File_close");
    medley(MPI_COMM_WORLD, ITEMS);
    MPI_Info_free(&info);
    MPI_Type_free(&strided);
    free(data);
    free(back);
    free(whole);
}

enum window { CREATED, ALLOCATED, SHARED };

/* Every rank puts its ints in a place of its own on every rank. */
static void window(enum window kind, MPI_Comm comm) {
    int rank, size, *memory = NULL;
    MPI_Win win;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const MPI_Aint bytes = (MPI_Aint)sizeof(int) * ITEMS * size;
    check_case("window %d", kind);
    medley(comm, ITEMS);
    if (kind == CREATED) {
        memory = allocate((size_t)bytes);
        MPI_Win_create(memory, bytes, sizeof(int), MPI_INFO_NULL, comm, &win);
    } else if (kind == ALLOCATED) {
        MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, comm, &memory, &win);
    } else {
        MPI_Win_allocate_shared(bytes, sizeof(int), MPI_INFO_NULL, comm, &memory, &win);
    }
    medley(comm, ITEMS);
    int *data = values(rank, ITEMS);
    for (int i = 0; i < ITEMS * size; i++) {
        memory[i] = -1;
    }
    MPI_Win_fence(0, win);
    for (int to = 0; to < size; to++) {
        MPI_Put(data, ITEMS, MPI_INT, to, (MPI_Aint)ITEMS * rank, ITEMS, MPI_INT, win);
    }
    MPI_Win_fence(0, win);
    medley(comm, ITEMS);
    for (int from = 0; from < size; from++) {
        expect(memory + ITEMS * from, from, ITEMS, "what was put");
    }
    MPI_Win_free(&win);
    medley(comm, ITEMS);
    free(data);
    if (kind == CREATED) {
        free(memory);
    }
}

/* Gathers from `count` neighbours, in this order; nothing comes from MPI_PROC_NULL. */
static void gather_from(MPI_Comm comm, const int *neighbours, int count) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    int *data = values(rank, ITEMS), *received = allocate(sizeof(int) * ITEMS * (size_t)count);
    for (int i = 0; i < ITEMS * count; i++) {
        received[i] = -1;
    }
    MPI_Neighbor_allgather(data, ITEMS, MPI_INT, received, ITEMS, MPI_INT, comm);
    for (int k = 0; k < count; k++) {
        const int *from = received + ITEMS * k;
        if (neighbours[k] == MPI_PROC_NULL) {
            check(from[0] == -1 && from[ITEMS - 1] == -1, "something came from no neighbour");
        } else {
            expect(from, neighbours[k], ITEMS, "what a neighbour sent");
        }
    }
    free(data);
    free(received);
}

static void grid(void) {
    int dims[2] = {0, 0}, neighbours[4];
    MPI_Comm comm;
    check_case("a grid");
    MPI_Dims_create(world_size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, (int[]){0, 1}, 1, &comm);
    medley(comm, ITEMS);
    for (int dim = 0; dim < 2; dim++) {
        MPI_Cart_shift(comm, dim, 1, &neighbours[2 * dim], &neighbours[2 * dim + 1]);
    }
    gather_from(comm, neighbours, 4);
    medley(comm, ITEMS);
    MPI_Comm_free(&comm);
}

/* Everyone hears from the next two ranks. */
static void graph(void) {
    const int p = world_size;
    int sources[] = {(world_rank + 1) % p, (world_rank + 2) % p};
    int destinations[] = {(world_rank + p - 1) % p, (world_rank + 2 * p - 2) % p};
    MPI_Comm comm;
    check_case("a graph");
    const int weights[2] = {1, 1};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, weights, 2, destinations, weights,
                                   MPI_INFO_NULL, 0, &comm);
    medley(comm, ITEMS);
    gather_from(comm, sources, 2);
    medley(comm, ITEMS);
    MPI_Comm_free(&comm);
}

/* Two halves, each a communicator of its own, and both together again. */
static void halves(void) {
    const bool upper = world_rank >= world_size / 2;
    int leader = upper ? 0 : world_size / 2, others;
    MPI_Comm local, both, merged;
    check_case("two halves");
    MPI_Comm_split(MPI_COMM_WORLD, upper, 0, &local);
    check_color(upper);
    medley(local, ITEMS);
    check_color(0);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, leader, 17, &both);
    MPI_Comm_remote_size(both, &others);
    check(others == (upper ? world_size / 2 : world_size - world_size / 2),
          "the other half has %d processes", others);
    medley(MPI_COMM_WORLD, ITEMS);
    MPI_Intercomm_merge(both, upper, &merged);
    medley(merged, ITEMS);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&both);
    MPI_Comm_free(&local);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "internal", MPI_THREAD_SINGLE);
    if (argc != 2) {
        fprintf(stderr, "internal: needs the name of a file\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    check_case("at first");
    medley(MPI_COMM_WORLD, ITEMS);
    write_and_read(argv[1]);
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &node);
    window(SHARED, node);
    MPI_Comm_free(&node);
    grid();
    graph();
    if (world_size > 1) { /* Open MPI 4.1 makes no other windows of one process. */
        window(CREATED, MPI_COMM_WORLD);
        window(ALLOCATED, MPI_COMM_WORLD);
        halves();
    }
    check_case("at last");
    medley(MPI_COMM_WORLD, ITEMS);
    return check_end();
}
