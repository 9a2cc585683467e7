package smoke

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/device/provider"
)

// Least is the least number of MB for Moves: that of one copy.
const Least = bytes >> 20

// Moves says how long it takes to pause a device, to capture it, and to swap it out and in, for arrays of so many bytes that are valid on
// the device alone, and what all of a checkpoint takes if they are valid on the host as well. Beside each is what the library takes in this process for the same bytes: copies between the device and a file. All files
// go to dir. Errors: what went wrong, first of all an array that has not come back as it was.
func Moves(q *InProcess, d provider.Mover, sizes []int, dir string, out io.Writer) error {
	fmt.Fprintf(out, "%-10s %12s %12s %12s %12s %7s %12s %12s %7s\n", "bytes", "pause", "on host, too", "capture", "raw copy", "ratio", "out and in", "raw copies", "ratio")
	for _, size := range sizes {
		m := &moving{here: q, there: d, path: filepath.Join(dir, "capture"), piece: make([]byte, bytes)}
		if err := errors.Join(m.size(size, out), m.end()); err != nil {
			return fmt.Errorf("%d MB: %w", size>>20, err)
		}
	}
	return busyPause(q, d, out)
}

// moving is a memory of one size, on both sides.
type moving struct {
	here  *InProcess
	there provider.Mover
	path  string
	piece []byte

	pieces int
	mine   []driver.Mem // in process
	theirs []provider.Memory
}

// The times that are taken of a size.
const (
	pausing   = iota
	capturing // until it goes on
	skipping  // pause, capture and resume, with nothing to be read
	copying   // all pieces to a file
	swapping  // out and in
	twice     // all pieces to a file and back
	times
)

// size measures one size, in turns.
func (m *moving) size(size int, out io.Writer) error {
	m.pieces = size / bytes
	if err := m.fill(); err != nil {
		return err
	}
	var all [times][]time.Duration
	for turn := range turns + 1 {
		for i, do := range []func() error{pausing: m.pause, capturing: m.captured, skipping: m.skipped, copying: m.copyOut, swapping: m.swap, twice: m.copyBoth} {
			begin := time.Now()
			if err := do(); err != nil {
				return err
			}
			if turn > 0 { // the first one makes files, and compiles
				all[i] = append(all[i], time.Since(begin))
			}
			if err := os.Remove(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) { // each makes its own; a pause makes none
				return err
			}
		}
		if err := m.same(); err != nil {
			return err
		}
	}
	var mid [times]time.Duration
	for i := range all {
		slices.Sort(all[i])
		mid[i] = all[i][turns/2].Round(time.Microsecond)
	}
	_, err := fmt.Fprintf(out, "%-10s %12v %12v %12v %12v %7.2f %12v %12v %7.2f\n", fmt.Sprintf("%d MB", size>>20), mid[pausing], mid[skipping],
		mid[capturing], mid[copying], float64(mid[capturing])/float64(mid[copying]), mid[swapping], mid[twice], float64(mid[swapping])/float64(mid[twice]))
	return err
}

// fill makes memories of one piece each, with different contents.
func (m *moving) fill() error {
	for i := range m.pieces {
		mine, err := m.here.q.Alloc(bytes)
		if err != nil {
			return fmt.Errorf("in process: %w", err)
		}
		theirs, err := m.there.Alloc(bytes)
		if err != nil {
			return fmt.Errorf("through an offload process: %w", err)
		}
		m.mine, m.theirs = append(m.mine, mine), append(m.theirs, theirs)
		m.content(i)
		if err := errors.Join(m.here.q.Write(mine, 0, m.piece), m.here.wait()); err != nil {
			return err
		}
		t, err := m.there.Write(theirs, 0, m.piece)
		if err == nil {
			_, err = m.there.Wait(context.Background(), t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// content fills the piece with that of a number.
func (m *moving) content(i int) {
	x := uint32(i)*2654435761 + 1
	for j := range m.piece {
		x = x*1664525 + 1013904223
		m.piece[j] = byte(x >> 24)
	}
}

func (m *moving) pause() error { return m.there.Pause(context.Background()) }

// captured captures the device, which is paused, and has it go on.
func (m *moving) captured() error {
	if err := m.capture(false, nil); err != nil {
		return err
	}
	return m.there.Resume(context.Background())
}

// skipped is all that a checkpoint does with arrays that are valid on the host.
func (m *moving) skipped() error {
	if err := m.pause(); err != nil {
		return err
	}
	if err := m.capture(false, m.theirs); err != nil {
		return err
	}
	return m.there.Resume(context.Background())
}

// swap swaps the device out and in again.
func (m *moving) swap() error {
	if err := m.pause(); err != nil {
		return err
	}
	if err := m.capture(true, nil); err != nil {
		return err
	}
	if err := m.there.Restore(context.Background(), m.path, number(m.there)); err != nil {
		return err
	}
	return m.there.Resume(context.Background())
}

func (m *moving) capture(end bool, skip []provider.Memory) error {
	wait, err := m.there.Capture(m.path, end, skip)
	if err == nil {
		err = wait(context.Background())
	}
	return err
}

func (m *moving) copyBoth() error {
	if err := m.copyOut(); err != nil {
		return err
	}
	return m.copyIn()
}

// copyOut copies all that is in this process's memories to a file.
func (m *moving) copyOut() error {
	f, err := os.Create(m.path)
	if err != nil {
		return err
	}
	return errors.Join(m.each(func(mem driver.Mem) error {
		if err := errors.Join(m.here.q.Read(m.piece, mem, 0), m.here.wait()); err != nil {
			return err
		}
		_, err := f.Write(m.piece)
		return err
	}), f.Close())
}

// copyIn copies it back.
func (m *moving) copyIn() error {
	f, err := os.Open(m.path)
	if err != nil {
		return err
	}
	return errors.Join(m.each(func(mem driver.Mem) error {
		if _, err := io.ReadFull(f, m.piece); err != nil {
			return err
		}
		return errors.Join(m.here.q.Write(mem, 0, m.piece), m.here.wait())
	}), f.Close())
}

// each does something with each memory of this process.
func (m *moving) each(do func(driver.Mem) error) error {
	for _, mem := range m.mine {
		if err := do(mem); err != nil {
			return err
		}
	}
	return nil
}

// same compares the first and the last memory of the offload process with what was written to it.
func (m *moving) same() error {
	p := make([]byte, bytes)
	for _, i := range []int{0, m.pieces - 1} {
		t, err := m.there.Read(p, m.theirs[i], 0)
		if err == nil {
			_, err = m.there.Wait(context.Background(), t)
		}
		if err != nil {
			return err
		}
		if m.content(i); !slices.Equal(p, m.piece) {
			return fmt.Errorf("memory %d has not come back as it was", i)
		}
	}
	return nil
}

func (m *moving) end() error {
	var errs []error
	for _, mem := range m.mine {
		errs = append(errs, m.here.q.Free(mem))
	}
	for _, mem := range m.theirs {
		m.there.Free(mem)
	}
	return errors.Join(errs...)
}

// number is the number of a device among those of its library.
func number(d provider.Device) (n int) {
	_, text, _ := strings.Cut(d.Info().ID, ":")
	n, _ = strconv.Atoi(text)
	return n
}

// busyPause pauses a device in the middle of a kernel, and prints how long after that the pause was there.
func busyPause(q *InProcess, d provider.Mover, out io.Writer) error {
	d.(provider.Timer).SetTimed(true)
	there, err := newThrough(d, q.language)
	if err != nil {
		return err
	}
	defer d.Free(there.mem)
	if err := errors.Join(there.launch("busy"), there.wait()); err != nil { // it compiles
		return err
	}
	var after []time.Duration
	for range 4 * turns {
		took, ran, err := there.pausedIn("busy")
		if err != nil {
			return err
		}
		if ran {
			after = append(after, took)
		}
		if len(after) == turns {
			slices.Sort(after)
			_, err = fmt.Fprintf(out, "pause in the middle of a kernel: %v after the kernel's end (from %v to %v)\n", after[turns/2], after[0], after[turns-1])
			return err
		}
	}
	_, err = fmt.Fprintln(out, "pause in the middle of a kernel: not measured, as none ran when it was asked for")
	return err
}

// pausedIn pauses the device while it runs a kernel. It reports how long after the kernel's end the pause was there, and whether the kernel ran when the
// pause was asked for: one that has not begun waits for the end of the pause.
func (s *through) pausedIn(kernel string) (after time.Duration, ran bool, err error) {
	d := s.d.(provider.Mover)
	if err := s.launch(kernel); err != nil {
		return 0, false, err
	}
	time.Sleep(2 * time.Millisecond) // the process takes it meanwhile
	asked := time.Now()
	if err := d.Pause(context.Background()); err != nil {
		return 0, false, err
	}
	paused := time.Now()
	if err := d.Resume(context.Background()); err != nil {
		return 0, false, err
	}
	k, err := d.Wait(context.Background(), s.last)
	return paused.Sub(k.End), err == nil && k.Start.Before(asked) && asked.Before(k.End), err
}
