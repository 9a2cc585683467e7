package tcp

import (
	"net/netip"
	"os"
	"slices"
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
	for _, c := range []struct {
		given    string
		loopback bool
		want     string
	}{
		{"auto", true, "reno"},
		{"auto", false, withoutPacing()},
		{"kernel", true, ""},
		{"kernel", false, ""},
		{"reno", false, "reno"},
	} {
		p, err := parseParams(map[string]string{"tcp.congestion": c.given})
		if err != nil {
			t.Fatal(err)
		}
		if p.settle(c.loopback); p.congestion != c.want {
			t.Errorf("%s, over loopback %v: %q, want %q", c.given, c.loopback, p.congestion, c.want)
		}
	}
	p := params{congestion: "reno"}
	fd, err := p.socket(unix.AF_INET)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if name := congestionOf(fd); name != "reno" {
		t.Errorf("in force: %q", name)
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

// Between machines auto takes cubic or reno instead of bbr, whichever the kernel allows, and leaves all else alone.
func TestInsteadOf(t *testing.T) {
	for _, c := range []struct {
		chosen  string
		allowed []string
		want    string
	}{
		{"cubic", []string{"reno"}, ""},
		{"dctcp", []string{"reno", "cubic"}, ""},
		{"", []string{"reno", "cubic"}, ""},
		{"bbr", []string{"reno", "cubic"}, "cubic"},
		{"bbr", []string{"reno", "bbr"}, "reno"},
		{"bbr3", []string{"reno"}, "reno"},
		{"bbr", nil, ""},
	} {
		got := insteadOf(c.chosen, func(name string) error {
			if slices.Contains(c.allowed, name) {
				return nil
			}
			return unix.EPERM
		})
		if got != c.want {
			t.Errorf("instead of %s with %v: %q, want %q", c.chosen, c.allowed, got, c.want)
		}
	}
}

// A connection between machines is not paced at either end if the kernel lets this process choose.
func TestNotPaced(t *testing.T) {
	p, err := parseParams(map[string]string{"tcp.congestion": "auto"})
	if err != nil {
		t.Fatal(err)
	}
	p.settle(false)
	loopback := netip.MustParseAddr("127.0.0.1")
	lfd, port, err := p.listen(loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(lfd)
	family, sa := sockaddr(netip.AddrPortFrom(loopback, port))
	fd, err := p.socket(family)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, sa); err != nil && err != unix.EINPROGRESS {
		t.Fatal(err)
	}
	poll := []unix.PollFd{{Fd: int32(lfd), Events: unix.POLLIN}}
	for n := 0; n == 0; {
		if n, err = unix.Poll(poll, -1); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
	}
	other, _, err := unix.Accept4(lfd, unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	allowed, err := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
	if err != nil {
		t.Skipf("the kernel does not tell what is allowed: %v", err)
	}
	choice := slices.ContainsFunc(strings.Fields(string(allowed)), func(name string) bool { return slices.Contains(unpaced, name) })
	for _, fd := range []int{fd, other} {
		if name := congestionOf(fd); choice && strings.HasPrefix(name, "bbr") || name == "" {
			t.Errorf("in force: %q, allowed: %s", name, allowed)
		}
	}
}
