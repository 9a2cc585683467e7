package rpi

import "errors"

// ErrUnavailable is wrapped by the errors of Module.Start and Restart if the transport needs something that
// this machine lacks, or that this process may not use. The next transport by preference then takes its place.
// Any other error ends the rank, for example that of a parameter.
var ErrUnavailable = errors.New("not available here")

// LocalModule is implemented by modules that carry frames only between ranks of one node. Peers tells such a
// module the addresses of the ranks of its node, and nil for all others. Two ranks use it if each reaches the
// other: after Peers all ranks tell one another which ranks they do not reach.
type LocalModule interface {
	Module
	// Unreached says why Reaches reports false for a peer whose address is known. It returns nil if Reaches
	// reports true.
	Unreached(peer int) error
	// Forgo makes Reaches report false, because the peer does not reach this rank. It may be called after Peers
	// and before the first frame, without the engine's lock.
	Forgo(peer int)
}

// Describer is implemented by modules of which the name does not tell what carries the frames: which device, by which library.
type Describer interface {
	Module
	// About tells that for people, in a few words without numbers of the rank. It is called after Start or Restart.
	About() string
}

// Asker is implemented by modules that can do without the address of a peer until they first need it. A rank of a
// large job talks to few of the others. Peers then tells such a module an address of no bytes for most peers: they
// run the module, so it Reaches them, and Env.Ask brings the address.
type Asker interface {
	Module
	// Located tells the address of a peer that was asked for. It is called without the engine's
	// lock, by any goroutine, until Close. The caller wakes the Waiter, so that Poll goes on.
	// Restart forgets what Located has told, with all else. The module keeps the slice.
	Located(peer int, addr []byte)
}
