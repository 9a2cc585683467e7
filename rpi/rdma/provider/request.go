package provider

import (
	"errors"
	"fmt"
)

// Opcode says what a request of the send queue does.
type Opcode uint8

// Opcodes of requests.
const (
	Send           Opcode = iota // a message to the peer's next receive
	SendImmediate                // with 32 bits that the receive's completion carries
	Write                        // to the peer's memory; takes no receive
	WriteImmediate               // and completes the peer's next receive, whose buffers stay as they are
	Read                         // from the peer's memory to Segments
)

// Opcodes of receives, in completions only.
const (
	Receive      Opcode = 16 + iota // of a Send or SendImmediate
	ReceiveWrite                    // of a WriteImmediate: Bytes is what was written to memory
)

var opcodes = map[Opcode]string{Send: "send", SendImmediate: "send-imm", Write: "write", WriteImmediate: "write-imm",
	Read: "read", Receive: "receive", ReceiveWrite: "receive-write"}

// String is the name as in transcripts.
func (o Opcode) String() string {
	if s, ok := opcodes[o]; ok {
		return s
	}
	return fmt.Sprintf("opcode(%d)", uint8(o))
}

// Flags of requests of the send queue.
type Flags uint8

// Flags.
const (
	Signalled Flags = 1 << iota // completes with a Completion
	Inline                      // bytes are copied when posted; not with Read
	Solicited                   // the receive that it completes is one that Arm(true) waits for
)

// Segment is a piece of registered memory. Its bytes lie within the region of Key. A Segment of no bytes is allowed.
type Segment struct {
	Data []byte
	Key  uint64 // MemoryRegion.LocalKey; of no meaning with Inline
}

// Remote is memory of the peer.
type Remote struct {
	Address uint64 // Base of the region, and an offset
	Key     uint64 // RemoteKey of the region
}

// SendRequest is a request of the send queue (work request).
type SendRequest struct {
	ID        uint64 // for its Completion
	Opcode    Opcode
	Flags     Flags
	Immediate uint32    // SendImmediate, WriteImmediate
	Segments  []Segment // gathered in order; Read: scattered. The device keeps the bytes, not the slice
	Remote    Remote    // Write, WriteImmediate, Read; not looked at if there are no bytes
}

// Bytes returns how many bytes the request moves.
func (r *SendRequest) Bytes() int { return total(r.Segments) }

// ReceiveRequest is a request of a receive queue. A message that is longer than its segments fails at both sides, with
// LengthError here and RemoteInvalid there.
type ReceiveRequest struct {
	ID       uint64
	Segments []Segment // filled in order. The device keeps the bytes, not the slice
}

// Bytes returns how long a message the request can take.
func (r *ReceiveRequest) Bytes() int { return total(r.Segments) }

func total(segments []Segment) (n int) {
	for _, s := range segments {
		n += len(s.Data)
	}
	return n
}

// Completion says that a request is over.
type Completion struct {
	ID           uint64
	QueuePair    uint32 // QueuePair.Number
	Opcode       Opcode // undefined unless Status is Success
	Status       Status
	Bytes        uint32 // Receive, ReceiveWrite, Read
	Immediate    uint32
	HasImmediate bool
	Vendor       uint32 // the device's own number of a failure
}

// Status is how a request ended.
type Status uint8

// Statuses. All but Success leave the queue pair Failed.
const (
	Success         Status = iota
	LengthError            // the message did not fit in the receive, or is longer than the device allows
	ProtectionError        // a segment is not in the region of its key
	Flushed                // the queue pair is Failed for another reason
	RemoteInvalid          // the peer could not make sense of the request
	RemoteAccess           // the peer's key or address does not allow it
	RemoteFailure          // the peer's device failed
	RetryExceeded          // the peer's device does not answer
	DeviceError            // this device failed
)

var statuses = [...]string{"success", "message does not fit in the receive", "local key does not cover the buffer",
	"flushed", "the peer found the request invalid", "the peer's key does not allow it", "the peer's device failed", "the peer does not answer", "the device failed"}

// String tells what happened.
func (s Status) String() string {
	if int(s) < len(statuses) {
		return statuses[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Err is nil for Success, otherwise a *StatusError.
func (s Status) Err() error {
	if s == Success {
		return nil
	}
	return &StatusError{Status: s}
}

// StatusError is a Status as an error.
type StatusError struct{ Status Status }

// Error tells what happened.
func (e *StatusError) Error() string { return "rdma: " + e.Status.String() }

// Errors of calls, for errors.Is. Providers wrap them with what was asked.
var (
	ErrFull        = errors.New("rdma: the queue is full")
	ErrState       = errors.New("rdma: the queue pair's state does not allow it")
	ErrRequest     = errors.New("rdma: invalid request") // opcode, flags, number of segments, inline too long
	ErrLimit       = errors.New("rdma: more than the device has")
	ErrBusy        = errors.New("rdma: still in use")
	ErrUnmapped    = errors.New("rdma: memory is not mapped")
	ErrOverrun     = errors.New("rdma: completion queue overrun")
	ErrUnreachable = errors.New("rdma: the address cannot be reached by this device")
	ErrClosed      = errors.New("rdma: closed")
)
