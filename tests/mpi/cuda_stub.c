/*
 * Stands for CUDA's driver: libcuda.so.1, as far as circulant asks it. "Device" memory is mapped
 * twice: without access at the address that a program passes to MPI, and at another where the
 * program may look at it.
 *
 * An MPI library that knows devices would have the driver copy. Those under test do not, and touch
 * the memory themselves: that is a signal here, and who did it is on the stack. It ends the process
 * if it was circulant, and lets in anyone else.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MEMORY_TYPE = 2, DEVICE = 2, SUCCESS = 0, INVALID_VALUE = 1 }; /* as in cuda.h */
enum { RANGES = 64, FRAMES = 64 };

struct range {
    char *device, *host;
    size_t length; /* 0: not in use */
};

static struct range ranges[RANGES];
static unsigned long long asked;

/* The C library copies for whoever asked it to. */
static const void *own_object, *c_library;
static int (*set_action)(int, const struct sigaction *, struct sigaction *);

int cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer);
void *stub_device_alloc(size_t size);
void *stub_device_host_view(void *device);
void stub_device_free(void *device);
void stub_protect_all(void);
unsigned long long stub_asked(void);

static _Noreturn void end(int status, const char *line) {
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written;
    _exit(status);
}

static struct range *range_of(uintptr_t address) {
    for (int i = 0; i < RANGES; i++) {
        if (address - (uintptr_t)ranges[i].device < ranges[i].length) {
            return &ranges[i];
        }
    }
    return NULL;
}

/* The file of the innermost function on the stack that is neither the C library's nor ours. */
static const char *toucher(void) {
    void *frames[FRAMES];
    int depth = backtrace(frames, FRAMES);
    for (int i = 0; i < depth; i++) {
        Dl_info info;
        if (dladdr(frames[i], &info) != 0 && info.dli_fbase != own_object &&
            info.dli_fbase != c_library) {
            return info.dli_fname;
        }
    }
    return NULL;
}

static void touched(int number, siginfo_t *info, void *context) {
    (void)context;
    struct range *range = range_of((uintptr_t)info->si_addr);
    if (range == NULL) {
        /* It happens again, and then ends the process. */
        set_action(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        return;
    }
    const char *file = toucher();
    if (file == NULL) {
        end(98, "stub: someone unknown touched device memory\n");
    } else if (strstr(file, "libcirculant") != NULL) {
        end(99, "stub: circulant touched device memory\n");
    } else if (mprotect(range->device, range->length, PROT_READ | PROT_WRITE) != 0) {
        end(97, "stub: the memory cannot be made accessible\n");
    }
}

/*
 * Whenever memory is allocated, since MPI_Init may put a handler of its own before ours. The C
 * library's own function is called because UCX has one of the same name that lets nobody else in.
 */
static void watch(void) {
    struct sigaction action = {.sa_sigaction = touched, .sa_flags = SA_SIGINFO};
    void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), *frame;
    Dl_info own, other;
    void *found = library == NULL ? NULL : dlsym(library, "sigaction");
    if (found == NULL || dladdr(found, &other) == 0 || dladdr((void *)ranges, &own) == 0) {
        end(97, "stub: the C library is not found\n");
    }
    own_object = own.dli_fbase;
    c_library = other.dli_fbase;
    set_action = (int (*)(int, const struct sigaction *, struct sigaction *))found;
    /* Its first call allocates, which a handler must not. */
    backtrace(&frame, 1);
    if (set_action(SIGSEGV, &action, NULL) != 0) {
        end(97, "stub: the signal cannot be handled\n");
    }
}

int cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer) {
    asked++;
    if (attribute != MEMORY_TYPE || range_of((uintptr_t)pointer) == NULL) {
        return INVALID_VALUE;
    }
    *(unsigned *)data = DEVICE;
    return SUCCESS;
}

/* Never NULL. */
void *stub_device_alloc(size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), length = (size / page + 1) * page;
    int file = memfd_create("device", MFD_CLOEXEC), slot = 0;
    while (slot < RANGES && ranges[slot].length != 0) {
        slot++;
    }
    if (slot == RANGES || file < 0 || ftruncate(file, (off_t)length) != 0) {
        end(97, "stub: no device memory\n");
    }
    void *device = mmap(NULL, length, PROT_NONE, MAP_SHARED, file, 0);
    void *host = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (device == MAP_FAILED || host == MAP_FAILED) {
        end(97, "stub: device memory cannot be mapped\n");
    }
    watch();
    ranges[slot] = (struct range){.device = device, .host = host, .length = length};
    return device;
}

void *stub_device_host_view(void *device) {
    const struct range *range = range_of((uintptr_t)device);
    return range == NULL ? NULL : range->host + ((char *)device - range->device);
}

void stub_device_free(void *device) {
    struct range *range = range_of((uintptr_t)device);
    if (range != NULL) {
        munmap(range->device, range->length);
        munmap(range->host, range->length);
        *range = (struct range){.length = 0};
    }
}

/* Takes back what was let in. */
void stub_protect_all(void) {
    for (int i = 0; i < RANGES; i++) {
        if (ranges[i].length != 0 &&
            mprotect(ranges[i].device, ranges[i].length, PROT_NONE) != 0) {
            end(97, "stub: device memory cannot be protected\n");
        }
    }
}

/* How often it was asked about an address. */
unsigned long long stub_asked(void) {
    return asked;
}
