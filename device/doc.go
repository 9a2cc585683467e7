// Package device computes on accelerators, and on goroutines where there are none. Arrays know
// where their valid copies are, so a program never orders a transfer.
//
//	axpy := device.NewKernel(
//		device.Go("axpy", func(w device.Work, y, x []float64, a float64) {
//			for i, end := w.Range(0); i < end; i++ {
//				y[i] += a * x[i]
//			}
//		}))
//	d, err := device.Open("")
//	...
//	x, y := device.NewArray[float64](n), device.NewArray[float64](n)
//	e, err := d.Run(axpy, []int{n}, nil, y.InOut(), x.In(), 3.5)
//	...
//	_, err = e.Wait()
//	sum, err := y.Host() // fetched from the device
//
// # Arrays
//
// An Array has a copy in the memory of the program, the host's, and one on each device that uses
// it. Each copy is valid or stale, row by row. Run makes the kernel's inputs valid on its device,
// and marks its outputs stale elsewhere. Host fetches what is stale in the program's memory.
// Nothing else moves. Rows is a part of an array that shares its copies, such as the rows that a
// device computes, with those of its neighbours (a halo).
//
// Each part of an array that a kernel on a device is given has memory of its own there: the kernel finds its first
// row at index 0. Use the same parts again and again. Where parts overlap, rows that one has and another lacks are copied on the device.
//
// # Order
//
// A device works through its commands in order. So there is no graph of dependencies: what a call needs of earlier
// ones lies before it in the same order, or was fetched to the host.
//
// Every call works as if all calls before it were over: a kernel reads what those before it have written, on
// whichever device. Calls return before their kernels are over, though. Only where rows come from another device
// Run waits for them. A program that uses several devices therefore calls Fetch for all of them first, then Run, so that they
// compute at the same time. Several goroutines may use one array, each call as a whole.
//
// # Errors
//
// Run finds out kernels that do not compile, wrong numbers of arguments, and their types as far as
// a Go body tells those of the parameters. All else comes with the Event. A device whose kernel has
// failed does nothing more, and content that was valid only there is lost: its later Events have
// the same error, and so has Host. A restart from a checkpoint opens the device again.
//
// # Checkpoints
//
// cr.Register("x", x) makes an array part of portable images: at a Point where one is taken, and
// only there, what is stale on the host is fetched, after the kernels before. So each array is
// fetched once, and unregistered ones never. A restart may have other devices, more of them, or
// none but goroutines. Whole-process images hold what is in the process, kernels of cpu:0 included,
// at any instant. What OpenCL devices have is in them if these were opened under gorun and after
// mpi.Init: gorun pauses them for the image, and a restart gives the program others, on the same
// devices or on those of gorun restart -device.
//
// mpi.RequestOf makes an Event a request of mpi, for Waitall and its like. mpi's calls send and receive rows by what Host and
// HostW return.
//
// # What there is
//
// Devices are of three kinds. cpu:0 is always there: goroutines that run Go bodies (package device/cpu). opencl:0 and cuda:0 and so on are what
// vendors' libraries offer where the command gorun-device is found; they run bodies in OpenCL C and in CUDA C, in a process of their own
// (package device/opencl). A kernel with several bodies runs on either. Programs that choose nothing get what All
// opens: devices that have bodies for the kernels made so far, so make kernels in variables of packages. NVIDIA's GPUs are listed twice where its OpenCL is installed. The package needs neither gorun nor mpi.
//
// # Moving
//
// What a device has can be put on another one of the same library while the program runs: Migrate does it, SwapOut and SwapIn do it with a time between in which the
// device's memory is free. They are made of Pause, Capture, Snapshot.Wait, Restore and Resume. What the program asks for
// meanwhile waits. Users do the same from outside: gorun migrate -device, swap-out and swap-in. The process behind the ring is another one then; arrays, Events and the order of all are as before. A Snapshot is of
// use in the program that has taken it: to go on after a crash is what images are for.
//
// # Limits
//
// A whole-process image refuses a program that has opened an OpenCL device before mpi.Init, and waits for one that has paused it or swapped it out. Nothing is swapped
// unless the program or a user asks for it, or the job was started with gorun -devices share.
package device

import (
	"errors"

	"github.com/gorun-mpi/gorun/device/provider"
)

// Types that devices and programs have in common.
type (
	// Info describes a device.
	Info = provider.Info
	// Kind tells what a device is: "cpu", "gpu", "accelerator".
	Kind = provider.Kind
	// Times of a kernel: when it began and ended; zero if that was not measured.
	Times = provider.Times
	// Work is the part of a kernel's items that one call of a Go body computes.
	Work = provider.Work
	// BuildError is a kernel that does not compile, with the compiler's words.
	BuildError = provider.BuildError
)

// Errors of this package, for errors.Is.
var (
	ErrArgument = provider.ErrArgument
	ErrNoDevice = errors.New("no such device")
	ErrNoBody   = provider.ErrNoBody
	ErrMemory   = provider.ErrMemory
	ErrKernel   = provider.ErrKernel
	ErrLost     = provider.ErrLost
	ErrClosed   = provider.ErrClosed
)
