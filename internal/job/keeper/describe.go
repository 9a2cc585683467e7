package keeper

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/protect"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
	"github.com/gorun-mpi/gorun/launcher"
)

// Describe describes the node on which this process runs.
func Describe() (*wire.NodeInfo, error) {
	self, err := launcher.Self()
	if err != nil {
		return nil, err
	}
	machine, err := procfs.BootID()
	if err != nil {
		return nil, fmt.Errorf("which machine this is: %w", err)
	}
	n := &wire.NodeInfo{
		Host: wire.Hostname(), Machine: machine, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		Version: launcher.Version, Digest: self.Digest,
		Rack: protect.SlurmRack(os.Getenv("SLURM_TOPOLOGY_ADDR"), os.Getenv("SLURM_TOPOLOGY_ADDR_PATTERN")),
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		n.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	for _, ns := range []string{"pid", "net"} {
		link, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			return nil, fmt.Errorf("which machine this is: %w", err)
		}
		n.Space += link + " "
	}
	n.Space += fmt.Sprint("uid ", os.Getuid())
	prefixes, err := rendezvous.Addresses()
	if err != nil {
		return nil, err
	}
	for _, p := range prefixes {
		n.Addresses = append(n.Addresses, p.String())
	}
	return n, nil
}
