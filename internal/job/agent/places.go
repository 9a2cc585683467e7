package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/cr/store/sealed"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/imagepipe"
	"github.com/gorun-mpi/gorun/internal/storage/storeurl"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Where images lie. The head names stores and pieces. The agent turns them into paths of its node,
// because back-ends and ranks know only files. In a store that is spread over the nodes it begins
// and commits sets for images that are written here. Before a restart it fetches missing images
// from the nodes that have them.

// places are the stores of an agent's order.
type places struct {
	far  *remote.Client // the head, in stores of other nodes
	ways *tickets       // to other nodes

	mu    sync.Mutex
	open  map[string]store.Store // by the name in the order
	lists map[[2]string][]store.Info

	memory *mem.Near // of this node; nil: not needed so far
}

func newPlaces(head *wire.Queue, index int) *places {
	return &places{
		open: map[string]store.Store{}, lists: map[[2]string][]store.Info{}, ways: newTickets(head, index),
		far: remote.NewClient(func(p []byte) error {
			head.Send(oob.Msg{Kind: oob.Files, From: oob.AgentAddr(index), To: oob.Head, Data: p})
			return nil
		}),
	}
}

// store opens a store of the order.
func (a *agent) store(name string) (store.Store, error) {
	return a.places.store(a.order.Stores, name, a.order.Env)
}

// store opens one of the stores that the head has named. env has the credentials of object stores.
func (p *places) store(named map[string]wire.Store, name string, env []string) (store.Store, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if st := p.open[name]; st != nil {
		return st, nil
	}
	w, ok := named[name]
	if !ok {
		return nil, fmt.Errorf("the head's order names no store %q", name)
	}
	o := storeurl.Opener{Env: env, Parts: func(at storeurl.Place) (store.Store, error) { return p.parts(name, w.Node, at) }}
	st, err := o.Open(storeurl.Place{Kind: w.Kind, Folder: string(w.Folder)})
	if errors.Is(err, storeurl.ErrKind) {
		err = fmt.Errorf("%w: is this gorun older than the head's?", err)
	}
	if err != nil {
		return nil, err
	}
	p.open[name] = st
	return st, nil
}

// parts opens a store that lies in parts on nodes, as this node sees it.
func (p *places) parts(name, own string, at storeurl.Place) (store.Store, error) {
	if at.Kind == mem.Kind {
		here, err := p.near(own)
		if err != nil {
			return nil, err
		}
		return mem.Open(own, here, inMemory{others{p, name, own}, here}), nil
	}
	if at.Kind != node.Kind {
		return nil, storeurl.Unknown(at)
	}
	here, err := node.OpenLocal(at.Folder)
	if err != nil {
		return nil, err
	}
	return &node.Store{Node: own, Here: here, Peers: others{p, name, own}}, nil
}

// writeTo makes ready for the image of a rank, of at most so many bytes; 0: unknown. written is
// called when it is whole.
func (a *agent) writeTo(ctx context.Context, cfg *oob.CaptureConfig, size uint64) (to image.Target, written func() error, err error) {
	nothing := func() error { return nil }
	if cfg.Store == "" {
		return image.Path(cfg.Path), nothing, nil
	}
	st, err := a.store(cfg.Store)
	if err != nil {
		return nil, nil, err
	}
	set, piece := path.Split(string(cfg.Path))
	set = path.Clean(set)
	to = image.NewPiece{Context: ctx, Store: st, Set: set, Name: piece, Size: int64(size)}
	if at, ok := st.(store.Pather); ok && !inSlots(st) {
		file, err := at.Path(set, piece)
		if err != nil {
			return nil, nil, err
		}
		to = image.Path(file)
	}
	if st.Shared() {
		return to, nothing, nil
	}
	if err := st.Begin(ctx, set); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, nil, err
	}
	return to, func() error { return st.Commit(ctx, set) }, nil
}

// capturesItself passes a Capture on to a rank that images itself, with the path of its image. It does not
// wait for the disk: the agent is locked.
func (a *agent) capturesItself(r *rankProc, m *oob.Msg, cfg oob.CaptureConfig) {
	c := *m
	before, ready := r.readied, make(chan struct{})
	r.readied = ready
	go func() {
		defer close(ready)
		if before != nil {
			<-before // an order that was given up must not take the place of this one
		}
		file, written, err := a.writtenBy(r, &cfg)
		if err != nil {
			a.head.Send(oob.Msg{
				Kind: oob.Failed, From: int32(r.rank), To: oob.Head, Incarnation: c.Incarnation, Attempt: c.Attempt,
				Data: []byte(a.withRemedy(err).Error()),
			})
			return
		}
		r.written.Store(&written)
		cfg.Store, cfg.Path = "", rawstring.String(file)
		c.Data = wire.JSON(cfg)
		r.down.Send(c)
	}()
}

// writtenBy makes ready for an image that a rank writes itself, and returns the path that the rank is told.
func (a *agent) writtenBy(r *rankProc, cfg *oob.CaptureConfig) (file string, written func() error, err error) {
	r.giveBack()
	to, written, err := a.writeTo(context.Background(), cfg, 0)
	if err != nil {
		return "", nil, err
	}
	p, ok := to.(image.NewPiece)
	if !ok {
		return to.String(), written, nil
	}
	if inSlots(p.Store) {
		cfg.Slot = true
		return a.lend(r, p)
	}
	o, err := imagepipe.Writer(p.Name, func(ctx context.Context) (store.Writer, error) {
		return p.Store.Create(ctx, p.Set, p.Name, store.Options{})
	})
	if err != nil {
		return "", nil, err
	}
	r.outlets.add(o)
	return o.Path, written, nil
}

// outlets are those of a rank.
type outlets struct {
	mu   sync.Mutex
	all  []*imagepipe.Pipe
	over bool
}

// add adds one, and ends those before it: a rank writes or reads one image at a time.
func (o *outlets) add(one *imagepipe.Pipe) {
	o.mu.Lock()
	before, over := o.all, o.over
	o.all = []*imagepipe.Pipe{one}
	o.mu.Unlock()
	for _, b := range before {
		b.Close()
	}
	if over {
		one.Close()
	}
}

// close ends them with the rank.
func (o *outlets) close() {
	o.mu.Lock()
	all := o.all
	o.all, o.over = nil, true
	o.mu.Unlock()
	for _, one := range all {
		one.Close()
	}
}

// selfWritten makes the name of an image durable that a rank has reported as written. It returns
// the message for the head.
func (a *agent) selfWritten(r *rankProc, m oob.Msg) oob.Msg {
	if written := r.written.Load(); written != nil {
		if err := (*written)(); err != nil {
			m.Kind, m.A, m.B, m.Data = oob.Failed, 0, 0, []byte(a.withRemedy(err).Error())
			return m
		}
	}
	return r.lent.Load().named(m)
}

// bring makes sure that the images of a rank are here.
func (a *agent) bring(r *rankProc) error {
	ctx, cancel := a.untilQuit()
	defer cancel(nil)
	r.images = map[int]image.Source{}
	for i, im := range a.order.Images[r.rank] {
		from, err := a.bringOne(ctx, a.order.Stores, &im)
		if err != nil {
			return fmt.Errorf("its image of snapshot %d: %w", im.Seq, err)
		}
		r.images[im.Seq] = from
		if i == 0 {
			r.first, r.image = im.Seq, from.String()
		}
	}
	return nil
}

// bringAndRead brings the image of a rank that reads it itself.
func (a *agent) bringAndRead(r *rankProc) error {
	if err := a.bring(r); err != nil {
		return err
	}
	return a.readBy(r)
}

// readBy lets the rank read its image itself, when it has been brought.
func (a *agent) readBy(r *rankProc) error {
	p, ok := r.images[r.first].(image.Piece)
	if !ok {
		return nil
	}
	o, err := imagepipe.Reader(p.Name, func(ctx context.Context) (store.Reader, error) { return p.Store.Open(ctx, p.Set, p.Name) })
	if err != nil {
		return err
	}
	r.outlets.add(o)
	r.image = o.Path
	return nil
}

// untilQuit is a context that ends with the agent.
func (a *agent) untilQuit() (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		select {
		case <-a.quit:
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// bringOne makes sure that an image can be read from here: the first of its copies that is good. A
// single copy is checked by its reader. named are the stores that the head has named.
func (a *agent) bringOne(ctx context.Context, named map[string]wire.Store, im *wire.Image) (image.Source, error) {
	if len(im.Or) == 0 {
		return a.bringCopy(ctx, named, im)
	}
	var errs []error
	for _, c := range append([]wire.Image{*im}, im.Or...) {
		from, err := a.bringCopy(ctx, named, &c)
		if err == nil {
			err = goodImage(from, c.Digest)
		}
		if err == nil || ctx.Err() != nil {
			return from, err
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no copy is good: %w", errors.Join(errs...))
}

// goodImage reads all of an image.
func goodImage(from image.Source, digest string) error {
	r, err := from.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if r.Digest() != digest {
		return fmt.Errorf("%s: %w: digest %s instead of %s", from, image.ErrCorrupt, r.Digest(), digest)
	}
	return r.Verify()
}

// bringCopy makes sure that a copy of an image can be read from here.
func (a *agent) bringCopy(ctx context.Context, named map[string]wire.Store, im *wire.Image) (image.Source, error) {
	if im.Store == "" {
		return image.Path(im.Path), nil
	}
	st, err := a.places.store(named, im.Store, a.order.Env)
	if err != nil {
		return nil, err
	}
	if n, proof := onNodes(st, im); n != nil {
		if _, err := n.Fetch(ctx, im.Set, im.Piece, proof, nil); err != nil {
			if im.Node != "" && im.Node != n.Node {
				err = fmt.Errorf("%w (node %s has written it)", err, im.Node)
			}
			return nil, err
		}
	}
	at, ok := st.(store.Pather)
	if !ok {
		// It is read when this context has ended.
		return image.Piece{Context: context.WithoutCancel(ctx), Store: st, Set: im.Set, Name: im.Piece}, nil
	}
	file, err := at.Path(im.Set, im.Piece)
	return image.Path(file), err
}

// onNodes returns the store on nodes that has an image, if it is one, and what tells a good copy.
func onNodes(st store.Store, im *wire.Image) (*node.Store, node.Proof) {
	proof := node.Image(im.Digest)
	if s, ok := st.(*sealed.Store); ok {
		st = s.Store
		inner := proof
		proof = func(r io.ReaderAt, size int64) error {
			u, err := s.Reader(here{r, size}, im.Set, im.Piece)
			if err != nil {
				return err
			}
			return inner(u, u.Size())
		}
	}
	n, _ := st.(*node.Store)
	return n, proof
}

// here is a piece that is open and stays so.
type here struct {
	io.ReaderAt
	size int64
}

func (h here) Size() int64  { return h.size }
func (h here) Close() error { return nil }

// selfConfig reads a Capture for a rank that images itself; ok is false if it is nothing of the kind.
func selfConfig(m *oob.Msg) (cfg oob.CaptureConfig, ok bool) {
	err := json.Unmarshal(m.Data, &cfg)
	return cfg, err == nil && cfg.Mode != oob.ModeNative && cfg.Store != ""
}
