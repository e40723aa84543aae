/*
 * Reductions whose result depends on the order in which operands are combined, on numbers of all
 * floating-point types. Results are near the serial ones; their digest tells orders apart.
 */
#include <complex.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { ELEMENTS = 3000 };

static double drawn(int rank, int index) {
    uint64_t h = mix(check_iteration(), (uint64_t)rank, (uint64_t)index, 3);
    return ((double)(h >> 11) / 9007199254740992.0 - 0.5) * (double)(1 << h % 16);
}

typedef double complex dcomplex;
typedef float complex fcomplex;
typedef long double ldouble;

static double size_of(dcomplex number) {
    double real = creal(number), imaginary = cimag(number);
    return (real < 0 ? -real : real) + (imaginary < 0 ? -imaginary : imaginary);
}

/*
 * All elements of each rank, reduced by each operation, also in place. `apart` is how far from the
 * serial sum a sum of the C type T may be.
 */
#define REDUCE_ALL(name, T, TYPE, apart)                                                           \
    static void name(MPI_Op op, const char *op_name) {                                             \
        int all = ELEMENTS * world_size;                                                           \
        T *input = allocate(sizeof(T) * (size_t)all), *result = allocate(sizeof(T) * (size_t)all); \
        T *again = allocate(sizeof(T) * (size_t)all);                                              \
        int *counts = allocate(sizeof(int) * (size_t)world_size);                                  \
        memset(result, 0, sizeof(T) * (size_t)all);                                                \
        check_case(#name " %s", op_name);                                                          \
        for (int i = 0; i < all; i++) {                                                            \
            input[i] = (T)drawn(world_rank, i);                                                    \
        }                                                                                          \
        for (int rank = 0; rank < world_size; rank++) {                                            \
            counts[rank] = ELEMENTS;                                                               \
        }                                                                                          \
        MPI_Allreduce(input, result, all, TYPE, op, MPI_COMM_WORLD);                               \
        for (int i = 0; op == MPI_SUM && i < all; i++) {                                           \
            T sum = 0;                                                                             \
            for (int rank = 0; rank < world_size; rank++) {                                        \
                sum += (T)drawn(rank, i);                                                          \
            }                                                                                      \
            check(size_of((dcomplex)(sum - result[i])) < (apart), #name ": element %d", i);        \
        }                                                                                          \
        memcpy(again, input, sizeof(T) * (size_t)all);                                             \
        MPI_Allreduce(MPI_IN_PLACE, again, all, TYPE, op, MPI_COMM_WORLD);                         \
        digest(result, all, sizeof(T), VALUE_BYTES(T));                                            \
        digest(again, all, sizeof(T), VALUE_BYTES(T));                                             \
        MPI_Reduce_scatter(input, result, counts, TYPE, op, MPI_COMM_WORLD);                       \
        memcpy(again, input, sizeof(T) * (size_t)all);                                             \
        MPI_Reduce_scatter_block(MPI_IN_PLACE, again, ELEMENTS, TYPE, op, MPI_COMM_WORLD);         \
        digest(result, ELEMENTS, sizeof(T), VALUE_BYTES(T));                                       \
        digest(again, ELEMENTS, sizeof(T), VALUE_BYTES(T));                                        \
        int root = world_size - 1;                                                                 \
        bool is_root = world_rank == root;                                                         \
        MPI_Reduce(input, result, all, TYPE, op, root, MPI_COMM_WORLD);                            \
        memcpy(again, input, sizeof(T) * (size_t)all);                                             \
        MPI_Reduce(is_root ? MPI_IN_PLACE : input, again, all, TYPE, op, root, MPI_COMM_WORLD);    \
        digest(result, is_root ? all : 0, sizeof(T), VALUE_BYTES(T));                              \
        digest(again, is_root ? all : 0, sizeof(T), VALUE_BYTES(T));                               \
        free(input);                                                                               \
        free(result);                                                                              \
        free(again);                                                                               \
        free(counts);                                                                              \
    }

/* Bytes of an element that are not padding. */
#define VALUE_BYTES(T) (_Generic((T)0, ldouble: 10, default: sizeof(T)))

static void digest(const void *elements, int count, size_t size, size_t value_bytes) {
    for (int i = 0; i < count; i++) {
        check_digest((const char *)elements + (size_t)i * size, value_bytes);
    }
}

REDUCE_ALL(singles, float, MPI_FLOAT, 1)
REDUCE_ALL(doubles, double, MPI_DOUBLE, 1e-9)
REDUCE_ALL(long_doubles, ldouble, MPI_LONG_DOUBLE, 1e-9)
REDUCE_ALL(complex_singles, fcomplex, MPI_C_FLOAT_COMPLEX, 1)
REDUCE_ALL(complex_doubles, dcomplex, MPI_C_DOUBLE_COMPLEX, 1e-9)

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "rounding", MPI_THREAD_SINGLE);
    const char *names[] = {"sum", "product", "largest"};
    MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX};
    for (int i = 0; i < 3; i++) {
        singles(ops[i], names[i]);
        doubles(ops[i], names[i]);
        long_doubles(ops[i], names[i]);
        if (ops[i] != MPI_MAX) {
            complex_singles(ops[i], names[i]);
            complex_doubles(ops[i], names[i]);
        }
    }
    return check_end();
}
