// Program ctrip computes something with everything that threads of C may have going
// at once: all kinds of locks, conditions, semaphores, memory of their own, sleeps
// and polls. However often it is imaged, killed and restored, what it prints at the
// end must be what it prints undisturbed, and no call may fail that does not fail
// then. For each step it needs leave, as the program trip does.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what, int err) {
	printf("failed: %s: %s\n", what, strerror(err));
	fflush(stdout);
	_exit(1);
}

// must checks a call that returns its error.
#define must(call) \
	do { \
		int e_ = (call); \
		if (e_ != 0) fail(#call, e_); \
	} while (0)

// done checks a call that sets errno.
#define done(call) \
	do { \
		if ((call) < 0) fail(#call, errno); \
	} while (0)

enum { WORKERS = 4 };

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, recursive, checking, robust, inherit;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static sem_t leave;
static int strong; // robust locks and priorities are used, too
static int weak;   // nothing is done for which an id is in a register for a moment
static long now_step = -1, working;
static uint64_t total;
static _Atomic int signals;
static _Thread_local uint64_t own;
static _Thread_local int own_id;

static void init(pthread_mutex_t *m, int type, int robustness, int protocol) {
	pthread_mutexattr_t a;
	must(pthread_mutexattr_init(&a));
	must(pthread_mutexattr_settype(&a, type));
	must(pthread_mutexattr_setrobust(&a, robustness));
	must(pthread_mutexattr_setprotocol(&a, protocol));
	must(pthread_mutex_init(m, &a));
}

static void count(int sig) { (void)sig; signals++; }

static uint64_t churn(uint64_t seed) {
	uint64_t sum = 0;
	char *all[50];
	for (int i = 0; i < 50; i++) {
		size_t n = 100 + (seed * 31 + i * 977) % 20000;
		all[i] = malloc(n);
		if (!all[i]) fail("malloc", ENOMEM);
		memset(all[i], (int)(seed + i), n);
		sum = sum * 31 + (unsigned char)all[i][n / 2];
	}
	for (int i = 0; i < 50; i++) free(all[(i * 7) % 50]);
	return sum;
}

// locked does what only the owner of each lock may do.
static uint64_t locked(uint64_t v) {
	must(pthread_mutex_lock(&recursive));
	must(pthread_mutex_lock(&recursive));
	must(pthread_mutex_lock(&checking));
	if (pthread_mutex_lock(&checking) != EDEADLK) fail("a second lock", EINVAL);
	if (strong) {
		must(pthread_mutex_lock(&robust));
		must(pthread_mutex_lock(&inherit));
	}
	must(pthread_rwlock_wrlock(&shared));
	struct timespec nap = {0, 300000};
	while (nanosleep(&nap, &nap) < 0) // there are signals, but see sleeper
		if (errno != EINTR) fail("nanosleep", errno);
	total = total * 3 + v;
	uint64_t got = v * v;
	must(pthread_rwlock_unlock(&shared));
	if (strong) {
		must(pthread_mutex_unlock(&inherit));
		must(pthread_mutex_unlock(&robust));
	}
	must(pthread_mutex_unlock(&checking));
	must(pthread_mutex_unlock(&recursive));
	must(pthread_mutex_unlock(&recursive));
	return got;
}

// self uses what the library does with a thread's id.
static void self(void) {
	cpu_set_t set;
	must(pthread_getaffinity_np(pthread_self(), sizeof set, &set));
	int policy;
	struct sched_param param;
	must(pthread_getschedparam(pthread_self(), &policy, &param));
	clockid_t clock;
	struct timespec t;
	must(pthread_getcpuclockid(pthread_self(), &clock));
	done(clock_gettime(clock, &t));
	if (weak) return;
	int before = signals;
	done(raise(SIGUSR2));
	if (signals == before) fail("raise", EINVAL);
}

// worker takes its part of every step.
static void *worker(void *arg) {
	own_id = (int)(intptr_t)arg;
	for (long step = 0;; step++) {
		must(pthread_mutex_lock(&plain));
		while (now_step < step) must(pthread_cond_wait(&turn, &plain));
		must(pthread_mutex_unlock(&plain));
		own = own * 31 + churn((uint64_t)step * WORKERS + own_id);
		must(pthread_rwlock_rdlock(&shared));
		own += (uint64_t)now_step - step; // 0
		must(pthread_rwlock_unlock(&shared));
		self();
		must(pthread_mutex_lock(&plain));
		working--;
		must(pthread_cond_broadcast(&turn));
		must(pthread_mutex_unlock(&plain));
		own += locked(7) * 0;
	}
	return NULL;
}

static void *brief(void *arg) {
	own = (uint64_t)(uintptr_t)arg;
	self();
	return (void *)(own * 3);
}

// agent obeys descriptor 3: a dot is leave for a step.
static void *agent(void *arg) {
	(void)arg;
	char p[100];
	for (;;) {
		ssize_t n = read(3, p, sizeof p);
		if (n < 0 && errno == EINTR) continue;
		if (n <= 0) return NULL;
		for (ssize_t i = 0; i < n; i++)
			if (p[i] == '.') done(sem_post(&leave));
	}
}

// sleeper waits in all ways that have a limit; none may be cut short.
static void *sleeper(void *arg) {
	(void)arg;
	for (;;) {
		struct timespec t, nap = {0, 20000000};
		done(nanosleep(&nap, NULL));
		int e = clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, &t);
		if (e) fail("clock_nanosleep", e);
		done(poll(NULL, 0, 20));
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_nsec += 20000000;
		if (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
		sem_t never;
		sem_init(&never, 0, 0);
		if (sem_timedwait(&never, &t) == 0 || errno != ETIMEDOUT) fail("sem_timedwait", errno);
	}
	return NULL;
}

static uint64_t spin(uint64_t millions) {
	uint64_t x = 1;
	for (uint64_t i = 0; i < millions * 1000000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

static void *spinner(void *arg) { return (void *)spin((uint64_t)(uintptr_t)arg); }

// echo answers what comes on standard input, and ends with it.
static void *echo(void *arg) {
	(void)arg;
	char line[1000];
	while (fgets(line, sizeof line, stdin)) {
		printf("stdin %s", line);
		fflush(stdout);
	}
	_exit(0);
}

int main(int argc, char **argv) {
	if (argc < 4) fail("usage: ctrip STEPS MILLIONS LOG [strong|weak]", EINVAL);
	long steps = atol(argv[1]);
	strong = argc > 4 && strcmp(argv[4], "strong") == 0;
	weak = argc > 4 && strcmp(argv[4], "weak") == 0;
	init(&recursive, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
	init(&checking, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
	if (strong) {
		init(&robust, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
		init(&inherit, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT);
	}
	done(sem_init(&leave, 0, 0));
	struct sigaction act = {.sa_handler = count, .sa_flags = SA_RESTART};
	done(sigaction(SIGUSR2, &act, NULL));
	done(sigaction(SIGUSR1, &act, NULL));
	FILE *log = fopen(argv[3], "w");
	if (!log) fail(argv[3], errno);
	pthread_t t, workers[WORKERS], tight;
	for (intptr_t i = 0; i < WORKERS; i++) must(pthread_create(&workers[i], NULL, worker, (void *)i));
	must(pthread_create(&t, NULL, agent, NULL));
	must(pthread_create(&t, NULL, sleeper, NULL));
	must(pthread_create(&t, NULL, echo, NULL));
	must(pthread_create(&tight, NULL, spinner, (void *)(uintptr_t)atol(argv[2])));
	uint64_t sum = 0;
	for (long i = 0; i < steps; i++) {
		while (sem_wait(&leave) < 0)
			if (errno != EINTR) fail("sem_wait", errno);
		must(pthread_mutex_lock(&plain));
		working = WORKERS;
		now_step = i;
		must(pthread_cond_broadcast(&turn));
		while (working > 0) must(pthread_cond_wait(&turn, &plain));
		must(pthread_mutex_unlock(&plain));
		sum = sum * 31 + churn((uint64_t)i) + locked((uint64_t)i);
		void *got;
		must(pthread_create(&t, NULL, brief, (void *)(uintptr_t)i));
		must(pthread_join(t, &got));
		sum += (uint64_t)(uintptr_t)got;
		if (i % 4 == 1) must(pthread_kill(workers[i % WORKERS], SIGUSR1));
		fprintf(log, "step %ld %llx\n", i, (unsigned long long)sum);
		fflush(log);
		printf("step %ld\n", i);
		fflush(stdout);
	}
	void *got;
	must(pthread_join(tight, &got));
	sum += (uint64_t)(uintptr_t)got;
	fclose(log);
	printf("sum %llx\n", (unsigned long long)sum);
	fflush(stdout);
	for (;;) pause();
}
