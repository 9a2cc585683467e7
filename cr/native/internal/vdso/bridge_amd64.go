//go:build linux

package vdso

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/code"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// A program keeps the addresses of the vdso's functions. Where the kernel's code
// cannot stand at its old place because it is another kernel's, or where its
// clock has to be moved on, the old entry points get jumps: to the kernel's
// function where it now is, to code that adds an offset, or to a system call.
//
// The jumps and that code are ordinary memory of the process from then on. The
// next image holds them; the vdso they jump to is then that image's, and stands
// there again or is itself replaced by jumps. Offsets add up that way.

// Offset is what has to be added to the clocks of this machine, in
// nanoseconds, so that they do not go backwards for the program.
type Offset struct{ Mono, Boot int64 }

// None tells that nothing has to be added.
func (o Offset) None() bool { return o == Offset{} }

// OffsetFrom compares the clocks of the image with those here and now.
func OffsetFrom(imagedMono, imagedBoot int64) (Offset, error) {
	var mono, boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		return Offset{}, err
	}
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return Offset{}, err
	}
	return Offset{max(0, imagedMono-mono.Nano()), max(0, imagedBoot-boot.Nano())}, nil
}

// fallbacks are the system calls that do what functions of the vdso do.
var fallbacks = map[string]uint32{
	"clock_gettime": unix.SYS_CLOCK_GETTIME,
	"clock_getres":  unix.SYS_CLOCK_GETRES,
	"gettimeofday":  unix.SYS_GETTIMEOFDAY,
	"time":          unix.SYS_TIME,
	"getcpu":        unix.SYS_GETCPU,
	"getrandom":     unix.SYS_GETRANDOM,
}

// Bridge is the code that is written in place of an old vdso.
type Bridge struct {
	Jumps []byte // at its old place
	Code  []byte // elsewhere: at the address that was given
}

const jumpSize = 14

// BridgeTo makes jumps from the functions of the vdso old to those of the one
// that is now at base with the functions now; same says that both are of the
// same kernel. The code that they need will stand at codeAt.
func BridgeTo(old *state.VDSO, base uint64, now map[string]uint64, same bool, off Offset, codeAt uint64) (Bridge, error) {
	b := Bridge{Jumps: bytes.Repeat([]byte{0xcc}, int(old.End-old.Start))}
	place := func(code []byte) uint64 {
		at := codeAt + uint64(len(b.Code))
		b.Code = append(b.Code, code...)
		b.Code = append(b.Code, make([]byte, -len(b.Code)&15)...)
		return at
	}
	placed := make(map[string]uint64)
	target := func(name string) uint64 {
		if at, ok := placed[name]; ok {
			return at
		}
		var at uint64
		here, ok := lookup(now, name)
		switch nr, known := fallbacks[name]; {
		case ok && (same || name != "getrandom"):
			// The state that getrandom keeps in the program's memory is of the old kernel's
			// making.
			at = base + here
		case known:
			at = place(syscallCode(nr))
		default:
			at = place(noFunction())
		}
		if name == "clock_gettime" && !off.None() {
			at = place(movedClock(at, off))
		}
		placed[name] = at
		return at
	}
	end := uint64(0)
	for _, name := range entries(old.Symbols) {
		offset := old.Symbols[name]
		if offset < end && offset+jumpSize != end || offset+jumpSize > uint64(len(b.Jumps)) {
			return b, fmt.Errorf("%w: no room for a jump at function %s of the kernel it was imaged on", state.ErrHost, name)
		}
		if offset+jumpSize == end {
			continue // another name of the one before
		}
		copy(b.Jumps[offset:], jumpTo(target(plain(name))))
		end = offset + jumpSize
	}
	return b, nil
}

// entries lists functions by offset, those with the same offset by name.
func entries(symbols map[string]uint64) []string {
	names := slices.Sorted(maps.Keys(symbols))
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case symbols[a] < symbols[b]:
			return -1
		case symbols[a] > symbols[b]:
			return 1
		}
		return 0
	})
	return names
}

func plain(name string) string { return strings.TrimPrefix(name, "__vdso_") }

// lookup finds a function by its plain name.
func lookup(symbols map[string]uint64, name string) (uint64, bool) {
	if at, ok := symbols["__vdso_"+name]; ok {
		return at, true
	}
	at, ok := symbols[name]
	return at, ok
}

// jumpTo changes no register: jmp *0(rip), the address behind it.
func jumpTo(addr uint64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{0xff, 0x25, 0, 0, 0, 0}, addr)
}

// syscallCode makes the system call that takes a function's arguments as they
// are: none of them has more than three. mov eax, nr; syscall; ret.
func syscallCode(nr uint32) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{0xb8}, nr), 0x0f, 0x05, 0xc3)
}

// noFunction says ENOSYS. mov rax, -38; ret.
func noFunction() []byte { return []byte{0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff, 0xc3} }

// movedClock is clock_gettime of the kernel at addr with an offset.
func movedClock(addr uint64, off Offset) []byte {
	text := code.Clock()
	for i, v := range []uint64{addr, uint64(off.Mono / 1e9), uint64(off.Mono % 1e9), uint64(off.Boot / 1e9), uint64(off.Boot % 1e9)} {
		mark := bytes.Repeat([]byte{byte(i + 1)}, 8)
		for at := bytes.Index(text, mark); at >= 0; at = bytes.Index(text, mark) {
			binary.LittleEndian.PutUint64(text[at:], v)
		}
	}
	return text
}
