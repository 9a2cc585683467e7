package state

import (
	"errors"
	"strings"
	"testing"
)

const cpuinfo = `processor	: 0
model name	: Example 9000
flags		: fpu sse2 avx avx512f hypervisor aes

processor	: 1
model name	: Example 9000
flags		: fpu sse2
`

func TestReadCPU(t *testing.T) {
	h, err := readCPU(strings.NewReader(cpuinfo))
	if err != nil {
		t.Fatal(err)
	}
	if h.CPU != "Example 9000" || strings.Join(h.Flags, " ") != "aes avx avx512f sse2" {
		t.Errorf("read %q with %q", h.CPU, h.Flags)
	}
	if h.XSave != 0xe7 {
		t.Errorf("components %#x, want x87, SSE, AVX and AVX-512", h.XSave)
	}
}

func TestLocalHost(t *testing.T) {
	h, err := LocalHost()
	if err != nil {
		t.Fatal(err)
	}
	if h.Kernel == "" || h.XSave&3 != 3 {
		t.Errorf("this machine is %+v", h)
	}
	if err := (&State{Host: h}).CheckHost(); err != nil {
		t.Errorf("this machine does not fit itself: %v", err)
	}
}

func TestHostFits(t *testing.T) {
	here := Host{Kernel: "6.1", CPU: "Old", Flags: []string{"sse2", "avx"}, XSave: 7}
	for _, c := range []struct {
		name string
		need Host
		want string
	}{
		{"same", here, ""},
		{"less", Host{Flags: []string{"sse2"}, XSave: 3}, ""},
		{"extension", Host{Flags: []string{"avx512f", "sse2"}, XSave: 0xe7}, "without avx512f ("},
		{"component", Host{XSave: 1 << 9}, "without protection keys ("},
		{"unheard of", Host{XSave: 1 << 40}, "XSAVE components 0x10000000000"},
	} {
		err := c.need.fits(here)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if !errors.Is(err, ErrHost) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want one that says %q", c.name, err, c.want)
		}
	}
}
