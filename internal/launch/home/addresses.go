package home

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
)

// inner are the names of interfaces that lead nowhere but to containers and virtual machines of this machine.
// Their addresses are often the same on every node.
var inner = regexp.MustCompile(`^(docker|virbr|cni|veth|podman|lxcbr|lxdbr|flannel|cali|kube-|br-[0-9a-f]{12}$)`)

// Addresses lists the addresses under which other nodes may reach this one, with the lengths of their networks'
// prefixes: the global ones of interfaces that are up. Only a machine that has none gives those of loopback.
func Addresses() ([]netip.Prefix, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("home: this machine's network interfaces: %w", err)
	}
	var global, loopback []netip.Prefix
	for _, i := range ifs {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // it has just gone
		}
		g, l := usable(i.Name, addrs)
		global, loopback = append(global, g...), append(loopback, l...)
	}
	if len(global) > 0 {
		return global, nil
	}
	return loopback, nil
}

// usable sorts the addresses of one interface.
func usable(name string, addrs []net.Addr) (global, loopback []netip.Prefix) {
	if inner.MatchString(name) {
		return nil, nil
	}
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(n.IP)
		if !ok {
			continue
		}
		bits, all := n.Mask.Size()
		ip = ip.Unmap()
		if all == 128 && ip.Is4() {
			bits -= 96
		}
		p := netip.PrefixFrom(ip, bits)
		switch {
		case ip.IsLoopback():
			loopback = append(loopback, p)
		case ip.IsGlobalUnicast():
			global = append(global, p)
		}
	}
	return global, loopback
}
