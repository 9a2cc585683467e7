// Files, folders, pipes, terminals.
#include <dirent.h>
#include <mqueue.h>
#include <sys/ioctl.h>
#include <termios.h>

static int holds(int fd, off_t at, size_t n) {
	unsigned char *p = malloc(n);
	int ok = pread(fd, p, n, at) == (ssize_t)n && filled(p, n);
	free(p);
	return ok;
}

static void write_read00(void) {
	int fd = file("data", O_RDWR, 3000);
	moment();
	CHECK(holds(fd, 0, 3000));
}
static void write_read01(void) {
	int fd = file("data", O_RDWR, 3000);
	HAVE(lseek(fd, 1000, SEEK_SET));
	moment();
	CHECK(lseek(fd, 0, SEEK_CUR) == 1000 && write(fd, "x", 1) == 1 && lseek(fd, 0, SEEK_CUR) == 1001);
}
static void write_read02(void) {
	int fd = file("data", O_RDONLY, 3000);
	moment();
	CHECK(write(fd, "x", 1) == -1 && errno == EBADF && holds(fd, 0, 3000));
}
// What was written after the image is gone.
static void write_read10(void) {
	int fd = file("data", O_RDWR, 3000);
	struct stat st;
	moment();
	CHECK(!fstat(fd, &st) && st.st_size == 3000);
}
// A child goes on writing in place after the image, and finds in the file what it has written last.
static void in_place(void) {
	int fd = file("data", O_RDWR, 3000), status, stop[2];
	HAVE(pipe2(stop, O_NONBLOCK));
	pid_t child = HAVE(fork());
	if (!child) {
		char c;
		long has;
		for (long k = 0; read(stop[0], &c, 1) != 1; k++) {
			if (k && (pread(fd, &has, sizeof has, 1000) != sizeof has || has != k)) _exit(1);
			has = k + 1;
			if (pwrite(fd, &has, sizeof has, 1000) != sizeof has) _exit(2);
		}
		_exit(0);
	}
	long has = 0;
	UNTIL(pread(fd, &has, sizeof has, 1000) == sizeof has && has > 0 && has < 1 << 20);
	moment();
	CHECK(write(stop[1], "x", 1) == 1 && waitpid(child, &status, 0) == child && !status && holds(fd, 0, 1000));
}
static void file_append(void) {
	int fd = file("data", O_WRONLY | O_APPEND, 10);
	struct stat st;
	HAVE(lseek(fd, 2, SEEK_SET));
	moment();
	CHECK((fcntl(fd, F_GETFL) & O_APPEND) && write(fd, "x", 1) == 1 && !fstat(fd, &st) && st.st_size == 11);
}
static void file_attr(void) {
	int fd = file("data", O_RDWR | O_CLOEXEC | O_NONBLOCK | O_SYNC, 10);
	int fl = fcntl(fd, F_GETFL);
	moment();
	CHECK(fcntl(fd, F_GETFL) == fl && fcntl(fd, F_GETFD) == FD_CLOEXEC);
}
static void file_fown(void) {
	int p[2];
	HAVE(pipe(p));
	handle(SIGIO, catch);
	HAVE(fcntl(p[0], F_SETOWN, getpid()));
	HAVE(fcntl(p[0], F_SETFL, O_ASYNC | O_NONBLOCK));
	moment();
	CHECK(write(p[1], "x", 1) == 1);
	UNTIL(caught == SIGIO);
}
static void fd_offset(void) {
	int fd = file("data", O_RDWR, 100), same = HAVE(dup(fd)), other = HAVE(open("data", O_RDWR));
	HAVE(lseek(fd, 50, SEEK_SET));
	moment();
	HAVE(lseek(fd, 60, SEEK_SET));
	CHECK(lseek(same, 0, SEEK_CUR) == 60 && lseek(other, 0, SEEK_CUR) == 0);
}
static void fd01(void) {
	int fd = file("data", O_RDWR, 10);
	HAVE(dup2(fd, 500));
	close(fd);
	moment();
	CHECK(holds(500, 0, 10) && fcntl(fd, F_GETFD) == -1);
}
static void opath_file(void) {
	file("data", O_RDONLY, 10);
	int fd = HAVE(open("data", O_PATH)), dir = HAVE(open(".", O_PATH | O_DIRECTORY));
	struct stat st;
	moment();
	CHECK(!fstat(fd, &st) && st.st_size == 10 && !fstatat(dir, "data", &st, 0));
}
static void dir00(void) {
	mkdir("dir", 0755);
	int fd = HAVE(open("dir", O_RDONLY | O_DIRECTORY));
	moment();
	close(HAVE(openat(fd, "new", O_CREAT | O_RDWR, 0644)));
	CHECK(!access("dir/new", F_OK));
}
static void unlink_fstat00(void) {
	int fd = file("gone", O_RDWR, 3000);
	struct stat st;
	HAVE(unlink("gone"));
	HAVE(lseek(fd, 100, SEEK_SET));
	moment();
	CHECK(!fstat(fd, &st) && st.st_size == 3000 && st.st_nlink == 0 && holds(fd, 0, 3000) && lseek(fd, 0, SEEK_CUR) == 100);
}
static void unlink_fstat01(void) {
	int a = file("gone", O_RDWR, 100), b = HAVE(open("gone", O_RDONLY));
	unsigned char c;
	HAVE(unlink("gone"));
	moment();
	CHECK(pwrite(a, "q", 1, 5) == 1 && pread(b, &c, 1, 5) == 1 && c == 'q');
}
static void unlink_fstat02(void) {
	// Another file has the name by now.
	int a = file("gone", O_RDWR, 100);
	HAVE(unlink("gone"));
	int b = file("gone", O_RDWR, 200);
	struct stat st;
	moment();
	CHECK(!fstat(a, &st) && st.st_size == 100 && !fstat(b, &st) && st.st_size == 200 && st.st_nlink == 1);
}
static void unlink_fstat03(void) {
	// It has another name still.
	int a = file("gone", O_RDWR, 100);
	struct stat st;
	unlink("kept");
	HAVE(link("gone", "kept"));
	HAVE(unlink("gone"));
	moment();
	CHECK(!fstat(a, &st) && st.st_size == 100 && st.st_nlink == 1);
	HAVE(unlink("kept"));
}
static void unlink_fstat04(void) {
	int fd = HAVE(open(".", O_TMPFILE | O_RDWR, 0600));
	CHECK(write(fd, "tmp", 3) == 3);
	char p[4] = "";
	moment();
	CHECK(pread(fd, p, 3, 0) == 3 && !strcmp(p, "tmp"));
}
static void unlink_largefile(void) {
	int fd = file("gone", O_RDWR, 10);
	struct stat st;
	HAVE(ftruncate(fd, 1L << 33));
	HAVE(unlink("gone"));
	moment();
	CHECK(!fstat(fd, &st) && st.st_size == 1L << 33 && holds(fd, 0, 10));
}
static void unlink_dir00(void) {
	HAVE(mkdir("gone", 0755));
	int fd = HAVE(open("gone", O_RDONLY | O_DIRECTORY));
	struct stat st;
	HAVE(rmdir("gone"));
	moment();
	CHECK(!fstat(fd, &st) && S_ISDIR(st.st_mode) && st.st_nlink == 0);
	CHECK(openat(fd, "x", O_CREAT | O_RDWR, 0600) == -1 && errno == ENOENT);
}
static void cwd00(void) {
	char a[512], b[512];
	mkdir("dir", 0755);
	HAVE(chdir("dir"));
	CHECK(getcwd(a, sizeof a));
	moment();
	CHECK(getcwd(b, sizeof b) && !strcmp(a, b));
}
static void cwd01(void) {
	char a[512];
	mkdir("dir", 0755);
	HAVE(chdir("dir"));
	HAVE(rmdir("../dir"));
	moment();
	CHECK(!getcwd(a, sizeof a) && errno == ENOENT);
}
static void cwd02(void) {
	// Deleted, and another has the name.
	struct stat a, b;
	mkdir("dir", 0755);
	HAVE(chdir("dir"));
	HAVE(rmdir("../dir"));
	HAVE(mkdir(strcat(strcpy((char[600]){0}, getenv("TMPDIR")), "/dir"), 0755));
	moment();
	CHECK(!stat(".", &a) && !stat(strcat(strcpy((char[600]){0}, getenv("TMPDIR")), "/dir"), &b) && a.st_ino != b.st_ino);
}

static void pipe01(void) {
	int p[2];
	unsigned char b[5000], c[5000];
	HAVE(pipe(p));
	fill(b, sizeof b);
	CHECK(write(p[1], b, sizeof b) == sizeof b);
	moment();
	CHECK(read(p[0], c, sizeof c) == sizeof c && filled(c, sizeof c));
	close(p[1]);
	CHECK(read(p[0], c, 1) == 0);
}
static void pipe02(void) {
	int p[2];
	char c;
	HAVE(pipe2(p, O_NONBLOCK | O_CLOEXEC));
	moment();
	CHECK(read(p[0], &c, 1) == -1 && errno == EAGAIN);
	CHECK(write(p[1], "a", 1) == 1 && read(p[0], &c, 1) == 1 && c == 'a');
}
// Full, with more than usual.
static void pipe03(void) {
	int p[2];
	HAVE(pipe2(p, O_NONBLOCK));
	int size = HAVE(fcntl(p[1], F_SETPIPE_SZ, 256 * K));
	unsigned char *b = malloc(size);
	fill(b, size);
	CHECK(write(p[1], b, size) == size);
	moment();
	memset(b, 0, size);
	CHECK(fcntl(p[0], F_GETPIPE_SZ) == size && read(p[0], b, size) == size && filled(b, size));
}
// The other end is gone.
static void pipe04(void) {
	int p[2];
	char c[8];
	HAVE(pipe(p));
	CHECK(write(p[1], "left", 4) == 4);
	close(p[1]);
	moment();
	CHECK(read(p[0], c, 8) == 4 && read(p[0], c, 8) == 0);
}

static void fifo(void) {
	char c[8];
	HAVE(mkfifo("fifo", 0600));
	int fd = HAVE(open("fifo", O_RDWR));
	CHECK(write(fd, "named", 5) == 5);
	moment();
	CHECK(read(fd, c, 8) == 5 && !memcmp(c, "named", 5));
	int other = HAVE(open("fifo", O_WRONLY | O_NONBLOCK));
	CHECK(write(other, "x", 1) == 1 && read(fd, c, 8) == 1 && *c == 'x');
}
static void fifo_rowo_pair(void) {
	char c[8];
	HAVE(mkfifo("fifo", 0600));
	int r = HAVE(open("fifo", O_RDONLY | O_NONBLOCK)), w = HAVE(open("fifo", O_WRONLY));
	CHECK(write(w, "named", 5) == 5);
	moment();
	CHECK(read(r, c, 8) == 5 && !memcmp(c, "named", 5));
	close(w);
	CHECK(read(r, c, 8) == 0);
}
static void fifo_wronly(void) {
	HAVE(mkfifo("fifo", 0600));
	int r = HAVE(open("fifo", O_RDONLY | O_NONBLOCK)), w = HAVE(open("fifo", O_WRONLY));
	close(r);
	signal(SIGPIPE, SIG_IGN);
	moment();
	CHECK(write(w, "x", 1) == -1 && errno == EPIPE);
}
static void fifo_ghost(void) {
	char c[8];
	HAVE(mkfifo("fifo", 0600));
	int fd = HAVE(open("fifo", O_RDWR));
	CHECK(write(fd, "ghost", 5) == 5);
	HAVE(unlink("fifo"));
	moment();
	CHECK(read(fd, c, 8) == 5 && !memcmp(c, "ghost", 5));
}

static int pty(int *slave) {
	int m = HAVE(posix_openpt(O_RDWR | O_NOCTTY));
	HAVE(grantpt(m));
	HAVE(unlockpt(m));
	*slave = HAVE(open(ptsname(m), O_RDWR | O_NOCTTY));
	return m;
}
static void pty00(void) {
	int s, m = pty(&s);
	struct termios t;
	struct winsize w = {33, 77, 0, 0}, now;
	char c[16];
	HAVE(tcgetattr(s, &t));
	cfmakeraw(&t);
	HAVE(tcsetattr(s, TCSANOW, &t));
	HAVE(ioctl(m, TIOCSWINSZ, &w));
	char path[40], name[40];
	CHECK(!ptsname_r(m, path, sizeof path));
	moment();
	CHECK(!ptsname_r(m, name, sizeof name) && !strcmp(name, path) && !ttyname_r(s, name, sizeof name) && !strcmp(name, path));
	CHECK(!ioctl(s, TIOCGWINSZ, &now) && now.ws_row == 33 && now.ws_col == 77);
	CHECK(!tcgetattr(s, &t) && !(t.c_lflag & (ICANON | ECHO)));
	CHECK(write(m, "in", 2) == 2 && read(s, c, 16) == 2 && write(s, "out", 3) == 3 && read(m, c, 16) == 3);
}
static void pty01(void) { // something was typed: a line, and a part of one; it was echoed, and something else was written
	int s, m = pty(&s), left = -1;
	char c[40];
	CHECK(write(m, "typed\nhal", 9) == 9);
	UNTIL(!ioctl(m, FIONREAD, &left) && left == 10);
	CHECK(write(s, "out\n", 4) == 4);
	moment();
	CHECK(read(s, c, 40) == 6 && !memcmp(c, "typed\n", 6));
	CHECK(fcntl(s, F_SETFL, O_NONBLOCK) == 0 && read(s, c, 40) == -1 && errno == EAGAIN);
	CHECK(read(m, c, 40) == 15 && !memcmp(c, "typed\r\nhalout\r\n", 15));
	CHECK(write(m, "\177\n", 2) == 2); // the last of it is erased
	UNTIL((left = read(s, c, 40)) >= 0);
	CHECK(left == 3 && !memcmp(c, "ha\n", 3));
}
static void pty02(void) { // of several some are closed, or one side of them is; new ones can be had
	int s[4], m[4];
	char path[4][40], c;
	for (int i = 0; i < 4; i++) {
		m[i] = pty(s + i);
		CHECK(!ptsname_r(m[i], path[i], sizeof path[i]));
	}
	close(s[0]), close(m[0]);
	close(s[1]);
	close(m[2]);
	int again = dup(m[3]), other = HAVE(open(path[3], O_RDONLY | O_NOCTTY | O_NONBLOCK));
	moment();
	CHECK(read(m[1], &c, 1) == -1 && errno == EIO); // until somebody opens it
	int p = HAVE(open(path[1], O_RDWR | O_NOCTTY));
	CHECK(write(p, "x", 1) == 1 && read(m[1], &c, 1) == 1 && c == 'x');
	CHECK(read(s[2], &c, 1) == 0 && write(s[2], &c, 1) == -1 && errno == EIO);
	CHECK(read(other, &c, 1) == -1 && errno == EAGAIN && write(again, "\n", 1) == 1);
	CHECK(read(s[3], &c, 1) == 1 && c == '\n');
	m[0] = pty(s);
	CHECK(write(s[0], "y", 1) == 1 && read(m[0], &c, 1) == 1 && c == 'y');
}
static void tty00(void) { // the other side has hung up
	int s, m = pty(&s);
	char c;
	close(m);
	moment();
	CHECK(read(s, &c, 1) <= 0);
}

static void posix_mq1(void) {
	char name[40], got[16];
	struct mq_attr a = {.mq_maxmsg = 2, .mq_msgsize = sizeof got};
	snprintf(name, sizeof name, "/scene-%d", (int)getpid());
	int q = HAVE(mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &a));
	HAVE(mq_unlink(name));
	HAVE(mq_send(q, "hello", 6, 0));
	moment();
	CHECK(mq_receive(q, got, sizeof got, NULL) == 6 && !strcmp(got, "hello"));
}

static void dev_null(void) {
	int fd = HAVE(open("/dev/null", O_RDWR)), z = HAVE(open("/dev/urandom", O_RDONLY));
	char c;
	moment();
	CHECK(write(fd, "x", 1) == 1 && read(fd, &c, 1) == 0 && read(z, &c, 1) == 1);
}
static void proc_self(void) {
	int fd = HAVE(open("/proc/self/status", O_RDONLY));
	char b[4096], want[40];
	moment();
	ssize_t n = pread(fd, b, sizeof b - 1, 0);
	CHECK(n > 0);
	b[n] = 0;
	snprintf(want, sizeof want, "Pid:\t%d\n", (int)getpid());
	CHECK(strstr(b, want));
}
static void child_opened_proc(void) {
	HAVE(open("/proc/1/comm", O_RDONLY));
	moment();
}
static void dev_fuse(void) { // a device that cannot be opened as it was
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	if (fd < 0) fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	CHECK(fd >= 0);
	moment();
}

#define FILES \
	S(write_read00) S(write_read01) S(write_read02) S(write_read10) S(in_place) S(file_append) S(file_attr) S(file_fown) S(fd_offset) S(fd01) \
	S(opath_file) S(dir00) S(unlink_fstat00) S(unlink_fstat01) S(unlink_fstat02) S(unlink_fstat03) S(unlink_fstat04) \
	S(unlink_largefile) S(unlink_dir00) S(cwd00) S(cwd01) S(cwd02) S(pipe01) S(pipe02) S(pipe03) S(pipe04) S(fifo) S(fifo_rowo_pair) \
	S(fifo_wronly) S(fifo_ghost) S(pty00) S(pty01) S(pty02) S(tty00) S(posix_mq1) S(dev_null) S(proc_self) S(child_opened_proc) S(dev_fuse)
