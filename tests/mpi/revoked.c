/*
 * revoked [agree | inter] [VICTIM CALL MICROSECONDS [BYTES]]: a program that survives the death of a process, as ULFM
 * asks.
 *
 * All processes make 33 calls, of ten operations in turn, each result checked against a serial one: eleven on
 * a communicator, eleven on a duplicate of it, and eleven on one with the ranks in reverse order. In call CALL,
 * process VICTIM is killed: before it (0 microseconds), or in it, so many microseconds after its start. (Without
 * arguments, something else kills a process.) Who meets an error acknowledges the failure and revokes the
 * communicators; then all agree, shrink the first, and go on from the earliest call that somebody has not
 * finished. At the end every survivor has finished all calls.
 *
 * With `agree` nobody revokes anything. All calls are on one communicator, and all processes agree after each of them
 * whether it has succeeded on all. So each process has to come out of a call by itself.
 *
 * With `inter` all calls are on an inter-communicator, whose groups are the even and the odd ranks: broadcasts from
 * either group, and allgathers.
 *
 * revoked late: rank 1 revokes a communicator on which calls were made. Once all know it, every call on it has to fail.
 *
 * An error handler of the program counts its calls: one for each call that has failed.
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

enum { CALLS = 33, OPERATIONS = 11, PATIENCE = 5, MOST = 64 };

/* The communicators that calls are on. */
enum part { NONE = -1, ALL, DUPLICATE, REVERSED, BETWEEN };

/* That of all who live; that of the calls; which that is; and this process's group of an inter-communicator. */
static MPI_Comm all, comm = MPI_COMM_NULL, group = MPI_COMM_NULL;
static enum part part = NONE;
static int agrees, is_inter, handled;
static MPI_Errhandler counter;
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

static void count_error(MPI_Comm *of, int *code, ...)
{
    (void)of, (void)code;
    handled++;
}

static void leave_communicator(void)
{
    if (comm != MPI_COMM_NULL && comm != all)
        MPI_Comm_free(&comm);
    if (group != MPI_COMM_NULL)
        MPI_Comm_free(&group);
    comm = MPI_COMM_NULL;
    part = NONE;
}

static int connect_groups(int of_all)
{
    int color = of_all % 2, code = MPI_Comm_split(all, color, of_all, &group);
    if (code != MPI_SUCCESS) {
        group = MPI_COMM_NULL;
        return code;
    }
    MPI_Comm_set_errhandler(group, counter);
    return MPI_Intercomm_create(group, 0, all, 1 - color, 5, &comm);
}

/* The communicator of a call. */
static int choose_communicator(int call)
{
    int code = MPI_SUCCESS, of_all;
    enum part wanted = is_inter ? BETWEEN : agrees ? ALL : (enum part)(call / OPERATIONS);
    if (part == wanted)
        return code;
    leave_communicator();
    MPI_Comm_rank(all, &of_all);
    switch (wanted) {
    case DUPLICATE:
        code = MPI_Comm_dup(all, &comm);
        break;
    case REVERSED:
        code = MPI_Comm_split(all, 0, -of_all, &comm);
        break;
    case BETWEEN:
        code = connect_groups(of_all);
        break;
    default:
        comm = all;
    }
    if (code != MPI_SUCCESS) {
        comm = MPI_COMM_NULL;
        return code;
    }
    part = wanted;
    MPI_Comm_set_errhandler(comm, counter);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    return code;
}

/* How many elements a rank has where ranks have different numbers. */
static int count_of(int least, int of)
{
    return least + 13 * of % 50;
}

/* How many each has, and where they stand. */
static void lay_out(int least, int counts[], int displacements[])
{
    int total = 0;
    for (int of = 0; of < size; of++) {
        counts[of] = count_of(least, of);
        displacements[of] = total;
        total += counts[of];
    }
}

/* Makes a call between two groups, and checks its result. `size` is that of the other group. */
static int make_between(int call)
{
    enum { OTHER = 100 }; /* added to the ranks of the odd group */
    int code, of_all, counts[MOST], displacements[MOST];
    MPI_Comm_rank(all, &of_all);
    MPI_Comm_remote_size(comm, &size);
    int mine = of_all % 2 ? OTHER : 0, theirs = OTHER - mine, each = elements / MOST;
    int from_mine = (call / 3 + of_all) % 2, root = call % 2;
    lay_out(each, counts, displacements);
    for (int i = 0; i < elements; i++) {
        input[i] = value(mine + rank, call, i);
        output[i] = -1;
    }
    switch (call % 3) {
    case 0:
        code = from_mine ? MPI_Bcast(input, elements, MPI_INT, rank == root ? MPI_ROOT : MPI_PROC_NULL, comm)
                         : MPI_Bcast(output, elements, MPI_INT, root, comm);
        for (int i = 0; code == MPI_SUCCESS && !from_mine && i < elements; i++)
            expect(call, "bcast", i, output[i], value(theirs + root, call, i));
        break;
    case 1:
        code = MPI_Allgather(input, each, MPI_INT, output, each, MPI_INT, comm);
        for (int i = 0; code == MPI_SUCCESS && i < each * size; i++)
            expect(call, "allgather", i, output[i], value(theirs + i / each, call, i % each));
        break;
    default:
        code = MPI_Allgatherv(input, count_of(each, rank), MPI_INT, output, counts, displacements, MPI_INT, comm);
        for (int of = 0; code == MPI_SUCCESS && of < size; of++)
            for (int i = 0; i < counts[of]; i++)
                expect(call, "allgatherv", displacements[of] + i, output[displacements[of] + i],
                       value(theirs + of, call, i));
    }
    return code;
}

/* Makes a call; checks its result if it had no error. */
static int make(int call)
{
    int code = choose_communicator(call);
    if (code != MPI_SUCCESS)
        return code;
    if (is_inter)
        return make_between(call);
    int root = call % size, each = elements / size;
    int counts[MOST], displacements[MOST];
    lay_out(elements / size / 2, counts, displacements);
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
    case 6:
        code = MPI_Allgatherv(input, counts[rank], MPI_INT, output, counts, displacements, MPI_INT, comm);
        for (int of = 0; code == MPI_SUCCESS && of < size; of++)
            for (int i = 0; i < counts[of]; i++)
                expect(call, "allgatherv", displacements[of] + i, output[displacements[of] + i], value(of, call, i));
        break;
    case 7:
        code = MPI_Reduce_scatter(input, output, counts, MPI_INT, MPI_SUM, comm);
        for (int i = 0; code == MPI_SUCCESS && i < counts[rank]; i++)
            expect(call, "reduce_scatter", i, output[i], sum(call, displacements[rank] + i));
        break;
    case 8:
        code = MPI_Gather(input, each, MPI_INT, output, each, MPI_INT, root, comm);
        for (int i = 0; code == MPI_SUCCESS && rank == root && i < each * size; i++)
            expect(call, "gather", i, output[i], value(i / each, call, i % each));
        break;
    case 9:
        code = MPI_Scatter(input, each, MPI_INT, output, each, MPI_INT, root, comm);
        for (int i = 0; code == MPI_SUCCESS && i < each; i++)
            expect(call, "scatter", i, output[i], value(root, call, rank * each + i));
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

/* Says that it has heard of the failures. Those that it has said so of are among the processes of `all`. */
static void acknowledge(void)
{
    MPI_Group failed, whole;
    int failures, known;
    MPIX_Comm_failure_ack(all);
    MPIX_Comm_failure_get_acked(all, &failed);
    MPI_Comm_group(all, &whole);
    MPI_Group_size(failed, &failures);
    if (failures > 1) {
        fprintf(stderr, "revoked: %d processes have failed, not one\n", failures);
        exit(1);
    }
    int zero = 0;
    known = MPI_PROC_NULL;
    if (failures == 1)
        MPI_Group_translate_ranks(failed, 1, &zero, whole, &known);
    if (failures == 1 && known == MPI_UNDEFINED) {
        fprintf(stderr, "revoked: the process that failed is not of the communicator\n");
        exit(1);
    }
    MPI_Group_free(&failed);
    MPI_Group_free(&whole);
}

/* A communicator of the survivors, and the earliest call that one of them has not finished. */
static int recover(int call)
{
    MPI_Comm shrunk;
    int flag = 1;
    acknowledge();
    if (comm != MPI_COMM_NULL && comm != all)
        MPIX_Comm_revoke(comm);
    if (group != MPI_COMM_NULL)
        MPIX_Comm_revoke(group);
    if (!agrees)
        MPIX_Comm_revoke(all);
    MPIX_Comm_shrink(all, &shrunk);
    MPIX_Comm_agree(shrunk, &flag);
    leave_communicator();
    if (all != MPI_COMM_WORLD)
        MPI_Comm_free(&all);
    all = shrunk;
    MPI_Comm_set_errhandler(all, counter);
    int earliest;
    MPI_Allreduce(&call, &earliest, 1, MPI_INT, MPI_MIN, all);
    return earliest;
}

static unsigned long long calls_of_circulant(void)
{
    static const char *const operations[] = {"bcast", "allreduce", "allgather", "reduce", "reduce_scatter_block",
        "alltoall", "allgatherv", "reduce_scatter", "gather", "scatter"};
    unsigned long long ours = 0;
    for (size_t i = 0; circulant_calls && i < sizeof operations / sizeof *operations; i++)
        ours += circulant_calls(operations[i]);
    return ours;
}

/* Whether all have finished a call that this process has finished with a code. */
static int all_have_finished(int code)
{
    int flag = code == MPI_SUCCESS;
    while (MPIX_Comm_agree(all, &flag) != MPI_SUCCESS) {
        MPIX_Comm_failure_ack(all);
        flag = 0;
    }
    return flag;
}

/* Whether this process knows that a communicator is revoked. */
static int is_revoked(MPI_Comm of)
{
    int flag = 1, unused;
    MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &unused, MPI_STATUS_IGNORE);
#ifdef OPEN_MPI
    MPIX_Comm_is_revoked(of, &flag);
#else
    (void)of; /* MPICH cannot tell. */
#endif
    return flag;
}

static int call_revoked(void)
{
    for (int time = 0; time < 5; time++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &all);
        agrees = 1;
        for (int call = 0; call < OPERATIONS; call++)
            make(call);
        if (rank == 1)
            MPIX_Comm_revoke(all);
        while (!is_revoked(all))
            continue;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int call = 0; call < OPERATIONS; call++) {
            int class;
            MPI_Error_class(make(call), &class);
            if (class != MPIX_ERR_REVOKED) {
                fprintf(stderr, "revoked: rank %d, call %d: class %d on a revoked communicator\n", rank, call, class);
                exit(1);
            }
        }
        MPIX_Comm_revoke(all);
        leave_communicator();
        MPI_Comm_free(&all);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("survivors %d of %d, errors %d, circulant %llu\n", size, size, OPERATIONS, calls_of_circulant());
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    int is_late = argc == 2 && strcmp(argv[1], "late") == 0;
    argc -= is_late;
    agrees = argc > 1 && strcmp(argv[1], "agree") == 0;
    is_inter = argc > 1 && strcmp(argv[1], "inter") == 0;
    argc -= agrees + is_inter;
    argv += agrees + is_inter;
    if (argc != 1 && argc < 4) {
        fprintf(stderr, "usage: revoked late | [agree | inter] [VICTIM CALL MICROSECONDS [BYTES]]\n");
        return 2;
    }
    int victim = argc > 1 ? atoi(argv[1]) : -1, when = argc > 1 ? atoi(argv[2]) : -1;
    int is_marked = 0, errors = 0, most;
    long microseconds = argc > 1 ? atol(argv[3]) : 0;
    elements = (argc > 4 ? atoi(argv[4]) : 60000) / (int)sizeof(int);
    MPI_Init(&argc, &argv);
    MPI_Comm_create_errhandler(count_error, &counter);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, counter);
    int world_rank, world_size;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    all = MPI_COMM_WORLD;
    input = malloc(sizeof(int) * (size_t)elements);
    output = malloc(sizeof(int) * (size_t)elements);
    if (is_late)
        return call_revoked();

    for (int call = 0; call < CALLS;) {
        /* Where a process dies as others make an inter-communicator, Open MPI 5.0.11 itself may crash or hang. */
        if (call == when && is_inter && choose_communicator(call) == MPI_SUCCESS)
            MPI_Barrier(all);
        if (call == when && world_rank == victim) {
            is_marked = 1;
            die_after(microseconds);
        }
        handled = 0;
        int code = make(call), class = MPI_SUCCESS;
        if (handled != (code != MPI_SUCCESS)) {
            fprintf(stderr, "revoked: rank %d: the error handler was called %d times\n", world_rank, handled);
            return 1;
        }
        MPI_Error_class(code, &class);
        if (agrees) {
            if (code != MPI_SUCCESS && class != MPIX_ERR_PROC_FAILED) {
                fprintf(stderr, "revoked: rank %d: class %d, though nothing was revoked\n", world_rank, class);
                return 1;
            }
            while (is_marked && call + 1 == CALLS)
                pause();
            if (all_have_finished(code)) {
                call++;
            } else {
                errors++;
                call = recover(call);
            }
            continue;
        }
        if (code == MPI_SUCCESS) {
            call++;
            /* The end is a call like any other: who is through has not seen the error of another. */
            if (call < CALLS)
                continue;
            while (is_marked)
                pause();
            int flag = 1;
            code = MPIX_Comm_agree(all, &flag);
            if (code == MPI_SUCCESS)
                break;
        }
        MPI_Error_class(code, &class);
        if (class != MPIX_ERR_PROC_FAILED && class != MPIX_ERR_REVOKED) {
            fprintf(stderr, "revoked: rank %d: class %d is neither a failure nor a revocation\n", world_rank, class);
            return 1;
        }
        errors++;
        call = recover(call);
    }
    leave_communicator();
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Allreduce(&errors, &most, 1, MPI_INT, MPI_MAX, all);
    if (rank == 0)
        printf("survivors %d of %d, errors %d, circulant %llu\n", size, world_size, most, calls_of_circulant());
    fflush(stdout);
    signal(SIGALRM, say_where);
    alarm(PATIENCE);
    MPI_Finalize();
    alarm(0);
    printf("finalized %d\n", world_rank);
    return 0;
}
