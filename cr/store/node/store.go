package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/remote"
)

// Kind is what users and schemas call it.
const Kind = "node"

// Peer is the part of the store on another node.
type Peer struct {
	Node  string
	Files remote.Served
}

// Peers are the other nodes as they are at the moment.
type Peers interface {
	// Peers returns those that can be asked, and the names of those that are known and cannot.
	Peers() (reached []Peer, unreachable []string)
}

// Finder is implemented by Peers if another process asks the nodes for them.
type Finder interface {
	// Find returns the other nodes that have a piece. Errors are those of a Stat.
	Find(ctx context.Context, set, piece string) ([]Peer, error)
}

// Alone is Peers without any; the nodes named are known and cannot be asked.
type Alone []string

// Peers returns the names.
func (a Alone) Peers() ([]Peer, []string) { return nil, a }

// Part is the part of a store on one node.
type Part interface {
	store.Store
	store.Pather
	remote.Served
}

// Store is the store as one process sees it.
type Store struct {
	Node  string // the name of this node
	Here  Part   // nil: this node has no part in it
	Peers Peers
	Name  string // of the kind; "": Kind
	Lost  Lost   // what computes images that no node has good; nil: nothing
}

// Lost offers images that no node has good. Where it cannot, the error is fs.ErrNotExist if nothing was ever kept to compute the image of.
type Lost interface {
	Open(ctx context.Context, set, piece string) (store.Reader, error)
	Stat(ctx context.Context, set, piece string) (store.Info, error)
	Check(ctx context.Context, set, piece string, whole bool) (size int64, digest string, m image.Meta, err error)
}

// lost asks what computes images when all else has failed. Its own error is added if it tells something.
func (s *Store) lost(err error, f func(Lost) error) error {
	if s.Lost == nil {
		return err
	}
	switch e := f(s.Lost); {
	case e == nil:
		return nil
	case errors.Is(e, fs.ErrNotExist):
		return err
	default:
		return fmt.Errorf("%w; computed: %w", err, e)
	}
}

var _ interface {
	store.Store
	remote.Served
} = (*Store)(nil)

// Kind is the name of the kind.
func (s *Store) Kind() string { return cmp.Or(s.Name, Kind) }

// Shared is false.
func (s *Store) Shared() bool { return false }

func (s *Store) local() bool { return s.Here != nil }

var errNoPart = fmt.Errorf("this node has no part in the store: %w", store.ErrReadOnly)

// Begin begins the set on this node.
func (s *Store) Begin(ctx context.Context, set string) error {
	if !s.local() {
		return errNoPart
	}
	return s.Here.Begin(ctx, set)
}

// Create begins a piece on this node.
func (s *Store) Create(ctx context.Context, set, piece string, opt store.Options) (store.Writer, error) {
	if !s.local() {
		return nil, errNoPart
	}
	w, err := s.Here.Create(ctx, set, piece, opt)
	return w, s.named(err)
}

// named says of which node an error tells.
func (s *Store) named(err error) error {
	if err != nil && s.Node != "" {
		err = fmt.Errorf("node %s: %w", s.Node, err)
	}
	return err
}

// Commit makes durable what this node has of the set.
func (s *Store) Commit(ctx context.Context, set string) error {
	if !s.local() {
		return errNoPart
	}
	return s.Here.Commit(ctx, set)
}

// Path is the file of a piece on this node, whether it is there or not.
func (s *Store) Path(set, piece string) (string, error) {
	if !s.local() {
		return "", errNoPart
	}
	return s.Here.Path(set, piece)
}

// Lend lends a slot on this node.
func (s *Store) Lend(ctx context.Context, set, piece string, opt store.Options) (store.Lent, error) {
	l, ok := s.Here.(store.Lender)
	if !ok {
		return store.Lent{}, fmt.Errorf("a store of kind %s lends no slots", s.Kind())
	}
	slot, err := l.Lend(ctx, set, piece, opt)
	if grow := slot.Grow; err == nil {
		slot.Grow = func(bytes int64) error { return s.named(grow(bytes)) }
	}
	return slot, s.named(err)
}

// all returns all parts that can be asked, this node's first.
func (s *Store) all() (parts []Peer, unreachable []string) {
	if s.Peers != nil {
		parts, unreachable = s.Peers.Peers()
	}
	if s.local() {
		parts = slices.Insert(slices.Clone(parts), 0, Peer{s.Node, s.Here})
	}
	return parts, unreachable
}

// answer is what one node has said.
type answer[T any] struct {
	node string
	v    T
	err  error
}

// atOnce bounds how many nodes are asked at once.
const atOnce = 64

// ask asks all nodes at once. The answers are in the order of the nodes.
func ask[T any](parts []Peer, f func(remote.Served) (T, error)) []answer[T] {
	all := make([]answer[T], len(parts))
	turn := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			v, err := f(p.Files)
			all[i] = answer[T]{p.Node, v, err}
		})
	}
	wg.Wait()
	return all
}

// failure makes one error of what went wrong with all nodes. A node that lacks a piece is not an
// error if others failed. what may be on nodes that do not answer.
func failure[T any](what string, all []answer[T], unreachable []string) error {
	var errs []error
	missing := []string(nil)
	for _, a := range all {
		switch {
		case a.err == nil:
		case errors.Is(a.err, store.ErrName):
			return a.err
		case errors.Is(a.err, store.ErrUnreachable):
			unreachable = append(slices.Clone(unreachable), a.node)
		case errors.Is(a.err, fs.ErrNotExist):
			missing = append(missing, a.node)
		default:
			errs = append(errs, fmt.Errorf("%s: %w", a.node, a.err))
		}
	}
	if len(unreachable) > 0 {
		slices.Sort(unreachable)
		errs = append(errs, fmt.Errorf("%w: %s", store.ErrUnreachable, nodes(slices.Compact(unreachable))))
	}
	if len(errs) == 0 {
		if len(missing) == 0 {
			return fmt.Errorf("%s: no node has it: %w", what, fs.ErrNotExist)
		}
		return fmt.Errorf("%s: not on %s: %w", what, nodes(missing), fs.ErrNotExist)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: not on %s; %w", what, nodes(missing), errors.Join(errs...))
	}
	return fmt.Errorf("%s: %w", what, errors.Join(errs...))
}

// nodes names some nodes, not all of hundreds.
func nodes(names []string) string {
	const most = 8
	if n := len(names) - most; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n)
	}
	return strings.Join(names, ", ")
}

func checkNames(set, piece string) error {
	return cmp.Or(store.CheckSet(set), store.CheckPiece(piece))
}

// holders returns the nodes that have a piece, this one first.
func (s *Store) holders(ctx context.Context, set, piece string) ([]Peer, []answer[store.Info], error) {
	if err := checkNames(set, piece); err != nil {
		return nil, nil, err
	}
	parts, unreachable := s.all()
	all := ask(parts, func(f remote.Served) (store.Info, error) { return f.Stat(ctx, set, piece) })
	var have []Peer
	var infos []answer[store.Info]
	for i, a := range all {
		if a.err == nil {
			have, infos = append(have, parts[i]), append(infos, a)
		}
	}
	if len(have) == 0 {
		return nil, nil, failure(set+"/"+piece, all, unreachable)
	}
	return have, infos, nil
}

// Open opens the copy of this node, or else of one that has it, or else what is computed.
func (s *Store) Open(ctx context.Context, set, piece string) (r store.Reader, err error) {
	if s.local() {
		if r, err := s.Here.Open(ctx, set, piece); !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
	}
	if err := checkNames(set, piece); err != nil {
		return nil, err
	}
	have, err := s.others(ctx, set, piece)
	errs := []error{err}
	for _, p := range have {
		r, err := p.Files.Open(ctx, set, piece)
		if err == nil {
			return r, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.Node, err))
	}
	return s.openLost(ctx, set, piece, errors.Join(errs...))
}

// openLost opens what is computed of a piece that nobody has: why.
func (s *Store) openLost(ctx context.Context, set, piece string, why error) (r store.Reader, err error) {
	err = s.lost(why, func(l Lost) (err error) {
		r, err = l.Open(ctx, set, piece)
		return err
	})
	return r, err
}

// OpenGood opens a copy of an image that is good, this node's first, or else what is computed. Each is checked where it lies.
func (s *Store) OpenGood(ctx context.Context, set, piece, digest string) (r store.Reader, err error) {
	have, _, err := s.holders(ctx, set, piece)
	errs := []error{err}
	for _, p := range have {
		_, got, _, err := p.Files.Check(ctx, set, piece, true)
		if err == nil && got != digest {
			err = fmt.Errorf("%w: digest %s instead of %s", image.ErrCorrupt, got, digest)
		}
		if err == nil {
			if r, err = p.Files.Open(ctx, set, piece); err == nil {
				return r, nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.Node, err))
	}
	return s.openLost(ctx, set, piece, errors.Join(errs...))
}

// OpenProved opens the first copy of which proved makes a reader, this node's first, or else what is computed. proved closes what it refuses.
func (s *Store) OpenProved(ctx context.Context, set, piece string, proved func(store.Reader) (store.Reader, error)) (r store.Reader, err error) {
	have, _, err := s.holders(ctx, set, piece)
	errs := []error{err}
	for _, p := range have {
		r, err := p.Files.Open(ctx, set, piece)
		if err == nil {
			r, err = proved(r)
		}
		if err == nil {
			return r, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.Node, err))
	}
	if r, err = s.openLost(ctx, set, piece, errors.Join(errs...)); err != nil {
		return nil, err
	}
	return proved(r)
}

// Stat tells who has a piece; if several have it, the first.
func (s *Store) Stat(ctx context.Context, set, piece string) (info store.Info, err error) {
	_, infos, err := s.holders(ctx, set, piece)
	if err != nil {
		err = s.lost(err, func(l Lost) (err error) {
			info, err = l.Stat(ctx, set, piece)
			return err
		})
		return info, err
	}
	info = infos[0].v
	info.Node = infos[0].node
	return info, nil
}

// List lists what the nodes have of a set. Nodes that do not answer are left out, unless none has it.
func (s *Store) List(ctx context.Context, set string) ([]store.Info, error) {
	if err := store.CheckSet(set); err != nil {
		return nil, err
	}
	parts, unreachable := s.all()
	answers := ask(parts, func(f remote.Served) ([]store.Info, error) { return f.List(ctx, set) })
	var all []store.Info
	found := false
	for _, a := range answers {
		found = found || a.err == nil
		for _, info := range a.v {
			info.Node = a.node
			all = append(all, info)
		}
	}
	if !found {
		return nil, failure(set, answers, unreachable)
	}
	slices.SortFunc(all, func(a, b store.Info) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	return all, nil
}

// Sets lists the sets of all nodes that answer. The error names the others.
func (s *Store) Sets(ctx context.Context, prefix string) ([]string, error) {
	if err := store.CheckSet(prefix); err != nil {
		return nil, err
	}
	parts, unreachable := s.all()
	answers := ask(parts, func(f remote.Served) ([]string, error) { return f.Sets(ctx, prefix) })
	var all []string
	failed := len(unreachable) > 0
	for _, a := range answers {
		all = append(all, a.v...)
		failed = failed || a.err != nil
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if failed {
		return all, failure(prefix, answers, unreachable)
	}
	return all, nil
}

// Remove removes what the nodes that answer have of a set. The error names the others.
func (s *Store) Remove(ctx context.Context, set string) error {
	if err := store.CheckSet(set); err != nil {
		return err
	}
	parts, unreachable := s.all()
	answers := ask(parts, func(f remote.Served) (struct{}, error) { return struct{}{}, f.Remove(ctx, set) })
	if len(unreachable) == 0 && !slices.ContainsFunc(answers, func(a answer[struct{}]) bool { return a.err != nil }) {
		return nil
	}
	return fmt.Errorf("what is left there stays until they answer again: %w", failure(set, answers, unreachable))
}

// Check checks the copies of an image where they lie, this node's first, until one is good, or else what is computed.
func (s *Store) Check(ctx context.Context, set, piece string, whole bool) (size int64, digest string, m image.Meta, err error) {
	have, _, err := s.holders(ctx, set, piece)
	errs := []error{err}
	for _, p := range have {
		size, digest, m, err := p.Files.Check(ctx, set, piece, whole)
		if err == nil {
			return size, digest, m, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.Node, err))
	}
	err = s.lost(errors.Join(errs...), func(l Lost) (err error) {
		size, digest, m, err = l.Check(ctx, set, piece, whole)
		return err
	})
	return size, digest, m, err
}
