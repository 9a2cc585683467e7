package nas

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/gorun-mpi/gorun/mpi"
)

// Report is what a benchmark has found. It is the same on all ranks.
type Report struct {
	Name       string
	Size       string // of the problem, for people
	Iterations int
	Seconds    float64
	Operations float64 // nominal, as NAS counts them
	Checks     []Check
}

// Check compares a result with the published one.
type Check struct {
	What      string
	Got, Want float64
	Tolerance float64 // of the relative error, or of the absolute one where Want is 0
}

// Error is the relative error, or the absolute one where nothing is wanted.
func (k Check) Error() float64 {
	if k.Want == 0 {
		return math.Abs(k.Got)
	}
	return math.Abs((k.Got - k.Want) / k.Want)
}

// Good tells whether the error is small enough. That of a NaN is not.
func (k Check) Good() bool { return k.Error() <= k.Tolerance }

// Good tells whether all results are right. A report without any is not.
func (r *Report) Good() bool {
	for _, k := range r.Checks {
		if !k.Good() {
			return false
		}
	}
	return len(r.Checks) > 0
}

// ErrUnsuccessful says that a result is not the published one.
var ErrUnsuccessful = errors.New("verification: unsuccessful")

// Benchmark is the program of one rank.
type Benchmark func(c *mpi.Comm, class Class) (*Report, error)

// Main is the main function of a benchmark. The program's argument is the class. It ends with status 1 if the
// results are not the published ones.
func Main(b Benchmark) {
	flag.Parse()
	class, err := ParseClass(flag.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(2)
	}
	mpi.Run(func(c *mpi.Comm) error { return Do(c, class, b, os.Stdout) })
}

// Do runs a benchmark and has rank 0 print its report. Errors: that of the benchmark; ErrUnsuccessful on rank 0.
func Do(c *mpi.Comm, class Class, b Benchmark, out io.Writer) error {
	r, err := b(c, class)
	if err != nil || c.Rank() != 0 {
		return err
	}
	if err := r.print(out, class, c.Size()); err != nil {
		return err
	}
	if !r.Good() {
		return ErrUnsuccessful
	}
	return nil
}

func (r *Report) print(out io.Writer, class Class, ranks int) error {
	w := bufio.NewWriter(out)
	for _, k := range r.Checks {
		mark := "ok"
		if !k.Good() {
			mark = "WRONG"
		}
		fmt.Fprintf(w, " %-24s %22.14e  published %22.14e  error %8.2e  %s\n", k.What, k.Got, k.Want, k.Error(), mark)
	}
	mops := r.Operations / 1e6 / r.Seconds
	fmt.Fprintf(w, "\n %s Benchmark Completed.\n", r.Name)
	for _, line := range [][2]string{
		{"Class", class.String()},
		{"Size", r.Size},
		{"Iterations", fmt.Sprint(r.Iterations)},
		{"Time in seconds", fmt.Sprintf("%.3f", r.Seconds)},
		{"Total processes", fmt.Sprint(ranks)},
		{"Mop/s total", fmt.Sprintf("%.2f", mops)},
		{"Mop/s/process", fmt.Sprintf("%.2f", mops/float64(ranks))},
	} {
		fmt.Fprintf(w, " %-16s = %24s\n", line[0], line[1])
	}
	verdict := "UNSUCCESSFUL"
	if r.Good() {
		verdict = "SUCCESSFUL"
	}
	fmt.Fprintf(w, "Verification: %s\n", verdict)
	return w.Flush()
}
