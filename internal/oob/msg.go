// Package oob is the out-of-band channel: what head, agents and ranks say to
// each other beside the messages of the program.
//
// A rank inherits one connected stream socket to its agent, the agent holds one
// stream to the head. Everything is one kind of frame, Msg:
//
//	 0 length u32   bytes that follow, at most MaxMsg
//	 4 kind   u8
//	 5 -      u8 x3
//	 8 from   i32   a rank, Head, or an agent (AgentAddr)
//	12 to     i32
//	16 incarnation u64
//	24 attempt     u32
//	28 -           u32
//	32 a u64, 40 b u64
//	48 data
//
// all little-endian. Agents forward what is not for them: frames for a rank of
// theirs down, everything else up; the head forwards between agents.
package oob

import "github.com/gorun-mpi/gorun/internal/exact"

// Addresses beside the ranks 0..np-1.
const Head int32 = -1

// AgentAddr is the address of agent i.
func AgentAddr(i int) int32 { return int32(-2 - i) }

// Version range spoken here; the first frame on every stream is a Hello that
// carries the sender's range in A (lowest) and B (highest).
const (
	VersionMin = 2
	VersionMax = 2
)

// MaxMsg bounds one frame in bytes.
const MaxMsg = 64 << 20

// Kind says what a Msg is. The direction is given as head>rank, rank>head ...
type Kind uint8

const (
	Hello   Kind = 1 + iota // both ways, first: A..B version range; Data: JSON of HelloInfo
	Start                   // head>rank: Data is JSON of StartConfig; to a rank that runs already: it was restored from a whole-process image. To an agent, without data: all ranks of the job are restored, let go yours
	Address                 // rank>head: Data is the rank's transport addresses (JSON of AddressInfo)
	Peers                   // head>rank: Data is JSON [][...] of all addresses, indexed by rank
	Reach                   // rank>head: Data JSON of ReachInfo: whom it does not reach by which transport; later what else it is denied
	Routes                  // head>rank: Data JSON of RoutesInfo: what follows from everybody's Reach
	Up                      // rank>head: connected to the job, Init returns
	Running                 // head>rank: all ranks are up (sent once)

	FinalizeWant // rank>head: entered Finalize
	FinalizeGo   // head>rank: everybody has, and no checkpoint runs; refused from now on
	AbortJob     // rank>head: A exit code, B 1 if only a consequence of another rank's death, Data text
	Failure      // rank>head: B 1 secondary; Data text: an error that will end this rank
	Ping         // head>agent, agent>head: heartbeat

	// Agent's own.
	Spawn   // head>agent: Data is JSON of SpawnConfig
	Exit    // agent>head: From is the rank; A wait status, B pid; Data text
	Output  // agent>head: From is the rank; A 1 stdout, 2 stderr; Data whole lines where possible
	Input   // head>agent: standard input for rank To; empty Data: end of file
	Signal  // head>agent: A signal number for all its ranks
	KillAll // head>agent: end every rank, then leave

	// Checkpoint; every one of these carries incarnation and attempt.
	Prepare  // head>rank: self: read the Point count and stop at the next Point. A mode (ModeSelf or ModeAuto)
	Points   // rank>head: A the count read (Points entered so far)
	Target   // head>rank: A the Point all stop at
	AtPoint  // rank>head: stopped there, A the Point's number
	Close    // head>rank: close the gate. A mode (ModeSelf or ModeNative)
	Dests    // rank>head (summed on the way by agents): Data u64 LE pairs (rank, senders): whom I sent to
	Senders  // head>rank: A how many ranks have sent to you at all (sparse schedule)
	Bookmark // rank>rank: A bytes sent by From to To since start of the incarnation
	Ready    // rank>head: drained
	Capture  // head>rank: all are Ready. Data JSON of CaptureConfig. Native: for the agent, which answers in the rank's name
	Captured // rank>head: A bytes that the image will hold
	Open     // head>rank: all are Captured (or the attempt ended): gate open, go on
	Progress // rank>head: A bytes written so far
	Written  // rank>head: image durable; A size in bytes, Data JSON of ImageInfo
	Failed   // rank>head: this attempt cannot succeed here; Data why. A 1: the rank cannot stop at a Point, B 1: because it has registered nothing
	Revert   // head>rank: attempt is over without a snapshot; back to Running. Data why
	Ask      // head>rank: what are you doing? (before a deadline is declared missed)
	Where    // rank>head: Data the answer, e.g. "in Recv(source 3, tag 7) for 12s"
	Commit   // head>rank: the snapshot of this attempt is committed; A sequence number
	kinds
)

// Modes of a checkpoint attempt, in A of Prepare and Close, and in a
// CaptureConfig.
const (
	ModeSelf   = 1 // ranks stop at a Point and image themselves
	ModeNative = 2 // agents image their ranks wherever they are
	ModeAuto   = 3 // of a request only: self if the ranks can, else native
)

// Msg is one frame of the out-of-band channel.
type Msg struct {
	Kind        Kind
	From, To    int32
	Incarnation uint64
	Attempt     uint32
	A, B        uint64
	Data        []byte
}

// HelloInfo is the data of a Hello.
type HelloInfo struct {
	Role      string `json:"role"` // "rank", "agent", "head"
	PID       int    `json:"pid,omitempty"`
	Arch      string `json:"arch,omitempty"`
	BigEndian bool   `json:"big_endian,omitempty"`
	Library   string `json:"library,omitempty"` // version of gorun it was built with
}

// StartConfig is what a rank needs to know to take part in the job.
type StartConfig struct {
	Job         string            `json:"job"` // uuid of the job
	Incarnation uint64            `json:"incarnation"`
	Rank        int               `json:"rank"`
	Size        int               `json:"size"`
	Secret      []byte            `json:"secret"`
	Host        string            `json:"host"`
	RPI         []string          `json:"rpi"`               // transports by preference; empty: the default
	CR          string            `json:"cr"`                // "", "self", "auto", "native"
	Image       exact.String      `json:"image,omitempty"`   // restart: path of this rank's image
	Backend     string            `json:"backend,omitempty"` // restart: what made the image, "self" or "native"; "" is self
	SparseFrom  int               `json:"sparse_from"`       // number of ranks from which the sparse schedule is used
	Params      map[string]string `json:"params,omitempty"`
	Nodes       []Node            `json:"nodes,omitempty"`   // which ranks share a node, in the order of ranks; empty: all do
	Local       int               `json:"local,omitempty"`   // ranks on the machine of this rank; 0: all
	Crowded     bool              `json:"crowded,omitempty"` // some machine has more ranks than CPUs; the same for all ranks
}

// Node is some ranks in a row that share a node. Ranks of equal numbers do.
type Node struct {
	Number int `json:"node"`
	Ranks  int `json:"ranks"`
}

// AddressInfo is a rank's answer to Start.
type AddressInfo struct {
	Modules   map[string][]byte `json:"modules"` // transport name -> address
	Arch      string            `json:"arch"`
	BigEndian bool              `json:"big_endian"`
}

// ReachInfo is how far the transports reach that a rank has opened since its
// last one. The exchange is described in package wireup.
type ReachInfo struct {
	Order  []string          `json:"order"`            // all that it may open, by preference
	Opened []string          `json:"opened,omitempty"` // since the last time
	Failed map[string]string `json:"failed,omitempty"` // those that it cannot have, and why
	Left   bool              `json:"left,omitempty"`   // there are some that it has not tried to open
	Not    []Unreached       `json:"not,omitempty"`    // whom it does not reach by those it has opened
	Denied []Unreached       `json:"denied,omitempty"` // whom it reaches otherwise than a parameter asks for
}

// RoutesInfo is what the ranks have to know of each other's reach.
type RoutesInfo struct {
	Forgo map[int][]Unreached `json:"forgo,omitempty"` // by rank: the peers that do not reach it though it reaches them
	More  bool                `json:"more,omitempty"`  // ranks that lack a peer open what they have left, and all begin again
}

// Unreached is some ranks that a transport does not reach.
type Unreached struct {
	Transport string   `json:"transport"`
	Why       string   `json:"why,omitempty"`
	Ranks     [][2]int `json:"ranks"` // first and last of those in a row
}

// RunsOf describes ranks, which are in order, by the first and last of those in
// a row.
func RunsOf(ranks []int) (runs [][2]int) {
	for _, r := range ranks {
		if n := len(runs); n > 0 && runs[n-1][1] == r-1 {
			runs[n-1][1] = r
		} else {
			runs = append(runs, [2]int{r, r})
		}
	}
	return runs
}

// CaptureConfig says where and how the image of a rank is written: by the rank
// in ModeSelf, by its agent in ModeNative.
type CaptureConfig struct {
	Path  exact.String `json:"path"`
	Seq   int          `json:"seq"`
	Codec string       `json:"codec"`          // none, snappy, zstd
	Hold  bool         `json:"hold"`           // checkpoint and stop: the gate stays closed until Commit or Revert
	Mode  uint64       `json:"mode,omitempty"` // ModeSelf or ModeNative
	Base  int          `json:"base,omitempty"` // native: the snapshot that the image may build on; 0: it is full
}

// ImageInfo describes one durable image; it goes into the schema.
type ImageInfo struct {
	File   string `json:"file"` // name within the snapshot's folder
	Size   int64  `json:"size"`
	Digest string `json:"digest"` // SHA-256 over the section table, hex
	Codec  string `json:"codec"`
	Base   int    `json:"base,omitempty"`  // native: the snapshot it builds on; 0: it is full
	Pause  int64  `json:"pause,omitempty"` // native: ns for which the process stood still
	Note   string `json:"note,omitempty"`  // what the user ought to know, e.g. that it was imaged stopped
	Raw    uint64 `json:"raw,omitempty"`   // native: bytes of memory saved
}

// SpawnConfig tells an agent which ranks to start.
type SpawnConfig struct {
	Program exact.String        `json:"program"` // absolute path
	Args    exact.Strings       `json:"args"`
	Dir     exact.String        `json:"dir"`
	Env     exact.Strings       `json:"env"`
	Ranks   []int               `json:"ranks"`
	Start   map[int]StartConfig `json:"start"`
}
