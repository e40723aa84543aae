/*
 * An error handler that does not come back: it throws an exception, or jumps out of the call, or it
 * frees the communicator. What it leaves is a call of MPI, and circulant's frames with it.
 *
 *     exceptions throw|jump|free
 *
 * Or an operator that throws, in the middle of a call:
 *
 *     exceptions operator
 */
#include <mpi.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

extern "C" {
#include "calls.h"
#include "check.h"
}

enum { INTS = 10000, ROUNDS = 3 };

static std::string mode;
static jmp_buf before;
static int handled, unwound;

struct Failure {
    int code;
};

/* Has a destructor that has to run when an exception passes it. */
struct Counter {
    ~Counter() { unwound++; }
};

static void handler(MPI_Comm *comm, int *code, ...) {
    handled++;
    if (mode == "throw") {
        throw Failure{*code};
    }
    if (mode == "jump") {
        longjmp(before, 1);
    }
    /* A copy: MPICH passes the address of its own, which it uses again. */
    MPI_Comm failed = *comm;
    MPI_Comm_free(&failed);
}

static void throwing(void *, void *, int *, MPI_Datatype *) { throw Failure{1}; }

static void reduce_by_throwing(void) {
    static int data[INTS], out[INTS];
    MPI_Op op;
    MPI_Op_create(throwing, 1, &op);
    try {
        MPI_Allreduce(data, out, INTS, MPI_INT, op, MPI_COMM_WORLD);
    } catch (const Failure &) {
        printf("the exception has left the call\n");
        fflush(stdout);
    }
    MPI_Abort(MPI_COMM_WORLD, 5);
}

/* A valid call, which is circulant's. */
static void exchange(MPI_Comm comm) {
    int *data = static_cast<int *>(allocate(sizeof(int) * INTS));
    std::memset(data, world_rank == 0 ? 7 : 0, sizeof(int) * INTS);
    bcast(data, INTS, MPI_INT, 0, comm);
    check(data[0] == 0x07070707 && data[INTS - 1] == 0x07070707, "the data");
    check_digest(data, sizeof(int) * INTS);
    std::free(data);
}

/* A call that all ranks make, with an argument that is wrong. */
static int wrong_call(int number, MPI_Comm comm) {
    static int data[INTS], out[INTS];
    switch (number) {
    case 0: return MPI_Bcast(data, INTS, MPI_INT, world_size, comm);
    case 1: return MPI_Reduce(data, out, INTS, MPI_INT, MPI_OP_NULL, 0, comm);
    case 2: return MPI_Allreduce(data, out, INTS, MPI_DATATYPE_NULL, MPI_SUM, comm);
    case 3: return MPI_Allgather(data, -1, MPI_INT, out, 1, MPI_INT, comm);
    case 4: return MPI_Gather(data, 1, MPI_INT, out, 1, MPI_INT, -77, comm);
    default: return MPI_Bcast(data, 1, MPI_INT, world_size, comm);
    }
}
enum { WRONG_CALLS = 6 };

/* Whether the error arrived, in the way of this mode. */
static bool arrives(int number, MPI_Comm comm) {
    if (mode == "jump") {
        if (setjmp(before) == 0) {
            wrong_call(number, comm);
            return false;
        }
        return true;
    }
    try {
        Counter counter;
        return wrong_call(number, comm) != MPI_SUCCESS && mode == "free";
    } catch (const Failure &failure) {
        return failure.code != MPI_SUCCESS && mode == "throw";
    }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, argv[0], MPI_THREAD_SINGLE);
    mode = argc > 1 ? argv[1] : "throw";
    if (mode == "operator") {
        reduce_by_throwing();
    }
    MPI_Errhandler own;
    MPI_Comm_create_errhandler(handler, &own);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, own);
        for (int number = 0; number < WRONG_CALLS; number++) {
            check_case("round %d, call %d", round, number);
            exchange(comm);
            const int handled_before = handled, unwound_before = unwound;
            check(arrives(number, comm), "the error did not arrive");
            check(handled == handled_before + 1, "the handler ran %d times", handled - handled_before);
            check(mode == "jump" || unwound == unwound_before + 1, "a destructor did not run");
            if (mode == "free") {
                MPI_Comm_dup(MPI_COMM_WORLD, &comm);
                MPI_Comm_set_errhandler(comm, own);
            }
        }
        exchange(comm);
        MPI_Comm_free(&comm);
    }
    MPI_Errhandler_free(&own);
    return check_end();
}
