package ofi

import "unsafe"

// The binary interface of libfabric on 64-bit Linux, as of API version 1.17, which later libraries keep. Most of its functions are inline in C's headers: an object
// begins with a header and has pointers to tables of functions. Each constant here is the offset of a field, in bytes. TestABI compares them with the headers.

const apiVersion = 1<<16 | 17

// Objects and where they keep tables.
const (
	fidOps     = 16 // struct fid: fi_ops *ops
	objectOps  = 24 // fid_fabric, fid_domain, fid_av, fid_cq, fid_ep: ops
	domainMR   = 32
	endpointCM = 32
	endpointOf = 40 // messages
	endpointRM = 48 // RMA
	mrDesc     = 24 // fid_mr: mem_desc
	mrKey      = 32
)

// call is a function of a table.
type call struct{ table, entry uintptr }

// Tables begin with their size.
var (
	callClose    = call{fidOps, 8}
	callBind     = call{fidOps, 16}
	callControl  = call{fidOps, 24}
	callDomain   = call{objectOps, 8}
	callTryWait  = call{objectOps, 40}
	callAV       = call{objectOps, 8}
	callCQ       = call{objectOps, 16}
	callEndpoint = call{objectOps, 24}
	callRegister = call{domainMR, 8}
	callInsert   = call{objectOps, 8}
	callRemove   = call{objectOps, 32}
	callCQRead   = call{objectOps, 8}
	callCQError  = call{objectOps, 24}
	callGetName  = call{endpointCM, 16}
	callReceive  = call{endpointOf, 8}
	callSend     = call{endpointOf, 32}
	callInject   = call{endpointOf, 56}
	callRMARead  = call{endpointRM, 8}
)

// struct fi_info and what it points to.
const (
	infoNext       = 0
	infoCaps       = 8
	infoMode       = 16
	infoAddrFormat = 24
	infoSrcLen     = 32
	infoSrc        = 48
	infoTx         = 72
	infoRx         = 80
	infoEP         = 88
	infoDomain     = 96
	infoFabric     = 104

	txOrder  = 24
	txInject = 40
	txSize   = 48
	rxOrder  = 24
	rxSize   = 48
	epType   = 0
	epMax    = 16

	domainName      = 8
	domainThreading = 16
	domainControl   = 20
	domainData      = 24
	domainMRMode    = 36
	domainKeySize   = 40
	fabricName      = 8
	fabricProvider  = 16
	fabricVersion   = 24
)

// Values.
const (
	capMsg    = 0x2
	capRMA    = 0x4
	fiRead    = 0x100
	fiWrite   = 0x200
	fiRecv    = 0x400
	fiSend    = 0x800
	fiRemRead = 0x1000

	modeContext  = 1 << 59
	modeContext2 = 1 << 52

	mrLocal     = 0x4
	mrVirtual   = 0x10
	mrAllocated = 0x20
	mrProvKey   = 0x40

	orderSAS       = 0x100
	typeRDM        = 3
	threadDomain   = 3
	progressManual = 2
	avTable        = 2
	formatMsg      = 2
	waitNone       = 0
	waitFD         = 3
	controlGetWait = 5
	controlEnable  = 6
	flagSource     = 1 << 57

	eAgain = 11
	eAvail = 259
)

// avAttr is struct fi_av_attr.
type avAttr struct {
	kind, rxBits uint32
	count        uintptr
	_            [4]uintptr
}

// cqAttr is struct fi_cq_attr.
type cqAttr struct {
	size           uintptr
	flags          uint64
	format         uint32
	waitObject     uint32
	signal, waitOn uint32
	waitSet        uintptr
}

// cqEntry is struct fi_cq_msg_entry.
type cqEntry struct {
	context uintptr
	flags   uint64
	length  uintptr
}

// cqError is struct fi_cq_err_entry.
type cqError struct {
	context      uintptr
	flags        uint64
	_            [5]uint64
	err, errProv int32
	_            [2]uint64
}

// contextSize is that of struct fi_context2, which is the library's while an operation is under way.
const contextSize = 64

// at makes a pointer of an address in memory of C, which the garbage collector does not know.
func at[T any](address, offset uintptr) *T {
	address += offset
	return *(**T)(unsafe.Pointer(&address))
}

// word reads a pointer or size_t.
func word(address, offset uintptr) uintptr { return *at[uintptr](address, offset) }

// text reads a string of C.
func text(address uintptr) string {
	if address == 0 {
		return ""
	}
	n := uintptr(0)
	for *at[byte](address, n) != 0 {
		n++
	}
	return string(unsafe.Slice(at[byte](address, 0), n))
}

// function returns a function of an object's table.
func function(object uintptr, c call) uintptr { return word(word(object, c.table), c.entry) }
