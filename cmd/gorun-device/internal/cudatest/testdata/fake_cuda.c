// A driver of CUDA without a device. See package cudatest.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;
typedef struct { char text[1 << 16]; } Module;
typedef struct { const char *name; } Function;
typedef struct { double at; int recorded; } Event;

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, INVALID_PTX = 218, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700 };

// What tests order and ask.
static char calls[1 << 20], order[64];
static int order_code, order_countdown;
void fake_fail(const char *call, int code, int nth) { snprintf(order, sizeof order, "%s", call); order_code = code; order_countdown = nth; }
const char *fake_calls(void) { return calls; }
void fake_forget(void) { calls[0] = 0; order[0] = 0; }

// enter records a call and tells whether it has to fail.
static CUresult enter(const char *name) {
	size_t n = strlen(calls);
	snprintf(calls + n, sizeof calls - n, "%s\n", name);
	if (strcmp(order, name) == 0 && --order_countdown == 0) return order_code;
	return 0;
}
#define ENTER(name) do { CUresult r = enter(name); if (r) return r; } while (0)

static __thread void *current; // the context of this thread
static int context, broken;    // the only one; CUDA's contexts do not recover from a bad access
#define NEED(name) do { ENTER(name); if (current != &context) return INVALID_CONTEXT; if (broken) return broken; } while (0)

// Memory: what was given out.
#define MOST 256
static struct { char *at; size_t size; } memory[MOST];
#define TOTAL ((size_t)256 << 20)
static size_t used;

static char *in_memory(CUdeviceptr p, size_t n) {
	for (int i = 0; i < MOST; i++)
		if (memory[i].at && p >= (CUdeviceptr)memory[i].at && p + n <= (CUdeviceptr)memory[i].at + memory[i].size) return (char *)p;
	return NULL;
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
	NEED("cuMemAlloc");
	for (int i = 0; i < MOST; i++)
		if (!memory[i].at) {
			if (n == 0) return INVALID_VALUE;
			if (n > TOTAL - used) return OUT_OF_MEMORY;
			used += n;
			memory[i].at = malloc(n);
			memset(memory[i].at, 0xa5, n); // undefined, so not zero
			memory[i].size = n;
			*p = (CUdeviceptr)memory[i].at;
			return 0;
		}
	return OUT_OF_MEMORY;
}

static void *pins[16];
CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned flags) {
	NEED("cuMemHostRegister");
	if (!p || !n || flags) return INVALID_VALUE;
	for (int i = 0; i < 16; i++)
		if (!pins[i]) { pins[i] = p; return 0; }
	return OUT_OF_MEMORY;
}
CUresult cuMemHostUnregister(void *p) {
	NEED("cuMemHostUnregister");
	for (int i = 0; i < 16; i++)
		if (p && pins[i] == p) { pins[i] = NULL; return 0; }
	return INVALID_VALUE;
}
CUresult cuMemFree_v2(CUdeviceptr p) {
	NEED("cuMemFree");
	for (int i = 0; i < MOST; i++)
		if ((CUdeviceptr)memory[i].at == p) {
			used -= memory[i].size;
			free(memory[i].at);
			memory[i].at = NULL;
			return 0;
		}
	return INVALID_VALUE;
}

// The stream: work that waits.
typedef struct { int what; CUdeviceptr dst, src; size_t n; unsigned char byte; Event *event; const char *kernel; unsigned items; uint64_t args[4]; } Work;
enum { COPY_TO, COPY_FROM, COPY_ON, FILL, RECORD, KERNEL };
static Work *queue;
static size_t queued, room;

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }

static CUresult put(Work w) {
	if (queued == room) queue = realloc(queue, (room = 2 * room + 16) * sizeof *queue);
	queue[queued++] = w;
	return 0;
}

// run does what a kernel does.
static int run(Work *w) {
	uint32_t *x = (uint32_t *)in_memory(w->args[0], 4 * w->items), *in;
	if (strcmp(w->kernel, "empty") == 0 || strcmp(w->kernel, "busy") == 0) return 0;
	if (!x) return 1;
	if (strcmp(w->kernel, "scale") == 0)
		for (uint32_t i = 0; i < w->items; i++) x[i] = x[i] * 3 + i;
	if (strcmp(w->kernel, "next") == 0) {
		uint32_t n = (uint32_t)w->args[2];
		if (!(in = (uint32_t *)in_memory(w->args[1], 4 * n))) return 1;
		for (uint32_t i = 0; i < w->items; i++) x[i] = in[(i + 1) % n] * 3 + i;
	}
	if (strcmp(w->kernel, "turn") == 0) {
		uint32_t *y = x, *row = (uint32_t *)in_memory(w->args[1], 4 * 64);
		if (!row) return 1;
		for (uint32_t i = 0; i < w->items; i++) y[i] = y[i] * 5 + row[i % 64] + (uint32_t)w->args[2];
	}
	if (strcmp(w->kernel, "vadd") == 0) {
		double *y = (double *)in_memory(w->args[0], 8 * w->items), *v = (double *)in_memory(w->args[1], 8 * w->items), a;
		if (!y || !v) return 1;
		memcpy(&a, &w->args[2], 8);
		for (uint32_t i = 0; i < w->items; i++) y[i] += a * v[i];
	}
	return 0;
}

static void drain(void) {
	for (size_t i = 0; i < queued && !broken; i++) {
		Work *w = &queue[i];
		switch (w->what) {
		case COPY_TO: if (in_memory(w->dst, w->n)) memcpy((char *)w->dst, (char *)w->src, w->n); else broken = ILLEGAL_ADDRESS; break;
		case COPY_FROM: if (in_memory(w->src, w->n)) memcpy((char *)w->dst, (char *)w->src, w->n); else broken = ILLEGAL_ADDRESS; break;
		case COPY_ON: if (in_memory(w->src, w->n) && in_memory(w->dst, w->n)) memcpy((char *)w->dst, (char *)w->src, w->n); else broken = ILLEGAL_ADDRESS; break;
		case FILL: if (in_memory(w->dst, w->n)) memset((char *)w->dst, w->byte, w->n); else broken = ILLEGAL_ADDRESS; break;
		case RECORD: w->event->at = now(); w->event->recorded = 1; break;
		case KERNEL: if (run(w)) broken = ILLEGAL_ADDRESS; break;
		}
	}
	queued = 0;
}

CUresult cuStreamCreate(void **s, unsigned flags) { NEED("cuStreamCreate"); *s = malloc(1); return 0; }
CUresult cuStreamDestroy_v2(void *s) { NEED("cuStreamDestroy"); drain(); free(s); return 0; }
CUresult cuStreamSynchronize(void *s) { NEED("cuStreamSynchronize"); if (!s) return INVALID_VALUE; drain(); return broken; }
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *s, size_t n, void *st) { NEED("cuMemcpyHtoDAsync"); return put((Work){COPY_TO, d, (CUdeviceptr)s, n}); }
CUresult cuMemcpyDtoHAsync_v2(void *d, CUdeviceptr s, size_t n, void *st) { NEED("cuMemcpyDtoHAsync"); return put((Work){COPY_FROM, (CUdeviceptr)d, s, n}); }
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, void *st) { NEED("cuMemcpyDtoDAsync"); return put((Work){COPY_ON, d, s, n}); }
CUresult cuMemsetD8Async(CUdeviceptr d, unsigned char c, size_t n, void *st) { NEED("cuMemsetD8Async"); return put((Work){FILL, d, 0, n, c}); }

// Modules and kernels.
CUresult cuModuleLoadDataEx(void **m, const void *image, unsigned n, int *keys, void **values) {
	NEED("cuModuleLoadDataEx");
	char *log = NULL;
	size_t size = 0;
	for (unsigned i = 0; i < n; i++) {
		if (keys[i] == 5) log = values[i];
		if (keys[i] == 6) size = (size_t)values[i];
	}
	if (strstr(image, "bad_instruction")) {
		if (log) snprintf(log, size, "ptxas application ptx input, line 9; fatal : unknown symbol bad_instruction");
		return INVALID_PTX;
	}
	if (!strstr(image, ".version")) return INVALID_IMAGE;
	Module *module = malloc(sizeof *module);
	snprintf(module->text, sizeof module->text, "%s", (const char *)image);
	*m = module;
	return 0;
}
CUresult cuModuleUnload(void *m) { NEED("cuModuleUnload"); free(m); return 0; }

static const char *known[] = {"empty", "scale", "busy", "next", "turn", "vadd"};
static const int arguments[] = {1, 1, 1, 3, 3, 3};
CUresult cuModuleGetFunction(void **f, Module *m, const char *name) {
	NEED("cuModuleGetFunction");
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(known[i], name) == 0 && strstr(m->text, name)) { *f = (void *)&known[i]; return 0; }
	return NOT_FOUND;
}
CUresult cuFuncSetAttribute(void *f, int attribute, int value) { NEED("cuFuncSetAttribute"); return attribute == 8 && value <= 96 << 10 ? 0 : INVALID_VALUE; }

CUresult cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **params, void **extra) {
	NEED("cuLaunchKernel");
	size_t n = strlen(calls);
	snprintf(calls + n, sizeof calls - n, "  %s grid %u %u %u block %u %u %u shared %u\n", *(const char **)f, gx, gy, gz, bx, by, bz, shared);
	if (bx * by * bz > 1024 || bz > 64 || !gx || !bx) return INVALID_VALUE;
	int i = (const char **)f - known;
	Work w = {KERNEL};
	w.kernel = known[i];
	w.items = gx * bx * gy * by * gz * bz;
	for (int a = 0; a < arguments[i]; a++) memcpy(&w.args[a], params[a], 8);
	return put(w);
}

CUresult cuEventCreate(Event **e, unsigned flags) { NEED("cuEventCreate"); *e = calloc(1, sizeof **e); return 0; }
CUresult cuEventRecord(Event *e, void *s) { NEED("cuEventRecord"); Work w = {RECORD}; w.event = e; return put(w); }
CUresult cuEventSynchronize(Event *e) { NEED("cuEventSynchronize"); drain(); return broken; }
CUresult cuEventElapsedTime(float *ms, Event *a, Event *b) {
	NEED("cuEventElapsedTime");
	if (!a->recorded || !b->recorded) return NOT_READY;
	*ms = b->at - a->at;
	return 0;
}
CUresult cuEventDestroy_v2(Event *e) { NEED("cuEventDestroy"); return 0; } // it may be recorded still

// The device.
CUresult cuInit(unsigned flags) { ENTER("cuInit"); return 0; }
CUresult cuDriverGetVersion(int *v) { ENTER("cuDriverGetVersion"); *v = 12040; return 0; }
CUresult cuDeviceGetCount(int *n) { ENTER("cuDeviceGetCount"); *n = 2; return 0; }
CUresult cuDeviceGet(int *d, int i) { ENTER("cuDeviceGet"); *d = i; return 0; }
CUresult cuDeviceGetName(char *s, int n, int d) { ENTER("cuDeviceGetName"); snprintf(s, n, "Made Up %d", d); return 0; }
CUresult cuDeviceGetAttribute(int *v, int what, int d) {
	ENTER("cuDeviceGetAttribute");
	switch (what) {
	case 1: *v = 1024; return 0;
	case 13: *v = 1500000; return 0;
	case 16: *v = 8; return 0;
	case 75: *v = 8; return 0;
	case 76: *v = 6; return 0;
	}
	return INVALID_VALUE;
}
CUresult cuDeviceTotalMem_v2(size_t *n, int d) { ENTER("cuDeviceTotalMem"); *n = TOTAL; return 0; }
CUresult cuDevicePrimaryCtxRetain(void **c, int d) { ENTER("cuDevicePrimaryCtxRetain"); while (getenv("FAKE_CUDA_HANGS")) pause(); *c = &context; return 0; }
CUresult cuDevicePrimaryCtxRelease_v2(int d) { ENTER("cuDevicePrimaryCtxRelease"); broken = 0; queued = 0; return 0; }
CUresult cuCtxSetCurrent(void *c) { ENTER("cuCtxSetCurrent"); current = c; return 0; }

#define WORDS(code, name, text) case code: *s = words ? text : name; return 0
static CUresult say(int code, const char **s, int words) {
	switch (code) {
	WORDS(1, "CUDA_ERROR_INVALID_VALUE", "invalid argument");
	WORDS(2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory");
	WORDS(100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected");
	WORDS(201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context");
	WORDS(218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed");
	WORDS(222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain.");
	WORDS(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered");
	WORDS(719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure");
	WORDS(999, "CUDA_ERROR_UNKNOWN", "unknown error");
	}
	*s = NULL;
	return INVALID_VALUE;
}
CUresult cuGetErrorName(int code, const char **s) { return say(code, s, 0); }
CUresult cuGetErrorString(int code, const char **s) { return say(code, s, 1); }
