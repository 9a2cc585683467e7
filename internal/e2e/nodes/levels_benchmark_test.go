package nodes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
)

// place is where snapshots of a job go.
type place struct {
	name string
	args func(c *cluster) []string
}

// places are those that are compared. Images in memory are always full, so those on disks are, too.
var places = []place{
	{"own", func(*cluster) []string { return []string{"-ckpt-mirror", "none"} }},
	{"ring", func(*cluster) []string { return []string{"-ckpt-mirror", "ring"} }},
	{"node", func(c *cluster) []string { return []string{"-ckpt-local", filepath.Join(c.Local(), "images", "%n")} }},
	{"shared", func(*cluster) []string { return nil }},
}

// BenchmarkLevels compares, in turns, snapshots of 4 ranks on two nodes of a lab in the memory of their own nodes, there and on the
// other node (ring), on the disk of each node and in the folder that all nodes see, the last two with fsync.
//
//	go test ./internal/e2e/nodes -run '^$' -bench Levels -benchtime 5x -timeout 1h
//
// commit is from the request to the commit, while the ranks rest. lost is how much longer the program takes because of a snapshot that is
// taken while all ranks compute: until a moment after the commit, by the steps that it has made and those that it makes before and
// after in as much time. Figures are medians, those that end in / medians of ratios within a round.
func BenchmarkLevels(b *testing.B) {
	for _, mb := range []string{"64", "256"} {
		b.Run("4x"+mb+"MB", func(b *testing.B) {
			c := newCluster(b, 2)
			var all []*walker
			for _, p := range places {
				all = append(all, c.walk(p, mb, "-hosts", "n1:2,n2:2", "-np", "4", "-keep", "2"))
			}
			for _, w := range all { // slots and files of the first ones are fresh
				w.turn(func() { w.commit(); w.commit(); w.commit() })
			}
			f := figures{}
			for round := 0; b.Loop(); round++ {
				for i := range all {
					w := all[(i+round)%len(all)]
					w.turn(func() {
						f.add(w.name+"-commit-ms", w.commit())
						f.add(w.name+"-lost-ms", w.lost())
					})
				}
			}
			for _, w := range all {
				w.over()
			}
			for _, what := range []string{"commit", "lost"} {
				f.ratio("own-"+what+"-/node", "own-"+what+"-ms", "node-"+what+"-ms")
				f.ratio("own-"+what+"-/shared", "own-"+what+"-ms", "shared-"+what+"-ms")
				f.ratio("ring-"+what+"-/shared", "ring-"+what+"-ms", "shared-"+what+"-ms")
			}
			f.report(b)
		})
	}
}

// BenchmarkMirror compares, in turns, a commit of 4 ranks of 64 MB on two nodes that hold each other's images with the same bytes both ways over the
// bare link, which is limited to 1 Gbit/s, and not.
//
//	go test ./internal/e2e/nodes -run '^$' -bench Mirror -benchtime 5x -timeout 1h
func BenchmarkMirror(b *testing.B) {
	for _, rate := range []string{"1gbit", "off"} {
		b.Run(rate, func(b *testing.B) {
			const mb = 64
			c := newCluster(b, 2)
			buildOne(b, c.Shared(), "link", "internal/e2e/nodes/link")
			c.Rate("n2", rate)
			to := c.link()
			w := c.walk(places[1], strconv.Itoa(mb), "-hosts", "n1:2,n2:2", "-np", "4")
			w.turn(func() { w.commit(); w.commit(); w.commit() })
			f := figures{}
			for b.Loop() {
				w.turn(func() { f.add("commit-ms", w.commit()) })
				seconds, err := strconv.ParseFloat(strings.TrimSpace(c.Exec("n1", c.file("link"), to, strconv.Itoa(2*mb))), 64)
				if err != nil {
					b.Fatal(err)
				}
				f.add("link-ms", 1000*seconds)
			}
			w.over()
			f.ratio("commit-/link", "commit-ms", "link-ms")
			f.report(b)
		})
	}
}

// link starts the far end of a bare link on n2, and returns its address.
func (c *cluster) link() string {
	cmd := c.Command("n2", c.file("link"))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	var port int
	if _, err := fmt.Fscan(out, &port); err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf("%s:%d", c.Address("n2", 0), port)
}

// walker is a march that computes when it is told to, and stands still when it is not its turn.
type walker struct {
	*job
	name           string
	load, log, end string
}

var walkers int // so far: each has files of its own

// walk starts one, with a place for its snapshots and so much memory a rank.
func (c *cluster) walk(p place, mb string, args ...string) *walker {
	walkers++
	fresh := func(what string) string { return c.fresh(fmt.Sprint(p.name, "-", walkers, "-", what)) }
	w := &walker{name: p.name, load: fresh("load"), log: fresh("log"), end: fresh("end")}
	w.work(c, 0)
	args = append(args, "-v", "-cr=native", "-ckpt-full-every", "1", "-ckpt-dir", fresh("snapshots"))
	args = append(args, p.args(c)...)
	w.job = c.start(append(args, c.file("march"), "-memory", mb, "-load", w.load, "-log", w.log, "-end", w.end, "-pause", "20ms")...)
	for _, step := w.awaitStep(); step < 5; step = w.step() { // until the ranks that speak are connected
		time.Sleep(time.Millisecond)
	}
	w.gorun("suspend")
	return w
}

// work sets how much each step computes, in thousands of rounds.
func (w *walker) work(c *cluster, n int) {
	err := os.WriteFile(w.load+".new", []byte(strconv.Itoa(n)), 0o644)
	if err == nil {
		err = os.Rename(w.load+".new", w.load)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (w *walker) gorun(verb string, args ...string) string {
	w.c.t.Helper()
	out, err := w.c.Command("n1", append(append([]string{w.c.file("gorun"), verb}, args...), w.id())...).Output()
	if err != nil {
		said, _ := w.said.now()
		w.c.t.Fatalf("gorun %s: %v; the job has said:\n%s", verb, err, said)
	}
	return string(out)
}

// turn lets the march go on while f runs.
func (w *walker) turn(f func()) {
	w.gorun("resume")
	f()
	w.gorun("suspend")
}

// over ends it.
func (w *walker) over() {
	if err := os.WriteFile(w.end, nil, 0o644); err != nil {
		w.c.t.Fatal(err)
	}
	w.gorun("resume")
	w.well()
}

// status is what the head says of the job.
func (w *walker) status() *control.Status {
	s := &control.Status{}
	if err := json.Unmarshal([]byte(w.gorun("status", "-json")), s); err != nil {
		w.c.t.Fatal(err)
	}
	return s
}

// commit takes a snapshot while the ranks rest. It returns the milliseconds from the request to the commit.
func (w *walker) commit() float64 {
	w.gorun("checkpoint")
	return ms(w.status().Last.Took)
}

// Windows of the measurement of what is lost.
const (
	perStep = 500 // thousands of rounds, about a millisecond
	before  = 700 * time.Millisecond
	settles = 300 * time.Millisecond // after the commit
)

// lost takes a snapshot while the ranks compute. It returns the milliseconds that they have lost.
func (w *walker) lost() float64 {
	w.work(w.c, perStep)
	defer w.work(w.c, 0)
	w.steps(before) // until all of them compute
	return w.costs()
}

// costs does so while they compute anyway.
func (w *walker) costs() float64 {
	begin := w.steps(before)
	at, from := time.Now(), w.step()
	w.gorun("checkpoint")
	time.Sleep(settles)
	took, made := time.Since(at), w.step()-from
	end := w.steps(before)
	rate := (begin + end) / 2
	return ms(took) - 1000*float64(made)/rate
}

// steps is how many steps the march makes a second, measured for a while.
func (w *walker) steps(d time.Duration) float64 {
	at, from := time.Now(), w.step()
	time.Sleep(d)
	return float64(w.step()-from) / time.Since(at).Seconds()
}

// step is the newest step that any rank has written of.
func (w *walker) step() int {
	_, step := w.line()
	return step
}

var marched = regexp.MustCompile(`(?m)^([0-9a-f]{16}) \d+ (\d+)\n`)

// line is the newest line of the log: life and step.
func (w *walker) line() (life string, step int) {
	f, err := os.Open(w.log)
	if err != nil {
		return "", 0
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		w.c.t.Fatal(err)
	}
	tail := make([]byte, min(st.Size(), 200))
	n, _ := f.ReadAt(tail, st.Size()-int64(len(tail)))
	all := marched.FindAllSubmatch(tail[:n], -1)
	if len(all) == 0 {
		return "", 0
	}
	last := all[len(all)-1]
	step, _ = strconv.Atoi(string(last[2]))
	return string(bytes.Clone(last[1])), step
}

// awaitStep waits until a rank of a life that has not written yet writes, and returns it and its step.
func (w *walker) awaitStep(lives ...string) (life string, step int) {
	for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if life, step = w.line(); life != "" && !slices.Contains(lives, life) {
			return life, step
		}
		if time.Now().After(limit) {
			said, _ := w.said.now()
			w.c.t.Fatalf("no step of another life:\n%s", said)
		}
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// figures are what was measured, by name.
type figures map[string][]float64

func (f figures) add(name string, v float64) { f[name] = append(f[name], v) }

// ratio adds the ratios of two figures round by round.
func (f figures) ratio(name, a, b string) {
	for i := range f[a] {
		f.add(name, f[a][i]/f[b][i])
	}
}

// report reports the medians.
func (f figures) report(b *testing.B) {
	b.ReportMetric(0, "ns/op") // means nothing here
	for name, all := range f {
		all = slices.Clone(all)
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name)
	}
}
