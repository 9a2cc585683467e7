package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// inlineMin is what a device must be able to send inline: what answers a frame needs no slot then.
const inlineMin = 64

// inlineMost is the longest message that is sent inline where the device allows it.
const inlineMost = 256

// openDevice opens the device that the parameters name, or the first that there is.
func (m *Module) openDevice() (provider.Device, error) {
	providers := provider.All()
	switch p, ok := provider.Lookup(m.params.provider); {
	case m.from != nil:
		providers = []provider.Provider{m.from}
	case m.params.provider == "":
	case !ok:
		return nil, fmt.Errorf("rdma: rdma.provider=%s: this program has %s", m.params.provider, strings.Join(names(providers), ", "))
	default:
		providers = []provider.Provider{p}
	}
	var whys []error
	for _, p := range providers {
		dev, err := m.openOf(p)
		if err == nil {
			m.kind = p.Name()
			return dev, nil
		}
		whys = append(whys, fmt.Errorf("provider %s: %w", p.Name(), err))
	}
	return nil, fmt.Errorf("rdma: %w: %w", rpi.ErrUnavailable, errors.Join(whys...))
}

func names(of []provider.Provider) (list []string) {
	for _, p := range of {
		list = append(list, p.Name())
	}
	return list
}

// openOf opens a device of one provider.
func (m *Module) openOf(p provider.Provider) (provider.Device, error) {
	list, err := p.List()
	if err != nil {
		return nil, err
	}
	var why error
	for _, info := range list {
		name := cmp.Or(m.params.device, info.Name)
		switch {
		case name != info.Name && !strings.HasPrefix(name, info.Name+"/"): // net/127.0.0.1 is net, at that address
			continue
		case m.env.Wide && info.Network == "" || m.env.Wide && strings.HasPrefix(info.Network, provider.OneMachine):
			why = errors.New("it has no device that reaches other machines")
		case info.Limits.Inline != 0 && info.Limits.Inline < inlineMin:
			why = fmt.Errorf("device %s sends %d bytes inline, and %d are needed", info.Name, info.Limits.Inline, inlineMin)
		default:
			dev, err := p.Open(name)
			if err != nil {
				why = err
				continue
			}
			m.info = dev.Info()
			m.inline = min(inlineMost, m.info.Limits.Inline)
			return dev, nil
		}
	}
	switch {
	case why != nil:
		return nil, why
	case m.params.device != "":
		return nil, fmt.Errorf("it has no device %q", m.params.device)
	}
	return nil, errors.New("it has no device")
}
