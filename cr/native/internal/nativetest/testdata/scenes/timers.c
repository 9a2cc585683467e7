// Timers.
#include <sys/time.h>
#include <sys/timerfd.h>

static volatile int rang, value;
static void ring(int sig, siginfo_t *in, void *ctx) {
	(void)sig, (void)ctx;
	value = in->si_value.sival_int;
	rang++;
}

static void itimer(int which, int sig) {
	struct itimerval t = {{0, 20000}, {0, 20000}}, now;
	handle(sig, catch);
	HAVE(setitimer(which, &t, NULL));
	moment();
	HAVE(getitimer(which, &now));
	CHECK(now.it_interval.tv_usec >= 20000 && now.it_interval.tv_usec <= 24000);
	caught = 0;
	for (int n = 0; !caught && n < 2000000000; n++) __asm__ volatile("");
	CHECK(caught == sig);
	t = (struct itimerval){{0, 0}, {0, 0}};
	HAVE(setitimer(which, &t, NULL));
}
static void itimer_real(void) { itimer(ITIMER_REAL, SIGALRM); }
static void itimer_virtual(void) { itimer(ITIMER_VIRTUAL, SIGVTALRM); }
static void itimer_prof(void) { itimer(ITIMER_PROF, SIGPROF); }
// One whose time is far away has the rest of it left.
static void alarm00(void) {
	handle(SIGALRM, catch);
	alarm(5000);
	moment();
	unsigned left = alarm(0);
	CHECK(left > 1000 && left <= 5000 && !caught);
}

static timer_t timer(clockid_t clock, int sig, int v) {
	timer_t t;
	struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig, .sigev_value.sival_int = v};
	HAVE(timer_create(clock, &e, &t));
	return t;
}

static void posix_timers(void) {
	struct sigaction a = {.sa_sigaction = ring, .sa_flags = SA_SIGINFO};
	struct itimerspec s = {{0, 10000000}, {0, 10000000}}, far = {{0, 0}, {5000, 0}}, now;
	HAVE(sigaction(SIGRTMIN + 1, &a, NULL));
	timer_t gone = timer(CLOCK_REALTIME, SIGRTMIN + 1, 1), t = timer(CLOCK_MONOTONIC, SIGRTMIN + 1, 4242);
	timer_t f = timer(CLOCK_BOOTTIME, SIGRTMIN + 1, 3), off = timer(CLOCK_REALTIME, SIGRTMIN + 1, 5);
	timer_t cpu = timer(CLOCK_PROCESS_CPUTIME_ID, SIGRTMIN + 1, 6);
	HAVE(timer_delete(gone)); // so that the numbers are not 0, 1, 2
	HAVE(timer_settime(f, 0, &far, NULL));
	HAVE(timer_settime(cpu, 0, &far, NULL));
	HAVE(timer_settime(t, 0, &s, NULL));
	moment();
	rang = 0;
	UNTIL(rang > 2);
	CHECK(value == 4242);
	HAVE(timer_gettime(f, &now));
	CHECK(now.it_value.tv_sec > 1000 && now.it_value.tv_sec <= 5000);
	HAVE(timer_gettime(cpu, &now));
	CHECK(now.it_value.tv_sec > 1000);
	HAVE(timer_gettime(off, &now));
	CHECK(!now.it_value.tv_sec && !now.it_value.tv_nsec);
	HAVE(timer_delete(t));
	HAVE(timer_delete(off));
}

static void *clocked(void *arg) {
	struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec s = {{0, 0}, {5000, 0}};
	HAVE(timer_create(CLOCK_THREAD_CPUTIME_ID, &e, arg));
	HAVE(timer_settime(*(timer_t *)arg, 0, &s, NULL));
	__atomic_store_n(&born, 1, __ATOMIC_SEQ_CST);
	while (!stop) usleep(500);
	return NULL;
}
static void pthread_timers(void) {
	pthread_t t;
	timer_t id;
	CHECK(!pthread_create(&t, NULL, clocked, &id));
	UNTIL(born);
	moment();
	struct itimerspec now;
	HAVE(timer_gettime(id, &now));
	CHECK(now.it_value.tv_sec > 1000);
	stop = 1;
}

// Threads with timers on their own time that tell themselves, as CPU profiles have them, and with the clock of another thread.
static void *profiled(void *arg) {
	struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
	e._sigev_un._tid = gettid();
	struct itimerspec s = {{0, 10000000}, {0, 10000000}};
	timer_t t, idle;
	HAVE(timer_create(CLOCK_THREAD_CPUTIME_ID, &e, &t));
	HAVE(timer_create(CLOCK_THREAD_CPUTIME_ID, &e, &idle));
	HAVE(timer_settime(t, 0, &s, NULL));
	__atomic_add_fetch(&born, 1, __ATOMIC_SEQ_CST);
	int brief = arg != NULL;
	if (brief) return NULL; // and leaves its timers behind
	while (!stop) usleep(500);
	int before = rang;
	for (int n = 0; rang < before + 3 && n < 2000000000; n++) __asm__ volatile("");
	CHECK(rang >= before + 3);
	struct itimerspec now;
	HAVE(timer_gettime(t, &now));
	CHECK(now.it_interval.tv_nsec == 10000000);
	HAVE(timer_gettime(idle, &now));
	CHECK(!now.it_value.tv_nsec && !now.it_interval.tv_nsec);
	HAVE(timer_delete(t));
	HAVE(timer_delete(idle));
	return NULL;
}
static void pthread_timers_own(void) {
	struct sigaction a = {.sa_sigaction = ring, .sa_flags = SA_SIGINFO | SA_RESTART};
	HAVE(sigaction(SIGPROF, &a, NULL));
	pthread_t t, gone;
	CHECK(!pthread_create(&gone, NULL, profiled, ""));
	CHECK(!pthread_join(gone, NULL));
	CHECK(!pthread_create(&t, NULL, profiled, NULL));
	UNTIL(born == 2);
	clockid_t its;
	CHECK(!pthread_getcpuclockid(t, &its));
	struct itimerspec far = {{0, 0}, {5000, 0}}, now;
	timer_t f = timer(its, SIGUSR1, 1), p;
	HAVE(timer_settime(f, 0, &far, NULL));
	HAVE(clock_getcpuclockid(getpid(), &its));
	p = timer(its, SIGUSR1, 1);
	HAVE(timer_settime(p, 0, &far, NULL));
	moment();
	HAVE(timer_gettime(f, &now));
	CHECK(now.it_value.tv_sec > 1000);
	HAVE(timer_gettime(p, &now));
	CHECK(now.it_value.tv_sec > 1000);
	stop = 1;
	CHECK(!pthread_join(t, NULL));
	HAVE(timer_gettime(f, &now));
	HAVE(timer_delete(f));
	HAVE(timer_delete(p));
	for (long gone = 0; gone < 2; gone++) CHECK(!syscall(SYS_timer_delete, gone));
}

static void notified(union sigval v) { __atomic_store_n(&value, v.sival_int, __ATOMIC_SEQ_CST); }
// The library's thread that calls a function.
static void pthread_timers_h(void) {
	timer_t t;
	struct sigevent e = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notified, .sigev_value.sival_int = 99};
	struct itimerspec s = {{0, 10000000}, {0, 10000000}};
	HAVE(timer_create(CLOCK_MONOTONIC, &e, &t));
	HAVE(timer_settime(t, 0, &s, NULL));
	moment();
	value = 0;
	UNTIL(value == 99);
	HAVE(timer_delete(t));
}

static void timerfd00(void) {
	uint64_t n;
	struct itimerspec s = {{0, 10000000}, {0, 10000000}}, far = {{0, 0}, {5000, 0}}, now;
	int a = HAVE(timerfd_create(CLOCK_MONOTONIC, 0)), b = HAVE(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK));
	HAVE(timerfd_settime(a, 0, &s, NULL));
	HAVE(timerfd_settime(b, 0, &far, NULL));
	moment();
	CHECK(read(a, &n, sizeof n) == sizeof n && n > 0);
	HAVE(timerfd_gettime(b, &now));
	CHECK(now.it_value.tv_sec > 1000 && read(b, &n, sizeof n) == -1 && errno == EAGAIN);
}

static void nanosleep00(void) {
	struct timespec t = {0, 300000000};
	ready();
	while (nanosleep(&t, &t)) CHECK(errno == EINTR);
	while (!told(-1))
		;
}

#define TIMERS \
	S(itimer_real) S(itimer_virtual) S(itimer_prof) S(alarm00) S(posix_timers) S(pthread_timers) S(pthread_timers_own) S(pthread_timers_h) S(timerfd00) \
	S(nanosleep00)
