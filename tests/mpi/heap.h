/*
 * The heap of a program that has its own malloc, so that it sees what code of libcirculant asks for,
 * and can have that fail.
 */
#ifndef HEAP_H
#define HEAP_H

#include <stdbool.h>

/* Finds the library's code in the process; whether it is there. */
bool heap_watch(void);

/* Of the library's allocations from here on, the first `after` succeed, and the next `times` fail. */
void heap_fail(long after, long times);

/* The library's allocations since the last heap_fail, and those of them that failed. */
long heap_allocations(void);
long heap_failures(void);

#endif
