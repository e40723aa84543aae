/*
 * revoked VICTIM CALL MICROSECONDS [BYTES]: a program that survives the death of a process, as ULFM asks.
 *
 * All processes make 30 calls, of six operations in turn, each result checked against a serial one. In
 * call CALL, process VICTIM is killed: before it (0 microseconds), or in it, so many microseconds after its
 * start. Who meets an error revokes the communicator; then all agree, shrink it, and go on from the
 * earliest call that somebody has not finished. At the end every survivor has finished all calls.
 *
 * After a failure the launcher's barrier in Open MPI's MPI_Finalize may wait for ever, natively too. A process
 * that is not through after PATIENCE seconds says by which functions it is there, and ends.
 */
#include <execinfo.h>
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

extern unsigned long long circulant_calls(const char *operation) __attribute__((weak));

enum { CALLS = 30, OPERATIONS = 7, PATIENCE = 5 };

static MPI_Comm comm;
static int rank, size, elements;
static int *input, *output;

/* One line: the functions from the innermost to main. */
static void say_where(int signal)
{
    (void)signal;
    void *frames[64];
    int depth = backtrace(frames, 64), length = 0;
    char **names = backtrace_symbols(frames, depth);
    char line[8192];
    for (int i = 0; names && i < depth && length < (int)sizeof line - 300; i++)
        length += snprintf(line + length, 256, "%s%.200s", i ? " < " : "waits in ", names[i]);
    line[length++] = '\n';
    _exit(write(STDOUT_FILENO, line, (size_t)length) != length);
}

static int value(int of, int call, int index)
{
    return 7 * of + 1000 * call + index % 977;
}

static int sum(int call, int index)
{
    int all = 0;
    for (int of = 0; of < size; of++)
        all += value(of, call, index);
    return all;
}

static void expect(int call, const char *operation, int index, int found, int expected)
{
    if (found == expected)
        return;
    fprintf(stderr, "revoked: rank %d of %d, call %d, %s: element %d is %d, not %d\n", rank, size, call,
            operation, index, found, expected);
    exit(1);
}

/* Makes a call; checks its result if it had no error. */
static int make(int call)
{
    int root = call % size, each = elements / size;
    int code;
    for (int i = 0; i < elements; i++) {
        input[i] = value(rank, call, i);
        output[i] = -1;
    }
    switch (call % OPERATIONS) {
    case 0:
        code = MPI_Bcast(input, elements, MPI_INT, root, comm);
        for (int i = 0; code == MPI_SUCCESS && i < elements; i++)
            expect(call, "bcast", i, input[i], value(root, call, i));
        break;
    case 1:
        code = MPI_Allreduce(input, output, elements, MPI_INT, MPI_SUM, comm);
        for (int i = 0; code == MPI_SUCCESS && i < elements; i++)
            expect(call, "allreduce", i, output[i], sum(call, i));
        break;
    case 2:
        code = MPI_Allgather(input, each, MPI_INT, output, each, MPI_INT, comm);
        for (int i = 0; code == MPI_SUCCESS && i < each * size; i++)
            expect(call, "allgather", i, output[i], value(i / each, call, i % each));
        break;
    case 3:
        code = MPI_Reduce(input, output, elements, MPI_INT, MPI_SUM, root, comm);
        for (int i = 0; code == MPI_SUCCESS && rank == root && i < elements; i++)
            expect(call, "reduce", i, output[i], sum(call, i));
        break;
    case 4:
        code = MPI_Reduce_scatter_block(input, output, each, MPI_INT, MPI_SUM, comm);
        for (int i = 0; code == MPI_SUCCESS && i < each; i++)
            expect(call, "reduce_scatter_block", i, output[i], sum(call, rank * each + i));
        break;
    case 5:
        code = MPI_Alltoall(input, each, MPI_INT, output, each, MPI_INT, comm);
        for (int i = 0; code == MPI_SUCCESS && i < each * size; i++)
            expect(call, "alltoall", i, output[i], value(i / each, call, rank * each + i % each));
        break;
    default:
        code = MPI_Allreduce(MPI_IN_PLACE, input, elements, MPI_INT, MPI_SUM, comm);
        for (int i = 0; code == MPI_SUCCESS && i < elements; i++)
            expect(call, "allreduce in place", i, input[i], sum(call, i));
    }
    return code;
}

static void die(int signal)
{
    kill(getpid(), signal == SIGALRM ? SIGKILL : signal);
}

static void die_after(long microseconds)
{
    if (microseconds == 0)
        die(SIGKILL);
    struct itimerval when = {.it_value = {.tv_usec = microseconds}};
    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &when, NULL);
}

/* A communicator of the survivors, and the earliest call that one of them has not finished. */
static int recover(int call)
{
    MPI_Comm shrunk;
    int flag = 1;
    MPIX_Comm_revoke(comm);
    MPIX_Comm_shrink(comm, &shrunk);
    MPIX_Comm_agree(shrunk, &flag);
    if (comm != MPI_COMM_WORLD)
        MPI_Comm_free(&comm);
    comm = shrunk;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int earliest;
    MPI_Allreduce(&call, &earliest, 1, MPI_INT, MPI_MIN, comm);
    return earliest;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: revoked VICTIM CALL MICROSECONDS [BYTES]\n");
        return 2;
    }
    int victim = atoi(argv[1]), when = atoi(argv[2]), is_dead = 0, errors = 0;
    long microseconds = atol(argv[3]);
    elements = (argc > 4 ? atoi(argv[4]) : 60000) / (int)sizeof(int);
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int world_rank, world_size;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    comm = MPI_COMM_WORLD;
    rank = world_rank;
    size = world_size;
    input = malloc(sizeof(int) * (size_t)elements);
    output = malloc(sizeof(int) * (size_t)elements);

    for (int call = 0; call < CALLS;) {
        if (call == when && world_rank == victim && !is_dead)
            die_after(microseconds);
        int code = make(call), class = MPI_SUCCESS;
        if (code == MPI_SUCCESS) {
            call++;
            /* The end is a call like any other: who is through has not seen the error of another. */
            if (call < CALLS)
                continue;
            int flag = 1;
            code = MPIX_Comm_agree(comm, &flag);
            if (code == MPI_SUCCESS)
                break;
        }
        MPI_Error_class(code, &class);
        if (class != MPIX_ERR_PROC_FAILED && class != MPIX_ERR_REVOKED) {
            fprintf(stderr, "revoked: rank %d: class %d is neither a failure nor a revocation\n", world_rank, class);
            return 1;
        }
        errors++;
        is_dead = 1;
        call = recover(call);
    }
    unsigned long long ours = circulant_calls ? circulant_calls("bcast") + circulant_calls("allreduce") : 0;
    if (rank == 0)
        printf("survivors %d of %d, errors %d, circulant %llu\n", size, world_size, errors, ours);
    fflush(stdout);
    signal(SIGALRM, say_where);
    alarm(PATIENCE);
    MPI_Finalize();
    alarm(0);
    printf("finalized %d\n", world_rank);
    return 0;
}
