package rxe

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// Provider finds the soft-RoCE devices of this machine.
type Provider struct{}

func init() { provider.Register(Provider{}, 20) }

// Name is "rxe".
func (Provider) Name() string { return "rxe" }

// sys is where the kernel tells of its devices.
const sys = "/sys/class/infiniband"

// network is that of all of them: what RoCE reaches, IP does.
const network = "RoCE v2"

var errNone = errors.New("no soft-RoCE device (modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0)")

// found is a device as the kernel tells of it.
type found struct {
	name  string
	index uint8 // of gid
	gid   [16]byte
	path  string
}

// List lists the devices whose port is active and has an address.
func (Provider) List() ([]provider.Info, error) {
	var list []provider.Info
	all, whys := find()
	for _, f := range all {
		d, err := f.open()
		if err != nil {
			whys = append(whys, err)
			continue
		}
		list = append(list, d.info)
		whys = append(whys, d.Close())
	}
	if len(list) == 0 {
		return nil, errors.Join(append([]error{errNone}, whys...)...)
	}
	return list, nil
}

// Open opens a device.
func (Provider) Open(name string) (provider.Device, error) {
	all, whys := find()
	for _, f := range all {
		if name == "" || f.name == name {
			return f.open()
		}
	}
	return nil, errors.Join(append([]error{fmt.Errorf("device %q: %w", name, errNone)}, whys...)...)
}

func find() (all []found, whys []error) {
	parents, _ := filepath.Glob(sys + "/*/parent") // what this driver's have
	for _, p := range parents {
		f := found{name: filepath.Base(filepath.Dir(p))}
		if err := f.look(); err != nil {
			whys = append(whys, fmt.Errorf("device %s: %w", f.name, err))
		} else {
			all = append(all, f)
		}
	}
	return all, whys
}

// look finds what leads to the device, and its address: one of IPv4 if there is one.
func (f *found) look() error {
	links, _ := filepath.Glob("/sys/class/infiniband_verbs/uverbs*/ibdev")
	for _, l := range links {
		if name, err := os.ReadFile(l); err == nil && strings.TrimSpace(string(name)) == f.name {
			f.path = "/dev/infiniband/" + filepath.Base(filepath.Dir(l))
		}
	}
	if f.path == "" {
		return errors.New("the kernel has no ib_uverbs for it (modprobe ib_uverbs)")
	}
	none := [16]byte{}
	for i := range 256 {
		kind, err := os.ReadFile(fmt.Sprintf("%s/%s/ports/1/gid_attrs/types/%d", sys, f.name, i))
		if err != nil || strings.TrimSpace(string(kind)) != network {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("%s/%s/ports/1/gids/%d", sys, f.name, i))
		gid, e := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), ":", ""))
		if err != nil || e != nil || len(gid) != 16 || bytes.Equal(gid, none[:]) {
			continue
		}
		if v4 := isV4(gid); f.gid == none || v4 {
			f.index, f.gid = uint8(i), [16]byte(gid)
			if v4 {
				return nil
			}
		}
	}
	if f.gid == none {
		return errors.New("its network has no address")
	}
	return nil
}

func isV4(gid []byte) bool {
	return bytes.Equal(gid[:12], []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff})
}

// Device is an opened one.
type Device struct {
	found
	info   provider.Info
	fd     int
	async  int
	mark   int
	mtu    uint8
	reads  uint8 // at a time, of a pair
	pairs  map[uint32]*pair
	graves map[uint32]*receives // shared ones of closed pairs, by the pairs' numbers
	rings  []*ring
	fds    []int
	keys   map[uint32]bool // of regions
	answer []byte
	closed bool
}

// mark is the name of an empty memory file. It tells whole images that the device is the transport's, which opens another one after a restart.
const mark = "gorun-rdma"

// portActive is IB_PORT_ACTIVE.
const portActive = 4

func (f *found) open() (*Device, error) {
	d := &Device{found: *f, fd: -1, async: -1, mark: -1, pairs: map[uint32]*pair{}, graves: map[uint32]*receives{}, keys: map[uint32]bool{}, answer: make([]byte, 256)}
	if err := d.start(); err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("device %s: %w", f.name, err)
	}
	return d, nil
}

func (d *Device) start() (err error) {
	if d.fd, err = unix.Open(d.path, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	if d.mark, err = unix.MemfdCreate(mark, unix.MFD_CLOEXEC); err != nil {
		return err
	}
	var c contextAnswer
	if err := d.command(cmdGetContext, struct{}{}, &c); err != nil {
		return err
	}
	d.async = int(c.Async)
	var q deviceAnswer
	if err := d.command(cmdQueryDevice, struct{}{}, &q); err != nil {
		return err
	}
	var p portAnswer
	if err := d.command(cmdQueryPort, struct{ Port uint64 }{1}, &p); err != nil {
		return err
	}
	if p.State != portActive {
		return errors.New("its network is down")
	}
	d.mtu, d.reads = p.MTU, uint8(min(q.ReadsHere, q.ReadsThere, 16))
	address := fmt.Sprintf("%x", d.gid)
	if isV4(d.gid[:]) {
		address = fmt.Sprintf("%d.%d.%d.%d", d.gid[12], d.gid[13], d.gid[14], d.gid[15])
	}
	d.info = provider.Info{Name: d.name, Detail: fmt.Sprintf("soft-RoCE of the kernel, %s, address %s", d.path, address), Network: network,
		Limits: provider.Limits{QueuePairs: int(q.Pairs), SendDepth: int(q.Requests) / 2, ReceiveDepth: int(min(q.Requests, q.SharedRequests)) / 2, Completions: int(q.Completions) / 2,
			Segments: int(min(q.Segments, q.SharedSegments)), Inline: inlineMost, Message: uint64(p.Message), Region: q.RegionMax}}
	return nil
}

// inlineMost is what fits into a request of the driver beside its header, of 32 segments.
const inlineMost = 512

// Info tells what the device can do.
func (d *Device) Info() provider.Info { return d.info }

// Close closes the device; the kernel closes the objects made from it.
func (d *Device) Close() error {
	if d.closed {
		return provider.ErrClosed
	}
	d.closed = true
	for _, r := range d.rings {
		r.unmap()
	}
	for _, fd := range append(d.fds, d.async, d.fd, d.mark) {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	for _, p := range d.pairs {
		p.state = provider.Failed
	}
	return nil
}

// Abandon forgets the device.
func (d *Device) Abandon() { d.closed = true }

func (d *Device) drop(r *ring) {
	r.unmap()
	d.rings = slices.DeleteFunc(d.rings, func(o *ring) bool { return o == r })
}

type domain struct {
	dev    *Device
	handle uint32
}

// AllocDomain makes a protection domain.
func (d *Device) AllocDomain() (provider.ProtectionDomain, error) {
	var a handle
	if err := d.command(cmdAllocDomain, struct{}{}, &a); err != nil {
		return nil, err
	}
	return &domain{d, a.Handle}, nil
}

// Close frees the domain.
func (o *domain) Close() error { return o.dev.command(cmdFreeDomain, handle{o.handle}, nil) }

// region is registered memory. Keys are within its addresses.
type region struct {
	of     *domain
	memory []byte // kept reachable
	registerAnswer
}

// Flags of access.
const (
	accessLocalWrite  = 1
	accessRemoteWrite = 2
	accessRemoteRead  = 4
)

func accessOf(a provider.Access) (flags uint32) {
	for bit, flag := range map[provider.Access]uint32{provider.LocalWrite: accessLocalWrite, provider.RemoteWrite: accessRemoteWrite, provider.RemoteRead: accessRemoteRead} {
		if a&bit != 0 {
			flags |= flag
		}
	}
	return flags
}

// Register pins memory.
func (o *domain) Register(buf []byte, access provider.Access) (provider.MemoryRegion, error) {
	if err := provider.Mapped(buf); err != nil {
		return nil, err
	}
	r := &region{of: o, memory: buf}
	at := uint64(uintptr(unsafe.Pointer(&buf[0])))
	err := o.dev.command(cmdRegister, registerArgs{Start: at, Length: uint64(len(buf)), Address: at, Domain: o.handle, Access: accessOf(access)}, &r.registerAnswer)
	if err != nil {
		return nil, err
	}
	o.dev.keys[r.Local] = true
	return r, nil
}

func (r *region) LocalKey() uint64  { return uint64(r.Local) }
func (r *region) RemoteKey() uint64 { return uint64(r.Remote) }
func (r *region) Base() uint64      { return uint64(uintptr(unsafe.Pointer(&r.memory[0]))) }

// Close unpins the memory.
func (r *region) Close() error {
	err := r.of.dev.command(cmdUnregister, handle{r.Handle}, nil)
	if err == nil {
		delete(r.of.dev.keys, r.Local)
	}
	return err
}
