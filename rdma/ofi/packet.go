package ofi

import (
	"encoding/binary"
	"errors"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

type kind uint8

const (
	data   kind = 1 + iota
	reply       // to a read
	done        // with what a reply let read
	ack         // and nothing else
	refuse      // a request
	gone        // the pair
)

type bits uint8

const (
	solicited bits = 1 << iota
	apart          // the bytes are not in the packet, but in places
)

// place is memory of the sender of a packet, for fi_read.
type place struct{ address, key, length uint64 }

// packet is a message of libfabric: headerSize bytes, remoteSize for one-sided requests, and bytes or places.
type packet struct {
	Kind    kind
	Opcode  provider.Opcode // data
	Status  provider.Status // refuse
	Bits    bits
	To      uint32
	Cookie  uint64 // of To; gone: of the pair that is not there
	Number  uint64 // of the request
	Ack     uint64 // requests of the receiver's that are over
	Imm     uint32
	Address uint64 // these with Write, WriteImmediate and Read
	Key     uint64
	Length  uint32
	Places  []place
	Payload []byte
}

const (
	headerSize  = 40
	remoteSize  = 24
	placeSize   = 24
	maxSegments = 16
	magic       = 0x6f
)

var errPacket = errors.New("ofi: not a packet")

func (p *packet) remote() bool { return p.Kind == data && p.Opcode >= provider.Write }

// append appends the packet without Payload, which the caller appends.
func (p *packet) append(b []byte) []byte {
	b = append(b, magic, byte(p.Kind), byte(p.Opcode), byte(p.Status))
	b = binary.LittleEndian.AppendUint32(b, p.To)
	b = binary.LittleEndian.AppendUint64(b, p.Cookie)
	b = binary.LittleEndian.AppendUint64(b, p.Number)
	b = binary.LittleEndian.AppendUint64(b, p.Ack)
	b = binary.LittleEndian.AppendUint32(b, p.Imm)
	b = append(b, byte(p.Bits), byte(len(p.Places)), 0, 0)
	if p.remote() {
		b = binary.LittleEndian.AppendUint64(b, p.Address)
		b = binary.LittleEndian.AppendUint64(b, p.Key)
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Length))
	}
	for _, w := range p.Places {
		b = binary.LittleEndian.AppendUint64(b, w.address)
		b = binary.LittleEndian.AppendUint64(b, w.key)
		b = binary.LittleEndian.AppendUint64(b, w.length)
	}
	return b
}

// parse reads a packet. Payload is of b; Places are the packet's own, used again.
func (p *packet) parse(b []byte) error {
	if len(b) < headerSize || b[0] != magic || b[1] < byte(data) || b[1] > byte(gone) || b[2] > byte(provider.Read) || b[3] > byte(provider.DeviceError) || b[36] > 3 ||
		b[38] != 0 || b[39] != 0 {
		return errPacket
	}
	*p = packet{Kind: kind(b[1]), Opcode: provider.Opcode(b[2]), Status: provider.Status(b[3]), Bits: bits(b[36]), To: binary.LittleEndian.Uint32(b[4:]),
		Cookie: binary.LittleEndian.Uint64(b[8:]), Number: binary.LittleEndian.Uint64(b[16:]), Ack: binary.LittleEndian.Uint64(b[24:]),
		Imm: binary.LittleEndian.Uint32(b[32:]), Places: p.Places[:0]}
	places := int(b[37])
	b = b[headerSize:]
	if p.remote() {
		if len(b) < remoteSize || binary.LittleEndian.Uint64(b[16:]) > 1<<31 {
			return errPacket
		}
		p.Address, p.Key, p.Length = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), uint32(binary.LittleEndian.Uint64(b[16:]))
		b = b[remoteSize:]
	}
	if p.Bits&apart == 0 {
		p.Payload = b
		if places != 0 || p.remote() && p.Opcode != provider.Read && len(b) != int(p.Length) {
			return errPacket
		}
		return nil
	}
	return p.parsePlaces(b, places)
}

func (p *packet) parsePlaces(b []byte, n int) error {
	if n > maxSegments || len(b) != n*placeSize {
		return errPacket
	}
	var sum uint64
	for ; len(b) > 0; b = b[placeSize:] {
		w := place{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}
		if w.length == 0 || w.length > 1<<31 {
			return errPacket
		}
		sum += w.length
		p.Places = append(p.Places, w)
	}
	if sum > 1<<31 || p.remote() && sum != uint64(p.Length) {
		return errPacket
	}
	if !p.remote() {
		p.Length = uint32(sum)
	}
	return nil
}

// bytes returns how many bytes the packet's message has.
func (p *packet) bytes() int {
	if p.Bits&apart != 0 || p.remote() {
		return int(p.Length)
	}
	return len(p.Payload)
}
