package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/cr/snapshot"
)

const (
	dirtied   = 50  // of 1000 pages, between two incremental images
	dirtyRate = 400 // MB/s while the growth of memory is measured
)

// measureNative runs one case with images of whole processes.
func measureNative(ctx context.Context, world *bench.World, program string, j job, o *options, all *figures) error {
	raw, err := newRaw(world.Dir, j)
	if err != nil {
		return err
	}
	defer raw.close()
	args := func(full int) []string {
		to := []string{"-np", strconv.Itoa(j.ranks), "-cr=native", "-keep", "1", "-ckpt-full-every", strconv.Itoa(full)}
		if o.mirror != "" {
			to = append(to, "-ckpt-mirror", o.mirror)
		}
		to = append(to, over(o.rpi)...)
		return append(to, program, "-mb", strconv.Itoa(j.mb))
	}
	p, err := start(ctx, world, args(1)...)
	if err != nil {
		return err
	}
	defer func() { p.kill() }()
	if err := p.until("running"); err != nil {
		return err
	}
	for round := range o.rounds + 1 {
		first := ""
		if round == 0 {
			first = "first "
		}
		if err := p.quiet(ctx, j, first, all); err != nil {
			return err
		}
		if round == 0 {
			continue
		}
		if err := p.freeze("plain", func() error { return raw.measureWrite(j, all) }); err != nil {
			return err
		}
		if err := p.watched(ctx, j, all); err != nil {
			return err
		}
	}
	if j.ranks == 1 && j.mb >= 256 { // of less, what else the machine does would be measured
		if err := p.growth(ctx, j, o.rounds, all); err != nil {
			return err
		}
	}
	if o.mirror != "" {
		return nil
	}
	last, err := p.checkpoint(ctx)
	if err != nil {
		return err
	}
	for i := range o.restarts * len(o.onto) {
		rpi := o.onto[i%len(o.onto)]
		killed := time.Now()
		if err := p.crash(); err != nil {
			return err
		}
		if p, err = start(ctx, world, append(append([]string{"restart"}, over(rpi)...), last.schema)...); err != nil {
			return err
		}
		if err := p.until("restarted"); err != nil {
			return err
		}
		all.add(j, strings.TrimSpace("restart "+rpi), time.Since(killed))
	}
	p.kill()
	if j.ranks > 1 {
		return nil
	}
	if p, err = start(ctx, world, args(1000)...); err != nil {
		return err
	}
	return p.incremental(ctx, j, o.rounds, all)
}

// over gives gorun's flags for a transport.
func over(rpi string) []string {
	if rpi == "" {
		return nil
	}
	return []string{"-rpi", rpi}
}

// quiet takes a snapshot while the program does next to nothing.
func (p *process) quiet(ctx context.Context, j job, first string, all *figures) error {
	c, err := p.checkpoint(ctx)
	if err != nil {
		return err
	}
	s, err := readSchema(c.schema)
	if err != nil {
		return err
	}
	all.add(j, first+"pause", longest(s))
	all.add(j, first+"gate", time.Duration(s.Gate))
	all.add(j, first+"commit", c.took["commit"])
	if first == "" {
		all.addValue(j, "beside data", float64(stored(s))/float64(j.ranks)-float64(j.mb<<20))
	}
	return nil
}

// watched takes a snapshot while rank 0 looks at the clock.
func (p *process) watched(ctx context.Context, j job, all *figures) error {
	if _, err := p.tell("watch", "watching"); err != nil {
		return err
	}
	c, err := p.checkpoint(ctx)
	if err != nil {
		return err
	}
	text, err := p.tell("gaps", "gaps")
	if err != nil {
		return err
	}
	s, err := readSchema(c.schema)
	if err != nil {
		return err
	}
	// Within the phase, as it was heard of, and a bit around.
	from, to := c.begin, c.begin.Add(c.took["commit"])
	if t, ok := c.began["capturing"]; ok {
		from = c.begin.Add(t - 5*time.Millisecond)
	}
	if t, ok := c.began["writing"]; ok {
		to = c.begin.Add(t + 5*time.Millisecond)
	}
	seen, err := longestGap(text, from, to)
	if err != nil {
		return err
	}
	all.add(j, "pause of rank 0", time.Duration(s.Images[0].Pause))
	all.add(j, "seen", seen)
	return nil
}

// longestGap returns the longest of the gaps that overlap a span of time.
func longestGap(text string, from, to time.Time) (longest time.Duration, err error) {
	for _, word := range strings.Fields(text) {
		at, length, ok := strings.Cut(word, ":")
		begin, err1 := strconv.ParseInt(at, 10, 64)
		d, err2 := strconv.ParseInt(length, 10, 64)
		if !ok || err1 != nil || err2 != nil {
			return 0, fmt.Errorf("the program says %q of a gap", word)
		}
		if begin+d >= from.UnixNano() && begin <= to.UnixNano() {
			longest = max(longest, time.Duration(d))
		}
	}
	return longest, nil
}

// growth measures how much memory grows while the image of a program that writes is written.
func (p *process) growth(ctx context.Context, j job, rounds int, all *figures) error {
	if _, err := p.tell(fmt.Sprintf("rate %d", dirtyRate), "rate"); err != nil {
		return err
	}
	for range rounds {
		before, err := anonymous()
		if err != nil {
			return err
		}
		stop, most := make(chan struct{}), make(chan float64)
		go func() {
			var top float64
			for {
				select {
				case <-stop:
					most <- top
					return
				case <-time.After(2 * time.Millisecond):
					if now, err := anonymous(); err == nil {
						top = max(top, now)
					}
				}
			}
		}()
		c, err := p.checkpoint(ctx)
		close(stop)
		top := <-most
		if err != nil {
			return err
		}
		all.addValue(j, "growth", top-before)
		all.add(j, "commit writing", c.took["commit"])
	}
	_, err := p.tell("rate 0", "rate")
	return err
}

// anonymous is the memory of the machine, in bytes, that belongs to processes
// and to no file.
func anonymous() (float64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(text, []byte("AnonPages:"))
	var kb float64
	if _, err := fmt.Sscan(string(rest), &kb); !ok || err != nil {
		return 0, fmt.Errorf("/proc/meminfo: no AnonPages: %w", err)
	}
	return kb * 1024, nil
}

// incremental compares an image of what has changed with a full one.
func (p *process) incremental(ctx context.Context, j job, rounds int, all *figures) error {
	if err := p.until("running"); err != nil {
		return err
	}
	c, err := p.checkpoint(ctx)
	if err != nil {
		return err
	}
	full, err := readSchema(c.schema)
	if err != nil {
		return err
	}
	for range rounds {
		if _, err := p.tell(fmt.Sprintf("dirty %d", dirtied), "dirtied"); err != nil {
			return err
		}
		c, err := p.checkpoint(ctx)
		if err != nil {
			return err
		}
		s, err := readSchema(c.schema)
		if err != nil {
			return err
		}
		if len(s.Bases()) == 0 {
			all.addValue(j, "full instead of incremental", 1)
			return nil
		}
		all.addValue(j, "full", float64(stored(full)))
		all.addValue(j, "incremental", float64(stored(s)))
		all.add(j, "pause tracked", longest(s))
		all.add(j, "commit incremental", c.took["commit"])
	}
	return nil
}

// crash kills all processes of the job at once.
func (p *process) crash() error {
	pids := append(descendants(p.cmd.Process.Pid, ""), p.cmd.Process.Pid)
	slices.Reverse(pids) // the head first, so that nobody is told anything
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	p.once.Do(func() {
		go func() {
			for range p.lines {
			}
			<-p.ended
			p.cancel()
		}()
	})
	return nil
}

func readSchema(path string) (*snapshot.Schema, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := snapshot.ParseSchema(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if s.Backend != "native" {
		return nil, fmt.Errorf("%s: back-end %s", path, s.Backend)
	}
	return s, nil
}

// stored is the size of all images in bytes.
func stored(s *snapshot.Schema) (n int64) {
	for _, im := range s.Images {
		n += im.Size
	}
	return n
}

// longest is the longest pause of a rank.
func longest(s *snapshot.Schema) (d time.Duration) {
	for _, im := range s.Images {
		d = max(d, time.Duration(im.Pause))
	}
	return d
}
