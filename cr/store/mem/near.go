package mem

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/node"
)

// request is what a Near asks.
type request struct {
	Op    string `json:"op"`
	Set   string `json:"set,omitempty"`
	Piece string `json:"piece,omitempty"`
	Size  int64  `json:"size,omitempty"`
	ID    uint64 `json:"id,omitempty"` // of a slot that was lent
}

// answer is what it hears.
type answer struct {
	Path string       `json:"path,omitempty"`
	ID   uint64       `json:"id,omitempty"`
	All  []store.Info `json:"all,omitempty"`
	Sets []string     `json:"sets,omitempty"`
	Err  string       `json:"err,omitempty"`
	Kind string       `json:"kind,omitempty"` // which of kinds the error is
}

// kinds are the errors that keep what they are on the way.
var kinds = map[string]error{
	"exist": fs.ErrExist, "missing": fs.ErrNotExist, "name": store.ErrName, "room": ErrRoom, "closed": store.ErrClosed, "invalid": fs.ErrInvalid,
}

// maxLine bounds a request or an answer in bytes.
const maxLine = 4 << 20

// far is an error that has come over a stream.
type far struct {
	text string
	kind error // nil: none of kinds
}

func (f *far) Error() string { return f.text }
func (f *far) Unwrap() error { return f.kind }

// failed makes an answer of an error.
func failed(err error) answer {
	a := answer{Err: err.Error()}
	for name, kind := range kinds {
		if errors.Is(err, kind) {
			a.Kind = name
		}
	}
	return a
}

// Near is the memory of this node as another process of the node sees it. It is safe for concurrent use.
type Near struct {
	mu     sync.Mutex
	stream io.ReadWriteCloser
	in     *bufio.Reader
	err    error // the stream is broken
	slots  store.Slots
}

var _ interface {
	node.Part
	store.Lender
} = (*Near)(nil)

// NewNear returns the memory that Serve serves at the other end of a stream, which is its own from then on.
func NewNear(stream io.ReadWriteCloser) *Near {
	return &Near{stream: stream, in: bufio.NewReader(stream)}
}

// Close ends the stream: what is being written is given up.
func (n *Near) Close() error { return errors.Join(n.slots.Close(), n.stream.Close()) }

// ask asks one question.
func (n *Near) ask(r request) (a answer, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.err = n.exchange(&r, &a)
	}
	switch {
	case n.err != nil:
		return a, fmt.Errorf("the memory of this node: %w: %w", store.ErrUnreachable, n.err)
	case a.Err != "":
		return a, &far{a.Err, kinds[a.Kind]}
	}
	return a, nil
}

func (n *Near) exchange(r *request, a *answer) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := n.stream.Write(append(line, '\n')); err != nil {
		return err
	}
	if line, err = readLine(n.in); err != nil {
		return err
	}
	return json.Unmarshal(line, a)
}

// readLine reads a line of bounded length.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("a line of more than %d bytes", maxLine)
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// Kind is Kind.
func (n *Near) Kind() string { return Kind }

// Shared is false.
func (n *Near) Shared() bool { return false }

// Begin begins a set.
func (n *Near) Begin(_ context.Context, set string) error {
	_, err := n.ask(request{Op: "begin", Set: set})
	return err
}

// Lend lends a slot.
func (n *Near) Lend(_ context.Context, set, piece string, opt store.Options) (store.Lent, error) {
	a, err := n.ask(request{Op: "create", Set: set, Piece: piece, Size: opt.Size})
	if err != nil {
		return store.Lent{}, err
	}
	var once sync.Once
	end := func(op string) func() error {
		return func() error {
			err := error(nil)
			if op == "commit" {
				err = store.ErrClosed
			}
			once.Do(func() { _, err = n.ask(request{Op: op, ID: a.ID}) })
			return err
		}
	}
	grow := func(bytes int64) error {
		_, err := n.ask(request{Op: "grow", ID: a.ID, Size: bytes})
		return err
	}
	return store.Lent{Path: a.Path, Grow: grow, Commit: end("commit"), Abort: end("abort")}, nil
}

// Create begins a piece.
func (n *Near) Create(ctx context.Context, set, piece string, opt store.Options) (store.Writer, error) {
	return create(ctx, n, &n.slots, set, piece, opt)
}

// Commit has nothing to do.
func (n *Near) Commit(_ context.Context, set string) error { return store.CheckSet(set) }

// Path is where a piece can be read as a file, while its set is there.
func (n *Near) Path(set, piece string) (string, error) {
	a, err := n.ask(request{Op: "path", Set: set, Piece: piece})
	return a.Path, err
}

// Open opens a piece. Its slot is not used again before it is closed.
func (n *Near) Open(_ context.Context, set, piece string) (store.Reader, error) {
	a, err := n.ask(request{Op: "open", Set: set, Piece: piece})
	if err != nil {
		return nil, err
	}
	r, err := store.OpenFile(a.Path)
	if err != nil {
		n.ask(request{Op: "done", ID: a.ID})
		return nil, err
	}
	return &nearReader{Reader: r, n: n, id: a.ID}, nil
}

type nearReader struct {
	store.Reader
	n    *Near
	id   uint64
	once sync.Once
}

func (r *nearReader) Close() (err error) {
	r.once.Do(func() {
		_, asked := r.n.ask(request{Op: "done", ID: r.id})
		err = errors.Join(r.Reader.Close(), asked)
	})
	return err
}

// Stat tells the size of a piece.
func (n *Near) Stat(_ context.Context, set, piece string) (store.Info, error) {
	a, err := n.ask(request{Op: "stat", Set: set, Piece: piece})
	if err == nil && len(a.All) != 1 {
		err = errors.New("the memory of this node: no answer to stat")
	}
	if err != nil {
		return store.Info{}, err
	}
	return a.All[0], nil
}

// List lists a set.
func (n *Near) List(_ context.Context, set string) ([]store.Info, error) {
	a, err := n.ask(request{Op: "list", Set: set})
	return a.All, err
}

// Sets lists the sets below a prefix.
func (n *Near) Sets(_ context.Context, prefix string) ([]string, error) {
	a, err := n.ask(request{Op: "sets", Set: prefix})
	return a.Sets, err
}

// Remove gives up a set.
func (n *Near) Remove(_ context.Context, set string) error {
	_, err := n.ask(request{Op: "remove", Set: set})
	return err
}

// Check checks an image or a shard.
func (n *Near) Check(ctx context.Context, set, piece string, whole bool) (int64, string, image.Meta, error) {
	return check(ctx, n, set, piece, whole)
}
