// Plain is the program that benchmarks/checkpoint -cr=native images. It knows nothing of checkpoints. Each rank
// holds -mb megabytes that cannot be compressed. A message goes round the ring every few milliseconds. The
// program runs until it is ended. Rank 0 prints
//
//	running      when the first message has gone round
//	restarted    when one has gone round in a process with another id
//
// and takes commands from standard input, a line each:
//
//	watch        rank 0 looks at the clock in a loop
//	gaps         no longer; it prints "gaps AT:LENGTH ...", in nanoseconds, where
//	             two looks at the clock were far apart, AT since 1970
//	dirty N      each rank rewrites N of 1000 pages; prints "dirtied"
//	rate N       each rank rewrites N megabytes a second from now on; prints "rate"
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	mb := flag.Int("mb", 1, "memory of each rank in 2^20 bytes")
	flag.Parse()
	if *mb < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "plain: -mb must be positive, and there are no other arguments")
		os.Exit(2)
	}
	mpi.Run(func(c *mpi.Comm) error { return plain(c, *mb<<20) })
}

const (
	pageWords = 4096 / 8
	pause     = 2 * time.Millisecond // between two rounds, for each eight ranks
	far       = 100 * time.Microsecond
)

// order is what rank 0 tells the others in each round.
type order struct{ Dirty, Rate int64 } // per mille, or 0; MB/s, or -1 for no change

// rank is the state of one rank.
type rank struct {
	c      *mpi.Comm
	memory []uint64
	rate   atomic.Int64
	rated  chan struct{} // capacity 1: there is a rate
	clock  clock
}

func plain(c *mpi.Comm, bytes int) error {
	r := &rank{c: c, memory: make([]uint64, bytes/8), rated: make(chan struct{}, 1)}
	noise(r.memory, uint64(c.Rank())+1)
	go r.rewrite()
	lines := make(chan string)
	if c.Rank() == 0 {
		go func() {
			for s := bufio.NewScanner(os.Stdin); s.Scan(); {
				lines <- s.Text()
			}
		}()
	}
	tick := time.NewTicker(pause * time.Duration(1+c.Size()/8))
	for pid, first := os.Getpid(), true; ; first = false {
		o := order{Rate: -1}
		word := ""
		if c.Rank() == 0 {
			select {
			case line := <-lines:
				word, o = r.command(line)
			case <-tick.C:
			}
		}
		if err := r.round(&o); err != nil {
			return err
		}
		if c.Rank() != 0 {
			continue
		}
		switch now := os.Getpid(); {
		case first:
			fmt.Println("running")
		case now != pid:
			pid = now
			fmt.Println("restarted")
		}
		if word != "" {
			fmt.Println(word)
		}
	}
}

// command carries out what concerns rank 0 alone, and returns what is to be
// printed and told to all.
func (r *rank) command(line string) (word string, o order) {
	o.Rate = -1
	name, _, _ := strings.Cut(line, " ")
	switch name {
	case "watch":
		r.clock.start()
		word = "watching"
	case "gaps":
		word = "gaps" + r.clock.stop()
	case "dirty":
		fmt.Sscanf(line, "dirty %d", &o.Dirty)
		word = "dirtied"
	case "rate":
		fmt.Sscanf(line, "rate %d", &o.Rate)
		word = "rate"
	}
	return word, o
}

// round tells all ranks the order, carries it out and lets a message go round.
func (r *rank) round(o *order) error {
	all := []order{*o}
	if err := mpi.Bcast(r.c, all, 0); err != nil {
		return err
	}
	if n := all[0].Dirty; n > 0 {
		r.dirty(int(n))
	}
	if n := all[0].Rate; n >= 0 {
		r.rate.Store(n)
		select {
		case r.rated <- struct{}{}:
		default:
		}
	}
	next, before := (r.c.Rank()+1)%r.c.Size(), (r.c.Rank()+r.c.Size()-1)%r.c.Size()
	var out, in [8]byte
	_, err := mpi.Sendrecv(r.c, out[:], next, 0, in[:], before, 0)
	return err
}

// dirty rewrites n of each 1000 pages, spread evenly.
func (r *rank) dirty(n int) {
	pages := len(r.memory) / pageWords
	for i, x := 0, 0; i < pages; i++ {
		if x += n; x >= 1000 {
			x -= 1000
			noise(r.memory[i*pageWords:(i+1)*pageWords], uint64(time.Now().UnixNano()))
		}
	}
}

// rewrite writes to one page after the other at the rate asked for.
func (r *rank) rewrite() {
	at := 0
	for last := time.Now(); ; {
		if r.rate.Load() == 0 { // 64 ranks that look each millisecond leave no CPU for anything else
			<-r.rated
			last = time.Now()
		}
		time.Sleep(time.Millisecond)
		now := time.Now()
		todo := int(now.Sub(last).Seconds() * float64(r.rate.Load()) * (1 << 20) / 4096)
		todo = min(todo, len(r.memory)/pageWords)
		for range todo {
			page := r.memory[at : at+pageWords]
			for i := range page {
				page[i]++
			}
			if at += pageWords; at+pageWords > len(r.memory) {
				at = 0
			}
		}
		last = now
	}
}

// clock looks at the time without pause and notes where it jumps.
type clock struct {
	end  atomic.Bool
	gaps chan string
}

func (k *clock) start() {
	k.end.Store(false)
	k.gaps = make(chan string, 1)
	go func() {
		runtime.LockOSThread()
		var b strings.Builder
		for last := time.Now(); !k.end.Load(); {
			now := time.Now()
			if d := now.Sub(last); d > far {
				fmt.Fprintf(&b, " %d:%d", last.UnixNano(), d)
			}
			last = now
		}
		k.gaps <- b.String()
	}()
}

func (k *clock) stop() string {
	if k.gaps == nil {
		return ""
	}
	k.end.Store(true)
	return <-k.gaps
}

// noise fills p with a random sequence (xorshift64*).
func noise(p []uint64, x uint64) {
	x |= 1
	for i := range p {
		x ^= x >> 12
		x ^= x << 25
		x ^= x >> 27
		p[i] = x * 0x2545f4914f6cdd1d
	}
}
