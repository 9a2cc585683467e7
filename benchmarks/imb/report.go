package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/mpi"
)

// width of a column.
const width = 13

// report prints what the suite prints. Scripts look for "# Benchmarking NAME", "# #processes = N" and the lines of
// columns.
type report struct {
	*options
	w   io.Writer
	all int // ranks
	err error
}

func (r *report) printf(format string, args ...any) {
	if r.err == nil {
		_, r.err = fmt.Fprintf(r.w, format, args...)
	}
}

// flush shows what was printed so far: a run may take hours.
func (r *report) flush() {
	if f, ok := r.w.(interface{ Flush() error }); ok && r.err == nil {
		r.err = f.Flush()
	}
}

// begin prints what machine and what tests these are.
func (r *report) begin() {
	rule := "#" + strings.Repeat("-", 60)
	r.printf("%s\n#    The tests of the Intel(R) MPI Benchmarks on gorun, %s part\n%s\n", rule, r.component.title, rule)
	var u unix.Utsname
	_ = unix.Uname(&u) // what it cannot tell stays empty
	major, minor := mpi.Version()
	for _, line := range [][2]string{
		{"Date", time.Now().Format(time.ANSIC)}, {"Machine", unix.ByteSliceToString(u.Machine[:])}, {"System", unix.ByteSliceToString(u.Sysname[:])},
		{"Release", unix.ByteSliceToString(u.Release[:])}, {"Version", unix.ByteSliceToString(u.Version[:])},
		{"MPI Version", fmt.Sprintf("%d.%d", major, minor)}, {"MPI Thread Environment", "MPI_THREAD_MULTIPLE"},
	} {
		r.printf("# %-22s: %s\n", line[0], line[1])
	}
	r.printf("\n\n# Calling sequence was: \n\n# %s %s \n\n", filepath.Base(r.options.line[0]), strings.Join(r.options.line[1:], " "))
	if r.chosen {
		r.printf("# Message lengths were user defined\n")
	} else {
		r.printf("# Minimum message length in bytes:   %d\n# Maximum message length in bytes:   %d\n", r.sizes[0], 1<<r.maxLog)
	}
	r.printf("#\n# MPI_Datatype                   :   MPI_BYTE \n# MPI_Datatype for reductions    :   MPI_FLOAT \n# MPI_Op                         :   MPI_SUM  \n# \n# \n\n")
	r.printf("# List of Benchmarks to run:\n\n")
	for _, t := range r.tests {
		r.printf("# %s\n", t.name)
		if (t.pair || t.even) && r.all < 2 {
			r.printf("# (%s needs 2 processes and is left out)\n", t.name)
		}
	}
	r.flush()
}

func (r *report) end() {
	r.printf("\n\n# All processes entering MPI_Finalize\n\n")
	r.flush()
}

// columns are the heads of the table of each shape.
var columns = map[shape][]string{
	oneTime:      {"#bytes", "#repetitions", "t[usec]", "Mbytes/sec"},
	rates:        {"#bytes", "#repetitions", "Mbytes/sec", "Msg/sec"},
	timesAndRate: {"#bytes", "#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]", "Mbytes/sec"},
	times:        {"#bytes", "#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]"},
	barrier:      {"#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]"},
	overlap:      {"#bytes", "#repetitions", "t_ovrl[usec]", "t_pure[usec]", "t_CPU[usec]", "overlap[%]"},
	overlapAlone: {"#repetitions", "t_ovrl[usec]", "t_pure[usec]", "t_CPU[usec]", "overlap[%]"},
}

// shape returns which columns a test has here: of groups, of which the worst is shown, each has its own time.
func (r *report) shape(t *test) shape {
	if t.shape == oneTime && r.multi == 0 {
		return timesAndRate
	}
	return t.shape
}

// heads returns the heads of the columns of a test.
func (r *report) heads(t *test) []string {
	heads := slices.Clone(columns[r.shape(t)])
	if r.multi == 1 {
		heads = slices.Insert(heads, 0, "Group")
	}
	if r.checked && t.shape.sized() {
		heads = append(heads, "defects")
	}
	return heads
}

// header prints what comes before the lines of a table.
func (r *report) header(t *test, np, groups int) {
	heads := r.heads(t)
	rule := "#" + strings.Repeat("-", len(heads)*width-1)
	multi := ""
	if groups > 1 {
		multi = "Multi-"
	}
	r.printf("\n%s\n# Benchmarking %s%s \n", rule, multi, t.name)
	if groups > 1 {
		r.printf("# ( %d groups of %d processes each running simultaneous ) \n", groups, np)
		for g := range groups {
			r.printf("# Group  %d: ", g)
			for i := range np {
				r.printf(" %4d", r.worldRank(g*np+i))
				if i%16 == 15 || i == np-1 {
					r.printf("\n# ")
				}
			}
			r.printf("\n")
		}
	} else if r.columns > 1 && r.rows > 1 {
		r.printf("# #processes = %d; rank order (rowwise): \n", np)
		for at := 0; at < np; at += r.rows {
			r.printf("# ")
			for i := at; i < min(at+r.rows, np); i++ {
				r.printf(" %4d", r.worldRank(i))
			}
			r.printf("\n# \n")
		}
	} else {
		r.printf("# #processes = %d \n", np)
	}
	switch rest := r.all - groups*np; {
	case rest == 1:
		r.printf("# ( 1 additional process waiting in MPI_Barrier)\n")
	case rest > 1:
		r.printf("# ( %d additional processes waiting in MPI_Barrier)\n", rest)
	}
	r.printf("%s\n", rule)
	for _, h := range heads {
		r.printf("%*s", width, h)
	}
	r.printf("\n")
	r.flush()
}

// tooLarge prints a line for a size that -mem forbids.
func (r *report) tooLarge(size int, need float64) {
	r.printf("%*d out-of-mem.; needed X=%8.3f GB; use flag \"-mem X\"\n", width, size, need/(1<<30))
	r.flush()
}

// results prints the line of a size, or one for each group.
func (r *report) results(t *test, np, groups, size, n int, of []result) {
	if r.multi != 1 {
		r.line(t, np*groups, size, n, of[:np*groups])
		return
	}
	r.printf("\n")
	for g := range groups {
		r.printf("%*d", width, g)
		r.line(t, np, size, n, of[g*np:(g+1)*np])
	}
}

// line prints a line of a table, of so many ranks.
func (r *report) line(t *test, np, size, n int, of []result) {
	if t.shape.sized() {
		r.printf("%*d", width, size)
	}
	r.printf("%*d", width, n)
	least, most, mean, slowest := summary(of)
	us := func(xs ...float64) {
		for _, x := range xs {
			r.printf("%*.2f", width, 1e6*x)
		}
	}
	rate := t.scale * float64(size) / 1e6 / most
	switch r.shape(t) {
	case oneTime:
		us(most)
		r.printf("%*.2f", width, rate)
	case rates:
		messages := t.scale * float64(r.window*(np/2)) / most
		r.printf("%*.2f%*.0f", width, messages*float64(size)/1e6, width, messages)
	case timesAndRate:
		us(least, most, mean)
		r.printf("%*.2f", width, rate)
	case times, barrier:
		us(least, most, mean)
	case overlap, overlapAlone:
		us(slowest.Overlapped, slowest.Pure, slowest.Compute)
		r.printf("%*.2f", width, slowest.overlap())
	}
	if r.checked && t.shape.sized() {
		wrong := 0.0
		for _, x := range of {
			wrong += x.Wrong
		}
		r.printf("%*.2f", width, wrong)
	}
	r.printf("\n")
	r.flush()
}

// overlap returns how much of the shorter part was hidden, in percent.
func (x result) overlap() float64 {
	return 100 * max(0, min(1, (x.Pure+x.Compute-x.Overlapped)/max(x.Pure, x.Compute)))
}

// summary returns the least, most and mean time of the ranks that took part, and the slowest of those that overlapped.
func summary(of []result) (least, most, mean float64, slowest result) {
	n := 0
	for _, x := range of {
		if x.Pure < 0 {
			continue
		}
		if n == 0 || x.Pure < least {
			least = x.Pure
		}
		if n == 0 || x.Overlapped > slowest.Overlapped {
			slowest = x
		}
		most = max(most, x.Pure)
		mean += x.Pure
		n++
	}
	return least, max(most, 1e-12), mean / float64(max(n, 1)), slowest
}
