package control

import (
	"fmt"
	"time"
)

// Failing says that checkpoints have failed since the last successful one.
type Failing struct {
	Attempts int       `json:"attempts"`
	Why      string    `json:"why"`            // of the newest
	Since    time.Time `json:"since"`          // time of the newest snapshot; if there is none, of the job's beginning
	Until    time.Time `json:"until,omitzero"` // the job has ended; zero: it has not
}

// String is it in one line.
func (f *Failing) String() string {
	what := "the last attempt failed"
	if f.Attempts > 1 {
		what = fmt.Sprintf("the last %d attempts failed", f.Attempts)
	}
	until := f.Until
	if until.IsZero() {
		until = time.Now()
	}
	return fmt.Sprintf("%s: %s; no snapshot for %.0f s", what, f.Why, until.Sub(f.Since).Seconds())
}
