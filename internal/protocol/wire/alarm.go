package wire

import (
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/internal/offload"
)

// Alarm is a line of the command of -migrate-on: it says what is to leave the node on which the
// command runs.
//
//	node                        its ranks go to other nodes
//	device 0                    what its ranks have on the device goes to another device of the node; if there is none they leave the node
//	device 0 to 1               to this one
//	device 0 to 1@NODE          ranks that have it go to another node, and use device 1 there
//
// A comment may follow after a #.
type Alarm struct {
	Device string // "": the node
	To     string // a device
	Node   string // where it is; "": here
}

// Watched is the report of the agent that runs the command: a line and, if that names a device
// without a target, the IDs of all devices of the node.
type Watched struct {
	Line    string   `json:"line"`
	Devices []string `json:"devices,omitempty"`
}

// Another is the first of some devices that may take the content of the device with an ID, or "".
func Another(id string, devices []string) string {
	for _, other := range devices {
		if _, err := offload.InPlaceOf(id, other); err == nil && other != id {
			return other
		}
	}
	return ""
}

// ParseAlarm reads a line. The error says which lines there are.
func ParseAlarm(line string) (a Alarm, err error) {
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(line)
	switch {
	case len(words) == 1 && words[0] == "node":
		return a, nil
	case len(words) == 2 && words[0] == "device":
		return Alarm{Device: words[1]}, nil
	case len(words) == 4 && words[0] == "device" && words[2] == "to":
		to, node, away := strings.Cut(words[3], "@")
		if to != "" && (node != "") == away {
			return Alarm{Device: words[1], To: to, Node: node}, nil
		}
	}
	return a, fmt.Errorf("%q is not to be understood; known are: node, device ID, device ID to ID, device ID to ID@NODE", strings.TrimSpace(line))
}

// String is the line.
func (a Alarm) String() string {
	switch {
	case a.Device == "":
		return "node"
	case a.To == "":
		return "device " + a.Device
	case a.Node == "":
		return "device " + a.Device + " to " + a.To
	}
	return "device " + a.Device + " to " + a.To + "@" + a.Node
}
