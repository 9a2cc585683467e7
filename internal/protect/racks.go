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

// SlurmRacks reads what `scontrol show topology` prints. The switches of the lowest level are the racks. expand makes names of
// Slurm's list of nodes, as in n[0-3], which `scontrol show hostnames` does.
func SlurmRacks(text string, expand func(list string) ([]string, error)) (rackOf map[string]string, err error) {
	rackOf = map[string]string{}
	for line := range strings.Lines(text) {
		value := map[string]string{}
		for _, word := range strings.Fields(line) {
			k, v, _ := strings.Cut(word, "=")
			value[k] = v
		}
		if value["SwitchName"] == "" || value["Level"] != "0" || value["Nodes"] == "" {
			continue
		}
		nodes, err := expand(value["Nodes"])
		if err != nil {
			return nil, fmt.Errorf("nodes of switch %s: %w", value["SwitchName"], err)
		}
		for _, node := range nodes {
			if err := assign(rackOf, node, value["SwitchName"]); err != nil {
				return nil, err
			}
		}
	}
	if len(rackOf) == 0 {
		return nil, fmt.Errorf("Slurm tells of no switch with nodes: name the racks in a file (-racks)")
	}
	return rackOf, nil
}

func assign(rackOf map[string]string, node, rack string) error {
	if other, there := rackOf[node]; there && other != rack {
		return fmt.Errorf("node %s is in rack %s and in rack %s", node, other, rack)
	}
	rackOf[node] = rack
	return nil
}
