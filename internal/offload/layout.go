// Package offload is what a rank and its offload process have in common: a file of shared memory with a ring
// of commands and room for data in transit (staging), and the words on the socket between them. The rank owns
// the file, so it is in the image of the rank, and the process behind it can be replaced.
//
//	rank                     shared file                     offload process            device
//	 put at tail  ---------> | slots | staging | --- take ---------> enqueue ---------> works
//	 wait         <--------- | done            | <-- done ---------- finish  <---------
//
// # Counters
//
//	put by the rank: tail        taken by the process        done        done <= taken <= tail
//
// A ticket is the number of a command: 1, 2, 3, ... Each counter is the newest ticket of its kind. Each has one writer. What a command needs lies
// in its slot and in staging until it is done: nothing of it is elsewhere, and it repeats nothing of an earlier one.
// The effect is as if commands were carried out one after the other. A process may finish many at once.
//
// # The file
//
// Numbers have the byte order of the machine, as both sides are on it. Offsets are in bytes. A header of 4096 bytes, the slots, staging.
//
//	0    magic "GORUNDEV"     8 version u32          12 slots u32, a power of 2   16 bytes of a slot u32
//	24   staging offset u64   32 staging bytes u64   40 epoch u64, one more for each process
//	64   tail u64             72 the process sleeps u32
//	128  taken u64
//	192  done u64             200 the rank sleeps u32
//	256  state u32            264 ticket of the first command that failed u64, 0: none   272 bytes of its text u32
//	512  the text of that failure, to 4095
//
// Slot of ticket t, at 4096 + ((t-1) mod slots) * 512:
//
//	0 op u32   4 flags u32   8 arguments u32   12 status u32, 0 or 1: Alloc or Build failed
//	16 a u64 x 8             80 begin u64      88 end u64: when a kernel ran, ns of CLOCK_MONOTONIC, if asked for
//	                         80 of a Build: 1 + how many parameters the kernel has; 0: unknown   88: 1: it is told which they are
//	96 arguments x 26, each  kind u32, bytes u32, value u64
//	96 of a Build that is done: a byte for each parameter: the bytes of a number, 255 memory, 0 unknown
//
// # Failures
//
// A write, read, copy or run that fails makes the device fail for good. The text is stored, then the ticket.
// Later commands are taken and done without effect. Alloc and Build answer in their slot: others go on.
//
// # Sleeping
//
// A waiter polls for a while, first without and then with yields, then stores 1 in its sleep word,
// polls once more, and sleeps by FUTEX_WAIT: the process, which is one, on its sleep word; the
// rank, where many may wait, on the low half of done. The side that has moved a counter swaps the
// other's sleep word with 0, and wakes all if it was 1. So no wake is lost: what the sleeper has
// seen has changed by then.
//
// # Packages
//
//	phase     when an offload process takes commands, pauses, is captured and goes on: a pure state machine
//	sessions  what an agent does with the offload processes of a rank: a pure state machine
//	share     which of several processes have a device, in turn
//
// The process itself is cmd/gorun-device, its client in a rank device/opencl.
package offload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// What a new file has.
const (
	Version      = 1
	Slots        = 512
	SlotBytes    = 512
	StagingBytes = 8 << 20
	headerBytes  = 4096
	textOffset   = 512

	magic = "GORUNDEV"
)

// Size is the size of a new file.
const Size = headerBytes + Slots*SlotBytes + StagingBytes

// State is what the process tells in the file of where it stands.
type State uint32

// The states.
const (
	Starting State = iota
	Running
	Pausing
	Paused
	Capturing
	Captured
	Ended
	Lost
)

// Shared is the file in memory.
type Shared struct {
	mem     []byte
	slots   uint64
	staging []byte
	luck    atomic.Int32 // see spin; of this process
}

// Format makes a new file's memory, of Size zero bytes at least, a ring without commands.
func Format(mem []byte) (*Shared, error) {
	if len(mem) < Size {
		return nil, fmt.Errorf("offload: %d bytes of shared memory, %d needed", len(mem), Size)
	}
	copy(mem, magic)
	e := binary.NativeEndian
	e.PutUint32(mem[8:], Version)
	e.PutUint32(mem[12:], Slots)
	e.PutUint32(mem[16:], SlotBytes)
	e.PutUint64(mem[24:], headerBytes+Slots*SlotBytes)
	e.PutUint64(mem[32:], StagingBytes)
	return Attach(mem)
}

// Attach checks a file's memory. The memory stays the caller's.
func Attach(mem []byte) (*Shared, error) {
	e := binary.NativeEndian
	if len(mem) < headerBytes || string(mem[:8]) != magic {
		return nil, errors.New("offload: the shared file is none: its first bytes are not " + magic)
	}
	if v := e.Uint32(mem[8:]); v != Version {
		return nil, fmt.Errorf("offload: the shared file has version %d, this program knows %d; build program and gorun-device of the same gorun", v, Version)
	}
	slots, slotBytes := uint64(e.Uint32(mem[12:])), e.Uint32(mem[16:])
	at, n := e.Uint64(mem[24:]), e.Uint64(mem[32:])
	size := uint64(len(mem))
	if slots == 0 || slots&(slots-1) != 0 || slotBytes != SlotBytes || slots > size/SlotBytes ||
		at < headerBytes+slots*SlotBytes || at > size || n > size-at {
		return nil, errors.New("offload: the shared file's header contradicts itself")
	}
	s := &Shared{mem: mem, slots: slots, staging: mem[at : at+n : at+n]}
	if done, taken, tail := s.Done(), s.Taken(), s.Tail(); done > taken || taken > tail || tail-done > slots {
		return nil, fmt.Errorf("offload: the shared file's counters contradict themselves: done %d, taken %d, put %d", done, taken, tail)
	}
	return s, nil
}

func (s *Shared) word(at int) *atomic.Uint64   { return (*atomic.Uint64)(unsafe.Pointer(&s.mem[at])) }
func (s *Shared) word32(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&s.mem[at])) }

// Staging returns the room for data in transit. The rank decides what lies where.
func (s *Shared) Staging() []byte { return s.staging }

// Room returns how many commands may be under way.
func (s *Shared) Room() uint64 { return s.slots }

// Epoch counts the processes that have been behind this file. The starter of a process adds one.
func (s *Shared) Epoch() *atomic.Uint64 { return s.word(40) }

// Tail returns the newest ticket that was put.
func (s *Shared) Tail() uint64 { return s.word(64).Load() }

// Taken returns the newest ticket that was taken.
func (s *Shared) Taken() uint64 { return s.word(128).Load() }

// Done returns the newest ticket that is done, with all before it.
func (s *Shared) Done() uint64 { return s.word(192).Load() }

// SetTaken stores the newest ticket that was taken.
func (s *Shared) SetTaken(t uint64) { s.word(128).Store(t) }

// State returns where the process stands, as it last told.
func (s *Shared) State() State { return State(s.word32(256).Load()) }

// SetState tells where the process stands, and wakes a rank that waits.
func (s *Shared) SetState(st State) {
	s.word32(256).Store(uint32(st))
	s.wakeRank()
}

// Fail stores that command t failed, once: later calls do nothing.
func (s *Shared) Fail(t uint64, text string) {
	if s.word(264).Load() != 0 {
		return
	}
	n := copy(s.mem[textOffset:headerBytes], text)
	s.word32(272).Store(uint32(n))
	s.word(264).Store(t)
}

// Failed returns the ticket and text of the first command that failed, or 0.
func (s *Shared) Failed() (ticket uint64, text string) {
	t := s.word(264).Load()
	if t == 0 {
		return 0, ""
	}
	n := min(s.word32(272).Load(), headerBytes-textOffset)
	return t, string(s.mem[textOffset : textOffset+n])
}

func (s *Shared) slot(t uint64) []byte {
	at := headerBytes + (t-1)&(s.slots-1)*SlotBytes
	return s.mem[at : at+SlotBytes : at+SlotBytes]
}
