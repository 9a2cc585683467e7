package virtual

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/transcript"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// The words of the transcripts. A region's real key is 100 + its count + 1000 * life, the number of a pair likewise from 200 on.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, "testdata/*.txt", func(line string) (transcript.Machine, error) {
		var rank int
		_, err := fmt.Sscanf(line, "rank %d", &rank)
		return &player{m: New(rank)}, err
	})
}

type player struct {
	m    *Machine
	book Book // that is being told
	out  []string
}

func (p *player) say(format string, args ...any) { p.out = append(p.out, fmt.Sprintf(format, args...)) }

func (p *player) Do(event []string) ([]string, error) {
	p.out = nil
	err := p.do(event)
	if err != nil {
		p.say("error: %v", err)
	}
	for _, a := range p.m.Actions() {
		p.act(a)
	}
	return p.out, nil
}

func parseID(s string) ID {
	var letter rune
	var rank int
	var count uint64
	if n, _ := fmt.Sscanf(s, "%c%d.%d", &letter, &rank, &count); n != 3 {
		return 0
	}
	return MakeID(rank, Kind(1+strings.IndexRune("drcsq", letter)), count)
}

// parsePiece reads r0.1:0+64.
func parsePiece(s string) (id ID, off, n int) {
	name, rest, _ := strings.Cut(s, ":")
	_, _ = fmt.Sscanf(rest, "%d+%d", &off, &n)
	return parseID(name), off, n
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func (p *player) act(a Action) {
	real := uint64(1000 * p.m.Life)
	switch a.Do {
	case MakeRegion:
		p.say("register %s", a.ID)
		p.m.Registered(a.ID, 100+a.ID.Count()+real, provider.Remote{Key: 100 + a.ID.Count() + real})
	case MakePair:
		p.say("make %s", a.ID)
		n := 200 + a.ID.Count() + real
		p.m.Paired(a.ID, uint32(n), []byte(strconv.Itoa(int(n))))
	case MakeDomain, MakeQueue, MakeShared:
		p.say("make %s", a.ID)
	case Modify:
		p.say("modify %s to %s %s", a.ID, states[a.Change.To], a.Change.Peer)
	case Close:
		p.say("close %s", a.ID)
	case PostSend:
		q := p.m.Pairs[a.ID]
		for seq := a.From; seq < a.To; seq++ {
			e := q.Sends.find(seq)
			what := fmt.Sprintf("%s: #%d %s", a.ID, seq, e.Opcode)
			if e.Marker {
				what += " marker"
			}
			for _, s := range e.Segments {
				what += fmt.Sprintf(" %d:%d+%d", p.m.Regions[s.Region].key, s.Off, s.Len)
			}
			if len(e.Data) > 0 {
				what += fmt.Sprintf(" inline %q", e.Data)
			}
			if e.Opcode >= provider.Write && len(e.Segments) > 0 {
				to, err := p.m.real(q, &e.Remote, e.Off, e.Segments[0].Len)
				what += fmt.Sprintf(" at %d:%d %v", to.Key, to.Address, err)
			}
			if e.signalled() {
				what += " signalled"
			}
			p.say("%s", what)
		}
	case PostReceive:
		for seq := a.From; seq < a.To; seq++ {
			p.say("%s: receive #%d", a.ID, seq)
		}
	}
}

var states = []string{"reset", "init", "rtr", "rts", "failed"}

func stateOf(s string) provider.State {
	for i, name := range states {
		if name == s {
			return provider.State(i)
		}
	}
	panic(s)
}

func (p *player) do(w []string) (err error) {
	m := p.m
	arg := func(i int) ID { return parseID(w[i]) }
	switch w[0] {
	case "domain":
		_, err = m.NewDomain()
	case "queue":
		_, err = m.NewQueue(number(w[1]))
	case "shared":
		_, err = m.NewShared(arg(1), number(w[2]), 2)
	case "region":
		_, err = m.NewRegion(arg(1), number(w[2]), provider.LocalWrite|provider.RemoteRead|provider.RemoteWrite)
	case "pair": // pair DOMAIN QUEUE DEPTH [SHARED]
		c := PairConfig{Send: arg(2), Receive: arg(2), SendDepth: number(w[3]), ReceiveDepth: number(w[3]), Segments: 2, Inline: 16}
		if len(w) > 4 {
			c.Shared = arg(4)
		}
		_, err = m.NewPair(arg(1), c)
	case "modify": // modify PAIR STATE [PEER DOMAIN ADDRESS]
		var peer PeerPair
		if len(w) > 3 {
			peer = PeerPair{Pair: arg(3), Domain: arg(4), Life: m.Life, Address: []byte(w[5])}
		}
		to, before := strings.CutSuffix(w[2], "-before") // a peer that was told of in the life before
		if before {
			peer.Life--
		}
		err = m.Modify(arg(1), stateOf(to), provider.RemoteRead, peer)
	case "post":
		err = p.post(w[1:])
	case "receive": // receive QUEUE NUMBER [PIECE]
		r := Receive{ID: uint64(number(w[2]))}
		if len(w) > 3 {
			id, off, n := parsePiece(w[3])
			r.Segments = []Segment{{id, off, n}}
		}
		_, err = m.Receive(arg(1), []Receive{r})
	case "done", "got", "failed": // done QUEUE PAIR SEQ [STATUS]
		p.completed(w)
	case "poll":
		var buf [8]Completion
		n := m.Take(arg(1), buf[:])
		p.seen(buf[:n])
	case "close":
		err = m.Close(arg(1))
	default:
		err = p.checkpoint(w)
	}
	return err
}

// post PAIR NUMBER OPCODE [PIECE] [to PIECE] [signalled] [inline TEXT]
func (p *player) post(w []string) error {
	r := Request{ID: uint64(number(w[1]))}
	for op := provider.Send; op <= provider.Read; op++ {
		if op.String() == w[2] {
			r.Opcode = op
		}
	}
	for i := 3; i < len(w); i++ {
		switch w[i] {
		case "signalled":
			r.Flags |= provider.Signalled
		case "inline":
			i++
			r.Flags |= provider.Inline
			r.Data = []byte(w[i])
		case "to":
			i++
			id, off, _ := parsePiece(w[i])
			r.Remote = RemoteRegion{Region: id, Domain: MakeID(id.Rank(), KindDomain, 1), Length: 4096, Real: provider.Remote{Key: 100 + id.Count()}}
			r.Off = uint64(off)
		default:
			id, off, n := parsePiece(w[i])
			r.Segments = append(r.Segments, Segment{id, off, n})
		}
	}
	_, err := p.m.Send(parseID(w[0]), []Request{r})
	return err
}

func (p *player) completed(w []string) {
	seq := uint64(number(w[3]))
	c := provider.Completion{ID: seq, QueuePair: p.m.Pairs[parseID(w[2])].number}
	if w[0] == "got" {
		c.ID |= receiveBit
		c.Opcode = provider.Receive
	}
	if len(w) > 4 {
		c.Status = provider.Status(number(w[4]))
	}
	if seen, ok := p.m.Completed(parseID(w[1]), &c); ok {
		p.seen([]Completion{seen})
	}
}

func (p *player) seen(list []Completion) {
	for _, c := range list {
		p.say("program: %s of %s: %s", strconv.FormatUint(c.ID, 10), c.Pair, c.Status)
	}
}

func (p *player) checkpoint(w []string) error {
	m := p.m
	switch w[0] {
	case "quiesce":
		m.Quiesce()
	case "counts":
		for _, c := range m.Counts() {
			p.say("to %s: posted %d received %d final %v failed %v", c.To, c.Posted, c.Received, c.Final, c.Failed)
		}
	case "tell": // tell FROM TO POSTED RECEIVED [final] [failed]; tell RANK nothing
		if w[2] == "nothing" {
			m.Tell(number(w[1]), nil)
			break
		}
		words := strings.Join(w, " ")
		c := Count{From: parseID(w[1]), To: parseID(w[2]), Posted: uint64(number(w[3])), Received: uint64(number(w[4])),
			Final: strings.Contains(words, "final"), Failed: strings.Contains(words, "failed")}
		m.Tell(c.From.Rank(), []Count{c})
	case "quiet":
		quiet, err := m.Quiet()
		if err != nil {
			return err
		}
		p.say("quiet: %v", quiet)
	case "continue":
		m.Continue()
	case "image":
		data, err := m.MarshalBinary()
		if err != nil {
			return err
		}
		p.m = New(0)
		return p.m.UnmarshalBinary(data)
	case "restart":
		m.Restart()
	case "book":
		for _, b := range m.Book().Pairs {
			p.say("%s: %s", b.Pair, b.Address)
		}
	case "unmapped":
		m.Unmapped(parseID(w[1]))
	case "book-pair":
		p.book.Pairs = append(p.book.Pairs, PeerPair{Pair: parseID(w[1]), Domain: parseID(w[2]), Life: m.Life, Address: []byte(w[3])})
	case "book-region":
		p.book.Regions = append(p.book.Regions, RemoteRegion{Region: parseID(w[1]), Domain: parseID(w[2]), Length: 4096, Life: m.Life, Real: provider.Remote{Key: uint64(number(w[3]))}})
	case "resume":
		m.Learn(p.book)
		p.book = Book{}
		m.Resume()
	default:
		return fmt.Errorf("no event %q", w[0])
	}
	return nil
}
