/*
 * Merges log files by time: prints the lines of all files in the order of their time stamps.
 *
 *   mpicc -O2 merge_logs.c -lcirculant -o merge_logs
 *   mpirun -n 4 ./merge_logs server1.log server2.log ...
 *
 * A line begins with its time, as a word whose order as text is its order in time (such as ISO 8601 in one
 * zone). Each file is in order. Lines with the same time keep the order of the files, and within a file their
 * own, on any number of processes: the merge is stable.
 *
 * Each process reads some of the files, those that follow each other; circulant_allgather_merge merges what
 * the processes have.
 */
#include <circulant.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 256 }; /* bytes of a line, with the end of the string */

struct lines {
    char (*line)[LINE];
    int count, room;
};

static void fail(const char *what, const char *name) {
    fprintf(stderr, "merge_logs: %s: %s\n", name, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void make_room(struct lines *of, int room) {
    if (room > of->room) {
        of->room = room > 2 * of->room ? room : 2 * of->room;
        of->line = realloc(of->line, (size_t)of->room * LINE);
        if (of->line == NULL) {
            fail("no memory for so many lines", "lines");
        }
    }
}

/* By the first word. What circulant calls. */
static int compare_times(const void *a, const void *b, void *context) {
    const char *x = a, *y = b;
    size_t length_x = strcspn(x, " \t"), length_y = strcspn(y, " \t");
    int order = memcmp(x, y, length_x < length_y ? length_x : length_y);
    (void)context;
    return order != 0 ? order : (length_x > length_y) - (length_x < length_y);
}

static void read_file(const char *name, struct lines *to) {
    FILE *file = fopen(name, "r");
    char line[LINE + 1];
    if (file == NULL) {
        fail("cannot be read", name);
    }
    while (fgets(line, sizeof line, file) != NULL) {
        size_t length = strcspn(line, "\n");
        if (length >= LINE) {
            fail("a line is too long", name);
        }
        make_room(to, to->count + 1);
        memset(to->line[to->count], 0, LINE);
        memcpy(to->line[to->count++], line, length);
    }
    fclose(file);
}

/* Puts the lines from `middle` on where they belong among those before, by binary search from the back. */
static void merge_own(struct lines *of, int middle) {
    char line[LINE];
    for (int i = middle, least = 0; i < of->count; i++) {
        int low = least, high = i;
        while (low < high) {
            int probe = (low + high) / 2;
            if (compare_times(of->line[probe], of->line[i], NULL) <= 0) {
                low = probe + 1;
            } else {
                high = probe;
            }
        }
        memcpy(line, of->line[i], LINE);
        memmove(of->line[low + 1], of->line[low], (size_t)(i - low) * LINE);
        memcpy(of->line[low], line, LINE);
        least = low;
    }
}

int main(int argc, char **argv) {
    int rank, size, total, code;
    struct lines own = {NULL, 0, 0}, all = {NULL, 0, 0};
    MPI_Datatype line;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int files = argc - 1, first = (int)((long)files * rank / size), end = (int)((long)files * (rank + 1) / size);
    for (int i = first; i < end; i++) {
        int before = own.count;
        read_file(argv[1 + i], &own);
        merge_own(&own, before);
    }
    MPI_Type_contiguous(LINE, MPI_CHAR, &line);
    MPI_Type_commit(&line);
    MPI_Allreduce(&own.count, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    make_room(&all, total);
    code = circulant_allgather_merge(own.line, own.count, all.line, total, &all.count, line, compare_times, NULL,
                                     MPI_COMM_WORLD);
    if (code != MPI_SUCCESS) {
        fail("cannot be merged", "lines");
    }
    for (int i = 0; rank == 0 && i < all.count; i++) {
        puts(all.line[i]);
    }
    MPI_Type_free(&line);
    free(own.line);
    free(all.line);
    MPI_Finalize();
    return 0;
}
