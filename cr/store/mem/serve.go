package mem

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/gorun-mpi/gorun/cr/store"
)

// service is what one Near has of a memory.
type service struct {
	m    *Memory
	next uint64
	lent map[uint64]store.Lent // slots that it writes to
	open map[uint64]store.Reader
}

// mostOpen bounds what one Near may have open, slots and pieces each.
const mostOpen = 4096

// Serve answers a Near on the same node until its stream ends, and then gives up what it was
// writing. The other end is trusted to be on this node: it is told paths.
func Serve(m *Memory, stream io.ReadWriter) error {
	s := &service{m: m, lent: map[uint64]store.Lent{}, open: map[uint64]store.Reader{}}
	defer s.end()
	in := bufio.NewReader(stream)
	for {
		line, err := readLine(in)
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return err
		}
		a, err := s.answer(line)
		if err != nil {
			return err
		}
		out, err := json.Marshal(&a)
		if err != nil {
			return err
		}
		if _, err := stream.Write(append(out, '\n')); err != nil {
			return err
		}
	}
}

func (s *service) end() {
	for _, l := range s.lent {
		l.Abort()
	}
	for _, r := range s.open {
		r.Close()
	}
}

// answer carries out a request. An error breaks the protocol.
func (s *service) answer(line []byte) (answer, error) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return answer{}, fmt.Errorf("a request for memory: %w", err)
	}
	a, err := s.do(&r)
	if err != nil {
		return failed(err), nil
	}
	return a, nil
}

func (s *service) do(r *request) (a answer, err error) {
	ctx := context.Background()
	switch r.Op {
	case "begin":
		return a, s.m.Begin(ctx, r.Set)
	case "create":
		return s.create(ctx, r)
	case "commit", "abort", "grow":
		l, ok := s.lent[r.ID]
		if !ok {
			return a, fmt.Errorf("slot %d: %w", r.ID, store.ErrClosed)
		}
		if r.Op == "grow" {
			return a, l.Grow(r.Size)
		}
		delete(s.lent, r.ID)
		if r.Op == "abort" {
			return a, l.Abort()
		}
		return a, l.Commit()
	case "path":
		a.Path, err = s.m.Path(r.Set, r.Piece)
	case "open":
		return s.opened(ctx, r)
	case "done":
		if o := s.open[r.ID]; o != nil {
			delete(s.open, r.ID)
			return a, o.Close()
		}
	case "stat":
		a.All = make([]store.Info, 1)
		a.All[0], err = s.m.Stat(ctx, r.Set, r.Piece)
	case "list":
		a.All, err = s.m.List(ctx, r.Set)
	case "sets":
		a.Sets, err = s.m.Sets(ctx, r.Set)
	case "remove":
		err = s.m.Remove(ctx, r.Set)
	default:
		err = fmt.Errorf("%.40q is nothing that a memory can be asked: is one of the two gorun older?", r.Op)
	}
	return a, err
}

func (s *service) create(ctx context.Context, r *request) (a answer, err error) {
	if len(s.lent) >= mostOpen {
		return a, fmt.Errorf("more than %d slots are lent", mostOpen)
	}
	l, err := s.m.Lend(ctx, r.Set, r.Piece, store.Options{Size: r.Size})
	if err != nil {
		return a, err
	}
	s.next++
	s.lent[s.next] = l
	return answer{Path: l.Path, ID: s.next}, nil
}

func (s *service) opened(ctx context.Context, r *request) (a answer, err error) {
	if len(s.open) >= mostOpen {
		return a, fmt.Errorf("more than %d pieces are open", mostOpen)
	}
	o, err := s.m.Open(ctx, r.Set, r.Piece)
	if err != nil {
		return a, err
	}
	path := o.(*reader).s.path()
	s.next++
	s.open[s.next] = o
	return answer{Path: path, ID: s.next}, nil
}
