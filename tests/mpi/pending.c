/*
 * Receives from anyone, with any tag, and a nonblocking collective are pending on the communicator
 * while collectives run on it: the receives must not be matched, nor anything be seen by a probe,
 * before the program itself sends, and the collective must come to its right end.
 */
#include "check.h"
#include "medley.h"

enum { RECEIVES = 4, MEDLEYS = 20, INTS = 100 };

static void nothing_to_see(MPI_Comm comm, MPI_Request *requests) {
    int seen = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &seen, MPI_STATUS_IGNORE);
    check(!seen, "a probe found a message that the program did not send");
    MPI_Testany(RECEIVES, requests, &(int){0}, &seen, MPI_STATUS_IGNORE);
    check(!seen, "a pending receive completed before the program sent");
}

static void with_pending(MPI_Comm comm, const char *name) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int received[RECEIVES][INTS];
    MPI_Request requests[RECEIVES];
    for (int i = 0; i < RECEIVES; i++) {
        /* MPICH 4.0's MPI_Alltoall of one process sends over the program's communicator: natively, a
         * receive with any tag takes its message, and it waits for ever. */
        int tag = size > 1 ? MPI_ANY_TAG : 40 + i;
        MPI_Irecv(received[i], INTS, MPI_INT, MPI_ANY_SOURCE, tag, comm, &requests[i]);
    }
    MPI_Request reduction;
    int mine = rank + 1, sum = 0;
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &reduction);
    for (int call = 0; call < MEDLEYS; call++) {
        check_case("%s, medley %d", name, call);
        medley(comm, call % 5 == 0 ? 20000 : 200);
        nothing_to_see(comm, requests);
    }
    /* Small enough to leave without a matching receive. */
    MPI_Wait(&reduction, MPI_STATUS_IGNORE);
    check(sum == size * (size + 1) / 2, "the nonblocking sum is %d", sum);
    MPI_Barrier(comm); /* for nobody's message may come before everybody has looked */
    check_case("%s, the program's own messages", name);
    for (int i = 0; i < RECEIVES; i++) {
        int data[INTS];
        for (int k = 0; k < INTS; k++) {
            data[k] = 1000 * rank + i + k;
        }
        MPI_Send(data, INTS, MPI_INT, (rank + 1) % size, 40 + i, comm);
    }
    MPI_Status statuses[RECEIVES];
    MPI_Waitall(RECEIVES, requests, statuses);
    int left = (rank + size - 1) % size;
    for (int i = 0; i < RECEIVES; i++) {
        check(statuses[i].MPI_SOURCE == left && statuses[i].MPI_TAG == 40 + i,
              "receive %d is from %d with tag %d", i, statuses[i].MPI_SOURCE, statuses[i].MPI_TAG);
        for (int k = 0; k < INTS; k++) {
            check(received[i][k] == 1000 * left + i + k, "receive %d, int %d is %d", i, k,
                  received[i][k]);
        }
    }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "pending", MPI_THREAD_SINGLE);
    with_pending(MPI_COMM_WORLD, "world");
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    with_pending(dup, "dup");
    MPI_Comm_free(&dup);
    return check_end();
}
