// Processes and their children.

// child makes one that runs f and waits until it says that it is there.
static pid_t child(void (*f)(void)) {
	int p[2];
	char c;
	HAVE(pipe(p));
	pid_t pid = HAVE(fork());
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(p[0]);
		CHECK(write(p[1], "x", 1) == 1);
		close(p[1]);
		f();
		_exit(0);
	}
	close(p[1]);
	CHECK(read(p[0], &c, 1) == 1);
	close(p[0]);
	return pid;
}
static void ended(pid_t p, int code) {
	int status;
	CHECK(waitpid(p, &status, 0) == p && WIFEXITED(status) && WEXITSTATUS(status) == code);
}
static void killed(pid_t p) {
	int status;
	HAVE(kill(p, SIGKILL));
	CHECK(waitpid(p, &status, 0) == p && WIFSIGNALED(status));
}

static void sleeps(void) {
	for (;;) pause();
}
static void codes(void) { _exit(42); }
static int toChild[2], toParent[2];
static void echoes(void) {
	char c;
	close(toChild[1]), close(toParent[0]);
	while (read(toChild[0], &c, 1) == 1)
		if (write(toParent[1], &c, 1) != 1) _exit(1);
	_exit(0);
}

static void fork00(void) {
	pid_t p = child(sleeps);
	moment();
	CHECK(!kill(p, 0));
	killed(p);
}
static void wait00(void) {
	pid_t p = child(sleeps);
	moment();
	HAVE(kill(p, SIGTERM));
	int status;
	CHECK(wait(&status) == p && WTERMSIG(status) == SIGTERM);
}
static void zombie00(void) {
	pid_t p = child(codes);
	siginfo_t in;
	HAVE(waitid(P_PID, p, &in, WEXITED | WNOWAIT));
	moment();
	ended(p, 42);
}
static void pipe00(void) {
	char c;
	HAVE(pipe(toChild));
	HAVE(pipe(toParent));
	pid_t p = child(echoes);
	close(toChild[0]), close(toParent[1]);
	moment();
	CHECK(write(toChild[1], "e", 1) == 1 && read(toParent[0], &c, 1) == 1 && c == 'e');
	close(toChild[1]);
	ended(p, 0);
}
static unsigned char *both;
static void counts(void) {
	for (;;) {
		__atomic_add_fetch((int *)both, 1, __ATOMIC_SEQ_CST);
		usleep(1000);
	}
}
static void maps01(void) {
	both = SHARED(PAGE);
	pid_t p = child(counts);
	moment();
	int then = __atomic_load_n((int *)both, __ATOMIC_SEQ_CST);
	UNTIL(__atomic_load_n((int *)both, __ATOMIC_SEQ_CST) > then + 2);
	killed(p);
}
static int together;
static void countsAtAnother(void) { // attached once more
	both = shmat(together, NULL, 0);
	counts();
}
static void shm_mp(void) { // System V shared memory, which nobody may attach any more
	struct shmid_ds d;
	together = HAVE(shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600));
	both = shmat(together, NULL, 0);
	pid_t p = child(countsAtAnother);
	UNTIL(*both);
	HAVE(shmctl(together, IPC_STAT, &d));
	d.shm_perm.mode = 0400;
	HAVE(shmctl(together, IPC_SET, &d));
	HAVE(shmctl(together, IPC_RMID, NULL));
	moment();
	int then = __atomic_load_n((int *)both, __ATOMIC_SEQ_CST);
	UNTIL(__atomic_load_n((int *)both, __ATOMIC_SEQ_CST) > then + 2);
	HAVE(shmctl(together, IPC_STAT, &d));
	CHECK(d.shm_nattch == 3 && (d.shm_perm.mode & 0777) == 0400);
	killed(p);
	HAVE(shmctl(together, IPC_STAT, &d));
	CHECK(d.shm_nattch == 1);
}
static void cow00(void) {
	both = ANON(16 * PAGE);
	fill(both, 16 * PAGE);
	pid_t p = child(sleeps);
	both[PAGE] ^= 255;
	moment();
	both[PAGE] ^= 255;
	CHECK(filled(both, 16 * PAGE));
	killed(p);
}
static void leads(void) {
	setsid();
	sleeps();
}
static void session00(void) {
	pid_t p = child(leads);
	UNTIL(getsid(p) == p);
	moment();
	CHECK(getsid(p) == p && getpgid(p) == p);
	killed(p);
}
static void parents(void) {
	child(sleeps);
	sleeps();
}
static void pstree(void) {
	pid_t a = child(parents), b = child(sleeps);
	moment();
	CHECK(!kill(a, 0) && !kill(b, 0));
	killed(a), killed(b);
}
static void stopped(void) {
	int status;
	pid_t p = child(sleeps);
	HAVE(kill(p, SIGSTOP));
	CHECK(waitpid(p, &status, WUNTRACED) == p && WIFSTOPPED(status));
	moment();
	HAVE(kill(p, SIGCONT));
	CHECK(waitpid(p, &status, WCONTINUED) == p && WIFCONTINUED(status));
	killed(p);
}
static void orphans(void) { child(sleeps); }
static void child_subreaper_existing_child(void) {
	HAVE(prctl(PR_SET_CHILD_SUBREAPER, 1));
	pid_t p = child(orphans);
	ended(p, 0);
	moment();
	pid_t q = HAVE(waitpid(-1, NULL, WNOHANG)); // the orphan, if it has ended by its parent's death
	CHECK(q >= 0);
}
static void execs(void) { execlp("sleep", "sleep", "1000", NULL); }
static void forkexec(void) {
	pid_t p = child(execs);
	moment();
	CHECK(!kill(p, 0));
	killed(p);
}
static void fdt_shared(void) {
	int fd = file("data", O_RDWR, 100);
	pid_t p = child(sleeps);
	HAVE(lseek(fd, 33, SEEK_SET));
	moment();
	CHECK(lseek(fd, 0, SEEK_CUR) == 33);
	killed(p);
}
static void ptraces(void) {
	HAVE(syscall(SYS_ptrace, 0, 0, 0, 0));
	raise(SIGSTOP);
	_exit(3);
}
static void ptrace_sig(void) {
	int status;
	pid_t p = child(ptraces);
	CHECK(waitpid(p, &status, 0) == p && WIFSTOPPED(status));
	moment();
	HAVE(syscall(SYS_ptrace, 7, p, 0, 0));
	ended(p, 3);
}
static pid_t vforked;
static void *vforks(void *arg) {
	char *args[] = {"sleep", "0", NULL};
	vforked = vfork();
	if (!vforked) {
		execvp("sleep", args);
		_exit(1);
	}
	return arg;
}
static void vfork00(void) { // one that has ended and was waited for
	pthread_t t;
	CHECK(!pthread_create(&t, NULL, vforks, NULL) && !pthread_join(t, NULL));
	ended(vforked, 0);
	moment();
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

static void zombie01(void) { // killed by a signal; the parent has seen the end of one and waited for none
	handle(SIGCHLD, catch);
	pid_t p = child(sleeps), q = child(codes);
	siginfo_t in;
	HAVE(kill(p, SIGTERM));
	UNTIL(waitid(P_PID, p, &in, WEXITED | WNOWAIT) == 0); // the signal interrupts it
	UNTIL(waitid(P_PID, q, &in, WEXITED | WNOWAIT) == 0); // the signal interrupts it
	UNTIL(caught == SIGCHLD);
	caught = 0;
	moment();
	CHECK(!caught);
	int status;
	CHECK(waitpid(p, &status, WNOHANG) == p && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	ended(q, 42);
	CHECK(waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
}
static void sigchild(void) {
	handle(SIGCHLD, catch);
	pid_t p = child(sleeps);
	moment();
	CHECK(!caught && getppid() != p);
	HAVE(kill(p, SIGKILL));
	UNTIL(caught == SIGCHLD);
	CHECK(waitpid(p, NULL, 0) == p);
}
static void lives(void) { // a child whose parent began a session after it was born
	pid_t p = child(sleeps);
	setsid();
	CHECK(getsid(0) == getpid() && getsid(p) != getpid());
	child(leads);
	sleeps();
}
static void session01(void) {
	pid_t p = child(lives);
	UNTIL(getsid(p) == p);
	moment();
	CHECK(getsid(p) == p && getpgid(p) == p);
	killed(p);
}
static void pgrp00(void) { // a group of two, one of which has ended
	pid_t p = child(codes), q = child(sleeps);
	siginfo_t in;
	HAVE(setpgid(q, q));
	HAVE(waitid(P_PID, p, &in, WEXITED | WNOWAIT));
	pid_t r = child(sleeps);
	HAVE(setpgid(r, q));
	moment();
	CHECK(getpgid(q) == q && getpgid(r) == q && getpgid(0) == getpid());
	HAVE(kill(-q, SIGTERM));
	int status;
	CHECK(waitpid(q, &status, 0) == q && WTERMSIG(status) == SIGTERM);
	CHECK(waitpid(r, &status, 0) == r && WTERMSIG(status) == SIGTERM);
	ended(p, 42);
}
static int duplex[2];
static void serves(void) {
	char text[100];
	ssize_t n;
	close(duplex[0]);
	while ((n = read(duplex[1], text, sizeof text)) > 0)
		if (write(duplex[1], text, n) != n) _exit(1);
	_exit(7);
}
static void client_server(void) { // with a question on its way
	char text[100];
	HAVE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, duplex));
	pid_t p = child(serves);
	close(duplex[1]);
	HAVE(kill(p, SIGSTOP));
	CHECK(write(duplex[0], "one", 3) == 3 && write(duplex[0], "three", 5) == 5);
	moment();
	HAVE(kill(p, SIGCONT));
	CHECK(read(duplex[0], text, sizeof text) == 3 && !memcmp(text, "one", 3));
	CHECK(read(duplex[0], text, sizeof text) == 5 && !memcmp(text, "three", 5));
	close(duplex[0]);
	ended(p, 7);
}
static int common, events;
static void seeks(void) {
	uint64_t n;
	CHECK(read(events, &n, sizeof n) == sizeof n);
	_exit(n == 5 ? lseek(common, 0, SEEK_CUR) : 99);
}
static void shared_fd2(void) { // an offset and a counter in common
	uint64_t n = 5;
	common = file("common", O_RDWR, 100);
	events = HAVE(eventfd(0, 0));
	pid_t p = child(seeks);
	moment();
	HAVE(lseek(common, 55, SEEK_SET));
	CHECK(write(events, &n, sizeof n) == sizeof n);
	ended(p, 55);
}
static void maps_memfd(void) { // memory with a descriptor, mapped by both
	int fd = HAVE(syscall(SYS_memfd_create, "ours", 0));
	HAVE(ftruncate(fd, PAGE));
	both = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(both != MAP_FAILED);
	pid_t p = child(counts);
	moment();
	int then = __atomic_load_n((int *)both, __ATOMIC_SEQ_CST), now;
	UNTIL(__atomic_load_n((int *)both, __ATOMIC_SEQ_CST) > then + 2);
	CHECK(pread(fd, &now, sizeof now, 0) == sizeof now && now > then);
	killed(p);
}
static void pidfd01(void) {
	pid_t p = child(sleeps), q = child(codes);
	siginfo_t in;
	int fd = HAVE(syscall(SYS_pidfd_open, p, 0)), gone = HAVE(syscall(SYS_pidfd_open, q, 0));
	HAVE(waitid(P_PID, q, &in, WEXITED | WNOWAIT));
	moment();
	struct pollfd w[] = {{fd, POLLIN, 0}, {gone, POLLIN, 0}};
	CHECK(poll(w, 2, 0) == 1 && w[1].revents);
	HAVE(syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0));
	CHECK(poll(w, 1, -1) == 1);
	CHECK(waitpid(p, NULL, 0) == p);
	ended(q, 42);
}
static pthread_mutex_t *ours;
static void locksOurs(void) {
	CHECK(!pthread_mutex_lock(ours));
	both[0] = 1;
	for (;;) pause();
}
static void mutex_shared(void) { // a lock of several processes
	pthread_mutexattr_t a;
	both = SHARED(PAGE);
	ours = (void *)(both + 64);
	CHECK(!pthread_mutexattr_init(&a) && !pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED) && !pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST));
	CHECK(!pthread_mutex_init(ours, &a));
	pid_t p = child(locksOurs);
	UNTIL(both[0]);
	moment();
	CHECK(pthread_mutex_trylock(ours) == EBUSY);
	killed(p);
	CHECK(pthread_mutex_lock(ours) == EOWNERDEAD);
}
static void *waits(void *arg) {
	for (;;) pause();
	return arg;
}
static void manyThreads(void) {
	pthread_t t[5];
	for (int i = 0; i < 5; i++) CHECK(!pthread_create(t + i, NULL, waits, NULL));
	child(sleeps);
	sleeps();
}
static void fork_threads(void) {
	pid_t p = child(manyThreads);
	moment();
	CHECK(!kill(p, 0));
	killed(p);
}
static void locked_file(void) {
	struct flock f = {.l_type = F_WRLCK, .l_len = 10};
	HAVE(fcntl(common, F_SETLK, &f));
}
static void locksFile(void) {
	locked_file();
	both[0] = 1;
	sleeps();
}
static void file_locks05(void) { // a lock of the child's
	struct flock f = {.l_type = F_WRLCK, .l_len = 10};
	both = SHARED(PAGE);
	common = file("locked", O_RDWR, 100);
	pid_t p = child(locksFile);
	UNTIL(both[0]);
	moment();
	HAVE(fcntl(common, F_GETLK, &f));
	CHECK(f.l_type == F_WRLCK && f.l_pid == p);
	killed(p);
	locked_file();
}
static void keeps(void) { // what it was born with
	for (char c; read(toChild[0], &c, 1) == 1;)
		if (write(toParent[1], &c, 1) != 1) _exit(1);
}
static void scm05(void) { // a descriptor that only the child has, on its way to it
	struct iovec io = {"d", 1};
	char room[CMSG_SPACE(sizeof(int))] = {0}, c;
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	HAVE(socketpair(AF_UNIX, SOCK_STREAM, 0, duplex));
	HAVE(pipe(toChild));
	HAVE(pipe(toParent));
	pid_t p = child(keeps);
	h->cmsg_level = SOL_SOCKET, h->cmsg_type = SCM_RIGHTS, h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), toChild + 1, sizeof(int));
	CHECK(sendmsg(duplex[0], &m, 0) == 1);
	close(toChild[1]), close(toParent[1]);
	moment();
	io.iov_base = &c;
	CHECK(recvmsg(duplex[1], &m, 0) == 1 && c == 'd');
	int fd;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
	CHECK(write(fd, "e", 1) == 1 && read(toParent[0], &c, 1) == 1 && c == 'e');
	killed(p);
}

static int master;
static void leaves(int sig) { _exit(sig == SIGINT ? 5 : 6); }
static void foreground(void) {
	handle(SIGINT, leaves);
	both[1] = 1;
	sleeps();
}
static void controls(void) { // a session with a controlling terminal
	char path[40], text[20];
	int status;
	setsid();
	CHECK(!ptsname_r(master, path, sizeof path));
	close(HAVE(open(path, O_RDWR)));
	int tty = HAVE(open("/dev/tty", O_RDWR));
	pid_t p = child(foreground);
	HAVE(setpgid(p, p));
	HAVE(tcsetpgrp(tty, p));
	both[0] = 1;
	CHECK(waitpid(p, &status, 0) == p && WIFEXITED(status) && tcgetsid(tty) == getpid());
	handle(SIGTTOU, SIG_IGN);
	HAVE(tcsetpgrp(tty, getpid()));
	CHECK(read(tty, text, sizeof text) == 3 && !memcmp(text, "on\n", 3) && write(tty, "done", 4) == 4);
	close(HAVE(open("/dev/tty", O_RDWR)));
	_exit(WEXITSTATUS(status));
}
static void pty04(void) { // ^C ends who is in the foreground, and the session goes on
	char text[40];
	int s;
	both = SHARED(PAGE);
	master = pty(&s);
	pid_t p = child(controls);
	close(s);
	UNTIL(both[0] && both[1]);
	pid_t front = HAVE(tcgetpgrp(master));
	moment();
	CHECK(tcgetpgrp(master) == front && tcgetsid(master) == p);
	CHECK(write(master, "\003", 1) == 1 && write(master, "on\n", 3) == 3);
	int n = 0;
	while (!memmem(text, n, "done", 4)) n += HAVE(read(master, text + n, sizeof text - n));
	CHECK(!memcmp(text, "^Con\r\ndone", 10));
	ended(p, 5);
}
static void sides(void) { close(master); }
static void pty03(void) { // somebody else has it, too
	int s;
	master = pty(&s);
	orphan(sides);
	moment();
}

#define TREES \
	S(fork00) S(wait00) S(zombie00) S(pipe00) S(maps01) S(shm_mp) S(cow00) S(session00) S(pstree) S(stopped) S(child_subreaper_existing_child) \
	S(forkexec) S(fdt_shared) S(ptrace_sig) S(vfork00) \
	S(zombie01) S(sigchild) S(session01) S(pgrp00) S(client_server) S(shared_fd2) S(maps_memfd) S(pidfd01) S(mutex_shared) \
	S(fork_threads) S(file_locks05) S(scm05) S(pty03) S(pty04)
