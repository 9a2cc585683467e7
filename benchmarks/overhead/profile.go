package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
)

// profile prints the functions in which the instructions of an 8-byte message are spent. It prints how long the
// same takes in one goroutine, alone and in a stream. It also prints the least time that the way from one
// processor to another adds.
func profile(ctx context.Context, world *bench.World, w io.Writer) error {
	exe, err := bench.Build(world.Bin, "loop", "benchmarks/overhead/loop")
	if err != nil {
		return err
	}
	for _, side := range []string{"send", "receive"} {
		each, err := byFunction(ctx, exe, side, filepath.Join(world.Dir, side+".out"))
		if err != nil {
			return err
		}
		total := 0.0
		for _, n := range each {
			total += n
		}
		fmt.Fprintf(w, "%s: %.1f instructions\n", side, total)
		names := slices.SortedFunc(maps.Keys(each), func(a, b string) int { return cmp.Or(cmp.Compare(each[b], each[a]), strings.Compare(a, b)) })
		for _, name := range names {
			if each[name] >= 0.5 {
				fmt.Fprintf(w, "%8.1f %5.1f%%  %s\n", each[name], 100*each[name]/total, name)
			}
		}
	}
	out, err := bench.Output(ctx, limit, nil, exe, "-rpi", "shm", "-count", "5000000")
	if err != nil {
		return err
	}
	m := regexp.MustCompile(`ns each: (\S+)`).FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("no time in %q", out)
	}
	fmt.Fprintf(w, "both together: %s ns, everything in one processor's cache\n", m[1])
	if out, err = bench.Output(ctx, limit, nil, exe, "-rpi", "shm", "-window", "-count", "5000000"); err != nil {
		return err
	}
	for _, m := range regexp.MustCompile(`(.*): (\S+) ns each`).FindAllStringSubmatch(out, -1) {
		fmt.Fprintf(w, "in windows of 64, %s: %s ns\n", m[1], m[2])
	}
	if runtime.NumCPU() > 1 {
		fmt.Fprintf(w, "a word from one processor to another: %d ns\n", betweenProcessors().Nanoseconds())
	}
	return nil
}

// byFunction returns the instructions of one message on one side by the
// function they belong to: the difference of two runs that only differ in their
// number of messages.
func byFunction(ctx context.Context, exe, side, file string) (map[string]float64, error) {
	each := map[string]float64{}
	for count, sign := range map[int]float64{few: -1, many: 1} {
		flags := []string{"--toggle-collect=main." + side, "--compress-strings=no", "--compress-pos=no"}
		if _, err := underCallgrind(ctx, file, flags, exe, "-rpi", "shm", "-count", strconv.Itoa(count)); err != nil {
			return nil, err
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		costs, err := readCosts(f)
		if err := cmp.Or(err, f.Close()); err != nil {
			return nil, err
		}
		for name, n := range costs {
			each[name] += sign * float64(n) / (many - few)
		}
	}
	return each, nil
}

// readCosts adds up callgrind's output by function, without what the functions
// call: lines are "LINE COST" of the function in the last "fn=", but for the one
// behind "calls=", which is the callee's.
func readCosts(r io.Reader) (map[string]int64, error) {
	costs := map[string]int64{}
	name, callee := "", false
	s := bufio.NewScanner(r)
	for s.Scan() {
		line := s.Text()
		if text, ok := strings.CutPrefix(line, "fn="); ok {
			name = strings.TrimPrefix(text, "github.com/gorun-mpi/gorun/")
			continue
		}
		if strings.HasPrefix(line, "calls=") {
			callee = true
			continue
		}
		var at, cost int64
		if _, err := fmt.Sscanf(line, "%d %d", &at, &cost); err != nil || name == "" {
			continue
		}
		if !callee {
			costs[name] += cost
		}
		callee = false
	}
	return costs, s.Err()
}
