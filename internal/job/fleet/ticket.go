package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/listener"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
)

// Tickets from node to node, see package listener.

// ErrOwn says that a node is the head's own, which has no listener: the agent asks the head.
// Ticket returns how an agent of a life reaches a node directly. folder, if not empty, is a folder
// that the agent is to read there; store is its name at the listener.
var ErrOwn = errors.New("it is the head's own node")

func (f *Fleet) Ticket(ctx context.Context, from *Agent, index, life int, to, folder string) (t rendezvous.Ticket, store string, err error) {
	f.mu.Lock()
	i := slices.IndexFunc(f.nodes, func(n *node) bool { return n.Name == to })
	if i < 0 {
		f.mu.Unlock()
		return t, "", fmt.Errorf("the job has no node %s", to)
	}
	n := f.nodes[i]
	if n.own {
		f.mu.Unlock()
		return t, "", ErrOwn
	}
	if n.state != up && n.state != suspect {
		f.mu.Unlock()
		return t, "", ErrLost
	}
	if folder != "" {
		store = n.offered(folder)
	}
	if !n.listener.asked {
		n.listener.asked = true
		n.queue.Send(oob.Msg{Kind: oob.Listen, From: oob.Head})
	}
	f.mu.Unlock()
	select {
	case <-n.listener.opened:
	case <-n.ended:
		return t, "", ErrLost
	case <-ctx.Done():
		return t, "", context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.listener.err != nil {
		return t, "", n.listener.err
	}
	t, err = n.listener.key.Ticket(from.Node, index, life)
	return t, store, err
}

// nodeListener is the listener of a node. opened is closed when the keeper has answered.
type nodeListener struct {
	asked  bool
	key    *listener.Key
	err    error
	opened chan struct{}
}

// open takes a keeper's answer.
func (d *nodeListener) open(n *node, m *oob.Msg) {
	if !d.asked || d.key != nil || d.err != nil {
		return
	}
	var o listener.Opened
	switch err := json.Unmarshal(m.Data, &o); {
	case err != nil:
		d.err = fmt.Errorf("its listener: %w", err)
	case o.Key == nil || o.Err != "":
		d.err = fmt.Errorf("it has no listener: %s", o.Err)
	default:
		d.key = o.Key
		d.key.Addresses = preferred(o.Key.Addresses, n.address)
	}
	close(d.opened)
}

// preferred moves the address by which the head knows a node to the front.
func preferred(addresses []string, host string) []string {
	slices.SortStableFunc(addresses, func(a, b string) int { return other(a, host) - other(b, host) })
	if len(addresses) == 0 || host == "" || other(addresses[0], host) == 0 {
		return addresses
	}
	_, port, _ := net.SplitHostPort(addresses[0])
	return append([]string{net.JoinHostPort(host, port)}, addresses...)
}

// other is 0 if an address is of that host, else 1.
func other(address, host string) int {
	if h, _, err := net.SplitHostPort(address); err == nil && h == host {
		return 0
	}
	return 1
}
