// Package launcher is what the author of a launcher needs. A Manager starts agents on nodes, and
// agents start the ranks. Each manager has a folder of its own here, as local has, and is listed in
// internal/command/modules.go. Package internal/launch uses them and describes the whole.
package launcher

import "github.com/gorun-mpi/gorun/internal/oob"

// Manager starts agents on the nodes of a job: on this machine, over ssh, or inside a batch system's
// allocation.
type Manager interface {
	// Name is what the user knows it by.
	Name() string
	// Start starts agent i of n: gorun under AgentVerb, with the other end of the
	// returned stream as AgentFD. The caller owns the Agent and waits for it.
	Start(i, n int) (Agent, error)
}

// Stream is a connection with deadlines, as every net.Conn is.
type Stream = oob.Stream

// Agent is an agent as the head sees it.
type Agent interface {
	// Stream is the connection to it; its end means that the agent or its node is gone.
	// The caller closes it.
	Stream() Stream
	// PID is the number of its process on its host, for people.
	PID() int
	// Host is the name of the node it runs on.
	Host() string
	// Address is the IP address under which ranks on its node are reached, ""
	// for loopback.
	Address() string
	// Kill ends it at once. Its ranks end with it.
	Kill() error
	// Wait returns when the agent has ended and nothing of its ranks is left that could act,
	// whatever the agent itself had still done about that. It is called once.
	Wait() error
}

// Version is the release of gorun.
const Version = "0.1.0"

// AgentVerb is the hidden verb under which gorun is an agent.
const AgentVerb = "__agent"

// AgentFD is the descriptor on which an agent finds its stream to the head.
const AgentFD = 3
