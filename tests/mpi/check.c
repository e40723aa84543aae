#include "check.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

enum { MESSAGES = 5, LABEL = 256, SUMMARY_TAG = 4711 };

struct state {
    uint64_t iteration;
    uint64_t color;
    uint64_t digest;
    uint64_t checks;
    uint64_t failures;
    char label[LABEL];
};

int world_rank, world_size;

static const char *program_name;
static _Thread_local struct state state;

/* What other threads handed in: their digests are added, for threads end in any order. */
static struct state others;
static pthread_mutex_t others_lock = PTHREAD_MUTEX_INITIALIZER;

void check_ranks(const char *program, int rank, int size) {
    program_name = program;
    world_rank = rank;
    world_size = size;
}

void check_begin(int *argc, char ***argv, const char *program, int thread_level) {
    int provided = MPI_THREAD_SINGLE;
    if (thread_level == MPI_THREAD_SINGLE) {
        MPI_Init(argc, argv);
    } else {
        MPI_Init_thread(argc, argv, thread_level, &provided);
    }
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_ranks(program, rank, size);
    check(provided >= thread_level, "thread level %d wanted, %d provided", thread_level, provided);
}

void check_case(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(state.label, LABEL, format, arguments);
    va_end(arguments);
    state.iteration++;
}

void check_color(int color) {
    state.color = (uint64_t)color;
}

uint64_t check_iteration(void) {
    return state.iteration ^ state.color << 48;
}

void check(bool holds, const char *format, ...) {
    state.checks++;
    if (holds) {
        return;
    }
    if (state.failures++ < MESSAGES) {
        char message[512];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(message, sizeof message, format, arguments);
        va_end(arguments);
        fprintf(stderr, "%s: rank %d of %d: %s: %s\n", program_name, world_rank, world_size,
                state.label, message);
    }
}

uint64_t check_failures(void) {
    return state.failures;
}

void check_success(int code, const char *call) {
    if (code == MPI_SUCCESS) {
        state.checks++;
        return;
    }
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    check(false, "%s returned %d: %s", call, code, text);
}

/* One step of a multiplicative hash; the odd constant is that of splitmix64. */
static uint64_t step(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return step(step(step(step(0x2545f4914f6cdd1du, a), b), c), d);
}

void check_digest(const void *bytes, size_t length) {
    const unsigned char *next = bytes;
    for (; length >= sizeof(uint64_t); next += sizeof(uint64_t), length -= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, next, sizeof word);
        state.digest = step(state.digest, word);
    }
    for (; length > 0; next++, length--) {
        state.digest = step(state.digest, *next);
    }
}

unsigned char *stream(int rank, size_t length) {
    unsigned char *bytes = allocate(length);
    for (size_t i = 0; i < length; i += sizeof(uint64_t)) {
        uint64_t word = mix(check_iteration(), (uint64_t)rank, i, 1);
        size_t left = length - i;
        memcpy(bytes + i, &word, left < sizeof word ? left : sizeof word);
    }
    return bytes;
}

void *allocate(size_t bytes) {
    void *memory = malloc(bytes == 0 ? 1 : bytes);
    if (memory == NULL) {
        fprintf(stderr, "%s: rank %d: no memory for %zu bytes\n", program_name, world_rank, bytes);
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
    return memory;
}

void check_thread_begin(int number) {
    memset(&state, 0, sizeof state);
    state.iteration = (uint64_t)number << 32;
}

void check_thread_end(void) {
    pthread_mutex_lock(&others_lock);
    others.digest += state.digest;
    others.checks += state.checks;
    others.failures += state.failures;
    pthread_mutex_unlock(&others_lock);
}

/* Point to point, so that the summary does not rest on the collectives that are tested. */
int check_summary(MPI_Comm comm) {
    state.digest += others.digest;
    state.checks += others.checks;
    state.failures += others.failures;
    uint64_t mine[3] = {state.digest, state.checks, state.failures};
    if (world_rank != 0) {
        MPI_Send(mine, 3, MPI_UINT64_T, 0, SUMMARY_TAG, comm);
    } else {
        for (int rank = 1; rank < world_size; rank++) {
            uint64_t theirs[3];
            MPI_Recv(theirs, 3, MPI_UINT64_T, rank, SUMMARY_TAG, comm, MPI_STATUS_IGNORE);
            mine[0] = step(mine[0], theirs[0]);
            mine[1] += theirs[1];
            mine[2] += theirs[2];
        }
        printf("%s processes=%d checks=%llu failures=%llu digest=%016llx\n", program_name,
               world_size, (unsigned long long)mine[1], (unsigned long long)mine[2],
               (unsigned long long)mine[0]);
        calls_print();
        fflush(stdout);
    }
    return state.failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int check_end(void) {
    int status = check_summary(MPI_COMM_WORLD);
    MPI_Finalize();
    return status;
}
