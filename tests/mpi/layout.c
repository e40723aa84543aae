#include "layout.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { GUARD = 64 };

static const ptrdiff_t INT = sizeof(int);

static void atom(struct layout *layout, ptrdiff_t offset, int width) {
    layout->offset[layout->atoms] = offset;
    layout->width[layout->atoms] = width;
    layout->packed += (size_t)width;
    if (layout->atoms == 0 || offset < layout->lower) {
        layout->lower = offset;
    }
    if (layout->atoms == 0 || offset + width > layout->upper) {
        layout->upper = offset + width;
    }
    layout->atoms++;
}

static struct layout empty_map(const char *name, ptrdiff_t extent) {
    return (struct layout){.name = name, .extent = extent, .limit = INT32_MAX};
}

struct layout layout_basic(const char *name, MPI_Datatype type, int width) {
    struct layout layout = empty_map(name, width);
    layout.type = type;
    layout.predefined = true;
    atom(&layout, 0, width);
    return layout;
}

/* A layout of ints at these multiples of an int's size. */
static struct layout ints_at(const char *name, int atoms, const int *at, ptrdiff_t extent) {
    struct layout layout = empty_map(name, extent * INT);
    for (int i = 0; i < atoms; i++) {
        atom(&layout, at[i] * INT, INT);
    }
    return layout;
}

static void resize(MPI_Datatype *type, MPI_Aint lower, MPI_Aint extent) {
    MPI_Datatype old = *type;
    MPI_Type_create_resized(old, lower, extent, type);
    MPI_Type_free(&old);
}

static struct layout contiguous_ints(void) {
    struct layout layout = ints_at("contiguous", 3, (int[]){0, 1, 2}, 3);
    MPI_Type_contiguous(3, MPI_INT, &layout.type);
    return layout;
}

static struct layout vector_of_ints(void) {
    struct layout layout = ints_at("vector", 6, (int[]){0, 1, 4, 5, 8, 9}, 10);
    MPI_Type_vector(3, 2, 4, MPI_INT, &layout.type);
    return layout;
}

/* The blocks are not in the order of their displacements. */
static struct layout indexed_ints(void) {
    struct layout layout = ints_at("indexed", 6, (int[]){7, 0, 1, 3, 4, 5}, 8);
    MPI_Type_indexed(3, (int[]){1, 2, 3}, (int[]){7, 0, 3}, MPI_INT, &layout.type);
    return layout;
}

/* A type of types: {two ints 8 bytes apart at 16, one int at 0}. */
static struct layout struct_of_ints(void) {
    struct layout layout = ints_at("struct", 3, (int[]){4, 6, 0}, 7);
    MPI_Datatype pair;
    MPI_Type_vector(2, 1, 2, MPI_INT, &pair);
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){4 * INT, 0},
                           (MPI_Datatype[]){pair, MPI_INT}, &layout.type);
    MPI_Type_free(&pair);
    return layout;
}

static struct layout resized_larger(void) {
    struct layout layout = ints_at("resized larger", 1, (int[]){0}, 3);
    MPI_Type_create_resized(MPI_INT, 0, 3 * INT, &layout.type);
    return layout;
}

/* A column of a matrix of 4 rows, resized so that the next item is the next column. */
static struct layout resized_smaller(void) {
    struct layout layout =
        ints_at("resized smaller", 4, (int[]){0, COLUMNS, 2 * COLUMNS, 3 * COLUMNS}, 1);
    MPI_Type_vector(4, 1, COLUMNS, MPI_INT, &layout.type);
    resize(&layout.type, 0, INT);
    layout.limit = COLUMNS;
    return layout;
}

static struct layout negative_lower_bound(void) {
    struct layout layout = ints_at("negative lower bound", 2, (int[]){-2, 1}, 6);
    MPI_Type_indexed(2, (int[]){1, 1}, (int[]){-2, 1}, MPI_INT, &layout.type);
    resize(&layout.type, -3 * INT, 6 * INT);
    return layout;
}

static struct layout negative_stride(void) {
    struct layout layout = ints_at("negative stride", 3, (int[]){0, -2, -4}, 5);
    MPI_Type_vector(3, 1, -2, MPI_INT, &layout.type);
    return layout;
}

/* Rows 1 and 2, columns 2 to 4, of a 4 x 5 array. */
static struct layout subarray_of_ints(void) {
    struct layout layout = ints_at("subarray", 6, (int[]){7, 8, 9, 12, 13, 14}, 20);
    MPI_Type_create_subarray(2, (int[]){4, 5}, (int[]){2, 3}, (int[]){1, 2}, MPI_ORDER_C, MPI_INT,
                             &layout.type);
    return layout;
}

/* As many bytes as the extent, but not in this order: dense memory that still cannot be sent in
 * place. */
static struct layout permuted_ints(void) {
    struct layout layout = ints_at("permuted", 3, (int[]){2, 0, 1}, 3);
    MPI_Type_create_indexed_block(3, 1, (int[]){2, 0, 1}, MPI_INT, &layout.type);
    return layout;
}

struct layout layout_of_ints(int which) {
    static struct layout (*const make[INT_LAYOUTS - 1])(void) = {
        contiguous_ints, vector_of_ints, indexed_ints,         struct_of_ints,  resized_larger,
        resized_smaller, permuted_ints,  negative_lower_bound, negative_stride, subarray_of_ints};
    if (which == 0) {
        return layout_basic("int", MPI_INT, INT);
    }
    struct layout layout = make[which - 1]();
    MPI_Type_commit(&layout.type);
    return layout;
}

struct layout layout_of_record(int which) {
    static const struct {
        const char *name;
        MPI_Aint number, letters, integer, extent;
    } arrangement[RECORD_LAYOUTS] = {{"record", 0, 8, 12, 16},
                                     {"record, reordered", 8, 4, 0, 16},
                                     {"record, unaligned", 0, 8, 11, 15}};
    const MPI_Aint number = arrangement[which].number, letters = arrangement[which].letters,
                   integer = arrangement[which].integer, extent = arrangement[which].extent;
    struct layout layout = empty_map(arrangement[which].name, extent);
    atom(&layout, number, sizeof(double));
    for (int i = 0; i < 3; i++) {
        atom(&layout, letters + i, 1);
    }
    atom(&layout, integer, INT);
    MPI_Type_create_struct(3, (int[]){1, 3, 1}, (MPI_Aint[]){number, letters, integer},
                           (MPI_Datatype[]){MPI_DOUBLE, MPI_CHAR, MPI_INT}, &layout.type);
    resize(&layout.type, 0, extent);
    MPI_Type_commit(&layout.type);
    return layout;
}

struct layout layout_of_nothing(int which) {
    struct layout layout = empty_map("no ints", 0);
    MPI_Type_contiguous(0, MPI_INT, &layout.type);
    if (which == 1) {
        layout = (struct layout){.name = "no ints, resized", .type = layout.type, .extent = 16};
        resize(&layout.type, 0, 16);
    } else if (which == 2) {
        MPI_Type_free(&layout.type);
        layout.name = "empty struct";
        MPI_Type_create_struct(0, NULL, NULL, NULL, &layout.type);
    }
    layout.limit = INT32_MAX;
    MPI_Type_commit(&layout.type);
    return layout;
}

struct layout layout_repeated_int(void) {
    struct layout layout = ints_at("repeated", 1, (int[]){0}, 0);
    MPI_Type_create_resized(MPI_INT, 0, 0, &layout.type);
    MPI_Type_commit(&layout.type);
    return layout;
}

void layout_free(struct layout *layout) {
    if (!layout->predefined) {
        MPI_Type_free(&layout->type);
    }
}

void layout_check(const struct layout *layout) {
    MPI_Aint lower, extent, true_lower, true_extent;
    MPI_Count size;
    MPI_Type_get_extent(layout->type, &lower, &extent);
    MPI_Type_get_true_extent(layout->type, &true_lower, &true_extent);
    MPI_Type_size_x(layout->type, &size);
    check(size == (MPI_Count)layout->packed, "%s: size %lld", layout->name, (long long)size);
    check(extent == layout->extent, "%s: extent %lld", layout->name, (long long)extent);
    check(true_lower == layout->lower && true_extent == layout->upper - layout->lower,
          "%s: true bounds %lld + %lld", layout->name, (long long)true_lower,
          (long long)true_extent);
}

/* Items follow each other without gaps, each with its atoms in the order of memory. */
static bool is_stream(const struct layout *layout) {
    ptrdiff_t next = 0;
    for (int i = 0; i < layout->atoms; i++) {
        if (layout->offset[i] != next) {
            return false;
        }
        next += layout->width[i];
    }
    return next == layout->extent;
}

void layout_unpack(const struct layout *layout, void *origin, MPI_Count count, const void *packed) {
    const unsigned char *from = packed;
    if (is_stream(layout)) {
        memcpy(origin, from, (size_t)count * layout->packed);
        return;
    }
    for (MPI_Count item = 0; item < count; item++) {
        unsigned char *base = (unsigned char *)origin + item * layout->extent;
        for (int i = 0; i < layout->atoms; i++) {
            memcpy(base + layout->offset[i], from, (size_t)layout->width[i]);
            from += layout->width[i];
        }
    }
}

void layout_pack(const struct layout *layout, const void *origin, MPI_Count count, void *packed) {
    unsigned char *to = packed;
    if (is_stream(layout)) {
        memcpy(to, origin, (size_t)count * layout->packed);
        return;
    }
    for (MPI_Count item = 0; item < count; item++) {
        const unsigned char *base = (const unsigned char *)origin + item * layout->extent;
        for (int i = 0; i < layout->atoms; i++) {
            memcpy(to, base + layout->offset[i], (size_t)layout->width[i]);
            to += layout->width[i];
        }
    }
}

struct buffer buffer_new(const struct layout *layout, MPI_Count items) {
    struct buffer buffer = {.layout = layout, .items = items};
    check(items <= layout->limit, "%lld items of %s overlap", (long long)items, layout->name);
    ptrdiff_t low = items > 0 && layout->lower < 0 ? layout->lower : 0;
    ptrdiff_t high = items > 0 ? (items - 1) * layout->extent + layout->upper : 0;
    buffer.before = GUARD + (-low + 15) / 16 * 16;
    buffer.size = (size_t)(buffer.before + high + GUARD);
    buffer.actual = allocate(buffer.size);
    buffer.wanted = allocate(buffer.size);
    for (size_t i = 0; i < buffer.size; i++) {
        buffer.actual[i] = (unsigned char)(i * 167 + 89);
    }
    memcpy(buffer.wanted, buffer.actual, buffer.size);
    buffer.origin = buffer.actual + buffer.before;
    return buffer;
}

static unsigned char *item_at(const struct buffer *buffer, unsigned char *image, MPI_Count item) {
    return image + buffer->before + item * buffer->layout->extent;
}

void buffer_input(struct buffer *buffer, MPI_Count first, MPI_Count count, const void *packed) {
    layout_unpack(buffer->layout, item_at(buffer, buffer->actual, first), count, packed);
    buffer_expect(buffer, first, count, packed);
}

void buffer_expect(struct buffer *buffer, MPI_Count first, MPI_Count count, const void *packed) {
    layout_unpack(buffer->layout, item_at(buffer, buffer->wanted, first), count, packed);
}

bool buffer_is_kept(const struct buffer *buffer, MPI_Count first, MPI_Count count) {
    size_t bytes = (size_t)count * buffer->layout->packed;
    unsigned char *actual = allocate(bytes), *wanted = allocate(bytes);
    layout_pack(buffer->layout, item_at(buffer, buffer->actual, first), count, actual);
    layout_pack(buffer->layout, item_at(buffer, buffer->wanted, first), count, wanted);
    bool kept = memcmp(actual, wanted, bytes) == 0;
    free(actual);
    free(wanted);
    return kept;
}

/* Both images get the same data there, so that neither the comparison nor the digest sees it. */
void buffer_undefined(struct buffer *buffer, MPI_Count first, MPI_Count count) {
    void *zeros = allocate((size_t)count * buffer->layout->packed);
    memset(zeros, 0, (size_t)count * buffer->layout->packed);
    buffer_input(buffer, first, count, zeros);
    free(zeros);
}

void buffer_padding_undefined(struct buffer *buffer) {
    size_t bytes = (size_t)buffer->items * buffer->layout->packed;
    void *data = allocate(bytes);
    layout_pack(buffer->layout, buffer->origin, buffer->items, data);
    unsigned char *items = buffer->origin;
    memcpy(items, buffer->wanted + buffer->before,
           (size_t)(buffer->items * buffer->layout->extent));
    layout_unpack(buffer->layout, items, buffer->items, data);
    free(data);
}

void buffer_check(struct buffer *buffer, const char *what) {
    size_t at = 0;
    if (memcmp(buffer->actual, buffer->wanted, buffer->size) != 0) {
        while (buffer->actual[at] == buffer->wanted[at]) {
            at++;
        }
        ptrdiff_t offset = (ptrdiff_t)at - buffer->before;
        ptrdiff_t extent = buffer->layout->extent;
        check(false, "%s: %lld items of %s: byte %td (item %td) is 0x%02x, expected 0x%02x", what,
              (long long)buffer->items, buffer->layout->name, offset,
              extent > 0 ? offset / extent : 0, buffer->actual[at], buffer->wanted[at]);
    } else {
        check(true, "%s", what);
    }
    check_digest(buffer->actual, buffer->size);
    free(buffer->actual);
    free(buffer->wanted);
}
