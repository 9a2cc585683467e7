// Subject is the program that the tests of transparent checkpoints run: each of
// its scenes brings the ranks into one situation and waits there until the
// test lets it go on.
//
//	subject -dir DIR SCENE
//
// A rank says "here RANK" on standard error when it is in the situation, and
// the scene goes on when the test makes the file DIR/go. Whatever happened to
// the process between the two, the scene must end as if nothing had: it
// checks what it can itself and ends with an error, and rank 0 prints
//
//	result SCENE digest=0123456789abcdef
//
// Nothing here knows of checkpoints.
package main

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
)

// stage is what a scene has beside its communicator.
type stage struct {
	scene string
	dir   string // of the test: signals and files
	port  string // where the test listens
	log   string // rank 0's log file
	steps int    // of scenes that end by themselves
	every int    // steps between two lines of the log
}

// scenes are those between Init and Finalize.
var scenes = map[string]func(*stage, *mpi.Comm) error{
	"wildcard": wildcard, "ssend": ssend, "rendezvous": rendezvous, "stream": stream,
	"collectives": collectives, "alltoall": alltoall, "begun": begun, "kinds": kinds, "pending": pending, "order": order, "silent": silent,
	"split": split, "ring": ring, "probes": probes,
	"timers": timers, "gc": gc, "tight": tight, "goroutines": goroutines, "notify": notify, "child": child,
	"conn": conn, "pipe": pipe, "stdin": stdin, "files": files, "undumpable": undumpable, "sharedmap": sharedmap,
	"churn": churn, "litter": litter, "asleep": asleep, "descriptors": descriptors, "stacks": stacks,
	"heavy": heavy, "common": common, "places": places, "idle": idle, "confined": confined, "kernel": kernel,
}

// bare are the scenes that call Init and Finalize themselves.
var bare = map[string]func(*stage) error{"init": initialise, "finalize": finalize, "finalized": finalized, "hermit": hermit}

func main() {
	s := &stage{}
	flag.StringVar(&s.dir, "dir", "", "`folder` for signals and files")
	flag.StringVar(&s.port, "port", "", "`number` of a port of this machine to connect to")
	flag.StringVar(&s.log, "log", "", "`file` that rank 0 writes to")
	flag.IntVar(&s.steps, "steps", 1000, "steps of scenes that end by themselves")
	flag.IntVar(&s.every, "every", 100, "steps between two lines of -log")
	flag.Parse()
	s.scene = flag.Arg(0)
	if f, ok := scenes[s.scene]; ok {
		mpi.Run(func(c *mpi.Comm) error { return f(s, c) })
		return
	}
	if f, ok := bare[s.scene]; ok {
		if err := f(s); err != nil {
			fmt.Fprintln(os.Stderr, "subject:", err)
			os.Exit(1)
		}
		return
	}
	fmt.Fprintf(os.Stderr, "subject: no scene %q; there are %v and %v\n", s.scene, slices.Sorted(maps.Keys(scenes)), slices.Sorted(maps.Keys(bare)))
	os.Exit(2)
}

// here tells the test that this rank is in the situation.
func (s *stage) here(rank int) { fmt.Fprintf(os.Stderr, "here %d\n", rank) }

// tick passes the time between two looks at something that nothing announces.
func tick() { time.Sleep(2 * time.Millisecond) }

// wait waits until the test has made a file.
func (s *stage) wait(name string) {
	for !s.open(name) {
		tick()
	}
}

// open reports whether the test has made a file.
func (s *stage) open(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

// inside says "here" as soon as goroutines of this process are within all of the
// functions named. It looks at their stacks in the background.
func (s *stage) inside(c *mpi.Comm, functions ...string) {
	rank := c.Rank()
	go func() {
		for !within(functions) {
			tick()
		}
		s.here(rank)
	}()
}

func within(functions []string) bool {
	buf := make([]byte, 1<<20)
	all := string(buf[:runtime.Stack(buf, true)])
	for _, f := range functions {
		if !strings.Contains(all, f) {
			return false
		}
	}
	return true
}

// result prints what has come out, on rank 0.
func (s *stage) result(c *mpi.Comm, v any) error {
	if c.Rank() == 0 {
		s.print(v)
	}
	return nil
}

func (s *stage) print(v any) {
	h := fnv.New64a()
	fmt.Fprint(h, v)
	fmt.Printf("result %s digest=%016x\n", s.scene, h.Sum64())
}

// together runs functions in goroutines of their own and joins their errors.
func together(fs ...func() error) error {
	errs := make(chan error, len(fs))
	for _, f := range fs {
		go func() { errs <- f() }()
	}
	var all []error
	for range fs {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// noise returns n words that depend on a seed.
func noise(n int, seed uint64) []uint64 {
	p := make([]uint64, n)
	x := seed*0x9e3779b97f4a7c15 + 1
	for i := range p {
		x ^= x >> 12
		x ^= x << 25
		x ^= x >> 27
		p[i] = x * 0x2545f4914f6cdd1d
	}
	return p
}

// same reports where got differs from what noise makes of a seed.
func same(got []uint64, seed uint64) error {
	for i, v := range noise(len(got), seed) {
		if got[i] != v {
			return fmt.Errorf("word %d of %d is %x, want %x", i, len(got), got[i], v)
		}
	}
	return nil
}
