/*
 * Derived datatypes with their type maps written out by hand, and buffers that know which of their
 * bytes a call may change.
 *
 * A buffer has two images of the same memory: the one that MPI works on and the one that is
 * expected. Both begin as the same pattern, guard bytes on either side included. Whatever a call
 * should write is put into the expected image through the type map, and then the two are compared
 * as a whole: data, gaps and guards at once.
 */
#ifndef LAYOUT_H
#define LAYOUT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

enum { ATOMS_MAX = 16, COLUMNS = 4096 };

struct layout {
    const char *name;
    MPI_Datatype type;
    bool predefined;             /* not to be freed */
    int atoms;                   /* basic elements of one item, in the order of the signature */
    ptrdiff_t offset[ATOMS_MAX]; /* of each from the item's origin */
    int width[ATOMS_MAX];        /* bytes of each */
    ptrdiff_t lower, upper;      /* true bounds of one item */
    ptrdiff_t extent;            /* from one item to the next */
    size_t packed;               /* sum of widths */
    MPI_Count limit;             /* more items than this would overlap */
};

/* A predefined type that is one element of `width` bytes. */
struct layout layout_basic(const char *name, MPI_Datatype type, int width);

/* Layouts whose signature is ints only: any two agree when they hold as many ints. */
enum { INT_LAYOUTS = 11 };
struct layout layout_of_ints(int which);
/* A number of ints that whole items of every one of those layouts make up. */
enum { INTS_UNIT = 12 };

/* Layouts of the signature {double, char, char, char, int}, in different arrangements. */
enum { RECORD_LAYOUTS = 3 };
struct layout layout_of_record(int which);

/* Types of size 0: of extent 0, of extent 16, and a struct without members. */
enum { EMPTY_LAYOUTS = 3 };
struct layout layout_of_nothing(int which);

/* For send buffers only: n times the same int, by an extent of 0. */
struct layout layout_repeated_int(void);

void layout_free(struct layout *layout);

/* Compares the layout with what MPI says of its type. */
void layout_check(const struct layout *layout);

/* Moves `count` items between memory in this layout and a packed stream. */
void layout_unpack(const struct layout *layout, void *origin, MPI_Count count, const void *packed);
void layout_pack(const struct layout *layout, const void *origin, MPI_Count count, void *packed);

struct buffer {
    const struct layout *layout;
    MPI_Count items;
    size_t size;                    /* of each image, guards included */
    ptrdiff_t before;               /* bytes of an image in front of the origin */
    unsigned char *actual, *wanted; /* the two images */
    void *origin;                   /* what is passed to MPI */
};

/* Room for `items` items of the layout, which must outlive the buffer. */
struct buffer buffer_new(const struct layout *layout, MPI_Count items);

/* Puts packed data at item `first`: in both images (input), or in the expected one (a result). */
void buffer_input(struct buffer *buffer, MPI_Count first, MPI_Count count, const void *packed);
void buffer_expect(struct buffer *buffer, MPI_Count first, MPI_Count count, const void *packed);

/* Whether these items are still what they were, or should be. */
bool buffer_is_kept(const struct buffer *buffer, MPI_Count first, MPI_Count count);

/* Declares, after a call, that it may have left anything in these items. */
void buffer_undefined(struct buffer *buffer, MPI_Count first, MPI_Count count);

/* Declares that the bytes between an item's atoms are padding, which a call may copy. */
void buffer_padding_undefined(struct buffer *buffer);

/* Compares the images, adds the result to the digest, and frees them. */
void buffer_check(struct buffer *buffer, const char *what);

#endif
