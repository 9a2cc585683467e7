// Threads, registers, signals.
#include <immintrin.h>
#include <semaphore.h>

static void busyloop00(void) {
	volatile unsigned long n = 0;
	ready();
	while (!told(0)) n++;
}

static void sleeping00(void) {
	ready();
	while (!told(0)) usleep(2000);
}

static volatile int stop;
static __thread int own;

static void *spinner(void *arg) {
	own = (int)(long)arg;
	pthread_setname_np(pthread_self(), "spinner");
	while (!stop) sched_yield();
	return (void *)(long)(own * 2);
}

static void threads(int n, void *(*f)(void *)) {
	pthread_t t[16];
	for (long i = 0; i < n; i++) CHECK(!pthread_create(&t[i], NULL, f, (void *)(i + 1)));
	moment();
	stop = 1;
	for (long i = 0; i < n; i++) {
		void *r;
		CHECK(!pthread_join(t[i], &r) && (long)r == 2 * (i + 1));
	}
}
static void pthread00(void) { threads(1, spinner); }
static void pthread01(void) { threads(8, spinner); }

static void *second(void *arg) {
	char path[64], line[512] = "";
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
	while (!strstr(line, ") Z")) {
		FILE *f = fopen(path, "r");
		CHECK(f && fgets(line, sizeof line, f));
		fclose(f);
	}
	(void)arg;
	moment();
	printf("passed\n");
	fflush(stdout);
	_exit(0);
}
// The first thread has ended.
static void pthread02(void) {
	pthread_t t;
	CHECK(!pthread_create(&t, NULL, second, NULL));
	pthread_exit(NULL);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int turns;

static void *waiter(void *arg) {
	pthread_mutex_lock(&lock);
	while (!stop) pthread_cond_wait(&cond, &lock);
	turns++;
	pthread_mutex_unlock(&lock);
	return (void *)((long)arg * 2);
}
static void futex(void) {
	pthread_t t[4];
	for (long i = 0; i < 4; i++) CHECK(!pthread_create(&t[i], NULL, waiter, (void *)i));
	moment();
	pthread_mutex_lock(&lock);
	stop = 1;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < 4; i++) CHECK(!pthread_join(t[i], NULL));
	CHECK(turns == 4);
}

static pthread_mutex_t robust;
static sem_t held;
static void *holder(void *arg) {
	CHECK(!pthread_mutex_lock(&robust));
	sem_post(&held);
	while (!stop) usleep(500);
	return arg; // without giving it back
}
static void futex_rl(void) {
	pthread_mutexattr_t a;
	pthread_t t;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	CHECK(!pthread_mutex_init(&robust, &a));
	sem_init(&held, 0, 0);
	CHECK(!pthread_create(&t, NULL, holder, NULL));
	while (sem_wait(&held))
		;
	moment();
	stop = 1;
	CHECK(pthread_mutex_lock(&robust) == EOWNERDEAD);
	CHECK(!pthread_join(t, NULL));
}

static void mutex_kinds(void) {
	pthread_mutex_t m[2];
	int kinds[] = {PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
	for (int i = 0; i < 2; i++) {
		pthread_mutexattr_t a;
		pthread_mutexattr_init(&a);
		pthread_mutexattr_settype(&a, kinds[i]);
		pthread_mutex_init(&m[i], &a);
		CHECK(!pthread_mutex_lock(&m[i]));
	}
	moment();
	CHECK(!pthread_mutex_lock(&m[0]) && pthread_mutex_lock(&m[1]) == EDEADLK);
	CHECK(!pthread_mutex_unlock(&m[0]) && !pthread_mutex_unlock(&m[0]) && !pthread_mutex_unlock(&m[1]));
}

static void rwlock(void) {
	pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
	CHECK(!pthread_rwlock_wrlock(&l));
	moment();
	CHECK(!pthread_rwlock_unlock(&l) && !pthread_rwlock_rdlock(&l) && !pthread_rwlock_unlock(&l));
}

static void rseq00(void) {
	moment();
	CHECK(sched_getcpu() >= 0);
}

// What registers hold while the program waits in a call of which the compiler knows nothing.
static void fpu00(void) {
	volatile double a = 3.25, b;
	unsigned short cw = 0x0f7f, now;
	__asm__ volatile("fldcw %0" ::"m"(cw));
	__asm__ volatile("fldl %0" ::"m"(a));
	ready();
	char c;
	long n;
	do {
		__asm__ volatile("syscall" : "=a"(n) : "a"(SYS_read), "D"(0), "S"(&c), "d"(1) : "rcx", "r11", "memory");
	} while (n != 1);
	__asm__ volatile("fstpl %0" : "=m"(b));
	__asm__ volatile("fnstcw %0" : "=m"(now));
	CHECK(a == b && now == cw);
}

// wait for the byte, with all registers kept but those of the call.
#define HOLD(load, store, reg) \
	do { \
		char c_; \
		long n_; \
		ready(); \
		__asm__ volatile(load "\n1: xor %%eax, %%eax\n xor %%edi, %%edi\n mov $1, %%edx\n mov %[buf], %%rsi\n syscall\n cmp $1, %%rax\n jne 1b\n" store \
		                 : "=&a"(n_) \
		                 : [in] "r"(in), [out] "r"(out), [buf] "r"(&c_) \
		                 : "rdi", "rsi", "rdx", "rcx", "r11", "memory", reg); \
		CHECK(!memcmp(in, out, sizeof in)); \
	} while (0)

static void sse00(void) {
	unsigned char in[16], out[16] = {0};
	fill(in, 16);
	HOLD("movdqu (%[in]), %%xmm5", "movdqu %%xmm5, (%[out])", "xmm5");
}
static void sse20(void) {
	unsigned char in[16], out[16] = {0};
	fill(in, 16);
	HOLD("movupd (%[in]), %%xmm15", "movupd %%xmm15, (%[out])", "xmm15");
}
static void mmx00(void) {
	unsigned char in[8], out[8] = {0};
	fill(in, 8);
	HOLD("movq (%[in]), %%mm3", "movq %%mm3, (%[out])\nemms", "mm3");
}
static void fpu01(void) { // AVX
	unsigned char in[32], out[32] = {0};
	if (!__builtin_cpu_supports("avx")) return moment();
	fill(in, 32);
	HOLD("vmovdqu (%[in]), %%ymm7", "vmovdqu %%ymm7, (%[out])", "xmm7");
}
static void fpu02(void) { // AVX-512
	unsigned char in[64], out[64] = {0};
	if (!__builtin_cpu_supports("avx512f")) return moment();
	fill(in, 64);
	HOLD("vmovdqu64 (%[in]), %%zmm20", "vmovdqu64 %%zmm20, (%[out])", "xmm7");
}

static char altstack[16 * K];
static void *sawStack;
static void onStack(int sig) {
	sawStack = __builtin_frame_address(0);
	caught = sig;
}
static void sigaltstack00(void) {
	stack_t s = {.ss_sp = altstack, .ss_size = sizeof altstack}, now;
	struct sigaction a = {.sa_handler = onStack, .sa_flags = SA_ONSTACK};
	HAVE(sigaltstack(&s, NULL));
	HAVE(sigaction(SIGUSR1, &a, NULL));
	moment();
	CHECK(!sigaltstack(NULL, &now) && now.ss_sp == altstack);
	raise(SIGUSR1);
	CHECK(caught && (char *)sawStack > altstack && (char *)sawStack < altstack + sizeof altstack);
}

static void sigpending00(void) {
	sigset_t m, p;
	union sigval v = {.sival_int = 4711};
	siginfo_t in;
	sigemptyset(&m);
	sigaddset(&m, SIGUSR1);
	sigaddset(&m, SIGRTMIN + 3);
	sigprocmask(SIG_BLOCK, &m, NULL);
	raise(SIGUSR1);
	HAVE(sigqueue(getpid(), SIGRTMIN + 3, v));
	moment();
	sigpending(&p);
	CHECK(sigismember(&p, SIGUSR1));
	CHECK(sigwaitinfo(&m, &in) == SIGUSR1);
	CHECK(sigwaitinfo(&m, &in) == SIGRTMIN + 3 && in.si_value.sival_int == 4711);
}

static void signal_actions(void) {
	struct sigaction a = {.sa_handler = catch, .sa_flags = SA_RESTART | SA_NODEFER}, now;
	sigaddset(&a.sa_mask, SIGUSR2);
	HAVE(sigaction(SIGUSR1, &a, NULL));
	signal(SIGPIPE, SIG_IGN);
	moment();
	HAVE(sigaction(SIGUSR1, NULL, &now));
	CHECK(now.sa_handler == catch && (now.sa_flags & SA_NODEFER) && sigismember(&now.sa_mask, SIGUSR2));
	HAVE(sigaction(SIGPIPE, NULL, &now));
	CHECK(now.sa_handler == SIG_IGN);
	raise(SIGUSR1);
	CHECK(caught == SIGUSR1);
}

static void sigtrap01(void) {
	handle(SIGTRAP, catch);
	moment();
	__asm__ volatile("int3");
	CHECK(caught == SIGTRAP);
}

static void vdso00(void) {
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	moment();
	clock_gettime(CLOCK_MONOTONIC, &b);
	CHECK(b.tv_sec > a.tv_sec || (b.tv_sec == a.tv_sec && b.tv_nsec >= a.tv_nsec));
	CHECK(time(NULL) > 0 && sched_getcpu() >= 0);
}

// A thread that starts its successor and ends, again and again.
static int born;
static void *link_(void *arg) {
	pthread_t t;
	pthread_attr_t a;
	__atomic_add_fetch(&born, 1, __ATOMIC_SEQ_CST);
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	if (!stop) CHECK(!pthread_create(&t, &a, link_, arg));
	return NULL;
}
static void thread_bomb(void) {
	pthread_t t;
	for (int i = 0; i < 4; i++) CHECK(!pthread_create(&t, NULL, link_, NULL));
	moment();
	int then = born;
	UNTIL(born > then + 20);
	stop = 1;
}

#define THREADS \
	S(busyloop00) S(sleeping00) S(pthread00) S(pthread01) S(pthread02) S(futex) S(futex_rl) S(mutex_kinds) S(rwlock) S(rseq00) \
	S(fpu00) S(fpu01) S(fpu02) S(mmx00) S(sse00) S(sse20) S(sigaltstack00) S(sigpending00) S(signal_actions) S(sigtrap01) \
	S(vdso00) S(thread_bomb)
