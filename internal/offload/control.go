package offload

import (
	"encoding/json"
	"fmt"
)

// Info describes a device as an offload process tells it: gorun-device list prints an array of them.
type Info struct {
	Library  string `json:"library"` // "opencl", "cuda"
	Number   int    `json:"number"`  // among the library's
	Kind     string `json:"kind"`    // "cpu", "gpu", "accelerator" or "other"
	Name     string `json:"name"`
	Platform string `json:"platform"`
	Version  string `json:"version"`   // of the driver
	Memory   uint64 `json:"memory"`    // bytes
	Units    int    `json:"units"`     // compute units
	Clock    int    `json:"clock"`     // MHz, 0: unknown
	MaxGroup int    `json:"max_group"` // work items of a group
	Double   bool   `json:"double"`    // kernels may use double
}

// Complaint begins a line on standard error of gorun-device list about a library that is here and does not work.
const Complaint = "gorun-device: "

// The orders to an offload process. Each is answered by an Answer with the same attempt.
const (
	OrderPause   = "pause"   // take no more commands, finish those taken: answered by Paused
	OrderLate    = "late"    // while it pauses, with that attempt: answered by what it waits for, in Error
	OrderCapture = "capture" // while paused: write the device's content to Path: answered by Captured
	OrderResume  = "resume"  // go on: answered by Running
	OrderRevert  = "revert"  // go on, from wherever the attempt has come; what was captured is discarded
	OrderEnd     = "end"     // answered by Ended
	OrderRoom    = "room"    // it may use Bytes of the device's memory: answers its Room
)

// Order is a packet to the offload process.
type Order struct {
	Op      string   `json:"op"`
	Attempt uint32   `json:"attempt,omitempty"`
	Path    string   `json:"path,omitempty"`    // capture: the file, absolute; it appears when it is whole
	End     bool     `json:"end,omitempty"`     // capture: the process ends then, and the device's memory is free
	Skip    []uint64 `json:"skip,omitempty"`    // capture: memories whose content is elsewhere; restored they are zero
	Passing bool     `json:"passing,omitempty"` // capture: Path is read at once and removed, and need not be durable
	Bytes   int64    `json:"bytes,omitempty"`   // room
	Error   string   `json:"error,omitempty"`   // room: why it cannot have more
}

// Answer is a packet of the offload process. Op is the state that it has reached, or "hello", which is the first one except "begun".
type Answer struct {
	Op      string `json:"op"`
	Attempt uint32 `json:"attempt,omitempty"`
	Error   string `json:"error,omitempty"`   // why the order was refused or failed; Op is the state it has stayed in
	Version int    `json:"version,omitempty"` // hello: of the shared file
	Info    *Info  `json:"info,omitempty"`    // hello: the device
	Taken   uint64 `json:"taken,omitempty"`   // paused, captured: the last command that is done
	Bytes   int64  `json:"bytes,omitempty"`   // captured: of the file; hello of a restored one: read
	Memory  int64  `json:"memory,omitempty"`  // paused, room: bytes that it uses on the device
	Need    int64  `json:"need,omitempty"`    // room: bytes with which it can go on
}

// Begun is the Op of the packet that says that the process is there, and has yet to open its
// device. A process that is not waited for may leave it out.
const Begun = "begun"

// Hello is the Op of the first Answer: the device is open, or cannot be.
const Hello = "hello"

// Room is the Op of an Answer without an order, from a process that shares its device with others:
// it uses less memory than it may (Memory), or waits until it may use more (Need).
const Room = "room"

// MaxPacket is the size of the largest packet, in bytes.
const MaxPacket = 128 << 10

// ParseOrder reads a packet.
func ParseOrder(p []byte) (Order, error) {
	var o Order
	if err := json.Unmarshal(p, &o); err != nil {
		return Order{}, fmt.Errorf("no order: %w", err)
	}
	return o, nil
}

// ParseAnswer reads a packet.
func ParseAnswer(p []byte) (Answer, error) {
	var a Answer
	if err := json.Unmarshal(p, &a); err != nil {
		return Answer{}, fmt.Errorf("no answer of an offload process: %w", err)
	}
	return a, nil
}

// Packet returns an order or an answer as bytes.
func Packet(v any) ([]byte, error) {
	p, err := json.Marshal(v)
	if err == nil && len(p) > MaxPacket {
		err = fmt.Errorf("a packet of %d bytes to or from an offload process; at most %d", len(p), MaxPacket)
	}
	return p, err
}
