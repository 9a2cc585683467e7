package tcp

import (
	"net/netip"
	"testing"

	"github.com/gorun-mpi/gorun/internal/system/ifaddr"
	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
)

// FuzzFrames feeds bytes to an established connection in pieces of two sizes:
// whatever they are, the sink sees frames that obey the rules, or Down.
func FuzzFrames(f *testing.F) {
	var h [rpi.HeaderSize]byte
	for _, head := range []rpi.Header{eager(1, 5), {Kind: rpi.RTS, Len: 1 << 60}, {Kind: rpi.Data, Len: rpi.MaxFrame}} {
		head.Encode(h[:])
		f.Add(append(h[:], "hello and more than that, so that a second header is begun"...), uint16(7), uint8(3))
	}
	f.Add([]byte{}, uint16(1), uint8(1))
	f.Fuzz(func(t *testing.T, p []byte, piece uint16, part uint8) {
		if len(p) > 8<<10 {
			p = p[:8<<10]
		}
		w := newWorld(t, 2)
		defer w.Close()
		w.Connect(1, 0)
		w.S[0].Keep = func(h *rpi.Header) int { return h.PayloadLen() / (int(part%4) + 1) }
		fd := w.M[1].conns[0].fd
		for size := int(piece)%256 + 1; len(p) > 0; p = p[min(size, len(p)):] {
			unix.Write(fd, p[:min(size, len(p))])
			w.M[0].Poll()
		}
		w.M[1].Close()
		w.M[1] = w.M[0]
		w.Until("down", func() bool { return len(w.S[0].Downs[1]) > 0 })
		if len(w.S[0].Downs[1]) != 1 || len(w.M[0].conns) != 0 {
			t.Fatal("not ended cleanly")
		}
	})
}

// FuzzCaller feeds bytes to a module that listens: nobody gets in without the
// secret, nothing stays behind.
func FuzzCaller(f *testing.F) {
	f.Add(greeting0(nil))
	f.Add(append(greeting0(nil), make([]byte, proofSize)...))
	f.Add(greeting0(func(h *hello) { h.version = 7 }))
	f.Add([]byte("GET / HTTP/1.0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		w := newWorld(t, 3)
		defer w.Close()
		fd := call(t, w.Addrs[0])
		unix.Write(fd, p)
		for range 5 {
			w.M[0].Poll()
		}
		if len(w.M[0].conns) != 0 {
			t.Fatal("got in")
		}
		unix.Close(fd)
		w.Until("gone", func() bool { return len(w.M[0].guests) == 0 })
		if len(w.S[0].Downs) != 0 {
			t.Fatal("a caller has harmed a rank")
		}
	})
}

// FuzzAnswer has a module call somebody who answers with arbitrary bytes.
func FuzzAnswer(f *testing.F) {
	f.Add(encodeVerdict(codeGo))
	f.Add(append(encodeVerdict(codeGo), make([]byte, answerSize)...))
	f.Add(encodeVerdict(codeRank))
	f.Add([]byte("SSH-2.0-OpenSSH_9.9\r\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		w := newWorld(t, 2)
		defer w.Close()
		m := w.M[0]
		h := eager(0, 0)
		m.Send(1, &h, nil, 0, false)
		// Take the call in place of module 1.
		other := w.M[1]
		defer func() { other.Close() }()
		lfd := other.lfd
		var fd int
		w.M[1] = m
		w.Until("called", func() bool {
			var err error
			fd, _, err = unix.Accept4(lfd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			return err == nil
		})
		unix.Write(fd, p)
		for range 5 {
			m.Poll()
		}
		if len(m.conns) != 0 {
			t.Fatal("believed an answer without proof")
		}
		unix.Close(fd)
		// Told to come later it calls again: there must be nobody any more.
		other.Close()
		other = New()
		w.Until("ended", func() bool { return len(w.S[0].Downs[1]) > 0 })
	})
}

func FuzzAddress(f *testing.F) {
	f.Add([]byte{addressVersion, littleEndian, 1, 2, 4, 8, 2, 127, 0, 0, 1, 'l', 'o'})
	f.Add(address{littleEndian, 7, []ifaddr.Address{
		{Interface: "eth0", IP: netip.MustParseAddr("10.1.0.7"), Bits: 24}, {IP: netip.MustParseAddr("fd00::7"), Bits: 64},
	}}.encode())
	f.Add(make([]byte, 20))
	f.Fuzz(func(t *testing.T, p []byte) {
		a, err := decodeAddress(p)
		if err == nil && string(a.encode()) != string(p) {
			t.Fatalf("%x decodes to %v, which encodes to %x", p, a, a.encode())
		}
	})
}
