package tcp

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/system/ifaddr"
)

// Which of a peer's addresses is called first. Both ranks of a pair know both lists, and find the same network:
//
//  1. the first network of tcp.networks that both are in;
//  2. a network that both are in: the one that comes first in both lists, taken together;
//  3. any other address of the peer's, in the order of its list, the one that the launcher reached it by first.
//
// An address that does not answer is followed by the next. So the order matters for speed, not for whether the two
// are connected.

// network is an item of tcp.networks: a prefix, or the name of an interface.
type network struct {
	prefix netip.Prefix
	name   string
}

func (n network) String() string {
	if n.name != "" {
		return n.name
	}
	return n.prefix.String()
}

// has reports whether an address is in the network.
func (n network) has(name string, ip netip.Addr) bool {
	if n.name != "" {
		return n.name == name
	}
	return n.prefix.Contains(ip)
}

// parseNetworks reads tcp.networks.
func parseNetworks(list string) (all []network, err error) {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		switch {
		case item == "":
			continue
		case !strings.ContainsAny(item, "/:"):
			if ip, err := netip.ParseAddr(item); err == nil {
				all = append(all, network{prefix: netip.PrefixFrom(ip, ip.BitLen())})
				continue
			}
			if len(item) > 15 {
				return nil, fmt.Errorf("%q is neither a network such as 10.1.0.0/24 nor the name of an interface", item)
			}
			all = append(all, network{name: item})
		default:
			p, err := netip.ParsePrefix(item)
			if err != nil || p.Addr().Is4In6() {
				return nil, fmt.Errorf("%q is neither a network such as 10.1.0.0/24 or fd00::/64 nor the name of an interface", item)
			}
			all = append(all, network{prefix: p.Masked()})
		}
	}
	return all, nil
}

func anyHas(wanted []network, name string, ip netip.Addr) bool {
	return slices.ContainsFunc(wanted, func(n network) bool { return n.has(name, ip) })
}

// here is the list of addresses that a rank publishes whose job is on several machines. The first is the one that
// the launcher reached this machine by, if it is known. It need not be one of this machine's own: there may be a
// translation of addresses on the way.
func here(host netip.Addr, own []ifaddr.Address) []ifaddr.Address {
	var all []ifaddr.Address
	if host.IsValid() && !host.IsLoopback() {
		first := ifaddr.Address{IP: host, Bits: host.BitLen()}
		if i := slices.IndexFunc(own, func(a ifaddr.Address) bool { return a.IP == host }); i >= 0 {
			first = own[i]
		}
		all = append(all, first)
	}
	for _, a := range own {
		if len(all) < addressMax && !slices.ContainsFunc(all, func(b ifaddr.Address) bool { return a.IP == b.IP }) {
			all = append(all, a)
		}
	}
	return all
}

// pair is an address of either side by which two ranks may be connected.
type pair struct {
	a, b   ifaddr.Address
	wanted int // the item of tcp.networks that has both; the number of items: none
	common bool
	place  int // in both lists together
}

// together reports whether two addresses are in one network. Its ends need not agree on how large it is.
func together(a, b ifaddr.Address) bool {
	return a.Network().Contains(b.IP) && b.Network().Contains(a.IP)
}

// compare says which of two pairs is tried first. It says the same to both sides.
func compare(x, y pair) int {
	if c := cmp.Or(cmp.Compare(x.wanted, y.wanted), cmp.Compare(class(x), class(y)), cmp.Compare(x.place, y.place)); c != 0 {
		return c
	}
	// Two pairs that only cross: the lower address decides, of whichever side it is.
	return cmp.Or(low(x).Compare(low(y)), high(x).Compare(high(y)))
}

func class(p pair) int {
	if p.common {
		return 0
	}
	return 1
}

func low(p pair) netip.Addr {
	if p.a.IP.Less(p.b.IP) {
		return p.a.IP
	}
	return p.b.IP
}

func high(p pair) netip.Addr {
	if p.a.IP.Less(p.b.IP) {
		return p.b.IP
	}
	return p.a.IP
}

// choose returns a peer's addresses in the order in which they are tried. heeded reports whether a network of wanted
// has both ranks.
func choose(mine, theirs []ifaddr.Address, wanted []network) (tries []netip.Addr, heeded bool) {
	own := map[netip.Addr]bool{}
	for _, a := range mine {
		own[a.IP] = true
	}
	same := len(mine) == len(theirs) && !slices.ContainsFunc(theirs, func(b ifaddr.Address) bool { return !own[b.IP] })
	var pairs []pair
	for i, a := range mine {
		for k, b := range theirs {
			if a.IP.Is4() != b.IP.Is4() || !same && (own[b.IP] || holds(theirs, a.IP)) {
				continue // an address that two machines have leads each to itself
			}
			p := pair{a: a, b: b, wanted: len(wanted), common: together(a, b), place: i + k}
			for n, w := range wanted {
				if w.has(a.Interface, a.IP) && w.has(b.Interface, b.IP) {
					p.wanted, heeded = n, true
					break
				}
			}
			pairs = append(pairs, p)
		}
	}
	slices.SortStableFunc(pairs, compare)
	// What no network joins is called in the order of the peer's list.
	apart := slices.IndexFunc(pairs, func(p pair) bool { return p.wanted == len(wanted) && !p.common })
	if apart < 0 {
		apart = len(pairs)
	}
	for _, p := range pairs[:apart] {
		tries = append(tries, p.b.IP)
	}
	for _, b := range theirs {
		if slices.ContainsFunc(pairs, func(p pair) bool { return p.b.IP == b.IP }) {
			tries = append(tries, b.IP)
		}
	}
	return distinct(tries), heeded
}

func holds(all []ifaddr.Address, ip netip.Addr) bool {
	return slices.ContainsFunc(all, func(a ifaddr.Address) bool { return a.IP == ip })
}

// distinct removes repeated elements.
func distinct(ips []netip.Addr) (all []netip.Addr) {
	for _, ip := range ips {
		if !slices.Contains(all, ip) {
			all = append(all, ip)
		}
	}
	return all
}

// list names addresses, for people.
func list(all []ifaddr.Address) string {
	var names []string
	for _, a := range all {
		if a.Interface == "" {
			names = append(names, a.IP.String())
		} else {
			names = append(names, a.String())
		}
	}
	return strings.Join(names, ", ")
}
