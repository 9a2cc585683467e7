package remote

import (
	"testing"

	"github.com/gorun-mpi/gorun/cr/store"
)

// seeds are frames of every kind.
func seeds(f *testing.F) {
	for o := opOpen; o < ops; o++ {
		r := request{op: o, id: 7, store: "node", set: "a/1", piece: "p", handle: 1, off: 2, n: 3, whole: true}
		f.Add(r.encode())
		f.Add(seal(append(begin(o, isDone, 1, 9), `{"size":1}`...)))
		f.Add(failed(&r, store.ErrName))
	}
	f.Add(seal(begin(opCheck, isAlive, 1, 0)))
}

// resealed gives fuzzed bytes a right sum, or the parsers behind it would see nothing.
func resealed(p []byte) []byte {
	p = append([]byte(nil), p...)
	if len(p) >= headSize {
		seal(p)
	}
	return p
}

// FuzzServer gives a server what a client may send. What it takes for a request says the same when it is encoded
// again.
func FuzzServer(f *testing.F) {
	seeds(f)
	s := NewServer(named(map[string]Served{"node": dir{store.OpenDir(f.TempDir())}}), func([]byte) error { return nil })
	f.Cleanup(func() { s.Close(); s.done.Wait() })
	f.Fuzz(func(t *testing.T, p []byte) {
		s.Handle(p)
		p = resealed(p)
		fr, err := parse(p)
		if err != nil {
			return
		}
		if r, err := parseRequest(fr); err == nil && string(r.encode()) != string(p) {
			t.Errorf("%x is not %x", r.encode(), p)
		}
		s.Handle(p)
	})
}

// FuzzClient gives a client what a server may answer to calls of all kinds.
func FuzzClient(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, p := range [][]byte{p, resealed(p)} {
			for o := opOpen; o < ops; o++ {
				sent := make(chan []byte, 4)
				c := NewClient(func(q []byte) error { sent <- q; return nil })
				far := c.Store("node")
				done := make(chan struct{})
				go func() {
					defer close(done)
					ask(t, far, o)
				}()
				q := <-sent
				if len(p) >= headSize {
					copy(p[4:8], q[4:8]) // the answer to this very call
					seal(p)
				}
				c.Handle(p)
				c.Close(nil)
				<-done
			}
		}
	})
}

func ask(t *testing.T, far *Far, o op) {
	ctx := t.Context()
	switch o {
	case opOpen:
		far.Open(ctx, "a/1", "p")
	case opRead, opClose:
		r := &reader{c: far.c, ctx: ctx, handle: 1, size: 5}
		if n, err := r.ReadAt(make([]byte, 5), 0); n < 5 && err == nil {
			t.Errorf("%d bytes without an error", n)
		}
	case opStat:
		far.Stat(ctx, "a/1", "p")
	case opList:
		far.List(ctx, "a/1")
	case opSets:
		far.Sets(ctx, "a")
	case opRemove:
		far.Remove(ctx, "a/1")
	case opCheck:
		far.Check(ctx, "a/1", "p", true)
	}
}
