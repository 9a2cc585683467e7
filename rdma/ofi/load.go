package ofi

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is libfabric. It is loaded once and stays.
type library struct {
	getInfo, freeInfo, dupInfo, fabric, strError uintptr
	version                                      string
}

var load = sync.OnceValues(func() (*library, error) {
	defer keepHandlers()()
	handle, err := purego.Dlopen("libfabric.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("ofi: libfabric cannot be loaded (Debian: apt-get install libfabric1): %w", err)
	}
	l := &library{}
	var version uintptr
	for name, f := range map[string]*uintptr{"fi_getinfo": &l.getInfo, "fi_freeinfo": &l.freeInfo, "fi_dupinfo": &l.dupInfo,
		"fi_fabric": &l.fabric, "fi_strerror": &l.strError, "fi_version": &version} {
		if *f, err = purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("ofi: libfabric.so.1: %w", err)
		}
	}
	v, _, _ := purego.SyscallN(version)
	l.version = fmt.Sprintf("%d.%d", v>>16&0xffff, v&0xffff)
	if uint32(v) < apiVersion {
		return nil, fmt.Errorf("ofi: libfabric is version %s, and has to be 1.17 or later", l.version)
	}
	return l, nil
})

// failure is an error number of libfabric.
type failure struct {
	what string
	code int
	text string
}

// Error tells what failed.
func (f *failure) Error() string {
	return fmt.Sprintf("ofi: %s: %s (libfabric's error %d)", f.what, f.text, f.code)
}

// check makes an error of what a function returned.
func (l *library) check(what string, code uintptr) error {
	if n := int(int32(code)); n < 0 {
		s, _, _ := purego.SyscallN(l.strError, uintptr(-n))
		return &failure{what, -n, text(s)}
	}
	return nil
}

// cString returns bytes with a zero behind.
func cString(s string) []byte { return append([]byte(s), 0) }

var errNone = errors.New("no such provider, or it cannot do reliable datagrams with RMA here")

// info returns libfabric's description of what a provider offers at an address, "" for its own choice. The caller frees it.
func (l *library) info(name, address string) (uintptr, error) {
	hints, _, _ := purego.SyscallN(l.dupInfo, 0)
	if hints == 0 {
		return 0, errors.New("ofi: libfabric has no memory")
	}
	*at[uint64](hints, infoCaps) = capMsg | capRMA
	*at[uint64](hints, infoMode) = modeContext | modeContext2
	tx, rx, domain, fabric := word(hints, infoTx), word(hints, infoRx), word(hints, infoDomain), word(hints, infoFabric)
	*at[uint64](tx, txOrder) = orderSAS
	*at[uint64](rx, rxOrder) = orderSAS
	*at[uint32](word(hints, infoEP), epType) = typeRDM
	*at[uint32](domain, domainThreading) = threadDomain
	*at[uint32](domain, domainControl) = progressManual
	*at[uint32](domain, domainData) = progressManual
	*at[int32](domain, domainMRMode) = mrLocal | mrVirtual | mrAllocated | mrProvKey
	provider := cString(name)
	*at[uintptr](fabric, fabricProvider) = uintptr(unsafe.Pointer(&provider[0]))
	var node *byte
	var flags uint64
	if address != "" {
		node, flags = &cString(address)[0], flagSource
	}
	info := new(uintptr)
	code, _, _ := purego.SyscallN(l.getInfo, apiVersion, uintptr(unsafe.Pointer(node)), 0, uintptr(flags), hints, uintptr(unsafe.Pointer(info)))
	*at[uintptr](fabric, fabricProvider) = 0 // it is Go's
	purego.SyscallN(l.freeInfo, hints)
	if err := l.check("fi_getinfo", code); err != nil {
		return 0, fmt.Errorf("ofi: %s: %w: %w", name, errNone, err)
	}
	return *info, nil
}
