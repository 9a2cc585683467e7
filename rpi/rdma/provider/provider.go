package provider

// Provider finds and opens devices of one kind.
type Provider interface {
	// Name is the name used with -param rdma.provider=.
	Name() string
	// List returns the devices that can be opened, the best first. If there is none, the error says why, and the
	// remedy, as gorun info shows it. List opens nothing for good.
	List() ([]Info, error)
	// Open opens the device of that name. "" is the first of List.
	Open(name string) (Device, error)
}

// Info describes a device and what it can do.
type Info struct {
	Name    string // "rxe0", "tcp;ofi_rxm"
	Detail  string // for people: adapter, port, network address, library and version
	Manual  bool   // moves bytes only while its process polls
	Limits  Limits
	Network string // devices with the same Network reach each other; "" is nobody but this process. See OneMachine
}

// OneMachine is what the Network of a device begins with that reaches other processes of its machine, but no other machine. What
// follows tells machines apart.
const OneMachine = "machine "

// Limits are upper bounds, in bytes where not said otherwise.
type Limits struct {
	QueuePairs   int    // number
	SendDepth    int    // requests of a send queue
	ReceiveDepth int    // requests of a receive queue, shared or not
	Completions  int    // of a completion queue, number
	Segments     int    // of a request, number
	Inline       int    // data of an inline request
	Message      uint64 // data of a request
	Region       uint64 // a memory region
}

// Device is an opened one.
type Device interface {
	Info() Info
	// AllocDomain makes a protection domain.
	AllocDomain() (ProtectionDomain, error)
	// CreateCompletionQueue makes a queue with room for depth completions, or more.
	CreateCompletionQueue(depth int) (CompletionQueue, error)
	// Close closes all that was made of the device, and the device. Peers are not told.
	Close() error
	// Abandon frees what this process has of a device that was opened in the life before, of which this process
	// is a restored image: descriptors and mappings are dead, or other things by now, and are not touched. It is called
	// instead of Close.
	Abandon()
}

// ProtectionDomain is a set of regions and queues that may be used together. Keys are unique within it.
type ProtectionDomain interface {
	// Register makes memory known to the device. buf is not empty. ErrUnmapped: it is not readable, or not
	// writable and access has LocalWrite.
	Register(buf []byte, access Access) (MemoryRegion, error)
	CreateQueuePair(QueuePairConfig) (QueuePair, error)
	CreateSharedReceiveQueue(depth, segments int) (SharedReceiveQueue, error)
	Close() error
}

// Access says what a region may be used for, or a queue pair's peer may do. Requests of this side may always read a region.
type Access uint8

// Kinds of access. RemoteWrite goes with LocalWrite.
const (
	LocalWrite Access = 1 << iota
	RemoteRead
	RemoteWrite
)

// MemoryRegion is registered memory.
type MemoryRegion interface {
	// LocalKey goes into Segments of requests of this domain.
	LocalKey() uint64
	// RemoteKey goes into Remote of the peer's requests. It serves peers whose queue pair is of this domain.
	RemoteKey() uint64
	// Base is what the peer adds to an offset within the region for Remote.Address. It may be any number.
	Base() uint64
	// Close ends the registration. Nothing lands in the memory afterwards. A request that still names it, here or at a
	// peer, fails: ProtectionError here, RemoteAccess there.
	Close() error
}

// CompletionQueue collects completions of the queue pairs made with it.
type CompletionQueue interface {
	// Poll moves completions to dst and returns how many. It makes progress for the whole device,
	// also with an empty dst. ErrOverrun: the queue had no room for a completion; it and its pairs
	// cannot be used any more.
	Poll(dst []Completion) (int, error)
	// Arm has Descriptor get readable once, by the next completion that is added; with solicited alone, by the next
	// receive that its sender has marked Solicited, or that fails. What is in the queue already does not count: poll once more after Arm, before waiting.
	Arm(solicited bool) error
	// Descriptor is a descriptor for poll(2) and epoll(7). The provider owns it. It is the same one as long as the queue is open.
	Descriptor() int
	// Acknowledge takes what Descriptor had to tell. It is called when the descriptor was readable, before Poll.
	Acknowledge() error
	Close() error
}

// State is that of a queue pair.
type State uint8

// States. SQD and SQE of the specification are not used.
const (
	Reset State = iota
	Init
	ReadyToReceive
	ReadyToSend
	Failed // "Error" in the specification
)

// Change is a change of a queue pair's state.
type Change struct {
	To     State
	Access Access // Init: what the peer may do by RDMA; a request of no bytes needs it, too
	Peer   []byte // ReadyToReceive: Address of the peer's queue pair
}

// QueuePairConfig is what a queue pair is made of. Both completion queues may be the same one.
type QueuePairConfig struct {
	SendQueue, ReceiveQueue CompletionQueue
	Shared                  SharedReceiveQueue // nil: the pair has receives of its own
	SendDepth               int                // requests that are posted and not known to be over
	ReceiveDepth            int                // 0 with Shared
	Segments                int                // of a request
	Inline                  int                // bytes of an inline request
}

// QueuePair is one end of a connection.
type QueuePair interface {
	// Number names the pair in Completions. It is unique among those that are open on the device.
	Number() uint32
	// Address is what the peer needs for ReadyToReceive: some 10 to 500 bytes that only the same kind of provider
	// understands. It does not change, but may be another one after Reset.
	Address() []byte
	State() State
	// Modify changes the state. ErrState: not from the present one.
	Modify(Change) error
	// PostSend appends to the send queue, and tells the device once (one doorbell). It returns how many were taken,
	// and why not the next one: ErrFull, ErrState (not ReadyToSend or Failed), ErrRequest. The slice is the caller's again.
	PostSend([]SendRequest) (int, error)
	// PostReceive appends to the receive queue, likewise, from Init on. ErrState also if the pair has a shared queue.
	PostReceive([]ReceiveRequest) (int, error)
	Close() error
}

// SharedReceiveQueue holds receives for all queue pairs made with it.
type SharedReceiveQueue interface {
	PostReceive([]ReceiveRequest) (int, error) // as QueuePair.PostReceive
	Close() error
}
