package rdma

import (
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// Types of requests and completions. Package rpi/rdma/virtual documents their fields.
type (
	// ID names an object of any rank. It stays the same over restarts. Zero is none.
	ID = virtual.ID
	// PeerPair is what the peer of a pair has to know: Pair.Address. It stays valid over restarts.
	PeerPair = virtual.PeerPair
	// RemoteRegion is what peers have to know of a region: Region.Key. It stays valid over restarts, until the region is closed.
	RemoteRegion = virtual.RemoteRegion
	// Request is a request of a send queue.
	Request = virtual.Request
	// Receive is a request of a receive queue.
	Receive = virtual.Receive
	// Segment is a piece of a region: Region.At.
	Segment = virtual.Segment
	// Completion says that a request is over.
	Completion = virtual.Completion
	// Access says what a region may be used for, or a pair's peer may do.
	Access = provider.Access
	// Info describes a device.
	Info = provider.Info
	// State is that of a pair.
	State = provider.State
)

// Kinds of access, and together. RemoteWrite goes with LocalWrite.
const (
	LocalWrite  = provider.LocalWrite
	RemoteRead  = provider.RemoteRead
	RemoteWrite = provider.RemoteWrite
)

// Opcodes of requests, and of receives in completions.
const (
	Send           = provider.Send           // a message to the peer's next receive
	SendImmediate  = provider.SendImmediate  // with 32 bits that the receive's completion has
	Write          = provider.Write          // to the peer's memory; takes no receive
	WriteImmediate = provider.WriteImmediate // and completes the peer's next receive
	Read           = provider.Read           // from the peer's memory
	Received       = provider.Receive        // completion of a receive by a Send
	ReceivedWrite  = provider.ReceiveWrite   // and by a WriteImmediate
)

// Flags of requests.
const (
	Signalled = provider.Signalled // completes with a Completion
	Inline    = provider.Inline    // bytes are copied from Request.Data when posted
	Solicited = provider.Solicited // the receive wakes a peer that waits for such
)

// Success is the Status of a request that was carried out.
const Success = provider.Success

// Errors of calls, for errors.Is.
var (
	ErrFull    = provider.ErrFull    // the queue is full
	ErrState   = provider.ErrState   // the pair's state does not allow it
	ErrRequest = provider.ErrRequest // invalid request
	ErrBusy    = provider.ErrBusy    // still in use by another object
	ErrKey     = virtual.ErrKey      // the region is closed, or not of the pair's domain, or shorter
	ErrNoSuch  = virtual.ErrNoSuch   // the object is closed, or is another device's
	ErrQuiet   = virtual.ErrQuiet    // between Quiesce and Continue
)
