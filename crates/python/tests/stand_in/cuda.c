// A fake CUDA driver for tests without a GPU (tests/test_cuda_driver.py). Its device memory is host memory in unnamed
// files. The OpenCL functions below import it, as NVIDIA's OpenCL imports CUDA memory. KOEL_CUDA and KOEL_OPENCL both
// name this library; it is linked to libOpenCL.so.1, which has the other OpenCL functions.
//
// With -DOLD it lacks functions of newer drivers. STAND_IN_INIT is the result of cuInit.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OUT_OF_MEMORY = 2, INVALID = 1, GRANULE = 1 << 16, CL_UUID = 0x106A, FD = 0x2060, USE_HOST_PTR = 1 << 3 };

static const unsigned char UUID[16] = "koel's stand-in";
static size_t limit = SIZE_MAX, used;
static unsigned failed, copies;

// Controls for tests.
void stand_in_limit(size_t bytes) { limit = bytes; }
size_t stand_in_used(void) { return used; }
unsigned stand_in_failed(void) { return failed; }
unsigned stand_in_copies(void) { return copies; }

int cuInit(unsigned flags) {
    const char *result = getenv("STAND_IN_INIT");
    return flags ? INVALID : result ? atoi(result) : 0;
}
int cuGetErrorName(int code, const char **name) {
    *name = code == 100 ? "CUDA_ERROR_NO_DEVICE" : NULL;
    return code == 100 ? 0 : INVALID;
}
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal ? INVALID : 0; }
int cuDeviceGetUuid(unsigned char *uuid, int device) { return memcpy(uuid, UUID, 16), device ? INVALID : 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &used, device ? INVALID : 0; }
int cuCtxPushCurrent_v2(void *context) { return context == &used ? 0 : INVALID; }
int cuCtxPopCurrent_v2(void **context) { return *context = &used, 0; }
int cuCtxSynchronize(void) { return 0; }
int cuPointerGetAttribute(void *to, int attribute, uint64_t address) {
    *(int *)to = 0;
    return attribute == 9 && address ? 0 : INVALID;
}
int cuMemGetAllocationGranularity(size_t *bytes, const void *of, int which) { return *bytes = GRANULE, 0; }

#ifndef OLD
// A handle is a file descriptor.
int cuMemCreate(uint64_t *handle, size_t bytes, const void *of, uint64_t flags) {
    if (bytes % GRANULE) return INVALID;
    if (bytes > limit || used > limit - bytes) return failed++, OUT_OF_MEMORY;
    const int file = memfd_create("stand-in", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, bytes)) return OUT_OF_MEMORY;
    used += bytes;
    return *handle = file, 0;
}
int cuMemRelease(uint64_t handle) {
    used -= lseek((int)handle, 0, SEEK_END);
    return close((int)handle) ? INVALID : 0;
}
int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t hint, uint64_t flags) {
    void *start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return *address = (uint64_t)start, start == MAP_FAILED ? OUT_OF_MEMORY : 0;
}
int cuMemAddressFree(uint64_t address, size_t bytes) { return munmap((void *)address, bytes) ? INVALID : 0; }
int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle, uint64_t flags) {
    void *at = mmap((void *)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)handle, offset);
    return at == MAP_FAILED ? INVALID : 0;
}
int cuMemUnmap(uint64_t address, size_t bytes) { return 0; }
int cuMemSetAccess(uint64_t address, size_t bytes, const void *access, size_t count) { return 0; }
int cuMemExportToShareableHandle(void *descriptor, uint64_t handle, int kind, uint64_t flags) {
    return (*(int *)descriptor = dup((int)handle)) < 0 ? INVALID : 0;
}
#endif

int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes) {
    copies++;
    return memcpy((void *)to, (void *)from, bytes), 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) { return memcpy(to, (void *)from, bytes), 0; }

struct Side {
    size_t x, y;
    int kind;
    void *host;
    uint64_t device;
    void *array;
    size_t pitch;
};
struct Copy2d {
    struct Side from, to;
    size_t width, height;
};
int cuMemcpy2D_v2(const struct Copy2d *copy) {
    copies++;
    for (size_t row = 0; row < copy->height; row++) {
        const uint64_t from = copy->from.device + row * copy->from.pitch, to = copy->to.device + row * copy->to.pitch;
        memcpy((void *)to, (void *)from, copy->width);
    }
    return 0;
}

// OpenCL.
static void *real(const char *name) {
    static void *library;
    if (!library) library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

struct Mapping {
    void *start;
    size_t bytes;
};
static void unmap(void *memory, void *mapping) {
    const struct Mapping *of = mapping;
    munmap(of->start, of->bytes);
    free(mapping);
}

void *clCreateBufferWithProperties(
    void *context, const uint64_t *properties, uint64_t flags, size_t bytes, void *host, int *status
) {
    void *(*create)(void *, uint64_t, size_t, void *, int *) = real("clCreateBuffer");
    int (*at_end)(void *, void (*)(void *, void *), void *) = real("clSetMemObjectDestructorCallback");
    const int file = (int)properties[1];
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (properties[0] != FD || start == MAP_FAILED) return *status = -30, NULL;
    void *memory = create(context, flags | USE_HOST_PTR, bytes, start, status);
    if (!memory) return munmap(start, bytes), NULL;
    struct Mapping *mapping = malloc(sizeof *mapping);
    *mapping = (struct Mapping){start, bytes};
    at_end(memory, unmap, mapping);
    close(file);
    return memory;
}

static int hand(void *queue, unsigned count, void *const *memory, unsigned waits, void *const *events, void **event) {
    return 0;
}

void *clGetExtensionFunctionAddressForPlatform(void *platform, const char *name) {
    if (strstr(name, "ExternalMemObjectsKHR")) return (void *)hand;
    void *(*find)(void *, const char *) = real("clGetExtensionFunctionAddressForPlatform");
    return find(platform, name);
}

int clGetDeviceInfo(void *device, unsigned which, size_t bytes, void *to, size_t *needed) {
    int (*get)(void *, unsigned, size_t, void *, size_t *) = real("clGetDeviceInfo");
    if (which != CL_UUID || bytes < 16) return get(device, which, bytes, to, needed);
    return memcpy(to, UUID, 16), 0;
}
