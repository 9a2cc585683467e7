package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/benchmarks/internal/repeat"
)

// work is something that all processes do again and again.
type work struct {
	times int                     // that it is done in one repetition
	start func(s *shared) doing   // prepares a process
	room  func(t task) (area int) // bytes of shared buffers that it takes; nil: few
}

// doing is the work of one process.
type doing struct {
	do    func()       // all processes call it equally often
	check func() error // whether what was done so far is right
}

var works = map[string]work{
	"barrier":          {times: 1, start: startBarrier},
	"copy":             {times: 2, start: startCopy, room: func(t task) int { return 2 * t.Bytes }},
	"pieces":           {times: 2, start: func(s *shared) doing { return startPieces(s, false) }, room: piecesRoom},
	"pieces, dirty":    {times: 2, start: func(s *shared) doing { return startPieces(s, true) }, room: piecesRoom},
	"stream, 1 a line": {times: window, start: func(s *shared) doing { return startStream(s, 1) }},
	"stream, 7 a line": {times: window, start: func(s *shared) doing { return startStream(s, perLine) }},
	"bcast, yielding":  {times: 1, start: startYielding},
	"bcast, sleeping":  {times: 1, start: startSleeping},
	"alltoall":         {times: 1, start: startAlltoall, room: func(t task) int { return 2 * t.Procs * t.Piece }},
	"alltoall, kernel": {times: 1, start: startKernelAlltoall},
	"bcast":            {times: 1, start: startBcast, room: func(t task) int { return slots * t.Piece }},
	"allreduce, parts": {times: 1, start: startParts, room: func(t task) int { return 2 * (t.Procs + 1) * t.Piece }},
	"allreduce, chain": {times: 1, start: startChain, room: func(t task) int { return 2 * t.Bytes }},
	"heat":             {times: 1, start: startHeat},
	"heat, alone":      {times: 1, start: startHeatAlone},
	"solver":           {times: 1, start: startSolver, room: solverRoom},
	"solver, alone":    {times: 1, start: startSolverAlone},
}

// tries are done and checked before anything is measured.
const tries = 20

// process is the program of one process. The first one prints the times.
func process(text string, out io.Writer) error {
	t, err := parseTask(text)
	if err != nil {
		return err
	}
	w, ok := works[t.Work]
	if !ok {
		return fmt.Errorf("no work %q", t.Work)
	}
	s, err := share(t)
	if err != nil {
		return err
	}
	d := w.start(s)
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	s.batch(d.do, tries)
	if err := d.check(); err != nil {
		return fmt.Errorf("%s, process %d: %w", t.Work, t.Rank, err)
	}
	if t.Rank > 0 {
		s.follow(d.do)
		return nil
	}
	var outside []float64
	all, _, err := repeat.Batches(t.Time, t.Batches, func(count int) (time.Duration, error) {
		took, out := s.lead(d.do, count)
		outside = append(outside, out.Seconds()/float64(count))
		return took, nil
	})
	if err != nil {
		return err
	}
	s.tell(0)
	outside = outside[len(outside)-len(all):] // the first ones found the count
	for i := range all {
		fmt.Fprintln(out, all[i]/float64(w.times), outside[i]/float64(w.times))
	}
	return nil
}

// tell gives all others the number of repetitions.
func (s *shared) tell(count int) {
	s.set(told, uint64(count))
	s.meet()
}

// lead runs a batch and returns what the slowest process took, and the mean time
// of all outside computation.
func (s *shared) lead(do func(), count int) (slowest, outside time.Duration) {
	s.tell(count)
	s.batch(do, count)
	for rank := range s.Procs {
		slowest = max(slowest, time.Duration(atomic.LoadUint64(s.word(rank, took))))
		outside += time.Duration(atomic.LoadUint64(s.word(rank, spent)))
	}
	return slowest, outside / time.Duration(s.Procs)
}

// follow is what the others do until they are told 0.
func (s *shared) follow(do func()) {
	for {
		s.meet()
		count := atomic.LoadUint64(s.word(0, told))
		if count == 0 {
			return
		}
		s.batch(do, int(count))
	}
}

// batch lets all processes begin at once; when it returns the times of all are
// known.
func (s *shared) batch(do func(), count int) {
	s.outside = 0
	s.meet()
	began := time.Now()
	for range count {
		do()
	}
	s.set(took, uint64(time.Since(began)))
	s.set(spent, uint64(s.outside))
	s.meet()
}

// share maps the memory that the processes have in common.
func share(t task) (*shared, error) {
	mem, err := unix.Mmap(3, 0, memory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	seen, err := unix.Mmap(3, 0, memory, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &shared{task: t, mem: mem, seen: seen, crowded: t.Procs > runtime.NumCPU()}, nil
}
