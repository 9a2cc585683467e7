package fleet

import (
	"fmt"

	images "github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// Images on the nodes are read through the keepers, see package remote. A keeper offers the folders
// that the head has named, each under a number.

// files are the folders of a node, as seen from the head.
type files struct {
	client  *remote.Client
	numbers map[string]uint64
}

func newFiles(keeper *wire.Queue) files {
	return files{numbers: map[string]uint64{}, client: remote.NewClient(func(p []byte) error {
		keeper.Send(oob.Msg{Kind: oob.Files, From: oob.Head, Data: p})
		return nil
	})}
}

// StoreName is the name under which a keeper offers the folder with a number.
func StoreName(number uint64) string { return fmt.Sprint(number) }

// Files returns the nodes that can be asked for what is in their folders, and the names of those
// that cannot. The head's own node is not among them. folder returns its path on a node.
func (f *Fleet) Files(folder func(node string) (string, error)) (reached []images.Peer, unreachable []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.own {
			continue
		}
		path, err := folder(n.Name)
		if err != nil || n.queue == nil || n.state != up && n.state != suspect {
			unreachable = append(unreachable, n.Name)
			continue
		}
		reached = append(reached, images.Peer{Node: n.Name, Files: n.files.client.Store(n.offered(path))})
	}
	return reached, unreachable
}

// offered returns the name under which the keeper offers a folder.
func (n *node) offered(path string) string {
	number, told := n.files.numbers[path]
	if !told {
		number = uint64(len(n.files.numbers))
		n.files.numbers[path] = number
		n.queue.Send(oob.Msg{Kind: oob.Folder, From: oob.Head, A: number, Data: []byte(path)})
	}
	return StoreName(number)
}

// OwnName is the name of the node that the head is on, "" if it is on none.
func (f *Fleet) OwnName() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.own {
			return n.Name
		}
	}
	return ""
}

// Names are those of all nodes.
func (f *Fleet) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names()
}

func (f *Fleet) names() (all []string) {
	for _, n := range f.nodes {
		all = append(all, n.Name)
	}
	return all
}
