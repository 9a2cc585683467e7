package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

// report is what is made of all samples.
type report struct {
	all    samples
	names  []string // contenders
	tables []table  // the targets first
	missed int
}

func newReport(all samples) *report {
	all.derive()
	r := &report{all: all}
	for _, name := range append([]string{ours}, peerNames()...) {
		if all.has(name) {
			r.names = append(r.names, name)
		}
	}
	t, missed := targetTable(all)
	r.tables, r.missed = []table{t}, missed
	for _, transport := range transportOrder {
		for _, x := range sections {
			t := figureTable(all, x, transport, r.names)
			if len(t.Rows) > 0 {
				r.tables = append(r.tables, t)
			}
		}
	}
	return r
}

// peerNames are all whom gorun can race with.
func peerNames() []string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return append(names, references...)
}

// has reports whether a contender took part in anything.
func (s samples) has(name string) bool {
	for _, by := range s {
		if len(by[name]) > 0 {
			return true
		}
	}
	return false
}

// print writes the tables as text, the targets last, where they are seen.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "Medians of up to %d rounds, and the spread: distance of the quartiles.\n", r.all.rounds())
	for _, t := range r.tables[1:] {
		t.print(w)
	}
	r.tables[0].print(w)
}

//go:embed report.html
var page string

const reportFile = "report.html"

// picture is a plot in the report.
type picture struct {
	Title string
	SVG   template.HTML
}

// write writes report.html to the folder, and the pictures beside it.
func (r *report) write(ctx context.Context, world *bench.World, dir string, w io.Writer) error {
	pictures, err := r.draw(ctx, world, dir)
	if err != nil {
		return err
	}
	t, err := template.New("").Parse(page)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{"Machine": machine(), "Libraries": versions(ctx), "Tables": r.tables, "Pictures": pictures, "Rounds": r.all.rounds()})
	if err != nil {
		return err
	}
	name := filepath.Join(dir, reportFile)
	fmt.Fprintf(w, "\n%s\n", name)
	return os.WriteFile(name, b.Bytes(), 0o666)
}

// plot is a picture to be drawn by benchmarks/plot: a line for each contender.
type plot struct {
	title      string
	transport  string
	test       string
	bytes      int // of collectives; -1: over sizes
	throughput bool
}

// plots returns those that have something to show.
func (r *report) plots() []plot {
	var all []plot
	for _, k := range r.all.keys() {
		p := plot{transport: k.transport, test: k.test, bytes: k.bytes}
		switch {
		case k.test == "window", strings.HasSuffix(k.test, "slow-down"): // one size; no time
			continue
		case slices.Contains([]string{"pingpong", "dirty", "stream"}, k.test):
			p.bytes, p.throughput = -1, k.test == "stream"
			p.title = k.test + " over " + k.transport
		case slices.Contains(collectiveTests, k.test) && k.bytes > 0:
			p.title = k.test + " of " + size(k.bytes) + " over " + k.transport
		default:
			p.title = k.test + " over " + k.transport
		}
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// draw has benchmarks/plot, a module of its own, make all pictures.
func (r *report) draw(ctx context.Context, world *bench.World, dir string) ([]picture, error) {
	exe, err := bench.BuildNested(world.Bin, "plot", "benchmarks/plot")
	if err != nil {
		return nil, err
	}
	var all []picture
	for _, p := range r.plots() {
		in := filepath.Join(world.Dir, "plot.csv")
		if err := os.WriteFile(in, r.data(p), 0o666); err != nil {
			return nil, err
		}
		name := strings.NewReplacer(" ", "-").Replace(p.title) + ".svg"
		args := []string{exe, "-o", filepath.Join(dir, name), "-title", p.title}
		if p.throughput {
			args = append(args, "-throughput")
		}
		if _, err := bench.Output(ctx, time.Minute, nil, append(args, in)...); err != nil {
			return nil, err
		}
		svg, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		all = append(all, picture{p.title, template.HTML(svg[bytes.Index(svg, []byte("<svg")):])})
	}
	return all, nil
}

// data is what benchmarks/plot reads: medians and quartiles.
func (r *report) data(p plot) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	column := "ranks"
	if p.bytes < 0 {
		column = "bytes"
	}
	rows := [][]string{{"contender", "mode", column, "seconds", "low", "high"}}
	for _, name := range r.names {
		for _, k := range r.all.keys() {
			v := r.all[k][name].values()
			if k.transport != p.transport || k.test != p.test || p.bytes >= 0 && k.bytes != p.bytes || len(v) == 0 {
				continue
			}
			x := k.ranks
			if p.bytes < 0 {
				x = k.bytes
			}
			row := []string{name, k.test, strconv.Itoa(x)}
			for _, q := range []float64{0.5, 0.25, 0.75} {
				row = append(row, strconv.FormatFloat(stats.Quantile(v, q), 'g', 6, 64))
			}
			rows = append(rows, row)
		}
	}
	_ = w.WriteAll(rows) // to memory
	return b.Bytes()
}

// machine describes where this runs.
func machine() string {
	text := fmt.Sprintf("%d CPUs, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	for _, file := range []struct{ name, pattern string }{{"/proc/cpuinfo", `model name\s*: (.*)`}, {"/proc/version", `version (\S+)`}} {
		data, _ := os.ReadFile(file.name)
		if m := regexp.MustCompile(file.pattern).FindSubmatch(data); m != nil {
			text += ", " + string(m[1])
		}
	}
	return text
}

// versions names the libraries that are installed.
func versions(ctx context.Context) string {
	var all []string
	for _, p := range peers {
		command := map[string][]string{"openmpi": {"mpirun.openmpi", "--version"}, "mpich": {"mpirun.mpich", "--version"}, "lam": {"laminfo"}}[p.name]
		out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output()
		if m := regexp.MustCompile(`\d+\.\d+[.\d]*`).Find(out); err == nil && m != nil {
			all = append(all, p.name+" "+string(m))
		}
	}
	return strings.Join(all, ", ")
}
