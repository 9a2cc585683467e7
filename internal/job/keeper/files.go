package keeper

import (
	"fmt"
	"sync"

	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// files offers the head the folders of local images on this node, and its memory. The head first
// names folders, by paths; later requests name sets and pieces in them.
type files struct {
	server *remote.Server
	memory *mem.Memory

	mu      sync.Mutex
	folders map[string]node.Offer // by the number that the head has given
}

func newFiles(head *wire.Queue, memory *mem.Memory) *files {
	f := &files{memory: memory, folders: map[string]node.Offer{}}
	f.server = remote.NewServer(f.find, func(p []byte) error {
		head.Send(oob.Msg{Kind: oob.Files, To: oob.Head, Data: p})
		return nil
	})
	return f
}

func (f *files) find(name string) remote.Served {
	if name == mem.Kind {
		return f.memory
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if o, ok := f.folders[name]; ok {
		return o
	}
	return nil
}

// folder takes a folder that the head names.
func (f *files) folder(m *oob.Msg) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.folders[fmt.Sprint(m.A)] = node.Offer(m.Data)
}
