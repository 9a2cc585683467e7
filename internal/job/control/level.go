package control

import (
	"fmt"
	"strings"
	"time"
)

// Level is one place for snapshots of a job that has several.
type Level struct {
	Name    string        `json:"name"`
	Where   string        `json:"where"`
	Every   time.Duration `json:"every"`             // 0: a copy here is not worth its cost
	Auto    bool          `json:"auto,omitempty"`    // Every is chosen by what is measured
	Last    int           `json:"last,omitempty"`    // the newest snapshot that is there; 0: none yet
	At      time.Time     `json:"at,omitzero"`       // when it was there
	Next    time.Time     `json:"next,omitzero"`     // when the next copy is to begin; not of the level that the ranks write
	Behind  int           `json:"behind,omitempty"`  // number of snapshots taken since the one that the level has
	Took    time.Duration `json:"took,omitempty"`    // the newest copy
	Copying bool          `json:"copying,omitempty"` // now
	Bytes   int64         `json:"bytes,omitempty"`   // of that copy, done
	Commits int           `json:"commits,omitempty"` // snapshots that it got from this gorun
	Stored  int64         `json:"stored,omitempty"`  // their bytes
	Failed  int           `json:"failed,omitempty"`  // copies that have failed
	Missing int           `json:"missing,omitempty"` // images, replicas and shards that the newest there lacks
	Err     string        `json:"error,omitempty"`   // why the last copy has failed; it is tried again
}

// String is the level in one line.
func (l *Level) String() string {
	var b strings.Builder
	switch {
	case l.Every == 0:
		fmt.Fprintf(&b, "%s not worth while (auto), %s: ", l.Name, l.Where)
	case l.Auto:
		fmt.Fprintf(&b, "%s every %v (auto), %s: ", l.Name, round(l.Every), l.Where)
	default:
		fmt.Fprintf(&b, "%s every %v, %s: ", l.Name, l.Every, l.Where)
	}
	if l.Last == 0 {
		b.WriteString("no snapshot yet")
	} else {
		fmt.Fprintf(&b, "snapshot %d, %v ago", l.Last, time.Since(l.At).Round(time.Second))
	}
	if l.Copying {
		fmt.Fprintf(&b, ", the next is being copied, %.1f MB so far", float64(l.Bytes)/1e6)
	} else if !l.Next.IsZero() && l.Every > 0 {
		fmt.Fprintf(&b, ", the next in %v", max(0, time.Until(l.Next)).Round(time.Second))
	}
	if l.Err != "" {
		fmt.Fprintf(&b, "; LESS PROTECTION than asked for: %s", l.Err)
	}
	return b.String()
}
