// Package oob is the out-of-band channel. It carries everything that head, agents and ranks say to each other,
// except the messages of the program.
//
// A rank inherits one connected stream socket to its agent. The agent holds one stream to the head. Both carry
// one kind of frame, Msg:
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
// All numbers are little-endian. An agent forwards frames for its own ranks down to them, and all
// other frames that are not for itself up to the head. The head forwards between agents.
package oob

import "github.com/gorun-mpi/gorun/internal/system/rawstring"

// Addresses beside the ranks 0..np-1.
const Head int32 = -1

// AgentAddr is the address of agent i.
func AgentAddr(i int) int32 { return int32(-2 - i) }

// Range of versions spoken here. The first frame on every stream is a Hello that carries the sender's range in
// A (lowest) and B (highest). A kind that is sent only in answer to another frame needs no version of
// its own.
const (
	VersionMin = 2
	VersionMax = 6

	// VersionLook is the first version in which a rank understands Look.
	VersionLook = 3
	// VersionMoves is the first version in which a rank understands StartConfig.Moves.
	VersionMoves = 4
	// VersionHealth is the first version in which a rank understands Health.
	VersionHealth = 5
	// VersionPoints is the first version in which a rank understands StartConfig.Points.
	VersionPoints = 6
)

// MaxMsg bounds one frame in bytes.
const MaxMsg = 64 << 20

// Kind says what a Msg is. The direction is given as head>rank, rank>head ...
type Kind uint8

const (
	Hello   Kind = 1 + iota // both ways, first: A..B version range; Data: JSON of HelloInfo
	Start                   // head>rank: Data JSON of StartConfig; to a running rank: it was restored, or others move. To an agent: all are restored, let yours go
	Address                 // rank>head: Data is the rank's transport addresses (JSON of AddressInfo)
	Peers                   // head>rank: addresses of the others. A PeersBook: Data is a wireup.Book; else JSON of them all, indexed by rank
	Reach                   // rank>head: Data JSON of ReachInfo: whom it does not reach by which transport; later what else it is denied
	Routes                  // head>rank: Data JSON of RoutesInfo: what follows from the Reach of all
	Up                      // rank>head: connected to the job, Init returns
	Running                 // head>rank: all ranks are up (sent once in an incarnation)

	FinalizeWant // rank>head: entered Finalize; A the rank's account of its collective calls
	FinalizeGo   // head>rank: all ranks have, no checkpoint runs, and further ones are refused; A the sum of all accounts, 0 if the ranks agree
	AbortJob     // rank>head: A exit code, B why, see AbortDecided; Data text, which the rank has printed
	Failure      // rank>head: Data text: an error that will end this rank, or keeps it from taking part in a move, see FailureOwn
	Ping         // head>agent, agent>head: heartbeat

	// Agent's own.
	Spawn   // head>agent: Data is JSON of wire.Order, which contains SpawnConfig
	Exit    // agent>head: From is the rank; A wait status, B pid; Data text. From the agent itself: nothing of its ranks is left, and this is its last frame
	Output  // agent>head: From is the rank; A 1 stdout, 2 stderr, B 0 or LineGoesOn; Data whole lines where possible
	Input   // head>agent: standard input for rank To; empty Data: end of file. agent>head: A bytes of it that its pipe took; when the rank has ended Data JSON of InputState. rank>agent and back: it stands at its first Point
	Signal  // head>agent: A signal number for all its ranks
	KillAll // head>agent: end every rank, then leave

	// Checkpoint; every one of these carries incarnation and attempt.
	Prepare  // head>rank: self: read the Point count and stop at the next Point. A mode (ModeSelf or ModeAuto)
	Points   // rank>head: A the count read (Points entered so far)
	Target   // head>rank: A the Point all stop at
	AtPoint  // rank>head: stopped there, A the Point's number, B ns that it has needed to get ready for an image
	Close    // head>rank: close the gate. A mode (ModeSelf or ModeNative)
	Dests    // rank>head (summed on the way by agents): Data u64 LE pairs (rank, senders): whom I sent to
	Senders  // head>rank: A how many ranks have sent to you at all (sparse schedule)
	Bookmark // rank>rank: A bytes sent by From to To since start of the incarnation
	Ready    // rank>head: drained
	Capture  // head>rank: all are Ready. Data JSON of CaptureConfig. Native: for the agent, which answers in the rank's name
	Captured // rank>head: A bytes that the image will hold; Data JSON of InputState, by its agent
	Open     // head>rank: all are Captured (or the attempt ended): gate open, go on
	Progress // rank>head: A bytes written so far
	Written  // rank>head: image durable; A size in bytes, Data JSON of ImageInfo
	Failed   // rank>head: this attempt cannot succeed here; Data why. A 1: the rank cannot stop at a Point, B 1: because it has registered nothing. A FailedAhead: only the image that was to go ahead
	Revert   // head>rank: attempt is over without a snapshot; back to Running. Data why
	Ask      // head>rank: what are you doing? (before a deadline is declared missed)
	Where    // rank>head: Data the answer, e.g. "in Recv(source 3, tag 7) for 12s"
	Commit   // head>rank: the snapshot of this attempt is committed; A sequence number

	Look  // head>rank: what are your goroutines waiting for? From version 3 on. A LookWaits, LookStacks, LookTrim or LookStill, B number of the question
	Seen  // rank>head: the answer, or the agent's for a rank that is stopped. A, B as in Look, Data JSON of waitreport.Info
	Tail  // agent>head, of a rank, or rank>head: Data path of the file with what its restart has cut off an output file
	Bound // agent>head, of a rank: Data the CPUs that it is bound to, as 0-3,8

	// Between head, keeper and agent; ranks never see them. Agents are known to a keeper by a number, A.
	Renew    // keeper>head: A a time of its clock: it asks for its lease (package lease)
	Grant    // head>keeper: A as in Renew. keeper>agent: A when its lease ends
	Begin    // head>keeper: start agent A; Data JSON of wire.Agent. keeper>agent: the same
	Begun    // keeper>head: agent A runs, B its pid
	End      // head>keeper: end agent A
	Ended    // keeper>head: nothing of agent A is left; Data how it ended, if not well
	Remark   // keeper>head: Data lines for the user, which agent A has printed; -1: the keeper
	Provide  // head>keeper: A number of the request; Data JSON of wire.Provision
	Provided // keeper>head: A as in Provide; Data JSON of wire.Provided
	Fetch    // keeper>head: A as in Provide, B an offset: the program from there on
	Piece    // head>keeper: A, B as in Fetch; Data of the program, or empty if it cannot be read
	Folder   // head>keeper: Data a folder of local images there; in Files it is the store A
	Files    // head>keeper and agent>head, and back: Data a frame of package remote (cr/store/remote)

	Suspect // rank>head: the machine of rank A has answered nothing for B milliseconds, once a second; B 0: it has answered. Only if Start says Wide
	Hold    // rank>head: keep checkpoints off. A counts the holds of this rank; Data the place in its program
	Held    // head>rank: no checkpoint is taken until Release; A as in Hold
	Release // rank>head: checkpoints may be taken again; A as in Hold

	Ticket  // agent>head: A number of the question; Data JSON of wire.TicketFor: how it reaches a node. head>agent: A as there; Data JSON of wire.Ticket
	Lookup  // rank>head: A a rank whose address it needs; its agent answers if it has heard it
	Located // head>rank: A as in Lookup; Data a wireup.Book with it

	Listen // head>keeper: open the listener. keeper>head: Data JSON of listener.Opened

	Flush   // head>keeper: copy images of the node into another store. A number of the order; Data JSON of wire.Flush, none: give it up
	Flushed // keeper>head: A as in Flush; Data JSON of wire.Flushed, or none and B bytes that are done

	Leaving // keeper>head: it leaves, Data says why; its agents are ended
	Copy    // head>keeper: A number of the order; Data JSON of wire.Copy: copy an image into the memory of the node; none: give it up
	Copied  // keeper>head: A as in Copy; Data JSON of wire.Copied
	Left    // keeper>head, after Leaving: nothing of the job is left on its node, and nothing will be
	Bring   // head>agent: A number of the question; Data JSON of wire.Bring: have images at hand. agent>head: A as there; Data why they are not
	Health  // head>ranks: those in Data, a JSON list, are A: HealthGood, HealthSuspect, HealthFailed. From version 5 on
	Due     // rank>head: it stands at Point A, at which a checkpoint is wanted (StartConfig.Points), until an attempt ends or Pass
	Pass    // head>rank: go on from Point A
	Meter   // head>agent: A the phase that begins (interval.Phase), Attempt a number of the question. agent>head, when one ends that costs: Attempt as there, A ns that a rank has lost in it, B 0: it is not known
	Offload // rank>agent and back, if Start says Devices: A number of an offload process; Data JSON of offload.Wish or offload.News. agent>head, of a rank: Data JSON of its []offload.Session
	Alarm   // agent>head: Data a line of the command of -migrate-on
	Cut     // head>agent, before the Start that lets ranks go: all are restored; cut the shared files that your ranks cut for all. agent>head, of such a rank: it is done
	kinds
)

// FailedAhead in A of Failed: no image of the rank goes ahead of its move.
const FailedAhead = 2

// LineGoesOn in B of Output: the line goes on in the next Output of the rank and stream, which does
// not wait for other output.
const LineGoesOn = 1

// PeersBook in A of Peers: only ranks that can read a book are sent one.
const PeersBook = 1

// A of a Spawn in which an agent reports a process that it has made. B is the pid there, Data a
// remark for the user.
const (
	SpawnRuns  = iota // it runs
	SpawnHeld         // it is restored and let go, and waits for a debugger, or the program that it attends does: B is its pid
	SpawnFree         // it waits no longer
	SpawnWaits        // it is restored, and waits for all others to be
)

// Goodbye in B of KillAll says that the head has removed what the job has left, so the agent need not.
const Goodbye = 1

// Modes of a checkpoint attempt, in A of Prepare and Close, and in a
// CaptureConfig.
const (
	ModeSelf   = 1 // ranks stop at a Point and image themselves
	ModeNative = 2 // agents image their ranks wherever they are
	ModeAuto   = 3 // only in requests: self if the ranks can, else native
)

// B of AbortJob: why a rank ends the job.
const (
	AbortDecided = iota // the program says so, by an error or by Abort
	AbortFollows        // only a consequence of another rank's death
	AbortPanic          // the program has panicked
	AbortLost           // something that the rank needs has died, as a device; the text tells
)

// B of Failure.
const (
	FailureOwn     = iota // the rank ends
	FailureFollows        // it ends, only as a consequence of another's end
	FailureStands         // it cannot take part in an incarnation in which ranks move. It stands still, and may be told of another incarnation
)

// A of Health.
const (
	HealthGood    = iota
	HealthSuspect // their node has not answered for some time
	HealthFailed  // they have ended, or were given up
)

// What a Look asks for.
const (
	LookWaits  = 1 // calls of this library in progress
	LookStacks = 2 // the stacks of all goroutines
	LookTrim   = 3 // nothing, but first give back memory that is garbage; Data one byte, the Mode of images to come. Older ranks take it for LookWaits
	LookStill  = 4 // whether the rank has only waited for the nanoseconds in Data (u64 LE), and who can end its waits. Older ranks take it for LookWaits

	// LookUnreceived is not a question. In A of Seen it reports B messages that the rank had not
	// received when it was released from Finalize; Data is JSON of the first, as text. Older heads
	// take it for a late answer.
	LookUnreceived = 5
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

// StartConfig is what a rank needs to know to take part in the job
type StartConfig struct {
	Job         string            `json:"job"` // uuid of the job
	Incarnation uint64            `json:"incarnation"`
	Rank        int               `json:"rank"`
	Size        int               `json:"size"`
	Secret      []byte            `json:"secret"`
	Host        string            `json:"host"`
	RPI         []string          `json:"rpi"`               // transports by preference; empty: the default
	CR          string            `json:"cr"`                // "", "self", "auto", "native"
	Image       rawstring.String  `json:"image,omitempty"`   // restart: path of this rank's image, filled in by its agent (wire.Order.Images)
	Of          int               `json:"of,omitempty"`      // restart with another number of ranks: that of the snapshot. Image is then a library of all its images, see package imagepipe
	Backend     string            `json:"backend,omitempty"` // restart: the back-end that made the image, "self" or "native"; "" is self
	SparseFrom  int               `json:"sparse_from"`       // number of ranks from which the sparse schedule is used
	Params      map[string]string `json:"params,omitempty"`
	Nodes       []Node            `json:"nodes,omitempty"`   // which ranks share a node, in the order of ranks; empty: all do
	Local       int               `json:"local,omitempty"`   // ranks on the machine of this rank; 0: all
	Crowded     bool              `json:"crowded,omitempty"` // some machine has more ranks than CPUs; the same for all ranks
	Wide        bool              `json:"wide,omitempty"`    // ranks are on several nodes, which reach one another over networks; the head understands Suspect
	Holds       bool              `json:"holds,omitempty"`   // the head understands Hold
	Input       bool              `json:"input,omitempty"`   // this rank has standard input, and tells its agent when it comes to its first Point
	Moves       bool              `json:"moves,omitempty"`   // ranks move: this one, then it has an Image, or others. The gate opens at Running
	Files       string            `json:"files,omitempty"`   // restart: what to do with files that the program was writing to (whole.FilesPolicy)
	Points      uint64            `json:"points,omitempty"`  // every so many Points a portable checkpoint is wanted: the rank stands there and says so (Due); 0: never
	Devices     bool              `json:"devices,omitempty"` // the agent understands Offload: it starts the offload processes of devices
	Rescue      bool              `json:"rescue,omitempty"`  // a restart follows the loss of a rank: a rank that loses a peer stands still until it is ended
}

// Node is some consecutive ranks that share a node. Entries with equal numbers are the same node.
type Node struct {
	Number int `json:"node"`
	Ranks  int `json:"ranks"`
	// Machine is the number of the machine that the node is on, from 1. Nodes that are agents, or
	// containers, may share one. 0: the launcher does not say.
	Machine int `json:"machine,omitempty"`
}

// AddressInfo is a rank's answer to Start.
type AddressInfo struct {
	Modules   map[string][]byte `json:"modules"` // transport name -> address
	Arch      string            `json:"arch"`
	BigEndian bool              `json:"big_endian"`
	Books     bool              `json:"books,omitempty"` // it reads a wireup.Book, and asks (Lookup) for what is not in it
	Local     []string          `json:"local,omitempty"` // transports within a node
	Asks      []string          `json:"asks,omitempty"`  // transports that ask for an address at its first use
}

// ReachInfo says how far the transports reach that a rank has opened since its last ReachInfo
// Package wireup describes the exchange.
type ReachInfo struct {
	Order  []string          `json:"order"`            // all transports that it may open, by preference
	Opened []string          `json:"opened,omitempty"` // since the last time
	Failed map[string]string `json:"failed,omitempty"` // those that it cannot have, and why
	Left   bool              `json:"left,omitempty"`   // there are transports that it has not tried to open
	Not    []Unreached       `json:"not,omitempty"`    // peers that it does not reach by those it has opened
	Denied []Unreached       `json:"denied,omitempty"` // peers with which it cannot heed a parameter
	About  map[string]string `json:"about,omitempty"`  // what carries the frames of those that it has opened, where the name does not tell
}

// RoutesInfo tells the ranks what they must know about each other's reach.
type RoutesInfo struct {
	Forgo map[int][]Unreached `json:"forgo,omitempty"` // by rank: the peers that do not reach it though it reaches them
	More  bool                `json:"more,omitempty"`  // ranks that lack a peer open the transports they have left, and all begin again
}

// Unreached is some ranks that a transport does not reach.
type Unreached struct {
	Transport string   `json:"transport"`
	Why       string   `json:"why,omitempty"`
	Ranks     [][2]int `json:"ranks"` // first and last of consecutive ranks
}

// RunsOf describes ranks, given in order, by the first and last of each run of consecutive ones.
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

// CaptureConfig says where and how the image of a rank is written. The rank writes it in ModeSelf, its agent in
// ModeNative. The head names a store and a piece, SET/PIECE, which the agent makes a path of its node.
type CaptureConfig struct {
	Path  rawstring.String `json:"path"`            // of a file of this node, or within a store
	Store string           `json:"store,omitempty"` // by its name in the agent's order (wire.Order); "": Path is a file
	Seq   int              `json:"seq"`
	Codec string           `json:"codec"`           // none, snappy, zstd
	Hold  bool             `json:"hold"`            // checkpoint and stop: the gate stays closed until Commit or Revert
	Mode  uint64           `json:"mode,omitempty"`  // ModeSelf or ModeNative
	Base  int              `json:"base,omitempty"`  // native: the snapshot that the image may build on; 0: it is full
	Slot  bool             `json:"slot,omitempty"`  // Path is a slot of memory, written in place (store.Slot)
	Ahead bool             `json:"ahead,omitempty"` // it goes ahead of a move: the rank runs, and only pages of its memory are used
	Move  bool             `json:"move,omitempty"`  // it is no snapshot's: the rank moves. What it has written goes to the head before Written
}

// InputState says how much of its standard input a rank has taken. It counts what the rank was given in its
// present life.
type InputState struct {
	Taken int64 `json:"taken"` // at the instant that the image shows; -1: it has none, or that is not known
	First int64 `json:"first"` // at its first Point in this life; -1: not known, or not in this life

	Printed []int64 `json:"printed,omitempty"` // bytes that it has written to standard output, and to standard error; none: that is not known
}

// ImageInfo describes one durable image; it goes into the schema.
type ImageInfo struct {
	File   string `json:"file"` // name within the snapshot's folder
	Size   int64  `json:"size"`
	Digest string `json:"digest"` // SHA-256 over the section table, hex
	Codec  string `json:"codec"`
	Base   int    `json:"base,omitempty"`  // native: the snapshot it builds on; 0: it is full
	Pause  int64  `json:"pause,omitempty"` // native: ns for which the process stood still
	Note   string `json:"note,omitempty"`  // a remark for the user, e.g. that it was imaged stopped
	Raw    uint64 `json:"raw,omitempty"`   // native: bytes of memory saved
	CPU    int64  `json:"cpu,omitempty"`   // ns of processor time that writing it took
}

// SpawnConfig tells an agent which ranks to start.
type SpawnConfig struct {
	Program rawstring.String    `json:"program"` // absolute path
	Args    rawstring.Strings   `json:"args"`
	Dir     rawstring.String    `json:"dir"`
	Env     rawstring.Strings   `json:"env"`
	Ranks   []int               `json:"ranks"`
	Start   map[int]StartConfig `json:"start"`
}
