// Package places carries out orders about stores in the processes of a node: in keepers, and in the
// head on its own node.
package places

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/flush"
	"github.com/gorun-mpi/gorun/internal/storage/storeurl"
)

// Parts opens this node's part of a store that lies on nodes.
func Parts(name string) func(storeurl.Place) (store.Store, error) {
	return func(p storeurl.Place) (store.Store, error) {
		if p.Kind != node.Kind {
			return nil, storeurl.Unknown(p)
		}
		here, err := node.OpenLocal(p.Folder)
		if err != nil {
			return nil, err
		}
		return &node.Store{Node: name, Here: here}, nil
	}
}

// Opener opens a store on this node. env has the credentials of object stores.
type Opener func(w wire.Store, env []string) (store.Store, error)

// Here is the Opener of a process that offers folders.
func Here(w wire.Store, env []string) (store.Store, error) {
	o := storeurl.Opener{Env: env, Parts: Parts(w.Node)}
	return o.Open(storeurl.Place{Kind: w.Kind, Folder: string(w.Folder)})
}

// Flush carries out an order to a keeper. It returns what was merged, and the processor time that
// this process has used meanwhile, nearly all of it for this.
func Flush(ctx context.Context, open Opener, o *wire.Flush, progress func(int64)) (done wire.Flushed, err error) {
	before := processor()
	defer func() { done.CPU = processor() - before }()
	from, err := open(o.From, o.Env)
	if err != nil {
		return done, fmt.Errorf("read %s: %w", o.From.Kind, err)
	}
	to, err := open(o.To, o.Env)
	if err != nil {
		return done, fmt.Errorf("write %s: %w", o.To.Kind, err)
	}
	if o.Merge != nil {
		done.Merged, err = merge(ctx, from, flush.Set{Store: to, Name: o.ToSet}, o, progress)
		return done, err
	}
	return done, flush.Pieces(ctx, flush.From{Store: from, Name: o.FromSet}, flush.Set{Store: to, Name: o.ToSet}, o.Pieces, flush.Options{Rate: o.Rate, Progress: progress})
}

// merge makes one image of several for each of some ranks.
func merge(ctx context.Context, from store.Store, to flush.Set, o *wire.Flush, progress func(int64)) (all []flush.Merged, err error) {
	by, err := whole.Find(o.Merge.By)
	if err != nil {
		return nil, err
	}
	merger, ok := by.(whole.Merger)
	if !ok {
		return nil, fmt.Errorf("back-end %s does not merge images", o.Merge.By)
	}
	if err := to.Store.Begin(ctx, to.Name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	var pace flush.Pace
	for _, im := range o.Merge.Images {
		m, err := flush.Merge(ctx, merger, from, to, flush.One{Name: im.Name, Seq: o.Merge.Seq, Base: im.Base, Codec: im.Codec, From: im.From}, &pace,
			flush.Options{Rate: o.Rate, Progress: progress})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", im.Name, err)
		}
		all = append(all, m)
	}
	if !to.Store.Shared() { // otherwise the process that has begun the set commits it
		err = to.Store.Commit(ctx, to.Name)
	}
	return all, err
}

// processor is the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
