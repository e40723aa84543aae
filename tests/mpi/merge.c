/*
 * circulant_allgather_merge and circulant_allreduce_v: blocks of all kinds of lengths, numbers of all kinds,
 * records whose keys are equal, elements with gaps that other ranks have without, sets, and errors.
 *
 *   merge OUTCOME [all | few | errors | threads | huge]
 *
 * OUTCOME is what the report has to say of calls that are right: circulant, or why they are native.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../include/circulant.h"
#include "check.h"

#pragma weak circulant_allgather_merge
#pragma weak circulant_allreduce_v

static long merges, reductions; /* calls of this rank that were right */

/* The lengths of the blocks. */
enum { SPREADS = 9 };

static int length_of(int spread, int rank, int size, int unit) {
    uint64_t h = mix((uint64_t)spread, (uint64_t)rank, (uint64_t)unit, 5);
    const int length[SPREADS] = {unit,
                                 0,
                                 rank % 2 * unit,
                                 rank,
                                 unit * (size - rank) / size,
                                 rank == size / 2 ? unit * 3 : 0,
                                 rank == size - 1 ? 0 : unit,
                                 (int)(h % (uint64_t)(2 * unit + 1)),
                                 rank == 0 ? unit * 2 : 1};
    return length[spread];
}

static int total_of(int spread, int size, int unit) {
    int total = 0;
    for (int rank = 0; rank < size; rank++) {
        total += length_of(spread, rank, size, unit);
    }
    return total;
}

/* Numbers: what element i of a rank is, before it is sorted. */
#define NUMBERS(NUMBER)                                                      \
    NUMBER(signed char, schar, MPI_SIGNED_CHAR, (signed char)h)              \
    NUMBER(unsigned char, uchar, MPI_BYTE, (unsigned char)h)                 \
    NUMBER(short, short_, MPI_SHORT, (short)h)                               \
    NUMBER(uint16_t, ushort, MPI_UINT16_T, (uint16_t)h)                      \
    NUMBER(int, int_, MPI_INT, (int)h)                                       \
    NUMBER(unsigned, uint, MPI_UNSIGNED, (unsigned)h)                        \
    NUMBER(int64_t, int64, MPI_INT64_T, (int64_t)h)                          \
    NUMBER(uint64_t, uint64, MPI_UNSIGNED_LONG_LONG, h)                      \
    NUMBER(MPI_Aint, aint, MPI_AINT, (MPI_Aint)h)                            \
    NUMBER(float, float_, MPI_FLOAT, (float)special((double)(int)h, h))      \
    NUMBER(double, double_, MPI_DOUBLE, special((double)(int64_t)h, h))      \
    NUMBER(long double, ldouble, MPI_LONG_DOUBLE, (long double)special((double)(int)h, h) * 1e300L)

/* Now and then a zero of either sign, an infinity, or what is no number. */
static double special(double number, uint64_t h) {
    const double numbers[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0};
    return h >> 60 == 3 ? numbers[h % 6] : number;
}

static int is_nan(long double x) { return x != x; }

/* The order: numbers ascend, what is none comes last. */
#define COMPARE(x, y) (is_nan((long double)(x)) - is_nan((long double)(y)) ? is_nan((long double)(x)) - is_nan((long double)(y)) : ((x) > (y)) - ((x) < (y)))

/* A stable sort that shares nothing with a merge: by insertion from the back. */
#define NUMBER(type, name, mpi_type, value)                                                        \
    static void sort_##name(type *of, int count) {                                                 \
        for (int gap = count; gap > 0; gap = 0) {                                                  \
            type *other = allocate(sizeof(type) * (size_t)count);                                  \
            for (int width = 1; width < count; width *= 2) {                                       \
                for (int start = 0; start < count; start += 2 * width) {                           \
                    int i = start, middle = start + width < count ? start + width : count;         \
                    int j = middle, end = start + 2 * width < count ? start + 2 * width : count;   \
                    for (int k = start; k < end; k++) {                                            \
                        int left = j == end || (i < middle && COMPARE(of[i], of[j]) <= 0);         \
                        other[k] = left ? of[i++] : of[j++];                                       \
                    }                                                                              \
                }                                                                                  \
                memcpy(of, other, sizeof(type) * (size_t)count);                                   \
            }                                                                                      \
            free(other);                                                                           \
        }                                                                                          \
    }                                                                                              \
    static void fill_##name(type *to, int rank, int count, uint64_t keys) {                        \
        memset(to, 0, sizeof(type) * (size_t)count);                                               \
        for (int i = 0; i < count; i++) {                                                          \
            uint64_t h = mix(check_iteration(), (uint64_t)rank, (uint64_t)i, 3);                   \
            h = keys ? h % keys : h;                                                               \
            to[i] = value;                                                                         \
        }                                                                                          \
        sort_##name(to, count);                                                                    \
    }                                                                                              \
    static int same_##name(const type *a, const type *b, int count) {                              \
        for (int i = 0; i < count; i++) {                                                          \
            if (COMPARE(a[i], b[i]) || signbit((double)a[i]) != signbit((double)b[i])) {           \
                return 0;                                                                          \
            }                                                                                      \
        }                                                                                          \
        return 1;                                                                                  \
    }                                                                                              \
    static void merge_##name(MPI_Comm comm, int rank, int size, int spread, int unit,              \
                             uint64_t keys, int in_place) {                                        \
        check_case("%s p=%d spread=%d unit=%d keys=%d%s", #name, size, spread, unit, (int)keys,    \
                   in_place ? " in place" : "");                                                   \
        int own = length_of(spread, rank, size, unit), total = total_of(spread, size, unit), got = -1; \
        type *all = allocate(sizeof(type) * (size_t)(total + 1)), *next = all;                     \
        type *mine = allocate(sizeof(type) * (size_t)(own + 1));                                   \
        for (int r = 0; r < size; r++) {                                                           \
            fill_##name(next, r, length_of(spread, r, size, unit), keys);                          \
            next += length_of(spread, r, size, unit);                                              \
        }                                                                                          \
        sort_##name(all, total);                                                                   \
        fill_##name(mine, rank, own, keys);                                                        \
        type *result = allocate(sizeof(type) * (size_t)(total + 1)), guard = (type)77;             \
        result[total] = guard;                                                                     \
        memcpy(result, mine, sizeof(type) * (size_t)(in_place ? own : 0));                         \
        int code = circulant_allgather_merge(in_place ? MPI_IN_PLACE : mine, own, result, total,   \
                                             &got, mpi_type, NULL, NULL, comm);                    \
        check_success(code, "circulant_allgather_merge");                                          \
        check(got == total, "%d elements, not %d", got, total);                                    \
        check(same_##name(result, all, total), "the result is wrong");                             \
        check(result[total] == guard, "behind the result");                                        \
        free(all);                                                                                 \
        free(mine);                                                                                \
        free(result);                                                                              \
    }
NUMBERS(NUMBER)
#undef NUMBER

typedef void merge_numbers(MPI_Comm, int, int, int, int, uint64_t, int);
#define NUMBER(type, name, mpi_type, value) merge_##name,
static merge_numbers *const all_numbers[] = {NUMBERS(NUMBER)};
#undef NUMBER
enum { KINDS = sizeof all_numbers / sizeof *all_numbers };

static void numbers(MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int kind = 0; kind < KINDS; kind++) {
        for (int spread = 0; spread < SPREADS; spread++) {
            const uint64_t keys[] = {0, 3, 1000};
            all_numbers[kind](comm, rank, size, spread, 30, keys[(kind + spread) % 3], spread % 2);
            merges++;
        }
    }
    for (int in_place = 0; in_place < 2; in_place++) {
        merge_int_(comm, rank, size, 0, 40000, 0, in_place);
        merge_double_(comm, rank, size, 7, 9000, 0, in_place);
        merges += 2;
    }
}

/* A record; what is compared is the key. In memory without gaps, with gaps, or with gaps and so that
 * functions may rely on its alignment, although it begins before its address; or its bounds are those of its
 * neighbour, without gaps or with them. */
enum { FIELDS = 3, DENSE = 0, GAPS, ALIGNED, LOWERED, LOWERED_GAPS, LAYOUTS, ALIGNMENT = 16 };
struct layout {
    MPI_Datatype type;
    int stride;          /* ints from one record to the next */
    int place[FIELDS];   /* key, rank, position: where they are */
    int asks;            /* whether comparisons call MPI */
    int misaligned;      /* records that functions got at an address that is not aligned */
};

static struct layout record_layout(int gaps) {
    const int strides[LAYOUTS] = {FIELDS, 7, 2 * ALIGNMENT / (int)sizeof(int), FIELDS, FIELDS + 1};
    struct layout layout = {.stride = strides[gaps], .asks = gaps == GAPS};
    MPI_Datatype type;
    if (gaps == GAPS || gaps == ALIGNED) {
        const MPI_Aint lower = gaps == ALIGNED ? -ALIGNMENT / 2 : 0;
        /* Key last in memory, in front of it a gap, behind it another: in the signature it is first. */
        int lengths[] = {1, 1, 1}, places[] = {5, 1, 2};
        memcpy(layout.place, places, sizeof places);
        MPI_Type_indexed(FIELDS, lengths, places, MPI_INT, &type);
        MPI_Type_create_resized(type, lower, (MPI_Aint)sizeof(int) * layout.stride, &layout.type);
        MPI_Type_free(&type);
    } else {
        const int places[] = {0, 1, 2};
        memcpy(layout.place, places, sizeof places);
        MPI_Type_contiguous(FIELDS, MPI_INT, &layout.type);
        if (gaps == LOWERED || gaps == LOWERED_GAPS) {
            const MPI_Aint extent = layout.stride * (MPI_Aint)sizeof(int);
            type = layout.type;
            MPI_Type_create_resized(type, -extent, extent, &layout.type);
            MPI_Type_free(&type);
        }
    }
    MPI_Type_commit(&layout.type);
    return layout;
}

static void expect_aligned(const void *record, struct layout *layout) {
    layout->misaligned += layout->stride * sizeof(int) % ALIGNMENT == 0 && (uintptr_t)record % ALIGNMENT != 0;
}

static int by_key(const void *a, const void *b, void *context) {
    struct layout *layout = context;
    const int *x = a, *y = b;
    expect_aligned(a, layout);
    expect_aligned(b, layout);
    if (layout->asks) {
        double now = MPI_Wtime();
        int is_there = 0;
        MPI_Initialized(&is_there);
        if (!is_there || now < 0) {
            return -1;
        }
    }
    int key = layout->place[0];
    return (x[key] > y[key]) - (x[key] < y[key]);
}

static int key_of(int rank, int i, int count, int keys) {
    /* Ascending, with repetitions. */
    return keys <= 1 ? 0 : (int)((long)i * keys / (count + 1)) + (int)(mix(1, (uint64_t)rank, 0, 0) % 3);
}

static void put(int *to, const struct layout *layout, int key, int rank, int position) {
    to[layout->place[0]] = key;
    to[layout->place[1]] = rank;
    to[layout->place[2]] = position;
}

static int *records(const struct layout *layout, int count) {
    int *of = allocate(sizeof(int) * (size_t)(count * layout->stride + 1));
    for (int i = 0; i <= count * layout->stride; i++) {
        of[i] = -7;
    }
    return of;
}

/* All records, stably sorted (by counting), or in the order of ranks. */
static int *expected_records(const struct layout *layout, int size, int spread, int unit, int keys,
                             int sorted) {
    int total = total_of(spread, size, unit), next = 0;
    int *all = records(layout, total);
    for (int key = 0; key < (sorted ? keys + 4 : 1); key++) {
        for (int rank = 0; rank < size; rank++) {
            int count = length_of(spread, rank, size, unit);
            for (int i = 0; i < count; i++) {
                int own = key_of(rank, i, count, keys);
                if (!sorted || own == key) {
                    put(all + next++ * layout->stride, layout, own, rank, i);
                }
            }
        }
    }
    check(next == total, "the expected records are %d, not %d", next, total);
    return all;
}

static int concatenate(const void *left, int leftcount, const void *right, int rightcount, void *out,
                       int *outcount, void *context) {
    struct layout *layout = context;
    size_t record = sizeof(int) * (size_t)layout->stride;
    int *to = out;
    expect_aligned(left, layout);
    expect_aligned(right, layout);
    expect_aligned(out, layout);
    if (leftcount <= 0 || rightcount <= 0) {
        return 1;
    }
    /* Field by field: gaps of the result are not ours. */
    for (int i = 0; i < leftcount + rightcount; i++) {
        const char *from = i < leftcount ? (const char *)left + (size_t)i * record
                                         : (const char *)right + (size_t)(i - leftcount) * record;
        for (int field = 0; field < FIELDS; field++) {
            int place = layout->place[field];
            memcpy(to + i * layout->stride + place, from + sizeof(int) * (size_t)place, sizeof(int));
        }
    }
    *outcount = leftcount + rightcount;
    return 0;
}

static void one_of_records(MPI_Comm comm, int gaps, int spread, int unit, int keys, int in_place, int merge) {
    int rank, size, got = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    check_case("records p=%d spread=%d unit=%d keys=%d gaps=%d in_place=%d merge=%d", size, spread, unit,
               keys, gaps, in_place, merge);
    struct layout layout = record_layout(gaps);
    int own = length_of(spread, rank, size, unit), total = total_of(spread, size, unit);
    int *mine = records(&layout, own), *result = records(&layout, total);
    for (int i = 0; i < own; i++) {
        put((in_place ? result : mine) + i * layout.stride, &layout, key_of(rank, i, own, keys), rank, i);
    }
    int *expected = expected_records(&layout, size, spread, unit, keys, merge);
    const void *send = in_place ? MPI_IN_PLACE : mine;
    int code = merge ? circulant_allgather_merge(send, own, result, total, &got, layout.type, by_key, &layout, comm)
                     : circulant_allreduce_v(send, own, result, total, &got, layout.type, concatenate, &layout, comm);
    check_success(code, merge ? "circulant_allgather_merge" : "circulant_allreduce_v");
    check(got == total, "%d records, not %d", got, total);
    check(layout.misaligned == 0, "%d records were not aligned", layout.misaligned);
    /* With its gaps, which nobody may have touched, and what is behind. */
    size_t bytes = sizeof(int) * (size_t)(total * layout.stride + 1);
    check(memcmp(result, expected, bytes) == 0, "the result is wrong");
    merge ? merges++ : reductions++;
    MPI_Type_free(&layout.type);
    free(mine);
    free(result);
    free(expected);
}

static void all_records(MPI_Comm comm) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    for (int spread = 0; spread < SPREADS; spread++) {
        for (int turn = 0; turn < 6; turn++) {
            /* Some ranks with gaps and some without; all; none. */
            int gaps = turn % 3 == 0 ? spread % 3 == 0 ? DENSE : LOWERED + spread % 2 : turn % 3 == 1 ? GAPS + spread % 2 : rank % LAYOUTS;
            const int keys[] = {1, 5, 50};
            one_of_records(comm, gaps, spread, 20, keys[(turn + spread) % 3], turn / 3, 1);
            one_of_records(comm, gaps, spread, 20, keys[(turn + spread) % 3], turn / 3, 0);
        }
    }
}

/* Sets of ints: sorted, each once. */
static int unite(const void *left, int leftcount, const void *right, int rightcount, void *out,
                 int *outcount, void *context) {
    const int *l = left, *r = right;
    int *to = out, i = 0, j = 0, k = 0;
    (void)context;
    while (i < leftcount || j < rightcount) {
        int take = j == rightcount || (i < leftcount && l[i] <= r[j]) ? l[i] : r[j];
        i += i < leftcount && l[i] == take;
        j += j < rightcount && r[j] == take;
        to[k++] = take;
    }
    *outcount = k;
    return 0;
}

enum { ELEMENTS = 90 };

static void set_of(char *in, int rank, int spread, int size) {
    int count = length_of(spread, rank, size, 12);
    for (int i = 0; i < count; i++) {
        in[mix(check_iteration(), (uint64_t)rank, (uint64_t)i, 8) % ELEMENTS] = 1;
    }
}

static int listed(const char *in, int *to) {
    int count = 0;
    for (int i = 0; i < ELEMENTS; i++) {
        if (in[i]) {
            to[count++] = i;
        }
    }
    return count;
}

static void unions(MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int spread = 0; spread < SPREADS; spread++) {
        check_case("union p=%d spread=%d", size, spread);
        char in[ELEMENTS] = {0}, all[ELEMENTS] = {0};
        int mine[ELEMENTS], expected[ELEMENTS], result[ELEMENTS + 1], got = -1;
        set_of(in, rank, spread, size);
        for (int r = 0; r < size; r++) {
            set_of(all, r, spread, size);
        }
        int own = listed(in, mine), total = listed(all, expected);
        /* Just enough room: not for what is combined on the way. */
        result[total] = -9;
        int code = circulant_allreduce_v(mine, own, result, total, &got, MPI_INT, unite, NULL, comm);
        check_success(code, "circulant_allreduce_v");
        check(got == total, "%d elements, not %d", got, total);
        check(memcmp(result, expected, sizeof(int) * (size_t)total) == 0, "the union is wrong");
        check(result[total] == -9, "behind the result");
        reductions++;
    }
}

static void everything(MPI_Comm comm) {
    numbers(comm);
    all_records(comm);
    unions(comm);
}

static void communicators(void) {
    MPI_Comm part, reversed;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &part);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &reversed);
    check_color(world_rank % 2 + 1);
    all_records(part);
    check_color(0);
    unions(reversed);
    all_records(reversed);
    MPI_Comm_free(&part);
    MPI_Comm_free(&reversed);
}

static int class_of(int code) {
    int class = code;
    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
    }
    return class;
}

static int handled;

static void handle(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    handled = class_of(*code);
}

/* Too small a capacity on some ranks: there an error, elsewhere the result; and the next call works. */
static void truncations(MPI_Comm comm) {
    for (int turn = 0; turn < 4; turn++) {
        check_case("truncation turn=%d", turn);
        int mine[2] = {world_rank, world_rank + 5}, total = 2 * world_size, got = -1;
        int *result = allocate(sizeof(int) * (size_t)total);
        memset(result, 0, sizeof(int) * (size_t)total);
        int is_short = world_rank % 3 == turn % 3, capacity = is_short ? total - 1 - turn / 3 : total;
        handled = MPI_SUCCESS;
        int code = turn % 2 ? circulant_allgather_merge(mine, 2, result, capacity, &got, MPI_INT, NULL, NULL, comm)
                            : circulant_allreduce_v(mine, 2, result, capacity, &got, MPI_INT, unite, NULL, comm);
        int distinct = total;
        if (turn % 2 == 0) {
            char in[1000] = {0};
            distinct = 0;
            for (int rank = 0; rank < world_size; rank++) {
                in[rank] = in[rank + 5] = 1;
            }
            for (int i = 0; i < 1000; i++) {
                distinct += in[i];
            }
        }
        int wanted = distinct > capacity ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
        check(class_of(code) == wanted && handled == wanted, "error class %d, not %d", class_of(code), wanted);
        check(got == distinct, "%d elements, not %d", got, distinct);
        turn % 2 ? merges++ : reductions++;
        free(result);
    }
}

enum { CODE = 23 };

static int fail_here(const void *left, int leftcount, const void *right, int rightcount, void *out,
                     int *outcount, void *context) {
    int error = unite(left, leftcount, right, rightcount, out, outcount, NULL);
    if (*(int *)context == 2) {
        *outcount = leftcount + rightcount + 1;
        return 0;
    }
    return *(int *)context ? *(int *)context : error;
}

/* A function that fails on one rank, or on all: the same code everywhere. */
static void failures(MPI_Comm comm) {
    for (int who = 0; who <= world_size; who++) {
        for (int kind = 0; kind < 2; kind++) {
            check_case("a function that fails on %d, kind %d", who, kind);
            int own_code, invalid = 2, none = 0, mine = world_rank, got, result[200];
            MPI_Add_error_code(MPI_ERR_OTHER, &own_code);
            int fails = who == world_rank || who == world_size;
            int code = circulant_allreduce_v(&mine, 1, result, 200, &got, MPI_INT, fail_here,
                                             !fails ? &none : kind ? &invalid : &own_code, comm);
            int wanted = world_size == 1 ? MPI_SUCCESS : kind ? MPI_ERR_COUNT : own_code;
            check(code == wanted || (kind && class_of(code) == wanted), "returned %d, not %d", code, wanted);
            reductions++;
        }
    }
}

static void expect_error(int code, int wanted, const char *what) {
    check(class_of(code) == wanted, "%s: error class %d, not %d", what, class_of(code), wanted);
    check(handled == wanted, "%s: the handler saw %d, not %d", what, handled, wanted);
    handled = MPI_SUCCESS;
}

static void errors(void) {
    MPI_Comm comm, inter, half;
    MPI_Errhandler handler;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    int in[4] = {1, 2, 3, 4}, *out = allocate(sizeof(int) * 4 * (size_t)world_size), got = -1;
    int room = 4 * world_size;
    double complex_number[2] = {0, 0};
    MPI_Datatype interleaved, empty;
    MPI_Type_create_resized(MPI_DOUBLE, 0, 4, &interleaved);
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&interleaved);
    MPI_Type_commit(&empty);
    struct layout layout = {.place = {0}};
#define MERGE(...) circulant_allgather_merge(__VA_ARGS__)
#define REDUCE(...) circulant_allreduce_v(__VA_ARGS__)
    check_case("errors");
    expect_error(MERGE(in, -1, out, room, &got, MPI_INT, NULL, NULL, comm), MPI_ERR_COUNT, "sendcount");
    expect_error(MERGE(in, 4, out, -1, &got, MPI_INT, NULL, NULL, comm), MPI_ERR_COUNT, "capacity");
    expect_error(MERGE(MPI_IN_PLACE, 4, out, 3, &got, MPI_INT, NULL, NULL, comm), MPI_ERR_COUNT, "in place");
    expect_error(MERGE(in, 4, out, room, NULL, MPI_INT, NULL, NULL, comm), MPI_ERR_ARG, "recvcount");
    expect_error(MERGE(in, 4, out, room, &got, MPI_DATATYPE_NULL, NULL, NULL, comm), MPI_ERR_TYPE, "null type");
    expect_error(MERGE(complex_number, 1, out, 1, &got, MPI_C_DOUBLE_COMPLEX, NULL, NULL, comm), MPI_ERR_TYPE,
                 "complex");
    expect_error(MERGE(in, 1, out, 1, &got, MPI_2INT, NULL, NULL, comm), MPI_ERR_TYPE, "pairs");
    expect_error(MERGE(in, 1, out, 1, &got, interleaved, by_key, &layout, comm), MPI_ERR_TYPE, "interleaved");
    expect_error(MERGE(in, 1, out, 1, &got, empty, by_key, &layout, comm), MPI_ERR_TYPE, "empty type");
    /* Of one process alone, so that none of the others may be needed to find it. */
    MPI_Datatype uncommitted;
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    if (world_rank == world_size - 1) {
        expect_error(MERGE(in, 1, out, 1, &got, uncommitted, by_key, &layout, comm), MPI_ERR_TYPE, "uncommitted");
    }
    MPI_Type_free(&uncommitted);
    expect_error(MERGE(out, 4, out, room, &got, MPI_INT, NULL, NULL, comm), MPI_ERR_BUFFER, "the same buffer");
    expect_error(MERGE(NULL, 4, out, room, &got, MPI_INT, NULL, NULL, comm), MPI_ERR_BUFFER, "null sendbuf");
    expect_error(MERGE(in, 4, NULL, room, &got, MPI_INT, NULL, NULL, comm), MPI_ERR_BUFFER, "null recvbuf");
    expect_error(REDUCE(in, 4, out, room, &got, MPI_INT, NULL, NULL, comm), MPI_ERR_OP, "null combine");
    expect_error(MERGE(in, 4, out, room, &got, MPI_INT, NULL, NULL, MPI_COMM_NULL), MPI_ERR_COMM, "null comm");
    if (world_size > 1) {
        MPI_Comm_split(comm, world_rank == 0, world_rank, &half);
        MPI_Intercomm_create(half, 0, comm, world_rank == 0 ? 1 : 0, 3, &inter);
        MPI_Comm_set_errhandler(inter, handler);
        expect_error(MERGE(in, 4, out, room, &got, MPI_INT, NULL, NULL, inter), MPI_ERR_COMM, "inter");
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    /* And it still works. */
    check_success(MERGE(in, 4, out, room, &got, MPI_INT, NULL, NULL, comm), "circulant_allgather_merge");
    check(got == room && out[0] == 1 && out[room - 1] == 4, "after errors");
    merges++;
    truncations(comm);
    failures(comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    MPI_Type_free(&interleaved);
    MPI_Type_free(&empty);
    MPI_Comm_free(&comm);
    free(out);
}

enum { THREADS = 3 };
static MPI_Comm thread_comms[THREADS];
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static void *in_thread(void *argument) {
    int number = *(int *)argument;
    check_thread_begin(number + 1);
    for (int turn = 0; turn < 30; turn++) {
        merge_int_(thread_comms[number], world_rank, world_size, turn % SPREADS, 200, 0, turn % 2);
        merge_double_(thread_comms[number], world_rank, world_size, turn % SPREADS, 200, 9, turn % 2);
    }
    pthread_mutex_lock(&adding);
    merges += 60;
    pthread_mutex_unlock(&adding);
    check_thread_end();
    return NULL;
}

static void threads(void) {
    pthread_t thread[THREADS];
    int number[THREADS];
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &thread_comms[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        pthread_create(&thread[i], NULL, in_thread, &number[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        MPI_Comm_free(&thread_comms[i]);
    }
}

enum { LONG = 1100000000 }; /* more than a message may have; twice as much is more than an int counts */

/* Byte i of the long block: ascending. */
static unsigned char byte_of(int i) { return (unsigned char)(i / (LONG / 251 + 1)); }

/* A block that takes two messages, and a short one; then two long ones, which are too many elements. */
static void huge(void) {
    check_case("huge");
    int is_long = world_rank == 0, count = is_long ? LONG : 1000, total = LONG + 1000, got = -1;
    unsigned char *mine = allocate((size_t)LONG), *result = allocate((size_t)total);
    for (int i = 0; i < count; i++) {
        mine[i] = is_long ? byte_of(i) : 100;
    }
    check_success(circulant_allgather_merge(mine, count, result, total, &got, MPI_BYTE, NULL, NULL, MPI_COMM_WORLD),
                  "circulant_allgather_merge");
    check(got == total, "%d elements, not %d", got, total);
    int wrong = 0, inserted = 0;
    while (byte_of(inserted) < 100) {
        inserted++;
    }
    for (int i = 0; i < total; i++) {
        int expected = i < inserted ? byte_of(i) : i < inserted + 1000 ? 100 : byte_of(i - 1000);
        wrong += result[i] != expected;
    }
    check(wrong == 0, "%d elements are wrong", wrong);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    memset(mine, 0, (size_t)LONG);
    int code = circulant_allgather_merge(mine, LONG, result, total, &got, MPI_BYTE, NULL, NULL, MPI_COMM_WORLD);
    check(class_of(code) == MPI_ERR_COUNT, "error class %d", class_of(code));
    merges += 2;
    free(mine);
    free(result);
}

int main(int argc, char **argv) {
    const char *outcome = argc > 1 ? argv[1] : "circulant", *what = argc > 2 ? argv[2] : "all";
    int in_threads = strcmp(what, "threads") == 0;
    check_begin(&argc, &argv, "merge", in_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    check(circulant_allgather_merge && circulant_allreduce_v, "the library is not there");
    if (in_threads) {
        threads();
    } else if (strcmp(what, "errors") == 0) {
        errors();
    } else if (strcmp(what, "huge") == 0) {
        huge();
    } else if (strcmp(what, "few") == 0) {
        everything(MPI_COMM_WORLD);
    } else {
        everything(MPI_COMM_WORLD);
        communicators();
    }
    if (world_rank == 0 && merges > 0) {
        printf("calls allgather_merge %s=%ld\n", outcome, merges);
    }
    if (world_rank == 0 && reductions > 0) {
        printf("calls allreduce_v %s=%ld\n", outcome, reductions);
    }
    return check_end();
}
