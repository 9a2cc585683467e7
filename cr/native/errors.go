package native

import (
	"fmt"
	"runtime"

	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/restore"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// Reasons, for errors.Is.
var (
	// ErrUnsupported: processes cannot be imaged on this machine.
	ErrUnsupported = refusal.ErrUnsupported
	// ErrRefused: the program cannot be imaged as it is now; the error tells what stands
	// against it and what to do. It has not been disturbed.
	ErrRefused = refusal.ErrRefused
	// ErrBusy: a thread could not be brought to stand at a place from which it could go on
	// elsewhere. Another attempt may succeed.
	ErrBusy = trace.ErrBusy
	// ErrHost: this machine lacks what the image needs.
	ErrHost = state.ErrHost
	// ErrImage: an image does not hold a process that can be restored. It was damaged or
	// forged in spite of its checksums.
	ErrImage = state.ErrImage
	// ErrProgram: the executable is not the one that was imaged.
	ErrProgram = restore.ErrProgram
	// ErrFiles: a file that the program had open cannot be had again as it was.
	ErrFiles = restore.ErrFiles
)

// errArch is the reason where the architecture has no code here.
var errArch = fmt.Errorf("%w: native images are made on linux/amd64 only, this is %s/%s (use -cr=self)",
	ErrUnsupported, runtime.GOOS, runtime.GOARCH)
