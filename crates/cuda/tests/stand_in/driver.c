/* A stand-in for libcuda.so.1 on machines without a GPU.
 *
 * Device memory is memory of the process, a stream is a thread, and the only kernel is implemented again in C. Copies
 * start late, so code that does not wait for a copy does not find its data.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_CONTEXT = 201, INVALID_PTX = 218, NOT_READY = 600 };
enum kind { COPY, FILL, EVENT, KERNEL, QUIT };

/* Capacity of a stream in operations, and number of parameters of the kernel. */
enum { OPERATIONS = 1 << 16, PARAMETERS = 5 };
enum { COPY_DELAY_US = 30 };

typedef struct {
    atomic_long recorded, reached;
} event;

typedef struct {
    enum kind kind;
    void *to;
    const void *from;
    size_t bytes;
    event *event;
    uint64_t parameters[PARAMETERS];
} operation;

typedef struct {
    operation operations[OPERATIONS];
    atomic_ulong given, done;
    pthread_t thread;
} stream;

/* The same as the kernel in watch.ptx. */
static void watch(const uint64_t parameters[PARAMETERS]) {
    const _Atomic uint64_t *flag = (void *)parameters[0];
    const _Atomic uint32_t *data = (void *)parameters[1];
    _Atomic uint64_t *report = (void *)parameters[4];
    for (uint64_t round = 1; round <= parameters[3]; round++) {
        while (atomic_load(flag) < round) {
            if (atomic_load(&report[4])) return;
            sched_yield();
        }
        uint32_t wrong = 0;
        for (uint32_t i = 0; i < parameters[2]; i++)
            wrong += atomic_load(&data[i]) != (uint32_t)round * 0x9e3779b1u + i * 0x85ebca77u;
        atomic_fetch_add(&report[1], wrong);
        atomic_fetch_add(&report[2], wrong > 0);
        atomic_store(&report[0], round);
    }
}

static void *run(void *argument) {
    stream *s = argument;
    for (;;) {
        while (s->given == s->done) sched_yield();
        operation *next = &s->operations[s->done % OPERATIONS];
        switch (next->kind) {
        case COPY: usleep(COPY_DELAY_US); memcpy(next->to, next->from, next->bytes); break;
        case FILL: memset(next->to, 0, next->bytes); break;
        case EVENT: next->event->reached++; break;
        case KERNEL: watch(next->parameters); break;
        case QUIT: return NULL;
        }
        s->done++;
    }
}

static int give(stream *s, operation next) {
    while (s->given - s->done == OPERATIONS) sched_yield();
    s->operations[s->given % OPERATIONS] = next;
    s->given++;
    return SUCCESS;
}

static char context;

int cuInit(unsigned flags) { return flags; }
int cuDriverGetVersion(int *version) { *version = 13000; return SUCCESS; }
int cuGetErrorName(int error, const char **name) { *name = error ? "CUDA_ERROR_STAND_IN" : "CUDA_SUCCESS"; return SUCCESS; }
int cuDeviceGetCount(int *count) { *count = 1; return SUCCESS; }
int cuDeviceGet(int *device, int number) { *device = number; return SUCCESS; }
int cuDeviceGetName(char *name, int bytes, int device) { (void)device; strncpy(name, "stand-in", bytes); return SUCCESS; }
int cuDevicePrimaryCtxRetain(void **c, int device) { (void)device; *c = &context; return SUCCESS; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return SUCCESS; }
int cuCtxSetCurrent(void *c) { return c == &context ? SUCCESS : INVALID_CONTEXT; }

int cuMemAlloc_v2(uint64_t *address, size_t bytes) { *address = (uint64_t)aligned_alloc(256, (bytes + 255) / 256 * 256); return SUCCESS; }
int cuMemFree_v2(uint64_t address) { free((void *)address); return SUCCESS; }
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) { (void)flags; return posix_memalign(memory, 4096, bytes); }
int cuMemFreeHost(void *memory) { free(memory); return SUCCESS; }
int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags) { *address = (uint64_t)memory; return flags; }
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, stream *s) { (void)value; return give(s, (operation){.kind = FILL, .to = (void *)to, .bytes = bytes}); }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, stream *s) { return give(s, (operation){.kind = COPY, .to = (void *)to, .from = from, .bytes = bytes}); }
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, stream *s) { return give(s, (operation){.kind = COPY, .to = to, .from = (void *)from, .bytes = bytes}); }

int cuStreamCreate(stream **s, unsigned flags) { (void)flags; *s = calloc(1, sizeof **s); return pthread_create(&(*s)->thread, NULL, run, *s); }
int cuStreamDestroy_v2(stream *s) { give(s, (operation){.kind = QUIT}); pthread_join(s->thread, NULL); free(s); return SUCCESS; }
int cuStreamSynchronize(stream *s) { while (s->given != s->done) sched_yield(); return SUCCESS; }
int cuStreamQuery(stream *s) { return s->given == s->done ? SUCCESS : NOT_READY; }
int cuEventCreate(event **e, unsigned flags) { (void)flags; *e = calloc(1, sizeof **e); return SUCCESS; }
int cuEventDestroy_v2(event *e) { free(e); return SUCCESS; }
int cuEventRecord(event *e, stream *s) { e->recorded++; return give(s, (operation){.kind = EVENT, .event = e}); }
int cuEventQuery(event *e) { return e->reached == e->recorded ? SUCCESS : NOT_READY; }
int cuEventSynchronize(event *e) { while (e->reached != e->recorded) sched_yield(); return SUCCESS; }

int cuModuleLoadData(void **module, const char *text) { *module = &context; return strstr(text, ".entry watch(") ? SUCCESS : INVALID_PTX; }
int cuModuleUnload(void *module) { (void)module; return SUCCESS; }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = module; return strcmp(name, "watch"); }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   stream *s, void **parameters, void **extra) {
    (void)function, (void)shared, (void)extra;
    operation launch = {.kind = KERNEL};
    for (int i = 0; i < PARAMETERS; i++) launch.parameters[i] = *(uint64_t *)parameters[i];
    return gx * gy * gz * by * bz == 1 && bx >= 1 ? give(s, launch) : 1;
}
