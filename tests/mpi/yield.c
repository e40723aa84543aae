/*
 * Makes waiting processes sleep, so that more of them than there are processors can be tested in
 * bearable time, whatever else the machine does. Preloaded in all runs.
 *
 * Open MPI, told to yield when idle, calls sched_yield, which beside other busy processes waits for
 * all of their time slices. MPICH 4 on UCX has no such setting, but every turn of its progress loop
 * calls ucp_worker_progress. Both are stood before here.
 */
#include <dlfcn.h>
#include <sched.h>
#include <time.h>

int sched_yield(void) {
    const struct timespec shortly = {0, 1000};
    return nanosleep(&shortly, 0);
}

unsigned ucp_worker_progress(void *worker);

unsigned ucp_worker_progress(void *worker) {
    static unsigned (*next)(void *);
    if (next == 0) {
        /* Not RTLD_NEXT: Python loads its MPI, and so UCX, out of the global scope. */
        void *ucp = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
        next = (unsigned (*)(void *))dlsym(ucp, "ucp_worker_progress");
    }
    unsigned progressed = next(worker);
    if (progressed == 0) {
        sched_yield();
    }
    return progressed;
}
