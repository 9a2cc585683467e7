// Checkpoint measures what a checkpoint and a restart take. The same run measures the speed of the memory and
// of the disk:
//
//	go run ./benchmarks/checkpoint                    4 ranks of 256 MB and 64 ranks of 1 MB
//	go run ./benchmarks/checkpoint -cases 8x64,2x512
//
// It runs the program in load under gorun and takes checkpoints one after the other. It prints medians and
// quartiles of
//
//	points      request to all ranks standing at a common Point
//	gate        gates closed to gates opened again: nobody may send
//	pause       the longest that a rank stood still, as the program sees it
//	commit      request to the snapshot being committed
//	copy warm   the same bytes copied in memory that was used before
//	copy fresh  the same to memory that the kernel has to clear first
//	raw write   the same bytes written to files on the same disk and fsynced
//	restart     gorun restart to the first messages
//
// With -cr=native it takes native images of the program in plain, which knows nothing of checkpoints. The cases
// are 1 rank of 16 MB, 256 MB and 1 GB, 4 of 256 MB and 64 of 16 MB. It prints
//
//	pause        the longest that a rank was stopped, as the system reports it
//	seen         the same as rank 0 sees it, which looks at the clock in a loop
//	gate         gates closed to gates opened again, as the head reports it
//	commit       request to the snapshot being committed, nobody else computing
//	raw write    as many bytes as the images have, written and fsynced
//	restart      kill -9 of everything to the first message after the restart
//	beside data  what the image of a rank holds beyond the program's memory
//
// For 1 rank of 1 GB it also prints what an incremental image holds if 5 % of the pages were rewritten. It
// prints how much memory grows if the program rewrites 400 MB/s while its image is written.
//
// The copies and the raw write are done between checkpoints, while the job stands still. There are as many
// writers as ranks and as many copiers as CPUs. The first checkpoint of a job has to get memory for its copy
// and is printed separately.
//
// With -rpi rdma -onto rdma,tcp the job's ranks speak over one transport, and each of its restarts is made over all of these in turn ("restart tcp").
//
// -o FILE writes case,what,seconds,low,high for benchmarks/plot.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/arguments"
	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
)

// options are what the command line asks for.
type options struct {
	cr       string
	cases    []job
	rounds   int
	restarts int
	dir      string
	out      string
	check    bool
	mirror   string
	rpi      string
	onto     []string // transports of restarts; "": the same
}

// job is one case: so many ranks with so much state each.
type job struct{ ranks, mb int }

func (j job) String() string { return fmt.Sprintf("%d x %d MB", j.ranks, j.mb) }

// bytes is the state of all ranks.
func (j job) bytes() int { return j.ranks * j.mb << 20 }

func main() {
	o := arguments.Parse("checkpoint", parse)
	bench.Main("checkpoint", func(ctx context.Context) error { return run(ctx, o, os.Stdout) })
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("checkpoint", flag.ContinueOnError)
	f.StringVar(&o.cr, "cr", "self", "`back-end`: self or native")
	cases := f.String("cases", "", "`RANKSxMB`, separated by commas (default 4x256,64x1; native 1x16,1x256,1x1024,4x256,64x16)")
	f.IntVar(&o.rounds, "rounds", 7, "checkpoints of each case")
	f.IntVar(&o.restarts, "restarts", 3, "restarts of each case")
	f.StringVar(&o.dir, "dir", "", "`folder` on the disk to be measured (default: that of temporary files)")
	f.StringVar(&o.mirror, "mirror", "", "native: images go to memory, by this `policy` of -ckpt-mirror; nothing is restarted, as they end with the job")
	f.StringVar(&o.rpi, "rpi", "", "native: `transport` (default: what gorun chooses)")
	onto := f.String("onto", "", "native: restart over each of these `transports`, separated by commas (default: the job's)")
	f.StringVar(&o.out, "o", "", "write the figures to `FILE`, comma separated")
	f.BoolVar(&o.check, "check", false, "fail if a figure misses the project's targets")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 || o.rounds < 1 || o.restarts < 0 || (o.mirror != "" || o.rpi != "" || *onto != "") && o.cr != "native" {
		return nil, fmt.Errorf("bad argument; see -help")
	}
	o.onto = strings.Split(*onto, ",")
	usual, ok := map[string]string{"self": "4x256,64x1", "native": "1x16,1x256,1x1024,4x256,64x16"}[o.cr]
	if !ok {
		return nil, fmt.Errorf("-cr=%s: self or native", o.cr)
	}
	for _, text := range strings.Split(cmp.Or(*cases, usual), ",") {
		ranks, mb, ok := strings.Cut(text, "x")
		n, err := strconv.Atoi(ranks)
		m, err2 := strconv.Atoi(mb)
		if !ok || err != nil || err2 != nil || n < 1 || m < 1 {
			return nil, fmt.Errorf("%q is not RANKSxMB", text)
		}
		o.cases = append(o.cases, job{n, m})
	}
	return o, nil
}

func run(ctx context.Context, o *options, w io.Writer) (err error) {
	if o.out != "" {
		if err := arguments.Writable(o.out); err != nil {
			return err
		}
	}
	world, err := bench.NewWorld(o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	name, measure := "load", measure
	if o.cr == "native" {
		name, measure = "plain", measureNative
	}
	program, err := bench.Build(world.Bin, name, "benchmarks/checkpoint/"+name)
	if err != nil {
		return err
	}
	missed := 0
	all := newFigures()
	for _, j := range o.cases {
		fmt.Fprintf(os.Stderr, "%v\n", j)
		if err := measure(ctx, world, program, j, o, all); err != nil {
			return fmt.Errorf("%v: %w", j, err)
		}
		missed += all.print(w, j, o.cr)
	}
	if o.out != "" {
		if err := os.WriteFile(o.out, all.csv(), 0o666); err != nil {
			return err
		}
	}
	if o.check && missed > 0 {
		return fmt.Errorf("%d of the targets missed", missed)
	}
	return nil
}

// measure runs one case.
func measure(ctx context.Context, world *bench.World, program string, j job, o *options, all *figures) error {
	raw, err := newRaw(world.Dir, j)
	if err != nil {
		return err
	}
	defer raw.close()
	p, err := start(ctx, world, "-np", strconv.Itoa(j.ranks), "-cr=self", "-keep", "1", program, "-mb", strconv.Itoa(j.mb))
	if err != nil {
		return err
	}
	defer p.kill()
	if err := p.until("running"); err != nil {
		return err
	}
	schema := ""
	for round := range o.rounds + 1 {
		times, err := p.checkpoint(ctx)
		if err != nil {
			return err
		}
		schema = times.schema
		first := ""
		if round == 0 {
			first = "first "
		}
		took, err := p.pause()
		if err != nil {
			return err
		}
		times.took["pause"] = took
		for what, took := range times.took {
			all.add(j, first+what, took)
		}
		if round == 0 {
			continue
		}
		if err := p.freeze("load", func() error { return raw.measure(j, all) }); err != nil {
			return err
		}
	}
	p.kill()
	for range o.restarts {
		begin := time.Now()
		p, err := start(ctx, world, "restart", schema)
		if err != nil {
			return err
		}
		if err := p.until("running"); err != nil {
			p.kill()
			return err
		}
		all.add(j, "restart", time.Since(begin))
		p.kill()
	}
	return nil
}
