// Package listener is where the nodes of a job call one another, for streams that do not pass the head.
//
// A keeper opens its door when the head asks for it, and sends the head the door's Key. From the key the head makes
// tickets (Key.Ticket), one for each caller, and hands them out over the callers' own streams:
//
//	caller: agent or keeper         head                            keeper
//	  | Way (node b, store) ------->  |                                |
//	  |                               | Listener ------------------------> |  the first time only: it listens
//	  |                               | <--------------- Listener (Opened) |
//	  | <------- Way (ticket, name)   |                                |
//	  |                                                                |
//	  | TLS 1.3 and proofs, as in package rendezvous ----------------------> |
//	  | length u8, word ---------------------------------------------> |  what the stream is for
//	  | <====================  an oob.Stream  =======================> |  the Handler of that word has it
//
// A door is a rendezvous.Home with a secret of its own. So it has the same protection against
// strangers: nothing from a caller is interpreted before its proof, and its cost until then is
// bounded. A ticket opens one door, for one caller (node, agent, life) that cannot pass for
// another. The caller may use it any number of times; the Handler decides what it gets. A door
// lives as long as its keeper, and no ticket outlives it.
//
// If nodes can reach the head but not each other, callers go by way of the head, if there is one.
//
// # Stores
//
// "files" is the word for reading stores: frames of package oob with those of package remote in them, as between
// head and keepers. Offer answers, Read asks.
package listener

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
)

// Key is the secret from which the tickets of a door are made. It stays with the head.
type Key struct {
	Name      string   `json:"name"` // of the door, for people
	Addresses []string `json:"addresses"`
	Secret    []byte   `json:"secret"`
}

// Ticket invites a caller: agent i of a node in a life, or the node's keeper (rendezvous.Keeper).
func (k *Key) Ticket(node, agent, life int) (rendezvous.Ticket, error) {
	return rendezvous.Derive(k.Secret, k.Name, k.Addresses, node, agent, life)
}

// Opened is a keeper's answer to the head: the key, or why there is no door.
type Opened struct {
	Key *Key   `json:"key,omitempty"`
	Err string `json:"err,omitempty"`
}

// Handler gets the stream of a caller from its word on. The door closes the stream when the Handler
// returns, or under it when the door itself is closed.
type Handler func(from rendezvous.Caller, s oob.Stream)

// Listener listens for callers with tickets.
type Listener struct {
	home     *rendezvous.Listener
	key      Key
	handlers map[string]Handler
	serving  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	streams map[oob.Stream]bool
}

// Limits of a door. There are as many callers as agents and keepers, each with few streams.
const (
	unproved   = 64
	mostWord   = 32
	wordWithin = 10 * time.Second
)

// Open opens a door. handlers serve callers, by their word.
func Open(name string, handlers map[string]Handler) (*Listener, error) {
	secret := make([]byte, rendezvous.MinSecret)
	rand.Read(secret)
	h, err := rendezvous.Listen(rendezvous.Config{Job: name, Secret: secret, Limits: rendezvous.Limits{Unproved: unproved}})
	if err != nil {
		return nil, err
	}
	d := &Listener{home: h, key: Key{name, h.Addresses(), secret}, handlers: handlers, streams: map[oob.Stream]bool{}}
	d.serving.Go(d.accept)
	return d, nil
}

// Key is the key of the door.
func (d *Listener) Key() *Key { return &d.key }

func (d *Listener) accept() {
	for {
		c, s, err := d.home.Accept()
		if err != nil {
			return
		}
		if !d.enter(s) {
			s.Close()
			return
		}
		d.serving.Go(func() {
			defer d.leave(s)
			if f := d.handlers[word(s)]; f != nil {
				f(c, s)
			}
		})
	}
}

// word reads the word that says what a stream is for, "" if the caller sends none.
func word(s oob.Stream) string {
	s.SetReadDeadline(time.Now().Add(wordWithin))
	var p [1 + mostWord]byte
	if _, err := io.ReadFull(s, p[:1]); err != nil || p[0] > mostWord {
		return ""
	}
	n := int(p[0])
	if _, err := io.ReadFull(s, p[1:1+n]); err != nil || s.SetReadDeadline(time.Time{}) != nil {
		return ""
	}
	return string(p[1 : 1+n])
}

// enter notes a stream. It reports false if the door is closed.
func (d *Listener) enter(s oob.Stream) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.streams[s] = true
	}
	return !d.closed
}

func (d *Listener) leave(s oob.Stream) {
	s.Close()
	d.mu.Lock()
	delete(d.streams, s)
	d.mu.Unlock()
}

// Close closes the door and all streams, and waits for their handlers.
func (d *Listener) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return net.ErrClosed
	}
	d.closed = true
	for s := range d.streams {
		go s.Close() // a peer that reads nothing must not hold up others
	}
	d.mu.Unlock()
	err := d.home.Close()
	d.serving.Wait()
	return err
}

// ErrUnreachable is wrapped by the errors of Call.
var ErrUnreachable = errors.New("the node is not reached directly")

// Call calls at a door and says what for. The stream is the caller's.
func Call(ctx context.Context, t rendezvous.Ticket, what string) (oob.Stream, error) {
	if len(what) == 0 || len(what) > mostWord {
		return nil, fmt.Errorf("door: the word %q", what)
	}
	s, err := rendezvous.Call(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrUnreachable, because(err))
	}
	if _, err := s.Write(append([]byte{byte(len(what))}, what...)); err != nil {
		s.Close()
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return s, nil
}

// because tells the outcome of each address.
func because(err error) string {
	var c *rendezvous.CallError
	if !errors.As(err, &c) || len(c.Attempts) == 0 {
		return err.Error()
	}
	var all []string
	for _, a := range c.Attempts {
		all = append(all, fmt.Sprintf("%s: %v", a.Address, a.Err))
	}
	return strings.Join(all, "; ")
}
