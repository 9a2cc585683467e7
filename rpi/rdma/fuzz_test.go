package rdma

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/gorun-mpi/gorun/internal/system/endian"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

func someAddress() address {
	return address{order: endian.Name, port: 7, depth: 16, provider: "soft", network: "udp", at: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::2")},
		links: []link{{to: 3, partner: 9, own: virtual.PeerPair{Pair: 1, Domain: 2, Address: []byte("where")}}}}
}

// FuzzAddress: what is read is written the same.
func FuzzAddress(f *testing.F) {
	a := someAddress()
	f.Add(a.encode())
	f.Add([]byte{1, endian.Name})
	f.Fuzz(func(t *testing.T, p []byte) {
		if a, err := decodeAddress(p); err == nil && !bytes.Equal(a.encode(), p) {
			t.Errorf("%x is %+v", p, a)
		}
	})
}

// FuzzNote: bytes that end with the right seal are a note or are not, and one that is read is written the same.
func FuzzNote(f *testing.F) {
	secret := []byte("secret")
	n := note{flags: noteAsk, from: 1, to: 2, incarnation: 3, pair: 4, yours: 5, domain: 6, depth: 7, nonce: 8, echo: 9, posted: 10, received: 11, address: []byte("here")}
	p := n.encode(secret)
	f.Add(p[:len(p)-32])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		sealed := append(bytes.Clone(p), seal(secret, p)...)
		if n, ok := decodeNote(sealed, secret); ok && !bytes.Equal(n.encode(secret), sealed) {
			t.Errorf("%x is %+v", p, n)
		}
		if _, ok := decodeNote(sealed, []byte("another")); ok {
			t.Error("a stranger's note is taken")
		}
	})
}

// FuzzMessage: a message has a frame that there can be, with its whole payload.
func FuzzMessage(f *testing.F) {
	p := make([]byte, payloadAt+5)
	put(p, kindFrame, 3)
	(&rpi.Header{Kind: rpi.Eager, Len: 5}).Encode(p[frameAt:])
	f.Add(p)
	f.Add(p[:shortSize])
	p = make([]byte, payloadAt+keySize)
	put(p, kindAnnounce, 0)
	(&rpi.Header{Kind: rpi.Data, Len: 9}).Encode(p[frameAt:])
	putKey(p[payloadAt:], &virtual.RemoteRegion{Region: 1, Domain: 2, Length: 9})
	f.Add(p)
	f.Fuzz(func(t *testing.T, p []byte) {
		var m message
		if !m.parse(p) {
			return
		}
		switch {
		case m.kind == kindFrame && (len(m.payload) != m.h.PayloadLen() || !m.h.Valid()):
			t.Errorf("%+v", m)
		case m.kind == kindAnnounce && (m.key.Length != m.h.PayloadLen() || m.key.Length <= 0):
			t.Errorf("%+v", m)
		}
	})
}
