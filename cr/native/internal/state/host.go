package state

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrHost is wrapped by the error that CheckHost returns.
var ErrHost = errors.New("this machine lacks what the image needs")

// extensions are the names in /proc/cpuinfo of what a program may have found
// out about the processor when it started, and has used since. Go programs look
// once and keep the answer in variables, which are part of the image.
var extensions = strings.Fields(`
	3dnowprefetch abm adx aes amx_bf16 amx_int8 amx_tile avx avx2 avx512_4fmaps avx512_4vnniw avx512_bf16
	avx512_bitalg avx512_fp16 avx512_vbmi2 avx512_vnni avx512_vp2intersect avx512_vpopcntdq avx512bw avx512cd
	avx512dq avx512er avx512f avx512ifma avx512pf avx512vbmi avx512vl avx_vnni bmi1 bmi2 clflushopt clwb cmov
	cx16 cx8 erms f16c fma fma4 fsgsbase fsrm gfni lahf_lm mmx mmxext movbe movdir64b movdiri pclmulqdq pku
	pni popcnt prefetchw rdpid rdrand rdseed rdtscp serialize sha512 sha_ni sm3 sm4 sse sse2 sse4_1 sse4_2 sse4a ssse3
	tbm tsc umip vaes vpclmulqdq waitpkg xop xsave xsavec xsaveopt`)

// components names the parts of a thread's state that the XSAVE instruction
// keeps, by bit, with the extension that brings them.
var components = []struct {
	bit       uint
	name      string
	extension string
}{
	{0, "x87", ""}, {1, "SSE", ""}, {2, "AVX", "avx"},
	{5, "AVX-512 masks", "avx512f"}, {6, "AVX-512 upper halves", "avx512f"}, {7, "AVX-512 registers 16 to 31", "avx512f"},
	{9, "protection keys", "pku"}, {17, "AMX tile configuration", "amx_tile"}, {18, "AMX tiles", "amx_tile"},
}

// LocalHost describes this machine. XSave holds all components it has; an image
// keeps those that its threads use.
func LocalHost() (Host, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return Host{}, fmt.Errorf("name of the kernel: %w", err)
	}
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return Host{}, fmt.Errorf("features of the processor: %w", err)
	}
	defer f.Close()
	h, err := readCPU(f)
	h.Kernel = unix.ByteSliceToString(u.Release[:])
	return h, err
}

// readCPU reads the first processor of /proc/cpuinfo.
func readCPU(r io.Reader) (Host, error) {
	var h Host
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch strings.TrimSpace(key) {
		case "":
			if h.CPU != "" {
				return h, nil // the end of the first
			}
		case "model name":
			h.CPU = strings.TrimSpace(value)
		case "flags":
			for _, flag := range strings.Fields(value) {
				if slices.Contains(extensions, flag) {
					h.Flags = append(h.Flags, flag)
				}
			}
			slices.Sort(h.Flags)
			h.XSave = xsaveOf(h.Flags)
		}
	}
	return h, lines.Err()
}

func xsaveOf(flags []string) uint64 {
	var mask uint64
	for _, c := range components {
		if c.extension == "" || slices.Contains(flags, c.extension) {
			mask |= 1 << c.bit
		}
	}
	return mask
}

// CheckHost says what the image needs of a machine and this one does not have,
// each by its name; nil if nothing is missing.
func (s *State) CheckHost() error {
	here, err := LocalHost()
	if err != nil {
		return err
	}
	return s.Host.fits(here)
}

// fits compares what an image needs with a machine.
func (h Host) fits(here Host) error {
	var missing []string
	for _, flag := range h.Flags {
		if !slices.Contains(here.Flags, flag) {
			missing = append(missing, flag)
		}
	}
	for _, c := range components {
		if h.XSave&^here.XSave&(1<<c.bit) != 0 && (c.extension == "" || !slices.Contains(missing, c.extension)) {
			missing = append(missing, c.name)
		}
	}
	if rest := h.XSave &^ here.XSave &^ knownComponents(); rest != 0 {
		missing = append(missing, fmt.Sprintf("XSAVE components %#x", rest))
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("%w: imaged on %s with Linux %s, here is %s with Linux %s without %s (restart on a machine that has them)",
		ErrHost, orUnknown(h.CPU), orUnknown(h.Kernel), orUnknown(here.CPU), orUnknown(here.Kernel), strings.Join(missing, ", "))
}

func knownComponents() uint64 {
	var mask uint64
	for _, c := range components {
		mask |= 1 << c.bit
	}
	return mask
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
