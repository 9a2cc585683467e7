//go:build !amd64

package native

import (
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
)

// Where there is no code for the architecture, everything says so.

// Supported says why processes cannot be imaged on this machine.
func Supported() error { return errArch }

// Features lists nothing.
func Features() []Feature { return nil }

// Target is a process that may be imaged.
type Target struct{}

// Attach fails.
func (t *Tracer) Attach(pid, rank, oob int, std [3]int) (*Target, error) {
	return nil, &Error{Op: "attach", Rank: rank, PID: pid, Err: errArch}
}

// Close does nothing.
func (g *Target) Close() error { return nil }

// Committed does nothing.
func (g *Target) Committed(seq int) {}

// Capture fails.
func (g *Target) Capture(CaptureOptions) (*Copy, error) { return nil, errArch }

// Copy is a captured process.
type Copy struct{}

// PID is 0.
func (c *Copy) PID() int { return 0 }

// Bytes is 0.
func (c *Copy) Bytes() uint64 { return 0 }

// Pause is 0.
func (c *Copy) Pause() time.Duration { return 0 }

// Base is 0.
func (c *Copy) Base() int { return 0 }

// Note is empty.
func (c *Copy) Note() string { return "" }

// Write fails.
func (c *Copy) Write(string, image.Meta, image.Options) (image.Summary, error) {
	return image.Summary{}, errArch
}

// Release does nothing.
func (c *Copy) Release() error { return nil }
