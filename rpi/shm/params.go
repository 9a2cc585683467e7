package shm

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

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

// parseParams reads the shm.* entries over the defaults. A misspelt name is an
// error: a parameter that silently does nothing costs somebody a day.
func parseParams(given map[string]string) (params, error) {
	values := map[string]string{}
	for _, p := range Parameters() {
		values[p.Name] = p.Default
	}
	var unknown []string
	for name, v := range given {
		if !strings.HasPrefix(name, "shm.") {
			continue
		}
		if _, known := values[name]; !known {
			unknown = append(unknown, name)
		}
		values[name] = v
	}
	if len(unknown) > 0 {
		sort.Strings(unknown)
		return params{}, fmt.Errorf("shm: unknown parameter %s", strings.Join(unknown, ", "))
	}
	var p params
	var first error
	number := func(name string, lo, hi int) int {
		n, err := strconv.Atoi(values[name])
		if (err != nil || n < lo || n > hi) && first == nil {
			first = fmt.Errorf("shm: parameter %s=%q: want a number from %d to %d", name, values[name], lo, hi)
		}
		return n
	}
	p.eager = number("shm.eager", 0, rpi.MaxFrame)
	p.direct = number("shm.direct", 0, 1<<30)
	return p, first
}
