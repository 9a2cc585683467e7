package smoke

import (
	"context"
	"errors"
	"fmt"
	"io"
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
// the device alone. Beside each is what the library takes in this process for the same bytes: copies between the device and a file. All files
// go to dir. Errors: what went wrong, first of all an array that has not come back as it was.
func Moves(q *InProcess, d provider.Mover, sizes []int, dir string, out io.Writer) error {
	fmt.Fprintf(out, "%-10s %12s %12s %12s %7s %12s %12s %7s\n", "bytes", "pause", "capture", "raw copy", "ratio", "out and in", "raw copies", "ratio")
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

// size measures one size, in turns.
func (m *moving) size(size int, out io.Writer) error {
	m.pieces = size / bytes
	if err := m.fill(); err != nil {
		return err
	}
	var took [5][]time.Duration // pause, capture, raw copy out, swap out and in, raw copies out and in
	for turn := range turns + 1 {
		t, err := m.turn()
		if err != nil {
			return err
		}
		for i := range t {
			if turn > 0 { // the first one makes files, and compiles
				took[i] = append(took[i], t[i])
			}
		}
	}
	var mid [5]time.Duration
	for i := range took {
		slices.Sort(took[i])
		mid[i] = took[i][turns/2].Round(time.Microsecond)
	}
	_, err := fmt.Fprintf(out, "%-10s %12v %12v %12v %7.2f %12v %12v %7.2f\n", fmt.Sprintf("%d MB", size>>20), mid[0], mid[1], mid[2], float64(mid[1])/float64(mid[2]), mid[3], mid[4], float64(mid[3])/float64(mid[4]))
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

// turn takes each time once.
func (m *moving) turn() (took [5]time.Duration, err error) {
	ctx := context.Background()
	begin := time.Now()
	lap := func(i int, err error) error {
		took[i] = time.Since(begin)
		begin = time.Now()
		return err
	}
	if err = lap(0, m.there.Pause(ctx)); err != nil {
		return took, err
	}
	if err = m.capture(ctx, false); err == nil {
		err = m.there.Resume(ctx)
	}
	if err = lap(1, err); err != nil {
		return took, err
	}
	if err = errors.Join(os.Remove(m.path), lap(2, m.copyOut())); err != nil {
		return took, err
	}
	if err = os.Remove(m.path); err != nil {
		return took, err
	}
	begin = time.Now()
	if err = m.there.Pause(ctx); err == nil {
		err = m.capture(ctx, true)
	}
	if err == nil {
		err = m.there.Restore(ctx, m.path, number(m.there))
	}
	if err == nil {
		err = m.there.Resume(ctx)
	}
	if err = lap(3, err); err != nil {
		return took, err
	}
	if err = os.Remove(m.path); err != nil {
		return took, err
	}
	begin = time.Now()
	if err = m.copyOut(); err == nil {
		err = m.copyIn()
	}
	err = errors.Join(lap(4, err), os.Remove(m.path), m.same())
	return took, err
}

func (m *moving) capture(ctx context.Context, end bool) error {
	wait, err := m.there.Capture(m.path, end, nil)
	if err == nil {
		err = wait(ctx)
	}
	return err
}

// copyOut copies all that is in this process's memories to a file.
func (m *moving) copyOut() error {
	f, err := os.Create(m.path)
	if err != nil {
		return err
	}
	p := make([]byte, bytes)
	for _, mem := range m.mine {
		err = errors.Join(m.here.q.Read(p, mem, 0), m.here.wait())
		if err == nil {
			_, err = f.Write(p)
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

// copyIn copies it back.
func (m *moving) copyIn() error {
	f, err := os.Open(m.path)
	if err != nil {
		return err
	}
	p := make([]byte, bytes)
	for _, mem := range m.mine {
		if _, err = io.ReadFull(f, p); err == nil {
			err = errors.Join(m.here.q.Write(mem, 0, p), m.here.wait())
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
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

// busyPause pauses a device in the middle of a kernel.
func busyPause(q *InProcess, d provider.Mover, out io.Writer) error {
	there, err := newThrough(d, q.library)
	if err != nil {
		return err
	}
	if err := errors.Join(there.launch("busy"), there.wait()); err != nil {
		return err
	}
	var over []time.Duration
	for range turns {
		begin := time.Now()
		if err := errors.Join(there.launch("busy"), there.wait()); err != nil {
			return err
		}
		kernel := time.Since(begin)
		begin = time.Now()
		if err := errors.Join(there.launch("busy"), d.Pause(context.Background())); err != nil {
			return err
		}
		over = append(over, time.Since(begin)-kernel)
		if err := errors.Join(d.Resume(context.Background()), there.wait()); err != nil {
			return err
		}
	}
	slices.Sort(over)
	_, err = fmt.Fprintf(out, "pause in the middle of a kernel: %v after the kernel's end (from %v to %v)\n", over[turns/2], over[0], over[turns-1])
	return err
}
