package bind

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// core is a core with the CPUs of it that may be used.
type core struct {
	cpus   Set
	socket int
	numa   int
}

// Topology says which of a node's CPUs may be used, and how they belong together.
type Topology struct {
	cores  []core // by socket, memory node, first CPU
	may    Set
	online int
}

// Read finds the topology of the CPUs that may be used. sys is /sys/devices/system.
func Read(sys fs.FS, may Set) (*Topology, error) {
	t := &Topology{}
	online, err := readSet(sys, "cpu/online")
	if err != nil {
		return nil, err
	}
	t.online = online.Count()
	numa, err := numaNodes(sys)
	if err != nil {
		return nil, err
	}
	at := map[string]int{} // index of a core by its list
	for _, n := range may.All() {
		if !online.Has(n) {
			continue
		}
		siblings, socket, err := readCPU(sys, n)
		if err != nil {
			return nil, err
		}
		key := siblings.String()
		i, known := at[key]
		if !known {
			i = len(t.cores)
			at[key] = i
			t.cores = append(t.cores, core{socket: socket, numa: numa[n]})
		}
		t.cores[i].cpus = t.cores[i].cpus.with(n)
		t.may = t.may.with(n)
	}
	if len(t.cores) == 0 {
		return nil, fmt.Errorf("no CPU of %s that is allowed is online", may)
	}
	slices.SortStableFunc(t.cores, func(a, b core) int { // they are sorted by first CPU already
		if a.socket != b.socket {
			return a.socket - b.socket
		}
		return a.numa - b.numa
	})
	return t, nil
}

// readCPU finds the CPUs of a CPU's core, and its socket.
func readCPU(sys fs.FS, n int) (siblings Set, socket int, err error) {
	dir := fmt.Sprintf("cpu/cpu%d/topology/", n)
	siblings, err = readSet(sys, dir+"core_cpus_list")
	if errors.Is(err, fs.ErrNotExist) {
		siblings, err = readSet(sys, dir+"thread_siblings_list")
	}
	if err != nil {
		return nil, 0, err
	}
	if !siblings.Has(n) {
		return nil, 0, fmt.Errorf("CPU %d is not among those of its core, %s", n, siblings)
	}
	text, err := fs.ReadFile(sys, dir+"physical_package_id")
	if err != nil {
		return nil, 0, err
	}
	// A machine that does not tell says -1 for all, which is one socket.
	if socket, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
		return nil, 0, fmt.Errorf("%sphysical_package_id: %w", dir, err)
	}
	return siblings, socket, nil
}

// numaNodes tells the memory node of each CPU; 0 of all where the kernel knows of none.
func numaNodes(sys fs.FS) (map[int]int, error) {
	of := map[int]int{}
	entries, err := fs.ReadDir(sys, "node")
	if errors.Is(err, fs.ErrNotExist) {
		return of, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "node")
		number, err := strconv.Atoi(digits)
		if !ok || err != nil {
			continue // another file
		}
		cpus, err := readSet(sys, "node/"+e.Name()+"/cpulist")
		if err != nil {
			return nil, err
		}
		for _, n := range cpus.All() {
			of[n] = number
		}
	}
	return of, nil
}

func readSet(sys fs.FS, name string) (Set, error) {
	text, err := fs.ReadFile(sys, name)
	if err != nil {
		return nil, err
	}
	s, err := Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}
