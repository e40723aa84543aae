/*
 * The harness of the self-checking MPI programs: data that tells every rank, position and call
 * apart, failures with a readable message, and one line at the end by which a run can be compared
 * with another.
 *
 * Every program computes the expected result serially, from the same functions that made the
 * input. It never compares one collective with another: both could be wrong, or both be ours.
 */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of MPI_COMM_WORLD, valid after check_begin. */
extern int world_rank, world_size;

/* For a program that starts MPI in its own way. */
void check_ranks(const char *program, int rank, int size);

/* Starts MPI at the thread level wanted (MPI_THREAD_SINGLE: through MPI_Init), and the checks. */
void check_begin(int *argc, char ***argv, const char *program, int thread_level);

/*
 * Prints on rank 0 the number of checks and the digest of everything checked, over all ranks, and
 * the calls counted by calls.c; over a communicator of all ranks. Returns the exit status.
 */
int check_summary(MPI_Comm comm);

/* check_summary over MPI_COMM_WORLD, and the end of MPI. */
int check_end(void);

/* Names the case under way, for the messages. Every case has its own data. */
__attribute__((format(printf, 1, 2))) void check_case(const char *format, ...);

/*
 * Distinguishes groups of ranks that do the same thing at the same time: from here on, this rank's
 * data (and its check_iteration) are those of group `color`.
 */
void check_color(int color);

/* Distinguishes the case and group under way; the same on every rank of the group. */
uint64_t check_iteration(void);

/* Counts a check; when it does not hold, prints the case and the message and marks the run failed.
 */
__attribute__((format(printf, 2, 3))) void check(bool holds, const char *format, ...);

/* How many checks of this thread did not hold. */
uint64_t check_failures(void);

/* check() of an MPI return code. */
void check_success(int code, const char *call);

/* Adds bytes that this rank has checked to the digest. */
void check_digest(const void *bytes, size_t length);

/*
 * The state of the checks is per thread, so that several threads may check at once. A thread other
 * than the main one begins with its own number, and hands its state to the main thread's when it
 * ends.
 */
void check_thread_begin(int number);
void check_thread_end(void);

/* A value that depends on all four arguments. */
uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

/*
 * `length` bytes of reproducible data for rank `rank` in the current case. The caller frees
 * them.
 */
unsigned char *stream(int rank, size_t length);

/* malloc that ends the job when there is no memory; never NULL, not even for 0 bytes. */
void *allocate(size_t bytes);

#endif
