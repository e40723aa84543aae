/*
 * More than 2^31 bytes: in one message, and between the pieces of sparse ones (which need address
 * space, not memory). The argument names the case: bcast, allgatherv, reduce, or sparse.
 */
#include <string.h>
#include <sys/mman.h>

#include "calls.h"
#include "check.h"

static const size_t GIB = (size_t)1 << 30, EXCESS = 4096;

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
    MPI_Datatype page;
    MPI_Type_contiguous((int)EXCESS, MPI_BYTE, &page);
    MPI_Type_commit(&page);
    check_case("bcast of %zu bytes", bytes);
    if (world_rank == root) {
        put(data, bytes, root);
    }
    bcast(data, (MPI_Count)(bytes / EXCESS), page, root, MPI_COMM_WORLD);
    expect(data, bytes, root, "bcast");
    MPI_Type_free(&page);
    munmap(data, bytes);
}

/* Each block is below 2^31 bytes, all together are not, and neither are the displacements. */
static void huge_allgatherv(void) {
    const size_t items = (2 * GIB + EXCESS) / sizeof(uint64_t) / (size_t)world_size;
    MPI_Count counts[64];
    MPI_Aint displacements[64];
    for (int rank = 0; rank < world_size; rank++) {
        counts[rank] = (MPI_Count)items;
        displacements[rank] = (MPI_Aint)(items * (size_t)rank);
    }
    const size_t block = items * sizeof(uint64_t), bytes = block * (size_t)world_size;
    unsigned char *data = reserve(bytes);
    check_case("allgatherv of %zu bytes", bytes);
    put(data + block * (size_t)world_rank, block, world_rank);
    allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, counts, displacements, MPI_UINT64_T,
               MPI_COMM_WORLD);
    for (int rank = 0; rank < world_size; rank++) {
        expect(data + block * (size_t)rank, block, rank, "allgatherv");
    }
    munmap(data, bytes);
}

static void huge_reduce(void) {
    const size_t bytes = 2 * GIB + EXCESS, items = bytes / sizeof(uint64_t);
    unsigned char *data = reserve(bytes);
    check_case("reduce of %zu bytes", bytes);
    put(data, bytes, world_rank);
    reduce(world_rank == 0 ? MPI_IN_PLACE : data, data, (MPI_Count)items, MPI_UINT64_T, MPI_BXOR, 0,
           MPI_COMM_WORLD);
    size_t wrong = 0;
    for (size_t i = 0; i < items && world_rank == 0; i++) {
        uint64_t value, expected = 0;
        memcpy(&value, data + i * sizeof value, sizeof value);
        for (int rank = 0; rank < world_size; rank++) {
            expected ^= word(rank, i);
        }
        wrong += value != expected;
    }
    check(wrong == 0, "reduce: %zu words are wrong", wrong);
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
    } else if (strcmp(which, "allgatherv") == 0) {
        huge_allgatherv();
    } else if (strcmp(which, "reduce") == 0) {
        huge_reduce();
    } else {
        sparse();
    }
    return check_end();
}
