package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
)

// The format: https://prometheus.io/docs/instrumenting/exposition_formats, text.
var (
	sample  = regexp.MustCompile(`^([a-z_]+)\{[a-z]+="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-z]+="(?:[^"\\\n]|\\[\\"n])*")*\} -?[0-9.]+(?:e[+-][0-9]+)?$`)
	comment = regexp.MustCompile(`^# (?:HELP ([a-z_]+) .+|TYPE ([a-z_]+) (?:counter|gauge))$`)
)

func TestMetrics(t *testing.T) {
	now := time.Unix(5000, 0)
	s := &control.Status{Job: "a\"\\\nb", NP: 4, CR: "native", Started: time.Now(), Restarts: 2, Snapshots: 7,
		Interval: &control.Interval{Every: 10 * time.Second, Measured: 3, Cost: 50 * time.Millisecond, Pause: 10 * time.Millisecond, Commit: time.Second},
		Levels: []control.Level{
			{Name: "mem", Every: 10 * time.Second, Last: 7, At: now.Add(-3 * time.Second), Commits: 7, Stored: 7e9, Took: 1500 * time.Millisecond, Missing: 2},
			{Name: "dir", Every: time.Minute, Failed: 1},
		}}
	var b strings.Builder
	if err := printMetrics(&b, s, now); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`gorun_restarts_total{job="a\"\\\nb"} 2`, `gorun_checkpoint_cost_seconds{job="a\"\\\nb"} 0.05`,
		`level="mem"} 7e+09`, `gorun_level_commit_seconds{job="a\"\\\nb",level="mem"} 1.5`, `gorun_level_newest_age_seconds{job="a\"\\\nb",level="mem"} 3`,
		`gorun_level_missing_copies{job="a\"\\\nb",level="mem"} 2`, `gorun_level_failures_total{job="a\"\\\nb",level="dir"} 1`,
	} {
		if !strings.Contains(b.String(), want+"\n") {
			t.Errorf("no %s in\n%s", want, &b)
		}
	}
	for _, not := range []string{"gorun_restart_seconds", `gorun_level_newest{job="a\"\\\nb",level="dir"}`} { // not known
		if strings.Contains(b.String(), not) {
			t.Errorf("there is %s", not)
		}
	}
	// All samples of a name come together, behind its comments.
	var name string
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		if m := comment.FindStringSubmatch(line); m != nil {
			if name = m[1] + m[2]; m[1] != "" && seen[name] {
				t.Errorf("%s comes twice", name)
			}
			seen[name] = true
		} else if m := sample.FindStringSubmatch(line); m == nil || m[1] != name {
			t.Errorf("%q is not of the format, or not of %s", line, name)
		}
	}
}
