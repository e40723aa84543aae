/*
 * Sorts numbers that are distributed over processes, by a sample sort, whose splitters come from
 * circulant_allgather_merge.
 *
 *   mpicc -O2 sample_sort.c -lcirculant -o sample_sort
 *   mpirun -n 16 ./sample_sort [NUMBERS A PROCESS]
 *
 * Each process sorts its numbers and takes p samples at equal distances. All samples, merged on all
 * processes, give p - 1 splitters, the same everywhere without any process being in charge; each process
 * then sends every other the numbers between two of them. With regular samples none gets more than twice
 * its share (Shi and Schaeffer, Parallel Sorting by Regular Sampling).
 */
#include <circulant.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count > 0 ? count : 1, size);
    if (memory == NULL) {
        fprintf(stderr, "sample_sort: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* p - 1 splitters, from `count` sorted numbers of this process. */
static void find_splitters(const int64_t *numbers, int count, int64_t *splitters, MPI_Comm comm) {
    int size, merged;
    MPI_Comm_size(comm, &size);
    int samples = count < size ? count : size;
    int64_t *own = allocate((size_t)samples, sizeof *own);
    int64_t *all = allocate((size_t)size * (size_t)size, sizeof *all);
    for (int i = 0; i < samples; i++) {
        own[i] = numbers[(int64_t)count * i / samples];
    }
    circulant_allgather_merge(own, samples, all, size * size, &merged, MPI_INT64_T, NULL, NULL, comm);
    for (int i = 1; i < size; i++) {
        splitters[i - 1] = merged > 0 ? all[(int64_t)merged * i / size] : 0;
    }
    free(own);
    free(all);
}

/* Sends the numbers where they belong; returns how many came. */
static int exchange(const int64_t *numbers, int count, const int64_t *splitters, int64_t **received, MPI_Comm comm) {
    int size, next = 0, came = 0;
    MPI_Comm_size(comm, &size);
    int *counts = allocate(4 * (size_t)size, sizeof *counts);
    int *starts = counts + size, *counts_in = counts + 2 * size, *starts_in = counts + 3 * size;
    for (int to = 0; to < size; to++) {
        starts[to] = next;
        while (next < count && (to == size - 1 || numbers[next] < splitters[to])) {
            next++;
        }
        counts[to] = next - starts[to];
    }
    MPI_Alltoall(counts, 1, MPI_INT, counts_in, 1, MPI_INT, comm);
    for (int from = 0; from < size; from++) {
        starts_in[from] = came;
        came += counts_in[from];
    }
    *received = allocate((size_t)came, sizeof **received);
    MPI_Alltoallv(numbers, counts, starts, MPI_INT64_T, *received, counts_in, starts_in, MPI_INT64_T, comm);
    free(counts);
    return came;
}

/* Whether all are in order, within processes and from one to the next; a sum tells if some are lost. */
static int is_sorted(const int64_t *numbers, int count, uint64_t sum, MPI_Comm comm) {
    int rank, size, fine = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int64_t before = INT64_MIN, *last = allocate((size_t)size, sizeof *last);
    int64_t own = count > 0 ? numbers[count - 1] : INT64_MIN;
    uint64_t sums[2] = {sum, 0}, totals[2];
    MPI_Allgather(&own, 1, MPI_INT64_T, last, 1, MPI_INT64_T, comm);
    for (int i = 0; i < rank; i++) {
        before = last[i] > before ? last[i] : before;
    }
    for (int i = 0; i < count; i++) {
        fine = fine && before <= numbers[i];
        before = numbers[i];
        sums[1] += (uint64_t)numbers[i];
    }
    MPI_Allreduce(sums, totals, 2, MPI_UINT64_T, MPI_SUM, comm);
    MPI_Allreduce(MPI_IN_PLACE, &fine, 1, MPI_INT, MPI_LAND, comm);
    free(last);
    return fine && totals[0] == totals[1];
}

int main(int argc, char **argv) {
    int rank, size, most;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int count = argc > 1 ? atoi(argv[1]) : 20000;
    int64_t *numbers = allocate((size_t)count, sizeof *numbers), *mine;
    int64_t *splitters = allocate((size_t)size, sizeof *splitters);
    uint64_t state = (uint64_t)rank * 977 + 1, sum = 0;
    for (int i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        /* Not evenly distributed: the sum of two, and of each process another range. */
        numbers[i] = (int64_t)(state >> 40) + (int64_t)(state >> 20 & 0xfffff) * (rank % 3);
        sum += (uint64_t)numbers[i];
    }
    qsort(numbers, (size_t)count, sizeof *numbers, compare);
    find_splitters(numbers, count, splitters, MPI_COMM_WORLD);
    int came = exchange(numbers, count, splitters, &mine, MPI_COMM_WORLD);
    qsort(mine, (size_t)came, sizeof *mine, compare);
    int fine = is_sorted(mine, came, sum, MPI_COMM_WORLD);
    MPI_Reduce(&came, &most, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%" PRId64 " numbers on %d processes: %s, at most %d on one\n", (int64_t)count * size, size,
               fine ? "sorted" : "NOT sorted", most);
    }
    free(numbers);
    free(mine);
    free(splitters);
    MPI_Finalize();
    return fine ? 0 : 1;
}
