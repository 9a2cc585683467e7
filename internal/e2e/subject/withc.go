//go:build withc

package main

/*
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t own;

// busy does what the C library does by a thread's id, again and again. It ends the
// process if any of it fails.
static void *busy(void *arg) {
	(void)arg;
	for (;;) {
		cpu_set_t set;
		struct timespec nap = {0, 500000};
		if (pthread_mutex_lock(&own) || pthread_mutex_lock(&own)) abort();
		nanosleep(&nap, NULL);
		if (pthread_getaffinity_np(pthread_self(), sizeof set, &set)) abort();
		if (pthread_mutex_unlock(&own) || pthread_mutex_unlock(&own)) abort();
	}
	return NULL;
}

static void start(void) {
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&own, &a);
	for (int i = 0; i < 3; i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, busy, NULL)) abort();
	}
}
*/
import "C"

// With this tag threads of C work beside every scene.
func init() { C.start() }
