package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/system/ifaddr"
	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func at(name, prefix string) ifaddr.Address {
	p := netip.MustParsePrefix(prefix)
	return ifaddr.Address{Interface: name, IP: p.Addr(), Bits: p.Bits()}
}

func TestChoose(t *testing.T) {
	a := []ifaddr.Address{at("eth0", "10.77.0.1/24"), at("ib0", "10.78.0.1/24"), at("eth0", "fd77::1/64"), at("wan", "192.0.2.1/30")}
	b := []ifaddr.Address{at("ens3", "10.77.0.2/24"), at("ib0", "10.78.0.2/24"), at("ens3", "fd77::2/64"), at("wan", "198.51.100.9/30")}
	for name, c := range map[string]struct {
		mine, theirs []ifaddr.Address
		networks     string
		want         string
		heeded       bool
	}{
		"by themselves":   {a, b, "", "10.77.0.2 10.78.0.2 fd77::2 198.51.100.9", false},
		"the other way":   {b, a, "", "10.77.0.1 10.78.0.1 fd77::1 192.0.2.1", false},
		"a network":       {a, b, "10.78.0.0/24", "10.78.0.2 10.77.0.2 fd77::2 198.51.100.9", true},
		"two networks":    {a, b, "fd77::/64, 10.78.0.0/24", "fd77::2 10.78.0.2 10.77.0.2 198.51.100.9", true},
		"an interface":    {a, b, "ib0", "10.78.0.2 10.77.0.2 fd77::2 198.51.100.9", true},
		"not on both":     {a, b, "eth0", "10.77.0.2 10.78.0.2 fd77::2 198.51.100.9", false},
		"not joined":      {a, b, "wan", "198.51.100.9 10.77.0.2 10.78.0.2 fd77::2", true},
		"a wide one":      {a, b, "10.0.0.0/8", "10.77.0.2 10.78.0.2 fd77::2 198.51.100.9", true},
		"nowhere":         {a, b, "172.16.0.0/12", "10.77.0.2 10.78.0.2 fd77::2 198.51.100.9", false},
		"no IPv6 here":    {a[:1], b, "", "10.77.0.2 10.78.0.2 198.51.100.9", false},
		"no family":       {a[:1], b[2:3], "", "", false},
		"one machine":     {a, a, "", "10.77.0.1 10.78.0.1 fd77::1 192.0.2.1", false},
		"the same bridge": {append(a[:1:1], at("br0", "10.9.0.1/24")), append(b[:1:1], at("br0", "10.9.0.1/24")), "", "10.77.0.2", false},
		"other masks":     {[]ifaddr.Address{at("x", "10.1.0.1/16")}, []ifaddr.Address{at("y", "10.2.0.1/16"), at("x", "10.1.3.1/24")}, "", "10.2.0.1 10.1.3.1", false},
		"one mask wider":  {[]ifaddr.Address{at("x", "10.1.3.1/16")}, []ifaddr.Address{at("y", "10.2.0.1/16"), at("x", "10.1.3.7/24")}, "", "10.1.3.7 10.2.0.1", false},
	} {
		t.Run(name, func(t *testing.T) {
			wanted, err := parseNetworks(c.networks)
			if err != nil {
				t.Fatal(err)
			}
			tries, heeded := choose(c.mine, c.theirs, wanted)
			if got := strings.Trim(fmt.Sprint(tries), "[]"); got != c.want || heeded != c.heeded {
				t.Errorf("%s, heeded %v", got, heeded)
			}
		})
	}
}

// Whatever the lists: if there is a network that both are in, it is tried first, by both. The first of tcp.networks
// that both are in goes before. Nothing is tried twice, and nothing of the peer's that can be tried is forgotten.
func TestChooseAlike(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		machine := func(host int) []ifaddr.Address {
			var all []ifaddr.Address
			for _, net := range rapid.Permutation([]int{1, 2, 3, 4, 5}).Draw(rt, "networks")[:rapid.IntRange(0, 5).Draw(rt, "so many")] {
				all = append(all, at(fmt.Sprintf("eth%d", rapid.IntRange(0, 3).Draw(rt, "name")), fmt.Sprintf("10.%d.0.%d/24", net, host)))
				if rapid.Bool().Draw(rt, "IPv6") {
					all = append(all, at("eth9", fmt.Sprintf("fd0%d::%d/64", net, host)))
				}
			}
			return all
		}
		a, b := machine(1), machine(2)
		var wanted []network
		for _, n := range rapid.SliceOfN(rapid.SampledFrom([]string{"10.1.0.0/24", "10.2.0.0/24", "10.5.0.0/24", "10.0.0.0/8", "fd03::/64", "eth0", "eth9"}), 0, 3).Draw(rt, "wanted") {
			one, err := parseNetworks(n)
			if err != nil {
				rt.Fatal(err)
			}
			wanted = append(wanted, one...)
		}
		there, heeded := choose(a, b, wanted)
		back, again := choose(b, a, wanted)
		if heeded != again || (len(there) == 0) != (len(back) == 0) {
			rt.Fatalf("%v, %v from one side, %v, %v from the other", there, heeded, back, again)
		}
		for _, x := range b {
			n := 0
			for _, ip := range there {
				if ip == x.IP {
					n++
				}
			}
			possible := slices.ContainsFunc(a, func(y ifaddr.Address) bool { return x.IP.Is4() == y.IP.Is4() })
			if possible && n != 1 || !possible && n != 0 {
				rt.Fatalf("%v is tried %d times: %v", x.IP, n, there)
			}
		}
		if len(there) == 0 {
			return
		}
		first, second := find(b, there[0]), find(a, back[0])
		for _, w := range wanted {
			if !inside(a, b, w) {
				continue
			}
			if !heeded || !w.has(first.Interface, first.IP) || !w.has(second.Interface, second.IP) {
				rt.Fatalf("%v has both, and they try %v and %v first", w, first, second)
			}
			return
		}
		if heeded {
			rt.Fatal("heeded although nothing that is wanted has both")
		}
		common := slices.ContainsFunc(a, func(x ifaddr.Address) bool {
			return slices.ContainsFunc(b, func(y ifaddr.Address) bool { return x.Network() == y.Network() })
		})
		if common && first.Network() != second.Network() {
			rt.Fatalf("both are in one network, and they try %v and %v first", first, second)
		}
	})
}

func find(all []ifaddr.Address, ip netip.Addr) ifaddr.Address {
	return all[slices.IndexFunc(all, func(a ifaddr.Address) bool { return a.IP == ip })]
}

// inside reports whether a network has an address of both, of one family.
func inside(a, b []ifaddr.Address, w network) bool {
	return slices.ContainsFunc(a, func(x ifaddr.Address) bool {
		return w.has(x.Interface, x.IP) && slices.ContainsFunc(b, func(y ifaddr.Address) bool {
			return w.has(y.Interface, y.IP) && x.IP.Is4() == y.IP.Is4()
		})
	})
}

func TestParseNetworks(t *testing.T) {
	all, err := parseNetworks(" 10.78.0.7/24, ib0,,fd77::/64,10.1.1.1 ")
	if want := "[10.78.0.0/24 ib0 fd77::/64 10.1.1.1/32]"; err != nil || fmt.Sprint(all) != want {
		t.Errorf("%v, %v", all, err)
	}
	for _, bad := range []string{"10.78.0.0/33", "fd77::1", "eth0:1", "10.0.0.0/8/8", "averyveryverylongname", "::ffff:10.0.0.0/100"} {
		if all, err := parseNetworks(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v, %v", bad, all, err)
		}
	}
	err = CheckParams(map[string]string{"tcp.networks": "10.0.0.0/99"})
	if err == nil || !strings.Contains(err.Error(), "tcp.networks") {
		t.Error(err)
	}
}

// The address by which the launcher reached the machine comes first, even if a translation of addresses hides it
// from the machine itself.
func TestHere(t *testing.T) {
	own := []ifaddr.Address{at("eth0", "10.1.0.1/24"), at("eth1", "10.2.0.1/24")}
	for host, want := range map[string]string{
		"10.2.0.1":  "10.2.0.1/24 (eth1), 10.1.0.1/24 (eth0)",
		"192.0.2.9": "192.0.2.9, 10.1.0.1/24 (eth0), 10.2.0.1/24 (eth1)",
		"127.0.0.1": "10.1.0.1/24 (eth0), 10.2.0.1/24 (eth1)",
	} {
		if got := list(here(netip.MustParseAddr(host), own)); got != want {
			t.Errorf("%s: %s", host, got)
		}
	}
	many := make([]ifaddr.Address, 1000)
	for i := range many {
		many[i] = at("eth0", fmt.Sprintf("10.0.%d.%d/16", i/256, i%256))
	}
	if n := len(here(many[999].IP, many)); n != addressMax {
		t.Errorf("%d addresses are published", n)
	}
}

func TestNoAddressForOthers(t *testing.T) {
	unlucky := errors.New("no netlink here")
	for _, c := range []struct {
		err  error
		want string
	}{{nil, "tcp.networks"}, {unlucky, unlucky.Error()}} {
		m := New()
		m.nics = func(func(string, netip.Addr) bool) ([]ifaddr.Address, error) { return nil, c.err }
		e := env(0, 2)
		e.Wide = true
		if _, err := m.Start(e); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
		e.Host = "10.1.0.1" // by which the launcher has reached it
		addr, err := m.Start(e)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := decodeAddress(addr); err != nil || list(a.at) != e.Host {
			t.Errorf("%v, %v", a, err)
		}
		m.Close()
	}
}

// A parameter that cannot be heeded with a peer is told, once for each cause, with what there is.
func TestNetworksDenied(t *testing.T) {
	denied := map[int]map[int]string{}
	lists := [][]ifaddr.Address{{at("a", "10.1.0.1/24")}, {at("a", "10.1.0.2/24")}, {at("a", "10.9.0.3/24")}}
	pretend := func(rank int) *Module {
		m := New()
		m.nics = func(func(string, netip.Addr) bool) ([]ifaddr.Address, error) { return lists[rank], nil }
		return m
	}
	w := moduletest.NewWorld(t, 3, pretend, func(e *rpi.Env) {
		e.Wide = true
		e.Params["tcp.networks"] = "10.1.0.0/24"
		rank := e.Rank
		denied[rank] = map[int]string{}
		e.Denied = func(peer int, err error) { denied[rank][peer] = err.Error() }
	})
	defer w.Close()
	if len(denied[0]) != 1 || len(denied[1]) != 1 || len(denied[2]) != 2 || denied[0][2] != denied[2][0] ||
		!strings.Contains(denied[0][2], "10.9.0.3/24") || !strings.Contains(denied[0][2], "tcp.networks=10.1.0.0/24") {
		t.Errorf("%v", denied)
	}
}

func TestRoute(t *testing.T) {
	r := newRoute([]netip.Addr{netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.2.0.1")}, 7)
	if r.at().String() != "10.1.0.1:7" || !r.failed(unix.ECONNREFUSED) || r.at().String() != "10.2.0.1:7" {
		t.Fatalf("%+v", r)
	}
	if !r.failed(errSlow) || r.at().String() != "10.1.0.1:7" {
		t.Fatalf("an address that was only slow has no second chance: %+v", r)
	}
	if got, want := r.String(), "10.1.0.1:7 (connection refused), 10.2.0.1:7 (no answer)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !r.failed(unix.ECONNREFUSED) || r.failed(unix.EHOSTUNREACH) {
		t.Fatalf("%+v", r)
	}
	err := r.err()
	if !errors.Is(err, unix.ECONNREFUSED) || !errors.Is(err, unix.EHOSTUNREACH) || !strings.Contains(err.Error(), "10.2.0.1:7: no route to host") {
		t.Error(err)
	}
}
