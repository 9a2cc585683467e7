package tcp

import (
	"net/netip"
	"time"

	"github.com/gorun-mpi/gorun/rpi"
)

// Parameter describes one entry of Env.Params that this module understands.
type Parameter = rpi.Parameter

// Parameters lists what can be set, for `gorun info`.
func Parameters() []Parameter {
	return []Parameter{
		{Name: "tcp.eager", Default: "65536", Doc: "largest message sent without an announcement, bytes"},
		{Name: "tcp.sndbuf", Default: "524288", Doc: "socket send buffer, bytes; 0: the kernel's choice"},
		{Name: "tcp.rcvbuf", Default: "1048576", Doc: "socket receive buffer, bytes; 0: the kernel's choice"},
		{Name: "tcp.congestion", Default: "auto", Doc: "congestion control of the sockets: a name that the kernel allows, or kernel for its default; auto: reno over loopback, which has nothing to probe for or to pace, where the kernel has it"},
		{Name: "tcp.batch", Default: "32768", Doc: "small frames that may wait are written from this many bytes on"},
		{Name: "tcp.connect_timeout", Default: "60s", Doc: "how long a peer may take to accept a connection"},
		{Name: "tcp.stranger_timeout", Default: "10s", Doc: "how long a caller may take to prove who it is"},
		{Name: "tcp.strangers", Default: "256", Doc: "how many callers may be unproven at once"},
	}
}

// params are the parameters, parsed.
type params struct {
	eager, sndbuf, rcvbuf, batch    int
	connectTimeout, strangerTimeout time.Duration
	strangers                       int
	congestion                      string // name of the kernel's; "": its default
	tentative                       bool   // the default will do if the kernel refuses that one
}

// settle makes the choices that depend on where this rank listens.
func (p *params) settle(host netip.Addr) {
	switch {
	case p.congestion == "auto" && host.IsLoopback():
		p.congestion, p.tentative = "reno", true
	case p.congestion == "auto", p.congestion == "kernel":
		p.congestion = ""
	}
}

// CheckParams says what is wrong with the tcp.* entries of a job's parameters. It returns nil if nothing is.
func CheckParams(given map[string]string) error {
	_, err := parseParams(given)
	return err
}

// parseParams reads the tcp.* entries over the defaults.
func parseParams(given map[string]string) (params, error) {
	s := rpi.NewSettings("tcp", Parameters(), given)
	return params{
		eager:           s.Number("tcp.eager", 0, rpi.MaxFrame),
		sndbuf:          s.Number("tcp.sndbuf", 0, 1<<30),
		rcvbuf:          s.Number("tcp.rcvbuf", 0, 1<<30),
		batch:           s.Number("tcp.batch", 0, batchMax),
		connectTimeout:  s.Duration("tcp.connect_timeout"),
		strangerTimeout: s.Duration("tcp.stranger_timeout"),
		congestion:      s.Text("tcp.congestion"),
		strangers:       s.Number("tcp.strangers", 1, 1<<16),
	}, s.Err()
}
