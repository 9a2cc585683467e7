package control

import (
	"fmt"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// A Report is the outcome of a checkpoint.
type Report struct {
	Schema   rawstring.String `json:"schema"`
	Sequence int              `json:"sequence"`
	Backend  string           `json:"backend"`
	Ranks    int              `json:"ranks"`
	Base     int              `json:"base,omitempty"`  // the snapshot it builds on; 0: it is full
	Bytes    int64            `json:"bytes"`           // of all images
	Memory   uint64           `json:"memory"`          // of the ranks, as far as it is in the images
	Pause    time.Duration    `json:"pause,omitempty"` // the longest for which a rank stood still to be copied
	Gate     time.Duration    `json:"gate"`            // time during which no message could be sent
	Took     time.Duration    `json:"took"`            // from the request to the commit
	Notes    []string         `json:"notes,omitempty"` // what the user ought to know
}

// String is the report in one line, without what Notes says.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "snapshot %d: %s, %d ranks, %.1f MB", r.Sequence, r.Backend, r.Ranks, float64(r.Bytes)/1e6)
	if r.Base > 0 {
		fmt.Fprintf(&b, " beside snapshot %d", r.Base)
	}
	if r.Pause > 0 {
		fmt.Fprintf(&b, ", a rank stood still for at most %v", r.Pause.Round(10*time.Microsecond))
	}
	fmt.Fprintf(&b, ", no messages for %v, committed after %v", r.Gate.Round(10*time.Microsecond), r.Took.Round(time.Millisecond))
	return b.String()
}
