package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

// key names a quantity that is measured.
type key struct {
	transport string
	test      string // a test's, a collective's or "heat loop", "heat outside", ...
	ranks     int
	bytes     int
}

// figure is what one contender measured in one round: the median of its
// batches, in seconds.
type figure struct {
	key     key
	seconds float64
}

// samples are all figures by key, contender and round.
type samples map[key]map[string]series

// series are the figures of one contender by round; where it took no part there is none.
type series map[int]float64

func (s samples) add(k key, contender string, round int, seconds float64) {
	if s[k] == nil {
		s[k] = map[string]series{}
	}
	if s[k][contender] == nil {
		s[k][contender] = series{}
	}
	s[k][contender][round] = seconds
}

// rounds returns the number of the first round that is not there.
func (s samples) rounds() int {
	next := 0
	for _, by := range s {
		for _, v := range by {
			for round := range v {
				next = max(next, round+1)
			}
		}
	}
	return next
}

// values returns the figures in the order of their rounds.
func (v series) values() []float64 {
	var values []float64
	for _, round := range slices.Sorted(maps.Keys(v)) {
		values = append(values, v[round])
	}
	return values
}

func (v series) median() float64 { return stats.Median(v.values()) }

// over returns v's figures divided by those of another within the same rounds:
// a drift of the machine cancels.
func (v series) over(other series) series {
	ratios := series{}
	for round, x := range v {
		if y, ok := other[round]; ok {
			ratios[round] = x / y
		}
	}
	return ratios
}

// columns are those of samples.csv.
var columns = []string{"transport", "test", "ranks", "bytes", "contender", "round", "seconds"}

const samplesFile = "samples.csv"

// write writes all samples to the folder.
func (s samples) write(dir string) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	rows := [][]string{columns}
	for _, k := range s.keys() {
		for _, name := range slices.Sorted(maps.Keys(s[k])) {
			for _, round := range slices.Sorted(maps.Keys(s[k][name])) {
				rows = append(rows, []string{k.transport, k.test, strconv.Itoa(k.ranks), strconv.Itoa(k.bytes), name, strconv.Itoa(round),
					strconv.FormatFloat(s[k][name][round], 'g', 6, 64)})
			}
		}
	}
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, samplesFile), b.Bytes(), 0o666)
}

// readSamples reads what earlier runs wrote to the folder, if they did.
func readSamples(dir string) (samples, error) {
	s := samples{}
	text, err := os.ReadFile(filepath.Join(dir, samplesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || !slices.Equal(rows[0], columns) {
		return nil, fmt.Errorf("%s is not of this program", filepath.Join(dir, samplesFile))
	}
	for i, row := range rows[1:] {
		var n [3]int
		var errs [4]error
		for j, text := range []string{row[2], row[3], row[5]} {
			n[j], errs[j] = strconv.Atoi(text)
		}
		var seconds float64
		seconds, errs[3] = strconv.ParseFloat(row[6], 64)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", samplesFile, i+2, err)
		}
		s.add(key{row[0], row[1], n[0], n[1]}, row[4], n[2], seconds)
	}
	return s, nil
}

// keys returns all keys: by transport and test in the order of the tests, then
// by ranks and size.
func (s samples) keys() []key {
	return slices.SortedFunc(maps.Keys(s), func(a, b key) int {
		for _, d := range []int{
			order(transportOrder, a.transport) - order(transportOrder, b.transport),
			order(testOrder, a.test) - order(testOrder, b.test),
			a.ranks - b.ranks, a.bytes - b.bytes,
		} {
			if d != 0 {
				return d
			}
		}
		return 0
	})
}

var (
	transportOrder = []string{"shm", "tcp"}
	testOrder      = slices.Concat([]string{"pingpong", "dirty", "stream", "window", "column", "barrier", "allreduce", "bcast", "alltoall", "allgather",
		"reduce_scatter", "start"}, times())
)

func order(names []string, name string) int { return slices.Index(names, name) }

// derive adds the slow-down of the programs with more ranks: the time of an
// iteration in units of that on two ranks in the same round.
func (s samples) derive() {
	for k, by := range maps.Clone(s) {
		name, ok := strings.CutSuffix(k.test, " loop")
		if !ok || k.ranks == 2 {
			continue
		}
		for contender, v := range by {
			two := s[key{k.transport, k.test, 2, 0}][contender]
			for round, x := range v.over(two) {
				s.add(key{k.transport, name + " slow-down", k.ranks, 0}, contender, round, x)
			}
		}
	}
}
