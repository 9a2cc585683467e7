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

// heard gives the mask of the next event, 0 if there is none, and what it was about.
static struct {
	int wd;
	char name[256];
} heard_of;
static unsigned heard(int fd) {
	static char queue[4096];
	static int at, end;
	static int of = -1;
	if (of != fd) at = end = 0, of = fd;
	if (at == end) {
		at = 0, end = read(fd, queue, sizeof queue);
		if (end == -1) {
			CHECK(errno == EAGAIN);
			end = 0;
			return 0;
		}
	}
	struct inotify_event *e = (void *)(queue + at);
	at += sizeof *e + e->len;
	heard_of.wd = e->wd;
	strcpy(heard_of.name, e->len ? e->name : "");
	return e->mask;
}
static int watch(int fd, const char *name, unsigned mask) { return HAVE(inotify_add_watch(fd, name, mask)); }

// A folder, and a file in it that was deleted and is open.
static void inotify00(void) {
	const unsigned mask = IN_DELETE | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_CREATE;
	mkdir("dir", 0755);
	int fd = HAVE(inotify_init1(IN_NONBLOCK)), gone = file("dir/gone", O_RDWR, 10);
	int dir = watch(fd, "dir", mask), wd = watch(fd, "dir/gone", mask);
	unlink("dir/gone");
	CHECK(heard(fd) == IN_DELETE && !heard(fd));
	moment();
	CHECK(!heard(fd));
	close(gone);
	unsigned m, all = 0; // the folder may be told of the end of the file, too
	while ((m = heard(fd))) all |= heard_of.wd == wd ? m : 0;
	CHECK(all == (IN_CLOSE_WRITE | IN_DELETE_SELF | IN_IGNORED));
	close(HAVE(open("dir/new", O_CREAT | O_RDWR, 0644)));
	CHECK(heard(fd) == IN_CREATE && heard_of.wd == dir && !strcmp(heard_of.name, "new") && heard(fd) == IN_CLOSE_WRITE && !heard(fd));
}
// A folder that was deleted and is open.
static void inotify_gone_dir(void) {
	HAVE(mkdir("dir", 0755));
	int fd = HAVE(inotify_init1(IN_NONBLOCK)), dir = HAVE(open("dir", O_RDONLY | O_DIRECTORY)), wd = watch(fd, "dir", IN_DELETE_SELF);
	HAVE(rmdir("dir"));
	CHECK(!heard(fd));
	moment();
	CHECK(!heard(fd));
	close(dir);
	CHECK(heard(fd) == IN_DELETE_SELF && heard_of.wd == wd && heard(fd) == IN_IGNORED && !heard(fd));
}
// Many folders.
static void inotify02(void) {
	char name[64];
	int fd = HAVE(inotify_init1(IN_NONBLOCK)), wd[64];
	HAVE(mkdir("all", 0755));
	for (int i = 0; i < 64; i++) {
		sprintf(name, "all/%d", i);
		HAVE(mkdir(name, 0755));
		wd[i] = watch(fd, name, IN_CREATE | IN_DELETE_SELF);
	}
	moment();
	for (int i = 63; i >= 0; i--) {
		sprintf(name, "all/%d/new", i);
		close(HAVE(open(name, O_CREAT | O_RDWR, 0644)));
		CHECK(heard(fd) == IN_CREATE && heard_of.wd == wd[i] && !heard(fd));
	}
}
// What is done to files to image and restore them is no event: here a file is written to, which is cut, in a
// folder that is watched for all.
static void inotify04(void) {
	HAVE(mkdir("dir", 0755));
	int out = file("dir/out", O_RDWR, 3000), in = file("dir/in", O_RDONLY, 10);
	int fd = HAVE(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
	watch(fd, "dir", IN_CREATE | IN_DELETE | IN_MOVE | IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF);
	moment();
	CHECK(!heard(fd) && fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_NONBLOCK));
	CHECK(write(out, "x", 1) == 1 && heard(fd) == IN_MODIFY && !strcmp(heard_of.name, "out") && !heard(fd) && holds(in, 0, 10));
}
// Files below folders that the program is not in, and that it has not open.
static void inotify_irmap(void) {
	int fd = HAVE(inotify_init1(IN_NONBLOCK));
	HAVE(mkdir("a", 0755)), HAVE(mkdir("a/b", 0755));
	close(file("a/b/one", O_RDWR, 10)), close(file("a/b/two", O_RDWR, 10));
	int one = watch(fd, "a/b/one", IN_MODIFY), two = watch(fd, "a/b/two", IN_MODIFY), etc = watch(fd, "/etc", IN_DELETE_SELF);
	moment();
	CHECK(truncate("a/b/two", 3) == 0 && heard(fd) == IN_MODIFY && heard_of.wd == two);
	CHECK(truncate("a/b/one", 3) == 0 && heard(fd) == IN_MODIFY && heard_of.wd == one && !heard(fd));
	CHECK(watch(fd, "/etc", IN_DELETE_SELF) == etc);
}
// Numbers with gaps, watches that end with the first event, a file that has another name by now, a link itself, and no watch.
static void inotify_numbers(void) {
	int fd = HAVE(inotify_init1(IN_NONBLOCK)), none = HAVE(inotify_init1(IN_NONBLOCK)), gone;
	HAVE(mkdir("dir", 0755)), HAVE(mkdir("old", 0755)), HAVE(symlink("dir", "link"));
	for (int i = 0; i < 50; i++) {
		gone = watch(fd, "dir", IN_CREATE);
		HAVE(inotify_rm_watch(fd, gone));
	}
	int once = watch(fd, "dir", IN_CREATE | IN_ONESHOT);
	gone = watch(fd, ".", IN_CREATE);
	int moved = watch(fd, "old", IN_CREATE | IN_EXCL_UNLINK), link = watch(fd, "link", IN_MOVE_SELF | IN_DONT_FOLLOW);
	HAVE(inotify_rm_watch(fd, gone)), HAVE(rename("old", "dir/moved"));
	while (heard(fd))
		;
	int dir2 = watch(none, "dir", IN_CREATE);
	HAVE(inotify_rm_watch(none, dir2));
	CHECK(heard(none) == IN_IGNORED && !heard(none) && once == 51 && moved == 53);
	once = watch(fd, "dir", IN_CREATE | IN_ONESHOT); // the event of the move has ended it
	moment();
	CHECK(!heard(fd) && !heard(none));
	close(HAVE(open("dir/moved/new", O_CREAT | O_RDWR, 0644)));
	CHECK(heard(fd) == IN_CREATE && heard_of.wd == moved && !heard(fd));
	HAVE(rename("link", "l"));
	CHECK(heard(fd) == IN_MOVE_SELF && heard_of.wd == link && !heard(fd));
	close(HAVE(open("dir/one", O_CREAT | O_RDWR, 0644))), close(HAVE(open("dir/two", O_CREAT | O_RDWR, 0644)));
	CHECK(heard(fd) == IN_CREATE && heard_of.wd == once && heard(fd) == IN_IGNORED && !heard(fd));
	CHECK(watch(fd, ".", IN_CREATE) > once && watch(none, ".", IN_CREATE) > 0);
}
// A descriptor in a set, that a child has, too.
static void inotify_shared(void) {
	int fd = HAVE(inotify_init1(IN_NONBLOCK)), ep = HAVE(epoll_create1(0)), p[2], status;
	HAVE(pipe(p)), HAVE(mkdir("dir", 0755));
	int wd = watch(fd, "dir", IN_CREATE);
	add(ep, fd, 77, EPOLLIN);
	pid_t child = HAVE(fork());
	if (!child) {
		char c;
		CHECK(read(p[0], &c, 1) == 1 && heard(fd) == IN_CREATE && heard_of.wd == wd && !heard(fd));
		HAVE(inotify_rm_watch(fd, wd));
		_exit(7);
	}
	moment();
	CHECK(next(ep) == 0);
	close(HAVE(open("dir/new", O_CREAT | O_RDWR, 0644)));
	CHECK(next(ep) == 77 && write(p[1], "x", 1) == 1 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
	CHECK(heard(fd) == IN_IGNORED && heard_of.wd == wd && !heard(fd));
}
static void inotify_waiting(void) {
	int fd = HAVE(inotify_init1(IN_NONBLOCK));
	watch(fd, ".", IN_CREATE);
	close(HAVE(open("new", O_CREAT | O_RDWR, 0644)));
	moment();
	CHECK(heard(fd) == IN_CREATE && !strcmp(heard_of.name, "new"));
}
static void fanotify00(void) {
	int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY);
	if (fd < 0) fd = HAVE(syscall(SYS_io_uring_setup, 4, (char[120]){0})); // only privilege could make it
	moment();
}
static void pidfd00(void) {
	HAVE(syscall(SYS_pidfd_open, getpid(), 0));
	moment();
}
static void io_uring00(void) {
	char params[120] = {0};
	int fd = syscall(SYS_io_uring_setup, 4, params);
	if (fd < 0) HAVE(fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY)); // forbidden here
	moment();
}

#define EVENTS \
	S(eventfs00) S(signalfd00) S(epoll) S(epoll01) S(epoll02) S(epoll03) S(poll00) S(inotify00) S(inotify_gone_dir) S(inotify02) S(inotify04) \
	S(inotify_irmap) S(inotify_numbers) S(inotify_shared) S(inotify_waiting) S(fanotify00) S(pidfd00) S(io_uring00)
