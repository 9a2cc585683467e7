// Memory.

#define MAP(n, prot, flags, fd, off) \
	({ \
		void *p_ = mmap(NULL, n, prot, flags, fd, off); \
		if (p_ == MAP_FAILED) fail(__FILE__, __LINE__, "mmap"); \
		(unsigned char *)p_; \
	})
#define ANON(n) MAP(n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
#define SHARED(n) MAP(n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)

// protOf reads the protection of an address from /proc.
static int protOf(void *at) {
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long a, b;
	char p[5];
	char line[512];
	int prot = -1;
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "%lx-%lx %4s", &a, &b, p) == 3 && (unsigned long)at >= a && (unsigned long)at < b)
			prot = (p[0] == 'r') | (p[1] == 'w') << 1 | (p[2] == 'x') << 2;
	fclose(f);
	return prot;
}

static void mem_touch(void) {
	unsigned char *p = ANON(8 * M);
	for (size_t i = 0; i < 8 * M; i += 3 * PAGE) p[i] = pattern(i);
	moment();
	for (size_t i = 0; i < 8 * M; i += PAGE) CHECK(p[i] == (i % (3 * PAGE) ? 0 : pattern(i)));
}

static void maps00(void) {
	unsigned char *p[16];
	file("mapped", O_RDONLY, 2 * PAGE);
	for (int i = 0; i < 16; i++) {
		int shared = i & 8 ? MAP_SHARED : MAP_PRIVATE;
		p[i] = MAP(2 * PAGE, PROT_READ | PROT_WRITE, shared | MAP_ANONYMOUS, -1, 0);
		fill(p[i], 2 * PAGE);
		HAVE(mprotect(p[i], 2 * PAGE, i & 7));
	}
	moment();
	for (int i = 0; i < 16; i++) {
		CHECK(protOf(p[i]) == (i & 7));
		HAVE(mprotect(p[i], 2 * PAGE, PROT_READ));
		CHECK(filled(p[i], 2 * PAGE));
	}
}

static void maps02(void) {
	unsigned char *a = ANON(PAGE), *b = ANON(PAGE), *c = ANON(PAGE);
	fill(a, PAGE), fill(b, PAGE), fill(c, PAGE);
	HAVE(madvise(a, PAGE, MADV_DONTFORK));
	HAVE(madvise(b, PAGE, MADV_DONTDUMP));
	HAVE(madvise(c, PAGE, MADV_WIPEONFORK));
	moment();
	CHECK(filled(a, PAGE) && filled(b, PAGE) && filled(c, PAGE));
}

static void maps04(void) {
	unsigned char *p = ANON(512UL * M);
	for (size_t i = 0; i < 512UL * M; i += 64UL * M) p[i] = pattern(i / PAGE);
	moment();
	for (size_t i = 0; i < 512UL * M; i += 64UL * M) CHECK(p[i] == pattern(i / PAGE) && p[i + PAGE] == 0);
}

static void maps05(void) {
	unsigned char *p = ANON(512 * PAGE);
	fill(p, 512 * PAGE);
	for (int i = 1; i < 512; i += 2) HAVE(munmap(p + i * PAGE, PAGE));
	moment();
	for (int i = 0; i < 512; i++) {
		unsigned char v;
		int there = mincore(p + i * PAGE, PAGE, &v) == 0;
		CHECK(there == !(i & 1));
		for (int j = 0; there && j < PAGE; j += 61) CHECK(p[i * PAGE + j] == pattern(i * PAGE + j));
	}
}

static void maps06(void) {
	int fd = file("mapped", O_RDONLY, 4 * PAGE);
	unsigned char *p = MAP(8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	p[PAGE] = 99;
	moment();
	CHECK(p[PAGE] == 99 && p[0] == pattern(0) && p[3 * PAGE] == pattern(3 * PAGE));
}

// A shared mapping of a file that the program writes to by it.
static void maps07(void) {
	int fd = file("mapped", O_RDWR, 4 * PAGE);
	unsigned char *p = MAP(4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), c;
	p[5] = 200;
	moment();
	p[6] = 201;
	CHECK(pread(fd, &c, 1, 5) == 1 && c == 200 && pread(fd, &c, 1, 6) == 1 && c == 201);
}

// A child writes to it, too, and reads it by another mapping; none of them has it open.
static void maps_written(void) {
	int p[2], status, fd = file("mapped", O_RDWR, 3 * PAGE + 100), only = HAVE(open("mapped", O_RDONLY));
	HAVE(pipe(p));
	unsigned char *all = MAP(4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	unsigned char *seen = MAP(PAGE, PROT_READ, MAP_SHARED, only, PAGE), *part = MAP(PAGE, PROT_READ, MAP_SHARED, fd, PAGE);
	close(fd), close(only);
	pid_t child = HAVE(fork());
	if (!child) {
		char c;
		all[PAGE + 1] = 90;
		CHECK(read(p[0], &c, 1) == 1 && all[PAGE + 2] == 91 && seen[2] == 91 && part[2] == 91);
		all[PAGE + 3] = 92;
		_exit(0);
	}
	UNTIL(seen[1] == 90);
	moment();
	CHECK(filled(all, PAGE) && all[3 * PAGE + 99] == pattern(3 * PAGE + 99) && all[3 * PAGE + 100] == 0 && seen[1] == 90);
	all[PAGE + 2] = 91;
	CHECK(write(p[1], "x", 1) == 1 && waitpid(child, &status, 0) == child && !status && part[3] == 92);
	struct stat st;
	CHECK(!stat("mapped", &st) && st.st_size == 3 * PAGE + 100 && (st.st_mode & 0777) == 0644);
}
// Another file is open for reading and writing: they may belong together.
static void beside(off_t size) {
	unsigned char c;
	int fd = file("mapped", O_RDWR, PAGE);
	unsigned char *p = MAP(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int table = file("table", O_RDWR, PAGE);
	HAVE(ftruncate(table, size));
	p[5] = 200;
	moment();
	CHECK(p[5] == 200 && pread(table, &c, 1, 7) == 1 && c == pattern(7) && lseek(table, 0, SEEK_END) == size);
}
static void maps_beside(void) { beside(PAGE); }
static void maps_beside_large(void) { beside(65 << 20); }
static void shm_posix(void) {
	char name[64];
	struct stat st;
	sprintf(name, "/gorun-scene-%d", getpid());
	int fd = HAVE(shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600));
	HAVE(ftruncate(fd, 2 * PAGE));
	unsigned char *p = MAP(2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	fill(p, 2 * PAGE);
	moment();
	CHECK(filled(p, 2 * PAGE) && !fstat(fd, &st) && st.st_size == 2 * PAGE);
	int again = HAVE(shm_open(name, O_RDWR, 0));
	p[3] = 77;
	unsigned char c;
	CHECK(pread(again, &c, 1, 3) == 1 && c == 77 && !shm_unlink(name));
}

// One piece of shared memory, mapped at two places.
static void mremap00(void) {
	unsigned char *p = SHARED(4 * PAGE);
	fill(p, 4 * PAGE);
	unsigned char *q = mremap(p, 0, 4 * PAGE, MREMAP_MAYMOVE);
	CHECK(q != MAP_FAILED && q[PAGE] == p[PAGE]);
	moment();
	CHECK(filled(p, 4 * PAGE) && filled(q, 4 * PAGE));
	q[17] = 250;
	CHECK(p[17] == 250);
}

static void mprotect00(void) {
	unsigned char *p = ANON(4 * PAGE);
	fill(p, 4 * PAGE);
	HAVE(mprotect(p + PAGE, PAGE, PROT_NONE));
	HAVE(mprotect(p + 2 * PAGE, PAGE, PROT_READ));
	moment();
	CHECK(protOf(p + PAGE) == 0 && protOf(p + 2 * PAGE) == 1 && protOf(p) == 3);
	HAVE(mprotect(p, 4 * PAGE, PROT_READ));
	CHECK(filled(p, 4 * PAGE));
}

static void growing(size_t n) {
	unsigned char *room = ANON(4 * M), *p;
	HAVE(munmap(room, 4 * M));
	p = mmap(room + 3 * M, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
	CHECK(p == room + 3 * M);
	*p = 5;
	for (size_t i = 1; i <= n; i++) *(volatile unsigned char *)(p - i * PAGE) = i;
	moment();
	for (size_t i = 1; i <= n; i++) CHECK(p[-(long)(i * PAGE)] == i);
	*(volatile unsigned char *)(p - (n + 1) * PAGE) = 1; // it still grows
	CHECK(*p == 5);
}
static void grow_map(void) { growing(0); }
static void grow_map02(void) { growing(8); }
static void grow_map03(void) {
	volatile char deep[600 * K];
	memset((char *)deep, 3, sizeof deep);
	moment();
	CHECK(deep[0] == 3 && deep[sizeof deep - 1] == 3);
}

static void brk00(void) {
	unsigned char *p = sbrk(64 * K);
	fill(p, 64 * K);
	moment();
	CHECK(sbrk(0) == p + 64 * K && filled(p, 64 * K));
	CHECK(sbrk(PAGE) == p + 64 * K);
}

static void unlink_mmap(int prot, int flags) {
	int fd = file("mapped", O_RDWR, 4 * PAGE);
	unsigned char *p = MAP(4 * PAGE, prot, flags, fd, 0);
	HAVE(unlink("mapped"));
	close(fd);
	moment();
	CHECK(filled(p, 4 * PAGE));
}
static void unlink_mmap00(void) { unlink_mmap(PROT_READ | PROT_WRITE, MAP_PRIVATE); }
static void unlink_mmap01(void) { unlink_mmap(PROT_READ | PROT_WRITE, MAP_SHARED); }
static void unlink_mmap02(void) {
	int fd = file("mapped", O_RDWR, 4 * PAGE);
	unsigned char *p = MAP(4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), c = 0;
	HAVE(unlink("mapped"));
	moment();
	CHECK(filled(p, 4 * PAGE));
	p[7] = 111;
	CHECK(pread(fd, &c, 1, 7) == 1 && c == 111);
}

// memfd makes memory with a descriptor, n bytes of it filled.
static int memfd(unsigned flags, size_t n) {
	int fd = HAVE(memfd_create("scene", flags));
	unsigned char *p = malloc(n);
	fill(p, n);
	CHECK(write(fd, p, n) == (ssize_t)n);
	free(p);
	return fd;
}

static void memfd00(void) {
	int fd = memfd(0, 3 * PAGE + 5);
	unsigned char p[3 * PAGE + 5];
	struct stat st;
	moment();
	CHECK(pread(fd, p, sizeof p, 0) == sizeof p && filled(p, sizeof p));
	CHECK(fstat(fd, &st) == 0 && st.st_size == sizeof p && lseek(fd, 0, SEEK_CUR) == sizeof p);
}
static void memfd01(void) {
	int fd = memfd(MFD_ALLOW_SEALING, PAGE);
	HAVE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	moment();
	CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW));
	CHECK(ftruncate(fd, 0) == -1 && errno == EPERM);
	HAVE(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
}
static void memfd02(void) {
	int fd = memfd(0, 2 * PAGE);
	unsigned char *p = MAP(2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), c;
	moment();
	CHECK(filled(p, 2 * PAGE));
	p[9] = 77;
	CHECK(pread(fd, &c, 1, 9) == 1 && c == 77);
}
static void memfd03(void) {
	int fd = memfd(MFD_ALLOW_SEALING, PAGE);
	HAVE(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL));
	unsigned char *p = MAP(PAGE, PROT_READ, MAP_SHARED, fd, 0);
	moment();
	CHECK(filled(p, PAGE) && write(fd, "x", 1) == -1 && errno == EPERM);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) == -1 && errno == EPERM);
}
static void memfd04(void) {
	int fd = memfd(0, PAGE), ro;
	char path[40];
	unsigned char c;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ro = HAVE(open(path, O_RDONLY));
	moment();
	CHECK(pwrite(fd, "z", 1, 4) == 1 && pread(ro, &c, 1, 4) == 1 && c == 'z');
	CHECK(write(ro, "x", 1) == -1 && errno == EBADF);
}
// Mapped memory whose descriptor is closed.
static void shmemfd(void) {
	int fd = memfd(0, 2 * PAGE);
	unsigned char *p = MAP(2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	unsigned char *q = MAP(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE);
	close(fd);
	moment();
	CHECK(filled(p, 2 * PAGE));
	q[3] = 44;
	CHECK(p[PAGE + 3] == 44);
}

#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

static void shm(void) {
	int id = HAVE(shmget(IPC_PRIVATE, 2 * PAGE, IPC_CREAT | 0600));
	unsigned char *p = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	fill(p, 2 * PAGE);
	moment();
	struct shmid_ds d;
	CHECK(filled(p, 2 * PAGE) && shmctl(id, IPC_STAT, &d) == 0 && d.shm_nattch == 1);
	HAVE(shmdt(p));
}
// segment makes System V shared memory with a key, which stays until it is removed.
static int segment(key_t *key, size_t n, int mode) {
	*key = 0x60000000 + getpid();
	return HAVE(shmget(*key, n, IPC_CREAT | IPC_EXCL | mode));
}
static struct shmid_ds segmentOf(int id) {
	struct shmid_ds d;
	HAVE(shmctl(id, IPC_STAT, &d));
	return d;
}
static void shm_unaligned(void) { // attached twice, once to be read only; a part has another protection
	key_t key;
	const size_t n = 2 * PAGE + 5;
	int id = segment(&key, n, 0640);
	unsigned char *p = shmat(id, NULL, 0), *q = shmat(id, NULL, SHM_RDONLY);
	fill(p, n);
	HAVE(mprotect(p + PAGE, PAGE, PROT_READ));
	HAVE(shmctl(id, SHM_LOCK, NULL));
	struct shmid_ds then = segmentOf(id);
	moment();
	struct shmid_ds now = segmentOf(id);
	CHECK(filled(p, n) && filled(q, n) && protOf(p) == 3 && protOf(p + PAGE) == 1 && protOf(q) == 1);
	CHECK(mprotect(q, PAGE, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
	CHECK(now.shm_perm.__key == key && now.shm_perm.mode == then.shm_perm.mode && now.shm_segsz == n);
	CHECK(now.shm_nattch == then.shm_nattch && now.shm_cpid == getpid() && shmget(key, 0, 0) == id);
	p[5] = 200;
	CHECK(q[5] == 200);
	HAVE(shmdt(p));
	HAVE(shmdt(q));
	CHECK(segmentOf(id).shm_nattch == 0);
	HAVE(shmctl(id, IPC_RMID, NULL));
}
// orphan has a process that is nobody's child do something, and wait until this one ends.
static void orphan(void (*f)(void)) {
	int life[2], there[2], status;
	char c;
	HAVE(pipe(life));
	HAVE(pipe(there));
	pid_t between = HAVE(fork());
	if (!between) {
		if (HAVE(fork())) _exit(0);
		close(life[1]), close(there[0]);
		f();
		CHECK(write(there[1], "x", 1) == 1);
		_exit(read(life[0], &c, 1));
	}
	close(life[0]), close(there[1]);
	CHECK(waitpid(between, &status, 0) == between && read(there[0], &c, 1) == 1);
	close(there[0]);
}
static void nothing(void) {}
static void sysv_shm1(void) { // another process is attached, too
	int id = HAVE(shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600));
	shmat(id, NULL, 0);
	HAVE(shmctl(id, IPC_RMID, NULL));
	orphan(nothing);
	moment();
}
static void sysv_sem2(void) { // with semaphores
	int id = HAVE(shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600));
	shmat(id, NULL, 0);
	HAVE(shmctl(id, IPC_RMID, NULL));
	int set = HAVE(semget(IPC_PRIVATE, 1, IPC_CREAT | 0600));
	moment();
	HAVE(semctl(set, 0, IPC_RMID));
}
static void sysv_shm2(void) { // a part of it is unmapped
	int id = HAVE(shmget(IPC_PRIVATE, 3 * PAGE, IPC_CREAT | 0600));
	unsigned char *p = shmat(id, NULL, 0);
	HAVE(shmctl(id, IPC_RMID, NULL));
	HAVE(munmap(p + PAGE, PAGE));
	moment();
}
static void sem(void) {
	// Of the machine, not of the process: it is there as it was left.
	int id = HAVE(semget(IPC_PRIVATE, 1, IPC_CREAT | 0600));
	HAVE(semctl(id, 0, SETVAL, 3));
	moment();
	int v = semctl(id, 0, GETVAL);
	semctl(id, 0, IPC_RMID);
	CHECK(v == 3);
}
static void msgque(void) {
	struct { long type; char text[8]; } m = {1, "hello"}, got = {0};
	int id = HAVE(msgget(IPC_PRIVATE, IPC_CREAT | 0600));
	HAVE(msgsnd(id, &m, sizeof m.text, 0));
	moment();
	ssize_t n = msgrcv(id, &got, sizeof got.text, 0, IPC_NOWAIT);
	msgctl(id, IPC_RMID, NULL);
	CHECK(n == sizeof got.text && !strcmp(got.text, "hello"));
}

static void thp_madvise(void) {
	unsigned char *p = ANON(8 * M);
	madvise(p, 8 * M, MADV_HUGEPAGE);
	fill(p, 8 * M);
	moment();
	CHECK(filled(p, 8 * M));
}

static void mlock00(void) {
	unsigned char *p = ANON(4 * PAGE);
	HAVE(mlock(p, 4 * PAGE));
	fill(p, 4 * PAGE);
	moment();
	char line[256];
	long kb = -1;
	FILE *f = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof line, f)) sscanf(line, "VmLck: %ld", &kb);
	fclose(f);
	CHECK(kb >= 16 && filled(p, 4 * PAGE));
}

static void aio00(void) {
	unsigned long ctx = 0;
	HAVE(syscall(SYS_io_setup, 8, &ctx));
	moment();
	HAVE(syscall(SYS_io_destroy, ctx));
}

static void shm_hugetlb(void) {
	void *p = mmap(NULL, 2 * M, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) p = ANON(PAGE); // none here
	moment();
}

static void dev_zero(void) {
	int fd = HAVE(open("/dev/zero", O_RDWR));
	unsigned char *p = MAP(2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	fill(p, PAGE);
	moment();
	CHECK(filled(p, PAGE) && p[PAGE] == 0);
}

static void madv_guards(void) {
	unsigned char *p = ANON(4 * PAGE);
	fill(p, 4 * PAGE);
	madvise(p + PAGE, PAGE, 102); // MADV_GUARD_INSTALL, of Linux 6.13
	moment();
	CHECK(filled(p, PAGE) && p[2 * PAGE] == pattern(2 * PAGE));
}

#define MEMORY \
	S(mem_touch) S(maps00) S(maps02) S(maps04) S(maps05) S(maps06) S(maps07) S(maps_written) S(maps_beside) S(maps_beside_large) S(shm_posix) S(mremap00) S(mprotect00) S(grow_map) \
	S(grow_map02) S(grow_map03) S(brk00) S(unlink_mmap00) S(unlink_mmap01) S(unlink_mmap02) S(memfd00) S(memfd01) \
	S(memfd02) S(memfd03) S(memfd04) S(shmemfd) S(shm) S(shm_unaligned) S(sysv_shm1) S(sysv_shm2) S(sysv_sem2) S(sem) S(msgque) S(thp_madvise) S(mlock00) S(aio00) S(shm_hugetlb) \
	S(dev_zero) S(madv_guards)
