package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// interval asks a job how often it is checkpointed, and checks that this follows from what it has measured.
func (h *house) interval(id string) *control.Interval {
	h.t.Helper()
	var s control.Status
	if err := json.Unmarshal([]byte(h.must("status", "-json", id)), &s); err != nil {
		h.t.Fatal(err)
	}
	i := s.Interval
	best := math.Sqrt(2 * i.Cost.Seconds() * i.MTBF.Seconds())
	if want := max(best, (i.Pause + i.Commit).Seconds(), .02); math.Abs(i.Every.Seconds()-want) > 1e-6 || !i.Auto {
		h.t.Fatalf("every %v, want %v s: %+v", i.Every, want, i)
	}
	return i
}

// With -ckpt-every auto the interval follows what checkpoints cost.
func TestAutoInterval(t *testing.T) {
	h := newHouse(t)
	file, jobid := filepath.Join(t.TempDir(), "costly"), filepath.Join(t.TempDir(), "id")
	p := h.start("", "-np", "3", "-cr=self", "-keep", "2", "-jobid-file", jobid, "-ckpt-every", "auto", "-mtbf", "100ms", "-v", self(t), asRank, "costly", file, fmt.Sprint(limit))
	id := h.jobID(p, jobid)
	testenv.Until(t, func() string {
		if i := h.interval(id); i.Measured < 3 || !i.Given || i.MTBF != 100*time.Millisecond {
			return fmt.Sprintf("%+v", i)
		}
		return ""
	})
	if err := os.WriteFile(file, []byte("200ms"), 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, func() string {
		if i := h.interval(id); i.Cost < 150*time.Millisecond {
			return fmt.Sprintf("%+v", i)
		}
		return ""
	})
	p.err.wait(t, "a checkpoint every ", 1)
	if out := h.must("status", id); !strings.Contains(out, "(auto): one costs the ranks ") || !strings.Contains(out, "a failure comes every 100ms (-mtbf)") {
		t.Error(out)
	}
	h.must("kill", id)
	p.code()
	h.nothingLeft()
}

// Without -mtbf failures are counted, restarts measured, and gorun plan works with that. A restart by hand takes over that the
// interval is chosen. Without -keep two snapshots are left of all that are taken.
func TestAutoFailures(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-ckpt-every", "auto", "-restarts", "1")
	p.err.wait(t, "the newest 2 snapshots are kept", 1)
	testenv.Until(t, func() string {
		if i := h.interval(id); i.Measured == 0 || i.Given || i.Failures != 0 {
			return fmt.Sprintf("%+v", i)
		}
		return ""
	})
	before := h.interval(id)
	_, ranks := p.family()
	syscall.Kill(ranks[1], syscall.SIGKILL)
	testenv.Until(t, func() string { // a question that meets the restart is refused
		out, errs, _ := h.ask("status", id)
		if !strings.Contains(strings.Join(strings.Fields(out), " "), "restarts: 1 ") || strings.Count(out, ": running") != 3 {
			return out + errs
		}
		return ""
	})
	testenv.Until(t, func() string {
		if i := h.interval(id); i.Failures != 1 || i.Restart == 0 {
			return fmt.Sprintf("%+v", i)
		}
		return ""
	})
	if i := h.interval(id); before.Restart != 0 || i.Restart > time.Minute {
		t.Errorf("before %+v, then %+v", before, i)
	}
	if out := h.must("plan", "-mtbf", "1h", "-count", "100", id); !strings.Contains(out, "a failure every 1h\n") || !strings.Contains(out, "efficiency 0.") || !strings.Contains(out, "snapshots  all") {
		t.Error(out)
	}
	h.must("checkpoint", "-stop", id)
	p.code()
	if n := strings.Count(h.must("snapshots", id), "\n") - 1; n < 2 || n > 3 { // the last one was asked for
		t.Errorf("%d snapshots are left:\n%s", n, h.must("snapshots", id))
	}
	jobid := filepath.Join(t.TempDir(), "id")
	p = h.start("", "restart", "-jobid-file", jobid, id)
	if i := h.interval(h.jobID(p, jobid)); i.Failures != 0 || i.Restart != 0 {
		t.Errorf("restarted by hand: %+v", i)
	}
	h.must("kill", id)
	p.code()
	h.nothingLeft()
}

// The plan of the manual's example.
func TestPlan(t *testing.T) {
	levels := []string{"-mtbf", "6h", "-nodes", "1000", "-pause", "1.9s", "-level", "mem=2.5s,32s,28s,node", "-level", "rs=5s,45s,60s,nodes", "-level", "pfs=8s,256s,280s"}
	out, errs, code := say(append([]string{"plan"}, levels...)...)
	if code != 0 {
		t.Fatal(errs)
	}
	for _, want := range []string{"on each of 1000 nodes every 250 days", "mem    node      4.4s", "8m7s\n", "not worth while\n", "24m22s\n", "efficiency 0.96", "\n16000 ", "|*", "-----"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _, _ = say(append([]string{"plan", "-json", "-count", "100"}, levels...)...)
	var o struct {
		Efficiency float64
		Plan       struct{ Steps []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(out), &o); err != nil || o.Efficiency < .9 || len(o.Plan.Steps) != 2 || o.Plan.Steps[1].Name != "pfs" {
		t.Errorf("%v: %s", err, out)
	}
}

// The command gives what its simulator's table (internal/storage/interval) has of a large job: failures are noticed after 3 s.
func TestPlanTable(t *testing.T) {
	const mem, rs, pfs, s3 = "mem=2.5s,32s,28s,node", "rs=5s,45s,60s,nodes", "pfs=8s,256s,280s", "s3=8s,512s,560s"
	for _, c := range []struct {
		levels []string
		want   [4]float64
	}{
		{[]string{pfs}, [4]float64{.9788, .9460, .7985, .4581}},
		{[]string{mem, pfs}, [4]float64{.9831, .9627, .8853, .7002}},
		{[]string{mem, rs, pfs}, [4]float64{.9826, .9627, .8929, .7391}},
		{[]string{mem, s3}, [4]float64{.9818, .9578, .8559, .5452}},
	} {
		for i, mtbf := range []string{"24h", "6h", "1h", "15m"} {
			args := []string{"plan", "-json", "-detect", "3s", "-pause", "1.9s", "-mtbf", mtbf}
			for _, l := range c.levels {
				args = append(args, "-level", l)
			}
			out, errs, _ := say(args...)
			var o struct{ Efficiency float64 }
			if err := json.Unmarshal([]byte(out), &o); err != nil || math.Abs(o.Efficiency-c.want[i]) > .01 {
				t.Errorf("%v, a failure in %s: %v, efficiency %.4f, the table has %.4f %s", c.levels, mtbf, err, o.Efficiency, c.want[i], errs)
			}
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	run := newHouse(t).run // without the jobs of who runs the tests
	t.Setenv("XDG_RUNTIME_DIR", run)
	t.Setenv("GORUN_REALM", run)
	for want, args := range map[string][]string{
		"-level needs -mtbf":         {"-level", "a=1s,1s,1s"},
		"not both":                   {"-mtbf", "1h", "-level", "a=1s,1s,1s", "job"},
		"write NAME=COST":            {"-level", "a=1s"},
		"no scope of failures":       {"-level", "a=1s,1s,1s,planet"},
		"a duration has a unit":      {"-level", "a=1,1s,1s"},
		"not 100":                    {"-failures", "process=50"},
		"a number from 0 to 100":     {"-failures", "process=x"},
		"costs nothing":              {"-mtbf", "1h", "-level", "a=0s,1s,1s"},
		"no level survives failures": {"-mtbf", "1h", "-level", "a=1s,1s,1s,node"},
		"two levels are called a":    {"-mtbf", "1h", "-level", "a=1s,1s,1s", "-level", "a=1s,1s,1s"},
		"-shape 20":                  {"-shape", "20", "-mtbf", "1h", "-level", "a=1s,1s,1s"},
		"-count 0":                   {"-count", "0", "-mtbf", "1h", "-level", "a=1s,1s,1s"},
		"no job":                     {"-mtbf", "1h", "ffffffff"},
	} {
		if _, errs, code := say(append([]string{"plan"}, args...)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
	for want, args := range map[string][]string{
		"-mtbf goes with -ckpt-every auto": {"-cr", "-mtbf", "1h", "ls"},
		"-mtbf needs -cr":                  {"-mtbf", "1h", "ls"},
	} {
		if _, errs, code := say(args...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
}
