/*
 * Shortest paths between all pairs of vertices of a graph (Floyd and Warshall), by successive broadcasts.
 *
 *   mpicc -O2 floyd_warshall.c -lcirculant -lm -o floyd_warshall
 *   mpirun -n 4 ./floyd_warshall data/karate.mtx
 *
 * The file is a square matrix in Matrix Market's coordinate format; an entry is the length of an edge, or 1
 * where the file has the pattern only. Row k of the matrix of distances lives on the owner of step k. In step
 * k that row, which is final then, goes to all, and each process improves its own rows by paths through k.
 * Prints the longest and the mean distance, and compares with a serial run.
 */
#include <circulant.h>
#include <ctype.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct graph {
    int vertices, rows;
    double **row; /* the rows of this process, by vertex; those of others are NULL */
};

static void fail(const char *what, const char *file) {
    fprintf(stderr, "floyd_warshall: %s: %s\n", file, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double *allocate(int count) {
    double *memory = malloc(sizeof(double) * (size_t)(count > 0 ? count : 1));
    if (memory == NULL) {
        fail("no memory for it", "the graph");
    }
    return memory;
}

/* All distances of paths of at most one edge, as a full matrix. */
static double *read_matrix(const char *name, int *vertices) {
    char line[1024];
    FILE *file = fopen(name, "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        fail("cannot be read", name);
    }
    for (char *c = line; *c != '\0'; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    int pattern = strstr(line, "pattern") != NULL, symmetric = strstr(line, "symmetric") != NULL;
    if (strstr(line, "%%matrixmarket matrix coordinate") != line || strstr(line, "complex") != NULL) {
        fail("not a real coordinate matrix in Matrix Market's format", name);
    }
    do {
        if (fgets(line, sizeof line, file) == NULL) {
            fail("there are no sizes", name);
        }
    } while (line[0] == '%');
    int rows, columns;
    long entries;
    if (sscanf(line, "%d %d %ld", &rows, &columns, &entries) != 3 || rows != columns || rows < 1 || rows > 46340) {
        fail("not a square matrix, or too large", name);
    }
    double *distance = allocate(rows * rows);
    for (long i = 0; i < (long)rows * rows; i++) {
        distance[i] = i % (rows + 1) == 0 ? 0 : INFINITY;
    }
    for (long entry = 0; entry < entries; entry++) {
        int row, column;
        double length = 1;
        if (fscanf(file, "%d %d", &row, &column) != 2 || (!pattern && fscanf(file, "%lf", &length) != 1) || row < 1 ||
            row > rows || column < 1 || column > rows || length < 0) {
            fail("an entry is wrong, or negative", name);
        }
        double *there = &distance[(long)(row - 1) * rows + column - 1];
        double *back = &distance[(long)(column - 1) * rows + row - 1];
        *there = fmin(*there, length);
        if (symmetric) {
            *back = fmin(*back, length);
        }
    }
    fclose(file);
    *vertices = rows;
    return distance;
}

/* Paths of `row` through vertex k, whose own row is `through`. */
static void improve(double *row, int k, const double *through, int vertices) {
    for (int j = 0; j < vertices; j++) {
        row[j] = fmin(row[j], row[k] + through[j]);
    }
}

static int produce(int k, void *buffer, void *context) {
    const struct graph *graph = context;
    memcpy(buffer, graph->row[k], sizeof(double) * (size_t)graph->vertices);
    return MPI_SUCCESS;
}

static int store(int k, void *buffer, void *context) {
    struct graph *graph = context;
    for (int i = 0; i < graph->vertices; i++) {
        if (graph->row[i] != NULL) {
            improve(graph->row[i], k, buffer, graph->vertices);
        }
    }
    return MPI_SUCCESS;
}

/* Whether the rows of this process are what a serial run gives. */
static int agrees(const struct graph *graph, double *serial) {
    int n = graph->vertices;
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < n; i++) {
            improve(&serial[(long)i * n], k, &serial[(long)k * n], n);
        }
    }
    for (int i = 0; i < n; i++) {
        if (graph->row[i] != NULL && memcmp(graph->row[i], &serial[(long)i * n], sizeof(double) * (size_t)n) != 0) {
            return 0;
        }
    }
    return 1;
}

/* The longest distance, the sum of all, and how many there are between different vertices. */
static void measure(const struct graph *graph, double *longest, double sums[2]) {
    *longest = sums[0] = sums[1] = 0;
    for (int i = 0; i < graph->vertices; i++) {
        for (int j = 0; graph->row[i] != NULL && j < graph->vertices; j++) {
            if (i != j && isfinite(graph->row[i][j])) {
                *longest = fmax(*longest, graph->row[i][j]);
                sums[0] += graph->row[i][j];
                sums[1] += 1;
            }
        }
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm comm = MPI_COMM_WORLD;
    int rank;
    MPI_Comm_rank(comm, &rank);
    if (argc != 2) {
        fail("usage: floyd_warshall FILE", "arguments");
    }
    struct graph graph = {0};
    double *matrix = read_matrix(argv[1], &graph.vertices);
    int n = graph.vertices;
    graph.row = calloc((size_t)n, sizeof(double *));
    if (graph.row == NULL) {
        fail("no memory for it", "the graph");
    }
    for (int k = 0; k < n; k++) {
        if (circulant_successive_owner(comm, k) == rank) {
            graph.row[k] = allocate(n);
            memcpy(graph.row[k], &matrix[(long)k * n], sizeof(double) * (size_t)n);
        }
    }
    double start = MPI_Wtime();
    int code = circulant_successive_bcast(n, n, MPI_DOUBLE, produce, store, &graph, comm);
    double seconds = MPI_Wtime() - start;
    if (code != MPI_SUCCESS) {
        fail("the broadcasts failed", argv[1]);
    }
    double longest, sums[2];
    int same = agrees(&graph, matrix), all_same;
    measure(&graph, &longest, sums);
    MPI_Allreduce(&same, &all_same, 1, MPI_INT, MPI_LAND, comm);
    MPI_Allreduce(MPI_IN_PLACE, &longest, 1, MPI_DOUBLE, MPI_MAX, comm);
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, comm);
    if (rank == 0) {
        printf("%d vertices, longest distance %g, mean %.4f\n", n, longest, sums[0] / sums[1]);
        printf("%s a serial run\n", all_same ? "as" : "NOT as");
        fprintf(stderr, "%.6f s\n", seconds);
    }
    for (int k = 0; k < n; k++) {
        free(graph.row[k]);
    }
    free(graph.row);
    free(matrix);
    MPI_Finalize();
    return !all_same;
}
