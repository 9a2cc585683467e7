package device_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	run "github.com/gorun-mpi/gorun/internal/testing/world"
	"github.com/gorun-mpi/gorun/mpi"
)

// elements is how many an array of imaged has; a row has one.
const elements = 100_000

// imaged is a program of one rank with an image at its Point.
type imaged struct {
	registered map[string]*device.Array[int64]
	other      *device.Array[int64] // not registered
	begun      chan struct{}        // closed when the Point has called the functions of OnCheckpoint
	over       chan struct{}        // closed behind the Point
}

// gate is a kernel that sets all elements when a channel is closed.
func gate(open chan struct{}) *device.Kernel {
	return device.NewKernel(device.Go("gate", func(w device.Work, y []int64, c int64) {
		<-open
		for i, end := w.Range(0); i < end; i++ {
			y[i] = c
		}
	}))
}

// rank leaves arrays valid on devices alone, on the host alone, on both, and in halves, with kernels under way: that of a registered one ends within the
// Point, that of the other one, on a device of its own, behind it.
func (p *imaged) rank(c *mpi.Comm) error {
	d, err := device.Open("cpu:0")
	if err != nil {
		return err
	}
	defer d.Close()
	busy, err := device.Open("cpu:0")
	if err != nil {
		return err
	}
	defer busy.Close()
	r := cr.On(c)
	for name, a := range p.registered {
		if err := r.Register(name, a); err != nil {
			return err
		}
	}
	r.OnCheckpoint(func() error { close(p.begun); return nil })
	if err := p.fill(d, busy); err != nil {
		return err
	}
	if err := r.Point(); err != nil {
		return err
	}
	const size = 8 * elements
	if s := d.Stats(); s.Fetched != size+size/2+size {
		return fmt.Errorf("%d bytes were fetched: one array is stale at the host and a half, and another one was fetched before", s.Fetched)
	}
	if s := busy.Stats(); s.Fetched != 0 {
		return fmt.Errorf("%d bytes were fetched that are not registered", s.Fetched)
	}
	close(p.over)
	if h, err := p.other.Host(); err != nil || h[0] != 5 {
		return fmt.Errorf("the array that is not registered: %v, %w", h[0], err)
	}
	return nil
}

func (p *imaged) fill(d, busy *device.Device) error {
	for i, name := range []string{"both", "host", "half", "device"} {
		a := p.registered[name]
		h, err := a.HostW()
		if err != nil {
			return err
		}
		for k := range h {
			h[k] = int64(i)
		}
		switch name {
		case "both":
			if _, err = d.Run(fill, []int{elements}, nil, a.Out(), 7); err == nil {
				_, err = a.Host()
			}
		case "half":
			_, err = d.Run(fill, []int{elements / 2}, nil, a.Rows(0, elements/2).Out(), 7)
		case "device":
			_, err = d.Run(gate(p.begun), []int{elements}, nil, a.Out(), 9)
		}
		if err != nil {
			return err
		}
	}
	_, err := busy.Run(gate(p.over), []int{elements}, nil, p.other.Out(), 5)
	return err
}

// A portable image waits for the kernels that write what is registered, fetches what of that is stale at the host, and nothing else. What is not registered is not in it,
// and its kernels run on.
func TestImageHasWhatIsRegistered(t *testing.T) {
	p := &imaged{map[string]*device.Array[int64]{}, device.NewArray[int64](elements), make(chan struct{}), make(chan struct{})}
	for _, name := range []string{"both", "host", "half", "device"} {
		p.registered[name] = device.NewArray[int64](elements)
	}
	var once sync.Once
	armed := make(chan struct{})
	c := jobtest.New(1, jobtest.Options{Dir: t.TempDir(), OnSend: func(m oob.Msg) {
		if m.Kind == oob.Target {
			once.Do(func() { close(armed) })
		}
	}})
	defer c.Stop()
	var images []string
	taken := make(chan error, 1)
	go func() {
		var err error
		images, err = c.Checkpoint(false)
		taken <- err
	}()
	<-armed // before the rank can come to its Point
	if err := run.Rank(c.Jobs[0], p.rank); err != nil {
		t.Fatal(err)
	}
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	p.judge(t, images[0])
}

// judge wants an image of just the registered arrays, as the kernels leave them.
func (p *imaged) judge(t *testing.T, path string) {
	img, err := self.Open(image.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	names := img.Names()
	if slices.Sort(names); !slices.Equal(names, []string{"both", "device", "half", "host"}) {
		t.Errorf("the image holds %v", names)
	}
	if st, err := os.Stat(path); err != nil || st.Size() > 4*8*elements+100_000 {
		t.Errorf("the image: %v, %v", st.Size(), err)
	}
	for name, want := range map[string][2]int64{"both": {7, 6 + elements}, "host": {1, 1}, "half": {7, 2}, "device": {9, 9}} {
		a := device.NewArray[int64](elements)
		ptr, _, restored := a.Image()
		if err := img.Fill(name, ptr); err != nil {
			t.Fatal(err)
		}
		if err := restored(); err != nil {
			t.Fatal(err)
		}
		if h, err := a.Host(); err != nil || h[0] != want[0] || h[elements-1] != want[1] {
			t.Errorf("%s: from %d to %d, %v; want %v", name, h[0], h[elements-1], err, want)
		}
	}
}
