/*
 * Processes that cannot share memory. UNSHARED is the function that fails, on rank UNSHARED_RANK alone:
 *
 *     memfd_create    there is no memory without a name (an old kernel)
 *     open            processes do not see each other's descriptors (containers of their own)
 *     fallocate       the system has no memory for it
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static bool fails(const char *function) {
    const char *name = getenv("UNSHARED"), *own = getenv("OMPI_COMM_WORLD_RANK");
    const char *rank = getenv("UNSHARED_RANK");
    own = own ? own : getenv("PMI_RANK");
    return name && own && rank && !strcmp(name, function) && !strcmp(own, rank);
}

int memfd_create(const char *name, unsigned flags) {
    if (fails("memfd_create")) {
        errno = ENOSYS;
        return -1;
    }
    int (*next)(const char *, unsigned) = (int (*)(const char *, unsigned))dlsym(RTLD_NEXT, "memfd_create");
    return next(name, flags);
}

int fallocate(int file, int mode, off_t start, off_t length) {
    if (fails("fallocate")) {
        errno = ENOSPC;
        return -1;
    }
    int (*next)(int, int, off_t, off_t) = (int (*)(int, int, off_t, off_t))dlsym(RTLD_NEXT, "fallocate");
    return next(file, mode, start, length);
}

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if (strncmp(path, "/proc/", 6) == 0 && strstr(path, "/fd/") && fails("open")) {
        errno = ENOENT;
        return -1;
    }
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    return next(path, flags, mode);
}
