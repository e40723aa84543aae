/*
 * More than 2^31 bytes: in one message, and between the pieces of sparse ones (which need address
 * space, not memory). The argument names the case: an operation, element,
 * or sparse.
 */
#include <string.h>
#include <sys/mman.h>

#include "calls.h"
#include "check.h"

static const size_t GIB = (size_t)1 << 30, EXCESS = 4096;

/* What is counted: with large counts, bytes, so that also a count may pass 2^31. */
#ifdef LARGE_COUNT
#define ITEM MPI_BYTE
enum { ITEM_SIZE = 1 };
#else
#define ITEM MPI_UINT64_T
enum { ITEM_SIZE = sizeof(uint64_t) };
#endif

/* Address space; pages become memory when they are touched. */
static unsigned char *reserve(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(memory != MAP_FAILED, "no address space for %zu bytes", bytes);
    if (memory == MAP_FAILED) {
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
    return memory;
}

/* Word i of the data of a rank: cheap, for there are many. */
static uint64_t word(int rank, size_t i) {
    return (i + 1) * 0x9e3779b97f4a7c15u + (uint64_t)rank * 0xd1342543de82ef95u;
}

static void put(unsigned char *memory, size_t bytes, int rank) {
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
        uint64_t value = word(rank, i);
        memcpy(memory + i * sizeof value, &value, sizeof value);
    }
}

static void expect(const unsigned char *memory, size_t bytes, int rank, const char *what) {
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
        uint64_t value;
        memcpy(&value, memory + i * sizeof value, sizeof value);
        first = wrong == 0 && value != word(rank, i) ? i : first;
        wrong += value != word(rank, i);
    }
    check(wrong == 0, "%s: %zu words are wrong, the first at byte %zu", what, wrong, 8 * first);
}

static void huge_bcast(void) {
    const size_t bytes = 2 * GIB + EXCESS;
    const int root = world_size - 1;
    unsigned char *data = reserve(bytes);
    check_case("bcast of %zu bytes", bytes);
    if (world_rank == root) {
        put(data, bytes, root);
    }
    bcast(data, (MPI_Count)(bytes / ITEM_SIZE), ITEM, root, MPI_COMM_WORLD);
    expect(data, bytes, root, "bcast");
    munmap(data, bytes);
}

/* Bytes of each rank's block: each below 2^31, all together not, and neither the displacements. */
static size_t block_bytes(void) {
    return (2 * GIB + EXCESS) / (size_t)world_size / sizeof(uint64_t) * sizeof(uint64_t);
}

static void huge_allgather(bool with_counts) {
    const size_t block = block_bytes(), bytes = block * (size_t)world_size;
    const MPI_Count items = (MPI_Count)(block / ITEM_SIZE);
    MPI_Count counts[64];
    MPI_Aint displacements[64];
    for (int rank = 0; rank < world_size; rank++) {
        counts[rank] = items;
        displacements[rank] = items * rank;
    }
    unsigned char *data = reserve(bytes);
    check_case("allgather of %zu bytes", bytes);
    put(data + block * (size_t)world_rank, block, world_rank);
    if (with_counts) {
        allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, counts, displacements, ITEM,
                   MPI_COMM_WORLD);
    } else {
        allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, items, ITEM, MPI_COMM_WORLD);
    }
    for (int rank = 0; rank < world_size; rank++) {
        expect(data + block * (size_t)rank, block, rank, "allgather");
    }
    munmap(data, bytes);
}

static void huge_alltoall(void) {
    const size_t block = block_bytes(), bytes = block * (size_t)world_size;
    const MPI_Count items = (MPI_Count)(block / ITEM_SIZE);
    unsigned char *sent = reserve(bytes), *received = reserve(bytes);
    check_case("alltoall of %zu bytes", bytes);
    for (int rank = 0; rank < world_size; rank++) {
        put(sent + block * (size_t)rank, block, world_rank * world_size + rank);
    }
    alltoall(sent, items, ITEM, received, items, ITEM, MPI_COMM_WORLD);
    for (int rank = 0; rank < world_size; rank++) {
        expect(received + block * (size_t)rank, block, rank * world_size + world_rank, "alltoall");
    }
    munmap(sent, bytes);
    munmap(received, bytes);
}

/* The words from number `first` on of all ranks together. */
static void expect_combined(const unsigned char *memory, size_t bytes, size_t first) {
    size_t wrong = 0;
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
        uint64_t value, expected = 0;
        memcpy(&value, memory + i * sizeof value, sizeof value);
        for (int rank = 0; rank < world_size; rank++) {
            expected ^= word(rank, first + i);
        }
        wrong += value != expected;
    }
    check(wrong == 0, "%zu words are wrong", wrong);
}

/* One rank's block may be all there is. */
static void huge_reduce_scatter(bool with_counts) {
    const size_t block = block_bytes(), bytes = block * (size_t)world_size;
    const size_t own = !with_counts ? block : world_rank == 0 ? bytes : 0;
    MPI_Count counts[64] = {(MPI_Count)(bytes / ITEM_SIZE)};
    unsigned char *data = reserve(bytes), *result = reserve(bytes);
    check_case("reduce_scatter of %zu bytes", bytes);
    put(data, bytes, world_rank);
    if (with_counts) {
        reduce_scatter(data, result, counts, ITEM, MPI_BXOR, MPI_COMM_WORLD);
    } else {
        reduce_scatter_block(data, result, (MPI_Count)(block / ITEM_SIZE), ITEM, MPI_BXOR,
                             MPI_COMM_WORLD);
    }
    expect_combined(result, own, (size_t)world_rank * (block / sizeof(uint64_t)));
    munmap(data, bytes);
    munmap(result, bytes);
}

/* One element of more than 2^31 bytes, with gaps, to bytes: MPI cannot pack it. */
static void huge_element(void) {
    const size_t piece = 4096, pieces = (2 * GIB + EXCESS) / piece, bytes = piece * pieces;
    MPI_Count counts[64] = {(MPI_Count)(bytes / ITEM_SIZE)};
    MPI_Aint displacements[64] = {0};
    MPI_Datatype element;
    MPI_Type_vector((int)pieces, (int)piece, (int)piece + 8, MPI_BYTE, &element);
    MPI_Type_commit(&element);
    unsigned char *data = reserve(pieces * (piece + 8)), *result = reserve(bytes);
    check_case("allgatherv of an element of %zu bytes", bytes);
    for (size_t i = 0; i < bytes / sizeof(uint64_t) && world_rank == 0; i++) {
        uint64_t value = word(0, i);
        memcpy(data + i * sizeof value + i * sizeof value / piece * 8, &value, sizeof value);
    }
    allgatherv(data, world_rank == 0 ? 1 : 0, element, result, counts, displacements, ITEM,
               MPI_COMM_WORLD);
    expect(result, bytes, 0, "allgatherv");
    MPI_Type_free(&element);
    munmap(data, pieces * (piece + 8));
    munmap(result, bytes);
}

static void huge_reduce(void) {
    const size_t bytes = 2 * GIB + EXCESS;
    unsigned char *data = reserve(bytes);
    check_case("reduce of %zu bytes", bytes);
    put(data, bytes, world_rank);
    reduce(world_rank == 0 ? MPI_IN_PLACE : data, data, (MPI_Count)(bytes / ITEM_SIZE), ITEM,
           MPI_BXOR, 0, MPI_COMM_WORLD);
    expect_combined(data, world_rank == 0 ? bytes : 0, 0);
    munmap(data, bytes);
}

/* In pieces, because scratch does not hold twice as much. */
static void huge_allreduce(void) {
    const size_t bytes = 2 * GIB + EXCESS;
    unsigned char *data = reserve(bytes);
    check_case("allreduce of %zu bytes", bytes);
    put(data, bytes, world_rank);
    allreduce(MPI_IN_PLACE, data, (MPI_Count)(bytes / ITEM_SIZE), ITEM, MPI_BXOR, MPI_COMM_WORLD);
    expect_combined(data, bytes, 0);
    munmap(data, bytes);
}

/* Four pieces, a gibibyte apart: in a datatype, and by the displacements of MPI_Allgatherv. */
static void sparse(void) {
    enum { PIECES = 4, PIECE = 40000 };
    unsigned char *data = reserve(PIECES * GIB);
    MPI_Datatype spread;
    MPI_Type_create_hvector(PIECES, PIECE, (MPI_Aint)GIB, MPI_BYTE, &spread);
    MPI_Type_commit(&spread);
    check_case("bcast of %d pieces a gibibyte apart", PIECES);
    for (int piece = 0; piece < PIECES && world_rank == 0; piece++) {
        put(data + (size_t)piece * GIB, PIECE, piece);
    }
    bcast(data, 1, spread, 0, MPI_COMM_WORLD);
    for (int piece = 0; piece < PIECES; piece++) {
        expect(data + (size_t)piece * GIB, PIECE, piece, "bcast");
    }
    MPI_Type_free(&spread);

    /* 2^27 items of 8 bytes are a gibibyte. */
    MPI_Count counts[64];
    MPI_Aint displacements[64];
    for (int rank = 0; rank < world_size; rank++) {
        counts[rank] = PIECE / 8;
        displacements[rank] = (MPI_Aint)((size_t)(PIECES - 1 - rank % PIECES) * (GIB / 8) +
                                         (size_t)(rank / PIECES) * PIECE);
    }
    check_case("allgatherv of blocks a gibibyte apart");
    put(data + (size_t)displacements[world_rank] * 8, PIECE, 100 + world_rank);
    allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, counts, displacements, MPI_UINT64_T,
               MPI_COMM_WORLD);
    for (int rank = 0; rank < world_size; rank++) {
        expect(data + (size_t)displacements[rank] * 8, PIECE, 100 + rank, "allgatherv");
    }
    munmap(data, PIECES * GIB);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "huge", MPI_THREAD_SINGLE);
    const char *which = argc > 1 ? argv[1] : "sparse";
    if (strcmp(which, "bcast") == 0) {
        huge_bcast();
    } else if (strncmp(which, "allgather", 9) == 0) {
        huge_allgather(strcmp(which, "allgatherv") == 0);
    } else if (strncmp(which, "reduce_scatter", 14) == 0) {
        huge_reduce_scatter(strcmp(which, "reduce_scatter") == 0);
    } else if (strcmp(which, "element") == 0) {
        huge_element();
    } else if (strcmp(which, "reduce") == 0) {
        huge_reduce();
    } else if (strcmp(which, "alltoall") == 0) {
        huge_alltoall();
    } else if (strcmp(which, "allreduce") == 0) {
        huge_allreduce();
    } else {
        sparse();
    }
    return check_end();
}
