package agent

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/offload/sessions"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// The image of a rank with devices has a section of kind "device" for each of its offload processes, which is the capture that the
// process has written, and one named "processes", the JSON of a list of taken.
const (
	kindDevice = "device"
	processes  = "processes"
)

// taken says which process a capture belongs to.
type taken struct {
	ID     uint64 `json:"id"`
	Device string `json:"device"` // its ID
	Ring   int    `json:"ring"`   // the rank's descriptor of the shared file
	Name   string `json:"name"`   // of the device
	Memory int64  `json:"memory"` // bytes that it used there
}

// take is the captures of one attempt.
type take struct {
	dir    string
	image  chan struct{} // closed when the rank is to be imaged
	done   chan struct{} // closed when all captures are there
	failed chan struct{} // closed when one cannot be made
	why    error

	due   map[uint64]bool // processes for which the rank has not said what is valid at the host
	skip  map[uint64][]uint64
	files map[uint64]*os.File
}

func (t *take) fail(why string) {
	if t.why == nil {
		t.why = errors.New(why)
		close(t.failed)
	}
}

// wait waits for one of the channels.
func (t *take) wait(c, cancel <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-t.failed:
		return t.why
	case <-cancel:
		return image.ErrCanceled
	}
}

// close gives the files back.
func (t *take) close() {
	if t == nil {
		return
	}
	for _, f := range t.files {
		f.Close()
	}
}

// takeFrom begins the captures of a rank that is ready, in the attempt of an order. It returns when the rank is to be imaged; nil if it has no processes.
// What is swapped out is there.
func (d *devices) takeFrom(order *oob.Msg, cfg *oob.CaptureConfig, cancel <-chan struct{}) (*take, error) {
	dir := d.a.folderFor(cfg)
	d.mu.Lock()
	if len(d.m.All()) == 0 {
		d.mu.Unlock()
		return nil, nil
	}
	if order.Attempt != d.gate.Attempt || order.Incarnation != d.gate.Incarnation {
		d.mu.Unlock()
		return nil, image.ErrCanceled // another one has begun
	}
	t := &take{dir: dir, image: make(chan struct{}), done: make(chan struct{}), failed: make(chan struct{}),
		due: map[uint64]bool{}, skip: map[uint64][]uint64{}, files: map[uint64]*os.File{}}
	d.take = t
	if err := d.takeStored(t); err != nil {
		d.mu.Unlock()
		return t, err
	}
	d.step(sessions.Event{Type: sessions.EvCapture})
	d.mu.Unlock()
	return t, t.wait(t.image, cancel)
}

// takeStored takes a capture that is swapped out as it is. The place may be filled again before the
// image is written, so it is a descriptor of its own. Caller holds mu.
func (d *devices) takeStored(t *take) error {
	in := d.m.In()
	for _, id := range d.m.All() {
		if slices.Contains(in, id) {
			continue
		}
		fd, err := unix.FcntlInt(d.procs[id].stored.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return err
		}
		t.files[id] = os.NewFile(uintptr(fd), "capture")
	}
	return nil
}

// folderFor is where captures are put until the image is written: where the image will be, if that is a folder.
func (a *agent) folderFor(cfg *oob.CaptureConfig) string {
	file := string(cfg.Path)
	if cfg.Store != "" {
		st, err := a.store(cfg.Store)
		at, ok := st.(store.Pather)
		if err != nil || !ok || inSlots(st) {
			return os.TempDir()
		}
		set, piece := path.Split(file)
		if file, err = at.Path(path.Clean(set), piece); err != nil {
			return os.TempDir()
		}
	}
	if st, err := os.Stat(filepath.Dir(file)); err == nil && st.IsDir() {
		return filepath.Dir(file)
	}
	return os.TempDir()
}

// askSkips asks the rank, for each process, what is valid at the host. Caller holds mu, as of the rest.
func (d *devices) askSkips() {
	d.round++
	for _, id := range d.m.In() {
		d.take.due[id] = true
		d.tell(id, offload.News{Round: d.round})
	}
}

// skips takes the answer.
func (d *devices) skips(o *offloader, v *offload.Valid) {
	if o != nil && o.round != 0 && v.Round == o.round {
		o.round, o.skip = 0, v.Memories
		d.step(sessions.Event{Type: sessions.EvSkips, ID: o.id})
		return
	}
	if d.take == nil || o == nil || v.Round != d.round || !d.take.due[o.id] {
		return
	}
	d.take.skip[o.id] = v.Memories
	if delete(d.take.due, o.id); len(d.take.due) == 0 {
		d.step(sessions.Event{Type: sessions.EvSkips})
	}
}

// file is where a process puts its capture. The name cannot be guessed, so no other user can put a
// file there.
func (d *devices) file(o *offloader) string {
	return filepath.Join(d.take.dir, fmt.Sprintf("%s%d-%d-%d-%s", captureName(), d.r.rank, o.id, d.gate.Attempt, rand.Text()))
}

func (d *devices) capture(o *offloader) {
	o.file = d.file(o)
	o.command(offload.Order{Op: offload.OrderCapture, Path: o.file, Skip: d.take.skip[o.id], Passing: true}, sessions.EvCaptured)
}

// captured takes the file of a process. It returns why it cannot, or "".
func (d *devices) captured(o *offloader) string {
	f, err := os.Open(o.file)
	if err == nil {
		err = os.Remove(o.file)
	}
	if err != nil {
		return fmt.Sprintf("%s: its capture: %v", o.name(), err)
	}
	d.take.files[o.id] = f
	return ""
}

// parts are what the captures add to the image of the rank, with their size.
func (d *devices) parts(t *take) (parts []image.Part, size uint64, err error) {
	if t == nil {
		return nil, 0, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	list := []taken{}
	for _, o := range d.list() {
		f := t.files[o.id]
		if f == nil {
			continue
		}
		st, err := f.Stat()
		if err != nil {
			return nil, 0, err
		}
		list = append(list, taken{ID: o.id, Device: o.device(), Ring: o.start.Ring, Name: o.model, Memory: o.used})
		parts = append(parts, image.Part{Name: strconv.FormatUint(o.id, 10), Kind: kindDevice, Type: "capture", Size: uint64(st.Size()), From: f})
		size += uint64(st.Size())
	}
	text := wire.JSON(list)
	return append(parts, image.Part{Name: processes, Kind: kindDevice, Type: "json", Size: uint64(len(text)), From: reader(text)}), size, nil
}

// reader reads bytes, for any number of goroutines.
type reader []byte

func (r reader) ReadAt(p []byte, off int64) (int, error) { return copy(p, r[off:]), nil }

// mostProcesses bounds the list in an image.
const mostProcesses = 1 << 20

// bringDevices gives a rank that was made from an image, and is stopped, its offload processes: new
// ones with the state of the old, on the same devices or on those of the order. They are paused. If
// devices are shared there are no processes at first: all are swapped out, see guest.
func (d *devices) bringDevices(pid int, src image.Source) error {
	img, err := src.Open()
	if err != nil {
		return err
	}
	defer img.Close()
	s, ok := img.Lookup(kindDevice, processes)
	if !ok {
		return nil
	}
	if s.Size > mostProcesses {
		return fmt.Errorf("%s: a list of %d bytes of offload processes", img.Path(), s.Size)
	}
	text := make([]byte, s.Size)
	if err := img.ReadSection(kindDevice, processes, text); err != nil {
		return err
	}
	var list []taken
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("%s: the list of offload processes: %w", img.Path(), err)
	}
	var greeted []chan error
	for i, one := range list {
		on, err := inPlaceOf(&d.a.order, one.Device, i)
		if err != nil {
			return err
		}
		f, err := unpack(img, strconv.FormatUint(one.ID, 10))
		if err != nil {
			return fmt.Errorf("device %s: %w", one.Device, err)
		}
		o := newOffloader(d, one.ID)
		o.start, o.model, o.used = offload.Start{Device: on, Ring: one.Ring}, one.Name, one.Memory
		if d.a.order.Sharing == devicesShare {
			o.had = on // until it has another: a device that a move chooses and does not get is in no snapshot
			d.mu.Lock()
			o.stored, d.procs[o.id] = f, o
			d.step(sessions.Event{Type: sessions.EvStored, ID: o.id})
			d.mu.Unlock()
			continue
		}
		defer f.Close()
		hello := make(chan error, 1)
		greeted = append(greeted, hello)
		d.mu.Lock()
		o.hello, d.procs[o.id] = hello, o
		d.step(sessions.Event{Type: sessions.EvRestored, ID: o.id})
		d.start(o, fmt.Sprintf("/proc/%d/fd", pid), f)
		d.mu.Unlock()
	}
	for i, hello := range greeted {
		var e error
		select {
		case e = <-hello:
		case <-d.a.quit: // a driver may hang
			return errEnded
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("device %s (%s) of the snapshot cannot be had here as %s: %w; choose another by %s (gorun devices lists them)",
				list[i].Device, list[i].Name, d.procs[list[i].ID].start.Device, e, chooser(&d.a.order)))
		}
	}
	return err
}

// chooser is the command by which a user chooses other devices for those of an image.
func chooser(order *wire.Order) string {
	if order.Onto[0] != "" {
		return "gorun migrate -to ID@NODE"
	}
	return "gorun restart -device ID"
}

// inPlaceOf is the device that an order has for process i of an image, which was on a device of that ID.
func inPlaceOf(order *wire.Order, id string, i int) (string, error) {
	if from, to := order.Onto[0], order.Onto[1]; from != "" && offload.SameDevice(from, id) {
		return offload.InPlaceOf(id, to)
	}
	if n := len(order.Devices); n > 0 {
		return offload.InPlaceOf(id, order.Devices[i%n])
	}
	return id, nil
}

// unpack copies a section to a file without a name.
func unpack(img *image.Reader, name string) (*os.File, error) {
	s, ok := img.Lookup(kindDevice, name)
	if !ok {
		return nil, errors.New("its capture is not in the image")
	}
	f, err := os.CreateTemp(roomFor(s.Size), captureName()+"*")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(f.Name()); err == nil {
		err = copySection(f, img, name, s.Size)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func copySection(f *os.File, img *image.Reader, name string, size uint64) error {
	buf := make([]byte, 4<<20)
	for at := uint64(0); at < size; {
		n := min(uint64(len(buf)), size-at)
		if err := img.ReadRange(kindDevice, name, at, buf[:n]); err != nil {
			return err
		}
		if _, err := f.Write(buf[:n]); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// wake has the processes of a restored rank go on, and tells the rank which they are.
func (d *devices) wake() {
	d.mu.Lock()
	all := d.list()
	for _, o := range all {
		if o.info != nil {
			d.tell(o.id, offload.News{Answer: &offload.Answer{Op: offload.Hello, Version: offload.Version, Info: o.info}, PID: o.pid()})
		}
	}
	d.step(sessions.Event{Type: sessions.EvOpen})
	d.mu.Unlock()
	for _, o := range all { // the rank was not heard yet, so every swapped-out process is still out
		if err := o.inviteStored(); err != nil {
			d.mu.Lock()
			d.step(sessions.Event{Type: sessions.EvDied, ID: o.id, Err: fmt.Sprintf("device %s: its turns: %v", o.device(), err)})
			d.mu.Unlock()
		}
	}
}
