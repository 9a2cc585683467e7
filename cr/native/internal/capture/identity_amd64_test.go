package capture

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestIdentity: what a program has given up for good, or done to where it lives, a
// restart would undo. It is refused and named.
func TestIdentity(t *testing.T) {
	tr := testAgent(t)
	for what, named := range map[string]string{
		"bounded": "CapBnd",
		"rooted":  "root folder",
		"other":   "Gid is 65534",
		"named":   "(uts)",
		"fixed":   "securebits 0x4",
		"apart":   "working directory and umask",
	} {
		if os.Getuid() != 0 && what != "apart" {
			continue // may not
		}
		v := newVictim(t, tr, what)
		c, err := v.target.capture(whole.CaptureOptions{})
		if err == nil { // securebits only the process itself tells: its copy is asked
			_, err = c.Write(image.Path(filepath.Join(t.TempDir(), "image")), image.LocalMeta(), image.Options{})
			c.Release()
		}
		if !errors.Is(err, refusal.ErrRefused) || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v", what, err)
		}
		v.Works()
		v.End()
	}
}

// TestIdentityOfCopy: what was changed after the first look is found in the copy.
func TestIdentityOfCopy(t *testing.T) {
	v := newVictim(t, testAgent(t))
	c, err := v.target.capture(whole.CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if err := c.checkIdentity(c.PID()); err != nil {
		t.Error(err)
	}
	b := &v.target.agent.births
	b.born["Groups"] += "0 77777"
	if err := c.checkIdentity(c.PID()); !errors.Is(err, refusal.ErrRefused) || !strings.Contains(err.Error(), "77777") {
		t.Error(err)
	}
}
