/*
 * MPI_Allgather, MPI_Allgatherv and MPI_Bcast on inter-communicators: groups of many sizes, each the larger one,
 * with much, little or nothing to send, in one direction only; datatypes that differ from rank to
 * rank, results in any order.
 */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "check.h"
#include "layout.h"
#include "sizes.h"

struct groups {
    MPI_Comm inter;
    int own;     /* 0 or 1 */
    int rank;    /* in the own group */
    int size[2]; /* of either group */
};

/* Ways to divide the ranks into two groups. */
enum { DIVISIONS = 5 };

static int group_of(int division, int rank) {
    const int group[DIVISIONS] = {rank > 0, rank < world_size - 1, rank % 3 != 0,
                                  rank < world_size / 2, rank >= (world_size * 3 + 3) / 4};
    return group[division];
}

static struct groups divide(int division) {
    struct groups g = {.own = group_of(division, world_rank)};
    int leader[2] = {-1, -1};
    for (int rank = world_size - 1; rank >= 0; rank--) {
        leader[group_of(division, rank)] = rank;
        g.size[group_of(division, rank)]++;
    }
    MPI_Comm local;
    MPI_Comm_split(MPI_COMM_WORLD, g.own, world_rank, &local);
    MPI_Comm_rank(local, &g.rank);
    if (g.size[0] > 0 && g.size[1] > 0) {
        MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, leader[1 - g.own], division, &g.inter);
    } else {
        g.inter = MPI_COMM_NULL;
    }
    MPI_Comm_free(&local);
    return g;
}

/* How a group spreads what it sends over its ranks. */
enum { SPREADS = 8 };

static void spread(int which, MPI_Count unit, int group, int ranks, MPI_Count *counts) {
    for (int rank = 0; rank < ranks; rank++) {
        uint64_t h = mix(check_iteration(), (uint64_t)rank, (uint64_t)unit, (uint64_t)group);
        const MPI_Count count[SPREADS] = {unit,
                                          unit * rank,
                                          unit * (ranks - rank),
                                          unit * (MPI_Count)(h % 4),
                                          (MPI_Count)(h & 1),
                                          rank == ranks / 2 ? unit * ranks : 0,
                                          rank % 2 ? 2 * unit : 0,
                                          0};
        counts[rank] = count[which];
    }
}

static MPI_Count total(const MPI_Count *counts, int ranks) {
    MPI_Count sum = 0;
    for (int rank = 0; rank < ranks; rank++) {
        sum += counts[rank];
    }
    return sum;
}

/* In rank order without gaps, with gaps in front, and in reverse order. */
enum { PLACINGS = 3 };

static MPI_Count place(int which, const MPI_Count *counts, int ranks, MPI_Aint *displacements) {
    MPI_Count next = 0;
    for (int i = 0; i < ranks; i++) {
        int rank = which == 2 ? ranks - 1 - i : i;
        next += which == 1 ? 2 : 0;
        displacements[rank] = (MPI_Aint)next;
        next += counts[rank];
    }
    return next;
}

static unsigned char *data_of(int group, int rank, size_t bytes) {
    check_color(group + 1);
    unsigned char *data = stream(rank, bytes);
    check_color(0);
    return data;
}

/* `counts` of each group are units of `unit` bytes, which whole items of both layouts make up. */
static void one(const struct groups *g, const struct layout *from, const struct layout *to,
                MPI_Count *const counts[2], size_t unit, int placing, bool equal) {
    int other = 1 - g->own, senders = g->size[other];
    MPI_Count *items = allocate(sizeof(MPI_Count) * (size_t)senders);
    MPI_Aint *displacements = allocate(sizeof(MPI_Aint) * (size_t)senders);
    for (int rank = 0; rank < senders; rank++) {
        items[rank] = counts[other][rank] * (MPI_Count)(unit / to->packed);
    }
    MPI_Count room = place(placing, items, senders, displacements);
    MPI_Count mine = counts[g->own][g->rank] * (MPI_Count)(unit / from->packed);
    struct buffer send = buffer_new(from, mine), receive = buffer_new(to, room);
    unsigned char *data = data_of(g->own, g->rank, (size_t)counts[g->own][g->rank] * unit);
    buffer_input(&send, 0, mine, data);
    free(data);
    for (int rank = 0; rank < senders; rank++) {
        data = data_of(other, rank, (size_t)counts[other][rank] * unit);
        buffer_expect(&receive, displacements[rank], items[rank], data);
        free(data);
    }
    calls_between(total(counts[0], g->size[0]) + total(counts[1], g->size[1]));
    void *sent = mine > 0 ? send.origin : NULL, *received = room > 0 ? receive.origin : NULL;
    if (equal) {
        allgather(sent, mine, from->type, received, items[0], to->type, g->inter);
    } else {
        allgatherv(sent, mine, from->type, received, items, displacements, to->type, g->inter);
    }
    buffer_check(&send, "send buffer");
    buffer_check(&receive, "receive buffer");
    free(items);
    free(displacements);
}

/* The layouts of this rank: ints, in a way of its own. */
struct ends {
    struct layout from, to;
};

/* Whether all of them are contiguous, for MPIs that natively want no others. */
static bool always_plain;

static struct ends ends_of(int turn) {
    struct ends ends;
    bool plain = always_plain || turn % 3 == 0;
    ends.from = layout_of_ints(plain ? 0 : (world_rank + turn) % INT_LAYOUTS);
    ends.to = layout_of_ints(plain ? 0 : (2 * world_rank + turn) % INT_LAYOUTS);
    return ends;
}

static void many(const struct groups *g, MPI_Count *const counts[2], int turn, bool equal) {
    struct ends ends = ends_of(turn);
    size_t unit = INTS_UNIT * sizeof(int);
    int other = 1 - g->own;
    MPI_Count received = total(counts[other], g->size[other]), sent = counts[g->own][g->rank];
    /* An item has one int at least, and gaps of two items in front. */
    if (INTS_UNIT * received + 2 * g->size[other] > ends.to.limit ||
        INTS_UNIT * sent > ends.from.limit) {
        layout_free(&ends.to);
        layout_free(&ends.from);
        ends.from = ends.to = layout_of_ints(0);
    }
    one(g, &ends.from, &ends.to, counts, unit, equal ? 0 : turn % PLACINGS, equal);
    layout_free(&ends.from);
    layout_free(&ends.to);
}

static void every_size(const struct groups *g) {
    static const MPI_Count units[][2] = {{1, 1},   {0, 3},    {5, 0},     {0, 0},    {7, 2},
                                         {1, 900}, {900, 10}, {1000, 999}, {30, 30}, {2000, 1}};
    MPI_Count *counts[2];
    for (int group = 0; group < 2; group++) {
        counts[group] = allocate(sizeof(MPI_Count) * (size_t)g->size[group]);
    }
    int turn = 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        check_case("allgather of %lld and %lld", (long long)units[i][0], (long long)units[i][1]);
        for (int group = 0; group < 2; group++) {
            spread(0, units[i][group], group, g->size[group], counts[group]);
        }
        many(g, counts, turn++, true);
    }
    for (int which = 0; which < SPREADS * SPREADS; which++) {
        MPI_Count unit = which % 5 == 0 ? 600 : which % 3;
        int spreads[2] = {which % SPREADS, which / SPREADS};
        check_case("allgatherv, spreads %d and %d of %lld", spreads[0], spreads[1],
                   (long long)unit);
        for (int group = 0; group < 2; group++) {
            spread(spreads[group], unit + group, group, g->size[group], counts[group]);
        }
        many(g, counts, turn++, false);
    }
    free(counts[0]);
    free(counts[1]);
}

/* Bytes, in numbers that segments do not divide. */
static void bytes(const struct groups *g) {
    struct layout byte = layout_basic("byte", MPI_BYTE, 1);
    MPI_Count *counts[2];
    for (int group = 0; group < 2; group++) {
        counts[group] = allocate(sizeof(MPI_Count) * (size_t)g->size[group]);
    }
    for (int i = 1; i < SIZES; i += 2) {
        check_case("allgather of %lld bytes", (long long)sizes[i]);
        spread(0, sizes[i], 0, g->size[0], counts[0]);
        spread(0, sizes[SIZES - i], 1, g->size[1], counts[1]);
        one(g, &byte, &byte, counts, 1, 0, true);
        check_case("allgatherv of %lld bytes", (long long)sizes[i]);
        spread(3, sizes[i], 0, g->size[0], counts[0]);
        spread(1, sizes[SIZES - i] / 4, 1, g->size[1], counts[1]);
        one(g, &byte, &byte, counts, 1, i % PLACINGS, false);
    }
    free(counts[0]);
    free(counts[1]);
}

/* `count` units of ints, from rank `root` of group `group`, in layouts of each rank's own. */
static void one_bcast(const struct groups *g, int group, int root, MPI_Count count, int turn) {
    check_case("bcast of %lld from rank %d of group %d", (long long)count, root, group);
    struct ends ends = ends_of(turn);
    size_t unit = INTS_UNIT * sizeof(int);
    if (count * INTS_UNIT > ends.to.limit) {
        layout_free(&ends.to);
        ends.to = layout_of_ints(0);
    }
    bool is_root = g->own == group && g->rank == root, receives = g->own != group;
    MPI_Count items = count * (MPI_Count)(unit / ends.to.packed);
    struct buffer buffer = buffer_new(&ends.to, items);
    unsigned char *data = data_of(group, root, (size_t)count * unit);
    if (receives) {
        buffer_expect(&buffer, 0, items, data);
    } else {
        buffer_input(&buffer, 0, items, data);
    }
    free(data);
    int argument = receives ? root : is_root ? MPI_ROOT : MPI_PROC_NULL;
    bcast(buffer.origin, items, ends.to.type, argument, g->inter);
    buffer_check(&buffer, "buffer");
    layout_free(&ends.from);
    layout_free(&ends.to);
}

static void broadcasts(const struct groups *g) {
    static const MPI_Count units[] = {0, 1, 7, 300, 3000};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        for (int group = 0; group < 2; group++) {
            for (int turn = 0; turn < 3; turn++) {
                int root = turn == 0 ? 0 : turn == 1 ? g->size[group] - 1 : g->size[group] / 2;
                one_bcast(g, group, root, units[i], turn + (int)i);
            }
        }
    }
}

static void duplicates(const struct groups *g) {
    MPI_Count *counts[2];
    struct groups twin = *g;
    MPI_Comm_dup(g->inter, &twin.inter);
    for (int group = 0; group < 2; group++) {
        counts[group] = allocate(sizeof(MPI_Count) * (size_t)g->size[group]);
        spread(1, 20, group, g->size[group], counts[group]);
    }
    counts[0][0] = 3;
    for (int turn = 0; turn < 3; turn++) {
        check_case("on a duplicate, turn %d", turn);
        many(turn % 2 ? g : &twin, counts, turn, false);
    }
    MPI_Comm_free(&twin.inter);
    free(counts[0]);
    free(counts[1]);
}

/* The call that comes first on a communicator is in error on all ranks, the neighbours of a broadcast's
 * root included: each gets its error, none waits for another, and what follows works. */
static void errors(const struct groups *g) {
    MPI_Datatype uncommitted;
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    const struct {
        const char *name;
        int count;
        MPI_Datatype type;
    } wrong[] = {{"count", -1, MPI_INT}, {"null", 1, MPI_DATATYPE_NULL}, {"type", 1, uncommitted}};
    int senders = g->size[1 - g->own], code, class;
    int *data = allocate(sizeof(int) * 4 * (size_t)world_size), *out = data + 2 * world_size;
    int *counts = allocate(sizeof(int) * (size_t)senders);
    for (int which = 0; which < 9; which++) {
        int count = wrong[which % 3].count;
        MPI_Datatype type = wrong[which % 3].type;
        struct groups twin = *g;
        MPI_Comm_dup(g->inter, &twin.inter);
        MPI_Comm_set_errhandler(twin.inter, MPI_ERRORS_RETURN);
        check_case("%s, operation %d", wrong[which % 3].name, which / 3);
        for (int rank = 0; rank < senders; rank++) {
            counts[rank] = count;
        }
        if (which / 3 == 0) {
            int root = g->own == 1 ? 0 : g->rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
            code = MPI_Bcast(data, count, type, root, twin.inter);
        } else if (which / 3 == 1) {
            code = MPI_Allgather(data, count, type, out, count, type, twin.inter);
        } else {
            int *displacements = (int *)memset(allocate(sizeof(int) * (size_t)senders), 0,
                                               sizeof(int) * (size_t)senders);
            code = MPI_Allgatherv(data, count, type, out, counts, displacements, type, twin.inter);
            free(displacements);
        }
        MPI_Error_class(code, &class);
        check(class != MPI_SUCCESS, "no error");
        check_digest(&class, sizeof class);
        /* Nobody is still in that call. */
        MPI_Barrier(MPI_COMM_WORLD);
        one_bcast(&twin, 0, 0, 100, 0);
        MPI_Comm_free(&twin.inter);
    }
    MPI_Type_free(&uncommitted);
    free(data);
    free(counts);
}

/* Calls whose bytes a test's rules tell apart: of 480 and of 48000 bytes for each of two processes, between
 * groups of two. */
static void sized(const struct groups *g) {
    for (int i = 0; i < 2; i++) {
        MPI_Count unit = i == 0 ? 10 : 1000;
        MPI_Count counts[2][2] = {{unit, unit}, {unit, unit}};
        MPI_Count *const both[2] = {counts[0], counts[1]};
        for (int group = 0; group < 2; group++) {
            one_bcast(g, group, 0, unit, 0);
        }
        check_case("allgather and allgatherv of %lld", (long long)unit);
        many(g, both, 0, true);
        many(g, both, 0, false);
    }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "intergroup", MPI_THREAD_SINGLE);
    always_plain = argc > 1 && strcmp(argv[1], "plain") == 0;
    for (int division = 0; division < DIVISIONS; division++) {
        struct groups g = divide(division);
        if (g.inter == MPI_COMM_NULL) {
            continue;
        }
        if (argc > 1 && strcmp(argv[1], "errors") == 0) {
            errors(&g);
            MPI_Comm_free(&g.inter);
            continue;
        }
        if (argc > 1 && strcmp(argv[1], "sized") == 0) {
            if (division == 3) {
                sized(&g);
            }
            MPI_Comm_free(&g.inter);
            continue;
        }
        if (division % 2 == 0) {
            broadcasts(&g);
        }
        bytes(&g);
        every_size(&g);
        duplicates(&g);
        broadcasts(&g);
        MPI_Comm_free(&g.inter);
    }
    return check_end();
}
