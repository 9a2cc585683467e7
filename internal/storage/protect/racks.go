package protect

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// ReadRacks reads a file that names the rack of each node: a line NODE... RACK for some nodes, the rack last. Empty lines and what
// follows a # do not count. name is the file's, for errors.
func ReadRacks(r io.Reader, name string) (rackOf map[string]string, err error) {
	rackOf = map[string]string{}
	in := bufio.NewScanner(r)
	for number := 1; in.Scan(); number++ {
		line, _, _ := strings.Cut(in.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) == 1 {
			return nil, fmt.Errorf("%s:%d: %q: a line is NODE... RACK", name, number, words[0])
		}
		rack := words[len(words)-1]
		for _, node := range words[:len(words)-1] {
			if err := assign(rackOf, node, rack); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, number, err)
			}
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return rackOf, nil
}

// SlurmRack is the rack of a node by the variables that Slurm sets there: address is
// SLURM_TOPOLOGY_ADDR, such as top.s0.n1, and pattern SLURM_TOPOLOGY_ADDR_PATTERN, such as
// switch.switch.node. The rack is the switch or block nearest to the node, "" if there is none.
func SlurmRack(address, pattern string) (rack string) {
	kinds := strings.Split(pattern, ".")
	parts := strings.SplitN(address, ".", len(kinds))
	if last := len(kinds) - 2; last >= 0 && kinds[last+1] == "node" && len(parts) == len(kinds) {
		rack = parts[last]
	}
	return rack
}

func assign(rackOf map[string]string, node, rack string) error {
	if other, there := rackOf[node]; there && other != rack {
		return fmt.Errorf("node %s is in rack %s and in rack %s", node, other, rack)
	}
	rackOf[node] = rack
	return nil
}
