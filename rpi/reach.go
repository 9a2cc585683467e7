package rpi

import "errors"

// ErrUnavailable is wrapped by Module.Start and Restart where this machine, or
// what this process may do on it, lacks something that the transport needs. The
// next transport by preference then takes its place; any other error, such as
// that of a parameter, ends the rank.
var ErrUnavailable = errors.New("not available here")

// LocalModule is implemented by modules that carry frames between ranks of one
// node only. Peers tells such a module the addresses of the ranks of its node
// and nil for all others. Two ranks use it if each reaches the other: after
// Peers all ranks tell one another whom they do not reach.
type LocalModule interface {
	Module
	// Unreached says why Reaches reports false for a peer whose address is
	// known; nil if it reports true.
	Unreached(peer int) error
	// Forgo makes Reaches report false: the peer does not reach this rank. It
	// is called, if at all, after Peers and before the first frame, without the
	// engine's lock.
	Forgo(peer int)
}
