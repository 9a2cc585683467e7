// Package accept is the loop that takes connections off a listener.
package accept

import (
	"errors"
	"net"
	"time"
)

// How long the loop waits when it cannot take a connection: the longer, the longer that lasts.
const (
	first = time.Millisecond
	last  = 100 * time.Millisecond
)

// Each calls f with each connection that accept takes, until the listener is closed. If there are no descriptors or
// no memory it tries again, and does not spin: the connection that waits keeps the listener ready.
func Each[C net.Conn](accept func() (C, error), f func(C)) {
	for pause := first; ; {
		c, err := accept()
		switch {
		case err == nil:
			pause = first
			f(c)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(pause)
			pause = min(2*pause, last)
		}
	}
}
