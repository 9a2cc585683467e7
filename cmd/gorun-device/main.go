// Gorun-device drives accelerators for programs of gorun: it is the offload process, one for each rank and
// device. A vendor's library lives here and never in a rank, so a rank stays a static Go program that can
// be imaged, and a kernel that goes wrong ends this process and not the rank. Without cgo, it loads OpenCL and
// CUDA when it starts, as far as they are there.
//
//	gorun-device list                              the devices of this machine, as JSON
//	gorun-device smoke [-device ID] [-moves MB,...] tries a device: right results, times in process and through a process;
//	                                               with -moves, times of pauses, captures and swaps of so many MB
//	gorun-device serve -device ID [-restore FILE] [-share] [-room BYTES]
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
	"strconv"
	"strings"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/smoke"
	opencldevice "github.com/gorun-mpi/gorun/device/opencl"
	"github.com/gorun-mpi/gorun/device/provider"
	"github.com/gorun-mpi/gorun/internal/offload"
)

const usage = `usage: gorun-device list
       gorun-device smoke [-device ID] [-moves MB,...]
       gorun-device serve -device ID [-restore FILE] [-share] [-room BYTES]`

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

// flagsOf are the flags of a command, with that for the ID of the device.
func flagsOf(command string) (flags *flag.FlagSet, device *string) {
	flags = flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags, flags.String("device", "", "ID of the device")
}

func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w\n%s", err, usage)
	}
	return nil
}

// list prints the devices as a JSON array.
func list(out io.Writer) error {
	devices, err := find("")
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
	flags, id := flagsOf("smoke")
	var sizes []int
	flags.Func("moves", "MB of arrays", func(s string) error {
		for word := range strings.SplitSeq(s, ",") {
			mb, err := strconv.Atoi(word)
			if err != nil || mb < smoke.Least || mb > 1<<20 {
				return fmt.Errorf("%q is no number of MB from %d", word, smoke.Least)
			}
			sizes = append(sizes, mb<<20)
		}
		return nil
	})
	if err := parse(flags, args); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if os.Getenv("GORUN_DEVICE_SERVER") == "" { // else one that is bound to a CPU, say
		os.Setenv("GORUN_DEVICE_SERVER", self)
	}
	if *id == "" {
		all, err := find("")
		if len(all) == 0 {
			return errors.Join(err, errors.New("there is no device"))
		}
		*id = all[0].info.ID()
	}
	runtime.LockOSThread() // a Queue belongs to a thread
	q, info, err := open(*id)
	if err != nil {
		return err
	}
	defer q.Close()
	fmt.Fprintf(out, "device %s: %s, %s, %s\n", *id, info.Name, info.Platform, info.Version)
	d, err := opencldevice.Provider{Library: info.Library}.Open(info.Number)
	if err != nil {
		return err
	}
	return errors.Join(tryBoth(q, info.Library, d, sizes, out), d.Close())
}

// tryBoth tries a device that both q, in this process, and d are.
func tryBoth(q driver.Queue, library string, d provider.Device, sizes []int, out io.Writer) error {
	here, err := smoke.NewInProcess(q, library)
	if err != nil {
		return err
	}
	if err := smoke.Run(here, d, out); err != nil || len(sizes) == 0 {
		return err
	}
	dir, err := os.MkdirTemp("", "gorun-device-smoke")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return smoke.Moves(here, d.(provider.Mover), sizes, dir, out)
}
