package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
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
	if p.Kind != node.Kind {
		return nil, fmt.Errorf("%s: %w: this gorun does not know the kind", p, snapshot.ErrStore)
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
