/*
 * In a steady state the library allocates nothing: this program's own malloc counts what is asked
 * for by code of libcirculant, while calls like others before them are made.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t items, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

/* Where the library's code is; nowhere in a native run. */
static uintptr_t library_start, library_end;
static atomic_long allocations;

static void count(const void *caller) {
    uintptr_t address = (uintptr_t)caller;
    if (address >= library_start && address < library_end) {
        atomic_fetch_add(&allocations, 1);
    }
}

void *malloc(size_t bytes) {
    count(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t items, size_t bytes) {
    count(__builtin_return_address(0));
    return __libc_calloc(items, bytes);
}

void *realloc(void *memory, size_t bytes) {
    count(__builtin_return_address(0));
    return __libc_realloc(memory, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    count(__builtin_return_address(0));
    *memory = __libc_memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}

static int find_library(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    if (strstr(info->dlpi_name, "libcirculant") == NULL) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            library_start = info->dlpi_addr + part->p_vaddr;
            library_end = library_start + part->p_memsz;
        }
    }
    return 1;
}

/* Adds ints that have a gap after each. */
static void add(void *in, void *inout, int *items, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *items; i++) {
        ((int *)inout)[2 * i] += ((int *)in)[2 * i];
    }
}

enum { EACH = 3000 };

static MPI_Datatype spaced, pair;
static MPI_Op sum;
static int *from, *to;

/* All operations, on plain ints, on a derived type without gaps, and on one with gaps. */
static void all_calls(int root) {
    MPI_Count counts[64];
    MPI_Aint displacements[64];
    for (int rank = 0; rank < world_size; rank++) {
        counts[rank] = EACH;
        displacements[rank] = (MPI_Aint)EACH * (world_size - 1 - rank);
    }
    const int all = EACH * world_size;
    bcast(from, all, MPI_INT, root, MPI_COMM_WORLD);
    bcast(from, all / 2, pair, root, MPI_COMM_WORLD);
    bcast(from, all, spaced, root, MPI_COMM_WORLD);
    reduce(from, to, all, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
    reduce(from, to, all, spaced, sum, root, MPI_COMM_WORLD);
    allgather(from, EACH, MPI_INT, to, EACH / 2, pair, MPI_COMM_WORLD);
    allgather(from, EACH, spaced, to, EACH, spaced, MPI_COMM_WORLD);
    allgatherv(from, EACH / 2, pair, to, counts, displacements, MPI_INT, MPI_COMM_WORLD);
    reduce_scatter_block(from, to, EACH, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    reduce_scatter_block(MPI_IN_PLACE, to, EACH, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    reduce_scatter(from, to, counts, spaced, sum, MPI_COMM_WORLD);
    allreduce(from, to, all, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    allreduce(MPI_IN_PLACE, to, 10, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    allreduce(from, to, all, spaced, sum, MPI_COMM_WORLD);
    alltoall(from, EACH, MPI_INT, to, EACH / 2, pair, MPI_COMM_WORLD);
    gather(from, EACH, spaced, to, EACH, MPI_INT, root, MPI_COMM_WORLD);
    scatter(from, EACH, MPI_INT, to, EACH, spaced, root, MPI_COMM_WORLD);
    check_digest(from, sizeof(int) * (size_t)all);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "allocation", MPI_THREAD_SINGLE);
    dl_iterate_phdr(find_library, NULL);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced);
    MPI_Type_commit(&spaced);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(add, 1, &sum);
    size_t bytes = 2 * sizeof(int) * EACH * (size_t)world_size;
    from = allocate(bytes);
    to = allocate(bytes);
    memset(to, 1, bytes);
    for (size_t i = 0; i < bytes / sizeof(int); i++) {
        from[i] = (int)(i % 1000) + world_rank;
    }
    check_case("first calls");
    for (int root = 0; root < world_size; root++) {
        all_calls(root);
    }
    check(library_end == 0 || atomic_load(&allocations) > 0, "no allocation was seen at all");
    check_case("steady state");
    atomic_store(&allocations, 0);
    for (int call = 0; call < 2 * world_size; call++) {
        all_calls(call % world_size);
    }
    long seen = atomic_load(&allocations);
    check(seen == 0, "%ld allocations", seen);
    MPI_Type_free(&spaced);
    MPI_Type_free(&pair);
    MPI_Op_free(&sum);
    free(from);
    free(to);
    return check_end();
}
