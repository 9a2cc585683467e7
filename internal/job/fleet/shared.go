package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// A folder that all nodes must share, such as that of snapshots, is checked when nodes come up, not
// when it is first needed: the head writes a small file there, and every keeper looks for it.

// see leaves out nodes that do not see the folder.
func (f *Fleet) see(ctx context.Context, nodes []*node) {
	if f.cfg.Shared == "" || len(nodes) == 0 {
		return
	}
	token, made, err := writeToken(f.cfg.Shared)
	defer func() {
		os.Remove(token)
		for _, dir := range made {
			os.Remove(dir) // fails if something is in it
		}
	}()
	if err != nil {
		f.cfg.Say(fmt.Sprintf("not known is whether all nodes see %s: %v", f.cfg.Shared, err), true)
		return
	}
	var wait sync.WaitGroup
	for _, n := range nodes {
		wait.Go(func() {
			_, err := n.provide(ctx, wire.Provision{Token: rawstring.String(token)}, nil)
			if err == nil || errors.Is(err, ErrLost) {
				return
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			n.out, n.err = true, fmt.Errorf("it does not see the folder for snapshots (%w): name one that all nodes share (-ckpt-dir), or have each node keep its images (-ckpt-local)", err)
		})
	}
	wait.Wait()
}

// keepers are the nodes that have one.
func (f *Fleet) keepers() (all []*node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.usable() && !n.own {
			all = append(all, n)
		}
	}
	return all
}

// writeToken writes a file under a name that no client has looked up before. made are the folders
// that were made for it.
func writeToken(dir string) (path string, made []string, err error) {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		made = append(made, d)
	}
	path = filepath.Join(dir, ".gorun-"+rand.Text())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return path, made, err
	}
	return path, made, os.WriteFile(path, nil, 0o600)
}
