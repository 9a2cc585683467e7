package s3

import (
	"context"
	"net"
	"time"
)

// dialer dials connections that break when nothing moves on them for so long. A server that hangs is thus found,
// however long a whole request may take.
func dialer(d *net.Dialer, idle time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &movingConn{c, idle}, nil
	}
}

type movingConn struct {
	net.Conn
	idle time.Duration
}

// Read waits for at most idle.
func (c *movingConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write waits for at most idle. The answer may come that long after it.
func (c *movingConn) Write(p []byte) (int, error) {
	now := time.Now()
	if err := c.SetDeadline(now.Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
