package rpi

import "time"

// Module is one transport between ranks: the request progression interface.
// A module moves whole frames in order between this rank and each peer it
// reaches, and knows nothing of matching, of checkpoints' decisions or of other
// modules. All methods but Start, Peers and Close are called with the engine's
// lock held, by whoever holds it; none may block.
type Module interface {
	// Name is the name used with -rpi.
	Name() string
	// Start opens the transport and returns the address that the other ranks
	// need to reach it, opaque to everyone else.
	Start(env Env) (addr []byte, err error)
	// Peers tells the addresses of all ranks, indexed by rank; nil where the
	// peer does not run this module. Called once after Start, and again after
	// Restart. The module keeps the slice.
	Peers(addrs [][]byte) error
	// Reaches reports whether this module can carry frames to the peer.
	Reaches(peer int) bool
	// EagerLimit is the largest message in bytes that is sent without an
	// announcement; at most MaxFrame.
	EagerLimit() int
	// Send hands over one frame. See SendResult for who owns payload after.
	// If more is true the caller has further frames for this peer at once, or
	// is a caller of small messages that may wait: the module may hold the
	// bytes back until Flush, Poll or a later Send without more.
	Send(peer int, h *Header, payload []byte, ref Ref, more bool) SendResult
	// Flush writes out what Send has accepted, as far as possible now, and
	// reports whether every accepted byte has left.
	Flush() bool
	// Poll makes progress: receives whatever has arrived (through Sink), goes
	// on with handshakes and begun frames. It reports whether anything moved.
	Poll() bool
	// Arm is called before the engine waits: it reports whether waiting is
	// allowed; false if something arrived meanwhile and Poll must run first.
	Arm() bool
	// Quiesce is called when the gate has closed: from now on no connection is
	// begun; handshakes in progress are finished or torn down. Frames that
	// wait in memory shared with peers are turned into private memory by Poll.
	Quiesce()
	// Quiet reports whether, after Quiesce, no handshake and no direct write
	// is in progress and every accepted byte has left.
	Quiet() bool
	// Continue ends Quiesce: the job goes on in this process.
	Continue()
	// Restart is called instead of Continue in a process that came back from
	// a whole-process image: descriptors of the transport are dead. It
	// forgets all channels (known to be empty), opens anew like Start and
	// returns the new address; Peers follows.
	Restart(env Env) (addr []byte, err error)
	// Close releases everything. No method is called afterwards.
	Close() error
}

// SendResult says what became of a frame given to Module.Send.
type SendResult uint8

const (
	// Full: not taken and not counted. Sink.Writable(peer) will be called when
	// it is worth trying again.
	Full SendResult = iota
	// Taken: accepted; header and payload were copied or have left. The payload
	// belongs to the caller again.
	Taken
	// Held: accepted, counted; the module reads payload later. It belongs to
	// the module until Sink.Sent(ref).
	Held
)

// Ref names a Held frame to the engine. Zero is never Held.
type Ref uint64

// Env is what a module is told when it starts.
type Env struct {
	Rank, Size  int
	Incarnation uint64
	Secret      []byte // shared by all ranks of the incarnation, for HMAC
	Host        string // address to listen on and to be reached at; "" is loopback
	Sink        Sink
	Params      map[string]string // module parameters, keys "tcp.eager", ...
	// Denied is told what a parameter asks for and this machine, or what this process
	// may do on it, does not allow with a peer: once, in Peers or, with the engine's
	// lock held, when it ceases to be allowed. The error names the parameter and
	// the remedy. nil: nobody is told.
	Denied func(peer int, err error)
}

// Sink is what a module tells the engine. All calls are made from within the
// module's methods, thus with the engine's lock held.
type Sink interface {
	// Begin announces an arriving frame by its header and returns where its
	// payload goes. len(dst) <= h.PayloadLen(); bytes beyond len(dst) are
	// read and dropped by the module. dst stays valid until End or Down.
	// An error means the stream is corrupt: the module drops the connection
	// and calls Down.
	Begin(peer int, h *Header) (dst []byte, err error)
	// End says that the payload of the frame last begun by this peer is there.
	// It follows every Begin without error, also of frames without payload.
	End(peer int)
	// Deliver is Begin, the copy of the payload and End at one go, for a frame
	// of which all bytes are in memory. len(payload) is h.PayloadLen(); neither
	// header nor payload is kept. Errors as Begin's, and Enough.
	Deliver(peer int, h *Header, payload []byte) error
	// Sent gives back the payload of a Held frame.
	Sent(peer int, ref Ref)
	// Writable says that a peer that was Full may be tried again.
	Writable(peer int)
	// Down says that the channel to the peer is gone, err why; whole frames
	// that had arrived were delivered before. Whether that is a failure, the
	// engine decides (it is one only in Running).
	Down(peer int, err error)
}

// AlikeSink is implemented by sinks that take messages of one envelope and length at one
// go.
type AlikeSink interface {
	// DeliverAlike is Deliver for count Eager frames with the same header, whose
	// payloads follow one another. It takes those, from the first on, of which that is
	// simple, and returns how many; the rest is for Deliver. If enough is true that had
	// better wait, as after Enough.
	DeliverAlike(peer int, h *Header, payloads []byte, count int) (taken int, enough bool)
}

// Enough is what Deliver returns instead of nil when it has taken a message and no
// receive is left that waits for one: the module had better leave what else has
// come from that peer where it is until the next Poll, by when there may be
// receives for it, for what comes before its receive has to be kept and copied
// twice.
var Enough error = enough{}

// IsEnough reports whether err is Enough, by a single comparison.
func IsEnough(err error) bool {
	_, is := err.(enough)
	return is
}

type enough struct{}

func (enough) Error() string { return "enough" }

// Waiter is where a process sleeps when nothing is left to do. At most one
// goroutine is in Wait at a time; it does not hold the engine's lock.
type Waiter interface {
	// Wait returns when something may have arrived, when Wake was called
	// since the last Wait returned, or after d (d < 0: no limit).
	Wait(d time.Duration)
	// Wake makes the present or the next Wait return. Any goroutine may call
	// it at any time.
	Wake()
	// Yield lets somebody else have the CPU who may be about to send to this
	// rank: another process, or a goroutine if peers are goroutines. It
	// returns at once if there is nobody.
	Yield()
}

// DirectWriter is implemented by modules that can write straight into a
// published buffer of a peer (single copy, RDMA). The engine publishes the
// receive buffer when it sends a CTS, the sender writes segments of at most
// MaxDirect bytes and follows each with a Direct frame, which is what the
// bookmarks count: no direct write is in flight once a bookmark was sent.
type DirectWriter interface {
	// Publish makes buf writable for the peer until Withdraw and returns the
	// key that the peer's Write takes. The engine keeps buf reachable.
	Publish(peer int, buf []byte) (key uint64, ok bool)
	// Withdraw ends Publish; afterwards no write lands in the buffer.
	Withdraw(peer int, key uint64)
	// Write copies src to offset off of the buffer that the peer published
	// under key. It is complete on return, or did not happen (false).
	Write(peer int, key uint64, off uint64, src []byte) bool
}

// DirectReader is implemented by modules that can also copy out of a published
// buffer of a peer. Both sides of a long message then copy at the same time: the
// engine publishes the source as well (RTS, FlagDirect and its key in Off), the
// receiver reads the first part in segments of at most MaxDirect bytes while
// the sender writes the other, and a Fin frame tells the sender how far that
// came and that it was the last read. Publish is as before: its key serves the
// peer's Read and Write alike. No Read is begun after Quiesce, and after
// Restart all keys are void, which the engine knows; each other key is
// withdrawn once. The peer may have ended, or withdrawn the buffer: Read then
// returns false, or true with bytes that the engine will not use, but it never
// harms this process.
type DirectReader interface {
	DirectWriter
	// DirectMin is the length in bytes from which on a message is worth a
	// direct copy; a shorter one is sent as Data frames.
	DirectMin() int
	// Read copies len(dst) bytes from offset off of the buffer that the peer
	// published under key to dst. It is complete on return, or did not happen
	// (false), and then dst may hold anything.
	Read(peer int, key, off uint64, dst []byte) bool
}

// MaxDirect is the largest segment of a direct read or write in bytes.
const MaxDirect = 1 << 20

// Boards is implemented by modules with memory of each rank that others can read
// in place: teams (see Engine.OpenTeam) are made of it. A board is written by its
// owner alone.
type Boards interface {
	// Boards returns how many bytes (see BoardSize) of each of this rank's boards
	// a team should use, those first that it should use first. The slice stays the
	// module's.
	Boards() []int
	// Board returns this rank's board i, at the start of a line of memory, all
	// zeros at first. It may have more bytes than are used of it. nil: there is
	// none with that number.
	Board(i int) []byte
	// PeerBoard returns the peer's board i for reading, nil where it is not
	// reached. If one rank reaches another's boards, so does that one.
	PeerBoard(peer, i int) []byte
	// Ring wakes those of the peers that sleep or are about to. What the caller
	// stored before is seen by whoever is about to sleep and not woken, if it
	// looks after Arm.
	Ring(peers []int)
	// Asleep reports whether Ring would wake the peer.
	Asleep(peer int) bool
	// Ask marks board i of a peer; Asked reports whether some peer has marked
	// this rank's board i since it was last called. Marks may be lost in a restart.
	Ask(peer, i int)
	Asked(i int) bool
	// Copy is copy, to or from a board.
	Copy(to, from []byte) int
}

// Shortcut is implemented by modules whose short messages can do without a header of
// the engine's and without upcalls. Its methods are for plain Eager messages; what
// they do not take goes the long way, so each may refuse whatever it likes.
type Shortcut interface {
	// SendShort is Send, with the result Taken, of a message without flags. False:
	// nothing was done, and Send is to be called.
	SendShort(peer int, ctx uint64, tag int32, typ uint32, payload []byte, more bool) bool
	// TakeShort is a Poll for a caller who waits for one message. If the next frame
	// of the peer is a message of that context, tag and type and no longer than buf,
	// it is copied there, and is as if it had been delivered: its length is returned.
	// Otherwise nothing is delivered: TakeNone says that a Poll would find nothing to do,
	// TakeOther that the caller had better poll, TakePart that buf holds a part of the
	// message, all of which a Poll will deliver when the rest is there.
	TakeShort(peer int, ctx uint64, tag int32, typ uint32, buf []byte) int
	// Open returns what was sent last to the peer, always the same until Restart.
	Open(peer int) *Open
}

const (
	TakeNone  = -1
	TakeOther = -2
	TakePart  = -3
)
