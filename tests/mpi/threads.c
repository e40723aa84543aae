/* MPI_THREAD_MULTIPLE: each thread its own communicator, all in every collective at once. */
#include <pthread.h>
#include <stdlib.h>

#include "check.h"
#include "medley.h"

enum { THREADS = 4, MEDLEYS = 15 };

struct task {
    int number;
    MPI_Comm comm;
};

/* So that no thread is done before another has begun. */
static pthread_barrier_t start;

static void *run(void *argument) {
    struct task *task = argument;
    check_thread_begin(task->number);
    pthread_barrier_wait(&start);
    for (int call = 0; call < MEDLEYS; call++) {
        check_case("thread %d, call %d", task->number, call);
        medley(task->comm, call % 5 == 4 ? 20000 : 200);
    }
    check_thread_end();
    return NULL;
}

int main(int argc, char **argv) {
    struct task task[THREADS];
    pthread_t thread[THREADS];
    check_begin(&argc, &argv, "threads", MPI_THREAD_MULTIPLE);
    for (int i = 0; i < THREADS; i++) {
        task[i].number = i + 1;
        MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? -world_rank : world_rank, &task[i].comm);
    }
    pthread_barrier_init(&start, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&thread[i], NULL, run, &task[i]);
    }
    pthread_barrier_wait(&start);
    for (int call = 0; call < MEDLEYS; call++) {
        check_case("main thread, call %d", call);
        medley(MPI_COMM_WORLD, 5000);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        MPI_Comm_free(&task[i].comm);
    }
    pthread_barrier_destroy(&start);
    return check_end();
}
