#include "heap.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t items, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

/* Where the library's code is; nowhere in a native run. */
static uintptr_t library_start, library_end;
static atomic_long allocations, failures;
/* How many more succeed, and how many fail then. */
static atomic_long successes, shortage;

static bool fails(const void *caller) {
    uintptr_t address = (uintptr_t)caller;
    if (address < library_start || address >= library_end) {
        return false;
    }
    atomic_fetch_add(&allocations, 1);
    if (atomic_load(&shortage) == 0 || atomic_fetch_sub(&successes, 1) > 0) {
        return false;
    }
    atomic_fetch_sub(&shortage, 1);
    atomic_fetch_add(&failures, 1);
    return true;
}

void *malloc(size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t items, size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(items, bytes);
}

void *realloc(void *memory, size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    if (fails(__builtin_return_address(0))) {
        return ENOMEM;
    }
    *memory = __libc_memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}

static int find_library(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    if (strstr(info->dlpi_name, "libcirculant") == NULL) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            library_start = info->dlpi_addr + part->p_vaddr;
            library_end = library_start + part->p_memsz;
        }
    }
    return 1;
}

bool heap_watch(void) {
    dl_iterate_phdr(find_library, NULL);
    return library_end != 0;
}

void heap_fail(long after, long times) {
    atomic_store(&shortage, 0);
    atomic_store(&successes, after);
    atomic_store(&allocations, 0);
    atomic_store(&failures, 0);
    atomic_store(&shortage, times);
}

long heap_allocations(void) { return atomic_load(&allocations); }

long heap_failures(void) { return atomic_load(&failures); }
