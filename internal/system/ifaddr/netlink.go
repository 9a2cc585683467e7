package ifaddr

import (
	"net/netip"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// up is what the flags of an interface must have: somebody has switched it on, and it has a carrier. IFF_RUNNING says
// the latter only a while later.
const up = unix.IFF_UP | unix.IFF_LOWER_UP

// avoid are flags of IPv6 addresses that may go away: temporary, failed or not yet tested, phased out.
const avoid = 0x01 | 0x08 | 0x20 | 0x40

// link reads what the kernel says of an interface. ok is false for one that is no way to others.
func link(m *syscall.NetlinkMessage) (index uint32, name string, ok bool) {
	if m.Header.Type != syscall.RTM_NEWLINK || len(m.Data) < syscall.SizeofIfInfomsg {
		return 0, "", false
	}
	info := (*syscall.IfInfomsg)(unsafe.Pointer(unsafe.SliceData(m.Data)))
	if info.Flags&up != up {
		return 0, "", false
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return 0, "", false
	}
	for _, a := range attributes {
		if a.Attr.Type == syscall.IFLA_IFNAME {
			name = strings.TrimRight(string(a.Value), "\x00")
		}
	}
	return uint32(info.Index), name, name != ""
}

// address reads what the kernel says of an address, and returns the index of its interface.
func address(m *syscall.NetlinkMessage) (index uint32, a Address, ok bool) {
	if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
		return 0, a, false
	}
	info := (*syscall.IfAddrmsg)(unsafe.Pointer(unsafe.SliceData(m.Data)))
	attributes, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return 0, a, false
	}
	flags := uint32(info.Flags)
	var local bool
	for _, attr := range attributes {
		switch attr.Attr.Type {
		case syscall.IFA_LOCAL: // of a line with two ends IFA_ADDRESS is the other one
			a.IP, local = netip.AddrFromSlice(attr.Value)
		case syscall.IFA_ADDRESS:
			if !local {
				a.IP, _ = netip.AddrFromSlice(attr.Value)
			}
		case ifaFlags:
			if len(attr.Value) >= 4 {
				flags = *(*uint32)(unsafe.Pointer(unsafe.SliceData(attr.Value)))
			}
		}
	}
	a.Bits = int(info.Prefixlen)
	ok = a.IP.IsValid() && a.Bits <= a.IP.BitLen() && !(a.IP.Is6() && flags&avoid != 0)
	return info.Index, a, ok
}

// ifaFlags is an attribute with all flags; the header has room for eight.
const ifaFlags = 8
