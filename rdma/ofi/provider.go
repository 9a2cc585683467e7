package ofi

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/gorun-mpi/gorun/internal/system/procfs"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"

	"github.com/ebitengine/purego"
)

func init() { provider.Register(Provider{}, 50) }

// Provider finds and opens libfabric's providers.
type Provider struct{}

// known are the providers that List asks for, the best first.
var known = []string{"cxi", "efa", "psm3", "verbs;ofi_rxm", "shm", "net", "tcp;ofi_rxm", "udp;ofi_rxd"}

// Name is "ofi".
func (Provider) Name() string { return "ofi" }

// List returns a device for each of libfabric's providers that works here.
func (Provider) List() ([]provider.Info, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	defer keepHandlers()()
	var list []provider.Info
	var missing []error
	for _, name := range known {
		info, err := l.info(name, "")
		if err != nil {
			missing = append(missing, err)
			continue
		}
		list = append(list, l.about(name, info))
		purego.SyscallN(l.freeInfo, info)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("ofi: libfabric %s has no provider that can be used here: %w", l.version, errors.Join(missing...))
	}
	return list, nil
}

// about describes a device.
func (l *library) about(name string, info uintptr) provider.Info {
	domain := text(word(word(info, infoDomain), domainName))
	base, address, _ := strings.Cut(name, "/")
	network := base
	if ip, err := netip.ParseAddr(address); base == "shm" || err == nil && ip.IsLoopback() {
		network = provider.OneMachine + machine() + " " + base
	}
	return provider.Info{Name: name, Detail: fmt.Sprintf("libfabric %s, provider %s, domain %s", l.version, base, domain), Manual: true, Network: network,
		Limits: provider.Limits{QueuePairs: 1 << 20, SendDepth: 1 << 15, ReceiveDepth: 1 << 15, Completions: 1 << 20, Segments: maxSegments,
			Inline: 1024, Message: min(1<<31, uint64(word(word(info, infoEP), epMax))), Region: math.MaxInt64}}
}

// machine names this boot of this machine.
func machine() string {
	b, err := procfs.BootID()
	if err != nil {
		return strconv.Itoa(os.Getpid())
	}
	return b
}

// Open opens a device: one of List, or a provider's name, a slash and an address of this machine.
func (p Provider) Open(name string) (provider.Device, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	signal.Ignore(syscall.SIGPIPE) // of sockets that are dead
	if name == "" {
		list, err := p.List()
		if err != nil {
			return nil, err
		}
		name = list[0].Name
	}
	d, err := l.open(name)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	return d, nil
}

func (l *library) open(name string) (*Device, error) {
	base, address, _ := strings.Cut(name, "/")
	defer keepHandlers()()
	var there *pulse
	if base == "shm" {
		sweep()
		address = shmName()
		var err error
		if there, err = newPulse([]byte(address)); err != nil { // before libfabric makes its file: others' sweeps spare that
			return nil, err
		}
	}
	info, err := l.info(base, address)
	if err != nil {
		there.close()
		return nil, err
	}
	defer purego.SyscallN(l.freeInfo, info)
	f, err := open(l, base, info)
	if err != nil {
		there.close()
		return nil, err
	}
	f.enter()
	d, err := newDevice(f, there, l.about(name, info))
	if err != nil {
		f.leave()
	}
	return d, err
}
