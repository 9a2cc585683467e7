// Command cgotrip computes something in Go and in C at the same time: threads of C's own
// that call Go, Go that calls C, garbage collection beside a loop that never ends its
// thread's turn. It is used as the program trip is.
package main

/*
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern uint64_t goSquare(uint64_t);

static __thread uint64_t own;
static __thread char shape[40];

static uint64_t cwork(uint64_t seed) {
	own = own * 0 + seed;
	for (int i = 0; i < 20000; i++) own = own * 6364136223846793005u + 1442695040888963407u;
	char *p = malloc(1000 + seed % 5000);
	memset(p, (int)seed, 1000);
	uint64_t got = own + (unsigned char)p[999];
	free(p);
	struct timespec nap = {0, 200000};
	nanosleep(&nap, NULL);
	return got;
}

static void *thread(void *arg) {
	uint64_t v = (uint64_t)(uintptr_t)arg;
	memset(shape, 1, sizeof shape);
	return (void *)(uintptr_t)(goSquare(v) + goSquare(v + 1));
}

// A thread of C's calls Go twice.
static uint64_t cthread(uint64_t v) {
	pthread_t t;
	void *got;
	if (pthread_create(&t, NULL, thread, (void *)(uintptr_t)v) || pthread_join(t, &got)) abort();
	return (uint64_t)(uintptr_t)got;
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
)

//export goSquare
func goSquare(v C.uint64_t) C.uint64_t {
	garbage = make([]byte, 10000+int(v)%1000)
	return v * v
}

var garbage []byte

func main() {
	steps, err1 := strconv.Atoi(os.Args[1])
	millions, err2 := strconv.Atoi(os.Args[2])
	log, err3 := os.Create(os.Args[3])
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
	debug.SetGCPercent(25)
	go echo()
	go agent()
	tight := make(chan uint64)
	go func() { tight <- spin(millions) }()
	ticker := time.NewTicker(3 * time.Millisecond)
	sum := uint64(0)
	for i := range steps {
		<-leave
		parts := make(chan uint64)
		for j := range 3 {
			go func() { parts <- uint64(C.cwork(C.uint64_t(i*3 + j))) }()
		}
		sum = sum*31 + uint64(C.cthread(C.uint64_t(i)))
		for range 3 {
			sum += <-parts
		}
		if i%8 == 1 {
			runtime.GC()
		}
		if i%8 == 3 {
			<-ticker.C
		}
		fmt.Fprintf(log, "step %d %x\n", i, sum)
		fmt.Println("step", i)
	}
	sum += <-tight
	log.Close()
	fmt.Printf("sum %x\n", sum)
	select {}
}

// spin calls nothing: only a signal makes it let go of its thread.
func spin(millions int) uint64 {
	x := uint64(1)
	for range millions {
		for range 1000000 {
			x = x*6364136223846793005 + 1442695040888963407
		}
	}
	return x
}

func echo() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println("stdin", in.Text())
	}
	os.Exit(0)
}

var leave = make(chan bool, 1<<16)

func agent() {
	var p [100]byte
	for {
		n, err := syscall.Read(3, p[:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		for _, c := range p[:n] {
			if c == '.' {
				leave <- true
			}
		}
	}
}
