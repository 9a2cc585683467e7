// Package terminal takes what waits in a pseudo-terminal out of it and puts it in: the kernel shows
// it to nobody who does not take it. No other process may use the terminal meanwhile.
package terminal

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Content is what waits: see state.Terminal.
type Content struct {
	Lines  [][]byte
	Typed  []byte
	Output []byte
}

// Settings are a struct termios2.
type Settings = unix.Termios

// Get reads the settings, by either side.
func Get(fd int) (*Settings, error) { return unix.IoctlGetTermios(fd, unix.TCGETS2) }

// Set sets them.
func Set(fd int, t *Settings) error { return unix.IoctlSetTermios(fd, unix.TCSETS2, t) }

// Bytes are the settings as the kernel has them.
func Bytes(t *Settings) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(t)), unsafe.Sizeof(*t))...)
}

// FromBytes is the reverse of Bytes.
func FromBytes(p []byte) (*Settings, error) {
	t := &Settings{}
	if len(p) != int(unsafe.Sizeof(*t)) {
		return nil, fmt.Errorf("settings of %d bytes", len(p))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(t)), unsafe.Sizeof(*t)), p)
	return t, nil
}

// Peer opens the side that reads what is typed, by the other one, be it locked or not.
func Peer(master int) (int, error) {
	locked, err := Locked(master)
	if err != nil {
		return -1, err
	}
	if locked {
		if err := Lock(master, false); err != nil {
			return -1, err
		}
		defer Lock(master, true)
	}
	fd, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if e != 0 {
		return -1, fmt.Errorf("opening the terminal: %w", e)
	}
	return int(fd), nil
}

// Locked reports whether it cannot be opened.
func Locked(master int) (bool, error) {
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTLCK)
	return n != 0, err
}

// Lock forbids opening it, or permits it again.
func Lock(master int, on bool) error {
	n := 0
	if on {
		n = 1
	}
	return unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, n)
}

// waits tells whether a side has something to read.
func waits(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, _ := unix.Poll(p, 0)
	return n == 1 && p[0].Revents&unix.POLLIN != 0
}

// Take takes out all that waits. The terminal has to be told its settings after it, as Put does.
func Take(master, peer int, t *Settings) (c Content, err error) {
	var buf [16 << 10]byte
	for waits(master) {
		n, err := unix.Read(master, buf[:])
		if err != nil {
			return c, fmt.Errorf("what was written: %w", err)
		}
		c.Output = append(c.Output, buf[:n]...)
	}
	for t.Lflag&unix.ICANON != 0 { // each read gives a line
		n, err := unix.Read(peer, buf[:])
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			return c, fmt.Errorf("what was typed: %w", err)
		}
		c.Lines = append(c.Lines, append([]byte{}, buf[:n]...))
	}
	plain := quiet(t)
	plain.Lflag = 0 // the beginning of a line can be read
	if err := Set(peer, plain); err != nil {
		return c, err
	}
	for {
		n, err := unix.Read(peer, buf[:])
		if errors.Is(err, unix.EAGAIN) || err == nil && n == 0 {
			return c, nil
		}
		if err != nil {
			return c, fmt.Errorf("what was typed: %w", err)
		}
		c.Typed = append(c.Typed, buf[:n]...)
	}
}

// quiet are settings with which what is typed stays as it is, and lines are lines.
func quiet(t *Settings) *Settings {
	q := *t
	q.Iflag, q.Oflag, q.Lflag = 0, 0, t.Lflag&(unix.ICANON|unix.IEXTEN)
	q.Cc = [len(q.Cc)]uint8{}
	for _, i := range []int{unix.VEOF, unix.VEOL, unix.VEOL2} {
		q.Cc[i] = t.Cc[i]
	}
	if q.Lflag&unix.ICANON == 0 { // there these are numbers
		q.Cc[unix.VMIN], q.Cc[unix.VTIME] = 1, 0
	}
	return &q
}

// Put puts in what is to wait, and gives the terminal its settings.
func Put(master, peer int, t *Settings, c Content) error {
	err := Set(peer, quiet(t))
	if err == nil {
		err = putTyped(master, peer, t, c)
	}
	if err == nil {
		err = put(peer, c.Output)
	}
	return errors.Join(err, Set(peer, t))
}

// putTyped types. The kernel takes it up a moment later, and that has to be with the settings that are quiet: whole
// lines are counted, and the beginning of one shows by its echo.
func putTyped(master, peer int, t *Settings, c Content) error {
	count := 0
	for _, line := range c.Lines {
		typed := line
		if !ends(line, t) {
			typed = append(append([]byte{}, line...), t.Cc[unix.VEOF])
		}
		if err := put(master, typed); err != nil {
			return err
		}
		count += len(line)
	}
	if t.Lflag&unix.ICANON == 0 {
		if err := put(master, c.Typed); err != nil {
			return err
		}
		return arrive(func() (bool, error) {
			n, err := unix.IoctlGetInt(peer, unix.TIOCINQ)
			return n >= len(c.Typed), err
		})
	}
	if err := arrive(func() (bool, error) {
		n, err := unix.IoctlGetInt(peer, unix.TIOCINQ)
		return n >= count, err
	}); err != nil || len(c.Typed) == 0 {
		return err
	}
	q := quiet(t)
	q.Lflag |= unix.ECHO
	if err := Set(peer, q); err != nil {
		return err
	}
	if err := put(master, c.Typed); err != nil {
		return err
	}
	var echo [256]byte
	left := len(c.Typed)
	return arrive(func() (bool, error) {
		for left > 0 && waits(master) {
			n, err := unix.Read(master, echo[:min(left, len(echo))])
			if err != nil {
				return false, err
			}
			left -= n
		}
		return left == 0, nil
	})
}

// ends tells whether a line was ended by a character of it.
func ends(line []byte, t *Settings) bool {
	if len(line) == 0 {
		return false
	}
	last := line[len(line)-1]
	return last == '\n' || last != 0 && (last == t.Cc[unix.VEOL] || last == t.Cc[unix.VEOL2] && t.Lflag&unix.IEXTEN != 0)
}

// put writes all to one side.
func put(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := unix.Write(fd, p)
		if err != nil {
			return fmt.Errorf("writing to a terminal: %w", err)
		}
		p = p[n:]
	}
	return nil
}

// arrive waits until the kernel has taken up what was typed.
func arrive(there func() (bool, error)) error {
	const limit = 10 * time.Second
	for start := time.Now(); ; time.Sleep(50 * time.Microsecond) {
		if ok, err := there(); ok || err != nil {
			return err
		}
		if time.Since(start) > limit {
			return errors.New("what is typed at a terminal does not arrive there")
		}
	}
}
