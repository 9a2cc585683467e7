package shm

import (
	"github.com/gorun-mpi/gorun/rpi"
)

// Parameters lists what can be set, for `gorun info`.
func Parameters() []rpi.Parameter {
	return []rpi.Parameter{
		{Name: "shm.eager", Default: "65536", Doc: "largest message sent without an announcement, bytes"},
		{Name: "shm.direct", Default: "0", Doc: "smallest message copied by the kernel from process to process (process_vm_readv, process_vm_writev) rather than through shared memory, bytes; 0: none, the faster choice wherever it was measured"},
	}
}

// params are the parameters, parsed.
type params struct {
	eager, direct int
}

// CheckParams says what is wrong with the shm.* entries of a job's parameters, nil
// if nothing is.
func CheckParams(given map[string]string) error {
	_, err := parseParams(given)
	return err
}

// parseParams reads the shm.* entries over the defaults.
func parseParams(given map[string]string) (params, error) {
	s := rpi.NewSettings("shm", Parameters(), given)
	return params{
		eager:  s.Number("shm.eager", 0, rpi.MaxFrame),
		direct: s.Number("shm.direct", 0, 1<<30),
	}, s.Err()
}
