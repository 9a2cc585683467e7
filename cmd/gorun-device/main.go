// Gorun-device drives accelerators for programs of gorun: it is the offload process, one for each rank and
// device. A vendor's library lives here and never in a rank, so a rank stays a static Go program that can
// be imaged, and a kernel that goes wrong ends this process and not the rank. Without cgo, it loads OpenCL and
// CUDA when it starts, as far as they are there. (CUDA was not tried on a GPU yet: see package internal/cuda.)
//
//	gorun-device list                              the devices of this machine, as JSON
//	gorun-device smoke [-device N]                 tries a device: right results, times in process and through a process
//	gorun-device serve -device N [-restore FILE] [-share] [-room BYTES]
//	                                               the offload process; a rank starts it: descriptor 3 is its end of a
//	                                               socket, 4 the shared file (package internal/offload). With -share it
//	                                               asks before it uses more of the device's memory than BYTES
//
// GORUN_DEVICE_MEMORY limits the memory of each device, in bytes.
//
// The module takes gorun from the folders around it, so it is installed from a checkout:
//
//	git clone https://github.com/gorun-mpi/gorun
//	cd gorun/cmd/gorun-device && go install .
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/server"
	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/smoke"
	opencldevice "github.com/gorun-mpi/gorun/device/opencl"
	"github.com/gorun-mpi/gorun/internal/offload"
)

const usage = `usage: gorun-device list
       gorun-device smoke [-device N]
       gorun-device serve -device N [-restore FILE] [-share] [-room BYTES]`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gorun-device:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command\n%s", usage)
	}
	switch args[0] {
	case "list":
		return list(out)
	case "smoke":
		return try(args[1:], out)
	case "serve":
		return serve(args[1:])
	}
	return fmt.Errorf("no command %q\n%s", args[0], usage)
}

// parse reads the flags of a command.
func parse(command string, args []string) (device int, opt server.Options, err error) {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.IntVar(&device, "device", 0, "number of the device in the list")
	if command == "serve" {
		flags.StringVar(&opt.Restore, "restore", "", "capture that the device begins with")
		flags.BoolVar(&opt.Share, "share", false, "ask for memory")
		flags.Int64Var(&opt.Room, "room", 0, "bytes that it need not ask for")
	}
	if err := flags.Parse(args); err != nil {
		return 0, opt, fmt.Errorf("%w\n%s", err, usage)
	}
	return device, opt, nil
}

// list prints the devices as a JSON array. The place of each, from 0, is its number.
func list(out io.Writer) error {
	devices, err := find()
	if err != nil && len(devices) == 0 {
		return err
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, offload.Complaint+err.Error())
	}
	infos := []offload.Info{}
	for _, d := range devices {
		infos = append(infos, d.info)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "\t")
	return e.Encode(infos)
}

// try tries a device in this process and through another.
func try(args []string, out io.Writer) error {
	number, _, err := parse("smoke", args)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if os.Getenv("GORUN_DEVICE_SERVER") == "" { // else one that is bound to a CPU, say
		os.Setenv("GORUN_DEVICE_SERVER", self)
	}
	runtime.LockOSThread() // a Queue belongs to a thread
	q, info, err := open(number)
	if err != nil {
		return err
	}
	defer q.Close()
	fmt.Fprintf(out, "device %d: %s, %s, %s\n", number, info.Name, info.Platform, info.Version)
	d, err := opencldevice.Provider{Library: info.Library}.Open(info.Number)
	if err != nil {
		return err
	}
	return errors.Join(smoke.Run(q, d, info.Library, out), d.Close())
}
