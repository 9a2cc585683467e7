package control

import (
	"fmt"
	"github.com/gorun-mpi/gorun/internal/storage/interval"
	"strings"
	"time"
)

// Interval tells how often a job is checkpointed, and the measurements by which this is chosen.
type Interval struct {
	Auto     bool          `json:"auto"`             // chosen by what is measured
	Every    time.Duration `json:"every"`            // between two checkpoints; 0: by hand only
	Points   int           `json:"points,omitempty"` // one at every so many Points, too; 0: no
	Measured int           `json:"measured"`         // checkpoints that Cost and Commit are the mean of; 0: none yet, the cost is assumed
	Cost     time.Duration `json:"cost"`             // that a checkpoint takes from the ranks
	Pause    time.Duration `json:"pause"`            // of Cost, for how long they stand; the rest they lose while it is written and copied
	Commit   time.Duration `json:"commit"`           // from when they go on until it counts
	Restart  time.Duration `json:"restart"`          // from a failure to all ranks up; 0: none was measured
	MTBF     time.Duration `json:"mtbf"`             // mean time between failures
	Given    bool          `json:"given"`            // MTBF, by -mtbf
	Failures int           `json:"failures"`         // so far
	Lost     float64       `json:"lost,omitempty"`   // share of the time, as expected; auto only

	Job     interval.Job `json:"job"`               // the same figures and those of all levels, as gorun plan takes them
	Assumed []string     `json:"assumed,omitempty"` // levels of Job of which nothing was measured yet: they count as the one that the ranks write
}

// String is the interval and its reasons in one line.
func (i *Interval) String() string {
	var b strings.Builder
	switch {
	case i.Every > 0 && i.Points > 0:
		fmt.Fprintf(&b, "%v, and every %d Points", round(i.Every), i.Points)
	case i.Every > 0:
		fmt.Fprintf(&b, "%v", round(i.Every))
	case i.Points > 0:
		fmt.Fprintf(&b, "%d Points", i.Points)
	default:
		b.WriteString("by hand")
	}
	if i.Auto {
		b.WriteString(" (auto)")
	}
	if i.Measured == 0 {
		b.WriteString(": what one costs is not measured yet")
	} else {
		fmt.Fprintf(&b, ": one costs the ranks %v (they stand %v) and counts %v later", round(i.Cost), round(i.Pause), round(i.Commit))
	}
	if i.Restart > 0 {
		fmt.Fprintf(&b, ", a restart takes %v", round(i.Restart))
	}
	if !i.Auto {
		return b.String()
	}
	if i.Given {
		fmt.Fprintf(&b, ", a failure comes every %v (-mtbf)", round(i.MTBF))
	} else {
		fmt.Fprintf(&b, ", a failure comes perhaps every %v (%d so far)", round(i.MTBF), i.Failures)
	}
	fmt.Fprintf(&b, ", %.2g %% of the time is lost", 100*i.Lost)
	return b.String()
}

// round leaves two or three digits that mean something.
func round(d time.Duration) time.Duration {
	unit := time.Microsecond
	for d >= 1000*unit && unit < time.Second {
		unit *= 10
	}
	return d.Round(unit)
}
