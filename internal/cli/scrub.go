package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/storage/flush"
)

// scrubs makes again what is damaged or missing in the copies of a snapshot, from a copy that is good.
func (v *viewer) scrubs(s *snapshot.Snapshot) (*snapshot.Snapshot, error) {
	if lasting := s.Lasting(); lasting == nil || len(lasting.Copies()) < 2 {
		return s, nil // the job itself looks after what it has in memory
	}
	hold, err := s.Hold() // nobody removes it meanwhile
	if err != nil {
		return s, err
	}
	defer hold.Release()
	var errs []error
	for _, to := range s.Lasting().Copies() {
		for rank, im := range s.Schema.Images {
			err := s.CheckIn(to, rank)
			if err == nil {
				continue
			}
			if !elsewhere(s, rank, err) {
				err = mend(s, to, rank)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("snapshot %d of job %s, rank %d %s: %w", s.Schema.Sequence, s.Schema.Job, im.Rank, in(to.Place()), err))
				continue
			}
			fmt.Fprintf(v.std.err, "gorun: made the image of rank %d of snapshot %d of job %s again %s\n", rank, s.Schema.Sequence, s.Schema.Job, in(to.Place()))
		}
	}
	return s, errors.Join(errs...)
}

// elsewhere reports whether an image lies on a node that this machine does not see: nothing is known of it, and it is not made
// again here.
func elsewhere(s *snapshot.Snapshot, rank int, err error) bool {
	own, _ := thisNode(s.Nodes())
	return errors.Is(err, store.ErrUnreachable) && s.Schema.Images[rank].Node != own
}

// mend writes an image of one copy again.
func mend(s *snapshot.Snapshot, to snapshot.Copy, rank int) error {
	im := s.Schema.Images[rank]
	target, set, err := s.At(to)
	if err != nil {
		return err
	}
	err = errors.New("no other copy is good")
	for _, from := range s.Lasting().Copies() {
		if from == to {
			continue
		}
		if e := s.CheckIn(from, rank); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", from.Place(), e))
			continue
		}
		source, name, e := s.At(from)
		if e != nil {
			return e
		}
		ctx := context.Background()
		e = flush.Pieces(ctx, flush.From{Store: source, Name: name}, flush.Set{Store: target, Name: set},
			[]flush.Piece{{Name: im.File, Size: im.Size, Digest: im.Digest}}, flush.Options{})
		if e == nil && target.Shared() {
			e = target.Commit(ctx, set)
		}
		return e
	}
	return err
}

// in is a place for people, within a sentence.
func in(p snapshot.Place) string {
	if p == snapshot.Beside {
		return p.String()
	}
	return "in " + p.String()
}
