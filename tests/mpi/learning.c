/*
 * Many calls of a few kinds, on communicators that overlap, come and go: for tests of what is learned.
 *
 *     learning CALLS BYTES [delays] [threads]
 *
 * With `delays` the processes come to the calls at different times. With `threads` two threads do all this at
 * once, each on communicators of its own. The sums of floating-point numbers are in the digest, to the last bit.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static int calls, bytes;
static bool delays;

/* Where the numbers of a rank in a call begin. */
static uint64_t origin(int rank, int call) {
    return mix((uint64_t)rank, (uint64_t)call, 0, 7);
}

/* That at an index: one multiplication, for there are millions. */
static uint64_t number(uint64_t origin, int index) {
    return ((origin + (uint64_t)index) * 0x9e3779b97f4a7c15u) >> 32;
}

static void arrive(int rank, int call) {
    const uint64_t own = origin(rank, call);
    if (delays && number(own, -1) % 3 == 0) {
        usleep((useconds_t)(number(own, -2) % 3000));
    }
}

static void one_bcast(MPI_Comm comm, int rank, int root, int call, unsigned char *data) {
    const uint64_t sent = origin(root, call);
    for (int i = 0; i < bytes; i++) {
        data[i] = rank == root ? (unsigned char)number(sent, i) : 0;
    }
    check_success(MPI_Bcast(data, bytes, MPI_BYTE, root, comm), "MPI_Bcast");
    int wrong = 0;
    for (int i = 0; i < bytes; i++) {
        wrong += data[i] != (unsigned char)number(sent, i);
    }
    check(wrong == 0, "bcast %d: %d bytes are wrong", call, wrong);
}

static void one_allgatherv(MPI_Comm comm, int rank, int size, int call) {
    int counts[64], displs[64], all = 0;
    for (int other = 0; other < size; other++) {
        counts[other] = bytes / 4 / size * (other % 3);
        displs[other] = all;
        all += counts[other];
    }
    int *input = calloc((size_t)counts[rank] + 1, 4), *result = calloc((size_t)all + 1, 4), wrong = 0;
    const uint64_t own = origin(rank, call);
    for (int i = 0; i < counts[rank]; i++) {
        input[i] = (int)number(own, i);
    }
    const int code = MPI_Allgatherv(input, counts[rank], MPI_INT, result, counts, displs, MPI_INT, comm);
    check_success(code, "MPI_Allgatherv");
    for (int other = 0; other < size; other++) {
        const uint64_t theirs = origin(other, call);
        for (int i = 0; i < counts[other]; i++) {
            wrong += result[displs[other] + i] != (int)number(theirs, i);
        }
    }
    check(wrong == 0, "allgatherv %d: %d elements are wrong", call, wrong);
    free(input);
    free(result);
}

static void allreduces(MPI_Comm comm, int rank, int size, int call) {
    const int count = bytes / 8;
    long *input = calloc((size_t)count, 8), *sums = calloc((size_t)count, 8), wrong = 0;
    double *floats = calloc((size_t)count, 8), *inexact = calloc((size_t)count, 8);
    uint64_t origins[64];
    for (int other = 0; other < size; other++) {
        origins[other] = origin(other, call);
    }
    for (int i = 0; i < count; i++) {
        input[i] = (long)(number(origins[rank], i) % 1000000);
        floats[i] = 1.0 / (double)(1 + input[i]);
    }
    check_success(MPI_Allreduce(input, sums, count, MPI_LONG, MPI_SUM, comm), "MPI_Allreduce");
    check_success(MPI_Allreduce(floats, inexact, count, MPI_DOUBLE, MPI_SUM, comm), "MPI_Allreduce");
    for (int i = 0; i < count; i++) {
        long sum = 0;
        double about = 0;
        for (int other = 0; other < size; other++) {
            const long theirs = (long)(number(origins[other], i) % 1000000);
            sum += theirs;
            about += 1.0 / (double)(1 + theirs);
        }
        wrong += sums[i] != sum || inexact[i] < about * 0.999999 || inexact[i] > about * 1.000001;
    }
    check(wrong == 0, "allreduce %d: %ld elements are wrong", call, wrong);
    check_digest(inexact, 8 * (size_t)count);
    free(input);
    free(sums);
    free(floats);
    free(inexact);
}

/* Whether a sum of these numbers of all ranks is right but for its last bits. */
static bool is_about(double sum, const uint64_t *origins, int size, int index) {
    double about = 0;
    for (int other = 0; other < size; other++) {
        about += 1.0 / (double)(1 + number(origins[other], index) % 1000000);
    }
    return sum >= about * 0.999999 && sum <= about * 1.000001;
}

/* Of floating-point numbers, to one root and to all processes but every third. */
static void reductions(MPI_Comm comm, int rank, int size, int call) {
    const int count = bytes / 8, root = call % size;
    double *input = calloc((size_t)count, 8), *result = calloc((size_t)count, 8);
    uint64_t origins[64];
    int counts[64], before = 0, all = 0, wrong = 0;
    for (int other = 0; other < size; other++) {
        origins[other] = origin(other, call);
        counts[other] = count / size / 2 * (other % 3);
        before += other < rank ? counts[other] : 0;
        all += counts[other];
    }
    for (int i = 0; i < count; i++) {
        input[i] = 1.0 / (double)(1 + number(origins[rank], i) % 1000000);
    }
    check_success(MPI_Reduce(input, result, count, MPI_DOUBLE, MPI_SUM, root, comm), "MPI_Reduce");
    for (int i = 0; rank == root && i < count; i++) {
        wrong += !is_about(result[i], origins, size, i);
    }
    check(wrong == 0, "reduce %d: %d elements are wrong", call, wrong);
    check_digest(result, rank == root ? 8 * (size_t)count : 0);
    check_success(MPI_Reduce_scatter(input, result, counts, MPI_DOUBLE, MPI_SUM, comm), "MPI_Reduce_scatter");
    for (int i = 0; i < counts[rank]; i++) {
        wrong += !is_about(result[i], origins, size, before + i);
    }
    check(wrong == 0, "reduce_scatter %d of %d: %d elements are wrong", call, all, wrong);
    check_digest(result, 8 * (size_t)counts[rank]);
    free(input);
    free(result);
}

static void calls_on(MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    unsigned char *data = malloc((size_t)bytes);
    for (int call = 0; call < calls; call++) {
        arrive(rank, call);
        one_bcast(comm, rank, call % size, call, data);
        arrive(rank, call + calls);
        one_allgatherv(comm, rank, size, call);
        allreduces(comm, rank, size, call);
        reductions(comm, rank, size, call);
    }
    free(data);
}

/* All ranks, the same again, in reverse, and one half and the other. */
static void *on_all(void *of_all) {
    MPI_Comm all = *(MPI_Comm *)of_all, other;
    calls_on(all);
    for (int turn = 0; turn < 3; turn++) {
        MPI_Comm_split(all, turn == 2 ? world_rank % 2 : 0, turn == 1 ? -world_rank : world_rank, &other);
        calls_on(other);
        MPI_Comm_free(&other);
    }
    return NULL;
}

int main(int argc, char **argv) {
    const bool threads = argc > 3 && strcmp(argv[argc - 1], "threads") == 0;
    check_begin(&argc, &argv, "learning", threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    calls = atoi(argv[1]);
    bytes = atoi(argv[2]);
    delays = argc > 3 && strcmp(argv[3], "delays") == 0;
    check_case("%d calls of %d bytes", calls, bytes);
    MPI_Comm all[2];
    for (int thread = 0; thread < 2; thread++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &all[thread]);
    }
    pthread_t other;
    if (threads) {
        pthread_create(&other, NULL, on_all, &all[1]);
    }
    on_all(&all[0]);
    if (threads) {
        pthread_join(other, NULL);
    }
    for (int thread = 0; thread < 2; thread++) {
        MPI_Comm_free(&all[thread]);
    }
    return check_end();
}
