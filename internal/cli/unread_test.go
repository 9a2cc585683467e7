package cli

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// A job can be ended while nobody reads its output.
func TestUnreadOutput(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		end  func(t *testing.T, h *house, p *proc)
		code int
	}{
		{"^C", nil, func(_ *testing.T, _ *house, p *proc) { p.signal(syscall.SIGINT) }, 130},
		{"kill -9", nil, func(_ *testing.T, h *house, _ *proc) { h.must("kill", "-9", h.onlyJob()) }, 143},
		{"timeout", []string{"-timeout", "5s"}, func(*testing.T, *house, *proc) {}, 124},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			// One rank: of two one may not be there yet when the output is the other's, and
			// ^C would end the job at once.
			p := h.startTo(w, "", append(c.args, "-np", "1", "sh", "-c", "trap '' INT; yes")...)
			w.Close()
			if c.args == nil {
				testenv.Until(t, func() string {
					n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
					if err != nil || n < 60_000 {
						return fmt.Sprintf("the pipe holds %d bytes, %v", n, err)
					}
					return ""
				})
			}
			c.end(t, h, p)
			if code := p.code(); code != c.code || !strings.Contains(p.err.String(), "nobody has read standard output: ") {
				t.Errorf("exit %d, want %d: %s", code, c.code, p.err)
			}
			if c.code == 130 && !strings.HasPrefix(p.err.String(), "gorun: interrupted: ") {
				t.Errorf("not told what ^C does: %s", p.err)
			}
			h.nothingLeft()
		})
	}
}
