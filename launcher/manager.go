// Package launcher is what the author of a launcher needs. A Manager starts one keeper on each node
// of a job, over ssh or inside a batch system's allocation. The keeper starts the agents there, and
// agents start the ranks. Each manager has a folder of its own here, as ssh has, and is listed in
// internal/cli/modules.go. Package internal/job uses them and describes the whole. Agents on
// the head's own node need no keeper: launcher/local starts them.
//
// # How a keeper is started
//
//	manager          the node
//	 client  --->    gorun __keeper DIGEST     DIGEST is that of the gorun that starts the job
//	         <---    noise, "\ngorun keeper: ready\n"        on standard output
//	 ticket  --->    one line, on standard input
//	                 the keeper calls home (internal/protocol/rendezvous): all else goes there
//
// A login may print anything before that. It is skipped, and shown if the start fails. The ticket
// is a secret: it goes over standard input alone, never into arguments, the environment or a file.
// Until the keeper is home, the end of its standard input ends it. From then on its connection and
// its lease do: whatever becomes of the client that has started it.
package launcher

import (
	"context"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Manager starts keepers on nodes.
type Manager interface {
	// Name is what the user knows it by.
	Name() string
	// Start starts gorun under KeeperVerb on a node and gives it its ticket. It returns when the
	// keeper has the ticket, or why there is none, with the remedy. It is called for many nodes at
	// once. Exec does most of it.
	Start(ctx context.Context, n Node, ticket []byte) (Process, error)
}

// Tunneler is a Manager whose keepers can reach home through the very connection that starts them,
// where a firewall keeps them from calling.
type Tunneler interface {
	Manager
	// StartThrough is Start. The node's connections to a port of its own loopback, which ticket is
	// told, come out at a port of this machine's loopback.
	StartThrough(ctx context.Context, n Node, port int, ticket func(port int) []byte) (Process, error)
}

// Node is where a keeper is to be started.
type Node struct {
	Name string // as the user gave it
	User string // to log in as; "": as the user is known there
	Addr string // the address to log in to; "": the name
}

// Process is what a manager has started: its own end of the keeper, such as a client of ssh.
type Process interface {
	// Kill ends it at once.
	Kill() error
	// Wait returns when it has ended, with its output on standard error. It may be called more
	// than once.
	Wait() error
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
	// Wait returns when the agent has ended and no process of its ranks is left, even if the
	// agent could not clean up itself. It is called once.
	Wait() error
}

// Version is the release of gorun.
const Version = "0.1.0"

// The hidden verbs under which gorun is an agent, a keeper, the rank of a program that knows nothing of it, or
// a rank that is about to become one of several programs.
const (
	AgentVerb  = "__agent"
	KeeperVerb = "__keeper"
	InitVerb   = "__init"
	PartsVerb  = "__parts"
)

// AgentFD is the descriptor on which an agent finds its stream to the head, or to its keeper.
const AgentFD = 3
