/* What the programs that measure have in common: how they end when something is wrong. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <errno.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* In MPI_COMM_WORLD. */
static int rank;

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: rank %d: ", program_invocation_short_name, rank);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void *allocate(size_t size)
{
    void *memory = calloc(size ? size : 1, 1);
    if (!memory)
        fail("no memory for %zu bytes", size);
    return memory;
}

#endif
