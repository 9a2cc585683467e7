package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/s3"
	"github.com/gorun-mpi/gorun/cr/store/sealed"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/storeurl"
)

// openCatalogue opens the snapshots in a folder. Of images in folders of nodes this command reaches those of this
// machine; a job reaches its other nodes as well.
func openCatalogue(root string) (*snapshot.Catalogue, error) {
	c, err := snapshot.Open(root)
	if err == nil {
		c.Stores(openPlace)
	}
	return c, err
}

// openPlace opens a store of images that do not lie beside their schemas.
func openPlace(p snapshot.Place, nodes []string) (store.Store, error) {
	o := storeurl.Opener{Parts: func(p storeurl.Place) (store.Store, error) { return openParts(p, nodes) }}
	return o.Open(storeurl.Place(p))
}

// openParts opens this machine's part of a store on nodes.
func openParts(p storeurl.Place, nodes []string) (store.Store, error) {
	if p.Kind == mem.Kind {
		return mem.Over{}, nil // the job itself reaches it, if it is not over
	}
	if p.Kind != node.Kind {
		return nil, storeurl.Unknown(p)
	}
	own, others := thisNode(nodes)
	folder, err := node.Expand(p.Folder, own)
	if err != nil {
		return nil, err
	}
	here, err := node.OpenLocal(folder)
	if err != nil {
		return nil, err
	}
	return &node.Store{Node: own, Here: here, Peers: node.Alone(others)}, nil
}

// stores reads what -ckpt-store and -ckpt-key say. A place in an object store is kept with all that the environment says
// of it but the credentials: so it is found again.
func (o *options) stores() error {
	if o.CkptStore != "" {
		if o.CkptLocal != "" && len(o.every) == 0 {
			return errors.New("-ckpt-store and -ckpt-local: images go to one place")
		}
		c, err := s3.Parse(o.CkptStore)
		if err == nil {
			c, err = c.Settled()
		}
		if err != nil {
			return fmt.Errorf("-ckpt-store: %w", err)
		}
		o.CkptStore = c.String()
		o.planned("ckpt-store", o.CkptStore)
	}
	if o.CkptKey == "" {
		return nil
	}
	path, err := filepath.Abs(o.CkptKey)
	if err == nil {
		err = sealed.CheckKey(path)
	}
	if err != nil {
		return fmt.Errorf("-ckpt-key: %w", err)
	}
	o.CkptKey = path
	o.planned("ckpt-key", path)
	return nil
}

// unused refuses the name of a place that no level has.
func (o *options) unused() error {
	if o.Base == nil {
		return nil
	}
	for _, x := range []struct{ flag, kind string }{{"ckpt-local", node.Kind}, {"ckpt-store", s3.Kind}} {
		flag, kind := x.flag, x.kind
		has := func(l spec.Level) bool { return l.Place.Kind == kind }
		if o.typed[flag] && o.Plan[flag] != "" && !has(*o.Base) && !slices.ContainsFunc(o.Levels, has) {
			return fmt.Errorf("-%s is for a level %s, and none is named", flag, kind)
		}
	}
	return nil
}

// planned keeps a flag's value as it was understood for restarts elsewhere.
func (o *options) planned(name, value string) {
	if _, given := o.Plan[name]; given {
		o.Plan[name] = value
	}
}

// opens says why images cannot be read from their place, once and not for each rank. Whether nodes have theirs is told
// when the nodes are up.
func opens(s *snapshot.Snapshot) error {
	p := s.Place()
	if len(s.Copies()) > 1 {
		return nil // one that can be read suffices
	}
	if p == (snapshot.Place{}) || storeurl.Place(p).Inner().Kind == node.Kind {
		return nil
	}
	_, err := openPlace(p, s.Nodes())
	return err
}

// checkLocal says why a folder cannot be one of every node.
func checkLocal(folder string) error {
	_, err := node.Expand(folder, "n")
	return err
}

// thisNode finds the name that a job has given this machine.
func thisNode(nodes []string) (own string, others []string) {
	host := wire.Hostname()
	short, _, _ := strings.Cut(host, ".")
	for _, own := range []string{host, short, "localhost"} {
		if slices.Contains(nodes, own) {
			return own, slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == own })
		}
	}
	return host, nodes
}
