package rpi_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/rpi"
)

// post is a complete transport, as small as possible. Its ranks are goroutines of one process. They send each
// other frames through Go channels, one for each pair. It never keeps a payload, so it never answers Held. It
// offers nothing optional.
type post struct {
	*rpi.ChanWaiter // where the rank sleeps; a peer that changes a box wakes its owner

	env   rpi.Env
	peers []*post // by rank; nil: not reached
	boxes []box   // by peer
	addr  string
}

// box is what a peer has left at a rank.
type box struct {
	frames  chan []byte // headers and payloads
	starved atomic.Bool // the peer found no room
	room    atomic.Bool // this rank found none at the peer, and there may be some
	gone    atomic.Bool // the peer has closed
	down    bool        // and the engine knows
}

// offices are the posts of the process by address.
var offices sync.Map

func newPost() *post { return &post{ChanWaiter: rpi.NewChanWaiter()} }

// Name is the name for -rpi.
func (m *post) Name() string { return "post" }

// Start makes the boxes. A transport over a network would listen here, on env.Host. It would let in only peers
// that know env.Secret.
func (m *post) Start(env rpi.Env) (addr []byte, err error) {
	m.env, m.peers, m.boxes = env, make([]*post, env.Size), make([]box, env.Size)
	for i := range m.boxes {
		m.boxes[i].frames = make(chan []byte, 16)
	}
	m.addr = fmt.Sprintf("%p", m)
	offices.Store(m.addr, m)
	return []byte(m.addr), nil
}

// Peers finds the others. A peer that does not run this transport has no address.
func (m *post) Peers(addrs [][]byte) error {
	for i, addr := range addrs {
		if p, ok := offices.Load(string(addr)); ok && i != m.env.Rank {
			m.peers[i] = p.(*post)
		}
	}
	return nil
}

// Reaches reports whether there are boxes for the peer.
func (m *post) Reaches(peer int) bool {
	return peer >= 0 && peer < len(m.peers) && m.peers[peer] != nil
}

// EagerLimit is small: longer messages are announced and come in pieces.
func (m *post) EagerLimit() int { return 8 << 10 }

// Send leaves a frame in the peer's box. The payload stays the caller's.
func (m *post) Send(peer int, h *rpi.Header, payload []byte, _ rpi.Ref, _ bool) rpi.SendResult {
	p := m.peers[peer]
	b := &p.boxes[m.env.Rank]
	frame := make([]byte, rpi.HeaderSize+len(payload))
	h.Encode(frame)
	copy(frame[rpi.HeaderSize:], payload)
	for range 2 { // once more after the peer could see that a Writable is owed
		select {
		case b.frames <- frame:
			p.Wake()
			return rpi.Taken
		default:
			b.starved.Store(true)
		}
	}
	return rpi.Full
}

// Flush has nothing to do: nothing is held back.
func (m *post) Flush() bool { return true }

// Poll gives the engine what there is. Nothing here blocks, and nothing calls the engine except through its
// Sink.
func (m *post) Poll() (moved bool) {
	for peer := range m.boxes {
		b := &m.boxes[peer]
		gone := b.gone.Load() // before the last frames are looked for
		moved = m.empty(peer) || moved
		if b.room.Swap(false) {
			m.env.Sink.Writable(peer)
			moved = true
		}
		if gone && !b.down && len(b.frames) == 0 {
			b.down = true
			m.env.Sink.Down(peer, errors.New("post: it has closed"))
			moved = true
		}
	}
	return moved
}

// empty delivers the frames of a peer until the engine has had enough.
func (m *post) empty(peer int) (moved bool) {
	b := &m.boxes[peer]
	for !b.down {
		select {
		case frame := <-b.frames:
			moved = true
			var h rpi.Header
			if !h.Decode(frame) || h.PayloadLen() != len(frame)-rpi.HeaderSize {
				b.down = true
				m.env.Sink.Down(peer, errors.New("post: a corrupt frame"))
				return true
			}
			switch err := m.env.Sink.Deliver(peer, &h, frame[rpi.HeaderSize:]); {
			case rpi.IsEnough(err):
				return true
			case err != nil:
				b.down = true
				m.env.Sink.Down(peer, err)
				return true
			}
			if p := m.peers[peer]; b.starved.Swap(false) {
				p.boxes[m.env.Rank].room.Store(true)
				p.Wake()
			}
		default:
			return moved
		}
	}
	return moved
}

// Arm lets the rank sleep if there is nothing to poll. A frame that comes later wakes it, by a token in the
// ChanWaiter.
func (m *post) Arm() bool {
	for i := range m.boxes {
		if b := &m.boxes[i]; !b.down && (len(b.frames) > 0 || b.gone.Load()) || b.room.Load() {
			return false
		}
	}
	return true
}

// Quiesce, Quiet and Continue have nothing to do. There are no handshakes, and accepted frames are where their
// receiver finds them.
func (m *post) Quiesce()    {}
func (m *post) Quiet() bool { return true }
func (m *post) Continue()   {}

// Restart comes after an image was restored. The channels are known to be empty, so it makes new ones.
func (m *post) Restart(env rpi.Env) (addr []byte, err error) { return m.Start(env) }

// Close tells the peers. They still find the frames that this rank has sent.
func (m *post) Close() error {
	offices.Delete(m.addr)
	for _, p := range m.peers {
		if p != nil {
			p.boxes[m.env.Rank].gone.Store(true)
			p.Wake()
		}
	}
	return nil
}

// printer stands in for an engine in this example.
type printer struct{ rank int }

func (p printer) Deliver(peer int, h *rpi.Header, payload []byte) error {
	fmt.Printf("rank %d: tag %d from rank %d: %s\n", p.rank, h.Tag, peer, strconv.Quote(string(payload)))
	return nil
}
func (p printer) Begin(int, *rpi.Header) ([]byte, error) { return nil, nil }
func (p printer) End(int)                                {}
func (p printer) Sent(int, rpi.Ref)                      {}
func (p printer) Writable(int)                           {}
func (p printer) Down(peer int, err error)               { fmt.Printf("rank %d: rank %d: %v\n", p.rank, peer, err) }

// A transport from its registration to the end of a job of two ranks. The example spells out what a launcher
// and the engines do otherwise: start, tell everybody all addresses, send, poll.
func Example() {
	rpi.Register("post", func() rpi.Module { return newPost() })

	factory, _ := rpi.Lookup("post")
	var modules [2]rpi.Module
	var addrs [2][]byte
	for rank := range modules {
		modules[rank] = factory()
		addrs[rank], _ = modules[rank].Start(rpi.Env{Rank: rank, Size: 2, Sink: printer{rank}})
	}
	for _, m := range modules {
		if err := m.Peers(addrs[:]); err != nil {
			fmt.Println(err)
		}
	}
	hello := []byte("hello")
	h := rpi.Header{Kind: rpi.Eager, Tag: 7, Len: uint64(len(hello))}
	if modules[0].Send(1, &h, hello, 0, false) == rpi.Taken {
		modules[1].Poll()
	}
	modules[0].Close()
	modules[1].Poll()
	modules[1].Close()
	// Output:
	// rank 1: tag 7 from rank 0: "hello"
	// rank 1: rank 0: post: it has closed
}
