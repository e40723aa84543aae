/*
 * Stands for circulant of another version: makes the entry of its own rank in the launcher's store as that
 * would, and does nothing else.
 */
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char entry[] = "0.0.9-abc";

struct value {
    unsigned short type;
    union {
        const char *string;
        char room[248];
    } data;
};

static void *found[2];

int PMIx_Commit(void);

static int find(struct dl_phdr_info *info, size_t size, void *names) {
    (void)size;
    char (*name)[256] = names;
    for (int i = 0; i < 511; i++)
        if (!*name[i]) {
            snprintf(name[i], sizeof name[i], "%s", info->dlpi_name);
            break;
        }
    return 0;
}

/* What Open MPI calls in MPI_Init, once it has put what is its own. */
int PMIx_Commit(void) {
    static char names[512][256];
    dl_iterate_phdr(find, names);
    for (int i = 0; names[i][0] && !found[0]; i++) {
        void *object = dlopen(names[i], RTLD_NOLOAD | RTLD_LAZY);
        void *commit = object ? dlsym(object, "PMIx_Commit") : NULL;
        if (commit && commit != (void *)PMIx_Commit) {
            found[0] = commit;
            found[1] = dlsym(object, "PMIx_Put");
        }
    }
    char key[512] = "";
    snprintf(key, sizeof key, "circulant-%s", getenv("PMIX_RANK"));
    struct value value = {.type = 3, .data.string = entry};
    ((int (*)(unsigned char, const char *, struct value *))found[1])(3, key, &value);
    return ((int (*)(void))found[0])();
}

static void ask(const char *line, char *answer, size_t room) {
    int connection = atoi(getenv("PMI_FD"));
    size_t length = 0;
    if (write(connection, line, strlen(line)) < 0)
        return;
    while (length + 1 < room && read(connection, answer + length, 1) == 1 && answer[length] != '\n')
        length++;
    answer[length] = '\0';
}

static void put(void) {
    char line[1024], answer[1024], space[256] = "";
    if (!getenv("PMI_FD"))
        return;
    ask("cmd=init pmi_version=1 pmi_subversion=1\n", answer, sizeof answer);
    ask("cmd=get_my_kvsname\n", answer, sizeof answer);
    sscanf(strstr(answer, "kvsname="), "kvsname=%255s", space);
    snprintf(line, sizeof line, "cmd=put kvsname=%s key=circulant-%s value=%s\n", space,
             getenv("PMI_RANK"), entry);
    ask(line, answer, sizeof answer);
}

int MPI_Init(int *argc, char ***argv) {
    put();
    return PMPI_Init(argc, argv);
}
