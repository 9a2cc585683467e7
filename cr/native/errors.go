package native

import (
	"fmt"
	"runtime"

	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// Reasons, for errors.Is.
var (
	// ErrUnsupported: processes cannot be imaged on this machine.
	ErrUnsupported = refusal.ErrUnsupported
	// ErrRefused: the program cannot be imaged as it is now; the error tells what stands
	// against it and what to do. It has not been disturbed.
	ErrRefused = refusal.ErrRefused
	// ErrHost: this machine lacks what the image needs.
	ErrHost = state.ErrHost
	// ErrImage: an image does not hold a process that can be restored. It was damaged or
	// forged in spite of its checksums.
	ErrImage = state.ErrImage
)

// errArch is the reason where the architecture has no code here.
var errArch = fmt.Errorf("%w: native images are made on linux/amd64 only, this is %s/%s (use -cr=self)",
	ErrUnsupported, runtime.GOOS, runtime.GOARCH)
