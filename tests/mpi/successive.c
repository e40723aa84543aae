/*
 * circulant_successive_bcast and circulant_successive_owner: every value depends on all values before it
 * as its owner has stored them, and every process compares what it stores with a serial computation.
 *
 *   successive            communicators, steps, sizes and datatypes of many kinds; callbacks that use MPI
 *   successive alone      the same, but for callbacks that wait for those of others
 *   successive faults     callbacks that return errors
 *   successive arguments  wrong arguments
 *   successive memory     values that there is no memory for
 *   successive roots      MPI_Bcast with roots that follow each other now and then (CIRCULANT_BCAST_ORDER)
 *   successive threads    on two communicators at once
 *   successive many N     N tiny steps
 *   successive slow N     N steps that take long to store
 *
 * Prints how many calls circulant could serve.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../include/circulant.h"
#include "check.h"

#pragma weak circulant_successive_bcast
#pragma weak circulant_successive_owner

/* The binary reflected Gray code by its definition, one code after the other. */
static int owner_of(int size, int step) {
    int place = step % size, owner = 0;
    if ((size & (size - 1)) != 0) {
        return place;
    }
    for (int half = size / 2; half > 0; half /= 2) {
        if (place >= half) {
            owner += half;
            place = 2 * half - 1 - place;
        }
    }
    return owner;
}

/* How the ints of a value are laid out. */
enum layout { PLAIN, PAIRS, GAPS, BACKWARDS, SHIFTED, LOWERED, LAYOUTS };

struct task {
    MPI_Comm comm;
    int rank, size, steps, count, ints; /* ints of a value; of the layout, elements */
    enum layout layout;
    MPI_Datatype type;
    uint64_t seed, past;
    uint64_t *pasts; /* of a serial computation: before each step */
    int stored, produced;
    int fault_step, fault_code, fault_rank; /* what a callback returns where */
    bool fault_produces;
    void (*inside)(struct task *, int); /* called in every store */
    struct task *nested;
};

static int int_of(const struct task *t, int step, int index, uint64_t past) {
    return (int)mix(t->seed, (uint64_t)step, (uint64_t)index, past);
}

/* Where int `index` of a value is, in ints from the address of the buffer. */
static int place(const struct task *t, int index) {
    switch (t->layout) {
    case GAPS:
        return index / 2 * 4 + index % 2 * 2;
    case BACKWARDS:
        return index / 2 * 2 + 1 - index % 2;
    case SHIFTED:
        return index + 3;
    default:
        return index;
    }
}

/* The element types: an int; two; two of four; two, the second first; one, three ints from its address; one with the
 * bounds of the one before it. */
static MPI_Datatype type_of(enum layout layout) {
    MPI_Datatype type = MPI_INT, part;
    const int back[2] = {1, 0}, three[1] = {3};
    switch (layout) {
    case PAIRS:
        MPI_Type_contiguous(2, MPI_INT, &type);
        break;
    case GAPS:
        MPI_Type_vector(2, 1, 2, MPI_INT, &part);
        MPI_Type_create_resized(part, 0, 4 * (MPI_Aint)sizeof(int), &type);
        MPI_Type_free(&part);
        break;
    case BACKWARDS:
        MPI_Type_create_indexed_block(2, 1, back, MPI_INT, &type);
        break;
    case SHIFTED:
        MPI_Type_create_indexed_block(1, 1, three, MPI_INT, &part);
        MPI_Type_create_resized(part, 0, sizeof(int), &type);
        MPI_Type_free(&part);
        break;
    case LOWERED:
        MPI_Type_create_resized(MPI_INT, -(MPI_Aint)sizeof(int), sizeof(int), &type);
        break;
    default:
        return MPI_INT;
    }
    MPI_Type_commit(&type);
    return type;
}

static int ints_of_element(enum layout layout) {
    return layout == PAIRS || layout == GAPS || layout == BACKWARDS ? 2 : 1;
}

static uint64_t with(uint64_t past, int value) {
    return mix(past, (uint32_t)value, 17, 4);
}

static void serially(struct task *t) {
    uint64_t past = t->seed;
    t->pasts = allocate(sizeof(uint64_t) * (size_t)(t->steps + 1));
    for (int step = 0; step < t->steps; step++) {
        uint64_t next = past;
        t->pasts[step] = past;
        for (int i = 0; i < t->ints; i++) {
            next = with(next, int_of(t, step, i, past));
        }
        past = t->ints > 0 ? next : with(past, step);
    }
    t->pasts[t->steps] = past;
}

static int fault(const struct task *t, int step, bool produces) {
    bool here = t->fault_step == step && t->fault_rank == t->rank && t->fault_produces == produces;
    return here ? t->fault_code : MPI_SUCCESS;
}

static int produce(int step, void *buffer, void *context) {
    struct task *t = context;
    int *ints = buffer;
    check((uintptr_t)buffer % 16 == 0, "produce(%d) at %p", step, buffer);
    check(step == t->stored, "produce(%d) after %d stores", step, t->stored);
    check(owner_of(t->size, step) == t->rank, "produce(%d) on rank %d", step, t->rank);
    for (int i = 0; i < t->ints; i++) {
        ints[place(t, i)] = int_of(t, step, i, t->past);
    }
    t->produced++;
    return fault(t, step, true);
}

static int store(int step, void *buffer, void *context) {
    struct task *t = context;
    int *ints = buffer;
    int wrong = 0;
    check((uintptr_t)buffer % 16 == 0, "store(%d) at %p", step, buffer);
    check(step == t->stored, "store(%d) after %d stores", step, t->stored);
    for (int i = 0; i < t->ints; i++) {
        wrong += ints[place(t, i)] != int_of(t, step, i, t->pasts[step]);
        if (i == 0) {
            check_digest(&ints[place(t, i)], sizeof(int));
        }
    }
    check(wrong == 0, "step %d: %d of %d ints are wrong", step, wrong, t->ints);
    uint64_t past = t->past;
    for (int i = 0; i < t->ints; i++) {
        past = with(past, ints[place(t, i)]);
    }
    t->past = t->ints > 0 ? past : with(past, step);
    t->stored++;
    /* What is written here is nobody's business. */
    for (int i = 0; i < t->ints; i++) {
        ints[place(t, i)] = -step;
    }
    if (t->inside != NULL) {
        t->inside(t, step);
    }
    return fault(t, step, false);
}

static long calls;

static struct task task_on(MPI_Comm comm, int steps, int count, enum layout layout) {
    struct task t = {.comm = comm, .steps = steps, .count = count, .layout = layout, .fault_step = -1};
    MPI_Comm_rank(comm, &t.rank);
    MPI_Comm_size(comm, &t.size);
    t.ints = count * ints_of_element(layout);
    t.type = type_of(layout);
    t.seed = t.past = check_iteration();
    serially(&t);
    return t;
}

static int run(struct task *t) {
    calls += t->size > 1;
    return circulant_successive_bcast(t->steps, t->count, t->type, produce, store, t, t->comm);
}

static void release(struct task *t) {
    if (t->type != MPI_INT) {
        MPI_Type_free(&t->type);
    }
    free(t->pasts);
}

static void complete(struct task *t) {
    int own = 0;
    check_success(run(t), "circulant_successive_bcast");
    for (int step = 0; step < t->steps; step++) {
        own += owner_of(t->size, step) == t->rank;
    }
    check(t->stored == t->steps, "%d values of %d were stored", t->stored, t->steps);
    check(t->produced == own, "%d values of %d were produced", t->produced, own);
    check(t->past == t->pasts[t->steps], "not what a serial computation gives");
    release(t);
}

static void owners(MPI_Comm comm) {
    int size;
    MPI_Comm_size(comm, &size);
    for (int step = 0; step < 3 * size + 2; step++) {
        int owner = circulant_successive_owner(comm, step);
        check(owner == owner_of(size, step), "step %d: %d is the owner", step, owner);
    }
}

static bool callbacks_wait = true;

/* On the communicator itself, with everything that a receive can be open to; and others' collectives. */
static MPI_Comm beside;

static void exchange(struct task *t, int step) {
    int next = (t->rank + 1) % t->size, seen = -1, sum = 0, one = 1;
    MPI_Sendrecv(&step, 1, MPI_INT, next, step % 5, &seen, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                 t->comm, MPI_STATUS_IGNORE);
    check(seen == step, "step %d: a neighbour was in %d", step, seen);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, beside);
    check(sum == t->size, "%d processes", sum);
}

static void nest(struct task *t, int step) {
    if (step % 3 == 1) {
        struct task inner = task_on(beside, t->size + 2, 5, step % LAYOUTS);
        complete(&inner);
    }
}

static void dawdle(struct task *t, int step) {
    (void)t;
    (void)step;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* The call goes on with the type all the same. */
static void free_type(struct task *t, int step) {
    if (step == 0) {
        MPI_Type_free(&t->type);
        t->type = MPI_INT;
    }
}

static void everything(MPI_Comm comm, const char *name) {
    int size;
    MPI_Comm_size(comm, &size);
    check_case("%s: owners", name);
    owners(comm);
    const int steps[] = {0, 1, 2, size - 1, size, size + 1, 3 * size + 2, 100, 13 * size};
    const int counts[] = {1, 0, 7, 300, 2000};
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            enum layout layout = (s + c) % LAYOUTS;
            check_case("%s: %d steps of %d, layout %d", name, steps[s], counts[c], layout);
            struct task t = task_on(comm, steps[s], counts[c], layout);
            complete(&t);
        }
    }
    for (int layout = 0; layout < LAYOUTS; layout++) {
        check_case("%s: large, layout %d", name, layout);
        struct task t = task_on(comm, size + 3, 70000, layout);
        complete(&t);
    }
    /* Nothing between the calls; and processes that dawdle. */
    for (int turn = 0; turn < 30; turn++) {
        check_case("%s: turn %d", name, turn);
        struct task t = task_on(comm, turn % 7, 3, turn % LAYOUTS);
        complete(&t);
    }
    check_case("%s: a callback frees the type", name);
    struct task t = task_on(comm, size + 9, 4, GAPS);
    t.inside = free_type;
    complete(&t);
    if (!callbacks_wait) {
        return;
    }
    MPI_Comm_dup(comm, &beside);
    check_case("%s: with messages in callbacks", name);
    t = task_on(comm, 2 * size + 1, 4, PLAIN);
    t.inside = exchange;
    complete(&t);
    check_case("%s: nested", name);
    t = task_on(comm, size + 4, 4, GAPS);
    t.inside = nest;
    complete(&t);
    MPI_Comm_free(&beside);
}

/* Everyone ends, with the code of `t`'s fault or of an earlier one. */
static void end_with(struct task *t, int code) {
    int returned = run(t), least, most;
    check(returned == code, "returned %d, not %d", returned, code);
    MPI_Allreduce(&returned, &least, 1, MPI_INT, MPI_MIN, t->comm);
    MPI_Allreduce(&returned, &most, 1, MPI_INT, MPI_MAX, t->comm);
    check(least == most, "%d here, %d there", least, most);
    release(t);
}

static void faults(void) {
    enum { CODE = 4711 };
    int steps = 2 * world_size + 3;
    for (int step = 0; step < steps; step++) {
        for (int rank = 0; rank <= world_size; rank++) {
            check_case("fault of %d in step %d", rank, step);
            struct task t = task_on(MPI_COMM_WORLD, steps, 1 + step % 3 * 1000, step % LAYOUTS);
            t.fault_step = step;
            /* The last is the owner's when it produces. */
            t.fault_produces = rank == world_size;
            t.fault_rank = t.fault_produces ? owner_of(world_size, step) : rank;
            t.fault_code = -CODE - rank;
            end_with(&t, t.fault_code);
            check(t.stored <= step + 1 + world_size, "%d values were stored", t.stored);
        }
        check_case("faults of all in step %d", step);
        struct task t = task_on(MPI_COMM_WORLD, steps, 2, PLAIN);
        t.fault_step = step;
        t.fault_rank = t.rank;
        t.fault_code = CODE + t.rank;
        end_with(&t, CODE);
        check_case("faults of all, one step after the other, from step %d", step);
        t = task_on(MPI_COMM_WORLD, steps, 2, PLAIN);
        t.fault_step = step + world_size - 1 - t.rank;
        t.fault_rank = t.rank;
        t.fault_code = CODE + t.rank;
        end_with(&t, step < steps ? CODE + world_size - 1 : MPI_SUCCESS);
        check_case("after faults in step %d", step);
        t = task_on(MPI_COMM_WORLD, steps, 2, PLAIN);
        complete(&t);
    }
}

static void expect_class(int code, int class, const char *what) {
    int found = MPI_SUCCESS;
    MPI_Error_class(code, &found);
    check(found == class, "%s: error class %d, not %d", what, found, class);
}

static long raised;

static void count_error(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    raised++;
}

/* Values that the last process has no memory for, because of the gaps of its elements; and that nobody has. */
static void memory(void) {
    MPI_Datatype part, type;
    check_case("no memory on one process");
    struct task t = task_on(MPI_COMM_WORLD, world_size + 2, 1 << 12, PLAIN);
    if (world_rank == world_size - 1) {
        MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)1 << 40, &t.type);
        MPI_Type_commit(&t.type);
    }
    expect_class(run(&t), MPI_ERR_NO_MEM, "gaps");
    check(world_rank < world_size - 1 || t.stored == 0, "%d values without memory", t.stored);
    release(&t);
    check_case("no memory anywhere");
    t = task_on(MPI_COMM_WORLD, 2, 1, PLAIN);
    MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &part);
    MPI_Type_contiguous(1 << 29, part, &type);
    MPI_Type_commit(&type);
    int code = circulant_successive_bcast(2, 2, type, produce, store, &t, MPI_COMM_WORLD);
    expect_class(code, MPI_ERR_NO_MEM, "values");
    check(t.stored == 0 && t.produced == 0, "a callback was called");
    MPI_Type_free(&part);
    MPI_Type_free(&type);
    release(&t);
}

static void arguments(void) {
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(count_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm world = MPI_COMM_WORLD, half, inter;
    struct task t = task_on(world, 1, 1, PLAIN);
    check_case("arguments");
    expect_class(circulant_successive_bcast(-1, 1, MPI_INT, produce, store, &t, world), MPI_ERR_ARG, "n");
    expect_class(circulant_successive_bcast(1, -1, MPI_INT, produce, store, &t, world), MPI_ERR_COUNT, "count");
    expect_class(circulant_successive_bcast(1, 1, MPI_DATATYPE_NULL, produce, store, &t, world), MPI_ERR_TYPE,
                 "datatype");
    expect_class(circulant_successive_bcast(1, 1, MPI_INT, NULL, store, &t, world), MPI_ERR_ARG, "produce");
    expect_class(circulant_successive_bcast(1, 1, MPI_INT, produce, NULL, &t, world), MPI_ERR_ARG, "store");
    expect_class(circulant_successive_bcast(1, 1, MPI_INT, produce, store, &t, MPI_COMM_NULL), MPI_ERR_COMM, "null");
    /* Of one process alone, so that none of the others may be needed to find it. */
    const bool alone = world_rank == world_size - 1;
    MPI_Datatype uncommitted;
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    if (alone) {
        expect_class(circulant_successive_bcast(1, 1, uncommitted, produce, store, &t, world), MPI_ERR_TYPE,
                     "uncommitted");
    }
    MPI_Type_free(&uncommitted);
    check(circulant_successive_owner(world, -1) == MPI_UNDEFINED, "the owner of step -1");
    check(circulant_successive_owner(MPI_COMM_NULL, 0) == MPI_UNDEFINED, "an owner in no communicator");
    check(raised == 8 + alone, "%ld errors were raised", raised);
    check(t.stored == 0 && t.produced == 0, "a callback was called");
    if (world_size > 1) {
        MPI_Comm_split(world, world_rank % 2, world_rank, &half);
        MPI_Intercomm_create(half, 0, world, 1 - world_rank % 2, 0, &inter);
        MPI_Comm_set_errhandler(inter, handler);
        expect_class(circulant_successive_bcast(1, 1, MPI_INT, produce, store, &t, inter), MPI_ERR_COMM, "inter");
        check(circulant_successive_owner(inter, 0) == MPI_UNDEFINED, "an owner between groups");
        check(raised == 10 + alone, "%ld errors were raised", raised);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    MPI_Comm_set_errhandler(world, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    complete(&t);
}

/* Roots at random, which often follow each other; broadcasts of many sizes and layouts. */
static void roots(void) {
    long followed = 0, others = 0;
    int latest = -1;
    for (int turn = 0; turn < 600; turn++) {
        check_case("broadcast %d", turn);
        uint64_t random = check_iteration();
        int next = -1;
        for (int step = 0; latest >= 0 && step < world_size; step++) {
            if (owner_of(world_size, step) == latest) {
                next = owner_of(world_size, step + 1);
            }
        }
        int root = random % 4 == 0 || next < 0 ? (int)(random / 4 % (uint64_t)world_size) : next;
        const int sizes[] = {1, 3, 256, 1000, 5000, 16384, 16385, 40000, 0};
        int count = sizes[random / 64 % 9];
        enum layout layout = random / 1024 % LAYOUTS;
        if (ints_of_element(layout) == 2) {
            count /= 2;
        }
        struct task t = task_on(MPI_COMM_WORLD, 1, count, layout);
        int *buffer = allocate(sizeof(int) * (size_t)(4 * count + 4)), wrong = 0;
        for (int i = 0; i < t.ints; i++) {
            buffer[place(&t, i)] = world_rank == root ? int_of(&t, 0, i, t.past) : -1;
        }
        check_success(MPI_Bcast(buffer, count, t.type, root, MPI_COMM_WORLD), "MPI_Bcast");
        for (int i = 0; i < t.ints; i++) {
            wrong += buffer[place(&t, i)] != int_of(&t, 0, i, t.past);
        }
        check(wrong == 0, "root %d: %d of %d ints are wrong", root, wrong, t.ints);
        bool follows = world_size > 1 && root == next && t.ints > 0 && t.ints <= 16384;
        followed += follows;
        others += !follows;
        latest = root;
        release(&t);
        free(buffer);
    }
    if (world_rank == 0) {
        printf("followed=%ld others=%ld\n", followed, others);
    }
}

static void *in_thread(void *comm) {
    check_thread_begin(1);
    for (int turn = 0; turn < 20; turn++) {
        check_case("thread, turn %d", turn);
        struct task t = task_on(*(MPI_Comm *)comm, 40, 10, turn % LAYOUTS);
        complete(&t);
    }
    check_thread_end();
    return NULL;
}

static void threads(void) {
    MPI_Comm other;
    pthread_t thread;
    int provided;
    MPI_Query_thread(&provided);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (provided == MPI_THREAD_MULTIPLE) {
        pthread_create(&thread, NULL, in_thread, &other);
    }
    for (int turn = 0; turn < 20; turn++) {
        check_case("main thread, turn %d", turn);
        struct task t = task_on(MPI_COMM_WORLD, 40, 10, turn % LAYOUTS);
        complete(&t);
    }
    if (provided == MPI_THREAD_MULTIPLE) {
        pthread_join(thread, NULL);
    }
    MPI_Comm_free(&other);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    bool with_threads = strcmp(what, "threads") == 0;
    check_begin(&argc, &argv, "successive", with_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    if (circulant_successive_bcast == NULL && strcmp(what, "roots") != 0) {
        fprintf(stderr, "successive: circulant is not loaded\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (strcmp(what, "faults") == 0) {
        faults();
    } else if (strcmp(what, "arguments") == 0) {
        arguments();
    } else if (strcmp(what, "memory") == 0) {
        memory();
    } else if (strcmp(what, "roots") == 0) {
        roots();
    } else if (with_threads) {
        threads();
    } else if (argc > 2) {
        check_case("%s steps", argv[2]);
        struct task t = task_on(MPI_COMM_WORLD, atoi(argv[2]), 1, PLAIN);
        t.inside = strcmp(what, "slow") == 0 ? dawdle : NULL;
        complete(&t);
    } else {
        MPI_Comm backwards, part;
        callbacks_wait = strcmp(what, "alone") != 0;
        everything(MPI_COMM_WORLD, "world");
        /* More processes take long, and have their parts. */
        if (world_size <= 9) {
            MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &backwards);
            everything(backwards, "backwards");
            MPI_Comm_free(&backwards);
        }
        MPI_Comm_split(MPI_COMM_WORLD, world_rank % 3 == 1, world_rank * 7 % 5, &part);
        check_color(world_rank % 3 == 1);
        everything(part, "part");
        check_color(0);
        MPI_Comm_free(&part);
    }
    long all = 0;
    if (!with_threads) {
        all = calls;
    }
    if (world_rank == 0) {
        printf("calls=%ld\n", all);
    }
    return check_end();
}
