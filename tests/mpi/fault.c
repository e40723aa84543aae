/*
 * Faults in the way of circulant: a library that stands before the MPI library, where circulant
 * looks for that. It defines what circulant recognises the MPI library by, and passes on what it
 * does not define. The MPI library's own collectives do not come by here.
 *
 * On rank FAULT_RANK,
 *   FAULT_BYTES=n   the first message of n bytes or more that circulant sends has a wrong byte;
 *   FAULT_COPY=n    the first n bytes or more that circulant copies have a wrong byte;
 *   FAULT_SEND=n    messages of n bytes or more cannot be sent;
 *   FAULT_MEMORY=n  circulant gets no memory of exactly n bytes;
 *   FAULT_KILL=f    the process is killed in circulant's call FAULT_CALL (from 1 on) of the function f of MPI,
 *                   and says so;
 *   FAULT_STUCK=1   no send of circulant's ends on a revoked communicator.
 *
 * On all ranks, the process ends if circulant uses a request again that has ended with an error; with
 * FAULT_PRIVATE=1 also if circulant runs a collective operation on a communicator that it has made.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);

/* The number in a variable of the environment, or -1. */
static long long variable(const char *name) {
    const char *text = getenv(name);
    return text ? atoll(text) : -1;
}

static bool is_here(void) {
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    long long rank = variable(names[0]) < 0 ? variable(names[1]) : variable(names[0]);
    return rank >= 0 && rank == variable("FAULT_RANK");
}

static void *next(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

/* Called at the beginning of a function. */
static void count_call(const char *function) {
    static long long calls;
    const char *named = getenv("FAULT_KILL");
    if (named == NULL || strcmp(named, function) != 0 || !is_here() || ++calls != variable("FAULT_CALL")) {
        return;
    }
    fprintf(stderr, "fault: killed in call %lld of %s\n", calls, function);
    kill(getpid(), SIGKILL);
}

int PMPI_Get_library_version(char *version, int *length) {
    int (*real)(char *, int *) = next("PMPI_Get_library_version");
    return real(version, length);
}

/* Whether a message cannot be sent, as where the network is gone. */
static bool is_unsendable(int count, MPI_Datatype type) {
    int size;
    MPI_Type_size(type, &size);
    long long least = variable("FAULT_SEND");
    return least >= 0 && (long long)count * size >= least && is_here();
}

/* Makes a byte wrong. In numbers of eight bytes, sign and exponent are there. */
static void spoil(void *data, size_t bytes) {
    ((unsigned char *)data)[bytes / 2 | 7] ^= 0x55;
}

/* What is sent in place of a message: the same, or once a copy with a wrong byte. The copy is not freed. */
static const void *sent(const void *buffer, int count, MPI_Datatype type) {
    static bool is_over;
    int size;
    MPI_Type_size(type, &size);
    size_t bytes = (size_t)count * (size_t)size;
    long long least = variable("FAULT_BYTES");
    if (is_over || least < 16 || bytes < (size_t)least || !is_here()) {
        return buffer;
    }
    is_over = true;
    void *copy = malloc(bytes);
    memcpy(copy, buffer, bytes);
    spoil(copy, bytes);
    return copy;
}

enum { REMEMBERED = 1024 };
struct requests {
    MPI_Request of[REMEMBERED];
    int next;
};
/* Requests that have ended with an error: their memory is the MPI library's again. And sends. */
static struct requests ended, sends;
/* The communicator of the last transfer. */
static MPI_Comm last;

static void remember(struct requests *set, MPI_Request request) {
    set->of[set->next++ % REMEMBERED] = request;
}

static void forget(struct requests *set, MPI_Request request) {
    for (int i = 0; i < REMEMBERED; i++) {
        if (set->of[i] == request) {
            set->of[i] = 0;
        }
    }
}

static bool is_among(const struct requests *set, MPI_Request request) {
    for (int i = 0; i < REMEMBERED; i++) {
        if (request != 0 && request != MPI_REQUEST_NULL && set->of[i] == request) {
            return true;
        }
    }
    return false;
}

/* A transfer was started, perhaps in the place of one that has ended. */
static int started(int code, MPI_Request request, MPI_Comm comm, bool is_send) {
    if (code == MPI_SUCCESS) {
        last = comm;
        forget(&ended, request);
        forget(&sends, request);
    }
    if (code == MPI_SUCCESS && is_send) {
        remember(&sends, request);
    }
    return code;
}

static void expect_not_ended(MPI_Request request, const char *function) {
    if (is_among(&ended, request)) {
        fprintf(stderr, "fault: %s of a request that has ended\n", function);
        abort();
    }
}

/* What a function has made of a request. */
static void compare(int code, MPI_Request before, MPI_Request after) {
    if (code != MPI_SUCCESS && before != after) {
        remember(&ended, before);
    }
}

static bool is_stuck(MPI_Request request) {
    int (*is_revoked)(MPI_Comm, int *) = next("PMPIX_Comm_is_revoked");
    int flag = 0;
    return variable("FAULT_STUCK") > 0 && is_here() && is_among(&sends, request) &&
           is_revoked(last, &flag) == MPI_SUCCESS && flag;
}

int PMPI_Waitany(int requests, MPI_Request request[], int *index, MPI_Status *status) {
    int (*real)(int, MPI_Request[], int *, MPI_Status *) = next("PMPI_Waitany");
    MPI_Request before[requests + 1];
    count_call("PMPI_Waitany");
    for (int i = 0; i < requests; i++) {
        expect_not_ended(request[i], "PMPI_Waitany");
        before[i] = request[i];
    }
    int code = real(requests, request, index, status);
    for (int i = 0; i < requests; i++) {
        compare(code, before[i], request[i]);
    }
    return code;
}

int PMPI_Wait(MPI_Request *request, MPI_Status *status) {
    int (*real)(MPI_Request *, MPI_Status *) = next("PMPI_Wait");
    MPI_Request before = *request;
    expect_not_ended(before, "PMPI_Wait");
    int code = real(request, status);
    compare(code, before, *request);
    return code;
}

int PMPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    int (*real)(MPI_Request *, int *, MPI_Status *) = next("PMPI_Test");
    MPI_Request before = *request;
    expect_not_ended(before, "PMPI_Test");
    if (is_stuck(before)) {
        static bool is_said;
        if (!is_said) {
            fprintf(stderr, "fault: a send does not end\n");
        }
        is_said = true;
        *flag = 0;
        return MPI_SUCCESS;
    }
    int code = real(request, flag, status);
    compare(code, before, *request);
    return code;
}

int PMPI_Cancel(MPI_Request *request) {
    int (*real)(MPI_Request *) = next("PMPI_Cancel");
    expect_not_ended(*request, "PMPI_Cancel");
    return real(request);
}

int PMPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    int (*real)(const void *, int, MPI_Datatype, int, int, MPI_Comm) = next("PMPI_Send");
    count_call("PMPI_Send");
    if (is_unsendable(count, type)) {
        return MPI_ERR_OTHER;
    }
    return real(sent(buffer, count, type), count, type, to, tag, comm);
}

int PMPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request) {
    int (*real)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) =
        next("PMPI_Isend");
    count_call("PMPI_Isend");
    if (is_unsendable(count, type)) {
        return MPI_ERR_OTHER;
    }
    int code = real(sent(buffer, count, type), count, type, to, tag, comm, request);
    return started(code, *request, comm, true);
}

int PMPI_Issend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                MPI_Request *request) {
    int (*real)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) =
        next("PMPI_Issend");
    count_call("PMPI_Issend");
    if (is_unsendable(count, type)) {
        return MPI_ERR_OTHER;
    }
    int code = real(sent(buffer, count, type), count, type, to, tag, comm, request);
    return started(code, *request, comm, true);
}

/* Functions that are only counted. */
#define PASS(function, parameters, arguments)                                                                \
    int function parameters {                                                                                \
        int(*real) parameters = next(#function);                                                             \
        count_call(#function);                                                                               \
        return real arguments;                                                                               \
    }

/* Communicators of circulant's own. */
static MPI_Comm private[64];
static int privates;

int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *made) {
    int (*real)(MPI_Comm, MPI_Group, MPI_Comm *) = next("PMPI_Comm_create");
    count_call("PMPI_Comm_create");
    int code = real(comm, group, made);
    if (code == MPI_SUCCESS) {
        private[privates++ % 64] = *made;
    }
    if (code == MPI_SUCCESS && variable("FAULT_PRIVATE") > 0) {
        fprintf(stderr, "fault: a communicator of circulant's own\n");
    }
    return code;
}

static void expect_not_private(MPI_Comm comm, const char *function) {
    for (int i = 0; i < privates && i < 64; i++) {
        if (variable("FAULT_PRIVATE") > 0 && private[i] == comm) {
            fprintf(stderr, "fault: %s on a communicator of circulant's own\n", function);
            abort();
        }
    }
}

/* Collective operations, which are counted. */
#define COLLECTIVE(function, parameters, arguments)                                                          \
    int function parameters {                                                                                \
        int(*real) parameters = next(#function);                                                             \
        count_call(#function);                                                                               \
        expect_not_private(comm, #function);                                                                 \
        return real arguments;                                                                               \
    }

COLLECTIVE(PMPI_Allreduce,
           (const void *send, void *receive, int elements, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (send, receive, elements, type, op, comm))

COLLECTIVE(PMPI_Bcast, (void *buffer, int elements, MPI_Datatype type, int root, MPI_Comm comm),
           (buffer, elements, type, root, comm))

COLLECTIVE(PMPI_Allgather,
           (const void *send, int send_count, MPI_Datatype send_type, void *receive, int receive_count,
            MPI_Datatype receive_type, MPI_Comm comm),
           (send, send_count, send_type, receive, receive_count, receive_type, comm))

COLLECTIVE(PMPI_Allgatherv,
           (const void *send, int send_count, MPI_Datatype send_type, void *receive, const int counts[],
            const int displacements[], MPI_Datatype receive_type, MPI_Comm comm),
           (send, send_count, send_type, receive, counts, displacements, receive_type, comm))

COLLECTIVE(PMPI_Reduce,
           (const void *send, void *receive, int elements, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
           (send, receive, elements, type, op, root, comm))

COLLECTIVE(PMPI_Barrier, (MPI_Comm comm), (comm))

PASS(PMPI_Sendrecv,
     (const void *send, int send_count, MPI_Datatype send_type, int to, int send_tag, void *receive,
      int receive_count, MPI_Datatype receive_type, int from, int receive_tag, MPI_Comm comm, MPI_Status *status),
     (send, send_count, send_type, to, send_tag, receive, receive_count, receive_type, from, receive_tag, comm, status))

PASS(PMPI_Recv, (void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status),
     (buffer, count, type, from, tag, comm, status))

int PMPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
    int (*real)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = next("PMPI_Irecv");
    count_call("PMPI_Irecv");
    int code = real(buffer, count, type, from, tag, comm, request);
    return started(code, *request, comm, false);
}

/* Whether this address is circulant's. Finding that out may ask for memory. */
static bool is_of_circulant(const void *address) {
    static _Thread_local bool is_asking;
    Dl_info info = {0};
    if (is_asking) {
        return false;
    }
    is_asking = true;
    dladdr(address, &info);
    is_asking = false;
    return info.dli_fname && strstr(info.dli_fname, "libcirculant");
}

void *malloc(size_t bytes) {
    bool is_that = (long long)bytes == variable("FAULT_MEMORY") && is_here();
    return is_that && is_of_circulant(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

/* A copy was made: the first large one of circulant's gets a wrong byte. */
static void *copied(void *to, size_t bytes, const void *caller) {
    static bool is_over;
    long long least = variable("FAULT_COPY");
    if (!is_over && least >= 16 && bytes >= (size_t)least && is_here() && is_of_circulant(caller)) {
        is_over = true;
        spoil(to, bytes);
    }
    return to;
}

void *memcpy(void *to, const void *from, size_t bytes) {
    mempcpy(to, from, bytes);
    return copied(to, bytes, __builtin_return_address(0));
}

void *memmove(void *to, const void *from, size_t bytes) {
    static void *(*real)(void *, const void *, size_t);
    if (real == NULL) {
        real = next("memmove");
    }
    real(to, from, bytes);
    return copied(to, bytes, __builtin_return_address(0));
}

/*
 * To circulant, an MPI_X of another library than that of the MPI is a tool's, which it would call:
 * so these are here, too.
 */
int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    return PMPI_Bcast(buffer, count, type, root, comm);
}

int MPI_Reduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
    return PMPI_Reduce(send, receive, count, type, op, root, comm);
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                  int receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
    return PMPI_Allgather(send, send_count, send_type, receive, receive_count, receive_type, comm);
}

int MPI_Allgatherv(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                   const int counts[], const int displacements[], MPI_Datatype receive_type,
                   MPI_Comm comm) {
    return PMPI_Allgatherv(send, send_count, send_type, receive, counts, displacements,
                           receive_type, comm);
}

int MPI_Reduce_scatter_block(const void *send, void *receive, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm) {
    return PMPI_Reduce_scatter_block(send, receive, count, type, op, comm);
}

int MPI_Reduce_scatter(const void *send, void *receive, const int counts[], MPI_Datatype type,
                       MPI_Op op, MPI_Comm comm) {
    return PMPI_Reduce_scatter(send, receive, counts, type, op, comm);
}

int MPI_Allreduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
    return PMPI_Allreduce(send, receive, count, type, op, comm);
}

int MPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                 int receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
    return PMPI_Alltoall(send, send_count, send_type, receive, receive_count, receive_type, comm);
}

int MPI_Gather(const void *send, int send_count, MPI_Datatype send_type, void *receive,
               int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm) {
    return PMPI_Gather(send, send_count, send_type, receive, receive_count, receive_type, root,
                       comm);
}

int MPI_Scatter(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm) {
    return PMPI_Scatter(send, send_count, send_type, receive, receive_count, receive_type, root,
                        comm);
}

int MPIX_Comm_revoke(MPI_Comm comm) {
    int (*real)(MPI_Comm) = next("PMPIX_Comm_revoke");
    return real(comm);
}
