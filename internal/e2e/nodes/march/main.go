// March is the program that the tests of jobs over several nodes run. Its ranks add up what they
// send around a ring, step by step, and write a line into one file before each:
//
//	LIFE RANK STEP
//
// LIFE is the incarnation. The file so tells whether a rank of one life still wrote when
// the next had begun. At the end rank 0 prints
//
//	nodes n1 n2 ...            where the ranks ran
//	sum 0123456789abcdef       the same for the same ranks and steps, whatever happened
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/internal/rank/job"
	"github.com/gorun-mpi/gorun/mpi"
)

var (
	steps  = flag.Int("steps", 100, "`number` of steps")
	pause  = flag.Duration("pause", 10*time.Millisecond, "`time` between two steps")
	log    = flag.String("log", "", "`file` that all ranks write to")
	end    = flag.String("end", "", "`file` whose appearance ends the march; it goes on for ever before that, the sum is that of -steps")
	empty  = flag.Bool("empty", false, "only Init and Finalize")
	memory = flag.Int("memory", 0, "`megabytes` that each rank has beside")
	load   = flag.String("load", "", "`file` with the number of thousands of rounds of arithmetic that each step has; there is no pause after a step that has some")
	exit   = flag.Int("exit", 0, "`status` with which the last rank exits")
)

func main() {
	flag.Parse()
	mpi.Run(march)
}

func march(c *mpi.Comm) error {
	if *empty {
		return nil
	}
	var step, sum uint64
	ballast := make([]byte, *memory<<20)
	for i := range ballast {
		ballast[i] = byte(i>>4) | 1
	}
	defer runtime.KeepAlive(ballast)
	if err := errors.Join(cr.Register("step", &step), cr.Register("sum", &sum)); err != nil {
		return err
	}
	for over := false; !over; {
		if err := cr.Point(); err != nil {
			return err
		}
		if err := write(fmt.Sprintf("%016x %d %d\n", job.Of(c).Incarnation(), c.Rank(), step)); err != nil {
			return err
		}
		got, err := around(c, sum*31+step+uint64(c.Rank()))
		if err != nil {
			return err
		}
		if step < uint64(*steps) {
			sum = sum*1_000_003 + got
		}
		step++
		if over, err = done(c, step); err != nil {
			return err
		}
		if worked, err := compute(); err != nil {
			return err
		} else if !worked {
			time.Sleep(*pause)
		}
	}
	return report(c, sum)
}

// compute computes as much as the file of -load says, and reports whether that is anything.
func compute() (bool, error) {
	if *load == "" {
		return false, nil
	}
	text, err := os.ReadFile(*load)
	if err != nil {
		return false, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	x := uint64(88172645463325252)
	for range 1000 * n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 { // it never is, which the compiler does not know
		err = errors.New("no number is left")
	}
	return n > 0, err
}

// around sends a number to the next rank and returns that of the one before.
func around(c *mpi.Comm, n uint64) (uint64, error) {
	out, in := []uint64{n}, []uint64{0}
	size := c.Size()
	_, err := mpi.Sendrecv(c, out, (c.Rank()+1)%size, 1, in, (c.Rank()+size-1)%size, 1)
	return in[0], err
}

// done reports whether the march is over: rank 0 says it.
func done(c *mpi.Comm, step uint64) (bool, error) {
	over := []byte{0}
	if c.Rank() == 0 && step >= uint64(*steps) {
		over[0] = 1
		if _, err := os.Stat(*end); *end != "" && err != nil {
			over[0] = 0
		}
	}
	err := mpi.Bcast(c, over, 0)
	return over[0] == 1, err
}

// write appends to the file in one call.
func write(line string) error {
	if *log == "" {
		return nil
	}
	f, err := os.OpenFile(*log, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

func report(c *mpi.Comm, sum uint64) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	mine := make([]byte, 16)
	copy(mine, host)
	var all []byte
	var sums []uint64
	if c.Rank() == 0 {
		all, sums = make([]byte, 16*c.Size()), make([]uint64, c.Size())
	}
	if err := errors.Join(mpi.Gather(c, mine, all, 0), mpi.Gather(c, []uint64{sum}, sums, 0)); err != nil {
		return err
	}
	if c.Rank() == 0 {
		var total uint64
		for _, s := range sums {
			total = total*31 + s
		}
		var names []string
		for i := range c.Size() {
			names = append(names, strings.TrimRight(string(all[16*i:16*i+16]), "\x00"))
		}
		fmt.Printf("nodes %s\nsum %016x\n", strings.Join(names, " "), total)
	}
	if c.Rank() == c.Size()-1 && *exit != 0 {
		mpi.Abort(c, *exit)
	}
	return nil
}
