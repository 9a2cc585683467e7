package wire

import (
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Messages between head and keepers, each the data of a frame of package oob.

// NodeInfo describes a keeper's node in its Hello. The head describes its own node by one, too.
type NodeInfo struct {
	Host      string   `json:"host"` // its own name, for people
	Machine   string   `json:"machine"`
	Space     string   `json:"space"` // namespaces of processes and network, and the user
	Kernel    string   `json:"kernel"`
	Arch      string   `json:"arch"`
	CPUs      int      `json:"cpus"`
	Version   string   `json:"version"`             // of gorun
	Digest    string   `json:"digest"`              // of its executable
	Addresses []string `json:"addresses,omitempty"` // with the lengths of their networks' prefixes
	Rack      string   `json:"rack,omitempty"`      // as the batch system tells it there
}

// Same reports whether two descriptions are of the same node, where processes see each other.
func (n *NodeInfo) Same(m *NodeInfo) bool { return n.Machine == m.Machine && n.Space == m.Space }

// Terms is the data of the head's Hello to a keeper.
type Terms struct {
	LeaseMillis int64 `json:"lease_ms"`
	BeatMillis  int64 `json:"beat_ms"` // how often the keeper asks
}

// Agent is the data of a Begin: the parameters with which a keeper starts an agent.
type Agent struct {
	Index  int    `json:"index"`
	Ticket []byte `json:"ticket"` // JSON of a rendezvous.Ticket
	Until  int64  `json:"until"`  // filled in by the keeper: when its lease ends
	Folder string `json:"folder"` // filled in by the keeper: of staged programs, which the agent removes if the keeper dies
}

// Provision is the data of a Provide: what ranks on a node need there.
type Provision struct {
	Program rawstring.String `json:"program"`
	Digest  string           `json:"digest"` // SHA-256, hex
	Size    int64            `json:"size"`
	Dir     rawstring.String `json:"dir"`              // working folder
	Imager  string           `json:"imager,omitempty"` // the back-end that is to image the ranks

	Token rawstring.String `json:"token,omitempty"` // only this file is looked for
}

// Provided is the answer: the program's path on the node, or why it is not there.
type Provided struct {
	Program rawstring.String `json:"program,omitempty"`
	Err     string           `json:"err,omitempty"`
	Imager  string           `json:"imager,omitempty"` // why the back-end does not work there
}

// nodesOwn are variables that are valid only on one node, or for one step of a batch system
// there. Ranks on another node get the values of that node. An entry that ends in * is a prefix.
var nodesOwn = []string{
	"HOSTNAME", "HOST", "XDG_RUNTIME_DIR", "XDG_SESSION_*", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "SSH_*",
	"SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID", "SLURM_TASK_PID", "SLURM_STEP*", "SLURM_GTIDS", "SLURMD_NODENAME", "SLURM_CPU_BIND*",
	"SLURM_TOPOLOGY_*",
	"KUBERNETES_*", "JOB_COMPLETION_INDEX",
}

// NodesOwn reports whether a variable belongs to one node.
func NodesOwn(name string) bool {
	return slices.ContainsFunc(nodesOwn, func(p string) bool {
		if prefix, ok := strings.CutSuffix(p, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return name == p
	})
}

// EnvForOthers returns the variables of an environment for ranks on other nodes: those that do
// not belong to this node. given names variables that the user has set for all ranks.
func EnvForOthers(env, given []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return NodesOwn(name) && !slices.Contains(given, name)
	})
}

// WithNodesOwn adds a node's own variables to an environment from another node. It replaces none.
func WithNodesOwn(env, own []string) []string {
	have := map[string]bool{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		have[name] = true
	}
	env = slices.Clone(env)
	for _, kv := range own {
		if name, _, _ := strings.Cut(kv, "="); NodesOwn(name) && !have[name] {
			env = append(env, kv)
		}
	}
	return env
}

// SetEnv returns env with the variable of kv, NAME=VALUE, set.
func SetEnv(env []string, kv string) []string {
	name, _, _ := strings.Cut(kv, "=")
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, kv)
}
