package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
)

// gorun status -metrics prints figures of a job in the text format of Prometheus, for a collector of text files or whatever runs commands. Names do not
// change; a figure that is not known is left out.

// metric is a figure of a job, or one for each of its levels or nodes.
type metric struct {
	name, kind, help string
	job              func(s *control.Status) (v float64, known bool)
	level            func(l *control.Level, now time.Time) (v float64, known bool)
}

// metrics are all there are.
var metrics = []metric{
	{name: "gorun_ranks", kind: "gauge", help: "Ranks of the job.", job: func(s *control.Status) (float64, bool) { return float64(s.NP), true }},
	{name: "gorun_age_seconds", kind: "gauge", help: "Since gorun was started.", job: func(s *control.Status) (float64, bool) { return time.Since(s.Started).Seconds(), !s.Started.IsZero() }},
	{name: "gorun_restarts_total", kind: "counter", help: "Lives of the job that were followed by another one.", job: func(s *control.Status) (float64, bool) { return float64(s.Restarts), true }},
	{name: "gorun_checkpoints_total", kind: "counter", help: "Checkpoints committed.", job: func(s *control.Status) (float64, bool) { return float64(s.Snapshots), s.CR != "" }},
	{name: "gorun_checkpoint_failures_total", kind: "counter", help: "Checkpoints that have failed.", job: func(s *control.Status) (float64, bool) { return float64(s.Failed), s.CR != "" }},
	{name: "gorun_checkpoint_failures_in_a_row", kind: "gauge", help: "Checkpoints that have failed since the newest that has not.", job: func(s *control.Status) (float64, bool) {
		if s.Failing == nil {
			return 0, s.CR != ""
		}
		return float64(s.Failing.Attempts), true
	}},
	{name: "gorun_without_snapshot_seconds", kind: "gauge", help: "Since the newest snapshot or, without one, the beginning, where checkpoints fail.", job: func(s *control.Status) (float64, bool) {
		if s.Failing == nil {
			return 0, false
		}
		return time.Since(s.Failing.Since).Seconds(), true
	}},
	ofInterval("gorun_checkpoint_cost_seconds", "What a checkpoint takes from the ranks, mean of the newest.", func(i *control.Interval) (time.Duration, bool) { return i.Cost, i.Measured > 0 }),
	ofInterval("gorun_checkpoint_pause_seconds", "For how much of that the ranks stand.", func(i *control.Interval) (time.Duration, bool) { return i.Pause, i.Measured > 0 }),
	ofInterval("gorun_checkpoint_commit_seconds", "From when the ranks go on until a checkpoint counts, mean of the newest.", func(i *control.Interval) (time.Duration, bool) { return i.Commit, i.Measured > 0 }),
	ofInterval("gorun_checkpoint_interval_seconds", "Between two checkpoints.", func(i *control.Interval) (time.Duration, bool) { return i.Every, i.Every > 0 }),
	ofInterval("gorun_restart_seconds", "From a failure to all ranks up, mean of the newest.", func(i *control.Interval) (time.Duration, bool) { return i.Restart, i.Restart > 0 }),

	ofLevel("gorun_level_commits_total", "counter", "Snapshots that the level got.", func(l *control.Level) (float64, bool) { return float64(l.Commits), true }),
	ofLevel("gorun_level_bytes_total", "counter", "Bytes of these.", func(l *control.Level) (float64, bool) { return float64(l.Stored), true }),
	ofLevel("gorun_level_failures_total", "counter", "Copies to the level that have failed.", func(l *control.Level) (float64, bool) { return float64(l.Failed), true }),
	ofLevel("gorun_level_commit_seconds", "gauge", "How long the newest took to be whole there.", func(l *control.Level) (float64, bool) { return l.Took.Seconds(), l.Took > 0 }),
	ofLevel("gorun_level_newest", "gauge", "Number of the newest snapshot that is whole there.", func(l *control.Level) (float64, bool) { return float64(l.Last), l.Last > 0 }),
	{name: "gorun_level_newest_age_seconds", kind: "gauge", help: "Since that is whole.", level: func(l *control.Level, now time.Time) (float64, bool) { return now.Sub(l.At).Seconds(), l.Last > 0 }},
	ofLevel("gorun_level_behind", "gauge", "So many snapshots were taken since the one that the level has.", func(l *control.Level) (float64, bool) { return float64(l.Behind), l.Last > 0 }),
	ofLevel("gorun_level_missing_copies", "gauge", "Images, replicas and shards that the newest snapshot there should have and does not.", func(l *control.Level) (float64, bool) { return float64(l.Missing), true }),
	ofLevel("gorun_level_interval_seconds", "gauge", "Between two snapshots there; 0: it is not worth while.", func(l *control.Level) (float64, bool) { return l.Every.Seconds(), true }),
}

func ofInterval(name, help string, f func(*control.Interval) (time.Duration, bool)) metric {
	return metric{name: name, kind: "gauge", help: help, job: func(s *control.Status) (float64, bool) {
		if s.Interval == nil {
			return 0, false
		}
		d, known := f(s.Interval)
		return d.Seconds(), known
	}}
}

func ofLevel(name, kind, help string, f func(*control.Level) (float64, bool)) metric {
	return metric{name: name, kind: kind, help: help, level: func(l *control.Level, _ time.Time) (float64, bool) { return f(l) }}
}

// printMetrics prints those of a job that are known.
func printMetrics(w io.Writer, s *control.Status, now time.Time) error {
	var b strings.Builder
	for _, m := range metrics {
		var lines []string
		line := func(v float64, known bool, labels ...string) {
			if known {
				lines = append(lines, fmt.Sprintf("%s{%s} %s\n", m.name, strings.Join(labels, ","), strconv.FormatFloat(v, 'g', -1, 64)))
			}
		}
		job := label("job", s.Job)
		if m.job != nil {
			v, known := m.job(s)
			line(v, known, job)
		}
		for i := range s.Levels {
			if m.level != nil {
				v, known := m.level(&s.Levels[i], now)
				line(v, known, job, label("level", s.Levels[i].Name))
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s", m.name, m.help, m.name, m.kind, strings.Join(lines, ""))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// label is a name and a value, in which the format wants three characters escaped.
func label(name, value string) string {
	return name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}
