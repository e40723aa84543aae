/*
 * Communicators that come and go, and processes that do. The argument is what happens:
 *
 *     short-lived  10,000 communicators, of which at most five exist at a time
 *     many         as many as the MPI allows at a time, or 2,000
 *     crowded      the first call comes when there are as many as the MPI allows, or 2,500
 *     ending       a thread that ends frees communicators, as its pthread_key_create says
 *     fork         the program forks before MPI starts
 *     self         collectives of one process
 *     free         a communicator is freed while its last messages may be under way
 *     abort        an operator ends the job in the middle of a reduction
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "check.h"
#include "medley.h"

enum { INTS = 8, SHORT_LIVED = 6000, TOGETHER = 5, MANY = 2000, CROWD = 2500, LARGE = 100000 };

static int value(int rank, int i) {
    return (int)(mix(check_iteration(), (uint64_t)rank, (uint64_t)i, 9) % 100000);
}

/* A broadcast and an allreduce, small ones: there is no time for more on so many communicators. */
static void use(MPI_Comm comm) {
    int rank, size, data[INTS], sums[INTS], wrong = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const int root = (int)(check_iteration() % (uint64_t)size);
    for (int i = 0; i < INTS; i++) {
        data[i] = rank == root ? value(root, i) : -1;
    }
    bcast(data, INTS, MPI_INT, root, comm);
    for (int i = 0; i < INTS; i++) {
        wrong += data[i] != value(root, i);
        data[i] = value(rank, i);
    }
    allreduce(data, sums, INTS, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < INTS; i++) {
        int sum = 0;
        for (int other = 0; other < size; other++) {
            sum += value(other, i);
        }
        wrong += sums[i] != sum;
    }
    check(wrong == 0, "%d ints are wrong", wrong);
    check_digest(sums, sizeof sums);
}

static void short_lived(void) {
    for (int batch = 0, made = 0; made < SHORT_LIVED; batch++) {
        MPI_Comm comm[TOGETHER];
        const int alive = 1 + batch % TOGETHER;
        for (int i = 0; i < alive; i++, made++) {
            check_case("communicator %d of %d", made, SHORT_LIVED);
            if (made % 2 == 0) {
                MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
            } else {
                MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comm[i]);
            }
            use(comm[i]);
        }
        /* Those that were made first are freed first, or last. */
        for (int i = 0; i < alive; i++) {
            MPI_Comm_free(&comm[batch % 2 == 0 ? i : alive - 1 - i]);
        }
    }
}

static void one_more(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    use(comm);
    MPI_Comm_free(&comm);
}

static void many(void) {
    static MPI_Comm comm[MANY];
    int alive = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (alive < MANY && MPI_Comm_dup(MPI_COMM_WORLD, &comm[alive]) == MPI_SUCCESS) {
        check_case("communicator %d", alive);
        use(comm[alive++]);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (world_rank == 0) {
        printf("communicators=%d\n", alive);
    }
    for (int i = 0; i < alive; i++) {
        check_case("communicator %d of %d again", i, alive);
        use(comm[i]);
    }
    for (int i = 0; i < alive; i++) {
        MPI_Comm_free(&comm[i]);
    }
    check_case("one more, after all were freed");
    one_more();
}

static void crowded(void) {
    static MPI_Comm comm[CROWD];
    int alive = 0;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    while (alive < CROWD && MPI_Comm_dup(MPI_COMM_SELF, &comm[alive]) == MPI_SUCCESS) {
        alive++;
    }
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    check_case("beside %d communicators", alive);
    use(MPI_COMM_WORLD);
    for (int i = 0; i < alive; i++) {
        MPI_Comm_free(&comm[i]);
    }
    check_case("one more, after all were freed");
    one_more();
}

static pthread_key_t key;

static void free_of_key(void *comm) {
    MPI_Comm_free(comm);
}

static void *end(void *comm) {
    MPI_Comm *comms = comm;
    MPI_Comm_free(&comms[0]);
    pthread_setspecific(key, &comms[1]);
    return NULL;
}

static void ending(void) {
    enum { THREADS = 5 };
    MPI_Comm comm[2];
    /* If the library makes a key of its own for that, it does so now. Then its destructor comes first. */
    one_more();
    pthread_key_create(&key, free_of_key);
    for (int i = 0; i < THREADS; i++) {
        check_case("thread %d", i);
        for (int k = 0; k < 2; k++) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comm[k]);
            use(comm[k]);
        }
        pthread_t thread;
        pthread_create(&thread, NULL, end, comm);
        pthread_join(thread, NULL);
        check(comm[0] == MPI_COMM_NULL && comm[1] == MPI_COMM_NULL, "a communicator was not freed");
    }
    pthread_key_delete(key);
}

/* What became of a child that did nothing. */
static int child_status(void) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static void forked(int status) {
    check_case("after a fork");
    check(status == 0, "the child ended with %d", status);
    for (int call = 0; call < 5; call++) {
        check_case("after a fork, call %d", call);
        medley(MPI_COMM_WORLD, 1000);
    }
}

static void self(void) {
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_SELF, &dup);
    for (int call = 0; call < 5; call++) {
        check_case("alone, call %d", call);
        check_color(world_rank);
        medley(MPI_COMM_SELF, 1000);
        medley(dup, 1000);
        check_color(0);
        check_case("together, call %d", call);
        medley(MPI_COMM_WORLD, 1000);
    }
    MPI_Comm_free(&dup);
}

/* The root comes first, the others after it, one by one. Small messages need nobody to leave. */
static void freed_at_once(void) {
    static const int lengths[] = {100, 2000, LARGE};
    int *data = allocate(sizeof(int) * LARGE);
    for (int turn = 0; turn < 200; turn++) {
        int root = turn % world_size, length = lengths[turn % 3], wrong = 0;
        MPI_Comm comm;
        check_case("turn %d, %d ints", turn, length);
        for (int i = 0; i < length; i++) {
            data[i] = world_rank == root ? value(root, i) : -1;
        }
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        usleep((useconds_t)(300 * ((world_rank - root + world_size) % world_size)));
        bcast(data, length, MPI_INT, root, comm);
        MPI_Comm_free(&comm);
        for (int i = 0; i < length; i++) {
            wrong += data[i] != value(root, i);
        }
        check(wrong == 0, "%d ints are wrong", wrong);
        check_digest(data, sizeof(int) * (size_t)length);
    }
    free(data);
}

static int combined;

/* Half of the way, however many items are combined at once: at the root each is at least once. */
static void add_and_abort(void *in, void *inout, int *items, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *items; i++) {
        ((int *)inout)[i] += ((int *)in)[i];
    }
    combined += *items;
    if (world_rank == 0 && combined > LARGE / 2) {
        MPI_Abort(MPI_COMM_WORLD, 7);
    }
}

static void aborted(void) {
    int *input = allocate(sizeof(int) * LARGE), *result = allocate(sizeof(int) * LARGE);
    MPI_Op op;
    check_case("abort");
    for (int i = 0; i < LARGE; i++) {
        input[i] = i;
    }
    reduce(input, result, LARGE, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Op_create(add_and_abort, 1, &op);
    reduce(input, result, LARGE, MPI_INT, op, 0, MPI_COMM_WORLD);
    /* The root does not get here. The others may, and wait for it until they are ended. */
    MPI_Barrier(MPI_COMM_WORLD);
    check(false, "the reduction came to its end");
    MPI_Op_free(&op);
    free(input);
    free(result);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int status = strcmp(mode, "fork") == 0 ? child_status() : 0;
    check_begin(&argc, &argv, "lifecycle", strcmp(mode, "ending") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    if (strcmp(mode, "short-lived") == 0) {
        short_lived();
    } else if (strcmp(mode, "many") == 0) {
        many();
    } else if (strcmp(mode, "crowded") == 0) {
        crowded();
    } else if (strcmp(mode, "ending") == 0) {
        ending();
    } else if (strcmp(mode, "fork") == 0) {
        forked(status);
    } else if (strcmp(mode, "self") == 0) {
        self();
    } else if (strcmp(mode, "free") == 0) {
        freed_at_once();
    } else if (strcmp(mode, "abort") == 0) {
        aborted();
    } else {
        check(false, "there is nothing called %s", mode);
    }
    return check_end();
}
