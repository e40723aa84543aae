#include "reduction.h"

#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/*
 * A value and a combination on elements of the C type T. VALUE sees h (a hash of everything), rank,
 * size and index; COMBINE sees a (left) and b (right).
 */
#define REDUCTION(id, T, VALUE, COMBINE)                                                           \
    static void value_##id(void *item, int rank, int size, MPI_Count index) {                      \
        uint64_t h = mix(check_iteration(), (uint64_t)rank, (uint64_t)index, 2);                   \
        (void)h, (void)size;                                                                       \
        T v = VALUE;                                                                               \
        memcpy(item, &v, sizeof v);                                                                \
    }                                                                                              \
    static void combine_##id(const void *left, void *right) {                                      \
        T a, b;                                                                                    \
        memcpy(&a, left, sizeof a);                                                                \
        memcpy(&b, right, sizeof b);                                                               \
        b = COMBINE;                                                                               \
        memcpy(right, &b, sizeof b);                                                               \
    }                                                                                              \
    static const struct functions id = {value_##id, combine_##id};

/* Small enough for exact sums over any number of processes in every type. */
#define SMALL ((int)(h % 2001) - 1000)
/* One rank, depending on the index, has a factor of its own; the others have signs. */
#define FACTOR (index % size == rank ? 2 + (int)(index % 2) : h % 2 ? 1 : -1)
/* False on few ranks, and true on few ranks: so that conjunctions and disjunctions vary. */
#define RARELY_FALSE (h % (2 * (uint64_t)size) ? (int)(h % 1000) + 1 : 0)
#define RARELY_TRUE (h % (2 * (uint64_t)size) ? 0 : (int)(h >> 32) | 1)
#define GAUSSIAN ((double)(h % 2 ? 1 : -1) * (2 + I))

typedef unsigned char uchar;
typedef long long llong;
typedef float complex fcomplex;
typedef double complex dcomplex;

REDUCTION(int_sum, int, SMALL, a + b)
REDUCTION(int_prod, int, FACTOR, a *b)
REDUCTION(int_max, int, (int)h, a > b ? a : b)
REDUCTION(int_min, int, (int)h, a < b ? a : b)
REDUCTION(int_land, int, RARELY_FALSE, a &&b)
REDUCTION(int_lor, int, RARELY_TRUE, a || b)
REDUCTION(int_lxor, int, h % 3 ? (int)(h >> 33) : 0, !a != !b)
REDUCTION(uchar_sum, uchar, (uchar)(h % 7), (uchar)(a + b))
REDUCTION(uchar_prod, uchar, (uchar)(h | 1), (uchar)(a * b))
REDUCTION(uchar_band, uchar, (uchar)(h | (h >> 8) | (h >> 16)), a &b)
REDUCTION(byte_bxor, uchar, (uchar)h, a ^ b)
REDUCTION(short_max, short, (short)h, a > b ? a : b)
REDUCTION(float_sum, float, SMALL, a + b)
REDUCTION(float_min, float, SMALL, a < b ? a : b)
REDUCTION(double_sum, double, SMALL, a + b)
REDUCTION(double_prod, double, FACTOR, a *b)
REDUCTION(double_max, double, SMALL / 3.0, a > b ? a : b)
REDUCTION(llong_sum, llong, (llong)(h >> 8), a + b)
REDUCTION(llong_bor, llong, (llong)(h & (h >> 21) & (h << 13)), a | b)
REDUCTION(uint64_sum, uint64_t, h, a + b)
REDUCTION(bool_lor, bool, RARELY_TRUE != 0, a || b)
REDUCTION(fcomplex_sum, fcomplex, SMALL + I * (float)(h >> 50), a + b)
REDUCTION(dcomplex_sum, dcomplex, SMALL + I * (double)(h >> 40), a + b)
REDUCTION(dcomplex_prod, dcomplex, GAUSSIAN, a *b)

/* Pairs of a value from a narrow range, so that there are ties, and a location. */
#define LOCATION(id, T, BETTER)                                                                    \
    struct __attribute__((packed)) pair_##id {                                                     \
        T value;                                                                                   \
        int location;                                                                              \
    };                                                                                             \
    REDUCTION(                                                                                     \
        id, struct pair_##id, ((struct pair_##id){(T)(h % 5), rank * 2 + (int)(h >> 40 & 1)}),     \
        ((struct pair_##id)(                                                                       \
            a.value BETTER b.value || (a.value == b.value && a.location < b.location) ? a : b)))
LOCATION(maxloc_double, double, >)
LOCATION(minloc_double, double, <)
LOCATION(maxloc_float, float, >)
LOCATION(minloc_int, int, <)
LOCATION(maxloc_long, long, >)
LOCATION(minloc_short, short, <)

/* User-defined: sums modulo a prime of every int of an item, whatever the layout. */
enum { PRIME = 1000003 };
static int modular_sum(int a, int b) {
    return (a + b) % PRIME;
}
REDUCTION(modular, int, (int)(h % PRIME), modular_sum(a, b))

#define MODULAR(id, N)                                                                             \
    static void value_##id(void *item, int rank, int size, MPI_Count index) {                      \
        for (int i = 0; i < N; i++) {                                                              \
            value_modular((int *)item + i, rank, size, index * N + i);                             \
        }                                                                                          \
    }                                                                                              \
    static void combine_##id(const void *left, void *right) {                                      \
        for (int i = 0; i < N; i++) {                                                              \
            combine_modular((const int *)left + i, (int *)right + i);                              \
        }                                                                                          \
    }                                                                                              \
    static const struct functions id = {value_##id, combine_##id};
MODULAR(modular_1, 1)
MODULAR(modular_2, 2)
MODULAR(modular_3, 3)
MODULAR(modular_4, 4)
MODULAR(modular_6, 6)
MODULAR(modular_9, 9)

/* User-defined on a struct of several types: a different operation on each member. */
struct __attribute__((packed)) record {
    double number;
    char letters[3];
    int integer;
};
REDUCTION(record, struct record,
          ((struct record){SMALL, {(char)h, (char)(h >> 8), (char)(h >> 16)}, (int)(h >> 24)}),
          ((struct record){a.number + b.number,
                           {(char)(a.letters[0] ^ b.letters[0]),
                            (char)(a.letters[1] & b.letters[1]),
                            (char)(a.letters[2] | b.letters[2])},
                           a.integer > b.integer ? a.integer : b.integer}))

/* User-defined and not commutative: the composition of x -> factor x + term modulo 2^64. */
struct affine {
    uint64_t factor, term;
};
REDUCTION(affine, struct affine, ((struct affine){h | 1, h >> 7}),
          ((struct affine){a.factor * b.factor, a.term * b.factor + b.term}))

/*
 * The user-defined operators as MPI calls them. Those on derived types find their reduction as an
 * attribute of the datatype: only the very handle that the program passed has it. They touch only
 * the atoms of the layout, so that a gap that is written, or an item more than *length, shows.
 */
static int reduction_key = MPI_KEYVAL_INVALID;

#if defined(LARGE_COUNT) && !defined(LOOKED_FOR)
typedef MPI_Count op_length;
#define OP_CREATE MPI_Op_create_c
#else
typedef int op_length;
#define OP_CREATE MPI_Op_create
#endif

static void op_modular_int(void *in, void *inout, op_length *length, MPI_Datatype *type) {
    check(*type == MPI_INT, "the operator on MPI_INT got another datatype");
    for (op_length i = 0; i < *length; i++) {
        combine_modular((int *)in + i, (int *)inout + i);
    }
}

static void op_by_layout(void *in, void *inout, op_length *length, MPI_Datatype *type) {
    struct reduction *reduction = NULL;
    int found = 0;
    MPI_Type_get_attr(*type, reduction_key, &reduction, &found);
    check(found, "the operator got another datatype than the call");
    if (!found) {
        return;
    }
    const struct layout *layout = &reduction->layout;
    char left[128], right[128];
    for (op_length i = 0; i < *length; i++) {
        char *target = (char *)inout + i * layout->extent;
        layout_pack(layout, (char *)in + i * layout->extent, 1, left);
        layout_pack(layout, target, 1, right);
        reduction->does.combine(left, right);
        layout_unpack(layout, target, 1, right);
    }
}

/* The pairs of MPI: a C struct of the value and an int, with its alignment. */
static struct layout layout_pair(const char *name, MPI_Datatype type, int width) {
    struct layout layout = layout_basic(name, type, width);
    int offset = width < (int)sizeof(int) ? (int)sizeof(int) : width;
    layout.atoms = 2;
    layout.offset[1] = offset;
    layout.width[1] = sizeof(int);
    layout.packed += sizeof(int);
    layout.upper = offset + (ptrdiff_t)sizeof(int);
    layout.extent = (layout.upper + offset - 1) / offset * offset;
    return layout;
}

static struct layout layout_matrix(void) {
    struct layout layout = {.name = "matrix", .limit = INT32_MAX};
    for (int i = 0; i < 9; i++) {
        layout.offset[i] = (ptrdiff_t)(i * sizeof(int));
        layout.width[i] = sizeof(int);
    }
    layout.atoms = 9;
    layout.upper = layout.extent = 9 * sizeof(int);
    layout.packed = 9 * sizeof(int);
    MPI_Type_contiguous(9, MPI_INT, &layout.type);
    MPI_Type_commit(&layout.type);
    return layout;
}

static struct layout layout_affine(void) {
    struct layout layout = {.name = "affine",
                            .limit = INT32_MAX,
                            .atoms = 2,
                            .upper = 16,
                            .extent = 16,
                            .packed = 16,
                            .offset = {0, 8},
                            .width = {8, 8}};
    MPI_Type_contiguous(2, MPI_UINT64_T, &layout.type);
    MPI_Type_commit(&layout.type);
    return layout;
}

enum { REDUCTIONS_MAX = 64 };

struct list {
    struct reduction *items;
    int count;
};

static struct reduction *append(struct list *list, const char *name, struct layout layout,
                                MPI_Op op, struct functions does) {
    struct reduction *added = &list->items[list->count++];
    *added = (struct reduction){
        .name = name, .layout = layout, .op = op, .commutative = true, .does = does};
    return added;
}

#define PREDEFINED(id, T, TYPE, OP)                                                                \
    append(list, #TYPE " " #OP, layout_basic(#TYPE, TYPE, sizeof(T)), OP, id)
#define PAIRS(id, T, TYPE, OP)                                                                     \
    append(list, #TYPE " " #OP, layout_pair(#TYPE, TYPE, sizeof(T)), OP, id)->padding = true

struct reduction reduction_int_sum(void) {
    struct reduction sum;
    struct list list = {&sum, 0};
    append(&list, "MPI_INT MPI_SUM", layout_basic("MPI_INT", MPI_INT, sizeof(int)), MPI_SUM,
           int_sum);
    return sum;
}

static void append_predefined(struct list *list) {
    PREDEFINED(int_sum, int, MPI_INT, MPI_SUM);
    PREDEFINED(int_prod, int, MPI_INT, MPI_PROD);
    PREDEFINED(int_max, int, MPI_INT, MPI_MAX);
    PREDEFINED(int_min, int, MPI_INT, MPI_MIN);
    PREDEFINED(int_land, int, MPI_INT, MPI_LAND);
    PREDEFINED(int_lor, int, MPI_INT, MPI_LOR);
    PREDEFINED(int_lxor, int, MPI_INT, MPI_LXOR);
    PREDEFINED(uchar_sum, uchar, MPI_UNSIGNED_CHAR, MPI_SUM);
    PREDEFINED(uchar_prod, uchar, MPI_UNSIGNED_CHAR, MPI_PROD);
    PREDEFINED(uchar_band, uchar, MPI_UNSIGNED_CHAR, MPI_BAND);
    PREDEFINED(byte_bxor, uchar, MPI_BYTE, MPI_BXOR);
    PREDEFINED(short_max, short, MPI_SHORT, MPI_MAX);
    PREDEFINED(float_sum, float, MPI_FLOAT, MPI_SUM);
    PREDEFINED(float_min, float, MPI_FLOAT, MPI_MIN);
    PREDEFINED(double_sum, double, MPI_DOUBLE, MPI_SUM);
    PREDEFINED(double_prod, double, MPI_DOUBLE, MPI_PROD);
    PREDEFINED(double_max, double, MPI_DOUBLE, MPI_MAX);
    PREDEFINED(llong_sum, llong, MPI_LONG_LONG, MPI_SUM);
    PREDEFINED(llong_bor, llong, MPI_LONG_LONG, MPI_BOR);
    PREDEFINED(uint64_sum, uint64_t, MPI_UINT64_T, MPI_SUM);
    PREDEFINED(bool_lor, bool, MPI_C_BOOL, MPI_LOR);
    PREDEFINED(fcomplex_sum, fcomplex, MPI_C_FLOAT_COMPLEX, MPI_SUM);
    PREDEFINED(dcomplex_sum, dcomplex, MPI_C_DOUBLE_COMPLEX, MPI_SUM);
    PREDEFINED(dcomplex_prod, dcomplex, MPI_C_DOUBLE_COMPLEX, MPI_PROD);
    PAIRS(maxloc_double, double, MPI_DOUBLE_INT, MPI_MAXLOC);
    PAIRS(minloc_double, double, MPI_DOUBLE_INT, MPI_MINLOC);
    PAIRS(maxloc_float, float, MPI_FLOAT_INT, MPI_MAXLOC);
    PAIRS(minloc_int, int, MPI_2INT, MPI_MINLOC);
    PAIRS(maxloc_long, long, MPI_LONG_INT, MPI_MAXLOC);
    PAIRS(minloc_short, short, MPI_SHORT_INT, MPI_MINLOC);
}

static struct functions modular_of(int atoms) {
    return atoms == 1   ? modular_1
           : atoms == 2 ? modular_2
           : atoms == 3 ? modular_3
           : atoms == 4 ? modular_4
                        : modular_6;
}

static void append_user_defined(struct list *list) {
    MPI_Op modular_op, by_layout, ordered;
    OP_CREATE(op_modular_int, 1, &modular_op);
    OP_CREATE(op_by_layout, 1, &by_layout);
    OP_CREATE(op_by_layout, 0, &ordered);
    append(list, "user sum", layout_basic("int", MPI_INT, sizeof(int)), modular_op, modular);
    for (int which = 1; which < INT_LAYOUTS; which++) {
        struct layout layout = layout_of_ints(which);
        append(list, layout.name, layout, by_layout, modular_of(layout.atoms));
    }
    append(list, "matrix", layout_matrix(), by_layout, modular_9);
    for (int which = 0; which < RECORD_LAYOUTS; which++) {
        struct layout layout = layout_of_record(which);
        append(list, layout.name, layout, by_layout, record);
    }
    append(list, "affine", layout_affine(), ordered, affine)->commutative = false;
}

struct reduction *reductions_new(int *count) {
    struct list list = {allocate(REDUCTIONS_MAX * sizeof(struct reduction)), 0};
    append_predefined(&list);
    append_user_defined(&list);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &reduction_key, NULL);
    for (int i = 0; i < list.count; i++) {
        if (!list.items[i].layout.predefined) {
            MPI_Type_set_attr(list.items[i].layout.type, reduction_key, &list.items[i]);
        }
        layout_check(&list.items[i].layout);
    }
    *count = list.count;
    return list.items;
}

void reductions_free(struct reduction *reductions, int count) {
    MPI_Op freed = MPI_OP_NULL;
    bool user_defined = false;
    for (int i = 0; i < count; i++) {
        layout_free(&reductions[i].layout);
        user_defined = user_defined || strcmp(reductions[i].name, "user sum") == 0;
        if (user_defined && reductions[i].op != freed) {
            freed = reductions[i].op;
            MPI_Op_free(&reductions[i].op);
        }
    }
    MPI_Type_free_keyval(&reduction_key);
    free(reductions);
}

const struct reduction *reduction_named(const struct reduction *reductions, int count,
                                        const char *name) {
    for (int i = 0; i < count; i++) {
        if (strcmp(reductions[i].name, name) == 0) {
            return &reductions[i];
        }
    }
    fprintf(stderr, "no reduction is named %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 99);
    return NULL;
}

void *reduction_input(const struct reduction *reduction, int rank, int size, MPI_Count first,
                      MPI_Count count) {
    size_t item = reduction->layout.packed;
    char *packed = allocate((size_t)count * item);
    for (MPI_Count i = 0; i < count; i++) {
        reduction->does.value(packed + (size_t)i * item, rank, size, first + i);
    }
    return packed;
}

void *reduction_result(const struct reduction *reduction, int size, MPI_Count first,
                       MPI_Count count) {
    size_t item = reduction->layout.packed;
    char *result = reduction_input(reduction, size - 1, size, first, count);
    for (int rank = size - 2; rank >= 0; rank--) {
        char *left = reduction_input(reduction, rank, size, first, count);
        for (MPI_Count i = 0; i < count; i++) {
            reduction->does.combine(left + (size_t)i * item, result + (size_t)i * item);
        }
        free(left);
    }
    return result;
}
