package cli

import (
	"flag"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/internal/offload"
)

var devicesCommand = command{
	name: "devices", short: "list the devices of this machine",
	long: `
The IDs are those of GORUN_DEVICE and device.Open. cpu:0, goroutines, is always there. The others are what gorun-device
lists, which lies beside gorun or in PATH; without it there are none. Install it from a checkout of gorun:

    cd gorun/cmd/gorun-device && go install .

The exit status is 1 if some kind of devices could not be listed.`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		asJSON := fs.Bool("json", false, "print a JSON array with everything that is known")
		return func(args []string) int {
			if len(args) > 0 {
				return usage(std, "devices takes no arguments")
			}
			return failed(std, devices(std, *asJSON))
		}
	},
}

// devices prints what can be listed, and returns what could not.
func devices(std stdio, asJSON bool) error {
	infos, missing := device.List()
	if asJSON {
		if err := printJSON(std, infos); err != nil {
			return err
		}
		return missing
	}
	w := tabwriter.NewWriter(std.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tKIND\tUNITS\tMIB\tFLOAT64\tNAME\tPLATFORM")
	for _, d := range infos {
		double := "no"
		if d.Double {
			double = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", d.ID, printable(string(d.Kind)), d.Units, d.Memory>>20, double, printable(d.Name), printable(d.Platform))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if missing == nil && len(infos) == 1 {
		fmt.Fprintln(std.err, "gorun: only goroutines are here: "+lacking())
	}
	return missing
}

// lacking says what accelerators need that is not here, and where it comes from.
func lacking() string {
	self, _ := os.Executable()
	libraries := "OpenCL with a driver (Debian: apt install ocl-icd-libopencl1 pocl-opencl-icd) or NVIDIA's driver"
	if path, err := offload.Server(os.Getenv(offload.EnvServer), os.Getenv("PATH"), self); err == nil {
		return path + " finds no device of another kind; it needs " + libraries
	}
	return "accelerators need gorun-device beside gorun, in PATH, or at " + offload.EnvServer + ", which is not there\n" +
		"       (in a checkout of gorun: go -C cmd/gorun-device install .), and it needs " + libraries
}
