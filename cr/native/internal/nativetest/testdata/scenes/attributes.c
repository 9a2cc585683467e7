// What a process has asked of the kernel for itself.
#include <linux/membarrier.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static void membarrier(void) {
	HAVE(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
	moment();
	HAVE(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
}
static void thp_disable(void) {
	HAVE(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	moment();
	CHECK(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
}
static void child_subreaper(void) {
	int on = 0;
	HAVE(prctl(PR_SET_CHILD_SUBREAPER, 1));
	moment();
	CHECK(!prctl(PR_GET_CHILD_SUBREAPER, &on) && on == 1);
}
static void oom_score_adj(void) {
	int fd = HAVE(open("/proc/self/oom_score_adj", O_RDWR)), n = 0;
	CHECK(write(fd, "321", 3) == 3);
	close(fd);
	moment();
	FILE *f = fopen("/proc/self/oom_score_adj", "r");
	CHECK(fscanf(f, "%d", &n) == 1 && n == 321);
}
static void personality00(void) {
	HAVE(personality(READ_IMPLIES_EXEC));
	moment();
	CHECK(personality(0xffffffff) == READ_IMPLIES_EXEC);
}
static void pdeath_sig(void) {
	int sig = 0;
	HAVE(prctl(PR_SET_PDEATHSIG, SIGKILL));
	moment();
	CHECK(!prctl(PR_GET_PDEATHSIG, &sig) && sig == SIGKILL);
}
static void no_new_privs(void) {
	HAVE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	moment();
	CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
}
static void dumpable01(void) {
	moment();
	CHECK(prctl(PR_GET_DUMPABLE) == 1);
}
static void dumpable02(void) {
	HAVE(prctl(PR_SET_DUMPABLE, 0));
	moment();
	CHECK(prctl(PR_GET_DUMPABLE) == 0);
}
static void rlimits00(void) {
	struct rlimit l = {1 * M, 2 * M}, now;
	HAVE(setrlimit(RLIMIT_FSIZE, &l));
	struct rlimit c = {0, 0};
	HAVE(setrlimit(RLIMIT_CORE, &c));
	moment();
	CHECK(!getrlimit(RLIMIT_FSIZE, &now) && now.rlim_cur == l.rlim_cur && now.rlim_max == l.rlim_max);
	CHECK(!getrlimit(RLIMIT_CORE, &now) && now.rlim_cur == 0 && now.rlim_max == 0);
}
static void umask00(void) {
	umask(0123);
	moment();
	CHECK(umask(0) == 0123);
}
static void env00(void) {
	setenv("SCENE", "set", 1);
	moment();
	CHECK(!strcmp(getenv("SCENE"), "set"));
}
static void cmdlinenv00(void) {
	char before[512], after[512];
	int fd = HAVE(open("/proc/self/cmdline", O_RDONLY)), n = read(fd, before, sizeof before);
	close(fd);
	moment();
	fd = HAVE(open("/proc/self/cmdline", O_RDONLY));
	CHECK(read(fd, after, sizeof after) == n && !memcmp(before, after, n));
}
static void comm00(void) {
	char name[16];
	HAVE(prctl(PR_SET_NAME, "renamed"));
	moment();
	HAVE(prctl(PR_GET_NAME, name));
	CHECK(!strcmp(name, "renamed"));
}
static void selfexe00(void) {
	char before[512] = "", after[512] = "";
	struct stat a, b;
	HAVE(readlink("/proc/self/exe", before, sizeof before - 1));
	HAVE(stat("/proc/self/exe", &a));
	moment();
	HAVE(readlink("/proc/self/exe", after, sizeof after - 1));
	HAVE(stat("/proc/self/exe", &b));
	CHECK(a.st_size == b.st_size && *after);
}
static void sched_prio00(void) {
	int want = getpriority(PRIO_PROCESS, 0) + 3; // no privilege is needed for that
	HAVE(setpriority(PRIO_PROCESS, 0, want));
	want = getpriority(PRIO_PROCESS, 0);
	moment();
	CHECK(getpriority(PRIO_PROCESS, 0) == want);
}
static void sched_policy00(void) {
	struct sched_param p = {0};
	HAVE(sched_setscheduler(0, SCHED_BATCH, &p));
	moment();
	CHECK(sched_getscheduler(0) == SCHED_BATCH);
}
static void cpu_affinity0(void) {
	cpu_set_t s, now;
	HAVE(sched_getaffinity(0, sizeof now, &now));
	CPU_ZERO(&s);
	for (int i = 0; !CPU_COUNT(&s); i++)
		if (CPU_ISSET(i, &now)) CPU_SET(i, &s);
	HAVE(sched_setaffinity(0, sizeof s, &s));
	moment();
	HAVE(sched_getaffinity(0, sizeof now, &now));
	CHECK(CPU_EQUAL(&s, &now));
}
static void timerslack(void) {
	HAVE(prctl(PR_SET_TIMERSLACK, 77000));
	moment();
	CHECK(prctl(PR_GET_TIMERSLACK) == 77000);
}
static void session_leader(void) {
	setsid(); // fails where it leads a group already
	pid_t s = getsid(0) == getpid();
	moment();
	CHECK((getsid(0) == getpid()) == s && getpgid(0) == getpid());
}
static void keepcaps(void) {
	HAVE(prctl(PR_SET_KEEPCAPS, 1));
	moment();
	CHECK(prctl(PR_GET_KEEPCAPS) == 1);
}
static void seccomp_strict(void) {
	HAVE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	struct { unsigned short code; unsigned char jt, jf; unsigned k; } allow = {6, 0, 0, 0x7fff0000};
	struct { unsigned short len; void *filter; } prog = {1, &allow};
	HAVE(prctl(PR_SET_SECCOMP, 2, &prog));
	moment();
	CHECK(prctl(PR_GET_SECCOMP) == 2);
}
static void clone_fs(void) {
	// A thread with a folder of its own.
	HAVE(unshare(CLONE_FS));
	moment();
}
static void uptime_grow(void) {
	struct timespec a, b;
	clock_gettime(CLOCK_BOOTTIME, &a);
	moment();
	clock_gettime(CLOCK_BOOTTIME, &b);
	CHECK(b.tv_sec >= a.tv_sec && b.tv_sec - a.tv_sec < 3600);
}
static void caps00(void) {
	// Fewer rights than it was born with: only root has any.
	if (geteuid() == 0) HAVE(prctl(PR_CAPBSET_DROP, 12));
	moment();
	if (geteuid() == 0) CHECK(prctl(PR_CAPBSET_READ, 12) == 0);
}
static void chroot00(void) {
	if (geteuid() == 0) {
		mkdir("root", 0755);
		HAVE(chroot("root"));
	}
	moment();
}

#define ATTRIBUTES \
	S(membarrier) S(thp_disable) S(child_subreaper) S(oom_score_adj) S(personality00) S(pdeath_sig) S(no_new_privs) \
	S(dumpable01) S(dumpable02) S(rlimits00) S(umask00) S(env00) S(cmdlinenv00) S(comm00) S(selfexe00) S(sched_prio00) \
	S(sched_policy00) S(cpu_affinity0) S(timerslack) S(session_leader) S(keepcaps) S(seccomp_strict) S(clone_fs) \
	S(uptime_grow) S(caps00) S(chroot00)
