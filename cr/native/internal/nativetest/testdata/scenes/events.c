// Descriptors of events.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>

static void eventfs00(void) {
	uint64_t n;
	int a = HAVE(eventfd(17, EFD_NONBLOCK)), b = HAVE(eventfd(3, EFD_SEMAPHORE));
	moment();
	CHECK(read(a, &n, 8) == 8 && n == 17 && read(a, &n, 8) == -1 && errno == EAGAIN);
	CHECK(read(b, &n, 8) == 8 && n == 1);
}

static void signalfd00(void) {
	sigset_t m, o;
	struct signalfd_siginfo in;
	sigemptyset(&m), sigemptyset(&o);
	sigaddset(&m, SIGUSR1), sigaddset(&m, SIGRTMIN + 2);
	sigprocmask(SIG_BLOCK, &m, NULL);
	int fd = HAVE(signalfd(-1, &m, SFD_NONBLOCK)), none = HAVE(signalfd(-1, &o, SFD_NONBLOCK));
	raise(SIGUSR1);
	moment();
	CHECK(read(fd, &in, sizeof in) == sizeof in && in.ssi_signo == SIGUSR1);
	CHECK(read(fd, &in, sizeof in) == -1 && errno == EAGAIN);
	raise(SIGRTMIN + 2);
	CHECK(read(none, &in, sizeof in) == -1 && read(fd, &in, sizeof in) == sizeof in && (int)in.ssi_signo == SIGRTMIN + 2);
}

static void add(int ep, int fd, uint64_t data, unsigned events) {
	struct epoll_event e = {.events = events, .data.u64 = data};
	HAVE(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
}
// next waits for one event and gives its data, 0 if there is none.
static uint64_t next(int ep) {
	struct epoll_event e;
	int n = HAVE(epoll_wait(ep, &e, 1, 0));
	return n ? e.data.u64 : 0;
}

static void epoll(void) {
	int ep = HAVE(epoll_create1(EPOLL_CLOEXEC)), ev = HAVE(eventfd(0, 0)), p[2];
	HAVE(pipe(p));
	add(ep, ev, 1001, EPOLLIN);
	add(ep, p[0], 1002, EPOLLIN | EPOLLET);
	moment();
	CHECK(next(ep) == 0 && write(p[1], "x", 1) == 1 && next(ep) == 1002 && next(ep) == 0);
	uint64_t n = 1;
	CHECK(write(ev, &n, 8) == 8 && next(ep) == 1001);
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = 5};
	CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, ev, &e) == -1 && errno == EEXIST);
}
// What is watched has another number now than when it was put into the set.
static void epoll01(void) {
	int ep = HAVE(epoll_create1(0)), p[2];
	HAVE(pipe(p));
	add(ep, p[0], 2001, EPOLLIN);
	int moved = HAVE(dup(p[0]));
	close(p[0]);
	moment();
	CHECK(next(ep) == 0 && write(p[1], "x", 1) == 1 && next(ep) == 2001);
	CHECK(moved > 0 && fcntl(p[0], F_GETFD) == -1);
}
// And something else has the number, and is watched, too.
static void epoll02(void) {
	int ep = HAVE(epoll_create1(0)), p[2];
	HAVE(pipe(p));
	add(ep, p[0], 2001, EPOLLIN);
	HAVE(dup(p[0]));
	close(p[0]);
	int ev = HAVE(eventfd(0, EFD_CLOEXEC));
	CHECK(ev == p[0]);
	add(ep, ev, 2002, EPOLLIN);
	moment();
	uint64_t n = 1;
	CHECK(next(ep) == 0 && write(p[1], "x", 1) == 1 && next(ep) == 2001);
	CHECK(write(ev, &n, 8) == 8 && (next(ep) == 2002 || next(ep) == 2002) && fcntl(ev, F_GETFD) == FD_CLOEXEC);
}
static void epoll03(void) { // a set in a set
	int a = HAVE(epoll_create1(0)), b = HAVE(epoll_create1(0)), ev = HAVE(eventfd(0, 0));
	add(b, ev, 7, EPOLLIN);
	add(a, b, 8, EPOLLIN);
	moment();
	uint64_t n = 1;
	CHECK(next(a) == 0 && write(ev, &n, 8) == 8 && next(a) == 8 && next(b) == 7);
}
static void *poller(void *arg) {
	struct pollfd p = {(int)(long)arg, POLLIN, 0};
	while (poll(&p, 1, -1) != 1) CHECK(errno == EINTR);
	return NULL;
}
static void poll00(void) {
	int ev = HAVE(eventfd(0, 0));
	uint64_t n = 1;
	pthread_t t;
	CHECK(!pthread_create(&t, NULL, poller, (void *)(long)ev));
	moment();
	CHECK(write(ev, &n, 8) == 8 && !pthread_join(t, NULL));
}

static void inotify00(void) {
	union { struct inotify_event e; char b[4096]; } u;
	mkdir("dir", 0755);
	int fd = HAVE(inotify_init1(IN_NONBLOCK)), wd = HAVE(inotify_add_watch(fd, "dir", IN_CREATE));
	moment();
	close(HAVE(open("dir/new", O_CREAT | O_RDWR, 0644)));
	CHECK(read(fd, &u, sizeof u) > 0 && u.e.wd == wd && u.e.mask == IN_CREATE);
}
static void fanotify00(void) {
	int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY);
	if (fd < 0) fd = HAVE(inotify_init1(0));
	moment();
}
static void pidfd00(void) {
	HAVE(syscall(SYS_pidfd_open, getpid(), 0));
	moment();
}
static void io_uring00(void) {
	char params[120] = {0};
	int fd = syscall(SYS_io_uring_setup, 4, params);
	if (fd < 0) HAVE(syscall(SYS_inotify_init1, 0)); // forbidden here
	moment();
}

#define EVENTS \
	S(eventfs00) S(signalfd00) S(epoll) S(epoll01) S(epoll02) S(epoll03) S(poll00) S(inotify00) S(fanotify00) S(pidfd00) S(io_uring00)
