/* CUDA's runtime and driver as torch calls them, answered without a GPU.
 *
 * REHEARSAL_GPUS devices answer as H100s. Memory is the host's, copies are memmove, streams and
 * events are numbers. A kernel launch fails: operations on the device are computed by
 * `device.py` before they come here. Functions that are not defined here return success
 * (`library.py` generates them). rehearsal_contexts() says which devices a context was opened on.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#undef cudaGetDeviceProperties

enum { HOST = cudaMemoryTypeHost, DEVICE = cudaMemoryTypeDevice, BLOCKS = 1 << 16 };

static __thread int current;
static unsigned contexts;
static size_t handles = 4096;
static struct {
    char *start;
    size_t size;
    int type;
} blocks[BLOCKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The devices that this process has opened a context on, as bits; forgets all but the current. */
unsigned rehearsal_contexts(void) { return __sync_fetch_and_and(&contexts, 1u << current); }

static void open_context(void) { __sync_fetch_and_or(&contexts, 1u << current); }

/* Devices. */

cudaError_t cudaGetDeviceCount(int *count) {
    const char *text = getenv("REHEARSAL_GPUS");
    *count = text ? atoi(text) : 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    current = device;
    open_context();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    memset(p, 0, sizeof *p);
    strcpy(p->name, "NVIDIA H100 80GB HBM3");
    p->totalGlobalMem = 85029158912UL;
    p->major = 9;
    p->multiProcessorCount = 132;
    p->warpSize = 32;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsPerMultiProcessor = 2048;
    p->sharedMemPerBlock = 49152;
    p->sharedMemPerBlockOptin = 232448;
    p->regsPerMultiprocessor = 65536;
    p->l2CacheSize = 52428800;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }

cudaError_t cudaMemGetInfo(size_t *left, size_t *total) {
    *total = 85029158912UL;
    *left = *total - (1UL << 30);
    return cudaSuccess;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    *flags = 0;
    *active = contexts >> device & 1;
    return 0;
}

static int nothing(void) { return 0; }

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result) {
    int state = !strcmp(name, "cuDevicePrimaryCtxGetState");
    *function = state ? (void *)cuDevicePrimaryCtxGetState : (void *)nothing;
    if (result) *result = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
    return "rehearsal: a kernel was launched, so an operation was not computed by device.py";
}

const char *cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

/* Streams and events. */

static cudaError_t handle(void **made) {
    open_context();
    *made = (void *)__sync_add_and_fetch(&handles, 64);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    return handle((void **)stream);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    return handle((void **)event);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    *milliseconds = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
    *priority = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *count) {
    return cudaStreamIsCapturing(stream, status);
}

/* Memory. */

static cudaError_t allocate(void **made, size_t size, int type) {
    open_context();
    *made = aligned_alloc(512, (size + 511) / 512 * 512);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].start) continue;
        blocks[i].start = *made;
        blocks[i].size = size;
        blocks[i].type = type;
        break;
    }
    pthread_mutex_unlock(&lock);
    return *made ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t release(void *block) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BLOCKS; i++)
        if (block && blocks[i].start == block) blocks[i].start = NULL;
    pthread_mutex_unlock(&lock);
    free(block);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **made, size_t size) { return allocate(made, size, DEVICE); }

cudaError_t cudaFree(void *block) { return release(block); }

cudaError_t cudaHostAlloc(void **made, size_t size, unsigned flags) {
    return allocate(made, size, HOST);
}

cudaError_t cudaFreeHost(void *block) { return release(block); }

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *result, const void *at) {
    const char *byte = at;
    memset(result, 0, sizeof *result);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BLOCKS; i++) {
        char *start = blocks[i].start;
        if (start && byte >= start && byte < start + blocks[i].size) result->type = blocks[i].type;
    }
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    memmove(to, from, size);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
    memset(to, value, size);
    return cudaSuccess;
}

/* Kernels: registered when a library is loaded, never to be launched. */

void **__cudaRegisterFatBinary(void *binary) {
    static void *registered[4];
    return registered;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
    return 0;
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream) {
    return cudaErrorNotSupported;
}

int __cudaLaunchKernel(void) { return cudaErrorNotSupported; }

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                void **arguments) {
    return cudaErrorNotSupported;
}

int cuLaunchKernel(void) { return cudaErrorNotSupported; }
