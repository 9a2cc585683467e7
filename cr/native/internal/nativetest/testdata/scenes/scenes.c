// Situations that a process can be in when it is imaged, each a function by its name: it
// sets something up, calls moment, and checks that all is as it was. The names are those
// of the tests of other checkpointers for the same situation, see docs/processes.md.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// fail says what is not as it was, and ends the program.
static void fail(const char *file, int line, const char *what) {
	printf("failed %s:%d: %s (%s)\n", file, line, what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

#define CHECK(c) \
	do { \
		if (!(c)) fail(__FILE__, __LINE__, #c); \
	} while (0)

// have gives what a call gave, which must not have failed.
#define HAVE(call) \
	({ \
		long long r_ = (long long)(call); \
		if (r_ == -1) fail(__FILE__, __LINE__, #call); \
		r_; \
	})

// ready says that the image may be made.
static void ready(void) {
	printf("ready\n");
	fflush(stdout);
}

// told tells whether the image was made, and waits for that up to ms, -1 for ever.
static int told(int ms) {
	struct pollfd p = {0, POLLIN, 0};
	char c;
	return poll(&p, 1, ms) == 1 && read(0, &c, 1) == 1;
}

// moment is when the image is made.
static void moment(void) {
	ready();
	while (!told(-1))
		;
}

// pattern is the byte at a place of what is checked later.
static unsigned char pattern(size_t i) { return i * 7 + i / 4096 + 1; }

static void fill(unsigned char *p, size_t n) {
	for (size_t i = 0; i < n; i++) p[i] = pattern(i);
}

static int filled(const unsigned char *p, size_t n) {
	for (size_t i = 0; i < n; i++)
		if (p[i] != pattern(i)) return 0;
	return 1;
}

// file makes one in the present folder with n bytes.
static int file(const char *name, int flags, size_t n) {
	int fd = HAVE(open(name, flags | O_CREAT, 0644));
	unsigned char *p = malloc(n + 1);
	fill(p, n);
	int w = HAVE(open(name, O_WRONLY));
	CHECK(write(w, p, n) == (ssize_t)n);
	close(w);
	free(p);
	return fd;
}

// until waits for what a signal or another thread does.
#define UNTIL(c) \
	for (int n_ = 0; !(c); n_++) { \
		if (n_ == 60000) fail(__FILE__, __LINE__, #c); \
		usleep(1000); \
	}

static volatile sig_atomic_t caught;
static void catch(int sig) { caught = sig; }

static void handle(int sig, void (*f)(int)) {
	struct sigaction a = {.sa_handler = f};
	HAVE(sigaction(sig, &a, NULL));
}

#define K 1024
#define M (K * K)
#define PAGE 4096

#include "memory.c"
#include "threads.c"
#include "attributes.c"
#include "timers.c"
#include "files.c"
#include "locks.c"
#include "events.c"
#include "sockets.c"
#include "trees.c"

static const struct {
	const char *name;
	void (*run)(void);
} scenes[] = {
#define S(name) {#name, name},
	MEMORY THREADS ATTRIBUTES TIMERS FILES LOCKS EVENTS SOCKETS TREES
};

int main(int argc, char **argv) {
	static char out[4096];
	setvbuf(stdout, out, _IOFBF, sizeof out); // so that what is said moves no memory
	for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
		if (argc < 2) {
			puts(scenes[i].name);
		} else if (!strcmp(argv[1], scenes[i].name)) {
			scenes[i].run();
			printf("passed\n");
			fflush(stdout);
			_exit(0);
		}
	}
	return argc < 2 ? 0 : 2;
}
