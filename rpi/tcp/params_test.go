package tcp

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
)

func TestParams(t *testing.T) {
	for _, given := range []map[string]string{
		{"tcp.eagre": "1"},
		{"tcp.eager": "-1"},
		{"tcp.eager": "much"},
		{"tcp.connect_timeout": "0"},
	} {
		if _, err := parseParams(given); err == nil {
			t.Errorf("%v was taken", given)
		}
	}
	p, err := parseParams(map[string]string{"tcp.eager": "1024", "shm.anything": "x"})
	if err != nil || p.eager != 1024 {
		t.Errorf("eager %d, %v", p.eager, err)
	}
}

// The choice of congestion control is in force on the sockets, and one that the
// kernel does not know is refused at the start.
func TestCongestion(t *testing.T) {
	for _, c := range []struct{ given, host, want string }{
		{"auto", "127.0.0.1", "reno"},
		{"auto", "::1", "reno"},
		{"auto", "192.0.2.1", ""},
		{"kernel", "127.0.0.1", ""},
		{"reno", "192.0.2.1", "reno"},
	} {
		p, err := parseParams(map[string]string{"tcp.congestion": c.given})
		if err != nil {
			t.Fatal(err)
		}
		if p.settle(netip.MustParseAddr(c.host)); p.congestion != c.want {
			t.Errorf("%s on %s: %q, want %q", c.given, c.host, p.congestion, c.want)
		}
	}
	p := params{congestion: "reno"}
	fd, err := p.socket(unix.AF_INET)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION); err != nil || strings.TrimRight(name, "\x00") != "reno" {
		t.Errorf("in force: %q, %v", name, err)
	}
	// An emulator may not pass the option on: a choice of ours is not insisted on.
	p = params{congestion: "nosuch", tentative: true}
	if fd, err := p.socket(unix.AF_INET); err != nil {
		t.Error(err)
	} else {
		unix.Close(fd)
	}
	m := New()
	defer m.Close()
	_, err = m.Start(rpi.Env{Size: 2, Secret: []byte("s"), Params: map[string]string{"tcp.congestion": "nosuch"}})
	if err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("an unknown one: %v", err)
	}
}
