/*
 * What MPICH needs to run with many more processes than cores, on an emulated cluster. Preloaded
 * by scripts/cluster under every MPICH program there, whatever is measured.
 *
 * 1. MPICH 4 waits by polling and never gives its core away (its setting POLLS_BEFORE_YIELD
 *    belongs to the older ch3 device). Here a poll of the network that finds nothing yields, as
 *    Open MPI does with mpi_yield_when_idle.
 * 2. MPICH 4.0 and 4.1 on UCX deadlock in MPI_Finalize: a process whose own connections are
 *    closed waits for the others in a blocking read from the process manager, and does not
 *    answer those who are still closing theirs (pmodels/mpich pull request 6596 removed that
 *    wait). Here that read keeps the network going until there is something to read.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NEXT(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))

static void yield_if_idle(int events, int timeout)
{
    if (events == 0 && timeout == 0)
        sched_yield();
}

int epoll_wait(int fd, struct epoll_event *events, int maximum, int timeout)
{
    static __typeof__(&epoll_wait) next;
    if (!next)
        next = NEXT(epoll_wait);
    int ready = next(fd, events, maximum, timeout);
    yield_if_idle(ready, timeout);
    return ready;
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    static __typeof__(&poll) next;
    if (!next)
        next = NEXT(poll);
    int ready = next(fds, count, timeout);
    yield_if_idle(ready, timeout);
    return ready;
}

/* UCX, declared here as far as needed, so that its headers need not be installed. */
typedef struct ucp_worker *ucp_worker_h;
int ucp_worker_create(void *context, const void *parameters, ucp_worker_h *worker);
unsigned ucp_worker_progress(ucp_worker_h worker);
void *ucp_disconnect_nb(void *endpoint);
void ucp_worker_destroy(ucp_worker_h worker);

/* Python loads MPI, and UCX with it, where RTLD_NEXT does not look. */
static void *in_ucx(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name), *ucx;
    if (!found && (ucx = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD)))
        found = dlsym(ucx, name);
    if (!found)
        abort();
    return found;
}

#define IN_UCX(function) ((__typeof__(&function))in_ucx(#function))

static ucp_worker_h worker;
static int closing; /* from the first connection closed to the worker destroyed */

int ucp_worker_create(void *context, const void *parameters, ucp_worker_h *created)
{
    int status = IN_UCX(ucp_worker_create)(context, parameters, created);
    if (status == 0)
        worker = *created;
    return status;
}

void *ucp_disconnect_nb(void *endpoint)
{
    closing = worker != NULL;
    return IN_UCX(ucp_disconnect_nb)(endpoint);
}

void ucp_worker_destroy(ucp_worker_h destroyed)
{
    closing = 0;
    IN_UCX(ucp_worker_destroy)(destroyed);
}

ssize_t read(int fd, void *buffer, size_t size)
{
    static __typeof__(&read) next;
    if (!next)
        next = NEXT(read);
    const char *manager = getenv("PMI_FD");
    if (closing && manager && fd == atoi(manager)) {
        __typeof__(&ucp_worker_progress) progress = IN_UCX(ucp_worker_progress);
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        while (poll(&readable, 1, 0) == 0)
            progress(worker);
    }
    return next(fd, buffer, size);
}
