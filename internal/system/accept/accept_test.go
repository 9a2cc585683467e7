package accept

import (
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// For as long as there are no descriptors the loop tries a few times a second, takes the connection that has waited
// as soon as there are some, and ends with the listener.
func TestFullDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, tries, taken := time.Now(), 0, 0
		Each(func() (net.Conn, error) {
			tries++
			switch now := time.Since(begun); {
			case now < time.Minute:
				return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
			case taken == 0:
				return nil, nil
			}
			return nil, &net.OpError{Op: "accept", Err: net.ErrClosed}
		}, func(net.Conn) { taken++ })
		if over := time.Since(begun); taken != 1 || tries > 700 || over > time.Minute+last {
			t.Errorf("%d tries and %d connections in %v", tries, taken, over)
		}
	})
}
