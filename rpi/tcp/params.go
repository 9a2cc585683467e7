package tcp

import (
	"fmt"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
)

// Parameter describes one entry of Env.Params that this module understands.
type Parameter = rpi.Parameter

// Parameters lists what can be set, for `gorun info`.
func Parameters() []Parameter {
	return []Parameter{
		{Name: "tcp.eager", Default: "65536", Doc: "largest message sent without an announcement, bytes"},
		{Name: "tcp.sndbuf", Default: "524288", Doc: "socket send buffer, bytes; 0: the kernel's choice"},
		{Name: "tcp.rcvbuf", Default: "1048576", Doc: "socket receive buffer, bytes; 0: the kernel's choice"},
		{Name: "tcp.congestion", Default: "auto", Doc: "congestion control of the sockets: a name that the kernel allows, or kernel for its default; auto: reno over loopback, which has nothing to probe for or to pace; between machines the kernel's default, but cubic or reno instead of bbr, which paces, where the kernel allows one of them"},
		{Name: "tcp.networks", Default: "", Doc: "between machines: the networks to use, by preference, as 10.78.0.0/24 or as names of interfaces, separated by commas; two ranks use the first that both are in, or else any that works"},
		{Name: "tcp.suspect", Default: "10s", Doc: "between machines: for how long nothing may come back from a peer before gorun is told that the network between the two is cut"},
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
	suspect                         time.Duration
	strangers                       int
	networks                        []network
	congestion                      string // name of the kernel's; "": its default
	tentative                       bool   // the default suffices if the kernel refuses that one
}

// settle makes the choices that depend on whether all ranks are on this machine.
func (p *params) settle(loopback bool) {
	switch {
	case p.congestion == "auto" && loopback:
		p.congestion, p.tentative = "reno", true
	case p.congestion == "auto":
		p.congestion, p.tentative = withoutPacing(), true
	case p.congestion == "kernel":
		p.congestion = ""
	}
}

// unpaced are the congestion controls to use instead of bbr, by preference.
var unpaced = []string{"cubic", "reno"}

// withoutPacing returns the congestion control for connections between machines, or "" for the kernel's default.
// That may be bbr. It sends at the rate that it has measured, and measures little of a program that sends now and
// then: between two network namespaces 64 KB took 3.3 times as long as with reno, 1 MB 5.8 times.
func withoutPacing() string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	return insteadOf(congestionOf(fd), func(name string) error {
		return unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	})
}

// insteadOf returns what to use instead of the congestion control that the kernel has chosen, or "". try tells
// whether the kernel allows this process to use another.
func insteadOf(chosen string, try func(name string) error) string {
	if !strings.HasPrefix(chosen, "bbr") {
		return ""
	}
	for _, name := range unpaced {
		if try(name) == nil {
			return name
		}
	}
	return ""
}

// congestionOf returns the congestion control of a socket, or "".
func congestionOf(fd int) string {
	name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return ""
	}
	return strings.TrimRight(name, "\x00")
}

// CheckParams returns an error if the tcp.* entries of a job's parameters are invalid. It returns
// nil if nothing is.
func CheckParams(given map[string]string) error {
	_, err := parseParams(given)
	return err
}

// parseParams reads the tcp.* entries over the defaults.
func parseParams(given map[string]string) (params, error) {
	s := rpi.NewSettings("tcp", Parameters(), given)
	p := params{
		eager:           s.Number("tcp.eager", 0, rpi.MaxFrame),
		sndbuf:          s.Number("tcp.sndbuf", 0, 1<<30),
		rcvbuf:          s.Number("tcp.rcvbuf", 0, 1<<30),
		batch:           s.Number("tcp.batch", 0, batchMax),
		connectTimeout:  s.Duration("tcp.connect_timeout"),
		strangerTimeout: s.Duration("tcp.stranger_timeout"),
		congestion:      s.Text("tcp.congestion"),
		strangers:       s.Number("tcp.strangers", 1, 1<<16),
		suspect:         s.Duration("tcp.suspect"),
	}
	err := s.Err()
	if err == nil {
		if p.networks, err = parseNetworks(s.Text("tcp.networks")); err != nil {
			err = fmt.Errorf("tcp: parameter tcp.networks: %w", err)
		}
	}
	return p, err
}
