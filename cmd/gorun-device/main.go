// Gorun-device drives accelerators for programs of gorun: it is the offload process, one for each rank and
// device. A vendor's library lives here and never in a rank, so a rank stays a static Go program that can
// be imaged, and a kernel that goes wrong ends this process and not the rank. Without cgo, it loads OpenCL when
// it starts.
//
//	gorun-device list                              the devices of this machine, as JSON
//	gorun-device smoke [-device N]                 tries a device: right results, times in process and through a process
//	gorun-device serve -device N [-restore FILE]   the offload process; a rank starts it: descriptor 3 is its end of a
//	                                               socket, 4 the shared file (package internal/offload)
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

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/opencl"
	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/smoke"
	opencldevice "github.com/gorun-mpi/gorun/device/opencl"
	"github.com/gorun-mpi/gorun/internal/offload"
)

const usage = `usage: gorun-device list
       gorun-device smoke [-device N]
       gorun-device serve -device N [-restore FILE]`

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
func parse(command string, args []string) (device int, restore string, err error) {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.IntVar(&device, "device", 0, "number of the device in the list")
	if command == "serve" {
		flags.StringVar(&restore, "restore", "", "capture that the device begins with")
	}
	if err := flags.Parse(args); err != nil {
		return 0, "", fmt.Errorf("%w\n%s", err, usage)
	}
	return device, restore, nil
}

// list prints the devices as a JSON array. The place of each, from 0, is its number.
func list(out io.Writer) error {
	devices, err := find()
	if err != nil {
		return err
	}
	infos := []offload.Info{}
	for _, d := range devices {
		infos = append(infos, d.Info())
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
	os.Setenv("GORUN_DEVICE_SERVER", self)
	q, info, err := open(number)
	if err != nil {
		return err
	}
	defer q.Close()
	fmt.Fprintf(out, "device %d: %s, %s, %s\n", number, info.Name, info.Platform, info.Version)
	d, err := opencldevice.Provider{}.Open(number)
	if err != nil {
		return err
	}
	return errors.Join(smoke.Run(q, d, out), d.Close())
}

// find returns all devices of this machine.
func find() ([]driver.Device, error) {
	l, err := opencl.Load(opencl.Options{})
	if err != nil {
		return nil, err
	}
	return l.Devices()
}
