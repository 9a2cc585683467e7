// Command trip computes something with everything that a Go program may have
// going at once. However often it is imaged, killed and restored, what it prints
// at the end must be what it prints undisturbed. For each step it needs leave, so
// that it does not run ahead of the test.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 4 {
		fail("usage: trip STEPS MILLIONS LOG [PROFILE]")
	}
	profiled := func() {}
	if len(os.Args) > 4 {
		profiled = profile(os.Args[4])
	}
	steps, millions := number(os.Args[1]), number(os.Args[2])
	debug.SetGCPercent(25)
	go echo()
	go agent()
	pids := make(chan os.Signal, 100)
	signal.Notify(pids, syscall.SIGUSR1)
	crowd := newCrowd(10000)
	tight := make(chan uint64)
	go func() { tight <- spin(millions) }()
	log := openLog(os.Args[3])
	pipe := newPipe()
	ticker := time.NewTicker(3 * time.Millisecond)
	far, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()

	start := time.Now()
	last := start
	sum := uint64(0)
	for i := range steps {
		<-leave
		sum = sum*31 + churn(uint64(i))
		sum += pipe.through(uint64(i))
		fmt.Fprintf(log, "step %d %x\n", i, sum)
		switch i % 8 {
		case 1:
			runtime.GC()
		case 3:
			<-ticker.C
		case 5:
			near, cancel := context.WithTimeout(far, time.Millisecond)
			<-near.Done()
			cancel()
		case 7:
			syscall.Kill(os.Getpid(), syscall.SIGUSR1)
			<-pids
		}
		if now := time.Now(); now.Before(last) {
			fail("the clock went back")
		} else {
			last = now
		}
		fmt.Println("step", i)
	}
	sum += <-tight + crowd.disband()
	<-ticker.C
	if far.Err() != nil {
		fail("the far deadline has come")
	}
	runtime.GC()
	log.Close()
	profiled()
	fmt.Printf("sum %x\n", sum)
	io.Copy(io.Discard, os.Stdin)
}

// profile begins a CPU profile. A thread that ends leaves its timer behind.
func profile(path string) (end func()) {
	f, err := os.Create(path)
	if err != nil {
		fail(err.Error())
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		fail(err.Error())
	}
	go func() {
		runtime.LockOSThread() // and it ends with the goroutine
		spin(1)
	}()
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			fail(err.Error())
		}
	}
}

func fail(why string) {
	fmt.Println("failed:", why)
	os.Exit(1)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		fail(err.Error())
	}
	return n
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

type node struct {
	left, right *node
	value       uint64
}

// churn makes garbage and sums it up.
func churn(seed uint64) uint64 {
	var grow func(depth int, v uint64) *node
	grow = func(depth int, v uint64) *node {
		if depth == 0 {
			return nil
		}
		return &node{grow(depth-1, v*3+1), grow(depth-1, v*5+7), v}
	}
	var add func(n *node) uint64
	add = func(n *node) uint64 {
		if n == nil {
			return 0
		}
		return n.value + 3*add(n.left) + 7*add(n.right)
	}
	m := make(map[uint64][]byte)
	for i := range uint64(200) {
		m[i] = binary.AppendUvarint(make([]byte, 0, 100+i), i*seed)
	}
	sum := add(grow(12, seed))
	for i := range uint64(200) {
		v, _ := binary.Uvarint(m[i])
		sum ^= v * (i + 1)
	}
	return sum
}

// crowd is many goroutines that wait.
type crowd struct {
	gate chan struct{}
	sums chan uint64
	n    int
}

func newCrowd(n int) *crowd {
	c := &crowd{make(chan struct{}), make(chan uint64), n}
	for i := range n {
		go func() {
			<-c.gate
			c.sums <- uint64(i) * uint64(i)
		}()
	}
	return c
}

func (c *crowd) disband() uint64 {
	close(c.gate)
	sum := uint64(0)
	for range c.n {
		sum += <-c.sums
	}
	return sum
}

// pipe sends numbers through an os.Pipe to a goroutine that squares them.
type pipe struct {
	w    *os.File
	sums chan uint64
}

func newPipe() *pipe {
	r, w, err := os.Pipe()
	if err != nil {
		fail(err.Error())
	}
	p := &pipe{w, make(chan uint64, 1)}
	go func() {
		for {
			var v uint64
			if err := binary.Read(r, binary.LittleEndian, &v); err != nil {
				fail("pipe: " + err.Error())
			}
			p.sums <- v * v
		}
	}()
	return p
}

func (p *pipe) through(v uint64) uint64 {
	if err := binary.Write(p.w, binary.LittleEndian, v); err != nil {
		fail("pipe: " + err.Error())
	}
	return <-p.sums
}

func openLog(path string) *os.File {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		fail(err.Error())
	}
	return f
}

// echo answers what comes on standard input.
func echo() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			os.Exit(0)
		}
		fmt.Print("stdin ", line)
	}
}

// leave has an entry for each step that may be done.
var leave = make(chan bool, 1<<16)

// agent obeys what comes on descriptor 3, in a blocking read: a dot is leave for
// a step, anything else is answered when its line is complete.
func agent() {
	var line []byte
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
			switch c {
			case '.':
				leave <- true
			case '\n':
				fmt.Printf("agent %s\n", line)
				line = line[:0]
			default:
				line = append(line, c)
			}
		}
	}
}
