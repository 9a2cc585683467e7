package rpi

import "time"

// Module is one transport between ranks. It moves whole frames in order between this rank and each peer it
// reaches. It knows nothing of matching, of checkpoints' decisions or of other modules. All methods but Start,
// Peers and Close are called with the engine's lock held, from any goroutine. None may block.
type Module interface {
	// Name is the name used with -rpi.
	Name() string
	// Start opens the transport. It returns the address that the other ranks need to reach it. The address is
	// opaque to everyone else.
	Start(env Env) (addr []byte, err error)
	// Peers tells the addresses of all ranks, indexed by rank. The address is nil if the peer does not run this
	// module. Peers is called once after Start, and again after Restart. The module keeps the slice.
	Peers(addrs [][]byte) error
	// Reaches reports whether this module can carry frames to the peer.
	Reaches(peer int) bool
	// EagerLimit is the largest message in bytes that is sent without an
	// announcement; at most MaxFrame.
	EagerLimit() int
	// Send passes one frame to the module. SendResult tells who owns payload afterwards. If more is true, the
	// caller has further frames for this peer, or its small messages may wait. The module may then hold the
	// bytes back until Flush, Poll or a later Send without more.
	Send(peer int, h *Header, payload []byte, ref Ref, more bool) SendResult
	// Flush writes out what Send has accepted, as far as is possible now. It reports whether every accepted
	// byte has left.
	Flush() bool
	// Poll makes progress. It receives arrived frames, through Sink, and goes on with handshakes
	// and begun frames. It reports whether anything moved.
	Poll() bool
	// Arm is called before the engine waits. It reports whether waiting is allowed. It returns false if
	// something arrived meanwhile, so that Poll must run first.
	Arm() bool
	// Quiesce is called when the gate has closed. From now on no connection is begun. Handshakes in progress
	// are finished or torn down. Poll turns frames that wait in memory shared with peers into private memory.
	// What a native image cannot hold, such as a device or a mapping of its memory, is closed until Continue or Restart.
	Quiesce()
	// Quiet reports whether, after Quiesce, every accepted byte has left and no handshake or direct write is in
	// progress.
	Quiet() bool
	// Continue ends Quiesce: the job goes on in this process.
	Continue()
	// Restart is called instead of Continue when the job goes on as another incarnation. All
	// channels are known to be empty. It forgets them, opens again like Start and returns the new
	// address. Peers follows. The process may have been restored from a native image: its
	// descriptors are dead, and memory that it shared with others is its own. Or it has lived on
	// while other ranks moved: descriptors and memory lead to peers that have not restarted yet,
	// which do nothing with them any more. Restart closes them without a word to the peers. It may
	// follow another Restart that was given up, also one that failed.
	Restart(env Env) (addr []byte, err error)
	// Close releases everything. No method is called afterwards.
	Close() error
}

// SendResult is the result of Module.Send.
type SendResult uint8

const (
	// Full: not accepted and not counted. Sink.Writable(peer) will be called when a new try makes sense.
	Full SendResult = iota
	// Taken: accepted. Header and payload were copied or have left. The payload belongs to the caller again.
	Taken
	// Held: accepted and counted. The module reads payload later. It belongs to the module until
	// Sink.Sent(ref).
	Held
)

// Ref names a Held frame to the engine. Zero is never Held.
type Ref uint64

// Env has the values that a module gets when it starts.
type Env struct {
	Rank, Size  int
	Incarnation uint64
	Secret      []byte // shared by all ranks of the incarnation, for HMAC
	Host        string // address to listen on and to be reached at; "" is loopback
	Sink        Sink
	Wide        bool              // ranks are on several machines: listen at all addresses of this one that others may reach
	Params      map[string]string // module parameters, keys "tcp.eager", ...
	// Denied is called when a parameter cannot be heeded with a peer: this machine, or this
	// process's permissions, do not allow it. The call comes once, in Peers. If it ceases to be
	// allowed later, the call comes then, with the engine's lock held. The error names the
	// parameter and the remedy. nil: nobody is told.
	Denied func(peer int, err error)
	// Suspect is called once a second while nothing has come back from a peer for so long, although
	// its machine should have answered: the way there is cut. 0: it has answered. The call comes
	// with the engine's lock held. nil: nobody is told.
	Suspect func(peer int, silent time.Duration)
	// Ask asks for the address of a peer of which Peers has told one of no bytes, see Asker. The call comes with the
	// engine's lock held. nil: Peers tells all.
	Ask func(peer int)
}

// Sink is the engine's side. The module calls it only from within its own methods, thus with the engine's lock
// held.
type Sink interface {
	// Begin announces an arriving frame by its header, and returns where its payload goes. len(dst) <=
	// h.PayloadLen(). The module reads and drops bytes beyond len(dst). dst stays valid until End or Down. An
	// error means that the stream is corrupt: the module drops the connection and calls Down.
	Begin(peer int, h *Header) (dst []byte, err error)
	// End says that the payload of the frame last begun by this peer is complete. It follows every Begin
	// without error, even for a frame without payload.
	End(peer int)
	// Deliver is Begin, the copy of the payload and End at once, for a frame that is in memory as a whole.
	// len(payload) is h.PayloadLen(). The engine keeps neither header nor payload. Errors: as Begin, and
	// Enough.
	Deliver(peer int, h *Header, payload []byte) error
	// Sent gives back the payload of a Held frame.
	Sent(peer int, ref Ref)
	// Writable says that frames may again be sent to a peer that was Full.
	Writable(peer int)
	// Down says that the channel to the peer is gone; err says why. Whole frames that had arrived were
	// delivered before. The engine decides whether this is a failure. It is one only in Running.
	Down(peer int, err error)
}

// Enough is what Deliver returns instead of nil when it has taken a message and no receive is waiting any more.
// The module should then leave further frames of that peer where they are until the next Poll. By then there
// may be receives for them. A message that comes before its receive has to be kept and copied twice.
var Enough error = enough{}

// IsEnough reports whether err is Enough. It costs a single comparison.
func IsEnough(err error) bool {
	_, is := err.(enough)
	return is
}

type enough struct{}

func (enough) Error() string { return "enough" }

// Waiter is where a process sleeps when it has nothing to do. At most one goroutine is in Wait at a time. It
// does not hold the engine's lock.
type Waiter interface {
	// Wait returns when something may have arrived, when Wake was called since the last Wait returned, or after
	// d. If d < 0 there is no limit.
	Wait(d time.Duration)
	// Wake makes the present or the next Wait return. Any goroutine may call it at any time.
	Wake()
	// Yield gives the CPU to another process that may be about to send to this rank, or to a goroutine if peers
	// are goroutines. It returns at once if there is none.
	Yield()
}

// DirectWriter is implemented by modules that can write straight into a published buffer of a peer (single
// copy, RDMA). The engine publishes the receive buffer when it sends a CTS. The sender writes segments of at
// most MaxDirect bytes. It follows each with a Direct frame, which the bookmarks count. So no direct write is
// in flight once a bookmark was sent.
type DirectWriter interface {
	// Publish makes buf writable for the peer until Withdraw. It returns the key for the peer's Write. The
	// engine keeps buf reachable.
	Publish(peer int, buf []byte) (key uint64, ok bool)
	// Withdraw ends Publish. Afterwards no write lands in the buffer.
	Withdraw(peer int, key uint64)
	// Write copies src to offset off of the buffer that the peer published under key. When it returns it has
	// either completed (true) or not happened (false).
	Write(peer int, key uint64, off uint64, src []byte) bool
}

// DirectReader is implemented by modules that can also copy out of a published buffer of a peer. Both sides of
// a long message then copy at the same time:
//
//   - The engine publishes the source as well (RTS with FlagDirect, and its key in Off).
//   - The receiver reads the first part, in segments of at most MaxDirect bytes. The sender writes the other part.
//   - A Fin frame tells the sender how far the receiver came, and that this was the last read.
//
// The key of Publish serves the peer's Read and Write alike. No Read is begun after Quiesce. After Restart all
// keys are void, and the engine knows it. Each other key is withdrawn once. The peer may have ended, or
// withdrawn the buffer. Read then returns false, or true with bytes that the engine will not use. It never
// harms this process.
type DirectReader interface {
	DirectWriter
	// DirectMin is the smallest length in bytes for which a direct copy pays. A shorter message is sent as Data
	// frames.
	DirectMin() int
	// Read copies len(dst) bytes to dst, from offset off of the buffer that the peer published under key. When
	// it returns it has either completed (true) or failed (false). After a failure the content of dst is
	// arbitrary.
	Read(peer int, key, off uint64, dst []byte) bool
}

// MaxDirect is the largest segment of a direct read or write in bytes.
const MaxDirect = 1 << 20
