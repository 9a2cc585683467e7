package rendezvous

import (
	"fmt"
	"net/netip"

	"github.com/gorun-mpi/gorun/internal/system/ifaddr"
)

// Addresses lists the addresses under which other nodes may reach this one, with the lengths of
// their networks' prefixes. They include a global address of the loopback interface, as some
// networks route to it. Loopback addresses are returned only if there are no others.
func Addresses() ([]netip.Prefix, error) {
	all, err := ifaddr.Addresses(func(name string, _ netip.Addr) bool { return name == "lo" })
	if err != nil {
		return nil, fmt.Errorf("home: %w", err)
	}
	return usable(all), nil
}

// usable leaves out the addresses that only this machine reaches, unless there are no others.
func usable(all []ifaddr.Address) []netip.Prefix {
	var global, loopback []netip.Prefix
	for _, a := range all {
		p := netip.PrefixFrom(a.IP, a.Bits)
		switch {
		case a.IP.IsLoopback():
			loopback = append(loopback, p)
		case a.IP.IsGlobalUnicast():
			global = append(global, p)
		}
	}
	if len(global) > 0 {
		return global
	}
	return loopback
}
