package control

import (
	"time"

	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// The control protocol: a client connects to control.sock, writes one request
// as a line of JSON and reads lines of JSON, each a reply; the last one holds
// done, status or error. A request names the incarnation that it is meant for:
// a job that was restarted meanwhile refuses it.
//
//	> {"verb":"checkpoint","incarnation":"f00d...","stop":true}
//	< {"progress":{"Phase":"writing","Ranks":3,"Size":4,...}}
//	< {"done":{"schema":"/home/u/.gorun/snapshots/.../schema.toml"}}
type Request struct {
	Verb        string `json:"verb"` // one of Verb..., or verbRecord
	Incarnation string `json:"incarnation"`
	Stop        bool   `json:"stop,omitempty"`       // checkpoint: end the job after it
	TimeoutMS   int64  `json:"timeout_ms,omitempty"` // checkpoint: for each phase of it
	Now         bool   `json:"now,omitempty"`        // kill: do not send SIGTERM first
	Waits       bool   `json:"waits,omitempty"`      // status: with what the ranks wait for
	Ranks       []int  `json:"ranks,omitempty"`      // stacks: of these; none: of all. migrate: these

	Nodes []string `json:"nodes,omitempty"` // join: of the job, by name; with no Hosts, none: all that it cannot use
	To    string   `json:"to,omitempty"`    // migrate: the node that takes the ranks; "": where there is room
	Off   string   `json:"off,omitempty"`   // migrate: all ranks of this node, which is not used any more
	Hosts string   `json:"hosts,omitempty"` // join: more of them, as in -hosts

	Swap *offload.Swap `json:"swap,omitempty"` // VerbSwap: of Ranks; none: of all
}

// Reply is one line of an answer; the last one holds no Progress and no Said.
type Reply struct {
	Said     string             `json:"said,omitempty"` // what is being done
	Progress *ckpt.ProgressInfo `json:"progress,omitempty"`
	Done     *DoneReply         `json:"done,omitempty"`
	Status   *Status            `json:"status,omitempty"`
	Stacks   []RankStacks       `json:"stacks,omitempty"`
	Record   *Record            `json:"record,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// last reports whether nothing follows.
func (r *Reply) last() bool { return r.Progress == nil && r.Said == "" }

// DoneReply is the outcome of a checkpoint, of a move, or of a kill.
type DoneReply struct {
	*Report
	Moved   *Moved           `json:"moved,omitempty"`
	Swapped *offload.Swapped `json:"swapped,omitempty"`
	Status  int              `json:"status,omitempty"` // of a wait
}

// Moved is the outcome of gorun migrate.
type Moved struct {
	Ranks []int         `json:"ranks"`
	Where string        `json:"where"` // for people
	Took  time.Duration `json:"took"`
	Stood time.Duration `json:"stood"` // for which no rank could send
}

// Status is a running job's answer about itself.
type Status struct {
	Job         string            `json:"job"`
	Incarnation string            `json:"incarnation"`
	State       string            `json:"state"` // building, starting, running, ending
	PID         int               `json:"pid"`
	NP          int               `json:"np"`
	CR          string            `json:"cr,omitempty"`
	Program     rawstring.String  `json:"program"`
	Args        rawstring.Strings `json:"args"`
	Started     time.Time         `json:"started"`
	Restarts    int               `json:"restarts"`
	Checkpoint  string            `json:"checkpoint,omitempty"` // phase of the one that runs
	Held        string            `json:"held,omitempty"`       // what keeps checkpoints off
	Snapshot    rawstring.String  `json:"snapshot,omitempty"`   // schema of the newest
	Snapshots   int               `json:"snapshots"`            // committed by this head
	Failed      int               `json:"failed"`               // failed checkpoints, under this head
	Failing     *Failing          `json:"failing,omitempty"`    // nil: the newest has not failed
	Last        *Report           `json:"last,omitempty"`       // of the newest checkpoint
	Interval    *Interval         `json:"interval,omitempty"`   // nil: it cannot be checkpointed
	Levels      []Level           `json:"levels,omitempty"`     // places for snapshots, the one that the ranks write first; none: there is one alone
	Ranks       []RankStatus      `json:"ranks"`

	Nodes []Node `json:"nodes,omitempty"` // empty: the job is on this machine alone

	Transports *Transports `json:"transports,omitempty"` // nil: the ranks are not connected yet
}

// Transports says which transports carry the messages between which ranks.
type Transports = wireup.Summary

// Node is a node of the job in a Status.
type Node struct {
	Name  string    `json:"name"`
	Host  string    `json:"host,omitempty"` // its own name
	State string    `json:"state"`          // starting, failed, up, suspect, lost, fenced
	Since time.Time `json:"since"`
	Why   string    `json:"why,omitempty"` // it is not up
	Own   bool      `json:"own,omitempty"` // gorun itself runs there
	CPUs  int       `json:"cpus,omitempty"`
	Ranks []int     `json:"ranks,omitempty"` // of the present life
}

// RankStatus is one rank in a Status.
type RankStatus struct {
	Rank    int               `json:"rank"`
	PID     int               `json:"pid"`
	Agent   int               `json:"agent"`
	Host    string            `json:"host"`
	State   string            `json:"state"`
	CPUs    string            `json:"cpus,omitempty"`    // that it is bound to, as 0-3,8
	Doing   string            `json:"doing,omitempty"`   // beside its waits, or why they are not known
	Devices []offload.Session `json:"devices,omitempty"` // its offload processes
	Waits   []Wait            `json:"waits,omitempty"`   // calls of the library that its goroutines are in
}

// Wait is a call of the library that a goroutine of a rank is in: where in the program
// it was made, what it waits for and for how long.
type Wait = waitreport.Wait

// RankStacks are the stacks of all goroutines of a rank.
type RankStacks struct {
	Rank   int    `json:"rank"`
	PID    int    `json:"pid"`
	Host   string `json:"host"`
	Stacks string `json:"stacks,omitempty"`
	State  string `json:"state,omitempty"` // why there are none
}
