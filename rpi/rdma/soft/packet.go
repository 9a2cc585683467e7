package soft

import (
	"encoding/binary"
	"errors"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

type kind uint8

const (
	data kind = 1 + iota
	ack
	reply
	gone
)

type bits uint8

const (
	first bits = 1 << iota
	last
	solicited
	notReady
)

// packet is one datagram: headerSize bytes and the payload.
type packet struct {
	Kind     kind
	Opcode   provider.Opcode // data
	Status   provider.Status // ack
	Bits     bits
	To, From uint32 // numbers of pairs
	Cookie   uint64 // of To; gone: of the pair that is not there
	Number   uint64
	Address  uint64 // of Write and Read, of this packet's bytes
	Key      uint64
	Imm      uint32
	Length   uint32 // of the message; Read: of this packet's answer
	Payload  []byte
}

const headerSize = 56

const magic = 0x67

var errPacket = errors.New("soft: not a packet")

func (p *packet) append(b []byte) []byte {
	b = append(b, magic, byte(p.Kind), byte(p.Opcode), byte(p.Status), byte(p.Bits), 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, p.To)
	b = binary.LittleEndian.AppendUint32(b, p.From)
	b = binary.LittleEndian.AppendUint64(b, p.Cookie)
	b = binary.LittleEndian.AppendUint64(b, p.Number)
	b = binary.LittleEndian.AppendUint64(b, p.Address)
	b = binary.LittleEndian.AppendUint64(b, p.Key)
	b = binary.LittleEndian.AppendUint32(b, p.Imm)
	b = binary.LittleEndian.AppendUint32(b, p.Length)
	return append(b, p.Payload...)
}

// parse reads a datagram. The payload stays where it is.
func (p *packet) parse(b []byte) error {
	if len(b) < headerSize || b[0] != magic || b[1] < byte(data) || b[1] > byte(gone) || provider.Opcode(b[2]) > provider.Read || provider.Status(b[3]) > provider.DeviceError {
		return errPacket
	}
	le := binary.LittleEndian
	*p = packet{Kind: kind(b[1]), Opcode: provider.Opcode(b[2]), Status: provider.Status(b[3]), Bits: bits(b[4]),
		To: le.Uint32(b[8:]), From: le.Uint32(b[12:]), Cookie: le.Uint64(b[16:]), Number: le.Uint64(b[24:]),
		Address: le.Uint64(b[32:]), Key: le.Uint64(b[40:]), Imm: le.Uint32(b[48:]), Length: le.Uint32(b[52:]), Payload: b[headerSize:]}
	return nil
}
