package rxe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// Commands of ib_user_verbs.h.
const (
	cmdGetContext = iota
	cmdQueryDevice
	cmdQueryPort
	cmdAllocDomain
	cmdFreeDomain
	_
	_
	_
	_
	cmdRegister
	_
	_
	_
	cmdUnregister
	_
	_
	_
	cmdCreateChannel
	cmdCreateQueue
	_
	cmdDestroyQueue
	_
	_
	cmdNotify
	cmdCreatePair
	_
	cmdModifyPair
	cmdDestroyPair
	cmdPostSend
	cmdPostReceive
	_
	_
	cmdCreateShared
	_
	_
	cmdDestroyShared
)

// Arguments and answers of commands, without the address of the answer, as the kernel lays them out.
type (
	handle struct{ Handle uint32 }
	doomed struct{ Handle, _ uint32 }

	contextAnswer struct{ Async, Vectors uint32 }

	deviceAnswer struct {
		_                                                               [3]uint64 // version, identities
		RegionMax, _                                                    uint64
		_, _, _, Pairs, Requests, _, Segments, _, Queues, Completions   uint32
		_, _, ReadsHere, _, _, ReadsThere, _, _, _, _, _, _, _, _, _, _ uint32
		_, _, _, _, SharedRequests, SharedSegments                      uint32
		_                                                               [8]uint8
	}
	portArgs   struct{ Port, _ uint64 } // one byte, and what is reserved
	portAnswer struct {
		_, Message, _, _, _ uint32
		_, _, _             uint16
		State, _, MTU       uint8
		_                   [11]uint8
	}

	registerArgs struct {
		Start, Length, Address uint64
		Domain, Access         uint32
	}
	registerAnswer struct{ Handle, Local, Remote uint32 }

	queueArgs struct {
		_             uint64
		Depth, Vector uint32
		Channel, _    int32
	}
	queueAnswer struct {
		Handle, Depth uint32
		Ring          place
	}
	notifyArgs struct{ Handle, Solicited uint32 }

	pairArgs struct {
		_                                                              uint64
		Domain, Send, Receive, Shared                                  uint32
		SendDepth, ReceiveDepth, SendSegments, ReceiveSegments, Inline uint32
		SignalAll, Type, IsShared, _                                   uint8
	}
	pairAnswer struct {
		Handle, Number                                                    uint32
		SendDepth, ReceiveDepth, SendSegments, ReceiveSegments, Inline, _ uint32
		Receives, Sends                                                   place
	}

	sharedArgs struct {
		_                              uint64
		Domain, Depth, Segments, Limit uint32
	}
	sharedAnswer struct {
		Handle, Depth, Segments, Number uint32
		Ring                            place
		_, _                            uint32
	}

	route struct {
		GID                                   [16]uint8
		_                                     uint32
		_, _                                  uint16
		Index, Hops, _, _, _, _, Global, Port uint8
	}
	modifyArgs struct {
		To, _                                                  route
		Handle, Mask, _, ReceivePSN, SendPSN, Peer, Access     uint32
		_, _                                                   uint16
		State, _, MTU, _, _, ReadsOut, ReadsIn, NotReady, Port uint8
		Timeout, Retries, NotReadyRetries, _, _                uint8
		_                                                      [2]uint8
	}

	postArgs struct{ Handle, Requests, Segments, Size uint32 }
)

// place is where a ring is mapped.
type place struct {
	Offset  uint64
	Size, _ uint32
}

// command has the kernel carry out one. answer is nil for those that have none.
func (d *Device) command(number uint32, args, answer any) error {
	if d.closed {
		return provider.ErrClosed
	}
	text, err := d.encode(number, args, answer)
	if err != nil {
		return err
	}
	if _, err := unix.Write(d.fd, text); err != nil {
		return explain(err)
	}
	if answer != nil {
		_, err = binary.Decode(d.answer[:binary.Size(answer)], binary.NativeEndian, answer)
	}
	return err
}

// encode writes a command, whose answer goes to the device's memory for that.
func (d *Device) encode(number uint32, args, answer any) ([]byte, error) {
	text := make([]byte, 8, 160)
	size := 0
	if answer != nil {
		size = binary.Size(answer)
		text = binary.NativeEndian.AppendUint64(text, uint64(uintptr(unsafe.Pointer(&d.answer[0]))))
	}
	text, err := binary.Append(text, binary.NativeEndian, args)
	binary.NativeEndian.PutUint32(text, number)
	binary.NativeEndian.PutUint16(text[4:], uint16(len(text)/4))
	binary.NativeEndian.PutUint16(text[6:], uint16(size/4))
	return text, err
}

// explain gives the kernel's errors the provider's names.
func explain(err error) error {
	for e, name := range map[error]error{unix.EBUSY: provider.ErrBusy, unix.EFAULT: provider.ErrUnmapped} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", name, err)
		}
	}
	if errors.Is(err, unix.ENOMEM) {
		return fmt.Errorf("%w: %w (raise ulimit -l if memory was to be registered)", provider.ErrLimit, err)
	}
	return fmt.Errorf("rxe: %w", err)
}
