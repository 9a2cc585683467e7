package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Sources that FromEnv knows, by what they are called in messages.
const (
	SourceSlurm = "Slurm"
	SourcePBS   = "PBS_NODEFILE"
	SourceSGE   = "PE_HOSTFILE"
	SourceLSF   = "LSB_MCPU_HOSTS"
	SourceOMPI  = "OMPI_MCA_orte_default_hostfile"
	SourceHydra = "HYDRA_HOST_FILE"
)

// FromEnv finds the nodes that a batch system has given to this process. Without any, nodes and
// source are empty. run runs a command and returns its standard output.
func FromEnv(getenv func(string) string, readFile func(string) ([]byte, error), run func(name string, args ...string) ([]byte, error)) (nodes []Node, source string, err error) {
	file := func(counted bool, parse func(string) (Node, error)) func(string) ([]Node, error) {
		return func(name string) ([]Node, error) {
			data, err := readFile(name)
			if err != nil {
				return nil, err
			}
			return parseLines(bytes.NewReader(data), name, counted, parse)
		}
	}
	for _, s := range []struct {
		source, variable string
		nodes            func(value string) ([]Node, error)
	}{
		{SourceSlurm, "SLURM_JOB_ID", func(string) ([]Node, error) { return fromSlurm(getenv, run) }},
		{SourcePBS, SourcePBS, file(true, parseLine)},
		{SourceSGE, SourceSGE, file(false, parseSGE)},
		{SourceLSF, SourceLSF, parseLSF},
		{SourceOMPI, SourceOMPI, file(false, parseLine)},
		{SourceHydra, SourceHydra, file(false, parseLine)},
	} {
		value := getenv(s.variable)
		if value == "" {
			continue
		}
		nodes, err := s.nodes(value)
		if err != nil {
			return nil, s.source, fmt.Errorf("nodes of %s: %w", s.source, err)
		}
		return nodes, s.source, nil
	}
	return nil, "", nil
}

// parseSGE reads a line of Grid Engine's file: host, slots, queue, processors.
func parseSGE(line string) (Node, error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return Node{}, fmt.Errorf("%q: want host, slots, queue and processors", line)
	}
	return named(fields[0], fields[1])
}

// parseLSF reads pairs of host and slots.
func parseLSF(value string) ([]Node, error) {
	fields := strings.Fields(value)
	if len(fields)%2 != 0 {
		return nil, fmt.Errorf("%q: want pairs of host and slots", value)
	}
	l := newList()
	for i := 0; i < len(fields); i += 2 {
		n, err := named(fields[i], fields[i+1])
		if err == nil {
			err = l.add(n)
		}
		if err != nil {
			return nil, err
		}
	}
	return l.done(true)
}

// named is a node of which a batch system has told name and slots.
func named(name, slots string) (Node, error) {
	if err := checkWord("node", name); err != nil {
		return Node{}, err
	}
	n := Node{Name: name}
	err := n.setSlots(slots)
	return n, err
}

// fromSlurm asks Slurm for the names of the allocation's nodes, because only Slurm parses its lists
// reliably. A node has as many slots as tasks. If the user has not set the number of tasks, Slurm
// has derived it from the CPUs.
func fromSlurm(getenv func(string) string, run func(string, ...string) ([]byte, error)) ([]Node, error) {
	nodelist := getenv("SLURM_JOB_NODELIST")
	if nodelist == "" {
		return nil, errors.New("SLURM_JOB_ID is set and SLURM_JOB_NODELIST is not; name the nodes with -hosts, or unset SLURM_JOB_ID to run on this one")
	}
	out, err := run("scontrol", "show", "hostnames", nodelist)
	if err != nil {
		return nil, fmt.Errorf("scontrol show hostnames %s: %w", nodelist, err)
	}
	variable := "SLURM_TASKS_PER_NODE"
	if getenv(variable) == "" {
		variable = "SLURM_JOB_CPUS_PER_NODE"
	}
	names := strings.Fields(string(out))
	slots, err := parseCounts(getenv(variable), len(names))
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", variable, getenv(variable), err)
	}
	l := newList()
	for i, name := range names {
		if err := checkWord("node", name); err != nil {
			return nil, err
		}
		if err := l.add(Node{Name: name, Slots: slots[i], SlotsGiven: true}); err != nil {
			return nil, err
		}
	}
	return l.done(true)
}

// parseCounts reads Slurm's short form of n numbers: 10,1(x2) is 10, 1, 1.
func parseCounts(s string, n int) ([]int, error) {
	var counts []int
	for word := range strings.SplitSeq(s, ",") {
		number, times, repeated := strings.Cut(word, "(x")
		count, err := parseSlots(number)
		if err != nil {
			return nil, err
		}
		repeat := 1
		if repeated {
			digits, closed := strings.CutSuffix(times, ")")
			if repeat, err = parseSlots(digits); err != nil || !closed {
				return nil, fmt.Errorf("%q: want COUNT(xNODES)", word)
			}
		}
		if len(counts)+repeat > n {
			return nil, fmt.Errorf("more numbers than the %d nodes", n)
		}
		for range repeat {
			counts = append(counts, count)
		}
	}
	if len(counts) != n {
		return nil, fmt.Errorf("%d numbers for %d nodes", len(counts), n)
	}
	return counts, nil
}
