// Locks on files. Whether one is held only another process can see.
#include <sys/file.h>

static struct flock range(int type, off_t start, off_t len) {
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
}

// other runs f in a child and gives what it says.
static int other(int (*f)(void)) {
	int status;
	pid_t p = HAVE(fork());
	if (!p) _exit(f());
	while (waitpid(p, &status, 0) != p)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}
static int flocked(void) { return flock(open("data", O_RDWR), LOCK_EX | LOCK_NB) == -1; }
static int flockedShared(void) {
	int fd = open("data", O_RDWR);
	return flock(fd, LOCK_SH | LOCK_NB) == 0 && flock(fd, LOCK_EX | LOCK_NB) == -1;
}
static int held10(void) {
	struct flock in = range(F_WRLCK, 10, 5), out = range(F_WRLCK, 20, 5);
	int fd = open("data", O_RDWR);
	return fcntl(fd, F_SETLK, &in) == -1 && fcntl(fd, F_SETLK, &out) == 0;
}
static int read10(void) {
	struct flock r = range(F_RDLCK, 10, 5), w = range(F_WRLCK, 10, 5);
	int fd = open("data", O_RDWR);
	return fcntl(fd, F_SETLK, &r) == 0 && fcntl(fd, F_SETLK, &w) == -1;
}

static void file_locks00(void) { // flock
	int fd = file("data", O_RDWR, 100);
	HAVE(flock(fd, LOCK_EX));
	moment();
	CHECK(other(flocked) == 1);
	HAVE(flock(fd, LOCK_UN));
	CHECK(other(flocked) == 0);
}
static void file_locks01(void) { // of several descriptors
	int fd = file("data", O_RDWR, 100), again = HAVE(open("data", O_RDONLY));
	HAVE(flock(fd, LOCK_SH));
	HAVE(flock(again, LOCK_SH));
	moment();
	CHECK(other(flockedShared) == 1);
	close(fd);
	CHECK(other(flockedShared) == 1);
	close(again);
	CHECK(other(flocked) == 0);
}
static void file_locks02(void) { // POSIX, a range
	int fd = file("data", O_RDWR, 100);
	struct flock l = range(F_WRLCK, 10, 5), u = range(F_UNLCK, 0, 0);
	HAVE(fcntl(fd, F_SETLK, &l));
	moment();
	CHECK(other(held10) == 1);
	HAVE(fcntl(fd, F_SETLK, &u));
	CHECK(other(held10) == 0);
}
static void file_locks03(void) { // POSIX, for reading
	int fd = file("data", O_RDWR, 100);
	struct flock l = range(F_RDLCK, 10, 5);
	HAVE(fcntl(fd, F_SETLK, &l));
	moment();
	CHECK(other(read10) == 1);
}
static void file_locks06(void) { // of the open file
	int fd = file("data", O_RDWR, 100);
	struct flock l = range(F_WRLCK, 10, 5);
	HAVE(fcntl(fd, F_OFD_SETLK, &l));
	moment();
	CHECK(other(held10) == 1);
	close(fd);
	CHECK(other(held10) == 0);
}
static void file_locks07(void) { // of an open file, to its end, for reading
	int fd = file("data", O_RDONLY, 100);
	struct flock l = range(F_RDLCK, 10, 0);
	HAVE(fcntl(fd, F_OFD_SETLK, &l));
	moment();
	CHECK(other(read10) == 1);
}
static void file_lease00(void) {
	int fd = file("data", O_RDONLY, 100);
	HAVE(fcntl(fd, F_SETLEASE, F_RDLCK));
	moment();
	CHECK(fcntl(fd, F_GETLEASE) == F_RDLCK);
}

#define LOCKS S(file_locks00) S(file_locks01) S(file_locks02) S(file_locks03) S(file_locks06) S(file_locks07) S(file_lease00)
