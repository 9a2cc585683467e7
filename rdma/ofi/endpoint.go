package ofi

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// endpoint is an endpoint of libfabric with what it needs: one domain, one completion queue, one address vector. All calls of libfabric while a device is
// open are here.
type endpoint struct {
	lib                             *library
	name                            string
	fabric, domain, queue, book, ep uintptr
	waitFD                          int // -1: none
	inject                          int // bytes that are copied when sent
	local, virtual, keys            bool
	keySize                         uintptr
	nextKey                         uint64
	address                         []byte
	memory                          [][]byte // that libfabric knows of

	read, send, injected, receive, rma uintptr // functions
	entries                            [32]cqEntry
	bad                                cqError

	args   [8]uintptr // of the call that is made
	passed []byte     // to it: here it is not on a stack, which may move
}

func open(l *library, name string, info uintptr) (*endpoint, error) {
	f := &endpoint{lib: l, name: name, waitFD: -1, inject: int(word(word(info, infoTx), txInject))}
	domain := word(info, infoDomain)
	mode := *at[int32](domain, domainMRMode)
	f.local, f.virtual, f.keys = mode&mrLocal != 0, mode&mrVirtual != 0, mode&mrProvKey != 0
	f.keySize = word(domain, domainKeySize)
	if err := f.open(info); err != nil {
		f.close()
		return nil, err
	}
	f.read, f.send, f.injected = function(f.queue, callCQRead), function(f.ep, callSend), function(f.ep, callInject)
	f.receive, f.rma = function(f.ep, callReceive), function(f.ep, callRMARead)
	return f, nil
}

func (f *endpoint) open(info uintptr) error {
	made := new(uintptr) // what a call makes. The conversion within a call keeps it off the stack
	take := func(to *uintptr, what string, code uintptr) error {
		*to = *made
		*made = 0
		return f.lib.check(what, code)
	}
	code, _, _ := purego.SyscallN(f.lib.fabric, word(info, infoFabric), uintptr(unsafe.Pointer(made)), 0)
	if err := take(&f.fabric, "fi_fabric", code); err != nil {
		return err
	}
	code, _, _ = purego.SyscallN(function(f.fabric, callDomain), f.fabric, info, uintptr(unsafe.Pointer(made)), 0)
	if err := take(&f.domain, "fi_domain", code); err != nil {
		return err
	}
	av := &avAttr{kind: avTable, count: 64}
	code, _, _ = purego.SyscallN(function(f.domain, callAV), f.domain, uintptr(unsafe.Pointer(av)), uintptr(unsafe.Pointer(made)), 0)
	if err := take(&f.book, "fi_av_open", code); err != nil {
		return err
	}
	if err := f.openQueue(made, take); err != nil {
		return err
	}
	code, _, _ = purego.SyscallN(function(f.domain, callEndpoint), f.domain, info, uintptr(unsafe.Pointer(made)), 0)
	if err := take(&f.ep, "fi_endpoint", code); err != nil {
		return err
	}
	return f.enable()
}

// openQueue makes the completion queue, with a descriptor if the provider has one.
func (f *endpoint) openQueue(made *uintptr, take func(*uintptr, string, uintptr) error) error {
	for _, wait := range []uint32{waitFD, waitNone} {
		cq := &cqAttr{size: 4096, format: formatMsg, waitObject: wait}
		code, _, _ := purego.SyscallN(function(f.domain, callCQ), f.domain, uintptr(unsafe.Pointer(cq)), uintptr(unsafe.Pointer(made)), 0)
		err := take(&f.queue, "fi_cq_open", code)
		if err == nil && wait == waitFD {
			fd := new(int32)
			code, _, _ = purego.SyscallN(function(f.queue, callControl), f.queue, controlGetWait, uintptr(unsafe.Pointer(fd)))
			if f.waitFD = int(*fd); code != 0 {
				f.waitFD = -1
				f.closeOne(&f.queue)
				continue
			}
		}
		if err == nil || wait == waitNone {
			return err
		}
	}
	return nil
}

func (f *endpoint) enable() error {
	bind := function(f.ep, callBind)
	code, _, _ := purego.SyscallN(bind, f.ep, f.book, 0)
	if err := f.lib.check("fi_ep_bind", code); err != nil {
		return err
	}
	code, _, _ = purego.SyscallN(bind, f.ep, f.queue, fiSend|fiRecv)
	if err := f.lib.check("fi_ep_bind", code); err != nil {
		return err
	}
	code, _, _ = purego.SyscallN(function(f.ep, callControl), f.ep, controlEnable, 0)
	if err := f.lib.check("fi_enable", code); err != nil {
		return err
	}
	address, n := make([]byte, 256), new(uintptr)
	*n = uintptr(len(address))
	code, _, _ = purego.SyscallN(function(f.ep, callGetName), f.ep, uintptr(unsafe.Pointer(&address[0])), uintptr(unsafe.Pointer(n)))
	if err := f.lib.check("fi_getname", code); err != nil {
		return err
	}
	f.address = address[:min(*n, uintptr(len(address)))]
	return nil
}

// close closes all. Regions have been closed.
func (f *endpoint) close() {
	for _, o := range []*uintptr{&f.ep, &f.queue, &f.book, &f.domain, &f.fabric} {
		f.closeOne(o)
	}
}

func (f *endpoint) closeOne(o *uintptr) {
	if *o != 0 {
		purego.SyscallN(function(*o, callClose), *o)
		*o = 0
	}
}

// insert returns the number of an address.
func (f *endpoint) insert(address []byte) (uint64, error) {
	number := new(uint64)
	n, _, _ := purego.SyscallN(function(f.book, callInsert), f.book, uintptr(unsafe.Pointer(&address[0])), 1, uintptr(unsafe.Pointer(number)), 0, 0)
	if err := f.lib.check("fi_av_insert", n); err != nil {
		return 0, err
	}
	if int32(n) != 1 {
		return 0, fmt.Errorf("ofi: fi_av_insert: libfabric's provider %s does not take the address", f.name)
	}
	return *number, nil
}

// memory is a registration with libfabric.
type memory struct {
	mr, desc, base uintptr // base: 0, or where it is
	key            uint64
}

func (f *endpoint) register(buf []byte) (memory, error) {
	f.nextKey++
	key := f.nextKey
	if f.keySize >= 8 && !f.keys {
		var b [8]byte
		_, _ = rand.Read(b[:]) // it never fails
		key = binary.LittleEndian.Uint64(b[:])
	}
	mr := new(uintptr)
	where := uintptr(unsafe.Pointer(&buf[0]))
	code, _, _ := purego.SyscallN(function(f.domain, callRegister), f.domain, where, uintptr(len(buf)), fiSend|fiRecv|fiRead|fiRemRead, 0, uintptr(key), 0,
		uintptr(unsafe.Pointer(mr)), 0)
	if err := f.lib.check("fi_mr_reg", code); err != nil {
		return memory{}, err
	}
	m := memory{mr: *mr, key: *at[uint64](*mr, mrKey)}
	if f.local {
		m.desc = word(*mr, mrDesc)
	}
	if f.virtual {
		m.base = where
	}
	return m, nil
}

func (f *endpoint) unregister(m memory) {
	purego.SyscallN(function(m.mr, callClose), m.mr)
}

// outcome is the result of an operation that was handed to libfabric.
type outcome int

const (
	taken outcome = iota
	later         // there is no room
	broken
)

func result(code uintptr) outcome {
	switch int64(code) {
	case 0:
		return taken
	case -eAgain:
		return later
	}
	return broken
}

// call calls a function of libfabric with n of f.args. Other than with arguments of its own that makes no garbage: a collector
// beside two ranks that wait busily costs a message more than all that it does.
func (f *endpoint) call(function uintptr, n int) uintptr {
	code, _, _ := purego.SyscallN(function, f.args[:n]...)
	return code
}

// callWith is call for functions that take bytes.
func (f *endpoint) callWith(function uintptr, b []byte, args ...uintptr) outcome {
	f.passed = b
	f.args[0], f.args[1], f.args[2] = f.ep, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b))
	return result(f.call(function, 3+copy(f.args[3:], args)))
}

// sendCopied sends bytes that are copied at once.
func (f *endpoint) sendCopied(b []byte, to uint64) outcome {
	return f.callWith(f.injected, b, uintptr(to))
}

func (f *endpoint) sendFrom(b []byte, desc uintptr, to uint64, context uintptr) outcome {
	return f.callWith(f.send, b, desc, uintptr(to), context)
}

func (f *endpoint) receiveTo(b []byte, desc, context uintptr) outcome {
	return f.callWith(f.receive, b, desc, ^uintptr(0), context)
}

func (f *endpoint) readTo(b []byte, desc uintptr, from, address, key uint64, context uintptr) outcome {
	return f.callWith(f.rma, b, desc, uintptr(from), uintptr(address), uintptr(key), context)
}

// poll makes progress and returns what completed, and the operation that failed, if one did.
func (f *endpoint) poll() (done []cqEntry, failed *cqError, err error) {
	f.args[0], f.args[1], f.args[2] = f.queue, uintptr(unsafe.Pointer(&f.entries[0])), uintptr(len(f.entries))
	code := f.call(f.read, 3)
	switch n := int64(code); {
	case n >= 0:
		return f.entries[:n], nil, nil
	case n == -eAgain:
		return nil, nil, nil
	case n != -eAvail:
		return nil, nil, f.lib.check("fi_cq_read", code)
	}
	f.bad = cqError{}
	code, _, _ = purego.SyscallN(function(f.queue, callCQError), f.queue, uintptr(unsafe.Pointer(&f.bad)), 0)
	switch n := int64(code); {
	case n > 0:
		return nil, &f.bad, nil
	case n == 0, n == -eAgain:
		return nil, nil, nil
	}
	return nil, nil, f.lib.check("fi_cq_readerr", code)
}

// mayWait reports whether waitFD will tell of what comes next. Otherwise it is to be polled again at once.
func (f *endpoint) mayWait() bool {
	list := &[1]uintptr{f.queue}
	code, _, _ := purego.SyscallN(function(f.fabric, callTryWait), f.fabric, uintptr(unsafe.Pointer(list)), 1)
	return int32(code) == 0
}
