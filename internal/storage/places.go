package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/s3"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/storeurl"
)

// Where images lie, as the head sees it: beside their schemas, or in folders of the nodes. Those of
// other nodes are reached through their keepers. Agents ask the head for images that they lack, and
// it passes these on.

// beside reports whether the job's images lie beside their schemas, where all nodes see them.
func (sv *Service) beside() bool { return sv.place() == snapshot.Beside }

// place is where the job's images go; the zero value: beside their schemas.
func (sv *Service) place() snapshot.Place {
	p := storeurl.Place{}
	switch o := sv.opt; {
	case o.CkptStore != "":
		p = storeurl.Place{Kind: s3.Kind, Folder: o.CkptStore}
	case o.CkptLocal != "":
		p = storeurl.Place{Kind: node.Kind, Folder: o.CkptLocal}
	}
	return sv.sealed(snapshot.Place(p), sv.opt.CkptKey)
}

// placeOf is where the copies of a level go.
func (sv *Service) placeOf(l *spec.Level) snapshot.Place {
	return sv.sealed(l.Place, cmp.Or(l.Key, sv.opt.CkptKey))
}

// sealed is a place, sealed with the key of a file. Without a file the place is returned unchanged.
func (sv *Service) sealed(p snapshot.Place, keyFile string) snapshot.Place {
	if keyFile == "" {
		return p
	}
	if p == snapshot.Beside {
		return snapshot.Place(storeurl.Beside(sv.cat.Root(), keyFile))
	}
	return snapshot.Place(storeurl.Place(p).Sealed(keyFile))
}

// lookAtPlaces checks whether images can go to their places, before the first checkpoint, which may
// be hours away. A requirement that this machine lacks is an error. A store that does not answer
// now is not.
func (sv *Service) lookAtPlaces() error {
	if sv.opt.CR == "" {
		return nil
	}
	if err := sv.lookAt(sv.place(), "checkpoints"); err != nil {
		return err
	}
	for i := range sv.opt.Levels {
		l := &sv.opt.Levels[i]
		if err := sv.lookAt(sv.placeOf(l), "copies to level "+l.Name); err != nil {
			return fmt.Errorf("level %s: %w", l.Name, err)
		}
	}
	return nil
}

func (sv *Service) lookAt(p snapshot.Place, what string) error {
	if p == snapshot.Beside {
		return nil
	}
	st, err := sv.openPlace(p, nil)
	if err != nil || storeurl.Place(p).Inner().Kind != s3.Kind {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	if _, err := st.Sets(ctx, sv.id); err != nil {
		sv.say("warning: %s will fail if this stays so: %v", what, err)
	}
	return nil
}

// lookWithin is how long a store may take to answer at the start.
const lookWithin = 5 * time.Second

// ownName is the name of the head's node, "" if the job has no part in it.
func (sv *Service) OwnName() string {
	if sv.nodes == nil {
		return wire.Hostname()
	}
	return sv.nodes.OwnName()
}

// nodeNames are the nodes of the job.
func (sv *Service) NodeNames() []string {
	if sv.nodes == nil {
		return []string{wire.Hostname()}
	}
	return sv.nodes.Names()
}

// openPlace opens, for the catalogue, a place of images that do not lie beside their schemas.
func (sv *Service) openPlace(p snapshot.Place, known []string) (store.Store, error) {
	return sv.opener(known, "").Open(storeurl.Place(p))
}

// opener opens stores, and leaves out one node.
func (sv *Service) opener(known []string, without string) storeurl.Opener {
	return storeurl.Opener{Env: sv.opt.Env, Parts: func(p storeurl.Place) (store.Store, error) {
		if p.Kind == mem.Kind {
			return sv.openMem(without)
		}
		return sv.openWithout(snapshot.Place(p), known, without)
	}}
}

// openWithout opens a store on nodes, without its seal, and leaves out one node.
func (sv *Service) openWithout(p snapshot.Place, known []string, without string) (*node.Store, error) {
	if p = snapshot.Place(storeurl.Place(p).Inner()); p.Kind != node.Kind {
		return nil, storeurl.Unknown(storeurl.Place(p))
	}
	own := sv.OwnName()
	s := &node.Store{Node: own, Peers: &keepers{sv, p.Folder, known, without}}
	if own == "" || own == without {
		return s, nil
	}
	folder, err := node.Expand(p.Folder, own)
	if err == nil {
		s.Here, err = node.OpenLocal(folder)
	}
	return s, err
}

// keepers are the nodes except the head's own.
type keepers struct {
	sv      *Service
	folder  string
	known   []string // nodes that may have parts of it from before
	without string
}

// Peers asks the fleet.
func (k *keepers) Peers() (reached []node.Peer, unreachable []string) {
	var all []string
	if f := k.sv.nodes; f != nil {
		reached, unreachable = f.Files(func(name string) (string, error) { return node.Expand(k.folder, name) })
		all = f.Names()
	}
	reached = slices.DeleteFunc(reached, func(p node.Peer) bool { return p.Node == k.without })
	own := k.sv.OwnName()
	for _, name := range k.known {
		if name != own && !slices.Contains(all, name) && !slices.Contains(unreachable, name) {
			unreachable = append(unreachable, name)
		}
	}
	return reached, unreachable
}
