/*
 * Stands for a tool, or a program, whose MPI_Init does not come to circulant as usual. By PAST:
 *
 *     library    it calls the MPI library's own PMPI_Init
 *     session    it opens a session of MPI first, where the MPI has sessions
 *     calls      it makes a collective call before it returns, as tools do that share what they were told
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static void *in_library(const char *name) {
    Dl_info info;
    /* circulant has no function of this name. */
    void *of_mpi = dlsym(RTLD_DEFAULT, "PMPI_Get_processor_name");
    if (of_mpi == NULL || dladdr(of_mpi, &info) == 0)
        abort();
    void *library = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    return library == NULL ? NULL : dlsym(library, name);
}

static int is_set(const char *what) {
    const char *past = getenv("PAST");
    return past != NULL && strcmp(past, what) == 0;
}

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
static MPI_Session session;

static void open_session(void) {
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
}

int MPI_Finalize(void) {
    if (is_set("session"))
        MPI_Session_finalize(&session);
    return PMPI_Finalize();
}
#else
static void open_session(void) {
}
#endif

/* The function of this name that is to be called, or a null pointer for the usual one. */
static void *begin(const char *name) {
    if (is_set("session"))
        open_session();
    return is_set("library") ? in_library(name) : NULL;
}

/* Rank 0's configuration, which all processes get. */
static int end(int code) {
    char configuration[464] = "";
    int rank;
    if (is_set("calls")) {
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
        memset(configuration, rank == 0 ? 'c' : 'x', sizeof configuration);
        PMPI_Bcast(configuration, sizeof configuration, MPI_CHAR, 0, MPI_COMM_WORLD);
        for (size_t i = 0; i < sizeof configuration; i++)
            if (configuration[i] != 'c')
                abort();
    }
    return code;
}

int MPI_Init(int *argc, char ***argv) {
    int (*past)(int *, char ***) = (int (*)(int *, char ***))begin("PMPI_Init");
    return end(past != NULL ? past(argc, argv) : PMPI_Init(argc, argv));
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int (*past)(int *, char ***, int, int *) =
        (int (*)(int *, char ***, int, int *))begin("PMPI_Init_thread");
    return end(past != NULL ? past(argc, argv, required, provided)
                            : PMPI_Init_thread(argc, argv, required, provided));
}
