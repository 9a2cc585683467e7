package launcher

import "github.com/gorun-mpi/gorun/internal/oob"

// Manager starts agents on the nodes that a job has: on this machine, over ssh,
// inside a batch system's allocation. One folder each below launcher, listed in
// cmd/gorun/modules.go.
type Manager interface {
	// Name is what the user knows it by.
	Name() string
	// Start starts agent i of n. The agent must run AgentMain with the other
	// end of the returned stream. The caller owns the Agent and waits for it.
	Start(i, n int) (Agent, error)
}

// Agent is the head's hold on a started agent.
type Agent interface {
	// Conn is the stream to it; its end means that the agent or its node is gone.
	Conn() *oob.Conn
	// PID is the number of its process, on its host.
	PID() int
	// Host is the name of the node it runs on.
	Host() string
	// Address is the IP address under which ranks on its node are reached, ""
	// for loopback.
	Address() string
	// Kill ends it at once. Its ranks end with it.
	Kill() error
	// Wait returns when it has ended and was reaped, with how; to be called once.
	Wait() error
	// Local reports that it runs on this machine as a child of this process,
	// so that its orphans come to this process.
	Local() bool
}
