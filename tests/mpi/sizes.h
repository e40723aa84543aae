/* The sizes, counts and roots that the programs share. */
#ifndef SIZES_H
#define SIZES_H

#include <stdlib.h>

#include "check.h"

/* Bytes around the bounds of small blocks, cache lines, pages and eager limits. */
static const MPI_Count sizes[] = {0,    1,    2,     3,     4,     5,    7,    8,    9,
                                  15,   16,   17,    31,    33,    63,   64,   65,   127,
                                  129,  1000, 1023,  1024,  1025,  4095, 4096, 4097, 8191,
                                  8192, 8193, 32768, 65535, 65536, 65537};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static const MPI_Count LARGE_SIZES[] = {262144, 1000003, 4194301};

/* Whether every case is run: of few processes; of more where EVERY_CASE is set, as with --all. */
static inline bool is_whole(void) {
    return world_size <= (getenv("EVERY_CASE") ? 8 : 3);
}

/* Fewer of the large ones where many processes share the machine. */
static inline int large_sizes(void) {
    return is_whole() ? 3 : world_size <= 16 ? 2 : 1;
}

/*
 * Whether the next case is run: every one, or one of three, drawn.
 * To be asked equally often on all ranks.
 */
static inline bool is_chosen(void) {
    static uint64_t asked;
    return is_whole() || mix(asked++, 0, 0, 5) % 3 == 0;
}

/* Of items of derived types. */
static const MPI_Count item_counts[] = {0, 1, 2, 3, 17, 1001};
enum { ITEM_COUNTS = sizeof item_counts / sizeof item_counts[0] };

/* Every root, or two a case, different ones from case to case. */
static inline int roots(void) {
    return is_whole() ? world_size : 2;
}

static inline int root_of(int turn) {
    return is_whole() ? turn % world_size
                           : (int)((uint64_t)turn * 7 + check_iteration() * 3) % world_size;
}

#endif
