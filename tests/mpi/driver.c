/*
 * A program that loads CUDA's driver (cuda_stub.c) itself, out of the global scope: before its first
 * collective call ("before"), or after it, and then uses a communicator made later ("later") or that of
 * the first call ("same").
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { INTS = 40, CALLS = 3, ROOT = 0 };

typedef void *on_memory(void *memory);
typedef void *allocator(size_t size);
typedef void action(void);

static int host_calls, device_calls;

static void *function(void *driver, const char *name) {
    void *found = driver == NULL ? NULL : dlsym(driver, name);
    if (found == NULL) {
        fprintf(stderr, "driver: no %s: %s\n", name, dlerror());
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return found;
}

/* A broadcast of what may be looked at by `view`. */
static void one(MPI_Comm comm, int *memory, int *view, int *calls) {
    int wrong = 0;
    check_case("call %d", host_calls + device_calls);
    for (int i = 0; i < INTS; i++) {
        view[i] = world_rank == ROOT ? i + (int)check_iteration() % 1000 : -1;
    }
    check_success(MPI_Bcast(memory, INTS, MPI_INT, ROOT, comm), "MPI_Bcast");
    for (int i = 0; i < INTS; i++) {
        wrong += view[i] != i + (int)check_iteration() % 1000;
    }
    check(wrong == 0, "%d ints are wrong", wrong);
    check_digest(view, INTS * sizeof(int));
    (*calls)++;
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "driver", MPI_THREAD_SINGLE);
    const char *when = argc > 2 ? argv[1] : "";
    int host[INTS];
    if (strcmp(when, "before") != 0) {
        one(MPI_COMM_WORLD, host, host, &host_calls);
    }
    void *driver = dlopen(argc > 2 ? argv[2] : NULL, RTLD_NOW | RTLD_LOCAL);
    allocator *alloc = (allocator *)function(driver, "stub_device_alloc");
    on_memory *host_view = (on_memory *)function(driver, "stub_device_host_view");
    action *protect_all = (action *)function(driver, "stub_protect_all");
    MPI_Comm comm = MPI_COMM_WORLD;
    if (strcmp(when, "later") == 0) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    int *memory = world_rank == ROOT ? alloc(sizeof(host)) : host;
    int *view = world_rank == ROOT ? host_view(memory) : host;
    for (int call = 0; call < CALLS; call++) {
        protect_all();
        one(comm, memory, view, &device_calls);
        one(comm, host, host, &host_calls);
    }
    if (comm != MPI_COMM_WORLD) {
        MPI_Comm_free(&comm);
    }
    if (world_rank == 0 && world_size == 1) {
        printf("calls bcast one_process=%d\n", host_calls + device_calls);
    } else if (world_rank == 0) {
        printf("calls bcast circulant=%d device_memory=%d\n", host_calls, device_calls);
    }
    return check_end();
}
