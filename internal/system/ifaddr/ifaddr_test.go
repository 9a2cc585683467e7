package ifaddr

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHostOnly(t *testing.T) {
	for name, want := range map[string]bool{
		"lo": true, "docker0": true, "br-0123456789ab": true, "virbr0": true, "virbr0-nic": true, "cni0": true, "veth12ab": true, "cbr0": true, "lxdbr0": true,
		"eth0": false, "enp3s0f1": false, "ib0": false, "bond0.17": false, "br0": false, "br-lan": false, "hsn0": false, "flannel.1": false, "wg0": false,
	} {
		if HostOnly(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// All that this finds is what package net finds, too.
func TestAddresses(t *testing.T) {
	all, err := Addresses(nil)
	if err != nil {
		t.Skip(err)
	}
	known := map[string]bool{}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			known[a.String()+" ("+i.Name+")"] = true
		}
	}
	for _, a := range all {
		if !known[a.String()] || a.IP.IsLoopback() || a.IP.IsLinkLocalUnicast() || !a.Network().Contains(a.IP) {
			t.Errorf("%v, network %v; package net knows %v", a, a.Network(), known)
		}
	}
}

// In a namespace it is known what there is.
func TestAddressesInNamespace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("%v: install iproute2", err)
	}
	done := make(chan string)
	var all, wanted []Address
	var err error
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine, and the namespace with it
		if e := unix.Unshare(unix.CLONE_NEWNET); e != nil {
			done <- "no network namespaces here: " + e.Error()
			return
		}
		for line := range strings.Lines(`ip link add eth7 type veth peer name docker0
			ip link add eth8 type veth peer name eth9
			ip address add 10.7.0.1/24 dev eth7
			ip address add 10.7.0.9/32 dev eth7
			ip address add 169.254.7.1/16 dev eth7
			ip address add fd07::1/64 dev eth7 nodad
			ip address add fd07::2/64 dev eth7 nodad preferred_lft 0
			ip address add 172.17.0.1/16 dev docker0
			ip address add 10.8.0.1/24 dev eth8
			ip address add 10.9.0.1 peer 10.9.0.2/32 dev docker0
			ip address add 10.5.0.1/32 dev lo
			ip link set lo up
			ip link set eth7 up
			ip link set docker0 up
			ip link set eth8 up`) {
			if out, e := exec.Command("sh", "-c", line).CombinedOutput(); e != nil {
				done <- line + ": " + string(out)
				return
			}
		}
		all, err = Addresses(nil)
		if err == nil {
			wanted, err = Addresses(func(name string, ip netip.Addr) bool { return name == "docker0" || name == "eth7" || name == "lo" })
		}
		done <- ""
	}()
	if why := <-done; why != "" {
		t.Skip(why)
	}
	if err != nil {
		t.Fatal(err)
	}
	names := func(all []Address) (names []string) {
		for _, a := range all {
			names = append(names, a.String())
		}
		return names
	}
	// eth8 has no carrier: its other end is down.
	want := []string{"10.7.0.1/24 (eth7)", "10.7.0.9/32 (eth7)", "fd07::1/64 (eth7)"}
	if got := names(all); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	got := names(wanted)
	want = append(want, "172.17.0.1/16 (docker0)", "10.9.0.1/32 (docker0)", "169.254.7.1/16 (eth7)",
		"127.0.0.1/8 (lo)", "::1/128 (lo)", "10.5.0.1/32 (lo)")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
