package shm

import (
	"github.com/gorun-mpi/gorun/rpi"
)

// Parameters lists the parameters of this transport, for `gorun info`.
func Parameters() []rpi.Parameter {
	return []rpi.Parameter{
		{Name: "shm.eager", Default: "65536", Doc: "largest message sent without an announcement, bytes"},
		{Name: "shm.direct", Default: "-1", Doc: "smallest message copied by the kernel from process to process (process_vm_readv, process_vm_writev) rather than through shared memory, bytes; 0: none; -1: 131072, while that is faster: where two ranks are seen to have no cache in common"},
	}
}

// Values of shm.direct that are not a number of bytes.
const (
	directNever = 0
	directApart = -1
)

// params are the parameters, parsed.
type params struct {
	eager, direct int
}

// CheckParams returns an error if the shm.* entries of a job's parameters are
// invalid.
func CheckParams(given map[string]string) error {
	_, err := parseParams(given)
	return err
}

// parseParams reads the shm.* entries over the defaults.
func parseParams(given map[string]string) (params, error) {
	s := rpi.NewSettings("shm", Parameters(), given)
	return params{
		eager:  s.Number("shm.eager", 0, rpi.MaxFrame),
		direct: s.Number("shm.direct", directApart, 1<<30),
	}, s.Err()
}
