// Package ifaddr lists the addresses under which other machines may reach this one. It asks the kernel by netlink, and
// imports nothing of net, so that what a user's program links can use it.
//
// An address counts if its interface is up and has a carrier, and if it is meant for others: loopback, link-local
// and IPv6 addresses that are being tested or phased out are left out, and so are networks that end at this machine
// (lo, docker0, virbr0 and their like; HostOnly). To use one of those, name its interface.
package ifaddr

import (
	"fmt"
	"net/netip"
	"path"
	"syscall"
)

// Address is an address of this machine, and the network that it is in.
type Address struct {
	Interface string
	IP        netip.Addr
	Bits      int // length of the network's prefix
}

// Network returns the network that the address is in.
func (a Address) Network() netip.Prefix { return netip.PrefixFrom(a.IP, a.Bits).Masked() }

// String is the address with its prefix length and its interface: 10.1.0.7/24 (eth0).
func (a Address) String() string {
	return fmt.Sprintf("%v (%s)", netip.PrefixFrom(a.IP, a.Bits), a.Interface)
}

// hostOnly are names of interfaces whose networks end at this machine: bridges of containers and virtual machines,
// and addresses that every machine of a cluster has.
var hostOnly = []string{
	"lo", "docker*", "br-????????????", "docker_gwbridge", "podman*", "cni*", "cbr[0-9]*", "nerdctl*", "lxcbr*", "lxdbr*",
	"incusbr*", "virbr*", "vboxnet*", "vmnet*", "veth*", "cali*", "kube-ipvs*", "kube-bridge", "nodelocaldns",
}

// HostOnly reports whether the network of an interface with that name ends at its machine.
func HostOnly(name string) bool {
	for _, pattern := range hostOnly {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// Addresses returns the addresses of this machine, in the kernel's order of interfaces. Those of interfaces that are
// HostOnly are among them only if wanted says so; nil wants none.
func Addresses(wanted func(name string, ip netip.Addr) bool) ([]Address, error) {
	links, err := ask(syscall.RTM_GETLINK)
	if err != nil {
		return nil, err
	}
	addrs, err := ask(syscall.RTM_GETADDR)
	if err != nil {
		return nil, err
	}
	names := map[uint32]string{}
	for i := range links {
		if index, name, ok := link(&links[i]); ok {
			names[index] = name
		}
	}
	var all []Address
	for i := range addrs {
		index, a, ok := address(&addrs[i])
		if a.Interface = names[index]; !ok || a.Interface == "" {
			continue
		}
		if a.IP.Is6() && a.IP.IsLinkLocalUnicast() {
			continue // without the name of an interface, which differs, it leads nowhere
		}
		if forOthers(a) || wanted != nil && wanted(a.Interface, a.IP) {
			all = append(all, a)
		}
	}
	return all, nil
}

// forOthers reports whether an address is meant for other machines.
func forOthers(a Address) bool {
	return a.IP.IsGlobalUnicast() && !HostOnly(a.Interface)
}

// ask asks the kernel for a table.
func ask(what int) ([]syscall.NetlinkMessage, error) {
	table, err := syscall.NetlinkRIB(what, syscall.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("addresses of this machine: netlink: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		return nil, fmt.Errorf("addresses of this machine: netlink: %w", err)
	}
	return messages, nil
}
